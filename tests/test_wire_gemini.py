"""GEMINI: contents of parts, replayed as they came."""

from __future__ import annotations

import copy
import json
from typing import Any

import attrs
import pytest
from google.genai import types

from loopmachine.history import Entry, History
from loopmachine.kinds import STOP_REASONS
from loopmachine.limits import Usage
from loopmachine.records import OUTCOMES, Call, Exchange, Final, Note, Turn, UserMessage
from loopmachine.wire import GEMINI
from tests.test_wire_base import ADD, exchange, identified, pictured, renamed, sent

SIGNATURE = "Co+/+/A="  #: base64 that is written another way where URLs are meant
THOUGHT = {"text": "It is an addition.", "thought": True}
CODE: list[dict[str, Any]] = [
    {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
]


def text(words: str, **fields: Any) -> dict[str, Any]:
    return {"text": words, **fields}


def function(name: Any, arguments: Any = None, one: Any = None, **fields: Any) -> dict[str, Any]:
    asked = {"name": name} | ({} if arguments is None else {"args": arguments}) | ({} if one is None else {"id": one})
    return {"functionCall": asked, **fields}


def content(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def response(*parts: Any, stop: Any = "STOP", **fields: Any) -> dict[str, Any]:
    return {"candidates": [{"content": content(*parts), "finishReason": stop, "index": 0}], **fields}


def answer(name: str, brought: Any, one: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"functionResponse": ({} if one is None else {"id": one}) | {"name": name, "response": brought, **fields}}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


# --- encode -----------------------------------------------------------------------------------------------


def test_one_call() -> None:
    """The content goes back as it was received, then the result; the system text goes apart."""
    parts = [text("Adding."), function("add", {"a": 1, "b": None}, "f1", thoughtSignature=SIGNATURE)]
    entry = exchange(GEMINI.decode(response(*parts)), ("ok", "1"))
    encoded = GEMINI.encode(History([UserMessage("Add."), entry]), (), "Be brief.")
    assert (encoded.messages, encoded.system) == (
        [user(text("Add.")), content(*parts), user(answer("add", {"result": "1"}, "f1"))],
        {"parts": [{"text": "Be brief."}]},
    )


def test_two_calls_one_failing_and_a_user_message() -> None:
    """All results of a turn are in one content, in the order asked for; the user goes on in the next."""
    parts = [function("add", {"a": 1}, "f1"), function("add", {"a": 2}, "f2")]
    entry = exchange(GEMINI.decode(response(*parts)), ("ok", "1"), ("failed", "ValueError: no"))
    final = GEMINI.decode(response(text("One."), text("\n"), text(" And no.")))
    assert sent(GEMINI, entry, UserMessage("And?"), Note("It could not be used."), Final(final)) == [
        content(*parts),
        user(answer("add", {"result": "1"}, "f1"), answer("add", {"error": "ValueError: no"}, "f2")),
        user(text("And?")),
        user(text("It could not be used.")),
        content(text("One."), text("\n"), text(" And no.")),
    ]


def test_every_outcome_but_ok_is_an_error() -> None:
    """The model is told by the field of the response whether its call brought what it asked for."""
    turn = GEMINI.decode(response(*(function("add", {}) for _ in OUTCOMES)))
    answers = sent(GEMINI, exchange(turn, *((one, "x") for one in OUTCOMES)))[1]["parts"]
    assert [part["functionResponse"]["response"] for part in answers] == [
        {"result" if one == "ok" else "error": "x"} for one in OUTCOMES
    ]


def test_what_only_the_provider_understands_goes_back_in_place() -> None:
    """Thoughts and signatures, what the server ran itself, and unknown parts and fields are sent unchanged."""
    parts: list[dict[str, Any]] = [
        THOUGHT,
        *CODE,
        {"toolCall": {"toolType": "GOOGLE_SEARCH", "id": "t1", "args": {"some_key": None}}},
        {"inlineData": {"mimeType": "image/png", "data": "iVBO"}},
        text("Adding.", thoughtSignature=SIGNATURE),
        function("add", {"z": 1, "a": {"some_key": [12345678901234567890123, 1.50, None]}}, "f1", new={"deep": 1}),
        text("", thoughtSignature="EvsD"),
        {"brandNew": {"b": 1, "a": 2}, "partMetadata": {"my_key": None}},
    ]
    said = content(*parts) | {"new": 1}
    turn = GEMINI.decode({"candidates": [{"content": copy.deepcopy(said), "finishReason": "STOP"}]})
    assert sent(GEMINI, exchange(turn, ("ok", "1"))) == [said, user(answer("add", {"result": "1"}, "f1"))]
    assert (turn.text, turn.payload, list(turn.payload)) == ("Adding.", said, list(said))
    assert [list(part) for part in turn.payload["parts"]] == [list(part) for part in parts]


def test_ids_that_are_absent_are_paired_by_their_order_and_never_sent() -> None:
    """The provider gave none and gets none, in call and result; what it gave is sent, or what the loop gave for it."""
    parts = [function("f", {"x": 1}), function("f", {"x": 2}, " "), function("g", {}, "f1"), function("g", {}, "f1")]
    turn = GEMINI.decode(response(*parts))
    assert [call.id for call in turn.calls] == ["", "", "f1", "f1"]
    made = renamed(identified(turn, "m0", "m1", "f1", "f1"), "", "", "", "f1_s1_3")
    assert sent(GEMINI, exchange(made, *[("ok", str(n)) for n in range(4)])) == [
        content(
            function("f", {"x": 1}), function("f", {"x": 2}), function("g", {}, "f1"), function("g", {}, "f1_s1_3")
        ),
        user(
            answer("f", {"result": "0"}),
            answer("f", {"result": "1"}),
            answer("g", {"result": "2"}, "f1"),
            answer("g", {"result": "3"}, "f1_s1_3"),
        ),
    ]


def test_arguments_that_are_no_object_are_sent_as_one() -> None:
    """Absent ones stay absent; what is no JSON object is sent as an empty one, and stays in the turn."""
    written = [{"a": 1}, None, '{"a": 1}', '{"a": ', "[1]", {"a": float("nan")}]
    turn = GEMINI.decode(response(*(function("add", one) for one in written)))
    messages = sent(GEMINI, exchange(turn, *[("ok", "")] * 6))
    assert [call.arguments_text for call in turn.calls] == ['{"a":1}', "{}", '{"a": 1}', '{"a": ', "[1]", '{"a":NaN}']
    assert messages[0] == content(*(function("add", one) for one in ({"a": 1}, None, {"a": 1}, {}, {}, {})))


def test_a_part_that_holds_nothing_is_not_sent() -> None:
    """The provider ends its streams with such, and refuses to be sent one; one with a signature goes back."""
    kept = [text(" "), function("add", {}), text("", thoughtSignature=SIGNATURE)]
    turn = GEMINI.decode(response(text(""), {}, *kept, text("", thought=True), {"thought": True}))
    assert sent(GEMINI, exchange(turn, ("ok", "1")))[0] == content(*kept)


def test_a_call_that_the_model_did_not_make_has_the_signature_that_says_so() -> None:
    """Of the calls of a turn of another wire the first has it, and blank text beside them is no part."""
    by_hand = Turn(" ", (Call("c1", "add", '{"a": 1}'), Call("c2", "add", "{")))
    first = function("add", {"a": 1}, thoughtSignature="skip_thought_signature_validator")
    assert sent(GEMINI, exchange(by_hand, ("ok", "1"), ("failed", "no"))) == [
        content(first, function("add", {})),
        user(answer("add", {"result": "1"}), answer("add", {"error": "no"})),
    ]


def test_images_of_a_result() -> None:
    """They stand beside its text if the API takes all of them there, else the text says that they were not sent."""
    turn = GEMINI.decode(response(*(function("add", {}, f"f{n}") for n in range(3))))

    def picture(kind: str) -> str:
        return json.dumps([{"kind": "text", "text": "x"}, {"kind": "image", "media_type": kind, "data": "iVBO"}])

    blocks = [picture("image/png"), picture("image/gif"), '[{"kind":"text","text":"x"}]']
    results = [pictured(call, one) for call, one in zip(turn.calls, blocks, strict=True)]
    image = {"inlineData": {"mimeType": "image/png", "data": "iVBO"}}
    untold = "x\n[images not sent, since this result can only be text: 1]"
    assert sent(GEMINI, Exchange(turn, tuple(results)))[1] == user(
        answer("add", {"result": "x"}, "f0", parts=[image]),
        answer("add", {"result": untold}, "f1"),
        answer("add", {"result": "x"}, "f2"),
    )


def test_what_is_sent_is_what_the_sdk_takes() -> None:
    """Every content and tool that this wire writes passes the types of google-genai, which would send the same."""
    parts = [THOUGHT, *CODE, text("x", thoughtSignature=SIGNATURE), function("add", {"a_b": None}, "f1")]
    turn = GEMINI.decode(response(*parts))
    by_hand = Turn("Hm.", (Call("c1", "add"),))
    blocks = '[{"kind":"image","media_type":"image/webp","data":"iVBO"}]'
    shown = Exchange(by_hand, (pictured(by_hand.calls[0], blocks),))
    entries: list[Entry] = [UserMessage("Add."), exchange(turn, ("ok", "1")), shown]
    encoded = GEMINI.encode(History([*entries, Note("n"), Final(Turn("Done."))]), [ADD], "Be brief.")
    contents = [types.Content.model_validate(message) for message in encoded.messages]
    said = [one.model_dump(mode="json", by_alias=True, exclude_unset=True) for one in contents]
    written = json.loads(json.dumps(encoded.messages).replace(SIGNATURE, SIGNATURE.replace("+", "-").replace("/", "_")))
    assert said == written
    (tool,) = [types.Tool.model_validate(one) for one in encoded.tools]
    assert tool.model_dump(mode="json", by_alias=True, exclude_unset=True) == encoded.tools[0]
    system = types.GenerateContentConfig.model_validate({"systemInstruction": encoded.system}).system_instruction
    assert system == types.Content(parts=[types.Part(text="Be brief.")])


# --- decode -----------------------------------------------------------------------------------------------


def test_a_whole_response() -> None:
    """Texts that are no thoughts are joined, calls are in order, and usage is read in full."""
    usage = {
        "promptTokenCount": 50,
        "cachedContentTokenCount": 40,
        "toolUsePromptTokenCount": 7,
        "candidatesTokenCount": 20,
        "thoughtsTokenCount": 8,
        "totalTokenCount": 85,
    }
    parts = [THOUGHT, text("Let me "), function("add", {"a": 1}), text("see."), function("look", None, "f2")]
    turn = GEMINI.decode(response(*parts, usageMetadata=usage, modelVersion="gemini-3.5-flash"))
    assert turn == Turn(
        "Let me see.",
        (Call("", "add", '{"a":1}'), Call("f2", "look", "{}", place=1)),
        "STOP",
        Usage(input_tokens=57, output_tokens=28, cached_tokens=40, reasoning_tokens=8, model="gemini-3.5-flash"),
        turn.payload_text,
        "gemini",
    )
    assert turn.payload == content(*parts)


def test_what_is_not_counted_is_nothing_where_the_total_is_told() -> None:
    """The provider leaves out what is zero; without a total, as in the middle of a stream, it is not known."""
    prompt, written, total = "promptTokenCount", "candidatesTokenCount", "totalTokenCount"
    thought, tools = "thoughtsTokenCount", "toolUsePromptTokenCount"
    given: list[tuple[dict[str, Any], int | None, int | None, int | None]] = [
        ({prompt: 5, total: 5}, 5, 0, None),
        ({prompt: 5, total: 8, thought: 3}, 5, 3, 3),
        ({prompt: 5}, 5, None, None),
        ({prompt: 5, written: 2}, 5, 2, None),
        ({written: 2, total: 2}, 0, 2, None),
        ({"trafficType": "ON_DEMAND"}, None, None, None),
        ({prompt: 5, written: 2, thought: "3"}, 5, None, None),
        ({prompt: 5, written: 2, tools: -1}, None, 2, None),
    ]
    found = [GEMINI.decode(response(text("x"), usageMetadata=usage)).usage for usage, *_ in given]
    assert found == [
        Usage(input_tokens=read, output_tokens=wrote, reasoning_tokens=thoughts) for _, read, wrote, thoughts in given
    ]


def test_both_spellings_are_read() -> None:
    """A dict with snake_case fields and null in all others, as the SDK dumps it, gives the turn of the API's JSON."""
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}
    parts = [THOUGHT, function("add", {"some_key": None, "other_key": {"deep_key": 1}}, thoughtSignature=SIGNATURE)]
    body = response(*parts, usageMetadata=usage, modelVersion="gemini")
    for mode in ("python", "json"):
        snake = types.GenerateContentResponse.model_validate(body).model_dump(mode=mode)
        assert "finish_reason" in snake["candidates"][0]
        turn, plain = GEMINI.decode(snake), GEMINI.decode(body)
        assert attrs.evolve(turn, payload_text=plain.payload_text) == plain
        assert types.Content.model_validate(turn.payload) == types.Content.model_validate(content(*parts))


def test_an_sdk_object_is_read_as_the_server_sent_it() -> None:
    """A response of google-genai gives the turn that its JSON gives, its signature and its images as they came."""
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}
    image = {"inlineData": {"mimeType": "image/png", "data": "+/+/"}}
    parts = [text("Hm."), function("add", {"some_key": None}, "f1", thoughtSignature=SIGNATURE), image]
    body = response(*parts, usageMetadata=usage, modelVersion="gemini")
    turn, plain = GEMINI.decode(types.GenerateContentResponse.model_validate(body)), GEMINI.decode(body)
    assert attrs.evolve(turn, payload_text=plain.payload_text) == plain
    assert turn.payload == content(*parts)


