"""The SDK of Google, google-genai, which hands out no response: a whole body as text, a stream as its own objects.

What is sent goes round its types (``extra_body``), which refuse what they do not know and rewrite signatures.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import closing
from inspect import isasyncgen
from traceback import walk_tb
from types import FrameType
from typing import Any
from typing import Final as Constant

from loopmachine.errors import ModelError
from loopmachine.models.adapter import Request, Sdk, are_seconds
from loopmachine.models.reading import Reading
from loopmachine.requests import AskModel
from loopmachine.wire import GEMINI, Messages
from loopmachine.wire.fields import mapping
from loopmachine.wire.framing import STREAM_MALFORMED
from loopmachine.wire.stream import provider_error

_RUNS: Constant = "the run sends it"
#: The SDK calls no function and asks for no more by itself: what happens next is a row of the table.
_QUIET: Constant[Request] = {"automatic_function_calling": {"disable": True}, "automatic_continuation": False}


class GoogleSdk(Sdk):
    """generateContent and streamGenerateContent, of the Gemini API and of Vertex AI."""

    maker = "google"
    wire = GEMINI
    ours = {
        "contents": _RUNS,
        "tools": _RUNS,
        "system_instruction": "give the system text to run, as system=",
        "config": "give its fields here, one by one",
        "http_options": "give them to the client; timeout=, in seconds, can be given here",
        "should_return_http_response": "the adapter sets it",
        **dict.fromkeys(_QUIET, "what happens next is for the run to say"),
    }

    def __init__(self, client: Any, model: str, stream: bool, options: Request) -> None:
        from google.genai.types import GenerateContentConfig

        super().__init__(client, model, stream, dict(options))
        own = self.options.pop("timeout", None)
        self._timeout = _clients_timeout(client) if own is None else own
        if self._timeout is not None and not are_seconds(self._timeout):
            raise TypeError(f"models.google: timeout must be positive, finite seconds or None, not {self._timeout!r}")
        self._choice = self.options.pop("tool_config", None)
        try:
            GenerateContentConfig(**self.options, tool_config=self._choice)
        except ValueError as wrong:
            raise TypeError(f"models.google: no such options of GenerateContentConfig: {wrong}") from None

    def request(self, messages: Messages, tools: Messages, ask: AskModel, left: float | None) -> Request:
        body: Request = {"contents": list(messages)}
        if ask.system is not None:
            body["systemInstruction"] = ask.system
        config = self.options | _QUIET
        if tools:
            body["tools"] = list(tools)
            config["tool_config"] = self._choice
        seconds = min((one for one in (self._timeout, left) if one is not None), default=None)
        config["http_options"] = {
            "timeout": None if seconds is None else math.ceil(seconds * 1000),
            "retry_options": {"attempts": 1},  # a retry is a row of the table, which counts it
            "extra_body": body,
        }
        if not self.stream:
            config["should_return_http_response"] = True
        # The body's own contents stand in the place of these, which the SDK wants.
        return {"model": self.model, "contents": [{"role": "user", "parts": [{"text": "-"}]}], "config": config}

    def pieces(self, request: Request, reading: Reading) -> Generator[Any]:
        models = self.client.models
        if not self.stream:
            yield _body(models.generate_content(**request))
            return
        try:
            with closing(models.generate_content_stream(**request)) as chunks:
                yield from map(mapping, chunks)
        except (AttributeError, TypeError) as error:
            raise _unread(error) from error

    async def pieces_async(self, request: Request) -> AsyncGenerator[Any]:
        models = self.client.models
        if not self.stream:
            yield _body(await models.generate_content(**request))
            return
        chunks = await models.generate_content_stream(**request)
        try:
            async for chunk in chunks:
                yield mapping(chunk)
        except BaseException as stop:
            for frame, _ in walk_tb(stop.__traceback__):
                for one in list(_open(frame)):
                    await one.aclose()
            if isinstance(stop, AttributeError | TypeError):
                raise _unread(stop) from stop
            raise


def _clients_timeout(client: Any) -> float | None:
    """Seconds: what a request says of its time replaces the client's own, which the SDK does not show."""
    told = getattr(getattr(client, "_api_client", None), "_http_options", None)
    milliseconds = getattr(told, "timeout", None)
    return milliseconds / 1000 if milliseconds else None


def _open(frame: FrameType | None) -> Iterator[Any]:
    """What feeds the async streams of the SDK in a frame, the farthest first: each is in the frame of the one it feeds.

    A stream that is left closes none of them, nor does the end of their use, for the response refers to itself.
    """
    for one in frame.f_locals.values() if frame else ():
        if isasyncgen(one):
            yield from (*_open(one.ag_frame), one)
        elif hasattr(one, "segment_iterator"):
            yield one.segment_iterator
            yield from (held for held in [one.response_stream] if hasattr(held, "aclose"))


def _unread(error: Exception) -> ModelError:
    """What the server sent where the SDK falls over it, such as an error whose code is a word."""
    for frame, _ in walk_tb(error.__traceback__):
        sent = frame.f_locals.get("chunk_json")
        if isinstance(sent, dict) and sent.get("error"):
            return provider_error(sent["error"])
    said = f"what the server sent can't be read: {type(error).__name__}: {error}"
    return ModelError(STREAM_MALFORMED, said, retryable=True)


def _body(reply: Any) -> bytes:
    return (reply.sdk_http_response.body or "").encode()
