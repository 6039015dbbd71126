"""The walk: every path of a small world, equal rests merged, and the shortest way to what is broken."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from itertools import count
from typing import Any

import attrs
import pytest

from loopmachine import guards, updates
from loopmachine.definition import Row
from loopmachine.events import CallReturned, CancelPolled, Event
from loopmachine.history import History
from loopmachine.limits import Budget, Policy
from loopmachine.machine import advance, engine, live
from loopmachine.records import Snapshot, Turn
from loopmachine.requests import AskApproval, ask_model
from loopmachine.review.explore import Walk
from loopmachine.review.order import Orders
from loopmachine.review.promises import PROMISES
from loopmachine.review.world import World
from loopmachine.table import TOOL_LOOP
from tests.facts import polled, snapshot
from tests.test_promises import admit_all, append_too_little, asking, leaking, never, planted, rewrite, rosy

#: One step, and turns of one call and of two.
TINY = World(Budget(max_steps=1), Policy(), batches=(("once",), ("read", "alone")))


def broken(definition: Any, world: World = TINY, **more: Any) -> list[tuple[str, str, list[str]]]:
    """What a walk finds broken: the promise, how, and the rows on the way."""
    walk = Walk(definition, world, **more).run()
    assert walk.whole is not bool(walk.broken)
    return [(one.promise, one.sentence, [row for _, rows in one.path for row in rows]) for one in walk.broken]


# --- what a walk is ---------------------------------------------------------------------------------------


def test_a_walk_ends_and_counts() -> None:
    """A world is explored to its end: every rest is left on everything that can happen there."""
    walk = Walk(TOOL_LOOP, TINY).run()
    assert (walk.whole, walk.broken, walk.advances, walk.snapshots) == (True, [], 474, 99)
    assert sum(walk.paths.values()) == walk.advances
    assert sorted(walk.statuses) == [
        "finished_answered",
        "finished_cancelled",
        "finished_incomplete",
        "finished_malformed",
        "finished_model_error",
        "finished_refused",
        "finished_repeated_call",
        "finished_step_budget",
        "finished_time_budget",
    ]
    assert {"admitting/10", "collecting/1", "dispatching/4", "awaiting_resolution/1"} < walk.rows


def test_who_counts_the_rows_of_tests_is_not_told_those_of_a_walk() -> None:
    """What is explored was tested by nobody; afterwards it is counted on."""
    mine, seen = attrs.evolve(TOOL_LOOP), list[tuple[str, ...]]()
    engine(mine).watch = seen.append
    Walk(mine, TINY).run()
    during = list(seen)
    advance(mine, TINY.start(mine.initial), CancelPolled(False, at=0.0))
    assert (during, seen) == ([], [("checking_cancel/2", "checking_budget/7")])


def test_a_run_in_another_thread_is_counted_meanwhile() -> None:
    """Only what the exploring thread takes is left out."""
    mine, seen, start = attrs.evolve(TOOL_LOOP), list[tuple[str, ...]](), TINY.start("checking_cancel")
    engine(mine).watch = seen.append

    def beside(move: Any) -> None:
        if not seen:
            thread = threading.Thread(target=advance, args=(mine, start, CancelPolled(False, at=0.0)))
            thread.start()
            thread.join()

    walk = Walk(mine, TINY, {"beside": beside}).run()
    assert (walk.advances, seen) == (474, [("checking_cancel/2", "checking_budget/7")])


def test_a_walk_is_the_same_each_time() -> None:
    """Two walks of one world take the same rows as often."""
    one, other = (Walk(TOOL_LOOP, TINY).run() for _ in range(2))
    assert (one.paths, one.snapshots) == (other.paths, other.snapshots)


DIGEST = """
import hashlib
from loopmachine.review.account import seal
from loopmachine.review.explore import Walk
from loopmachine.review.order import Orders
from loopmachine.review.promises import PROMISES
from loopmachine.table import TOOL_LOOP
from tests.test_review_explore import TINY

