"""Whose order matters: the rows of a state whose guards can both hold."""

from __future__ import annotations

from typing import Any

import attrs

from loopmachine.definition import Definition, Row
from loopmachine.events import Event


@attrs.frozen
class Both:
    """A row that was taken though a later one would have held, too."""

    first: str  #: the row taken, as "state/number"
    second: str
    witness: Any = attrs.field(eq=False, repr=False)  #: the snapshot at which both hold
    event: Event = attrs.field(eq=False, repr=False)


@attrs.define
class Orders:
    """The pairs found so far."""

    definition: Definition
    found: dict[tuple[str, str], Both] = attrs.field(factory=dict)

    def look(self, snapshot: Any, event: Event, taken: tuple[str, ...]) -> None:
        """See at each row that this event takes which later ones would have held."""
        if self.definition.hear is not None:
            snapshot = self.definition.hear(snapshot, event)
        for row_id in taken:
            row = self.definition.row(row_id)
            if row.guard is not None:
                self._compare(row_id, row, snapshot, event)
            if row.update is not None:
                snapshot = row.update(snapshot, event)

    def _compare(self, row_id: str, row: Row, snapshot: Any, event: Event) -> None:
        state, _, number = row_id.rpartition("/")
        for later, other in enumerate(self.definition.rows(state)[int(number) :], int(number) + 1):
            pair = (row_id, f"{state}/{later}")
            if other.guard is None or other.event is not row.event or pair in self.found:
                continue
            if other.guard(snapshot, event):
                self.found[pair] = Both(*pair, snapshot, event)