@pytest.mark.parametrize(
    "reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE"]
)
def test_a_call_that_the_provider_gave_up(reason: str) -> None:
    """The turn is malformed, with the raw reason and message, whatever the content holds; nothing of it is a call."""
    contents: list[Any] = [{}, None, content(function("add", {})), content(), {"parts": 5}, 5]
    turns = [
        GEMINI.decode({"candidates": [{"content": one, "finishReason": reason, "finishMessage": "bad call"}]})
        for one in contents
    ]
    fault = f"the provider stopped it: {reason}: bad call"
    assert [(turn.kind, turn.stop, turn.calls, turn.fault) for turn in turns] == [("malformed", reason, (), fault)] * 6
    silent = [
        {"candidates": [{"finishReason": reason}]},
        {"candidates": [{"finishReason": reason, "finishMessage": 5}]},
    ]
    assert [GEMINI.decode(one).fault for one in silent] == [f"the provider stopped it: {reason}"] * 2


def test_what_the_provider_says_of_an_end_is_no_fault() -> None:
    """It sends a message with STOP, too."""
    body = response(function("add", {}))
    body["candidates"][0]["finishMessage"] = "Model generated function call(s)."
    assert (GEMINI.decode(body).kind, GEMINI.decode(body).fault) == ("calls", "")


