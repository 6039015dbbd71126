"""Whole runs over the providers' own SDKs, sync and async, streamed and not, against a server on loopback."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from loopmachine import Budget, CancelToken, Policy, run_async
from loopmachine.events import ModelReplied
from loopmachine.testing import CUT, DROP, ProviderError, StreamScript, call, calls, thinking, wire_server
from loopmachine.testing.providers.base import SIGNATURE
from loopmachine.testing.script import Ending
from loopmachine.wire import Delta
from tests.sdks import STREAMED, WAYS, Way, async_client_of, client_of, every_streamed_way, every_way, model_of, ran

LOOK = StreamScript(thinking("Hm."), "I look.", call("c1", "look", n=1), call("c2", "look", n=2))


def sent_back(maker: str, body: Any) -> Any:
    """What a request says that the model said: what of it must go back unchanged."""
    if maker == "openai_chat":
        return [(one["id"], one["function"]) for one in body["messages"][2]["tool_calls"]]
    if maker == "openai_responses":
        return [
            (one["call_id"], one["name"], one["arguments"])
            for one in body["input"]
            if one.get("type") == "function_call"
        ]
    if maker == "anthropic":
        return body["messages"][1]["content"]
    return body["contents"][1]["parts"]


SENT_BACK: dict[str, Any] = {
    "openai_chat": [
        ("c1", {"name": "look", "arguments": '{"n":1}'}),
        ("c2", {"name": "look", "arguments": '{"n":2}'}),
    ],
    "openai_responses": [("c1", "look", '{"n":1}'), ("c2", "look", '{"n":2}')],
    "anthropic": [
        {"type": "thinking", "thinking": "Hm.", "signature": SIGNATURE},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"n": 1}},
        {"type": "tool_use", "id": "c2", "name": "look", "input": {"n": 2}},
    ],
    "google": [
        {"text": "Hm.", "thought": True},
        {"text": "I look."},
        {"functionCall": {"id": "c1", "name": "look", "args": {"n": 1}}, "thoughtSignature": SIGNATURE},
        {"functionCall": {"id": "c2", "name": "look", "args": {"n": 2}}},
    ],
}


@every_way
def test_a_turn_with_two_calls_is_answered_over_every_sdk(way: Way) -> None:
    """Both calls run, what the model said goes back as it came, and the usage of each turn names the model."""
    with wire_server(LOOK, "It is 42.") as server:
        result = ran(way, server.url, system="Be brief.")
        server.assert_used_up()
    back = sent_back(way.maker, server.requests[1].body)
    if way.maker == "google" and way.stream:  # an empty text ends a stream of this provider
        back = [part for part in back if part.get("text") != ""]
    usages = [event.turn.usage for event in result.snapshot.events if isinstance(event, ModelReplied)]
    used = [(one.input_tokens, one.output_tokens, one.model) for one in usages if one is not None]
    assert (result.status, result.text, [(one.id, one.content) for one in result.results]) == (
        "answered",
        "It is 42.",
        [("c1", "seen 1"), ("c2", "seen 2")],
    )
    assert back == SENT_BACK[way.maker]
    assert used == [(10, 5, "m1")] * 2


@every_way
def test_a_retry_after_too_many_requests_is_a_row(way: Way) -> None:
    """The SDK does not retry by itself: each request is a step."""
    with wire_server(ProviderError(429, "slow down", retry_after=0), "done") as server:
        result = ran(way, server.url, policy=Policy(model_retries=1))
    assert (result.status, result.spend.steps, len(server.requests)) == ("answered", 2, 2)
    assert [row for row in result.rows if row.startswith("validating")] == ["validating/1", "validating/8"]


@every_way
def test_a_wrong_key_ends_the_run_with_what_the_provider_says(way: Way) -> None:
    """It is not asked again, whatever the policy bears."""
    with wire_server(ProviderError(401, "no such key")) as server:
        result = ran(way, server.url, policy=Policy(model_retries=3))
    assert (result.status, len(server.requests), "no such key" in result.explain()) == ("model_error", 1, True)


@pytest.mark.parametrize("end", [CUT, DROP], ids=str)
@every_streamed_way
def test_no_call_of_a_stream_that_was_cut_is_run(way: Way, end: Ending) -> None:
    """Neither where the server ends the body in good order nor where the connection is gone."""
    with wire_server(StreamScript("I look. ", "Now. ", call("c1", "look", n=1), end)) as server:
        result = ran(way, server.url)
    failure = result.snapshot.failure
    assert failure is not None
    assert (result.status, failure.code, failure.retryable, result.results, result.spend.calls) == (
        "model_error",
        "stream_cut",
        True,
        (),
        0,
    )


# --- the deadline and the cancel -----------------------------------------------------------------------------


@every_way
def test_a_server_that_stalls_is_left_at_the_deadline(way: Way) -> None:
    """The run is out of time, whatever the client's own timeout, and the connection is closed."""
    with wire_server("Well.", StreamScript("Well, ", threading.Event())) as server:
        ran(way, server.url)  # what an SDK does at its first request takes no part of the time
        result = ran(way, server.url, budget=Budget(max_seconds=1))
        closed = server.requests[1].closed_by_client.wait(30)
    failure = result.snapshot.failure
    assert failure is not None
    assert (result.status, failure.timed_out, closed) == ("time_budget", True, True)


