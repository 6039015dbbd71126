"""Each update alone: what it changes, as a whole snapshot, and that the snapshot given stays as it was."""

from __future__ import annotations

import copy
import inspect
import sys
from typing import Any

import attrs
import pytest

from loopmachine import updates
from loopmachine.definition import Update
from loopmachine.events import Event
from loopmachine.history import History, Ids
from loopmachine.limits import Budget, Policy
from loopmachine.records import (
    ANSWERED,
    LOST,
    QUEUED,
    RUNNING,
    Decision,
    Exchange,
    Final,
    Flight,
    Note,
    Snapshot,
)
from tests.facts import (
    HELLO,
    INVALID,
    UNKNOWN_TOOL,
    answer,
    approved,
    asked,
    asks,
    begun,
    brought,
    call,
    cancel,
    drafted,
    exchange,
    failed,
    failure,
    flight,
    flying,
    lost,
    malformed,
    polled,
    refused,
    replied,
    resolved,
    result,
    resumed,
    returned,
    snapshot,
    usage,
    word,
)

CASES: list[Any] = []


def case(update: Update, what: str, before: Snapshot, event: Event, **changes: Any) -> None:
    """One case: what the update changes in this snapshot, told this event; no changes, the same snapshot."""
    CASES.append(pytest.param(update, before, event, changes, id=f"{update.__name__}: {what}"))


def closed(one: Flight, outcome: str = "not_started") -> Flight:
    """A call that was answered because the run stops."""
    said = {
        "not_started": "the run was stopped before this call was started",
        "unknown": "it was started, and nobody knows what it did",
    }
    return Flight(one.call, ANSWERED, one.losses, result(one.call, outcome, said[outcome]))


def answered(one: Flight, outcome: str = "ok", content: str = "1", code: str = "") -> Flight:
    """A call that has this result."""
    return Flight(one.call, ANSWERED, one.losses, result(one.call, outcome, content, code))


# --- what every event brings ------------------------------------------------------------------------------

WAIT, RESTART = updates.discount_wait, updates.restart_clock
waiting = begun(clock=3.0, since=1.0).but(state="awaiting_approval")
case(WAIT, "for approval, time stands", waiting, approved(call(), at=9.0), clock=9.0, since=7.0)
case(WAIT, "a cancel ends the wait", waiting, cancel(at=9.0), clock=9.0, since=7.0)
case(WAIT, "no time at all", waiting, approved(call(), at=3.0), clock=3.0, since=1.0)
case(WAIT, "a clock that goes back stands still", waiting, approved(call(), at=2.0), clock=3.0, since=1.0)
LOST_RUN = flying(flight(LOST), state="awaiting_resolution", clock=3.0, since=1.0)
case(WAIT, "for resolution, time stands", LOST_RUN, resolved(word(call()), at=9.0), clock=9.0, since=7.0)
case(RESTART, "a new host", asked(clock=3.0, since=1.0), resumed(at=9.0), clock=9.0, since=7.0)
case(RESTART, "its clock began later", asked(clock=3.0, since=1.0), resumed(at=0.5), clock=0.5, since=-1.5)
case(
    RESTART,
    "a pause goes on",
    begun(clock=3.0, since=1.0, not_before=5.0),
    resumed(at=9.0),
    clock=9.0,
    since=7.0,
    not_before=11.0,
)
case(RESTART, "a new budget", asked(), resumed(Budget(max_steps=3)), budget=Budget(max_steps=3))
case(RESTART, "the old budget", asked(budget=Budget(max_steps=3)), resumed())

# --- cancel -----------------------------------------------------------------------------------------------

REMEMBER = updates.remember_cancel
case(REMEMBER, "a poll", begun(), polled(True, "enough"), cancelled=True, cancel_reason="enough")
case(REMEMBER, "unasked", begun(), cancel("enough"), cancelled=True, cancel_reason="enough")
case(REMEMBER, "the first reason stays", begun(cancelled=True, cancel_reason="enough"), polled(True, "more"))
case(REMEMBER, "a poll that denies it", begun(cancelled=True, cancel_reason="enough"), polled())

