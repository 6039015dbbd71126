"""One event taken by a machine. The rows are executed by ``transitions``; this is its only importer.

A definition becomes a live ``transitions.Machine``, kept as long as the definition is. ``Event`` and ``Transition``
are subclassed, the extension points that transitions documents, so that guards and updates are called directly, from
the code that one would write by hand; the stock classes do the same, slower, which the tests check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Lock, get_ident
from typing import Any

import attrs
from transitions import Event as StockEvent
from transitions import Machine as StockMachine
from transitions import Transition as StockTransition

from loopmachine.compiled import Follow, Rows, Step, Way, raised_in
from loopmachine.definition import AUTO, Definition, Guard, Row, Update
from loopmachine.drafts import Drafts
from loopmachine.errors import InvalidDefinition, ReplayDiverged, UnexpectedEvent, shown
from loopmachine.limits import is_number
from loopmachine.records import BaseSnapshot


class Carrier:
    """What an event is fired on: where it stands, and what it has changed so far. Lives for one advance."""

    __slots__ = ("event", "rows", "snapshot", "state")

    def __init__(self, snapshot: Any, event: Any) -> None:
        self.state: str = snapshot.state
        self.snapshot = snapshot
        self.event = event
        self.rows: list[str] = []


class Taking:
    """A row as the callbacks that ``transitions`` calls, with the carrier."""

    __slots__ = ("guard", "row_id", "update")

    def __init__(self, row_id: str, row: Row) -> None:
        self.row_id = row_id
        self.guard = row.guard
        self.update = row.update

    def holds(self, carrier: Carrier) -> bool:
        """Its guard, if it has one."""
        return self.guard is None or bool(self.guard(carrier.snapshot, carrier.event))

    def take(self, carrier: Carrier) -> None:
        """Its update, and a note of the row."""
        if self.update is not None:
            carrier.snapshot = self.update(carrier.snapshot, carrier.event)
        carrier.rows.append(self.row_id)


class RowTransition(StockTransition):
    """A transition that knows its row."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        taking = getattr(self.before[0], "__self__", None) if self.before else None
        if not isinstance(taking, Taking):
            raise TypeError("a row is added to a definition, by with_row; its live machine is made of the rows it has")
        self.guard: Guard | None = taking.guard
        self.update: Update | None = taking.update
        self.row_id: str = taking.row_id


class RowEvent(StockEvent):
    """An event that asks the guards of its rows directly, and follows the auto rows to the next rest."""

    def add_transition(self, transition: Any) -> None:
        """As the base class does it, to a tuple: rows are taken from the machine by its methods only, which see it."""
        rows: Any = self.transitions
        rows[transition.source] = (*rows.get(transition.source, ()), transition)

    def trigger(self, model: Any, *args: Any, **kwargs: Any) -> bool:
        """Take, on a carrier, the first row whose guard holds, and so on while the state is auto."""
        follow = self.machine.way(self.name, model.state)
        model.snapshot, model.state, taken = follow(model.snapshot, model.event)
        model.rows += taken
        return bool(taken)


class RowMachine(StockMachine):
    """A machine of rows, compiled. What its methods remove is gone from the runs that go on."""

    event_cls = RowEvent
    transition_cls = RowTransition

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._ways: dict[tuple[str, str], Follow] = {}
        self.made_of_rows: list[dict[Any, Any]] = [self._ways]  #: is emptied when one of them is removed
        self.removed = object()  #: another one, each time
        super().__init__(*args, **kwargs)

    def way(self, event: str, state: str) -> Follow:
        """What an event does in a state."""
        try:
            return self._ways[event, state]
        except KeyError:
            removed = self.removed
            way: Follow = Way(state, *self.rows(event)).follow
            self.keep(removed, self._ways, (event, state), way)
            return way

    def keep(self, removed: object, made: dict[Any, Any], key: Any, way: Any) -> None:
        """Keep what was made of the rows, unless one was removed since ``removed`` was read."""
        made[key] = way
        if removed is not self.removed:
            made.clear()

    def rows(self, event: str) -> tuple[Rows, Rows, Callable[[str], Follow]]:
        """The rows of an event, those of the auto states, and what gives the way from one of these."""
        return self._rows(event), self._rows(AUTO), lambda auto: self.way(AUTO, auto)

    def _rows(self, event: str) -> Rows:
        return self.events[event].transitions if event in self.events else {}

    def remove_transition(self, *args: Any, **kwargs: Any) -> None:
        """As the base class does it."""
        super().remove_transition(*args, **kwargs)
        events: Any = self.events.values()
        for event in events:
            event.transitions = {state: tuple(rows) for state, rows in event.transitions.items()}
        self.removed = object()  # before what was made is cleared: what is made of rows that are gone is not kept
        for made in self.made_of_rows:
            made.clear()


