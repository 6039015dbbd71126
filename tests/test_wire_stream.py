"""What holds of the accumulators of all wires: evidence, ends, errors, garbage, and what a piece costs."""

from __future__ import annotations

import copy
import json
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopmachine import History, ModelError, Tool, Turn, run
from loopmachine.records import Call, UserMessage
from loopmachine.wire import ANTHROPIC, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES, PLAIN, Accumulator, Delta, Wire
from loopmachine.wire.stream import provider_error
from tests.feeding import Fed, asked, feed
from tests.refusals import refused
from tests.test_wire_any_reply import (
    BLOCK,
    JSON,
    MESSAGE,
    STOP,
    TEXT,
    TOOL_CALL,
    USAGE,
    Dump,
    Hostile,
    Raising,
    endless,
    shape,
)
from tests.test_wire_base import REPLIES, every_provider, every_wire, exchange

STREAMED = [ANTHROPIC, OPENAI_CHAT]
every_stream = pytest.mark.parametrize("wire", STREAMED, ids=repr)


def chat(stop: str | None = None, **delta: Any) -> dict[str, Any]:
    """A chunk of a completion."""
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": stop}]}


def entry(index: Any, one: str | None = None, name: str | None = None, text: Any = None) -> dict[str, Any]:
    """An entry of a chunk's tool_calls."""
    return {"index": index, "id": one, "function": {"name": name, "arguments": text}}


def begins(index: Any, **block: Any) -> dict[str, Any]:
    """The event that begins a content block."""
    return {"type": "content_block_start", "index": index, "content_block": block}


def adds(index: int, kind: str, **delta: Any) -> dict[str, Any]:
    """The event that adds to one."""
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **delta}}


STOP_EVENT = {"type": "message_stop"}
DONE = {"type": "[DONE]"}
OPEN_CALL = begins(0, type="tool_use", id="c1", name="pay", input={})
ADDED_CALL = {
    "type": "response.output_item.added",
    "output_index": 0,
    "item": {"type": "function_call", "call_id": "c1", "name": "pay", "arguments": ""},
}
PAY = {"functionCall": {"id": "c1", "name": "pay", "args": '{"amount": 5}'}}
#: The chunks of one call without anything terminal, and what is terminal on the wire.
OPEN: dict[Wire, list[dict[str, Any]]] = {
    ANTHROPIC: [
        OPEN_CALL,
        adds(0, "input_json_delta", partial_json='{"amount": 5}'),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}},
    ],
    OPENAI_CHAT: [chat(tool_calls=[entry(0, "c1", "pay", '{"amount": 5}')])],
    OPENAI_RESPONSES: [
        ADDED_CALL,
        {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": '{"amount": 5}'},
    ],
    GEMINI: [{"candidates": [{"content": {"parts": [PAY]}}]}],
}
END: dict[Wire, dict[str, Any]] = {
    ANTHROPIC: STOP_EVENT,
    OPENAI_CHAT: chat("tool_calls"),
    OPENAI_RESPONSES: {"type": "response.completed", "response": {}},
    GEMINI: {"candidates": [{"finishReason": "STOP"}]},
}
PAID = ("calls", "", [("c1", "pay", '{"amount": 5}')])
CUT = ("stream_cut", True)


# --- evidence -------------------------------------------------------------------------------------------


@every_provider
def test_what_is_evidence(wire: Wire) -> None:
    """The wire's own end and a clean close make a turn of the same chunks, an end without them none; ``[DONE]`` is the
    own mark of the chat wire alone: on others it neither ends a reply nor hides what comes after it.
    """
    chunks = OPEN[wire]
    outcomes = [
        feed(wire.stream(), chunks).outcome,
        feed(wire.stream(), [*chunks, END[wire]]).outcome,
        feed(wire.stream(), chunks, clean=True).outcome,
        feed(wire.stream(), [*chunks, DONE]).outcome,
        feed(wire.stream(), [*chunks, DONE, END[wire]]).outcome,
    ]
    assert outcomes == [CUT, PAID, PAID, PAID if wire is OPENAI_CHAT else CUT, PAID]


#: A call of which only its beginning came, in the bytes of a gateway that ends every stream with its own mark.
BEGUN: dict[Wire, list[dict[str, Any]]] = {
    ANTHROPIC: [{"type": "message_start", "message": {"role": "assistant"}}, OPEN_CALL],
    OPENAI_RESPONSES: [{"type": "response.created", "response": {"output": []}}, ADDED_CALL],
    GEMINI: [{"candidates": [{"content": {"parts": [{"functionCall": {"name": "pay"}}]}}]}],
}


@pytest.mark.parametrize("wire", list(BEGUN), ids=repr)
def test_a_call_that_was_cut_does_not_run_for_a_mark_of_another_wire(wire: Wire) -> None:
    """The stream is cut, which may be retried, and no tool runs with the arguments that never came."""
    paid: list[int] = []
    body = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in BEGUN[wire]]

    def model(messages: Any) -> Turn:
        stream = wire.stream()
        for chunk in wire.read([*body, b"data: [DONE]\n\n"]):
            stream.feed(chunk)
        stream.close()
        return stream.turn()

    result = run(model, "go", tools=[Tool("pay", "Pay.", {"type": "object"}, lambda: paid.append(1))], wire=wire)
    assert (result.status, result.snapshot.failure and result.snapshot.failure.code, paid) == (
        "model_error",
        "stream_cut",
        [],
    )


def part(*parts: Any, stop: str | None = None) -> dict[str, Any]:
    """A chunk of a response of Gemini's."""
    return {"candidates": [{"content": {"parts": list(parts)}, "finishReason": stop}]}


