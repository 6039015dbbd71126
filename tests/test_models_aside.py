"""Replies of sync clients are read on a thread that can be left, whatever the server does."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import pytest

from loopmachine import Budget, CancelToken, ModelError, run, run_async
from loopmachine.models.aside import aside
from loopmachine.models.reading import Reading
from loopmachine.requests import AskModel
from loopmachine.testing import StreamScript, wire_server
from loopmachine.wire import OPENAI_CHAT
from tests.sdks import Way, client_of, every_maker, model_of

ASKED: ContextVar[str] = ContextVar("ASKED", default="nobody")


def reading_of(stream: bool = True, **asked: Any) -> Reading:
    """Of a reply to a request."""
    return Reading(OPENAI_CHAT, "m1", stream, print, AskModel(1, **asked))


def stalled(goes_on: threading.Event, closed: threading.Event) -> Generator[bytes]:
    """Pieces of a server that stalls."""
    try:
        goes_on.wait(60)
        yield b"late"
        yield b"later"
    finally:
        closed.set()


@pytest.mark.parametrize("why", ["the deadline of a whole reply", "a token", "a callable"])
def test_pieces_that_do_not_come_are_left_and_closed_once_they_do(why: str) -> None:
    """Nobody waits for the server: not at the deadline, and of a stream not after a cancel."""
    goes_on, closed, token, looks = threading.Event(), threading.Event(), CancelToken(), iter([False, True])
    token.cancel()
    told: dict[str, dict[str, Any]] = {
        "the deadline of a whole reply": {"stream": False, "deadline": time.monotonic() + 0.05},
        "a token": {"cancel": token},
        "a callable": {"cancel": lambda: next(looks), "deadline": time.monotonic() + 60},
    }
    with pytest.raises(ModelError) as raised:
        next(aside(stalled(goes_on, closed), reading_of(**told[why])))
    assert (raised.value.code, closed.is_set()) == ("timeout" if "deadline" in why else "cancelled", False)
    goes_on.set()
    assert closed.wait(30)


def test_a_whole_reply_is_awaited_whatever_the_cancel_says() -> None:
    """What it brings is kept."""
    token = CancelToken()
    token.cancel()
    goes_on, closed = threading.Event(), threading.Event()
    goes_on.set()
    assert list(aside(stalled(goes_on, closed), reading_of(stream=False, cancel=token))) == [b"late", b"later"]


def test_what_pieces_raise_comes_to_who_waits_for_them() -> None:
    """Also what is no Exception; and the thread has the context of who asked."""

    def pieces() -> Generator[str]:
        yield ASKED.get()
        raise SystemExit("enough")

    ASKED.set("me")
    brought = aside(pieces(), reading_of())
    assert next(brought) == "me"
    with pytest.raises(SystemExit, match="enough"):
        next(brought)


@pytest.mark.parametrize("said", [[], ["Well, "]], ids=["before the head", "in the midst"])
@every_maker
def test_a_cancel_leaves_a_sync_stream_that_stalls(maker: str, said: list[str]) -> None:
    """The run ends at once, also where the SDK hands out no connection; what the server sends then closes it."""
    cancel, goes_on = CancelToken(), threading.Event()
    script = StreamScript(*said, cancel, goes_on, "so ", threading.Event())
    with wire_server(script) as server, client_of(maker, server.url) as client:
        result = run(model_of(Way(maker, False, True), client, timeout=120), "go", cancel=cancel)
        failure = result.snapshot.failure
        assert failure is not None
        assert (result.status, failure.code, goes_on.is_set()) == ("cancelled", "cancelled", False)
        goes_on.set()
        assert server.requests[0].closed_by_client.wait(30)


def trickle(listening: socket.socket, left: threading.Event) -> None:
    """Answer one request with a body that never ends, while its client reads on."""
    connection, _ = listening.accept()
    with connection, suppress(OSError):
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 3000\r\n\r\n")
        while not left.wait(0.02):
            connection.sendall(b" ")


@every_maker
def test_the_deadline_leaves_a_whole_reply_that_trickles(maker: str) -> None:
    """The timeout of a client is about one wait, and Google's hands out no connection."""
    left = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = threading.Thread(target=trickle, args=(listening, left))
        server.start()
        with client_of(maker, f"http://127.0.0.1:{listening.getsockname()[1]}") as client:
            result = run(model_of(Way(maker, False, False), client), "go", budget=Budget(max_seconds=0.5))
        left.set()
        server.join()
    failure = result.snapshot.failure
    assert failure is not None
    assert (result.status, failure.code, failure.timed_out) == ("time_budget", "timeout", True)


@every_maker
def test_a_task_that_is_cancelled_leaves_the_stream_of_a_sync_client(maker: str) -> None:
    """At once, though it is read on a thread, nobody has a token and the server sent not even the head."""

    async def left(begun: asyncio.Event, model: Callable[..., Any]) -> str:
        driven = asyncio.create_task(run_async(model, "go"))
        await begun.wait()
        driven.cancel()
        (ended,) = await asyncio.gather(driven, return_exceptions=True)
        return type(ended).__name__

    async def main() -> tuple[str, bool]:
        begun, goes_on, now = asyncio.Event(), threading.Event(), asyncio.get_running_loop()
        script = StreamScript(lambda: now.call_soon_threadsafe(begun.set), goes_on, "Well, ", threading.Event())
        with wire_server(script) as server, client_of(maker, server.url) as client:
            ended = await left(begun, model_of(Way(maker, False, True), client, timeout=120))
            early = not goes_on.is_set()
            goes_on.set()
            return ended, early and await asyncio.to_thread(server.requests[0].closed_by_client.wait, 30)

    assert asyncio.run(main()) == ("CancelledError", True)


LEAVES = """
import threading, openai
from loopmachine import CancelToken, models, run
cancel = CancelToken()
model = models.openai_chat(openai.OpenAI(base_url="{url}/v1", api_key="key"), "m1", stream=True, timeout=120)
threading.Thread(target=lambda: (input(), cancel.cancel())).start()
print(run(model, "go", cancel=cancel).status)
"""


def test_a_reply_that_was_left_holds_up_no_process() -> None:
    """It ends while the server stalls."""
    begun = threading.Event()
    with wire_server(StreamScript(begun.set, threading.Event())) as server:
        command = [sys.executable, "-c", LEAVES.format(url=server.url)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert begun.wait(60)
            assert process.communicate("cancel\n", timeout=60)[0] == "cancelled\n"
        assert process.returncode == 0
