"""wire_server speaks the shapes of the providers, in one body and in events, and what goes wrong in them."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import attrs
import openai
import pytest
from anthropic.types import Message, RawMessageStreamEvent
from google import genai
from google.genai.types import GenerateContentResponse
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from loopmachine import CancelToken, ModelError, Turn, Usage, run, tool
from loopmachine.testing import (
    CUT,
    DROP,
    ProviderError,
    StreamScript,
    WireServer,
    arguments,
    call,
    calls,
    thinking,
    wire_server,
)
from loopmachine.testing.providers import PROVIDERS, provider_of
from loopmachine.wire import ANTHROPIC, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES, PLAIN, Wire

GO = {"role": "user", "content": "go"}
#: To each wire: the path to ask, and the smallest request that is accepted.
ASKS: dict[Wire, tuple[str, dict[str, Any]]] = {
    OPENAI_CHAT: ("/v1/chat/completions", {"model": "m", "messages": [GO]}),
    OPENAI_RESPONSES: ("/v1/responses", {"model": "m", "input": "go"}),
    ANTHROPIC: ("/v1/messages", {"model": "m", "max_tokens": 9, "messages": [GO]}),
    GEMINI: ("/v1beta/models/m:generateContent", {"contents": [{"parts": [{"text": "go"}]}]}),
}
every_wire = pytest.mark.parametrize("wire", ASKS, ids=str)
every_way = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
LOOK = calls(call("c1", "look", n=1), call("c2", "look", "{}"), text="Let me look.")


@attrs.frozen
class Answer:
    """What the server answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def streamed(wire: Wire, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The request that asks for a stream."""
    path = ASKS[wire][0]
    if wire is GEMINI:
        return path.replace(":generateContent", ":streamGenerateContent?alt=sse"), body
    return path, body | {"stream": True} | ({"stream_options": {"include_usage": True}} if wire is OPENAI_CHAT else {})


def connected(server: WireServer) -> http.client.HTTPConnection:
    """A connection to the server."""
    return http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=60)


def sent(connection: http.client.HTTPConnection, wire: Wire, stream: bool, **more: Any) -> http.client.HTTPResponse:
    """Ask the server of this wire over a connection."""
    path, body = ASKS[wire]
    path, body = streamed(wire, body) if stream else (path, body)
    connection.request("POST", path, json.dumps(body | more), {"Content-Type": "application/json"})
    return connection.getresponse()


def ask(server: WireServer, wire: Wire, stream: bool = False, **more: Any) -> Answer:
    """The same over a connection of its own, read to its end."""
    connection = connected(server)
    try:
        response = sent(connection, wire, stream, **more)
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
    finally:
        connection.close()


def turn_of(wire: Wire, answer: Answer) -> Turn:
    """The turn that a wire reads."""
    if "event-stream" not in answer.headers["content-type"]:
        return wire.decode(answer.json)
    accumulator = wire.stream()
    for chunk in wire.read([answer.body]):
        accumulator.feed(chunk)
    accumulator.close()
    return accumulator.turn()


def told(turn: Turn) -> tuple[str, list[tuple[str, str, str]], str, Usage | None]:
    """What a turn says, but for its payload."""
    return turn.text, [(one.id, one.name, one.arguments_text) for one in turn.calls], turn.stop, turn.usage


def events(answer: Answer, wire: Wire) -> list[dict[str, Any]]:
    """The chunks of a body."""
    return list(wire.read([answer.body]))


# --- turns --------------------------------------------------------------------------------------------------

STOPS: dict[Wire, tuple[str, str, str, str]] = {
    OPENAI_CHAT: ("stop", "tool_calls", "length", "content_filter"),
    OPENAI_RESPONSES: ("completed", "completed", "max_output_tokens", "content_filter"),
    ANTHROPIC: ("end_turn", "tool_use", "max_tokens", "refusal"),
    GEMINI: ("STOP", "STOP", "MAX_TOKENS", "SAFETY"),
}


@every_way
@every_wire
def test_a_turn_comes_in_the_shape_of_the_path_that_was_asked(wire: Wire, stream: bool) -> None:
    """A text, and calls beside a text, with the usage that providers always tell."""
    usage = Usage(input_tokens=10, output_tokens=5, cached_tokens=0, reasoning_tokens=0, model="m")
    if wire is ANTHROPIC:
        usage = attrs.evolve(usage, reasoning_tokens=None)
    elif wire is not OPENAI_RESPONSES:
        usage = attrs.evolve(usage, reasoning_tokens=None, cached_tokens=None)
    final, asked, *_ = STOPS[wire]
    with wire_server("It is five, I think.", LOOK) as server:
        said = [told(turn_of(wire, ask(server, wire, stream))) for _ in range(2)]
    assert said == [
        ("It is five, I think.", [], final, usage),
        ("Let me look.", [("c1", "look", '{"n":1}'), ("c2", "look", "{}")], asked, usage),
    ]


@every_way
@every_wire
def test_a_turn_stops_for_the_reason_that_is_given(wire: Wire, stream: bool) -> None:
    """In the provider's own words where it has them, and word for word where nobody knows it."""
    reasons = ["length", "refusal", "novel"]
    with wire_server(*({"kind": "text", "content": "It", "stop": reason} for reason in reasons)) as server:
        said = [turn_of(wire, ask(server, wire, stream)).stop for _ in reasons]
    assert said == [*STOPS[wire][2:], "novel"]


@every_way
@every_wire
def test_a_turn_used_what_is_given(wire: Wire, stream: bool) -> None:
    """All of it told in the provider's way of counting; nothing, where that is given."""
    counts = {"input_tokens": 100, "output_tokens": 20, "cached_tokens": 60, "reasoning_tokens": 8}
    usage: dict[str, Any] = {**counts, "model": "m-2"}
    script = [{"kind": "final", "text": "It.", "usage": one} for one in (usage, Usage(**usage), {})]
    with wire_server(*script) as server:
        said = [turn_of(wire, ask(server, wire, stream)).usage for _ in script]
    assert said == [Usage(**usage), Usage(**usage), None]


@every_way
@every_wire
def test_arguments_that_are_no_json_come_as_the_provider_sends_them(wire: Wire, stream: bool) -> None:
    """As the text that the model wrote, also where an object stands otherwise; Gemini says that it was malformed."""
    with wire_server(call("c1", "look", '{"n": ')) as server:
        turn = turn_of(wire, ask(server, wire, stream))
    if wire is GEMINI:
        fault = 'the provider stopped it: MALFORMED_FUNCTION_CALL: Malformed function call: look({"n": )'
        assert (turn.kind, turn.fault) == ("malformed", fault)
    else:
        assert told(turn)[1] == [("c1", "look", '{"n": ')]


SIGNATURE, FUNCTION = "c2NyaXB0ZWQ=", {"name": "look", "arguments": "{}"}
THOUGHTS: dict[Wire, Any] = {
    OPENAI_CHAT: {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "reasoning_content": "I must look.",
        "tool_calls": [{"id": "", "type": "function", "function": FUNCTION}],
    },
    OPENAI_RESPONSES: [
        {
            "id": "rs_1_0",
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "I must look."}],
            "encrypted_content": SIGNATURE,
        },
        {"id": "fc_1_1", "type": "function_call", "status": "completed", "call_id": "", **FUNCTION},
    ],
    ANTHROPIC: [
        {"type": "thinking", "thinking": "I must look.", "signature": SIGNATURE},
        {"type": "tool_use", "id": "", "name": "look", "input": {}},
    ],
    GEMINI: {
        "role": "model",
        "parts": [
            {"text": "I must look.", "thought": True},
            {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": SIGNATURE},
        ],
    },
}
PAYLOADS = {(wire, False): payload for wire, payload in THOUGHTS.items()} | {
    # What an accumulator puts together: the text of arguments, the texts that are empty, nothing that is not sent.
    (OPENAI_CHAT, True): {one: value for one, value in THOUGHTS[OPENAI_CHAT].items() if one != "refusal"}
    | {"content": ""},
    (OPENAI_RESPONSES, True): THOUGHTS[OPENAI_RESPONSES],
    (ANTHROPIC, True): [THOUGHTS[ANTHROPIC][0], THOUGHTS[ANTHROPIC][1] | {"input": "{}"}],
    (GEMINI, True): {"role": "model", "parts": [*THOUGHTS[GEMINI]["parts"], {"text": ""}]},
}


