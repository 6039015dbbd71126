"""One event taken by a machine: what is taken, what is refused, and that transitions executes it."""

from __future__ import annotations

import copy
import gc
import itertools
import math
import pickle
import re
import weakref
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import attrs
import pytest

from loopmachine.definition import Definition, Row, State
from loopmachine.errors import InvalidDefinition, ReplayDiverged, UnexpectedEvent
from loopmachine.events import CancelPolled, Event
from loopmachine.machine import advance, build, engine, live, outstanding, replay
from loopmachine.records import RUNNING, BaseSnapshot, Snapshot
from loopmachine.requests import PollCancel, Request
from loopmachine.table import TOOL_LOOP
from tests.facts import (
    AT,
    EVENTS,
    approved,
    asked,
    asks,
    begun,
    call,
    failed,
    flight,
    flying,
    lost,
    malformed,
    polled,
    replied,
    resolved,
    result,
    resumed,
    returned,
    snapshot,
    walk,
    word,
)

# --- every state and every event --------------------------------------------------------------------------

#: The events that each state takes, in the words of the design; the states that are not here take none.
TAKES = {
    "checking_cancel": "CancelPolled Resumed",
    "awaiting_model": "ModelReplied ModelFailed CancelRequested Resumed",
    "rechecking_cancel": "CancelPolled Resumed",
    "dispatching": "CallReturned CallLost CancelPolled CancelRequested Resumed",
    "awaiting_approval": "ApprovalGiven CancelRequested Resumed",
    "awaiting_resolution": "CallsResolved CancelRequested Resumed",
}
STARTS = {**{state: snapshot(state) for state in TOOL_LOOP.states}, **AT}
GRID = [
    pytest.param(start, event, id=f"{state}-{kind}")
    for state, start in STARTS.items()
    for kind, event in EVENTS.items()
]


def refusal(start: Snapshot, event: Event) -> UnexpectedEvent | None:
    """Why the machine does not take an event; None where it does."""
    try:
        advance(TOOL_LOOP, start, event)
    except UnexpectedEvent as refused:
        return refused
    return None


def told(start: Snapshot, event: Event) -> tuple[Any, ...]:
    """What a refusal has to tell of a state and an event."""
    accepted = tuple(TAKES.get(start.state, "").split())
    return start.state, event, accepted, f"{start.state} does not take this {type(event).__name__}"


@pytest.mark.parametrize(("start", "event"), GRID)
def test_every_state_takes_an_event_or_says_what_it_takes(start: Snapshot, event: Event) -> None:
    """Each pair of a state and an event is a row, or UnexpectedEvent with state, event and the events accepted."""
    before, takes = pickle.dumps(start), type(event).__name__ in TAKES.get(start.state, "").split()
    refused = refusal(start, event)
    said = refused and (refused.state, refused.event, refused.accepted, re.split("[:;]", str(refused))[0])
    assert (said, pickle.dumps(start)) == (None if takes else told(start, event), before)


@pytest.mark.parametrize("start", [start for state, start in STARTS.items() if state in TAKES], ids=list(TAKES))
def test_a_rest_has_an_outstanding_request(start: Snapshot) -> None:
    """A state that is neither auto nor final waits for something."""
    assert outstanding(TOOL_LOOP, start) != ()


@pytest.mark.parametrize("state", [state for state in STARTS if state not in TAKES])
def test_only_a_rest_has_an_outstanding_request(state: str) -> None:
    """An auto and a final state ask nothing."""
    assert outstanding(TOOL_LOOP, STARTS[state]) == ()


STRANGE = object()
RUNS_ONE = flying(flight(RUNNING), flight("answered", 1), flight("queued", 2), flight("lost", 3, 1))


