"""``pytest --loop-cov``: which rows, guard outcomes and final states of a definition the tests have seen.

The runs are as they are without it: the engine tells the rows that each event takes, and they are counted here. Seen
are the runs in pytest's own process and in those of pytest-xdist, in no others.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from threading import Lock
from typing import Any

import pytest

from loopmachine.definition import Definition
from loopmachine.errors import LoopError
from loopmachine.machine import engine
from loopmachine.review.coverage import Coverage
from loopmachine.review.diagram import CannotDraw, load, write

Rows = tuple[str, ...]  #: the rows that an event took


class Paths:
    """How often each path was taken."""

    def __init__(self) -> None:
        self.taken: Counter[Rows] = Counter()
        self._lock = Lock()  # runs may be in several threads

    def __call__(self, rows: Rows) -> None:
        """Count a path."""
        with self._lock:
            self.taken[rows] += 1

    def rows(self) -> Counter[str]:
        """How often each row was taken."""
        counts: Counter[str] = Counter()
        for path, times in self.taken.items():
            for row_id in path:
                counts[row_id] += times
        return counts


class LoopCov:
    """Watches the runs of a definition from when it is made until pytest is unconfigured, and says what it saw."""

    def __init__(self, config: pytest.Config, where: str, definition: Definition) -> None:
        self._config = config
        self._where = where
        self._definition = definition
        self._engine = engine(definition)
        self._watching = self._engine.watch  #: of a session around this one
        self._paths = self._engine.watch = Paths()
        self._workers: Counter[str] = Counter()  #: what the workers of pytest-xdist saw
        self._lost = 0  #: workers that did not say
        self._said: list[tuple[str, bool]] = []  #: lines of the summary, and whether each is bad news

    def pytest_unconfigure(self) -> None:
        """Watch no longer."""
        self._engine.watch = self._watching

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a worker saw."""
        seen: Mapping[str, int] | None = getattr(node, "workeroutput", {}).get("loop_cov")
        self._lost += seen is None
        self._workers.update(seen or {})

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Tell pytest-xdist what this worker saw; or see what all of them did, and whether that is enough."""
        seen = self._paths.rows() + self._workers
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["loop_cov"] = dict(seen)
            return
        coverage = Coverage.of(self._definition, seen)
        self._said.append((coverage.report(whole=self._config.get_verbosity() > 0), False))
        if not seen:
            self._said.append(("no run of it was seen: is it the object that the tests run?", True))
        if self._lost:
            self._said.append((f"workers that crashed, and with them what they had seen: {self._lost}", True))
        self._judge(coverage, session)
        self._draw(coverage, session)

    def _judge(self, coverage: Coverage, session: pytest.Session) -> None:
        least = self._config.getoption("loop_cov_fail_under")
        if least is not None and coverage.share.percent < least:
            self._fail(f"of rows and outcomes {coverage.share}, and less than {least:g} %", session)

    def _draw(self, coverage: Coverage, session: pytest.Session) -> None:
        svg = self._config.getoption("loop_cov_svg")
        if svg is not None:
            try:
                write(self._definition, [svg], "svg", counts=coverage.taken)
            except CannotDraw as error:
                self._fail(f"no picture: {error}", session)

    def _fail(self, why: str, session: pytest.Session) -> None:
        self._said.append((f"FAILED: {why}", True))
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say it."""
        terminalreporter.write_sep("=", f"loop coverage: {self._where}")
        for text, bad in self._said:
            terminalreporter.write_line(text, red=bad)


def watch(config: pytest.Config) -> None:
    """Watch what the options ask for. Raises UsageError where that can't be."""
    named, least = config.getoption("loop_cov"), config.getoption("loop_cov_fail_under")
    if named is None:
        raise pytest.UsageError("--loop-cov-fail-under and --loop-cov-svg need --loop-cov, which says what to watch")
    where, *others = dict.fromkeys(named)
    if others:
        each = " and ".join([where, *others])
        raise pytest.UsageError(f"--loop-cov: one definition is watched in a session, not {each}")
    if least is not None and not 0 <= least <= 100:
        raise pytest.UsageError(f"--loop-cov-fail-under must be a number from 0 to 100, not {least:g}")
    if config.getoption("collectonly"):
        return
    path = list(sys.path)
    try:
        plugin = LoopCov(config, where, load(where))
    except LoopError as error:
        hint = "for the tool-calling loop write --loop-cov behind the paths of the tests"
        raise pytest.UsageError(f"--loop-cov: {error}; {hint}") from None
    finally:
        sys.path[:] = path  # the tests import as they do without it
    config.pluginmanager.register(plugin, "loop-cov")