@every_way
def test_a_gemini_call_that_was_cut_is_none(stream: bool) -> None:
    """The provider leaves it out and says why it stopped; of the calls before it the first is signed."""
    script = StreamScript(call("", "look", "{}"), call("", "look", "{}"), call("", "look", '{"n"'), stop="length")
    with wire_server(script) as server:
        turn = turn_of(GEMINI, ask(server, GEMINI, stream))
    function = {"functionCall": {"name": "look", "args": {}}}
    end = [{"text": ""}] if stream else []
    assert (turn.stop, turn.payload["parts"]) == (
        "MAX_TOKENS",
        [function | {"thoughtSignature": "c2NyaXB0ZWQ="}, function, *end],
    )


@every_way
@every_wire
def test_what_a_model_thinks_comes_signed(wire: Wire, stream: bool) -> None:
    """Thinking and its signature are in the payload, where the provider has them, in front of the call."""
    with wire_server(StreamScript(thinking("I must "), thinking("look."), call("", "look"))) as server:
        payload = turn_of(wire, ask(server, wire, stream)).payload
    assert payload == PAYLOADS[wire, stream]


@every_wire
def test_a_chunk_comes_with_each_piece(wire: Wire) -> None:
    """A screen is told piece by piece; a Gemini call comes whole, whatever the pieces of its arguments."""
    script = StreamScript("It ", "is.", call("c1", "look", '{"n"'), arguments(":1"), arguments("}"))
    with wire_server(script) as server:
        answer = ask(server, wire, stream=True)
    accumulator = wire.stream()
    deltas = [delta for chunk in events(answer, wire) for delta in accumulator.feed(chunk)]
    said = [(delta.kind, delta.text) for delta in deltas if delta.text]
    pieces = [("call", '{"n"'), ("call", ":1"), ("call", "}")] if wire is not GEMINI else [("call", '{"n":1}')]
    assert said == [("text", "It "), ("text", "is."), *pieces]


