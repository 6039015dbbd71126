"""Tools: made of typed functions or of ready schemas, with what the machine must know of them."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import math
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from loopmachine.errors import InvalidTool
from loopmachine.tools import Context, Tool, tool

NAMED = {"type": "object", "properties": {"name": {"type": "string"}}, "additionalProperties": False}


@tool
def price(symbol: str, shares: int = 1) -> float:
    """What shares are worth.

    Args:
        symbol: Which share.
    """
    return 2.5 * shares


def greet(name: str = "you") -> str:
    """A plain function."""
    return f"hello {name}"


def test_a_decorated_function_is_a_tool_and_still_the_function() -> None:
    """The bare decorator gives a tool with the defaults, which can be called like the function."""
    told = price.name, price.description, price.effect, price.needs_approval, price.max_calls, price.sequential
    assert (*told, price.timeout) == ("price", "What shares are worth.", "once", False, None, False, None)
    assert (price("X"), price("X", shares=2), price.is_async) == (2.5, 5.0, False)


def test_the_decorator_takes_options() -> None:
    """Each option is kept on the tool."""
    asks = {"amount": 5}.__contains__

    @tool(
        name="pay.now",
        description="Pay it.",
        effect="transactional",
        needs_approval=asks,
        max_calls=2,
        sequential=True,
        timeout=2.5,
    )
    async def pay(amount: int) -> None:
        """Other words."""

    told = attrs.asdict(pay, filter=lambda field, _: field.name not in ("handler", "signature", "arguments"))
    assert told == {
        "name": "pay.now",
        "description": "Pay it.",
        "input_schema": {
            "type": "object",
            "properties": {"amount": {"type": "integer"}},
            "required": ["amount"],
            "additionalProperties": False,
        },
        "effect": "transactional",
        "needs_approval": asks,
        "max_calls": 2,
        "sequential": True,
        "timeout": 2.5,
        "is_async": True,
    }


def test_types_local_to_the_caller_are_found() -> None:
    """T01: under postponed annotations, a local class is found where the decorator stands, bare or with options."""

    @dataclasses.dataclass
    class Local:
        n: int

    @tool
    def first(local: Local) -> None: ...

    @tool(effect="read")
    def second(local: Local) -> None: ...

    assert [list(one.input_schema["$defs"]) for one in (first, second)] == [["Local"], ["Local"]]


def test_a_tool_of_a_ready_schema_calls_its_handler() -> None:
    """A ready schema and its handler make a tool without any hints."""
    ready = Tool("hello", "Greet.", NAMED, greet, effect="read")
    assert (ready.name, ready.description, ready.input_schema, ready.effect, ready(name="me")) == (
        "hello",
        "Greet.",
        NAMED,
        "read",
        "hello me",
    )


def test_a_schema_belongs_to_its_tool() -> None:
    """A change to the dict that was given changes nothing of the tool."""
    schema = json.loads(json.dumps(NAMED))
    ready = Tool("hello", "", schema, greet)
    schema["properties"]["name"]["type"] = "integer"
    assert (ready.input_schema, ready.arguments.check('{"name":"x"}')) == (NAMED, ('{"name":"x"}', ""))


def test_a_tool_cannot_be_changed() -> None:
    """A tool is frozen; a changed copy is made with attrs."""
    with pytest.raises(AttributeError):
        price.effect = "read"  # type: ignore[misc]
    assert attrs.evolve(price, effect="read").effect == "read"


def test_every_wrong_option_is_told_at_once() -> None:
    """Options that can't be are refused together, each by name with what would have been right."""

    async def ask(arguments: dict[str, Any]) -> None: ...

    wrong: dict[str, Any] = {"effect": "write", "needs_approval": ask, "max_calls": 0, "sequential": 1, "timeout": 0}
    with pytest.raises(InvalidTool) as caught:
        Tool("a b", 5, [], "no", **wrong)  # type: ignore[arg-type]
    assert str(caught.value).split("; ") == [
        "'a b' can't be a tool: name must be 1 to 128 of the characters A-Z a-z 0-9 _ - . /",
        "give another with name=",
        "description must be text, not 5",
        "input_schema must be a JSON Schema, a dict",
        "handler must be callable, not 'no'",
        "effect must be one of 'read', 'idempotent', 'transactional', 'once', not 'write'",
        f"needs_approval must be True, False or a function of the arguments, not async, not {ask!r}",
        "max_calls must be a positive whole number or None, not 0",
        "sequential must be True or False, not 1",
        "timeout must be a positive, finite number of seconds or None, not 0",
    ]


