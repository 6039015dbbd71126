"""A table that can't be run is refused when it is built, with every fault of it, not the first."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import pytest

from loopmachine import updates
from loopmachine.definition import Definition, Row, State
from loopmachine.errors import InvalidDefinition
from loopmachine.events import CancelPolled, CancelRequested, Event, Resumed
from loopmachine.limits import Budget
from loopmachine.machine import build
from loopmachine.records import BaseSnapshot, Snapshot
from loopmachine.requests import PollCancel
from loopmachine.table import TOOL_LOOP
from tests.facts import asks, brought, call, polled, walk
from tests.test_review_lines import Go, nothing


def wait(snapshot: BaseSnapshot) -> tuple[PollCancel]:
    """Somebody is to look."""
    return (PollCancel(),)


def due(snapshot: BaseSnapshot, event: Event) -> bool:
    """It is late."""
    return event.at > 1


def kept(snapshot: BaseSnapshot, event: Event) -> BaseSnapshot:
    """Change nothing."""
    return snapshot


def kept_too(snapshot: BaseSnapshot, event: Event) -> BaseSnapshot:
    """Change nothing, either."""
    return snapshot


def unexplained(snapshot: BaseSnapshot, event: Event) -> bool:
    return False


NO_MAPPING: Any = None


class Callable:
    """A function that has no name of its own."""

    def __call__(self, snapshot: BaseSnapshot, event: Event) -> bool:
        """It is never late."""
        return False


START, END = State("start", "It begins.", wait), State("end", "It ends.", final="answered")
GO = Row(CancelPolled, "end")


def faults(table: Mapping[State, Iterable[Row]], initial: str = "start") -> tuple[str, ...]:
    """What is wrong with a table; nothing where it can be run."""
    try:
        Definition(initial, table)
    except InvalidDefinition as invalid:
        return invalid.faults
    return ()


#: What a function must be.
CALLED = "must be a function of (snapshot, event), neither async nor a generator, not"
ASKED = "asks must be a function of the snapshot that gives the requests, neither async nor a generator, not"

#: What stands where something else is wanted.
LISTED: Any = [PollCancel()]
EMPTY: Any = ()
TEXT: Any = "due"
MODULE: Any = attrs
NAMES: Any = ["end"]
NO_ROWS: Any = None
STRANGE: Any = ("a", "b")
NAMED: Any = "CancelPolled"
NONE: Any = None

#: Every fault alone: the table, and all that is wrong with it.
ALONE: dict[str, tuple[Mapping[State, Iterable[Row]], tuple[str, ...]]] = {
    "none": ({START: [GO], END: []}, ()),
    "a row to an unknown state": (
        {START: [Row(CancelPolled, "nowhere", due), GO], END: []},
        ("start/1: it leads to 'nowhere', which is none of the states",),
    ),
    "a state that no row leads to": (
        {START: [GO], State("lost", "Nobody comes here.", wait): [GO], END: []},
        ("lost: no row leads here",),
    ),
    "a state that only unreached ones lead to": (
        {
            START: [GO],
            State("lost", "Nobody comes here.", wait): [Row(CancelPolled, "found")],
            State("found", "Nobody comes here.", wait): [Row(CancelPolled, "lost", due), GO],
            END: [],
        },
        ("lost: no row leads here", "found: no row leads here"),
    ),
    "a state without rows": (
        {START: [Row(CancelPolled, "stuck", due), GO], State("stuck", "It stays.", wait): [], END: []},
        ("stuck: a trap, it has no rows and is not final",),
    ),
    "rows that never reach an end": (
        {
            START: [Row(CancelPolled, "round", due), GO],
            State("round", "It goes round.", wait): [Row(CancelPolled, "around")],
            State("around", "It goes round.", wait): [Row(CancelPolled, "round")],
            END: [],
        },
        (
            "round: a trap, no final state can be reached from here",
            "around: a trap, no final state can be reached from here",
        ),
    ),
    "a row after the one without a guard": (
        {START: [GO, Row(CancelPolled, "start", due)], END: []},
        ("start: on CancelPolled a row stands after the one without a guard and can't be taken",),
    ),
    "two rows without a guard": (
        {START: [GO, Row(CancelPolled, "start")], END: []},
        ("start: on CancelPolled a row stands after the one without a guard and can't be taken",),
    ),
    "an event without a row that always holds": (
        {START: [GO, Row(Resumed, "start", due)], END: []},
        ("start: on Resumed the last row has a guard, so nothing is taken where no guard holds",),
    ),
    "an auto state without a row that always holds": (
        {START: [Row(CancelPolled, "auto")], State("auto", "It moves.", auto=True): [Row(None, "end", due)], END: []},
        ("auto: on no event the last row has a guard, so nothing is taken where no guard holds",),
    ),
    "a cycle of auto states": (
        {
            START: [Row(CancelPolled, "one")],
            State("one", "It moves.", auto=True): [Row(None, "other", due), Row(None, "end")],
            State("other", "It moves.", auto=True): [Row(None, "one")],
            END: [],
        },
        (
            "one: a cycle of auto states leads back here without an event",
            "other: a cycle of auto states leads back here without an event",
        ),
    ),
    "an auto state that leads to itself": (
        {
            START: [Row(CancelPolled, "one")],
            State("one", "It moves.", auto=True): [Row(None, "one", due), Row(None, "end")],
            END: [],
        },
        ("one: a cycle of auto states leads back here without an event",),
    ),
    "a guard that is a lambda": (
        {START: [Row(CancelPolled, "start", lambda snapshot, event: True), GO], END: []},
        (
            "start/1: its guard needs a name of its own, not '<lambda>'",
            "start/1: its guard <lambda> needs a docstring, a sentence that a reviewer reads",
        ),
    ),
    "a guard without a docstring": (
        {START: [Row(CancelPolled, "start", unexplained), GO], END: []},
        ("start/1: its guard unexplained needs a docstring, a sentence that a reviewer reads",),
    ),
    "an update without a docstring": (
        {START: [Row(CancelPolled, "end", update=unexplained)], END: []},
        ("start/1: its update unexplained needs a docstring, a sentence that a reviewer reads",),
    ),
    "a row on an event in an auto state": (
        {
            START: [Row(CancelPolled, "one")],
            State("one", "It moves.", auto=True): [Row(CancelPolled, "end"), Row(None, "end")],
            END: [],
        },
        ("one: a row on CancelPolled; the rows of an auto state have no event, those of a rest have one",),
    ),
    "a row without an event in a rest": (
        {START: [GO, Row(None, "end")], END: []},
        ("start: a row on no event; the rows of an auto state have no event, those of a rest have one",),
    ),
    "a final state with rows": (
        {START: [Row(CancelPolled, "over")], State("over", "It ends.", final="limit"): [Row(CancelPolled, "start")]},
        ("over: a final state has no rows, is not auto and asks nothing",),
    ),
    "a final state that is auto": (
        {START: [Row(CancelPolled, "over")], State("over", "It ends.", auto=True, final="limit"): []},
        ("over: a final state has no rows, is not auto and asks nothing",),
    ),
    "a final state that asks": (
        {START: [Row(CancelPolled, "over")], State("over", "It ends.", wait, final="limit"): []},
        ("over: a final state has no rows, is not auto and asks nothing",),
    ),
    "an unknown kind of end": (
        {START: [Row(CancelPolled, "over")], State("over", "It ends.", final="happily"): []},
        ("over: final must be one of answered, limit, fault, not 'happily'",),
    ),
    "a blank kind of end": (
        {START: [Row(CancelPolled, "over")], State("over", "It ends.", final=""): []},
        ("over: final must be one of answered, limit, fault, not ''",),
    ),
    "a state without a doc": (
        {State("start", " \n", wait): [GO], END: []},
        ("start: a state needs a doc, a sentence that a reviewer reads",),
    ),
    "a rest that asks nothing": (
        {State("start", "It begins."): [GO], END: []},
        ("start: a state that waits for events needs asks, which says what for",),
    ),
    "an auto state that asks": (
        {START: [Row(CancelPolled, "one")], State("one", "It moves.", wait, auto=True): [Row(None, "end")], END: []},
        ("one: an auto state asks nothing",),
    ),
    "a name that is no identifier": (
        {START: [Row(CancelPolled, "the end")], State("the end", "It ends.", final="limit"): []},
        ("'the end': the name of a state must be an identifier",),
    ),
    "a final state without a status": (
        {START: [Row(CancelPolled, "finished_")], State("finished_", "It ends.", final="limit"): []},
        ("'finished_': behind finished_ the name of a state says the status of the runs that end there",),
    ),
    "a state that asks with what is no function": (
        {State("start", "It begins.", LISTED): [GO], END: []},
        (f"start: {ASKED} {LISTED!r}",),
    ),
    "an auto state that asks with what is no function": (
        {
            START: [Row(CancelPolled, "one")],
            State("one", "It moves.", EMPTY, auto=True): [Row(None, "end")],
            END: [],
        },
        (f"one: {ASKED} ()",),
    ),
    "a guard that is no function": (
        {START: [Row(CancelPolled, "start", TEXT), GO], END: []},
        (f"start/1: its guard {CALLED} 'due'",),
    ),
    "an update that is no function": (
        {START: [Row(CancelPolled, "end", update=MODULE)], END: []},
        (f"start/1: its update {CALLED} {attrs!r}",),
    ),
    "a row that leads to what is no name": (
        {START: [Row(CancelPolled, NAMES, due), GO], END: []},
        ("start/1: it must lead to the name of a state, not to ['end']",),
    ),
    "a state whose rows are none": (
        {START: [GO], END: NO_ROWS},
        ("end/1: None is no Row",),
    ),
    "an event that has the name of what auto states move on": (
        {START: [Row(type("auto", (CancelPolled,), {}), "end"), GO], END: []},
        ("auto: no event can have this name, under which auto states move on",),
    ),
    "two states of one name": (
        {START: [GO], State("start", "It begins again.", wait): [GO], END: []},
        ("start: two states have this name",),
    ),
}
PARTIAL = functools.partial(due)


@pytest.mark.parametrize(("table", "expected"), ALONE.values(), ids=ALONE)
def test_each_fault_alone(table: Mapping[State, Iterable[Row]], expected: tuple[str, ...]) -> None:
    """A table with one fault is refused for that one and for no other."""
    assert faults(table) == expected


@pytest.mark.parametrize("what", ["guard", "update"])
@pytest.mark.parametrize("nameless", [PARTIAL, Callable()], ids=["partial", "object"])
def test_a_function_without_a_name_is_refused(nameless: Any, what: str) -> None:
    """What a reviewer could not call by its name is no guard and no update."""
    found = faults({START: [Row(CancelPolled, "start", **{"guard": due, what: nameless}), GO], END: []})
    assert found == (f"start/1: its {what} needs a name of its own, not {repr(nameless)!r}",)


def alone(snapshot: Any) -> Any:
    """Looks at no event."""


def more(snapshot: Any, event: Any, more: Any) -> Any:
    """Wants more."""


def named(snapshot: Any, event: Any, *, name: str) -> Any:
    """Wants a name."""


async def later(snapshot: Any, event: Any) -> Any:
    """Is awaited by nobody."""


async def whenever(*given: Any) -> Any:
    """Takes what comes, and is awaited by nobody."""


class Later:
    """An object that is called as a coroutine function is."""

    async def __call__(self, snapshot: Any, event: Any) -> Any:
        """Is awaited by nobody."""


def one_by_one(snapshot: Any, event: Any) -> Any:
    """Is iterated by nobody."""
    yield True


async def one_by_one_later(snapshot: Any, event: Any) -> Any:
    """Is iterated by nobody, either."""
    yield True


class OneByOne:
    """An object that is called as a generator function is."""

    def __call__(self, snapshot: Any, event: Any) -> Any:
        """Is iterated by nobody."""
        yield True

    @functools.cache  # noqa: B019  # of which nothing is kept, as it is not called
    def method(self, snapshot: Any, event: Any) -> Any:
        """Is iterated by nobody."""
        yield True


#: Functions of which a call gives what is always true, whatever it would give once somebody awaited or iterated it.
LATER: list[Any] = [
    *(later, whenever, Later(), one_by_one, one_by_one_later, OneByOne(), OneByOne().__call__, OneByOne().method),
    *(functools.cache(later), functools.partial(one_by_one), staticmethod(one_by_one_later)),
]


@pytest.mark.parametrize("what", ["guard", "update"])
@pytest.mark.parametrize("function", [alone, more, named, len, 5, *LATER])
def test_a_guard_and_an_update_take_two_arguments(function: Any, what: str) -> None:
    """Another is told at once, and not when a run comes to it; what is async or a generator would hold always."""
    found = faults({START: [Row(CancelPolled, "start", **{"guard": due, what: function}), GO], END: []})
    assert found == (f"start/1: its {what} {CALLED} {function!r}",)


@pytest.mark.parametrize("function", LATER)
def test_what_an_event_brings_and_what_a_state_asks_are_told_at_once_too(function: Any) -> None:
    """As a guard and an update are."""
    asks: Any = functools.partial(function, None)
    with pytest.raises(InvalidDefinition) as caught:
        Definition("start", {State("start", "It begins.", asks): [GO], END: []}, hear={"start": function})
    assert caught.value.faults == (f"hear: start: its update {CALLED} {function!r}", f"start: {ASKED} {asks!r}")


def test_functions_that_are_refused_do_what_they_say() -> None:
    """What they give one by one is only seen where somebody asks for it."""
    with pytest.raises(StopIteration):
        one_by_one_later(None, None).__anext__().send(None)
    given = [one_by_one(None, None), OneByOne()(None, None), OneByOne().method(None, None)]
    assert [list(one) for one in given] == [[True]] * 3


def synchronous(snapshot: Any, event: Any) -> Any:
    """Gives what an async function would."""


def default(snapshot: Any, event: Any, limit: int = 3) -> Any:
    """Has a limit."""


def several(*given: Any, **named: Any) -> Any:
    """Takes what comes."""


class Rule:
    """Guards with a memory of how they were made."""

    def holds(self, snapshot: Any, event: Any) -> Any:
        """It holds."""


AROUND = functools.update_wrapper(synchronous, later, assigned=("__wrapped__",))
CACHED = functools.cache(due)


@pytest.mark.parametrize("function", [default, several, Rule().holds, operator.eq, isinstance, max, AROUND, CACHED])
def test_what_takes_two_arguments_is_a_guard(function: Any) -> None:
    """A function with defaults, a method, a function in C or kept by a cache, one around an async one."""
    assert faults({START: [Row(CancelPolled, "start", function), GO], END: []}) == ()


@pytest.mark.parametrize("asks", [due, "asks"])
def test_what_a_state_asks_is_a_function_of_the_snapshot(asks: Any) -> None:
    """And of nothing else."""
    expected = f"start: {ASKED} {asks!r}"
    assert faults({State("start", "It begins.", asks): [GO], END: []}) == (expected,)


def test_a_name_and_a_docstring_are_text() -> None:
    """Of an object of somebody's own, too."""

    class Odd:
        __name__ = 5
        __doc__: Any = ("It holds.",)

        def __call__(self, snapshot: Any, event: Any) -> Any:
            """It holds."""

    odd = Odd()
    assert faults({START: [Row(CancelPolled, "start", odd), GO], END: []}) == (
        f"start/1: its guard needs a name of its own, not {repr(odd)!r}",
        f"start/1: its guard {odd!r} needs a docstring, a sentence that a reviewer reads",
    )


