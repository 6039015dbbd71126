"""``run_async``: async models and tools as tasks, sync ones on threads, and what becomes of them all at a cancel."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import gc
import math
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from loopmachine import (
    TOOL_LOOP,
    Budget,
    CancelToken,
    Context,
    Loop,
    Policy,
    Result,
    Row,
    Tool,
    run_async,
    tool,
    updates,
)
from loopmachine.async_host import AsyncHost
from loopmachine.events import CallReturned, CancelPolled, CancelRequested, ModelFailed, Resumed
from loopmachine.host import Pool
from loopmachine.machine import Advance
from loopmachine.requests import AskApproval
from tests.drivers import DONE, GO, as_task, brought, call, calls
from tests.test_hosts import PASSING, busy, finishes, look, outcomes, pay, scripted, started, unawaited

PATIENT = Policy(model_retries=1)


def played(scene: Callable[[], Coroutine[Any, Any, Any]], seconds: float = 20.0) -> Any:
    """What a scene brings on an event loop of its own; a failure where it hangs, or leaves a task behind."""

    async def main() -> Any:
        complaints: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["message"]))
        try:
            return await scene()
        finally:
            for _ in range(2):
                gc.collect()
                await asyncio.sleep(0)
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert (left, complaints) == (set(), [])

    brought = finishes(lambda: asyncio.run(main()), seconds)
    if isinstance(brought, BaseException):
        raise brought
    return brought


def drive(model: Callable[..., Any], prompt: str | None = "go", **options: Any) -> Result:
    """``run_async`` to its end."""
    result: Result = played(lambda: run_async(model, prompt, **options))
    return result


async def until(holds: Callable[[], Any]) -> None:
    """Let the others run until something holds."""
    while not holds():
        await asyncio.sleep(0.001)


# --- the model --------------------------------------------------------------------------------------------


class Asks:
    """A model whose call is a coroutine function."""

    async def __call__(self, messages: Any, tools: Any) -> Any:
        return {"kind": "final", "text": f"{messages[-1]['text']} {[one['name'] for one in tools]}"}


async def _asks(messages: Any, tools: Any) -> Any:
    return await Asks()(messages, tools)


async def _asks_for_messages(messages: Any) -> Any:
    return {"kind": "final", "text": f"{messages[-1]['text']}"}


async def _asks_all(messages: Any, tools: Any, ask: Any) -> Any:
    return {"kind": "final", "text": f"{ask.step} {ask.tool_choice} {ask.system} {len(ask.messages)}"}


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (_asks, "go ['look']"),
        (Asks(), "go ['look']"),
        (partial(_asks), "go ['look']"),
        (lambda messages, tools: _asks(list(messages), tools), "go ['look']"),
        (_asks_for_messages, "go"),
        (_asks_all, "1 auto None 1"),
        (lambda messages: {"kind": "final", "text": threading.current_thread().name.partition("_")[0]}, "loopmachine"),
    ],
    ids=["async", "object", "partial", "hands out a coroutine", "one argument", "three arguments", "sync"],
)
def test_a_model_may_be_async_in_any_way_or_sync_on_a_thread(model: Any, text: str) -> None:
    """It is given as many arguments as it takes."""
    assert drive(model, tools=[look]).text == text


def raises(error: BaseException) -> Callable[[Any, Any], Any]:
    """A sync model that raises this."""

    def model(messages: Any, tools: Any) -> Any:
        raise error

    return model


@pytest.mark.parametrize("make", [raises, lambda error: as_task(raises(error))], ids=["sync", "async"])
@pytest.mark.parametrize(
    "error",
    [
        ValueError("no key"),
        TimeoutError("slow"),
        asyncio.CancelledError("inner"),
        concurrent.futures.CancelledError("a thread's"),
    ],
    ids=lambda error: f"{type(error).__module__}.{type(error).__name__}",
)
def test_whatever_a_model_raises_by_itself_is_a_model_error(make: Any, error: BaseException) -> None:
    """A CancelledError too, where nobody cancelled: its class and message are kept, and the history as it was."""
    result = drive(make(error))
    failure = result.snapshot.failure
    assert failure is not None
    assert (result.status, failure.code, failure.timed_out, list(result.history)) == (
        "model_error",
        type(error).__name__,
        False,
        [GO],
    )


def test_a_sync_model_that_runs_out_of_replies_is_a_model_error() -> None:
    """A StopIteration can't be handed from a thread to an event loop as it is."""
    script = iter(())
    brought = played(lambda: run_async(lambda messages, tools: next(script), "go"), 3.0)
    assert (brought.status, brought.snapshot.failure.code) == ("model_error", "StopIteration")


# --- tools side by side -----------------------------------------------------------------------------------


def test_async_tools_run_side_by_side_as_tasks_of_the_run() -> None:
    """Each waits for the others, and no thread is made for them."""
    before = threading.active_count()
    here: list[Any] = []

    @tool
    async def meet(n: int) -> int:
        """Wait for the others."""
        here.append(threading.current_thread())
        await until(lambda: len(here) == 3)
        return n

    reply = calls(*(call(f"c{n}", "meet", n=n) for n in range(3)))
    result = drive(as_task(scripted(reply, DONE)), tools=[meet])
    assert ([one.content for one in result.results], len(set(here))) == (["0", "1", "2"], 1)
    assert threading.active_count() == before


@pytest.mark.parametrize(("asked", "at_once"), [(2, 8), (40, 40), (6, 3)])
def test_sync_tools_run_at_once_on_as_many_threads_as_the_policy_lets(asked: int, at_once: int) -> None:
    """More than an event loop has by itself, and never more than it says; they are gone afterwards."""
    before = threading.active_count()
    barrier, lock = threading.Barrier(min(asked, at_once)), threading.Lock()
    running, most = 0, list[int]()

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
    result = drive(as_task(scripted(reply, DONE)), tools=[meet], policy=Policy(max_parallel=at_once))
    assert ([one.content for one in result.results], max(most)) == ([str(n) for n in range(asked)], min(asked, at_once))
    assert threading.active_count() <= before + 1  # that of the event loop


