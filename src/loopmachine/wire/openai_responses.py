"""OPENAI_RESPONSES: the Responses API. The system text goes apart, as instructions; a turn is a list of items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from reprlib import repr as shown
from typing import Any
from typing import Final as Constant

from loopmachine.blocks import ImageBlock
from loopmachine.frozen import freeze
from loopmachine.limits import Usage
from loopmachine.records import CallResult, Exchange, Turn
from loopmachine.wire.base import OPENAI_NAMES, ProviderWire
from loopmachine.wire.fields import (
    Asked,
    Unreadable,
    aborts,
    arguments,
    arguments_text_sent,
    count,
    detail,
    filled,
    foreign_id,
    frozen,
    is_no_number,
    listed,
    model_name,
    opened,
    optional,
    provider_id,
    string,
    system_sent,
    text_of,
    unless_blank,
    words_of,
    words_sent,
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

Item = dict[str, Any]

_CALLS: Constant = ("function_call", "custom_tool_call")
#: What only a client can carry out, and no tool here does.
_CLIENTS: Constant = ("computer_call", "local_shell_call", "shell_call", "apply_patch_call", "mcp_approval_request")
#: Fields that come with an item, and that the server refuses to be sent ("Unknown parameter: 'input[1].status'").
_ONLY_SENT_TO_US: Constant = {"reasoning": ("status",), "function_call": ("parsed_arguments",)}
_NEVER_NULL: Constant = ("reasoning", "message", *_CALLS)  #: items of which an absent field is absent, and not null


def _image(part: Item, field: str) -> ImageBlock:
    return picture_at(part.get("image_url"), field)


_READS: Constant[dict[str, Read]] = {"input_text": words, "input_image": _image}


class OpenAIResponses(ProviderWire):
    """Replies are response objects, as dicts or as the SDK's objects; the payload of a turn is its output items.

    The stop reason is the status, or the reason why it is incomplete. A response that holds nothing but a refusal
    has the stop reason ``refusal``. A custom tool's call has the arguments ``{"input": text}``. Items of tools that
    the server runs itself are no calls, and go back with the others; one that only a client can carry out, and that
    is no call of a function or custom tool, is malformed.
    """

    name = "openai-responses"
    names = OPENAI_NAMES
    reads = _READS

    def stream(self) -> Accumulator:
        from loopmachine.wire.openai_responses_stream import OpenAIResponsesStream  # only where replies are streamed

        return OpenAIResponsesStream(self.decode)

    def aside(self, system: str | None) -> Any:
        return system_sent(system) or None

    def _offered(self, schemas: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            {
                "type": "function",
                "name": name,
                "description": description,
                "parameters": schema,
                "strict": False,  # the server's default takes none but schemas in which all is required
            }
            for name, description, schema in self._declared(schemas)
        ]

    def pieces(self, message: Item) -> Iterator[Piece]:
        kind = unless_blank(message.get("type"), "message")
        role, content = message.get("role"), message.get("content")
        if kind == "message":
            paired(message, role)
            if isinstance(content, list):
                fitting(content, role, "output_text" if role == "assistant" else "input_text", "input_image")
        if kind in (f"{one}_output" for one in _CALLS):
            own = filled(message.get("call_id"), "call_id")
            yield brought(own, message.get("output"), "output", _READS)
        elif kind != "message" or role == "assistant":
            yield Said({"type": kind} | message | {"type": kind}, joins=True)
        elif role in ("system", "developer"):
            yield System(filled(_words(content, "content", "input_text"), "content"))
        elif role == "user":
            content = spoken(content, "input_text")
            text = _words(content, "content", "input_text")
            yield heard(message | {"content": content}, text, self._heard(text), self.name)
        else:
            raise Unreadable(f"role: it must be 'system', 'user' or 'assistant', not {shown(role)}")

    def reply(self, said: list[Item]) -> object:
        kinds = [one["type"] for one in said]
        if not {"message", *_CALLS, *_CLIENTS}.intersection(map(str, kinds)):
            raise Unreadable(
                f"type: {', '.join(map(shown, kinds))} is taken only beside a message of the assistant's, or beside "
                "calls of functions or custom tools: by itself it is nothing here that the model said"
            )
        return {"status": "completed", "output": said}

    @staticmethod
    def _block(block: Item) -> Item:
        return _part(block)

    def _replayed(self, payload: list[Item], turn: Turn) -> list[Item]:
        asked = [item for item in payload if item["type"] in _CALLS]
        for call, item in zip(turn.calls, asked, strict=True):
            item["call_id"], item["name"] = call.wire_id, self.names.sent(call)
            if item["type"] == "function_call":
                item["arguments"] = arguments_text_sent(call)
        return [_sendable(item) for item in payload]

    def _made(self, turn: Turn) -> list[Item]:
        said = [{"role": "assistant", "content": turn.text}] if turn.text.strip() else []
        asked = [
            {
                "type": "function_call",
                "call_id": foreign_id(call),
                "name": self.names.sent(call),
                "arguments": arguments_text_sent(call),
            }
            for call in turn.calls
        ]
        return [*said, *asked]

    def _answered(self, exchange: Exchange, said: list[Item]) -> list[Item]:
        asked = [item for item in said if item.get("type") in _CALLS]
        return [
            {"type": f"{item['type']}_output", "call_id": item["call_id"], "output": _output(result)}
            | {field: item[field] for field in ("caller",) if field in item}
            for item, result in zip(asked, exchange.results, strict=True)
        ]

    def _body(self, reply: object) -> dict[str, Any]:
        return opened(reply)

    def _usage(self, body: dict[str, Any]) -> Usage | None:
        usage = body.get("usage")
        if not isinstance(usage, Mapping):
            return None
        return Usage(
            input_tokens=count(usage.get("input_tokens")),
            output_tokens=count(usage.get("output_tokens")),
            cached_tokens=detail(usage.get("input_tokens_details"), "cached_tokens"),
            reasoning_tokens=detail(usage.get("output_tokens_details"), "reasoning_tokens"),
            model=model_name(body.get("model")),
        )

    def _stop(self, body: dict[str, Any]) -> str:
        status, details = optional(body.get("status"), "status"), body.get("incomplete_details")
        told = details.get("reason") if isinstance(details, Mapping) else None
        reason = told if isinstance(told, str) else ""
        if status == "incomplete" or (reason.strip() and not aborts(status)):  # some servers tell the reason alone
            return reason if aborts(reason) else "incomplete"
        return "refusal" if _refusal(body.get("output")) and not aborts(status) else status

    def _words(self, body: dict[str, Any]) -> str:
        return words_of(body.get("error"))

    def _payload(self, body: dict[str, Any]) -> str:
        return frozen(body.get("output"), "output")

    def _text(self, said: Any) -> str:
        texts = []
        for at, item in enumerate(listed(said, "output", "response item")):
            if filled(item.get("type"), f"output[{at}].type") == "message":
                texts.append(_words(item.get("content"), f"output[{at}].content", "output_text"))
        return "".join(texts) or _refusal(said)

    def _calls(self, said: list[Item]) -> tuple[Asked, ...]:
        answered = [item.get("call_id") for item in said if item["type"].endswith("_output")]
        for at, item in enumerate(said):
            if item["type"] in _CLIENTS and item.get("call_id") not in answered:
                raise Unreadable(
                    f"output[{at}].type: only functions and custom tools can be answered, not {shown(item['type'])}"
                )
        return tuple(_call(item, f"output[{at}]") for at, item in enumerate(said) if item["type"] in _CALLS)


def _words(content: Any, field: str, kind: str) -> str:
    """Text, or that of a list of parts."""
    return content if isinstance(content, str) else text_of(listed(content, field, "part"), field, kind)


def _call(item: Item, at: str) -> Asked:
    if item["type"] == "custom_tool_call":
        written = freeze({"input": string(item.get("input"), f"{at}.input")})
    else:
        written = arguments(item.get("arguments"), f"{at}.arguments")
    return provider_id(item.get("call_id"), f"{at}.call_id"), filled(item.get("name"), f"{at}.name"), written


def _refusal(output: Any) -> str:
    """The refusal of a response that holds neither text nor calls; blank where there is none."""
    items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
    parts = [part for item in items for part in _parts(item)]
    if any(item.get("type") in _CALLS for item in items) or any(part.get("text") for part in parts):
        return ""
    refusals = [part.get("refusal") for part in parts if part.get("type") == "refusal"]
    said = "".join(one for one in refusals if isinstance(one, str))
    return "" if said.isspace() else said


def _parts(item: Item) -> list[dict[str, Any]]:
    """The parts of a message that are objects."""
    content = item.get("content") if item.get("type") == "message" else None
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _sendable(item: Item) -> Item:
    """An output item as the server takes it back."""
    if item["type"] not in _NEVER_NULL:
        return item
    kept: Item = _without_nulls(item)
    if item["type"] == "reasoning":
        kept.setdefault("summary", [])  # which it can't be without
    for field in _ONLY_SENT_TO_US.get(item["type"], ()):
        kept.pop(field, None)
    return kept


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {field: inner for field, inner in value.items() if inner is not None and not is_no_number(inner)}
        return {field: _without_nulls(inner) for field, inner in kept.items()}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value


def _output(result: CallResult) -> str | list[dict[str, Any]]:
    """What a call brought: its text, or its texts and images."""
    if result.blocks_text is None:
        return words_sent(result)
    parts = [_part(block) for block in result.blocks if block["kind"] == "image" or block["text"].strip()]
    return parts or ""


def _part(block: dict[str, Any]) -> dict[str, Any]:
    if block["kind"] == "text":
        return {"type": "input_text", "text": block["text"]}
    return {"type": "input_image", "image_url": data_url(block)}


OPENAI_RESPONSES: Constant = OpenAIResponses()
