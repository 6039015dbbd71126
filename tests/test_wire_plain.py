"""PLAIN: the library's own shape, in whole sequences."""

from __future__ import annotations

from collections import UserDict
from types import MappingProxyType
from typing import Any

import pytest

from loopmachine.history import History
from loopmachine.limits import Usage
from loopmachine.records import Call, Exchange, Final, Note, Turn, UserMessage
from loopmachine.wire import PLAIN
from tests.test_wire_base import exchange, renamed, sent

CALL: dict[str, Any] = {"kind": "call", "id": "c1", "name": "add", "arguments": {"a": 1}}


def turn(**fields: Any) -> Turn:
    return Turn(wire="plain", **fields)


def test_one_call_alone_is_made_as_the_caller_says() -> None:
    """The commonest reply, too, asks who decodes for its call, and lets through what that raises."""
    made = (Call("another", "made", step=7),)

    def maker(asked: Any) -> tuple[Call, ...]:
        return {(("c1", "add", '{"a":1}'),): made}[asked]

    assert PLAIN.decode(CALL, maker).calls == made
    with pytest.raises(KeyError):
        PLAIN.decode(CALL | {"id": "c2"}, maker)


def test_a_whole_history() -> None:
    """Of a turn first its text, then all its calls, then all their results; what was used twice bears its new id."""
    asked = PLAIN.decode({"kind": "calls", "calls": [CALL, CALL | {"id": "c2"}], "text": "Adding."})
    again = renamed(PLAIN.decode(CALL | {"arguments": {"a": 2}}), "c1_s2_0")
    entries = (
        UserMessage("Add."),
        exchange(asked, ("ok", "1"), ("failed", "ValueError: no")),
        UserMessage("Once more."),
        exchange(again, ("ok", "2")),
        Note("Your last reply could not be used."),
        Final(PLAIN.decode({"kind": "final", "text": "Two."})),
    )
    messages = [
        {"kind": "system", "text": "Be brief."},
        {"kind": "user", "text": "Add."},
        {"kind": "text", "text": "Adding."},
        {"kind": "call", "id": "c1", "name": "add", "arguments": {"a": 1}},
        {"kind": "call", "id": "c2", "name": "add", "arguments": {"a": 1}},
        {"kind": "tool_result", "id": "c1", "content": "1", "outcome": "ok"},
        {"kind": "tool_result", "id": "c2", "content": "ValueError: no", "outcome": "failed"},
        {"kind": "user", "text": "Once more."},
        {"kind": "call", "id": "c1_s2_0", "name": "add", "arguments": {"a": 2}},
        {"kind": "tool_result", "id": "c1_s2_0", "content": "2", "outcome": "ok"},
        {"kind": "note", "text": "Your last reply could not be used."},
        {"kind": "final", "text": "Two."},
    ]
    assert sent(PLAIN, *entries, system="Be brief.") == messages
    assert list(History(entries)) == messages[1:]


def test_arguments_that_are_no_object_are_sent_as_none() -> None:
    """The history keeps what the model wrote; what is sent is an object."""
    written = ["{", "[1]", "5", "", "null", '{"a": NaN}', '{"a": "\\ud800"}', "[" * 100_000, '{"a": 1}']
    calls = [CALL | {"id": f"c{place}", "arguments": one} for place, one in enumerate(written)]
    entry = exchange(PLAIN.decode({"kind": "calls", "calls": calls}), *[("ok", "")] * len(calls))
    assert [call.arguments_text for call in entry.turn.calls] == written
    assert [message["arguments"] for message in sent(PLAIN, entry) if message["kind"] == "call"] == [
        *[{}] * 8,
        {"a": 1},
    ]


def test_replies_that_answer_or_ask() -> None:
    """Both dialects give the same turns, which hold what was written and no payload."""
    two: list[dict[str, Any]] = [{"id": "c1", "name": "add", "arguments": {"a": 1}}, {"id": "c2", "name": "add"}]
    calls = (Call("c1", "add", '{"a":1}'), Call("c2", "add", "{}", place=1))
    replies: list[Any] = [
        {"kind": "final", "text": "Two."},
        {"kind": "text", "content": "Two."},
        {"kind": "final", "text": "Two.", "calls": [], "name": "", "arguments": None, "extra": 5},
        CALL,
        MappingProxyType(CALL | {"arguments": MappingProxyType({"a": 1})}),
        UserDict(CALL | {"arguments": '{"a":1}', "text": None, "stop": None}),
        CALL | {"arguments": None, "text": "Adding.", "stop": "because"},
        {"kind": "calls", "calls": two},
        {"kind": "calls", "calls": tuple(two), "text": "Adding."},
        {"kind": "tool_calls", "calls": [MappingProxyType(one) for one in two]},
        {"kind": "tool_calls", "calls": two, "content": "Adding."},
        {"kind": "tool_calls", "calls": two, "text": "Adding."},
    ]
    assert [PLAIN.decode(reply) for reply in replies] == [
        turn(text="Two."),
        turn(text="Two."),
        turn(text="Two."),
        turn(calls=calls[:1]),
        turn(calls=calls[:1]),
        turn(calls=calls[:1]),
        turn(calls=(Call("c1", "add", "{}"),), text="Adding.", stop="because"),
        turn(calls=calls),
        turn(calls=calls, text="Adding."),
        turn(calls=calls),
        turn(calls=calls, text="Adding."),
        turn(calls=calls, text="Adding."),
    ]


KINDS = "it must be one of 'final', 'text', 'call', 'calls', 'tool_calls', not"


