"""transitions executes the table: read back, changed while it lives, and run by its own classes as by the fast ones."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import attrs
import pytest
import transitions

from loopmachine import Budget, run
from loopmachine.definition import Definition, Row, State
from loopmachine.errors import UnexpectedEvent
from loopmachine.events import CancelPolled, CancelRequested, Event
from loopmachine.machine import Carrier, advance, build, live, stock
from loopmachine.requests import poll_now
from loopmachine.table import TOOL_LOOP
from tests.facts import answer, asked, brought, cancel, polled, snapshot, walk

# --- transitions executes ---------------------------------------------------------------------------------


def read_back(machine: transitions.Machine) -> dict[tuple[str, str], list[tuple[str, Any, Any]]]:
    """The rows that a live machine has: for each event and state where to, under what guard, with what update."""
    found: Any = machine.get_transitions
    return {
        (event, state): [
            (row.dest, row.conditions[0].func.__self__.guard, row.before[0].__self__.update)
            for row in found(event, state)
        ]
        for event in machine.events
        for state in machine.events[event].transitions
    }


@pytest.mark.parametrize("machine_of", [live, build, stock])
def test_the_live_machine_is_the_table(machine_of: Callable[[Definition], transitions.Machine]) -> None:
    """Read back, a machine has the states and the rows of the table, in their order, and no others, and no model."""
    machine = machine_of(attrs.evolve(TOOL_LOOP))
    rows: dict[tuple[str, str], list[tuple[str, Any, Any]]] = {}
    for _, state, row in TOOL_LOOP.all_rows():
        rows.setdefault((row.event_name or "auto", state.name), []).append((row.to, row.guard, row.update))
    assert (read_back(machine), list(machine.states), machine.initial, machine.models) == (
        rows,
        list(TOOL_LOOP.states),
        "checking_cancel",
        [],
    )


def test_the_stock_machine_is_of_the_classes_of_transitions() -> None:
    """Nothing of it is a class of this library."""
    machine = stock(TOOL_LOOP)
    fired = machine.events["CancelPolled"]
    assert [type(machine), type(fired), type(fired.transitions["checking_cancel"][0])] == [
        transitions.Machine,
        transitions.Event,
        transitions.Transition,
    ]


def test_a_machine_is_built_once_for_a_definition() -> None:
    """A definition has one live machine, and a copy of it another one."""
    copied = attrs.evolve(TOOL_LOOP)
    assert (live(TOOL_LOOP) is live(TOOL_LOOP), live(copied) is live(TOOL_LOOP)) == (True, False)


def test_a_machine_goes_with_its_definition() -> None:
    """A definition that nobody holds any more is not kept alive by its machine."""
    copied = attrs.evolve(TOOL_LOOP)
    gone = weakref.ref(live(copied)), weakref.ref(copied)
    del copied
    gc.collect()
    assert (gone[0](), gone[1]()) == (None, None)


def test_a_machine_goes_with_a_definition_that_its_guards_hold() -> None:
    """A guard may know the table it stands in; nothing holds the two but one another."""

    def played() -> list[weakref.ref[Any]]:
        holder: dict[str, Definition] = {}

        def knows(snapshot: Any, event: Any) -> bool:
            """The table is not known."""
            return not holder

        mine = TOOL_LOOP.with_row("rechecking_cancel", Row(CancelPolled, "finished_cancelled", knows), at=1)
        holder["mine"] = mine
        assert final(mine)[0] == final(TOOL_LOOP)[0]
        return [weakref.ref(mine), weakref.ref(live(mine))]

    left = played()
    gc.collect()
    assert [one() for one in left] == [None, None]


def test_threads_that_use_a_definition_first_have_one_machine() -> None:
    """Whichever of them made it."""
    mine = attrs.evolve(TOOL_LOOP)
    together = threading.Barrier(8)
    found: list[Any] = []

    def first() -> None:
        together.wait()
        found.append(live(mine))

    threads = [threading.Thread(target=first) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one is live(mine) for one in found] == [True] * 8


def test_rows_leave_a_live_machine_by_its_methods_only() -> None:
    """What the machine would not see can't be done to it, before and after it was."""
    machine = live(attrs.evolve(TOOL_LOOP))
    kinds = [type(machine.events["auto"].transitions["validating"])]
    machine.remove_transition("auto", source="validating", dest="finished_refused")
    kinds.append(type(machine.events["auto"].transitions["validating"]))
    rows = [row.dest for row in machine.events["auto"].transitions["validating"]]
    expected = [row.to for row in TOOL_LOOP.rows("validating") if row.to != "finished_refused"]
    assert (kinds, rows) == ([tuple, tuple], expected)


