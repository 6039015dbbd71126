"""The text of pictures: what is printed, how wide it is, and how each language of a picture escapes it."""

from __future__ import annotations

import json
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopmachine.review import render
from loopmachine.review.text import (
    BOLD,
    coded,
    first_paragraph,
    flat,
    in_label,
    in_tooltip,
    key,
    points,
    printable,
    wrapped,
)


def test_a_key_of_an_ascii_identifier_is_the_name_itself() -> None:
    """Names that are safe everywhere stay readable."""
    assert [key(name) for name in ("checking_cancel", "_x", "end", "A1")] == ["checking_cancel", "_x", "end", "A1"]


@given(st.lists(st.text(), unique=True, max_size=8))
def test_keys_are_ascii_words_and_no_two_names_share_one(names: list[str]) -> None:
    """Keys are ASCII words, and different names have different ones."""
    keys = [key(name) for name in names]
    assert all(word.isascii() and word.replace("_", "a").isalnum() for word in keys)
    assert len(set(keys)) == len(names)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines\r\nthree", "two\nlines\nthree"),
        ("bell \x07", "bell \\x07"),
        ("tab\t", "tab\\t"),
        ("turned \u202eround", "turned \\u202eround"),
        ("half \ud800", "half \\ud800"),
        ("\u00e9 \u65e5", "\u00e9 \u65e5"),
    ],
)
def test_what_can_not_be_printed_is_shown_as_its_escape(text: str, shown: str) -> None:
    """Control and format characters are escapes, everything else stays, lines stay lines."""
    assert printable(text) == shown


def test_flat_text_is_one_line() -> None:
    """Lines and runs of spaces become single spaces."""
    assert flat("  one\ntwo   three ") == "one two three"


def test_text_is_wrapped_at_words_and_long_words_are_cut() -> None:
    """No line is wider than asked for, and the lines of the text stay."""
    assert wrapped("one two three\nfour 123456789", 8) == ["one two", "three", "four 123", "456789"]


def test_a_docstring_says_first_what_stands_before_its_blank_line() -> None:
    """The first paragraph of a docstring is taken, without its indentation; no docstring says nothing."""

    class Documented:
        """One
        two.

        More.
        """

    class Silent: ...

    assert (first_paragraph(Documented), first_paragraph(Silent)) == ("One\ntwo.", "")


@pytest.mark.parametrize("bold", [False, True])
def test_no_printable_ascii_character_is_wider_than_estimated(bold: bool) -> None:
    """Graphviz measures no ASCII character wider, in ten copies of it, than the estimate that sizes the boxes."""
    letters = [chr(code) for code in range(33, 127)]
    labels = [in_label(letter * 10) for letter in letters]
    nodes = "".join(
        f'n{place} [label=<<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="0"><TR><TD>'
        f"{f'<B>{label}</B>' if bold else label}</TD></TR></TABLE>>]\n"
        for place, label in enumerate(labels)
    )
    program = render.pinned()
    assert program
    dot = f"digraph {{ node [shape=plain fontname=Arial fontsize=10]\n{nodes} }}"
    drawn = subprocess.run([program, "-Tjson"], input=dot.encode(), capture_output=True, check=True)
    widths = [float(node["width"]) * 72 for node in json.loads(drawn.stdout)["objects"]]
    factor = BOLD if bold else 1
    too_wide = {
        letter: (width, estimate)
        for letter, width in zip(letters, widths, strict=True)
        if width > (estimate := factor * points(letter * 10, 10)) + 0.1
    }
    assert too_wide == {}


def test_other_characters_are_taken_to_be_a_full_em_wide() -> None:
    """A character that is not ASCII counts as one em."""
    assert points("\u65e5\u672c", 10) == 20


def test_text_is_escaped_for_each_language() -> None:
    """Each escape is ASCII; a backslash is doubled for each time that Graphviz reads it."""
    hostile = 'C:\\new "q" <b> & \u00e9\n}'
    assert [coded(hostile), in_label(hostile), in_tooltip(hostile)] == [
        "C:\\new &quot;q&quot; &lt;b&gt; &amp; &#233;\n}",
        "C:\\\\new &quot;q&quot; &lt;b&gt; &amp; &#233;\n}",
        "C:\\\\\\\\new &quot;q&quot; &lt;b&gt; &amp; &#233; }",
    ]
