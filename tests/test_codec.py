"""Records as plain data and back: what is written, what is read, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from loopmachine import codec, events, limits, records
from loopmachine.history import History, Ids
from loopmachine.limits import Budget, Policy, Spend, Usage
from loopmachine.records import Call, CallResult, Decision, Exchange, Final, Note, Turn, UserMessage
from tests.facts import (
    AT,
    EVENTS,
    HELLO,
    ONE,
    TWO,
    answer,
    asks,
    exchange,
    failed,
    flight,
    result,
    resumed,
    usage,
    word,
)

BUDGET = Budget(max_steps=3, max_calls=4, max_seconds=5.5, max_cost_usd=0.25, max_tokens=10**30)
POLICY = Policy(batch="reject", max_parallel=3, wrap_up=True, max_identical_turns=2)

#: Records of every kind, with every field away from its default somewhere.
EXAMPLES: list[Any] = [
    BUDGET,
    POLICY,
    Usage(input_tokens=1, output_tokens=2, cached_tokens=3, reasoning_tokens=4, cost_usd=5.5, model="m1"),
    Spend(steps=1, calls=2, seconds=3.5, cost_usd=4.5, tokens=5, unpriced=6, unmetered=7),
    Call("a", "look", '{"n":"1"}', step=1, place=2, known=True, checked='{"n":1}', effect="read", alone=True, limit=3),
    Call("a", "mail", "no json", problem="there is none", needs_approval=True, sent_id="a_1"),
    CallResult(1, 2, "a", "look", "denied", "not yours", "not_yours"),
    Turn("hm", (ONE, TWO), "tool_use", usage(), '{"role":"assistant"}', "anthropic"),
    Turn(fault="id: it is blank"),
    HELLO,
    exchange(ONE, TWO),
    Note("so"),
    Final(answer()),
    records.Failure("busy", "later", True, 2.5, True),
    Decision(1, 0, False, "too much"),
    word(ONE, rerun=True),
    word(ONE, result=result(ONE)),
    flight("lost", losses=1),
    *EVENTS.values(),
    failed(at=1.5, message="later", retryable=True, retry_after=2.0, timed_out=True, usage=usage()),
    resumed(BUDGET, at=-1.0),
    *AT.values(),
    records.BaseSnapshot(state="checking_cancel"),
]


def kinds() -> Iterator[str]:
    """The names of the records that there are."""
    for module in (limits, records, events):
        for kind in vars(module).values():
            if isinstance(kind, type) and attrs.has(kind) and kind.__module__ == module.__name__:
                yield kind.__name__


def test_the_examples_are_of_every_kind() -> None:
    """No record is left out."""
    assert set(kinds()) - {type(one).__name__ for one in EXAMPLES} == set()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: type(one).__name__)
def test_a_record_is_the_same_after_it_was_written_and_read(example: Any) -> None:
    """Its data is JSON, and written again it is the same."""
    data = codec.plain(example)
    again = codec.record(json.loads(json.dumps(data)))
    assert (again, type(again), codec.plain(again)) == (example, type(example), data)


def test_what_is_written_is_the_name_and_what_is_not_at_its_default() -> None:
    """In the order of the fields; what a record makes of others is not written."""
    assert codec.plain(asks(ONE, stop="tool_use")) == {
        "is": "Turn",
        "calls": [{"is": "Call", "id": "c1_0", "name": "look", "step": 1, "known": True, "checked": "{}"}],
        "stop": "tool_use",
    }
    assert codec.plain((Budget(), None, 1.5, "x")) == [{"is": "Budget"}, None, 1.5, "x"]


def test_logs_are_written_as_their_items() -> None:
    """Histories, ids, and the events with the rows that they took."""
    log = AT["checking_cancel"].but(state="x").log.append(EVENTS["CancelPolled"], ("a/1", "b/2"))
    logs: list[Any] = [History([HELLO]), Ids(["a", "b"]), log]
    data = [codec.plain(one) for one in logs]
    assert data == [
        {"is": "History", "items": [{"is": "UserMessage", "text": "hello"}]},
        {"is": "Ids", "items": ["a", "b"]},
        {"is": "EventLog", "items": [[{"is": "CancelPolled", "cancelled": False, "at": 0.0}, ["a/1", "b/2"]]]},
    ]
    assert codec.record(data) == tuple(logs)


def test_what_is_no_record_is_read_as_it_is() -> None:
    """Lists become tuples, which nobody can change."""
    assert codec.record([1, 2.5, "x", None, True, [[]]]) == (1, 2.5, "x", None, True, ((),))


SOME = {"is": "UserMessage", "text": "hello"}
POLLED = {"is": "CancelPolled", "cancelled": False, "at": 0.0}


def edited(data: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The data with other fields."""
    return data | fields


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"is": None},
        {"is": []},
        {"is": "Path", "args": ["x"]},
        {"is": "Event"},
        {"is": "Status"},
        {"is": "History"},
        {"is": "History", "items": 5},
        {"is": "History", "items": ["x"]},
        {"is": "History", "items": [{"is": "Budget"}]},
        {"is": "Ids"},
        {"is": "Ids", "items": [1]},
        {"is": "EventLog", "items": 5},
        {"is": "EventLog", "items": [[POLLED, ["a/1"], 5]]},
        {"is": "EventLog", "items": [[POLLED, [1]]]},
        {"is": "EventLog", "items": [[POLLED, "a/1"]]},
        {"is": "CancelPolled", "cancelled": False},
        edited(POLLED, what=1),
        edited(POLLED, at=None),
        edited(POLLED, at="noon"),
        edited(POLLED, at=True),
        edited(POLLED, cancelled=1),
        edited(POLLED, reason=5),
        {"is": "ModelReplied", "turn": SOME, "at": 0.0},
        {"is": "Turn", "calls": "no"},
        {"is": "Turn", "calls": [5]},
        {"is": "Turn", "kind": "final"},
        {"is": "Budget", "max_steps": "3"},
        {"is": "Budget", "max_steps": 0},
        {"is": "Budget", "max_seconds": True},
        {"is": "Policy", "batch": "none"},
        {"is": "Policy", "error_text": 5},
        {"is": "CallResult", "step": 1, "place": 0, "id": "a", "name": "look", "outcome": "good", "content": "1"},
        {"is": "Snapshot", "state": "x", "tool_calls": [["look"]]},
        {"is": "Snapshot", "state": "x", "tool_calls": [["look", "1"]]},
        [[{"is": "Nothing"}]],
    ],
    ids=str,
)
def test_what_is_no_data_of_a_record_is_refused(data: Any) -> None:
    """It is a ValueError, whatever is wrong with it; a name that is none is told with those that are."""
    with pytest.raises(ValueError, match=r"restored|can't be|must be"):
        codec.record(data)


def test_a_name_that_is_no_record_is_refused_with_those_that_are() -> None:
    """Nothing else is ever made from data."""
    with pytest.raises(ValueError, match="'Path' is none of the records that can be restored: ") as caught:
        codec.record({"is": "Path"})
    assert set(str(caught.value).rpartition(": ")[2].split(", ")) == set(kinds())


def test_whole_numbers_are_read_where_fractions_are_wanted_and_not_the_other_way() -> None:
    """As JSON writes 1.0 and 1."""
    assert codec.record(edited(POLLED, at=3)).at == 3
    assert codec.record({"is": "Snapshot", "state": "x", "tool_calls": [["look", 2]]}).tool_calls == (("look", 2),)
    with pytest.raises(ValueError, match="steps"):
        codec.record({"is": "Snapshot", "state": "x", "steps": 1.5})


def test_the_messages_of_a_history_read_back_are_those_written() -> None:
    """Of every kind of entry."""
    history = History([UserMessage("go"), Exchange(asks(ONE), (result(ONE),)), Note("so"), Final(answer())])
    again = codec.record(codec.plain(history))
    assert (again, list(again)) == (history, list(history))
