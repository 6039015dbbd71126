"""A history moved between providers: what another wire sends of it, and that somebody is told what it leaves out."""

from __future__ import annotations

import copy
import json
import re
import weakref
from typing import Any

import attrs
import pytest

from loopmachine import History, Loop, Policy, Tool, notices, run, tool
from loopmachine.events import CancelPolled
from loopmachine.history import Entry
from loopmachine.records import Call, CallResult, Exchange, Final, Turn, UserMessage
from loopmachine.requests import AskModel
from loopmachine.testing.pairing import marks
from loopmachine.wire import ANTHROPIC, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES, PLAIN, WIRES, Encoding, Wire
from tests.refusals import refused
from tests.test_wire_any_reply import pairs
from tests.test_wire_base import REPLIES, every_provider, every_wire, exchange, identified

Messages = list[dict[str, Any]]


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
def boom() -> None:
    """Raise."""
    raise RuntimeError("no route")


# --- one conversation in each shape: a thought and text beside two calls, one of which fails, and an answer -----

ADD = '{"a":1,"b":2}'
GEMINI_ADD = {"functionCall": {"name": "add", "args": {"a": 1, "b": 2}}}
THINKING = {"type": "thinking", "thinking": "I add.", "signature": "Eq=="}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAA"}
CHAT_CALLS = [
    {"id": "c1", "type": "function", "function": {"name": "add", "arguments": ADD}},
    {"id": "c2", "type": "function", "function": {"name": "boom", "arguments": "{}"}},
]
ITEMS = [
    {"type": "function_call", "call_id": "c1", "name": "add", "arguments": ADD},
    {"type": "function_call", "call_id": "c2", "name": "boom", "arguments": "{}"},
]
USES = [
    {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1, "b": 2}},
    {"type": "tool_use", "id": "c2", "name": "boom", "input": {}},
]


def output(text: str) -> dict[str, Any]:
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


#: What the model says of each wire: the parts of its message that only this wire has, then those that all have.
SAID: dict[Wire, tuple[Any, Any]] = {
    PLAIN: (
        {
            "kind": "calls",
            "text": "Two.",
            "calls": [
                {"id": "c1", "name": "add", "arguments": {"a": 1, "b": 2}},
                {"id": "c2", "name": "boom", "arguments": {}},
            ],
        },
        {"kind": "final", "text": "Done."},
    ),
    ANTHROPIC: (
        [THINKING, {"type": "text", "text": "Two."}, *USES],
        [THINKING, {"type": "text", "text": "Done."}],
    ),
    OPENAI_CHAT: (
        {"role": "assistant", "content": "Two.", "tool_calls": CHAT_CALLS, "reasoning_content": "I add."},
        {"role": "assistant", "content": "Done.", "reasoning_content": "Done."},
    ),
    OPENAI_RESPONSES: ([REASONING, output("Two."), *ITEMS], [REASONING, output("Done.")]),
    GEMINI: (
        {
            "role": "model",
            "parts": [
                {"text": "I add.", "thought": True},
                {"text": "Two."},
                GEMINI_ADD | {"thoughtSignature": "Co+/"},
                {"functionCall": {"name": "boom", "args": {}}},
            ],
        },
        {"role": "model", "parts": [{"text": "Done.", "thoughtSignature": "Co+/"}]},
    ),
}


def reply(wire: Wire, said: Any) -> Any:
    """What the provider sends around it."""
    if wire is ANTHROPIC:
        return {"content": copy.deepcopy(said), "stop_reason": None}
    if wire is OPENAI_RESPONSES:
        return {"output": copy.deepcopy(said), "status": "completed"}
    return {"candidates": [{"content": copy.deepcopy(said), "finishReason": "STOP"}]} if wire is GEMINI else said


