"""What the machine wants its host to do, in the imperative; and, state by state, what is outstanding.

The outstanding requests are a function of the snapshot. A request says which events answer it and which of
them fit: nothing is taken that was not asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any, ClassVar, Self

import attrs

from loopmachine import rules
from loopmachine.events import (
    ApprovalGiven,
    CallLost,
    CallReturned,
    CallsResolved,
    CancelPolled,
    Event,
    ModelFailed,
    ModelReplied,
)
from loopmachine.quick import quick
from loopmachine.records import LOST, QUEUED, RUNNING, Call, CallResult, Snapshot

Key = tuple[int, int]


class Request:
    """The root of all requests."""

    __slots__ = ()
    answered_by: ClassVar[tuple[type[Event], ...]] = ()

    def misfit(self, event: Any) -> str:
        """Why this event, of a type that answers this request, does not fit it; blank where it does."""
        return ""

    def news(self, before: tuple[Request, ...], event: object) -> Self | None:
        """What of this request was not outstanding before, or was answered by this event and is asked again."""
        return self if isinstance(event, self.answered_by) or self not in before else None


@quick
@attrs.frozen
class PollCancel(Request):
    """Look whether the run is to be cancelled; wait until ``not_before`` (or until it is cancelled) first."""

    answered_by: ClassVar[tuple[type[Event], ...]] = (CancelPolled,)
    not_before: float | None = None  #: on the clock of ``at``


def _misplaced(self: AskModel | InterruptModel, event: Any) -> str:
    """Why the calls of a reply do not bear the identity that they have in this step."""
    step = self.step
    for place, call in enumerate(event.turn.calls if type(event) is ModelReplied else ()):
        if call.step != step or call.place != place:
            return f"call {place} is of step {call.step}, place {call.place}, not of step {step}, place {place}"
    return ""


@quick
@attrs.frozen
class AskModel(Request):
    """Ask the model, by the deadline. ``Loop`` adds messages, tools and system in the wire's shape."""

    answered_by: ClassVar[tuple[type[Event], ...]] = (ModelReplied, ModelFailed)
    step: int
    tool_choice: str = "auto"  #: "auto", or "none" where no tools are offered
    deadline: float | None = None  #: on the clock of ``at``
    messages: Any = attrs.field(default=(), eq=False, repr=False)
    tools: Any = attrs.field(default=(), eq=False, repr=False)
    system: Any = attrs.field(default=None, eq=False, repr=False)
    cancel: Any = attrs.field(default=None, eq=False, repr=False)  #: a token: the run's cancel, or its end
    clock: Callable[[], float] = attrs.field(default=time.monotonic, eq=False, repr=False)  #: that of the deadline

    misfit = _misplaced


@attrs.frozen
class InterruptModel(Request):
    """Cut the model short; its outcome is still wanted."""

    answered_by: ClassVar[tuple[type[Event], ...]] = (ModelReplied, ModelFailed)
    step: int

    misfit = _misplaced


def _stray(keys: Collection[Key], calls: tuple[Call, ...], what: str) -> str:
    asked = [call.key for call in calls]
    if not keys:
        return f"it decides nothing; {what} are {asked}"
    if len(set(keys)) != len(keys):
        return "it names a call twice"
    stray = [key for key in keys if key not in asked]
    return f"{stray} are not among the calls that are {what}, {asked}" if stray else ""


@attrs.frozen
class CallsRequest(Request):
    """A request about calls, each of which is outstanding by itself."""

    calls: tuple[Call, ...]

    def news(self, before: tuple[Request, ...], event: object) -> Self | None:
        old = {call.key for one in before if type(one) is type(self) for call in one.calls}
        if not old:
            return self
        calls = tuple(call for call in self.calls if call.key not in old)
        return attrs.evolve(self, calls=calls) if calls else None


def _not_running(self: StartCalls | InterruptCalls, event: Any) -> str:
    """Why an event does not tell of one of the running calls."""
    if type(event) is CallLost:
        return _stray([(event.step, event.place)], self.calls, "running")
    result = event.result
    for call in self.calls:
        if call.place == result.place and call.step == result.step:
            return _of_another(call, result)
    return _stray([result.key], self.calls, "running")


