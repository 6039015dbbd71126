"""From text to a JSON value, and what a text can be read as. Nothing is repaired."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any
from typing import Final as Constant

import attrs

from loopmachine.tools.faults import Fault
from loopmachine.tools.words import cut, quoted, show

DEEPEST: Constant = 64  #: levels of lists and objects in each other

_SMALLEST: Constant = 400  #: digits after the point that are looked at
_STRINGS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_BRACKETS = re.compile(r"[][{}]")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


@attrs.frozen
class Unreadable:
    """A number that JSON does not have or that can't be kept, as it was written."""

    text: str

    def __str__(self) -> str:
        return self.text


class NotJson(ValueError):
    """Text that is no JSON; the sentence says where."""


def parse(text: str) -> tuple[Any, list[str]]:
    """The value, and the names that an object in it gives twice. A number that can't be kept becomes Unreadable.

    Raises NotJson, and RecursionError for lists and objects that nest deeper than Python can read.
    """
    doubles: list[str] = []

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(found)
        if len(made) != len(found):
            names = Counter(name for name, _ in found)
            doubles.extend(name for name, times in names.items() if times > 1)
        return made

    try:
        decode = json.JSONDecoder(
            object_pairs_hook=pairs, parse_int=_whole, parse_float=_broken, parse_constant=Unreadable
        ).decode
        return decode(text), doubles
    except json.JSONDecodeError as wrong:
        around = quoted(text[max(0, wrong.pos - 20) : wrong.pos + 20])
        raise NotJson(f"{wrong.msg.removesuffix(' at')} at character {wrong.pos}, near {around}") from None


TOO_DEEP: Constant = f"lists and objects nest deeper than {DEEPEST} levels"


def depth(text: str) -> int:
    """How many levels of lists and objects JSON text has, told by its brackets."""
    level = deepest = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub("", text)):
        level += 1 if bracket in "[{" else -1
        deepest = max(deepest, level)
    return deepest


def _whole(digits: str) -> int | Unreadable:
    try:
        return int(digits)
    except ValueError:  # Python reads at most 4300 digits
        return Unreadable(digits)


def _broken(digits: str) -> float | Unreadable:
    number = float(digits)
    return number if math.isfinite(number) else Unreadable(digits)


def hazards(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[Fault]:
    """What of a parsed value can be given to no tool and no wire: odd numbers, halves of characters, depth."""
    if isinstance(value, Unreadable):
        yield Fault(path, f"{cut(value.text)} where a finite number of at most 4300 digits is wanted")
    elif isinstance(value, str):
        if _broken_text(value):
            yield Fault(path, f"{show(value)} holds half of a character, a lone surrogate")
    elif isinstance(value, list | dict):
        if len(path) >= DEEPEST:
            yield Fault(path[:3], TOO_DEEP)
            return
        for step, part in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(step, str) and _broken_text(step):
                yield Fault(path, f"the name {show(step)} holds half of a character, a lone surrogate")
            yield from hazards(part, (*path, step))


def _broken_text(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def identity(value: Any) -> str:
    """Text that is the same for values that JSON Schema takes for equal: 1 and 1.0, not 1 and true."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, list):
        return f"[{','.join(map(identity, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(sorted(f'{json.dumps(name)}:{identity(part)}' for name, part in value.items()))}}}"
    return json.dumps(value)


# --- what text can be read as, by the JSON Schema type that is wanted: no reading, or one -----------------


def _read_number(text: str) -> list[Any]:
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        return []
    number = _whole(text) if text.lstrip("-").isdigit() else _broken(text)
    return [] if isinstance(number, Unreadable) else [number]


def _read_whole(text: str) -> list[Any]:
    found = _read_number(text)
    if not found or isinstance(found[0], int):
        return found
    exact = Decimal(text.strip())  # a float would lose digits
    exponent = exact.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < -_SMALLEST:
        return []
    over, under = exact.as_integer_ratio()
    return [over] if under == 1 else []


def _read_boolean(text: str) -> list[Any]:
    return {"true": [True], "false": [False]}.get(text.strip().lower(), [])


def _read_structure(opening: str) -> Callable[[str], list[Any]]:
    def read(text: str) -> list[Any]:
        if not text.lstrip().startswith(opening):
            return []
        try:
            value, doubles = parse(text)
        except (NotJson, RecursionError):
            return []
        return [] if doubles or any(hazards(value)) else [value]

    return read


def _read_nothing(text: str) -> list[Any]:
    return []


READINGS: Constant[dict[str, Callable[[str], list[Any]]]] = {
    "integer": _read_whole,
    "number": _read_number,
    "boolean": _read_boolean,
    "array": _read_structure("["),
    "object": _read_structure("{"),
    "string": _read_nothing,
    "null": _read_nothing,
}
