"""A player who does its worst with what it is handed."""

from __future__ import annotations

from typing import Any

import attrs
import pytest


def spoil(thing: Any) -> None:
    """Empty all that can be emptied, however deep, and see that nothing can be set in a record."""
    if isinstance(thing, list | dict):
        for one in list(thing.values() if isinstance(thing, dict) else thing):
            spoil(one)
        thing.clear()
    elif isinstance(thing, tuple):
        for one in thing:
            spoil(one)
    elif attrs.has(type(thing)):
        for field in attrs.fields(type(thing)):
            spoil(getattr(thing, field.name))
            with pytest.raises(attrs.exceptions.FrozenInstanceError):
                setattr(thing, field.name, None)


def spoil_messages(messages: Any) -> None:
    """Spoil each of a run's messages or tools, then the sequence of them."""
    spoil(list(messages))
    messages.clear()