#: What a server sends that ends a text, or its reply, and then goes on; and what says no more of a reply that ended.
ENDED_TEXT: dict[Wire, list[dict[str, Any]]] = {
    ANTHROPIC: [
        begins(1, type="text", text="ok"),
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    ],
    OPENAI_CHAT: [chat("stop", content="ok")],
    OPENAI_RESPONSES: [
        {
            "type": "response.output_item.done",
            "output_index": 1,
            "item": {"type": "message", "status": "completed", "content": [{"type": "output_text", "text": "ok"}]},
        }
    ],
    GEMINI: [part({"text": "ok"}, stop="STOP")],
}
NO_MORE: dict[Wire, list[dict[str, Any]]] = {
    ANTHROPIC: [{"type": "ping"}],
    OPENAI_CHAT: [
        {"choices": [], "usage": {"prompt_tokens": 3}},
        chat(role="assistant", content="", reasoning=None, tool_calls=[]),
        chat() | {"usage": {"prompt_tokens": 3}},
    ],
    OPENAI_RESPONSES: [{"type": "keepalive"}],
    GEMINI: [{"usageMetadata": {"promptTokenCount": 3}}, part({"text": ""}), {"candidates": []}],
}


@every_provider
def test_more_of_a_reply_than_its_end_needs_an_end_of_its_own(wire: Wire) -> None:
    """A call that begins after a finish reason is cut until the next one; what says no more of the reply, such as
    usage, takes no end back.
    """
    chunks = [*ENDED_TEXT[wire], *OPEN[wire]]
    outcomes = [
        feed(wire.stream(), more).outcome
        for more in (chunks, [*chunks, *NO_MORE[wire]], [*chunks, END[wire]], [*chunks, END[wire], *NO_MORE[wire]])
    ]
    assert outcomes == [CUT, CUT, ("calls", "ok", PAID[2]), ("calls", "ok", PAID[2])]


@every_provider
def test_a_call_after_the_finish_reason_does_not_run_where_the_connection_broke(wire: Wire) -> None:
    """The run ends with the error of the stream, and the tool was not called with the half that came."""
    paid: list[Any] = []

    def model(messages: Any) -> Turn:
        stream = wire.stream()
        for chunk in [*ENDED_TEXT[wire], *OPEN[wire]]:
            stream.feed(chunk)
        return stream.turn()

    tool = Tool("pay", "Pay.", {"type": "object"}, lambda **given: paid.append(given))
    result = run(model, "go", tools=[tool], wire=wire)
    assert (result.status, result.snapshot.failure and result.snapshot.failure.code) == ("model_error", "stream_cut")
    assert paid == []


@every_wire
def test_a_stream_that_brought_nothing_is_cut(wire: Wire) -> None:
    """No chunk at all, a ping, an end mark: a clean end makes no turn of that."""
    streams: list[list[Any]] = [[], [{"type": "ping"}], [DONE], [{}]] if wire is not PLAIN else [[], [DONE]]
    fed = [feed(wire.stream(), chunks, clean=clean) for chunks in streams for clean in (False, True)]
    assert [one.outcome for one in fed] == [CUT] * len(fed)
    assert {str(one.error) for one in fed} == {"stream_cut: the stream brought nothing of a reply"}
    assert [one.deltas for one in fed] == [()] * len(fed)


def test_the_words_of_a_stream_that_was_cut() -> None:
    """They tell it from one that brought nothing."""
    assert (
        str(feed(OPENAI_CHAT.stream(), [chat(content="So")]).error)
        == "stream_cut: the stream ended before the reply did"
    )


@every_stream
def test_only_the_first_close_counts(wire: Wire) -> None:
    """A stream that was closed may be closed again, which changes nothing."""
    outcomes = []
    for first in (False, True):
        stream = wire.stream()
        for chunk in OPEN[wire]:
            stream.feed(chunk)
        stream.close(first)
        stream.close(not first)
        outcomes.append(feed_nothing(stream))
    assert outcomes == [CUT, PAID]


def feed_nothing(stream: Accumulator) -> Any:
    """What a stream gives as it stands."""
    return feed(stream, ()).outcome


@every_stream
def test_a_stream_that_was_closed_takes_nothing(wire: Wire) -> None:
    """It is the host's mistake, and would give the old turn in the place of the next."""
    stream = wire.stream()
    stream.close()
    with pytest.raises(
        ValueError, match=r"^this stream was closed: another reply needs .* of its own, wire.stream\(\)$"
    ):
        stream.feed(OPEN[wire][0])


@every_stream
def test_nothing_is_read_after_the_end_mark(wire: Wire) -> None:
    """Whatever comes then, an error or garbage too, adds nothing and harms nothing."""
    more: list[Any] = [*OPEN[wire], {"error": "late"}, 5, None, DONE]
    fed = feed(wire.stream(), [*OPEN[wire], DONE if wire is OPENAI_CHAT else END[wire], *more])
    assert (fed.outcome, len(fed.calls)) == (PAID, 1)


@every_stream
def test_a_turn_can_be_asked_for_at_any_time(wire: Wire) -> None:
    """Asked early it is cut, and that spoils nothing; asked twice it is the same."""
    stream, outcomes = wire.stream(), []
    for chunk in [*OPEN[wire], END[wire]]:
        stream.feed(chunk)
        with_more = feed_none(stream)
        outcomes.append(with_more)
    assert outcomes == [CUT] * len(OPEN[wire]) + [PAID]
    assert stream.turn() == stream.turn()


def feed_none(stream: Accumulator) -> Any:
    """The same without closing."""
    try:
        return Fed((), stream.turn()).outcome
    except ModelError as error:
        return Fed((), error=error).outcome


@every_stream
def test_the_calls_are_made_as_decode_makes_them(wire: Wire) -> None:
    """The loop, which knows its tools, makes each once."""
    stream = wire.stream()
    for chunk in [*OPEN[wire], END[wire]]:
        stream.feed(chunk)
    turn = stream.turn(lambda given: tuple(Call(one, name.upper(), text) for one, name, text in given))
    assert asked(turn) == [("c1", "PAY", '{"amount": 5}')]


