"""What running calls say that they spent, until their results are known."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from loopmachine.events import CallReturned, Event
from loopmachine.limits import Usage
from loopmachine.records import Call, CallResult, Snapshot


class Bills(dict[tuple[int, int], list[Usage]]):
    """The open bills of a run's calls, by their identity; they come from the threads that the tools run in."""

    def opened(self, call: Call) -> Callable[[Usage], None]:
        """What takes down what the call spends, beside what it said before; what comes after its result is dropped."""
        bill = self.setdefault(call.key, [])

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
        return attrs.evolve(result, usage=Usage.total(usages)) if usages else result

    def told(self, event: Event) -> Event:
        """The event, if it brings a result that does not say what its call spent, with that: it was cut short."""
        if type(event) is CallReturned and event.usage is None and (usages := self.get(event.result.key)):
            return CallReturned(attrs.evolve(event.result, usage=Usage.total(usages)), at=event.at)
        return event

    def close(self, snapshot: Snapshot) -> None:
        """The machine took an event: keep the bills of the calls that are still under way, and no other."""
        under_way = {flight.call.key for flight in snapshot.flights if flight.result is None}
        for key in list(self):
            if key not in under_way:
                self.pop(key, None)