def test_usage_is_streamed_only_where_it_is_asked_for() -> None:
    """OpenAI's chat sends the chunk with the usage for stream_options.include_usage alone."""
    with wire_server("It.", "It.") as server:
        said = [ask(server, OPENAI_CHAT, True, stream_options=one) for one in (None, {"include_usage": True})]
    assert [[one.get("usage") for one in events(answer, OPENAI_CHAT)][-2:] for answer in said] == [
        [None, None],
        [{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}, None],
    ]


# --- the shapes ---------------------------------------------------------------------------------------------

SAYS = StreamScript(thinking("Hm."), "Look.", call("c1", "look", "{}"), stop="length")


@pytest.mark.parametrize(
    ("wire", "whole", "chunk"),
    [
        (OPENAI_CHAT, ChatCompletion, ChatCompletionChunk),
        (OPENAI_RESPONSES, Response, ResponseStreamEvent),
        (ANTHROPIC, Message, RawMessageStreamEvent),
        (GEMINI, GenerateContentResponse, GenerateContentResponse),
    ],
    ids=["openai-chat", "openai-responses", "anthropic", "gemini"],
)
def test_what_is_sent_is_what_the_sdk_knows(wire: Wire, whole: Any, chunk: Any) -> None:
    """Each body and each event is one of the SDK's types, with all that these require."""
    with wire_server(SAYS, LOOK, SAYS, LOOK) as server:
        bodies = [ask(server, wire).json for _ in range(2)]
        chunks = [one for _ in range(2) for one in events(ask(server, wire, stream=True), wire)]
    for body in bodies:
        TypeAdapter(whole).validate_python(body)
    known = TypeAdapter(chunk)
    for one in chunks:
        if one.get("type") not in ("[DONE]", "ping"):  # which the SDKs pass over
            known.validate_python(one)


