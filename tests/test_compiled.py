"""The rows of an event compiled to one function: what it takes, in which order, and what it says of what raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from loopmachine.compiled import MOST_LINES, Way
from loopmachine.errors import InvalidDefinition


@attrs.frozen
class R:
    """A row as a machine has it."""

    row_id: str
    dest: str
    guard: Callable[[Any, Any], object] | None = None
    update: Callable[[Any, Any], Any] | None = None


def is_event(number: int) -> Callable[[Any, Any], bool]:
    """A guard that holds for one event."""
    return lambda snapshot, event: bool(event == number)


def adds(text: str) -> Callable[[Any, Any], Any]:
    """An update of a snapshot that is text."""
    return lambda snapshot, event: f"{snapshot}{text}{event}"


def has_a(snapshot: Any, event: Any) -> bool:
    """A guard that looks at what the rows before it changed."""
    return "a" in snapshot


ROWS = {
    "rest": [
        R("rest/1", "end", is_event(1), adds("a")),
        R("rest/2", "auto", is_event(2), adds("a")),
        R("rest/3", "auto", is_event(3)),
        R("rest/4", "auto", None, adds("b")),
    ],
}
ONWARDS = {
    "auto": [
        R("auto/1", "end", has_a, adds("c")),
        R("auto/2", "more", is_event(4), adds("d")),
        R("auto/3", "rest"),
    ],
    "more": [R("more/1", "end", has_a), R("more/2", "rest", is_event(4), adds("e"))],
}


@pytest.mark.parametrize(
    ("event", "followed"),
    [
        (1, ("a1", "end", ("rest/1",))),
        (2, ("a2c2", "end", ("rest/2", "auto/1"))),
        (3, ("", "rest", ("rest/3", "auto/3"))),
        (4, ("b4d4e4", "rest", ("rest/4", "auto/2", "more/2"))),
        (5, ("b5", "rest", ("rest/4", "auto/3"))),
    ],
)
def test_the_first_row_whose_guard_holds_is_taken_and_so_on_to_the_next_rest(event: int, followed: Any) -> None:
    """Guards see what the rows before them changed; the path names every row taken, in order."""
    assert Way("rest", ROWS, ONWARDS).follow("", event) == followed


@pytest.mark.parametrize(
    ("rows", "onwards", "stuck"),
    [
        ({}, {}, ("", "rest", ())),
        ({"rest": [R("rest/1", "end", is_event(1))]}, {}, ("", "rest", ())),
        (
            {"rest": [R("rest/1", "auto", None, adds("a"))]},
            {"auto": [R("auto/1", "end", is_event(1))]},
            ("a2", "auto", ()),
        ),
    ],
)
def test_where_no_guard_holds_no_row_is_taken(rows: Any, onwards: Any, stuck: Any) -> None:
    """And the state says where that was."""
    assert Way("rest", rows, onwards).follow("", 2) == stuck


def fails(snapshot: Any, event: Any) -> Any:
    """Raises."""
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("rows", "onwards", "row"),
    [
        ([R("rest/1", "end", is_event(1)), R("rest/2", "end", fails)], [], "rest/2"),
        ([R("rest/1", "end", is_event(1)), R("rest/2", "end", is_event(2), fails)], [], "rest/2"),
        (
            [R("rest/1", "auto", None, adds("a"))],
            [R("auto/1", "end", is_event(1)), R("auto/2", "end", fails)],
            "auto/2",
        ),
        ([R("rest/1", "auto", None, adds("a"))], [R("auto/1", "end", has_a, fails)], "auto/1"),
    ],
)
def test_the_row_whose_guard_or_update_raised_is_known(rows: Any, onwards: Any, row: str) -> None:
    """Wherever in the way it stands."""
    way = Way("rest", {"rest": rows}, {"auto": onwards})
    with pytest.raises(ZeroDivisionError) as raised:
        way.follow("", 2)
    assert way.row_that_raised(raised.value) == row


def test_what_came_from_elsewhere_is_of_no_row() -> None:
    """An error that did not pass through the way."""
    assert Way("rest", ROWS, ONWARDS).row_that_raised(ZeroDivisionError()) == ""


def test_auto_states_that_part_and_meet_again_and_again_are_refused() -> None:
    """Each of so many doubles the ways; a dozen can be compiled, of more somebody is told instead of waited for."""

    def doubling(states: int) -> Any:
        return {
            f"auto_{n}": [R(f"auto_{n}/1", f"auto_{n + 1}", has_a), R(f"auto_{n}/2", f"auto_{n + 1}", None, adds("a"))]
            for n in range(states)
        }

    rows = {"rest": [R("rest/1", "auto_0")]}
    assert Way("rest", rows, doubling(12)).follow("", 1)[:2] == ("a1", "auto_12")
    with pytest.raises(InvalidDefinition, match="rest: thousands of ways lead through auto states from here to a rest"):
        Way("rest", rows, doubling(MOST_LINES.bit_length()))
