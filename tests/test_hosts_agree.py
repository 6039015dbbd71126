"""One script brings the same run by hand and on every host, whatever its players do to what they are handed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import attrs
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loopmachine import Budget, CancelToken, Decision, Denied, Loop, ModelError, Policy, Result, Tool, Usage, tool
from loopmachine.events import ApprovalGiven, CallReturned, CancelPolled, Resumed
from loopmachine.records import Call
from loopmachine.requests import AskModel, InterruptCalls, PollCancel, StartCalls
from loopmachine.review.moves import moves
from loopmachine.review.promises import broken
from loopmachine.table import TOOL_LOOP
from tests.drivers import DRIVERS, Driver
from tests.hostile import spoil, spoil_messages
from tests.strategies import BUDGETS, POLICIES, TICKS, USAGES, rarely

# --- the script -------------------------------------------------------------------------------------------

TOOLS: dict[str, dict[str, Any]] = {
    "look": {"effect": "read"},
    "boom": {},
    "deny": {},
    "pay": {"needs_approval": True},
    "mail": {"max_calls": 1},
    "lock": {"sequential": True},
}
RAISED_BY = {"boom": RuntimeError("no route"), "deny": Denied("not_yours", "that is somebody else's")}
MOST_CALLS = 3


@attrs.frozen
class Line:
    """What the model does when it is asked: after ``tick`` seconds it raises, replies, or asks for calls."""

    says: Any
    usage: Usage | None
    tick: float

    def reply(self, step: int) -> dict[str, Any]:
        """What it replies at this step."""
        if isinstance(self.says, Exception):
            raise self.says
        if isinstance(self.says, dict):
            return {**self.says, "usage": self.usage}
        calls: list[dict[str, Any]] = []
        for place, (name, n, again) in enumerate(self.says):
            number = calls[-1]["id"] if again and calls else f"c{step - again}_{place}"
            calls.append({"id": number, "name": name, "arguments": {"n": copy.copy(n)}})
        return {"kind": "calls", "calls": calls, "usage": self.usage}


@attrs.frozen
class Script:
    """Everything that decides a run, but for who drives it."""

    budget: Budget
    policy: Policy
    lines: list[Line]
    verdict: bool | str | None  #: what the approver says first
    cancel_at: int | None  #: the poll that says once that the run is cancelled, or the step in which the model does so
    by_model: bool  #: the model cancels, with a token that stays cancelled

    @property
    def steady(self) -> bool:
        """No call waits for another's place beside a running one, so that the polls do not depend on who is faster."""
        return self.policy.batch != "parallel" or self.policy.max_parallel in (1, MOST_CALLS)


END = Line({"kind": "final", "text": "done"}, Usage(input_tokens=0, output_tokens=0, cost_usd=0.0), 0.0)

#: A call: its tool, its argument (blank is wrong), and whether it bears the id of the call before.
CALLS = st.lists(
    st.tuples(st.sampled_from([*TOOLS, "pay", "fly"]), rarely("", [1]), rarely(True, False, 12)),
    min_size=1,
    max_size=MOST_CALLS,
)
SAID = st.sampled_from(
    [
        {"kind": "final", "text": "done"},
        {"kind": "final", "text": " "},
        {"kind": "final", "text": "cut", "stop": "length"},
        {"kind": "final", "text": "no", "stop": "refusal"},
        {"kind": "nonsense"},
    ]
)
RAISED = st.sampled_from([ModelError("busy", "later", retryable=True), ModelError("down"), ValueError("what?")])
LINES = st.builds(
    Line,
    says=st.sampled_from([CALLS] * 8 + [SAID, RAISED]).flatmap(lambda one: one),
    usage=USAGES,
    tick=TICKS,
)
SCRIPTS = st.builds(
    Script,
    budget=BUDGETS,
    policy=POLICIES,
    lines=st.lists(LINES, min_size=1, max_size=4),
    verdict=st.sampled_from([True, True, False, "not today", None]),
    cancel_at=st.sampled_from([None, None, 1, 2, 3, 4, 5, 6, 7, 9]),
    by_model=st.booleans(),
)

#: A call of each kind, undecided approval, a failure, and calls that wait for a place.
MIXED = Script(
    Budget(max_steps=9),
    Policy(max_parallel=2, model_retries=1, repeated_id="rename"),
    [
        Line([("pay", [1], False), ("boom", [1], True), ("deny", [1], False)], None, 1.0),
        Line([("look", "", False), ("fly", [1], False), ("lock", [1], False)], None, 0.0),
        Line(ModelError("busy", "later", retryable=True), None, 0.0),
        Line({"kind": "final", "text": "done"}, None, 0.0),
    ],
    verdict=None,
    cancel_at=None,
    by_model=False,
)
#: The model cancels while it asks for calls.
TOLD_OFF = attrs.evolve(MIXED, cancel_at=2, by_model=True, verdict="not today")
#: A cancel is seen while the first of three calls runs.
CUT = attrs.evolve(
    MIXED, policy=Policy(max_parallel=3), lines=[Line([("look", [1], False)] * 3, None, 0.0)], cancel_at=3
)

# --- who plays it -------------------------------------------------------------------------------------------


