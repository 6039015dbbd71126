"""Arguments with the defaults that their schema tells."""

from __future__ import annotations

import copy
import datetime
import itertools
import json
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

import attrs
import msgspec
import pydantic
import pytest
from pydantic import BaseModel

from loopmachine.tools import Context, Tool, tool
from loopmachine.tools.defaults import fill, gaps, with_defaults

ITEM: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer", "default": 1}, "m": {}}}
OPEN: dict[str, Any] = {"$ref": "#/$defs/node"}
NODE: dict[str, Any] = {"properties": {"next": {**OPEN, "default": {}}, "n": {"default": 1}}}


def filled(schema: dict[str, Any], value: Any, fits: Callable[[], bool] = lambda: True) -> Any:
    """The value, what was left out put in."""
    fill(gaps(schema, value), fits)
    return value


@pytest.mark.parametrize(
    ("schema", "value", "whole"),
    [
        (ITEM, {}, {"n": 1}),
        (ITEM, {"n": 2}, {"n": 2}),
        (ITEM, {"m": {}}, {"m": {}, "n": 1}),
        ({"properties": {"a": ITEM, "b": True}}, {"a": {}, "b": {}}, {"a": {"n": 1}, "b": {}}),
        ({"properties": {"a": ITEM, "b": True}}, {}, {}),
        ({"additionalProperties": ITEM, "properties": {"a": {}}}, {"a": {}, "b": {}}, {"a": {}, "b": {"n": 1}}),
        ({"patternProperties": {"^x": ITEM}, "additionalProperties": False}, {"x": {}}, {"x": {"n": 1}}),
        ({"patternProperties": {"^x": {}}, "additionalProperties": ITEM}, {"x": {}, "y": {}}, {"x": {}, "y": {"n": 1}}),
        ({"items": ITEM}, [{}, 5, {"n": 2}], [{"n": 1}, 5, {"n": 2}]),
        ({"prefixItems": [{}, ITEM], "items": {"items": ITEM}}, [{}, {}, [{}]], [{}, {"n": 1}, [{"n": 1}]]),
        ({"prefixItems": [{"default": 1}, {"default": 2}, {}, {"default": 4}]}, [0], [0, 2]),
        ({"prefixItems": [{"default": 1}]}, [0, 9], [0, 9]),
        ({"allOf": [ITEM, {"properties": {"o": {"default": [2]}, "n": {"default": 9}}}]}, {}, {"n": 1, "o": [2]}),
        ({"anyOf": [{"type": "null"}, ITEM]}, {}, {"n": 1}),
        ({"anyOf": [{"type": "null"}, ITEM]}, None, None),
        ({"anyOf": [{**ITEM, "required": ["m"]}, {"properties": {"k": {"default": 2}}}, ITEM]}, {}, {"k": 2}),
        ({"oneOf": [{**ITEM, "required": ["m"]}, {"properties": {"n": {"default": 2}}}]}, {}, {"n": 2}),
        ({"$ref": "#/$defs/a~1b~0", "$defs": {"a/b~": ITEM}}, {}, {"n": 1}),
        ({**NODE, "$defs": {"node": NODE}}, {}, {"next": {}, "n": 1}),
        ({**NODE, "$defs": {"node": NODE}}, {"next": {}}, {"next": {"next": {}, "n": 1}, "n": 1}),
    ],
)
def test_what_was_left_out_is_put_in(schema: dict[str, Any], value: Any, whole: Any) -> None:
    """Wherever the schema tells a default for what the value may have there; what stands there stays as it is."""
    before = copy.deepcopy(schema)
    assert (filled(schema, value), schema) == (whole, before)


def test_a_schema_that_tells_of_a_part_many_times_is_followed_once() -> None:
    """Or the time would double with each level."""
    twice = {"properties": {"a": OPEN, "n": {"default": 1}}, "allOf": [{"properties": {"a": OPEN}}] * 9}
    value: dict[str, Any] = {}
    for _ in range(60):
        value = {"a": value}
    whole = filled({**OPEN, "$defs": {"node": twice}}, value)
    depth = 0
    while "a" in whole:
        assert whole["n"] == 1
        whole, depth = whole["a"], depth + 1
    assert (whole, depth) == ({"n": 1}, 60)


@dataclass
class Order:
    """An order."""

    to: str
    amount: int = 1000
    tags: list[str] = field(default_factory=lambda: ["new"])


class Span(NamedTuple):
    """From one to the other."""

    first: int
    last: int = 9


class Card(BaseModel):
    """Paid by card."""

    by: Literal["card"]
    fee: int = 5


