"""A sub-run as a tool: what it may spend, what it spent, and how it ended, told truthfully to its parent."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from typing import Any

import attrs
import pytest

from loopmachine import (
    OPENAI_CHAT,
    TOOL_LOOP,
    Budget,
    Call,
    Context,
    Definition,
    Loop,
    Policy,
    Result,
    Row,
    Snapshot,
    Spend,
    State,
    Tool,
    Usage,
    loop_tool,
    run,
    run_async,
    tool,
)
from loopmachine.async_host import DEADLINE, STOPPED
from loopmachine.errors import InvalidTool, ToolInterrupted
from loopmachine.events import CallReturned, CancelPolled, CancelRequested, Event
from loopmachine.machine import Advance
from loopmachine.notices import Progress
from loopmachine.requests import AskModel, Request, StartCalls
from loopmachine.review.moves import moves
from loopmachine.review.promises import broken
from tests.drivers import (
    ASYNC_TASKS,
    ASYNC_THREADS,
    DONE,
    DRIVERS,
    GO,
    THREADS,
    Driver,
    Stage,
    Told,
    Words,
    as_task,
    brought,
    call,
    calls,
    everywhere,
    spent,
)

USED: dict[str, Any] = {"usage": {"input_tokens": 60, "output_tokens": 40, "cost_usd": 0.5}}
ONE_STEP = Usage(input_tokens=60, output_tokens=40, cost_usd=0.5)
NOTHING = Usage(input_tokens=0, output_tokens=0, cached_tokens=0, reasoning_tokens=0, cost_usd=0.0)
FOUND = {"kind": "final", "text": "It is Ada."}
ASK = call("r1", "research", prompt="who?")


def scripted(stage: Stage, name: str, *script: Any) -> Any:
    """A model of one argument that gives these replies in order and logs what it was told last."""
    replies = iter(script)

    def model(messages: Any) -> Any:
        stage.effects.append((name, messages[-1].get("text") or messages[-1].get("content")))
        reply = next(replies)
        reply = reply() if callable(reply) else reply
        if isinstance(reply, BaseException):
            raise reply
        return reply

    return as_task(model) if stage.driver.tasks else model


def sub(stage: Stage, *script: Any, name: str = "research", **options: Any) -> Tool:
    """A sub-run whose model says these replies, on the driver of the stage."""
    return loop_tool(scripted(stage, name, *script), name, "Look something up.", **options)


def looks(stage: Stage) -> list[Tool]:
    """The tool of the stage that looks."""
    return stage.tools()[:1]


def outcome(result: Result) -> tuple[str, list[tuple[str, str, str]], Spend]:
    """How a run ended, what its calls brought (name, outcome, code), and what it spent but for seconds.

    No move of it breaks a promise.
    """
    played = moves(result.definition, result.loop._start, result.snapshot.events)
    assert [found for move in played if (found := broken(move))] == []
    called = [(one.name, one.outcome, one.code) for one in result.results]
    return result.status, called, attrs.evolve(result.spend, seconds=0.0)


# --- it answers -----------------------------------------------------------------------------------------------


def test_the_answer_is_the_result_and_what_it_cost_is_spent_from_the_parent() -> None:
    """The child is told the prompt alone; its turns are one usage in the parent's record, which a replay spends too."""

    def scene(stage: Stage) -> Any:
        child = sub(stage, call("c1") | USED, FOUND | USED, tools=looks(stage))
        result = stage.run(ASK | USED, DONE | USED, tools=[child])
        told = [event.usage for event in result.snapshot.events if isinstance(event, CallReturned)]
        again = Loop.from_json(result.loop.to_json(), tools=[child]).result()
        shown = result.to_dict()["steps"][0]["calls"][0]["usage"]
        return stage.told(result), told, [one.usage for one in result.results], shown, again.spend == result.spend

    both = Usage(input_tokens=120, output_tokens=80, cost_usd=1.0)
    assert everywhere(scene) == (
        Told(
            "answered",
            Spend(steps=2, calls=1, cost_usd=2.0, tokens=400),
            [GO, ASK, brought("r1", "It is Ada."), DONE],
            [("research", "who?"), "look 1", ("research", "1")],
        ),
        [both],
        [both],
        attrs.asdict(both),
        True,
    )


def test_wire_and_system_are_its_own() -> None:
    """Whatever shape the parent speaks."""
    given: list[Any] = []

    def model(messages: Any, tools: Any) -> Any:
        given.append((messages, tools))
        return {"choices": [{"message": {"role": "assistant", "content": "It is Ada."}, "finish_reason": "stop"}]}

    child = loop_tool(model, "research", "Look something up.", wire=OPENAI_CHAT, system="Be brief.")
    result = Stage(THREADS).run(ASK, DONE, tools=[child])
    system = {"role": "system", "content": "Be brief."}
    assert (result.results[0].content, given) == ("It is Ada.", [([system, {"role": "user", "content": "who?"}], [])])


def test_a_prompt_without_words_never_reaches_it() -> None:
    """It is an invalid argument, of which nothing is spent."""

    def scene(stage: Stage) -> Any:
        asked = [call("r1", "research", prompt=" \n"), call("r2", "research")]
        result = stage.run(*asked, DONE, tools=[sub(stage, FOUND)])
        return outcome(result), stage.effects, [one.usage for one in result.results]

    invalid = ("research", "invalid_arguments", "")
    assert everywhere(scene) == (("answered", [invalid, invalid], spent(3, 2)), [], [None, None])


