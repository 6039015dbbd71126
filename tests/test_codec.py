"""Records as plain data and back: what is written, what is read, and what is refused."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Iterable, Iterator
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import attrs
import pytest

from loopmachine import TOOL_LOOP, Loop, Row, codec, events, limits, records
from loopmachine.definition import Definition
from loopmachine.events import Event
from loopmachine.frozen import freeze, thaw
from loopmachine.history import History, Ids
from loopmachine.limits import Budget, Policy, Spend, Usage
from loopmachine.records import Call, CallResult, Decision, Exchange, Final, Note, Turn, UserMessage

if TYPE_CHECKING:
    from decimal import Decimal

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


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("\ud83d\udc0d", ["\ud83d", "\udc0d"]),
        ("a \ud83d\udc0d\ud83d\udc0d\U0001f40d", ["a \ud83d", "\udc0d\ud83d", "\udc0d\U0001f40d"]),
    ],
)
def test_halves_of_a_character_beside_each_other_stay_halves(text: str, items: list[str]) -> None:
    """JSON has the same escapes for the two and the one, and a reader makes one of them."""
    data = codec.plain(text)
    assert (data, codec.record(thaw(freeze(data)))) == ({"is": "str", "items": items}, text)


@pytest.mark.parametrize(
    "text", ["", "abc", "\U0001f40d", "\ud83d", "\udc0d\ud83d", "\ud83d \udc0d", "\ud83d\U0001f40d"]
)
def test_other_text_is_written_as_it_is(text: str) -> None:
    """Half a character by itself too."""
    assert (codec.plain(text), codec.record(thaw(freeze(text)))) == (text, text)


def test_what_equals_the_default_and_is_of_another_type_is_written() -> None:
    """Or it would be read as the default."""
    at = codec.plain(records.BaseSnapshot(state="x", clock=0))
    assert at == {"is": "BaseSnapshot", "state": "x", "clock": 0, "log": {"is": "EventLog", "items": []}}


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
        {"is": "str"},
        {"is": "str", "items": "ab"},
        {"is": "str", "items": ["a", 5]},
        {"is": "Ids"},
        {"is": "Ids", "items": [1]},
        {"is": "EventLog", "items": 5},
        {"is": "EventLog", "items": [[POLLED, ["a/1"], 5]]},
        {"is": "EventLog", "items": [[POLLED, [1]]]},
        {"is": "EventLog", "items": [[POLLED, "a/1"]]},
        {"is": "CancelPolled", "cancelled": False},
        edited(POLLED, at=None),
        edited(POLLED, at="noon"),
        edited(POLLED, at=True),
        edited(POLLED, at=math.nan),
        edited(POLLED, at=-math.inf),
        edited(POLLED, cancelled=1),
        edited(POLLED, reason=5),
        {"is": "ModelReplied", "turn": SOME, "at": 0.0},
        {"is": "Turn", "calls": "no"},
        {"is": "Turn", "calls": [5]},
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
    told, _, whose = str(caught.value).rpartition("; ")
    assert whose == "an event of your own is known by definition=, whose rows name it"
    assert set(told.rpartition(": ")[2].split(", ")) == set(kinds())


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


def test_fields_that_a_record_does_not_have_are_ignored() -> None:
    """Whatever they hold: a later version may have added them, to any record."""
    inner = edited(SOME, mood={"is": "Nothing"}, kind="final")
    assert codec.record(edited(POLLED, what=[{}])) == EVENTS["CancelPolled"]
    assert codec.record({"is": "Turn", "text": "done", "kind": "refused"}) == Turn("done")
    assert codec.record({"is": "History", "items": [inner], "of": 5}) == History([HELLO])


def test_what_a_record_lacks_is_named() -> None:
    """All of it."""
    with pytest.raises(ValueError, match=r"^CancelPolled can't be restored: it has no cancelled, at$"):
        codec.record({"is": "CancelPolled"})


# --- of what types things are ---------------------------------------------------------------------------


class OwnUsage(Usage):
    """A class made of a record, as which it would not be read back."""


@pytest.mark.parametrize(
    ("hint", "right", "wrong"),
    [
        (Any, [object(), None], []),
        (str, ["", "x"], [b"x", None, 5]),
        (bool, [True, False], [0, 1, None]),
        (int, [0, 10**400], [True, 1.0, "1"]),
        (float, [0.0, 1, 10**400], [True, math.nan, math.inf, -math.inf, "1"]),
        (Usage, [Usage()], [OwnUsage(), {}, Usage]),
        (Usage | None, [Usage(), None], [OwnUsage(), {}]),
        (tuple[str, ...], [(), ("a", "b")], [["a"], "ab", ("a", 5)]),
        (tuple[str, int], [("a", 5)], [(), ("a",), ("a", "b"), ["a", 5]]),
        (tuple[()], [()], [("a",), []]),
        (Iterable, ["", [], {}], [5]),
        (Literal["a"], ["a", "b", 5], []),
        (list[str], [[], [5]], [(), "a"]),
    ],
)
def test_what_fits_a_type(hint: Any, right: list[Any], wrong: list[Any]) -> None:
    """A record is one of exactly this class; what only a type checker can tell fits."""
    assert [codec.fits(one, hint) for one in right] == [True] * len(right)
    assert [codec.fits(one, hint) for one in wrong] == [False] * len(wrong)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: type(one).__name__)
def test_a_record_of_the_right_types_has_no_misfit(example: Any) -> None:
    """Of every kind."""
    assert list(codec.misfits(example, type(example))) == []


def broken(example: Any, **fields: Any) -> Any:
    """The record with what its constructor may refuse."""
    made = copy.copy(example)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: type(one).__name__)
def test_every_field_of_a_record_that_is_of_another_type_is_told(example: Any) -> None:
    """By its name, whichever it is; the time of an event is looked at by the machine."""
    fields = [one.name for one in attrs.fields(type(example)) if not (isinstance(example, Event) and one.name == "at")]
    for field in fields:
        ((path, said),) = codec.misfits(broken(example, **{field: {1}}), type(example))
        assert (path, said.startswith("must be "), said.endswith(", not {1}")) == (field, True, True)


def test_all_misfits_are_told_by_their_paths() -> None:
    """In records and tuples, too, each with what would have been right; a long value is cut."""
    calls = broken(ONE, id=5, limit=1.5), "x" * 200, broken(TWO, known=1)
    turn = broken(asks(ONE), text=None, calls=calls, usage={1}, wire=[])
    assert list(codec.misfits(turn, Turn)) == [
        ("text", "must be text, not None"),
        ("calls[0].id", "must be text, not 5"),
        ("calls[0].limit", "must be a whole number or None, not 1.5"),
        ("calls[1]", f"must be a Call, not '{'x' * 37}...{'x' * 38}'"),
        ("calls[2].known", "must be True or False, not 1"),
        ("usage", "must be a Usage or None, not {1}"),
        ("wire", "must be text, not []"),
    ]


def test_an_argument_is_refused_by_its_name() -> None:
    """With what would have been right: what its type is in words, or words of one's own."""
    codec.must_be("system", None, str | None)
    with pytest.raises(TypeError, match=r"^system must be text or None, not 5$"):
        codec.must_be("system", 5, str | None)
    with pytest.raises(TypeError, match=r"^said must be an Exchange, not 5$"):
        codec.must_be("said", 5, Exchange)
    with pytest.raises(TypeError, match=r"^tools must be a list of tools, not 5$"):
        codec.must_be("tools", 5, Iterable, "a list of tools")


