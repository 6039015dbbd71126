"""What running calls say that they spent, until the machine has their results."""

from __future__ import annotations

import attrs

from loopmachine.events import CallReturned, Event
from loopmachine.limits import Usage
from loopmachine.records import Call, CallResult


class Bills(dict[tuple[int, int], list[Usage]]):
    """The open bills of a run's calls, by their identity; they come from the threads that the tools run in."""

    def add(self, call: Call, usage: Usage) -> None:
        """The call spent this, and what it said before."""
        self.setdefault(call.key, []).append(usage)

    def unpaid(self) -> list[Usage]:
        """What was spent and the machine does not know yet."""
        return [usage for usages in list(self.values()) for usage in usages]

    def billed(self, result: CallResult) -> CallResult:
        """The result with what its call spent."""
        usages = self.get(result.key)
        return attrs.evolve(result, usage=Usage.total(usages)) if usages else result

    def told(self, event: Event) -> Event:
        """The event, if it brings a result that does not say what its call spent, with that: it was cut short."""
        if type(event) is not CallReturned or event.usage is not None:
            return event
        return CallReturned(self.billed(event.result), at=event.at)

    def paid(self, event: Event) -> None:
        """The machine took the event."""
        if type(event) is CallReturned:
            self.pop(event.result.key, None)
