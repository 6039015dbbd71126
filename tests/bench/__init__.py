"""What the library costs, as ratios within one process. Not part of the tests: `make bench` prints it."""
