"""verify: the table, every configuration, what the Report says of it, and how it is printed."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import pytest

from loopmachine import guards, requests, updates
from loopmachine.cli import main
from loopmachine.definition import Definition, Row, State
from loopmachine.errors import InvalidDefinition
from loopmachine.events import CancelPolled, CancelRequested, Event, ModelFailed, Resumed
from loopmachine.history import Ids
from loopmachine.limits import Budget, Policy
from loopmachine.loop import Loop
from loopmachine.records import Exchange
from loopmachine.review import printing
from loopmachine.review.explore import Broken, Walk, foreign
from loopmachine.review.pairwise import every, pairwise
from loopmachine.review.reproduce import source, steps, written_test
from loopmachine.review.verify import OPTIONS, Report, verify, world
from loopmachine.review.world import World, handed_in, nothing
from loopmachine.table import TOOL_LOOP
from tests.test_promises import asking, exchanged, never, planted
from tests.test_review_lines import SMALL, Go

HERE = __name__
DEAF = planted("checking_cancel/1", guard=never)  #: no cancel is looked for before the model is asked
FEW = 60  #: advances in each configuration
#: One step and one call; and with little time.
SINGLE, TIGHT = World(Budget(max_steps=1), Policy(), batches=(("once",),)), Budget(max_steps=1, max_seconds=2.0)
#: One step, and turns of one call and of two.
TINY = World(Budget(max_steps=1), Policy(), batches=(("asks",), ("once", "read")))


def mailed_enough(snapshot: Any, event: Any) -> bool:
    """Three mails were sent."""
    results = [one for entry in snapshot.history.entries if isinstance(entry, Exchange) for one in entry.results]
    return sum(one.name == "mail" for one in results) >= 2


#: The loop with a rule of somebody's own.
POLITE = TOOL_LOOP.with_state(
    State("finished_mail_budget", "Enough mails were sent.", final="limit"),
).with_row(
    "checking_budget",
    Row(None, "finished_mail_budget", mailed_enough, first_because="who was mailed enough is left alone"),
    at=1,
)


# --- what is verified ---------------------------------------------------------------------------------------


def test_no_promise_is_broken_in_any_configuration() -> None:
    """A few advances in each: nothing is broken, each has its figures, and the Report says that it is not whole."""
    told: list[tuple[Mapping[str, Any], Walk, float]] = []
    report = verify(advances=FEW, each=lambda *one: told.append(one))
    assert (report.broken, report.passed, report.whole, report.unexplored) == ([], True, False, "")
    assert [chosen for chosen, _, _ in told] == pairwise(OPTIONS)
    walks = [walk for _, walk, _ in told]
    counted = [len(told), *(sum(getattr(walk, name) for walk in walks) for name in ("advances", "snapshots", "looked"))]
    assert [report.configurations, report.advances, report.snapshots, report.looked] == counted
    assert (0 < sum(seconds for _, _, seconds in told) <= report.seconds, report.looked > 500) == (True, True)


def test_the_first_configuration_has_three_steps_three_calls_a_turn_and_two_lost_calls() -> None:
    """Of one of its turns of three calls each may be lost, and what became of one, two or three is asked at once."""
    first = world(pairwise(OPTIONS)[0])
    three = ("read", "alone", "once")
    asked: set[int] = set()

    def look(move: Any) -> None:
        asked.update(len(one.calls) for one in move.requests if isinstance(one, requests.ResolveCalls))

    Walk(TOOL_LOOP, attrs.evolve(first, budget=Budget(max_steps=1), batches=(three,)), {"look": look}).run()
    assert (first.budget, first.policy, three in first.batches) == (Budget(max_steps=3), Policy(), True)
    assert asked == {1, 2, 3}


def test_a_second_budget_is_less_or_more() -> None:
    """A host that comes may bring one with less in it or with a step more and no limit to calls."""
    chosen = {name: values[0] for name, values in OPTIONS.items()}
    brought = [world({**chosen, "second_budget": word, "max_calls": 1}).second for word in (None, "less", "more")]
    assert brought == [None, Budget(max_steps=1, max_calls=1, max_seconds=1.0), Budget(max_steps=4)]


def test_the_product_can_be_explored_within_a_bound() -> None:
    """All combinations take days; those that time permits are far apart, and the walk looks closer at every advance."""
    chosen: list[Mapping[str, Any]] = []

    def each(one: Mapping[str, Any], walk: Walk, seconds: float) -> None:
        chosen.append(one)
        assert walk.looked == walk.advances

    report = verify(full=True, seconds=0.3, advances=20, each=each)
    assert (report.whole, report.passed, report.broken) == (False, True, [])
    assert chosen == [one for one, _ in zip(every(OPTIONS), chosen, strict=False)]


def test_no_time_is_no_exploration() -> None:
    """And is told as that."""
    report = verify(seconds=0.0)
    assert (report.configurations, report.whole, report.passed) == (0, False, False)
    assert printing.verdict(report) == "FAILED: nothing was explored"
    assert (none := verify(advances=0)).configurations > 0
    assert (none.passed, printing.verdict(none)) == (False, "FAILED: nothing was explored")


# --- what it says -------------------------------------------------------------------------------------------


def test_a_broken_promise_ends_it() -> None:
    """The first is reported, with its world and the shortest way to it."""
    report = verify(DEAF, seconds=60)
    (found,) = report.broken
    assert (report.passed, report.configurations, report.whole) == (False, 1, False)
    assert (found.promise, found.sentence) == ("I5", "a cancel was observed, and the snapshot says otherwise")
    assert found.path == ((CancelPolled(True, "enough", at=0.0), ("checking_cancel/2", "checking_budget/7")),)


def test_rows_that_are_never_taken_are_named() -> None:
    """A row that no configuration takes is dead, if all were explored to their end; one that only some take is not."""
    report = Report(TOOL_LOOP)
    report.add({"max_seconds": None}, Walk(TOOL_LOOP, SINGLE).run())
    report.add({"max_seconds": 2.0}, Walk(TOOL_LOOP, attrs.evolve(SINGLE, budget=TIGHT)).run())
    assert (report.whole, report.passed, "admitting/7" in report.dead) == (True, False, True)
    assert report.dead_under("max_seconds", 2.0) == []
    assert report.dead_under("max_seconds", None) == ["checking_budget/1", "admitting/4"]
    assert sorted([*report.rows, *report.dead]) == sorted(row_id for row_id, _, _ in TOOL_LOOP.all_rows())


def test_a_row_that_seems_dead_under_a_value_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration that took it is explored with that value; each once, and not if it was taken meanwhile."""
    options = {name: values[:1] for name, values in OPTIONS.items()}
    monkeypatch.setattr("loopmachine.review.verify.OPTIONS", {**options, "max_steps": (1,), "repairs": (0, 1)})
    monkeypatch.setattr("loopmachine.review.verify.BATCHES", (("once",),))
    told: list[Mapping[str, Any]] = []
    report = verify(each=lambda chosen, walk, seconds: told.append(chosen))
    assert ([one["repairs"] for one in told], report.dead_under("repairs", 0)) == ([0, 1], [])
    retold = Report(TOOL_LOOP, taken={("repairs", 0): {"a/1"}, ("repairs", 1): {"validating/6", "validating/7"}})
    monkeypatch.setattr("loopmachine.review.verify.OPTIONS", {"repairs": (0, 1)})
    retold.example = dict.fromkeys(("validating/6", "validating/7"), (-1, 9, {"repairs": 1, "x": 1}))
    assert list(retold.second_looks()) == [{"repairs": 0, "x": 1}]