@pytest.mark.parametrize(
    ("start", "event", "why"),
    [
        (RUNS_ONE, returned(call(1)), "(1, 1)] are not among the calls that are running"),
        (RUNS_ONE, returned(call(2)), "(1, 2)] are not among the calls that are running"),
        (RUNS_ONE, returned(call(3)), "(1, 3)] are not among the calls that are running"),
        (RUNS_ONE, returned(call(4)), "(1, 4)] are not among the calls that are running"),
        (RUNS_ONE, returned(call(step=2)), "(2, 0)] are not among the calls that are running"),
        (RUNS_ONE, returned(call(id="x")), "(1, 0) is the call 'c1_0' of look, not (1, 0) 'x' of look"),
        (RUNS_ONE, lost(call(1)), "(1, 1)] are not among the calls that are running"),
        (RUNS_ONE, lost(call(-1)), "(1, -1)] are not among the calls that are running"),
        (flying(flight()), returned(call()), "nothing that is asked for waits for it"),
        (flying(flight(RUNNING)), polled(), "nothing that is asked for waits for it"),
        (AT["awaiting_approval"], approved(), "it decides nothing"),
        (AT["awaiting_approval"], approved(call(), call()), "it names a call twice"),
        (AT["awaiting_approval"], approved(call(1)), "(1, 1)] are not among the calls that are undecided"),
        (AT["awaiting_resolution"], resolved(), "it decides nothing"),
        (AT["awaiting_resolution"], resolved(word(call()), word(call())), "it names a call twice"),
        (AT["awaiting_resolution"], resolved(word(call(1))), "(1, 1)] are not among the calls that are lost"),
        (AT["awaiting_resolution"], resolved(word(call(), result=result(call(1)))), "brings another call's result"),
        (asked(), replied(asks(call(step=2))), "call 0 is of step 2, place 0, not of step 1, place 0"),
        (asked(), replied(asks(call(1))), "call 0 is of step 1, place 1, not of step 1, place 0"),
        (asked(), replied(asks(call(), call())), "call 1 is of step 1, place 0, not of step 1, place 1"),
        (begun(), STRANGE, "nothing that is asked for waits for it"),
    ],
)
def test_an_answer_to_nothing_that_was_asked_is_refused(start: Snapshot, event: Any, why: str) -> None:
    """The sentence says what is waited for, and nothing changed."""
    before = pickle.dumps(start)
    refused = refusal(start, event)
    assert (why in str(refused), pickle.dumps(start)) == (True, before)


@pytest.mark.parametrize("at", [math.nan, math.inf, -math.inf, "6", True, Decimal(6), Fraction(6), None])
@pytest.mark.parametrize("state", TAKES)
def test_a_time_that_is_none_is_refused(state: str, at: Any) -> None:
    """An event at no finite time is a ValueError that names the event, and changes nothing."""
    before = copy.deepcopy(STARTS[state])
    with pytest.raises(
        ValueError, match=rf"^Resumed: at must be a finite number of seconds, not {re.escape(repr(at))}$"
    ):
        advance(TOOL_LOOP, STARTS[state], resumed(at=at))
    assert STARTS[state] == before


def test_whole_seconds_are_a_time() -> None:
    """A clock may count them."""
    assert advance(TOOL_LOOP, begun(), polled(at=6)).snapshot.clock == 6


# --- what an advance is -----------------------------------------------------------------------------------


def test_an_advance_is_the_next_snapshot_the_rows_and_the_requests() -> None:
    """The snapshot given stays, the next one has state, clock, event and rows; the event itself is told again."""
    start, event = begun(clock=1.0), polled(at=2.0)
    advanced = advance(TOOL_LOOP, start, event)
    rows = ("checking_cancel/2", "checking_budget/7")
    assert (advanced.snapshot, advanced.rows, advanced.event, advanced.requests, start) == (
        begun(state="awaiting_model", clock=2.0, steps=1, log=start.log.append(event, rows)),
        rows,
        event,
        outstanding(TOOL_LOOP, advanced.snapshot),
        begun(clock=1.0),
    )


@pytest.mark.parametrize(("at", "clock"), [(4.0, 5.0), (5.0, 5.0), (6.0, 6.0), (-1e9, 5.0)])
def test_the_clock_is_the_latest_time(at: float, clock: float) -> None:
    """An event from before does not put the clock back."""
    assert advance(TOOL_LOOP, begun(clock=5.0), polled(at=at)).snapshot.clock == clock


def test_the_same_events_lead_to_the_same_snapshot() -> None:
    """Nothing but the snapshot and the events decides, and a snapshot can have two futures."""
    events = [polled(at=1.0), replied(asks(call()), at=2.0), polled(at=3.0), returned(call(), at=4.0)]
    one, other = walk(begun(), *events), walk(begun(), *copy.deepcopy(events))
    middle, _ = walk(begun(), *events[:2])
    assert (one, pickle.dumps(one[0]), walk(middle, *events[2:])[0], walk(middle, polled(True))[0].state) == (
        other,
        pickle.dumps(other[0]),
        one[0],
        "finished_cancelled",
    )


def test_nobody_changes_an_advance() -> None:
    """Every attribute of an advance is frozen."""
    advanced = advance(TOOL_LOOP, begun(), polled())
    for name in ("snapshot", "rows", "event", "requests", "new"):
        with pytest.raises(AttributeError):
            setattr(advanced, name, None)


# --- a table that knows nothing of tool calls -------------------------------------------------------------