def test_it_runs_alone() -> None:
    """What was asked before it has ended when it begins, and what was asked after it begins when it has ended."""

    def scene(stage: Stage) -> Any:
        child = sub(stage, call("c1", n=2), FOUND, tools=looks(stage))
        stage.run(calls(call("a"), ASK, call("b", n=3)), DONE, tools=[*looks(stage), child])
        return stage.effects

    assert everywhere(scene) == ["look 1", ("research", "who?"), "look 2", ("research", "2"), "look 3"]


def test_its_tools_get_what_the_caller_gave_the_parent_and_its_clock() -> None:
    """Who is asking and what they may touch holds for whatever is done in their name."""

    def scene(stage: Stage) -> Any:
        seen: list[Any] = []

        @tool
        def who(ctx: Context) -> str:
            """Say who asks."""
            seen.extend([ctx.data, ctx.deadline, ctx.clock(), ctx.cancel(), ctx.cancel])
            return "Ada"

        stage.now = 3.0
        child = sub(stage, call("c1", "who"), FOUND, tools=stage.driver.tools([who]))
        stage.run(
            ASK, DONE, tools=[child], context="Ada", cancel=stage.token, clock=stage.clock, budget=Budget(max_seconds=9)
        )
        stage.token.cancel("enough")
        cancel = seen.pop()
        return [*seen, cancel.reason]

    assert everywhere(scene) == ["Ada", 12.0, 3.0, False, "enough"]


def test_each_step_of_it_is_progress_to_the_observer_of_the_parent() -> None:
    """How many of its steps are done, and the tools that the latest one asked for; its own observer gets the rest."""

    def scene(stage: Stage) -> Any:
        outer: list[Any] = []
        inner: list[Any] = []
        child = sub(stage, call("c1"), FOUND, tools=looks(stage), budget=Budget(max_steps=7), observe=inner.append)
        stage.run(ASK, DONE, tools=[child], observe=outer.append)
        progress = [(one.call.id, one.done, one.total, one.text) for one in outer if isinstance(one, Progress)]
        advances = [one for one in inner if isinstance(one, Advance)]
        return progress, advances[-1].snapshot.state, len(inner) - len(advances)

    told = [("r1", 1, 7, "look"), ("r1", 2, 7, "")]
    assert everywhere(scene) == (told, "finished_answered", 0)


def test_what_its_price_warns_of_is_told_its_observer_or_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A price list that raises is no reason to be silent."""

    def price(usage: Usage) -> float:
        raise LookupError("no such model")

    noticed: list[Any] = []
    for observe in (noticed.append, None):
        stage = Stage(THREADS)
        tokens = {"usage": {"input_tokens": 1, "output_tokens": 1}}
        stage.run(ASK, DONE, tools=[sub(stage, FOUND | tokens, price=price, observe=observe)])
    warned: Any = [one.text for one in noticed if not isinstance(one, Advance)]
    logged: Any = [(one.message, one.levelno) for one in caplog.records]
    warning = Words("price", "no such model")
    assert (warned, logged) == ([warning], [(warning, logging.WARNING)])


# --- what it may spend ----------------------------------------------------------------------------------------

PARENTS = Budget(max_steps=4, max_calls=2, max_seconds=10.0, max_cost_usd=2.0, max_tokens=300)
LEFT: dict[str, Any] = {"max_seconds": 6.0, "max_cost_usd": 1.5, "max_tokens": 200}
MORE: dict[str, Any] = {"max_seconds": 60.0, "max_cost_usd": 15.0, "max_tokens": 2000}
LESS: dict[str, Any] = {"max_seconds": 0.5, "max_cost_usd": 0.25, "max_tokens": 20}


@pytest.mark.parametrize(
    ("own", "parents", "given"),
    [
        (None, PARENTS, Budget(**LEFT)),
        (Budget(max_steps=50, max_calls=9, **MORE), PARENTS, Budget(max_steps=50, max_calls=9, **LEFT)),
        (Budget(max_steps=1, **LESS), PARENTS, Budget(max_steps=1, **LESS)),
        (Budget(**LESS), None, Budget(**LESS)),
        (None, None, Budget()),
    ],
    ids=["none of its own", "more than is left", "less than is left", "a parent without limits", "no limits"],
)
def test_its_limits_are_never_above_what_the_parent_has_left(
    own: Budget | None, parents: Budget | None, given: Budget
) -> None:
    """Time, dollars and tokens are; its steps and calls are its own."""

    def scene(stage: Stage) -> Any:
        def later(*_: Any) -> Any:
            stage.now += 4.0
            return ASK | USED

        seen: list[Any] = []
        child = sub(stage, FOUND | USED, budget=own, observe=lambda notice: seen.append(notice.snapshot.budget))
        stage.run(later, DONE | USED, tools=[child], budget=parents, clock=stage.clock)
        return list(dict.fromkeys(seen))

    assert everywhere(scene) == [given]


COSTLY: dict[str, Any] = {"usage": {"input_tokens": 60, "output_tokens": 40, "cost_usd": 1.0}}


@pytest.mark.parametrize(
    ("budget", "status"),
    [(Budget(max_cost_usd=2.5), "cost_budget"), (Budget(max_tokens=250), "token_budget")],
    ids=["dollars", "tokens"],
)
def test_what_the_parent_has_left_ends_both(budget: Budget, status: str) -> None:
    """The child stops where the parent's budget is spent, though it has none of its own, and then the parent does."""

    def scene(stage: Stage) -> Any:
        child = sub(stage, call("c1") | COSTLY, call("c2") | COSTLY, FOUND, tools=looks(stage))
        result = stage.run(calls(ASK, call("after")) | COSTLY, tools=[*looks(stage), child], budget=budget)
        return outcome(result), stage.effects

    assert everywhere(scene) == (
        (
            status,
            [("research", "failed", status), ("look", "not_started", "")],
            Spend(steps=1, calls=2, cost_usd=3.0, tokens=300),
        ),
        [("research", "who?"), "look 1", ("research", "1")],
    )