@pytest.mark.parametrize(
    "way", [way for way in WAYS if way.asynchronous or (way.stream and way.maker != "google")], ids=str
)
def test_a_cancel_closes_the_connection_to_a_server_that_stalls(way: Way) -> None:
    """At once, with every async client, and with those sync ones that hand out the connection while it streams."""
    cancel = CancelToken()
    with wire_server(StreamScript("Well, ", cancel, threading.Event())) as server:
        result = ran(way, server.url, cancel=cancel, adapter={"timeout": 30})
        closed = server.requests[0].closed_by_client.wait(30)
    failure = result.snapshot.failure
    assert failure is not None
    # The host that cuts the task short and the adapter that looks at each chunk: either may be first.
    assert (result.status, failure.code in ("cancelled", "cut_short"), closed) == ("cancelled", True, True)


@pytest.mark.parametrize("way", [way for way in WAYS if not way.asynchronous and not way.stream], ids=str)
def test_a_sync_client_that_waits_for_a_whole_reply_is_awaited(way: Way) -> None:
    """What it brought is kept: its usage is spent, and the run is cancelled all the same."""
    cancel = CancelToken()
    with wire_server(StreamScript("Well.", cancel)) as server:
        result = ran(way, server.url, cancel=cancel)
    assert (result.status, result.spend.tokens) == ("cancelled", 15)


@pytest.mark.parametrize("way", [way for way in STREAMED if not way.asynchronous], ids=str)
def test_a_plain_callable_cancels_a_stream_between_its_chunks(way: Way) -> None:
    """It is asked at each chunk. The connection is closed then, or where it is not known once the server sends more."""
    told: list[str] = []
    more = threading.Event()
    with wire_server(StreamScript("Well, ", "so ", more, "far ", threading.Event())) as server:
        shown = {"on_delta": lambda delta: told.append(delta.text), "timeout": 60}
        result = ran(way, server.url, cancel=lambda: bool(told), adapter=shown)
        more.set()
        closed = server.requests[0].closed_by_client.wait(30)
    failure = result.snapshot.failure
    assert failure is not None
    assert (result.status, failure.code, closed) == ("cancelled", "cancelled", True)


