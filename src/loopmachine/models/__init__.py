"""Adapters: a provider's own SDK client as a model for ``run`` and ``run_async``. Importing this imports no SDK.

``run(models.openai_chat(OpenAI(), "gpt-5", temperature=0), "What is it worth?", tools=[price])``
"""

from __future__ import annotations

from loopmachine.models.adapter import AsyncModel, Model
from loopmachine.models.makers import anthropic, google, openai_chat, openai_responses

__all__ = ["AsyncModel", "Model", "anthropic", "google", "openai_chat", "openai_responses"]
