"""What a row changes: named pure functions (snapshot, event) -> snapshot."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from loopmachine import rules
from loopmachine.events import (
    ApprovalGiven,
    CallLost,
    CallReturned,
    CallsResolved,
    CancelPolled,
    CancelRequested,
    Event,
    ModelFailed,
    ModelReplied,
    Resumed,
)
from loopmachine.kinds import MALFORMED
from loopmachine.limits import Budget
from loopmachine.records import (
    ANSWERED,
    LOST,
    QUEUED,
    RUNNING,
    CallResult,
    Exchange,
    Failure,
    Final,
    Flight,
    Note,
    Snapshot,
    Turn,
)


def discount_wait(snapshot: Snapshot, event: Event) -> Snapshot:
    """A wait for a person does not count as time."""
    waited = max(event.at - snapshot.clock, 0.0)  # a clock that goes back stands still
    return _waited(snapshot, waited, snapshot.budget)


def restart_clock(snapshot: Snapshot, event: Resumed) -> Snapshot:
    """A wait for the next host does not count as time, wherever its clock began; its budget may be new."""
    return _waited(snapshot, event.at - snapshot.clock, event.budget or snapshot.budget)


def remember_cancel(snapshot: Snapshot, event: CancelPolled | CancelRequested) -> Snapshot:
    """Remember the cancel; it sticks."""
    if snapshot.cancelled:
        return snapshot
    return snapshot.but(cancelled=True, cancel_reason=event.reason)


# --- the model ----------------------------------------------------------------------------------------


def ask_with_tools(snapshot: Snapshot, event: Event) -> Snapshot:
    """Count the step, offer the tools."""
    return snapshot.but(steps=snapshot.steps + 1, wrapping=False, turn=None, failure=None, not_before=None)


def ask_without_tools(snapshot: Snapshot, event: Event) -> Snapshot:
    """Count the step, offer no tools."""
    return snapshot.but(steps=snapshot.steps + 1, wrapping=True, turn=None, failure=None, not_before=None)


def keep_turn(snapshot: Snapshot, event: ModelReplied) -> Snapshot:
    """Keep the turn, add usage."""
    turn = event.turn
    repairs = snapshot.repairs if turn.kind == MALFORMED else 0
    if turn.usage is None:
        unpriced, unmetered = snapshot.unpriced + 1, snapshot.unmetered + 1
        return snapshot.but(turn=turn, retries=0, repairs=repairs, unpriced=unpriced, unmetered=unmetered)
    return snapshot.but(turn=turn, retries=0, repairs=repairs, **rules.with_usage(snapshot, turn.usage))


def keep_failure(snapshot: Snapshot, event: ModelFailed) -> Snapshot:
    """Keep the failure, add usage if it was billed."""
    spent = {} if event.usage is None else rules.with_usage(snapshot, event.usage)
    failure = Failure(event.code, event.message, event.retryable, event.retry_after, event.timed_out)
    pause = None if event.retry_after is None else event.at + event.retry_after
    return snapshot.but(failure=failure, not_before=pause, **spent)


def count_retry(snapshot: Snapshot, event: Event) -> Snapshot:
    """Count the retry, forget the failure."""
    return snapshot.but(retries=snapshot.retries + 1, failure=None)


def append_note(snapshot: Snapshot, event: Event) -> Snapshot:
    """Append a note of what was wrong, count the repair."""
    turn = _turn(snapshot)
    note = Note(f"Your last reply could not be used: {turn.fault}.")
    return snapshot.but(history=snapshot.history.append(note), repairs=snapshot.repairs + 1, turn=None)


def append_final(snapshot: Snapshot, event: Event) -> Snapshot:
    """Append the final."""
    return snapshot.but(history=snapshot.history.append(Final(_turn(snapshot))))


# --- admission ----------------------------------------------------------------------------------------


def keep_decisions(snapshot: Snapshot, event: ApprovalGiven) -> Snapshot:
    """Keep the decisions."""
    return snapshot.but(decisions=snapshot.decisions + event.decisions)


def admit(snapshot: Snapshot, event: Event) -> Snapshot:
    """Reserve the ids, count the calls, answer those that cannot run, grant the first."""
    turn = _turn(snapshot)
    verdicts = rules.verdicts(snapshot, turn.calls)
    if snapshot.policy.repeated_id != "stop":  # under "stop" the guard call_repeated has seen that none is
        turn = attrs.evolve(turn, calls=rules.with_free_ids(snapshot, turn.calls))
    ids, counted, limited = snapshot.ids, 0, snapshot.tool_calls
    flights: list[Flight] = []
    first = RUNNING
    for call, verdict in zip(turn.calls, verdicts, strict=True):
        ids = ids.add(call.sent_id or call.id)
        counted += verdict.counted
        if call.limit is not None and verdict.counted:
            limited = _one_more(limited, call.name)
        if verdict.outcome is None:
            flights.append(Flight(call, first))
            first = QUEUED
        else:
            result = CallResult.of(call, verdict.outcome, verdict.content, verdict.code)
            flights.append(Flight(call, ANSWERED, 0, result))
    calls = snapshot.calls + counted
    return snapshot.but(turn=turn, ids=ids, calls=calls, tool_calls=limited, flights=tuple(flights))


def _one_more(counts: tuple[tuple[str, int], ...], name: str) -> tuple[tuple[str, int], ...]:
    counted = dict(counts)
    counted[name] = counted.get(name, 0) + 1
    return tuple(counted.items())


# --- calls under way ----------------------------------------------------------------------------------


def start_queued(snapshot: Snapshot, event: Event) -> Snapshot:
    """Grant every queued call that fits."""
    flights = list(snapshot.flights)
    for flight in rules.startable(snapshot):
        flights[flight.call.place] = Flight(flight.call, RUNNING, flight.losses)
    return snapshot.but(flights=tuple(flights))


def record(snapshot: Snapshot, event: CallReturned) -> Snapshot:
    """Record the result, add a sub-run's usage."""
    result, flights = event.result, list(snapshot.flights)
    flight = flights[result.place]
    flights[result.place] = Flight(flight.call, ANSWERED, flight.losses, result)
    return _billed(snapshot, event).but(flights=tuple(flights))