def test_async_and_sync_tools_wait_for_each_other_and_the_event_loop_runs_on() -> None:
    """Results are in the order asked for, whatever the order they come in."""
    told, heard = threading.Event(), threading.Event()

    @tool
    async def first() -> str:
        """Wait for the thread."""
        await until(heard.is_set)
        told.set()
        return "first"

    @tool
    def second() -> str:
        """Wait for the task."""
        heard.set()
        return f"second {told.wait(20)}"

    reply = calls(call("a", "first"), call("b", "second"), call("c", "look", n="x"))
    result = drive(scripted(reply, DONE), tools=[first, second, look])
    assert [(one.outcome, one.content.partition(";")[0]) for one in result.results] == [
        ("ok", "first"),
        ("ok", "second True"),
        ("invalid_arguments", "look was not called"),
    ]


def test_a_sequential_async_tool_runs_beside_no_other() -> None:
    """Those before it have ended, those after it have not begun."""
    log: list[str] = []

    @tool
    async def free(n: int) -> None:
        """Run beside others."""
        log.append(f"free {n}")
        await asyncio.sleep(0.005)
        log.append(f"free {n}")

    @tool(sequential=True)
    async def alone() -> None:
        """Run alone."""
        log.append("alone")
        await asyncio.sleep(0.005)
        log.append("alone")

    reply = calls(call("a", "free", n=0), call("b", "free", n=1), call("c", "alone"), call("d", "free", n=2))
    drive(scripted(reply, DONE), tools=[free, alone])
    assert (sorted(log[:4]), log[4:]) == (
        ["free 0", "free 0", "free 1", "free 1"],
        ["alone", "alone", "free 2", "free 2"],
    )


def test_context_variables_reach_models_and_tools_wherever_they_run() -> None:
    """What they set stays with them."""
    user = contextvars.ContextVar("user", default="nobody")

    @tool
    def on_a_thread() -> str:
        """Say who asks."""
        asker = user.get()
        user.set("a tool")
        return asker

    @tool
    async def as_a_task() -> str:
        """Say who asks."""
        asker = user.get()
        user.set("a tool")
        return asker

    def model(messages: Any, tools: Any) -> Any:
        asker = user.get()
        user.set("a model")
        return calls(call("a", "on_a_thread"), call("b", "as_a_task"), text=asker) if len(messages) == 1 else DONE

    async def scene() -> list[str]:
        user.set("me")
        result = await run_async(model, "go", tools=[on_a_thread, as_a_task])
        return [list(result.history)[1]["text"], *(one.content for one in result.results), user.get()]

    assert played(scene) == ["me"] * 4


def test_an_observer_gets_advances_and_progress_from_tasks_and_threads() -> None:
    """Each Advance in the order of the events."""
    told: list[Any] = []

    @tool
    async def work(n: int, context: Context) -> None:
        """Tell how far it is."""
        context.progress(n)

    @tool
    def toil(n: int, context: Context) -> None:
        """Tell how far it is."""
        context.progress(n)

    reply = calls(call("a", "work", n=1), call("b", "toil", n=2))
    result = drive(scripted(reply, DONE), tools=[work, toil], observe=told.append)
    advances = [one.event for one in told if isinstance(one, Advance)]
    progress = sorted((one.call.id, one.done) for one in told if not isinstance(one, Advance))
    assert (tuple(advances), progress) == (result.snapshot.events, [("a", 1), ("b", 2)])


# --- what passes through, and what does not ---------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize("error", [asyncio.CancelledError(), concurrent.futures.CancelledError(), TimeoutError("slow")])
def test_an_inner_cancellation_is_the_tools_own_failure(error: BaseException, asynchronous: bool) -> None:
    """Nobody cancelled the run, so it goes on."""

    def fall() -> None:
        """Raise."""
        raise error

    made = Tool("fall", "Raise.", {"type": "object"}, as_task(fall) if asynchronous else fall)
    result = drive(scripted(calls(call("a", "fall"), call("b")), DONE), tools=[made, look])
    assert (result.status, outcomes(result.loop)) == ("answered", [("a", "failed"), ("b", "ok")])


