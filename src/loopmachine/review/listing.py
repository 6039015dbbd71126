"""A definition as a table in Markdown that can be read as it stands."""

from __future__ import annotations

import re
from collections.abc import Sequence

from loopmachine.definition import Definition
from loopmachine.review.lines import Line, all_lines
from loopmachine.review.text import flat

_HEAD = ("state", "row", "event", "guard", "update", "to")


def listing(definition: Definition) -> str:
    """Every row, in the order of the diagram."""
    table = [_HEAD, *(_cells(line) for line in all_lines(definition))]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    head, *rows = [_joined(cells, widths) for cells in table]
    return "\n".join([head, _joined(["-" * width for width in widths], widths), *rows]) + "\n"


def _cells(line: Line) -> tuple[str, ...]:
    row = line.row
    guard = row.guard.__name__ if row.guard else "else" if line.otherwise else ""
    update = row.update.__name__ if row.update else ""
    return tuple(map(_escaped, (line.state.name, str(line.number), line.event, guard, update, row.to)))


def _escaped(text: str) -> str:
    return re.sub(r"[\\|`*<>\[\]~]|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", flat(text))


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return f"| {' | '.join(padded)} |"
