"""Classes as JSON Schema: each described once, by its own name, and closed."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
from typing import (
    Any,
    Generic,
    Literal,
    NamedTuple,
    NotRequired,
    Required,
    TypedDict,
    TypeVar,
)

import attrs
import msgspec
import pytest

from loopmachine.tools.types import NoSchema, Types, read_model

T = TypeVar("T")


class Size(enum.Enum):
    """How large."""

    LARGE = 3
    SMALL = 1


class Mood(enum.StrEnum):
    UP = "z"
    DOWN = "a"
    HIGH = "z"


@dataclasses.dataclass
class Person:
    """Somebody."""

    name: str
    born: datetime.date | None = None
    kids: list[Person] = dataclasses.field(default_factory=list)
    mood: Literal["z", "a"] = "z"
    tags: list[str] = dataclasses.field(default_factory=lambda: ["new"])


@dataclasses.dataclass
class Pair:
    left: int
    right: int


@attrs.frozen
class Box:
    width: float
    kept: set[int] = attrs.field(factory=set)


class Circle(msgspec.Struct, tag="circle"):
    r: int


class Square(msgspec.Struct, tag="square"):
    a: int


class Row(msgspec.Struct, array_like=True):
    first: int
    second: str = "x"


class Renamed(msgspec.Struct, rename="camel"):
    some_name: int


class Movie(TypedDict):
    year: int
    cast: NotRequired[list[str]]


class Old(TypedDict, total=False):
    zed: int
    also: Required[str]


class Point(NamedTuple):
    x: int
    y: int = 0


class Holder(msgspec.Struct, Generic[T]):
    held: T


class Model:
    """Gives schemas and reads JSON in pydantic's words."""

    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    def model_json_schema(cls, ref_template: str) -> dict[str, Any]:
        """What pydantic writes for a model with a nested one."""
        return {
            "title": "Model",
            "type": "object",
            "properties": {"name": {"$ref": ref_template.format(model="Name")}, "more": {"default": {"properties": 1}}},
            "$defs": {"Name": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}},
        }

    @classmethod
    def model_validate_json(cls, text: bytes) -> Model:
        """Raises as pydantic does, in two ways."""
        name = json.loads(text)["name"]["text"]
        if name == "told":
            raise Told
        if name == "bad":
            raise ValueError("not that one")
        return cls(name)


class Told(ValueError):
    """Knows what is wrong, as pydantic's errors do."""

    def errors(self) -> list[dict[str, Any]]:
        """Where and why."""
        return [{"loc": ("name", "text"), "msg": "too old"}, {"loc": (), "msg": "no good"}]


class Clash:
    """Another model whose parts have the same names."""

    @classmethod
    def model_json_schema(cls, ref_template: str) -> dict[str, Any]:
        """Its part is another one."""
        return {"type": "object", "$defs": {"Name": {"type": "null"}}}

    @classmethod
    def model_validate_json(cls, text: bytes) -> Clash:
        """Takes anything."""
        return cls()