#: A chunk that can't be read.
BROKEN = {
    "openai_chat": b'data: {"choices": 5}\n\n',
    "openai_responses": b'data: {"type": "response.output_item.added", "item": 5}\n\n',
    "anthropic": b'data: {"type": "content_block_delta"}\n\n',
    "google": b'data: {"candidates": [5]}\r\n\r\n',
}


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Nothing is collected meanwhile."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("way", [way for way in STREAMED if way.asynchronous], ids=str)
@pytest.mark.parametrize("end", ["a cancel that is told by a callable", "a broken chunk", "a broken chunk at once"])
def test_an_async_stream_that_is_left_is_closed_at_once(way: Way, end: str) -> None:
    """While its client is used on and nothing is collected: the connection is not left to whatever ends it later."""
    told: list[str] = []
    broken = [BROKEN[way.maker]] if "broken" in end else []
    script = StreamScript(*broken if "once" in end else ["Well, ", *broken], "so ", threading.Event())

    async def left() -> bool:
        client = async_client_of(way.maker, server.url)
        model = model_of(way, client, on_delta=lambda delta: told.append(delta.text), timeout=60)
        result = await run_async(model, "go", cancel=None if broken else lambda: bool(told))
        assert result.status == ("model_error" if broken else "cancelled")
        return await asyncio.to_thread(server.requests[0].closed_by_client.wait, 30)

    with wire_server(script) as server:
        assert asyncio.run(left())


@pytest.mark.parametrize("maker", ["openai_chat", "openai_responses", "anthropic"])
def test_a_task_that_is_cancelled_closes_the_stream_of_a_sync_client(maker: str) -> None:
    """At once, though it is read on a thread and nobody has a token."""
    begun = threading.Event()

    async def left() -> str:
        model = model_of(Way(maker, False, True), client, on_delta=lambda delta: begun.set(), timeout=60)
        driven = asyncio.create_task(run_async(model, "go"))
        await asyncio.to_thread(begun.wait, 30)
        driven.cancel()
        (ended,) = await asyncio.gather(driven, return_exceptions=True)
        return type(ended).__name__

    with wire_server(StreamScript("Well, ", threading.Event())) as server, client_of(maker, server.url) as client:
        assert (asyncio.run(left()), server.requests[0].closed_by_client.wait(30)) == ("CancelledError", True)


@pytest.mark.parametrize("way", [way for way in STREAMED if not way.asynchronous], ids=str)
def test_a_stream_that_trickles_on_past_the_deadline_is_cut(way: Way) -> None:
    """The client's timeout is about one wait; the run's clock is looked at after each."""
    now = [0.0]
    goes_on = threading.Event()

    def show(delta: Delta) -> None:
        now[0] = 100.0
        goes_on.set()

    with wire_server(StreamScript("Well, ", goes_on, CUT)) as server:
        result = ran(way, server.url, clock=lambda: now[0], budget=Budget(max_seconds=60), adapter={"on_delta": show})
    failure = result.snapshot.failure
    assert failure is not None
    assert (result.status, failure.code, failure.timed_out) == ("time_budget", "timeout", True)


# --- what a screen shows meanwhile ---------------------------------------------------------------------------


@every_way
def test_a_screen_gets_what_is_new(way: Way) -> None:
    """Text and each call's name and arguments, as they come; nothing of a reply that is not streamed."""
    shown: list[Delta] = []
    with wire_server(calls(call("c1", "look", n=1), text="I look."), "done") as server:
        ran(way, server.url, adapter={"on_delta": shown.append})
    text = "".join(delta.text for delta in shown if delta.kind == "text")
    written = "".join(delta.text for delta in shown if delta.kind == "call")
    names = {(delta.id, delta.name) for delta in shown if delta.kind == "call"}
    wanted = ("I look.done", '{"n":1}', {("c1", "look")}) if way.stream else ("", "", set())
    assert (text, written, names) == wanted


@every_streamed_way
def test_a_screen_that_raises_is_reported_once_and_harms_nothing(way: Way, caplog: pytest.LogCaptureFixture) -> None:
    """As an observer."""

    def show(delta: Delta) -> None:
        raise RuntimeError("no screen")

    with wire_server("I am done with all of it.") as server:
        result = ran(way, server.url, adapter={"on_delta": show})
    reported = [one.message for one in caplog.records if one.name == "loopmachine"]
    assert (result.text, reported) == ("I am done with all of it.", ["on_delta raised; the run goes on"])