def test_a_tool_that_cancels_its_own_task_has_failed() -> None:
    """The run is not cancelled by it."""

    @tool
    async def fall() -> None:
        """Cancel itself."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(20)

    assert outcomes(drive(scripted(call("a", "fall"), DONE), tools=[fall]).loop) == [("a", "failed")]


@pytest.mark.parametrize("asynchronous", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_what_passes_through_one_tool_comes_out_after_the_others_have_ended(
    error: BaseException, asynchronous: bool
) -> None:
    """Tasks are cancelled and awaited, threads awaited; then the loop goes on."""
    log: list[str] = []

    def fall() -> None:
        """Raise."""
        raise error

    @tool
    async def task() -> None:
        """Take a moment to be cancelled."""
        try:
            await asyncio.sleep(20)
        finally:
            await asyncio.sleep(0.01)
            log.append("task ended")

    @tool
    def thread() -> str:
        """Take a moment."""
        time.sleep(0.02)
        log.append("thread ended")
        return "kept"

    made = Tool("fall", "Raise.", {"type": "object"}, as_task(fall) if asynchronous else fall)
    loop = started(tools=[task, thread, made])

    def scene() -> Any:
        return asyncio.run(
            run_async(scripted(calls(call("a", "task"), call("b", "thread"), call("c", "fall"))), loop=loop)
        )

    passed = finishes(scene)
    assert (type(passed), sorted(log), loop.driven) == (type(error), ["task ended", "thread ended"], False)
    result = drive(scripted(DONE), None, loop=loop)
    assert [(one.outcome, one.content) for one in result.results][1:] == [
        ("ok", "kept"),
        ("interrupted", f"interrupted by {type(error).__name__}"),
    ]
    assert (result.results[0].outcome, result.status) == ("interrupted", "answered")


@pytest.mark.parametrize("make", [raises, lambda error: as_task(raises(error))], ids=["sync", "async"])
@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_what_passes_through_the_model_leaves_the_step_counted_and_no_turn(make: Any, error: BaseException) -> None:
    """The loop asks again when it goes on."""
    loop = started()
    passed = finishes(lambda: asyncio.run(run_async(make(error), loop=loop)))
    state = loop.snapshot.state
    result = drive(scripted(DONE), None, loop=loop)
    assert (type(passed), state, result.spend.steps) == (type(error), "awaiting_model", 2)


def test_every_result_is_recorded_however_often_something_passes_through() -> None:
    """An observer that raises each time is no reason to lose what the other calls brought."""
    barrier, ended = threading.Barrier(3), list[int]()

    @tool
    def work(n: int) -> int:
        """Work beside the others."""
        barrier.wait(20)
        ended.append(n)
        return n

    def observe(notice: Any) -> None:
        if isinstance(notice.event, CallReturned):
            raise KeyboardInterrupt

    loop = started(tools=[work])
    reply = calls(*(call(f"c{n}", "work", n=n) for n in range(3)))
    passed = finishes(lambda: asyncio.run(run_async(as_task(scripted(reply)), loop=loop, observe=observe)))
    assert (type(passed), sorted(ended), loop.driven) == (KeyboardInterrupt, [0, 1, 2], False)
    assert outcomes(loop) == [("c0", "ok"), ("c1", "ok"), ("c2", "ok")]


@pytest.mark.parametrize("name", ["tools", "wire", "cancel", "approve", "price", "observe", "clock", "loop"])
def test_what_a_run_cannot_use_is_refused_by_name_before_anything_happens(name: str) -> None:
    """As in ``run``."""
    asked: list[Any] = []
    given: Any = {name: 5}
    with pytest.raises((TypeError, ValueError), match=rf"^{name}\b"):
        drive(asked.append, None if name == "loop" else "go", **given)
    assert asked == []


@pytest.mark.parametrize("model", [lambda: DONE, lambda a, b, c, d: DONE, "gpt", None])
def test_what_cannot_be_the_model_is_refused_before_anything_happens(model: Any) -> None:
    """As in ``run``."""
    loop = started()
    before = loop.to_json()
    with pytest.raises(TypeError, match=r"^model\b"):
        drive(model, None, loop=loop)
    assert (loop.to_json(), loop.driven) == (before, False)


# --- a cancellation of the run's own task -----------------------------------------------------------------

#: What comes out of a run that was cancelled.
CANCELLED = "CancelledError('enough'), driven: False"
Scene = Callable[["Stopped"], dict[str, Any]]


class Stopped:
    """A run whose task is cancelled once something in it says so, and which is then gone on with."""

    def __init__(self) -> None:
        self.ready = False  #: it is where it is to be cancelled
        self.release = threading.Event()  #: what lets threads end
        self.log: list[str] = []

    async def here(self) -> None:
        """Be cancelled here, and take a moment for it."""
        self.ready = True
        try:
            await asyncio.sleep(20)
        finally:
            await asyncio.sleep(0.01)
            self.log.append("cleaned up")

    def on_a_thread(self) -> str:
        """Be here when the run is cancelled; end only afterwards."""
        self.ready = True
        self.release.wait(20)
        self.log.append("ended")
        return "kept"

    async def stop(self, loop: Loop, **options: Any) -> str:
        """Drive the loop and cancel that: what came out, after everything in it had ended."""
        task = asyncio.ensure_future(run_async(loop=loop, **options))
        await until(lambda: self.ready)
        task.cancel("enough")
        await asyncio.sleep(0.01)
        assert not (task.done() and not self.release.is_set() and "ended" in self.log)
        self.release.set()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        return f"{caught.value!r}, driven: {loop.driven}"


def _in_an_async_model(stopped: Stopped) -> dict[str, Any]:
    async def model(messages: Any, tools: Any) -> None:
        await stopped.here()

    return {"model": model}


def _in_a_sync_model(stopped: Stopped) -> dict[str, Any]:
    return {"model": lambda messages, tools: {"kind": "final", "text": stopped.on_a_thread()}}


def _in_an_async_tool(stopped: Stopped) -> dict[str, Any]:
    @tool
    async def work() -> None:
        """Work."""
        await stopped.here()

    return {"model": scripted(call("a", "work")), "tools": [work]}


def _in_a_sync_tool(stopped: Stopped) -> dict[str, Any]:
    work = Tool("work", "Work.", {"type": "object"}, stopped.on_a_thread)
    return {"model": scripted(call("a", "work")), "tools": [work]}


def _in_an_approval(stopped: Stopped) -> dict[str, Any]:
    async def approve(call: Any) -> None:
        await stopped.here()

    return {"model": scripted(call("a", "pay", amount=1)), "approve": approve}


def _in_a_pause(stopped: Stopped, cancel: Any = None) -> dict[str, Any]:
    def observe(notice: Any) -> None:
        stopped.ready = notice.snapshot.not_before is not None and notice.snapshot.state == "checking_cancel"

    return {"model": scripted(busy(0.3)), "policy": PATIENT, "cancel": cancel, "observe": observe}


def _in_a_pause_with_a_token(stopped: Stopped) -> dict[str, Any]:
    return _in_a_pause(stopped, CancelToken())


@pytest.mark.parametrize(
    ("scene", "log", "state", "told", "ended"),
    [
        (_in_an_async_model, ["cleaned up"], "awaiting_model", [], "answered"),
        (_in_an_async_tool, ["cleaned up"], "checking_cancel", [("a", "interrupted")], "answered"),
        (_in_a_sync_tool, ["ended"], "checking_cancel", [("a", "ok")], "answered"),
        (_in_an_approval, ["cleaned up"], "awaiting_approval", [], "awaiting_approval"),
        (_in_a_pause, [], "checking_cancel", [], "answered"),
        (_in_a_pause_with_a_token, [], "checking_cancel", [], "answered"),
    ],
)
def test_a_cancellation_of_the_run_is_passed_on_awaited_and_raised(
    scene: Scene, log: list[str], state: str, told: list[Any], ended: str
) -> None:
    """It comes out once everything has ended, what the calls brought is recorded, and the loop can go on."""
    stopped = Stopped()
    options = scene(stopped)
    loop = started(tools=[*options.pop("tools", []), pay], policy=options.pop("policy", None))
    said = played(lambda: stopped.stop(loop, **options))
    rest = (said, stopped.log, loop.snapshot.state, outcomes(loop))
    assert (rest, drive(scripted(DONE), None, loop=loop).status) == (
        (CANCELLED, log, state, told),
        ended,
    )


def test_a_cancellation_while_a_sync_model_is_asked_keeps_what_it_brings() -> None:
    """It can't be cut short, so it is awaited, and its reply, which was paid for, is not thrown away."""
    stopped = Stopped()
    loop = started()
    said = played(lambda: stopped.stop(loop, **_in_a_sync_model(stopped)))
    result = drive(scripted(DONE), None, loop=loop)
    assert (said, stopped.log, result.text, result.spend.steps) == (
        CANCELLED,
        ["ended"],
        "kept",
        1,
    )


