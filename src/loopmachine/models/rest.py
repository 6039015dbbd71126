"""The SDKs of OpenAI and Anthropic, which are made alike: the bytes of a body are read, nothing of theirs parses it.

Their own readers of streams raise nothing where a stream is cut, and raise what is of no kind of theirs where a chunk
is no JSON.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import AsyncGenerator, Generator
from typing import Any, ClassVar
from typing import Final as Constant

from loopmachine.models.adapter import Request, Sdk
from loopmachine.models.reading import Reading
from loopmachine.requests import AskModel
from loopmachine.wire import ANTHROPIC, OPENAI_CHAT, OPENAI_RESPONSES, Messages

_MAX_TOKENS: Constant = 4096  #: which every model of Anthropic's takes
_RUNS: Constant = "the run sends it"
_SYSTEM: Constant = "give the system text to run, as system="
_WITH_TOOLS: Constant = ("tool_choice", "parallel_tool_calls")  #: that servers refuse where no tools are offered


class Rest(Sdk):
    """One of their APIs."""

    choose_none: ClassVar[Any] = "none"

    def __init__(self, client: Any, model: str, stream: bool, options: Request) -> None:
        # A retry is a row of the table, which counts it.
        super().__init__(client.with_options(max_retries=0), model, stream, options)
        self._create = self.resource(self.client).with_streaming_response.create
        known = inspect.signature(self._create).parameters
        for name in options:
            if name not in known:
                right = f"to send it all the same, extra_body={{{name!r}: ...}}"
                raise TypeError(f"models.{self.maker}: create of this SDK takes no {name}; {right}")

    @abstractmethod
    def resource(self, client: Any) -> Any:
        """What the client calls the API."""

    @abstractmethod
    def said(self, messages: list[Any], ask: AskModel) -> Request:
        """The history and the system text."""

    def request(self, messages: Messages, tools: Messages, ask: AskModel, left: float | None) -> Request:
        request = self.options | self.said(list(messages), ask) | {"model": self.model, "stream": self.stream}
        if tools:
            request["tools"] = list(tools)
            request |= {"tool_choice": self.choose_none} if ask.tool_choice == "none" else {}
        else:
            request = {name: value for name, value in request.items() if name not in _WITH_TOOLS}
        if left is not None:
            request["timeout"] = _within(request.get("timeout", self.client.timeout), left)
        return request

    def pieces(self, request: Request, reading: Reading) -> Generator[bytes]:
        with self._create(**request) as response, reading.watched(response.http_response):
            yield from response.iter_bytes()

    async def pieces_async(self, request: Request) -> AsyncGenerator[bytes]:
        async with self._create(**request) as response:
            async for data in response.iter_bytes():
                yield data


def _within(own: Any, left: float) -> Any:
    """The client's own timeout, no part of it longer than what is left: seconds, None, or an object of httpx."""
    if own is None or isinstance(own, int | float):
        return left if own is None else min(own, left)
    return type(own)(**{part: _within(seconds, left) for part, seconds in own.as_dict().items()})


class OpenAIChatSdk(Rest):
    """Chat Completions."""

    maker = "openai_chat"
    wire = OPENAI_CHAT
    ours = {"messages": _RUNS, "tools": _RUNS}

    def __init__(self, client: Any, model: str, stream: bool, options: Request) -> None:
        if stream:  # without it a stream brings no usage
            options = {"stream_options": {"include_usage": True}} | options
        if options.get("stream_options", ()) is None:
            options = {name: value for name, value in options.items() if name != "stream_options"}
        super().__init__(client, model, stream, options)

    def resource(self, client: Any) -> Any:
        return client.chat.completions

    def said(self, messages: list[Any], ask: AskModel) -> Request:
        return {"messages": messages}


class OpenAIResponsesSdk(Rest):
    """Responses."""

    maker = "openai_responses"
    wire = OPENAI_RESPONSES
    ours = {"input": _RUNS, "tools": _RUNS, "instructions": _SYSTEM}

    def resource(self, client: Any) -> Any:
        return client.responses

    def said(self, messages: list[Any], ask: AskModel) -> Request:
        return {"input": messages} | ({} if ask.system is None else {"instructions": ask.system})


class AnthropicSdk(Rest):
    """Messages."""

    maker = "anthropic"
    wire = ANTHROPIC
    ours = {"messages": _RUNS, "tools": _RUNS, "system": _SYSTEM}
    choose_none = {"type": "none"}

    def __init__(self, client: Any, model: str, stream: bool, options: Request) -> None:
        super().__init__(client, model, stream, {"max_tokens": _MAX_TOKENS} | options)

    def resource(self, client: Any) -> Any:
        return client.messages

    def said(self, messages: list[Any], ask: AskModel) -> Request:
        return {"messages": messages} | ({} if ask.system is None else {"system": ask.system})
