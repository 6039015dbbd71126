"""What classes refuse of values that their schemas take: a line for each place, with the value that stands there."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import json
import uuid
from collections.abc import Mapping, Set
from typing import Annotated, Any, NamedTuple, Optional

import annotated_types
import attrs
import msgspec
import pydantic
import pytest
from msgspec import Meta
from typing_extensions import TypeAliasType

from loopmachine.tools import Tool
from loopmachine.tools.reading import TOO_DEEP
from loopmachine.tools.refusals import refusal

SAID = "f was not called; its arguments don't fit:\n"


@dataclasses.dataclass
class Even:
    n: int

    def __post_init__(self) -> None:
        if self.n % 2:
            raise ValueError(f"{self.n} is odd")


class Pair(NamedTuple):
    left: Even
    right: Even | None = None


@attrs.frozen
class Box:
    items: list[Even]
    width: int = attrs.field(default=1, validator=attrs.validators.gt(0))


@dataclasses.dataclass
class Mute:
    n: int

    def __post_init__(self) -> None:
        raise KeyError("mute")


class Order(pydantic.BaseModel):
    price: int
    lines: list[int | None] = []
    names: dict[str, str] = {}

    @pydantic.field_validator("price")
    @classmethod
    def is_low(cls, price: int) -> int:
        if price > 9:
            raise ValueError("too dear")
        return price

    @pydantic.field_validator("names", "lines")
    @classmethod
    def is_short(cls, held: Any) -> Any:
        if len(held) > 1:
            raise ValueError("too many")
        return held


class Basket(pydantic.BaseModel):
    one: Order | int


class Whole(pydantic.BaseModel):
    n: int

    @pydantic.model_validator(mode="after")
    def is_small(self) -> Whole:
        raise ValueError("never")


Odd = {"n": 3}
Fine = {"n": 2}
ODD = '{"n": 3} is refused: 3 is odd'
Evens = TypeAliasType("Evens", "list[Evens] | Even")
MINUS = """v['-1']: the name "-1" is refused: Expected `int` >= 0"""
LONG = "is refused: Duration is out of range"


@pytest.mark.parametrize(
    ("hint", "value", "told"),
    [
        (Even, Odd, [f"v: {ODD}"]),
        (Optional[Even], Odd, [f"v: {ODD}"]),  # noqa: UP045  the other way to write it
        (Even | None, Odd, [f"v: {ODD}"]),
        (Even | str | float, Odd, [f"v: {ODD}"]),
        (list[Even], [Odd, Fine, Odd], [f"v[0]: {ODD}", f"v[2]: {ODD}"]),
        (Annotated[list[Even], Meta(max_length=3)], [Fine, Odd], [f"v[1]: {ODD}"]),
        (list[Even] | dict[str, Even] | None, [Odd], [f"v[0]: {ODD}"]),
        (list[Even] | dict[str, Even] | None, {"a": Odd}, [f"v.a: {ODD}"]),
        (Mapping[str, list[Even]], {"a": [Odd], "b c": [Odd]}, [f"v.a[0]: {ODD}", f"v['b c'][0]: {ODD}"]),
        (tuple[Even, ...], [Fine, Odd], [f"v[1]: {ODD}"]),
        (tuple[int, Even], [1, Odd], [f"v[1]: {ODD}"]),
        (Pair, [Odd, Odd], [f"v[0]: {ODD}", f"v[1]: {ODD}"]),
        (Pair, [Odd], [f"v[0]: {ODD}"]),
        (Box, {"items": [Odd, Fine], "width": -1}, [f"v.items[0]: {ODD}"]),
        (
            Box,
            {"items": [Fine], "width": -1},
            ['v: {"items": [{"n": 2}], "width": -1} is refused: \'width\' must be > 0: -1'],
        ),
        (Evens, [[Odd], Fine], [f"v[0][0]: {ODD}"]),
        (Annotated[list[Even], annotated_types.Predicate(bool)], [Odd], [f"v[0]: {ODD}"]),
        (Annotated[list[Even], annotated_types.Predicate(bool)], [], ["v: [] is refused: it does not pass bool"]),
        (Mute, Odd, ["v: {\"n\": 3} is refused: KeyError: 'mute'"]),
        (
            list[Order],
            [{"price": 10, "lines": [1, None], "names": {}}, {"price": 1, "names": {"a": "b", "c": "d"}}],
            [
                "v[0].price: 10 is refused: Value error, too dear",
                "v[0].lines: [1, null] is refused: Value error, too many",
                'v[1].names: {"a": "b", "c": "d"} is refused: Value error, too many',
            ],
        ),
        (
            Basket,
            {"one": {"price": 10}},
            [
                "v.one.price: 10 is refused: Value error, too dear",
                'v.one: {"price": 10} is refused: Input should be a valid integer',
            ],
        ),
        (Whole | None, Odd, ['v: {"n": 3} is refused: Value error, never']),
        (list[datetime.timedelta], ["P1D", "P999999999W"], [f'v[1]: "P999999999W" {LONG}']),
        (dict[Annotated[int, Meta(ge=0)], int], {"-1": 1, "2": 2, "-3": 4}, [MINUS, MINUS.replace("1", "3")]),
        (list[dict[Annotated[int, Meta(ge=0)], int] | None], [None, {"-1": 1}], [MINUS.replace("v", "v[1]", 1)]),
        (dict[datetime.timedelta, Even], {"P1W": Odd, "P7D": Fine}, [f"v.P1W: {ODD}"]),
        (list[float], [10**400, 1.5], [f"v[0]: 1{'0' * 76}... is refused: Number out of range"]),
    ],
)
def test_each_place_is_told_with_its_value(hint: Any, value: Any, told: list[str]) -> None:
    """The parts that a class refuses are told, and only where they are right the whole that holds them."""

    def f(v: Any) -> None: ...

    f.__annotations__["v"] = hint
    checked, said = Tool.of(f).arguments.check(json.dumps({"v": value}))
    assert (checked, said) == (None, SAID + "\n".join(f"- {one}" for one in told))


def test_all_parameters_are_told_of() -> None:
    """One that is refused hides no other; twenty are told, and that there may be more."""

    def f(a: Even, b: list[Even], c: int = 1) -> None: ...

    tool = Tool.of(f)
    several, many = ({"a": Odd, "b": [Odd] * count, "c": 1} for count in (1, 30))
    told = [tool.arguments.check(json.dumps(given))[1].removeprefix(SAID).split("\n") for given in (several, many)]
    assert told == [
        [f"- a: {ODD}", f"- b[0]: {ODD}"],
        [f"- a: {ODD}", *[f"- b[{place}]: {ODD}" for place in range(19)], "- and there may be more"],
    ]


NO_WHOLE = '"x" where a whole number is wanted'
NOT = f"c: {NO_WHOLE}"


@pytest.mark.parametrize(
    ("hint", "value", "told"),
    [
        (Even, Odd, [NOT, f"v: {ODD}"]),
        (Even, {"n": "3"}, [NOT, f"v: {ODD}"]),
        (Even, {"n": "x"}, [f"v.n: {NO_WHOLE}", NOT]),
        (list[Even], [Odd, {"n": "x"}, Fine, {"n": "3"}], [f"v[1].n: {NO_WHOLE}", NOT, f"v[0]: {ODD}", f"v[3]: {ODD}"]),
        (
            Box,
            {"items": [Odd], "q": 1},
            ["v.q: there is no 'q' here; known names: items, width", NOT, f"v.items[0]: {ODD}"],
        ),
        (
            Mapping[str, list[Even]],
            {"a": [Odd, {}]},
            ["v.a[1].n: missing; a whole number is wanted", NOT, f"v.a[0]: {ODD}"],
        ),
        (
            Annotated[list[Even], annotated_types.Predicate(bool)],
            [Odd, {"n": "x"}],
            [f"v[1].n: {NO_WHOLE}", NOT, f"v[0]: {ODD}"],
        ),
        (
            Annotated[list[Even], Meta(max_length=1)],
            [Odd, Odd],
            ['v: [{"n": 3}, {"n": 3}] where a list of at most 1 items is wanted', NOT],
        ),
        (list[Even] | None, [Odd], [NOT, f"v[0]: {ODD}"]),
        (list[Even] | None, [{"n": "3"}, {"n": "x"}], [f"v[1].n: {NO_WHOLE}", NOT]),
        (Evens, [Odd, {"n": "3"}, {"n": "x"}], [f"v[2].n: {NO_WHOLE}", NOT]),
        (
            Annotated[list[Even] | None, annotated_types.Predicate(bool)],
            [{"n": "3"}, {"n": "x"}],
            [f"v[1].n: {NO_WHOLE}", NOT],
        ),
        (Annotated[list[Even] | None, Meta(title="V")], [Odd, {"n": "x"}], [f"v[1].n: {NO_WHOLE}", NOT]),
        (list[Even] | dict[str, Even], [Odd, {"n": "x"}], [f"v[1].n: {NO_WHOLE}", NOT]),
        (
            list[Order],
            [{"price": 10}, {"price": "x"}],
            [f"v[1].price: {NO_WHOLE}", NOT, "v[0].price: 10 is refused: Value error, too dear"],
        ),
        (
            list[Even],
            [Odd, {"n": float("nan")}],
            [NOT, "v[1].n: NaN where a finite number of at most 4300 digits is wanted", f"v[0]: {ODD}"],
        ),
        (list[Even], [Odd] * 30, [NOT, *[f"v[{place}]: {ODD}" for place in range(19)], "and there may be more"]),
        (
            list[Even],
            [Odd, *[{"n": "x"}] * 20],
            [*[f"v[{place}].n: {NO_WHOLE}" for place in range(1, 21)], "and there may be more"],
        ),
    ],
)
def test_what_fits_the_schema_is_told_of_beside_what_does_not(hint: Any, value: Any, told: list[str]) -> None:
    """The parts without a mistake of the schema's are told where their class refuses them; in a union none is known."""

    def f(v: Any, c: int) -> None: ...

    f.__annotations__["v"] = hint
    checked, said = Tool.of(f).arguments.check(json.dumps({"v": value, "c": "x"}))
    assert (checked, said) == (None, SAID + "\n".join(f"- {one}" for one in told))


