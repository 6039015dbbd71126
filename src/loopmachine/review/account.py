"""What the events and requests of a run say by themselves: added up here without guards, updates or rules.

The promises are checked against this account and not against what the machine says of itself. It grows with each
advance and is frozen, so that a checker that branches can keep one account a branch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Mapping
from typing import Any, Self
from typing import Final as Constant

import attrs
import msgspec

from loopmachine.events import (
    ApprovalGiven,
    CallLost,
    CallReturned,
    CallsResolved,
    CancelPolled,
    CancelRequested,
    ModelFailed,
    ModelReplied,
    Resumed,
)
from loopmachine.history import History, Ids
from loopmachine.kinds import MALFORMED, TRUNCATED
from loopmachine.limits import Budget, Policy, Usage
from loopmachine.records import Call, CallResult, Decision, Exchange, Record, Snapshot, Turn
from loopmachine.requests import AskApproval, ResolveCalls
from loopmachine.review.shown import Shown, same

UNSTARTED, STARTED, LOST, AGAIN, GIVEN_UP, RETURNED = "unstarted", "started", "lost", "again", "given_up", "returned"


@attrs.frozen(slots=False)
class Fate(Record):
    """What happened to an admitted call, as the events tell it.

    ``stage``: unstarted, started, lost (nobody knows what it did), again (lost, and may be started once more),
    given_up (somebody said that it stays unknown), returned. ``result`` stands: nothing may change it.
    """

    call: Call
    answer: str | None = None  #: the outcome that it must get because it may not run; None where it may
    stage: str = UNSTARTED
    losses: int = 0
    result: CallResult | None = None


Fates = tuple[Fate, ...]


@attrs.frozen(slots=False, kw_only=True)
class Account(Record):
    """What a run has used, observed and been told so far. ``Account.of(start)`` begins one."""

    budget: Budget  #: the latest
    policy: Policy
    clock: float  #: the latest ``at``
    since: float  #: when the run would have begun, had it never waited for a person or a host
    steps: int = 0  #: how often the model was asked
    calls: int = 0  #: how many calls were admitted, those over the budget and repeated ones not counted
    cost_usd: float = 0.0
    tokens: int = 0
    unpriced: int = 0  #: turns and sub-runs that did not say their cost
    unmetered: int = 0  #: turns and sub-runs that did not say their tokens
    cancelled: bool = False  #: a cancel was observed
    truncated: bool = False  #: a turn was cut by its length
    brought: Turn | ModelFailed | None = None  #: what the latest step brought, until its exchange is in the history
    wrapping: bool = False  #: the latest step is one to offer no tools
    failures: int = 0  #: failures since the last turn
    flawed: int = 0  #: malformed turns since the last one that was not
    decisions: tuple[Decision, ...] = ()  #: on calls of the latest turn
    ids: Ids = attrs.field(factory=Ids)  #: the ids of all calls admitted
    by_tool: tuple[tuple[str, int], ...] = ()  #: the calls counted, of each tool that has a limit
    fates: Fates = ()  #: of the calls admitted whose exchange is not in the history yet
    last: Exchange | None = None  #: the latest of this run
    alike: int = 0  #: how many exchanges in a row, the latest included, hold the same
    seal: bytes | None = None  #: the latest snapshot as it was when it was made, where somebody asked for it

    @classmethod
    def of(cls, start: Snapshot, *, sealed: bool = False) -> Self:
        """The account of a run that begins with this snapshot; ``sealed`` also keeps what each snapshot was."""
        said = [entry for entry in start.history.entries if isinstance(entry, Exchange)]
        return cls(
            budget=start.budget,
            policy=start.policy,
            clock=start.clock,
            since=start.since,
            ids=Ids(result.id for exchange in said for result in exchange.results),
            seal=seal(start) if sealed else None,
        )

    # --- what is spent ------------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """Time used, the waits for approval, for resolution and for the next host not counted."""
        return self.clock - self.since

    def time_spent(self) -> bool:
        """The seconds reach max_seconds."""
        limit = self.budget.max_seconds
        return limit is not None and self.clock >= self.since + limit

    def usage_missing(self) -> bool:
        """Somebody did not say what a budget has to know."""
        unpriced = self.budget.max_cost_usd is not None and self.unpriced > 0
        return unpriced or (self.budget.max_tokens is not None and self.unmetered > 0)

    def cost_spent(self) -> bool:
        """The cost reaches max_cost_usd."""
        return _reached(self.cost_usd, self.budget.max_cost_usd)

    def tokens_spent(self) -> bool:
        """The tokens reach max_tokens."""
        return _reached(self.tokens, self.budget.max_tokens)

    def steps_spent(self) -> bool:
        """The model was asked max_steps times."""
        return _reached(self.steps, self.budget.max_steps)

    def spent(self) -> str:
        """The first budget that forbids any further effect, blank while none does."""
        return (
            ("time" if self.time_spent() else "")
            or ("usage" if self.usage_missing() else "")
            or ("cost" if self.cost_spent() else "")
            or ("tokens" if self.tokens_spent() else "")
        )

    def stopped(self) -> bool:
        """Nothing with an effect may start any more."""
        return self.cancelled or bool(self.spent())

    # --- calls --------------------------------------------------------------------------------------------

    def fate(self, step: int, place: int) -> Fate | None:
        """Of an admitted call, while its exchange is not in the history."""
        for fate in self.fates:
            if fate.call.key == (step, place):
                return fate
        return None

    def decision(self, call: Call) -> Decision | None:
        """The first word that somebody gave on a call."""
        for word in self.decisions:
            if (word.step, word.place) == call.key:
                return word
        return None

    def answers(self, calls: tuple[Call, ...]) -> list[str | None]:
        """For each call of the latest turn the outcome that it must get unexecuted; None where it may run.

        "repeated" goes first, then "over_budget" (wrapping up, the tool's own limit, the refusing policy's), then
        what is wrong with the call itself, then what somebody decided.
        """
        found: list[str | None] = []
        seen = set(self.ids)
        used = dict(self.by_tool)
        refusing = self.policy.excess_calls == "refuse" and self.budget.max_calls is not None
        free = (self.budget.max_calls or 0) - self.calls
        for call in calls:
            again = call.id in seen and self.policy.repeated_id == "answer"
            limited = call.limit is not None and used.get(call.name, 0) >= call.limit
            counted = not (again or self.wrapping or limited or (refusing and free <= 0))
            found.append(self._of_itself(call) if counted else "repeated" if again else "over_budget")
            seen.add(call.id)
            free -= counted
            used[call.name] = used.get(call.name, 0) + counted
        return found

    def _of_itself(self, call: Call) -> str | None:
        if not call.known:
            return "unknown_tool"
        if call.checked is None:
            return "invalid_arguments"
        word = self.decision(call) if call.needs_approval else None
        return "denied" if word is not None and not word.approved else None

    # --- how it grows -------------------------------------------------------------------------------------

    def heard(self, event: Any, asked: tuple[Any, ...]) -> Account:
        """This account and what the event says, which was told while that was asked for."""
        changes = _HEARD.get(type(event), _nothing)(self, event)
        if event.at != self.clock:
            _timed(changes, self, asked, event)
        return self.but(**changes) if changes else self

    def admitting(self, shown: Shown) -> Account:
        """This account and the calls that were admitted."""
        return _with_admitted(self, shown.admitted, shown.results)

    def following(self, model: bool, calls: tuple[Call, ...], shown: Shown, after: Snapshot) -> Account:
        """This account, with what is asked for, the results that the calls got, and the exchange they are in."""
        if not (model or calls or shown.results or shown.exchanges or self.seal):
            return self
        changes: dict[str, Any] = {}
        fates, last, alike = self.fates, self.last, self.alike
        if model:
            changes = {"steps": self.steps + 1, "wrapping": self._wraps_up(), "brought": None}
        if calls:
            fates = _changed(fates, [call.key for call in calls], _started)
        if fates and shown.results:
            fates = _settled(fates, shown.results)
        for exchange in shown.exchanges:
            alike = alike + 1 if last is not None and same(last, exchange) else 1
            fates, last = (), exchange
            changes |= {"last": last, "alike": alike, "decisions": (), "brought": _unanswered(self.brought, exchange)}
        if fates is not self.fates:
            changes["fates"] = fates
        if self.seal is not None:
            changes["seal"] = seal(after)
        return self.but(**changes) if changes else self

    def _wraps_up(self) -> bool:
        last = self.steps + 1 >= self.budget.max_steps
        return self.policy.wrap_up and (last or _reached(self.calls, self.budget.max_calls))


def _unanswered(brought: Any, exchange: Exchange) -> Turn | ModelFailed | None:
    """What the latest step brought; nothing once all that it asked for is in the exchange."""
    asked = {call.key for call in brought.calls} if isinstance(brought, Turn) else set()
    return None if asked and asked <= {call.key for call in exchange.turn.calls} else brought


def _reached(used: float, limit: float | None) -> bool:
    return limit is not None and used >= limit


def seal(snapshot: Any) -> bytes:
    """All that is in a snapshot, as bytes: the same for equal ones, whoever made them."""
    return _encode(snapshot)


def _logged(value: Any) -> list[Any]:
    return list(value.entries if isinstance(value, History) else value)


_encode: Constant = msgspec.json.Encoder(enc_hook=_logged).encode

NOT_COUNTED: Constant = ("over_budget", "repeated")


# --- what each event says -------------------------------------------------------------------------------------


_WAITS: Constant = (AskApproval, ResolveCalls)


def _timed(changes: dict[str, Any], account: Account, asked: tuple[Any, ...], event: Any) -> None:
    """The time that passed. A wait does not count; the clock of the next host may have begun anywhere."""
    passed, resumed = event.at - account.clock, type(event) is Resumed
    if passed > 0 or resumed:
        changes["clock"] = event.at
        if resumed or (asked and type(asked[0]) in _WAITS):
            changes["since"] = account.since + passed


def _nothing(account: Account, event: Any) -> dict[str, Any]:
    return {}


def _cancelled(account: Account, event: CancelPolled | CancelRequested) -> dict[str, Any]:
    return {"cancelled": True} if event.cancelled and not account.cancelled else {}


def _used(account: Account, usage: Usage | None) -> dict[str, Any]:
    """The fields that usage changes; None: it did not say."""
    if usage is None:
        return {"unpriced": account.unpriced + 1, "unmetered": account.unmetered + 1}
    cost, tokens = usage.cost_usd, usage.tokens
    return {
        # To as many digits as the machine adds up to, whose rules are not asked here; and no sum is infinite.
        "cost_usd": min(round(account.cost_usd + (cost or 0.0), 12), sys.float_info.max),
        "tokens": account.tokens + (tokens or 0),
        "unpriced": account.unpriced + (1 if cost is None else usage.unpriced),
        "unmetered": account.unmetered + (1 if tokens is None else usage.unmetered),
    }


def _billed(account: Account, event: Any) -> dict[str, Any]:
    return {} if event.usage is None else _used(account, event.usage)


def _replied(account: Account, event: ModelReplied) -> dict[str, Any]:
    turn = event.turn
    return _used(account, turn.usage) | {
        "brought": turn,
        "failures": 0,
        "flawed": account.flawed + 1 if turn.kind == MALFORMED else 0,
        "truncated": account.truncated or turn.kind == TRUNCATED,
        "decisions": (),
    }


def _failed(account: Account, event: ModelFailed) -> dict[str, Any]:
    return _billed(account, event) | {"brought": event, "failures": account.failures + 1}


def _approved(account: Account, event: ApprovalGiven) -> dict[str, Any]:
    return {"decisions": account.decisions + event.decisions}


def _returned(account: Account, event: CallReturned) -> dict[str, Any]:
    result = event.result
    fates = _changed(account.fates, [result.key], lambda fate: fate.but(stage=RETURNED, result=result))
    return _billed(account, event) | {"fates": fates}


def _lost(account: Account, event: CallLost) -> dict[str, Any]:
    return _billed(account, event) | {"fates": _changed(account.fates, [(event.step, event.place)], _gone)}


def _resolved(account: Account, event: CallsResolved) -> dict[str, Any]:
    words = {(word.step, word.place): word for word in event.resolutions}
    billed = _billed(account, event)
    for usage in [word.result.usage for word in event.resolutions if word.result is not None]:
        billed = billed if usage is None else _used(account.but(**billed), usage)

    def settled(fate: Fate) -> Fate:
        word = words[fate.call.key]
        if word.result is not None:
            return fate.but(stage=RETURNED, result=word.result)
        return fate.but(stage=AGAIN if word.rerun else GIVEN_UP)

    return billed | {"fates": _changed(account.fates, words, settled)}


def _resumed(account: Account, event: Resumed) -> dict[str, Any]:
    changes: dict[str, Any] = {} if event.budget is None else {"budget": event.budget}
    running = [fate.call.key for fate in account.fates if fate.stage == STARTED] if account.fates else ()
    return changes | {"fates": _changed(account.fates, running, _gone)} if running else changes


_HEARD: Constant[dict[type[Any], Callable[[Account, Any], dict[str, Any]]]] = {
    CancelPolled: _cancelled,
    CancelRequested: _cancelled,
    ModelReplied: _replied,
    ModelFailed: _failed,
    ApprovalGiven: _approved,
    CallReturned: _returned,
    CallLost: _lost,
    CallsResolved: _resolved,
    Resumed: _resumed,
}


# --- what becomes of calls ------------------------------------------------------------------------------------


def _gone(fate: Fate) -> Fate:
    again = fate.losses == 0 and fate.call.effect in ("read", "idempotent")
    return fate.but(stage=AGAIN if again else LOST, losses=fate.losses + 1)


def _started(fate: Fate) -> Fate:
    return fate.but(stage=STARTED)


def _changed(fates: Fates, keys: Container[tuple[int, int]], change: Callable[[Fate], Fate]) -> Fates:
    return tuple([change(fate) if fate.call.key in keys else fate for fate in fates])


def _settled(fates: Fates, found: Mapping[tuple[int, int], CallResult]) -> Fates:
    late = [key for fate in fates if fate.result is None and (key := fate.call.key) in found]
    return _changed(fates, late, lambda fate: fate.but(result=found[fate.call.key])) if late else fates


def _with_admitted(account: Account, calls: tuple[Call, ...], found: Mapping[tuple[int, int], CallResult]) -> Account:
    ids, counts, counted = account.ids, dict(account.by_tool), 0
    for call in calls:
        ids = ids.add(call.id).add(call.wire_id)
        result = found.get(call.key)
        counts_it = result is None or result.outcome not in NOT_COUNTED
        counted += counts_it
        if call.limit is not None:
            counts[call.name] = counts.get(call.name, 0) + counts_it
    return account.but(
        ids=ids,
        calls=account.calls + counted,
        by_tool=tuple(counts.items()),
        fates=tuple(Fate(call, answer) for call, answer in zip(calls, account.answers(calls), strict=True)),
    )
