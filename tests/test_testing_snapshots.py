"""Any snapshot in one line, and those at the boundaries of a budget."""

from __future__ import annotations

import math
import sys
from typing import Any

import attrs
import pytest

from loopmachine import Budget, Policy, Tool, guards, rules
from loopmachine.definition import Definition, Row, State
from loopmachine.events import CallLost, Event
from loopmachine.history import History, Ids
from loopmachine.records import Call, CallResult, Decision, Exchange, Flight, Snapshot, Turn, UserMessage
from loopmachine.testing import call, calls, guard_cases, snapshot
from tests.facts import polled

MESSAGES = [
    {"kind": "user", "text": "go"},
    {"kind": "call", "id": "old", "name": "look", "arguments": {}},
    {"kind": "tool_result", "id": "old", "content": "1", "outcome": "ok"},
]


NUMBERED = {"type": "object", "properties": {"n": {"type": "integer"}}}
look = Tool("look", "Look.", NUMBERED, print, effect="read", needs_approval=True)


def test_without_fields_it_is_a_run_that_has_not_begun() -> None:
    """At the first state, at time 0, with nothing spent."""
    assert snapshot() == Snapshot(state="checking_cancel")


def test_it_stands_in_a_state_of_its_definition() -> None:
    """One of your own has states of its own, of which the initial one is where a run begins."""
    held = State("held", "It waits.", lambda snapshot: ())
    own = Definition("held", {held: [Row(type(polled()), "gone")], State("gone", "It went.", final="answered"): []})
    mine = [snapshot(definition=own), snapshot("gone", definition=own), *_snapshots(guard_cases(definition=own).mark)]
    assert [one.state for one in mine] == ["held", "gone", *["held"] * 15]


def _snapshots(mark: Any) -> list[Snapshot]:
    return [case.values[0] for case in mark.args[1]]


def test_a_list_stands_for_a_tuple() -> None:
    """In every field that holds one."""
    words = Decision(1, 0, True)
    made = snapshot(decisions=[words], tool_calls=[("look", 1)], cost_usd=1)
    assert (made.decisions, made.tool_calls, made.cost_usd) == ((words,), (("look", 1),), 1)


def test_the_fields_of_a_snapshot_are_taken_as_they_are() -> None:
    """Each of them."""
    one = Call("c", "look", step=2)
    whole = Snapshot(
        state="dispatching",
        clock=7.0,
        history=History([UserMessage("go"), Exchange(Turn(calls=(one,)), (CallResult.of(one, "ok", "1"),))]),
        handed_in=1,
        budget=Budget(max_steps=3),
        policy=Policy(repairs=1),
        steps=2,
        calls=3,
        cost_usd=0.5,
        tokens=9,
        unpriced=1,
        unmetered=2,
        since=1.0,
        turn=Turn(calls=(one,)),
        not_before=8.0,
        retries=1,
        repairs=1,
        wrapping=True,
        flights=(Flight(one, "running"),),
        cancelled=True,
        cancel_reason="enough",
        ids=Ids(["c"]),
        tool_calls=(("look", 1),),
        identical=1,
    )
    assert snapshot(**{field.name: getattr(whole, field.name) for field in attrs.fields(Snapshot)}) == whole


def test_a_turn_may_be_what_a_model_replies() -> None:
    """Calls, one call, or the text of its answer; a reply that can't be used is a malformed turn."""
    assert [snapshot(turn=turn).turn for turn in ("done", call("a", "look"), {"kind": "odd"}, None)] == [
        Turn("done", wire="plain"),
        Turn(calls=(Call("a", "look", problem="there is no tool named 'look'; known tools: none"),), wire="plain"),
        Turn(fault="kind: it must be one of 'final', 'text', 'call', 'calls', 'tool_calls', not 'odd'", wire="plain"),
        None,
    ]


