"""The SDKs of OpenAI and Anthropic, which are made alike: the bytes of a body are read, nothing of theirs parses it.

Their own readers of streams raise nothing where a stream is cut, and raise what is of no kind of theirs where a chunk
is no JSON.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import AsyncGenerator, Generator, Mapping
from typing import Any, ClassVar
from typing import Final as Constant

from loopmachine.models.adapter import Request, Sdk, are_seconds
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
        super().__init__(self._quiet(client), model, stream, options)
        self._create = self.resource(self.client).with_streaming_response.create
        known = inspect.signature(self._create).parameters
        for name in options:
            if name not in known:
                right = f"to send it all the same, extra_body={{{name!r}: ...}}"
                raise TypeError(f"models.{self.maker}: create of this SDK takes no {name}; {right}")
        # What the SDK calls not given, or omitted, it has to be told no more of.
        self.options = {name: one for name, one in options.items() if type(one).__name__ not in ("NotGiven", "Omit")}
        self._check_extras([name for name in ("model", "stream", *_WITH_TOOLS) if name in known])
        for what, own in (("timeout", self.options.get("timeout")), ("the client's timeout", self.client.timeout)):
            if not _can_wait(own):
                right = "positive, finite seconds, None or a Timeout of httpx"
                raise TypeError(f"models.{self.maker}: {what} must be {right}, not {own!r}")

    def _quiet(self, client: Any) -> Any:
        """The client without retries: one is a row of the table, which counts it."""
        try:
            return client.with_options(max_retries=0)
        except TypeError as wrong:  # of a class of the user's own
            right = "its __init__ must take what that of the SDK's own client takes"
            raise TypeError(
                f"models.{self.maker}: client has no with_options(max_retries=0): {wrong}; {right}"
            ) from wrong

    def _check_extras(self, own: list[str]) -> None:
        """Refuse what is no object, and in a body what the run sets, or has to be an option of its own."""
        for name in ("extra_headers", "extra_query", "extra_body"):
            if not isinstance(self.options.get(name), Mapping | None):
                raise TypeError(f"models.{self.maker}: {name} must be a dict or None, not {self.options[name]!r}")
        whys = {**self.ours, **{name: f"give it as {name}=" for name in own}}
        for name in self.options.get("extra_body") or ():
            if name in whys:
                raise TypeError(f"models.{self.maker}: {name} can't be given in extra_body: {whys[name]}")

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


def _can_wait(own: Any) -> bool:
    """Whether this is a timeout that clients take. A part of one of httpx may be 0, such as the wait for a pool."""
    if hasattr(type(own), "as_dict"):
        return all(part is None or part == 0 or are_seconds(part) for part in own.as_dict().values())
    return own is None or are_seconds(own)


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
        most = options.get("max_tokens", _MAX_TOKENS)
        if not isinstance(most, int) or isinstance(most, bool) or most < 1:
            raise TypeError(f"models.anthropic: max_tokens must be a positive whole number, not {most!r}")

    def resource(self, client: Any) -> Any:
        return client.messages

    def said(self, messages: list[Any], ask: AskModel) -> Request:
        return {"messages": messages} | ({} if ask.system is None else {"system": ask.system})