def test_a_blocked_prompt_is_refused() -> None:
    """It has no candidates, and the reason of the block is the stop reason, or one that stands for any other."""
    blocked = [
        {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4, "totalTokenCount": 4}},
        {"candidates": [], "prompt_feedback": {"block_reason": "OTHER", "block_reason_message": "no"}},
        {"candidates": None, "promptFeedback": {"blockReason": "BRAND_NEW"}},
    ]
    turns = [GEMINI.decode(one) for one in blocked]
    assert [(turn.kind, turn.stop, turn.fault) for turn in turns] == [
        ("refused", "SAFETY", ""),
        ("refused", "content_filter", ""),
        ("refused", "content_filter", ""),
    ]
    assert turns[0].usage == Usage(input_tokens=4, output_tokens=0)


def test_every_reason_of_the_sdk_is_in_the_table() -> None:
    """What a candidate may stop for, and a prompt be blocked for, is listed."""
    known = [one.value for one in (*types.FinishReason, *types.BlockedReason)]
    assert (len(known), [one for one in known if one.lower() not in STOP_REASONS]) == (32, [])


def test_only_the_first_candidate_is_read() -> None:
    """The others are neither text nor calls."""
    body = response(text("One."))
    body["candidates"].append({"content": content(text("Two.")), "finishReason": "SAFETY"})
    assert (GEMINI.decode(body).kind, GEMINI.decode(body).text) == ("final", "One.")


