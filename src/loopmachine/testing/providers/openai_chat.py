"""OpenAI's Chat Completions API, as a server of it speaks. Source: platform.openai.com/docs/api-reference/chat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopmachine.kinds import CALLS, FINAL, REFUSED, TRUNCATED
from loopmachine.testing.checking import declared, forbid, json_text, named, paired, some
from loopmachine.testing.providers.base import Block, Chunk, Provider, Writer
from loopmachine.testing.script import ProviderError
from loopmachine.wire import OPENAI_CHAT
from loopmachine.wire.fields import an_object, filled, optional, string

_TOOLS = ("function", "custom")  #: the kinds of tool
_ROLES = ("system", "developer", "user", "assistant", "tool")


class ChatWriter(Writer):
    """Writes a completion."""

    stops = {FINAL: "stop", CALLS: "tool_calls", TRUNCATED: "length", REFUSED: "content_filter"}

    def head(self) -> list[Chunk]:
        return [self._delta({"role": "assistant", "content": ""})]

    def begin(self, block: Block) -> list[Chunk]:
        if block.kind != "call":
            return []
        function = {"name": block.name, "arguments": ""}
        asked = {"index": block.asked, "id": block.id, "type": "function", "function": function}
        return [self._delta({"tool_calls": [asked]})]

    def add(self, block: Block, text: str) -> list[Chunk]:
        if block.kind == "call":
            return [self._delta({"tool_calls": [{"index": block.asked, "function": {"arguments": text}}]})]
        return [self._delta({"content" if block.kind == "text" else "reasoning_content": text})]

    def tail(self) -> list[Chunk]:
        last = self._delta({}, self.stop)
        wanted = (self.request.get("stream_options") or {}).get("include_usage")
        return [last, self._about("chat.completion.chunk", []) | self._used()] if wanted else [last]

    def body(self) -> Chunk:
        message: Chunk = {"role": "assistant", "content": self.said("text") or None, "refusal": None}
        if thought := self.said("thinking"):
            message["reasoning_content"] = thought
        if self.asked:
            message["tool_calls"] = [
                {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": one.text}}
                for one in self.asked
            ]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self.stop}
        return self._about("chat.completion", [choice]) | self._used()

    def _delta(self, delta: Chunk, stop: str | None = None) -> Chunk:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": stop}
        return self._about("chat.completion.chunk", [choice])

    def _about(self, what: str, choices: list[Chunk]) -> Chunk:
        own = f"chatcmpl-{self.number}"
        return {"id": own, "object": what, "created": self.number, "model": self.model, "choices": choices}

    def _used(self) -> Chunk:
        if self.usage is None:
            return {}
        usage: Chunk = {
            "prompt_tokens": self.usage.input_tokens,
            "completion_tokens": self.usage.output_tokens,
            "total_tokens": self.usage.tokens,
        }
        if self.usage.cached_tokens is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": self.usage.cached_tokens}
        if self.usage.reasoning_tokens is not None:
            usage["completion_tokens_details"] = {"reasoning_tokens": self.usage.reasoning_tokens}
        return {"usage": usage}


class OpenAI(Provider):
    """How OpenAI tells an error."""

    words = {
        400: "invalid_request_error",
        401: "invalid_api_key",
        403: "permission_denied",
        404: "model_not_found",
        429: "rate_limit_exceeded",
        500: "server_error",
        503: "server_overloaded",
    }

    def error(self, error: ProviderError) -> Chunk:
        kind = "invalid_request_error" if error.status < 500 and error.status != 429 else self.word(error)
        return {"error": {"message": error.message, "type": kind, "param": None, "code": self.word(error)}}


class OpenAIChat(OpenAI):
    """POST /v1/chat/completions."""

    wire = OPENAI_CHAT
    path = "/v1/chat/completions"
    writer = ChatWriter
    end = b"data: [DONE]\n\n"

    def check(self, body: Mapping[str, Any], model: str) -> None:
        filled(body.get("model"), "model")
        messages = some(body.get("messages"), "messages", "message")
        for at, message in enumerate(messages):
            _check_message(message, f"messages[{at}]")
        tools = [] if body.get("tools") is None else some(body["tools"], "tools", "tool")
        for at, tool in enumerate(tools):
            _check_tool(tool, f"tools[{at}]")
        forbid(
            body.get("tool_choice") is not None and not tools, "tool_choice", "it is only allowed where tools are given"
        )
        paired(messages, "messages")


def _check_tool(tool: Mapping[str, Any], at: str) -> None:
    kind = tool.get("type")
    forbid(kind not in _TOOLS, f"{at}.type", "it must be 'function' or 'custom'")
    if kind == "function":
        declared(tool.get("function"), f"{at}.function", "parameters", OPENAI_CHAT.names)
    else:
        named(an_object(tool.get("custom"), f"{at}.custom"), f"{at}.custom", OPENAI_CHAT.names)


def _check_message(message: Mapping[str, Any], at: str) -> None:
    role = message.get("role")
    forbid(role not in _ROLES, f"{at}.role", f"it must be one of {', '.join(_ROLES)}")
    content = message.get("content")
    if isinstance(content, list):
        for place, part in enumerate(some(content, f"{at}.content", "part")):
            filled(part.get("type"), f"{at}.content[{place}].type")
    elif role == "assistant" and "tool_calls" in message:
        optional(content, f"{at}.content")  # the provider says null itself, where it says nothing beside calls
    elif role == "tool" or message.get("refusal"):
        string(content, f"{at}.content")
    else:
        filled(content, f"{at}.content")
    if role == "tool":
        filled(message.get("tool_call_id"), f"{at}.tool_call_id")
    if "tool_calls" in message:
        for place, one in enumerate(some(message["tool_calls"], f"{at}.tool_calls", "tool call")):
            _check_call(one, f"{at}.tool_calls[{place}]")


def _check_call(one: Mapping[str, Any], at: str) -> None:
    filled(one.get("id"), f"{at}.id")
    kind = str(one.get("type"))
    forbid(kind not in _TOOLS, f"{at}.type", "it must be 'function' or 'custom'")
    asked = an_object(one.get(kind), f"{at}.{kind}")
    named(asked, f"{at}.{kind}", OPENAI_CHAT.names)
    if kind == "custom":
        string(asked.get("input"), f"{at}.custom.input")
    else:
        json_text(asked.get("arguments"), f"{at}.function.arguments")