def sent(wire: Wire, asks: list[Any], answers: list[Any]) -> Messages:
    """The messages of the whole conversation, given what the model said in them."""
    ends: dict[Wire, tuple[Messages, Messages]] = {
        PLAIN: (
            [
                {"kind": "tool_result", "id": "c1", "content": "3", "outcome": "ok"},
                {"kind": "tool_result", "id": "c2", "content": "RuntimeError: no route", "outcome": "failed"},
            ],
            [{"kind": "user", "text": "And?"}],
        ),
        ANTHROPIC: (
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "c1", "content": "3", "is_error": False},
                        {
                            "type": "tool_result",
                            "tool_use_id": "c2",
                            "content": "RuntimeError: no route",
                            "is_error": True,
                        },
                    ],
                }
            ],
            [{"role": "user", "content": "And?"}],
        ),
        OPENAI_CHAT: (
            [
                {"role": "tool", "tool_call_id": "c1", "content": "3"},
                {"role": "tool", "tool_call_id": "c2", "content": "RuntimeError: no route"},
            ],
            [{"role": "user", "content": "And?"}],
        ),
        OPENAI_RESPONSES: (
            [
                {"type": "function_call_output", "call_id": "c1", "output": "3"},
                {"type": "function_call_output", "call_id": "c2", "output": "RuntimeError: no route"},
            ],
            [{"role": "user", "content": "And?"}],
        ),
        GEMINI: (
            [
                {
                    "role": "user",
                    "parts": [
                        {"functionResponse": {"name": "add", "response": {"result": "3"}}},
                        {"functionResponse": {"name": "boom", "response": {"error": "RuntimeError: no route"}}},
                    ],
                }
            ],
            [{"role": "user", "parts": [{"text": "And?"}]}],
        ),
    }
    results, and_then = ends[wire]
    return [*wire.entry(UserMessage("go")), *asks, *results, *answers, *and_then]


#: What each wire sends of what another wire brought: text and calls.
FOREIGN: dict[Wire, Messages] = {
    PLAIN: sent(
        PLAIN,
        [
            {"kind": "text", "text": "Two."},
            {"kind": "call", "id": "c1", "name": "add", "arguments": {"a": 1, "b": 2}},
            {"kind": "call", "id": "c2", "name": "boom", "arguments": {}},
        ],
        [{"kind": "final", "text": "Done."}],
    ),
    ANTHROPIC: sent(
        ANTHROPIC,
        [{"role": "assistant", "content": [{"type": "text", "text": "Two."}, *USES]}],
        [{"role": "assistant", "content": [{"type": "text", "text": "Done."}]}],
    ),
    OPENAI_CHAT: sent(
        OPENAI_CHAT,
        [{"role": "assistant", "content": "Two.", "tool_calls": CHAT_CALLS}],
        [{"role": "assistant", "content": "Done."}],
    ),
    OPENAI_RESPONSES: sent(
        OPENAI_RESPONSES,
        [{"role": "assistant", "content": "Two."}, *ITEMS],
        [{"role": "assistant", "content": "Done."}],
    ),
    GEMINI: sent(
        GEMINI,
        [
            {
                "role": "model",
                "parts": [
                    {"text": "Two."},
                    GEMINI_ADD | {"thoughtSignature": "skip_thought_signature_validator"},
                    {"functionCall": {"name": "boom", "args": {}}},
                ],
            }
        ],
        [{"role": "model", "parts": [{"text": "Done."}]}],
    ),
}
#: What each wire sends of what it brought itself: all of it.
OWN: dict[Wire, Messages] = {
    PLAIN: FOREIGN[PLAIN],
    ANTHROPIC: sent(ANTHROPIC, *([{"role": "assistant", "content": said}] for said in SAID[ANTHROPIC])),
    OPENAI_CHAT: sent(OPENAI_CHAT, *([said] for said in SAID[OPENAI_CHAT])),
    OPENAI_RESPONSES: sent(OPENAI_RESPONSES, *SAID[OPENAI_RESPONSES]),
    GEMINI: sent(GEMINI, *([said] for said in SAID[GEMINI])),
}


def first_run(wire: Wire) -> History:
    """The conversation over this wire."""
    replies = iter(reply(wire, said) for said in SAID[wire])
    return run(lambda messages: next(replies), "go", tools=[add, boom], wire=wire).history


