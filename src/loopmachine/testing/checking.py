"""What a server refuses in a request, told as the wires tell what is wrong with a reply: the field first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from loopmachine.frozen import json_object
from loopmachine.testing.pairing import unpaired
from loopmachine.wire.fields import Names, Unreadable, an_object, listed, string


def forbid(wrong: object, field: str, says: str) -> None:
    """Refuse a request that is wrong."""
    if wrong:
        raise Unreadable(f"{field}: {says}")


def some(value: object, field: str, what: str) -> list[dict[str, Any]]:
    """A list of objects that is not empty."""
    items = listed(value, field, what)
    forbid(not items, field, "it is empty")
    return items


def json_text(value: object, field: str) -> None:
    """Refuse arguments that are not the text of a JSON object."""
    forbid(json_object(string(value, field)) is None, field, f"it must be the text of a JSON object, not {value!r}")


def named(thing: Mapping[str, Any], field: str, names: Names) -> None:
    """Refuse a tool or a call whose name is none of those that the provider takes."""
    name = string(thing.get("name"), f"{field}.name")
    forbid(not names.pattern.fullmatch(name), f"{field}.name", f"it must be {names.rule}, not {name!r}")


def declared(tool: object, field: str, schema: str, names: Names) -> None:
    """Refuse a tool without a proper name or a schema for its arguments."""
    fields = an_object(tool, field)
    named(fields, field, names)
    an_object(fields.get(schema), f"{field}.{schema}")


def paired(messages: Iterable[Mapping[str, Any]], field: str) -> None:
    """Refuse a call without a result, and a result without a call."""
    if fault := unpaired(messages, field):
        raise Unreadable(fault)
