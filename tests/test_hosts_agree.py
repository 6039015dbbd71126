"""One script brings the same run by hand and on every host, whatever its players do to what they are handed."""

from __future__ import annotations

import asyncio
import copy
import inspect
import types
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loopmachine import (
    Budget,
    CancelToken,
    Decision,
    Definition,
    Denied,
    History,
    Loop,
    ModelError,
    Policy,
    Result,
    Row,
    Tool,
    Usage,
    run,
    run_async,
    tool,
    updates,
)
from loopmachine.events import ApprovalGiven, CallReturned, CancelPolled, CancelRequested, Resumed
from loopmachine.records import Call
from loopmachine.requests import AskModel, InterruptCalls, PollCancel, StartCalls
from loopmachine.review.moves import moves
from loopmachine.review.promises import broken
from loopmachine.table import TOOL_LOOP
from loopmachine.tools import CallToken
from tests.drivers import DONE, DRIVERS, Driver, Stage, Words, as_task, call, calls
from tests.hostile import spoil, spoil_messages
from tests.strategies import BUDGETS, POLICIES, TICKS, USAGES, rarely
from tests.test_async_host import played
from tests.test_hosts import unawaited

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
    by_approver: bool = False  #: the approver cancels with it, before he says anything

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
    by_approver=rarely(True, False, 6),
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
#: The approver cancels and decides nothing, or some of what he is asked.
GIVEN_UP = attrs.evolve(MIXED, by_approver=True, lines=[Line([("pay", [1], False)], None, 0.0)])
HALF_DECIDED = attrs.evolve(MIXED, by_approver=True, lines=[Line([("pay", [1], False)] * 2, None, 0.0)])
#: Nobody decides the first of three calls, and the poll before the run is suspended says that it is cancelled.
AT_LAST = attrs.evolve(MIXED, cancel_at=4, lines=[Line([("pay", [1], False)] * 3, None, 0.0)])
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
        self.approvals: list[tuple[int, int]] = []  #: the calls that an approver was asked about
        self.token = CancelToken()
        self.cancel: Any = self.token if script.by_model or script.by_approver else self.poll

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
        assert call.key not in self.approvals, "one run asks about a call once"
        self.approvals.append(call.key)
        self.observe(call)
        if self.script.by_approver:
            self.token.cancel("that will do")
        return self.script.verdict if call.place == 0 else True

    def agree(self, call: Call) -> bool:
        """What the second approver says."""
        self.approvals.append(call.key)
        return True

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
        result = driver.drive(cast.model, None, loop=result.loop, approve=cast.agree, **options)
    return result, cast


def by_hand(script: Script) -> tuple[Result, Cast]:
    """The script played with a Loop, one call at a time."""
    cast = Cast(script)
    loop = Loop("go", tools=cast.tools(), budget=script.budget, policy=script.policy, at=cast.clock())
    approve: Callable[[Call], Any] = cast.approve
    while not loop.finished:
        requests = sorted(loop.requests, key=lambda one: not isinstance(one, PollCancel))
        if told(loop, cast, requests[0], approve):
            continue
        if cast.cancel():
            loop.send(CancelRequested(cast.token.reason, at=cast.clock()))
        else:
            approve = cast.agree
            loop.send(Resumed(at=cast.clock()))
    return loop.result(), cast


def told(loop: Loop, cast: Cast, request: Any, approve: Callable[[Call], Any]) -> bool:
    """Do what is asked for; False where nobody decides, a second time asked neither."""
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
        again = approve == cast.approve and {call.key for call in request.calls} <= {*cast.approvals}
        words = [] if again else cast.words(request.calls, approve)
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
        "approvals": cast.approvals,
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
@example(GIVEN_UP)
@example(HALF_DECIDED)
@example(AT_LAST)
@example(CUT)
@given(SCRIPTS)
def test_a_script_brings_the_same_run_whoever_plays_it(script: Script) -> None:
    """Threads, asyncio with sync parts, asyncio with tasks, and a Loop driven by hand bring the same."""
    hand = outcome(*by_hand(script))
    for driver in DRIVERS:
        told = outcome(*hosted(driver, script))
        assert (awaited(told, hand) if driver.tasks else told) == hand, driver.name
    assert hand["broken"] == []