# --- which call -----------------------------------------------------------------------------------------


def item(name: str, index: int = 0) -> dict[str, Any]:
    """The event that begins a call of a response."""
    call = {"type": "function_call", "call_id": "", "name": name, "arguments": ""}
    return {"type": "response.output_item.added", "output_index": index, "item": call}


def writes(text: str) -> dict[str, Any]:
    """The event that adds to its arguments."""
    return {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": text}


#: Two calls without ids, both at the first index where the wire has such.
ONE_INDEX: dict[Wire, list[dict[str, Any]]] = {
    ANTHROPIC: [
        begins(0, type="tool_use", name="a"),
        adds(0, "input_json_delta", partial_json='{"x":1}'),
        begins(0, type="tool_use", name="b"),
        adds(0, "input_json_delta", partial_json='{"x":2}'),
    ],
    OPENAI_CHAT: [
        chat(tool_calls=[entry(0, None, "a", '{"x":1}')]),
        chat(tool_calls=[entry(0, None, "b", '{"x":2}')]),
    ],
    OPENAI_RESPONSES: [item("a"), writes('{"x":1}'), item("b"), writes('{"x":2}')],
    GEMINI: [part({"functionCall": {"name": name, "args": {"x": x}}}) for name, x in (("a", 1), ("b", 2))],
}


@every_provider
def test_another_name_at_a_used_index_is_another_call(wire: Wire) -> None:
    """Neither call is lost, and none gets the arguments of the other."""
    brought = feed(wire.stream(), [*ONE_INDEX[wire], END[wire]])
    two = [("", "a", '{"x":1}'), ("", "b", '{"x":2}')]
    assert (brought.outcome, brought.calls) == (("calls", "", two), two)


# --- halves of characters -------------------------------------------------------------------------------

#: What brings a piece of a text of each kind, and what comes before the first.
HALVED: dict[str, tuple[Wire, list[dict[str, Any]], Callable[[str], dict[str, Any]]]] = {
    "text of a completion": (OPENAI_CHAT, [], lambda text: chat(content=text)),
    "reasoning of a completion": (OPENAI_CHAT, [], lambda text: chat(reasoning=text)),
    "arguments of a completion": (OPENAI_CHAT, [], lambda text: chat(tool_calls=[entry(0, "c", "f", text)])),
    "text of a message": (ANTHROPIC, [begins(0, type="text", text="")], lambda text: adds(0, "text_delta", text=text)),
    "input of a message": (
        ANTHROPIC,
        [begins(0, type="tool_use", id="c", name="f")],
        lambda text: adds(0, "input_json_delta", partial_json=text),
    ),
    "text of a response": (
        OPENAI_RESPONSES,
        [],
        lambda text: {"type": "response.output_text.delta", "output_index": 0, "delta": text},
    ),
    "arguments of a response": (OPENAI_RESPONSES, [item("f")], writes),
    "text of Gemini's": (GEMINI, [], lambda text: part({"text": text})),
}


@pytest.mark.parametrize("what", HALVED)
def test_half_a_character_is_shown_with_its_other_half(what: str) -> None:
    """A piece that ends in one waits for the next of its text; where none comes any more, a mark stands for it."""
    wire, before, piece = HALVED[what]
    pieces = ["hi \ud83d", "\ude00", "\ud83d", "\ude00!", "\ude00", "\ud83d", "x\ud83d"]
    stream = wire.stream()
    for chunk in before:
        stream.feed(chunk)
    shown = ["".join(delta.text for delta in stream.feed(piece(text))) for text in pieces]
    assert shown == ["hi ", "\U0001f600", "", "\U0001f600!", "\ufffd", "", "\ufffdx"]
    assert [[delta.text for delta in stream.feed(END[wire])] for _ in range(2)] == [["\ufffd"], []]


def test_halves_of_two_texts_are_not_mixed_up() -> None:
    """Each waits for more of its own text: thought, said, or the arguments of one call."""
    pieces = [
        chat(
            content="\ud83d",
            reasoning="\ud83d",
            tool_calls=[entry(0, "a", "f", "\ud83d"), entry(1, "b", "g", "\ud83d")],
        ),
        chat(tool_calls=[entry(1, text="\ude02")]),
        chat(reasoning="\ude01"),
        chat(content="\ude00"),
    ]
    stream = OPENAI_CHAT.stream()
    assert [stream.feed(chunk) for chunk in [*pieces, chat("tool_calls")]] == [
        (),
        (Delta("call", "\U0001f602", 1, "b", "g"),),
        (Delta("thinking", "\U0001f601"),),
        (Delta("text", "\U0001f600"),),
        (Delta("call", "\ufffd", 0, "a", "f"),),
    ]


# --- replies in one piece -------------------------------------------------------------------------------


@every_wire
def test_a_reply_that_was_not_streamed(wire: Wire) -> None:
    """A server that does not stream sends its reply whole: the turn is decode's, and its text and calls are shown."""
    reply = REPLIES[wire]("hm", 2, "STOP" if wire is GEMINI else None)
    reply |= {"type": "message"} if wire is ANTHROPIC else {}
    fed = feed(wire.stream(), [reply, DONE, {"late": 1}])
    assert fed.turn == wire.decode(reply)
    assert (fed.shown("text"), fed.calls) == ("hm", asked(wire.decode(reply)))


def test_a_plain_reply_is_one_chunk() -> None:
    """The shape is not streamed; what can't be read is malformed, as ever."""
    final, wrong = {"kind": "final", "text": "done"}, {"kind": "oops"}
    assert feed(PLAIN.stream(), [final, wrong]) == Fed((Delta("text", "done"),), PLAIN.decode(final))
    assert feed(PLAIN.stream(), [wrong]) == Fed((), PLAIN.decode(wrong))


# --- errors ---------------------------------------------------------------------------------------------

ERRORS: list[tuple[Any, tuple[str, str, bool]]] = [
    ({"type": "overloaded_error", "message": "Overloaded"}, ("overloaded_error", "Overloaded", True)),
    ({"type": "invalid_request_error", "message": "No."}, ("invalid_request_error", "No.", False)),
    ({"type": "invalid_request_error", "code": "tool_use_failed", "status_code": 400}, ("tool_use_failed", "", False)),
    ({"type": "server_error", "code": 500, "message": "Broke."}, ("server_error", "Broke.", True)),
    ({"type": "error", "code": 500, "message": "Broke."}, ("500", "Broke.", True)),
    ({"type": "server_error", "code": None, "message": "Broke."}, ("server_error", "Broke.", True)),
    ({"type": "requests", "code": "Rate_Limit_Exceeded"}, ("Rate_Limit_Exceeded", "", True)),
    ({"code": 503, "message": "Busy.", "status": "UNAVAILABLE"}, ("UNAVAILABLE", "Busy.", True)),
    ({"status": "RESOURCE_EXHAUSTED"}, ("RESOURCE_EXHAUSTED", "", True)),
    ({"code": "429", "message": "Slow down."}, ("429", "Slow down.", True)),
    ({"code": 408}, ("408", "", True)),
    ({"code": 400, "message": ["No."]}, ("400", "['No.']", False)),
    ({"code": "insufficient_quota"}, ("insufficient_quota", "", False)),
    ({"type": "error", "code": "server_error", "message": "Broke."}, ("server_error", "Broke.", True)),
    ({"type": "error", "message": "Broke."}, ("error", "Broke.", False)),
    ({"code": " ", "type": 4.5, "message": "Broke."}, ("error", "Broke.", False)),
    ({"code": 99999}, ("99999", "", False)),
    ("Broke.", ("error", "Broke.", False)),
    ({"detail": "Not Found"}, ("error", "Not Found", False)),
    ({"detail": [{"msg": "No."}]}, ("error", "[{'msg': 'No.'}]", False)),
    ({"detail": "Not Found", "message": "Broke."}, ("error", "Broke.", False)),
    (True, ("error", "True", False)),
]


@pytest.mark.parametrize(("error", "told"), ERRORS, ids=repr)
def test_an_error_of_a_provider(error: Any, told: tuple[str, str, bool]) -> None:
    """It bears the provider's code and words; overload, rate limits and faults of the server are retryable."""
    made = provider_error(error)
    assert (made.code, made.message, made.retryable, made.retry_after) == (*told, None)


@every_wire
@pytest.mark.parametrize("error", [one for one, _ in ERRORS], ids=repr)
def test_an_error_in_midstream(wire: Wire, error: Any) -> None:
    """It is raised at once, and there is no turn then, whatever came before or comes after."""
    stream = wire.stream()
    for chunk in OPEN.get(wire, []):
        stream.feed(chunk)
    raised = []
    for act in (lambda: stream.feed({"error": error}), lambda: stream.feed(END.get(wire, DONE)), stream.turn):
        with pytest.raises(ModelError) as caught:
            act()
        raised.append(caught.value)
    stream.close(True)
    with pytest.raises(ModelError) as caught:
        stream.turn()
    assert {repr(one) for one in [*raised, caught.value]} == {repr(provider_error(error))}


@every_wire
def test_the_shapes_that_errors_come_in(wire: Wire) -> None:
    """Under ``error``, as an event of that type, and as an object of that kind."""
    told = {"code": "server_error", "message": "Broke."}
    shapes = [{"error": told}, {"type": "error", "error": told}, {"type": "error", **told}, {"object": "error", **told}]
    assert [repr(feed(wire.stream(), [one]).error) for one in shapes] == [repr(provider_error(told))] * 4


@every_stream
@pytest.mark.parametrize("none", [None, "", {}, [], False], ids=repr)
def test_a_blank_error_is_none(wire: Wire, none: Any) -> None:
    """Servers send the field in every chunk."""
    assert feed(wire.stream(), [one | {"error": none} for one in [*OPEN[wire], END[wire]]]).outcome == PAID


# --- garbage --------------------------------------------------------------------------------------------

GARBAGE: list[Any] = [None, 5, "data", b"data", ["x"], object(), Hostile(), Raising(RuntimeError("no")), Turn("x")]
GARBAGE += [Dump(RuntimeError("no")), Dump([1])]


@every_wire
def test_what_is_no_chunk(wire: Wire) -> None:
    """Anything but a mapping or an SDK's object is malformed, which is retryable, and there is no turn then."""
    fed = [feed(wire.stream(), [*OPEN.get(wire, []), chunk, DONE]) for chunk in GARBAGE]
    assert [one.outcome for one in fed] == [("stream_malformed", True)] * len(GARBAGE)


def test_the_words_for_what_is_no_chunk() -> None:
    """They say what was given, or what reading it raised."""
    said = [
        str(feed(OPENAI_CHAT.stream(), [one]).error)
        for one in (5, chat() | {"choices": 5}, Raising(RuntimeError("no")))
    ]
    assert said == [
        "stream_malformed: a chunk can't be read: chunk: it must be a mapping or an SDK's object, not int",
        "stream_malformed: a chunk can't be read: choices: it must be a list of choices, not int",
        "stream_malformed: a chunk can't be read: RuntimeError: no",
    ]


@every_wire
def test_a_stop_of_the_host_passes_through(wire: Wire) -> None:
    """A KeyboardInterrupt is no fault of the stream."""
    stream = wire.stream()
    with pytest.raises(KeyboardInterrupt):
        stream.feed(Raising(KeyboardInterrupt()))


def deep(depth: int) -> dict[str, Any]:
    """An object within an object, and so on."""
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"x": value}
    return value