# --- the model --------------------------------------------------------------------------------------------

STALE = begun(steps=1, turn=answer(), failure=failure(), not_before=3.0, retries=1, repairs=1)
FRESH: dict[str, Any] = {"turn": None, "failure": None, "not_before": None}
case(updates.ask_with_tools, "after anything", STALE.but(wrapping=True), polled(), steps=2, wrapping=False, **FRESH)
case(updates.ask_without_tools, "after anything", STALE, polled(), steps=2, wrapping=True, **FRESH)

NO_USAGE: dict[str, Any] = {"unpriced": 1, "unmetered": 1}
case(updates.keep_turn, "without usage", asked(), replied(answer()), turn=answer(), **NO_USAGE)
case(
    updates.keep_turn,
    "with usage",
    asked(cost_usd=1.0, tokens=5, unpriced=2, unmetered=3),
    replied(answer(usage=usage())),
    turn=answer(usage=usage()),
    cost_usd=1.5,
    tokens=15,
)
for partly, unknown in (
    (usage(cost=None), {"tokens": 10, "unpriced": 1}),
    (usage(None), {"cost_usd": 0.5, "unmetered": 1}),
):
    turn = answer(usage=partly)
    case(updates.keep_turn, f"without {list(unknown)[1]}", asked(), replied(turn), turn=turn, **unknown)
dear = answer(usage=usage(1, 1e308))
most = sys.float_info.max
case(updates.keep_turn, "past all dollars", asked(cost_usd=1e308), replied(dear), turn=dear, cost_usd=most, tokens=1)
free = answer(usage=usage(1, 0.0))
case(updates.keep_turn, "that was free", asked(), replied(free), turn=free, tokens=1)
BORNE = asked(retries=2, repairs=1)
case(updates.keep_turn, "a good one", BORNE, replied(answer()), turn=answer(), retries=0, repairs=0, **NO_USAGE)
case(updates.keep_turn, "a bad one", BORNE, replied(malformed()), turn=malformed(), retries=0, **NO_USAGE)
billed = answer(usage=usage())
case(
    updates.keep_turn,
    "a good one with usage",
    BORNE,
    replied(billed),
    turn=billed,
    retries=0,
    repairs=0,
    cost_usd=0.5,
    tokens=10,
)

case(updates.keep_failure, "not billed", BORNE, failed(), failure=failure())
case(
    updates.keep_failure,
    "with every fact",
    asked(),
    failed(2.0, message="wait", retryable=True, retry_after=3.0, timed_out=True, usage=usage(7, None)),
    failure=failure(message="wait", retryable=True, retry_after=3.0, timed_out=True),
    not_before=5.0,
    tokens=7,
    unpriced=1,
)
case(
    updates.keep_failure,
    "a pause of nothing",
    asked(),
    failed(2.0, retry_after=0),
    failure=failure(retry_after=0),
    not_before=2.0,
)

FAILED = begun(steps=1, failure=failure(retryable=True), not_before=5.0, retries=1)
case(updates.count_retry, "a failure", FAILED, polled(), retries=2, failure=None)
case(
    updates.append_note,
    "a malformed turn",
    brought(malformed("id: it is blank"), repairs=1),
    polled(),
    history=History([HELLO, Note("Your last reply could not be used: id: it is blank.")]),
    repairs=2,
    turn=None,
)
case(updates.append_final, "a final turn", brought(answer()), polled(), history=History([HELLO, Final(answer())]))

# --- admission --------------------------------------------------------------------------------------------

