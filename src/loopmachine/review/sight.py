"""What the future can see of a rest: two in which that is the same are one, and only one of them is left."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any
from typing import Final as Constant

import attrs

from loopmachine import rules
from loopmachine.events import ModelFailed
from loopmachine.history import History
from loopmachine.limits import Budget, Policy
from loopmachine.records import Flight, Snapshot, Turn
from loopmachine.review.account import RETURNED

#: The numbers of a snapshot: those that the future sees as they are, and those that it sees as far as a limit is.
_AS_THEY_ARE: Constant = ("state", "steps", "retries", "repairs", "wrapping", "cancelled", "tool_calls")
_LIMITED: Constant = ("calls", "clock", "since", "not_before", "cost_usd", "tokens", "unpriced", "unmetered")
_NUMBERS: Constant = itemgetter(*_AS_THEY_ARE, *_LIMITED)


#: What an account of the events may know that the snapshot of a wrong machine does not.
_TOLD: Constant = ("wrapping", "failures", "flawed", "cancelled", "truncated", "by_tool")


def told(policy: Policy) -> Callable[[dict[str, Any], Snapshot], tuple[Any, ...]]:
    """What the promises know of a rest besides its snapshot, from the fields of an account."""
    known: Callable[[dict[str, Any]], tuple[Any, ...]] = itemgetter(*_TOLD)
    if policy.max_identical_turns is not None:
        known = itemgetter(*_TOLD, "alike")

    def of(account: dict[str, Any], snapshot: Snapshot) -> tuple[Any, ...]:
        brought = account["brought"]
        if brought is snapshot.turn and not (account["fates"] or account["decisions"]):  # ``Sight`` sees all of it
            return known(account)
        return known(account), None if brought is None else _pending(brought, account)

    return of


def _pending(brought: Turn | ModelFailed, account: dict[str, Any]) -> tuple[Any, ...]:
    """What a step brought that is not in the history yet: that which ``Sight`` sees of it in a right snapshot."""
    if isinstance(brought, ModelFailed):
        return brought.retryable, brought.timed_out
    calls, fates, ids = brought.calls, account["fates"], account["ids"]
    if fates:
        return tuple([(one.call.name, one.stage if one.result is None else RETURNED) for one in fates]), len(calls)
    words = tuple([(word.place, word.approved) for word in account["decisions"]])
    return brought.kind, words, *[(call.name, call.id in ids, call.id) for call in calls]


@attrs.define(eq=False)
class Sight:
    """The sight of one world, with what it limits worked out once."""

    budget: Budget
    second: Budget | None  #: that a host may bring
    old: bool  #: an id is used before the run begins
    sees: Callable[[Snapshot], Any] | None  #: what guards of somebody's own see of the history
    most_usd: float = attrs.field(init=False)  #: the highest limit; 0 where there is none
    most_tokens: int = attrs.field(init=False)
    _most_seconds: float = attrs.field(init=False)
    _as_they_are: Callable[[dict[str, Any]], tuple[Any, ...]] = attrs.field(init=False)
    _seen: dict[tuple[Any, ...], int] = attrs.field(factory=dict, init=False)  #: of numbers, which sight it is
    _sights: dict[tuple[Any, ...], int] = attrs.field(factory=dict, init=False)  #: of numbers, in the order found
    _others: dict[tuple[Any, ...], int] = attrs.field(factory=dict, init=False)  #: of what else it sees, as found
    _history: History | None = attrs.field(default=None, init=False)  #: the one looked at last
    _exchange: tuple[Any, ...] = attrs.field(default=(), init=False)  #: what was seen of it

    def __attrs_post_init__(self) -> None:
        budgets = [self.budget] if self.second is None else [self.budget, self.second]
        self.most_usd = max(budget.max_cost_usd or 0.0 for budget in budgets)
        self.most_tokens = max(budget.max_tokens or 0 for budget in budgets)
        self._most_seconds = max(budget.max_seconds or 0.0 for budget in budgets)
        counted = any(budget.max_calls is not None for budget in budgets)
        self._as_they_are = itemgetter(*_AS_THEY_ARE, "calls") if counted else itemgetter(*_AS_THEY_ARE)

    def key(self, snapshot: Snapshot) -> tuple[Any, ...]:
        """All of it. Names, numbers beyond every limit and the past are left out."""
        failure, decisions, numbers = snapshot.failure, snapshot.decisions, _NUMBERS(snapshot.__dict__)
        seen = self._seen.get(numbers)  # few are different, and each stands in many rests
        if seen is None:
            seen = self._seen[numbers] = self._sights.setdefault(self._limited(snapshot), len(self._sights))
        other: tuple[Any, ...] = (
            snapshot.budget is self.second,
            failure and (failure.retryable, failure.timed_out),
            self._asked(snapshot),
            decisions and tuple([(word.place, word.approved) for word in decisions]),
            self.old or not snapshot.ids,
            None if snapshot.policy.max_identical_turns is None else (snapshot.identical, self._last(snapshot.history)),
            self.sees and self.sees(snapshot),
        )
        return seen, self._others.setdefault(other, len(self._others))

    def _limited(self, snapshot: Snapshot) -> tuple[Any, ...]:
        """The numbers, those of what is used as far as a budget limits it."""
        seconds, pause = snapshot.clock - snapshot.since, snapshot.not_before
        return (
            self._as_they_are(snapshot.__dict__),
            min(seconds, self._most_seconds),
            None if pause is None else pause - snapshot.clock,
            min(snapshot.cost_usd, self.most_usd),
            min(snapshot.tokens, self.most_tokens),
            snapshot.unpriced > 0 and self.most_usd > 0,
            snapshot.unmetered > 0 and self.most_tokens > 0,
        )

    def _asked(self, snapshot: Snapshot) -> Any:
        """The calls under way; before there are any, what the turn asks for."""
        flights, turn = snapshot.flights, snapshot.turn
        if flights:
            if self.sees is None and snapshot.policy.max_identical_turns is None:
                return tuple([(flight.call.name, flight.phase, flight.losses > 0) for flight in flights])
            return tuple([(flight.call.name, flight.phase, flight.losses > 0, _brought(flight)) for flight in flights])
        if turn is None or not turn.calls:
            return turn and turn.kind
        ids = snapshot.ids
        return turn.kind, *[(call.name, call.id in ids, call.id) for call in turn.calls]

    def _last(self, history: History) -> tuple[Any, ...]:
        """The latest exchange, as far as it is compared with the next. Most rests share the history before."""
        if history is not self._history:
            last = rules.last_exchange(history)
            results = () if last is None else last.results
            self._history, self._exchange = history, tuple([(one.name, one.outcome, one.content) for one in results])
        return self._exchange


def _brought(flight: Flight) -> tuple[str, str] | None:
    result = flight.result
    return None if result is None else (result.outcome, result.content)
