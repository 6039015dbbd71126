"""Requests that a provider would refuse cannot be produced: of no reply, over no wire, after any move between them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopmachine import Budget, Policy, run, tool
from loopmachine.frozen import json_object
from loopmachine.history import History
from loopmachine.records import CallResult, Exchange, Final, Turn, UserMessage
from loopmachine.wire import ANTHROPIC, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES, PLAIN, WIRES, Wire
from loopmachine.wire.base import LEFT_OUT, NOT_ASKED
from tests.refusals import refused
from tests.test_wire_base import REPLIES, every_wire

# --- hostile replies of each wire -----------------------------------------------------------------------------

Asked = tuple[str | None, str, str]  #: id, name, arguments text
Noise = list[str]


def plain(text: str, asked: list[Asked], noise: Noise) -> dict[str, Any]:
    calls = [{"id": one, "name": name, "arguments": written} for one, name, written in asked]
    return {"kind": "calls", "calls": calls, "text": text} if asked else {"kind": "final", "text": text}


def anthropic(text: str, asked: list[Asked], noise: Noise) -> dict[str, Any]:
    said = [{"type": "thinking", "thinking": one, "signature": "x"} for one in noise]
    said += [{"type": "text", "text": one} for one in (text, *noise)]
    uses = [{"type": "tool_use", "id": one, "name": name, "input": _object(text)} for one, name, text in asked]
    return {"role": "assistant", "content": [*said, *uses, *({"type": "text", "text": one} for one in noise)]}


def chat(text: str, asked: list[Asked], noise: Noise) -> dict[str, Any]:
    calls = [
        {"id": one, "type": "function", "function": {"name": name, "arguments": written}}
        for one, name, written in asked
    ]
    content: Any = [{"type": "text", "text": text}, {"type": "thinking", "thinking": []}] if noise else text or None
    return {"choices": [{"message": {"content": content, "tool_calls": calls, "refusal": None}}]}


def responses(text: str, asked: list[Asked], noise: Noise) -> dict[str, Any]:
    said: list[Any] = [{"type": "reasoning", "id": "rs", "summary": [], "status": None, "content": None}]
    said += [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}]
    calls: list[Any] = [
        {"type": "function_call", "call_id": one, "name": name, "arguments": written, "status": None}
        for one, name, written in asked
    ]
    calls += [{"type": "custom_tool_call", "call_id": None, "name": "write", "input": one} for one in noise if asked]
    return {"output": [*said, *calls, said[0]]}


def gemini(text: str, asked: list[Asked], noise: Noise) -> dict[str, Any]:
    parts: list[Any] = [{"text": one, "thought": True} for one in noise] + [{"text": text}, {}]
    parts += [{"functionCall": {"id": one, "name": name, "args": _object(written)}} for one, name, written in asked]
    return {"candidates": [{"content": {"parts": [*parts, {"text": ""}]}, "finishReason": "STOP"}]}


def _object(written: str) -> Any:
    """The arguments as an object where the API has them as such, and they are one."""
    return json_object(written) or written


HOSTILE: dict[Wire, Callable[[str, list[Asked], Noise], dict[str, Any]]] = {
    PLAIN: plain,
    ANTHROPIC: anthropic,
    OPENAI_CHAT: chat,
    OPENAI_RESPONSES: responses,
    GEMINI: gemini,
}
TEXTS = st.sampled_from(["", " ", "\n", "Hm.", "é\x00"])
ASKED = st.tuples(
    st.sampled_from([None, "", " ", "a", "b", "functions.add:0", "functions.add_0", "x" * 70, "x" * 71]),
    st.sampled_from(["add", "add", "read_text", "files/read.text", "no such!", "1st", "日本", "n" * 90]),
    st.sampled_from(["{}", '{"n": 1}', '{"n": "x"}', "", "{", "[1]", "null", '{"n": NaN}', '"{}"', '{"n": "\\ud800"}']),
)
SCRIPT = st.lists(st.tuples(TEXTS, st.lists(ASKED, max_size=3), st.lists(TEXTS, max_size=2)), min_size=1, max_size=4)


@tool
def add(n: int = 1) -> str:
    """Add."""
    return "" if n else "0"


@tool
def read_text() -> None:
    """Read."""
    raise OSError("no such file")


def played(wire: Wire, script: list[Any], policy: Policy) -> tuple[Any, list[list[dict[str, Any]]]]:
    """A run of these replies, whatever they are, then an answer; and the messages of each step."""
    replies = [HOSTILE[wire](*one) for one in script] + [REPLIES[wire]("Done.", 0, None)]
    seen: list[list[dict[str, Any]]] = []

    def model(messages: Any, tools: Any) -> Any:
        seen.append(copy.deepcopy(list(messages)))
        return replies[len(seen) - 1]

    budget = Budget(max_steps=len(replies))
    return run(model, "go", tools=[add, read_text], wire=wire, policy=policy, budget=budget), seen


@every_wire
@pytest.mark.parametrize("repeated", ["answer", "rename"])
@settings(deadline=None, max_examples=40)
@given(script=SCRIPT)
def test_no_request_of_a_run_is_refused(wire: Wire, repeated: str, script: list[Any]) -> None:
    """Whatever a model replies, each of the requests that follow could be sent."""
    _, seen = played(wire, script, Policy(repeated_id=repeated, repairs=4))
    assert [refused(wire, messages) for messages in seen] == [""] * len(seen)


@every_wire
@settings(deadline=None, max_examples=40)
@given(script=SCRIPT)
def test_no_request_of_a_history_that_was_moved_is_refused(wire: Wire, script: list[Any]) -> None:
    """What one wire decoded, each of the others can send, and goes on from."""
    result, _ = played(wire, script, Policy(repeated_id="rename", repairs=4))
    for other in WIRES.values():
        messages = other.encode(result.history, (), "Be brief.").messages
        assert (other, refused(other, messages)) == (other, "")


# --- that the checkers see what servers refuse ------------------------------------------------------------------

ASKS = ["a", "b"]


def valid(wire: Wire) -> list[dict[str, Any]]:
    """The messages of a run of two calls and an answer."""
    script: list[Any] = [("Hm.", [(one, "add", '{"n": 1}') for one in ASKS], [])]
    result, _ = played(wire, script, Policy())
    assert result.status == "answered"
    return wire.encode(result.history).messages


def test_what_is_valid_is_not_refused() -> None:
    """A run as it should be has nothing that a checker names."""
    assert [refused(wire, valid(wire)) for wire in WIRES.values()] == [""] * len(WIRES)


Spoil = Callable[[list[Any]], Any]


def blocks(messages: list[Any], at: int) -> Any:
    return messages[at].get("content", messages[at].get("parts"))


SPOILED: dict[Wire, dict[str, Spoil]] = {
    PLAIN: {
        "no result": lambda said: said.pop(4),
        "two results": lambda said: said.insert(4, said[4]),
        "blank id": lambda said: said[2].update(id=" "),
        "text as arguments": lambda said: said[2].update(arguments="{}"),
        "no content": lambda said: said[4].pop("content"),
        "name": lambda said: said[2].update(name=" "),
    },
    ANTHROPIC: {
        "no result": lambda said: blocks(said, 2).pop(),
        "two results": lambda said: blocks(said, 2).append(blocks(said, 2)[0]),
        "orphan": lambda said: said.append(said[2]),
        "blank id": lambda said: blocks(said, 1)[1].update(id=""),
        "one id": lambda said: (blocks(said, 1)[2].update(id="a"), blocks(said, 2)[1].update(tool_use_id="a")),
        "text as input": lambda said: blocks(said, 1)[1].update(input="{}"),
        "blank text": lambda said: blocks(said, 1)[0].update(text=" "),
        "no content": lambda said: said[3].update(content=[]),
        "in front of results": lambda said: blocks(said, 2).insert(0, {"type": "text", "text": "x"}),
        "role": lambda said: said[2].update(role="assistant"),
        "begins with the model": lambda said: said.pop(0),
    },
    OPENAI_CHAT: {
        "no result": lambda said: said.pop(3),
        "between": lambda said: said.insert(3, said[0]),
        "blank id": lambda said: said[1]["tool_calls"][0].update(id=None),
        "arguments": lambda said: said[1]["tool_calls"][0]["function"].update(arguments="[1]"),
        "broken arguments": lambda said: said[1]["tool_calls"][0]["function"].update(arguments="{"),
        "type": lambda said: said[1]["tool_calls"][0].update(type="custom"),
        "null": lambda said: said[1].update(content=None),
        "empty calls": lambda said: said[4].update(tool_calls=[]),
        "blank": lambda said: said[0].update(content=" "),
        "says nothing": lambda said: said[4].update(content=""),
        "unanswered at the end": lambda said: (said.pop(), said.pop()),
        "no JSON": lambda said: said[0].update(content={1}),
    },
    OPENAI_RESPONSES: {
        "no result": lambda said: said.pop(6),
        "between": lambda said: said.insert(5, said[0]),
        "name": lambda said: said[3].update(name="no such!"),
        "blank id": lambda said: said[3].update(call_id=""),
        "arguments": lambda said: said[3].update(arguments="{"),
        "null": lambda said: said[3].update(status=None),
        "no output": lambda said: said[6].pop("output"),
        "status": lambda said: said[1].update(status="completed"),
        "null in reasoning": lambda said: said[1].update(content=None),
        "blank": lambda said: said[0].update(content=""),
        "no content": lambda said: said[2].update(content=None),
    },
    GEMINI: {
        "no result": lambda said: blocks(said, 2).pop(),
        "another name": lambda said: blocks(said, 2)[0]["functionResponse"].update(name="other"),
        "another id": lambda said: blocks(said, 2)[0]["functionResponse"].pop("id"),
        "blank id": lambda said: blocks(said, 1)[1]["functionCall"].update(id=""),
        "arguments": lambda said: blocks(said, 1)[1]["functionCall"].update(args=[]),
        "empty part": lambda said: blocks(said, 1).append({"text": ""}),
        "no parts": lambda said: said[3].update(parts=[]),
        "begins with the model": lambda said: said.pop(0),
    },
}


def test_what_some_servers_bear_is_named_too() -> None:
    """Results in another order than their calls, and an id of an earlier turn."""
    messages = valid(OPENAI_CHAT)
    swapped = [*messages[:2], messages[3], messages[2], *messages[4:]]
    said = [refused(OPENAI_CHAT, one) for one in (messages, swapped, [*messages, *messages])]
    assert [one[:20] for one in said] == ["", "the results [Mark(wh", "an id is used twice:"]


@pytest.mark.parametrize(("wire", "what"), [(wire, what) for wire, ways in SPOILED.items() for what in ways], ids=str)
def test_what_a_server_refuses_is_named(wire: Wire, what: str) -> None:
    """Each fault that is put into a valid request is found: the checkers can fail."""
    messages = json.loads(json.dumps(valid(wire)))
    SPOILED[wire][what](messages)
    assert refused(wire, messages) != ""


FIRST: dict[Wire, Any] = {
    ANTHROPIC: {"role": "user", "content": LEFT_OUT},
    GEMINI: {"role": "user", "parts": [{"text": LEFT_OUT}]},
}


@every_wire
def test_a_history_that_begins_with_the_models_turn_is_sent_as_the_provider_takes_it(wire: Wire) -> None:
    """Where the user has to begin, something stands for what was left out, in a whole history and in a run."""
    asked = wire.decode(REPLIES[wire]("", 1, "c1"))
    cut = History([Exchange(asked, (CallResult.of(asked.calls[0], "ok", "1"),)), UserMessage("go on")])
    seen: list[Any] = []

    def model(messages: Any) -> Any:
        seen.append(list(messages))
        return REPLIES[wire]("Done.", 0, None)

    run(model, history=cut, wire=wire)
    begins = [FIRST[wire]] if wire in FIRST else []
    sent = [message for entry in cut.entries for message in wire.entry(entry)]
    assert (wire.encode(cut).messages, seen, refused(wire, seen[0])) == ([*begins, *sent], [[*begins, *sent]], "")


#: What stands between an answer and the calls that follow it.
BETWEEN: dict[Wire, Any] = {GEMINI: {"role": "user", "parts": [{"text": NOT_ASKED}]}}


@every_wire
def test_calls_that_follow_an_answer_are_sent_as_the_provider_takes_them(wire: Wire) -> None:
    """Where calls have to follow the user, something stands between, in a whole history and in a run on no prompt."""
    first = run(lambda messages: REPLIES[wire]("I will.", 0, None), "go", wire=wire).history
    seen: list[Any] = []

    def model(messages: Any, tools: Any) -> Any:
        seen.append(list(messages))
        return REPLIES[wire](*[("", 1, "c1"), ("Done.", 0, None)][len(seen) - 1])

    history = run(model, history=first, tools=[add], wire=wire).history
    begins, asks, ends = (
        [message for entry in history.entries[one] for message in wire.entry(entry)]
        for one in (slice(2), slice(2, 3), slice(3, 4))
    )
    whole = [*begins, *([BETWEEN[wire]] if wire in BETWEEN else []), *asks]
    assert (seen, wire.encode(history).messages, refused(wire, whole)) == ([begins, whole], [*whole, *ends], "")


@pytest.mark.parametrize("source", [ANTHROPIC, OPENAI_CHAT, OPENAI_RESPONSES], ids=repr)
def test_a_turn_handed_in_as_two_messages_goes_over_every_wire(source: Wire) -> None:
    """Text, and its call in a message of its own: two entries, of which no server refuses the second."""
    asked = source.decode(REPLIES[source]("", 1, "c1"))
    exchange = Exchange(asked, (CallResult.of(asked.calls[0], "ok", "1"),))
    said = History([UserMessage("go"), Final(Turn("I will.")), exchange])
    handed, _ = source.history(source.encode(said).messages)
    assert {wire.name: refused(wire, wire.encode(handed).messages) for wire in WIRES.values()} == dict.fromkeys(
        WIRES, ""
    )
