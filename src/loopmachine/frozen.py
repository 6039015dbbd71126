"""JSON kept as text: a value that nobody can change, and that is new each time somebody reads it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_encode_slowly = json.JSONEncoder(separators=(",", ":"), default=msgspec.to_builtins).encode


def freeze(value: Any) -> str:
    """JSON text of a JSON-shaped value, its keys in the order given.

    A NaN or an infinity is kept as the word that Python writes, so that a reader can refuse it.
    Raises TypeError, ValueError or RecursionError for what is no JSON at all.
    """
    try:
        text = _encode(value).decode()
        if "null" not in text:  # msgspec writes null for NaN
            return text
    except (UnicodeEncodeError, TypeError):  # a lone surrogate, which only an escape can carry; a subclass of str
        pass
    return _encode_slowly(value)


def whole(text: str) -> str:
    """Text that can be printed and sent: half a character is U+FFFD, two halves that stand together are one."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def thaw(text: str) -> Any:
    """The value of ``text``, new each time. Raises ValueError where it is no JSON."""
    try:
        return _decode(text)
    except (msgspec.MsgspecError, UnicodeError):  # Python's own reader also takes NaN and lone surrogates
        return json.loads(text)


def json_object(text: str) -> dict[str, Any] | None:
    """The object of ``text``, None where it holds none. As strict as servers are: no NaN, no lone surrogate."""
    try:
        value = _decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
