"""Worlds: every answer that a host can give, and which rests are the same to the future."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from loopmachine.events import (
    ApprovalGiven,
    CallLost,
    CallReturned,
    CallsResolved,
    CancelPolled,
    CancelRequested,
    ModelFailed,
    ModelReplied,
    Resumed,
)
from loopmachine.history import Ids
from loopmachine.limits import Budget, Policy, Usage
from loopmachine.machine import outstanding
from loopmachine.records import ANSWERED, LOST, RUNNING, Flight, Snapshot, Turn
from loopmachine.requests import PollCancel, Request
from loopmachine.review.world import BATCHES, KINDS, World, call, used
from loopmachine.table import TOOL_LOOP
from tests.facts import exchange, failure, flight, polled, result, snapshot, usage

PLAIN = World(Budget(max_steps=3), Policy())


def events(world: World, at: Snapshot) -> list[Any]:
    """Everything that can happen at a rest."""
    return list(world.events(at, outstanding(TOOL_LOOP, at), TOOL_LOOP.accepts(at.state)))


# --- what can happen --------------------------------------------------------------------------------------


def test_a_poll_brings_a_cancel_or_none_and_another_host_may_come() -> None:
    """At a poll without a deadline it is all that can happen."""
    assert events(PLAIN, PLAIN.start("checking_cancel")) == [
        polled(),
        polled(True, "enough"),
        Resumed(at=0.0),
        Resumed(at=1.0),
    ]


def test_the_clock_stands_before_the_deadline_or_at_it() -> None:
    """Where time is limited, and not spent yet, everything can happen in time or too late, or after a pause."""
    world = World(Budget(max_seconds=2.0), Policy())
    polls = [one for one in events(world, world.start("checking_cancel")) if isinstance(one, CancelPolled)]
    paused = world.start("checking_cancel").but(not_before=1.0)
    late = world.start("checking_cancel").but(clock=2.0)
    assert [one.at for one in polls] == [0.0, 0.0, 2.0, 2.0]
    assert [one.at for one in events(world, paused) if type(one) is CancelPolled] == [0.0, 0.0, 2.0, 2.0, 1.0, 1.0]
    assert [one.at for one in events(world, late) if type(one) is CancelPolled] == [2.0, 2.0]


def test_a_second_budget_comes_once_with_another_host() -> None:
    """A host that comes may bring it, until one has brought it."""
    more = Budget(max_steps=4)
    world = attrs.evolve(PLAIN, second=more)
    start = world.start("checking_cancel")
    brought = [one.budget for one in events(world, start) if type(one) is Resumed]
    later = [one.budget for one in events(world, start.but(budget=more)) if type(one) is Resumed]
    assert (brought, later) == ([None, more, None, more], [None, None])


def test_the_model_brings_every_kind_of_turn_and_every_kind_of_failure() -> None:
    """All that a step can bring: the five kinds of a turn, every batch, a repeated id, and each failure."""
    found = events(PLAIN, snapshot("awaiting_model", steps=1))
    turns = [one.turn for one in found if type(one) is ModelReplied]
    failures = [(one.retryable, one.timed_out, one.retry_after) for one in found if type(one) is ModelFailed]
    assert {turn.kind for turn in turns} == {"final", "malformed", "refused", "truncated", "calls"}
    batches = [tuple(call.name for call in turn.calls) for turn in turns if turn.kind == "calls"]
    assert batches == [*BATCHES, ("once", "once")]
    assert {len(batch) for batch in BATCHES} == {1, 2, 3}
    assert failures == [(False, False, None), (True, True, None), (True, False, None), (True, False, 1.0)]
    assert [one for one in found if type(one) in (CancelRequested, Resumed)] == [
        CancelRequested("enough", at=0.0),
        Resumed(at=0.0),
        Resumed(at=1.0),
    ]


def test_an_id_that_was_used_is_used_again() -> None:
    """As soon as there is one, a turn asks for it once more; and always for one id twice in a turn."""
    asked = events(PLAIN, snapshot("awaiting_model", steps=2, ids=Ids(["c1"])))
    turns = [[call.id for call in one.turn.calls] for one in asked if type(one) is ModelReplied]
    assert (["s2p0", "s2p0"] in turns, ["c1", "s2p1"] in turns) == (True, True)


@pytest.mark.parametrize(
    ("budget", "told"),
    [
        (Budget(), [None]),
        (Budget(max_cost_usd=1.0), [None, usage(5)]),
        (Budget(max_tokens=10), [None, usage(5)]),
        (Budget(max_cost_usd=1.0, max_tokens=10), [None, usage(5), Usage(cost_usd=0.5)]),
        (
            Budget(max_steps=2, max_cost_usd=1.0, max_tokens=10),
            [None, usage(5), Usage(cost_usd=0.5), usage(10, 0.0)],
        ),
    ],
)
def test_usage_is_told_or_not_where_a_budget_needs_it(budget: Budget, told: list[Usage | None]) -> None:
    """A step may say the half of it where two budgets need one half each, and where it is short all tokens for free."""
    world = World(budget, Policy())
    assert list(world.usages) == told
    turns = [one.turn.usage for one in events(world, snapshot("awaiting_model", steps=1)) if type(one) is ModelReplied]
    assert turns[: len(told)] == told


def test_a_running_call_ends_in_every_way() -> None:
    """It is ok, failed, denied, timed out or lost, now or late; what a sub-run spent is told or not."""
    running = snapshot("dispatching", flights=(flight(RUNNING),))
    free = [one for one in events(PLAIN, running) if type(one) in (CallReturned, CallLost)]
    world = World(Budget(max_tokens=10), Policy())
    bound = [one.usage for one in events(world, running) if type(one) is CallReturned]
    assert [getattr(one, "result", None) and one.result.outcome for one in free] == [
        *("ok", "failed", "denied", "timed_out", None)
    ]
    assert bound == [None, None, None, None, Usage(), usage(5)]


def test_approvals_are_given_denied_and_mixed() -> None:
    """Of two calls that somebody is asked about, one or both are decided, in every way, now or after a wait."""
    turn = Turn(calls=(call("asks", "a", 1, 0), call("asks", "b", 1, 1)))
    waiting = snapshot("awaiting_approval", turn=turn, steps=1)
    given = [one for one in events(PLAIN, waiting) if type(one) is ApprovalGiven]
    words = [tuple((word.place, word.approved) for word in one.decisions) for one in given if one.at == 0.0]
    assert words == [
        ((0, True), (1, True)),
        ((0, True), (1, False)),
        ((0, True),),
        ((0, False), (1, True)),
        ((0, False), (1, False)),
        ((0, False),),
        ((1, True),),
        ((1, False),),
    ]
    assert {one.at for one in given} == {0.0, 1.0}


def test_lost_calls_are_resolved_in_every_way() -> None:
    """Each of two is run again, found, unknown or left open, and what was found or is unknown may have spent."""
    world = World(Budget(max_cost_usd=9.0), Policy())
    waiting = snapshot("awaiting_resolution", flights=(flight(LOST, 0), flight(LOST, 1)))
    given = [one for one in events(world, waiting) if type(one) is CallsResolved and one.at == 0.0]
    fates = {tuple((word.rerun, word.result is not None) for word in one.resolutions) for one in given}
    one = {(True, False), (False, True), (False, False)}
    assert fates == {(fate,) for fate in one} | {(fate, other) for fate in one for other in one}
    spent = {word.result.usage for told in given for word in told.resolutions if word.result}
    assert (len(given), spent, [told.usage for told in given if told.usage]) == (16, {usage(5)}, [usage(5)])


def test_a_request_of_ones_own_has_no_answer() -> None:
    """What else is asked there has, and what comes unasked."""
    told = [PLAIN.events(snapshot(), asked, ("Resumed",)) for asked in ((Request(),), (Request(), PollCancel()), ())]
    assert [{type(event) for event in events} for events in told] == [{Resumed}, {CancelPolled, Resumed}, {Resumed}]


def test_a_tool_of_any_name_is_an_ordinary_one() -> None:
    """It is known and its arguments are right, as those of every kind but the two that can not run."""
    runs = {kind: call(kind, "c", 1, 0).known and call(kind, "c", 1, 0).checked is not None for kind in KINDS}
    assert (call("mail", "c", 1, 0).effect, runs) == ("once", {kind: kind not in ("wrong", "absent") for kind in KINDS})


def test_only_what_a_state_accepts_can_happen() -> None:
    """Where a table has no row on a cancel or on another host, neither comes."""
    asked = outstanding(TOOL_LOOP, snapshot())
    assert list(PLAIN.events(snapshot(), asked, ("CancelPolled",))) == [polled(), polled(True, "enough")]


# --- which rests are the same to the future ---------------------------------------------------------------


def ended(outcome: str) -> Flight:
    """A call that has its result."""
    return attrs.evolve(flight(ANSWERED), result=result(flight().call, outcome))


def same(one: Snapshot, other: Snapshot, world: World = PLAIN) -> bool:
    """They are one to the future."""
    return world.key(one) == world.key(other)


def test_names_and_the_past_are_no_difference() -> None:
    """Ids, the history, results and what no budget limits do not tell two rests apart."""
    plain = snapshot(state="dispatching", ids=Ids(["a"]), flights=(ended("ok"),))
    other = plain.but(
        ids=Ids(["b"]),
        history=plain.history.append(exchange(call("once", "old", 1, 0))),
        flights=(ended("failed"),),
        calls=5,
        cost_usd=3.0,
        tokens=7,
        unpriced=1,
        clock=9.0,
        cancel_reason="enough",
    )
    assert same(plain, other)


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "awaiting_model"},
        {"steps": 1},
        {"failure": failure(retryable=True)},
        {"not_before": 1.0},
        {"retries": 1},
        {"repairs": 1},
        {"wrapping": True},
        {"cancelled": True},
        {"tool_calls": (("limited", 1),)},
        {"ids": Ids(["a"])},
        {"turn": Turn("done", stop="stop")},
        {"flights": (flight(RUNNING),)},
        {"turn": Turn(calls=(call("once", "a", 1, 0),))},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_the_future_can_see_is_a_difference(changes: dict[str, Any]) -> None:
    """Each of these tells two rests apart."""
    assert not same(snapshot(), snapshot(**changes))


@pytest.mark.parametrize(
    ("budget", "few", "many"),
    [
        (Budget(max_calls=2), {"calls": 1}, {"calls": 2}),
        (Budget(max_seconds=2.0), {"clock": 1.0}, {"clock": 2.0}),
        (Budget(max_cost_usd=1.0), {"cost_usd": 0.5}, {"cost_usd": 1.0}),
        (Budget(max_tokens=10), {"tokens": 5}, {"tokens": 10}),
        (Budget(max_cost_usd=1.0), {}, {"unpriced": 1}),
        (Budget(max_tokens=10), {}, {"unmetered": 1}),
    ],
)
def test_what_is_spent_counts_where_a_budget_limits_it(budget: Budget, few: Any, many: Any) -> None:
    """And only up to the limit, however far beyond it is."""
    world = World(budget, Policy())
    one, other = snapshot(budget=budget, **few), snapshot(budget=budget, **many)
    beyond = other.but(**{name: 2 * value for name, value in many.items() if name != "calls"})
    assert (same(one, other, world), same(one, other), same(other, beyond, world)) == (False, True, True)


def test_what_a_turn_is_counts_whatever_it_asks_for() -> None:
    """A turn that was cut, and one that can't be used, are no turn of the same calls."""
    asked = (call("once", "a", 1, 0),)
    turns = [Turn(calls=asked), Turn(calls=asked, stop="length"), Turn(calls=asked, fault="text: it is a number")]
    assert len({PLAIN.key(snapshot(turn=turn)) for turn in turns}) == 3


