"""From text to a JSON value, and what a text can be read as. Nothing is repaired."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from typing import Final as Constant

from loopmachine.tools import numerals
from loopmachine.tools.faults import Fault
from loopmachine.tools.numerals import Unreadable
from loopmachine.tools.words import quoted, show

DEEPEST: Constant = 64  #: levels of lists and objects in each other

_STRINGS: Constant = r'"[^"\\]*(?:\\.[^"\\]*)*"'


class NotJson(ValueError):
    """Text that is no JSON; the sentence says where."""


class Doubled(dict[str, Any]):
    """An object that gives names twice: the last that it gives for each."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.doubles = [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    return made if len(made) == len(pairs) else Doubled(pairs)


_decode = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=numerals.whole, parse_float=numerals.broken, parse_constant=Unreadable
).decode


def parse(text: str) -> Any:
    """The value. A number that can't be kept becomes Unreadable, an object that gives a name twice is Doubled.

    Raises NotJson, and RecursionError for lists and objects that nest deeper than Python can read.
    """
    try:
        return _decode(text)
    except json.JSONDecodeError as wrong:
        around = quoted(text[max(0, wrong.pos - 20) : wrong.pos + 20])
        raise NotJson(f"{wrong.msg.removesuffix(' at')} at character {wrong.pos}, near {around}") from None


TOO_DEEP: Constant = f"lists and objects nest deeper than {DEEPEST} levels"


def depth(text: str) -> int:
    """How many levels of lists and objects JSON text has, told by its brackets."""
    level = deepest = 0
    for bracket in re.findall(r"[][{}]", re.sub(_STRINGS, "", text)):
        level += 1 if bracket in "[{" else -1
        deepest = max(deepest, level)
    return deepest


def hazards(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[Fault]:
    """What of a parsed value can be given to no tool and no wire: odd numbers and names, halves of characters, depth.

    Foreign is what a look at the schema may tell of too: a value, or a name, by the path of what is named so.
    """
    if isinstance(value, Unreadable):
        yield Fault(path, f"{show(value)} where a finite number of at most 4300 digits is wanted", foreign=True)
    elif isinstance(value, str):
        if _broken_text(value):
            yield Fault(path, f"{show(value)} holds half of a character, a lone surrogate", foreign=True)
    elif isinstance(value, list | dict):
        if len(path) >= DEEPEST:
            yield Fault(path[:3], TOO_DEEP)
            return
        for name in getattr(value, "doubles", ()):
            yield Fault(path, f"the name {show(name)} is given twice in one object")
        for step, part in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(step, str) and _broken_text(step):
                yield Fault((*path, step), "the name holds half of a character, a lone surrogate", foreign=True)
            yield from hazards(part, (*path, step))


def _broken_text(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def identity(value: Any, known: dict[int, str] | None = None) -> str:
    """Text that is the same for values that JSON Schema takes for equal: 1 and 1.0, not 1 and true.

    ``known`` keeps those of lists and objects by their ids, for values that stay alive as long as it.
    """
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if not isinstance(value, list | dict):
        return json.dumps(value, default=repr)
    known = {} if known is None else known
    if id(value) not in known:
        known[id(value)] = _listed(value, known) if isinstance(value, list) else _named(value, known)
    return known[id(value)]


def _listed(value: list[Any], known: dict[int, str]) -> str:
    return f"[{','.join(identity(part, known) for part in value)}]"


def _named(value: dict[str, Any], known: dict[int, str]) -> str:
    return f"{{{','.join(sorted(f'{json.dumps(name)}:{identity(part, known)}' for name, part in value.items()))}}}"


# --- what text can be read as, by the JSON Schema type that is wanted: no reading, or one -----------------


def _read_boolean(text: str) -> list[Any]:
    return {"true": [True], "false": [False]}.get(text.strip().lower(), [])


def _read_structure(opening: str) -> Callable[[str], list[Any]]:
    def read(text: str) -> list[Any]:
        if not text.lstrip().startswith(opening):
            return []
        try:
            value = parse(text)
        except (NotJson, RecursionError):
            return []
        return [] if any(hazards(value)) else [value]

    return read


def _read_nothing(text: str) -> list[Any]:
    return []


READINGS: Constant[dict[str, Callable[[str], list[Any]]]] = {
    "integer": numerals.read_whole,
    "number": numerals.read,
    "boolean": _read_boolean,
    "array": _read_structure("["),
    "object": _read_structure("{"),
    "string": _read_nothing,
    "null": _read_nothing,
}
