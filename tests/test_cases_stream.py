"""What went wrong with streams in other loops, case by case: the data is that of the shared cases.json.

Each stream is read from the bytes of its events, put together, and run: what the tools did is what counts.
"""
# ruff: noqa: N802  the ids of the cases are in capitals

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from loopmachine import ANTHROPIC, OPENAI_CHAT, CallResult, History, Policy, Tool, Turn, Usage
from loopmachine.records import Exchange, UserMessage
from loopmachine.wire import GEMINI, WIRES, Wire
from tests.drivers import DONE, Stage, Words, everywhere
from tests.shared import CASES, case, needs_cases

pytestmark = needs_cases
ANYTHING = {"type": "object"}


def body(chunks: list[Any]) -> list[bytes]:
    """The events of a stream, which then just ends, in pieces as no network cuts them worse."""
    written = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode()
    return [written[at : at + 5] for at in range(0, len(written), 5)]


def turn_of(wire: Wire, chunks: list[Any]) -> Turn:
    """The turn that a model makes of it, or the ModelError that it raises."""
    stream = wire.stream()
    for chunk in wire.read(body(chunks)):
        stream.feed(chunk)
    stream.close()
    return stream.turn()


def logging(stage: Stage, names: set[str]) -> list[Tool]:
    """Tools that take anything, and log what they got."""

    def named(name: str) -> Tool:
        def handler(**arguments: Any) -> str:
            stage.effects.append({"name": name, "args": arguments})
            return "done"

        return Tool(name, f"The tool {name}.", ANYTHING, handler)

    return stage.driver.tools([named(name) for name in sorted(names)])


def play(wire: Wire, chunks: list[Any], names: set[str]) -> tuple[str, list[Any], list[Any], Turn]:
    """How a run ends whose first reply is this stream: status, what the tools did, the calls, and the turn."""

    def scene(stage: Stage) -> Any:
        final = Turn("done", wire=wire.name)
        result = stage.run(lambda *_: turn_of(wire, chunks), final, tools=logging(stage, names), wire=wire)
        calls = [(one["id"], one["name"]) for one in result.history if one["kind"] == "call"]
        return result.status, sorted(stage.effects, key=json.dumps), calls, turn_of(wire, chunks)

    told: tuple[str, list[Any], list[Any], Turn] = everywhere(scene)
    return told


def ran(name: str) -> Turn:
    """Play a case whose calls all run: with these arguments, once each, in the order and under the ids expected."""
    given, expect = case(name)
    calls = expect["calls"]
    status, effects, asked, turn = play(
        WIRES[given["wire"]], given.get("chunks") or given["events"], {call["name"] for call in calls}
    )
    did = sorted(({"name": call["name"], "args": call["args"]} for call in calls), key=json.dumps)
    assert (status, effects, asked) == ("answered", did, [(call["id"], call["name"]) for call in calls])
    assert turn.stop == expect.get("finish", turn.stop)
    assert turn.text == expect.get("text", "")
    return turn


def test_S01_two_entries_of_one_index_in_a_chunk() -> None:
    """S01: entries are merged by their index from the first chunk on, never by their place in the list."""
    ran("S01")


def test_S02_no_index() -> None:
    """S02: a piece without an index goes on with the last opened call."""
    ran("S02")


def test_S03_the_first_index_is_not_0() -> None:
    """S03: an index is a key; no call is made of the places before it."""
    ran("S03")


def test_S04_every_call_under_index_0() -> None:
    """S04: another id under a used index is another call."""
    ran("S04")


def test_S06_blank_ids_and_names() -> None:
    """S06: blank means absent: it sets nothing and begins nothing."""
    ran("S06")


def test_S09_the_last_arguments_beside_the_finish_reason() -> None:
    """S09: a delta is taken before the finish reason of the same choice, its name and id repeated."""
    ran("S09")


def test_S10_pieces_of_two_calls_in_turn() -> None:
    """S10: the index says whose a piece is."""
    ran("S10")


def test_S12_chunks_without_choices() -> None:
    """S12: they bring usage and change nothing else."""
    usage = case("S12")[1]["usage"]
    assert ran("S12").usage == Usage(input_tokens=usage["input"], output_tokens=usage["output"])


@pytest.mark.parametrize("variant", [0, 1])
@pytest.mark.parametrize(("retries", "status"), [(0, "model_error"), (1, "answered")])
def test_S13_a_stream_that_dies_in_a_call(variant: int, retries: int, status: str) -> None:
    """S13: however whole its arguments look, nothing runs; the failure can be retried, and says what it was."""
    given, expect = case("S13")
    chunks = given["variants"][variant]["chunks"]
    assert given["variants"][variant]["clean_end"] is False

    def scene(stage: Stage) -> Any:
        result = stage.run(
            lambda *_: turn_of(OPENAI_CHAT, chunks),
            Turn("done", wire="openai-chat"),
            tools=logging(stage, {"write_file"}),
            wire=OPENAI_CHAT,
            policy=Policy(model_retries=retries),
        )
        failure = result.snapshot.events[1]
        return result.status, stage.effects, list(result.history)[1:], failure.code, failure.retryable

    final = [DONE] if retries else []
    assert everywhere(scene) == (status, expect["executed"], final, "stream_cut", True)


