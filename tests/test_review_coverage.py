"""What runs covered of a definition follows from the rows that they took."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from loopmachine import Budget, run
from loopmachine.definition import Definition, Row, State
from loopmachine.review.coverage import Coverage, Covered, Share
from loopmachine.table import TOOL_LOOP
from loopmachine.testing import ScriptedModel
from tests.test_review_lines import SMALL, Go, nothing, ready


def counts(coverage: Coverage) -> dict[str, tuple[int, int | None]]:
    """Of each row how often it was taken, and how often its guard was false."""
    return {one.line.row_id: (one.taken, one.false) for one in coverage.rows}


def test_a_guard_was_false_where_a_later_row_of_its_event_was_taken() -> None:
    """Rows on another event say nothing of it; a row without a guard has no outcomes; the order is the diagram's."""
    coverage = Coverage.of(SMALL, {"start/1": 2, "start/2": 3, "start/3": 5, "middle/2": 7})
    assert (counts(coverage), coverage.taken) == (
        {
            "start/1": (2, 3),
            "start/2": (3, None),
            "start/3": (5, None),
            "middle/1": (0, 7),
            "middle/2": (7, None),
            "aside/1": (0, None),
        },
        {"start/1": 2, "start/2": 3, "start/3": 5, "middle/1": 0, "middle/2": 7, "aside/1": 0},
    )


def test_all_the_guards_before_the_row_taken_were_false() -> None:
    """Each once for every time that a later row was taken, and true as often as its own was."""
    coverage = Coverage.of(TOOL_LOOP, {"checking_budget/2": 1, "checking_budget/5": 10, "checking_budget/7": 100})
    assert {row: found for row, found in counts(coverage).items() if row.startswith("checking_budget")} == {
        "checking_budget/1": (0, 111),
        "checking_budget/2": (1, 110),
        "checking_budget/3": (0, 110),
        "checking_budget/4": (0, 110),
        "checking_budget/5": (10, 100),
        "checking_budget/6": (0, 100),
        "checking_budget/7": (100, None),
    }


@pytest.mark.parametrize(
    ("taken", "rows", "outcomes", "both", "finals"),
    [
        ({}, Share(0, 6), Share(0, 4), Share(0, 10), {"finished_done": 0}),
        ({"start/1": 2}, Share(1, 6), Share(1, 4), Share(2, 10), {"finished_done": 2}),
        ({"start/2": 1, "middle/2": 1}, Share(2, 6), Share(2, 4), Share(4, 10), {"finished_done": 1}),
        ({"start/1": 2, "middle/2": 1}, Share(2, 6), Share(2, 4), Share(4, 10), {"finished_done": 3}),
        ({"start/3": 9}, Share(1, 6), Share(0, 4), Share(1, 10), {"finished_done": 0}),
    ],
)
def test_the_shares_are_of_rows_and_of_two_outcomes_of_each_guard(
    taken: dict[str, int], rows: Share, outcomes: Share, both: Share, finals: dict[str, int]
) -> None:
    """A final state was reached as often as the rows that lead there were taken."""
    coverage = Coverage.of(SMALL, taken)
    assert (coverage.row_share, coverage.outcome_share, coverage.share, coverage.finals) == (
        rows,
        outcomes,
        both,
        finals,
    )


@pytest.mark.parametrize(
    ("seen", "of", "percent", "text"),
    [
        (0, 3, 0.0, "0 of 3 (0 %)"),
        (1, 3, 100 / 3, "1 of 3 (33.3 %)"),
        (2, 3, 200 / 3, "2 of 3 (66.6 %)"),
        (3, 1000, 0.3, "3 of 1000 (0.3 %)"),
        (999, 1000, 99.9, "999 of 1000 (99.9 %)"),
        (99999, 100000, 99.999, "99999 of 100000 (99.9 %)"),
        (3, 3, 100.0, "3 of 3 (100 %)"),
        (0, 0, 100.0, "0 of 0 (100 %)"),
    ],
)
def test_a_share_is_shown_rounded_down(seen: int, of: int, percent: float, text: str) -> None:
    """Only all is 100 %; of nothing it is all."""
    assert (Share(seen, of).percent, str(Share(seen, of))) == (percent, text)


