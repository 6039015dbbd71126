"""What went wrong in other state machines, case by case; an id's test bears its name.

The contract that these tests state: the machine has no queue and no callback of its own. ``advance`` is pure, and an
event is taken whole or not at all: what a guard or an update raises goes to the caller, the loop stands where it
stood, and the next event is taken. Observers, models and tools are called after an event was taken, so nothing that
they raise or send leaves it half taken.
"""
# ruff: noqa: N802  the ids of the cases are in capitals

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from loopmachine import TOOL_LOOP, Budget, Definition, Loop, Row, advance, run, run_async, tool
from loopmachine.errors import UnexpectedEvent
from loopmachine.events import CancelPolled, CancelRequested, Event, ModelReplied
from loopmachine.machine import engine, live
from loopmachine.records import Call, Snapshot
from loopmachine.requests import AskModel, PollCancel
from loopmachine.review.verify import verify
from tests.drivers import (
    ASYNC_TASKS,
    DONE,
    DRIVERS,
    GO,
    THREADS,
    Driver,
    Stage,
    Told,
    brought,
    call,
    calls,
    everywhere,
    spent,
)
from tests.facts import answer, asks, failed, polled, replied, resumed, returned

NO = polled()
YES = polled(True)

# --- F01 --------------------------------------------------------------------------------------------------


async def cancelled(task: asyncio.Future[Any]) -> bool:
    """Cancel a task and wait for its end."""
    task.cancel()
    await asyncio.wait([task])
    return task.cancelled()


@pytest.mark.parametrize("who", ["model", "tool"])
def test_F01_a_cancelled_transition_leaves_nothing_busy(who: str) -> None:
    """A run is cancelled while a callback sleeps: no task is left, and the next event is handled at once."""
    stage, reached = Stage(ASYNC_TASKS), asyncio.Event()

    @tool
    async def sleep() -> None:
        """Sleep for ever."""
        reached.set()
        await asyncio.Event().wait()

    async def model(messages: Any, tools: Any) -> Any:
        if who == "tool":
            return call("c1", "sleep")
        return await sleep()

    async def main() -> tuple[bool, bool, Any, str]:
        loop = Loop("go", tools=[sleep], at=0.0)
        task = asyncio.ensure_future(run_async(model, loop=loop, clock=stage.clock))
        await reached.wait()
        gone = await cancelled(task)
        left = len(asyncio.all_tasks()) > 1
        loop.send(resumed())
        then = loop.snapshot.state, loop.requests
        result = await run_async(stage.model(DONE), loop=loop, clock=stage.clock)
        return gone, left, then, result.status

    then = "checking_cancel", (PollCancel(),)
    assert asyncio.run(main()) == (True, False, then, "answered")


# --- F02 --------------------------------------------------------------------------------------------------


class Broken(Exception):
    """What a broken guard or update raises."""


class Once:
    """A guard or an update that raises when it is called first, and then does nothing."""

    def __init__(self) -> None:
        self.raised = False

    def guard(self, snapshot: Snapshot, event: Event) -> bool:
        """Raises once."""
        self.fail()
        return False

    def update(self, snapshot: Snapshot, event: Event) -> Snapshot:
        """Raises once."""
        self.fail()
        return snapshot

    def fail(self) -> None:
        """Raise, once."""
        if not self.raised:
            self.raised = True
            raise Broken("no such thing")


def holds(snapshot: Snapshot, event: Event) -> bool:
    """Holds."""
    return True


def with_guard(state: str, row: int) -> Definition:
    """The table with a guard that raises once before this row."""
    old = TOOL_LOOP.row(f"{state}/{row}")
    return TOOL_LOOP.with_row(state, Row(old.event, old.to, Once().guard), at=row)


def with_update(state: str, row: int) -> Definition:
    """The table with a row that is taken in the place of this one, its update raising once."""
    old = TOOL_LOOP.row(f"{state}/{row}")
    once = Once()

    def update(snapshot: Snapshot, event: Event) -> Snapshot:
        """What the row in its place does, after raising once."""
        assert old.update is not None
        changed: Snapshot = old.update(once.update(snapshot, event), event)
        return changed

    return TOOL_LOOP.with_row(state, Row(old.event, old.to, holds, update), at=row)