@pytest.mark.parametrize("more", [{}, {"before": lambda: None}, {"before": "update"}])
def test_a_row_is_added_to_a_definition_and_not_to_its_machine(more: dict[str, Any]) -> None:
    """A row that the table does not have would be run, and neither drawn nor verified."""
    machine = live(attrs.evolve(TOOL_LOOP))
    with pytest.raises(TypeError, match=r"^a row is added to a definition, by with_row; its live machine is made of"):
        machine.add_transition("CancelPolled", "checking_cancel", "finished_cancelled", **more)
    assert final(attrs.evolve(TOOL_LOOP)) == final(TOOL_LOOP)


def final(definition: Definition) -> tuple[str, str]:
    """How a step that brought an answer goes on."""
    _, steps = walk(brought(answer()), polled(), definition=definition)
    return steps[0][:2]


@pytest.mark.parametrize(
    ("removed", "expected"),
    [
        (None, ("finished_answered", "rechecking_cancel/2 validating/8")),
        (
            ("auto", "validating", "finished_answered"),
            ("checking_cancel", "rechecking_cancel/2 validating/9 admitting/10 collecting/3"),
        ),
        (
            ("auto", "admitting", "finished_stuck"),
            ("finished_answered", "rechecking_cancel/2 validating/8"),
        ),
    ],
)
def test_a_row_removed_from_the_live_machine_is_gone_from_the_run(
    removed: tuple[str, str, str] | None, expected: tuple[str, str]
) -> None:
    """What the machine of transitions does not have is not taken: it executes, and nothing else does."""
    mine = attrs.evolve(TOOL_LOOP)
    if removed:
        live(mine).remove_transition(*removed)
    assert (final(mine), final(TOOL_LOOP)) == (expected, ("finished_answered", "rechecking_cancel/2 validating/8"))


def test_a_row_removed_from_the_live_machine_changes_what_run_does() -> None:
    """The same model, tools and budget: the call over the budget is admitted, and the run goes on to its answer."""
    mine = attrs.evolve(TOOL_LOOP)
    replies = [{"kind": "call", "id": one, "name": "f", "arguments": {}} for one in "ab"]
    replies.append({"kind": "final", "text": "done"})

    def status() -> str:
        script = iter(replies)
        return run(lambda messages: next(script), "go", definition=mine, budget=Budget(max_calls=1)).status

    before = status()
    live(mine).remove_transition("auto", "admitting", "finished_call_budget")
    assert (before, status()) == ("call_budget", "answered")


class Removing:
    """A guard that never holds, and takes a row from the live machine while its name is written into code."""

    __doc__ = "It never holds."

    def __init__(self, *row: str) -> None:
        self.row = row
        self.of: Definition | None = None

    def __call__(self, snapshot: Any, event: Any) -> bool:
        return False

    @property
    def __name__(self) -> str:
        definition, self.of = self.of, None
        if definition is not None:
            live(definition).remove_transition(*self.row)
        return "removing"


@pytest.mark.parametrize(("states", "where"), [(3, 1), (30, 25)], ids=["near", "far"])
def test_a_row_removed_while_it_is_compiled_is_gone_from_the_runs_after(states: int, where: int) -> None:
    """What was compiled of it is taken once, by who was about to take it, and not kept."""
    guard, last = Removing("auto", f"auto_{states - 1}", "over"), f"auto_{states - 1}"
    guarded = [Row(None, "stopped", guard, first_because="it never holds")]
    table = {State("here", "It waits.", poll_now): [Row(CancelPolled, "auto_0"), Row(CancelRequested, "stopped")]}
    for n in range(states):
        onwards = Row(None, f"auto_{n + 1}" if n + 1 < states else "over")
        table[State(f"auto_{n}", "On the way.", auto=True)] = [*(guarded if n == where else []), onwards]
    table |= {State(name, "The end.", final="answered"): [] for name in ("over", "stopped")}
    definition = Definition("here", table)
    live(definition).remove_transition("CancelRequested", "here", "stopped")  # so that the next is not the first
    guard.of = definition
    assert advance(definition, snapshot("here"), polled()).snapshot.state == "over"
    with pytest.raises(UnexpectedEvent, match=f"^{last} does not take this CancelPolled"):
        advance(definition, snapshot("here"), polled())


def test_the_way_from_a_state_is_compiled_once() -> None:
    """Until a row is removed, wherever."""
    machine: Any = live(attrs.evolve(TOOL_LOOP))
    first, again = (machine.way("auto", "collecting") for _ in range(2))
    machine.remove_transition("CancelRequested", "awaiting_model")
    assert (first is again, first is machine.way("auto", "collecting")) == (True, False)


def test_an_event_removed_from_the_live_machine_is_not_taken() -> None:
    """A state whose only row on an event is gone refuses that event."""
    mine = attrs.evolve(TOOL_LOOP)
    live(mine).remove_transition("CancelRequested", "awaiting_model")
    with pytest.raises(UnexpectedEvent, match=r"^awaiting_model does not take this CancelRequested"):
        advance(mine, asked(), cancel())


