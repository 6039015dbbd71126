"""OPENAI_RESPONSES: output items, replayed as they came."""

from __future__ import annotations

import copy
from typing import Any, get_args

import attrs
import pytest
from openai.types.responses import FunctionToolParam, Response, ResponseInputItemParam, ResponseStatus
from openai.types.responses.response import IncompleteDetails
from pydantic import TypeAdapter

from loopmachine.history import Entry, History
from loopmachine.kinds import STOP_REASONS
from loopmachine.limits import Usage
from loopmachine.records import Call, Exchange, Final, Note, Turn, UserMessage
from loopmachine.wire import OPENAI_RESPONSES
from tests.test_wire_base import ADD, exchange, identified, pictured, renamed, sent

REASONING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "It adds."}]}
ENCRYPTED = {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gAAAAABpPDIV", "content": []}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": None}}


def said(*texts: str, **fields: Any) -> dict[str, Any]:
    parts = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": parts} | fields


def declined(refusal: Any) -> dict[str, Any]:
    return said() | {"content": [{"type": "refusal", "refusal": refusal}]}


def function(one: Any, arguments: Any = "{}", name: str = "add", **fields: Any) -> dict[str, Any]:
    asked = {"type": "function_call", "id": "fc_1", "status": "completed", "call_id": one, "name": name}
    return asked | {"arguments": arguments} | fields


def custom(one: str, text: Any, name: str = "write_sql") -> dict[str, Any]:
    return {"type": "custom_tool_call", "id": "ctc_1", "call_id": one, "name": name, "input": text}


def response(*items: Any, **fields: Any) -> dict[str, Any]:
    return {"object": "response", "status": "completed", "output": list(items), **fields}


def output(one: str, content: Any, kind: str = "function_call_output") -> dict[str, Any]:
    return {"type": kind, "call_id": one, "output": content}


# --- encode -----------------------------------------------------------------------------------------------


def test_one_call() -> None:
    """The items go back as they were received, then the result; the system text goes apart, as instructions."""
    items = [said("Adding."), function("call_1", '{"a": 1}')]
    entry = exchange(OPENAI_RESPONSES.decode(response(*items)), ("ok", "1"))
    encoded = OPENAI_RESPONSES.encode(History([UserMessage("Add."), entry]), (), "Be brief.")
    assert (encoded.messages, encoded.system) == (
        [{"role": "user", "content": "Add."}, *items, output("call_1", "1")],
        "Be brief.",
    )


def test_two_calls_one_failing_and_a_user_message() -> None:
    """One item a result, in the order asked for, after all items of the turn."""
    items = [REASONING, function("call_1"), function("call_2", id="fc_2")]
    entry = exchange(OPENAI_RESPONSES.decode(response(*items)), ("ok", "1"), ("failed", "ValueError: no"))
    final = OPENAI_RESPONSES.decode(response(said("One.", " And no.")))
    assert sent(OPENAI_RESPONSES, entry, UserMessage("And?"), Note("It could not be used."), Final(final)) == [
        *items,
        output("call_1", "1"),
        output("call_2", "ValueError: no"),
        {"role": "user", "content": "And?"},
        {"role": "user", "content": "It could not be used."},
        said("One.", " And no."),
    ]


def test_what_only_the_provider_understands_goes_back_in_place() -> None:
    """Reasoning, empty too, a refusal, what the server ran itself, unknown items and fields, and ids are unchanged."""
    items: list[dict[str, Any]] = [
        REASONING,
        SEARCH,
        ENCRYPTED | {"new": [1.0]},
        said("Adding.", phase="commentary", new={"deep": 1}),
        ENCRYPTED | {"encrypted_content": ""},
        said() | {"content": [{"type": "refusal", "refusal": "But not all."}]},
        function("call_1", '{ "z": 1.50, "a": 12345678901234567890123 }', namespace="sums"),
        {"type": "brand_new", "value": {"b": 1, "a": None}},
    ]
    turn = OPENAI_RESPONSES.decode(copy.deepcopy(response(*items)))
    assert sent(OPENAI_RESPONSES, exchange(turn, ("ok", "1"))) == [*items, output("call_1", "1")]
    assert (turn.text, turn.payload) == ("Adding.", items)
    assert [list(item) for item in turn.payload] == [list(item) for item in items]


