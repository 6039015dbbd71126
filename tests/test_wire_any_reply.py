"""What holds on every wire for any reply: decode never raises, and what is sent back can be sent."""

from __future__ import annotations

import enum
import json
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopmachine.limits import Usage
from loopmachine.records import CallResult, Exchange
from loopmachine.wire import WIRES, Wire
from tests.test_wire_base import REPLIES, WHAT_A_TURN_IS, every_provider, every_wire, exchange, sent

# --- decode never raises ----------------------------------------------------------------------------------


class Hostile:
    """An object all of whose attributes raise, its class too."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


class Unequal:
    """A value that can't be compared."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    __hash__ = None  # type: ignore[assignment]  # as of all that is compared by value


class Raising(Mapping[str, Any]):
    """A mapping that raises when it is read."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __getitem__(self, key: str) -> Any:
        raise self.error

    def __iter__(self) -> Iterator[str]:
        return iter(["kind"])

    def __len__(self) -> int:
        return 1


class Dump:
    """An SDK's object whose dump is what it is given, or raises that."""

    def __init__(self, dump: Any) -> None:
        self.dump = dump

    def model_dump(self, **_: Any) -> Any:
        if isinstance(self.dump, BaseException):
            raise self.dump
        return self.dump


def endless() -> dict[str, Any]:
    """A value that holds itself."""
    value: dict[str, Any] = {"kind": "call", "id": "c", "name": "f", "role": "assistant"}
    value["arguments"] = value["content"] = value
    return value


@every_wire
def test_hostile_replies_are_malformed(wire: Wire) -> None:
    """Whatever object a model returns, the turn is malformed, and its fault begins with a field."""
    replies = [
        Hostile(),
        Raising(RuntimeError("no")),
        Dump(RuntimeError("no")),
        Dump([1]),
        Dump({}),
        endless(),
        object(),
        type,
    ]
    replies += [
        None,
        1,
        float("nan"),
        "done",
        b"done",
        ["done"],
        {},
        {1: 2},
        {"kind": ["final"]},
        {"content": object()},
    ]
    replies += [{"kind": "call", "id": "c", "name": "f", "arguments": {(1, 2): 3}}, {"choices": [[]]}, {"choices": 1}]
    replies += [{"kind": Unequal(), "id": "c", "name": "f", "arguments": {}}]
    turns = [wire.decode(reply) for reply in replies]
    assert [(turn.kind, turn.wire, ":" in turn.fault) for turn in turns] == [("malformed", wire.name, True)] * len(
        turns
    )


