"""ANTHROPIC: content blocks, replayed as they came."""

from __future__ import annotations

import copy
from typing import Any, get_args

from anthropic.types import StopReason
from anthropic.types.beta import BetaStopReason

from loopmachine.kinds import STOP_REASONS
from loopmachine.limits import Usage
from loopmachine.records import OUTCOMES, Call, Final, Note, Turn, UserMessage
from loopmachine.wire import ANTHROPIC
from tests.test_wire_base import exchange, identified, renamed, sent

THINKING = {"type": "thinking", "thinking": "It is an addition.", "signature": "EqQBCkYIBxgC=="}
REDACTED = {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix="}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "sums"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"url": "x", "page_age": None}]}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def use(one: str | None, arguments: Any, name: str = "add") -> dict[str, Any]:
    return {"type": "tool_use", "id": one, "name": name, "input": arguments}


def reply(*blocks: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks), **fields}


def result(one: str, content: str, is_error: bool = False) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": one, "content": content, "is_error": is_error}


def test_one_call() -> None:
    """The blocks go back as they were received, then the result in a message of the user."""
    blocks = [text("Adding."), use("toolu_1", {"a": 1, "b": None})]
    entry = exchange(ANTHROPIC.decode(reply(*blocks)), ("ok", "1"))
    assert sent(ANTHROPIC, UserMessage("Add."), entry, system="Be brief.") == [
        {"role": "user", "content": "Add."},
        {"role": "assistant", "content": blocks},
        {"role": "user", "content": [result("toolu_1", "1")]},
    ]


def test_two_calls_one_failing_and_a_user_message() -> None:
    """All results of a turn are in one message, in the order asked for; the user goes on in the next."""
    blocks = [use("toolu_1", {"a": 1}), use("toolu_2", {"a": 2})]
    entry = exchange(ANTHROPIC.decode(reply(*blocks)), ("ok", "1"), ("failed", "ValueError: no"))
    final = ANTHROPIC.decode(reply(text("One."), text("\n"), text(" And no."), stop_reason="end_turn"))
    assert sent(ANTHROPIC, entry, UserMessage("And?"), Note("It could not be used."), Final(final)) == [
        {"role": "assistant", "content": blocks},
        {"role": "user", "content": [result("toolu_1", "1"), result("toolu_2", "ValueError: no", True)]},
        {"role": "user", "content": "And?"},
        {"role": "user", "content": "It could not be used."},
        {"role": "assistant", "content": [text("One."), text(" And no.")]},
    ]


def test_every_outcome_but_ok_is_an_error() -> None:
    """The model is told by is_error whether its call brought what it asked for."""
    turn = ANTHROPIC.decode(reply(*(use(f"t{n}", {}) for n in range(len(OUTCOMES)))))
    answers = sent(ANTHROPIC, exchange(turn, *((one, "") for one in OUTCOMES)))[1]["content"]
    assert [(one, answer["is_error"]) for one, answer in zip(OUTCOMES, answers, strict=True)] == [
        (one, one != "ok") for one in OUTCOMES
    ]


def test_what_only_the_provider_understands_goes_back_in_place() -> None:
    """Thinking with its signature, empty too, what the server ran and unknown blocks and fields are sent unchanged."""
    blocks: list[dict[str, Any]] = [
        THINKING | {"new": [1.0, None]},
        REDACTED,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "redacted_thinking", "data": ""},
        SEARCH,
        FOUND,
        text("Adding.") | {"citations": None},
        use("toolu_1", {"z": 1, "a": {"deep": [12345678901234567890123, 1.50]}}) | {"caller": {"type": "direct"}},
        {"type": "brand_new", "value": {"b": 1, "a": 2}},
    ]
    turn = ANTHROPIC.decode(copy.deepcopy(reply(*blocks, stop_reason="tool_use")))
    assert sent(ANTHROPIC, exchange(turn, ("ok", "1"))) == [
        {"role": "assistant", "content": blocks},
        {"role": "user", "content": [result("toolu_1", "1")]},
    ]
    assert turn.payload == blocks
    assert [list(block) for block in turn.payload] == [list(block) for block in blocks]
    assert [call.name for call in turn.calls] == ["add"]


