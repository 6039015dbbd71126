"""How many answers a run can still take: what makes every run end."""

from __future__ import annotations

from typing import Any
from typing import Final as Constant

from loopmachine.definition import State
from loopmachine.events import CallsResolved, ModelReplied, Resumed
from loopmachine.kinds import CALLS
from loopmachine.limits import Budget
from loopmachine.records import LOST, QUEUED, RUNNING, Flight, Snapshot

PER_STEP = 3  #: the poll before the model, its turn, the poll after it
PER_CALL = 7  #: approval and the poll after it, then a start, a loss, a rerun, a second loss and its resolution
PER_RERUN = 3  #: a start, a loss and its resolution
_PHASES: Constant = {RUNNING: 1, LOST: 0, QUEUED: 2}
_STAGES: Constant = {"awaiting_model": 3, "rechecking_cancel": 2}


def most_answers(max_steps: int, calls: int, reruns: int = 0, resumed: int = 0) -> int:
    """The most answers that a run takes: of so many steps, calls asked for, reruns decided and hosts after the first.

    A budget that comes with a host counts with the larger of its max_steps and the one before.
    """
    return PER_STEP * max_steps + 1 + PER_CALL * calls + PER_RERUN * reruns + resumed


def left(state: State, snapshot: Snapshot) -> int:
    """The most answers that a run can still take in this state, were no more calls asked for and no reruns decided."""
    if state.final is not None:
        return 0
    answers = _STAGES.get(state.name, 1)
    unasked = snapshot.budget.max_steps - snapshot.steps
    if unasked > 0:
        answers += PER_STEP * unasked
    flights, turn = snapshot.flights, snapshot.turn
    for flight in flights:
        answers += _left(flight)
    if not flights and turn is not None and turn.kind == CALLS:
        decided = [(word.step, word.place) for word in snapshot.decisions] if snapshot.decisions else ()
        for call in turn.calls:
            answers += PER_CALL - 2 if not call.needs_approval or call.key in decided else PER_CALL
    return answers


def gained(event: Any, before: Budget, after: Budget) -> int:
    """The answers that an event gives to a run: by the calls it asks for, the reruns it decides, as a new host."""
    if isinstance(event, ModelReplied):
        return PER_CALL * len(event.turn.calls)
    if isinstance(event, CallsResolved):
        return PER_RERUN * sum(word.rerun for word in event.resolutions)
    if isinstance(event, Resumed):
        return 1 + PER_STEP * max(0, after.max_steps - before.max_steps)
    return 0


def _left(flight: Flight) -> int:
    if flight.phase not in _PHASES:
        return 0
    safe = flight.losses == 0 and flight.call.effect in ("read", "idempotent")
    return _PHASES[flight.phase] + 1 + (2 if safe else 0)
