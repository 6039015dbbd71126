"""Every answer that a host can give: the events that the explorer tells the machine at a rest, up to a bound.

A world is a run to explore: its budget and policy, a second budget that a host may bring, and the answers in play.
Its calls are told apart by the names of their tools, each of which stands for one kind of tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import product
from typing import Any
from typing import Final as Constant

import attrs

from loopmachine.events import (
    ApprovalGiven,
    CallLost,
    CallReturned,
    CallsResolved,
    CancelPolled,
    CancelRequested,
    Event,
    ModelFailed,
    ModelReplied,
    Resumed,
)
from loopmachine.history import History, Ids
from loopmachine.limits import Budget, Policy, Usage
from loopmachine.records import Call, CallResult, Decision, Exchange, Resolution, Snapshot, Turn, UserMessage
from loopmachine.requests import (
    AskApproval,
    AskModel,
    InterruptCalls,
    InterruptModel,
    PollCancel,
    ResolveCalls,
    StartCalls,
)
from loopmachine.review.sight import Sight

WAIT: Constant = 1.0  #: seconds of a wait for a person, for the next host, or asked for by a provider
COST: Constant = 0.5  #: US dollars of a step that says its cost
TOKENS: Constant = 5  #: of a step that says its tokens

#: What the toolbox would say of a call, by the kind of its tool. A tool of any other name is one like "once".
KINDS: Constant[dict[str, dict[str, Any]]] = {
    "once": {},
    "read": {"effect": "read"},
    "asks": {"needs_approval": True, "effect": "idempotent"},
    "alone": {"alone": True, "effect": "transactional"},
    "limited": {"limit": 1},  # or as the world says
    "wrong": {"checked": None, "problem": "a: missing"},
    "absent": {"known": False, "checked": None, "problem": "there is no such tool"},
}
#: The batches of a turn, by the kinds of their calls. A turn of each is tried at every step.
BATCHES: Constant = (
    *((kind,) for kind in KINDS),
    ("once", "read"),
    ("asks", "asks"),
    ("limited", "limited"),
    ("read", "alone", "once"),
    ("asks", "wrong", "read"),
)
#: Fewer, for worlds in which more of the past matters, or that are a step longer.
FEWER: Constant = (("once",), ("wrong",), ("asks", "read"), ("limited", "limited"))


def call(kind: str, own: str, step: int, place: int) -> Call:
    """A call of a kind, as the machine is told of it."""
    return Call(own, kind, step=step, place=place, **{"known": True, "checked": "{}", **KINDS.get(kind, {})})


def handed_in() -> History:
    """A history to go on from, in which the id "old" is used."""
    old = call("once", "old", 1, 0)
    return History([UserMessage("before"), Exchange(Turn(calls=(old,)), (CallResult.of(old, "ok", "1"),))])


def nothing(snapshot: Snapshot) -> Any:
    """What guards see of the history that look at what those of the tool-calling loop look at."""
    return None


def used(tools: tuple[str, ...] = ()) -> Callable[[Snapshot], Any]:
    """What a guard can count in the history: the outcomes of each of these tools; of every tool, if none is named."""

    def seen(snapshot: Snapshot) -> Any:
        results = [result for entry in snapshot.history.entries if type(entry) is Exchange for result in entry.results]
        return tuple(sorted([(one.name, one.outcome) for one in results if not tools or one.name in tools]))

    return seen


@attrs.frozen(slots=False, eq=False)
class World:
    """A run to explore: what limits it, and which answers its host gives."""

    budget: Budget
    policy: Policy
    second: Budget | None = None  #: that a host may bring, once
    old: bool = False  #: the run goes on from a history
    limit: int = 1  #: calls of the tool "limited" that a run may make
    batches: tuple[tuple[str, ...], ...] = BATCHES
    #: what guards of your own see of the history: rests in which that differs are two
    sees: Callable[[Snapshot], Any] | None = None
    _memo: dict[tuple[Any, ...], tuple[Event, ...]] = attrs.field(factory=dict, init=False, repr=False)

    def start(self, initial: str) -> Snapshot:
        """The snapshot in which the run begins."""
        said = handed_in() if self.old else History()
        said, ids = said.append(UserMessage("go")), Ids(["old"] if self.old else [])
        return Snapshot(
            state=initial,
            history=said,
            handed_in=len(said.entries),
            ids=ids,
            budget=self.budget,
            policy=self.policy,
        )

    # --- what a host may answer -----------------------------------------------------------------------

    def events(self, snapshot: Snapshot, asked: tuple[Any, ...], accepted: tuple[str, ...]) -> list[Event]:
        """All that can happen at a rest: each answer to each request, a cancel, and another host. Of a request of
        somebody's own no answer is known.
        """
        found: list[Event] = []
        for request in asked:
            if type(request) in ANSWERS:
                found += ANSWERS[type(request)](self, request, snapshot)
        if "CancelRequested" in accepted:
            waits = any(type(request) in _WAITS for request in asked)
            found += self._made(_cancels, self._times(snapshot, waits=waits))
        if "Resumed" in accepted:
            found += self._made(_hosts, self._times(snapshot, waits=True), snapshot.budget is not self.second)
        return found

    @cached_property
    def key(self) -> Callable[[Snapshot], tuple[Any, ...]]:
        """What the future can see of a rest."""
        return self._sight.key

    @cached_property
    def _sight(self) -> Sight:
        return Sight(self.budget, self.second, self.old, self.sees)

    # --- the answers, request by request ----------------------------------------------------------------

    def _times(self, snapshot: Snapshot, *, waits: bool = False) -> tuple[float, ...]:
        """When something may happen: at once, or when the time is spent; after any wait that does not count."""
        if waits:
            return snapshot.clock, snapshot.clock + WAIT
        deadline = snapshot.deadline
        if deadline is None or deadline <= snapshot.clock:
            return (snapshot.clock,)
        return snapshot.clock, deadline

    @cached_property
    def usages(self) -> tuple[Usage | None, ...]:
        """What a step may report of itself: all, nothing, only what one budget needs of it, or tokens for free."""
        priced, metered = self._sight.most_usd > 0, self._sight.most_tokens > 0
        found: list[Usage | None] = [None]
        if priced or metered:
            found.append(Usage(input_tokens=TOKENS - 1, output_tokens=1, cost_usd=COST))
        if priced and metered:
            found.append(Usage(cost_usd=COST))
        if priced and metered and self.budget.max_steps < 3:  # or it would take too long
            found.append(Usage(input_tokens=2 * TOKENS - 1, output_tokens=1, cost_usd=0.0))
        return tuple(found)

    @cached_property
    def loss(self) -> Usage:
        """What a lost call may be known to have spent: nothing of what a budget limits, so that the run goes on."""
        priced, metered = self._sight.most_usd > 0, self._sight.most_tokens > 0
        tokens = 0 if metered else None
        return Usage(input_tokens=tokens, output_tokens=tokens, cost_usd=0.0 if priced else None)

    def _polls(self, request: PollCancel, snapshot: Snapshot) -> Iterable[Event]:
        times = self._times(snapshot)
        if request.not_before is not None:
            times = (*times, request.not_before)
        return self._made(_polls, times)

    def _turns(self, request: AskModel | InterruptModel, snapshot: Snapshot) -> Iterable[Event]:
        return self._made(_replies, self._times(snapshot), request.step, _used_before(snapshot))

    def _results(self, request: StartCalls | InterruptCalls, snapshot: Snapshot) -> Iterable[Event]:
        return self._made(_ends, self._times(snapshot), request.calls)

    def _verdicts(self, request: AskApproval, snapshot: Snapshot) -> Iterable[Event]:
        return self._made(_words, self._times(snapshot, waits=True), request.calls)

    def _resolutions(self, request: ResolveCalls, snapshot: Snapshot) -> Iterable[Event]:
        return self._made(_findings, self._times(snapshot, waits=True), request.calls)

    def _made(self, make: Callable[..., Iterator[Event]], times: tuple[float, ...], *what: Any) -> tuple[Event, ...]:
        """The events at each of the times, made once."""
        wanted = (make, times, *what)
        if wanted not in self._memo:
            self._memo[wanted] = tuple([event for at in dict.fromkeys(times) for event in make(self, at, *what)])
        return self._memo[wanted]


_WAITS: Constant = (AskApproval, ResolveCalls)  #: for a person
ANSWERS: Constant[dict[type[Any], Any]] = {
    PollCancel: World._polls,
    AskModel: World._turns,
    InterruptModel: World._turns,
    StartCalls: World._results,
    InterruptCalls: World._results,
    AskApproval: World._verdicts,
    ResolveCalls: World._resolutions,
}


def _used_before(snapshot: Snapshot) -> str | None:
    """An id that was used before in the run: one that the snapshot does not hold, if there is such."""
    asked = [call.id for one in snapshot.history.entries if type(one) is Exchange for call in one.turn.calls]
    unknown = (own for own in asked if own not in snapshot.ids)
    return next(unknown, next(iter(snapshot.ids), None))


# --- what can happen --------------------------------------------------------------------------------------


def _polls(world: World, at: float) -> Iterator[Event]:
    yield CancelPolled(False, at=at)
    yield CancelPolled(True, "enough", at=at)


def _cancels(world: World, at: float) -> Iterator[Event]:
    yield CancelRequested("enough", at=at)


def _hosts(world: World, at: float, fresh: bool) -> Iterator[Event]:
    """Another host, whose clock is the same or another, with or without a new budget."""
    for budget in (None, world.second) if fresh and world.second is not None else (None,):
        yield Resumed(budget, at=at)


def _replies(world: World, at: float, step: int, old: str | None) -> Iterator[Event]:
    """Everything that asking the model can bring in a step, where ``old`` is an id used before."""
    some = (call("once", f"s{step}", step, 0),)
    first = step == 1  # what can't all be tried at every step is another at the first than at the others
    turns: list[dict[str, Any]] = [
        {"text": "the answer", "stop": "stop" if first else "end_turn"},
        {"text": " ", "stop": "stop"},
        {"fault": "calls[0].name: it is blank", "text": "" if first else "so", "calls": some},
        {"text": "no", "stop": "refusal", "calls": some if first else ()},
        {"text": "cut", "stop": "length" if first else "max_tokens", "calls": some if first else ()},
    ]
    for kinds in world.batches:
        turns.append({"calls": tuple(_called(world, kind, step, place) for place, kind in enumerate(kinds))})
    again = call("once", f"s{step}p0", step, 0)
    turns.append({"calls": (again, attrs.evolve(again, place=1))})  # an id twice in one turn
    if old is not None:
        turns.append({"calls": (call("once", old, step, 0), call("read", f"s{step}p1", step, 1))})
    for turn, usage in product(turns, world.usages):
        yield ModelReplied(Turn(usage=usage, **turn), at=at)
    yield ModelFailed("down", at=at)
    yield ModelFailed("late", retryable=first, timed_out=True, usage=None if first else world.usages[-1], at=at)
    yield ModelFailed("busy", retryable=True, at=at)
    yield ModelFailed("busy", retryable=True, retry_after=WAIT, usage=world.usages[-1], at=at)


def _called(world: World, kind: str, step: int, place: int) -> Call:
    one = call(kind, f"s{step}p{place}", step, place)
    return attrs.evolve(one, limit=world.limit) if one.limit else one


#: The other outcomes of a tool that ran: of calls at even places, and at odd ones.
_OTHERS: Constant = (("denied", "timed_out"), ("interrupted", "unknown"))


def _ends(world: World, at: float, calls: tuple[Call, ...]) -> Iterator[Event]:
    """Everything that can become of a running call; at a later time it was slow."""
    for one in calls:
        done, broke = CallResult.of(one, "ok", "done"), CallResult.of(one, "failed", "it broke")
        yield CallReturned(done, at=at)
        yield CallReturned(broke, at=at)
        for outcome in () if world.policy.max_identical_turns else _OTHERS[one.place % 2]:
            yield CallReturned(CallResult.of(one, outcome, "it broke"), at=at)
        if world.policy.max_identical_turns == 1 and one.place == 0:  # or it would take too long
            yield CallReturned(CallResult.of(one, "ok", "other"), at=at)
        yield CallLost(one.step, one.place, at=at)
        for place, usage in enumerate(world.usages if len(world.usages) > 1 else ()):  # of a sub-run: told or not
            yield CallReturned(broke if place % 2 else done, Usage() if usage is None else usage, at=at)
        if len(world.usages) > 1 and not world.policy.max_identical_turns:
            yield CallLost(one.step, one.place, world.loss if one.place % 2 else world.usages[-1], at=at)


def _words(world: World, at: float, calls: tuple[Call, ...]) -> Iterator[Event]:
    """Every way to decide one or more calls."""
    for words in product((True, False, None), repeat=len(calls)):
        told = zip(calls, words, strict=True)
        decisions = [Decision(one.step, one.place, word) for one, word in told if word is not None]
        if decisions:
            yield ApprovalGiven(decisions, at=at)


def _findings(world: World, at: float, calls: tuple[Call, ...]) -> Iterator[Event]:
    """Every way to resolve one or more lost calls."""
    for fates in product(("rerun", "found", "unknown", None), repeat=len(calls)):
        told = zip(calls, fates, strict=True)
        resolutions = [_resolution(world, one, fate) for one, fate in told if fate is not None]
        if resolutions:
            yield CallsResolved(resolutions, at=at)
    if len(world.usages) > 1:
        yield CallsResolved([_resolution(world, calls[0], "unknown")], world.usages[-1], at=at)


def _resolution(world: World, lost: Call, fate: str) -> Resolution:
    brought = CallResult.of(lost, "failed" if lost.place % 2 else "ok", "done")
    found = attrs.evolve(brought, usage=world.usages[-1]) if fate == "found" else None
    return Resolution(lost.step, lost.place, fate == "rerun", found)
