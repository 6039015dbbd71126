"""The spelling of the Gemini API, which Google's SDK writes in another: ``finishReason`` is its ``finish_reason``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from typing import Final as Constant

_FREE: Constant = ("args", "response", "partMetadata")  #: fields whose own fields are no words of this API


def spelled(value: object) -> dict[Any, Any]:
    """An object with its own fields in the spelling of the API; of what is none, one without fields."""
    return {_camel(field): inner for field, inner in value.items()} if isinstance(value, Mapping) else {}


def as_api(value: Any) -> Any:
    """A value as the API writes it, however deep: in its spelling, and without what is absent."""
    if isinstance(value, dict):
        fields = spelled(value).items()
        return {field: inner if field in _FREE else as_api(inner) for field, inner in fields if inner is not None}
    return [as_api(inner) for inner in value] if isinstance(value, list | tuple) else value


def _camel(field: object) -> Any:
    if not isinstance(field, str):
        return field
    first, *others = field.split("_")
    return first + "".join(one[:1].upper() + one[1:] for one in others)
