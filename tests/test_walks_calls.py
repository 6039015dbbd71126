"""Small walks over what becomes of calls: approval, admission, queues, losses."""

from __future__ import annotations

from typing import Any

import pytest

from loopmachine.events import Event
from loopmachine.history import Ids
from loopmachine.limits import Budget, Policy
from loopmachine.records import LOST, QUEUED, RUNNING, Snapshot, Turn
from loopmachine.requests import (
    AskApproval,
    AskModel,
    InterruptCalls,
    PollCancel,
    ResolveCalls,
    StartCalls,
)
from tests.facts import (
    ASK,
    CALLS,
    INVALID,
    ONE,
    POLL,
    RETURNED,
    RETURNED_LAST,
    START,
    THREE,
    TWO,
    UNKNOWN_TOOL,
    approved,
    asks,
    begun,
    brought,
    call,
    cancel,
    exchange,
    flight,
    flying,
    lost,
    malformed,
    polled,
    refused,
    replied,
    resolved,
    result,
    resumed,
    returned,
    said,
    steps,
    walk,
    word,
)

# --- approval ---------------------------------------------------------------------------------------------

PAY, SEND, LOOK = call(needs_approval=True), call(1, needs_approval=True), call(2)
NEEDY = asks(PAY, SEND, LOOK)


def test_one_call_is_approved_now_and_one_later() -> None:
    """The undecided are asked for until there is none; then all calls of the turn start, in order."""
    end, walked = walk(
        brought(NEEDY),
        *(polled(), approved(SEND), polled(), approved(PAY), polled(), polled()),
        *(returned(LOOK), returned(SEND), returned(PAY)),
    )
    assert walked == [
        ("awaiting_approval", f"{CALLS} admitting/9", (AskApproval((PAY, SEND)),)),
        ("rechecking_cancel", "awaiting_approval/1", POLL),
        ("awaiting_approval", f"{CALLS} admitting/9", (AskApproval((PAY,)),)),
        ("rechecking_cancel", "awaiting_approval/1", POLL),
        ("dispatching", START, (StartCalls((PAY,)), PollCancel())),
        ("dispatching", "dispatching/7 collecting/2", (StartCalls((SEND, LOOK)),)),
        ("dispatching", RETURNED, ()),
        ("dispatching", RETURNED, ()),
        ("checking_cancel", RETURNED_LAST, POLL),
    ]
    assert (said(end)[4:], end.decisions) == (
        ["tool_result ok c1_0", "tool_result ok c1_1", "tool_result ok c1_2"],
        (),
    )


def test_a_call_that_is_denied_is_answered_and_the_others_run() -> None:
    """A refusal is a result with its reason; it counts as a call."""
    end, walked = walk(
        brought(NEEDY),
        *(polled(), refused(PAY, reason="too dear")),
        *(polled(), refused(SEND), polled(), returned(LOOK)),
    )
    assert walked[2:] == [
        ("awaiting_approval", f"{CALLS} admitting/9", (AskApproval((SEND,)),)),
        ("rechecking_cancel", "awaiting_approval/1", POLL),
        ("dispatching", START, (StartCalls((LOOK,)),)),
        ("checking_cancel", RETURNED_LAST, POLL),
    ]
    results = [(message["outcome"], message["content"]) for message in end.history[4:]]
    assert (results, end.calls) == ([("denied", "too dear"), ("denied", "this call was not approved"), ("ok", "1")], 3)


def test_a_wait_for_approval_is_no_time() -> None:
    """Hours between the question and the decision are not counted; the time before and after is."""
    run, walked = walk(
        brought(NEEDY, budget=Budget(max_seconds=10.0)),
        *(polled(at=4.0), approved(PAY, at=5000.0), polled(at=5001.0), refused(SEND, at=9000.0), polled(at=9004.9)),
    )
    assert (walked[4], run.spend.seconds < 10.0) == (
        ("dispatching", START, (StartCalls((PAY,), run.deadline), PollCancel())),
        True,
    )
    assert run.spend.seconds == pytest.approx(9.9)


