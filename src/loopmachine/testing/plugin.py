"""The pytest plugin: whoever installs the library has its fixtures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from loopmachine.testing import network


@pytest.fixture
def no_network() -> Iterator[None]:
    """Refuse every socket but loopback and Unix ones. For all tests: ``usefixtures = no_network`` in pytest's ini."""
    with network.no_network():
        yield
