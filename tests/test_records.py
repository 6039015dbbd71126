"""What the machine knows: what a turn is, what records say of themselves, and that nobody can change them."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from loopmachine.history import History, Ids, Log
from loopmachine.kinds import STOP_REASONS, what_a_turn_is
from loopmachine.limits import Budget, Policy, Spend
from loopmachine.records import (
    LOST,
    OUTCOMES,
    QUEUED,
    RUNNING,
    BaseSnapshot,
    Call,
    CallResult,
    Decision,
    Exchange,
    Failure,
    Final,
    Flight,
    Note,
    Resolution,
    Snapshot,
    Turn,
    UserMessage,
)
from tests.facts import (
    AT,
    EVENTS,
    HELLO,
    answer,
    asks,
    begun,
    call,
    exchange,
    failure,
    flight,
    flying,
    malformed,
    polled,
    replied,
    result,
    snapshot,
    usage,
    walk,
)

# --- what a turn is -------------------------------------------------------------------------------------

WORDS = {
    "nothing": "'' finish_reason_unspecified stopped unknown_reason",
    "final": "stop end_turn stop_sequence completed final",
    "calls": "tool_calls tool_use function_call calls",
    "truncated": (
        "length max_tokens max_output_tokens model_context_window_exceeded model_length incomplete pause_turn "
        "compaction max_messages steered continuation"
    ),
    "refused": (
        "content_filter refusal safety sensitive recitation blocklist prohibited_content spii image_safety language "
        "image_prohibited_content image_recitation model_armor escalation pup_limited_disabled jailbreak "
        "blocked_reason_unspecified"
    ),
    "malformed": (
        "malformed_function_call unexpected_tool_call malformed_response error abort too_many_tool_calls "
        "insufficient_system_resource "
        "missing_thought_signature no_image failed cancelled in_progress queued other image_other"
    ),
}
KINDS = {"C": "calls", "F": "final", "T": "truncated", "R": "refused", "M": "malformed"}
BROUGHT: list[tuple[int, str]] = [(2, "text"), (1, " \n"), (1, ""), (0, "text"), (0, " \n"), (0, "")]
#: What the turn is, by what the reason claims, for each of BROUGHT: without a fault, and with one.
TABLE = {
    "nothing": ("CCC FMM", "MMM MMM"),
    "final": ("CCC FMM", "MMM MMM"),
    "calls": ("CCC MMM", "MMM MMM"),
    "truncated": ("TTT TTT", "TTT TTT"),
    "refused": ("RRR RRR", "RRR RRR"),
    "malformed": ("MMM MMM", "MMM MMM"),
}
STOPS = [
    (claim, written)
    for claim, words in WORDS.items()
    for word in words.replace("''", "").split(" ")
    for written in dict.fromkeys((word, word.upper(), word.title()))
]


def test_the_stop_reasons_are_those_of_the_providers() -> None:
    """Every reason of theirs is in the table of this file, under the same claim; one of them says that it is none."""
    told = {word: claim for claim, words in WORDS.items() if claim != "nothing" for word in words.split()}
    assert told | {"finish_reason_unspecified": ""} == STOP_REASONS


@pytest.mark.parametrize("faulty", [0, 1], ids=["fit", "faulty"])
@pytest.mark.parametrize(("claim", "stop"), STOPS, ids=[f"{claim}-{stop}" for claim, stop in STOPS])
def test_what_a_turn_is(claim: str, stop: str, faulty: int) -> None:
    """Every reason with calls or none, text, blank or none, and a fault or none, is one of five kinds."""
    kinds = [what_a_turn_is(stop, calls, text, "id: it is blank" * faulty)[0] for calls, text in BROUGHT]
    assert kinds == [KINDS[letter] for letter in TABLE[claim][faulty].replace(" ", "")]


@pytest.mark.parametrize(
    ("turn", "fault"),
    [
        (("tool_use", 0, "text", ""), "calls: the stop reason 'tool_use' claims calls, but there are none"),
        (("tool_use", 0, "", ""), "calls: the stop reason 'tool_use' claims calls, but there are none"),
        (("stop", 0, " ", ""), "text: it is blank and there are no calls"),
        (("", 0, "", ""), "text: it is blank and there are no calls"),
        (("MALFORMED_FUNCTION_CALL", 1, "text", ""), "the provider stopped it: MALFORMED_FUNCTION_CALL"),
        (("MALFORMED_FUNCTION_CALL", 1, "text", "kind: unknown"), "kind: unknown"),
        (("tool_use", 0, "", "kind: unknown"), "kind: unknown"),
        (("length", 0, "", "kind: unknown"), ""),
        (("refusal", 0, "", "kind: unknown"), ""),
        (("tool_use", 1, "", ""), ""),
        (("stop", 0, "text", ""), ""),
    ],
)
def test_a_turn_that_is_malformed_says_why(turn: tuple[str, int, str, str], fault: str) -> None:
    """The fault is what was found first; a turn that can be used, or was cut or refused, has none."""
    assert what_a_turn_is(*turn)[1] == fault


def test_a_turn_knows_what_it_is() -> None:
    """Kind and fault of a turn come from the table, the stop reason stays word for word."""
    turns = [
        answer(),
        asks(call()),
        Turn(text="do", stop="MAX_TOKENS"),
        Turn(stop="refusal"),
        Turn(),
        malformed("kind: 7"),
    ]
    assert [(turn.kind, turn.fault, turn.stop) for turn in turns] == [
        ("final", "", ""),
        ("calls", "", ""),
        ("truncated", "", "MAX_TOKENS"),
        ("refused", "", "refusal"),
        ("malformed", "text: it is blank and there are no calls", ""),
        ("malformed", "kind: 7", ""),
    ]


def test_a_turn_is_not_told_its_kind() -> None:
    """Nobody says of a turn what it is."""
    with pytest.raises(TypeError, match="kind"):
        Turn(kind="final")  # type: ignore[call-arg]  # that is the point


def test_a_payload_is_new_each_time() -> None:
    """What is done to a payload is not done to the turn; without one there is None."""
    turn = answer(payload_text='{"role":"assistant"}')
    turn.payload["role"] = "user"
    assert (turn.payload, answer().payload) == ({"role": "assistant"}, None)


# --- calls and results ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('{"n": 1}', {"n": 1}),
        ("{}", {}),
        ("", ""),
        ("[1]", "[1]"),
        ("5", "5"),
        ("null", "null"),
        ('{"n":', '{"n":'),
        ("not json", "not json"),
        ("[" * 100_000, "[" * 100_000),
    ],
    ids=lambda value: str(value)[:12],
)
def test_arguments_are_an_object_or_the_text(text: str, arguments: Any) -> None:
    """Text that is no JSON object is shown as it was written."""
    assert call(arguments_text=text).arguments == arguments


def test_arguments_are_new_each_time() -> None:
    """What is done to arguments is not done to the call."""
    one = call(arguments_text='{"n":[1]}')
    one.arguments["n"].append(2)
    assert one.arguments == {"n": [1]}


def test_a_call_is_known_by_its_step_and_place() -> None:
    """The identity of a call is no id; the id sent back is its own unless it got another."""
    one, renamed = call(2, step=3, id="a"), call(id="a", sent_id="a_s1_0")
    assert (one.key, one.wire_id, renamed.key, renamed.wire_id) == ((3, 2), "a", (1, 0), "a_s1_0")


def test_a_call_is_cautious_by_default() -> None:
    """A call of which the toolbox said nothing is unknown, of effect once, and can't run."""
    assert attrs.asdict(Call("a", "look")) == {
        "id": "a",
        "name": "look",
        "arguments_text": "{}",
        "step": 0,
        "place": 0,
        "known": False,
        "checked": None,
        "problem": "",
        "effect": "once",
        "needs_approval": False,
        "alone": False,
        "limit": None,
        "sent_id": "",
    }