def test_a_timeout_around_the_run_is_never_swallowed() -> None:
    """It comes out as TimeoutError, whatever runs, and the history is then as if it had not been."""

    async def model(messages: Any, tools: Any) -> Any:
        if len(messages) == 1 and not slow:
            slow.append(1)
            await asyncio.sleep(20)
        return DONE if len(messages) > 1 else call("a")

    slow: list[int] = []

    async def scene() -> list[Any]:
        loop = started()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await run_async(model, loop=loop)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run_async(as_task(scripted(busy(9.0))), loop=started(policy=PATIENT)), 0.02)
        return list((await run_async(model, loop=loop)).history)

    assert played(scene) == [GO, call("a"), brought("a"), DONE]


def test_a_tool_that_swallows_its_cancellation_keeps_its_result() -> None:
    """The cancellation of the run comes out all the same."""

    @tool
    async def stubborn() -> str:
        """Finish first."""
        stopped.ready = True
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            stopped.log.append("swallowed")
        return "finished all the same"

    stopped = Stopped()
    loop = started(tools=[stubborn])
    said = played(lambda: stopped.stop(loop, model=scripted(call("a", "stubborn"))))
    assert (said, stopped.log) == (CANCELLED, ["swallowed"])
    assert list(drive(scripted(DONE), None, loop=loop).history)[2] == brought("a", "finished all the same")


def test_a_child_that_fails_while_it_is_cancelled_complains_nowhere() -> None:
    """What a model or a tool raises then is looked at: asyncio does not report it as never retrieved."""

    async def model(messages: Any, tools: Any) -> Any:
        try:
            await stopped.here()
        finally:
            raise ValueError("while cleaning up")

    stopped = Stopped()

    async def scene() -> str:
        return await stopped.stop(started(), model=model)

    assert played(scene) == CANCELLED


def test_a_child_that_is_being_cancelled_already_is_not_cancelled_twice() -> None:
    """Whoever cancels all tasks, as asyncio.run does after an interrupt, gives each its time to clean up, once."""
    stopped, kids = Stopped(), list[asyncio.Task[Any]]()

    @tool
    async def work() -> None:
        """Work."""
        task = asyncio.current_task()
        assert task is not None
        kids.append(task)
        await stopped.here()

    loop = started(tools=[work])

    async def scene() -> Any:
        task = asyncio.ensure_future(run_async(scripted(call("a", "work")), loop=loop))
        await until(lambda: stopped.ready)
        kids[0].cancel()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled(), stopped.log, outcomes(loop)

    assert played(scene) == (True, ["cleaned up"], [("a", "interrupted")])


async def _swallows() -> None:
    """Cancel itself and swallow that, as a timeout of one's own does without ``uncancel``; then wait for ever."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(20)
    await asyncio.sleep(60)


def test_a_child_that_once_swallowed_a_cancellation_is_cancelled_all_the_same() -> None:
    """At the deadline, by the token and with its run: it counts as cancelled for ever, and is given a moment."""

    @tool
    async def work() -> None:
        """Work."""
        await _swallows()

    async def model(messages: Any, tools: Any) -> None:
        await _swallows()

    def run_of(model: Any, **options: Any) -> Any:
        return run_async(model, "go", tools=[work], **options)

    async def scene() -> list[Any]:
        token = CancelToken()
        asyncio.get_running_loop().call_later(0.02, token.cancel)
        soon = Budget(max_seconds=0.02)
        runs = [run_of(model, budget=soon), run_of(model, cancel=token)]
        runs += [run_of(scripted(call("a", "work")), **given) for given in ({"budget": soon}, {"cancel": token})]
        outer = asyncio.wait_for(run_of(scripted(call("a", "work"))), 0.02)
        ended: list[Any] = await asyncio.gather(*runs, outer, return_exceptions=True)
        left = ended.pop()
        return [*[(one.status, outcomes(one.loop)) for one in ended], type(left)]

    cut = [("a", "interrupted")]
    assert played(scene) == [
        ("time_budget", []),
        ("cancelled", []),
        ("time_budget", cut),
        ("cancelled", cut),
        TimeoutError,
    ]


def test_a_second_cancellation_hurries_nobody() -> None:
    """One is on its way out already, and the children are still awaited."""
    stopped = Stopped()
    loop = started(tools=[Tool("work", "Work.", {"type": "object"}, stopped.on_a_thread)])

    async def scene() -> list[Any]:
        task = asyncio.ensure_future(run_async(scripted(call("a", "work")), loop=loop))
        await until(lambda: stopped.ready)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0.005)
        done = task.done()
        stopped.release.set()
        (outcome,) = await asyncio.gather(task, return_exceptions=True)
        return [done, type(outcome), outcomes(loop)]

    assert played(scene) == [False, asyncio.CancelledError, [("a", "ok")]]


def _ticking() -> tuple[Loop, Callable[..., Awaitable[Any]], list[str]]:
    log: list[str] = []

    @tool(effect="read")
    async def work(n: int) -> int:
        """Work."""
        log.append(f"begin {n}")
        await asyncio.sleep(0)
        log.append(f"end {n}")
        return n

    async def model(messages: Any, tools: Any) -> Any:
        await asyncio.sleep(0)
        asked = [one for one in messages if one["kind"] == "call"]
        return DONE if asked else calls(*(call(f"c{n}", "work", n=n) for n in range(3)))

    return started(tools=[work], policy=Policy(max_parallel=2)), model, log


async def _cancelled_at(tick: int) -> tuple[bool, list[str]]:
    """Whether the run was still going after so many turns of the event loop, and what was wrong once cancelled."""
    loop, model, log = _ticking()
    task = asyncio.ensure_future(run_async(model, loop=loop))
    for _ in range(tick):
        await asyncio.sleep(0)
    going = task.cancel()
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    faults = [] if isinstance(outcome, asyncio.CancelledError) or not going else [f"{tick}: {outcome!r}"]
    faults += [f"{tick}: a call was started twice"] if len(set(log)) != len(log) else []
    recorded = {result.id for result in loop.result().results if result.outcome == "ok"}
    ended = {f"c{line[-1]}" for line in log if line.startswith("end")}
    faults += [f"{tick}: {ended} have ended, {recorded} are recorded"] if recorded != ended else []
    result = await run_async(model, loop=loop)
    faults += [] if result.answered else [f"{tick}: then {result.status}"]
    return going, faults


def test_a_cancellation_at_any_turn_of_the_event_loop_comes_out_and_the_loop_goes_on() -> None:
    """No call is started twice, what has ended is recorded, and the run ends as it would have."""

    async def scene() -> tuple[int, list[str]]:
        tick, faults = 0, list[str]()
        while True:
            going, more = await _cancelled_at(tick)
            faults += more
            if not going:
                return tick, faults
            tick += 1

    ticks, faults = played(scene)
    assert (ticks > 10, faults) == (True, [])


# --- the deadline -----------------------------------------------------------------------------------------


def test_an_async_tool_is_interrupted_at_the_deadline_and_a_sync_one_awaited_and_kept() -> None:
    """The run ends at the next gate, with the exchange whole."""
    release = threading.Event()

    @tool
    async def task() -> None:
        """Take too long, and let the other go when it is cut short."""
        try:
            await asyncio.sleep(20)
        finally:
            release.set()

    @tool
    def thread() -> str:
        """Take too long."""
        return f"kept {release.wait(20)}"

    reply = calls(call("a", "task"), call("b", "thread"))
    result = drive(as_task(scripted(reply)), tools=[task, thread], budget=Budget(max_seconds=0.05))
    assert (result.status, list(result.history)[3:]) == (
        "time_budget",
        [brought("a", "cut short at the deadline", "interrupted"), brought("b", "kept True")],
    )


def test_an_async_model_is_cut_short_at_the_deadline() -> None:
    """It failed as timed out, so the run ends for its time."""

    async def model(messages: Any, tools: Any) -> Any:
        await asyncio.sleep(20)

    result = drive(model, budget=Budget(max_seconds=0.03))
    failure = result.snapshot.failure
    assert failure is not None
    assert (result.status, failure.timed_out, failure.message) == ("time_budget", True, "cut short at the deadline")


def test_a_sync_model_past_the_deadline_is_awaited_and_its_answer_accepted() -> None:
    """Final before cap."""

    def model(messages: Any, tools: Any) -> Any:
        time.sleep(0.05)
        return DONE

    assert drive(model, budget=Budget(max_seconds=0.01)).status == "answered"


def test_an_async_model_that_answers_when_it_is_cut_short_is_answered() -> None:
    """It swallowed its cancellation, and what it brings counts."""

    async def model(messages: Any, tools: Any) -> Any:
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            return DONE

    assert drive(model, budget=Budget(max_seconds=0.03)).status == "answered"


@pytest.mark.parametrize("make", [lambda model: model, as_task], ids=["sync", "async"])
def test_what_ended_by_itself_was_not_cut_short_though_the_deadline_has_passed(make: Any) -> None:
    """A failure is the model's own, a result the tool's."""
    now = [0.0]

    def model(messages: Any, tools: Any) -> Any:
        now[0] = 9.0
        raise ValueError("no key")

    failure = drive(make(model), budget=Budget(max_seconds=5.0), clock=lambda: now[0]).snapshot.failure
    assert failure is not None
    assert (failure.code, failure.timed_out) == ("ValueError", False)


def test_a_clock_that_stands_still_brings_no_deadline() -> None:
    """It is the run's clock that says when its time is spent."""
    drained = drive(
        as_task(scripted(call("a"), DONE)), tools=[look], budget=Budget(max_seconds=0.001), clock=lambda: 0.0
    )
    assert drained.status == "answered"