def test_an_order_that_is_not_declared_is_reported() -> None:
    """A row that may be taken where a later one would hold, too, has to say why it is first."""
    silent = planted("validating/2", first_because="")
    report = Report(silent)
    report.add({}, Walk(silent, SINGLE).run())
    assert [(both.first, both.second) for both in report.undeclared] == [("validating/2", "validating/3")]
    report.whole = False  # so that rows may be missing
    assert (report.passed, report.broken) == (False, [])
    assert printing.verdict(report) == "FAILED: 1 orders of rows are not declared"


def test_rows_in_the_wrong_order_are_found() -> None:
    """Two rows of which each says why it is first: the promises know which one is."""
    assert [found.promise for found in Walk(exchanged("validating", 2, 3), TINY).run().broken] == ["I13"]


def test_a_table_over_other_events_is_not_explored() -> None:
    """Its table holds, and the Report says why that is all."""
    report = verify(SMALL)
    assert (report.passed, report.configurations, report.unexplored) == (True, 0, "no world tells Go, Wait")


def test_of_a_table_with_other_events_beside_the_loops_the_rest_is_explored() -> None:
    """No world tells them, which is said; a row on one is not expected to be taken, and a fault elsewhere is found."""
    row = Row(Go, "checking_cancel")
    paged, deaf = (one.with_row("awaiting_model", row, at=5) for one in (TOOL_LOOP, DEAF))
    report = verify(paged, advances=FEW)
    assert (report.untold, report.unexplored, report.advances > FEW) == (("Go",), "", True)
    assert ("awaiting_model/5" in report.dead, "awaiting_model/5" in report.rows) == (False, False)
    assert "\ntold by no world: Go\n" in printing.summary("m:d", report)
    assert [found.promise for found in verify(deaf, advances=FEW).broken] == ["I5"]