def test_tools_prepare_the_calls_of_the_step() -> None:
    """As in a run: known, checked, with what the tool says of itself, or with what is wrong."""
    asked = calls(call("a", "look", n="5"), call("b", "look", n="five"))
    turn = snapshot("admitting", turn=asked, tools=[look], steps=3).turn
    about: Any = {"known": True, "effect": "read", "needs_approval": True, "step": 3}
    assert turn is not None
    assert [attrs.evolve(one, problem=one.problem[:19]) for one in turn.calls] == [
        Call("a", "look", '{"n":"5"}', checked='{"n":5}', **about),
        Call("b", "look", '{"n":"five"}', place=1, problem="look was not called", **about),
    ]


def test_a_history_may_be_text_or_messages_and_its_ids_are_used() -> None:
    """As those of a run that goes on from it; others may be given beside them."""
    said, more = snapshot(history="go"), snapshot(history=MESSAGES, ids=["b", "a"])
    assert (said.history, said.ids, list(more.history), list(more.ids)) == (
        History([UserMessage("go")]),
        Ids(),
        MESSAGES,
        ["old", "b", "a"],
    )


def test_messages_that_are_no_history_are_refused() -> None:
    """In the words in which a run refuses them."""
    with pytest.raises(ValueError, match=r"^messages\[1\]: the calls 'old' have no result"):
        snapshot(history=MESSAGES[:2])


def test_flights_may_be_the_phases_of_the_calls_of_the_turn() -> None:
    """A lost one was lost once, an answered one was ok; a Flight is taken as it is."""
    asked = calls(*(call(one, "look") for one in "abcde"))
    own = Flight(Call("x", "look"), "lost", 2)
    found = snapshot("dispatching", turn=asked, flights=("queued", "running", "lost", "answered", own), tools=[look])
    a, b, c, d, _ = found.turn.calls if found.turn else ()
    assert found.flights == (
        Flight(a, "queued"),
        Flight(b, "running"),
        Flight(c, "lost", 1),
        Flight(d, "answered", 0, CallResult.of(d, "ok", "")),
        own,
    )


def test_the_guards_of_calls_under_way_are_one_line_each() -> None:
    """As an example: what a first loss of a call to a tool that reads brings, and a second."""
    first = snapshot("dispatching", turn=call("a", "look"), flights=["running"], tools=[look])
    lost: CallLost = CallLost(0, 0, at=0.0)
    second = first.but(flights=(attrs.evolve(first.flights[0], losses=1),))
    assert [guards.rerun_safe(one, lost) for one in (first, second)] == [True, False]


@pytest.mark.parametrize(
    ("fields", "error", "sentence"),
    [
        ({"step": 1, "spent": 2}, TypeError, "a Snapshot has no field step, spent; it has state, clock, log, history,"),
        ({"steps": "3"}, TypeError, "steps must be of type int, not '3'"),
        ({"steps": True}, TypeError, "steps must be of type int, not True"),
        ({"budget": {}}, TypeError, "budget must be of type Budget, not {}"),
        ({"not_before": "now"}, TypeError, "not_before must be of type float | None, not 'now'"),
        ({"decisions": [1]}, TypeError, "decisions must be of type tuple[Decision, ...], not [1]"),
        ({"turn": 5}, TypeError, "turn must be what a model replies in PLAIN, a text or a Turn, not 5"),
        ({"history": {}}, TypeError, "history must be the user's text, a list of PLAIN messages or a History, not {}"),
        ({"ids": "abc"}, TypeError, "ids must be a list of texts, not 'abc'"),
        ({"ids": ["a", 1]}, TypeError, "ids must be a list of texts, not ['a', 1]"),
        ({"flights": "lost"}, TypeError, "flights must be a list of phases or Flights, one for each call of the turn,"),
        ({"tools": 5}, TypeError, "tools must be a list of tools, not 5"),
        ({"definition": "x"}, TypeError, "definition must be a Definition, not 'x'"),
        (
            {"policy": "stop", "spent": 1, "calls": None},
            TypeError,
            f"a Snapshot has no field spent; it has {', '.join(attrs.fields_dict(Snapshot))}; "
            "policy must be of type Policy, not 'stop'; calls must be of type int, not None",
        ),
        ({"state": "ghost"}, ValueError, "the definition has no state 'ghost', but checking_cancel, checking_budget, "),
        ({"state": []}, ValueError, "the definition has no state [], but checking_cancel, checking_budget, "),
        ({"flights": ["flying"]}, ValueError, "flights[0] must be a Flight or one of queued, running, lost, answered,"),
        ({"flights": ["lost"]}, ValueError, "flights[0] is 'lost', and the turn asks for 0 calls"),
        (
            {"flights": ["lost"] * 2, "turn": call("a", "b")},
            ValueError,
            "flights[1] is 'lost', and the turn asks for 1 calls",
        ),
    ],
)
def test_what_is_no_snapshot_is_refused(fields: dict[str, Any], error: type[Exception], sentence: str) -> None:
    """With what would have been right."""
    with pytest.raises(error) as caught:
        snapshot(**fields)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("budget", [3, None, {"max_steps": 3}, snapshot])