@pytest.mark.parametrize("table", [None, [], [START]])
def test_a_table_is_a_mapping(table: Any) -> None:
    """Of states to their rows."""
    with pytest.raises(InvalidDefinition, match="- the table must be a mapping of each State to its rows, not "):
        Definition("start", table)


def test_the_initial_state_is_a_name() -> None:
    """What is none is told with what else is no part of a table."""
    names: Any = ["start"]
    rows: list[Any] = [5, GO, 6]
    assert faults({START: rows, END: []}, names) == (
        "initial must be the name of a state, not ['start']",
        "start/1: 5 is no Row",
        "start/3: 6 is no Row",
    )


@pytest.mark.parametrize(
    ("hear", "says"),
    [
        (NO_MAPPING, ["hear must be a mapping of states and classes of events to updates, not None"]),
        (
            {"start": "wait"},
            [f"hear: start: its update {CALLED} 'wait'"],
        ),
        ({CancelPolled: PARTIAL}, [f"hear: CancelPolled: its update needs a name of its own, not {repr(PARTIAL)!r}"]),
        (
            {CancelPolled: unexplained},
            ["hear: CancelPolled: its update unexplained needs a docstring, a sentence that a reviewer reads"],
        ),
        (
            {"begin": kept, Resumed: kept},
            [
                "hear: 'begin' is neither the name of a state nor a class of events that a row takes",
                f"hear: {Resumed!r} is neither the name of a state nor a class of events that a row takes",
            ],
        ),
    ],
)
def test_what_an_event_brings_is_an_update_as_any(hear: Any, says: list[str]) -> None:
    """It is called, named, documented and of a state or an event there is, or told with all else that is wrong."""
    with pytest.raises(InvalidDefinition) as caught:
        Definition("begin", {START: [GO], END: []}, hear=hear)
    assert caught.value.faults[:-2] == (
        "the initial state 'begin' is none of the states",
        *says,
    )