def throttled() -> Definition:
    """The loop with a rest of somebody's own, which looks for a cancel once more before the budget is looked at."""
    rest = State("throttling", "Wait for a place.", requests.poll_now)
    cancelled = Row(CancelPolled, "finished_cancelled", guards.cancel_requested, updates.remember_cancel)
    rows = [cancelled, Row(CancelPolled, "checking_budget"), Row(Resumed, "throttling")]
    table = {**planted("checking_cancel/2", TOOL_LOOP.with_state(rest, rows), to="throttling").table}
    return Definition(TOOL_LOOP.initial, table, hear=TOOL_LOOP.hear)


def test_of_a_rest_of_somebodys_own_nothing_is_known() -> None:
    """Neither how near the end it is, nor why a run should end there; what follows is checked as ever."""
    assert verify(throttled(), advances=FEW).broken == []
    deaf = planted("rechecking_cancel/1", throttled(), guard=never)
    assert [found.promise for found in verify(deaf, advances=10 * FEW).broken] == ["I5"]


def long_winded(snapshot: Any, event: Any) -> bool:
    """The turn is long; the rows before have seen to it that there is one."""
    return len(snapshot.turn.text) > 1000


def test_a_guard_may_rely_on_the_rows_before_it() -> None:
    """Where it is asked out of its place, to see whether the order matters, and raises, it does not hold."""
    talk = TOOL_LOOP.with_row("validating", Row(None, "finished_refused", long_winded), at=4)
    assert verify(talk, advances=10 * FEW).broken == []


def careless(snapshot: Any) -> Any:
    """What is asked of a call that there may not be."""
    return snapshot.flights[5]


def test_a_state_that_can_not_say_what_it_asks_is_broken() -> None:
    """With the way there, as an update that raises is."""
    (found,) = verify(asking("dispatching", careless), advances=10 * FEW).broken
    assert (found.promise, found.sentence) == ("I8", "it raises IndexError: tuple index out of range")
    assert [rows[-1:] for _, rows in found.path] == [("checking_budget/7",), ("awaiting_model/1",), ()]


LOOK = requests.Request()  #: of somebody's own, which no world answers


def test_what_no_world_can_answer_ends_no_exploration() -> None:
    """The state that asks it is named, what lies behind it is not expected to be taken, and the rest is explored."""
    strange = asking("rechecking_cancel", lambda snapshot: (LOOK,))
    found = verify(strange, promises={})
    facts = (found.unanswered, found.unexplored, found.broken, found.whole, found.passed)
    assert facts == ({"rechecking_cancel"}, "", [], True, True)
    assert {"awaiting_model/1", "rechecking_cancel/3"} <= found.rows
    assert "validating/8" in found.dead


def reviewed(loop: Definition) -> Definition:
    """A loop in which a person looks at what was cut."""
    look = State("looking", "A person looks.", lambda snapshot: (LOOK,))
    leaves = [
        Row(CancelRequested, "finished_cancelled", None, updates.remember_cancel),
        Row(CancelPolled, "finished_incomplete"),
        Row(Resumed, "looking"),
    ]
    cut = Row(None, "looking", named("cut", guards.turn_truncated), first_because="it is read before the run ends")
    return loop.with_state(look, leaves).with_row("validating", cut, at=4)


def named(name: str, guard: Any) -> Any:
    """A guard of somebody's own that does as another."""

    def own(snapshot: Any, event: Any) -> bool:
        """Does as another."""
        return bool(guard(snapshot, event))

    own.__name__ = name
    return own


def lied(snapshot: Any, event: Any) -> Any:
    """Tells of every call that it did well."""
    return updates.record(snapshot, attrs.evolve(event, result=attrs.evolve(event.result, outcome="ok")))


def test_a_fault_beside_a_request_of_ones_own_is_found() -> None:
    """The verification goes on around it."""
    assert verify(reviewed(TOOL_LOOP), advances=FEW, sees=nothing).broken == []
    found = verify(reviewed(planted("dispatching/2", update=lied)), sees=nothing)
    assert [one.promise for one in found.broken] == ["I10"]