def moved(source: Wire, wire: Wire) -> Messages:
    """What a wire sends of the conversation that came over another, or over itself."""
    if source is wire:
        return OWN[wire]
    written = json.dumps(FOREIGN[wire])
    if source is GEMINI:  # which gave no ids: these were made up
        written = written.replace('"c1"', '"call_s1_0"').replace('"c2"', '"call_s1_1"')
    messages: Messages = json.loads(written)
    return messages


@every_wire
@pytest.mark.parametrize("source", WIRES.values(), ids=repr)
def test_a_whole_history_goes_over_every_wire(source: Wire, wire: Wire) -> None:
    """What a wire brought it sends unchanged; another sends its text, calls and results, and drops the rest."""
    history = first_run(source).append(UserMessage("And?"))
    assert wire.encode(history).messages == moved(source, wire)


def left_out(source: Wire, wire: Wire) -> str:
    """The warning."""
    return (
        f"history: what came over {source.name!r} is sent over {wire.name!r} without what that has no place for, "
        "such as thinking and signatures"
    )


@every_wire
@pytest.mark.parametrize("source", WIRES.values(), ids=repr)
def test_what_is_left_out_is_said_once(source: Wire, wire: Wire) -> None:
    """The observer is warned once in a run, whatever its steps, and only where it leaves a payload out."""
    replies = [REPLIES[wire]("", 1, None), REPLIES[wire]("Done.", 0, None)]
    seen: list[Messages] = []
    told: list[Any] = []

    def model(messages: Any, tools: Any) -> Any:
        seen.append(list(messages))
        return replies[len(seen) - 1]

    run(model, "And?", tools=[add, boom], wire=wire, history=first_run(source), observe=told.append)
    warnings = [one.text for one in told if isinstance(one, notices.Warning)]
    before = moved(source, wire)
    assert (seen[0], seen[1][: len(before)]) == (before, before)
    assert warnings == ([] if source in (wire, PLAIN) else [left_out(source, wire)])


def test_a_model_that_goes_over_to_another_provider_within_a_run() -> None:
    """Each Turn of another wire is sent from its text and calls at the next step; that is said at the first."""
    turns = [ANTHROPIC.decode(one) for one in (reply(ANTHROPIC, SAID[ANTHROPIC][0]), REPLIES[ANTHROPIC]("", 1, None))]
    replies: list[Any] = [*turns, reply(OPENAI_CHAT, SAID[OPENAI_CHAT][1])]
    seen: list[Messages] = []
    told: list[Any] = []

    def model(messages: Any, tools: Any) -> Any:
        seen.append(list(messages))
        return replies[len(seen) - 1]

    run(model, "go", tools=[add, boom], wire=OPENAI_CHAT, observe=told.append)
    warnings = [one.text for one in told if isinstance(one, notices.Warning)]
    assert (seen[1], len(seen[2]), warnings) == (FOREIGN[OPENAI_CHAT][:4], 6, [left_out(ANTHROPIC, OPENAI_CHAT)])