def test_what_the_parent_has_left_is_told_to_as_many_digits_as_costs_are() -> None:
    """In floats 0.8 - 0.1 is more than 0.7, and a sub-run that spends 0.7 would go on."""

    def scene(stage: Stage) -> Any:
        child = sub(stage, call("c1") | {"usage": {"cost_usd": 0.7}}, FOUND, tools=looks(stage))
        result = stage.run(ASK | {"usage": {"cost_usd": 0.1}}, tools=[child], budget=Budget(max_cost_usd=0.8))
        return outcome(result)[:2], result.spend.cost_usd, stage.effects

    assert everywhere(scene) == (
        ("cost_budget", [("research", "failed", "cost_budget")]),
        0.8,
        [("research", "who?")],
    )


@pytest.mark.parametrize(
    ("budget", "told"),
    [
        (Budget(max_cost_usd=9.0), {"input_tokens": 60, "output_tokens": 40}),
        (Budget(max_tokens=900), {"cost_usd": 0.5}),
    ],
    ids=["no cost", "no tokens"],
)
def test_usage_that_it_does_not_report_and_the_parents_budget_needs_ends_both(budget: Budget, told: Any) -> None:
    """It is never taken for zero: neither in the child, which calls no tool any more, nor in the parent."""

    def scene(stage: Stage) -> Any:
        child = sub(stage, call("c1") | {"usage": told}, FOUND, tools=looks(stage))
        result = stage.run(ASK | USED, tools=[child], budget=budget)
        return result.status, outcome(result)[1], result.spend.unpriced, result.spend.unmetered, stage.effects

    cost, tokens = "cost_usd" not in told, "input_tokens" not in told
    missing = ("research", "failed", "usage_missing")
    assert everywhere(scene) == ("usage_missing", [missing], cost, tokens, [("research", "who?")])


def test_an_answer_without_usage_is_kept_and_ends_the_parent() -> None:
    """What was received is accepted, and nothing more is asked where nobody knows what it cost."""

    def scene(stage: Stage) -> Any:
        result = stage.run(ASK | USED, tools=[sub(stage, FOUND)], budget=Budget(max_cost_usd=9.0))
        return outcome(result), result.results[0].content, [one.usage for one in result.results]

    known = Spend(steps=1, calls=1, cost_usd=0.5, tokens=100, unpriced=1, unmetered=1)
    ended = ("usage_missing", [("research", "ok", "")], known)
    assert everywhere(scene) == (ended, "It is Ada.", [Usage()])


def test_usage_that_is_missing_and_no_budget_needs_harms_nobody() -> None:
    """What is known of a sub-run is spent, and its steps that told nothing count among those."""

    def scene(stage: Stage) -> Any:
        child = sub(stage, call("c1"), FOUND | USED, tools=looks(stage))
        return outcome(stage.run(ASK | USED, DONE | USED, tools=[child]))

    known = Spend(steps=2, calls=1, cost_usd=1.5, tokens=300, unpriced=1, unmetered=1)
    assert everywhere(scene) == ("answered", [("research", "ok", "")], known)


def test_a_price_list_of_its_own_says_what_it_cost() -> None:
    """Its model may be another than the parent's."""

    def scene(stage: Stage) -> Any:
        tokens = {"usage": {"input_tokens": 60, "output_tokens": 40, "model": "small"}}
        child = sub(stage, call("c1") | tokens, FOUND | tokens, tools=looks(stage), price=lambda usage: 0.25)
        return stage.run(ASK | USED, DONE | USED, tools=[child]).results[0].usage

    assert everywhere(scene) == Usage(input_tokens=120, output_tokens=80, cost_usd=0.5, model="small")


@pytest.mark.parametrize(
    ("own", "cost"),
    [(None, 3.0), (lambda usage: None, 3.0), (lambda usage: 0.25, 0.75)],
    ids=["no price of its own", "one that knows nothing", "one of its own"],
)
def test_what_its_own_price_does_not_know_is_priced_by_the_parents(own: Any, cost: float) -> None:
    """Its turns and what its tools tell, on every level, before a budget looks at them."""
    tokens = Usage(input_tokens=60, output_tokens=40, model="small")

    def scene(stage: Stage) -> Any:
        @tool
        def tell(ctx: Context) -> None:
            """Tell."""
            ctx.add_usage(tokens)

        told = {"usage": tokens}
        inner = sub(stage, call("c1", "tell") | told, FOUND | told, name="inner", tools=stage.driver.tools([tell]))
        child = sub(stage, call("c2", "inner", prompt="who?") | USED, FOUND | USED, tools=[inner], price=own)
        options: Any = {"budget": Budget(max_cost_usd=9.0), "price": lambda usage: 1.0}
        return outcome(stage.run(ASK | USED, DONE | USED, tools=[child], **options))

    known = Spend(steps=2, calls=1, cost_usd=2.0 + cost, tokens=700)
    assert everywhere(scene) == ("answered", [("research", "ok", "")], known)


def test_usage_that_it_does_not_report_has_no_price() -> None:
    """Nobody is asked what nothing costs: it is unknown, as that of a turn of the parent is."""

    def scene(stage: Stage) -> Any:
        asked: list[Usage] = []
        options: Any = {"budget": Budget(max_cost_usd=9.0), "price": asked.append}
        return stage.run(ASK | USED, tools=[sub(stage, FOUND)], **options).status, asked

    assert everywhere(scene) == ("usage_missing", [])


