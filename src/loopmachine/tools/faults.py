"""What is wrong with arguments: where, and in which words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from typing import Final as Constant

from msgspec import Struct

from loopmachine.tools.words import cut, near, printable, quoted, show

MOST_FAULTS: Constant = 20  #: that are told at once


class Fault(Struct, frozen=True):
    """What is wrong at a place. ``foreign``: the value is of another kind than is wanted."""

    path: tuple[str | int, ...]
    said: str | Callable[[], str]  #: unions find many faults of which nobody is told: no words are made of those
    foreign: bool = False

    @property
    def text(self) -> str:
        """What is wrong, in words."""
        return self.said if isinstance(self.said, str) else self.said()

    def __str__(self) -> str:
        return f"{where(self.path)}: {self.text}"


Faults = Sequence[Fault]
NONE: Constant[Faults] = ()


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


def instead(value: Any, wanted: str, known: Sequence[str] = (), *, foreign: bool = False) -> list[Fault]:
    """One fault: the value that stands where something else is wanted, perhaps one of the known names."""

    def said() -> str:
        return f"{show(value)} where {wanted} is wanted{near(value, known) if isinstance(value, str) else ''}"

    return [Fault((), said, foreign)]
