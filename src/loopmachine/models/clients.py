"""Clients of the SDKs for any server that speaks their shapes, made from its URL and a key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from typing import Final as Constant
from urllib.parse import urlsplit

from loopmachine.errors import LoopError


def client(maker: str, url: str, key: str) -> Any:
    """A sync client that ``models.<maker>`` takes. The version of the API may stand at the end of the URL or not.

    Raises LoopError where the SDK is not installed, which names the extra, and for what is no URL.
    """
    url = _checked(url)
    extra, make = _CLIENTS[maker]
    try:
        return make(url, key)
    except ImportError as missing:
        right = f"pip install 'loopmachine[{extra}]'"
        raise LoopError(f"models.{maker} needs an SDK that is not installed here ({missing}): {right}") from missing


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        right = False
    if not right:
        raise LoopError(f"the server's URL must be one such as http://127.0.0.1:8080, not {url!r}")
    return url.rstrip("/")


def _openai(url: str, key: str) -> Any:
    from openai import OpenAI

    # Where there is a path it is the provider's own, such as /api/paas/v4.
    return OpenAI(base_url=url if urlsplit(url).path else f"{url}/v1", api_key=key)


def _anthropic(url: str, key: str) -> Any:
    from anthropic import Anthropic

    return Anthropic(base_url=url.removesuffix("/v1"), api_key=key)


def _google(url: str, key: str) -> Any:
    from google.genai import Client

    # Most servers speak v1beta alone. An environment made for Vertex AI does not matter here.
    root = url.removesuffix("/v1beta")
    return Client(vertexai=False, api_key=key, http_options={"base_url": root, "api_version": "v1beta"})


#: By the function of ``models``: the extra that brings the SDK, and what makes its client.
_CLIENTS: Constant[dict[str, tuple[str, Callable[[str, str], Any]]]] = {
    "openai_chat": ("openai", _openai),
    "openai_responses": ("openai", _openai),
    "anthropic": ("anthropic", _anthropic),
    "google": ("google", _google),
}
