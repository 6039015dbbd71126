"""What docstrings say, in Google, NumPy or Sphinx style."""

from __future__ import annotations


def parsed(text: str | None) -> tuple[str, dict[str, str]]:
    """The description in a docstring, and the text of each parameter or attribute."""
    if not text or not text.strip():
        return "", {}
    import docstring_parser  # heavy, and only needed here

    found = docstring_parser.parse(text)
    texts = {one.arg_name: " ".join((one.description or "").split()) for one in found.params}
    return (found.description or "").strip(), texts
