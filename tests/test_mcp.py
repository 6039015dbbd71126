"""The tools of MCP servers, in runs: real servers, in this process and in one of their own."""

from __future__ import annotations

import asyncio
import base64
import importlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from mcp import Client, MCPError, StdioServerParameters, types
from mcp.server import MCPServer, Server, ServerRequestContext
from mcp.shared.memory import create_client_server_memory_streams

from loopmachine import Budget, CancelToken, ImageBlock, Result, Tool, notices, run, run_async
from loopmachine.errors import InvalidTool, ToolFailed
from loopmachine.mcp import mcp_tools
from loopmachine.mcp.connection import PAGES
from loopmachine.mcp.content import content
from tests.drivers import DONE, GO, Words, always, brought, call, calls
from tests.mcp_server import STDIO, over_http, raw, server

UNSURE = "; nobody knows whether this call did anything"
UNSENT = "the connection to the MCP server is lost; this call was not sent"
Servers = pytest.mark.parametrize("make", [lambda: STDIO, server], ids=["stdio", "in memory"])
Make = Callable[[], Any]


def ran(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine brings. In the test's own thread coverage would lose its place, by cpython's issue 106749."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


async def played(tools: list[Tool], *replies: Any, **options: Any) -> Result:
    """A run in which the model replies with these in turn, which holds what always holds."""
    script = iter(replies)
    budget = Budget(max_seconds=60)  # so that what is never told fails a test and does not hang it
    result = await run_async(lambda messages, tools: next(script), "go", tools=tools, budget=budget, **options)
    assert always(result, tools) == []
    return result


async def told(server: Any, *asked: dict[str, Any], **options: Any) -> list[Any]:
    """What a run with one call after the other tells the model of each, and its outcome."""
    async with mcp_tools(server, **options) as tools:
        result = await played(tools, *asked, DONE)
    return [(one["content"], one["outcome"]) for one in result.history if one["kind"] == "tool_result"]


def named(tools: Iterable[Tool]) -> dict[str, Tool]:
    """The tools by name."""
    return {tool.name: tool for tool in tools}


def listing(
    *tools: types.Tool, call: Any = None, page: int = 9, asked: Callable[[], object] = lambda: None
) -> Server[Any]:
    """A server that lists these tools, so many on a page, and answers a call with what ``call()`` brings.

    ``asked`` is called when it is asked for a page.
    """

    async def on_list(
        context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        asked()
        start = int((params and params.cursor) or 0)
        after = str(start + page) if start + page < len(tools) else None
        return types.ListToolsResult(tools=list(tools[start : start + page]), next_cursor=after)

    async def on_call(context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
        answer: types.CallToolResult = call()
        return answer

    return Server("listing", on_list_tools=on_list, on_call_tool=on_call)


def plain(name: str = "look", schema: dict[str, Any] | None = None, **more: Any) -> types.Tool:
    """A tool as a server lists it."""
    return types.Tool(name=name, input_schema={"type": "object"} if schema is None else schema, **more)


# --- runs ---------------------------------------------------------------------------------------------------


@Servers
def test_a_run_calls_the_tools_of_a_server(make: Make) -> None:
    """What works, what fails, and what is wrong with a call reach the model; the server sees no invalid call."""

    async def main() -> Any:
        async with mcp_tools(make()) as tools:
            result = await played(
                tools,
                calls(call("a", "add", a="2", b=2**70), call("b", "add", a="five"), call("c", "nothing")),
                calls(call("d", "greet", context="Åsa \U0001f600"), call("e", "refuse")),
                DONE,
            )
            return result, await named(tools)["seen"]({}), int(await named(tools)["pid"]({})) == os.getpid()

    result, *more = ran(main())
    assert (result.status, list(result.history), more) == (
        "answered",
        [
            GO,
            call("a", "add", a="2", b=2**70),
            call("b", "add", a="five"),
            call("c", "nothing"),
            brought("a", str(2 + 2**70)),
            brought("b", Words('a: "five" where a whole number is wanted'), "invalid_arguments"),
            brought("c", Words("there is no tool named 'nothing'", "add, greet"), "unknown_tool"),
            call("d", "greet", context="Åsa \U0001f600"),
            call("e", "refuse"),
            brought("d", "tests greets Åsa \U0001f600"),
            brought("e", "Error executing tool refuse: there is no träd", "failed"),
            DONE,
        ],
        [f"add 2 {2**70}\ngreet Åsa \U0001f600", make is server],
    )


def test_two_servers_may_have_the_same_names() -> None:
    """A prefix tells their tools apart."""

    async def main() -> list[Any]:
        async with mcp_tools(server("north"), prefix="n_") as north, mcp_tools(server("south"), prefix="s.") as south:
            result = await played(
                [*north, *south],
                calls(call("a", "n_greet", context="Bo"), call("b", "s.greet", context="Bo")),
                DONE,
            )
        return [one["content"] for one in result.history if one["kind"] == "tool_result"]

    assert ran(main()) == ["north greets Bo", "south greets Bo"]


def test_progress_is_told_to_the_observer() -> None:
    """A server's progress is a notice of the call."""
    heard: list[Any] = []
    token = CancelToken()

    def observe(notice: Any) -> None:
        if isinstance(notice, notices.Progress):
            heard.append((notice.call.id, notice.done, notice.total, notice.text))
            token.cancel()

    async def main() -> None:
        async with mcp_tools(server()) as tools:
            await played(tools, call("a", "wait"), cancel=token, observe=observe)

    ran(main())
    assert heard == [("a", 1, 2, "waiting")]


@Servers
def test_a_cancelled_run_cancels_the_call_at_the_server(make: Make) -> None:
    """The call is interrupted, and the server stops its work."""
    token = CancelToken()

    def observe(notice: Any) -> None:
        if isinstance(notice, notices.Progress):
            token.cancel("enough")

    async def main() -> tuple[Any, ...]:
        async with mcp_tools(make()) as tools:
            result = await played(tools, call("a", "wait"), cancel=token, observe=observe)
            return result.status, result.history[-1]["outcome"], await named(tools)["waited"]({})

    assert ran(main()) == ("cancelled", "interrupted", "cancelled")


def test_the_options_of_a_tool_are_for_all_of_them() -> None:
    """A timeout holds for each tool; one tool can be given others."""

    async def main() -> tuple[Any, ...]:
        async with mcp_tools(server(), timeout=0.01) as tools:
            changed = [attrs.evolve(tool, timeout=None, needs_approval=tool.name == "add") for tool in tools]
            timed = await played(tools, call("a", "wait"), DONE)
            approved = await played(changed, call("a", "add", a=1), DONE, approve=lambda call: "no sums")
            return timed.history[2], approved.history[2], await named(changed)["seen"]({})

    assert ran(main()) == (
        brought("a", Words("wait timed out after 0.01 seconds"), "timed_out"),
        brought("a", "no sums", "denied"),
        '{"result":[]}',
    )


def test_a_sync_run_refuses_them() -> None:
    """They are async, and ``run`` says where they can be used."""

    async def main() -> None:
        async with mcp_tools(server()) as tools:
            with pytest.raises(TypeError, match="run_async"):
                run(lambda messages: DONE, "go", tools=tools)

    ran(main())


def test_images_reach_the_model_as_blocks() -> None:
    """A result that holds an image has blocks; the image is as the server sent it."""
    answer = types.CallToolResult(
        content=[
            types.TextContent(text="a dot"),
            types.ImageContent(data=base64.b64encode(b"dot").decode(), mime_type="image/png"),
        ]
    )

    async def main() -> Any:
        async with mcp_tools(listing(plain(), call=lambda: answer)) as tools:
            return (await played(tools, call("a"), DONE)).history[2]

    assert ran(main()) == {
        **brought("a", "a dot\n[image/png, 3 bytes]"),
        "blocks": [
            {"kind": "text", "text": "a dot"},
            {"kind": "image", "media_type": "image/png", "data": base64.b64encode(b"dot").decode()},
        ],
    }


# --- servers that fail --------------------------------------------------------------------------------------


def test_a_server_that_dies_in_a_call_does_not_end_the_run() -> None:
    """What became of that call is unknown, one after it is not sent; no process is left."""
    killed: list[int] = []

    async def main() -> Result:
        async with mcp_tools(STDIO) as tools:
            process = int(await named(tools)["pid"]({}))

            def observe(notice: Any) -> None:
                if isinstance(notice, notices.Progress):
                    os.kill(process, signal.SIGKILL)
                    killed.append(process)

            return await played(tools, call("a", "wait"), call("b", "add", a=1), DONE, observe=observe)

    result = ran(main())
    with pytest.raises(ProcessLookupError):
        os.kill(killed[0], 0)
    assert (result.status, [one for one in result.history if one["kind"] == "tool_result"]) == (
        "answered",
        [brought("a", f"Connection closed{UNSURE}", "unknown"), brought("b", UNSENT, "failed")],
    )


def test_a_server_over_http_is_used_and_may_die(caplog: pytest.LogCaptureFixture) -> None:
    """When it is gone the run goes on; the loss is logged, and a call after it is not sent."""

    async def main(url: str, process: subprocess.Popen[bytes]) -> tuple[Result, str]:
        def observe(notice: Any) -> None:
            if isinstance(notice, notices.Progress):
                process.kill()
                process.wait()

        async with mcp_tools(url) as tools:
            asked = call("a", "add", a=1), call("b", "wait"), call("c", "add", a=1)
            result = await played(tools, *asked, DONE, observe=observe)
            await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}), return_exceptions=True)
            with pytest.raises(ToolFailed) as caught:
                await named(tools)["add"]({"a": 1})
            return result, str(caught.value)

    with over_http() as (url, process):
        result, said = ran(main(url, process))
    logged: list[Any] = [record.message for record in caplog.records if record.name == "loopmachine"]
    assert (result.status, [one for one in result.history if one["kind"] == "tool_result"], said, logged) == (
        "answered",
        [brought("a", "2"), brought("b", Words(UNSURE), "unknown"), brought("c", UNSENT, "failed")],
        UNSENT,
        [Words("the connection to an MCP server ended with ConnectError: ")],
    )


