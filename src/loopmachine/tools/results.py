"""What a tool brought, as text for the model. Nothing that a tool returns or raises makes this raise."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import msgspec

from loopmachine.tools.words import printable, said_by


def result_text(value: Any, max_chars: int) -> str:
    """A returned value: text as it is, anything else as strict JSON (None is ``null``, bytes are base64).

    What JSON does not have is named in its place: ``"NaN"``, ``"<object: not JSON>"``. At most ``max_chars``
    characters; a longer text is cut, its last words saying how long it was.
    """
    try:
        text = value if isinstance(value, str) else _json(value)
    except Exception as error:
        text = f"the tool returned a {type(value).__name__}, which can't be written as JSON: {said_by(error)}"
    return fitted(text, max_chars)


def error_text(error: Exception, style: str | Callable[[Exception], str], max_chars: int) -> str:
    """What a model is told of an exception, never a traceback: see ``Policy.error_text``.

    A callable that raises, or gives no text, is answered with the class name.
    """
    name = type(error).__name__
    if style == "message":
        told = said_by(error)
        return fitted(f"{name}: {told}" if told.strip() else name, max_chars)
    if callable(style):
        try:
            said = style(error)
        except Exception:
            said = name
        return fitted(said if isinstance(said, str) else name, max_chars)
    return name


def fitted(text: str, max_chars: int) -> str:
    """Text that UTF-8 can carry, of at most ``max_chars`` characters."""
    text = printable(text)
    if len(text) <= max_chars:
        return text
    mark = f"\n[cut: this text has {len(text)} characters]"
    return (text[: max(0, max_chars - len(mark))] + mark)[:max_chars]


def _json(value: Any) -> str:
    try:
        text = _encode(value).decode()
        if "null" not in text:  # msgspec writes null for NaN
            return text
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can carry
        pass
    plain = _finite(msgspec.to_builtins(value, enc_hook=_named, str_keys=True))
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


def _named(value: Any) -> Any:
    """For msgspec's ``enc_hook``: pydantic models as they write themselves, the rest by the name of its type."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return f"<{type(value).__name__}: not JSON>"


_encode = msgspec.json.Encoder(enc_hook=_named).encode


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return value
