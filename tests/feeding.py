"""Bodies fed to accumulators, and what a body brought in the words of the expected.json that lies beside it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from loopmachine import ModelError, Turn
from loopmachine.wire import Accumulator, Delta, Wire


@attrs.frozen
class Fed:
    """What a stream brought: all its deltas, then its turn or the error in the place of one."""

    deltas: tuple[Delta, ...]
    turn: Turn | None = None
    error: ModelError | None = None

    def shown(self, kind: str) -> str:
        """The text of a kind that a screen showed."""
        return "".join(delta.text for delta in self.deltas if delta.kind == kind)

    @property
    def outcome(self) -> Any:
        """What a run would make of it: the error's code and whether it is retryable, or the turn's text and calls."""
        if self.error is not None:
            return self.error.code, self.error.retryable
        assert self.turn is not None
        return self.turn.kind, self.turn.text, asked(self.turn)

    @property
    def calls(self) -> list[tuple[str, str, str]]:
        """The calls that a screen showed: id, name, arguments text."""
        calls: dict[int, tuple[str, str, str]] = {}
        for delta in self.deltas:
            if delta.kind == "call":
                before = calls.get(delta.place, ("", "", ""))
                calls[delta.place] = (delta.id, delta.name, before[2] + delta.text)
        return [calls[place] for place in range(len(calls))]


def asked(turn: Turn) -> list[tuple[str, str, str]]:
    """The calls of a turn in the same words."""
    return [(call.id, call.name, call.arguments_text) for call in turn.calls]


def feed(stream: Accumulator, chunks: Iterable[object], *, clean: bool = False) -> Fed:
    """Feed all chunks, close, and ask for the turn."""
    deltas: list[Delta] = []
    try:
        for chunk in chunks:
            deltas += stream.feed(chunk)
        stream.close(clean)
        return Fed(tuple(deltas), stream.turn())
    except ModelError as error:
        return Fed(tuple(deltas), error=error)


def read(wire: Wire, pieces: Iterable[bytes]) -> Fed:
    """What a body brings."""
    return feed(wire.stream(), wire.read(pieces))


def bytewise(body: bytes) -> list[bytes]:
    """A body one byte at a time."""
    return [body[at : at + 1] for at in range(len(body))]


def cut(body: bytes, seed: int) -> Iterator[bytes]:
    """A body cut at random, the same for the same seed; now and then a piece is empty."""
    dice, at = random.Random(seed), 0
    while at < len(body):
        size = dice.choice([0, 1, 2, 3, 7, 30, 200, 1000])
        yield body[at : at + size]
        at += size


def as_told(fed: Fed) -> dict[str, Any]:
    """What a stream brought in the words of expected.json. Calls are those shown: a turn that was cut has none."""
    turn = fed.turn or Turn()
    usage = turn.usage
    told = {
        "text": fed.shown("text"),
        "finish": turn.stop or None,
        "usage": usage and {"input": usage.input_tokens, "output": usage.output_tokens},
        "error": fed.error is not None and fed.error.code,
        "has_reasoning": fed.shown("thinking") != "",
        "calls": [{"id": one, "name": name, "arguments": arguments} for one, name, arguments in fed.calls],
        "may_run_calls": asked(turn) == fed.calls != [],
    }
    if fed.error is not None:
        told["retryable"] = fed.error.retryable
    if isinstance(turn.payload, list):
        told["block_types"] = [block["type"] for block in turn.payload]
    return told


def expected(entry: dict[str, Any]) -> dict[str, Any]:
    """What an entry of expected.json expects, without what follows from the rest of it."""
    beside = {"note", "why_not", "must_keep"}
    calls = [{field: value for field, value in call.items() if field != "args"} for call in entry["calls"]]
    return {field: value for field, value in entry.items() if field not in beside} | {"calls": calls}
