"""The accumulator of OPENAI_RESPONSES: events to the response that is not streamed."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from loopmachine import ModelError, Tool, run
from loopmachine.records import Turn
from loopmachine.wire import OPENAI_RESPONSES, Delta
from tests.feeding import Fed, asked, bytewise, cut, feed
from tests.shared import SHARED
from tests.test_wire_any_reply import JSON, shape
from tests.test_wire_base import deep
from tests.test_wire_openai_responses import custom, declined, function, response, said

Event = dict[str, Any]

# --- recorded bodies --------------------------------------------------------------------------------------

RECORDED, LOCAL = SHARED / "streams", SHARED / "recordings" / "streams"


FENCE = '```json\n{\n  "name": "propose_label",\n  "arguments": {\n    "ticket_id": "T-1",\n    "label": "billing",\n'
PROPOSAL = {
    "id": "call_wBPgktPdOhqyhxUPeCXVCjgtyUmgoYIA",
    "name": "propose_label",
    "arguments": '{"ticket_id": "T-1", "label": "billing", "expected_version": 1}',
}
BASE: dict[str, Any] = {"text": "", "finish": "completed", "has_reasoning": False, "calls": []}
#: What the bodies of the local server give, written down by reading them.
LOCALLY: dict[str, dict[str, Any]] = {
    "qwen15-bare-15-responses-stream.sse": BASE
    | {"calls": [PROPOSAL], "usage": {"input": 269, "output": 34}}
    | {"block_types": ["function_call"], "may_run_calls": True},
    "qwen05-16-responses-required.sse": BASE
    | {"text": f'{FENCE}    "expected_version": 1\n  }}\n}}\n```' + "\n" * 56, "usage": {"input": 297, "output": 160}}
    | {"block_types": ["message"], "may_run_calls": False},
}


def entries() -> dict[Path, list[dict[str, Any]]]:
    """What each body of this wire gives, response by response; none where the shared folder is not here."""
    listed = RECORDED / "expected.json"
    told = json.loads(listed.read_text()) if listed.is_file() else {}
    found = {
        RECORDED / name: one.get("responses", [one]) for name, one in told.items() if name.startswith("responses_")
    }
    return found | {LOCAL / name: [one] for name, one in LOCALLY.items() if LOCAL.is_dir()}


BODIES = entries()
every_body = pytest.mark.parametrize("path", list(BODIES), ids=lambda path: path.name)


def responses(pieces: Iterable[bytes]) -> list[Fed]:
    """What a body brings, response by response: some hold several."""
    streams: list[list[Event]] = []
    for event in OPENAI_RESPONSES.read(pieces):
        if event["type"] == "response.created":
            streams.append([])
        streams[-1].append(event)
    return [feed(OPENAI_RESPONSES.stream(), events) for events in streams]


def as_told(fed: Fed) -> dict[str, Any]:
    """What a response brought in the words of expected.json."""
    turn = fed.turn or Turn()
    usage, types = turn.usage, [item["type"] for item in turn.payload]
    calls = [
        {"id": call.id, "name": call.name, "arguments": call.arguments["input"], "custom": True}
        if "custom_tool_call" in types
        else {"id": call.id, "name": call.name, "arguments": call.arguments_text}
        for call in turn.calls
    ]
    return {
        "text": turn.text,
        "finish": turn.stop,
        "usage": usage and {"input": usage.input_tokens, "output": usage.output_tokens},
        "has_reasoning": "reasoning" in types,
        "calls": calls,
        "block_types": types,
        "may_run_calls": turn.kind == "calls",
    }


@every_body
def test_what_a_body_gives(path: Path) -> None:
    """Text, calls, finish, usage, kinds of items and whether calls may run are as written down."""
    expected = [
        {field: value for field, value in entry.items() if field != "error"}
        | {"calls": [{field: value for field, value in call.items() if field != "args"} for call in entry["calls"]]}
        for entry in BODIES[path]
    ]
    assert [as_told(fed) for fed in responses([path.read_bytes()])] == expected


@every_body
def test_how_a_body_is_cut_changes_nothing(path: Path) -> None:
    """One byte at a time and cut at random, it gives the same deltas and turns as whole."""
    body = path.read_bytes()
    whole = responses([body])
    assert [responses(pieces) for pieces in (bytewise(body), *(cut(body, seed) for seed in range(5)))] == [whole] * 6


@every_body
def test_what_was_shown_is_what_the_turn_holds(path: Path) -> None:
    """The deltas of a response, put together, are its text and its calls, a custom tool's text as it is."""
    for fed, entry in zip(responses([path.read_bytes()]), BODIES[path], strict=True):
        calls = [(one["id"], one["name"], one["arguments"]) for one in entry["calls"]]
        assert (fed.shown("text"), fed.calls) == (entry["text"], calls)


