"""What the machine wants: what is outstanding in each state, what answers it, and what of it is new."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import attrs
import pytest

from loopmachine import requests
from loopmachine.events import CancelPolled, Event
from loopmachine.history import Ids
from loopmachine.limits import Budget, Policy
from loopmachine.machine import advance, outstanding
from loopmachine.records import ANSWERED, LOST, QUEUED, RUNNING, CallResult, Decision, Resolution, Snapshot
from loopmachine.requests import (
    AskApproval,
    AskModel,
    InterruptCalls,
    InterruptModel,
    PollCancel,
    Request,
    ResolveCalls,
    StartCalls,
)
from loopmachine.table import TOOL_LOOP
from tests.facts import (
    INVALID,
    answer,
    approved,
    asked,
    asks,
    begun,
    brought,
    call,
    cancel,
    failed,
    flight,
    flying,
    lost,
    polled,
    refused,
    replied,
    resolved,
    result,
    resumed,
    returned,
    usage,
    word,
)

ONE, TWO, THREE = call(), call(1), call(2)
R1, R2, Q2, Q3, L1, L2, A1 = (
    flight(RUNNING),
    flight(RUNNING, 1),
    flight(QUEUED, 1),
    flight(QUEUED, 2),
    flight(LOST, 0, 1),
    flight(LOST, 1, 1),
    flight(ANSWERED),
)
APPROVE = asks(
    call(needs_approval=True), call(1), call(2, needs_approval=True), call(3, needs_approval=True, **INVALID)
)
NEEDY = APPROVE.calls
SECONDS = Budget(max_seconds=9.0)


def approving(**fields: Any) -> Snapshot:
    """A run that waits for approval of the first and the third call."""
    return brought(APPROVE, state="awaiting_approval", **fields)


def resolving(*flights: Any, **fields: Any) -> Snapshot:
    """A run that waits for a word on lost calls."""
    return flying(*flights, state="awaiting_resolution", **fields)


# --- what is outstanding ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (begun(), [PollCancel()]),
        (begun(not_before=5.0), [PollCancel(5.0)]),
        (begun().but(state="checking_budget"), []),
        (asked(), [AskModel(1)]),
        (asked(steps=7), [AskModel(7)]),
        (asked(wrapping=True), [AskModel(1, "none")]),
        (asked(budget=SECONDS, since=2.0), [AskModel(1, "auto", 11.0)]),
        (asked(cancelled=True), [InterruptModel(1)]),
        (brought(answer()), [PollCancel()]),
        (brought(answer(), not_before=5.0), [PollCancel()]),
        (approving(), [AskApproval((NEEDY[0], NEEDY[2]))]),
        (approving(decisions=(Decision(1, 0, approved=False),)), [AskApproval((NEEDY[2],))]),
        (flying(R1), [StartCalls((ONE,))]),
        (flying(R1, budget=SECONDS, since=2.0), [StartCalls((ONE,), 11.0)]),
        (flying(R1, Q2), [StartCalls((ONE,)), PollCancel()]),
        (flying(R1, Q2, policy=Policy(max_parallel=1)), [StartCalls((ONE,))]),
        (flying(R1, Q2, policy=Policy(batch="sequential")), [StartCalls((ONE,))]),
        (flying(R1, R2), [StartCalls((ONE, TWO))]),
        (flying(A1, R2), [StartCalls((TWO,))]),
        (flying(A1, Q2), [PollCancel()]),
        (flying(A1, Q2, Q3), [PollCancel()]),
        (flying(L1, R2), [StartCalls((TWO,))]),
        (flying(R1, cancelled=True), [InterruptCalls((ONE,))]),
        (flying(R1, R2, budget=SECONDS, clock=8.9), [StartCalls((ONE, TWO), 9.0)]),
        (flying(R1, R2, budget=SECONDS, clock=9.0), [InterruptCalls((ONE, TWO))]),
        (flying(R1, budget=Budget(max_cost_usd=1.0), cost_usd=1.0), [InterruptCalls((ONE,))]),
        (flying(R1, budget=Budget(max_tokens=1), unmetered=1), [InterruptCalls((ONE,))]),
        (resolving(L1, L2), [ResolveCalls((ONE, TWO))]),
        (resolving(A1, L2), [ResolveCalls((TWO,))]),
        (begun().but(state="finished_answered"), []),
    ],
)
def test_what_is_outstanding_is_a_function_of_the_snapshot(run: Snapshot, expected: list[Request]) -> None:
    """The machine waits for all of this, and for nothing else."""
    assert outstanding(TOOL_LOOP, run) == tuple(expected)


# --- what fits --------------------------------------------------------------------------------------------

MINE = (ONE, TWO)
OTHER_ID, OTHER_NAME = call(id="other"), call(name="find")
FITS = ""
RUNNING_KEYS = "[(1, 0), (1, 1)]"
ANOTHER = "the resolution brings another call's result: (1, 0) is the call 'c1_0' of look, not "


@pytest.mark.parametrize(
    ("request_", "event", "why"),
    [
        (PollCancel(), polled(), FITS),
        (AskModel(1), replied(answer()), FITS),
        (AskModel(1), failed(), FITS),
        (AskModel(1), replied(asks(ONE, TWO)), FITS),
        (AskModel(2), replied(asks(ONE)), "call 0 is of step 1, place 0, not of step 2, place 0"),
        (AskModel(1), replied(asks(ONE, THREE)), "call 1 is of step 1, place 2, not of step 1, place 1"),
        (AskModel(1), replied(asks(TWO, ONE)), "call 0 is of step 1, place 1, not of step 1, place 0"),
        (InterruptModel(1), replied(asks(ONE)), FITS),
        (InterruptModel(1), failed(), FITS),
        (InterruptModel(2), replied(asks(ONE)), "call 0 is of step 1, place 0, not of step 2, place 0"),
        (StartCalls(MINE), returned(TWO), FITS),
        (StartCalls(MINE), lost(TWO), FITS),
        (StartCalls(MINE), returned(THREE), f"[(1, 2)] are not among the calls that are running, {RUNNING_KEYS}"),
        (StartCalls(MINE), lost(THREE), f"[(1, 2)] are not among the calls that are running, {RUNNING_KEYS}"),
        (
            StartCalls(MINE),
            returned(call(step=2)),
            f"[(2, 0)] are not among the calls that are running, {RUNNING_KEYS}",
        ),
        (StartCalls(MINE), returned(OTHER_ID), "(1, 0) is the call 'c1_0' of look, not (1, 0) 'other' of look"),
        (StartCalls(MINE), returned(OTHER_NAME), "(1, 0) is the call 'c1_0' of look, not (1, 0) 'c1_0' of find"),
        (StartCalls((call(sent_id="new"),)), returned(call(sent_id="new")), FITS),
        (
            StartCalls((call(sent_id="new"),)),
            returned(ONE),
            "(1, 0) is the call 'new' of look, not (1, 0) 'c1_0' of look",
        ),
        (InterruptCalls(MINE), returned(ONE), FITS),
        (InterruptCalls(MINE), lost(ONE), FITS),
        (InterruptCalls(MINE), lost(THREE), f"[(1, 2)] are not among the calls that are running, {RUNNING_KEYS}"),
        (InterruptCalls(MINE), returned(OTHER_ID), "(1, 0) is the call 'c1_0' of look, not (1, 0) 'other' of look"),
        (AskApproval(MINE), approved(ONE), FITS),
        (AskApproval(MINE), refused(TWO, ONE), FITS),
        (AskApproval(MINE), approved(), f"it decides nothing; undecided are {RUNNING_KEYS}"),
        (AskApproval(MINE), approved(ONE, ONE), "it names a call twice"),
        (
            AskApproval(MINE),
            approved(ONE, THREE),
            f"[(1, 2)] are not among the calls that are undecided, {RUNNING_KEYS}",
        ),
        (ResolveCalls(MINE), resolved(word(ONE), word(TWO, rerun=True)), FITS),
        (ResolveCalls(MINE), resolved(word(TWO, result=result(TWO))), FITS),
        (ResolveCalls(MINE), resolved(), f"it decides nothing; lost are {RUNNING_KEYS}"),
        (ResolveCalls(MINE), resolved(word(ONE), word(ONE, rerun=True)), "it names a call twice"),
        (
            ResolveCalls(MINE),
            resolved(word(ONE), word(THREE)),
            f"[(1, 2)] are not among the calls that are lost, {RUNNING_KEYS}",
        ),
        (
            ResolveCalls(MINE),
            resolved(word(ONE, result=result(TWO))),
            f"{ANOTHER}(1, 1) 'c1_1' of look",
        ),
        (
            ResolveCalls(MINE),
            resolved(word(ONE, result=result(OTHER_ID))),
            f"{ANOTHER}(1, 0) 'other' of look",
        ),
        (
            ResolveCalls(MINE),
            resolved(word(ONE, result=result(OTHER_NAME))),
            f"{ANOTHER}(1, 0) 'c1_0' of find",
        ),
        (
            ResolveCalls(MINE),
            resolved(word(ONE, rerun=True, result=result(ONE))),
            "the resolution of (1, 0) brings a result and a rerun; it can be one of them",
        ),
    ],
)
def test_an_answer_fits_or_says_why_not(request_: Request, event: Event, why: str) -> None:
    """Nothing is taken that was not asked for."""
    assert (isinstance(event, request_.answered_by), request_.misfit(event)) == (True, why)


# --- what is new ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "event", "new"),
    [
        pytest.param(begun(), resumed(), [], id="the same poll is still waited for"),
        pytest.param(begun(not_before=5.0), resumed(at=1.0), [PollCancel(6.0)], id="a later poll is another one"),
        pytest.param(begun(), polled(), [AskModel(1)], id="the model is asked"),
        pytest.param(asked(), cancel(), [InterruptModel(1)], id="the model is cut short"),
        pytest.param(asked(cancelled=True), cancel(), [], id="it is cut short once"),
        pytest.param(asked(), replied(answer()), [PollCancel()], id="a poll after the model"),
        pytest.param(asked(), resumed(), [PollCancel()], id="a poll after a new host"),
        pytest.param(
            brought(asks(ONE, TWO)), polled(), [StartCalls((ONE,)), PollCancel()], id="an answered poll again"
        ),
        pytest.param(flying(R1, Q2, Q3), polled(), [StartCalls((TWO, THREE))], id="the calls that are new"),
        pytest.param(flying(R1, R2), returned(ONE), [], id="what still runs is not new"),
        pytest.param(
            flying(R1, Q2, policy=Policy(max_parallel=1)), returned(ONE), [PollCancel()], id="a place became free"
        ),
        pytest.param(
            flying(R1, R2, Q3, policy=Policy(max_parallel=2)),
            lost(ONE),
            [PollCancel()],
            id="a lost call leaves its place",
        ),
        pytest.param(
            flying(R1, flight(RUNNING, 1, effect="read")),
            lost(call(1)),
            [PollCancel()],
            id="a rerun is polled for",
        ),
        pytest.param(flying(R1, R2), cancel(), [InterruptCalls((ONE, TWO))], id="the calls are cut short"),
        pytest.param(flying(R1, R2, cancelled=True), returned(ONE), [], id="they are cut short once"),
        pytest.param(
            flying(R1, R2, Q3, budget=Budget(max_cost_usd=0.5)),
            returned(ONE, usage=usage()),
            [InterruptCalls((TWO,))],
            id="a budget that this event spends",
        ),
        pytest.param(approving(), approved(NEEDY[0]), [PollCancel()], id="a poll after an approval"),
        pytest.param(
            brought(APPROVE, decisions=(Decision(1, 0, approved=True),)),
            polled(),
            [AskApproval((NEEDY[2],))],
            id="the undecided are asked for again",
        ),
        pytest.param(flying(R1), lost(ONE), [ResolveCalls((ONE,))], id="a lost call is to be resolved"),
        pytest.param(resolving(L1, L2), resolved(word(ONE)), [], id="the other is waited for already"),
        pytest.param(resolving(L1, L2), resolved(word(ONE, rerun=True)), [PollCancel()], id="a rerun decided"),
        pytest.param(
            flying(R1, L2), returned(ONE), [ResolveCalls((TWO,))], id="the lost are asked for when nothing runs"
        ),
        pytest.param(brought(answer()), polled(), [], id="an end asks nothing"),
    ],
)
def test_an_event_adds_what_was_not_outstanding_before(run: Snapshot, event: Event, new: list[Request]) -> None:
    """Call by call: what is outstanding now and was not before, or was answered by this event."""
    assert advance(TOOL_LOOP, run, event).requests == tuple(new)


def test_a_request_that_is_answered_and_asked_again_is_new() -> None:
    """A poll that is wanted again is a new one, though it looks the same."""
    before, event = (PollCancel(),), polled()
    assert [
        PollCancel().news(before, event),
        PollCancel().news(before, resumed()),
        PollCancel().news((), resumed()),
    ] == [
        PollCancel(),
        None,
        PollCancel(),
    ]


def test_of_calls_only_those_that_were_not_asked_for_are_new() -> None:
    """A request about calls is compared call by call with the ones of its own kind."""
    wanted = StartCalls((ONE, TWO), 9.0)
    before: list[tuple[Request, ...]] = [
        (),
        (PollCancel(),),
        (InterruptCalls((ONE,)),),
        (StartCalls((ONE,), 9.0),),
        (wanted,),
    ]
    assert [wanted.news(old, polled()) for old in before] == [wanted, wanted, wanted, StartCalls((TWO,), 9.0), None]


# --- requests as values -----------------------------------------------------------------------------------

REQUESTS = [
    PollCancel(1.0),
    AskModel(1, "none", 9.0),
    InterruptModel(1),
    StartCalls(MINE, 9.0),
    InterruptCalls(MINE),
    AskApproval(MINE),
    ResolveCalls(MINE),
]


def test_there_is_a_request_of_every_kind() -> None:
    """The requests that the tests use are all that there are."""
    kinds = {
        kind
        for kind in vars(requests).values()
        if isinstance(kind, type) and issubclass(kind, Request) and kind.answered_by
    }
    assert {type(one) for one in REQUESTS} == kinds


@pytest.mark.parametrize("one", REQUESTS, ids=lambda one: type(one).__name__)
def test_nobody_changes_a_request(one: Any) -> None:
    """Every attribute of a request is frozen, and new ones are refused."""
    for name in [*attrs.fields_dict(type(one)), "answered_by", "new"]:
        with pytest.raises(AttributeError):
            setattr(one, name, None)


@pytest.mark.parametrize("one", REQUESTS, ids=lambda one: type(one).__name__)
def test_a_copied_request_is_the_same(one: Request) -> None:
    """A request equals its copies, by value and by hash."""
    copies = [pickle.loads(pickle.dumps(one)), copy.deepcopy(one)]
    assert [again == one and hash(again) == hash(one) for again in copies] == [True, True]


def test_what_a_loop_adds_to_a_request_makes_no_difference() -> None:
    """Two requests to ask the model are the same, whatever messages, tools and cancel token are with them."""
    plain, full = AskModel(1), AskModel(1, messages=[{}], tools=[{}], system="be brief", cancel=object())
    assert (plain == full, hash(plain) == hash(full), repr(full)) == (True, True, repr(plain))


def test_a_request_without_an_opinion_fits() -> None:
    """A request of a user's own that says nothing of its answers takes all of their kind."""
    assert Request().misfit(polled()) == FITS


