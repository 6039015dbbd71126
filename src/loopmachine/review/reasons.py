"""Why a run ends: the reasons of each gate in the order of the table, told from the account of a run.

A gate is a state and the event on which a run can end there. Of its reasons the first that holds decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from typing import Final as Constant

from loopmachine.events import CancelPolled, CancelRequested, ModelFailed
from loopmachine.kinds import CALLS, FINAL, MALFORMED, REFUSED, TRUNCATED
from loopmachine.records import Turn
from loopmachine.review.account import NOT_COUNTED, Account
from loopmachine.review.shown import asked_for

Reason = tuple[str | None, Callable[[Account], bool]]  #: how the run ends (None: it goes on), and when


def decided(gate: tuple[str, type[Any]], told: Account) -> str | None:
    """The status with which a run has to end here; None where it has to go on."""
    for status, holds in GATES.get(gate, ()):
        if holds(told):
            return status
    return None


def overdue(told: Account) -> str | None:
    """The status with which a run has ended before it asks the model again, for what its last step brought."""
    brought = told.brought
    if brought is None or (isinstance(brought, Turn) and brought.kind == CALLS):  # the results of calls go back
        return None
    return decided(("rechecking_cancel", CancelPolled), told)


# --- what a step brought --------------------------------------------------------------------------------------


def _cancelled(told: Account) -> bool:
    return told.cancelled


def _may_ask(told: Account) -> bool:
    return not told.steps_spent() and not told.usage_missing()


def _retry_left(told: Account) -> bool:
    failure = told.brought
    passing = isinstance(failure, ModelFailed) and failure.retryable
    return passing and told.failures <= told.policy.model_retries and _may_ask(told)


def _timed_out(told: Account) -> bool:
    return isinstance(told.brought, ModelFailed) and told.brought.timed_out


def _failed(told: Account) -> bool:
    return isinstance(told.brought, ModelFailed)


def _is(kind: str) -> Callable[[Account], bool]:
    return lambda told: isinstance(told.brought, Turn) and told.brought.kind == kind


def _repair_left(told: Account) -> bool:
    return _is(MALFORMED)(told) and told.flawed <= told.policy.repairs and _may_ask(told)


# --- what a turn asks for -------------------------------------------------------------------------------------


def _turn(told: Account) -> Turn:
    return told.brought if isinstance(told.brought, Turn) else Turn()


def _repeated(told: Account) -> bool:
    ids = [call.id for call in _turn(told).calls]
    again = len(set(ids)) < len(ids) or any(one in told.ids for one in ids)
    return told.policy.repeated_id == "stop" and again


def _unsupported(told: Account) -> bool:
    return told.policy.batch == "reject" and len(_turn(told).calls) > 1


def _stuck(told: Account) -> bool:
    most = told.policy.max_identical_turns
    if most is None or told.last is None or told.alike < most:
        return False
    return asked_for(told.last.turn) == asked_for(_turn(told))


def _over_budget(told: Account) -> bool:
    limit = told.budget.max_calls
    if limit is None or told.wrapping or told.policy.excess_calls != "stop":
        return False
    counted = sum(answer not in NOT_COUNTED for answer in told.answers(_turn(told).calls))
    return counted > 0 and told.calls + counted > limit


# --- the gates ------------------------------------------------------------------------------------------------

_SPENT: Constant[tuple[Reason, ...]] = (
    ("time_budget", Account.time_spent),
    ("usage_missing", Account.usage_missing),
    ("cost_budget", Account.cost_spent),
    ("token_budget", Account.tokens_spent),
)

#: The reasons at each state and event on which a run can end.
GATES: Constant[dict[tuple[str, type[Any]], tuple[Reason, ...]]] = {
    ("checking_cancel", CancelPolled): (
        ("cancelled", _cancelled),
        *_SPENT,
        ("step_budget", Account.steps_spent),
    ),
    ("rechecking_cancel", CancelPolled): (
        ("cancelled", _cancelled),
        (None, _retry_left),
        ("time_budget", _timed_out),
        ("model_error", _failed),
        ("incomplete", _is(TRUNCATED)),
        ("refused", _is(REFUSED)),
        (None, _repair_left),
        ("malformed", _is(MALFORMED)),
        ("answered", _is(FINAL)),
        ("repeated_call", _repeated),
        ("unsupported_batch", _unsupported),
        ("stuck", _stuck),
        *_SPENT,
        ("call_budget", _over_budget),
    ),
    ("awaiting_approval", CancelRequested): (("cancelled", _cancelled),),
}

#: How a run of the tool-calling loop can end.
STATUSES: Constant = frozenset(status for gate in GATES.values() for status, _ in gate if status is not None)
