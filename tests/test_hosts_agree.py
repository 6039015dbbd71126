"""One script, played by every host and by hand, brings the same run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from loopmachine import Budget, Decision, Denied, Loop, ModelError, Policy, Result, Tool, tool
from loopmachine.events import ApprovalGiven, CallReturned, CancelPolled, Event, Resumed
from loopmachine.records import Call
from loopmachine.requests import AskApproval, AskModel, InterruptCalls, PollCancel, StartCalls
from tests.drivers import DRIVERS, Driver, unpaired
from tests.strategies import BUDGETS, POLICIES, TICKS, USAGES, rarely

# --- the script -------------------------------------------------------------------------------------------

NAMES = ("look", "look", "boom", "deny", "pay", "mail", "lock", "fly")
MOST_CALLS = 3
VERDICTS = st.sampled_from([True, True, False, "not today", None])


@attrs.frozen
class Line:
    """What the model does when it is asked: after ``tick`` seconds it replies, or raises."""

    reply: dict[str, Any] | Exception
    tick: float = 0.0


@attrs.frozen
class Script:
    """Everything that decides a run, but for who drives it."""

    budget: Budget
    policy: Policy
    lines: list[Line]
    verdicts: dict[str, Any]  #: what the approver says to each kind of call
    cancel_at: int | None  #: the poll at which somebody cancels, once

    @property
    def steady(self) -> bool:
        """No call waits for another's place beside a running one, so that the polls do not depend on who is faster."""
        return self.policy.batch != "parallel" or self.policy.max_parallel in (1, MOST_CALLS)


def calls_of(wanted: list[tuple[str, Any, int]]) -> dict[str, Any]:
    return {
        "kind": "calls",
        "calls": [{"id": f"c{one}", "name": name, "arguments": {"n": n}} for name, n, one in wanted],
    }


CALLS = st.lists(
    st.tuples(st.sampled_from(NAMES), rarely("none", 1), st.integers(0, 99)), min_size=1, max_size=MOST_CALLS
).map(calls_of)
SAID = st.sampled_from(
    [
        {"kind": "final", "text": "done"},
        {"kind": "final", "text": " "},
        {"kind": "final", "text": "cut", "stop": "length"},
        {"kind": "call", "id": "x", "name": "look", "arguments": {}, "stop": "refusal"},
        {"kind": "nonsense"},
    ]
)
RAISED = st.sampled_from([ModelError("busy", "later", retryable=True), ModelError("down"), ValueError("what?")])
REPLIES = st.one_of(CALLS, CALLS, CALLS, SAID, RAISED)


@st.composite
def lines(draw: st.DrawFn) -> Line:
    reply = draw(REPLIES)
    usage = draw(USAGES)
    return Line({**reply, "usage": usage} if isinstance(reply, dict) else reply, draw(TICKS))


SCRIPTS = st.builds(
    Script,
    budget=BUDGETS,
    policy=POLICIES,
    lines=st.lists(lines(), min_size=1, max_size=6),
    verdicts=st.fixed_dictionaries({"pay": VERDICTS, "peek": VERDICTS}),
    cancel_at=st.none() | st.none() | st.integers(1, 10),
)

# --- who plays it -------------------------------------------------------------------------------------------


class Cast:
    """A model, tools, an approver, a canceller and a clock that follow a script. Only the model takes time."""

    def __init__(self, script: Script) -> None:
        self.script, self.now, self.asked, self.polls = script, 0.0, 0, 0
        self.effects: list[str] = []

    def clock(self) -> float:
        return self.now

    def model(self, messages: Any, tools: Any) -> Any:
        self.asked += 1
        line = self.script.lines[min(self.asked, len(self.script.lines)) - 1]
        self.now += line.tick
        if isinstance(line.reply, Exception):
            raise line.reply
        return line.reply

    def cancel(self) -> bool:
        self.polls += 1
        if self.script.steady:
            return self.polls == self.script.cancel_at
        return self.asked == self.script.cancel_at

    def approve(self, call: Call) -> Any:
        return self.script.verdicts[call.name]

    def tools(self) -> list[Tool]:
        def did(name: str, n: int) -> str:
            self.effects.append(f"{name} {n}")
            return f"{name} {n}"

        @tool(effect="read")
        def look(n: int) -> str:
            """Look."""
            return did("look", n)

        @tool
        def boom(n: int) -> str:
            """Raise."""
            raise RuntimeError(did("boom", n))

        @tool
        def deny(n: int) -> str:
            """Deny."""
            raise Denied("not_yours", did("deny", n))

        @tool(needs_approval=True)
        def pay(n: int) -> str:
            """Pay."""
            return did("pay", n)

        @tool(max_calls=1)
        def mail(n: int) -> str:
            """Mail."""
            return did("mail", n)

        @tool(sequential=True)
        def lock(n: int) -> str:
            """Lock."""
            return did("lock", n)

        return [look, boom, deny, pay, mail, lock]