@attrs.frozen
class Tapped(Event):
    """An event of somebody's own, which no world tells."""

    at: float = attrs.field(kw_only=True)


def forgetting(snapshot: Any, event: Any) -> Any:
    """Takes no new budget."""
    return updates.restart_clock(snapshot, attrs.evolve(event, budget=None))


def first_step(snapshot: Any) -> Any:
    """Asks for the first step, whichever it is."""
    asked: Any = requests.ask_model(snapshot)
    return tuple(attrs.evolve(one, step=1) for one in asked)


def keeps_what_broke(snapshot: Any, event: Any) -> Any:
    """Counts what ok results spent."""
    return updates.record(snapshot, event if event.result.outcome == "ok" else attrs.evolve(event, usage=None))


def reserves_what_runs(snapshot: Any, event: Any) -> Any:
    """Reserves the ids of calls that may run only."""
    after = updates.admit(snapshot, event)
    return after.but(ids=Ids([*snapshot.ids, *(one.call.wire_id for one in after.flights if one.result is None)]))


def keeps_repairs(snapshot: Any, event: Any) -> Any:
    """Counts repairs of the whole run."""
    return updates.keep_turn(snapshot, event).but(repairs=snapshot.repairs)


def only(guard: Any, also: Any) -> Any:
    """A guard that holds where another does and this is so of the snapshot."""
    return named(guard.__name__, lambda snapshot, event: guard(snapshot, event) and also(snapshot))


def test_what_shows_after_some_steps_is_found_where_there_are_some() -> None:
    """A repair that is still counted after a good turn ends the run too early."""
    world = World(Budget(max_steps=4), Policy(repairs=1), batches=(("absent",),))
    found = Walk(planted("awaiting_model/1", update=keeps_repairs), world).run()
    assert [(one.promise, len(one.path)) for one in found.broken] == [("I13", 9)]


@pytest.mark.parametrize(
    ("wrong", "promises"),
    [
        (attrs.evolve(TOOL_LOOP, hear={**TOOL_LOOP.hear, Resumed: forgetting}), ["I2"]),
        (planted("awaiting_approval/1", to="checking_cancel"), ["I3"]),
        (planted("awaiting_model/2", to="checking_cancel"), ["I13"]),
        (planted("awaiting_model/1", event=Tapped), ["I8"]),
        (asking("awaiting_model", first_step), ["I4"]),
        (planted("dispatching/2", update=keeps_what_broke), ["I2"]),
        (planted("dispatching/2", update=lied), ["I10"]),
        (planted("admitting/10", update=reserves_what_runs), ["I10"]),
        (planted("validating/4", guard=only(guards.turn_truncated, lambda one: one.turn.calls)), ["I13"]),
        (planted("validating/5", guard=only(guards.turn_refused, lambda one: not one.turn.calls)), ["I1"]),
        (planted("validating/8", guard=only(guards.turn_final, lambda one: one.turn.stop == "stop")), ["I6"]),
        (planted("validating/2", guard=only(guards.model_timed_out, lambda one: one.failure.retryable)), ["I13"]),
        (planted("validating/7", guard=only(guards.turn_malformed, lambda one: not one.turn.text)), ["I13"]),
    ],
    ids=[
        "a new budget is forgotten",
        "approved calls are forgotten",
        "a failure is passed over",
        "a reply is not heard",
        "every step is the first",
        "what failed calls spent is not counted",
        "what went wrong is told as ok",
        "ids of calls that can't run are used again",
        "a cut text is no cut turn",
        "a refusal with calls is none",
        "an answer with another reason is none",
        "only what may pass runs out of time",
        "calls with a text are never malformed",
    ],
)
def test_a_fault_that_some_answers_show_is_named(wrong: Definition, promises: list[str]) -> None:
    """One of the ways in which a host can answer shows it."""
    near = verify(wrong, sees=nothing, advances=1_500, scattered=True)
    found = near if near.broken else verify(wrong, sees=nothing)
    assert [one.promise for one in found.broken] == promises


def test_another_machine_with_an_event_of_the_loop_is_not_explored() -> None:
    """Without a model that replies it is none of these, and its snapshots may be of any class."""
    table = {
        State("idle", "It waits.", lambda snapshot: snapshot.bells): (Row(CancelPolled, "over"),),
        State("over", "It is over.", final="answered"): (),
    }
    found = verify(Definition("idle", table))
    assert (found.unexplored, found.broken, found.passed) == (
        "it hears no model, and worlds are those of the tool-calling loop",
        [],
        True,
    )


