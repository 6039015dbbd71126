"""Snapshots between two rests: changed in place by this package, frozen for good where anybody else sees them."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import attrs
import pytest

from loopmachine import Budget, Definition, Policy, Row, State, advance, guards, requests, rules, run, updates
from loopmachine.compiled import DEEPEST, is_ours
from loopmachine.drafts import Drafts, switch
from loopmachine.errors import UnexpectedEvent
from loopmachine.events import CancelPolled
from loopmachine.history import EventLog
from loopmachine.machine import live
from loopmachine.records import BaseSnapshot, Snapshot
from loopmachine.table import TOOL_LOOP
from tests.facts import asks, begun, call, drafted, polled, replied, returned, snapshot, walk

# --- a draft ------------------------------------------------------------------------------------------------


def test_a_draft_is_changed_in_place_and_frozen() -> None:
    """``but`` of it gives it back; frozen, it is a snapshot like any, and what it began as is what it was."""
    before = begun(steps=2)
    draft = drafted(before)
    assert draft.but(steps=3, wrapping=True) is draft
    switch(draft, Snapshot)
    after = draft
    assert (type(after), after, before) == (
        Snapshot,
        before.but(steps=3, wrapping=True),
        begun(steps=2),
    )
    assert (after.but(steps=4) is after, after.steps) == (False, 3)


def test_nothing_else_of_a_draft_can_be_set() -> None:
    """It is a frozen record to whoever tries."""
    draft = drafted(begun())
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        draft.steps = 5


def test_a_draft_has_no_other_fields() -> None:
    """As a snapshot has none."""
    with pytest.raises(TypeError) as of_draft:
        drafted(begun()).but(steps=1, stops=1, setps=2)
    with pytest.raises(TypeError) as of_snapshot:
        begun().but(stops=1)
    assert (str(of_draft.value), str(of_snapshot.value)) == (
        "Snapshot has no field stops, setps",
        "Snapshot has no field stops",
    )


def test_only_snapshots_have_drafts() -> None:
    """One class for each of theirs, which a subclass does not share."""
    drafts, other = Drafts(), type("Other", (Snapshot,), {})
    assert [drafts[Snapshot], drafts[other]] == [drafts[Snapshot], drafts[other]]
    assert [drafts[Snapshot].__base__, drafts[other].__base__] == [Snapshot, other]
    assert [drafts[Snapshot].__module__, drafts[Snapshot].__name__] == [Snapshot.__module__, "Snapshot"]
    with pytest.raises(TypeError, match=r"^EventLog is no class of snapshots$"):
        drafts[EventLog]


# --- who sees one -------------------------------------------------------------------------------------------


def recording(function: Callable[..., Any], seen: list[Any]) -> Callable[..., Any]:
    """A wrapper that looks like what it wraps, and keeps what it is given, with what that was then."""

    @functools.wraps(function)
    def wrapper(snapshot: Any, *more: Any) -> Any:
        seen.append((snapshot, type(snapshot), dict(vars(snapshot))))
        made = function(snapshot, *more)
        if isinstance(made, BaseSnapshot):
            seen.append((made, type(made), dict(vars(made))))
        return made

    return wrapper


class Proxy:
    """Hands on every attribute of what it stands for."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __getattr__(self, name: str) -> Any:
        return getattr(self.function, name)


def test_what_is_ours_is_known_by_its_code() -> None:
    """Not by its name or its module, which a wrapper takes over."""
    ours: list[Any] = [guards.time_spent, guards.usage_missing, updates.admit, requests.run_calls]
    foreign: list[Any] = [
        recording(updates.admit, []),
        functools.partial(updates.admit),
        Proxy(updates.admit),
        attrgetter("cancelled"),
        lambda snapshot, event: True,
        rules,
    ]
    assert foreign[2].__name__ == "admit"
    assert [*map(is_ours, ours)] == [True] * len(ours)
    assert [*map(is_ours, foreign)] == [False] * len(foreign)


def recorded(seen: list[Any], *what: str) -> Definition:
    """The tool-calling loop, with these functions of its rows and states recording."""

    def told(one: Any) -> Any:
        kept = {name: getattr(one, name) for name in what if getattr(one, name, None) is not None}
        return attrs.evolve(one, **{name: recording(function, seen) for name, function in kept.items()})

    return Definition(
        TOOL_LOOP.initial,
        {told(state): [told(row) for row in rows] for state, rows in TOOL_LOOP.table.items()},
        hear=TOOL_LOOP.hear,
    )