def test_where_nobody_observes_it_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A loop that is driven step by step says it to the log, when its messages are looked at."""
    loop = Loop("And?", wire=GEMINI, history=first_run(ANTHROPIC), at=0.0)
    loop.send(CancelPolled(False, at=0.0))
    (ask,) = loop.requests
    assert (isinstance(ask, AskModel), caplog.messages) == (True, [])
    assert [list(loop.messages()), list(loop.messages())] == [FOREIGN[GEMINI]] * 2
    assert caplog.messages == [left_out(ANTHROPIC, GEMINI)]


# --- ids and names that not every provider takes ----------------------------------------------------------------


@every_provider
def test_ids_that_not_every_provider_takes(wire: Wire) -> None:
    """Those of another wire are written with the characters that all take; two that look alike then stay two."""
    ids = ["functions.add:0", "functions.add/0", "x" * 41, "x" * 42, "toolu_1-a", "é\ud800"]
    turn = Turn(calls=tuple(Call(one, "add", place=place) for place, one in enumerate(ids)), wire="elsewhere")
    asked, answered = pairs(wire.entry(Exchange(turn, tuple(CallResult.of(call, "ok", "1") for call in turn.calls))))
    sent_ids = [one for one, _ in asked]
    assert answered == sent_ids
    if wire is not GEMINI:  # which is sent none
        assert (len(set(sent_ids)), sent_ids[4]) == (6, "toolu_1-a")
        assert [one for one in sent_ids if not re.fullmatch("[A-Za-z0-9_-]{1,40}", one)] == []
        assert [one[:15] for one in sent_ids[:2]] == ["functions_add_0"] * 2


def asking(wire: Wire, *ids: str) -> Exchange:
    """An exchange over this wire whose calls have these ids, as a caller may make it."""
    turn = identified(wire.decode(REPLIES[wire]("", len(ids), None)), *ids)
    return exchange(turn, *[("ok", one) for one in ids])


@every_wire
def test_ids_that_are_blank_or_stand_twice_in_a_history(wire: Wire) -> None:
    """Each call and its result are sent with an id that none before it has, in all messages and as a run sees them."""
    first: list[Entry] = [UserMessage("go"), asking(wire, "a", "a", "", " "), asking(wire, "b", "a")]
    history = History([*first, UserMessage("on"), asking(wire, "a_s0_1", "", "b")])
    expected = ["a", "a_s0_1", "call_s0_2", "__s0_3", "b", "a_s0_1_1", "a_s0_1_s0_0", "call_s0_1", "b_s0_2"]
    assert [refused(wire, wire.encode(history).messages), *ids_of(wire.encode(history).messages)] == [
        "",
        expected,
        expected,
    ]
    seen: list[Messages] = []

    def model(messages: Any, tools: Any) -> Any:
        seen.append(list(messages))
        return REPLIES[wire]("Done.", 0, None)

    run(model, history=history, wire=wire)
    assert seen == [wire.encode(history).messages]


@every_wire
@pytest.mark.parametrize("policy", ["stop", "answer", "rename"])
def test_ids_that_are_the_same_once_they_are_sent(wire: Wire, policy: str) -> None:
    """Those that differ in half a character only are sent as two, in one turn and in two, as a run sees them."""
    history = History([UserMessage("go"), asking(wire, "c\ud800", "c\ud801"), asking(wire, "c\ufffd", "c\udfff", "d")])
    asked, answered = ids_of(wire.encode(history).messages)
    assert (refused(wire, wire.encode(history).messages), answered, len(set(asked))) == ("", asked, 5)
    assert (asked[0], asked[4]) == ("c\ufffd", "d")
    seen: list[Messages] = []

    def model(messages: Any, tools: Any) -> Any:
        seen.append(list(messages))
        said = re.sub(r'"c(\d)"', r'"c\\ud80\1"', json.dumps(REPLIES[wire]("", 2, None)))
        return json.loads(said) if len(seen) == 1 else REPLIES[wire]("Done.", 0, None)

    result = run(model, "go", tools=[add], wire=wire, policy=Policy(repeated_id=policy))
    asked, answered = ids_of(seen[1])
    assert (result.status, refused(wire, seen[1]), answered, len(set(asked))) == ("answered", "", asked, 2)


def test_a_history_without_such_ids_is_sent_as_it_is() -> None:
    """Of one that was forked, each fork has the ids of its own."""
    fork = History([UserMessage("go"), asking(PLAIN, "a")])
    ways = [fork.append(asking(PLAIN, "b")), fork.append(asking(PLAIN, "b")).append(asking(PLAIN, "b"))]
    assert [ids_of(PLAIN.encode(one).messages)[0] for one in ways] == [["a", "b"], ["a", "b", "b_s0_0"]]
    encoding = Encoding(PLAIN)
    assert [ids_of(list(encoding.messages(one)))[0] for one in (*ways, *ways)] == [["a", "b"], ["a", "b", "b_s0_0"]] * 2


def ids_of(messages: Messages) -> list[list[str]]:
    """The ids of the calls in messages, and those of the results."""
    found = [mark for message in messages for mark in marks(message, "")]
    return [[one.id for one in found if one.kind == kind] for kind in ("call", "result")]


@every_wire
@pytest.mark.parametrize("results", [0, 1, 3])
def test_an_exchange_whose_results_are_not_those_of_its_calls(wire: Wire, results: int) -> None:
    """It can't be sent, and the sentence says so."""
    whole = asking(wire, "a", "b", "c")
    broken = Exchange(attrs.evolve(whole.turn, calls=whole.turn.calls[:2]), whole.results[:results])
    with pytest.raises(ValueError, match=f"an exchange holds one result for each of its calls, not {results} for 2"):
        wire.encode(History([broken]))


