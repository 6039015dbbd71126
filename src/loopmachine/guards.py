"""The guards: named pure predicates of (snapshot, event), each to be tested alone.

A guard of an auto state sees the event that led there. Its docstring is what a reviewer reads in the diagram.
"""

from __future__ import annotations

import attrs

from loopmachine import rules
from loopmachine.events import CallLost, Event
from loopmachine.kinds import FINAL, MALFORMED, REFUSED, TRUNCATED
from loopmachine.records import LOST, QUEUED, RUNNING, Snapshot

# These three need no event, and the rules that share them are theirs too.
usage_missing = rules.usage_missing
cost_spent = rules.cost_spent
tokens_spent = rules.tokens_spent

# --- cancel and budgets -------------------------------------------------------------------------------


def cancel_requested(snapshot: Snapshot, event: Event) -> bool:
    """A cancel is told by this event or was observed before."""
    return snapshot.cancelled or event.cancelled


def time_spent(snapshot: Snapshot, event: Event) -> bool:
    """The seconds used, this event's counted, reach max_seconds."""
    return snapshot.budget.max_seconds is not None and rules.time_spent(snapshot, event.at)


def steps_spent(snapshot: Snapshot, event: Event) -> bool:
    """The model was asked max_steps times."""
    return snapshot.steps >= snapshot.budget.max_steps


def wrap_up_due(snapshot: Snapshot, event: Event) -> bool:
    """The policy wraps up, and this is the last permitted step or the call budget is spent."""
    budget = snapshot.budget
    return snapshot.policy.wrap_up and (
        snapshot.steps + 1 >= budget.max_steps or (budget.max_calls is not None and snapshot.calls >= budget.max_calls)
    )


# --- what the step brought ----------------------------------------------------------------------------


def retry_left(snapshot: Snapshot, event: Event) -> bool:
    """The model failed in a way that may pass, and the policy, the steps and the usage known allow to ask again."""
    return (
        snapshot.failure is not None
        and snapshot.failure.retryable
        and snapshot.retries < snapshot.policy.model_retries
        and snapshot.steps < snapshot.budget.max_steps
        and not rules.usage_missing(snapshot)
    )


def model_timed_out(snapshot: Snapshot, event: Event) -> bool:
    """The model was cut short by the deadline."""
    return snapshot.failure is not None and snapshot.failure.timed_out


def model_failed(snapshot: Snapshot, event: Event) -> bool:
    """Asking the model brought no turn."""
    return snapshot.failure is not None


def turn_truncated(snapshot: Snapshot, event: Event) -> bool:
    """The stop reason says that the turn was cut by its length."""
    return snapshot.turn is not None and snapshot.turn.kind == TRUNCATED


def turn_refused(snapshot: Snapshot, event: Event) -> bool:
    """The stop reason says that the model or a filter refused."""
    return snapshot.turn is not None and snapshot.turn.kind == REFUSED


def repair_left(snapshot: Snapshot, event: Event) -> bool:
    """The turn is malformed, and the policy, the steps and the usage known allow to say so and ask again."""
    return (
        snapshot.turn is not None
        and snapshot.turn.kind == MALFORMED
        and snapshot.repairs < snapshot.policy.repairs
        and snapshot.steps < snapshot.budget.max_steps
        and not rules.usage_missing(snapshot)
    )


def turn_malformed(snapshot: Snapshot, event: Event) -> bool:
    """The turn can't be used; its fault says why."""
    return snapshot.turn is not None and snapshot.turn.kind == MALFORMED


def turn_final(snapshot: Snapshot, event: Event) -> bool:
    """The turn is an answer: text that is not blank, and no calls."""
    return snapshot.turn is not None and snapshot.turn.kind == FINAL


# --- admission ----------------------------------------------------------------------------------------


def call_repeated(snapshot: Snapshot, event: Event) -> bool:
    """The policy stops at a repeated id, and a call bears one used before in the run or twice in the turn."""
    turn = snapshot.turn
    if turn is None or snapshot.policy.repeated_id != "stop":
        return False
    calls = turn.calls
    return calls[0].id in snapshot.ids if len(calls) == 1 else True in rules.repeats(snapshot, calls)


def batch_unsupported(snapshot: Snapshot, event: Event) -> bool:
    """The policy rejects batches, and the turn asks for more than one call."""
    turn = snapshot.turn
    return turn is not None and snapshot.policy.batch == "reject" and len(turn.calls) > 1


def calls_stuck(snapshot: Snapshot, event: Event) -> bool:
    """The last max_identical_turns turns brought the same calls and results, and they are asked for once more."""
    limit, turn = snapshot.policy.max_identical_turns, snapshot.turn
    if limit is None or turn is None or snapshot.identical < limit:
        return False
    last = rules.last_exchange(snapshot.history)
    return last is not None and rules.same_calls(last.turn, turn)


def calls_over_budget(snapshot: Snapshot, event: Event) -> bool:
    """The policy stops at excess calls, and those that would be counted do not fit the call budget."""
    limit, turn = snapshot.budget.max_calls, snapshot.turn
    if limit is None or turn is None or snapshot.wrapping or snapshot.policy.excess_calls != "stop":
        return False
    counted = sum(found.counted for found in rules.verdicts(snapshot, turn.calls))
    return counted > max(limit - snapshot.calls, 0)  # a resumed run may be over a smaller budget


def approval_needed(snapshot: Snapshot, event: Event) -> bool:
    """A call that could run needs somebody's approval and has no decision yet."""
    return bool(rules.undecided(snapshot))


# --- calls under way ----------------------------------------------------------------------------------


def stopping(snapshot: Snapshot, event: Event) -> bool:
    """A cancel, or time, cost, tokens or missing usage, this event's counted, forbid any further effect."""
    if event.usage is not None:
        snapshot = attrs.evolve(snapshot, **rules.with_usage(snapshot, event.usage))  # another one, never a draft
    return event.cancelled or rules.stopping(snapshot, event.at)


def rerun_safe(snapshot: Snapshot, event: CallLost) -> bool:
    """The lost call's tool is read or idempotent, and this is the call's first loss."""
    return rules.rerun_safe(snapshot.flights[event.place])


def calls_lost(snapshot: Snapshot, event: Event) -> bool:
    """Some calls are lost, and none is running or queued."""
    lost = False
    for flight in snapshot.flights:
        if flight.phase == RUNNING or flight.phase == QUEUED:
            return False
        lost = lost or flight.phase == LOST
    return lost


def calls_open(snapshot: Snapshot, event: Event) -> bool:
    """Some calls are running or queued."""
    for flight in snapshot.flights:
        if flight.phase == RUNNING or flight.phase == QUEUED:
            return True
    return False