@pytest.mark.parametrize(
    ("error", "told_of"),
    [
        (MCPError(types.INVALID_PARAMS, "no such tool"), ("no such tool", "failed")),
        (MCPError(types.REQUEST_TIMEOUT, "too slow"), (f"too slow{UNSURE}", "unknown")),
    ],
)
def test_an_error_of_the_protocol_is_told_in_the_servers_words(error: MCPError, told_of: tuple[str, str]) -> None:
    """It is a failure, unless it can't be known what happened."""

    def fail() -> None:
        raise error

    assert ran(told(listing(plain(), call=fail), call("a"))) == [told_of]


def test_an_error_of_the_servers_own_that_looks_like_a_lost_connection_loses_none() -> None:
    """What became of its call is unknown; a server that still answers is asked again."""
    errors = [MCPError(types.CONNECTION_CLOSED, "Connection closed")]
    log: list[str] = []

    def answer() -> types.CallToolResult:
        log.append("called")
        if errors:
            raise errors.pop()
        return types.CallToolResult(content=[types.TextContent(text="here")])

    server = listing(plain(), call=answer, asked=lambda: log.append("listed"))
    assert ran(told(server, call("a"), call("b"), call("c"))) == [
        (f"Connection closed{UNSURE}", "unknown"),
        ("here", "ok"),
        ("here", "ok"),
    ]
    assert log == ["listed", "called", "listed", "called", "called"]