@pytest.mark.parametrize(
    ("fields", "event", "end", "row"),
    [
        ({"budget": Budget(max_seconds=5.0)}, polled(at=15.0), "finished_time_budget", 4),
        ({"budget": Budget(max_cost_usd=1.0), "cost_usd": 1.0}, polled(at=10.0), "finished_cost_budget", 6),
    ],
)
def test_admission_is_checked_again_after_the_approval(
    fields: dict[str, Any], event: Event, end: str, row: int
) -> None:
    """A budget that is spent when the decision comes ends the run, approved or not."""
    start = brought(asks(PAY), state="awaiting_approval", **fields)
    assert steps(start, approved(PAY, at=10.0), event)[1] == (end, f"{CALLS} admitting/{row}", ())


def test_a_new_budget_without_room_for_the_approved_call_ends_the_run() -> None:
    """What a new host brings counts when admission is checked again."""
    start = brought(asks(PAY, SEND), state="awaiting_approval")
    walked = steps(start, resumed(Budget(max_calls=1)), polled())
    assert walked == [
        ("rechecking_cancel", "awaiting_approval/3", POLL),
        ("finished_call_budget", f"{CALLS} admitting/8", ()),
    ]


# --- admission --------------------------------------------------------------------------------------------


def outcomes(start: Snapshot, *results: Event) -> tuple[str, list[str], int]:
    """Where a turn leads after its calls returned, the results in the history, and the calls counted."""
    end, _ = walk(start, polled(), *results)
    return end.state, [message["outcome"] for message in end.history if message["kind"] == "tool_result"], end.calls


def test_a_batch_beyond_the_call_budget_ends_the_run_or_is_refused_in_part() -> None:
    """Under stop none of it is executed; under refuse those that fit run and the model may still answer."""
    start = brought(asks(ONE, TWO), calls=1, budget=Budget(max_calls=2))
    refusing = start.but(policy=Policy(excess_calls="refuse"))
    assert (outcomes(start), outcomes(refusing, returned(ONE))) == (
        ("finished_call_budget", [], 1),
        ("checking_cancel", ["ok", "over_budget"], 2),
    )


def test_a_new_budget_below_what_was_called_lets_nothing_more_run() -> None:
    """Under refuse no call is admitted beyond the call budget, also where a new host brought a smaller one."""
    start = brought(asks(ONE, TWO), calls=5, policy=Policy(excess_calls="refuse"))
    run, _ = walk(start, resumed(Budget(max_calls=3)))
    assert outcomes(run) == ("checking_cancel", ["over_budget", "over_budget"], 5)


def test_a_tool_is_called_as_often_as_it_may() -> None:
    """A call over the limit of its tool is over budget, is not counted, and ends nothing."""
    first, second = call(limit=1), call(1, limit=1)
    after, _ = walk(brought(asks(first, second)), polled(), returned(first))
    again = brought(asks(call(step=2, limit=1)), steps=2, tool_calls=after.tool_calls, calls=after.calls)
    assert (outcomes(brought(asks(first, second)), returned(first)), outcomes(again)) == (
        ("checking_cancel", ["ok", "over_budget"], 1),
        ("checking_cancel", ["over_budget"], 1),
    )


REPEATED = [
    pytest.param(asks(call(id="a")), Ids("a"), id="of the run"),
    pytest.param(asks(call(id="a"), call(1, id="a")), Ids(), id="of the turn"),
]