YES, NO = Decision(1, 0, approved=True), Decision(1, 1, approved=False, reason="too dear")
TO_APPROVE = asks(call(needs_approval=True), call(1, needs_approval=True))
case(updates.keep_decisions, "the first", brought(TO_APPROVE), approved(call()), decisions=(YES,))
case(
    updates.keep_decisions,
    "one more",
    brought(TO_APPROVE, decisions=(YES,)),
    refused(call(1), reason="too dear"),
    decisions=(YES, NO),
)

ADMIT = updates.admit
ONE, TWO = call(), call(1)
case(
    ADMIT,
    "one call",
    brought(asks(ONE)),
    polled(),
    ids=Ids(["c1_0"]),
    calls=1,
    flights=(Flight(ONE, RUNNING),),
)
case(
    ADMIT,
    "beside others",
    brought(asks(ONE, TWO), ids=Ids(["c0_0"]), calls=3),
    polled(),
    ids=Ids(["c0_0", "c1_0", "c1_1"]),
    calls=5,
    flights=(Flight(ONE, RUNNING), Flight(TWO, QUEUED)),
)
mixed = asks(
    call(name="send", **UNKNOWN_TOOL),
    call(1, name="send", known=False, problem="there is no send; there is look"),
    call(2, **INVALID),
    call(3, needs_approval=True),
    call(4, needs_approval=True),
    call(5, needs_approval=True),
    call(6),
)
case(
    ADMIT,
    "that cannot run",
    brought(
        mixed,
        decisions=(
            Decision(1, 3, approved=False),
            Decision(1, 4, approved=False, reason="too dear"),
            Decision(1, 5, approved=True),
        ),
    ),
    polled(),
    ids=Ids([f"c1_{place}" for place in range(7)]),
    calls=7,
    flights=(
        answered(Flight(mixed.calls[0], QUEUED), "unknown_tool", "there is no tool named 'send'"),
        answered(Flight(mixed.calls[1], QUEUED), "unknown_tool", "there is no send; there is look"),
        answered(Flight(mixed.calls[2], QUEUED), "invalid_arguments", "n: missing"),
        answered(Flight(mixed.calls[3], QUEUED), "denied", "this call was not approved", "not_approved"),
        answered(Flight(mixed.calls[4], QUEUED), "denied", "too dear", "not_approved"),
        Flight(mixed.calls[5], RUNNING),
        Flight(mixed.calls[6], QUEUED),
    ),
)
limited = asks(call(limit=2), call(1, limit=2), call(2, name="find", limit=1), call(3, name="find"))
case(
    ADMIT,
    "of tools with a limit",
    brought(limited, tool_calls=(("send", 1), ("look", 1))),
    polled(),
    ids=Ids([f"c1_{place}" for place in range(4)]),
    calls=3,
    tool_calls=(("send", 1), ("look", 2), ("find", 1)),
    flights=(
        Flight(limited.calls[0], RUNNING),
        answered(Flight(limited.calls[1], QUEUED), "over_budget", "look may be called 2 times in a run"),
        Flight(limited.calls[2], QUEUED),
        Flight(limited.calls[3], QUEUED),
    ),
)
case(
    ADMIT,
    "more than fit",
    brought(asks(ONE, TWO), calls=2, budget=Budget(max_calls=3), policy=Policy(excess_calls="refuse")),
    polled(),
    ids=Ids(["c1_0", "c1_1"]),
    calls=3,
    flights=(
        Flight(ONE, RUNNING),
        answered(Flight(TWO, QUEUED), "over_budget", "all 3 calls of this run are used"),
    ),
)
case(
    ADMIT,
    "while wrapping up",
    brought(asks(ONE), wrapping=True),
    polled(),
    ids=Ids(["c1_0"]),
    flights=(answered(Flight(ONE, QUEUED), "over_budget", "no more calls can be made; answer with what you have"),),
)
USED = Ids(["c1_0", "x"])
again, renamed = (
    asks(ONE, call(1, id="x"), call(2)),
    (
        call(sent_id="c1_0_s1_0"),
        call(1, id="x", sent_id="x_s1_1"),
        call(2),
    ),
)
case(
    ADMIT,
    "repeated, renamed",
    brought(again, ids=USED, policy=Policy(repeated_id="rename")),
    polled(),
    turn=asks(*renamed),
    ids=Ids(["c1_0", "x", "c1_0_s1_0", "x_s1_1", "c1_2"]),
    calls=3,
    flights=(Flight(renamed[0], RUNNING), Flight(renamed[1], QUEUED), Flight(renamed[2], QUEUED)),
)
case(
    ADMIT,
    "repeated, answered",
    brought(again, ids=USED, policy=Policy(repeated_id="answer")),
    polled(),
    turn=asks(*renamed),
    ids=Ids(["c1_0", "x", "c1_0_s1_0", "x_s1_1", "c1_2"]),
    calls=1,
    flights=(
        answered(Flight(renamed[0], QUEUED), "repeated", "the id 'c1_0' was used before; not executed"),
        answered(Flight(renamed[1], QUEUED), "repeated", "the id 'x' was used before; not executed"),
        Flight(renamed[2], RUNNING),
    ),
)