def test_structured_content_that_breaks_its_own_schema_is_a_failure() -> None:
    """The SDK checks it, and what it says reaches the model."""
    tool = plain(output_schema={"type": "object", "required": ["n"]})
    answer = types.CallToolResult(content=[], structured_content={})
    assert ran(told(listing(tool, call=lambda: answer), call("a"))) == [
        (Words("Invalid structured content returned by tool look", "'n' is a required property"), "failed")
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["there-is-no-such-command"], "FileNotFoundError: [Errno 2] No such file"),
        ([sys.executable, "-c", "pass"], "MCPError: Connection closed"),
        (StdioServerParameters(command=sys.executable, args=["-c", "pass"]), "MCPError: Connection closed"),
        ("http://127.0.0.1:1/mcp", "ConnectError: "),
    ],
)
def test_a_server_that_cannot_be_reached_is_a_connection_error(
    given: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It says why, out of all groups that the SDK wraps it in, and once."""
    with pytest.raises(ConnectionError) as caught:
        ran(told(given))
    logged = [record for record in caplog.records if record.name == "loopmachine"]
    assert (str(caught.value).startswith(f"the MCP server can't be reached: {said}"), logged) == (True, [])


LISTED = {"result": {"tools": [{"name": "a", "inputSchema": {"type": "object"}}]}}
TYPELESS = {"result": {"tools": [{"name": "a", "inputSchema": {}}, {"name": "b", "inputSchema": {"type": "object"}}]}}
UNREAD = "the MCP server's list of tools can't be read, so that none can be offered: "


@pytest.mark.parametrize(
    ("answer", "told_of"),
    [
        ({"result": {"zzz": 1}}, (f"the MCP server's answer can't be read{UNSURE}", "unknown")),
        (
            {"result": {"content": [{"type": "alien", "text": "x"}]}},
            (f"the MCP server's answer can't be read{UNSURE}", "unknown"),
        ),
        (
            {"error": {"code": -32000, "message": " "}},
            (f"the MCP server gave error -32000 without a word{UNSURE}", "unknown"),
        ),
        (
            {"error": {"code": -32602, "message": ""}},
            ("the MCP server gave error -32602 without a word", "failed"),
        ),
    ],
)
def test_an_answer_that_says_nothing_is_told_in_a_sentence(answer: Any, told_of: tuple[str, str]) -> None:
    """What can't be read, and what has no words: what the server did is unknown, unless the error says that."""
    assert ran(told(raw([LISTED], answer), call("x", "a"))) == [told_of]


def test_a_list_that_cannot_be_read_is_no_lost_connection() -> None:
    """A server that answers is there, whatever it says."""
    closed = {"error": {"code": types.CONNECTION_CLOSED, "message": "gone"}}
    fine = {"result": {"content": [{"type": "text", "text": "fine"}]}}
    server = raw([LISTED, TYPELESS], closed, fine)
    assert ran(told(server, call("x", "a"), call("y", "a"))) == [(f"gone{UNSURE}", "unknown"), ("fine", "ok")]


@pytest.mark.parametrize(
    ("listed", "kind", "said"),
    [
        (TYPELESS, InvalidTool, f"{UNREAD}tools.0.inputSchema.type: Field required"),
        ({"result": {"tools": "no"}}, InvalidTool, f"{UNREAD}tools: Input should be a valid list"),
        (
            {"error": {"code": -32601, "message": "no tools here"}},
            ConnectionError,
            "the MCP server does not list its tools: no tools here",
        ),
        (
            {"error": {"code": -32601, "message": ""}},
            ConnectionError,
            "the MCP server does not list its tools: the MCP server gave error -32601 without a word",
        ),
        (None, ConnectionError, "the MCP server does not list its tools: Connection closed"),
    ],
)
@pytest.mark.parametrize("unchecked", ["refuse", "skip"])
def test_a_server_that_lists_no_tools_is_refused(listed: Any, kind: type[Exception], said: str, unchecked: str) -> None:
    """In a sentence of ours, whatever becomes of tools that can't be offered."""
    with pytest.raises(kind) as caught:
        ran(told(raw([listed]), unchecked=unchecked))
    assert (type(caught.value), str(caught.value)) == (kind, said)


# --- coming and going ---------------------------------------------------------------------------------------


@asynccontextmanager
async def silent(log: list[str]) -> AsyncIterator[Any]:
    """A transport to a server that never answers."""
    try:
        async with create_client_server_memory_streams() as (streams, _):
            log.append("opened")
            yield streams
    finally:
        log.append("closed")


def test_a_process_is_gone_when_it_is_left() -> None:
    """No process is left, and a call after that is not sent."""

    async def main() -> tuple[int, str]:
        async with mcp_tools(["env", Path(STDIO[0]), *STDIO[1:]]) as tools:
            process = int(await named(tools)["pid"]({}))
        with pytest.raises(ToolFailed) as caught:
            await named(tools)["pid"]({})
        return process, str(caught.value)

    process, said = ran(main())
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    assert said == UNSENT


def test_a_cancellation_while_it_is_entered_closes_the_transport() -> None:
    """Nothing is left of a server that never answered."""
    log: list[str] = []

    async def main() -> None:
        entering = asyncio.create_task(told(silent(log)))
        while not log:
            await asyncio.sleep(0)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering

    ran(main())
    assert log == ["opened", "closed"]


def test_a_cancellation_while_it_is_left_waits_for_the_server() -> None:
    """The server has ended when the cancellation comes out."""
    log: list[str] = []

    async def main() -> None:
        leaving, end = asyncio.Event(), asyncio.Event()

        @asynccontextmanager
        async def lifespan(_: Any) -> AsyncIterator[None]:
            yield
            leaving.set()
            await end.wait()
            log.append("ended")

        using = asyncio.create_task(told(MCPServer("slow", lifespan=lifespan)))
        await leaving.wait()
        using.cancel()
        await asyncio.sleep(0)
        log.append("cancelled")
        end.set()
        with pytest.raises(asyncio.CancelledError):
            await using
        log.append("came out")

    ran(main())
    assert log == ["cancelled", "ended", "came out"]


def test_what_is_raised_inside_comes_out_as_it_is() -> None:
    """No group is made of it."""

    async def main() -> None:
        async with mcp_tools(server()):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        ran(main())


def test_it_may_be_left_in_another_task_and_another_order() -> None:
    """As what starts and stops an application does."""

    async def main() -> Any:
        one, other = mcp_tools(server("one")), mcp_tools(server("other"))
        tools = named(await one.__aenter__()), named(await other.__aenter__())
        await asyncio.create_task(one.__aexit__(None, None, None))
        said = await tools[1]["greet"]({"context": "Bo"})
        await asyncio.create_task(other.__aexit__(None, None, None))
        return said

    assert ran(main()) == "other greets Bo"


def test_a_client_of_ones_own_is_entered_and_a_session_in_use_stays_open() -> None:
    """A Client carries options of the SDK; a session is its owner's to close."""

    async def main() -> list[Any]:
        said = await told(Client(server(), mode="legacy"), call("a", "add", a=1))
        async with Client(server()) as client:
            said += await told(client.session, call("a", "add", a=1))
            said += await told(client.session, call("a", "seen"))
        return said

    assert ran(main()) == [("2", "ok"), ("2", "ok"), ("add 1 1", "ok")]


# --- what is offered ----------------------------------------------------------------------------------------


async def offered(server: Any, **options: Any) -> list[Any]:
    """What ``mcp_tools`` makes of a server's list."""
    async with mcp_tools(server, **options) as tools:
        return [(tool.name, tool.description, tool.effect) for tool in tools]


def test_a_tool_is_offered_as_the_server_tells_of_it() -> None:
    """Name, description, else title, and schema; the effect is ``once`` whatever the server hints."""

    async def main() -> Any:
        async with mcp_tools(server(), names=["add"]) as tools:
            return tools[0].input_schema

    assert ran(main()) == {
        "type": "object",
        "title": "addArguments",
        "properties": {"a": {"title": "A", "type": "integer"}, "b": {"title": "B", "type": "integer", "default": 1}},
        "required": ["a"],
    }
    assert ran(offered(server())) == [
        ("add", "Add two numbers.", "once"),
        ("greet", "", "once"),
        ("refuse", "Fail.", "once"),
        ("wait", "Report, and wait for ever.", "once"),
        ("waited", "Wait until ``wait`` was cancelled.", "once"),
        ("pid", "The process that this is", "once"),
        ("seen", "Which calls came here.", "once"),
    ]


@pytest.mark.parametrize(
    ("options", "got"),
    [
        ({"names": ["waited", "add"]}, [("waited", "once"), ("add", "once")]),
        ({"names": {"add": "plus"}, "prefix": "my_"}, [("my_plus", "once")]),
        ({"names": ()}, []),
        ({"names": ["add", "greet"], "effect": "read"}, [("add", "read"), ("greet", "read")]),
        (
            {"names": ["add", "waited", "greet", "refuse"], "trust_hints": True, "effect": "transactional"},
            [("add", "idempotent"), ("waited", "read"), ("greet", "transactional"), ("refuse", "transactional")],
        ),
    ],
)
def test_tools_are_chosen_and_named(options: dict[str, Any], got: list[Any]) -> None:
    """By the server's names, under names of one's own; hints are believed where one says so."""
    assert [(name, effect) for name, _, effect in ran(offered(server(), **options))] == got


def test_hints_that_say_nothing_change_nothing() -> None:
    """Annotations without a hint leave the effect as it is."""
    tool = plain(annotations=types.ToolAnnotations(title="Look"))
    assert ran(offered(listing(tool), trust_hints=True)) == [("look", "", "once")]


def test_all_pages_of_the_list_are_read() -> None:
    """Five tools, two on a page."""
    tools = [plain(f"t{n}") for n in range(5)]
    assert [name for name, _, _ in ran(offered(listing(*tools, page=2)))] == ["t0", "t1", "t2", "t3", "t4"]


def test_a_list_without_an_end_is_refused() -> None:
    """After so many pages nobody asks for another."""
    with pytest.raises(ValueError, match=f"list of tools has no end: {PAGES} pages were read"):
        ran(offered(listing(*[plain(f"t{n}") for n in range(PAGES + 1)], page=1)))


def test_what_cannot_be_offered_is_told_at_once() -> None:
    """Each tool with a name or a keyword that can't be, and the remedy."""
    bad = {"type": "object", "properties": {"n": {"if": {}}}}
    tools = plain("my tool"), plain(), plain("odd", bad)
    with pytest.raises(InvalidTool) as caught:
        ran(offered(listing(*tools)))
    assert str(caught.value).splitlines() == [
        "the MCP server has tools that can't be offered; choose others with names=[...], rename them with "
        "names={theirs: yours}, or give unchecked='skip':",
        "'my tool' can't be a tool: name must be 1 to 128 of the characters A-Z a-z 0-9 _ - . /; give another with "
        "name=",
        "odd: its input_schema can't be used:",
        "- properties.n.if: this keyword can't be checked; leave it out, and check it in the tool",
    ]
    assert ran(offered(listing(*tools), names={"my tool": "mine"})) == [("mine", "", "once")]


def test_what_cannot_be_offered_can_be_skipped(caplog: pytest.LogCaptureFixture) -> None:
    """The others are offered, and the log says which are not, and why."""
    bad = {"type": "object", "properties": {"n": {"if": {}}}}
    tools = plain("my tool"), plain(), plain("odd", bad)
    assert ran(offered(listing(*tools), unchecked="skip")) == [("look", "", "once")]
    logged: list[Any] = [record.message for record in caplog.records if record.name == "loopmachine"]
    assert logged == [
        Words("a tool of the MCP server is left out: 'my tool' can't be a tool: name must be"),
        Words("a tool of the MCP server is left out: odd: its input_schema can't be used:", "properties.n.if"),
    ]


def test_two_tools_of_one_name_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody knows which of them a call would reach, or a model would call; the others can be chosen."""
    twins = listing(plain("a", title="first"), plain("b"), plain("a", title="second"))
    for given, options, name in ((twins, {}, "'a'"), (listing(plain("a"), plain("b")), {"a": "c", "b": "c"}, "'c'")):
        with pytest.raises(InvalidTool) as caught:
            ran(offered(given, names=options or None))
        assert str(caught.value).splitlines()[1:] == [f"{name}: 2 tools have this name"]
    assert ran(offered(twins, names=["b"])) == ran(offered(twins, unchecked="skip")) == [("b", "", "once")]
    logged = [record.message for record in caplog.records if record.name == "loopmachine"]
    assert logged == ["a tool of the MCP server is left out: 'a': 2 tools have this name"]


def test_a_format_that_is_not_known_is_a_note() -> None:
    """It is left out of what is checked and offered, wherever a schema may be; all else stays as the server gave it."""

    def schema(**more: Any) -> dict[str, Any]:
        count = {"type": "integer", "minimum": 0, **more}
        return {
            "type": "object",
            "properties": {
                "format": count,
                "sizes": {"type": "array", "items": {"anyOf": [count, {"type": "null"}]}},
                "day": {"type": "string", "format": "date", "examples": [{"format": "day"}]},
                "mode": {"enum": [{"format": "raw"}], "default": {"format": "raw"}},
                "size": {"$ref": "#/$defs/size"},
            },
            "$defs": {"size": count},
            "required": ["format"],
            "additionalProperties": False,
        }

    async def main() -> Any:
        async with mcp_tools(listing(plain(schema=schema(format="uint64")))) as (tool,):
            wrong = tool.arguments.check('{"format": -1, "day": "today", "size": -2}')
            return tool.input_schema, tool.arguments.check('{"format": 5}'), wrong

    offered, right, wrong = ran(main())
    assert (offered, right, wrong) == (
        schema(),
        ('{"format":5}', ""),
        (None, Words("format: -1 where", "day: ", "size: -2 where")),
    )


def test_a_keyword_of_another_kind_is_refused_as_ever() -> None:
    """A format that is no text is a mistake, and no note."""
    with pytest.raises(InvalidTool, match=r"properties\.n\.format: it takes one of date"):
        ran(offered(listing(plain(schema={"type": "object", "properties": {"n": {"format": 5}}}))))


def test_a_tool_on_another_event_loop_is_refused() -> None:
    """It would wait there for ever: the answer comes to the loop on which the connection was opened."""

    async def main() -> Any:
        async with mcp_tools(server()) as tools:
            adding = played(tools, call("a", "add", a=1), DONE)
            elsewhere = await asyncio.to_thread(lambda: asyncio.run(adding))
            here = await played(tools, call("a", "add", a=1), DONE)
            return elsewhere.history[2], here.history[2]

    said = "this tool is used on another event loop than that which mcp_tools was entered on"
    assert ran(main()) == (brought("a", said, "failed"), brought("a", "2"))


OPTIONS = "its options: names, prefix, trust_hints, unchecked, effect, max_calls, needs_approval, sequential, timeout"
UNKNOWN = f"mcp_tools has no option 'handler'; {OPTIONS}; mcp_tools has no option 'zone'; {OPTIONS}"
NAMES = "names must be a list of the server's names, a dict from them to your own, or None, not "


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"names": "add"}, TypeError, NAMES + "'add'"),
        ({"names": 5}, TypeError, NAMES + "5"),
        ({"names": [5]}, TypeError, NAMES + "[5]"),
        ({"names": {"add": 5}}, TypeError, NAMES + "{'add': 5}"),
        ({"prefix": 5, "trust_hints": 1}, TypeError, "prefix must be text, not 5; trust_hints must be True or False, "),
        ({"names": ["ad", "x"]}, ValueError, "names: the MCP server has no 'ad', 'x'; its tools: add, greet, refuse, "),
        ({"timeout": 0}, InvalidTool, "'tool' can't be a tool: timeout must be a positive, finite number"),
        ({"timeout": 0, "unchecked": "skip"}, InvalidTool, "'tool' can't be a tool: timeout must be a positive"),
        ({"unchecked": "ignore"}, TypeError, "unchecked must be 'refuse' or 'skip', not 'ignore'"),
        ({"timout": 1}, TypeError, f"mcp_tools has no option 'timout'; {OPTIONS}; did you mean 'timeout'?"),
        ({"handler": 1, "zone": 2, "prefix": 5}, TypeError, f"prefix must be text, not 5; {UNKNOWN}"),
        ({"effect": "write"}, InvalidTool, "'tool' can't be a tool: effect must be one of 'read', 'idempotent', "),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], kind: type[Exception], said: str) -> None:
    """By name, with what would have been right."""
    with pytest.raises(kind) as caught:
        ran(offered(server(), **options))
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    "given", ["python server.py", "", [], ["python", 5], None, 5, {"command": "python"}, MCPServer]
)
def test_what_is_no_server_is_refused(given: Any) -> None:
    """The sentence lists what can be given; it does not show what was, which may hold a secret."""
    with pytest.raises(TypeError) as caught:
        ran(offered(given))
    assert str(caught.value) == (
        "server must be a command as a list, such as ['python', 'server.py'], a URL that begins with http, "
        "StdioServerParameters, MCPServer, Server, a transport, Client or ClientSession, not " + type(given).__name__
    )


def test_a_tool_does_not_show_its_connection() -> None:
    """What a client was given, such as a server's environment, may be a secret."""

    async def main() -> str:
        async with mcp_tools(Client(server(), client_info=types.Implementation(name="hush", version="1"))) as tools:
            return repr(tools)

    said = ran(main())
    assert ("Tool(name='add'" in said, "hush" in said) == (True, False)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The import says what to install."""
    for name in [name for name in sys.modules if name.startswith("loopmachine.mcp")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(ImportError, match=r"pip install 'loopmachine\[mcp\]'"):
        importlib.import_module("loopmachine.mcp")


# --- what a server answers ------------------------------------------------------------------------------------


def text(*texts: str) -> list[types.ContentBlock]:
    """Text content."""
    return [types.TextContent(text=one) for one in texts]


PNG = base64.b64encode(b"dot").decode()
DOT = ImageBlock(b"dot", "image/png")


@pytest.mark.parametrize(
    ("blocks", "structured", "got"),
    [
        (text(), None, ""),
        (text("a", "b"), None, "a\nb"),
        (text(), {"n": 1}, '{"n":1}'),
        (text(), {"result": []}, '{"result":[]}'),
        (text('{ "a": 1,\n "b": "ü" }'), {"b": "ü", "a": 1}, '{ "a": 1,\n "b": "ü" }'),
        (text('{"a": 1}'), {"a": True}, '{"a": 1}\n{"a":true}'),
        (text("3 found"), {"found": ["ä", 2, 3]}, '3 found\n{"found":["ä",2,3]}'),
        (text("5"), {"result": 5}, "5"),
        (text("5"), {"result": "5"}, "5"),
        (text("5"), {"result": [5]}, "5"),
        (text("5"), {"result": 6}, '5\n{"result":6}'),
        (text("5", "six"), {"result": [5, "six"]}, "5\nsix"),
        (text("5", "6"), {"result": ["5", "6"]}, "5\n6"),
        (text("5", "6"), [5, 6], "5\n6"),
        (text("[" * 100_000), {"result": 1}, "[" * 100_000 + '\n{"result":1}'),
        ([types.ImageContent(data=PNG, mime_type="image/png")], None, [DOT]),
        ([*text("a"), types.ImageContent(data=PNG, mime_type="image/png")], {"n": 1}, ["a", DOT, '{"n":1}']),
        (
            [types.ImageContent(data=PNG, mime_type="image/tiff")],
            None,
            "[image/tiff, 4 characters of base64: left out]",
        ),
        (
            [types.ImageContent(data="ZG90!", mime_type="image/png")],
            None,
            "[image/png, 5 characters of base64: left out]",
        ),
        (
            [types.AudioContent(data=PNG, mime_type="audio/wav")],
            None,
            "[audio/wav, 4 characters of base64: left out]",
        ),
        ([types.ResourceLink(name="notes", uri="file:///n.txt")], None, "[link to file:///n.txt: notes]"),
        (
            [types.ResourceLink(name="n", title="Notes", description="of today", uri="x:n")],
            None,
            "[link to x:n: of today]",
        ),
        (
            [types.EmbeddedResource(resource=types.TextResourceContents(uri="x:n", text="rain"))],
            None,
            "[x:n]\nrain",
        ),
        (
            [types.EmbeddedResource(resource=types.BlobResourceContents(uri="x:p", blob=PNG, mime_type="image/png"))],
            None,
            ["[x:p]", DOT],
        ),
        (
            [types.EmbeddedResource(resource=types.BlobResourceContents(uri="x:b", blob=PNG))],
            None,
            "[x:b]\n[binary data, 4 characters of base64: left out]",
        ),
    ],
)
def test_an_answer_is_text_and_images(blocks: list[types.ContentBlock], structured: Any, got: Any) -> None:
    """Nothing is left out without a word, and nothing is said twice."""
    assert content(types.CallToolResult(content=blocks, structured_content=structured)) == got


@pytest.mark.parametrize(
    ("blocks", "structured", "said"),
    [
        (text("no such order"), None, "no such order"),
        (text("no such order"), {"known": ["A-17"]}, 'no such order\n{"known":["A-17"]}'),
        (
            [*text("seen here:"), types.ImageContent(data=PNG, mime_type="image/png")],
            None,
            "seen here:\n[image/png: left out]",
        ),
        (text(" "), None, "the MCP server says that this call failed, and not why"),
        (text(), None, "the MCP server says that this call failed, and not why"),
    ],
)
def test_an_answer_that_is_an_error_is_raised(blocks: list[types.ContentBlock], structured: Any, said: str) -> None:
    """In the server's words, all of them."""
    with pytest.raises(ToolFailed) as caught:
        content(types.CallToolResult(content=blocks, structured_content=structured, is_error=True))
    assert str(caught.value) == said


def test_wrong_options_are_told_before_a_server_is_started(tmp_path: Path) -> None:
    """A server that never runs does nothing that would have to be undone."""
    started = tmp_path / "started"
    with pytest.raises(InvalidTool, match="timeout must be"):
        ran(offered([sys.executable, "-c", f"open({str(started)!r}, 'w')"], timeout=0))
    assert not started.exists()
