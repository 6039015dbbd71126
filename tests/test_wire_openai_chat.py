"""OPENAI_CHAT: the assistant's message, replayed as it came."""

from __future__ import annotations

import copy
from types import MappingProxyType
from typing import Any, get_args

import pydantic
from openai.types.chat import ParsedChatCompletionMessage, ParsedFunctionToolCall
from openai.types.chat.chat_completion import Choice
from openai.types.chat.chat_completion_chunk import Choice as ChunkChoice

from loopmachine.kinds import STOP_REASONS
from loopmachine.limits import Usage
from loopmachine.records import Call, Final, Note, Turn, UserMessage
from loopmachine.wire import OPENAI_CHAT
from tests.test_wire_anthropic import Message
from tests.test_wire_base import exchange, identified, renamed, sent


def function(one: str | None, arguments: Any = "{}", name: str = "add") -> dict[str, Any]:
    return {"id": one, "type": "function", "function": {"name": name, "arguments": arguments}}


def custom(one: str | None, text: Any, name: str = "sql") -> dict[str, Any]:
    return {"id": one, "type": "custom", "custom": {"name": name, "input": text}}


def message(content: Any = None, *calls: Any, **fields: Any) -> dict[str, Any]:
    asked = {"tool_calls": list(calls)} if calls else {}
    return {"role": "assistant", "content": content, **asked, **fields}


