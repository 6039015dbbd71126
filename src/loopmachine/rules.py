"""The rules that guards, updates and requests share, each in one place.

What is spent, which calls of a turn may run and what the others are answered, and which may start now.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Container
from typing import Any

import attrs

from loopmachine.history import History
from loopmachine.limits import DIGITS, Usage
from loopmachine.records import QUEUED, RUNNING, Call, Decision, Exchange, Flight, Note, Snapshot, Turn

# --- what is spent ------------------------------------------------------------------------------------


def time_spent(snapshot: Snapshot, at: float) -> bool:
    """The deadline is reached at the time ``at``, or was: the seconds used reach max_seconds."""
    limit = snapshot.budget.max_seconds
    if limit is None:
        return False
    deadline = snapshot.since + limit  # that which requests tell: in floats the seconds used may be less by a hair
    return at >= deadline or snapshot.clock >= deadline


def usage_missing(snapshot: Snapshot, event: object = None) -> bool:
    """A step or sub-run did not say what it cost under a cost budget, or its tokens under a token budget."""
    budget = snapshot.budget
    return (budget.max_cost_usd is not None and snapshot.unpriced > 0) or (
        budget.max_tokens is not None and snapshot.unmetered > 0
    )


def cost_spent(snapshot: Snapshot, event: object = None) -> bool:
    """The cost reaches max_cost_usd."""
    limit = snapshot.budget.max_cost_usd
    return limit is not None and snapshot.cost_usd >= limit


def tokens_spent(snapshot: Snapshot, event: object = None) -> bool:
    """The tokens, input and output, reach max_tokens."""
    limit = snapshot.budget.max_tokens
    return limit is not None and snapshot.tokens >= limit


def with_usage(snapshot: Snapshot, usage: Usage) -> dict[str, Any]:
    """The fields that usage changes. A field of it that is None is unknown and never zero."""
    cost, tokens = usage.cost_usd, usage.tokens
    return {
        # Ten times 0.1 is 1.0: what floats lose in adding is far below any price. And the sum stays finite.
        "cost_usd": min(round(snapshot.cost_usd + (cost or 0.0), DIGITS), sys.float_info.max),
        "tokens": snapshot.tokens + (tokens or 0),
        "unpriced": snapshot.unpriced + (1 if cost is None else usage.unpriced),
        "unmetered": snapshot.unmetered + (1 if tokens is None else usage.unmetered),
    }


def stopping(snapshot: Snapshot, at: float) -> bool:
    """Nothing with an effect may start any more: a cancel was observed, or a budget that tools use is spent."""
    if snapshot.cancelled or time_spent(snapshot, at):
        return True
    if snapshot.budget.max_cost_usd is None and snapshot.budget.max_tokens is None:
        return False
    return usage_missing(snapshot) or cost_spent(snapshot) or tokens_spent(snapshot)


# --- which calls may run ------------------------------------------------------------------------------


@attrs.frozen
class Verdict:
    """What admission says of a call: may it run (``outcome`` None), or what is it answered."""

    outcome: str | None = None
    content: str = ""
    code: str = ""
    counted: bool = True  #: it counts as a call of the budget


_RUNNABLE = Verdict()


def repeats(snapshot: Snapshot, calls: tuple[Call, ...]) -> list[bool]:
    """For each call whether its id was used before, in the run or in this turn."""
    found: list[bool] = []
    for place, call in enumerate(calls):
        found.append(call.id in snapshot.ids or any(call.id == other.id for other in calls[:place]))
    return found


def verdicts(snapshot: Snapshot, calls: tuple[Call, ...]) -> list[Verdict]:
    """Admission, call by call, in order. Under ``excess_calls="stop"`` the call budget is not looked at here."""
    policy, limit = snapshot.policy, snapshot.budget.max_calls
    free = None if limit is None or policy.excess_calls == "stop" else limit - snapshot.calls
    repeated = repeats(snapshot, calls) if policy.repeated_id == "answer" else None
    used = dict(snapshot.tool_calls)
    found = []
    for place, call in enumerate(calls):
        if repeated is not None and repeated[place]:
            verdict = Verdict("repeated", f"the id {call.id!r} was used before; not executed", counted=False)
        elif snapshot.wrapping:
            verdict = Verdict("over_budget", "no more calls can be made; answer with what you have", counted=False)
        elif call.limit is not None and used.get(call.name, 0) >= call.limit:
            verdict = Verdict("over_budget", f"{call.name} may be called {call.limit} times in a run", counted=False)
        elif free is not None and free <= 0:  # below it where a resumed run got a smaller budget
            verdict = Verdict("over_budget", f"all {limit} calls of this run are used", counted=False)
        else:
            verdict = _admitted(snapshot, call)
            free = None if free is None else free - 1
            if call.limit is not None:
                used[call.name] = used.get(call.name, 0) + 1
        found.append(verdict)
    return found


def _admitted(snapshot: Snapshot, call: Call) -> Verdict:
    if not call.known:
        return Verdict("unknown_tool", call.problem or f"there is no tool named {call.name!r}")
    if call.checked is None:
        return Verdict("invalid_arguments", call.problem)
    if call.needs_approval:
        word = decision(snapshot, call)
        if word is not None and not word.approved:
            reason = word.reason if word.reason.strip() else "this call was not approved"
            return Verdict("denied", reason, "not_approved")
    return _RUNNABLE


def with_free_ids(snapshot: Snapshot, calls: tuple[Call, ...]) -> tuple[Call, ...]:
    """The calls, each whose id was used before with another, free one to be sent back."""
    repeated = repeats(snapshot, calls)
    if True not in repeated:
        return calls
    taken = {call.id for call in calls}
    renamed = list(calls)
    for place, call in enumerate(calls):
        if repeated[place]:
            renamed[place] = attrs.evolve(call, sent_id=free_id(call, snapshot.ids, taken))
            taken.add(renamed[place].sent_id)
    return tuple(renamed)


def free_id(call: Call, ids: Container[str], taken: Container[str] = ()) -> str:
    """An id for ``call`` that no other call bears, the same at every replay: at most 40 letters, digits, _ or -."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", call.id[:20])  # what every provider takes
    stem = f"{plain or 'call'}_s{call.step}_{call.place}"
    number = 0
    while (one := f"{stem}_{number}" if number else stem) in ids or one in taken:
        number += 1
    return one