def test_a_custom_tool_gets_text_and_is_answered_in_its_own_kind() -> None:
    """Its call has the text as its one argument; what the model wrote and the kind of the result are the API's."""
    items = [custom("call_1", 'SELECT "a"\n'), function("call_2")]
    turn = OPENAI_RESPONSES.decode(response(*items))
    assert [(call.id, call.name, call.arguments) for call in turn.calls] == [
        ("call_1", "write_sql", {"input": 'SELECT "a"\n'}),
        ("call_2", "add", {}),
    ]
    made = renamed(turn, "c9", "")
    assert sent(OPENAI_RESPONSES, exchange(made, ("ok", "3 rows"), ("ok", "1"))) == [
        custom("c9", 'SELECT "a"\n'),
        function("call_2"),
        output("c9", "3 rows", "custom_tool_call_output"),
        output("call_2", "1"),
    ]


def test_ids_that_are_absent_or_used_before_are_sent_as_the_loop_made_them() -> None:
    """Calls are matched to items by their order, and the same id stands in the item and in its result."""
    absent = function("") | {"id": "fc_3"}
    del absent["call_id"]
    items = [function(None), function(" "), absent, function("call_0")]
    turn = OPENAI_RESPONSES.decode(response(*items))
    assert [call.id for call in turn.calls] == ["", "", "", "call_0"]
    ids = ("m0", "m1", "m2", "call_0_s2_3")
    messages = sent(OPENAI_RESPONSES, exchange(renamed(identified(turn, *ids[:3], "call_0"), *ids), *[("ok", "1")] * 4))
    assert messages == [
        *(item | {"call_id": one} for item, one in zip(items, ids, strict=True)),
        *(output(one, "1") for one in ids),
    ]


def test_arguments_that_are_no_object_are_sent_as_one() -> None:
    """Text goes back as the model wrote it; what is no JSON object goes back as an empty one, and stays in the turn."""
    written = ['{"a": 1}', '{"a": ', "[1]", "", None, {"a": 1}, {"a": float("nan")}]
    turn = OPENAI_RESPONSES.decode(response(*(function(f"c{n}", one) for n, one in enumerate(written))))
    messages = sent(OPENAI_RESPONSES, exchange(turn, *[("ok", "")] * 7))
    kept = ['{"a": 1}', '{"a": ', "[1]", "", "{}", '{"a":1}', '{"a":NaN}']
    assert [call.arguments_text for call in turn.calls] == kept
    assert [item["arguments"] for item in messages[:7]] == ['{"a": 1}', "{}", "{}", "{}", "{}", '{"a":1}', "{}"]


def test_what_a_server_sends_and_refuses_to_be_sent_is_left_out() -> None:
    """The status of reasoning, what the SDK parsed beside the arguments, and null in the place of nothing."""
    items = [
        ENCRYPTED | {"status": "completed", "encrypted_content": None},
        REASONING | {"status": None},
        said("x") | {"phase": None, "content": [{"type": "output_text", "text": "x", "logprobs": None}]},
        function("call_1", parsed_arguments={}, namespace=None),
        custom("call_2", "x") | {"status": None},
        SEARCH | {"error": None},
    ]
    turn = OPENAI_RESPONSES.decode(response(*items))
    assert sent(OPENAI_RESPONSES, exchange(turn, ("ok", "1"), ("ok", "2"))) == [
        {"type": "reasoning", "id": "rs_2", "summary": [], "content": []},
        REASONING,
        said("x") | {"content": [{"type": "output_text", "text": "x"}]},
        function("call_1"),
        custom("call_2", "x"),
        SEARCH | {"error": None},
        output("call_1", "1"),
        output("call_2", "2", "custom_tool_call_output"),
    ]
    assert turn.payload == items