# --- calls under way --------------------------------------------------------------------------------------

RUNS, WAITS, GONE, DONE = flight(RUNNING), flight(QUEUED, 1), flight(LOST, 2, 1), flight(ANSWERED, 3)
RERUN = flight(QUEUED, 4, 1)
BUSY = flying(RUNS, WAITS, GONE, DONE, RERUN)
STOPPED = (RUNS, closed(WAITS), closed(GONE, "unknown"), DONE, closed(RERUN, "unknown"))
CANCELLED: dict[str, Any] = {"cancelled": True, "cancel_reason": "enough"}
START = updates.start_queued
case(
    START,
    "all that fit",
    BUSY,
    polled(),
    flights=(RUNS, flight(RUNNING, 1), GONE, DONE, flight(RUNNING, 4, 1)),
)
case(
    START,
    "one place",
    BUSY.but(policy=Policy(max_parallel=2)),
    polled(),
    flights=(RUNS, flight(RUNNING, 1), GONE, DONE, RERUN),
)
case(START, "no place", BUSY.but(policy=Policy(max_parallel=1)), polled())
case(START, "in sequence", BUSY.but(policy=Policy(batch="sequential")), polled())

FIRST_ANSWERED = (answered(RUNS, "failed", "no"), WAITS, GONE, DONE, RERUN)
case(updates.record, "a result", BUSY, returned(RUNS.call, "failed", "no"), flights=FIRST_ANSWERED)
case(
    updates.record,
    "with usage",
    BUSY.but(cost_usd=1.0, tokens=5),
    returned(RUNS.call, "failed", "no", usage=usage()),
    flights=FIRST_ANSWERED,
    cost_usd=1.5,
    tokens=15,
)
case(
    updates.record,
    "with unknown usage",
    BUSY,
    returned(RUNS.call, "failed", "no", usage=usage(None, None)),
    flights=FIRST_ANSWERED,
    **NO_USAGE,
)
REFLOWN = flying(flight(RUNNING, losses=1))
case(updates.record, "of a rerun", REFLOWN, returned(call()), flights=(answered(flight(RUNNING, losses=1)),))
case(
    updates.record_and_close,
    "a result",
    BUSY,
    returned(RUNS.call, usage=usage()),
    flights=(answered(RUNS), *STOPPED[1:]),
    cost_usd=0.5,
    tokens=10,
)
case(updates.close_rest, "of every phase", BUSY, polled(), flights=STOPPED)
case(updates.close_rest, "nothing to close", flying(RUNS, flight(ANSWERED, 1)), polled())
case(updates.cancel_and_close, "unasked", BUSY, cancel("enough"), flights=STOPPED, **CANCELLED)
case(updates.cancel_and_close, "again", BUSY.but(**CANCELLED), cancel("more"), flights=STOPPED)
case(updates.poll_and_close, "cancelled", BUSY, polled(True, "enough"), flights=STOPPED, **CANCELLED)
case(updates.poll_and_close, "a budget spent", BUSY, polled(), flights=STOPPED)
case(updates.poll_and_close, "cancelled before", BUSY.but(**CANCELLED), polled(), flights=STOPPED)
case(
    updates.requeue_lost,
    "a running call",
    BUSY,
    lost(RUNS.call),
    flights=(flight(QUEUED, losses=1), WAITS, GONE, DONE, RERUN),
)
case(
    updates.mark_lost,
    "a running call",
    BUSY,
    lost(RUNS.call),
    flights=(flight(LOST, losses=1), WAITS, GONE, DONE, RERUN),
)
SPENT = usage()
for update, one, others in (
    (updates.requeue_lost, flight(QUEUED, losses=1), BUSY.flights[1:]),
    (updates.mark_lost, flight(LOST, losses=1), BUSY.flights[1:]),
    (updates.answer_lost_and_close, closed(RUNS, "unknown"), STOPPED[1:]),
):
    told_spent = attrs.evolve(lost(RUNS.call), usage=SPENT)
    spent = BUSY.but(cost_usd=1.0, tokens=5)
    case(update, "that told its usage", spent, told_spent, flights=(one, *others), cost_usd=1.5, tokens=15)