# --- events of a user's own -----------------------------------------------------------------------------


@attrs.frozen
class Escalated(Event):
    """Somebody took the run over."""

    answers: ClassVar[bool] = False
    why: str = ""
    calls: tuple[Call, ...] = ()
    more: Any = None
    _weight: float = attrs.field(default=1.0, validator=attrs.validators.instance_of((int, float, str)))
    doubled: float = attrs.field(init=False)
    at: float = attrs.field(kw_only=True)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "doubled", 2 * self._weight)


@attrs.frozen
class Paid(Event):
    """Somebody paid, in a type that only a type checker knows."""

    amount: Decimal | str = "0"
    at: float = attrs.field(kw_only=True)


class Bare(Event):
    """An event that is no attrs class."""

    at = 0.0


@attrs.frozen
class Resumed(Event):
    """An event with the name of another."""

    at: float = attrs.field(kw_only=True)


def taking(*kinds: type[Any]) -> Definition:
    """The definition with a row for each of these events."""
    definition = TOOL_LOOP
    for kind in kinds:
        definition = definition.with_row("awaiting_approval", Row(kind, "finished_cancelled"), at=1)
    return definition


OWN = taking(Escalated, Paid, Bare)


def test_the_own_events_of_a_definition_are_those_that_its_rows_name() -> None:
    """And this library does not have; one that is no attrs class can't be restored."""
    assert codec.own_events(OWN) == {"Escalated": Escalated, "Paid": Paid}
    assert codec.own_events(TOOL_LOOP) == {}