def build(definition: Definition, machine_class: type[StockMachine] = RowMachine) -> StockMachine:
    """The definition as a live machine, its rows in order. Raises InvalidDefinition where a state is unreached."""
    if definition.unreached:
        raise InvalidDefinition([f"{name}: no row leads here yet" for name in definition.unreached])
    machine = machine_class(
        model=None, states=list(definition.states), initial=definition.initial, auto_transitions=False
    )
    for row_id, state, row in definition.all_rows():
        taking = Taking(row_id, row)
        machine.add_transition(row.event_name or AUTO, state.name, row.to, conditions=taking.holds, before=taking.take)
    return machine


def stock(definition: Definition) -> StockMachine:
    """The same rows executed by the classes of ``transitions`` as they are: slower, to compare with."""
    return build(definition, StockMachine)


#: What an event does in a state: what ``Engine.take`` gives.
Taken = Callable[[Any, Any, tuple[Any, ...]], tuple[Any, tuple[Any, ...]]]


class Engine:
    """A definition that takes events: its live machine, and what else of it each event needs."""

    def __init__(self, definition: Definition) -> None:
        self.machine: Any = build(definition)
        self.watch: Callable[[tuple[str, ...]], object] | None = None  #: is told the rows that each event took
        self.unwatched: set[int] = set()  #: the threads in which it is explored: what they take is no run
        self._asks = {name: state.asks or _nothing for name, state in definition.states.items() if not state.auto}
        self._accepts = {name: definition.accepts(name) for name in definition.states}
        self._heard = definition.heard
        self._drafts = Drafts()
        self._steps: dict[type, dict[str, Taken]] = {}  #: by the class of the event, and the state it is taken in
        self.machine.made_of_rows.append(self._steps)

    def take(self, snapshot: Any, event: Any, asked: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """``advance`` for a caller who keeps what is outstanding: the next snapshot, and what that waits for."""
        try:
            step = self._steps[type(event)][snapshot.state]
        except KeyError:
            step = self._step(type(event), snapshot, event, asked)
        try:
            taken = step(snapshot, event, asked)
        except Exception as error:
            _blame(error)
            raise
        if self.watch is not None and get_ident() not in self.unwatched:
            self.watch(taken[0].log.latest)
        return taken

    def _step(self, kind: type, snapshot: Any, event: Any, asked: tuple[Any, ...]) -> Taken:
        """What this kind of event does, when it is first taken in a state. Events are known by their names."""
        state, name = snapshot.state, kind.__name__
        _requests(state, asked)
        if name not in self.machine.events:
            raise self._unexpected(state, event, asked if getattr(event, "answers", True) else None)
        if not hasattr(event, "at"):
            raise TypeError(f"{name} has no field at, the time in seconds, which every event tells")
        removed = self.machine.removed
        rows, onwards, auto = self.machine.rows(name)
        hear = self._heard(state, kind)
        looks: dict[str, Any] = {"timed": _check_time, "heard": _heard, "made": _made, "told": _requests}
        made = Step(
            kind, state, rows, onwards, auto, hear, self._asks, self._drafts, unexpected=self._unexpected, **looks
        )
        step: Taken = made.follow
        self.machine.keep(removed, self._steps.setdefault(kind, {}), state, step)
        return step

    def _unexpected(self, state: str, event: Any, asked: tuple[Any, ...] | None = None) -> UnexpectedEvent:
        return UnexpectedEvent(state, event, self._accepts[state], "" if asked is None else refusal(asked, event))


def _nothing(snapshot: object) -> tuple[Any, ...]:
    """What a final state asks."""
    return ()


def _check_time(kind: type, at: Any) -> None:
    if not is_number(at):
        raise ValueError(f"{kind.__name__}: at must be a finite number of seconds, not {shown(at)}")


def _heard(snapshot: object) -> object:
    if not isinstance(snapshot, BaseSnapshot):
        raise TypeError(f"hear must return a snapshot, not {snapshot!r}")
    return snapshot


def _made(snapshot: object, rows: tuple[str, ...], cause: Exception | None = None) -> None:
    if not isinstance(snapshot, BaseSnapshot):
        told = f"an update must return a snapshot, not {snapshot!r}; the rows taken were {', '.join(rows)}"
        raise TypeError(told) from cause


def _blame(error: Exception) -> None:
    """Say, in a note, who raised; TypeError where somebody looked at what a row before it made no snapshot of."""
    seen, who = raised_in(error)
    if who is None:
        return
    if isinstance(who, tuple):
        if who:
            _made(seen, who[:-1], error)
        who = f"the guard or the update of {who[-1]}" if who else "hear"
    note = f"raised by {who}; nothing has changed"
    with suppress(Exception):  # one that takes no note is raised as it is
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)


