"""Records as plain data and back. Only the records named here are ever made from data, of fields of their types."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from reprlib import Repr
from types import MappingProxyType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from typing import Final as Constant

import attrs

from loopmachine import events, limits, records
from loopmachine.definition import Definition, once_each
from loopmachine.frozen import freeze, thaw, whole
from loopmachine.history import EventLog, History, Ids

Kinds = Mapping[str, type[Any]]

_RECORDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for module in (limits, records, events)
    for kind in vars(module).values()
    if isinstance(kind, type) and attrs.has(kind)
}
_NO_EVENTS: Constant = ("History", "Ids", "EventLog", "str")  #: names that stand for something else in data
_KINDS: Constant = frozenset(_RECORDS.values())
ENTRY = records.UserMessage | records.Exchange | records.Note | records.Final  #: of a history
_NONE: Kinds = MappingProxyType({})
#: What may stand where, in words; anything else is called by the name of its class.
_WORDS: Constant[dict[Any, str]] = {
    str: "text",
    bool: "True or False",
    int: "a whole number",
    float: "a finite number",
    type(None): "None",
    records.Turn: "a Turn, which loop.replied(reply, at=...) makes of a reply",
    records.CallResult: "a CallResult, which loop.perform(call) gives",
}
_PASSING: Constant[frozenset[Any]] = _KINDS | {str, bool, int, type(None)}
_shown = Repr()
_shown.maxstring = _shown.maxother = 80


#: Between two halves of a character that stand together, of which JSON would make one character.
_HALVES: Constant = re.compile(r"(?<=[\ud800-\udbff])(?=[\udc00-\udfff])")


def plain(value: Any) -> Any:
    """Plain, JSON-shaped data for a record: its name under "is", and the fields that are not at their default."""
    if isinstance(value, str):
        halves = [] if value.isascii() or whole(value) == value else _HALVES.split(value)
        return {"is": "str", "items": halves} if len(halves) > 1 else value
    if isinstance(value, History):
        return {"is": "History", "items": [plain(entry) for entry in value.entries]}
    if isinstance(value, Ids | EventLog):
        return {"is": type(value).__name__, "items": [plain(item) for item in value]}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if not attrs.has(type(value)):
        return value
    found = {"is": type(value).__name__}
    for field in attrs.fields(type(value)):
        item = getattr(value, field.name)
        if field.init and (type(item) is not type(field.default) or item != field.default):
            found[field.name] = plain(item)
    return found


def record(data: Any, own: Kinds = _NONE) -> Any:
    """The record that ``plain`` made this data from; lists become tuples. Raises ValueError for what is no record.

    ``own`` are the events of a user's own, by name. Fields that a record does not have are ignored.
    """
    if isinstance(data, list):
        return tuple(record(item, own) for item in data)
    if not isinstance(data, dict):
        return data
    name = data.get("is")
    if name == "str":
        return "".join(_all("str", record(data.get("items"), own), lambda one: isinstance(one, str)))
    if name == "History":
        return History(_all("History", record(data.get("items"), own), lambda one: isinstance(one, ENTRY)))
    if name == "Ids":
        return Ids(_all("Ids", record(data.get("items"), own), lambda one: isinstance(one, str)))
    if name == "EventLog":
        items = record(data.get("items"), own)
        return EventLog(_all("EventLog", items, lambda one: fits(one, tuple[Any, tuple[str, ...]])))
    kind: Any = _RECORDS.get(name) or own.get(name) if isinstance(name, str) else None
    if kind is None:
        known = ", ".join((*_RECORDS, *own))
        whose = "an event of your own is known by definition=, whose rows name it"
        raise ValueError(f"{name!r} is none of the records that can be restored: {known}; {whose}")
    return _made(kind, data, own)


def _made(kind: Any, data: dict[str, Any], own: Kinds) -> Any:
    name, declared, fields = kind.__name__, types_of(kind), [one for one in attrs.fields(kind) if one.init]
    missing = [one.name for one in fields if one.default is attrs.NOTHING and one.name not in data]
    if missing:
        raise ValueError(f"{name} can't be restored: it has no {', '.join(missing)}")
    given = {}
    for field in fields:
        if field.name in data:
            given[field.alias] = value = record(data[field.name], own)
            if not fits(value, declared[field.name]):
                raise ValueError(f"{name}: {field.name} can't be {value!r}")
    try:
        return kind(**given)
    except TypeError as wrong:  # an event of a user's own has checks of its own
        raise ValueError(f"{name} can't be restored: {wrong}") from wrong


def _all(name: str, items: Any, right: Callable[[Any], bool]) -> tuple[Any, ...]:
    if not isinstance(items, tuple) or not all(right(one) for one in items):
        raise ValueError(f"{name} can't be restored from {items!r}")
    return items


# --- of what types things are ---------------------------------------------------------------------------


@cache
def types_of(kind: Any) -> dict[str, Any]:
    """The types that the fields of a record are declared with; Any where they can't be found."""
    try:
        told = get_type_hints(kind)
    except Exception:  # hints of a user's own are any code; an event of theirs is then looked at as JSON only
        told = {}
    return {field.name: told.get(field.name, Any) for field in attrs.fields(kind)}


