"""What stand-ins stand for: each makes typed values of plain JSON ones.

A class is made by calling it, so that its defaults, converters and validators are its own. Where it has none of those
and msgspec makes the same of it, that is left to msgspec.
"""

from __future__ import annotations

import datetime
import re
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal, Union

import msgspec
from msgspec import NODEFAULT, UNSET, Struct
from msgspec import inspect as mi

from loopmachine.tools.classes import runs_nothing
from loopmachine.tools.nodes import Examination, Node
from loopmachine.tools.notes import named
from loopmachine.tools.reading import identity
from loopmachine.tools.standins import StandIn, convert
from loopmachine.tools.words import show


class Field(Struct, frozen=True):
    """A field of a record: what the constructor calls it (blank: nothing), its name in JSON, and its shape."""

    argument: str
    name: str
    shape: Any
    default: Any
    anew: Callable[[], Any] | None = None  #: makes a default that one instance could change for another

    @property
    def required(self) -> bool:
        """It has no default."""
        return self.default is NODEFAULT


class Record(Struct):
    """A class, read from an object, or from a list where its fields have places."""

    cls: Any
    listed: bool
    hint: Any
    fields: list[Field] = []
    lean: bool = False  #: msgspec makes the same of it
    _given: Any = None  #: a struct of what JSON gives of it
    _arguments: list[str] = []  #: of the fields of that, in order
    _shared: list[tuple[str, Callable[[], Any]]] = []  #: makes defaults that must not be shared

    def fill(self, fields: Iterable[Field]) -> None:
        """Take the fields, which may hold the class itself."""
        self.fields = list(fields)
        self._arguments = [one.argument for one in self.fields]
        self._shared = [(one.argument, one.anew) for one in self.fields if one.anew is not None]
        names = {f"f{place}": one.name for place, one in enumerate(self.fields)}
        held = [
            (name, lean(one.shape), *([] if one.required else [UNSET]))
            for name, one in zip(names, self.fields, strict=True)
        ]
        self.lean = runs_nothing(self.cls) and _reads_alike(self.hint, self.fields)
        self._given = msgspec.defstruct("Given", held, kw_only=True, array_like=self.listed, rename=names)

    def read(self, value: Any, look: Examination) -> Any:
        """An instance, made by the class itself."""
        given = zip(self._arguments, msgspec.structs.astuple(convert(value, self._given, look)), strict=True)
        named = {argument: held for argument, held in given if held is not UNSET and argument}
        for argument, anew in self._shared:
            if argument not in named:
                named[argument] = anew()
        return self.cls(**named)


def lean(shape: Any) -> Any:
    """The shape with the classes themselves where msgspec makes the same of them, and makes it faster."""
    kind, origin, parts = getattr(shape, "kind", None), typing.get_origin(shape), typing.get_args(shape)
    if isinstance(kind, Record) and kind.lean:
        return kind.hint
    if origin is Annotated:
        return Annotated[(lean(parts[0]), *shape.__metadata__)]
    if origin in (Union, types.UnionType):
        return either(map(lean, parts))
    return origin[tuple(map(lean, parts))] if parts and origin is not Literal else shape


def _reads_alike(hint: Any, fields: Sequence[Field]) -> bool:
    """Whether msgspec reads the fields of a class as their shapes say, and makes anew what must not be shared."""
    try:
        # Only the types of classes have fields: what msgspec takes for another raises, and is not read alike.
        theirs: tuple[mi.Field, ...] = mi.type_info(hint).fields  # type: ignore[attr-defined]
        told = [(one.encode_name, one.required, one.type) for one in theirs]
        made = {one.encode_name for one in theirs if one.default_factory is not NODEFAULT}
        anew = {one.name for one in fields if one.anew is not None}
        return anew <= made and told == [(one.name, one.required, mi.type_info(lean(one.shape))) for one in fields]
    except Exception:  # a class that it can't read
        return False


class Forms(Struct, frozen=True):
    """A union: a value is read as the first of its types that takes it unchanged, 1.0 not made 1.

    A ``float`` takes 1 unchanged, but only after all types that take whole numbers: it would round them.
    """

    shapes: list[Any]
    nodes: list[Node] = []  #: of the shapes, put in when all schemas are known, and before any thread reads a value

    def chosen(self, value: Any, look: Examination) -> Any:
        """The type that takes the value."""
        judged = zip(self.shapes, self.nodes, strict=True)
        return next((shape for shape, node in judged if _keeps(node, value, look)), self.shapes[-1])

    def read(self, value: Any, look: Examination) -> Any:
        """The value as one of the types."""
        return convert(value, self.chosen(value, look), look)


