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


@attrs.frozen(slots=False)
class Move(Record):
    """One advance of a run, with what was known before it. Its accounts are made from ``known``."""

    definition: Definition = attrs.field(repr=False)
    before: Snapshot  #: the snapshot that the event was told to
    advance: Advance
    known: Account  #: before the event
    heard: Account = attrs.field(init=False)  #: with the event
    admitted: Account = attrs.field(init=False)  #: with the calls that were admitted at it, too
    told: Account = attrs.field(init=False)  #: with what was asked for, too

    def __attrs_post_init__(self) -> None:
        fields = self.__dict__
        fields["heard"] = heard = self.known.heard(self.advance)
        fields["admitted"] = admitted = heard.admitting(self.before, self.after)
        fields["told"] = admitted.asking(self.before, self.advance)

    @property
    def after(self) -> Snapshot:
        """The snapshot that the event led to."""
        snapshot: Snapshot = self.advance.snapshot
        return snapshot

    @property
    def event(self) -> Any:
        """What happened."""
        return self.advance.event

    @property
    def asks_model(self) -> bool:
        """It asks the model."""
        return any(isinstance(request, AskModel) for request in self.advance.requests)

    @property
    def starts(self) -> tuple[Call, ...]:
        """The calls that it starts."""
        return tuple(
            call for request in self.advance.requests if isinstance(request, StartCalls) for call in request.calls
        )

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
