"""The rows of a definition as a reviewer reads them: their order, their conditions, their sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from loopmachine.definition import Definition, Row, State
from loopmachine.review.text import first_paragraph, flat, key

STAYS = "stays"  #: said of a row that leads back to its own state
FIRST = "^"  #: beside the number of a row before which no later one may stand


@attrs.frozen
class Line:
    """One row of a state, and what the rows beside it make of it."""

    state: State
    number: int  #: from 1
    of: int  #: how many rows the state has
    row: Row
    otherwise: bool  #: it has no guard, but its event has guarded rows

    @property
    def row_id(self) -> str:
        """The row as runs record it: "state/number"."""
        return f"{self.state.name}/{self.number}"

    @property
    def id(self) -> str:
        """The row in a picture."""
        return f"t_{key(self.state.name)}_{self.number}"

    @property
    def condition(self) -> str:
        """The guard in brackets; "[else]" after guarded rows; else blank."""
        if self.row.guard is not None:
            return f"[{self.row.guard.__name__}]"
        return "[else]" if self.otherwise else ""

    @property
    def event(self) -> str:
        """The name of the event, as it is shown; blank in an auto state."""
        return flat(self.row.event_name)

    @property
    def text(self) -> str:
        """Event and condition."""
        return " ".join(filter(None, [self.event, self.condition, STAYS if self.stays else ""]))

    @property
    def label(self) -> str:
        """The number, with a mark where a later row can hold at the same time."""
        return f"{self.number}{FIRST if self.row.first_because else ''}"

    @property
    def stays(self) -> bool:
        """It leads back to its own state."""
        return self.row.to == self.state.name

    @property
    def sentence(self) -> str:
        """The whole row in words, on one line."""
        row = self.row
        parts = [f"{self.state.name} {self.number} of {self.of}:"]
        if row.event is not None:
            parts.append(f"on {row.event_name},")
        if row.guard is not None:
            parts.append(f"if {row.guard.__name__} ({first_paragraph(row.guard)}),")
        elif self.otherwise:
            parts.append("else,")
        if row.update is not None:
            parts.append(f"{row.update.__name__} ({first_paragraph(row.update)}),")
        parts.append("stay here" if self.stays else f"go to {row.to}")
        return flat(" ".join(parts) + (f"; it is first because {row.first_because}" if row.first_because else ""))


def lines_of(definition: Definition, state: State) -> list[Line]:
    """The rows of a state."""
    rows = definition.table[state]
    guarded = {row.event for row in rows if row.guard is not None}
    return [
        Line(state, number, len(rows), row, row.guard is None and row.event in guarded)
        for number, row in enumerate(rows, 1)
    ]


def working(definition: Definition) -> list[State]:
    """The states that are not final: the happy path from the initial one, then the others as they are defined."""
    names: dict[str, None] = {}
    todo = [definition.initial]
    while todo:
        name = todo.pop(0)
        if name not in names:
            names[name] = None
            todo += [row.to for row in definition.rows(name) if row.happy]
    states = [definition.states[name] for name in dict.fromkeys([*names, *definition.states])]
    return [state for state in states if state.final is None]


def all_lines(definition: Definition) -> Iterator[Line]:
    """Every row, in the order of the picture."""
    for state in working(definition):
        yield from lines_of(definition, state)


def known_rows(definition: Definition, row_ids: Iterable[str]) -> None:
    """Raises ValueError for rows that the definition does not have."""
    strangers = sorted(set(row_ids) - {row_id for row_id, _, _ in definition.all_rows()})
    if strangers:
        raise ValueError(f"the definition has no row {', '.join(strangers)}; a row is named state/number")


def heading(definition: Definition) -> str:
    """What a picture of it says first."""
    states, rows = len(definition.states), len(list(definition.all_rows()))
    return (
        f"{states} states, {rows} rows; it starts in {definition.initial}. "
        "The rows of a state are tried from the top; the first whose guard holds is taken."
    )
