"""The same rows in the classes of ``transitions`` as they are: they have to do what the fast ones do."""

from __future__ import annotations

from typing import Any

import attrs

from loopmachine.definition import Definition
from loopmachine.machine import AUTO, Advance, Carrier, stock


@attrs.frozen(eq=False)
class Stock:
    """A definition on the stock classes."""

    definition: Definition
    machine: Any = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "machine", stock(self.definition))

    def differs(self, snapshot: Any, advance: Advance) -> str | None:
        """A sentence about how the stock classes take the event of an advance from its snapshot in another way."""
        carrier = self._taken(snapshot, advance.event)
        after = advance.snapshot
        led = carrier.snapshot.but(state=carrier.state, clock=after.clock, log=after.log)
        if (tuple(carrier.rows), led) == (advance.rows, after):
            return None
        return f"stock transitions take {', '.join(carrier.rows)} to {carrier.state}, not {', '.join(advance.rows)}"

    def _taken(self, snapshot: Any, event: Any) -> Carrier:
        hear, events = self.definition.hear, self.machine.events
        carrier = Carrier(hear(snapshot, event) if hear else snapshot, event)
        events[type(event).__name__].trigger(carrier, carrier)
        while self.definition.states[carrier.state].auto:
            events[AUTO].trigger(carrier, carrier)
        return carrier