# --- a cancel token ---------------------------------------------------------------------------------------


def later(act: Callable[[], object]) -> threading.Thread:
    """Do this in another thread."""
    thread = threading.Thread(target=act)
    thread.start()
    return thread


def test_a_token_set_from_another_thread_cuts_the_model_short() -> None:
    """The machine is told unasked, the model's task is cancelled, and the run is cancelled with the reason."""
    token, cleaned = CancelToken(), []

    async def model(messages: Any, tools: Any) -> Any:
        threads.append(later(partial(token.cancel, "enough")))
        try:
            await asyncio.sleep(20)
        finally:
            cleaned.append(1)

    threads: list[threading.Thread] = []
    result = drive(model, cancel=token)
    threads[0].join()
    kinds = [type(event) for event in result.snapshot.events]
    assert (result.status, result.snapshot.cancel_reason, cleaned) == ("cancelled", "enough", [1])
    assert (CancelRequested in kinds, ModelFailed in kinds, list(result.history)) == (True, True, [GO])


def test_a_token_set_while_a_sync_model_runs_is_seen_when_it_has_ended() -> None:
    """It can't be cut short; what it brings is not acted on."""
    token = CancelToken()

    def model(messages: Any, tools: Any) -> Any:
        token.cancel("enough")
        time.sleep(0.02)
        return call("a")

    result = drive(model, tools=[look], cancel=token)
    assert (result.status, list(result.history)) == ("cancelled", [GO])


def test_a_token_set_while_calls_run_interrupts_the_tasks_and_starts_no_more() -> None:
    """What runs on a thread is awaited and kept."""
    token, both = CancelToken(), threading.Event()

    @tool
    async def task() -> None:
        """Wait to be cut short."""
        both.set()
        await asyncio.sleep(20)

    @tool
    def thread() -> str:
        """Cancel, and finish."""
        both.wait(20)
        token.cancel("enough")
        time.sleep(0.02)
        return "kept"

    reply = calls(call("a", "task"), call("b", "thread"), call("c", "task"), call("d", "thread"))
    result = drive(scripted(reply), tools=[task, thread], cancel=token, policy=Policy(max_parallel=2))
    assert (result.status, outcomes(result.loop)) == (
        "cancelled",
        [("a", "interrupted"), ("b", "ok"), ("c", "not_started"), ("d", "not_started")],
    )


@pytest.mark.parametrize("plain", [True, False], ids=["a callable", "a token"])
def test_a_pause_is_waited_for_and_a_cancel_ends_it(plain: bool) -> None:
    """The token at once, a callable soon."""
    token = CancelToken()

    def model(messages: Any, tools: Any) -> Any:
        timer = threading.Timer(0.05, token.cancel)
        timer.start()
        threads.append(timer)
        raise busy(60.0)

    threads: list[threading.Thread] = []
    begun = time.monotonic()
    result = drive(model, cancel=(lambda: token.cancelled) if plain else token, policy=PATIENT)
    threads[0].join()
    assert (result.status, 0.05 <= time.monotonic() - begun < 10.0) == ("cancelled", True)
    begun = time.monotonic()
    waiting = drive(scripted(busy(0.05), DONE), policy=PATIENT, cancel=(lambda: False) if plain else CancelToken())
    assert (waiting.status, time.monotonic() - begun >= 0.05) == ("answered", True)