def test_what_is_too_deep_to_be_looked_at_is_told_alone() -> None:
    """Nothing was coerced then, so that no class can be asked."""

    def f(v: Even, w: Evens) -> None: ...

    deep = "[" * 200 + "]" * 200
    assert Tool.of(f).arguments.check(f'{{"v": {{"n": "3"}}, "w": {deep}}}') == (None, f"{SAID}- w[0][0]: {TOO_DEEP}")


def test_no_class_sees_a_number_that_can_not_be_kept() -> None:
    """Of so many that not all are told, those that are not told are not read either."""

    def f(c: int, v: list[Even]) -> None: ...

    told = Tool.of(f).arguments.check(json.dumps({"c": [float("nan")] * 30, "v": [{"n": float("nan")}]}))
    many = '"NaN", ' * 10
    assert told == (None, f'{SAID}- c: [{many}"NaN",... where a whole number is wanted')


def test_a_refusal_says_where_each_class_stands_in_the_other() -> None:
    """Places that classes tell of one another are put together; names that are no text say that they are names."""
    told = [
        refusal(msgspec.ValidationError(said))
        for said in (
            "too few",
            "too few - at `$`",
            "too few - at `$.a[0].b`",
            "too few - at `$.b` - at `$.a[0]`",
            "no whole number - at `key` in `$.a`",
        )
    ]
    assert told == [
        "the arguments: too few",
        "the arguments: too few",
        "a[0].b: too few",
        "a[0].b: too few",
        "a: no whole number",
    ]


