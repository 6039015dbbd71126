"""Records as plain data and back. Only the records named here are ever made from data."""

from __future__ import annotations

from typing import Any

import attrs

from loopmachine import events, limits, records
from loopmachine.history import EventLog, History, Ids

_RECORDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for module in (limits, records, events)
    for kind in vars(module).values()
    if isinstance(kind, type) and attrs.has(kind)
}
_LOGS: dict[str, Any] = {"History": History, "Ids": Ids, "EventLog": EventLog}


def plain(value: Any) -> Any:
    """Plain, JSON-shaped data for a record: its name under "is", and the fields that are not at their default."""
    if isinstance(value, History):
        return {"is": "History", "items": [plain(entry) for entry in value.entries]}
    if isinstance(value, EventLog | Ids):
        return {"is": type(value).__name__, "items": [plain(item) for item in value]}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if not attrs.has(type(value)):
        return value
    found = {"is": type(value).__name__}
    for field in attrs.fields(type(value)):
        item = getattr(value, field.name)
        if field.init and item != field.default:
            found[field.name] = plain(item)
    return found


def record(data: Any) -> Any:
    """The record that ``plain`` made this data from. Lists become tuples. Raises ValueError for what is no record."""
    if isinstance(data, list):
        return tuple(record(item) for item in data)
    if not isinstance(data, dict):
        return data
    name = data.get("is")
    if name in _LOGS:
        return _LOGS[name](record(data["items"]))
    if name not in _RECORDS:
        raise ValueError(f"{name!r} is none of the records that can be restored: {', '.join(_RECORDS)}")
    fields = {key: record(item) for key, item in data.items() if key != "is"}
    try:
        return _RECORDS[name](**fields)
    except TypeError as wrong:
        raise ValueError(f"{name} can't be restored: {wrong}") from wrong
