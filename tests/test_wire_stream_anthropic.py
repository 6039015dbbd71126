"""The accumulator of ANTHROPIC: the events of a message, and what they come to."""

from __future__ import annotations

import json
import random
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopmachine import Turn, Usage
from loopmachine.wire import ANTHROPIC, Delta
from tests.feeding import Fed, asked, feed
from tests.test_wire_base import exchange, sent
from tests.test_wire_stream import STOP_EVENT, adds, begins


def starts(**message: Any) -> dict[str, Any]:
    """The event that begins a message."""
    return {"type": "message_start", "message": {"role": "assistant", "content": [], "stop_reason": None, **message}}


def tells(stop: str | None = None, **usage: Any) -> dict[str, Any]:
    """The event that says why a message ends."""
    return {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}


def fed(*events: dict[str, Any], stop: str = "tool_use") -> Fed:
    """What these events and an end bring."""
    return feed(ANTHROPIC.stream(), [starts(), *events, tells(stop), STOP_EVENT])


def turn(*events: dict[str, Any], stop: str = "tool_use") -> Turn:
    """The turn of it."""
    made = fed(*events, stop=stop).turn
    assert made is not None
    return made


# --- what is shown --------------------------------------------------------------------------------------


def test_what_a_screen_is_shown() -> None:
    """Thoughts, text, and of a call its id and name, then each new piece of its input; nothing of other blocks."""
    events = [
        starts(),
        {"type": "ping"},
        begins(0, type="thinking", thinking="", signature=""),
        adds(0, "thinking_delta", thinking="Hm"),
        adds(0, "signature_delta", signature="c2ln"),
        {"type": "content_block_stop", "index": 0},
        begins(1, type="text", text="So"),
        adds(1, "text_delta", text=""),
        adds(1, "text_delta", text=":"),
        begins(9, type="of the future", text="No"),
        adds(9, "text_delta", text="No"),
        begins(2, type="server_tool_use", id="s", name="web_search", input={}),
        adds(2, "input_json_delta", partial_json='{"q": 1}'),
        begins(3, type="tool_use", id="a", name="f", input={}),
        begins(4, type="tool_use", id="b", name="g"),
        adds(3, "input_json_delta", partial_json=""),
        adds(4, "input_json_delta", partial_json="{}"),
        tells("tool_use"),
        {"type": "of the future", "index": 9},
        STOP_EVENT,
    ]
    stream = ANTHROPIC.stream()
    shown = [(place, delta) for place, event in enumerate(events) for delta in stream.feed(event)]
    assert shown == [
        (3, Delta("thinking", "Hm")),
        (6, Delta("text", "So")),
        (8, Delta("text", ":")),
        (13, Delta("call", "", 0, "a", "f")),
        (14, Delta("call", "", 1, "b", "g")),
        (16, Delta("call", "{}", 1, "b", "g")),
    ]


# --- blocks ---------------------------------------------------------------------------------------------


def test_blocks_as_they_go_back() -> None:
    """Thinking with its signature, even one said twice, redacted or empty, cited text and calls: in place, whole."""
    cited = [{"type": "page_location", "page": n} for n in (1, 2)]
    made = turn(
        begins(0, type="thinking", thinking="H", signature=""),
        adds(0, "thinking_delta", thinking="m"),
        adds(0, "signature_delta", signature="c2ln"),
        begins(1, type="thinking", thinking="", signature=""),
        adds(1, "signature_delta", signature="ZW1wdHk="),
        adds(1, "signature_delta", signature="ZW1wdHk="),
        begins(2, type="redacted_thinking", data="cmVk"),
        begins(3, type="text", text="", citations=None),
        adds(3, "citations_delta", citation=cited[0]),
        adds(3, "text_delta", text="So"),
        adds(3, "citations_delta", citation=cited[1]),
        begins(4, type="tool_use", id="a", name="f", input={}, caller={"type": "direct"}),
        adds(4, "input_json_delta", partial_json='{"n":'),
        adds(4, "input_json_delta", partial_json=" 1}"),
        begins(5, type="redacted_thinking", data=""),
        begins(6, type="thinking", thinking="", signature=""),
    )
    blocks: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "Hm", "signature": "c2ln"},
        {"type": "thinking", "thinking": "", "signature": "ZW1wdHk="},
        {"type": "redacted_thinking", "data": "cmVk"},
        {"type": "text", "text": "So", "citations": cited},
        {"type": "tool_use", "id": "a", "name": "f", "input": {"n": 1}, "caller": {"type": "direct"}},
        {"type": "redacted_thinking", "data": ""},
        {"type": "thinking", "thinking": "", "signature": ""},
    ]
    assert sent(ANTHROPIC, exchange(made, ("ok", "1")))[0] == {"role": "assistant", "content": blocks}
    assert asked(made) == [("a", "f", '{"n": 1}')]


