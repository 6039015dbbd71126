"""Words for the model: values shown short, near names, lists of what is known."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any
from typing import Final as Constant

from loopmachine.tools.numerals import Rounded, Unreadable

SHOWN: Constant = 80  #: characters of a value that a sentence shows
LISTED: Constant = 50  #: names that a sentence lists
NEAR: Constant = 60  #: characters of a name that is compared with others; comparing costs the square of it

_encoder = json.JSONEncoder(ensure_ascii=False, default=str)


def printable(text: str) -> str:
    """The text, a lone surrogate in it written as its escape: UTF-8 can carry it."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def cut(text: str, at: int = SHOWN) -> str:
    """The text, or its beginning and three dots: at most ``at`` characters."""
    return text if len(text) <= at else text[: at - 3] + "..."


def show(value: Any) -> str:
    """A value as JSON, cut at 80 characters; of a long one no more is written than is shown."""
    if isinstance(value, Rounded | Unreadable):
        return cut(value.text)
    if not isinstance(value, list | dict):
        return cut(printable(_encoder.encode(value[: SHOWN + 1] if isinstance(value, str) else value)))
    shown = ""
    for piece in _encoder.iterencode(value):
        shown += piece[: SHOWN + 1]
        if len(shown) > SHOWN:
            break
    return cut(printable(shown))


def quoted(name: str) -> str:
    """A name in quotes, cut."""
    return repr(cut(printable(name)))


def said_by(error: BaseException) -> str:
    """An exception's own words, blank where it can't say them."""
    try:
        return str(error)
    except Exception:
        return ""


def listed(names: Iterable[str]) -> str:
    """The names, at most 50 of them, or "none"."""
    every = list(names)
    more = f" and {len(every) - LISTED} more" if len(every) > LISTED else ""
    return (", ".join(every[:LISTED]) or "none") + more


def one_of(names: Sequence[str]) -> str:
    """The names, of which one is wanted."""
    return ("one of " if len(names) > 1 else "") + listed(names)


def either(wanted: Iterable[tuple[Sequence[str], str]]) -> str:
    """Several things of which one is wanted, each once: values by their names, in one list, others in words."""
    every = list(wanted)
    values = one_of([*dict.fromkeys(name for names, _ in every for name in names)])
    return " or ".join(dict.fromkeys(values if names else words for names, words in every))


def a(kind: type) -> str:
    """A type by its name, with its article."""
    return f"{'an' if kind.__name__[0] in 'aeiouAEIOU' else 'a'} {kind.__name__}"


def near(name: str, known: Sequence[str]) -> str:
    """ "; did you mean 'x'?" for the nearest of the known names, blank where none is near."""
    if len(name) > NEAR or not known:
        return ""
    short = [one for one in known[:500] if len(one) <= NEAR]
    same = {_letters(one): one for one in short}.get(_letters(name))
    if same is not None:
        return f"; did you mean {same!r}?"
    import difflib

    folded = {one.casefold(): one for one in short}
    found = difflib.get_close_matches(name.casefold(), list(folded), n=1)
    return f"; did you mean {folded[found[0]]!r}?" if found else ""


def _letters(name: str) -> str:
    """The letters and digits of a name: those of ticketId and ticket_id are the same."""
    return "".join(filter(str.isalnum, name.casefold()))
