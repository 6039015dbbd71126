"""Loop: a run driven by hand, as text at every rest and back, and its record replayed."""

from __future__ import annotations

import asyncio
import copy
import gc
import json
import logging
import math
import os
import pickle
import re
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from loopmachine import (
    ANTHROPIC,
    GEMINI,
    OPENAI_CHAT,
    TOOL_LOOP,
    Budget,
    Call,
    CallResult,
    CancelToken,
    Context,
    Decision,
    Denied,
    History,
    Loop,
    ModelError,
    Policy,
    Resolution,
    Row,
    State,
    Turn,
    Usage,
    guards,
    notices,
    replay,
    requests,
    run,
    run_async,
    tool,
    updates,
)
from loopmachine.errors import ReplayDiverged, UnexpectedEvent
from loopmachine.events import (
    ApprovalGiven,
    CallLost,
    CallReturned,
    CallsResolved,
    CancelPolled,
    Event,
    ModelFailed,
    ModelReplied,
    Resumed,
)
from loopmachine.machine import advance
from loopmachine.records import Exchange, Final, Snapshot, UserMessage
from loopmachine.requests import AskModel, PollCancel, StartCalls
from tests.drivers import DONE, GO, brought, call, calls

ROOT = Path(__file__).parents[1]


@tool(effect="read")
def look(n: int = 1) -> int:
    """Look at a number."""
    return n


@tool(needs_approval=True)
def pay(amount: float) -> str:
    """Pay."""
    return f"paid {amount}"


@tool
def boom() -> None:
    """Raise."""
    raise RuntimeError("no route")


TOOLS = [look, pay, boom]


def started(**options: Any) -> Loop:
    """A loop at its start, at time 0."""
    return Loop(**{"prompt": "go", "tools": TOOLS, "at": 0.0, **options})


def by_hand(loop: Loop, *script: Any) -> Loop:
    """Drive a loop as workflow code does: to its end, to what it can't do, or to where the script has no more replies.

    A second passes from event to event.
    """
    replies, at = deque(script), loop.snapshot.clock
    while not loop.finished:
        at += 1.0
        match loop.requests[0]:
            case PollCancel():
                loop.send(CancelPolled(False, at=at))
            case AskModel() if replies and isinstance(replies[0], Exception):
                loop.failed(replies.popleft(), at=at)
            case AskModel() if replies:
                loop.replied(replies.popleft(), at=at)
            case StartCalls(started):
                loop.send(CallReturned(loop.perform(started[0]), at=at))
            case _:
                break
    return loop


# --- one run that rests everywhere ------------------------------------------------------------------------

ASKED = calls(call("a", "pay", amount="2.5"), call("b", n=7), call("c", "boom"), call("d", "send_mail"))
POLICY = Policy(model_retries=1)
BUDGET = Budget(max_steps=4, max_calls=9, max_seconds=500.0, max_tokens=10_000)


def _poll(loop: Loop, at: float) -> None:
    loop.send(CancelPolled(False, at=at))


def _ask(loop: Loop, at: float) -> None:
    loop.replied(ASKED | {"usage": {"input_tokens": 5, "output_tokens": 2}}, at=at)


def _approve(loop: Loop, at: float) -> None:
    words: Any = (Decision(1, 0, True),)
    loop.send(ApprovalGiven(words, at=at))


def _resume(loop: Loop, at: float) -> None:
    loop.send(Resumed(Budget(max_steps=5, max_seconds=600.0, max_tokens=10_000), at=at))


def _perform(loop: Loop, at: float) -> None:
    (request,) = [one for one in loop.requests if isinstance(one, StartCalls)]
    loop.send(CallReturned(loop.perform(request.calls[0]), at=at))


def _resolve(loop: Loop, at: float) -> None:
    paid = CallResult(1, 0, "a", "pay", "ok", "paid 2.5")
    words: Any = (Resolution(1, 0, result=paid), Resolution(1, 2, rerun=True))
    loop.send(CallsResolved(words, at=at))


def _fail(loop: Loop, at: float) -> None:
    loop.failed(ModelError("rate_limit", "slow down", retryable=True, retry_after=0.5), at=at)


def _answer(loop: Loop, at: float) -> None:
    loop.replied(DONE | {"usage": {"input_tokens": 9, "output_tokens": 1, "cost_usd": 0.25}}, at=at)


#: What happens in the run, and where it rests after each.
VISIT: list[tuple[Callable[[Loop, float], None], str]] = [
    (_poll, "awaiting_model"),
    (_ask, "rechecking_cancel"),
    (_poll, "awaiting_approval"),
    (_approve, "rechecking_cancel"),
    (_poll, "dispatching"),
    (_poll, "dispatching"),
    (_resume, "dispatching"),
    (_poll, "dispatching"),
    (_perform, "awaiting_resolution"),
    (_resolve, "dispatching"),
    (_poll, "dispatching"),
    (_perform, "checking_cancel"),
    (_poll, "awaiting_model"),
    (_fail, "rechecking_cancel"),
    (_poll, "checking_cancel"),
    (_poll, "awaiting_model"),
    (_answer, "rechecking_cancel"),
    (_poll, "finished_answered"),
]


def visit(loop: Loop, rests: range) -> Loop:
    """Let these events happen, a second apart; the clock of the host that resumes shows less."""
    for place in rests:
        VISIT[place][0](loop, float(place if place < 6 else place - 1000))
    return loop


def visited(rests: int = len(VISIT)) -> Loop:
    """The run after so many events."""
    return visit(started(system="be brief", policy=POLICY, budget=BUDGET), range(rests))


RESTS = range(len(VISIT) + 1)


def test_the_run_visits_every_rest() -> None:
    """It is where the table says after each event, and no rest is left out."""
    rests = [visited(place).snapshot.state for place in RESTS]
    assert rests == ["checking_cancel", *(state for _, state in VISIT)]
    assert {name for name, state in TOOL_LOOP.states.items() if state.rest} <= set(rests)


@pytest.mark.parametrize("rest", RESTS)
def test_a_run_is_the_same_after_json_at_every_rest(rest: int) -> None:
    """Its snapshot, what it waits for, what the model is given, and its JSON, which is text of one line."""
    loop = visited(rest)
    text = loop.to_json()
    again = Loop.from_json(text, tools=TOOLS)
    given = [(list(one.messages), list(one.tools), one.system) for one in again.requests if isinstance(one, AskModel)]
    wanted = [(list(one.messages), list(one.tools), one.system) for one in loop.requests if isinstance(one, AskModel)]
    assert (again.snapshot, again.requests, given) == (loop.snapshot, loop.requests, wanted)
    assert (again.to_json(), "\n" in text, json.loads(text)["format"]) == (text, False, 1)


@pytest.mark.parametrize("rest", RESTS)
def test_a_restored_run_goes_on_as_if_it_had_never_stopped(rest: int) -> None:
    """Whatever happens next brings the same snapshots and the same JSON."""
    again = Loop.from_json(visited(rest).to_json(), tools=TOOLS)
    visit(again, range(rest, len(VISIT)))
    assert again.to_json() == visited().to_json()


COPIES: list[Callable[[Any], Any]] = [copy.deepcopy, copy.copy, lambda one: pickle.loads(pickle.dumps(one))]


@pytest.mark.parametrize("rest", RESTS)
@pytest.mark.parametrize("copied", COPIES, ids=["deepcopy", "copy", "pickle"])
def test_a_snapshot_can_be_copied_and_pickled_at_every_rest(rest: int, copied: Callable[[Any], Any]) -> None:
    """The copy equals it, and takes the next event as it does."""
    snapshot = visited(rest).snapshot
    again = copied(snapshot)
    nexts = visited().snapshot.events[rest : rest + 1]
    taken = [[advance(TOOL_LOOP, one, event) for event in nexts] for one in (snapshot, again)]
    assert (again, taken[1]) == (snapshot, taken[0])


def test_the_history_of_the_run_is_whole() -> None:
    """An exchange with the results in the order asked for, whatever the order they came in, and the answer."""
    assert list(visited().snapshot.history) == [
        GO,
        *ASKED["calls"],
        brought("a", "paid 2.5"),
        brought("b", "7"),
        brought("c", "RuntimeError: no route", "failed"),
        brought("d", "there is no tool named 'send_mail'; known tools: look, pay, boom", "unknown_tool"),
        DONE,
    ]


