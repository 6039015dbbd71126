"""A run advance by advance, each with what its events and requests had told until then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from loopmachine.definition import Definition, State
from loopmachine.events import Event
from loopmachine.machine import Advance, advance
from loopmachine.records import Call, Snapshot
from loopmachine.requests import AskModel, StartCalls
from loopmachine.review.account import Account
from loopmachine.review.answers import left
from loopmachine.review.shown import Shown

_NO_CALLS: tuple[Call, ...] = ()


@attrs.define(init=False)  # not frozen: it is read more often than anything else, and nobody keeps it
class Move:
    """One advance of a run, with what its events and requests had told before it. The rest is made of these."""

    definition: Definition = attrs.field(repr=False)
    before: Snapshot  #: the snapshot that the event was told to
    advance: Advance = attrs.field(repr=False)
    known: Account = attrs.field(repr=False)  #: before the event
    left_before: int  #: the most answers that the run could take before it
    event: Any  #: what happened
    after: Snapshot  #: the snapshot that the event led to
    requests: tuple[Any, ...]  #: what it asks for
    asks_model: bool  #: the model among it
    starts: tuple[Call, ...]  #: the calls among it that are to be started
    state: State = attrs.field(repr=False)  #: that it led to
    left: int  #: the most answers that the run can still take
    shown: Shown = attrs.field(repr=False)  #: what it did to calls, as the snapshots show it
    heard: Account  #: with the event
    admitted: Account  #: with the calls that were admitted at it, too
    told: Account  #: with what is asked for and answered, too

    def __init__(
        self, definition: Definition, before: Snapshot, advance: Advance, known: Account, left_before: int | None = None
    ) -> None:
        event, after, requests = advance.event, advance.snapshot, advance.requests
        asks_model, starts = False, _NO_CALLS
        for request in requests:
            if type(request) is AskModel:
                asks_model = True
            elif type(request) is StartCalls:
                starts = request.calls
        shown = Shown.between(before, after)
        heard = known.heard(advance)
        admitted = heard.admitting(shown) if shown.admitted else heard
        state = definition.states[after.state]
        self.definition, self.before, self.advance, self.known = definition, before, advance, known
        self.left_before = left(definition.states[before.state], before) if left_before is None else left_before
        self.event, self.after, self.requests = event, after, requests
        self.asks_model, self.starts = asks_model, starts
        self.state, self.left = state, left(state, after)
        self.shown, self.heard, self.admitted = shown, heard, admitted
        self.told = admitted.following(asks_model, starts, shown, after)

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
        return Move(self.definition, self.after, advanced, self.told, self.left)


def moves(definition: Definition, start: Snapshot, events: Iterable[Event], *, sealed: bool = False) -> Iterator[Move]:
    """The run that these events give from its first snapshot on. Raises UnexpectedEvent."""
    snapshot, account = start, Account.of(start, sealed=sealed)
    for event in events:
        move = Move(definition, snapshot, advance(definition, snapshot, event), account)
        yield move
        snapshot, account = move.after, move.told