@attrs.frozen
class Coin(Event):
    """Somebody pays."""

    answers: ClassVar[bool] = True
    worth: int
    at: float = attrs.field(default=0.0, kw_only=True)


@attrs.frozen
class Push(Event):
    """Somebody pushes."""

    at: float = attrs.field(default=0.0, kw_only=True)


@attrs.frozen
class AskCoin(Request):
    """Pay."""

    answered_by: ClassVar[tuple[type[Event], ...]] = (Coin,)
    price: int

    def misfit(self, event: Any) -> str:
        return "" if event.worth >= self.price else f"it costs {self.price}"


@attrs.frozen(slots=False, kw_only=True)
class Passage(BaseSnapshot):
    """What a turnstile knows."""

    passed: int = 0


def price(passage: Passage) -> tuple[AskCoin, ...]:
    """A coin of 2."""
    return (AskCoin(2),)


def nothing(passage: Passage) -> tuple[PollCancel, ...]:
    """Anybody who looks."""
    return (PollCancel(),)


def full(passage: Passage, event: Event) -> bool:
    """Two have passed."""
    return passage.passed >= 2


def one_more(passage: Passage, event: Event) -> Passage:
    """Count who passes."""
    return passage.but(passed=passage.passed + 1)


TURNSTILE = Definition(
    "locked",
    {
        State("locked", "Nobody passes.", price): (Row(Coin, "open"), Row(Push, "locked")),
        State("open", "Somebody may pass.", nothing): (Row(Push, "counting", update=one_more),),
        State("counting", "Who passed is counted.", auto=True): (Row(None, "closed", full), Row(None, "locked")),
        State("closed", "It is full.", final="answered"): (),
    },
)


def test_any_table_is_run() -> None:
    """A user's own states, events and requests are run as the library's are."""
    start = Passage(state="locked")
    end, steps = walk(start, Coin(2), Push(), Push(), Coin(3), Push(), definition=TURNSTILE)
    assert (steps, end, start) == (
        [
            ("open", "locked/1", (PollCancel(),)),
            ("locked", "open/1 counting/2", (AskCoin(2),)),
            ("locked", "locked/2", ()),
            ("open", "locked/1", (PollCancel(),)),
            ("closed", "open/1 counting/1", ()),
        ],
        start.but(state="closed", passed=2, log=end.log),
        Passage(state="locked"),
    )


@pytest.mark.parametrize(
    ("state", "event", "said"),
    [
        ("locked", Coin(1), "locked does not take this Coin: it costs 2; it accepts Coin, Push"),
        ("open", Coin(2), "open does not take this Coin: nothing that is asked for waits for it; it accepts Push"),
        ("closed", Push(), "closed does not take this Push; it accepts no event"),
        ("locked", resumed(), "locked does not take this Resumed; it accepts Coin, Push"),
    ],
)
def test_any_table_refuses_what_it_does_not_take(state: str, event: Event, said: str) -> None:
    """The sentence has the reason where there is one, and the user's own words."""
    with pytest.raises(UnexpectedEvent) as caught:
        advance(TURNSTILE, Passage(state=state), event)
    assert str(caught.value) == said


KEPT = Passage(state="locked", passed=7)


def put_back(passage: Passage, event: Event) -> Passage:
    """Go back to a passage that was kept."""
    return KEPT


def test_an_update_may_return_a_snapshot_that_somebody_keeps() -> None:
    """What an update returns is not changed by the machine that goes on from it."""
    table = {
        State("locked", "Nobody passes.", price): (Row(Coin, "closed", update=put_back),),
        State("closed", "It is full.", final="answered"): (),
    }
    after = advance(Definition("locked", table), Passage(state="locked"), Coin(2)).snapshot
    assert (after.state, after.passed, KEPT) == ("closed", 7, Passage(state="locked", passed=7))


# --- replay -----------------------------------------------------------------------------------------------

EVENTS_TAKEN = (polled(), replied(malformed()), polled())
ROWS_TAKEN = ("checking_cancel/2", "checking_budget/7", "awaiting_model/1", "rechecking_cancel/2", "validating/7")


@pytest.mark.parametrize("rows", [None, ROWS_TAKEN, list(ROWS_TAKEN)])
def test_replaying_the_events_of_a_run_leads_to_its_snapshot(rows: Any) -> None:
    """The rows that were taken are taken again, whether they are compared or not."""
    end, _ = walk(begun(), *EVENTS_TAKEN)
    assert (replay(TOOL_LOOP, begun(), end.events, rows), end.rows, replay(TOOL_LOOP, begun(), [])) == (
        end,
        ROWS_TAKEN,
        begun(),
    )


