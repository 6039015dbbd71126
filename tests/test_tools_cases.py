"""Cases that broke other loops, each by its id: arguments (A), schemas (T) and results (L31), in whole runs.

The data is that of the shared cases.json; ``always`` of that file's format is checked of every run that a stage plays.
"""
# ruff: noqa: N802  the ids of the cases are in capitals

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
from collections.abc import Callable
from typing import Any, Literal, Optional, TypedDict

import pytest
from jsonschema import Draft202012Validator

from loopmachine import Policy, Tool, tool
from loopmachine.errors import InvalidTool
from tests.drivers import Stage, Words, everywhere
from tests.shared import WRITERS, as_expected, case, needs_cases, tools_of

pytestmark = needs_cases
#: How each wire says that a reply was cut by the limit of tokens.
CUT: dict[str, dict[str, Any]] = {
    "plain": {"stop": "length"},
    "openai_chat": {},
    "anthropic": {"stop_reason": "max_tokens"},
    "openai_responses": {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
    "gemini": {},
}


def asking(*asked: tuple[str, Any]) -> dict[str, Any]:
    """An item of a script that asks for these tools with these arguments, as an object or as text."""
    return {
        "calls": [
            {"id": f"c{place}", "name": name, "arguments": given if isinstance(given, str) else json.dumps(given)}
            for place, (name, given) in enumerate(asked, 1)
        ]
    }


DONE = {"text": "done"}
every_wire = pytest.mark.parametrize("wire", WRITERS)


def played(wire: str, tools: Callable[[Stage], list[Tool]], *script: dict[str, Any]) -> Any:
    """What runs of a script bring on a wire: what was done, each result with its outcome, the status and the answer."""
    shape, write = WRITERS[wire]

    def scene(stage: Stage) -> Any:
        given = stage.driver.tools(tools(stage))
        result = stage.run(*map(write, script), tools=given, wire=shape, policy=Policy(batch="sequential"))
        told = [(one.id, one.outcome, one.content) for one in result.results]
        return stage.effects, told, result.status, result.text

    return everywhere(scene)


def logging(stage: Stage, function: Callable[..., Any]) -> Tool:
    """A function as a tool that logs what it brings."""

    def log(**arguments: Any) -> Any:
        stage.effects.append(function(**arguments))
        return stage.effects[-1]

    made = Tool.of(function)
    return Tool(made.name, made.description, made.input_schema, log, signature=made.signature)


# --- arguments ------------------------------------------------------------------------------------------------


@every_wire
@pytest.mark.parametrize("number", range(5))
def test_A01_arguments_that_are_no_object(number: int, wire: str) -> None:
    """They are the model's mistake: one result for that call, which asks for an object, and the run goes on."""
    given, expected = case("A01")
    written = given["variants"][number]
    done, told, status, text = played(wire, lambda stage: tools_of(stage, given), asking(("f", written)), DONE)
    sentence = f"f was not called; its arguments don't fit:\n- the arguments: {written} where an object is wanted"
    assert (done, told, status, text) == (
        expected["executed"],
        [("c1", "invalid_arguments", sentence)],
        "answered",
        "done",
    )


@every_wire
def test_A02_arguments_that_are_an_object_already(wire: str) -> None:
    """An object is taken as it is; what goes back to OpenAI is text again."""
    given, expected = case("A02")
    shape, write = WRITERS[wire]
    script = [write({"calls": [given["call"]]}), write(DONE)]

    def scene(stage: Stage) -> Any:
        result = stage.run(*script, tools=tools_of(stage, given), wire=shape)
        return stage.effects, [one.outcome for one in result.results], stage.asked[-1][1]

    done, outcomes, sent = everywhere(scene)
    assert (done, outcomes) == (expected["executed"], ["ok"])
    assert SENT_A02[wire](sent) == {"x": 3}


SENT_A02: dict[str, Callable[[Any], Any]] = {
    "plain": lambda sent: sent["arguments"],
    "openai_chat": lambda sent: json.loads(sent["tool_calls"][0]["function"]["arguments"]),
    "anthropic": lambda sent: sent["content"][0]["input"],
    "openai_responses": lambda sent: json.loads(sent["arguments"]),
    "gemini": lambda sent: sent["parts"][0]["functionCall"]["args"],
}


@every_wire
def test_A03_one_malformed_call_does_not_block_its_siblings(wire: str) -> None:
    """Every call is answered once, in order, good or bad."""
    given, expected = case("A03")
    shape, write = WRITERS[wire]

    def scene(stage: Stage) -> Any:
        result = stage.run(*map(write, given["script"]), tools=tools_of(stage, given), wire=shape)
        return stage.effects, as_expected(result.results, expected["results"]), result.text

    assert everywhere(scene) == (expected["executed"], expected["results"], expected["final"])


@every_wire
@pytest.mark.parametrize("number", range(3))
def test_A04_nothing_of_a_cut_reply_runs(number: int, wire: str) -> None:
    """After a length stop no call is trustworthy, even if it parses: the run ends with a status of its own."""
    given, _ = case("A04")
    item = given["script"][0] | asking(("write", given["variants_of_arguments"][number]))
    shape, write = WRITERS[wire]
    reply = write(item) | CUT[wire]
    if wire == "gemini":
        reply["candidates"][0]["finishReason"] = "MAX_TOKENS"

    def scene(stage: Stage) -> Any:
        result = stage.run(reply, tools=tools_of(stage, given), wire=shape)
        return stage.effects, result.status, result.results, len(stage.asked)

    assert everywhere(scene) == ([], "incomplete", (), 1)


@every_wire
def test_A06_json_text_for_text_stays_text(wire: str) -> None:
    """Coercion is driven by the declared type: a text that wants to be one is never touched."""
    given, expected = case("A06")

    def f(content: str) -> str:
        return f"{type(content).__name__} {content}"

    script = asking(("f", {"content": given["value"]})), DONE
    content = f"{expected['type']} {expected['value']}"
    told = played(wire, lambda stage: [logging(stage, f)], *script)
    assert told == ([content], [("c1", "ok", content)], "answered", "done")


@every_wire
def test_A07_no_truth_value_of_text_is_taken(wire: str) -> None:
    """Ambiguity is an error result, not a guess: "maybe" or 1 for a truth value, True or "3.14" for a whole number."""
    given, expected = case("A07")

    def f(flag: bool = False, n: int = 0) -> list[Any]:
        return [flag, n]

    variants = [(one["param"].partition(":")[0], one["value"]) for one in given["variants"]]
    _, told, *rest = played(
        wire, lambda stage: [logging(stage, f)], asking(*(("f", {n: v}) for n, v in variants)), DONE
    )
    brought = [
        json.loads(content)[name == "n"] if outcome == "ok" else "error"
        for (name, _), (_, outcome, content) in zip(variants, told, strict=True)
    ]
    assert brought == [False, True, "error", "error", "error", 42, "error", 3]
    accepted = [one.get("accept", ["error"] if "error" in one else [one.get("value")]) for one in expected["variants"]]
    assert [type(one) in map(type, right) and one in right for one, right in zip(brought, accepted, strict=True)] == [
        True
    ] * 8
    assert rest == ["answered", "done"]


@every_wire
def test_A08_large_integers_keep_every_digit(wire: str) -> None:
    """Whole numbers never go through a float, written as numbers or as text, and what is sent back has their digits."""
    given, expected = case("A08")

    def f(id: int) -> int:  # noqa: A002  the case
        return id

    written = [one.get("raw_arguments") or json.dumps({"id": one["value"]}) for one in given["variants"]]
    numbers = [one["value"] for one in expected["variants"]]
    script = asking(*(("f", one) for one in written)), DONE
    told = played(wire, lambda stage: [logging(stage, f)], *script)
    results = [(f"c{place}", "ok", str(number)) for place, number in enumerate(numbers, 1)]
    assert told == (numbers, results, "answered", "done")


@every_wire
def test_A12_escaped_pairs_are_one_character_and_lone_halves_break_nothing(wire: str) -> None:
    """An escaped emoji is read by a real decoder, and half a character in a result can be sent, stored and logged."""
    given, expected = case("A12")
    shape, write = WRITERS[wire]

    def scene(stage: Stage) -> Any:
        @tool
        def f(s: str) -> str:
            stage.effects.append({"s": s})
            return str(given["tool_result"])

        script = map(write, (asking(("f", given["raw_arguments"])), DONE))
        result = stage.run(*script, tools=stage.driver.tools([f]), wire=shape)
        sent, logged = json.dumps(stage.asked[-1], ensure_ascii=False), str(result) + result.explain()
        return (
            stage.effects,
            [one.content for one in result.results],
            len((sent + logged + result.loop.to_json()).encode()) > 0,
        )

    assert everywhere(scene) == ([expected["args"]], ["x\\ud835y"], True)


# --- schemas --------------------------------------------------------------------------------------------------


def test_T01_hints_that_are_text_are_resolved_when_the_tool_is_made() -> None:
    """Under ``from __future__ import annotations`` hints are resolved at decoration, not at the call."""

    def f(a: Optional[int] = None, m: Literal["x", "y"] = "x", n: list[int] = []) -> None: ...  # noqa: B006, UP045  the case

    assert Tool.of(f).input_schema == {
        "type": "object",
        "properties": {
            "a": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
            "m": {"type": "string", "enum": ["x", "y"], "default": "x"},
            "n": {"type": "array", "items": {"type": "integer"}, "default": []},
        },
        "required": [],
        "additionalProperties": False,
    }


def test_T01_local_classes_are_found_or_asked_for_at_once() -> None:
    """A class of the function around a tool is found where the tool is made; elsewhere the error comes at once."""

    def outer(*, made: bool) -> Any:
        @dataclasses.dataclass
        class P:
            n: int
            inner: P | None = None

        def g(p: P) -> int:
            return p.n + (0 if p.inner is None else p.inner.n)

        return tool(g) if made else g

    given = asking(("g", {"p": {"n": 1, "inner": {"n": 2}}})), DONE
    assert played("plain", lambda _: [outer(made=True)], *given)[1] == [("c1", "ok", "3")]
    with pytest.raises(InvalidTool) as caught:
        Tool.of(outer(made=False))
    assert str(caught.value) == (
        "g: parameter p: its hint 'P' can't be read: name 'P' is not defined; "
        "define the type where the function can see it"
    )


class Level(enum.Enum):
    """The case's P."""

    LOW = 1
    HIGH = 2


@every_wire
def test_T02_values_of_literals_and_enums_keep_their_types(wire: str) -> None:
    """The type comes from the values, and True is not taken for 1 nor 1 for True."""
    _, expected = case("T02")

    def f(a: Literal[1, 2], b: Literal["x", 3, None], c: Level, d: Literal[True, False]) -> str:
        return repr((a, b, c, d))

    schema = Tool.of(f).input_schema["properties"]
    assert (schema["a"], schema["b"], schema["d"] | expected["d"]) == (
        expected["a"],
        {"enum": expected["b"]["enum"]},
        schema["d"],
    )
    assert (schema["c"] | expected["c"], schema["d"]["enum"]) == (schema["c"], [True, False])
    good: dict[str, Any] = {"a": 1, "b": None, "c": 2, "d": True}
    calls = [("f", good | wrong) for wrong in ({}, {"a": 2}, {"a": True}, {"c": True}, {"d": 1})]
    done, told, *_ = played(wire, lambda stage: [logging(stage, f)], asking(*calls), DONE)
    assert done == [f"(1, None, {Level.HIGH!r}, True)", f"(2, None, {Level.HIGH!r}, True)"]
    assert [outcome for _, outcome, _ in told] == ["ok", "ok", *["invalid_arguments"] * 3]


@every_wire
def test_T03_variadics_are_refused_and_positional_ones_passed_by_position(wire: str) -> None:
    """A signature that can't be expressed is refused early; positional-only parameters are passed by position."""
    _, expected = case("T03")

    @tool
    def g(x: int, /, y: int, *, z: int = 1) -> list[int]:
        return [x, y, z]

    def f(x: int, *args: int, **kwargs: int) -> None: ...

    schema = g.input_schema
    assert (list(schema["properties"]), schema["required"]) == (expected["g"]["properties"], expected["g"]["required"])
    given = asking(("g", {"y": 2, "x": 1}), ("g", {"x": 1, "y": 2, "z": 3})), DONE
    assert played(wire, lambda _: [g], *given)[1] == [("c1", "ok", "[1,2,1]"), ("c2", "ok", "[1,2,3]")]
    with pytest.raises(InvalidTool, match=r"f: parameter \*args: 'int': a schema can't tell of it"):
        tool(f)


class C(enum.Enum):
    """A colour."""

    RED = "r"


@dataclasses.dataclass
class When:
    """The case's P."""

    x: int
    when: datetime.date


class TD(TypedDict, total=False):
    """The case's TD."""

    a: int


@every_wire
def test_T05_the_hints_are_honoured_all_the_way_down(wire: str) -> None:
    """What the hint says is what the tool gets, and errors name the path."""
    given, expected = case("T05")

    @tool
    def f(p: When, ps: list[When], c: C, o: When | None = None, d: TD = {}) -> str:  # noqa: B006  the case
        return repr((p, ps, c, o, d))

    right = given["arguments"]
    Draft202012Validator(f.input_schema).validate(right)
    wrong = right | {"ps": [{"x": 2, "when": "tomorrow"}]}
    told = played(wire, lambda _: [f], asking(("f", right), ("f", wrong)), DONE)[1]
    taken = (
        When(1, datetime.date(2024, 2, 29)),
        [When(2, datetime.date(2024, 3, 1))],
        C.RED,
        expected["o"],
        expected["d"],
    )
    place = expected["errors_name_path"].partition(" ")[0]
    assert told == [
        ("c1", "ok", repr(taken)),
        ("c2", "invalid_arguments", Words(f'- {place}: "tomorrow" where a date such as ')),
    ]


# --- results --------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Result:
    """What a tool might return."""

    x: int


#: What the case names, and the text that the model gets of it.
RETURNED: list[tuple[Any, str]] = [
    (float("nan"), '"NaN"'),
    ([float("inf")], '["Infinity"]'),
    (datetime.time(9, 30), '"09:30:00"'),
    (decimal.Decimal("1.10"), '"1.10"'),
    ({1}, "[1]"),
    (b"\xff", '"/w=="'),
    (C.RED, '"r"'),
    (Result(1), '{"x":1}'),
    (None, "null"),
    (object(), '"<object: not JSON>"'),
]


@every_wire
def test_L31_what_a_tool_returns_never_undoes_its_effect(wire: str) -> None:
    """Encoding comes after the effect, so it is total: the result is ok, and strict JSON that any parser reads."""
    given, _ = case("L31")
    assert len(given["returns"]) == len(RETURNED)

    def tools(stage: Stage) -> list[Tool]:
        @tool
        def f(number: int) -> Any:
            stage.effects.append(number)
            return RETURNED[number][0]

        return [f]

    calls = asking(*(("f", {"number": number}) for number in range(len(RETURNED))))
    results = [(f"c{place}", "ok", text) for place, (_, text) in enumerate(RETURNED, 1)]
    done, told, status, text = played(wire, tools, calls, DONE)
    assert (done, told, status, text) == ([*range(len(RETURNED))], results, "answered", "done")
    for _, _, content in told:
        json.loads(content, parse_constant=pytest.fail)
