"""``pytest --loop-cov`` says what the tests of a loop have seen, and changes nothing. Each test is a pytest run."""

from __future__ import annotations

import runpy
import sys
import threading
from collections import Counter
from collections.abc import Callable

import pytest

import _loopmachine_pytest as plugin
from loopmachine.machine import engine
from loopmachine.review.diagram import picture
from loopmachine.table import TOOL_LOOP
from loopmachine.testing import loop_cov

pytest_plugins = ["pytester"]

GATE = '''
import attrs
from loopmachine import Definition, Row, State, advance
from loopmachine.events import Event
from loopmachine.records import BaseSnapshot
from loopmachine.requests import Request

@attrs.frozen
class Pushed(Event):
    """Somebody pushed."""
    hard: bool
    at: float = 0.0

class Push(Request):
    """Somebody is to push."""
    answered_by = (Pushed,)

def hard(snapshot, event):
    """It was pushed hard."""
    return event.hard

SHUT = State("shut", "Nobody passes.", lambda snapshot: (Push(),))
ROWS = [Row(Pushed, "finished_broken", hard), Row(Pushed, "finished_open")]
OPEN = State("finished_open", "All may pass.", final="answered")
BROKEN = State("finished_broken", "Nobody will pass again.", final="fault")
GATE = Definition("shut", {SHUT: ROWS, OPEN: [], BROKEN: []})
UNREACHED = GATE.with_state(State("finished_sold", "It is gone.", final="fault"))

def push(hard):
    return advance(GATE, BaseSnapshot(state="shut"), Pushed(hard)).snapshot.state
'''
SOFT = "import gate\ndef test_soft():\n    assert gate.push(False) == 'finished_open'\n"
HARD = "import gate\ndef test_hard():\n    assert gate.push(True) == 'finished_broken'\n"
ALONE = "import gate\ndef test_guard():\n    assert gate.hard(None, gate.Pushed(True))\n"
ANSWERED = """
import pytest
from loopmachine import run

@pytest.mark.parametrize("times", range(3))
def test_answered(times):
    assert run(lambda messages: {"kind": "final", "text": "done"}, "go").answered
"""
WATCH = "--loop-cov=gate:GATE"
HEAD = "=========================== loop coverage: gate:GATE ==========================="  #: in 80 columns

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def go(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run pytest in this process on these test files, with these options."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*options: str, gate: str = GATE, **files: str) -> pytest.RunResult:
        pytester.makepyfile(gate=gate, **files)
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", *options)

    return run


def said(result: pytest.RunResult) -> tuple[int, list[str]]:
    """The exit status, and what the plugin printed: the lines from its heading to the last, which is pytest's."""
    lines = result.outlines
    start = next((place for place, line in enumerate(lines) if "loop coverage" in line), len(lines))
    return int(result.ret), lines[start:-1]


NEVER_HARD = [
    HEAD,
    "rows taken: 1 of 2 (50 %)",
    "guard outcomes seen (true: the row was taken; false: a later one was): 1 of 2 (50 %)",
    "final states reached: 1 of 2 (50 %)",
    "  never: finished_broken",
    "  row     on             to               taken  guard false",
    "  shut/1  Pushed [hard]  finished_broken  never  1",
]
ALL = [
    HEAD,
    "rows taken: 2 of 2 (100 %)",
    "guard outcomes seen (true: the row was taken; false: a later one was): 2 of 2 (100 %)",
    "final states reached: 2 of 2 (100 %)",
]
EVERY = [
    *ALL,
    "  row     on             to               taken  guard false",
    "  shut/1  Pushed [hard]  finished_broken  1      1",
    "  shut/2  Pushed [else]  finished_open    1",
]


def test_the_summary_says_what_was_never_seen(go: Run) -> None:
    """The figures, the final states, and each row with what it lacks; it fails nothing by itself."""
    assert said(go(WATCH, test_it=SOFT)) == (0, NEVER_HARD)


def test_where_all_was_seen_the_figures_are_all(go: Run) -> None:
    """Of two test files."""
    assert said(go(WATCH, test_it=SOFT, test_too=HARD)) == (0, ALL)


def test_verbose_shows_every_row_with_its_counts(go: Run) -> None:
    """And so what was seen, too."""
    assert said(go(WATCH, "-v", test_it=SOFT, test_too=HARD)) == (0, EVERY)


def test_without_a_name_it_is_the_tool_calling_loop(go: Run) -> None:
    """As it stands in loopmachine.table."""
    status, lines = said(go("--loop-cov", "-v", test_it=ANSWERED))
    taken = [line.split()[0] for line in lines if line.startswith("  ") and " 3 " in f"{line} "]
    assert (status, lines[0].strip("= "), lines[1], taken) == (
        0,
        "loop coverage: loopmachine.table:TOOL_LOOP",
        "rows taken: 5 of 55 (9 %)",
        [
            *(f"checking_cancel/{row}" for row in (1, 2)),
            *(f"checking_budget/{row}" for row in range(1, 8)),
            "awaiting_model/1",
            *(f"rechecking_cancel/{row}" for row in (1, 2)),
            *(f"validating/{row}" for row in range(1, 9)),
        ],
    )


def test_a_guard_that_is_called_by_a_test_is_not_seen(go: Run) -> None:
    """It was asked by no run; where nothing was seen at all, the summary asks whether it looks at the right object."""
    status, lines = said(go(WATCH, test_it=ALONE))
    assert (status, lines[1], lines[-1]) == (
        0,
        "rows taken: 0 of 2 (0 %)",
        "no run of it was seen: is it the object that the tests run?",
    )


# --- is it enough? ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("least", "status", "verdict"),
    [
        ("0", 0, []),
        ("50", 0, []),
        ("50.5", 1, ["FAILED: of rows and outcomes 2 of 4 (50 %), and less than 50.5 %"]),
        ("100", 1, ["FAILED: of rows and outcomes 2 of 4 (50 %), and less than 100 %"]),
    ],
)
def test_fail_under_fails_below_the_share_of_rows_and_outcomes(
    go: Run, least: str, status: int, verdict: list[str]
) -> None:
    """One of two rows and one of two outcomes are half of it, which is not less than 50 %."""
    assert said(go(WATCH, f"--loop-cov-fail-under={least}", test_it=SOFT)) == (status, [*NEVER_HARD, *verdict])


