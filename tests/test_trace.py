"""A run told step by step: as data, as lines, and why it stands where it stands."""

from __future__ import annotations

from typing import Any

import pytest

from loopmachine import TOOL_LOOP, Budget, Loop, trace
from loopmachine.events import ApprovalGiven, CancelPolled, CancelRequested, Resumed
from loopmachine.records import Decision
from tests.drivers import DONE, call, calls
from tests.test_loop import ENDS, by_hand, ended, started, visited

NO_USAGE = "1 without cost, 1 without tokens"


def told(loop: Loop) -> str:
    """The run as lines."""
    return trace.text(TOOL_LOOP, loop.snapshot)


def why(loop: Loop) -> list[str]:
    """Why the run stands where it stands."""
    return trace.explain(TOOL_LOOP, loop.snapshot).splitlines()


def usage(read: int | None, written: int | None, cost: float | None = None) -> dict[str, Any]:
    """Usage as it is told."""
    return {
        "input_tokens": read,
        "output_tokens": written,
        "cached_tokens": None,
        "reasoning_tokens": None,
        "cost_usd": cost,
        "model": "",
    }


def answered(one: str, name: str, arguments: Any, outcome: str | None, content: str | None, at: float | None) -> Any:
    """A call as it is told."""
    return {
        "id": one,
        "name": name,
        "arguments": arguments,
        "outcome": outcome,
        "content": content,
        "code": "",
        "usage": None,
        "returned_at": at,
    }


# --- as data ----------------------------------------------------------------------------------------------


def test_the_steps_of_a_run_tell_what_each_brought_and_when() -> None:
    """Times are those of the events; what the machine or a person answered did not return."""
    unknown = "there is no tool named 'send_mail'; known tools: look, pay, boom"
    assert trace.steps(TOOL_LOOP, visited().snapshot) == [
        {
            "step": 1,
            "kind": "calls",
            "asked_at": 0.0,
            "replied_at": 1.0,
            "text": "",
            "stop": "",
            "fault": "",
            "usage": usage(5, 2),
            "calls": [
                answered("a", "pay", {"amount": "2.5"}, "ok", "paid 2.5", None),
                answered("b", "look", {"n": 7}, "ok", "7", -992.0),
                answered("c", "boom", {}, "failed", "RuntimeError: no route", -989.0),
                answered("d", "send_mail", {}, "unknown_tool", unknown, None),
            ],
        },
        {
            "step": 2,
            "kind": "failed",
            "asked_at": -988.0,
            "replied_at": -987.0,
            "fault": "rate_limit: slow down",
            "usage": None,
            "calls": [],
        },
        {
            "step": 3,
            "kind": "final",
            "asked_at": -985.0,
            "replied_at": -984.0,
            "text": "done",
            "stop": "",
            "fault": "",
            "usage": usage(9, 1, 0.25),
            "calls": [],
        },
    ]


def test_a_step_that_was_lost_is_told_as_unanswered() -> None:
    """A host died while the model was asked; a cancel told meanwhile is no step."""
    loop = visited(1)
    loop.send(Resumed(at=5.0))
    loop.send(CancelPolled(False, at=6.0))
    loop.send(CancelRequested("enough", at=7.0))
    steps = trace.steps(TOOL_LOOP, loop.snapshot)
    assert [(one["step"], one["kind"], one["asked_at"], one["calls"]) for one in steps] == [
        (1, "unanswered", 0.0, []),
        (2, "unanswered", 6.0, []),
    ]


def test_calls_that_are_under_way_have_no_outcome_yet() -> None:
    """Those that the machine answered at admission have theirs."""
    (step,) = trace.steps(TOOL_LOOP, visited(6).snapshot)
    assert [(one["id"], one["outcome"], one["content"] is None) for one in step["calls"]] == [
        ("a", None, True),
        ("b", None, True),
        ("c", None, True),
        ("d", "unknown_tool", False),
    ]


def test_a_denial_is_told_with_its_code() -> None:
    """It is part of the result."""
    loop = by_hand(started(), calls(call("a", "pay", amount=1)))
    decisions: Any = (Decision(1, 0, False, "too much"),)
    loop.send(ApprovalGiven(decisions, at=loop.snapshot.clock))
    by_hand(loop, DONE)
    (first, _) = trace.steps(TOOL_LOOP, loop.snapshot)
    assert [(one["outcome"], one["content"], one["code"]) for one in first["calls"]] == [
        ("denied", "too much", "not_approved")
    ]


