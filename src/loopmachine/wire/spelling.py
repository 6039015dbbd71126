"""The spelling of the Gemini API, which Google's SDK writes in another: ``finishReason`` is its ``finish_reason``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from typing import Final as Constant

from loopmachine.wire.fields import DEEPEST, too_deep

_FREE: Constant = ("args", "response", "partMetadata")  #: fields whose own fields are no words of this API


def spelled(value: object) -> dict[Any, Any]:
    """An object with its own fields in the spelling of the API; of what is none, one without fields."""
    return {_camel(field): inner for field, inner in value.items()} if isinstance(value, Mapping) else {}


def as_api(value: Any, field: str, levels: int = DEEPEST) -> Any:
    """A value of this field as the API writes it, down to what is deepest: in its spelling, without what is absent.

    Unreadable where it nests deeper than so many levels.
    """
    if not isinstance(value, dict | list | tuple):
        return value
    if not levels:
        raise too_deep(field)
    if not isinstance(value, dict):
        return [as_api(inner, field, levels - 1) for inner in value]
    return {
        own: inner if own in _FREE else as_api(inner, field, levels - 1)
        for own, inner in spelled(value).items()
        if inner is not None
    }


def _camel(field: object) -> Any:
    if not isinstance(field, str):
        return field
    first, *others = field.split("_")
    return first + "".join(one[:1].upper() + one[1:] for one in others)
