"""The table: that it is the design's, and that the order of any two rows that can both hold is as written."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import attrs
import pytest

from loopmachine.definition import Definition, Guard, Row
from loopmachine.events import Event
from loopmachine.history import History, Ids
from loopmachine.limits import Budget, Policy
from loopmachine.machine import advance
from loopmachine.records import LOST, QUEUED, RUNNING, Snapshot
from loopmachine.table import TOOL_LOOP
from tests.facts import (
    HELLO,
    answer,
    asks,
    call,
    exchange,
    failure,
    flight,
    flying,
    lost,
    malformed,
    polled,
    resumed,
    returned,
    snapshot,
)
from tests.test_guards import CASES

#: Design section 3, a row a line: number, event, [guard], next state, and what it does.
DESIGN = """
checking_cancel
  CancelPolled [cancel_requested] finished_cancelled / remember_cancel
  CancelPolled checking_budget
  Resumed checking_cancel
checking_budget
  [time_spent] finished_time_budget
  [usage_missing] finished_usage_missing
  [cost_spent] finished_cost_budget
  [tokens_spent] finished_token_budget
  [steps_spent] finished_step_budget
  [wrap_up_due] awaiting_model / ask_without_tools
  awaiting_model / ask_with_tools
awaiting_model
  ModelReplied rechecking_cancel / keep_turn
  ModelFailed rechecking_cancel / keep_failure
  CancelRequested awaiting_model / remember_cancel
  Resumed checking_cancel
rechecking_cancel
  CancelPolled [cancel_requested] finished_cancelled / remember_cancel
  CancelPolled validating
  Resumed rechecking_cancel
validating
  [retry_left] checking_cancel / count_retry
  [model_timed_out] finished_time_budget
  [model_failed] finished_model_error
  [turn_truncated] finished_incomplete
  [turn_refused] finished_refused
  [repair_left] checking_cancel / append_note
  [turn_malformed] finished_malformed
  [turn_final] finished_answered / append_final
  admitting
admitting
  [call_repeated] finished_repeated_call
  [batch_unsupported] finished_unsupported_batch
  [calls_stuck] finished_stuck
  [time_spent] finished_time_budget
  [usage_missing] finished_usage_missing
  [cost_spent] finished_cost_budget
  [tokens_spent] finished_token_budget
  [calls_over_budget] finished_call_budget
  [approval_needed] awaiting_approval
  collecting / admit
collecting
  [calls_lost] awaiting_resolution
  [calls_open] dispatching
  checking_cancel / append_exchange
dispatching
  CallReturned [stopping] collecting / record_and_close
  CallReturned collecting / record
  CallLost [stopping] collecting / answer_lost_and_close
  CallLost [rerun_safe] collecting / requeue_lost
  CallLost collecting / mark_lost
  CancelPolled [stopping] collecting / poll_and_close
  CancelPolled collecting / start_queued
  CancelRequested collecting / cancel_and_close
  Resumed [stopping] collecting / abandon_running
  Resumed collecting / resume_running
awaiting_approval
  ApprovalGiven rechecking_cancel / keep_decisions
  CancelRequested finished_cancelled / remember_cancel
  Resumed rechecking_cancel
awaiting_resolution
  CallsResolved collecting / resolve
  CancelRequested collecting / cancel_and_close
  Resumed awaiting_resolution