NOT_TAKEN = (
    "awaiting_model does not take this CancelPolled: nothing that is asked for waits for it; "
    "it accepts ModelReplied, ModelFailed, CancelRequested, Resumed"
)


@pytest.mark.parametrize(
    ("events", "rows", "where", "has", "gives"),
    [
        ([polled(), failed()], ROWS_TAKEN, "1, ModelFailed", "the rows awaiting_model/1", "the rows awaiting_model/2"),
        ([polled(), polled()], ROWS_TAKEN, "1, CancelPolled", "the rows awaiting_model/1", NOT_TAKEN),
        ([polled(), polled()], None, "1, CancelPolled", "an event taken", NOT_TAKEN),
        (
            EVENTS_TAKEN,
            ROWS_TAKEN[:-1],
            "2, CancelPolled",
            "the rows rechecking_cancel/2",
            "the rows rechecking_cancel/2, validating/7",
        ),
        (
            EVENTS_TAKEN,
            ROWS_TAKEN[:3],
            "2, CancelPolled",
            "the rows none",
            "the rows rechecking_cancel/2, validating/7",
        ),
        (
            (*EVENTS_TAKEN, polled()),
            ROWS_TAKEN,
            "3, CancelPolled",
            "the rows none",
            "finished_malformed does not take this CancelPolled: nothing that is asked for waits for it; "
            "it accepts no event",
        ),
        (
            EVENTS_TAKEN[:-1],
            ROWS_TAKEN,
            "2, the end",
            "the rows rechecking_cancel/2, validating/7",
            "no more events",
        ),
        ([], ROWS_TAKEN[:1], "0, the end", "the rows checking_cancel/2", "no more events"),
        ([polled(True)], ROWS_TAKEN, "0, CancelPolled", "the rows checking_cancel/2", "the rows checking_cancel/1"),
    ],
)
def test_a_record_that_does_not_fit_is_refused(events: Any, rows: Any, where: str, has: str, gives: str) -> None:
    """The error names the first event that differs, what the record has there, and what the table gives."""
    with pytest.raises(ReplayDiverged) as caught:
        replay(TOOL_LOOP, begun(), events, rows)
    assert (str(caught.value), caught.value.place) == (
        f"event {where}, does not fit: the record has {has}, this definition gives {gives}",
        int(where[0]),
    )


def test_a_definition_that_is_not_ready_has_no_machine() -> None:
    """A state that no row leads to is named when somebody builds the machine."""
    half = TURNSTILE.with_state(State("broken", "It fell.", final="fault"))
    for use in (live, build):
        with pytest.raises(InvalidDefinition, match="broken: no row leads here yet"):
            use(half)


# --- what a user's own functions do wrong -------------------------------------------------------------------


def fails(snapshot: Any, event: Any) -> Any:
    """Raises."""
    raise ZeroDivisionError("by nothing")


def forgets(snapshot: Any, event: Any) -> Any:
    """Returns nothing."""


def fives(snapshot: Any, event: Any) -> Any:
    """Returns what is no snapshot."""
    return 5


@pytest.mark.parametrize(
    "row", [Row(CancelPolled, "finished_stuck", fails), Row(CancelPolled, "checking_budget", None, fails)]
)
def test_what_a_guard_or_an_update_raises_names_its_row(row: Row) -> None:
    """As a note; the error is the one that it raised."""
    rows = [row, *TOOL_LOOP.rows("checking_cancel")] if row.guard else [row, TOOL_LOOP.rows("checking_cancel")[2]]
    table = {**TOOL_LOOP.table, TOOL_LOOP.states["checking_cancel"]: rows}
    with pytest.raises(ZeroDivisionError) as caught:
        advance(attrs.evolve(TOOL_LOOP, table=table), begun(), polled())
    assert caught.value.__notes__ == ["raised by the guard or the update of checking_cancel/1; nothing has changed"]


class Passer:
    """Has fields, and is no snapshot."""

    def __repr__(self) -> str:
        return "a passer"


def passes(snapshot: Any, event: Any) -> Any:
    """Returns somebody."""
    return Passer()


@pytest.mark.parametrize(("update", "made"), [(forgets, None), (fives, 5), (passes, "a passer")])
def test_an_update_that_returns_no_snapshot_is_named(update: Any, made: Any) -> None:
    """By the rows that were taken."""
    table = {
        State("locked", "Nobody passes.", price): (Row(Coin, "counting"),),
        State("counting", "Who passed is counted.", auto=True): (Row(None, "closed", update=update),),
        State("closed", "It is full.", final="answered"): (),
    }
    with pytest.raises(TypeError) as caught:
        advance(Definition("locked", table), Passage(state="locked"), Coin(2))
    expected = f"an update must return a snapshot, not {made}; the rows taken were locked/1, counting/1"
    assert str(caught.value) == expected


