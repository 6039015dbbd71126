"""Whole runs in PLAIN, each on threads and on asyncio: how they end, what they spend, what is said and done."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loopmachine import Budget, ModelError, Policy, Tool, tool
from tests.drivers import (
    ASYNC_TASKS,
    ASYNC_THREADS,
    DONE,
    DRIVERS,
    GO,
    THREADS,
    Driver,
    Stage,
    Told,
    Words,
    always,
    brought,
    call,
    calls,
    everywhere,
    spent,
    unpaired,
)
from tests.facts import ASK, REPLY, START

FINAL = "rechecking_cancel/2 validating/8"
RETURNED_ALL = "dispatching/2 collecting/3"
UNKNOWN = Words("there is no tool named 'fly'", "look, boom, deny, pay")
FAILED = "RuntimeError: no route"
DENIED = "not_yours: that is somebody else's"
INVALID = Words("look was not called", "n", "five")

# --- one call, then the answer ----------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [None, Budget(max_calls=1), Budget(max_steps=2), Budget(max_steps=2, max_calls=1)])
def test_one_call_then_the_answer(budget: Budget | None) -> None:
    """Two model calls, and the answer is accepted at the last step and after the last call."""

    def scene(stage: Stage) -> Any:
        return stage.play(call("c1"), DONE, budget=budget), stage.asked, stage.offered

    offered = ["look", "boom", "deny", "pay"]
    assert everywhere(scene) == (
        Told("answered", spent(2, 1), [GO, call("c1"), brought("c1"), DONE], ["look 1"]),
        [[GO], [GO, call("c1"), brought("c1")]],
        [offered, offered],
    )


def test_the_rows_of_one_call_then_the_answer() -> None:
    """The happy path takes the same rows on every host."""
    rows = everywhere(lambda stage: stage.run(call("c1"), DONE).rows)
    assert rows == tuple(f"{ASK} {REPLY} {START} {RETURNED_ALL} {ASK} {REPLY} {FINAL}".split())


def test_what_was_said_beside_a_call_stands_before_it() -> None:
    """The history has of a turn first its text, then its calls, then their results."""
    told = everywhere(lambda stage: stage.play(calls(call("c1"), call("c2", n=2), text="I look."), DONE, at_once=True))
    said = {"kind": "text", "text": "I look."}
    history = [GO, said, call("c1"), call("c2", n=2), brought("c1"), brought("c2", "2"), DONE]
    assert told == Told("answered", spent(2, 2), history, ["look 1", "look 2"])


# --- the call budget --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "result", "effects"),
    [
        (call("c1"), brought("c1"), ["look 1"]),
        (call("c1", "boom"), brought("c1", FAILED, "failed"), ["boom"]),
        (call("c1", "deny"), brought("c1", DENIED, "denied"), ["deny"]),
        (call("c1", "fly"), brought("c1", UNKNOWN, "unknown_tool"), []),
        (call("c1", n="five"), brought("c1", INVALID, "invalid_arguments"), []),
    ],
    ids=["ok", "failing", "denied", "unknown", "invalid"],
)
def test_a_new_call_beyond_the_call_budget_ends_the_run(
    first: dict[str, Any], result: dict[str, Any], effects: list[str]
) -> None:
    """Whatever the first call brought, it used the budget up: the second is neither executed nor in the history."""
    told = everywhere(lambda stage: stage.play(first, call("c2"), DONE, budget=Budget(max_calls=1)))
    assert told == Told("call_budget", spent(2, 1), [GO, first, result], effects)


@pytest.mark.parametrize(
    ("first", "result", "effects"),
    [
        (call("c1", "boom"), brought("c1", FAILED, "failed"), ["boom"]),
        (call("c1", "deny"), brought("c1", DENIED, "denied"), ["deny"]),
        (call("c1", "fly"), brought("c1", UNKNOWN, "unknown_tool"), []),
        (call("c1", n="five"), brought("c1", INVALID, "invalid_arguments"), []),
    ],
    ids=["failing", "denied", "unknown", "invalid"],
)
def test_an_answer_after_the_last_call_is_accepted(
    first: dict[str, Any], result: dict[str, Any], effects: list[str]
) -> None:
    """A call that brought nothing good still lets the model answer."""
    told = everywhere(lambda stage: stage.play(first, DONE, budget=Budget(max_calls=1)))
    assert told == Told("answered", spent(2, 1), [GO, first, result, DONE], effects)


def test_a_batch_beyond_the_call_budget_is_not_executed_at_all() -> None:
    """Two calls where one is left: none of them runs."""
    batch = calls(call("c1"), call("c2"))
    assert everywhere(lambda stage: stage.play(batch, DONE, budget=Budget(max_calls=1))) == Told(
        "call_budget", spent(1), [GO]
    )


def test_excess_calls_can_be_refused_one_by_one() -> None:
    """Under ``excess_calls="refuse"`` those that fit run, the rest are over_budget and not counted."""
    batch = calls(call("c1"), call("c2"), call("c3"))
    refuse = Policy(excess_calls="refuse")
    told = everywhere(lambda stage: stage.play(batch, call("c4"), DONE, budget=Budget(max_calls=1), policy=refuse))
    over = Words("all 1 calls")
    history = [
        GO,
        *batch["calls"],
        brought("c1"),
        brought("c2", over, "over_budget"),
        brought("c3", over, "over_budget"),
    ]
    history += [call("c4"), brought("c4", over, "over_budget"), DONE]
    assert told == Told("answered", spent(3, 1), history, ["look 1"])


def test_wrapping_up_offers_no_tools_once_the_call_budget_is_spent() -> None:
    """Under ``wrap_up`` the last steps offer no tools, and a call made all the same is over_budget and ends nothing."""

    def scene(stage: Stage) -> Any:
        told = stage.play(call("c1"), call("c2"), DONE, budget=Budget(max_calls=1), policy=Policy(wrap_up=True))
        return told, stage.offered

    history = [GO, call("c1"), brought("c1"), call("c2"), brought("c2", Words("no more calls"), "over_budget"), DONE]
    assert everywhere(scene) == (
        Told("answered", spent(3, 1), history, ["look 1"]),
        [["look", "boom", "deny", "pay"], [], []],
    )


# --- an id used again -------------------------------------------------------------------------------------

REPEATED = Words("'c1' was used before")


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ("stop", Told("repeated_call", spent(2, 1), [GO, call("c1"), brought("c1")], ["look 1"])),
        (
            "answer",
            Told(
                "answered",
                spent(3, 1),
                [
                    *(GO, call("c1"), brought("c1")),
                    *(call("c1_s2_0", n=2), brought("c1_s2_0", REPEATED, "repeated"), DONE),
                ],
                ["look 1"],
            ),
        ),
        (
            "rename",
            Told(
                "answered",
                spent(3, 2),
                [GO, call("c1"), brought("c1"), call("c1_s2_0", n=2), brought("c1_s2_0", "2"), DONE],
                ["look 1", "look 2"],
            ),
        ),
    ],
)
def test_the_same_id_again_after_its_result(policy: str, told: Told) -> None:
    """An id used again ends the run, is answered unexecuted, or runs under another id, as the policy says."""
    chosen = Policy(repeated_id=policy)
    assert everywhere(lambda stage: stage.play(call("c1"), call("c1", n=2), DONE, policy=chosen)) == told


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ("stop", Told("repeated_call", spent(1), [GO])),
        (
            "answer",
            Told(
                "answered",
                spent(2, 1),
                [
                    *(GO, call("c1"), call("c1_s1_1", n=2)),
                    *(brought("c1"), brought("c1_s1_1", REPEATED, "repeated"), DONE),
                ],
                ["look 1"],
            ),
        ),
        (
            "rename",
            Told(
                "answered",
                spent(2, 2),
                [GO, call("c1"), call("c1_s1_1", n=2), brought("c1"), brought("c1_s1_1", "2"), DONE],
                ["look 1", "look 2"],
            ),
        ),
    ],
)
def test_the_same_id_twice_in_one_turn(policy: str, told: Told) -> None:
    """Of two calls of one id in a turn none is executed, or the first, or both, as the policy says."""
    twice, chosen = calls(call("c1"), call("c1", n=2)), Policy(repeated_id=policy)
    assert everywhere(lambda stage: stage.play(twice, DONE, policy=chosen, at_once=True)) == told


def test_the_ids_of_a_history_handed_in_count_as_used() -> None:
    """A run that goes on from the history of another ends with repeated_call at an id of that one."""

    def scene(stage: Stage) -> Told:
        first = stage.run(call("c1"), DONE)
        return stage.play(call("c1"), DONE, prompt="more", history=first.history)

    more = {"kind": "user", "text": "more"}
    assert everywhere(scene) == Told("repeated_call", spent(1), [GO, call("c1"), brought("c1"), DONE, more], ["look 1"])


# --- a cancel ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reply", [call("c1"), DONE, calls(call("c1"), call("c2"))], ids=["call", "final", "calls"])
@pytest.mark.parametrize("plain", [False, True], ids=["token", "callable"])
def test_a_cancel_while_the_model_works(reply: dict[str, Any], plain: bool) -> None:
    """Whatever the model then returns, the run is cancelled: no effect, and nothing of it in the history."""

    def scene(stage: Stage) -> Told:
        def cancelling(messages: Any, tools: Any) -> Any:
            stage.token.cancel()
            return reply

        return stage.play(cancelling, DONE, cancel=(lambda: stage.token.cancelled) if plain else stage.token)

    assert everywhere(scene, same_rows=plain) == Told("cancelled", spent(1), [GO])


@pytest.mark.parametrize("plain", [False, True], ids=["token", "callable"])
def test_a_cancel_before_the_first_step(plain: bool) -> None:
    """The model is never asked."""

    def scene(stage: Stage) -> Any:
        stage.token.cancel("enough")
        return stage.play(call("c1"), DONE, cancel=(lambda: True) if plain else stage.token), stage.asked

    assert everywhere(scene) == (Told("cancelled", spent(0), [GO]), [])


def test_the_reason_of_a_cancel_is_kept() -> None:
    """What the token was cancelled with is in the explanation."""

    def scene(stage: Stage) -> Any:
        stage.token.cancel("enough")
        return "enough" in stage.run(DONE, cancel=stage.token).explain()

    assert everywhere(scene) is True


@pytest.mark.parametrize("drivers", [(THREADS, ASYNC_THREADS)])
def test_a_cancel_that_is_seen_once_stays_seen(drivers: Any) -> None:
    """A poll that says yes before the second of two calls, and no ever after: the run is cancelled."""
    batch = calls(call("c1"), call("c2", n=2))

    def scene(stage: Stage) -> Told:
        polls = iter([False, False, True])
        return stage.play(batch, DONE, cancel=lambda: next(polls, False))

    history = [GO, *batch["calls"], brought("c1"), brought("c2", Words("stopped before"), "not_started")]
    assert everywhere(scene, drivers) == Told("cancelled", spent(1, 2), history, ["look 1"])


def test_a_cancel_that_is_seen_once_stays_seen_where_tools_are_tasks() -> None:
    """There the call that had been granted is cut short before it did anything, and its result says so."""
    batch = calls(call("c1"), call("c2", n=2))
    stage = Stage(ASYNC_TASKS)
    polls = iter([False, False, True])
    told = stage.play(batch, DONE, cancel=lambda: next(polls, False))
    short, stopped = Words("cut short"), Words("stopped before")
    history = [GO, *batch["calls"], brought("c1", short, "interrupted"), brought("c2", stopped, "not_started")]
    assert told == Told("cancelled", spent(1, 2), history)


def test_a_cancel_inside_the_second_of_three_calls_one_at_a_time() -> None:
    """The second brings what it brings, the third is not started, and the exchange is whole."""
    batch = calls(call("c1"), call("c2", "stop"), call("c3", n=3))

    def scene(stage: Stage) -> Told:
        @tool
        def stop() -> str:
            """Cancel the run."""
            stage.effects.append("stop")
            stage.token.cancel()
            return "stopped"

        tools = [*stage.tools(), *stage.driver.tools([stop])]
        return stage.play(batch, DONE, tools=tools, policy=Policy(max_parallel=1), cancel=stage.token)

    history = [GO, *batch["calls"], brought("c1"), brought("c2", "stopped")]
    history += [brought("c3", Words("stopped before"), "not_started")]
    told = everywhere(scene, same_rows=False)
    assert told == Told("cancelled", spent(1, 3), history, ["look 1", "stop"])


# --- malformed --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "field"),
    [
        ("done", "reply"),
        (None, "reply"),
        ([DONE], "reply"),
        ({}, "kind"),
        ({"kind": "song", "text": "la"}, "kind"),
        ({"kind": ["final"], "text": "la"}, "kind"),
        ({"kind": "call", "name": "look", "arguments": {}}, "id"),
        ({"kind": "call", "id": " ", "name": "look", "arguments": {}}, "id"),
        ({"kind": "call", "id": 7, "name": "look", "arguments": {}}, "id"),
        ({"kind": "call", "id": "c1", "name": 7, "arguments": {}}, "name"),
        ({"kind": "call", "id": "c1", "arguments": {}}, "name"),
        ({"kind": "call", "id": "c1", "name": "look", "arguments": 7}, "arguments"),
        ({"kind": "calls", "calls": []}, "calls"),
        ({"kind": "calls"}, "calls"),
        ({"kind": "calls", "calls": [call("c1"), {"id": "c2"}]}, "calls[1].name"),
        ({"kind": "tool_calls", "calls": [7]}, "calls[0]"),
        ({"kind": "final"}, "text"),
        ({"kind": "final", "text": " \n"}, "text"),
        ({"kind": "final", "text": 7}, "text"),
        ({"kind": "text", "content": ""}, "content"),
        ({"kind": "final", "text": "done", "calls": [call("c1")]}, "calls"),
        ({"kind": "final", "text": "done", "name": "look", "arguments": {}}, "name"),
        ({"kind": "final", "text": "done", "stop": "tool_calls"}, "calls"),
        ({"kind": "final", "text": "done", "stop": 7}, "stop"),
    ],
)
def test_a_malformed_reply(reply: Any, field: str) -> None:
    """The run ends malformed, nothing is executed or in the history, and the fault begins with the field."""

    def scene(stage: Stage) -> Any:
        result = stage.run(lambda messages, tools: reply)
        turn: Any = result.snapshot.turn
        return stage.told(result), turn.fault.partition(": ")[0]

    assert everywhere(scene) == (Told("malformed", spent(1), [GO]), field)


def test_a_malformed_reply_can_be_repaired() -> None:
    """Under ``repairs`` the model is told what was wrong, in the history, and goes on."""
    note = {"kind": "note", "text": Words("could not be used", "id: it is missing")}
    bad = {"kind": "call", "name": "look", "arguments": {}}
    told = everywhere(lambda stage: stage.play(bad, bad, DONE, policy=Policy(repairs=2)))
    assert told == Told("answered", spent(3), [GO, note, note, DONE])


# --- the model fails --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyError("x"), "KeyError", "'x'"),
        (RuntimeError(), "RuntimeError", ""),
        (ModelError("overloaded", "come back", retryable=True), "overloaded", "come back"),
    ],
)
def test_the_model_raises(error: Exception, code: str, message: str) -> None:
    """The run ends with model_error, one step spent, class and message kept, and the history is as before."""

    def scene(stage: Stage) -> Any:
        result = stage.run(call("c1"), error)
        failure: Any = result.snapshot.failure
        return stage.told(result), (failure.code, failure.message)

    told = Told("model_error", spent(2, 1, unpriced=1, unmetered=1), [GO, call("c1"), brought("c1")], ["look 1"])
    assert everywhere(scene) == (told, (code, message))


def test_a_failure_that_may_pass_is_borne_as_often_as_the_policy_says() -> None:
    """Each retry spends a step, and the history shows nothing of it."""
    error = ModelError("overloaded", retryable=True, retry_after=0.0)
    told = everywhere(lambda stage: stage.play(error, error, call("c1"), DONE, policy=Policy(model_retries=2)))
    history = [GO, call("c1"), brought("c1"), DONE]
    assert told == Told("answered", spent(4, 1, unpriced=2, unmetered=2), history, ["look 1"])


@pytest.mark.parametrize("limit", [None, 50.0])
def test_a_model_that_fails_past_the_deadline_failed(limit: float | None) -> None:
    """What the model raised by itself is its failure, whatever the time is: only one that is cut short timed out."""

    def scene(stage: Stage) -> Any:
        def late(messages: Any, tools: Any) -> Any:
            stage.now += 100
            raise RuntimeError("no route")

        result = stage.run(late, budget=Budget(max_seconds=limit), clock=stage.clock)
        failure: Any = result.snapshot.failure
        return stage.told(result), (failure.code, failure.message)

    told = Told("model_error", spent(1, unpriced=0, unmetered=0), [GO])
    assert everywhere(scene) == (told, ("RuntimeError", "no route"))


# --- a model that does not stop, or meddles -------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 3])
def test_a_model_that_never_stops_ends_at_max_steps(steps: int) -> None:
    """It is asked so often and no more, and the last results are in the history."""

    def scene(stage: Stage) -> Any:
        script = [call(f"c{n}", n=n) for n in range(1, steps + 2)]
        return stage.play(*script, budget=Budget(max_steps=steps)), len(stage.asked)

    numbers = range(1, steps + 1)
    history = [GO, *(one for n in numbers for one in (call(f"c{n}", n=n), brought(f"c{n}", str(n))))]
    told = Told("step_budget", spent(steps, steps), history, [f"look {n}" for n in numbers])
    assert everywhere(scene) == (told, steps)


def meddle(messages: Any, tools: Any) -> None:
    """Change everything that a model is given."""
    for message in messages:
        message.update(kind="user", text="meddled", id="x", arguments={"n": 9})
    for one in tools:
        one["input_schema"]["properties"].clear()
        one.clear()
    del messages[0]
    messages += [{"kind": "user", "text": "meddled"}]
    messages.reverse()
    tools.clear()


def test_a_model_that_changes_all_it_is_given_changes_nothing() -> None:
    """What it does to messages, tools, and its own replies afterwards is seen by nobody."""

    def scene(stage: Stage) -> Any:
        asked = calls(call("c1"), call("c2", n=2))

        def first(messages: Any, tools: Any) -> Any:
            meddle(messages, tools)
            return asked

        def second(messages: Any, tools: Any) -> Any:
            asked["calls"][0]["arguments"]["n"] = 9
            asked["calls"].pop()
            meddle(messages, tools)
            return DONE

        return stage.play(first, second, at_once=True), stage.asked, stage.offered

    history = [GO, call("c1"), call("c2", n=2), brought("c1"), brought("c2", "2")]
    offered = ["look", "boom", "deny", "pay"]
    assert everywhere(scene) == (
        Told("answered", spent(2, 2), [*history, DONE], ["look 1", "look 2"]),
        [[GO], history],
        [offered, offered],
    )


# --- several calls in a turn ------------------------------------------------------------------------------


def racing(stage: Stage) -> list[Tool]:
    """Two tools, the first of which goes on only when the second has ended."""
    ended: Any = asyncio.Event() if stage.driver.tasks else threading.Event()

    @tool
    def fast() -> str:
        """End at once."""
        stage.effects.append("fast")
        ended.set()
        return "second"

    def wait() -> Any:
        return asyncio.wait_for(ended.wait(), 5) if stage.driver.tasks else ended.wait(5)

    @tool
    def slow() -> str:
        """Wait for the other."""
        assert wait()
        stage.effects.append("slow")
        return "first"

    @tool(name="slow")
    async def slow_task() -> str:
        """Wait for the other."""
        await wait()
        stage.effects.append("slow")
        return "first"

    return [slow_task, *stage.driver.tools([fast])] if stage.driver.tasks else [slow, fast]


def test_two_calls_of_a_turn_run_at_once() -> None:
    """The first waits for the second, and their results stand in the order asked for."""
    batch = calls(call("c1", "slow"), call("c2", "fast"))
    told = everywhere(lambda stage: stage.play(batch, DONE, tools=racing(stage)))
    history = [GO, *batch["calls"], brought("c1", "first"), brought("c2", "second"), DONE]
    assert told == Told("answered", spent(2, 2), history, ["fast", "slow"])


def test_an_unknown_and_a_raising_call_beside_a_good_one() -> None:
    """Three results, each saying what happened, and the run goes on."""
    batch = calls(call("c1", "fly"), call("c2", "boom"), call("c3"))
    told = everywhere(lambda stage: stage.play(batch, DONE, at_once=True))
    results = [brought("c1", UNKNOWN, "unknown_tool"), brought("c2", FAILED, "failed"), brought("c3")]
    assert told == Told("answered", spent(2, 3), [GO, *batch["calls"], *results, DONE], ["boom", "look 1"])


@pytest.mark.parametrize(
    ("written", "kept", "sent"),
    [
        ('{"n": 1', '{"n": 1', {}),
        ("[1]", "[1]", {}),
        ("look", "look", {}),
        ('{"n": NaN}', '{"n": NaN}', {}),
        ('{"n": 1, "n": 2}', {"n": 2}, {"n": 2}),
    ],
)
def test_arguments_that_are_no_json_object_are_answered(written: str, kept: Any, sent: Any) -> None:
    """They are never repaired: the model is told, the history keeps what it wrote, what is sent holds an object."""

    def scene(stage: Stage) -> Any:
        told = stage.play({**call("c1"), "arguments": written}, DONE)
        return told, stage.asked[1]

    answer = brought("c1", Words("look was not called"), "invalid_arguments")
    told = Told("answered", spent(2, 1), [GO, {**call("c1"), "arguments": kept}, answer, DONE])
    assert everywhere(scene) == (told, [GO, {**call("c1"), "arguments": sent}, answer])


def test_a_turn_of_invalid_calls_is_answered_without_a_dispatch() -> None:
    """Nothing is started, every call is answered, and the run goes on."""
    batch = calls(call("c1", n="five"), call("c2", "fly"), call("c3", "look", m=1))

    def scene(stage: Stage) -> Any:
        result = stage.run(batch, DONE)
        return stage.told(result), result.rows

    results = [
        brought("c1", INVALID, "invalid_arguments"),
        brought("c2", UNKNOWN, "unknown_tool"),
        brought("c3", Words("look was not called", "m"), "invalid_arguments"),
    ]
    answered = "rechecking_cancel/2 validating/9 admitting/10 collecting/3"
    assert everywhere(scene) == (
        Told("answered", spent(2, 3), [GO, *batch["calls"], *results, DONE]),
        tuple(f"{ASK} {REPLY} {answered} {ASK} {REPLY} {FINAL}".split()),
    )


# --- time, cost and tokens --------------------------------------------------------------------------------

TOKENS = {"input_tokens": 60, "output_tokens": 40}
USED = {"usage": {**TOKENS, "cost_usd": 2.0}}
TIME, COST, TOKEN = Budget(max_seconds=50), Budget(max_cost_usd=2.0), Budget(max_tokens=100)


def taking_time(stage: Stage, reply: Any) -> Callable[[Any, Any], Any]:
    """A reply that takes 50 seconds."""

    def slow(messages: Any, tools: Any) -> Any:
        stage.now += 50
        return reply

    return slow


@pytest.mark.parametrize(("budget", "status"), [(TIME, "time_budget"), (COST, "cost_budget"), (TOKEN, "token_budget")])
def test_a_spent_budget_ends_the_run_before_the_calls_that_were_asked_for(budget: Budget, status: str) -> None:
    """At the gate after the model nothing is executed, and the history is as before."""

    def scene(stage: Stage) -> Told:
        return stage.play(taking_time(stage, call("c1") | USED), DONE, budget=budget, clock=stage.clock)

    used = spent(1, unpriced=0, unmetered=0, cost_usd=2.0, tokens=100)
    assert everywhere(scene) == Told(status, used, [GO])


@pytest.mark.parametrize("budget", [TIME, COST, TOKEN])
def test_an_answer_past_a_spent_budget_is_accepted(budget: Budget) -> None:
    """Final before cap, whatever the answer took and cost."""

    def scene(stage: Stage) -> Told:
        return stage.play(taking_time(stage, DONE | USED), budget=budget, clock=stage.clock)

    used = spent(1, unpriced=0, unmetered=0, cost_usd=2.0, tokens=100)
    assert everywhere(scene) == Told("answered", used, [GO, DONE])


def test_time_that_a_tool_took_ends_the_run_before_the_model_is_asked_again() -> None:
    """The result of the call is in the history, the queued one is not started."""
    batch = calls(call("c1", "wait"), call("c2"))

    def scene(stage: Stage) -> Told:
        @tool(sequential=True)
        def wait() -> str:
            """Take 50 seconds."""
            stage.now += 50
            return "waited"

        tools = [*stage.tools(), *stage.driver.tools([wait])]
        return stage.play(batch, DONE, tools=tools, budget=TIME, clock=stage.clock)

    results = [brought("c1", "waited"), brought("c2", Words("stopped before"), "not_started")]
    assert everywhere(scene) == Told("time_budget", spent(1, 2), [GO, *batch["calls"], *results])


def sleeping(driver: Driver, brings: Any, started: list[str]) -> Callable[[], Any]:
    """What goes on past a deadline of 0.3 seconds, for ever where the driver has tasks."""

    async def task() -> Any:
        started.append("started")
        return await asyncio.sleep(60, brings)

    def thread() -> Any:
        started.append("started")
        time.sleep(0.4)
        return brings

    return task if driver.tasks else thread


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
def test_a_tool_at_the_deadline(driver: Driver) -> None:
    """A sync tool is awaited and its result kept, an async one is cut short; then the time budget ends the run."""
    stage = Stage(driver)
    sleep = Tool("sleep", "Sleep.", {"type": "object"}, sleeping(driver, "slept", stage.effects))
    result = stage.run(call("c1", "sleep"), DONE, tools=[sleep], budget=Budget(max_seconds=0.3))
    short = brought("c1", Words("cut short at the deadline"), "interrupted")
    history = [GO, call("c1", "sleep"), short if driver.tasks else brought("c1", "slept")]
    assert stage.told(result) == Told("time_budget", spent(1, 1), history, ["started"])


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
def test_a_model_at_the_deadline(driver: Driver) -> None:
    """A sync model is awaited and its answer accepted, an async one is cut short: it timed out."""
    stage = Stage(driver)
    sleep = sleeping(driver, DONE, stage.effects)
    result = driver.drive(lambda messages: sleep(), "go", budget=Budget(max_seconds=0.3))
    answered = Told("answered", spent(1), [GO, DONE], ["started"])
    cut = Told("time_budget", spent(1, unpriced=0, unmetered=0), [GO], ["started"])
    assert stage.told(result) == (cut if driver.tasks else answered)


@pytest.mark.parametrize(("budget", "status"), [(COST, "cost_budget"), (TOKEN, "token_budget")])
def test_what_a_malformed_turn_cost_ends_the_run_before_the_repair(budget: Budget, status: str) -> None:
    """At the gate before the model a spent budget ends the run, the note already in the history."""
    bad = {"kind": "calls", "calls": []} | USED
    told = everywhere(lambda stage: stage.play(bad, DONE, budget=budget, policy=Policy(repairs=1)))
    note = {"kind": "note", "text": Words("calls: it is empty")}
    assert told == Told(status, spent(1, unpriced=0, unmetered=0, cost_usd=2.0, tokens=100), [GO, note])


@pytest.mark.parametrize(
    ("usage", "budget", "used"),
    [
        ({}, Budget(max_cost_usd=9.0), spent(1)),
        ({"usage": TOKENS}, Budget(max_cost_usd=9.0), spent(1, unmetered=0, tokens=100)),
        ({}, Budget(max_tokens=900), spent(1)),
        ({"usage": {"cost_usd": 2.0}}, Budget(max_tokens=900), spent(1, unpriced=0, cost_usd=2.0)),
        ({"usage": {"input_tokens": 60, "cost_usd": 2.0}}, Budget(max_tokens=900), spent(1, unpriced=0, cost_usd=2.0)),
    ],
    ids=["no usage, cost", "no cost", "no usage, tokens", "no tokens", "no output"],
)
def test_usage_that_is_missing_under_its_budget_ends_the_run(usage: Any, budget: Budget, used: Any) -> None:
    """What was not reported is never zero: a call is not executed, an answer is accepted."""
    asked = everywhere(lambda stage: stage.play(call("c1") | usage, DONE, budget=budget))
    answered = everywhere(lambda stage: stage.play(DONE | usage, budget=budget))
    assert (asked, answered) == (Told("usage_missing", used, [GO]), Told("answered", used, [GO, DONE]))


@pytest.mark.parametrize("budget", [Budget(max_seconds=50), Budget(max_calls=5)])
def test_usage_that_is_missing_harms_no_other_budget(budget: Budget) -> None:
    """Time and calls are kept without it."""
    told = everywhere(lambda stage: stage.play(call("c1"), DONE, budget=budget))
    assert told == Told("answered", spent(2, 1), [GO, call("c1"), brought("c1"), DONE], ["look 1"])


def test_a_price_fills_in_the_cost() -> None:
    """Where a turn carries tokens but no cost, ``price`` says it; where it does not know, usage is missing."""

    def priced(dollars: float | None) -> Told:
        told: Told = everywhere(
            lambda stage: stage.play(
                call("c1") | {"usage": TOKENS}, DONE | {"usage": TOKENS}, budget=COST, price=lambda usage: dollars
            )
        )
        return told

    whole = [GO, call("c1"), brought("c1"), DONE]
    free = {"unpriced": 0, "unmetered": 0}
    assert (priced(0.5), priced(2.0), priced(None)) == (
        Told("answered", spent(2, 1, **free, cost_usd=1.0, tokens=200), whole, ["look 1"]),
        Told("cost_budget", spent(1, **free, cost_usd=2.0, tokens=100), [GO]),
        Told("usage_missing", spent(1, unmetered=0, tokens=100), [GO]),
    )


# --- approval ---------------------------------------------------------------------------------------------

PAYMENTS = calls(*(call(f"c{n}", "pay", amount=n) for n in (1, 2, 3)))
PAID = [brought("c1", "paid 1"), brought("c2", "too much", "denied"), brought("c3", "paid 3")]


def judge(asked: Any) -> bool | str:
    """Approve odd amounts."""
    return asked.arguments["amount"] != 2 or "too much"


def test_two_of_three_are_approved_and_one_is_denied() -> None:
    """The approved run, the denied is answered with the reason, and the model goes on."""
    told = everywhere(lambda stage: stage.play(PAYMENTS, DONE, approve=judge, at_once=True))
    assert told == Told("answered", spent(2, 3), [GO, *PAYMENTS["calls"], *PAID, DONE], ["pay 1", "pay 3"])


@pytest.mark.parametrize("approve", [None, lambda asked: None], ids=["nobody", "undecided"])
def test_none_is_decided(approve: Any) -> None:
    """The run comes back suspended, nothing executed or counted, and says what it waits for."""

    def scene(stage: Stage) -> Any:
        result = stage.run(PAYMENTS, DONE, approve=approve)
        waits = [[one.arguments for one in request.calls] for request in result.requests]
        return stage.told(result), result.finished, result.text, waits

    told = Told("awaiting_approval", spent(1), [GO])
    assert everywhere(scene) == (told, False, "", [[{"amount": 1}, {"amount": 2}, {"amount": 3}]])


def test_one_is_decided_now_and_one_later() -> None:
    """What was decided is kept and not asked again; nothing runs before all are decided."""

    def scene(stage: Stage) -> Any:
        first = stage.run(PAYMENTS, approve=lambda asked: True if asked.arguments["amount"] == 1 else None)
        then = stage.told(first)
        later: list[int] = []

        def judge_later(asked: Any) -> bool | str:
            later.append(asked.arguments["amount"])
            return judge(asked)

        return then, stage.play(DONE, prompt=None, loop=first.loop, approve=judge_later, at_once=True), later

    told = Told("answered", spent(2, 3), [GO, *PAYMENTS["calls"], *PAID, DONE], ["pay 1", "pay 3"])
    assert everywhere(scene) == (Told("awaiting_approval", spent(1), [GO]), told, [2, 3])


RESUME = """
import json, sys
from loopmachine import Loop
from tests.drivers import DONE, DRIVERS, Stage
from tests.test_scenarios import judge

