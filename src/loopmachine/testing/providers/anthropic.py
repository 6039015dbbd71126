"""Anthropic's Messages API, as a server of it speaks. Source: docs.anthropic.com/en/api/messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopmachine.frozen import json_object
from loopmachine.kinds import CALLS, FINAL, REFUSED, TRUNCATED
from loopmachine.testing.checking import declared, forbid, named, paired, some
from loopmachine.testing.providers.base import SIGNATURE, Block, Chunk, Provider, Writer
from loopmachine.testing.script import ProviderError
from loopmachine.wire import ANTHROPIC
from loopmachine.wire.fields import an_object, filled, listed, string


class MessageWriter(Writer):
    """Writes a message."""

    stops = {FINAL: "end_turn", CALLS: "tool_use", TRUNCATED: "max_tokens", REFUSED: "refusal"}

    def head(self) -> list[Chunk]:
        message = self._message([], None) | self._used(output_tokens=1)
        return [{"type": "message_start", "message": message}, {"type": "ping"}]

    def begin(self, block: Block) -> list[Chunk]:
        started = _block(block) | ({"signature": ""} if block.kind == "thinking" else {})
        return [{"type": "content_block_start", "index": block.place, "content_block": started}]

    def add(self, block: Block, text: str) -> list[Chunk]:
        field = "partial_json" if block.kind == "call" else block.kind
        kind = "input_json_delta" if block.kind == "call" else f"{block.kind}_delta"
        return [_delta(block, {"type": kind, field: text})]

    def finish(self, block: Block) -> list[Chunk]:
        signed = {"type": "signature_delta", "signature": SIGNATURE}
        stop = {"type": "content_block_stop", "index": block.place}
        return [_delta(block, signed), stop] if block.kind == "thinking" else [stop]

    def tail(self) -> list[Chunk]:
        delta = {"stop_reason": self.stop, "stop_sequence": None}
        return [{"type": "message_delta", "delta": delta} | self._used(), {"type": "message_stop"}]

    def body(self) -> Chunk:
        return self._message([_block(block) for block in self.blocks], self.stop) | self._used()

    def _message(self, content: list[Chunk], stop: str | None) -> Chunk:
        return {
            "id": f"msg_{self.number}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
        }

    def _used(self, **so_far: int) -> Chunk:
        """The provider counts what a cache read apart."""
        if self.usage is None:
            return {}
        cached = self.usage.cached_tokens or 0
        usage: Chunk = {
            "input_tokens": (self.usage.input_tokens or 0) - cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": cached,
            "output_tokens": self.usage.output_tokens,
        }
        if self.usage.reasoning_tokens is not None:
            usage["output_tokens_details"] = {"thinking_tokens": self.usage.reasoning_tokens}
        return {"usage": usage | so_far}


def _delta(block: Block, delta: Chunk) -> Chunk:
    return {"type": "content_block_delta", "index": block.place, "delta": delta}


def _block(block: Block) -> Chunk:
    if block.kind == "call":
        given = json_object(block.text)
        written = block.text or {} if given is None else given  # text that is none stays as the model wrote it
        return {"type": "tool_use", "id": block.id, "name": block.name, "input": written}
    signed = {"signature": SIGNATURE} if block.kind == "thinking" else {}
    return {"type": block.kind, block.kind: block.text} | signed


class Anthropic(Provider):
    """POST /v1/messages."""

    wire = ANTHROPIC
    path = "/v1/messages"
    writer = MessageWriter
    words = {
        400: "invalid_request_error",
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        500: "api_error",
        504: "timeout_error",
        529: "overloaded_error",
    }

    def error(self, error: ProviderError) -> Chunk:
        told = {"type": self.word(error), "message": error.message}
        return {"type": "error", "error": told, "request_id": "req_1"}

    def check(self, body: Mapping[str, Any], model: str) -> None:
        filled(body.get("model"), "model")
        forbid(type(body.get("max_tokens")) is not int, "max_tokens", "it is required, a whole number")
        messages = some(body.get("messages"), "messages", "message")
        forbid(messages[0].get("role") != "user", "messages[0].role", "the first message must be the user's")
        blocks = [block for at, message in enumerate(messages) for block in _checked(message, f"messages[{at}]")]
        tools = listed(body.get("tools", []), "tools", "tool")
        for at, tool in enumerate(tools):
            declared(tool, f"tools[{at}]", "input_schema", ANTHROPIC.names)
        asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
        forbid(asked and not tools, "tools", "they are required where the messages hold tool_use blocks")
        forbid(len(set(asked)) < len(asked), "messages", "the ids of tool_use blocks must be unique")
        forbid(body.get("tool_choice") is not None and not tools, "tool_choice", "it may only come with tools")
        paired(messages, "messages")


def _checked(message: Mapping[str, Any], at: str) -> list[dict[str, Any]]:
    """The content blocks of a message."""
    role, content = message.get("role"), message.get("content")
    forbid(role not in ("user", "assistant"), f"{at}.role", "it must be user or assistant")
    if not isinstance(content, list):
        filled(content, f"{at}.content")
        return []
    results_over = False
    for place, block in enumerate(some(content, f"{at}.content", "block")):
        _check_block(block, f"{at}.content[{place}]", role)
        is_result = block["type"] == "tool_result"
        forbid(is_result and results_over, f"{at}.content[{place}]", "tool_result blocks come first in their message")
        results_over |= not is_result
    return content


def _check_block(block: Mapping[str, Any], at: str, role: object) -> None:
    match string(block.get("type"), f"{at}.type"):
        case "text":
            filled(block.get("text"), f"{at}.text")
        case "tool_use":
            forbid(role != "assistant", f"{at}.type", "only the assistant uses tools")
            filled(block.get("id"), f"{at}.id")
            named(block, at, ANTHROPIC.names)
            an_object(block.get("input"), f"{at}.input")
        case "tool_result":
            forbid(role != "user", f"{at}.type", "only the user brings results")
            filled(block.get("tool_use_id"), f"{at}.tool_use_id")
            _check_result(block.get("content"), f"{at}.content", block.get("is_error"))
        case "thinking":
            string(block.get("thinking"), f"{at}.thinking")
            filled(block.get("signature"), f"{at}.signature")


def _check_result(content: object, at: str, is_error: object) -> None:
    forbid(is_error and not content, at, "it can't be empty where is_error is true")
    if not isinstance(content, list):
        string("" if content is None else content, at)
        return
    for place, block in enumerate(some(content, at, "block")):
        kind = filled(block.get("type"), f"{at}[{place}].type")
        if kind == "text":
            filled(block.get("text"), f"{at}[{place}].text")
        forbid(is_error and kind != "text", f"{at}[{place}].type", "an error holds nothing but text")
