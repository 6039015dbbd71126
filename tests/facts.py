"""Builders of records, events and walks, so that a test is one line. Everything is of step 1 unless it says so."""

from __future__ import annotations

from typing import Any, TypeVar

from loopmachine.definition import Definition
from loopmachine.drafts import Drafts, blank, fill
from loopmachine.events import (
    ApprovalGiven,
    CallLost,
    CallReturned,
    CallsResolved,
    CancelPolled,
    CancelRequested,
    Event,
    ModelFailed,
    ModelReplied,
    Resumed,
)
from loopmachine.history import History
from loopmachine.limits import Budget, Usage
from loopmachine.machine import advance
from loopmachine.records import (
    ANSWERED,
    QUEUED,
    RUNNING,
    BaseSnapshot,
    Call,
    CallResult,
    Decision,
    Exchange,
    Failure,
    Flight,
    Resolution,
    Snapshot,
    Turn,
    UserMessage,
)
from loopmachine.requests import PollCancel
from loopmachine.table import TOOL_LOOP

#: The fields that say what the toolbox thinks of a call, for one that can't run.
UNKNOWN_TOOL: dict[str, Any] = {"known": False, "checked": None}
INVALID: dict[str, Any] = {"checked": None, "problem": "n: missing"}
HELLO = UserMessage("hello")

# --- records --------------------------------------------------------------------------------------------


def call(place: int = 0, **fields: Any) -> Call:
    """A call of step 1 that could run: ``look`` with no arguments, its id made of step and place."""
    step = fields.get("step", 1)
    facts = {"id": f"c{step}_{place}", "name": "look", "step": step, "place": place, "known": True, "checked": "{}"}
    return Call(**{**facts, **fields})


def asks(*calls: Call, **fields: Any) -> Turn:
    """A turn that asks for calls."""
    return Turn(calls=calls, **fields)


def answer(text: str = "done", **fields: Any) -> Turn:
    """A turn that is final."""
    return Turn(text=text, **fields)


def malformed(fault: str = "id: it is blank", **fields: Any) -> Turn:
    """A turn that can't be used."""
    return Turn(fault=fault, **fields)


def result(of: Call, outcome: str = "ok", content: str = "1", code: str = "") -> CallResult:
    """What a call brought."""
    return CallResult.of(of, outcome, content, code)


def flight(phase: str = QUEUED, place: int = 0, losses: int = 0, **fields: Any) -> Flight:
    """A call on its way; an answered one was ``ok``."""
    one = call(place, **fields)
    return Flight(one, phase, losses, result(one) if phase == ANSWERED else None)


def exchange(*calls: Call, content: str = "1", **fields: Any) -> Exchange:
    """A turn that asks for calls, each of which was ``ok`` with the same content."""
    return Exchange(asks(*calls, **fields), tuple(result(one, content=content) for one in calls))


def failure(**fields: Any) -> Failure:
    """A failure of the model."""
    return Failure(**{"code": "overloaded", **fields})


def usage(tokens: int | None = 10, cost: float | None = 0.5) -> Usage:
    """Usage of so many tokens, one of them written."""
    read, written = (None, None) if tokens is None else (tokens - 1, 1)
    return Usage(input_tokens=read, output_tokens=written, cost_usd=cost)


# --- snapshots ------------------------------------------------------------------------------------------


def snapshot(state: str = "checking_cancel", **fields: Any) -> Snapshot:
    """A snapshot at time 0 with nothing spent."""
    return Snapshot(state=state, **fields)


def begun(**fields: Any) -> Snapshot:
    """A run at its start: the user said hello."""
    return snapshot(history=History([HELLO]), **fields)


def asked(**fields: Any) -> Snapshot:
    """A run whose model was asked for the first time."""
    return snapshot("awaiting_model", **{"history": History([HELLO]), "steps": 1, **fields})


def brought(turn: Turn, **fields: Any) -> Snapshot:
    """A run whose first step brought a turn, before the poll that follows."""
    return snapshot(**{"state": "rechecking_cancel", "history": History([HELLO]), "steps": 1, "turn": turn, **fields})


def flying(*flights: Flight, state: str = "dispatching", **fields: Any) -> Snapshot:
    """A run whose first step asked for these calls, all of them admitted."""
    turn = asks(*(one.call for one in flights))
    facts = {"history": History([HELLO]), "steps": 1, "calls": len(flights), "turn": turn, "flights": flights}
    return snapshot(state, **{**facts, **fields})


# --- events ---------------------------------------------------------------------------------------------