@every_stream
@pytest.mark.parametrize("depth", [100, 300, 480, 960, 100_000])
def test_a_chunk_that_is_nested_deep(wire: Wire, depth: int) -> None:
    """It gives a turn or a ModelError, at whatever step it is too deep."""
    odd = [chat(odd=deep(depth)), chat("stop", content="x")]
    if wire is ANTHROPIC:
        odd = [begins(0, type="text", text="x", odd=deep(depth)), STOP_EVENT]
    outcome = feed(wire.stream(), odd).outcome
    assert outcome in [("final", "x", []), ("malformed", "", []), ("malformed", "x", []), ("stream_malformed", True)]


def candidate(content: Any) -> dict[str, Any]:
    """A chunk of Gemini's with this content."""
    return {"candidates": [{"content": content}]}


def thought(told: Any) -> dict[str, Any]:
    """A chunk of chat with a part that holds this thought."""
    return chat(content=[{"type": "thinking", "thinking": told}])


NO_PARTS = {"type": "response.output_item.added", "item": {"type": "message", "id": "m", "content": "x"}}
TEXT_OF_A_PART = {"type": "response.output_text.delta", "item_id": "m", "content_index": 0, "delta": "x"}
#: Chunks of which the last has the wrong shape, and what is said: the field first.
MISSHAPEN: list[tuple[Wire, Any, str]] = [
    (ANTHROPIC, {"type": "message_start", "message": None}, "message: it must be an object, not null"),
    (ANTHROPIC, {"type": "content_block_start", "index": 0}, "content_block: it must be an object, not null"),
    (ANTHROPIC, begins([]), "index: it must be a number, not list"),
    (ANTHROPIC, adds(7, "text_delta", text="x"), "index: no block began at 7"),
    (ANTHROPIC, begins(0, type="text") | {"type": "content_block_delta"}, "index: no block began at 0"),
    (ANTHROPIC, [OPEN_CALL, adds(0, "x") | {"delta": 5}], "delta: it must be an object, not int"),
    (ANTHROPIC, {"type": "message_delta", "delta": "x"}, "delta: it must be an object, not str"),
    (OPENAI_CHAT, {"choices": 5}, "choices: it must be a list of choices, not int"),
    (OPENAI_CHAT, {"choices": [None]}, "choices[0]: it must be a choice, an object, not null"),
    (OPENAI_CHAT, {"choices": [{"delta": "x"}]}, "delta: it must be an object, not str"),
    (OPENAI_CHAT, chat(tool_calls=5), "tool_calls: it must be a list of tool calls, not int"),
    (OPENAI_CHAT, chat(tool_calls=[5]), "tool_calls[0]: it must be a tool call, an object, not int"),
    (OPENAI_CHAT, chat(tool_calls=[{"function": 5}]), "function: it must be an object, not int"),
    (OPENAI_CHAT, chat(tool_calls=[{"custom": 5}]), "custom: it must be an object, not int"),
    (OPENAI_CHAT, chat(content=["x"]), "content[0]: it must be a part, an object, not str"),
    (OPENAI_CHAT, thought(["x"]), "thinking[0]: it must be a part, an object, not str"),
    (OPENAI_CHAT, thought([{}]), "thinking.text: it is missing"),
    (OPENAI_RESPONSES, {"type": "response.completed"}, "response: it must be an object, not null"),
    (OPENAI_RESPONSES, {"type": "response.failed", "response": 5}, "response: it must be an object, not int"),
    (OPENAI_RESPONSES, {"type": "response.output_item.added"}, "item: it must be an object, not null"),
    (OPENAI_RESPONSES, {"type": "response.output_item.done", "item": 5}, "item: it must be an object, not int"),
    (
        OPENAI_RESPONSES,
        {"type": "response.completed", "response": {"output": 5}},
        "output: it must be a list of response items, not int",
    ),
    (OPENAI_RESPONSES, [NO_PARTS, TEXT_OF_A_PART], "content: it must be a list of parts, not str"),
    (GEMINI, {"candidates": 5}, "candidates: it must be a list of candidates, not int"),
    (GEMINI, candidate(5), "content: it must be an object, not int"),
    (GEMINI, candidate({"parts": 5}), "content.parts: it must be a list of parts, not int"),
    (GEMINI, candidate({"parts": [{"functionCall": 5}]}), "functionCall: it must be an object, not int"),
    (
        GEMINI,
        candidate({"parts": [{"functionCall": {"name": "f", "partialArgs": 5}}]}),
        "partialArgs: it must be a list of pieces, not int",
    ),
    (GEMINI, candidate({"odd": deep(99)}), "content: lists and objects nest deeper than 100 levels"),
]


