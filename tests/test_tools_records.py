"""Classes as JSON Schema: each described once, by its own name, and closed."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
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
import pydantic
import pytest
from jsonschema import Draft202012Validator

from loopmachine.tools.signature import of_function
from loopmachine.tools.types import Types

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


@dataclasses.dataclass
class Told:
    """Says what its fields are.

    Attributes:
        first: the first,
            from 1
        second: overruled
        third: the third
    """

    first: int
    second: Annotated[int, "the second"]
    third: Size = Size.LARGE


@dataclasses.dataclass(kw_only=True)
class Made:
    """What its constructor takes is not what it has."""

    area: float = dataclasses.field(init=False)
    side: Final[float] = 1.0
    scale: dataclasses.InitVar[float] = 2.0
    kept: ClassVar[int] = 3
    name: str

    def __post_init__(self, scale: float) -> None:
        self.area = self.side * scale


def stripped(text: str) -> str:
    """Without the space around it."""
    return text.strip()


@attrs.define
class Strict:
    _tag: str = attrs.field(converter=stripped)
    n: int = attrs.field(default=1, validator=attrs.validators.gt(0))
    twice: int = attrs.field(default=attrs.Factory(lambda self: 2 * self.n, takes_self=True), alias="double")


class Tick(msgspec.Struct, tag=3, tag_field="kind"):
    at: float | msgspec.UnsetType = msgspec.UNSET
    notes: list[str] = []


class Base(TypedDict, Generic[T]):
    base: T


class Below(Base[list[T]], total=False):
    below: T


@dataclasses.dataclass
class Upper(Generic[T]):
    first: T
    rest: list[T]


@dataclasses.dataclass
class Lower(Upper[dict[str, T]]):
    last: T


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
        "prefixItems": [{"title": "x", "type": "integer"}, {"title": "y", "type": "integer", "default": 0}],
        "minItems": 1,
        "maxItems": 2,
    },
    "Row": {
        "type": "array",
        "prefixItems": [{"title": "first", "type": "integer"}, {"title": "second", "type": "string", "default": "x"}],
        "minItems": 1,
        "maxItems": 2,
    },
    "Holder": {
        "type": "object",
        "properties": {"held": {"type": "integer"}},
        "required": ["held"],
        "additionalProperties": False,
    },
    "Told": {
        "type": "object",
        "description": "Says what its fields are.",
        "properties": {
            "first": {"description": "the first, from 1", "type": "integer"},
            "second": {"description": "the second", "type": "integer"},
            "third": {"description": "the third", "type": "integer", "enum": [3, 1], "default": 3},
        },
        "required": ["first", "second"],
        "additionalProperties": False,
    },
    "Made": {
        "type": "object",
        "description": "What its constructor takes is not what it has.",
        "properties": {
            "side": {"type": "number", "default": 1.0},
            "scale": {"type": "number", "default": 2.0},
            "name": {"type": "string"},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
    "Strict": {
        "type": "object",
        "properties": {
            "tag": {"type": "string"},
            "n": {"type": "integer", "default": 1},
            "double": {"type": "integer"},
        },
        "required": ["tag"],
        "additionalProperties": False,
    },
    "Tick": {
        "type": "object",
        "properties": {
            "kind": {"type": "integer", "enum": [3]},
            "at": {"type": "number"},
            "notes": {"type": "array", "items": {"type": "string"}, "default": []},
        },
        "required": ["kind"],
        "additionalProperties": False,
    },
    "Below": {
        "type": "object",
        "properties": {
            "base": {"type": "array", "items": {"type": "boolean"}},
            "below": {"type": "boolean"},
        },
        "required": ["base"],
        "additionalProperties": False,
    },
    "Lower": {
        "type": "object",
        "properties": {
            "first": {"type": "object", "additionalProperties": {"type": "integer"}},
            "rest": {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "integer"}}},
            "last": {"type": "integer"},
        },
        "required": ["first", "rest", "last"],
        "additionalProperties": False,
    },
}

CLASSES = [Person, Box, Circle, Renamed, Movie, Old, Point, Row, Holder[int], Told, Made, Strict, Tick]


@pytest.mark.parametrize("cls", [*CLASSES, Below[bool], Lower[int]])
def test_a_class_stands_among_the_shared_schemas(cls: Any) -> None:
    """A class is described once, fields in source order with their texts and defaults, and takes no other names."""
    types = Types()
    name = types.schema(types.shape(cls))["$ref"].removeprefix("#/$defs/")
    Draft202012Validator.check_schema(types.defs[name])
    assert json.dumps(types.defs) == json.dumps({name: RECORDS[name]})


def test_two_classes_of_one_name_get_two() -> None:
    """Classes that happen to have the same name don't share a schema, and one class is never described twice."""

    def made() -> Any:
        return dataclasses.make_dataclass("Pair", [("only", str)])

    types = Types()
    first, second = made(), made()
    names = [types.schema(types.shape(cls))["$ref"] for cls in (Pair, first, second, Pair)]
    assert names == ["#/$defs/Pair", "#/$defs/Pair_2", "#/$defs/Pair_3", "#/$defs/Pair"]