def test_who_called_a_function_is_told_with_its_result() -> None:
    """A call that a program of the model's made names the program, and so does its result."""
    caller = {"type": "program", "caller_id": "prog_1"}
    turn = OPENAI_RESPONSES.decode(response(function("call_1", caller=caller), function("call_2", caller=None)))
    assert sent(OPENAI_RESPONSES, exchange(turn, ("ok", "1"), ("ok", "2")))[2:] == [
        output("call_1", "1") | {"caller": caller},
        output("call_2", "2"),
    ]


def test_texts_and_images_of_a_result() -> None:
    """They are a list of parts, the images as data URLs; a text that says nothing is left out."""
    turn = OPENAI_RESPONSES.decode(response(function("c0"), function("c1")))
    texts = [
        '[{"kind":"text","text":"A cat:"},{"kind":"image","media_type":"image/gif","data":"R0lG"}]',
        '[{"kind":"text","text":" "}]',
    ]
    results = [pictured(call, one) for call, one in zip(turn.calls, texts, strict=True)]
    image = {"type": "input_image", "image_url": "data:image/gif;base64,R0lG"}
    assert sent(OPENAI_RESPONSES, Exchange(turn, tuple(results)))[2:] == [
        output("c0", [{"type": "input_text", "text": "A cat:"}, image]),
        output("c1", ""),
    ]


def test_a_turn_made_by_hand_says_no_blank_text() -> None:
    """Blank text beside calls is no message."""
    by_hand = Turn(" ", (Call("c1", "add"),))
    item = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"}
    assert sent(OPENAI_RESPONSES, exchange(by_hand, ("ok", "1"))) == [item, output("c1", "1")]


def test_what_is_sent_is_what_the_sdk_takes() -> None:
    """Every item and tool that this wire writes passes the types of the openai package."""
    items = [
        ENCRYPTED,
        said("x"),
        function("call_1"),
        custom("call_2", "x"),
        SEARCH | {"action": {"type": "search", "query": "sums"}},
    ]
    turn = OPENAI_RESPONSES.decode(response(*items))
    by_hand = Turn("Hm.", (Call("c1", "add"),))
    blocks = '[{"kind":"text","text":"x"},{"kind":"image","media_type":"image/png","data":"iVBO"}]'
    shown = Exchange(by_hand, (pictured(by_hand.calls[0], blocks),))
    entries: list[Entry] = [UserMessage("Add."), exchange(turn, ("ok", "1"), ("failed", "2")), shown]
    encoded = OPENAI_RESPONSES.encode(History([*entries, Note("n"), Final(Turn("Done."))]), [ADD])
    assert len(encoded.messages) == 13
    TypeAdapter(list[ResponseInputItemParam]).validate_python(encoded.messages)
    TypeAdapter(list[FunctionToolParam]).validate_python(encoded.tools)


# --- decode -----------------------------------------------------------------------------------------------


def test_a_whole_response() -> None:
    """The texts of all messages are joined, calls are in order, and usage is read in full."""
    usage = {
        "input_tokens": 50,
        "input_tokens_details": {"cached_tokens": 40},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 8},
    }
    items = [REASONING, said("Let me "), function("call_1", '{"a":1}'), said("see."), custom("call_2", "x", "look")]
    turn = OPENAI_RESPONSES.decode(response(*items, model="gpt", usage=usage))
    assert turn == Turn(
        "Let me see.",
        (Call("call_1", "add", '{"a":1}'), Call("call_2", "look", '{"input":"x"}', place=1)),
        "completed",
        Usage(input_tokens=50, output_tokens=20, cached_tokens=40, reasoning_tokens=8, model="gpt"),
        turn.payload_text,
        "openai-responses",
    )
    assert turn.payload == items


def test_an_sdk_object_is_read_as_the_server_sent_it() -> None:
    """A response of the openai package gives the turn that its JSON gives, with unknown items and no fields besides."""
    body = response(ENCRYPTED, function("call_1", "{}"), {"type": "brand_new", "x": None}, model="gpt")
    turn, plain = OPENAI_RESPONSES.decode(Response.construct(**body)), OPENAI_RESPONSES.decode(body)
    assert (turn.payload, attrs.evolve(turn, payload_text=plain.payload_text)) == (body["output"], plain)


