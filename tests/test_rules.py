"""The rules that guards, updates and requests share: what is spent, which calls may run, which may start now."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from loopmachine import rules
from loopmachine.history import History, Ids
from loopmachine.limits import Budget, Policy, Usage
from loopmachine.records import ANSWERED, LOST, QUEUED, RUNNING, Call, Decision, Final, Note, Snapshot
from tests.facts import (
    HELLO,
    INVALID,
    UNKNOWN_TOOL,
    answer,
    asks,
    begun,
    brought,
    call,
    exchange,
    flight,
    flying,
    result,
    snapshot,
    usage,
)

# --- what is spent ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "cost", "tokens", "unpriced", "unmetered"),
    [
        (Usage(), 1.0, 5, 1, 1),
        (usage(), 1.5, 15, 0, 0),
        (usage(1, 0.0), 1.0, 6, 0, 0),
        (usage(None), 1.5, 5, 0, 1),
        (usage(cost=None), 1.0, 15, 1, 0),
        (Usage(input_tokens=3), 1.0, 5, 1, 1),
    ],
)
def test_usage_that_is_not_told_is_counted_as_missing(
    told: Usage, cost: float, tokens: int, unpriced: int, unmetered: int
) -> None:
    """What is known adds up; what is not is never taken for zero, but counted."""
    before = snapshot(cost_usd=1.0, tokens=5)
    after = before.but(cost_usd=cost, tokens=tokens, unpriced=unpriced, unmetered=unmetered)
    assert before.but(**rules.with_usage(before, told)) == after


@pytest.mark.parametrize(("cost", "times", "total"), [(0.1, 10, 1.0), (0.1, 3, 0.3), (1e-9, 7, 7e-9), (33.3, 3, 99.9)])
def test_what_floats_lose_in_adding_is_not_left_to_spend(cost: float, times: int, total: float) -> None:
    """A budget of so many times a cost is spent after as many."""
    at = snapshot(budget=Budget(max_cost_usd=total))
    spent = []
    for _ in range(times):
        spent.append(rules.cost_spent(at))
        at = at.but(**rules.with_usage(at, usage(cost=cost)))
    assert (at.cost_usd, spent, rules.cost_spent(at)) == (total, [False] * times, True)


@pytest.mark.parametrize(
    ("limit", "costs"), [(1 / 3, [1 / 3]), (0.1 + 0.2, [0.3]), (6e-13, [6e-13]), (2e-12, [1e-12] * 2)]
)
def test_a_cost_that_is_the_limit_spends_it(limit: float, costs: list[float]) -> None:
    """However many digits the two have: they are compared to as many as costs are added up to."""
    at = snapshot(budget=Budget(max_cost_usd=limit))
    spent = []
    for cost in costs:
        spent.append(rules.cost_spent(at))
        at = at.but(**rules.with_usage(at, usage(cost=cost)))
    assert [*spent, rules.cost_spent(at)] == [*[False] * len(costs), True]


@pytest.mark.parametrize(("since", "limit"), [(0.7, 0.1), (0.1, 0.2), (1e9, 0.3)])
def test_the_time_is_spent_at_the_deadline(since: float, limit: float) -> None:
    """Not a moment later, though the difference of the two is less than the limit in floats; not one before."""
    at = snapshot(since=since, clock=since, budget=Budget(max_seconds=limit))
    deadline = since + limit
    assert at.deadline == deadline
    assert [rules.time_spent(at, one) for one in (math.nextafter(deadline, 0), deadline)] == [False, True]
    assert rules.time_spent(at.but(clock=deadline), since)


@pytest.mark.parametrize(
    ("fields", "at", "stops"),
    [
        ({}, 9.0, False),
        ({"cancelled": True}, 0.0, True),
        ({"budget": Budget(max_seconds=9.0)}, 8.9, False),
        ({"budget": Budget(max_seconds=9.0)}, 9.0, True),
        ({"budget": Budget(max_cost_usd=1.0), "cost_usd": 0.9}, 0.0, False),
        ({"budget": Budget(max_cost_usd=1.0), "cost_usd": 1.0}, 0.0, True),
        ({"budget": Budget(max_cost_usd=1.0), "unpriced": 1}, 0.0, True),
        ({"budget": Budget(max_tokens=9), "tokens": 8}, 0.0, False),
        ({"budget": Budget(max_tokens=9), "tokens": 9}, 0.0, True),
        ({"budget": Budget(max_tokens=9), "unmetered": 1}, 0.0, True),
        ({"unpriced": 1, "unmetered": 1, "cost_usd": 1e9, "tokens": 10**9}, 1e9, False),
        ({"budget": Budget(max_steps=1, max_calls=1), "steps": 1, "calls": 1}, 0.0, False),
    ],
)
def test_what_forbids_any_further_effect(fields: dict[str, Any], at: float, stops: bool) -> None:
    """A cancel, or a budget that tools use, spent or unknown; never the steps or the calls."""
    assert rules.stopping(snapshot(**fields), at) is stops


# --- which calls may run ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("used", "ids", "repeated"),
    [
        ("", "a", [False]),
        ("a", "a", [True]),
        ("b", "a", [False]),
        ("", "abc", [False, False, False]),
        ("", "aba", [False, False, True]),
        ("", "aaa", [False, True, True]),
        ("b", "abab", [False, True, True, True]),
        ("b", "", []),
    ],
)
def test_an_id_is_repeated_in_the_run_or_in_the_turn(used: str, ids: str, repeated: list[bool]) -> None:
    """Of an id that was never used before only the first call is no repeat."""
    calls = tuple(call(place, id=one) for place, one in enumerate(ids))
    assert rules.repeats(snapshot(ids=Ids(used)), calls) == repeated


def admitted(calls: list[Call], /, **fields: Any) -> list[tuple[str | None, bool]]:
    """What admission says of the calls of a turn: outcome, and whether it is counted."""
    return [(found.outcome, found.counted) for found in rules.verdicts(brought(asks(*calls), **fields), tuple(calls))]


RUNS, OVER, REPEATED = (None, True), ("over_budget", False), ("repeated", False)
REFUSE, THREE = Policy(excess_calls="refuse"), [call(), call(1), call(2)]
ANSWER = Policy(repeated_id="answer")


@pytest.mark.parametrize(
    ("calls", "fields", "verdicts"),
    [
        (THREE, {}, [RUNS, RUNS, RUNS]),
        ([], {}, []),
        ([call(**UNKNOWN_TOOL)], {}, [("unknown_tool", True)]),
        ([call(known=False)], {}, [("unknown_tool", True)]),
        ([call(**INVALID)], {}, [("invalid_arguments", True)]),
        ([call(needs_approval=True)], {}, [RUNS]),
        ([call(needs_approval=True)], {"decisions": (Decision(1, 0, approved=True),)}, [RUNS]),
        ([call(needs_approval=True)], {"decisions": (Decision(1, 0, approved=False),)}, [("denied", True)]),
        ([call()], {"decisions": (Decision(1, 0, approved=False),)}, [RUNS]),
        (THREE, {"wrapping": True}, [OVER, OVER, OVER]),
        (THREE, {"calls": 9, "budget": Budget(max_calls=1)}, [RUNS, RUNS, RUNS]),
        (THREE, {"policy": REFUSE}, [RUNS, RUNS, RUNS]),
        (THREE, {"policy": REFUSE, "budget": Budget(max_calls=4)}, [RUNS, RUNS, RUNS]),
        (THREE, {"policy": REFUSE, "budget": Budget(max_calls=3)}, [RUNS, RUNS, RUNS]),
        (THREE, {"policy": REFUSE, "budget": Budget(max_calls=2)}, [RUNS, RUNS, OVER]),
        (THREE, {"policy": REFUSE, "budget": Budget(max_calls=3), "calls": 1}, [RUNS, RUNS, OVER]),
        (THREE, {"policy": REFUSE, "budget": Budget(max_calls=3), "calls": 3}, [OVER, OVER, OVER]),
        (THREE, {"policy": REFUSE, "budget": Budget(max_calls=3), "calls": 4}, [OVER, OVER, OVER]),
        ([call(limit=2), call(1, limit=2), call(2, limit=2)], {}, [RUNS, RUNS, OVER]),
        ([call(limit=2), call(1, limit=2)], {"tool_calls": (("look", 1),)}, [RUNS, OVER]),
        ([call(limit=2), call(1, limit=2)], {"tool_calls": (("find", 2),)}, [RUNS, RUNS]),
        ([call(limit=1, **INVALID), call(1, limit=1)], {}, [("invalid_arguments", True), OVER]),
        ([call(limit=1), call(1, name="find", limit=1)], {}, [RUNS, RUNS]),
        (
            [call(limit=1), call(1, limit=1), call(2, name="find")],
            {"policy": REFUSE, "budget": Budget(max_calls=2)},
            [RUNS, OVER, RUNS],
        ),
        ([call(), call(1, id="x")], {"ids": Ids(["c1_0"]), "policy": ANSWER}, [REPEATED, RUNS]),
        ([call(), call(1, id="c1_0")], {"policy": ANSWER}, [RUNS, REPEATED]),
        ([call(), call(1, id="c1_0")], {"policy": ANSWER, "wrapping": True}, [OVER, REPEATED]),
        ([call(), call(1, id="c1_0")], {"policy": Policy(repeated_id="rename")}, [RUNS, RUNS]),
        (
            [call(), call(1), call(2, id="x")],
            {
                "ids": Ids(["c1_0"]),
                "budget": Budget(max_calls=1),
                "policy": Policy(excess_calls="refuse", repeated_id="answer"),
            },
            [REPEATED, RUNS, OVER],
        ),
    ],
)
def test_admission_call_by_call(
    calls: list[Call], fields: dict[str, Any], verdicts: list[tuple[str | None, bool]]
) -> None:
    """Each call in order: may it run, or what is it answered; and does it count."""
    assert admitted(calls, **fields) == verdicts


@pytest.mark.parametrize(
    ("one", "fields", "told"),
    [
        (call(), {}, (None, "", "")),
        (call(**UNKNOWN_TOOL), {}, ("unknown_tool", "there is no tool named 'look'", "")),
        (call(known=False, problem="there is find"), {}, ("unknown_tool", "there is find", "")),
        (call(**INVALID), {}, ("invalid_arguments", "n: missing", "")),
        (
            call(needs_approval=True),
            {"decisions": (Decision(1, 0, approved=False),)},
            ("denied", "this call was not approved", "not_approved"),
        ),
        (
            call(needs_approval=True),
            {"decisions": (Decision(1, 0, approved=False, reason=" \n"),)},
            ("denied", "this call was not approved", "not_approved"),
        ),
        (
            call(needs_approval=True),
            {"decisions": (Decision(1, 0, approved=False, reason="too dear"),)},
            ("denied", "too dear", "not_approved"),
        ),
        (call(), {"wrapping": True}, ("over_budget", "no more calls can be made; answer with what you have", "")),
        (
            call(limit=2),
            {"tool_calls": (("look", 2),)},
            ("over_budget", "look may be called 2 times in a run", ""),
        ),
        (
            call(),
            {"calls": 3, "policy": REFUSE, "budget": Budget(max_calls=3)},
            ("over_budget", "all 3 calls of this run are used", ""),
        ),
        (
            call(id="x"),
            {"ids": Ids("x"), "policy": ANSWER},
            ("repeated", "the id 'x' was used before; not executed", ""),
        ),
    ],
)
def test_a_call_that_cannot_run_is_told_why(
    one: Call, fields: dict[str, Any], told: tuple[str | None, str, str]
) -> None:
    """The model reads a sentence that says what was wrong and what would be right."""
    found = rules.verdicts(brought(asks(one), **fields), (one,))[0]
    assert (found.outcome, found.content, found.code) == told


def sent(used: str, ids: list[str], policy: str = "rename") -> list[str]:
    """The ids that are sent back for calls that bear these ids."""
    calls = tuple(call(place, id=one) for place, one in enumerate(ids))
    run = snapshot(ids=Ids(used.split()), policy=Policy(repeated_id=policy))
    return [one.wire_id for one in rules.with_free_ids(run, calls)]


@pytest.mark.parametrize("policy", ["answer", "rename"])
@pytest.mark.parametrize(
    ("used", "ids", "expected"),
    [
        ("", ["a"], ["a"]),
        ("b", ["a"], ["a"]),
        ("a", ["a"], ["a_s1_0"]),
        ("", ["a", "a"], ["a", "a_s1_1"]),
        ("a", ["a", "b", "a"], ["a_s1_0", "b", "a_s1_2"]),
        ("a a_s1_0", ["a"], ["a_s1_0_1"]),
        ("a a_s1_0 a_s1_0_1", ["a"], ["a_s1_0_2"]),
        ("a", ["a", "a_s1_0"], ["a_s1_0_1", "a_s1_0"]),
        ("", ["", ""], ["", "call_s1_1"]),
    ],
)
def test_a_repeated_id_is_sent_back_as_a_free_one(policy: str, used: str, ids: list[str], expected: list[str]) -> None:
    """An id of the run, or of an earlier call of the turn, gets one that neither has."""
    assert sent(used, ids, policy) == expected


def test_calls_with_fresh_ids_are_the_same_calls() -> None:
    """Where no id is repeated nothing is copied."""
    calls = (call(), call(1))
    assert rules.with_free_ids(snapshot(policy=Policy(repeated_id="rename")), calls) is calls


@pytest.mark.parametrize("one", ["a", "", "a" * 200, "call.7:x", "Aufruf ü", "chatcmpl-tool-0123456789abcdef"])
def test_a_free_id_is_short_and_plain(one: str) -> None:
    """An id that is made up is at most 40 letters, digits, _ or -, whatever it is made from."""
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,40}", rules.free_id(call(7, id=one, step=123), Ids()))


@pytest.mark.parametrize("key", [(1, 0), (1, 1), (2, 0)])
def test_a_decision_is_on_one_call(key: tuple[int, int]) -> None:
    """A word counts for the step and the place that it names."""
    words = (Decision(1, 0, approved=True), Decision(1, 1, approved=False))
    found = rules.decision(snapshot(decisions=words), call(key[1], step=key[0]))
    assert found == {(1, 0): words[0], (1, 1): words[1]}.get(key)


def test_the_undecided_are_asked_for_in_order() -> None:
    """Of several calls those that could run, need approval and have no word yet."""
    calls = [call(place, needs_approval=place != 1) for place in range(5)]
    calls[3] = call(3, needs_approval=True, **INVALID)
    run = brought(asks(*calls), decisions=(Decision(1, 2, approved=True),))
    assert (rules.undecided(run), rules.undecided(begun())) == ((calls[0], calls[4]), ())


Q, R, L, A = QUEUED, RUNNING, LOST, ANSWERED


@pytest.mark.parametrize(
    ("phases", "alone", "policy", "places"),
    [
        ([], "", {}, []),
        ([A, R, L], "", {}, []),
        ([Q], "", {}, [0]),
        ([Q, Q, Q], "", {}, [0, 1, 2]),
        ([R, Q, A, Q, L, Q], "", {}, [1, 3, 5]),
        ([R, Q, Q], "", {"max_parallel": 2}, [1]),
        ([R, Q, Q], "", {"max_parallel": 1}, []),
        ([A, Q, Q], "", {"max_parallel": 1}, [1]),
        ([L, Q, Q], "", {"max_parallel": 1}, [1]),
        ([R, R, Q], "", {"max_parallel": 2}, []),
        ([Q, Q], "", {"batch": "sequential"}, [0]),
        ([R, Q], "", {"batch": "sequential"}, []),
        ([A, Q, Q], "", {"batch": "sequential", "max_parallel": 8}, [1]),
        ([Q], "0", {}, [0]),
        ([R, Q], "1", {}, []),
        ([R, Q], "0", {}, []),
        ([Q, Q, Q], "0", {}, [0]),
        ([Q, Q, Q], "1", {}, [0]),
        ([A, Q, Q], "1", {}, [1]),
        ([R, Q, Q], "1", {}, []),
        ([A, A, Q], "1", {}, [2]),
        ([Q, Q], "01", {}, [0]),
    ],
)
def test_the_queued_calls_that_fit_start_in_order(
    phases: list[str], alone: str, policy: dict[str, Any], places: list[int]
) -> None:
    """No more run at once than may; one that runs alone is overtaken by none and has none beside it."""
    flights = [flight(phase, place, alone=str(place) in alone) for place, phase in enumerate(phases)]
    found = rules.startable(flying(*flights, policy=Policy(**policy)))
    assert [one.call.place for one in found] == places


# --- what becomes of calls under way ----------------------------------------------------------------------


@pytest.mark.parametrize("losses", [0, 1, 2])
@pytest.mark.parametrize("effect", ["read", "idempotent", "transactional", "once"])
def test_a_lost_call_runs_once_more_where_that_is_safe(effect: str, losses: int) -> None:
    """Only a read or idempotent call, and only after its first loss."""
    assert rules.rerun_safe(flight(RUNNING, 0, losses, effect=effect)) is (
        (effect, losses) in {("read", 0), ("idempotent", 0)}
    )


LAST = exchange(call())


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        ([], None),
        ([HELLO], None),
        ([HELLO, LAST], LAST),
        ([HELLO, LAST, Note("no"), Note("no")], LAST),
        ([HELLO, exchange(call(1)), LAST], LAST),
        ([HELLO, LAST, Final(answer())], None),
        ([HELLO, LAST, HELLO], None),
        ([Note("no")], None),
    ],
)
def test_the_last_exchange_is_the_one_that_only_notes_follow(entries: list[Any], found: Any) -> None:
    """Whatever else was said since ends the row of exchanges."""
    assert rules.last_exchange(History(entries)) == found


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ([call()], [call(step=2, id="other")], True),
        ([call()], [call(arguments_text=" {}")], True),
        ([call(**INVALID)], [call(**INVALID)], True),
        ([call(arguments_text="1", **INVALID)], [call(arguments_text="2", **INVALID)], False),
        ([call()], [call(name="find")], False),
        ([call()], [call(checked='{"n":1}')], False),
        ([call()], [call(), call(1)], False),
        ([call(), call(1, name="find")], [call(name="find"), call(1)], False),
        ([], [], True),
    ],
)
def test_calls_are_the_same_by_tool_and_arguments(one: list[Call], other: list[Call], same: bool) -> None:
    """Neither ids nor the way arguments are written make a difference; the order does."""
    assert rules.same_calls(asks(*one), asks(*other)) is same


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (exchange(call(step=2, id="other")), True),
        (exchange(call(), content="2"), False),
        (exchange(call(name="find")), False),
        (type(LAST)(LAST.turn, (result(call(), "failed"),)), False),
    ],
)
def test_exchanges_are_the_same_by_calls_and_results(other: Any, same: bool) -> None:
    """Outcome and content of every result count."""
    assert rules.same_exchange(LAST, other) is same


def test_rules_change_nothing() -> None:
    """Whatever is asked, the snapshot stays as it was."""
    run: Snapshot = flying(flight(RUNNING), flight(QUEUED, 1), ids=Ids(["c1_0"]), policy=ANSWER)
    before = hash(run)
    rules.verdicts(run, asks(call()).calls)
    rules.startable(run)
    rules.with_free_ids(run, asks(call()).calls)
    assert hash(run) == before