def test_facts_of_a_call_are_given_by_name() -> None:
    """After id, name and arguments nothing can be mistaken for something else."""
    by_name = [field.name for field in attrs.fields(Call) if field.kw_only]
    assert by_name == [field.name for field in attrs.fields(Call)][3:]


def test_a_result_is_that_of_its_call() -> None:
    """A result bears identity, name and the id that is sent back."""
    made = CallResult.of(call(2, step=3, sent_id="other"), "denied", "never", "no")
    assert (made, made.key) == (CallResult(3, 2, "other", "look", "denied", "never", "no"), (3, 2))


def test_the_outcomes_are_those_of_the_design() -> None:
    """There is one word for each thing that can become of a call."""
    assert " ".join(OUTCOMES) == (
        "ok failed denied invalid_arguments unknown_tool timed_out over_budget repeated not_started interrupted unknown"
    )


@pytest.mark.parametrize("outcome", ["", "OK", "success", None])
def test_a_result_without_a_known_outcome_is_refused(outcome: Any) -> None:
    """The sentence lists the outcomes there are."""
    with pytest.raises(ValueError, match=rf"^CallResult: outcome must be one of ok, .*, unknown, not {outcome!r}$"):
        CallResult.of(call(), outcome, "")


# --- entries --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "messages"),
    [
        (UserMessage("hi"), [{"kind": "user", "text": "hi"}]),
        (Note("no"), [{"kind": "note", "text": "no"}]),
        (Final(answer("yes")), [{"kind": "final", "text": "yes"}]),
        (
            exchange(call(sent_id="new"), call(1, arguments_text="{"), text="so"),
            [
                {"kind": "text", "text": "so"},
                {"kind": "call", "id": "new", "name": "look", "arguments": {}},
                {"kind": "call", "id": "c1_1", "name": "look", "arguments": "{"},
                {"kind": "tool_result", "id": "new", "content": "1", "outcome": "ok"},
                {"kind": "tool_result", "id": "c1_1", "content": "1", "outcome": "ok"},
            ],
        ),
        (
            exchange(call()),
            [
                {"kind": "call", "id": "c1_0", "name": "look", "arguments": {}},
                {"kind": "tool_result", "id": "c1_0", "content": "1", "outcome": "ok"},
            ],
        ),
    ],
    ids=["user", "note", "final", "exchange with text", "exchange"],
)
def test_an_entry_is_plain_messages(entry: Any, messages: list[dict[str, Any]]) -> None:
    """Of a turn first its text, then all its calls, then all their results; as many as the entry says."""
    assert (entry.messages(), len(entry)) == (messages, len(messages))


