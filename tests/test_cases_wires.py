"""What went wrong on other wires, case by case: the data is that of the shared cases.json."""
# ruff: noqa: N802  the ids of the cases are in capitals

from __future__ import annotations

from typing import Any

import pytest

from loopmachine import History, Loop, Policy, run
from loopmachine.history import Entry
from loopmachine.records import Call, CallResult, Exchange, Final, Turn, UserMessage
from loopmachine.requests import AskModel
from loopmachine.wire import ANTHROPIC, GEMINI, WIRES, Wire
from tests.drivers import DONE, THREADS, Stage, everywhere
from tests.refusals import refused
from tests.shared import case, needs_cases, tools_of
from tests.test_wire_base import PROVIDERS, REPLIES, exchange

pytestmark = needs_cases


@pytest.mark.parametrize("number", [0, 1, 2])
def test_L19_a_call_that_the_provider_gave_up(number: int) -> None:
    """The run ends malformed with the raw reason and message, and nothing of the payload runs."""
    given, expected = case("L19")
    reply = given["variants"][number]
    (candidate,) = reply["candidates"]
    said = [candidate["finishReason"], *([candidate["finishMessage"]] if "finishMessage" in candidate else [])]

    def scene(stage: Stage) -> Any:
        result = stage.run(reply, tools=tools_of(stage, given), wire=GEMINI)
        assert result.loop.snapshot.turn is not None
        return result.status, stage.effects, result.loop.snapshot.turn.stop, result.loop.snapshot.turn.fault

    fault = f"the provider stopped it: {': '.join(said)}"
    assert everywhere(scene) == ("malformed", expected["executed"], said[0], fault)


def test_L19_repaired() -> None:
    """Under a policy that repairs, the model is told what was wrong in the provider's words, and may answer."""
    given, _ = case("L19")
    answer = {"candidates": [{"content": {"parts": [{"text": "done"}]}, "finishReason": "STOP"}]}

    def scene(stage: Stage) -> Any:
        script = given["variants"][0], answer
        result = stage.run(*script, tools=tools_of(stage, given), wire=GEMINI, policy=Policy(repairs=1))
        return result.status, stage.effects, "MALFORMED_FUNCTION_CALL: bad call" in str(stage.asked[-1][-1])

    assert everywhere(scene) == ("answered", [], True)


def rounds(wire: Wire, number: int) -> list[Any]:
    """The messages of the case, as often as that, with other ids each time, and the system text if it is one."""
    entries: list[Entry] = []
    for one in range(number):
        turn = Turn(calls=(Call(f"c{one}a", "f"), Call(f"c{one}b", "f", place=1)))
        results = tuple(CallResult.of(call, "ok", "1") for call in turn.calls)
        entries += [UserMessage("one"), Exchange(turn, results), Final(Turn("text")), UserMessage("two")]
    return wire.encode(History(entries), (), "Be brief.").messages


#: How many of two rounds' entries, of which each but the exchange is one message, a tail keeps: with what a user said
#: in front, and no exchange in parts.
KEPT = {0: 0, **dict.fromkeys(range(1, 7), 1), 7: 4, **dict.fromkeys(range(8, 14), 5), 14: 8, 99: 8}


@pytest.mark.parametrize("wire", WIRES.values(), ids=repr)
def test_L21_a_history_is_cut_only_between_exchanges(wire: Wire) -> None:
    """Whatever is kept, calls and results stay together in what a model is sent, in front of it the system text."""
    given, _ = case("L21")
    aside = wire.aside("Be brief.")
    first = Loop(rounds(wire, 2), wire=wire, system="Be brief." if aside else None, at=0.0)
    assert {most: len(first.snapshot.history.tail(most).entries) for most in KEPT} == KEPT
    assert set(given["keep_last"]) < KEPT.keys()
    for most in KEPT:
        seen: list[Any] = []

        def model(messages: Any, tools: Any, ask: AskModel, seen: list[Any] = seen) -> Any:
            seen.append((list(messages), ask.system))
            return REPLIES[wire]("Done.", 0, None)

        run(model, "three", history=first.snapshot.history.tail(most), system=first.system, wire=wire)
        ((messages, system),) = seen
        lead = wire.lead("Be brief.")
        assert (refused(wire, messages), messages[: len(lead)], system) == ("", lead, aside)


def test_L22_all_parallel_results_are_in_one_content() -> None:
    """One part a call, in the order of the calls, right after the model's content."""
    given, expected = case("L22")
    parts = [{"functionCall": call} for call in given["calls"]]
    turn = GEMINI.decode({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]})
    messages = GEMINI.entry(exchange(turn, *(("ok", one) for one in given["results"])))
    calls, answers = ([part[kind] for part in said["parts"]] for said, kind in zip(messages, KINDS, strict=True))
    assert [
        {"role": messages[0]["role"], "function_calls": len(calls)},
        {"role": messages[1]["role"], "function_responses": [one["name"] for one in answers]},
    ] == expected["contents_tail"]
    assert [one["response"] for one in answers] == [{"result": one} for one in given["results"]]


KINDS = ("functionCall", "functionResponse")


def test_L23_what_the_user_says_after_a_round_stands_after_its_results() -> None:
    """The results come first and all together; consecutive messages of the user are one turn to the server."""
    given, expected = case("L23")
    blocks = [{"type": "tool_use", "id": one, "name": "f", "input": {}} for one in given["after_round"]["calls"]]
    turn = ANTHROPIC.decode({"content": blocks})
    extra = UserMessage(given["after_round"]["extra_user_text"])
    round_of_two = exchange(turn, ("ok", "1"), ("ok", "2"))
    _, said, *users = ANTHROPIC.encode(History([UserMessage("Go."), round_of_two, extra])).messages
    contents = [one["content"] for one in users]
    flat = [
        f"tool_result {block['tool_use_id']}" if isinstance(block, dict) else f"text {block}"
        for content in contents
        for block in (content if isinstance(content, list) else [content])
    ]
    assert (said["role"], {one["role"] for one in users}, flat) == ("assistant", {"user"}, expected["next_user_blocks"])


@pytest.mark.parametrize("wire", PROVIDERS, ids=repr)
def test_L23_handed_in_between_the_results_it_is_refused(wire: Any) -> None:
    """A list of messages in which the user speaks before the results is no prompt."""
    turn = Turn(calls=(Call("u1", "f"), Call("u2", "f", place=1)))
    messages = wire.entry(exchange(turn, ("ok", "1"), ("ok", "2")))
    messages.insert(-1, wire.entry(UserMessage("hurry"))[0])
    with pytest.raises(ValueError, match="nothing goes in front of their results or between them"):
        wire.history(messages)


def test_the_loop_goes_on_from_a_tail() -> None:
    """A run takes what a tail kept as its history."""
    history = History([UserMessage("one"), Final(Turn("x")), UserMessage("two"), Final(Turn("y"))])
    stage = Stage(THREADS)
    stage.run(DONE, prompt="three", history=history.tail(3))
    assert [message["text"] for message in stage.asked[0]] == ["two", "y", "three"]