def completion(said: Any, stop: Any = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": said, "finish_reason": stop}], **fields}


def answer(one: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": one, "content": content}


def test_one_call() -> None:
    """The assistant's turn goes back with its tool_calls, then the result, under the system text."""
    said = message("Adding.", function("call_1", '{"a": 1}'))
    entry = exchange(OPENAI_CHAT.decode(said), ("ok", "1"))
    assert sent(OPENAI_CHAT, UserMessage("Add."), entry, system="Be brief.") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Add."},
        said,
        answer("call_1", "1"),
    ]


def test_two_calls_one_failing_and_a_user_message() -> None:
    """One message a result, in the order asked for; null beside tool_calls is sent as blank text."""
    said = message(None, function("call_1"), function("call_2"))
    final = OPENAI_CHAT.decode(message("One. And no."))
    entry = exchange(OPENAI_CHAT.decode(said), ("ok", "1"), ("failed", "ValueError: no"))
    assert sent(OPENAI_CHAT, entry, UserMessage("And?"), Note("It could not be used."), Final(final)) == [
        message("", function("call_1"), function("call_2")),
        answer("call_1", "1"),
        answer("call_2", "ValueError: no"),
        {"role": "user", "content": "And?"},
        {"role": "user", "content": "It could not be used."},
        message("One. And no."),
    ]


def test_what_only_the_provider_understands_goes_back_in_place() -> None:
    """Reasoning, a refusal, annotations and unknown fields, of the message and its calls, are sent unchanged."""
    signed = {"google": {"thought_signature": "CkYB=="}}
    call = function("call_1", '{ "a": 1.50 }') | {"extra_content": signed}
    parts = [
        {"type": "thinking", "thinking": [1]},
        {"type": "refusal", "refusal": "Not all."},
        {"type": "text", "text": "Hm."},
    ]
    for refusal in (None, "Not all.", ""):
        said = message(parts, call, reasoning_content="", annotations=[], refusal=refusal, audio=None)
        turn = OPENAI_CHAT.decode(copy.deepcopy(said))
        assert sent(OPENAI_CHAT, exchange(turn, ("ok", "1"))) == [said, answer("call_1", "1")]
        assert (turn.text, turn.payload, list(turn.payload)) == ("Hm.", said, list(said))


def test_what_the_sdk_adds_is_not_sent_back() -> None:
    """What its ``parse()`` made of the text and of the arguments, and the place of a call in its stream: no server
    knows these fields. The history keeps them.
    """
    look = pydantic.create_model("Look", n=(int, ...))
    called = ParsedFunctionToolCall.model_validate(
        {
            "id": "call_1",
            "type": "function",
            "index": 0,
            "function": {"name": "look", "arguments": '{"n": 1}', "parsed_arguments": look(n=1)},
        }
    )
    asked, said = (
        ParsedChatCompletionMessage[Any].model_validate({"role": "assistant", "content": content} | more)
        for content, more in (("", {"tool_calls": [called]}), ('{"n": 1}', {"parsed": look(n=1)}))
    )
    turns = [OPENAI_CHAT.decode(one) for one in (asked, said)]
    assert sent(OPENAI_CHAT, exchange(turns[0], ("ok", "1")), Final(turns[1])) == [
        message("", function("call_1", '{"n": 1}', "look")),
        answer("call_1", "1"),
        message('{"n": 1}'),
    ]
    kept = turns[0].payload["tool_calls"][0]
    assert (kept["index"], kept["function"]["parsed_arguments"], turns[1].payload["parsed"]) == (0, {"n": 1}, {"n": 1})


def test_what_a_server_sends_empty_is_not_sent_back() -> None:
    """An empty tool_calls or function_call, or blank text, is left out, and a message without content gets some."""
    empty = OPENAI_CHAT.decode(message("Done.", tool_calls=[], function_call=None))
    blank = OPENAI_CHAT.decode(message([{"type": "text", "text": " "}, {"type": "text", "text": "Done."}]))
    blanks = OPENAI_CHAT.decode(message([{"type": "text", "text": ""}], function("call_2")))
    null = OPENAI_CHAT.decode({"content": "Done.", "tool_calls": None, "role": None})
    asks = OPENAI_CHAT.decode({"tool_calls": [function("call_1")]})
    entries = Final(empty), Final(null), Final(blank), exchange(asks, ("ok", "1")), exchange(blanks, ("ok", "2"))
    assert sent(OPENAI_CHAT, *entries) == [
        message("Done."),
        message("Done."),
        message([{"type": "text", "text": "Done."}]),
        message("", function("call_1")),
        answer("call_1", "1"),
        message("", function("call_2")),
        answer("call_2", "2"),
    ]


def test_a_custom_tool_gets_text_and_its_call_goes_back_in_its_own_kind() -> None:
    """Its call has the text as its one argument, whatever that is; the result is a tool's as any other."""
    texts = ['SELECT "a"\n', "", "{"]
    calls = [*(custom(f"c{n}", text) | {"x": n} for n, text in enumerate(texts)), function("c3")]
    turn = OPENAI_CHAT.decode(message(None, *copy.deepcopy(calls)))
    assert [(call.id, call.name, call.arguments) for call in turn.calls] == [
        *((f"c{n}", "sql", {"input": text}) for n, text in enumerate(texts)),
        ("c3", "add", {}),
    ]
    made = renamed(turn, "c9", "", "", "")
    assert sent(OPENAI_CHAT, exchange(made, *[("ok", "3 rows")] * 4)) == [
        message("", calls[0] | {"id": "c9"}, *calls[1:]),
        *(answer(one, "3 rows") for one in ("c9", "c1", "c2", "c3")),
    ]


def test_ids_that_are_absent_or_used_before_are_sent_as_the_loop_made_them() -> None:
    """Calls are matched by their order, and the same id stands in the call and in its result."""
    bare = {"function": {"name": "add"}}
    turn = OPENAI_CHAT.decode(message("", function(None), function(" "), bare | {"type": ""}, function("call_1")))
    assert [call.id for call in turn.calls] == ["", "", "", "call_1"]
    made = renamed(identified(turn, "m0", "m1", "m2", "call_1"), "", "", "", "r3")
    ids = ("m0", "m1", "m2", "r3")
    assert sent(OPENAI_CHAT, exchange(made, *[("ok", "1")] * 4)) == [
        message("", *map(function, ids)),
        *(answer(one, "1") for one in ids),
    ]


def test_argument_text_that_is_no_object_is_sent_as_one() -> None:
    """The history keeps what the model wrote; what is sent is text that every server can parse."""
    written = ['{"a" : 1}', '{"ticket_id": "', "[]", '"Hello"', "", None, {"a": [1]}, '{"a": Infinity}']
    turn = OPENAI_CHAT.decode(message("", *(function(f"c{n}", one) for n, one in enumerate(written))))
    messages = sent(OPENAI_CHAT, exchange(turn, *[("ok", "")] * 8))
    kept = [*written[:5], "{}", '{"a":[1]}', '{"a": Infinity}']
    assert [call.arguments_text for call in turn.calls] == kept
    texts = [call["function"]["arguments"] for call in messages[0]["tool_calls"]]
    assert texts == ['{"a" : 1}', "{}", "{}", "{}", "{}", "{}", '{"a":[1]}', "{}"]


def test_a_whole_completion() -> None:
    """Text, calls, finish reason, usage in full and the model's name are read; the message is the payload."""
    said = message("Let me see.", function("call_1", '{"a": 1}'), function("call_2", "{", "look"))
    usage = {
        "prompt_tokens": 75,
        "completion_tokens": 51,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 32},
    }
    turn = OPENAI_CHAT.decode(completion(said, "tool_calls", usage=usage, model="qwen", id="x"))
    assert turn == Turn(
        "Let me see.",
        (Call("call_1", "add", '{"a": 1}'), Call("call_2", "look", "{", place=1)),
        "tool_calls",
        Usage(input_tokens=75, output_tokens=51, cached_tokens=64, reasoning_tokens=32, model="qwen"),
        turn.payload_text,
        "openai-chat",
    )
    assert turn.payload == said