told = hashlib.sha256()
Walk(TOOL_LOOP, TINY, {"seen": lambda move: told.update(seal(move.after) + repr(move.requests).encode())}).run()
print(told.hexdigest())
"""


def test_another_process_under_another_hash_seed_sees_the_same_byte_for_byte() -> None:
    """I9: of every advance of a walk, in the same order, the snapshots, the rows and the requests are the same."""
    command = [sys.executable, "-c", DIGEST]
    digests = [
        subprocess.run(command, capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed}).stdout
        for seed in ("0", "1")
    ]
    assert (digests[0] == digests[1], len(digests[0])) == (True, 65)


def test_a_walk_can_be_cut() -> None:
    """After so many advances, or when the time has come, it stops and says that it is not whole."""
    few, late = Walk(TOOL_LOOP, TINY).run(advances=20), Walk(TOOL_LOOP, TINY).run(seconds=0.0)
    assert (few.whole, 20 <= few.advances < 60, late.whole, late.advances) == (False, True, False, 0)
    assert Walk(TOOL_LOOP, TINY).run(seconds=600.0).whole


def test_a_walk_looks_closer_at_some_of_the_advances_or_at_all() -> None:
    """Of those that took the same rows at the first few; with no bound at every one."""
    some, every = Walk(TOOL_LOOP, TINY, looks=1).run(), Walk(TOOL_LOOP, TINY, looks=None).run()
    assert (some.looked, every.looked, every.broken) == (len(some.paths), every.advances, [])


def test_the_log_is_kept_where_guards_of_one_s_own_can_read_it() -> None:
    """Of the machine whose functions are all the library's own, each rest remembers the latest event."""
    lengths: list[set[int]] = []
    for definition in (TOOL_LOOP, planted("checking_cancel/1", guard=cancel_in_own_words)):
        lengths.append(set())
        seen = {"seen": lambda move: lengths[-1].add(len(move.before.log))}
        assert Walk(definition, TINY, seen).run().whole
    assert (lengths[0], lengths[1] >= {0, 1, 2, 3, 4, 5}) == ({0, 1}, True)


def cancel_in_own_words(snapshot: Snapshot, event: Event) -> bool:
    """A cancel was asked for, in somebody's own words."""
    return guards.cancel_requested(snapshot, event)


# --- what it finds ----------------------------------------------------------------------------------------


def test_the_first_path_to_a_broken_promise_is_a_shortest_one() -> None:
    """A cancel that is not looked for is found at the first poll that tells it."""
    blind = planted("checking_cancel/1", guard=never)
    assert broken(blind) == [
        ("I5", "a cancel was observed, and the snapshot says otherwise", ["checking_cancel/2", "checking_budget/7"])
    ]


@pytest.mark.parametrize(
    ("promise", "row_id", "update"),
    [
        ("I3", "collecting/3", append_too_little),
        ("I3", "collecting/3", None),
        ("I4", "dispatching/5", updates.requeue_lost),
        ("I7", "collecting/3", rewrite),
        ("I10", "dispatching/2", rosy(updates.record)),
        ("I12", "admitting/10", admit_all),
    ],
)
def test_what_speaks_of_calls_or_the_history_is_asked_where_a_move_has_to_do_with_them(
    promise: str, row_id: str, update: Any
) -> None:
    """Each of these promises, asked alone, is found broken."""
    faulty, two = planted(row_id, update=update), attrs.evolve(TINY, budget=Budget(max_steps=2))
    found = broken(faulty, two, promises={promise: PROMISES[promise]}, looks=0)
    assert [name for name, *_ in found] == [promise]


def test_an_answer_that_is_refused_breaks_i8() -> None:
    """The live machine has lost the only row on it."""
    mine = attrs.evolve(TOOL_LOOP)
    live(mine).remove_transition("ModelFailed", "awaiting_model")
    ((promise, sentence, rows),) = broken(mine)
    assert (promise, sentence[:43]) == ("I8", "an answer to what was asked is refused: awa")
    assert rows == ["checking_cancel/2", "checking_budget/7"]


def test_an_update_that_raises_breaks_i8() -> None:
    """The sentence says what was raised."""

    def explode(snapshot: Any, event: Any) -> Any:
        """Explode."""
        raise KeyError("no such thing")

    assert broken(planted("awaiting_model/1", update=explode)) == [
        ("I8", "it raises KeyError: 'no such thing'", ["checking_cancel/2", "checking_budget/7"])
    ]


