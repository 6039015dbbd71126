"""``run``: it performs what the machine asks for, on threads where there are several, and decides nothing."""

from __future__ import annotations

import collections
import contextlib
import contextvars
import copy
import gc
import inspect
import logging
import queue
import subprocess
import sys
import threading
import time
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pytest

import loopmachine
from loopmachine import (
    ANTHROPIC,
    TOOL_LOOP,
    Budget,
    CancelToken,
    Context,
    Decision,
    History,
    Loop,
    ModelError,
    Policy,
    Resolution,
    Tool,
    Usage,
    advance,
    notices,
    run,
    tool,
)
from loopmachine.events import ApprovalGiven, CallReturned, CallsResolved, CancelPolled, CancelRequested, Resumed
from loopmachine.machine import Advance
from loopmachine.requests import AskApproval, AskModel
from loopmachine.sync_host import SyncHost
from tests.drivers import DONE, GO, brought, call, calls

Model = Callable[..., Any]


@tool(effect="read")
def look(n: int = 1) -> int:
    """Look at a number."""
    return n


@tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def scripted(*replies: Any) -> Model:
    """A model that gives these replies in order: one that can be called is called, an exception is raised."""
    left = iter(replies)

    def model(messages: Any, tools: Any) -> Any:
        reply = next(left)
        if isinstance(reply, BaseException):
            raise reply
        return reply(messages, tools) if callable(reply) else reply

    return model


def started(**options: Any) -> Loop:
    """A loop at its start."""
    return Loop(**{"prompt": "go", "tools": [look, pay], "at": 0.0, **options})


def outcomes(loop: Loop) -> list[tuple[str, str]]:
    """Of each call that has its result: its id and its outcome."""
    return [(result.id, result.outcome) for result in loop.result().results]


def frozen_clock() -> float:
    """A clock that stands still."""
    return 0.0


# --- the model --------------------------------------------------------------------------------------------


class Asked:
    """A model that keeps what it is given."""

    def __init__(self) -> None:
        self.given: list[tuple[Any, ...]] = []

    def keep(self, given: tuple[Any, ...]) -> dict[str, Any]:
        self.given.append(given)
        return DONE

    def ask(self, messages: Any, tools: Any) -> dict[str, Any]:
        return self.keep((messages, tools))

    __call__ = ask


KEPT = Asked()


@pytest.mark.parametrize(
    ("model", "arity"),
    [
        (lambda messages: KEPT.keep((messages,)), 1),
        (lambda messages, tools: KEPT.keep((messages, tools)), 2),
        (lambda messages, tools, ask: KEPT.keep((messages, tools, ask)), 3),
        (lambda messages, tools, temperature=0.5: KEPT.keep((messages, tools)), 2),
        (lambda *given: KEPT.keep(given), 2),
        (lambda messages, /, tools, *, temperature=0.5, **more: KEPT.keep((messages, tools)), 2),
        (KEPT, 2),
        (KEPT.ask, 2),
        (partial(lambda key, messages, tools: KEPT.keep((messages, tools)), "key"), 2),
    ],
)
def test_a_model_is_given_as_many_arguments_as_it_takes(model: Model, arity: int) -> None:
    """The messages, the tools, and all that it is asked."""
    KEPT.given.clear()
    token = CancelToken()
    result = run(model, "go", tools=[look], system="be brief", cancel=token, budget=Budget(max_seconds=9.0))
    ((messages, *more),) = KEPT.given
    assert (result.status, list(messages), len(more)) == (
        "answered",
        [{"kind": "system", "text": "be brief"}, GO],
        arity - 1,
    )
    assert [[one["name"] for one in tools] for tools in more[:1]] == [["look"]] * (arity > 1)
    token.cancel("enough")
    assert [(ask.step, ask.tool_choice, ask.deadline, ask.cancel.reason) for ask in more[1:]] == [
        (1, "auto", result.snapshot.deadline, "enough")
    ] * (arity > 2)


def test_a_model_whose_parameters_cannot_be_read_gets_messages_and_tools() -> None:
    """A function written in C may have no signature."""
    failure = run(max, "go").snapshot.failure
    assert failure is not None
    assert (failure.code, "Messages" in failure.message) == ("TypeError", True)


class Awaited:
    """A model whose call is a coroutine function."""

    async def __call__(self, messages: Any, tools: Any) -> Any:
        """Never awaited."""


async def _later(messages: Any, tools: Any) -> Any:
    """Never awaited."""


@pytest.mark.parametrize(
    "model",
    [
        lambda: DONE,
        lambda a, b, c, d: DONE,
        lambda *, messages, tools: DONE,
        lambda messages, tools, *, temperature: DONE,
        "gpt",
        None,
        _later,
        Awaited(),
        partial(_later),
    ],
)
def test_what_cannot_be_the_model_is_refused_before_anything_happens(model: Any) -> None:
    """One that takes too few or too many, that is async, or that can't be called."""
    loop = started()
    before = loop.to_json()
    with pytest.raises(TypeError, match=r"^(the )?model\b"):
        run(model, loop=loop)
    assert (loop.to_json(), loop.driven) == (before, False)


