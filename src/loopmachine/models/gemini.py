"""The SDK of Google, google-genai, which hands out no response: a whole body as text, a stream as its own objects.

What is sent goes round its types (``extra_body``), which refuse what they do not know and rewrite signatures.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, closing
from typing import Any
from typing import Final as Constant

from loopmachine.models.adapter import Request, Sdk
from loopmachine.models.reading import Reading
from loopmachine.requests import AskModel
from loopmachine.wire import GEMINI, Messages
from loopmachine.wire.fields import mapping

_RUNS: Constant = "the run sends it"
_STANDARD: Constant = str.maketrans("-_", "+/")  #: base64 as the API sends it, from that of the SDK's objects
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
        self._timeout = self.options.pop("timeout", None)
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
        with closing(models.generate_content_stream(**request)) as chunks:
            yield from map(_chunk, chunks)

    async def pieces_async(self, request: Request) -> AsyncGenerator[Any]:
        models = self.client.models
        if not self.stream:
            yield _body(await models.generate_content(**request))
            return
        async with aclosing(await models.generate_content_stream(**request)) as chunks:
            async for chunk in chunks:
                yield _chunk(chunk)


def _body(reply: Any) -> bytes:
    return (reply.sdk_http_response.body or "").encode()


def _chunk(reply: Any) -> dict[str, Any]:
    """A chunk as the API sends it, its signatures too."""
    chunk = mapping(reply)
    for candidate in chunk.get("candidates") or ():
        for part in (candidate.get("content") or {}).get("parts") or ():
            if isinstance(part.get("thoughtSignature"), str):
                part["thoughtSignature"] = part["thoughtSignature"].translate(_STANDARD)
    return chunk