def exits(snapshot: Any, event: Any) -> Any:
    """Ends the program, as if all were well."""
    raise SystemExit(0)


def interrupted(snapshot: Any, event: Any) -> Any:
    """Somebody has had enough."""
    raise KeyboardInterrupt


def test_an_update_that_exits_breaks_i8() -> None:
    """It does not end the exploration as if all were well; an interrupt ends it."""
    assert broken(planted("awaiting_model/1", update=exits)) == [
        ("I8", "it raises SystemExit: 0", ["checking_cancel/2", "checking_budget/7"])
    ]
    with pytest.raises(KeyboardInterrupt):
        broken(planted("awaiting_model/1", update=interrupted))


def test_a_guard_that_exits_behind_another_row_does_not_hold() -> None:
    """No run asks it there; an interrupt ends the exploration there, too."""

    def looked(guard: Any) -> Orders:
        orders = Orders(TOOL_LOOP.with_row("checking_cancel", Row(CancelPolled, "checking_budget", guard), at=2))
        orders.look(snapshot(), polled(True), ("checking_cancel/1",))
        return orders

    assert looked(exits).found == {}
    with pytest.raises(KeyboardInterrupt):
        looked(interrupted)


def test_what_is_not_the_same_twice_breaks_i9() -> None:
    """An update that counts by itself is found where a rest is new."""
    counter = count()

    def number(snapshot: Any, event: Any) -> Any:
        """Remember a cancel, and number it."""
        return updates.remember_cancel(snapshot, event).but(cancel_reason=str(next(counter)))

    ((promise, _, rows),) = broken(planted("checking_cancel/1", update=number))
    assert (promise, rows) == ("I9", ["checking_cancel/1"])


def lying() -> Any:
    """A table with a guard that tells the truth of each failure every other time that it is asked."""
    counter = count()

    def failed(snapshot: Any, event: Any) -> bool:
        """Asking the model brought no turn, every other time."""
        return snapshot.failure is not None and next(counter) % 2 == 0

    return planted("validating/3", guard=failed)


def test_what_raises_when_it_is_told_again_breaks_i9() -> None:
    """A guard that remembers leads once to the end, and then to an update without what it needs."""
    needs = "raised AssertionError: the row's guards have made sure of a turn"
    ((promise, sentence, _),) = broken(lying())
    assert (promise, sentence) == ("I9", f"the same event led to finished_model_error, then it {needs}")
    ((promise, sentence, _),) = broken(lying(), promises={})
    looked = "the event is taken, and looked at once more it raises AssertionError: the row's guards have made sure of"
    assert (promise, sentence) == ("I9", f"{looked} a turn")


@pytest.mark.parametrize("promises", [PROMISES, {}], ids=["told again", "looked at closer"])
def test_an_interrupt_of_a_second_look_ends_it(promises: Any) -> None:
    """As it ends the first."""
    counter = count()

    def once(snapshot: Any, event: Any) -> bool:
        """Asking the model brought no turn; then somebody has had enough."""
        if snapshot.failure is not None and next(counter):
            raise KeyboardInterrupt
        return snapshot.failure is not None

    with pytest.raises(KeyboardInterrupt):
        broken(planted("validating/3", guard=once), promises=promises)


def forgets_the_first(snapshot: Any, event: Any) -> Any:
    """Appends the exchange to the rest of the history."""
    after = updates.append_exchange(snapshot, event)
    return after.but(history=History(after.history.entries[1:]))


def test_where_the_history_or_a_rest_is_wrong_that_is_named() -> None:
    """And not what else is broken there, because the account of the events looks at both."""
    two = attrs.evolve(TINY, budget=Budget(max_steps=2))
    idle = asking("awaiting_model", lambda snapshot: () if snapshot.steps == 2 else ask_model(snapshot))
    found = [broken(one, two)[0][0] for one in (planted("collecting/3", update=forgets_the_first), idle)]
    assert found == ["I7", "I8"]


