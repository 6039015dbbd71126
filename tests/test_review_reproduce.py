"""The tests that verify prints: of a definition of any name, and of what one play of a path does not show."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count, product
from types import ModuleType, SimpleNamespace
from typing import Any

import attrs
import pytest

from loopmachine import guards, requests, updates
from loopmachine.definition import Definition, Row, State
from loopmachine.errors import UnexpectedEvent
from loopmachine.events import CancelPolled
from loopmachine.limits import Budget, Policy
from loopmachine.machine import live
from loopmachine.records import BaseSnapshot
from loopmachine.requests import PollCancel
from loopmachine.review.explore import TRANSITIONS, Broken, Walk
from loopmachine.review.promises import PROMISES
from loopmachine.review.reproduce import PLAYS, changed, differs, endless, told_again, written_test
from loopmachine.review.world import World
from loopmachine.table import TOOL_LOOP
from tests.facts import answer, begun, call, failed, polled, replied
from tests.facts import asks as asking_for
from tests.test_promises import asking, leaking, never, planted
from tests.test_review_circles import ENDLESS

WHERE = "planted_there:MACHINE"
END = State("finished_moody", "It was in the mood.", final="limit")
TINY = World(Budget(max_steps=1), Policy(), batches=(("once",),))
CALLED = (polled(), replied(asking_for(call())), polled())


def moody(period: int) -> Definition:
    """The loop with a guard that counts how often it is asked, and holds each time a period is full."""
    counter = count(1)

    def in_the_mood(snapshot: Any, event: Any) -> bool:
        """It was asked so and so often."""
        return next(counter) % period == 0

    return TOOL_LOOP.with_state(END).with_row("admitting", Row(None, END.name, in_the_mood), at=9)


def scribbling() -> Definition:
    """The loop with an update that writes into the snapshot that it is given."""

    def scribble(snapshot: Any, event: Any) -> Any:
        """Keep the failure, and change the past."""
        vars(snapshot)["retries"] += 1
        return updates.keep_failure(snapshot, event)

    return planted("awaiting_model/2", update=scribble)


Play = Callable[..., None]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    """Run a printed test with a definition planted at module:name."""

    def run(text: str, definition: Definition, where: str = WHERE) -> None:
        module, _, dotted = where.partition(":")
        *around, name = dotted.split(".")
        holder: Any = ModuleType(module)
        monkeypatch.setitem(sys.modules, module, holder)
        for one in around:
            setattr(holder, one, SimpleNamespace())
            holder = getattr(holder, one)
        setattr(holder, name, definition)
        names: dict[str, Any] = {}
        exec(compile(text, "printed", "exec"), names)
        (test,) = [one for key, one in names.items() if key.startswith("test_")]
        test()

    return run


#: A path on which a promise is broken, and a machine that breaks it.
BROKEN: dict[str, tuple[Callable[[], Definition], Broken]] = {
    "I5": (
        lambda: planted("checking_cancel/1", guard=never),
        Broken("I5", "why", TINY, ((CancelPolled(True, at=0.0), ()),)),
    ),
    "I9": (lambda: moody(2), Broken("I9", "why", TINY, tuple((event, ()) for event in CALLED))),
    "I11": (
        leaking,
        Broken("I11", "why", TINY, tuple((event, ()) for event in (polled(), replied(answer()), polled()))),
    ),
}
#: What the printed tests bind and import themselves.
TAKEN = """
    definition start events breaks differs changed load Loop Budget Policy World Turn
    CancelPolled test_i5_why
"""
#: And what no import could name, or not in a word.
NAMES = [
    *(f"planted_there:{name}" for name in (*TAKEN.split(), "_", "match", "class", "NS.LOOP", "loop.events.Budget")),
    *("planted-there:loop", "class:None", "loop:loop", "planted.there:Loop"),
]


@pytest.mark.parametrize(("promise", "where"), list(product(BROKEN, NAMES)))
def test_a_test_is_printed_for_a_definition_of_any_name(promise: str, where: str, play: Play) -> None:
    """One of the test's own names too, or one that no import could say: it fails with the fault, and else passes."""
    made, found = BROKEN[promise]
    text = written_test(found, where)
    with pytest.raises(AssertionError):
        play(text, made(), where)
    play(text, TOOL_LOOP, where)


