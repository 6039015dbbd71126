"""A tool's own timeout, kept whoever performs its calls: in real seconds, whatever the clock of the run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any
from typing import Final as Constant

from loopmachine.errors import ToolFailed
from loopmachine.tools.context import CancelToken
from loopmachine.tools.tool import Tool

PASSED: Constant = "its timeout passed"
Outcome = tuple[Any, BaseException | None]  #: what a function returned, and what it raised


class TimedOut(ToolFailed):
    """The timeout of a tool passed: the call is ``timed_out``. No tool raises it itself."""

    outcome = "timed_out"


def outcome_of(function: Callable[[], Any]) -> Outcome:
    """What a function brings, whatever it raises: a future can't hold every exception, such as StopIteration."""
    try:
        return function(), None
    except BaseException as raised:
        return None, raised


def last_words(cancelled: BaseException | None) -> list[str]:
    """What an async tool that was cancelled says of itself: the notes that it added to the CancelledError."""
    return [note for note in getattr(cancelled, "__notes__", ()) if isinstance(note, str)]


def timed(tool: Tool, seconds: float, expired: CancelToken) -> Callable[..., Any]:
    """The tool's handler as one that tells ``expired`` and raises TimedOut once so many seconds have passed."""
    longest = min(seconds, threading.TIMEOUT_MAX)
    return partial(_cut if tool.is_async else _left, tool, longest, expired)


def _left(tool: Tool, seconds: float, expired: CancelToken, /, *args: Any, **named: Any) -> Any:
    """On a thread of its own that nobody waits for any longer, not even the interpreter when it exits."""
    brought: SimpleQueue[Outcome] = SimpleQueue()
    work = partial(copy_context().run, tool.handler, *args, **named)
    threading.Thread(target=lambda: brought.put(outcome_of(work)), name=f"loopmachine {tool.name}", daemon=True).start()
    try:
        value, raised = brought.get(timeout=seconds)
    except Empty:
        with suppress(Exception):  # what somebody raises who is told makes the call no less late
            expired.cancel(PASSED)
        raise TimedOut(f"{tool.name} timed out after {tool.timeout} seconds; it may still be at work") from None
    if raised is not None:
        raise raised
    return value


async def _cut(tool: Tool, seconds: float, expired: CancelToken, /, *args: Any, **named: Any) -> Any:
    """Cancelled, and awaited; what it returns in spite of that is discarded."""
    import asyncio

    limit, own = asyncio.timeout(seconds), list[str]()
    telling = asyncio.get_running_loop().call_later(seconds, expired.cancel, PASSED)
    try:
        async with limit:
            value = await tool.handler(*args, **named)
    except Exception as error:  # its own, or what became of the cancellation; that of somebody else passes through
        if not limit.expired():
            raise
        own = last_words(error.__cause__)
    finally:
        telling.cancel()
    if limit.expired():
        raise TimedOut("\n".join([f"{tool.name} timed out after {tool.timeout} seconds and was cancelled", *own]))
    return value
