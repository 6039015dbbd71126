"""A machine as data: states and rows, refused when it is built wrong. It knows nothing of tool calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from types import MappingProxyType
from typing import Any, Self, TypeVar

import attrs

from loopmachine.errors import InvalidDefinition
from loopmachine.functions import function_faults, takes

Guard = Callable[[Any, Any], bool]  #: a named pure predicate of (snapshot, event)
Update = Callable[[Any, Any], Any]  #: a named pure function of (snapshot, event) -> snapshot
Asks = Callable[[Any], tuple[Any, ...]]  #: the outstanding requests of a snapshot
Found = TypeVar("Found")
FINAL_KINDS = ("answered", "limit", "fault")
AUTO = "auto"  #: the name of the event on which auto states move on


@attrs.frozen
class State:
    """A state. One that is neither ``auto`` nor ``final`` is a rest: it waits for an event and ``asks`` for it.

    ``auto``: takes no event; the machine moves on by itself. ``final``: "answered", "limit" or "fault".
    """

    name: str
    doc: str
    asks: Asks | None = attrs.field(default=None, hash=False)  # so that a list in its place gets as far as a Definition
    auto: bool = False
    final: str | None = None

    @property
    def rest(self) -> bool:
        """The machine waits here."""
        return not self.auto and self.final is None

    @property
    def status(self) -> str:
        """How a run that ends here ended: the name without ``finished_``."""
        return self.name.removeprefix("finished_")


def _said(because: str) -> str:
    return because if not isinstance(because, str) or because.strip() else ""


@attrs.frozen
class Row:
    """One transition: on ``event`` (None in an auto state), where ``guard`` holds, ``update`` and go to ``to``.

    The rows of a (state, event) are tried in order and the first whose guard holds is taken.
    ``happy`` marks the happy path, for the diagram. Where a later row's guard can hold at the same time,
    ``first_because`` says why this one stands before it; the verifier reports a row where it is blank.
    """

    event: type[Any] | None
    to: str
    guard: Guard | None = None
    update: Update | None = None
    happy: bool = False
    first_because: str = attrs.field(default="", converter=_said, kw_only=True)

    @property
    def event_name(self) -> str:
        """The event's name, blank in an auto state."""
        return self.event.__name__ if self.event else ""


def _frozen_rows(states: Mapping[State, Iterable[Row]]) -> Mapping[State, tuple[Row, ...]]:
    if not isinstance(states, Mapping):
        return states  # which is told with what else is wrong
    return MappingProxyType(
        {state: tuple(rows) if isinstance(rows, Iterable) else (rows,) for state, rows in states.items()}
    )


def _frozen_map(given: Mapping[Any, Any]) -> Mapping[Any, Any]:
    return MappingProxyType(dict(given)) if isinstance(given, Mapping) else given