def test_nothing_is_begun_when_nothing_is_left() -> None:
    """The time may be spent between the grant and the call; the handler says so, and asks no model."""
    child = sub(Stage(THREADS), FOUND)
    late = Context(budget=Budget(max_seconds=5), spend=lambda: Spend(seconds=5.0))
    with pytest.raises(ToolInterrupted, match=r"^research was not begun: max_seconds 5, spent 5\.0$") as raised:
        child("who?", late)
    assert raised.value.code == "not_begun"


def test_called_by_hand_it_runs_within_its_own_budget() -> None:
    """As any tool can be tested without a run."""
    assert sub(Stage(THREADS), FOUND)("who?", Context(data="Ada")) == "It is Ada."


# --- sub-runs of sub-runs -------------------------------------------------------------------------------------


def test_limits_and_spend_pass_through_every_level() -> None:
    """The innermost is limited by what everybody above has left, and everybody above pays for it."""

    def scene(stage: Stage) -> Any:
        seen: dict[str, set[Any]] = {"a": set(), "b": set(), "c": set()}

        def watched(name: str) -> Any:
            return lambda notice: seen[name].add(
                (notice.snapshot.budget.max_cost_usd, notice.snapshot.budget.max_tokens)
            )

        def under(name: str) -> Any:
            return call(f"to_{name}", name, prompt="who?") | USED

        c = sub(stage, FOUND | USED, name="c", observe=watched("c"))
        b = sub(
            stage, under("c"), FOUND | USED, name="b", tools=[c], observe=watched("b"), budget=Budget(max_tokens=350)
        )
        a = sub(stage, under("b"), FOUND | USED, name="a", tools=[b], observe=watched("a"))
        result = stage.run(under("a"), DONE | USED, tools=[a], budget=Budget(max_cost_usd=8.0, max_tokens=4000))
        return outcome(result), result.results[0].usage, seen

    assert everywhere(scene) == (
        ("answered", [("a", "ok", "")], Spend(steps=2, calls=1, cost_usd=3.5, tokens=700)),
        Usage(input_tokens=300, output_tokens=200, cost_usd=2.5),
        {"a": {(7.5, 3900)}, "b": {(7.0, 350)}, "c": {(6.5, 250)}},
    )


# --- how else it ends -----------------------------------------------------------------------------------------

TWO = calls(call("c1"), call("c2"))
ENDS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "step_budget": ([call("c1")], {"budget": Budget(max_steps=1)}),
    "call_budget": ([TWO], {"budget": Budget(max_calls=1)}),
    "cost_budget": ([call("c1") | USED], {"budget": Budget(max_cost_usd=0.5)}),
    "token_budget": ([call("c1") | USED], {"budget": Budget(max_tokens=100)}),
    "usage_missing": ([call("c1")], {"budget": Budget(max_tokens=100)}),
    "repeated_call": ([call("c1"), call("c1")], {}),
    "unsupported_batch": ([TWO], {"policy": Policy(batch="reject")}),
    "stuck": ([call("c1"), call("c2")], {"policy": Policy(max_identical_turns=1)}),
    "malformed": ([{"kind": "final", "text": " "}], {}),
    "incomplete": ([FOUND | {"stop": "length"}], {}),
    "refused": ([FOUND | {"stop": "refusal"}], {}),
    "model_error": ([RuntimeError("no route")], {}),
}


@pytest.mark.parametrize("status", ENDS)
def test_an_end_without_an_answer_is_a_failure_that_names_it(status: str) -> None:
    """The content says so first, whatever the child's model claimed; the code is the status."""

    def scene(stage: Stage) -> Any:
        script, options = ENDS[status]
        result = stage.run(ASK, DONE, tools=[sub(stage, *script, tools=looks(stage), **options)])
        return result.status, outcome(result)[1], result.results[0].content.splitlines()[:2]

    first = f"research did not answer: it ended {status}."
    told = [first, Words(f"finished_{status}, by ", "held: ")]
    assert everywhere(scene) == ("answered", [("research", "failed", status)], told)


def test_what_it_said_and_did_until_then_is_told() -> None:
    """Its calls may have had effects, and half an answer is worth having, if it is not taken for one."""

    def scene(stage: Stage) -> Any:
        script = [call("c1") | {"text": "I look."}, call("c2", "boom") | {"text": " "}]
        child = sub(stage, *script, FOUND | {"stop": "length"}, tools=stage.tools())
        return stage.run(ASK, DONE, tools=[child]).results[0].content

    assert everywhere(scene) == "\n".join(
        [
            "research did not answer: it ended incomplete.",
            "finished_incomplete, by validating/4 [turn_truncated] held: "
            "The stop reason says that the turn was cut by its length.",
            "the last turn was truncated, its stop reason 'length'",
            "its calls: look ok, boom failed",
            "it said:",
            "I look.",
            "It is Ada.",
        ]
    )


def test_what_it_is_told_of_a_failure_is_cut_as_any_result() -> None:
    """The parent's ``max_result_chars`` holds for what a sub-run says, too."""
    stage = Stage(THREADS)
    result = stage.run(ASK, DONE, tools=[sub(stage, RuntimeError("no"))], policy=Policy(max_result_chars=80))
    assert (len(result.results[0].content), result.results[0].content[:30]) == (80, "research did not answer: it en")


def test_the_same_end_is_the_same_result() -> None:
    """However long each took, so that a run is stuck whose sub-run ends so again and again."""

    def scene(stage: Stage) -> Any:
        def slow() -> Any:
            stage.now += 1.7
            return RuntimeError("no route")

        asks = [ASK | {"id": f"r{one}"} for one in range(3)]
        child = sub(stage, slow, RuntimeError("no route"))
        result = stage.run(*asks, tools=[child], policy=Policy(max_identical_turns=2), clock=stage.clock)
        return outcome(result)[:2], len({one.content for one in result.results})

    assert everywhere(scene) == (("stuck", [("research", "failed", "model_error")] * 2), 1)