def test_malformed_responses() -> None:
    """Each response that can't be used has a fault that begins with the field."""
    blank = "text: it is blank and there are no calls"
    whole = "its arguments are not whole; feed the chunks of a stream to wire.stream()"
    faults: list[tuple[Any, str]] = [
        ("done", "reply: it must be a mapping, an SDK's object or a Turn, not str"),
        ({}, "candidates: there is none of index 0"),
        ({"candidates": []}, "candidates: there is none of index 0"),
        ({"candidates": ["x"]}, "candidates: there is none of index 0"),
        ({"candidates": [{}]}, blank),
        ({"candidates": [{"content": "x"}]}, "candidates[0].content: it must be an object, not str"),
        ({"candidates": [{"content": {"parts": "x"}}]}, "content.parts: it must be a list of parts, not str"),
        (response(), blank),
        (response(THOUGHT, *CODE), blank),
        (response(text("x"), "y"), "content.parts[1]: it must be a part, an object, not str"),
        (response(text("x"), {"text": 5}), "content.parts[1].text: it must be a string, not int"),
        (response({"functionCall": "x"}), "content.parts[0].functionCall: it must be an object, not str"),
        (response({"functionCall": {}}), "content.parts[0].functionCall.name: it is missing"),
        (response(function("", {})), "content.parts[0].functionCall.name: it is blank"),
        (response(function("f", {}, 5)), "content.parts[0].functionCall.id: it must be a string, not int"),
        (
            response(function("f", [1])),
            "content.parts[0].functionCall.args: it must be an object or JSON text, not list",
        ),
        (response({"functionCall": {"name": "f", "will_continue": True}}), f"content.parts[0].functionCall: {whole}"),
        (response({"functionCall": {"name": "f", "partialArgs": [1]}}), f"content.parts[0].functionCall: {whole}"),
        (response(text("x"), stop=5), "candidates[0].finishReason: it must be a string, not int"),
        ({"candidates": [{"content": {"parts": [object()]}}]}, "candidates[0].content: it is no JSON (TypeError)"),
    ]
    assert [(given, GEMINI.decode(given).fault) for given, _ in faults] == faults


def test_a_malformed_response_is_kept() -> None:
    """What the provider sent stands in the payload also where it can't be used."""
    turn = GEMINI.decode(response(text("x"), {"functionCall": {}}))
    assert (turn.kind, turn.text, turn.payload) == ("malformed", "x", content(text("x"), {"functionCall": {}}))
