"""The promises: each names a fault that is planted in the table, and none is broken by the table as it is."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from loopmachine import guards, updates
from loopmachine.definition import Definition, Row, State
from loopmachine.errors import UnexpectedEvent
from loopmachine.events import CancelPolled, Event
from loopmachine.history import History
from loopmachine.limits import Budget, Policy, Usage
from loopmachine.machine import advance
from loopmachine.records import ANSWERED, RUNNING, CallResult, Exchange, Flight, Snapshot
from loopmachine.requests import AskModel, PollCancel, StartCalls
from loopmachine.review.account import seal
from loopmachine.review.answers import most_answers
from loopmachine.review.moves import Move, moves
from loopmachine.review.promises import PROMISES, SUBJECTS, broken
from loopmachine.table import TOOL_LOOP
from tests.facts import (
    INVALID,
    UNKNOWN_TOOL,
    answer,
    approved,
    asks,
    begun,
    call,
    cancel,
    failed,
    lost,
    polled,
    replied,
    resolved,
    returned,
    usage,
    word,
)

ROOT = Path(__file__).parents[1]

# --- faults -----------------------------------------------------------------------------------------------


def planted(row_id: str, definition: Definition = TOOL_LOOP, **changes: Any) -> Definition:
    """The table with something else in one row."""
    state, _, number = row_id.rpartition("/")
    rows = list(definition.rows(state))
    rows[int(number) - 1] = attrs.evolve(rows[int(number) - 1], **changes)
    return attrs.evolve(definition, table={**definition.table, definition.states[state]: rows})


@attrs.frozen
class Leaky:
    """An entry of a history that hands out what it holds."""

    turn: Any
    said: list[dict[str, Any]]

    def messages(self) -> list[dict[str, Any]]:
        """Its own message."""
        return self.said


def leaking() -> Definition:
    """The loop with an update that keeps what can be changed."""

    def leak(snapshot: Any, event: Any) -> Any:
        """Append what can be changed."""
        return snapshot.but(history=snapshot.history.append(Leaky(snapshot.turn, [{"kind": "final"}])))

    return planted("validating/8", update=leak)


def without(state: str, number: int) -> Definition:
    """The table without a row."""
    rows = list(TOOL_LOOP.rows(state))
    del rows[number - 1]
    return attrs.evolve(TOOL_LOOP, table={**TOOL_LOOP.table, TOOL_LOOP.states[state]: rows})


def exchanged(state: str, one: int, other: int) -> Definition:
    """The table with two rows in each other's place."""
    rows = list(TOOL_LOOP.rows(state))
    rows[one - 1], rows[other - 1] = rows[other - 1], rows[one - 1]
    return attrs.evolve(TOOL_LOOP, table={**TOOL_LOOP.table, TOOL_LOOP.states[state]: rows})


def asking(state: str, asks: Callable[[Any], tuple[Any, ...]], definition: Definition = TOOL_LOOP) -> Definition:
    """The table with a state that asks for something else."""
    table = {attrs.evolve(one, asks=asks) if one.name == state else one: rows for one, rows in definition.table.items()}
    return attrs.evolve(definition, table=table)


def never(snapshot: Any, event: Any) -> bool:
    """It does not hold."""
    return False


def always(snapshot: Any, event: Any) -> bool:
    """It holds."""
    return True


def uncounted(snapshot: Snapshot, event: Event) -> Snapshot:
    """Ask, and count nothing."""
    return snapshot.but(turn=None, failure=None)


def append_too_little(snapshot: Snapshot, event: Event) -> Snapshot:
    """Append the exchange without its last result."""
    after = updates.append_exchange(snapshot, event)
    last = after.history.entries[-1]
    return after.but(history=snapshot.history.append(Exchange(last.turn, last.results[:-1])))


def rewrite(snapshot: Snapshot, event: Event) -> Snapshot:
    """Keep of the history only the last exchange."""
    after = updates.append_exchange(snapshot, event)
    return after.but(history=History([after.history.entries[-1]]))


