"""Messages that a caller hands in, in a wire's shape, as the history that they are. What is not paired is refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import attrs

from loopmachine.frozen import freeze, thaw
from loopmachine.history import Entry, History
from loopmachine.kinds import CALLS, FINAL
from loopmachine.records import CallResult, Exchange, Final, Note, Turn, UserMessage
from loopmachine.rules import free_id
from loopmachine.wire.fields import Unreadable, filled, mapping

Message = dict[str, Any]


@attrs.frozen
class System:
    """System text, which stands in front of all else."""

    text: str


@attrs.frozen
class Said:
    """What the model said; where it ``joins``, what follows it is of the same turn."""

    message: Message
    joins: bool = False


@attrs.frozen
class Brought:
    """What a call brought. A blank id is that of the first call that waits."""

    id: str
    content: str
    outcome: str = "ok"
    blocks_text: str | None = None


Piece = System | UserMessage | Note | Said | Brought


class Shape(Protocol):
    """What is needed of a wire."""

    def pieces(self, message: Message) -> Iterable[Piece]:
        """What a message is; Unreadable where it is none of the wire's."""

    def reply(self, said: list[Message]) -> object:
        """What the model said, as a reply."""

    def decode(self, reply: object) -> Turn:
        """The turn of a reply."""


def history(shape: Shape, messages: Iterable[object]) -> tuple[History, str | None]:
    """The history that these messages are, and the system text among them.

    Raises ValueError, with a sentence that names the message, where one is none of the wire's, where a call has not
    exactly one result right after its turn, where an id is used twice, or where the model has the last word.
    """
    reader = _Reader(shape)
    try:
        for at, message in enumerate(messages):
            reader.at = f"messages[{at}]"
            for piece in shape.pieces(thaw(freeze(mapping(message)))):
                reader.take(piece)
        return reader.whole()
    except (Unreadable, TypeError, ValueError, RecursionError) as wrong:
        raise ValueError(f"{reader.at}: {wrong}") from None


def opened(
    shape: Shape, prompt: Any, before: History | None, system: str | None
) -> tuple[Any, History | None, str | None]:
    """A prompt that is a list of messages, as more of the history and as system text; another stays what it is."""
    if not isinstance(prompt, list | tuple):
        return prompt, before, system
    said, own = history(shape, prompt)
    if own and system:
        raise ValueError("system: the messages of the prompt hold system text, beside which none can be given")
    return None, said if before is None else History([*before.entries, *said.entries]), system or own


class _Reader:
    """Puts the pieces together."""

    def __init__(self, shape: Shape) -> None:
        self.at = "messages"
        self._shape = shape
        self._system: list[str] = []
        self._entries: list[Entry] = []
        self._said: list[Message] = []
        self._began = ""  #: where that begins
        self._turn: Turn | None = None  #: whose calls wait
        self._results: dict[str, CallResult] = {}
        self._ids: set[str] = set()

    def take(self, piece: Piece) -> None:
        """Take what a message is."""
        if not (isinstance(piece, Said) and piece.joins):
            self._end_turn()
        if isinstance(piece, Brought):
            self._answer(piece)
            return
        self._must_not_wait("nothing goes in front of their results or between them")
        match piece:
            case Said():
                self._began = self._began if self._said else self.at
                self._said.append(piece.message)
                if not piece.joins:
                    self._end_turn()
            case System():
                if self._entries:
                    raise Unreadable("system text stands in front of all other messages")
                self._system.append(piece.text)
            case _:
                self._entries.append(piece)

    def whole(self) -> tuple[History, str | None]:
        """All of it."""
        self._end_turn()
        self._must_not_wait("each has one right after its turn")
        if not self._entries or isinstance(self._entries[-1], Final):
            raise Unreadable("the last must be the user's, or a result, for the model to go on from")
        return History(self._entries), "\n\n".join(self._system) or None

    def _must_not_wait(self, rule: str) -> None:
        if self._turn is not None:
            waiting = ", ".join(repr(call.id) for call in self._turn.calls if call.id not in self._results)
            raise Unreadable(f"the calls {waiting} have no result; {rule}")

    def _end_turn(self) -> None:
        """Take what the model said as a turn, if it said anything."""
        said, self._said = self._said, []
        if not said:
            return
        at, self.at = self.at, self._began
        turn = self._shape.decode(self._shape.reply(said))
        if turn.kind == FINAL:
            self._entries.append(Final(turn))
        elif turn.kind == CALLS:
            self._turn = self._identified(turn)
        else:
            raise Unreadable(f"it is no turn to go on from: {turn.fault or turn.kind}")
        self.at = at

    def _identified(self, turn: Turn) -> Turn:
        """The turn with an id for each call; its tools are the caller's own word."""
        calls = []
        for call in turn.calls:
            own = call.id or free_id(call, self._ids)
            if own in self._ids:
                raise Unreadable(f"the id {own!r} was used before")
            self._ids.add(own)
            calls.append(attrs.evolve(call, id=own, known=True))
        return attrs.evolve(turn, calls=tuple(calls))

    def _answer(self, piece: Brought) -> None:
        turn = self._turn
        waiting = [call for call in turn.calls if call.id not in self._results] if turn else []
        call = next((one for one in waiting if piece.id in ("", one.id)), None)
        if turn is None or call is None:
            raise Unreadable(f"{piece.id!r} answers no call that waits for its result")
        result = CallResult.of(call, piece.outcome, piece.content)
        self._results[call.id] = attrs.evolve(result, blocks_text=piece.blocks_text)
        if len(waiting) == 1:
            self._entries.append(Exchange(turn, tuple(self._results[one.id] for one in turn.calls)))
            self._turn, self._results = None, {}


def heard(message: Message, text: str, plain: Message, wire: str) -> UserMessage:
    """What the user said. If it is more than ``plain``, its text, it is sent over this wire as it is."""
    if message == plain:
        return UserMessage(filled(text, "text"))
    return UserMessage(text if text.strip() else "(this is no text)", freeze(message), wire)
