"""The tool-calling loop: the whole truth. READ THIS FIRST.

The rows of a (state, event) are tried in order and the first whose guard holds is taken. The engine runs this
table, ``diagrams/loop.svg`` is this table, and the tests walk it. What the order means:

- final before cap: ``turn_final`` stands before every budget;
- a cancel wins, is looked for before and after the model and before each further grant, and sticks;
- a step is counted when the model is asked, a call when it is admitted;
- a turn with calls enters the history together with the results of all of them, or not at all.
"""

from __future__ import annotations

from loopmachine import guards, requests, updates
from loopmachine.definition import Definition, Row, State
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

_CHECKING_CANCEL = State(
    "checking_cancel", "Look for a cancel, immediately before the model is asked.", requests.poll_when_due
)
_CHECKING_BUDGET = State("checking_budget", "Look for a spent budget.", auto=True)
_AWAITING_MODEL = State("awaiting_model", "The model was asked.", requests.ask_model)
_RECHECKING_CANCEL = State(
    "rechecking_cancel", "Look for a cancel, immediately after the model or an approval.", requests.poll_now
)
_VALIDATING = State("validating", "Say what the step brought.", auto=True)
_ADMITTING = State("admitting", "Say whether the calls may run.", auto=True)
_DISPATCHING = State("dispatching", "Calls are running or queued.", requests.run_calls)
_COLLECTING = State("collecting", "See whether every call has its result.", auto=True)
_AWAITING_APPROVAL = State("awaiting_approval", "Somebody is to approve calls.", requests.ask_approval)
_AWAITING_RESOLUTION = State(
    "awaiting_resolution", "Somebody is to say what became of lost calls.", requests.resolve_calls
)

# Why a row stands before others of its state whose guards can hold at the same time.
_REPEATED = "with two calls of one id nobody can tell whose result is whose, so nothing else is looked at"
_BATCH = "what the policy never runs is refused before it is asked what there is left to run it with"
_STUCK = "that the run goes in a circle says more than that it spent its budget on it"
_TIME = "time runs out whatever else is known, and needs no report of the provider"
_USAGE = "what was not reported can not be compared with a limit"
_COST = "money is the limit that hurts most"
_TOKENS = "what is used up is named before what is asked for beyond it"
_STEPS = "a step to wrap up in has to be left"
_CALLS = "nobody is asked to approve what can not run"
_RETRY = "a failure that may pass ends the run only where it can not be tried again"
_TIMED_OUT = "a model cut short at the deadline failed for want of time"
_REPAIR = "a malformed turn ends the run only where it can not be answered"
_STOPPED = "once stopping, nothing is started again"

