"""assert_paired finds the first call or result that is not paired, in the messages of any wire."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessage
from openai.types.responses import ResponseFunctionToolCall

from loopmachine import Call, CallResult, History, Turn
from loopmachine.records import Exchange, Final, UserMessage
from loopmachine.testing import assert_paired
from loopmachine.wire import GEMINI, WIRES, Wire

CALLS = tuple(Call(one, "look", place=place) for place, one in enumerate(["a", "b"]))
HISTORY = History(
    [
        UserMessage("go"),
        Exchange(Turn("Hm.", CALLS), tuple(CallResult.of(one, "ok", "1") for one in CALLS)),
        Exchange(Turn("", CALLS[:1]), (CallResult.of(CALLS[0], "failed", "2"),)),
        Final(Turn("Done.")),
    ]
)
ALL = WIRES.values()


def said_by(wire: Wire) -> list[dict[str, Any]]:
    """The history in the shape of a wire, after which the user speaks again."""
    return [*wire.encode(HISTORY).messages, wire.encode(History([UserMessage("more")])).messages[0]]


@pytest.mark.parametrize("wire", ALL, ids=str)
def test_a_history_is_paired_in_the_shape_of_every_wire(wire: Wire) -> None:
    """As it is itself, and as nothing is."""
    assert_paired(said_by(wire))
    assert_paired(HISTORY)
    assert_paired([])


def results(message: dict[str, Any]) -> list[Any] | None:
    """The results that share a message, None where it is not of that kind."""
    content = message.get("content", message.get("parts"))
    if not isinstance(content, list):
        return None
    found = [one for one in content if one.get("type") == "tool_result" or "functionResponse" in one]
    return content if found else None


def is_result(message: dict[str, Any]) -> bool:
    """Whether a message is a result."""
    kind = message.get("kind", message.get("type", message.get("role")))
    return kind in ("tool_result", "function_call_output", "tool")


def without_result(wire: Wire, which: int) -> list[dict[str, Any]]:
    """The messages of a wire without one of their results."""
    messages = said_by(wire)
    shared = [found for one in messages if (found := results(one))]
    if shared:
        shared[0].pop(which)
    else:
        del messages[[place for place, one in enumerate(messages) if is_result(one)][which]]
    return messages


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("wire", ALL, ids=str)
def test_a_call_without_a_result_is_named(wire: Wire, which: int) -> None:
    """Whichever of two it is; a Gemini call without an id by its name."""
    with pytest.raises(AssertionError) as caught:
        assert_paired(without_result(wire, which))
    named = "call without an id (look)" if wire is GEMINI else f"call {'ab'[which]!r} (look)"
    assert str(caught.value).partition(": ")[2] == f"the {named} has no result"


def asks(*ids: str) -> dict[str, Any]:
    """A turn of OpenAI's chat with these calls."""
    return {"role": "assistant", "tool_calls": [{"id": one, "function": {"name": "look"}} for one in ids]}


def answers(one: str) -> dict[str, Any]:
    """A result of OpenAI's chat."""
    return {"role": "tool", "tool_call_id": one, "content": "1"}


USER = {"role": "user", "content": "go"}
FUNCTION = {"type": "function_call", "call_id": "a", "name": "look"}
OUTPUT = {"type": "function_call_output", "call_id": "a", "output": "1"}


USES = [{"type": "tool_use", "id": one, "name": "look", "input": {}} for one in "ab"]
BROUGHT = [{"type": "tool_result", "tool_use_id": one, "content": "1"} for one in "ab"]
HURRY = {"type": "text", "text": "Hurry."}