def test_of_a_rest_that_looks_at_an_answer_nothing_is_known() -> None:
    """A run that waits there for a person is not answered yet, and may end cancelled."""
    reading = State("reading", "A person reads it.", requests.poll_now)
    rows = [
        Row(CancelPolled, "finished_cancelled", guards.cancel_requested, updates.remember_cancel),
        Row(CancelPolled, "finished_answered", None, updates.append_final),
        Row(Resumed, "reading"),
    ]
    row = Row(None, "reading", guards.turn_final, first_because="it is read before it is given")
    read = TOOL_LOOP.with_state(reading, rows).with_row("validating", row, at=8)
    assert Walk(read, TINY).run().broken == []


def test_a_rest_of_somebodys_own_may_wait_for_a_person() -> None:
    """Whose time does not count there is said by the definition, and believed."""
    reading = State("reading", "A person reads it.", requests.poll_now)
    rows = [
        Row(CancelPolled, "finished_cancelled", guards.cancel_requested, updates.remember_cancel),
        Row(CancelPolled, "finished_answered", None, updates.append_final),
        Row(CancelRequested, "finished_cancelled", None, updates.remember_cancel),
        Row(Resumed, "reading"),
    ]
    row = Row(None, "reading", guards.turn_final, first_because="it is read before it is given")
    world = World(Budget(max_steps=1, max_seconds=2.0), Policy(), batches=(("once",),))
    for hear in (updates.discount_wait, None):
        read = TOOL_LOOP.with_state(reading, rows, hear=hear).with_row("validating", row, at=8)
        assert Walk(read, world).run().broken == []


def test_a_row_that_needs_more_than_small_worlds_have_is_said_to() -> None:
    """It is not expected to be taken; one that there is not is refused."""

    def many(snapshot: Any, event: Any) -> bool:
        """More than ten steps were made."""
        return bool(snapshot.steps > 10)

    end = State("finished_many", "That is enough.", final="limit")
    loop = TOOL_LOOP.with_state(end).with_row("checking_budget", Row(None, end.name, many), at=5)
    found = Report(loop)
    found.taken["any", 0] = {row_id for row_id, _, _ in loop.all_rows()} - {"checking_budget/5"}
    found.advances = 1
    said = attrs.evolve(found, out_of_reach=("checking_budget/5",))
    assert ((found.dead, found.passed), (said.dead, said.passed)) == ((["checking_budget/5"], False), ([], True))
    assert verify(loop, advances=1, out_of_reach=["checking_budget/5"]).out_of_reach == ("checking_budget/5",)
    with pytest.raises(ValueError, match="checking_budget/9"):
        verify(loop, out_of_reach=["checking_budget/9"])


def test_a_state_that_no_row_leads_to_is_refused() -> None:
    """A definition that can't be run can't be verified, and says every fault."""
    with pytest.raises(InvalidDefinition, match=r"finished_mail_budget: no row leads here yet"):
        verify(TOOL_LOOP.with_state(State("finished_mail_budget", "Enough.", final="limit")))


def test_a_rule_of_one_s_own_is_explored() -> None:
    """With its tool named, a guard that counts calls of it in the history is seen to hold, and breaks no promise."""
    sees = verify_sees(POLITE)
    own = Walk(POLITE, World(Budget(max_steps=2), Policy(), batches=(("mail", "mail"),), sees=sees)).run()
    assert (own.whole, own.broken, "checking_budget/1" in own.rows) == (True, [], True)
    assert sees(TINY.start("checking_cancel")) == ()


def verify_sees(definition: Definition) -> Any:
    """What the worlds of a definition see of the history, at last."""
    found: list[Any] = []
    verify(definition, advances=1, tools=["mail"], each=lambda chosen, walk, seconds: found.append(walk.world))
    assert {("mail",), ("mail", "mail")} < set(found[-1].batches)
    assert found[0].sees is None
    return found[-1].sees


def test_what_guards_see_can_be_said() -> None:
    """It is asked instead of what is assumed; where all guards are this library's own, nothing is seen."""
    seen: list[Any] = []

    def blind(snapshot: Any) -> int:
        return 0

    for sees in (None, blind):
        verify(advances=1, seconds=0.5, each=lambda chosen, walk, seconds: seen.append(walk.world.sees), sees=sees)
    assert set(seen) == {None, blind}
    assert verify_sees(TOOL_LOOP) is None