@pytest.mark.parametrize(("turn", "ids"), REPEATED)
@pytest.mark.parametrize("policy", ["stop", "answer", "rename"])
def test_an_id_that_was_used_before(turn: Turn, ids: Ids, policy: str) -> None:
    """It stops the run with nothing executed, or is answered, or runs under another id, by policy."""
    start = brought(turn, ids=ids, policy=Policy(repeated_id=policy))
    run, walked = walk(start, polled())
    kinds = {
        "stop": ("finished_repeated_call", f"{CALLS} admitting/1"),
        "answer": (("checking_cancel", f"{CALLS} admitting/10 collecting/3") if len(ids) else ("dispatching", START)),
        "rename": ("dispatching", START),
    }
    sent = {
        ("stop", 1): [],
        ("stop", 2): [],
        ("answer", 1): [],
        ("answer", 2): ["a"],
        ("rename", 1): ["a_s1_0"],
        ("rename", 2): ["a"],
    }[policy, len(turn.calls)]
    started = [one.wire_id for request in walked[0][2] if isinstance(request, StartCalls) for one in request.calls]
    assert (walked[0][:2], started, run.calls) == (
        kinds[policy],
        sent,
        {"stop": 0, "answer": len(sent), "rename": len(turn.calls)}[policy],
    )


def test_a_batch_can_be_rejected() -> None:
    """Under batch reject more than one call ends the run, and one does not."""
    policy = Policy(batch="reject")
    assert [steps(brought(turn, policy=policy), polled())[0][:2] for turn in (asks(ONE, TWO), asks(ONE))] == [
        ("finished_unsupported_batch", f"{CALLS} admitting/2"),
        ("dispatching", START),
    ]


def turns(*contents: str) -> list[Event]:
    """The events of turns that ask for the same call, each with this content as its result."""
    events: list[Event] = []
    for step, content in enumerate(contents, 1):
        one = call(step=step)
        events += [polled(), replied(asks(one)), polled(), returned(one, content=content)]
    return events


@pytest.mark.parametrize(
    ("contents", "state", "identical"),
    [
        ("11", "dispatching", 1),
        ("111", "finished_stuck", 2),
        ("121", "dispatching", 1),
        ("1221", "finished_stuck", 2),
        ("1", "dispatching", 0),
    ],
)
def test_the_same_turns_with_the_same_results_are_stuck(contents: str, state: str, identical: int) -> None:
    """Two identical turns in a row are borne, a third is not asked for; another result begins anew."""
    start = begun(policy=Policy(max_identical_turns=2))
    run, _ = walk(start, *turns(*contents)[:-1])
    assert (run.state, run.identical) == (state, identical)


def test_what_was_said_before_counts_for_identical_turns_across_notes() -> None:
    """A note between two identical turns does not hide the second."""
    run = begun(policy=Policy(max_identical_turns=1, repairs=1))
    one, nonsense, other = call(), malformed(), call(step=3)
    end, _ = walk(
        run,
        *(polled(), replied(asks(one)), polled(), returned(one)),
        *(polled(), replied(nonsense), polled()),
        *(polled(), replied(asks(other)), polled()),
    )
    assert (end.state, end.history.entries[1]) == ("finished_stuck", exchange(one))


# --- lost calls -------------------------------------------------------------------------------------------

READ, SAFE = call(effect="read"), call(1, effect="idempotent")
LOST_SAFE, LOST_UNSAFE = "dispatching/4 collecting/2", "dispatching/5 collecting/1"


def test_a_safe_call_runs_once_more_and_is_then_lost() -> None:
    """The first loss of a read queues it again, after a poll; the second has to be resolved."""
    walked = steps(brought(asks(READ)), polled(), lost(READ), polled(), lost(READ), resolved(word(READ)))
    assert walked == [
        ("dispatching", START, (StartCalls((READ,)),)),
        ("dispatching", LOST_SAFE, POLL),
        ("dispatching", "dispatching/7 collecting/2", (StartCalls((READ,)),)),
        ("awaiting_resolution", LOST_UNSAFE, (ResolveCalls((READ,)),)),
        ("checking_cancel", "awaiting_resolution/1 collecting/3", POLL),
    ]


