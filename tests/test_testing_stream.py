"""StreamScript is a streamed reply piece by piece, for accumulators and adapters, with what goes wrong in it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from loopmachine import CancelToken, ModelError, Turn
from loopmachine.testing import CUT, DROP, ProviderError, StreamScript, arguments, call, thinking
from loopmachine.wire import ANTHROPIC, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES, PLAIN, Wire

every_wire = pytest.mark.parametrize("wire", [OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC, GEMINI], ids=str)


def turn_of(script: StreamScript, wire: Wire) -> Turn:
    """The turn that an accumulator makes of a script."""
    accumulator = wire.stream()
    for chunk in wire.read(script.sent(wire)):
        accumulator.feed(chunk)
    accumulator.close()
    return accumulator.turn()


@every_wire
def test_a_script_is_what_its_pieces_say(wire: Wire) -> None:
    """Texts, and calls whose arguments go on, each in the shape of the wire."""
    script = StreamScript("It ", "is ", call("a", "look", '{"n":'), arguments("1}"), call("b", "look", {"m": 2}))
    turn = turn_of(script, wire)
    asked = [(one.id, one.name, one.arguments_text) for one in turn.calls]
    assert (turn.text, asked) == ("It is ", [("a", "look", '{"n":1}'), ("b", "look", '{"m":2}')])


@every_wire
@pytest.mark.parametrize(
    ("items", "written"),
    [
        ([call("a", "look"), arguments('{"n":'), arguments("1}")], ['{"n":1}']),
        ([call("a", "look"), CancelToken(), b"", arguments('{"n":1}')], ['{"n":1}']),
        ([{"id": "a", "name": "look"}, arguments('{"n":1}')], ['{"n":1}']),
        ([call("a", "look", '{"n":'), arguments("1}")], ['{"n":1}']),
        ([call("a", "look")], ["{}"]),
        ([call("a", "look"), "It"], ["{}"]),
        ([call("a", "look"), call("b", "look"), arguments('{"n":1}')], ["{}", '{"n":1}']),
    ],
)
def test_arguments_behind_a_call_are_all_of_them_where_it_has_none(
    wire: Wire, items: list[Any], written: list[str]
) -> None:
    """And go on with its text where it has one; a call that nothing follows takes none."""
    asked = turn_of(StreamScript(*items), wire).calls
    assert [one.arguments_text for one in asked] == written


@every_wire
@pytest.mark.parametrize("ending", [CUT, DROP], ids=str)
def test_a_script_that_ends_early_has_no_turn(wire: Wire, ending: Any) -> None:
    """Whatever came before."""
    with pytest.raises(ModelError, match="stream_cut"):
        turn_of(StreamScript(call("a", "look", n=1), ending, "never"), wire)


@every_wire
def test_a_script_without_pieces_is_an_empty_reply(wire: Wire) -> None:
    """Which has its beginning and its end."""
    assert turn_of(StreamScript(), wire).kind == "malformed"


def test_a_script_can_be_sent_more_than_once() -> None:
    """It is the same each time, on each wire."""
    script = StreamScript("It is.")
    bodies = [b"".join(script.sent(wire)) for wire in (ANTHROPIC, GEMINI, ANTHROPIC)]
    assert (bodies[0] == bodies[2], bodies[0] == bodies[1]) == (True, False)


def test_what_happens_in_a_script_happens_when_it_is_sent() -> None:
    """A token is cancelled, an Event waited for, a function called, between two events of the body."""
    token, gate, log = CancelToken(), threading.Event(), list[str]()
    gate.set()
    script = StreamScript("It ", token, gate, lambda: log.append("here"), "is.")
    told = [(token.cancelled, len(log)) for event in script.sent(GEMINI) if b"It " in event or b"is." in event]
    assert told == [(False, 0), (True, 1)]


def test_an_error_ends_a_script() -> None:
    """With the provider's own body, or with other bytes."""
    sent = [
        b"".join(StreamScript(one, "never").sent(GEMINI)) for one in (ProviderError(503), ProviderError(503, body=b"<"))
    ]
    error = b'data: {"error":{"code":503,"message":"scripted","status":"UNAVAILABLE"}}\r\n\r\n'
    assert sent == [error, b"<"]


def test_a_script_shows_its_pieces() -> None:
    """In a failing test."""
    assert repr(StreamScript("It ", CUT)) == "StreamScript(('text', 'It '), <Ending.CUT: 'cut'>)"


PIECE = "call(id, name, ...), thinking(text) or arguments(text), not "


