"""A tool's own timeout: what a call that takes too long is answered, on every host and step by step."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest

from loopmachine import (
    Budget,
    CallResult,
    CancelToken,
    Context,
    Loop,
    Policy,
    Result,
    Tool,
    notices,
    run,
    run_async,
    tool,
)
from loopmachine.events import CallReturned, CancelPolled
from loopmachine.records import Call
from loopmachine.requests import AskModel, PollCancel, StartCalls
from loopmachine.review.moves import moves
from loopmachine.review.promises import broken
from loopmachine.tools import Toolbox
from tests.drivers import DONE, DRIVERS, Driver, Stage, brought, call, calls, everywhere
from tests.test_async_host import drive, played, until
from tests.test_hosts import PASSING, Stop, look, outcomes, scripted, started

SOON = 0.01  #: seconds; a call that hangs is waited for so long
NEVER = 60.0  #: seconds; no call takes so long
NOTHING = {"type": "object"}
ON_ITS_THREAD = f"hang timed out after {SOON} seconds; it may still be at work"
CUT = f"hang timed out after {SOON} seconds and was cancelled"


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """What calls on threads wait for. It comes when the test is over, and the threads are then gone."""
    event = threading.Event()
    yield event
    event.set()
    ended()


def threads() -> list[threading.Thread]:
    """The threads that calls with a timeout have to themselves."""
    return [one for one in threading.enumerate() if one.name.startswith("loopmachine ")]


def ended() -> None:
    """Wait until the threads that were left behind are at their end."""
    for one in threads():
        one.join(NEVER)


def hanging(release: threading.Event, **options: Any) -> Tool:
    """A tool that hangs on a thread until it is let go."""
    return Tool("hang", "Hang.", NOTHING, partial(release.wait, NEVER), timeout=SOON, **options)


def hanging_on(stage: Stage, release: threading.Event, **options: Any) -> list[Tool]:
    """The tools of a stage and one that hangs, as a task where they are tasks."""
    if not stage.driver.tasks:
        return [*stage.tools(), hanging(release, **options)]
    return [*stage.tools(), Tool("hang", "Hang.", NOTHING, partial(asyncio.sleep, NEVER), timeout=SOON, **options)]


def checked(result: Result) -> tuple[str, list[tuple[str, str]]]:
    """How a run ended and what its calls brought, once every promise was found kept at every event of it."""
    snapshot, loop = result.snapshot, result.loop
    faults = [broken(move) for move in moves(result.definition, loop._start, snapshot.events, sealed=True)]
    assert faults == [{}] * len(snapshot.events)
    return result.status, outcomes(loop)


# --- on every host ------------------------------------------------------------------------------------------


def test_a_call_that_hangs_is_answered_and_the_call_beside_it_goes_on(release: threading.Event) -> None:
    """The run ends though nothing ever lets the call go."""

    def scene(stage: Stage) -> Any:
        result = stage.run(calls(call("a", "hang"), call("b")), DONE, tools=hanging_on(stage, release))
        assert result.failed_calls == (result.results[0],)
        return checked(result)

    assert everywhere(scene) == ("answered", [("a", "timed_out"), ("b", "ok")])


@pytest.mark.parametrize(("policy", "alone"), [(Policy(batch="sequential"), False), (Policy(), True)])
def test_a_call_that_runs_alone_and_hangs_lets_the_next_one_start(
    release: threading.Event, policy: Policy, alone: bool
) -> None:
    """Though its thread may still be at work."""

    def scene(stage: Stage) -> Any:
        tools = hanging_on(stage, release, sequential=alone)
        asked = calls(call("a", "hang"), call("b"), call("c", "hang"))
        return (*checked(stage.run(asked, DONE, tools=tools, policy=policy)), stage.effects)

    told = "answered", [("a", "timed_out"), ("b", "ok"), ("c", "timed_out")], ["look 1"]
    assert everywhere(scene) == told
    assert len(threads()) == 2 * len([one for one in DRIVERS if not one.tasks])


def test_an_approved_call_that_hangs_is_answered_too(release: threading.Event) -> None:
    """Its time begins when it is started, not when somebody is asked."""

    def scene(stage: Stage) -> Any:
        tools = hanging_on(stage, release, needs_approval=True)
        return checked(stage.run(call("a", "hang"), DONE, tools=tools, approve=lambda call: True))

    assert everywhere(scene) == ("answered", [("a", "timed_out")])


def test_the_seconds_are_real_whatever_the_clock_of_the_run(release: threading.Event) -> None:
    """A run whose clock stands still times its tools out, and spends no time."""

    def scene(stage: Stage) -> Any:
        budget = Budget(max_seconds=SOON / 2)
        result = stage.run(call("a", "hang"), DONE, tools=hanging_on(stage, release), clock=stage.clock, budget=budget)
        return (*checked(result), result.spend.seconds)

    assert everywhere(scene, [one for one in DRIVERS if not one.tasks]) == ("answered", [("a", "timed_out")], 0.0)


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda one: one.name)
def test_a_result_that_timed_out_says_so(driver: Driver, release: threading.Event) -> None:
    """It names the tool and the seconds, and whether it was stopped; it is no longer than a result may be."""
    stage = Stage(driver)
    tools = hanging_on(stage, release)
    said = [
        stage.run(call("a", "hang"), DONE, tools=tools, policy=policy).results[0]
        for policy in (Policy(), Policy(max_result_chars=4))
    ]
    told = CUT if driver.tasks else ON_ITS_THREAD
    assert said == [CallResult(1, 0, "a", "hang", "timed_out", text) for text in (told, "[cut")]


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda one: one.name)
@pytest.mark.parametrize("seconds", [NEVER, 60, 1e300, 10**400], ids=["float", "int", "huge", "huge int"])
def test_a_call_that_ends_in_time_is_answered_as_without_a_timeout(driver: Driver, seconds: float) -> None:
    """Whatever it brings, a TimeoutError of its own too, whatever its parameters are called, however many seconds."""

    def end(tool: str, seconds: int = 1, **more: Any) -> str:
        if tool == "fails":
            raise TimeoutError("no answer")
        if tool == "stops":
            raise StopIteration
        return f"{tool} {seconds} {more}"

    schema = {"type": "object", "properties": {"tool": {"type": "string"}}}
    tools = driver.tools([Tool("end", "End.", schema, end, timeout=seconds)])
    asked = calls(
        call("a", "end", tool="works", args=2), call("b", "end", tool="fails"), call("c", "end", tool="stops")
    )
    result = Stage(driver).run(asked, DONE, tools=tools)
    stopped = "RuntimeError: coroutine raised StopIteration" if driver.tasks else "StopIteration"
    assert list(result.history)[4:7] == [
        brought("a", "works 1 {'args': 2}"),
        brought("b", "TimeoutError: no answer", "failed"),
        brought("c", stopped, "failed"),
    ]


# --- on a thread --------------------------------------------------------------------------------------------


def test_a_call_with_a_timeout_has_a_thread_to_itself() -> None:
    """It sees the context variables of the run, and what it sets stays with it; the thread keeps nobody waiting."""
    user = contextvars.ContextVar("user", default="nobody")

    def where() -> list[Any]:
        """Say where it runs."""
        thread, asker = threading.current_thread(), user.get()
        user.set("a tool")
        return [thread.name, thread.daemon, asker]

    def scene() -> Any:
        user.set("me")
        made = tool(timeout=NEVER)(where)
        results = [
            run(scripted(call("a", "where"), DONE), "go", tools=[made]).results,
            asyncio.run(run_async(scripted(call("a", "where"), DONE), "go", tools=[made])).results,
        ]
        return [one.content for (one,) in results], user.get()

    assert contextvars.copy_context().run(scene) == (['["loopmachine where",true,"me"]'] * 2, "me")
    assert threads() == []


LATE: list[Callable[[Context], Any]] = [
    lambda context: "late",
    lambda context: context.progress(1),
    lambda context: 1 // 0,
    lambda context: sys.exit(1),
]


@pytest.mark.parametrize("late", LATE, ids=["returns", "tells", "fails", "exits"])
@pytest.mark.parametrize("driver", [one for one in DRIVERS if not one.tasks], ids=lambda one: one.name)
def test_what_a_call_brings_after_its_timeout_is_discarded(
    driver: Driver, late: Callable[[Context], Any], release: threading.Event
) -> None:
    """Its thread goes on, and nobody hears of it any more."""
    log: list[str] = []
    told: list[Any] = []

    @tool(timeout=SOON)
    def hang(context: Context) -> Any:
        """Hang."""
        release.wait(NEVER)
        log.append("at work")
        return late(context)

    result = Stage(driver).run(call("a", "hang"), DONE, tools=[hang], observe=told.append)
    before = len(told), log[:], result.loop.to_json()
    release.set()
    ended()
    assert (checked(result), before) == (
        ("answered", [("a", "timed_out")]),
        (len(told), [], result.loop.to_json()),
    )
    assert log == ["at work"]


def test_progress_is_heard_until_the_call_has_its_result() -> None:
    """From the thread of a call with a timeout too; the tool may keep its context, and then speaks to nobody."""
    kept: list[Context] = []
    told: list[Any] = []

    def work(context: Context) -> None:
        """Tell how far it is."""
        kept.append(context)
        context.progress(1, 2, "half")

    def answer(messages: Any, tools: Any) -> Any:
        for context in kept:
            context.progress(2)
        return DONE

    made = [tool(name="timed", timeout=NEVER)(work), tool(name="plain")(work)]
    run(scripted(call("a", "timed"), call("b", "plain"), answer), "go", tools=made, observe=told.append)
    progress = [one for one in told if isinstance(one, notices.Progress)]
    assert len(kept) == 2
    assert [(one.call.id, one.done, one.total, one.text) for one in progress] == [
        ("a", 1, 2, "half"),
        ("b", 1, 2, "half"),
    ]


@pytest.mark.parametrize("driver", [one for one in DRIVERS if not one.tasks], ids=lambda one: one.name)
@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_what_is_no_exception_passes_through_before_the_timeout(error: BaseException, driver: Driver) -> None:
    """The call is interrupted, as without a timeout."""

    @tool(timeout=NEVER)
    def fall() -> None:
        """Raise."""
        raise error

    loop = started(tools=[fall])
    with pytest.raises(type(error)):
        driver.drive(scripted(call("a", "fall")), None, loop=loop)
    assert outcomes(loop) == [("a", "interrupted")]


@pytest.mark.parametrize("driver", [one for one in DRIVERS if not one.tasks], ids=lambda one: one.name)
def test_what_passes_through_waits_no_longer_than_the_timeout(driver: Driver, release: threading.Event) -> None:
    """For the call beside it, whose outcome is recorded; then the loop goes on."""

    @tool
    def fall() -> None:
        """Raise."""
        raise Stop

    loop = started(tools=[hanging(release), fall])
    with pytest.raises(Stop):
        driver.drive(scripted(calls(call("a", "hang"), call("b", "fall"))), None, loop=loop)
    assert (outcomes(loop), run(scripted(DONE), loop=loop).status) == (
        [("a", "timed_out"), ("b", "interrupted")],
        "answered",
    )


def test_an_interrupt_waits_for_a_call_no_longer_than_its_timeout(release: threading.Event) -> None:
    """A single one, too, has the outcome that it had: it is not interrupted by what the host's thread is told."""

    def work() -> None:
        any(loop.hosts["host"].running for _ in itertools.count())  # until the host knows that it waits
        signal.pthread_kill(main, signal.SIGINT)
        release.wait(NEVER)

    main = threading.get_ident()
    loop = started(tools=[Tool("work", "Work.", NOTHING, work, timeout=0.2)])
    with pytest.raises(KeyboardInterrupt):
        run(scripted(call("a", "work")), loop=loop)
    assert outcomes(loop) == [("a", "timed_out")]