@cache
def _fields(kind: Any) -> tuple[tuple[str, Any, frozenset[Any]], ...]:
    """The fields of a record, each with its type and the classes that need no closer look. Anything else has none."""
    declared = types_of(kind) if attrs.has(kind) else {}
    if issubclass(kind, events.Event):
        declared = {name: hint for name, hint in declared.items() if name != "at"}  # which the machine looks at
    return tuple((name, hint, _passing(hint)) for name, hint in declared.items())


def _members(hint: Any) -> tuple[Any, ...]:
    """What a union is of, else the type itself."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


@cache
def _passing(hint: Any) -> frozenset[Any]:
    """The classes of which any value fits, but for what is in a record."""
    return _PASSING.intersection(_members(hint))


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the type that a field is declared with. What only a type checker can tell always is."""
    if isinstance(hint, type):
        if hint in (int, float):
            return isinstance(value, int | hint) and not isinstance(value, bool) and -math.inf < value < math.inf
        if hint in _KINDS:  # a class made of it would not be read back as what it is
            return type(value) is hint
        return hint is Any or isinstance(value, hint)
    origin, members = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in members)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if members[-1:] == (Ellipsis,):
            return all(fits(one, members[0]) for one in value)
        return len(value) == len(members) and all(map(fits, value, members))
    return not isinstance(origin, type) or isinstance(value, origin)


def in_words(hint: Any) -> str:
    """What fits a type, for a sentence."""
    return " or ".join(
        _WORDS.get(one) or f"{'an' if one.__name__[0] in 'AEIO' else 'a'} {one.__name__}" for one in _members(hint)
    )


def must_be(name: str, value: object, hint: Any, words: str = "") -> None:
    """Refuse an argument that is not of its type. TypeError, which names it and says what would have been right."""
    if type(value) is not hint and not fits(value, hint):
        raise TypeError(f"{name} must be {words or in_words(hint)}, not {_shown.repr(value)}")


def misfits(value: Any, hint: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """All of a value that is not of the type it is declared with, in records and tuples, too.

    Of each the path, and what would have been right.
    """
    kind: Any = type(value)
    if kind not in _passing(hint):
        if get_origin(hint) is tuple and isinstance(value, tuple) and get_args(hint)[-1:] == (Ellipsis,):
            for place, one in enumerate(value):
                yield from misfits(one, get_args(hint)[0], f"{path}[{place}]")
            return
        if not fits(value, hint):
            yield path, f"must be {in_words(hint)}, not {_shown.repr(value)}"
            return
    for name, declared, passing in _fields(kind):
        held = getattr(value, name)
        if type(held) not in passing or type(held) in _KINDS:
            yield from misfits(held, declared, f"{path}.{name}" if path else name)


# --- events ---------------------------------------------------------------------------------------------


@once_each
def own_events(definition: Definition) -> Kinds:
    """The events that the rows of a definition name and this library does not have.

    Raises ValueError for one that bears the name of a record of this library, and for one that can be changed.
    """
    named = {row.event_name: row.event for _, _, row in definition.all_rows() if row.event and attrs.has(row.event)}
    own = {name: kind for name, kind in named.items() if kind not in _KINDS}
    for name, kind in own.items():
        if name in _RECORDS or name in _NO_EVENTS:
            raise ValueError(
                f"definition: its event {name} bears the name of a record of this library; give it another"
            )
        if kind.__setattr__ is not events.Resumed.__setattr__:  # which every frozen class has from attrs
            raise ValueError(f"definition: its event {name} must be frozen, as the log is; write @attrs.frozen")
    return own


def check_event(event: Any, definition: Definition) -> None:
    """Refuse an event that could not be read back from JSON. TypeError, which says all that is wrong with it."""
    kind = type(event)
    wrong = [f"{path} {said}" for path, said in misfits(event, kind if kind in _KINDS else object)]
    if wrong:
        raise TypeError(f"{kind.__name__}: {'; '.join(wrong)}")
    if kind not in _KINDS and any(row.event_name == kind.__name__ for _, _, row in definition.all_rows()):
        _check_own(event, own_events(definition))


def _check_own(event: Any, own: Kinds) -> None:
    try:
        again = record(thaw(freeze(plain(event))), own)
        why = "" if _alike(again, event) else f"it would be {_shown.repr(again)}"
    except (TypeError, ValueError, RecursionError) as error:
        why = str(error)
    if why:
        raise TypeError(
            f"{type(event).__name__} must be the same once it was written as JSON and read: an attrs class named in a "
            "row, whose fields hold text, finite numbers, True, False, None, records of this library, or tuples of "
            f"these; {why}"
        )


def _alike(one: Any, other: Any) -> bool:
    """Finite, equal and of the same class, in every field and item: whatever guards look at, they see the same."""
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    if attrs.has(type(one)):
        names = [field.name for field in attrs.fields(type(one))]
        return all(_alike(getattr(one, name), getattr(other, name)) for name in names)
    return bool(one == other) and (not isinstance(one, float) or math.isfinite(one))