"""
ENDS = {
    "answered": "answered",
    "limit": "cancelled step_budget call_budget time_budget cost_budget token_budget usage_missing",
    "fault": "repeated_call unsupported_batch stuck malformed incomplete refused model_error",
}


def told(row: Row) -> str:
    """A row in the words of the design above."""
    guard = f"[{row.guard.__name__}]" if row.guard else ""
    update = f"/ {row.update.__name__}" if row.update else ""
    return "  " + " ".join(part for part in (row.event_name, guard, row.to, update) if part)


def test_the_table_is_the_design() -> None:
    """Every state that is not final has the rows of the design, in their order."""
    lines = [
        line
        for state, rows in TOOL_LOOP.table.items()
        if state.final is None
        for line in (state.name, *map(told, rows))
    ]
    assert lines == DESIGN.strip("\n").split("\n")


def test_there_is_one_end_for_each_way_to_end() -> None:
    """The final states are those of the design, each of its kind."""
    ends = {state.name: state.final for state in TOOL_LOOP.table if state.final is not None}
    assert ends == {f"finished_{status}": kind for kind, listed in ENDS.items() for status in listed.split()}


def test_a_run_begins_with_a_look_for_a_cancel() -> None:
    """The first state of a run is the poll before the model."""
    assert TOOL_LOOP.initial == "checking_cancel"


def test_the_auto_states_are_those_of_the_design() -> None:
    """Four states move on by themselves; all others wait or end."""
    assert [state.name for state in TOOL_LOOP.table if state.auto] == [
        "checking_budget",
        "validating",
        "admitting",
        "collecting",
    ]


def test_the_happy_path_leads_from_the_start_to_the_answer() -> None:
    """The rows marked happy are those that a run with one call and an answer takes."""
    happy = {row_id for row_id, _, row in TOOL_LOOP.all_rows() if row.happy}
    assert happy == {
        "checking_cancel/2",
        "checking_budget/7",
        "awaiting_model/1",
        "rechecking_cancel/2",
        "validating/8",
        "validating/9",
        "admitting/10",
        "collecting/2",
        "collecting/3",
        "dispatching/2",
        "dispatching/7",
    }


# --- the order of every pair ------------------------------------------------------------------------------

Pair = tuple[str, str, str, str]  #: state, event, and the names of two guards, the second "else" where it has none


def pairs() -> Iterator[Pair]:
    """Every two rows of one (state, event) of which the first has a guard."""
    for state, rows in TOOL_LOOP.table.items():
        for first, second in combinations(rows, 2):
            if first.event is second.event and first.guard is not None:
                yield state.name, first.event_name, first.guard.__name__, name(second.guard)


def name(guard: Guard | None) -> str:
    """The name of a guard, "else" where there is none."""
    return guard.__name__ if guard else "else"


PAIRS = list(pairs())
ONE_KIND = "a turn is of one kind"
#: Pairs of which the two guards can't both hold, and why.
NEVER: dict[Pair, str] = {
    ("validating", "", "turn_truncated", "turn_refused"): ONE_KIND,
    ("validating", "", "turn_truncated", "repair_left"): ONE_KIND,
    ("validating", "", "turn_truncated", "turn_malformed"): ONE_KIND,
    ("validating", "", "turn_truncated", "turn_final"): ONE_KIND,
    ("validating", "", "turn_refused", "repair_left"): ONE_KIND,
    ("validating", "", "turn_refused", "turn_malformed"): ONE_KIND,
    ("validating", "", "turn_refused", "turn_final"): ONE_KIND,
    ("validating", "", "repair_left", "turn_final"): ONE_KIND,
    ("validating", "", "turn_malformed", "turn_final"): ONE_KIND,
    ("collecting", "", "calls_lost", "calls_open"): "calls are lost only while none is running or queued",
}

#: What makes a guard hold: fields of the snapshot (of budget and policy: fields of those), and the event's time.
HOLDS: dict[str, dict[str, Any]] = {
    "else": {},
    "cancel_requested": {"cancelled": True},
    "stopping": {"cancelled": True},
    "time_spent": {"budget": {"max_seconds": 5.0}, "at": 5.0},
    "usage_missing": {"budget": {"max_cost_usd": 1.0}, "unpriced": 1},
    "cost_spent": {"budget": {"max_cost_usd": 1.0}, "cost_usd": 1.0},
    "tokens_spent": {"budget": {"max_tokens": 10}, "tokens": 10},
    "steps_spent": {"steps": 10},
    "wrap_up_due": {"policy": {"wrap_up": True}, "budget": {"max_calls": 1}, "calls": 1},
    "retry_left": {"policy": {"model_retries": 1}, "failure": {"retryable": True}},
    "model_timed_out": {"failure": {"timed_out": True}},
    "model_failed": {"failure": {}},
    "turn_truncated": {"turn": answer(stop="length")},
    "turn_refused": {"turn": answer(stop="refusal")},
    "repair_left": {"policy": {"repairs": 1}, "turn": malformed()},
    "turn_malformed": {"turn": malformed()},
    "turn_final": {"turn": answer()},
    "call_repeated": {"ids": Ids(["c1_0"])},
    "batch_unsupported": {"policy": {"batch": "reject"}},
    "calls_stuck": {
        "policy": {"max_identical_turns": 1},
        "identical": 1,
        "history": History([HELLO, exchange(call(), call(1))]),
    },
    "calls_over_budget": {"budget": {"max_calls": 1}},
    "approval_needed": {"turn": asks(call(needs_approval=True), call(1))},
    "rerun_safe": {"flights": (flight(RUNNING, effect="read"), flight(QUEUED, 1))},
    "calls_lost": {"flights": (flight(LOST, losses=1),)},
    "calls_open": {"flights": (flight(QUEUED),)},
}
TWO = asks(call(), call(1))
#: The rest from which an event leads to this state with nothing changed on the way, and the event.
FROM: dict[tuple[str, str], tuple[Snapshot, Any]] = {
    ("checking_cancel", "CancelPolled"): (snapshot(), polled),
    ("checking_budget", ""): (snapshot(), polled),
    ("rechecking_cancel", "CancelPolled"): (snapshot("rechecking_cancel", turn=TWO), polled),
    ("validating", ""): (snapshot("rechecking_cancel", turn=TWO), polled),
    ("admitting", ""): (snapshot("rechecking_cancel", turn=TWO), polled),
    ("collecting", ""): (flying(flight(QUEUED)), resumed),
    ("dispatching", "CallReturned"): (flying(flight(RUNNING)), functools.partial(returned, call())),
    ("dispatching", "CallLost"): (flying(flight(RUNNING), flight(QUEUED, 1)), functools.partial(lost, call())),
    ("dispatching", "CancelPolled"): (flying(flight(RUNNING), flight(QUEUED, 1)), polled),
    ("dispatching", "Resumed"): (flying(flight(RUNNING)), resumed),
}


class Conflict(Exception):
    """Two guards want different values of one field."""


def both(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """What two guards need, together."""
    needs = dict(one)
    for field, value in other.items():
        if field in needs and isinstance(value, dict):
            needs[field] = both(needs[field], value)
        elif needs.setdefault(field, value) != value:
            raise Conflict(field)
    return needs


def witness(state: str, event: str, first: str, second: str) -> tuple[Snapshot, Event]:
    """A snapshot and an event with which both guards hold when the machine comes to that state."""
    needs = both(HOLDS[first], HOLDS[second])
    start, told = FROM[state, event]
    at = needs.pop("at", 0.0)
    made: dict[str, Any] = {"budget": Budget, "policy": Policy, "failure": failure}
    fields = {field: made[field](**need) if field in made else need for field, need in needs.items()}
    return start.but(**fields), told(at=at)


def spied(seen: dict[tuple[str, str], dict[str, bool]]) -> Definition:
    """The table, whose first guard of a (state, event) also notes what every guard of it says at that moment."""

    def spy(rows: tuple[Row, ...], state: str, row: Row) -> Row:
        if row.guard is None:
            return row
        guard = row.guard

        @functools.wraps(guard)
        def watched(snapshot: Any, event: Any) -> bool:
            mine = [one for one in rows if one.event is row.event]
            says = {name(one.guard): one.guard is None or one.guard(snapshot, event) for one in mine}
            seen.setdefault((state, row.event_name), says)
            return guard(snapshot, event)

        return attrs.evolve(row, guard=watched)

    table = {state: [spy(rows, state.name, row) for row in rows] for state, rows in TOOL_LOOP.table.items()}
    return attrs.evolve(TOOL_LOOP, table=table)


@pytest.mark.parametrize(
    "pair", [pair for pair in PAIRS if pair not in NEVER], ids=lambda pair: "-".join(part for part in pair if part)
)
def test_where_two_rows_hold_the_first_is_taken(pair: Pair) -> None:
    """There is a run in which both guards hold, and it takes the row that stands first."""
    state, event, first, second = pair
    seen: dict[tuple[str, str], dict[str, bool]] = {}
    advanced = advance(spied(seen), *witness(*pair))
    taken = [TOOL_LOOP.row(row_id) for row_id in advanced.rows if row_id.startswith(f"{state}/")]
    assert (seen[state, event][first], seen[state, event][second], [name(row.guard) for row in taken]) == (
        True,
        True,
        [first],
    )


@pytest.mark.parametrize("pair", NEVER, ids=lambda pair: "-".join(part for part in pair if part))
def test_some_rows_never_hold_together(pair: Pair) -> None:
    """What makes the first guard hold contradicts the second, and in no case of the guards' own tests do both hold."""
    guards = {guard.__name__: guard for guard, *_ in CASES}
    together = [
        what for _, _, what, start, event in CASES if guards[pair[2]](start, event) and guards[pair[3]](start, event)
    ]
    with pytest.raises(Conflict):
        witness(*pair)
    assert (together, NEVER[pair] != "") == ([], True)


def test_every_pair_is_accounted_for() -> None:
    """No reason is stated for a pair that the table does not have; all others have a witness above."""
    assert (set(NEVER) - set(PAIRS), len(PAIRS), len(set(PAIRS))) == (set(), 113, 113)


def test_every_row_with_a_guard_can_be_taken() -> None:
    """Each guarded row is the first of a pair that has a witness, so that none is dead."""
    firsts = {pair[:3] for pair in PAIRS if pair not in NEVER}
    guarded = {
        (state.name, row.event_name, name(row.guard)) for _, state, row in TOOL_LOOP.all_rows() if row.guard is not None
    }
    assert firsts == guarded
