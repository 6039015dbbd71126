"""What the adapters send, what they take as options and as clients, and what they refuse by name."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from google import genai
from google.genai import types

from loopmachine import (
    ANTHROPIC,
    GEMINI,
    OPENAI_CHAT,
    OPENAI_RESPONSES,
    PLAIN,
    Budget,
    Loop,
    ModelError,
    Policy,
    loop_tool,
    models,
    run,
    run_async,
)
from loopmachine.models.aside import aside
from loopmachine.models.reading import Reading, _Connection
from loopmachine.requests import AskModel
from loopmachine.testing import ProviderError, call, wire_server
from tests.sdks import MAKERS, Way, async_client_of, client_of, every_maker, look, ran

NOWHERE = "http://127.0.0.1:9"
WIRES = dict(zip(MAKERS, [OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC, GEMINI], strict=True))
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer", "default": 0}},
    "required": [],
    "additionalProperties": False,
}
FUNCTION = {"name": "look", "description": "Look.", "parameters": SCHEMA}
GO = {"role": "user", "content": "go"}


@pytest.fixture(scope="module")
def clients() -> Iterator[dict[str, Any]]:
    """A sync client of each SDK, which reaches no server."""
    made = {maker: client_of(maker, NOWHERE) for maker in MAKERS}
    yield made
    for client in made.values():
        client.close()


# --- what is sent ------------------------------------------------------------------------------------------


def sent(maker: str, stream: bool = False, **options: Any) -> Any:
    """The first request of a run that is answered at once."""
    with wire_server("done") as server:
        assert ran(Way(maker, False, stream), server.url, system="Be brief.", **options).answered
    return server.requests[0].body


BODIES: dict[str, Any] = {
    "openai_chat": {
        "model": "m1",
        "messages": [{"role": "system", "content": "Be brief."}, GO],
        "stream": False,
        "temperature": 0.5,
        "tools": [{"type": "function", "function": FUNCTION}],
    },
    "openai_responses": {
        "model": "m1",
        "input": [GO],
        "instructions": "Be brief.",
        "stream": False,
        "temperature": 0.5,
        "tools": [{"type": "function", **FUNCTION, "strict": False}],
    },
    "anthropic": {
        "model": "m1",
        "messages": [GO],
        "system": "Be brief.",
        "stream": False,
        "temperature": 0.5,
        "max_tokens": 4096,
        "tools": [{"name": "look", "description": "Look.", "input_schema": SCHEMA}],
    },
    "google": {
        "contents": [{"role": "user", "parts": [{"text": "go"}]}],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "generationConfig": {"temperature": 0.5},
        "tools": [{"functionDeclarations": [{"name": "look", "description": "Look.", "parametersJsonSchema": SCHEMA}]}],
    },
}


@every_maker
def test_a_request_is_the_wires_with_the_options(maker: str) -> None:
    """Whole, as the server gets it."""
    options: dict[str, Any] = {"temperature": 0.5} if maker != "anthropic" else {"extra_body": {"temperature": 0.5}}
    assert sent(maker, adapter=options) == BODIES[maker]


@every_maker
def test_without_a_system_text_none_is_sent(maker: str) -> None:
    """Neither blank nor null."""
    fields = {"openai_responses": "instructions", "anthropic": "system", "google": "systemInstruction"}
    with wire_server("done") as server:
        ran(Way(maker, False, False), server.url)
    body = server.requests[0].body
    assert (fields.get(maker) in body, body.get("messages", [GO])) == (False, [GO])


CHOICES: dict[str, tuple[dict[str, Any], str, Any]] = {
    "openai_chat": ({"tool_choice": "required", "parallel_tool_calls": False}, "tool_choice", "required"),
    "openai_responses": ({"tool_choice": "required", "parallel_tool_calls": False}, "tool_choice", "required"),
    "anthropic": ({"tool_choice": {"type": "any"}}, "tool_choice", {"type": "any"}),
    "google": (
        {"tool_config": {"function_calling_config": {"mode": "ANY"}}},
        "toolConfig",
        {"functionCallingConfig": {"mode": "ANY"}},
    ),
}


@every_maker
def test_a_choice_of_tools_is_sent_while_tools_are_offered(maker: str) -> None:
    """With none offered servers refuse it; where a wire needs the schemas all the same, the choice is none."""
    options, field, wanted = CHOICES[maker]
    with wire_server(call("c1", "look"), "done") as server:
        ran(
            Way(maker, False, False),
            server.url,
            adapter=options,
            budget=Budget(max_steps=2),
            policy=Policy(wrap_up=True),
        )
        server.assert_used_up()
    bodies = [request.body for request in server.requests]
    last = {"type": "none"} if maker == "anthropic" else None
    assert [body.get(field) for body in bodies] == [wanted, last]
    assert [bool(body.get("tools")) for body in bodies] == [True, maker == "anthropic"]
    assert ["parallel_tool_calls" in body for body in bodies] == [maker.startswith("openai"), False]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [({}, {"include_usage": True}), ({"stream_options": None}, None), ({"stream_options": {"x": 1}}, {"x": 1})],
)
def test_a_streamed_completion_is_asked_for_usage(options: dict[str, Any], wanted: Any) -> None:
    """Unless a server refuses to be asked."""
    assert sent("openai_chat", True, adapter=options).get("stream_options") == wanted


def test_a_completion_that_is_not_streamed_is_not_asked_for_usage() -> None:
    """Servers refuse the option there."""
    assert "stream_options" not in sent("openai_chat")


@pytest.mark.parametrize("stream", [False, True])
def test_what_google_sent_goes_back_as_it_came(stream: bool) -> None:
    """A signature in the API's own base64, which the SDK's objects write otherwise."""
    part = {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "a+b/cQ=="}
    reply = {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]}
    data = b"data: " + json.dumps(reply).encode() + b"\r\n\r\ndata: {}\r\n\r\n"
    with wire_server(data if stream else reply, "done") as server:
        assert ran(Way("google", False, stream), server.url).answered
    assert server.requests[1].body["contents"][1]["parts"] == [part]


@pytest.mark.parametrize("schema", [{"parameters_json_schema": SCHEMA}, {"parameters": {"type": "OBJECT"}}, {}])
def test_what_googles_sdk_sends_by_itself_is_accepted(schema: dict[str, Any]) -> None:
    """``wire_server`` takes a function with a schema, in the spelling of the SDK's own types, and without one."""
    declared = types.Tool(function_declarations=[types.FunctionDeclaration(name="look", description="d", **schema)])
    with wire_server("done") as server, closing(client_of("google", server.url)) as client:
        config = types.GenerateContentConfig(tools=[declared])
        assert client.models.generate_content(model="m1", contents="go", config=config).text == "done"


