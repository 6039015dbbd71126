"""The ten fixtures: replies in Anthropic's shape, the demo's tools on a real SQLite file, 3 steps, 2 calls."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from loopmachine import ANTHROPIC, Budget, Policy
from loopmachine.demo import Desk, Tickets, get_ticket, propose_label
from tests.drivers import DRIVERS, GO, Driver, Stage, Told, Words, brought, call, spent

ONE_AT_A_TIME = Policy(batch="reject")

# --- what the model replies -------------------------------------------------------------------------------


def says(*blocks: Any, stop: str = "tool_use") -> dict[str, Any]:
    """A message of the Messages API."""
    return {"type": "message", "role": "assistant", "content": list(blocks), "stop_reason": stop}


def use(asked: dict[str, Any]) -> dict[str, Any]:
    """The block that asks for this call."""
    return {"type": "tool_use", "id": asked["id"], "name": asked["name"], "input": asked["arguments"]}


def read(one: str, ticket_id: str = "T-1") -> dict[str, Any]:
    """A call that reads a ticket."""
    return call(one, "get_ticket", ticket_id=ticket_id)


def propose(one: str, version: Any = 3, **more: Any) -> dict[str, Any]:
    """A call that proposes a label for T-1, whose version is 3."""
    return call(one, "propose_label", ticket_id="T-1", label="billing", expected_version=version, **more)


END = says({"type": "text", "text": "That is all."}, stop="end_turn")
ANSWER = {"kind": "final", "text": "That is all."}

# --- what it is told --------------------------------------------------------------------------------------

TICKET = Words('"ticket_id":"T-1"', '"version":3', "charged twice")
PROPOSED = Words('"applied":false', "person will decide")


def answered(steps: int, calls: int, *history: Any, ran: list[str], proposals: int = 0) -> tuple[Told, int, bool]:
    """A run that the model ended with its answer, the proposals kept, and the tickets unchanged."""
    return Told("answered", spent(steps, calls), [GO, *history, ANSWER], ran), proposals, True


def stopped(status: str, steps: int, calls: int, *history: Any, ran: list[str]) -> tuple[Told, int, bool]:
    """A run that ended otherwise, no proposal kept, and the tickets unchanged."""
    return Told(status, spent(steps, calls), [GO, *history], ran), 0, True


FIXTURES: dict[str, tuple[list[Any], tuple[Told, int, bool]]] = {
    "read, propose, final text": (
        [says(use(read("a"))), says(use(propose("b"))), END],
        answered(
            *(3, 2, read("a"), brought("a", TICKET), propose("b"), brought("b", PROPOSED)),
            ran=["get_ticket T-1", "propose_label T-1"],
            proposals=1,
        ),
    ),
    "ticket outside the permitted set": (
        [says(use(read("a", "T-4"))), END],
        answered(
            *(2, 1, read("a", "T-4"), brought("a", Words("record_unavailable"), "denied")), ran=["get_ticket T-4"]
        ),
    ),
    "tool named send_email": (
        [says(use(call("a", "send_email", to="x"))), END],
        answered(
            *(2, 1, call("a", "send_email", to="x")),
            brought("a", Words("send_email", "get_ticket, propose_label"), "unknown_tool"),
            ran=[],
        ),
    ),
    "extra argument authorized": (
        [says(use(propose("a", authorized=True))), END],
        answered(
            *(2, 1, propose("a", authorized=True), brought("a", Words("authorized"), "invalid_arguments")), ran=[]
        ),
    ),
    "proposal for version 2": (
        [says(use(propose("a", 2))), END],
        answered(*(2, 1, propose("a", 2), brought("a", Words("stale_version"), "denied")), ran=["propose_label T-1"]),
    ),
    "proposal for version true": (
        [says(use(propose("a", True))), END],
        answered(
            *(2, 1, propose("a", True)),
            brought("a", Words("expected_version", "true"), "invalid_arguments"),
            ran=[],
        ),
    ),
    "three fresh read requests": (
        [says(use(read(one))) for one in "abc"],
        stopped(
            *("call_budget", 3, 2, read("a"), brought("a", TICKET), read("b"), brought("b", TICKET)),
            ran=["get_ticket T-1", "get_ticket T-1"],
        ),
    ),
    "repeated call id": (
        [says(use(read("a"))), says(use(propose("a"))), END],
        stopped("repeated_call", 2, 1, read("a"), brought("a", TICKET), ran=["get_ticket T-1"]),
    ),
    "max_tokens stop": (
        [says(use(read("a")), stop="max_tokens"), END],
        stopped("incomplete", 1, 0, ran=[]),
    ),
    "two calls in one response": (
        [says(use(read("a")), use(propose("b"))), END],
        stopped("unsupported_batch", 1, 0, ran=[]),
    ),
    "content that is not a list of blocks": (
        [{**END, "content": "Here it is."}, END],
        stopped("malformed", 1, 0, ran=[]),
    ),
    "content that is a list of something else": (
        [says("Here it is."), END],
        stopped("malformed", 1, 0, ran=[]),
    ),
}


@pytest.fixture
def tickets(tmp_path: Path) -> Tickets:
    """The demo's tickets in a new file."""
    return Tickets(tmp_path / "tickets.sqlite")


