"""What docstrings say."""

from __future__ import annotations

import pytest

from loopmachine.tools.texts import parsed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, ("", {})),
        (" \n ", ("", {})),
        ("Go.", ("Go.", {})),
        (":param a: the a", ("", {"a": "the a"})),
        ("Go.\n\nFar.\n\nArgs:\n    a (int): the\n        a\n    b:", ("Go.\n\nFar.", {"a": "the a", "b": ""})),
        ("Go.\n\nParameters\n----------\na : int\n    the a", ("Go.", {"a": "the a"})),
        ("Go.\n\nParameters\n----------\na, b : int\n    one", ("Go.", {"a": "one", "b": "one"})),
        ("Go.\n\nAttributes:\n    a: the a", ("Go.", {"a": "the a"})),
    ],
)
def test_a_docstring_says_what_it_is_about_and_what_its_parameters_are(
    text: str | None, said: tuple[str, dict[str, str]]
) -> None:
    """The description and the text of each parameter or attribute are told; nothing where nothing is said."""
    assert parsed(text) == said