TOOL_LOOP = Definition(
    "checking_cancel",
    {
        _CHECKING_CANCEL: [
            Row(CancelPolled, "finished_cancelled", guards.cancel_requested, updates.remember_cancel),
            Row(CancelPolled, "checking_budget", happy=True),
            Row(Resumed, "checking_cancel"),
        ],
        _CHECKING_BUDGET: [
            Row(None, "finished_time_budget", guards.time_spent, first_because=_TIME),
            Row(None, "finished_usage_missing", guards.usage_missing, first_because=_USAGE),
            Row(None, "finished_cost_budget", guards.cost_spent, first_because=_COST),
            Row(None, "finished_token_budget", guards.tokens_spent, first_because=_TOKENS),
            Row(None, "finished_step_budget", guards.steps_spent, first_because=_STEPS),
            Row(None, "awaiting_model", guards.wrap_up_due, updates.ask_without_tools),
            Row(None, "awaiting_model", update=updates.ask_with_tools, happy=True),
        ],
        _AWAITING_MODEL: [
            Row(ModelReplied, "rechecking_cancel", update=updates.keep_turn, happy=True),
            Row(ModelFailed, "rechecking_cancel", update=updates.keep_failure),
            Row(CancelRequested, "awaiting_model", update=updates.remember_cancel),
            Row(Resumed, "checking_cancel"),
        ],
        _RECHECKING_CANCEL: [
            Row(CancelPolled, "finished_cancelled", guards.cancel_requested, updates.remember_cancel),
            Row(CancelPolled, "validating", happy=True),
            Row(Resumed, "rechecking_cancel"),
        ],
        _VALIDATING: [
            Row(None, "checking_cancel", guards.retry_left, updates.count_retry, first_because=_RETRY),
            Row(None, "finished_time_budget", guards.model_timed_out, first_because=_TIMED_OUT),
            Row(None, "finished_model_error", guards.model_failed),
            Row(None, "finished_incomplete", guards.turn_truncated),
            Row(None, "finished_refused", guards.turn_refused),
            Row(None, "checking_cancel", guards.repair_left, updates.append_note, first_because=_REPAIR),
            Row(None, "finished_malformed", guards.turn_malformed),
            Row(None, "finished_answered", guards.turn_final, updates.append_final, happy=True),
            Row(None, "admitting", happy=True),
        ],
        _ADMITTING: [
            Row(None, "finished_repeated_call", guards.call_repeated, first_because=_REPEATED),
            Row(None, "finished_unsupported_batch", guards.batch_unsupported, first_because=_BATCH),
            Row(None, "finished_stuck", guards.calls_stuck, first_because=_STUCK),
            Row(None, "finished_time_budget", guards.time_spent, first_because=_TIME),
            Row(None, "finished_usage_missing", guards.usage_missing, first_because=_USAGE),
            Row(None, "finished_cost_budget", guards.cost_spent, first_because=_COST),
            Row(None, "finished_token_budget", guards.tokens_spent, first_because=_TOKENS),
            Row(None, "finished_call_budget", guards.calls_over_budget, first_because=_CALLS),
            Row(None, "awaiting_approval", guards.approval_needed),
            Row(None, "collecting", update=updates.admit, happy=True),
        ],
        _COLLECTING: [
            Row(None, "awaiting_resolution", guards.calls_lost),
            Row(None, "dispatching", guards.calls_open, happy=True),
            Row(None, "checking_cancel", update=updates.append_exchange, happy=True),
        ],
        _DISPATCHING: [
            Row(CallReturned, "collecting", guards.stopping, updates.record_and_close),
            Row(CallReturned, "collecting", update=updates.record, happy=True),
            Row(CallLost, "collecting", guards.stopping, updates.answer_lost_and_close, first_because=_STOPPED),
            Row(CallLost, "collecting", guards.rerun_safe, updates.requeue_lost),
            Row(CallLost, "collecting", update=updates.mark_lost),
            Row(CancelPolled, "collecting", guards.stopping, updates.poll_and_close),
            Row(CancelPolled, "collecting", update=updates.start_queued, happy=True),
            Row(CancelRequested, "collecting", update=updates.cancel_and_close),
            Row(Resumed, "collecting", guards.stopping, updates.abandon_running),
            Row(Resumed, "collecting", update=updates.resume_running),
        ],
        _AWAITING_APPROVAL: [
            Row(ApprovalGiven, "rechecking_cancel", update=updates.keep_decisions),
            Row(CancelRequested, "finished_cancelled", update=updates.remember_cancel),
            Row(Resumed, "rechecking_cancel"),
        ],
        _AWAITING_RESOLUTION: [
            Row(CallsResolved, "collecting", update=updates.resolve),
            Row(CancelRequested, "collecting", update=updates.cancel_and_close),
            Row(Resumed, "awaiting_resolution"),
        ],
        State("finished_answered", "The model gave its answer.", final="answered"): [],
        State("finished_cancelled", "Somebody cancelled the run.", final="limit"): [],
        State("finished_step_budget", "The model was asked as often as the budget permits.", final="limit"): [],
        State("finished_call_budget", "The model asked for more calls than the budget permits.", final="limit"): [],
        State("finished_time_budget", "The seconds of the budget are spent.", final="limit"): [],
        State("finished_cost_budget", "The dollars of the budget are spent.", final="limit"): [],
        State("finished_token_budget", "The tokens of the budget are spent.", final="limit"): [],
        State("finished_usage_missing", "A budget can't be kept: usage was not reported.", final="limit"): [],
        State("finished_repeated_call", "A call bore an id that was used before.", final="fault"): [],
        State(
            "finished_unsupported_batch", "More than one call in a turn, and the policy rejects that.", final="fault"
        ): [],
        State("finished_stuck", "The same calls brought the same results too often.", final="fault"): [],
        State("finished_malformed", "The model's reply can't be used.", final="fault"): [],
        State("finished_incomplete", "The model's reply was cut by its length.", final="fault"): [],
        State("finished_refused", "The model or a filter refused.", final="fault"): [],
        State("finished_model_error", "Asking the model failed.", final="fault"): [],
    },
    # What these events bring whichever row they take: time that the run does not count.
    hear={
        Resumed: updates.restart_clock,
        "awaiting_approval": updates.discount_wait,
        "awaiting_resolution": updates.discount_wait,
    },
)
