"""From Python types to JSON Schema, over what msgspec says of them.

Unlike msgspec's own schemas: values keep the order of the source, names that are not known are refused (msgspec
would drop them without a word), a ``datetime`` has a zone, and an enum has its type.
"""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, Literal
from typing import Final as Constant

import attrs
import msgspec
from msgspec import inspect as mi

Schema = dict[str, Any]

_LEAVES: Constant[dict[type[mi.Type], Schema]] = {
    mi.AnyType: {},
    mi.NoneType: {"type": "null"},
    mi.BoolType: {"type": "boolean"},
    mi.IntType: {"type": "integer"},
    mi.FloatType: {"type": "number"},
    mi.StrType: {"type": "string"},
    mi.BytesType: {"type": "string", "contentEncoding": "base64"},
    mi.ByteArrayType: {"type": "string", "contentEncoding": "base64"},
    mi.DateType: {"type": "string", "format": "date"},
    mi.TimeDeltaType: {"type": "string", "format": "duration"},
    mi.UUIDType: {"type": "string", "format": "uuid"},
    mi.DecimalType: {"type": "string", "format": "decimal"},
}
_LIMITS: Constant[dict[str, dict[str, str]]] = {
    "integer": {
        "ge": "minimum",
        "gt": "exclusiveMinimum",
        "le": "maximum",
        "lt": "exclusiveMaximum",
        "multiple_of": "multipleOf",
    },
    "string": {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
}
_LIMITS["number"] = _LIMITS["integer"]
_TYPE_NAMES: Constant = {str: "string", int: "integer", bool: "boolean"}


class NoSchema(TypeError):
    """A type that no JSON Schema describes; the sentence says which and what to write instead."""


@attrs.define
class Types:
    """Makes the schemas of several types; classes that they share stand in ``defs``, to be referred to."""

    defs: dict[str, Schema] = attrs.field(factory=dict)
    _names: dict[Any, str] = attrs.field(factory=dict)
    _orders: dict[frozenset[tuple[type, Any]], tuple[Any, ...]] = attrs.field(factory=dict)

    def schema(self, hint: Any) -> Schema:
        """The schema of a type hint. Raises NoSchema."""
        try:
            info = mi.type_info(hint)
            for values in literals(hint, set()):
                self._orders.setdefault(_as_set(values), values)
        except Exception as error:  # also names that a class's own hints don't find
            raise NoSchema(f"{error}".replace("\n", " ")) from error
        return self._of(info)

    def _of(self, info: mi.Type) -> Schema:
        if isinstance(info, mi.Metadata):
            return {**self._of(info.type), **(info.extra_json_schema or {})}
        if isinstance(info, mi.UnionType):
            return {"anyOf": [self._of(one) for one in info.types]}
        if isinstance(info, mi.LiteralType):
            return _enum(self._orders.get(_as_set(info.values), info.values))
        if isinstance(info, mi.EnumType):
            return _enum([member.value for member in info.cls], _doc(info.cls))
        if isinstance(info, mi.DictType):
            return self._dict(info)
        if isinstance(info, mi.CollectionType):
            unique = {"uniqueItems": True} if isinstance(info, mi.SetType | mi.FrozenSetType) else {}
            return _limited({"type": "array", "items": self._of(info.item_type), **unique}, info)
        if isinstance(info, mi.TupleType):
            return _row([self._of(one) for one in info.item_types], len(info.item_types))
        if isinstance(info, _RECORDS):
            return self._referred(info)
        return _limited(dict(self._leaf(info)), info)

    def _leaf(self, info: mi.Type) -> Schema:
        if isinstance(info, mi.DateTimeType):
            return {"type": "string"} if info.tz is False else {"type": "string", "format": "date-time"}
        if isinstance(info, mi.TimeType):
            return {"type": "string", "format": "time" if info.tz else "partial-time"}
        if isinstance(info, mi.CustomType):
            return self._custom(info.cls)
        if type(info) not in _LEAVES:
            raise NoSchema(f"a value of {type(info).__name__.removesuffix('Type').lower()} can't be written as JSON")
        return _LEAVES[type(info)]

    def _custom(self, cls: Any) -> Schema:
        if cls is object:
            return {}
        if not is_model(cls):
            raise NoSchema(f"{getattr(cls, '__name__', cls)} has no JSON Schema; use a dataclass, or a type of JSON")
        schema: Schema = _closed(cls.model_json_schema(ref_template="#/$defs/{model}"))
        for name, shared in schema.pop("$defs", {}).items():
            if self.defs.setdefault(name, shared) != shared:
                raise NoSchema(f"two types are named {name}; rename one")
        return schema

    def _dict(self, info: mi.DictType) -> Schema:
        names = self._of(info.key_type)
        if "$ref" in names or names.get("type") in ("array", "object", "boolean", "null"):
            raise NoSchema("the names in an object are text or numbers")
        values = self._of(info.value_type)
        schema: Schema = {"type": "object", **({"additionalProperties": values} if values else {})}
        if names.pop("type", "string") == "string" and names:  # other keys are read from text by msgspec
            schema["propertyNames"] = names
        return _limited(schema, info)

    def _referred(self, info: Record) -> Schema:
        """A class by reference, so that it may hold itself."""
        name = self._names.get(info.cls)
        if name is None:
            name = self._names[info.cls] = self._free_name(info.cls)
            self.defs[name] = {}  # holds the place
            self.defs[name] = self._record(info)
        return {"$ref": f"#/$defs/{name}"}

    def _free_name(self, cls: Any) -> str:
        stem = re.sub(r"\W+", "_", getattr(cls, "__name__", None) or str(cls))
        number = 1
        while (name := f"{stem}_{number}" if number > 1 else stem) in self.defs:
            number += 1
        return name

    def _record(self, info: Record) -> Schema:
        fields = {field.encode_name: self._field(field) for field in _in_order(info)}
        required = [field.encode_name for field in _in_order(info) if field.required]
        if isinstance(info, mi.StructType) and info.tag_field is not None:
            fields = {info.tag_field: _enum([info.tag]), **fields}
            required.insert(0, info.tag_field)
        if isinstance(info, mi.NamedTupleType) or (isinstance(info, mi.StructType) and info.array_like):
            return _row(list(fields.values()), len(required))
        return {
            "type": "object",
            **_doc(info.cls),
            "properties": fields,
            "required": required,
            "additionalProperties": False,
        }

    def _field(self, field: mi.Field) -> Schema:
        if field.default is not msgspec.NODEFAULT:
            return {**self._of(field.type), **default(field.default)}
        if field.default_factory in (list, dict, set):
            return {**self._of(field.type), **default(field.default_factory())}
        return self._of(field.type)


Record = mi.StructType | mi.TypedDictType | mi.DataclassType | mi.NamedTupleType
_RECORDS = (mi.StructType, mi.TypedDictType, mi.DataclassType, mi.NamedTupleType)


def _in_order(info: Record) -> Iterable[mi.Field]:
    """The fields in the order of the source; msgspec sorts those of a TypedDict."""
    if not isinstance(info, mi.TypedDictType):
        return info.fields
    order = list(getattr(info.cls, "__origin__", info.cls).__annotations__)
    return sorted(info.fields, key=lambda field: order.index(field.name))


def _limited(schema: Schema, info: mi.Type) -> Schema:
    for limit, keyword in _LIMITS.get(schema.get("type", ""), {}).items():
        value = getattr(info, limit, None)
        if value is not None:
            schema[keyword] = 4 * ((value + 2) // 3) if "contentEncoding" in schema else value
    return schema


def _row(places: list[Schema], least: int) -> Schema:
    """A list with a meaning at each place."""
    first = {"prefixItems": places} if places else {}
    return {"type": "array", **first, "minItems": least, "maxItems": len(places)}


def _enum(values: Iterable[Any], notes: Mapping[str, Any] | None = None) -> Schema:
    members = list(values)
    kinds = {_TYPE_NAMES.get(type(member)) for member in members}
    kind = kinds.pop() if len(kinds) == 1 else None
    return {**({"type": kind} if kind else {}), "enum": members, **(notes or {})}


def _as_set(values: Iterable[Any]) -> frozenset[tuple[type, Any]]:
    return frozenset((type(value), value) for value in values)  # 1 and True are not the same


def _doc(cls: Any) -> dict[str, str]:
    """The description that a class was given, not the one that dataclasses write."""
    text = getattr(cls, "__dict__", {}).get("__doc__") or ""
    name = getattr(cls, "__name__", "")
    written = text.strip() and not text.startswith(f"{name}(") and text != "An enumeration."
    return {"description": " ".join(text.split())} if written else {}


def literals(hint: Any, seen: set[Any]) -> Iterator[tuple[Any, ...]]:
    """The values of each Literal in a type and in the classes that it names, in the order of the source."""
    if typing.get_origin(hint) is Literal:
        yield typing.get_args(hint)
        return
    for part in typing.get_args(hint):
        yield from literals(part, seen)
    cls = typing.get_origin(hint) or hint
    if isinstance(cls, type) and cls not in seen and not issubclass(cls, Enum) and cls.__module__ != "builtins":
        seen.add(cls)
        for part in typing.get_type_hints(cls, include_extras=True).values():
            yield from literals(part, seen)


def is_model(cls: Any) -> bool:
    """Whether a class is one of pydantic's, or gives schemas and reads JSON in the same words."""
    return hasattr(cls, "model_json_schema") and hasattr(cls, "model_validate_json")


def _closed(schema: Any) -> Any:
    """The schema, its objects without names that are not known, unless it says otherwise."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    values = ("default", "examples", "enum", "const")
    closed = {key: one if key in values else _closed(one) for key, one in schema.items()}
    if "properties" in closed:
        closed.setdefault("additionalProperties", False)
    return closed


def default(value: Any) -> dict[str, Any]:
    """``default`` for a schema; nothing where the value is no JSON, such as a sentinel or NaN."""
    try:
        plain = msgspec.to_builtins(value, str_keys=True)
        json.dumps(plain, allow_nan=False)
        return {"default": plain}
    except Exception:
        return {}


def read_model(cls: Any, value: Any) -> Any:
    """A pydantic model of plain JSON, for msgspec's ``dec_hook``. Raises ValueError in the model's words."""
    if not is_model(cls):
        return value
    try:
        return cls.model_validate_json(msgspec.json.encode(value))
    except ValueError as error:
        if not hasattr(error, "errors"):
            raise
        told = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}".removeprefix(": ") for one in error.errors()]
        raise ValueError("; ".join(told)) from error
