"""What running calls say that they spent, until their results are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from loopmachine.events import CallLost, CallReturned, CallsResolved, Event
from loopmachine.limits import Usage
from loopmachine.records import Call, CallResult, Snapshot

Paid = dict[tuple[int, int], list[Usage]]  #: by the identity of its call


class Bills(dict[tuple[int, int], list[Usage]]):
    """The open bills of a run's calls, by their identity; they come from the threads that the tools run in."""

    def __init__(self) -> None:
        super().__init__()
        self._told_by_result: set[tuple[int, int]] = set()  #: there is a result that tells what is on the bill

    def opened(self, call: Call) -> Callable[[Usage], None]:
        """What takes down what the call spends, beside what it said before; what comes after its result is dropped."""
        bill = self.setdefault(call.key, [])
        self._told_by_result.discard(call.key)

        def add(usage: Usage) -> None:
            if self.get(call.key) is bill:
                self.add(bill, usage)

        return add

    def add(self, bill: list[Usage], usage: Usage) -> None:
        """Take this down on an open bill."""
        bill.append(usage)

    def unpaid(self) -> list[Usage]:
        """What was spent and the machine does not know yet."""
        return [usage for usages in list(self.values()) for usage in usages]

    def billed(self, result: CallResult) -> CallResult:
        """The result that a call brought with what it spent; its bill is another list from now on, for who is late."""
        usages = self[result.key] = [*self.get(result.key, ())]
        self._told_by_result.add(result.key)
        return attrs.evolve(result, usage=Usage.total(usages)) if usages else result

    def told(self, event: Event) -> tuple[Event, Paid]:
        """The event, with what the calls that it ends or loses spent where it does not say that; and what that pays."""
        paid = {key: list(self[key]) for key in self._settled(event) if self.get(key)}
        usage = Usage.total(one for usages in paid.values() for one in usages)
        if not paid or event.usage is not None:
            return event, paid
        if isinstance(event, CallReturned):
            return CallReturned(attrs.evolve(event.result, usage=usage), at=event.at), paid
        settling: Any = event
        return attrs.evolve(settling, usage=usage), paid

    def _settled(self, event: Event) -> list[tuple[int, int]]:
        """The calls of which an event tells what became, and not what they spent. After a loss a result may come."""
        if isinstance(event, CallReturned):
            return [event.result.key]
        if isinstance(event, CallsResolved):
            words = [word for word in event.resolutions if word.result is None or word.result.usage is None]
            return [(word.step, word.place) for word in words]
        lost = [(event.step, event.place)] if isinstance(event, CallLost) else []
        return [key for key in lost if key not in self._told_by_result]

    def close(self, snapshot: Snapshot, paid: Paid) -> None:
        """The machine took an event: keep what is unpaid of the calls that are still under way, and nothing else."""
        for key, usages in paid.items():
            del self[key][: len(usages)]
        under_way = {flight.call.key for flight in snapshot.flights if flight.result is None}
        for key in list(self):
            if key not in under_way:
                self.pop(key, None)