def model(messages: list[Any]) -> dict[str, Any]:
    """Asks for two calls at once, then for one that there is not, then answers."""
    turns = [
        {"kind": "calls", "calls": [{"id": f"c{n}", "name": "double", "arguments": {"n": n}} for n in (1, 2)]},
        {"kind": "call", "id": "c3", "name": "halve", "arguments": {}},
    ]
    brought = sum(message["kind"] == "tool_result" for message in messages)
    return turns[brought // 2] if brought < 3 else {"kind": "final", "text": "done"}


def double(n: int) -> int:
    """Twice the number."""
    return 2 * n


@pytest.mark.parametrize("what", [("guard",), ("update",), ("asks",), ("guard", "update", "asks")])
def test_what_somebody_else_was_given_stays_as_it_was(what: tuple[str, ...]) -> None:
    """Every snapshot that a foreign function saw or gave is frozen, and the same after the run as when it saw it."""
    seen: list[Any] = []
    options: Any = {"tools": [double], "budget": Budget(max_steps=5), "policy": Policy(max_parallel=1), "clock": float}
    ran = run(model, "go", definition=recorded(seen, *what), **options)
    plain = run(model, "go", **options)
    assert ran.answered
    assert len(seen) > 10
    assert {kind for _, kind, _ in seen} == {type(one) for one, _, _ in seen} == {Snapshot}
    assert [vars(one) for one, _, _ in seen] == [then for _, _, then in seen]
    assert ran.loop.snapshot == plain.loop.snapshot


def test_a_guard_that_is_foreign_sees_what_the_rows_before_it_changed() -> None:
    """Between two rests, as one of this package does."""
    seen: list[Any] = []
    brought = walk(begun(), polled(), replied(asks(call())), polled())[0]
    advance(recorded(seen, "guard"), brought, returned(call()))
    assert [[flight.phase for flight in one.flights] for one, _, _ in seen] == [["running"], ["answered"], ["answered"]]


def test_the_snapshot_given_is_as_it_was_whatever_is_raised() -> None:
    """An update that raises half way leaves no trace."""

    def fails(given: Any, event: Any) -> Any:
        """Raises."""
        raise ZeroDivisionError

    states = dict(TOOL_LOOP.table)
    collecting = TOOL_LOOP.states["collecting"]
    *others, last = states[collecting]
    states[collecting] = (*others, attrs.evolve(last, update=fails))
    start = walk(begun(), polled(), replied(asks(call())), polled())[0]
    before = dict(vars(start))
    with pytest.raises(ZeroDivisionError):
        advance(Definition(TOOL_LOOP.initial, states, hear=TOOL_LOOP.hear), start, returned(call()))
    assert (vars(start), type(start), len(start.log)) == (before, Snapshot, len(snapshot().log) + 3)


# --- however far the next rest is -----------------------------------------------------------------------------


def chain(states: int, update: Any) -> Definition:
    """A table whose one event leads through so many auto states, each with this update, as the event's row has it."""
    autos = {
        State(f"auto_{n}", "On the way.", auto=True): [
            Row(None, f"auto_{n + 1}" if n + 1 < states else "over", update=update)
        ]
        for n in range(states)
    }
    asks = State("here", "Somebody polls.", requests.poll_now)
    return Definition("here", {asks: [Row(CancelPolled, "auto_0", update=update)], **autos, OVER: []})


OVER = State("over", "It is over.", final="answered")


def foreign(given: Snapshot, event: Any) -> Snapshot:
    """Counts a step, as somebody else does."""
    return attrs.evolve(given, steps=given.steps + 1)


def polite(given: Snapshot, event: Any) -> Snapshot:
    """Counts a step by what this package does."""
    return updates.ask_with_tools(given, event)


SEEN: list[tuple[Snapshot, type]] = []


def seen(given: Snapshot, event: Any) -> Snapshot:
    """Counts a step, and keeps what it was given."""
    SEEN.append((given, type(given)))
    return given.but(steps=given.steps + 1)


#: The same as if it were of this package.
OURS = types.FunctionType(seen.__code__, {**globals(), "__name__": updates.__name__}, "ours")
OURS.__doc__ = seen.__doc__


@pytest.mark.parametrize(
    ("first", "second", "third", "objects", "frozen"),
    [
        (OURS, OURS, OURS, [0, 0, 0], [False, False, False]),
        (seen, seen, seen, [0, 1, 2], [True, True, True]),
        (OURS, seen, OURS, [0, 0, 1], [False, True, False]),
        (seen, OURS, OURS, [0, 1, 1], [True, False, False]),
        (OURS, OURS, seen, [0, 0, 0], [False, False, True]),
        (None, OURS, None, [0], [False]),
    ],
)
def test_what_is_ours_shares_one_copy_until_somebody_else_sees_it(
    first: Any, second: Any, third: Any, objects: list[int], frozen: list[bool]
) -> None:
    """Which object each update is given, in the order of their coming, and whether that is frozen by then."""
    table = {
        State("here", "Somebody polls.", requests.poll_now): [Row(CancelPolled, "auto_0", update=first)],
        State("auto_0", "On the way.", auto=True): [Row(None, "auto_1", update=second)],
        State("auto_1", "On the way.", auto=True): [Row(None, "over", update=third)],
        OVER: [],
    }
    start = snapshot("here")
    SEEN.clear()
    taken = advance(Definition("here", table), start, polled())
    given = [id(one) for one, _ in SEEN]
    assert [list(dict.fromkeys(given)).index(one) for one in given] == objects
    assert [kind is Snapshot for _, kind in SEEN] == frozen
    assert (taken.snapshot.steps, type(taken.snapshot), start.steps) == (len(objects), Snapshot, 0)


def looks(given: Snapshot, event: Any) -> bool:
    """Never holds, and keeps what it was given."""
    SEEN.append((given, type(given)))
    return False


LOOKS = types.FunctionType(looks.__code__, {**globals(), "__name__": guards.__name__}, "ours")
LOOKS.__doc__ = looks.__doc__


@pytest.mark.parametrize(
    ("guard", "update", "objects", "frozen"),
    [
        (LOOKS, OURS, [0, 0, 0], [False, False, False]),
        (looks, OURS, [0, 0, 1], [False, True, False]),
        (LOOKS, seen, [0, 0, 0], [False, False, True]),
        (looks, seen, [0, 0, 0], [False, True, True]),
        (LOOKS, None, [0, 0], [False, False]),
        (looks, None, [0, 0], [False, True]),
    ],
)
def test_a_guard_that_is_foreign_sees_no_draft(guard: Any, update: Any, objects: list[int], frozen: list[bool]) -> None:
    """And what it saw is changed by no row after it; the first update is ours."""
    row = Row(None, "over", guard, first_because="it never holds")
    table = {
        State("here", "Somebody polls.", requests.poll_now): [Row(CancelPolled, "auto_0", update=OURS)],
        State("auto_0", "On the way.", auto=True): [row, Row(None, "over", update=update)],
        OVER: [],
    }
    SEEN.clear()
    taken = advance(Definition("here", table), snapshot("here"), polled())
    given = [id(one) for one, _ in SEEN]
    assert [list(dict.fromkeys(given)).index(one) for one in given] == objects
    assert [kind is Snapshot for _, kind in SEEN] == frozen
    assert (taken.snapshot.steps, type(taken.snapshot)) == (1 + (update is not None), Snapshot)


def test_who_made_no_snapshot_is_named_by_the_draft_too() -> None:
    """What is to be drafted may be none: a row of somebody else's made it."""

    def forgets(given: Any, event: Any) -> Any:
        """Returns nothing."""

    table = {
        State("here", "Somebody polls.", requests.poll_now): [Row(CancelPolled, "auto_0", update=forgets)],
        State("auto_0", "On the way.", auto=True): [Row(None, "over", update=OURS)],
        OVER: [],
    }
    with pytest.raises(TypeError) as caught:
        advance(Definition("here", table), snapshot("here"), polled())
    assert str(caught.value) == "an update must return a snapshot, not None; the rows taken were here/1"


@pytest.mark.parametrize("update", [updates.ask_with_tools, foreign, polite, OURS])
@pytest.mark.parametrize("states", [1, DEEPEST - 1, DEEPEST, 3 * DEEPEST])
def test_each_update_on_the_way_counts_once(states: int, update: Any) -> None:
    """Near and far; the snapshot that is left behind is as it was, and the one that is reached a snapshot."""
    start = snapshot("here")
    taken = advance(chain(states, update), start, polled(at=2.0))
    assert (taken.snapshot.steps, taken.rows) == (states + 1, ("here/1", *(f"auto_{n}/1" for n in range(states))))
    assert (type(taken.snapshot), taken.snapshot.state, taken.snapshot.clock) == (Snapshot, "over", 2.0)
    assert (start.steps, len(start.log), len(taken.snapshot.log), taken.asking) == (0, 0, 1, ())


@pytest.mark.parametrize("states", [1, 3 * DEEPEST])
def test_who_has_no_way_on_says_where(states: int) -> None:
    """A row that was taken from the live machine is missed where it stood, near and far."""
    definition, last = chain(states, updates.ask_with_tools), f"auto_{states - 1}"
    live(definition).remove_transition("auto", last)
    start = snapshot("here")
    with pytest.raises(UnexpectedEvent, match=f"^{last} does not take this CancelPolled"):
        advance(definition, start, polled())
    assert (start.steps, type(start)) == (0, Snapshot)