def test_lost_calls_are_resolved_in_three_ways() -> None:
    """One gets its result, one is run again after a poll, and of one nobody will ever know."""
    start = flying(*(flight(RUNNING, place) for place in range(3)))
    end, walked = walk(
        start,
        *(lost(ONE), lost(TWO), lost(THREE)),
        *(resolved(word(TWO, result=result(TWO, content="7"))), resolved(word(ONE, rerun=True), word(THREE))),
        *(polled(), returned(ONE)),
    )
    assert walked == [
        ("dispatching", "dispatching/5 collecting/2", ()),
        ("dispatching", "dispatching/5 collecting/2", ()),
        ("awaiting_resolution", LOST_UNSAFE, (ResolveCalls((ONE, TWO, THREE)),)),
        ("awaiting_resolution", "awaiting_resolution/1 collecting/1", ()),
        ("dispatching", "awaiting_resolution/1 collecting/2", POLL),
        ("dispatching", "dispatching/7 collecting/2", (StartCalls((ONE,)),)),
        ("checking_cancel", RETURNED_LAST, POLL),
    ]
    assert [(message["outcome"], message["content"]) for message in end.history[4:]] == [
        ("ok", "1"),
        ("ok", "7"),
        ("unknown", "it was started, and nobody knows what it did"),
    ]


def test_a_call_that_was_resolved_to_run_again_can_be_lost_again() -> None:
    """Even a read is lost for good after a rerun that somebody decided."""
    start = flying(flight(LOST, 0, 2, effect="read"), state="awaiting_resolution")
    walked = steps(start, resolved(word(READ, rerun=True)), polled(), lost(READ))
    assert walked == [
        ("dispatching", "awaiting_resolution/1 collecting/2", POLL),
        ("dispatching", "dispatching/7 collecting/2", (StartCalls((READ,)),)),
        ("awaiting_resolution", LOST_UNSAFE, (ResolveCalls((READ,)),)),
    ]


def test_a_loss_while_stopping_is_answered_unknown() -> None:
    """Once a cancel is remembered no lost call runs again, safe or not; the rest was closed when it was told."""
    start = flying(flight(RUNNING, effect="read"), flight(RUNNING, 1), flight(LOST, 2, 1), flight(QUEUED, 3))
    end, walked = walk(start, cancel("enough"), lost(READ), returned(TWO), polled())
    assert walked == [
        ("dispatching", "dispatching/8 collecting/2", (InterruptCalls((READ, TWO)),)),
        ("dispatching", "dispatching/3 collecting/2", ()),
        ("checking_cancel", "dispatching/1 collecting/3", POLL),
        ("finished_cancelled", "checking_cancel/1", ()),
    ]
    assert [message["outcome"] for message in end.history[5:]] == ["unknown", "ok", "unknown", "not_started"]


def test_a_rerun_is_not_started_once_a_budget_is_spent() -> None:
    """A call that was queued again and is then stopped is unknown: it was started once."""
    start = flying(flight(RUNNING, effect="read"), flight(QUEUED, 1), budget=Budget(max_seconds=5.0))
    end, walked = walk(start, lost(READ, at=4.0), polled(at=5.0), polled(at=5.0))
    assert walked == [
        ("dispatching", LOST_SAFE, ()),
        ("checking_cancel", "dispatching/6 collecting/3", POLL),
        ("finished_time_budget", "checking_cancel/2 checking_budget/1", ()),
    ]
    assert [message["outcome"] for message in end.history[3:]] == ["unknown", "not_started"]


def test_a_wait_for_a_resolution_is_no_time() -> None:
    """Hours until somebody knows what became of a call are not counted."""
    run, walked = walk(
        flying(flight(RUNNING), budget=Budget(max_seconds=5.0)),
        *(lost(ONE, at=4.0), resolved(word(ONE, rerun=True), at=5000.0), polled(at=5000.5)),
    )
    assert (walked[2][0], run.spend.seconds, run.deadline) == ("dispatching", 4.5, 5001.0)