# --- every end --------------------------------------------------------------------------------------------

#: How a run comes to each end: what it is made with, and what the model says.
ENDS: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "answered": ({}, [DONE]),
    "cancelled": ({}, []),
    "step_budget": ({"budget": Budget(max_steps=1)}, [call("a")]),
    "call_budget": ({"budget": Budget(max_calls=1)}, [calls(call("a"), call("b"))]),
    "time_budget": ({"budget": Budget(max_seconds=1.0)}, []),
    "cost_budget": ({"budget": Budget(max_cost_usd=1.0)}, [call("a") | {"usage": {"cost_usd": 1.0}}]),
    "token_budget": (
        {"budget": Budget(max_tokens=3)},
        [call("a") | {"usage": {"input_tokens": 2, "output_tokens": 1}}],
    ),
    "usage_missing": ({"budget": Budget(max_cost_usd=1.0)}, [call("a")]),
    "repeated_call": ({}, [call("a"), call("a")]),
    "unsupported_batch": ({"policy": Policy(batch="reject")}, [calls(call("a"), call("b"))]),
    "stuck": ({"policy": Policy(max_identical_turns=1)}, [call("a"), call("b")]),
    "malformed": ({}, [{"kind": "final"}]),
    "incomplete": ({}, [DONE | {"stop": "length"}]),
    "refused": ({}, [DONE | {"stop": "refusal"}]),
    "model_error": ({}, [ValueError("no key")]),
}


def ended(status: str) -> Loop:
    """A run that comes to this end."""
    options, script = ENDS[status]
    loop = started(**options)
    if status == "cancelled":
        loop.send(CancelPolled(True, "enough", at=1.0))
    return by_hand(loop, *script)


def test_the_ends_are_all_ends() -> None:
    """Each final state of the table is among them."""
    assert [f"finished_{status}" for status in ENDS] == [n for n, state in TOOL_LOOP.states.items() if state.final]


@pytest.mark.parametrize("status", ENDS)
def test_a_run_is_the_same_after_json_and_pickle_at_every_end(status: str) -> None:
    """It is finished, waits for nothing, and takes no event."""
    loop = ended(status)
    again = Loop.from_json(loop.to_json(), tools=TOOLS)
    assert (again.result().status, again.finished, again.requests) == (status, True, ())
    assert (again.snapshot, again.to_json()) == (loop.snapshot, loop.to_json())
    assert [copied(loop.snapshot) for copied in COPIES] == [loop.snapshot] * 3
    with pytest.raises(UnexpectedEvent, match=f"finished_{status} does not take this Resumed; it accepts no event"):
        again.send(Resumed(at=9.0))


# --- what else a run can be made with ---------------------------------------------------------------------

SPOKEN = {
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s\u00e9al"},
        {"type": "tool_use", "id": "t1", "name": "look", "input": {"n": 2}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 3, "output_tokens": 4},
}


def _said_before() -> History:
    return by_hand(started(), call("a", n=3), DONE).result().history


HALVES = "\ud83d\udc0d"  #: of a character, which JSON writes like the whole of it


def told(event: Event) -> Loop:
    """A run that was told this at its start."""
    loop = started()
    loop.send(event)
    return loop


MADE: dict[str, Callable[[], Loop]] = {
    "odd texts": lambda: by_hand(started(prompt="\ud800 \u2028 \0 \U0001f40d\n"), call("\ud83d"), DONE),
    "halves of a character beside each other": lambda: by_hand(
        started(prompt=HALVES, system=HALVES), call(HALVES), call("\U0001f40d"), {"kind": "final", "text": HALVES}
    ),
    "a cancel for a reason in halves": lambda: told(CancelPolled(True, HALVES, at=1.0)),
    "a history, no prompt": lambda: by_hand(started(prompt=None, history=_said_before()), call("b"), DONE),
    "a history and a prompt": lambda: by_hand(started(history=_said_before()), call("a")),
    "every policy": lambda: by_hand(
        started(
            policy=Policy(
                repeated_id="rename",
                excess_calls="refuse",
                batch="sequential",
                max_parallel=2,
                model_retries=2,
                repairs=2,
                wrap_up=True,
                error_text="name",
                max_result_chars=5,
                max_identical_turns=4,
            ),
            budget=Budget(max_steps=7, max_calls=3, max_seconds=1e9, max_cost_usd=0.1, max_tokens=10**30),
        ),
        {"kind": "nonsense", "usage": {"input_tokens": 1, "output_tokens": 1, "cost_usd": 0.01}},
        ModelError("busy", retryable=True),
        calls(call("a"), call("a", "boom"), usage={"input_tokens": 1, "output_tokens": 1, "cost_usd": 0.02}),
    ),
    "a provider's payload": lambda: by_hand(started(wire=ANTHROPIC, system="be brief"), SPOKEN),
    "a clock of whole seconds": lambda: started(at=3),
    "a clock before zero": lambda: by_hand(started(at=-1e15), call("a")),
}


@pytest.mark.parametrize("made", MADE)
def test_whatever_a_run_was_made_with_comes_back_from_json(made: str) -> None:
    """History, policy, budget, wire, system and payloads."""
    loop = MADE[made]()
    again = Loop.from_json(loop.to_json(), tools=TOOLS)
    assert (again.snapshot, again.to_json(), again.wire, again.system) == (
        loop.snapshot,
        loop.to_json(),
        loop.wire,
        loop.system,
    )


class Word(str):
    """Text of a class of its own, as some libraries hand out."""


class Seconds(float):
    """A number of a class of its own, as a clock of numpy gives."""


class Names(StrEnum):
    """The names of tools."""

    LOOK = "look"


@pytest.mark.parametrize(
    "make",
    [
        lambda: started(prompt=Word("go")),
        lambda: started(system=Word("be brief")),
        lambda: started(at=Seconds(1.0)),
        lambda: started(budget=Budget(max_seconds=Seconds(9.0))),
        lambda: by_hand(started(), call("a", Names.LOOK), DONE),
        lambda: by_hand(started(), call(Word("a")), DONE),
        lambda: by_hand(started(), {"kind": "final", "text": Word("done")}),
        lambda: by_hand(started(), {"kind": "final", "text": "done", "usage": {"cost_usd": Seconds(1.0)}}),
        lambda: by_hand(started(), ModelError(Word("busy"), Word("later"))),
    ],
)
def test_text_and_numbers_of_a_class_of_their_own_are_kept_as_text_and_numbers(make: Callable[[], Loop]) -> None:
    """A run that was told something in them can be written and read like any other."""
    loop = make()
    assert Loop.from_json(loop.to_json(), tools=TOOLS).snapshot == loop.snapshot


@pytest.mark.parametrize("error", [ModelError("busy", ValueError("later")), ModelError("busy", {"detail": []})])  # type: ignore[arg-type]  # not text
def test_what_a_model_error_says_is_kept_as_text(error: ModelError) -> None:
    """What else was given as its message can change nothing, and the run can be written and read."""
    loop = by_hand(started(), error)
    assert loop.snapshot.failure is not None
    assert isinstance(loop.snapshot.failure.message, str)
    assert Loop.from_json(loop.to_json(), tools=TOOLS).snapshot == loop.snapshot


def test_what_a_denial_says_is_kept_as_text() -> None:
    """A code that is no text can change nothing, and the run can be written and read."""

    @tool
    def deny() -> None:
        """Deny."""
        raise Denied({"code": []}, "no")  # type: ignore[arg-type]  # not text

    loop = by_hand(started(tools=[deny]), call("a", "deny"), DONE)
    assert [result.code for result in loop.result().results] == ["{'code': []}"]
    assert Loop.from_json(loop.to_json(), tools=[deny]).snapshot == loop.snapshot


#: What a subclass of an error may have set after its constructor was called.
ODD: list[Any] = [
    None,
    True,
    0,
    403,
    -1,
    1.5,
    math.nan,
    math.inf,
    10**400,
    "3",
    " ",
    "\ud83d",
    b"x",
    [],
    {"a": []},
    Word(),
]