@pytest.mark.parametrize(
    ("items", "error", "says"),
    [
        (
            ["It", 5],
            TypeError,
            "item 1 must be text, a call, thinking or arguments, CUT, DROP, a ProviderError",
        ),
        ([StreamScript("It")], TypeError, "(a threading.Event, a CancelToken, a function), not StreamScript"),
        (
            [asyncio.sleep],
            TypeError,
            "(a threading.Event, a CancelToken, a function), not an async function, which nobo",
        ),
        ([ValueError], TypeError, "(a threading.Event, a CancelToken, a function), not type"),
        ([{"kind": "thinking"}], ValueError, f"item 0 must be {PIECE}{{'kind': 'thinking'}}"),
        ([{"id": "a", "name": 5}], ValueError, f"item 0 must be {PIECE}{{'id': 'a', 'name': 5}}"),
        ([{"kind": "calls", "id": "a", "name": "look"}], ValueError, f"item 0 must be {PIECE}"),
        ([arguments("{}")], ValueError, "arguments(...) must follow the call they belong to"),
        ([call("a", "look"), "It", arguments("{}")], ValueError, "arguments(...) must follow the call they belong to"),
        (
            [call("a", "look", n=1), threading.Event(), arguments("}")],
            ValueError,
            "item 0: arguments(...) must follow a call without arguments or with their text, not {'n': 1}",
        ),
        ([call("a", "look", n=object())], TypeError, "item 0: the arguments can't be written as JSON: "),
    ],
)
def test_what_is_no_piece_is_refused(items: list[Any], error: type[Exception], says: str) -> None:
    """When the script is made, by its place."""
    with pytest.raises(error) as caught:
        StreamScript(*items)
    assert (str(caught.value).startswith("StreamScript: "), says in str(caught.value)) == (True, True)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"stop": 5}, TypeError, "stop must be a text, not 5"),
        ({"stop": None}, TypeError, "stop must be a text, not None"),
        ({"usage": 5}, TypeError, "usage must be a dict, a Usage or None, not 5"),
        ({"usage": []}, TypeError, "usage must be a dict, a Usage or None, not []"),
        (
            {"usage": {"bogus": 1, 2: 3}},
            ValueError,
            "usage has no bogus, 2; it has input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost_usd, "
            "model, unpriced, unmetered",
        ),
    ],
)
def test_an_option_that_can_not_be_right_is_refused(options: Any, error: type[Exception], says: str) -> None:
    """When the script is made, by name."""
    with pytest.raises(error) as caught:
        StreamScript("It", **options)
    assert str(caught.value) == f"StreamScript: {says}"


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({"status": "429"}, ValueError, "status must be that of an error, from 400 to 599, not '429'"),
        ({"status": 399}, ValueError, "status must be that of an error, from 400 to 599, not 399"),
        ({"status": 600}, ValueError, "status must be that of an error, from 400 to 599, not 600"),
        ({"message": 5}, TypeError, "message must be a text, not 5"),
        ({"code": None}, TypeError, "code must be a text, not None"),
        ({"retry_after": []}, TypeError, "retry_after must be seconds, an HTTP date or None, not []"),
        ({"headers": None}, TypeError, "headers must be a dict, not None"),
        ({"headers": {"X-Left": 5}}, TypeError, "headers must be texts by their names, not {'X-Left': 5}"),
        ({"headers": {5: "left"}}, TypeError, "headers must be texts by their names, not {5: 'left'}"),
        ({"body": "<html>"}, TypeError, "body must be bytes or None, not '<html>'"),
    ],
)
def test_an_error_that_no_server_sends_is_refused(fields: Any, error: type[Exception], says: str) -> None:
    """When it is made, by the field that can't be right."""
    with pytest.raises(error) as caught:
        ProviderError(**{"status": 400, **fields})
    assert str(caught.value) == f"ProviderError: {says}"


@pytest.mark.parametrize("given", [{"a": 1}, {}, "{"])
def test_arguments_are_given_in_one_way(given: Any) -> None:
    """Those by name would be lost beside an object or a text."""
    with pytest.raises(TypeError) as caught:
        call("c1", "look", given, n=2)
    says = f"call: give the arguments by name or as an object, not both {given!r} and {{'n': 2}}"
    assert str(caught.value) == says


def test_a_script_for_plain_is_refused() -> None:
    """PLAIN has no stream."""
    with pytest.raises(ValueError, match="no provider speaks <wire plain>, so it has no streams"):
        list(StreamScript("It").sent(PLAIN))


def test_pieces_have_their_helpers() -> None:
    """Each gives plain data; arguments by name, as an object, or as text."""
    assert [call("a", "look", n=1), call("a", "look", {"arguments": 1}), call("a", "look", "{"), thinking("Hm.")] == [
        {"kind": "call", "id": "a", "name": "look", "arguments": {"n": 1}},
        {"kind": "call", "id": "a", "name": "look", "arguments": {"arguments": 1}},
        {"kind": "call", "id": "a", "name": "look", "arguments": "{"},
        {"kind": "thinking", "text": "Hm."},
    ]