def test_a_message_is_streamed_as_anthropic_streams_it() -> None:
    """Each block begins, grows and ends; usage and stop reason come before the end."""
    begun: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
    begun |= {"content": [], "stop_reason": None, "stop_sequence": None}
    used = {"input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    with wire_server(SAYS, SAYS) as server:
        answer, whole = ask(server, ANTHROPIC, stream=True), ask(server, ANTHROPIC).json
    chunks = events(answer, ANTHROPIC)

    def block(index: int, begin: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            {"type": "content_block_start", "index": index, "content_block": begin},
            *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": index},
        ]

    assert chunks == [
        {"type": "message_start", "message": begun | {"usage": used | {"output_tokens": 1}}},
        {"type": "ping"},
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "Hm."},
            {"type": "signature_delta", "signature": "c2NyaXB0ZWQ="},
        ),
        *block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Look."}),
        *block(
            2,
            {"type": "tool_use", "id": "c1", "name": "look", "input": {}},
            {"type": "input_json_delta", "partial_json": "{}"},
        ),
        {
            "type": "message_delta",
            "delta": {"stop_reason": "max_tokens", "stop_sequence": None},
            "usage": used | {"output_tokens": 5},
        },
        {"type": "message_stop"},
    ]
    assert answer.body.startswith(b"event: message_start\ndata: {")
    assert whole == begun | {
        "id": "msg_2",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "c2NyaXB0ZWQ="},
            {"type": "text", "text": "Look."},
            {"type": "tool_use", "id": "c1", "name": "look", "input": {}},
        ],
        "stop_reason": "max_tokens",
        "usage": used | {"output_tokens": 5},
    }


def test_a_response_that_is_incomplete_ends_so() -> None:
    """Its last event has another name than that of one that is completed."""
    with wire_server(SAYS, LOOK) as server:
        said = [events(ask(server, OPENAI_RESPONSES, stream=True), OPENAI_RESPONSES)[-1] for _ in range(2)]
    assert [(one["type"], one["response"]["status"], one["response"]["incomplete_details"]) for one in said] == [
        ("response.incomplete", "incomplete", {"reason": "max_output_tokens"}),
        ("response.completed", "completed", None),
    ]


def test_an_event_is_framed_as_the_provider_frames_it() -> None:
    """Gemini ends its lines with CRLF, and OpenAI's chat its stream with a mark."""
    with wire_server("It.", "It.") as server:
        gemini, chat = ask(server, GEMINI, stream=True), ask(server, OPENAI_CHAT, stream=True)
    assert (gemini.body[:20], gemini.body[-4:]) == (b'data: {"candidates":', b"\r\n\r\n")
    assert (chat.body[:12], chat.body[-16:]) == (b'data: {"id":', b"\n\ndata: [DONE]\n\n")


@every_way
@every_wire
def test_a_raw_body_is_sent_as_it_is(wire: Wire, stream: bool) -> None:
    """A dict as JSON, bytes as a stream where one is asked for: what a script can't say."""
    with wire_server({"oops": 1}, b"data: {}\n\n") as server:
        said = [ask(server, wire, stream) for _ in range(2)]
    kinds = ["application/json", "text/event-stream" if stream else "application/json"]
    assert [(one.status, one.headers["content-type"]) for one in said] == [(200, kind) for kind in kinds]
    assert [one.body for one in said] == [b'{"oops":1}', b"data: {}\n\n"]


# --- what goes wrong ----------------------------------------------------------------------------------------

WORDS = {
    400: ("invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT"),
    401: ("invalid_api_key", "authentication_error", "UNAUTHENTICATED"),
    418: ("invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT"),
    429: ("rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED"),
    500: ("server_error", "api_error", "INTERNAL"),
    529: ("server_error", "overloaded_error", "INTERNAL"),
}