def test_what_an_event_brings_is_that_of_its_class_or_else_of_its_state() -> None:
    """Nothing, where neither is named."""
    hears = Definition("start", {START: [GO], END: []}, hear={"start": kept, CancelPolled: kept_too})
    silent = Definition("start", {START: [GO], END: []})
    found = [hears.heard("start", CancelPolled), hears.heard("start", Resumed), hears.heard("end", Resumed)]
    assert ([*found, silent.heard("start", CancelPolled)]) == [kept_too, kept, None, None]


def test_an_initial_state_must_be_one_of_the_states() -> None:
    """A run has to begin somewhere; from nowhere nothing is reached."""
    assert faults({START: [GO], END: []}, "begin") == (
        "the initial state 'begin' is none of the states",
        "start: no row leads here",
        "end: no row leads here",
    )


@pytest.mark.parametrize("initial", ["one", "end"])
def test_a_run_begins_where_it_waits(initial: str) -> None:
    """A state that takes no event, be it auto or final, is no beginning: such a run could never be driven."""
    table = {
        State("one", "It moves.", auto=True): [Row(None, "start")],
        START: [Row(CancelPolled, "one", due), GO],
        END: [],
    }
    assert any(initial in fault and "initial" in fault for fault in faults(table, initial))


WRONG: dict[State, list[Row]] = {
    State("start", ""): [
        Row(CancelPolled, "nowhere", lambda snapshot, event: True),
        Row(CancelPolled, "one", unexplained, PARTIAL),
        Row(CancelPolled, "stuck"),
        Row(CancelPolled, "round", due),
        Row(Resumed, "start", due),
        Row(None, "the end"),
    ],
    State("one", "It moves.", wait, auto=True): [Row(None, "other", due), Row(CancelPolled, "the end")],
    State("other", "It moves.", auto=True): [Row(None, "one")],
    State("stuck", "It stays.", wait): [],
    State("round", "It goes round.", wait): [Row(CancelPolled, "round")],
    State("lost", "Nobody comes here.", wait): [GO],
    State("lost", "Nobody comes here either.", wait): [GO],
    State("the end", "It ends.", final="happily"): [GO],
    END: [],
}