@attrs.frozen
class Failure(Event):
    """An event with the name of a record."""

    at: float = attrs.field(kw_only=True)


@attrs.define
class Changing(Event):
    """An event that somebody can change."""

    at: float = attrs.field(kw_only=True)


def named(name: str) -> type[Any]:
    """An event of this name."""
    return attrs.make_class(name, {"at": attrs.field(kw_only=True)}, bases=(Event,), frozen=True)


TAKEN = "bears the name of a record of this library; give it another"


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (Failure, f"Failure {TAKEN}"),
        (named("History"), f"History {TAKEN}"),
        (named("str"), f"str {TAKEN}"),
        (Changing, "Changing must be frozen, as the log is; write @attrs.frozen"),
    ],
)
def test_an_event_of_ones_own_has_a_name_of_its_own_and_stays_as_it_is(kind: type[Any], says: str) -> None:
    """It could not be told from a record when it is read, or be another by then; the loop says so when it is made."""
    for use in (codec.own_events, lambda definition: Loop("go", definition=definition, at=0.0)):
        with pytest.raises(ValueError, match=f"^{re.escape(f'definition: its event {says}')}$"):
            use(taking(kind))


@pytest.mark.parametrize(
    "event",
    [
        Escalated(at=1.0),
        Escalated("boss", (ONE, TWO), (1, (None, usage())), 2, at=1.0),
        Escalated(more=word(ONE, result=result(ONE)), at=1.0),
        Paid("12", at=1.0),
    ],
)
def test_an_event_of_a_users_own_is_the_same_after_it_was_written_and_read(event: Event) -> None:
    """Of the events that are known: its fields are those of its class, private ones too."""
    data = json.loads(json.dumps(codec.plain(event)))
    codec.check_event(event, OWN)
    assert codec.record(data, codec.own_events(OWN)) == event
    with pytest.raises(ValueError, match=r"^'(Escalated|Paid)' is none of the records that can be restored: Budget, "):
        codec.record(data)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"why": 5}, "Escalated: why can't be 5"),
        ({"calls": [5]}, "Escalated: calls can't be (5,)"),
        ({"_weight": "x"}, "Escalated: _weight can't be 'x'"),
        ({"more": {"is": "Nothing"}}, "'Nothing' is none of the records that can be restored: Budget, "),
        ({"is": "Weighed", "_weight": None}, "Weighed can't be restored: "),
    ],
)
def test_data_that_is_none_of_an_own_event_is_refused(fields: dict[str, Any], says: str) -> None:
    """As it is of the library's, in its own words where its own checks refuse it."""
    with pytest.raises(ValueError, match=f"^{re.escape(says)}"):
        codec.record({"is": "Escalated", "at": 1.0} | fields, {"Escalated": Escalated, "Weighed": Weighed})


