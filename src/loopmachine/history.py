"""Append-only logs shared by their snapshots.

A log is a list that it shares with the logs it grew from, and a length. Appending at the end of the shared
list is O(1) and leaves every older log as it was; a second append to the same length copies (a fork). Taking
a log is O(1), and nobody can change what a log shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar, overload

T = TypeVar("T")
_blank: Any = object.__new__


class Growing(Generic[T]):
    """What a list and a length can be appended to in O(1)."""

    __slots__ = ("_items", "_length")
    _items: list[T]
    _length: int

    def append(self, item: T) -> Self:
        """This one and one more item, whole."""
        items, length = self._items, self._length
        grown: Self = _blank(self.__class__)
        grown._length = length + 1
        if len(items) == length:
            items.append(item)
            if items[length] is item:  # another thread may have appended to this length meanwhile
                grown._items = items
                return grown
        grown._items = [*items[:length], item]
        return grown


class Log(Growing[T], Sequence[T]):
    """An immutable sequence with O(1) append. Equal to another log of the same items in the same order."""

    __slots__ = ()

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._items = list(items)
        self._length = len(self._items)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[T, ...]: ...
    def __getitem__(self, place: int | slice) -> T | tuple[T, ...]:
        if isinstance(place, slice):
            return tuple(self._items[: self._length][place])
        if not -self._length <= place < self._length:
            raise IndexError(f"place {place} in a log of {self._length}")
        return self._items[place % self._length]

    def __iter__(self) -> Iterator[T]:
        items = self._items
        for place in range(self._length):
            yield items[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Log) and self._items[: self._length] == other._items[: other._length]

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (list(self),)


class EventLog:
    """The events a machine took, each with the rows that it took: append-only and shared, as Log is.

    Events and rows in turn, and no pair an event: what lives as long as a run costs its garbage collector.
    """

    __slots__ = ("_end", "_items")

    def __init__(self, taken: Iterable[tuple[Any, tuple[str, ...]]] = ()) -> None:
        self._items: list[Any] = [part for event, rows in taken for part in (event, rows)]
        self._end = len(self._items)

    def append(self, event: Any, rows: tuple[str, ...]) -> EventLog:
        """This log and one more event."""
        items, end = self._items, self._end
        log: EventLog = _blank(EventLog)
        log._end = end + 2
        if len(items) == end:
            items += (event, rows)
            if items[end] is event:  # another thread may have appended to this length meanwhile
                log._items = items
                return log
        log._items = [*items[:end], event, rows]
        return log

    def __len__(self) -> int:
        return self._end // 2

    def __iter__(self) -> Iterator[tuple[Any, tuple[str, ...]]]:
        items = self._items
        for place in range(0, self._end, 2):
            yield items[place], items[place + 1]

    @property
    def latest(self) -> tuple[str, ...]:
        """The rows that the last event took."""
        rows: tuple[str, ...] = self._items[self._end - 1]
        return rows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EventLog) and self._items[: self._end] == other._items[: other._end]

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"EventLog({list(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return EventLog, (list(self),)


class Ids:
    """An immutable set of strings in the order added, with O(1) add, sharing a list and an index with its forks."""

    __slots__ = ("_length", "_order", "_places")

    def __init__(self, ids: Iterable[str] = ()) -> None:
        self._order = list(dict.fromkeys(ids))
        self._places = {one: place for place, one in enumerate(self._order)}
        self._length = len(self._order)

    def add(self, one: str) -> Ids:
        """These ids and one more. One that is in already changes nothing."""
        order, length = self._order, self._length
        if self._places.get(one, length) < length:
            return self
        if len(order) == length:
            order.append(one)
            if order[length] == one:  # another thread may have added to this length meanwhile
                self._places[one] = length
                ids: Ids = _blank(Ids)
                ids._order, ids._places, ids._length = order, self._places, length + 1
                return ids
        return Ids([*order[:length], one])

    def __contains__(self, one: object) -> bool:
        return self._places.get(one, self._length) < self._length  # type: ignore[call-overload, no-any-return]

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[str]:
        return iter(self._order[: self._length])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ids) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Ids({list(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Ids, (list(self),)


class Entry(Protocol):
    """What a history is made of: it knows the messages it stands for."""

    def messages(self) -> list[dict[str, Any]]:
        """Fresh PLAIN messages, in order."""

    def __len__(self) -> int:
        """How many messages that is."""


class History(Growing[Any], Sequence[dict[str, Any]]):
    """What was said in a run: an immutable sequence of PLAIN messages, always paired, never rewritten.

    ``entries`` holds the same as records (user messages, exchanges, notes, the final). Reading an item makes
    a fresh dict; appending is O(1), ``len`` counts.
    """

    __slots__ = ()

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._items = list(entries)
        self._length = len(self._items)
        for entry in self._items:
            if not callable(getattr(entry, "messages", None)):
                raise TypeError(f"a history is made of the entries of another, not of {type(entry).__name__}")

    @property
    def entries(self) -> Log[Any]:
        """The history as records: user messages, exchanges, notes, the final."""
        log: Log[Any] = _blank(Log)
        log._items, log._length = self._items, self._length
        return log

    def tail(self, most: int) -> History:
        """The latest entries that are at most ``most`` messages: a call and its result are never cut apart.

        It begins with what a user said, as providers demand, wherever these messages hold such. No cut loses the
        system text, which is the run's: ``run(..., history=result.history.tail(9), system=result.loop.system)``.
        Raises ValueError where ``most`` is no whole number from 0 on.
        """
        if not isinstance(most, int) or isinstance(most, bool) or most < 0:
            raise ValueError(f"tail: the number of messages must be a whole number from 0 on, not {most!r}")
        kept: list[Any] = []
        for entry in reversed(self.entries):
            most -= len(entry)
            if most < 0:
                break
            kept.append(entry)
        kept.reverse()
        heard = (at for at, entry in enumerate(kept) if entry.messages()[0]["kind"] == "user")
        return History(kept[next(heard, 0) :])

    def __len__(self) -> int:
        return sum(len(entry) for entry in self.entries)

    @overload
    def __getitem__(self, place: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, place: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, place: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        return list(self)[place]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for entry in self.entries:
            yield from entry.messages()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, History) and self.entries == other.entries

    def __hash__(self) -> int:
        return hash(self.entries)

    def __repr__(self) -> str:
        return f"History({list(self.entries)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return History, (list(self.entries),)
