"""What a run brought, read from its snapshot."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from loopmachine import TOOL_LOOP, Loop, Result, Row, Spend, State, Status
from loopmachine.events import CancelPolled, CancelRequested, Event
from loopmachine.records import Snapshot
from loopmachine.requests import AskApproval
from tests.drivers import DONE, GO, brought, call, calls
from tests.test_loop import ENDS, RESTS, TOOLS, by_hand, ended, started, visited

#: The kind of each end, as the diagram shows it.
FAULTS = ("repeated_call", "unsupported_batch", "stuck", "malformed", "incomplete", "refused", "model_error")


@pytest.mark.parametrize("status", ENDS)
def test_the_status_of_a_run_is_the_name_of_its_final_state(status: str) -> None:
    """It is a plain string, equal to the member of Status; only the answer is answered."""
    result = ended(status).result()
    told = (result.status, type(result.status), Status(result.status), result.finished, result.answered)
    assert told == (status, str, Status[status.upper()], True, status == "answered")
    assert (result.text, result.requests) == ("done" if status == "answered" else "", ())


def test_status_names_every_final_state() -> None:
    """In the order of the table; its members are strings."""
    finals = [state.status for state in TOOL_LOOP.states.values() if state.final]
    assert ([str(one) for one in Status], list(Status)) == (finals, finals)


@pytest.mark.parametrize("rest", RESTS[:-1])
def test_a_run_at_a_rest_is_suspended_and_says_what_it_waits_for(rest: int) -> None:
    """Its status is the name of the state, it has no text, and its requests are those of its snapshot."""
    loop = visited(rest)
    result = loop.result()
    told = (result.status, result.finished, result.answered, result.text, result.requests)
    assert told == (loop.snapshot.state, False, False, "", loop.waiting)
    assert result.requests != ()


def test_a_result_is_of_the_moment_it_was_taken() -> None:
    """The loop that it holds goes on, it does not."""
    loop = visited(3)
    result = loop.result()
    before = (result.to_dict(), str(result), result.explain())
    loop.send(CancelRequested("enough", at=9.0))
    assert (result.to_dict(), str(result), result.explain()) == before
    assert (result.loop is loop, [type(one) for one in result.requests]) == (True, [AskApproval])
    assert (result.status, loop.result().status) == ("awaiting_approval", "cancelled")


def test_results_are_equal_where_their_runs_are() -> None:
    """The loop and its tools are not compared; a result is frozen."""
    one, same, other = (ended(status).result() for status in ("answered", "answered", "refused"))
    assert (one == same, one == other, one == attrs.evolve(one, loop=None)) == (True, False, True)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        one.loop = None  # type: ignore[misc]  # which is what is tested


def test_the_repr_of_a_result_says_how_it_ended() -> None:
    """And stays short, whatever the run was."""
    result = visited().result()
    assert ("answered" in repr(result), len(repr(result)) < 200) == (True, True)


def test_spend_and_history_are_those_of_the_snapshot() -> None:
    """What was used, and what was said."""
    result = visited().result()
    assert result.spend == Spend(steps=3, calls=4, seconds=14.0, cost_usd=0.25, tokens=17, unpriced=1, unmetered=0)
    assert (result.history is result.snapshot.history, result.rows) == (True, result.snapshot.rows)
    assert list(result.history)[-1] == DONE


def test_the_calls_that_failed_are_those_that_were_not_ok() -> None:
    """In the order asked for, over all turns, those of an unfinished turn too."""
    loop = by_hand(
        started(), calls(call("a", "boom"), call("b")), calls(call("c", "mail"), call("d", n="x"), call("e"))
    )
    result = loop.result()
    assert [(one.id, one.outcome) for one in result.results] == [
        ("a", "failed"),
        ("b", "ok"),
        ("c", "unknown_tool"),
        ("d", "invalid_arguments"),
        ("e", "ok"),
    ]
    assert [one.id for one in result.failed_calls] == ["a", "c", "d"]
    running = visited(9).result()
    assert [(one.id, one.outcome) for one in running.results] == [("b", "ok"), ("d", "unknown_tool")]


def test_results_are_those_of_this_run_alone() -> None:
    """A history handed in brought its own."""
    before = by_hand(started(), call("a"), DONE).result()
    after = by_hand(started(history=before.history), call("b", "boom"), DONE).result()
    assert ([one.id for one in after.results], [one.id for one in after.failed_calls]) == (["b"], ["b"])
    assert list(after.history)[2] == brought("a")


def test_a_final_state_of_the_users_own_is_a_status_like_any_other() -> None:
    """Its kind says whether the run is answered; it needs no final text for that."""

    def asked_twice(snapshot: Snapshot, event: Event) -> bool:
        """The model was asked twice."""
        return snapshot.steps >= 2

    for kind, text in (("answered", ""), ("fault", "")):
        enough = State("finished_enough", "Enough was said.", final=kind)
        definition = TOOL_LOOP.with_state(enough).with_row(
            "checking_budget", Row(None, "finished_enough", asked_twice), at=1
        )
        loop = by_hand(started(definition=definition), call("a"), call("b"))
        result = loop.result()
        assert (result.status, result.finished, result.answered, result.text) == (
            "enough",
            True,
            kind == "answered",
            text,
        )


def test_the_text_of_a_history_handed_in_is_not_this_runs() -> None:
    """An end that is answered without a final text has none, whatever was said before."""

    def asked_once(snapshot: Snapshot, event: Event) -> bool:
        """The model was asked."""
        return snapshot.steps >= 1

    before = by_hand(started(), DONE).result().history
    definition = TOOL_LOOP.with_row("rechecking_cancel", Row(CancelPolled, "finished_answered", asked_once), at=1)
    result = by_hand(started(prompt=None, history=before, definition=definition), call("a")).result()
    assert (result.answered, result.text, list(result.history)) == (True, "", list(before))


@pytest.mark.parametrize("rest", RESTS)
def test_a_run_as_plain_data_is_json_and_tells_everything(rest: int) -> None:
    """Every step, call, result, timing and usage, and the full event log."""
    result = visited(rest).result()
    told = result.to_dict()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert told["status"] == result.status
    assert told["spend"] == attrs.asdict(result.spend)
    assert (told["history"], told["rows"], told["explanation"]) == (
        list(result.history),
        list(result.rows),
        result.explain(),
    )
    assert [event["is"] for event in told["events"]] == [type(event).__name__ for event in result.snapshot.events]


@pytest.mark.parametrize("status", ENDS)
def test_every_end_can_be_told_as_plain_data(status: str) -> None:
    """Changing what is told changes nothing."""
    result = ended(status).result()
    told = result.to_dict()
    before = json.dumps(told)
    told["history"].clear()
    told["steps"].clear()
    told["events"].clear()
    assert json.dumps(result.to_dict()) == before
    assert (told["finished"], told["answered"], told["text"]) == (True, result.answered, result.text)


def test_a_result_belongs_to_a_definition_and_a_snapshot_alone() -> None:
    """One can be made of those, with no loop to go on from."""
    whole = ended("answered").result()
    bare = Result(TOOL_LOOP, whole.snapshot, None)
    told: list[Any] = [(one.status, one.text, str(one), one.explain(), one.to_dict()) for one in (whole, bare)]
    assert told[0] == told[1]


def test_a_restored_run_has_the_same_result() -> None:
    """Read from JSON in another place."""
    loop = visited()
    again = Loop.from_json(loop.to_json(), tools=TOOLS).result()
    assert (again == loop.result(), str(again), next(iter(again.history))) == (True, str(loop.result()), GO)
