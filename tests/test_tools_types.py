"""Python types as JSON Schema, and back: every type that a tool may take."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    NewType,
    Optional,
    TypeVar,
    Union,
)

import annotated_types
import msgspec
import pydantic
import pytest
from jsonschema import Draft202012Validator
from msgspec import Meta
from typing_extensions import TypeAliasType
from typing_extensions import TypeVar as NewTypeVar

from loopmachine.tools.notes import NoSchema
from loopmachine.tools.standins import hook
from loopmachine.tools.types import Types
from tests.test_tools_records import (
    DAY,
    Box,
    Circle,
    Holder,
    Mood,
    Movie,
    Old,
    Pair,
    Person,
    Point,
    Renamed,
    Row,
    Size,
    Square,
)

UserId = NewType("UserId", int)
Cents = NewType("Cents", Annotated[float, "In all."])
Tenths = NewType("Tenths", Annotated[float, Meta(multiple_of=0.1)])
Points = NewType("Points", list[Point])
Bound = TypeVar("Bound", bound=Point)
Some = TypeVar("Some", int, str)
Whatever = TypeVar("Whatever")
T = TypeVar("T")
Whole = NewTypeVar("Whole", bound=int | str, default=int)
Several = NewTypeVar("Several", default=list[Whole])
Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | int | None")
Row2 = TypeAliasType("Row2", tuple[Some, Some], type_params=(Some,))


class Mixed(enum.Enum):
    """Any values."""

    NONE = None
    HALF = 0.5
    TEXT = "t"
    PAIR = (1, 2)
    LARGE = 2**70


class Others:
    """A note that is meant for somebody else."""

    description = 5

    def title(self) -> None: ...

    def ge(self) -> None: ...


class Shares(enum.Enum):
    HALF = 0.5
    QUARTER = 0.25


class Steps(enum.Enum):
    ONE = 1
    HALF = 0.5


class Pairs(enum.Enum):
    LOW = (1, 2)
    HIGH = (3, 4)


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Many(enum.IntEnum):
    FEW = 1
    MANY = 2**64


LEAP = datetime.date(2024, 2, 29)
WEEK = datetime.timedelta(7)
#: For each type: its schema, JSON that it takes and what becomes of it.
CASES: list[tuple[Any, dict[str, Any], Any, Any]] = [
    (str, {"type": "string"}, "x", "x"),
    (int, {"type": "integer"}, 5, 5),
    (float, {"type": "number"}, 5, 5.0),
    (bool, {"type": "boolean"}, True, True),
    (None, {"type": "null"}, None, None),
    (Any, {}, [1], [1]),
    (object, {}, [1], [1]),
    (bytes, {"type": "string", "contentEncoding": "base64"}, "aGk=", b"hi"),
    (bytearray, {"type": "string", "contentEncoding": "base64"}, "aGk=", bytearray(b"hi")),
    (list, {"type": "array", "items": {}}, [1, "a"], [1, "a"]),
    (list[int], {"type": "array", "items": {"type": "integer"}}, [1], [1]),
    (Sequence[str], {"type": "array", "items": {"type": "string"}}, ["a"], ["a"]),
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}, [1, 2], (1, 2)),
    (
        tuple[int, str],
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
        [1, "a"],
        (1, "a"),
    ),
    (tuple[()], {"type": "array", "minItems": 0, "maxItems": 0}, [], ()),
    (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, [1], {1}),
    (frozenset[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, [1], frozenset({1})),
    (dict, {"type": "object"}, {"a": 1}, {"a": 1}),
    (dict[str, Any], {"type": "object"}, {"a": 1}, {"a": 1}),
    (Mapping[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}, {"a": 1}),
    (
        dict[Literal["b", "a"], int],
        {"type": "object", "additionalProperties": {"type": "integer"}, "propertyNames": {"enum": ["b", "a"]}},
        {"a": 1},
        {"a": 1},
    ),
    (
        dict[int, str],
        {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "propertyNames": {"pattern": "^(0|-?[1-9][0-9]*)$"},
        },
        {"5": "x"},
        {5: "x"},
    ),
    (
        dict[float, Any],
        {"type": "object", "propertyNames": {"pattern": r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"}},
        {"-1.5e3": "x"},
        {-1500.0: "x"},
    ),
    (
        dict[Size, Any],
        {"type": "object", "propertyNames": {"enum": ["3", "1"], "description": "How large."}},
        {"3": 1},
        {Size.LARGE: 1},
    ),
    (dict[datetime.date, Any], {"type": "object", "propertyNames": {"format": "date"}}, {"2024-02-29": 1}, {LEAP: 1}),
    (dict[Literal[Mood.UP], Any], {"type": "object", "propertyNames": {"enum": ["z"]}}, {"z": 2}, {Mood.UP: 2}),
    (dict[Literal[1, "a"], Any], {"type": "object", "propertyNames": {"enum": ["1", "a"]}}, {"1": 2}, {1: 2}),
    (
        dict[int | str | None, Any],
        {"type": "object", "propertyNames": {"anyOf": [{"pattern": "^(0|-?[1-9][0-9]*)$"}, {}]}},
        {"a": 1},
        {"a": 1},
    ),
    (
        dict[datetime.date | uuid.UUID, Any],
        {"type": "object", "propertyNames": {"anyOf": [{"format": "date"}, {"format": "uuid"}]}},
        {"2024-02-29": 1},
        {LEAP: 1},
    ),
    (
        dict[datetime.timedelta, Any],
        {"type": "object", "propertyNames": {"format": "day-time-duration"}},
        {"P1W": 1},
        {WEEK: 1},
    ),
    (
        dict[Annotated[int, Meta(ge=1, le=9), "Which."], Any],
        {
            "type": "object",
            "propertyNames": {
                "description": "Which. a number from 1 on, a number up to 9",
                "pattern": "^(0|-?[1-9][0-9]*)$",
            },
        },
        {"5": 1},
        {5: 1},
    ),
    (
        Annotated[set[decimal.Decimal], Meta(max_length=2)],
        {"type": "array", "items": {"type": "string", "format": "decimal"}, "uniqueItems": True, "maxItems": 2},
        ["1", "2"],
        {decimal.Decimal(1), decimal.Decimal(2)},
    ),
    (Literal[None, "x"] | None, {"anyOf": [{"enum": [None, "x"]}, {"type": "null"}]}, None, None),
    (
        list[Mixed] | None,
        {
            "anyOf": [
                {"type": "array", "items": {"enum": [None, 0.5, "t", [1, 2], 2**70], "description": "Any values."}},
                {"type": "null"},
            ]
        },
        [None],
        [Mixed.NONE],
    ),
    (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, None),  # noqa: UP045  people write it
    (int | str | None, {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]}, "5", "5"),
    (Union[float, bool], {"anyOf": [{"type": "number"}, {"type": "boolean"}]}, True, True),  # noqa: UP007  so is this
    (Literal["x", "b"], {"type": "string", "enum": ["x", "b"]}, "b", "b"),
    (Literal[2, 1], {"type": "integer", "enum": [2, 1]}, 1, 1),
    (Literal[True, False], {"type": "boolean", "enum": [True, False]}, False, False),
    (Literal["x", 3, None], {"enum": ["x", 3, None]}, None, None),
    (Literal[1, True], {"enum": [1, True]}, True, True),
    (list[Literal["x", "b"]], {"type": "array", "items": {"type": "string", "enum": ["x", "b"]}}, ["b"], ["b"]),
    (Size, {"type": "integer", "enum": [3, 1], "description": "How large."}, 3, Size.LARGE),
    (Mood, {"type": "string", "enum": ["z", "a"]}, "z", Mood.UP),
    (datetime.date, DAY, "2024-02-29", datetime.date(2024, 2, 29)),
    (
        datetime.datetime,
        {"type": "string", "format": "date-time"},
        "2024-02-29T09:30:00Z",
        datetime.datetime(2024, 2, 29, 9, 30, tzinfo=datetime.UTC),
    ),
    (
        Annotated[datetime.datetime, Meta(tz=False)],
        {"type": "string", "format": "date-time-local"},
        "2024-02-29T09:30:00",
        datetime.datetime(2024, 2, 29, 9, 30),
    ),
    (
        Annotated[datetime.time, Meta(tz=False)],
        {"type": "string", "format": "partial-time"},
        "09:30:00",
        datetime.time(9, 30),
    ),
    (
        datetime.time,
        {"type": "string", "format": "time"},
        "09:30:00Z",
        datetime.time(9, 30, tzinfo=datetime.UTC),
    ),
    (
        Annotated[datetime.time, Meta(tz=True)],
        {"type": "string", "format": "time"},
        "09:30:00Z",
        datetime.time(9, 30, tzinfo=datetime.UTC),
    ),
    (
        datetime.timedelta,
        {"type": "string", "format": "day-time-duration"},
        "P1DT2H",
        datetime.timedelta(1, 7200),
    ),
    (datetime.timedelta, {"type": "string", "format": "day-time-duration"}, "-P1.5W", -datetime.timedelta(10.5)),
    (decimal.Decimal, {"type": "string", "format": "decimal"}, "1.10", decimal.Decimal("1.10")),
    (uuid.UUID, {"type": "string", "format": "uuid"}, str(uuid.UUID(int=1)), uuid.UUID(int=1)),
    (
        Annotated[int, Meta(ge=1, lt=9, multiple_of=2, description="how many", title="Number")],
        {
            "type": "integer",
            "minimum": 1,
            "exclusiveMaximum": 9,
            "multipleOf": 2,
            "title": "Number",
            "description": "how many",
        },
        2,
        2,
    ),
    (Annotated[float, Meta(gt=0.5, le=2)], {"type": "number", "exclusiveMinimum": 0.5, "maximum": 2}, 1.5, 1.5),
    (
        Annotated[str, Meta(min_length=1, max_length=2, pattern="^a")],
        {"type": "string", "minLength": 1, "maxLength": 2, "pattern": "^a"},
        "a",
        "a",
    ),
    (
        Annotated[list[int], Meta(min_length=1, max_length=2)],
        {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
        [1],
        [1],
    ),
    (
        Annotated[dict[str, int], Meta(min_length=1)],
        {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1},
        {"a": 1},
        {"a": 1},
    ),
    (
        Annotated[bytes, Meta(max_length=2)],
        {"type": "string", "contentEncoding": "base64", "maxLength": 4},
        "aGk=",
        b"hi",
    ),
    (
        Annotated[str, Meta(extra_json_schema={"examples": ["a"], "format": "email"})],
        {"type": "string", "examples": ["a"], "format": "email"},
        "a@b",
        "a@b",
    ),
    (
        Annotated[int, annotated_types.Interval(ge=1, lt=9), annotated_types.MultipleOf(2), "how many"],
        {"type": "integer", "minimum": 1, "exclusiveMaximum": 9, "multipleOf": 2, "description": "how many"},
        2,
        2,
    ),
    (
        Annotated[list[Annotated[str, pydantic.Field(pattern="^a", title="A")]], annotated_types.Len(1, 2)],
        {"type": "array", "items": {"type": "string", "pattern": "^a", "title": "A"}, "minItems": 1, "maxItems": 2},
        ["a"],
        ["a"],
    ),
    (Annotated[int, annotated_types.Ge, object(), Others()], {"type": "integer"}, 5, 5),
    (
        dict[str, Annotated[float, Meta(multiple_of=0.5)]],
        {"type": "object", "additionalProperties": {"type": "number", "multipleOf": 0.5}},
        {"a": 1.5},
        {"a": 1.5},
    ),
    (
        Annotated[Cents, Meta(ge=0, multiple_of=0.01, title="Price", extra_json_schema={"examples": [0.5]})],
        {
            "type": "number",
            "minimum": 0,
            "multipleOf": 0.01,
            "description": "In all.",
            "title": "Price",
            "examples": [0.5],
        },
        0.5,
        0.5,
    ),
    (Annotated[float, annotated_types.MultipleOf(0.1)], {"type": "number", "multipleOf": 0.1}, 0.5, 0.5),
    (
        dict[Annotated[int, Meta(multiple_of=2)], int],
        {
            "type": "object",
            "additionalProperties": {"type": "integer"},
            "propertyNames": {"pattern": "^(0|-?[1-9][0-9]*)$", "description": "a multiple of 2"},
        },
        {"4": 1},
        {4: 1},
    ),
    (
        Annotated[str, Meta(min_length=1)] | None,
        {"anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}]},
        "a",
        "a",
    ),
    (UserId, {"type": "integer"}, 5, 5),
    (Points, {"type": "array", "items": {"$ref": "#/$defs/Point"}}, [[1]], [Point(1)]),
    (Bound, {"$ref": "#/$defs/Point"}, [1], Point(1)),
    (Some, {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "a", "a"),
    (Whatever, {}, [1], [1]),
    (Final[int], {"type": "integer"}, 5, 5),
    (Json, {"$ref": "#/$defs/Json"}, {"a": [None, {"b": 2}]}, {"a": [None, {"b": 2}]}),
    (Row2[int], {"$ref": "#/$defs/Row2"}, [1, 2], (1, 2)),
    (Mixed, {"enum": [None, 0.5, "t", [1, 2], 2**70], "description": "Any values."}, [1, 2], Mixed.PAIR),
    (Shares, {"type": "number", "enum": [0.5, 0.25]}, 0.25, Shares.QUARTER),
    (Steps, {"type": "number", "enum": [1, 0.5]}, 1, Steps.ONE),
    (Pairs, {"type": "array", "enum": [[1, 2], [3, 4]]}, [3, 4], Pairs.HIGH),
    (Literal[1, Steps.HALF], {"type": "number", "enum": [1, 0.5]}, 0.5, Steps.HALF),
    (Literal[1, True], {"enum": [1, True]}, True, True),
    (Rights, {"type": "integer", "enum": [1, 2]}, 2, Rights.WRITE),
    (Many, {"type": "integer", "enum": [1, 2**64]}, 2**64, Many.MANY),
    (list[Mood], {"type": "array", "items": {"type": "string", "enum": ["z", "a"]}}, ["a"], [Mood.DOWN]),
    (Literal[Mood.DOWN, Size.LARGE], {"enum": ["a", 3]}, "a", Mood.DOWN),
    (Literal[2**70, "x"], {"enum": [2**70, "x"]}, 2**70, 2**70),
    (Literal["b", "a"] | None, {"anyOf": [{"type": "string", "enum": ["b", "a"]}, {"type": "null"}]}, "a", "a"),
    (Row, {"$ref": "#/$defs/Row"}, [1], Row(1)),
    (Person, {"$ref": "#/$defs/Person"}, {"name": "A", "kids": [{"name": "B"}]}, Person("A", kids=[Person("B")])),
    (list[Box], {"type": "array", "items": {"$ref": "#/$defs/Box"}}, [{"width": 1}], [Box(1.0)]),
    (
        Circle | Square,
        {"anyOf": [{"$ref": "#/$defs/Circle"}, {"$ref": "#/$defs/Square"}]},
        {"type": "square", "a": 1},
        Square(1),
    ),
    (Renamed, {"$ref": "#/$defs/Renamed"}, {"someName": 1}, Renamed(1)),
    (Movie, {"$ref": "#/$defs/Movie"}, {"year": 1}, {"year": 1}),
    (Old, {"$ref": "#/$defs/Old"}, {"also": "a"}, {"also": "a"}),
    (Point, {"$ref": "#/$defs/Point"}, [1, 2], Point(1, 2)),
    (Holder[int], {"$ref": "#/$defs/Holder"}, {"held": 1}, Holder(1)),
    (datetime.date | str, {"anyOf": [DAY, {"type": "string"}]}, "2024-02-30", "2024-02-30"),
    (datetime.date | str, {"anyOf": [DAY, {"type": "string"}]}, "2024-02-29", LEAP),
    (
        list[int] | list[str] | None,
        {
            "anyOf": [
                {"type": "array", "items": {"type": "integer"}},
                {"type": "array", "items": {"type": "string"}},
                {"type": "null"},
            ]
        },
        ["a"],
        ["a"],
    ),
    (
        Pair | Person | int,
        {"anyOf": [{"$ref": "#/$defs/Pair"}, {"$ref": "#/$defs/Person"}, {"type": "integer"}]},
        {"name": "A"},
        Person("A"),
    ),
    (
        set[int] | list[int],
        {
            "anyOf": [
                {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
                {"type": "array", "items": {"type": "integer"}},
            ]
        },
        [1, 1],
        [1, 1],
    ),
    (set[Point], {"type": "array", "items": {"$ref": "#/$defs/Point"}, "uniqueItems": True}, [[1]], {Point(1)}),
    (
        dict[str, list[tuple[Mood, Point | None]]],
        {
            "type": "object",
            "additionalProperties": {
                "type": "array",
                "items": {
                    "type": "array",
                    "prefixItems": [
                        {"type": "string", "enum": ["z", "a"]},
                        {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}]},
                    ],
                    "minItems": 2,
                    "maxItems": 2,
                },
            },
        },
        {"a": [["z", [1]], ["a", None]]},
        {"a": [(Mood.UP, Point(1)), (Mood.DOWN, None)]},
    ),
]


@pytest.mark.parametrize(("hint", "schema", "given", "value"), CASES)
def test_a_type_has_its_schema_and_takes_what_the_schema_says(
    hint: Any, schema: dict[str, Any], given: Any, value: Any
) -> None:
    """The schema is as told, names in source order, and is good JSON Schema; JSON that fits it becomes the value."""
    types = Types()
    shape = types.shape(hint)
    made = types.schema(shape)
    types.finish()
    whole = {**made, "$defs": types.defs}
    Draft202012Validator.check_schema(whole)
    Draft202012Validator(whole, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(given)
    typed = msgspec.json.decode(json.dumps(given), type=shape, dec_hook=hook)
    assert (json.dumps(made), typed, type(typed)) == (json.dumps(schema), value, type(value))


def test_literals_that_python_takes_for_equal_are_told_apart() -> None:
    """Literal[1] and Literal[True] in one tool keep their own values."""
    types = Types()
    enums = [types.schema(types.shape(hint))["enum"] for hint in (Literal[1], Literal[True])]
    assert json.dumps(enums) == "[[1], [true]]"


class Plain:
    """A class that nobody can read."""


@dataclasses.dataclass
class Limited:
    price: Annotated[decimal.Decimal, annotated_types.Ge(0)]


@dataclasses.dataclass
class Growing(Generic[T]):
    next: Growing[list[T]] | None = None


Larger = TypeAliasType("Larger", "list[Larger[list[T]]]", type_params=(T,))  # type: ignore[misc]  # the case


@dataclasses.dataclass
class Lost:
    where: Nowhere  # type: ignore[name-defined]  # noqa: F821


class Sentinel(enum.Enum):
    ABSENT = object()


class Nobody(enum.Enum):
    """Has no members."""


class Half(enum.Enum):
    HALF = 0.5


class Either(enum.Enum):
    ONE = 1
    ALL = "all"


Maybe = TypeAliasType("Maybe", Mixed | int)
UNNAMED = "not each of its values has a name of its own in an object"
UNREAD = "such a number can't be read from the names in an object"
PLAIN = "take a plain one, and check it in the tool"
NULL = "let no more than one be null in JSON"
CONVERT = "take a type that JSON has, and convert it in the tool"
LIMIT = "limit the parts of a union, Optional[Annotated[int, ...]]; else take annotated_types.Predicate"
ARGUMENTS = "let it stand in itself with the arguments that it was given"
NAMES = "check them in the tool"
TWICE = "give one of them, and check the other in the tool"
VALUES = "give it numbers or text for values"
HASH = "take a list, or make the class frozen"
OWN = "make it one of these, or take what it is made of, and make it in the tool"
NONE = "has no JSON Schema: it is no dataclass, TypedDict or NamedTuple, and no class of attrs, msgspec or pydantic"


@pytest.mark.parametrize(
    ("hint", "why", "remedy"),
    [
        (Plain, f"Plain {NONE}", OWN),
        (list[Plain], f"Plain {NONE}", OWN),
        (type[int], f"type {NONE}", OWN),
        (complex, f"complex {NONE}", OWN),
        (memoryview, "a value of memoryview can't be written as JSON", CONVERT),
        (msgspec.Raw, "a value of raw can't be written as JSON", CONVERT),
        (Sentinel, "Sentinel has no values, or some that JSON does not have", VALUES),
        (Nobody, "Nobody has no values, or some that JSON does not have", VALUES),
        (set[list[int]], "a set can't hold what has no hash", HASH),
        (frozenset[Pair], "a set can't hold what has no hash", HASH),
        (set[pydantic.BaseModel], "a set can't hold what has no hash", HASH),
        (Lost, "Lost: name 'Nowhere' is not defined", "define it where the class can see it"),
        (list[Holder[Plain]], f"Holder.held: Plain {NONE}", OWN),
        (
            Pair | Holder[Literal[Sentinel.ABSENT]],
            "Holder.held: Literal has no values, or some that JSON does not have",
            VALUES,
        ),
        (
            Annotated[str, annotated_types.Ge(1)],
            "Can only set `ge` on a numeric type - type `typing.Annotated[str, msgspec.Meta(ge=1)]` is invalid",
            LIMIT,
        ),
        (
            Annotated[str, Meta(multiple_of=0.1)],
            "Can only set `multiple_of` on a numeric type - "
            "type `typing.Annotated[str, msgspec.Meta(multiple_of=0.1)]` is invalid",
            LIMIT,
        ),
        (
            dict[Annotated[float, Meta(multiple_of=0.5)], int],
            "multiples can't be told of the names in an object",
            NAMES,
        ),
        (Annotated[Tenths, Meta(multiple_of=0.2)], "multipleOf is given twice", TWICE),
        (Annotated[str, Meta(pattern="a"), Meta(pattern="b")], "pattern is given twice", TWICE),
        (
            Annotated[int, Meta(pattern="a")],
            "Can only set `pattern` on a str type - type `typing.Annotated[int, msgspec.Meta(pattern='')]` is invalid",
            LIMIT,
        ),
        (
            Annotated[int | None, annotated_types.Ge(0)],
            "Can only set `ge` on a numeric type - "
            "type `typing.Annotated[typing.Optional[int], msgspec.Meta(ge=0)]` is invalid",
            LIMIT,
        ),
        (
            Limited,
            "Limited.price: Can only set `ge` on a numeric type - "
            "type `typing.Annotated[decimal.Decimal, msgspec.Meta(ge=0)]` is invalid",
            LIMIT,
        ),
        (Growing[int], "Growing stands in itself with other arguments each time: it never ends", ARGUMENTS),
        (Larger[int], "Larger stands in itself with other arguments each time: it never ends", ARGUMENTS),
        (dict[Point, int], "the names in an object are text or numbers", CONVERT),
        (dict[bool, int], "the names in an object are text or numbers", CONVERT),
        (dict[Literal[1, "1"], int], UNNAMED, "take text, or whole numbers"),
        (dict[Literal["a", None], int], UNNAMED, "take text, or whole numbers"),
        (dict[Mixed, int], UNNAMED, "take text, or whole numbers"),
        (dict[Half, int], UNNAMED, "take text, or whole numbers"),
        (dict[Annotated[int, annotated_types.Predicate(bool)], int], UNREAD, PLAIN),
        (dict[float | Annotated[int, Meta(ge=0)], int], UNREAD, PLAIN),
        (dict[Literal[Size.LARGE], int], UNREAD, PLAIN),
        (dict[Either, int], UNREAD, PLAIN),
        (dict[str | Point, int], "the names in an object are text or numbers", CONVERT),
        (set[Annotated[list[int], annotated_types.Predicate(bool)]], "a set can't hold what has no hash", HASH),
        (set[dict[float, int]], "a set can't hold what has no hash", HASH),
        (Mixed | None, "null would be Mixed.NONE and None at once", NULL),
        (Annotated[Mixed, "Mixed."] | int | Literal[None, 2], "null would be Mixed.NONE and None at once", NULL),
        (Maybe | None, "null would be Mixed.NONE and None at once", NULL),
        ("no type", "Type ''no type'' is not supported", CONVERT),
    ],
)
def test_a_type_without_a_schema_is_told(hint: Any, why: str, remedy: str) -> None:
    """A type that JSON can't describe is refused with the reason, and what to do."""
    types = Types()
    with pytest.raises(NoSchema) as caught:
        types.schema(types.shape(hint))
    assert (str(caught.value), caught.value.remedy) == (why, remedy)


