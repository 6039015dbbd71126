"""Small walks over what the model brings: one call and the answer, failures, nonsense, wrapping up, budgets."""

from __future__ import annotations

from typing import Any

import pytest

from loopmachine.events import Event
from loopmachine.limits import Budget, Policy
from loopmachine.records import QUEUED, RUNNING, Turn
from loopmachine.requests import (
    AskModel,
    PollCancel,
    StartCalls,
)
from tests.facts import (
    ASK,
    ASK_LAST,
    CALLS,
    DONE,
    ONE,
    POLL,
    REPLY,
    RETURNED_LAST,
    START,
    answer,
    asked,
    asks,
    begun,
    brought,
    call,
    failed,
    flight,
    flying,
    malformed,
    polled,
    replied,
    returned,
    said,
    steps,
    usage,
    walk,
)

# --- the whole of a run -----------------------------------------------------------------------------------


def test_one_call_and_the_answer() -> None:
    """The happy path: ask, start, collect, ask again, answer; with every limit at the edge."""
    budget = Budget(max_steps=2, max_calls=1, max_seconds=9.0)
    end, walked = walk(
        begun(budget=budget),
        polled(at=1.0),
        replied(asks(ONE, text="let me look"), at=2.0),
        polled(at=3.0),
        returned(ONE, at=4.0),
        polled(at=5.0),
        replied(answer(), at=100.0),
        polled(at=101.0),
    )
    assert walked == [
        ("awaiting_model", ASK, (AskModel(1, "auto", 9.0),)),
        ("rechecking_cancel", REPLY, POLL),
        ("dispatching", START, (StartCalls((ONE,), 9.0),)),
        ("checking_cancel", RETURNED_LAST, POLL),
        ("awaiting_model", ASK, (AskModel(2, "auto", 9.0),)),
        ("rechecking_cancel", REPLY, POLL),
        DONE,
    ]
    assert (said(end), end.spend.steps, end.spend.calls, end.spend.seconds) == (
        ["user hello", "text let me look", "call c1_0", "tool_result ok c1_0", "final done"],
        2,
        1,
        101.0,
    )


# --- the model fails --------------------------------------------------------------------------------------


def test_a_failure_that_may_pass_is_retried_after_its_pause() -> None:
    """Only the poll after a retry waits for the pause; each retry spends a step and the last failure ends the run."""
    fails: dict[str, Any] = {"retryable": True, "retry_after": 3.0}
    end, walked = walk(
        begun(policy=Policy(model_retries=1)),
        polled(),
        failed(2.0, **fails),
        polled(at=2.5),
        polled(at=5.0),
        failed(6.0, **fails),
        polled(at=6.5),
    )
    assert walked == [
        ("awaiting_model", ASK, (AskModel(1),)),
        ("rechecking_cancel", "awaiting_model/2", POLL),
        ("checking_cancel", "rechecking_cancel/2 validating/1", (PollCancel(5.0),)),
        ("awaiting_model", ASK, (AskModel(2),)),
        ("rechecking_cancel", "awaiting_model/2", POLL),
        ("finished_model_error", "rechecking_cancel/2 validating/3", ()),
    ]
    assert (said(end), end.steps, end.spend.unpriced) == (["user hello"], 2, 0)


def test_a_pause_ends_at_the_deadline() -> None:
    """A retry that the time budget does not permit is not waited for."""
    end, walked = walk(
        begun(policy=Policy(model_retries=1), budget=Budget(max_seconds=4.0)),
        *(polled(), failed(2.0, retryable=True, retry_after=3600.0), polled(at=2.5), polled(at=4.0)),
    )
    assert (walked[2][2], end.state) == ((PollCancel(4.0),), "finished_time_budget")


def test_a_turn_forgives_the_failures_before_it() -> None:
    """Retries are counted in a row: after a turn there are as many as at first, and no pause is left."""
    fails = failed(retryable=True, retry_after=3.0)
    walked = steps(
        begun(policy=Policy(model_retries=1)),
        *(polled(), fails, polled(), polled(), replied(asks(call(step=2))), polled(), returned(call(step=2))),
        *(polled(), fails, polled()),
    )
    assert [(step[0], step[2]) for step in walked[3:]] == [
        ("awaiting_model", (AskModel(2),)),
        ("rechecking_cancel", POLL),
        ("dispatching", (StartCalls((call(step=2),)),)),
        ("checking_cancel", POLL),
        ("awaiting_model", (AskModel(3),)),
        ("rechecking_cancel", POLL),
        ("checking_cancel", (PollCancel(3.0),)),
    ]


