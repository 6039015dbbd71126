"""``python -m loopmachine``."""

from __future__ import annotations

import sys

from loopmachine.cli import main

sys.exit(main())