def test_a_type_that_names_things_is_told_as_ever_elsewhere() -> None:
    """What pydantic says of a type stays whole where it is also that of the names in an object."""
    types = Types()
    upper = Annotated[str, pydantic.AfterValidator(str.upper)]
    told = [types.schema(types.shape(hint)) for hint in (dict[upper, int], upper)]
    assert told == [{"type": "object", "additionalProperties": {"type": "integer"}}, {"type": "string"}]


@dataclasses.dataclass
class Crate(Generic[Whole, Several]):
    """Holds whole numbers, unless it is told what."""

    one: Whole
    several: Several


class Chest(Crate):
    """A crate of which nobody says what it holds."""


Shelf = TypeAliasType("Shelf", dict[str, Several], type_params=(Whole, Several))
INTEGER, TEXT = {"type": "integer"}, {"type": "string"}
INTEGERS, TEXTS = {"type": "array", "items": INTEGER}, {"type": "array", "items": TEXT}


@pytest.mark.parametrize(
    ("hint", "parts"),
    [
        (Crate, (INTEGER, INTEGERS)),
        (Chest, (INTEGER, INTEGERS)),
        (Crate[str], (TEXT, TEXTS)),
        (Crate[str, bool], (TEXT, {"type": "boolean"})),
    ],
)
def test_the_default_of_a_type_parameter_is_its_type(hint: Any, parts: Any) -> None:
    """Where nothing is given for it: in a class, in one made of it, and beside others that are given."""
    types = Types()
    types.schema(types.shape(hint))
    (made,) = types.defs.values()
    assert tuple(made["properties"].values()) == parts


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (Whole, INTEGER),
        (Several, INTEGERS),
        (Shelf, {"type": "object", "additionalProperties": INTEGERS}),
        (Shelf[str], {"type": "object", "additionalProperties": TEXTS}),
    ],
)
def test_the_default_of_a_type_parameter_is_its_type_elsewhere(hint: Any, schema: Any) -> None:
    """As a hint, and in the alias of a type statement."""
    types = Types()
    made = types.schema(types.shape(hint))
    assert [made, *types.defs.values()][-1] == schema


def test_a_class_may_stand_beside_itself_however_often() -> None:
    """Only one that stands in itself, with other arguments each time, has no end."""
    types = Types()
    types.schema(types.shape(tuple[tuple(Holder[Literal[number]] for number in range(50))]))  # type: ignore[misc, valid-type]  # made at run time
    assert len(types.defs) == 50
