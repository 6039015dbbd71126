"""The rows as a reviewer reads them: their order, their conditions, their sentences."""

from __future__ import annotations

from typing import Any

from loopmachine.definition import Definition, Row, State
from loopmachine.review.lines import all_lines, heading, lines_of, working
from loopmachine.table import TOOL_LOOP


class Go:
    """An event."""


class Wait:
    """Another event."""


def ready(snapshot: Any, event: Any) -> bool:
    """It is ready.

    This paragraph is for readers of the code.
    """
    return bool(snapshot)


def count(snapshot: Any, event: Any) -> Any:
    """Count it."""
    return snapshot


def nothing(snapshot: Any) -> tuple[Any, ...]:
    """Ask for nothing."""
    return ()


SMALL = Definition(
    "start",
    {
        State("aside", "Is not on the way.", nothing): [Row(Go, "start")],
        State("start", "Begins.", nothing): [
            Row(Go, "finished_done", ready, count, happy=True),
            Row(Go, "middle", happy=True),
            Row(Wait, "start", update=count),
        ],
        State("middle", "Goes on.", auto=True): [Row(None, "aside", ready), Row(None, "finished_done")],
        State("finished_done", "It is done.", final="answered"): [],
    },
)


def test_the_column_follows_the_happy_path_and_then_the_definition() -> None:
    """The working states of the tool loop stand in the order in which a run that goes well meets them."""
    assert [state.name for state in working(TOOL_LOOP)] == [
        "checking_cancel",
        "checking_budget",
        "awaiting_model",
        "rechecking_cancel",
        "validating",
        "admitting",
        "collecting",
        "dispatching",
        "awaiting_approval",
        "awaiting_resolution",
    ]


def test_states_beside_the_happy_path_come_after_it() -> None:
    """A state that no happy row leads to comes last, though it is defined first; final states are left out."""
    assert [state.name for state in working(SMALL)] == ["start", "middle", "aside"]


def test_a_condition_is_the_guard_or_else_or_nothing() -> None:
    """Else is said only of a row without a guard whose event has guarded rows."""
    assert [(line.row_id, line.event, line.condition, line.stays) for line in all_lines(SMALL)] == [
        ("start/1", "Go", "[ready]", False),
        ("start/2", "Go", "[else]", False),
        ("start/3", "Wait", "", True),
        ("middle/1", "", "[ready]", False),
        ("middle/2", "", "[else]", False),
        ("aside/1", "Go", "", False),
    ]


def test_a_row_has_a_sentence_of_its_own() -> None:
    """A sentence says which row it is, its event, its guard and update with what they mean, and where it leads."""
    assert [line.sentence for line in lines_of(SMALL, SMALL.states["start"])] == [
        "start 1 of 3: on Go, if ready (It is ready.), count (Count it.), go to finished_done",
        "start 2 of 3: on Go, else, go to middle",
        "start 3 of 3: on Wait, count (Count it.), stay here",
    ]


def test_a_row_that_has_to_be_first_says_so() -> None:
    """A mark beside its number, and the reason at the end of its sentence."""
    state = TOOL_LOOP.states["validating"]
    marked = [line for line in lines_of(TOOL_LOOP, state) if line.row.first_because]
    assert [line.label for line in lines_of(TOOL_LOOP, state)] == ["1^", "2^", "3", "4", "5", "6^", "7", "8", "9"]
    assert [line.sentence.partition("; it is first because ")[2] for line in marked] == [
        line.row.first_because for line in marked
    ]


def test_every_row_is_a_line_once() -> None:
    """The lines of the tool loop are its rows, each once."""
    lines = [line.row_id for line in all_lines(TOOL_LOOP)]
    assert sorted(lines) == sorted(row_id for row_id, _, _ in TOOL_LOOP.all_rows())


def test_a_heading_counts_and_says_where_it_starts() -> None:
    """The heading names the numbers of states and rows, the initial state, and how rows are tried."""
    assert heading(SMALL) == (
        "4 states, 6 rows; it starts in start. The rows of a state are tried from the top; the first whose guard holds "
        "is taken."
    )


def test_the_parts_of_the_small_definition_can_be_run() -> None:
    """The functions that these tests draw do what they say."""
    assert (ready(1, None), count(2, None), nothing(3)) == (True, 2, ())
