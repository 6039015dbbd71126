"""What went wrong in other loops, case by case: the data is that of the shared cases.json, an id's test bears its name.

``always`` of that file's format is checked of every run that a stage plays.
"""
# ruff: noqa: N802  the ids of the cases are in capitals

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from loopmachine import Budget, CancelToken, Loop, Policy, Result, Usage, run_async, tool
from loopmachine.events import CallReturned
from tests.drivers import (
    ASYNC_TASKS,
    ASYNC_THREADS,
    DONE,
    GO,
    THREADS,
    Stage,
    Words,
    always,
    brought,
    call,
    calls,
    everywhere,
)
from tests.shared import WRITERS, as_expected, case, needs_cases, plain, tools_of

pytestmark = needs_cases
RENAME, ANSWER = Policy(repeated_id="rename"), Policy(repeated_id="answer")


def play(stage: Stage, given: Any, *, during: Callable[[], object] = bool, **options: Any) -> Result:
    """A run of a case in PLAIN."""
    return stage.run(*map(plain, given["script"]), tools=tools_of(stage, given, during), **options)


# --- ids --------------------------------------------------------------------------------------------------


def function(one: str, name: str, arguments: str) -> dict[str, Any]:
    """A tool call of the Chat Completions API."""
    return {"id": one, "type": "function", "function": {"name": name, "arguments": arguments}}


def asks(*functions: dict[str, Any]) -> dict[str, Any]:
    """The assistant's message that holds them."""
    return {"role": "assistant", "content": "", "tool_calls": list(functions)}


def told(one: str, content: str) -> dict[str, Any]:
    """A result in the Chat Completions API."""
    return {"role": "tool", "tool_call_id": one, "content": content}


def uses(*blocks: tuple[str, str, dict[str, Any]]) -> dict[str, Any]:
    """The assistant's message of the Messages API."""
    content = [{"type": "tool_use", "id": one, "name": name, "input": given} for one, name, given in blocks]
    return {"role": "assistant", "content": content}


def results(*blocks: tuple[str, str, bool]) -> dict[str, Any]:
    """The user's message of the Messages API that holds the results."""
    content = [
        {"type": "tool_result", "tool_use_id": one, "content": text, "is_error": wrong} for one, text, wrong in blocks
    ]
    return {"role": "user", "content": content}


def items(*functions: tuple[str, str, str]) -> list[dict[str, Any]]:
    """The calls of the Responses API."""
    return [{"type": "function_call", "call_id": one, "name": name, "arguments": text} for one, name, text in functions]


def outputs(*texts: tuple[str, str]) -> list[dict[str, Any]]:
    """The results of the Responses API."""
    return [{"type": "function_call_output", "call_id": one, "output": text} for one, text in texts]


def parts(role: str, *given: dict[str, Any]) -> dict[str, Any]:
    """A content of the Gemini API."""
    return {"role": role, "parts": list(given)}