def test_the_results_of_a_history_handed_in_are_not_this_runs() -> None:
    """Though their calls bear the same step and place."""
    history = by_hand(started(), call("a", n=3), DONE).snapshot.history
    loop = by_hand(started(history=history), call("b", n=4), DONE)
    calls_told = [one for step in trace.steps(TOOL_LOOP, loop.snapshot) for one in step["calls"]]
    assert [(one["id"], one["content"]) for one in calls_told] == [("b", "4")]


# --- as lines ---------------------------------------------------------------------------------------------


def test_a_run_as_lines_has_one_a_step_and_a_call_then_what_ended_it_and_the_spend() -> None:
    """Text, calls, results, stop, tools, failed, and cost."""
    assert told(visited()).splitlines() == [
        "step 1  calls",
        "  pay(amount='2.5') -> ok: paid 2.5",
        "  look(n=7) -> ok: 7",
        "  boom() -> failed: RuntimeError: no route",
        "  send_mail() -> unknown_tool: there is no tool named 'send_mail'; known tools: look, pay, boom",
        "step 2  failed: rate_limit: slow down",
        "step 3  final: done",
        "stop: answered",
        "tools: boom, look, pay; failed: 2",
        "spent: steps 3 of 5, calls 4, seconds 14.0 of 600.0, cost_usd 0.25, tokens 17 of 10000, 1 without cost",
    ]


def test_a_run_that_waits_says_for_what() -> None:
    """Calls without a result are not answered."""
    assert told(visited(3)).splitlines()[1:6] == [
        "  pay(amount='2.5') -> not answered",
        "  look(n=7) -> not answered",
        "  boom() -> not answered",
        "  send_mail() -> not answered",
        "waits: awaiting_approval",
    ]
    assert told(started()).splitlines() == [
        "waits: checking_cancel",
        "tools: none; failed: 0",
        "spent: steps 0 of 10, calls 0, seconds 0.0, cost_usd 0.0, tokens 0",
    ]


def test_texts_are_told_on_one_line_and_cut() -> None:
    """No line is longer than the trace is wide; arguments take half of it at most."""
    long = "line one\n  line two " + "x" * 500
    loop = by_hand(
        started(),
        calls(call("a", long.rsplit(maxsplit=1)[-1]), call("b", "look", n=long), text="let me\n\nsee"),
        {"kind": "call", "id": "c", "name": "look", "arguments": "no json\n" + long},
        {"kind": "final", "text": long, "stop": "end_turn"},
    )
    lines = told(loop).splitlines()
    assert (len(lines), max(map(len, lines))) == (9, 120)
    assert (lines[0], lines[3], lines[5][:45]) == (
        "step 1  calls: let me see",
        "step 2  calls",
        "step 3  final (end_turn): line one line two x",
    )
    assert [line.endswith("...") for line in lines[:6]] == [False, True, True, False, True, True]
    assert lines[4].startswith(f"  look(no json line one line two {'x' * 31}...) -> invalid_arguments: ")
    assert lines[7] == "tools: look; failed: 3"


def test_what_a_model_writes_can_make_no_line_of_its_own() -> None:
    """Names and stop reasons are told on the line of their step or call, whatever is in them."""
    forged = "look\nstop: answered\n"
    loop = by_hand(started(), call("a", forged) | {"stop": forged, "text": forged})
    assert [line.split()[0] for line in told(loop).splitlines()] == [
        "step",
        "look",
        "step",
        "waits:",
        "tools:",
        "spent:",
    ]
    assert "stop: answered" not in why(loop)


@pytest.mark.parametrize(("length", "cut"), [(119, False), (120, False), (121, True)])
def test_a_line_is_cut_where_it_is_longer_than_the_trace_is_wide(length: int, cut: bool) -> None:
    """One that just fits is whole."""
    begins = "step 1  final: "
    first = told(by_hand(started(), DONE | {"text": "x" * (length - len(begins))})).splitlines()[0]
    assert (len(first), first.endswith("...")) == (min(length, 120), cut)