# --- before a run is suspended ------------------------------------------------------------------------------

EACH_HOST = pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
PAY = call("a", "pay", amount=1)


class Canceller:
    """A token, or a callable that says the same, which somebody sets with ``stop``."""

    def __init__(self, token: bool) -> None:
        self.token = CancelToken()
        self.given: Any = self.token if token else lambda: self.token.cancelled
        self.reason = "stop" if token else ""

    def stop(self, told: Any = None) -> None:
        self.token.cancel("stop")

    def stop_in(self, state: str) -> Callable[[Any], None]:
        """An observer who cancels when the run has come to this state."""
        return lambda notice: self.stop() if notice.snapshot.state == state else None


def with_a_lost_call(stage: Stage) -> Loop:
    """A loop whose host died while a tool ran that may not run again."""
    loop = Loop("go", tools=stage.tools(), at=0.0)
    loop.send(CancelPolled(False, at=0.0))
    loop.replied(call("a", "boom"), at=0.0)
    loop.send(CancelPolled(False, at=0.0))
    return loop


def told_unasked(result: Result) -> list[str]:
    """The reasons with which a cancel was told unasked."""
    return [event.reason for event in result.snapshot.events if isinstance(event, CancelRequested)]


@EACH_HOST
@pytest.mark.parametrize("token", [True, False], ids=["token", "callable"])
@pytest.mark.parametrize("who", ["approver", "nobody", "resolver"])
def test_a_cancel_is_looked_for_once_more_before_a_run_is_suspended(driver: Driver, token: bool, who: str) -> None:
    """Whoever sets it when nothing is left to do, of whatever kind it is; the run then ends cancelled."""
    stage, cancel = Stage(driver), Canceller(token)
    if who == "approver":
        result = stage.run(PAY, cancel=cancel.given, approve=cancel.stop)
    elif who == "nobody":
        result = stage.run(PAY, cancel=cancel.given, observe=cancel.stop_in("awaiting_approval"))
    else:
        observe = cancel.stop_in("awaiting_resolution")
        result = stage.run(prompt=None, loop=with_a_lost_call(stage), cancel=cancel.given, observe=observe)
    outcomes = [one.outcome for one in result.results]
    assert (result.status, told_unasked(result), result.snapshot.cancel_reason, outcomes) == (
        "cancelled",
        [cancel.reason],
        cancel.reason,
        ["unknown"] if who == "resolver" else [],
    )


@EACH_HOST
def test_what_a_cancel_raises_before_a_run_is_suspended_comes_out(driver: Driver) -> None:
    """As it does elsewhere; the loop stands where it would have been suspended, and can go on."""
    stage = Stage(driver)
    loop, answers = Loop("go", tools=stage.tools(), at=0.0), iter([False, False])

    def cancel() -> bool:
        if (said := next(answers, None)) is None:
            raise LookupError("who knows")
        return said

    with pytest.raises(LookupError, match="who knows"):
        stage.run(PAY, prompt=None, loop=loop, cancel=cancel)
    stood = loop.driven, loop.snapshot.state, told_unasked(loop.result())
    result = stage.run(DONE, prompt=None, loop=loop, approve=lambda asked: True)
    assert (stood, result.status) == ((False, "awaiting_approval", []), "answered")


@EACH_HOST
@pytest.mark.parametrize("approve", [None, lambda asked: None], ids=["nobody", "undecided"])
def test_a_cancel_that_there_is_not_leaves_the_run_suspended(driver: Driver, approve: Any) -> None:
    """It was looked for, and nothing was told."""
    polls: list[None] = []
    result = Stage(driver).run(PAY, cancel=lambda: polls.append(None), approve=approve)
    assert (result.status, told_unasked(result), len(polls)) == ("awaiting_approval", [], 3)


@EACH_HOST
def test_a_run_that_ended_is_not_looked_at_for_a_cancel(driver: Driver) -> None:
    """It is polled before and after the model, and no more."""
    polls: list[None] = []
    assert Stage(driver).run(DONE, cancel=lambda: polls.append(None)).status == "answered"
    assert len(polls) == 2


