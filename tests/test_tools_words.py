"""The words for the model: short, printable, and near."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from loopmachine.tools.words import a, cut, listed, near, printable, quoted, said_by, show


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("x", '"x"'),
        (5, "5"),
        (None, "null"),
        (True, "true"),
        ([1, {"a": "é"}], '[1, {"a": "é"}]'),
        (float("nan"), "NaN"),
        ("\ud800", '"\\ud800"'),
        ("x" * 100, '"' + "x" * 76 + "..."),
        ([1] * 100, "[" + "1, " * 25 + "1..."),
    ],
)
def test_a_value_is_shown_as_json_cut_at_80_characters(value: object, shown: str) -> None:
    """A value is shown as JSON, in characters that UTF-8 has, and never in more than 80 of them."""
    assert (show(value), len(show(value)) <= 80) == (shown, True)


def test_of_a_long_value_no_more_is_written_than_is_shown() -> None:
    """Showing a list of a million items reads a few of them."""

    class Counted(list[int]):
        read = 0

        def __iter__(self) -> Iterator[int]:
            return map(self.count_one, super().__iter__())

        def count_one(self, one: int) -> int:
            Counted.read += 1
            return one

    show(Counted(range(1_000_000)))
    assert Counted.read < 100


def test_printable_text_keeps_all_but_lone_surrogates() -> None:
    """Only a lone surrogate is written as its escape."""
    assert [printable(text) for text in ("a", "é😀", "x\ud835y")] == ["a", "é😀", "x\\ud835y"]


def test_text_is_cut_with_three_dots() -> None:
    """Text of just the length stays, one character more is cut."""
    assert [cut("abcd", 4), cut("abcde", 4), quoted("it's")] == ["abcd", "a...", '"it\'s"']


def test_names_are_listed_up_to_fifty() -> None:
    """A list of names is never longer than fifty; how many more there are is told."""
    assert [listed([]), listed(["a", "b"]), listed(map(str, range(52)))] == [
        "none",
        "a, b",
        ", ".join(map(str, range(50))) + " and 2 more",
    ]


def test_a_type_has_its_article() -> None:
    """An int, a list."""
    assert [a(kind) for kind in (int, list, OSError, Exception, KeyError)] == [
        "an int",
        "a list",
        "an OSError",
        "an Exception",
        "a KeyError",
    ]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("citty", "; did you mean 'city'?"),
        ("CITY", "; did you mean 'city'?"),
        ("zebra", ""),
        ("d" * 59, f"; did you mean '{'d' * 60}'?"),
        ("d" * 61, ""),
        ("c" * 59, ""),
        ("", ""),
        ("zipCode", "; did you mean 'zip_code'?"),
        ("a_b", "; did you mean 'ab'?"),
    ],
)
def test_the_nearest_name_is_suggested(name: str, found: str) -> None:
    """The nearest known name is suggested, whatever its case and underscores; none that is far off or very long."""
    known = ["country", "city", "d" * 60, "c" * 61, "zip_code", "a_bc", "ab"]
    assert near(name, known) == found


def test_an_exception_that_cannot_speak_says_nothing() -> None:
    """The words of an exception are its own, blank where asking for them raises."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no words")

    assert [said_by(ValueError("why")), said_by(Mute())] == ["why", ""]
