"""ANTHROPIC: the Messages API. The system text goes apart; a turn is a list of content blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from typing import Final as Constant

from loopmachine.limits import Usage
from loopmachine.records import Exchange, Turn
from loopmachine.wire.base import ProviderWire
from loopmachine.wire.fields import (
    Asked,
    arguments,
    arguments_sent,
    count,
    filled,
    frozen,
    listed,
    model_name,
    opened,
    optional,
    provider_id,
    text_of,
)

Block = dict[str, Any]


class Anthropic(ProviderWire):
    """Replies are messages, as dicts or as the SDK's objects; the payload of a turn is its content blocks.

    Blocks of tools that the server runs itself are no calls, and go back with the others.
    """

    name = "anthropic"
    needs_schemas = True

    def aside(self, system: str | None) -> str | None:
        return system or None

    def _replayed(self, payload: list[Block], turn: Turn) -> dict[str, Any]:
        asked = [block for block in payload if block["type"] == "tool_use"]
        for call, block in zip(turn.calls, asked, strict=True):
            block["id"] = call.wire_id
            block["input"] = arguments_sent(call)
        return {"role": "assistant", "content": [block for block in payload if not _is_blank(block)]}

    def _made(self, turn: Turn) -> dict[str, Any]:
        said = {"type": "text", "text": turn.text}
        asked = [
            {"type": "tool_use", "id": call.wire_id, "name": call.name, "input": arguments_sent(call)}
            for call in turn.calls
        ]
        return {"role": "assistant", "content": asked if _is_blank(said) else [said, *asked]}

    def _answered(self, exchange: Exchange) -> list[dict[str, Any]]:
        results = [
            {
                "type": "tool_result",
                "tool_use_id": call.wire_id,
                "content": result.content,
                "is_error": result.outcome != "ok",
            }
            for call, result in zip(exchange.turn.calls, exchange.results, strict=True)
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
        parts = [count(usage.get("input_tokens")), *(0 if one is None else count(one) for one in cached)]
        known = [part for part in parts if part is not None]
        return Usage(
            input_tokens=sum(known) if len(known) == len(parts) else None,
            output_tokens=count(usage.get("output_tokens")),
            cached_tokens=count(usage.get("cache_read_input_tokens")),
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


def _is_blank(block: Block) -> bool:
    """A text block that says nothing: the server sends such, and refuses to be sent one."""
    return block["type"] == "text" and not block["text"].strip()


ANTHROPIC: Constant = Anthropic()