class Cast:
    """A model, tools, an approver, a canceller and a clock that follow a script. Only the model takes time.

    All but the clock, and an observer, may be hostile to what they are handed.
    """

    def __init__(self, script: Script, hostile: bool = False) -> None:
        self.script, self.now, self.asked, self.polls = script, 0.0, 0, 0
        self.hostile = hostile
        self.effects: list[str] = []
        self.token = CancelToken()
        self.cancel: Any = self.token if script.by_model else self.poll

    def clock(self) -> float:
        return self.now

    def model(self, messages: Any, tools: Any) -> Any:
        self.asked += 1
        line = self.script.lines[self.asked - 1] if self.asked <= len(self.script.lines) else END
        self.now += line.tick
        if self.asked == self.script.cancel_at and self.script.by_model:
            self.token.cancel("enough")
        if self.hostile:
            spoil_messages(messages)
            spoil_messages(tools)
        return line.reply(self.asked)

    def poll(self) -> bool:
        self.polls += 1
        if self.script.steady:
            return self.polls == self.script.cancel_at
        return self.asked == self.script.cancel_at

    def approve(self, call: Call) -> Any:
        self.observe(call)
        return self.script.verdict if call.place == 0 else True

    def observe(self, notice: Any) -> None:
        if self.hostile:
            spoil(notice)

    def tools(self) -> list[Tool]:
        return [self.tool(name, **options) for name, options in TOOLS.items()]

    def tool(self, name: str, **options: Any) -> Tool:
        def act(n: list[int]) -> str:
            told = f"{name} {n}"
            self.effects.append(told)
            self.observe(n)
            if name in RAISED_BY:
                raise RAISED_BY[name]
            return told

        return tool(name=name, description=f"It does {name}.", **options)(act)

    def words(self, calls: tuple[Call, ...], approve: Callable[[Call], Any]) -> list[Decision]:
        """What an approver says of these calls, those that it leaves undecided not among them."""
        verdicts = {call: approve(call) for call in calls}
        return [
            Decision(call.step, call.place, said is True, said if isinstance(said, str) else "")
            for call, said in verdicts.items()
            if said is not None
        ]


def agree(call: Call) -> bool:
    """What the second approver says."""
    return True


def hosted(driver: Driver, script: Script) -> tuple[Result, Cast]:
    """A host plays the script; where that suspends the run, another goes on, with an approver who agrees."""
    cast = Cast(script, hostile=True)
    options = {"cancel": cast.cancel, "clock": cast.clock, "observe": cast.observe}
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
        result = driver.drive(cast.model, None, loop=result.loop, approve=agree, **options)
    return result, cast


def by_hand(script: Script) -> tuple[Result, Cast]:
    """The script played with a Loop, one call at a time."""
    cast = Cast(script)
    loop = Loop("go", tools=cast.tools(), budget=script.budget, policy=script.policy, at=cast.clock())
    approve: Callable[[Call], Any] = cast.approve
    while not loop.finished:
        requests = sorted(loop.requests, key=lambda one: not isinstance(one, PollCancel))
        if not told(loop, cast, requests[0], approve):
            approve = agree
            loop.send(Resumed(at=cast.clock()))
    return loop.result(), cast


def told(loop: Loop, cast: Cast, request: Any, approve: Callable[[Call], Any]) -> bool:
    """Do what is asked for; False where nobody decides."""
    if isinstance(request, PollCancel):
        loop.send(CancelPolled(cast.cancel(), cast.token.reason, at=cast.clock()))
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
        words = cast.words(request.calls, approve)
        if words:
            loop.send(ApprovalGiven(tuple(words), at=cast.clock()))
        return bool(words)
    return True


# --- what must be the same ----------------------------------------------------------------------------------


def outcome(result: Result, cast: Cast) -> dict[str, Any]:
    """What a run brought. Who is faster decides how often is polled while calls wait for a place, and nothing else.

    Of a token some hosts hear before they poll: then other rows lead to the same end.
    """
    script, events = cast.script, result.snapshot.events
    rows = () if cast.token.cancelled else result.rows
    start = Loop("go", budget=script.budget, policy=script.policy, at=0.0).snapshot
    return {
        "broken": [sentence for move in moves(TOOL_LOOP, start, events) for sentence in broken(move).values()],
        "status": result.status,
        "reason": result.snapshot.cancel_reason,
        "spend": result.spend,
        "history": list(result.history),
        "rows": [row for row in rows if script.steady or not row.startswith(("dispatching", "collecting"))],
        "effects": sorted(cast.effects),
        "asked": cast.asked,
        "polls": cast.polls if script.steady else None,
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


@settings(max_examples=100, derandomize=True, deadline=None, database=None)
@example(MIXED)
@example(TOLD_OFF)
@example(CUT)
@given(SCRIPTS)
def test_a_script_brings_the_same_run_whoever_plays_it(script: Script) -> None:
    """Threads, asyncio with sync parts, asyncio with tasks, and a Loop driven by hand bring the same."""
    hand = outcome(*by_hand(script))
    for driver in DRIVERS:
        told = outcome(*hosted(driver, script))
        assert (awaited(told, hand) if driver.tasks else told) == hand, driver.name
    assert hand["broken"] == []