@pytest.mark.parametrize(("wire", "chunk", "says"), MISSHAPEN, ids=str)
def test_the_words_for_a_chunk_of_the_wrong_shape(wire: Wire, chunk: Any, says: str) -> None:
    """They begin with the field, and are none of Python's own."""
    chunks = chunk if isinstance(chunk, list) else [chunk]
    assert str(feed(wire.stream(), chunks).error) == f"stream_malformed: a chunk can't be read: {says}"


@every_wire
def test_a_chunk_that_holds_itself(wire: Wire) -> None:
    """It is no end of a run."""
    value = endless()
    chunks = [chat(**value), begins(0, type="text", odd=value), {"type": "message_start", "message": value}, value]
    outcomes = [feed(wire.stream(), [chunk, END.get(wire, DONE)]).outcome for chunk in chunks]
    assert {outcome[0] for outcome in outcomes} <= {"stream_malformed", "stream_cut", "malformed"}


DELTA = MESSAGE | shape(
    role=st.just("assistant"),
    content=TEXT,
    reasoning=TEXT,
    reasoning_details=st.lists(shape(type=TEXT, text=TEXT, index=st.integers(0, 1)), max_size=2),
    tool_calls=st.lists(
        TOOL_CALL | shape(index=st.integers(0, 2), id=TEXT, function=shape(name=TEXT, arguments=TEXT)), max_size=3
    ),
)
CHOICE = shape(delta=DELTA, message=MESSAGE, finish_reason=STOP, index=st.integers(0, 1), usage=USAGE)
ADDED = shape(type=TEXT, text=TEXT, thinking=TEXT, signature=TEXT, partial_json=TEXT, citation=JSON, stop_reason=STOP)
EVENTS = ["message_start", "content_block_start", "content_block_delta", "message_delta", "content_block_stop", "ping"]
CHUNKS = {
    "openai-chat": shape(choices=st.lists(CHOICE, max_size=2), usage=USAGE, model=TEXT, type=st.just("[DONE]")),
    "anthropic": shape(
        type=st.sampled_from([*EVENTS, "message_stop", "message"]),
        index=st.integers(0, 2),
        content_block=BLOCK,
        delta=ADDED,
        message=shape(content=st.lists(BLOCK, max_size=1), usage=USAGE, stop_reason=STOP),
        usage=USAGE,
        content=st.lists(BLOCK, max_size=2),
    ),
}