@pytest.mark.parametrize(
    ("fields", "event", "end", "row"),
    [
        ({}, failed(retryable=True), "finished_model_error", 3),
        ({"policy": Policy(model_retries=1)}, failed(), "finished_model_error", 3),
        ({}, failed(timed_out=True), "finished_time_budget", 2),
        ({"policy": Policy(model_retries=1), "steps": 10}, failed(retryable=True), "finished_model_error", 3),
        (
            {"policy": Policy(model_retries=1), "budget": Budget(max_cost_usd=1.0)},
            failed(retryable=True, usage=usage(cost=None)),
            "finished_model_error",
            3,
        ),
        ({"policy": Policy(model_retries=1)}, failed(retryable=True, timed_out=True), "checking_cancel", 1),
    ],
)
def test_what_a_failure_leads_to(fields: dict[str, Any], event: Event, end: str, row: int) -> None:
    """A retry needs a failure that may pass, a policy, a step and the usage; else the failure ends the run."""
    assert steps(asked(**fields), event, polled())[1][:2] == (end, f"rechecking_cancel/2 validating/{row}")


def test_nonsense_is_answered_with_what_was_wrong() -> None:
    """A malformed turn is repaired as often in a row as the policy says, each at a step, each with a note."""
    nonsense, policy = replied(malformed("id: it is blank")), Policy(repairs=1)
    end, walked = walk(begun(policy=policy), polled(), nonsense, polled(), polled(), nonsense, polled())
    assert walked == [
        ("awaiting_model", ASK, (AskModel(1),)),
        ("rechecking_cancel", REPLY, POLL),
        ("checking_cancel", "rechecking_cancel/2 validating/6", POLL),
        ("awaiting_model", ASK, (AskModel(2),)),
        ("rechecking_cancel", REPLY, POLL),
        ("finished_malformed", "rechecking_cancel/2 validating/7", ()),
    ]
    assert said(end) == ["user hello", "note Your last reply could not be used: id: it is blank."]


@pytest.mark.parametrize(
    ("turn", "end", "row"),
    [
        (answer(stop="length"), "finished_incomplete", 4),
        (asks(ONE, stop="max_tokens"), "finished_incomplete", 4),
        (answer(stop="refusal"), "finished_refused", 5),
        (malformed(), "finished_malformed", 7),
        (answer(), "finished_answered", 8),
    ],
)
def test_what_a_turn_leads_to(turn: Turn, end: str, row: int) -> None:
    """A cut turn runs nothing, whatever it holds; only an answer enters the history."""
    run, walked = walk(asked(), replied(turn), polled())
    assert (walked[1], len(run.history)) == (
        (end, f"rechecking_cancel/2 validating/{row}", ()),
        2 if end == "finished_answered" else 1,
    )


# --- wrapping up ------------------------------------------------------------------------------------------


def test_the_last_step_offers_no_tools() -> None:
    """Under wrap_up the last permitted step is to be the answer; a call made all the same ends nothing."""
    end, walked = walk(
        begun(policy=Policy(wrap_up=True), budget=Budget(max_steps=2, max_calls=1)),
        *(polled(), replied(asks(ONE)), polled(), returned(ONE)),
        *(polled(), replied(asks(call(step=2))), polled(), polled()),
    )
    assert walked[4:] == [
        ("awaiting_model", ASK_LAST, (AskModel(2, "none"),)),
        ("rechecking_cancel", REPLY, POLL),
        ("checking_cancel", f"{CALLS} admitting/10 collecting/3", POLL),
        ("finished_step_budget", "checking_cancel/2 checking_budget/5", ()),
    ]
    assert (said(end)[3:], end.calls) == (["call c2_0", "tool_result over_budget c2_0"], 1)


def test_every_step_after_the_last_call_offers_no_tools() -> None:
    """Under wrap_up the model is asked on without tools once the call budget is spent, until it answers."""
    walked = steps(
        begun(policy=Policy(wrap_up=True), budget=Budget(max_calls=1)),
        *(polled(), replied(asks(ONE)), polled(), returned(ONE)),
        *(polled(), replied(asks(call(step=2))), polled()),
        *(polled(), replied(answer()), polled()),
    )
    assert [step[2] for step in walked if step[0] == "awaiting_model"] == [
        (AskModel(1),),
        (AskModel(2, "none"),),
        (AskModel(3, "none"),),
    ]
    assert walked[-1] == DONE


# --- budgets ----------------------------------------------------------------------------------------------

USED = answer(usage=usage(10, 0.5))
LIMITS = {
    "time": (Budget(max_seconds=3.0), "finished_time_budget", 1, 4),
    "cost": (Budget(max_cost_usd=0.5), "finished_cost_budget", 3, 6),
    "tokens": (Budget(max_tokens=10), "finished_token_budget", 4, 7),
}