@dataclasses.dataclass
class Endless:
    n: int

    def __post_init__(self) -> None:
        self.__post_init__()


def test_a_class_that_calls_itself_without_end_is_too_deep() -> None:
    """It is answered, as arguments that are nested too deeply are."""

    def f(v: Endless) -> None: ...

    assert Tool.of(f).arguments.check('{"v": {"n": 1}}') == (None, f"{SAID}- {TOO_DEEP}")


ID = "12345678-1234-5678-1234-56781234567"


@dataclasses.dataclass(frozen=True)
class Spot:
    x: int
    y: int = 0


@pytest.mark.parametrize(
    ("hint", "given"),
    [
        (dict[float, str], {"1": "a", "2": "c", "1.0": "b"}),
        (dict[float, str], {"9007199254740993": "a", "9007199254740992": "b"}),
        (dict[int | float, str], {"1": "a", "1.0": "b"}),
        (dict[decimal.Decimal, str], {"1": "a", "1.00": "b"}),
        (dict[uuid.UUID, str], {f"{ID}a": "a", f"{ID}A": "b"}),
        (dict[datetime.datetime, str], {"2024-02-29T09:30:00Z": "a", "2024-02-29T10:30:00+01:00": "b"}),
        (dict[datetime.timedelta, str], {"P1W": "a", "P7D": "b"}),
        (Mapping[bytes, str], {"aGk=": "a", "aGl=": "b"}),
        (Annotated[dict[float, str], Meta(min_length=2)], {"1": "a", "1.0": "b"}),
        (
            Annotated[Annotated[dict[float, str], annotated_types.Predicate(bool)], Meta(min_length=2)],
            {"1": "a", "1.0": "b"},
        ),
        (dict[float, str] | None, {"1": "a", "1.0": "b"}),
        (dict[float, str] | list[int], {"1": "a", "1.0": "b"}),
    ],
)
def test_names_that_are_the_same_once_they_are_read_are_told(hint: Any, given: dict[str, str]) -> None:
    """As names are that are given twice: nothing is lost without a word. Both names are told, with their values."""

    def f(v: Any) -> None: ...

    f.__annotations__["v"] = list[hint]
    a, b = (json.dumps(name) for name, value in given.items() if value in "ab")
    checked, said = Tool.of(f).arguments.check(json.dumps({"v": [given]}))
    assert (checked, said.partition(" is refused: ")[2]) == (
        None,
        f'the names {a}, for "a", and {b}, for "b", are the same; give one',
    )
    assert said.startswith(SAID + "- v[0]: {")