class Bare(ModelError):
    """An error that never calls the constructor of its class."""

    def __init__(self) -> None:
        Exception.__init__(self, "no more")


@pytest.mark.parametrize("name", ["code", "message", "retryable", "retry_after", "timed_out"])
def test_whatever_a_model_error_carries_the_run_can_be_written_and_read(name: str) -> None:
    """It is a failure of the model like any other, and the next run can go on from it."""
    for value in [*ODD, object(), Mute()]:
        error = ModelError("busy", "later", retryable=True, retry_after=1.0)
        setattr(error, name, value)
        loop = by_hand(started(policy=Policy(model_retries=1)), call("a"), error, DONE)
        assert loop.finished, value
        assert Loop.from_json(loop.to_json(), tools=TOOLS).snapshot == loop.snapshot, value
        assert by_hand(started(history=loop.snapshot.history), DONE).result().answered, value


@pytest.mark.parametrize(
    ("fields", "failed"),
    [
        ({"code": 429}, ModelFailed("429", "later", True, 1.0, at=1.0)),
        ({"code": None, "message": None}, ModelFailed("ModelError", "busy: later", True, 1.0, at=1.0)),
        ({"message": ValueError("oh")}, ModelFailed("busy", "oh", True, 1.0, at=1.0)),
        ({"retryable": "yes", "retry_after": "3"}, ModelFailed("busy", "later", at=1.0)),
        ({"timed_out": 1}, ModelFailed("busy", "later", True, 1.0, at=1.0)),
    ],
)
def test_what_a_model_error_carries_is_taken_where_it_is_of_its_type(
    fields: dict[str, Any], failed: ModelFailed
) -> None:
    """What is to be text is taken as text; of the rest what does not fit is as if it had not been said."""
    error = ModelError("busy", "later", retryable=True, retry_after=1.0)
    vars(error).update(fields)
    assert started().failure(error, at=1.0) == failed


@pytest.mark.parametrize("host", ["run", "run_async"])
def test_a_model_error_that_never_called_its_constructor_ends_the_run_as_any_other(host: str) -> None:
    """By its class, in its words; it can't be asked to ask again."""

    def model(messages: Any) -> Any:
        raise Bare

    options: dict[str, Any] = {"policy": Policy(model_retries=3)}
    result = run(model, "go", **options) if host == "run" else asyncio.run(run_async(model, "go", **options))
    assert (result.status, result.spend.steps) == ("model_error", 1)
    (failed,) = [event for event in result.snapshot.events if isinstance(event, ModelFailed)]
    assert failed == ModelFailed("Bare", "no more", at=failed.at)


def test_a_run_whose_tool_denied_by_a_number_can_be_read_back_and_gone_on_from() -> None:
    """The code of a denial is text in every record that it gets into."""

    class Forbidden(Denied):
        """A denial with a code of HTTP."""

        def __init__(self) -> None:
            super().__init__("forbidden")
            self.code = 403  # type: ignore[assignment]  # the case

    @tool(effect="read")
    def peek() -> str:
        """Look."""
        raise Forbidden

    replies = iter([call("a", "peek"), call("b", "pay", amount=1)])
    waiting = run(lambda messages: next(replies), "go", tools=[peek, pay])
    again = Loop.from_json(waiting.loop.to_json(), tools=[peek, pay])
    assert (again.snapshot, [one.code for one in waiting.results]) == (waiting.loop.snapshot, ["403"])
    assert run(lambda messages: DONE, "go on", history=waiting.history).answered


# --- bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"prompt": None}, ValueError, "a run needs a prompt, or a history to go on from"),
        ({"prompt": " \n"}, ValueError, "prompt must not be blank"),
        ({"prompt": 5}, TypeError, "prompt must be text or a list of messages, not int"),
        ({"prompt": None, "history": History()}, ValueError, "a run needs a prompt, or a history to go on from"),
        ({"history": [GO]}, TypeError, "history must be a History, such as result.history, not list"),
        ({"policy": "parallel"}, TypeError, "policy must be a Policy, not 'parallel'"),
        ({"budget": {"max_steps": 3}}, TypeError, "budget must be a Budget, not {'max_steps': 3}"),
        ({"tools": 5}, TypeError, "tools must be an iterable of tools, not 5"),
        ({"at": math.nan}, ValueError, "at must be a finite number of seconds, not nan"),
        ({"at": math.inf}, ValueError, "at must be a finite number of seconds, not inf"),
        ({"at": -math.inf}, ValueError, "at must be a finite number of seconds, not -inf"),
        ({"system": 5}, TypeError, "system must be text or None, not 5"),
        (
            {"tools": [look, look, 5]},
            ValueError,
            "tools: two tools are named 'look'; give one another name=; "
            "5 can't become a tool; give a function with type hints",
        ),
    ],
)
def test_a_loop_refuses_what_it_cannot_be_made_of(options: dict[str, Any], error: type[Exception], says: str) -> None:
    """The sentence names it and says what would have been right."""
    with pytest.raises(error) as caught:
        started(**options)
    assert str(caught.value) == says


async def awaited(*told: Any) -> None:
    """Says nothing, to whoever awaits it."""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("at", None),
        ("at", "now"),
        ("at", True),
        ("tools", None),
        ("tools", 5),
        ("tools", look),
        ("wire", 5),
        ("wire", "plain"),
        ("system", 5),
        ("price", 5),
        ("cancel", 5),
        ("definition", 5),
        ("at", 10**400),
        pytest.param("at", 10**5000, id="at endless"),
        ("cancel", awaited),
        ("price", awaited),
    ],
)
def test_a_loop_names_what_it_cannot_be_made_of(name: str, value: Any) -> None:
    """Everything is looked at when the loop is made, not where it is first used."""
    with pytest.raises((TypeError, ValueError), match=rf"^{name}\b"):
        started(**{name: value})


def test_an_event_that_is_sent_is_answered_with_the_advance_of_the_machine() -> None:
    """As ``advance`` makes it of the same snapshot."""
    loop, event = started(), CancelPolled(False, at=1.0)
    before = loop.snapshot
    assert loop.send(event) == advance(TOOL_LOOP, before, event)


def test_an_event_that_does_not_fit_changes_nothing() -> None:
    """The loop is as it was, and takes what fits."""
    loop = visited(1)
    before = (loop.to_json(), loop.requests)
    says = "awaiting_model does not take this CancelPolled"
    with pytest.raises(UnexpectedEvent, match=says):
        loop.send(CancelPolled(False, at=3.0))
    with pytest.raises(ValueError, match="ModelReplied: at must be a finite number of seconds, not nan"):
        loop.replied(DONE, at=math.nan)
    assert (loop.to_json(), loop.requests) == before
    assert loop.replied(DONE, at=3.0).rows == ("awaiting_model/1",)


TURN = Turn(calls=(Call("a", "look", step=1),))
RAN = CallResult(1, 1, "b", "look", "ok", "7")


def odd(record: Any, **fields: Any) -> Any:
    """A copy of a record with what its hints do not permit."""
    made = copy.copy(record)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


@pytest.mark.parametrize(
    ("rests", "event", "says"),
    [
        (
            0,
            odd(CancelPolled(False, at=1.0), cancelled="yes", reason=5),
            "cancelled must be True or False, not 'yes'",
        ),
        (
            1,
            odd(ModelReplied(TURN, at=1.0), turn=DONE),
            "turn must be a Turn, which loop.replied(reply, at=...) ",
        ),
        (1, ModelReplied(odd(TURN, calls=[*TURN.calls]), at=1.0), "turn.calls must be a tuple, not [Call("),
        (1, ModelReplied(odd(TURN, calls=(odd(TURN.calls[0], id=5),)), at=1.0), "turn.calls[0].id must be text, not 5"),
        (1, odd(ModelFailed("busy", at=1.0), code=5), "code must be text, not 5"),
        (1, odd(ModelFailed("busy", at=1.0), usage={"a": 1}), "usage must be a Usage or None, not {'a': 1}"),
        (1, odd(Resumed(at=1.0), budget={"max_steps": 3}), "budget must be a Budget or None, not {'max_steps': 3}"),
        (
            3,
            ApprovalGiven([odd(Decision(1, 0, True), place=0.0)], at=3.0),
            "decisions[0].place must be a whole number",
        ),
        (6, CallReturned(odd(RAN, content={"a": 1}), at=9.0), "result.content must be text, not {'a': 1}"),
        (6, odd(CallLost(1, 1, at=9.0), step=1.0), "step must be a whole number, not 1.0"),
        (9, CallsResolved([Resolution(1, 0, 1)], at=9.0), "resolutions[0].rerun must be True or False, not 1"),  # type: ignore[arg-type]  # a number
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Event) else "",
)
def test_an_event_that_holds_what_is_of_another_type_is_refused(rests: int, event: Event, says: str) -> None:
    """All of it is told, and it changes nothing: what is written of the run can be read back."""
    loop = visited(rests)
    before = (loop.to_json(), loop.requests)
    with pytest.raises(TypeError, match=f"^{type(event).__name__}: {re.escape(says)}"):
        loop.send(event)
    assert (loop.to_json(), loop.requests) == before


