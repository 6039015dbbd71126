"""A run told step by step, from the event log of its snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from loopmachine import rules
from loopmachine.definition import Definition
from loopmachine.events import CallReturned, ModelFailed, ModelReplied, Resumed
from loopmachine.frozen import whole
from loopmachine.limits import Usage
from loopmachine.records import Call, CallResult, Exchange, Snapshot

WIDTH = 120  #: characters that a line of the printed trace is cut to


def _own_calls(snapshot: Snapshot) -> Iterator[tuple[Call, CallResult]]:
    for entry in snapshot.history.entries[snapshot.handed_in :]:
        if isinstance(entry, Exchange):
            yield from zip(entry.turn.calls, entry.results, strict=False)
    for flight in snapshot.flights:
        if flight.result is not None:
            yield flight.call, flight.result


def own_results(snapshot: Snapshot) -> Iterator[CallResult]:
    """The results that this run brought, in the order their calls were asked for."""
    return (result for _, result in _own_calls(snapshot))


def steps(definition: Definition, snapshot: Snapshot) -> list[dict[str, Any]]:
    """Plain data: what each step brought, when (on the clock of ``at``), and what its calls brought.

    ``asked_at`` is None of a step that the run began in.
    """
    returned = {_named(event.result): event for event in snapshot.events if isinstance(event, CallReturned)}
    brought = {_asked(call): (result, returned.get(_named(result))) for call, result in _own_calls(snapshot)}
    asking = {state.name for _, state, row in definition.all_rows() if _answers(row.event)}
    rows_taken = snapshot.rows
    found = [_step(1, None)] if (_state(rows_taken[0]) if rows_taken else snapshot.state) in asking else []
    for event, rows in snapshot.log:
        if isinstance(event, ModelReplied):
            turn = event.turn
            found[-1].update(
                kind=turn.kind,
                text=turn.text,
                stop=turn.stop,
                fault=turn.fault,
                usage=_usage(turn.usage),
                calls=[_call(call, *brought.get(_asked(call), (None, None))) for call in turn.calls],
                replied_at=event.at,
            )
        elif isinstance(event, ModelFailed):
            failure = f"{event.code}: {event.message}"
            found[-1].update(kind="failed", fault=failure, usage=_usage(event.usage), replied_at=event.at)
        if definition.row(rows[-1]).to in asking and (_state(rows[0]) not in asking or _anew(definition, event, rows)):
            found.append(_step(len(found) + 1, event.at))
    return found


def _step(number: int, asked_at: float | None) -> dict[str, Any]:
    return {"step": number, "kind": "unanswered", "asked_at": asked_at, "calls": []}


def _answers(event: type[Any] | None) -> bool:
    """Whether the model is asked where this is taken: what answers it is taken only while it is waited for."""
    return event is not None and issubclass(event, ModelReplied | ModelFailed)


def _anew(definition: Definition, event: Any, rows: tuple[str, ...]) -> bool:
    """Whether the model is asked once more by an event that leads from one rest where it is to one where it is."""
    if isinstance(event, ModelReplied | ModelFailed | Resumed):  # what was asked has its answer, or never gets one
        return True
    stayed = definition.row(rows[0]).to == _state(rows[0])
    return not stayed and not getattr(event, "cancelled", False)  # nothing is asked once cancelled, only cut short


def _state(row: str) -> str:
    return row.rpartition("/")[0]


def _asked(call: Call) -> tuple[Any, ...]:
    """A call as the model wrote it: in one step there may be two of a place, where a table asks again."""
    return call.key, call.id, call.name, call.arguments_text


def _named(result: CallResult) -> tuple[Any, ...]:
    return result.key, result.id, result.name


def _usage(usage: Usage | None) -> dict[str, Any] | None:
    return attrs.asdict(usage) if usage else None


def _call(call: Call, result: CallResult | None, returned: CallReturned | None) -> dict[str, Any]:
    told = returned or result
    return {
        "id": call.id,
        "name": call.name,
        "arguments": call.arguments,
        "outcome": result.outcome if result else None,
        "content": result.content if result else None,
        "code": result.code if result else "",
        "usage": _usage(told.usage if told else None),
        "returned_at": returned.at if returned else None,
    }


def explain(definition: Definition, snapshot: Snapshot) -> str:
    """Why the run stands where it stands: the last row, its guard, and the numbers that the guard saw."""
    state = definition.states[snapshot.state]
    rows = snapshot.rows
    if not rows:
        return f"{state.name}: nothing has happened yet. {state.doc}"
    row = definition.row(rows[-1])
    guard = (
        f"[{row.guard.__name__}] held: {row.guard.__doc__}" if row.guard else f"no guard before it held. {state.doc}"
    )
    facts = [f"{state.name}, by {rows[-1]} {guard}", spent(snapshot)]
    if snapshot.failure is not None:
        facts.append(f"the model failed with {snapshot.failure.code}: {snapshot.failure.message}")
    if snapshot.turn is not None:
        calls = "".join(f"; it called {_flat(call.name)} as {call.id!r}" for call in snapshot.turn.calls)
        facts.append(f"the last turn was {snapshot.turn.kind}, its stop reason {snapshot.turn.stop!r}{calls}")
        facts += [snapshot.turn.fault] if snapshot.turn.fault else []
    if snapshot.policy.max_identical_turns is not None:
        facts.append(f"identical turns {snapshot.identical} of {snapshot.policy.max_identical_turns}")
    if snapshot.cancelled:
        facts.append(f"cancelled{': ' if snapshot.cancel_reason else ''}{snapshot.cancel_reason}")
    return whole("\n".join(facts))


def spent(snapshot: Snapshot) -> str:
    """What was used, each beside its limit where there is one."""
    spend, budget = snapshot.spend, snapshot.budget
    unknown = [f"{spend.unpriced} without cost"] if spend.unpriced else []
    unknown += [f"{spend.unmetered} without tokens"] if spend.unmetered else []
    timed_out, overdrawn = rules.time_spent(snapshot, snapshot.clock), rules.cost_spent(snapshot)
    used = [
        _of("steps", spend.steps, budget.max_steps),
        _of("calls", spend.calls, budget.max_calls),
        _of("seconds", _rounded(spend.seconds, 3, budget.max_seconds, timed_out), budget.max_seconds),
        _of("cost_usd", _rounded(spend.cost_usd, 6, budget.max_cost_usd, overdrawn), budget.max_cost_usd),
        _of("tokens", spend.tokens, budget.max_tokens),
    ]
    return ", ".join(used + unknown)


def _rounded(used: float, digits: int, limit: float | None, spent: bool) -> float:
    """Rounded, unless that would say something else of the limit than its guard."""
    short = round(used, digits)
    return short if limit is None or (short >= limit) is spent else used


def _of(name: str, used: float, limit: float | None) -> str:
    return f"{name} {used}" if limit is None else f"{name} {used} of {limit}"


def text(definition: Definition, snapshot: Snapshot) -> str:
    """The run as lines of at most ``WIDTH`` characters: one a step and a call, then what ended it and the spend."""
    lines = []
    for step in steps(definition, snapshot):
        stop = f" ({_flat(step['stop'])})" if step.get("stop") else ""
        lines.append(f"step {step['step']}  {step['kind']}{stop}{_said(step.get('text') or step.get('fault') or '')}")
        for call in step["calls"]:
            asked = f"  {_flat(call['name'])}({_short(call['arguments'])})"
            lines.append(f"{asked} -> {call['outcome'] or 'not answered'}{_said(call['content'] or '')}")
    state = definition.states[snapshot.state]
    results = list(own_results(snapshot))
    tools = sorted({_flat(result.name) for result in results if result.outcome != "unknown_tool"})
    failed = sum(result.outcome != "ok" for result in results)
    lines.append(f"{'stop' if state.final else 'waits'}: {state.status}")
    lines.append(f"tools: {', '.join(tools) or 'none'}; failed: {failed}")
    lines.append(f"spent: {spent(snapshot)}")
    return "\n".join(_cut(line) for line in lines)


def _said(said: str) -> str:
    return f": {_flat(said)}" if said else ""


def _short(arguments: Any) -> str:
    if not isinstance(arguments, str):
        arguments = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return _cut(_flat(arguments), WIDTH // 2)


def _flat(text: str) -> str:
    """On one line, whatever a model wrote."""
    return whole(" ".join(text.split()))


def _cut(line: str, width: int = WIDTH) -> str:
    return line if len(line) <= width else f"{line[: width - 3]}..."
