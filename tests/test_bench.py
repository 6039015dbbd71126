"""The benchmark can be run; what it measures is for `make bench`, on a quiet machine."""

from __future__ import annotations

import runpy
import sys

import pytest

from tests.bench import peers


def test_every_figure_is_printed_with_what_is_asked_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each."""
    given = sys.argv
    sys.argv = ["tests.bench", "2", "4", "1", "1"]
    try:
        runpy.run_module("tests.bench", run_name="__main__")
    finally:
        sys.argv = given
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition("(")[2].split(";")[0].rstrip(")") for line in lines] == [
        "at least 5",
        "at most 10",
        "at most 0.5",
        "at most 1.25",
        "at most 1.25",
        "at most 12",
        "at most 3",
        "at most 150",
        "at most 120",
    ]


def test_the_loop_by_hand_does_the_same_turns() -> None:
    """A call and its result a turn; what a tool raises is its result."""

    def fail(a: int, b: int) -> int:
        raise ValueError("no")

    contents = [[entry["content"] for entry in peers.hand(2, tool)[1::2]] for tool in (peers.add, fail)]
    assert contents == [["2", "3"], ['"no"', '"no"']]
