"""Circles: answers that lead a run of a machine with rests of its own back to where it was."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from loopmachine import guards, requests, updates
from loopmachine.definition import Definition, Row, State
from loopmachine.events import CallsResolved, CancelPolled, ModelFailed, Resumed
from loopmachine.limits import Budget, Policy
from loopmachine.records import Resolution, Snapshot
from loopmachine.requests import PollCancel
from loopmachine.review.circles import FIRST, Circles
from loopmachine.review.explore import Walk
from loopmachine.review.world import World
from loopmachine.table import TOOL_LOOP
from tests.facts import cancel, failed, polled, resumed

SINGLE = World(Budget(max_steps=1), Policy(), batches=(("once",),))


def busy(snapshot: Snapshot, event: ModelFailed) -> bool:
    """The provider said that it is busy."""
    return event.code == "busy"


def with_rest(*rows: Row, asks: Any = requests.poll_now) -> Definition:
    """The loop with a rest for a busy provider."""
    pausing = State("pausing", "Wait until the provider is no longer busy.", asks)
    busy_row = Row(ModelFailed, "pausing", busy, updates.keep_failure, first_because="it will not be for long")
    return TOOL_LOOP.with_state(pausing, [*rows, Row(Resumed, "rechecking_cancel")]).with_row(
        "awaiting_model", busy_row, at=2
    )


STOP = Row(CancelPolled, "finished_cancelled", guards.cancel_requested, updates.remember_cancel)
STAY, LEAVE = Row(CancelPolled, "pausing"), Row(CancelPolled, "rechecking_cancel")
ENDLESS = with_rest(STOP, STAY)


def test_a_rest_that_a_run_may_never_leave_breaks_i1() -> None:
    """It is told with the way there, and how many of its last events come again and again."""
    (broken,) = Walk(ENDLESS, SINGLE).run().broken
    path = [(type(event).__name__, *rows) for event, rows in broken.path]
    assert (broken.promise, broken.circle, path) == (
        "I1",
        1,
        [
            ("CancelPolled", "checking_cancel/2", "checking_budget/7"),
            ("ModelFailed", "awaiting_model/2"),
            ("CancelPolled", "pausing/2"),
        ],
    )
    assert broken.sentence == "the last 1 of these events can come again and again: the run may never end"


def test_a_rest_that_every_answer_leaves_breaks_nothing() -> None:
    """However often it is come to."""
    walk = Walk(with_rest(STOP, LEAVE), SINGLE).run()
    assert (walk.whole, walk.broken) == (True, [])


def test_a_circle_is_found_in_a_walk_that_is_cut_too() -> None:
    """And where I1 is not asked for, none is looked for."""
    cut = Walk(ENDLESS, SINGLE).run(advances=60)
    silent = Walk(ENDLESS, SINGLE, {}).run()
    assert ([one.promise for one in cut.broken], cut.whole, silent.broken, silent.whole) == (["I1"], False, [], True)


def test_a_poll_before_it_is_due_is_no_answer() -> None:
    """A host waits until then: a rest that is polled too early stays, and one that is polled in time goes on."""

    def due(snapshot: Snapshot, event: CancelPolled) -> bool:
        """The second is over."""
        return snapshot.not_before is not None and event.at >= snapshot.not_before

    def pause(snapshot: Snapshot, event: ModelFailed) -> Snapshot:
        """Keep the failure, wait a second."""
        return updates.keep_failure(snapshot, event).but(not_before=event.at + 1.0)

    def until(snapshot: Snapshot) -> tuple[PollCancel, ...]:
        """A poll when the second is over."""
        return (PollCancel(snapshot.not_before),)

    waits = with_rest(STOP, attrs.evolve(LEAVE, guard=due), STAY, asks=until)
    rows = [attrs.evolve(row, update=pause) if row.to == "pausing" else row for row in waits.rows("awaiting_model")]
    waits = attrs.evolve(waits, table={**waits.table, waits.states["awaiting_model"]: rows})
    walk = Walk(waits, SINGLE).run()
    assert (walk.whole, walk.broken, "pausing/3" in walk.rows) == (True, [], True)


# --- by itself --------------------------------------------------------------------------------------------


@attrs.define
class At:
    """A rest by its name."""

    key: Any
    asked: tuple[Any, ...] = (PollCancel(),)

    def path(self) -> Any:
        """Nobody asks."""


def of(*ways: tuple[str, Any, str], definition: Definition = ENDLESS) -> Circles[At]:
    """The circles of a machine in which these events lead from a rest to another."""
    circles: Circles[At] = Circles(definition)
    for before, event, after in ways:
        circles.add(At((before,)), event, (), (after,))
    return circles


POLL = polled(at=1.0)


@pytest.mark.parametrize(
    ("ways", "first", "length"),
    [
        ([("a", POLL, "a")], "a", 1),
        ([("a", POLL, "b"), ("b", POLL, "a")], "a", 2),
        ([("a", POLL, "b"), ("b", POLL, "c"), ("c", POLL, "b")], "b", 2),
        ([("a", POLL, "end"), ("a", POLL, "b"), ("b", POLL, "c"), ("c", POLL, "d"), ("d", POLL, "b")], "b", 3),
        ([("a", POLL, "b"), ("b", POLL, "end"), ("c", POLL, "b"), ("c", POLL, "d"), ("d", POLL, "c")], "c", 2),
    ],
)
def test_a_circle_is_found_wherever_it_begins(ways: Any, first: str, length: int) -> None:
    """With its first rest and its answers only, not those on the way to it."""
    found = of(*ways).find()
    assert found is not None
    assert (found[0].key, len(found[1])) == ((first,), length)


RERUN = CallsResolved([Resolution(1, 0, rerun=True)], at=1.0)
GIVEN_UP = CallsResolved([Resolution(1, 0)], at=1.0)


@pytest.mark.parametrize(
    "ways",
    [
        [],
        [("a", POLL, "b"), ("a", POLL, "c"), ("b", POLL, "d"), ("c", POLL, "d")],
        [("a", POLL, "b"), ("b", resumed(at=1.0), "a")],
        [("a", POLL, "b"), ("b", cancel(at=1.0), "a")],
        [("a", RERUN, "a")],
    ],
    ids=["nothing", "two ways to one rest", "a host", "a cancel", "a rerun"],
)
def test_what_is_no_circle_of_answers(ways: Any) -> None:
    """A rest may be come to in two ways; a host, a cancel and a call to be run again are somebody's decision."""
    assert of(*ways).find() is None


def test_a_resolution_without_a_rerun_and_a_failure_are_answers() -> None:
    """They may not come again and again."""
    assert [of(("a", event, "a")).find() is not None for event in (GIVEN_UP, failed(at=1.0))] == [True, True]


def test_of_the_loop_itself_nothing_is_kept() -> None:
    """There I1 is checked move by move."""
    assert (of(definition=TOOL_LOOP).kept, of().kept) == (False, True)


def test_a_circle_is_looked_for_now_and_then() -> None:
    """After so many answers, and each time that there are twice as many."""
    circles, due = of(), []
    for number in range(1, 4 * FIRST + 1):
        circles.add(At((number,)), POLL, (), (number + 1,))
        due += [number] if circles.due else []
        if number < 2 * FIRST:
            circles.find()
    assert due[:2] + due[2:3] == [FIRST, 2 * FIRST, 4 * FIRST]