@every_stream
@given(data=st.data())
def test_any_chunks_give_deltas_and_a_turn_or_an_error(wire: Wire, data: st.DataObject) -> None:
    """Near the wire's shape or far from it, feeding raises a ModelError or nothing, and changes no chunk."""
    chunks = data.draw(st.lists(CHUNKS[wire.name] | JSON, max_size=6))
    before = repr(chunks)
    fed = feed(wire.stream(), copy.deepcopy(chunks), clean=True)
    assert all(type(delta) is Delta and type(delta.text) is str for delta in fed.deltas)
    assert fed.outcome == feed(wire.stream(), chunks, clean=True).outcome
    assert repr(chunks) == before


# --- objects of SDKs ------------------------------------------------------------------------------------


class Chunk(pydantic.BaseModel):
    """A chunk as an SDK gives it: an object with what it does not know beside what it does, unset fields too."""

    model_config = pydantic.ConfigDict(extra="allow")
    choices: list[Any] = []
    type: str = ""
    unset: str = "never sent"


@every_stream
def test_objects_of_an_sdk(wire: Wire) -> None:
    """They are taken as what the server sent."""
    chunks = [*OPEN[wire], END[wire]]
    assert feed(wire.stream(), map(Chunk.model_validate, chunks)) == feed(wire.stream(), chunks)


def test_the_real_objects_of_the_openai_sdk() -> None:
    """Chunks as its client makes them."""
    from openai.types.chat import ChatCompletionChunk

    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    chunks: list[dict[str, Any]] = [
        *OPEN[OPENAI_CHAT],
        chat(reasoning_content="hm"),
        END[OPENAI_CHAT],
        {"choices": [], "usage": usage},
    ]
    fed = feed(OPENAI_CHAT.stream(), (ChatCompletionChunk.construct(**chunk) for chunk in chunks))
    assert fed == feed(OPENAI_CHAT.stream(), chunks)
    assert (fed.outcome, fed.shown("thinking"), fed.turn and fed.turn.usage and fed.turn.usage.tokens) == (
        PAID,
        "hm",
        3,
    )


# --- what is handed out, and what it costs --------------------------------------------------------------


def test_a_delta_is_frozen() -> None:
    """What a screen is given changes nothing."""
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Delta("text", "x").text = "y"  # type: ignore[misc]  # on purpose


@every_wire
def test_each_stream_is_a_new_one(wire: Wire) -> None:
    """A wire is shared by all runs, its streams are not."""
    assert wire.stream() is not wire.stream()
    assert isinstance(wire.stream(), Accumulator)


PIECES: dict[str, tuple[Wire, dict[str, Any], Callable[[str], dict[str, Any]]]] = {
    "text of a completion": (OPENAI_CHAT, chat(content="x"), lambda text: chat(content=text)),
    "reasoning of a completion": (OPENAI_CHAT, chat(reasoning="x"), lambda text: chat(reasoning=text)),
    "arguments of a completion": (
        OPENAI_CHAT,
        chat(tool_calls=[entry(0, "c", "f", "x")]),
        lambda text: chat(tool_calls=[entry(0, text=text)]),
    ),
    "text of a message": (ANTHROPIC, begins(0, type="text", text="x"), lambda text: adds(0, "text_delta", text=text)),
    "thinking of a message": (
        ANTHROPIC,
        begins(0, type="thinking", thinking="x"),
        lambda text: adds(0, "thinking_delta", thinking=text),
    ),
    "input of a message": (
        ANTHROPIC,
        begins(0, type="tool_use", id="c", name="f"),
        lambda text: adds(0, "input_json_delta", partial_json=text),
    ),
}


@pytest.mark.parametrize("what", PIECES)
def test_a_piece_costs_no_copy_of_what_came_before(what: str) -> None:
    """Feeding one takes less memory than it is long, however much came: pieces are put together once, by ``turn``.

    They are long, since other threads of the process allocate a little meanwhile, which is counted too.
    """
    wire, first, piece = PIECES[what]
    stream, chunk = wire.stream(), piece("x" * 100_000)
    stream.feed(first)
    tracemalloc.start()
    most = max(peaks(lambda: stream.feed(chunk), 200))
    tracemalloc.stop()
    assert most < 100_000
    stream.close(True)
    assert "x" * 20_000_000 in (stream.turn().payload_text or "")


def peaks(act: Callable[[], object], times: int) -> Iterator[int]:
    """How many bytes more each of several acts needs while it acts."""
    for _ in range(times):
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        act()
        yield tracemalloc.get_traced_memory()[1] - before


# --- why it ended ---------------------------------------------------------------------------------------

