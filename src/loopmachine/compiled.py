"""The rows of an event as the code that one would write by hand: ``if guard(...)``, one after the other.

What an event does in a state is one function, down to the next rest, whichever auto states lie between. It is compiled
from the rows when it is first needed, as attrs compiles what it writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, TracebackType
from typing import Any, Protocol
from typing import Final as Constant

from loopmachine.drafts import Drafts, blank, fill, switch

#: The snapshot, the state and the rows taken; none where no guard held.
Followed = tuple[Any, str, tuple[str, ...]]
Follow = Callable[[Any, Any], Followed]
#: Auto states deeper than this, and those behind so many lines, are functions of their own: Python bounds how deep
#: code may nest, and auto states that part and meet again would double the lines each time.
DEEPEST, LONGEST = 20, 300


class TakenRow(Protocol):
    """What is needed of a row."""

    guard: Callable[[Any, Any], object] | None
    update: Callable[[Any, Any], Any] | None
    dest: str
    row_id: str


Rows = Mapping[str, Sequence[Any]]  #: TakenRows, in order, by the state that they begin in
#: The rows taken by a line of code, its own the last; or who else may raise there, None where nobody does.
Taken = tuple[str, ...] | str | None


class Way:
    """What an event does in a state: the first of its rows whose guard holds is taken, and so on while states are auto.

    ``rows`` are those of the event, ``onwards`` those of the auto states; ``auto(state)`` gives the function of an auto
    state that is too far away to be written into this one.
    """

    head = "def follow(snapshot, event):"

    def __init__(self, state: str, rows: Rows, onwards: Rows, auto: Callable[[str], Follow], **names: Any) -> None:
        self._onwards = onwards
        self._lines = [self.head]
        self._taken: list[Taken] = [()]
        self._names = {"auto": auto, **names, _TAKEN: self._taken}
        self._begin()
        self._write(state, rows.get(state, ()), (), " ", drafted=False)
        exec(compile("\n".join(self._lines), f"<the rows from {state}>", "exec"), self._names)
        self.follow: Any = self._names["follow"]

    def _write(
        self, state: str, rows: Sequence[TakenRow], before: tuple[str, ...], indent: str, *, drafted: bool
    ) -> None:
        for row in rows:
            taken, inner, ours = (*before, row.row_id), indent, drafted
            if row.guard is not None:
                drafted = ours = self._shown(row.guard, indent, drafted=drafted)
                self._line(taken, f"{indent}if {self._named(row.guard)}(snapshot, event):")
                inner += " "
            if row.update is not None:
                ours = self._update(row.update, taken, inner, drafted=drafted)
            if row.dest not in self._onwards:
                self._rest(row.dest, taken, inner, drafted=ours)
            elif len(taken) < DEEPEST and len(self._lines) < LONGEST:
                self._write(row.dest, self._onwards[row.dest], taken, inner, drafted=ours)
            else:
                self._far(row.dest, taken, inner, drafted=ours)
            if row.guard is None:
                return
        self._stuck(state, indent)

    def _begin(self) -> None:
        """What comes before the rows."""

    def _shown(self, function: Callable[..., Any], indent: str, *, drafted: bool) -> bool:
        """Whether the snapshot is still a draft once the function has seen it."""
        return drafted

    def _update(self, update: Callable[..., Any], taken: Taken, indent: str, *, drafted: bool) -> bool:
        """Whether what it gives is a draft."""
        self._updated(update, taken, indent)
        return drafted

    def _updated(self, update: Callable[..., Any], taken: Taken, indent: str) -> None:
        self._line(taken, f"{indent}snapshot = {self._named(update)}(snapshot, event)")

    def _rest(self, state: str, taken: tuple[str, ...], indent: str, *, drafted: bool) -> None:
        """How it ends."""
        self._line(None, f"{indent}return snapshot, {state!r}, {taken!r}")

    def _far(self, state: str, taken: tuple[str, ...], indent: str, *, drafted: bool) -> None:
        """How it goes on to an auto state that is too far away."""
        self._line(taken, f"{indent}snapshot, state, rows = auto({state!r})(snapshot, event)")
        self._line(None, f"{indent}return snapshot, state, (*{taken!r}, *rows) if rows else ()")

    def _stuck(self, state: str, indent: str) -> None:
        """The same where no guard holds: a row was taken from the live machine."""
        self._line(None, f"{indent}return snapshot, {state!r}, ()")

    def _line(self, taken: Taken, line: str) -> None:
        self._lines.append(line)
        self._taken.append(taken)

    def _named(self, function: Callable[..., Any]) -> str:
        said = getattr(function, "__name__", "")
        name = f"{said if said.isidentifier() else 'function'}_{len(self._names)}"
        self._names[name] = function
        return name


class Step(Way):
    """A way from rest to rest, all of ``advance``: is the event awaited, its rows, the snapshot, what that asks.

    Guards and updates of this package are given a draft, which is changed in place. Those of anybody else, who may
    keep what they are given, get what is frozen for good.

    ``kind`` is the class of the event, ``hear`` what it brings whichever row it takes, ``asks`` what makes the requests
    of each rest, ``drafts`` the classes of drafts. ``unexpected(state, event, asked=None)`` gives what is raised where
    it can't be taken; ``timed(kind, at)`` looks at a time that may be none, and at what somebody else made
    ``heard(snapshot)``, ``made(snapshot, rows)`` and ``told(state, asked)``.
    """

    head = "def follow(snapshot, event, asked):"

    def __init__(
        self,
        kind: type,
        state: str,
        rows: Rows,
        onwards: Rows,
        auto: Callable[[str], Follow],
        hear: Callable[[Any, Any], Any] | None,
        asks: Mapping[str, Callable[[Any], Any]],
        drafts: Drafts,
        **names: Callable[..., Any],
    ) -> None:
        self._kind = kind
        self._state = state
        self._hear = hear
        self._asks = asks
        known = {"kind": kind, "asks": asks, "drafts": drafts, "blank": blank, "fill": fill, "switch": switch}
        super().__init__(state, rows, onwards, auto, **known, **names)

    def _begin(self) -> None:
        if getattr(self._kind, "answers", False):
            self._line(None, " for request in asked:")
            self._line("misfit", "  if kind in request.answered_by and not request.misfit(event): break")
            self._line(None, f" else: raise unexpected({self._state!r}, event, asked)")
        self._line(None, " at = event.at")
        self._line(None, " if type(at) is not float or at - at != 0: timed(kind, at)")  # NaN where it is not finite
        if self._hear is not None:
            self._line((), f" snapshot = heard({self._named(self._hear)}(snapshot, event))")

    def _shown(self, function: Callable[..., Any], indent: str, *, drafted: bool) -> bool:
        if not drafted or is_ours(function):
            return drafted
        self._line(None, f"{indent}switch(snapshot, own)")
        return False

    def _update(self, update: Callable[..., Any], taken: Taken, indent: str, *, drafted: bool) -> bool:
        ours = is_ours(update)
        if ours and not drafted:
            self._draft(taken, indent)
        self._shown(update, indent, drafted=drafted)
        self._updated(update, taken, indent)
        return ours

    def _draft(self, taken: Taken, indent: str) -> None:
        """The snapshot becomes a draft; ``fields`` are its fields, and ``own`` is the class that it is to have."""
        self._line(taken, f"{indent}fields, own = snapshot.__dict__.copy(), snapshot.__class__")
        self._line(taken, f"{indent}snapshot = blank(drafts[own])")
        self._line(None, f"{indent}fill(snapshot, fields)")

    def _rest(self, state: str, taken: tuple[str, ...], indent: str, *, drafted: bool) -> None:
        if state not in self._asks:
            self._stuck(state, indent)
            return
        if not drafted:
            self._draft((*taken, state), indent)  # what raises here is none of the rows
        asks = self._asks[state]
        asked = f"{self._named(asks)}(snapshot)"
        self._rested(repr(state), repr(taken), asked if is_ours(asks) else f"told({state!r}, {asked})", indent)

    def _far(self, state: str, taken: tuple[str, ...], indent: str, *, drafted: bool) -> None:
        if drafted:
            self._line(None, f"{indent}switch(snapshot, own)")
        self._line(taken, f"{indent}snapshot, state, rows = auto({state!r})(snapshot, event)")
        self._line(None, f"{indent}rows = (*{taken!r}, *rows) if rows and state in asks else ()")
        self._line(None, f"{indent}if not rows: raise unexpected(state, event)")
        self._line(None, f"{indent}made(snapshot, rows)")
        self._draft(None, indent)
        self._rested("state", "rows", "told(state, asks[state](snapshot))", indent)

    def _rested(self, state: str, rows: str, asked: str, indent: str) -> None:
        """The draft as the snapshot where these rows led it, and the requests there."""
        for line in (
            "if at > fields['clock']: fields['clock'] = at",  # one that goes back stands still
            f"fields['state'] = {state}",
            f"fields['log'] = fields['log'].append(event, {rows})",
            "switch(snapshot, own)",
        ):
            self._line(None, indent + line)
        self._line("asks", f"{indent}return snapshot, {asked}")

    def _stuck(self, state: str, indent: str) -> None:
        self._line(None, f"{indent}raise unexpected({state!r}, event)")


_TAKEN = "the rows taken"  #: a name that no code has
_OURS: Constant = {f"{__package__}.{name}" for name in ("guards", "requests", "rules", "updates")}


def is_ours(function: Callable[..., Any]) -> bool:
    """Its code is of this package: it keeps no snapshot, and goes on with what ``but`` gave back.

    A wrapper of somebody else's may bear the name, the module and any attribute of what it wraps.
    """
    return type(function) is FunctionType and function.__globals__.get("__name__") in _OURS


def raised_in(error: BaseException) -> tuple[Any, Taken]:
    """The snapshot where a way let an error through, and the rows taken, the last of them that which raised."""
    trace = error.__traceback__
    while trace is not None and _TAKEN not in trace.tb_frame.f_globals:
        trace = trace.tb_next
    snapshot: Any = None
    taken: Taken = ()
    while trace is not None and isinstance(taken, tuple) and _TAKEN in trace.tb_frame.f_globals:
        snapshot, taken = _at(trace, taken)
        trace = trace.tb_next
    return snapshot, taken


def _at(trace: TracebackType, before: tuple[str, ...]) -> tuple[Any, Taken]:
    lines: list[Taken] = trace.tb_frame.f_globals[_TAKEN]
    here = lines[trace.tb_lineno - 1]
    return trace.tb_frame.f_locals["snapshot"], (*before, *here) if isinstance(here, tuple) else here