def function_call(one: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """A call of the Gemini API."""
    return {"functionCall": {"id": one, "name": name, "args": arguments}}


def function_response(one: str, name: str, text: str) -> dict[str, Any]:
    """A result of the Gemini API."""
    return {"functionResponse": {"id": one, "name": name, "response": {"result": text}}}


ASKED = {"role": "user", "content": "go"}
ASKED_OF_GEMINI = {"role": "user", "parts": [{"text": "go"}]}
SENT_L01: dict[str, list[Any]] = {
    "plain": [
        *(GO, call("f:0", "f", x=1), brought("f:0", "r1")),
        *(call("f_0_s2_0", "f", x=2), brought("f_0_s2_0", "r2")),
    ],
    "openai_chat": [
        *(ASKED, asks(function("f:0", "f", '{"x": 1}')), told("f:0", "r1")),
        *(asks(function("f_0_s2_0", "f", '{"x": 2}')), told("f_0_s2_0", "r2")),
    ],
    "anthropic": [
        *(ASKED, uses(("f:0", "f", {"x": 1})), results(("f:0", "r1", False))),
        *(uses(("f_0_s2_0", "f", {"x": 2})), results(("f_0_s2_0", "r2", False))),
    ],
    "openai_responses": [
        *(ASKED, *items(("f:0", "f", '{"x": 1}')), *outputs(("f:0", "r1"))),
        *(*items(("f_0_s2_0", "f", '{"x": 2}')), *outputs(("f_0_s2_0", "r2"))),
    ],
    "gemini": [
        *(ASKED_OF_GEMINI, parts("model", function_call("f:0", "f", {"x": 1}))),
        parts("user", function_response("f:0", "f", "r1")),
        parts("model", function_call("f_0_s2_0", "f", {"x": 2})),
        parts("user", function_response("f_0_s2_0", "f", "r2")),
    ],
}


@pytest.mark.parametrize("wire", WRITERS)
def test_L01_an_id_used_again_in_a_later_round(wire: str) -> None:
    """Under "rename" both run, and call and result are sent back under an id of their own, right after each other."""
    given, expected = case("L01")
    shape, write = WRITERS[wire]

    def scene(stage: Stage) -> Any:
        script = map(write, given["script"])
        result = stage.run(*script, tools=tools_of(stage, given), wire=shape, policy=RENAME)
        return stage.effects, result.text, stage.asked[-1]

    assert everywhere(scene) == (expected["executed"], expected["final"], SENT_L01[wire])


def test_L01_an_id_used_again_is_renamed_in_the_same_way_at_each_replay() -> None:
    """Two runs of the same replies, and the same run restored, send the same ids."""
    given, _ = case("L01")

    def sent() -> list[Any]:
        stage = Stage(THREADS)
        tools = tools_of(stage, given)
        loop = stage.run(*map(plain, given["script"]), tools=tools, policy=RENAME).loop
        again = Loop.from_json(loop.to_json(), tools=tools)
        return [[message["id"] for message in one.snapshot.history if "id" in message] for one in (loop, again)]

    assert sent() == sent() == [["f:0", "f:0", "f_0_s2_0", "f_0_s2_0"]] * 2


@pytest.mark.parametrize(
    ("policy", "ran", "status", "outcomes"),
    [(Policy(), [1], "repeated_call", ["ok"]), (ANSWER, [1], "answered", ["ok", "repeated"])],
    ids=["stop", "answer"],
)
def test_L01_under_the_other_policies(policy: Policy, ran: list[int], status: str, outcomes: list[str]) -> None:
    """Under "stop" the run ends, under "answer" the second call is told that it was not executed: never a stale r1."""
    given, _ = case("L01")

    def scene(stage: Stage) -> Any:
        result = play(stage, given, policy=policy)
        return stage.effects, result.status, [one.outcome for one in result.results]

    assert everywhere(scene) == ([["f", {"x": x}] for x in ran], status, outcomes)


SENT_L02: dict[str, list[Any]] = {
    "plain": [
        *(GO, call("d", "f", x=1), call("d_s1_1", "g")),
        *(brought("d", "r1"), brought("d_s1_1", "rg")),
    ],
    "openai_chat": [
        *(ASKED, asks(function("d", "f", '{"x": 1}'), function("d_s1_1", "g", "{}"))),
        *(told("d", "r1"), told("d_s1_1", "rg")),
    ],
    "anthropic": [
        *(ASKED, uses(("d", "f", {"x": 1}), ("d_s1_1", "g", {}))),
        results(("d", "r1", False), ("d_s1_1", "rg", False)),
    ],
    "openai_responses": [
        *(ASKED, *items(("d", "f", '{"x": 1}'), ("d_s1_1", "g", "{}"))),
        *outputs(("d", "r1"), ("d_s1_1", "rg")),
    ],
    "gemini": [
        *(ASKED_OF_GEMINI, parts("model", function_call("d", "f", {"x": 1}), function_call("d_s1_1", "g", {}))),
        parts("user", function_response("d", "f", "r1"), function_response("d_s1_1", "g", "rg")),
    ],
}


@pytest.mark.parametrize("wire", WRITERS)
def test_L02_the_same_id_twice_within_one_response(wire: str) -> None:
    """Under "rename" both run, and two different ids are sent back, the same in call and result."""
    given, expected = case("L02")
    shape, write = WRITERS[wire]

    def scene(stage: Stage) -> Any:
        script = map(write, given["script"])
        result = stage.run(*script, tools=tools_of(stage, given), wire=shape, policy=RENAME)
        return sorted(stage.effects), [one.content for one in result.results], stage.asked[-1]

    assert everywhere(scene) == (expected["executed"], expected["results_in_order"], SENT_L02[wire])


@pytest.mark.parametrize("wire", WRITERS)
def test_L02_answered_with_an_error(wire: str) -> None:
    """Under "answer" the second is told of its id, not run, and sent back under an id of its own all the same."""
    given, _ = case("L02")
    shape, write = WRITERS[wire]

    def scene(stage: Stage) -> Any:
        script = map(write, given["script"])
        result = stage.run(*script, tools=tools_of(stage, given), wire=shape, policy=ANSWER)
        history = [message["id"] for message in result.history if "id" in message]
        return stage.effects, [one.outcome for one in result.results], history

    ids = ["d", "d_s1_1"] * 2
    assert everywhere(scene) == ([["f", {"x": 1}]], ["ok", "repeated"], ids)


@pytest.mark.parametrize("wire", WRITERS)
def test_L02_ids_that_look_like_those_made_up(wire: str) -> None:
    """Whatever ids a model chooses, and if it copies one that was made up: all that are sent back differ."""
    shape, write = WRITERS[wire]
    turns = [["a", "a"], ["a_s2_1", "a"], ["a_s2_1", "a_s1_1"], ["a_s4_1", "a", "a", "a_s4_2"]]
    script: list[Any] = [{"calls": [{"id": one, "name": "look", "arguments": "{}"} for one in turn]} for turn in turns]
    script.append({"text": "done"})

    def scene(stage: Stage) -> Any:
        result = stage.run(*map(write, script), wire=shape, policy=RENAME)
        asked = [message["id"] for message in result.history if message["kind"] == "call"]
        return len(stage.effects), result.status, len(set(asked)), [one.id for one in result.results] == asked

    assert everywhere(scene) == (10, "answered", 10, True)


def test_L02_under_stop() -> None:
    """By default the run ends and none of the two is executed."""
    given, _ = case("L02")

    def scene(stage: Stage) -> Any:
        return play(stage, given).status, stage.effects

    assert everywhere(scene) == ("repeated_call", [])


# --- calls that bring nothing good ------------------------------------------------------------------------


def test_L04_an_unknown_tool_name() -> None:
    """It is answered with the known names, the good call beside it runs, and both are counted."""
    given, expected = case("L04")

    def scene(stage: Stage) -> Any:
        result = play(stage, given)
        told = as_expected(result.results, expected["results"])
        return stage.effects, told, result.text, result.spend.calls

    assert everywhere(scene) == (expected["executed"], expected["results"], expected["final"], 2)


def test_L04_a_model_that_makes_up_names_for_ever_ends() -> None:
    """Unknown calls use the call budget up like any other."""
    given, _ = case("L04")
    script = [call(f"c{n}", "f_typo") for n in range(20)]

    def scene(stage: Stage) -> Any:
        result = stage.run(*script, tools=tools_of(stage, given), budget=Budget(max_steps=20, max_calls=5))
        return result.status, result.spend.calls, len(stage.asked), stage.effects

    assert everywhere(scene) == ("call_budget", 5, 6, [])


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_L05_a_throwing_tool_beside_others(mode: str) -> None:
    """Each runs once, every result stands in call order, the error with class and message, and the run goes on."""
    given, expected = case("L05")

    def scene(stage: Stage) -> Any:
        result = play(stage, given, policy=Policy(batch=mode))
        told = as_expected(result.results, expected["results"])
        return sorted(name for name, _ in stage.effects), told, result.text

    assert everywhere(scene) == (["boom", "f", "g"], expected["results"], expected["final"])


def test_L05_an_exception_without_text_gives_its_class_name() -> None:
    """A bare RuntimeError is told as such, never as nothing."""

    @tool
    def bare() -> None:
        """Raise without words."""
        raise RuntimeError

    def scene(stage: Stage) -> Any:
        result = stage.run(call("c1", "bare"), DONE, tools=stage.driver.tools([bare]))
        return [(one.outcome, one.content) for one in result.failed_calls]

    assert everywhere(scene) == [("failed", "RuntimeError")]


# --- a cancel ---------------------------------------------------------------------------------------------


def test_L06_a_cancel_in_the_middle_of_a_round() -> None:
    """One call at a time, a cancel after the first has finished: the other two are answered as not started."""
    given, expected = case("L06")

    def scene(stage: Stage) -> Any:
        def observe(notice: Any) -> None:
            if isinstance(getattr(notice, "event", None), CallReturned):
                stage.token.cancel()

        result = play(stage, given, policy=Policy(batch="sequential"), cancel=stage.token, observe=observe)
        told = as_expected(result.results, expected["results"])
        return stage.effects, result.status, told, len(stage.asked)

    assert everywhere(scene) == (
        expected["executed"],
        expected["status"],
        expected["results"],
        expected["model_calls"],
    )


def test_L08_queued_calls_do_not_start_after_a_cancel() -> None:
    """A cancel from inside the first of three, one at a time: only that one ran, and the model is not asked again."""
    given, expected = case("L08")

    def scene(stage: Stage) -> Any:
        policy = Policy(max_parallel=given["max_parallel"])
        result = play(stage, given, policy=policy, cancel=stage.token, during=stage.token.cancel)
        ran = [one.id for one in result.results if one.outcome == "ok"]
        return len(stage.effects), ran, len(stage.asked), result.status

    told = everywhere(scene, same_rows=False)
    assert told == (1, expected["executed_ids"], expected["model_calls"], expected["status"])


def driven(stage: Stage, tools: list[Any], *script: Any) -> tuple[Loop, Any]:
    """A loop with these tools, and the coroutine that drives it."""
    loop = Loop("go", tools=tools, at=time.monotonic())
    return loop, run_async(stage.model(*script), loop=loop)


async def ended(task: asyncio.Future[Any]) -> str:
    """How a task ended: the class of what it raised."""
    await asyncio.wait([task])
    return "CancelledError" if task.cancelled() else type(task.exception()).__name__


def ticking(log: list[str], reached: asyncio.Event) -> Any:
    """The tool of L09: it ticks until it is cancelled, then takes its time to clean up."""

    @tool
    async def tick() -> None:
        """Tick every 10 ms."""
        try:
            while True:
                log.append("tick")
                if len(log) == 3:
                    reached.set()
                await asyncio.sleep(0.01)
        finally:
            await asyncio.sleep(0.02)
            log.append("cleaned up")

    return tick


def test_L09_a_tool_does_not_go_on_after_the_run_was_cancelled() -> None:
    """The tool is cancelled and awaited before the cancellation comes out, and its call is answered as interrupted."""
    given, expected = case("L09")
    log: list[str] = []
    stage = Stage(ASYNC_TASKS)

    async def main() -> tuple[Loop, str, list[str]]:
        reached = asyncio.Event()
        tools = [ticking(log, reached)]
        loop, run = driven(stage, tools, *map(plain, given["script"]))
        task = asyncio.ensure_future(run)
        await reached.wait()
        task.cancel()
        raised, before = await ended(task), list(log)
        await asyncio.sleep(0.1)
        assert always(loop.result(), tools, 1) == []
        return loop, raised, before

    loop, raised, before = asyncio.run(main())
    history = [GO, call("c1", "tick"), brought("c1", Words("cut short"), "interrupted")]
    assert (raised, log[3:], log, list(loop.snapshot.history)) == (
        expected["raises"].partition(" ")[0],
        ["cleaned up"],
        before,
        history,
    )
    assert asyncio.run(run_async(stage.model(DONE), loop=loop)).text == "done"


def test_L09_a_second_cancellation_does_not_cut_the_first_short() -> None:
    """Cancelled again while its tool cleans up, the run still awaits it, and is cancelled."""
    log: list[str] = []

    async def main() -> tuple[str, Loop]:
        reached = asyncio.Event()
        loop, run = driven(Stage(ASYNC_TASKS), [ticking(log, reached)], call("c1", "tick"))
        task = asyncio.ensure_future(run)
        await reached.wait()
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        return await ended(task), loop

    raised, loop = asyncio.run(main())
    outcomes = [one.outcome for one in loop.result().results]
    assert (raised, log[-1], outcomes) == ("CancelledError", "cleaned up", ["interrupted"])


def test_L09_a_model_is_awaited_too_and_what_it_raises_is_not_left_behind() -> None:
    """A model that fails while it is cancelled: the cancellation comes out, and asyncio has nothing to complain of."""
    complaints: list[Any] = []

    async def main() -> tuple[str, str]:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context["message"]))
        reached = asyncio.Event()

        async def model(messages: Any) -> Any:
            reached.set()
            try:
                await asyncio.Event().wait()
            finally:
                raise ConnectionError("the stream is gone")

        loop = Loop("go", at=time.monotonic())
        task = asyncio.ensure_future(run_async(model, loop=loop))
        await reached.wait()
        task.cancel()
        raised = await ended(task)
        del task
        gc.collect()
        return raised, loop.snapshot.state

    assert (asyncio.run(main()), complaints) == (("CancelledError", "awaiting_model"), [])


