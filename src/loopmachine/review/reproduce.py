"""A path that was found, as a list to read and as a test to paste: records and events in Python's own words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from typing import Final as Constant

import attrs

from loopmachine.definition import Definition
from loopmachine.errors import UnexpectedEvent
from loopmachine.events import Event
from loopmachine.history import History
from loopmachine.loop import Loop
from loopmachine.machine import advance, engine, outstanding, refusal
from loopmachine.records import Snapshot
from loopmachine.review.account import seal
from loopmachine.review.diagram import load
from loopmachine.review.explore import TRANSITIONS, Broken, spoil, unwatched
from loopmachine.review.moves import Move, moves
from loopmachine.review.promises import broken
from loopmachine.review.stock import Stock
from loopmachine.review.world import World, handed_in


def source(value: Any) -> str:
    """A record as the expression that makes it: every field that is not its default."""
    if isinstance(value, tuple):
        return f"({', '.join(map(source, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, History):
        return f"History([{', '.join(map(source, value.entries))}])"
    if not attrs.has(type(value)):
        return repr(value)
    given = [f"{name}={source(told)}" for name, told in _given(value)]
    return f"{type(value).__name__}({', '.join(given)})"


def steps(found: Broken) -> str:
    """The path as a numbered list: each event, and the rows that it took; then the promise and how it is broken."""
    lines = [
        f"{number:3}. {source(event)}\n       -> {', '.join(rows) or 'refused'}"
        for number, (event, rows) in enumerate(found.path, 1)
    ]
    return "\n".join([*lines, f"     {found.promise} is broken: {found.sentence}"])


def written_test(found: Broken, definition: str, again: bool = True) -> str:
    """A pytest test that plays the path from a ``Loop``'s start and fails as long as a promise is broken on it.

    ``definition`` is its "module:name", which the test loads as the command does: any name is one that it can have.
    ``again``: ``told_again`` broke the promise, too; where it did not, the test says that it may pass.
    """
    made, events, (check, more) = _made(found.world), _events(found), _check(found)
    given = "".join(f", {word}={source(value)}" for word, value in made.items())
    told = "".join(f", {source(value)}" for value in more)
    said = " ".join(found.sentence.split()).replace("\\", "/").replace('"', "'")
    caveat = _MEMORY.format(_OFTEN if check is differs else _ONCE) if check is differs or not again else ""
    classes: set[Any] = {kind for value in (*made.values(), *events, *more) for kind in _classes(value)}
    imports = {f"from {kind.__module__} import {kind.__name__}" for kind in {Loop, load, check, *classes}}
    listed = "\n".join(f"        {source(event)}," for event in events)
    return f'''{chr(10).join(sorted(imports))}


def test_{found.promise.lower()}_{re.sub(r"[^a-z]+", "_", found.sentence.lower())[:40].strip("_")}():
    """{found.promise} holds where it was broken: {said}{caveat}"""
    definition = load({definition!r})
    start = Loop("go"{given}, definition=definition, at=0.0).snapshot
    events = [
{listed}
    ]
    # An event that the machine no longer waits for ends the path: what comes after it is not looked at.
    assert {check.__name__}(definition, start, events{told}) is None
'''


def told_again(found: Broken, definition: Definition) -> bool:
    """The events of the path break the promise once more, told to the definition as the printed test does."""
    check, more = _check(found)
    try:
        with unwatched(engine(definition)):
            start = Loop("go", **_made(found.world), definition=definition, at=0.0).snapshot
            return check(definition, start, _events(found), *more) is not None
    except KeyboardInterrupt:
        raise
    except BaseException:  # whatever somebody's guard raises: the test fails with it
        return True


def _made(world: World) -> dict[str, Any]:
    """What a ``Loop`` is given to start as the world does."""
    made: dict[str, Any] = {"budget": world.budget, "policy": world.policy}
    return {**made, "history": handed_in()} if world.old else made


def _events(found: Broken) -> list[Event]:
    return [event for event, _ in found.path]


def _check(found: Broken) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """What looks for the promise, and what it is told besides the definition, the start and the events."""
    if found.promise == "I9":
        return differs, ()
    if found.promise == "I11":
        return changed, (attrs.evolve(found.world, sees=None),)  # which tells rests apart, not what can happen
    if found.promise == TRANSITIONS:
        return unlike_stock, ()
    return (endless, (found.circle,)) if found.circle else (breaks, ())


def breaks(definition: Definition, start: Snapshot, events: Sequence[Event]) -> dict[str, str] | None:
    """The promises that are broken at the first move of this path that breaks one, by name, each with how."""
    return next(filter(None, map(broken, _moves(definition, start, events))), None)


def unlike_stock(definition: Definition, start: Snapshot, events: Sequence[Event]) -> str | None:
    """How the stock classes of ``transitions`` take an event of this path in another way, if they do."""
    return next(filter(None, map(Stock(definition).differs, _moves(definition, start, events))), None)


def _moves(definition: Definition, start: Snapshot, events: Sequence[Event]) -> Iterator[Move]:
    """The moves of a path, up to an event that the machine does not wait for: once mended, it may not go that way.

    Raises UnexpectedEvent for one that it does wait for, and refuses.
    """
    snapshot = start
    try:
        for move in moves(definition, start, events):
            yield move
            snapshot = move.after
    except UnexpectedEvent as refused:
        if not refusal(outstanding(definition, snapshot), refused.event):
            raise


# --- promises that one play of a path does not show -----------------------------------------------------------

PLAYS: Constant = 1000
_MEMORY: Constant = """

    {} A guard, an update or asks with a memory of its own may need more plays, or
    other events between them, to do something else: then this passes, and only verify shows it.
    """
_OFTEN: Constant = f"The events are played {PLAYS:,} times."
_ONCE: Constant = "Told again, these events broke nothing."


def differs(definition: Definition, start: Snapshot, events: Sequence[Event]) -> str | None:
    """I9, by playing: how one of ``PLAYS`` plays of these events is not as the first; None where they are all alike."""
    first = list(_played(definition, start, events))
    for play in range(2, PLAYS + 1):
        for number, (one, other) in enumerate(zip(first, _played(definition, start, events), strict=False), 1):
            if one != other:
                return f"event {number} led to {_told(one)}, at play {play} to {_told(other)}"
    return None


def endless(definition: Definition, start: Snapshot, events: Sequence[Event], last: int) -> str | None:
    """I1, by playing: how the ``last`` of these events are taken ``PLAYS`` times again; None where one is refused."""
    again = [*events, *(event for _ in range(PLAYS) for event in events[len(events) - last :])]
    played = list(_played(definition, start, again))
    if isinstance(played[-1], str):
        return None
    return f"after {len(again):,} events the run is in {played[-1][0].state} and goes on"


def _played(definition: Definition, start: Snapshot, events: Sequence[Event]) -> Iterator[Any]:
    """The snapshot and the requests after each event, up to one that is refused, which is told in words."""
    snapshot = start
    for event in events:
        try:
            advanced = advance(definition, snapshot, event)
        except UnexpectedEvent as refused:
            yield str(refused)
            return
        snapshot = advanced.snapshot
        yield snapshot, advanced.asking


def _told(played: Any) -> str:
    return played if isinstance(played, str) else f"{played[0].state} by {', '.join(played[0].log.latest)}"


def changed(definition: Definition, start: Snapshot, events: Sequence[Event], world: World) -> str | None:
    """I11, by playing: a snapshot of this path that was changed by what was handed out or told after it, if one was.

    After the last event everything is told that can happen there in the world.
    """
    sealed = [(start, seal(start))]
    for move in _moves(definition, start, events):
        sealed.append((move.after, seal(move.after)))
        spoil(move)
    last, _ = sealed[-1]
    for event in world.events(last, outstanding(definition, last), definition.accepts(last.state)):
        advance(definition, last, event)
    found = [snapshot for snapshot, was in sealed if seal(snapshot) != was]
    return f"a snapshot was changed; it now is {found[0]}" if found else None


# --- records in Python's own words ----------------------------------------------------------------------------


def _given(record: Any) -> Iterator[tuple[str, Any]]:
    """The fields of a record that have to be given to make it."""
    for field in attrs.fields(type(record)):
        default = field.default.factory() if isinstance(field.default, attrs.Factory) else field.default  # type: ignore[arg-type]  # generic
        told = getattr(record, field.name)
        if field.init and (default is attrs.NOTHING or told != default):
            yield field.name, told


def _classes(value: Any) -> Iterator[type[Any]]:
    """The classes of a record and of all that is in it."""
    if isinstance(value, tuple | History):
        for one in value.entries if isinstance(value, History) else value:
            yield from _classes(one)
    if isinstance(value, History) or attrs.has(type(value)):
        yield type(value)
    if attrs.has(type(value)):
        for _, told in _given(value):
            yield from _classes(told)