def gemini(*parts: dict[str, Any]) -> dict[str, Any]:
    """A content of Gemini."""
    return {"role": "user", "parts": list(parts)}


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([answers("a")], "messages[0]: the result 'a' answers no call that waits for one"),
        ([asks("a"), answers("b")], "messages[1]: the result 'b' answers no call that waits for one"),
        ([asks("a"), answers("a"), answers("a")], "messages[2]: the result 'a' answers no call that waits for one"),
        ([asks("a")], "messages[0]: the call 'a' (look) has no result"),
        ([USER, asks("a"), USER, answers("a")], "messages[1]: the call 'a' (look) has no result"),
        ([asks("a", "b"), answers("a"), USER], "messages[0]: the call 'b' (look) has no result"),
        ([asks("a"), asks("b"), answers("a"), answers("b")], "messages[0]: the call 'a' (look) has no result"),
        ([asks("a", "a"), answers("a"), answers("a")], "messages[0]: the call 'a' (look) has the id of another call"),
        ([asks(""), answers("")], "messages[0]: a call without an id (look)"),
        ([{"role": "assistant", "tool_calls": [{"id": None}]}], "messages[0]: a call without an id"),
        ([FUNCTION, USER | {"type": "message"}, OUTPUT], "messages[0]: the call 'a' (look) has no result"),
        ([FUNCTION, USER, OUTPUT], "messages[0]: the call 'a' (look) has no result"),
        ([FUNCTION, FUNCTION | {"call_id": "b"}, OUTPUT, FUNCTION], "messages[1]: the call 'b' (look) has no result"),
        (
            [gemini({"functionCall": {"name": "look"}}), gemini({"functionResponse": {"name": "see"}})],
            "messages[1]: the result without an id (see) answers no call that waits for one",
        ),
        (
            [
                gemini({"functionCall": {"name": "look", "id": "a"}}),
                gemini({"functionResponse": {"name": "see", "id": "a"}}),
            ],
            "messages[1]: the result 'a' (see) answers no call that waits for one",
        ),
        *(
            (
                [{"role": "assistant", "content": [USES[0], USES[1]]}, {"role": "user", "content": list(blocks)}],
                f"messages[1]: in front of the result {late!r} stands what is none, in the same message",
            )
            for late, *blocks in (("a", HURRY, *BROUGHT), ("b", BROUGHT[0], HURRY, BROUGHT[1]))
        ),
    ],
)
def test_the_first_fault_is_named(messages: list[dict[str, Any]], fault: str) -> None:
    """By its message, its id and its name."""
    with pytest.raises(AssertionError) as caught:
        assert_paired(messages)
    assert str(caught.value) == fault


@pytest.mark.parametrize(
    "messages",
    [
        [asks("a", "b"), answers("b"), answers("a"), asks("a"), answers("a")],
        [FUNCTION, {"type": "reasoning", "id": "rs"}, FUNCTION | {"call_id": "b"}, OUTPUT, OUTPUT | {"call_id": "b"}],
        [{"parts": [{"function_call": {"name": "look"}}]}, gemini({"function_response": {"name": "look"}})],
        [{"role": "user", "content": ["text", 5]}, {"role": "user", "content": 5, "tool_calls": 5, "parts": 5}],
        [
            ChatCompletionMessage.model_validate(
                asks("a")
                | {
                    "tool_calls": [
                        asks("a")["tool_calls"][0]
                        | {"type": "function", "function": {"name": "look", "arguments": "{}"}}
                    ]
                }
            ),
            answers("a"),
        ],
        [ResponseFunctionToolCall(call_id="a", name="look", arguments="{}", type="function_call"), OUTPUT],
        [{"role": "assistant", "content": [HURRY, *USES]}, {"role": "user", "content": [*BROUGHT, HURRY]}],
    ],
    ids=["any order", "items between", "the SDK's spelling", "nonsense", "a message", "an item", "text behind"],
)
def test_what_is_paired_passes(messages: list[Any]) -> None:
    """Results of one turn in any order, items of one turn among its calls, ids of an earlier turn, an SDK's objects."""
    assert_paired(messages)


def test_blocks_may_be_an_sdks_objects() -> None:
    """As hand-written code sends back the content of a reply."""

    class Block:
        def model_dump(self, **options: Any) -> dict[str, Any]:
            return {"type": "tool_use", "id": "a", "name": "look", "input": {}}

    said = {"role": "assistant", "content": [Block()]}
    assert_paired([said, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}])
    with pytest.raises(AssertionError, match=r"messages\[0\]: the call 'a' \(look\) has no result"):
        assert_paired([said])


def test_what_is_no_message_is_refused() -> None:
    """By its place."""
    with pytest.raises(TypeError, match=r"messages\[1\]: it must be a message, not str"):
        assert_paired([USER, "go"])  # type: ignore[list-item]


@pytest.mark.parametrize("wrong", [None, 5])
def test_what_is_no_history_is_refused(wrong: Any) -> None:
    """With what would be right."""
    with pytest.raises(TypeError, match=f"assert_paired takes a History or a list of messages, not {wrong}$"):
        assert_paired(wrong)
