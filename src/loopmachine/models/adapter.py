"""The model callables that the adapters are, sync and async, and what each SDK has to say for that."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import aclosing, closing
from threading import TIMEOUT_MAX
from typing import Any, ClassVar

from loopmachine.models.aside import aside
from loopmachine.models.reading import Reading
from loopmachine.records import Turn
from loopmachine.requests import AskModel
from loopmachine.tools.signature import is_async
from loopmachine.wire import Delta, Messages, Wire

OnDelta = Callable[[Delta], object]
Request = dict[str, Any]
_logger = logging.getLogger("loopmachine")


def are_seconds(value: object) -> bool:
    """Whether somebody can wait so long: no time at all, a negative one, NaN and infinity are no seconds."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= TIMEOUT_MAX


def check_screen(on_delta: object) -> None:
    """Refuse what can't be told of deltas."""
    if on_delta is not None and (not callable(on_delta) or is_async(on_delta)):
        raise TypeError(f"on_delta must be callable, not async, or None, not {on_delta!r}")


class Sdk(ABC):
    """What an adapter needs of an SDK and its client."""

    maker: ClassVar[str]  #: the function of ``models`` that makes the adapter
    wire: ClassVar[Wire]
    ours: ClassVar[Mapping[str, str]]  #: the options that the run sets, and how

    def __init__(self, client: Any, model: str, stream: bool, options: Request) -> None:
        if not isinstance(model, str) or not model.strip():
            raise TypeError(f"models.{self.maker}: model must be the name of a model, not {model!r}")
        if not isinstance(stream, bool):
            raise TypeError(f"models.{self.maker}: stream must be True or False, not {stream!r}")
        for name in options:
            if name in self.ours:
                raise TypeError(f"models.{self.maker}: {name} can't be given here: {self.ours[name]}")
        self.client, self.model, self.stream, self.options = client, model, stream, options

    @abstractmethod
    def request(self, messages: Messages, tools: Messages, ask: AskModel, left: float | None) -> Request:
        """What the SDK is asked with, to be answered within the seconds that are left."""

    @abstractmethod
    def pieces(self, request: Request, reading: Reading) -> Generator[Any]:
        """Ask with a sync client: the pieces of the reply. Closing it closes the connection."""

    @abstractmethod
    def pieces_async(self, request: Request) -> AsyncGenerator[Any]:
        """The same with an async client."""


class _Adapter:
    """What the sync and the async one share."""

    def __init__(self, sdk: Sdk, on_delta: OnDelta | None) -> None:
        check_screen(on_delta)
        self._sdk = sdk
        self._on_delta = on_delta
        self._reported = False
        self.wire = sdk.wire  #: the shape that it speaks, which ``run`` takes from here
        self.model = sdk.model  #: the model's name

    def __repr__(self) -> str:
        return f"<models.{self._sdk.maker} {self.model}>"

    def _reading(self, ask: AskModel) -> Reading:
        return Reading(self.wire, self.model, self._sdk.stream, self._show, ask)

    def _show(self, delta: Delta) -> None:
        """Show what is new. One that raises is reported once and harms nothing."""
        try:
            if self._on_delta is not None:
                self._on_delta(delta)
        except Exception:  # the screen is no part of the run
            if not self._reported:
                self._reported = True
                _logger.exception("on_delta raised; the run goes on")


class Model(_Adapter):
    """A sync client as a model for ``run``; on a thread also for ``run_async``.

    A cancellation leaves a stream at once, and the deadline any reply; a whole reply is else awaited.
    """

    def __call__(self, messages: Messages, tools: Messages, ask: AskModel) -> Turn:
        """Ask the model. Raises ModelError, and what is no Exception."""
        reading = self._reading(ask)
        try:
            request = self._sdk.request(messages, tools, ask, reading.left)
            with closing(aside(self._sdk.pieces(request, reading), reading)) as pieces:
                for piece in pieces:
                    reading.take(piece)
        except Exception as error:
            return reading.ended(error)
        return reading.turn()


class AsyncModel(_Adapter):
    """An async client as a model for ``run_async``. A cancellation closes the connection at once."""

    async def __call__(self, messages: Messages, tools: Messages, ask: AskModel) -> Turn:
        """Ask the model. Raises ModelError, and what is no Exception."""
        reading = self._reading(ask)
        try:
            request = self._sdk.request(messages, tools, ask, reading.left)
            async with aclosing(self._sdk.pieces_async(request)) as pieces:
                async for piece in pieces:
                    reading.take(piece)
        except Exception as error:
            return reading.ended(error)
        return reading.turn()
