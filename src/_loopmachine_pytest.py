"""The pytest plugin: whoever installs the library has its fixture and options.

Beside the library and not in it, as pytest imports its plugins at every start: the library is loaded when it is asked
for, and not before a user's coverage measurement has begun.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def no_network() -> Iterator[None]:
    """Refuse every socket but loopback and Unix ones. For all tests: ``usefixtures = no_network`` in pytest's ini."""
    from loopmachine.testing import network

    with network.no_network():
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--loop-cov`` and its companions."""
    group = parser.getgroup("loopmachine", "what the tests cover of a loop's definition")
    group.addoption(
        "--loop-cov",
        action="append",  # so that a second one is seen
        nargs="?",
        const="loopmachine.table:TOOL_LOOP",
        metavar="MODULE:DEFINITION",
        help="say which rows, guard outcomes and final states the tests' runs saw, of the tool-calling loop or the "
        "definition named; runs in processes that the tests start are not seen",
    )
    group.addoption(
        "--loop-cov-fail-under",
        type=float,
        metavar="PERCENT",
        help="fail where a smaller share of the rows and guard outcomes was seen",
    )
    group.addoption(
        "--loop-cov-svg",
        metavar="PATH",
        help="draw the diagram with how often each row was taken, and fail where it can't be written",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Watch what the options ask for; without them nothing is loaded."""
    options = ("loop_cov", "loop_cov_fail_under", "loop_cov_svg")
    if any(config.getoption(name, None) is not None for name in options):
        from loopmachine.testing import loop_cov

        loop_cov.watch(config)