def hosted(driver: Driver, script: Script) -> tuple[Result, Cast]:
    """A host plays the script; where that suspends the run, another goes on, with an approver who agrees."""
    cast = Cast(script)
    options = {"cancel": cast.cancel, "clock": cast.clock}
    result = driver.drive(
        cast.model,
        "go",
        tools=driver.tools(cast.tools()),
        budget=script.budget,
        policy=script.policy,
        approve=cast.approve,
        **options,
    )
    if not result.finished:
        result = driver.drive(cast.model, None, loop=result.loop, approve=lambda call: True, **options)
    return result, cast


def by_hand(script: Script) -> tuple[Result, Cast]:
    """The script played with a Loop, one call at a time."""
    cast = Cast(script)
    loop = Loop("go", tools=cast.tools(), budget=script.budget, policy=script.policy, at=cast.clock())
    approve = cast.approve
    while not loop.finished:
        requests = sorted(loop.requests, key=lambda one: not isinstance(one, PollCancel))
        if not told(loop, cast, requests[0], approve):
            approve = lambda call: True  # noqa: E731
            loop.send(Resumed(at=cast.clock()))
    return loop.result(), cast


def told(loop: Loop, cast: Cast, request: Any, approve: Callable[[Call], Any]) -> bool:
    """Do what is asked for; False where nobody decides."""
    if isinstance(request, PollCancel):
        loop.send(CancelPolled(cast.cancel(), at=cast.clock()))
    elif isinstance(request, AskModel):
        try:
            reply = cast.model(request.messages, request.tools)
        except Exception as error:
            loop.failed(error, at=cast.clock())
        else:
            loop.replied(reply, at=cast.clock())
    elif isinstance(request, StartCalls | InterruptCalls):
        loop.send(CallReturned(loop.perform(request.calls[0]), at=cast.clock()))
    else:
        verdicts = [(call, approve(call)) for call in request.calls]
        words = [
            Decision(call.step, call.place, said is True, said if isinstance(said, str) else "")
            for call, said in verdicts
            if said is not None
        ]
        if not words:
            return False
        loop.send(ApprovalGiven(tuple(words), at=cast.clock()))
    return True


# --- what must be the same ----------------------------------------------------------------------------------


def outcome(result: Result, cast: Cast) -> dict[str, Any]:
    """What a run brought. Who is faster decides how often is polled while calls wait for a place, and nothing else."""
    steady = cast.script.steady
    return {
        "status": result.status,
        "spend": result.spend,
        "history": list(result.history),
        "rows": [row for row in result.rows if steady or not row.startswith(("dispatching", "collecting"))],
        "effects": sorted(cast.effects),
        "asked": cast.asked,
        "polls": cast.polls if steady else None,
    }


def awaited(told: dict[str, Any], hand: dict[str, Any]) -> dict[str, Any]:
    """The same, had its tools been awaited: a task is interrupted by a cancel, what runs on a thread is not."""
    if hand["status"] != "cancelled":
        return told
    pairs = list(zip(told["history"], hand["history"], strict=False))
    cut = [
        one.get("outcome") == "interrupted" and other["outcome"] in ("ok", "failed", "denied") for one, other in pairs
    ]
    history = [other if interrupted else one for (one, other), interrupted in zip(pairs, cut, strict=True)]
    return {**told, "history": history, "effects": hand["effects"] if any(cut) else told["effects"]}


@settings(max_examples=150, derandomize=True, deadline=None, database=None)
@given(SCRIPTS)
def test_a_script_brings_the_same_run_whoever_plays_it(script: Script) -> None:
    """Threads, asyncio with sync parts, asyncio with tasks, and a Loop driven by hand bring the same."""
    hand = outcome(*by_hand(script))
    for driver in DRIVERS:
        told = outcome(*hosted(driver, script))
        assert (awaited(told, hand) if driver.tasks else told) == hand, driver.name
