"""Hostile arguments in whole runs, on every wire: a result with a clear, short sentence, and nothing raised."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopmachine import Tool
from loopmachine.tools.arguments import Arguments
from loopmachine.tools.signature import of_function
from tests.drivers import THREADS, Stage, Words
from tests.shared import WRITERS
from tests.test_tools_arguments import functions_called
from tests.test_tools_records import Person

LONG, DEEP = "x" * 1_000_000, "[" * 100_000
SHOWN = f'"{"x" * 76}...'
NINES = "9" * 5000
DIGITS = "where a finite number of at most 4300 digits is wanted"
TOO_DEEP = "- lists and objects nest deeper than 64 levels"
HALF = "holds half of a character, a lone surrogate"


def f(n: int = 0, text: str = "", free: Any = None, who: Person | int | None = None) -> str:
    """Says how much it got."""
    return f"{n} {len(text)} {free} {who}"


#: Arguments as text, and what the model is told of them.
TEXTS: dict[str, tuple[str, str, Any]] = {
    "1 MB": (json.dumps({"text": LONG}), "ok", "0 1000000 None None"),
    "1 MB of quotes": (json.dumps({"text": '"\\' * 500_000}), "ok", "0 1000000 None None"),
    "1 MB of brackets": (json.dumps({"text": "[" * 1_000_000}), "ok", "0 1000000 None None"),
    "1 MB of the wrong kind": (json.dumps({"n": LONG}), "", f"- n: {SHOWN} where a whole number is wanted"),
    "1 MB in a union": (json.dumps({"who": LONG}), "", Words(f"- who: {SHOWN} where an object or a whole number")),
    "1 MB of a name": (json.dumps({LONG: 1}), "", Words(f"- {'x' * 77}...: there is no '{'x' * 77}...' here; known")),
    "1 MB of nothing": (" " * 1_000_000, "ok", "0 0 None None"),
    "1 MB of fences": ("```" * 333_333, "", Words("its arguments are not JSON: Expecting value at character 0")),
    "many names": (json.dumps({f"n{place}": 1 for place in range(20_000)}), "", Words("- n19: ", "may be more")),
    "many doubles": (
        "{" + ",".join(['"n":1'] * 20_000) + "}",
        "",
        '- the arguments: the name "n" is given twice in one object',
    ),
    "deep": (f'{{"free":{DEEP}{"]" * 100_000}}}', "", TOO_DEEP),
    "deep and cut": (f'{{"free":{DEEP}', "", TOO_DEEP),
    "deep objects": ('{"who":' * 100_000 + "1" + "}" * 100_000, "", TOO_DEEP),
    "deep in itself": ('{"who":' + '{"name":"a","kids":[' * 40 + "]}" * 40 + "}", "", Words(TOO_DEEP[2:])),
    "deep as text": (json.dumps({"who": DEEP}), "", Words('- who: "[[[[', "where an object or a whole number")),
    "5000 digits": (f'{{"n":{NINES}}}', "", f"- n: {'9' * 77}... {DIGITS}"),
    "5000 digits anywhere": (f'{{"free":[{NINES}]}}', "", f"- free[0]: {'9' * 77}... {DIGITS}"),
    "5000 digits as text": (f'{{"n":"{NINES}"}}', "", f'- n: "{"9" * 76}... where a whole number is wanted'),
    "4300 digits": (f'{{"n":{NINES[:4300]}}}', "ok", f"{NINES[:4300]} 0 None None"),
    "beyond 2**53": (
        '{"n":9007199254740993,"free":-9007199254740993}',
        "ok",
        "9007199254740993 0 -9007199254740993 None",
    ),
    "a large exponent": ('{"n":1e999999999}', "", f"- n: 1e999999999 {DIGITS}"),
    "a small exponent": ('{"n":"1e-999999999"}', "", '- n: "1e-999999999" where a whole number is wanted'),
    "NaN": ('{"free":NaN}', "", f"- free: NaN {DIGITS}"),
    "Infinity": ('{"free":[-Infinity]}', "", f"- free[0]: -Infinity {DIGITS}"),
    "half a character": ('{"text":"\\ud800"}', "", f'- text: "\\ud800" {HALF}'),
    "half a character as it is": ('{"free":{"a":"\udfff"}}', "", f'- free.a: "\\udfff" {HALF}'),
    "half a character in a name": (
        '{"\\ud800":1}',
        "",
        "- ['\\\\ud800']: there is no '\\\\ud800' here; known names: n, text, free, who",
    ),
    "everything at once": (
        '{"n":NaN,"text":5,"free":"\\ud800","who":"x","n":1}',
        "",
        "- text: 5 where text is wanted\n"
        '- who: "x" where an object or a whole number or null is wanted\n'
        '- the arguments: the name "n" is given twice in one object\n'
        f'- free: "\\ud800" {HALF}',
    ),
}


@pytest.mark.parametrize("wire", WRITERS)
@pytest.mark.parametrize("name", TEXTS)
def test_hostile_arguments_are_answered(name: str, wire: str) -> None:
    """The run goes on to its answer, and may be stored and restored, whatever a model writes."""
    written, outcome, told = TEXTS[name]
    shape, write = WRITERS[wire]
    reply = write({"calls": [{"id": "c1", "name": "f", "arguments": ""}]})
    stage = Stage(THREADS)
    result = stage.run(as_text(reply, written), write({"text": "done"}), tools=[Tool.of(f)], wire=shape)
    (only,) = result.results
    content = only.content.removeprefix("f was not called; its arguments don't fit:\n")
    assert (only.outcome, content, result.status) == (outcome or "invalid_arguments", told, "answered")
    assert len(content) < 5000


def as_text(reply: Any, written: str) -> Any:
    """A reply with this text for the arguments of its call, as a stream of any API would have them."""
    if isinstance(reply, list):
        return [as_text(one, written) for one in reply]
    if not isinstance(reply, dict):
        return reply
    return {
        key: written if key in ("arguments", "input", "args") else as_text(one, written) for key, one in reply.items()
    }


@pytest.mark.parametrize("wire", ["plain", "anthropic", "gemini"])
@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"free": float("nan")}, f"- free: NaN {DIGITS}"),
        ({"free": [float("-inf")]}, f"- free[0]: -Infinity {DIGITS}"),
        ({"text": "\ud800"}, f'- text: "\\ud800" {HALF}'),
        ({"n": 2**70 + 1}, f"{2**70 + 1} 0 None None"),
    ],
    ids=["NaN", "Infinity", "half a character", "beyond 2**53"],
)
def test_hostile_objects_are_answered_too(value: Any, told: str, wire: str) -> None:
    """What a client parsed before is no better than text."""
    shape, write = WRITERS[wire]
    reply = write({"calls": [{"id": "c1", "name": "f", "arguments": value}]})
    result = Stage(THREADS).run(reply, write({"text": "done"}), tools=[Tool.of(f)], wire=shape)
    contents = [one.content.removeprefix("f was not called; its arguments don't fit:\n") for one in result.results]
    assert (contents, result.status) == ([told], "answered")


@pytest.mark.parametrize("wire", ["plain", "anthropic", "gemini"])
def test_an_object_deeper_than_python_reads_is_no_turn(wire: str) -> None:
    """Nothing is raised: the turn is malformed, and says so."""
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    shape, write = WRITERS[wire]
    reply = as_value(write({"calls": [{"id": "c1", "name": "f", "arguments": {}}]}), {"free": value})
    stage = Stage(THREADS)
    result = stage.run(reply, tools=[Tool.of(f)], wire=shape)
    assert (result.status, result.results, len(stage.asked)) == ("malformed", (), 1)


def as_value(reply: Any, value: Any) -> Any:
    """A reply with this object for the arguments of its call."""
    return as_text(reply, value)


# --- how much is done ---------------------------------------------------------------------------------------

ARGUMENTS = Arguments("f", of_function(f, "f").schema, of_function(f, "f").typed)


@pytest.mark.parametrize(
    ("small", "large"),
    [
        (json.dumps({"text": "x"}), json.dumps({"text": LONG})),
        (json.dumps({"n": "x" * 100}), json.dumps({"n": LONG})),
        (json.dumps({"x" * 100: 1}), json.dumps({LONG: 1})),
        (f'{{"free":{"[" * 20_000}', f'{{"free":{DEEP}'),
        ('{"who":' * 20_000, '{"who":' * 100_000),
        (f'{{"n":{NINES}}}', f'{{"n":{NINES * 100}}}'),
        (json.dumps({"free": [1] * 10}), json.dumps({"free": [1] * 100_000})),
        (json.dumps({f"n{place}": 1 for place in range(100)}), json.dumps({f"n{place}": 1 for place in range(20_000)})),
    ],
)
def test_what_is_done_does_not_grow_with_what_is_written(small: str, large: str) -> None:
    """For a thousand times the text no function of this library is called more often, but for one look at each part."""
    few, many = (functions_called(lambda text=text: ARGUMENTS.check(text)) for text in (small, large))  # type: ignore[misc]
    looks = ("hazards", "_broken_text", "whole", "properties.<locals>.check")
    assert {name: count for name, count in (many - few).items() if not name.startswith(looks)} == {}
