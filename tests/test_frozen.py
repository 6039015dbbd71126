"""JSON kept as text: what goes in comes out, new each time."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

import pytest

from loopmachine.frozen import freeze, thaw, whole

VALUES: dict[str, Any] = {
    "null": None,
    "booleans": [True, False],
    "blank": "",
    "the word null": {"said": "null and void"},
    "null beside a number": [None, 1.5],
    "an integer": 0,
    "at 64 bits": 2**64 - 1,
    "beyond 64 bits": 2**64,
    "far beyond 64 bits": -(10**30),
    "a big integer beside null": [10**30, None],
    "a fraction": 0.1,
    "a tiny fraction": 5e-324,
    "text": "Kön 株 \U0001f600",
    "text beside null": ["Kön", None],
    "control characters": '\x00\x1f\u2028\\"/',
    "a lone surrogate": "\ud800",
    "a lone surrogate in a key": {"\udfff": [None, "\ud800"]},
    "nested": {"a": [{"b": {"c": [[], {}]}}]},
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_json_value_comes_back_as_it_went_in(value: Any) -> None:
    """Freezing and thawing is the identity, types included."""
    assert repr(thaw(freeze(value))) == repr(value)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_number_that_is_no_json_is_kept_as_the_word_for_it(value: float) -> None:
    """NaN and the infinities come back too, also beside null and in a nested value."""
    assert [repr(thaw(freeze(held))) for held in (value, [None, {"n": value}])] == [
        repr(value),
        repr([None, {"n": value}]),
    ]


def test_keys_keep_their_order() -> None:
    """The text has the keys in the order given, whichever way it was written."""
    assert (freeze({"b": 1, "a": 2}), freeze({"b": None, "a": math.nan})) == ('{"b":1,"a":2}', '{"b":null,"a":NaN}')


@pytest.mark.parametrize("beside", [1, None], ids=["fast", "slow"])
def test_what_python_has_and_json_has_not_becomes_its_nearest(beside: object) -> None:
    """Tuples become lists, dates text and integer keys text, whichever way it is written."""
    assert thaw(freeze([(1, 2), date(2025, 1, 2), {3: 4}, beside])) == [[1, 2], "2025-01-02", {"3": 4}, beside]


@pytest.mark.parametrize("beside", [1, None], ids=["fast", "slow"])
def test_what_is_no_json_at_all_is_refused(beside: object) -> None:
    """An object that nobody can write is a TypeError."""
    with pytest.raises(TypeError):
        freeze([object(), beside])


def test_a_value_that_holds_itself_is_refused() -> None:
    """A cycle ends in one of the errors that are announced."""
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises((ValueError, RecursionError)):
        freeze(cycle)


def test_what_is_done_to_a_thawed_value_is_not_done_to_the_next() -> None:
    """Every thaw gives a new value."""
    text = freeze({"a": [1]})
    thaw(text)["a"].append(2)
    assert thaw(text) == {"a": [1]}


@pytest.mark.parametrize("text", ["", " ", "[1,", "{'a': 1}", "nul", "1 2", '"\n'])
def test_text_that_is_no_json_is_refused(text: str) -> None:
    """Broken text is a ValueError."""
    with pytest.raises(ValueError, match=r"line 1|char"):
        thaw(text)


@pytest.mark.parametrize(
    ("text", "printed"),
    [("", ""), ("déjà \U0001f600", "déjà \U0001f600"), ("a\ud83d", "a\ufffd"), ("\ude00b", "\ufffdb")],
)
def test_half_a_character_is_replaced(text: str, printed: str) -> None:
    """The text can be encoded then; what is whole stays as it is."""
    assert (whole(text), whole(text).encode()) == (printed, printed.encode())


def test_two_halves_that_stand_together_are_one_character() -> None:
    """As streams may send them."""
    assert whole("\ud83d" + "\ude00") == "\U0001f600"
