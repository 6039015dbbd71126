"""Events carry facts: frozen, comparable, and about a moment."""

from __future__ import annotations

import copy
import math
import pickle
import re
from typing import Any

import attrs
import pytest

from loopmachine import events
from loopmachine.events import ApprovalGiven, CallReturned, CallsResolved, CancelRequested, Event, ModelFailed
from loopmachine.records import Decision, Resolution
from tests.facts import EVENTS, usage

KINDS = {
    name: kind
    for name, kind in vars(events).items()
    if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event
}


def test_there_is_an_event_of_every_kind() -> None:
    """The events that the tests use are all that there are."""
    assert {name: type(event) for name, event in EVENTS.items()} == KINDS


def test_an_event_that_answers_waits_for_a_request() -> None:
    """Only a cancel and a new host come unasked."""
    assert {name for name, kind in KINDS.items() if not kind.answers} == {"CancelRequested", "Resumed"}


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_nobody_changes_an_event(event: Any) -> None:
    """Every attribute of an event is frozen, and new ones are refused."""
    before = copy.deepcopy(event)
    for name in [*attrs.fields_dict(type(event)), "answers", "new"]:
        with pytest.raises(AttributeError):
            setattr(event, name, None)
    assert event == before


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_a_copied_event_is_the_same(event: Event) -> None:
    """An event equals its copies, by value and by hash, and no event of another moment."""
    copies = [pickle.loads(pickle.dumps(event)), copy.deepcopy(event), copy.copy(event)]
    later = attrs.evolve(event, at=event.at + 1)  # type: ignore[misc]  # every kind of event is an attrs class
    assert ([one == event and hash(one) == hash(event) for one in copies], later == event) == ([True] * 3, False)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_an_event_must_say_when(kind: type[Any]) -> None:
    """There is no default for the time, and it can't be mistaken for another argument."""
    at = attrs.fields_dict(kind)["at"]
    assert (at.default, at.kw_only) == (attrs.NOTHING, True)


def test_words_are_kept_where_nobody_can_change_them() -> None:
    """A list of decisions or resolutions becomes a tuple."""
    decisions: Any = [Decision(1, 0, approved=True)]
    resolutions: Any = [Resolution(1, 0)]
    given = ApprovalGiven(decisions, at=0.0), CallsResolved(resolutions, at=0.0)
    decisions.clear()
    resolutions.clear()
    assert (given[0].decisions, given[1].resolutions) == ((Decision(1, 0, approved=True),), (Resolution(1, 0),))


@pytest.mark.parametrize("pause", [-1, -5e-324, math.nan, math.inf])
def test_a_pause_of_a_failure_is_finite_seconds(pause: float) -> None:
    """A failure with an endless pause, or one before now, is refused when it is told."""
    with pytest.raises(ValueError, match=rf"^ModelFailed: retry_after must be .* not {pause}$"):
        ModelFailed("busy", retry_after=pause, at=0.0)


@pytest.mark.parametrize("pause", [None, 0, 0.5])
def test_a_failure_keeps_its_facts(pause: float | None) -> None:
    """All that a failure says can be read back."""
    event = ModelFailed("busy", "wait", True, pause, False, usage(), at=3.0)
    assert attrs.asdict(event, recurse=False) == {
        "code": "busy",
        "message": "wait",
        "retryable": True,
        "retry_after": pause,
        "timed_out": False,
        "usage": usage(),
        "at": 3.0,
    }


def test_a_cancel_needs_no_reason() -> None:
    """The reason of a cancel is blank unless somebody gave one."""
    assert (CancelRequested(at=1.0).reason, CancelRequested("enough", at=1.0).reason) == ("", "enough")


@pytest.mark.parametrize(
    ("kind", "fields", "says"),
    [
        (ApprovalGiven, {"decisions": Decision(1, 0, approved=True)}, "decisions must be a list of Decisions, not Dec"),
        (ApprovalGiven, {"decisions": None}, "decisions must be a list of Decisions, not None"),
        (ApprovalGiven, {"decisions": [True]}, "decisions must be a list of Decisions, not (True,)"),
        (
            CallsResolved,
            {"resolutions": Resolution(1, 0)},
            "resolutions must be a list of Resolutions, not Resolution(",
        ),
        (CallsResolved, {"resolutions": "ab"}, "resolutions must be a list of Resolutions, not ('a', 'b')"),
        (CallReturned, {"result": "118.4"}, "result must be a CallResult, which loop.perform(call) gives, not '118.4'"),
        (
            ModelFailed,
            {"code": "busy", "retry_after": "x"},
            "retry_after must be finite seconds from 0 on or None, not",
        ),
        (ModelFailed, {"code": "busy", "retry_after": True}, "retry_after must be finite seconds from 0 on or None, n"),
    ],
)
def test_an_event_that_looks_at_what_it_holds_refuses_another_type_by_name(
    kind: type[Any], fields: dict[str, Any], says: str
) -> None:
    """With what would have been right; what it does not look at is refused when it is sent."""
    with pytest.raises(TypeError, match=f"^{kind.__name__}: {re.escape(says)}"):
        kind(**fields, at=0.0)
