"""What docstrings say, in Google, NumPy or Sphinx style."""

from __future__ import annotations

import inspect
from typing import Any


def written(cls: Any) -> str:
    """The docstring that a class was given; blank for one that dataclasses or an Enum write."""
    text = inspect.cleandoc(getattr(cls, "__dict__", {}).get("__doc__") or "")
    return "" if text.startswith(f"{getattr(cls, '__name__', '')}(") or text == "An enumeration." else text


def parsed(text: str | None) -> tuple[str, dict[str, str]]:
    """The description in a docstring, and the text of each parameter or attribute."""
    if not text or not text.strip():
        return "", {}
    import docstring_parser  # heavy, and only needed here

    found = docstring_parser.parse(text)
    texts = {
        name.strip(): " ".join((one.description or "").split())
        for one in found.params
        for name in one.arg_name.split(",")
    }
    return (found.description or "").strip(), texts