def test_without_a_cancel_a_pause_is_waited_for_too() -> None:
    """By the clock; one that is over is not."""
    begun = time.monotonic()
    assert drive(scripted(busy(0.05), DONE), policy=PATIENT).status == "answered"
    assert time.monotonic() - begun >= 0.05
    assert drive(scripted(busy(0.0), DONE), policy=PATIENT).status == "answered"


def test_a_cancel_seen_during_a_pause_and_then_denied_stays_seen() -> None:
    """The pause ended for it."""
    answers = iter([False, False, True])
    result = drive(scripted(busy(60.0), DONE), policy=PATIENT, cancel=lambda: next(answers, False))
    assert result.status == "cancelled"


def test_a_token_set_while_somebody_is_asked_for_approval_cancels_the_run() -> None:
    """An approver that is awaited may take hours; nobody waits for it any more."""
    token = CancelToken()

    async def approve(call: Any) -> bool:
        if call.id == "b":
            token.cancel("enough")
            await asyncio.sleep(5)
        return True

    begun = time.monotonic()
    reply = calls(call("a", "pay", amount=1), call("b", "pay", amount=2))
    result = drive(scripted(reply), tools=[pay], approve=approve, cancel=token)
    assert (result.status, time.monotonic() - begun < 4.0) == ("cancelled", True)


def test_a_token_set_before_the_run_or_twice_is_heard_once() -> None:
    """The model is never asked."""
    token = CancelToken()
    token.cancel("early")
    token.cancel("late")
    result = drive(scripted(), cancel=token)
    assert (result.status, result.snapshot.cancel_reason, result.spend.steps) == ("cancelled", "early", 0)


def test_a_token_and_a_loop_that_outlive_a_run_keep_nothing_of_it_alive() -> None:
    """Not even the model."""
    token, loop = CancelToken(), started()
    model = Asks()
    gone = weakref.ref(model)
    drive(model, None, loop=loop, cancel=token, observe=lambda notice: None)
    del model
    gc.collect()
    assert gone() is None


def test_a_token_set_as_the_run_ends_raises_nothing_where_it_is_set() -> None:
    """Its thread may tell a run whose event loop is closed by then."""
    token, over, asked = CancelToken(), threading.Event(), threading.Event()
    token.subscribe(lambda: over.wait(20))  # it is told first, and holds up that the run is told
    brought: list[Any] = []

    def cancel() -> None:
        asked.wait(20)
        brought.append(finishes(token.cancel))

    async def model(messages: Any, tools: Any) -> Any:
        asked.set()
        await until(token)
        return DONE

    thread = later(cancel)
    result = drive(model, cancel=token)
    over.set()
    thread.join()
    assert (result.status, brought) == ("cancelled", [None])


# --- approval ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [True, False], ids=["async", "sync"])
def test_an_approver_may_be_async(asynchronous: bool) -> None:
    """Its verdicts are those of ``run``."""
    verdicts = {"a": True, "b": "too much", "c": None}

    def approve(call: Any) -> Any:
        return verdicts[call.id]

    reply = calls(*(call(one, "pay", amount=1) for one in "abc"))
    asked = as_task(approve) if asynchronous else approve
    result = drive(scripted(reply, DONE), tools=[pay], approve=asked)
    pending = [[one.id for one in request.calls] for request in result.requests if isinstance(request, AskApproval)]
    assert (result.status, pending) == ("awaiting_approval", [["c"]])
    verdicts["c"] = False
    again = drive(scripted(DONE), None, loop=result.loop, approve=asked)
    assert outcomes(again.loop) == [("a", "ok"), ("b", "denied"), ("c", "denied")]


SAYS = contextvars.ContextVar("says", default="nobody")


def test_a_sync_approver_is_asked_on_a_thread_in_the_context_of_the_run() -> None:
    """The event loop runs on meanwhile."""
    asked, released, seen = threading.Event(), threading.Event(), list[str]()

    def approve(call: Any) -> bool:
        asked.set()
        seen.extend([threading.current_thread().name.partition("_")[0], SAYS.get()])
        return released.wait(20)

    async def scene() -> Result:
        SAYS.set("the run")
        running = asyncio.ensure_future(run_async(scripted(PAYS[0], DONE), "go", tools=[pay], approve=approve))
        await until(asked.is_set)
        released.set()
        return await running

    result = played(scene)
    assert (result.status, seen, outcomes(result.loop)) == ("answered", ["loopmachine", "the run"], [("a", "ok")])


def test_what_an_approver_hands_out_to_be_awaited_is_awaited_call_by_call() -> None:
    """Whichever of his words it is."""
    said: dict[str, Any] = {
        "a": as_task(lambda: True),
        "b": lambda: None,
        "c": as_task(lambda: "no"),
        "d": lambda: True,
    }
    reply = calls(*(call(one, "pay", amount=1) for one in "abcd"))
    result = drive(scripted(reply), tools=[pay], approve=lambda call: said[call.id]())
    decided = [(one.place, one.approved, one.reason) for one in result.snapshot.decisions]
    assert decided == [(0, True, ""), (2, False, "no"), (3, True, "")]


PAYS = [call("a", "pay", amount=1), calls(call("a", "pay", amount=1), call("b", "pay", amount=2))]


def test_a_sync_approver_is_awaited_when_the_run_is_cancelled_and_his_word_kept() -> None:
    """He is asked about no other call."""
    stopped, asked = Stopped(), list[str]()

    def approve(call: Any) -> bool:
        asked.append(call.id)
        return stopped.on_a_thread() == "kept"

    loop = started()
    said = played(lambda: stopped.stop(loop, model=scripted(PAYS[1]), approve=approve))
    assert (said, stopped.log, asked) == (CANCELLED, ["ended"], ["a"])
    drive(scripted(DONE), None, loop=loop, approve=lambda call: asked.append(call.id))
    assert (asked, [one.approved for one in loop.snapshot.decisions]) == (["a", "b"], [True])


def test_an_approver_that_swallows_the_cancellation_of_the_run_is_asked_about_no_other_call() -> None:
    """His word is kept."""
    stopped, asked = Stopped(), list[str]()

    async def approve(call: Any) -> bool:
        asked.append(call.id)
        with suppress(asyncio.CancelledError):
            await stopped.here()
        return True

    loop = started()
    said = played(lambda: stopped.stop(loop, model=scripted(PAYS[1]), approve=approve))
    assert (said, asked, [one.approved for one in loop.snapshot.decisions]) == (CANCELLED, ["a"], [True])


