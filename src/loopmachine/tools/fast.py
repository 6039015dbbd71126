"""The short way for arguments that need no coercion: a schema as a msgspec type, read in one pass.

What msgspec does not check exactly as ``nodes`` does is a piece, which its node checks in that same pass.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal
from typing import Final as Constant

import msgspec
from msgspec import Struct

from loopmachine.tools.compiling import NOTES
from loopmachine.tools.nodes import Examination, Node
from loopmachine.tools.numerals import broken
from loopmachine.tools.standins import StandIn, hook

_LIMITS: Constant[dict[str, dict[str, str]]] = {
    "integer": {"minimum": "ge", "maximum": "le", "exclusiveMinimum": "gt", "exclusiveMaximum": "lt"},
    "number": {},
    "boolean": {},
    "null": {},
    "string": {"minLength": "min_length", "maxLength": "max_length"},
    "array": {"minItems": "min_length", "maxItems": "max_length"},
}
_TYPES: Constant[dict[str, Any]] = {
    "integer": int,
    "number": int | float,
    "boolean": bool,
    "null": None,
    "string": str,
}


class _Hard(Exception):
    """What msgspec would check in another way, or not at all."""


class Piece(Struct, frozen=True):
    """A part of a schema that its node checks."""

    node: Node

    def read(self, value: Any, look: Examination) -> Any:
        """The value as the schema takes it, not coerced."""
        taken, faults = look.at(self.node, value)
        if faults:
            raise ValueError
        return taken


def reader(schema: Mapping[str, Any], node: Callable[[Any], Node]) -> msgspec.json.Decoder[Any]:
    """A decoder that accepts only what the schema accepts; encoding what it gives leaves out what was not given.

    It does not see names that are given twice. ``node`` gives the nodes of the schema's parts.
    """
    return msgspec.json.Decoder(_Types(schema, node).of(schema), dec_hook=hook, float_hook=broken)


class _Types(Struct, frozen=True):
    """Makes the types of one schema's parts."""

    root: Mapping[str, Any]
    node: Callable[[Any], Node]

    def of(self, schema: Any, above: tuple[str, ...] = ()) -> Any:
        """The type that takes what the schema takes."""
        try:
            made = self._plain(schema, above)
            msgspec.json.Decoder(made, dec_hook=hook)  # it says what it can't read
            return made
        except (_Hard, TypeError, ValueError, NotImplementedError):
            return StandIn("Piece", Piece(self.node(schema)))

    def _plain(self, schema: Any, above: tuple[str, ...]) -> Any:
        if schema is False:
            raise _Hard
        said = {} if schema is True else {key: argument for key, argument in schema.items() if key not in NOTES}
        if not said:
            return Any
        if said.keys() == {"$ref"}:
            return self._referred(said["$ref"], above)
        if said.keys() == {"anyOf"}:
            return reduce(or_, [self.of(one, above) for one in said["anyOf"]])
        if "enum" in said and said.keys() <= {"enum", "type"}:
            return _values(said)
        kind = said.pop("type", None)
        if kind == "object":
            return self._object(said, above)
        if not isinstance(kind, str):
            raise _Hard
        return self._limited(kind, said, above)

    def _referred(self, reference: str, above: tuple[str, ...]) -> Any:
        start, _, name = reference.rpartition("/")
        shared = self.root.get("$defs", {})
        if start != "#/$defs" or name not in shared or reference in above:  # one that holds itself would never end
            raise _Hard
        return self._plain(shared[name], (*above, reference))

    def _limited(self, kind: str, said: dict[str, Any], above: tuple[str, ...]) -> Any:
        if (kind, said) == ("string", {"format": "date"}):  # the one format that msgspec writes as it was
            return datetime.date
        one = _TYPES.get(kind)
        if kind == "array":
            one = list[self.of(said.pop("items", True), above)]  # type: ignore[misc]  # a type made at run time
        limits = _LIMITS[kind]
        if said.keys() - limits.keys():
            raise _Hard
        metas = {limits[key]: argument for key, argument in said.items()}
        return Annotated[one, msgspec.Meta(**metas)] if said else one

    def _object(self, said: dict[str, Any], above: tuple[str, ...]) -> Any:
        properties, others = said.pop("properties", {}), said.pop("additionalProperties", True)
        required = said.pop("required", [])
        if said or ((properties or required) and others is not False) or set(required) - properties.keys():
            raise _Hard
        if others is not False:
            return dict[str, self.of(others, above)]  # type: ignore[misc]  # a type made at run time
        fields: list[Any] = []
        for place, (name, one) in enumerate(properties.items()):
            kind = self.of(one, above)
            needed = name in required
            fields.append((f"f{place}", kind) if needed else (f"f{place}", kind, msgspec.UNSET))
        return msgspec.defstruct(
            "Arguments",
            fields,
            kw_only=True,
            forbid_unknown_fields=True,
            rename={f"f{place}": name for place, name in enumerate(properties)},
        )


def _values(said: Mapping[str, Any]) -> Any:
    members = said["enum"]
    exact = {"integer": int, "string": str, "boolean": bool}.get(said.get("type", ""), object)
    if "type" in said and not all(type(one) is exact for one in members):
        raise _Hard
    return Literal[tuple(members)]