def test_a_bare_message_and_an_sdk_object() -> None:
    """A message alone has no stop reason; an SDK's object is read as the server sent it."""
    said = message("Done.")
    bare, body = OPENAI_CHAT.decode(said), completion(said, "stop", usage={"prompt_tokens": 1})
    assert (bare.text, bare.stop, bare.usage, bare.payload) == ("Done.", "", None, said)
    assert OPENAI_CHAT.decode(Message(**said)) == OPENAI_CHAT.decode(MappingProxyType(said)) == bare
    assert OPENAI_CHAT.decode(Message(**body)) == OPENAI_CHAT.decode(body)


def test_content_is_text_or_parts() -> None:
    """Text parts are joined; null and absent are no text; other parts say nothing."""
    parts = [{"type": "text", "text": "A"}, {"type": "image_url", "image_url": {}}, {"type": "text", "text": "B"}]
    given: list[Any] = ["A", parts, [], None, ""]
    turns = [OPENAI_CHAT.decode(message(content, function("c"))) for content in given]
    assert [turn.text for turn in turns] == ["A", "AB", "", "", ""]


def test_a_refusal() -> None:
    """A message that holds nothing but a refusal is refused, its text the refusal; an abort reason comes first."""
    refusal = "I can't help with that."
    given = [
        completion(message(None, refusal=refusal), "stop"),
        message("", refusal=refusal),
        message([{"type": "refusal", "refusal": refusal[:9]}, {"type": "refusal", "refusal": refusal[9:]}]),
        message([{"type": "text", "text": ""}, {"type": "refusal", "refusal": refusal}], refusal="the same"),
        message([{"type": "text", "text": "Here."}, {"type": "refusal", "refusal": refusal}]),
        message([{"type": "refusal", "refusal": 5}]),
        completion(message(None, refusal=refusal), "length"),
        completion(message("Here.", refusal=refusal), "stop"),
        completion(message(None, function("c"), refusal=refusal), "tool_calls"),
        message(None, refusal=" "),
        message(None, refusal=5),
        completion(5),
    ]
    turns = [OPENAI_CHAT.decode(one) for one in given]
    assert [(turn.kind, turn.stop, turn.text) for turn in turns] == [
        ("refused", "refusal", refusal),
        ("refused", "refusal", refusal),
        ("refused", "refusal", refusal),
        ("refused", "refusal", refusal),
        ("final", "", "Here."),
        ("malformed", "", ""),
        ("truncated", "length", refusal),
        ("final", "stop", "Here."),
        ("calls", "tool_calls", ""),
        ("malformed", "", ""),
        ("malformed", "", ""),
        ("malformed", "", ""),
    ]