@attrs.frozen
class Weighed(Escalated):
    """An event with a check of its own."""

    _weight: Any = attrs.field(default=1.0, validator=attrs.validators.instance_of(float))


@pytest.mark.parametrize(
    ("event", "says"),
    [
        (
            broken(Escalated(at=1.0), why=5, calls=(broken(ONE, id=5),)),
            "Escalated: why must be text, not 5; calls[0].id must be text, not 5",
        ),
        (Escalated(more={"a": 1}, at=1.0), "None is none of the records that can be restored"),
        (Escalated(more=["a"], at=1.0), "it would be Escalated("),
        (Escalated(more=math.nan, at=1.0), "it would be Escalated("),
        (Escalated(more=Weighed(at=1.0), at=1.0), "'Weighed' is none of the records"),
        (Escalated(more=object(), at=1.0), "Encoding objects of type object is unsupported"),
        (broken(Paid(at=1.0), amount={1}), "it would be Paid("),
        (Bare(), "Encoding objects of type Bare is unsupported"),
        (Resumed(at=1.0), "it would be Resumed("),
    ],
)
def test_an_own_event_that_could_not_be_read_back_is_refused(event: Any, says: str) -> None:
    """With what would have been right."""
    with pytest.raises(TypeError) as caught:
        codec.check_event(event, OWN)
    said = str(caught.value)
    assert says in said
    assert said.startswith(f"{type(event).__name__}: ") or "whose fields hold text, finite numbers, True," in said


@attrs.frozen
class Told(Event):
    """Something was told, in types that a type checker does not know."""

    what: Any
    flag: bool | int = 1
    aside: Any = attrs.field(default=None, eq=False)
    at: float = attrs.field(kw_only=True)


class Mood(StrEnum):
    """Text of a class of its own."""

    GOOD = "good"


class Degree(IntEnum):
    """Numbers of a class of its own."""

    WARM = 1


class Seconds(float):
    """A number of a class of its own."""


class Pair(NamedTuple):
    """A tuple of a class of its own."""

    one: int


@pytest.mark.parametrize(
    "told",
    [
        Told(Mood.GOOD, at=1.0),
        Told(Degree.WARM, at=1.0),
        Told(Seconds(1.0), at=1.0),
        Told(Pair(1), at=1.0),
        Told((1, (Mood.GOOD,)), at=1.0),
        Told(math.inf, at=1.0),
        Told(Budget(max_seconds=Seconds(1.0)), at=1.0),
        Told(None, aside=b"x", at=1.0),
        Told(None, aside=[1], at=1.0),
        Told(None, at=Seconds(1.0)),
    ],
    ids=str,
)
def test_an_own_event_that_would_only_be_equal_to_what_is_read_back_is_refused(told: Told) -> None:
    """Its guards would see another thing."""
    with pytest.raises(
        TypeError, match=r"^Told must be the same once it was written as JSON and read: .*; it would be "
    ):
        codec.check_event(told, taking(Told))


@pytest.mark.parametrize(
    "told",
    [Told(1.0, True, at=1), Told(-0.0, 1, ("x", None), at=1.0), Told(History([HELLO]), 2, Budget(), at=1.0)],
    ids=str,
)
def test_an_own_event_is_read_back_as_what_it_is_to_the_types_of_its_fields(told: Told) -> None:
    """Those that are equal to their defaults and those that are not compared included."""
    definition = taking(Told)
    codec.check_event(told, definition)
    again = codec.record(thaw(freeze(codec.plain(told))), codec.own_events(definition))
    assert repr(again) == repr(told)


@pytest.mark.parametrize("event", [None, 5, math.nan, EVENTS, Event, Escalated(more=object(), at=1.0)])
def test_what_the_definition_does_not_take_is_left_to_the_machine(event: Any) -> None:
    """Which says what it takes."""
    codec.check_event(event, TOOL_LOOP)