def test_L09_a_timeout_around_the_run_is_not_swallowed() -> None:
    """``asyncio.timeout`` raises TimeoutError after the tool has ended, and the loop can go on."""
    log: list[str] = []
    stage = Stage(ASYNC_TASKS)

    async def main() -> Result:
        loop, run = driven(stage, [ticking(log, asyncio.Event())], call("c1", "tick"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.03):
                await run
        assert log[-1] == "cleaned up"
        return await run_async(stage.model(DONE), loop=loop)

    result = asyncio.run(main())
    history = [GO, call("c1", "tick"), brought("c1", Words("cut short"), "interrupted"), DONE]
    assert (result.status, list(result.history)) == ("answered", history)


def test_L09_a_sync_tool_finishes_on_its_thread() -> None:
    """It can't be cut short: it is awaited before the cancellation comes out, and what it brought is kept."""
    started, log = CancelToken(), list[str]()

    @tool
    def work() -> str:
        """Go on for a while."""
        started.cancel()
        time.sleep(0.05)
        log.append("finished")
        return "worked"

    async def main() -> tuple[str, list[str], Loop]:
        loop, run = driven(Stage(ASYNC_THREADS), [work], call("c1", "work"))
        task = asyncio.ensure_future(run)
        await asyncio.to_thread(started.wait)
        task.cancel()
        return await ended(task), list(log), loop

    raised, finished, loop = asyncio.run(main())
    history = [GO, call("c1", "work"), brought("c1", "worked")]
    assert (raised, finished, list(loop.snapshot.history)) == ("CancelledError", ["finished"], history)


@pytest.mark.parametrize("stage", [Stage(one) for one in (THREADS, ASYNC_THREADS, ASYNC_TASKS)])
def test_L11_a_tools_own_inner_cancellation(stage: Stage) -> None:
    """A CancelledError that nobody else asked for is that tool's failure, and the run goes on."""
    given, expected = case("L11")

    @tool
    def inner() -> None:
        """Have an inner task cancelled."""
        raise asyncio.CancelledError

    tools = [*stage.driver.tools([inner]), *tools_of(stage, given)]
    result = stage.run(*map(plain, given["script"]), tools=tools)
    told = as_expected(result.results, expected["results"])
    assert (told, [one.outcome for one in result.results], result.text) == (
        expected["results"],
        ["failed", "ok"],
        expected["final"],
    )


@pytest.mark.parametrize("stage", [Stage(one) for one in (THREADS, ASYNC_THREADS, ASYNC_TASKS)])
def test_L11_a_models_own_inner_cancellation(stage: Stage) -> None:
    """The same of the model: it failed, and the run says so."""

    def model(messages: Any, tools: Any) -> Any:
        raise asyncio.CancelledError

    result = stage.run(model)
    assert (result.status, [failed.code for failed in [result.snapshot.failure] if failed]) == (
        "model_error",
        ["CancelledError"],
    )


def test_L11_a_true_outer_cancel_is_raised() -> None:
    """The mirror: the same two calls, and the run's own task cancelled while the first waits."""
    given, _ = case("L11")
    stage, reached = Stage(ASYNC_TASKS), asyncio.Event()

    @tool
    async def inner() -> None:
        """Wait for ever."""
        reached.set()
        await asyncio.Event().wait()

    async def main() -> tuple[str, Loop]:
        loop, run = driven(stage, [inner, *tools_of(stage, given)], *map(plain, given["script"]))
        task = asyncio.ensure_future(run)
        await reached.wait()
        await asyncio.sleep(0.01)
        task.cancel()
        return await ended(task), loop

    raised, loop = asyncio.run(main())
    outcomes = [one.outcome for one in loop.result().results]
    assert (raised, outcomes) == ("CancelledError", ["interrupted", "ok"])


# --- budgets ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("excess", "ran", "status", "outcomes"),
    [("stop", 0, "call_budget", []), ("refuse", 2, "answered", ["ok", "ok", "over_budget", "over_budget"])],
)
def test_L12_a_call_budget_and_parallel_calls(excess: str, ran: int, status: str, outcomes: list[str]) -> None:
    """Under "stop" a round that does not fit is not executed, under "refuse" exactly as many run as fit."""
    given, _ = case("L12")

    def scene(stage: Stage) -> Any:
        budget = Budget(max_calls=given["limits"]["max_calls"])
        result = play(stage, given, budget=budget, policy=Policy(excess_calls=excess))
        refused = [one.content for one in result.failed_calls]
        return len(stage.effects), result.status, [one.outcome for one in result.results], refused

    assert everywhere(scene) == (ran, status, outcomes, [Words("all 2 calls")] * (len(outcomes) - ran))