def unawaited(act: Callable[[], object]) -> list[str]:
    """What Python says about coroutines that this leaves behind."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        act()
        gc.collect()
    return [str(one.message) for one in said]


def test_a_model_that_hands_out_a_coroutine_is_refused_and_leaves_none_behind() -> None:
    """That it is async is seen when it is asked; the sentence says what to use."""

    def act() -> None:
        with pytest.raises(TypeError, match="the model is async; use run_async"):
            run(lambda messages, tools: _later(list(messages), tools), "go")

    assert unawaited(act) == []


class Promise:
    """Something to be awaited that is no coroutine."""

    def __await__(self) -> Iterator[None]:
        yield


def test_a_model_that_hands_out_something_else_to_be_awaited_is_refused_too() -> None:
    """As a reply it would be of no shape."""
    promise = Promise()
    assert list(promise.__await__()) == [None]
    with pytest.raises(TypeError, match="the model is async; use run_async"):
        run(lambda messages, tools: promise, "go")


def test_an_async_tool_is_refused_before_anything_happens() -> None:
    """The sentence names it and says what to use."""
    asked: list[Any] = []

    @tool
    async def later() -> None:
        """Never awaited."""

    with pytest.raises(TypeError, match=r"later is async; use .*run_async"):
        run(asked.append, "go", tools=[look, later])
    assert asked == []


def test_an_async_approver_is_refused_and_leaves_no_coroutine_behind() -> None:
    """The sentence says what to use."""

    async def approve(call: Any) -> None:
        """Never awaited."""

    def act() -> None:
        with pytest.raises(TypeError, match=r"approve\b.* is async; use run_async"):
            run(
                scripted(calls(call("a", "pay", amount=1), call("b", "pay", amount=2))),
                "go",
                tools=[pay],
                approve=approve,
            )

    assert unawaited(act) == []


def test_an_approver_that_hands_out_coroutines_is_refused_and_leaves_none_behind() -> None:
    """That it is async is seen when it is asked."""

    async def approve(call: Any) -> None:
        """Never awaited."""

    reply = calls(call("a", "pay", amount=1), call("b", "pay", amount=2))

    def act() -> None:
        with pytest.raises(TypeError, match=r"approve\b.* is async; use run_async"):
            run(scripted(reply), "go", tools=[pay], approve=lambda call: approve(call.id))

    assert unawaited(act) == []


@pytest.mark.parametrize("name", ["cancel", "observe", "price", "clock"])
def test_a_callable_that_is_asked_and_not_awaited_may_not_be_async(name: str) -> None:
    """A coroutine would be taken for a yes, or for nothing at all."""

    async def never(*given: Any) -> None:
        """Never awaited."""

    def act() -> None:
        with pytest.raises(TypeError, match=rf"^{name} is async"):
            run(scripted(USED), "go", **{name: never})  # type: ignore[arg-type]  # which is what is tested

    assert unawaited(act) == []


# --- what is given ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            (name, 5)
            for name in ("tools", "wire", "system", "cancel", "approve", "price", "observe", "definition", "clock")
        ),
        ("loop", 5),
        ("loop", run(lambda messages: DONE, "go")),
    ],
)
def test_what_a_run_cannot_use_is_refused_by_name_before_anything_happens(name: str, value: Any) -> None:
    """Not where it is first used."""
    asked: list[Any] = []
    given = {"prompt": "go"} | {name: value}
    with pytest.raises((TypeError, ValueError), match=rf"^{name}\b"):
        run(asked.append, **{key: one for key, one in given.items() if (key, name) != ("prompt", "loop")})
    assert asked == []


def test_none_means_the_default() -> None:
    """Of every parameter but the model."""
    nothing: Any = dict.fromkeys(name for name in inspect.signature(run).parameters if name not in ("model", "prompt"))
    result = run(lambda messages: DONE, "go", **nothing)
    assert (result.status, result.snapshot.budget, result.snapshot.policy) == ("answered", Budget(), Policy())


def test_without_a_prompt_a_run_goes_on_from_a_history() -> None:
    """Or from a loop."""
    history = run(lambda messages: DONE, "go").history
    assert run(lambda messages: DONE, history=history).history[2:] == [DONE]
    with pytest.raises(ValueError, match="a run needs a prompt, or a history to go on from"):
        run(lambda messages: DONE)


# --- threads ----------------------------------------------------------------------------------------------


def threads_of(*script: Any, tools: int = 3, **policy: Any) -> list[str]:
    """The names of the threads on which the tools of a run were, in order of their calls."""
    seen: dict[int, str] = {}

    @tool
    def where(n: int) -> None:
        """Say where it runs."""
        seen[n] = threading.current_thread().name

    run(scripted(*script, DONE), "go", tools=[where], policy=Policy(**policy))
    return [seen[n] for n in sorted(seen)]


def where(n: int) -> dict[str, Any]:
    return call(f"c{n}", "where", n=n)


HERE = "MainThread"


def test_single_calls_run_in_the_thread_of_the_run_and_no_other_is_made() -> None:
    """However many turns ask for one, and one by one where the policy says so."""
    before = threading.active_count()
    singly = threads_of(*(where(n) for n in range(5)))
    one_by_one = threads_of(calls(where(0), where(1), where(2)), batch="sequential")
    narrow = threads_of(calls(where(0), where(1)), max_parallel=1)
    assert (singly, one_by_one, narrow) == ([HERE] * 5, [HERE] * 3, [HERE] * 2)
    assert threading.active_count() == before


def test_the_threads_of_a_run_are_gone_after_it() -> None:
    """They are the library's own, named after it."""
    before = threading.active_count()
    names = threads_of(calls(where(0), where(1)), calls(where(2), where(3)))
    assert {name.partition("_")[0] for name in names} == {"loopmachine"}
    assert (len(set(names)) <= 2, threading.active_count()) == (True, before)


@pytest.mark.parametrize(("asked", "at_once"), [(2, 8), (8, 8), (40, 40), (6, 3)])
def test_calls_of_a_turn_run_at_once_as_many_as_the_policy_lets(asked: int, at_once: int) -> None:
    """They wait for each other, so fewer would not do; never more."""
    barrier, lock = threading.Barrier(min(asked, at_once)), threading.Lock()
    running = 0
    most: list[int] = []

    @tool
    def meet(n: int) -> int:
        """Wait for the others."""
        nonlocal running
        with lock:
            running += 1
            most.append(running)
        barrier.wait(20)
        with lock:
            running -= 1
        return n

    reply = calls(*(call(f"c{n}", "meet", n=n) for n in range(asked)))
    result = run(scripted(reply, DONE), "go", tools=[meet], policy=Policy(max_parallel=at_once))
    assert [one.content for one in result.results] == [str(n) for n in range(asked)]
    assert max(most) <= at_once


def test_results_are_in_the_order_asked_for_whatever_the_order_they_come_in() -> None:
    """The first call ends last."""
    second_done = threading.Event()

    @tool
    def first() -> str:
        """End last."""
        return f"waited {second_done.wait(20)}"

    @tool
    def second() -> str:
        """End first."""
        second_done.set()
        return "quick"

    told: list[Any] = []
    reply = calls(call("a", "first"), call("b", "second"))
    result = run(scripted(reply, DONE), "go", tools=[first, second], observe=told.append)
    came = [one.event.result.id for one in told if isinstance(one.event, CallReturned)]
    assert (came, list(result.history)[3:5]) == (["b", "a"], [brought("a", "waited True"), brought("b", "quick")])


def test_a_sequential_tool_runs_beside_no_other() -> None:
    """Those before it have ended, those after it have not begun."""
    log: list[str] = []

    @tool
    def free(n: int) -> None:
        """Run beside others."""
        log.append(f"free {n}")
        time.sleep(0.01)
        log.append(f"free {n}")

    @tool(sequential=True)
    def alone() -> None:
        """Run alone."""
        log.append("alone")
        time.sleep(0.01)
        log.append("alone")

    reply = calls(call("a", "free", n=0), call("b", "free", n=1), call("c", "alone"), call("d", "free", n=2))
    run(scripted(reply, DONE), "go", tools=[free, alone])
    assert (sorted(log[:4]), log[4:]) == (
        ["free 0", "free 0", "free 1", "free 1"],
        ["alone", "alone", "free 2", "free 2"],
    )


def test_context_variables_reach_the_tools_wherever_they_run() -> None:
    """What a tool on a thread sets stays with it."""
    user = contextvars.ContextVar("user", default="nobody")

    @tool
    def who(n: int) -> str:
        """Say who asks."""
        asker = user.get()
        user.set("a tool")
        return asker

    def scene() -> list[str]:
        user.set("me")
        reply = calls(call("a", "who", n=1), call("b", "who", n=2), call("c", "who", n=3))
        result = run(scripted(reply, DONE), "go", tools=[who])
        return [*(one.content for one in result.results), user.get()]

    assert contextvars.copy_context().run(scene) == ["me", "me", "me", "me"]


