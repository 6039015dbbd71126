"""A stage on which a run is played: scripted model, tools that log what they did, and three ways to drive it.

``everywhere(scene)`` plays a scene on threads, on asyncio, and on asyncio with a model and tools that are tasks;
all must bring the same. Of every run played it is checked what holds of every run.
"""

from __future__ import annotations

import asyncio
import copy
import functools
from collections.abc import Callable, Iterable
from typing import Any

import attrs

from loopmachine import CancelToken, Denied, Loop, Result, Spend, Tool, run, run_async, tool

# --- what is said -----------------------------------------------------------------------------------------

GO = {"kind": "user", "text": "go"}
DONE = {"kind": "final", "text": "done"}


def call(one: str, name: str = "look", **arguments: Any) -> dict[str, Any]:
    """A reply that asks for one call, and the message that the history holds of it."""
    return {"kind": "call", "id": one, "name": name, "arguments": arguments}


def calls(*asked: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A reply that asks for several calls."""
    return {"kind": "calls", "calls": list(asked), **more}


def brought(one: str, content: Any = "1", outcome: str = "ok") -> dict[str, Any]:
    """The message of a result."""
    return {"kind": "tool_result", "id": one, "content": content, "outcome": outcome}


def spent(steps: int, calls: int = 0, **more: Any) -> Spend:
    """What was used, but for seconds; each step brought a turn that did not say its usage."""
    return Spend(**{"steps": steps, "calls": calls, "unpriced": steps, "unmetered": steps, **more})


class Words:
    """Equal to a text that holds all of these words."""

    __hash__ = None  # type: ignore[assignment]  # equal to many texts, so it has none

    def __init__(self, *words: str) -> None:
        self.words = words

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and all(word in other for word in self.words)


# --- what a run brought -----------------------------------------------------------------------------------


@attrs.frozen
class Told:
    """How a run ended, what it spent (but for seconds), its whole history, and what its tools did."""

    status: str
    spend: Spend
    history: list[dict[str, Any]]
    effects: list[Any] = attrs.field(factory=list)


def unpaired(history: Iterable[dict[str, Any]]) -> list[str]:
    """What in these messages is no call followed by its one result, in order."""
    faults, waiting, answering = [], list[str](), False
    for place, message in enumerate(history):
        kind = message["kind"]
        if kind == "tool_result":
            answering = True
            if waiting[:1] != [message["id"]]:
                faults.append(f"{place}: a result for {message['id']} where {waiting} are asked")
            waiting = waiting[1:]
        else:
            if waiting and (answering or kind != "call"):
                faults.append(f"{place}: {kind} before the results of {waiting}")
            answering = False
            if kind == "call":
                waiting.append(message["id"])
    return faults + [f"no result for {one}" for one in waiting]


def always(result: Result, tools: Iterable[Any] = (), asked: int = 0) -> list[Any]:
    """What of the things that hold of every run does not hold of this one, at whatever rest it stands."""
    snapshot, loop = result.snapshot, result.loop
    again = Loop.from_json(loop.to_json(), tools=tools, definition=result.definition)
    return [
        *unpaired(result.history),
        *([] if again.snapshot == snapshot else ["its snapshot is another after a round trip through JSON"]),
        *([] if again.to_json() == loop.to_json() else ["its JSON is another after a round trip"]),
        *([] if asked <= snapshot.budget.max_steps else [f"the model was asked {asked} times"]),
        *([] if asked <= snapshot.steps else [f"the model was asked {asked} times in {snapshot.steps} steps"]),
    ]


# --- who drives -------------------------------------------------------------------------------------------


def as_task(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same as a coroutine function that lets others run first."""

    @functools.wraps(function)
    async def task(*args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0)
        said = function(*args, **kwargs)
        return await said if asyncio.iscoroutine(said) else said

    return task


@attrs.frozen
class Driver:
    """A host, and whether the model and the tools are tasks on it."""

    name: str
    asynchronous: bool = False
    tasks: bool = False

    def tools(self, tools: Iterable[Tool]) -> list[Tool]:
        """The tools as this driver has them."""
        return [attrs.evolve(one, handler=as_task(one.handler)) if self.tasks else one for one in tools]

    def drive(self, model: Callable[..., Any], prompt: str | None, **options: Any) -> Result:
        """Run a loop to where the host stops."""
        if not self.asynchronous:
            return run(model, prompt, **options)
        return asyncio.run(run_async(as_task(model) if self.tasks else model, prompt, **options))


THREADS = Driver("run")
ASYNC_THREADS = Driver("run_async, model and tools on threads", asynchronous=True)
ASYNC_TASKS = Driver("run_async, model and tools as tasks", asynchronous=True, tasks=True)
DRIVERS = (THREADS, ASYNC_THREADS, ASYNC_TASKS)


class Stage:
    """One run on one driver, with a log, a cancel token and a clock that only its model and tools move."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.effects: list[Any] = []
        self.asked: list[list[dict[str, Any]]] = []  #: the messages the model was given, step by step
        self.offered: list[list[str]] = []  #: the names of the tools it was given
        self.token = CancelToken()
        self.rows: list[tuple[str, ...]] = []  #: the rows that each run took
        self.now = 0.0
        self.result: Result  #: the latest

    def clock(self) -> float:
        """The time."""
        return self.now

    def tools(self) -> list[Tool]:
        """One tool that works, and three that do not: it raises, it denies, it waits for approval."""

        @tool(effect="read")
        def look(n: int = 1) -> int:
            """Look at a number."""
            self.effects.append(f"look {n}")
            return n

        @tool
        def boom() -> None:
            """Raise."""
            self.effects.append("boom")
            raise RuntimeError("no route")

        @tool
        def deny() -> None:
            """Deny."""
            self.effects.append("deny")
            raise Denied("not_yours", "that is somebody else's")

        @tool(needs_approval=True)
        def pay(amount: int) -> str:
            """Pay."""
            self.effects.append(f"pay {amount}")
            return f"paid {amount}"

        return self.driver.tools([look, boom, deny, pay])

    def model(self, *script: Any) -> Callable[[Any, Any], Any]:
        """A model that gives these replies in order: one that can be called is called, an exception raised."""
        replies = iter(script)

        def model(messages: Any, tools: Any) -> Any:
            self.asked.append(copy.deepcopy(list(messages)))
            declared = [one for tool in tools for one in tool.get("functionDeclarations", [tool])]
            self.offered.append([one["name"] if "name" in one else one["function"]["name"] for one in declared])
            reply = next(replies, AssertionError("the script has no more replies"))
            if callable(reply):
                reply = reply(messages, tools)
            if isinstance(reply, Exception):
                raise reply
            return reply

        return model

    def run(self, *script: Any, prompt: str | None = "go", **options: Any) -> Result:
        """Drive a run with this script, and check what always holds."""
        tools = options.pop("tools", None) or self.tools()
        given = {} if "loop" in options else {"tools": tools}
        before = len(self.asked)
        result = self.driver.drive(self.model(*script), prompt, **given, **options)
        self.rows.append(result.rows)
        self.result = result
        assert always(result, tools, len(self.asked) - before) == []
        return result

    def play(self, *script: Any, at_once: bool = False, **options: Any) -> Told:
        """What a run with this script brings; the effects sorted where calls run ``at_once``."""
        return self.told(self.run(*script, **options), at_once=at_once)

    def told(self, result: Result, *, at_once: bool = False) -> Told:
        """What a run brought so far."""
        effects = sorted(self.effects) if at_once else list(self.effects)
        spend = attrs.evolve(result.spend, seconds=0.0)
        return Told(result.status, spend, list(result.history), effects)


def everywhere(scene: Callable[[Stage], Any], drivers: Iterable[Driver] = DRIVERS, *, same_rows: bool = True) -> Any:
    """What a scene brings, the same on every driver; the rows too, unless the hosts hear of a cancel at other times."""
    stages = [Stage(driver) for driver in drivers]
    told = [scene(stage) for stage in stages]
    for one, stage in zip(told, stages, strict=True):
        assert one == told[0], f"{stage.driver.name}: {one}\n{stages[0].driver.name}: {told[0]}"
        if same_rows:
            assert stage.rows == stages[0].rows, f"{stage.driver.name}: {stage.rows}\nnot {stages[0].rows}"
    return told[0]
