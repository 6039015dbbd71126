"""When a call is told to stop: with its run, at its deadline and timeout, and when an exception leaves the run."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from loopmachine import Budget, CancelToken, Context, Loop, Tool, Usage, loop_tool, run, run_async, tool
from loopmachine.events import CallReturned, CancelPolled
from loopmachine.host import Pool
from loopmachine.sync_host import SyncHost
from tests.drivers import ASYNC_THREADS, DONE, THREADS, Driver, Stage, call, calls, everywhere
from tests.test_async_host import HASTY, drive, played, until
from tests.test_hosts import Stop, outcomes, scripted, started

NEVER = 60.0  #: seconds; nothing takes so long
SOON = 0.01  #: seconds; a timeout that is waited for
ON_THREADS = pytest.mark.parametrize("driver", [THREADS, ASYNC_THREADS], ids=lambda one: one.name)
LEFT = "an exception leaves the run"
USED: dict[str, Any] = {"usage": {"input_tokens": 60, "output_tokens": 40, "cost_usd": 0.5}}
ONE_STEP = Usage(input_tokens=60, output_tokens=40, cost_usd=0.5)


class Waits:
    """A sync tool that waits until it is told to stop, and says whether and why."""

    def __init__(self, **options: Any) -> None:
        self.begun, self.ended = threading.Event(), threading.Event()
        self.heard: list[Any] = []
        self.tool = tool(name="wait", **options)(self.wait)

    def wait(self, ctx: Context) -> str:
        """Wait."""
        self.begun.set()
        cancel: Any = ctx.cancel
        self.heard += [cancel.wait(NEVER), cancel(), cancel.reason, ctx.deadline]
        self.ended.set()
        return str(cancel.reason)


@pytest.fixture
def waits() -> Waits:
    """A tool that waits."""
    return Waits()


# --- when an exception leaves the run ---------------------------------------------------------------------


CANCELS = pytest.mark.parametrize("cancel", [None, CancelToken(), lambda: False], ids=["none", "a token", "a callable"])


@CANCELS
def test_a_cancelled_task_tells_the_tools_that_are_on_threads(cancel: Any, waits: Waits) -> None:
    """They stop, what they brought is recorded, and the cancel of the caller is as it was."""
    loop = started(tools=[waits.tool])

    async def scene() -> bool:
        task = asyncio.ensure_future(run_async(scripted(call("a", "wait")), loop=loop, cancel=cancel))
        await until(waits.begun.is_set)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    cancelled = played(scene)
    contents = [one.content for one in loop.result().results]
    assert (cancelled, waits.heard[:3], contents, cancel is not None and cancel()) == (
        True,
        [True, True, LEFT],
        [LEFT],
        False,
    )
    assert drive(scripted(DONE), None, loop=loop).status == "answered"


@ON_THREADS
def test_what_passes_through_one_tool_tells_those_beside_it(driver: Driver, waits: Waits) -> None:
    """Whatever it is; and the next host of the loop begins anew."""

    @tool
    def fall() -> None:
        """Raise, once the other waits."""
        waits.begun.wait(NEVER)
        raise Stop

    loop = started(tools=[waits.tool, fall])
    with pytest.raises(Stop):
        driver.drive(scripted(calls(call("a", "wait"), call("b", "fall"))), None, loop=loop)
    told = waits.heard[:3], outcomes(loop)
    assert told == ([True, True, LEFT], [("a", "ok"), ("b", "interrupted")])

    @tool(name="wait")
    def ask(ctx: Context) -> str:
        """Ask."""
        return f"{ctx.cancel()}"

    again = Loop.from_json(loop.to_json(), tools=[ask])
    result = driver.drive(scripted(call("c", "wait"), DONE), None, loop=again)
    assert (result.status, result.results[-1].content) == ("answered", "False")


@ON_THREADS
@pytest.mark.parametrize("falls", [False, True], ids=["returns", "falls"])
def test_what_runs_when_a_row_of_ones_own_ends_the_run_is_told_to_stop(
    driver: Driver, falls: bool, waits: Waits
) -> None:
    """It is awaited, and what it brings is told to nobody; what is no Exception comes out all the same."""

    @tool
    def quick() -> None:
        """Come back once the other waits."""
        waits.begun.wait(NEVER)

    @tool
    def hang(ctx: Context) -> None:
        """Wait to be told."""
        waits.wait(ctx)
        if falls:
            raise Stop

    loop = started(tools=[quick, hang], definition=HASTY)
    with pytest.raises(Stop) if falls else nullcontext():
        driver.drive(scripted(calls(call("a", "hang"), call("b", "quick"))), None, loop=loop)
    told = [event.result.id for event in loop.snapshot.events if isinstance(event, CallReturned)]
    assert (waits.heard[:3], told) == ([True, True, "the run has ended"], ["b"])
    assert (loop.result().status, loop.driven) == ("stuck", False)


def test_an_interrupt_tells_the_tools_that_are_on_threads(waits: Waits) -> None:
    """The host awaits them, and they don't keep it waiting."""
    main = threading.get_ident()

    @tool
    def interrupt() -> None:
        """Interrupt the host, once the other waits."""
        waits.begun.wait(NEVER)
        signal.pthread_kill(main, signal.SIGINT)

    loop = started(tools=[waits.tool, interrupt])
    with pytest.raises(KeyboardInterrupt):
        run(scripted(calls(call("a", "wait"), call("b", "interrupt"))), loop=loop)
    assert (waits.heard[:3], outcomes(loop)) == ([True, True, LEFT], [("a", "ok"), ("b", "ok")])