def test_all_faults_are_listed_together() -> None:
    """A table that is wrong in every way is told all of it at once, in the order of the table."""
    assert faults(WRONG, "begin") == (
        "lost: two states have this name",
        "the initial state 'begin' is none of the states",
        "start: a state needs a doc, a sentence that a reviewer reads",
        "start: a state that waits for events needs asks, which says what for",
        "start: on CancelPolled a row stands after the one without a guard and can't be taken",
        "start: on Resumed the last row has a guard, so nothing is taken where no guard holds",
        "start: a row on no event; the rows of an auto state have no event, those of a rest have one",
        "start/1: it leads to 'nowhere', which is none of the states",
        "start/1: its guard needs a name of its own, not '<lambda>'",
        "start/1: its guard <lambda> needs a docstring, a sentence that a reviewer reads",
        "start/2: its guard unexplained needs a docstring, a sentence that a reviewer reads",
        f"start/2: its update needs a name of its own, not {repr(PARTIAL)!r}",
        "one: an auto state asks nothing",
        "one: on no event the last row has a guard, so nothing is taken where no guard holds",
        "one: a row on CancelPolled; the rows of an auto state have no event, those of a rest have one",
        "stuck: a trap, it has no rows and is not final",
        "'the end': the name of a state must be an identifier",
        "the end: final must be one of answered, limit, fault, not 'happily'",
        "the end: a final state has no rows, is not auto and asks nothing",
        *(
            f"{name}: no row leads here"
            for name in ("start", "one", "other", "stuck", "round", "lost", "the end", "end")
        ),
        "one: a cycle of auto states leads back here without an event",
        "other: a cycle of auto states leads back here without an event",
        "round: a trap, no final state can be reached from here",
    )


