"""Support tickets in SQLite, two tools, ten fixtures, and the replies of real local models in recordings/.

The code is a module of the library, so that ``loopmachine demo`` runs it too: src/loopmachine/demo.py.
"""

import sys
from pathlib import Path

from loopmachine.demo import main

if __name__ == "__main__":
    sys.exit(main(Path(__file__).with_name("recordings")))
