"""The same rows in the classes of ``transitions`` as they are: they have to do what the fast ones do."""

from __future__ import annotations

from typing import Any

import attrs

from loopmachine.definition import AUTO, Definition
from loopmachine.machine import Carrier, stock
from loopmachine.review.moves import Move


@attrs.frozen(eq=False)
class Stock:
    """A definition on the stock classes."""

    definition: Definition
    machine: Any = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "machine", stock(self.definition))

    def differs(self, move: Move) -> str | None:
        """A sentence about how the stock classes take the event of a move from its snapshot in another way."""
        carrier, after, rows = self._taken(move.before, move.event), move.after, move.rows
        led = carrier.snapshot.but(state=carrier.state, clock=after.clock, log=after.log)
        if (tuple(carrier.rows), led) == (rows, after):
            return None
        return f"stock transitions take {', '.join(carrier.rows)} to {carrier.state}, not {', '.join(rows)}"

    def _taken(self, snapshot: Any, event: Any) -> Carrier:
        hear, events = self.definition.heard(snapshot.state, type(event)), self.machine.events
        carrier = Carrier(hear(snapshot, event) if hear else snapshot, event)
        events[type(event).__name__].trigger(carrier, carrier)
        while self.definition.states[carrier.state].auto:
            events[AUTO].trigger(carrier, carrier)
        return carrier