def hearing(to: str, update: Any) -> Definition:
    """The tool loop, with another row for a cancel that is told while an approval is awaited."""
    state = TOOL_LOOP.states["awaiting_approval"]
    rows = [row for row in TOOL_LOOP.table[state] if row.event is not CancelRequested]
    table = {**TOOL_LOOP.table, state: [Row(CancelRequested, to, update=update), *rows]}
    return attrs.evolve(TOOL_LOOP, table=table)


@EACH_HOST
@pytest.mark.parametrize(
    ("to", "update"),
    [("awaiting_approval", updates.remember_cancel), ("awaiting_approval", None), ("admitting", None)],
    ids=["remembered", "forgotten", "there and back"],
)
def test_a_cancel_that_a_definition_goes_on_from_is_told_once(driver: Driver, to: str, update: Any) -> None:
    """Whether its snapshot is cancelled by then or not: the run is suspended after all."""
    stage, cancel = Stage(driver), Canceller(token=True)
    options = {"cancel": cancel.given, "observe": cancel.stop_in("awaiting_approval")}
    a_while = iter(range(99)).__next__  # a clock that a run which does not end comes to the end of
    result = stage.run(PAY, definition=hearing(to, update), clock=a_while, **options)
    assert (result.status, told_unasked(result)) == ("awaiting_approval", ["stop"])


@EACH_HOST
def test_a_cancel_that_was_heard_before_is_not_told_again(driver: Driver) -> None:
    """A task that awaits the approver hears of a token at once, and its snapshot is cancelled then."""
    cancel = Canceller(token=True)
    approve = as_task(cancel.stop) if driver.tasks else cancel.stop
    definition = hearing("awaiting_approval", updates.remember_cancel)
    result = Stage(driver).run(PAY, definition=definition, cancel=cancel.given, approve=approve)
    assert (result.status, told_unasked(result)) == ("awaiting_approval", ["stop"])


# --- what a model is given ----------------------------------------------------------------------------------


@EACH_HOST
@pytest.mark.parametrize(
    ("model", "given"),
    [
        (lambda messages, tools="own": (messages, tools), 2),
        (lambda messages, tools="own", ask="own": (messages, tools, ask), 3),
        (lambda messages, tools, ask="own": (messages, tools, ask), 3),
        (lambda messages="own", tools="own", ask="own", more="own": (messages, tools, ask, more), 3),
        (lambda messages, tools="own", *, ask="own": (messages, tools, ask), 2),
        (lambda messages, seed="own": (messages, seed), 1),
        (lambda messages="own", seed="own": (messages, seed), 1),
        (lambda messages, ask="own", tools="own": (messages, ask, tools), 1),
        (lambda messages, tools, seed="own", ask="own": (messages, tools, seed, ask), 2),
        (partial(lambda messages, tools: (messages, tools), tools="own"), 1),
    ],
)
def test_of_parameters_with_a_default_a_model_is_given_the_tools_and_the_request_where_it_names_them(
    driver: Driver, model: Callable[..., Any], given: int
) -> None:
    """In their places; every other keeps its own."""
    told: list[tuple[Any, ...]] = []

    def asked(*args: Any) -> dict[str, Any]:
        told.append(model(*args))
        return DONE

    asked.__signature__ = inspect.signature(model)  # type: ignore[attr-defined]  # what stands for the model shows its
    result = driver.drive(asked, "go", tools=Stage(driver).tools()[:1])
    assert (result.status, [one == "own" for one in told[0]]) == (
        "answered",
        [place >= given for place in range(len(told[0]))],
    )
    assert [[one["name"] for one in tools] for tools in told[0][1:given][:1]] == [["look"]] * (given > 1)


# --- what an approver is asked ------------------------------------------------------------------------------


