"""The short way for arguments that need no coercion: a schema as a msgspec type, read in one pass.

Only what msgspec checks exactly as ``nodes`` does is taken; any other schema has no short way.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal
from typing import Final as Constant

import msgspec

from loopmachine.tools.compiling import NOTES

_LIMITS: Constant[dict[str, dict[str, str]]] = {
    "integer": {"minimum": "ge", "maximum": "le", "exclusiveMinimum": "gt", "exclusiveMaximum": "lt"},
    "number": {},
    "boolean": {},
    "null": {},
    "string": {"minLength": "min_length", "maxLength": "max_length", "pattern": "pattern"},
    "array": {"minItems": "min_length", "maxItems": "max_length"},
}
_TYPES: Constant[dict[str, Any]] = {
    "integer": int,
    "number": int | float,
    "boolean": bool,
    "null": None,
    "string": str,
}


class NoShortWay(Exception):
    """This schema is checked by its nodes only."""


def reader(schema: Mapping[str, Any]) -> msgspec.json.Decoder[Any] | None:
    """A decoder that accepts only what the schema accepts; encoding what it gives leaves out what was not given.

    It does not see names that are given twice. None where the schema has no short way, or is no closed object.
    """
    try:
        if schema.get("additionalProperties") is not False:
            return None
        return msgspec.json.Decoder(_type(schema, schema, ()))
    except (NoShortWay, TypeError, ValueError, NotImplementedError):  # msgspec knows no such type
        return None


def _type(schema: Any, root: Mapping[str, Any], above: tuple[str, ...]) -> Any:
    if schema is False:
        raise NoShortWay
    said = {} if schema is True else {key: argument for key, argument in schema.items() if key not in NOTES}
    if not said:
        return Any
    if said.keys() == {"$ref"}:
        return _referred(said["$ref"], root, above)
    if said.keys() == {"anyOf"}:
        return reduce(or_, [_type(one, root, above) for one in said["anyOf"]])
    if "enum" in said and said.keys() <= {"enum", "type"}:
        return _values(said)
    kind = said.pop("type", None)
    if kind == "object":
        return _object(said, root, above)
    if not isinstance(kind, str):
        raise NoShortWay
    return _limited(kind, said, root, above)


def _referred(reference: str, root: Mapping[str, Any], above: tuple[str, ...]) -> Any:
    start, _, name = reference.rpartition("/")
    shared = root.get("$defs", {})
    if start != "#/$defs" or name not in shared or reference in above:  # one that holds itself would never end
        raise NoShortWay
    return _type(shared[name], root, (*above, reference))


def _values(said: Mapping[str, Any]) -> Any:
    members = said["enum"]
    exact = {"integer": int, "string": str, "boolean": bool}.get(said.get("type", ""), object)
    if "type" in said and not all(type(one) is exact for one in members):
        raise NoShortWay
    return Literal[tuple(members)]


def _limited(kind: str, said: dict[str, Any], root: Mapping[str, Any], above: tuple[str, ...]) -> Any:
    items = _type(said.pop("items", True), root, above) if kind == "array" else None
    one = list[items] if kind == "array" else _TYPES[kind]  # type: ignore[valid-type]  # a type made at run time
    limits = _LIMITS[kind]
    if said.keys() - limits.keys():
        raise NoShortWay
    return Annotated[one, msgspec.Meta(**{limits[key]: argument for key, argument in said.items()})] if said else one


def _object(said: dict[str, Any], root: Mapping[str, Any], above: tuple[str, ...]) -> Any:
    properties, others = said.pop("properties", {}), said.pop("additionalProperties", True)
    required = said.pop("required", [])
    if said or ((properties or required) and others is not False) or set(required) - properties.keys():
        raise NoShortWay
    if others is not False:
        values = _type(others, root, above)
        return dict[str, values]  # type: ignore[valid-type]  # a type made at run time
    fields: list[Any] = []
    for place, (name, one) in enumerate(properties.items()):
        kind = _type(one, root, above)
        needed = name in required
        fields.append((f"f{place}", kind) if needed else (f"f{place}", kind | msgspec.UnsetType, msgspec.UNSET))
    return msgspec.defstruct(
        "Arguments",
        fields,
        kw_only=True,
        forbid_unknown_fields=True,
        rename={f"f{place}": name for place, name in enumerate(properties)},
    )