# --- queued calls -----------------------------------------------------------------------------------------


def test_no_more_calls_run_at_once_than_may() -> None:
    """The first starts at once; a poll stands before each further grant."""
    calls = tuple(call(place) for place in range(4))
    walked = steps(
        brought(asks(*calls), policy=Policy(max_parallel=2)),
        *(polled(), polled(), returned(calls[1]), polled(), returned(calls[0])),
        *(returned(calls[2]), polled(), returned(calls[3])),
    )
    assert walked == [
        ("dispatching", START, (StartCalls(calls[:1]), PollCancel())),
        ("dispatching", "dispatching/7 collecting/2", (StartCalls(calls[1:2]),)),
        ("dispatching", RETURNED, POLL),
        ("dispatching", "dispatching/7 collecting/2", (StartCalls(calls[2:3]),)),
        ("dispatching", RETURNED, POLL),
        ("dispatching", RETURNED, ()),
        ("dispatching", "dispatching/7 collecting/2", (StartCalls(calls[3:]),)),
        ("checking_cancel", RETURNED_LAST, POLL),
    ]


def test_calls_in_sequence_run_one_by_one() -> None:
    """Under batch sequential the next call starts, after a poll, when the one before has returned."""
    walked = steps(
        brought(asks(ONE, TWO), policy=Policy(batch="sequential")), polled(), returned(ONE), polled(), returned(TWO)
    )
    assert walked == [
        ("dispatching", START, (StartCalls((ONE,)),)),
        ("dispatching", RETURNED, POLL),
        ("dispatching", "dispatching/7 collecting/2", (StartCalls((TWO,)),)),
        ("checking_cancel", RETURNED_LAST, POLL),
    ]


def test_a_call_that_runs_alone_is_a_barrier() -> None:
    """It starts when all before it have returned, and those after it wait until it has."""
    calls = (call(), call(1, alone=True), call(2), call(3))
    walked = steps(
        brought(asks(*calls)), polled(), returned(calls[0]), polled(), returned(calls[1]), polled(), returned(calls[2])
    )
    assert walked == [
        ("dispatching", START, (StartCalls(calls[:1]),)),
        ("dispatching", RETURNED, POLL),
        ("dispatching", "dispatching/7 collecting/2", (StartCalls(calls[1:2]),)),
        ("dispatching", RETURNED, POLL),
        ("dispatching", "dispatching/7 collecting/2", (StartCalls(calls[2:]),)),
        ("dispatching", RETURNED, ()),
    ]


def test_calls_that_cannot_run_need_no_dispatch() -> None:
    """A turn of unknown and invalid calls is answered at once, and the model is asked again."""
    walked = steps(brought(asks(call(**UNKNOWN_TOOL), call(1, **INVALID))), polled(), polled())
    assert walked == [
        ("checking_cancel", f"{CALLS} admitting/10 collecting/3", POLL),
        ("awaiting_model", ASK, (AskModel(2),)),
    ]


def test_a_cancel_between_two_calls_leaves_the_rest_unstarted() -> None:
    """Three calls one at a time, a cancel told at the second: ok, ok, not started, and one exchange."""
    end, walked = walk(
        brought(asks(ONE, TWO, THREE), policy=Policy(max_parallel=1)),
        *(polled(), returned(ONE), polled(), cancel("enough"), returned(TWO), polled()),
    )
    assert walked[3:] == [
        ("dispatching", "dispatching/8 collecting/2", (InterruptCalls((TWO,)),)),
        ("checking_cancel", "dispatching/1 collecting/3", POLL),
        ("finished_cancelled", "checking_cancel/1", ()),
    ]
    assert ([message["outcome"] for message in end.history[4:]], end.cancel_reason) == (
        ["ok", "ok", "not_started"],
        "enough",
    )