def record_and_start(snapshot: Snapshot, event: Any) -> Snapshot:
    """Record the result, and start what is queued."""
    return updates.start_queued(updates.record(snapshot, event), event)


def admit_all(snapshot: Snapshot, event: Event) -> Snapshot:
    """Admit the calls, and start all of them."""
    after = updates.admit(snapshot, event)
    return after.but(flights=tuple(Flight(flight.call, RUNNING) for flight in after.flights))


def admit_another(snapshot: Snapshot, event: Event) -> Snapshot:
    """Admit the calls, with other arguments."""
    after = updates.admit(snapshot, event)
    others = [Flight(attrs.evolve(flight.call, checked='{"n":2}'), RUNNING) for flight in after.flights]
    return after.but(flights=tuple(others))


def rosy(update: Callable[[Any, Any], Snapshot]) -> Callable[[Any, Any], Snapshot]:
    """The same update, after which each result is ok."""

    def told(snapshot: Snapshot, event: Any) -> Snapshot:
        """Say that all is well."""
        after = update(snapshot, event)
        flights = [
            attrs.evolve(flight, result=attrs.evolve(flight.result, outcome="ok")) if flight.result else flight
            for flight in after.flights
        ]
        return after.but(flights=tuple(flights))

    return told


def answer_all(snapshot: Snapshot, event: Any) -> Snapshot:
    """Remember the cancel, and say that every call is done."""
    done = [Flight(one.call, ANSWERED, 0, CallResult.of(one.call, "ok", "1")) for one in snapshot.flights]
    return updates.remember_cancel(snapshot, event).but(flights=tuple(done))


def run_on(snapshot: Snapshot) -> tuple[Any, ...]:
    """The running calls and a poll, whatever is spent."""
    return StartCalls(tuple(one.call for one in snapshot.flights if one.phase == RUNNING)), PollCancel()


_TICKS = itertools.count()


def restless(snapshot: Snapshot, event: Event) -> Snapshot:
    """Ask, and say how often this was called."""
    return updates.ask_with_tools(snapshot, event).but(cancel_reason=str(next(_TICKS)))


def lying(state: str, *accepted: str) -> Definition:
    """The table, which does not tell truly what a state accepts."""

    class Lying(Definition):
        def accepts(self, name: str) -> tuple[str, ...]:
            return accepted if name == state else super().accepts(name)

    return Lying(TOOL_LOOP.initial, TOOL_LOOP.table, hear=TOOL_LOOP.hear)


# --- plays ------------------------------------------------------------------------------------------------

ONE, TWO = call(), call(1)
READ = call(effect="read")
PAY = call(needs_approval=True)
TWICE = asks(ONE, call(1, id=ONE.id))
BOTH = (polled(), replied(asks(ONE, TWO)), polled())
STRANGE = StartCalls((call(step=7),))  #: a call that nobody asked for


def step(*calls: Any, **fields: Any) -> tuple[Event, ...]:
    """A step that asks for calls, up to the poll after it."""
    return polled(), replied(asks(*calls, **fields)), polled()


Plant = tuple[str, Definition, Snapshot, tuple[Event, ...], str]