@every_body
def test_a_body_that_ends_early_gives_no_turn(path: Path) -> None:
    """Without its last event a response is cut, whatever it looks like."""
    events = list(OPENAI_RESPONSES.read([path.read_bytes()]))
    last = max(at for at, event in enumerate(events) if event["type"] == "response.created")
    for end in range(last + 1, len(events)):
        error = feed(OPENAI_RESPONSES.stream(), events[last:end]).error
        assert error is not None
        assert (error.code, error.retryable) == ("stream_cut", True)


# --- events -----------------------------------------------------------------------------------------------


def added(place: int | None, item: Any, stage: str = "added") -> Event:
    where = {} if place is None else {"output_index": place}
    return {"type": f"response.output_item.{stage}", "item": item, **where}


def delta(kind: str, text: Any, **where: Any) -> Event:
    return {"type": f"response.{kind}.delta", "delta": text, **where}


def ended(*items: Any, kind: str = "completed", **fields: Any) -> Event:
    return {"type": f"response.{kind}", "response": response(*items, **{"status": kind} | fields)}


CREATED: Event = {"type": "response.created", "response": {"status": "in_progress", "model": "gpt", "output": []}}


def fed(*events: Any) -> Fed:
    return feed(OPENAI_RESPONSES.stream(), events)


def test_all_that_a_screen_is_told() -> None:
    """Thoughts, text, refusals, and of each call its name and its arguments as they come, by the place of its item."""
    brought = fed(
        CREATED,
        added(0, {"type": "reasoning", "id": "rs_1", "summary": []}),
        delta("reasoning_summary_text", "It ", output_index=0, summary_index=0),
        delta("reasoning_summary_text", "adds.", output_index=0, summary_index=0),
        delta("reasoning_text", "Sure.", output_index=0, content_index=0),
        added(1, said() | {"status": "in_progress"}),
        delta("output_text", "Hm", output_index=1, content_index=0),
        delta("refusal", "No", output_index=1, content_index=1),
        added(2, function("c1", "")),
        delta("function_call_arguments", '{"a"', output_index=2),
        added(3, custom("c2", "")),
        delta("custom_tool_call_input", "SELECT", output_index=3),
        delta("function_call_arguments", ":1}", output_index=2),
        {"type": "response.brand_new.delta", "delta": "x"},
        ended(),
    )
    assert brought.deltas == (
        *(Delta("thinking", text) for text in ("It ", "adds.", "Sure.")),
        *(Delta("text", text) for text in ("Hm", "No")),
        *(Delta("call", text, 0, "c1", "add") for text in ("", '{"a"')),
        *(Delta("call", text, 1, "c2", "write_sql") for text in ("", "SELECT")),
        Delta("call", ":1}", 0, "c1", "add"),
    )


def test_a_response_without_output_is_made_of_its_items() -> None:
    """Where the last event has none, the reply is what the items became, in the order of their places."""
    parts = [{"type": "output_text", "text": "Hm."}, {"type": "refusal", "refusal": "No."}]
    brought = fed(
        CREATED,
        added(1, function("c1", "")),
        added(0, said() | {"content": None}),
        delta("output_text", "H", output_index=0, content_index=0),
        delta("output_text", "m.", output_index=0, content_index=0),
        delta("refusal", "No.", output_index=0, content_index=1),
        delta("function_call_arguments", '{"a":1}', output_index=1),
        ended(usage={"input_tokens": 3, "output_tokens": 2}),
    )
    expected = response(said() | {"content": parts}, function("c1", '{"a":1}'))
    assert brought.turn == OPENAI_RESPONSES.decode(expected | {"usage": {"input_tokens": 3, "output_tokens": 2}})


