"""What a tool returns or raises, as text for the model: always some, always true, never too long."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
from decimal import Decimal
from typing import Any

import attrs
import pytest

from loopmachine.tools.results import error_text, fitted, result_text


class Colour(enum.Enum):
    """A colour."""

    RED = "r"


@dataclasses.dataclass
class Point:
    """A place."""

    x: int
    when: datetime.date


@attrs.frozen
class Line:
    """Two places."""

    points: tuple[Point, ...]


class Model:
    """Writes itself as pydantic models do."""

    def __init__(self, text: str) -> None:
        self.text = text

    def model_dump(self, *, mode: str) -> dict[str, str]:
        """Plain data."""
        if self.text == "broken":
            raise RuntimeError("can't dump")
        return {"mode": mode, "text": self.text}


class Mute(Exception):
    """Can't say what it is."""

    def __str__(self) -> str:
        raise ValueError("no words")


POINT = Point(1, datetime.date(2024, 2, 29))
LOOP: list[Any] = []
LOOP.append(LOOP)

RESULTS: list[tuple[Any, str]] = [
    ("plain text", "plain text"),
    ("", ""),
    ("null", "null"),
    ("x\ud835y", "x\\ud835y"),
    (None, "null"),
    (True, "true"),
    (5, "5"),
    (2**70, str(2**70)),
    (1.5, "1.5"),
    (float("nan"), '"NaN"'),
    ([float("inf"), -float("inf"), 1.0], '["Infinity","-Infinity",1.0]'),
    ({"a": (float("nan"), None)}, '{"a":["NaN",null]}'),
    (Decimal("1.10"), '"1.10"'),
    (datetime.time(9, 30), '"09:30:00"'),
    (datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC), '"2024-02-29T00:00:00Z"'),
    ({1}, "[1]"),
    (b"\xff", '"/w=="'),
    (Colour.RED, '"r"'),
    (POINT, '{"x":1,"when":"2024-02-29"}'),
    (Line((POINT,)), '{"points":[{"x":1,"when":"2024-02-29"}]}'),
    (Model("é"), '{"mode":"json","text":"é"}'),
    ([Model("x"), None], '[{"mode":"json","text":"x"},null]'),
    ({1: "a", 2.5: "b"}, '{"1":"a","2.5":"b"}'),
    ({"a": object(), "b": 1}, '{"a":"<object: not JSON>","b":1}'),
    (iter([1]), '"<list_iterator: not JSON>"'),
    ({"s": "x\ud835y"}, '{"s":"x\\ud835y"}'),
    (Model("broken"), "the tool returned a Model, which can't be written as JSON: can't dump"),
]


@pytest.mark.parametrize(("value", "text"), RESULTS)
def test_a_returned_value_becomes_text(value: Any, text: str) -> None:
    """Text stays as it is, the rest is strict JSON, and what JSON does not have is named in its place."""
    assert result_text(value, 1000) == text


@pytest.mark.parametrize("value", [LOOP, *(value for value, _ in RESULTS)])
def test_what_is_no_text_is_strict_json_or_a_sentence(value: Any) -> None:
    """Every text can be sent as UTF-8, and is JSON that any parser reads unless it is the tool's own or a sentence."""
    text = result_text(value, 1000)
    text.encode()
    if not isinstance(value, str) and not text.startswith("the tool returned a "):
        json.loads(text, parse_constant=pytest.fail)


def test_a_value_that_holds_itself_is_told_of() -> None:
    """A list in itself can't be written, and the result says so."""
    assert result_text(LOOP, 1000).startswith("the tool returned a list, which can't be written as JSON: ")


def test_a_long_result_is_cut_with_a_mark() -> None:
    """A text of just the length stays; a longer one is cut, mark included, and the mark names its full length."""
    assert [fitted("x" * 60, 60), fitted("x" * 61, 60)] == [
        "x" * 60,
        "x" * 25 + "\n[cut: this text has 61 characters]",
    ]


@pytest.mark.parametrize("limit", [1, 10, 36, 37, 100])
def test_no_result_is_longer_than_asked(limit: int) -> None:
    """Even a limit that is shorter than the mark is kept."""
    assert len(result_text(["x"] * 1000, limit)) == limit


ERROR = ValueError("it's 5")


@pytest.mark.parametrize(
    ("error", "style", "text"),
    [
        (ERROR, "message", "ValueError: it's 5"),
        (ERROR, "name", "ValueError"),
        (ValueError(), "message", "ValueError"),
        (ValueError(" "), "message", "ValueError"),
        (KeyError("x"), "message", "KeyError: 'x'"),
        (Mute(), "message", "Mute"),
        (Mute(), "name", "Mute"),
        (ERROR, lambda error: f"sorry: {error}", "sorry: it's 5"),
        (ERROR, lambda error: error.nothing, "ValueError"),
        (ERROR, lambda error: 5, "ValueError"),
        (ValueError("x" * 200), "message", "ValueError: " + "x" * 51 + "\n[cut: this text has 212 characters]"),
        (ERROR, lambda error: "y\ud835" * 100, ("y\\ud835" * 100)[:63] + "\n[cut: this text has 700 characters]"),
    ],
)
def test_an_exception_becomes_text_as_the_policy_says(error: Exception, style: Any, text: str) -> None:
    """An exception is told by class and message, by class alone, or by a callable; the class where that fails."""
    assert error_text(error, style, 99) == text
