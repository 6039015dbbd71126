"""The rows of an event as the code that one would write by hand: ``if guard(...)``, one after the other.

What an event does in a state is one function, down to the next rest, whichever auto states lie between. It is compiled
from the rows when it is first needed, as attrs compiles what it writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from loopmachine.errors import InvalidDefinition

MOST_LINES = 20_000  #: of one way, which only auto states that part and meet again, over and over, can reach
#: The snapshot, the state and the rows taken; none where no guard held.
Followed = tuple[Any, str, tuple[str, ...]]


class TakenRow(Protocol):
    """What is needed of a row."""

    guard: Callable[[Any, Any], object] | None
    update: Callable[[Any, Any], Any] | None
    dest: str
    row_id: str


Rows = Mapping[str, Sequence[Any]]  #: TakenRows, in order, by the state that they begin in


class Way:
    """What an event does in a state: the first of its rows whose guard holds is taken, and so on while states are auto.

    ``rows`` are those of the event, ``onwards`` those of the auto states. Raises InvalidDefinition for far too many.
    """

    def __init__(self, state: str, rows: Rows, onwards: Rows) -> None:
        self._state = state
        self._onwards = onwards
        self._lines = ["def follow(snapshot, event):"]
        self._rows = [""]  #: the row that each line is of
        self._functions: dict[str, Any] = {}
        self._write(state, rows.get(state, ()), (), " ")
        exec(compile("\n".join(self._lines), f"<the rows from {state}>", "exec"), self._functions)
        self.follow: Callable[[Any, Any], Followed] = self._functions["follow"]

    def row_that_raised(self, error: Exception) -> str:
        """The row whose guard or update raised what ``follow`` let through."""
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code is not self.follow.__code__:
            trace = trace.tb_next
        return self._rows[trace.tb_lineno - 1] if trace else ""

    def _write(self, state: str, rows: Sequence[TakenRow], before: tuple[str, ...], indent: str) -> None:
        for row in rows:
            taken, inner = (*before, row.row_id), indent
            if row.guard is not None:
                self._line(row.row_id, f"{indent}if {self._named('guard', row.guard)}(snapshot, event):")
                inner += " "
            if row.update is not None:
                self._line(row.row_id, f"{inner}snapshot = {self._named('update', row.update)}(snapshot, event)")
            if row.dest in self._onwards:
                self._write(row.dest, self._onwards[row.dest], taken, inner)
            else:
                self._line(row.row_id, f"{inner}return snapshot, {row.dest!r}, {taken!r}")
            if row.guard is None:
                return
        self._line("", f"{indent}return snapshot, {state!r}, ()")  # a row was taken from the live machine

    def _line(self, row_id: str, line: str) -> None:
        if len(self._lines) > MOST_LINES:
            raise InvalidDefinition([f"{self._state}: thousands of ways lead through auto states from here to a rest"])
        self._lines.append(line)
        self._rows.append(row_id)

    def _named(self, what: str, function: Callable[..., Any]) -> str:
        name = f"{what}_{len(self._functions)}"
        self._functions[name] = function
        return name