@pytest.mark.parametrize(
    "changed",
    [
        lambda: planted("checking_budget/5", guard=wraps(guards.steps_spent)(late_or_spent)),
        lambda: planted("awaiting_model/1", update=wraps(updates.keep_turn)(updates_turn)),
        lambda: attrs.evolve(TOOL_LOOP, hear={**TOOL_LOOP.hear, CancelPolled: stays}),
        lambda: TOOL_LOOP.with_state(State("pausing", "It waits.", asks_nobody), [Row(CancelPolled, "validating")]),
    ],
    ids=["a wrapped guard", "a wrapped update", "what an event brings", "asks"],
)
def test_what_looks_like_the_library_s_own_is_not(changed: Any) -> None:
    """Whoever wraps a function may see more than it does: of each kind the history is seen, too, in the end."""
    assert foreign(changed())
    assert not foreign(TOOL_LOOP)


def timed_out(snapshot: Any) -> bool:
    """A call timed out."""
    return any(message.get("outcome") == "timed_out" for message in snapshot.history)


def late_or_spent(snapshot: Any, event: Any) -> bool:
    """The steps are spent, or a call timed out."""
    return guards.steps_spent(snapshot, event) or timed_out(snapshot)


def updates_turn(snapshot: Any, event: Any) -> Any:
    """Keep the turn."""


def stays(snapshot: Any, event: Any) -> Any:
    """Change nothing."""


def asks_nobody(snapshot: Any) -> Any:
    """Ask nobody."""


def test_a_wrapped_guard_that_sees_the_history_is_found_out() -> None:
    """It is named I13, though it bears the name of the guard that it wraps; told blind, only nothing is merged away."""
    report = verify(planted("checking_budget/5", guard=wraps(guards.steps_spent)(late_or_spent)), advances=2000)
    assert ([one.promise for one in report.broken], report.guessed) == (["I13"], True)


def test_guards_that_see_nothing_of_the_history_are_not_looked_at_twice() -> None:
    """If somebody says so."""
    seen: list[Any] = []
    report = verify(POLITE, advances=1, sees=nothing, each=lambda chosen, walk, seconds: seen.append(walk.world.sees))
    assert (report.guessed, set(seen), nothing(TINY.start("checking_cancel"))) == (False, {None}, None)


def test_the_shortest_way_is_that_of_the_values_that_matter() -> None:
    """It is found with one value another than the first ones, whichever configuration showed the fault."""
    report = verify(planted("admitting/8", guard=wraps(guards.calls_over_budget)(never)), sees=nothing, advances=3000)
    (broken,) = report.broken
    assert (broken.promise, broken.world.budget, broken.world.policy, len(broken.path)) == (
        "I2",
        Budget(max_steps=3, max_calls=1),
        Policy(),
        3,
    )


def test_asks_that_raise_at_the_start_break_i8() -> None:
    """Before anything is told; nothing passes through, but for who stops the command."""

    def fails(snapshot: Any) -> Any:
        """Divides by nothing."""
        return 1 // 0

    def interrupted(snapshot: Any) -> Any:
        """Somebody presses Ctrl-C."""
        raise KeyboardInterrupt

    def asking_so(asks: Any) -> Definition:
        first = attrs.evolve(TOOL_LOOP.states["checking_cancel"], asks=asks)
        table = {first if state.name == first.name else state: rows for state, rows in TOOL_LOOP.table.items()}
        return attrs.evolve(TOOL_LOOP, table=table)

    (broken,) = verify(asking_so(fails)).broken
    said = "it raises ZeroDivisionError: integer division or modulo by zero"
    assert (broken.promise, broken.path, broken.sentence) == ("I8", (), said)
    with pytest.raises(KeyboardInterrupt):
        verify(asking_so(interrupted))


def test_requests_that_are_none_break_i8() -> None:
    """Where the machine gets to the state that asks so."""
    pausing = State("pausing", "It waits.", lambda snapshot: ("poll",))
    rows = [Row(CancelPolled, "rechecking_cancel"), Row(Resumed, "rechecking_cancel")]
    definition = TOOL_LOOP.with_state(pausing, rows).with_row(
        "awaiting_model", Row(ModelFailed, "pausing", always_busy), at=2
    )
    (broken,) = verify(definition).broken
    assert (broken.promise, len(broken.path), broken.path[-1][1]) == ("I8", 2, ())


def always_busy(snapshot: Any, event: Any) -> bool:
    """The provider is busy."""
    return True