def polled(cancelled: bool = False, reason: str = "", at: float = 0.0) -> CancelPolled:
    return CancelPolled(cancelled, reason, at=at)


def cancel(reason: str = "", at: float = 0.0) -> CancelRequested:
    return CancelRequested(reason, at=at)


def replied(turn: Turn, at: float = 0.0) -> ModelReplied:
    return ModelReplied(turn, at=at)


def failed(at: float = 0.0, **fields: Any) -> ModelFailed:
    return ModelFailed(**{"code": "overloaded", **fields}, at=at)


def approved(*calls: Call, reason: str = "", approved: bool = True, at: float = 0.0) -> ApprovalGiven:
    words: Any = [Decision(one.step, one.place, approved, reason) for one in calls]
    return ApprovalGiven(words, at=at)


def refused(*calls: Call, reason: str = "", at: float = 0.0) -> ApprovalGiven:
    return approved(*calls, reason=reason, approved=False, at=at)


def returned(of: Call, outcome: str = "ok", content: str = "1", at: float = 0.0, **fields: Any) -> CallReturned:
    return CallReturned(result(of, outcome, content), at=at, **fields)


def lost(of: Call, at: float = 0.0) -> CallLost:
    return CallLost(of.step, of.place, at=at)


def resolved(*words: Resolution, at: float = 0.0) -> CallsResolved:
    given: Any = words
    return CallsResolved(given, at=at)


def word(of: Call, **fields: Any) -> Resolution:
    """Somebody's word on a lost call."""
    return Resolution(of.step, of.place, **fields)


def resumed(budget: Budget | None = None, at: float = 0.0) -> Resumed:
    return Resumed(budget, at=at)


# --- every state and every kind of event ----------------------------------------------------------------

#: A snapshot of each state that is not final, as a run brings it.
AT: dict[str, Snapshot] = {
    "checking_cancel": begun(),
    "checking_budget": snapshot("checking_budget"),
    "awaiting_model": asked(),
    "rechecking_cancel": brought(asks(call(needs_approval=True))),
    "validating": brought(answer()).but(state="validating"),
    "admitting": brought(asks(call())).but(state="admitting"),
    "collecting": flying(flight(ANSWERED), state="collecting"),
    "dispatching": flying(flight(RUNNING), flight(QUEUED, 1)),
    "awaiting_approval": brought(asks(call(needs_approval=True)), state="awaiting_approval"),
    "awaiting_resolution": flying(flight("lost", losses=1), state="awaiting_resolution"),
}

#: One event of each kind that fits the calls of the snapshots above.
EVENTS: dict[str, Event] = {
    type(event).__name__: event
    for event in (
        polled(),
        cancel("enough"),
        replied(answer()),
        failed(),
        approved(call()),
        returned(call()),
        lost(call()),
        resolved(word(call())),
        resumed(),
    )
}

# --- walks ----------------------------------------------------------------------------------------------

S = TypeVar("S", bound=BaseSnapshot)
Step = tuple[str, str, tuple[Any, ...]]


DRAFTS = Drafts()


def drafted(of: Snapshot) -> Any:
    """A draft of this snapshot, as the machine makes one between two rests."""
    draft: Any = blank(DRAFTS[Snapshot])
    fill(draft, vars(of).copy())
    return draft


def walk(start: S, *events: Event, definition: Definition = TOOL_LOOP) -> tuple[S, list[Step]]:
    """Where these events lead, and of each the state reached, the rows taken and the requests it added."""
    steps = []
    for event in events:
        advanced = advance(definition, start, event)
        start = advanced.snapshot
        steps.append((start.state, " ".join(advanced.rows), advanced.requests))
    return start, steps


def steps(start: Snapshot, *events: Event) -> list[Step]:
    """What each of these events brings."""
    return walk(start, *events)[1]


def said(run: Snapshot) -> list[str]:
    """The history, a few words a message."""
    words = ("kind", "text", "outcome", "id")
    return [" ".join(message[word] for word in words if message.get(word)) for message in run.history]


#: Rows that a walk takes again and again, and what comes with them.
ASK = "checking_cancel/2 checking_budget/7"
ASK_LAST = "checking_cancel/2 checking_budget/6"
REPLY = "awaiting_model/1"
CALLS = "rechecking_cancel/2 validating/9"
START = f"{CALLS} admitting/10 collecting/2"
POLL = (PollCancel(),)
DONE = ("finished_answered", "rechecking_cancel/2 validating/8", ())
RETURNED_LAST = "dispatching/2 collecting/3"
RETURNED = "dispatching/2 collecting/2"
ONE, TWO, THREE = call(), call(1), call(2)
