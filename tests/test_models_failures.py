"""What goes wrong over the providers' own SDKs is a ModelError in the provider's words, told apart by what helps."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import closing
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from google.genai import errors as google_errors

from loopmachine import ModelError, Policy, models, run, run_async
from loopmachine.models.failures import failure
from loopmachine.records import Failure
from loopmachine.testing import DROP, ProviderError, StreamScript, wire_server
from loopmachine.testing.providers import provider_of
from loopmachine.wire import ANTHROPIC, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES
from tests.sdks import MAKERS, Way, async_client_of, client_of, every_maker, every_streamed_way, every_way, failed, ran

WIRES = dict(zip(MAKERS, [OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC, GEMINI], strict=True))
#: Statuses, and whether asking again may help.
STATUSES = dict.fromkeys([400, 401, 403, 404, 422], False) | dict.fromkeys([408, 429, 500, 502, 503, 504, 529], True)


@every_way
def test_each_refusal_is_told_in_the_providers_words(way: Way) -> None:
    """Its code and its message; too many requests, overload and faults of the server's are worth asking again."""
    refusals = [ProviderError(status, f"it is {status}") for status in STATUSES]
    with wire_server(*refusals) as server:
        told = [failed(way, server.url) for _ in refusals]
    word = provider_of(WIRES[way.maker]).word
    assert told == [
        Failure(word(one), one.message, retryable) for one, retryable in zip(refusals, STATUSES.values(), strict=True)
    ]


@every_way
def test_the_wait_that_a_server_asks_for_is_told(way: Way) -> None:
    """In seconds, as its header says."""
    with wire_server(ProviderError(429, "slow down", retry_after=1.5)) as server:
        told = failed(way, server.url)
    assert (told.message, told.retryable, told.retry_after) == ("slow down", True, 1.5)


@every_way
def test_a_gateways_page_is_told_by_its_status(way: Way) -> None:
    """What is no JSON has no code of its own."""
    with wire_server(ProviderError(502, body=b"<html>Bad gateway</html>")) as server:
        told = failed(way, server.url)
    assert told == Failure("http_502", "<html>Bad gateway</html>", True)


@every_way
@pytest.mark.parametrize(("detail", "says"), [("Not so", "Not so"), ([{"msg": "No."}], "[{'msg': 'No.'}]")])
def test_the_detail_that_a_gateway_tells_is_what_it_said(way: Way, detail: Any, says: str) -> None:
    """As servers made with FastAPI answer, which is not how the provider does."""
    with wire_server(ProviderError(422, body=json.dumps({"detail": detail}).encode())) as server:
        told = failed(way, server.url)
    assert told == Failure("http_422", says, False)


@every_way
def test_a_server_that_hangs_up_is_a_lost_connection(way: Way) -> None:
    """Before it answered."""
    with wire_server(StreamScript(DROP)) as server:
        told = failed(way, server.url)
    assert (told.code, told.retryable) == ("connection_error", True)


@every_way
def test_a_server_that_is_not_there_is_a_lost_connection(way: Way) -> None:
    """The message says that the connection was refused."""
    with wire_server() as server:
        url = server.url
    told = failed(way, url)
    assert (told.code, told.retryable, "refused" in told.message or "attempts" in told.message) == (
        "connection_error",
        True,
        True,
    )


@every_way
def test_a_server_slower_than_the_clients_own_timeout_may_be_asked_again(way: Way) -> None:
    """The run has time left: it is the request that took too long."""
    with wire_server(StreamScript("Well, ", threading.Event())) as server:
        told = failed(way, server.url, adapter={"timeout": 0.2})
    assert (told.code, told.retryable, told.timed_out) == ("timeout", True, False)


# --- errors in a body ----------------------------------------------------------------------------------------


@every_streamed_way
def test_an_error_in_the_middle_of_a_stream_is_the_providers(way: Way) -> None:
    """Under status 200, after some of the reply."""
    with wire_server(StreamScript("Well, ", ProviderError(503, "overloaded"))) as server:
        told = failed(way, server.url)
    assert (told.code, told.message, told.retryable) == (
        provider_of(WIRES[way.maker]).word(ProviderError(503)),
        "overloaded",
        True,
    )


@every_streamed_way
def test_a_chunk_that_is_no_json_is_malformed(way: Way) -> None:
    """The SDKs raise what is of no kind of theirs, or nothing."""
    with wire_server(StreamScript("Well, ", b"data: {no json\n\n")) as server:
        told = failed(way, server.url)
    assert (told.code, told.retryable) == ("stream_malformed", True)


