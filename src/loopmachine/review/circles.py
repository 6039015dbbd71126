"""Whether a run can go in a circle for ever: answers that lead from a rest back to it.

In the tool-calling loop itself every answer brings the end nearer, which I1 checks move by move. Of a rest of your own
nobody knows how many answers it takes; but a run that comes back to a rest, equal as far as the future can see, can do
that again and again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeVar
from typing import Final as Constant

import attrs

from loopmachine.definition import Definition
from loopmachine.events import CallsResolved
from loopmachine.requests import PollCancel
from loopmachine.table import TOOL_LOOP

FIRST: Constant = 256  #: answers after which a circle is first looked for
Key = tuple[Any, ...]
Taken = tuple[Any, tuple[str, ...]]  #: an event and the rows that it took
Onward = tuple[Key, Taken]


class Rest(Protocol):
    """What is needed of a rest that was reached."""

    key: Key
    asked: tuple[Any, ...]

    def path(self) -> list[Taken]:
        """The way here."""


R = TypeVar("R", bound=Rest)


@attrs.define(eq=False)
class Circles(Generic[R]):
    """The rests of a walk, each with where its answers lead. Kept only for a machine with rests of its own."""

    definition: Definition
    kept: bool = attrs.field(init=False)
    due: bool = attrs.field(default=False, init=False)  #: so many answers came that it is worth looking again
    _answers: int = attrs.field(default=0, init=False)
    _onwards: dict[Key, list[Onward]] = attrs.field(factory=dict, init=False)
    _rests: dict[Key, R] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.kept = any(state.rest and name not in TOOL_LOOP.states for name, state in self.definition.states.items())

    def add(self, rest: R, event: Any, rows: tuple[str, ...], after: Key) -> None:
        """An event led from one rest to another. What somebody decides, unasked or to run a call again, may go on."""
        if _answer(rest.asked, event):
            self._answers += 1
            self.due = self._answers >= FIRST and self._answers & (self._answers - 1) == 0  # each time twice as many
            self._rests[rest.key] = rest
            self._onwards.setdefault(rest.key, []).append((after, (event, rows)))

    def find(self) -> tuple[R, list[Taken]] | None:
        """A rest and the answers that lead from it back to it, if there are such."""
        self.due = False
        done: set[Key] = set()
        for start in self._onwards:
            if start not in done and (found := self._from(start, done)):
                key, circle = found
                return self._rests[key], circle
        return None

    def _from(self, start: Key, done: set[Key]) -> tuple[Key, list[Taken]] | None:
        """Depth first; ``done`` are the rests from which no way leads into a circle."""
        way: dict[Key, Iterator[Onward]] = {start: iter(self._onwards[start])}  # in the order in which they were taken
        taken: list[Taken] = []
        while way:
            here = next(reversed(way))
            onward = next(way[here], None)
            if onward is None:
                done.add(here)
                del way[here]
                del taken[-1:]
                continue
            key, told = onward
            if key in way:
                return key, [*taken[list(way).index(key) :], told]
            if key not in done:
                way[key] = iter(self._onwards.get(key, ()))
                taken.append(told)
        return None


def _answer(asked: tuple[Any, ...], event: Any) -> bool:
    """It answers what was asked, when it was due, and decides nothing that may be decided again."""
    if type(event) is CallsResolved:
        return not any(word.rerun for word in event.resolutions)
    early = any(type(request) is PollCancel and event.at < (request.not_before or event.at) for request in asked)
    return bool(getattr(event, "answers", False)) and not early