def test_a_second_budget_is_a_difference() -> None:
    """It decides what is spent."""
    world = attrs.evolve(PLAIN, second=Budget(max_steps=1))
    assert not same(world.start("checking_cancel"), world.start("checking_cancel").but(budget=world.second), world)


def test_results_count_where_turns_are_compared() -> None:
    """Under max_identical_turns the latest exchange and the results so far are a difference."""
    policy = Policy(max_identical_turns=1)
    one, other = (snapshot(policy=policy, flights=(ended(outcome),)) for outcome in ("ok", "failed"))
    empty = snapshot(policy=policy)
    told = empty.but(history=empty.history.append(exchange(call("once", "a", 1, 0))))
    assert (same(one, other), same(empty, told)) == (False, False)


def test_guards_of_one_s_own_see_how_often_tools_were_called() -> None:
    """With what they see, rests that differ in it are two; of tools that are not named nothing is seen."""
    empty = snapshot()
    mailed = empty.but(history=empty.history.append(exchange(call("mail", "a", 1, 0))))
    seeing, named, blind = (attrs.evolve(PLAIN, sees=sees) for sees in (used(), used(("mail",)), used(("call",))))
    assert [same(empty, mailed, world) for world in (PLAIN, seeing, named, blind)] == [True, False, False, True]
    assert used()(mailed) == (("mail", "ok"),)
    assert not same(snapshot(flights=(ended("ok"),)), snapshot(flights=(ended("failed"),)), seeing)


def test_a_run_may_go_on_from_a_history() -> None:
    """Then an id is used before it begins."""
    start = attrs.evolve(PLAIN, old=True).start("checking_cancel")
    assert (list(start.ids), len(start.history.entries), start.handed_in) == (["old"], 3, 3)