PLANTS: dict[str, Plant] = {
    "it polls and polls": (
        "I1",
        TOOL_LOOP.with_row("checking_cancel", Row(CancelPolled, "checking_cancel", always), at=2),
        begun(),
        (polled(),),
        "the run is no nearer to its end: 31 answers were left after this event, 30 may be",
    ),
    "an approval is forgotten": (
        "I1",
        planted("awaiting_approval/1", update=None),
        begun(),
        (*step(PAY), approved(PAY)),
        "the run is no nearer to its end: 36 answers were left after this event, 34 may be",
    ),
    "a resolution is forgotten": (
        "I1",
        planted("awaiting_resolution/1", update=None),
        begun(),
        (*step(ONE), lost(ONE), resolved(word(ONE))),
        "the run is no nearer to its end: 29 answers were left after this event, 28 may be",
    ),
    "steps are not looked at": (
        "I2",
        planted("checking_budget/5", guard=never),
        begun(budget=Budget(max_steps=1)),
        (*step(ONE), returned(ONE), polled()),
        "the model is asked though 1 steps are used of 1",
    ),
    "time is not looked at": (
        "I2",
        planted("checking_budget/1", guard=never),
        begun(budget=Budget(max_seconds=1.0)),
        (polled(at=1.0),),
        "the model is asked though the budget forbids it: time",
    ),
    "missing usage is taken for none": (
        "I2",
        planted("checking_budget/2", guard=never),
        begun(budget=Budget(max_cost_usd=1.0)),
        (*step(ONE, usage=usage()), returned(ONE, usage=Usage()), polled()),
        "the model is asked though the budget forbids it: usage",
    ),
    "cost is not looked at while calls are queued": (
        "I2",
        asking("dispatching", run_on, planted("dispatching/6", planted("dispatching/1", guard=never), guard=never)),
        begun(budget=Budget(max_cost_usd=1.0), policy=Policy(max_parallel=1)),
        (*step(ONE, TWO, usage=usage()), returned(ONE, usage=usage()), polled()),
        "a call is started though the budget forbids it: cost",
    ),
    "tokens are not looked at": (
        "I2",
        planted("checking_budget/4", guard=never),
        begun(budget=Budget(max_tokens=20)),
        (*step(ONE, usage=usage()), returned(ONE, usage=usage()), polled()),
        "the model is asked though the budget forbids it: tokens",
    ),
    "the call budget is not looked at": (
        "I2",
        planted("admitting/8", guard=never),
        begun(budget=Budget(max_calls=1)),
        BOTH,
        "2 calls are admitted, 1 may be",
    ),
    "a step is not counted": (
        "I2",
        planted("checking_budget/7", update=uncounted),
        begun(),
        (polled(),),
        "the snapshot shows Spend(steps=0, calls=0, seconds=0.0, cost_usd=0.0, tokens=0, unpriced=0, unmetered=0), "
        "the events say (1, 0, 0.0, 0, 0, 0) and 0.0 seconds",
    ),
    "tools are offered though the run wraps up": (
        "I2",
        planted("checking_budget/6", guard=never),
        begun(budget=Budget(max_steps=1), policy=Policy(wrap_up=True)),
        (polled(),),
        "tools are offered to wrap up with",
    ),
    "a call is asked for without its deadline": (
        "I2",
        asking("awaiting_model", lambda at: (AskModel(at.steps, deadline=at.deadline and at.deadline + 1),)),
        begun(budget=Budget(max_seconds=2.0)),
        (polled(),),
        "AskModel is to be done by 3.0, and the time is spent at 2.0",
    ),
    "an exchange does not enter the history": (
        "I3",
        planted("collecting/3", update=None),
        begun(),
        (*step(ONE), returned(ONE), polled()),
        "the call (1, 0) of look was admitted and is not in the history",
    ),
    "what is under way is not interrupted": (
        "I5",
        asking("awaiting_model", lambda at: (AskModel(at.steps),)),
        begun(),
        (polled(), cancel()),
        "a cancel was observed, and what is under way is not to be interrupted",
    ),
    "a result does not enter the history": (
        "I3",
        planted("collecting/3", update=append_too_little),
        begun(),
        (*step(ONE), returned(ONE)),
        "entry 1 of the history has the calls [(1, 0, 'c1_0', 'look')] and the results []",
    ),
    "what asks for calls is taken for an answer": (
        "I3",
        planted("validating/8", guard=always),
        begun(),
        step(ONE),
        "entry 1 of the history is final and holds calls",
    ),
    "a lost call is queued whatever it does": (
        "I4",
        planted("dispatching/5", update=updates.requeue_lost),
        begun(),
        (*step(ONE), lost(ONE), polled()),
        "the call (1, 0) of look is started again; it is lost",
    ),
    "a call is started twice at once": (
        "I4",
        asking("dispatching", lambda snapshot: (StartCalls((ONE, ONE)),)),
        begun(),
        step(ONE),
        "the call (1, 0) of look is started again; it is started",
    ),
    "a call is started that was not admitted": (
        "I4",
        asking("awaiting_model", lambda snapshot: (STRANGE,)),
        begun(),
        (polled(),),
        "the call (7, 0) of look is started and was not admitted",
    ),
    "somebody is asked what became of a call that may run again": (
        "I4",
        planted("dispatching/4", guard=never),
        begun(),
        (*step(READ), lost(READ)),
        "somebody is asked what became of the call (1, 0) of look; it is again",
    ),
    "a cancel is forgotten": (
        "I5",
        planted("awaiting_model/3", update=None),
        begun(),
        (polled(), cancel()),
        "a cancel was observed, and the snapshot says otherwise",
    ),
    "a cancel is made up": (
        "I5",
        planted("checking_cancel/2", update=updates.remember_cancel),
        begun(),
        (polled(),),
        "a cancel was not observed, and the snapshot says otherwise",
    ),
    "the model is asked all the same": (
        "I5",
        asking(
            "awaiting_model",
            lambda snapshot: (AskModel(snapshot.steps),),
            planted("checking_cancel/1", planted("checking_cancel/2", update=updates.remember_cancel), guard=never),
        ),
        begun(),
        (polled(cancelled=True),),
        "the model is asked after a cancel was observed",
    ),
    "a cut turn is run": (
        "I5",
        planted("validating/4", guard=never),
        begun(),
        step(ONE, stop="length"),
        "a call is started after a turn that was cut by its length",
    ),
    "a call is started without a poll": (
        "I5",
        planted("dispatching/2", update=record_and_start),
        begun(policy=Policy(max_parallel=1)),
        (*BOTH, returned(ONE)),
        "a call is started on CallReturned, without a poll immediately before",
    ),
    "a cap stands before the answer": (
        "I6",
        TOOL_LOOP.with_row("validating", Row(None, "finished_time_budget", guards.time_spent), at=8),
        begun(budget=Budget(max_seconds=1.0)),
        (polled(), replied(answer(), at=1.0), polled(at=1.0)),
        "a final turn was received, and the run is time_budget, its history ending with (UserMessage(text='hello'),)",
    ),
    "the answer does not enter the history": (
        "I6",
        planted("validating/8", update=None),
        begun(),
        (polled(), replied(answer()), polled()),
        "a final turn was received, and the run is answered, its history ending with (UserMessage(text='hello'),)",
    ),
    "the history is rewritten": (
        "I7",
        planted("collecting/3", update=rewrite),
        begun(),
        (*step(ONE), returned(ONE)),
        "the history was rewritten: 1 entries are not the beginning of the 1",
    ),
    "a rest waits for nothing": (
        "I8",
        asking("awaiting_model", lambda snapshot: ()),
        begun(),
        (polled(),),
        "the run stands in awaiting_model and waits for nothing",
    ),
    "nobody can approve nothing": (
        "I8",
        planted("admitting/9", guard=always),
        begun(),
        step(ONE),
        "the run stands in awaiting_approval and waits for (AskApproval(calls=()),)",
    ),
    "an event is taken that is not accepted": (
        "I8",
        lying("checking_cancel", "Resumed"),
        begun(),
        (polled(),),
        "checking_cancel took CancelPolled; it accepts Resumed",
    ),
    "a state takes what it does not accept": (
        "I8",
        lying("awaiting_model", "ModelReplied", "ModelFailed", "CancelRequested"),
        begun(),
        (polled(),),
        "awaiting_model took Resumed; it accepts ModelReplied, ModelFailed, CancelRequested",
    ),
    "a rest does not take another host": (
        "I8",
        without("awaiting_model", 4),
        begun(),
        (polled(),),
        "the run stands in awaiting_model, which does not take Resumed",
    ),
    "a rest does not take a cancel": (
        "I8",
        without("awaiting_model", 3),
        begun(),
        (polled(),),
        "the run stands in awaiting_model, which does not take CancelRequested",
    ),
    "a cancel makes the machine forget that it asked the model": (
        "I8",
        planted("awaiting_model/3", to="rechecking_cancel"),
        begun(),
        (polled(), cancel()),
        "the model was asked, and in rechecking_cancel nobody waits for it any more",
    ),
    "a final state accepts something": (
        "I8",
        lying("finished_cancelled", "Resumed"),
        begun(),
        (polled(cancelled=True),),
        "the run ended in finished_cancelled, which accepts Resumed",
    ),
    "an update counts its calls": (
        "I9",
        planted("checking_budget/7", update=restless),
        begun(),
        (polled(),),
        "the same event led to awaiting_model by ('checking_cancel/2', 'checking_budget/7'), then to awaiting_model",
    ),
    "a failed call is called ok": (
        "I10",
        planted("dispatching/2", update=rosy(updates.record)),
        begun(),
        (*BOTH, polled(), returned(ONE, "failed")),
        "the call (1, 0) of look has the result ok ('1'), but it had the result failed ('1')",
    ),
    "an unknown tool is called ok": (
        "I10",
        planted("admitting/10", update=rosy(updates.admit)),
        begun(),
        step(call(problem="no", **UNKNOWN_TOOL)),
        "the call (1, 0) of look has the result ok ('no'), but it may not run: unknown_tool",
    ),
    "a call that waits is not started": (
        "I10",
        planted("dispatching/7", update=updates.close_rest),
        begun(),
        (*BOTH, polled()),
        "the call (1, 1) of look has the result not_started ('the run was stopped before this call was started'), "
        "but it is unstarted, and the run goes on",
    ),
    "a running call is called done": (
        "I10",
        planted("dispatching/8", update=answer_all),
        begun(),
        (*step(ONE), cancel()),
        "the call (1, 0) of look has the result ok ('1'), but it is running",
    ),
    "what nobody knows is called ok": (
        "I10",
        planted("awaiting_resolution/1", update=rosy(updates.resolve)),
        begun(),
        (*step(ONE, TWO), polled(), lost(ONE), lost(TWO), resolved(word(ONE))),
        "the call (1, 0) of look has the result ok ('it was started, and nobody knows what it did'), "
        "but somebody said that it stays unknown",
    ),
    "the rest is not closed": (
        "I10",
        planted("dispatching/8", update=updates.remember_cancel),
        begun(),
        (*BOTH, cancel()),
        "the call (1, 1) of look has no result, but it is unstarted, and the run was stopped",
    ),
    "a call is started that may not run": (
        "I12",
        planted("admitting/10", update=admit_all),
        begun(),
        step(call(**INVALID)),
        "the call (1, 0) of look is started though it may not run: invalid_arguments",
    ),
    "a call is started that nobody approved": (
        "I12",
        planted("admitting/9", guard=never),
        begun(),
        step(PAY),
        "the call (1, 0) of look is started though nobody approved it",
    ),
    "a call is started with other arguments": (
        "I12",
        planted("admitting/10", update=admit_another),
        begun(),
        step(ONE),
        "the call (1, 0) of look is started and was not asked for",
    ),
    "too many calls run at once": (
        "I12",
        planted("admitting/10", update=admit_all),
        begun(policy=Policy(max_parallel=1)),
        BOTH,
        "2 calls run at once, 1 may",
    ),
    "calls run beside each other that must not": (
        "I12",
        planted("admitting/10", update=admit_all),
        begun(policy=Policy(batch="sequential")),
        BOTH,
        "2 calls run at once, 1 may",
    ),
    "a call runs beside one that must be alone": (
        "I12",
        planted("admitting/10", update=admit_all),
        begun(),
        step(ONE, call(1, alone=True)),
        "['look', 'look'] run at once, and one must run alone",
    ),
    "an id is used twice": (
        "I12",
        planted("admitting/1", guard=never),
        begun(),
        (polled(), replied(TWICE), polled()),
        "the calls admitted go by the ids ['c1_0', 'c1_0']; an id was used before",
    ),
    "a batch is run that the policy rejects": (
        "I12",
        planted("admitting/2", guard=never),
        begun(policy=Policy(batch="reject")),
        BOTH,
        "2 calls of one turn are admitted, and the policy rejects that",
    ),
    "a cancel does not end it": (
        "I13",
        planted("checking_cancel/1", guard=never),
        begun(),
        (polled(cancelled=True),),
        "the run goes on in awaiting_model, and should have ended cancelled",
    ),
    "a timeout is called an error": (
        "I13",
        planted("validating/2", to="finished_model_error"),
        begun(),
        (polled(), failed(timed_out=True), polled()),
        "the run ended model_error, and should have ended time_budget",
    ),
    "a budget is spent before it is used": (
        "I13",
        planted("checking_budget/5", guard=always),
        begun(),
        (polled(),),
        "the run ended step_budget, and nothing ends it here",
    ),
    "reasons change places": (
        "I13",
        exchanged("checking_budget", 3, 4),
        begun(budget=Budget(max_cost_usd=0.5, max_tokens=10), policy=Policy(model_retries=1)),
        (polled(), failed(retryable=True, usage=usage()), polled(), polled()),
        "the run ended token_budget, and should have ended cost_budget",
    ),
}