case(
    updates.mark_lost,
    "the rerun",
    REFLOWN,
    lost(call()),
    flights=(flight(LOST, losses=2),),
)
case(
    updates.answer_lost_and_close,
    "a running call",
    BUSY,
    lost(RUNS.call),
    flights=(closed(RUNS, "unknown"), *STOPPED[1:]),
)
READS = flying(
    flight(RUNNING, effect="read"),
    flight(RUNNING, 1, effect="idempotent"),
    flight(RUNNING, 2, losses=1, effect="read"),
    flight(RUNNING, 3, effect="transactional"),
    flight(RUNNING, 4),
    flight(QUEUED, 5),
    flight(ANSWERED, 6),
)
case(
    updates.resume_running,
    "of every effect",
    READS,
    resumed(),
    flights=(
        flight(QUEUED, losses=1, effect="read"),
        flight(QUEUED, 1, losses=1, effect="idempotent"),
        flight(LOST, 2, losses=2, effect="read"),
        flight(LOST, 3, losses=1, effect="transactional"),
        flight(LOST, 4, losses=1),
        flight(QUEUED, 5),
        flight(ANSWERED, 6),
    ),
)
case(
    updates.abandon_running,
    "of every phase",
    BUSY,
    resumed(),
    flights=(closed(RUNS, "unknown"), *STOPPED[1:]),
)
GONE_THREE = [flight(LOST, place, 1) for place in range(4)]
case(
    updates.resolve,
    "in the three ways",
    flying(*GONE_THREE, state="awaiting_resolution"),
    resolved(
        word(GONE_THREE[2].call),
        word(GONE_THREE[0].call, rerun=True),
        word(GONE_THREE[1].call, result=result(GONE_THREE[1].call, content="7")),
    ),
    flights=(
        flight(QUEUED, 0, 1),
        answered(GONE_THREE[1], content="7"),
        closed(GONE_THREE[2], "unknown"),
        GONE_THREE[3],
    ),
)
BILLED = [attrs.evolve(result(one.call), usage=usage()) for one in GONE_THREE[:2]]
case(
    updates.resolve,
    "with results that were billed, and one that was not",
    flying(*GONE_THREE, state="awaiting_resolution", cost_usd=1.0, tokens=5),
    resolved(
        *(word(one.call, result=billed) for one, billed in zip(GONE_THREE, BILLED, strict=False)),
        word(GONE_THREE[2].call, result=result(GONE_THREE[2].call)),
    ),
    flights=(
        *(Flight(one.call, ANSWERED, 1, billed) for one, billed in zip(GONE_THREE, BILLED, strict=False)),
        answered(GONE_THREE[2]),
        GONE_THREE[3],
    ),
    cost_usd=2.0,
    tokens=25,
)

