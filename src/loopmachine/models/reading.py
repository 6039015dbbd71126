"""One reply as it comes: its pieces put together, shown meanwhile, and ended early by a cancel or the deadline."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from typing import Final as Constant

import attrs

from loopmachine.errors import ModelError
from loopmachine.frozen import thaw
from loopmachine.host import LONGEST_WAIT
from loopmachine.models.failures import TIMEOUT, failure, is_timeout
from loopmachine.records import Turn
from loopmachine.requests import AskModel
from loopmachine.tools import CancelToken
from loopmachine.tools.context import POLL_SECONDS
from loopmachine.wire import Delta, Reader, Wire
from loopmachine.wire.framing import STREAM_MALFORMED
from loopmachine.wire.stream import provider_error

CANCELLED: Constant = "cancelled"  #: the run was cancelled while the model was asked
_AT_LEAST: Constant = 0.001  #: seconds: no timeout at all is what a zero means to some clients


class Reading:
    """Reads the reply to one request. A piece is bytes of its body, or a chunk where the SDK gives nothing rawer.

    A cancel ends a stream; a reply in one body is awaited by a sync client, and its outcome kept.
    """

    def __init__(self, wire: Wire, model: str, stream: bool, show: Callable[[Delta], None], ask: AskModel) -> None:
        self._wire, self._model, self._stream, self._show, self._ask = wire, model, stream, show, ask
        self._reader, self._accumulator = Reader(), wire.stream()
        self._body = bytearray()  #: of a reply that is not streamed
        self._begun = False
        self.gone = CancelToken()  #: set when nobody wants more of it

    @property
    def left(self) -> float | None:
        """Seconds until the deadline."""
        deadline = self._ask.deadline
        return None if deadline is None else max(deadline - self._ask.clock(), _AT_LEAST)

    @property
    def _late(self) -> bool:
        return self._ask.deadline is not None and self._ask.clock() >= self._ask.deadline

    @property
    def patience(self) -> float:
        """Seconds to wait until a ``check``."""
        polled = POLL_SECONDS if self._stream and self._ask.cancel is not None else LONGEST_WAIT
        return polled if self.left is None else min(polled, self.left)

    def check(self) -> None:
        """ModelError for a cancel of a stream, and past the deadline."""
        if self._stream and self._ask.cancel is not None and self._ask.cancel():
            raise _cancelled()
        if self._late:
            raise _late()

    def take(self, piece: Any) -> None:
        """Take a piece. ModelError for an error that the provider sent in it, for a cancel, and past the deadline."""
        self._begun = True
        if not isinstance(piece, bytes):
            self._feed([piece])
        elif self._stream:
            self._feed(self._reader.feed(piece))
        else:
            self._body += piece
        self.check()

    def _feed(self, chunks: list[Any]) -> None:
        for chunk in chunks:
            for delta in self._accumulator.feed(chunk):
                self._show(delta)

    def turn(self) -> Turn:
        """The turn, whose usage names the model. ModelError where there is none."""
        if self._stream:
            self._feed(self._reader.close())
            turn = self._accumulator.turn()
        else:
            turn = self._wire.decode(self._whole())
        if turn.usage is None or turn.usage.model:
            return turn
        return attrs.evolve(turn, usage=attrs.evolve(turn.usage, model=self._model))

    def _whole(self) -> Any:
        """The body of a reply that is not streamed."""
        text = self._body.decode(errors="replace")
        try:
            body = thaw(text)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            said = f"the server sent no JSON object: {text[:500]}"
            raise ModelError(STREAM_MALFORMED, said, retryable=True)
        if body.get("error"):
            raise provider_error(body["error"])
        return body

    def ended(self, error: Exception) -> Turn:
        """The turn, if it was whole when this was raised; else raise what failed, as a ModelError."""
        failed = self._failed(error)
        try:
            return self.turn()
        except ModelError:
            raise failed from (None if failed is error else error)

    def _failed(self, error: Exception) -> ModelError:
        return _late() if self._late and is_timeout(error) else failure(error, self._begun)

    @contextmanager
    def watched(self, response: Any) -> Iterator[None]:
        """Within it, a read that waits for the server ends when the reply is left.

        A thread can't be cancelled: its connection is shut down under it. ``response`` is that of httpx.
        """
        connection = _Connection(response)
        unsubscribe = self.gone.subscribe(connection.shut)
        try:
            yield
        finally:
            unsubscribe()
            connection.leave()


def _cancelled() -> ModelError:
    return ModelError(CANCELLED, "the run was cancelled while the model was asked")


def _late() -> ModelError:
    return ModelError(TIMEOUT, "the run's deadline passed while the model was asked", timed_out=True)


class _Connection:
    """That of a response, until it is left: it may then be another's."""

    def __init__(self, response: Any) -> None:
        self._lock = threading.Lock()
        self._response = response

    def leave(self) -> None:
        """Never shut it down after this."""
        with self._lock:
            self._response = None

    def shut(self) -> None:
        """Shut the socket down, at which a read in another thread ends. Nothing where it is shared or there is none."""
        with self._lock:
            extensions = getattr(self._response, "extensions", {})
            if str(extensions.get("http_version")) != "b'HTTP/2'":
                with suppress(AttributeError, KeyError, OSError, TypeError):
                    one = extensions["network_stream"].get_extra_info("socket")
                    socket.socket.shutdown(one, socket.SHUT_RDWR)  # the base's: that of TLS forgets its keys