def test_a_delta_of_the_future() -> None:
    """Text in it is added to the block's field of that name, anything else is set."""
    made = turn(
        begins(0, type="compaction", content="A"),
        adds(0, "compaction_delta", content="B", odd=None),
        adds(0, "compaction_delta", content="C", score=1),
        begins(1, type="text", text="So"),
        stop="end_turn",
    )
    assert made.payload == [{"type": "compaction", "content": "ABC", "score": 1}, {"type": "text", "text": "So"}]


INPUTS: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "no input, no pieces": ({}, [], ""),
    "an empty input, no pieces": ({"input": {}}, [], ""),
    "an empty input, a blank piece": ({"input": {}}, [""], ""),
    "no input, pieces": ({}, ['{"n"', ": 1}"], '{"n": 1}'),
    "a whole input": ({"input": {"n": 1}}, [], '{"n":1}'),
    "a whole input, a blank piece": ({"input": {"n": 1}}, [""], '{"n":1}'),
    "a whole input, and again in pieces": ({"input": {"n": 1}}, ['{"n"', ": 1}"], '{"n":1}'),
    "pieces that are no JSON": ({"input": {}}, ['{"n": '], '{"n": '),
}


@pytest.mark.parametrize("what", INPUTS)
def test_the_input_of_a_call(what: str) -> None:
    """It is the text that the model wrote, or the object that came whole; what goes back is an object."""
    given, pieces, expected = INPUTS[what]
    pieces_of_it = [adds(0, "input_json_delta", partial_json=piece) for piece in pieces]
    brought = fed(begins(0, type="tool_use", id="a", name="f", **given), *pieces_of_it)
    assert brought.turn is not None
    assert asked(brought.turn) == brought.calls == [("a", "f", expected)]
    back = sent(ANTHROPIC, exchange(brought.turn, ("ok", "1")))[0]["content"][0]["input"]
    assert back == (json.loads(expected) if expected.endswith("}") else {})


@pytest.mark.parametrize(
    ("pieces", "whole"), [(['{"q"', ": 1}"], {"q": 1}), ([""], {}), (['{"q"'], {}), (["[1]"], {}), ([], {"q": 0})]
)
def test_the_input_of_a_servers_tool(pieces: list[str], whole: dict[str, Any]) -> None:
    """It is no call, and goes back as an object whatever was written."""
    start = begins(0, type="server_tool_use", id="s", name="web_search", input={} if pieces else {"q": 0})
    made = turn(
        start, *(adds(0, "input_json_delta", partial_json=piece) for piece in pieces), begins(1, type="text", text="So")
    )
    searched = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": whole}
    assert (made.payload, made.calls) == ([searched, {"type": "text", "text": "So"}], ())


def test_blocks_are_found_by_their_index() -> None:
    """Pieces of several open blocks may be mixed, and a gateway may begin every block at the same index."""
    mixed = [
        begins(3, type="tool_use", id="a", name="f"),
        begins(8, type="tool_use", id="b", name="g"),
        adds(3, "input_json_delta", partial_json="{"),
        adds(8, "input_json_delta", partial_json='{"n": 1'),
        adds(3, "input_json_delta", partial_json="}"),
        adds(8, "input_json_delta", partial_json="}"),
    ]
    same = [
        begins(0, type="tool_use", id="a", name="f"),
        adds(0, "input_json_delta", partial_json="{}"),
        begins(0, type="tool_use", id="b", name="g"),
        adds(0, "input_json_delta", partial_json='{"n": 1}'),
    ]
    nowhere = [{field: value for field, value in event.items() if field != "index"} for event in same]
    expected = [("a", "f", "{}"), ("b", "g", '{"n": 1}')]
    assert [fed(*events).calls for events in (mixed, same, nowhere)] == [expected] * 3
    assert [asked(turn(*events)) for events in (mixed, same, nowhere)] == [expected] * 3


#: Indexes of three blocks as they begin, with the order in which these stand.
INDEXES: list[tuple[list[Any], str]] = [
    ([0, 1, 2], "abc"),
    ([2, 0, 1], "bca"),
    ([10, 9, 2], "cba"),
    ([2, 0, 0], "abc"),
    ([1, 1, 1], "abc"),
    ([2, 1, None], "abc"),
    (["2", "1", "0"], "abc"),
]


