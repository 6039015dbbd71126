"""A real MCP server: in this process, or in one of its own over stdio or HTTP. It knows which calls reached it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

_HERE = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r}); from tests.mcp_server import server; "
_RAW = """
import json, sys
answers = json.loads(sys.argv[1])
for line in sys.stdin:
    asked = json.loads(line)
    told = answers.get(asked["method"], [])
    if "id" in asked:
        answer = (told.pop(0) if len(told) > 1 else told[0]) if told else {"error": {"code": -32601, "message": "no"}}
        if answer is None:
            break
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""
STDIO = [sys.executable, "-c", _HERE + "server().run()"]


def server(name: str = "tests") -> MCPServer:
    """A new server that no call has reached."""
    made = MCPServer(name)
    seen: list[str] = []
    stopped = asyncio.Event()

    @made.tool(annotations=ToolAnnotations(idempotent_hint=True))
    def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        seen.append(f"add {a} {b}")
        return a + b

    @made.tool(structured_output=False)
    def greet(context: str) -> str:
        seen.append(f"greet {context}")
        return f"{made.name} greets {context}"

    @made.tool()
    def refuse() -> str:
        """Fail."""
        raise ToolError("there is no träd")

    @made.tool()
    async def wait(ctx: Context) -> None:
        """Report, and wait for ever."""
        await ctx.report_progress(1, 2, "waiting")
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    @made.tool(annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True))
    async def waited() -> str:
        """Wait until ``wait`` was cancelled."""
        await stopped.wait()
        return "cancelled"

    @made.tool(title="The process that this is")
    def pid() -> int:
        return os.getpid()

    @made.tool(name="seen")
    def told() -> list[str]:
        """Which calls came here."""
        return seen

    return made


def raw(listed: list[Any], *called: Any) -> list[str]:
    """A server that keeps no rule: its answers to tools/list and tools/call in turn, the last again; None: it exits."""
    about = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "", "version": ""}}
    answers = {"initialize": [{"result": about}], "tools/list": listed, "tools/call": called}
    return [sys.executable, "-c", _RAW, json.dumps(answers)]


@contextmanager
def over_http() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A server in a process of its own: its URL on loopback, and the process."""
    with socket.create_server(("127.0.0.1", 0)) as listening:  # who comes before it serves waits
        address, handle = listening.getsockname(), listening.fileno()
        code = f"import uvicorn; uvicorn.run(server().streamable_http_app(), fd={handle}, log_level='error')"
        process = subprocess.Popen([sys.executable, "-c", _HERE + code], pass_fds=[handle])
    try:
        yield f"http://127.0.0.1:{address[1]}/mcp", process
    finally:
        process.kill()
        process.wait()