@pytest.mark.parametrize(
    ("hint", "given"),
    [
        (set[decimal.Decimal], ["1", "1.0"]),
        (frozenset[uuid.UUID], [f"{ID}a", f"{ID}A"]),
        (set[datetime.datetime], ["2024-02-29T09:30:00Z", "2024-02-29T10:30:00+01:00"]),
        (set[datetime.timedelta], ["P1W", "P7D"]),
        (Set[float], [2**53 + 1, 2**53]),
        (set[bytes], ["aGk=", "aGl="]),
        (set[Any], [1, True]),
        (set, [0, False]),
        (set[Spot], [{"x": 1}, {"x": 1, "y": 0}]),
        (set[tuple[bytes, int]], [["aGk=", 1], ["aGl=", 1]]),
        (Annotated[set[decimal.Decimal], Meta(min_length=2)], ["1", "1.0"]),
    ],
)
def test_items_of_a_set_that_are_the_same_once_they_are_read_are_told(hint: Any, given: list[Any]) -> None:
    """As equal ones are, such as [1, 1] for a set of whole numbers."""

    def f(v: Any) -> None: ...

    f.__annotations__["v"] = hint
    one, other = map(json.dumps, given)
    said = f"{one} and {other} are the same where a list without doubles is wanted"
    assert Tool.of(f).arguments.check(json.dumps({"v": given})) == (
        None,
        f"{SAID}- v: {json.dumps(given)} is refused: {said}",
    )


def test_each_whole_number_has_one_name() -> None:
    """So that no two names in an object are the same number."""

    def f(v: dict[int, str]) -> None: ...

    wanted = 'where text that the pattern "^(0|-?[1-9][0-9]*)$" matches is wanted'
    assert Tool.of(f).arguments.check('{"v": {"-0": "a", "0": "b", "01": "c", "-10": "d"}}') == (
        None,
        f"""{SAID}- v['-0']: the name "-0" {wanted}\n- v.01: the name "01" {wanted}""",
    )