STATUSES = {"done": "answered", "step_limit": "step_budget"}


@pytest.mark.parametrize("number", range(3))
def test_L13_an_answer_at_the_cap(number: int) -> None:
    """An answer at the last step is accepted, a call at the last step is run and answered; never one step more."""
    given, expected = case("L13")
    variant, words = given["variants"][number], expected["variants"][number]

    def scene(stage: Stage) -> Any:
        script = map(plain, variant["script"])
        result = stage.run(*script, tools=tools_of(stage, given), budget=Budget(**variant["limits"]))
        return result.status, result.text, len(stage.asked), [one.id for one in result.results], len(stage.effects)

    ids = [asked["id"] for item in variant["script"] for asked in item.get("calls", ())]
    told = STATUSES[words["status"]], words.get("final", ""), words["model_calls"], ids, len(ids)
    assert everywhere(scene) == told


def test_L15_the_cap_is_reached_with_calls_asked_for() -> None:
    """They are run and answered, so the history is whole; a run that goes on from it runs none of them again."""
    given, expected = case("L15")

    def scene(stage: Stage) -> Any:
        first = play(stage, given, budget=Budget(**given["limits"]))
        ran = len(stage.effects)
        tools = tools_of(stage, given)
        then = stage.run(DONE, prompt=None, history=first.history, tools=tools, budget=Budget(max_steps=2))
        return first.status, ran, stage.asked[-1] == list(first.history), then.status, len(stage.effects)

    assert everywhere(scene) == (STATUSES[expected["status"]], 2, True, "answered", 2)