@every_wire
def test_an_exchange_whose_results_are_in_another_order(wire: Wire) -> None:
    """It can't be sent, for one call would get the result of another; nor can one whose results are of other tools."""
    whole = asking(wire, "a", "b")
    first, second = whole.results
    where = "an exchange holds the results in the order of its calls: where that of 'add' (0, 0) belongs"
    for results, stands in (
        ((second, first), "'add' (0, 1)"),
        ((attrs.evolve(first, step=1), second), "'add' (1, 0)"),
        ((attrs.evolve(first, name="sub"), second), "'sub' (0, 0)"),
    ):
        with pytest.raises(ValueError, match="an exchange") as refusal:
            wire.encode(History([Exchange(whole.turn, results)]))
        assert str(refusal.value) == f"{where} (its step, its place in the turn) stands one of {stands}"


@every_provider
def test_a_providers_own_ids_go_back_as_they_are(wire: Wire) -> None:
    """Whatever they look like: it takes what it gave."""
    own = "functions.add:0"
    body = json.loads(json.dumps(REPLIES[wire]("", 1, None)).replace('"c0"', json.dumps(own)))
    turn = wire.decode(body)
    asked, answered = pairs(wire.entry(Exchange(turn, (CallResult.of(turn.calls[0], "ok", "1"),))))
    assert ([one for one, _ in asked], answered) == ([own], [own])


#: Names of calls, with what is sent of each over a wire that takes letters, digits, _ and -.
NAMES = {
    "no such!": "no_such_",
    "1st!": "_1st_",
    "日本": "___",
    "n" * 129: "n" * 64,
    "files/read.text": "files_read_text",
    "": "_",
    "\ud800": "__",
    "-x y": "_-x_y",
}


@every_provider
@pytest.mark.parametrize("known", [True, False])
def test_names_that_the_provider_does_not_take(wire: Wire, known: bool) -> None:
    """They are written with the characters that all take, the same in call and result, whoever thought of them."""
    turns = [wire.decode(REPLIES[wire]("", 1, None)), Turn(calls=(Call("c0", "add"),))]
    taken = {name: name for name in ("add", "1st", "files.read", "ns:read", "n" * 64, "n" * 65, "_-")}
    given = NAMES | taken
    if wire is not GEMINI:
        given |= {"files.read": "files_read", "ns:read": "ns_read"}
    if wire is GEMINI:
        given |= {"1st": "_1st"}
    elif wire is not ANTHROPIC:
        given |= {"n" * 65: "n" * 64}
    for turn in turns:
        calls = [attrs.evolve(turn.calls[0], name=name, known=known) for name in given]
        exchanges = [
            Exchange(attrs.evolve(turn, calls=(call,)), (CallResult.of(call, "unknown_tool", "?"),)) for call in calls
        ]
        names = [re.findall(r'"name": "([^"]*)"', json.dumps(wire.entry(one))) for one in exchanges]
        assert names == [[sent] * (2 if wire is GEMINI else 1) for sent in given.values()]
        assert [refused(wire, wire.encode(History([UserMessage("go"), one])).messages) for one in exchanges] == [
            ""
        ] * len(given)


