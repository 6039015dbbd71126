"""Each guard alone: one table of cases at its boundary, each fact that it reads flipped by itself."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from loopmachine import guards
from loopmachine.definition import Guard
from loopmachine.events import Event
from loopmachine.history import History, Ids
from loopmachine.limits import Budget, Policy
from loopmachine.records import ANSWERED, LOST, QUEUED, RUNNING, Decision, Final, Note, Snapshot
from tests.facts import (
    HELLO,
    INVALID,
    UNKNOWN_TOOL,
    answer,
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
    resumed,
    returned,
    snapshot,
    usage,
)

Case = tuple[Guard, bool, str, Snapshot, Event]
CASES: list[Case] = []
T, F = True, False


def cases(guard: Guard, *given: tuple[bool, str, Snapshot] | tuple[bool, str, Snapshot, Event]) -> None:
    """Cases of a guard: whether it holds, what is special, the snapshot, and the event if it matters."""
    CASES.extend((guard, case[0], case[1], case[2], case[3] if len(case) == 4 else polled()) for case in given)


# --- cancel and budgets -----------------------------------------------------------------------------------

cases(
    guards.cancel_requested,
    (F, "nobody cancels", begun(), polled()),
    (T, "this poll says so", begun(), polled(True)),
    (T, "remembered, this poll denies it", begun(cancelled=True), polled()),
    (T, "remembered, another event", begun(cancelled=True), resumed()),
    (F, "another event", begun(), resumed()),
)
SECONDS = Budget(max_seconds=10.0)
cases(
    guards.time_spent,
    (F, "one below", begun(budget=SECONDS), polled(at=9.999)),
    (T, "at", begun(budget=SECONDS), polled(at=10.0)),
    (T, "one above", begun(budget=SECONDS), polled(at=10.001)),
    (F, "no limit", begun(), polled(at=1e9)),
    (F, "began later", begun(budget=SECONDS, since=1.0), polled(at=10.0)),
    (T, "the clock was further", begun(budget=SECONDS, clock=10.0), polled(at=3.0)),
    (F, "the clock was nearer", begun(budget=SECONDS, clock=9.0), polled(at=3.0)),
)
DOLLARS, TOKENS = Budget(max_cost_usd=2.0), Budget(max_tokens=100)
MISSING: list[tuple[bool, str, Snapshot]] = [
    (F, "cost budget, all priced", begun(budget=DOLLARS)),
    (T, "cost budget, one unpriced", begun(budget=DOLLARS, unpriced=1)),
    (F, "cost budget, one unmetered", begun(budget=DOLLARS, unmetered=1)),
    (F, "token budget, all metered", begun(budget=TOKENS)),
    (T, "token budget, one unmetered", begun(budget=TOKENS, unmetered=1)),
    (F, "token budget, one unpriced", begun(budget=TOKENS, unpriced=1)),
    (F, "no such budget", begun(budget=SECONDS, unpriced=1, unmetered=1)),
    (T, "both, one unpriced", begun(budget=Budget(max_cost_usd=2.0, max_tokens=100), unpriced=1)),
    (T, "both, one unmetered", begun(budget=Budget(max_cost_usd=2.0, max_tokens=100), unmetered=1)),
]
cases(guards.usage_missing, *MISSING)
cases(
    guards.cost_spent,
    (F, "one below", begun(budget=DOLLARS, cost_usd=1.99)),
    (T, "at", begun(budget=DOLLARS, cost_usd=2.0)),
    (T, "one above", begun(budget=DOLLARS, cost_usd=2.01)),
    (F, "no limit", begun(cost_usd=1e9)),
)
cases(
    guards.tokens_spent,
    (F, "one below", begun(budget=TOKENS, tokens=99)),
    (T, "at", begun(budget=TOKENS, tokens=100)),
    (T, "one above", begun(budget=TOKENS, tokens=101)),
    (F, "no limit", begun(tokens=10**9)),
)
cases(
    guards.steps_spent,
    (F, "one below", begun(budget=Budget(max_steps=3), steps=2)),
    (T, "at", begun(budget=Budget(max_steps=3), steps=3)),
    (T, "one above", begun(budget=Budget(max_steps=3), steps=4)),
    (F, "default, one below", begun(steps=9)),
    (T, "default, at", begun(steps=10)),
)
WRAPS, THREE_STEPS, TWO_CALLS = Policy(wrap_up=True), Budget(max_steps=3), Budget(max_calls=2)
cases(
    guards.wrap_up_due,
    (F, "two steps left", begun(policy=WRAPS, budget=THREE_STEPS, steps=1)),
    (T, "one step left", begun(policy=WRAPS, budget=THREE_STEPS, steps=2)),
    (T, "no step left", begun(policy=WRAPS, budget=THREE_STEPS, steps=3)),
    (T, "the only step", begun(policy=WRAPS, budget=Budget(max_steps=1))),
    (F, "one call left", begun(policy=WRAPS, budget=TWO_CALLS, calls=1)),
    (T, "no call left", begun(policy=WRAPS, budget=TWO_CALLS, calls=2)),
    (T, "more calls than the new budget has", begun(policy=WRAPS, budget=TWO_CALLS, calls=3)),
    (F, "no limit of calls", begun(policy=WRAPS, calls=10**6)),
    (F, "last step, policy does not wrap up", begun(budget=THREE_STEPS, steps=2)),
    (F, "calls spent, policy does not wrap up", begun(budget=TWO_CALLS, calls=2)),
)

# --- what the step brought --------------------------------------------------------------------------------

RETRIES, REPAIRS = Policy(model_retries=2), Policy(repairs=2)


def after_failure(**fields: Any) -> Snapshot:
    """A run whose first step failed in a way that may pass, under a policy of two retries."""
    return begun(**{"steps": 1, "failure": failure(retryable=True), "policy": RETRIES, "budget": THREE_STEPS, **fields})


cases(
    guards.retry_left,
    (T, "retryable", after_failure()),
    (F, "not retryable", after_failure(failure=failure())),
    (F, "no failure", after_failure(failure=None)),
    (T, "one retry left", after_failure(retries=1)),
    (F, "no retry left", after_failure(retries=2)),
    (F, "the policy bears none", after_failure(policy=Policy())),
    (T, "one step left", after_failure(steps=2)),
    (F, "no step left", after_failure(steps=3)),
    (T, "usage missing that no budget needs", after_failure(unpriced=1, unmetered=1)),
    (F, "a cost unknown that a budget needs", after_failure(unpriced=1, budget=DOLLARS)),
    (F, "tokens unknown that a budget needs", after_failure(unmetered=1, budget=TOKENS)),
    (T, "timed out and retryable", after_failure(failure=failure(retryable=True, timed_out=True))),
)
cases(
    guards.model_timed_out,
    (T, "timed out", begun(failure=failure(timed_out=True))),
    (F, "failed otherwise", begun(failure=failure())),
    (F, "no failure", begun()),
)
cases(
    guards.model_failed,
    (T, "a failure", begun(failure=failure())),
    (T, "a retryable failure", begun(failure=failure(retryable=True))),
    (F, "no failure", begun()),
    (F, "a turn", brought(malformed())),
)
TURNS = {
    "a cut turn": answer(stop="length"),
    "a refusal": answer(stop="refusal"),
    "a malformed turn": malformed(),
    "a final turn": answer(),
    "a turn with calls": asks(call()),
}
for the_guard, kind in (
    (guards.turn_truncated, "a cut turn"),
    (guards.turn_refused, "a refusal"),
    (guards.turn_malformed, "a malformed turn"),
    (guards.turn_final, "a final turn"),
):
    cases(the_guard, *((name == kind, name, brought(turn)) for name, turn in TURNS.items()), (F, "no turn", begun()))


def after_nonsense(**fields: Any) -> Snapshot:
    """A run whose first step brought a malformed turn, under a policy of two repairs."""
    return brought(**{"turn": malformed(), "policy": REPAIRS, "budget": THREE_STEPS, **fields})


cases(
    guards.repair_left,
    (T, "malformed", after_nonsense()),
    *((F, name, after_nonsense(turn=turn)) for name, turn in TURNS.items() if name != "a malformed turn"),
    (F, "no turn", after_nonsense(turn=None)),
    (T, "one repair left", after_nonsense(repairs=1)),
    (F, "no repair left", after_nonsense(repairs=2)),
    (F, "the policy repairs nothing", after_nonsense(policy=Policy())),
    (T, "one step left", after_nonsense(steps=2)),
    (F, "no step left", after_nonsense(steps=3)),
    (T, "usage missing that no budget needs", after_nonsense(unpriced=1, unmetered=1)),
    (F, "a cost unknown that a budget needs", after_nonsense(unpriced=1, budget=DOLLARS)),
    (F, "tokens unknown that a budget needs", after_nonsense(unmetered=1, budget=TOKENS)),
)

# --- admission --------------------------------------------------------------------------------------------

ONE, TWO = asks(call()), asks(call(), call(1))
cases(
    guards.call_repeated,
    (F, "a fresh id", brought(ONE)),
    (T, "an id of the run", brought(ONE, ids=Ids(["c1_0"]))),
    (F, "other ids of the run", brought(ONE, ids=Ids(["c0_0", "c1_1"]))),
    (F, "two fresh ids", brought(TWO)),
    (T, "the second is of the run", brought(TWO, ids=Ids(["c1_1"]))),
    (T, "twice in the turn", brought(asks(call(id="a"), call(1, id="a")))),
    (T, "first and third in the turn", brought(asks(call(id="a"), call(1), call(2, id="a")))),
    (F, "answered by policy", brought(ONE, ids=Ids(["c1_0"]), policy=Policy(repeated_id="answer"))),
    (F, "renamed by policy", brought(ONE, ids=Ids(["c1_0"]), policy=Policy(repeated_id="rename"))),
    (F, "no turn", begun(ids=Ids(["c1_0"]))),
)
cases(
    guards.batch_unsupported,
    (F, "one call", brought(ONE, policy=Policy(batch="reject"))),
    (T, "two calls", brought(TWO, policy=Policy(batch="reject"))),
    (F, "two in parallel", brought(TWO)),
    (F, "two in sequence", brought(TWO, policy=Policy(batch="sequential"))),
    (F, "no turn", begun(policy=Policy(batch="reject"))),
)
TWICE = Policy(max_identical_turns=2)
AGAIN = asks(call(step=3))


def after_turns(*entries: Any, **fields: Any) -> Snapshot:
    """A run that says for the third time what it said twice, under a policy that bears two."""
    history = History([HELLO, *(entries or (exchange(call()), exchange(call(step=2))))])
    return brought(**{"turn": AGAIN, "history": history, "identical": 2, "policy": TWICE, **fields})


cases(
    guards.calls_stuck,
    (F, "one below", after_turns(identical=1)),
    (T, "at", after_turns()),
    (T, "one above", after_turns(identical=3)),
    (F, "no limit", after_turns(policy=Policy())),
    (F, "no turn", after_turns(turn=None)),
    (F, "another tool", after_turns(turn=asks(call(name="find")))),
    (F, "other arguments", after_turns(turn=asks(call(checked='{"n":1}')))),
    (T, "the same arguments written otherwise", after_turns(turn=asks(call(arguments_text="{ }")))),
    (F, "one call more", after_turns(turn=TWO)),
    (T, "unchecked, the same text", after_turns(exchange(call(**INVALID)), turn=asks(call(step=2, **INVALID)))),
    (F, "unchecked, other text", after_turns(exchange(call(**INVALID)), turn=asks(call(arguments_text="", **INVALID)))),
    (T, "a note between", after_turns(exchange(call()), Note("no"))),
    (F, "no exchange", after_turns(Note("no"))),
    (F, "an exchange of an earlier run", after_turns(exchange(call()), Final(answer()), HELLO)),
)


def over(calls: int, turn: Any = TWO, **fields: Any) -> Snapshot:
    """A run that has made so many of three calls, and whose turn asks for more."""
    return brought(**{"turn": turn, "calls": calls, "budget": Budget(max_calls=3), **fields})


LIMITED = asks(call(limit=1), call(1, limit=1))
cases(
    guards.calls_over_budget,
    (F, "one below", over(0)),
    (F, "at", over(1)),
    (T, "one above", over(2)),
    (T, "spent", over(3, ONE)),
    (T, "beyond a new budget", over(4, ONE)),
    (F, "no limit", over(2, budget=Budget())),
    (F, "the policy refuses the excess", over(2, policy=Policy(excess_calls="refuse"))),
    (F, "while wrapping up", over(2, wrapping=True)),
    (F, "no turn", over(3, None)),
    (T, "an unknown tool counts", over(3, asks(call(**UNKNOWN_TOOL)))),
    (T, "invalid arguments count", over(3, asks(call(**INVALID)))),
    (
        T,
        "a denied call counts",
        over(3, asks(call(needs_approval=True)), decisions=(Decision(1, 0, approved=False),)),
    ),
    (F, "one over its tool's limit does not count", over(2, LIMITED)),
    (T, "one within its tool's limit counts", over(3, LIMITED)),
    (F, "all over their tool's limit", over(3, LIMITED, tool_calls=(("look", 1),))),
    (F, "beyond a new budget, none counts", over(4, LIMITED, tool_calls=(("look", 1),))),
    (F, "an answered repeat does not count", over(3, ONE, ids=Ids(["c1_0"]), policy=Policy(repeated_id="answer"))),
    (T, "a renamed repeat counts", over(3, ONE, ids=Ids(["c1_0"]), policy=Policy(repeated_id="rename"))),
)
ASKED = asks(call(needs_approval=True))


def asking(turn: Any = ASKED, **fields: Any) -> Snapshot:
    """A run whose turn asks for a call that needs approval."""
    return brought(turn, **fields)


cases(
    guards.approval_needed,
    (T, "undecided", asking()),
    (F, "needs none", asking(ONE)),
    (F, "approved", asking(decisions=(Decision(1, 0, approved=True),))),
    (F, "denied", asking(decisions=(Decision(1, 0, approved=False),))),
    (T, "another step decided", asking(decisions=(Decision(2, 0, approved=True),))),
    (T, "another place decided", asking(decisions=(Decision(1, 1, approved=True),))),
    (T, "the second undecided", asking(asks(call(), call(1, needs_approval=True)))),
    (F, "an unknown tool", asking(asks(call(needs_approval=True, **UNKNOWN_TOOL)))),
    (F, "invalid arguments", asking(asks(call(needs_approval=True, **INVALID)))),
    (F, "an answered repeat", asking(ids=Ids(["c1_0"]), policy=Policy(repeated_id="answer"))),
    (T, "a renamed repeat", asking(ids=Ids(["c1_0"]), policy=Policy(repeated_id="rename"))),
    (F, "while wrapping up", asking(wrapping=True)),
    (
        F,
        "over its tool's limit",
        asking(asks(call(needs_approval=True, limit=1)), tool_calls=(("look", 1),)),
    ),
    (F, "refused as excess", asking(calls=1, budget=Budget(max_calls=1), policy=Policy(excess_calls="refuse"))),
    (T, "within the budget", asking(calls=1, budget=Budget(max_calls=2), policy=Policy(excess_calls="refuse"))),
    (F, "no turn", begun()),
)

# --- calls under way --------------------------------------------------------------------------------------

RUNS = flight(RUNNING)


def dispatching(**fields: Any) -> Snapshot:
    """A run with one running and one queued call."""
    return flying(RUNS, flight(QUEUED, 1), **fields)


cases(
    guards.stopping,
    (F, "nothing stops", dispatching()),
    (T, "a cancel remembered", dispatching(cancelled=True)),
    (T, "a cancel told by a poll", dispatching(), polled(True)),
    (T, "a cancel told unasked", dispatching(), cancel()),
    (F, "time, one below", dispatching(budget=SECONDS), polled(at=9.999)),
    (T, "time, at", dispatching(budget=SECONDS), polled(at=10.0)),
    (T, "time, the clock was there", dispatching(budget=SECONDS, clock=10.0), polled(at=0.0)),
    (F, "cost, one below", dispatching(budget=DOLLARS, cost_usd=1.99)),
    (T, "cost, at", dispatching(budget=DOLLARS, cost_usd=2.0)),
    (F, "tokens, one below", dispatching(budget=TOKENS, tokens=99)),
    (T, "tokens, at", dispatching(budget=TOKENS, tokens=100)),
    (T, "a cost unknown", dispatching(budget=DOLLARS, unpriced=1)),
    (T, "tokens unknown", dispatching(budget=TOKENS, unmetered=1)),
    (F, "usage missing that no budget needs", dispatching(unpriced=1, unmetered=1)),
    (F, "steps and calls do not stop a call", dispatching(steps=9, budget=Budget(max_steps=1, max_calls=1))),
    (F, "a result, its cost one below", dispatching(budget=DOLLARS), returned(RUNS.call, usage=usage(cost=1.99))),
    (T, "a result, its cost at", dispatching(budget=DOLLARS), returned(RUNS.call, usage=usage(cost=2.0))),
    (F, "a result, its tokens one below", dispatching(budget=TOKENS), returned(RUNS.call, usage=usage(99))),
    (T, "a result, its tokens at", dispatching(budget=TOKENS), returned(RUNS.call, usage=usage(100))),
    (T, "a result, its cost unknown", dispatching(budget=DOLLARS), returned(RUNS.call, usage=usage(cost=None))),
    (T, "a result, its tokens unknown", dispatching(budget=TOKENS), returned(RUNS.call, usage=usage(None))),
    (F, "a result without usage", dispatching(budget=DOLLARS), returned(RUNS.call)),
    (F, "a lost call", dispatching(), lost(RUNS.call)),
    (F, "a new host", dispatching(), resumed()),
)


def losing(losses: int = 0, **fields: Any) -> tuple[Snapshot, Event]:
    """A running call, and that it was lost; another one beside it is safe."""
    one = flight(RUNNING, 1, losses, **fields)
    return flying(flight(RUNNING, effect="read"), one), lost(one.call)


cases(
    guards.rerun_safe,
    (T, "a read", *losing(effect="read")),
    (T, "idempotent", *losing(effect="idempotent")),
    (F, "transactional", *losing(effect="transactional")),
    (F, "once", *losing(effect="once")),
    (F, "by default", *losing()),
    (F, "a read lost before", *losing(1, effect="read")),
    (F, "a read lost twice before", *losing(2, effect="read")),
)
LOST_ONE, QUEUED_ONE, RUNNING_ONE, ANSWERED_ONE = (flight(phase) for phase in (LOST, QUEUED, RUNNING, ANSWERED))
PHASES = {
    "none": (),
    "answered": (ANSWERED_ONE,),
    "lost": (LOST_ONE,),
    "running": (RUNNING_ONE,),
    "queued": (QUEUED_ONE,),
    "lost and answered": (LOST_ONE, ANSWERED_ONE),
    "lost and running": (LOST_ONE, RUNNING_ONE),
    "queued and lost": (QUEUED_ONE, LOST_ONE),
    "answered and running": (ANSWERED_ONE, RUNNING_ONE),
    "answered and queued": (ANSWERED_ONE, QUEUED_ONE),
}
cases(
    guards.calls_lost,
    *((name in ("lost", "lost and answered"), name, flying(*flights)) for name, flights in PHASES.items()),
)
cases(
    guards.calls_open,
    *(("running" in name or "queued" in name, name, flying(*flights)) for name, flights in PHASES.items()),
)

# --- the table, run ---------------------------------------------------------------------------------------

ALL_GUARDS = [
    guard
    for name, guard in inspect.getmembers(guards, inspect.isfunction)
    if guard.__module__ == guards.__name__ and not name.startswith("_")
]


@pytest.mark.parametrize(
    ("guard", "holds", "start", "event"),
    [
        pytest.param(guard, holds, start, event, id=f"{guard.__name__}: {what}")
        for guard, holds, what, start, event in CASES
    ],
)
def test_a_guard_at_its_boundary(guard: Guard, holds: bool, start: Snapshot, event: Event) -> None:
    """A guard holds in this case, or does not, and says so with a bool."""
    assert guard(start, event) is holds


@pytest.mark.parametrize("guard", ALL_GUARDS, ids=lambda guard: guard.__name__)
def test_every_guard_is_seen_both_ways(guard: Guard) -> None:
    """The table has cases of each guard that holds and of each that does not, none of them named twice."""
    mine = [(what, holds) for one, holds, what, _, _ in CASES if one is guard]
    assert ({holds for _, holds in mine}, len({what for what, _ in mine})) == ({True, False}, len(mine))


@pytest.mark.parametrize("guard", ALL_GUARDS, ids=lambda guard: guard.__name__)
def test_a_guard_is_a_sentence_of_one_line(guard: Guard) -> None:
    """What a reviewer reads of a guard is one sentence in one line; it takes a snapshot and an event."""
    doc = guard.__doc__ or ""
    assert (doc.count("\n"), doc[-1:], list(inspect.signature(guard).parameters)) == (0, ".", ["snapshot", "event"])


def test_a_guard_changes_nothing() -> None:
    """After all the cases every snapshot is still what it was."""
    before = [hash((start, event)) for _, _, _, start, event in CASES]
    for guard, _, _, start, event in CASES:
        guard(start, event)
    assert [hash((start, event)) for _, _, _, start, event in CASES] == before


@pytest.mark.parametrize(
    ("guard", "holds", "start", "event"),
    [
        pytest.param(guard, holds, start, event, id=f"{guard.__name__}: {what}")
        for guard, holds, what, start, event in CASES
    ],
)
def test_a_guard_changes_no_draft(guard: Guard, holds: bool, start: Snapshot, event: Event) -> None:
    """Whose ``but`` would: between two rests a guard sees one, and says of it what it says of the snapshot."""
    draft = drafted(start)
    assert (guard(draft, event), vars(draft)) == (holds, vars(start))


def test_a_failure_tells_a_guard_nothing_before_it_is_kept() -> None:
    """Guards of an auto state read the snapshot; the event that led there brought it up to date."""
    assert guards.model_failed(snapshot(), failed()) is False