def test_its_words_are_told_whatever_becomes_of_the_text_of_errors() -> None:
    """``error_text`` is for what a tool did not mean to raise."""
    stage = Stage(THREADS)
    result = stage.run(ASK, DONE, tools=[sub(stage, RuntimeError("no"))], policy=Policy(error_text="name"))
    assert result.results[0].content == Words("research did not answer: it ended model_error.")


# --- approval -------------------------------------------------------------------------------------------------


def test_one_that_would_wait_for_approval_is_denied_with_that_reason() -> None:
    """The parent's approver is not asked about it; what it did before is told and paid."""

    def scene(stage: Stage) -> Any:
        asked: list[Any] = []
        child = sub(stage, call("c1") | USED, call("c2", "pay", amount=5) | USED, tools=stage.tools())
        result = stage.run(ASK | USED, DONE | USED, tools=[child], approve=asked.append)
        content = result.results[0].content.splitlines()
        return outcome(result), content[0], content[-1], asked, stage.effects

    denied = ("research", "denied", "needs_approval")
    assert everywhere(scene) == (
        ("answered", [denied], Spend(steps=2, calls=1, cost_usd=2.0, tokens=400)),
        "needs_approval: research did not answer: pay needs approval, and nobody is asked.",
        "its calls: look ok",
        [],
        [("research", "who?"), "look 1", ("research", "1")],
    )


def test_the_sub_run_as_a_whole_can_need_approval() -> None:
    """Then it is the parent's call that somebody is asked about, by its prompt if need be."""

    def scene(stage: Stage) -> Any:
        asked: list[Any] = []

        def approve(one: Call) -> bool:
            asked.append(one.arguments)
            return False

        child = sub(stage, FOUND, needs_approval=lambda given: given["prompt"] == "who?", max_calls=2)
        script = [ASK, call("r2", "research", prompt="where?"), call("r3", "research", prompt="when?"), DONE]
        return outcome(stage.run(*script, tools=[child], approve=approve))[1], asked

    outcomes = [("denied", "not_approved"), ("ok", ""), ("over_budget", "")]
    assert everywhere(scene) == ([("research", *one) for one in outcomes], [{"prompt": "who?"}])


@attrs.frozen
class AwaitRain(Request):
    """A request that no host knows."""


RAIN = State("awaiting_rain", "It waits for rain.", lambda snapshot: (AwaitRain(),))
DRY = State("finished_dry", "It does not rain.", final="limit")


def always(snapshot: Snapshot, event: Event) -> bool:
    """It holds."""
    return True


@pytest.mark.parametrize(
    ("definition", "told"),
    [
        (
            TOOL_LOOP.with_state(RAIN, [Row(CancelRequested, "finished_cancelled")]).with_row(
                "admitting", Row(None, RAIN.name, always), at=1
            ),
            ("denied", "awaiting_rain", "it waits in awaiting_rain, and nobody is asked."),
        ),
        (
            TOOL_LOOP.with_state(DRY).with_row("admitting", Row(None, DRY.name, always), at=1),
            ("failed", "dry", "it ended dry."),
        ),
    ],
    ids=["a rest", "an end"],
)
def test_a_table_of_its_own_may_end_or_rest_as_it_likes(definition: Definition, told: tuple[str, str, str]) -> None:
    """Whatever it is called, it is no answer."""

    def scene(stage: Stage) -> Any:
        child = sub(stage, call("c1"), tools=looks(stage), definition=definition)
        result = stage.run(ASK, DONE, tools=[child]).results[0]
        return result.outcome, result.code, result.content

    assert everywhere(scene) == (*told[:2], Words(f"research did not answer: {told[2]}"))


# --- cancel and deadline --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("token", "drivers"), [(False, DRIVERS), (True, DRIVERS[:2])], ids=["a callable", "a token, on threads"]
)
def test_the_parents_cancel_is_its_own(token: bool, drivers: tuple[Driver, ...]) -> None:
    """It is interrupted, nothing is begun any more, and what it had spent is paid."""

    def scene(stage: Stage) -> Any:
        def cancelled() -> Any:
            stage.token.cancel("enough")
            return call("c1") | USED

        child = sub(stage, cancelled, tools=looks(stage))
        batch = calls(ASK, call("after")) | USED
        cancel = stage.token if token else stage.token.__call__
        result = stage.run(batch, tools=[*looks(stage), child], cancel=cancel)
        return outcome(result), result.results[0].content.splitlines()[0], stage.effects

    assert everywhere(scene, drivers, same_rows=False) == (
        (
            "cancelled",
            [("research", "interrupted", "cancelled"), ("look", "not_started", "")],
            Spend(steps=1, calls=2, cost_usd=1.0, tokens=200),
        ),
        "research did not answer: it ended cancelled.",
        [("research", "who?")],
    )


def test_the_parents_deadline_is_its_own() -> None:
    """It is interrupted where the parent's time is spent, and then the parent ends."""

    def scene(stage: Stage) -> Any:
        def slow() -> Any:
            stage.now += 5.0
            return call("c1") | USED

        child = sub(stage, slow, tools=looks(stage))
        result = stage.run(ASK | USED, tools=[child], budget=Budget(max_seconds=5.0), clock=stage.clock)
        return outcome(result), result.results[0].content.splitlines()[0], stage.effects

    assert everywhere(scene) == (
        (
            "time_budget",
            [("research", "interrupted", "time_budget")],
            Spend(steps=1, calls=1, cost_usd=1.0, tokens=200),
        ),
        "research did not answer: it ended time_budget.",
        [("research", "who?")],
    )