# --- snapshots ------------------------------------------------------------------------------------------


def test_a_snapshot_with_other_values_is_another_one() -> None:
    """Only the fields named differ, and the snapshot given stays."""
    before = begun(steps=1)
    after = before.but(steps=2, state="dispatching")
    assert (attrs.asdict(after, recurse=False), before) == (
        {**attrs.asdict(before, recurse=False), "steps": 2, "state": "dispatching"},
        begun(steps=1),
    )


def test_a_snapshot_has_no_other_fields() -> None:
    """A name that is no field is refused, and the sentence says which."""
    with pytest.raises(TypeError, match=r"^Snapshot has no field stepps$"):
        begun().but(steps=1, stepps=2)


def test_a_snapshot_begins_with_nothing() -> None:
    """A new run has used nothing of a budget of ten steps, and nothing was said or is under way."""
    new = Snapshot(state="checking_cancel")
    something = [field.name for field in attrs.fields(Snapshot) if getattr(new, field.name)]
    assert (something, new.budget, new.policy, new.spend, new.events, new.rows) == (
        ["state", "budget", "policy"],
        Budget(),
        Policy(),
        Spend(),
        (),
        (),
    )


@pytest.mark.parametrize(
    ("record", "rest"),
    [
        (Failure("busy"), ("", False, None, False)),
        (Decision(1, 0, approved=True), ("",)),
        (Resolution(1, 0), (False, None)),
        (Flight(call(), QUEUED), (0, None)),
        (result(call()), ("", None, None)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_nobody_said_of_a_record_is_nothing(record: Any, rest: tuple[Any, ...]) -> None:
    """Fields that were not given are blank, zero, False or None, in this order at the end of the record."""
    values = attrs.astuple(record, recurse=False)
    assert values[len(values) - len(rest) :] == rest


def test_the_events_and_rows_of_a_snapshot_are_those_taken() -> None:
    """Events and the rows that they took are read in the order in which they came."""
    after, _ = walk(begun(), polled(at=1.0), replied(answer(), at=2.0))
    assert (after.events, after.rows) == (
        (polled(at=1.0), replied(answer(), at=2.0)),
        ("checking_cancel/2", "checking_budget/7", "awaiting_model/1"),
    )


@pytest.mark.parametrize(("at", "seconds"), [(0.0, 4.0), (4.9, 4.0), (5.0, 4.0), (5.5, 4.5), (9, 8.0)])
def test_a_clock_that_goes_back_stands_still(at: float, seconds: float) -> None:
    """The seconds spent count from the beginning to the latest time that was heard of."""
    assert snapshot(clock=5.0, since=1.0).seconds(at) == seconds


def test_spend_is_what_the_snapshot_says() -> None:
    """Every part of the spend is read from the snapshot, the seconds at its clock."""
    spent = snapshot(steps=1, calls=2, clock=5.0, since=2.0, cost_usd=0.5, tokens=7, unpriced=3, unmetered=4).spend
    assert spent == Spend(steps=1, calls=2, seconds=3.0, cost_usd=0.5, tokens=7, unpriced=3, unmetered=4)


@pytest.mark.parametrize(("limit", "deadline"), [(None, None), (10.0, 12.0), (1, 3.0)])
def test_the_deadline_is_a_time_on_the_clock(limit: float | None, deadline: float | None) -> None:
    """The deadline is when the seconds of the budget are spent."""
    assert snapshot(since=2.0, clock=9.0, budget=Budget(max_seconds=limit)).deadline == deadline


# --- nobody changes them --------------------------------------------------------------------------------


def full() -> Snapshot:
    """A snapshot with something in every field."""
    rich = asks(call(), call(1), text="so", usage=usage(), payload_text="[]", wire="anthropic")
    return flying(
        flight(QUEUED),
        flight(RUNNING, 1),
        flight(LOST, 2, losses=1),
        flight("answered", 3),
        clock=3.0,
        log=Log([(event, ("checking_cancel/1",)) for event in EVENTS.values()]),
        history=History([HELLO, Exchange(rich, exchange(*rich.calls).results), Note("no"), Final(answer())]),
        turn=rich,
        failure=failure(retry_after=1.0),
        not_before=2.0,
        decisions=(Decision(1, 0, approved=True),),
        cancel_reason="enough",
        ids=Ids(["c1_0", "c1_1"]),
        tool_calls=(("look", 2),),
    )


def parts(value: Any) -> Iterator[Any]:
    """This object and every record and log in it."""
    if isinstance(value, tuple):
        for item in value:
            yield from parts(item)
    elif isinstance(value, Log):
        yield value
        yield from parts(tuple(value))
    elif isinstance(value, History):
        yield value
        yield from parts(value.entries)
    elif attrs.has(type(value)):
        yield value
        yield from parts(tuple(getattr(value, field.name) for field in attrs.fields(type(value))))


PARTS = {type(part).__name__: part for part in [*parts(full()), Ids(["a"]), Resolution(1, 0), BaseSnapshot(state="x")]}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_no_attribute_of_anything_in_a_snapshot_can_be_set(part: Any) -> None:
    """Whoever holds a snapshot, or anything in it, can neither set nor delete a public attribute of it."""
    mine = copy.deepcopy(part)
    for name in [name for name in dir(mine) if not name.startswith("_")] + ["new"]:
        with pytest.raises(AttributeError):
            setattr(mine, name, None)
        with pytest.raises(AttributeError):
            delattr(mine, name)
    assert mine == part


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda one: pickle.loads(pickle.dumps(one))])
@pytest.mark.parametrize("one", [*AT.values(), full()], ids=[*AT, "full"])
def test_a_copied_snapshot_is_the_same(one: Snapshot, copied: Callable[[Snapshot], Snapshot]) -> None:
    """A snapshot equals its copies, by value, by hash and by what it shows."""
    again = copied(one)
    assert (again, hash(again), repr(again)) == (one, hash(one), repr(one))


@pytest.mark.parametrize(
    ("turn", "status"),
    [
        (answer(), "finished_answered"),
        (malformed(), "finished_malformed"),
        (answer(stop="length"), "finished_incomplete"),
        (answer(stop="refusal"), "finished_refused"),
        (asks(call(known=False)), "checking_cancel"),
    ],
    ids=lambda value: value.kind if isinstance(value, Turn) else None,
)
def test_a_snapshot_from_another_process_goes_on_as_the_one_here(turn: Turn, status: str) -> None:
    """What a turn is does not depend on which process it was read in."""
    before, _ = walk(begun(), polled(), replied(turn))
    again: Snapshot = pickle.loads(pickle.dumps(before))
    assert (walk(again, polled()), again.turn) == (walk(before, polled()), before.turn)
    assert walk(again, polled())[0].state == status


@pytest.mark.parametrize("turn", [answer(), malformed(), asks(call())], ids=lambda turn: turn.kind)
def test_a_reply_from_another_process_is_taken_as_one_from_here(turn: Turn) -> None:
    """An event that was pickled leads where the event itself does."""
    start, _ = walk(begun(policy=Policy(repairs=1)), polled())
    again = pickle.loads(pickle.dumps(replied(turn)))
    assert walk(start.but(repairs=1), again, polled()) == walk(start.but(repairs=1), replied(turn), polled())


def test_the_checked_arguments_are_new_each_time() -> None:
    """They are what the tool is called with; a call that can't run has none."""
    checked = call(arguments_text='{"n":"5"}', checked='{"n":5}')
    assert (checked.checked_arguments, checked.checked_arguments is checked.checked_arguments) == ({"n": 5}, False)
    assert call(checked=None).checked_arguments is None


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"text": 5}, "stop='', calls=(), text=5"),
        ({"stop": 5, "text": "done"}, "stop=5, calls=(), text='done'"),
        ({"calls": 5}, "stop='', calls=5, text=''"),
    ],
)
def test_what_a_turn_can_not_be_of_is_named(fields: dict[str, Any], told: str) -> None:
    """Where it is made by hand of what says nothing."""
    said = f"Turn: stop and text must be text and calls a tuple of Calls, not {told}"
    with pytest.raises(TypeError, match=f"^{re.escape(said)}$"):
        Turn(**fields)
