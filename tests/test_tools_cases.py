"""Cases that broke other loops, each by its id: arguments (A) and schemas (T)."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
from typing import Any, Literal, TypedDict

import pytest
from jsonschema import Draft202012Validator

from loopmachine.errors import InvalidTool
from loopmachine.tools import Context, Toolbox, tool
from loopmachine.tools.signature import of_function
from tests.test_tools_signature import call, spread
from tests.test_tools_toolbox import perform, prepared


@pytest.mark.parametrize("text", ['["x"]', '"ls"', "7", "null", "true"])
def test_a01_arguments_that_are_no_object_are_answered(text: str) -> None:
    """A01: arguments that are JSON and no object are the model's mistake: an answer that asks for an object."""

    def f(x: int) -> None: ...

    call = prepared("f", text, Toolbox([f]))
    assert (call.checked, call.problem.endswith(" where an object is wanted")) == (None, True)


def test_a06_json_text_for_text_stays_text() -> None:
    """A06: text that happens to be JSON is not touched where text is wanted."""

    def f(content: str) -> str:
        return f"{type(content).__name__} {content}"

    assert perform("f", {"content": '{"a": 1}'}, Toolbox([f])) == ("ok", 'str {"a": 1}', "")


def test_a07_no_truth_value_of_text_is_taken() -> None:
    """A07: "false" is False, "maybe" an error; True is no whole number, and 1 no truth value."""

    def f(flag: bool = False, n: int = 0) -> None: ...

    box = Toolbox([f])
    given: list[dict[str, Any]] = [
        {"flag": "false"},
        {"flag": "TRUE"},
        {"flag": "maybe"},
        {"n": True},
        {"flag": 1},
        {"n": "42"},
        {"n": "3.14"},
        {"n": 3.0},
    ]
    calls = [prepared("f", one, box).checked for one in given]
    assert calls == ['{"flag":false}', '{"flag":true}', None, None, None, '{"n":42}', None, '{"n":3}']


def test_a08_large_integers_keep_every_digit() -> None:
    """A08: whole numbers never go through a float, written as numbers or as text."""

    def f(id: int) -> int:  # noqa: A002  the case
        return id

    texts = ['{"id": "1234567890123456789"}', '{"id": 9007199254740993}', '{"id": "99999999999999999999"}']
    assert [perform("f", text, Toolbox([f]))[1] for text in texts] == [
        "1234567890123456789",
        "9007199254740993",
        "99999999999999999999",
    ]


def test_a12_escaped_pairs_are_one_character_and_lone_halves_break_nothing() -> None:
    """A12: an escaped emoji is read by a real decoder, and half a character in a result can be sent on."""

    def f(s: str) -> str:
        return f"{len(s)} x\ud835y"

    outcome, content, _ = perform("f", '{"s": "\\ud83c\\udf78"}', Toolbox([f]))
    assert (outcome, content, content.encode()) == ("ok", "1 x\\ud835y", b"1 x\\ud835y")


def test_t03_variadics_are_refused_and_positional_ones_passed_by_position() -> None:
    """T03: a signature that can't be expressed is refused early; positional-only parameters are passed by position."""

    def g(x: int, /, y: int, *, z: int = 1) -> Any:
        return x, y, z

    schema = of_function(g, "g").schema
    assert (list(schema["properties"]), schema["required"], call(g, {"x": 1, "y": 2})) == (
        ["x", "y", "z"],
        ["x", "y"],
        (1, 2, 1),
    )
    with pytest.raises(InvalidTool):
        of_function(spread, "spread")


def test_t01_hints_that_are_text_are_resolved_when_the_tool_is_made() -> None:
    """T01: under ``from __future__ import annotations`` hints are resolved at decoration, not at the call."""

    def f(a: int | None = None, m: Literal["x", "y"] = "x", n: list[int] = []) -> None: ...  # noqa: B006  the case

    assert of_function(f, "f").schema == {
        "type": "object",
        "properties": {
            "a": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
            "m": {"type": "string", "enum": ["x", "y"], "default": "x"},
            "n": {"type": "array", "items": {"type": "integer"}, "default": []},
        },
        "required": [],
        "additionalProperties": False,
    }


class Level(enum.Enum):
    """Two levels."""

    LOW = 1
    HIGH = 2


class Colour(enum.Enum):
    """One colour."""

    RED = "r"


def test_t02_values_of_literals_and_enums_keep_their_types() -> None:
    """T02: the type comes from the values, and True is not taken for 1 nor 1 for True."""

    @tool
    def f(a: Literal[1, 2], b: Literal["x", 3, None], c: Level, d: Literal[True, False]) -> None: ...

    schema = f.input_schema["properties"]
    good = {"a": 1, "b": None, "c": 2, "d": True}
    refused = [f.arguments.check(json.dumps({**good, **wrong}))[0] for wrong in ({"a": True}, {"c": True}, {"d": 1})]
    assert (schema["a"], schema["b"], schema["d"]) == (
        {"type": "integer", "enum": [1, 2]},
        {"enum": ["x", 3, None]},
        {"type": "boolean", "enum": [True, False]},
    )
    assert (schema["c"]["type"], schema["c"]["enum"], refused) == ("integer", [1, 2], [None] * 3)
    assert f.signature.bind(json.dumps(good), Context())[1] == {"a": 1, "b": None, "c": Level.HIGH, "d": True}


def test_t05_the_hints_are_honoured_all_the_way_down() -> None:
    """T05: what the hint says is what the tool gets, and errors name the path."""

    @dataclasses.dataclass
    class P:
        x: int
        when: datetime.date

    class TD(TypedDict, total=False):
        a: int

    @tool
    def f(p: P, ps: list[P], c: Colour, o: P | None = None, d: TD = {}) -> Any:  # noqa: B006  the case
        return p, ps, c, o, d

    given = {
        "p": {"x": 1, "when": "2024-02-29"},
        "ps": [{"x": 2, "when": "2024-03-01"}],
        "c": "r",
        "d": {"a": 1},
    }
    Draft202012Validator(f.input_schema).validate(given)
    args, kwargs = f.signature.bind(f.arguments.check(json.dumps(given))[0] or "", Context())
    assert f(*args, **kwargs) == (
        P(1, datetime.date(2024, 2, 29)),
        [P(2, datetime.date(2024, 3, 1))],
        Colour.RED,
        None,
        {"a": 1},
    )
    given["ps"] = [{"x": 2, "when": "tomorrow"}]
    assert "- ps[0].when: " in f.arguments.check(json.dumps(given))[1]


@dataclasses.dataclass
class Result:
    """What a tool might return."""

    x: int


RETURNED: list[Any] = [
    float("nan"),
    [float("inf")],
    datetime.time(9, 30),
    decimal.Decimal("1.10"),
    {1},
    b"\xff",
    Colour.RED,
    Result(1),
    None,
    object(),
]


@pytest.mark.parametrize("value", RETURNED)
def test_l31_what_a_tool_returns_never_undoes_its_effect(value: Any) -> None:
    """L31: whatever a tool that worked returns, its result is ok and is text that any parser reads."""

    def f() -> Any:
        return value

    outcome, content, _ = perform("f", "{}", Toolbox([f]))
    assert (outcome, content != "") == ("ok", True)
    json.loads(content, parse_constant=pytest.fail)
