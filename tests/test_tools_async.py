"""Async tools in the toolbox: awaited, cancelled, and told of as sync ones are."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loopmachine.errors import Denied
from loopmachine.records import Call, CallResult
from loopmachine.tools import Context, Toolbox
from tests.test_tools_toolbox import BOX, UNAWAITED, perform, prepared


def performed(box: Toolbox, call: Call, seconds: float | None = None) -> CallResult:
    """What an async call brings, cancelled after some seconds."""

    async def within() -> CallResult:
        return await asyncio.wait_for(box.perform_async(call, Context(), error_text="message", max_chars=99), seconds)

    return asyncio.run(within())


def test_which_calls_are_async_is_known() -> None:
    """Async tools are known by name and by their call; an unknown one is not async."""
    assert BOX.asynchronous == ["wait"]
    assert [BOX.is_async(prepared(name)) for name in ("wait", "look", "nothing")] == [True, False, False]


def test_an_async_tool_brings_its_result() -> None:
    """What an async tool returns is the content."""
    call = prepared("wait")
    assert performed(BOX, call) == CallResult.of(call, "ok", "waited")


def test_an_async_tool_is_not_run_as_a_sync_one() -> None:
    """perform refuses an async tool and says what to use."""
    with pytest.raises(TypeError, match="wait is async; use perform_async, or run_async"):
        perform("wait")


def test_a_cancellation_passes_through() -> None:
    """A cancelled async tool is not its own failure: the host knows what it means."""
    with pytest.raises(asyncio.TimeoutError):
        performed(BOX, prepared("wait", {"seconds": 30}), 0.001)


async def afailing(kind: str) -> Any:
    """Denies, fails, or returns a coroutine."""
    if kind == "deny":
        raise Denied("no")
    if kind == "nested":
        return asyncio.sleep(0)
    raise ValueError("bad")


@pytest.mark.parametrize(
    ("kind", "outcome", "content", "code"),
    [
        ("deny", "denied", "no", "no"),
        ("raise", "failed", "ValueError: bad", ""),
        ("nested", "failed", UNAWAITED.replace("failing", "afailing"), ""),
    ],
)
def test_an_async_tool_that_fails_is_told_of(kind: str, outcome: str, content: str, code: str) -> None:
    """Denials and failures of an async tool are results as those of a sync one."""
    box = Toolbox([afailing])
    call = prepared("afailing", {"kind": kind}, box)
    assert performed(box, call) == CallResult.of(call, outcome, content, code)


def test_an_async_call_of_a_tool_that_is_gone_says_so() -> None:
    """After a restore without the tool an async call is answered truthfully too."""
    assert performed(Toolbox(), prepared("wait")).outcome == "unknown_tool"