@pytest.mark.parametrize("known", ["place", "place as text", "id", "order"])
def test_what_an_event_is_about(known: str) -> None:
    """Its item is found by its place, else by its id, else it is the last; ids may change where places are told."""

    def event(place: int, one: str, text: str) -> Event:
        ways: dict[str, dict[str, Any]] = {
            "place": {"output_index": place, "item_id": f"new_{text}"},
            "place as text": {"output_index": str(place), "item_id": f"new_{text}"},
            "id": {"item_id": one},
            "order": {},
        }
        return delta("function_call_arguments", text, **ways[known])

    def item(place: int, one: str) -> Event:
        return added(place if known.startswith("place") else None, function(f"call_{one}", "", id=one))

    order = [item(0, "fc_a"), event(0, "fc_a", '{"a":'), item(1, "fc_b"), event(1, "fc_b", '{"b":')]
    order += [event(1, "fc_b", "2}"), event(0, "fc_a", "1}")]
    if known == "order":  # nothing says of which call the pieces are: they are the last one's
        order = [item(0, ""), event(0, "", '{"a":'), event(0, "", "1}"), item(1, ""), event(1, "", '{"b":2}')]
    brought = fed(CREATED, *order, ended())
    assert brought.turn is not None
    assert asked(brought.turn) == brought.calls
    assert [text for _, _, text in brought.calls] == ['{"a":1}', '{"b":2}']


@pytest.mark.parametrize("output", [True, False])
def test_items_that_share_an_index(output: bool) -> None:
    """None is lost: what begins with another kind, name or call id is another item, whose id then tells its events."""
    thought = {"type": "reasoning", "id": "rs", "summary": []}
    asked_for = [function(one, text, id=f"fc_{one}") for one, text in (("c1", '{"a":1}'), ("c2", '{"b":2}'))]
    events = [added(0, one | ({"arguments": ""} if "arguments" in one else {})) for one in (thought, *asked_for)]
    for one in asked_for:
        events += [delta("function_call_arguments", one["arguments"], output_index=0, item_id=one["id"])]
    events += [added(0, one, "done") for one in (thought, *asked_for)]
    brought = fed(CREATED, *events, ended(*([thought, *asked_for] if output else ())))
    assert brought.turn is not None
    assert asked(brought.turn) == brought.calls == [("c1", "add", '{"a":1}'), ("c2", "add", '{"b":2}')]
    assert brought.turn.payload == [thought, *asked_for]


@pytest.mark.parametrize("own", ["", "fc_0"])
def test_items_that_share_an_index_and_an_id(own: str) -> None:
    """What comes is about the last of them, and where an item stands in the output of the end is its own place."""
    asked_for = [function(one, text, id=own) for one, text in (("c1", '{"a":1}'), ("c2", '{"b":2}'))]
    begins = [added(0, one | {"arguments": ""}) for one in asked_for]
    writes = [delta("function_call_arguments", one["arguments"], output_index=0, item_id=own) for one in asked_for]
    told, untold = [begins[0], writes[0], begins[1], writes[1]], [*begins, writes[1]]
    expected = [("c1", "add", '{"a":1}'), ("c2", "add", '{"b":2}')]
    for events in ([*told, ended()], [*untold, ended(*asked_for)]):
        brought = fed(CREATED, *events)
        assert (brought.outcome, brought.calls) == (("calls", "", expected), expected)


def test_an_item_that_ends_under_other_ids_is_the_same() -> None:
    """Gateways make up new ids for each event: a call that began once is one call."""
    ends = added(0, function("c2", '{"a":1}', id="fc_2"), "done")
    brought = fed(CREATED, added(0, function("c1", "", id="fc_1")), ends, ended())
    assert brought.outcome == ("calls", "", [("c2", "add", '{"a":1}')])


def test_an_item_that_was_not_announced() -> None:
    """Its text says what it is; a call without a name is malformed."""
    text = fed(CREATED, delta("output_text", "Hm."), ended())
    call = fed(CREATED, delta("function_call_arguments", "{}", item_id="fc_1", output_index=0), ended())
    assert (text.turn and text.turn.text, text.deltas) == ("Hm.", (Delta("text", "Hm."),))
    assert (call.turn and call.turn.fault, call.calls) == ("output[0].name: it is missing", [("", "", "{}")])