def test_all_is_enough_for_a_hundred(go: Run) -> None:
    """Nothing fails."""
    assert said(go(WATCH, "--loop-cov-fail-under=100", test_it=SOFT, test_too=HARD)) == (0, ALL)


def test_a_status_that_is_not_zero_stays_what_it_is(go: Run) -> None:
    """No test was run, which pytest says with a 5."""
    status, lines = said(go(WATCH, "--loop-cov-fail-under=100", "-k", "nothing", test_it=SOFT))
    assert (status, lines[-1]) == (5, "FAILED: of rows and outcomes 0 of 4 (0 %), and less than 100 %")


def test_it_fails_without_a_terminal_too(go: Run) -> None:
    """Where nobody prints a summary."""
    assert go(WATCH, "--loop-cov-fail-under=100", "-p", "no:terminal", test_it=SOFT).ret == 1


# --- the picture --------------------------------------------------------------------------------------------


def test_the_counts_are_drawn(go: Run, pytester: pytest.Pytester) -> None:
    """How often each row was taken, on the diagram."""
    status = go("--loop-cov", "--loop-cov-svg=seen.svg", test_it=ANSWERED).ret
    rows = ["checking_cancel/2", "checking_budget/7", "awaiting_model/1", "rechecking_cancel/2", "validating/8"]
    drawn = picture(TOOL_LOOP, "svg", counts=dict.fromkeys(rows, 3))
    assert (status, (pytester.path / "seen.svg").read_bytes()) == (0, drawn)


def test_a_picture_that_can_not_be_drawn_is_said_and_fails(go: Run) -> None:
    """After the whole report, in a sentence; it fails without a terminal too, and a status that is not zero stays."""
    svg = "--loop-cov-svg=nowhere/seen.svg"
    status, lines = said(go(WATCH, svg, test_it=SOFT))
    assert (status, lines) == (
        1,
        [*NEVER_HARD, "FAILED: no picture: nowhere/seen.svg can't be written: No such file or directory"],
    )
    assert [go(WATCH, svg, *more, test_it=SOFT).ret for more in (("-p", "no:terminal"), ("-k", "nothing"))] == [1, 5]


