"""The bytes of a streamed body as chunks, whatever its framing: server-sent events, JSON a line, or one JSON array.

A ``Reader`` raises nothing for what a server sends: what is no chunk becomes an error chunk, which an accumulator
raises. An unfinished end is left out: whether a stream may end there is for its accumulator to say.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import Any
from typing import Final as Constant

from loopmachine.frozen import thaw

Chunk = dict[str, Any]

END: Constant = "[DONE]"  #: the end mark of OpenAI's servers, and here the ``type`` of the chunk that stands for it

# The codes of errors that no provider tells:
STREAM_CUT: Constant = "stream_cut"  #: the connection ended before the stream did
STREAM_MALFORMED: Constant = "stream_malformed"  #: what came is no chunk


_LEAD: Constant = re.compile(rb"(?:\s|" + BOM_UTF8 + rb")*")


class Reader:
    """Takes a body piece by piece, as the network cuts it, and gives each chunk once it is whole."""

    def __init__(self) -> None:
        self._head = b""  #: what may become a byte order mark, which says nothing in front of a body, as blanks do
        self._framing: _Events | _Objects | None = None

    def feed(self, data: bytes | bytearray | memoryview) -> list[Chunk]:
        """The chunks that these bytes complete, each a new dict. TypeError for what is no bytes."""
        if not isinstance(data, bytes | bytearray | memoryview):
            whole = "; one that is there whole is one piece: wire.read([body])" if isinstance(data, int) else ""
            raise TypeError(f"a body is read in pieces of bytes, not of {type(data).__name__}{whole}")
        data = bytes(data)
        if self._framing is None:
            data = _LEAD.sub(b"", self._head + data, count=1)
            self._head = data if BOM_UTF8.startswith(data) else b""
            if self._head == data:
                return []
            self._framing = (_Objects if data[:1] in b"{[" else _Events)()
        return list(self._framing.feed(data))

    def close(self) -> list[Chunk]:
        """The chunks that the end of the body completes."""
        return [] if self._framing is None else list(self._framing.close())


class _Events:
    """Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html), and the last one too
    where the body ends without its blank line. The name of an event is the ``type`` of a chunk that has none.
    """

    def __init__(self) -> None:
        self._line: list[bytes] = []  #: the pieces of the unfinished line
        self._after_cr = False
        self._name = ""
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> Iterator[Chunk]:
        if not data:
            return
        pieces = (data.removeprefix(b"\n") if self._after_cr else data).splitlines(keepends=True)
        self._after_cr = data.endswith(b"\r")
        for piece in pieces:
            self._line.append(piece)
            if piece.endswith((b"\n", b"\r")):
                yield from self._end_line()

    def close(self) -> Iterator[Chunk]:
        yield from self._end_line(cut=True)
        yield from self._dispatch(cut=True)

    def _end_line(self, *, cut: bool = False) -> Iterator[Chunk]:
        line = b"".join(self._line).strip()  # a blank in front of a field was seen
        self._line.clear()
        field, _, value = line.partition(b":")
        if not line:
            yield from self._dispatch(cut=cut)
        elif field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value.strip().decode(errors="replace")

    def _dispatch(self, *, cut: bool) -> Iterator[Chunk]:
        name, data = self._name, b"\n".join(self._data).strip()
        self._name, self._data = "", []
        chunk = _object(data)
        if name == "error":
            yield _named_error(chunk, data, cut)
        elif chunk is not None:
            if name not in ("", "message"):  # the name of those that have none
                chunk.setdefault("type", name)
            yield chunk
        elif data and not cut:
            yield _no_object(data)


def _named_error(chunk: Chunk | None, data: bytes, cut: bool) -> Chunk:
    """The chunk of an event named error, whose data need not say that it is one."""
    if chunk is None:
        return _error(STREAM_CUT, "the stream ended in an error event") if cut else _error("error", _shown(data))
    return chunk if chunk.get("error") else {"type": "error", "error": chunk}


class _Objects:
    """JSON objects one after another: a line each, in an array, or just one over many lines."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []  #: of the unfinished object, or of what stands between two
        self._depth = 0
        self._quoted = False
        self._escaped = False  #: the first byte to come says nothing

    def feed(self, data: bytes) -> Iterator[Chunk]:
        if not data:
            return
        begin, skipped, self._escaped = 0, int(self._escaped), False
        for mark in _MARKS.finditer(data, skipped):
            byte = mark[0]
            if byte.startswith(b"\\"):
                self._escaped = len(byte) == 1
            elif byte == b'"':
                self._quoted = self._depth > 0 and not self._quoted
            elif self._quoted:
                continue
            elif byte == b"{":
                if not self._depth:
                    yield from _between(self._take(data[begin : mark.start()]))
                    begin = mark.start()
                self._depth += 1
            elif self._depth:
                self._depth -= 1
                if not self._depth:
                    whole = self._take(data[begin : mark.end()])
                    begin = mark.end()
                    chunk = _object(whole)
                    yield _no_object(whole) if chunk is None else chunk
        self._pieces.append(data[begin:])

    def close(self) -> Iterator[Chunk]:
        if self._take(b"").strip(_BETWEEN) == b"DONE":
            yield {"type": END}

    def _take(self, last: bytes) -> bytes:
        whole = b"".join([*self._pieces, last])
        self._pieces.clear()
        return whole


#: A quote, a brace, or what a backslash makes mean nothing, which may be cut off.
_MARKS: Constant = re.compile(rb'["{}]|\\.?', re.DOTALL)
_BETWEEN: Constant = b" \t\r\n,[]"  #: what may stand between objects


def _between(data: bytes) -> list[Chunk]:
    said = data.strip(_BETWEEN)
    if not said:
        return []
    return [{"type": END}] if said == b"DONE" else [_no_object(said)]


def _object(data: bytes) -> Chunk | None:
    """The chunk that is written here, None where it is no JSON object. A byte that is no UTF-8 is read as U+FFFD."""
    if data == END.encode():
        return {"type": END}
    try:
        value = thaw(data.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _no_object(data: bytes) -> Chunk:
    return _error(STREAM_MALFORMED, f"the server sent no JSON object: {_shown(data)}")


def _error(code: str, message: str) -> Chunk:
    return {"type": "error", "error": {"code": code, "message": message}}


def _shown(data: bytes) -> str:
    return data[:500].decode(errors="replace")
