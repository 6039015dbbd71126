"""`python -m tests.bench [few [many [rounds [imports]]]]`."""

import sys

from tests.bench.figures import main

main(*map(int, sys.argv[1:]))