# --- what a turn is ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("repairs", "asked"), [(0, 1), (2, 3)])
@pytest.mark.parametrize("wire", ["plain", "openai_chat"])
@pytest.mark.parametrize("number", [0, 1])
def test_L16_the_stop_reason_claims_calls_that_are_not_there(number: int, wire: str, repairs: int, asked: int) -> None:
    """The turn is malformed: once, or as often as the policy repairs; never success, never 50 calls."""
    given, _ = case("L16")
    shape, write = WRITERS[wire]
    reply = write(given["variants"][number]["repeat"])

    def scene(stage: Stage) -> Any:
        result = stage.run(
            *[reply] * 50,
            tools=tools_of(stage, given),
            wire=shape,
            budget=Budget(**given["limits"]),
            policy=Policy(repairs=repairs),
        )
        return result.status, result.text, len(stage.asked)

    assert everywhere(scene) == ("malformed", "", asked)


@pytest.mark.parametrize("wire", ["plain", "openai_chat"])
def test_L16_no_stop_reason(wire: str) -> None:
    """Text without calls and without a stop reason is the answer."""
    given, expected = case("L16")
    shape, write = WRITERS[wire]
    words = expected["variants"][2]

    def scene(stage: Stage) -> Any:
        reply = write(given["variants"][2]["repeat"])
        result = stage.run(reply, tools=tools_of(stage, given), wire=shape, budget=Budget(**given["limits"]))
        return result.status, result.text, len(stage.asked)

    assert everywhere(scene) == (STATUSES[words["status"]], words["final"], words["model_calls"])


