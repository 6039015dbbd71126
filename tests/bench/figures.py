"""`make bench`: every figure is a ratio of two things measured in turn in this process."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from typing import Any, TypedDict

import msgspec
from transitions import Machine

from loopmachine import OPENAI_CHAT, Budget, Snapshot, run, tool
from loopmachine.events import CallReturned, CancelPolled, Event, ModelReplied
from loopmachine.machine import Carrier, advance, build, live
from loopmachine.records import Call, CallResult, Turn
from loopmachine.table import TOOL_LOOP
from loopmachine.tools import Context
from tests.bench import peers

ADD = tool(peers.add)
NOBODY = Context()


def ours(turns: int) -> None:
    """As many turns with one call of a typed tool, the whole of ``run``."""
    asked = 0

    def model(messages: Any, tools: Any) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        if asked > turns:
            return {"kind": "final", "text": "done"}
        return {"kind": "call", "id": f"c{asked}", "name": "add", "arguments": {"a": asked, "b": 1}}

    assert run(model, "go", tools=[ADD], budget=Budget(max_steps=turns + 1)).answered


def in_runs_of(few: int) -> Callable[[int], None]:
    """As many turns in short runs, so that both take as long: a quick moment of the machine makes neither look good."""

    def short(turns: int) -> None:
        for _ in range(turns // few):
            ours(few)

    return short


def best(function: Callable[[int], object], turns: int, rounds: int) -> float:
    """Microseconds a turn, the best of several rounds."""
    function(turns)
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        function(turns)
        times.append(time.perf_counter() - began)
    return min(times) / turns * 1e6


def happy_path() -> list[tuple[Any, Event]]:
    """The rests of one turn with one call, each with the event that it takes."""
    call = Call("c1", "add", step=1, known=True, checked="{}")
    events = [
        CancelPolled(False, at=1.0),
        ModelReplied(Turn(calls=(call,)), at=1.0),
        CancelPolled(False, at=1.0),
        CallReturned(CallResult.of(call, "ok", "1"), at=1.0),
    ]
    snapshot: Any = Snapshot(state=TOOL_LOOP.initial)
    rests = []
    for event in events:
        rests.append((snapshot, event))
        snapshot = advance(TOOL_LOOP, snapshot, event).snapshot
    return rests


def fired(machine: Any) -> Callable[[int], None]:
    """Fires the events of the happy path on a machine, auto states included."""
    rests = happy_path()

    def fire(turns: int) -> None:
        for _ in range(turns):
            for snapshot, event in rests:
                carrier = Carrier(snapshot, event)
                machine.events[type(event).__name__].trigger(carrier, carrier)
                while TOOL_LOOP.states[carrier.state].auto:
                    machine.events["auto"].trigger(carrier, carrier)

    return fire


def memory(turns: int) -> float:
    """Bytes a turn that a run keeps while it runs, at its peak."""
    gc.collect()
    tracemalloc.start()
    ours(turns)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / turns


def streamed(pieces: int) -> None:
    """A call whose arguments come in so many pieces, put together."""
    stream = OPENAI_CHAT.stream()
    call = {"index": 0, "id": "c1", "function": {"name": "add", "arguments": "12345678"}}
    for _ in range(pieces):
        stream.feed({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
    stream.close(clean=True)
    assert len(stream.turn().calls[0].arguments_text) == 8 * pieces


def find(ticket_id: int, title: str, price: float, urgent: bool) -> None:
    """Has four typed fields."""


FIND, TYPES = tool(find), {"ticket_id": int, "title": str, "price": float, "urgent": bool}
FIELDS: Any = TypedDict("FIELDS", TYPES)  # type: ignore[misc]  # the same four, as keyword arguments
STRUCT: Any = msgspec.defstruct("STRUCT", list(TYPES.items()))
RIGHT = {"ticket_id": 12345, "title": "the printer is on fire", "price": 118.4, "urgent": True}
RIGHT_TEXT, WRONG_TEXT = json.dumps(RIGHT), json.dumps(RIGHT | {"ticket_id": "five", "urgent": "maybe"})


def checked(calls: int) -> None:
    """Arguments that fit, from their text to what the function is called with."""
    for _ in range(calls):
        text, _ = FIND.arguments.check(RIGHT_TEXT)
        FIND.signature.bind(text or "", NOBODY)


def converted(calls: int) -> None:
    """The same arguments, parsed before, by msgspec alone: as what the function is called with."""
    for _ in range(calls):
        msgspec.convert(RIGHT, FIELDS)


def converted_to_struct(calls: int) -> None:
    """The same to the type that msgspec is fastest with."""
    for _ in range(calls):
        msgspec.convert(RIGHT, STRUCT)


def refused(calls: int) -> None:
    """Arguments of which two don't fit, to the sentence that says so."""
    for _ in range(calls):
        FIND.arguments.check(WRONG_TEXT)


def imported(times: int) -> float:
    """Milliseconds of ``import loopmachine`` in a new process, compiled before as an installed package is; the best."""
    code = "import time; t = time.perf_counter(); import loopmachine; print((time.perf_counter() - t) * 1e3)"
    with tempfile.TemporaryDirectory() as compiled:
        settings = {"PYTHONPYCACHEPREFIX": compiled, "PYTHONDONTWRITEBYTECODE": ""}
        taken = [
            float(subprocess.check_output([sys.executable, "-c", code], env=os.environ | settings))
            for _ in range(times + 1)
        ]
    return min(taken[1:])


def main(few: int = 100, many: int = 10_000, rounds: int = 60, imports: int = 9) -> None:
    """Print the figures, each with what is asked of it."""
    stock, fast = best(fired(build(TOOL_LOOP, Machine)), few, rounds), best(fired(live(TOOL_LOOP)), few, rounds)
    mine, hand, peer = best(ours, few, rounds), best(peers.hand, few, rounds), best(peers.budgetloop_run, few, rounds)
    some = max(1, rounds // 10)
    flat = best(ours, many, some) / best(in_runs_of(few), many, some)
    kept = memory(many) / memory(few)
    longer = 10 * best(streamed, 100 * many, 1) / best(streamed, 10 * many, 1)
    checking, alone = best(checked, 10 * few, rounds), best(converted, 10 * few, rounds)
    struct, refusing = best(converted_to_struct, 10 * few, rounds), best(refused, few, rounds)
    print(f"happy path, stock transitions classes to ours    {stock / fast:6.2f}   (at least 5)")
    print(f"one turn, the whole of run, to a loop by hand    {mine / hand:6.2f}   (at most 10; {mine:.1f} us)")
    print(f"one turn, the whole of run, to budgetloop        {mine / peer:6.2f}   (at most 0.5)")
    print(f"time a turn at {many:,} to that at {few}           {flat:6.2f}   (at most 1.25)")
    print(f"memory a turn at {many:,} to that at {few}         {kept:6.2f}   (at most 1.25)")
    print(f"time of {100 * many:,} argument fragments to {10 * many:,} {longer:5.2f}   (at most 12)")
    told = f"{checking:.1f} us; to a struct {checking / struct:.1f}"
    print(f"valid arguments, checked, to msgspec.convert     {checking / alone:6.2f}   (at most 3; {told})")
    print(f"invalid arguments, two of four, us               {refusing:6.0f}   (at most 150)")
    print(f"import loopmachine, ms                           {imported(imports):6.0f}   (at most 120)")
