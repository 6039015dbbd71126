"""OPENAI_CHAT: the Chat Completions API, which many servers speak."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from reprlib import repr as shown
from typing import Any
from typing import Final as Constant

from loopmachine.frozen import freeze, thaw
from loopmachine.limits import Usage
from loopmachine.records import Exchange, Turn
from loopmachine.wire.base import ProviderWire, aborts
from loopmachine.wire.fields import (
    Asked,
    Unreadable,
    arguments,
    arguments_text_sent,
    count,
    filled,
    frozen,
    kind_of,
    listed,
    model_name,
    opened,
    optional,
    provider_id,
    text_of,
)


class OpenAIChat(ProviderWire):
    """Replies are completions or the assistant's messages, as dicts or as the SDK's objects.

    The payload of a turn is the message. Of several choices the first is read. A message that holds nothing but
    a ``refusal`` has the stop reason ``refusal``, unless its own is an abort. The legacy ``function_call`` and
    custom tool calls are malformed.
    """

    name = "openai-chat"

    def lead(self, system: str | None) -> list[dict[str, Any]]:
        return [{"role": "system", "content": system}] if system else []

    def offer(self, schemas: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [
            {
                "type": "function",
                "function": {
                    "name": one["name"],
                    "description": one["description"],
                    "parameters": thaw(freeze(one["input_schema"])),
                },
            }
            for one in schemas
        ]

    def _replayed(self, payload: dict[str, Any], turn: Turn) -> dict[str, Any]:
        message = payload | {"role": "assistant"}
        for field in ("tool_calls", "function_call"):
            if not message.get(field):  # servers send an empty one, and refuse to be sent it
                message.pop(field, None)
        for call, asked in zip(turn.calls, message.get("tool_calls", ()), strict=True):
            asked["id"] = call.wire_id
            asked["type"] = "function"
            asked["function"]["arguments"] = arguments_text_sent(call)
        if message.get("content") is None:  # some servers refuse null beside calls, and some its absence
            message["content"] = ""
        return message

    def _made(self, turn: Turn) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": turn.text}
        if turn.calls:
            message["tool_calls"] = [
                {
                    "id": call.wire_id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": arguments_text_sent(call)},
                }
                for call in turn.calls
            ]
        return message

    def _answered(self, exchange: Exchange) -> list[dict[str, Any]]:
        return [
            {"role": "tool", "tool_call_id": call.wire_id, "content": result.content}
            for call, result in zip(exchange.turn.calls, exchange.results, strict=True)
        ]

    def _body(self, reply: object) -> dict[str, Any]:
        """What is read of a completion or of a bare message."""
        body = opened(reply)
        if "choices" not in body and body.keys() & {"role", "content", "tool_calls"}:
            return {"message": body}
        choices = body.get("choices")
        choice = choices[0] if isinstance(choices, list | tuple) and choices else None
        first = choice if isinstance(choice, Mapping) else {}
        return {
            "message": first.get("message"),
            "stop": first.get("finish_reason"),
            "usage": body.get("usage"),
            "model": body.get("model"),
        }

    def _usage(self, body: dict[str, Any]) -> Usage | None:
        usage = body.get("usage")
        if not isinstance(usage, Mapping):
            return None
        return Usage(
            input_tokens=count(usage.get("prompt_tokens")),
            output_tokens=count(usage.get("completion_tokens")),
            cached_tokens=_detail(usage.get("prompt_tokens_details"), "cached_tokens"),
            reasoning_tokens=_detail(usage.get("completion_tokens_details"), "reasoning_tokens"),
            model=model_name(body["model"]),
        )

    def _stop(self, body: dict[str, Any]) -> str:
        stop = optional(body.get("stop"), "choices[0].finish_reason")
        return "refusal" if _refusal(body["message"]) and not aborts(stop) else stop

    def _payload(self, body: dict[str, Any]) -> str:
        return frozen(body["message"], "choices[0].message")

    def _text(self, said: Any) -> str:
        if not isinstance(said, dict):
            raise Unreadable(f"choices[0].message: it must be the assistant's message, not {kind_of(said)}")
        content = said.get("content")
        if isinstance(content, list):
            return text_of(listed(content, "content", "part"), "content")
        return optional(content, "content") or _refusal(said)

    def _calls(self, said: dict[str, Any]) -> tuple[Asked, ...]:
        if said.get("function_call"):
            raise Unreadable("function_call: this legacy form can't be answered; the server must send tool_calls")
        asked = said.get("tool_calls")
        if asked is None:
            return ()
        return tuple(_call(call, place) for place, call in enumerate(listed(asked, "tool_calls", "tool call")))


def _call(call: dict[str, Any], place: int) -> Asked:
    at = f"tool_calls[{place}]"
    kind, function = call.get("type"), call.get("function")
    if kind not in (None, "", "function"):
        raise Unreadable(f"{at}.type: only a 'function' can be answered, not {shown(kind)}")
    if not isinstance(function, dict):
        raise Unreadable(f"{at}.function: it must be an object, not {kind_of(function)}")
    return (
        provider_id(call.get("id"), f"{at}.id"),
        filled(function.get("name"), f"{at}.function.name"),
        arguments(function.get("arguments"), f"{at}.function.arguments"),
    )


def _refusal(message: Any) -> str:
    """The refusal of a message that holds nothing else; blank where there is none."""
    if not isinstance(message, Mapping) or message.get("content") or message.get("tool_calls"):
        return ""
    refusal = message.get("refusal")
    return refusal if isinstance(refusal, str) and not refusal.isspace() else ""


def _detail(details: Any, field: str) -> int | None:
    return count(details.get(field)) if isinstance(details, Mapping) else None


OPENAI_CHAT: Constant = OpenAIChat()
