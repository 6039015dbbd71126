"""OPENAI_CHAT: the Chat Completions API, which many servers speak."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from reprlib import repr as shown
from typing import Any
from typing import Final as Constant

from loopmachine.blocks import ImageBlock
from loopmachine.frozen import freeze
from loopmachine.limits import Usage
from loopmachine.records import Exchange, Turn
from loopmachine.wire.base import OPENAI_NAMES, ProviderWire
from loopmachine.wire.fields import (
    Asked,
    Unreadable,
    aborts,
    an_object,
    arguments,
    arguments_text_sent,
    content_sent,
    count,
    detail,
    filled,
    first_of,
    foreign_id,
    frozen,
    is_silent,
    kind_of,
    listed,
    model_name,
    opened,
    optional,
    provider_id,
    string,
    system_sent,
    text_of,
    unless_blank,
)
from loopmachine.wire.given import (
    Piece,
    Read,
    Said,
    System,
    brought,
    data_url,
    fitting,
    heard,
    paired,
    picture_at,
    spoken,
    words,
)
from loopmachine.wire.stream import Accumulator


def _image(part: dict[str, Any], field: str) -> ImageBlock:
    held = part.get("image_url")
    return picture_at(held.get("url") if isinstance(held, dict) else None, field)


_READS: Constant[dict[str, Read]] = {"text": words, "image_url": _image}
#: The fields of a message that ask or answer, by its role.
_PAIRED: Constant = {"assistant": ("tool_calls", "function_call"), "tool": ("tool_call_id",)}


class OpenAIChat(ProviderWire):
    """Replies are completions or the assistant's messages, as dicts or as the SDK's objects.

    The payload of a turn is the message. Of several choices that of index 0 is read. A message that holds nothing but
    a ``refusal`` has the stop reason ``refusal``, unless its own is an abort. A custom tool's call has the arguments
    ``{"input": text}``. The legacy ``function_call`` is malformed. A tool's result is text; that images are left out of
    one is told in it.
    """

    name = "openai-chat"
    names = OPENAI_NAMES
    reads = _READS

    def lead(self, system: str | None) -> list[dict[str, Any]]:
        text = system_sent(system)
        return [{"role": "system", "content": text}] if text else []

    def _offered(self, schemas: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            {
                "type": "function",
                "function": {"name": name, "description": description, "parameters": schema},
            }
            for name, description, schema in self._declared(schemas)
        ]

    def stream(self) -> Accumulator:
        from loopmachine.wire.openai_chat_stream import OpenAIChatStream  # only where replies are streamed

        return OpenAIChatStream(self.decode)

    def pieces(self, message: dict[str, Any]) -> Iterator[Piece]:
        role, content = message.get("role"), message.get("content")
        paired(message, role, *_PAIRED.get(str(role), ()))
        if isinstance(content, list):
            fitting(content, role, *_READS)
        if role == "assistant":
            yield Said(message)
        elif role == "tool":
            own = filled(message.get("tool_call_id"), "tool_call_id")
            yield brought(own, content, "content", _READS)
        elif role in ("system", "developer"):
            yield System(filled(_words(content), "content"))
        elif role == "user":
            content = spoken(content)
            text = _words(content)
            yield heard(message | {"content": content}, text, self._heard(text), self.name)
        else:
            raise Unreadable(f"role: it must be 'system', 'user', 'assistant' or 'tool', not {shown(role)}")

    @staticmethod
    def _block(block: dict[str, Any]) -> dict[str, Any]:
        if block["kind"] == "text":
            return {"type": "text", "text": block["text"]}
        return {"type": "image_url", "image_url": {"url": data_url(block)}}

    def _replayed(self, payload: dict[str, Any], turn: Turn) -> list[dict[str, Any]]:
        message = payload | {"role": "assistant"}
        for field in ("function_call", "parsed"):  # a legacy form, and what the SDK's parse() adds
            message.pop(field, None)
        if not message.get("tool_calls"):  # servers send an empty list, and refuse to be sent it
            message.pop("tool_calls", None)
        for call, asked in zip(turn.calls, message.get("tool_calls", ()), strict=True):
            asked["id"] = call.wire_id
            asked.pop("index", None)  # of a stream, as the SDK leaves it in what it puts together
            asked["type"] = "custom" if asked.get("type") == "custom" else "function"
            asked[asked["type"]]["name"] = self.names.sent(call)
            if asked["type"] == "function":
                asked["function"]["arguments"] = arguments_text_sent(call)
                asked["function"].pop("parsed_arguments", None)
        content = message.get("content")
        if isinstance(content, list):
            content = [part for part in content if not is_silent(part)]
        message["content"] = content or ""  # some servers refuse null beside calls, some its absence, all an empty list
        return [message]

    def _made(self, turn: Turn) -> list[dict[str, Any]]:
        message: dict[str, Any] = {"role": "assistant", "content": turn.text}
        if turn.calls:
            message["tool_calls"] = [
                {
                    "id": foreign_id(call),
                    "type": "function",
                    "function": {"name": self.names.sent(call), "arguments": arguments_text_sent(call)},
                }
                for call in turn.calls
            ]
        return [message]

    def _answered(self, exchange: Exchange, said: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            {"role": "tool", "tool_call_id": asked["id"], "content": content_sent(result)}
            for asked, result in zip(said[0]["tool_calls"], exchange.results, strict=True)
        ]

    def _body(self, reply: object) -> dict[str, Any]:
        """What is read of a completion or of a bare message."""
        body = opened(reply)
        if "choices" not in body and body.keys() & {"role", "content", "tool_calls"}:
            return {"message": body}
        first = first_of(body.get("choices")) or {}
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
            cached_tokens=detail(usage.get("prompt_tokens_details"), "cached_tokens"),
            reasoning_tokens=detail(usage.get("completion_tokens_details"), "reasoning_tokens"),
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
        return _words(said.get("content")) or _refusal(said)

    def _calls(self, said: dict[str, Any]) -> tuple[Asked, ...]:
        asked = said.get("tool_calls")
        if said.get("function_call") and not asked:  # beside tool_calls it says one of them again
            raise Unreadable("function_call: this legacy form can't be answered; the server must send tool_calls")
        if asked is None:
            return ()
        return tuple(_call(call, place) for place, call in enumerate(listed(asked, "tool_calls", "tool call")))


def _words(content: Any) -> str:
    """The text of a message: its content, or of that the text parts."""
    if isinstance(content, list):
        return text_of(listed(content, "content", "part"), "content")
    return optional(content, "content")


def _call(call: dict[str, Any], place: int) -> Asked:
    at = f"tool_calls[{place}]"
    kind = unless_blank(call.get("type"), "function")
    if kind not in ("function", "custom"):
        raise Unreadable(f"{at}.type: only a 'function' or a 'custom' tool can be answered, not {shown(kind)}")
    asked = an_object(call.get(kind), f"{at}.{kind}")
    if kind == "custom":
        written = freeze({"input": string(asked.get("input"), f"{at}.custom.input")})
    else:
        written = arguments(asked.get("arguments"), f"{at}.function.arguments")
    return provider_id(call.get("id"), f"{at}.id"), filled(asked.get("name"), f"{at}.{kind}.name"), written


def _refusal(message: Any) -> str:
    """The refusal of a message that holds nothing else, in its field or in parts; blank where there is none."""
    if not isinstance(message, Mapping) or message.get("tool_calls"):
        return ""
    content = message.get("content") or []
    parts = (
        [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else [{"text": content}]
    )
    if any(part.get("text") for part in parts):
        return ""
    refusals = [part.get("refusal") for part in parts if part.get("type") == "refusal"] or [message.get("refusal")]
    said = "".join(one for one in refusals if isinstance(one, str))
    return "" if said.isspace() else said


OPENAI_CHAT: Constant = OpenAIChat()