# --- the exchange -----------------------------------------------------------------------------------------

COLLECTED = flying(flight(ANSWERED), flight(ANSWERED, 1), decisions=(YES,), state="collecting")
EMPTIED: dict[str, Any] = {"turn": None, "flights": (), "decisions": ()}
WHOLE = Exchange(asks(call(), call(1)), (result(call()), result(call(1))))
case(updates.append_exchange, "whole", COLLECTED, polled(), history=History([HELLO, WHOLE]), **EMPTIED)


def repeated(content: str, *before: Any, identical: int = 0) -> tuple[Snapshot, dict[str, Any]]:
    """A run that collected one call with this content after these entries, and what it then looks like."""
    one = flight(ANSWERED, step=9)
    run = flying(answered(one, content=content), policy=Policy(max_identical_turns=3), identical=identical)
    said = History([HELLO, *before])
    return run.but(history=said), {"history": said.append(exchange(one.call, content=content)), **EMPTIED}


for what, content, entries, had, has in (
    ("the first of its kind", "1", (), 0, 1),
    ("as the last", "1", (exchange(call()),), 1, 2),
    ("as the last, a note between", "1", (exchange(call()), Note("no")), 2, 3),
    ("with another result", "2", (exchange(call()),), 2, 1),
    ("with another call", "1", (exchange(call(name="find")),), 2, 1),
    ("as one before the last", "1", (exchange(call()), exchange(call(name="find"))), 1, 1),
):
    run, collected = repeated(content, *entries, identical=had)
    case(updates.append_exchange, what, run, polled(), **{**collected, "identical": has})

# --- the table, run ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("update", "before", "event", "changes"), CASES)
def test_an_update_changes_what_it_says_and_nothing_else(
    update: Update, before: Snapshot, event: Event, changes: dict[str, Any]
) -> None:
    """The new snapshot differs from the old one in these fields; the old one is as it was."""
    kept = copy.deepcopy(before)
    assert (attrs.asdict(update(before, event), recurse=False), before) == (
        attrs.asdict(kept.but(**changes), recurse=False),
        kept,
    )


@pytest.mark.parametrize(("update", "before", "event", "changes"), CASES)
def test_an_update_changes_a_draft_as_it_changes_a_snapshot(
    update: Update, before: Snapshot, event: Event, changes: dict[str, Any]
) -> None:
    """In place: what it gives back is the draft, in which the same fields are others."""
    draft: Any = drafted(before)
    assert update(draft, event) is draft
    assert vars(draft) == vars(before.but(**changes))


ALL_UPDATES = [
    update
    for name, update in inspect.getmembers(updates, inspect.isfunction)
    if update.__module__ == updates.__name__ and not name.startswith("_")
]


def test_every_update_is_tested() -> None:
    """The table has cases of all updates there are."""
    assert {case.values[0] for case in CASES} == set(ALL_UPDATES)


@pytest.mark.parametrize("update", ALL_UPDATES, ids=lambda update: update.__name__)
def test_an_update_is_a_sentence_of_one_line(update: Update) -> None:
    """What a reviewer reads of an update is one sentence in one line; it takes a snapshot and an event."""
    doc = update.__doc__ or ""
    assert (doc.count("\n"), doc[-1:], list(inspect.signature(update).parameters)) == (0, ".", ["snapshot", "event"])


def test_a_result_that_is_recorded_is_the_one_that_came() -> None:
    """Recording copies nothing: the result in the snapshot is the event's own."""
    event = returned(RUNS.call)
    assert updates.record(BUSY, event).flights[0].result is event.result


def test_an_update_that_needs_a_turn_says_so() -> None:
    """A row that admits without a turn is a mistake of the table, not silence."""
    with pytest.raises(AssertionError, match=r"^the row's guards have made sure of a turn"):
        updates.admit(snapshot(), polled())