class Bank(BaseModel):
    """Paid by bank."""

    by: Literal["bank"]
    fee: int = 7


def test_what_the_classes_of_a_tool_would_fill_in_is_told() -> None:
    """As far as the schema tells it: the value that a factory makes is told by nobody."""

    @tool
    def act(
        order: Order, span: Span, by: Card | Bank, orders: dict[str, list[Order]], more: Order | None = None
    ) -> str:
        return repr((order, span, by, orders, more))

    given = {"order": {"to": "a"}, "span": [1], "by": {"by": "bank"}, "orders": {"x": [{"to": "b"}]}}
    text = json.dumps(given, separators=(",", ":"))
    whole = with_defaults(act, text)
    assert json.loads(whole) == {
        "order": {"to": "a", "amount": 1000},
        "span": [1, 9],
        "by": {"by": "bank", "fee": 7},
        "orders": {"x": [{"to": "b", "amount": 1000}]},
        "more": None,
    }
    assert act(**act.signature.typed(text)) == act(**act.signature.typed(whole))


# --- what is put in -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [*map(set, itertools.chain(*(itertools.combinations("abcd", n) for n in range(5))))])
def test_each_default_is_judged_alone(bad: set[str]) -> None:
    """Those that don't fit are left out, and no other."""
    value: dict[str, Any] = {}
    filled({"properties": {name: {"default": 1} for name in "abcd"}}, value, lambda: not bad & value.keys())
    assert value.keys() == {*"abcd"} - bad


def test_in_a_list_nothing_is_put_behind_what_does_not_fit() -> None:
    """For it would stand at another place."""
    value = [0]
    filled({"prefixItems": [{"default": one} for one in range(5)]}, value, lambda: 2 not in value)
    assert value == [0, 1]


def test_what_fits_is_asked_as_often_as_the_schema_has_defaults_not_the_value() -> None:
    """Or a model could write a list that takes hours."""
    asked = []
    values: list[Any] = [{} for _ in range(1000)]

    def fits() -> bool:
        asked.append(1)
        return not any("n" in one for one in values)

    schema = {"items": {"properties": {"m": {"default": 0}, "n": {"default": 1}}}}
    assert (filled(schema, values, fits), len(asked)) == ([{"m": 0}] * 1000, 3)


def test_where_nothing_is_left_out_nothing_is_asked() -> None:
    """So that it costs nothing."""
    asked = itertools.count()
    assert (filled(ITEM, {"n": 2}, lambda: bool(next(asked))), next(asked)) == ({"n": 2}, 0)


@dataclass
class Celsius:
    """Read first."""

    deg: float


@dataclass
class Fahrenheit:
    """Read second."""

    deg: float


@dataclass
class Doubled:
    """Made twice, it is doubled twice."""

    v: int

    def __post_init__(self) -> None:
        self.v *= 2


@dataclass(eq=False)
class Unequal:
    """Equal to itself only."""

    v: int = 1


@dataclass(eq=False)
class UnequalDoubled:
    """Equal to itself only."""

    v: int

    def __post_init__(self) -> None:
        self.v *= 2


@attrs.define
class Mail:
    """attrs takes the underscore off."""

    to: str
    _dry_run: bool = False


class Rate(BaseModel):
    """A default is not validated, a value is."""

    per: str = "h"
    rate: float = 20.0
    retries: int = pydantic.Field(default=-1, ge=0)
    key: pydantic.SecretStr = pydantic.SecretStr("hunter2")

    @pydantic.field_validator("rate")
    @classmethod
    def _percent(cls, value: float) -> float:
        return value / 100


class Point(NamedTuple):
    """Equal to a tuple."""

    x: int
    y: int


class Held(msgspec.Struct):
    """Holds anything."""

    v: Any = None


@attrs.frozen
class Wide(Celsius):
    """More than what is asked for."""

    deg: float = 3.0