def told(name: str, walk: Iterable[Move]) -> str | None:
    """The first sentence of a promise about a walk."""
    return next((sentence for sentence in map(PROMISES[name], walk) if sentence is not None), None)


@pytest.mark.parametrize(("name", "definition", "start", "events", "sentence"), PLANTS.values(), ids=PLANTS)
def test_a_planted_fault_is_named(
    name: str, definition: Definition, start: Snapshot, events: tuple[Event, ...], sentence: str
) -> None:
    """A fault in the table breaks the promise that forbids it, with a sentence that says how."""
    assert told(name, moves(definition, start, events)) == sentence


def allowed(start: Snapshot, events: Iterable[Event]) -> Iterator[Move]:
    """The walk of these events, as far as the table as it is takes them."""
    with contextlib.suppress(UnexpectedEvent):
        yield from moves(TOOL_LOOP, start, events)


@pytest.mark.parametrize(("name", "definition", "start", "events", "sentence"), PLANTS.values(), ids=PLANTS)
def test_without_the_fault_nothing_is_broken(
    name: str, definition: Definition, start: Snapshot, events: tuple[Event, ...], sentence: str
) -> None:
    """The same events break no promise of the table as it is."""
    found = [broken(move) for move in allowed(start, events)]
    assert found == [{}] * max(1, len(found))


