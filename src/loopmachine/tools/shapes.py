"""From a type hint to its shape: what msgspec is to read, with stand-ins where it would break a promise.

A class is made by calling it, so that its defaults, converters and validators are its own; a union may hold any types;
an Enum and a Literal may hold any values that JSON has. What msgspec does as well is left to it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from enum import Enum
from typing import Annotated, Any, Literal, TypeVar, Union
from typing import Final as Constant

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec import inspect as mi

from loopmachine.tools.classes import (
    Member,
    default_of,
    fresh,
    is_listed,
    is_model,
    is_qualifier,
    is_record,
    meaning,
    members,
)
from loopmachine.tools.makers import Alias, Duration, Field, Forms, Model, Record, Tested, Values, either, unlimited
from loopmachine.tools.notes import Endless, NoSchema, flat, is_pydantics, limits, meant, predicates, refused
from loopmachine.tools.reading import identity
from loopmachine.tools.standins import StandIn

_KINDS: Constant[dict[type[mi.Type], list[Any]]] = {
    mi.AnyType: [object],
    mi.UnionType: [object],
    mi.TupleType: [object],  # of a fixed length: beside a type with limits msgspec 0.23 crashes the interpreter
    mi.CustomType: [StandIn],
    mi.NoneType: [None],
    mi.BoolType: [bool],
    mi.IntType: [int, float],
    mi.FloatType: [float],
    mi.DictType: [dict],
}
#: Types whose values are as different as what is written for them.
_EXACT: Constant = (mi.StrType, mi.IntType, mi.DateType, mi.LiteralType, mi.EnumType)
_DEEPEST: Constant = 20  #: how often a type stands in itself, each time with other arguments
_SAME: Constant = "let it stand in itself with the arguments that it was given"
_DURATION: Constant = StandIn("timedelta", Duration())
_WRITTEN: Constant[dict[type, list[Any]]] = {type(None): [None], bool: [bool], int: [int, float]}


@contextlib.contextmanager
def within(place: str) -> Iterator[None]:
    """Tells where in a class the type stands that has no schema."""
    try:
        yield
    except Endless:  # it stands in itself, again and again
        raise
    except Exception as error:
        told = refused(error)
        raise NoSchema(f"{place}: {told}", told.remedy) from error


# --- from hints to shapes ---------------------------------------------------------------------------------


class Shapes(Struct):
    """Makes shapes. ``names``: where the hints of local classes are looked up."""

    names: Mapping[str, Any]
    orders: dict[frozenset[tuple[type, Any]], tuple[Any, ...]] = {}  #: of Literals, as written
    unions: list[Forms] = []  #: which still need their nodes
    _made: dict[Any, Any] = {}
    _open: list[Any] = []  #: the classes and aliases that are being made

    def field(self, hint: Any, default: Any) -> Any:
        """The shape of a field or parameter; one whose default is None takes None."""
        return self.of(either([hint, None]) if default is None else hint)

    def of(self, hint: Any) -> Any:
        """The shape of a hint. Raises NoSchema, or what msgspec or typing say of it."""
        origin, parts = typing.get_origin(hint), typing.get_args(hint)
        if origin is Annotated:
            return self._noted(hint, list(flat(parts[1:])))
        if origin is typing.Final or is_qualifier(origin):
            return self.of(parts[0])
        if origin is Literal:
            return self._literal(hint, parts)
        if origin in (Union, types.UnionType):
            return self._union([self.of(one) for one in parts if one is not msgspec.UnsetType])
        if isinstance(hint, TypeVar):
            return self.of(default_of(hint, either(hint.__constraints__ or [hint.__bound__ or Any])))
        if isinstance(hint, dataclasses.InitVar):
            return self.of(hint.type)
        if hasattr(hint, "__supertype__"):  # a NewType
            return self.of(hint.__supertype__)
        if hasattr(origin or hint, "__value__"):  # the alias of a type statement
            return self._alias(hint)
        return self._class(hint, origin or hint, parts)

    def _noted(self, hint: Any, notes: list[Any]) -> Any:
        """The shape with what is noted of it; what only pydantic knows is left to pydantic."""
        for note in notes:
            meant(note)
        if any(map(is_pydantics, notes)):
            return self._model(hint)
        shape = self.of(typing.get_args(hint)[0])
        inner = getattr(shape, "kind", None)
        tests = [test for note in notes for test in predicates(note)]
        if isinstance(inner, Tested):  # limits are for what is tested
            shape, tests = inner.shape, [*inner.tests, *tests]
        told = [meta for note in notes for meta in limits(note)]
        if any("pattern" in (meta.extra_json_schema or {}) for meta in told):
            mi.type_info(Annotated[shape, msgspec.Meta(pattern="")])  # raises for what is no text
        noted = _in_digits(Annotated[(shape, *told)]) if told else shape
        return StandIn("Tested", Tested(noted, tests)) if tests or isinstance(inner, Tested) else noted

    def _class(self, hint: Any, cls: Any, parts: tuple[Any, ...]) -> Any:
        if is_model(cls):
            return self._model(cls)
        if isinstance(cls, type) and issubclass(cls, Enum):
            return _values(cls, [member.value for member in cls], list(cls))
        if is_record(cls):
            return self._record(hint, cls)
        if cls is datetime.timedelta:
            return _DURATION
        if cls is object:
            return Any
        made = cls[tuple(self.of(one) for one in parts)] if parts else hint
        collects = isinstance(cls, type) and issubclass(cls, Mapping | Set)
        return StandIn("Tested", Tested(made)) if collects and _may_lose(mi.type_info(made)) else made

    def _model(self, cls: Any) -> Any:
        if cls not in self._made:
            from pydantic import TypeAdapter

            self._made[cls] = StandIn(getattr(cls, "__name__", "Annotated"), Model(cls, TypeAdapter(cls)))
        return self._made[cls]

    def _record(self, hint: Any, cls: Any) -> Any:
        if hint not in self._made:
            record = Record(cls, is_listed(cls), hint)
            self._made[hint] = StandIn(cls.__name__, record)
            with self._inside(cls):
                record.fill(self._fields(hint, cls))
        return self._made[hint]

    def _fields(self, hint: Any, cls: Any) -> Iterator[Field]:
        settings = getattr(cls, "__struct_config__", None)
        if settings is not None and settings.tag_field is not None:
            yield Field("", settings.tag_field, self.of(Literal[settings.tag]), NODEFAULT)
        with within(cls.__name__):
            found = _members(hint, self.names)
        for one in found:
            with within(f"{cls.__name__}.{one.name}"):
                yield Field(one.argument, one.name, self.field(one.hint, one.default), one.default, _anew(one.default))

    def _alias(self, hint: Any) -> Any:
        if hint not in self._made:
            named = typing.get_origin(hint) or hint
            alias = Alias(named.__name__)
            self._made[hint] = StandIn(alias.name, alias)
            with self._inside(named):
                alias.shape = self.of(meaning(hint, self.names))
        return self._made[hint]

    @contextlib.contextmanager
    def _inside(self, named: Any) -> Iterator[None]:
        """While a class or an alias is made. Raises Endless where it grows each time that it stands in itself."""
        self._open.append(named)
        if self._open.count(named) > _DEEPEST:
            raise Endless(f"{named.__name__} stands in itself with other arguments each time: it never ends", _SAME)
        yield
        self._open.pop()

    def _literal(self, hint: Any, parts: tuple[Any, ...]) -> Any:
        self.orders.setdefault(as_set(parts), parts)
        return _values(hint, [one.value if isinstance(one, Enum) else one for one in parts], parts)

    def _union(self, shapes: list[Any]) -> Any:
        nulls = {id(one): f"{one}" for shape in shapes for one in _nulls(shape)}
        if len(nulls) > 1:
            raise NoSchema(
                f"null would be {' and '.join(nulls.values())} at once", "let no more than one be null in JSON"
            )
        if _is_told_apart(shapes):
            return either(shapes)
        self.unions.append(Forms(_exact_first(shapes)))
        return StandIn("Union", self.unions[-1])


def _held(shape: Any, *, deep: bool = False) -> list[Any]:
    """What a shape may be read as, out of notes, names and unions; ``deep``: and what its parts may be."""
    found: dict[int, Any] = {}
    open_ones = [shape]
    while open_ones:
        one = open_ones.pop()
        if id(one) not in found:
            found[id(one)] = one
            kind = getattr(one, "kind", None)
            open_ones += [*getattr(kind, "shapes", ()), *([kind.shape] if isinstance(kind, Alias | Tested) else [])]
            if deep or typing.get_origin(one) in (Annotated, Union, types.UnionType):
                open_ones += typing.get_args(one)
    return [*found.values()]


def _nulls(shape: Any) -> Iterator[Any]:
    """What null is read as."""
    for one in _held(shape):
        kind = getattr(one, "kind", None)
        if isinstance(kind, Values):
            yield from [member for value, member in kind.members.items() if value == identity(None)]
        elif one is types.NoneType or (typing.get_origin(one) is Literal and None in typing.get_args(one)):
            yield None


def _exact_first(shapes: list[Any]) -> list[Any]:
    """The shapes; those that round whole numbers, ``float`` and collections of it, after others of their sort."""
    sorts = [_sort(shape) for shape in shapes]

    def rounds(shape: Any) -> bool:
        return any(one is float for one in _held(shape, deep=_sort(shape) is not None))

    alike = {sort: iter(sorted((one for one in shapes if _sort(one) is sort), key=rounds)) for sort in sorts}
    return [next(alike[sort]) for sort in sorts]


def _sort(shape: Any) -> Any:
    """The class of a collection, and Any: what takes values that others take too, and makes something else of them."""
    kind = getattr(shape, "kind", None)
    origin = typing.get_origin(unlimited(kind.shape if isinstance(kind, Tested) else shape))
    return origin if isinstance(origin, type) and issubclass(origin, Iterable) else Any if shape is Any else None


def _may_lose(info: mi.Type) -> bool:
    """Whether two names of an object, or two items of a list, may be one in what is read of it."""
    if isinstance(info, mi.DictType):
        return not isinstance(bare(info.key_type), (*_EXACT, mi.AnyType))
    return isinstance(info, mi.SetType | mi.FrozenSetType) and not isinstance(bare(info.item_type), _EXACT)


def bare(info: mi.Type) -> mi.Type:
    """A type without what is noted of it."""
    return info.type if isinstance(info, mi.Metadata) else info


def _members(hint: Any, names: Mapping[str, Any]) -> list[Member]:
    try:
        return list(members(hint, names))
    except NameError as error:
        raise NoSchema(str(error), "define it where the class can see it") from error


def _in_digits(noted: Any) -> Any:
    """A noted type; what a ``float`` must be a multiple of is told in the schema alone: there 0.3 is one of 0.1."""
    metas: tuple[msgspec.Meta, ...] = noted.__metadata__
    if any(meta.multiple_of is not None for meta in metas):
        info = mi.type_info(noted)  # raises for what is no number
        if isinstance(bare(info), mi.FloatType):
            metas = tuple(map(_multiple_in_schema, metas))
    said = [keyword for meta in metas for keyword in meta.extra_json_schema or ()]
    for keyword in ("pattern", "multipleOf"):
        if said.count(keyword) > 1:
            raise NoSchema(f"{keyword} is given twice", "give one of them, and check the other in the tool")
    return Annotated[(noted.__origin__, *metas)]


def _multiple_in_schema(meta: msgspec.Meta) -> msgspec.Meta:
    said = dict(meta.__rich_repr__())
    multiple = {"multipleOf": said.pop("multiple_of")} if "multiple_of" in said else {}
    return msgspec.Meta(**said | {"extra_json_schema": (meta.extra_json_schema or {}) | multiple})


def _anew(default: Any) -> Callable[[], Any] | None:
    try:
        return fresh(default)
    except Exception as error:
        raise NoSchema(f"its default can't be copied for each instance: {error}", "give it a factory") from error


def _is_told_apart(shapes: list[Any]) -> bool:
    """Whether msgspec tells the types of a union apart: by their kinds in JSON, of which each may have one type."""
    kinds = [kind for one in shapes for kind in _kinds(mi.type_info(one))]
    apart = len(set(kinds)) == len(kinds) and object not in kinds
    return apart and (StandIn not in kinds or {*kinds} <= {StandIn, None})


def _kinds(info: mi.Type) -> list[Any]:
    """The kinds of JSON values that a type is written as; object where it may be any.

    A whole number is also a number; msgspec gives it to a ``float`` only where nothing else takes whole numbers.
    """
    if isinstance(info, mi.Metadata):
        return _kinds(info.type)
    if isinstance(info, mi.LiteralType | mi.EnumType):
        values = info.values if isinstance(info, mi.LiteralType) else [member.value for member in info.cls]
        return list({kind for value in values for kind in _WRITTEN.get(type(value), [str])})
    if isinstance(info, mi.CollectionType):
        return [list]
    return [int] if info == mi.IntType() else _KINDS.get(type(info), [str])


def as_set(values: Iterable[Any]) -> frozenset[tuple[type, Any]]:
    """The values without their order; 1 and True are not the same."""
    return frozenset((type(value), value) for value in values)


def _values(hint: Any, values: Iterable[Any], members: Iterable[Any]) -> Any:
    """The shape of an Enum or a Literal: itself where msgspec takes its values."""
    try:
        mi.type_info(hint)
        return hint
    except (TypeError, NotImplementedError):
        pass
    told = [plain(value) for value in values]
    if not told or any(value is NODEFAULT for value in told):
        raise NoSchema(
            f"{getattr(hint, '__name__', hint)} has no values, or some that JSON does not have",
            "give it numbers or text for values",
        )
    return StandIn("Values", Values(hint, told, dict(zip(map(identity, told), members, strict=True))))


def plain(value: Any) -> Any:
    """A value as JSON; NODEFAULT where it is none, such as a sentinel or NaN."""
    try:
        written = msgspec.to_builtins(value, str_keys=True, enc_hook=_dumped)
        return json.loads(json.dumps(written, allow_nan=False))
    except Exception:  # a user's object may raise anything; it is then no default to tell
        return NODEFAULT


def _dumped(value: Any) -> Any:
    """A pydantic model as it would be given, by its aliases. Raises ValueError for one that would not come back so."""
    model = type(value)
    written = value.model_dump(mode="json", by_alias=True, round_trip=True, warnings="error")
    if model.model_validate_json(json.dumps(written)) != value:
        raise ValueError
    return written


def holds(shape: Any, value: Any) -> bool:
    """Whether a value may be one of a shape; a member of an Enum that it does not name marks something."""
    if not isinstance(value, Enum) or isinstance(value, int | str):
        return True
    kind = getattr(shape, "kind", None)
    parts = (*typing.get_args(shape), *getattr(kind, "shapes", ()))
    return type(value) in (shape, getattr(kind, "hint", None)) or any(holds(part, value) for part in parts)
