"""The accumulator of ANTHROPIC: the events of a message, https://docs.anthropic.com/en/api/messages-streaming."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from reprlib import repr as shown
from typing import Any

from loopmachine.frozen import json_object
from loopmachine.wire.fields import Unreadable, an_object, arguments, kind_of, optional, string
from loopmachine.wire.framing import Chunk
from loopmachine.wire.stream import Accumulator, Decode, Delta


class AnthropicStream(Accumulator):
    """Takes the events of one message. Only ``message_stop`` is its end: a stop reason comes before that.

    Blocks stand in the order of their indexes; where a server gives one twice, or none, in that in which they began.
    The input of a ``tool_use`` block is the text that the model wrote, since it may be no JSON.
    """

    def __init__(self, decode: Decode) -> None:
        super().__init__(decode)
        self._message: Chunk = {}
        self._usage: Chunk = {}
        self._blocks: list[_Block] = []
        self._open: dict[Any, _Block] = {}  #: the block that began last at each index
        self._calls = 0

    def _take(self, chunk: Chunk) -> Iterable[Delta]:
        match chunk.get("type"):
            case "message":
                return self._take_whole(chunk)
            case "message_start":
                self._tell(an_object(chunk.get("message"), "message"))
            case "content_block_start":
                return self._begin(_index(chunk), an_object(chunk.get("content_block"), "content_block"))
            case "content_block_delta":
                return self._begun(_index(chunk)).take(an_object(chunk.get("delta"), "delta"))
            case "message_delta":
                self._tell({**an_object(chunk.get("delta"), "delta"), "usage": chunk.get("usage")})
            case "message_stop":
                self._ended = True
        return ()

    def _tell(self, message: Chunk) -> None:
        """What a null says is not known yet; the counts of usage are those so far."""
        self._stopped(message.get("stop_reason"))
        self._message |= {field: value for field, value in message.items() if value is not None}
        usage = message.get("usage")
        if isinstance(usage, Mapping):
            self._usage |= {field: value for field, value in usage.items() if value is not None}

    def _begin(self, index: Any, start: Chunk) -> Iterator[Delta]:
        block = self._open[index] = _Block(start, self._calls)
        self._blocks.append(block)
        self._calls += block.is_call
        return block.begin()

    def _begun(self, index: Any) -> _Block:
        if index not in self._open:
            raise Unreadable(f"index: no block began at {shown(index)}")
        return self._open[index]

    def _body(self) -> Chunk | None:
        if not (self._message or self._blocks):
            return None
        told = {index: block for index, block in self._open.items() if type(index) is int}
        blocks = [told[index] for index in sorted(told)] if len(told) == len(self._blocks) else self._blocks
        content = [block.whole() for block in blocks]
        return self._message | {"stop_reason": self._stop, "usage": self._usage or None, "content": content}


def _index(chunk: Chunk) -> Any:
    """What tells a block from others."""
    index = chunk.get("index")
    if isinstance(index, list | dict):
        raise Unreadable(f"index: it must be a number, not {kind_of(index)}")
    return index


class _Block:
    """A content block: as it began, and the pieces that were added to it."""

    def __init__(self, start: Mapping[str, Any], place: int) -> None:
        self._block = dict(start)
        self._place = place
        self.is_call = start.get("type") == "tool_use"
        self._added: dict[str, list[Any]] = {"input": []} if self.is_call and not start.get("input") else {}

    def begin(self) -> Iterator[Delta]:
        """What the block began with; an input that is there at once is whole."""
        yield from self._shown("thinking", self._block.get("thinking"))
        yield from self._shown("text", optional(self._block.get("text"), "text"))
        if self.is_call:
            whole = self._block.get("input")
            yield self._asked(arguments(whole, "input") if whole else "")

    def take(self, delta: Mapping[str, Any]) -> Iterator[Delta]:
        """Add what a delta brings: text to what is there, a signature as it is."""
        for field, value in delta.items():
            if field == "partial_json":
                yield from self._write(string(value, field))
            elif field == "citation":
                self._added.setdefault("citations", [*(self._block.get("citations") or ())]).append(value)
            elif field != "type" and isinstance(value, str) and field != "signature":
                self._added.setdefault(field, [optional(self._block.get(field), field)]).append(value)
                yield from self._shown(field, value)
            elif field != "type" and value is not None:
                self._block[field] = value

    def _write(self, text: str) -> Iterator[Delta]:
        if not self._block.get("input"):
            self._added.setdefault("input", []).append(text)
            if self.is_call and text:
                yield self._asked(text)

    def _asked(self, text: str) -> Delta:
        own, name = (optional(self._block.get(field), field) for field in ("id", "name"))
        return Delta("call", text, self._place, own, name)

    def _shown(self, field: str, text: object) -> Iterator[Delta]:
        if text and isinstance(text, str) and field == self._block.get("type") and field in ("text", "thinking"):
            yield Delta(field, text)

    def whole(self) -> Chunk:
        """The block as it stands in a message that is not streamed."""
        block = self._block | {
            field: added if field == "citations" else "".join(added) for field, added in self._added.items()
        }
        if "input" in self._added and not self.is_call:
            block["input"] = json_object(block["input"]) or {}
        return block
