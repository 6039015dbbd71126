"""What all providers have in common: how one writes a scripted reply, as events or in one body."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar
from typing import Final as Constant

import attrs

from loopmachine.frozen import freeze
from loopmachine.kinds import STOP_REASONS
from loopmachine.limits import Usage
from loopmachine.testing.script import Ending, ProviderError, Script
from loopmachine.wire import Wire

Chunk = dict[str, Any]

SIGNATURE: Constant = "c2NyaXB0ZWQ="  #: of what a model thinks, in base64


@attrs.define
class Block:
    """What a model says in one go: some text, some thinking, or one call, whose text is its arguments."""

    kind: str
    place: int  #: among the blocks
    asked: int  #: how many calls came before
    id: str = ""
    name: str = ""
    pieces: list[str] = attrs.field(factory=list)

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self.pieces)


class Writer(ABC):
    """Writes one reply of a provider: what each piece is in its stream, and what all of them are in one body."""

    #: The provider's words for what a stop reason claims.
    stops: ClassVar[Mapping[str, str]]

    def __init__(self, script: Script, model: str, number: int, request: Mapping[str, Any]) -> None:
        self.usage: Usage | None = script.usage
        self.model = self.usage.model if self.usage and self.usage.model else model
        self.number = number  #: of the reply, from 1
        self.request = request
        self.blocks: list[Block] = []
        self._stop = script.stop
        self._opened = False

    @property
    def asked(self) -> list[Block]:
        """The calls."""
        return [block for block in self.blocks if block.kind == "call"]

    @property
    def stop(self) -> str:
        """Why the model stopped, in the provider's words; what those do not know word for word."""
        claim = STOP_REASONS.get(self._stop.lower(), "")
        return self.stops.get(claim, self._stop) or self.stops["calls" if self.asked else "final"]

    def said(self, kind: str) -> str:
        """All text of a kind."""
        return "".join(block.text for block in self.blocks if block.kind == kind)

    def take(self, kind: str, *said: str) -> list[Chunk]:
        """What a piece is in the stream."""
        chunks = self.open()
        if kind != "arguments" and (kind == "call" or not self.blocks or kind != self.blocks[-1].kind):
            chunks += self._finish_last()
            own, name = said if kind == "call" else ("", "")
            self.blocks.append(Block(kind, len(self.blocks), len(self.asked), own, name))
            chunks += self.begin(self.blocks[-1])
        if kind != "call":
            self.blocks[-1].pieces += said
            chunks += self.add(self.blocks[-1], *said)
        return chunks

    def open(self) -> list[Chunk]:
        """What the stream begins with, once."""
        first, self._opened = not self._opened, True
        return self.head() if first else []

    def close(self) -> list[Chunk]:
        """What the stream ends with."""
        return [*self.open(), *self._finish_last(), *self.tail()]

    def _finish_last(self) -> list[Chunk]:
        return self.finish(self.blocks[-1]) if self.blocks else []

    @abstractmethod
    def body(self) -> Chunk:
        """The reply that is not streamed."""

    def head(self) -> list[Chunk]:
        """What comes before the first block."""
        return []

    def begin(self, block: Block) -> list[Chunk]:
        """What comes before the first piece of a block."""
        return []

    @abstractmethod
    def add(self, block: Block, text: str) -> list[Chunk]:
        """What one more piece of a block is."""

    def finish(self, block: Block) -> list[Chunk]:
        """What comes after the last piece of a block."""
        return []

    @abstractmethod
    def tail(self) -> list[Chunk]:
        """What comes after the last block."""


class Provider(ABC):
    """A provider: the paths it serves, what it refuses, how it replies, and how it tells an error."""

    wire: ClassVar[Wire]
    path: ClassVar[str]  #: of its requests, as a sentence tells it
    writer: ClassVar[type[Writer]]
    end: ClassVar[bytes] = b""  #: what ends a stream
    newline: ClassVar[str] = "\n"
    words: ClassVar[Mapping[int, str]]  #: for HTTP statuses; that of 400 for the others below 500, else that of 500

    def serves(self, path: str, body: Mapping[str, Any]) -> tuple[str, bool] | None:
        """The model that a request asks and whether for a stream; None where the path is none of this provider's."""
        return (str(body.get("model")), bool(body.get("stream"))) if path.partition("?")[0] == self.path else None

    @abstractmethod
    def check(self, body: Mapping[str, Any], model: str) -> None:
        """Raise Unreadable for a request that the provider refuses."""

    @abstractmethod
    def error(self, error: ProviderError) -> Chunk:
        """The body of an error."""

    def error_event(self, error: ProviderError, sent: int) -> Chunk:
        """The event of an error in the middle of a stream, of which so many events were sent."""
        return self.error(error)

    def word(self, error: ProviderError) -> str:
        """The provider's word for an error."""
        return error.code or self.words.get(error.status) or self.words[400 if error.status < 500 else 500]

    def frame(self, chunk: Chunk) -> bytes:
        """A chunk as a server-sent event."""
        named = [f"event: {chunk['type']}"] if "type" in chunk else []
        return (self.newline.join([*named, f"data: {freeze(chunk)}", "", ""])).encode()

    def stream(self, script: Script, writer: Writer) -> Iterator[Any]:
        """The body of a streamed reply as bytes, and in between what happens; ``DROP`` where the connection goes."""
        sent = 0
        for item in script.items:
            if item is Ending.CUT:
                return
            if item is Ending.DROP:
                yield item
                return
            if isinstance(item, ProviderError):
                yield self.frame(self.error_event(item, sent)) if item.body is None else item.body
                return
            if isinstance(item, tuple):
                chunks = writer.take(*item)
                sent += len(chunks)
                yield from map(self.frame, chunks)
            else:
                yield item
        yield from map(self.frame, writer.close())
        if self.end:
            yield self.end

    def begin(self, script: Script, number: int) -> Writer:
        """What writes a reply that no server sends."""
        return self.writer(script, "scripted", number, {"stream_options": {"include_usage": True}})

    def whole(self, script: Script, number: int) -> Chunk:
        """The body of a reply that is not streamed, of which nothing is cut."""
        writer = self.begin(script, number)
        for item in script.items:
            writer.take(*item)
        return writer.body()
