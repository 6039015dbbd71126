"""A run told step by step: as data, as lines, and why it stands where it stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from loopmachine import TOOL_LOOP, Budget, Definition, Loop, Row, State, advance, guards, requests, trace, updates
from loopmachine.events import (
    ApprovalGiven,
    CancelPolled,
    CancelRequested,
    Event,
    ModelFailed,
    ModelReplied,
    Resumed,
)
from loopmachine.records import Decision, Snapshot, Turn
from loopmachine.testing import snapshot as a_snapshot
from tests.drivers import DONE, call, calls
from tests.test_loop import BUDGET, ENDS, POLICY, RESTS, by_hand, ended, started, visit, visited

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
        "unpriced": 0,
        "unmetered": 0,
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


# --- of other tables --------------------------------------------------------------------------------------

OTHER = "other_"
#: The same machine with every state called otherwise.
RENAMED = Definition(
    OTHER + TOOL_LOOP.initial,
    {
        attrs.evolve(state, name=OTHER + state.name): [attrs.evolve(row, to=OTHER + row.to) for row in rows]
        for state, rows in TOOL_LOOP.table.items()
    },
    hear={OTHER + key if isinstance(key, str) else key: update for key, update in TOOL_LOOP.hear.items()},
)


def everything(loop: Loop) -> tuple[Any, ...]:
    """All that is told of a run, in the names of the tool loop."""
    result = loop.result()
    names = [one.replace(OTHER, "") for one in (str(result), result.explain())]
    return result.to_dict()["steps"], result.failed_calls, *(one.replace("finished_", "") for one in names)


@pytest.mark.parametrize("rest", RESTS)
def test_what_is_told_of_a_run_does_not_hang_on_the_names_of_its_states(rest: int) -> None:
    """Steps, failed calls, lines and explanation are the same, whatever the states are called."""
    renamed = visit(started(definition=RENAMED, system="be brief", policy=POLICY, budget=BUDGET), range(rest))
    assert everything(renamed) == everything(visited(rest))


@pytest.mark.parametrize("status", ENDS)
def test_what_is_told_of_every_end_does_not_hang_on_the_names_of_the_states(status: str) -> None:
    """At every end, too."""
    options, script = ENDS[status]
    renamed = started(definition=RENAMED, **options)
    if status == "cancelled":
        renamed.send(CancelPolled(True, "enough", at=1.0))
    assert everything(by_hand(renamed, *script)) == everything(ended(status))


def unreviewed(snapshot: Snapshot, event: Event) -> bool:
    """Nobody has looked at this turn again."""
    return sum(isinstance(one, ModelReplied) for one in snapshot.events) % 2 == 1


def reviewed(update: Callable[[Any, Any], Any] | None) -> Definition:
    """The tool loop, in which the model says each of its turns again, in a rest of its own."""
    reviewing = State("reviewing", "The model looks at what it said.", requests.ask_model)
    rows = [
        Row(ModelReplied, "rechecking_cancel", update=updates.keep_turn),
        Row(ModelFailed, "rechecking_cancel", update=updates.keep_failure),
        Row(CancelRequested, "reviewing", update=updates.remember_cancel),
        Row(Resumed, "reviewing"),
    ]
    return TOOL_LOOP.with_state(reviewing, rows).with_row(
        "validating", Row(None, "reviewing", unreviewed, update), at=8
    )


@pytest.mark.parametrize(("update", "counted"), [(updates.ask_with_tools, 4), (None, 2)], ids=["counted", "not"])
def test_every_rest_that_asks_the_model_brings_a_step(update: Any, counted: int) -> None:
    """Each with its own reply and its own calls, whether the rows count it or not: two may bear the same identity."""
    script = call("a", n=1), call("b", n=2), DONE | {"text": "draft"}, DONE
    loop = by_hand(started(definition=reviewed(update)), *script)
    steps = loop.result().to_dict()["steps"]
    assert [(one["step"], one["kind"], one["text"]) for one in steps] == [
        (1, "calls", ""),
        (2, "calls", ""),
        (3, "final", "draft"),
        (4, "final", "done"),
    ]
    told_of = [(one["id"], one["outcome"], one["content"], one["returned_at"]) for s in steps for one in s["calls"]]
    assert told_of == [("a", None, None, None), ("b", "ok", "2", 6.0)]
    assert [(one["asked_at"], one["replied_at"]) for one in steps] == [(1.0, 2.0), (3.0, 4.0), (7.0, 8.0), (9.0, 10.0)]
    assert loop.result().spend.steps == counted
    assert str(loop.result()).splitlines()[:6] == [
        "step 1  calls",
        "  look(n=1) -> not answered",
        "step 2  calls",
        "  look(n=2) -> ok: 2",
        "step 3  final: draft",
        "step 4  final: done",
    ]


def test_what_a_host_lost_in_any_rest_that_asks_the_model_is_told_as_unanswered() -> None:
    """The next host asks once more, in the same rest; a cancel told meanwhile asks nothing."""
    loop = by_hand(started(definition=reviewed(None)), DONE | {"text": "draft"})
    loop.send(Resumed(at=5.0))
    loop.send(CancelRequested("enough", at=6.0))
    loop.failed(ValueError("no key"), at=7.0)
    assert [(one["kind"], one["asked_at"]) for one in loop.result().to_dict()["steps"]] == [
        ("final", 1.0),
        ("unanswered", 3.0),
        ("failed", 5.0),
    ]


def test_calls_of_one_identity_are_told_with_their_own_results() -> None:
    """Where a table asks again without counting a step, each call of a place has what it brought, and when."""

    def asked_before(snapshot: Snapshot, event: Event) -> bool:
        """The model was asked."""
        return snapshot.steps >= 1

    uncounted = TOOL_LOOP.with_row("checking_budget", Row(None, "awaiting_model", asked_before), at=1)
    loop = by_hand(started(definition=uncounted), call("a", n=1), call("b", n=2), DONE)
    told_of = [one for step in loop.result().to_dict()["steps"] for one in step["calls"]]
    assert {one.key for one in loop.result().results} == {(1, 0)}
    assert [(one["id"], one["content"], one["returned_at"]) for one in told_of] == [("a", "1", 4.0), ("b", "2", 8.0)]


def test_a_cancel_that_gives_the_model_a_last_word_brings_a_step() -> None:
    """What a cancel leads to from elsewhere is asked."""
    parting = State("parting", "The model says goodbye.", requests.ask_model)
    rows = [Row(ModelReplied, "finished_cancelled", update=updates.keep_turn), Row(Resumed, "parting")]
    cancel = Row(CancelPolled, "parting", guards.cancel_requested)
    loop = started(definition=TOOL_LOOP.with_state(parting, rows).with_row("checking_cancel", cancel, at=1))
    loop.send(CancelPolled(True, at=1.0))
    loop.replied({"kind": "final", "text": "bye"}, at=2.0)
    assert [(one["text"], one["asked_at"]) for one in loop.result().to_dict()["steps"]] == [("bye", 1.0)]


@attrs.frozen
class Nudged(Event):
    """Somebody is tired of waiting."""

    at: float = attrs.field(kw_only=True)


@attrs.frozen
class Greeted(Event):
    """Somebody looked in."""

    at: float = attrs.field(kw_only=True)


def failed_for_now(snapshot: Snapshot, event: Any) -> bool:
    """The failure may pass."""
    return bool(event.retryable)


#: A table of a user's own: it asks the model at once, until it has an answer.
CHATTING = Definition(
    "listening",
    {
        State("listening", "The model has the word.", requests.ask_model): [
            Row(ModelReplied, "sorting", update=updates.keep_turn),
            Row(ModelFailed, "listening", failed_for_now),
            Row(ModelFailed, "finished_silent", update=updates.keep_failure),
            Row(Nudged, "sorting"),
            Row(Greeted, "listening"),
            Row(CancelRequested, "cutting", update=updates.remember_cancel),
            Row(Resumed, "listening"),
        ],
        State("cutting", "The model is to come to its end.", requests.ask_model): [
            Row(ModelReplied, "finished_silent", update=updates.keep_turn),
            Row(ModelFailed, "finished_silent", update=updates.keep_failure),
        ],
        State("sorting", "Was that an answer?", auto=True): [
            Row(None, "finished_said", guards.turn_final, updates.append_final),
            Row(None, "listening"),
        ],
        State("finished_said", "The model said something.", final="answered"): [],
        State("finished_silent", "Nothing will be said.", final="fault"): [],
    },
)


def chatted(*events: Callable[[Loop], Any]) -> Any:
    """What is told of a run of that table in which this happens."""
    loop = started(definition=CHATTING)
    for happens in events:
        happens(loop)
    return [(one["kind"], one["asked_at"], one.get("replied_at")) for one in loop.result().to_dict()["steps"]]


def test_a_run_that_begins_by_asking_the_model_has_a_first_step() -> None:
    """Nobody told when it was asked; what a reply without an answer leads to is the next step."""
    replies = [lambda loop: loop.replied(call("a"), at=1.0), lambda loop: loop.replied(DONE, at=2.0)]
    assert [chatted(*replies[:number]) for number in range(3)] == [
        [("unanswered", None, None)],
        [("calls", None, 1.0), ("unanswered", 1.0, None)],
        [("calls", None, 1.0), ("final", 1.0, 2.0)],
    ]


@pytest.mark.parametrize(
    ("happens", "steps"),
    [
        (Resumed(at=1.0), [("unanswered", None, None), ("failed", 1.0, 2.0)]),
        (Nudged(at=1.0), [("unanswered", None, None), ("failed", 1.0, 2.0)]),
        (ModelFailed("busy", retryable=True, at=1.0), [("failed", None, 1.0), ("failed", 1.0, 2.0)]),
        (CancelRequested(at=1.0), [("failed", None, 2.0)]),
        (Greeted(at=1.0), [("failed", None, 2.0)]),
    ],
    ids=["lost", "asked anew", "failed", "cut short", "nothing"],
)
def test_what_happens_while_the_model_is_asked_may_ask_it_anew(happens: Event, steps: Any) -> None:
    """Where the run goes round to it, it is another step; a cancel that leads to its end is none."""
    assert chatted(lambda loop: loop.send(happens), lambda loop: loop.failed(ValueError("no key"), at=2.0)) == steps


def test_an_end_of_the_users_own_is_told_as_any_other() -> None:
    """Its name, its row, and what led there."""
    result = by_hand(started(definition=CHATTING), DONE).result()
    assert (result.status, result.answered, result.text) == ("said", True, "done")
    assert str(result).splitlines()[:2] == ["step 1  final: done", "stop: said"]
    assert result.explain().splitlines()[0] == (
        f"finished_said, by sorting/1 [turn_final] held: {guards.turn_final.__doc__}"
    )


def test_a_run_from_a_snapshot_made_by_hand_is_told_from_there() -> None:
    """One that stands where the model is asked is in its first step."""
    reply = ModelReplied(Turn("done"), at=1.0)
    after = advance(TOOL_LOOP, a_snapshot("awaiting_model", steps=3), reply).snapshot
    assert [(one["step"], one["kind"], one["text"]) for one in trace.steps(TOOL_LOOP, after)] == [(1, "final", "done")]


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


HALF, MARK = "\ud83d", "\ufffd"


def test_half_a_character_is_printed_as_the_mark_of_one_that_is_missing() -> None:
    """Whoever wrote it, and wherever it is told; two halves that stand together are one character again."""
    loop = by_hand(
        started(),
        calls(call("a", f"look{HALF}") | {"arguments": f"n {HALF}"}, text=f"a {HALF}", stop=f"s{HALF}"),
        {"kind": "final", "text": f"b {HALF}\ude00 {HALF}"},
    )
    lines = told(loop).splitlines()
    assert lines[0] == f"step 1  calls (s{MARK}): a {MARK}"
    assert lines[1].startswith(f"  look{MARK}(n {MARK}) -> unknown_tool: ")
    assert lines[2] == f"step 2  final: b \U0001f600 {MARK}"
    cut = by_hand(started(), call("a", f"look{HALF}"), ValueError(f"c {HALF}"))
    cut_short = started()
    cut_short.send(CancelPolled(True, f"d {HALF}", at=1.0))
    assert [line for one in (cut, cut_short) for line in why(one) if MARK in line] == [
        f"the model failed with ValueError: c {MARK}",
        f"cancelled: d {MARK}",
    ]
    stopped = why(by_hand(started(budget=Budget(max_calls=1)), calls(call("a", f"look{HALF}"), call("b"))))
    assert f"it called look{MARK} as 'a'" in stopped[-1]
    for one in (loop, cut, cut_short):
        assert (told(one) + one.result().explain()).encode()


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


@pytest.mark.parametrize(
    ("cost", "limit", "seconds", "most", "said"),
    [
        (4e-7, 4e-7, 0.0003, 0.0003, "seconds 0.0003 of 0.0003, cost_usd 4e-07 of 4e-07"),
        (0.9999999, 1.0, 1.9999, 2.0, "seconds 1.9999 of 2.0, cost_usd 0.9999999 of 1.0"),
        (1.0, 1.0, 2.0, 2.0, "seconds 2.0 of 2.0, cost_usd 1.0 of 1.0"),
        (1.0000001, 1.0, 2.0001, 2.0, "seconds 2.0 of 2.0, cost_usd 1.0 of 1.0"),
    ],
)
def test_what_was_spent_is_told_as_the_guards_saw_it(
    cost: float, limit: float, seconds: float, most: float, said: str
) -> None:
    """A number that is rounded does not reach a limit that it did not reach, and reaches one that it did."""
    spent = a_snapshot(cost_usd=cost, clock=seconds, budget=Budget(max_cost_usd=limit, max_seconds=most))
    assert said in trace.spent(spent)