#: Where it raises: on the event itself, and in an auto row behind updates that were made already.
BROKEN = {
    "a guard": lambda: with_guard("checking_cancel", 2),
    "a guard behind an update": lambda: with_guard("checking_budget", 7),
    "an update": lambda: with_update("awaiting_model", 1),
    "an update behind a poll": lambda: with_update("admitting", 10),
    "an update behind updates": lambda: with_update("collecting", 3),
}


LOOK = Call("c1", "look", step=1, known=True, checked="{}")
WALK: list[Event] = [NO, replied(asks(LOOK)), NO, returned(LOOK), NO, replied(answer()), NO]


@pytest.mark.parametrize("what", BROKEN)
def test_F02_what_raises_changes_nothing_and_the_next_event_is_taken(what: str) -> None:
    """The error goes to the caller, the loop is the same object in the same state, and the event can be sent again."""
    loop = Loop("go", definition=BROKEN[what](), at=0.0)
    raised = []
    for event in WALK:
        before = loop.snapshot, loop.requests
        try:
            loop.send(event)
        except Broken as error:
            raised.append(str(error))
            assert (loop.snapshot, loop.requests) == before
            assert loop.snapshot is before[0]
            loop.send(event)
    assert (raised, loop.snapshot.events, loop.result().status) == (["no such thing"], tuple(WALK), "answered")


@pytest.mark.parametrize("what", BROKEN)
def test_F02_an_abort_after_an_error_is_still_handled(what: str) -> None:
    """Whatever raised, a cancel that comes next ends the run: at the next rest at the latest."""
    loop = Loop("go", definition=BROKEN[what](), at=0.0)
    with pytest.raises(Broken):
        list(map(loop.send, WALK))
    if "CancelRequested" in loop.definition.accepts(loop.snapshot.state):
        loop.send(CancelRequested(at=0.0))
    else:
        loop.send(YES)
    assert loop.snapshot.cancelled


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
@pytest.mark.parametrize("what", BROKEN)
def test_F02_a_host_lets_the_error_out_and_the_loop_goes_on(what: str, driver: Driver) -> None:
    """``run`` raises what a guard or an update raised; given the same loop it goes on to the answer."""
    stage = Stage(driver)
    loop = Loop("go", tools=stage.tools(), definition=BROKEN[what](), at=0.0)
    options: dict[str, Any] = {"loop": loop, "clock": stage.clock}
    with pytest.raises(Broken):
        driver.drive(stage.model(call("c1"), DONE), None, **options)
    result = driver.drive(stage.model(call("c2"), DONE), None, **options)
    assert (result.status, result.history[-1], loop.driven) == ("answered", DONE, False)