def looks(snapshot: Any, event: Any) -> bool:
    """Looks at the snapshot."""
    return bool(snapshot.state)


def goes(update: Any = None, hear: Any = None, then: Any = None) -> Definition:
    """A table whose first rows have these updates, and whose third has a guard that looks at what they made."""
    table = {
        State("locked", "Nobody passes.", price): (Row(Coin, "passing", update=update),),
        State("passing", "Somebody passes.", auto=True): (Row(None, "counting", looks, then), Row(None, "closed")),
        State("counting", "Who passed is counted.", auto=True): (Row(None, "closed", looks), Row(None, "closed")),
        State("closed", "It is full.", final="answered"): (),
    }
    return Definition("locked", table, hear={"locked": hear} if hear else {})


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        (goes(update=forgets), "an update must return a snapshot, not None; the rows taken were locked/1"),
        (goes(update=fives), "an update must return a snapshot, not 5; the rows taken were locked/1"),
        (goes(then=forgets), "an update must return a snapshot, not None; the rows taken were locked/1, passing/1"),
    ],
)
def test_what_is_no_snapshot_is_blamed_on_who_made_it(definition: Definition, said: str) -> None:
    """Not on the guard or the update that looked at it next, whose error is the cause."""
    with pytest.raises(TypeError) as caught:
        advance(definition, Passage(state="locked"), Coin(2))
    assert (str(caught.value), type(caught.value.__cause__)) == (said, AttributeError)


def test_a_hear_that_returns_no_snapshot_is_named() -> None:
    """Before a guard looks at it."""
    with pytest.raises(TypeError) as caught:
        advance(goes(hear=forgets), Passage(state="locked"), Coin(2))
    assert str(caught.value) == "hear must return a snapshot, not None"


def test_what_hear_raises_names_it() -> None:
    """As a note, as of a guard or an update."""
    with pytest.raises(ZeroDivisionError) as caught:
        advance(goes(hear=fails), Passage(state="locked"), Coin(2))
    assert caught.value.__notes__ == ["raised by hear; nothing has changed"]


class Unwritable(Exception):
    """An error that nothing can be added to."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(name)


ONE_ERROR = ZeroDivisionError("the same each time")


def fails_alike(snapshot: Any, event: Any) -> Any:
    """Raises one error, over and over."""
    raise ONE_ERROR


def fails_for_good(snapshot: Any, event: Any) -> Any:
    """Raises what can't be written to."""
    raise Unwritable


class Odd(Exception):
    """An error whose notes are none."""

    __notes__: Any = None


class Shy(Exception):
    """An error that may not be asked for its notes."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


@pytest.mark.parametrize("error", [Odd, Shy])
def test_an_error_whose_notes_are_odd_is_raised_as_it_is(error: type[Exception]) -> None:
    """What is wrong with the notes hides nothing."""

    def raises(snapshot: Any, event: Any) -> Any:
        """Raises."""
        raise error("mine")

    raised: list[Any] = []
    try:
        advance(goes(raises), Passage(state="locked"), Coin(2))
    except error as caught:  # pytest itself would ask for the notes
        raised.append(caught.args)
    assert raised == [("mine",)]


class Fussy(Request):
    """A request that can't say what fits it."""

    answered_by = (Coin,)

    def misfit(self, event: Any) -> str:
        raise ZeroDivisionError


def test_what_asks_and_misfit_raise_names_them() -> None:
    """As a note, as of a guard or an update; what the machine itself refuses has none."""
    with pytest.raises(ZeroDivisionError) as of_asks:
        advance(asking(lambda snapshot: (1 / 0,)), Passage(state="locked"), Coin(2))
    with pytest.raises(ZeroDivisionError) as of_misfit:
        engine(attrs.evolve(TURNSTILE)).take(Passage(state="locked"), Coin(2), (Fussy(),))
    with pytest.raises(UnexpectedEvent) as refused:
        engine(attrs.evolve(TURNSTILE)).take(Passage(state="locked"), Coin(2), ())
    assert [of_asks.value.__notes__, of_misfit.value.__notes__, getattr(refused.value, "__notes__", [])] == [
        ["raised by asks; nothing has changed"],
        ["raised by misfit; nothing has changed"],
        [],
    ]


@pytest.mark.parametrize("at", [math.nan, math.inf, "now", None])
def test_a_time_that_is_none_is_refused_the_first_time(at: Any) -> None:
    """By a machine that took nothing yet, as by any."""
    with pytest.raises(ValueError, match=r"^CancelPolled: at must be a finite number of seconds, not "):
        advance(attrs.evolve(TOOL_LOOP), begun(), CancelPolled(False, at=at))


