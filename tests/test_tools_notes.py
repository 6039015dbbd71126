"""What Annotated notes: what restricts values is checked or refused, what is meant for others harms nothing."""

from __future__ import annotations

import datetime
import decimal
import json
from typing import Annotated, Any

import annotated_types as at
import msgspec
import pydantic
import pytest
from typing_extensions import Doc

from loopmachine import Tool
from loopmachine.errors import InvalidTool
from loopmachine.tools import Context

SAID = "f was not called; its arguments don't fit:\n- "
ZONED, LOCAL = "2024-02-29T09:30:00Z", "2024-02-29T09:30:00"


def is_even(number: int) -> bool:
    """Whether it is."""
    return number % 2 == 0


def even_only(number: int) -> int:
    """The number. Raises ValueError for one that is odd."""
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number


class Doubled:
    """A note of a kind of its own that pydantic asks what it demands."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return pydantic.AfterValidator(lambda number: number * 2).__get_pydantic_core_schema__(source, handler)


class Strange(at.BaseMetadata):
    """A demand that only its author knows."""


def tool_of(hint: Any) -> Tool:
    """A tool of one parameter."""

    def f(v: Any) -> None:
        """Takes anything."""

    f.__annotations__["v"] = hint
    return Tool.of(f)


def outcome(hint: Any, value: Any) -> Any:
    """What a tool would be called with, or what the model is told."""
    made = tool_of(hint)
    checked, told = made.arguments.check(json.dumps({"v": value}))
    return told.removeprefix(SAID) if checked is None else made.signature.bind(checked, Context())[1]["v"]


NUMBER = {"type": "integer"}
ELSEWHERE = "write a default behind the hint, after =, and give the parameter or field its own name"


@pytest.mark.parametrize(
    ("hint", "schema", "outcomes"),
    [
        (Annotated[int, at.Predicate(is_even)], NUMBER, {2: 2, 3: "v: 3 is refused: it does not pass is_even"}),
        (
            Annotated[int, at.Predicate(at.Not(is_even))],
            NUMBER,
            {3: 3, 2: "v: 2 is refused: it does not pass Not(func="},
        ),
        (
            list[Annotated[int, at.Ge(2), at.Predicate(is_even), "how many"]],
            {"type": "array", "items": NUMBER | {"minimum": 2, "description": "how many"}},
            {
                (2, 4): [2, 4],
                (2, 3): "v[1]: 3 is refused: it does not pass is_even",
                (1,): "v[0]: 1 where a number from 2 on is wanted",
            },
        ),
        (Annotated[int, at.Predicate(is_even)] | None, {"anyOf": [NUMBER, {"type": "null"}]}, {None: None, 4: 4}),
        (at.LowerCase[str], {"type": "string"}, {"a": "a", "A": 'v: "A" is refused: it does not pass islower'}),
        (Annotated[int, pydantic.AfterValidator(lambda v: v + 1)], NUMBER, {2: 3, "2": 3}),
        (
            Annotated[int, pydantic.Field(ge=2), pydantic.AfterValidator(lambda v: v + 1)],
            NUMBER | {"minimum": 2},
            {2: 3},
        ),
        (Annotated[str, pydantic.BeforeValidator(str.strip)], {"type": "string"}, {" a ": "a"}),
        (pydantic.constr(strip_whitespace=True, max_length=3), {"type": "string", "maxLength": 3}, {" a ": "a"}),
        (pydantic.StrictInt, NUMBER, {5: 5, "5": 5}),
        (Annotated[int, Doubled()], NUMBER, {2: 4}),
        (
            Annotated[int, pydantic.AfterValidator(even_only)],
            NUMBER,
            {2: 2, 3: "v: 3 is refused: Value error, 3 is odd"},
        ),
        (Annotated[int, pydantic.Field(description="d")], NUMBER | {"description": "d"}, {2: 2}),
        (
            Annotated[datetime.datetime, at.Timezone(None)],
            {"type": "string", "format": "date-time-local"},
            {LOCAL: datetime.datetime.fromisoformat(LOCAL)},
        ),
        (
            Annotated[datetime.datetime, at.Timezone(...)],
            {"type": "string", "format": "date-time"},
            {ZONED: datetime.datetime.fromisoformat(ZONED)},
        ),
        (Annotated[int, Doc("d"), at.Unit("m"), object(), {"a": 1}, at.Ge], NUMBER, {2: 2}),
        (Annotated[int, msgspec.Meta(title="T")], NUMBER | {"title": "T"}, {2: 2}),
        (
            Annotated[int, pydantic.Field(examples=[2], json_schema_extra={"deprecated": True}, repr=False)],
            NUMBER | {"examples": [2], "deprecated": True},
            {2: 2},
        ),
        (
            Annotated[int | None, at.Predicate(bool)],
            {"anyOf": [NUMBER, {"type": "null"}]},
            {2: 2, 0: "v: 0 is refused: it does not pass bool", None: "v: null is refused: it does not pass bool"},
        ),
        (
            Annotated[decimal.Decimal, at.Predicate(bool)],
            {"type": "string", "format": "decimal"},
            {"1.5": decimal.Decimal("1.5"), "0": 'v: "0" is refused: it does not pass bool'},
        ),
    ],
)
def test_what_is_noted_is_checked(hint: Any, schema: Any, outcomes: dict[Any, Any]) -> None:
    """Limits stand in the schema, tests and pydantic's validators are run on what is made of a value."""
    told = {value: outcome(hint, value) for value in outcomes}
    assert tool_of(hint).input_schema["properties"]["v"] == schema
    assert {
        value: one[: len(outcomes[value])] if isinstance(one, str) else one for value, one in told.items()
    } == outcomes


@pytest.mark.parametrize(
    ("note", "why"),
    [
        (is_even, "nobody can tell what is_even demands; take annotated_types.Predicate of a function"),
        (at.Not(is_even), "nobody can tell what Not(func="),
        (pydantic.Field(default=5), f"Field(default=...) means nothing in Annotated; {ELSEWHERE}"),
        (pydantic.Field(default_factory=int), f"Field(default=...) means nothing in Annotated; {ELSEWHERE}"),
        (pydantic.Field(5, alias="w"), f"Field(alias=...) means nothing in Annotated; {ELSEWHERE}"),
        (pydantic.Field(validation_alias="w", strict=True), "Field(validation_alias=...) means nothing in Annotated; "),
        (
            pydantic.Field(json_schema_extra=lambda schema: None),
            "Field(json_schema_extra=...) is a function; give what it adds, a dict",
        ),
        (Strange(), "nobody can tell what <tests.test_tools_notes.Strange object"),
        (
            at.Timezone("Europe/Paris"),
            "Timezone(tz='Europe/Paris') can't be checked; take Timezone(...), and check the",
        ),
    ],
)
def test_a_demand_that_nobody_knows_is_refused(note: Any, why: str) -> None:
    """The error names the function, the parameter and the remedy, in a class the field too."""

    class Held(msgspec.Struct):
        at: int

    Held.__annotations__["at"] = Annotated[int, note]
    for hint, place in ((Annotated[int, note], ""), (list[Held], "Held.at: ")):
        with pytest.raises(InvalidTool) as caught:
            tool_of(hint)
        assert str(caught.value).startswith(f"f: parameter v: its type has no schema: {place}{why}")
