"""The same runs against ``llmock``, a mock server that others wrote, which judges what a client does about a fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from llmock.pytest_plugin import LLMock

from loopmachine import Policy, Result
from tests.sdks import STREAMED, Way, every_way, ran

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


FAULTS: dict[str, Fault] = {
    "disconnect": lambda mock: mock.disconnect(after_chunks=1),
    "truncate": lambda mock: mock.truncate(after_chunks=1),
    "corrupt": lambda mock: mock.corrupt(after_chunks=1).pace(100),  # so that the server sees who stops reading
    "stall": lambda mock: mock.stall(after_chunks=1, seconds=2),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("way", STREAMED, ids=str)
def test_a_stream_that_goes_wrong_is_no_turn(way: Way, fault: str, llmock: LLMock) -> None:
    """It is asked for again, and nothing of the first is used."""
    llmock.call_tool("look", {"n": 7}, text="I will look.", times=2).reply("Yes.")
    FAULTS[fault](llmock)
    result = against(llmock, way, policy=Policy(model_retries=1), adapter={"timeout": 0.3})
    assert (result.status, [one.content for one in result.results], len(llmock.requests)) == ("answered", ["seen 7"], 3)
    # Not shown of a corrupt stream: the mock calls a retry one only where it saw the first request end before it.
    unshown = {"malformed_chunk_ignored"} if fault == "corrupt" else set()
    assert set(findings(llmock)) - unshown == set()


@pytest.mark.parametrize("kind", ["unknown_tool", "malformed_arguments"])
@every_way
def test_a_call_that_is_broken_is_answered_to_the_model(way: Way, kind: str, llmock: LLMock) -> None:
    """Nothing is run of it, and the run goes on."""
    result = against(llmock.break_tool_call(kind), way)
    assert (result.status, findings(llmock)) == ("answered", [])