def test_the_time_of_an_event_is_refused_by_the_machine() -> None:
    """Of a reply as of what is sent."""
    for at in (math.nan, None, "noon"):
        with pytest.raises(ValueError, match=f"^CancelPolled: at must be a finite number of seconds, not {at!r}$"):
            started().send(CancelPolled(False, at=at))  # type: ignore[arg-type]  # no number


def test_whatever_is_sent_is_refused_or_can_be_read_back() -> None:
    """Each event that the run took, with each value in each field of it and of the records in it."""
    values: list[Any] = [None, True, 5, 1.5, math.nan, "x", b"x", [], {}, (), ("x",), {"a": 1}, object(), Turn("x")]
    tried = 0
    for place, event in enumerate(visited().snapshot.events):
        for holder in [field for field in fields_of(event) if field != "at"]:
            for value in values:
                try:
                    told = changed(event, holder, value)
                except (TypeError, ValueError, AttributeError):  # can't even be made
                    continue
                tried += 1
                loop = visited(place)
                with suppress(TypeError, UnexpectedEvent):
                    loop.send(told)
                assert Loop.from_json(loop.to_json(), tools=TOOLS).snapshot == loop.snapshot, (event, holder, value)
    assert tried > 500


def fields_of(record: Any, path: str = "") -> list[str]:
    """The paths of its fields, and of those of the records in it."""
    names = [field.name for field in attrs.fields(type(record)) if field.init]
    inner = [(name, getattr(record, name)) for name in names]
    return [f"{path}{name}" for name in names] + [
        one for name, held in inner if attrs.has(type(held)) for one in fields_of(held, f"{path}{name}.")
    ]


def changed(record: Any, path: str, value: Any) -> Any:
    """A copy of it with this value there."""
    name, _, rest = path.partition(".")
    return attrs.evolve(record, **{name: changed(getattr(record, name), rest, value) if rest else value})


@attrs.frozen
class Escalated(Event):
    """Somebody took the run over."""

    why: str = ""
    at: float = attrs.field(kw_only=True)


ESCALATING = TOOL_LOOP.with_row("awaiting_approval", Row(Escalated, "finished_cancelled"), at=4)


def test_a_run_with_an_event_of_the_users_own_is_the_same_after_json() -> None:
    """It is restored through the definition, whose rows name it; its fields are looked at as those of others are."""
    loop = visit(started(definition=ESCALATING), range(3))
    before = loop.to_json()
    with pytest.raises(TypeError, match=r"^Escalated: why must be text, not 5$"):
        loop.send(odd(Escalated(at=3.0), why=5))
    assert loop.to_json() == before
    loop.send(Escalated("boss", at=3.0))
    again = Loop.from_json(loop.to_json(), tools=TOOLS, definition=ESCALATING)
    assert (again.snapshot, again.to_json(), again.finished) == (loop.snapshot, loop.to_json(), True)
    with pytest.raises(ValueError, match="'Escalated' is none of the records that can be restored"):
        Loop.from_json(loop.to_json(), tools=TOOLS)


@attrs.frozen
class Pressed:
    """Somebody pressed a button, which needs no class of this library."""

    at: float = attrs.field(kw_only=True)


def test_an_event_of_any_attrs_class_is_the_same_after_json() -> None:
    """What the machine takes can be read back."""
    pressing = TOOL_LOOP.with_row("awaiting_approval", Row(Pressed, "finished_cancelled"), at=4)
    loop = visit(started(definition=pressing), range(3))
    pressed: Any = Pressed(at=3.0)
    loop.send(pressed)
    again = Loop.from_json(loop.to_json(), tools=TOOLS, definition=pressing)
    assert (again.snapshot, again.finished) == (loop.snapshot, True)


def test_an_event_of_the_users_own_that_the_definition_does_not_take_is_refused_as_such() -> None:
    """By the machine, which says what it takes."""
    with pytest.raises(UnexpectedEvent, match="checking_cancel does not take this Escalated"):
        started().send(Escalated(at=1.0))


def test_an_event_that_is_sent_while_another_is_taken_does_not_get_lost() -> None:
    """One of the two is refused, and the log holds the other."""
    sent: list[Any] = []

    def meddles(snapshot: Snapshot, event: Event) -> bool:
        """Somebody else sends an event meanwhile."""
        if not sent:
            sent.append(loop.send(Resumed(at=1.0)).event)
        return False

    loop = started(definition=TOOL_LOOP.with_row("checking_cancel", Row(CancelPolled, "finished_stuck", meddles), at=1))
    with pytest.raises(RuntimeError, match="another event was sent while CancelPolled was taken"):
        loop.send(CancelPolled(False, at=1.0))
    assert loop.snapshot.events == tuple(sent)
    assert loop.send(CancelPolled(False, at=2.0)).snapshot.state == "awaiting_model"


def test_a_reply_that_was_not_asked_for_changes_nothing() -> None:
    """Neither does a failure."""
    loop = started()
    before = loop.to_json()
    with pytest.raises(UnexpectedEvent, match="checking_cancel does not take this ModelReplied"):
        loop.replied(DONE, at=1.0)
    with pytest.raises(UnexpectedEvent, match="checking_cancel does not take this ModelFailed"):
        loop.failed(ValueError("no"), at=1.0)
    assert loop.to_json() == before


# --- what it asks for, and what it is told ----------------------------------------------------------------


def test_an_ask_holds_messages_tools_and_system_in_the_shape_of_the_wire() -> None:
    """And a token that comes with the run's cancel; each time it is read it is new."""
    token = CancelToken()
    loop = started(wire=ANTHROPIC, system="be brief", cancel=token, tools=[look])
    _poll(loop, 1.0)
    (ask,) = loop.requests
    assert isinstance(ask, AskModel)
    assert (ask, list(ask.messages), ask.system) == (AskModel(1), [{"role": "user", "content": "go"}], "be brief")
    assert [one["name"] for one in ask.tools] == ["look"]
    before = ask.cancel()
    token.cancel("enough")
    assert (before, ask.cancel(), ask.cancel.reason) == (False, True, "enough")
    ask.messages.clear()
    ask.tools[0].clear()
    (again,) = loop.requests
    assert isinstance(again, AskModel)
    assert (len(again.messages), again.tools[0]["name"], loop.waiting) == (1, "look", (AskModel(1),))


def test_the_system_text_leads_the_messages_where_the_wire_has_it_there() -> None:
    """As in the plain shape."""
    assert list(started(system="be brief").messages()) == [{"kind": "system", "text": "be brief"}, GO]


def test_a_run_is_on_the_clock_of_its_events() -> None:
    """It begins at the time that it is given, and an ask tells the time from the latest event on."""
    loop = started(at=1e9)
    begun = (loop.snapshot.clock, loop.snapshot.since)
    _poll(loop, 2e9)
    (ask,) = loop.requests
    assert isinstance(ask, AskModel)
    assert (begun, 0.0 <= ask.clock() - 2e9 < 600.0) == ((1e9, 1e9), True)