def test_why_a_response_is_incomplete() -> None:
    """The reason is the stop reason where it is one that cuts or refuses; an incomplete response is never run."""
    given: list[tuple[Any, str, str]] = [
        ({"reason": "max_output_tokens"}, "max_output_tokens", "truncated"),
        ({"reason": "content_filter"}, "content_filter", "refused"),
        ({"reason": "new_reason"}, "incomplete", "truncated"),
        ({"reason": 5}, "incomplete", "truncated"),
        ({}, "incomplete", "truncated"),
        (None, "incomplete", "truncated"),
    ]
    calls = [function("call_1", '{"a": 1}')]
    turns = [
        OPENAI_RESPONSES.decode(response(*calls, status="incomplete", incomplete_details=details))
        for details, _, _ in given
    ]
    assert [(turn.stop, turn.kind, turn.calls) for turn in turns] == [(stop, kind, ()) for _, stop, kind in given]


def test_a_failed_response_is_told_in_its_words() -> None:
    """Its usage and what it said are kept, its calls are not run, and the fault holds the code and the message."""
    error = {"code": "server_error", "message": "The model failed."}
    usage = {"input_tokens": 5, "output_tokens": 1}
    failed = response(said("Hm"), function("call_1"), status="failed", error=error, usage=usage)
    turn = OPENAI_RESPONSES.decode(failed)
    assert (turn.kind, turn.stop, turn.text, turn.calls) == ("malformed", "failed", "Hm", ())
    assert turn.fault == "the provider stopped it: failed: server_error: The model failed."
    assert turn.usage == Usage(input_tokens=5, output_tokens=1)
    assert OPENAI_RESPONSES.decode(failed | {"output": None}).fault == turn.fault
    errors: list[Any] = [None, {}, "x" * 900]
    silent = [OPENAI_RESPONSES.decode(failed | {"error": one}).fault for one in errors]
    assert silent == ["the provider stopped it: failed"] * 2 + ["the provider stopped it: failed: " + "x" * 200]


def test_every_status_and_reason_of_the_sdk_is_in_the_table() -> None:
    """What a response may stop for is listed, so that none is taken for a reason that claims nothing."""
    (reasons, _) = get_args(IncompleteDetails.model_fields["reason"].annotation)
    known = [*get_args(ResponseStatus), *get_args(reasons)]
    assert (len(known), [one for one in known if one not in STOP_REASONS]) == (10, [])


def test_refusals() -> None:
    """A response that holds nothing but a refusal is refused, with its words as text; beside an answer it is none."""
    given: list[tuple[dict[str, Any], str, str, str]] = [
        (response(declined("No.")), "refused", "refusal", "No."),
        (response(REASONING, declined("No."), declined(" Never.")), "refused", "refusal", "No. Never."),
        (response(declined("No."), said("But yes.")), "final", "completed", "But yes."),
        (response(declined("No."), function("c")), "calls", "completed", ""),
        (response(declined(" ")), "malformed", "completed", ""),
        (response(declined(None)), "malformed", "completed", ""),
        (response(declined("No."), status="incomplete"), "truncated", "incomplete", "No."),
    ]
    turns = [OPENAI_RESPONSES.decode(one) for one, *_ in given]
    assert [(turn.kind, turn.stop, turn.text) for turn in turns] == [tuple(words) for _, *words in given]


@pytest.mark.parametrize("kind", ["computer_call", "local_shell_call", "shell_call", "apply_patch_call"])
def test_what_only_another_client_can_carry_out(kind: str) -> None:
    """It is malformed, since the server waits for its output; where the server gave that itself, it is no call."""
    item = {"type": kind, "call_id": "call_1", "action": {}}
    done = {"type": f"{kind}_output", "call_id": "call_1", "output": []}
    turns = [OPENAI_RESPONSES.decode(response(said("x"), *items)) for items in ([item], [item, done])]
    fault = f"output[1].type: only functions and custom tools can be answered, not '{kind}'"
    assert [(turn.kind, turn.fault) for turn in turns] == [("malformed", fault), ("final", "")]