@pytest.mark.parametrize(("indexes", "order"), INDEXES, ids=str)
def test_blocks_stand_in_the_order_of_their_indexes(indexes: list[Any], order: str) -> None:
    """Text and calls, however they come; where a server gives an index twice or none, as they began."""
    kinds: list[dict[str, Any]] = [
        {"type": "text", "text": "So"},
        {"type": "tool_use", "id": "b", "name": "f", "input": {"n": 1}},
        {"type": "tool_use", "id": "c", "name": "g", "input": {"n": 2}},
    ]
    made = turn(*(begins(index, **block) for index, block in zip(indexes, kinds, strict=True)))
    named = dict(zip("abc", kinds, strict=True))
    assert (made.payload, asked(made)) == (
        [named[one] for one in order],
        [(one, named[one]["name"], json.dumps(named[one]["input"]).replace(" ", "")) for one in order if one != "a"],
    )


WRONG: dict[str, dict[str, Any]] = {
    "a piece of no block": adds(5, "text_delta", text="x"),
    "an index that is no key": adds([], "text_delta", text="x"),  # type: ignore[arg-type]  # on purpose
    "no block": {"type": "content_block_start", "index": 1},
    "a block that is none": {"type": "content_block_start", "index": 1, "content_block": 5},
    "a text that is none": begins(1, type="text", text=5),
    "an id that is none": begins(1, type="tool_use", id=5, name="f"),
    "an input that is none": begins(1, type="tool_use", id="a", name="f", input=[1]),
    "no delta": {"type": "content_block_delta", "index": 0},
    "a delta that is none": {"type": "content_block_delta", "index": 0, "delta": 5},
    "a piece that is none": adds(0, "input_json_delta", partial_json=5),
    "a piece for what is no text": adds(0, "odd_delta", odd="x"),
    "no message": {"type": "message_start"},
    "no end of a message": {"type": "message_delta"},
}


@pytest.mark.parametrize("what", WRONG)
def test_an_event_of_the_wrong_shape(what: str) -> None:
    """It is malformed, which is retryable: a piece that can't be placed is not lost."""
    assert fed(begins(0, type="tool_use", id="a", name="f", odd=1), WRONG[what]).outcome == ("stream_malformed", True)


# --- the message ----------------------------------------------------------------------------------------


def test_usage_is_what_was_said_last_of_each_count() -> None:
    """The counts of a message_delta are those so far, and null says nothing."""
    events = [
        starts(model="m", usage={"input_tokens": 600, "cache_read_input_tokens": 5, "output_tokens": 1}),
        begins(0, type="text", text="So"),
        tells(None, output_tokens=4),
        tells(
            "end_turn",
            input_tokens=28,
            cache_read_input_tokens=None,
            output_tokens=9,
            output_tokens_details={"thinking_tokens": 4},
        ),
        STOP_EVENT,
    ]
    made = feed(ANTHROPIC.stream(), events).turn
    assert made is not None
    assert made.usage == Usage(input_tokens=33, output_tokens=9, cached_tokens=5, reasoning_tokens=4, model="m")


def test_usage_that_nobody_told() -> None:
    """Then there is none, which is not zero."""
    events = [
        begins(0, type="text", text="So"),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        STOP_EVENT,
    ]
    assert feed(ANTHROPIC.stream(), events).turn == ANTHROPIC.decode(
        {"content": [{"type": "text", "text": "So"}], "stop_reason": "end_turn"}
    )


def test_a_stop_reason_is_not_taken_back_by_null() -> None:
    """A later event without one leaves it."""
    events = [starts(), begins(0, type="text", text="So"), tells("max_tokens"), tells(None), STOP_EVENT]
    assert feed(ANTHROPIC.stream(), events).outcome == ("truncated", "So", [])


def test_nothing_is_read_after_message_stop() -> None:
    """Another message, an error or garbage then changes nothing."""
    late: list[Any] = [begins(0, type="text", text="No"), {"type": "error", "error": {"type": "late"}}, 5]
    brought = feed(ANTHROPIC.stream(), [starts(), begins(0, type="text", text="So"), STOP_EVENT, *late])
    assert (brought.outcome, brought.shown("text")) == (("final", "So", []), "So")


def test_a_message_of_nothing() -> None:
    """One that was begun and ended without a block is a turn, and as malformed as where it was not streamed."""
    assert feed(ANTHROPIC.stream(), [starts(), tells("end_turn"), STOP_EVENT]).outcome == ("malformed", "", [])