@pytest.mark.parametrize("how", ["token", "task"])
def test_a_sync_sub_run_on_a_thread_buys_nothing_more(how: str, waits: Waits) -> None:
    """Its tool is told to stop, it begins no other step, and what it spent is paid."""
    token, asked = CancelToken(), list[int]()

    def model(messages: Any) -> Any:
        asked.append(len(messages))
        return call("c1", "wait") | USED

    child = loop_tool(model, "research", "Look it up.", tools=[waits.tool], budget=Budget(max_steps=5))
    loop = started(tools=[child])

    async def scene() -> str:
        script = scripted(call("a", "research", prompt="who?") | USED)
        task = asyncio.ensure_future(run_async(script, loop=loop, cancel=token))
        await until(waits.begun.is_set)
        if how == "token":
            token.cancel("enough")
        else:
            task.cancel()
        (ended,) = await asyncio.gather(task, return_exceptions=True)
        return type(ended).__name__

    raised = played(scene)
    (result,) = loop.result().results
    why = "enough" if how == "token" else LEFT
    assert (raised, asked, waits.heard[2], result.outcome, result.code, result.usage) == (
        "Result" if how == "token" else "CancelledError",
        [1],
        why,
        "interrupted",
        "cancelled",
        ONE_STEP,
    )
    assert result.content.splitlines()[0] == "research did not answer: it ended cancelled."


# --- deadlines and timeouts -------------------------------------------------------------------------------


def test_a_call_is_told_to_stop_at_the_deadline() -> None:
    """On the clock of the run, whoever performs it; a run without one has none."""

    def scene(stage: Stage) -> Any:
        heard: list[Any] = []

        @tool
        def look(ctx: Context) -> None:
            """Look at the token, before and at the deadline."""
            for _ in range(2):
                heard.extend([ctx.cancel(), getattr(ctx.cancel, "reason", None), ctx.deadline])
                stage.now += 5.0

        tools = stage.driver.tools([look])
        for seconds in (5.0, None):
            stage.run(call("a"), DONE, tools=tools, budget=Budget(max_seconds=seconds), clock=stage.clock)
        return heard

    first = [False, "", 5.0, True, "the deadline passed", 5.0]
    assert everywhere(scene) == [*first, False, "", None, False, "", None]


@ON_THREADS
def test_a_sync_call_is_told_to_stop_at_its_timeout(driver: Driver) -> None:
    """Its thread ends then, though nobody waits for it; the deadline is its own."""
    waits, stage = Waits(timeout=SOON), Stage(driver)
    result = stage.run(call("a", "wait"), DONE, tools=[waits.tool], clock=stage.clock)
    waits.ended.wait()
    assert ([one.outcome for one in result.results], waits.heard) == (
        ["timed_out"],
        [True, True, "its timeout passed", SOON],
    )


def test_an_async_call_is_told_to_stop_at_its_timeout() -> None:
    """Before it is cancelled, so that what it left on a thread hears of it while it cleans up."""
    heard: list[Any] = []

    @tool(timeout=SOON)
    async def hang(ctx: Context) -> None:
        """Hang."""
        cancel: Any = ctx.cancel
        try:
            await asyncio.sleep(NEVER)
        finally:
            heard.extend([await asyncio.to_thread(cancel.wait, NEVER), cancel.reason])

    result = drive(scripted(call("a", "hang"), DONE), tools=[hang], clock=lambda: 0.0)
    assert ([one.outcome for one in result.results], heard) == (["timed_out"], [True, "its timeout passed"])


