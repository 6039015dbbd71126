"""The rows of an event as the code that one would write by hand: ``if guard(...)``, one after the other.

What an event does in a state is one function, down to the next rest, whichever auto states lie between. It is compiled
from the rows when it is first needed, as attrs compiles what it writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol

from loopmachine.records import BaseSnapshot

#: The snapshot, the state and the rows taken; none where no guard held.
Followed = tuple[Any, str, tuple[str, ...]]
Follow = Callable[[Any, Any], Followed]
#: The snapshot at its rest, and what makes its requests; None and the state where no guard held.
Rested = tuple[Any, Any]
#: Auto states deeper than this, and those behind so many lines, are functions of their own: Python bounds how deep
#: code may nest, and auto states that part and meet again would double the lines each time.
DEEPEST, LONGEST = 20, 1000


class TakenRow(Protocol):
    """What is needed of a row."""

    guard: Callable[[Any, Any], object] | None
    update: Callable[[Any, Any], Any] | None
    dest: str
    row_id: str


Rows = Mapping[str, Sequence[Any]]  #: TakenRows, in order, by the state that they begin in


class Way:
    """What an event does in a state: the first of its rows whose guard holds is taken, and so on while states are auto.

    ``rows`` are those of the event, ``onwards`` those of the auto states; ``auto(state)`` gives the function of an auto
    state that is too far away to be written into this one.
    """

    def __init__(self, state: str, rows: Rows, onwards: Rows, auto: Callable[[str], Follow]) -> None:
        self._onwards = onwards
        self._lines = ["def follow(snapshot, event):"]
        self._taken: list[tuple[str, ...]] = [()]  #: the rows taken by each line, its own the last
        self._names: dict[str, Any] = {"auto": auto, "behind": self._behind, _TAKEN: self._taken}
        self._write(state, rows.get(state, ()), (), " ")
        exec(compile("\n".join(self._lines), f"<the rows from {state}>", "exec"), self._names)
        self.follow: Any = self._names["follow"]

    def _write(self, state: str, rows: Sequence[TakenRow], before: tuple[str, ...], indent: str) -> None:
        for row in rows:
            taken, inner = (*before, row.row_id), indent
            if row.guard is not None:
                self._line(taken, f"{indent}if {self._named(row.guard)}(snapshot, event):")
                inner += " "
            if row.update is not None:
                self._line(taken, f"{inner}snapshot = {self._named(row.update)}(snapshot, event)")
            if row.dest not in self._onwards:
                self._line((*taken, row.dest), inner + self._rest(row.dest, taken))  # what raises here is no row
            elif len(taken) < DEEPEST and len(self._lines) < LONGEST:
                self._write(row.dest, self._onwards[row.dest], taken, inner)
            else:
                self._line(taken, f"{inner}return behind({taken!r}, event, auto({row.dest!r})(snapshot, event))")
            if row.guard is None:
                return
        self._line((), indent + self._rest(state, ()))  # a row was taken from the live machine

    def _rest(self, state: str, taken: tuple[str, ...]) -> str:
        """How it ends."""
        return f"return snapshot, {state!r}, {taken!r}"

    def _behind(self, before: tuple[str, ...], event: Any, followed: Followed) -> Any:
        """What was followed, behind the rows that led there."""
        snapshot, state, taken = followed
        return snapshot, state, (*before, *taken) if taken else ()

    def _line(self, taken: tuple[str, ...], line: str) -> None:
        self._lines.append(line)
        self._taken.append(taken)

    def _named(self, function: Callable[..., Any]) -> str:
        name = f"function_{len(self._names)}"
        self._names[name] = function
        return name


class WayToRest(Way):
    """A way to the snapshot at its rest, together with what makes its requests there: ``asks``, by the state."""

    def __init__(
        self, state: str, rows: Rows, onwards: Rows, auto: Callable[[str], Follow], asks: Mapping[str, Any]
    ) -> None:
        self._asks = asks
        super().__init__(state, rows, onwards, auto)

    def _rest(self, state: str, taken: tuple[str, ...]) -> str:
        if not taken or state not in self._asks:
            return f"return None, {state!r}"
        at_rest, asks = self._named(BaseSnapshot.at_rest), self._named(self._asks[state])
        return f"return {at_rest}(snapshot, {state!r}, event, {taken!r}), {asks}"

    def _behind(self, before: tuple[str, ...], event: Any, followed: Followed) -> Rested:
        snapshot, state, taken = followed
        if not taken or state not in self._asks:
            return None, state
        return BaseSnapshot.at_rest(snapshot, state, event, (*before, *taken)), self._asks[state]


_TAKEN = "the rows taken"  #: a name that no code has


def raised_in(error: BaseException) -> tuple[Any, tuple[str, ...]]:
    """The snapshot where a way let an error through, and the rows taken, the last of them that which raised."""
    trace = error.__traceback__
    while trace is not None and _TAKEN not in trace.tb_frame.f_globals:
        trace = trace.tb_next
    snapshot: Any = None
    taken: tuple[str, ...] = ()
    while trace is not None and _TAKEN in trace.tb_frame.f_globals:
        snapshot, taken = _at(trace, taken)
        trace = trace.tb_next
    return snapshot, taken


def _at(trace: TracebackType, before: tuple[str, ...]) -> tuple[Any, tuple[str, ...]]:
    lines: list[tuple[str, ...]] = trace.tb_frame.f_globals[_TAKEN]
    return trace.tb_frame.f_locals["snapshot"], (*before, *lines[trace.tb_lineno - 1])
