"""Messages that a caller hands in, in a wire's shape, as the history that they are. What is not paired is refused."""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from reprlib import repr as shown
from typing import Any, Protocol
from typing import Final as Constant

import attrs
from msgspec import Struct

from loopmachine.blocks import ImageBlock, written
from loopmachine.frozen import freeze, thaw
from loopmachine.history import Entry, History
from loopmachine.kinds import CALLS, FINAL, REFUSED
from loopmachine.records import Call, CallResult, Exchange, Final, Note, Turn, UserMessage
from loopmachine.rules import free_id
from loopmachine.wire.fields import Unreadable, filled, frozen, is_silent, listed, mapping, optional, string

Message = dict[str, Any]


class System(Struct, frozen=True):
    """System text, which stands in front of all else."""

    text: str


class Said(Struct, frozen=True):
    """What the model said; where it ``joins``, what follows it is of the same turn."""

    message: Message
    joins: bool = False


class Brought(Struct, frozen=True):
    """What a call brought. A blank id is that of the first call that waits, of this name if there is one."""

    id: str
    content: str
    outcome: str = "ok"
    blocks_text: str | None = None
    name: str = ""  #: of the tool, where the wire tells that


_TEXTS: Constant = ("text", "input_text", "output_text")  #: the types of a text, of which each wire has its own
_IMAGES: Constant = ("image", "image_url", "input_image")
#: Calls and results.
_PAIRED: Constant = (
    "tool_use",
    "server_tool_use",
    "mcp_tool_use",
    "tool_result",
    "tool_call",
    "function_call",
    "function_call_output",
)
_FIELDS: Constant = (
    "tool_calls",
    "function_call",
    "tool_call_id",
    "calls",
)  #: that hold a call or say what is answered
Piece = System | UserMessage | Note | Said | Brought
Read = Callable[[Message, str], str | ImageBlock]  #: reads a part of a result, which is this field


class Shape(Protocol):
    """What is needed of a wire."""

    def pieces(self, message: Message) -> Iterable[Piece]:
        """What a message is; Unreadable where it is none of the wire's."""

    def reply(self, said: list[Message]) -> object:
        """What the model said, as a reply."""

    def decode(self, reply: object) -> Turn:
        """The turn of a reply."""


def history(
    shape: Shape, messages: Iterable[object], used: Iterable[str] = (), *, rename: bool = False
) -> tuple[History, str | None]:
    """The history that these messages are, and the system text among them: see ``Wire.history``.

    ``used`` are ids that count as used before.
    """
    reader = _Reader(shape, set(used), rename)
    try:
        for at, message in enumerate(messages):
            reader.at = f"messages[{at}]"
            for piece in shape.pieces(thaw(frozen(mapping(message, "message"), "message"))):
                reader.take(piece)
        return reader.whole()
    except (Unreadable, TypeError, ValueError, RecursionError) as wrong:
        raise ValueError(f"{reader.at}: {wrong}") from None


def opened(
    shape: Shape, prompt: Any, before: History | None, system: str | None, repeated_id: str = "stop"
) -> tuple[Any, History | None, str | None]:
    """A prompt that is a list of messages, as more of the history and as system text; another stays what it is.

    ``repeated_id`` is that of the policy: unless it stops at such, an id used before is sent as another.
    """
    if not isinstance(prompt, list | tuple) or not isinstance(before, History | None):
        return prompt, before, system
    exchanges = [one for one in (before.entries if before else ()) if isinstance(one, Exchange)]
    used = (result.id for one in exchanges for result in one.results)
    said, own = history(shape, prompt, used, rename=repeated_id != "stop")
    if own and system:
        raise ValueError("system: the messages of the prompt hold system text, beside which none can be given")
    return None, said if before is None else History([*before.entries, *said.entries]), system or own


class _Reader:
    """Puts the pieces together."""

    def __init__(self, shape: Shape, ids: set[str], rename: bool) -> None:
        self.at = "messages"
        self._shape = shape
        self._ids = ids
        self._rename = rename
        self._system: list[str] = []
        self._entries: list[Entry] = []
        self._said: list[Message] = []
        self._began = ""  #: where that begins
        self._turn: Turn | None = None  #: whose calls wait
        self._results: dict[int, CallResult] = {}  #: by the place of the call

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
            waiting = ", ".join(repr(call.id) for call in self._waiting)
            raise Unreadable(f"the calls {waiting} have no result; {rule}")

    @property
    def _waiting(self) -> list[Call]:
        """The calls without a result."""
        return [call for call in self._turn.calls if call.place not in self._results] if self._turn else []

    def _end_turn(self) -> None:
        """Take what the model said as a turn, if it said anything."""
        said, self._said = self._said, []
        if not said:
            return
        at, self.at = self.at, self._began
        turn = self._shape.decode(self._shape.reply(said))
        if turn.kind == FINAL or (turn.kind == REFUSED and turn.text.strip()):
            self._entries.append(Final(turn))
        elif turn.kind == CALLS:
            self._turn = self._identified(turn)
        else:
            raise Unreadable(f"it is no turn to go on from: {turn.fault or turn.kind}")
        self.at = at

    def _identified(self, turn: Turn) -> Turn:
        """The turn with an id for each call that none before it has; its tools are the caller's own word."""
        told = {call.id for call in turn.calls}
        return attrs.evolve(turn, calls=tuple([self._named(call, told) for call in turn.calls]))

    def _named(self, call: Call, told: set[str]) -> Call:
        own: dict[str, Any] = {"known": True}
        if not call.id:
            own["id"] = free_id(call, self._ids, told)
        elif call.id in self._ids:
            if not self._rename:
                right = 'for ids that begin anew there is Policy(repeated_id="rename")'
                raise Unreadable(f"the id {call.id!r} was used before; {right}")
            own["sent_id"] = free_id(call, self._ids, told)
        named = attrs.evolve(call, **own)
        self._ids.add(named.wire_id)
        return named

    def _answer(self, piece: Brought) -> None:
        turn, waiting = self._turn, self._waiting
        call = next((one for one in waiting if piece.id in ("", one.id) and piece.name in ("", one.name)), None)
        if turn is None or call is None:
            named = f" ({piece.name})" if piece.name else ""
            raise Unreadable(f"{piece.id!r}{named} answers no call that waits for its result")
        result = CallResult.of(call, piece.outcome, piece.content)
        self._results[call.place] = attrs.evolve(result, blocks_text=piece.blocks_text)
        if len(waiting) == 1:
            self._entries.append(Exchange(turn, tuple(self._results[one.place] for one in turn.calls)))
            self._turn, self._results = None, {}


