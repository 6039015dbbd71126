"""The HTML-like labels of a diagram: a state as a table of its rows, a final state, the legend.

Text without a font of its own is small and grey: that is the font of the nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopmachine.definition import State
from loopmachine.review import colours
from loopmachine.review.layout import NAME, NUMBER, SMALL, TEXT, Box, doc_lines, row_height, update_lines
from loopmachine.review.lines import FIRST, STAYS, Line
from loopmachine.review.text import in_label

_BORDER = 1
_TABLE = f'BORDER="{_BORDER}" CELLBORDER="0" CELLSPACING="0" CELLPADDING="2" BGCOLOR="{colours.PAPER}"'
_SPACE = f'<FONT POINT-SIZE="{SMALL + 1}"> </FONT>'
_LEGEND = (
    ("<B>state</B>", colours.REST, "waits for an event"),
    ("<B>state</B>", colours.AUTO, "moves on by itself"),
    ("1 <B>Event</B> [guard]", colours.TINT, "is on the happy path"),
    (f"1{FIRST}", colours.PAPER, "a later one can hold, too"),
)
_WORDS = {"answered": "an answer", "limit": "a limit or a cancel", "fault": "a fault"}


def working_label(
    state: State, lines: Sequence[Line], box: Box, header: int, beside: Mapping[str, str], room: int
) -> str:
    """A working state. ``beside`` is what stands at the end of a row, by row id, in ``room`` points."""
    width = box.width - 2 * _BORDER
    border = colours.HAPPY if state.rest else colours.INK
    name = " " + _font(f"<B>{in_label(state.name)}</B>", NAME, border)
    docs = [f" {in_label(text)}" for text in doc_lines(state)]
    look = {"COLSPAN": "3", "BGCOLOR": colours.REST if state.rest else colours.AUTO}
    rows = [_row(line, width - NUMBER - room, beside.get(line.row_id, ""), room) for line in lines]
    return _table(f'{_TABLE} COLOR="{border}"', [_cell([name, *docs], width, header, look), *rows])


def final_label(state: State, kind: str, colour: str) -> str:
    """A final state and the word for its kind."""
    return f"<{_font(in_label(state.status), TEXT, colour)}<BR/>{_font(_WORDS[kind], SMALL, colour)}>"


def legend_label() -> str:
    """What the tints mean."""
    rows = [
        f'<TD ALIGN="LEFT" BGCOLOR="{fill}">{_font(sample, SMALL, colours.INK)}</TD><TD ALIGN="LEFT">{meaning}</TD>'
        for sample, fill, meaning in _LEGEND
    ]
    return _table('BORDER="0" CELLSPACING="2" CELLPADDING="2"', rows)


def _row(line: Line, width: float, beside: str, room: int) -> str:
    height, look = row_height(line), {"VALIGN": "TOP"}
    if line.row.happy:
        look["BGCOLOR"] = colours.TINT
    update = [f"{'' if place else '/ '}{in_label(text)}" for place, text in enumerate(update_lines(line))]
    number = _lines(_font(line.label, TEXT, colours.SMALL), [""] * len(update))
    text = _lines(_font(_marked(line), TEXT, colours.INK), update)
    told = {"PORT": f"e{line.number}", "ID": f"{line.id}_row", "TOOLTIP": in_label(line.sentence)}
    cells = [
        _cell(number, NUMBER, height, look | {"PORT": f"w{line.number}", "ALIGN": "RIGHT"}),
        _cell(text, width, height, look | told),
    ]
    if room:
        cells.append(_cell(_lines(_font(beside, TEXT, colours.SMALL), []), room, height, look | {"ALIGN": "RIGHT"}))
    return "".join(cells)


def _lines(first: str, others: Sequence[str]) -> list[str]:
    # With a second font on a line Graphviz puts every first line on the same height, whatever is in it; a space that
    # is larger than the text holds the second line off the brackets above it.
    return [f"{first} ", *(f"{text}{' ' if place else _SPACE}" for place, text in enumerate(others))]


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
    attributes = {
        "FIXEDSIZE": "TRUE",
        "WIDTH": f"{width:g}",
        "HEIGHT": f"{height:g}",
        "ALIGN": "LEFT",
        "BALIGN": "LEFT",
    }
    told = " ".join(f'{name}="{value}"' for name, value in (attributes | look).items())
    return f"<TD {told}>{'<BR/>'.join(lines)}</TD>"


def _font(label: str, size: int, colour: str) -> str:
    return f'<FONT POINT-SIZE="{size}" COLOR="{colour}">{label}</FONT>'