def far(**updates: Any) -> Definition:
    """A table whose event leads through 25 auto states, some of which have these updates."""
    passes = {
        State(f"auto_{n}", "On the way.", auto=True): (
            Row(None, f"auto_{n + 1}" if n < 24 else "closed", update=updates.get(f"auto_{n}")),
        )
        for n in range(25)
    }
    table = {
        State("locked", "Nobody passes.", price): (Row(Coin, "auto_0"),),
        **passes,
        State("closed", "It is full.", final="answered"): (),
    }
    return Definition("locked", table)


def test_what_is_raised_far_away_names_its_row() -> None:
    """As what is raised nearby."""
    with pytest.raises(ZeroDivisionError) as caught:
        advance(far(auto_22=fails), Passage(state="locked"), Coin(2))
    assert caught.value.__notes__ == ["raised by the guard or the update of auto_22/1; nothing has changed"]


def test_an_update_far_away_that_returns_no_snapshot_is_named() -> None:
    """By all the rows that were taken, however many they are."""
    with pytest.raises(TypeError) as caught:
        advance(far(auto_22=forgets), Passage(state="locked"), Coin(2))
    rows = ", ".join(["locked/1", *(f"auto_{n}/1" for n in range(25))])
    assert str(caught.value) == f"an update must return a snapshot, not None; the rows taken were {rows}"


def test_a_note_is_written_once_and_where_it_can_be() -> None:
    """One error that is raised again and again has one note; one that takes none is raised as it is."""
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            advance(goes(fails_alike), Passage(state="locked"), Coin(2))
    with pytest.raises(Unwritable):
        advance(goes(fails_for_good), Passage(state="locked"), Coin(2))
    assert ONE_ERROR.__notes__ == ["raised by the guard or the update of locked/1; nothing has changed"]


def test_a_snapshot_class_with_slots_is_refused() -> None:
    """A copy would lose what they hold; it is told when the class is made, and how it is made right."""
    said = r"^Slotted: a snapshot has no slots; write @attrs\.frozen\(slots=False, kw_only=True\)$"
    with pytest.raises(TypeError, match=said):

        @attrs.frozen(kw_only=True)
        class Slotted(BaseSnapshot):
            coins: int = 0


def test_a_snapshot_class_with_a_but_of_its_own_is_refused() -> None:
    """The machine would not call it: between two rests it changes a draft in place. From a mixin it is no other."""
    said = r"^Counting\.but: what a snapshot is copied with can't be another; name yours otherwise$"

    class Counts:
        def but(self, /, **changes: Any) -> Any:
            """Another one."""

    for bases in ((BaseSnapshot,), (Counts, BaseSnapshot)):
        with pytest.raises(TypeError, match=said):
            type("Counting", bases, {"but": Counts.but} if len(bases) == 1 else {})


def test_the_classes_of_drafts_go_with_what_they_were_made_for() -> None:
    """A definition and its class of snapshots that nobody holds any more are kept alive by no draft."""

    def used() -> list[weakref.ref[Any]]:
        own = attrs.frozen(slots=False, kw_only=True)(type("Own", (Passage,), {}))
        definition = attrs.evolve(TURNSTILE)
        taken = advance(definition, own(state="locked"), Coin(2))
        return [weakref.ref(one) for one in (own, definition, taken.snapshot)]

    gone = used()
    gc.collect()
    assert [one() for one in gone] == [None] * 3


def test_a_snapshot_class_that_keeps_what_it_worked_out_is_refused() -> None:
    """A copy with other fields would show it still."""
    said = r"^Keeping\.double: a copy would keep what this one found; write @property$"
    with pytest.raises(TypeError, match=said):

        @attrs.frozen(slots=False, kw_only=True)
        class Keeping(BaseSnapshot):
            double = cached_property(repr)


class Tick:
    """An event of a class that has nothing to do with those of the library."""

    at = 1.0


def test_an_event_may_be_of_any_class() -> None:
    """One that does not say that it answers something is taken unasked."""
    table = {
        State("waiting", "It waits.", price): (Row(Tick, "over"),),
        State("over", "It is over.", final="answered"): (),
    }
    assert advance(Definition("waiting", table), Passage(state="waiting"), Tick()).rows == ("waiting/1",)


def listed(snapshot: Any) -> Any:
    """What is to be done, in a list."""
    return [AskCoin(2)]


def silent(snapshot: Any) -> Any:
    """Says nothing."""
    return None