def test_what_is_said_whole_is_shown_once() -> None:
    """Servers that send no pieces, or not all of them, say the rest at the end: of a text, an item or the response."""
    whole = [said("Hello."), function("c1", '{"a":1}')]
    calls = [Delta("call", "", 0, "c1", "add"), Delta("call", '{"a":1}', 0, "c1", "add")]
    ways: list[list[Event]] = [
        [ended(*whole)],
        [added(0, whole[0], "done"), added(1, whole[1], "done"), ended(*whole)],
        [added(0, said()), added(1, function("c1", "")), ended(*whole)],
        [
            added(0, said()),
            {"type": "response.output_text.done", "text": "Hello.", "output_index": 0, "content_index": 0},
            added(0, whole[0], "done"),
            added(1, function("c1", "")),
            {"type": "response.function_call_arguments.done", "arguments": '{"a":1}', "output_index": 1},
            ended(*whole),
        ],
    ]
    found = [fed(CREATED, *way) for way in ways]
    assert [one.turn for one in found] == [OPENAI_RESPONSES.decode(response(*whole))] * 4
    assert [(one.shown("text"), [delta for delta in one.deltas if delta.kind == "call"]) for one in found] == [
        ("Hello.", calls)
    ] * 4


def test_events_are_left_as_they_were() -> None:
    """What becomes of an item is seen in the turn alone, and what is done to an event later is not."""
    events = [CREATED, added(0, said() | {"content": []}), delta("output_text", "Hm.", output_index=0), ended()]
    before = copy.deepcopy(events)
    stream = OPENAI_RESPONSES.stream()
    for event in events:
        stream.feed(event)
    assert (stream.turn().text, events) == ("Hm.", before)
    events[1]["item"]["content"].append({"type": "output_text", "text": "mine"})
    assert stream.turn().text == "Hm."


def test_what_the_end_says_outranks_the_pieces() -> None:
    """A text that the server says otherwise at the end is what the turn holds; a screen keeps what it was shown."""
    brought = fed(CREATED, added(0, said()), delta("output_text", "Hallo", output_index=0), ended(said("Hello.")))
    assert (brought.turn and brought.turn.text, brought.shown("text")) == ("Hello.", "Hallo")


def test_the_output_of_the_response_is_the_reply() -> None:
    """Items that are not in it are none of the reply's; what it leaves out of one that was told before is kept."""
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": []}
    brought = fed(
        CREATED,
        added(0, reasoning | {"encrypted_content": "gAA"}, "done"),
        added(1, function("c1"), "done"),
        added(2, function("c2", id="fc_2"), "done"),
        ended(reasoning | {"encrypted_content": None}, function("c1")),
    )
    assert brought.turn is not None
    assert brought.turn.payload == [reasoning | {"encrypted_content": "gAA"}, function("c1")]


def test_only_the_first_response_of_a_body_is_taken() -> None:
    """What comes after the end is not looked at."""
    brought = fed(CREATED, ended(said("One.")), CREATED, ended(said("Two.")), {"error": "x"})
    assert (brought.turn and brought.turn.text, brought.shown("text")) == ("One.", "One.")


def test_a_response_that_is_cut_or_refused() -> None:
    """It is a turn of its kind, and its calls are not run."""
    cut_off, filtered, refused = (
        fed(CREATED, added(0, function("c1", '{"a"')), ended(kind="incomplete", incomplete_details={"reason": reason}))
        if reason
        else fed(CREATED, ended(declined("No.")))
        for reason in ("max_output_tokens", "content_filter", "")
    )
    assert [(one.turn and one.turn.kind, one.turn and one.turn.calls) for one in (cut_off, filtered, refused)] == [
        ("truncated", ()),
        ("refused", ()),
        ("refused", ()),
    ]


def test_errors() -> None:
    """They are raised with the provider's code, whatever looked whole before them; some may pass."""
    call = [CREATED, added(0, function("c1", '{"a":1}'), "done")]
    failed: list[tuple[Event, str, str, bool]] = [
        (ended(kind="failed", error={"code": "server_error", "message": "Sorry."}), "server_error", "Sorry.", True),
        (ended(kind="failed", error={"code": "invalid_prompt", "message": "No."}), "invalid_prompt", "No.", False),
        (ended(kind="failed"), "failed", "", False),
        ({"type": "error", "code": "rate_limit_exceeded", "message": "Slow"}, "rate_limit_exceeded", "Slow", True),
        ({"type": "error", "error": {"type": "server_error", "message": "Oh"}}, "server_error", "Oh", True),
    ]
    errors = [fed(*call, event).error for event, *_ in failed]
    assert [(one and one.code, one and one.message, one and one.retryable) for one in errors] == [
        tuple(words) for _, *words in failed
    ]


