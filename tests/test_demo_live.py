"""The ticket demo against a server, through the command line and the real SDKs."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from loopmachine import cli
from loopmachine.demo import SYSTEM
from loopmachine.demo_live import WIRES
from loopmachine.testing import CUT, ProviderError, StreamScript, call, wire_server

READ = call("a", "get_ticket", ticket_id="T-1")
PROPOSED = call("b", "propose_label", ticket_id="T-1", label="billing", expected_version=3)
SAID = "I proposed billing."
#: By what --wire names: what the stop reasons of calls and of an answer are called.
STOPS = {
    "openai-chat": ("tool_calls", "stop"),
    "openai-responses": ("completed", "completed"),
    "anthropic": ("tool_use", "end_turn"),
    "gemini": ("STOP", "STOP"),
}
TEMPLATE = (
    "start the server with a chat template that has tools (llama-server --jinja; "
    "vllm serve --enable-auto-tool-choice --tool-call-parser NAME), or take a model that was trained to call tools"
)
Told = pytest.CaptureFixture[str]
every_wire = pytest.mark.parametrize("wire", WIRES)
every_stream = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key is in the environment."""
    for _, variable in WIRES.values():
        monkeypatch.delenv(variable, raising=False)


def demo(url: str, wire: str = "openai-chat", stream: bool = False, *more: str) -> int:
    """Run the command; its exit code."""
    streamed = ["--stream"] if stream else []
    return cli.main(["demo", "--base-url", url, "--model", "m1", "--wire", wire, *streamed, *more])


def served(*script: Any, wire: str = "openai-chat", stream: bool = False) -> tuple[int, str]:
    """The exit code of the command against a server that gives all these replies, and the server's URL."""
    with wire_server(*script) as server:
        code = demo(server.url, wire, stream)
        server.assert_used_up()
    return code, server.url


@pytest.fixture
def nowhere() -> Iterator[str]:
    """A URL at which nothing listens: its port is held, so that nobody else takes it."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


# --- runs that come about -----------------------------------------------------------------------------------


@every_stream
@every_wire
def test_a_ticket_is_labelled_over_every_wire(wire: str, stream: bool, capsys: Told) -> None:
    """The whole run is printed, with the database's own word on it, and the exit code is 0."""
    code, url = served(READ, PROPOSED, SAID, wire=wire, stream=stream)
    told = capsys.readouterr()
    calls, final = STOPS[wire]
    spent = "steps 3 of 8, calls 2, seconds S, cost_usd 0.0, tokens 45, 3 without cost"
    assert (code, told.err, re.sub(r"seconds [\d.]+", "seconds S", told.out).splitlines()) == (
        0,
        "",
        [
            f"Asking m1 at {url} over {wire}{', streamed' if stream else ''}",
            "",
            'Trace of "Label ticket T-1."',
            "============================",
            f"step 1  calls ({calls})",
            "  get_ticket(ticket_id='T-1') -> ok: "
            '{"ticket_id":"T-1","text":"I was charged twice for my March invoice.","version":3}',
            f"step 2  calls ({calls})",
            "  propose_label(ticket_id='T-1', label='billing', expected_version=3) -> ok: "
            '{"applied":false,"next":"A person will d...',
            f"step 3  final ({final}): {SAID}",
            "stop: answered",
            "tools: get_ticket, propose_label; failed: 0",
            f"spent: {spent}",
            "",
            "finished_answered, by validating/8 [turn_final] held: "
            "The turn is an answer: text that is not blank, and no calls.",
            spent,
            f"the last turn was final, its stop reason '{final}'",
            "",
            "the database counts 2 executions and 1 proposals; its tickets are unchanged",
            "",
        ],
    )