def test_the_real_objects_of_the_anthropic_sdk() -> None:
    """Events as its client makes them, whose fields may stand in another order."""
    from anthropic import types

    made: dict[str, Any] = {
        "message_start": types.RawMessageStartEvent,
        "content_block_start": types.RawContentBlockStartEvent,
        "content_block_delta": types.RawContentBlockDeltaEvent,
        "content_block_stop": types.RawContentBlockStopEvent,
        "message_delta": types.RawMessageDeltaEvent,
        "message_stop": types.RawMessageStopEvent,
    }
    events: list[dict[str, Any]] = [
        starts(id="msg_1", type="message", model="m", usage={"input_tokens": 1, "output_tokens": 1}),
        begins(0, type="thinking", thinking="", signature=""),
        adds(0, "thinking_delta", thinking="Hm"),
        adds(0, "signature_delta", signature="c2ln"),
        {"type": "content_block_stop", "index": 0},
        begins(1, type="tool_use", id="a", name="f", input={}),
        adds(1, "input_json_delta", partial_json='{"n": 1}'),
        tells("tool_use", output_tokens=7),
        STOP_EVENT,
    ]
    brought = feed(ANTHROPIC.stream(), (made[event["type"]].construct(**event) for event in events))
    plain = feed(ANTHROPIC.stream(), events)
    assert brought.turn is not None
    assert plain.turn is not None
    assert (brought.deltas, brought.turn.payload) == (plain.deltas, plain.turn.payload)
    assert attrs.evolve(brought.turn, payload_text="") == attrs.evolve(plain.turn, payload_text="")
    assert (brought.outcome, brought.shown("thinking")) == (("calls", "", [("a", "f", '{"n": 1}')]), "Hm")


# --- any message ------------------------------------------------------------------------------------------

PIECES = st.lists(st.text(max_size=3), max_size=3)
INPUT = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2)
BLOCKS = st.lists(
    st.tuples(st.sampled_from(["text", "thinking"]), PIECES) | st.tuples(st.just("tool_use"), INPUT), max_size=4
)
FIELDS = {"text": "text", "thinking": "thinking", "tool_use": "partial_json"}


@given(BLOCKS, st.booleans(), st.integers(0, 10**6))
def test_any_message_in_any_pieces(blocks: list[tuple[str, Any]], mixed: bool, seed: int) -> None:
    """Streamed, its pieces mixed at random, it is the turn that it is where it was not streamed."""
    dice, events, whole = random.Random(seed), [starts(usage={"input_tokens": 1, "output_tokens": 1})], []
    lanes = []
    for place, (kind, said) in enumerate(blocks):
        text = json.dumps(said) if kind == "tool_use" else "".join(said)
        cuts = sorted(dice.choices(range(len(text) + 1), k=2))
        pieces = [text[: cuts[0]], text[cuts[0] : cuts[1]], text[cuts[1] :]]
        empty = {"tool_use": {"id": f"c{place}", "name": "f", "input": {}}}.get(kind, {kind: ""})
        start = begins(place, type=kind, **empty)
        whole.append({"type": kind, **empty} | ({"input": said} if kind == "tool_use" else {kind: text}))
        lanes.append([start, *(adds(place, f"{kind}_delta", **{FIELDS[kind]: piece}) for piece in pieces)])
    events += [lane.pop(0) for lane in lanes if mixed]
    while lanes := [lane for lane in lanes if lane]:
        events.append((dice.choice(lanes) if mixed else lanes[0]).pop(0))
    brought = feed(ANTHROPIC.stream(), [*events, tells("odd", output_tokens=7), STOP_EVENT])
    expected = ANTHROPIC.decode(
        {"content": whole, "stop_reason": "odd", "usage": {"input_tokens": 1, "output_tokens": 7}}
    )
    assert brought.turn is not None
    as_whole = [(call.id, call.name, call.arguments) for call in expected.calls]
    assert [(call.id, call.name, call.arguments) for call in brought.turn.calls] == as_whole
    assert (brought.turn.text, brought.turn.usage, brought.turn.kind) == (expected.text, expected.usage, expected.kind)
    assert brought.calls == asked(brought.turn)
    results = [("ok", "1")] * len(as_whole)
    if results:
        assert sent(ANTHROPIC, exchange(brought.turn, *results)) == sent(ANTHROPIC, exchange(expected, *results))
    if not mixed:
        assert (brought.shown("text"), brought.shown("thinking")) == (
            expected.text,
            "".join(piece for kind, pieces in blocks for piece in pieces if kind == "thinking"),
        )


def test_a_thought_that_is_no_text_is_kept() -> None:
    """It is none of the answer, streamed or not, and goes back as it came."""
    blocks: list[dict[str, Any]] = [{"type": "thinking", "thinking": 5}, {"type": "text", "text": "So"}]
    brought = feed(ANTHROPIC.stream(), [starts(), *(begins(at, **one) for at, one in enumerate(blocks)), STOP_EVENT])
    assert brought.turn is not None
    assert (brought.outcome, brought.turn.payload, brought.shown("thinking")) == (("final", "So", []), blocks, "")