@pytest.mark.parametrize("clean", [{"type": "[DONE]"}, None], ids=["mark", "close"])
def test_an_end_that_is_not_the_responses_own(clean: Event | None) -> None:
    """A response that nobody said was completed is malformed, and nothing of it runs."""
    events = [CREATED, added(0, function("c1", '{"a":1}'), "done"), *([clean] if clean else [])]
    turn = feed(OPENAI_RESPONSES.stream(), events, clean=True).turn
    assert turn is not None
    assert (turn.kind, turn.fault) == ("malformed", "the provider stopped it: in_progress")


def test_a_response_that_is_not_streamed_is_taken_in_one_piece() -> None:
    """Servers that do not stream send the response itself."""
    whole = response(said("Hm."), function("c1", '{"a":1}'))
    brought = fed(whole)
    assert brought.turn == OPENAI_RESPONSES.decode(whole)
    assert (brought.shown("text"), brought.calls) == ("Hm.", [("c1", "add", '{"a":1}')])


def test_events_of_the_sdk_are_taken() -> None:
    """The objects that the openai package makes of the events give what the events give."""
    events = [
        CREATED,
        added(0, function("c1", "", status="in_progress")),
        delta("function_call_arguments", '{"a":1}', output_index=0, item_id="fc_1", sequence_number=3),
        ended(function("c1", '{"a":1}')),
    ]
    adapter: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    # What is missing in these events the SDK does not ask for either: it builds its objects without checking.
    built = [type(adapter.validate_python(_filled(event))).construct(**event) for event in events]
    assert [type(event).__name__ for event in built] == [
        "ResponseCreatedEvent",
        "ResponseOutputItemAddedEvent",
        "ResponseFunctionCallArgumentsDeltaEvent",
        "ResponseCompletedEvent",
    ]
    assert (fed(*built).calls, fed(*built).deltas) == (fed(*events).calls, fed(*events).deltas)


def _filled(event: Event) -> Event:
    """The event with all that its type asks for."""
    whole = {"id": "r", "created_at": 0, "object": "response", "parallel_tool_calls": True, "tools": [], "model": "m"}
    more = {"response": whole | {"tool_choice": "auto"} | event["response"]} if "response" in event else {}
    return {"sequence_number": 1} | event | more


# --- whatever comes ---------------------------------------------------------------------------------------

WORDS = st.sampled_from(["", " ", "x", '{"a":1}'])
PLACE = st.integers(-1, 3)
ITEM = shape(
    type=st.sampled_from(["message", "reasoning", "function_call", "custom_tool_call", "brand_new"]),
    id=WORDS,
    call_id=WORDS,
    name=WORDS,
    arguments=WORDS,
    input=WORDS,
    content=st.lists(shape(type=st.sampled_from(["output_text", "refusal"]), text=WORDS, refusal=WORDS), max_size=2),
    summary=st.lists(shape(type=st.just("summary_text"), text=WORDS), max_size=2),
)
KINDS = [
    *("response.output_item.added", "response.output_item.done", "response.created", "response.completed"),
    *("response.incomplete", "response.failed", "error", "[DONE]"),
    *(
        f"response.{kind}.{stage}"
        for kind in ("output_text", "refusal", "reasoning_summary_text", "function_call_arguments")
        for stage in ("delta", "done")
    ),
]
EVENT = shape(
    type=st.sampled_from(KINDS),
    output_index=PLACE,
    content_index=PLACE,
    summary_index=PLACE,
    item_id=WORDS,
    item=ITEM,
    delta=WORDS,
    text=WORDS,
    arguments=WORDS,
    response=shape(output=st.lists(ITEM, max_size=2), status=st.sampled_from(["completed", "failed"])),
)