def decision(snapshot: Snapshot, call: Call) -> Decision | None:
    """What somebody decided on this call, None while it is undecided."""
    for word in snapshot.decisions:
        if (word.step, word.place) == call.key:
            return word
    return None


def undecided(snapshot: Snapshot) -> tuple[Call, ...]:
    """The calls of the turn that could run and still need somebody's approval."""
    calls = snapshot.turn.calls if snapshot.turn else ()
    for call in calls:
        if call.needs_approval:
            break
    else:
        return ()
    return tuple(
        call
        for call, found in zip(calls, verdicts(snapshot, calls), strict=True)
        if found.outcome is None and call.needs_approval and decision(snapshot, call) is None
    )


def startable(snapshot: Snapshot) -> list[Flight]:
    """The queued calls that fit beside the running ones now: in order, none past one that has to wait."""
    queued = [flight for flight in snapshot.flights if flight.phase == QUEUED]
    if not queued:
        return queued
    running = [flight for flight in snapshot.flights if flight.phase == RUNNING]
    places = 1 if snapshot.policy.batch == "sequential" else snapshot.policy.max_parallel
    fitting = []
    for flight in queued:
        crowded = running and (flight.call.alone or running[0].call.alone)
        if crowded or len(running) >= places:
            break
        running.append(flight)
        fitting.append(flight)
    return fitting


# --- what becomes of calls under way --------------------------------------------------------------------


def rerun_safe(flight: Flight) -> bool:
    """A lost call may run once more by itself: its tool is read or idempotent, and it was not lost before."""
    return flight.call.effect in ("read", "idempotent") and flight.losses == 0


def last_exchange(history: History) -> Exchange | None:
    """The latest exchange; notes may follow it."""
    for place in range(len(history.entries) - 1, -1, -1):
        entry = history.entries[place]
        if isinstance(entry, Exchange):
            return entry
        if not isinstance(entry, Note):
            return None
    return None


def same_calls(one: Turn, other: Turn) -> bool:
    """Two turns ask for the same tools with the same arguments, whatever the ids."""
    return [(call.name, call.checked or call.arguments_text) for call in one.calls] == [
        (call.name, call.checked or call.arguments_text) for call in other.calls
    ]


def same_exchange(one: Exchange, other: Exchange) -> bool:
    """Two exchanges hold the same calls with the same results, whatever the ids."""
    return same_calls(one.turn, other.turn) and _brought(one) == _brought(other)


def _brought(exchange: Exchange) -> list[tuple[str, str, str | None]]:
    return [(result.outcome, result.content, result.blocks_text) for result in exchange.results]