@pytest.mark.parametrize(("seconds", "timeout", "deadline"), [(5.0, NEVER, 5.0), (90.0, NEVER, NEVER), (None, 7, 7.0)])
def test_the_deadline_of_a_call_is_the_earlier_one(seconds: Any, timeout: float, deadline: float) -> None:
    """Of the run's own and the call's."""

    def scene(stage: Stage) -> Any:
        seen: list[Any] = []

        @tool(timeout=timeout)
        def look(ctx: Context) -> None:
            """Look."""
            seen.extend([ctx.deadline, ctx.timeout, ctx.cancel()])

        budget = Budget(max_seconds=seconds)
        stage.run(call("a"), DONE, tools=stage.driver.tools([look]), budget=budget, clock=stage.clock)
        return seen

    assert everywhere(scene) == [deadline, timeout, False]


def test_who_raises_when_it_is_told_makes_a_call_no_less_late() -> None:
    """The call has timed out, whatever those say that wait for its end."""
    waits = Waits(timeout=SOON)

    @tool(timeout=SOON)
    def hang(ctx: Context) -> None:
        """Hang, with somebody subscribed who raises."""
        cancel: Any = ctx.cancel
        cancel.subscribe(lambda: 1 // 0)
        waits.wait(ctx)

    stage = Stage(THREADS)
    result = stage.run(call("a", "hang"), DONE, tools=[hang], clock=stage.clock)
    waits.ended.wait()
    assert [one.outcome for one in result.results] == ["timed_out"]


@pytest.mark.parametrize("at", [0.0, 1e9], ids=["a clock from zero", "a clock like time.time"])
def test_step_by_step_the_clock_goes_on_from_the_latest_event(at: float) -> None:
    """So that a deadline and the clock that it is on can be compared, whatever clock a workflow has."""
    seen: list[Any] = []

    @tool
    def look(ctx: Context) -> None:
        """Look."""
        seen.extend([ctx.cancel(), ctx.deadline, at <= ctx.clock() < at + NEVER])

    loop = Loop("go", tools=[look], budget=Budget(max_seconds=NEVER), at=at)
    loop.send(CancelPolled(False, at=at))
    loop.replied(call("a"), at=at)
    loop.send(CancelPolled(False, at=at))
    loop.perform(loop.snapshot.flights[0].call)
    assert seen == [False, at + NEVER, True]


# --- an interrupt in the midst of it ------------------------------------------------------------------------


class Broken(Pool):
    """A pool that is interrupted while it takes a call: before that is on its thread, or when it has begun."""

    def __init__(self, begun: threading.Event | None, release: threading.Event) -> None:
        super().__init__(4)
        self.begun, self.release = begun, release
        self.late: list[Any] = []

    def submit(self, function: Callable[[], object]) -> None:
        """Take it, as far as that goes."""
        if self.begun is None:
            self.late.append(function)
        else:
            super().submit(function)
            self.begun.wait(NEVER)
            threading.Timer(0.05, self.release.set).start()
        raise KeyboardInterrupt


@pytest.mark.parametrize("begins", [True, False])
def test_a_call_that_was_begun_while_its_host_was_interrupted_is_awaited(begins: bool) -> None:
    """And recorded, as the host knows of it only from its thread; one that was not begun by then never is."""
    begun, release, log = threading.Event(), threading.Event(), list[str]()

    def work() -> str:
        begun.set()
        release.wait(NEVER)
        log.append("worked")
        return "done"

    made = Tool("work", "Work.", {"type": "object"}, work, effect="read")
    loop, script = started(tools=[made]), scripted(calls(call("a", "work"), call("b", "work")))
    host = SyncHost(script, None, None, None, None)
    pool = host.pool = Broken(begun if begins else None, release)
    with pytest.raises(KeyboardInterrupt):
        host.run(loop, None)
    for function in pool.late:
        function()
    assert (outcomes(loop), log, loop.driven) == ([("a", "ok")] if begins else [], ["worked"] * begins, False)
    release.set()
    result = run(scripted(DONE), loop=loop)
    assert ([one.content for one in result.results], log) == (["done"] * 2, ["worked"] * 2)
