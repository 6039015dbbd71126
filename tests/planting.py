"""A pytest plugin that plants the fault named by an environment variable, before any test is collected."""

from __future__ import annotations

import os

from loopmachine.table import TOOL_LOOP
from tests.faults import VARIABLE, plant_for_good

if VARIABLE in os.environ:
    plant_for_good(os.environ[VARIABLE], TOOL_LOOP)
