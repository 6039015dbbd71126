"""What holds for all tests: generated examples are the same at every run, whatever the machine's speed."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None, database=None)
settings.load_profile("same")
