"""The rows of an event compiled to one function: what it takes, in which order, and what it says of what raises."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import attrs
import pytest

from loopmachine.compiled import DEEPEST, LONGEST, Follow, Followed, Way, raised_in


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


def way(rows: Any, onwards: Any, state: str = "rest") -> Follow:
    """What an event does in a state."""
    made: Follow = Way(state, rows, onwards, lambda auto: way(onwards, onwards, auto)).follow
    return made


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
def test_the_first_row_whose_guard_holds_is_taken_and_so_on_to_the_next_rest(event: int, followed: Followed) -> None:
    """Guards see what the rows before them changed; the path names every row taken, in order."""
    assert way(ROWS, ONWARDS)("", event) == followed


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
def test_where_no_guard_holds_no_row_is_taken(rows: Any, onwards: Any, stuck: Followed) -> None:
    """And the state says where that was."""
    assert way(rows, onwards)("", 2) == stuck


def test_guards_and_updates_are_called_by_their_names() -> None:
    """As who reads the code, or a profile of it, knows them; what has none that can be written is a function."""
    nameless: Any = attrgetter("text")
    rows = {"rest": [R("rest/1", "end", has_a), R("rest/2", "end", is_event(1), nameless)]}
    names = [name.rpartition("_")[0] for name in way(rows, {}).__code__.co_names]
    assert names == ["has_a", "function", "function"]


# --- many rows and many states ------------------------------------------------------------------------------


def chain(states: int, last: str = "end") -> dict[str, list[R]]:
    """Auto states that lead one to the next, each by a row with a guard that never holds and by one that does."""
    return {
        f"auto_{n}": [
            R(f"auto_{n}/1", "never", is_event(-1)),
            R(
                f"auto_{n}/2",
                f"auto_{n + 1}" if n + 1 < states else last,
                is_event(1),
                adds("a" if n % 100 == 0 else ""),
            ),
        ]
        for n in range(states)
    }


def doubling(states: int) -> dict[str, list[R]]:
    """Auto states that part and meet again: as many ways lead through them as two to the power of their number."""
    return {
        f"auto_{n}": [
            R(f"auto_{n}/1", f"auto_{n + 1}", is_event(n)),
            R(f"auto_{n}/2", f"auto_{n + 1}", None, adds("a" if n % 10 == 0 else "")),
        ]
        for n in range(states)
    }


ENTER = {"rest": [R("rest/1", "auto_0")]}


@pytest.mark.parametrize("states", [1, DEEPEST - 1, DEEPEST, DEEPEST + 1, 3 * DEEPEST, 2000])
def test_auto_states_may_follow_one_another_for_ever_so_long(states: int) -> None:
    """Whatever Python says of code that nests; the path names all of them."""
    snapshot, state, taken = way(ENTER, chain(states))("", 1)
    assert (state, taken) == ("end", ("rest/1", *(f"auto_{n}/2" for n in range(states))))
    assert snapshot.count("a") == -(-states // 100)


def test_where_a_chain_is_stuck_far_away_no_row_is_taken() -> None:
    """As nearby."""
    far = chain(3 * DEEPEST)
    assert way(ENTER, far | {"auto_50": far["auto_50"][:1]})("", 1)[1:] == ("auto_50", ())


def test_auto_states_may_part_and_meet_again_and_again() -> None:
    """The code grows with the states, and not with the ways that lead through them."""
    sizes: list[int] = []
    onwards = doubling(60)

    def counted(rows: Any, state: str) -> Follow:
        made = Way(state, rows, onwards, lambda auto: kept.setdefault(auto, counted(onwards, auto)))
        sizes.append(len(made._lines))
        follow: Follow = made.follow
        return follow

    kept: dict[str, Follow] = {}
    snapshot, state, taken = counted(ENTER, "rest")("", 7)
    assert (state, len(taken), taken[8], snapshot.count("a")) == ("auto_60", 61, "auto_7/1", 6)
    assert max(sizes) < 2 * LONGEST


def test_a_state_may_have_thousands_of_rows() -> None:
    """With or without auto states behind them."""
    rows = [R(f"rest/{n}", "auto_0" if n % 2 else "end", is_event(n)) for n in range(1, 5001)]
    assert [way({"rest": rows}, chain(2))("", event)[1] for event in (4999, 5000)] == ["auto_0", "end"]


# --- what raises ----------------------------------------------------------------------------------------------


def fails(snapshot: Any, event: Any) -> Any:
    """Raises."""
    raise ZeroDivisionError


def fails_behind(states: int) -> Any:
    """Auto states of which the last has a guard that raises."""
    return chain(states) | {f"auto_{states - 1}": [R("far/1", "end", fails)]}


@pytest.mark.parametrize(
    ("rows", "onwards", "seen", "taken"),
    [
        ([R("rest/1", "end", is_event(2)), R("rest/2", "end", fails)], {}, "", ["rest/2"]),
        ([R("rest/1", "end", is_event(2)), R("rest/2", "end", is_event(1), fails)], {}, "", ["rest/2"]),
        (
            [R("rest/1", "auto", None, adds("b"))],
            {"auto": [R("auto/1", "end", is_event(2)), R("auto/2", "end", fails)]},
            "b1",
            ["rest/1", "auto/2"],
        ),
        (
            [R("rest/1", "auto", None, adds("a"))],
            {"auto": [R("auto/1", "end", has_a, fails)]},
            "a1",
            ["rest/1", "auto/1"],
        ),
        (ENTER["rest"], fails_behind(3), "a11", ["rest/1", "auto_0/2", "auto_1/2", "far/1"]),
        (
            ENTER["rest"],
            fails_behind(50),
            "a1" + 48 * "1",
            ["rest/1", *(f"auto_{n}/2" for n in range(49)), "far/1"],
        ),
    ],
)
def test_the_row_that_raised_is_known(rows: Any, onwards: Any, seen: str, taken: list[str]) -> None:
    """The last of the rows taken, and the snapshot that it was given, however far away it stands."""
    with pytest.raises(ZeroDivisionError) as raised:
        way({"rest": rows}, onwards)("", 1)
    assert raised_in(raised.value) == (seen, (*taken,))


def test_a_way_within_a_guard_is_not_mistaken_for_it() -> None:
    """A guard may follow another definition; what raises there is raised by the guard."""
    inner = way({"rest": [R("inner/1", "end", fails)]}, {})
    with pytest.raises(ZeroDivisionError) as raised:
        way({"rest": [R("outer/1", "end", lambda snapshot, event: inner("other", 1))]}, {})("mine", 1)
    assert raised_in(raised.value) == ("mine", ("outer/1",))


def test_what_came_from_elsewhere_is_of_no_row() -> None:
    """An error that did not pass through a way."""
    assert raised_in(ZeroDivisionError()) == (None, ())