@every_provider
def test_a_history_whose_names_only_another_wire_takes(wire: Wire) -> None:
    """One that was handed in over PLAIN, or that a run over PLAIN or Gemini's wire brought, can be sent."""
    told = [
        {"kind": "user", "text": "go"},
        {"kind": "call", "id": "a", "name": "bad name", "arguments": {}},
        {"kind": "tool_result", "id": "a", "content": "1"},
    ]
    reads = Tool("files.read", "Read.", {"type": "object"}, lambda: "text")
    asking: dict[Wire, Any] = {PLAIN: {"kind": "call", "id": "c", "name": "files.read", "arguments": {}}}
    asking[GEMINI] = {"candidates": [{"content": {"parts": [{"functionCall": {"name": "files.read"}}]}}]}
    histories = [PLAIN.history(told)[0]]
    for source, asked in asking.items():
        replies = iter([asked, REPLIES[source]("Done.", 0, None)])
        result = run(lambda messages, replies=replies: next(replies), "go", tools=[reads], wire=source)
        histories.append(result.history.append(UserMessage("And?")))
    for history in histories:
        messages = wire.encode(history).messages
        assert (refused(wire, messages), "bad name" in str(messages)) == ("", False)
        assert "files.read" in str(messages) or wire is not GEMINI or history is histories[0]


# --- what is left out -----------------------------------------------------------------------------------------------

WHOLE: dict[Wire, list[Any]] = {
    ANTHROPIC: [
        {"content": [{"type": "text", "text": "Two.", "citations": None}, *USES], "stop_reason": "tool_use"},
        {"content": [{"type": "text", "text": "Do"}, {"type": "text", "text": "ne."}]},
    ],
    OPENAI_CHAT: [
        {"role": "assistant", "content": "Two.", "tool_calls": CHAT_CALLS, "refusal": None, "annotations": []},
        {"role": "assistant", "content": [{"type": "text", "text": "Done."}], "audio": None},
    ],
    OPENAI_RESPONSES: [{"output": [output("Two."), *ITEMS]}, {"output": [output("Do"), output("ne.")]}],
    GEMINI: [
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "Two."}, GEMINI_ADD]}}]},
        {"candidates": [{"content": {"parts": [{"text": "Do"}, {"text": "ne."}]}}]},
    ],
}


def warnings_of(wire: Wire, history: History) -> list[str]:
    """What a run over a wire that goes on from a history warns of."""
    told: list[Any] = []
    run(
        lambda messages: list(messages) and REPLIES[wire]("x", 0, None),
        "And?",
        wire=wire,
        history=history,
        observe=told.append,
    )
    return [one.text for one in told if isinstance(one, notices.Warning)]


@every_wire
@pytest.mark.parametrize("source", list(WHOLE), ids=repr)
def test_where_nothing_is_left_out_nothing_is_said(source: Wire, wire: Wire) -> None:
    """Texts and calls arrive whole on every wire, in however many parts the first had them."""
    replies = iter(copy.deepcopy(WHOLE[source]))
    result = run(lambda messages: next(replies), "go", tools=[add, boom], wire=source)
    assert (result.status, result.text) == ("answered", "Done.")
    assert warnings_of(wire, result.history) == []


#: What a model says beside text and calls, in each way that it can.
BESIDE: list[tuple[Wire, Any]] = [
    (ANTHROPIC, {"content": [{"type": "text", "text": "x", "citations": [{"cited_text": "y"}]}]}),
    (ANTHROPIC, {"content": [{"type": "text", "text": "x"}, {"type": "redacted_thinking", "data": "y"}]}),
    (OPENAI_CHAT, {"role": "assistant", "content": "x", "audio": {"id": "a"}}),
    (
        OPENAI_CHAT,
        {"role": "assistant", "content": [{"type": "text", "text": "x"}, {"type": "thinking", "thinking": "y"}]},
    ),
    (OPENAI_RESPONSES, {"output": [output("x"), {"type": "web_search_call", "id": "ws"}]}),
    (OPENAI_RESPONSES, {"output": [output("x") | {"phase": "final"}]}),
    (GEMINI, {"candidates": [{"content": {"parts": [{"text": "x", "thoughtSignature": "y"}]}}]}),
    (GEMINI, {"candidates": [{"content": {"parts": [{"text": "x"}, {"inlineData": {"data": "y"}}]}}]}),
]