def test_malformed_replies() -> None:
    """Each reply that can't be used has a fault that begins with the field."""
    second = {"id": "c2", "name": "add", "arguments": {}}
    faults: list[tuple[Any, str]] = [
        ("done", "reply: it must be a mapping or a Turn, not str"),
        (None, "reply: it must be a mapping or a Turn, not null"),
        ([CALL], "reply: it must be a mapping or a Turn, not list"),
        ({}, f"kind: {KINDS} None"),
        ({"kind": "answer", "text": "x"}, f"kind: {KINDS} 'answer'"),
        ({"kind": ["final"]}, f"kind: {KINDS} ['final']"),
        ({"kind": "final"}, "text: it is missing"),
        ({"kind": "final", "text": ""}, "text: it is blank"),
        ({"kind": "final", "text": " \n"}, "text: it is blank"),
        ({"kind": "final", "text": 5}, "text: it must be a string, not int"),
        ({"kind": "text", "text": "x"}, "content: it is missing"),
        ({"kind": "text", "content": " "}, "content: it is blank"),
        ({"kind": "final", "text": "x", "calls": [second]}, "calls: an answer brings none"),
        ({"kind": "final", "text": "x", "name": "add"}, "name: a reply of the kind 'final' has none of its own"),
        (
            {"kind": "text", "content": "x", "arguments": {"a": 1}},
            "arguments: a reply of the kind 'text' has none of its own",
        ),
        (
            {"kind": "final", "text": "x", "stop": "tool_calls"},
            "calls: the stop reason 'tool_calls' claims calls, but there are none",
        ),
        (CALL | {"id": None}, "id: it is missing"),
        (CALL | {"id": ""}, "id: it is blank"),
        (CALL | {"id": " \t"}, "id: it is blank"),
        (CALL | {"id": 5}, "id: it must be a string, not int"),
        (CALL | {"name": None}, "name: it is missing"),
        (CALL | {"name": " "}, "name: it is blank"),
        (CALL | {"name": ["add"]}, "name: it must be a string, not list"),
        (CALL | {"arguments": 5}, "arguments: it must be an object or JSON text, not int"),
        (CALL | {"arguments": ["a"]}, "arguments: it must be an object or JSON text, not list"),
        (CALL | {"arguments": {"a": object()}}, "arguments: it is no JSON (TypeError)"),
        (CALL | {"text": 5}, "text: it must be a string, not int"),
        (CALL | {"calls": [second]}, "calls: a reply of the kind 'call' brings one, itself"),
        ({"kind": "calls"}, "calls: it must be a list of calls, not null"),
        ({"kind": "calls", "calls": {"a": second}}, "calls: it must be a list of calls, not dict"),
        ({"kind": "calls", "calls": []}, "calls: it is empty"),
        ({"kind": "calls", "calls": [second, "add"]}, "calls[1]: it must be a mapping, not str"),
        ({"kind": "calls", "calls": [second, second | {"id": ""}]}, "calls[1].id: it is blank"),
        ({"kind": "calls", "calls": [second | {"name": 5}]}, "calls[0].name: it must be a string, not int"),
        ({"kind": "calls", "calls": [second], "name": "add"}, "name: a reply of the kind 'calls' has none of its own"),
        ({"kind": "tool_calls", "calls": [second], "content": 5}, "content: it must be a string, not int"),
        (CALL | {"stop": 5}, "stop: it must be a string, not int"),
    ]
    assert [(reply, PLAIN.decode(reply).fault) for reply, _ in faults] == faults


def test_a_cut_reply_is_cut_whatever_else_is_wrong() -> None:
    """The stop reason is read first: a reply that was cut is truncated, not malformed."""
    replies: list[dict[str, Any]] = [CALL | {"id": ""}, {"kind": "calls"}, {"kind": "final"}, {"kind": 5}, {}]
    assert [PLAIN.decode(reply | {"stop": "length"}) for reply in replies] == [turn(stop="length")] * 5


def test_usage() -> None:
    """Usage is a Usage, or an object of its fields."""
    whole = Usage(input_tokens=10, output_tokens=5, cached_tokens=4, reasoning_tokens=2, cost_usd=0.5, model="qwen")
    fields: dict[str, Any] = {
        "input_tokens": 10,
        "output_tokens": 5,
        "cached_tokens": 4,
        "reasoning_tokens": 2,
        "cost_usd": 0.5,
    }
    given = [whole, fields | {"model": "qwen"}, MappingProxyType(fields | {"model": "qwen"}), {"cost_usd": 2}, {}]
    assert [PLAIN.decode(CALL | {"usage": usage}).usage for usage in given] == [
        whole,
        whole,
        whole,
        Usage(cost_usd=2.0),
        Usage(),
    ]


def test_usage_that_is_none_is_not_reported() -> None:
    """Neither is one that could not be kept."""

    class Own(Usage):
        """A class made of it."""

    given: list[Any] = [None, 5, [], Own(input_tokens=1)]
    assert [PLAIN.decode(CALL | {"usage": usage}).usage for usage in given] == [None] * 4


def test_the_turn_of_another_wire_has_no_payload_here() -> None:
    """PLAIN sends text and calls whatever the payload holds, since its own turns have none."""
    said = Turn("hm", (Call("c1", "add"),), payload_text='{"a": 1}', wire="plain")
    assert sent(PLAIN, Exchange(said, exchange(said, ("ok", "1")).results)) == [
        {"kind": "text", "text": "hm"},
        {"kind": "call", "id": "c1", "name": "add", "arguments": {}},
        {"kind": "tool_result", "id": "c1", "content": "1", "outcome": "ok"},
    ]