def test_a_token_set_while_a_single_call_hangs_is_heard_before_its_timeout(release: threading.Event) -> None:
    """The call's outcome is kept, and nothing more is started."""
    token = CancelToken()

    def work() -> str:
        token.cancel("enough")
        return f"heard {release.wait(NEVER)}"

    def observe(notice: Any) -> None:
        if notice.snapshot.cancelled:
            release.set()

    made = Tool("work", "Work.", NOTHING, work, timeout=NEVER)
    result = run(scripted(call("a", "work")), "go", tools=[made], cancel=token, observe=observe)
    assert (result.status, list(result.history)[2:]) == ("cancelled", [brought("a", "heard True")])


HANGS = """
import sys, threading
from loopmachine import run, run_async, tool

@tool(timeout=0.01)
def hang() -> None:
    threading.Event().wait()

def model(messages, tools):
    return {"kind": "final", "text": messages[-1]["outcome"]} if len(messages) > 1 else CALL

CALL = {"kind": "call", "id": "a", "name": "hang", "arguments": {}}
print(run(model, "go", tools=[hang]).text, "asyncio" in sys.modules)
"""
ON_ASYNCIO = "import asyncio\nprint(asyncio.run(run_async(model, 'go', tools=[hang])).text)\n"


def test_a_program_ends_though_a_call_still_hangs() -> None:
    """On either host; ``run`` needs no asyncio for it."""
    python = [sys.executable, "-c", HANGS + ON_ASYNCIO]
    root = Path(__file__).parents[1]
    done = subprocess.run(python, cwd=root, capture_output=True, text=True, timeout=NEVER, check=True)
    assert (done.stdout, done.stderr) == ("timed_out False\ntimed_out\n", "")