@every_wire
def test_a_stop_of_the_host_passes_through(wire: Wire) -> None:
    """What is no Exception, such as a KeyboardInterrupt, is not taken for a fault of the reply."""

    reply = Raising(KeyboardInterrupt())
    assert len(reply) == 1
    with pytest.raises(KeyboardInterrupt):
        wire.decode(reply)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def shape(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects of which any field may be absent, or anything."""
    return st.fixed_dictionaries({}, optional={name: JSON | field for name, field in fields.items()})


ID, TEXT = st.sampled_from(["", " ", "c1", "c2"]), st.sampled_from(["", " ", "hm"])
ARGUMENTS = st.sampled_from(["", "{}", "{", '{"a": NaN}', "[1]", '{"a":1}']) | st.dictionaries(TEXT, JSON, max_size=2)
STOP = st.sampled_from([stop for stops in WHAT_A_TURN_IS for stop in stops])
PLAIN_CALL = shape(id=ID, name=TEXT, arguments=ARGUMENTS)
BLOCK = shape(
    type=st.sampled_from(["text", "tool_use", "thinking"]), text=TEXT, id=ID, name=TEXT, input=ARGUMENTS, signature=TEXT
)
TOOL_CALL = shape(id=ID, type=st.sampled_from(["function", "custom"]), function=shape(name=TEXT, arguments=ARGUMENTS))
MESSAGE = shape(
    role=st.just("assistant"),
    content=TEXT | st.lists(BLOCK, max_size=3),
    tool_calls=st.lists(TOOL_CALL, max_size=3),
    refusal=TEXT,
)
USAGE = shape(input_tokens=st.just(1), output_tokens=st.just(1), prompt_tokens_details=shape(cached_tokens=st.just(1)))
ITEM = shape(
    type=st.sampled_from(["message", "function_call", "custom_tool_call", "reasoning", "computer_call", "new_call"]),
    content=st.lists(shape(type=st.sampled_from(["output_text", "refusal"]), text=TEXT, refusal=TEXT), max_size=2),
    call_id=ID,
    name=TEXT,
    arguments=ARGUMENTS,
    input=TEXT,
)
FUNCTION = shape(id=ID, name=TEXT, args=ARGUMENTS, willContinue=st.booleans())
CONTENT = shape(
    parts=st.lists(shape(text=TEXT, thought=st.booleans(), functionCall=FUNCTION, thought_signature=TEXT), max_size=3)
)
CANDIDATE = shape(content=CONTENT, finishReason=STOP, finish_reason=STOP, finishMessage=TEXT)
SHAPED = {
    "plain": shape(
        kind=st.sampled_from(["final", "text", "call", "calls", "tool_calls"]),
        text=TEXT,
        content=TEXT,
        id=ID,
        name=TEXT,
        arguments=ARGUMENTS,
        calls=st.lists(PLAIN_CALL, max_size=3),
        stop=STOP,
        usage=USAGE,
    ),
    "anthropic": shape(content=st.lists(BLOCK, max_size=4), stop_reason=STOP, usage=USAGE, model=TEXT),
    "openai-chat": MESSAGE
    | shape(choices=st.lists(shape(message=MESSAGE, finish_reason=STOP), max_size=1), usage=USAGE, model=TEXT),
    "openai-responses": shape(
        output=st.lists(ITEM, max_size=3),
        status=STOP,
        incomplete_details=shape(reason=STOP),
        error=shape(code=TEXT, message=TEXT),
        usage=USAGE,
        model=TEXT,
    ),
    "gemini": shape(
        candidates=st.lists(CANDIDATE, max_size=1),
        promptFeedback=shape(blockReason=STOP, blockReasonMessage=TEXT),
        usageMetadata=shape(promptTokenCount=st.just(1), totalTokenCount=st.just(1)),
        modelVersion=TEXT,
    ),
}


@every_wire
@settings(deadline=None)
@given(data=st.data())
def test_decode_never_raises(wire: Wire, data: st.DataObject) -> None:
    """Any JSON, near the wire's shape or far from it, gives a turn; where it can't be used the fault says so."""
    turn = wire.decode(data.draw(SHAPED[wire.name] | JSON))
    assert turn.wire == wire.name
    assert turn.kind in ("calls", "final", "truncated", "refused", "malformed")
    assert (turn.kind == "malformed") is bool(turn.fault)
    assert all(call.name.strip() and call.place == place for place, call in enumerate(turn.calls))


# --- what is sent back ----------------------------------------------------------------------------------


@every_wire
@pytest.mark.parametrize("source", WIRES.values(), ids=WIRES)
@settings(deadline=None)
@given(data=st.data())
def test_what_is_sent_back_is_paired_and_valid(source: Wire, wire: Wire, data: st.DataObject) -> None:
    """Whatever a turn holds, what any wire sends of it is JSON, each call's arguments an object, each id answered."""
    text, calls = data.draw(TEXT), data.draw(st.lists(ARGUMENTS | st.none(), min_size=1, max_size=3))
    turn = source.decode(REPLIES[source](text, len(calls), None))
    written = [
        attrs.evolve(call, arguments_text=one if isinstance(one, str) else json.dumps(one))
        for call, one in zip(turn.calls, calls, strict=True)
    ]
    messages = sent(wire, exchange(attrs.evolve(turn, calls=tuple(written)), *[("ok", "1")] * len(calls)))
    asked, answered = pairs(messages)
    assert json.loads(json.dumps(messages, allow_nan=False)) == messages
    assert [one for one, _ in asked] == answered == [call.id for call in turn.calls]
    assert all(isinstance(arguments, dict) for _, arguments in asked)


def pairs(messages: list[dict[str, Any]]) -> tuple[list[tuple[str, Any]], list[str]]:
    """The ids and arguments of all calls, and the ids of all results, in messages of any wire."""
    asked: list[tuple[str, Any]] = []
    answered: list[str] = []
    for message in messages:
        for kind in (message, *message.get("tool_calls", ()), *message.get("parts", ()), *blocks(message)):
            match kind:
                case {"kind": "call", "id": one, "arguments": arguments}:
                    asked.append((one, arguments))
                case {"type": "function", "id": one, "function": {"arguments": text}}:
                    asked.append((one, json.loads(text)))
                case {"type": "tool_use", "id": one, "input": arguments}:
                    asked.append((one, arguments))
                case {"type": "function_call", "call_id": one, "arguments": text}:
                    asked.append((one, json.loads(text)))
                case {"functionCall": {"args": arguments} as function}:
                    asked.append((function.get("id", f"c{len(asked)}"), arguments))
                case {"functionResponse": function}:
                    answered.append(function.get("id", f"c{len(answered)}"))
                case (
                    {"kind": "tool_result", "id": one}
                    | {"role": "tool", "tool_call_id": one}
                    | {"type": "tool_result", "tool_use_id": one}
                    | {"type": "function_call_output", "call_id": one}
                ):
                    answered.append(one)
    return asked, answered


def blocks(message: dict[str, Any]) -> list[Any]:
    """The blocks of a message's content."""
    content = message.get("content")
    return content if isinstance(content, list) else []


@every_provider
def test_a_result_is_paired_by_its_place(wire: Wire) -> None:
    """A result goes out under the id of the call at its place, whatever id it bears itself."""
    turn = wire.decode(REPLIES[wire]("", 1, None))
    asked, answered = pairs(sent(wire, Exchange(turn, (CallResult(0, 0, "stray", "add", "ok", "1"),))))
    assert (asked, answered) == ([("c0", {"a": 0})], ["c0"])


@every_provider
def test_an_unpaired_exchange_is_not_sent(wire: Wire) -> None:
    """A turn with fewer results than calls, which no machine makes, is a ValueError."""
    turn = wire.decode(REPLIES[wire]("", 2, None))
    with pytest.raises(ValueError, match="shorter"):
        wire.entry(Exchange(turn, (CallResult.of(turn.calls[0], "ok", "1"),)))


@every_wire
def test_any_mapping_is_a_reply(wire: Wire) -> None:
    """A reply need not be a dict."""
    reply = REPLIES[wire]("hm", 0, "stop")
    assert [wire.decode(one) for one in (MappingProxyType(reply), UserDict(reply))] == [wire.decode(reply)] * 2
    assert wire.decode(reply).kind == "final"


# --- usage ----------------------------------------------------------------------------------------------

USAGES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "plain": lambda bad: {
        "kind": "final",
        "text": "x",
        "usage": {"input_tokens": 7, "output_tokens": bad, "reasoning_tokens": bad, "cost_usd": bad, "model": 5},
    },
    "anthropic": lambda bad: {
        "content": [{"type": "text", "text": "x"}],
        "usage": {"input_tokens": 7, "output_tokens": bad},
    },
    "openai-chat": lambda bad: {
        "choices": [{"message": {"content": "x"}}],
        "usage": {"prompt_tokens": 7, "completion_tokens": bad, "completion_tokens_details": {"reasoning_tokens": bad}},
    },
    "openai-responses": lambda bad: {
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "x"}]}],
        "usage": {"input_tokens": 7, "output_tokens": bad, "output_tokens_details": {"reasoning_tokens": bad}},
    },
    "gemini": lambda bad: {
        "candidates": [{"content": {"parts": [{"text": "x"}]}}],
        "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": bad, "thoughtsTokenCount": bad},
    },
}
BAD_COUNTS = [-1, True, float("nan"), float("inf"), -0.5, "5", [5], {"a": 5}, 10**5000, None]


