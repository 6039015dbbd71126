"""Tracks: each curve beside a column has a vertical line of its own, placed so that few curves cross."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

BETWEEN = 6  #: at least, between two curves on the same track, in points
PASSES = 3  #: how often each curve looks for a better place


@attrs.frozen
class Move:
    """A curve that leaves the column at one height, follows its track, and arrives at another height.

    ``back``: it arrives at the column that it left; else at another one, beyond all tracks.
    """

    row_id: str
    to: str
    leaves: float
    arrives: float
    back: bool

    @property
    def low(self) -> float:
        """Where its stretch of the track begins."""
        return min(self.leaves, self.arrives)

    @property
    def high(self) -> float:
        """Where its stretch of the track ends."""
        return max(self.leaves, self.arrives)

    def passes(self, height: float) -> bool:
        """Its stretch of the track is there at this height."""
        return self.low <= height <= self.high

    def meets(self, other: Move) -> bool:
        """The two can't share a track."""
        return self.low - BETWEEN < other.high and other.low - BETWEEN < self.high


def crossings(near: Move, far: Move) -> int:
    """How often two curves cross when ``near`` has the track that is nearer to the column."""
    return near.passes(far.leaves) + (near.passes(far.arrives) if far.back else far.passes(near.arrives))


def tracks(moves: Sequence[Move]) -> dict[str, int]:
    """The track of each row, from 1 at the column."""
    order: list[Move] = []
    for move in sorted(moves, key=lambda move: move.high - move.low):
        _insert(order, move)
    for move in [*moves] * PASSES:
        order.remove(move)
        _insert(order, move)
    taken: dict[str, int] = {}
    for place, move in enumerate(order):
        taken[move.row_id] = 1 + max((taken[near.row_id] for near in order[:place] if near.meets(move)), default=0)
    return taken


def _insert(order: list[Move], move: Move) -> None:
    """Put the move where it crosses least; of places that are equal, the farthest."""
    here = least = sum(crossings(move, far) for far in order)
    best = 0
    for place, passed in enumerate(order, 1):
        here += crossings(passed, move) - crossings(move, passed)
        if here <= least:
            best, least = place, here
    order.insert(best, move)