def test_an_auto_state_that_lost_its_last_row_says_so() -> None:
    """Where the live machine can't go on, the state it is stuck in is named and nothing is changed."""
    mine = attrs.evolve(TOOL_LOOP)
    for rest in ("finished_answered", "admitting"):
        live(mine).remove_transition("auto", "validating", rest)
    with pytest.raises(UnexpectedEvent, match=r"^validating does not take this CancelPolled"):
        advance(mine, brought(answer()), polled())


# --- the stock classes and the fast ones ------------------------------------------------------------------


@attrs.frozen
class Marked:
    """A stand-in for a snapshot, that keeps what the updates did."""

    state: str
    done: tuple[str, ...] = ()


def answering(outcomes: Mapping[str, bool]) -> Definition:
    """The table, each guard answering from a table of outcomes and each update leaving its row's mark."""

    def marked(row_id: str, row: Row) -> Row:
        def guard(snapshot: Marked, event: Event) -> bool:
            """It holds if the test says so."""
            return outcomes.get(row_id, False)

        def update(snapshot: Marked, event: Event) -> Marked:
            """Leave the mark of the row."""
            return attrs.evolve(snapshot, done=(*snapshot.done, row_id))

        return attrs.evolve(row, guard=row.guard and guard, update=row.update and update)

    table = {
        state: [marked(f"{state.name}/{number}", row) for number, row in enumerate(rows, 1)]
        for state, rows in TOOL_LOOP.table.items()
    }
    return attrs.evolve(TOOL_LOOP, table=table)


def fired(machine: transitions.Machine, state: str, event: str) -> tuple[str, list[str], tuple[str, ...]]:
    """Where an event leads from a state, and over auto states to the next rest; the rows taken and the updates."""
    carrier = Carrier(Marked(state), polled())
    machine.events[event or "auto"].trigger(carrier, carrier)
    while TOOL_LOOP.states[carrier.state].auto:
        machine.events["auto"].trigger(carrier, carrier)
    return carrier.state, carrier.rows, carrier.snapshot.done


@pytest.mark.parametrize("machine_of", [build, stock])
def test_guards_and_updates_are_given_the_snapshot_and_the_event(
    machine_of: Callable[[Definition], transitions.Machine],
) -> None:
    """As the row before has left it; an event that is taken says so, and its row is noted after those before."""
    given: list[Any] = []

    def guard(snapshot: Marked, event: Event) -> bool:
        """It holds, and is remembered."""
        given.append(("guard", snapshot, event))
        return True

    def update(snapshot: Marked, event: Event) -> Marked:
        """Leave a mark, and be remembered."""
        given.append(("update", snapshot, event))
        return attrs.evolve(snapshot, done=(*snapshot.done, "done"))

    first, second = State("first", "It begins.", lambda snapshot: ()), State("second", "It ends.", final="answered")
    rows = [Row(CancelPolled, "first", guard, update), Row(CancelPolled, "second")]
    polling = machine_of(Definition("first", {first: rows, second: []})).events["CancelPolled"]
    carrier, start, marked = Carrier(Marked("first"), polled()), Marked("first"), Marked("first", ("done",))
    taken = [polling.trigger(carrier, carrier), polling.trigger(carrier, carrier)]
    assert (taken, carrier.state, carrier.rows, given) == (
        [True, True],
        "first",
        ["first/1", "first/1"],
        [(what, seen, polled()) for seen in (start, marked) for what in ("guard", "update")],
    )


PLACES = list(dict.fromkeys((state.name, row.event_name) for _, state, row in TOOL_LOOP.all_rows()))


@pytest.mark.parametrize(("state", "event"), PLACES, ids=[f"{state}-{event or 'auto'}" for state, event in PLACES])
def test_the_stock_classes_do_what_the_fast_ones_do(state: str, event: str) -> None:
    """For every outcome of every guard both take the first row that holds, run its update and go where it leads."""
    rows = [
        (f"{state}/{number}", row) for number, row in enumerate(TOOL_LOOP.rows(state), 1) if row.event_name == event
    ]
    guarded = [row_id for row_id, row in rows if row.guard]
    outcomes: dict[str, bool] = {}
    fast, stock = (build(answering(outcomes), kind) for kind in (type(live(TOOL_LOOP)), transitions.Machine))
    told = []
    for answers in product((True, False), repeat=len(guarded)):
        outcomes.update(zip(guarded, answers, strict=True))
        first = next((row_id, row) for row_id, row in rows if outcomes.get(row_id, not row.guard))
        quick = fired(fast, state, event)
        assert quick == fired(stock, state, event)
        told.append((quick[1][0] == first[0], (first[0] in quick[2]) is (first[1].update is not None)))
    assert (set(told), len(told)) == ({(True, True)}, 2 ** len(guarded))