@pytest.mark.parametrize("wire", ["plain", "openai_chat"])
def test_L17_the_stop_reason_claims_an_end_although_there_are_calls(wire: str) -> None:
    """What the message holds decides: the call is run."""
    given, expected = case("L17")
    shape, write = WRITERS[wire]

    def scene(stage: Stage) -> Any:
        result = stage.run(*map(write, given["script"]), tools=tools_of(stage, given), wire=shape)
        return [one.id for one in result.results if one.outcome == "ok"], result.text, len(stage.asked)

    assert everywhere(scene) == (expected["executed_ids"], expected["final"], expected["model_calls"])


# --- cost -------------------------------------------------------------------------------------------------


def test_L25_a_cost_limit_and_a_model_without_a_price() -> None:
    """The price is unknown, not zero: the run ends with usage_missing before the first call."""
    given, _ = case("L25")

    def price(usage: Usage) -> float | None:
        known: float | None = given["prices"].get(usage.model)
        return known

    def scene(stage: Stage) -> Any:
        result = play(stage, given, budget=Budget(max_cost_usd=given["limits"]["max_cost"]), price=price)
        return result.status, stage.effects, result.spend.unpriced, "1 without cost" in result.explain()

    assert everywhere(scene) == ("usage_missing", [], 1, True)