# --- what passes through --------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["model", "tool"])
def test_an_interrupt_passes_through_both_and_both_records_are_whole(where: str) -> None:
    """The child's turns are paid, the parent's call is answered, and the parent can go on from there."""

    def scene(stage: Stage) -> Any:
        @tool
        def break_off() -> None:
            """Break off."""
            raise KeyboardInterrupt

        inner: list[Any] = []
        script = [call("c1") | USED, KeyboardInterrupt() if where == "model" else call("c2", "break_off") | USED]
        tools = [*looks(stage), *stage.driver.tools([break_off])]
        child = sub(stage, *script, tools=tools, observe=inner.append)
        loop = Loop("go", tools=[child], at=0.0)
        with pytest.raises(KeyboardInterrupt):
            stage.run(ASK | USED, prompt=None, loop=loop)
        broken_off = loop.result()
        ended = [one for one in inner if isinstance(one, Advance)][-1].snapshot
        assert Loop.from_json(loop.to_json(), tools=[child]).snapshot == loop.snapshot
        return (
            [(one.outcome, one.content, one.usage) for one in broken_off.results],
            attrs.evolve(broken_off.spend, seconds=0.0),
            (ended.state, ended.tokens),
            outcome(stage.run(DONE | USED, prompt=None, loop=loop)),
        )

    steps = 1 if where == "model" else 2
    tokens, cost = 100 * steps, 0.5 * steps
    usage = Usage(input_tokens=60 * steps, output_tokens=40 * steps, cost_usd=cost)
    assert everywhere(scene, same_rows=False) == (
        [("interrupted", "interrupted by KeyboardInterrupt", usage)],
        Spend(steps=1, calls=1, cost_usd=0.5 + cost, tokens=100 + tokens),
        ("awaiting_model" if where == "model" else "checking_cancel", tokens),
        (
            "answered",
            [("research", "interrupted", "")],
            Spend(steps=2, calls=1, cost_usd=1.0 + cost, tokens=200 + tokens),
        ),
    )


def hangs(begun: asyncio.Event, log: list[str]) -> Any:
    """A model that asks for one call and then never answers; it says when it was cancelled."""
    replies = iter([call("c1") | USED])

    async def model(messages: Any) -> Any:
        for reply in replies:
            return reply
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            log.append("cancelled")

    return model


@pytest.mark.parametrize("how", ["token", "deadline", "task"])
def test_an_async_child_is_cut_short_with_its_parent_and_awaited(how: str) -> None:
    """The result says ``interrupted``, the turns that it had are paid, and nothing is left running."""
    log: list[str] = []
    stage = Stage(ASYNC_TASKS)

    async def scene() -> Any:
        begun = asyncio.Event()
        child = loop_tool(hangs(begun, log), "research", "Look something up.", tools=looks(stage))
        budget = Budget(max_seconds=0.05) if how == "deadline" else Budget()
        loop = Loop("go", tools=[child], budget=budget, at=0.0)
        options: Any = {"loop": loop, "cancel": stage.token, "clock": stage.clock}
        driven = asyncio.ensure_future(run_async(stage.model(ASK | USED), **options))
        await begun.wait()
        if how == "deadline":
            stage.now = 1.0
        if how == "token":
            stage.token.cancel("enough")
        if how == "task":
            driven.cancel()
        ended = await asyncio.gather(driven, return_exceptions=True)
        return type(ended[0]).__name__, loop.result(), asyncio.all_tasks() - {asyncio.current_task()}

    kind, result, left = asyncio.run(scene())
    why = {"token": STOPPED, "deadline": DEADLINE, "task": "cut short: the host was cancelled"}[how]
    lines = result.results[0].content.splitlines()
    assert (lines[:2], lines[-1]) == ([why, "research did not answer: it was cut short."], "its calls: look ok")
    status = {"token": "cancelled", "deadline": "time_budget", "task": "checking_cancel"}[how]
    assert (kind, log, left) == ("CancelledError" if how == "task" else "Result", ["cancelled"], set())
    assert [(one.outcome, one.usage) for one in result.results] == [("interrupted", ONE_STEP)]
    assert (outcome(result)[0], outcome(result)[2]) == (status, Spend(steps=1, calls=1, cost_usd=1.0, tokens=200))


def begins(stage: Stage, log: list[str]) -> Tool:
    """An async tool that begins something, past the deadline, and never ends."""

    @tool
    async def begin() -> None:
        """Begin to pay."""
        log.append("paying")
        stage.now = 9.0
        await asyncio.Event().wait()

    return begin


@pytest.mark.parametrize(
    ("options", "seconds", "told"),
    [
        ({}, 0.05, ("interrupted", DEADLINE)),
        ({"timeout": 0.5}, None, ("timed_out", "research timed out after 0.5 seconds and was cancelled")),
    ],
    ids=["deadline", "timeout"],
)
def test_an_async_child_that_is_cut_short_tells_what_became_of_its_calls(
    options: Any, seconds: float | None, told: tuple[str, str]
) -> None:
    """One that was under way is ``interrupted``: it may have happened."""
    stage, log = Stage(ASYNC_TASKS), list[str]()
    script = call("c1") | USED, call("c2", "begin") | USED
    child = sub(stage, *script, tools=[*looks(stage), begins(stage, log)], **options)
    ends = [] if seconds else [DONE | USED]
    result = stage.run(ASK | USED, *ends, tools=[child], budget=Budget(max_seconds=seconds), clock=stage.clock)
    (brought,) = result.results
    lines = brought.content.splitlines()
    assert (brought.outcome, lines[0], lines[1], lines[-1], brought.usage, log) == (
        *told,
        "research did not answer: it was cut short.",
        "its calls: look ok, begin interrupted",
        Usage.total([ONE_STEP] * 2),
        ["paying"],
    )