@every_wire
def test_a_bad_count_is_not_reported(wire: Wire) -> None:
    """A count that can't be right is None, never zero and never an error; the others stay."""
    turns = [wire.decode(USAGES[wire.name](bad)) for bad in BAD_COUNTS]
    assert [(turn.kind, turn.usage) for turn in turns] == [("final", Usage(input_tokens=7))] * len(BAD_COUNTS)


@every_wire
def test_usage_that_is_no_object_is_not_reported(wire: Wire) -> None:
    """Usage of another shape is as if there were none."""
    turns = [wire.decode(USAGES[wire.name](1) | {"usage": bad, "usageMetadata": bad}) for bad in (None, 5, "5", [5])]
    assert [(turn.kind, turn.usage) for turn in turns] == [("final", None)] * 4


@every_wire
def test_what_a_malformed_reply_used_is_kept(wire: Wire) -> None:
    """Usage and stop reason are read before anything that can be wrong."""
    reply = USAGES[wire.name](3) | {"content": 5, "kind": 5, "choices": [{"finish_reason": "stop", "message": 5}]}
    reply |= {"output": 5, "candidates": [{"finishReason": "stop", "content": 5}]}
    turn = wire.decode(reply | {"stop": "stop", "stop_reason": "stop", "status": "stop"})
    assert turn.usage is not None
    assert (turn.kind, turn.stop, turn.usage.input_tokens) == ("malformed", "stop", 7)


# --- stop reasons that are no text ----------------------------------------------------------------------


class Reason(enum.StrEnum):
    """A stop reason as an SDK may give it."""

    CUT = "length"


@every_wire
def test_a_stop_reason_is_text(wire: Wire) -> None:
    """An enum's text is taken as plain text; what is no text is a fault, since it might have meant a cut."""
    cut, wrong = (wire.decode(REPLIES[wire]("hm", 1, stop)) for stop in (Reason.CUT, 5))  # type: ignore[arg-type]  # on purpose
    field = {
        "plain": "stop",
        "anthropic": "stop_reason",
        "openai-chat": "choices[0].finish_reason",
        "openai-responses": "status",
        "gemini": "candidates[0].finishReason",
    }[wire.name]
    assert (cut.kind, type(cut.stop), cut.stop) == ("truncated", str, "length")
    assert (wrong.kind, wrong.fault) == ("malformed", f"{field}: it must be a string, not int")