# --- of a wrong type ------------------------------------------------------------------------------------------

ROUND: dict[str, Any] = {
    "initial": "start",
    "hear": {"start": kept, Resumed: kept_too},
    "unreached": ("later",),
}
#: A table in which every row is needed, and every part can be of a wrong type.
ROWS: list[tuple[State, list[Row]]] = [
    (START, [Row(CancelPolled, "one", due, kept), GO, Row(Resumed, "start")]),
    (State("one", "It moves.", auto=True), [Row(None, "other", due), Row(None, "more")]),
    (State("other", "It moves.", auto=True), [Row(None, "end", due), Row(None, "more", update=kept)]),
    (State("more", "It waits.", wait), [Row(CancelRequested, "over")]),
    (State("later", "It waits for a row.", wait), [GO]),
    (State("over", "It ends, too.", final="limit"), []),
    (END, []),
]
#: What is none of what can stand there. The one of a state is one that a mapping can have as its key.
NOT_IN_A_ROW: dict[str, list[Any]] = {
    "event": ["CancelPolled", 5, []],
    "to": [None, 5, ["end"]],
    "guard": [5, "due", ()],
    "update": [5, "kept", []],
    "happy": [None, 1, "yes"],
    "first_because": [None, 5, ["it is"]],
}
NOT_IN_A_STATE: dict[str, list[Any]] = {
    "name": [None, 5],
    "doc": [None, 5],
    "asks": [5, (), [PollCancel()]],
    "auto": [None, 1, "yes"],
    "final": [5, (), True],
}
Part = tuple[Any, ...]  #: an argument; or a state by its place, alone or with one of its fields; or so a row of it
WRONG_PARTS: list[tuple[Part, Any]] = [
    *((("initial",), value) for value in (None, 5, ["start"])),
    *((("hear",), value) for value in (None, 5, [kept])),
    *((("unreached",), value) for value in (None, 5, "later", (5,))),
    *(((place,), value) for place in range(len(ROWS)) for value in (None, 5, "start", State)),
    *(
        ((place, field), value)
        for place in range(len(ROWS))
        for field, values in NOT_IN_A_STATE.items()
        for value in values
    ),
    *(((place, row), value) for place, (_, rows) in enumerate(ROWS) for row in range(len(rows)) for value in (5, "a")),
    *(
        ((place, row, field), value)
        for place, (_, rows) in enumerate(ROWS)
        for row in range(len(rows))
        for field, values in NOT_IN_A_ROW.items()
        for value in values
    ),
]


def told(*wrong: tuple[Part, Any]) -> tuple[str, ...]:
    """What is wrong with the definition where these parts are something else."""
    given = dict(ROUND)
    states: list[tuple[Any, list[Any]]] = [(state, list(rows)) for state, rows in ROWS]
    for (first, *more), value in wrong:
        if not more and isinstance(first, str):
            given[first] = value
            continue
        state, rows = states[first]
        if not more:
            states[first] = value, rows
        elif isinstance(more[0], str):
            states[first] = attrs.evolve(state, **{more[0]: value}), rows
        elif more[1:]:
            rows[more[0]] = attrs.evolve(rows[more[0]], **{more[1]: value})
        else:
            rows[more[0]] = value
    try:
        Definition(table=dict(states), **given)
    except InvalidDefinition as invalid:
        return invalid.faults
    return ()


def test_the_definition_whose_parts_are_tried_is_right() -> None:
    """As it stands."""
    assert told() == ()


@pytest.mark.parametrize(("part", "value"), WRONG_PARTS)
def test_what_is_of_a_wrong_type_is_told_alone(part: Part, value: Any) -> None:
    """Nothing is judged that rests on it: no trap, no missing row, no unknown name that may well be there."""
    (fault,) = told((part, value))
    assert repr(value) in fault


def test_what_is_of_a_wrong_type_hides_nothing_else() -> None:
    """Of any two parts, each is told as it is told alone, but for states of which the sentence tells the whole."""
    whole = [(), ("name",), ("doc",)]
    alone = {part: (value, *told((part, value))) for part, value in WRONG_PARTS if part[1:] not in whole}
    alone |= {(name,): (5, *told(((name,), 5))) for name in ROUND}
    for (one, (value, *fault)), (other, (second, *more)) in itertools.combinations(alone.items(), 2):
        if one[:2] != other[:2] or (one[2:] and other[2:]):
            assert sorted(told((one, value), (other, second))) == sorted([*fault, *more])