def test_what_a_child_tells_that_was_cut_short_is_no_longer_than_a_result_may_be() -> None:
    """It is cut as any other."""
    stage = Stage(ASYNC_TASKS)
    child = sub(stage, call("c2", "begin"), tools=[begins(stage, [])])
    budget, policy = Budget(max_seconds=0.05), Policy(max_result_chars=60)
    result = stage.run(ASK, tools=[child], budget=budget, policy=policy, clock=stage.clock)
    assert result.results[0].content == Words("cut short at the deadline", "[cut: ")
    assert len(result.results[0].content) == 60


# --- a timeout of its own -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("driver", "given"), [(THREADS, True), (ASYNC_THREADS, False)], ids=["option", "evolved"])
def test_a_sync_child_that_timed_out_is_paid_for_and_begins_no_step_more(driver: Driver, given: bool) -> None:
    """Its steps by then, and those of its own sub-runs, are spent from the parent; its thread ends at its next gate."""
    stage, release, threads = Stage(driver), threading.Event(), list[threading.Thread]()

    def hang() -> Any:
        threads.append(threading.current_thread())
        release.wait()
        return call("d2") | USED

    inner = sub(stage, call("d1") | USED, hang, name="inner", tools=looks(stage))
    script = [call("c1") | USED, call("c2", "inner", prompt="where?") | USED, AssertionError("it was asked again")]
    made = sub(stage, *script, tools=[*looks(stage), inner], timeout=1.0 if given else None)
    child = made if given else attrs.evolve(made, timeout=1.0)
    result = stage.run(ASK | USED, DONE | USED, tools=[child], clock=stage.clock)
    before = list(stage.effects)
    release.set()
    for thread in threads:
        thread.join()
    assert (outcome(result)[1:], [one.usage for one in result.results]) == (
        ([("research", "timed_out", "")], Spend(steps=2, calls=1, cost_usd=2.5, tokens=500)),
        [Usage.total([ONE_STEP] * 3)],
    )
    assert (len(threads), stage.effects) == (1, before)


@pytest.mark.parametrize("driver", [THREADS, ASYNC_THREADS, ASYNC_TASKS], ids=repr)
@pytest.mark.parametrize("budget", [None, Budget(max_cost_usd=9.0), Budget(max_tokens=9000)], ids=repr)
def test_a_step_that_a_timeout_cuts_short_is_never_counted_as_nothing(driver: Driver, budget: Budget | None) -> None:
    """Nobody knows what it cost: where a budget has to know, the parent ends at its next gate."""
    stage, release = Stage(driver), threading.Event()
    replies = iter([call("c1") | USED])

    def ask() -> Any:
        return next(replies, None) or (release.wait() and DONE | USED)

    async def ask_async(messages: Any) -> Any:
        return next(replies, None) or await asyncio.Event().wait()

    model: Any = ask_async if driver is ASYNC_TASKS else lambda messages: ask()
    child = loop_tool(model, "research", "Look something up.", tools=looks(stage), timeout=0.3)
    result = stage.run(ASK | USED, *([] if budget else [DONE | USED]), tools=[child], budget=budget, clock=stage.clock)
    release.set()
    (brought,) = result.results
    assert (result.status, brought.outcome, brought.usage) == (
        ("usage_missing", "timed_out", Usage.total([ONE_STEP, Usage()]))
        if budget
        else ("answered", "timed_out", ONE_STEP)
    )


@pytest.mark.parametrize(
    ("own", "seconds"),
    [(None, 60.0), (Budget(max_seconds=90.0), 60.0), (Budget(max_seconds=50.0), 50.0)],
    ids=["none of its own", "a longer one", "a shorter one"],
)
def test_its_time_is_never_more_than_its_timeout(own: Budget | None, seconds: float) -> None:
    """Nor than its own budget, nor than what the parent has left."""

    def scene(stage: Stage) -> Any:
        seen: list[Any] = []
        for parents in (None, Budget(max_seconds=40.0)):
            options: Any = {"budget": own, "observe": lambda notice: seen.append(notice.snapshot.budget)}
            stage.run(ASK, DONE, tools=[sub(stage, FOUND, timeout=60.0, **options)], budget=parents, clock=stage.clock)
        return [budget.max_seconds for budget in dict.fromkeys(seen)]

    assert everywhere(scene) == [seconds, 40.0]


@pytest.mark.parametrize(
    ("own", "brought"),
    [(None, "timed_out"), (Budget(max_seconds=50.0), "interrupted")],
    ids=["its timeout", "its budget"],
)
def test_a_child_that_ends_by_itself_at_its_timeout_has_timed_out(own: Budget | None, brought: str) -> None:
    """At its own gate, before anybody cut it short; what was shorter than that is no timeout."""

    def scene(stage: Stage) -> Any:
        def slow() -> Any:
            stage.now += 60.0
            return call("c1") | USED

        child = sub(stage, slow, tools=looks(stage), timeout=60.0, budget=own)
        result = stage.run(ASK | USED, DONE | USED, tools=[child], clock=stage.clock)
        return outcome(result), result.results[0].content.splitlines()[0]

    assert everywhere(scene) == (
        ("answered", [("research", brought, "time_budget")], Spend(steps=2, calls=1, cost_usd=1.5, tokens=300)),
        "research did not answer: it ended time_budget.",
    )


