"""Whose order matters: the rows of a state whose guards can both hold."""

from __future__ import annotations

from typing import Any

import attrs

from loopmachine.definition import Definition, Guard, Row
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
    _later: dict[str, dict[tuple[str, str], Guard]] = attrs.field(init=False)  #: by row, the pairs not found yet

    def __attrs_post_init__(self) -> None:
        self._later = {row_id: self._pairs(row_id, row) for row_id, _, row in self.definition.all_rows()}

    def _pairs(self, row_id: str, row: Row) -> dict[tuple[str, str], Guard]:
        """Each later row of the same event that has a guard, as a pair with this one, which has one, too."""
        if row.guard is None:
            return {}
        state, _, number = row_id.rpartition("/")
        return {
            (row_id, f"{state}/{place}"): later.guard
            for place, later in enumerate(self.definition.rows(state), 1)
            if place > int(number) and later.guard is not None and later.event is row.event
        }

    def look(self, snapshot: Any, event: Event, taken: tuple[str, ...]) -> None:
        """See at each row that this event takes which later ones would have held."""
        last = max([place for place, row_id in enumerate(taken) if self._later[row_id]], default=None)
        if last is None:
            return
        hear = self.definition.heard(snapshot.state, type(event))
        snapshot = hear(snapshot, event) if hear else snapshot
        for place, row_id in enumerate(taken[: last + 1]):
            later, update = self._later[row_id], self.definition.row(row_id).update
            for pair in [pair for pair, guard in later.items() if _holds(guard, snapshot, event)]:
                self.found[pair] = Both(*pair, snapshot, event)
                del later[pair]
            if update is not None and place < last:
                snapshot = update(snapshot, event)


def _holds(guard: Guard, snapshot: Any, event: Event) -> bool:
    """One that raises relies on the rows before it, behind which it is asked in a run: there it does not hold."""
    try:
        return bool(guard(snapshot, event))
    except KeyboardInterrupt:
        raise
    except BaseException:  # whatever somebody's guard raises: no run asks it here, so nothing is hidden
        return False