@attrs.frozen(eq=False, repr=False)
class Definition:
    """A table that can be run, drawn, verified and measured.

    ``initial`` names the first state; ``table`` maps each State to its rows, in the order they are tried.
    ``hear`` is what an event brings whichever row it takes: updates by the class of the event, or by the name of the
    state that it is told in. The class goes first.
    Raises InvalidDefinition, which lists every fault.
    """

    initial: str
    table: Mapping[State, tuple[Row, ...]] = attrs.field(converter=_frozen_rows)
    hear: Mapping[str | type[Any], Update] = attrs.field(default={}, converter=_frozen_map, kw_only=True)
    unreached: tuple[str, ...] = attrs.field(default=(), kw_only=True, repr=False)  #: states that wait for a row
    engine: Any = attrs.field(default=None, init=False, repr=False)  #: what runs it, once something did
    found: dict[Any, Any] = attrs.field(factory=dict, init=False, repr=False)  #: what was found out of it, by what did
    states: Mapping[str, State] = attrs.field(init=False, repr=False)
    _by_id: Mapping[str, Row] = attrs.field(init=False, repr=False)
    _accepts: Mapping[str, tuple[str, ...]] = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if found := list(dict.fromkeys(faults(self))):
            raise InvalidDefinition(found)
        object.__setattr__(self, "states", MappingProxyType({state.name: state for state in self.table}))
        object.__setattr__(self, "_by_id", {row_id: row for row_id, _, row in self.all_rows()})
        object.__setattr__(self, "_accepts", {state.name: _accepted(rows) for state, rows in self.table.items()})
        if self.unreached:
            waiting = _unreached(self, _edges(self.table)[1])
            object.__setattr__(self, "unreached", tuple(name for name in self.unreached if name in waiting))

    def __repr__(self) -> str:
        return f"<Definition of {len(self.table)} states, from {self.initial}>"

    def rows(self, state: str) -> tuple[Row, ...]:
        """The rows of a state, in order; the diagram numbers them from 1."""
        return self.table[self.states[state]]

    def row(self, row_id: str) -> Row:
        """The row named "state/number", as the rows taken of a run are."""
        return self._by_id[row_id]

    def all_rows(self) -> Iterator[tuple[str, State, Row]]:
        """Every row with its id and its state."""
        for state, rows in self.table.items():
            for number, row in enumerate(rows, 1):
                yield f"{state.name}/{number}", state, row

    def accepts(self, state: str) -> tuple[str, ...]:
        """The names of the events that a state takes."""
        return self._accepts[state]

    def heard(self, state: str, event: type[Any]) -> Update | None:
        """What an event of this class brings whichever row it takes in this state, if anything."""
        return self.hear.get(event, self.hear.get(state))

    def with_row(self, state: str, row: Row, *, at: int) -> Self:
        """This definition with one more row, which becomes number ``at`` of the state."""
        if state not in self.states:
            raise InvalidDefinition([f"{state}: there is no such state; there are {', '.join(self.states)}"])
        rows = list(self.rows(state))
        if type(at) is not int or not 1 <= at <= len(rows) + 1:
            raise InvalidDefinition([f"{state}: a new row can be number 1 to {len(rows) + 1}, not {at!r}"])
        rows.insert(at - 1, row)
        return attrs.evolve(self, table={**self.table, self.states[state]: rows})

    def with_state(self, state: State, rows: Iterable[Row] = (), *, hear: Update | None = None) -> Self:
        """This definition with one more state. Until a row leads to it, it can't be run.

        ``hear`` is what an event brings there whichever row it takes, such as ``updates.discount_wait`` in a state that
        waits for a person.
        """
        if not isinstance(state, State):
            raise InvalidDefinition([f"{state!r} is no State"])
        if state.name in self.states:
            raise InvalidDefinition([f"{state.name}: there is a state of this name already"])
        hears = self.hear if hear is None else {**self.hear, state.name: hear}
        return attrs.evolve(
            self, table={**self.table, state: rows}, hear=hears, unreached=(*self.unreached, state.name)
        )


def once_each(find: Callable[[Definition], Found]) -> Callable[[Definition], Found]:
    """``find``, asked once for each definition. What it found goes when the definition goes."""

    @wraps(find)
    def found(definition: Definition) -> Found:
        kept: Found | None = definition.found.get(find)
        return definition.found.setdefault(find, find(definition)) if kept is None else kept

    return found


def _accepted(rows: Iterable[Row]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row.event_name for row in rows if row.event is not None))


# --- what makes a definition wrong --------------------------------------------------------------------
# What is of a wrong type is told, and nothing that rests on it, as it may be anything once it is mended.

Edges = list[set[int]]  #: to which states those of a table lead, all by their place in it


def faults(definition: Definition) -> Iterator[str]:
    """Everything that is wrong with a definition, a sentence each."""
    if not _are_names(definition.unreached):
        yield f"unreached must be a tuple of names of states, not {definition.unreached!r}"
    table: Any = definition.table
    if not isinstance(table, Mapping):
        yield f"the table must be a mapping of each State to its rows, not {table!r}"
        yield from _initial_faults(definition.initial, {}, None)
        yield from _hear_faults(definition.hear, None, None)
        return
    names, events = _names(table), _events(table)
    told = [state.name for state in table if _is_named(state)]
    yield from (f"{name}: two states have this name" for name in sorted({n for n in told if told.count(n) > 1}))
    yield from _initial_faults(definition.initial, table, names)
    yield from _hear_faults(definition.hear, names, events if all(map(_has_event, _rows(table))) else None)
    for state, rows in table.items():
        yield from _state_faults(state, rows)
        for number, row in enumerate(rows, 1):
            yield from _row_faults(f"{getattr(state, 'name', state)}/{number}", row, names)
    yield from _event_faults(events)
    yield from _path_faults(definition)


