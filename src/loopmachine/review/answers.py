"""How many answers a run can still take: what makes every run end."""

from __future__ import annotations

from typing import Final as Constant

from loopmachine.definition import Definition
from loopmachine.kinds import CALLS
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


def left(definition: Definition, snapshot: Snapshot) -> int:
    """The most answers that a run can still take from here, were no more calls asked for and no reruns decided."""
    if definition.states[snapshot.state].final is not None:
        return 0
    unasked = snapshot.budget.max_steps - snapshot.steps
    steps = PER_STEP * unasked if unasked > 0 else 0
    open_calls = 0
    for flight in snapshot.flights:
        open_calls += _left(flight)
    if not snapshot.flights and snapshot.turn is not None and snapshot.turn.kind == CALLS:
        decided = {(word.step, word.place) for word in snapshot.decisions}
        for call in snapshot.turn.calls:
            open_calls += PER_CALL - 2 if not call.needs_approval or call.key in decided else PER_CALL
    return steps + open_calls + _STAGES.get(snapshot.state, 1)


def _left(flight: Flight) -> int:
    if flight.phase not in _PHASES:
        return 0
    safe = flight.losses == 0 and flight.call.effect in ("read", "idempotent")
    return _PHASES[flight.phase] + 1 + (2 if safe else 0)