@pytest.mark.parametrize("stream", [False, True])
def test_google_asks_for_nothing_by_itself(stream: bool) -> None:
    """Neither again after a failure, whatever its client is told, nor for the rest of a reply."""
    rest = {"finishReason": "CONTINUATION", "continuationToken": "more"}
    reply = {"candidates": [{"content": {"role": "model", "parts": [{"text": "One"}]}, **rest}]}
    data = b"data: " + json.dumps(reply).encode() + b"\r\n\r\n"
    with wire_server(ProviderError(503), data if stream else reply) as server:
        options: Any = {"base_url": server.url, "api_version": "v1beta", "retry_options": {"attempts": 3}}
        with genai.Client(api_key="key", http_options=options) as client:
            model = models.google(client, "m1", stream=stream)
            results = [run(model, "go"), run(model, "go")]
    assert ([one.status for one in results], len(server.requests)) == (["model_error", "incomplete"], 2)


# --- the time that is left -----------------------------------------------------------------------------------


def asked(maker: str, client: Any, left: float | None, **options: Any) -> Any:
    """What the SDK is asked with when so many seconds are left."""
    model = getattr(models, maker)(client, "m1", **options)
    loop = Loop("go", at=0.0, wire=model.wire)
    return model._sdk.request(loop.messages(), [], AskModel(1), left)