# --- pytest-xdist -------------------------------------------------------------------------------------------


def test_what_the_workers_see_is_put_together(go: Run) -> None:
    """Each of two runs one of the files, and together they have seen all."""
    files = {"test_it": SOFT, "test_too": HARD}
    assert said(go(WATCH, "--loop-cov-fail-under=100", "-n2", "--dist=loadfile", "-v", **files)) == (0, EVERY)


def test_a_worker_that_crashed_is_said(go: Run) -> None:
    """What it saw is not known; the one that takes its place is counted."""
    crash = "import os\ndef test_crash():\n    os._exit(3)\n"
    status, lines = said(go(WATCH, "-n1", test_a=crash, test_b=SOFT))
    wanted = [*NEVER_HARD, "workers that crashed, and with them what they had seen: 1"]
    assert (status, [line for line in lines if line in wanted]) == (1, wanted)


def test_a_worker_tells_and_leaves_the_rest_to_its_controller(go: Run, pytester: pytest.Pytester) -> None:
    """In its output, which is what pytest-xdist sends; it neither says, nor draws, nor fails."""
    worker = """
import pytest

def pytest_configure(config):
    config.workeroutput = {}

@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    with open("told", "w") as told:
        print(session.config.workeroutput, file=told)
"""
    result = go(WATCH, "--loop-cov-fail-under=100", "--loop-cov-svg=s.svg", conftest=worker, test_it=SOFT)
    told = (pytester.path / "told").read_text("utf-8")
    assert (*said(result), told, (pytester.path / "s.svg").exists()) == (
        0,
        [HEAD],
        "{'loop_cov': {'shut/2': 1}}\n",
        False,
    )


# --- bad options --------------------------------------------------------------------------------------------

NEEDED = "--loop-cov-fail-under and --loop-cov-svg need --loop-cov, which says what to watch"
TWO = "--loop-cov: one definition is watched in a session, not gate:GATE and gate:OTHER"
BEHIND = "for the tool-calling loop write --loop-cov behind the paths of the tests"
NAMED = "names no definition; module:name does, as in loopmachine.table:TOOL_LOOP"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--loop-cov-fail-under=100"], NEEDED),
        (["--loop-cov-fail-under=0"], NEEDED),
        (["--loop-cov-svg=seen.svg"], NEEDED),
        ([WATCH, "--loop-cov=gate:OTHER", WATCH], TWO),
        ([WATCH, "--loop-cov=gate:OTHER", "--loop-cov-fail-under=0"], TWO),
        ([WATCH, "--loop-cov-fail-under=100.5"], "--loop-cov-fail-under must be a number from 0 to 100, not 100.5"),
        ([WATCH, "--loop-cov-fail-under=-1"], "--loop-cov-fail-under must be a number from 0 to 100, not -1"),
        ([WATCH, "--loop-cov-fail-under=nan"], "--loop-cov-fail-under must be a number from 0 to 100, not nan"),
        (["--loop-cov", "test_it.py"], f"--loop-cov: 'test_it.py' {NAMED}; {BEHIND}"),
        (["--loop-cov=gate:OPEN"], f"--loop-cov: gate:OPEN must be a Definition, not a State; {BEHIND}"),
        (
            ["--loop-cov=gate:NONE"],
            "--loop-cov: gate:NONE can't be loaded: AttributeError: module 'gate' has no attribute 'NONE'; " + BEHIND,
        ),
        (
            ["--loop-cov=gate:UNREACHED"],
            f"--loop-cov: the definition can't be run:\n- finished_sold: no row leads here yet; {BEHIND}",
        ),
    ],
)
def test_options_that_can_not_be_are_refused_before_any_test(go: Run, options: list[str], sentence: str) -> None:
    """With what would have been right."""
    result = go(*options, test_it=SOFT)
    shown = "\n".join(line for line in result.errlines if line)
    assert (result.ret, shown) == (4, f"ERROR: {sentence}")


