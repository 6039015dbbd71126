"""Patterns are matched as Python's re matches them, in time in proportion to the text."""

from __future__ import annotations

import re
from typing import Annotated

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Meta

from loopmachine import Tool
from loopmachine.errors import InvalidTool
from loopmachine.tools.arguments import Arguments
from loopmachine.tools.patterns import Unbounded, searcher
from tests.test_tools_arguments import functions_called

EMAIL = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"
PATTERNS = [
    "",
    "a|b",
    "a$",
    ".b",
    "[^a-]",
    "x*",
    "(a*)*b",
    "(?:a|)*b",
    "(a+)+$",
    "(?:a?){3}$",
    "a{2,3}?b",
    "^a{2}$",
    r"\Aab\Z",
    r"\bfo\b",
    r"\B",
    r"^\d{1,2}-\w+\s$",
    r"^[a-z0-9]+(-[a-z0-9]+)*$",
    "(?i)aB",
    "(?i:a)b",
    "(?s:.)b",
    r"^(?a:\w)$",
    r"^(?a:\w+)\w$",
    "(?ai:k)b",
    r"(?a)^\w(?u:\w)$",
    "(?m)^a$",
    "^(?=.*a)(?=.*b).{2,5}$",
    r"\A(?!ab)a",
    r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$",
    EMAIL,
]


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(PATTERNS), st.text("abAB.-@x01 \nfoéK", max_size=8))
@example("a$", "a\n")
@example("(?i)aB", "Ab")
@example(r"^(?a:\w)$", "é")
@example(r"(?a)^\w(?u:\w)$", "aé")
def test_a_pattern_matches_as_re_does(pattern: str, text: str) -> None:
    """Whatever is matched, it is what re.search matches."""
    assert searcher(pattern)(text) == (re.search(pattern, text) is not None)


def test_a_pattern_takes_a_real_text() -> None:
    """An address that is right, and one with two dots, are told apart."""
    assert [searcher(EMAIL)(text) for text in ("ann.b@mail.example.org", "ann..b@mail.example.org")] == [True, False]


@pytest.mark.parametrize("pattern", ["(a+)+$", "^(a|a)*$", "a+b", "(a?){20}a{20}$", "^(?!.*(a*)*b)[a]*b"])
def test_each_letter_costs_what_the_one_before_did(pattern: str) -> None:
    """For patterns that hold Python's re for ever, or for the square of the text, as for any other."""
    searcher(pattern)("a" * 50 + "!")
    few, some, many = (functions_called(lambda n=n: searcher(pattern)("a" * n + "!")) for n in (100, 1100, 2100))  # type: ignore[misc]
    assert (many - some) == (some - few) != {}


def test_what_is_remembered_of_a_text_is_bounded() -> None:
    """However many different letters come, a bounded number of steps is kept, and the outcome is the same."""
    letters = "".join(map(chr, range(0x4E00, 0x4E00 + 12_000)))
    assert [searcher("^[^a]*$")(letters), searcher("^[^a]*$")(letters + "a")] == [True, False]


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?>a)b", "a++", "a(?=b)", "(?=a)", "^(?<=a)b", "^a(?!b)", "a{6000}"])
def test_what_cannot_be_matched_so_is_refused(pattern: str) -> None:
    """References, atomic groups, and looks that would be taken again at every place, have no bound."""
    with pytest.raises(Unbounded):
        searcher(pattern)


def test_a_tool_with_such_a_pattern_is_refused() -> None:
    """The error names the function, the place of each pattern, and the remedy."""

    def f(a: Annotated[str, Meta(pattern=r"(a)\1")], b: str) -> None: ...

    with pytest.raises(InvalidTool) as caught:
        Tool.of(f)
    remedy = (
        "can't be matched in bounded time; take no reference to a group, nothing atomic or possessive, no lookaround "
        "but lookahead right after a first ^, and no more than 5000 characters and repeats of them; "
        "or check it in the tool"
    )
    assert str(caught.value) == (f'f: its input_schema can\'t be used:\n- properties.a.pattern: "(a)\\\\1" {remedy}')
    with pytest.raises(InvalidTool) as caught:
        Arguments("f", {"type": "object", "patternProperties": {"a": {}, "a++": {}}}, str)
    assert str(caught.value) == f'f: its input_schema can\'t be used:\n- patternProperties: "a++" {remedy}'


def test_a_pattern_of_a_hint_is_matched_in_bounded_time_too() -> None:
    """What makes typed values of arguments does not match it again."""

    def f(a: Annotated[str, Meta(pattern="^(a+)+$", max_length=100)]) -> None: ...

    made = Tool.of(f)
    right, wrong = (made.arguments.check(f'{{"a":"{"a" * 60}{end}"}}') for end in ("", "b"))
    assert (right, wrong[0], wrong[1].endswith('"^(a+)+$" matches is wanted')) == (
        (f'{{"a":"{"a" * 60}"}}', ""),
        None,
        True,
    )