@EACH_HOST
def test_a_call_left_undecided_is_not_asked_about_again_in_the_same_run(driver: Driver) -> None:
    """The run is suspended; another asks again, about that call and those of later turns."""
    stage, asked = Stage(driver), list[tuple[int, int]]()

    def judge(undecided: int | None) -> Callable[[Call], Any]:
        def approve(one: Call) -> bool | None:
            asked.append(one.key)
            return None if one.place == undecided else True

        return as_task(approve) if driver.tasks else approve

    three = calls(*(call(one, "pay", amount=1) for one in "abc"))
    first = stage.run(three, approve=judge(1))
    pending = [one.key for request in first.requests for one in request.calls]
    once = asked.copy(), first.status, pending
    result = stage.run(calls(call("d", "pay", amount=2)), DONE, prompt=None, loop=first.loop, approve=judge(None))
    assert (once, asked, result.status) == (
        ([(1, 0), (1, 1), (1, 2)], "awaiting_approval", [(1, 1)]),
        [(1, 0), (1, 1), (1, 2), (1, 1), (2, 0)],
        "answered",
    )


@EACH_HOST
def test_the_calls_of_a_new_turn_are_asked_about_in_the_same_run(driver: Driver) -> None:
    """Though each has the place of one that was asked about."""
    asked: list[tuple[int, int]] = []

    def approve(one: Call) -> bool:
        asked.append(one.key)
        return True

    result = Stage(driver).run(PAY, call("b", "pay", amount=2), call("c", "pay", amount=3), DONE, approve=approve)
    assert (result.status, asked, len(result.results)) == ("answered", [(1, 0), (2, 0), (3, 0)], 3)


@EACH_HOST
def test_what_an_approver_said_before_he_raised_is_kept(driver: Driver) -> None:
    """What he raises passes out; the run goes on with the calls that he said nothing of."""
    stage, asked = Stage(driver), list[tuple[int, int]]()
    loop = Loop("go", tools=stage.tools(), at=0.0)

    def approve(one: Call) -> bool:
        asked.append(one.key)
        if asked == [(1, 0), (1, 1)]:
            raise ZeroDivisionError
        return True

    two = calls(*(call(one, "pay", amount=1) for one in "ab"))
    with pytest.raises(ZeroDivisionError):
        stage.run(two, prompt=None, loop=loop, approve=approve)
    result = stage.run(DONE, prompt=None, loop=loop, approve=approve)
    assert (asked, result.status, len(result.results)) == ([(1, 0), (1, 1), (1, 1)], "answered", 2)


class Minutes(list[str]):
    """An approver that keeps whom it was asked about, and is no truth while it is empty."""

    def __call__(self, one: Call) -> bool:
        self.append(one.id)
        return True


def approver(driver: Driver, approve: Callable[[Call], Any]) -> Callable[[Call], Any]:
    """The approver as this driver has it."""
    return as_task(approve) if driver.tasks else approve


@EACH_HOST
@pytest.mark.parametrize("wrong", [1, asyncio.CancelledError("he gave up")], ids=["a wrong verdict", "his own cancel"])
def test_what_stops_an_approver_comes_out_and_what_he_said_before_is_kept(driver: Driver, wrong: Any) -> None:
    """Who was decided is not asked about again."""
    stage, asked = Stage(driver), list[str]()
    loop = Loop("go", tools=stage.tools(), at=0.0)

    def approve(one: Call) -> Any:
        asked.append(one.id)
        said = {"a": True, "b": None, "c": wrong}[one.id]
        if isinstance(said, BaseException):
            raise said
        return said

    four = calls(*(call(one, "pay", amount=1) for one in "abcd"))
    with pytest.raises((TypeError, asyncio.CancelledError)) as caught:
        stage.run(four, prompt=None, loop=loop, approve=approver(driver, approve))
    kept = [((one.step, one.place), one.approved) for one in loop.snapshot.decisions]
    said = str(wrong) if isinstance(wrong, BaseException) else Words("approve must return", f"not {wrong}")
    assert (str(caught.value), asked, kept, loop.driven) == (said, ["a", "b", "c"], [((1, 0), True)], False)
    minutes = Minutes()
    result = stage.run(DONE, prompt=None, loop=loop, approve=approver(driver, minutes))
    assert (minutes, [one.outcome for one in result.results]) == (["b", "c", "d"], ["ok"] * 4)