@every_way
@pytest.mark.parametrize("status", WORDS)
def test_an_error_has_the_providers_words(status: int, stream: bool) -> None:
    """Its status, and a body with the provider's own code for it."""
    chat, anthropic, gemini = WORDS[status]
    kind = chat if status in (429, 500, 529) else "invalid_request_error"
    openai_error = {"error": {"message": "No.", "type": kind, "param": None, "code": chat}}
    with wire_server(*[ProviderError(status, "No.")] * 4) as server:
        said = {wire: ask(server, wire, stream) for wire in ASKS}
    assert [one.status for one in said.values()] == [status] * 4
    assert {wire: one.json for wire, one in said.items()} == {
        OPENAI_CHAT: openai_error,
        OPENAI_RESPONSES: openai_error,
        ANTHROPIC: {"type": "error", "error": {"type": anthropic, "message": "No."}, "request_id": "req_1"},
        GEMINI: {"error": {"code": status, "message": "No.", "status": gemini}},
    }


def test_an_error_says_what_the_script_says() -> None:
    """When to come again, other headers, another code, and a gateway's own page."""
    script = [
        ProviderError(429, retry_after=2.5, headers={"X-Request": "7"}, code="slow"),
        ProviderError(429, retry_after="Mon, 30 Nov 2026 12:00:00 GMT"),
        ProviderError(502, body=b"<html>"),
    ]
    with wire_server(*script) as server:
        first, second, third = [ask(server, OPENAI_CHAT) for _ in script]
    assert (first.headers["retry-after"], first.headers["x-request"]) == ("2.5", "7")
    assert first.json["error"]["code"] == "slow"
    assert second.headers["retry-after"] == "Mon, 30 Nov 2026 12:00:00 GMT"
    assert (third.status, third.headers["content-type"], third.body) == (502, "text/html", b"<html>")


@every_wire
def test_an_error_in_the_middle_ends_the_stream(wire: Wire) -> None:
    """As an event with the provider's code, after which nothing comes; an accumulator raises it."""
    with wire_server(StreamScript(call("c1", "look"), ProviderError(500, "Oops."), "never")) as server:
        answer = ask(server, wire, stream=True)
    with pytest.raises(ModelError) as caught:
        turn_of(wire, answer)
    codes: dict[Wire, str] = {GEMINI: "INTERNAL", ANTHROPIC: "api_error"}
    error, code = caught.value, codes.get(wire, "server_error")
    assert (answer.status, error.code, error.message, error.retryable) == (200, code, "Oops.", True)
    assert b"never" not in answer.body


def test_the_events_of_an_error() -> None:
    """Responses count theirs on; what is no event is sent as it is."""
    with wire_server(
        StreamScript("It", ProviderError(429, "Slow.")), StreamScript("It", ProviderError(502, body=b"<"))
    ) as server:
        first, second = ask(server, OPENAI_RESPONSES, stream=True), ask(server, OPENAI_RESPONSES, stream=True)
    error = {"type": "error", "code": "rate_limit_exceeded", "message": "Slow.", "param": None, "sequence_number": 5}
    *before, last = events(first, OPENAI_RESPONSES)
    assert [one["sequence_number"] for one in before] == [0, 1, 2, 3, 4]
    assert (last["error"], second.body[-2:]) == (error, b"\n<")


@every_wire
def test_an_error_in_the_middle_is_the_answer_where_nothing_is_streamed(wire: Wire) -> None:
    """The same script brings its status."""
    with wire_server(StreamScript("It", ProviderError(500, "Oops."))) as server:
        answer = ask(server, wire)
    assert (answer.status, "Oops." in str(answer.json)) == (500, True)


@every_wire
def test_a_stream_that_is_cut_ends_in_good_order(wire: Wire) -> None:
    """What came is whole, but for its end: the call whose arguments look complete included."""
    with wire_server(StreamScript(call("c1", "look", '{"n":1}'), CUT, "never")) as server:
        answer = ask(server, wire, stream=True)
    with pytest.raises(ModelError, match="stream_cut"):
        turn_of(wire, answer)
    assert (answer.status, b"never" in answer.body) == (200, False)


def test_a_stream_can_be_empty() -> None:
    """A server that sends a status and nothing else."""
    with wire_server(StreamScript(CUT)) as server:
        answer = ask(server, OPENAI_CHAT, stream=True)
    assert (answer.status, answer.headers["content-type"], answer.body) == (200, "text/event-stream", b"")


