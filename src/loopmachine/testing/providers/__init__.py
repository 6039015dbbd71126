"""The four providers whose wires are known: what a server of each accepts and how it replies."""

from __future__ import annotations

from typing import Final as Constant

from loopmachine.testing.providers.anthropic import Anthropic
from loopmachine.testing.providers.base import Provider
from loopmachine.testing.providers.gemini import Gemini
from loopmachine.testing.providers.openai_chat import OpenAIChat
from loopmachine.testing.providers.openai_responses import OpenAIResponses
from loopmachine.wire import Wire

PROVIDERS: Constant[tuple[Provider, ...]] = (OpenAIChat(), OpenAIResponses(), Anthropic(), Gemini())


def provider_of(wire: Wire) -> Provider:
    """The provider that speaks a wire. ValueError for a wire that none does."""
    for one in PROVIDERS:
        if one.wire is wire:
            return one
    known = ", ".join(str(one.wire) for one in PROVIDERS)
    raise ValueError(f"wire: no provider speaks {wire!r}, so it has no streams; those that are spoken: {known}")
