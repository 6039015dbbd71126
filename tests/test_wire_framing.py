"""The reader: bytes to chunks, whatever the framing and wherever the network cuts."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopmachine.wire import PLAIN, WIRES, Reader
from tests.feeding import bytewise, cut
from tests.test_wire_any_reply import JSON

DONE = {"type": "[DONE]"}


def chunks(*pieces: bytes) -> list[dict[str, Any]]:
    """What a reader makes of a body."""
    return list(PLAIN.read(pieces))


def broken(said: str) -> dict[str, Any]:
    """The chunk that stands for what is none."""
    return error("stream_malformed", f"the server sent no JSON object: {said}")


def error(code: str, message: str) -> dict[str, Any]:
    """A chunk that tells an error."""
    return {"type": "error", "error": {"code": code, "message": message}}


A, B = {"a": 1}, {"b": "ü漢🙂"}

BODIES: dict[str, tuple[str, list[dict[str, Any]]]] = {
    # server-sent events
    "events": ('data: {"a": 1}\n\ndata: {"b": "ü漢🙂"}\n\n', [A, B]),
    "CRLF": ('data: {"a": 1}\r\n\r\ndata: {"b": "ü漢🙂"}\r\n\r\n', [A, B]),
    "CR": ('data: {"a": 1}\r\rdata: {"b": "ü漢🙂"}\r\r', [A, B]),
    "a byte order mark": ('\ufeffdata: {"a": 1}\n\n', [A]),
    "blanks in front": (' \r\n\t data: {"a": 1}\n\n data: {"b": "ü漢🙂"}\n\n', [A, B]),
    "no blank after the colon": ('data:{"a": 1}\n\n', [A]),
    "comments and other fields": (': hi\n\n:\nid: 7\nretry: 10\ndata: {"a": 1}\nfoo\nfoo: bar\n\n: bye\n\n', [A]),
    "data over several lines": ('data: {\ndata:  "a":\ndata: 1}\n\n', [A]),
    "data over several lines, CRLF": ('event: ping\r\ndata: {\r\ndata:  "a": 1}\r\n\r\n', [A | {"type": "ping"}]),
    "mixed line ends": ('data: {\rdata: "a": 1}\n\ndata: {"a": 1}\r\n\n', [A, A]),
    "no blank line at the end": ('data: {"a": 1}', [A]),
    "no data": ("event: ping\n\ndata:\n\ndata: \n\n\n\n", []),
    "a name before the data": ('event: ping\ndata: {"a": 1}\n\ndata: {"a": 1}\n\n', [A | {"type": "ping"}, A]),
    "a name after the data": ('data: {"a": 1}\nevent: ping\n\ndata: {"a": 1}\n\n', [A | {"type": "ping"}, A]),
    "a type of its own": ('event: ping\ndata: {"type": "pong"}\n\n', [{"type": "pong"}]),
    "the default name": ('event: message\ndata: {"a": 1}\n\n', [A]),
    "the end mark": ('data: {"a": 1}\n\ndata: [DONE]\n\n', [A, DONE]),
    "the end mark without a line end": ("data: [DONE]", [DONE]),
    "an error event": ('event: error\ndata: {"error": {"code": 5}}\n\n', [{"error": {"code": 5}}]),
    "an error event of words": (
        'event: error\ndata: {"type": "busy"}\n\n',
        [{"type": "error", "error": {"type": "busy"}}],
    ),
    "an error event of text": ("event: error\ndata: Bad gateway\n\n", [error("error", "Bad gateway")]),
    "an error event of nothing": ("event: error\n\n", [error("error", "")]),
    "an error event cut off": (
        'event: error\ndata: {"err',
        [error("stream_cut", "the stream ended in an error event")],
    ),
    "data that is no JSON": ('data: {"a": 1}\n\ndata: oops ü\n\ndata: {"a": 1}\n\n', [A, broken("oops ü"), A]),
    "data that is no object": ("data: [1]\n\ndata: null\n\ndata: 5\n\n", [broken("[1]"), broken("null"), broken("5")]),
    "data that is nested too deep": (f"data: {'[' * 100_000}\n\n", [broken("[" * 500)]),
    "a line cut off": ('data: {"a": 1}\n\ndata: {"b": ', [A]),
    "an event cut between its lines": ('data: {\ndata: "a": 1\n', []),
    "an event cut in its blank line": ('data: {\ndata: "a": 1\n ', []),
    "a page of HTML": ("<html>\n<p>502: Bad gateway</p>\n\n</html>", []),
    # JSON
    "JSON a line": ('{"a": 1}\n{"b": "ü漢🙂"}\n', [A, B]),
    "JSON a line, the last one open": ('{"a": 1}\r\n{"b": "ü漢🙂"}', [A, B]),
    "JSON a line with a mark and blanks": ('\ufeff\n {"a": 1}\n\n\n{"b": "ü漢🙂"} ', [A, B]),
    "JSON a line and the end mark": ('{"a": 1}\n[DONE]\n', [A, DONE]),
    "JSON after the end mark": ('[DONE]\n{"a": 1}\n', [DONE, A]),
    "one array": ('[{"a": 1},\n{"b": "ü漢🙂"}]', [A, B]),
    "one array over many lines": ('[\n  {\n    "a": 1\n  },\n  {\n    "b": "ü漢🙂"\n  }\n]\n', [A, B]),
    "an empty array": ("[]", []),
    "one object over many lines": ('{\n  "a": {"}": [{}, "{\\"", "\\\\"]}\n}\n', [{"a": {"}": [{}, '{"', "\\"]}}]),
    "JSON cut off": ('{"a": 1}\n{"b": "}', [A]),
    "an array cut off": ('[{"a": 1}, {"b"', [A]),
    "something between objects": ('{"a": 1} oops } {"b": "ü漢🙂"} more', [A, broken("oops }"), B]),
    "a quote between objects": ('{"a": 1} " {"b": "ü漢🙂"}', [A, broken('"'), B]),
    "an object that is no JSON": ('{"a": 1}\n{a: 1}\n{"a": 1}', [A, broken("{a: 1}"), A]),
    # nothing
    "nothing": ("", []),
    "blanks": (" \n\r\n", []),
    "half a mark": ("\ufeff", []),
}
every_body = pytest.mark.parametrize("name", BODIES)


@every_body
def test_the_chunks_of_a_body(name: str) -> None:
    """Fed whole, one byte at a time, and cut at random, with and without empty pieces."""
    body, expected = BODIES[name][0].encode(), BODIES[name][1]
    cuts = [[body], bytewise(body), [b"", body, b""], *([*cut(body, seed)] for seed in range(20))]
    if len(body) > 10_000:
        cuts = cuts[:1]
    assert [chunks(*pieces) for pieces in cuts] == [expected] * len(cuts)


def test_bytes_that_are_no_utf_8() -> None:
    """They are read as U+FFFD, as WHATWG has it and clients read a whole body; elsewhere they make no chunk of it."""
    assert chunks(b'data: {"a": "\xff"}\n\ndata: {"a": 1}\n\n', b"") == [{"a": "\ufffd"}, A]
    assert chunks(b'{"a": "\xff"}\n{"a": 1}') == [{"a": "\ufffd"}, A]
    assert chunks(b'data: {"a": \xff}\n\ndata: {"a": 1}\n\n') == [broken('{"a": \ufffd}'), A]


@pytest.mark.parametrize("lead", [b"\n\xef\xbb\xbf", b"\xef\xbb\xbf\n ", b" \xef\xbb\xbf\xef\xbb\xbf\t", b"\xef\xbb"])
@pytest.mark.parametrize("body", [b'data: {"a": 1}\n\n', b'{"a": 1}', b""])
def test_what_stands_in_front_of_a_body(lead: bytes, body: bytes) -> None:
    """Blanks and marks of the byte order say nothing, however they are cut; what is only part of a mark is a body."""
    whole = lead + body
    expected = [A] if body and lead != b"\xef\xbb" else []
    assert [chunks(*pieces) for pieces in ([whole], bytewise(whole), [whole[:2], whole[2:]], [lead, body])] == [
        expected
    ] * 4


def test_what_a_server_may_write_that_is_no_strict_json() -> None:
    """NaN and half a character are read, as decode reads them."""
    assert [repr(one) for one in chunks(b'data: {"a": NaN}\n\ndata: {"a": "\\ud83d"}\n\n')] == [
        "{'a': nan}",
        "{'a': '\\ud83d'}",
    ]


def test_a_chunk_is_given_once_it_is_whole() -> None:
    """A reader that is pushed gives what each piece completed, and at the close what the end completes."""
    reader = Reader()
    pieces = [b'data: {"a"', b": 1}\n", b"\n", b"\r\ndata: [DO", b"NE]", b""]
    assert [reader.feed(piece) for piece in pieces] == [[], [], [A], [], [], []]
    assert [reader.close(), reader.close(), Reader().close()] == [[DONE], [], []]


def test_pieces_may_be_any_bytes() -> None:
    """A bytearray and a memoryview too, and what is done to one afterwards is not seen."""
    reader, piece = Reader(), bytearray(b'data: {"a"')
    reader.feed(piece)
    piece[:] = b"oops"
    assert reader.feed(memoryview(b": 1}\n\n")) == [A]


@pytest.mark.parametrize("pieces", ["data: {}\n\n", b"data: {}\n\n", [None]], ids=repr)
def test_what_is_no_bytes_is_refused(pieces: Any) -> None:
    """Text, a body that is not in pieces, None: a TypeError says what was given."""
    kind = type(next(iter(pieces))).__name__
    with pytest.raises(TypeError) as refusal:
        list(PLAIN.read(pieces))
    right = "; one that is there whole is one piece: wire.read([body])" if isinstance(pieces, bytes) else ""
    assert str(refusal.value) == f"a body is read in pieces of bytes, not of {kind}{right}"


def test_every_wire_reads_every_framing() -> None:
    """The framing is the body's, not the wire's; and each chunk is a new one."""
    body = b'data: {"a": 1}\n\ndata: [DONE]\n\n'
    assert [list(wire.read([body])) for wire in WIRES.values()] == [[A, DONE]] * len(WIRES)
    first, second = chunks(b"data: [DONE]\n\ndata: [DONE]\n\n")
    first.clear()
    assert second == DONE


OBJECTS = st.lists(st.dictionaries(st.text(max_size=5), JSON, max_size=3), max_size=5)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


def event(chunk: Any, end: str, named: int) -> str:
    """One event, its name left out, before or after its data."""
    lines = [f"data: {json.dumps(chunk, ensure_ascii=False)}"]
    lines.insert(named, "event: message")
    return end.join([*lines[: 1 + (named < 2)], ": hi", "", ""])


@given(OBJECTS, ENDS, st.integers(0, 2), st.integers(0, 10**6))
def test_any_chunks_in_any_events_cut_anywhere(objects: list[Any], end: str, named: int, seed: int) -> None:
    """What a server writes is what is read."""
    wanted = json.loads(json.dumps(objects))
    body = "".join(event(one, end, named) for one in objects).encode(errors="surrogatepass")
    assert repr(chunks(*cut(body, seed))) == repr(wanted)


@given(OBJECTS, st.sampled_from([None, 2]), st.booleans(), st.integers(0, 10**6))
def test_any_objects_in_lines_and_arrays_cut_anywhere(
    objects: list[Any], indent: int | None, array: bool, seed: int
) -> None:
    """Indented or not, one after another or in an array."""
    written = [json.dumps(one, indent=indent) for one in objects]
    body = f"[{','.join(written)}]" if array else "\n".join(written)
    assert repr(chunks(*cut(body.encode(), seed))) == repr(json.loads(json.dumps(objects)))


@given(
    st.binary(max_size=200) | st.text(alphabet='{}[]",:\\ \n\rdata: DONE', max_size=60).map(str.encode),
    st.integers(0, 99),
)
def test_any_bytes_are_read(body: bytes, seed: int) -> None:
    """Whatever a server sends, reading it raises nothing, gives objects, and the same however it is cut."""
    found = chunks(body)
    assert all(type(chunk) is dict for chunk in found)
    assert repr(chunks(*cut(body, seed))) == repr(chunks(*bytewise(body))) == repr(found)


@pytest.mark.parametrize("begin", [b'data: {"a": "', b'{"a": "', b'[{"a": "'], ids=repr)
def test_a_piece_costs_no_copy_of_what_came_before(begin: bytes) -> None:
    """A line that comes in many pieces is put together once: no piece takes more memory than it is long."""
    reader, piece = Reader(), b"x" * 10_000
    reader.feed(begin)
    tracemalloc.start()
    most = 0
    for _ in range(100):
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        reader.feed(piece)
        most = max(most, tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.stop()
    assert (reader.feed(b'"}\n\n'), most < 50_000) == ([{"a": "x" * 1_000_000}], True)
