"""I8: what a state takes, what it asks, and that nothing else is taken."""

from __future__ import annotations

from typing import Any
from typing import Final as Constant

from loopmachine.definition import Definition, once_each
from loopmachine.errors import UnexpectedEvent
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
from loopmachine.machine import advance
from loopmachine.records import CallResult, Snapshot, Turn
from loopmachine.requests import AskModel, CallsRequest, InterruptModel, PollCancel
from loopmachine.review.moves import Move

Led = tuple[str, type[Any], str]  #: a state, the event told there, and the state that it led to
#: One event of each kind, none of which answers anything.
STRAY: Constant[tuple[Event, ...]] = (
    CancelPolled(False, at=0.0),
    CancelRequested(at=0.0),
    ModelReplied(Turn("stray"), at=0.0),
    ModelFailed("stray", at=0.0),
    ApprovalGiven((), at=0.0),
    CallReturned(CallResult(0, 0, "stray", "stray", "ok", ""), at=0.0),
    CallLost(0, 0, at=0.0),
    CallsResolved((), at=0.0),
    Resumed(at=0.0),
)


def total(move: Move) -> str | None:
    """I8: an event is a row or UnexpectedEvent; a final state takes and asks nothing, a rest waits for something.

    Every rest takes another host, and a cancel unless it is a poll; a model that was asked is waited for.
    """
    state, asking, kind = move.state, move.asking, type(move.event)
    if (asking != () and _waits(asking)) is not (state.final is None) or state.auto:
        return f"the run stands in {state.name} and waits for {asking or 'nothing'}"
    if kind is CancelRequested and _model(move.asked) and not _model(asking):
        return f"the model was asked, and in {state.name} nobody waits for it any more"
    led = move.before.state, kind, state.name
    return None if led in _sound(move.definition) else _unsound(move, led)


def _waits(asking: tuple[Any, ...]) -> bool:
    """Something is asked for; and what is about calls names some."""
    for request in asking:
        if isinstance(request, CallsRequest) and not request.calls:
            return False
    return asking != ()


def _model(asked: tuple[Any, ...]) -> bool:
    """The model's turn is waited for."""
    return bool(asked) and type(asked[0]) in (AskModel, InterruptModel)


def _unsound(move: Move, led: Led) -> str | None:
    """What is wrong with the events that two states take, which hangs on the table only."""
    definition, after, state = move.definition, move.after, move.state
    before, kind, _ = led
    accepted = definition.accepts(before)
    if kind.__name__ not in accepted:
        return f"{before} took {kind.__name__}; it accepts {', '.join(accepted)}"
    accepted = definition.accepts(state.name)
    if state.final and accepted:
        return f"the run ended in {state.name}, which accepts {', '.join(accepted)}"
    for event in STRAY:
        if type(event).__name__ not in accepted and not _refused(definition, after, event):
            return f"{state.name} took {type(event).__name__}; it accepts {', '.join(accepted) or 'nothing'}"
    polls = all(type(request) is PollCancel for request in move.asking)
    for name in () if state.final else ("Resumed",) if polls else ("Resumed", "CancelRequested"):
        if name not in accepted:
            return f"the run stands in {state.name}, which does not take {name}"
    _sound(definition).add(led)
    return None


@once_each
def _sound(definition: Definition) -> set[Led]:
    """What was found sound once. That hangs on the table only: once will do."""
    return set()


def _refused(definition: Definition, snapshot: Snapshot, event: Event) -> bool:
    try:
        advance(definition, snapshot, event)
    except UnexpectedEvent:
        return True
    return False
