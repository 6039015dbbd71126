"""`python -m tests.faults [NAME ...]`: plant the faults named, or all."""

import sys

from tests.faults import faults, main

sys.exit(main([one for one in faults() if one.name in sys.argv[1:] or not sys.argv[1:]]))
