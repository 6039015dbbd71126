"""What a run brought: read from its snapshot, never from what the model says of itself."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import attrs

from loopmachine import trace
from loopmachine.codec import plain
from loopmachine.definition import Definition
from loopmachine.history import History
from loopmachine.limits import Spend
from loopmachine.machine import outstanding
from loopmachine.records import CallResult, Final, Snapshot


class Status(StrEnum):
    """How a run can end: the names of the final states without ``finished_``. A user's own are plain strings."""

    ANSWERED = "answered"
    CANCELLED = "cancelled"
    STEP_BUDGET = "step_budget"
    CALL_BUDGET = "call_budget"
    TIME_BUDGET = "time_budget"
    COST_BUDGET = "cost_budget"
    TOKEN_BUDGET = "token_budget"
    USAGE_MISSING = "usage_missing"
    REPEATED_CALL = "repeated_call"
    UNSUPPORTED_BATCH = "unsupported_batch"
    STUCK = "stuck"
    MALFORMED = "malformed"
    INCOMPLETE = "incomplete"
    REFUSED = "refused"
    MODEL_ERROR = "model_error"


@attrs.frozen(repr=False)
class Result:
    """A run as it stands: finished, or suspended at a rest that somebody else must answer."""

    definition: Definition = attrs.field(repr=False)
    snapshot: Snapshot = attrs.field(repr=False)
    loop: Any = attrs.field(repr=False, eq=False)  #: to go on from, with ``run(..., loop=result.loop)``

    @property
    def finished(self) -> bool:
        """The run is in a final state. False: suspended; ``requests`` says what it waits for."""
        return self.definition.states[self.snapshot.state].final is not None

    @property
    def status(self) -> str:
        """The final state's name without ``finished_``; of a suspended run the name of the state it rests in."""
        return self.definition.states[self.snapshot.state].status

    @property
    def answered(self) -> bool:
        """The model gave its answer."""
        return self.definition.states[self.snapshot.state].final == "answered"

    @property
    def text(self) -> str:
        """The final text, blank when there is none."""
        entries = self.snapshot.history.entries[self.snapshot.handed_in :]
        last = entries[-1] if self.answered and entries else None
        return last.turn.text if isinstance(last, Final) else ""

    @property
    def history(self) -> History:
        """What was said: immutable and paired. ``run(..., history=result.history)`` goes on from it."""
        return self.snapshot.history

    @property
    def spend(self) -> Spend:
        """What was used of the budget."""
        return self.snapshot.spend

    @property
    def rows(self) -> tuple[str, ...]:
        """The rows taken, in order, each as "state/number"."""
        return self.snapshot.rows

    @property
    def results(self) -> tuple[CallResult, ...]:
        """What the calls of this run brought, in the order they were asked for."""
        return tuple(trace.own_results(self.snapshot))

    @property
    def failed_calls(self) -> tuple[CallResult, ...]:
        """The results whose outcome is not ``ok``."""
        return tuple(result for result in self.results if result.outcome != "ok")

    @property
    def requests(self) -> tuple[Any, ...]:
        """What a suspended run waits for."""
        return outstanding(self.definition, self.snapshot)

    def explain(self) -> str:
        """Which guard ended the run, with the numbers that it saw."""
        return trace.explain(self.definition, self.snapshot)

    def to_dict(self) -> dict[str, Any]:
        """Plain data: every step, call, result, timing and usage, and the full event log."""
        return {
            "status": self.status,
            "finished": self.finished,
            "answered": self.answered,
            "text": self.text,
            "spend": attrs.asdict(self.spend),
            "steps": trace.steps(self.definition, self.snapshot),
            "history": list(self.history),
            "rows": list(self.rows),
            "events": [plain(event) for event in self.snapshot.events],
            "explanation": self.explain(),
        }

    def __repr__(self) -> str:
        spend = self.spend
        return f"<Result {self.status}: {spend.steps} steps, {spend.calls} calls, {self.text[:80]!r}>"

    def __str__(self) -> str:
        return trace.text(self.definition, self.snapshot)
