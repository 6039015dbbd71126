"""A connection to an MCP server: opened, asked, and closed again whatever happens."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any
from typing import Final as Constant

import attrs
from mcp import Client, ClientSession, MCPError, StdioServerParameters, types
from mcp.server import MCPServer, Server

from loopmachine.blocks import ImageBlock
from loopmachine.errors import InvalidTool, ToolFailed
from loopmachine.mcp.content import content
from loopmachine.tools import Context
from loopmachine.tools.makers import details
from loopmachine.tools.words import listed

PAGES: Constant = 100  #: of a server's list of tools
_SERVERS: Constant = (StdioServerParameters, MCPServer, Server, AbstractAsyncContextManager)
_UNSURE: Constant = (types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT)
_UNSAID: Constant = "nobody knows whether this call did anything"
_NOBODYS: Constant = Context()
_logger = logging.getLogger("loopmachine")


class Unknown(ToolFailed):
    """The server was asked and did not answer: the call is ``unknown``."""

    outcome = "unknown"


@attrs.frozen
class Connection:
    """A server that can be asked, on the event loop ``home``. ``task`` is done once it can't be any more."""

    client: Client | ClientSession = attrs.field(repr=False)  # its repr may hold secrets
    task: asyncio.Task[None] | None = attrs.field(default=None, repr=False)
    home: asyncio.AbstractEventLoop = attrs.field(factory=asyncio.get_running_loop, repr=False)
    _doubted: asyncio.Event = attrs.field(factory=asyncio.Event, init=False, repr=False)  #: it seemed to be closed

    async def tools(self) -> list[types.Tool]:
        """All that the server lists, on however many pages.

        Raises ConnectionError where it lists nothing, InvalidTool for a page that the SDK can't read, ValueError for a
        list without an end.
        """
        tools: list[types.Tool] = []
        cursor = None
        for _ in range(PAGES):
            try:
                page = await self._page(cursor)
            except MCPError as error:
                raise ConnectionError(f"the MCP server does not list its tools: {_words(error)}") from error
            except ValueError as error:  # pydantic's; the SDK gives nothing of a page then
                faults = [f"{'.'.join(map(str, place))}: {said}" for place, _, said in details(error)]
                why = f"the MCP server's list of tools can't be read, so that none can be offered: {listed(faults)}"
                raise InvalidTool(why) from error
            tools += page.tools
            cursor = page.next_cursor
            if cursor is None:
                return tools
        raise ValueError(f"the MCP server's list of tools has no end: {PAGES} pages were read")

    async def _page(self, cursor: str | None) -> types.ListToolsResult:
        session = self.client.session if isinstance(self.client, Client) else self.client  # a Client may keep a page
        return await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))

    async def call(
        self, name: str, arguments: dict[str, Any], context: Context = _NOBODYS
    ) -> str | list[str | ImageBlock]:
        """Have the server perform a call. Raises ToolFailed in the server's own words, Unknown where it has none."""
        if asyncio.get_running_loop() is not self.home:  # nobody would be woken by the answer
            raise ToolFailed("this tool is used on another event loop than that which mcp_tools was entered on")
        if await self._is_lost():
            raise ToolFailed("the connection to the MCP server is lost; this call was not sent")

        async def told(progress: float, total: float | None, message: str | None) -> None:
            context.progress(progress, total, message or "")

        try:
            answer = await self.client.call_tool(name, arguments, progress_callback=told)
        except MCPError as error:
            if error.code in _UNSURE:
                self._doubted.set()
                raise Unknown(f"{_words(error)}; {_UNSAID}", str(error.code)) from error
            raise ToolFailed(_words(error), str(error.code)) from error
        except ValueError as error:  # pydantic's
            raise Unknown(f"the MCP server's answer can't be read; {_UNSAID}") from error
        return content(answer)

    async def _is_lost(self) -> bool:
        """Whether it is known to be closed. An error that says so may be the server's own: who lists tools is there."""
        if self.task is not None and self.task.done():
            return True
        if self._doubted.is_set():
            try:
                await self._page(None)
            except MCPError as error:
                return error.code == types.CONNECTION_CLOSED
            except ValueError:  # pydantic's: who answers is there
                pass
            self._doubted.clear()
        return False


@asynccontextmanager
async def connected(server: Any) -> AsyncIterator[Connection]:
    """A connection, closed when this is left. Raises ConnectionError where there can be none, TypeError for no server.

    The client lives in a task of its own. In the caller's, what it runs beside it would cancel the run when it fails,
    and wrap in groups what the run raises.
    """
    if isinstance(server, ClientSession):
        yield Connection(server)
        return
    client = _client(server)
    entered, leave = asyncio.Event(), asyncio.Event()

    async def live() -> None:
        async with client:
            entered.set()
            await leave.wait()

    def ended(task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and entered.is_set():
            _logger.warning("the connection to an MCP server ended with %s", _first(error))
        entered.set()

    task = asyncio.create_task(live())
    task.add_done_callback(ended)
    try:
        await entered.wait()
        error = task.exception() if task.done() else None
        if error is not None:
            raise ConnectionError(f"the MCP server can't be reached: {_first(error)}") from error
        yield Connection(client, task)
    finally:
        if not entered.is_set():
            task.cancel()
        leave.set()
        await _done(task)


async def _done(task: asyncio.Task[None]) -> None:
    """Wait until the server is gone; a cancellation waits too."""
    cancelled = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


def _client(server: Any) -> Client:
    if isinstance(server, Client):
        return server
    if isinstance(server, list | tuple) and server and all(isinstance(word, str | os.PathLike) for word in server):
        command, *words = map(os.fspath, server)
        return Client(StdioServerParameters(command=command, args=words))
    if isinstance(server, _SERVERS) or (isinstance(server, str) and server.startswith(("http://", "https://"))):
        return Client(server)
    raise TypeError(
        "server must be a command as a list, such as ['python', 'server.py'], a URL that begins with http, "
        f"StdioServerParameters, MCPServer, Server, a transport, Client or ClientSession, not {type(server).__name__}"
    )


def _words(error: MCPError) -> str:
    """What an error of the protocol says; its code where that is nothing."""
    return error.message.strip() or f"the MCP server gave error {error.code} without a word"


def _first(error: BaseException) -> str:
    """What was raised first, out of the groups that it comes in."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