def test_ids_that_are_absent_or_used_before_are_sent_as_the_loop_made_them() -> None:
    """Calls are matched to blocks by their order, and the same id stands in the block and in its result."""
    blocks = [use(None, {}), use(" ", {}), {"type": "tool_use", "name": "add", "input": {}}, use("toolu_1", {})]
    turn = ANTHROPIC.decode(reply(*blocks))
    assert [call.id for call in turn.calls] == ["", "", "", "toolu_1"]
    made = renamed(identified(turn, "m0", "m1", "m2", "toolu_1"), "", "", "", "r3")
    assert sent(ANTHROPIC, exchange(made, *[("ok", "1")] * 4)) == [
        {"role": "assistant", "content": [use(one, {}) for one in ("m0", "m1", "m2", "r3")]},
        {"role": "user", "content": [result(one, "1") for one in ("m0", "m1", "m2", "r3")]},
    ]


def test_input_that_is_no_object_is_sent_as_one() -> None:
    """Text is taken as JSON text; what goes back is the object it holds, or an empty one."""
    inputs = ['{"a": 1}', '{"a": ', "[1]", "", None, {"a": float("nan")}]
    turn = ANTHROPIC.decode(reply(*(use(f"t{n}", one) for n, one in enumerate(inputs))))
    messages = sent(ANTHROPIC, exchange(turn, *[("ok", "")] * 6))
    assert [call.arguments_text for call in turn.calls] == ['{"a": 1}', '{"a": ', "[1]", "", "{}", '{"a":NaN}']
    assert [block["input"] for block in messages[0]["content"]] == [{"a": 1}, {}, {}, {}, {}, {}]


def test_a_text_block_that_says_nothing_is_not_sent() -> None:
    """The provider sends blank text blocks at times and refuses to be sent one."""
    turn = ANTHROPIC.decode(reply(text(""), use("t1", {}), text(" \n")))
    by_hand = Turn(" ", (Call("t1", "add"),))
    assert sent(ANTHROPIC, exchange(turn, ("ok", "1")))[0] == {"role": "assistant", "content": [use("t1", {})]}
    assert sent(ANTHROPIC, exchange(by_hand, ("ok", "1")))[0] == {"role": "assistant", "content": [use("t1", {})]}
    assert turn.payload == [text(""), use("t1", {}), text(" \n")]