@EACH_HOST
def test_an_approver_is_asked_though_it_is_false_in_itself(driver: Driver) -> None:
    """There is none only where it is None."""
    minutes = Minutes()
    result = Stage(driver).run(PAY, DONE, approve=minutes)
    assert (result.status, minutes) == ("answered", ["a"])


# --- what a host can't use, or is told in vain ---------------------------------------------------------------


@EACH_HOST
@pytest.mark.parametrize("who", ["clock", "guard"])
def test_what_calls_brought_is_kept_though_telling_it_fails(driver: Driver, who: str) -> None:
    """What the clock or a guard of one's own raises comes out, and the loop goes on with the results."""
    stage, left = Stage(driver), [OSError("flaky")]

    def flaky(*given: Any) -> Any:
        """Whether that is so can't be said at first."""
        if stage.effects and left:
            raise left.pop()
        return 0.0

    row = Row(CallReturned, "finished_stuck", flaky, first_because="it is a test")
    definition = TOOL_LOOP.with_row("dispatching", row, at=1) if who == "guard" else TOOL_LOOP
    clock = flaky if who == "clock" else stage.clock
    loop = Loop("go", tools=stage.tools(), definition=definition, at=0.0)
    with pytest.raises(OSError, match="flaky"):
        stage.run(calls(call("a", "boom"), call("b", "deny")), prompt=None, loop=loop, clock=clock)
    result = stage.run(DONE, prompt=None, loop=loop, clock=clock)
    kept = [one.outcome for one in result.results]
    assert (result.status, kept, sorted(stage.effects)) == ("answered", ["failed", "denied"], ["boom", "deny"])


class Gone(asyncio.CancelledError):
    """A cancellation of somebody's own."""


@EACH_HOST
def test_a_cancellation_of_ones_own_class_ends_no_run(driver: Driver) -> None:
    """Nobody cancelled the run: the tool failed, or asking the model did."""

    def fall(*given: Any) -> None:
        """Raise."""
        raise Gone

    tools = driver.tools([Tool("fall", "Raise.", {"type": "object"}, fall)])
    result = Stage(driver).run(call("a", "fall"), DONE, tools=tools)
    failure = Stage(driver).run(fall).snapshot.failure
    assert failure is not None
    assert (result.status, result.results[0].content, failure.code) == ("answered", "Gone", "Gone")


@EACH_HOST
@pytest.mark.parametrize(
    ("style", "told"),
    [("message", "Gone: he left"), ("name", "Gone")],
)
def test_a_cancellation_of_a_tools_own_is_told_as_the_policy_says(driver: Driver, style: Any, told: str) -> None:
    """As anything else that it raises."""

    def fall() -> None:
        """Raise."""
        raise Gone("he left")

    tools = driver.tools([Tool("fall", "Raise.", {"type": "object"}, fall)])
    result = Stage(driver).run(call("a", "fall"), DONE, tools=tools, policy=Policy(error_text=style))
    assert [(one.outcome, one.content) for one in result.results] == [("failed", told)]


class Masked:
    """A reply that raises where it is asked what it is."""

    @property  # type: ignore[misc]  # a class says so of itself
    def __class__(self) -> Any:
        raise ValueError("nobody's business")


def test_a_reply_that_raises_where_it_is_asked_what_it_is_is_malformed() -> None:
    """Whatever it is, it is no reply."""

    async def later(messages: Any, tools: Any) -> Any:
        return Masked()

    ends = [run(lambda messages, tools: Masked(), "go").status]
    ends += [asyncio.run(run_async(model, "go")).status for model in (later, lambda messages, tools: Masked())]
    assert ends == ["malformed"] * 3


