"""The text that a run is kept as: what a run can begin with, and what it can't."""

from __future__ import annotations

import json
import re
from typing import Any

import attrs
import pytest

from loopmachine import TOOL_LOOP, Call, Decision, Loop, Turn, codec
from loopmachine.events import CancelPolled
from loopmachine.history import EventLog, History, Ids
from loopmachine.records import Exchange, Failure, Flight, Snapshot
from tests.drivers import DONE, call
from tests.test_loop import TOOLS, by_hand, started, visited
from tests.test_trace import OTHER, RENAMED

NO_RUN = "this is no run that to_json wrote: "


def begun(events: int = 0, **fields: Any) -> str:
    """The JSON of a run after so many events, with other values in these fields of its start."""
    record = json.loads(visited(events).to_json())
    record["start"] |= {name: codec.plain(value) for name, value in fields.items()}
    return json.dumps(record)


def refused(text: str, says: str, definition: Any = TOOL_LOOP) -> None:
    """It is refused with this sentence."""
    with pytest.raises(ValueError, match=f"^{re.escape(NO_RUN + says)}$"):
        Loop.from_json(text, tools=TOOLS, definition=definition)


#: What no run has before its first event, for each field of which the caller does not choose the value.
HAPPENED: dict[str, list[Any]] = {
    "log": [EventLog([(CancelPolled(False, at=0.0), ("checking_cancel/2",))])],
    "handed_in": [0, 2, -1],
    "steps": [1, -1],
    "calls": [1],
    "cost_usd": [0.5],
    "tokens": [1],
    "unpriced": [1],
    "unmetered": [1],
    "since": [-1.0, 1.0],
    "turn": [Turn("done")],
    "failure": [Failure("busy")],
    "not_before": [0.0],
    "retries": [1],
    "repairs": [1],
    "wrapping": [True],
    "decisions": [(Decision(1, 0, True),)],
    "flights": [(Flight(Call("a", "look"), "queued"),)],
    "cancelled": [True],
    "cancel_reason": ["enough"],
    "ids": [Ids(["a"])],
    "tool_calls": [(("look", 1),)],
    "identical": [1],
}


def test_every_field_of_a_start_is_looked_at() -> None:
    """All but those that a run is made with: a field that is new is one of either."""
    chosen = {"state", "clock", "history", "budget", "policy"}
    assert sorted(chosen | HAPPENED.keys()) == sorted(field.name for field in attrs.fields(Snapshot))


@pytest.mark.parametrize("events", [0, 1, 18])
@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in HAPPENED.items() for value in values])
def test_a_start_in_which_something_has_happened_is_refused(name: str, value: Any, events: int) -> None:
    """The sentence names the field, whether the run has events or none."""
    refused(begun(events, **{name: value}), f"it begins with {name} that no run has before its first event")


def test_all_that_has_happened_is_named() -> None:
    """In the order of the fields."""
    said = "it begins with steps, cancelled that no run has before its first event"
    refused(begun(cancelled=True, steps=2), said)


def test_a_start_at_another_time_than_its_clock_shows_is_refused() -> None:
    """A run begins when its clock is first looked at."""
    refused(begun(clock=5.0), "it begins with since that no run has before its first event")
    assert Loop.from_json(begun(clock=5.0, since=5.0), tools=TOOLS).snapshot.clock == 5.0


@pytest.mark.parametrize("events", [0, 1])
@pytest.mark.parametrize("state", [name for name in TOOL_LOOP.states if name != TOOL_LOOP.initial])
def test_a_run_begins_in_the_initial_state_alone(state: str, events: int) -> None:
    """Not in another rest, not between two, and not at its end."""
    refused(begun(events, state=state), f"it begins in {state!r}, and a run of this definition in 'checking_cancel'")


def test_the_initial_state_is_that_of_the_definition() -> None:
    """A table of a user's own may begin in another, and reads its own runs."""
    own = started(definition=RENAMED).to_json()
    first = OTHER + TOOL_LOOP.initial
    assert Loop.from_json(own, tools=TOOLS, definition=RENAMED).snapshot.state == first
    refused(own, f"it begins in {first!r}, which is no state of this definition")


def test_a_start_to_which_nothing_was_said_is_refused() -> None:
    """A run has a prompt, or a history to go on from."""
    said = "it begins with an empty history, and a run with a prompt or what was said before"
    refused(begun(history=History(), handed_in=0), said)


def test_the_ids_of_a_start_are_those_of_the_history_handed_in() -> None:
    """As such a run writes them; one that is missing, is one too many or stands elsewhere is refused."""
    before = by_hand(started(), call("a"), call("b"), DONE).result().history
    text = started(history=before).to_json()
    again = Loop.from_json(text, tools=TOOLS).snapshot
    assert (list(again.ids), again.handed_in) == (["a", "b"], 5)
    assert sum(isinstance(entry, Exchange) for entry in again.history.entries) == 2
    record = json.loads(text)
    for ids in ([], ["a"], ["b", "a"], ["a", "b", "c"]):
        record["start"]["ids"]["items"] = ids
        refused(json.dumps(record), "it begins with ids that no run has before its first event")
