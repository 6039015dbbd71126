"""What verify prints of a Report: what is told of a whole exploration only, and what is said of a broken promise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from loopmachine import requests
from loopmachine.definition import Definition, Row, State
from loopmachine.errors import InvalidDefinition
from loopmachine.events import CancelPolled
from loopmachine.limits import Budget, Policy
from loopmachine.records import Note, Snapshot
from loopmachine.review import printing
from loopmachine.review.explore import Walk
from loopmachine.review.promises import PROMISES, Promise
from loopmachine.review.verify import Report
from loopmachine.review.world import World
from loopmachine.table import TOOL_LOOP
from tests.test_promises import asking, never, planted
from tests.test_review_circles import with_rest
from tests.test_review_reproduce import once_tired

WHERE = "somebodys:LOOP"
TINY = World(Budget(max_steps=1), Policy(), batches=(("once",),))
AGAIN = "told again, these events break nothing: a guard or an update remembers, or asks a clock or chance"


def explored(
    definition: Definition,
    world: World = TINY,
    advances: int | None = None,
    promises: Mapping[str, Promise] = PROMISES,
) -> Report:
    """The report of one small walk."""
    report = Report(definition)
    report.add({"repairs": 0}, Walk(definition, world, promises).run(advances))
    report.taken["repairs", 1] = {"validating/6"}  # as if another had taken what this one can't
    return report


def lines(report: Report) -> list[str]:
    """What is printed of it."""
    return printing.summary(WHERE, report).splitlines()


# --- a whole exploration, and one that was cut --------------------------------------------------------------


def idle(row_id: str) -> str:
    """How a row is told that is declared to be first for nothing."""
    return f"  {row_id} says why it is first, and no later row was seen to hold"


def test_a_reason_to_be_first_that_nothing_shows_is_told_and_fails_nothing() -> None:
    """Of a row that was taken, where no later one would have held; the last of its state is such, whatever it says."""
    report = explored(planted("validating/4", first_because="nothing, a lie"))
    told = [line for line in lines(report) if line.endswith("no later row was seen to hold")]
    assert idle("validating/4") in told
    shown = {both.first for both in report.orders.values()}
    silent = {row_id for row_id, _, row in report.definition.all_rows() if not row.first_because}
    assert [one for one in {*shown, *silent, *report.dead} if idle(one) in told] == []
    assert ("validating/2" in shown, "checking_budget/1" in report.dead, report.undeclared) == (True, True, [])


@pytest.mark.parametrize("advances", [None, 100], ids=["whole", "cut"])
def test_what_was_not_seen_is_told_of_a_whole_exploration_only(advances: int | None) -> None:
    """Rows never taken, rows not taken under a value, and rows that are first for nothing: cut, it may not be so."""
    report = explored(planted("validating/4", first_because="nothing, a lie"), advances=advances)
    told = "\n".join(lines(report))
    said = [word in told for word in ("  never taken ", "  not taken under repairs=0 ", idle("validating/4"))]
    assert ("  not taken before it was cut " in told) is (advances is not None)
    assert ("validating/4" in report.rows, report.dead_under("repairs", 0)) == (True, ["validating/6"])
    assert (said, report.whole) == ([advances is None] * 3, advances is None)


def test_states_whose_request_no_world_can_answer_are_named() -> None:
    """The rows behind them are no longer expected to be taken."""
    report = explored(asking("rechecking_cancel", lambda snapshot: (requests.Request(),)), promises={})
    assert "asks what no world can answer: rechecking_cancel" in lines(report)
    assert ("validating/1" in report.dead, lines(report)[-1]) == (
        True,
        "passed: every promise holds on every path that was explored",
    )
    report.broken = explored(planted("checking_cancel/1", guard=never)).broken
    assert lines(report)[-1] == "FAILED: I5 is broken"


def test_of_a_table_that_can_not_be_run_nothing_is_said_to_hold() -> None:
    """Where no row leads to a state, not every state is reachable."""
    with pytest.raises(InvalidDefinition, match="finished_sold: no row leads here yet"):
        printing.heading(WHERE, TOOL_LOOP.with_state(State("finished_sold", "It is sold.", final="limit")))


# --- a broken promise is told again -------------------------------------------------------------------------


def test_a_promise_that_is_broken_again_is_printed_without_a_doubt() -> None:
    """Its path, and its test."""
    told = "\n".join(lines(explored(planted("checking_cancel/1", guard=never))))
    assert ("     I5 is broken: " in told, "told again" in told.lower()) == (True, False)


def test_a_promise_that_is_not_broken_again_is_printed_with_why() -> None:
    """Between the path and its test, which says it too."""
    report = explored(once_tired(), attrs.evolve(TINY, budget=Budget(max_steps=2)))
    told = "\n".join(lines(report))
    assert f" is broken: {report.broken[0].sentence}\n{AGAIN}\n\nas a test:\n" in told
    assert "\n    Told again, these events broke nothing. A guard, an update or asks with" in told


def told_twice(snapshot: Snapshot, event: Any) -> bool:
    """Two notes are in the history."""
    return sum(isinstance(entry, Note) for entry in snapshot.history.entries) == 2


def note(snapshot: Snapshot, event: Any) -> Snapshot:
    """Tell the model to wait."""
    return snapshot.but(history=snapshot.history.append(Note("wait")))


def test_a_circle_that_comes_to_an_end_may_be_one_of_what_a_guard_sees() -> None:
    """Rests that differ in it alone were taken for the same one."""
    enough = Row(CancelPolled, "rechecking_cancel", told_twice, first_because="it does not end else")
    machine = with_rest(enough, Row(CancelPolled, "pausing", None, note))
    report = explored(machine, promises={"I1": PROMISES["I1"]})
    (found,) = report.broken
    told = " ".join(line.strip() for line in lines(report))
    unseen = "or it sees of the history what verify(..., sees=...) was not told"
    assert (found.circle, f"{AGAIN}, {unseen} as a test:" in told.replace("  ", " ")) == (1, True)
