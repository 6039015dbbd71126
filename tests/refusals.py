"""What the providers' servers refuse, wire by wire: each checker lists all that is wrong with a request's messages.

The rules are those that servers answer 400 for; what is checked is the request, not how it came about.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from loopmachine.wire import ANTHROPIC, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES, PLAIN, Wire

Message = dict[str, Any]


@attrs.frozen
class Said:
    """A message in the words that all wires share: whose it is, the ids of its calls, and those that it answers.

    The role of what stands beside the other items of one turn is "item".
    """

    role: str
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


def refused(wire: Wire, messages: list[Message]) -> list[str]:
    """What a server would refuse in these messages."""
    try:
        json.dumps(messages, allow_nan=False)
    except (TypeError, ValueError) as wrong:
        return [f"no JSON: {wrong}"]
    said = list(_READERS[wire](messages))
    faults = [f"{at}: {fault}" for at, one in enumerate(said) for fault in one.faults]
    asked = [one for message in said for one in message.calls]
    return [*faults, *_unpaired(said), *([] if len(set(asked)) == len(asked) else ["an id is used twice"])]


def _unpaired(said: list[Said]) -> Iterator[str]:
    """Results must follow their calls at once, all of them, each once and in order, and nothing between them."""
    open_calls: list[str] = []
    for at, one in enumerate(said):
        for result in one.results:
            if not open_calls or open_calls.pop(0) != result:
                yield f"{at}: {result!r} answers no call that waits"
        if open_calls and not one.results and one.role != "item":
            yield f"{at}: {open_calls} are not answered"
            open_calls = []
        open_calls += one.calls
    if open_calls:
        yield f"end: {open_calls} are not answered"


def _blank(text: Any) -> bool:
    return not isinstance(text, str) or not text.strip()


def _asked(one: Any, name: Any, arguments: Any) -> Iterator[str]:
    """What is wrong with a call, its arguments as an object or as JSON text."""
    if _blank(one):
        yield "blank id"
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_./-]{0,127}", name):
        yield f"name {name!r}"
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        value = None
    if not isinstance(value, dict):
        yield f"arguments {arguments!r}"


# --- each wire ----------------------------------------------------------------------------------------------


def _plain(messages: list[Message]) -> Iterator[Said]:
    for one in messages:
        match one:
            case {"kind": "call", "id": own, "name": name, "arguments": dict(arguments)}:
                faults = _asked(own, "any", arguments) if not _blank(name) else ["blank name"]
                yield Said("item", calls=(own,), faults=tuple(faults))
            case {"kind": "tool_result", "id": own, "content": str(), "outcome": str()}:
                yield Said("user", results=(own,))
            case {"kind": "text" | "final" | "user" | "note" | "system", "text": str()}:
                yield Said(one["kind"])
            case _:
                yield Said("", faults=(f"no message: {one}",))


def _chat(messages: list[Message]) -> Iterator[Said]:
    for one in messages:
        faults, content, calls = [], one.get("content"), one.get("tool_calls")
        if content is None or content == []:
            faults.append("null content")
        if calls == []:
            faults.append("empty tool_calls")
        if one["role"] in ("user", "system") and _blank(content):
            faults.append("blank content")
        for call in calls or ():
            faults += _asked(call["id"], call["function"]["name"], call["function"]["arguments"])
            faults += [] if call["type"] == "function" else ["type"]
        faults += [] if one["role"] != "assistant" or calls or not _blank(content) or content else ["says nothing"]
        results = (one["tool_call_id"],) if one["role"] == "tool" else ()
        yield Said(one["role"], tuple(call["id"] for call in calls or ()), results, tuple(faults))


def _anthropic(messages: list[Message]) -> Iterator[Said]:
    for one in messages:
        content = one["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        faults = [] if blocks else ["empty content"]
        faults += ["blank text" for block in blocks if block["type"] == "text" and _blank(block["text"])]
        uses = [block for block in blocks if block["type"] == "tool_use"]
        results = [block for block in blocks if block["type"] == "tool_result"]
        for use in uses:
            faults += _asked(use["id"], use["name"], use["input"])
            faults += [] if isinstance(use["input"], dict) else ["input is text"]
        if one is messages[0] and one["role"] != "user":
            faults.append("the model speaks first")
        if results != blocks[: len(results)]:
            faults.append("something stands before the results")
        if (uses and one["role"] != "assistant") or (results and one["role"] != "user"):
            faults.append("role")
        ids = tuple(use["id"] for use in uses), tuple(result["tool_use_id"] for result in results)
        yield Said(one["role"], *ids, tuple(faults))


def _responses(messages: list[Message]) -> Iterator[Said]:
    for one in messages:
        kind = one.get("type", "message")
        if kind in ("function_call", "custom_tool_call"):
            faults = list(_asked(one["call_id"], one["name"], one["arguments"] if kind == "function_call" else {}))
            faults += ["null" for value in one.values() if value is None]
            yield Said("item", (one["call_id"],), faults=tuple(faults))
        elif kind in ("function_call_output", "custom_tool_call_output"):
            yield Said("user", results=(one["call_id"],), faults=() if "output" in one else ("no output",))
        elif kind == "reasoning":
            faults = ["status"] if "status" in one else []
            yield Said("item", faults=(*faults, *("null" for value in one.values() if value is None)))
        else:
            content = one["content"]
            blank = _blank(content) if isinstance(content, str) else content is None
            role = "item" if one["role"] == "assistant" else one["role"]
            yield Said(role, faults=("blank content",) if blank else ())


def _gemini(messages: list[Message]) -> Iterator[Said]:
    paired = 0
    for at, one in enumerate(messages):
        parts, faults = one["parts"], []
        if not parts:
            faults.append("no parts")
        faults += ["empty part" for part in parts if not part.get("text") and not part.keys() - {"text", "thought"}]
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        results = [part["functionResponse"] for part in parts if "functionResponse" in part]
        for call in calls:
            faults += _asked(call.get("id", "none"), call["name"], call.get("args", {}))
        if calls and (not at or messages[at - 1]["role"] != "user"):
            faults.append("a call that follows nothing of the user's")
        if (calls and one["role"] != "model") or (results and (one["role"] != "user" or len(results) != len(parts))):
            faults.append("role")
        asked = [f"{n} {call['name']} {call.get('id')}" for n, call in enumerate(calls, paired)]
        answered = [f"{n} {one['name']} {one.get('id')}" for n, one in enumerate(results, paired - len(results))]
        paired += len(calls)
        yield Said(one["role"], tuple(asked), tuple(answered), tuple(faults))


_READERS: dict[Wire, Callable[[list[Message]], Iterator[Said]]] = {
    PLAIN: _plain,
    ANTHROPIC: _anthropic,
    OPENAI_CHAT: _chat,
    OPENAI_RESPONSES: _responses,
    GEMINI: _gemini,
}