# --- as a task ----------------------------------------------------------------------------------------------


def _swallows() -> str:
    return "done all the same"


def _fails() -> str:
    raise ValueError("while cleaning up")


def _is_cancelled() -> str:
    raise asyncio.CancelledError


@pytest.mark.parametrize("end", [_swallows, _fails, _is_cancelled])
def test_a_task_is_cancelled_at_its_timeout_and_awaited_and_what_it_brings_is_discarded(
    end: Callable[[], str],
) -> None:
    """It has time to clean up; that it comes with something then makes it no less late."""
    log: list[str] = []

    @tool(timeout=SOON)
    async def hang() -> str:
        """Hang."""
        try:
            await asyncio.sleep(NEVER)
        except asyncio.CancelledError:
            for _ in range(3):
                await asyncio.sleep(0)
            log.append("cleaned up")
        return end()

    def model(messages: Any, tools: Any) -> Any:
        log.append(f"asked {len(messages)}")
        return DONE if len(messages) > 1 else call("a", "hang")

    result = drive(model, tools=[hang])
    assert (checked(result), list(result.history)[2], log) == (
        ("answered", [("a", "timed_out")]),
        brought("a", CUT, "timed_out"),
        ["asked 1", "cleaned up", "asked 3"],
    )


def test_a_task_that_the_deadline_cuts_short_is_interrupted() -> None:
    """The run's own deadline was earlier than the timeout."""
    now = [0.0]

    @tool(timeout=NEVER)
    async def hang() -> None:
        """Hang."""
        now[0] = 9.0
        await asyncio.sleep(NEVER)

    result = drive(scripted(call("a", "hang")), tools=[hang], budget=Budget(max_seconds=0.05), clock=lambda: now[0])
    assert checked(result) == ("time_budget", [("a", "interrupted")])


