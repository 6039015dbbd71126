"""ANTHROPIC: the Messages API. The system text goes apart; a turn is a list of content blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from reprlib import repr as shown
from typing import Any
from typing import Final as Constant

from loopmachine.blocks import ImageBlock
from loopmachine.limits import Usage
from loopmachine.records import CallResult, Exchange, Turn, UserMessage
from loopmachine.wire.base import ProviderWire
from loopmachine.wire.fields import (
    Asked,
    Names,
    Unreadable,
    arguments,
    arguments_sent,
    content_sent,
    count,
    detail,
    filled,
    foreign_id,
    frozen,
    is_silent,
    listed,
    model_name,
    opened,
    optional,
    provider_id,
    system_sent,
    text_of,
    total,
)
from loopmachine.wire.given import Brought, Piece, Read, Said, brought, fitting, heard, paired, picture, some, words
from loopmachine.wire.stream import Accumulator

Block = dict[str, Any]


def _image(block: Block, field: str) -> ImageBlock:
    source = block.get("source")
    held = source if isinstance(source, dict) and source.get("type") == "base64" else {}
    return picture(held.get("media_type"), held.get("data"), field)


_READS: Constant[dict[str, Read]] = {"text": words, "image": _image}
_CALLS: Constant = ("tool_use", "server_tool_use", "mcp_tool_use")  #: that the model may ask for


class Anthropic(ProviderWire):
    """Replies are messages, as dicts or as the SDK's objects; the payload of a turn is its content blocks.

    Blocks of tools that the server runs itself are no calls, and go back with the others.
    """

    name = "anthropic"
    needs_schemas = True
    user_first = True
    names = Names("1 to 128 letters, digits, _ and -", re.compile(r"[A-Za-z0-9_-]{1,128}"))
    reads = _READS

    def aside(self, system: str | None) -> str | None:
        return system_sent(system) or None

    def _offered(self, schemas: list[dict[str, Any]]) -> list[dict[str, Any]]:
        self._declared(schemas)
        return schemas

    def stream(self) -> Accumulator:
        from loopmachine.wire.anthropic_stream import AnthropicStream  # only where replies are streamed

        return AnthropicStream(self.decode)

    def pieces(self, message: dict[str, Any]) -> Iterator[Piece]:
        role, content = message.get("role"), message.get("content")
        told = [{"type": "text", "text": content}] if isinstance(content, str) else content
        blocks = listed(told, "content", "block")
        paired(message, role)
        if role == "assistant":
            yield Said(message | {"content": fitting(blocks, role, *_READS, *_CALLS)})
        elif role == "user":
            text_of(fitting(blocks, role, *_READS, "tool_result"), "content")  # which says what is wrong with a block
            said = some([block for block in blocks if not is_silent(block)], "content")
            for results, group in groupby(said, lambda block: block["type"] == "tool_result"):
                together = list(group)
                yield from map(_brought, together) if results else [self._told(message, together)]
        else:
            raise Unreadable(f"role: it must be 'user' or 'assistant', not {shown(role)}")

    def _told(self, message: dict[str, Any], blocks: list[Block]) -> UserMessage:
        """What the user said in blocks that are no results."""
        text = text_of(blocks, "content")
        whole = message if isinstance(message["content"], str) else message | {"content": blocks}
        return heard(whole, text, self._heard(text), self.name)

    @staticmethod
    def _block(block: Block) -> Block:
        return _block(block)

    def _replayed(self, payload: list[Block], turn: Turn) -> list[dict[str, Any]]:
        asked = [block for block in payload if block["type"] == "tool_use"]
        for call, block in zip(turn.calls, asked, strict=True):
            block["id"] = call.wire_id
            block["name"] = self.names.sent(call)
            block["input"] = arguments_sent(call)
        return [{"role": "assistant", "content": [block for block in payload if not is_silent(block)]}]

    def _made(self, turn: Turn) -> list[dict[str, Any]]:
        said = {"type": "text", "text": turn.text}
        asked = [
            {"type": "tool_use", "id": foreign_id(call), "name": self.names.sent(call), "input": arguments_sent(call)}
            for call in turn.calls
        ]
        return [{"role": "assistant", "content": asked if is_silent(said) else [said, *asked]}]

    def _answered(self, exchange: Exchange, said: list[dict[str, Any]]) -> list[dict[str, Any]]:
        asked = [block["id"] for block in said[0]["content"] if block["type"] == "tool_use"]
        results = [
            {
                "type": "tool_result",
                "tool_use_id": own,
                "content": _content(result),
                "is_error": result.outcome != "ok",
            }
            for own, result in zip(asked, exchange.results, strict=True)
        ]
        return [{"role": "user", "content": results}]

    def _body(self, reply: object) -> dict[str, Any]:
        return opened(reply)

    def _usage(self, body: dict[str, Any]) -> Usage | None:
        usage = body.get("usage")
        if not isinstance(usage, Mapping):
            return None
        # The provider counts what a cache read or wrote apart, and leaves out what is nothing.
        cached = (usage.get(field) for field in ("cache_read_input_tokens", "cache_creation_input_tokens"))
        return Usage(
            input_tokens=total(
                (count(usage.get("input_tokens")), *(0 if one is None else count(one) for one in cached))
            ),
            output_tokens=count(usage.get("output_tokens")),
            cached_tokens=count(usage.get("cache_read_input_tokens")),
            reasoning_tokens=detail(usage.get("output_tokens_details"), "thinking_tokens"),
            model=model_name(body.get("model")),
        )

    def _stop(self, body: dict[str, Any]) -> str:
        return optional(body.get("stop_reason"), "stop_reason")

    def _payload(self, body: dict[str, Any]) -> str:
        return frozen(body.get("content"), "content")

    def _text(self, said: Any) -> str:
        return text_of(listed(said, "content", "block"), "content")

    def _calls(self, said: list[Block]) -> tuple[Asked, ...]:
        return tuple(
            (
                provider_id(block.get("id"), f"content[{at}].id"),
                filled(block.get("name"), f"content[{at}].name"),
                arguments(block.get("input"), f"content[{at}].input"),
            )
            for at, block in enumerate(said)
            if block["type"] == "tool_use"
        )


def _brought(block: Block) -> Brought:
    own, outcome = filled(block.get("tool_use_id"), "tool_use_id"), "failed" if block.get("is_error") else "ok"
    return brought(own, block.get("content"), "content", _READS, outcome)


def _content(result: CallResult) -> str | list[Block]:
    """The server takes no images where ``is_error`` is true, nor a text block that says nothing."""
    if result.blocks_text is None or result.outcome != "ok":
        return content_sent(result)
    return [block for block in map(_block, result.blocks) if not is_silent(block)] or ""


def _block(block: Block) -> Block:
    if block["kind"] == "text":
        return {"type": "text", "text": block["text"]}
    return {"type": "image", "source": {"type": "base64", "media_type": block["media_type"], "data": block["data"]}}


ANTHROPIC: Constant = Anthropic()