def test_a_whole_message() -> None:
    """Text blocks are joined, tool_use blocks are the calls, stop reason and model are kept word for word."""
    cached = {"cache_read_input_tokens": 268, "cache_creation_input_tokens": 3}
    usage = {"input_tokens": 1, **cached, "output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}}
    message = reply(
        THINKING,
        text("Let me "),
        use("toolu_1", {"a": 1}),
        text("see."),
        use("toolu_2", None, "look"),
        id="msg_1",
        model="claude",
        stop_reason="tool_use",
        usage=usage,
    )
    turn = ANTHROPIC.decode(message)
    assert turn == Turn(
        "Let me see.",
        (Call("toolu_1", "add", '{"a":1}'), Call("toolu_2", "look", "{}", place=1)),
        "tool_use",
        Usage(input_tokens=272, output_tokens=9, cached_tokens=268, reasoning_tokens=4, model="claude"),
        turn.payload_text,
        "anthropic",
    )
    assert turn.payload == message["content"]


def test_input_tokens_count_the_cache() -> None:
    """What a cache read and wrote is part of the input; absent or null is nothing, a bad count makes it unknown."""
    read, wrote = "cache_read_input_tokens", "cache_creation_input_tokens"
    given: list[tuple[dict[str, Any], int | None, int | None]] = [
        ({"input_tokens": 5}, 5, None),
        ({"input_tokens": 5, read: None, wrote: None}, 5, None),
        ({"input_tokens": 5, read: 2, wrote: 3}, 10, 2),
        ({"input_tokens": 5, read: 0}, 5, 0),
        ({"input_tokens": 5, read: "2"}, None, None),
        ({"input_tokens": 5, wrote: -1}, None, None),
        ({read: 2}, None, 2),
        ({}, None, None),
    ]
    found = [ANTHROPIC.decode(reply(text("x"), usage=usage)).usage for usage, _, _ in given]
    assert found == [Usage(input_tokens=total, cached_tokens=cached) for _, total, cached in given]


class Message:
    """An SDK's message: it knows what the server sent, and has fields of its own."""

    def __init__(self, **body: Any) -> None:
        self.body = body

    def model_dump(self, *, mode: str, by_alias: bool, exclude_unset: bool, warnings: bool) -> dict[str, Any]:
        asked = (mode, by_alias, exclude_unset, warnings)
        return self.body if asked == ("json", True, True, False) else self.body | {"container": None, "asked": asked}


def test_an_sdk_object_is_read_as_the_server_sent_it() -> None:
    """The payload holds the fields that the server sent and none that the SDK knows besides."""
    body = reply(text("Done."), stop_reason="end_turn")
    assert ANTHROPIC.decode(Message(**body)) == ANTHROPIC.decode(body)
    assert Message().model_dump(mode="python", by_alias=True, exclude_unset=True, warnings=False)["container"] is None


def test_malformed_messages() -> None:
    """Each message that can't be used has a fault that begins with the field."""
    blank = "text: it is blank and there are no calls"
    faults: list[tuple[Any, str]] = [
        ("done", "reply: it must be a mapping, an SDK's object or a Turn, not str"),
        (
            {"type": "error", "error": {"type": "overloaded_error"}},
            "error: the provider answered with an error, for which a model raises ModelError: overloaded_error",
        ),
        ({"content": None}, "content: it is missing"),
        ({"content": "done"}, "content: it must be a list of blocks, not str"),
        ({"content": {"type": "text"}}, "content: it must be a list of blocks, not dict"),
        ({"content": object()}, "content: it is no JSON (TypeError)"),
        ({"content": []}, blank),
        (reply(THINKING), blank),
        (reply(SEARCH, FOUND), blank),
        (reply(text("x"), "y"), "content[1]: it must be a block, an object, not str"),
        (reply(text("x"), {"text": "y"}), "content[1].type: it is missing"),
        (reply({"type": 5}), "content[0].type: it must be a string, not int"),
        (reply({"type": "text"}), "content[0].text: it is missing"),
        (reply(text("x"), use("t", {}, "")), "content[1].name: it is blank"),
        (reply(text("x"), {"type": "tool_use", "id": 5, "name": "f"}), "content[1].id: it must be a string, not int"),
        (reply(use("t", [1])), "content[0].input: it must be an object or JSON text, not list"),
        (
            reply(text("x"), stop_reason="tool_use"),
            "calls: the stop reason 'tool_use' claims calls, but there are none",
        ),
    ]
    assert [(given, ANTHROPIC.decode(given).fault) for given, _ in faults] == faults


def test_a_malformed_message_is_kept() -> None:
    """What the provider sent stands in the payload also where it can't be used."""
    turn = ANTHROPIC.decode(reply(text("x"), {"type": "tool_use"}))
    assert (turn.kind, turn.text, turn.payload) == ("malformed", "x", [text("x"), {"type": "tool_use"}])


def test_a_refusal_needs_no_content() -> None:
    """A stop reason that aborts is enough."""
    given = [{"stop_reason": "refusal", "content": []}, {"stop_reason": "refusal"}, {"stop_reason": "max_tokens"}]
    assert [ANTHROPIC.decode(one).kind for one in given] == ["refused", "refused", "truncated"]


def test_every_reason_of_the_sdk_is_in_the_table() -> None:
    """What a message may stop for is listed, in the beta too."""
    known = [*get_args(StopReason), *get_args(BetaStopReason)]
    assert (len(known), [one for one in known if one not in STOP_REASONS]) == (15, [])
