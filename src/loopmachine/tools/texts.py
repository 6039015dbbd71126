"""What docstrings say, in Google, NumPy or Sphinx style."""

from __future__ import annotations

import inspect
import re
from functools import cache
from typing import Any
from typing import Final as Constant

#: Sections that a model reads, too. The others tell of parameters, results and exceptions.
_KEPT: Constant = {"examples", "warnings", "see_also", "notes", "references", "deprecation"}


def written(cls: Any) -> str:
    """The docstring that a class was given; blank for one that dataclasses or an Enum write."""
    text = inspect.cleandoc(getattr(cls, "__dict__", {}).get("__doc__") or "")
    return "" if text.startswith(f"{getattr(cls, '__name__', '')}(") or text == "An enumeration." else text


def parsed(text: str | None) -> tuple[str, dict[str, str]]:
    """The description in a clean docstring, notes and examples included, and the texts of parameters or attributes."""
    if not text or not text.strip():
        return "", {}
    import docstring_parser  # heavy, and only needed here

    text = f"\n{text}\n"  # with a line before it, for it is cleaned again: the first line counts for no margin
    style = docstring_parser.parse(text).style or docstring_parser.DocstringStyle.REST
    apart = _sections()[style.name]
    found = docstring_parser.parse("\n" + "".join(re.findall(apart, text)), style)
    texts = {
        name.strip(): " ".join((one.description or "").split())
        for one in found.params
        for name in one.arg_name.split(",")
    }
    return re.sub(r"\n{3,}", "\n\n", re.sub(apart, "", text)).strip(), texts


@cache
def _sections() -> dict[str, str]:
    """What tells of parameters, results and exceptions, by the style: an expression for each such part of the text.

    docstring_parser drops what stands after the first of these parts, unless it is another that it knows.
    """
    from docstring_parser import common, google, numpydoc

    def titles(known: Any) -> str:
        return "|".join(re.escape(one.title) for one in known.DEFAULT_SECTIONS if one.key not in _KEPT)

    def fields(mark: str, known: Any) -> str:
        return rf"(?m)^{mark}(?:{'|'.join(known)})\b.*\n(?:(?!{mark}|\.\. ).+\n|\n+(?=[ \t]))*"

    values = common.RETURNS_KEYWORDS | common.YIELDS_KEYWORDS | {"type", "rtype", "ytype"}
    named = common.PARAM_KEYWORDS | common.RAISES_KEYWORDS | values
    return {
        "GOOGLE": rf"(?m)^(?:{titles(google)}):[ \t]*\n(?:(?:[ \t].*)?\n)*",
        "NUMPYDOC": rf"(?m)^(?:{titles(numpydoc)})[ \t]*\n-{{2,}}[ \t]*\n(?:(?!.+\n-{{2,}}[ \t]*\n).*\n)*",
        "REST": fields(":", named),
        "EPYDOC": fields("@", named | {"ivar", "cvar", "var"}),
    }