Raised = Annotated[int, pydantic.AfterValidator(lambda value: value + 1)]
HERE = datetime.datetime(2026, 7, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Stockholm"))


@pytest.mark.parametrize(
    ("hint", "default"),
    [
        (Celsius | Fahrenheit, Fahrenheit(350)),
        (Mail, Mail("boss", dry_run=True)),
        (Doubled, Doubled(1)),
        (UnequalDoubled, UnequalDoubled(1)),
        (Raised, 3),
        (Any, (1, 2)),
        (Any, datetime.date(2026, 1, 2)),
        (Any, {"a": {"b": (1, 2)}}),
        (tuple[int, int], Point(1, 2)),
        (set[tuple[int, int]], {Point(1, 2)}),
        (Annotated[list[Unequal], pydantic.AfterValidator(lambda value: [*value, value[0]])], [Unequal(1)]),
        (Celsius, Wide(1.0)),
        (Held, Held((1, 2))),
        (Held, Held({True})),
        (datetime.datetime, HERE),
    ],
)
def test_a_default_that_would_come_back_as_another_value_is_left_to_the_tool(hint: Any, default: Any) -> None:
    """Whoever changes it, a class, a union, or JSON; the others are put in all the same."""

    def act(other: int, it: Any, more: str) -> None: ...

    act.__annotations__["it"] = hint
    act.__defaults__ = (7, default, "x")
    told = tool(act)
    assert "default" in told.input_schema["properties"]["it"]
    assert with_defaults(told, "{}") == '{"other":7,"more":"x"}'


@pytest.mark.parametrize(
    ("hint", "default", "text"),
    [
        (Celsius | Fahrenheit, Celsius(20.0), '{"deg":20.0}'),
        (Unequal, Unequal(2), '{"v":2}'),
        (set[Any], {1}, "[1]"),
        (float, 1000, "1000"),
        (list[Mail], [], "[]"),
        (Point, Point(1, 2), "[1,2]"),
        (Any, None, "null"),
    ],
)
def test_a_default_that_comes_back_as_itself_is_put_in(hint: Any, default: Any, text: str) -> None:
    """A whole number that stands for a float is that float; what is equal to itself only is told by what it holds."""

    def act(it: Any) -> None: ...

    act.__annotations__["it"] = hint
    act.__defaults__ = (default,)
    assert with_defaults(tool(act), "{}") == f'{{"it":{text}}}'


def test_a_default_that_its_own_class_would_change_or_refuse_hides_no_other() -> None:
    """pydantic validates what it is given, and not its defaults."""

    @tool
    def pay(it: Rate, amount: int = 1000) -> None: ...

    assert with_defaults(pay, '{"it":{}}') == '{"it":{"per":"h"},"amount":1000}'


def test_what_is_made_anew_for_each_call_hides_no_default() -> None:
    """An id differs between any two calls; and so may a length, and a type."""
    numbers, odd = itertools.count(), itertools.count()

    @dataclass
    class Ticket:
        text: str
        rank: int = 3
        key: str = field(default_factory=lambda: f"t{next(numbers)}")
        log: list[int] = field(default_factory=lambda: [1] * next(numbers))
        pair: list[int] = field(default_factory=lambda: [next(numbers), 1])
        some: Any = field(default_factory=lambda: [next(numbers)] if next(odd) % 2 else next(numbers))

    @tool
    def file(ticket: Ticket, it: Celsius | Fahrenheit = Fahrenheit(1)) -> None: ...  # noqa: B008  it is what is tested

    assert with_defaults(file, '{"ticket":{"text":"a"}}') == '{"ticket":{"text":"a","rank":3}}'


def test_the_context_is_no_argument() -> None:
    """A new one is made for each call."""

    @tool
    def act(context: Context, it: int = 1, /) -> None: ...

    assert with_defaults(act, "{}") == '{"it":1}'


READY: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer", "default": 5}, "m": {"default": 1}}}


@pytest.mark.parametrize(
    ("handler", "whole"),
    [
        (lambda n=5, m=2: None, '{"n":5}'),
        (lambda n=5, m=1: None, '{"n":5,"m":1}'),
        (lambda n=5, m=True: None, '{"n":5}'),
        (lambda **named: None, "{}"),
        (lambda m=1, **named: None, '{"m":1}'),
        (lambda n, m: None, "{}"),
        (lambda n=5, m=Doubled: None, '{"n":5}'),
        (dict, "{}"),
    ],
)
def test_of_a_ready_schema_those_defaults_are_put_in_that_its_handler_has(
    handler: Callable[..., Any], whole: str
) -> None:
    """A handler that takes any names is called with those that it is given, and one more would be another call."""
    assert with_defaults(Tool("ready", "", READY, handler), "{}") == whole


def test_a_default_that_the_check_coerces_is_put_in_as_the_tool_gets_it() -> None:
    """Who is asked sees a number where the tool gets one."""
    schema = {"type": "object", "properties": {"n": {"type": "integer", "default": "5"}}}
    assert with_defaults(Tool("ready", "", schema, lambda n=5: None), "{}") == '{"n":5}'


def test_a_default_of_which_nothing_can_be_said_is_left_to_the_tool() -> None:
    """Such as one that raises when it is looked at."""

    class Odd:
        def __repr__(self) -> str:
            raise ArithmeticError

    odd = Odd()
    assert with_defaults(Tool("ready", "", READY, lambda n=5, m=odd: None), "{}") == "{}"
