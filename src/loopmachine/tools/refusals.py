"""What a class refuses that its schema allows, a line for each place, as far as it can be told apart."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import GenericAlias, UnionType
from typing import Annotated, Any, Union
from typing import Final as Constant

import msgspec
from msgspec import Struct

from loopmachine.tools.faults import Fault
from loopmachine.tools.makers import Alias, Forms, Model, Record, Tested, details
from loopmachine.tools.nodes import Examination
from loopmachine.tools.standins import StandIn, convert
from loopmachine.tools.words import cut, printable, said_by, show

_PLACE: Constant = r"(?s)(.*) - at `(?:key` in `)?\$([^`]*)`"
_MOST: Constant = 400  #: characters of what a class says


class Name(Struct, frozen=True):
    """A name in an object, which may be read as a number."""

    shape: Any

    def read(self, value: Any, look: Examination) -> Any:
        """What the name is read as."""
        return convert({value: None}, GenericAlias(dict, (self.shape, None)), look)


def refusal(error: Exception) -> str:
    """What a class said that refuses its values, with the place where msgspec tells it."""
    said, place = _told(error)
    return said if place is None else f"{place.removeprefix('.') or 'the arguments'}: {said}"


def refusals(shape: Any, value: Any, path: tuple[str | int, ...]) -> Iterator[Fault]:
    """All that is refused of a plain JSON value at a place: its parts by themselves, or it as a whole."""
    error = _refused(shape, value)
    if error is None:
        return
    nothing = True
    for step, of_part, part in _parts(shape, value):
        for fault in refusals(of_part, part, (*path, step)):
            nothing = False
            yield fault
    if nothing:
        yield from _whole(shape, value, path, error)


def sound(
    shape: Any, value: Any, path: tuple[str | int, ...], faults: Sequence[Fault]
) -> Iterator[tuple[Any, Any, tuple[str | int, ...]]]:
    """The largest parts of a value at a place that have no fault, each with its shape and place."""
    inside = [fault for fault in faults if fault.path[: len(path)] == path]
    if not inside:
        yield shape, value, path
    elif all(fault.path != path for fault in inside):
        for step, of_part, part in _parts(shape, value, faulty=True):
            yield from sound(of_part, part, (*path, step), inside)


def _refused(shape: Any, value: Any) -> Exception | None:
    try:
        convert(value, shape, Examination())
    except Exception as error:
        return error
    return None


def _whole(shape: Any, value: Any, path: tuple[str | int, ...], error: Exception) -> Iterator[Fault]:
    """What is refused of a value whose parts are right; pydantic tells by itself which part it is."""
    if isinstance(getattr(shape, "kind", None), Model):
        for steps, part, said in details(error):
            yield Fault((*path, *_along(value, steps)), f"{show(part)} is refused: {_short(said)}")
    else:
        what = "the name " if isinstance(getattr(shape, "kind", None), Name) else ""
        yield Fault(path, f"{what}{show(value)} is refused: {_told(error)[0]}")


def _along(value: Any, steps: Iterable[str | int]) -> Iterator[str | int]:
    """The steps that lead to a part of the value: between them pydantic names the types of a union."""
    for step in steps:
        if _holds(value, step):
            value = value[step]
            yield step


def _holds(value: Any, step: str | int) -> bool:
    return step in (value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ())


def _parts(shape: Any, value: Any, *, faulty: bool = False) -> Iterator[tuple[str | int, Any, Any]]:
    """The parts of a value, each with its step and its shape.

    None of a union where it is ``faulty``: which type was meant is not known then, and nothing was coerced to it.
    """
    kind, origin, inner = getattr(shape, "kind", None), typing.get_origin(shape), typing.get_args(shape)
    if isinstance(kind, Record):
        steps = [(place if kind.listed else one.name, one.shape) for place, one in enumerate(kind.fields)]
        yield from ((step, one, value[step]) for step, one in steps if _holds(value, step))
    elif isinstance(kind, Alias | Tested):
        yield from _parts(kind.shape, value, faulty=faulty)
    elif origin is Annotated:
        yield from _parts(inner[0], value, faulty=faulty)
    elif isinstance(kind, Forms) or origin in (Union, UnionType):
        chosen = () if faulty else [kind.chosen(value, Examination())] if isinstance(kind, Forms) else inner
        for one in chosen:
            yield from _parts(one, value)
    elif isinstance(origin, type) and isinstance(value, dict if issubclass(origin, Mapping) else list):
        yield from _items(inner, value)


def _items(inner: tuple[Any, ...], value: Any) -> Iterator[tuple[str | int, Any, Any]]:
    if isinstance(value, dict):
        of_name = StandIn("Name", Name(inner[0]))
        yield from ((name, of_name, name) for name in value)
        yield from ((name, inner[1], part) for name, part in value.items())
    else:
        fixed = len(inner) == len(value) and Ellipsis not in inner
        yield from ((place, inner[place if fixed else 0], part) for place, part in enumerate(value))


def _told(error: Exception) -> tuple[str, str | None]:
    """What was said, and the place of it where msgspec tells one."""
    said, places = _short(said_by(error)), ""
    if not isinstance(error, msgspec.ValidationError):
        return f"{type(error).__name__}: {said}", None
    while told := re.fullmatch(_PLACE, said):  # a class in a class: each says where it stands in the other
        said, places = told[1], places + told[2]
    return said, places


def _short(said: str) -> str:
    return cut(printable(said), _MOST)