@quick
@attrs.frozen
class StartCalls(CallsRequest):
    """Run these calls, by the deadline."""

    answered_by: ClassVar[tuple[type[Event], ...]] = (CallReturned, CallLost)
    deadline: float | None = None  #: on the clock of ``at``

    misfit = _not_running


@attrs.frozen
class InterruptCalls(CallsRequest):
    """Cut these running calls short; their outcomes are still wanted."""

    answered_by: ClassVar[tuple[type[Event], ...]] = (CallReturned, CallLost)

    misfit = _not_running


def _of_another(call: Call, result: CallResult) -> str:
    """Why a result is not that of a call; blank where it is."""
    same = call.place == result.place and call.step == result.step
    if same and (call.sent_id or call.id) == result.id and call.name == result.name:
        return ""
    return f"{call.key} is the call {call.wire_id!r} of {call.name}, not {result.key} {result.id!r} of {result.name}"


@attrs.frozen
class AskApproval(CallsRequest):
    """Ask somebody whether these calls may run."""

    answered_by: ClassVar[tuple[type[Event], ...]] = (ApprovalGiven,)

    def misfit(self, event: Any) -> str:
        return _stray([(word.step, word.place) for word in event.decisions], self.calls, "undecided")


@attrs.frozen
class ResolveCalls(CallsRequest):
    """Find out what became of these lost calls."""

    answered_by: ClassVar[tuple[type[Event], ...]] = (CallsResolved,)

    def misfit(self, event: Any) -> str:
        lost = {call.key: call for call in self.calls}
        for word in event.resolutions:
            key = word.step, word.place
            if word.result is not None and key in lost:
                if word.rerun:
                    return f"the resolution of {key} brings a result and a rerun; it can be one of them"
                if why := _of_another(lost[key], word.result):
                    return f"the resolution brings another call's result: {why}"
        return _stray([(word.step, word.place) for word in event.resolutions], self.calls, "lost")


# --- what the states of the tool-calling loop ask -------------------------------------------------------


_POLL: tuple[Request, ...] = (PollCancel(),)


def poll_when_due(snapshot: Snapshot) -> tuple[Request, ...]:
    """A poll, after the pause that a failing provider asked for, which the deadline ends."""
    if snapshot.not_before is None:
        return _POLL
    deadline = snapshot.deadline
    return (PollCancel(snapshot.not_before if deadline is None else min(snapshot.not_before, deadline)),)


def poll_now(snapshot: Snapshot) -> tuple[Request, ...]:
    """A poll."""
    return _POLL


def ask_model(snapshot: Snapshot) -> tuple[Request, ...]:
    """The model's turn, or its end once a cancel is remembered."""
    if snapshot.cancelled:
        return (InterruptModel(snapshot.steps),)
    return (AskModel(snapshot.steps, "none" if snapshot.wrapping else "auto", snapshot.deadline),)


def ask_approval(snapshot: Snapshot) -> tuple[Request, ...]:
    """A word on every call that needs approval and has none."""
    return (AskApproval(rules.undecided(snapshot)),)


def run_calls(snapshot: Snapshot) -> tuple[Request, ...]:
    """The running calls, or their end once stopping; and a poll while a queued call has a free place."""
    running: list[Call] = []
    polls: tuple[Request, ...] = ()
    for flight in snapshot.flights:
        if flight.phase == RUNNING:
            running.append(flight.call)
        elif flight.phase == QUEUED and not polls and rules.startable(snapshot):
            polls = _POLL
    if not running:
        return polls
    calls = tuple(running)
    if rules.stopping(snapshot, snapshot.clock):
        return (InterruptCalls(calls), *polls)
    return (StartCalls(calls, snapshot.deadline), *polls)


def resolve_calls(snapshot: Snapshot) -> tuple[Request, ...]:
    """A word on every lost call."""
    return (ResolveCalls(tuple(flight.call for flight in snapshot.flights if flight.phase == LOST)),)