def test_L25_a_price_that_raises_is_unknown_too() -> None:
    """It is warned of, and never taken for zero."""
    given, _ = case("L25")

    def scene(stage: Stage) -> Any:
        warned: list[str] = []

        def observe(notice: Any) -> None:
            warned.extend([notice.text] if hasattr(notice, "text") else [])

        def price(usage: Usage) -> float:
            raise LookupError(usage.model)

        result = play(stage, given, budget=Budget(max_cost_usd=0.02), price=price, observe=observe)
        return result.status, stage.effects, warned

    assert everywhere(scene) == ("usage_missing", [], [Words("price", "LookupError: m-unknown")])


# --- approval ---------------------------------------------------------------------------------------------


def restored(stage: Stage, result: Result, given: Any) -> Loop:
    """The run in fresh objects, from its JSON."""
    loop = Loop.from_json(result.loop.to_json(), tools=tools_of(stage, given))
    assert (loop.to_json(), loop.snapshot, loop.requests) == (
        result.loop.to_json(),
        result.snapshot,
        result.loop.requests,
    )
    return loop


def test_L27_a_resume_after_approval_runs_nothing_twice() -> None:
    """Two calls are approved and denied in two resumes from JSON: each effect happens once, and the end stays."""
    given, expected = case("L27")
    first, *rest = map(plain, given["script"])

    def scene(stage: Stage) -> Any:
        def only(one: str, verdict: bool) -> Callable[[Any], bool | None]:
            return lambda asked: verdict if asked.id == one else None

        paused = stage.run(first, tools=tools_of(stage, given))
        asked = [[one.id for one in request.calls] for request in paused.requests]
        once = stage.run(prompt=None, loop=restored(stage, paused, given), approve=only("c2", True))
        asked += [[one.id for one in request.calls] for request in once.requests]
        twice = stage.run(*rest, prompt=None, loop=restored(stage, once, given), approve=only("c3", False))
        again = stage.run(prompt=None, loop=restored(stage, twice, given), approve=only("c3", True))
        told = as_expected(again.results, expected["results"])
        return asked, sorted(stage.effects), told, again.text, again.snapshot == twice.snapshot

    assert everywhere(scene) == (
        [["c2", "c3"], ["c3"]],
        [["danger", {}], ["f", {"x": 1}]],
        expected["results"],
        expected["final"],
        True,
    )


def test_L28_what_was_approved_is_what_is_executed() -> None:
    """The saved run holds the call itself: it is executed before any model is asked, with the arguments reviewed."""
    given, expected = case("L28")
    first, last = map(plain, given["script"])
    changed = plain(given["model_if_called_again_first"])

    def scene(stage: Stage) -> Any:
        paused = stage.run(first, tools=tools_of(stage, given))
        reviewed = [one.arguments for request in paused.requests for one in request.calls]

        def model(messages: Any, tools: Any) -> Any:
            return last if stage.effects else changed

        loop = restored(stage, paused, given)
        result = stage.run(model, prompt=None, loop=loop, approve=lambda asked: True)
        return reviewed, stage.effects, len(stage.asked), result.text

    assert everywhere(scene) == ([{"m": "reviewed"}], expected["executed"], 2, "done")


