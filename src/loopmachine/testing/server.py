"""A loopback HTTP server that speaks the shapes of the providers, from a script."""

from __future__ import annotations

import json
import select
import socket
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any
from typing import Final as Constant

import attrs

from loopmachine.frozen import freeze
from loopmachine.testing.checking import forbid
from loopmachine.testing.providers import PROVIDERS
from loopmachine.testing.providers.base import Provider, Writer
from loopmachine.testing.script import Ending, ProviderError, Script, as_json, scripted
from loopmachine.wire.fields import Unreadable

_LOOK_SECONDS: Constant = 0.01  #: how often a server that waits looks whether its client is still there


@attrs.define
class Request:
    """What a client sent: the path with its query, the headers by their names in lower case, the JSON body."""

    path: str
    headers: dict[str, str]
    body: Any
    #: Set once the client has closed the connection before it had the whole reply.
    closed_by_client: threading.Event = attrs.field(factory=threading.Event, repr=False)


class _Gone(Exception):
    """The connection is gone, or is to go."""


class WireServer(ThreadingTCPServer):
    """The server within ``with wire_server(...) as server``."""

    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, script: Iterable[Any]) -> None:
        self.requests: list[Request] = []  #: what came, in order
        self.refused: list[str] = []  #: why requests were refused, in order
        self.failures: list[BaseException] = []
        self.stopping = threading.Event()
        self._script: list[Any] = []
        self._taken = 0
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self.add(*script)
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        """Where it listens, without a path: SDKs of OpenAI want ``/v1`` after it."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def add(self, *script: Any) -> None:
        """Go on with these replies when those before are given."""
        self._script += [_reply(item, len(self._script) + place) for place, item in enumerate(script)]

    def assert_used_up(self) -> None:
        """Assert that every reply was given, and that no request was refused."""
        left = len(self._script) - self._taken
        if self.refused:
            raise AssertionError(f"wire_server refused requests: {'; '.join(self.refused)}")
        if left:
            raise AssertionError(f"wire_server: {left} of {len(self._script)} replies were not asked for")

    def next_reply(self) -> tuple[int, Any]:
        """The next reply of the script and its number, from 1. Unreadable where there is none."""
        with self._lock:
            self._taken += 1
            number = self._taken
        if number > len(self._script):
            raise Unreadable(f"wire_server: its script has {len(self._script)} replies, and this is request {number}")
        return number, self._script[number - 1]

    def keep(self, connection: socket.socket) -> None:
        """Remember an open connection, so that it can be ended; at once where the server stops."""
        with self._lock:
            self._connections.add(connection)
        if self.stopping.is_set():
            _end(connection)

    def forget(self, connection: socket.socket) -> None:
        """A connection is about to be closed."""
        with self._lock:
            self._connections.discard(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep what a handler raised, such as a function of the script, to raise it at the end."""
        self.failures.append(sys.exc_info()[1])  # type: ignore[arg-type]  # there is one

    def stop(self) -> None:
        """End every connection and wait for the threads."""
        self.stopping.set()
        self.shutdown()
        with self._lock:
            for connection in self._connections:
                _end(connection)
        self.server_close()


def _end(connection: socket.socket) -> None:
    with suppress(OSError):  # the client may have gone
        connection.shutdown(socket.SHUT_RDWR)


def _reply(item: Any, place: int) -> Any:
    try:
        script = scripted(item)
    except (TypeError, ValueError) as error:
        raise type(error)(f"wire_server: reply {place}: {error}") from None
    if script is None and not isinstance(item, bytes | Mapping | ProviderError):
        raise TypeError(
            f"wire_server: reply {place} must be text, a PLAIN reply, a StreamScript, a ProviderError, or a raw body "
            f"(a dict or bytes), not {type(item).__name__}"
        )
    if isinstance(item, Mapping) and script is None:
        as_json(item, f"wire_server: reply {place}")
    return item if script is None else script


