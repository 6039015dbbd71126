"""One event taken by a machine. The rows are executed by ``transitions``; this is its only importer.

A definition becomes a live ``transitions.Machine``, kept as long as the definition is. ``Event`` and ``Transition``
are subclassed, the extension points that transitions documents, so that guards and updates are called directly;
the stock classes do the same, slower, which the tests check.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

import attrs
from transitions import Event as StockEvent
from transitions import Machine as StockMachine
from transitions import Transition as StockTransition

from loopmachine.definition import Definition, Row
from loopmachine.errors import InvalidDefinition, ReplayDiverged, UnexpectedEvent

AUTO = "auto"  #: the name of the event on which auto states move on


class Carrier:
    """What an event is fired on: where it stands, and what it has changed so far. Lives for one advance."""

    __slots__ = ("event", "rows", "snapshot", "state")

    def __init__(self, snapshot: Any, event: Any) -> None:
        self.state = snapshot.state
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
        return self.guard is None or bool(self.guard(carrier.snapshot, carrier.event))

    def take(self, carrier: Carrier) -> None:
        if self.update is not None:
            carrier.snapshot = self.update(carrier.snapshot, carrier.event)
        carrier.rows.append(self.row_id)


class RowTransition(StockTransition):
    """A row that calls its guard and its update directly."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.taking: Taking = self.before[0].__self__

    def execute(self, event_data: Any) -> bool:
        """Take the row on a carrier if its guard holds."""
        if not self.taking.holds(event_data):
            return False
        self.taking.take(event_data)
        event_data.state = self.dest
        return True


class RowEvent(StockEvent):
    """An event that tries its rows on a carrier."""

    def trigger(self, model: Any, *args: Any, **kwargs: Any) -> bool:
        """Take the first row that holds."""
        for row in self.transitions.get(model.state, ()):
            if row.execute(model):
                return True
        return False


class RowMachine(StockMachine):
    """A machine of rows."""

    event_cls = RowEvent
    transition_cls = RowTransition


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


_live: WeakKeyDictionary[Definition, StockMachine] = WeakKeyDictionary()


def live(definition: Definition) -> StockMachine:
    """The machine that runs this definition."""
    machine = _live.get(definition)
    if machine is None:
        machine = _live[definition] = build(definition)
    return machine


@attrs.frozen
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
        news = (request.news(self.asked, self.event) for request in self.asking)
        return tuple(request for request in news if request is not None)


def outstanding(definition: Definition, snapshot: Any) -> tuple[Any, ...]:
    """All that the machine waits for: a function of the snapshot."""
    asks = definition.states[snapshot.state].asks
    return asks(snapshot) if asks else ()


def advance(definition: Definition, snapshot: Any, event: Any) -> Advance:
    """Take one event. Pure: the snapshot given stays as it was, whatever happens.

    Raises UnexpectedEvent for an event that the state does not accept or that answers nothing asked, and
    ValueError for an ``at`` that is no finite number.
    """
    machine = live(definition)
    asked = outstanding(definition, snapshot)
    fired = machine.events.get(type(event).__name__)
    why = refusal(asked, event)
    if fired is None or why:
        raise UnexpectedEvent(snapshot.state, event, definition.accepts(snapshot.state), why)
    if not math.isfinite(event.at):
        raise ValueError(f"{type(event).__name__}: at must be a finite number of seconds, not {event.at!r}")
    carrier = Carrier(definition.hear(snapshot, event) if definition.hear else snapshot, event)
    if not fired.trigger(carrier, carrier):
        raise UnexpectedEvent(snapshot.state, event, definition.accepts(snapshot.state))
    onwards = machine.events.get(AUTO)
    while definition.states[carrier.state].auto:
        if onwards is None or not onwards.trigger(carrier, carrier):
            raise UnexpectedEvent(carrier.state, event, ())
    heard = carrier.snapshot
    after = heard.but(
        state=carrier.state,
        clock=max(event.at, heard.clock),
        events=heard.events.append(event),
        rows=heard.rows.extend(carrier.rows),
    )
    return Advance(after, tuple(carrier.rows), event, asked, outstanding(definition, after))


def refusal(asked: tuple[Any, ...], event: Any) -> str:
    """Why an event answers nothing that was asked; blank where it may be taken."""
    if not event.answers:
        return ""
    waiting = [request for request in asked if isinstance(event, request.answered_by)]
    if not waiting:
        return "nothing that is asked for waits for it"
    whys = [request.misfit(event) for request in waiting]
    return "" if "" in whys else whys[0]


def replay(definition: Definition, snapshot: Any, events: Iterable[Any], rows: Iterable[str] | None = None) -> Any:
    """The snapshot that these events lead to. With ``rows``, those that were taken must be taken again.

    Raises ReplayDiverged, which names the first event that differs and what was expected there.
    """
    recorded = None if rows is None else list(rows)
    taken = 0
    for place, event in enumerate(events):
        try:
            advanced = advance(definition, snapshot, event)
        except UnexpectedEvent as refused:
            expected = "an event taken" if recorded is None else _listed(recorded[taken : taken + 1])
            raise ReplayDiverged(place, event, expected, str(refused)) from refused
        if recorded is not None:
            expected_rows = tuple(recorded[taken : taken + len(advanced.rows)])
            if expected_rows != advanced.rows:
                raise ReplayDiverged(place, event, _listed(expected_rows), _listed(advanced.rows))
            taken += len(advanced.rows)
        snapshot = advanced.snapshot
    if recorded is not None and taken < len(recorded):
        raise ReplayDiverged(place + 1, None, _listed(recorded[taken:]), "no more events")
    return snapshot


def _listed(rows: Iterable[str]) -> str:
    return "the rows " + (", ".join(rows) or "none")
