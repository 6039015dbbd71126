"""The rows of an event as the code that one would write by hand: ``if guard(...)``, one after the other.

What an event does in a state is one function, down to the next rest, whichever auto states lie between. It is compiled
from the rows when it is first needed, as attrs compiles what it writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol

#: The snapshot, the state and the rows taken; none where no guard held.
Followed = tuple[Any, str, tuple[str, ...]]
Follow = Callable[[Any, Any], Followed]
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
        self._names: dict[str, Any] = {"auto": auto, "behind": _behind, _TAKEN: self._taken}
        self._write(state, rows.get(state, ()), (), " ")
        exec(compile("\n".join(self._lines), f"<the rows from {state}>", "exec"), self._names)
        self.follow: Follow = self._names["follow"]

    def _write(self, state: str, rows: Sequence[TakenRow], before: tuple[str, ...], indent: str) -> None:
        for row in rows:
            taken, inner = (*before, row.row_id), indent
            if row.guard is not None:
                self._line(taken, f"{indent}if {self._named(row.guard)}(snapshot, event):")
                inner += " "
            if row.update is not None:
                self._line(taken, f"{inner}snapshot = {self._named(row.update)}(snapshot, event)")
            if row.dest not in self._onwards:
                self._line(taken, f"{inner}return snapshot, {row.dest!r}, {taken!r}")
            elif len(taken) < DEEPEST and len(self._lines) < LONGEST:
                self._write(row.dest, self._onwards[row.dest], taken, inner)
            else:
                self._line(taken, f"{inner}return behind({taken!r}, auto({row.dest!r})(snapshot, event))")
            if row.guard is None:
                return
        self._line((), f"{indent}return snapshot, {state!r}, ()")  # a row was taken from the live machine

    def _line(self, taken: tuple[str, ...], line: str) -> None:
        self._lines.append(line)
        self._taken.append(taken)

    def _named(self, function: Callable[..., Any]) -> str:
        name = f"function_{len(self._names)}"
        self._names[name] = function
        return name


_TAKEN = "the rows taken"  #: a name that no code has


def _behind(before: tuple[str, ...], followed: Followed) -> Followed:
    """What was followed, behind the rows that led there."""
    snapshot, state, taken = followed
    return snapshot, state, (*before, *taken) if taken else ()


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