@pytest.mark.parametrize(("name", "definition", "start", "events", "sentence"), PLANTS.values(), ids=PLANTS)
def test_what_speaks_of_calls_or_the_history_is_broken_only_by_moves_that_have_to_do_with_them(
    name: str, definition: Definition, start: Snapshot, events: tuple[Event, ...], sentence: str
) -> None:
    """Whatever is wrong with a table, a promise need not be asked about a move that leaves its subjects alone."""
    silent = [
        promise(move)
        for move in moves(definition, start, events)
        for promise, subjects in SUBJECTS.items()
        if not any(getattr(move, subject) for subject in subjects)
    ]
    assert silent == [None] * len(silent)


def test_each_promise_has_a_fault_that_breaks_it() -> None:
    """No promise holds whatever is done; I11 is broken by a test of its own."""
    assert [*PROMISES] == [f"I{number}" for number in range(1, 14)]
    assert {*PROMISES} - {name for name, *_ in PLANTS.values()} == {"I11"}


# --- I11, I9 and I1 in full ---------------------------------------------------------------------------------


def test_a_snapshot_that_somebody_changes_is_named() -> None:
    """A list that got into a snapshot and is changed afterwards breaks I11, where the account is sealed."""
    payload: Any = ["thinking"]
    events = (polled(), replied(answer(payload_text=payload)), polled())
    found = []
    for sealed in (True, False):
        for move in moves(TOOL_LOOP, begun(), events, sealed=sealed):
            found.append([sentence[:38] for sentence in broken(move).values()])
            payload.append("more")
    assert found == [[], [], ["a snapshot was changed from outside; i"], [], [], []]


