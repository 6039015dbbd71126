"""The promises over whole runs: hypothesis plays model, tools, clock, canceller, approver and the next host."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from loopmachine import Budget, History, Loop, Policy, Usage, replay, tool
from loopmachine.errors import UnexpectedEvent
from loopmachine.events import (
    ApprovalGiven,
    CallLost,
    CallReturned,
    CallsResolved,
    CancelPolled,
    CancelRequested,
    Event,
    ModelFailed,
    Resumed,
)
from loopmachine.machine import Advance
from loopmachine.records import Call, CallResult, Decision, Resolution, Snapshot
from loopmachine.requests import (
    AskApproval,
    AskModel,
    InterruptCalls,
    InterruptModel,
    PollCancel,
    ResolveCalls,
    StartCalls,
)
from loopmachine.review.account import Account
from loopmachine.review.answers import most_answers
from loopmachine.review.moves import Move
from loopmachine.review.promises import broken
from loopmachine.review.totality import STRAY
from tests.hostile import spoil, spoil_messages
from tests.strategies import BUDGETS, POLICIES, TICKS, TOLD, UNTOLD, USAGES, rarely

# --- the cast ---------------------------------------------------------------------------------------------


def act(n: int) -> int:
    """It is a tool of many names."""
    return n


TOOLS = [
    tool(name="look", effect="read")(act),
    tool(name="put", effect="idempotent")(act),
    tool(name="pay", needs_approval=True)(act),
    tool(name="peek", needs_approval=True, effect="read", max_calls=2)(act),
    tool(name="mail", max_calls=1)(act),
    tool(name="lock", sequential=True, effect="transactional")(act),
]
NAMES = [*(one.name for one in TOOLS), "fly"]
SUB_RUNS = st.sampled_from([None, *TOLD, *UNTOLD, *UNTOLD])  #: usage of a sub-run, or of a failure
EAGER = rarely(False, True)  #: polls are answered at once
ANY_NAME = st.sampled_from(NAMES)
OUTCOMES = st.sampled_from(["ok", "ok", "failed", "denied", "timed_out", "interrupted"])
VERDICTS = st.sampled_from([True, True, False, None])
FATES = st.sampled_from(["rerun", "rerun", "ok", "failed", "unknown", None])
CANCEL_AT = st.one_of([st.none()] * 3 + [st.integers(1, 12)])


def resolution(call: Call, fate: str) -> Resolution:
    """Somebody's word on a lost call."""
    if fate in ("rerun", "unknown"):
        return Resolution(call.step, call.place, fate == "rerun")
    return Resolution(call.step, call.place, result=CallResult.of(call, fate, "found out"))


Rule = TypeVar("Rule", bound=Callable[..., None])


def waiting(*kinds: type[Any]) -> Callable[[Rule], Rule]:
    """The rule is for a run that waits for one of these."""
    return precondition(lambda self: self.asked(*kinds) is not None)


model_asked = waiting(AskModel, InterruptModel)
calls_running = waiting(StartCalls, InterruptCalls)

# --- the play ---------------------------------------------------------------------------------------------


