"""A tool's own timeout, kept whoever performs its calls: in real seconds, whatever the clock of the run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from loopmachine.errors import ToolFailed
from loopmachine.tools.tool import Tool

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


def timed(tool: Tool, seconds: float) -> Callable[..., Any]:
    """The tool's handler as one that raises TimedOut once so many seconds have passed."""
    longest = min(seconds, threading.TIMEOUT_MAX)
    return partial(_cut if tool.is_async else _left, tool, longest)


def _left(tool: Tool, seconds: float, /, *args: Any, **named: Any) -> Any:
    """On a thread of its own that nobody waits for any longer, not even the interpreter when it exits."""
    brought: SimpleQueue[Outcome] = SimpleQueue()
    work = partial(copy_context().run, tool.handler, *args, **named)
    threading.Thread(target=lambda: brought.put(outcome_of(work)), name=f"loopmachine {tool.name}", daemon=True).start()
    try:
        value, raised = brought.get(timeout=seconds)
    except Empty:
        raise TimedOut(f"{tool.name} timed out after {tool.timeout} seconds; it may still be at work") from None
    if raised is not None:
        raise raised
    return value


async def _cut(tool: Tool, seconds: float, /, *args: Any, **named: Any) -> Any:
    """Cancelled, and awaited; what it brings in spite of that is discarded."""
    import asyncio

    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            value = await tool.handler(*args, **named)
    except Exception:  # its own, or what became of the cancellation; that of somebody else passes through
        if not limit.expired():
            raise
    if limit.expired():
        raise TimedOut(f"{tool.name} timed out after {tool.timeout} seconds and was cancelled")
    return value