@pytest.mark.parametrize(
    ("own", "left", "wanted"),
    [
        (None, 9.0, 9.0),
        (5, 9.0, 5),
        (50.0, 9.0, 9.0),
        (httpx2.Timeout(None, pool=0), 9.0, httpx2.Timeout(connect=9.0, read=9.0, write=9.0, pool=0)),
        (httpx2.Timeout(60, connect=5, pool=None), 9.0, httpx2.Timeout(connect=5, read=9.0, write=9.0, pool=9.0)),
    ],
)
def test_a_request_takes_no_longer_than_is_left(own: Any, left: float, wanted: Any) -> None:
    """The client's own timeout, or that of the adapter, no part of which is longer."""
    with openai.OpenAI(api_key="key", timeout=own) as client:
        assert asked("openai_chat", client, left)["timeout"] == wanted
    with openai.OpenAI(api_key="key") as client:
        assert asked("openai_chat", client, left, timeout=own)["timeout"] == wanted


def test_a_request_without_a_deadline_has_the_clients_own_timeout(clients: dict[str, Any]) -> None:
    """Nothing is said of it."""
    assert "timeout" not in asked("anthropic", clients["anthropic"], None)


@pytest.mark.parametrize(
    ("own", "left", "wanted"), [(None, None, None), (2, None, 2000), (None, 0.0004, 1), (2, 9.0, 2000), (20, 9.0, 9000)]
)
def test_google_is_given_milliseconds(own: float | None, left: float | None, wanted: int | None, clients: Any) -> None:
    """And never none, which would be no timeout at all."""
    options = {} if own is None else {"timeout": own}
    assert asked("google", clients["google"], left, **options)["config"]["http_options"]["timeout"] == wanted


@pytest.mark.parametrize(("left", "wanted"), [(None, 5000), (9.0, 5000), (2.0, 2000)])
def test_googles_clients_own_timeout_holds_too(left: float | None, wanted: int) -> None:
    """What is said at a request would replace it; an option of the adapter's does."""
    options: Any = {"base_url": NOWHERE, "timeout": 5000}
    with genai.Client(api_key="key", http_options=options) as client:
        for one in (client, client.aio):
            assert asked("google", one, left)["config"]["http_options"]["timeout"] == wanted
            assert asked("google", one, left, timeout=1)["config"]["http_options"]["timeout"] == 1000


@pytest.mark.parametrize("maker", MAKERS[:3])
def test_an_option_that_is_not_given_is_none(maker: str) -> None:
    """In the SDK's own words for that, with a deadline too."""
    sdk = anthropic if maker == "anthropic" else openai
    with wire_server("one", "two") as server:
        for given in (sdk.NOT_GIVEN, sdk.omit):
            options = {"timeout": given, "tool_choice": given, "extra_body": given}
            assert ran(Way(maker, False, False), server.url, adapter=options, budget=Budget(max_seconds=60)).answered
    assert [request.body.get("tool_choice") for request in server.requests] == [None, None]


def test_the_model_is_told_the_runs_clock() -> None:
    """Its deadline is on that."""
    seen: list[AskModel] = []

    def model(messages: Any, tools: Any, ask: AskModel) -> Any:
        seen.append(ask)
        return {"kind": "final", "text": "done"}

    def clock() -> float:
        return 7.0

    run(model, "go", clock=clock, budget=Budget(max_seconds=5))
    assert [(ask.clock is clock, ask.deadline) for ask in seen] == [(True, 12.0)]


# --- options and clients -------------------------------------------------------------------------------------

OURS = {
    "openai_chat": "messages tools",
    "openai_responses": "input tools instructions",
    "anthropic": "messages tools system",
    "google": "contents tools config http_options system_instruction should_return_http_response "
    "automatic_function_calling automatic_continuation",
}
SYSTEM = "give the system text to run, as system="
OURS_WHY = {"instructions": SYSTEM, "system": SYSTEM}