@contextmanager
def wire_server(*script: Any) -> Iterator[WireServer]:
    """A server on loopback that gives these replies in order, each in the shape of the path that was asked.

    ``/v1/chat/completions``, ``/v1/responses``, ``/v1/messages``, ``/v1/models/M:generateContent`` and
    ``:streamGenerateContent?alt=sse``, as ``/v1beta`` and ``/v1alpha`` too; one body, or events where the request asks
    for a stream. A reply is a text, a PLAIN reply, a StreamScript, a ProviderError, or a raw body: a dict, or bytes.
    Requests that a provider refuses are answered 400 with a sentence and take no reply; so are those that come once too
    often. What a function of the script raises is raised at the end. TypeError, ValueError for what is no reply.
    """
    server = WireServer(script)
    thread = threading.Thread(target=server.serve_forever, args=(_LOOK_SECONDS,), name="wire_server")
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()
        for failure in server.failures:
            raise failure


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: WireServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.server.keep(self.connection)

    def finish(self) -> None:
        self.server.forget(self.connection)
        super().finish()

    def handle_one_request(self) -> None:
        """As the base does; a client that is gone is no error."""
        try:
            super().handle_one_request()
        except (_Gone, ConnectionError):
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base calls it so
        """Say nothing."""

    def do_GET(self) -> None:
        """No provider is asked so."""
        self._serve()

    def do_POST(self) -> None:
        """Reply from the script."""
        self._serve()

    def _serve(self) -> None:
        body = self._body()
        self.asked = Request(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        self.server.requests.append(self.asked)
        try:
            self._answer(body if isinstance(body, dict) else {})
        except ConnectionError:
            if not self.server.stopping.is_set():
                self.asked.closed_by_client.set()
            raise

    def _body(self) -> Any:
        """The JSON that was sent; None for what is none, and where its end is not known."""
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # what follows can't be told from it
            return None
        try:
            return json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            return None

    def _answer(self, body: dict[str, Any]) -> None:
        served = [(one, how) for one in PROVIDERS if self.command == "POST" and (how := one.serves(self.path, body))]
        if not served:
            known = ", ".join(one.path for one in PROVIDERS)
            says = f"{self.command} {self.path}: this is not served, but POST {known}"
            self._refuse(PROVIDERS[0], ProviderError(404, says))
            return
        ((provider, (model, stream)),) = served
        try:
            right = "its body must be a JSON object with something in it, sent with its Content-Length"
            forbid(not body, "the request", right)
            provider.check(body, model)
            number, reply = self.server.next_reply()
        except Unreadable as wrong:
            self._refuse(provider, ProviderError(400, str(wrong)))
            return
        if isinstance(reply, ProviderError):
            self._send_error(provider, reply)
        elif not isinstance(reply, Script):
            kind = "text/event-stream" if stream and isinstance(reply, bytes) else "application/json"
            self._send(200, reply if isinstance(reply, bytes) else freeze(reply).encode(), kind)
        else:
            writer = provider.writer(reply, model, number, body)
            (self._stream if stream else self._whole)(provider, reply, writer)

    def _refuse(self, provider: Provider, error: ProviderError) -> None:
        self.server.refused.append(error.message)
        self._send_error(provider, error)

    # --- how a reply is sent ------------------------------------------------------------------------------

    def _send(self, status: int, data: bytes, kind: str = "application/json", **headers: str) -> None:
        self._send_head(status, {"Content-Type": kind, "Content-Length": str(len(data)), **headers})
        self.wfile.write(data)

    def _send_head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _send_error(self, provider: Provider, error: ProviderError) -> None:
        headers = dict(error.headers)
        if error.retry_after is not None:
            headers["Retry-After"] = str(error.retry_after)
        if error.body is None:
            self._send(error.status, freeze(provider.error(error)).encode(), **headers)
        else:
            self._send(error.status, error.body, "text/html", **headers)

    def _stream(self, provider: Provider, script: Script, writer: Writer) -> None:
        """Send the reply as a stream, whose head goes out with its first bytes."""
        begun = False
        for item in provider.stream(script, writer):
            if not isinstance(item, bytes):
                self._perform(item)
                continue
            if not begun:
                self._begin_stream()
                begun = True
            self.wfile.write(b"%x\r\n%b\r\n" % (len(item), item))
        if not begun:
            self._begin_stream()
        self.wfile.write(b"0\r\n\r\n")

    def _begin_stream(self) -> None:
        self._send_head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})

    def _whole(self, provider: Provider, script: Script, writer: Writer) -> None:
        """Send the reply in one body; half of it where the script is cut."""
        for item in script.items:
            if isinstance(item, tuple):
                writer.take(*item)
            elif isinstance(item, ProviderError):
                self._send_error(provider, item)
                return
            elif item is Ending.CUT:
                data = freeze(writer.body()).encode()
                self._send(200, data[: len(data) // 2])
                return
            elif not isinstance(item, bytes):
                self._perform(item)
        self._send(200, freeze(writer.body()).encode())

    def _perform(self, item: Any) -> None:
        """What happens at this point of a script."""
        if item is Ending.DROP:
            raise _Gone
        if not isinstance(item, threading.Event):
            item()
            return
        while not item.is_set():
            if select.select([self.connection], [], [], _LOOK_SECONDS)[0]:  # no client sends before it has a reply
                raise ConnectionAbortedError