@pytest.mark.parametrize(
    ("taken", "false", "outcomes", "whole"),
    [
        (0, None, (), False),
        (1, None, (), True),
        (0, 0, (0, 0), False),
        (0, 1, (0, 1), False),
        (1, 0, (1, 0), False),
        (1, 1, (1, 1), True),
    ],
)
def test_a_row_is_whole_where_it_was_taken_and_its_guard_was_false_too(
    taken: int, false: int | None, outcomes: tuple[int, ...], whole: bool
) -> None:
    """A row without a guard need only be taken."""
    one = Covered(Coverage.of(SMALL, {}).rows[0].line, taken, false)
    assert (one.outcomes, one.whole) == (outcomes, whole)


def test_the_report_lists_what_was_never_seen() -> None:
    """A row that was taken and whose guard was false too is left out, unless the whole is asked for."""
    coverage = Coverage.of(SMALL, {"start/1": 12, "start/2": 3})
    head = [
        "rows taken: 2 of 6 (33.3 %)",
        "guard outcomes seen (true: the row was taken; false: a later one was): 2 of 4 (50 %)",
        "final states reached: 1 of 1 (100 %)",
    ]
    assert (coverage.report().splitlines(), coverage.report(whole=True).splitlines()) == (
        [
            *head,
            "  row       on          to             taken  guard false",
            "  start/3   Wait stays  start          never",
            "  middle/1  [ready]     aside          never  never",
            "  middle/2  [else]      finished_done  never",
            "  aside/1   Go          start          never",
        ],
        [
            *head,
            "  row       on          to             taken  guard false",
            "  start/1   Go [ready]  finished_done  12     3",
            "  start/2   Go [else]   middle         3",
            "  start/3   Wait stays  start          never",
            "  middle/1  [ready]     aside          never  never",
            "  middle/2  [else]      finished_done  never",
            "  aside/1   Go          start          never",
        ],
    )


def test_the_report_names_final_states_and_guards_that_were_never_false() -> None:
    """In the order of the definition."""
    mine = Definition(
        "start",
        {
            State("start", "Begins.", nothing): [
                Row(Go, "finished_a", ready),
                Row(Go, "finished_b", ready),
                Row(Go, "finished_c"),
            ],
            **{State(f"finished_{one}", "It is done.", final="answered"): [] for one in "cba"},
        },
    )
    assert Coverage.of(mine, {"start/1": 1}).report().splitlines() == [
        "rows taken: 1 of 3 (33.3 %)",
        "guard outcomes seen (true: the row was taken; false: a later one was): 1 of 4 (25 %)",
        "final states reached: 1 of 3 (33.3 %)",
        "  never: finished_c",
        "  never: finished_b",
        "  row      on          to          taken  guard false",
        "  start/1  Go [ready]  finished_a  1      never",
        "  start/2  Go [ready]  finished_b  never  never",
        "  start/3  Go [else]   finished_c  never",
    ]


def test_where_all_was_seen_there_is_no_list() -> None:
    """The figures are all."""
    every: Any = {row_id: 1 for row_id, _, _ in TOOL_LOOP.all_rows()}
    assert Coverage.of(TOOL_LOOP, every).report().splitlines() == [
        "rows taken: 55 of 55 (100 %)",
        "guard outcomes seen (true: the row was taken; false: a later one was): 64 of 64 (100 %)",
        "final states reached: 15 of 15 (100 %)",
    ]


def test_a_row_that_the_definition_does_not_have_is_refused() -> None:
    """With the names of all of them."""
    with pytest.raises(ValueError, match=r"^the definition has no row start/9, x; a row is named state/number$"):
        Coverage.of(SMALL, {"x": 1, "start/1": 1, "start/9": 1})


def test_the_rows_of_results_can_be_given_as_they_are() -> None:
    """Two runs, of which one stops before its first step's answer is asked for a second time."""
    taken: Counter[str] = Counter()
    for budget in (Budget(), Budget(max_steps=1)):
        replies = {"kind": "call", "id": "a", "name": "f", "arguments": {}}, "done"
        taken.update(run(ScriptedModel(*replies), "go", budget=budget).rows)
    coverage = Coverage.of(TOOL_LOOP, taken)
    assert {one.line.row_id: (one.taken, one.false) for one in coverage.rows if one.taken} == {
        "checking_cancel/2": (4, None),
        "checking_budget/5": (1, 3),
        "checking_budget/7": (3, None),
        "awaiting_model/1": (3, None),
        "rechecking_cancel/2": (3, None),
        "validating/8": (1, 2),
        "validating/9": (2, None),
        "admitting/10": (2, None),
        "collecting/3": (2, None),
    }