class Promise:
    """Something to be awaited that is no coroutine."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __await__(self) -> Generator[None, None, Any]:
        yield
        return self.value


@types.coroutine
def promised(value: Any) -> Generator[None, None, Any]:
    """The same as a generator, as coroutines were once written."""
    yield
    return value


@pytest.mark.parametrize("hand_out", [Promise, promised], ids=["an object", "a generator"])
def test_what_a_sync_callable_hands_out_to_be_awaited_is_awaited_where_that_can_be(hand_out: Any) -> None:
    """``run_async`` awaits it, of the model and of the approver; ``run`` says what to use."""
    stage = Stage(DRIVERS[0])

    def model(messages: Any, tools: Any) -> Any:
        return hand_out(DONE if len(messages) > 1 else PAY)

    given: dict[str, Any] = {"tools": stage.tools(), "approve": lambda asked: hand_out(True)}
    with pytest.raises(TypeError, match="the model is async; use run_async"):
        run(model, "go", **given)
    with pytest.raises(TypeError, match="approve is async; use run_async"):
        run(lambda messages, tools: PAY, "go", **given)
    result = played(lambda: run_async(model, "go", **given))
    assert (result.status, stage.effects) == ("answered", ["pay 1"])


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda one: one.name)
def test_a_cancel_that_hands_out_what_is_to_be_awaited_is_refused_wherever_it_is_asked(driver: Driver) -> None:
    """At a poll, in a pause and before the run is suspended: as a yes it would end the run."""

    async def stop() -> None:
        """Never awaited."""

    def ended(later: int) -> str:
        stage, answers = Stage(driver), iter([False] * later)
        model = stage.model(ModelError("busy", retryable=True, retry_after=0.01), PAY)
        given: dict[str, Any] = {"tools": stage.tools(), "policy": Policy(model_retries=1)}
        try:
            return driver.drive(model, "go", cancel=lambda: stop() if next(answers, True) else False, **given).status
        except TypeError as wrong:
            return str(wrong)

    ends = [""]

    def act() -> None:
        while ends[-1] != "awaiting_approval":
            ends.append(ended(len(ends) - 1))

    refused = "cancel is async, or yields; it is asked and not awaited, and must return True or False"
    assert (unawaited(act), {*ends}, len(ends) > 6) == ([], {"", refused, "awaiting_approval"}, True)


def test_a_generator_that_is_not_to_be_awaited_is_no_reply() -> None:
    """As any other value of no shape."""

    def model(messages: Any, tools: Any) -> Any:
        return iter(History())

    assert (run(model, "go").status, asyncio.run(run_async(model, "go")).status) == ("malformed", "malformed")


class OwnBudget(Budget):
    """A budget of somebody's own, which could not be read back."""


@EACH_HOST
def test_a_budget_of_a_class_of_ones_own_is_refused_beside_a_loop_as_without(driver: Driver) -> None:
    """Nothing is recorded of it."""
    stage = Stage(driver)
    loop = Loop("go", tools=stage.tools(), at=0.0)
    before = loop.to_json()
    for options in ({"prompt": None, "loop": loop}, {"prompt": "go"}):
        with pytest.raises(TypeError, match=r"^budget must be a Budget, not OwnBudget"):
            stage.run(DONE, budget=OwnBudget(), **options)
    assert (loop.to_json(), stage.run(DONE, prompt=None, loop=loop).status) == (before, "answered")


class OwnToken(CancelToken):
    """A token whose reason is somebody's own."""

    def __init__(self, why: Any) -> None:
        super().__init__()
        self.why = why

    @property
    def reason(self) -> str:
        return self.why()  # type: ignore[no-any-return]  # whatever it is


@EACH_HOST
@pytest.mark.parametrize("asked", [True, False], ids=["polled", "told"])
@pytest.mark.parametrize(
    ("why", "said"), [(lambda: None, ""), (lambda: 5, "5"), (lambda: 1 // 0, "")], ids=["none", "a number", "raises"]
)
def test_the_reason_of_a_token_is_text_whatever_it_says(driver: Driver, why: Any, said: str, asked: bool) -> None:
    """So that the run can be read back."""
    token = OwnToken(why)
    if asked:
        token.cancel()
    result = Stage(driver).run(PAY, cancel=token, approve=lambda asked: token.cancel())
    tools = CallToken(token)
    assert (result.status, result.snapshot.cancel_reason) == ("cancelled", said)
    assert (tools(), tools.reason) == (True, said)
