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
        ("Args:\n    a: the a\n    b: the b", ("", {"a": "the a", "b": "the b"})),
        ("Go.\n\nArgs:\n\nNote: far", ("Go.\n\nArgs:\n\nNote: far", {})),
        ("Go.\n\n:param a: the a\n\nFar.", ("Go.\n\nFar.", {"a": "the a"})),
        ("Go.\n\n@param a: the a\n@note: far\n@return: b", ("Go.\n\n@note: far", {"a": "the a"})),
    ],
)
def test_a_docstring_says_what_it_is_about_and_what_its_parameters_are(
    text: str | None, said: tuple[str, dict[str, str]]
) -> None:
    """The description and the text of each parameter or attribute are told; nothing where nothing is said."""
    assert parsed(text) == said


GOOGLE = """Find it.

Note:
    Ids begin at 1.

Args:
    a: the a

        and more

Returns:
    it: what was found
Raises:
    Denied: when it is not yours

Example:
    >>> find(1)

    2
Warning:
    It is slow.

There is no more.
"""
NUMPY = """Find it.

Parameters
----------
a : int
    the a

    and more

Returns
-------
int
    what was found

Notes
-----
Ids begin at 1.

Raises
------
Denied
    when it is not yours

Examples
--------
>>> find(1)

2

Other Parameters
----------------
b : int
    the b
"""
SPHINX = """Find it.

:param a: the a
  and
  more
:type a: int
:note: Ids begin at 1.
:returns: what was found

    or nothing
.. warning:: It is slow.
:raises Denied: when it is not yours

There is no more.
"""


@pytest.mark.parametrize(
    ("text", "description", "texts"),
    [
        (
            GOOGLE,
            "Find it.\n\nNote:\n    Ids begin at 1.\n\nExample:\n    >>> find(1)\n\n    2\n"
            "Warning:\n    It is slow.\n\nThere is no more.",
            {"a": "the a and more"},
        ),
        (
            NUMPY,
            "Find it.\n\nNotes\n-----\nIds begin at 1.\n\nExamples\n--------\n>>> find(1)\n\n2",
            {"a": "the a and more", "b": "the b"},
        ),
        (
            SPHINX,
            "Find it.\n\n:note: Ids begin at 1.\n.. warning:: It is slow.\n\nThere is no more.",
            {"a": "the a and more"},
        ),
    ],
)
def test_notes_and_examples_are_part_of_the_description(text: str, description: str, texts: dict[str, str]) -> None:
    """Wherever they stand, and whatever else is written there; what is returned and raised is not."""
    assert parsed(text) == (description, texts)