def transcript() -> str:
    """All snapshots of the plays above on the table as it is, as text."""
    found = [PLANTS[name][2:4] for name in PLANTS]
    return repr([[seal(move.after) for move in allowed(start, events)] for start, events in found])


@pytest.mark.parametrize("seed", ["0", "4242"])
def test_another_process_makes_the_same_snapshots(seed: str) -> None:
    """The same events give the same snapshots, byte for byte, under another PYTHONHASHSEED."""
    code = "from tests.test_promises import transcript; print(transcript())"
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env=environment
    )
    assert told.stdout.strip() == transcript()


def test_a_final_state_of_ones_own_is_not_judged() -> None:
    """A run that ends in a state that the tool-calling loop does not have breaks nothing."""
    enough = State("finished_enough", "That was enough.", final="limit")
    definition = TOOL_LOOP.with_state(enough).with_row("admitting", Row(None, "finished_enough", always), at=1)
    walk = list(moves(definition, begun(), step(ONE)))
    assert (walk[-1].status, [broken(move) for move in walk]) == ("enough", [{}, {}, {}])


@attrs.frozen(kw_only=True)
class Nudged(Event):
    """Somebody said go on."""

    at: float


def test_an_event_of_ones_own_says_nothing_about_the_run() -> None:
    """A row of one's own on an event of one's own breaks nothing; its time counts."""
    definition = TOOL_LOOP.with_row("checking_cancel", Row(Nudged, "checking_cancel"), at=1)
    walk = list(moves(definition, begun(), (Nudged(at=2.0), polled(at=3.0))))
    assert ([broken(move) for move in walk], walk[-1].told.seconds) == ([{}, {}], 3.0)