class Played(RuleBasedStateMachine):
    """Runs one after the other, driven by hand, each going on from the history of the one before."""

    @initialize(budget=BUDGETS, policy=POLICIES, cancel_at=CANCEL_AT, eager=EAGER)
    def begins(self, budget: Budget, policy: Policy, cancel_at: int | None, eager: bool) -> None:
        self.now, self.last_id = 0.0, 0
        self.start(None, budget, policy, cancel_at, eager)

    def start(
        self, history: History | None, budget: Budget, policy: Policy, cancel_at: int | None, eager: bool
    ) -> None:
        self.loop = Loop("go", tools=TOOLS, history=history, budget=budget, policy=policy, at=self.now)
        self.first = self.loop.snapshot
        self.account = Account.of(self.first, sealed=True)
        self.cancel_at, self.polls = cancel_at, 0
        self.most_steps, self.calls, self.reruns, self.resumed, self.answers = budget.max_steps, 0, 0, 0, 0
        self.poll(eager)

    # --- what a host does -----------------------------------------------------------------------------------

    def asked(self, *kinds: type[Any]) -> Any:
        """The first outstanding request of these kinds."""
        return next((one for one in self.loop.waiting if isinstance(one, kinds)), None)

    def at(self, tick: float) -> float:
        self.now += tick
        return self.now

    def tell(self, event: Event, eager: bool = False) -> None:
        before = self.loop.snapshot
        self.saw(before, self.loop.send(event), eager)

    def saw(self, before: Snapshot, advanced: Advance, eager: bool) -> None:
        """Every promise holds; then all that players are handed is spoiled."""
        move = Move.of(self.loop.definition, before, advanced, self.account)
        assert broken(move) == {}
        self.account = move.told
        self.answers += advanced.event.answers
        for request in self.loop.requests:
            if isinstance(request, AskModel):
                spoil_messages(request.messages)
                spoil_messages(request.tools)
            spoil([call.arguments for call in getattr(request, "calls", ())])
        spoil([list(advanced.snapshot.history), advanced.event])
        self.poll(eager)

    def poll(self, eager: bool) -> None:
        """Look for a cancel as long as the machine asks for it."""
        while eager and self.asked(PollCancel):
            self.polled(0.0)

    @waiting(PollCancel)
    @rule(tick=TICKS)
    def polled(self, tick: float) -> None:
        self.polls += 1
        self.tell(CancelPolled(self.polls == self.cancel_at, at=self.at(tick)))

    # --- the model ------------------------------------------------------------------------------------------

    def replies(self, reply: dict[str, Any], tick: float, eager: bool) -> None:
        before = self.loop.snapshot
        self.saw(before, self.loop.replied(reply, at=self.at(tick)), eager)
        spoil(reply)

    def asks(self, names: list[str], usage: Usage | None, tick: float, eager: bool, **more: Any) -> None:
        """Ask for calls of these names, all with an id that is new or, ``again``, with the latest."""
        again, arguments = more.pop("again", False), more.pop("arguments", {"n": 1})
        calls = []
        for name in names:
            self.last_id += not again
            calls.append({"id": f"c{self.last_id}", "name": name, "arguments": copy.copy(arguments)})
        self.calls += len(calls)
        self.replies({"kind": "calls", "calls": calls, "usage": usage, **more}, tick, eager)

    @model_asked
    @rule(name=ANY_NAME, text=st.sampled_from(["", "so"]), usage=USAGES, tick=TICKS, eager=EAGER)
    def asks_for_one_call(self, name: str, text: str, usage: Usage | None, tick: float, eager: bool) -> None:
        self.asks([name], usage, tick, eager, text=text)

    @model_asked
    @rule(usage=USAGES, tick=TICKS, eager=EAGER)
    def asks_the_same(self, usage: Usage | None, tick: float, eager: bool) -> None:
        last = self.account.last
        self.asks([call.name for call in last.turn.calls] if last else ["look"], usage, tick, eager)

    @model_asked
    @rule(names=st.lists(ANY_NAME, min_size=2, max_size=3), usage=USAGES, tick=TICKS, eager=EAGER)
    def asks_for_a_batch(self, names: list[str], usage: Usage | None, tick: float, eager: bool) -> None:
        self.asks(names, usage, tick, eager)

    @model_asked
    @rule(names=st.lists(ANY_NAME, min_size=1, max_size=2), usage=USAGES, tick=TICKS, eager=EAGER)
    def repeats_an_id(self, names: list[str], usage: Usage | None, tick: float, eager: bool) -> None:
        self.asks(names, usage, tick, eager, again=True)

    @model_asked
    @rule(name=ANY_NAME, n=st.sampled_from(["none", None, 1.5, [1]]), usage=USAGES, tick=TICKS, eager=EAGER)
    def gives_wrong_arguments(self, name: str, n: Any, usage: Usage | None, tick: float, eager: bool) -> None:
        self.asks([name, "look"], usage, tick, eager, arguments={"n": n})

    @model_asked
    @rule(names=st.permutations(["pay", "peek", "look"]), usage=USAGES, tick=TICKS, eager=EAGER)
    def asks_for_what_needs_approval(self, names: list[str], usage: Usage | None, tick: float, eager: bool) -> None:
        self.asks(names[:2], usage, tick, eager)

    @model_asked
    @rule(stop=st.sampled_from(["length", "refusal"]), usage=USAGES, tick=TICKS, eager=EAGER)
    def is_cut_while_it_asks(self, stop: str, usage: Usage | None, tick: float, eager: bool) -> None:
        self.asks(["look"], usage, tick, eager, stop=stop)

    @model_asked
    @rule(text=rarely(" ", "done"), stop=rarely("tool_use", ""), usage=USAGES, tick=TICKS, eager=EAGER)
    def answers_it(self, text: str, stop: str, usage: Usage | None, tick: float, eager: bool) -> None:
        self.replies({"kind": "final", "text": text, "stop": stop, "usage": usage}, tick, eager)

    @model_asked
    @rule(reply=st.sampled_from(["nonsense", "calls", "call"]), usage=USAGES, tick=TICKS, eager=EAGER)
    def talks_nonsense(self, reply: str, usage: Usage | None, tick: float, eager: bool) -> None:
        self.replies({"kind": reply, "usage": usage}, tick, eager)

    @model_asked
    @rule(
        retryable=rarely(False, True, 4),
        timed_out=rarely(True, False, 3),
        pause=st.sampled_from([None, 1.0]),
        usage=SUB_RUNS,
        tick=TICKS,
        eager=EAGER,
    )
    def fails(
        self, retryable: bool, timed_out: bool, pause: float | None, usage: Usage | None, tick: float, eager: bool
    ) -> None:
        self.tell(ModelFailed("down", "", retryable, pause, timed_out, usage, at=self.at(tick)), eager)

    # --- tools, approver, and who knows what became of a call -------------------------------------------------

    @calls_running
    @rule(place=st.integers(0, 2), tick=TICKS, eager=EAGER)
    def succeeds(self, place: int, tick: float, eager: bool) -> None:
        calls = self.asked(StartCalls, InterruptCalls).calls
        call = calls[place % len(calls)]
        self.tell(CallReturned(self.loop.perform(call), at=self.at(tick)), eager)

    @calls_running
    @rule(
        place=st.integers(0, 2),
        outcome=OUTCOMES,
        usage=SUB_RUNS,
        tick=TICKS,
        eager=EAGER,
    )
    def returns(self, place: int, outcome: str, usage: Usage | None, tick: float, eager: bool) -> None:
        calls = self.asked(StartCalls, InterruptCalls).calls
        call = calls[place % len(calls)]
        self.tell(CallReturned(CallResult.of(call, outcome, "1"), usage, at=self.at(tick)), eager)

    @calls_running
    @rule(place=st.integers(0, 2), tick=TICKS, eager=EAGER)
    def is_lost(self, place: int, tick: float, eager: bool) -> None:
        calls = self.asked(StartCalls, InterruptCalls).calls
        call = calls[place % len(calls)]
        self.tell(CallLost(call.step, call.place, at=self.at(tick)), eager)

    @waiting(AskApproval)
    @rule(verdicts=st.tuples(VERDICTS, VERDICTS), tick=TICKS, eager=EAGER)
    def is_decided(self, verdicts: tuple[bool | None, ...], tick: float, eager: bool) -> None:
        calls = self.asked(AskApproval).calls
        given = dict(zip(calls, verdicts, strict=False))
        words = [Decision(call.step, call.place, said) for call, said in given.items() if said is not None]
        self.tell(
            ApprovalGiven(tuple(words or [Decision(calls[-1].step, calls[-1].place, True)]), at=self.at(tick)), eager
        )

    @waiting(ResolveCalls)
    @rule(fates=st.tuples(FATES, FATES, FATES), tick=TICKS, eager=EAGER)
    def is_resolved(self, fates: tuple[str | None, ...], tick: float, eager: bool) -> None:
        calls = self.asked(ResolveCalls).calls
        given = dict(zip(calls, fates, strict=False))
        words = [resolution(call, fate) for call, fate in given.items() if fate is not None]
        words = words or [resolution(calls[-1], "unknown")]
        self.reruns += sum(word.rerun for word in words)
        self.tell(CallsResolved(tuple(words), at=self.at(tick)), eager)

    # --- what comes from outside ------------------------------------------------------------------------------

    @rule(
        what=st.sampled_from(["stored", "resumed", "resumed with", "cancelled", "strays"]), budget=BUDGETS, eager=EAGER
    )
    def meanwhile(self, what: str, budget: Budget, eager: bool) -> None:
        accepted = self.loop.definition.accepts(self.loop.snapshot.state)
        if what == "cancelled" and "CancelRequested" in accepted:
            self.tell(CancelRequested(at=self.now))
        elif what.startswith("resumed") and "Resumed" in accepted:
            self.resume(budget if what == "resumed with" else None)
        elif what == "stored":
            self.store()
        else:
            self.strays(accepted)
        self.poll(eager)

    def resume(self, budget: Budget | None) -> None:
        self.resumed += 1
        if budget is not None:
            self.most_steps = max(self.most_steps, budget.max_steps)
            self.now = 100.0  # this host's clock began elsewhere
        self.tell(Resumed(budget, at=self.now))

    def store(self) -> None:
        """A run that was stored goes on as if it had not been."""
        loop, snapshot = self.loop, self.loop.snapshot
        text = loop.to_json()
        self.loop = Loop.from_json(text, tools=TOOLS)
        assert self.loop.snapshot == snapshot == pickle.loads(pickle.dumps(snapshot)) == copy.deepcopy(snapshot)
        assert (self.loop.to_json(), self.loop.waiting) == (text, loop.waiting)

    def strays(self, accepted: tuple[str, ...]) -> None:
        """What fits nowhere changes nothing."""
        snapshot = self.loop.snapshot
        for event in STRAY:
            if type(event).__name__ not in accepted:
                with pytest.raises(UnexpectedEvent):
                    self.loop.send(event)
        assert self.loop.snapshot is snapshot

    # --- the end ----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.loop.finished)
    @rule(budget=BUDGETS, policy=POLICIES, cancel_at=CANCEL_AT, eager=EAGER)
    def goes_on(self, budget: Budget, policy: Policy, cancel_at: int | None, eager: bool) -> None:
        """Another run begins with the history of the one that ended."""
        self.look_back()
        self.start(self.loop.snapshot.history, budget, policy, cancel_at, eager)

    def teardown(self) -> None:
        self.look_back()

    def look_back(self) -> None:
        """A replay gives the same run, which took no more answers than a run may."""
        snapshot = self.loop.snapshot
        assert replay(self.loop.definition, self.first, snapshot.events, snapshot.rows) == snapshot
        assert self.answers <= most_answers(self.most_steps, self.calls, self.reruns, self.resumed)


TestPlayed = Played.TestCase
TestPlayed.settings = settings(max_examples=200, stateful_step_count=40, derandomize=True, deadline=None, database=None)