def test_malformed_responses() -> None:
    """Each response that can't be used has a fault that begins with the field."""
    blank = "text: it is blank and there are no calls"
    faults: list[tuple[Any, str]] = [
        ("done", "reply: it must be a mapping, an SDK's object or a Turn, not str"),
        ({}, "output: it is missing"),
        (response() | {"output": "x"}, "output: it must be a list of response items, not str"),
        (response(), blank),
        (response(REASONING, SEARCH), blank),
        (response("x"), "output[0]: it must be a response item, an object, not str"),
        (response({"id": "x"}), "output[0].type: it is missing"),
        (response({"type": "message"}), "output[0].content: it must be a list of parts, not null"),
        (response(said() | {"content": ["x"]}), "output[0].content[0]: it must be a part, an object, not str"),
        (response(said() | {"content": [{}]}), "output[0].content[0].type: it is missing"),
        (response(said() | {"content": [{"type": "output_text"}]}), "output[0].content[0].text: it is missing"),
        (response(function(5)), "output[0].call_id: it must be a string, not int"),
        (response(function("c", name="")), "output[0].name: it is blank"),
        (response(function("c", [1])), "output[0].arguments: it must be an object or JSON text, not list"),
        (response(custom("c", None)), "output[0].input: it is missing"),
        (
            response(said("x"), {"type": "mcp_approval_request", "id": "mcpr_1"}),
            "output[1].type: only functions and custom tools can be answered, not 'mcp_approval_request'",
        ),
        (response(function("c"), status="queued"), "the provider stopped it: queued"),
        (response(said("x"), status=5), "status: it must be a string, not int"),
    ]
    assert [(given, OPENAI_RESPONSES.decode(given).fault) for given, _ in faults] == faults


def test_a_malformed_response_is_kept() -> None:
    """What the provider sent stands in the payload also where it can't be used."""
    turn = OPENAI_RESPONSES.decode(response(said("x"), {"type": "function_call"}))
    assert (turn.kind, turn.text, turn.payload) == ("malformed", "x", [said("x"), {"type": "function_call"}])


@pytest.mark.parametrize("status", [None, "", " ", "completed", "incomplete", "brand_new", "absent"])
@pytest.mark.parametrize(
    ("reason", "stop", "kind"),
    [
        ("max_output_tokens", "max_output_tokens", "truncated"),
        ("content_filter", "content_filter", "refused"),
        ("brand_new", "incomplete", "truncated"),
    ],
)
def test_a_reason_why_it_is_incomplete_counts_whatever_the_status(
    status: str | None, reason: str, stop: str, kind: str
) -> None:
    """A response that tells one is none to be run: servers leave the status out, or at its default."""
    body = response(function("call_1", '{"a": 1}'), status=status, incomplete_details={"reason": reason})
    if status == "absent":
        del body["status"]
    turn = OPENAI_RESPONSES.decode(body)
    assert (turn.stop, turn.kind, turn.calls) == (stop, kind, ())


@pytest.mark.parametrize("details", [None, {}, {"reason": None}, {"reason": " "}, {"reason": 5}, "x"])
def test_details_that_tell_no_reason_say_nothing(details: Any) -> None:
    """A response is what its status says then."""
    turns = [
        OPENAI_RESPONSES.decode(response(function("call_1", "{}"), status=status, incomplete_details=details))
        for status in (None, "completed", "incomplete", "failed")
    ]
    assert [(turn.stop, turn.kind) for turn in turns] == [
        ("", "calls"),
        ("completed", "calls"),
        ("incomplete", "truncated"),
        ("failed", "malformed"),
    ]


def test_why_a_response_failed_outranks_why_it_is_incomplete() -> None:
    """What was said to be broken is no less broken for another reason beside it."""
    turn = OPENAI_RESPONSES.decode(
        response(function("call_1", "{}"), status="failed", incomplete_details={"reason": "max_output_tokens"})
    )
    assert (turn.stop, turn.kind) == ("failed", "malformed")