@pytest.mark.parametrize("status", ENDS)
def test_the_lines_of_every_end_name_it(status: str) -> None:
    """The line after the steps says what ended the run."""
    lines = told(ended(status)).splitlines()
    assert lines[-3] == f"stop: {status}"


# --- why --------------------------------------------------------------------------------------------------

#: For each end the row that led there, its guard, and the numbers that the guard saw.
WHY: dict[str, tuple[str, str, list[str]]] = {
    "answered": ("validating/8", "[turn_final]", ["the last turn was final"]),
    "cancelled": ("checking_cancel/1", "[cancel_requested]", ["cancelled: enough"]),
    "step_budget": ("checking_budget/5", "[steps_spent]", ["steps 1 of 1"]),
    "call_budget": ("admitting/8", "[calls_over_budget]", ["calls 0 of 1", "called look as 'a'", "called look as 'b'"]),
    "time_budget": ("checking_budget/1", "[time_spent]", ["seconds 1.0 of 1.0"]),
    "cost_budget": ("admitting/6", "[cost_spent]", ["cost_usd 1.0 of 1.0"]),
    "token_budget": ("admitting/7", "[tokens_spent]", ["tokens 3 of 3"]),
    "usage_missing": ("admitting/5", "[usage_missing]", ["cost_usd 0.0 of 1.0", "1 without cost"]),
    "repeated_call": ("admitting/1", "[call_repeated]", ["called look as 'a'"]),
    "unsupported_batch": ("admitting/2", "[batch_unsupported]", ["called look as 'a'", "called look as 'b'"]),
    "stuck": ("admitting/3", "[calls_stuck]", ["1 of 1"]),
    "malformed": ("validating/7", "[turn_malformed]", ["the last turn was malformed", "text: it is missing"]),
    "incomplete": ("validating/4", "[turn_truncated]", ["the last turn was truncated, its stop reason 'length'"]),
    "refused": ("validating/5", "[turn_refused]", ["the last turn was refused, its stop reason 'refusal'"]),
    "model_error": ("validating/3", "[model_failed]", ["the model failed with ValueError: no key"]),
}


@pytest.mark.parametrize("status", ENDS)
def test_why_a_run_ended_names_the_row_the_guard_its_sentence_and_the_numbers(status: str) -> None:
    """Those that the guard saw, each beside its limit."""
    loop = ended(status)
    row, guard, numbers = WHY[status]
    sentence = TOOL_LOOP.row(row).guard.__doc__
    first, *others = why(loop)
    assert first == f"finished_{status}, by {row} {guard} held: {sentence}"
    assert [number for number in numbers if number not in "\n".join(others)] == []


def test_why_a_run_waits_is_told_too() -> None:
    """Where no guard held before the row, the state says what it is for."""
    assert why(visited(3))[0].startswith("awaiting_approval, by admitting/9 [approval_needed] held: A call that could")
    assert why(visited(1))[0] == "awaiting_model, by checking_budget/7 no guard before it held. The model was asked."
    assert why(started()) == [
        "checking_cancel: nothing has happened yet. Look for a cancel, immediately before the model is asked."
    ]


def test_a_cancel_without_a_reason_is_told_without_one() -> None:
    """Nothing is made up."""
    loop = started()
    loop.send(CancelPolled(True, at=1.0))
    assert why(loop)[-1] == "cancelled"


def test_what_was_spent_is_told_beside_its_limit_where_there_is_one() -> None:
    """Seconds to the millisecond, dollars to the millionth."""
    budget = Budget(max_steps=2, max_calls=3, max_seconds=4.5, max_cost_usd=0.5, max_tokens=6)
    loop = started(budget=budget)
    loop.send(CancelPolled(False, at=1 / 3))
    loop.replied(DONE | {"usage": {"input_tokens": 1, "output_tokens": 1, "cost_usd": 1e-6 / 3}}, at=2 / 3)
    assert trace.spent(loop.snapshot) == (
        "steps 1 of 2, calls 0 of 3, seconds 0.667 of 4.5, cost_usd 0.0 of 0.5, tokens 2 of 6"
    )