def test_a_class_may_hold_another_of_its_name() -> None:
    """A class is not taken for the one of the same name that it holds."""
    types = Types()
    types.schema(types.shape(dataclasses.make_dataclass("Pair", [("inner", Pair)])))
    assert {name: list(one["properties"]) for name, one in types.defs.items()} == {
        "Pair": ["inner"],
        "Pair_2": ["left", "right"],
    }


def test_a_default_is_told_where_it_fits() -> None:
    """A default that is no JSON, or that the field does not take, is not told; None makes it nullable."""
    kept = [("a", int, "x"), ("b", float, float("nan")), ("c", object, object()), ("d", int, None)]
    types = Types()
    types.schema(
        types.shape(dataclasses.make_dataclass("Kept", [(n, t, dataclasses.field(default=d)) for n, t, d in kept]))
    )
    assert types.defs["Kept"]["properties"] == {
        "a": {"type": "integer"},
        "b": {"type": "number"},
        "c": {},
        "d": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
    }


# --- pydantic -----------------------------------------------------------------------------------------------


class Name(pydantic.BaseModel):
    """A name."""

    properties: str
    default: dict[str, int] = {"properties": 1}


class Someone(pydantic.BaseModel):
    """Somebody, to pydantic."""

    name: Name
    age: int = pydantic.Field(0, ge=0, alias="years", description="in years")
    kids: list[Someone] = []
    loose: Loose | None = None
    raw: list[bytes] = []


class Loose(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")


@pydantic.dataclasses.dataclass
class Checked:
    n: int = pydantic.Field(ge=0)


def test_a_model_describes_itself() -> None:
    """A pydantic model's own schema is used, its objects closed unless they say otherwise, its parts shared."""
    types = Types()
    schema = types.schema(types.shape(list[Someone]))
    assert (schema, types.defs) == (
        {"type": "array", "items": {"$ref": "#/$defs/Someone"}},
        {
            "Loose": {"additionalProperties": True, "properties": {}, "title": "Loose", "type": "object"},
            "Name": {
                "description": "A name.",
                "properties": {
                    "properties": {"title": "Properties", "type": "string"},
                    "default": {
                        "additionalProperties": {"type": "integer"},
                        "default": {"properties": 1},
                        "title": "Default",
                        "type": "object",
                    },
                },
                "required": ["properties"],
                "title": "Name",
                "type": "object",
                "additionalProperties": False,
            },
            "Someone": {
                "description": "Somebody, to pydantic.",
                "properties": {
                    "name": {"$ref": "#/$defs/Name"},
                    "years": {
                        "default": 0,
                        "description": "in years",
                        "minimum": 0,
                        "title": "Years",
                        "type": "integer",
                    },
                    "kids": {
                        "default": [],
                        "items": {"$ref": "#/$defs/Someone"},
                        "title": "Kids",
                        "type": "array",
                    },
                    "loose": {"anyOf": [{"$ref": "#/$defs/Loose"}, {"type": "null"}], "default": None},
                    "raw": {"default": [], "items": {"type": "string"}, "title": "Raw", "type": "array"},
                },
                "required": ["name"],
                "title": "Someone",
                "type": "object",
                "additionalProperties": False,
            },
        },
    )


def test_a_pydantic_dataclass_describes_itself() -> None:
    """What pydantic says of its dataclasses is not lost."""
    types = Types()
    assert types.schema(types.shape(Checked)) == {
        "properties": {"n": {"minimum": 0, "title": "N", "type": "integer"}},
        "required": ["n"],
        "title": "Checked",
        "type": "object",
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "hint", [*CLASSES, Someone, Checked, Someone | Checked, list[Someone | Person], Circle | Square]
)
def test_every_kind_of_class_makes_good_json_schema(hint: Any) -> None:
    """Whatever it is made with, pydantic included, the whole schema of a tool holds against the metaschema."""

    def f(v: Any) -> None: ...

    f.__annotations__["v"] = hint
    schema = of_function(f, "f").schema
    Draft202012Validator.check_schema(schema)
    assert [*schema["properties"]] == ["v"]


@dataclasses.dataclass
class Taken:
    n: int

    def __init__(self, holder: Holder[int]) -> None:  # a name that who comes from it does not know
        self.n = holder.held


class Place(NamedTuple):
    """Where it is.

    Attributes:
        row: from the top
    """

    row: int
    seat: Annotated[int, msgspec.Meta(title="Seat")] = 1


def test_a_list_of_fields_is_told_as_their_names_and_texts() -> None:
    """A named tuple tells its docstring, and of each place the name, unless the hint has a title of its own."""
    types = Types()
    types.schema(types.shape(Place))
    assert types.defs["Place"] == {
        "type": "array",
        "prefixItems": [
            {"title": "row", "description": "from the top", "type": "integer"},
            {"title": "Seat", "type": "integer", "default": 1},
        ],
        "minItems": 1,
        "maxItems": 2,
        "description": "Where it is.",
    }
