"""Looking at a definition: the picture, the listing, and the promises that it keeps."""
