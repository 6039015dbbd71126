"""A machine as data: states and rows, refused when it is built wrong. It knows nothing of tool calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import CO_COROUTINE, iscoroutinefunction, signature
from types import FunctionType, MappingProxyType
from typing import Any, Self

import attrs

from loopmachine.errors import InvalidDefinition

Guard = Callable[[Any, Any], bool]  #: a named pure predicate of (snapshot, event)
Update = Callable[[Any, Any], Any]  #: a named pure function of (snapshot, event) -> snapshot
Asks = Callable[[Any], tuple[Any, ...]]  #: the outstanding requests of a snapshot
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


@attrs.frozen
class Row:
    """One transition: on ``event`` (None in an auto state), where ``guard`` holds, ``update`` and go to ``to``.

    The rows of a (state, event) are tried in order and the first whose guard holds is taken.
    ``happy`` marks the happy path, for the diagram. Where a later row's guard can hold at the same time,
    ``first_because`` says why this one stands before it; the verifier reports a row that does not say so.
    """

    event: type[Any] | None
    to: str
    guard: Guard | None = None
    update: Update | None = None
    happy: bool = False
    first_because: str = attrs.field(default="", kw_only=True)

    @property
    def event_name(self) -> str:
        """The event's name, blank in an auto state."""
        return self.event.__name__ if self.event else ""


def _frozen_rows(states: Mapping[State, Iterable[Row]]) -> Mapping[State, tuple[Row, ...]]:
    if not isinstance(states, Mapping):
        raise InvalidDefinition([f"the table must be a mapping of each State to its rows, not {states!r}"])
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
    states: Mapping[str, State] = attrs.field(init=False, repr=False)
    _by_id: Mapping[str, Row] = attrs.field(init=False, repr=False)
    _accepts: Mapping[str, tuple[str, ...]] = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        strange = list(_strange(self.table))
        if strange:  # what is wrong with the rest is told, too
            object.__setattr__(self, "table", _frozen_rows(_sound(self.table)))
        if not isinstance(self.initial, str):
            raise InvalidDefinition([*strange, f"initial must be the name of a state, not {self.initial!r}"])
        object.__setattr__(self, "states", MappingProxyType({state.name: state for state in self.table}))
        object.__setattr__(self, "_by_id", {row_id: row for row_id, _, row in self.all_rows()})
        object.__setattr__(self, "_accepts", {state.name: _accepted(rows) for state, rows in self.table.items()})
        reached = _reach(_targets(self), {self.initial})
        object.__setattr__(self, "unreached", tuple(name for name in self.unreached if name not in reached))
        found = [*strange, *faults(self)]
        if found:
            raise InvalidDefinition(found)

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


def _accepted(rows: Iterable[Row]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row.event_name for row in rows if row.event is not None))


# --- what makes a definition wrong --------------------------------------------------------------------


def faults(definition: Definition) -> Iterator[str]:
    """Everything that is wrong with a table, a sentence each."""
    names = [state.name for state in definition.table]
    yield from (f"{name}: two states have this name" for name in sorted({n for n in names if names.count(n) > 1}))
    if definition.initial not in definition.states:
        yield f"the initial state {definition.initial!r} is none of the states"
    elif not definition.states[definition.initial].rest:
        yield f"the initial state {definition.initial!r} must be a rest, where a run can wait for its first event"
    yield from _hear_faults(definition)
    for state, rows in definition.table.items():
        yield from _state_faults(state, rows)
        for number, row in enumerate(rows, 1):
            if row.to not in definition.states:
                yield f"{state.name}/{number}: it leads to {row.to!r}, which is none of the states"
            yield from _named_faults(f"{state.name}/{number}", "guard", row.guard)
            yield from _named_faults(f"{state.name}/{number}", "update", row.update)
    yield from _event_faults(definition)
    yield from _path_faults(definition)


def _hear_faults(definition: Definition) -> Iterator[str]:
    hear, events = definition.hear, _events(definition)
    if not isinstance(hear, Mapping):
        yield f"hear must be a mapping of states and classes of events to updates, not {hear!r}"
        return
    for key, update in hear.items():
        if key not in definition.states and key not in events:
            yield f"hear: {key!r} is neither the name of a state nor a class of events that a row takes"
        yield from _named_faults(f"hear: {key.__name__ if isinstance(key, type) else key}", "update", update)


def _events(definition: Definition) -> list[type[Any]]:
    return list(dict.fromkeys(row.event for _, _, row in definition.all_rows() if row.event is not None))


def _event_faults(definition: Definition) -> Iterator[str]:
    """Events are told apart by their names."""
    names = [event.__name__ for event in _events(definition)]
    yield from (f"{name}: two classes of events have this name" for name in sorted(set(names)) if names.count(name) > 1)
    if AUTO in names:
        yield f"{AUTO}: no event can have this name, under which auto states move on"


