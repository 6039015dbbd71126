"""The same runs against ``llmock``, a mock server that others wrote, which judges what a client does about a fault."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from typing import Final as Constant

import pytest
from llmock.pytest_plugin import LLMock

from loopmachine import ModelError, Policy, Result
from tests.sdks import STREAMED, Way, every_way, model_of, ran

LONG: Constant = 60  #: seconds in which all happens that does

ROOTS = {"openai_chat": "", "openai_responses": "", "anthropic": "/anthropic", "google": "/gemini"}
Fault = Callable[[LLMock], object]


def against(mock: LLMock, way: Way, **options: Any) -> Result:
    """A run against it."""
    return ran(way, mock.url + ROOTS[way.maker], prompt="Please look at 7.", **options)


def findings(mock: LLMock) -> list[str]:
    """What it has to say of the client."""
    return [finding.code for finding in mock.verdict().findings]


@every_way
def test_a_run_with_a_call_is_answered(way: Way, llmock: LLMock) -> None:
    """The tool runs, and its result is accepted."""
    result = against(llmock.call_tool("look", {"n": 7}).reply("It is 42."), way)
    assert (result.status, [one.content for one in result.results], len(llmock.requests)) == ("answered", ["seen 7"], 2)
    assert findings(llmock) == []


@every_way
def test_too_many_requests_are_waited_for(way: Way, llmock: LLMock) -> None:
    """As long as the server says."""
    llmock.rate_limit(retry_after=0.2).tool_mode("off")
    result = against(llmock, way, policy=Policy(model_retries=1))
    assert (result.status, result.spend.steps, findings(llmock)) == ("answered", 2, [])


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
@every_way
def test_what_no_retry_can_help_is_not_retried(way: Way, status: int, llmock: LLMock) -> None:
    """Whatever the policy bears."""
    result = against(llmock.fail(status, times=None), way, policy=Policy(model_retries=3))
    assert (result.status, len(llmock.requests), findings(llmock)) == ("model_error", 1, [])


#: Each with the seconds for which the first request waits for a chunk.
FAULTS: dict[str, tuple[Fault, float]] = {
    "disconnect": (lambda mock: mock.disconnect(after_chunks=1), LONG),
    "truncate": (lambda mock: mock.truncate(after_chunks=1), LONG),
    "corrupt": (lambda mock: mock.corrupt(after_chunks=1).pace(100), LONG),  # the rest would take it half a minute
    "stall": (lambda mock: mock.stall(after_chunks=1, seconds=LONG), 0.5),
}


class Held:
    """A model whose first request has its own timeout, and which fails only when the mock has seen its request end.

    The mock calls a request a retry only if it saw the one before it end. After a failure it streams at full speed.
    """

    def __init__(self, mock: LLMock, way: Way, client: Any, timeout: float) -> None:
        self.mock = mock
        self.first, self.later = (model_of(way, client, timeout=seconds) for seconds in (timeout, LONG))
        self.wire = self.first.wire
        self.asked = 0

    def next(self) -> Any:
        """What the next request is asked with."""
        self.asked += 1
        return self.first if self.asked == 1 else self.later

    def ended(self) -> None:
        """Wait until the mock has seen the last request end."""
        assert any(len(self.mock.requests) == self.asked for _ in range(30))  # this waits itself, two seconds
        self.mock.pace(0)

    def __call__(self, messages: Any, tools: Any, ask: Any) -> Any:
        """Ask the model."""
        try:
            return self.next()(messages, tools, ask)
        except ModelError:
            self.ended()
            raise


class AsyncHeld(Held):
    """The same of an async client, whose connection its event loop closes meanwhile."""

    async def __call__(self, messages: Any, tools: Any, ask: Any) -> Any:
        """Ask the model."""
        try:
            return await self.next()(messages, tools, ask)
        except ModelError:
            await asyncio.to_thread(self.ended)
            raise


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("way", STREAMED, ids=str)
def test_a_stream_that_goes_wrong_is_no_turn(way: Way, fault: str, llmock: LLMock) -> None:
    """It is given up at once and asked for again, and nothing of the first is used."""
    llmock.call_tool("look", {"n": 7}, text="I will look. " * 100, times=2).reply("Yes.")
    spoil, timeout = FAULTS[fault]
    spoil(llmock)

    def make(client: Any) -> Held:
        return (AsyncHeld if way.asynchronous else Held)(llmock, way, client, timeout)

    result = against(llmock, way, policy=Policy(model_retries=1), make=make)
    assert (result.status, [one.content for one in result.results], len(llmock.requests)) == ("answered", ["seen 7"], 3)
    assert findings(llmock) == []


@pytest.mark.parametrize("kind", ["unknown_tool", "malformed_arguments"])
@every_way
def test_a_call_that_is_broken_is_answered_to_the_model(way: Way, kind: str, llmock: LLMock) -> None:
    """Nothing is run of it, and the run goes on."""
    result = against(llmock.break_tool_call(kind), way)
    assert (result.status, findings(llmock)) == ("answered", [])