@pytest.mark.parametrize("how", ["deadline", "token", "task"])
def test_a_task_in_the_midst_of_a_timeout_of_its_own_is_cut_short_after_it(how: str) -> None:
    """It cleans up in peace, and what it begins then goes on no further."""
    now, log, token = [0.0], list[str](), CancelToken()

    @tool
    async def hang() -> None:
        """Wait a little, clean up, and then wait for ever."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SOON):
                try:
                    await asyncio.sleep(NEVER)
                finally:
                    log.append("begin")
                    for _ in range(20):
                        await asyncio.sleep(SOON)
                    log.append("cleaned up")
        await asyncio.sleep(NEVER)

    loop = started(tools=[hang], budget=Budget(max_seconds=0.05))

    async def scene() -> Any:
        task = asyncio.ensure_future(
            run_async(scripted(call("a", "hang")), loop=loop, clock=lambda: now[0], cancel=token)
        )
        await until(lambda: log)
        acts: dict[str, Callable[[], Any]] = {"token": token.cancel, "task": task.cancel}
        acts.get(how, lambda: now.insert(0, 9.0))()
        await asyncio.wait([task])
        return log, outcomes(loop)

    assert played(scene) == (["begin", "cleaned up"], [("a", "interrupted")])


def test_a_task_that_timed_out_before_the_deadline_is_not_hurried_by_it() -> None:
    """It cleans up in peace, and it was its timeout that cut it short."""
    now, looked = [0.0], list[float]()

    def clock() -> float:
        looked.append(now[0])
        return now[0]

    @tool(timeout=SOON)
    async def hang() -> None:
        """Hang."""
        try:
            await asyncio.sleep(NEVER)
        finally:
            now[0] = 9.0
            await until(lambda: 9.0 in looked)
            looked.append(-1.0)

    result = drive(scripted(call("a", "hang")), tools=[hang], budget=Budget(max_seconds=0.05), clock=clock)
    assert (*checked(result), -1.0 in looked) == ("time_budget", [("a", "timed_out")], True)


def test_a_task_that_notes_what_it_had_done_says_so_in_its_result() -> None:
    """What it adds to its CancelledError follows why it was cut short; a note that is no text is none."""
    now = [0.0]

    @tool
    async def hang(n: int) -> None:
        """Hang."""
        try:
            await asyncio.sleep(NEVER)
        except asyncio.CancelledError as cancelled:
            now[0] = 9.0
            cancelled.add_note(f"{n} of 9 were sent")
            cancelled.add_note("none was answered")
            cancelled.__notes__.append(5)  # type: ignore[arg-type]  # which is what is tested
            raise

    timed = attrs.evolve(hang, name="timed", timeout=SOON)
    asked = scripted(calls(call("a", "hang", n=3), call("b", "timed", n=4)))
    result = drive(asked, tools=[hang, timed], budget=Budget(max_seconds=0.05), clock=lambda: now[0])
    assert [(one.outcome, one.content) for one in result.results] == [
        ("interrupted", "cut short at the deadline\n3 of 9 were sent\nnone was answered"),
        ("timed_out", CUT.replace("hang", "timed") + "\n4 of 9 were sent\nnone was answered"),
    ]


def test_a_cancellation_of_the_run_interrupts_a_task_that_has_a_timeout() -> None:
    """It comes out as CancelledError."""
    ready: list[bool] = []

    @tool(timeout=NEVER)
    async def hang() -> None:
        """Hang."""
        ready.append(True)
        await asyncio.sleep(NEVER)

    loop = started(tools=[hang])

    async def scene() -> Any:
        task = asyncio.ensure_future(run_async(scripted(call("a", "hang")), loop=loop))
        await until(lambda: ready)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled(), outcomes(loop)

    assert played(scene) == (True, [("a", "interrupted")])


def test_a_cancellation_from_outside_is_not_taken_for_the_timeout_that_follows_it() -> None:
    """Who cancels a task gets its CancelledError, though it cleans up for so long that it times out as well."""

    async def hang() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        try:
            await asyncio.sleep(NEVER)
        finally:
            await asyncio.sleep(NEVER)

    made = Tool("hang", "Hang.", NOTHING, hang, timeout=SOON)

    async def scene() -> str:
        (outcome,) = await asyncio.gather(performing(made), return_exceptions=True)
        return type(outcome).__name__

    assert played(scene) == "CancelledError"


async def performing(made: Tool) -> CallResult:
    """What the only call of a tool brings in a task of its own."""
    asked = Call("a", made.name, step=1, known=True, checked="{}")
    return await Toolbox([made]).perform_async(asked, Context(), error_text="message", max_chars=99)


def test_a_cancellation_after_the_timeout_is_that_of_nobody() -> None:
    """A task whose tool timed out is as it was: it can go on to wait, and is not being cancelled."""
    made = Tool("hang", "Hang.", NOTHING, partial(asyncio.sleep, NEVER), timeout=SOON)

    async def scene() -> Any:
        task = asyncio.current_task()
        assert task is not None
        said = await performing(made)
        await asyncio.sleep(0)
        return said.content, task.cancelling()

    assert played(scene) == (CUT, 0)


# --- step by step -------------------------------------------------------------------------------------------


def test_a_users_own_host_keeps_the_timeout_too(release: threading.Event) -> None:
    """``Loop.perform`` answers for a sync tool, ``perform_async`` for an async one."""

    async def nap() -> None:
        await asyncio.sleep(NEVER)

    tools = [hanging(release), Tool("nap", "Nap.", NOTHING, nap, timeout=SOON), look]
    loop = Loop("go", tools=tools, at=0.0)
    replies = iter([calls(call("a", "hang"), call("b", "nap"), call("c")), DONE])
    while not loop.finished:
        match loop.requests[0]:
            case PollCancel():
                loop.send(CancelPolled(False, at=0.0))
            case AskModel():
                loop.replied(next(replies), at=0.0)
            case started:
                assert isinstance(started, StartCalls)
                first = started.calls[0]
                task = partial(loop.perform_async, first)
                result = played(task) if loop.toolbox.is_async(first) else loop.perform(first)
                loop.send(CallReturned(result, at=0.0))
    assert (checked(loop.result()), list(loop.result().history)[4:]) == (
        ("answered", [("a", "timed_out"), ("b", "timed_out"), ("c", "ok")]),
        [
            brought("a", ON_ITS_THREAD, "timed_out"),
            brought("b", CUT.replace("hang", "nap"), "timed_out"),
            brought("c"),
            DONE,
        ],
    )