def test_what_is_to_be_watched_may_be_said_twice(go: Run) -> None:
    """As in the ini file and on the command line: it is watched once."""
    assert said(go(WATCH, WATCH, test_it=SOFT)) == (0, NEVER_HARD)


# --- it changes nothing -------------------------------------------------------------------------------------


def test_nothing_is_said_where_nothing_is_run(go: Run) -> None:
    """Tests that are only collected have seen nothing, and fail for nothing."""
    assert said(go(WATCH, "--loop-cov-fail-under=100", "--collect-only", test_it=SOFT)) == (0, [])


PLAIN = """
import sys
from loopmachine.machine import engine
from loopmachine.table import TOOL_LOOP

def test_it():
    assert (engine(TOOL_LOOP).watch, "loopmachine.testing.loop_cov" in sys.modules) == (None, False)
"""


def test_the_plugin_is_a_fixture_and_two_hooks() -> None:
    """Read anew, as pytest has loaded it before anything is measured."""
    made = runpy.run_path(plugin.__file__)
    own = [name for name, one in made.items() if getattr(one, "__module__", "") == "<run_path>"]
    assert own == ["no_network", "pytest_addoption", "pytest_configure"]


WITHOUT = """
import sys

def test_it():
    assert [name for name in sys.modules if name.partition(".")[0] == "loopmachine"] == []
"""


def test_without_the_option_the_library_is_not_loaded(pytester: pytest.Pytester) -> None:
    """Whoever has it installed and runs other tests does not wait for it, and it is not there before it is measured."""
    pytester.makepyfile(test_it=WITHOUT)
    assert pytester.runpytest_subprocess("-p", "no:cacheprovider").parseoutcomes() == {"passed": 1}
    pytester.makepyfile(test_it=WITHOUT + "\ndef test_fixture(no_network):\n    test_it()\n")
    assert pytester.runpytest_subprocess("-p", "no:cacheprovider").parseoutcomes() == {"passed": 1, "failed": 1}


def test_without_the_option_nothing_is_watched(pytester: pytest.Pytester) -> None:
    """The engine tells nobody, and the module that would watch is not loaded."""
    pytester.makepyfile(test_it=PLAIN)
    assert pytester.runpytest_subprocess("-p", "no:cacheprovider").ret == 0


def test_the_engine_is_the_same_while_it_is_watched_and_after(go: Run) -> None:
    """Not another one, so that what holds it is watched too; afterwards it counts no more."""
    running = engine(TOOL_LOOP)
    watching = running.watch
    assert (go("--loop-cov", test_it=ANSWERED).ret, engine(TOOL_LOOP) is running, running.watch is watching) == (
        0,
        True,
        True,
    )


def test_the_tests_import_as_they_do_without_it(go: Run, pytester: pytest.Pytester) -> None:
    """The folder in which the definition was found is no further place to import from."""
    before = list(sys.path)
    code = f"import sys\ndef test_it():\n    assert {str(pytester.path)!r} not in sys.path\n"
    assert (go(WATCH, "--import-mode=importlib", test_it=code).ret, sys.path) == (0, before)


def test_runs_in_several_threads_are_all_counted() -> None:
    """Each path as often as it was taken."""
    paths = loop_cov.Paths()
    ways = ("a/1", "b/1"), ("a/1", "b/2")

    def take() -> None:
        for _ in range(2000):
            for one in ways:
                paths(one)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert paths.rows() == Counter({"a/1": 16000, "b/1": 8000, "b/2": 8000})


def test_users_have_it_by_installing(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own, where nothing of this suite is loaded."""
    monkeypatch.setenv("COLUMNS", "80")
    pytester.makepyfile(gate=GATE, test_it=SOFT)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", WATCH, "--loop-cov-fail-under=60")
    assert said(result) == (1, [*NEVER_HARD, "FAILED: of rows and outcomes 2 of 4 (50 %), and less than 60 %"])


def test_without_its_options_nothing_is_watched(pytester: pytest.Pytester) -> None:
    """Nor is anything loaded for it."""
    config = pytester.parseconfig()
    plugin.pytest_configure(config)
    assert config.pluginmanager.get_plugin("loop-cov") is None
