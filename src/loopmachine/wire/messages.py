"""What a model callable gets: a list of its own, copied only where it looks.

A run encodes each entry of its history once, when somebody first looks, and keeps the JSON text; the ``Messages``
of all its steps share that. So a model that reads the last message of each step costs the run what is new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableSequence
from operator import index
from threading import Lock
from typing import Any, SupportsIndex, TypeVar, overload

from loopmachine.frozen import thaw
from loopmachine.history import History
from loopmachine.wire.base import Wire
from loopmachine.wire.fields import sent_text
from loopmachine.wire.moved import left_out

Source = TypeVar("Source")


class Encoding:
    """The history of a run in a wire's shape, as JSON text, extended when somebody looks. Safe to use from threads.

    ``dropped`` is told, once, where something that came over another wire is left out.
    """

    __slots__ = ("_dropped", "_ends", "_ids", "_lock", "_source", "_texts", "_wire")

    def __init__(self, wire: Wire, system: str | None = None, dropped: Callable[[str], None] | None = None) -> None:
        self._wire = wire
        self._dropped = dropped
        self._lock = Lock()
        self._texts = [sent_text(message) for message in wire.lead(system)]
        self._ends = [len(self._texts)]  #: how many messages the first n entries are, with what leads
        self._ids: set[str] = set()  #: that they bear
        self._source: list[Any] = []  #: the entries encoded, in the list that all logs of one growth share

    def messages(self, history: History) -> Messages:
        """The messages of this history; nothing is encoded yet."""
        return Messages(self.upto, history)

    @staticmethod
    def listed(texts: list[str]) -> Messages:
        """JSON texts that do not grow, such as the tools, as the same kind of list."""
        return Messages(_whole, texts)

    def upto(self, history: History) -> tuple[list[str], int]:
        """The texts, which other snapshots extend, and how many of them are this history's."""
        entries, foreign = history.entries, ""
        with self._lock:
            # Logs that share a list begin alike, whatever their lengths; a log of another list is encoded anew.
            if entries._items is not self._source:
                self._texts, self._ends, self._source = self._texts[: self._ends[0]], self._ends[:1], entries._items
                self._ids = set()
            for place in range(len(self._ends) - 1, len(entries)):
                self._texts += [sent_text(message) for message in self._wire.placed(entries, place, self._ids)]
                self._ends.append(len(self._texts))
                foreign = foreign or left_out(entries[place], self._wire)
            found = self._texts, self._ends[len(entries)]
            dropped, self._dropped = self._dropped, None if foreign else self._dropped
        if foreign and dropped:
            dropped(
                f"history: what came over {foreign!r} is sent over {self._wire.name!r} without what that has no place "
                "for, such as thinking and signatures"
            )
        return found


def _whole(texts: list[str]) -> tuple[list[str], int]:
    return texts, len(texts)


class Messages(MutableSequence[Any]):
    """A list of fresh plain dicts, made when they are looked at. What is done to it is seen by nobody else.

    It reads and changes like a list; slices, ``copy()``, ``+`` and ``*`` give plain lists, and so do copying and
    pickling. ``list(messages)`` is a plain list of plain dicts, the same objects that its places hold.
    """

    __slots__ = ("_items", "_look", "_looked_at", "_source", "_texts")

    def __init__(self, look: Callable[[Source], tuple[list[str], int]], source: Source) -> None:
        self._look: Callable[[Any], tuple[list[str], int]] = look
        self._source = source
        self._texts: tuple[list[str], int] | None = None  #: once looked at: a list that grows, how many of it are ours
        self._looked_at: dict[int, Any] = {}
        self._items: list[Any] | None = None  #: all of them, once it was changed or compared

    def _all(self) -> list[Any]:
        if self._items is None:
            self._items = list(self)
        return self._items

    def _frozen(self) -> tuple[list[str], int]:
        if self._texts is None:
            self._texts = self._look(self._source)
        return self._texts

    # --- reading ----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._frozen()[1] if self._items is None else len(self._items)

    @overload
    def __getitem__(self, place: SupportsIndex) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> list[Any]: ...
    def __getitem__(self, place: SupportsIndex | slice) -> Any:
        if self._items is not None:
            return self._items[place]
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        texts, length = self._frozen()
        where = index(place)
        if not -length <= where < length:
            raise IndexError(f"message {where} of {length}")
        where %= length
        if where not in self._looked_at:
            self._looked_at[where] = thaw(texts[where])
        return self._looked_at[where]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Messages):
            return self._all() == other._all()
        return self._all() == other if isinstance(other, list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as a list has none, which typeshed says in the same way

    def __add__(self, other: Iterable[Any]) -> list[Any]:
        return [*self, *other] if isinstance(other, list | Messages) else NotImplemented

    def __radd__(self, other: Iterable[Any]) -> list[Any]:
        return [*other, *self] if isinstance(other, list) else NotImplemented

    def __mul__(self, times: SupportsIndex) -> list[Any]:
        return self._all() * times

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return repr(self._all())

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)

    def copy(self) -> list[Any]:
        """A plain list of the same items."""
        return list(self)

    # --- changing ---------------------------------------------------------------------------------------

    def __setitem__(self, place: Any, value: Any) -> None:
        self._all()[place] = value

    def __delitem__(self, place: SupportsIndex | slice) -> None:
        del self._all()[place]

    def insert(self, place: SupportsIndex, value: Any) -> None:
        """Put a value before a place."""
        self._all().insert(place, value)

    def __imul__(self, times: SupportsIndex) -> Messages:
        self._items = self._all() * times
        return self

    def sort(self, *, key: Callable[[Any], Any] | None = None, reverse: bool = False) -> None:
        """Sort in place, as a list does."""
        self._all().sort(key=key, reverse=reverse)
