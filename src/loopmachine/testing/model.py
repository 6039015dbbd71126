"""A model that follows a script."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from reprlib import Repr
from typing import Any
from typing import Final as Constant

import attrs

from loopmachine.models.adapter import are_seconds, check_screen
from loopmachine.records import Turn
from loopmachine.requests import AskModel
from loopmachine.testing.providers import provider_of
from loopmachine.testing.script import DROP, PATIENCE, Action, action, impatient, kind_of_item, perform, scripted
from loopmachine.testing.stream import StreamScript
from loopmachine.wire import PLAIN, Delta, Reader, Wire
from loopmachine.wire.framing import Chunk

_LOOK_SECONDS: Constant = 0.001  #: how often an async model that waits looks whether it may go on
_SHORT: Constant = Repr()
_SHORT.maxlevel, _SHORT.maxlist, _SHORT.maxdict, _SHORT.maxstring = 8, 12, 12, 120


@attrs.frozen
class Seen:
    """What a model was given at one call, in plain lists of its own."""

    messages: list[Any]
    tools: list[Any]
    tool_choice: str = "auto"
    system: Any = None  #: where the wire takes it apart from the messages


class ScriptedModel:
    """A model callable that gives these turns in order, and keeps in ``seen`` what it was given at each call.

    A turn is a text or a PLAIN reply (``call``, ``calls``), which come out in the shape of ``wire``; a reply in that
    shape, a Turn, an SDK's object; a StreamScript, of which ``on_delta`` gets the deltas; or an exception to raise.
    In front of a turn may stand what happens first: a threading.Event is waited for, at most ``patience`` seconds, a
    CancelToken is cancelled, a function called. TypeError, ValueError for what is none of these, and for other options
    that can't be right.

    A run takes what a model raises for a failure of the model, also that its script is at an end: ``assert_used_up``
    tells.
    """

    def __init__(
        self,
        *turns: Any,
        wire: Wire = PLAIN,
        on_delta: Callable[[Delta], object] | None = None,
        patience: float = PATIENCE,
    ) -> None:
        if not isinstance(wire, Wire):
            raise TypeError(f"ScriptedModel: wire must be a wire, such as PLAIN or OPENAI_CHAT, not {wire!r}")
        if patience != 0 and not are_seconds(patience):
            raise TypeError(f"ScriptedModel: patience must be finite seconds, from 0 on, not {patience!r}")
        check_screen(on_delta)
        self.wire = wire
        self.seen: list[Seen] = []
        self._on_delta = on_delta
        self._patience = patience
        self._turns: list[tuple[list[Action], Any]] = []
        before: list[Action] = []
        for place, item in enumerate(turns):
            if happens := action(item):
                before.append(happens)
            else:
                self._turns.append((before, self._turn(item, place)))
                before = []
        if before:
            raise ValueError("ScriptedModel: what happens stands in front of a turn, and none follows the last of it")

    def __call__(self, messages: Any, tools: Any, ask: AskModel | None) -> Any:
        """The next turn. AssertionError where there is none."""
        steps = self._step(messages, tools, ask)
        while True:
            try:
                perform(next(steps), self._patience)
            except StopIteration as end:
                return end.value

    def assert_used_up(self) -> None:
        """Assert that the model was asked for each of its turns and for no more."""
        asked, turns = len(self.seen), len(self._turns)
        if asked != turns:
            raise AssertionError(f"ScriptedModel: its script has {turns} turns, and it was asked for {asked}")

    def _turn(self, item: Any, place: int) -> Any:
        """A turn as it is given, or a StreamScript, or an exception."""
        if isinstance(item, str) and self.wire is PLAIN:
            return {"kind": "final", "text": item}
        try:
            if isinstance(item, StreamScript):
                provider_of(self.wire)
            elif self.wire is not PLAIN and (script := scripted(item)):
                return provider_of(self.wire).whole(script, place + 1)
        except (TypeError, ValueError) as error:
            raise type(error)(f"ScriptedModel: turn {place}: {error}") from None
        if isinstance(item, StreamScript) or _raises(item):
            return item
        if isinstance(item, Mapping | Turn) or hasattr(item, "model_dump"):
            return copy.deepcopy(item)
        raise TypeError(
            f"ScriptedModel: turn {place} must be text, a reply, a Turn, a StreamScript, an exception, or what happens "
            f"(a threading.Event, a CancelToken, a function), not {kind_of_item(item)}"
        )

    def _step(self, messages: Any, tools: Any, ask: AskModel | None) -> Generator[Action, None, Any]:
        """What happens at a call, one by one; then its turn is returned or raised."""
        about = () if ask is None else (ask.tool_choice, copy.deepcopy(ask.system))
        self.seen.append(Seen(copy.deepcopy(list(messages)), copy.deepcopy(list(tools)), *about))
        if len(self.seen) > len(self._turns):
            raise self._asked_too_often()
        before, turn = self._turns[len(self.seen) - 1]
        yield from before
        if _raises(turn):
            raise turn
        return (yield from self._streamed(turn)) if isinstance(turn, StreamScript) else turn

    def _streamed(self, script: StreamScript) -> Generator[Action, None, Turn]:
        """What happens in a stream; then its turn is returned, or the ModelError that it ends with is raised."""
        provider, reader, stream = provider_of(self.wire), Reader(), self.wire.stream()

        def feed(chunks: Iterable[Chunk]) -> None:
            for chunk in chunks:
                for delta in stream.feed(chunk):
                    if self._on_delta is not None:
                        self._on_delta(delta)

        for item in provider.stream(script, provider.begin(script, len(self.seen))):
            if isinstance(item, bytes):
                feed(reader.feed(item))
            elif item is not DROP:
                yield item
        feed(reader.close())
        stream.close()
        return stream.turn()

    def _asked_too_often(self) -> AssertionError:
        known = len(self.seen[-2].messages) if len(self.seen) > 1 else 0
        return AssertionError(
            f"ScriptedModel: its script has {len(self._turns)} turns, and it was asked for one more, with these new "
            f"messages: {_SHORT.repr(self.seen[-1].messages[known:])}"
        )


class AsyncScriptedModel(ScriptedModel):
    """The same as an async callable, which ``run_async`` cancels at the deadline and when the run is cancelled."""

    async def __call__(self, messages: Any, tools: Any, ask: AskModel | None) -> Any:
        """The next turn. AssertionError where there is none."""
        steps = self._step(messages, tools, ask)
        while True:
            try:
                happens = next(steps)
            except StopIteration as end:
                return end.value
            if isinstance(happens, threading.Event):
                await self._set(happens)
            else:
                happens()

    async def _set(self, event: threading.Event) -> None:
        import asyncio

        ends = time.monotonic() + self._patience
        while not event.is_set():
            if time.monotonic() >= ends:
                raise impatient(self._patience)
            await asyncio.sleep(_LOOK_SECONDS)


def _raises(item: Any) -> bool:
    return isinstance(item, BaseException) or (isinstance(item, type) and issubclass(item, BaseException))
