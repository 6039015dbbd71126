"""wire_server refuses what the providers refuse, with a sentence that names the field, and nothing that they accept."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from loopmachine import Budget, Policy, run
from loopmachine.testing import ScriptedModel, StreamScript, call, calls, thinking, wire_server
from loopmachine.wire import ANTHROPIC, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES, Wire
from tests.refusals import MESSAGES, TOOL, body_of, refusal
from tests.test_testing_model import look
from tests.test_testing_server import ASKS, ask
from tests.test_wire_base import deep
from tests.test_wire_requests import SPOILED, valid

Body = dict[str, Any]
every_wire = pytest.mark.parametrize("wire", ASKS, ids=str)


@every_wire
def test_what_a_run_sends_is_accepted(wire: Wire) -> None:
    """Calls with results of every kind, arguments that are no JSON, unknown tools, blank texts, and a second run."""
    first = call("c1", "look", "{}" if wire is GEMINI else '{"n": ')
    turns = [calls(first, call("c2", "nope"), text=" "), calls(call("c3", "look", n=1)), "Done.", "Done again."]
    model = ScriptedModel(*turns, wire=wire)
    options: dict[str, Any] = {"tools": [look], "wire": wire, "policy": Policy(wrap_up=True)}
    result = run(model, "go", **options)
    run(model, "on", history=result.history, budget=Budget(max_steps=1), **options)
    model.assert_used_up()
    said = [refusal(wire, body_of(wire, one.messages), "gemini-3-pro") for one in model.seen]
    assert said == [""] * 4


BORNE = (OPENAI_CHAT, "null")  #: which the provider takes and other servers of its API refuse, so that no wire sends it
SPOILS = [(wire, what) for wire in ASKS for what in SPOILED[wire] if (wire, what) != BORNE]


@pytest.mark.parametrize(("wire", "what"), SPOILS, ids=str)
def test_what_spoils_a_request_of_the_wires_is_refused(wire: Wire, what: str) -> None:
    """The faults that no wire may produce are those that the server finds, but for what the provider bears."""
    messages = valid(wire)
    accepted = refusal(wire, body_of(wire, messages))
    messages = copy.deepcopy(messages)
    SPOILED[wire][what](messages)
    assert (accepted, refusal(wire, body_of(wire, messages)) != "") == ("", True)


def part(field: str, **told: Any) -> Body:
    """A content of Gemini with one part."""
    return {"role": "user" if field == "functionResponse" else "model", "parts": [{field: told}]}


USER = {"role": "user", "content": "go"}
SIGNED = {"type": "thinking", "thinking": "Hm."}
USES = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "a"}
FUNCTION = {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"}
ANSWER = {"name": "look", "response": {}}
OUTPUT = {"type": "function_call_output", "call_id": "a", "output": "1"}
ASKED = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
ASSISTANT = {"role": "assistant", "content": ""}
CUSTOM = {"id": "a", "type": "custom", "custom": {"name": "sql", "input": ""}}


def said(*blocks: Body, role: str = "assistant") -> Body:
    """A message of Anthropic."""
    return {"role": role, "content": list(blocks)}


def with_results(*blocks: Body, **result: Any) -> Body:
    """A request of Anthropic whose call is answered so."""
    return {"messages": [USER, said(USES), said(RESULT | result, *blocks, role="user")]}


TWICE = {"messages": [USER, said(USES), said(RESULT, role="user")] * 2, "tools": [TOOL]}
IMAGE = {"type": "image", "source": {}}
#: What is put into a valid request of each wire, and the sentence that it is refused with.
EMPTY: list[Any] = [None, "", []]
REFUSED: list[tuple[Wire, Body, str]] = [
    (OPENAI_CHAT, {"model": ""}, "model: it is blank"),
    (OPENAI_CHAT, {"messages": []}, "messages: it is empty"),
    (OPENAI_CHAT, {"messages": 5}, "messages: it must be a list of messages, not int"),
    (OPENAI_CHAT, {"messages": [{"role": "oops"}]}, "messages[0].role: it must be one of system, developer, user, ass"),
    (OPENAI_CHAT, {"messages": [{"role": "user", "content": [{}]}]}, "messages[0].content[0].type: it is missing"),
    (
        OPENAI_CHAT,
        {"messages": [ASSISTANT | {"tool_calls": None}]},
        "messages[0].tool_calls: it must be a list",
    ),
    (OPENAI_CHAT, {"messages": [ASSISTANT | {"tool_calls": [{"id": "a"}]}]}, "messages[0].tool_calls[0].type: it must"),
    (
        OPENAI_CHAT,
        {"messages": [ASSISTANT | {"tool_calls": [CUSTOM | {"custom": {"name": "sql"}}]}]},
        "messages[0].tool_calls[0].custom.input: it is missing",
    ),
    (OPENAI_CHAT, {"messages": [ASSISTANT]}, "messages[0].content: it is blank"),
    (
        OPENAI_CHAT,
        {"messages": [ASSISTANT | {"refusal": "No.", "content": None}]},
        "messages[0].content: it is missing",
    ),
    (
        OPENAI_CHAT,
        {"messages": [ASSISTANT | {"tool_calls": [ASKED], "content": 5}]},
        "messages[0].content: it must be a string, not int",
    ),
    (
        OPENAI_CHAT,
        {"messages": [{"role": "user", "content": None, "tool_calls": [ASKED]}]},
        "messages[0].content: it is missing",
    ),
    (OPENAI_CHAT, {"messages": [{"role": "assistant", "content": None}]}, "messages[0].content: it is missing"),
    (OPENAI_CHAT, {"messages": [{"role": "tool", "tool_call_id": "a"}]}, "messages[0].content: it is missing"),
    (OPENAI_CHAT, {"messages": [{"role": "tool", "content": "1"}]}, "messages[0].tool_call_id: it is missing"),
    (OPENAI_CHAT, {"messages": [USER, ASSISTANT | {"tool_calls": [ASKED]}]}, "messages[1]: the call 'a' (look) has no"),
    (OPENAI_CHAT, {"tools": []}, "tools: it is empty"),
    (OPENAI_CHAT, {"tools": [{"type": "other"}]}, "tools[0].type: it must be 'function' or 'custom'"),
    (OPENAI_CHAT, {"tools": [{"type": "custom"}]}, "tools[0].custom: it must be an object, not null"),
    (OPENAI_CHAT, {"tools": [{"type": "custom", "custom": {}}]}, "tools[0].custom.name: it is missing"),
    (
        OPENAI_CHAT,
        {"tools": [{"type": "custom", "custom": {"name": "s" * 65}}]},
        "tools[0].custom.name: it must be 1 to 64 letters, digits, _ and -, not 'sss",
    ),
    (
        OPENAI_CHAT,
        {"messages": [ASSISTANT | {"tool_calls": [CUSTOM | {"custom": {"name": "s" * 65, "input": ""}}]}]},
        "messages[0].tool_calls[0].custom.name: it must be 1 to 64 letters, digits, _ and -, not 'sss",
    ),
    (OPENAI_CHAT, {"tools": [{"type": "function"}]}, "tools[0].function: it must be an object, not null"),
    (OPENAI_CHAT, {"tools": None, "tool_choice": "none"}, "tool_choice: it is only allowed where tools are given"),
    (OPENAI_RESPONSES, {"model": None}, "model: it is missing"),
    (OPENAI_RESPONSES, {"input": ""}, "input: it is blank"),
    (OPENAI_RESPONSES, {"input": [{"type": ""}]}, "input[0].type: it is blank"),
    (OPENAI_RESPONSES, {"input": [{"role": "tool", "content": "x"}]}, "input[0].role: it is unknown"),
    (OPENAI_RESPONSES, {"input": [{"role": "user", "content": [{}]}]}, "input[0].content[0].type: it is missing"),
    (OPENAI_RESPONSES, {"input": [{"type": "reasoning"}]}, "input[0].summary: it must be a list"),
    (
        OPENAI_RESPONSES,
        {"input": [{"type": "custom_tool_call", "call_id": "a", "name": "w"}]},
        "input[0].input: it is",
    ),
    (
        OPENAI_RESPONSES,
        {"input": [{"type": "custom_tool_call", "call_id": "a", "name": "w" * 65, "input": ""}]},
        "input[0].name: it must be 1 to 64 letters",
    ),
    (OPENAI_RESPONSES, {"input": [FUNCTION, OUTPUT | {"output": 1}]}, "input[1].output: it must be a string, not int"),
    (OPENAI_RESPONSES, {"input": [OUTPUT]}, "input[0]: the result 'a' answers no call that waits for one"),
    (OPENAI_RESPONSES, {"tools": [{"type": "function", "function": {}}]}, "tools[0]: its fields stand in itself"),
    (
        OPENAI_RESPONSES,
        {"tools": [{"type": "function", "name": "a b"}]},
        "tools[0].name: it must be 1 to 64 letters, digits, _ and -, not 'a b'",
    ),
    (ANTHROPIC, {"max_tokens": None}, "max_tokens: it is required, a whole number"),
    (
        ANTHROPIC,
        {"messages": [{"role": "system", "content": "x"}]},
        "messages[0].role: the first message must",
    ),
    (ANTHROPIC, {"messages": [USER, {"role": "system", "content": "x"}]}, "messages[1].role: it must be user or assis"),
    (ANTHROPIC, {"messages": [{"role": "user", "content": " "}]}, "messages[0].content: it is blank"),
    (ANTHROPIC, {"messages": [USER, said({})]}, "messages[1].content[0].type: it is missing"),
    (ANTHROPIC, {"messages": [USER, said(SIGNED)]}, "messages[1].content[0].signature: it is missing"),
    (ANTHROPIC, {"messages": [said(USES, role="user")]}, "messages[0].content[0].type: only the assistant uses tools"),
    (ANTHROPIC, {"messages": [USER, said(RESULT)]}, "messages[1].content[0].type: only the user brings results"),
    (ANTHROPIC, with_results(content=5), "messages[2].content[0].content: it must be a string, not int"),
    (ANTHROPIC, with_results(content=[{"type": "text", "text": ""}]), "messages[2].content[0].content[0].text: it is "),
    (ANTHROPIC, with_results(content=[IMAGE], is_error=True), "messages[2].content[0].content[0].type: an error holds"),
    *(
        (
            ANTHROPIC,
            with_results(content=content, is_error=True),
            "messages[2].content[0].content: it can't be empty where is_error is true",
        )
        for content in EMPTY
    ),
    (ANTHROPIC, with_results() | {"tools": []}, "tools: they are required where the messages hold tool_use blocks"),
    (ANTHROPIC, {"tools": [], "tool_choice": {"type": "none"}}, "tool_choice: it may only come with tools"),
    (ANTHROPIC, {"tools": [{"name": "look"}]}, "tools[0].input_schema: it must be an object, not null"),
    (ANTHROPIC, TWICE, "messages: the ids of tool_use blocks must be unique"),
    (GEMINI, {"contents": [{"role": "tool"}]}, "contents[0].role: it must be user or model"),
    (GEMINI, {"contents": [{"parts": [{"thought": True}]}]}, "contents[0].parts[0]: it holds no data"),
    (GEMINI, {"contents": [{"parts": [{"thoughtSignature": ""}]}]}, "contents[0].parts[0]: it holds no data"),
    (GEMINI, {"contents": [{"parts": [{"text": ""}]}]}, "contents[0].parts[0].text: it is empty"),
    (GEMINI, {"contents": [part("functionCall", name="look")]}, "contents[0]: calls must follow something of the user"),
    (
        GEMINI,
        {"contents": [part("functionResponse", name="l")]},
        "contents[0].parts[0].functionResponse.response",
    ),
    (GEMINI, {"tools": [{"functionDeclarations": 5}]}, "tools[0]: it must be a list of declarations, not int"),
    (
        GEMINI,
        {"tools": [{"functionDeclarations": [{"name": "a b"}]}]},
        "tools[0].functionDeclarations[0].name: it",
    ),
    *(
        (
            GEMINI,
            {"tools": [{"functionDeclarations": [{"name": "look", field: 5}]}]},
            f"tools[0].functionDeclarations[0].{says}: it must be an object, not int",
        )
        for field, says in (
            ("parameters", "parameters"),
            ("parametersJsonSchema", "parametersJsonSchema"),
            ("parameters_json_schema", "parametersJsonSchema"),
        )
    ),
]


@pytest.mark.parametrize(("wire", "change", "says"), REFUSED, ids=[one[2] for one in REFUSED])
def test_what_is_refused_is_told_by_its_field(wire: Wire, change: Body, says: str) -> None:
    """With what would have been right."""
    assert refusal(wire, ASKS[wire][1] | change).startswith(says)


@pytest.mark.parametrize(
    ("wire", "change"),
    [
        (OPENAI_CHAT, {"messages": [{"role": "user", "content": [{"type": "text", "text": "go"}]}], "tools": None}),
        (
            OPENAI_CHAT,
            {
                "messages": [
                    USER,
                    ASSISTANT | {"tool_calls": [CUSTOM]},
                    {"role": "tool", "tool_call_id": "a", "content": "1"},
                    ASSISTANT | {"refusal": "No."},
                ],
                "tools": [{"type": "custom", "custom": {"name": "sql"}}],
            },
        ),
        *(
            (
                OPENAI_CHAT,
                {
                    "messages": [
                        USER,
                        {"role": "assistant", "tool_calls": [ASKED], **content},
                        {"role": "tool", "tool_call_id": "a", "content": "1"},
                    ]
                },
            )
            for content in ({"content": None}, {})
        ),
        (OPENAI_RESPONSES, {"input": [{"type": "web_search_call", "action": None}, USER], "tools": [{"type": "web"}]}),
        (OPENAI_RESPONSES, {"input": [FUNCTION, OUTPUT | {"output": []}]}),
        (ANTHROPIC, with_results({"type": "text", "text": "Go on."}, content=[IMAGE]) | {"tools": [TOOL]}),
        (ANTHROPIC, with_results(content="") | {"tools": [TOOL]}),
        (ANTHROPIC, with_results(content="No.", is_error=True) | {"tools": [TOOL]}),
        (
            ANTHROPIC,
            {"messages": [USER, said(SIGNED | {"signature": "x"}, {"type": "other"})]},
        ),
        (GEMINI, {"tools": [{"googleSearch": {}}, {"functionDeclarations": [{"name": "a.b:c", "parameters": {}}]}]}),
        (GEMINI, {"contents": [{"parts": [{"inlineData": {}}]}], "tools": []}),
        (GEMINI, {"contents": [{"parts": [{"text": "", "thoughtSignature": "c2ln"}, {"thoughtSignature": "c2ln"}]}]}),
    ],
)
def test_what_providers_accept_is_accepted(wire: Wire, change: Body) -> None:
    """Parts, images, what the server itself made, and what follows results."""
    assert refusal(wire, ASKS[wire][1] | change) == ""


SAID = [
    StreamScript("It is."),
    StreamScript(call("c1", "look")),
    StreamScript(call("c1", "look"), call("c2", "look", n=1)),
    StreamScript(thinking("Hm."), "Let me look.", call("c1", "look")),
]


#: Of each wire what the user says first, the messages that a reply is sent back as, and those that answer calls.
SENT_BACK: dict[Wire, tuple[Body, Callable[[Any], list[Body]], Callable[[list[str]], list[Body]]]] = {
    OPENAI_CHAT: (
        USER,
        lambda reply: [reply["choices"][0]["message"]],
        lambda asked: [{"role": "tool", "tool_call_id": own, "content": "1"} for own in asked],
    ),
    OPENAI_RESPONSES: (
        USER,
        lambda reply: reply["output"],
        lambda asked: [OUTPUT | {"call_id": own} for own in asked],
    ),
    ANTHROPIC: (
        USER,
        lambda reply: [said(*reply["content"])],
        lambda asked: [said(*(RESULT | {"tool_use_id": own} for own in asked), role="user")],
    ),
    GEMINI: (
        {"role": "user", "parts": [{"text": "go"}]},
        lambda reply: [reply["candidates"][0]["content"]],
        lambda asked: [{"parts": [{"functionResponse": ANSWER | {"id": own}} for own in asked]}],
    ),
}


@pytest.mark.parametrize("script", SAID, ids=repr)
@every_wire
def test_what_the_server_said_may_be_sent_back_to_it(wire: Wire, script: StreamScript) -> None:
    """Word for word as it came in one body, its calls answered, nothing of it is refused."""
    with wire_server(script) as server:
        reply = ask(server, wire).json
    asked = [piece[1] for piece in script.items if piece[0] == "call"]
    begun, own, answers = SENT_BACK[wire]
    messages = [begun, *own(reply), *(answers(asked) if asked else [])]
    assert refusal(wire, body_of(wire, messages), "gemini-3-pro") == ""


#: What each provider says of the names it takes; the longest of them and others; names that it does not take.
NAMES: dict[Wire, tuple[str, list[str], list[str]]] = {
    OPENAI_CHAT: (
        "1 to 64 letters, digits, _ and -",
        ["aZ9_" * 16, "9", "-a"],
        ["a" * 65, "a.b", "a:b", "é", "", "a\n"],
    ),
    ANTHROPIC: ("1 to 128 letters, digits, _ and -", ["aZ9-" * 32, "9", "-a"], ["a" * 129, "a.b", "a:b", "é", ""]),
    GEMINI: (
        "1 to 128 letters, digits, _ . : and -, the first a letter or _",
        ["aZ9-" * 32, "_.:-", "a.b:c"],
        ["a" * 129, "9", "-a", ".a", ":a", "é", "a b", ""],
    ),
}
NAMES[OPENAI_RESPONSES] = NAMES[OPENAI_CHAT]


@pytest.mark.parametrize("renamed", ["look", "add"], ids=["a tool", "calls"])
@every_wire
def test_a_name_is_refused_where_the_provider_does_not_take_it(wire: Wire, renamed: str) -> None:
    """Of a tool, and of calls in the messages, each provider by its own rule, which is told."""
    rule, taken, others = NAMES[wire]
    written = json.dumps(body_of(wire, valid(wire)))

    def of(name: str) -> str:
        return refusal(wire, json.loads(written.replace(json.dumps(renamed), json.dumps(name))))

    assert [of(name) for name in taken] == [""] * len(taken)
    told = [of(name).partition(".name: ") for name in others]
    assert [says for _, _, says in told] == [f"it must be {rule}, not {name!r}" for name in others]


@pytest.mark.parametrize(("model", "says"), [("gemini-2.5-pro", ""), ("gemini-3-pro", "contents[1].parts[1].")])
def test_gemini_3_wants_its_signature_back(model: str, says: str) -> None:
    """On the first call of a turn, which those before it do not mind."""
    functions = [{"functionCall": {"name": "look"}}, {"functionCall": {"name": "look"}}]
    answers = [{"functionResponse": {"name": "look", "response": {}}}] * 2
    contents = [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [{"text": "Hm."}, *functions]},
        {"role": "user", "parts": answers},
    ]
    refused = refusal(GEMINI, {"contents": contents}, model)
    assert refused[: len(says)] == says


@every_wire
def test_a_request_that_is_refused_takes_no_reply(wire: Wire) -> None:
    """The server answers 400 with the sentence, in the provider's shape, and keeps it."""
    broken: Body = {MESSAGES[wire]: []}
    with wire_server("It.") as server:
        first, second = ask(server, wire, **broken), ask(server, wire)
    assert (first.status, second.status) == (400, 200)
    sentence = f"{MESSAGES[wire]}: it is empty"
    assert (first.json["error"]["message"], server.refused) == (sentence, [sentence])