@pytest.mark.parametrize(
    ("ask", "taken"),
    [
        (lambda: True, False),
        (lambda **given: True, False),
        (lambda amount, note: True, False),
        (lambda *, amount: True, False),
        (lambda given: True, True),
        (lambda given, least=5: True, True),
        (lambda *given: True, True),
        (bool, True),
    ],
)
def test_a_predicate_takes_the_arguments_as_one_dict(ask: Callable[..., bool], taken: bool) -> None:
    """One that could not be called so is refused at once; one that does not tell how it is called is taken."""
    said = ""
    try:
        tool(name="act", needs_approval=ask)(lambda: None)
    except InvalidTool as error:
        said = str(error)
    wanted = f"'act' can't be a tool: needs_approval must take the arguments as one dict, which {ask!r} does not"
    assert said == ("" if taken else wanted)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"name": ""}, "name must be"),
        ({"name": "x" * 129}, "name must be"),
        ({"name": "prix-é"}, "name must be"),
        ({"name": 5}, "name must be"),
        ({"effect": None}, "effect must be"),
        ({"needs_approval": None}, "needs_approval must be"),
        ({"needs_approval": 1}, "needs_approval must be"),
        ({"max_calls": True}, "max_calls must be"),
        ({"max_calls": 1.0}, "max_calls must be"),
        ({"max_calls": -1}, "max_calls must be"),
        ({"sequential": None}, "sequential must be"),
        ({"timeout": True}, "timeout must be"),
        ({"timeout": -0.5}, "timeout must be"),
        ({"timeout": math.nan}, "timeout must be"),
        ({"timeout": math.inf}, "timeout must be"),
        ({"timeout": "5"}, "timeout must be"),
    ],
)
def test_a_wrong_option_of_the_decorator_is_told(options: dict[str, Any], word: str) -> None:
    """The decorator refuses what a tool refuses."""
    with pytest.raises(InvalidTool, match=word):
        tool(**options)(greet)


def test_an_option_that_is_not_known_is_told() -> None:
    """A misspelt option is Python's own TypeError, when the decorator is called."""
    with pytest.raises(TypeError, match="efect"):
        tool(efect="read")  # type: ignore[call-overload]


@pytest.mark.parametrize("thing", [price, dict, 5, None, Context])
def test_what_is_no_function_is_no_tool(thing: Any) -> None:
    """A tool, a class and what can't be called are refused."""
    with pytest.raises(InvalidTool, match="can't become a tool; give a function with type hints"):
        tool()(thing)


def test_a_function_without_a_name_needs_one() -> None:
    """A lambda is told to take a name."""
    with pytest.raises(InvalidTool, match="give another with name="):
        tool(lambda: 5)
    assert [tool(name="five")(lambda: 5).name, tool(functools.partial(greet, "me")).name] == ["five", "greet"]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "object", "default": object()}, "can't be written as JSON"),
        ({"type": "object", "default": float("nan")}, "can't be written as JSON"),
        ({"type": "object", "not": {"if": {}}}, "not.if: this keyword can't be checked"),
        ({"type": "string"}, "the arguments of a tool are an object"),
        ({}, "the arguments of a tool are an object"),
    ],
)
def test_a_schema_that_cannot_be_used_is_told(schema: dict[str, Any], why: str) -> None:
    """A ready schema that is no JSON, holds what can't be checked, or wants no object is refused by the tool's name."""
    with pytest.raises(InvalidTool) as caught:
        Tool("f", "", schema, greet)
    assert (str(caught.value)[:23], why in str(caught.value)) == ("f: its input_schema can", True)


@pytest.mark.parametrize("told", [tool.__doc__, inspect.getsource(Tool)], ids=["tool", "Tool"])
def test_the_docstring_says_that_the_thread_of_a_sync_tool_goes_on(told: str) -> None:
    """Who gives a timeout must know what it can't do."""
    words = " ".join(told.replace("#:", " ").split())
    assert ("timeout" in words, "thread goes on" in words, "result is discarded" in words) == (True, True, True)
