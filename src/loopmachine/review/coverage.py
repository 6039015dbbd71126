"""What the runs of a definition have covered: its rows, both outcomes of its guards, and its final states.

The rows taken say it all. The rows of a (state, event) are tried in order, so the guard of one that was taken was seen
true, and those of the rows before it on the same event were seen false.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import floor
from typing import Any

import attrs

from loopmachine.definition import Definition
from loopmachine.review.lines import Line, known_rows, lines_of, working

_HEAD = ("row", "on", "to", "taken", "guard false")


@attrs.frozen
class Covered:
    """A row, how often it was ``taken``, and how often its guard was seen ``false``, None where it has none."""

    line: Line
    taken: int
    false: int | None

    @property
    def outcomes(self) -> tuple[int, ...]:
        """How often its guard was seen true and how often false; of a row without a guard nothing."""
        return () if self.false is None else (self.taken, self.false)

    @property
    def whole(self) -> bool:
        """It was taken, and its guard was seen false, too."""
        return self.taken > 0 and self.false != 0


@attrs.frozen
class Coverage:
    """What was covered of a definition: ``rows``, in the order of its diagram."""

    definition: Definition
    rows: tuple[Covered, ...]

    @classmethod
    def of(cls, definition: Definition, taken: Mapping[str, int]) -> Coverage:
        """From how often each row was taken, by row id ("state/number"), as ``Counter(result.rows)`` is.

        Raises ValueError for a row that the definition does not have.
        """
        known_rows(definition, taken)
        return cls(definition, tuple(_covered(definition, taken)))

    @property
    def taken(self) -> Mapping[str, int]:
        """How often each row was taken, by row id."""
        return {one.line.row_id: one.taken for one in self.rows}

    @property
    def row_share(self) -> Share:
        """The rows that were taken, of all."""
        return Share(sum(one.taken > 0 for one in self.rows), len(self.rows))

    @property
    def outcome_share(self) -> Share:
        """The outcomes that the guards were seen to have, of all: two for each row with a guard."""
        outcomes = [times for one in self.rows for times in one.outcomes]
        return Share(sum(times > 0 for times in outcomes), len(outcomes))

    @property
    def share(self) -> Share:
        """Rows and outcomes together."""
        rows, outcomes = self.row_share, self.outcome_share
        return Share(rows.seen + outcomes.seen, rows.of + outcomes.of)

    @property
    def finals(self) -> dict[str, int]:
        """How often each final state was reached."""
        reached = Counter({name: 0 for name, state in self.definition.states.items() if state.final is not None})
        for one in self.rows:
            if one.line.row.to in reached:
                reached[one.line.row.to] += one.taken
        return dict(reached)

    def report(self, *, whole: bool = False) -> str:
        """For a terminal: the figures, and each row of which something was never seen; with ``whole`` every row."""
        never = [name for name, times in self.finals.items() if not times]
        reached = Share(len(self.finals) - len(never), len(self.finals))
        shown = [one for one in self.rows if whole or not one.whole]
        return "\n".join(
            [
                f"rows taken: {self.row_share}",
                f"guard outcomes seen (true: the row was taken; false: a later one was): {self.outcome_share}",
                f"final states reached: {reached}",
                *(f"  never: {name}" for name in never),
                *(_table(shown) if shown else ()),
            ]
        )


@attrs.frozen
class Share:
    """So many ``seen`` of so many."""

    seen: int
    of: int

    @property
    def percent(self) -> float:
        """Exact; of nothing all was seen."""
        return 100 * self.seen / self.of if self.of else 100.0

    def __str__(self) -> str:
        """Rounded down, so that 100 % is all of it."""
        return f"{self.seen} of {self.of} ({floor(10 * self.percent) / 10:g} %)"


def _covered(definition: Definition, taken: Mapping[str, int]) -> Iterator[Covered]:
    for state in working(definition):
        later: Counter[type[Any] | None] = Counter()
        rows = []
        for line in reversed(lines_of(definition, state)):
            times = taken.get(line.row_id, 0)
            rows.append(Covered(line, times, None if line.row.guard is None else later[line.row.event]))
            later[line.row.event] += times
        yield from reversed(rows)


def _table(rows: list[Covered]) -> Iterator[str]:
    cells = [_HEAD, *(_cells(one) for one in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for one in cells:
        yield f"  {'  '.join(cell.ljust(width) for cell, width in zip(one, widths, strict=True))}".rstrip()


def _cells(one: Covered) -> tuple[str, ...]:
    line = one.line
    counted = "" if one.false is None else _times(one.false)
    return line.row_id, line.text, line.row.to, _times(one.taken), counted


def _times(times: int) -> str:
    return str(times or "never")