@every_wire
@pytest.mark.parametrize("levels", [99, 100, 600])
def test_a_request_that_nests_deep_is_answered(wire: Wire, levels: int) -> None:
    """Google refuses a content of more than 100 levels, with a sentence; none of them breaks the server."""
    messages = valid(wire)
    messages[0]["odd"] = deep(levels)
    too_deep = ["contents[0]: lists and objects nest deeper than 100 levels"] if wire is GEMINI and levels > 99 else []
    with wire_server("It.") as server:
        answer = ask(server, wire, **body_of(wire, messages))
    assert (answer.status, server.refused) == (400 if too_deep else 200, too_deep)


NONSENSE: list[Any] = [None, 5, "x", [], [5], [None], {}, [{}], [[]], {"x": []}]


@every_wire
@pytest.mark.parametrize("value", NONSENSE, ids=repr)
def test_nonsense_is_refused_and_nothing_else(wire: Wire, value: Any) -> None:
    """In whatever place of a valid request it stands, the server survives it."""
    body = body_of(wire, valid(wire))
    for path in paths(body):
        spoiled = copy.deepcopy(body)
        inside: Any = spoiled
        for step in path[:-1]:
            inside = inside[step]
        inside[path[-1]] = value
        assert isinstance(refusal(wire, spoiled), str)


def paths(value: Any) -> list[tuple[Any, ...]]:
    """The paths to all that is in a JSON value."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(step, *more) for step, inner in steps for more in [(), *paths(inner)]]
