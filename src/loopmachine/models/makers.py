"""What makes an adapter of a client: one function an API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload
from typing import Final as Constant

from loopmachine.models.adapter import AsyncModel, Model, OnDelta, Sdk
from loopmachine.models.gemini import GoogleSdk
from loopmachine.models.rest import AnthropicSdk, OpenAIChatSdk, OpenAIResponsesSdk

if TYPE_CHECKING:
    import anthropic as anthropic_sdk
    import openai as openai_sdk
    from google.genai import Client
    from google.genai.client import AsyncClient

#: By the package of an SDK: what its sync and its async clients are called, which to give, and to what.
_CLIENTS: Constant = {
    "openai": (
        ["OpenAI"],
        ["AsyncOpenAI"],
        "an openai.OpenAI or openai.AsyncOpenAI",
        "models.openai_chat or models.openai_responses",
    ),
    "anthropic": (
        ["Anthropic", "AnthropicVertex"],
        ["AsyncAnthropic", "AsyncAnthropicVertex"],
        "an anthropic.Anthropic or anthropic.AsyncAnthropic",
        "models.anthropic",
    ),
    "google.genai": (["Client"], ["AsyncClient"], "a google.genai.Client or its aio", "models.google"),
}


@overload
def openai_chat(
    client: openai_sdk.OpenAI, model: str, *, stream: bool = False, on_delta: OnDelta | None = None, **options: Any
) -> Model: ...
@overload
def openai_chat(
    client: openai_sdk.AsyncOpenAI, model: str, *, stream: bool = False, on_delta: OnDelta | None = None, **options: Any
) -> AsyncModel: ...
def openai_chat(
    client: Any, model: str, *, stream: bool = False, on_delta: OnDelta | None = None, **options: Any
) -> Model | AsyncModel:
    """A model over Chat Completions, of an ``openai.OpenAI`` or ``AsyncOpenAI`` client of any server that speaks it.

    ``on_delta(delta)`` gets what is new for a screen while the reply is streamed. ``options`` go with each request, as
    the SDK's ``create`` takes them; ``stream_options=None`` is for servers that refuse to be asked for usage.
    The SDK's own retries are off: ``Policy.model_retries`` is what retries. TypeError for what can't be right.
    """
    return _adapter(OpenAIChatSdk, "openai", client, model, stream, on_delta, options)


@overload
def openai_responses(
    client: openai_sdk.OpenAI, model: str, *, stream: bool = False, on_delta: OnDelta | None = None, **options: Any
) -> Model: ...
@overload
def openai_responses(
    client: openai_sdk.AsyncOpenAI, model: str, *, stream: bool = False, on_delta: OnDelta | None = None, **options: Any
) -> AsyncModel: ...
def openai_responses(
    client: Any, model: str, *, stream: bool = False, on_delta: OnDelta | None = None, **options: Any
) -> Model | AsyncModel:
    """A model over the Responses API, of an ``openai.OpenAI`` or ``AsyncOpenAI`` client; else as ``openai_chat``."""
    return _adapter(OpenAIResponsesSdk, "openai", client, model, stream, on_delta, options)


@overload
def anthropic(
    client: anthropic_sdk.Anthropic | anthropic_sdk.AnthropicVertex,
    model: str,
    *,
    stream: bool = False,
    on_delta: OnDelta | None = None,
    **options: Any,
) -> Model: ...
@overload
def anthropic(
    client: anthropic_sdk.AsyncAnthropic | anthropic_sdk.AsyncAnthropicVertex,
    model: str,
    *,
    stream: bool = False,
    on_delta: OnDelta | None = None,
    **options: Any,
) -> AsyncModel: ...
def anthropic(
    client: Any, model: str, *, stream: bool = False, on_delta: OnDelta | None = None, **options: Any
) -> Model | AsyncModel:
    """A model over the Messages API, of an ``anthropic.Anthropic`` or ``AsyncAnthropic``; else as ``openai_chat``.

    ``max_tokens`` is 4096 unless given. What the SDK's ``create`` does not take goes in ``extra_body``.
    """
    return _adapter(AnthropicSdk, "anthropic", client, model, stream, on_delta, options)


@overload
def google(
    client: Client, model: str, *, stream: bool = False, on_delta: OnDelta | None = None, **options: Any
) -> Model: ...
@overload
def google(
    client: AsyncClient, model: str, *, stream: bool = False, on_delta: OnDelta | None = None, **options: Any
) -> AsyncModel: ...
def google(
    client: Any, model: str, *, stream: bool = False, on_delta: OnDelta | None = None, **options: Any
) -> Model | AsyncModel:
    """A model over generateContent, of a ``google.genai.Client`` or, for ``run_async``, its ``client.aio``.

    ``options`` are fields of ``GenerateContentConfig``, and ``timeout`` in seconds; else as ``openai_chat``. This SDK
    hands out no connection: that of a sync client is left at once all the same, and closed when the server sends more.
    """
    return _adapter(GoogleSdk, "google.genai", client, model, stream, on_delta, options)


def _adapter(
    sdk: type[Sdk],
    package: str,
    client: Any,
    model: str,
    stream: bool,
    on_delta: OnDelta | None,
    options: dict[str, Any],
) -> Model | AsyncModel:
    asynchronous = _is_async(sdk.maker, package, client)
    made = sdk(client, model, stream, options)
    return AsyncModel(made, on_delta) if asynchronous else Model(made, on_delta)


def _is_async(maker: str, package: str, client: Any) -> bool:
    """Whether a client is an async one. TypeError where it is none of this SDK's."""
    synchronous, asynchronous, wanted, _ = _CLIENTS[package]
    kinds = {one.__name__ for one in _of(package, client)}
    if kinds.isdisjoint([*synchronous, *asynchronous]):
        rights = [right for other, (*_, right) in _CLIENTS.items() if other != package and _of(other, client)]
        named = f"{type(client).__module__}.{type(client).__qualname__}"
        other = "".join(f", which is for {right}" for right in rights)
        raise TypeError(f"models.{maker}: client must be {wanted}, not a {named}{other}")
    return not kinds.isdisjoint(asynchronous)


def _of(package: str, client: Any) -> list[type]:
    """The classes that a client is of, as far as they are the SDK's."""
    return [one for one in type(client).__mro__ if f"{one.__module__}.".startswith(f"{package}.")]
