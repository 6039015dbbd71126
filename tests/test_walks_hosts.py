"""Small walks over what comes from outside: a new host at every rest, and a cancel."""

from __future__ import annotations

from typing import Any

import pytest

from loopmachine.events import Event
from loopmachine.limits import Budget, Policy
from loopmachine.records import LOST, QUEUED, RUNNING, Snapshot
from loopmachine.requests import (
    AskModel,
    InterruptCalls,
    InterruptModel,
    PollCancel,
    ResolveCalls,
)
from tests.facts import (
    ASK,
    DONE,
    ONE,
    POLL,
    REPLY,
    answer,
    asked,
    asks,
    begun,
    brought,
    call,
    cancel,
    failed,
    flight,
    flying,
    polled,
    replied,
    resumed,
    returned,
    said,
    steps,
    walk,
)

PAY = call(needs_approval=True)

# --- a new host -------------------------------------------------------------------------------------------

MORE = Budget(max_steps=20, max_seconds=50.0)
SPENT_BUDGET = Budget(max_seconds=1.0)


@pytest.mark.parametrize(
    ("start", "state", "row", "requests"),
    [
        (begun(), "checking_cancel", "checking_cancel/3", ()),
        (asked(), "checking_cancel", "awaiting_model/4", POLL),
        (brought(answer()), "rechecking_cancel", "rechecking_cancel/3", ()),
        (brought(asks(PAY), state="awaiting_approval"), "rechecking_cancel", "awaiting_approval/3", POLL),
        (flying(flight(RUNNING)), "awaiting_resolution", "dispatching/10 collecting/1", (ResolveCalls((ONE,)),)),
        (flying(flight(RUNNING, effect="read")), "dispatching", "dispatching/10 collecting/2", POLL),
        (flying(flight(QUEUED)), "dispatching", "dispatching/10 collecting/2", ()),
        (flying(flight(RUNNING), flight(QUEUED, 1)), "dispatching", "dispatching/10 collecting/2", ()),
        (flying(flight(RUNNING), cancelled=True), "checking_cancel", "dispatching/9 collecting/3", POLL),
        (flying(flight(LOST, 0, 1), state="awaiting_resolution"), "awaiting_resolution", "awaiting_resolution/3", ()),
    ],
)
def test_a_new_host_takes_up_every_rest(start: Snapshot, state: str, row: str, requests: tuple[Any, ...]) -> None:
    """The clock starts again where it stood, whatever the new one shows, and a new budget holds from now on."""
    ran = start.but(clock=7.0, since=4.0)
    end, walked = walk(ran, resumed(MORE, at=2.0))
    kept = walk(ran, resumed(at=1000.0))[0]
    assert (walked, end.spend.seconds, end.budget, kept.spend.seconds, kept.budget) == (
        [(state, row, requests)],
        3.0,
        MORE,
        3.0,
        Budget(),
    )


def test_a_new_budget_counts_for_the_calls_that_are_running() -> None:
    """A budget that is spent already stops what the host before had started: nobody knows what it did."""
    start = flying(flight(RUNNING, effect="read"), flight(QUEUED, 1), clock=3.0)
    end, walked = walk(start, resumed(SPENT_BUDGET, at=0.0))
    assert (walked, [message["outcome"] for message in end.history[3:]]) == (
        [("checking_cancel", "dispatching/9 collecting/3", ())],
        ["unknown", "not_started"],
    )


def test_a_lost_invocation_stays_a_counted_step() -> None:
    """What the model was asked when the host died is not waited for, and its usage is not missing."""
    end, walked = walk(
        asked(budget=Budget(max_steps=2, max_cost_usd=1.0)), resumed(), polled(), replied(answer()), polled()
    )
    assert (walked, end.steps, end.unpriced) == (
        [
            ("checking_cancel", "awaiting_model/4", POLL),
            ("awaiting_model", ASK, (AskModel(2),)),
            ("rechecking_cancel", REPLY, POLL),
            DONE,
        ],
        2,
        1,
    )


def test_a_pause_goes_on_under_a_new_clock() -> None:
    """What is left of a provider's pause is waited for after a new host took over."""
    start = begun(not_before=10.0, clock=7.0)
    assert steps(start, resumed(at=100.0)) == [("checking_cancel", "checking_cancel/3", (PollCancel(103.0),))]


# --- a cancel, told unasked -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "told"),
    [
        (asked(), ("awaiting_model", "awaiting_model/3", (InterruptModel(1),))),
        (brought(asks(PAY), state="awaiting_approval"), ("finished_cancelled", "awaiting_approval/2", ())),
        (flying(flight(RUNNING)), ("dispatching", "dispatching/8 collecting/2", (InterruptCalls((ONE,)),))),
        (flying(flight(QUEUED)), ("checking_cancel", "dispatching/8 collecting/3", ())),
        (
            flying(flight(LOST, 0, 1), state="awaiting_resolution"),
            ("checking_cancel", "awaiting_resolution/2 collecting/3", POLL),
        ),
    ],
)
def test_a_cancel_can_be_told_at_every_rest_but_a_poll(start: Snapshot, told: tuple[Any, ...]) -> None:
    """It is remembered with its reason, and what runs is cut short."""
    end, walked = walk(start, cancel("enough"))
    assert (walked, end.cancelled, end.cancel_reason) == ([told], True, "enough")


@pytest.mark.parametrize("outcome", [replied(answer()), replied(asks(ONE)), failed(retryable=True)])
def test_a_cancel_that_was_observed_sticks(outcome: Event) -> None:
    """Whatever the model brings after the cancel, and whatever the poll says, the run is cancelled and nothing kept."""
    end, walked = walk(asked(policy=Policy(model_retries=1)), cancel("enough"), cancel("more"), outcome, polled())
    assert ([step[::2] for step in walked], said(end), end.cancel_reason) == (
        [
            ("awaiting_model", (InterruptModel(1),)),
            ("awaiting_model", ()),
            ("rechecking_cancel", POLL),
            ("finished_cancelled", ()),
        ],
        ["user hello"],
        "enough",
    )


@pytest.mark.parametrize(
    ("start", "row"),
    [(begun(), "checking_cancel/1"), (brought(answer()), "rechecking_cancel/1")],
)
def test_a_cancel_that_a_poll_tells_ends_the_run(start: Snapshot, row: str) -> None:
    """Immediately before the model it is not asked, immediately after it its turn is not kept."""
    end, walked = walk(start, polled(True, "enough"))
    assert (walked, end.cancel_reason, end.history) == ([("finished_cancelled", row, ())], "enough", start.history)


def test_a_cancel_that_a_poll_tells_while_calls_run_cuts_them_short() -> None:
    """The queued are closed, the running are waited for, and the exchange is whole."""
    walked = steps(flying(flight(RUNNING), flight(QUEUED, 1)), polled(True), returned(ONE, "interrupted"), polled())
    assert walked == [
        ("dispatching", "dispatching/6 collecting/2", (InterruptCalls((ONE,)),)),
        ("checking_cancel", "dispatching/1 collecting/3", POLL),
        ("finished_cancelled", "checking_cancel/1", ()),
    ]
