"""What holds on every wire: the table of what a turn is, totality, and that what is sent back can be sent."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import permutations
from typing import Any

import attrs
import pytest

from loopmachine import Loop, Tool, run
from loopmachine.history import Entry, History
from loopmachine.limits import Usage
from loopmachine.records import Call, CallResult, Exchange, Final, Note, Turn, UserMessage
from loopmachine.requests import AskModel
from loopmachine.wire import ANTHROPIC, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES, PLAIN, WIRES, Encoded, Wire
from tests.refusals import refused

ADD = {
    "name": "add",
    "description": "Add two numbers.",
    "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}},
}


def exchange(turn: Turn, *results: tuple[str, str]) -> Exchange:
    """A turn and the (outcome, content) of each of its calls."""
    pairs = zip(turn.calls, results, strict=True)
    return Exchange(turn, tuple(CallResult.of(call, outcome, content) for call, (outcome, content) in pairs))


def pictured(call: Call, blocks: str) -> CallResult:
    """The result of a tool that returned these blocks, as JSON, beside a text."""
    return attrs.evolve(CallResult.of(call, "ok", "x"), blocks_text=blocks)


def identified(turn: Turn, *ids: str) -> Turn:
    """The turn as the loop makes it where a provider sent no ids."""
    return attrs.evolve(
        turn, calls=tuple(attrs.evolve(call, id=one) for call, one in zip(turn.calls, ids, strict=True))
    )


def deep(levels: int, innermost: str = "x") -> Any:
    """A text within a list, within a list, and so on."""
    value: Any = innermost
    for _ in range(levels):
        value = [value]
    return value


def renamed(turn: Turn, *ids: str) -> Turn:
    """The turn as admission makes it where ids were used before; blank keeps one."""
    return attrs.evolve(
        turn, calls=tuple(attrs.evolve(call, sent_id=one) for call, one in zip(turn.calls, ids, strict=True))
    )


def sent(wire: Wire, *entries: Entry, system: str | None = None) -> list[dict[str, Any]]:
    """The messages of these entries in a history that a user began."""
    messages = wire.encode(History([UserMessage("Begin."), *entries]), (), system).messages
    del messages[len(wire.lead(system))]
    return messages


# --- a reply of each wire -------------------------------------------------------------------------------


def plain_reply(text: str, calls: int, stop: str | None) -> dict[str, Any]:
    asked = [{"id": f"c{n}", "name": "add", "arguments": {"a": n}} for n in range(calls)]
    reply = {"kind": "calls", "calls": asked, "text": text} if calls else {"kind": "final", "text": text}
    return reply | {"stop": stop}


def anthropic_reply(text: str, calls: int, stop: str | None) -> dict[str, Any]:
    asked = [{"type": "tool_use", "id": f"c{n}", "name": "add", "input": {"a": n}} for n in range(calls)]
    return {"role": "assistant", "content": [{"type": "text", "text": text}, *asked], "stop_reason": stop}


def chat_reply(text: str, calls: int, stop: str | None) -> dict[str, Any]:
    asked = [
        {"id": f"c{n}", "type": "function", "function": {"name": "add", "arguments": json.dumps({"a": n})}}
        for n in range(calls)
    ]
    message = {"role": "assistant", "content": text, "tool_calls": asked}
    return {"choices": [{"message": message, "finish_reason": stop}]}


def responses_reply(text: str, calls: int, stop: str | None) -> dict[str, Any]:
    asked = [
        {"type": "function_call", "call_id": f"c{n}", "name": "add", "arguments": json.dumps({"a": n})}
        for n in range(calls)
    ]
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    return {"output": [said, *asked], "status": stop}


def gemini_reply(text: str, calls: int, stop: str | None) -> dict[str, Any]:
    asked = [{"functionCall": {"id": f"c{n}", "name": "add", "args": {"a": n}}} for n in range(calls)]
    return {"candidates": [{"content": {"role": "model", "parts": [{"text": text}, *asked]}, "finishReason": stop}]}


REPLIES: dict[Wire, Callable[[str, int, str | None], dict[str, Any]]] = {
    PLAIN: plain_reply,
    ANTHROPIC: anthropic_reply,
    OPENAI_CHAT: chat_reply,
    OPENAI_RESPONSES: responses_reply,
    GEMINI: gemini_reply,
}
PROVIDERS = [wire for wire in WIRES.values() if wire is not PLAIN]
every_wire = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
every_provider = pytest.mark.parametrize("wire", PROVIDERS, ids=repr)

# --- the face -------------------------------------------------------------------------------------------


def test_wires_are_known_by_their_names() -> None:
    """Every wire stands in WIRES under the name that its turns bear."""
    assert {name: (repr(wire), wire.name) for name, wire in WIRES.items()} == {
        "plain": ("<wire plain>", "plain"),
        "anthropic": ("<wire anthropic>", "anthropic"),
        "openai-chat": ("<wire openai-chat>", "openai-chat"),
        "openai-responses": ("<wire openai-responses>", "openai-responses"),
        "gemini": ("<wire gemini>", "gemini"),
    }


def test_what_is_sent_beside_the_history() -> None:
    """Each wire has its own place for the system text and its own shape of a tool."""
    history = History([UserMessage("hi")])
    said = {"role": "user", "content": "hi"}
    named = {"name": "add", "description": "Add two numbers."}
    function = named | {"parameters": ADD["input_schema"]}
    declared = {"functionDeclarations": [named | {"parametersJsonSchema": ADD["input_schema"]}]}
    content = {"role": "user", "parts": [{"text": "hi"}]}
    assert {wire.name: wire.encode(history, [ADD], "Be brief.") for wire in WIRES.values()} == {
        "plain": Encoded([{"kind": "system", "text": "Be brief."}, {"kind": "user", "text": "hi"}], [ADD], None),
        "anthropic": Encoded([said], [ADD], "Be brief."),
        "openai-chat": Encoded(
            [{"role": "system", "content": "Be brief."}, said], [{"type": "function", "function": function}], None
        ),
        "openai-responses": Encoded([said], [{"type": "function", "strict": False} | function], "Be brief."),
        "gemini": Encoded([content], [declared], {"parts": [{"text": "Be brief."}]}),
    }


@every_wire
@pytest.mark.parametrize("system", [None, "", " ", "\n\t"])
def test_no_system_text_is_not_sent(wire: Wire, system: str | None) -> None:
    """Without a system text, or with a blank one, nothing stands for it."""
    assert wire.encode(History(), (), system) == Encoded([], [], None)


def test_only_anthropic_needs_the_tools_beside_old_calls() -> None:
    """The wire says whether a server refuses a history with calls that comes without the tools."""
    assert [name for name, wire in WIRES.items() if wire.needs_schemas] == ["anthropic"]


@every_provider
def test_an_entry_of_another_kind_is_refused(wire: Wire) -> None:
    """What is no entry of a history is a TypeError that names it."""

    class Aside(UserMessage):
        def messages(self) -> list[dict[str, Any]]:
            return [{"kind": "aside"}]

    @attrs.frozen
    class Remark:
        text: str

        def messages(self) -> list[dict[str, Any]]:
            return [{"kind": "remark", "text": self.text}]

        def __len__(self) -> int:
            return 1

    assert wire.entry(Aside("psst")) == wire.entry(UserMessage("psst"))
    assert PLAIN.entry(Remark("hm")) == Remark("hm").messages()[: len(Remark("hm"))]
    assert PLAIN.entry(Aside("psst")) == [{"kind": "aside"}]
    with pytest.raises(TypeError, match="user messages, exchanges, notes and finals, not Remark"):
        wire.entry(Remark("hm"))


@every_wire
def test_half_characters_are_sent_as_the_mark_of_one_that_is_missing(wire: Wire) -> None:
    """Everywhere in what is sent, by ``encode`` as to a model, and nowhere in the history; two halves are one again."""
    half, mark, smile = "\ud800", "\ufffd", "\ud83d\ude00"
    tool = Tool("look", f"Look {half}.", {"type": "object", "description": half}, lambda: "ok")
    entries: list[Entry] = [UserMessage(f"Go {half}{smile} \\ud800."), Final(Turn(f"So {half}.")), UserMessage("And?")]
    history, seen = History(entries), []

    def model(messages: Any, tools: Any, ask: AskModel) -> Any:
        seen.append(Encoded(list(messages), list(tools), ask.system))
        return REPLIES[wire](f"Done {half}.", 0, None)

    result = run(model, history=history, tools=[tool], system=f"Be {half}.", wire=wire)
    told: list[Entry] = [UserMessage(f"Go {mark}\U0001f600 \\ud800."), Final(Turn(f"So {mark}.")), UserMessage("And?")]
    schema = {"type": "object", "description": mark}
    offered = [{"name": "look", "description": f"Look {mark}.", "input_schema": schema}]
    sent_whole = wire.encode(History(told), offered, f"Be {mark}.")
    given = [{"name": "look", "description": f"Look {half}.", "input_schema": schema | {"description": half}}]
    assert seen == [wire.encode(history, given, f"Be {half}.")] == [sent_whole]
    assert (result.text, list(result.history)[:3]) == (f"Done {half}.", list(history))
    again = wire.encode(result.history).messages
    json.dumps(again, ensure_ascii=False).encode()
    assert f"Done {mark}." in json.dumps(again[-1], ensure_ascii=False)


@every_wire
def test_what_is_sent_is_fresh(wire: Wire) -> None:
    """Nothing done to what one encoding gave is seen in the next, in the tools or in the turn."""
    turn = wire.decode(REPLIES[wire]("looking", 1, None))
    history = History([UserMessage("hi"), exchange(turn, ("ok", "1")), Final(wire.decode(REPLIES[wire]("x", 0, None)))])
    tools = [json.loads(json.dumps(ADD))]
    before = json.dumps(attrs.asdict(wire.encode(history, tools, "Be brief.")))
    first = wire.encode(history, tools, "Be brief.")
    vandalise(first.messages)
    vandalise(first.tools)
    assert (json.dumps(attrs.asdict(wire.encode(history, tools, "Be brief."))), tools) == (before, [ADD])


def vandalise(value: Any) -> None:
    """Change everything that can be changed, at every depth."""
    if isinstance(value, dict):
        for inner in value.values():
            vandalise(inner)
        value["vandal"] = True
    elif isinstance(value, list):
        for inner in value:
            vandalise(inner)
        value.append("vandal")


@every_wire
def test_a_turn_keeps_nothing_of_the_reply(wire: Wire) -> None:
    """Nothing done to a reply after it was decoded is seen in the turn."""
    reply = REPLIES[wire]("looking", 2, "tool_calls")
    turn, again = wire.decode(reply), wire.decode(reply)
    vandalise(reply)
    assert turn == again
    assert [call.arguments for call in turn.calls] == [{"a": 0}, {"a": 1}]


@every_wire
@pytest.mark.parametrize("calls", [1, 2])
def test_calls_are_made_as_the_caller_says(wire: Wire, calls: int) -> None:
    """Who decodes may say how the calls of a turn are made of what is asked for."""
    told: list[Any] = []

    def made(asked: Any) -> tuple[Call, ...]:
        told.extend((own, name, json.loads(text)) for own, name, text in asked)
        return (Call("another", "made", step=7),)

    turn = wire.decode(REPLIES[wire]("", calls, None), made)
    assert (told, turn.calls) == (
        [(f"c{n}", "add", {"a": n}) for n in range(calls)],
        (Call("another", "made", step=7),),
    )


@every_wire
@pytest.mark.parametrize("calls", [1, 2])
def test_what_making_the_calls_raises_is_no_fault_of_the_reply(wire: Wire, calls: int) -> None:
    """An error of who makes the calls passes through; only a reply can be malformed."""

    def broken(asked: Any) -> tuple[Call, ...]:
        raise LookupError(len(asked))

    with pytest.raises(LookupError, match=str(calls)):
        wire.decode(REPLIES[wire]("", calls, None), broken)


@every_wire
def test_a_turn_is_taken_as_it_is(wire: Wire) -> None:
    """A model may return a Turn, such as a stream gave, whatever the wire."""
    turn = Turn("done", wire="elsewhere")
    assert wire.decode(turn) is turn


def with_odd(record: Any, **fields: Any) -> Any:
    """A record with what its hints do not permit."""
    for name, value in fields.items():
        object.__setattr__(record, name, value)
    return record


def asking(**fields: Any) -> Any:
    """A call with something odd."""
    return with_odd(Call("c1", "add", '{"a": 1}'), **fields)


@every_wire
@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"text": None}, "text: it must be text, not None"),
        ({"stop": None}, "stop: it must be text, not None"),
        ({"usage": {"cost_usd": 1}}, "usage: it must be a Usage or None, not {'cost_usd': 1}"),
        ({"usage": with_odd(Usage(), model=5)}, "usage.model: it must be text, not 5"),
        ({"payload_text": {"a": 1}}, "payload_text: it must be text or None, not {'a': 1}"),
        ({"payload_text": "{nope"}, "payload_text: it is no JSON"),
        ({"payload_text": "{nope", "calls": (), "kind": "final"}, "payload_text: it is no JSON"),
        ({"payload_text": "[" * 100_000}, "payload_text: it is no JSON"),
        ({"wire": None, "fault": 5}, "wire: it must be text, not None; fault: it must be text, not 5"),
        ({"calls": [asking()]}, "calls: it must be a tuple, not [Call("),
        ({"calls": ("add",)}, "calls[0]: it must be a Call, not 'add'"),
        ({"calls": (asking(), asking(id=5))}, "calls[1].id: it must be text, not 5"),
        ({"calls": (asking(name=None),)}, "calls[0].name: it must be text, not None"),
        ({"calls": (asking(name=" "),)}, "calls[0].name: it is blank"),
        ({"calls": (asking(arguments_text={"a": 1}),)}, "calls[0].arguments_text: it must be text, not {'a': 1}"),
    ],
)
def test_a_turn_as_is_that_could_not_be_kept_is_malformed(wire: Wire, fields: dict[str, Any], fault: str) -> None:
    """As a reply of the wrong shape is; the fault names the fields, and what is right of the rest is kept."""
    right: dict[str, Any] = {"text": "hm", "stop": "why", "usage": Usage(input_tokens=1)}
    turn = wire.decode(with_odd(Turn(**right, calls=(asking(),)), **fields))
    kept = {name: value for name, value in right.items() if name not in fields}
    assert turn == Turn(**kept, wire=wire.name, fault=turn.fault)
    assert turn.fault.startswith(fault)


def test_a_call_without_an_id_in_a_turn_as_is_is_what_it_is_in_a_reply() -> None:
    """Malformed where nobody makes ids up."""
    turn = Turn(calls=(asking(), Call(" ", "add")))
    assert PLAIN.decode(turn) == Turn(wire="plain", fault="calls[1].id: it is blank")
    assert [wire.decode(turn) is turn for wire in PROVIDERS] == [True] * len(PROVIDERS)


def test_a_turn_as_is_that_was_cut_is_cut_whatever_else_is_wrong() -> None:
    """As a reply is."""
    turn = Turn(calls=(Call("", ""),), stop="length", payload_text="{")
    assert PLAIN.decode(turn) is turn
    assert PLAIN.decode(with_odd(turn, text=None)).kind == "truncated"


class Unlooked:
    """What raises where it is asked for its class."""

    @property  # type: ignore[misc]  # as a proxy has it
    def __class__(self) -> Any:
        raise LookupError


@every_wire
def test_a_turn_as_is_that_cannot_be_looked_at_is_malformed(wire: Wire) -> None:
    """Reading it never raises."""
    turn = wire.decode(with_odd(Turn("hm"), text=Unlooked()))
    assert turn == Turn(wire=wire.name, fault="reply: reading it raises LookupError")


@every_wire
def test_a_turn_of_a_class_of_its_own_is_no_turn(wire: Wire) -> None:
    """It could not be read back as what it is."""

    class Own(Turn):
        """A class made of it."""

    turn = wire.decode(Own("hm"))
    assert (turn.kind, turn.fault.partition(":")[0]) == ("malformed", "reply")


@every_provider
@pytest.mark.parametrize("payload", ["5", "{}", '"x"', '[{"type": 5}]', '{"parts": 5}', "two calls"])
def test_a_turn_as_is_whose_payload_could_not_be_sent_back_is_malformed(wire: Wire, payload: str) -> None:
    """What the provider would be sent is looked at when the turn comes, not when it is asked again."""
    right = wire.decode(REPLIES[wire]("hm", 1, None))
    other = wire.decode(REPLIES[wire]("hm", 2, None)).payload_text if payload == "two calls" else payload
    turn = wire.decode(attrs.evolve(right, payload_text=other))
    fault = f"payload_text: it is not what {wire.name} sends with these calls"
    assert (turn.kind, turn.fault) == ("malformed", fault)
    elsewhere = attrs.evolve(right, payload_text=other, wire="elsewhere")
    assert [wire.decode(one) is one for one in (right, elsewhere)] == [True, True]


#: Payloads that hold nothing of an answer, of which each wire takes some.
NOTHING_SAID: dict[Wire, list[str]] = {
    ANTHROPIC: ["[]", '[{"type":"text","text":" "}]', '[{"type":"thinking","thinking":"x","signature":"s"}]'],
    OPENAI_CHAT: ['{"content":null}', '{"content":[]}', '{"content":"","reasoning":"x"}'],
    OPENAI_RESPONSES: ["[]", '[{"type":"reasoning","summary":[]}]', '[{"type":"message","content":"\\n"}]'],
    GEMINI: ['{"parts":[]}', '{"parts":[{"text":"x","thought":true}]}'],
}


@every_provider
def test_a_turn_as_is_whose_payload_says_nothing_of_its_answer_is_malformed(wire: Wire) -> None:
    """The payload is what is sent, which a server would refuse, or the answer would be missing from it."""
    fault = "payload_text: it says nothing, and what is sent of the answer is the payload"
    right = wire.decode(REPLIES[wire]("x", 0, None))
    for payload in NOTHING_SAID[wire]:
        turn = wire.decode(attrs.evolve(right, payload_text=payload))
        assert (turn.kind, turn.fault) == ("malformed", fault)
    assert wire.decode(right) is right


UNREADABLE: dict[Wire, Any] = {
    ANTHROPIC: [[{"type": "text", "text": 5}]],
    OPENAI_CHAT: [{"content": 5}, {"content": "x", "function_call": {"name": "add"}}],
    OPENAI_RESPONSES: [
        [{"type": "message", "content": 5}],
        [{"type": "computer_call", "call_id": "c"}, {"type": "message", "content": "x"}],
    ],
    GEMINI: [{"parts": [{"text": 5}]}],
}


@every_provider
def test_a_turn_as_is_whose_payload_could_not_be_read_is_malformed(wire: Wire) -> None:
    """It is no payload of the wire's, whatever could be sent of it; nor is one that nests too deep."""
    fault = f"payload_text: it is not what {wire.name} sends with these calls"
    for payload in UNREADABLE[wire]:
        turn = wire.decode(Turn("x", payload_text=json.dumps(payload), wire=wire.name))
        assert (turn.kind, turn.fault) == ("malformed", fault)
    turn = wire.decode(Turn("x", payload_text=json.dumps(deep(101)), wire=wire.name))
    assert (turn.kind, turn.fault) == ("malformed", "payload_text: lists and objects nest too deep in it")


