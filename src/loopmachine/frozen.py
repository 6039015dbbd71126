"""JSON kept as text: a value that nobody can change, and that is new each time somebody reads it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def freeze(value: Any) -> str:
    """JSON text of a JSON-shaped value, its keys in the order given.

    A NaN or an infinity is kept as the word that Python writes, so that a reader can refuse it.
    Raises TypeError, ValueError or RecursionError for what is no JSON at all.
    """
    try:
        text = _encode(value).decode()
        if "null" not in text:  # msgspec writes null for NaN
            return text
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can carry
        pass
    return json.dumps(value, separators=(",", ":"), default=msgspec.to_builtins)


def thaw(text: str) -> Any:
    """The value of ``text``, new each time. Raises ValueError where it is no JSON."""
    try:
        return _decode(text)
    except (msgspec.MsgspecError, UnicodeError):  # Python's own reader also takes NaN and lone surrogates
        return json.loads(text)
