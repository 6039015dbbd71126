"""OpenAI's Responses API, as a server of it speaks. Source: platform.openai.com/docs/api-reference/responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from typing import Final as Constant

from loopmachine.kinds import CALLS, FINAL, REFUSED, TRUNCATED
from loopmachine.testing.checking import declared, forbid, json_text, named, paired, some
from loopmachine.testing.providers.base import SIGNATURE, Block, Chunk, Writer
from loopmachine.testing.providers.openai_chat import OpenAI
from loopmachine.testing.script import ProviderError
from loopmachine.wire import OPENAI_RESPONSES
from loopmachine.wire.fields import an_object, filled, string

_NEVER_NULL: Constant = ("message", "reasoning", "function_call", "custom_tool_call")
_INCOMPLETE: Constant = {"max_output_tokens", "content_filter"}
#: Of each kind of block: the list of parts in its item, the kind of part, the events of the part and of its text.
_PARTS: Constant = {
    "text": ("content", "output_text", "response.content_part", "response.output_text"),
    "thinking": ("summary", "summary_text", "response.reasoning_summary_part", "response.reasoning_summary_text"),
}


class ResponseWriter(Writer):
    """Writes a response."""

    stops = {FINAL: "completed", CALLS: "completed", TRUNCATED: "max_output_tokens", REFUSED: "content_filter"}

    _events = 0

    def head(self) -> list[Chunk]:
        begun = self._response("in_progress", [])
        return [
            self._event("response.created", response=begun),
            self._event("response.in_progress", response=begun),
        ]

    def begin(self, block: Block) -> list[Chunk]:
        added = self._of_item("response.output_item.added", block, item=_item(block, self.number, "in_progress"))
        if block.kind == "call":
            return [added]
        _, _, part, _ = _PARTS[block.kind]
        return [added, self._of_part(f"{part}.added", block, part=_part(block))]

    def add(self, block: Block, text: str) -> list[Chunk]:
        if block.kind == "call":
            return [self._of_text("response.function_call_arguments.delta", block, delta=text)]
        return [self._of_part(f"{_PARTS[block.kind][3]}.delta", block, delta=text, **_beside(block))]

    def finish(self, block: Block) -> list[Chunk]:
        done = []
        if block.kind == "call":
            done.append(self._of_text("response.function_call_arguments.done", block, arguments=block.text))
        else:
            _, _, part, text = _PARTS[block.kind]
            done.append(self._of_part(f"{text}.done", block, text=block.text, **_beside(block)))
            done.append(self._of_part(f"{part}.done", block, part=_part(block)))
        item = _item(block, self.number, "completed")
        return [*done, self._of_item("response.output_item.done", block, item=item)]

    def tail(self) -> list[Chunk]:
        response = self.body()
        last = "response.incomplete" if response["status"] == "incomplete" else "response.completed"
        return [self._event(last, response=response)]

    def body(self) -> Chunk:
        items = [_item(block, self.number, "completed") for block in self.blocks]
        incomplete = self.stop in _INCOMPLETE
        response = self._response("incomplete" if incomplete else self.stop, items)
        if incomplete:
            response["incomplete_details"] = {"reason": self.stop}
        if self.usage is not None:
            response["usage"] = {
                "input_tokens": self.usage.input_tokens,
                "input_tokens_details": {"cached_tokens": self.usage.cached_tokens or 0, "cache_write_tokens": 0},
                "output_tokens": self.usage.output_tokens,
                "output_tokens_details": {"reasoning_tokens": self.usage.reasoning_tokens or 0},
                "total_tokens": self.usage.tokens,
            }
        return response

    def _event(self, kind: str, **fields: Any) -> Chunk:
        self._events += 1
        return {"type": kind, "sequence_number": self._events - 1, **fields}

    def _of_item(self, kind: str, block: Block, **fields: Any) -> Chunk:
        return self._event(kind, output_index=block.place, **fields)

    def _of_text(self, kind: str, block: Block, **fields: Any) -> Chunk:
        return self._of_item(kind, block, item_id=_item_id(block, self.number), **fields)

    def _of_part(self, kind: str, block: Block, **fields: Any) -> Chunk:
        return self._of_text(kind, block, **{f"{_PARTS[block.kind][0]}_index": 0}, **fields)

    def _response(self, status: str, output: list[Chunk]) -> Chunk:
        return {
            "id": f"resp_{self.number}",
            "object": "response",
            "created_at": self.number,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": self.request.get("instructions"),
            "metadata": {},
            "model": self.model,
            "output": output,
            "parallel_tool_calls": True,
            "temperature": 1.0,
            "tool_choice": self.request.get("tool_choice", "auto"),
            "tools": self.request.get("tools", []),
            "top_p": 1.0,
            "usage": None,
        }


def _item_id(block: Block, number: int) -> str:
    return f"{ {'text': 'msg', 'thinking': 'rs', 'call': 'fc'}[block.kind] }_{number}_{block.place}"


def _item(block: Block, number: int, status: str) -> Chunk:
    own = {"id": _item_id(block, number)}
    if block.kind == "call":
        asked = {"call_id": block.id, "name": block.name, "arguments": block.text}
        return own | {"type": "function_call", "status": status} | asked
    parts = [_part(block)] if block.text else []
    if block.kind == "text":
        return own | {"type": "message", "status": status, "role": "assistant", "content": parts}
    return own | {"type": "reasoning", "summary": parts, "encrypted_content": SIGNATURE}


def _part(block: Block) -> Chunk:
    part: Chunk = {"type": _PARTS[block.kind][1], "text": block.text, **_beside(block)}
    return part | {"annotations": []} if block.kind == "text" else part


def _beside(block: Block) -> Chunk:
    return {"logprobs": []} if block.kind == "text" else {}


class OpenAIResponses(OpenAI):
    """POST /v1/responses."""

    wire = OPENAI_RESPONSES
    path = "/v1/responses"
    writer = ResponseWriter

    def error_event(self, error: ProviderError, sent: int) -> Chunk:
        told = {"code": self.word(error), "message": error.message, "param": None}
        return {"type": "error", **told, "sequence_number": sent}

    def check(self, body: Mapping[str, Any], model: str) -> None:
        filled(body.get("model"), "model")
        for at, tool in enumerate(some(body["tools"], "tools", "tool") if body.get("tools") else ()):
            forbid(tool.get("type") == "function" and "function" in tool, f"tools[{at}]", "its fields stand in itself")
            if tool.get("type") == "function":
                declared(tool, f"tools[{at}]", "parameters", OPENAI_RESPONSES.names)
        given = body.get("input")
        if not isinstance(given, list):
            filled(given, "input")
            return
        items = some(given, "input", "item")
        for at, item in enumerate(items):
            _check_item(item, f"input[{at}]")
        paired(items, "input")


def _check_item(item: Mapping[str, Any], at: str) -> None:
    kind = item.get("type", "message")
    if kind in _NEVER_NULL:
        for field, value in item.items():
            forbid(value is None, f"{at}.{field}", "it may be absent, and not null")
    match kind:
        case "message":
            forbid(item.get("role") not in ("system", "developer", "user", "assistant"), f"{at}.role", "it is unknown")
            _check_content(item.get("content"), f"{at}.content", filled)
        case "function_call":
            filled(item.get("call_id"), f"{at}.call_id")
            named(item, at, OPENAI_RESPONSES.names)
            json_text(item.get("arguments"), f"{at}.arguments")
        case "custom_tool_call":
            filled(item.get("call_id"), f"{at}.call_id")
            named(item, at, OPENAI_RESPONSES.names)
            string(item.get("input"), f"{at}.input")
        case "function_call_output" | "custom_tool_call_output":
            filled(item.get("call_id"), f"{at}.call_id")
            _check_content(item.get("output"), f"{at}.output", string)
        case "reasoning":
            forbid("status" in item, f"{at}.status", "this parameter is unknown")
            forbid(not isinstance(item.get("summary"), list), f"{at}.summary", "it must be a list")
        case other:
            filled(other, f"{at}.type")


def _check_content(content: object, at: str, check_text: Callable[[object, str], str]) -> None:
    if isinstance(content, list):
        for place, part in enumerate(content):
            filled(an_object(part, f"{at}[{place}]").get("type"), f"{at}[{place}].type")
    else:
        check_text(content, at)
