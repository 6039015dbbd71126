"""The base of all accumulators, which put a streamed reply together, and what each new piece says to a screen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Protocol, TypeVar
from typing import Final as Constant

import attrs

from loopmachine.errors import ModelError
from loopmachine.frozen import whole
from loopmachine.records import Call, Turn
from loopmachine.wire.fields import Asked, Unreadable, aborts, as_asked, mapping, says_why
from loopmachine.wire.framing import END, STREAM_CUT, STREAM_MALFORMED, Chunk

T = TypeVar("T")

#: What providers call errors that pass: overload, too many requests, a fault of the server's own. In lower case.
_PASSING: Constant = frozenset(
    f"""
    api_error deadline_exceeded engine_overloaded internal internal_error internal_server_error overloaded
    overloaded_error rate_limit rate_limit_error rate_limit_exceeded resource_exhausted server_error
    server_overloaded service_unavailable timeout timeout_error too_many_requests unavailable
    {STREAM_CUT} {STREAM_MALFORMED}
    """.split()
)


@attrs.frozen
class Delta:
    """What is new for a screen. ``kind`` is "text", "thinking" or "call"; ``text`` is new text, of a call's arguments.

    Of a call, ``place`` counts those of this stream as they begin, and ``id`` and ``name`` are what is known so far.
    """

    kind: str
    text: str
    place: int = 0
    id: str = ""
    name: str = ""


class Decode(Protocol):
    """``Wire.decode``."""

    def __call__(self, reply: object, calls: Callable[[tuple[Asked, ...]], tuple[Call, ...]] = ..., /) -> Turn:
        """The turn that a reply brings."""


class Accumulator(ABC):
    """Puts a streamed reply together as the provider sends one that is not streamed, which the wire then decodes.

    There is a turn only on terminal evidence: a finish reason, the wire's own end mark, or a clean close. A finish
    reason is none any more once more of the reply follows it.
    """

    #: ``[DONE]`` is this wire's own end mark; on others, whose gateways may add it to a cut reply too, it says nothing.
    done_ends: ClassVar[bool] = False

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._failure: ModelError | None = None
        self._stop: Any = None  #: the stop reason
        self._evident = False  #: a finish reason was seen, and nothing of the reply after it
        self._ended = False  #: an end mark was seen: what comes after it is not looked at
        self._closed = False
        self._halves: dict[tuple[str, int], Delta] = {}  #: the first halves of characters, shown with the second
        self._reply: Chunk | None = None  #: a reply that came in one piece

    def feed(self, chunk: object) -> tuple[Delta, ...]:
        """Take a chunk, a dict or an SDK's object, and say what is new.

        Raises ModelError for an error that the provider sent, with its code, and with ``stream_malformed`` for what is
        no chunk of this wire; ``feed`` and ``turn`` then raise nothing else. ValueError after ``close``.
        """
        if self._closed:
            raise ValueError("this stream was closed: another reply needs an accumulator of its own, wire.stream()")
        return () if self._ended else self._guarded(lambda: tuple(self._fed(mapping(chunk))))

    def _guarded(self, act: Callable[[], T]) -> T:
        """What this brings, unless something failed before; whatever it raises fails the stream for good."""
        if self._failure is None:
            try:
                return act()
            except ModelError as error:
                self._failure = error
            except Exception as error:
                said = str(error) if isinstance(error, Unreadable) else f"{type(error).__name__}: {error}"
                self._failure = ModelError(STREAM_MALFORMED, f"a chunk can't be read: {said}", retryable=True)
        raise self._failure

    def _fed(self, chunk: Chunk) -> Iterator[Delta]:
        if chunk.get("error"):
            raise provider_error(chunk["error"])
        if "error" in (chunk.get("type"), chunk.get("object")):
            raise provider_error(chunk)
        if chunk.get("type") == END:
            self._ended = self.done_ends
        else:
            for delta in self._take(chunk):
                self._evident = False
                yield from self._printable(delta)
        if self._evident or self._ended:
            yield from [attrs.evolve(half, text=whole(half.text)) for half in self._halves.values()]
            self._halves.clear()

    def _printable(self, delta: Delta) -> Iterator[Delta]:
        """The delta in whole characters; one that is only half there waits for what comes next of its text."""
        key = delta.kind, delta.place
        text = self._halves.pop(key).text + delta.text if key in self._halves else delta.text
        if "\ud800" <= text[-1:] < "\udc00":
            self._halves[key] = attrs.evolve(delta, text=text[-1])
            text = text[:-1]
        if text or not delta.text:
            yield delta if text.isascii() and text == delta.text else attrs.evolve(delta, text=whole(text))

    @abstractmethod
    def _take(self, chunk: Chunk) -> Iterable[Delta]:
        """Take what a chunk adds. Whatever this raises makes the chunk malformed; a ModelError is raised as it is."""

    @abstractmethod
    def _body(self) -> Chunk | None:
        """The reply so far, as one that is not streamed; None where nothing of one came."""

    def _stopped(self, stop: Any) -> bool:
        """Take a stop reason, and say whether it says something: one that says nothing changes nothing.

        The last one counts, but that the reply was cut, refused or broken is not taken back.
        """
        if not stop or (isinstance(stop, str) and not says_why(stop)):
            return False
        self._stop = self._stop if self._stop and aborts(self._stop) else stop
        return True

    def _take_whole(self, reply: Chunk) -> Iterator[Delta]:
        """Take a reply that came in one piece, as servers send it that do not stream."""
        self._reply, self._ended = reply, True
        turn = self._decode(reply)
        if turn.text:
            yield Delta("text", turn.text)
        for call in turn.calls:
            yield Delta("call", call.arguments_text, call.place, call.id, call.name)

    def close(self, clean: bool = False) -> None:
        """Say that no chunk comes any more; ``clean`` if the server is known to have ended the stream by itself.

        Only the first close counts. That a connection ended without an error is no such knowledge.
        """
        self._ended |= clean and not self._closed
        self._closed = True

    def turn(self, calls: Callable[[tuple[Asked, ...]], tuple[Call, ...]] = as_asked) -> Turn:
        """The turn, as ``wire.decode(reply, calls)`` makes it.

        Raises what ``feed`` raised, or without terminal evidence the ModelError ``stream_cut``, which is retryable.
        """
        reply = self._guarded(self._body) if self._reply is None else self._reply
        if reply is None:
            raise ModelError(STREAM_CUT, "the stream brought nothing of a reply", retryable=True)
        if not (self._evident or self._ended):
            raise ModelError(STREAM_CUT, "the stream ended before the reply did", retryable=True)
        return self._decode(reply, calls)


class Replies(Accumulator):
    """For a shape that is not streamed: the reply comes in one chunk."""

    def _take(self, chunk: Chunk) -> Iterable[Delta]:
        return self._take_whole(chunk)

    def _body(self) -> None:
        return None


def provider_error(error: object) -> ModelError:
    """The error that a provider sent in the place of a reply, or of the rest of one.

    Its code is the provider's: the first word among code, type and status, else a number there. Overload, rate
    limits, timeouts and faults of the server's own are retryable. Its message is the provider's, or the ``detail`` that
    gateways tell.
    """
    told = error if isinstance(error, Mapping) else {"message": error}
    words = [told.get(field) for field in ("code", "type", "status", "status_code")]
    named = [str(word) for word in words if isinstance(word, str | int) and str(word).strip() not in ("", "error")]
    named.sort(key=str.isdecimal)  # a word says more than the HTTP status beside it
    message = told.get("detail") if told.get("message") is None else told["message"]
    return ModelError(
        named[0] if named else "error",
        message if isinstance(message, str) else "" if message is None else repr(message),
        retryable=any(map(_passes, named)),
    )


def _passes(word: str) -> bool:
    if word.isdecimal() and len(word) == 3:  # an HTTP status
        return int(word) in (408, 425, 429) or int(word) >= 500
    return word.lower() in _PASSING
