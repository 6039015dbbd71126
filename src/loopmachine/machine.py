"""One event taken by a machine. The rows are executed by ``transitions``; this is its only importer.

A definition becomes a live ``transitions.Machine``, kept as long as the definition is. ``Event`` and ``Transition``
are subclassed, the extension points that transitions documents, so that guards and updates are called directly;
the stock classes do the same, slower, which the tests check.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

import attrs
from transitions import Event as StockEvent
from transitions import Machine as StockMachine
from transitions import Transition as StockTransition

from loopmachine.compiled import Followed, Rows, Way
from loopmachine.definition import Definition, Guard, Row, Update
from loopmachine.errors import InvalidDefinition, ReplayDiverged, UnexpectedEvent
from loopmachine.records import BaseSnapshot

AUTO = "auto"  #: the name of the event on which auto states move on


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
        taking: Any = self.before[0].__self__  # type: ignore[union-attr]  # build() passes nothing else
        self.guard: Guard | None = taking.guard
        self.update: Update | None = taking.update
        self.row_id: str = taking.row_id


class RowEvent(StockEvent):
    """An event that asks the guards of its rows directly, and follows the auto rows to the next rest."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.ways: dict[str, Way] = {}  #: its rows and the auto rows behind them, compiled, by the state they begin in

    def trigger(self, model: Any, *args: Any, **kwargs: Any) -> bool:
        """Take, on a carrier, the first row whose guard holds, and so on while the state is auto."""
        model.snapshot, model.state, taken = self.follow(model.snapshot, model.event)
        model.rows += taken
        return bool(taken)

    def follow(self, snapshot: Any, event: Any) -> Followed:
        """The snapshot, the state and the rows taken, none where no guard holds."""
        state: str = snapshot.state
        way = self.ways.get(state)
        if way is None:
            way = self.ways[state] = Way(state, self.machine.rows_of(self.name), self.machine.rows_of(AUTO))
        try:
            return way.follow(snapshot, event)
        except Exception as error:
            row = way.row_that_raised(error)
            error.add_note(f"raised by the guard or the update of {row}; nothing has changed")
            raise


class RowMachine(StockMachine):
    """A machine of rows. Add and remove transitions by its methods: what was compiled of them is compiled again."""

    event_cls = RowEvent
    transition_cls = RowTransition

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.paths: dict[tuple[str, ...], tuple[str, ...]] = {}  #: the rows that an event took, each once
        super().__init__(*args, **kwargs)

    def rows_of(self, event: str) -> Rows:
        """The transitions of an event, by the state they begin in."""
        return self.events[event].transitions if event in self.events else {}

    def add_transition(self, *args: Any, **kwargs: Any) -> None:
        """As the base class does it."""
        super().add_transition(*args, **kwargs)
        self._compile_anew()

    def remove_transition(self, *args: Any, **kwargs: Any) -> None:
        """As the base class does it."""
        super().remove_transition(*args, **kwargs)
        self._compile_anew()

    def _compile_anew(self) -> None:
        events: Any = self.events.values()
        for event in events:
            event.ways.clear()


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


_live: WeakKeyDictionary[Definition, StockMachine] = WeakKeyDictionary()


def live(definition: Definition) -> StockMachine:
    """The machine that runs this definition."""
    machine = _live.get(definition)
    if machine is None:
        machine = _live[definition] = build(definition)
    return machine


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
        asked, event = self.asked, self.event
        return tuple([new for request in self.asking if (new := request.news(asked, event)) is not None])


def outstanding(definition: Definition, snapshot: Any) -> tuple[Any, ...]:
    """All that the machine waits for: a function of the snapshot."""
    asks = definition.states[snapshot.state].asks
    return asks(snapshot) if asks else ()


def advance(definition: Definition, snapshot: Any, event: Any) -> Advance:
    """Take one event. Pure: the snapshot given stays as it was, whatever happens.

    Raises UnexpectedEvent for an event that the state does not accept or that answers nothing asked, and
    ValueError for an ``at`` that is no finite number.
    """
    asked = outstanding(definition, snapshot)
    after = step(live(definition), definition, snapshot, event, asked)
    return Advance(after, after.log.latest, event, asked, outstanding(definition, after))


def step(machine: Any, definition: Definition, snapshot: Any, event: Any, asked: tuple[Any, ...]) -> Any:
    """``advance`` for a caller who keeps the machine and what is outstanding: the next snapshot."""
    fired = machine.events.get(type(event).__name__)
    if fired is None or (event.answers and refusal(asked, event)):
        why = refusal(asked, event) if getattr(event, "answers", True) else ""
        raise UnexpectedEvent(snapshot.state, event, definition.accepts(snapshot.state), why)
    at = event.at
    try:
        finite = at - at == 0  # neither NaN nor infinite
    except TypeError:
        finite = False
    if not finite:
        raise ValueError(f"{type(event).__name__}: at must be a finite number of seconds, not {at!r}")
    hear = definition.hear
    after, state, rows = fired.follow(hear(snapshot, event) if hear else snapshot, event)
    if not rows or definition.states[state].auto:  # a row was taken from the live machine
        raise UnexpectedEvent(state, event, definition.accepts(state))
    if not isinstance(after, BaseSnapshot):
        raise TypeError(f"an update must return a snapshot, not {after!r}; the rows taken were {', '.join(rows)}")
    machine.paths.setdefault(rows, rows)
    return after.at_rest(state, at if at > after.clock else after.clock, after.log.append(event, rows))


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


def replay(definition: Definition, snapshot: Any, events: Iterable[Any], rows: Iterable[str] | None = None) -> Any:
    """The snapshot that these events lead to. With ``rows``, those that were taken must be taken again.

    Raises ReplayDiverged, which names the first event that differs and what was expected there.
    """
    recorded = None if rows is None else list(rows)
    taken = place = 0
    for place, event in enumerate(events, 1):
        try:
            advanced = advance(definition, snapshot, event)
        except UnexpectedEvent as refused:
            expected = "an event taken" if recorded is None else _listed(recorded[taken : taken + 1])
            raise ReplayDiverged(place - 1, event, expected, str(refused)) from refused
        if recorded is not None:
            expected_rows = tuple(recorded[taken : taken + len(advanced.rows)])
            if expected_rows != advanced.rows:
                raise ReplayDiverged(place - 1, event, _listed(expected_rows), _listed(advanced.rows))
            taken += len(advanced.rows)
        snapshot = advanced.snapshot
    if recorded is not None and taken < len(recorded):
        raise ReplayDiverged(place, None, _listed(recorded[taken:]), "no more events")
    return snapshot


def _listed(rows: Iterable[str]) -> str:
    return "the rows " + (", ".join(rows) or "none")
