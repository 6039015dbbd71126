"""What a later snapshot shows of calls that an earlier one did not, and what exchanges hold in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final as Constant

import attrs

from loopmachine.records import Call, CallResult, Exchange, Flight, Snapshot, Turn


@attrs.frozen(slots=False)  # without slots it is made in half the time
class Shown:
    """What a later snapshot shows of the calls that were open, or came, since an earlier one."""

    exchanges: tuple[Exchange, ...] = ()  #: that entered the history
    results: Mapping[tuple[int, int], CallResult] = attrs.field(factory=dict)  #: of the calls that have one by now
    admitted: tuple[Call, ...] = ()

    @classmethod
    def between(cls, before: Snapshot, after: Snapshot) -> Shown:
        """What came between two snapshots."""
        if after.flights is before.flights and after.history is before.history:
            return _NOTHING if not after.flights else cls(results=_results(after.flights))
        fresh: tuple[Exchange, ...] = ()
        if before.history is not after.history:
            entered = after.history.entries[len(before.history.entries) :]
            fresh = tuple([entry for entry in entered if isinstance(entry, Exchange)])
        found = _results(after.flights) or {result.key: result for exchange in fresh for result in exchange.results}
        calls: tuple[Call, ...] = ()
        if not before.flights:
            calls = tuple([flight.call for flight in after.flights])
            calls = calls or tuple([call for exchange in fresh for call in exchange.turn.calls])
        return cls(fresh, found, calls)


_NOTHING: Constant = Shown()


def _results(flights: tuple[Flight, ...]) -> dict[tuple[int, int], CallResult]:
    return {flight.result.key: flight.result for flight in flights if flight.result is not None}


# --- what exchanges hold in common -----------------------------------------------------------------------------


def asked_for(turn: Turn) -> list[tuple[str, str]]:
    """What a turn asks for, whatever the ids: each tool with its arguments, checked where they could be."""
    return [(call.name, call.checked or call.arguments_text) for call in turn.calls]


def same(one: Exchange, other: Exchange) -> bool:
    """Two exchanges hold the same calls with the same results, whatever the ids."""
    brought = [
        [(result.outcome, result.content, result.blocks_text) for result in exchange.results]
        for exchange in (one, other)
    ]
    return asked_for(one.turn) == asked_for(other.turn) and brought[0] == brought[1]