@settings(deadline=None, max_examples=100)
@given(events=st.lists(EVENT | JSON, max_size=6))
def test_whatever_comes_there_is_a_turn_or_a_model_error(events: list[Any]) -> None:
    """Events in any order and of any shape raise nothing but ModelError, and are left as they were."""
    before = copy.deepcopy(events)
    brought = fed(*events)
    assert (brought.turn is None) is (brought.error is not None)
    assert repr(events) == repr(before)


def test_a_place_that_there_is_not() -> None:
    """A part far beyond the others, or before the first, is malformed, and makes no room for itself."""
    for place in (7, 10**12, -1):
        error = fed(CREATED, added(0, said()), delta("output_text", "x", output_index=0, content_index=place)).error
        assert error is not None
        assert (error.code, f"content: it has 0 parts, and none at {place}" in error.message) == (
            "stream_malformed",
            True,
        )


def calls_made(act: Callable[[], object]) -> int:
    """How many functions were called meanwhile, those of C too, each of which does work in proportion to its text."""
    made: list[str] = []
    sys.setprofile(lambda frame, event, _: made.append(event) if event in ("call", "c_call") else None)
    try:
        act()
    finally:
        sys.setprofile(None)
    return len(made)


def test_pieces_cost_what_they_are() -> None:
    """Twice as many pieces cost twice as much, and are joined once."""

    def pieces(number: int) -> int:
        events = [CREATED, added(0, function("c1", ""))]
        events += [delta("function_call_arguments", "1", output_index=0)] * number
        return calls_made(lambda: fed(*events, ended()))

    base, once, twice = pieces(0), pieces(1000) - pieces(0), pieces(2000) - pieces(0)
    assert (base < 2000, twice <= 2 * once + 10) == (True, True)


class Compared(int):
    """A place that counts how often it is compared with another."""

    times = 0

    def __gt__(self, other: int) -> bool:
        Compared.times += 1
        return int(self) > int(other)

    def __lt__(self, other: int) -> bool:
        Compared.times += 1
        return int(self) < int(other)


def test_a_piece_that_names_no_item_is_of_the_last_without_a_search() -> None:
    """However many items there are: it costs no look at the others."""
    stream = OPENAI_RESPONSES.stream()
    for place in (0, 9, *range(1, 9)):
        stream.feed(added(Compared(place), said()))
    before = Compared.times
    for _ in range(10):
        stream.feed({"type": "response.output_text.delta", "delta": "x"})
    assert (Compared.times - before, before > 0) == (0, True)
    stream.close(True)
    assert [item.get("content") for item in stream.turn().payload][8:] == [
        [],
        [{"type": "output_text", "text": "x" * 10}],
    ]


def test_a_stream_raises_nothing_but_what_it_says() -> None:
    """A number in the place of an event, an item or a response is a ModelError, and so is what follows."""
    stream = OPENAI_RESPONSES.stream()
    for chunk in (5, added(0, 5), {"type": "response.completed", "response": 5}, added(0, said("x"))):
        with pytest.raises(ModelError, match="stream_malformed"):
            stream.feed(chunk)
    with pytest.raises(ModelError, match="stream_malformed"):
        stream.turn()


DETAILS: list[tuple[Any, str]] = [
    (None, "truncated"),
    ({}, "truncated"),
    ({"reason": "max_output_tokens"}, "truncated"),
    ({"reason": "content_filter"}, "refused"),
]


@pytest.mark.parametrize("status", [None, "", " ", "completed", "incomplete", "in_progress", 5, "absent"])
@pytest.mark.parametrize(("details", "kind"), DETAILS)
def test_the_event_says_that_a_response_is_incomplete(status: Any, details: Any, kind: str) -> None:
    """Whatever stands in the response as its status takes that back, and no call runs."""
    fields = {} if status == "absent" else {"status": status}
    told: dict[str, Any] = fields | {"incomplete_details": details}
    end = {"type": "response.incomplete", "response": told}
    for events in (
        [added(0, function("c1", '{"a":1}'), "done"), end],
        [end | {"response": told | {"output": [function("c1", "{}")]}}],
    ):
        turn = fed(CREATED, *events).turn
        assert turn is not None
        assert (turn.kind, turn.calls) == (kind, ())