@pytest.mark.parametrize(
    ("made", "promise", "sentence"),
    [
        (lambda: moody(2), "I9", "the same event led to "),
        (lambda: moody(3), "I9", "the same event led to "),
        (lambda: moody(41), "I9", "the same event led to "),
        (scribbling, "I11", "a snapshot was changed by what was told after it"),
        (leaking, "I11", "a snapshot was changed by what was handed out"),
    ],
)
def test_the_test_that_is_printed_fails_alone_and_passes_once_it_is_mended(
    made: Callable[[], Definition], promise: str, sentence: str, play: Play
) -> None:
    """In a process that has not run the machine before, whose memory is empty."""
    looks = None if made is leaking else 0
    world = World(Budget(max_steps=3), Policy(), sees=lambda snapshot: snapshot.steps)
    (found,) = Walk(made(), world, {promise: PROMISES[promise]}, looks).run().broken
    assert (found.promise, found.sentence[: len(sentence)]) == (promise, sentence)
    text = written_test(found, WHERE)
    with pytest.raises(AssertionError):
        play(text, made())
    play(text, TOOL_LOOP)


def test_a_memory_that_takes_longer_is_not_shown_and_the_test_says_so(play: Play) -> None:
    """It passes, and its docstring says when it does."""
    found = Broken("I9", "why", TINY, tuple((event, ()) for event in CALLED))
    text = written_test(found, WHERE)
    play(text, moody(PLAYS + 1))
    with pytest.raises(AssertionError):
        play(text, moody(PLAYS))
    assert (
        '"""I9 holds where it was broken: why\n\n    The events are played 1,000 times. A guard, an update or asks with'
        " a memory of its own may need more plays, or\n    other events between them, to do something else: then this "
        'passes, and only verify shows it.\n    """\n'
    ) in text


def test_a_circle_is_gone_round_and_round(play: Play) -> None:
    """Its test fails where the events come again as often as they are played, and passes where one is refused."""
    (found,) = Walk(ENDLESS, World(Budget(max_steps=1), Policy())).run().broken
    text = written_test(found, WHERE)
    with pytest.raises(AssertionError):
        play(text, ENDLESS)
    play(text, TOOL_LOOP)
    events = [event for event, _ in found.path]
    said = f"after {PLAYS + 3:,} events the run is in pausing and goes on"
    assert [endless(machine, begun(), events, 1) for machine in (ENDLESS, TOOL_LOOP)] == [said, None]


def test_plays_that_differ_are_told_with_where_they_led() -> None:
    """By the event, the play, the states and the rows."""
    ways = "rechecking_cancel/2, validating/9, admitting/"
    assert (differs(moody(5), begun(), CALLED), differs(TOOL_LOOP, begun(), CALLED)) == (
        f"event 3 led to dispatching by {ways}11, collecting/2, at play 5 to finished_moody by {ways}9",
        None,
    )


def forgetting(at: int) -> Definition:
    """A machine that waits for a poll, twice, and once forgets to ask for it."""
    counter = count(1)

    def forgetful(snapshot: Any) -> tuple[PollCancel, ...]:
        """Ask, but for once."""
        return () if next(counter) == at else (PollCancel(),)

    first, second = (State(name, "It waits.", forgetful) for name in ("first", "second"))
    ended = State("ended", "It ends.", final="answered")
    return Definition("first", {first: [Row(CancelPolled, "second")], second: [Row(CancelPolled, "ended")], ended: []})


@pytest.mark.parametrize(
    ("at", "says"),
    [
        (7, "event 1 led to second by first/1, at play 3 to first does not take this CancelPolled: nothing that is "),
        (8, "event 1 led to second by first/1, at play 3 to second by first/1"),
    ],
)
def test_asks_with_a_memory_are_told_too(at: int, says: str) -> None:
    """Whether the event is refused for it, or nothing more is asked for; a play asks thrice."""
    start: Any = BaseSnapshot(state="first")
    assert (differs(forgetting(at), start, (polled(), polled())) or "").startswith(says)


def test_an_event_that_every_play_refuses_is_where_they_end() -> None:
    """They are alike: the path may be none of the machine once it is mended."""
    assert differs(TOOL_LOOP, begun(), (polled(), polled(), polled())) is None