def approves_all(snapshot: Any, event: Any) -> Any:
    """Keeps every word as a yes."""
    words = tuple([attrs.evolve(word, approved=True) for word in event.decisions])
    return updates.keep_decisions(snapshot, attrs.evolve(event, decisions=words))


def answers_for(snapshot: Any, event: Any) -> Any:
    """Keeps a turn that asks for what there is not as an answer."""
    absent = event.turn.calls and not event.turn.calls[0].known
    turn = Turn("the answer", stop="stop") if absent else event.turn
    return updates.keep_turn(snapshot, attrs.evolve(event, turn=turn))


def loses_the_bill(update: Any) -> Any:
    """The same update, told of no usage."""

    def told(snapshot: Any, event: Any) -> Any:
        """Forgets what the call had spent."""
        return update(snapshot, attrs.evolve(event, usage=None))

    return told


def admits_one_of(snapshot: Any, event: Any) -> Any:
    """Admits the first call of a turn."""
    turn = snapshot.turn
    return updates.admit(snapshot.but(turn=attrs.evolve(turn, calls=turn.calls[:1])), event)


def counts_to_one(snapshot: Any, event: Any) -> Any:
    """Counts of each tool that has a limit one call."""
    after = updates.admit(snapshot, event)
    return after.but(tool_calls=tuple([(name, min(times, 1)) for name, times in after.tool_calls]))


PRICED, TWO = Budget(max_steps=1, max_cost_usd=1.0), (("once",), ("once", "once"))


@pytest.mark.parametrize(
    ("promise", "wrong", "world"),
    [
        ("I10", planted("awaiting_approval/1", update=approves_all), World(Budget(max_steps=1), Policy())),
        ("I13", planted("awaiting_model/1", update=answers_for), World(Budget(max_steps=1), Policy())),
        ("I3", planted("admitting/10", update=admits_one_of), World(Budget(max_steps=2), Policy(), batches=TWO)),
        ("I2", planted("dispatching/5", update=loses_the_bill(updates.mark_lost)), World(PRICED, Policy())),
        ("I2", planted("dispatching/4", update=loses_the_bill(updates.requeue_lost)), World(PRICED, Policy())),
        ("I10", planted("admitting/10", update=counts_to_one), World(Budget(max_steps=2), Policy(), limit=2)),
    ],
)
def test_rests_that_only_the_events_tell_apart_are_two(promise: str, wrong: Any, world: World) -> None:
    """A wrong machine makes of two things that it was told the same snapshot; the way from either is gone."""
    assert [name for name, *_ in broken(wrong, world, looks=0)] == [promise]


def test_a_snapshot_that_is_changed_later_breaks_i11() -> None:
    """An update that writes into the snapshot that it is given is found when that rest is left."""

    def scribble(snapshot: Any, event: Any) -> Any:
        """Keep the failure, and change the past."""
        vars(snapshot)["retries"] += 1
        return updates.keep_failure(snapshot, event)

    walk = Walk(planted("awaiting_model/2", update=scribble), TINY, {"I11": lambda move: None}, looks=0)
    assert [(one.promise, one.sentence) for one in walk.run(advances=500).broken] == [
        ("I11", "a snapshot was changed by what was told after it")
    ]


def test_a_snapshot_that_hands_out_what_it_holds_breaks_i11() -> None:
    """What a model is given can be changed by it, and is."""
    found = broken(leaking(), promises={"I11": lambda move: None})
    assert [found[0][:2], found[0][2][-1]] == [("I11", "a snapshot was changed by what was handed out"), "validating/8"]
    assert broken(leaking(), promises={}) == []


def test_what_the_stock_classes_do_otherwise_is_found() -> None:
    """A row that is gone from the live machine only is taken by stock transitions."""
    mine = attrs.evolve(TOOL_LOOP)
    live(mine).remove_transition("auto", "validating", "finished_refused")
    ((promise, sentence, _),) = broken(mine, promises={})
    assert (promise, sentence) == (
        "transitions",
        "stock transitions take rechecking_cancel/2, validating/5 to finished_refused, "
        "not rechecking_cancel/2, validating/9, admitting/10, collecting/2",
    )


