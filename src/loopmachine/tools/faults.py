"""What is wrong with arguments: where, and in which words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from typing import Final as Constant

from msgspec import Struct

from loopmachine.tools.words import cut, near, printable, quoted, show

MOST_FAULTS: Constant = 20  #: that are told at once
Words = str | Callable[[], str]  #: unions find many faults of which nobody is told: no words are made of those


class Fault(Struct, frozen=True):
    """What is wrong at a place. ``foreign``: the value is of another kind than is wanted."""

    path: tuple[str | int, ...]
    said: Words
    foreign: bool = False
    wanted: Words = ""  #: what would be right in place of the whole value; blank of a part, and where there is none
    known: Sequence[str] = ()  #: the names of which it may be one, misspelt

    @property
    def text(self) -> str:
        """What is wrong, in words."""
        return in_words(self.said)

    def __str__(self) -> str:
        return f"{where(self.path)}: {self.text}"


Faults = Sequence[Fault]
NONE: Constant[Faults] = ()


def in_words(words: Words) -> str:
    """The words, made now if they are still to be made."""
    return words if isinstance(words, str) else words()


def where(path: Iterable[str | int]) -> str:
    """A place in the arguments as a tool's author writes it: ``orders[0].price``."""
    words = ""
    for step in path:
        if isinstance(step, int):
            words += f"[{step}]"
        elif re.fullmatch(r"\w+", step):
            words += f".{cut(printable(step))}"
        else:
            words += f"[{quoted(step)}]"
    return cut(words.removeprefix("."), 200) or "the arguments"


def under(step: str | int, faults: Faults) -> list[Fault]:
    """The faults of a part, seen from the whole."""
    return [Fault((step, *fault.path), fault.said, fault.foreign) for fault in faults]


def instead(value: Any, wanted: Words, known: Sequence[str] = (), *, foreign: bool = False) -> list[Fault]:
    """One fault: the value that stands where something else is wanted, perhaps one of the known names."""

    def said() -> str:
        meant = near(value, known) if isinstance(value, str) else ""
        return f"{show(value)} where {in_words(wanted)} is wanted{meant}"

    return [Fault((), said, foreign, wanted, known)]
