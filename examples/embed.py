"""A workflow that owns its own IO: it drives the loop by hand, stops for approval, and goes on in another process.

The first process writes the whole run to a file as soon as somebody must approve a refund, and ends. The second one
reads the file, asks, and goes on where the first one stood.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from loopmachine import Budget, Call, Decision, Loop, tool
from loopmachine.events import ApprovalGiven, CallReturned, CancelPolled, Resumed
from loopmachine.requests import AskApproval, AskModel, PollCancel, StartCalls


@tool(effect="read")
def find_order(customer: str) -> dict[str, Any]:
    """Find the last order of a customer."""
    return {"order": "A-17", "customer": customer, "paid": 40.0}


@tool(needs_approval=True)
def refund(order: str, amount: float) -> str:
    """Pay money back."""
    return f"paid back {amount} for {order}"


TOOLS = [find_order, refund]


def model(messages: Any, tools: Any) -> dict[str, Any]:
    """A script that looks only at what was said, as a real model does; it doesn't know which process it is in."""
    results = sum(message["kind"] == "tool_result" for message in messages)
    usage = {"input_tokens": 100 * len(messages), "output_tokens": 20, "cost_usd": 0.0004}
    reply = [
        {"kind": "call", "id": "1", "name": "find_order", "arguments": {"customer": "Ada"}},
        {"kind": "call", "id": "2", "name": "refund", "arguments": {"order": "A-17", "amount": 40}},
        {"kind": "final", "text": "The 40 for A-17 are on their way to Ada."},
    ][results]
    return {**reply, "usage": usage}


def drive(loop: Loop) -> tuple[Call, ...]:
    """Do what the machine asks for until it is finished, or give the calls that somebody must approve."""
    while not loop.finished:
        match loop.requests[0]:
            case PollCancel():
                loop.send(CancelPolled(False, at=time.time()))
            case AskModel() as ask:
                say(f"asks the model, step {ask.step}")
                loop.replied(model(ask.messages, ask.tools), at=time.time())
            case StartCalls(calls):
                say(f"runs {calls[0].name}")
                loop.send(CallReturned(loop.perform(calls[0]), at=time.time()))
            case AskApproval(calls):
                return calls
    return ()


def begin(path: Path) -> None:
    """The first process."""
    loop = Loop("Ada wants her money back.", tools=TOOLS, budget=Budget(max_steps=6), at=time.time())
    waiting = drive(loop)
    path.write_text(loop.to_json(), "utf-8")
    say(f"waits for approval of {waiting[0].name}({waiting[0].arguments}), and ends")


def go_on(path: Path) -> None:
    """The second process."""
    loop = Loop.from_json(path.read_text("utf-8"), tools=TOOLS)
    loop.send(Resumed(at=time.time()))
    for call in drive(loop):  # here a person would look at each
        say(f"approves {call.name}({call.arguments})")
        loop.send(ApprovalGiven([Decision(call.step, call.place, True)], at=time.time()))
    drive(loop)
    print(loop.result())


def say(text: str) -> None:
    print(f"[{'second' if len(sys.argv) > 1 else 'first'} process] {text}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        go_on(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            saved = Path(folder) / "run.json"
            begin(saved)
            subprocess.run([sys.executable, __file__, os.fspath(saved)], check=True)