def _are_names(given: Any) -> bool:
    return isinstance(given, tuple | list) and all(isinstance(name, str) for name in given)


def _is_named(state: Any) -> bool:
    return isinstance(state, State) and isinstance(state.name, str)


def _has_event(row: Any) -> bool:
    return isinstance(row, Row) and (row.event is None or isinstance(row.event, type))


def _rows(table: Mapping[Any, tuple[Any, ...]]) -> list[Any]:
    return [row for rows in table.values() for row in rows]


def _names(table: Mapping[Any, Any]) -> set[str] | None:
    """The names of all states, None where one of them can't be known."""
    return {state.name for state in table} if all(map(_is_named, table)) else None


def _events(table: Mapping[Any, tuple[Any, ...]]) -> list[type[Any]]:
    """The classes of events that rows take, as far as they are known."""
    return list(dict.fromkeys(row.event for row in _rows(table) if _has_event(row) and row.event is not None))


def _initial_faults(initial: Any, table: Mapping[Any, Any], names: set[str] | None) -> Iterator[str]:
    if not isinstance(initial, str):
        yield f"initial must be the name of a state, not {initial!r}"
    elif names is not None and initial not in names:
        yield f"the initial state {initial!r} is none of the states"
    elif any(_is_named(state) and state.name == initial and not _may_wait(state) for state in table):
        yield f"the initial state {initial!r} must be a rest, where a run can wait for its first event"


def _hear_faults(hear: Any, names: set[str] | None, events: list[type[Any]] | None) -> Iterator[str]:
    if not isinstance(hear, Mapping):
        yield f"hear must be a mapping of states and classes of events to updates, not {hear!r}"
        return
    for key, update in hear.items():
        known: Any = names if isinstance(key, str) else events if isinstance(key, type) else ()
        if known is not None and key not in known:
            yield f"hear: {key!r} is neither the name of a state nor a class of events that a row takes"
        yield from function_faults(f"hear: {key.__name__ if isinstance(key, type) else key}", "update", update)


def _event_faults(events: list[type[Any]]) -> Iterator[str]:
    """Events are told apart by their names."""
    names = [event.__name__ for event in events]
    yield from (f"{name}: two classes of events have this name" for name in sorted(set(names)) if names.count(name) > 1)
    if AUTO in names:
        yield f"{AUTO}: no event can have this name, under which auto states move on"


def _row_faults(where: str, row: Any, names: set[str] | None) -> Iterator[str]:
    if not isinstance(row, Row):
        yield f"{where}: {row!r} is no Row"
        return
    if not _has_event(row):
        yield f"{where}: its event must be a class of events or None, not {row.event!r}"
    if not isinstance(row.to, str):
        yield f"{where}: it must lead to the name of a state, not to {row.to!r}"
    elif names is not None and row.to not in names:
        yield f"{where}: it leads to {row.to!r}, which is none of the states"
    yield from function_faults(where, "guard", row.guard)
    yield from function_faults(where, "update", row.update)
    if not isinstance(row.first_because, str):
        yield f"{where}: first_because must be text, not {row.first_because!r}"
    if not isinstance(row.happy, bool):
        yield f"{where}: happy must be True or False, not {row.happy!r}"


def _state_faults(state: Any, rows: tuple[Any, ...]) -> Iterator[str]:
    if not (_is_named(state) and isinstance(state.doc, str)):
        yield f"{state!r} is no State with a name and a doc, both text"
    if not isinstance(state, State):
        return
    name, asks, final = state.name, state.asks is not None and takes(state.asks, 1), state.final is not None
    yield from _word_faults(state)
    if state.asks is not None and not asks:
        right = "a function of the snapshot that gives the requests, neither async nor a generator"
        yield f"{name}: asks must be {right}, not {state.asks!r}"
    if not isinstance(state.auto, bool):
        yield f"{name}: auto must be True or False, not {state.auto!r}"
    if final and state.final not in FINAL_KINDS:
        yield f"{name}: final must be one of {', '.join(FINAL_KINDS)}, not {state.final!r}"
    if isinstance(state.final, str) and (asks or state.auto is True or any(isinstance(row, Row) for row in rows)):
        yield f"{name}: a final state has no rows, is not auto and asks nothing"
    if final:
        return
    if not rows:
        yield f"{name}: a trap, it has no rows and is not final"
    if state.auto is True and asks:
        yield f"{name}: an auto state asks nothing"
    if state.auto is False and state.asks is None:
        yield f"{name}: a state that waits for events needs asks, which says what for"
    yield from _order_faults(state, rows)