_making = Lock()


def engine(definition: Definition) -> Engine:
    """What runs this definition: one, in whatever threads, which goes when the definition goes."""
    found: Engine | None = definition.engine
    if found is None:
        with _making:
            found = definition.engine or Engine(definition)
            object.__setattr__(definition, "engine", found)
    return found


def live(definition: Definition) -> Any:
    """The machine of ``transitions`` that runs this definition."""
    return engine(definition).machine


@attrs.frozen(slots=False)  # without slots it is made in half the time
class Advance:
    """One event taken by the machine."""

    snapshot: Any  #: the next one
    rows: tuple[str, ...]  #: the rows taken, each as "state/number"
    event: Any
    asked: tuple[Any, ...] = attrs.field(repr=False)  #: the requests outstanding before
    asking: tuple[Any, ...] = attrs.field(repr=False)  #: the requests outstanding now

    @property
    def requests(self) -> tuple[Any, ...]:
        """The requests that this event added, call by call: not outstanding before, or answered by it."""
        return added(self.asked, self.event, self.asking)


def added(asked: tuple[Any, ...], event: Any, asking: tuple[Any, ...]) -> tuple[Any, ...]:
    """Of what is asked for now that which an event added."""
    return tuple([new for request in asking if (new := request.news(asked, event)) is not None])


def outstanding(definition: Definition, snapshot: Any) -> tuple[Any, ...]:
    """All that the machine waits for: a function of the snapshot."""
    if not isinstance(snapshot, BaseSnapshot):
        raise TypeError(f"snapshot must be a snapshot, such as loop.snapshot, not {snapshot!r}")
    if snapshot.state not in definition.states:
        raise ValueError(f"the snapshot stands in {snapshot.state!r}, which is no state of this definition")
    asks = definition.states[snapshot.state].asks
    return _requests(snapshot.state, asks(snapshot)) if asks else ()


def _requests(state: str, asked: Any) -> tuple[Any, ...]:
    requests = tuple(asked) if isinstance(asked, Iterable) else None
    if requests is None or not all(hasattr(one, "answered_by") for one in requests):
        raise TypeError(f"{state}: its asks must return the requests, a tuple, not {asked!r}")
    return requests


def advance(definition: Definition, snapshot: Any, event: Any) -> Advance:
    """Take one event. Pure: the snapshot given stays as it was, whatever happens.

    Raises UnexpectedEvent for an event that the state does not accept or that answers nothing asked, and
    ValueError for an ``at`` that is no finite number.
    """
    asked = outstanding(definition, snapshot)
    after, asking = engine(definition).take(snapshot, event, asked)
    return Advance(after, after.log.latest, event, asked, asking)


def refusal(asked: tuple[Any, ...], event: Any) -> str:
    """Why an event answers nothing that was asked; blank where it may be taken."""
    kind = type(event)
    why = "nothing that is asked for waits for it"
    for request in asked:
        if kind in request.answered_by:
            why = request.misfit(event)
            if not why:
                return ""
    return why


def replay(
    definition: Definition,
    snapshot: Any,
    events: Iterable[Any],
    rows: Iterable[str] | None = None,
    state: str | None = None,
) -> Any:
    """The snapshot that these events lead to. With ``rows``, those that were taken must be taken again.

    With ``state``, that is where they must lead: of the last row taken nothing else says it.

    Raises ReplayDiverged, which names the first event that differs and what was expected there.
    """
    recorded = None if rows is None else list(rows)
    taken = place = 0
    event = None
    for place, event in enumerate(events, 1):
        try:
            advanced = advance(definition, snapshot, event)
        except UnexpectedEvent as refused:
            expected = "an event taken" if recorded is None else _listed(recorded[taken : taken + 1])
            raise ReplayDiverged(place - 1, event, expected, str(refused)) from refused
        if recorded is not None:
            until = taken + len(advanced.rows)
            expected_rows = tuple(recorded[taken:until])
            if expected_rows == advanced.rows:  # and the record goes on from the state that was reached
                here = f"{advanced.snapshot.state}/"
                expected_rows += tuple(row for row in recorded[until : until + 1] if not row.startswith(here))
            if expected_rows != advanced.rows:
                raise ReplayDiverged(place - 1, event, _listed(expected_rows), _listed(advanced.rows))
            taken = until
        snapshot = advanced.snapshot
    if recorded is not None and taken < len(recorded):
        raise ReplayDiverged(place, None, _listed(recorded[taken:]), "no more events")
    if state is not None and snapshot.state != state:
        raise ReplayDiverged(max(place - 1, 0), event, f"the state {state}", f"the state {snapshot.state}")
    return snapshot


def _listed(rows: Iterable[str]) -> str:
    return "the rows " + (", ".join(rows) or "none")
