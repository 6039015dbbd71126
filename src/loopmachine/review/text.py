"""Text that others wrote, made safe for each language of a picture: ids, HTML labels, quoted DOT, XML."""

from __future__ import annotations

import html
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

# How wide characters are in Arial at most, in ems; the others are 0.78 in upper case and 0.56 else.
_EMS = {
    char: ems
    for chars, ems in (
        (" ',./\\Iijl", 0.28),
        ("!:;[]ft|", 0.31),
        ("()*-`r{}", 0.4),
        ('"Jcksvxyz', 0.51),
        ("&+<=>ABEFKLPSTVXYZ~", 0.67),
        ("%@MWmw", 1.02),
    )
    for char in chars
}
BOLD = 1.1  #: how much wider bold text is at most


def key(name: str) -> str:
    """A name as part of an id: ASCII, unique, always the same. An ASCII identifier stays what it is."""
    if name.isascii() and name.isidentifier():
        return name
    # No identifier begins with a digit, so this can't be the key of another name.
    return "0x" + name.encode("utf-8", "surrogatepass").hex()


def printable(text: str) -> str:
    """The text with every character that can't be printed written as its escape; lines stay lines."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join("".join(map(_printable, line)) for line in lines)


def _printable(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape").decode("ascii")


def flat(text: str) -> str:
    """The printable text on one line."""
    return " ".join(printable(text).split())


def first_paragraph(function: Callable[..., Any]) -> str:
    """What a function's docstring says first."""
    return inspect.cleandoc(function.__doc__ or "").split("\n\n")[0]


def wrapped(text: str, width: int) -> list[str]:
    """The printable text in lines of at most ``width`` characters."""
    return [part for line in printable(text).strip().split("\n") for part in textwrap.wrap(line, width)]


def points(text: str, size: float) -> float:
    """How wide the text is at most in Arial of this size, in points."""
    return size * sum(map(_ems, text))


def _ems(char: str) -> float:
    if not char.isascii():
        return 1.0
    return _EMS.get(char, 0.78 if char.isupper() else 0.56)


def coded(text: str) -> str:
    """Text in XML, ASCII only."""
    return html.escape(printable(text)).encode("ascii", "xmlcharrefreplace").decode("ascii")


def in_label(text: str) -> str:
    """Text in an HTML-like label, where Graphviz reads backslash escapes after the entities."""
    return coded(text).replace("\\", "\\\\")


def in_tooltip(text: str) -> str:
    """Text in the tooltip of a node or an edge, where Graphviz reads backslash escapes twice."""
    return coded(flat(text)).replace("\\", "\\" * 4)