def test_a_cancel_told_while_calls_run_is_heard_and_their_outcomes_are_kept() -> None:
    """What was queued is not started; a token is heard at once, so no further call is granted."""
    token = CancelToken()
    both, log = threading.Barrier(2), []

    @tool
    def work(n: int) -> str:
        """Work, and cancel."""
        log.append(n)
        both.wait(20)
        token.cancel("enough")
        return "done all the same"

    loop = started(tools=[work], policy=Policy(max_parallel=2))
    run(scripted(calls(*(call(f"c{n}", "work", n=n) for n in range(4)))), loop=loop, cancel=token)
    assert (loop.result().status, loop.snapshot.cancel_reason, sorted(log)) == ("cancelled", "enough", [0, 1])
    assert [one for _, one in outcomes(loop)] == ["ok", "ok", "not_started", "not_started"]


def test_a_token_set_by_a_slow_call_is_heard_before_the_others_end() -> None:
    """The machine is told unasked, while it waits for them."""
    token, heard = CancelToken(), threading.Event()

    @tool
    def cancel() -> str:
        """Cancel."""
        token.cancel("enough")
        return "cancelled"

    @tool
    def wait() -> str:
        """Wait until the machine was told."""
        return f"heard {heard.wait(20)}"

    def observe(notice: Any) -> None:
        if isinstance(notice.event, CancelRequested):
            heard.set()

    reply = calls(call("a", "wait"), call("b", "cancel"))
    result = run(scripted(reply), "go", tools=[cancel, wait], cancel=token, observe=observe)
    assert [(one.outcome, one.content) for one in result.results] == [("ok", "heard True"), ("ok", "cancelled")]
    told = [one for one in result.snapshot.events if isinstance(one, CancelRequested)]
    assert [one.reason for one in told] == ["enough"]


def test_a_token_set_from_elsewhere_is_heard_while_calls_run() -> None:
    """By no call of the run: nothing else wakes the host."""
    token, both, heard = CancelToken(), threading.Barrier(3), threading.Event()

    @tool
    def wait() -> str:
        """Wait until the machine was told."""
        both.wait(20)
        return f"heard {heard.wait(20)}"

    def cancel() -> None:
        both.wait(20)
        token.cancel("enough")

    def observe(notice: Any) -> None:
        if isinstance(notice.event, CancelRequested):
            heard.set()

    thread = threading.Thread(target=cancel)
    thread.start()
    reply = calls(call("a", "wait"), call("b", "wait"))
    result = run(scripted(reply), "go", tools=[wait], cancel=token, observe=observe)
    thread.join()
    assert (result.status, [one.content for one in result.results]) == ("cancelled", ["heard True"] * 2)


def test_a_run_sleeps_while_its_calls_run() -> None:
    """It waits for them, and does not look again and again."""
    worked = time.process_time()

    @tool
    def rest() -> None:
        """Rest."""
        time.sleep(0.3)

    run(scripted(calls(call("a", "rest"), call("b", "rest")), DONE), "go", tools=[rest])
    assert time.process_time() - worked < 0.2


def test_a_plain_callable_cancels_a_run_where_it_is_polled() -> None:
    """Immediately before and after the model, and before each further grant; it gives no reason."""
    answers = iter([False, False, False, True])  # and then it is denied
    log: list[int] = []

    @tool
    def work(n: int) -> None:
        """Work."""
        log.append(n)

    reply = calls(*(call(f"c{n}", "work", n=n) for n in range(3)))
    result = run(
        scripted(reply), "go", tools=[work], cancel=lambda: next(answers, False), policy=Policy(max_parallel=1)
    )
    assert (result.status, result.snapshot.cancel_reason, log) == ("cancelled", "", [0, 1])
    assert [one.outcome for one in result.results] == ["ok", "ok", "not_started"]


# --- what passes through ----------------------------------------------------------------------------------


class Stop(BaseException):
    """What is no Exception passes through the library, whatever its class."""


PASSING = [KeyboardInterrupt("stop"), SystemExit(3), GeneratorExit("stop"), Stop("stop")]


def passes(loop: Loop, error: BaseException, model: Model, **options: Any) -> None:
    """This error comes out of the run as it is, and leaves the loop to be gone on with."""
    with pytest.raises(type(error)) as caught:
        run(model, loop=loop, **options)
    assert (caught.value is error, loop.driven) == (True, False)


@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_what_passes_through_the_model_leaves_the_step_counted_and_no_turn(error: BaseException) -> None:
    """The loop asks again when it goes on."""
    loop = started()
    passes(loop, error, scripted(error))
    state = loop.snapshot.state
    result = run(scripted(DONE), loop=loop)
    assert (state, result.status, result.spend.steps, result.spend.unpriced) == ("awaiting_model", "answered", 2, 1)


def raising(error: BaseException) -> Tool:
    """A tool that raises this."""

    @tool
    def fall() -> None:
        """Raise."""
        raise error

    return fall


@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_what_passes_through_a_tool_leaves_its_call_interrupted(error: BaseException) -> None:
    """And the loop goes on from there: the model is told."""
    loop = started(tools=[raising(error)])
    passes(loop, error, scripted(call("a", "fall")))
    result = run(scripted(DONE), loop=loop)
    told = f"interrupted by {type(error).__name__}"
    assert list(result.history) == [GO, call("a", "fall"), brought("a", told, "interrupted"), DONE]


@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_what_passes_through_one_of_several_tools_comes_out_after_the_others_have_ended(error: BaseException) -> None:
    """What they brought is recorded, and what was queued is started when the loop goes on."""
    both, fallen, log = threading.Barrier(2), threading.Event(), []

    @tool
    def fall() -> None:
        """Raise, once both run."""
        both.wait(20)
        fallen.set()
        raise error

    @tool
    def stay(n: int) -> str:
        """End after the other has raised."""
        if n == 1:
            both.wait(20)
        fallen.wait(20)
        time.sleep(0.02)
        log.append(n)
        return f"stayed {n}"

    loop = started(tools=[fall, stay], policy=Policy(max_parallel=2))
    passes(loop, error, scripted(calls(call("a", "fall"), call("b", "stay", n=1), call("c", "stay", n=2))))
    before = (list(log), loop.snapshot.state, [one.phase for one in loop.snapshot.flights])
    run(scripted(DONE), loop=loop)
    assert before == ([1], "dispatching", ["answered", "answered", "queued"])
    assert outcomes(loop) == [("a", "interrupted"), ("b", "ok"), ("c", "ok")]


def test_of_two_errors_that_pass_through_the_first_comes_out_and_both_calls_are_interrupted() -> None:
    """The second does not take its place."""
    both, first, second = threading.Barrier(2), Stop("first"), Stop("second")

    @tool
    def fall(n: int) -> None:
        """Raise, one after the other."""
        both.wait(20)
        time.sleep(0.05 * n)
        raise (first, second)[n]

    loop = started(tools=[fall])
    passes(loop, first, scripted(calls(call("a", "fall", n=0), call("b", "fall", n=1))))
    assert outcomes(loop) == [("a", "interrupted"), ("b", "interrupted")]


def _fails(error: BaseException, when: Callable[[Any], bool] = lambda given: True) -> Callable[..., Any]:
    """A callable that raises this the first time that something holds of what it is given."""
    left = [error]

    def fail(given: Any = None) -> bool:
        if left and when(given):
            raise left.pop()
        return False

    return fail