_sorted = msgspec.json.Encoder(order="sorted").encode


def _keeps(node: Node, value: Any, look: Examination) -> bool:
    taken, faults = look.at(node, value)
    return not faults and (taken is value or _sorted(taken) == _sorted(value))


class Values(Struct, frozen=True):
    """Members by the JSON values that are written for them."""

    hint: Any
    values: list[Any]
    members: dict[str, Any]

    def read(self, value: Any, look: Examination) -> Any:
        """The member of a value."""
        return self.members[identity(value)]


class Duration(Struct, frozen=True):
    """A ``timedelta``, of which msgspec reads no weeks."""

    def read(self, value: Any, look: Examination) -> Any:
        """The time that a duration takes. Raises ValueError for one out of range."""
        weeks = re.fullmatch(r"([+-]?P)([0-9.]+)W", value)
        days = f"{weeks[1]}{7 * Decimal(weeks[2]):f}D" if weeks else value
        return convert(days, datetime.timedelta, look)


class Alias(Struct):
    """A type that has a name, by which it may hold itself."""

    name: str
    shape: Any = None

    def read(self, value: Any, look: Examination) -> Any:
        """The value as the type that is named."""
        return convert(value, self.shape, look)


class Model(Struct, frozen=True):
    """A class of pydantic's, or a hint with notes of its own, which it describes and checks itself."""

    cls: Any
    adapter: Any

    def read(self, value: Any, look: Examination) -> Any:
        """An instance. Raises ValueError in the model's words."""
        from pydantic import ValidationError

        try:
            return self.adapter.validate_json(msgspec.json.encode(value))
        except ValidationError as error:
            told = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}".removeprefix(": ") for one in error.errors()]
            raise ValueError("; ".join(told)) from error


def details(error: BaseException) -> list[tuple[tuple[str | int, ...], Any, str]]:
    """What pydantic said in an error that a Model raised: each place, with what stands there, and what is wrong."""
    told: Any = error
    while not hasattr(told, "errors"):
        told = told.__cause__
    return [(one["loc"], one["input"], one["msg"]) for one in told.errors()]


class Tested(Struct, frozen=True):
    """A type whose values must pass tests that are no limits, and must hold all that was given."""

    shape: Any
    tests: list[Callable[[Any], object]] = []

    def read(self, value: Any, look: Examination) -> Any:
        """The value. Raises ValueError for one that does not pass, or that lost what became equal by being read."""
        made, shape = convert(value, self.shape, look), unlimited(self.shape)
        if isinstance(made, dict | set | frozenset) and len(made) < len(value) and not isinstance(shape, StandIn):
            raise ValueError(_twins(value, shape, look))
        for test in self.tests:
            if not test(made):
                raise ValueError(f"it does not pass {named(test)}")
        return made


def unlimited(shape: Any) -> Any:
    """A shape without what is noted of it, such as how many items it must have."""
    return shape.__origin__ if typing.get_origin(shape) is Annotated else shape


def _twins(value: Any, shape: Any, look: Examination) -> str:
    """Which two names of an object, or items of a list, are the same once they are read."""
    given = [*value]
    parts = [{name: value[name]} for name in given] if isinstance(value, dict) else [[item] for item in given]
    read = [next(iter(convert(part, shape, look))) for part in parts]
    firsts = {one: place for place, one in reversed([*enumerate(read)])}
    second = next(place for place, one in enumerate(read) if firsts[one] != place)
    first, again = (given[place] for place in (firsts[read[second]], second))
    if not isinstance(value, dict):
        return f"{show(first)} and {show(again)} are the same where a list without doubles is wanted"
    both = f"{show(first)}, for {show(value[first])}, and {show(again)}, for {show(value[again])}"
    return f"the names {both}, are the same; give one"


def either(hints: Iterable[Any]) -> Any:
    """The union of hints or shapes."""
    return Union[tuple(hints)]  # noqa: UP007  with | what is no class, such as a name in quotes, can't be joined