def rows(tickets: Tickets, query: str) -> list[Any]:
    """What a query finds in the file."""
    with closing(sqlite3.connect(tickets.path)) as db:
        return db.execute(query).fetchall()


def play(driver: Driver, tickets: Tickets, script: list[Any], budget: Budget, **options: Any) -> tuple[Told, int, bool]:
    """How a run ended with the tools that ran, the proposals there are now, and whether the tickets are unchanged."""
    stage, before = Stage(driver), rows(tickets, "SELECT * FROM tickets")
    stage.run(
        *script,
        tools=driver.tools([get_ticket, propose_label]),
        budget=budget,
        policy=ONE_AT_A_TIME,
        wire=ANTHROPIC,
        context=Desk(tickets),
        **options,
    )
    stage.effects += [" ".join(one) for one in rows(tickets, "SELECT tool, ticket_id FROM executions ORDER BY rowid")]
    proposals = len(rows(tickets, "SELECT * FROM proposals"))
    return stage.told(stage.result), proposals, rows(tickets, "SELECT * FROM tickets") == before


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
@pytest.mark.parametrize("fixture", FIXTURES)
def test_a_fixture(fixture: str, driver: Driver, tickets: Tickets) -> None:
    """Status, spend, whole history and tools run are as the fixture says, and no ticket in the database changed."""
    script, expected = FIXTURES[fixture]
    assert play(driver, tickets, script, Budget(max_steps=3, max_calls=2)) == expected


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
def test_a_read_at_the_last_step(driver: Driver, tickets: Tickets) -> None:
    """With max_steps=1 a read ends the run at the step budget, its result in the history."""
    expected = stopped("step_budget", 1, 1, read("a"), brought("a", TICKET), ran=["get_ticket T-1"])
    assert play(driver, tickets, [says(use(read("a"))), END], Budget(max_steps=1)) == expected


def test_the_permitted_tickets_are_the_callers_own(tickets: Tickets) -> None:
    """Another caller may read T-4, and the model can say nothing that makes it so: there is no such argument."""
    stage = Stage(DRIVERS[0])
    stage.run(
        *(says(use(read("a", "T-4"))), END),
        tools=[get_ticket],
        wire=ANTHROPIC,
        context=Desk(tickets, frozenset({"T-4"})),
    )
    assert (
        [one.outcome for one in stage.result.results],
        list(get_ticket.input_schema["properties"]),
        list(propose_label.input_schema["properties"]),
    ) == (["ok"], ["ticket_id"], ["ticket_id", "label", "expected_version"])


def test_what_anthropic_is_sent_next(tickets: Tickets) -> None:
    """The blocks go back as received, then one user message holds the results, errors marked."""
    stage = Stage(DRIVERS[0])
    first = says({"type": "text", "text": "I look."}, use(read("a")), use(read("b", "T-4")))
    stage.run(first, END, tools=[get_ticket], wire=ANTHROPIC, context=Desk(tickets))
    ticket, denied = (one.content for one in stage.result.results)
    assert stage.asked[1] == [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": first["content"]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": ticket, "is_error": False},
                {"type": "tool_result", "tool_use_id": "b", "content": denied, "is_error": True},
            ],
        },
    ]
    assert json.loads(ticket)["version"] == 3
