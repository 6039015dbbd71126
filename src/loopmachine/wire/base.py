"""The face that every wire has. A wire is one message shape: it writes a history in it, and reads a reply of it."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, get_args
from typing import Final as Constant

import attrs

from loopmachine.blocks import MediaType
from loopmachine.codec import misfits, must_be
from loopmachine.frozen import thaw, whole
from loopmachine.history import Entry, History
from loopmachine.kinds import CALLS, FINAL
from loopmachine.limits import Usage
from loopmachine.records import Call, Exchange, Final, Note, Turn, UserMessage
from loopmachine.rules import free_id
from loopmachine.wire import given
from loopmachine.wire.fields import Asked, Names, Unreadable, aborts, as_asked, filled, is_deep, sent_text
from loopmachine.wire.framing import Chunk, Reader
from loopmachine.wire.stream import Accumulator, Replies

#: What stands for the beginning of a history that was cut, or handed in without one, where the user has to begin.
LEFT_OUT: Constant = "(What was said before is left out.)"
#: What stands between an answer and calls that follow it, where these have to follow something of the user's.
NOT_ASKED: Constant = "(The user said nothing in between.)"
_TOOL: Constant = 'a mapping {"name", "description", "input_schema"}'
_TOOLS: Constant = f"a list of tools, each {_TOOL}"


@attrs.frozen
class Encoded:
    """What a model is sent, in the shape of a wire: all of it fresh plain JSON."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    system: Any = None  #: the system text where the wire takes it apart from the messages


