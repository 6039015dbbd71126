"""Python types as JSON Schema, and back: every type that a tool may take."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import (
    Annotated,
    Any,
    Literal,
    NewType,
    Optional,
    Union,
)

import msgspec
import pytest
from jsonschema import Draft202012Validator
from msgspec import Meta

from loopmachine.tools.types import NoSchema, Types, default, literals
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
    (dict[int, str], {"type": "object", "additionalProperties": {"type": "string"}}, {"5": "x"}, {5: "x"}),
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
        {"type": "string"},
        "2024-02-29T09:30:00",
        datetime.datetime(2024, 2, 29, 9, 30),
    ),
    (datetime.time, {"type": "string", "format": "partial-time"}, "09:30:00", datetime.time(9, 30)),
    (
        Annotated[datetime.time, Meta(tz=True)],
        {"type": "string", "format": "time"},
        "09:30:00Z",
        datetime.time(9, 30, tzinfo=datetime.UTC),
    ),
    (datetime.timedelta, {"type": "string", "format": "duration"}, "P1DT2H", datetime.timedelta(1, 7200)),
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
    (UserId, {"type": "integer"}, 5, 5),
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
]


@pytest.mark.parametrize(("hint", "schema", "given", "value"), CASES)
def test_a_type_has_its_schema_and_takes_what_the_schema_says(
    hint: Any, schema: dict[str, Any], given: Any, value: Any
) -> None:
    """The schema is as told, names in source order, and is good JSON Schema; JSON that fits it becomes the value."""
    types = Types()
    made = types.schema(hint)
    whole = {**made, "$defs": types.defs}
    Draft202012Validator.check_schema(whole)
    Draft202012Validator(whole, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(given)
    typed = msgspec.json.decode(json.dumps(given), type=hint)
    assert (json.dumps(made), typed, type(typed)) == (json.dumps(schema), value, type(value))


def test_literals_that_python_takes_for_equal_are_told_apart() -> None:
    """Literal[1] and Literal[True] in one tool keep their own values."""
    types = Types()
    enums = [types.schema(hint)["enum"] for hint in (Literal[1], Literal[True])]
    assert json.dumps(enums) == "[[1], [true]]"


class Plain:
    """A class that nobody can read."""


@dataclasses.dataclass
class Lost:
    where: Nowhere  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("hint", "why"),
    [
        (Plain, "Plain has no JSON Schema; use a dataclass, or a type of JSON"),
        (list[Plain], "Plain has no JSON Schema"),
        (type[int], "has no JSON Schema"),
        (complex, "complex has no JSON Schema"),
        (memoryview, "a value of memoryview can't be written as JSON"),
        (msgspec.Raw, "a value of raw can't be written as JSON"),
        (Literal[1.5], "Literal may only contain"),
        (datetime.date | str, "Type unions may not contain more than one str-like type"),
        (Person | Pair, "Type unions may not contain more than one dataclass or attrs type"),
        (Lost, "name 'Nowhere' is not defined"),
        (dict[Point, int], "the names in an object are text or numbers"),
        (dict[bool, int], "the names in an object are text or numbers"),
        ("no type", "Type ''no type'' is not supported"),
    ],
)
def test_a_type_without_a_schema_is_told(hint: Any, why: str) -> None:
    """A type that JSON can't describe is refused with the reason."""
    with pytest.raises(NoSchema) as caught:
        Types().schema(hint)
    assert why in str(caught.value)


def test_literals_are_found_in_classes_that_hold_themselves() -> None:
    """The values of every Literal are found, in source order, each class looked at once."""
    assert list(literals(dict[str, list[Person] | Literal[2, 1]], set())) == [("z", "a"), (2, 1)]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (5, {"default": 5}),
        (Mood.UP, {"default": "z"}),
        (Pair(1, 2), {"default": {"left": 1, "right": 2}}),
        (datetime.date(2024, 2, 29), {"default": "2024-02-29"}),
        (object(), {}),
        (float("nan"), {}),
    ],
)
def test_a_default_is_told_where_it_is_json(value: object, told: dict[str, Any]) -> None:
    """A default is written as JSON; a sentinel or NaN is not told."""
    assert default(value) == told