WAITS, ENDS = State("r", "", lambda snapshot: ()), State("f", "It ends.", final="answered")
SILENT = "r: a state needs a doc, a sentence that a reviewer reads"
UNSAID = "its guard unexplained needs a docstring, a sentence that a reviewer reads"
GUARDED = "r: on Go the last row has a guard, so nothing is taken where no guard holds"


@pytest.mark.parametrize(
    ("initial", "table", "says"),
    [
        (
            None,
            {WAITS: [Row(Go, "nowhere", unexplained)], ENDS: []},
            [
                "initial must be the name of a state, not None",
                *(SILENT, GUARDED, "r/1: it leads to 'nowhere', which is none of the states", f"r/1: {UNSAID}"),
                "f: no row leads here",
            ],
        ),
        (
            "r",
            {WAITS: [Row(NAMED, "nowhere", unexplained), Row(Go, "f")], ENDS: []},
            [
                *(SILENT, "r/1: its event must be a class of events or None, not 'CancelPolled'"),
                *("r/1: it leads to 'nowhere', which is none of the states", f"r/1: {UNSAID}"),
            ],
        ),
        (
            "r",
            {WAITS: [Row(Go, NAMES, unexplained), Row(Go, "f")], ENDS: []},
            [SILENT, "r/1: it must lead to the name of a state, not to ['end']", f"r/1: {UNSAID}"],
        ),
        (
            None,
            [1],
            [
                "the table must be a mapping of each State to its rows, not [1]",
                "initial must be the name of a state, not None",
            ],
        ),
        (
            "r",
            {WAITS: [Row(NAMED, "f")], ENDS: []},
            [SILENT, "r/1: its event must be a class of events or None, not 'CancelPolled'"],
        ),
        (
            "r",
            {WAITS: [Row(Go, "f", unexplained), STRANGE], ENDS: [], 5: [Row(Go, "r", unexplained)]},
            [
                *(SILENT, f"r/1: {UNSAID}", "r/2: ('a', 'b') is no Row"),
                *("5 is no State with a name and a doc, both text", f"5/1: {UNSAID}"),
            ],
        ),
    ],
)
def test_what_does_not_rest_on_a_wrong_type_is_told_with_it(initial: Any, table: Any, says: list[str]) -> None:
    """Beside it, in the same row, and in the rest of the table."""
    assert faults(table, initial) == tuple(says)


def test_what_an_event_brings_is_told_without_a_table() -> None:
    """What it is called with is none of the table's matter; which states there are is."""
    hear: dict[Any, Any] = {"start": unexplained, 5: kept}
    with pytest.raises(InvalidDefinition) as caught:
        Definition("start", NONE, hear=hear)
    assert caught.value.faults == (
        "the table must be a mapping of each State to its rows, not None",
        "hear: start: its update unexplained needs a docstring, a sentence that a reviewer reads",
        "hear: 5 is neither the name of a state nor a class of events that a row takes",
    )


def test_a_fault_of_several_states_of_a_name_is_told_once() -> None:
    """And what rows of any of them lead to is reached."""
    one, other = State("more", "It waits.", wait), State("more", "It waits again.", wait)
    over = State("over", "It ends, too.", final="limit")
    table = {START: [Row(CancelPolled, "more")], one: [GO], other: [Row(CancelPolled, "over")], END: [], over: []}
    assert faults(table) == ("more: two states have this name",)


def test_what_is_no_state_may_be_the_end_that_is_missing() -> None:
    """Where a row leads to a name that it may have; what leads nowhere else is a trap, whatever its own name is."""
    over: Any = 5
    begins = [Row(CancelPolled, "round", due), Row(CancelPolled, "over")]
    turns, nameless = State("round", "It goes round.", wait), State(over, "It waits.", wait)
    back = [Row(CancelPolled, "round")]
    assert faults({START: begins, turns: back, nameless: back, over: []}) == (
        f"{nameless!r} is no State with a name and a doc, both text",
        "5 is no State with a name and a doc, both text",
        "round: a trap, no final state can be reached from here",
        "5: a trap, no final state can be reached from here",
    )


# --- why a row is first -----------------------------------------------------------------------------------


@pytest.mark.parametrize("because", ["", " ", " \n\t"])
def test_a_blank_reason_is_none(because: str) -> None:
    """The verifier asks for one where it is needed."""
    assert Row(CancelPolled, "end", first_because=because) == GO


def test_a_reason_is_kept_word_for_word() -> None:
    """With the blanks around it."""
    assert Row(CancelPolled, "end", first_because=" it is ").first_because == " it is "


# --- what a definition tells ------------------------------------------------------------------------------

SMALL = Definition("start", {START: (Row(CancelPolled, "start", due, kept), GO, Row(Resumed, "start")), END: ()})