def _word_faults(state: State) -> Iterator[str]:
    if isinstance(state.name, str) and not state.name.isidentifier():
        yield f"{state.name!r}: the name of a state must be an identifier"
    if state.name == "finished_":
        yield f"{state.name!r}: behind finished_ the name of a state says the status of the runs that end there"
    if isinstance(state.doc, str) and not state.doc.strip():
        yield f"{state.name}: a state needs a doc, a sentence that a reviewer reads"


def _order_faults(state: State, rows: tuple[Any, ...]) -> Iterator[str]:
    whole = all(map(_has_event, rows))
    for event in dict.fromkeys(row.event for row in rows if _has_event(row)):
        on = event.__name__ if event else "no event"
        guards = [row.guard for row in rows if _has_event(row) and row.event is event]
        if isinstance(state.auto, bool) and state.auto != (event is None):
            yield f"{state.name}: a row on {on}; the rows of an auto state have no event, those of a rest have one"
        if any(guard is None for guard in guards[:-1]):
            yield f"{state.name}: on {on} a row stands after the one without a guard and can't be taken"
        elif guards[-1] is not None and whole and all(map(callable, guards)):
            yield f"{state.name}: on {on} the last row has a guard, so nothing is taken where no guard holds"


# --- where rows lead ----------------------------------------------------------------------------------


def _may_wait(state: Any) -> bool:
    return not isinstance(state, State) or (state.auto is not True and not isinstance(state.final, str))


def _may_end(state: Any) -> bool:
    return not isinstance(state, State) or state.final is not None


def _edges(table: Mapping[Any, tuple[Any, ...]]) -> tuple[Edges, Edges]:
    """Where rows lead, and where they may: a row of which that can't be known may lead everywhere."""
    names, places = _names(table), dict[str, set[int]]()
    for place, state in enumerate(table):
        if _is_named(state):
            places.setdefault(state.name, set()).add(place)
    known, possible = [], []
    for rows in table.values():
        to = [row.to if isinstance(row, Row) else None for row in rows]
        sure = set[int]().union(*(places.get(name, ()) for name in to if isinstance(name, str)))
        open_ = any(not isinstance(name, str) or (names is None and name not in places) for name in to)
        known.append(sure)
        possible.append(set(range(len(table))) if open_ else sure)
    return known, possible


def _unreached(definition: Definition, edges: Edges) -> list[str]:
    """The names of the states to which no row leads from the initial one; from any rest, where that can't be known."""
    table, initial = definition.table, definition.initial
    start = {place for place, state in enumerate(table) if _is_named(state) and state.name == initial}
    if not start and (_names(table) is None or not isinstance(initial, str)):
        start = {place for place, state in enumerate(table) if _may_wait(state)}
    reached = _reach(edges, start)
    return [state.name for place, state in enumerate(table) if place not in reached and _is_named(state)]


def _path_faults(definition: Definition) -> Iterator[str]:
    states = list(definition.table)
    known, possible = _edges(definition.table)
    if _are_names(definition.unreached):
        unreached = _unreached(definition, possible)
        yield from (f"{name}: no row leads here" for name in unreached if name not in definition.unreached)
    sources: Edges = [set() for _ in states]
    for place, leads_to in enumerate(possible):
        for to in leads_to:
            sources[to].add(place)
    ending = _reach(sources, {place for place, state in enumerate(states) if _may_end(state)})
    autos = {place for place, state in enumerate(states) if _is_named(state) and state.auto is True}
    onwards = [leads_to & autos for leads_to in known]
    for place, state in enumerate(states):
        if known[place] and place not in ending and isinstance(state, State):
            yield f"{state.name}: a trap, no final state can be reached from here"
        if place in autos and place in _reach(onwards, onwards[place]):
            yield f"{state.name}: a cycle of auto states leads back here without an event"


def _reach(edges: Edges, start: set[int]) -> set[int]:
    seen: set[int] = set()
    todo = list(start)
    while todo:
        place = todo.pop()
        if place not in seen:
            seen.add(place)
            todo.extend(edges[place])
    return seen
