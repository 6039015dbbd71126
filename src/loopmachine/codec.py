"""Records as plain data and back. Only the records named here are ever made from data, of fields of their types."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import attrs

from loopmachine import events, limits, records
from loopmachine.history import EventLog, History, Ids

_RECORDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for module in (limits, records, events)
    for kind in vars(module).values()
    if isinstance(kind, type) and attrs.has(kind)
}
_ENTRIES = (records.UserMessage, records.Exchange, records.Note, records.Final)


def plain(value: Any) -> Any:
    """Plain, JSON-shaped data for a record: its name under "is", and the fields that are not at their default."""
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
        if field.init and item != field.default:
            found[field.name] = plain(item)
    return found


def record(data: Any) -> Any:
    """The record that ``plain`` made this data from; lists become tuples. Raises ValueError for what is no record."""
    if isinstance(data, list):
        return tuple(record(item) for item in data)
    if not isinstance(data, dict):
        return data
    name = data.get("is")
    if name == "History":
        return History(_all("History", record(data.get("items")), lambda one: isinstance(one, _ENTRIES)))
    if name == "Ids":
        return Ids(_all("Ids", record(data.get("items")), lambda one: isinstance(one, str)))
    if name == "EventLog":
        return EventLog(_all("EventLog", record(data.get("items")), lambda one: fits(one, tuple[Any, tuple[str, ...]])))
    if not isinstance(name, str) or name not in _RECORDS:
        raise ValueError(f"{name!r} is none of the records that can be restored: {', '.join(_RECORDS)}")
    kind, fields = _RECORDS[name], {key: record(item) for key, item in data.items() if key != "is"}
    for key, hint in hints(name).items():
        if key in fields and not fits(fields[key], hint):
            raise ValueError(f"{name}: {key} can't be {fields[key]!r}")
    try:
        return kind(**fields)
    except TypeError as wrong:
        raise ValueError(f"{name} can't be restored: {wrong}") from wrong


def _all(name: str, items: Any, right: Callable[[Any], bool]) -> tuple[Any, ...]:
    if not isinstance(items, tuple) or not all(right(one) for one in items):
        raise ValueError(f"{name} can't be restored from {items!r}")
    return items


@cache
def hints(name: str) -> dict[str, Any]:
    """The types that the fields of a record are declared with."""
    return get_type_hints(_RECORDS[name])


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the type that a field of a record is declared with."""
    origin, members = get_origin(hint), get_args(hint)
    if hint is Any or origin is Callable:
        return hint is Any
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in members)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if members[-1] is Ellipsis:
            return all(fits(one, members[0]) for one in value)
        return len(value) == len(members) and all(map(fits, value, members))
    if hint in (int, float):
        return isinstance(value, int | hint) and not isinstance(value, bool)
    return isinstance(value, hint)