@pytest.mark.parametrize(("source", "reply"), BESIDE, ids=str)
def test_whatever_is_left_out_of_what_a_model_said_is_told(source: Wire, reply: Any) -> None:
    """Over every other wire, and not over its own."""
    history = run(lambda messages: reply, "go", wire=source).history
    for wire in WIRES.values():
        assert warnings_of(wire, history) == ([] if wire is source else [left_out(source, wire)])


PNG = "data:image/png;base64,iVBO"
TEXT_PART, IMAGE_PART = {"type": "text", "text": "So:"}, {"type": "image_url", "image_url": {"url": PNG}}


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ({"content": [TEXT_PART]}, WIRES.values()),
        ({"content": [TEXT_PART, TEXT_PART]}, WIRES.values()),
        ({"content": [TEXT_PART, IMAGE_PART]}, [ANTHROPIC, OPENAI_RESPONSES, GEMINI]),
        ({"content": [TEXT_PART, {"type": "input_audio"}]}, []),
        ({"content": "So:", "name": "anna"}, []),
        ({"content": [TEXT_PART], "name": "anna"}, []),
    ],
    ids=str,
)
def test_what_is_left_out_of_what_a_user_said_is_told(message: Any, kept: Any) -> None:
    """An image only where it is not sent, and no text."""
    history = OPENAI_CHAT.history([{"role": "user"} | message])[0]
    expected = {
        wire.name: [] if wire in (*kept, OPENAI_CHAT) else [left_out(OPENAI_CHAT, wire)] for wire in WIRES.values()
    }
    assert {wire.name: warnings_of(wire, history) for wire in WIRES.values()} == expected


SOURCE = {"type": "base64", "media_type": "image/png", "data": "iVBO"}
INLINE = {"mimeType": "image/png", "data": "iVBO"}
KEPT_FOR_LATER = {"cache_control": {"type": "ephemeral"}}
#: A part of what a user said as another wire has it whole, and as it says more than its text or image.
MORE_OF_A_PART: list[tuple[Wire, Any, Any]] = [
    (ANTHROPIC, {"type": "text", "text": "So:", "citations": None}, {"type": "text", "text": "So:"} | KEPT_FOR_LATER),
    (ANTHROPIC, {"type": "image", "source": SOURCE}, {"type": "image", "source": SOURCE} | KEPT_FOR_LATER),
    (OPENAI_CHAT, TEXT_PART, TEXT_PART | KEPT_FOR_LATER),
    (OPENAI_CHAT, IMAGE_PART, {"type": "image_url", "image_url": {"url": PNG, "detail": "high"}}),
    (OPENAI_RESPONSES, {"type": "input_text", "text": "So:"}, {"type": "input_text", "text": "So:", "odd": 1}),
    (
        OPENAI_RESPONSES,
        {"type": "input_image", "image_url": PNG},
        {"type": "input_image", "image_url": PNG, "detail": "high"},
    ),
    (GEMINI, {"text": "So:"}, {"text": "So:", "thoughtSignature": "Co+/"}),
    (GEMINI, {"inlineData": INLINE}, {"inlineData": INLINE | {"displayName": "a.png"}}),
]


@pytest.mark.parametrize(("source", "plain", "more"), MORE_OF_A_PART, ids=str)
def test_whatever_is_left_out_of_a_part_of_what_a_user_said_is_told(source: Wire, plain: Any, more: Any) -> None:
    """Over every wire but its own that takes the part; a field that says nothing is no more."""
    field = "parts" if source is GEMINI else "content"
    first, second = (source.history([{"role": "user", field: [one, plain]}])[0] for one in (plain, more))
    takes = [one for one in WIRES.values() if warnings_of(one, first) == []]
    told = {wire.name: warnings_of(wire, second) for wire in takes}
    assert set(takes) >= {ANTHROPIC, OPENAI_CHAT, OPENAI_RESPONSES, GEMINI}
    assert told == {wire.name: [] if wire is source else [left_out(source, wire)] for wire in takes}


