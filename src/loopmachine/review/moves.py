"""A run advance by advance, each with what its events and requests had told until then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from loopmachine.definition import Definition
from loopmachine.events import Event
from loopmachine.machine import Advance, advance
from loopmachine.records import Call, Record, Snapshot
from loopmachine.requests import AskModel, StartCalls
from loopmachine.review.account import Account
from loopmachine.review.shown import Shown

_NO_CALLS: tuple[Call, ...] = ()


@attrs.frozen(slots=False)
class Move(Record):
    """One advance of a run, with what its events and requests had told before it. The rest is made of these."""

    definition: Definition = attrs.field(repr=False)
    before: Snapshot  #: the snapshot that the event was told to
    advance: Advance = attrs.field(repr=False)
    known: Account = attrs.field(repr=False)  #: before the event
    event: Any = attrs.field(init=False)  #: what happened
    after: Snapshot = attrs.field(init=False)  #: the snapshot that the event led to
    requests: tuple[Any, ...] = attrs.field(init=False)  #: what it asks for
    asks_model: bool = attrs.field(init=False)  #: the model among it
    starts: tuple[Call, ...] = attrs.field(init=False)  #: the calls among it that are to be started
    shown: Shown = attrs.field(init=False, repr=False)  #: what it did to calls, as the snapshots show it
    heard: Account = attrs.field(init=False)  #: with the event
    admitted: Account = attrs.field(init=False)  #: with the calls that were admitted at it, too
    told: Account = attrs.field(init=False)  #: with what is asked for and answered, too

    def __attrs_post_init__(self) -> None:
        fields, advanced, before = self.__dict__, self.advance, self.before
        fields["event"] = advanced.event
        fields["after"] = after = advanced.snapshot
        fields["requests"] = requests = advanced.requests
        asks_model, starts = False, _NO_CALLS
        for request in requests:
            if type(request) is AskModel:
                asks_model = True
            elif type(request) is StartCalls:
                starts = request.calls
        fields["asks_model"], fields["starts"] = asks_model, starts
        fields["shown"] = shown = Shown.between(before, after)
        fields["heard"] = heard = self.known.heard(advanced)
        fields["admitted"] = admitted = heard.admitting(shown)
        fields["told"] = admitted.asking(asks_model, starts).answering(shown, after)

    @property
    def finished(self) -> bool:
        """It ended the run."""
        return self.definition.states[self.after.state].final is not None

    @property
    def status(self) -> str:
        """The name of the state that it led to, without ``finished_``."""
        return self.definition.states[self.after.state].status

    def then(self, advanced: Advance) -> Move:
        """The move that follows this one."""
        return Move(self.definition, self.after, advanced, self.told)


def moves(definition: Definition, start: Snapshot, events: Iterable[Event], *, sealed: bool = False) -> Iterator[Move]:
    """The run that these events give from its first snapshot on. Raises UnexpectedEvent."""
    snapshot, account = start, Account.of(start, sealed=sealed)
    for event in events:
        move = Move(definition, snapshot, advance(definition, snapshot, event), account)
        yield move
        snapshot, account = move.after, move.told