DAY = {"type": "string", "format": "date"}
RECORDS: dict[str, dict[str, Any]] = {
    "Person": {
        "type": "object",
        "description": "Somebody.",
        "properties": {
            "name": {"type": "string"},
            "born": {"anyOf": [DAY, {"type": "null"}], "default": None},
            "kids": {"type": "array", "items": {"$ref": "#/$defs/Person"}, "default": []},
            "mood": {"type": "string", "enum": ["z", "a"], "default": "z"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
    "Box": {
        "type": "object",
        "properties": {
            "width": {"type": "number"},
            "kept": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "default": []},
        },
        "required": ["width"],
        "additionalProperties": False,
    },
    "Circle": {
        "type": "object",
        "properties": {"type": {"type": "string", "enum": ["circle"]}, "r": {"type": "integer"}},
        "required": ["type", "r"],
        "additionalProperties": False,
    },
    "Renamed": {
        "type": "object",
        "properties": {"someName": {"type": "integer"}},
        "required": ["someName"],
        "additionalProperties": False,
    },
    "Movie": {
        "type": "object",
        "properties": {"year": {"type": "integer"}, "cast": {"type": "array", "items": {"type": "string"}}},
        "required": ["year"],
        "additionalProperties": False,
    },
    "Old": {
        "type": "object",
        "properties": {"zed": {"type": "integer"}, "also": {"type": "string"}},
        "required": ["also"],
        "additionalProperties": False,
    },
    "Point": {
        "type": "array",
        "prefixItems": [{"type": "integer"}, {"type": "integer", "default": 0}],
        "minItems": 1,
        "maxItems": 2,
    },
    "Row": {
        "type": "array",
        "prefixItems": [{"type": "integer"}, {"type": "string", "default": "x"}],
        "minItems": 1,
        "maxItems": 2,
    },
    "Holder": {
        "type": "object",
        "properties": {"held": {"type": "integer"}},
        "required": ["held"],
        "additionalProperties": False,
    },
}


@pytest.mark.parametrize("cls", [Person, Box, Circle, Renamed, Movie, Old, Point, Row, Holder[int]])
def test_a_class_stands_among_the_shared_schemas(cls: Any) -> None:
    """A class is described once, fields in source order with their defaults, and takes no other names."""
    types = Types()
    name = types.schema(cls)["$ref"].removeprefix("#/$defs/")
    assert json.dumps(types.defs) == json.dumps({name: RECORDS[name]})


def test_two_classes_of_one_name_get_two() -> None:
    """Classes that happen to have the same name don't share a schema, and one class is never described twice."""

    def made() -> Any:
        return dataclasses.make_dataclass("Pair", [("only", str)])

    types = Types()
    first, second = made(), made()
    names = [types.schema(cls)["$ref"] for cls in (Pair, first, second, Pair)]
    assert names == ["#/$defs/Pair", "#/$defs/Pair_2", "#/$defs/Pair_3", "#/$defs/Pair"]


def test_a_class_may_hold_another_of_its_name() -> None:
    """A class is not taken for the one of the same name that it holds."""
    types = Types()
    types.schema(dataclasses.make_dataclass("Pair", [("inner", Pair)]))
    assert {name: list(one["properties"]) for name, one in types.defs.items()} == {
        "Pair": ["inner"],
        "Pair_2": ["left", "right"],
    }


def test_a_model_that_describes_itself_is_taken_at_its_word() -> None:
    """A pydantic model's own schema is used, its objects closed, its parts shared; it reads its own JSON."""
    types = Types()
    schema = types.schema(list[Model])
    assert schema == {
        "type": "array",
        "items": {
            "title": "Model",
            "type": "object",
            "properties": {"name": {"$ref": "#/$defs/Name"}, "more": {"default": {"properties": 1}}},
            "additionalProperties": False,
        },
    }
    assert types.defs == {
        "Name": {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
            "additionalProperties": False,
        }
    }
    typed = msgspec.json.decode('[{"name":{"text":"x"}}]', type=list[Model], dec_hook=read_model)
    assert [one.name for one in typed] == ["x"]


@pytest.mark.parametrize(
    ("name", "told"),
    [("told", "name.text: too old; no good - at `$[0]`"), ("bad", "not that one - at `$[0]`")],
)
def test_what_a_model_refuses_is_told_in_its_words(name: str, told: str) -> None:
    """A model's errors are told one after the other, with their places."""
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(json.dumps([{"name": {"text": name}}]), type=list[Model], dec_hook=read_model)
    assert str(caught.value) == told


def test_what_takes_anything_is_read_as_it_is() -> None:
    """A value for which no model is wanted is not touched."""
    value = [1]
    assert read_model(object, value) is value


def test_parts_of_two_models_with_one_name_are_told() -> None:
    """Two models whose parts share a name but not a schema can't be offered together."""
    types = Types()
    types.schema(Model)
    with pytest.raises(NoSchema, match="two types are named Name; rename one"):
        types.schema(Clash)
    assert isinstance(read_model(Clash, {}), Clash)