def test_a_body_that_is_cut_is_half_of_it() -> None:
    """Where nothing is streamed, the client has half of the JSON."""
    with wire_server("It is five.", StreamScript("It is five.", CUT)) as server:
        whole, half = ask(server, OPENAI_CHAT), ask(server, OPENAI_CHAT)
    same = whole.body.replace(b"chatcmpl-1", b"chatcmpl-2").replace(b'"created":1', b'"created":2')
    assert half.body == same[: len(same) // 2]


@every_wire
def test_a_connection_that_is_dropped_leaves_the_stream_unfinished(wire: Wire) -> None:
    """The client sees that it is."""
    with (
        wire_server(StreamScript("It is ", DROP)) as server,
        pytest.raises(http.client.IncompleteRead) as caught,
    ):
        ask(server, wire, stream=True)
    assert b"It is " in caught.value.partial


@every_way
def test_a_connection_can_be_dropped_before_anything_is_sent(stream: bool) -> None:
    """Not even a status comes."""
    with wire_server(StreamScript(DROP)) as server, pytest.raises(http.client.RemoteDisconnected):
        ask(server, OPENAI_CHAT, stream)


def test_bytes_are_sent_in_between() -> None:
    """A chunk that is none, in a stream; where nothing is streamed they are left out."""
    with wire_server(*[StreamScript("It.", b"data: {oops\n\n")] * 2) as server:
        answer, whole = ask(server, OPENAI_CHAT, stream=True), ask(server, OPENAI_CHAT)
    with pytest.raises(ModelError, match="stream_malformed"):
        turn_of(OPENAI_CHAT, answer)
    assert turn_of(OPENAI_CHAT, whole).text == "It."


# --- what happens meanwhile ---------------------------------------------------------------------------------


@every_way
def test_a_server_stalls_until_it_is_released(stream: bool) -> None:
    """Nothing comes before an Event is set, not even a status if it stands first."""
    gate, token, reached = threading.Event(), CancelToken(), threading.Event()
    with wire_server(StreamScript(reached.set, gate, token, "It.")) as server:
        answers: list[Answer] = []
        client = threading.Thread(target=lambda: answers.append(ask(server, OPENAI_CHAT, stream)))
        client.start()
        assert reached.wait(60)
        before = (list(answers), token.cancelled)
        gate.set()
        client.join()
    assert (before, token.cancelled) == (([], False), True)
    assert turn_of(OPENAI_CHAT, answers[0]).text == "It."
    assert not server.requests[0].closed_by_client.is_set()


def test_a_server_that_stalls_sees_that_its_client_goes() -> None:
    """The request says so; before, what came of the stream was there to read."""
    with wire_server(StreamScript("It is ", threading.Event(), "five.")) as server:
        connection = connected(server)
        response = sent(connection, OPENAI_CHAT, stream=True)
        line = b""
        while b"It is" not in line:
            line = response.readline()
        before = server.requests[0].closed_by_client.is_set()
        response.close()
        connection.close()
        assert server.requests[0].closed_by_client.wait(60)
    assert before is False


def test_a_server_ends_while_it_stalls() -> None:
    """It waits for nobody, and says of no client that it went."""
    reached = threading.Event()
    with wire_server(StreamScript(reached.set, threading.Event())) as server:
        connection = connected(server)
        path, body = ASKS[OPENAI_CHAT]
        connection.request("POST", path, json.dumps(body))
        assert reached.wait(60)
    connection.close()
    assert not server.requests[0].closed_by_client.is_set()


def test_a_connection_that_comes_as_the_server_ends_is_ended() -> None:
    """Though its thread was not yet there when all others were."""
    with wire_server() as server:
        pass
    here, there = socket.socketpair()
    with here, there:
        server.keep(here)
        assert there.recv(1) == b""


def test_what_a_function_of_the_script_raises_is_raised_at_the_end() -> None:
    """An assertion in the script fails the test, though it runs on the server's thread."""

    def fail() -> None:
        raise AssertionError("not like this")

    with pytest.raises(AssertionError, match="not like this"), wire_server(StreamScript(fail)) as server:
        ask(server, OPENAI_CHAT)


# --- requests -----------------------------------------------------------------------------------------------


def test_a_server_keeps_what_it_was_asked() -> None:
    """Path, headers in lower case, and body, in order, over one connection."""
    with wire_server("One.", "Two.") as server:
        connection = connected(server)
        first = sent(connection, OPENAI_CHAT, False, temperature=0).read()
        second = sent(connection, GEMINI, True).read()
        connection.close()
    assert (b"One." in first, b"Two." in second) == (True, True)
    assert [(one.path, one.headers["content-type"], one.body) for one in server.requests] == [
        ("/v1/chat/completions", "application/json", {"model": "m", "messages": [GO], "temperature": 0}),
        ("/v1beta/models/m:streamGenerateContent?alt=sse", "application/json", ASKS[GEMINI][1]),
    ]
    server.assert_used_up()


def test_a_script_goes_on_with_what_is_added() -> None:
    """A test can see first what was asked."""
    with wire_server("One.") as server:
        ask(server, OPENAI_CHAT)
        server.add("Two.")
        assert turn_of(OPENAI_CHAT, ask(server, OPENAI_CHAT)).text == "Two."


def test_a_request_too_many_is_refused_with_a_sentence() -> None:
    """As are those that no provider is asked; the end of the script says so."""
    with wire_server("One.") as server:
        ask(server, OPENAI_CHAT)
        second = ask(server, ANTHROPIC)
        with pytest.raises(AssertionError, match="wire_server refused requests: wire_server: its script has 1 repl"):
            server.assert_used_up()
    sentence = "wire_server: its script has 1 replies, and this is request 2"
    assert (second.status, second.json["error"]["message"], server.refused) == (400, sentence, [sentence])


def test_replies_that_nobody_asked_for_are_told() -> None:
    """A run that ends too early does not go unseen."""
    with wire_server("One.", "Two.") as server:
        ask(server, OPENAI_CHAT)
        with pytest.raises(AssertionError, match="wire_server: 1 of 2 replies were not asked for"):
            server.assert_used_up()


NOT_SERVED = (
    "this is not served, but POST /v1/chat/completions, /v1/responses, /v1/messages, "
    "/v1/models/{model}:generateContent, :streamGenerateContent?alt=sse (as /v1beta and /v1alpha)"
)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        (
            "POST",
            "/v1/v1/messages",
            "{}",
            404,
            "POST /v1/v1/messages: this is not served, but POST /v1/chat/completions",
        ),
        ("POST", "/chat/completions", "{}", 404, f"POST /chat/completions: {NOT_SERVED}"),
        ("POST", "/v2/models/m:generateContent", "{}", 404, f"POST /v2/models/m:generateContent: {NOT_SERVED}"),
        (
            "POST",
            "/v1beta/models/m:streamGenerateContent",
            "{}",
            404,
            "POST /v1beta/models/m:streamGenerateContent: this is not",
        ),
        ("GET", "/v1/messages", None, 404, f"GET /v1/messages: {NOT_SERVED}"),
        ("POST", "/v1/messages", "{", 400, "the request: its body must be a JSON object with something in it"),
        ("POST", "/v1/messages", "[" * 99_999, 400, "the request: its body must be a JSON object with something in it"),
        ("POST", "/v1/messages?beta=true", "[]", 400, "the request: its body must be a JSON object"),
    ],
)
def test_what_no_provider_is_asked_is_refused(method: str, path: str, body: str | None, status: int, says: str) -> None:
    """A wrong path and a body that is none are told with a sentence, and take no reply."""
    with wire_server() as server:
        connection = connected(server)
        connection.request(method, path, body)
        response = connection.getresponse()
        message = json.loads(response.read())["error"]["message"]
        connection.close()
    assert (response.status, message.startswith(says), server.refused) == (status, True, [message])