#: Errors in a stream that Google's SDK falls over, and what they are.
ODD: list[tuple[Any, tuple[str, str, bool]]] = [
    ({"error": {"code": "overloaded", "message": "later"}}, ("overloaded", "later", True)),
    ({"error": {"code": "bad_thing", "message": "no"}}, ("bad_thing", "no", False)),
    ({"error": {"message": "no"}}, ("error", "no", False)),
    ({"error": "boom"}, ("error", "boom", False)),
    ({"candidates": [5]}, ("stream_malformed", "what the server sent can't be read: TypeError: ", True)),
]


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("before", [(), ("Well, ",)], ids=["at once", "later"])
@pytest.mark.parametrize(("chunk", "expected"), ODD)
def test_an_error_that_googles_sdk_can_not_read(
    chunk: Any, expected: tuple[str, str, bool], before: tuple[str, ...], asynchronous: bool
) -> None:
    """It is the provider's all the same, with its code; a chunk of no shape is malformed."""
    script = StreamScript(*before, b"data: " + json.dumps(chunk).encode() + b"\r\n\r\n")
    with wire_server(script) as server:
        told = failed(Way("google", asynchronous, True), server.url)
    assert (told.code, told.message[: len(expected[1])], told.retryable) == expected


@every_maker
def test_an_error_in_a_whole_body_is_the_providers(maker: str) -> None:
    """Under status 200, in the place of a reply."""
    body = {"error": {"type": "overloaded_error", "message": "try later"}}
    with wire_server(body) as server:
        told = failed(Way(maker, False, False), server.url)
    assert told == Failure("overloaded_error", "try later", True)


@pytest.mark.parametrize("body", [b"<html>Sign in</html>", b"[1]", b""])
@every_maker
def test_a_whole_body_that_is_no_json_object_is_malformed(maker: str, body: bytes) -> None:
    """Such as the page of a proxy."""
    with wire_server(body) as server:
        told = failed(Way(maker, False, False), server.url)
    assert told == Failure("stream_malformed", f"the server sent no JSON object: {body.decode()}", True)


ENDED = b'data: {"model":"m1","choices":[{"delta":{"content":"Whole."},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_reply_that_was_whole_when_the_connection_broke_is_taken(asynchronous: bool) -> None:
    """Its end had been seen."""
    with wire_server(StreamScript(ENDED, DROP)) as server:
        result = ran(Way("openai_chat", asynchronous, True), server.url)
    assert (result.status, result.text) == ("answered", "Whole.")


@pytest.mark.parametrize(
    ("used", "named"), [({"usage": {"prompt_tokens": 3, "completion_tokens": 4}}, "m1"), ({}, None)]
)
def test_the_usage_of_a_reply_that_does_not_name_its_model_names_the_one_that_was_asked(
    used: dict[str, Any], named: str | None
) -> None:
    """So that a price can be found; usage that is not reported stays so."""
    body = {"choices": [{"message": {"content": "Done."}, "finish_reason": "stop"}], **used}
    with wire_server(body) as server:
        result = ran(Way("openai_chat", False, False), server.url)
    assert result.snapshot.turn is not None
    usage = result.snapshot.turn.usage
    assert (result.text, usage and usage.model) == ("Done.", named)


# --- the table of errors -------------------------------------------------------------------------------------

DATE = "Mon, 30 Nov 2026 12:00:00 GMT"
BILLING = {"error": {"code": "insufficient_quota", "message": "pay"}}