@pytest.mark.parametrize(
    ("wire", "reply"),
    [
        (GEMINI, {"candidates": [{"content": {"parts": [{"functionCall": {"name": "look", "args": {}}}]}}]}),
        (OPENAI_CHAT, Turn("", (Call("", "look", "{}"),))),
    ],
    ids=["a reply", "a turn"],
)
def test_a_call_without_an_id_gets_one_that_the_run_has_not_used(wire: Any, reply: Any) -> None:
    """Whatever ids were used before."""
    used = by_hand(started(), call("call_s1_0"), DONE).result().history
    loop = started(wire=wire, history=used)
    _poll(loop, 1.0)
    assert [one.id for one in loop.turn(reply).calls] == ["call_s1_0_1"]


@pytest.mark.parametrize(
    ("wire", "offered"), [(ANTHROPIC, ["look", "pay", "boom"]), (OPENAI_CHAT, [])], ids=["anthropic", "openai"]
)
def test_where_no_tools_are_offered_a_wire_that_needs_their_schemas_still_gets_them(
    wire: Any, offered: list[str]
) -> None:
    """Its tool choice is none all the same."""
    loop = started(wire=wire, policy=Policy(wrap_up=True), budget=Budget(max_steps=1))
    _poll(loop, 1.0)
    (ask,) = loop.requests
    assert isinstance(ask, AskModel)
    assert (ask.tool_choice, [one["name"] for one in ask.tools]) == ("none", offered)


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (ModelError("busy", "later", retryable=True, retry_after=2.0), ("busy", "later", True, 2.0)),
        (ModelError("busy"), ("busy", "", False, None)),
        (ValueError("no key"), ("ValueError", "no key", False, None)),
        (KeyboardInterrupt(), ("KeyboardInterrupt", "", False, None)),
    ],
)
def test_only_a_model_error_says_that_the_model_may_be_asked_again(
    error: BaseException, failure: tuple[Any, ...]
) -> None:
    """Of everything else the class and the message are kept."""
    loop = visited(1)
    loop.failed(error, at=1.0)
    assert loop.snapshot.failure is not None
    kept = loop.snapshot.failure
    assert (kept.code, kept.message, kept.retryable, kept.retry_after, kept.timed_out) == (*failure, False)


def test_a_failure_can_be_that_of_the_deadline() -> None:
    """The host says so, and the run ends for it."""
    loop = visited(1)
    loop.failed(TimeoutError(), at=1.0, timed_out=True)
    _poll(loop, 2.0)
    by_itself = visited(1)
    assert by_itself.waiting == (AskModel(1, deadline=500.0),)
    by_itself.send(by_itself.failure(TimeoutError(), at=1.0))
    _poll(by_itself, 2.0)
    assert [one.result().status for one in (loop, by_itself)] == ["time_budget", "model_error"]


@pytest.mark.parametrize(("told", "known"), [(True, False), (False, True), (True, True)])
def test_that_the_deadline_cut_the_model_short_is_told_by_the_host_or_the_model_error(told: bool, known: bool) -> None:
    """Either will do."""
    error = ModelError("late", "too late", timed_out=known)
    assert started().failure(error, at=1.0, timed_out=told) == ModelFailed("late", "too late", timed_out=True, at=1.0)


class Mute(Exception):
    """An error that can't even be printed."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("error", ["x", None, ValueError, {"code": "busy"}])
def test_what_is_no_exception_is_refused_as_a_failure(error: Any) -> None:
    """By name; a class is no exception that was raised. It changes nothing."""
    loop = visited(1)
    before = loop.to_json()
    says = f"error must be the exception that asking the model raised, not {error!r}"
    for told in (loop.failed, loop.failure):
        with pytest.raises(TypeError, match=f"^{re.escape(says)}$"):
            told(error, at=1.0)
    assert loop.to_json() == before


def test_an_error_that_cannot_be_printed_is_a_failure_of_the_model_like_any_other() -> None:
    """Its class is kept."""
    loop = visited(1)
    loop.failed(Mute(), at=1.0)
    assert loop.snapshot.failure is not None
    assert loop.snapshot.failure.code == "Mute"


def mutely(usage: Usage) -> float:
    """Knows nothing, and can't say so."""
    raise Mute


