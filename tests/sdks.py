"""Runs over the real SDKs against a server on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import product
from typing import Any

import anthropic
import attrs
import openai
import pytest
from google import genai

from loopmachine import Result, models, run, run_async, tool
from loopmachine.models import AsyncModel, Model
from loopmachine.records import Failure

MAKERS = ["openai_chat", "openai_responses", "anthropic", "google"]


@attrs.frozen
class Way:
    """One way to ask: over which API, with which client, streamed or not."""

    maker: str
    asynchronous: bool
    stream: bool

    def __str__(self) -> str:
        return f"{self.maker}-{'async' if self.asynchronous else 'sync'}-{'streamed' if self.stream else 'whole'}"


WAYS = [Way(*one) for one in product(MAKERS, [False, True], [False, True])]
STREAMED = [way for way in WAYS if way.stream]
every_way = pytest.mark.parametrize("way", WAYS, ids=str)
every_streamed_way = pytest.mark.parametrize("way", STREAMED, ids=str)
every_maker = pytest.mark.parametrize("maker", MAKERS)


@tool
def look(n: int = 0) -> str:
    """Look."""
    return f"seen {n}"


def client_of(maker: str, url: str, **options: Any) -> Any:
    """A sync client of the SDK."""
    if maker == "google":
        return genai.Client(api_key="key", http_options={"base_url": url, "api_version": "v1beta"})
    if maker == "anthropic":
        return anthropic.Anthropic(base_url=url, api_key="key", **options)
    return openai.OpenAI(base_url=f"{url}/v1", api_key="key", **options)


def async_client_of(maker: str, url: str) -> Any:
    """An async one."""
    if maker == "google":
        return client_of(maker, url).aio
    if maker == "anthropic":
        return anthropic.AsyncAnthropic(base_url=url, api_key="key")
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="key")


def model_of(way: Way, client: Any, **options: Any) -> Any:
    """The adapter of a client."""
    made = getattr(models, way.maker)(client, "m1", stream=way.stream, **options)
    assert type(made) is (AsyncModel if way.asynchronous else Model)
    return made


def ran(
    way: Way,
    url: str,
    *,
    prompt: Any = "go",
    adapter: dict[str, Any] | None = None,
    make: Callable[[Any], Any] | None = None,
    **options: Any,
) -> Result:
    """A run this way, with the tool ``look`` unless others are given, after which the client is closed.

    ``make`` makes the model of the client, where that is not the adapter itself.
    """
    options = {"tools": [look]} | options
    make = make or (lambda client: model_of(way, client, **adapter or {}))

    async def asynchronously() -> Result:
        client = async_client_of(way.maker, url)
        try:
            return await run_async(make(client), prompt, **options)
        finally:
            await (client.aclose() if way.maker == "google" else client.close())

    if way.asynchronous:
        return asyncio.run(asynchronously())
    client = client_of(way.maker, url)
    try:
        return run(make(client), prompt, **options)
    finally:
        client.close()


def failed(way: Way, url: str, **options: Any) -> Failure:
    """Why the model failed in a run that ends so."""
    result = ran(way, url, **options)
    assert (result.status, type(result.snapshot.failure)) == ("model_error", Failure)
    failure = result.snapshot.failure
    assert failure is not None
    return failure