@pytest.mark.parametrize(("budget", "end", "gate", "admission"), LIMITS.values(), ids=LIMITS)
def test_a_budget_that_is_spent_ends_the_run_at_the_next_gate(
    budget: Budget, end: str, gate: int, admission: int
) -> None:
    """Before the next step and before any call; but an answer that was received is accepted."""
    spent: dict[str, Any] = {"budget": budget, "cost_usd": 0.5, "tokens": 10}
    late = polled(at=3.0)
    assert [
        steps(begun(**spent), late),
        steps(brought(asks(ONE), **spent), late),
        steps(brought(answer(), **spent), late),
    ] == [
        [(end, f"checking_cancel/2 checking_budget/{gate}", ())],
        [(end, f"{CALLS} admitting/{admission}", ())],
        [DONE],
    ]


@pytest.mark.parametrize("budget", [budget for budget, *_ in LIMITS.values()], ids=LIMITS)
def test_a_budget_that_is_not_quite_spent_ends_nothing(budget: Budget) -> None:
    """One below the limit the run goes on, at either gate."""
    spent: dict[str, Any] = {"budget": budget, "cost_usd": 0.499, "tokens": 9}
    early = polled(at=2.999)
    assert [
        steps(begun(**spent), early)[0][0],
        steps(brought(asks(ONE), **spent), early)[0][0],
    ] == ["awaiting_model", "dispatching"]


@pytest.mark.parametrize(
    ("budget", "told", "missing"),
    [
        (Budget(max_cost_usd=1.0), None, True),
        (Budget(max_cost_usd=1.0), usage(10, None), True),
        (Budget(max_cost_usd=1.0), usage(None, 0.5), False),
        (Budget(max_tokens=100), None, True),
        (Budget(max_tokens=100), usage(None, 0.5), True),
        (Budget(max_tokens=100), usage(10, None), False),
        (Budget(max_seconds=9.0), None, False),
    ],
)
def test_usage_that_a_budget_needs_and_nobody_told_ends_the_run(budget: Budget, told: Any, missing: bool) -> None:
    """At the next gate, never as zero; an answer is accepted all the same."""
    run = asked(budget=budget)
    calls = steps(run, replied(asks(ONE, usage=told)), polled())[1][0]
    final = steps(run, replied(answer(usage=told)), polled())[1]
    assert (calls, final) == ("finished_usage_missing" if missing else "dispatching", DONE)


def test_the_usage_of_a_sub_run_is_counted_before_the_next_call_starts() -> None:
    """A result that spends the budget closes the rest, and the gate before the next step ends the run."""
    start = flying(flight(RUNNING), flight(QUEUED, 1), budget=Budget(max_cost_usd=0.5), policy=Policy(max_parallel=1))
    end, walked = walk(start, returned(ONE, usage=usage()), polled())
    assert (walked, [message["outcome"] for message in end.history[3:]]) == (
        [
            ("checking_cancel", "dispatching/1 collecting/3", POLL),
            ("finished_cost_budget", "checking_cancel/2 checking_budget/3", ()),
        ],
        ["ok", "not_started"],
    )


def test_the_steps_are_counted_when_the_model_is_asked() -> None:
    """A run of one step keeps the result of its call and is not asked again; failures and nonsense count."""
    end, walked = walk(
        begun(budget=Budget(max_steps=1)), polled(), replied(asks(ONE)), polled(), returned(ONE), polled()
    )
    assert (walked[-1], said(end)) == (
        ("finished_step_budget", "checking_cancel/2 checking_budget/5", ()),
        ["user hello", "call c1_0", "tool_result ok c1_0"],
    )


def test_the_first_reason_in_the_order_of_the_table_is_the_status() -> None:
    """Where everything is spent at once, time is named before usage, cost, tokens and steps."""
    everything = Budget(max_steps=1, max_seconds=1.0, max_cost_usd=1.0, max_tokens=1)
    spent: dict[str, Any] = {"steps": 1, "cost_usd": 1.0, "tokens": 1, "unpriced": 1}
    ends = []
    for budget, facts in (
        (everything, spent),
        (Budget(max_steps=1, max_cost_usd=1.0, max_tokens=1), spent),
        (Budget(max_steps=1, max_cost_usd=1.0, max_tokens=1), {**spent, "unpriced": 0}),
        (Budget(max_steps=1, max_tokens=1), {**spent, "unpriced": 0}),
        (Budget(max_steps=1), spent),
    ):
        ends.append(steps(begun(budget=budget, **facts), polled(at=1.0))[0][0].removeprefix("finished_"))
    assert ends == ["time_budget", "usage_missing", "cost_budget", "token_budget", "step_budget"]