def test_malformed_replies() -> None:
    """Each reply that can't be used has a fault that begins with the field."""
    blank = "text: it is blank and there are no calls"
    no_message = "choices[0].message: it is missing"
    faults: list[tuple[Any, str]] = [
        ("done", "reply: it must be a mapping, an SDK's object or a Turn, not str"),
        (
            {"error": {"message": "overloaded"}},
            "error: the provider answered with an error, for which a model raises ModelError: overloaded",
        ),
        ({"choices": None}, no_message),
        ({"choices": []}, no_message),
        ({"choices": [5]}, no_message),
        (completion(None), no_message),
        (completion("done"), "choices[0].message: it must be the assistant's message, not str"),
        (message(object()), "choices[0].message: it is no JSON (TypeError)"),
        (completion(message("x"), 5), "choices[0].finish_reason: it must be a string, not int"),
        (message(), blank),
        (message([]), blank),
        (message(5), "content: it must be a string, not int"),
        (message(["x"]), "content[0]: it must be a part, an object, not str"),
        (message([{"text": "x"}]), "content[0].type: it is missing"),
        (message([{"type": "text", "text": 5}]), "content[0].text: it must be a string, not int"),
        (message("x", tool_calls={"a": 1}), "tool_calls: it must be a list of tool calls, not dict"),
        (message("x", function("c"), 5), "tool_calls[1]: it must be a tool call, an object, not int"),
        (
            message("x", function("c"), {"type": "other"}),
            "tool_calls[1].type: only a 'function' or a 'custom' tool can be answered, not 'other'",
        ),
        (message("x", {"id": "c", "type": "custom"}), "tool_calls[0].custom: it must be an object, not null"),
        (message("x", custom("c", None)), "tool_calls[0].custom.input: it is missing"),
        (message("x", custom("c", "x", "")), "tool_calls[0].custom.name: it is blank"),
        (message("x", {"id": "c", "type": "function"}), "tool_calls[0].function: it must be an object, not null"),
        (message("x", function("c", "{}", " ")), "tool_calls[0].function.name: it is blank"),
        (message("x", function(5)), "tool_calls[0].id: it must be a string, not int"),  # type: ignore[arg-type]  # on purpose
        (
            message("x", function("c", [1])),
            "tool_calls[0].function.arguments: it must be an object or JSON text, not list",
        ),
        (
            message("x", function_call={"name": "add", "arguments": "{}"}),
            "function_call: this legacy form can't be answered; the server must send tool_calls",
        ),
        (
            completion(message("x"), "tool_calls"),
            "calls: the stop reason 'tool_calls' claims calls, but there are none",
        ),
    ]
    assert [(given, OPENAI_CHAT.decode(given).fault) for given, _ in faults] == faults


def test_a_malformed_message_is_kept() -> None:
    """What the provider sent stands in the payload also where it can't be used."""
    said = message("x", {"id": "c", "type": "custom"})
    turn = OPENAI_CHAT.decode(said)
    assert (turn.kind, turn.text, turn.payload) == ("malformed", "x", said)


def test_usage_details_of_another_shape_are_not_reported() -> None:
    """A server that gives its details as anything but an object reports none."""
    usage = {
        "prompt_tokens": 1,
        "completion_tokens": 2,
        "prompt_tokens_details": None,
        "completion_tokens_details": [3],
    }
    turn = OPENAI_CHAT.decode(completion(message("x"), "stop", usage=usage))
    assert turn.usage == Usage(input_tokens=1, output_tokens=2)


def test_every_reason_of_the_sdk_is_in_the_table() -> None:
    """What a choice may stop for is listed, streamed or not."""
    whole = get_args(Choice.model_fields["finish_reason"].annotation)
    (streamed, _) = get_args(ChunkChoice.model_fields["finish_reason"].annotation)
    assert (len(whole), [one for one in (*whole, *get_args(streamed)) if one not in STOP_REASONS]) == (5, [])
