"""The cases of the shared folder, which lies beside the repository or where $SHARED says."""

from __future__ import annotations

import builtins
import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from loopmachine import CallResult, Tool
from loopmachine.wire import ANTHROPIC, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES, PLAIN, Wire
from tests.drivers import Stage

SHARED = Path(os.environ.get("SHARED") or Path(__file__).parents[2] / "shared")
CASES = SHARED / "cases" / "cases.json"

needs_cases = pytest.mark.skipif(not CASES.is_file(), reason="the shared folder with cases.json is not here")


def case(name: str) -> tuple[Any, Any]:
    """What a case of cases.json gives, and what it expects."""
    (found,) = [one for one in json.loads(CASES.read_text())["cases"] if one["id"] == name]
    return found["input"], found["expect"]


# --- tools ------------------------------------------------------------------------------------------------


def tools_of(stage: Stage, given: dict[str, Any], during: Callable[[], object] = bool) -> list[Tool]:
    """The tools of a case that it does not write in Python; each logs ``[name, arguments]`` and calls ``during``."""
    specs = given["tools"] | given.get("tools_extra", {})
    tools = [_tool(stage, name, spec, during) for name, spec in specs.items() if "python" not in spec]
    return stage.driver.tools(tools)


def _tool(stage: Stage, name: str, spec: dict[str, Any], during: Callable[[], object]) -> Tool:
    types = {"int": "integer", "str": "string"}
    hints = {one: hint.partition(" = ") for one, hint in spec.get("params", {}).items()}
    defaults = {one: json.loads(default) for one, (_, _, default) in hints.items() if default}
    schema = {
        "type": "object",
        "properties": {one: {"type": types[hint]} for one, (hint, _, _) in hints.items()},
        "required": [one for one in hints if one not in defaults],
        "additionalProperties": False,
    }
    results = iter(spec.get("results", ()))

    def handler(**arguments: Any) -> str:
        stage.effects.append([name, arguments])
        during()
        if "raises" in spec:
            raise _error(spec["raises"])
        if "results" in spec:
            return str(next(results))
        returns: str = spec.get("returns", f"{name} done")
        return returns.format(**defaults | arguments)

    return Tool(name, f"The tool {name}.", schema, handler, needs_approval=spec.get("approval", False))


def _error(written: str) -> Exception:
    """The exception that a case writes as ``RuntimeError("no route")``."""
    name, message = re.fullmatch(r'(\w+)\("(.*)"\)', written).groups()  # type: ignore[union-attr]  # it does match
    error: Exception = getattr(builtins, name)(message)
    return error


def as_expected(results: Iterable[CallResult], expected: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """These results in the words that a case uses, of which each needs others."""
    return [
        {word: _in_word(word, one, words[word]) for word in words} for one, words in zip(results, expected, strict=True)
    ]


def _in_word(word: str, one: CallResult, expected: Any) -> Any:
    if word == "mentions":
        return [part for part in expected if part in one.content]
    said = {"id": one.id, "content": one.content, "ok": one.outcome == "ok"}
    return (said | {"not_run": one.outcome == "not_started", "denied": one.outcome == "denied"})[word]


# --- replies ----------------------------------------------------------------------------------------------

Write = Callable[[dict[str, Any]], dict[str, Any]]


def plain(item: dict[str, Any]) -> dict[str, Any]:
    """An item of a script as a PLAIN reply."""
    asked = item.get("calls")
    reply = {"kind": "calls", "calls": asked} if asked else {"kind": "final"}
    usage = {f"{one}_tokens": tokens for one, tokens in item.get("usage", {}).items()} | _given(item, "model")
    return reply | _given(item, "text") | _given(item, "finish", "stop") | ({"usage": usage} if usage else {})


def openai_chat(item: dict[str, Any]) -> dict[str, Any]:
    """An item of a script as a completion of the Chat Completions API."""
    asked = item.get("calls")
    functions = [
        {
            "id": one["id"],
            "type": "function",
            "function": {"name": one["name"], "arguments": one["arguments"]},
        }
        for one in asked or ()
    ]
    message = {"role": "assistant", "content": item.get("text")}
    message |= {} if asked is None else {"tool_calls": functions}
    finish = item.get("finish", "tool_calls" if asked else "stop")
    return {"choices": [{"index": 0, "finish_reason": finish, "message": message}]}


def anthropic(item: dict[str, Any]) -> dict[str, Any]:
    """An item of a script as a message of the Messages API."""
    asked = item.get("calls", ())
    content = [{"type": "text", "text": item["text"]}] if "text" in item else []
    content += [
        {"type": "tool_use", "id": one["id"], "name": one["name"], "input": _as_object(one["arguments"])}
        for one in asked
    ]
    return {"role": "assistant", "content": content, "stop_reason": "tool_use" if asked else "end_turn"}


def openai_responses(item: dict[str, Any]) -> dict[str, Any]:
    """An item of a script as a response of the Responses API."""
    text = item.get("text")
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    asked = [
        {"type": "function_call", "call_id": one["id"], "name": one["name"], "arguments": one["arguments"]}
        for one in item.get("calls", ())
    ]
    return {"status": "completed", "output": [*([] if text is None else [said]), *asked]}


def gemini(item: dict[str, Any]) -> dict[str, Any]:
    """An item of a script as a response of the Gemini API."""
    parts: list[dict[str, Any]] = [{"text": item["text"]}] if "text" in item else []
    parts += [
        {"functionCall": {"id": one["id"], "name": one["name"], "args": _as_object(one["arguments"])}}
        for one in item.get("calls", ())
    ]
    return {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}


def _as_object(arguments: Any) -> Any:
    """Arguments as the APIs that send objects would send them: as text only where they are none."""
    try:
        value = json.loads(arguments)
    except (TypeError, ValueError, RecursionError):  # an object already, or text that no API would have sent
        return arguments
    return value if isinstance(value, dict) else arguments


def _given(item: dict[str, Any], field: str, name: str = "") -> dict[str, Any]:
    return {} if item.get(field) is None else {name or field: item[field]}


WRITERS: dict[str, tuple[Wire, Write]] = {
    "plain": (PLAIN, plain),
    "openai_chat": (OPENAI_CHAT, openai_chat),
    "anthropic": (ANTHROPIC, anthropic),
    "openai_responses": (OPENAI_RESPONSES, openai_responses),
    "gemini": (GEMINI, gemini),
}
