"""A run advance by advance, each with what its events and requests had told until then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from loopmachine.definition import Definition, State
from loopmachine.events import Event
from loopmachine.machine import Advance, added, advance
from loopmachine.records import Call, Snapshot
from loopmachine.requests import AskModel, CallsRequest, PollCancel, ResolveCalls, StartCalls
from loopmachine.review.account import Account
from loopmachine.review.answers import left
from loopmachine.review.shown import Shown
from loopmachine.table import TOOL_LOOP

_NO_CALLS: tuple[Call, ...] = ()


@attrs.define(init=False)  # not frozen: it is read more often than anything else, and nobody keeps it
class Move:
    """One advance of a run, with what its events and requests had told before it. ``Move.of`` makes one."""

    definition: Definition = attrs.field(repr=False)
    before: Snapshot  #: the snapshot that the event was told to
    event: Any  #: what happened
    after: Snapshot  #: the snapshot that the event led to
    asked: tuple[Any, ...] = attrs.field(repr=False)  #: the requests outstanding before
    asking: tuple[Any, ...]  #: the requests outstanding now
    known: Account = attrs.field(repr=False)  #: before the event
    left_before: int  #: the most answers that the run could take before it
    asks_model: bool  #: the model is newly asked for
    starts: tuple[Call, ...]  #: the calls that are newly to be started
    resolves: tuple[Call, ...]  #: the calls that somebody is newly asked about: what became of them
    about_calls: bool  #: some are or were open, or are newly asked about
    new_history: bool  #: that of the snapshot is not the one before
    state: State = attrs.field(repr=False)  #: that it led to
    left: int  #: the most answers that the run can still take
    shown: Shown = attrs.field(repr=False)  #: what it did to calls, as the snapshots show it
    heard: Account  #: with the event
    admitted: Account  #: with the calls that were admitted at it, too
    told: Account  #: with what is asked for and answered, too
    _requests: tuple[Any, ...] | None  #: once somebody looked

    def __init__(
        self,
        definition: Definition,
        before: Snapshot,
        event: Any,
        after: Snapshot,
        asked: tuple[Any, ...],
        asking: tuple[Any, ...],
        known: Account,
        left_before: int,
    ) -> None:
        self.definition, self.before, self.event, self.after = definition, before, event, after
        self.asked, self.asking, self.known, self.left_before = asked, asking, known, left_before
        self._requests = None
        asks_model, starts, resolves, about_calls = False, _NO_CALLS, _NO_CALLS, False
        for request in () if _polls(asking) else self.requests:
            if type(request) is AskModel:
                asks_model = True
            elif isinstance(request, CallsRequest):
                about_calls = True
                if type(request) is StartCalls:
                    starts = request.calls
                elif type(request) is ResolveCalls:
                    resolves = request.calls
        shown = Shown.between(before, after)
        heard = known.heard(event, asked)
        if before.state not in TOOL_LOOP.states:  # whether a rest of somebody's own waits for a person, who knows
            heard = heard.but(since=after.since)
        admitted = heard.admitting(shown) if shown.admitted else heard
        self.asks_model, self.starts, self.resolves = asks_model, starts, resolves
        self.about_calls = about_calls or admitted.fates != ()
        self.new_history = after.history is not before.history
        self.state = state = definition.states[after.state]
        self.left = left(state, after)
        self.shown, self.heard, self.admitted = shown, heard, admitted
        self.told = admitted.following(asks_model, starts, shown, after)

    @classmethod
    def of(
        cls, definition: Definition, before: Snapshot, advance: Advance, known: Account, left_before: int | None = None
    ) -> Move:
        """The move of an advance from the snapshot before it, where the run had told what is ``known``."""
        answers = left(definition.states[before.state], before) if left_before is None else left_before
        return cls(definition, before, advance.event, advance.snapshot, advance.asked, advance.asking, known, answers)

    @property
    def rows(self) -> tuple[str, ...]:
        """The rows that it took."""
        return self.after.log.latest

    @property
    def requests(self) -> tuple[Any, ...]:
        """What it asks for newly."""
        if self._requests is None:
            self._requests = added(self.asked, self.event, self.asking)
        return self._requests

    @property
    def finished(self) -> bool:
        """It ended the run."""
        return self.state.final is not None

    @property
    def status(self) -> str:
        """The name of the state that it led to, without ``finished_``."""
        return self.state.status

    def then(self, advanced: Advance) -> Move:
        """The move that follows this one."""
        return Move.of(self.definition, self.after, advanced, self.told, self.left)


def _polls(asking: tuple[Any, ...]) -> bool:
    """Nothing but polls is asked for, as in most moves."""
    for request in asking:
        if type(request) is not PollCancel:
            return False
    return True


def moves(definition: Definition, start: Snapshot, events: Iterable[Event], *, sealed: bool = False) -> Iterator[Move]:
    """The run that these events give from its first snapshot on. Raises UnexpectedEvent."""
    snapshot, account = start, Account.of(start, sealed=sealed)
    for event in events:
        move = Move.of(definition, snapshot, advance(definition, snapshot, event), account)
        yield move
        snapshot, account = move.after, move.told