@pytest.mark.parametrize("status", [None, "", " ", "completed", "incomplete"])
def test_a_response_that_says_so_itself_is_incomplete(status: str | None) -> None:
    """By its status or by a reason, whatever the event is called; a status that says nothing is the event's."""
    items = added(0, function("c1", '{"a":1}'), "done")
    ends = [{"status": status, "incomplete_details": details} for details, _ in DETAILS]
    turns = [fed(CREATED, items, {"type": "response.completed", "response": end}).turn for end in ends]
    kinds = ["truncated" if status == "incomplete" else "calls"] * 2 + ["truncated", "refused"]
    assert [turn and turn.kind for turn in turns] == kinds


def test_nothing_of_an_incomplete_response_runs() -> None:
    """The run ends, and the tool was not called."""
    ran: list[Any] = []
    end = {
        "type": "response.incomplete",
        "response": {"status": None, "incomplete_details": {"reason": "max_output_tokens"}},
    }
    events = [CREATED, added(0, function("c1", '{"a":1}'), "done"), end]
    tools = [Tool("add", "Add.", {"type": "object"}, lambda **given: ran.append(given))]
    result = run(lambda messages: fed(*events).turn, "go", tools=tools, wire=OPENAI_RESPONSES)
    assert (result.status, ran) == ("incomplete", [])


# --- ids alone --------------------------------------------------------------------------------------------


def test_items_that_only_their_ids_tell_apart() -> None:
    """Where neither a place nor the beginning of an item is told, each id is an item of its own, in their order."""
    texts = [
        delta("output_text", text, item_id=one) for one, text in (("m1", "A"), ("m2", "B"), ("m1", "a"), ("m2", "b"))
    ]
    said_twice = fed(CREATED, *texts, ended())
    assert (said_twice.turn and said_twice.turn.text, said_twice.shown("text")) == ("AaBb", "ABab")
    asked_for = [function(one, "", id=f"fc_{one}") for one in ("c1", "c2")]
    pieces = [("fc_c1", '{"a"'), ("fc_c2", '{"b"'), ("fc_c1", ":1}"), ("fc_c2", ":2}")]
    writes = [delta("function_call_arguments", text, item_id=one) for one, text in pieces]
    whole = [function(one, text, id=f"fc_{one}") for one, text in (("c1", '{"a":1}'), ("c2", '{"b":2}'))]
    expected = [("c1", "add", '{"a":1}'), ("c2", "add", '{"b":2}')]
    for events in (
        [*writes, *(added(None, one, "done") for one in whole)],
        [*(added(None, one) for one in asked_for), *writes],
        [writes[0], writes[2], added(None, whole[0], "done"), writes[1], writes[3], added(None, whole[1], "done")],
    ):
        brought = fed(CREATED, *events, ended())
        assert brought.outcome == ("calls", "", expected)
    assert fed(CREATED, texts[0], writes[0], writes[2], added(None, whole[0], "done"), ended()).outcome == (
        "calls",
        "A",
        expected[:1],
    )


def test_an_id_that_an_item_did_not_tell_is_the_last_items() -> None:
    """Some servers name an item only in the events of its text."""
    unnamed = {field: value for field, value in function("c1", "").items() if field != "id"}
    events = [added(None, unnamed), delta("function_call_arguments", "{}", item_id="fc_1")]
    events += [added(None, unnamed | {"call_id": "c2"}), delta("function_call_arguments", '{"b":2}', item_id="fc_2")]
    assert fed(CREATED, *events, ended()).outcome == ("calls", "", [("c1", "add", "{}"), ("c2", "add", '{"b":2}')])


@pytest.mark.parametrize("kind", ["completed", "incomplete"])
def test_an_item_that_nests_too_deep_is_the_same_streamed_or_not(kind: str) -> None:
    """It is malformed or, in a response that was cut, cut."""
    item: Any = function("c1", "{}") | {"odd": deep(120)}
    whole = OPENAI_RESPONSES.decode(response(item, status=kind))
    streams = [
        fed(CREATED, *events).turn for events in ([added(0, item, "done"), ended(kind=kind)], [ended(item, kind=kind)])
    ]
    assert [(turn and turn.kind, turn and turn.fault) for turn in streams] == [(whole.kind, whole.fault)] * 2
    assert whole.kind == ("malformed" if kind == "completed" else "truncated")