def test_what_a_child_spent_is_spent_while_it_runs() -> None:
    """Whoever looks at the parent's spend meanwhile sees it."""

    def scene(stage: Stage) -> Any:
        seen: list[Any] = []

        @tool
        def look(ctx: Context) -> int:
            """Look."""
            seen.append((loop._spend().cost_usd, ctx.spend.cost_usd))
            return 1

        child = sub(stage, call("c1") | USED, FOUND | USED, tools=stage.driver.tools([look]))
        loop = Loop("go", tools=[child], at=0.0)
        stage.run(ASK | USED, DONE | USED, prompt=None, loop=loop)
        return seen

    assert everywhere(scene, same_rows=False) == [(1.0, 0.5)]


@pytest.mark.parametrize(("replies", "paid"), [([], [NOTHING]), ([FOUND | USED], [ONE_STEP])], ids=["none", "one"])
def test_a_step_that_nobody_was_told_of_is_paid_when_the_child_is_left(replies: list[Any], paid: list[Usage]) -> None:
    """An interrupt may come between the reply and the notice of it; and a child that spent nothing says so."""
    bills: list[Usage] = []
    made: Any = sub(Stage(THREADS)).handler
    with made.__self__.begun("who?", Context(bill=bills.append)) as loop:
        for reply in replies:
            loop.send(CancelPolled(False, at=0.0))
            loop.replied(reply, at=0.0)
    assert bills == paid


# --- who drives it --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0.0, 1e9], ids=["a clock from zero", "a clock like time.time"])
def test_a_workflow_that_drives_its_loop_itself_pays_for_it_too(at: float) -> None:
    """``perform`` brings the usage with the result, and what is left of the time is known on any clock."""
    stage, seen = Stage(THREADS), set()
    child = sub(stage, FOUND | USED, observe=lambda notice: seen.add(notice.snapshot.budget.max_seconds))
    loop = Loop("go", tools=[child], budget=Budget(max_seconds=8.0, max_cost_usd=1.0), at=at)
    replies = iter([ASK | USED])
    while not loop.finished:
        at += 1.0
        request: Any = loop.requests[0]
        if isinstance(request, StartCalls):
            result = loop.perform(request.calls[0])
            taken = loop.send(CallReturned(result, at=at))
        elif isinstance(request, AskModel):
            loop.replied(next(replies), at=at)
        else:
            loop.send(CancelPolled(False, at=at))
    assert (outcome(loop.result()), seen, taken.event.usage, result.usage) == (
        ("cost_budget", [("research", "ok", "")], Spend(steps=1, calls=1, cost_usd=1.0, tokens=200)),
        {5.0},
        ONE_STEP,
        ONE_STEP,
    )


def test_one_whose_model_or_tool_is_async_is_async() -> None:
    """``run`` refuses it by name, as any async tool."""

    @tool
    async def look() -> None:
        """Look."""

    made = [loop_tool(len, "a", ""), loop_tool(as_task(len), "b", ""), loop_tool(len, "c", "", tools=[look])]
    with pytest.raises(TypeError, match=r"^tools: b, c is async; use run_async$"):
        run(len, "go", tools=made)
    assert [one.is_async for one in made] == [False, True, True]


# --- how it is made -------------------------------------------------------------------------------------------


def test_it_is_a_tool_that_takes_a_prompt() -> None:
    """What a model is offered."""
    made = sub(Stage(THREADS), effect="read", max_calls=3, needs_approval=True)
    assert (made.name, made.description, made.effect, made.max_calls, made.needs_approval, made.sequential) == (
        "research",
        "Look something up.",
        "read",
        3,
        True,
        True,
    )
    prompt = {"type": "string", "pattern": r"\S", "description": Words("sees nothing of this conversation")}
    assert made.input_schema == {
        "type": "object",
        "properties": {"prompt": prompt},
        "required": ["prompt"],
        "additionalProperties": False,
    }


WRONG: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    (None, {}, TypeError, "model must be callable, not None"),
    (lambda: None, {}, TypeError, "model must take"),
    (as_task(lambda: None), {}, TypeError, "model must take"),
    (len, {"price": 3}, TypeError, "price must be callable, not async, or None, not 3"),
    (len, {"price": as_task(len)}, TypeError, "price must be callable, not async, or None"),
    (len, {"observe": 3}, TypeError, "observe must be callable, not async, or None, not 3"),
    (len, {"tools": 3}, TypeError, "tools must be an iterable of tools, not 3"),
    (len, {"tools": [3]}, ValueError, "tools: 3 can't become a tool"),
    (len, {"budget": 3}, TypeError, "budget must be a Budget, not 3"),
    (as_task(len), {"budget": 3}, TypeError, "budget must be a Budget, not 3"),
    (len, {"policy": 3}, TypeError, "policy must be a Policy, not 3"),
    (len, {"wire": 3}, TypeError, "wire must be a Wire, not 3"),
    (len, {"system": 3}, TypeError, "system must be text or None, not 3"),
    (len, {"definition": 3}, TypeError, "definition must be a Definition, not 3"),
    (len, {"effect": "write"}, InvalidTool, "effect must be one of"),
    (len, {"name": "a b"}, InvalidTool, "name must be 1 to 128 of the characters"),
]


@pytest.mark.parametrize(("model", "options", "kind", "said"), WRONG, ids=lambda one: None)
def test_what_it_cannot_be_made_of_is_refused_by_name(
    model: Any, options: dict[str, Any], kind: type[Exception], said: str
) -> None:
    """When it is made, and not when somebody calls it."""
    with pytest.raises(kind, match=re.escape(said)):
        loop_tool(model, **{"name": "research", "description": "", **options})


def test_none_means_the_defaults() -> None:
    """As in ``run``."""
    stage = Stage(THREADS)
    child = sub(stage, FOUND, budget=None, policy=None, wire=None, system=None, price=None, definition=None)
    assert stage.run(ASK, DONE, tools=[child]).results[0].content == "It is Ada."