@pytest.mark.parametrize("header", ["Content-Length: two", "Content-Length: -1", "Transfer-Encoding: chunked"])
def test_a_body_without_a_known_end_is_refused(header: str) -> None:
    """With what would be right; nothing else is read from that connection."""
    with wire_server() as server, closing(connected(server)) as client:
        client.connect()
        connection: socket.socket = client.sock
        connection.sendall(f"POST /v1/messages HTTP/1.1\r\n{header}\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n".encode())
        with connection.makefile("rb") as reader:
            head, _, body = reader.read().partition(b"\r\n\r\n")
    sentence = "the request: its body must be a JSON object with something in it, sent with its Content-Length"
    assert (head[:12], json.loads(body)["error"]["message"], server.refused) == (b"HTTP/1.1 400", sentence, [sentence])


@pytest.mark.parametrize(
    ("reply", "error", "says"),
    [
        (5, TypeError, "wire_server: reply 1 must be text, a PLAIN reply, a StreamScript, a ProviderError, or a raw"),
        ({"kind": "oops"}, ValueError, "wire_server: reply 1: kind: it must be one of 'final', 'text', 'call', "),
        ({"kind": "final", "text": 5}, TypeError, "wire_server: reply 1: a reply has a text and a list of calls"),
        ({"kind": "calls", "calls": [{"id": "a"}]}, ValueError, "wire_server: reply 1: StreamScript: item 0 must be "),
        ({"kind": "final", "text": "x", "usage": {"input_tokens": -1}}, ValueError, "reply 1: Usage: input_tokens"),
        (
            {"kind": "final", "text": "x", "stop": 5},
            TypeError,
            "wire_server: reply 1: StreamScript: stop must be a text",
        ),
        ({"choices": object()}, TypeError, "wire_server: reply 1 can't be written as JSON: "),
    ],
)
def test_what_is_no_reply_is_refused(reply: Any, error: type[Exception], says: str) -> None:
    """Before the server is there, by its place."""
    with pytest.raises(error, match=says):
        wire_server("One.", reply).__enter__()