def test_what_is_sent_is_the_demo_s_own(capsys: Told) -> None:
    """The prompt, the system text, both tools, the model's name, that it is to be streamed, and a word for a key."""
    with wire_server(SAID) as server:
        demo(server.url, stream=True)
    (request,) = server.requests
    body = request.body
    assert (
        body["messages"],
        [one["function"]["name"] for one in body["tools"]],
        body["model"],
        body["stream"],
        request.headers["authorization"],
    ) == (
        [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Label ticket T-1."}],
        ["get_ticket", "propose_label"],
        "m1",
        True,
        "Bearer none",
    )


@pytest.mark.parametrize(
    ("script", "end"),
    [
        ([ProviderError(429), ProviderError(503), SAID], "answered"),
        ([" ", SAID], "answered"),
        ([" ", " "], "malformed"),
        ([StreamScript("I pro", stop="length")], "incomplete"),
        ([StreamScript(stop="content_filter")], "refused"),
        ([call(f"c{n}", "get_ticket", ticket_id="T-1") for n in range(8)], "step_budget"),
        ([READ, READ], "repeated_call"),
    ],
)
def test_a_run_that_a_rule_ends_is_a_success(script: list[Any], end: str, capsys: Told) -> None:
    """Two failures in a row are borne and one reply that can't be used; there are eight steps."""
    code, _ = served(*script)
    told = capsys.readouterr()
    assert (code, told.err, re.findall("^stop: (.*)", told.out, re.MULTILINE)) == (0, "", [end])


# --- runs that do not ---------------------------------------------------------------------------------------


@every_stream
@every_wire
def test_a_server_that_is_not_there_is_asked_for(wire: str, stream: bool, nowhere: str, capsys: Told) -> None:
    """After three tries: is it running, and where."""
    code = demo(nowhere, wire, stream)
    told = capsys.readouterr()
    assert (code, told.out.count("failed: connection_error"), told.err) == (
        1,
        3,
        f"loopmachine: nothing answers at {nowhere}: is the server running, and is this the URL that it listens at?\n",
    )


def test_a_server_that_answers_too_late_is_one_that_is_not_there(capsys: Told) -> None:
    """A gateway says the same of the server behind it."""
    code, url = served(*[ProviderError(504, code="timeout")] * 3)
    wanted = f"loopmachine: nothing answers at {url}: is the server running, and is this the URL that it listens at?\n"
    assert (code, capsys.readouterr().err) == (1, wanted)


@pytest.mark.parametrize("status", [401, 403])
@every_stream
@every_wire
def test_a_key_that_is_missing_is_asked_for(wire: str, stream: bool, status: int, capsys: Told) -> None:
    """The sentence names the variable that the wire's key is read from; nothing is asked twice."""
    code, url = served(ProviderError(status), wire=wire, stream=stream)
    assert (code, capsys.readouterr().err) == (
        1,
        f"loopmachine: the server at {url} wants a key: put it in the environment variable {WIRES[wire][1]}, "
        "or name another variable with --api-key-env\n",
    )


@pytest.mark.parametrize("named", [False, True])
@every_wire
def test_a_key_that_is_wrong_is_asked_for(
    wire: str, named: bool, monkeypatch: pytest.MonkeyPatch, capsys: Told
) -> None:
    """The sentence names the variable that it came from, the usual one or another; the key was sent without space."""
    variable = "MY_KEY" if named else WIRES[wire][1]
    monkeypatch.setenv(variable, " secret\n")
    with wire_server(ProviderError(401, "no")) as server:
        code = demo(server.url, wire, False, *(["--api-key-env", variable] if named else []))
    (request,) = server.requests
    sent = request.headers.get("authorization", request.headers.get("x-goog-api-key", ""))
    told = capsys.readouterr()
    assert (code, sent.removeprefix("Bearer "), "secret" in told.out + told.err, told.err) == (
        1,
        "secret",
        False,
        f"loopmachine: the server at {server.url} refused the key: put the right one in the environment variable "
        f"{variable}, or name another variable with --api-key-env\n",
    )


@pytest.mark.parametrize(
    "error",
    [
        ProviderError(400, "API key not valid. Please pass a valid API key.", code="INVALID_ARGUMENT"),
        ProviderError(401, "You must give one.", code="authentication_error"),
        ProviderError(401, body=b"<h1>Who are you?</h1>"),
        ProviderError(403, "not for you", code="PERMISSION_DENIED"),
        ProviderError(401, "Missing credentials", code="x"),
        ProviderError(401, "Unauthorized", code="x"),
    ],
    ids=lambda error: f"{error.status} {error.code}",
)
def test_a_key_is_asked_for_in_many_words(error: ProviderError, capsys: Told) -> None:
    """Google's has the status of a bad request, a gateway's is a page."""
    code, url = served(error)
    assert (code, capsys.readouterr().err.partition(": put it")[0]) == (
        1,
        f"loopmachine: the server at {url} wants a key",
    )


CALL = '{"name": "get_ticket", "arguments": {"ticket_id": "T-1"}}'
WRITTEN = [
    CALL,
    f"```json\n\n{CALL}\n```",
    f"```json\n{CALL}",
    f"I will read it.\n```\n[{CALL}]\n```\nThen I know more.",
    f"{{{CALL}}}}}",
    CALL[:40],
    '{"type": "function", "function": {"name": "get_ticket", "arguments": "{}"}}',
    '{ "name" : "delete_ticket" , "parameters" : {} }',
    '{"tool": "get_ticket", "input": {}}',
    '{"function": "get_ticket", "args": {}}',
    '{"arguments": {"ticket_id": "T-1"}, "name": "get_ticket"}',
    "<tool_call>\nget_ticket",
    "<|tool_call|>get_ticket",
    "<function=get_ticket>",
    "[TOOL_CALLS]get_ticket",
    "<|python_tag|>get_ticket",
    '<function_calls><invoke name="get_ticket"></invoke>',
    '<x:invoke\nname="get_ticket">',
    '<|channel|>commentary to=functions.get_ticket <|constrain|>json<|message|>{"id":"T-1"}',
    'get_ticket(ticket_id="T-1")',
    "I look.\n```python\n  [get_ticket(ticket_id = 'T-1'), propose_label(",
    'get_ticket("T-1")',
    "Well:\n`get_ticket();`\n",
    "<get_ticket><ticket_id>T-1</ticket_id></get_ticket>",
    'I look. <get_ticket ticket_id="T-1" />',
    "<propose_label>\n{}",
    'Action: get_ticket\nAction Input: {"ticket_id": "T-1"}',
    "Thought: I look.\n**Action:** `get_ticket`\n\n**Action Input:** T-1\n**Observation:**",
    'Sure: get_ticket(ticket_id="T-1")',
    "I look now: `get_ticket(ticket_id='T-1')`\nThen I label it.",
]
#: Answers that speak of a call.
SPOKEN = [
    'I asked get_ticket(ticket_id="T-1") and proposed billing.',
    "T-1 (see get_ticket) is proposed.",
    "get_ticket(ticket_id == 5) is not what I called.",
    "get_ticket() brought the ticket.",
    "First I called: get_ticket(ticket_id='T-1'), and then I proposed billing.",
    "Action: none is needed.\nAction taken: the label billing.",
    "<b>T-1</b> is <code>get_ticket</code>'s; is: 2 < get_ticket",
    "It went over <|channel|>final<|message|> to=you.",
]


@pytest.mark.parametrize("text", WRITTEN)
def test_a_call_that_is_written_as_text_is_seen(text: str, capsys: Told) -> None:
    """Bare, in a fence or beside other text, cut short or with the marks of a template."""
    code, _ = served(text)
    wanted = f"loopmachine: m1 wrote a call as text, which no tool sees: {TEMPLATE}\n"
    assert (code, capsys.readouterr().err) == (1, wanted)


@pytest.mark.parametrize("text", SPOKEN)
def test_a_call_that_an_answer_speaks_of_is_none(text: str, capsys: Told) -> None:
    """The run is answered, and nothing is advised."""
    code, _ = served(text)
    assert (code, capsys.readouterr().err) == (0, "")


@every_stream
@every_wire
def test_a_written_call_is_seen_over_every_wire(wire: str, stream: bool, capsys: Told) -> None:
    """Also after calls that were real."""
    code, _ = served(READ, CALL, wire=wire, stream=stream)
    wanted = f"loopmachine: m1 wrote a call as text, which no tool sees: {TEMPLATE}\n"
    assert (code, capsys.readouterr().err) == (1, wanted)


def test_a_written_call_that_is_cut_by_its_length_is_seen(capsys: Told) -> None:
    """Models that are to call a tool and can't write on until they are stopped."""
    code, _ = served(StreamScript(CALL, stop="length"))
    assert (code, capsys.readouterr().err.partition(",")[0]) == (1, "loopmachine: m1 wrote a call as text")


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"ticket_id": "T-1", "label": "billing", "expected_version": 3}\n```',
        '{"name": "T-1", "label": "billing"}',
        "I called the function get_ticket with its arguments, and its name is T-1.",
        '{"tools": []}',
    ],
)
def test_an_answer_that_is_json_is_an_answer(text: str, capsys: Told) -> None:
    """What has no name beside arguments is no call."""
    assert (served(text)[0], capsys.readouterr().err) == (0, "")


def test_text_beside_a_call_is_no_written_call(capsys: Told) -> None:
    """The call came as one, though its turn ends the run."""
    asked = {**READ, "text": CALL}
    assert (served(READ, asked)[0], capsys.readouterr().err) == (0, "")


@pytest.mark.parametrize(
    ("status", "message", "times"),
    [
        (500, "tools param requires --jinja flag", 3),
        (400, "registry.ollama.ai/library/tiny:latest does not support tools", 1),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', 1),
    ],
)
def test_a_server_that_takes_no_tools_is_told_apart(status: int, message: str, times: int, capsys: Told) -> None:
    """In the words of llama.cpp, Ollama and vLLM."""
    code, _ = served(*[ProviderError(status, message)] * times)
    assert (code, capsys.readouterr().err) == (1, f"loopmachine: the server takes no tools: {TEMPLATE}\n")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ([ProviderError(404, "no such model", code="model_not_found")], "model_not_found: no such model"),
        ([ProviderError(404, "it does not exist", code="NotFoundError")], "NotFoundError: it does not exist"),
        ([ProviderError(404, body=b"nothing here")], "http_404: nothing here"),
        ([ProviderError(405, body=b"no")], "http_405: no"),
        ([b"<h1>Hello</h1>"] * 3, "stream_malformed: the server sent no JSON object: <h1>Hello</h1>"),
    ],
)
def test_a_server_of_something_else_is_told_apart(script: list[Any], said: str, capsys: Told) -> None:
    """Nothing is there, no such model, or a page."""
    code, url = served(*script)
    assert (code, capsys.readouterr().err) == (
        1,
        f"loopmachine: the server at {url} does not speak openai-chat there, or has no model 'm1' ({said}): "
        "check --base-url, --wire and --model\n",
    )


@pytest.mark.parametrize(
    ("script", "stream", "said"),
    [
        ([ProviderError(400, "too long", code="context_length_exceeded")], False, "context_length_exceeded: too long"),
        ([ProviderError(429, "slowly", code="slow")] * 3, False, "slow: slowly"),
        ([StreamScript("I pro", CUT)] * 3, True, "stream_cut: the stream ended before the reply did"),
    ],
)
def test_another_failure_is_told_in_the_server_s_words(
    script: list[Any], stream: bool, said: str, capsys: Told
) -> None:
    """There is nothing that could be said to do."""
    code, url = served(*script, stream=stream)
    assert (code, capsys.readouterr().err) == (1, f"loopmachine: the server at {url} could not answer: {said}\n")


# --- what can't be asked ------------------------------------------------------------------------------------

URL = "http://127.0.0.1:1"
NEEDS = "demo with a server's model needs both --base-url and --model, and no --recordings"
UNASKED = [
    (["--base-url", URL], NEEDS),
    (["--model", "m1"], NEEDS),
    (["--wire", "gemini"], NEEDS),
    (["--stream"], NEEDS),
    (["--api-key-env", ""], NEEDS),
    (["--base-url", "", "--model", ""], NEEDS),
    (["--base-url", URL, "--model", " "], NEEDS),
    (["--base-url", URL, "--model", "m1", "--recordings", "."], NEEDS),
    (
        ["--base-url", "localhost:1", "--model", "m1"],
        "the server's URL must be one such as http://127.0.0.1:8080, not 'localhost:1'",
    ),
    *(
        (
            ["--base-url", URL, "--model", "m1", "--api-key-env", name],
            f"the environment variable {name!r}, which --api-key-env names, holds no key",
        )
        for name in ("", "NO_SUCH_KEY")
    ),
]


@pytest.mark.parametrize(("arguments", "sentence"), UNASKED)
def test_what_can_not_be_asked_is_one_sentence_and_2(arguments: list[str], sentence: str, capsys: Told) -> None:
    """What is missing, or is not what it must be."""
    assert (cli.main(["demo", *arguments]), capsys.readouterr().err) == (2, f"loopmachine: {sentence}\n")


def test_a_missing_sdk_is_one_sentence_and_2(monkeypatch: pytest.MonkeyPatch, capsys: Told) -> None:
    """It says what to install."""
    monkeypatch.setitem(sys.modules, "anthropic", None)
    code = demo(URL, "anthropic")
    assert (code, capsys.readouterr().err.rpartition(": ")[2]) == (2, "pip install 'loopmachine[anthropic]'\n")