def asking(asks: Any) -> Definition:
    """A table whose second rest asks in this way."""
    table = {
        State("locked", "Nobody passes.", price): (Row(Coin, "waiting"),),
        State("waiting", "It waits.", asks): (Row(Coin, "over"),),
        State("over", "It is over.", final="answered"): (),
    }
    return Definition("locked", table)


def test_what_a_state_asks_is_kept_in_a_tuple() -> None:
    """Whatever holds it when a state's function returns it."""
    first = advance(asking(listed), Passage(state="locked"), Coin(2))
    assert (first.asking, advance(asking(listed), first.snapshot, Coin(2)).rows) == ((AskCoin(2),), ("waiting/1",))


def test_a_state_that_asks_what_is_no_request_is_named() -> None:
    """When the machine gets there, and where it stands already."""
    said = "(?m)^waiting: its asks must return the requests, a tuple, not None$"
    with pytest.raises(TypeError, match=said):
        advance(asking(silent), Passage(state="locked"), Coin(2))
    with pytest.raises(TypeError, match=said):
        outstanding(asking(silent), Passage(state="waiting"))


def test_a_state_that_asks_something_else_is_named() -> None:
    """When the machine gets there, and where it stands already, or is said to ask it."""
    worded = asking(lambda snapshot: ("please pay",))
    said = r"(?m)^waiting: its asks must return the requests, a tuple, not \('please pay',\)$"
    with pytest.raises(TypeError, match=said):
        engine(worded).take(Passage(state="locked"), Coin(2), (AskCoin(2),))
    with pytest.raises(TypeError, match=said):
        outstanding(worded, Passage(state="waiting"))
    with pytest.raises(TypeError, match=said):
        engine(worded).take(Passage(state="waiting"), Coin(2), ("please pay",))


@pytest.mark.parametrize(
    ("snapshot", "error", "said"),
    [
        (None, TypeError, "snapshot must be a snapshot, such as loop.snapshot, not None"),
        (
            Passage(state="nowhere"),
            ValueError,
            "the snapshot stands in 'nowhere', which is no state of this definition",
        ),
    ],
)
def test_what_is_no_snapshot_of_a_definition_is_refused(snapshot: Any, error: type[Exception], said: str) -> None:
    """Before anything is asked of it."""
    for use in (
        lambda: advance(TURNSTILE, snapshot, Coin(2)),
        lambda: outstanding(TURNSTILE, snapshot),
        lambda: replay(TURNSTILE, snapshot, [Coin(2)]),
    ):
        with pytest.raises(error, match=f"^{re.escape(said)}$"):
            use()


@attrs.frozen
class Timeless:
    """An event that tells no time."""

    by: int = 1


def test_an_event_without_a_time_is_refused() -> None:
    """It names the field that it lacks."""
    table = {
        State("waiting", "It waits.", price): (Row(Timeless, "over"),),
        State("over", "It is over.", final="answered"): (),
    }
    with pytest.raises(TypeError, match=r"^Timeless has no field at, the time in seconds, which every event tells$"):
        advance(Definition("waiting", table), Passage(state="waiting"), Timeless())


@pytest.mark.parametrize(("at", "told"), [(10**400, str(10**400)), (10**5000, "<int>")], ids=["long", "endless"])
def test_a_whole_number_that_is_no_finite_float_is_no_time(at: int, told: str) -> None:
    """It could not be added to a clock, and the longest can't be written."""
    with pytest.raises(ValueError, match=f"^CancelPolled: at must be a finite number of seconds, not {told}$"):
        advance(TOOL_LOOP, begun(), CancelPolled(False, at=at))


def test_a_record_that_ends_elsewhere_is_refused() -> None:
    """Of the last row taken only the state tells where it led."""
    events, rows = EVENTS_TAKEN[:1], ROWS_TAKEN[:2]
    here = replay(TOOL_LOOP, begun(), events, rows)
    assert replay(TOOL_LOOP, begun(), events, rows, here.state) == here
    with pytest.raises(ReplayDiverged) as caught:
        replay(TOOL_LOOP, begun(), events, rows, "validating")
    assert str(caught.value) == (
        "event 0, CancelPolled, does not fit: "
        "the record has the state validating, this definition gives the state awaiting_model"
    )
    with pytest.raises(ReplayDiverged, match=r"^event 0, the end, does not fit: the record has the state validating, "):
        replay(TOOL_LOOP, begun(), [], [], "validating")


def room(passage: Passage, event: Event) -> bool:
    """Fewer than two have passed."""
    return passage.passed < 2


