"""From Python types to JSON Schema, over what msgspec says of their shapes.

Unlike msgspec's own schemas: values keep the order of the source, names that are not known are refused (msgspec
would drop them without a word), a ``datetime`` and a ``time`` have a zone unless the hint says that they have none
(``Meta(tz=False)``, ``Timezone(None)``, pydantic's ``NaiveDatetime``), a ``timedelta`` takes weeks, and an enum has its
type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any
from typing import Final as Constant

from msgspec import NODEFAULT
from msgspec import inspect as mi

from loopmachine.tools.compiling import LIMITS, Compiler, compiled
from loopmachine.tools.makers import Alias, Duration, Forms, Model, Record, Tested, Values, unlimited
from loopmachine.tools.modelling import branches, closed, described, renamed
from loopmachine.tools.nodes import Node, accepts
from loopmachine.tools.notes import NoSchema, refused
from loopmachine.tools.shapes import Shapes, as_set, bare, holds, plain, within
from loopmachine.tools.standins import StandIn
from loopmachine.tools.texts import parsed, written

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
    "string": {"min_length": "minLength", "max_length": "maxLength"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
}
_LIMITS["number"] = _LIMITS["integer"]
_TYPE_NAMES: Constant = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    list: "array",
}
_DEFS: Constant = "#/$defs/"
#: How numbers are written that are names in an object; each whole one in one way.
_NAMES: Constant = {
    "integer": "^(0|-?[1-9][0-9]*)$",
    "number": r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$",
}


class Types:
    """Makes the shapes and schemas of several types; classes that they share stand in ``defs``, to be referred to.

    ``names``: where the hints of local classes are looked up.
    """

    def __init__(self, names: Mapping[str, Any] = MappingProxyType({})) -> None:
        self.defs: dict[str, Schema] = {}
        self._models: dict[int, Schema] = {}
        self._known: dict[int, str] = {}  #: the name in ``defs`` of what a stand-in stands for
        self._judged: list[Schema] = []
        self._compiler = Compiler({"$defs": self.defs})  #: one for all unions: what one finds of a value others know
        self._shapes = Shapes(names)

    def shape(self, hint: Any, default: Any = NODEFAULT) -> Any:
        """What msgspec is to read for a type hint, and None too where that is the default. Raises NoSchema."""
        try:
            return self._shapes.field(hint, default)
        except NoSchema:
            raise
        except Exception as error:
            raise refused(error) from error

    def schema(self, shape: Any) -> Schema:
        """The schema of a shape. Raises NoSchema."""
        try:
            return self._of(mi.type_info(shape))
        except NoSchema:
            raise
        except Exception as error:
            raise refused(error) from error

    def told(self, shape: Any, text: str, default: Any) -> Schema:
        """What a model is told of a parameter or field: a text, unless the hint has one; a default, if it fits."""
        made, info = self.schema(shape), mi.type_info(_untested(shape))
        own = (info.extra_json_schema or {}).get("description") if isinstance(info, mi.Metadata) else None
        described = {"description": own or text} if own or text else {}
        written = plain(default)
        fitting = written is not NODEFAULT and holds(shape, default) and accepts(self._node(made), written)
        return described | made | described | ({"default": written} if fitting else {})

    def finish(self) -> None:
        """Make unions ready to read values. To be called last, as their schemas may refer to any other."""
        for forms in self._shapes.unions:
            schemas = [self.schema(shape) for shape in forms.shapes]
            self._judged += schemas  # an id is a schema's own only while that lives
            forms.nodes[:] = [self._compiler.node(schema) for schema in schemas]

    def _node(self, schema: Schema) -> Node:
        return compiled({**schema, "$defs": self.defs})[0]

    def _of(self, info: mi.Type) -> Schema:
        if isinstance(info, mi.Metadata):
            more = info.extra_json_schema or {}
            limits = {keyword: more[keyword] for keyword in ("pattern", "multipleOf") if keyword in more}
            return self._of(info.type) | limits | more
        if isinstance(info, mi.UnionType):
            return {"anyOf": [self._of(one) for one in info.types]}
        if isinstance(info, mi.LiteralType):
            return _enum(self._shapes.orders.get(as_set(info.values), info.values))
        if isinstance(info, mi.EnumType):
            return _enum((member.value for member in info.cls), info.cls)
        if isinstance(info, mi.DictType):
            return self._dict(info)
        if isinstance(info, mi.CollectionType):
            return self._collection(info)
        if isinstance(info, mi.TupleType):
            return _row([self._of(one) for one in info.item_types], len(info.item_types))
        if isinstance(info, mi.CustomType):
            return self._custom(info.cls)
        return _limited(dict(_leaf(info)), info)

    def _custom(self, cls: Any) -> Schema:
        kind = cls.kind if isinstance(cls, StandIn) else None
        if isinstance(kind, Duration):
            return {"type": "string", "format": "day-time-duration"}
        if isinstance(kind, Record):
            return self._referred(kind, kind.cls.__name__, lambda: self._record(kind))
        if isinstance(kind, Alias):
            return self._referred(kind, kind.name, lambda: self.schema(kind.shape))
        if isinstance(kind, Tested):
            return self.schema(kind.shape)
        if isinstance(kind, Forms):
            return {"anyOf": [self.schema(one) for one in kind.shapes]}
        if isinstance(kind, Values):
            return _enum(kind.values, kind.hint)
        if isinstance(kind, Model):
            return self._model(kind)
        raise NoSchema(
            f"{getattr(cls, '__name__', cls)} has no JSON Schema: it is no dataclass, TypedDict or NamedTuple, "
            "and no class of attrs, msgspec or pydantic",
            "make it one of these, or take what it is made of, and make it in the tool",
        )

    def _collection(self, info: mi.CollectionType) -> Schema:
        unique = isinstance(info, mi.SetType | mi.FrozenSetType)
        if unique and _unhashable(info.item_type):
            raise NoSchema("a set can't hold what has no hash", "take a list, or make the class frozen")
        schema = {"type": "array", "items": self._of(info.item_type), **({"uniqueItems": True} if unique else {})}
        return _limited(schema, info)

    def _dict(self, info: mi.DictType) -> Schema:
        names, values = _names(self._of(info.key_type), _is_read_as_text(info.key_type)), self._of(info.value_type)
        schema: Schema = {"type": "object", **({"additionalProperties": values} if values else {})}
        return _limited(schema | ({"propertyNames": names} if names else {}), info)

    def _model(self, model: Model) -> Schema:
        """A model's own schema. Its parts go by other names than it gives them where those are taken."""
        if id(model) not in self._models:
            schema: Schema = closed(described(model.adapter, f"{_DEFS}{{model}}"))
            parts = schema.pop("$defs", {})
            if branches(schema, parts):
                raise NoSchema(
                    "pydantic tries every model of a union at every level, and this one holds itself",
                    "tell its models apart with Field(discriminator=...), or take dataclasses",
                )
            taken = any(self.defs.get(name, part) != part for name, part in parts.items())
            names: dict[str, str] = {}
            for name in parts:
                names[_DEFS + name] = _DEFS + (new := self._free_name(name) if taken else name)
                self.defs.setdefault(new, {})  # holds the place
            self.defs |= {names[_DEFS + name].removeprefix(_DEFS): renamed(part, names) for name, part in parts.items()}
            self._models[id(model)] = renamed(schema, names)
        return self._models[id(model)]

    def _referred(self, kind: Any, stem: str, make: Callable[[], Schema]) -> Schema:
        """A type by reference, so that it may hold itself."""
        name = self._known.get(id(kind))
        if name is None:
            name = self._known[id(kind)] = self._free_name(re.sub(r"\W+", "_", stem))
            self.defs[name] = {}  # holds the place
            self.defs[name] = make()
        return {"$ref": f"{_DEFS}{name}"}

    def _free_name(self, stem: str) -> str:
        number = 1
        while (name := f"{stem}_{number}" if number > 1 else stem) in self.defs:
            number += 1
        return name

    def _record(self, record: Record) -> Schema:
        description, texts = _said_of(record.cls)
        fields = {}
        for one in record.fields:
            with within(f"{record.cls.__name__}.{one.name}"):
                fields[one.name] = self.told(one.shape, texts.get(one.argument, ""), one.default)
        required = [one.name for one in record.fields if one.required]
        if record.listed:
            places = [{"title": name} | told for name, told in fields.items()]
            return _row(places, len(required)) | description
        return {
            "type": "object",
            **description,
            "properties": fields,
            "required": required,
            "additionalProperties": False,
        }