@pytest.mark.parametrize(
    ("price", "cost", "missing", "warning"),
    [
        (lambda usage: 0.5 * usage.input_tokens, 1.5, 0, ""),
        (lambda usage: 0, 0.0, 0, ""),
        (lambda usage: Decimal("0.25"), 0.25, 0, ""),
        (lambda usage: None, 0.0, 1, ""),
        (
            lambda usage: math.nan,
            0.0,
            1,
            "ValueError: Usage: cost_usd must be a finite number from 0 on or None, not nan",
        ),
        (lambda usage: -1.0, 0.0, 1, "ValueError: Usage: cost_usd must be a finite number from 0 on or None, not -1.0"),
        (lambda usage: "1", 0.0, 1, "ValueError: Usage: cost_usd must be a finite number from 0 on or None, not '1'"),
        (lambda usage: {}[usage.model], 0.0, 1, "KeyError: 'm1'"),
        (mutely, 0.0, 1, "Mute: "),
    ],
)
def test_a_price_that_is_not_known_is_never_zero(
    price: Any, cost: float, missing: int, warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What is wrong with it is told once, and the gate says that usage is missing."""
    loop = started(price=price, budget=Budget(max_cost_usd=9.0))
    _poll(loop, 1.0)
    with caplog.at_level(logging.WARNING, "loopmachine"):
        loop.replied(call("a") | {"usage": {"input_tokens": 3, "output_tokens": 1, "model": "m1"}}, at=1.0)
    spend = loop.result().spend
    by_hand(loop, DONE)
    usage = Usage(input_tokens=3, output_tokens=1, model="m1")
    told = [("loopmachine", f"price: no cost for {usage!r}: {warning}")] if warning else []
    logged = [(record.name, record.message) for record in caplog.records]
    assert (spend.cost_usd, spend.unpriced, logged) == (cost, missing, told)
    assert loop.result().status == ("usage_missing" if missing else "answered")


def test_what_the_tools_and_the_wire_warn_of_is_told_through_the_loop() -> None:
    """A loop that is gone is told nothing."""

    def unsure(arguments: dict[str, Any]) -> bool:
        raise ValueError("who knows")

    @tool(needs_approval=unsure)
    def send() -> None:
        """Send."""

    told: list[notices.Warning] = []
    before = by_hand(started(wire=ANTHROPIC), SPOKEN).result().history
    loop = started(tools=[send], history=before)
    loop.warn = told.append
    asked = [("a", "send", "{}")]
    list(loop.messages())
    loop.toolbox.calls(asked, 1, ())
    toolbox = loop.toolbox
    del loop
    gc.collect()
    assert toolbox.calls(asked, 1, ())[0].needs_approval is True
    assert told == [
        notices.Warning(
            "history: what came over 'anthropic' is sent over 'plain' without what that has no place for, "
            "such as thinking and signatures"
        ),
        notices.Warning("needs_approval of send raised ValueError: who knows; the call waits for approval"),
    ]


@pytest.mark.parametrize("usage", [{}, {"usage": {"cost_usd": 0.25}}], ids=["no usage", "a cost of its own"])
def test_a_price_is_asked_only_where_there_is_usage_without_cost(usage: dict[str, Any]) -> None:
    """A cost that the provider told is kept."""
    asked: list[Usage] = []
    loop = started(price=asked.append)
    _poll(loop, 1.0)
    loop.replied(DONE | usage, at=1.0)
    assert (asked, loop.result().spend.cost_usd) == ([], 0.25 if usage else 0.0)


def test_a_turn_as_is_is_told_as_the_reply_that_it_was_decoded_from() -> None:
    """The calls of a Turn that a model returns are prepared, and it is priced, as those of a reply are."""
    loop = Loop("go", tools=TOOLS, price=lambda usage: 0.5, at=0.0)
    reply = ASKED | {"usage": {"input_tokens": 5}}
    turn = loop.turn(reply)
    assert loop.turn(loop.wire.decode(reply)) == turn
    assert (turn.usage, [one.known for one in turn.calls]) == (
        Usage(input_tokens=5, cost_usd=0.5),
        [True, True, True, False],
    )


# --- tools ------------------------------------------------------------------------------------------------


def test_a_tool_gets_its_own_arguments_each_time() -> None:
    """What it does to them is seen by nobody, not even by a second performance of the same call."""
    seen = []

    @tool
    def note(items: list[str], where: dict[str, int]) -> str:
        """Note."""
        seen.append((list(items), dict(where)))
        items.clear()
        where["more"] = 1
        return "noted"

    loop = by_hand(started(tools=[note], policy=Policy(batch="reject")))
    loop.replied(call("a", "note", items=["x"], where={"y": 1}), at=2.0)
    _poll(loop, 3.0)
    (request,) = loop.requests
    assert isinstance(request, StartCalls)
    before = loop.to_json()
    results = [loop.perform(request.calls[0]) for _ in range(2)]
    assert (seen, [one.content for one in results]) == ([(["x"], {"y": 1})] * 2, ["noted"] * 2)
    assert loop.to_json() == before


def test_a_tool_gets_the_context_of_the_run() -> None:
    """The caller's data, the call, the cancel, the deadline, and a way to tell how far it is."""
    token, told = CancelToken(), []

    @tool
    def who(context: Context) -> str:
        """Say who asks."""
        context.progress(1, 2, "half")
        before = context.cancel()
        token.cancel("enough")
        return f"{context.data} {context.call_id} {context.deadline} {before} {context.cancel()}"

    loop = started(tools=[who], context="me", cancel=token, budget=Budget(max_seconds=60.0))
    by_hand(loop).replied(call("a", "who"), at=2.0)
    _poll(loop, 3.0)
    (request,) = loop.requests
    assert isinstance(request, StartCalls)
    result = loop.perform(request.calls[0], progress=lambda *said: told.append(said))
    assert (result.content, told) == ("me a 60.0 False True", [(1, 2, "half")])


def test_a_tool_that_is_performed_by_hand_knows_how_far_the_run_is() -> None:
    """The calls made, the seconds used, and that its time is over, all at the latest time that was told."""
    seen = []

    @tool
    def look_around(context: Context) -> None:
        """Look around."""
        cancel: Any = context.cancel
        seen.append((context.calls, context.spend.seconds, cancel(), cancel.reason))

    loop = started(tools=[look_around], budget=Budget(max_seconds=60.0))
    by_hand(loop).replied(calls(call("a", "look_around"), call("b", "look_around")), at=2.0)
    _poll(loop, 3.0)
    _poll(loop, 4.0)
    (request,) = loop.requests
    assert isinstance(request, StartCalls)
    loop.send(CallReturned(loop.perform(request.calls[0]), at=70.0))
    loop.perform(request.calls[1])
    assert seen == [(2, 4.0, False, ""), (2, 70.0, True, "the deadline passed")]


def test_what_an_async_tool_tells_is_heard_by_who_performs_it() -> None:
    """How far it is, and what it spent."""
    told: list[Any] = []

    @tool
    async def ask(context: Context) -> None:
        """Ask."""
        context.progress(1, 2, "half")
        context.add_usage(Usage(input_tokens=3))

    loop = started(tools=[ask])
    by_hand(loop).replied(call("a", "ask"), at=2.0)
    _poll(loop, 3.0)
    (request,) = loop.requests
    assert isinstance(request, StartCalls)
    result = asyncio.run(loop.perform_async(request.calls[0], progress=lambda *said: told.append(said)))
    assert (result.usage, told) == (Usage(input_tokens=3), [(1, 2, "half")])


def test_an_async_tool_is_performed_by_perform_async() -> None:
    """And only by it."""

    @tool
    async def later(n: int) -> int:
        """Wait."""
        await asyncio.sleep(0)
        return n

    loop = started(tools=[later])
    by_hand(loop).replied(call("a", "later", n="4"), at=2.0)
    _poll(loop, 3.0)
    (request,) = loop.requests
    assert isinstance(request, StartCalls)
    assert asyncio.run(loop.perform_async(request.calls[0])).content == "4"
    with pytest.raises(TypeError, match="later is async; use perform_async, or run_async"):
        loop.perform(request.calls[0])


@pytest.mark.parametrize("given", ["a", None, ("a", "look"), StartCalls(())])
def test_what_is_no_call_is_not_performed(given: Any) -> None:
    """TypeError by name, of both ways to perform one."""
    loop = started()
    says = f"^call must be a Call, as StartCalls holds them, not {re.escape(repr(given))}$"
    with pytest.raises(TypeError, match=says):
        loop.perform(given)
    with pytest.raises(TypeError, match=says):
        asyncio.run(loop.perform_async(given))


def test_a_sync_tool_is_not_performed_by_perform_async() -> None:
    """It would have run by the time that there is nothing to await, and be told of as failed."""
    seen: list[str] = []

    @tool
    def act() -> None:
        """Act."""
        seen.append("acted")

    loop = started(tools=[act])
    by_hand(loop).replied(call("a", "act"), at=2.0)
    _poll(loop, 3.0)
    (request,) = loop.requests
    assert isinstance(request, StartCalls)
    with pytest.raises(TypeError, match=r"^act is not async; use perform$"):
        asyncio.run(loop.perform_async(request.calls[0]))
    assert seen == []
    assert loop.perform(request.calls[0]).outcome == "ok"


def test_a_callable_for_error_texts_is_used_and_given_again() -> None:
    """It is no part of the snapshot, and a run that has one can't be restored without it."""

    def quiet(error: Exception) -> str:
        return f"a {type(error).__name__}, no more"

    loop = started(policy=Policy(error_text=quiet))
    by_hand(loop).replied(call("a", "boom"), at=2.0)
    text = loop.to_json()
    again = Loop.from_json(text, tools=TOOLS, error_text=quiet)
    assert (loop.snapshot.policy.error_text, again.snapshot) == ("message", loop.snapshot)
    by_hand(again, DONE)
    assert again.result().results[0].content == "a RuntimeError, no more"
    with pytest.raises(
        ValueError, match=r"^error_text: this run's policy has a callable; give it again as error_text=$"
    ):
        Loop.from_json(text, tools=TOOLS)


@pytest.mark.parametrize("given", ["nonsense", 5])
def test_an_error_text_that_is_none_is_refused_on_restore(given: Any) -> None:
    """As the policy refuses it."""
    text = visited(2).to_json()
    with pytest.raises(ValueError, match="error_text"):
        Loop.from_json(text, tools=TOOLS, error_text=given)


# --- a history handed in ----------------------------------------------------------------------------------


def test_a_history_handed_in_is_gone_on_from() -> None:
    """Its ids count as used, and its results are not this run's."""
    loop = by_hand(started(prompt="again", history=_said_before()), call("b"), call("a"))
    assert (loop.result().status, [one.id for one in loop.result().results]) == ("repeated_call", ["b"])
    assert list(loop.snapshot.history)[4:] == [{"kind": "user", "text": "again"}, call("b"), brought("b")]


@pytest.mark.parametrize("repeated_id", ["rename", "answer"])
def test_messages_with_an_id_twice_are_taken_where_the_policy_does_not_stop_at_it(repeated_id: Any) -> None:
    """What is sent has another id for the second; a policy that stops refuses them."""
    said = [GO, call("a"), brought("a", "1"), call("a"), brought("a", "2")]
    ids = [one.get("id") for one in started(prompt=said, policy=Policy(repeated_id=repeated_id)).messages()]
    assert ids == [None, "a", "a", "a_s0_0", "a_s0_0"]
    with pytest.raises(ValueError, match=r"the id 'a'"):
        started(prompt=said)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (odd(UserMessage("go"), text=5), "history: entries[1].text must be text, not 5"),
        (odd(Final(Turn("done")), turn=DONE), "history: entries[1].turn must be a Turn, which loop.replied("),
        (Exchange(TURN, (odd(RAN, content=5),)), "history: entries[1].results[0].content must be text, not 5"),
        (
            SimpleNamespace(messages=list),
            "history: entries[1] must be a UserMessage or an Exchange or a Note or a",
        ),
    ],
)
def test_a_history_that_holds_what_is_of_another_type_is_refused(entry: Any, says: str) -> None:
    """As an event is."""
    with pytest.raises(TypeError, match=f"^{re.escape(says)}"):
        started(history=History([UserMessage("hi"), entry]))