def test_a_wire_that_no_provider_speaks_is_refused() -> None:
    """PLAIN is this library's own."""
    with pytest.raises(ValueError, match="no provider speaks <wire plain>, so it has no streams; those that are spok"):
        provider_of(PLAIN)
    assert [provider_of(one.wire) for one in PROVIDERS] == list(PROVIDERS)


# --- whole runs ---------------------------------------------------------------------------------------------


@tool(effect="read")
def look(n: int = 0) -> str:
    """Look."""
    return f"saw {n}"


def with_openai(server: WireServer) -> Callable[[Any, Any], Any]:
    """A model callable that asks the server through the real SDK."""
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)

    def model(messages: Any, tools: Any) -> Any:
        return client.chat.completions.create(model="m", messages=list(messages), tools=list(tools))

    return model


@every_way
@pytest.mark.parametrize("version", ["v1", "v1beta", "v1alpha"])
def test_each_version_of_the_gemini_api_is_served(version: str, stream: bool) -> None:
    """Which of them a client asks changes nothing."""
    path, body = streamed(GEMINI, ASKS[GEMINI][1]) if stream else ASKS[GEMINI]
    with wire_server("It is five.") as server, closing(connected(server)) as connection:
        connection.request("POST", path.replace("v1beta", version), json.dumps(body))
        response = connection.getresponse()
        answer = Answer(
            response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
        )
        server.assert_used_up()
    assert turn_of(GEMINI, answer).text == "It is five."


def test_googles_client_needs_to_be_told_nothing_but_where_the_server_is() -> None:
    """It asks the version that it asks by itself."""
    with wire_server("It.", "is.") as server:
        options: Any = {"base_url": server.url}
        with closing(genai.Client(api_key="none", http_options=options)) as client:
            asked: dict[str, Any] = {"model": "m", "contents": "go"}
            whole = client.models.generate_content(**asked).text
            pieces = [one.text for one in client.models.generate_content_stream(**asked)]
        server.assert_used_up()
    assert (whole, "".join(piece or "" for piece in pieces)) == ("It.", "is.")


def test_a_run_over_the_real_sdk() -> None:
    """Two calls and an answer; what the server saw is what the run says."""
    with wire_server(LOOK, "It is 1.") as server:
        result = run(with_openai(server), "go", tools=[look], wire=OPENAI_CHAT)
        server.assert_used_up()
    assert (result.status, result.text) == ("answered", "It is 1.")
    assert [one["content"] for one in server.requests[1].body["messages"]] == ["go", "Let me look.", "saw 1", "saw 0"]
    assert len(server.requests[1].body["tools"]) == 1