def test_L28_the_arguments_put_to_the_approver_are_its_own() -> None:
    """An approver that changes what it is shown changes nothing of what is executed."""
    given, expected = case("L28")

    def scene(stage: Stage) -> Any:
        def approve(asked: Any) -> bool:
            asked.arguments["m"] = "changed"
            return True

        play(stage, given, approve=approve)
        return stage.effects

    assert everywhere(scene) == expected["executed"]


@pytest.mark.parametrize("stage", [Stage(one) for one in (THREADS, ASYNC_THREADS, ASYNC_TASKS)])
def test_L30_a_saved_run_remembers_the_pending_decision(stage: Stage) -> None:
    """Paused, written as JSON, loaded, approved and resumed, it is not paused again, and the tool runs once."""
    _, expected = case("L30")
    context = {"who": "me"}
    paused = stage.run(call("c1", "pay", amount=5), context=context)
    text = paused.loop.to_json()
    loop = Loop.from_json(text, tools=stage.tools(), context=context)
    same = loop.to_json() == text
    result = stage.run(DONE, prompt=None, loop=loop, approve=lambda asked: True)
    assert (paused.status, same, not result.finished, len(stage.effects), result.status) == (
        "awaiting_approval",
        True,
        expected["paused_again"],
        expected["tool_runs"],
        "answered",
    )


def test_L30_a_round_trip_at_every_rest() -> None:
    """At each event of a run with approval, a failure and a repair, the JSON loads as the same snapshot."""
    stage = Stage(THREADS)
    batch = calls(call("c1", "pay", amount=5), call("c2"), call("c3", "boom"))
    paused = stage.run({"kind": "final"}, batch, policy=Policy(repairs=1, max_parallel=2))
    loop, rests = paused.loop, list[str]()

    def observe(notice: Any) -> None:
        again = Loop.from_json(loop.to_json(), tools=stage.tools())
        rests.append(notice.snapshot.state if again.snapshot == loop.snapshot else "another")

    stage.run(DONE, prompt=None, loop=loop, approve=lambda asked: True, observe=observe)
    assert set(rests) == {
        *("rechecking_cancel", "awaiting_approval", "dispatching", "checking_cancel"),
        *("awaiting_model", "finished_answered"),
    }


def test_L30_an_unknown_version_or_field() -> None:
    """A newer format is refused with a sentence, a field beside the known ones is ignored."""
    stage = Stage(THREADS)
    loop = stage.run(call("c1", "pay", amount=5)).loop
    data = json.loads(loop.to_json())
    loaded = Loop.from_json(json.dumps(data | {"colour": "red"}), tools=stage.tools())
    with pytest.raises(ValueError, match="format 99, which a newer loopmachine wrote; this one reads format 1"):
        Loop.from_json(json.dumps(data | {"format": 99}), tools=stage.tools())
    assert loaded.snapshot == loop.snapshot


# --- polling ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [None, 2, 3])
def test_L32_honest_polling_is_legal(limit: int | None) -> None:
    """Identical calls whose results differ never end a run, with the guard against being stuck or without."""
    given, expected = case("L32")

    def scene(stage: Stage) -> Any:
        result = play(stage, given, policy=Policy(max_identical_turns=limit))
        return result.text, len(stage.effects)

    assert everywhere(scene) == (expected["final"], expected["executed_count"])


@pytest.mark.parametrize(
    ("limit", "status", "ran"), [(None, "step_budget", 5), (1, "stuck", 1), (2, "stuck", 2), (4, "stuck", 4)]
)
def test_L32_the_same_calls_with_the_same_results_are_stuck(limit: int | None, status: str, ran: int) -> None:
    """As often as the policy bears them; without it only the budgets end a run."""

    def scene(stage: Stage) -> Any:
        script = [call(f"c{n}") for n in range(9)]
        result = stage.run(*script, budget=Budget(max_steps=5), policy=Policy(max_identical_turns=limit))
        return result.status, len(stage.effects)

    assert everywhere(scene) == (status, ran)


def test_L32_alternating_calls_end_by_the_budget() -> None:
    """The guard sees only turns in a row: A, B, A, B goes on until the steps are spent, and no longer."""

    def scene(stage: Stage) -> Any:
        script = [call(f"c{n}", n=n % 2) for n in range(9)]
        result = stage.run(*script, budget=Budget(max_steps=6), policy=Policy(max_identical_turns=1))
        return result.status, len(stage.effects)

    assert everywhere(scene) == ("step_budget", 6)
