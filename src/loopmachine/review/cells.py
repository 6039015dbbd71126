"""The HTML-like labels of a diagram: a state as a table of its rows, a final state, the legend."""

from __future__ import annotations

from collections.abc import Sequence

from loopmachine.definition import State
from loopmachine.review import colours
from loopmachine.review.layout import COUNT, NAME, NUMBER, SMALL, TEXT, Box, doc_lines, row_height, update_lines
from loopmachine.review.lines import STAYS, Line
from loopmachine.review.text import in_label

_BORDER = 1
_TABLE = f'BORDER="{_BORDER}" CELLBORDER="0" CELLSPACING="0" CELLPADDING="2" BGCOLOR="{colours.PAPER}"'
_LEGEND = (
    ("<B>state</B>", colours.REST, "waits for an event"),
    ("<B>state</B>", colours.AUTO, "moves on by itself"),
    ("1 <B>Event</B> [guard]", colours.REST, "is on the happy path"),
)
_WORDS = {"answered": "an answer", "limit": "a limit or a cancel", "fault": "a fault"}


def working_label(state: State, lines: Sequence[Line], box: Box, header: int, counts: Sequence[int] | None) -> str:
    """A working state, each row with its count where there are any."""
    width = box.width - 2 * _BORDER
    border = colours.HAPPY if state.rest else colours.INK
    name = _small(" ") + _font(f"<B>{in_label(state.name)}</B>", NAME, border)
    look = {"COLSPAN": "3", "BGCOLOR": colours.REST if state.rest else colours.AUTO}
    rows = [_cell([name, *(_small(f" {text}") for text in doc_lines(state))], width, header, look)]
    rows += [_row(line, width, None if counts is None else counts[line.number - 1]) for line in lines]
    return _table(f'{_TABLE} COLOR="{border}"', rows)


def final_label(state: State, kind: str, colour: str) -> str:
    """A final state and the word for its kind."""
    return f"<{_font(in_label(state.status), TEXT, colour)}<BR/>{_font(_WORDS[kind], SMALL, colour)}>"


def legend_label() -> str:
    """What the tints mean."""
    rows = [
        f'<TD ALIGN="LEFT" BGCOLOR="{fill}">{_font(sample, SMALL, colours.INK)}</TD>'
        f'<TD ALIGN="LEFT">{_small(meaning)}</TD>'
        for sample, fill, meaning in _LEGEND
    ]
    return _table('BORDER="0" CELLSPACING="2" CELLPADDING="2"', rows)


def _row(line: Line, width: float, count: int | None) -> str:
    height, look = row_height(line), {"VALIGN": "TOP"}
    if line.row.happy:
        look["BGCOLOR"] = colours.REST
    update = [f"{'/ ' if place == 0 else ''}{text}" for place, text in enumerate(update_lines(line))]
    number = _cell(
        [_first(str(line.number), colours.SMALL), *(_small(" ") for _ in update)],
        NUMBER,
        height,
        look | {"PORT": f"w{line.number}", "ALIGN": "RIGHT"},
    )
    text = _cell(
        [_first(_marked(line), colours.INK), *map(_small, update)],
        width - NUMBER - (0 if count is None else COUNT),
        height,
        look | {"PORT": f"e{line.number}", "ID": f"{line.id}_row", "TOOLTIP": in_label(line.sentence)},
    )
    taken = "" if count is None else _cell([_first(f"x{count}", colours.SMALL)], COUNT, height, look)
    return number + text + taken


def _first(label: str, colour: str) -> str:
    # With a second font on the line Graphviz puts every first line on the same height, whatever is in it.
    return _font(label, TEXT, colour) + _small(" ")


def _marked(line: Line) -> str:
    parts = [
        f"<B>{in_label(line.event)}</B>" if line.event else "",
        in_label(line.condition),
        f'<FONT COLOR="{colours.SMALL}">{STAYS}</FONT>' if line.stays else "",
    ]
    return " ".join(filter(None, parts)) or " "


def _table(look: str, rows: Sequence[str]) -> str:
    return "\n".join([f"<<TABLE {look}>", *(f"<TR>{row}</TR>" for row in rows), "</TABLE>>"])


def _cell(lines: Sequence[str], width: float, height: float, look: dict[str, str]) -> str:
    attributes = {"FIXEDSIZE": "TRUE", "WIDTH": f"{width:g}", "HEIGHT": f"{height:g}", "ALIGN": "LEFT", "BALIGN": "LEFT"}
    told = " ".join(f'{name}="{value}"' for name, value in (attributes | look).items())
    return f"<TD {told}>{'<BR/>'.join(lines)}</TD>"


def _small(text: str) -> str:
    return _font(in_label(text), SMALL, colours.SMALL)


def _font(label: str, size: int, colour: str) -> str:
    return f'<FONT POINT-SIZE="{size}" COLOR="{colour}">{label}</FONT>'
