"""What holds for all tests: generated examples are the same at every run, and nothing reaches the network.

The guard is in place from before anything is collected until the end: for what test modules import, for fixtures of
any scope and for tests. Processes that tests start are not held back.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack

import pytest
from hypothesis import settings

from loopmachine.testing import NetworkRefused, no_network

settings.register_profile("same", derandomize=True, deadline=None, database=None)
settings.load_profile("same")


def pytest_configure(config: pytest.Config) -> None:
    """Guard the whole session."""
    guard = ExitStack()
    guard.enter_context(no_network())
    config.add_cleanup(guard.close)


def _see_that_it_is_guarded() -> None:
    with pytest.raises(NetworkRefused):
        sys.audit("socket.connect", None, ("192.0.2.1", 9))


def pytest_collectstart() -> None:
    """Before a module is imported."""
    _see_that_it_is_guarded()


def pytest_fixture_setup() -> None:
    """Before a fixture of any scope."""
    _see_that_it_is_guarded()


def pytest_runtest_call() -> None:
    """Before a test."""
    _see_that_it_is_guarded()