def test_a_definition_tells_its_rows_by_number() -> None:
    """Rows are counted from 1 within their state, and found again by that name."""
    made = attrs.evolve(SMALL)
    numbered = [(row_id, state.name, row) for row_id, state, row in made.all_rows()]
    assert (numbered, [made.row(row_id) for row_id, _, _ in numbered], made.rows("end")) == (
        [(f"start/{number}", "start", row) for number, row in enumerate(SMALL.rows("start"), 1)],
        list(SMALL.rows("start")),
        (),
    )


def test_a_definition_tells_which_events_a_state_takes() -> None:
    """Each event is named once, in the order of the rows; a final and an auto state take none."""
    made, loop = attrs.evolve(SMALL), attrs.evolve(TOOL_LOOP)
    assert [made.accepts("start"), made.accepts("end"), loop.accepts("validating")] == [
        ("CancelPolled", "Resumed"),
        (),
        (),
    ]


def test_a_state_tells_what_it_is() -> None:
    """A rest is neither auto nor final; the status is the name without finished_."""
    states = [START, State("finished_late", "Late.", final="limit"), State("one", "It moves.", auto=True), END]
    assert [(state.rest, state.status) for state in states] == [
        (True, "start"),
        (False, "late"),
        (False, "one"),
        (False, "end"),
    ]


def test_a_row_tells_its_event() -> None:
    """The name of a row's event is blank in an auto state."""
    assert [GO.event_name, Row(None, "end").event_name] == ["CancelPolled", ""]


@pytest.mark.parametrize("part", [SMALL, START, GO], ids=lambda part: type(part).__name__)
def test_nobody_changes_a_definition(part: Any) -> None:
    """Every attribute of a definition, a state and a row is frozen."""
    for field in [*attrs.fields_dict(type(part)), "new"]:
        with pytest.raises(AttributeError):
            setattr(part, field, None)


def test_a_definition_takes_its_rows_by_value() -> None:
    """Lists that a definition was made of can change afterwards, and so can the mappings."""
    rows = [GO]
    given: dict[State, Any] = {START: rows, END: []}
    hear: dict[Any, Any] = {"start": kept}
    made = Definition("start", given, hear=hear)
    rows.clear()
    given.clear()
    hear.clear()
    assert (made.rows("start"), list(made.states), dict(made.hear)) == ((GO,), ["start", "end"], {"start": kept})


# --- one more row, one more state -------------------------------------------------------------------------

LATE = Row(CancelPolled, "start", due)


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_a_row_is_put_where_it_is_told(at: int) -> None:
    """The new row has the number given, those from there on move by one; the definition itself stays."""
    before, told = list(SMALL.rows("start")), Row(CancelRequested, "end")
    more = SMALL.with_row("start", told, at=at)
    assert (list(more.rows("start")), list(SMALL.rows("start"))) == (
        [*before[: at - 1], told, *before[at - 1 :]],
        before,
    )


@pytest.mark.parametrize("at", [-1, 0, 5, "2", 2.0, True, None])
def test_a_row_out_of_range_is_refused(at: Any) -> None:
    """The sentence says which numbers there are."""
    with pytest.raises(InvalidDefinition, match=rf"start: a new row can be number 1 to 4, not {at!r}$"):
        SMALL.with_row("start", LATE, at=at)


def test_a_row_of_no_state_is_refused() -> None:
    """A row for a state that is not there is an error that names the state, and those that are there."""
    with pytest.raises(InvalidDefinition) as caught:
        SMALL.with_row("strat", LATE, at=1)
    assert caught.value.faults == ("strat: there is no such state; there are start, end",)


def test_a_row_that_makes_the_table_wrong_is_refused() -> None:
    """A new row is checked as every row is."""
    with pytest.raises(InvalidDefinition, match="a row stands after the one without a guard"):
        SMALL.with_row("start", LATE, at=3)


def late(snapshot: Snapshot, event: Event) -> bool:
    """It is late."""
    return event.at >= 5


ENOUGH = State("finished_enough", "Enough was said.", final="limit")


def test_a_state_and_a_row_that_leads_there_make_a_rule() -> None:
    """A user's own end is reached by a user's own row, and nothing else of the loop changes."""
    mine = TOOL_LOOP.with_state(ENOUGH).with_row("admitting", Row(None, "finished_enough", late), at=1)
    run = brought(asks(call()), budget=Budget(max_seconds=5.0))
    assert [walk(run, polled(at=at), definition=mine)[1][0][:2] for at in (4.0, 5.0)] == [
        ("dispatching", "rechecking_cancel/2 validating/9 admitting/11 collecting/2"),
        ("finished_enough", "rechecking_cancel/2 validating/9 admitting/1"),
    ]


def test_several_states_are_reached_by_several_rows() -> None:
    """Each state waits for its own row; the definition can be run when the last one has come."""
    more = State("finished_more", "More was said.", final="fault")
    half = TOOL_LOOP.with_state(ENOUGH).with_state(more).with_row("admitting", Row(None, "finished_enough", late), at=1)
    with pytest.raises(InvalidDefinition) as caught:
        build(half)
    whole = half.with_row("admitting", Row(None, "finished_more", late), at=1)
    assert (caught.value.faults, list(build(whole).states)) == (
        ("finished_more: no row leads here yet",),
        [*TOOL_LOOP.states, "finished_enough", "finished_more"],
    )