def test_all_that_is_wrong_with_a_history_is_told() -> None:
    """Each by its path."""
    with pytest.raises(TypeError) as caught:
        started(history=History([odd(UserMessage("go"), text=5), odd(UserMessage("go"), text=6)]))
    assert str(caught.value) == "history: entries[0].text must be text, not 5; entries[1].text must be text, not 6"


def test_runs_that_go_on_from_one_history_do_not_see_each_other() -> None:
    """Nor does the run that it came from."""
    before = _said_before()
    said = list(before)
    ends = [by_hand(started(prompt=word, history=before), DONE).result().history for word in ("one", "two")]
    assert [[list(end)[:4], list(end)[4]["text"]] for end in ends] == [[said, "one"], [said, "two"]]
    assert list(before) == said


# --- replay -----------------------------------------------------------------------------------------------


def test_replaying_the_events_gives_the_same_snapshots() -> None:
    """Event by event, from the start alone."""
    loop = visited()
    start = Loop.from_json(visited(0).to_json(), tools=TOOLS).snapshot
    events, rows = loop.snapshot.events, loop.snapshot.rows
    replayed = [replay(TOOL_LOOP, start, events[:place]) for place in RESTS]
    assert replayed == [visited(place).snapshot for place in RESTS]
    assert replay(TOOL_LOOP, start, events, rows) == loop.snapshot


def every_json() -> list[str]:
    """The JSON at every rest and every end, and of everything else that is made here."""
    rests = [visited(place) for place in RESTS]
    return [loop.to_json() for loop in (*rests, *map(ended, ENDS), *(make() for make in MADE.values()))]


@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_another_process_under_another_hash_seed_gives_the_same_bytes(seed: str) -> None:
    """Whether it makes the runs itself or replays them."""
    here = every_json()
    code = (
        "import json, sys\n"
        "from loopmachine import Loop\n"
        "from tests.test_loop import TOOLS, every_json\n"
        "again = [Loop.from_json(text, tools=TOOLS).to_json() for text in json.load(sys.stdin)]\n"
        "json.dump([every_json(), again], sys.stdout)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(here),
        env={**os.environ, "PYTHONHASHSEED": seed},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert json.loads(done.stdout) == [here, here]


Edit = Callable[[dict[str, Any]], Any]
POLLED = {"is": "CancelPolled", "cancelled": False, "at": 9.0}
REFUSES = "does not take this"
OTHERS = {"is": "CallResult", "step": 1, "place": 3, "id": "d", "name": "send_mail", "outcome": "ok", "content": "1"}


def _dropped(place: int) -> Edit:
    return lambda record: record["events"].pop(place)


def _added(place: int, event: dict[str, Any]) -> Edit:
    return lambda record: record["events"].insert(place, event)


def _swapped(one: int, other: int) -> Edit:
    def edit(record: dict[str, Any]) -> None:
        events = record["events"]
        events[one], events[other] = events[other], events[one]

    return edit


def _changed(place: int, **fields: Any) -> Edit:
    return lambda record: record["events"][place].update(fields)


@pytest.mark.parametrize(
    ("edit", "place", "event", "expected", "got"),
    [
        (_dropped(0), 0, "ModelReplied", "checking_cancel/2", f"checking_cancel {REFUSES}"),
        (_dropped(3), 3, "CancelPolled", "awaiting_approval/1", f"awaiting_approval {REFUSES}"),
        (_dropped(17), 17, "the end", "rechecking_cancel/2, validating/8", "no more events"),
        (_swapped(3, 4), 3, "CancelPolled", "awaiting_approval/1", f"awaiting_approval {REFUSES}"),
        (_swapped(8, 11), 8, "CallReturned", "dispatching/2", f"dispatching {REFUSES}"),
        (_changed(4, cancelled=True), 4, "CancelPolled", "rechecking_cancel/2", "the rows rechecking_cancel/1"),
        (_changed(5, at=900.0), 5, "CancelPolled", "dispatching/7", "the rows dispatching/6"),
        (_changed(13, retryable=False), 14, "CancelPolled", "validating/1", "validating/3"),
        (_changed(8, result=OTHERS), 8, "CallReturned", "dispatching/2", f"dispatching {REFUSES}"),
        (_added(5, {"is": "CancelRequested", "at": 4.5}), 5, "CancelRequested", "dispatching/7", "dispatching/8"),
        (_added(18, POLLED), 18, "CancelPolled", "none", f"finished_answered {REFUSES}"),
        (lambda record: record.update(events=[]), 0, "the end", "checking_cancel/2", "no more events"),
        (lambda record: record["rows"].pop(), 17, "CancelPolled", "rechecking_cancel/2", "validating/8"),
        (lambda record: record["rows"].append("x/1"), 17, "CancelPolled", "validating/8, x/1", "validating/8"),
        (lambda record: record["rows"].append("finished_answered/1"), 18, "the end", "answered/1", "no more events"),
    ],
)
def test_a_record_that_does_not_fit_names_the_first_event_that_differs(
    edit: Edit, place: int, event: str, expected: str, got: str
) -> None:
    """And says what was expected there, and what this definition gives."""
    record = json.loads(visited().to_json())
    edit(record)
    with pytest.raises(ReplayDiverged) as caught:
        Loop.from_json(json.dumps(record), tools=TOOLS)
    head, _, tail = str(caught.value).partition(", this definition gives ")
    assert caught.value.place == place
    assert head.startswith(f"event {place}, {event}, does not fit: the record has the rows ")
    assert (expected in head, got in tail) == (True, True), str(caught.value)


def test_a_run_that_waits_for_a_review_is_not_answered_without_it() -> None:
    """The last row bears the same number in a definition that leads elsewhere; older records do not say where to."""
    review = State("awaiting_review", "A person reads it.", requests.poll_now)
    reads = [Row(CancelPolled, "finished_answered", None, updates.append_final), Row(Resumed, "awaiting_review")]
    row = Row(None, review.name, guards.turn_final)
    reviewed = TOOL_LOOP.with_state(review, reads).with_row("validating", row, at=8)
    loop = Loop("go", definition=reviewed, at=0.0)
    loop.send(CancelPolled(False, at=1.0))
    loop.replied(DONE, at=2.0)
    loop.send(CancelPolled(False, at=3.0))
    with pytest.raises(ReplayDiverged) as caught:
        Loop.from_json(loop.to_json())
    assert str(caught.value) == (
        "event 2, CancelPolled, does not fit: "
        "the record has the state awaiting_review, this definition gives the state finished_answered"
    )
    assert Loop.from_json(loop.to_json(), definition=reviewed).snapshot == loop.snapshot
    older = json.loads(loop.to_json())
    del older["state"]
    assert Loop.from_json(json.dumps(older), definition=reviewed).snapshot == loop.snapshot


def test_a_record_diverges_where_the_definition_has_another_rule() -> None:
    """The rows of a record are those of its own definition, which it has to be read with."""

    def three_steps_made(snapshot: Snapshot, event: Event) -> bool:
        """The model was asked twice."""
        return snapshot.steps >= 2

    stricter = TOOL_LOOP.with_row("checking_budget", Row(None, "finished_stuck", three_steps_made), at=1)
    text = visited().to_json()
    with pytest.raises(ReplayDiverged, match="event 0, CancelPolled, does not fit"):
        Loop.from_json(text, tools=TOOLS, definition=stricter)
    own = by_hand(started(definition=stricter), call("a"), call("b"), DONE)
    again = Loop.from_json(own.to_json(), tools=TOOLS, definition=stricter)
    assert (again.snapshot, again.result().status, again.snapshot.rows[-1]) == (
        own.snapshot,
        "stuck",
        "checking_budget/1",
    )


# --- text that is no run ----------------------------------------------------------------------------------


def _with(**parts: Any) -> str:
    return json.dumps(json.loads(visited(4).to_json()) | parts)


def _without(*parts: str) -> str:
    record = json.loads(visited(4).to_json())
    return json.dumps({name: value for name, value in record.items() if name not in parts})


NO_RUN = "this is no run that to_json wrote: "


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", f"{NO_RUN}it is not JSON: "),
        ("{", f"{NO_RUN}it is not JSON: "),
        ("[]", f"{NO_RUN}it names no format"),
        ("5", f"{NO_RUN}it names no format"),
        ("{}", f"{NO_RUN}it names no format"),
        (_with(format="1"), f"{NO_RUN}it names no format"),
        (_with(format=2), "this run is in format 2, which a newer loopmachine wrote; this one reads format 1"),
        (_with(format=2, start=None), "this run is in format 2, which a newer loopmachine wrote; "),
        (_without("events"), f"{NO_RUN}it has no events"),
        (_without("wire", "rows", "start", "system"), f"{NO_RUN}it has no rows, start, system, wire"),
        (_with(wire="smoke"), "wire: this run speaks 'smoke'; give that one as wire=, not None"),
        (_with(start={"is": "Path", "state": "x"}), "'Path' is none of the records that can be restored: Budget, "),
        (_with(start={}), "None is none of the records that can be restored: "),
        (_with(events=[{"is": "CancelPolled", "cancelled": False}]), "CancelPolled can't be restored: "),
        (_with(events=[{"is": "CancelPolled", "what": 1, "at": 0.0}]), "CancelPolled can't be restored: "),
        (_with(start={"is": "Snapshot"}), "Snapshot can't be restored: "),
        (
            _with(start={"is": "Snapshot", "state": "nowhere"}),
            f"{NO_RUN}it begins in 'nowhere', which is no state of this definition",
        ),
        *(
            (_with(**dict.fromkeys(parts, 5)), f"{NO_RUN}{', '.join(parts)} can't be what is written there")
            for parts in (["wire"], ["system"], ["start"], ["events"], ["rows"], ["wire", "system", "rows"])
        ),
    ],
)
def test_text_that_is_no_run_is_refused_with_a_sentence(text: str, says: str) -> None:
    """It says what is wrong, and of a newer format that it is newer."""
    with pytest.raises(ValueError, match=f"^{re.escape(says)}"):
        Loop.from_json(text, tools=TOOLS)