@pytest.mark.parametrize("observer", ["one that raises", "none"])
def test_F02_an_observer_that_raises_harms_nothing(observer: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is told after an event was taken, is reported once, and the run is the same as without it."""

    def observe(notice: Any) -> None:
        raise Broken("not now")

    told = everywhere(lambda stage: stage.play(call("c1"), DONE, observe=observe if observer != "none" else None))
    reports = [record.getMessage() for record in caplog.records]
    assert (told, reports) == (
        Told("answered", spent(2, 1), [GO, call("c1"), brought("c1"), DONE], ["look 1"]),
        ["the observer raised; the run goes on"] * len(DRIVERS) if observer != "none" else [],
    )


@pytest.mark.parametrize("event", [replied(answer()), failed(), CancelRequested(at=0.0)])
def test_F02_an_event_that_is_not_allowed_changes_nothing(event: Event) -> None:
    """UnexpectedEvent names state, event and what is accepted; the snapshot is the same, the next event is taken."""
    loop = Loop("go", at=0.0)
    before = loop.snapshot
    with pytest.raises(UnexpectedEvent) as caught:
        loop.send(event)
    error, same = caught.value, loop.snapshot is before
    after = loop.send(NO).snapshot.state
    assert (error.state, error.event, error.accepted, same, after) == (
        "checking_cancel",
        event,
        ("CancelPolled", "Resumed"),
        True,
        "awaiting_model",
    )


# --- F04 --------------------------------------------------------------------------------------------------


def sending(loops: list[Loop], event: Event, taken: list[Event]) -> Callable[[], None]:
    """Send an event to the loop, once; note it if it was taken."""

    def send() -> None:
        if loops:
            loops.pop().send(event)
            taken.append(event)

    return send


@pytest.mark.parametrize("where", ["guard", "update"])
def test_F04_an_event_sent_inside_a_guard_or_an_update(where: str) -> None:
    """There is no queue: whichever send comes back without an error is in the log, and none is lost in silence."""
    loops: list[Loop] = []
    taken: list[Event] = []
    send = sending(loops, NO, taken)

    def guard(snapshot: Snapshot, event: Event) -> bool:
        """Sends, and holds where it is to update."""
        if where == "guard":
            send()
        return where == "update"

    def update(snapshot: Snapshot, event: Event) -> Snapshot:
        """Sends."""
        return send() or snapshot

    definition = TOOL_LOOP.with_row("checking_cancel", Row(CancelPolled, "checking_budget", guard, update), at=1)
    loop = Loop("go", definition=definition, at=0.0)
    loops.append(loop)
    with pytest.raises(
        RuntimeError, match="another event was sent while CancelPolled was taken, which is not in the log"
    ):
        loop.send(polled(at=1.0))
    assert list(loop.snapshot.events) == taken


def test_F04_advance_inside_an_update_is_nobody_elses_business() -> None:
    """It is a pure function: taking another event of another run inside an update changes only what it returns."""
    inner: list[str] = []

    def update(snapshot: Snapshot, event: Event) -> Snapshot:
        """Looks ahead."""
        inner.append(advance(TOOL_LOOP, snapshot.but(state="checking_cancel"), YES).snapshot.state)
        return snapshot

    definition = TOOL_LOOP.with_row("checking_cancel", Row(CancelPolled, "checking_budget", holds, update), at=1)
    loop = Loop("go", definition=definition, at=0.0)
    rows = loop.send(NO).rows
    assert (inner, rows, loop.snapshot.state, loop.snapshot.events) == (
        ["finished_cancelled"],
        ("checking_cancel/1", "checking_budget/7"),
        "awaiting_model",
        (NO,),
    )


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
@pytest.mark.parametrize("state", ["awaiting_model", "dispatching"])
def test_F04_an_event_sent_by_an_observer(state: str, driver: Driver) -> None:
    """Only the host tells the machine what happens: an observer that sends is refused, and the run goes on."""
    stage = Stage(driver)
    loop = Loop("go", tools=stage.tools(), at=0.0)
    log: list[str] = []

    def observe(notice: Any) -> None:
        if loop.snapshot.state == state and not log:
            try:
                loop.send(CancelRequested("enough", at=stage.now))
            except RuntimeError as refused:
                log.append(str(refused))

    batch = calls(call("c1"), call("c2", n=2))
    result = driver.drive(stage.model(batch, DONE), None, loop=loop, observe=observe, clock=stage.clock)
    events = [type(event).__name__ for event in result.snapshot.events]
    refusal = "a host is driving this loop and tells it what happens; to stop it, use cancel="
    assert (log, result.status, events.count("CancelRequested")) == ([refusal], "answered", 0)


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
def test_F04_an_event_sent_by_a_tool(driver: Driver) -> None:
    """A tool that sends to its own run is refused, which is its failure; the run goes on."""
    stage = Stage(driver)
    loops: list[Loop] = []

    @tool
    def stop() -> str:
        """Cancel the run."""
        return str(loops[0].send(CancelRequested("enough", at=0.0)))

    loop = Loop("go", tools=driver.tools([stop]), at=0.0)
    loops.append(loop)
    result = driver.drive(stage.model(call("c1", "stop"), DONE), None, loop=loop, clock=stage.clock)
    refused = "RuntimeError: a host is driving this loop and tells it what happens; to stop it, use cancel="
    history = [GO, call("c1", "stop"), brought("c1", refused, "failed"), DONE]
    assert stage.told(result) == Told("answered", spent(2, 1), history)


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
def test_F04_a_run_inside_a_tool(driver: Driver) -> None:
    """Another run of the same definition inside a tool is a run of its own."""

    def scene(stage: Stage) -> Told:
        @tool
        def delegate() -> str:
            """Ask another model."""
            return run(lambda messages: DONE, "go").text

        return stage.play(call("c1", "delegate"), DONE, tools=stage.driver.tools([delegate]))

    history = [GO, call("c1", "delegate"), brought("c1", "done"), DONE]
    assert scene(Stage(driver)) == Told("answered", spent(2, 1), history)


# --- F05 --------------------------------------------------------------------------------------------------

MANY = 10_000


def alive() -> int:
    """How many loops, snapshots, results and machines there are."""
    kinds = {"Loop", "Snapshot", "Result", "Encoding", "Turn", "Exchange", "Engine", "RowMachine"}
    return sum(
        type(one).__name__ in kinds and type(one).__module__.startswith("loopmachine.") for one in gc.get_objects()
    )


def test_F05_runs_are_freed() -> None:
    """Of 10,000 runs, finished, cancelled or left half way, nothing is left, and what the modules keep is the same."""
    stage = Stage(THREADS)
    tools = stage.tools()
    assert live(TOOL_LOOP)  # the machine of the table itself stays, and is made now if no test before this one ran it
    gc.collect()
    before = alive()
    last: list[weakref.ref[Any]] = []
    for number in range(MANY):
        loop = Loop("go", tools=tools if number % 100 == 0 else (), at=0.0)
        loop.send(polled(number % 3 == 0))
        if number % 3 == 1:
            loop.send(replied(answer()))
            loop.send(NO)
        last = [weakref.ref(loop), weakref.ref(loop.snapshot)]
    del loop
    gc.collect()
    assert (alive() - before, [one() for one in last]) == (0, [None, None])


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
def test_F05_runs_of_a_host_are_freed(driver: Driver) -> None:
    """Of a run that a host drove to its end nothing is left once its result is dropped, nor of what was given to it."""

    class Asker:
        """The caller's own context."""

    def played() -> list[weakref.ref[Any]]:
        stage, asker = Stage(driver), Asker()
        batch = calls(call("c1"), call("c2", "boom"))
        result = stage.run(batch, DONE, context=asker, cancel=stage.token, observe=lambda notice: None)
        return [weakref.ref(one) for one in (result.loop, result.snapshot, asker, stage)]

    left = played()
    gc.collect()
    assert [one() for one in left] == [None] * 4


def test_F05_definitions_of_ones_own_are_freed() -> None:
    """A table made for one run, and the machine that was built of it, die with the run."""

    def played() -> list[weakref.ref[Any]]:
        definition = with_guard("checking_cancel", 2)
        loop = Loop("go", definition=definition, at=0.0)
        with pytest.raises(Broken):
            loop.send(NO)
        return [weakref.ref(definition), weakref.ref(engine(definition)), weakref.ref(live(definition))]

    left = played()
    gc.collect()
    assert [one() for one in left] == [None, None, None]


def test_F05_definitions_that_were_verified_are_freed() -> None:
    """What the promises found out of a table, once for all its moves, is not kept longer than the table."""

    def verified() -> weakref.ref[Any]:
        first = TOOL_LOOP.row("checking_cancel/1")
        definition = TOOL_LOOP.with_row("checking_cancel", attrs.evolve(first, first_because="told twice"), at=1)
        assert verify(definition, advances=500).advances
        return weakref.ref(definition)

    left = verified()
    gc.collect()
    assert left() is None


# --- F07 --------------------------------------------------------------------------------------------------


def test_F07_one_runs_event_does_not_cancel_another_task() -> None:
    """Two tasks drive two runs of one definition; one is cancelled while the other is inside a tool, and goes on."""
    stages = [Stage(ASYNC_TASKS), Stage(ASYNC_TASKS)]

    async def main() -> tuple[bool, Told, bool, Told]:
        inside, go_on = asyncio.Event(), asyncio.Event()

        @tool
        async def wait() -> str:
            """Wait for the other task."""
            inside.set()
            await go_on.wait()
            return "waited"

        script = [call("c1", "wait"), DONE]
        loops = [Loop("go", tools=[wait], at=0.0) for _ in stages]
        tasks = [
            asyncio.ensure_future(run_async(stage.model(*script), loop=loop, clock=stage.clock))
            for stage, loop in zip(stages, loops, strict=True)
        ]
        await inside.wait()
        await asyncio.sleep(0.01)
        gone = await cancelled(tasks[1])
        go_on.set()
        result = await tasks[0]
        return tasks[0].cancelled(), stages[0].told(result), gone, stages[1].told(loops[1].result())

    history = [GO, call("c1", "wait")]
    harmed, first, gone, second = asyncio.run(main())
    assert (harmed, first, gone, [one["outcome"] for one in second.history[2:]]) == (
        False,
        Told("answered", spent(2, 1), [*history, brought("c1", "waited"), DONE]),
        True,
        ["interrupted"],
    )


async def by_run(model: Any, loop: Loop) -> None:
    """Drive the loop with ``run``."""
    run(model, loop=loop)


async def by_run_async(model: Any, loop: Loop) -> None:
    """Drive the loop with ``run_async``."""
    await run_async(model, loop=loop)


@pytest.mark.parametrize("second", [by_run, by_run_async])
def test_F07_the_same_run_from_two_tasks(second: Callable[[Any, Loop], Any]) -> None:
    """The second host is refused with a clear error, and the first one's run is not touched."""
    stage = Stage(ASYNC_TASKS)

    async def main() -> Told:
        inside, go_on = asyncio.Event(), asyncio.Event()

        async def model(messages: Any, tools: Any) -> Any:
            inside.set()
            await go_on.wait()
            return DONE

        loop = Loop("go", at=0.0)
        task = asyncio.ensure_future(run_async(model, loop=loop, clock=stage.clock))
        await inside.wait()
        before = loop.snapshot
        with pytest.raises(RuntimeError, match="one loop, one host at a time"):
            await second(lambda messages: DONE, loop)
        assert loop.snapshot is before
        go_on.set()
        return stage.told(await task)

    assert asyncio.run(main()) == Told("answered", spent(1), [GO, DONE])


def test_F07_a_refused_host_takes_nothing_of_the_loop() -> None:
    """The loop's own context and cancel token are as they were after another host was refused."""
    stage = Stage(ASYNC_TASKS)

    async def main() -> tuple[Any, Any]:
        inside, go_on = asyncio.Event(), asyncio.Event()

        async def model(messages: Any, tools: Any) -> Any:
            inside.set()
            await go_on.wait()
            return DONE

        loop = Loop("go", context="mine", at=0.0)
        task = asyncio.ensure_future(run_async(model, loop=loop, cancel=stage.token, clock=stage.clock))
        await inside.wait()
        with pytest.raises(RuntimeError):
            run(lambda messages: DONE, loop=loop, context="theirs")
        kept = loop.context, loop.cancel
        go_on.set()
        await task
        return kept

    assert asyncio.run(main()) == ("mine", stage.token)


def test_F07_two_loops_share_a_definition_and_nothing_else() -> None:
    """Events sent in turns to two runs leave each where it would be alone."""
    loops = [Loop("go", budget=Budget(max_steps=2), at=0.0), Loop("go", at=0.0)]
    loops[0].send(NO)
    loops[1].send(YES)
    loops[0].send(ModelReplied(answer(), at=0.0))
    assert [(loop.snapshot.state, len(loop.snapshot.events)) for loop in loops] == [
        ("rechecking_cancel", 2),
        ("finished_cancelled", 1),
    ]
    assert [loop.requests for loop in loops] == [(PollCancel(),), ()]
    assert AskModel(1) not in loops[1].requests