# --- how it is printed --------------------------------------------------------------------------------------


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The exit code of the command, and what it says."""
    code = main(["verify", *arguments])
    return code, capsys.readouterr().out


def test_the_command_says_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    """A machine that can't be explored: its table, why no more, and the verdict."""
    code, said = printed(capsys, "tests.test_review_lines:SMALL")
    assert (code, said) == (
        0,
        "tests.test_review_lines:SMALL: 4 states, 6 rows\n"
        "the table: one initial state, every state reachable, no trap, no way out of a final state, on every event of"
        " a\n  state a last row without a guard and none after it, every guard and update named and documented, no"
        " cycle of\n  auto states\n"
        "not explored: no world tells Go, Wait\n\npassed: the table holds\n",
    )


def test_a_run_of_the_command_can_be_bound(capsys: pytest.CaptureFixture[str]) -> None:
    """--minutes ends it, and the figures of what was explored till then are told."""
    code, said = printed(capsys, "--minutes", "0.02", "--tool", "mail")
    figures = r"^ *[\d,]+ advances +[\d,]+ snapshots +[\d.]+ s  "
    passed = "passed: every promise holds on every path that was explored (it was cut)"
    assert (code, said.splitlines()[-1]) == (0, passed)
    assert re.search(rf"{figures}the defaults", said, re.MULTILINE)
    assert re.search(rf"{figures}\d+ configurations, not all to their end; [\d,]+ advances/s$", said, re.MULTILINE)