UNCOUNTED = Definition(
    "locked",
    {
        **{state: rows for state, rows in TURNSTILE.table.items() if state.name in ("locked", "closed")},
        State("open", "Somebody may pass.", nothing): (Row(Push, "locked", room), Row(Push, "closed")),
    },
)


@pytest.mark.parametrize("pushes", [1, 2])
def test_an_event_that_takes_the_same_rows_and_leads_elsewhere_is_named(pushes: int) -> None:
    """Not the one after it, nor the end: the record went on from another state."""
    end, _ = walk(Passage(state="locked"), Coin(2), *[Push()] * pushes, definition=TURNSTILE)
    with pytest.raises(ReplayDiverged) as caught:
        replay(UNCOUNTED, Passage(state="locked"), end.events, end.rows, end.state)
    assert (str(caught.value), caught.value.place) == (
        "event 1, Push, does not fit: "
        "the record has the rows open/1, counting/2, this definition gives the rows open/1",
        1,
    )


class Stray(Tick):
    """An answer that somebody asks for and no row takes."""

    answers = True


class Wanted(Request):
    """Asks for what is never taken."""

    answered_by: ClassVar[tuple[Any, ...]] = (Stray,)


def wants(snapshot: Any) -> tuple[Wanted, ...]:
    """What no row takes."""
    return (Wanted(),)


def test_an_event_that_no_row_takes_is_refused_though_it_is_asked_for() -> None:
    """Nothing is wrong with it but that; the sentence says what is accepted."""
    table = {
        State("waiting", "It waits.", wants): (Row(Tick, "over"),),
        State("over", "It is over.", final="answered"): (),
    }
    with pytest.raises(UnexpectedEvent) as caught:
        advance(Definition("waiting", table), Passage(state="waiting"), Stray())
    assert str(caught.value) == "waiting does not take this Stray; it accepts Tick"


def counts(snapshot: Any, event: Any) -> Any:
    """One more has passed."""
    return snapshot.but(passed=snapshot.passed + 1)


def test_auto_states_may_follow_one_another_far_away() -> None:
    """Each row is taken, as where they are near."""
    far = [State(f"gate_{n}", "It lets pass.", auto=True) for n in range(100)]
    table: dict[State, tuple[Row, ...]] = {
        State("locked", "Nobody passes.", price): (Row(Coin, "gate_0", update=counts),),
        **{one: (Row(None, after.name, update=counts),) for one, after in itertools.pairwise(far)},
        far[-1]: (Row(None, "closed", update=counts),),
        State("closed", "It is full.", final="answered"): (),
    }
    taken = advance(Definition("locked", table), Passage(state="locked"), Coin(2))
    rows = ("locked/1", *(f"{one.name}/1" for one in far))
    assert (taken.snapshot.passed, taken.snapshot.state, taken.rows) == (101, "closed", rows)


def test_who_watches_is_told_the_rows_of_each_event() -> None:
    """In the order in which they were taken."""
    watched, told = attrs.evolve(TOOL_LOOP), list[Any]()
    engine(watched).watch = told.append
    once = advance(watched, begun(), polled())
    assert (told, advance(TOOL_LOOP, begun(), polled()).rows) == ([once.rows], once.rows)


# --- what is worked out when an event is first taken in a state ---------------------------------------------


def test_a_definition_that_nobody_ran_refuses_what_answers_nothing() -> None:
    """The first event of its kind is looked at as any later one."""
    fresh = attrs.evolve(TOOL_LOOP)
    for _ in range(2):
        with pytest.raises(UnexpectedEvent, match="c1_0"):
            advance(fresh, flying(flight(RUNNING)), returned(call(id="another")))


def test_a_definition_that_nobody_ran_hears_the_first_event() -> None:
    """The wait for the next host does not count, at whichever event."""
    fresh = attrs.evolve(TOOL_LOOP)
    seconds = [advance(fresh, begun(clock=3.0, since=1.0), resumed(at=9.0)).snapshot.spend.seconds for _ in range(2)]
    assert seconds == [2.0, 2.0]


def test_what_an_event_does_in_a_state_is_worked_out_once() -> None:
    """However often it is taken there."""
    asked: list[tuple[str, str]] = []

    class Asked(Definition):
        def heard(self, state: str, event: type[Any]) -> Any:
            asked.append((state, event.__name__))
            return super().heard(state, event)

    definition = Asked(TOOL_LOOP.initial, TOOL_LOOP.table, hear=TOOL_LOOP.hear)
    for _ in range(3):
        advance(definition, begun(), polled())
        advance(definition, begun(), resumed())
    assert asked == [("checking_cancel", "CancelPolled"), ("checking_cancel", "Resumed")]
