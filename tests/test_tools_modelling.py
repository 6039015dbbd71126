"""What is done to pydantic's schemas: their names among others, and unions that pydantic can't read in bounded time."""

from __future__ import annotations

import datetime
import itertools
import json
from typing import Annotated, Any, Literal

import pydantic
import pydantic_core
import pytest
from jsonschema import Draft202012Validator
from msgspec import Meta
from typing_extensions import TypeAliasType

from loopmachine.tools import Tool
from loopmachine.tools.notes import NoSchema
from loopmachine.tools.types import Types
from tests.test_tools_records import Someone

Name = TypeAliasType("Name", "list[Name]")
Other = pydantic.create_model("Other", name=(pydantic.create_model("Name", last=(str, ...)), ...))


@pytest.mark.parametrize("hints", [*itertools.permutations([Someone, Other, Name])])
def test_two_types_of_one_name_have_a_schema_each(hints: tuple[Any, ...]) -> None:
    """Whatever comes first, each is taken as it is by itself; the later goes by its name and a number."""
    types = Types()
    schemas = {hint: types.schema(types.shape(hint)) for hint in (*hints, *hints)}
    values: list[Any] = [{"name": {"properties": "n"}, "years": 1}, {"name": {"last": "a"}}, [[], [[]]]]
    told = {
        hint: [Draft202012Validator({**schema, "$defs": types.defs}).is_valid(value) for value in values]
        for hint, schema in schemas.items()
    }
    assert told == {
        Someone: [True, False, False],
        Other: [False, True, False],
        Name: [False, False, True],
    }
    assert len(types.defs) == len({json.dumps(one) for one in types.defs.values()})


class Zoneless:
    """Of pydantic's own schemas only those of a time that has no zone."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return pydantic_core.core_schema.time_schema(tz_constraint="naive")


class Kind(pydantic.BaseModel):
    kind: Literal["a"]


class Sort(pydantic.BaseModel):
    kind: Literal["b"]


def test_what_a_discriminator_names_goes_by_its_new_name() -> None:
    """References in a model's own schema follow its parts to their names, those of a discriminator too."""
    union = Annotated[Kind | Sort, pydantic.Field(discriminator="kind")]
    types = Types()
    types.defs["Kind"] = {"type": "null"}
    assert types.schema(types.shape(union)) == {
        "discriminator": {"mapping": {"a": "#/$defs/Kind_2", "b": "#/$defs/Sort"}, "propertyName": "kind"},
        "oneOf": [{"$ref": "#/$defs/Kind_2"}, {"$ref": "#/$defs/Sort"}],
    }


# --- zones --------------------------------------------------------------------------------------------------


class Moments(pydantic.BaseModel):
    local: pydantic.NaiveDatetime
    zoned: pydantic.AwareDatetime
    either: datetime.datetime
    clock: datetime.time


@pydantic.dataclasses.dataclass
class Local:
    at: pydantic.NaiveDatetime


LOCAL, ZONED = "2024-02-29T09:30:00", "2024-02-29T09:30:00Z"
WANTED = "where a date and time with its zone, such as 2024-02-29T09:30:00Z is wanted"
NAIVE = "where a date and time without a zone, such as 2024-02-29T09:30:00 is wanted"


@pytest.mark.parametrize(
    ("hint", "right", "wrong", "told"),
    [
        (
            Moments,
            {"local": LOCAL, "zoned": ZONED, "either": ZONED, "clock": "09:30:00Z"},
            {"local": LOCAL, "zoned": LOCAL, "either": LOCAL, "clock": "09:30:00"},
            [
                f'v.zoned: "{LOCAL}" {WANTED}',
                f'v.either: "{LOCAL}" {WANTED}',
                'v.clock: "09:30:00" where a time with its zone, such as 09:30:00Z is wanted',
            ],
        ),
        (Local, {"at": LOCAL}, {"at": ZONED}, [f'v.at: "{ZONED}" {NAIVE}']),
        (pydantic.NaiveDatetime, LOCAL, ZONED, [f'v: "{ZONED}" {NAIVE}']),
        (pydantic.AwareDatetime, ZONED, LOCAL, [f'v: "{LOCAL}" {WANTED}']),
        (datetime.datetime, ZONED, LOCAL, [f'v: "{LOCAL}" {WANTED}']),
        (
            Annotated[datetime.datetime, Meta(tz=False)],
            LOCAL,
            ZONED,
            [f'v: "{ZONED}" {NAIVE}'],
        ),
        (
            datetime.time,
            "09:30:00Z",
            "09:30:00",
            ['v: "09:30:00" where a time with its zone, such as 09:30:00Z is wanted'],
        ),
        (
            Annotated[datetime.time, Meta(tz=False)],
            "09:30:00",
            "09:30:00Z",
            ['v: "09:30:00Z" where a time without a zone, such as 09:30:00 is wanted'],
        ),
    ],
)
def test_a_moment_has_a_zone_unless_its_type_has_none(hint: Any, right: Any, wrong: Any, told: list[str]) -> None:
    """One rule for dates and times, of whoever's class: what the schema asks for is what the type takes."""

    def f(v: Any) -> None: ...

    f.__annotations__["v"] = hint
    arguments = Tool.of(f).arguments
    checks = [arguments.check(json.dumps({"v": value})) for value in (right, wrong)]
    assert checks == [
        (json.dumps({"v": right}, separators=(",", ":")), ""),
        (None, "\n".join(["f was not called; its arguments don't fit:", *(f"- {one}" for one in told)])),
    ]


class Clock(pydantic.BaseModel):
    at: Annotated[datetime.time, Zoneless()]
    on: pydantic.NaiveDatetime


def test_a_moment_of_pydantics_without_a_zone_is_asked_for_without() -> None:
    """Its schema says so too."""
    types = Types()
    told = types.schema(types.shape(Clock))["properties"]
    assert {name: one["format"] for name, one in told.items()} == {"at": "partial-time", "on": "date-time-local"}


# --- unions that hold themselves ----------------------------------------------------------------------------


class Leaf(pydantic.BaseModel):
    kid: Leaf | int | list[Leaf] | dict[str, int] | None = None


class Left(pydantic.BaseModel):
    kid: Left | Right | None = None


class Right(pydantic.BaseModel):
    kids: list[Left | Right] = []


class Odd(pydantic.BaseModel):
    kind: Literal["odd"]
    kid: Annotated[Odd | Even, pydantic.Field(discriminator="kind")] | None = None


class Even(pydantic.BaseModel):
    kind: Literal["even"]
    kid: Annotated[Odd | Even, pydantic.Field(discriminator="kind")] | None = None


@pytest.mark.parametrize(("hint", "refused"), [(Left, True), (list[Right], True), (Leaf, False), (Odd, False)])
def test_a_union_of_models_that_holds_itself_needs_a_discriminator(hint: Any, refused: bool) -> None:
    """Without one pydantic's time doubles with every level of a value, so that a model could hold the host."""
    types = Types()
    try:
        types.schema(types.shape(hint))
        told = ""
    except NoSchema as error:
        told = f"{error}; {error.remedy}"
    assert told == (
        "pydantic tries every model of a union at every level, and this one holds itself; "
        "tell its models apart with Field(discriminator=...), or take dataclasses"
        if refused
        else ""
    )