@pytest.mark.parametrize(("maker", "name"), [(maker, name) for maker in MAKERS for name in OURS[maker].split()])
def test_an_option_that_the_run_sets_is_refused_by_name(maker: str, name: str, clients: dict[str, Any]) -> None:
    """When the adapter is made."""
    with pytest.raises(TypeError, match=f"models.{maker}: {name} can't be given here"):
        getattr(models, maker)(clients[maker], "m1", **{name: None})


@pytest.mark.parametrize(
    ("maker", "name", "why"),
    [(maker, name, OURS_WHY.get(name, "the run sends it")) for maker in MAKERS[:3] for name in OURS[maker].split()]
    + [(maker, name, f"give it as {name}=") for maker in MAKERS[:3] for name in ("model", "stream", "tool_choice")]
    + [(maker, "parallel_tool_calls", "give it as parallel_tool_calls=") for maker in MAKERS[:2]],
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_body_does_not_replace_what_the_run_sends(maker: str, name: str, why: str, asynchronous: bool) -> None:
    """It is refused by name, as the option is."""
    client = async_client_of(maker, NOWHERE) if asynchronous else client_of(maker, NOWHERE)
    with pytest.raises(TypeError) as refused:
        getattr(models, maker)(client, "m1", extra_body={"seed": 1, name: None})
    assert str(refused.value) == f"models.{maker}: {name} can't be given in extra_body: {why}"


@pytest.mark.parametrize("name", ["extra_headers", "extra_query", "extra_body"])
@pytest.mark.parametrize("maker", MAKERS[:3])
def test_what_goes_beside_the_options_is_an_object(maker: str, name: str, clients: dict[str, Any]) -> None:
    """Anything else is refused by name."""
    with pytest.raises(TypeError, match=rf"models.{maker}: {name} must be a dict or None, not \[\('a', 1\)\]$"):
        getattr(models, maker)(clients[maker], "m1", **{name: [("a", 1)]})


ENDLESS = float("inf")
NO_TIMEOUTS = ["5", (1, 2), [], 0, -1, True, float("nan"), ENDLESS, 1e300, httpx2.Timeout]


@pytest.mark.parametrize("wrong", NO_TIMEOUTS, ids=repr)
@every_maker
def test_a_timeout_that_can_not_be_right_is_refused(maker: str, wrong: Any, clients: dict[str, Any]) -> None:
    """When the adapter is made, by name."""
    right = (
        "positive, finite seconds or None" if maker == "google" else "positive, finite seconds, None or a Timeout of"
    )
    with pytest.raises(TypeError, match=f"models.{maker}: timeout must be {right}.*, not ") as refused:
        getattr(models, maker)(clients[maker], "m1", timeout=wrong)
    assert str(refused.value).endswith(f", not {wrong!r}")


TEXT: Any = "5"


@pytest.mark.parametrize("wrong", [httpx2.Timeout(TEXT), httpx2.Timeout(5, read=-1), httpx2.Timeout(ENDLESS)], ids=repr)
@pytest.mark.parametrize("maker", MAKERS[:3])
def test_no_part_of_a_timeout_may_be_wrong(maker: str, wrong: Any, clients: dict[str, Any]) -> None:
    """Neither in the adapter's nor in the client's own."""
    with pytest.raises(TypeError, match=f"models.{maker}: timeout must be positive, finite seconds, None or"):
        getattr(models, maker)(clients[maker], "m1", timeout=wrong)
    with (
        client_of(maker, NOWHERE, timeout=wrong) as client,
        pytest.raises(TypeError, match="the client's timeout must"),
    ):
        getattr(models, maker)(client, "m1")


@pytest.mark.parametrize("wrong", ["yes", None, 1])
@every_maker
def test_whether_to_stream_is_yes_or_no(maker: str, wrong: Any, clients: dict[str, Any]) -> None:
    """Nothing that merely counts as one of the two."""
    with pytest.raises(TypeError, match=f"models.{maker}: stream must be True or False, not {wrong!r}"):
        getattr(models, maker)(clients[maker], "m1", stream=wrong)


@pytest.mark.parametrize("wrong", [None, 0, "5", 5.0, True, pytest.param(anthropic.omit, id="omit")], ids=repr)
def test_the_most_tokens_are_a_whole_number(wrong: Any, clients: dict[str, Any]) -> None:
    """Anthropic takes no request without."""
    with pytest.raises(TypeError, match=r"models\.anthropic: max_tokens must be a positive whole number, not "):
        models.anthropic(clients["anthropic"], "m1", max_tokens=wrong)


@pytest.mark.parametrize("maker", MAKERS[:3])
def test_an_option_that_the_sdk_does_not_know_is_refused_by_name(maker: str, clients: dict[str, Any]) -> None:
    """With the way round it."""
    wanted = f"models.{maker}: create of this SDK takes no tempo; to send it all the same, extra_body={{'tempo': ...}}"
    with pytest.raises(TypeError) as refused:
        getattr(models, maker)(clients[maker], "m1", tempo=1)
    assert str(refused.value) == wanted


def test_google_refuses_an_option_that_it_does_not_know(clients: dict[str, Any]) -> None:
    """In its own words, when the adapter is made."""
    with pytest.raises(TypeError, match=r"(?s)models.google: no such options of GenerateContentConfig: .*tempo"):
        models.google(clients["google"], "m1", tempo=1)


@pytest.mark.parametrize("name", ["", " ", None])
@every_maker
def test_a_model_must_have_a_name(maker: str, name: Any, clients: dict[str, Any]) -> None:
    """Blank is none."""
    with pytest.raises(TypeError, match=f"models.{maker}: model must be the name of a model, not {name!r}"):
        getattr(models, maker)(clients[maker], name)


WRONG = [
    (
        "openai_chat",
        "anthropic",
        "an openai.OpenAI or openai.AsyncOpenAI, not a anthropic.Anthropic, which is for models.anthropic",
    ),
    (
        "anthropic",
        "openai_chat",
        "an anthropic.Anthropic or anthropic.AsyncAnthropic, not a openai.OpenAI, "
        "which is for models.openai_chat or models.openai_responses",
    ),
    (
        "openai_responses",
        "google",
        "an openai.OpenAI or openai.AsyncOpenAI, not a google.genai.client.Client, which is for models.google",
    ),
]


@pytest.mark.parametrize(("maker", "given", "wanted"), WRONG)
def test_a_client_of_another_sdk_is_refused_with_where_it_belongs(
    maker: str, given: str, wanted: str, clients: dict[str, Any]
) -> None:
    """By name."""
    with pytest.raises(TypeError) as refused:
        getattr(models, maker)(clients[given], "m1")
    assert str(refused.value) == f"models.{maker}: client must be {wanted}"


def test_what_is_no_client_is_refused() -> None:
    """Such as a part of one, or a key."""
    with pytest.raises(TypeError, match=r"client must be a google.genai.Client or its aio, not a builtins.str$"):
        models.google("key", "m1")  # type: ignore[call-overload]


def test_clients_of_azure_are_clients() -> None:
    """They are made of the SDK's own."""
    with openai.AzureOpenAI(api_key="key", azure_endpoint=NOWHERE, api_version="1") as client:
        assert repr(models.openai_chat(client, "m1")) == "<models.openai_chat m1>"


class Named(anthropic.Anthropic):
    """A client of the user's own."""


class Configured(openai.OpenAI):
    """One that is made of nothing."""

    def __init__(self) -> None:
        super().__init__(api_key="key", base_url=NOWHERE)


def test_a_client_of_a_class_made_of_the_sdks_is_a_client() -> None:
    """Of that SDK alone."""
    with wire_server("done") as server, Named(api_key="key", base_url=server.url) as client:
        assert run(models.anthropic(client, "m1"), "go").answered
        with pytest.raises(TypeError, match=r"Named, which is for models\.anthropic$"):
            models.openai_chat(client, "m1")  # type: ignore[call-overload]


def test_a_client_that_can_not_be_made_without_retries_is_refused() -> None:
    """The SDK makes another of its class for that, as for any ``with_options``."""
    with Configured() as client, pytest.raises(TypeError) as refused:
        models.openai_chat(client, "m1")
    says = (
        "models.openai_chat: client has no with_options(max_retries=0): Configured.__init__() got an unexpected keyword"
    )
    assert str(refused.value).startswith(says)
    assert str(refused.value).endswith("; its __init__ must take what that of the SDK's own client takes")


def test_a_client_with_options_is_a_client() -> None:
    """Which hold, but for its retries."""
    with wire_server(ProviderError(503), "done") as server, client_of("openai_chat", server.url) as client:
        model = models.openai_chat(client.with_options(timeout=5, max_retries=3, default_headers={"x-own": "1"}), "m1")
        statuses = [run(model, "go").status, run(model, "go").status]
    assert (statuses, [one.headers["x-own"] for one in server.requests]) == (["model_error", "answered"], ["1", "1"])


def test_a_screen_must_be_callable_and_not_async(clients: dict[str, Any]) -> None:
    """It is told and not awaited."""
    for wrong in (asyncio.sleep, 1):
        with pytest.raises(TypeError, match="on_delta must be callable, not async, or None"):
            models.anthropic(clients["anthropic"], "m1", on_delta=wrong)  # type: ignore[arg-type]


# --- the wire ------------------------------------------------------------------------------------------------


@every_maker
def test_an_adapter_knows_its_wire(maker: str, clients: dict[str, Any]) -> None:
    """``run`` takes it from there, and refuses another."""
    model = getattr(models, maker)(clients[maker], "m1")
    other = GEMINI if maker != "google" else ANTHROPIC
    assert model.wire is WIRES[maker]
    with pytest.raises(TypeError, match=f"wire: <models.{maker} m1> speaks <wire .*>, not {other!r}; leave wire= out"):
        run(model, "go", wire=other)
    with pytest.raises(
        TypeError, match=f"loop: it speaks <wire plain>, not {model.wire!r} as .* a new run, with history=res"
    ):
        run(model, loop=Loop("go", at=0.0, wire=PLAIN))
    with pytest.raises(TypeError, match="leave wire= out"):
        loop_tool(model, "sub", "A sub-run.", wire=other)


def test_a_history_goes_on_over_another_wire() -> None:
    """As the sentence says that refuses the loop of another: a new run takes it."""
    with (
        wire_server("one", "two") as server,
        client_of("openai_chat", server.url) as chat,
        client_of("anthropic", server.url) as client,
    ):
        first = run(models.openai_chat(chat, "m1"), "go")
        model = models.anthropic(client, "m1")
        with pytest.raises(TypeError, match=r"history=result\.history"):
            run(model, loop=first.loop)
        second = run(model, "and then?", history=first.history)
    assert (first.text, second.text) == ("one", "two")


def test_the_wire_of_an_adapter_may_be_given() -> None:
    """To run, to a loop, and to a sub-run, which takes it from the adapter too."""
    with wire_server("one", "two", call("c1", "sub", prompt="do it"), "three", "four") as server:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="key")
        model = models.openai_chat(client, "m1")
        first = run(model, "go", wire=OPENAI_CHAT)
        second = run(model, loop=Loop("go", at=0.0, wire=OPENAI_CHAT), clock=lambda: 0.0)
        third = run(model, "go", tools=[loop_tool(model, "sub", "A sub-run.")])
        client.close()
    assert [first.text, second.text, third.text, third.results[0].content] == ["one", "two", "four", "three"]