def test_a_payload_of_no_known_shape_is_left_out() -> None:
    """One that was made by hand, or that holds nothing: of what a user said it is told, for who knows what it was."""
    for payload in ("5", "not json", "{}", '{"content": 5}', '{"content": "x", "odd": 1}'):
        assert warnings_of(PLAIN, History([UserMessage("So:", payload, "mine")])) != []
    for payload in ("5", '["x"]', "not json"):
        assert (
            warnings_of(PLAIN, History([UserMessage("go"), Final(Turn("So.", payload_text=payload, wire="mine"))]))
            == []
        )


# --- histories made by hand -------------------------------------------------------------------------------------------

#: What is no payload of any wire's.
NO_PAYLOADS = [
    '{"role": "user"}',
    '{"role": "user", "content": [], "parts": [{}]}',
    '{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}], "parts": [{"functionCall": 5}]}',
    "not json",
    "[]",
    "{}",
    "5",
    "null",
    '"x"',
    "[5]",
    '[{"type": 5}]',
    '{"parts": 5}',
    "[" * 9999,
    '{"content": []}',
]


@every_wire
@pytest.mark.parametrize("payload", NO_PAYLOADS, ids=lambda text: text[:12])
def test_a_payload_that_can_not_be_sent_is_left_for_the_text(wire: Wire, payload: str) -> None:
    """A record can be made of anything: what it says, its calls and their results are sent, and nothing is raised."""
    turn = Turn("Hm.", (Call("a", "add", '{"a":1,"b":2}'),))
    results = (CallResult.of(turn.calls[0], "ok", "3"),)
    spoken = UserMessage("So:"), Exchange(turn, results), Final(Turn("Done.")), UserMessage("And?")
    held: dict[str, Any] = {"payload_text": payload, "wire": wire.name}
    by_hand: list[Entry] = [
        attrs.evolve(spoken[0], **held),
        Exchange(attrs.evolve(turn, **held), results),
        Final(attrs.evolve(spoken[2].turn, **held)),
        attrs.evolve(spoken[3], payload_text=None, wire=wire.name),
    ]
    messages = wire.encode(History(by_hand)).messages
    assert (messages, refused(wire, messages)) == (wire.encode(History(spoken)).messages, "")


@every_provider
def test_a_payload_that_is_not_the_users_is_left_for_the_text(wire: Wire) -> None:
    """A message of no role, or of another, is none of the user's."""
    for role in ({}, {"role": "model"}, {"role": "tool"}):
        payload = json.dumps({"parts": [{"text": "x"}], "content": "x"} | role)
        by_hand = History([UserMessage("So:", payload, wire.name)])
        assert wire.encode(by_hand).messages == wire.encode(History([UserMessage("So:")])).messages


@every_provider
def test_a_payload_that_says_nothing_of_the_answer_is_left_for_the_text(wire: Wire) -> None:
    """Or the answer would be missing from what is sent."""
    reply = REPLIES[wire](" ", 0, None)
    silent = wire.decode(reply).payload_text
    assert silent is not None
    answer = Final(Turn("Done.", payload_text=silent, wire=wire.name))
    assert wire.entry(answer) == wire.entry(Final(Turn("Done.")))


@every_wire
def test_an_exchange_without_calls_can_not_be_sent(wire: Wire) -> None:
    """The sentence says what one holds."""
    with pytest.raises(ValueError, match="an exchange holds a call and its result at least, and this one holds none"):
        wire.encode(History([UserMessage("go"), Exchange(Turn("x"), ())]))


def test_messages_that_outlive_their_loop_warn_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """They can be looked at all the same: they do not keep the loop."""
    loop = Loop("And?", wire=GEMINI, history=first_run(ANTHROPIC), at=0.0)
    messages, kept = loop.messages(), weakref.ref(loop)
    del loop
    assert (kept(), len(messages) > 0, caplog.messages) == (None, True, [])