#: What tells a stop reason, and what ends the stream after it where that is another.
STOPS: dict[Wire, tuple[Callable[[Any], dict[str, Any]], list[dict[str, Any]]]] = {
    ANTHROPIC: (lambda stop: {"type": "message_delta", "delta": {"stop_reason": stop}}, [STOP_EVENT]),
    OPENAI_CHAT: (chat, []),
    GEMINI: (lambda stop: {"candidates": [{"finishReason": stop}]}, []),
}
ABORTS = {"max_tokens": "truncated", "length": "truncated", "refusal": "refused", "SAFETY": "refused"}
ABORTS |= {"content_filter": "refused", "MALFORMED_FUNCTION_CALL": "malformed"}
GOES_ON = ["stop", "end_turn", "tool_use", "tool_calls", "STOP", "odd"]
SAYS_NOTHING = [None, "", " ", "FINISH_REASON_UNSPECIFIED"]


@pytest.mark.parametrize("wire", list(STOPS), ids=repr)
@pytest.mark.parametrize("stop", ABORTS)
def test_that_a_reply_was_cut_or_refused_is_not_taken_back(wire: Wire, stop: str) -> None:
    """Whatever reason is told before or after it, or that none is, the turn is of its kind and has no calls."""
    tells, end = STOPS[wire]
    for other in [*GOES_ON, *SAYS_NOTHING]:
        for stops in ([stop, other], [other, stop], [stop, other, "stop", None]):
            turn = feed(wire.stream(), [*OPEN[wire], *map(tells, stops), *end]).turn
            assert turn is not None
            assert (turn.stop, turn.kind, turn.calls) == (stop, ABORTS[stop], ())


@pytest.mark.parametrize("wire", list(STOPS), ids=repr)
@pytest.mark.parametrize("nothing", SAYS_NOTHING)
def test_a_stop_reason_that_says_nothing_changes_nothing(wire: Wire, nothing: str | None) -> None:
    """The reason that was told stays, and by itself it is no end of a reply."""
    tells, end = STOPS[wire]
    turn = feed(wire.stream(), [*OPEN[wire], tells("tool_calls"), tells(nothing), *end]).turn
    assert turn is not None
    assert (turn.stop, turn.kind) == ("tool_calls", "calls")
    if not end:
        assert feed(wire.stream(), [*OPEN[wire], tells(nothing)]).outcome == CUT


# --- one answer, streamed or not ------------------------------------------------------------------------


def nested(levels: int) -> Any:
    """An object of so many levels."""
    return {"x": nested(levels - 1) if levels > 1 else 1}


