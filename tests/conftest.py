"""What holds for all tests: generated examples are the same at every run, whatever the machine's speed."""

from __future__ import annotations

from hypothesis import settings

#: Not as users have it, by its entry point, which pytest loads before pytest-cov counts: see addopts.
pytest_plugins = ["loopmachine.testing.plugin"]

settings.register_profile("same", derandomize=True, deadline=None, database=None)
settings.load_profile("same")