def test_cases_of_what_is_no_budget_are_refused(budget: Any) -> None:
    """A forgotten pair of parentheses, too, by which the test would be the budget."""
    with pytest.raises(TypeError) as caught:
        guard_cases(budget)
    says = f"guard_cases takes a Budget, as in @guard_cases(Budget(max_steps=3)), not {budget!r}"
    assert str(caught.value) == says
    with pytest.raises(TypeError, match=r"^a Snapshot has no field spent; "):
        guard_cases(spent=3)


# --- boundaries ---------------------------------------------------------------------------------------------


def table(mark: Any) -> list[tuple[Any, ...]]:
    """The cases of a mark: its id, the arguments of the test, and what the snapshot has used."""
    names, cases = mark.args
    assert (mark.name, names) == ("parametrize", ("snapshot", "field", "over"))
    spends = [attrs.astuple(case.values[0].spend)[:5] for case in cases]
    return [(case.id, *case.values[1:], *spend) for case, spend in zip(cases, spends, strict=True)]


def test_the_cases_are_one_below_at_and_one_above_each_limit() -> None:
    """Of whole numbers; of others the next ones. Nothing is used of the other limits."""
    below, above = 2.9999999999999996, 3.0000000000000004
    assert table(guard_cases().mark) == [
        ("max_steps-below", "max_steps", -1, 2, 0, 0.0, 0.0, 0),
        ("max_steps-at", "max_steps", 0, 3, 0, 0.0, 0.0, 0),
        ("max_steps-above", "max_steps", 1, 4, 0, 0.0, 0.0, 0),
        ("max_calls-below", "max_calls", -1, 0, 2, 0.0, 0.0, 0),
        ("max_calls-at", "max_calls", 0, 0, 3, 0.0, 0.0, 0),
        ("max_calls-above", "max_calls", 1, 0, 4, 0.0, 0.0, 0),
        ("max_seconds-below", "max_seconds", -1, 0, 0, below, 0.0, 0),
        ("max_seconds-at", "max_seconds", 0, 0, 0, 3.0, 0.0, 0),
        ("max_seconds-above", "max_seconds", 1, 0, 0, above, 0.0, 0),
        ("max_cost_usd-below", "max_cost_usd", -1, 0, 0, 0.0, below, 0),
        ("max_cost_usd-at", "max_cost_usd", 0, 0, 0, 0.0, 3.0, 0),
        ("max_cost_usd-above", "max_cost_usd", 1, 0, 0, 0.0, above, 0),
        ("max_tokens-below", "max_tokens", -1, 0, 0, 0.0, 0.0, 2),
        ("max_tokens-at", "max_tokens", 0, 0, 0, 0.0, 0.0, 3),
        ("max_tokens-above", "max_tokens", 1, 0, 0, 0.0, 0.0, 4),
    ]


def test_only_the_limits_that_a_budget_sets_have_cases() -> None:
    """With the other fields as given; a field that is itself tried is not."""
    mark = guard_cases(Budget(max_steps=1, max_seconds=10), state="admitting", calls=5, steps=7, turn="done").mark
    shown = ("state", "budget", "turn")
    assert table(mark) == [
        ("max_steps-below", "max_steps", -1, 0, 5, 0.0, 0.0, 0),
        ("max_steps-at", "max_steps", 0, 1, 5, 0.0, 0.0, 0),
        ("max_steps-above", "max_steps", 1, 2, 5, 0.0, 0.0, 0),
        ("max_seconds-below", "max_seconds", -1, 7, 5, math.nextafter(10, 0), 0.0, 0),
        ("max_seconds-at", "max_seconds", 0, 7, 5, 10, 0.0, 0),
        ("max_seconds-above", "max_seconds", 1, 7, 5, math.nextafter(10, 11), 0.0, 0),
    ]
    assert {tuple(getattr(case.values[0], name) for name in shown) for case in mark.args[1]} == {
        ("admitting", Budget(max_steps=1, max_seconds=10), Turn("done", wire="plain"))
    }