def test_a_definition_with_an_unreached_state_is_not_run() -> None:
    """A state to which no row leads yet can be defined, but neither built nor advanced."""
    half = TOOL_LOOP.with_state(ENOUGH)
    told = []
    for use in (lambda: build(half), lambda: walk(brought(asks(call())), polled(), definition=half)):
        with pytest.raises(InvalidDefinition) as caught:
            use()
        told.append(caught.value.faults)
    assert told == [("finished_enough: no row leads here yet",)] * 2


def test_a_state_that_is_there_is_not_added() -> None:
    """A second state of a name is refused at once."""
    with pytest.raises(InvalidDefinition, match="start: there is a state of this name already"):
        SMALL.with_state(State("start", "It begins again.", wait), [GO])


def test_a_new_state_is_checked() -> None:
    """A state that is added has to be right in itself, though nothing leads there yet."""
    with pytest.raises(InvalidDefinition, match="a trap, it has no rows and is not final"):
        SMALL.with_state(State("stuck", "It stays.", wait))


def test_a_new_rest_comes_with_its_rows() -> None:
    """A state with rows of its own is added whole."""
    paused = State("paused", "It waits.", wait)
    more = SMALL.with_state(paused, [GO]).with_row("start", Row(CancelPolled, "paused", due), at=1)
    assert [(step[0], step[1]) for step in steps(more, polled(at=2.0), polled())] == [
        ("paused", "start/1"),
        ("end", "paused/1"),
    ]


def test_a_new_rest_may_hear() -> None:
    """As those of the table do: in a further state that waits for a person, too, time does not count."""
    second = State("awaiting_second", "Somebody is to agree.", wait)
    rows = [Row(CancelPolled, "checking_budget"), Row(Resumed, "awaiting_second")]
    silent = TOOL_LOOP.with_state(second, rows)
    hearing = TOOL_LOOP.with_state(second, rows, hear=updates.discount_wait)
    seconds = []
    for definition in (silent, hearing):
        waits = definition.with_row("checking_cancel", Row(CancelPolled, "awaiting_second", late), at=2)
        seconds.append(walk(Snapshot(state="awaiting_second"), polled(at=9.0), definition=waits)[0].spend.seconds)
    assert (seconds, hearing.hear.keys() - silent.hear.keys()) == ([9.0, 0.0], {"awaiting_second"})


def steps(definition: Definition, *events: Event) -> list[Any]:
    """What a run of the small table does."""
    return walk(BaseSnapshot(state="start"), *events, definition=definition)[1]


def test_functions_of_this_file_do_what_they_say() -> None:
    """Functions that only stand in tables behave all the same."""
    start = BaseSnapshot(state="start")
    assert (unexplained(start, polled()), Callable()(start, polled())) == (False, False)
    assert (kept(start, polled()), kept_too(start, polled())) == (start, start)


def test_a_definition_says_in_a_word_what_it_is() -> None:
    """Not with all its rows."""
    assert repr(TOOL_LOOP) == "<Definition of 25 states, from checking_cancel>"


NO_STATE = "'CancelPolled' is no State with a name and a doc, both text"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: TOOL_LOOP.with_row("admitting", STRANGE, at=1), ["admitting/1: ('a', 'b') is no Row"]),
        (lambda: TOOL_LOOP.with_state(NAMED), ["'CancelPolled' is no State"]),
        (lambda: Definition("CancelPolled", {NAMED: []}), [NO_STATE]),
        (
            lambda: Definition("CancelPolled", {NAMED: [GO, STRANGE]}),
            [NO_STATE, "CancelPolled/2: ('a', 'b') is no Row"],
        ),
        (
            lambda: Definition("a", {State("a", NONE, asks=nothing): [STRANGE, GO]}),
            [
                f"{State('a', NONE, asks=nothing)!r} is no State with a name and a doc, both text",
                "a/1: ('a', 'b') is no Row",
                "a/2: it leads to 'end', which is none of the states",
            ],
        ),
        (
            lambda: Definition("a", {State("a", "It waits.", asks=nothing): [STRANGE, Row(Go, "nowhere")]}),
            ["a/1: ('a', 'b') is no Row", "a/2: it leads to 'nowhere', which is none of the states"],
        ),
        (
            lambda: TOOL_LOOP.with_row("admitting", Row(NAMED, "collecting"), at=1),
            ["admitting/1: its event must be a class of events or None, not 'CancelPolled'"],
        ),
    ],
)
def test_what_is_no_state_and_no_row_is_refused(make: Any, says: list[str]) -> None:
    """By its place, and with it what is wrong with the rest."""
    with pytest.raises(InvalidDefinition) as caught:
        make()
    assert list(caught.value.faults) == says


def test_two_classes_of_events_of_one_name_are_refused() -> None:
    """Events are told apart by their names."""
    other = type("Go", (), {})
    start, end = State("a", "It waits.", asks=nothing), State("b", "It ended.", final="answered")
    with pytest.raises(InvalidDefinition) as caught:
        Definition("a", {start: [Row(Go, "b"), Row(other, "b")], end: []})
    assert caught.value.faults == ("Go: two classes of events have this name",)