@pytest.mark.parametrize("minutes", ["nan", "inf", "soon"])
def test_minutes_are_a_number(minutes: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One that a clock can reach."""
    with pytest.raises(SystemExit):
        main(["verify", "--minutes", minutes])
    assert f"argument --minutes: invalid number of minutes value: '{minutes}'" in capsys.readouterr().err


def test_a_configuration_is_a_line() -> None:
    """Its figures, and where it is not the first value of an option; one that was cut says so."""
    defaults = {name: values[0] for name, values in OPTIONS.items()}
    whole, cut = Walk(TOOL_LOOP, TINY), Walk(TOOL_LOOP, TINY)
    whole.advances, whole.snapshots, whole.whole = 19_689, 2_758, True
    assert [printing.line(defaults, whole, 1.26), printing.line({**defaults, "repairs": 1}, cut, 0.0)] == [
        "   19,689 advances     2,758 snapshots    1.3 s  the defaults",
        "        0 advances         0 snapshots    0.0 s  repairs=1  (not to its end)",
    ]


def test_a_definition_that_is_not_there_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    """As with every command."""
    assert (main(["verify", "no_such_module:x"]), capsys.readouterr().out) == (2, "")


def test_a_failure_is_printed_with_its_path_and_its_test(capsys: pytest.CaptureFixture[str]) -> None:
    """The numbered events with the rows that each took, the promise, a test, and the verdict; the exit code is 1."""
    code, said = printed(capsys, f"{HERE}:DEAF")
    assert code == 1
    assert "  1. CancelPolled(cancelled=True, reason='enough', at=0.0)\n       -> checking_cancel/2, checking" in said
    assert "     I5 is broken: a cancel was observed, and the snapshot says otherwise\n" in said
    assert f"\n{written_test(verify(DEAF).broken[0], f'{HERE}:DEAF')}\n" in said
    assert said.endswith("\nFAILED: I5 is broken\n")


def reported(definition: Definition = TOOL_LOOP, **facts: Any) -> Report:
    """A report of two small walks."""
    report = Report(definition, **facts)
    report.add({"max_seconds": None}, Walk(definition, SINGLE).run())
    report.add({"max_seconds": 2.0}, Walk(definition, attrs.evolve(SINGLE, budget=TIGHT)).run())
    return report


def test_everything_that_was_found_is_printed() -> None:
    """Rows never taken, rows dead under a value, and pairs of rows with why the first is first and a witness."""
    report = reported(planted("validating/2", first_because=""))
    said = printing.summary("m:d", report)
    dead = next(line for line in said.splitlines() if line.startswith("  not taken under max_seconds=None"))
    pairs = [line for line in said.splitlines() if line.startswith("      or ")]
    assert f"\nrows taken: {len(report.rows)} of 55; final states reached: {len(report.statuses)} of 15\n" in said
    assert (" checking_budget/1 " in f"{dead} ", len(pairs)) == (True, len(report.orders))
    assert (
        "\n  validating/2 is first, NOT DECLARED: say first_because on it\n"
        "      or 3 at CancelPolled at 0; steps 1; Failure(code='late', retryable=True, timed_out=True)\n"
    ) in said
    because = TOOL_LOOP.row("admitting/1").first_because
    assert (
        f"\n  admitting/1 is first: {because}\n"
        "      or 4 at CancelPolled at 2; steps 1; unpriced 1; unmetered 1; asked for once, once\n"
    ) in said
    assert said.splitlines()[-1] == (
        f"FAILED: 1 orders of rows are not declared, {len(report.dead)} rows were never taken"
    )


def test_a_disagreement_of_the_stock_classes_has_no_test() -> None:
    """The promises hold on its path; the path is printed."""
    found = Broken("transitions", "stock transitions differ", World(Budget(), Policy()), ())
    report = reported()
    report.broken.append(found)
    said = printing.summary("m:d", report)
    assert ("as a test" in said, "transitions is broken: stock transitions differ" in said) == (False, True)


# --- how it is reproduced -----------------------------------------------------------------------------------

EXPLAINED = {
    "deaf": (DEAF, TINY),
    "swapped": (exchanged("validating", 2, 3), TINY),
    "uncounted": (planted("checking_budget/7", update=None), TINY),
    "unapproved": (planted("admitting/9", guard=never), TINY),
    "run again": (planted("dispatching/5", update=updates.requeue_lost), TINY),
    "never full": (planted("admitting/8", guard=never), attrs.evolve(TINY, budget=Budget(max_steps=1, max_calls=1))),
    "after a history": (planted("admitting/1", guard=never), attrs.evolve(TINY, old=True)),
}


@pytest.fixture
def planted_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module in which a definition is planted."""
    module = ModuleType("planted_there")
    monkeypatch.setitem(sys.modules, "planted_there", module)
    return module


@pytest.mark.parametrize("name", EXPLAINED)
def test_the_test_that_is_printed_fails_while_the_fault_is_there_and_passes_afterwards(
    name: str, planted_module: ModuleType
) -> None:
    """It plays the path through Loop: with the fault planted it fails, with the table as it is it passes."""
    fault, small = EXPLAINED[name]
    (found,) = Walk(fault, small).run().broken
    code = compile(written_test(found, "planted_there:MACHINE"), "printed", "exec")
    for machine, fails in ((fault, True), (TOOL_LOOP, False)):
        planted_module.MACHINE = machine  # type: ignore[attr-defined]
        names: dict[str, Any] = {}
        exec(code, names)
        (test,) = [one for key, one in names.items() if key.startswith("test_")]
        assert test.__doc__.startswith(f"{found.promise} holds where it was broken: ")
        if fails:
            with pytest.raises(AssertionError):
                test()
        else:
            test()


def test_a_run_that_goes_on_from_a_history_is_reproduced() -> None:
    """The history, the budget and the policy are part of the test, and so is every class that it names."""
    found = Broken("I1", 'say "no"\\', World(Budget(max_steps=2), Policy(repairs=1), old=True), ())
    text = written_test(found, "loopmachine.table:TOOL_LOOP")
    names: dict[str, Any] = {}
    exec(text, names)
    names["test_i1_say_no"]()
    loop = Loop("go", budget=Budget(max_steps=2), policy=Policy(repairs=1), history=handed_in(), at=0.0)
    made = eval(re.findall(r"Loop\((.*), definition=", text)[0].split("history=")[1], names)
    assert (made, names["test_i1_say_no"].__doc__) == (handed_in(), "I1 holds where it was broken: say 'no'/")
    assert loop.snapshot.but(log=None) == found.world.start("checking_cancel").but(log=None)


def test_a_record_is_written_as_the_expression_that_makes_it() -> None:
    """Every field that is not its default; what is made is what was written."""
    for record in (Budget(), Budget(max_steps=3, max_cost_usd=0.5), Policy(wrap_up=True), (1, "a"), (1,), ()):
        assert eval(source(record)) == record
    assert source(CancelPolled(False, at=1.0)) == "CancelPolled(cancelled=False, at=1.0)"


def test_an_event_that_was_refused_took_no_row() -> None:
    """The list of the path says so."""
    found = Broken("I8", "why", World(Budget(), Policy()), ((CancelPolled(False, at=0.0), ()),))
    assert steps(found) == "  1. CancelPolled(cancelled=False, at=0.0)\n       -> refused\n     I8 is broken: why"


def test_the_guards_of_the_table_are_the_library_s() -> None:
    """So that of its history nothing has to be seen."""
    assert {one.__module__ for one in vars(guards).values() if callable(one)} >= {"loopmachine.guards"}
    assert Path(guards.__file__).name == "guards.py"