def pay(arguments: Any, **beside: Any) -> dict[Wire, dict[str, Any]]:
    """A whole reply of each wire that asks for one call, and why it stopped where that is told."""
    text = json.dumps(arguments)
    call = {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": text}}
    use = {"type": "tool_use", "id": "c1", "name": "pay", "input": arguments}
    function = {"functionCall": {"id": "c1", "name": "pay", "args": arguments}}
    item = {"type": "function_call", "call_id": "c1", "name": "pay", "arguments": text}
    return {
        ANTHROPIC: {"content": [use], "stop_reason": beside.get("stop")},
        OPENAI_CHAT: {"choices": [{"message": {"tool_calls": [call]}, "finish_reason": beside.get("stop")}]},
        OPENAI_RESPONSES: {"output": [item], "status": "incomplete" if beside else "completed"},
        GEMINI: {"candidates": [{"content": {"parts": [function]}, "finishReason": beside.get("stop", "STOP")}]},
    }


def paying(levels: int, stop: str | None) -> dict[Wire, list[list[dict[str, Any]]]]:
    """The same as chunks, in each way that the wire has for arguments."""
    text = json.dumps(nested(levels))
    tells = {"type": "message_delta", "delta": {"stop_reason": stop or "tool_use"}}
    path = {"jsonPath": "$" + ".x" * levels, "numberValue": 1}
    pieces = {"functionCall": {"id": "c1", "name": "pay", "partialArgs": [path]}}
    writes = {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": text}
    ended = {"type": f"response.{'incomplete' if stop else 'completed'}", "response": {}}
    asked_for = {"functionCall": {"id": "c1", "name": "pay", "args": nested(levels)}}
    item = {"type": "function_call", "call_id": "c1", "name": "pay", "arguments": text}
    begun = {"type": "tool_use", "id": "c1", "name": "pay"}
    return {
        ANTHROPIC: [
            [OPEN_CALL, adds(0, "input_json_delta", partial_json=text), tells, STOP_EVENT],
            [begins(0, input=nested(levels), **begun), tells, STOP_EVENT],
        ],
        OPENAI_CHAT: [
            [
                chat(tool_calls=[entry(0, "c1", "pay", text[:9])]),
                chat(stop or "tool_calls", tool_calls=[entry(0, text=text[9:])]),
            ],
        ],
        OPENAI_RESPONSES: [
            [ADDED_CALL, writes, ended],
            [
                {"type": "response.output_item.done", "output_index": 0, "item": item},
                ended,
            ],
        ],
        GEMINI: [[part(asked_for, stop=stop or "STOP")], [part(pieces, stop=stop or "STOP")]],
    }


#: Of arguments, where they are an object in the provider's message, which may have 100 levels.
DEEPEST: dict[Wire, int] = {ANTHROPIC: 98, GEMINI: 96}


@every_provider
@pytest.mark.parametrize("stop", [None, "max_tokens"])
@pytest.mark.parametrize("levels", [60, 95, 96, 97, 98, 99, 100, 120, 300])
def test_arguments_that_nest_deep_are_the_same_streamed_or_not(wire: Wire, stop: str | None, levels: int) -> None:
    """Where they are an object of the reply, that is malformed when it is too deep; where they are text, as always in
    ANTHROPIC's pieces, it is kept for who checks arguments; and a reply that was cut is cut.
    """
    whole = wire.decode(pay(nested(levels), **({"stop": stop} if stop else {}))[wire])
    streams = [feed(wire.stream(), chunks).turn for chunks in paying(levels, stop)[wire]]
    kind = "truncated" if stop else "malformed" if levels > DEEPEST.get(wire, 300) else "calls"
    assert whole.kind == kind
    if wire is ANTHROPIC and kind == "malformed":
        text = streams.pop(0)
        assert text is not None
        assert (text.kind, [call.arguments for call in text.calls]) == ("calls", [nested(levels)])
    for turn in streams:
        assert turn is not None
        assert (turn.kind, turn.fault, [call.arguments for call in turn.calls]) == (
            whole.kind,
            whole.fault,
            [call.arguments for call in whole.calls],
        )


@pytest.mark.parametrize("levels", [5, 120])
def test_arguments_that_come_as_an_object_over_the_chat_wire(levels: int) -> None:
    """They are those of a reply that is not streamed, unless more of their text comes."""
    asked_for = nested(levels)
    call = {"id": "c1", "function": {"name": "pay", "arguments": asked_for}}
    whole = OPENAI_CHAT.decode({"choices": [{"message": {"tool_calls": [call]}}]})
    chunk = chat("tool_calls", tool_calls=[entry(0, "c1", "pay", asked_for)])
    turn = feed(OPENAI_CHAT.stream(), [chat(tool_calls=[entry(0, "c1", "pay", "")]), chunk]).turn
    assert turn is not None
    assert (turn.kind, turn.fault, asked(turn)) == (whole.kind, whole.fault, asked(whole))
    more = feed(
        OPENAI_CHAT.stream(),
        [chat(tool_calls=[entry(0, "c1", "pay", asked_for)]), chat("stop", tool_calls=[entry(0, text="!")])],
    )
    assert more.turn is not None
    assert asked(more.turn) == [("c1", "pay", json.dumps(asked_for, separators=(",", ":")) + "!")]
    late = feed(OPENAI_CHAT.stream(), [chat(tool_calls=[entry(0, "c1", "pay", "!")]), chunk])
    assert late.turn is not None
    assert asked(late.turn) == [("c1", "pay", "!" + json.dumps(asked_for, separators=(",", ":")))]


NAN_CHUNKS: dict[Wire, list[dict[str, Any]]] = {
    ANTHROPIC: [
        begins(0, type="text", text="So", odd=[float("nan")]),
        begins(1, type="tool_use", id="c", name="f", odd=float("inf")),
        STOP_EVENT,
    ],
    OPENAI_CHAT: [
        chat(
            "tool_calls",
            content="So",
            odd={"x": float("nan")},
            tool_calls=[entry(0, "c", "f", "{}") | {"odd": float("-inf")}],
        )
    ],
    OPENAI_RESPONSES: [
        {
            "type": "response.completed",
            "response": {
                "output": [
                    {
                        "type": "message",
                        "role": "assistant",
                        "content": [{"type": "output_text", "text": "So", "logprobs": [float("-inf")]}],
                    },
                    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "odd": float("nan")},
                    {"type": "web_search_call", "odd": float("inf")},
                ]
            },
        }
    ],
    GEMINI: [
        part(
            {"text": "So", "odd": float("nan")},
            {"functionCall": {"id": "c", "name": "f"}, "odd": float("inf")},
            stop="STOP",
        )
    ],
}


@every_provider
def test_what_was_streamed_with_no_number_goes_back_as_json(wire: Wire) -> None:
    """NaN and infinities, which no client can send, are null in what is sent; the rest of the reply is as it came."""
    turn = feed(wire.stream(), NAN_CHUNKS[wire]).turn
    assert turn is not None
    assert (turn.kind, turn.text) == ("calls", "So")
    messages = wire.encode(History([UserMessage("go"), exchange(turn, ("ok", "1"))])).messages
    written = json.dumps(messages, allow_nan=False)
    assert (refused(wire, messages), "So" in written) == ("", True)
    assert written.count("null") == 2


@every_provider
def test_a_byte_that_is_no_utf_8_is_read_as_the_mark_of_one(wire: Wire) -> None:
    """As clients read the body of a reply that is not streamed: the text of the reply holds it."""
    reply = REPLIES[wire]("caf?", 0, "STOP" if wire is GEMINI else None) | (
        {"type": "message"} if wire is ANTHROPIC else {}
    )
    body = json.dumps(reply).replace("?", "\xff").encode("latin-1")
    for framed in (body, b"data: " + body + b"\n\n"):
        stream = wire.stream()
        for chunk in wire.read([framed]):
            stream.feed(chunk)
        assert stream.turn().text == "caf\ufffd"


@every_provider
@pytest.mark.parametrize("usage", [5, "x", [1], True])
def test_usage_of_a_wrong_type_is_not_reported(wire: Wire, usage: Any) -> None:
    """It costs nothing of the reply, streamed or not."""
    told: dict[Wire, list[dict[str, Any]]] = {
        ANTHROPIC: [
            {"type": "message_start", "message": {"role": "assistant", "usage": usage}},
            *OPEN[ANTHROPIC][:-1],
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": usage},
            STOP_EVENT,
        ],
        OPENAI_CHAT: [*OPEN[OPENAI_CHAT], END[OPENAI_CHAT] | {"usage": usage}],
        OPENAI_RESPONSES: [*OPEN[OPENAI_RESPONSES], {"type": "response.completed", "response": {"usage": usage}}],
        GEMINI: [{"usageMetadata": usage}, *OPEN[GEMINI], END[GEMINI] | {"usageMetadata": usage}],
    }
    brought = feed(wire.stream(), told[wire])
    assert (brought.outcome, brought.turn and brought.turn.usage) == (PAID, None)
    whole = REPLIES[wire]("x", 0, None) | {"usageMetadata" if wire is GEMINI else "usage": usage}
    assert (wire.decode(whole).kind, wire.decode(whole).usage) == ("final", None)