def _start(**fields: Any) -> dict[str, Any]:
    return {"start": {"is": "Snapshot", "state": "checking_cancel", **fields}}


def _event(**fields: Any) -> dict[str, Any]:
    return {"events": [{"is": "CancelPolled", "cancelled": False, "at": 0.0, **fields}]}


def each(part: str, *values: Any) -> list[dict[str, Any]]:
    """A damage for each of these values of a part."""
    return [{part: value} for value in values]


DAMAGES: list[dict[str, Any]] = [
    *each("format", True, 0, -1),
    *each("wire", [], {}),
    *each("system", 5, [], {"is": "Ids", "items": []}),
    *each("start", 5, None, [], "x", {"is": []}, {"is": "Log"}, {"is": "Budget"}),
    {"start": {"is": "BaseSnapshot", "state": "checking_cancel"}},
    *(_start(**{name: 5}) for name in ("log", "history", "budget", "policy", "ids", "flights", "turn")),
    _start(state="nowhere"),
    _start(clock="noon"),
    _start(history={"is": "History", "items": ["x"]}),
    *each("events", 5, None),
    *(_event(at=value) for value in ("noon", None)),
    _event(cancelled="no"),
    *each("rows", 5, None, [5]),
]


@pytest.mark.parametrize("parts", DAMAGES, ids=str)
def test_a_damaged_record_is_refused_as_one(parts: dict[str, Any]) -> None:
    """Whatever is wrong with it, it is a ValueError or a record that diverges, and never half a loop."""
    with pytest.raises((ValueError, ReplayDiverged)):
        Loop.from_json(_with(**parts), tools=TOOLS)


def _deep(levels: int) -> str:
    return _with(start=[]).replace('"start": []', f'"start": {"[" * levels}{"]" * levels}')


@pytest.mark.parametrize("text", ["[" * 100_000, _deep(700), _deep(5000)], ids=["cut", "deep", "deeper"])
def test_a_record_that_is_too_deep_is_refused_as_one(text: str) -> None:
    """It is no run, whatever a reader of JSON makes of it."""
    with pytest.raises(ValueError, match="this is no run that to_json wrote"):
        Loop.from_json(text, tools=TOOLS)


def test_what_a_record_has_beside_its_parts_is_ignored() -> None:
    """A later version of the same format may add to it, and to every record in it."""

    def added(part: Any) -> Any:
        if isinstance(part, list):
            return [added(one) for one in part]
        return {name: added(one) for name, one in part.items()} | {"new": {}} if isinstance(part, dict) else part

    text = json.dumps(added(json.loads(visited().to_json())))
    assert text.count('"new": {}') > len(VISIT)
    assert Loop.from_json(text, tools=TOOLS).snapshot == visited().snapshot


class Shout(type(OPENAI_CHAT)):  # type: ignore[misc]  # the class of a wire has no public name
    """A wire of the user's own."""

    name = "shout"


def test_a_wire_of_the_users_own_is_given_again() -> None:
    """By its name alone it is not known."""
    own = Shout()
    text = by_hand(started(wire=own)).to_json()
    assert Loop.from_json(text, tools=TOOLS, wire=own).wire is own
    with pytest.raises(ValueError, match=r"^wire: this run speaks 'shout'; give that one as wire=, not None$"):
        Loop.from_json(text, tools=TOOLS)


def test_a_wire_that_is_not_the_runs_is_refused() -> None:
    """The run's payloads are in the shape of its own."""
    with pytest.raises(
        ValueError, match=r"^wire: this run speaks 'plain'; give that one as wire=, not <wire anthropic>$"
    ):
        Loop.from_json(visited(4).to_json(), tools=TOOLS, wire=ANTHROPIC)


def test_what_only_has_the_name_of_a_wire_is_none() -> None:
    """A run is restored with the wire itself."""
    for named in (SimpleNamespace(name="plain"), 5):
        with pytest.raises(TypeError, match=r"^wire must be a Wire, not (namespace|5)"):
            Loop.from_json(visited(4).to_json(), tools=TOOLS, wire=named)  # type: ignore[arg-type]


def test_what_is_no_definition_is_refused() -> None:
    """By name, before the text is read."""
    with pytest.raises(TypeError, match=r"^definition must be a Definition, not 5$"):
        Loop.from_json("{}", definition=5)  # type: ignore[arg-type]


def test_what_is_no_part_of_a_record_is_given_again() -> None:
    """Context, price and cancel, as for a new loop."""
    token = CancelToken()

    def price(usage: Usage) -> float:
        return 0.5

    loop = Loop.from_json(visited(1).to_json(), tools=TOOLS, context="me", price=price, cancel=token)
    assert (loop.context, loop.price, loop.cancel) == ("me", price, token)
    loop.replied(DONE | {"usage": {"input_tokens": 1, "output_tokens": 1}}, at=1.0)
    assert loop.result().spend.cost_usd == 0.5


def test_a_restored_run_may_have_other_tools() -> None:
    """A call of one that is gone is answered, and what the model is offered is what there is now."""
    text = visited(5).to_json()
    same, other = (Loop.from_json(text, tools=tools) for tools in (TOOLS, [look]))
    (request,) = [one for one in other.requests if isinstance(one, StartCalls)]
    results = [loop.perform(request.calls[0]) for loop in (same, other)]
    assert [(one.outcome, one.content) for one in results] == [
        ("ok", "paid 2.5"),
        ("unknown_tool", "there is no tool named 'pay' any more"),
    ]


def test_only_text_is_a_record() -> None:
    """Parsed JSON is not."""
    record: Any = {"format": 1}
    with pytest.raises(TypeError, match=r"^text must be the text that to_json gave, not {'format': 1}$"):
        Loop.from_json(record)


@pytest.mark.parametrize("turns", [1, 100])
def test_handing_out_the_messages_takes_the_same_whatever_the_history(turns: int) -> None:
    """Nothing of it is looked at."""
    loop = by_hand(started(budget=Budget(max_steps=turns + 1)), *(call(f"c{turn}") for turn in range(turns)))
    work: list[str] = []
    sys.setprofile(lambda frame, event, arg: work.append(event))
    try:
        loop.messages()
    finally:
        sys.setprofile(None)
    assert len(work) < 12