def test_a_snapshot_that_was_changed_is_told_as_it_is_now() -> None:
    """Whether an event of the path changed it, or one that may follow; an untouched path is None."""
    told = [
        changed(scribbling(), begun(), (polled(),), TINY),
        changed(scribbling(), begun(), (polled(), failed(), polled()), TINY),
        changed(leaking(), begun(), (polled(), replied(answer()), polled()), TINY),
        changed(TOOL_LOOP, begun(), CALLED, TINY),
        changed(TOOL_LOOP, begun(), (polled(), polled()), TINY),
    ]
    begins = "a snapshot was changed; it now is Snapshot(state='"
    assert [one and one.removeprefix(begins).partition("'")[0] for one in told] == [
        "awaiting_model",
        "awaiting_model",
        "finished_answered",
        None,
        None,
    ]


# --- a path that is told once more, and one that the machine no longer goes ------------------------------------


def polling() -> Definition:
    """The loop that polls while calls are to be started."""
    return asking("dispatching", lambda snapshot: (*requests.run_calls(snapshot), PollCancel()))


def refusing() -> Definition:
    """The loop that polls while the model is asked, and takes no answer to that."""
    return asking("awaiting_model", lambda snapshot: (*requests.ask_model(snapshot), PollCancel()))


@pytest.mark.parametrize(
    ("made", "promise", "by"), [(polling, "I1", AssertionError), (refusing, "I8", UnexpectedEvent)]
)
def test_events_that_a_mended_machine_does_not_wait_for_break_nothing(
    made: Callable[[], Definition], promise: str, by: type[Exception], play: Play
) -> None:
    """The printed test passes then, and fails while the fault is there: by an answer too that is asked and refused."""
    (found,) = Walk(made(), TINY, {promise: PROMISES[promise]}).run().broken
    text = written_test(found, WHERE)
    with pytest.raises(by):
        play(text, made())
    play(text, TOOL_LOOP)
    said = "    # An event that the machine no longer waits for ends the path: what comes after it is not looked at.\n"
    assert (found.promise, told_again(found, made()), told_again(found, TOOL_LOOP), said in text) == (
        promise,
        True,
        False,
        True,
    )


def once_tired() -> Definition:
    """The loop with a limit of steps that is reached after one of them, too, the first time it is asked there."""
    once = iter([True])

    def steps_spent(snapshot: Any, event: Any) -> bool:
        """The steps are spent, or it is the first time."""
        return guards.steps_spent(snapshot, event) or (snapshot.steps == 1 and next(once, False))

    return planted("checking_budget/5", guard=steps_spent)


def test_a_test_of_what_was_not_broken_again_says_that_it_may_pass(play: Play) -> None:
    """Told to a machine that remembers, the events may break nothing: verify knows it, and so does the test."""
    machine = once_tired()
    (found,) = Walk(machine, attrs.evolve(TINY, budget=Budget(max_steps=2))).run().broken
    text = written_test(found, WHERE, told_again(found, machine))
    play(text, machine)
    assert (
        f'"""I13 holds where it was broken: {found.sentence}\n\n    Told again, these events broke nothing. A guard, '
        "an update or asks with a memory of its own may need more plays, or\n    other events between them, to do "
        'something else: then this passes, and only verify shows it.\n    """\n'
    ) in text
    assert "Told again" not in written_test(found, WHERE, told_again(found, once_tired()))


def test_what_is_raised_when_the_events_are_told_again_is_the_fault() -> None:
    """Even a SystemExit, and before any event; only who stops the command does that."""

    def raising(error: BaseException) -> Callable[..., Any]:
        def asks(snapshot: Any, event: Any = None) -> Any:
            """Somebody's own."""
            raise error

        return asks

    found = Broken("I8", "why", TINY, ((polled(), ()),))
    faulty = [
        asking("checking_cancel", raising(ZeroDivisionError())),
        planted("checking_cancel/1", guard=raising(SystemExit(0))),
    ]
    assert [told_again(found, one) for one in (*faulty, TOOL_LOOP)] == [True, True, False]
    with pytest.raises(KeyboardInterrupt):
        told_again(found, planted("checking_cancel/1", guard=raising(KeyboardInterrupt())))


def test_what_stock_transitions_do_otherwise_is_told_again_too() -> None:
    """As long as the live machine does not do what its table says, even where no promise speaks of it."""
    mine = moody(1)
    live(mine).remove_transition("auto", "admitting", END.name)
    (found,) = Walk(mine, TINY).run().broken
    assert (found.promise, told_again(found, mine), told_again(found, TOOL_LOOP)) == (TRANSITIONS, True, False)