def test_a_definition_that_hears_nothing_is_walked_too() -> None:
    """What every event brings is no part that a table must have."""
    deaf = attrs.evolve(TOOL_LOOP, hear={})
    walk = Walk(deaf, TINY, {}).run(advances=100)  # its pauses never end, so neither would the walk
    assert (walk.broken, walk.looked > 20) == ([], True)


# --- whose order matters ----------------------------------------------------------------------------------


def test_two_guards_that_hold_at_once_are_found_with_a_witness() -> None:
    """A step that failed because of the deadline has failed, too; at the witness both guards hold."""
    found = Walk(TOOL_LOOP, TINY).run().orders.found
    both = found["validating/2", "validating/3"]
    holds = [guard(both.witness, both.event) for guard in (guards.model_timed_out, guards.model_failed)]
    assert (sorted(found), holds) == (
        [("dispatching/3", "dispatching/4"), ("validating/2", "validating/3")],
        [True, True],
    )


def worked(snapshot: Any, event: Any) -> bool:
    """The tool worked."""
    return bool(event.result.outcome == "ok")


BESIDE = [("wrong", "answered", 0), ("once", "running", 0), ("read", "running", 1)]


def worked_late(snapshot: Any, event: Any) -> bool:
    """The tool worked in the second step, beside a call that was wrong and one that was lost."""
    beside = [(flight.call.name, flight.phase, flight.losses) for flight in snapshot.flights]
    return worked(snapshot, event) and snapshot.steps == 2 and beside == BESIDE


def test_wherever_a_way_leads_to_a_new_rest_the_other_guards_are_asked() -> None:
    """However often it was gone before."""
    both, late = Row(CallReturned, "collecting", worked, updates.record), worked_late
    mine = TOOL_LOOP.with_row("dispatching", both, at=2)
    mine = mine.with_row("dispatching", attrs.evolve(both, guard=late), at=3)
    batches = (*((kind, "once") for kind in ("once", "read", "alone", "absent")), ("wrong", "once", "read"))
    walk = Walk(mine, World(Budget(max_steps=2), Policy(), batches=batches), {}, looks=0).run()
    pair = "dispatching/2", "dispatching/3"
    assert walk.orders.found[pair].witness.steps == 2


def test_a_rest_that_asks_nothing_is_found() -> None:
    """A state that waits for nothing breaks I8."""
    idle = asking("rechecking_cancel", lambda snapshot: ())
    ((promise, sentence, _),) = broken(idle)
    assert (promise, sentence) == ("I8", "the run stands in rechecking_cancel and waits for nothing")


def test_the_collector_is_left_as_it_was() -> None:
    """A walk does not look for cycles, and afterwards Python does again if it did before."""
    states = []
    for enabled in (False, True):
        (gc.enable if enabled else gc.disable)()
        Walk(TOOL_LOOP, TINY).run(advances=1)
        states.append(gc.isenabled())
    assert states == [False, True]


def test_a_call_that_cannot_run_may_be_asked_about() -> None:
    """By the requests of somebody's own; there are no arguments of it that could be spoilt."""

    def every(snapshot: Any) -> Any:
        return (AskApproval(snapshot.turn.calls),)

    world = World(Budget(max_steps=1), Policy(), batches=(("asks", "wrong"),))
    assert Walk(asking("awaiting_approval", every), world, {}).run(advances=300).broken == []


def test_what_cannot_run_is_handed_out_too() -> None:
    """A call whose arguments were refused has none to spoil."""
    wrong = attrs.evolve(TINY, batches=(("asks", "wrong"), ("wrong",)))
    assert Walk(TOOL_LOOP, wrong, looks=None).run().broken == []


def test_a_rest_is_kept_whole() -> None:
    """What a walk goes on from is what the machine gave."""
    kept: list[Snapshot] = []
    made: dict[Any, Snapshot] = {TINY.key(TINY.start("checking_cancel")): TINY.start("checking_cancel")}

    def look(move: Any) -> None:
        kept.append(move.before)
        made.setdefault(TINY.key(move.after), move.after)

    Walk(TOOL_LOOP, TINY, {"look": look}).run()
    assert [one for one in kept if made[TINY.key(one)] != one] == []