def test_S14_a_call_without_arguments_streams_a_blank() -> None:
    """S14: blank, null and absent arguments are none, on either wire."""
    ran("S14")
    entry: dict[str, Any] = {"index": 0, "id": "u1", "function": {"name": "now"}}
    for function in ({}, {"arguments": ""}, {"arguments": None}, {"arguments": " "}):
        delta = {"tool_calls": [entry | {"function": entry["function"] | function}]}
        chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]}]
        status, effects, asked, _ = play(OPENAI_CHAT, chunks, {"now"})
        assert (status, effects, asked) == ("answered", [{"name": "now", "args": {}}], [("u1", "now")])


def test_S17_thinking_goes_back_with_its_signature() -> None:
    """S17: the assistant's blocks are sent as they came, before the results."""
    given, expect = case("S17")

    def scene(stage: Stage) -> Any:
        script = (lambda *_: turn_of(ANTHROPIC, given["events"])), Turn("done", wire="anthropic")
        stage.run(*script, tools=logging(stage, {"w"}), wire=ANTHROPIC)
        return stage.asked[1][1:]

    assert everywhere(scene) == [
        {"role": "assistant", "content": expect["assistant_blocks"]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "u1", "content": "done", "is_error": False}],
        },
    ]


@pytest.mark.parametrize("variant", [0, 1, 2])
def test_L19_an_abort_of_gemini_is_no_empty_success(variant: int) -> None:
    """L19: streamed too, it is malformed with the reason and the words of the provider, and no call of it runs."""
    given, expect = case("L19")
    chunk = given["variants"][variant]
    (candidate,) = chunk["candidates"]

    def scene(stage: Stage) -> Any:
        result = stage.run(lambda *_: turn_of(GEMINI, [chunk]), tools=logging(stage, {"f", "g"}), wire=GEMINI)
        return result.status, stage.effects, result.snapshot.turn and result.snapshot.turn.fault

    words = [candidate[field] for field in ("finishReason", "finishMessage") if field in candidate]
    assert everywhere(scene) == ("malformed", expect["executed"], Words(*words))


def test_L22_results_of_gemini_go_back_together() -> None:
    """L22: of calls that came in one chunk each, the results are parts of one content, in call order."""
    given, expect = case("L22")
    parts = [{"functionCall": call} for call in given["calls"]]
    chunks: list[Any] = [{"candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in parts]
    chunks[-1]["candidates"][0]["finishReason"] = "STOP"

    def scene(stage: Stage) -> Any:
        stage.run(
            lambda *_: turn_of(GEMINI, chunks),
            Turn("done", wire="gemini"),
            tools=logging(stage, {"f", "g"}),
            wire=GEMINI,
        )
        return stage.asked[1][1:]

    said, answered = everywhere(scene)
    asked, told = expect["contents_tail"]
    assert (said["role"], len(said["parts"])) == (asked["role"], asked["function_calls"])
    assert answered["role"] == told["role"]
    assert [part["functionResponse"]["name"] for part in answered["parts"]] == told["function_responses"]


def test_L23_text_comes_after_the_results() -> None:
    """L23: what the user says after a streamed turn's results stands behind all of them."""
    given, expect = case("L23")
    ids, hurry = given["after_round"]["calls"], given["after_round"]["extra_user_text"]
    blocks = [{"type": "tool_use", "id": one, "name": "f", "input": {}} for one in ids]
    starts = [{"type": "content_block_start", "index": at, "content_block": block} for at, block in enumerate(blocks)]
    turn = turn_of(ANTHROPIC, [*starts, {"type": "message_stop"}])
    results = tuple(CallResult.of(call, "ok", "done") for call in turn.calls)
    _, said, *after = ANTHROPIC.encode(
        History([UserMessage("Go."), Exchange(turn, results), UserMessage(hurry)])
    ).messages
    assert ([block["id"] for block in said["content"]], {message["role"] for message in after}) == (ids, {"user"})
    assert [one for message in after for one in blocks_of(message)] == expect["next_user_blocks"]


def blocks_of(message: dict[str, Any]) -> list[str]:
    """The blocks of a user's message in the words of the case; consecutive messages are one turn of the user."""
    if isinstance(message["content"], str):
        return [f"text {message['content']}"]
    return [f"{block['type']} {block['tool_use_id']}" for block in message["content"]]


def test_every_case_is_run_by_a_test_of_its_name() -> None:
    """The ids in the names of the tests are exactly those of the cases."""
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    named = set(re.findall(r"def test_([A-Z]\d{2})_", tests))
    assert named == {one["id"] for one in json.loads(CASES.read_text())["cases"]}