stage = Stage(DRIVERS[int(sys.argv[1])])
loop = Loop.from_json(sys.stdin.read(), tools=stage.tools())
approved = [call.arguments for request in loop.requests for call in request.calls]
first_asked = []

def model(messages, tools):
    first_asked.append(list(stage.effects))
    return DONE

result = stage.run(model, prompt=None, loop=loop, approve=judge)
history = list(result.history)
print(json.dumps([approved, sorted(first_asked[0]), len(first_asked), result.status, history, result.spend.steps]))
"""


@pytest.mark.parametrize("driver", range(3))
def test_another_process_executes_what_was_approved(driver: int) -> None:
    """A run suspended here goes on from JSON elsewhere: the calls approved are executed before any model is asked."""
    stage = Stage((THREADS, ASYNC_THREADS, ASYNC_TASKS)[driver])
    text = stage.run(PAYMENTS).loop.to_json()
    ran = subprocess.run(
        [sys.executable, "-c", RESUME, str(driver)],
        input=text,
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1],
    )
    amounts = [{"amount": 1}, {"amount": 2}, {"amount": 3}]
    history = [GO, *PAYMENTS["calls"], *PAID, DONE]
    assert json.loads(ran.stdout) == [amounts, ["pay 1", "pay 3"], 1, "answered", history, 2]


def test_a_call_that_could_not_run_is_not_asked_about() -> None:
    """Of two payments only the one whose arguments fit is put to the approver."""
    batch = calls(call("c1", "pay", amount="much"), call("c2", "pay", amount=1))

    def scene(stage: Stage) -> Any:
        asked: list[str] = []

        def approve(one: Any) -> bool:
            asked.append(one.id)
            return True

        return stage.play(batch, DONE, approve=approve), asked

    results = [brought("c1", Words("pay was not called", "amount"), "invalid_arguments"), brought("c2", "paid 1")]
    assert everywhere(scene) == (
        Told("answered", spent(2, 2), [GO, *batch["calls"], *results, DONE], ["pay 1"]),
        ["c2"],
    )


def test_a_call_that_does_not_fit_the_budget_is_not_asked_about() -> None:
    """Under ``excess_calls="refuse"`` only what fits is put to the approver."""

    def scene(stage: Stage) -> Any:
        asked: list[str] = []

        def approve(one: Any) -> bool:
            asked.append(one.id)
            return True

        policy, budget = Policy(excess_calls="refuse"), Budget(max_calls=1)
        return stage.play(PAYMENTS, DONE, approve=approve, policy=policy, budget=budget), asked

    over = [brought(one, Words("all 1 calls"), "over_budget") for one in ("c2", "c3")]
    history = [GO, *PAYMENTS["calls"], brought("c1", "paid 1"), *over, DONE]
    assert everywhere(scene) == (Told("answered", spent(2, 1), history, ["pay 1"]), ["c1"])


# --- the stage itself -------------------------------------------------------------------------------------


def test_what_holds_of_every_run_is_really_looked_at() -> None:
    """Histories with an unpaired call, another order, a missing or a stray result are found."""
    one, two, first, second = call("a"), call("b"), brought("a"), brought("b")
    faulty = [
        [one],
        [one, DONE],
        [first],
        [one, two, second, first],
        [one, first, first],
        [one, two, first, DONE],
        [one, two, first, call("c"), second],
    ]
    assert [len(unpaired(history)) > 0 for history in faulty] == [True] * len(faulty)
    assert unpaired([GO, one, two, first, second, two, second, DONE]) == []


def test_a_run_that_breaks_what_always_holds_is_found() -> None:
    """A model asked more often than the budget and the steps say."""
    result = Stage(THREADS).run(DONE, budget=Budget(max_steps=1))
    assert always(result, asked=2) == ["the model was asked 2 times", "the model was asked 2 times in 1 steps"]