@every_wire
@pytest.mark.parametrize("levels", [90, 300, 600, 980, 2000])
def test_a_reply_that_nests_deeper_than_can_be_sent_runs_nothing(wire: Wire, levels: int) -> None:
    """It is malformed; one as deep as can be sent is sent again, whatever is to be mended in it."""
    seen: list[bytes] = []
    ran: list[int] = []
    reply = REPLIES[wire]("", 1, None)
    asked_in(wire, reply)[0]["zzz" if wire is not PLAIN else "arguments"] = {"x": deep(levels, "\ud800")}

    def model(messages: Any) -> Any:
        seen.append(json.dumps(list(messages), ensure_ascii=False).encode())
        return reply if len(seen) == 1 else REPLIES[wire]("Done.", 0, None)

    def add(a: int) -> None:
        ran.append(a)

    adds = Tool("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}}}, add)
    result = run(model, "q", tools=[adds], wire=wire)
    outcome = ("answered", 2, [] if wire is PLAIN else [0]) if levels == 90 else ("malformed", 1, [])
    assert (result.status, len(seen), ran) == outcome
    assert ("lists and objects nest deeper than 100 levels" in str(result.explain())) is (levels > 90)


def asked_in(wire: Wire, reply: Any) -> list[dict[str, Any]]:
    """The calls that a reply asks for, as its own objects."""
    if wire is GEMINI:
        return [part["functionCall"] for part in reply["candidates"][0]["content"]["parts"][1:]]
    ways: dict[Wire, Callable[[], list[dict[str, Any]]]] = {
        PLAIN: lambda: reply["calls"],
        ANTHROPIC: lambda: reply["content"][1:],
        OPENAI_CHAT: lambda: reply["choices"][0]["message"]["tool_calls"],
        OPENAI_RESPONSES: lambda: reply["output"][1:],
    }
    return ways[wire]()


def test_arguments_text_that_nests_deep_is_sent_as_an_object_only_where_it_can_be() -> None:
    """A wire that sends the text sends it as it was written, one that sends an object an empty one."""
    written = json.dumps({"x": deep(600)})
    entry = exchange(Turn(calls=(Call("c0", "add", written),)), ("invalid_arguments", "too deep"))
    told = {wire: [call for one in sent(wire, entry) for call in asked_by(wire, one)] for wire in WIRES.values()}
    assert told == {
        PLAIN: [{}],
        ANTHROPIC: [{}],
        OPENAI_CHAT: [written],
        OPENAI_RESPONSES: [written],
        GEMINI: [{}],
    }


def asked_by(wire: Wire, message: dict[str, Any]) -> list[Any]:
    """The arguments of the calls in a message."""
    if wire is OPENAI_CHAT:
        return [call["function"]["arguments"] for call in message.get("tool_calls", ())]
    if wire is ANTHROPIC:
        return [part["input"] for part in message["content"] if "input" in part]
    if wire is GEMINI:
        return [part["functionCall"]["args"] for part in message["parts"] if "functionCall" in part]
    return [message["arguments"]] if "arguments" in message else []


@every_provider
@pytest.mark.parametrize("content", ["", " \n"])
def test_a_result_that_is_not_ok_and_says_nothing_tells_its_outcome(wire: Wire, content: str) -> None:
    """Anthropic's server refuses it otherwise; one that is ok may say nothing."""
    turn = wire.decode(REPLIES[wire]("", 2, None))
    results = [CallResult.of(turn.calls[0], "timed_out", content), CallResult.of(turn.calls[1], "ok", content)]
    image = '[{"kind":"image","media_type":"image/png","data":"iVBO"}]'
    for blocks in (None, image) if wire in (ANTHROPIC, GEMINI) else (None,):
        whole = Exchange(turn, (attrs.evolve(results[0], blocks_text=blocks), results[1]))
        written = json.dumps(sent(wire, whole))
        assert written.count("(timed_out, without a word of why)") == written.count("without a word") == 1


def test_an_error_without_content_that_is_handed_in_can_be_sent() -> None:
    """Its content says that it failed, which the server wants where ``is_error`` is true."""
    use = {"type": "tool_use", "id": "t", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "is_error": True}
    history, _ = ANTHROPIC.history([{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}])
    assert ANTHROPIC.encode(history).messages[-1]["content"] == [
        result | {"content": "(failed, without a word of why)"},
    ]


BLANK_TYPES: dict[Wire, tuple[Any, str]] = {
    ANTHROPIC: ({"content": [{"type": "text", "text": "x"}, {"type": ""}]}, "content[1].type"),
    OPENAI_CHAT: ({"choices": [{"message": {"content": [{"type": "", "text": "x"}]}}]}, "content[0].type"),
    OPENAI_RESPONSES: (
        {
            "status": "completed",
            "output": [
                {"type": "function_call", "call_id": "d", "name": "add", "arguments": "{}"},
                {"type": "", "call_id": "c", "name": "add", "arguments": "{}"},
            ],
        },
        "output[1].type",
    ),
}


@pytest.mark.parametrize("wire", list(BLANK_TYPES), ids=repr)
def test_what_has_a_blank_type_has_none(wire: Wire) -> None:
    """Its reply is malformed, as where the type is absent: what it holds is not dropped without a word."""
    reply, field = BLANK_TYPES[wire]
    for blank in ("", " "):
        turn = wire.decode(json.loads(json.dumps(reply).replace('"type": ""', f'"type": "{blank}"')))
        assert (turn.calls, turn.fault) == ((), f"{field}: it is blank")
    absent = json.loads(json.dumps(reply).replace('"type": ""', '"type": null'))
    assert wire.decode(absent).fault == f"{field}: it is missing"


@pytest.mark.parametrize("blank", [None, "", " "])
def test_what_has_a_default_has_it_where_it_is_blank(blank: str | None) -> None:
    """The type of a call over OPENAI_CHAT, that of a message over OPENAI_RESPONSES, the role of Gemini's user."""
    reply = REPLIES[OPENAI_CHAT]("", 1, None)
    asked_in(OPENAI_CHAT, reply)[0]["type"] = blank
    assert [call.name for call in OPENAI_CHAT.decode(reply).calls] == ["add"]
    said = {"type": blank, "role": "assistant", "content": [{"type": "output_text", "text": "x"}]}
    heard = {"type": blank, "role": "user", "content": "q"}
    assert list(OPENAI_RESPONSES.history([said, heard])[0]) == [
        {"kind": "final", "text": "x"},
        {"kind": "user", "text": "q"},
    ]
    assert list(GEMINI.history([{"role": blank, "parts": [{"text": "q"}]}])[0]) == [{"kind": "user", "text": "q"}]


def choice(wire: Wire, text: str, **fields: Any) -> Any:
    """A choice, or a candidate, that says this."""
    said = {"content": {"parts": [{"text": text}]}} if wire is GEMINI else {"message": {"content": text}}
    return said | fields


@pytest.mark.parametrize(("wire", "field"), [(OPENAI_CHAT, "choices"), (GEMINI, "candidates")], ids=repr)
def test_of_several_choices_that_of_index_0_is_read(wire: Wire, field: str) -> None:
    """Wherever it stands; where none is, the first that tells no index: another is another answer."""
    zero, text, none = choice(wire, "0", index=0), choice(wire, "text", index="0"), choice(wire, "none")
    one, blank, two = choice(wire, "1", index=1), choice(wire, "blank", index=""), choice(wire, "2", index=2)
    for told, said in (
        ((one, zero), "0"),
        ((one, text), "text"),
        ((none, zero), "0"),
        ((one, none, blank), "none"),
        ((two, blank, none), "blank"),
        ((none, choice(wire, "other")), "none"),
        ((5, zero), "0"),
    ):
        for choices in (list(told), tuple(told)):
            assert wire.decode({field: choices}).text == said
    nothing: list[Any] = [[], None, {}, [5], [two, one], [one | {"finish_reason": "stop"}]]
    assert [wire.decode({field: value}).kind for value in nothing] == ["malformed"] * 6


# --- what encode is not given -----------------------------------------------------------------------------


@every_wire
def test_what_encode_can_not_take_is_refused_in_words(wire: Wire) -> None:
    """The sentence names the argument and says what would have been right."""
    history: Any = History([UserMessage("hi")])
    mapping = 'a mapping {"name", "description", "input_schema"}'
    a_tool = Tool("look", "Look.", {"type": "object"}, lambda: "ok")
    said: list[Any] = [{"role": "user"}]
    for given, says in (
        ((said,), "history must be a History, which wire.history(messages) makes of messages, not [{'role': 'user'}]"),
        ((history, (), 5), "system must be text or None, not 5"),
        ((history, a_tool), f"tools must be a list of tools, each {mapping}, not "),
        ((history, [a_tool]), f"tools[0] must be {mapping}, not "),
        ((history, [ADD, None]), f"tools[1] must be {mapping}, not None"),
        ((history, ADD), f"tools[0] must be {mapping}, not 'name'"),
    ):
        with pytest.raises(TypeError, match="must be") as refusal:
            wire.encode(*given)
        assert str(refusal.value).startswith(says)


@every_wire
def test_a_tool_that_is_offered_may_have_no_description(wire: Wire) -> None:
    """A name and a schema it must have, but over PLAIN, where a model takes what it likes."""
    bare = {name: value for name, value in ADD.items() if name != "description"}
    assert wire.offer([bare]) == (wire.offer([ADD | {"description": ""}]) if wire in SHAPED else [bare])
    if wire is not PLAIN:
        for field in ("name", "input_schema"):
            left = {name: value for name, value in bare.items() if name != field}
            with pytest.raises(ValueError, match=f"^tools: .* has no '{field}', which every tool must have$"):
                wire.offer([left])


SHAPED = (OPENAI_CHAT, OPENAI_RESPONSES, GEMINI)


def test_more_that_a_tool_of_anthropic_is_offered_with() -> None:
    """Its own fields, such as a mark for the cache, go with it."""
    marked = ADD | {"cache_control": {"type": "ephemeral"}}
    assert ANTHROPIC.offer([marked]) == [marked]


OPENAI_RULE = "1 to 64 letters, digits, _ and -"
RULES: dict[Wire, str] = {
    ANTHROPIC: "1 to 128 letters, digits, _ and -",
    OPENAI_CHAT: OPENAI_RULE,
    OPENAI_RESPONSES: OPENAI_RULE,
    GEMINI: "1 to 128 letters, digits, _ . : and -, the first a letter or _",
}
LONG = "n" * 65
#: Names of tools, with the wires that take each beside PLAIN.
OFFERED: dict[str, tuple[Wire, ...]] = {
    "read": tuple(RULES),
    "read-all_2": tuple(RULES),
    "_": tuple(RULES),
    "n" * 64: tuple(RULES),
    LONG: (ANTHROPIC, GEMINI),
    "n" * 128: (ANTHROPIC, GEMINI),
    "files.read": (GEMINI,),
    "1st": (ANTHROPIC, OPENAI_CHAT, OPENAI_RESPONSES),
    "-x": (ANTHROPIC, OPENAI_CHAT, OPENAI_RESPONSES),
    "files/read": (),
}


@every_wire
@pytest.mark.parametrize("name", OFFERED)
def test_a_tool_whose_name_the_provider_refuses_is_refused(wire: Wire, name: str) -> None:
    """When a loop is made, by its name, and the sentence says what names are; a plain function takes any."""
    reads = Tool(name, "Read.", {"type": "object"}, lambda: "text")
    schema = {"name": name, "description": "Read.", "input_schema": {"type": "object"}}
    acts: list[Callable[[], object]] = [
        lambda: Loop("go", tools=[reads], wire=wire, at=0.0),
        lambda: wire.offer([schema]),
        lambda: wire.encode(History(), [ADD, schema]),
    ]
    for act in acts:
        if wire is PLAIN or wire in OFFERED[name]:
            act()
            continue
        with pytest.raises(ValueError, match="tools") as refusal:
            act()
        assert str(refusal.value) == f"tools: {wire.name} takes no tool named {name!r}; a name there is {RULES[wire]}"


@every_provider
@pytest.mark.parametrize("name", ["", "a b", "read\n", 5, None, ["read"]])
def test_a_name_that_no_tool_can_have_is_offered_to_nobody(wire: Wire, name: Any) -> None:
    """It is refused in the same words."""
    with pytest.raises(ValueError, match="tools") as refusal:
        wire.offer([ADD | {"name": name}])
    assert str(refusal.value) == f"tools: {wire.name} takes no tool named {name!r}; a name there is {RULES[wire]}"


@every_provider
def test_no_numbers_in_a_reply_go_back_as_null(wire: Wire) -> None:
    """Beside a call and in a text: a client can send what comes of it, and the arguments are those that were asked."""
    reply = REPLIES[wire]("So.", 1, "STOP" if wire is GEMINI else None)
    calls = asked_in(wire, reply)
    calls[0]["odd"] = {"logprobs": [-math.inf, 1.5, None]}
    told = json.dumps(reply).replace('"So."', '"So.", "odd": NaN, "more": [Infinity]')
    seen: list[Any] = []

    def model(messages: Any) -> Any:
        seen.append(json.loads(json.dumps(list(messages), allow_nan=False)))
        return json.loads(told) if len(seen) == 1 else REPLIES[wire]("Done.", 0, None)

    ran: list[int] = []

    def add(a: int) -> None:
        ran.append(a)

    adds = Tool("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}}}, add)
    result = run(model, "go", tools=[adds], wire=wire)
    assert (result.status, ran, refused(wire, seen[1])) == ("answered", [0], "")
    assert ("-Infinity" in str(seen), '"logprobs": [null, 1.5, null]' in json.dumps(seen[1])) == (False, True)


@every_wire
def test_arguments_that_are_no_json_are_no_arguments_still(wire: Wire) -> None:
    """NaN among them is answered, and not made null: the tool is not called."""
    reply = REPLIES[wire]("", 1, None)
    (asked,) = [one.get("function", one) for one in asked_in(wire, reply)]
    field = next(one for one in ("arguments", "input", "args") if one in asked)
    asked[field] = '{"a": NaN}' if isinstance(asked[field], str) else {"a": math.nan}
    replies = iter([reply, REPLIES[wire]("Done.", 0, None)])
    ran: list[Any] = []
    adds = Tool("add", "Add.", {"type": "object"}, lambda **given: ran.append(given))
    result = run(lambda messages: next(replies), "go", tools=[adds], wire=wire)
    assert (ran, [one["outcome"] for one in result.history if one["kind"] == "tool_result"]) == (
        [],
        ["invalid_arguments"],
    )


@pytest.mark.parametrize("entry", [UserMessage("hi"), Note("hi")], ids=["user", "note"])
@every_provider
def test_users_and_notes_speak_as_the_user(wire: Wire, entry: Entry) -> None:
    """On the providers' wires a user message and a note are both messages of the user."""
    said = {"parts": [{"text": "hi"}]} if wire is GEMINI else {"content": "hi"}
    assert sent(wire, entry) == [{"role": "user"} | said]


@every_provider
@pytest.mark.parametrize(
    "entry", [UserMessage(" "), Note(""), Final(Turn("\n"))], ids=lambda entry: type(entry).__name__
)
def test_what_says_nothing_is_not_sent(wire: Wire, entry: Entry) -> None:
    """A server would refuse it, so encoding does, by its name."""
    with pytest.raises(ValueError, match=f"a {type(entry).__name__} of a history must say something, and this one is"):
        sent(wire, entry)


# --- what a turn is -------------------------------------------------------------------------------------

#: Why it stopped, for each thing a reason may claim, with (text and calls, calls, text, neither).
WHAT_A_TURN_IS: dict[tuple[str | None, ...], tuple[str, str, str, str]] = {
    (None, "", "new_reason", "FINISH_REASON_UNSPECIFIED"): ("calls", "calls", "final", "malformed"),
    ("stop", "end_turn", "stop_sequence", "completed", "final", "STOP"): ("calls", "calls", "final", "malformed"),
    ("tool_calls", "tool_use", "function_call", "calls"): ("calls", "calls", "malformed", "malformed"),
    (
        "length",
        "max_tokens",
        "max_output_tokens",
        "model_context_window_exceeded",
        "MAX_TOKENS",
        "CONTINUATION",
        "incomplete",
        "max_messages",
        "steered",
    ): ("truncated", "truncated", "truncated", "truncated"),
    (
        "content_filter",
        "refusal",
        "safety",
        "SAFETY",
        "recitation",
        "blocklist",
        "prohibited_content",
        "spii",
        "image_safety",
        "language",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "MODEL_ARMOR",
        "ESCALATION",
        "PUP_LIMITED_DISABLED",
        "JAILBREAK",
        "BLOCKED_REASON_UNSPECIFIED",
    ): ("refused", "refused", "refused", "refused"),
    (
        "malformed_function_call",
        "MALFORMED_FUNCTION_CALL",
        "unexpected_tool_call",
        "malformed_response",
        "TOO_MANY_TOOL_CALLS",
        "MISSING_THOUGHT_SIGNATURE",
        "NO_IMAGE",
        "OTHER",
        "IMAGE_OTHER",
        "failed",
        "cancelled",
        "in_progress",
        "queued",
    ): ("malformed", "malformed", "malformed", "malformed"),
}
HOLDS = (("hm", 2), ("", 1), ("hm", 0), (" \n", 0))


@every_wire
def test_what_a_turn_is(wire: Wire) -> None:
    """The table of what a turn is gives the same on every wire, for every stop reason and all that a turn holds."""
    expected, found = {}, {}
    for stops, kinds in WHAT_A_TURN_IS.items():
        for stop in stops:
            turns = [wire.decode(REPLIES[wire](text, calls, stop)) for text, calls in HOLDS]
            expected[stop] = [(kind, stop or "", kind == "malformed") for kind in kinds]
            found[stop] = [(turn.kind, turn.stop, bool(turn.fault)) for turn in turns]
    assert found == expected


@every_wire
def test_calls_of_an_aborted_turn_are_not_read(wire: Wire) -> None:
    """What was cut, refused or broken keeps its text and has no calls."""
    stops = ("length", "SAFETY", "refusal", "malformed_response")
    turns = [wire.decode(REPLIES[wire]("I will", 2, stop)) for stop in stops]
    assert [(turn.text, turn.calls, turn.fault) for turn in turns] == [
        ("I will", (), ""),
        ("I will", (), ""),
        ("I will", (), ""),
        ("I will", (), "the provider stopped it: malformed_response"),
    ]


# --- from one wire to another ---------------------------------------------------------------------------


def test_a_turn_of_another_wire_is_sent_from_its_text_and_calls() -> None:
    """A history decoded by one wire is sent by another: text, calls and results stay, the payload does not."""
    turn = Turn("Two things.", (Call("c1", "add", '{"a": 1}'), Call("c2", "add", "{", place=1)), "stop", None, "5", "x")
    entries = (exchange(turn, ("ok", "1"), ("failed", "no")), Final(Turn("Done.")))
    chat_calls = [
        {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}},
        {"id": "c2", "type": "function", "function": {"name": "add", "arguments": "{}"}},
    ]
    blocks = [
        {"type": "text", "text": "Two things."},
        {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
        {"type": "tool_use", "id": "c2", "name": "add", "input": {}},
    ]
    results = [
        {"type": "tool_result", "tool_use_id": "c1", "content": "1", "is_error": False},
        {"type": "tool_result", "tool_use_id": "c2", "content": "no", "is_error": True},
    ]
    assert {wire.name: sent(wire, *entries) for wire in WIRES.values()} == {
        "plain": [
            {"kind": "text", "text": "Two things."},
            {"kind": "call", "id": "c1", "name": "add", "arguments": {"a": 1}},
            {"kind": "call", "id": "c2", "name": "add", "arguments": {}},
            {"kind": "tool_result", "id": "c1", "content": "1", "outcome": "ok"},
            {"kind": "tool_result", "id": "c2", "content": "no", "outcome": "failed"},
            {"kind": "final", "text": "Done."},
        ],
        "anthropic": [
            {"role": "assistant", "content": blocks},
            {"role": "user", "content": results},
            {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
        ],
        "openai-chat": [
            {"role": "assistant", "content": "Two things.", "tool_calls": chat_calls},
            {"role": "tool", "tool_call_id": "c1", "content": "1"},
            {"role": "tool", "tool_call_id": "c2", "content": "no"},
            {"role": "assistant", "content": "Done."},
        ],
        "openai-responses": [
            {"role": "assistant", "content": "Two things."},
            {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 1}'},
            {"type": "function_call", "call_id": "c2", "name": "add", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "1"},
            {"type": "function_call_output", "call_id": "c2", "output": "no"},
            {"role": "assistant", "content": "Done."},
        ],
        "gemini": [
            {
                "role": "model",
                "parts": [
                    {"text": "Two things."},
                    {
                        "functionCall": {"name": "add", "args": {"a": 1}},
                        "thoughtSignature": "skip_thought_signature_validator",
                    },
                    {"functionCall": {"name": "add", "args": {}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "add", "response": {"result": "1"}}},
                    {"functionResponse": {"name": "add", "response": {"error": "no"}}},
                ],
            },
            {"role": "model", "parts": [{"text": "Done."}]},
        ],
    }


@pytest.mark.parametrize(("source", "wire"), list(permutations(WIRES.values(), 2)), ids=repr)
def test_only_the_wire_that_decoded_it_sends_a_payload(source: Wire, wire: Wire) -> None:
    """A turn that came over a wire goes over another as one that was made by hand."""
    turn = source.decode(REPLIES[source]("hm", 2, None))
    by_hand = attrs.evolve(turn, payload_text=None, wire="")
    answers = (("ok", "1"), ("ok", "2"))
    assert sent(wire, exchange(turn, *answers)) == sent(wire, exchange(by_hand, *answers))


@every_provider
@pytest.mark.parametrize(
    ("error", "said"),
    [
        ({"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Slow down"}, "RESOURCE_EXHAUSTED: Slow down"),
        ({"code": "rate_limit_exceeded", "message": "Slow down"}, "rate_limit_exceeded: Slow down"),
        ({"type": "overloaded_error", "message": "Overloaded"}, "overloaded_error: Overloaded"),
        ({"message": "bad key", "code": None}, "bad key"),
        ("no such model", "no such model"),
        ({}, None),
    ],
)
def test_an_error_in_the_place_of_a_reply_is_told_in_its_words(wire: Wire, error: Any, said: str | None) -> None:
    """It can't be used, and the fault says what a model does with it."""
    turn = wire.decode({"type": "error", "error": error})
    told = f"error: the provider answered with an error, for which a model raises ModelError: {said}"
    assert (turn.kind, turn.fault == told) == ("malformed", said is not None)