def test_what_an_approver_hands_out_when_he_has_cancelled_the_run_is_closed() -> None:
    """Nobody awaits it, and the run ends cancelled."""
    token, ended = CancelToken(), list[Result]()

    async def later() -> None:
        """Never awaited."""

    def approve(call: Any) -> Any:
        token.cancel("enough")
        return later()

    def act() -> None:
        ended.append(drive(scripted(PAYS[0]), tools=[pay], approve=approve, cancel=token))

    assert (unawaited(act), [one.status for one in ended]) == ([], ["cancelled"])


@pytest.mark.parametrize("who", ["model", "approve"])
def test_what_is_handed_out_to_be_awaited_when_the_run_is_cancelled_is_closed(who: str) -> None:
    """Nobody awaits it any more; the model, or the approver, is asked again."""
    stopped, asked = Stopped(), list[str]()

    async def later() -> None:
        """Never awaited."""

    def hand_out(*given: Any) -> Any:
        stopped.on_a_thread()
        return later()

    options = {"model": scripted(PAYS[0]), who: hand_out}
    loop = started()
    assert unawaited(lambda: asked.append(played(lambda: stopped.stop(loop, **options)))) == []
    result = drive(scripted(DONE), None, loop=loop, approve=lambda call: True)
    assert (asked, result.status, result.spend.steps) == ([CANCELLED], "answered", 2)


def test_a_run_that_nobody_decides_is_suspended() -> None:
    """As in ``run``."""
    result = drive(scripted(call("a", "pay", amount=1)), tools=[pay])
    assert (result.finished, result.status) == (False, "awaiting_approval")


def test_an_approver_that_raises_leaves_no_coroutine_behind() -> None:
    """Its error comes out, and no approval that was begun is left lying."""

    async def approve(call: Any) -> bool:
        raise ValueError(f"no word on {call.id}")

    def act() -> None:
        reply = calls(call("a", "pay", amount=1), call("b", "pay", amount=2))
        with pytest.raises(ValueError, match="no word on a"):
            drive(scripted(reply), tools=[pay], approve=approve)

    assert unawaited(act) == []


def test_what_was_decided_before_a_cancellation_is_kept() -> None:
    """A person who has said yes is not asked again."""
    stopped, asked = Stopped(), list[str]()
    never: Any = stopped.here

    async def approve(call: Any) -> Any:
        asked.append(call.id)
        return True if call.id == "a" else await never()

    reply = calls(call("a", "pay", amount=1), call("b", "pay", amount=2))
    loop = started()
    played(lambda: stopped.stop(loop, model=scripted(reply), approve=approve))

    def refuse(call: Any) -> bool:
        asked.append(call.id)
        return False

    drive(scripted(DONE), None, loop=loop, approve=refuse)
    assert (asked, outcomes(loop)) == (["a", "b", "b"], [("a", "ok"), ("b", "denied")])


# --- more than one ----------------------------------------------------------------------------------------


def test_runs_in_one_event_loop_do_not_see_each_other() -> None:
    """One is cancelled, one runs out of time, one answers."""
    token = CancelToken()

    async def slow(messages: Any, tools: Any) -> Any:
        await asyncio.sleep(20)

    async def quick(messages: Any, tools: Any) -> Any:
        token.cancel()
        return DONE if len(messages) > 1 else call("a")

    async def scene() -> list[str]:
        runs = (
            run_async(slow, "go", cancel=token),
            run_async(slow, "go", budget=Budget(max_seconds=0.03)),
            run_async(quick, "go", tools=[look]),
        )
        return [result.status for result in await asyncio.gather(*runs)]

    assert played(scene) == ["cancelled", "time_budget", "answered"]


def test_a_loop_is_driven_by_one_host_at_a_time() -> None:
    """The second is refused, and the first goes on."""
    loop = started()

    async def model(messages: Any, tools: Any) -> Any:
        await until(lambda: refused)
        return DONE

    refused: list[Any] = []

    async def second() -> None:
        with pytest.raises(RuntimeError, match="this loop is being driven by another host"):
            await run_async(model, loop=loop)
        refused.append(1)

    async def scene() -> str:
        first, _ = await asyncio.gather(run_async(model, loop=loop), second())
        return first.status

    assert (played(scene), loop.driven) == ("answered", False)


def test_hosts_that_begin_at_the_same_moment_do_not_both_drive() -> None:
    """Between looking whether the loop is free and taking it, nobody else can take it."""
    loop, taken, release = started(), threading.Event(), threading.Event()
    others: list[Any] = []

    async def slow(messages: Any, tools: Any) -> Any:
        taken.set()
        await until(release.is_set)
        return DONE

    thread = threading.Thread(target=lambda: others.append(drive(slow, None, loop=loop)))

    def clock() -> float:
        thread.start()
        taken.wait(20)
        return 0.0

    try:
        with pytest.raises(RuntimeError, match="this loop is being driven by another host"):
            drive(scripted(DONE), None, loop=loop, clock=clock)
    finally:
        release.set()
        thread.join()
    assert [other.status for other in others] == ["answered"]


def test_a_loop_goes_on_with_a_new_budget_and_a_finished_one_does_nothing() -> None:
    """As in ``run``."""
    loop = started(budget=Budget(max_steps=1))
    finishes(lambda: asyncio.run(run_async(raises(KeyboardInterrupt()), loop=loop)))
    result = drive(scripted(call("a"), DONE), None, loop=loop, budget=Budget(max_steps=4))
    text = loop.to_json()
    again = drive(scripted(), None, loop=loop, budget=Budget(max_steps=9))
    resumed = [event for event in loop.snapshot.events if isinstance(event, Resumed)]
    assert (result.spend.steps, again, loop.to_json(), len(resumed)) == (3, result, text, 2)


def test_what_made_a_loop_cannot_be_given_beside_it() -> None:
    """As in ``run``."""
    with pytest.raises(TypeError, match="prompt: what made the loop can't be given beside loop="):
        played(lambda: run_async(scripted(), "go", loop=started()))


def test_a_result_of_a_call_is_told_once() -> None:
    """However many children end at the same moment."""
    reply = calls(*(call(f"c{n}", n=n) for n in range(8)))
    result = drive(as_task(scripted(reply, DONE)), tools=[look])
    told = [event.result.id for event in result.snapshot.events if isinstance(event, CallReturned)]
    assert (sorted(told), math.isclose(result.spend.calls, 8)) == ([f"c{n}" for n in range(8)], True)


# --- what a run leaves behind -----------------------------------------------------------------------------