def record_and_close(snapshot: Snapshot, event: CallReturned) -> Snapshot:
    """Record the result, close the rest."""
    return close_rest(record(snapshot, event), event)


def close_rest(snapshot: Snapshot, event: Event) -> Snapshot:
    """Close the rest: queued calls are answered not_started, those once started and lost unknown."""
    return _changed(snapshot, (QUEUED, LOST), _closed)


def cancel_and_close(snapshot: Snapshot, event: CancelRequested | CancelPolled) -> Snapshot:
    """Remember the cancel, close the rest."""
    return close_rest(remember_cancel(snapshot, event), event)


def poll_and_close(snapshot: Snapshot, event: CancelPolled) -> Snapshot:
    """Remember a cancel that this poll told, close the rest."""
    return cancel_and_close(snapshot, event) if event.cancelled else close_rest(snapshot, event)


def requeue_lost(snapshot: Snapshot, event: CallLost) -> Snapshot:
    """Queue the lost call again, add what it spent."""
    return _changed_call(snapshot, event, lambda flight: Flight(flight.call, QUEUED, flight.losses + 1))


def mark_lost(snapshot: Snapshot, event: CallLost) -> Snapshot:
    """Mark the call lost, add what it spent."""
    return _changed_call(snapshot, event, lambda flight: Flight(flight.call, LOST, flight.losses + 1))


def answer_lost_and_close(snapshot: Snapshot, event: CallLost) -> Snapshot:
    """Answer the lost call unknown, add what it spent, close the rest."""
    return close_rest(_changed_call(snapshot, event, _unknown), event)


def resume_running(snapshot: Snapshot, event: Resumed) -> Snapshot:
    """Queue again the running calls that are rerun_safe, mark the others lost."""
    return _changed(
        snapshot,
        (RUNNING,),
        lambda flight: Flight(flight.call, QUEUED if rules.rerun_safe(flight) else LOST, flight.losses + 1),
    )


def abandon_running(snapshot: Snapshot, event: Resumed) -> Snapshot:
    """Answer the running calls unknown, close the rest."""
    return close_rest(_changed(snapshot, (RUNNING,), _unknown), event)


def resolve(snapshot: Snapshot, event: CallsResolved) -> Snapshot:
    """Queue the resolved calls again, take their results, or answer them unknown."""
    words = {(word.step, word.place): word for word in event.resolutions}
    snapshot = _billed(snapshot, event)
    for usage in [word.result.usage for word in event.resolutions if word.result is not None]:
        snapshot = snapshot if usage is None else snapshot.but(**rules.with_usage(snapshot, usage))

    def resolved(flight: Flight) -> Flight:
        word = words.get(flight.call.key)
        if word is None:
            return flight
        if word.result is not None:
            return Flight(flight.call, ANSWERED, flight.losses, word.result)
        return Flight(flight.call, QUEUED, flight.losses) if word.rerun else _unknown(flight)

    return _changed(snapshot, (LOST,), resolved)


def append_exchange(snapshot: Snapshot, event: Event) -> Snapshot:
    """Append the exchange."""
    results = [flight.result for flight in snapshot.flights if flight.result is not None]
    exchange = Exchange(_turn(snapshot), tuple(results))
    identical = 0
    if snapshot.policy.max_identical_turns is not None:
        last = rules.last_exchange(snapshot.history)
        identical = snapshot.identical + 1 if last is not None and rules.same_exchange(last, exchange) else 1
    return snapshot.but(
        history=snapshot.history.append(exchange), turn=None, flights=(), decisions=(), identical=identical
    )


# --- helpers ------------------------------------------------------------------------------------------


def _turn(snapshot: Snapshot) -> Turn:
    assert snapshot.turn is not None, "the row's guards have made sure of a turn"
    return snapshot.turn


def _waited(snapshot: Snapshot, waited: float, budget: Budget) -> Snapshot:
    if waited == 0 and budget is snapshot.budget:
        return snapshot
    pause = snapshot.not_before
    return snapshot.but(
        budget=budget,
        clock=snapshot.clock + waited,
        since=snapshot.since + waited,
        not_before=None if pause is None else pause + waited,
    )


def _changed(snapshot: Snapshot, phases: tuple[str, ...], change: Callable[[Flight], Flight]) -> Snapshot:
    return snapshot.but(
        flights=tuple([change(flight) if flight.phase in phases else flight for flight in snapshot.flights])
    )


def _changed_call(snapshot: Snapshot, event: CallLost, change: Callable[[Flight], Flight]) -> Snapshot:
    flights = list(snapshot.flights)
    flights[event.place] = change(flights[event.place])
    return _billed(snapshot, event).but(flights=tuple(flights))


def _billed(snapshot: Snapshot, event: Event) -> Snapshot:
    return snapshot if event.usage is None else snapshot.but(**rules.with_usage(snapshot, event.usage))


def _unknown(flight: Flight) -> Flight:
    said = "it was started, and nobody knows what it did"
    return Flight(flight.call, ANSWERED, flight.losses, CallResult.of(flight.call, "unknown", said))


def _closed(flight: Flight) -> Flight:
    if flight.losses:
        return _unknown(flight)
    said = "the run was stopped before this call was started"
    return Flight(flight.call, ANSWERED, 0, CallResult.of(flight.call, "not_started", said))