class Wire(ABC):
    """One message shape."""

    name: ClassVar[str]
    #: Servers refuse a history with calls that comes without the tools: to offer none, send tool choice "none".
    needs_schemas: ClassVar[bool] = False
    needs_ids: ClassVar[bool] = False  #: a call without an id is malformed, and gets none made up
    images: ClassVar[tuple[str, ...]] = ()  #: that a user's message may hold

    def __repr__(self) -> str:
        return f"<wire {self.name}>"

    def encode(self, history: History, tools: Iterable[Mapping[str, Any]] = (), system: str | None = None) -> Encoded:
        """A history, the tools (each as ``{"name", "description", "input_schema"}``) and the system text."""
        must_be("history", history, History, "a History, which wire.history(messages) makes of messages")
        must_be("system", system, str | None)
        messages, ids = self.lead(system), set[str]()
        for place in range(len(history.entries)):
            messages += self.placed(history.entries, place, ids)
        return Encoded([thaw(sent_text(message)) for message in messages], self.offer(tools), self.aside(system))

    def lead(self, system: str | None) -> list[dict[str, Any]]:
        """The messages that come before the history. A system text that says nothing is none."""
        return []

    def aside(self, system: str | None) -> Any:
        """The system text where the wire takes it apart from the messages, else None."""
        return None

    @abstractmethod
    def entry(self, entry: Entry) -> list[dict[str, Any]]:
        """One entry of a history: a user message, an exchange, a note or the final. TypeError for another.

        Its ids are sent as they are: those of a whole history are made distinct before.
        """

    def placed(self, entries: Sequence[Entry], place: int, ids: set[str]) -> list[dict[str, Any]]:
        """One entry of a whole history: with an id used before, which are in ``ids``, made another."""
        return self.entry(distinct(entries[place], ids))

    def offer(self, schemas: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The tools, each given as ``{"name", "description", "input_schema"}``: all of it fresh plain JSON."""
        must_be("tools", schemas, Iterable, _TOOLS)
        told = list(schemas)
        for place, one in enumerate(told):
            must_be(f"tools[{place}]", one, Mapping, _TOOL)
        return [thaw(sent_text(tool)) for tool in self._offered([dict(one) for one in told])]

    def _offered(self, schemas: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The tools in the shape of the wire."""
        return schemas

    def decode(self, reply: object, calls: Callable[[tuple[Asked, ...]], tuple[Call, ...]] = as_asked) -> Turn:
        """The turn that a reply brings; a Turn is taken as it is, unless it is none that a reply could bring.

        Never raises an Exception: a reply that can't be read is a malformed turn whose ``fault`` begins with the
        field. Usage and stop reason are read first; after an abort reason no call is looked at. ``calls`` makes
        the calls of what is asked for, each given as its id, name and arguments text.
        """
        if type(reply) is Turn:
            return self._as_is(reply)
        text, stop, fault = "", "", ""
        usage: Usage | None = None
        payload: str | None = None
        asked: tuple[Asked, ...] = ()
        try:
            body = self._body(reply)
            usage = self._usage(body)
            stop = self._stop(body)
            aborted = bool(stop) and aborts(stop)
            if aborted and (words := self._words(body)):
                fault = f"the provider stopped it: {stop}: {words[:500]}"
            payload = self._payload(body)
            said = body if payload is None else thaw(payload)
            text = self._text(said)
            if not aborted:
                asked = self._calls(said)
        except Unreadable as wrong:
            fault = fault or str(wrong)
        except Exception as error:
            fault = f"reply: reading it raises {type(error).__name__}"
        return Turn(text, calls(asked) if asked else (), stop, usage, payload, self.name, fault)

    def _as_is(self, turn: Turn) -> Turn:
        """A turn that a model made, or a malformed one where it is not of its types or can't be sent back."""
        kept: dict[str, Any] = {}
        try:
            wrong = dict(misfits(turn, Turn))
            fault = "; ".join(f"{path}: it {said}" for path, said in wrong.items())
            misfit = {path.partition(".")[0] for path in wrong}
            kept = {field: getattr(turn, field) for field in ("text", "stop", "usage") if field not in misfit}
            if not fault and turn.kind in (CALLS, FINAL):
                self._check_sendable(turn)
        except Unreadable as unreadable:
            fault = str(unreadable)
        except Exception as error:
            fault = f"reply: reading it raises {type(error).__name__}"
        return Turn(**kept, wire=self.name, fault=fault) if fault else turn

    def _check_sendable(self, turn: Turn) -> None:
        """Unreadable where a history could not be sent that holds the turn."""
        for place, call in enumerate(turn.calls):
            filled(call.name, f"calls[{place}].name")
            if self.needs_ids:
                filled(call.id, f"calls[{place}].id")
        try:
            thaw(turn.payload_text or "{}")
        except (ValueError, RecursionError):
            raise Unreadable("payload_text: it is no JSON") from None
        if is_deep(turn.payload_text or ""):
            raise Unreadable("payload_text: lists and objects nest too deep in it")

    def read(self, byte_chunks: Iterable[bytes]) -> Iterator[Chunk]:
        """The decoded chunks of a body, however the network cut it. For clients that push bytes there is ``Reader``."""
        reader = Reader()
        for data in byte_chunks:
            yield from reader.feed(data)
        yield from reader.close()

    def history(self, messages: Iterable[object], *, rename: bool = False) -> tuple[History, str | None]:
        """The history that messages in the wire's shape are, and the system text among them.

        An id that was used before is refused or, if ``rename``, sent as another, the same in call and result. Raises
        ValueError, with a sentence that names the message, where one is none of the wire's or says nothing, where a
        call has not exactly one result right after its turn, or where the model has the last word.
        """
        return given.history(self, messages, rename=rename)

    def pieces(self, message: dict[str, Any]) -> Iterable[given.Piece]:
        """What a message handed in is; Unreadable where it is none of the wire's."""
        raise Unreadable(f"the wire {self.name!r} takes no list of messages")

    def reply(self, said: list[dict[str, Any]]) -> object:
        """What the model said in messages handed in, as a reply."""
        return said[0]

    def stream(self) -> Accumulator:
        """What puts the chunks of one streamed reply together."""
        return Replies(self.decode)

    @abstractmethod
    def _body(self, reply: object) -> Any:
        """The reply as the methods below read it, which raise Unreadable where they can't."""

    @abstractmethod
    def _usage(self, body: Any) -> Usage | None:
        """What was used; a value that can't be right is not reported."""

    @abstractmethod
    def _stop(self, body: Any) -> str:
        """The stop reason, word for word; blank where there is none."""

    def _words(self, body: Any) -> str:
        """What the provider says of a stop reason that aborts, beside it; blank where it says nothing."""
        return ""

    def _payload(self, body: Any) -> str | None:
        """The provider's own message as JSON text, which is then what is read; None where none goes back."""
        return None

    @abstractmethod
    def _text(self, said: Any) -> str:
        """What the model said, from its message."""

    @abstractmethod
    def _calls(self, said: Any) -> tuple[Asked, ...]:
        """What the model asks for, from its message, whose text was read."""


def distinct(entry: Entry, ids: set[str]) -> Entry:
    """The entry, sent with an id for each call that none before it has; ``ids`` are those, and get its own.

    Histories that a caller makes or joins may hold blank ids, and some twice, which servers refuse. ValueError for an
    exchange that does not hold the one result of each call, in the order of the calls.
    """
    if not isinstance(entry, Exchange):
        return entry
    calls, results = entry.turn.calls, entry.results
    if not calls:
        raise ValueError("an exchange holds a call and its result at least, and this one holds none")
    if len(calls) != len(results):
        raise ValueError(f"an exchange holds one result for each of its calls, not {len(results)} for {len(calls)}")
    for call, result in zip(calls, results, strict=True):
        if (call.key, call.name) != (result.key, result.name):
            raise ValueError(
                f"an exchange holds the results in the order of its calls: where that of {call.name!r} {call.key} "
                f"belongs (its step, its place in the turn) stands one of {result.name!r} {result.key}"
            )
    own = [one if (one := call.wire_id).isascii() else whole(one) for call in calls]  # as they are sent
    if (
        ids.isdisjoint(own)
        and len({*own}) == len(own)
        and own == [one.id for one in results]
        and all(map(str.strip, own))
    ):
        ids.update(own)
        return entry
    sent = list(calls)
    for place, one in enumerate(own):
        free = free_id(calls[place], ids, own) if one in ids or not one.strip() else one
        if free != calls[place].wire_id:
            sent[place] = attrs.evolve(calls[place], sent_id=free)
        ids.add(free)
    renamed = zip(sent, results, strict=True)
    return Exchange(
        attrs.evolve(entry.turn, calls=tuple(sent)),
        tuple(attrs.evolve(result, id=call.wire_id) for call, result in renamed),
    )


#: Servers answer: "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'", and "maximum length 64".
OPENAI_NAMES: Constant = Names("1 to 64 letters, digits, _ and -", re.compile(r"[A-Za-z0-9_-]{1,64}"))


def kept(said: Turn | UserMessage) -> Any:
    """The payload; None where there is none, or one that is no JSON, as a caller may make it by hand."""
    try:
        return said.payload
    except (ValueError, RecursionError):
        return None


_KNOWN: dict[str, type[ProviderWire]] = {}  #: by name, of which a record keeps whose shape its payload has


class ProviderWire(Wire):
    """The shape of a provider, in which a turn goes back as the provider sent it."""

    user_first: ClassVar[bool] = False  #: servers refuse messages that begin with the model's
    calls_after_user: ClassVar[bool] = False  #: servers refuse calls right after another message of the model's
    names: ClassVar[Names] = OPENAI_NAMES  #: that tools and calls may have
    images: ClassVar[tuple[str, ...]] = get_args(MediaType)
    reads: ClassVar[Mapping[str, given.Read]] = {}  #: what reads the texts and images of messages, by their type

    def placed(self, entries: Sequence[Entry], place: int, ids: set[str]) -> list[dict[str, Any]]:
        messages = super().placed(entries, place, ids)
        if place == 0:
            stands = LEFT_OUT if self.user_first and messages[0]["role"] != "user" else ""
        else:
            asks = isinstance(entries[place], Exchange) and isinstance(entries[place - 1], Final)
            stands = NOT_ASKED if self.calls_after_user and asks else ""
        return [self._heard(stands), *messages] if stands else messages

    def entry(self, entry: Entry) -> list[dict[str, Any]]:
        match entry:
            case UserMessage(wire=self.name) if self._is_users(told := kept(entry)):
                return [told]
            case UserMessage(payload_text=str()) if entry.text.strip():
                return [self._moved(entry)]
            case UserMessage() | Note() if entry.text.strip():
                return [self._heard(entry.text)]
            case Final() if entry.turn.text.strip():
                return self._said(entry.turn)
            case UserMessage() | Note() | Final():
                raise ValueError(f"a {type(entry).__name__} of a history must say something, and this one is blank")
            case Exchange():
                said = self._said(entry.turn)
                return [*said, *self._answered(entry, said)]
        raise TypeError(f"a history holds user messages, exchanges, notes and finals, not {type(entry).__name__}")

    def _is_users(self, message: Any) -> bool:
        """It is a message of the user's in this wire's shape."""
        if not isinstance(message, dict) or message.get("role") != "user":
            return False
        try:
            return all(isinstance(piece, UserMessage) for piece in self.pieces(message))
        except Exception:  # it may be anything, and fail in any way
            return False

    def _check_sendable(self, turn: Turn) -> None:
        super()._check_sendable(turn)
        try:
            said = self._again(turn)
            if turn.wire == self.name and (payload := turn.payload) is not None:
                self._text(payload)
                self._calls(payload)
        except Exception:  # a payload that a model made may be anything, and fail in any way: it is told, not hidden
            raise Unreadable(f"payload_text: it is not what {self.name} sends with these calls") from None
        if said is None:
            raise Unreadable("payload_text: it says nothing, and what is sent of the answer is the payload")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _KNOWN.setdefault(getattr(cls, "name", ""), cls)

    @classmethod
    def seen(cls, message: Any) -> list[dict[str, Any]]:
        """The texts and images of a user's message in this wire's shape, as the blocks of a result, for other wires."""
        return given.seen(message.get("content") if isinstance(message, dict) else None, cls.reads)

    def _moved(self, entry: UserMessage) -> dict[str, Any]:
        """The user's message of another wire: with its images where any can be sent, else its text."""
        blocks = carried(entry, self)
        pictured = any(one["kind"] == "image" for one in blocks)
        return self._shown(blocks) if pictured else self._heard(entry.text)

    def _shown(self, blocks: list[dict[str, Any]]) -> dict[str, Any]:
        """The user's message that holds these texts and images."""
        return {"role": "user", "content": list(map(self._block, blocks))}

    def _declared(self, schemas: list[dict[str, Any]]) -> list[tuple[str, str, Any]]:
        """The name, description and schema of each tool; ValueError for one that the provider would refuse."""
        return [self.names.declared(one, self.name) for one in schemas]

    @staticmethod
    @abstractmethod
    def _block(block: dict[str, Any]) -> dict[str, Any]:
        """A text or an image as a message holds it."""

    def _heard(self, text: str) -> dict[str, Any]:
        """The user's message."""
        return {"role": "user", "content": text}

    def _said(self, turn: Turn) -> list[dict[str, Any]]:
        """What the model said: of a turn made by hand, whose payload can't be what it was, its text and calls."""
        try:
            said = self._again(turn)
        except Exception:  # it may be anything, and fail in any way
            said = None
        return self._made(turn) if said is None else said

    def _again(self, turn: Turn) -> list[dict[str, Any]] | None:
        """What the model said, from its payload where this wire has one; None where that says nothing of its answer.

        Raises whatever comes of a payload that is not what the provider sends with these calls.
        """
        payload = turn.payload if turn.wire == self.name else None
        if payload is None:
            return self._made(turn)
        return self._replayed(payload, turn) if turn.calls or self._text(payload).strip() else None

    @abstractmethod
    def _replayed(self, payload: Any, turn: Turn) -> list[dict[str, Any]]:
        """What the model said from a fresh copy of its payload, in which a server refuses nothing."""

    @abstractmethod
    def _made(self, turn: Turn) -> list[dict[str, Any]]:
        """What the model said from its text and calls."""

    @abstractmethod
    def _answered(self, exchange: Exchange, said: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The results of all calls, in the order they were asked for; ``said`` is what they answer."""


def carried(entry: UserMessage, wire: Wire) -> list[dict[str, Any]]:
    """The texts and images of a user's message of another wire that this one can send, as the blocks of a result."""
    source = _KNOWN.get(entry.wire)
    blocks = [] if source is None else source.seen(kept(entry))
    return [one for one in blocks if one.get("media_type") in wire.images or one.get("text", "").strip()]


def carried_parts(entry: UserMessage, wire: Wire) -> list[dict[str, Any]]:
    """The same as the parts that the other wire would have for them."""
    source = _KNOWN.get(entry.wire)
    return [] if source is None else list(map(source._block, carried(entry, wire)))