def over(snapshot: Any, event: Any) -> bool:
    """The run is over, whatever still runs."""
    return True


#: Ends at the first result, whatever else is running, and at once when it is cancelled.
HASTY = TOOL_LOOP.with_row(
    "dispatching", Row(CallReturned, "finished_stuck", over, updates.record, first_because="it is a test"), at=1
).with_row("awaiting_model", Row(CancelRequested, "finished_cancelled", over, updates.remember_cancel), at=3)


def test_a_tool_that_runs_when_the_run_ends_is_cancelled_and_awaited() -> None:
    """By a row of somebody's own; what it brings is told to nobody."""
    stopped = Stopped()

    @tool
    async def hang() -> None:
        """Hang."""
        await stopped.here()

    @tool
    async def quick() -> None:
        """Come back once the other hangs."""
        await until(lambda: stopped.ready)

    reply = calls(call("a", "hang"), call("b", "quick"))
    result = drive(scripted(reply), tools=[hang, quick], definition=HASTY)
    told = [event.result.id for event in result.snapshot.events if isinstance(event, CallReturned)]
    assert (result.status, stopped.log, told, result.loop.driven) == ("stuck", ["cleaned up"], ["b"], False)


@pytest.mark.parametrize("kind", ["async", "sync", "hands out"])
def test_a_model_that_is_asked_when_the_run_ends_is_left_without_a_reply(kind: str) -> None:
    """A task is cancelled, a thread awaited, what it hands out closed."""
    token, stopped, ended = CancelToken(), Stopped(), list[Any]()

    async def later() -> None:
        token.cancel("enough")
        await stopped.here()

    def now(messages: Any, tools: Any) -> Any:
        token.cancel("enough")
        stopped.log.append("cleaned up")
        return unheard() if kind == "hands out" else DONE

    async def unheard() -> None:
        """Never awaited."""

    model = (lambda messages, tools: later()) if kind == "async" else now
    assert unawaited(lambda: ended.append(drive(model, definition=HASTY, cancel=token))) == []
    (result,) = ended
    kinds = [type(event).__name__ for event in result.snapshot.events]
    assert (result.status, stopped.log, kinds[-1]) == ("cancelled", ["cleaned up"], "CancelRequested")


def _dispatching(*tools: Any) -> Loop:
    """A loop whose calls are to be started, of each tool one."""
    loop = started(tools=[*tools])
    loop.send(CancelPolled(False, at=0.0))
    loop.replied(calls(*(call(made.name, made.name) for made in tools)), at=0.0)
    loop.send(CancelPolled(False, at=0.0))
    return loop


class Waited(Pool):
    """A pool that keeps whether its threads were waited for."""

    waited: bool | None = None

    def close(self, *, wait: bool) -> None:
        self.waited = wait
        super().close(wait=wait)


def test_a_run_that_is_closed_awaits_nothing_and_lets_the_loop_go() -> None:
    """Its tasks are cancelled, threads told to stop, and what is done by then is recorded."""
    stopped, begun, heard, resumed = Stopped(), threading.Event(), threading.Event(), list[bool]()

    @tool
    async def quick() -> str:
        """Come back at once."""
        return "done"

    @tool(effect="read")
    def wait(ctx: Context) -> str:
        """Wait until it is told to stop, at first."""
        cancel: Any = ctx.cancel
        begun.set()
        if not resumed and cancel.wait(20):
            heard.set()
        return "waited"

    @tool(effect="read")
    async def hang() -> str:
        """Hang, at first."""
        if not resumed:
            await stopped.here()
        return "hung"

    loop = _dispatching(quick, wait, hang)

    async def scene() -> Any:
        host = AsyncHost(scripted(), None, None, None, None)
        pool = host.pool = Waited(3)
        closed: Any = host.run(loop, None)
        closed.send(None)
        await until(lambda: stopped.ready and begun.is_set())
        closed.close()
        left = loop.driven, outcomes(loop), pool.waited
        await until(lambda: stopped.log and heard.is_set())
        resumed.append(True)
        return left, await run_async(scripted(DONE), loop=loop)

    left, result = played(scene)
    assert (left, stopped.log, [one.content for one in result.results]) == (
        (False, [("quick", "ok")], False),
        ["cleaned up"],
        ["done", "waited", "hung"],
    )


def test_a_loop_whose_host_is_on_a_closed_event_loop_is_taken_up_by_another() -> None:
    """Nothing keeps the host, and what comes late of a thread is told to nobody."""
    token, begun, release = CancelToken(), threading.Event(), threading.Event()

    @tool(effect="read")
    def wait() -> str:
        """Wait for its release."""
        begun.set()
        release.wait(20)
        return "waited"

    @tool(effect="read")
    async def hang() -> str:
        """Hang until then."""
        if not release.is_set():
            await asyncio.sleep(20)
        return "hung"

    loop, events = _dispatching(wait, hang), asyncio.new_event_loop()

    async def main() -> tuple[Any, Any]:
        host = AsyncHost(scripted(), token, None, None, None)
        task = asyncio.ensure_future(host.run(loop, None))
        await until(begun.is_set)
        return weakref.ref(task), host.pool

    gone, pool = events.run_until_complete(main())
    events.close()
    stood = loop.driven, loop.cancel, loop.snapshot.state
    release.set()
    result = drive(scripted(DONE), None, loop=loop)
    pool.free.get(timeout=20)
    gc.collect()
    assert (stood, gone(), loop.cancel) == ((False, token, "dispatching"), None, None)
    assert (result.status, [one.content for one in result.results]) == ("answered", ["waited", "hung"])


def test_a_stranded_run_that_is_closed_at_last_tells_nothing_to_a_loop_that_another_host_drives() -> None:
    """What it knows of a call is not the result of the call's second run."""
    runs, stray = list[int](), list[Any]()

    @tool(effect="read")
    async def work() -> str:
        """Close the stray run, if there is one."""
        runs.append(len(runs))
        for one in stray:
            one.close()
        return f"run {len(runs)}"

    loop, events = _dispatching(work), asyncio.new_event_loop()

    async def main() -> Any:
        run: Any = AsyncHost(scripted(), None, None, None, None).run(loop, None)
        run.send(None)
        await until(lambda: runs)
        return run

    stray.append(events.run_until_complete(main()))
    events.close()
    result = drive(scripted(DONE), None, loop=loop)
    assert (result.status, [one.content for one in result.results]) == ("answered", ["run 2"])
