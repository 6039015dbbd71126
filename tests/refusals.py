"""What servers refuse in the messages that a wire writes: what ``wire_server`` refuses, and a bit more."""

from __future__ import annotations

import json
from typing import Any

from loopmachine import History
from loopmachine.testing.pairing import marks, unpaired
from loopmachine.testing.providers import provider_of
from loopmachine.wire import ANTHROPIC, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES, PLAIN, Wire
from loopmachine.wire.fields import Unreadable

Body = dict[str, Any]
TOOL = {"name": "look", "description": "Look.", "input_schema": {"type": "object"}}
#: The field of a request that holds the messages.
MESSAGES: dict[Wire, str] = {
    OPENAI_CHAT: "messages",
    OPENAI_RESPONSES: "input",
    ANTHROPIC: "messages",
    GEMINI: "contents",
}


def body_of(wire: Wire, messages: list[Body]) -> Body:
    """A request with a tool and these messages."""
    more: dict[Wire, Body] = {GEMINI: {}, ANTHROPIC: {"model": "m", "max_tokens": 9}}
    return more.get(wire, {"model": "m"}) | {"tools": wire.encode(History(), [TOOL]).tools, MESSAGES[wire]: messages}


def refusal(wire: Wire, body: Body, model: str = "m") -> str:
    """What the provider says of a request; blank where it accepts it."""
    try:
        provider_of(wire).check(json.loads(json.dumps(body, allow_nan=False)), model)
    except Unreadable as wrong:
        return str(wrong)
    except (TypeError, ValueError) as wrong:
        return f"no JSON: {wrong}"
    return ""


def refused(wire: Wire, messages: list[Body]) -> str:
    """What is wrong with these messages; blank where nothing is.

    No wire may send an id twice, nor results in another order than the calls, which some servers bear; nor to OpenAI's
    chat a message without content, which the provider bears beside calls and others of that API do not.
    """
    if fault := _plain(messages) if wire is PLAIN else refusal(wire, body_of(wire, messages)):
        return fault
    if wire is OPENAI_CHAT and any(message.get("content") is None for message in messages):
        return f"a message has no content: {messages}"
    sent = [mark for message in messages for mark in marks(message, "")]
    asked, answered = ([one for one in sent if one.kind == kind] for kind in ("call", "result"))
    ids = [one.id for one in asked if not one.anonymous]
    if len(set(ids)) < len(ids):
        return f"an id is used twice: {ids}"
    ordered = [one.id for one in asked] == [one.id for one in answered]
    return "" if ordered else f"the results {answered} are not in the order of {asked}"


def _plain(messages: list[Body]) -> str:
    """The same of PLAIN messages, which no provider speaks."""
    for at, message in enumerate(messages):
        match message:
            case {"kind": "call", "name": str(name), "arguments": dict()} if name.strip():
                continue
            case {"kind": "tool_result", "content": str(), "outcome": str()}:
                continue
            case {"kind": "text" | "final" | "user" | "note" | "system", "text": str()}:
                continue
        return f"messages[{at}]: it is none: {message}"
    return unpaired(messages)