@pytest.mark.parametrize("error", [*PASSING, ValueError("no")], ids=repr)
@pytest.mark.parametrize("where", ["approve", "cancel", "clock"])
def test_what_passes_through_a_callable_of_the_caller_leaves_the_loop_as_it_was(
    error: BaseException, where: str
) -> None:
    """Whatever it is, the caller's own error is the caller's."""
    loop = started()
    passes(loop, error, scripted(call("a", "pay", amount=1)), **{where: _fails(error)})
    script = [DONE] if loop.snapshot.turn else [call("a", "pay", amount=1), DONE]
    result = run(scripted(*script), loop=loop, approve=lambda call: True)
    assert (result.status, outcomes(loop)) == ("answered", [("a", "ok")])


@pytest.mark.parametrize("kind", [Resumed, CancelPolled, CallReturned], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_what_passes_through_the_observer_leaves_the_loop_after_what_it_was_told(
    error: BaseException, kind: type[Any]
) -> None:
    """The event that it heard of was taken."""
    loop = started()
    model = scripted(calls(call("a"), call("b")), DONE)
    passes(loop, error, model, observe=_fails(error, lambda notice: isinstance(notice.event, kind)))
    kinds = [type(event) for event in loop.snapshot.events]
    result = run(model, loop=loop)
    assert (kind in kinds, result.status, outcomes(loop)) == (True, "answered", [("a", "ok"), ("b", "ok")])


@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_what_passes_through_the_price_leaves_the_model_to_be_asked_again(error: BaseException) -> None:
    """Its turn is not kept."""
    loop = started()
    passes(loop, error, scripted(DONE | {"usage": {"input_tokens": 1}}), price=_fails(error))
    assert (loop.snapshot.state, run(scripted(DONE), loop=loop).spend.steps) == ("awaiting_model", 2)


def test_what_was_running_when_the_host_died_is_known_when_its_result_was() -> None:
    """Every tool that ended has its result in the snapshot, however often something passes through."""
    stop, ended = threading.Barrier(3), []

    @tool
    def work(n: int) -> int:
        """Work beside the others."""
        stop.wait(20)
        ended.append(n)
        return n

    def observe(notice: Any) -> None:
        if isinstance(notice.event, CallReturned):
            raise KeyboardInterrupt

    loop = started(tools=[work])
    with pytest.raises(KeyboardInterrupt):
        run(scripted(calls(*(call(f"c{n}", "work", n=n) for n in range(3)))), loop=loop, observe=observe)
    assert (sorted(ended), outcomes(loop), loop.driven) == (
        [0, 1, 2],
        [("c0", "ok"), ("c1", "ok"), ("c2", "ok")],
        False,
    )


def test_what_a_single_call_brought_is_recorded_though_the_clock_fails_then() -> None:
    """As that of a call on a thread is: what is known is not lost."""
    worked: list[int] = []

    @tool
    def work() -> str:
        """Work."""
        worked.append(1)
        return "worked"

    def clock() -> float:
        if worked == [1]:
            worked.append(2)
            raise KeyboardInterrupt
        return 0.0

    loop = started(tools=[work])
    with pytest.raises(KeyboardInterrupt):
        run(scripted(call("a", "work")), loop=loop, clock=clock)
    assert (worked, outcomes(loop)) == ([1, 2], [("a", "ok")])


# --- an interrupt at any moment ---------------------------------------------------------------------------

ROOT = Path(__file__).parents[1]
SOURCE = str(Path(loopmachine.__file__).parent)


def finishes(act: Callable[[], Any], seconds: float = 20.0) -> Any:
    """What this brings or raises, in a thread of its own; a failure where it hangs."""
    brought: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def work() -> None:
        try:
            brought.put(act())
        except BaseException as raised:
            brought.put(raised)

    threading.Thread(target=work, daemon=True).start()
    try:
        return brought.get(timeout=seconds)
    except queue.Empty:
        return "it hangs"


TOKEN = CancelToken()  #: lives longer than any run


class Interrupter:
    """Raises KeyboardInterrupt in this thread at the moment ``place``, as a signal may.

    A moment is the entry of a function of the library, or the return of one written in C to it; so it is of the
    files of ``beside``.
    """

    def __init__(self, place: int | None, *beside: str) -> None:
        self.place = place
        self.files = (SOURCE, *beside)
        self.moments = 0
        self.where = ""

    def __call__(self, frame: FrameType, what: str, argument: Any) -> None:
        if what in ("call", "c_return") and frame.f_code.co_filename.startswith(self.files):
            self.moments += 1
            if self.moments == self.place:
                sys.setprofile(None)
                self.where = f"{what} {frame.f_code.co_qualname}:{frame.f_lineno}"
                raise KeyboardInterrupt

    def run(self, loop: Loop, model: Model) -> Any:
        """Drive the loop."""
        sys.setprofile(self)
        try:
            return run(model, loop=loop, cancel=TOKEN, clock=frozen_clock)
        finally:
            sys.setprofile(None)


def two_at_once() -> tuple[Loop, list[int], Model]:
    started_calls: list[int] = []

    @tool
    def work(n: int) -> int:
        """Work."""
        started_calls.append(n)
        return n

    def model(messages: Any, tools: Any) -> Any:
        asked = [one for one in messages if one["kind"] == "call"]
        return DONE if asked else calls(call("c0", "work", n=0), call("c1", "work", n=1))

    return started(tools=[work]), started_calls, model


def _interrupted(place: int | None, *beside: str) -> tuple[int, list[str]]:
    """How many moments the run had, and what is wrong after an interrupt at one of them."""
    loop, started_calls, model = two_at_once()
    interrupter = Interrupter(place, *beside)
    brought = finishes(partial(interrupter.run, loop, model), 3.0)
    again = finishes(partial(run, model, loop=loop), 3.0)  # the loop ends, or asks what became of the lost calls
    holds = {
        "it comes out": isinstance(brought, KeyboardInterrupt) if interrupter.where else brought.answered,
        "the loop goes on": getattr(again, "status", "") in ("answered", "awaiting_resolution"),
        "no call is started twice": len(set(started_calls)) == len(started_calls),
    }
    return interrupter.moments, [f"{interrupter.where}: not {what}" for what, held in holds.items() if not held]


def test_what_looks_for_interrupts_finds_them() -> None:
    """So that the test below can fail: what hangs is told, and an interrupter interrupts where it is to."""
    nobody, frame = threading.Event(), cast("Any", iter(History())).gi_frame
    interrupter = Interrupter(2)
    interrupter(sys._getframe(), "call", None)
    interrupter(frame, "return", None)
    interrupter(frame, "call", None)
    with pytest.raises(KeyboardInterrupt):
        interrupter(frame, "c_return", None)
    assert (interrupter.moments, interrupter.where.partition(":")[0]) == (2, "c_return History.__iter__")
    assert finishes(nobody.wait, 0.01) == "it hangs"
    nobody.set()


def hosts_left() -> list[Any]:
    """The hosts that somebody has."""
    gc.collect()
    return [one for one in gc.get_objects() if type(one) is SyncHost]


def threads_left(seconds: float) -> list[str]:
    """The threads of pools that still stand when nobody has these pools, and they had so long to end."""
    gc.collect()
    until = time.monotonic() + seconds
    while (left := [one.name for one in threading.enumerate() if one.name.startswith("loopmachine_")]) and (
        time.monotonic() < until
    ):
        time.sleep(0.01)
    return left


def test_an_interrupt_at_any_moment_comes_out_and_the_loop_can_go_on() -> None:
    """It never hangs, no call is started twice, and the loop ends or asks what became of the lost ones.

    And nothing is left: neither a thread nor a host, which the cancel token would know.
    """
    threads, hosts = threads_left(3.0), hosts_left()
    moments, faults = _interrupted(None)
    for place in range(1, moments + 1):
        faults += _interrupted(place)[1]
    assert (moments > 100, faults, threads_left(3.0), hosts_left()) == (True, [], threads, hosts)


def test_an_interrupt_while_threads_are_made_comes_out_and_the_loop_can_go_on() -> None:
    """Though it may leave a lock held that a thread waits for, which then never begins."""
    moments, faults = _interrupted(None, threading.__file__)
    for place in range(1, moments + 1):
        faults += _interrupted(place, threading.__file__)[1]
    assert (moments > _interrupted(None)[0], faults) == (True, [])


def test_a_pool_that_can_make_no_thread_does_not_hang_the_run() -> None:
    """The error comes out, and nothing is waited for that was never started."""
    code = (
        "import threading\n"
        "from tests.test_hosts import run, two_at_once\n"
        "loop, _, model = two_at_once()\n"
        "threading.stack_size(2**46)\n"
        "try:\n"
        "    run(model, loop=loop)\n"
        "except RuntimeError as error:\n"
        "    print(error, loop.driven)\n"
    )
    python = [sys.executable, "-c", code]
    done = subprocess.run(python, cwd=ROOT, capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout == "can't start new thread False\n"


# --- waiting ----------------------------------------------------------------------------------------------

PATIENT = Policy(model_retries=1)


def busy(seconds: float) -> ModelError:
    """The provider asks for a pause."""
    return ModelError("busy", retryable=True, retry_after=seconds)


def waited(*script: Any, **options: Any) -> tuple[str, float]:
    """How a run ended, and how long it took in seconds."""
    begun = time.monotonic()
    status = run(scripted(*script), "go", policy=PATIENT, **options).status
    return status, time.monotonic() - begun


@pytest.mark.parametrize("cancel", [None, CancelToken(), lambda: False], ids=["none", "a token", "a callable"])
def test_the_pause_that_a_provider_asks_for_is_waited_for(cancel: Any) -> None:
    """Until it is over, by the clock, asleep; the model is then asked again."""
    worked = time.process_time()
    status, seconds = waited(busy(0.3), DONE, cancel=cancel)
    assert (status, 0.3 <= seconds < 5.0, time.process_time() - worked < 0.2) == ("answered", True, True)


def test_without_a_pause_nothing_is_waited_for() -> None:
    """Nor when it is over already."""
    assert waited(busy(0.0), DONE)[0] == "answered"
    clock = iter(range(0, 1000, 50))
    assert waited(busy(20.0), DONE, clock=lambda: float(next(clock)))[1] < 5.0


def test_a_token_ends_a_pause_at_once() -> None:
    """The model is not asked again."""
    token = CancelToken()
    timer = threading.Timer(0.05, token.cancel, ["enough"])
    timer.start()
    status, seconds = waited(busy(60.0), DONE, cancel=token)
    timer.join()
    assert (status, seconds < 5.0) == ("cancelled", True)


def test_a_plain_callable_ends_a_pause_soon() -> None:
    """It is asked again and again while the pause lasts."""
    end = time.monotonic() + 0.1
    status, seconds = waited(busy(60.0), DONE, cancel=lambda: time.monotonic() >= end)
    assert (status, 0.1 <= seconds < 5.0) == ("cancelled", True)


def test_a_cancel_seen_during_a_pause_and_then_denied_stays_seen() -> None:
    """The pause ended for it."""
    answers = iter([False, False, True])
    assert waited(busy(60.0), DONE, cancel=lambda: next(answers, False))[0] == "cancelled"


@pytest.mark.parametrize("token", [True, False])
def test_a_pause_may_be_of_any_finite_length(token: bool) -> None:
    """A hundred thousand million seconds are waited for until the cancel."""
    cancel = CancelToken()
    timer = threading.Timer(0.1, cancel.cancel)
    timer.start()
    status = waited(busy(1e11), DONE, cancel=cancel if token else lambda: cancel.cancelled)[0]
    timer.join()
    assert status == "cancelled"


# --- observers --------------------------------------------------------------------------------------------


def test_an_observer_gets_each_advance_in_order() -> None:
    """Each is what the machine gives for its event on the snapshot before."""
    told: list[Any] = []
    script = [calls(call("a"), call("b", n=2)), ValueError("no")]
    result = run(scripted(*script), "go", tools=[look], observe=told.append, clock=frozen_clock)
    snapshots = [Loop("go", tools=[look], at=0.0).snapshot, *(one.snapshot for one in told)]
    assert [type(one) for one in told] == [Advance] * len(result.snapshot.events)
    assert told == [advance(TOOL_LOOP, before, one.event) for before, one in zip(snapshots, told, strict=False)]
    assert (told[-1].snapshot, tuple(row for one in told for row in one.rows)) == (result.snapshot, result.rows)
    assert [one.requests for one in told][:1] == [(AskModel(1),)]


def test_an_observer_of_a_loop_that_goes_on_hears_first_that_it_was_resumed() -> None:
    """With the budget that is new."""
    told: list[Any] = []
    budget = Budget(max_steps=3)
    run(scripted(DONE), loop=started(), budget=budget, observe=told.append, clock=frozen_clock)
    assert [told[0].event, told[0].snapshot.budget] == [Resumed(budget, at=0.0), budget]


def test_an_observer_gets_the_progress_of_tools_wherever_they_run() -> None:
    """With the call that it is of; without an observer it goes nowhere."""
    told: list[Any] = []

    @tool
    def work(n: int, context: Context) -> None:
        """Tell how far it is."""
        context.progress(n)
        context.progress(n + 0.5, 9, "nearly")

    script = [call("a", "work", n=1), calls(call("b", "work", n=2), call("c", "work", n=3)), DONE]
    run(scripted(*script), "go", tools=[work], observe=told.append)
    progress = [one for one in told if isinstance(one, notices.Progress)]
    said = [(one.call.id, one.done, one.total, one.text) for one in progress]
    assert sorted(said) == [
        ("a", 1, None, ""),
        ("a", 1.5, 9, "nearly"),
        ("b", 2, None, ""),
        ("b", 2.5, 9, "nearly"),
        ("c", 3, None, ""),
        ("c", 3.5, 9, "nearly"),
    ]
    assert run(scripted(*script), "go", tools=[work]).answered


def _unknown_price(usage: Usage) -> float:
    raise KeyError(usage.model)


USED = DONE | {"usage": {"input_tokens": 1, "output_tokens": 1, "model": "m1"}}


def test_a_warning_goes_to_the_observer_or_else_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Never to both."""
    told: list[Any] = []
    run(scripted(USED), "go", price=_unknown_price, observe=told.append)
    warned = [one.text for one in told if isinstance(one, notices.Warning)]
    silent = caplog.messages[:]
    run(scripted(USED), "go", price=_unknown_price)
    usage = Usage(input_tokens=1, output_tokens=1, model="m1")
    assert (warned, silent, caplog.messages) == (
        [f"price: no cost for {usage!r}: KeyError: 'm1'"],
        [],
        [f"price: no cost for {usage!r}: KeyError: 'm1'"],
    )
    assert {(record.name, record.levelno) for record in caplog.records} == {("loopmachine", logging.WARNING)}


def test_an_observer_that_raises_is_reported_once_and_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """The run is the same as without it, wherever it is told something."""

    def observe(notice: Any) -> None:
        raise ValueError("I do not want to know")

    @tool
    def work(n: int, context: Context) -> int:
        """Tell how far it is."""
        context.progress(n)
        return n

    def script() -> Model:
        return scripted(calls(call("a", "work", n=1), call("b", "work", n=2)), USED)

    plain = run(script(), "go", tools=[work], clock=frozen_clock)
    caplog.clear()
    watched = run(script(), "go", tools=[work], clock=frozen_clock, price=_unknown_price, observe=observe)
    assert (watched.history, watched.rows, watched.results) == (plain.history, plain.rows, plain.results)
    assert [(one.message, one.levelno, one.exc_info is not None) for one in caplog.records] == [
        ("the observer raised; the run goes on", logging.ERROR, True)
    ]


def test_after_a_run_its_loop_tells_its_observer_nothing_more(caplog: pytest.LogCaptureFixture) -> None:
    """Nor does it keep anything of the run alive: what workflow code does with it then goes to the log."""
    told: list[Any] = []
    token = CancelToken()
    loop = started(price=_unknown_price)
    error = KeyboardInterrupt()
    passes(loop, error, scripted(error), observe=told.append, cancel=token)
    del told[:]
    loop.replied(USED, at=1.0)
    assert (told, len(caplog.messages)) == ([], 1)


def test_a_token_and_a_loop_that_outlive_a_run_keep_nothing_of_it_alive() -> None:
    """Not even the model."""
    token, loop = CancelToken(), started()
    model = Asked()
    gone = weakref.ref(model)
    run(model, loop=loop, cancel=token, observe=lambda notice: None)
    del model
    gc.collect()
    assert gone() is None


# --- approval ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdict", "result"),
    [
        (True, brought("a", "paid 1")),
        (False, brought("a", "this call was not approved", "denied")),
        ("too much", brought("a", "too much", "denied")),
        ("", brought("a", "this call was not approved", "denied")),
    ],
)
def test_what_an_approver_says_is_done(verdict: Any, result: dict[str, Any]) -> None:
    """Yes, no, or a reason that the model is told."""
    asked: list[Any] = []

    def approve(call: Any) -> Any:
        asked.append((call.name, call.arguments, call.checked))
        return verdict

    script = [call("a", "pay", amount="1"), DONE]
    history = run(scripted(*script), "go", tools=[pay], approve=approve).history
    assert (list(history)[2], asked) == (result, [("pay", {"amount": "1"}, '{"amount":1}')])


def test_a_call_without_a_verdict_suspends_the_run() -> None:
    """What was decided beside it is kept; it goes on where somebody decides the rest."""
    loop = started()
    reply = calls(call("a", "pay", amount=1), call("b", "pay", amount=2), call("c"))
    verdicts = {"a": True, "b": None}
    result = run(scripted(reply), loop=loop, approve=lambda call: verdicts[call.id])
    pending = [[one.id for one in request.calls] for request in result.requests]
    assert (result.finished, result.status, pending) == (False, "awaiting_approval", [["b"]])
    asked: list[str] = []

    def refuse(call: Any) -> str:
        asked.append(call.id)
        return "no"

    run(scripted(DONE), loop=loop, approve=refuse)
    assert (asked, outcomes(loop)) == (["b"], [("a", "ok"), ("b", "denied"), ("c", "ok")])


@pytest.mark.parametrize("approve", [None, lambda call: None], ids=["nobody", "somebody undecided"])
def test_a_run_that_nobody_decides_is_suspended_and_goes_on_from_json(approve: Any) -> None:
    """In another process it executes what was approved, and asks no model first."""
    first = run(scripted(call("a", "pay", amount=7)), "go", tools=[pay], approve=approve)
    assert (first.finished, [type(one) for one in first.requests]) == (False, [AskApproval])
    loop = Loop.from_json(first.loop.to_json(), tools=[pay])
    words: Any = [Decision(1, 0, True)]
    loop.send(ApprovalGiven(words, at=loop.snapshot.clock))
    model = Asked()
    result = run(model, loop=loop)
    assert (result.status, [list(messages) for messages, _ in model.given]) == (
        "answered",
        [[GO, call("a", "pay", amount=7), brought("a", "paid 7")]],
    )


@pytest.mark.parametrize("verdict", [1, 0, [], ("no",), b"no"])
def test_an_approver_that_says_something_else_is_refused(verdict: Any) -> None:
    """Nothing is taken for a yes, and the run can go on."""
    loop = started()
    with pytest.raises(TypeError) as caught:
        run(scripted(call("a", "pay", amount=1)), loop=loop, approve=lambda call: verdict)
    assert str(caught.value) == f"approve must return True, False, a reason (text) or None, not {verdict!r}"
    assert run(scripted(DONE), loop=loop, approve=lambda call: True).results[0].content == "paid 1"


# --- going on with a loop ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"prompt": "go"},
        {"tools": [look]},
        {"policy": Policy()},
        {"wire": ANTHROPIC},
        {"history": History()},
        {"system": "be brief"},
        {"definition": TOOL_LOOP.with_row("checking_budget", TOOL_LOOP.rows("checking_budget")[0], at=1)},
        {"prompt": "go", "policy": Policy(), "system": ""},
    ],
    ids=", ".join,
)
def test_what_made_a_loop_cannot_be_given_beside_it(given: dict[str, Any]) -> None:
    """The sentence names all of it, and the loop is as it was."""
    loop = started()
    before = loop.to_json()
    with pytest.raises(TypeError) as caught:
        run(scripted(DONE), loop=loop, **given)
    assert str(caught.value) == f"{', '.join(given)}: what made the loop can't be given beside loop="
    assert (loop.to_json(), loop.driven) == (before, False)


def test_what_did_not_make_a_loop_can_be_given_beside_it() -> None:
    """What is not given stays as the loop has it."""
    seen = []

    @tool
    def who(context: Context) -> str:
        """Say who asks."""
        seen.append(context.data)
        return "seen"

    loop = started(tools=[who], context="me", price=lambda usage: 1.0)
    script = [call("a", "who") | {"usage": {"input_tokens": 1, "output_tokens": 1}}, KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        run(scripted(*script), loop=loop)
    result = run(scripted(call("b", "who"), USED), loop=loop, context="you", price=lambda usage: 2.0)
    assert (seen, result.spend.cost_usd) == (["me", "you"], 3.0)


def test_the_cancel_of_a_loop_is_looked_at_where_no_other_is_given() -> None:
    """As its context and its price are."""
    token = CancelToken()
    token.cancel("enough")
    result = run(scripted(DONE), loop=started(cancel=token))
    assert (result.status, result.snapshot.cancel_reason) == ("cancelled", "enough")


def test_a_new_budget_holds_from_where_the_loop_goes_on() -> None:
    """What was spent counts on."""
    loop = started(budget=Budget(max_steps=1))
    with pytest.raises(KeyboardInterrupt):
        run(scripted(KeyboardInterrupt()), loop=loop)
    assert run(scripted(call("a"), DONE), loop=loop, budget=Budget(max_steps=3)).spend.steps == 3


def test_a_budget_that_is_none_is_refused_and_the_loop_stays_as_it_was() -> None:
    """It would be in the record of the run for ever."""
    loop = started()
    before = loop.to_json()
    budget: Any = {"max_steps": 3}
    with pytest.raises(TypeError, match="budget must be a Budget"):
        run(scripted(DONE), loop=loop, budget=budget)
    assert (loop.to_json(), run(scripted(DONE), loop=loop).status) == (before, "answered")


@pytest.mark.parametrize("script", [[DONE], [ValueError("no key")]], ids=["answered", "model_error"])
def test_a_finished_loop_given_again_gives_the_same_result_and_does_nothing(script: list[Any]) -> None:
    """The model is not asked, the observer not told, the budget not taken."""
    told: list[Any] = []
    first = run(scripted(*script), "go")
    text = first.loop.to_json()
    again = run(scripted(), loop=first.loop, budget=Budget(max_steps=99), observe=told.append, cancel=lambda: True)
    assert (again, told, first.loop.to_json(), again.loop is first.loop) == (first, [], text, True)


def test_a_loop_is_driven_by_one_host_at_a_time() -> None:
    """The second is refused before it changes anything, and the first goes on."""
    loop = started(context="mine")
    refusals = []

    def model(messages: Any, tools: Any) -> Any:
        with pytest.raises(RuntimeError) as caught:
            run(scripted(DONE), loop=loop, context="theirs", price=_unknown_price, cancel=lambda: True)
        refusals.append((str(caught.value), loop.context, loop.price, loop.driven))
        return USED

    result = run(model, loop=loop)
    says = "this loop is being driven by another host; one loop, one host at a time"
    assert (result.status, refusals) == ("answered", [(says, "mine", None, True)])


def test_hosts_that_begin_at_the_same_moment_do_not_both_drive() -> None:
    """Between looking whether the loop is free and taking it, nobody else can take it."""
    loop, taken, release = started(), threading.Event(), threading.Event()
    others: list[Any] = []

    def slow(messages: Any, tools: Any) -> Any:
        taken.set()
        release.wait(20)
        return DONE

    thread = threading.Thread(target=lambda: others.append(finishes(partial(run, slow, loop=loop))))

    def clock() -> float:
        thread.start()
        taken.wait(20)
        return 0.0

    try:
        with pytest.raises(RuntimeError, match="this loop is being driven by another host"):
            run(scripted(DONE), loop=loop, clock=clock)
    finally:
        release.set()
        thread.join()
    assert [other.status for other in others] == ["answered"]


@pytest.mark.parametrize("given", [{"price": 5}, {"context": "theirs", "approve": 5}, {"context": "theirs"}], ids=str)
def test_a_run_that_is_refused_changes_nothing_of_the_loop(given: dict[str, Any]) -> None:
    """Neither its record nor its context nor its price."""

    @tool
    async def later() -> None:
        """Never awaited."""

    loop = started(tools=[later] if given == {"context": "theirs"} else [look], context="mine")
    before = loop.to_json()
    with pytest.raises(TypeError, match=r"price|approve|later is async"):
        run(scripted(DONE), loop=loop, **given)
    assert (loop.to_json(), loop.context, loop.price, loop.driven) == (before, "mine", None, False)


def test_only_the_host_tells_a_driven_loop_what_happens() -> None:
    """A run under way is stopped with its cancel; afterwards the loop can be told by hand again."""
    loop = started()
    refusals: list[str] = []

    def model(messages: Any, tools: Any) -> Any:
        with pytest.raises(RuntimeError) as by_event:
            loop.send(CancelRequested(at=0.0))
        with pytest.raises(RuntimeError) as by_reply:
            loop.replied(DONE, at=0.0)
        refusals.extend([str(by_event.value), str(by_reply.value)])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(model, loop=loop, clock=frozen_clock)
    says = "a host is driving this loop and tells it what happens; to stop it, use cancel="
    assert (refusals, loop.replied(DONE, at=0.0).snapshot.state) == ([says, says], "rechecking_cancel")


def test_a_loop_is_let_go_after_a_refused_model() -> None:
    """It can be driven then."""
    loop = started()
    with pytest.raises(TypeError, match="model"):
        run(lambda a, b, c, d: DONE, loop=loop)
    assert run(scripted(DONE), loop=loop).answered


def test_a_loop_whose_calls_are_lost_is_suspended_until_somebody_resolves_them() -> None:
    """A host that finds nothing that it can do returns; it starts no call whose fate it does not know."""
    effects: list[int] = []

    @tool
    def spend(n: int) -> None:
        """Spend."""
        effects.append(n)

    loop = started(tools=[spend])
    loop.send(CancelPolled(False, at=0.0))
    loop.replied(call("a", "spend", n=1), at=0.0)
    loop.send(CancelPolled(False, at=0.0))
    lost = run(scripted(DONE), loop=loop)
    pending = [[one.id for one in request.calls] for request in lost.requests]
    words: Any = [Resolution(1, 0, rerun=True)]
    loop.send(CallsResolved(words, at=loop.snapshot.clock))
    before = (effects[:], lost.finished, lost.status, pending)
    assert (before, run(scripted(DONE), loop=loop).status, effects) == (
        ([], False, "awaiting_resolution", [["a"]]),
        "answered",
        [1],
    )


# --- who owns what ----------------------------------------------------------------------------------------

JUNK = "junk"


class Vandal:
    """Changes whatever it is handed, as deep as public names and items reach; with ``below`` the ``__dict__`` too."""

    def __init__(self, *, below: bool = False) -> None:
        self.below = below
        self.seen: list[Any] = []

    def __call__(self, *things: Any) -> None:
        for thing in things:
            if any(thing is one for one in self.seen) or isinstance(
                thing, str | int | float | CancelToken | type | None
            ):
                continue
            self.seen.append(thing)
            self.spoil(thing)

    def spoil(self, thing: Any) -> None:
        """Change a thing after all that it holds."""
        if isinstance(thing, dict):
            self(*thing.values())
            self.tries(thing.clear, partial(thing.__setitem__, JUNK, JUNK))
        elif hasattr(type(thing), "__iter__"):
            self(*thing)
            self.tries(*(getattr(thing, name) for name in ("clear", "pop") if hasattr(thing, name)))
            self.tries(partial(self.append, thing), partial(self.put, thing), partial(self.drop, thing))
        for name in dir(thing):
            value = getattr(thing, name, None)
            if not name.startswith("_") and not callable(value):
                self(value)
                self.tries(partial(setattr, thing, name, JUNK), partial(delattr, thing, name))
        if self.below:
            self.tries(partial(self.overwrite, thing))

    @staticmethod
    def overwrite(thing: Any) -> None:
        thing.__dict__.update(dict.fromkeys(thing.__dict__, JUNK))
        thing.__dict__.clear()

    @staticmethod
    def append(thing: Any) -> None:
        thing.append(JUNK)

    @staticmethod
    def put(thing: Any) -> None:
        thing[0] = JUNK

    @staticmethod
    def drop(thing: Any) -> None:
        del thing[0]

    @staticmethod
    def tries(*acts: Callable[[], Any]) -> None:
        """What is refused is refused."""
        for act in acts:
            with contextlib.suppress(Exception):
                act()


def leave_alone(*things: Any) -> None:
    """Do nothing to them."""


def _owned(spoil: dict[str, Callable[..., Any]]) -> tuple[str, list[Any]]:
    """The JSON of a run in which these get at what they are handed, and what its model was given."""
    given: list[Any] = []

    def act(who: str) -> Callable[..., Any]:
        return spoil.get(who, leave_alone)

    @tool
    def note(items: list[dict[str, int]], context: Context) -> str:
        """Note."""
        act("tool")(items, context)
        return "noted"

    @tool(needs_approval=True)
    def spend(amount: int) -> str:
        """Spend."""
        return f"spent {amount}"

    script = iter(
        [
            calls(call("a", "note", items=[{"x": 1}]), call("b", "spend", amount=2), text="let me see"),
            {"kind": "nonsense", "usage": {"input_tokens": 1}},
            call("c", "note", items=[]),
            DONE,
        ]
    )

    def model(messages: Any, tools: Any, ask: Any) -> Any:
        given.append(copy.deepcopy([list(messages), list(tools), ask.step, ask.system]))
        act("model")(messages, tools, ask)
        return next(script)

    def approve(call: Any) -> bool:
        act("approver")(call)
        return True

    def observe(notice: Any) -> None:
        act("observer")(notice)

    one_by_one = Policy(repairs=1, batch="sequential")  # or which call comes back first is by chance
    loop = Loop("go", tools=[note, spend], system="be brief", policy=one_by_one, at=0.0)
    run(model, loop=loop, approve=approve, observe=observe, clock=frozen_clock, cancel=CancelToken())
    return loop.to_json(), given


@pytest.mark.parametrize("below", [False, True], ids=["by names and items", "and by __dict__"])
@pytest.mark.parametrize("who", ["model", "tool", "approver", "observer"])
def test_nobody_can_change_a_run_by_what_he_is_handed(who: str, below: bool) -> None:
    """Neither its snapshots nor what the model is given later, by whatever he does to it, as deep as he gets."""
    vandal = Vandal(below=below)
    assert (_owned({who: vandal}), len(vandal.seen) > 1) == (_owned({}), True)


def test_the_vandal_does_change_what_can_be_changed() -> None:
    """So that the test above can fail."""
    thing: Any = types.SimpleNamespace(items=[[1]], _hidden={"a": [2]})
    Vandal()(thing)
    above = dict(vars(thing))
    Vandal(below=True)(thing)
    assert (above, vars(thing)) == ({"_hidden": {"a": [2]}}, {})


# --- how much work it is ----------------------------------------------------------------------------------


class Counter:
    """Counts the calls of the library's functions, and of those written in C from them, by name."""

    def __init__(self) -> None:
        self.counts: collections.Counter[str] = collections.Counter()

    def __call__(self, frame: FrameType, what: str, argument: Any) -> None:
        code = frame.f_code
        if what == "call" and ("loopmachine" in code.co_filename or code.co_qualname == "Thread.start"):
            made = code.co_filename.startswith("<attrs generated")
            self.counts[f"{code.co_filename if made else ''}{code.co_qualname}"] += 1
        elif what == "c_call" and code.co_filename.startswith(SOURCE):
            self.counts[f"C {argument.__qualname__}"] += 1

    def of(self, *words: str) -> int:
        """How often functions whose names end with one of these words were called."""
        return sum(count for name, count in self.counts.items() if name.endswith(words))


def test_the_counter_counts_functions_of_the_library_and_what_they_call() -> None:
    """So that the tests below can fail."""
    counter, frame = Counter(), cast("Any", iter(History())).gi_frame
    for where, what in (
        (frame, "call"),
        (frame, "call"),
        (frame, "c_call"),
        (frame, "return"),
        (sys._getframe(), "call"),
    ):
        counter(where, what, len)
    assert (counter.counts, counter.of("__iter__", "len")) == ({"History.__iter__": 2, "C len": 1}, 3)


def counted(turns: int, at_once: int = 1) -> Counter:
    """What a run of so many turns, each with so many calls, does; its model reads the last message of each step."""
    asked = iter(range(turns))

    def model(messages: Any, tools: Any) -> Any:
        assert messages[-1]["kind"] in ("user", "tool_result")
        step = next(asked, None)
        return DONE if step is None else calls(*(call(f"c{step}_{n}", n=n) for n in range(at_once)))

    counter = Counter()
    sys.setprofile(counter)
    try:
        result = run(model, "go", tools=[look], budget=Budget(max_steps=turns + 1))
    finally:
        sys.setprofile(None)
    assert (result.status, result.spend.calls) == ("answered", turns * at_once)
    return counter


def test_the_work_of_a_run_grows_with_its_turns_and_not_faster() -> None:
    """Each function of the library is called as often in the second ten turns as in the first, and the next twenty."""
    counted(2)
    ten, twenty, forty = (counted(turns).counts for turns in (10, 20, 40))
    assert {name: forty[name] - twenty[name] for name in forty} == {
        name: 2 * (twenty[name] - ten[name]) for name in forty
    }


#: What is counted, by the ends of the names of the functions that do it, and how often a turn may do it.
WORK: dict[str, tuple[tuple[str, ...], int]] = {
    "records made": ((">__init__",), 16),
    "snapshots copied": (("Record.but",), 9),
    "entries of the history encoded": (("Plain.entry",), 1),
    "texts decoded": (("thaw",), 1),
    "logs grown": (("Log.append", "History.append"), 7),
    "schemas made": (("of_function", "compiled", "Toolbox.schemas", ".offer"), 0),
    "threads started": (("Thread.start",), 0),
}


def test_a_turn_takes_a_fixed_number_of_operations() -> None:
    """Its exchange is encoded once, one message is decoded where the model looks, and no thread is started."""
    twenty, forty = counted(20), counted(40)
    done = {what: (forty.of(*names) - twenty.of(*names)) / 20 for what, (names, _) in WORK.items()}
    assert {what: count for what, count in done.items() if count > WORK[what][1]} == {}
    assert [what for what, (names, _) in WORK.items() if not twenty.of(*names)] == ["threads started"]


def test_threads_are_made_once_for_all_turns() -> None:
    """As many as calls run at once, however many turns there are."""
    assert [counted(turns, at_once=3).of("Thread.start") <= 3 for turns in (1, 10, 20)] == [True] * 3