def _strange(table: Mapping[Any, tuple[Any, ...]]) -> Iterator[str]:
    """What is no state and no row."""
    for state, rows in table.items():
        if not _is_state(state):
            yield f"{state!r} is no State with a name and a doc, both text"
        for number, row in enumerate(rows, 1):
            where = f"{getattr(state, 'name', state)}/{number}"
            if not isinstance(row, Row):
                yield f"{where}: {row!r} is no Row"
                continue
            if row.event is not None and not isinstance(row.event, type):
                yield f"{where}: its event must be a class of events or None, not {row.event!r}"
            if not isinstance(row.to, str):
                yield f"{where}: it must lead to the name of a state, not to {row.to!r}"


def _sound(table: Mapping[Any, tuple[Any, ...]]) -> dict[State, list[Row]]:
    """The table without what is none."""
    return {state: [row for row in rows if _is_row(row)] for state, rows in table.items() if _is_state(state)}


def _is_state(state: Any) -> bool:
    return isinstance(state, State) and isinstance(state.name, str) and isinstance(state.doc, str)


def _is_row(row: Any) -> bool:
    return isinstance(row, Row) and isinstance(row.to, str) and (row.event is None or isinstance(row.event, type))


def _state_faults(state: State, rows: tuple[Row, ...]) -> Iterator[str]:
    name = state.name
    if not name.isidentifier():
        yield f"{name!r}: the name of a state must be an identifier"
    if not state.doc.strip():
        yield f"{name}: a state needs a doc, a sentence that a reviewer reads"
    if state.asks is not None and not _takes(state.asks, 1):
        yield f"{name}: asks must be a function of the snapshot that gives the requests, not {state.asks!r}"
    if state.final is not None:
        if state.final not in FINAL_KINDS:
            yield f"{name}: final must be one of {', '.join(FINAL_KINDS)}, not {state.final!r}"
        if rows or state.auto or state.asks:
            yield f"{name}: a final state has no rows, is not auto and asks nothing"
        return
    if not rows:
        yield f"{name}: a trap, it has no rows and is not final"
    if state.auto and state.asks:
        yield f"{name}: an auto state asks nothing"
    if state.rest and state.asks is None:
        yield f"{name}: a state that waits for events needs asks, which says what for"
    for event in dict.fromkeys(row.event for row in rows):
        yield from _order_faults(state, event, [row for row in rows if row.event is event])


def _order_faults(state: State, event: type[Any] | None, rows: list[Row]) -> Iterator[str]:
    on = event.__name__ if event else "no event"
    if state.auto != (event is None):
        yield f"{state.name}: a row on {on}; the rows of an auto state have no event, those of a rest have one"
    open_rows = [place for place, row in enumerate(rows) if row.guard is None]
    if not open_rows:
        yield f"{state.name}: on {on} the last row has a guard, so nothing is taken where no guard holds"
    elif open_rows[0] < len(rows) - 1:
        yield f"{state.name}: on {on} a row stands after the one without a guard and can't be taken"


def _named_faults(where: str, what: str, function: Any) -> Iterator[str]:
    if function is None:
        return
    if not _takes(function, 2):
        yield f"{where}: its {what} must be a function of (snapshot, event) and not async, not {function!r}"
        return
    name, doc = (
        text if isinstance(text, str) else "" for text in (getattr(function, "__name__", ""), function.__doc__)
    )
    if not name.isidentifier():
        yield f"{where}: its {what} needs a name of its own, not {name or repr(function)!r}"
    if not doc.strip():
        yield f"{where}: its {what} {name or repr(function)} needs a docstring, a sentence that a reviewer reads"


def _takes(function: Any, arguments: int) -> bool:
    """Whether it can be called with so many arguments, by position, for its value."""
    if isinstance(function, FunctionType):  # of which its code tells sooner than a signature
        code = function.__code__
        if code.co_argcount == arguments and not code.co_kwonlyargcount:
            return not code.co_flags & CO_COROUTINE
    if iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__):
        return False
    try:
        signature(function).bind(*range(arguments))
    except TypeError:  # it takes others, or is no function
        return False
    except ValueError:  # a builtin without a signature
        return True
    return True


def _targets(definition: Definition) -> dict[str, set[str]]:
    return {
        state.name: {row.to for row in rows if row.to in definition.states} for state, rows in definition.table.items()
    }


def _path_faults(definition: Definition) -> Iterator[str]:
    targets = _targets(definition)
    reached = _reach(targets, {definition.initial})
    yield from (
        f"{name}: no row leads here" for name in targets if name not in reached and name not in definition.unreached
    )
    sources: dict[str, set[str]] = {name: set() for name in targets}
    for name, leads_to in targets.items():
        for to in leads_to:
            sources[to].add(name)
    ending = _reach(sources, {name for name, state in definition.states.items() if state.final is not None})
    for name, state in definition.states.items():
        if targets[name] and name not in ending:
            yield f"{name}: a trap, no final state can be reached from here"
        autos = {to for to in targets[name] if definition.states[to].auto}
        if state.auto and name in _reach(
            {n: {t for t in targets[n] if definition.states[t].auto} for n in targets}, autos
        ):
            yield f"{name}: a cycle of auto states leads back here without an event"


def _reach(edges: Mapping[str, set[str]], start: set[str]) -> set[str]:
    seen: set[str] = set()
    todo = [name for name in start if name in edges]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo.extend(edges[name])
    return seen