@pytest.mark.parametrize(("off", "found"), [(1e-9, set()), (1e-3, {"I2"})])
def test_times_may_be_added_up_in_another_way(off: float, found: set[str]) -> None:
    """Seconds that differ by less than a clock shows break nothing, by more they break I2."""

    def off_by_a_little(snapshot: Snapshot, event: Event) -> Snapshot:
        """Take the beginning for a little later."""
        return snapshot.but(since=off)

    definition = attrs.evolve(TOOL_LOOP, hear={CancelPolled: off_by_a_little})
    (move,) = moves(definition, begun(), (polled(at=2.0),))
    assert {*broken(move)} == found


def test_what_the_machine_answers_later_stands_beside_what_it_answered_before() -> None:
    """One call can't run and is answered at once, one is closed by a cancel meanwhile: both results stand."""
    calls = (call(**INVALID), call(1), call(2))
    *_, last = moves(TOOL_LOOP, begun(policy=Policy(max_parallel=1)), (*step(*calls), cancel()))
    outcomes = [fate.result and fate.result.outcome for fate in last.told.fates]
    assert outcomes == ["invalid_arguments", None, "not_started"]


def test_the_most_answers_are_nearly_taken() -> None:
    """A run that takes every detour takes one answer less than it may: its first call is started without a poll."""
    detours = call(needs_approval=True, effect="read")
    events = (*step(detours), approved(detours), polled(), lost(detours), polled(), lost(detours))
    start = begun(budget=Budget(max_steps=1))
    walk = list(moves(TOOL_LOOP, start, (*events, resolved(word(detours)), polled())))
    assert (walk[-1].status, len(walk), most_answers(1, 1)) == ("step_budget", 10, 11)


def test_a_move_follows_the_one_before() -> None:
    """A checker that branches goes on from any move; the accounts of the others stay as they were."""
    (first,) = moves(TOOL_LOOP, begun(), (polled(),))
    replies = [first.then(advance(TOOL_LOOP, first.after, event)) for event in (replied(asks(ONE)), failed())]
    assert [(move.told.steps, move.told.failures, broken(move)) for move in replies] == [(1, 0, {}), (1, 1, {})]