@pytest.mark.parametrize("field", ["max_seconds", "max_cost_usd"])
def test_nothing_is_above_the_greatest_number(field: str) -> None:
    """There are no cases of more seconds or dollars than can be."""
    greatest: Any = {field: sys.float_info.max}
    cases = guard_cases(Budget(**greatest)).mark.args[1]
    assert [case.id for case in cases if case.values[1] == field] == [f"{field}-below", f"{field}-at"]
    assert [SPENT[field](case.values[0], polled()) for case in cases[-2:]] == [False, True]


@pytest.mark.parametrize("since", [1.0, -2, 0.1, "now"])
def test_a_run_in_which_seconds_are_tried_began_at_0(since: Any) -> None:
    """The clock is the limit itself, so that what is used is exact; added to another time it would be rounded."""
    with pytest.raises(TypeError) as caught:
        guard_cases(Budget(max_seconds=2.5), since=since)
    says = f"since must be 0 where max_seconds is tried, not {since!r}; clock may be any time"
    assert str(caught.value) == says


def test_elsewhere_a_run_may_have_begun_at_any_time() -> None:
    """And at 0 everywhere."""
    later, first = guard_cases(Budget(max_steps=1), since=2.0), guard_cases(Budget(max_seconds=1.0), since=0.0)
    assert [[one.since for one in _snapshots(cases.mark)] for cases in (later, first)] == [[2.0] * 3, [0.0] * 6]


@pytest.mark.parametrize("limit", [2.5, 10, 1e300, 5e-324, sys.float_info.max, 0.1 + 0.2])
@pytest.mark.parametrize("clock", [0.0, 1.0, -3.5, 2.5, 1e9, 1e308])
def test_seconds_are_used_up_to_the_limit_whatever_the_clock_says(limit: float, clock: float) -> None:
    """It is the clock of the other cases, which try something else."""
    cases = guard_cases(Budget(max_steps=1, max_seconds=limit), clock=clock).mark.args[1]
    assert [case.values[0].clock for case in cases if case.values[1] == "max_steps"] == [clock] * 3
    for shown, field, over in [case.values for case in cases[3:]]:
        seconds = shown.spend.seconds
        assert (field, (seconds > limit) - (seconds < limit)) == ("max_seconds", over)
        assert guards.time_spent(shown, polled()) is (over >= 0)


SPENT = {
    "max_steps": guards.steps_spent,
    "max_seconds": guards.time_spent,
    "max_cost_usd": guards.cost_spent,
    "max_tokens": guards.tokens_spent,
}


@pytest.mark.parametrize("own", SPENT)
@guard_cases()
def test_spent_is_used_up_to_the_limit_or_beyond(snapshot: Snapshot, field: str, over: int, own: str) -> None:
    """Of each budget by its own guard, whatever is used of the others."""
    event: Event = polled()
    assert SPENT[own](snapshot, event) is (field == own and over >= 0)


@guard_cases(policy=Policy(wrap_up=True))
def test_wrapping_up_is_due_one_step_early(snapshot: Snapshot, field: str, over: int) -> None:
    """But once the calls are spent, not before."""
    assert guards.wrap_up_due(snapshot, polled()) is (field == "max_steps" or (field == "max_calls" and over >= 0))


@guard_cases()
def test_calls_are_no_reason_to_stop(snapshot: Snapshot, field: str, over: int) -> None:
    """Nor are steps: those under way may end."""
    counted = field in ("max_seconds", "max_cost_usd", "max_tokens")
    assert rules.stopping(snapshot, 0.0) is (counted and over >= 0)