def test_an_async_adapter_needs_run_async() -> None:
    """``run`` says so."""

    async def refused() -> None:
        client = async_client_of("anthropic", NOWHERE)
        with pytest.raises(TypeError, match="model is async; use run_async"):
            run(models.anthropic(client, "m1"), "go")
        await client.close()

    asyncio.run(refused())


def test_a_sync_adapter_serves_run_async_on_a_thread() -> None:
    """It is awaited there."""
    with wire_server(call("c1", "look", n=1), "done") as server, client_of("anthropic", server.url) as client:
        result = asyncio.run(run_async(models.anthropic(client, "m1", stream=True), "go", tools=[look]))
    assert (result.status, result.text) == ("answered", "done")


def test_importing_the_adapters_imports_no_sdk() -> None:
    """They know their clients by name."""
    code = (
        "import sys, loopmachine.models; "
        "print(*(name for name in ('openai', 'anthropic', 'google', 'httpx2', 'httpx') if name in sys.modules))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert said.stdout.split() == []


# --- connections that can't be shut --------------------------------------------------------------------------


class Carrier:
    """The network stream of a response, as httpx hands it out."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    def get_extra_info(self, name: str) -> Any:
        """The socket."""
        return {"socket": self.connection}[name]


@pytest.mark.parametrize(
    ("version", "named", "shut"),
    [(b"HTTP/1.1", "network_stream", True), (b"HTTP/2", "network_stream", False), (b"HTTP/1.1", "none", False)],
)
def test_a_connection_that_is_shared_or_hidden_is_not_shut(version: bytes, named: str, shut: bool) -> None:
    """Over HTTP/2 other requests use it, and a transport of the user's own may have none."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        response = httpx2.Response(200, extensions={"http_version": version, named: Carrier(ours)})
        reading = Reading(OPENAI_CHAT, "m1", True, print, AskModel(1))
        with reading.watched(response):
            reading.gone.cancel()
        theirs.setblocking(False)
        if shut:
            assert theirs.recv(1) == b""
        else:
            with pytest.raises(BlockingIOError):
                theirs.recv(1)


def test_the_deadline_ends_a_read_that_began_long_before() -> None:
    """The client's timeout starts anew with each read; the connection is shut when the run's time is over."""
    ours, theirs = socket.socketpair()

    def pieces() -> Generator[bytes]:
        response = httpx2.Response(200, extensions={"network_stream": Carrier(ours)})
        with reading.watched(response):
            yield ours.recv(1)

    with ours, theirs:
        ours.settimeout(30)  # to fail, not to hang
        reading = Reading(OPENAI_CHAT, "m1", False, print, AskModel(1, deadline=time.monotonic() + 0.05))
        with pytest.raises(ModelError) as raised:
            next(aside(pieces(), reading))
        assert theirs.recv(1) == b""
    assert (raised.value.code, raised.value.timed_out) == ("timeout", True)


def test_a_connection_that_was_left_is_not_shut() -> None:
    """It may be another request's by then."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        extensions = {"http_version": b"HTTP/1.1", "network_stream": Carrier(ours)}
        connection = _Connection(httpx2.Response(200, extensions=extensions))
        connection.leave()
        connection.shut()
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)


@pytest.mark.parametrize("name", ["AnthropicBedrock", "AsyncAnthropicBedrock"])
def test_a_client_that_streams_in_frames_of_its_own_is_refused(name: str) -> None:
    """The bytes of Bedrock are no server-sent events."""
    client = object.__new__(getattr(anthropic, name))
    with pytest.raises(TypeError, match=f"models.anthropic: client must be .* not a anthropic..*{name}$"):
        models.anthropic(client, "m1")


def test_the_end_of_a_stream_without_a_blank_line_is_read() -> None:
    """As the reader of bodies reads it."""
    data = b'data: {"model":"m1","choices":[{"delta":{"content":"Hi."},"finish_reason":"stop"}]}'
    with wire_server(data) as server:
        assert ran(Way("openai_chat", False, True), server.url).text == "Hi."