def test_a_user_s_own_request_says_what_answers_it() -> None:
    """A request of a user's own is outstanding, answered and new as the library's are."""

    @attrs.frozen
    class AskWeather(Request):
        answered_by = (CancelPolled,)

    assert (AskWeather().news((AskWeather(),), polled()), AskWeather().news((AskWeather(),), resumed())) == (
        AskWeather(),
        None,
    )


def test_an_id_that_was_renamed_names_the_call_everywhere() -> None:
    """The result of a renamed call bears the id that is sent back, and no other is taken."""
    run = brought(asks(ONE), ids=Ids(["c1_0"]), policy=Policy(repeated_id="rename"))
    started = advance(TOOL_LOOP, run, polled())
    assert started.requests == (StartCalls((call(sent_id="c1_0_s1_0"),)),)
    after = advance(TOOL_LOOP, started.snapshot, returned(call(sent_id="c1_0_s1_0"))).snapshot
    assert [message["id"] for message in after.history[1:]] == ["c1_0_s1_0", "c1_0_s1_0"]


def test_a_resolution_is_a_word_and_perhaps_a_result() -> None:
    """A word without a rerun and without a result says that nobody will ever know."""
    assert (attrs.asdict(Resolution(1, 0)), CallResult.of(ONE, "ok", "1").key) == (
        {"step": 1, "place": 0, "rerun": False, "result": None},
        (1, 0),
    )