def brought(own: str, content: object, field: str, read: Mapping[str, Read], outcome: str = "ok") -> Brought:
    """A result that is text, or parts, each read by its type. Unreadable for a part of a type that none reads."""
    if not isinstance(content, list):
        return Brought(own, optional(content, field), outcome)
    parts = []
    for at, part in enumerate(listed(content, field, "part")):
        kind = string(part.get("type"), f"{field}[{at}].type")
        if kind not in read:
            known = " or ".join(map(repr, read))
            raise Unreadable(f"{field}[{at}].type: a result that is handed in holds {known}, not {shown(kind)}")
        parts.append(read[kind](part, f"{field}[{at}]"))
    return in_parts(own, parts, outcome)


def in_parts(own: str, parts: list[str | ImageBlock], outcome: str, name: str = "") -> Brought:
    """A result that is texts and images: its content is the texts, and it has blocks where there is an image."""
    texts = [part for part in parts if isinstance(part, str)]
    return Brought(own, "".join(texts), outcome, written(parts) if len(texts) < len(parts) else None, name)


def seen(parts: object, read: Mapping[str, Read]) -> list[dict[str, Any]]:
    """The texts and images of a user's message, as blocks in order, without the parts that no other wire can send."""
    shown: list[str | ImageBlock] = []
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and (one := read.get(str(part.get("type")))):
            with suppress(Unreadable):
                shown.append(one(part, "content"))
    blocks: list[dict[str, Any]] = thaw(written(shown) or "[]")
    return blocks


def words(part: Message, field: str) -> str:
    """A part of a result that is text."""
    return string(part.get("text"), f"{field}.text")


def picture(media_type: object, data: object, field: str) -> ImageBlock:
    """A part of a result that is an image, its data in base64."""
    try:
        return ImageBlock(a2b_base64(string(data, "data"), strict_mode=True), string(media_type, "media type"))
    except (Unreadable, ValueError) as wrong:
        raise Unreadable(f"{field}: an image in a result that is handed in must hold its data: {wrong}") from None


def picture_at(url: object, field: str) -> ImageBlock:
    """The same of a data URL (RFC 2397)."""
    found = re.fullmatch(r"data:([^;,]+);base64,(.*)", url if isinstance(url, str) else "", re.DOTALL)
    kind, data = found.groups() if found else (None, None)
    return picture(kind, data, field)


def data_url(image: dict[str, Any]) -> str:
    """The data URL of the block of an image."""
    return f"data:{image['media_type']};base64,{image['data']}"


def spoken(content: object, kind: str = "text") -> str | list[Message]:
    """What a user's message holds: text, or parts without those that say nothing. Unreadable where nothing is left."""
    if not isinstance(content, list):
        return filled(content, "content")
    return some([part for part in listed(content, "content", "part") if not is_silent(part, kind)], "content")


def fitting(content: object, role: object, text: str, image: str, *paired: str) -> list[Message]:
    """The parts of a message. Unreadable for a call or a result that is not of the ``paired`` types, which messages of
    the role hold, and for a text or an image under the type that another wire has for it.
    """
    parts = listed(content, "content", "part")
    for at, part in enumerate(parts):
        kind = part.get("type")
        if kind in _PAIRED and kind not in paired:
            raise Unreadable(f"content[{at}].type: a message of {role!r} holds no {kind!r} on this wire")
        right = text if kind in _TEXTS else image if kind in _IMAGES else kind
        if kind != right:
            raise Unreadable(f"content[{at}].type: on this wire it is {right!r}, not {kind!r}")
    return parts


def paired(message: Message, role: object, *fields: str) -> None:
    """Unreadable for a message that holds a call or answers one in another than these fields, which its role has."""
    for field in _FIELDS:
        if message.get(field) and field not in fields:
            raise Unreadable(f"{field}: a message of {role!r} has none on this wire")


def some(parts: list[Message], field: str) -> list[Message]:
    """The parts of a message; Unreadable where there are none."""
    if not parts:
        raise Unreadable(f"{field}: it is blank")
    return parts


def heard(message: Message, text: str, plain: Message, wire: str) -> UserMessage:
    """What the user said. If it is more than ``plain``, its text, this wire sends it as it is but for nulls."""
    message = {field: value for field, value in message.items() if value is not None}
    if message == plain:
        return UserMessage(text)
    return UserMessage(text if text.strip() else "(this is no text)", freeze(message), wire)
