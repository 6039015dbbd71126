"""Numbers as they are written: whole ones keep every digit."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from loopmachine.tools.arguments import Arguments
from loopmachine.tools.numerals import Rounded, Unreadable, broken, read, read_whole, whole
from loopmachine.tools.words import show


@pytest.mark.parametrize(
    ("text", "number", "exact"),
    [
        ("3.0", 3.0, 3),
        ("-0.0", 0.0, 0),
        ("3.5", 3.5, None),
        ("1e22", 1e22, 10**22),
        ("1e23", 1e23, 10**23),
        ("-1.5E+1", -15.0, -15),
        ("9007199254740993.0", 9007199254740992.0, 9007199254740993),
        ("9007199254740992.5", 9007199254740992.0, None),
        ("3.00000000000000000001", 3.0, None),
        ("1e-400", 0.0, None),
        ("1e-99999999999999999999", 0.0, None),
        ("0e99999999999999999999", 0.0, 0),
        ("1.7e308", 1.7e308, 17 * 10**307),
        (f"1{'0' * 300}e-0300", 1.0, 1),
    ],
)
def test_a_whole_number_is_the_one_that_is_written(text: str, number: float, exact: int | None) -> None:
    """The float is the nearest one; the whole number is the very one that is written, or there is none."""
    (found,) = read(text)
    assert (found, show(found) if isinstance(found, Rounded) else text, read_whole(text)) == (
        number,
        text,
        [] if exact is None else [exact],
    )


@pytest.mark.parametrize("text", ["NaN", "1e400", "-1e309", "9" * 4301, "0x5", "1_000", "five", "", "+5", ".5", "05"])
def test_what_is_no_number_of_json_is_not_read(text: str) -> None:
    """Neither are numbers that no float or whole number of Python can hold."""
    assert (read(text), read_whole(text)) == ([], [])


def test_a_multiple_is_one_of_the_number_that_is_written() -> None:
    """Not of the nearest float, which is no multiple of three."""
    thirds = {"type": "object", "properties": {"n": {"type": "number", "multipleOf": 3}}}
    arguments = Arguments("f", thirds, json.loads)
    assert [arguments.check(f'{{"n":{text}}}')[0] for text in ("9007199254740993.0", "9007199254740992.0")] == [
        '{"n":9007199254740992.0}',
        None,
    ]


def test_what_cannot_be_kept_is_shown_as_it_is_written() -> None:
    """Its words are those of the text."""
    assert (str(broken("1e400")), str(whole("9" * 5000)), show(Unreadable("NaN"))) == ("1e400", "9" * 5000, "NaN")


@given(st.decimals(allow_nan=False, allow_infinity=False) | st.integers().map(Decimal), st.integers(-40, 400))
@example(Decimal("0.1"), 1)
def test_decimals_agree(number: Decimal, exponent: int) -> None:
    """Whatever is written as a number, what is made of it is what Python's decimals make of it."""
    text = f"{number:f}e{exponent}"
    exact = Decimal(text)
    assume(abs(exact) < Decimal("1.797e308"))
    assert read_whole(text) == ([int(exact)] if exact == exact.to_integral_value() else [])