def refused(status: int, body: Any = None, **headers: str) -> ModelError:
    """The error that the SDK of OpenAI makes of a response."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = httpx2.Request("POST", "http://127.0.0.1")
    response = httpx2.Response(status, headers=named, content=json.dumps(body or {}), request=request)
    client = openai.OpenAI(api_key="key")
    return failure(client._make_status_error_from_response(response), begun=False)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "7", "retry_after_ms": "250"}, 0.25),
        ({"retry_after": "Mon, 30 Nov 2026 12:00:09 GMT", "date": DATE}, 9.0),
        ({"retry_after": "Mon, 30 Nov 2026 12:00:09 -0000", "date": DATE}, 9.0),
        ({"retry_after": "Mon, 30 Nov 2026 11:00:00 GMT", "date": DATE}, 0.0),
        ({"retry_after": "Mon, 30 Nov 1998 12:00:00 GMT"}, 0.0),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "-1"}, None),
        ({"retry_after": "inf"}, None),
        ({"retry_after": "nan"}, None),
        ({}, None),
    ],
)
def test_when_to_ask_again_is_read_from_the_headers(headers: dict[str, str], seconds: float | None) -> None:
    """Milliseconds, seconds, or an HTTP date on the server's own clock; what can't be read is not told."""
    assert refused(429, **headers).retry_after == seconds


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        (refused(429, BILLING), ("insufficient_quota", "pay", False)),
        (refused(400, x_should_retry="true"), ("http_400", "Error code: 400", True)),
        (refused(503, x_should_retry="false"), ("http_503", "Error code: 503", False)),
        (refused(503, x_should_retry="perhaps"), ("http_503", "Error code: 503", True)),
        (
            refused(400, {"error": {"code": 400, "type": "bad_request"}}),
            ("bad_request", "Error code: 400", False),
        ),
    ],
)
def test_the_server_has_the_last_word_on_asking_again(told: ModelError, wanted: tuple[str, str, bool]) -> None:
    """``x-should-retry`` outranks the status; a quota that is spent is not refilled by waiting."""
    assert (told.code, told.message, told.retryable) == wanted


def test_google_tells_the_wait_in_the_error() -> None:
    """Among its details, as seconds with an s."""
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
    details: list[Any] = ["odd", {"@type": "other"}, info]
    body = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow", "details": details}}
    told = failure(google_errors.ClientError(429, body), begun=False)
    assert (told.code, told.message, told.retryable, told.retry_after) == ("RESOURCE_EXHAUSTED", "slow", True, 34.5)


@every_way
def test_an_error_within_a_list_is_told_in_the_providers_words(way: Way) -> None:
    """As Google's servers send it, whatever shape they are asked in: with its wait."""
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
    error = {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow", "details": [info]}
    with wire_server(ProviderError(429, "x", body=json.dumps([{"error": error}]).encode())) as server:
        assert failed(way, server.url) == Failure("RESOURCE_EXHAUSTED", "slow", True, 34.5)


@pytest.mark.parametrize("body", [b"[]", b'["slow"]', b'[{"error": null}]'])
@every_maker
def test_a_list_that_holds_no_error_is_told_by_its_status(maker: str, body: bytes) -> None:
    """Whether asking again may help is known from that."""
    with wire_server(ProviderError(429, "x", body=body)) as server:
        told = failed(Way(maker, False, False), server.url)
    assert (told.code, told.retryable) == ("http_429", True)


def test_an_error_of_google_that_says_nothing_is_told_by_its_status() -> None:
    """Its body is no object."""
    told = failure(google_errors.ServerError(500, []), begun=False)
    assert (told.code, told.message, told.retryable) == ("http_500", "500 None. []", True)


REQUEST = httpx2.Request("POST", "http://127.0.0.1")


@pytest.mark.parametrize(
    ("raised", "begun", "wanted"),
    [
        (anthropic.APITimeoutError(REQUEST), False, ("timeout", True)),
        (httpx2.ReadTimeout("slow"), True, ("timeout", True)),
        (TimeoutError(), False, ("timeout", True)),
        (openai.APIConnectionError(request=REQUEST), False, ("connection_error", True)),
        (httpx2.ReadError("gone"), True, ("stream_cut", True)),
        (ConnectionResetError("gone"), True, ("stream_cut", True)),
        (httpx2.DecodingError("no gzip"), True, ("stream_malformed", True)),
        (ValueError("odd"), False, ("ValueError", False)),
        (openai.OpenAIError("no key"), False, ("OpenAIError", False)),
    ],
)
def test_what_an_sdk_raises_without_a_status_is_told_apart(
    raised: Exception, begun: bool, wanted: tuple[str, bool]
) -> None:
    """Timeouts, lost connections, streams that were cut, bodies that can't be read, and faults of the caller's."""
    told = failure(raised, begun)
    assert (told.code, told.retryable) == wanted


def test_what_is_hidden_behind_an_error_is_told() -> None:
    """SDKs say no more than that there was a connection error."""
    hidden = openai.APIConnectionError(request=REQUEST)
    hidden.__cause__ = httpx2.ConnectError("Connection refused")
    assert failure(hidden, False).message == "APIConnectionError: Connection error. (ConnectError: Connection refused)"


@pytest.mark.parametrize("stream", [False, True])
@every_maker
def test_a_client_that_is_closed_is_not_asked_again(maker: str, stream: bool) -> None:
    """It stays closed, also where its SDK calls that a connection error."""
    with wire_server("never") as server:
        client = client_of(maker, server.url)
        model = getattr(models, maker)(client, "m1", stream=stream)
        client.close()
        told = run(model, "go", policy=Policy(model_retries=2)).snapshot.failure
    assert told == Failure("RuntimeError", "Cannot send a request, as the client has been closed.", False)


@every_maker
def test_an_async_client_that_is_closed_is_not_asked_again(maker: str) -> None:
    """As a sync one."""

    async def asked() -> Failure | None:
        client = async_client_of(maker, server.url)
        model = getattr(models, maker)(client, "m1")
        await (client.aclose() if maker == "google" else client.close())
        return (await run_async(model, "go", policy=Policy(model_retries=2))).snapshot.failure

    with wire_server("never") as server:
        told = asyncio.run(asked())
    assert told == Failure("RuntimeError", "Cannot send a request, as the client has been closed.", False)


@every_maker
def test_nothing_of_the_sdk_gets_out(maker: str) -> None:
    """What it raises for a request that it does not send ends the run as any failure."""
    options: dict[str, Any] = {} if maker == "google" else {"extra_body": {"n": float("nan")}}
    with wire_server() as server, closing(client_of(maker, server.url)) as client:
        result = run(getattr(models, maker)(client, "../m1", **options), "go")
    told = result.snapshot.failure
    assert told is not None
    assert (told.code, told.retryable, result.status, server.requests) == ("ValueError", False, "model_error", [])


@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_is_no_exception_passes_through(asynchronous: bool) -> None:
    """It is the host's own; the connection is closed all the same."""

    def show(delta: object) -> None:
        raise KeyboardInterrupt

    with wire_server(StreamScript("Well, ", threading.Event())) as server:
        with pytest.raises(KeyboardInterrupt):
            ran(Way("anthropic", asynchronous, True), server.url, adapter={"on_delta": show})
        assert server.requests[0].closed_by_client.wait(30)