def _untested(shape: Any) -> Any:
    """A shape without the tests that its values must pass."""
    return shape.kind.shape if isinstance(shape, StandIn) and isinstance(shape.kind, Tested) else shape


def _leaf(info: mi.Type) -> Schema:
    if isinstance(info, mi.DateTimeType):
        return {"type": "string", "format": "date-time-local" if info.tz is False else "date-time"}
    if isinstance(info, mi.TimeType):
        return {"type": "string", "format": "partial-time" if info.tz is False else "time"}
    if type(info) not in _LEAVES:
        raise NoSchema(f"a value of {type(info).__name__.removesuffix('Type').lower()} can't be written as JSON")
    return _LEAVES[type(info)]


def _limited(schema: Schema, info: mi.Type) -> Schema:
    for limit, keyword in _LIMITS.get(schema.get("type", ""), {}).items():
        value = getattr(info, limit, None)
        if value is not None:
            schema[keyword] = 4 * ((value + 2) // 3) if "contentEncoding" in schema else value
    return schema


def _unhashable(info: mi.Type) -> bool:
    held = info.cls.kind if isinstance(info, mi.CustomType) and isinstance(info.cls, StandIn) else None
    if isinstance(held, Tested):
        return _unhashable(mi.type_info(unlimited(held.shape)))
    return isinstance(info, mi.ListType | mi.SetType | mi.DictType) or getattr(held, "cls", int).__hash__ is None


def _is_read_as_text(info: mi.Type) -> bool:
    """Whether a name in an object stays text when it is read; from what msgspec knows it reads numbers too."""
    return isinstance(bare(info), mi.CustomType)


def _names(schema: Schema, as_text: bool) -> Schema:
    """The schema of the names in an object; those that are no text are read from it, unless they stay text."""
    if "anyOf" in schema:  # no name is null
        return schema | {"anyOf": [_names(one, as_text) for one in schema["anyOf"] if one.get("type") != "null"]}
    schema = dict(schema)  # that of a model is not made anew
    kind, values = schema.pop("type", None), schema.pop("enum", [])
    written = [str(one) for one in values if type(one) in (str, int)]
    if len({*written}) < len(values):
        raise NoSchema("not each of its values has a name of its own in an object", "take text, or whole numbers")
    if kind in ("array", "object", "boolean", "null") or "$ref" in schema:
        raise NoSchema("the names in an object are text or numbers")
    if as_text and (kind in _NAMES or int in map(type, values)):
        why = "such a number can't be read from the names in an object"
        raise NoSchema(why, "take a plain one, and check it in the tool")
    if kind not in _NAMES or values:
        return ({"enum": written} if values else {}) | schema
    if kind == "number" and "multipleOf" in schema:
        raise NoSchema("multiples can't be told of the names in an object", "check them in the tool")
    limits = [LIMITS[key][2].format(schema.pop(key)) for key in LIMITS if key in schema]
    told = f"{schema.get('description', '')} {', '.join(limits)}".strip()  # of what is text, limits are but words
    return schema | {"pattern": _NAMES[kind]} | ({"description": told} if told else {})


def _row(places: list[Schema], least: int) -> Schema:
    """A list with a meaning at each place."""
    first = {"prefixItems": places} if places else {}
    return {"type": "array", **first, "minItems": least, "maxItems": len(places)}


def _enum(values: Iterable[Any], cls: Any = None) -> Schema:
    members = list(values)
    kinds = {_TYPE_NAMES.get(type(member)) for member in members}
    kind = "number" if kinds == {"integer", "number"} else kinds.pop() if len(kinds) == 1 else None
    return {**({"type": kind} if kind else {}), "enum": members, **_said_of(cls)[0]}


def _said_of(cls: Any) -> tuple[dict[str, str], dict[str, str]]:
    """The description that a class was given, and the texts of its fields."""
    description, texts = parsed(written(cls))
    return {"description": " ".join(description.split())} if description else {}, texts
