"""Logs that snapshots share: append-only, forking, O(1) to take, and nobody's to change."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any, Self, TypeVar

import attrs
import pytest

from loopmachine.history import EventLog, History, Ids, Log
from loopmachine.records import Call, CallResult, Exchange, Final, Note, Turn, UserMessage
from tests.facts import HELLO, answer, call, exchange

T = TypeVar("T")


def pickled(value: T) -> T:
    """The value, by way of another process."""
    again: T = pickle.loads(pickle.dumps(value))
    return again


class Crowded(list[Any]):
    """A list into which another thread puts an item just before the first append, or addition in place."""

    def __init__(self, intruder: object) -> None:
        super().__init__()
        self.intruders = [intruder]

    def append(self, item: object) -> None:
        self.extend(self.intruders)
        self.intruders = []
        super().append(item)

    def __iadd__(self, items: Any) -> Self:  # type: ignore[misc]  # a list adds in place more than it adds
        self.extend(self.intruders)
        self.intruders = []
        return super().__iadd__(items)


class Watched(list[Any]):
    """A list that notes what of it was looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[object] = []

    def __getitem__(self, place: Any) -> Any:
        self.seen.append(place)
        return super().__getitem__(place)


def at_once(work: Callable[[int], T], threads: int = 2) -> list[T]:
    """What each of several threads gets that start at the same moment."""
    start, got = threading.Barrier(threads), dict[int, T]()

    def one(number: int) -> None:
        start.wait(60)
        got[number] = work(number)

    running = [threading.Thread(target=one, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return [got[number] for number in range(threads)]


# --- logs -----------------------------------------------------------------------------------------------


def test_a_log_that_grows_leaves_the_older_ones_as_they_were() -> None:
    """Every length that a log had is still there after it grew."""
    logs = [Log[str]()]
    for item in "abc":
        logs.append(logs[-1].append(item))
    assert [list(log) for log in logs] == [[], ["a"], ["a", "b"], ["a", "b", "c"]]


def test_a_second_append_to_the_same_length_forks() -> None:
    """Two futures of one log know nothing of each other, nor does their past."""
    past = Log(["a"])
    one, other = past.append("b"), past.append("c")
    assert [list(log) for log in (past, one, other, one.append("d"), other.append("e"))] == [
        ["a"],
        ["a", "b"],
        ["a", "c"],
        ["a", "b", "d"],
        ["a", "c", "e"],
    ]


def test_appending_shares_the_list_and_looks_up_no_more_than_the_new_item() -> None:
    """A log grows by one item without a look at those before it."""
    log = Log[int]()
    shared = log._items = Watched()
    for number in range(100):
        log = log.append(number)
    seen = list(shared.seen)
    assert (log._items is shared, seen, list(log)) == (True, list(range(100)), list(range(100)))


def test_an_item_of_another_thread_that_comes_between_is_not_ours() -> None:
    """A log that loses the race for the shared list forks."""
    log = Log[str]()
    log._items = Crowded("theirs")
    mine = log.append("mine")
    assert (list(mine), list(mine.append("more")), list(log)) == (["mine"], ["mine", "more"], [])


def test_two_threads_that_append_to_one_log_each_get_their_own() -> None:
    """Whoever appends, to whatever length, sees what was there and the own items."""
    for _ in range(50):
        past = Log(["past"])

        def grow(number: int, past: Log[str] = past) -> list[str]:
            log = past
            for item in range(20):
                log = log.append(f"{number}:{item}")
            return list(log)

        assert at_once(grow) == [["past", *(f"{number}:{item}" for item in range(20))] for number in range(2)]


@pytest.mark.parametrize("place", range(-3, 3))
def test_a_log_is_indexed_as_a_tuple_is(place: int) -> None:
    """A place counts from either end of what this log shows, not of what it shares."""
    log = Log("abc")
    log.append("d")
    assert log[place] == tuple("abc")[place]


@pytest.mark.parametrize("place", [-4, 3, 4])
def test_a_place_outside_a_log_is_an_index_error(place: int) -> None:
    """A place that only a longer log has is refused, with the place and the length."""
    log = Log("abc")
    log.append("d")
    with pytest.raises(IndexError, match=rf"^place {place} in a log of 3$"):
        log[place]


@pytest.mark.parametrize("part", [slice(None), slice(1, None), slice(-2, 9), slice(None, None, -1), slice(2, 1)])
def test_a_log_is_sliced_as_a_tuple_is(part: slice) -> None:
    """A slice is a tuple of what this log shows."""
    log = Log("abc")
    log.append("d")
    assert log[part] == tuple("abc")[part]


def test_logs_of_the_same_items_are_equal_however_they_came_about() -> None:
    """Equality and hash are of the items in their order, and of nothing else."""
    one, other = Log("ab"), Log[str]().append("a").append("b")
    other.append("c")
    assert (one == other, hash(one) == hash(other), one == Log("ba"), one == Log("abc"), one == ["a", "b"]) == (
        True,
        True,
        False,
        False,
        False,
    )


def test_a_log_shows_its_items() -> None:
    """The repr of a log is how it could be made."""
    assert repr(Log("ab").append("c")) == "Log(['a', 'b', 'c'])"


@pytest.mark.parametrize("copied", [pickled, copy.deepcopy, copy.copy])
def test_a_copied_log_holds_what_this_one_shows(copied: Callable[[Log[str]], Log[str]]) -> None:
    """What a longer log shares with this one does not travel with it."""
    log = Log("ab")
    log.append("c")
    again = copied(log)
    assert (again, list(again), len(again._items)) == (log, ["a", "b"], 2)


def test_a_log_takes_its_items_by_value() -> None:
    """A list that a log was made of can change afterwards."""
    items = ["a"]
    log = Log(items)
    items.append("b")
    assert list(log) == ["a"]


# --- ids ------------------------------------------------------------------------------------------------


def test_ids_grow_and_fork_as_logs_do() -> None:
    """Each set of ids has what was added on its own way, in order."""
    past = Ids(["a", "a"])
    one, other = past.add("b"), past.add("c")
    assert [list(ids) for ids in (Ids(), past, one, other, one.add("c"), other.add("b"), past.add("b"))] == [
        [],
        ["a"],
        ["a", "b"],
        ["a", "c"],
        ["a", "b", "c"],
        ["a", "c", "b"],
        ["a", "b"],
    ]


def test_an_id_that_is_in_changes_nothing() -> None:
    """Adding an id again gives the same ids."""
    ids = Ids(["a"])
    assert ids.add("a") is ids


def test_ids_hold_only_what_they_show() -> None:
    """An id that a longer set shares is not in this one, nor is what is no id."""
    ids = Ids(["a"])
    longer = ids.add("b")
    assert ["a" in ids, "b" in ids, "b" in longer, None in ids, len(ids), len(longer)] == [
        True,
        False,
        True,
        False,
        1,
        2,
    ]


def test_adding_an_id_shares_the_dict() -> None:
    """Ids grow without a copy."""
    ids = Ids()
    shared = ids._places
    for number in range(100):
        ids = ids.add(str(number))
    assert (ids._places is shared, len(ids)) == (True, 100)


def test_an_id_of_another_thread_that_comes_between_is_not_ours() -> None:
    """Ids that lose the race for the shared list fork."""
    ids = Ids()
    ids._order = Crowded("other")
    mine = ids.add("mine")
    assert (list(mine), len(mine), "other" in mine, list(ids)) == (["mine"], 1, False, [])


def test_two_threads_that_add_ids_each_get_their_own() -> None:
    """Whoever adds, to whatever length, has what was there and the own ids."""
    for _ in range(50):
        past = Ids(["past"])

        def grow(number: int, past: Ids = past) -> list[str]:
            ids = past
            for item in range(20):
                ids = ids.add(f"{number}:{item}")
            return list(ids)

        assert at_once(grow) == [["past", *(f"{number}:{item}" for item in range(20))] for number in range(2)]


def test_ids_are_read_while_another_thread_adds_to_them() -> None:
    """Whoever reads ids that others grow from sees the ids that were there, and no error."""
    held, interval = Ids(map(str, range(200))), sys.getswitchinterval()

    def grow(_: int) -> list[str]:
        ids = held
        for item in range(2000):
            ids = ids.add(f"new {item}")
        return list(ids)[:200]

    def read(_: int) -> list[str]:
        return [list(held) for _ in range(200)][-1]

    def often(number: int) -> list[str]:
        sys.setswitchinterval(1e-6)  # once both have started
        return (grow, read)[number](number)

    try:
        seen = at_once(often)
    finally:
        sys.setswitchinterval(interval)
    assert seen == [list(map(str, range(200)))] * 2


def test_ids_are_equal_by_what_they_hold() -> None:
    """Equality and hash are of the ids in their order, and of nothing else."""
    one, other = Ids("ab"), Ids().add("a").add("b")
    other.add("c")
    assert (one == other, hash(one) == hash(other), one == Ids("abc"), one == {"a", "b"}) == (True, True, False, False)


@pytest.mark.parametrize("copied", [pickled, copy.deepcopy, copy.copy])
def test_copied_ids_hold_what_these_show(copied: Callable[[Ids], Ids]) -> None:
    """What longer ids share with these does not travel with them."""
    ids = Ids("ab")
    ids.add("c")
    again = copied(ids)
    assert (again, repr(again), len(again._places)) == (ids, "Ids(['a', 'b'])", 2)


# --- the history ----------------------------------------------------------------------------------------

SAID = [
    {"kind": "user", "text": "hello"},
    {"kind": "text", "text": "let me look"},
    {"kind": "call", "id": "c1_0", "name": "look", "arguments": {"n": 1}},
    {"kind": "call", "id": "c1_1", "name": "look", "arguments": {}},
    {"kind": "tool_result", "id": "c1_0", "content": "1", "outcome": "ok"},
    {"kind": "tool_result", "id": "c1_1", "content": "1", "outcome": "ok"},
    {"kind": "note", "text": "that was nothing"},
    {"kind": "call", "id": "c2_0", "name": "look", "arguments": {}},
    {"kind": "tool_result", "id": "c2_0", "content": "1", "outcome": "ok"},
    {"kind": "final", "text": "done"},
]
ENTRIES: list[Any] = [
    HELLO,
    exchange(call(arguments_text='{"n":1}'), call(1), text="let me look"),
    Note("that was nothing"),
    exchange(call(step=2)),
    Final(answer()),
]


def history() -> History:
    """A history of one entry of each kind."""
    said = History()
    for entry in ENTRIES:
        said = said.append(entry)
    return said


def test_a_history_is_the_messages_of_its_entries() -> None:
    """Of a turn first its text, then all its calls, then all their results; counted without a look at them."""
    assert (list(history()), len(history())) == (SAID, len(SAID))


@pytest.mark.parametrize("entry", ENTRIES, ids=[type(entry).__name__ for entry in ENTRIES])
def test_an_entry_knows_how_many_messages_it_stands_for(entry: Any) -> None:
    """The length of an entry is that of its messages."""
    assert len(entry) == len(entry.messages())


@pytest.mark.parametrize("part", [0, 3, -1, slice(1, 3), slice(None, None, -1)])
def test_a_history_is_read_as_a_list_is(part: int | slice) -> None:
    """An item is a message, a slice a list of them."""
    assert history()[part] == SAID[part]


def test_a_place_outside_a_history_is_an_index_error() -> None:
    """A history ends where its messages do."""
    with pytest.raises(IndexError):
        history()[len(SAID)]


def test_what_is_done_to_messages_is_not_done_to_the_history() -> None:
    """Every look at a history brings fresh messages, nested ones included."""
    said = history()
    for message in said:
        message.clear()
    said[2]["arguments"]["n"] = 2
    said[2:3][0]["arguments"]["n"] = 3
    assert list(said) == SAID


def test_a_history_that_grows_leaves_the_older_ones_as_they_were() -> None:
    """Two futures of one history share its beginning."""
    past = History([HELLO])
    one, other = past.append(Note("one")), past.append(Note("other"))
    assert [[message["text"] for message in said] for said in (past, one, other)] == [
        ["hello"],
        ["hello", "one"],
        ["hello", "other"],
    ]


def test_histories_are_equal_by_what_was_said() -> None:
    """Equality and hash are of the entries, however the history came about."""
    one, other = history(), History(ENTRIES)
    assert (one == other, hash(one) == hash(other), one == History(ENTRIES[:-1]), one == list(other)) == (
        True,
        True,
        False,
        False,
    )


@pytest.mark.parametrize("copied", [pickled, copy.deepcopy, copy.copy])
def test_a_copied_history_says_the_same(copied: Callable[[History], History]) -> None:
    """A history travels with its length and its entries."""
    again = copied(history())
    assert (again, list(again), len(again)) == (history(), SAID, len(SAID))


def test_a_history_shows_its_entries() -> None:
    """The repr of a history is how it could be made."""
    assert repr(History([UserMessage("hi")])) == "History([UserMessage(text='hi')])"


@pytest.mark.parametrize("shared", [history(), history().entries, Ids("ab")], ids=lambda shared: type(shared).__name__)
def test_nobody_sets_an_attribute_of_what_is_shared(shared: Any) -> None:
    """A log, ids and a history refuse every attribute that can be set, known or new."""
    before = repr(shared)
    for name in ("entries", "count", "new"):
        with pytest.raises((AttributeError, attrs.exceptions.FrozenInstanceError)):
            setattr(shared, name, None)
    assert repr(shared) == before


# --- the event log ----------------------------------------------------------------------------------------


def test_an_event_log_holds_each_event_with_its_rows() -> None:
    """It reads as pairs; two futures of one log know nothing of each other, nor does their past."""
    past = EventLog([("a", ("s/1",))])
    one, other = past.append("b", ("s/2",)), past.append("c", ("s/3",))
    assert (
        [list(log) for log in (past, one, other)],
        len(other),
        other.latest,
        one == other,
        hash(one) == hash(one),
    ) == (
        [[("a", ("s/1",))], [("a", ("s/1",)), ("b", ("s/2",))], [("a", ("s/1",)), ("c", ("s/3",))]],
        2,
        ("s/3",),
        False,
        True,
    )


def test_an_event_log_that_loses_the_race_for_the_shared_list_forks() -> None:
    """Each event keeps its own rows."""
    log = EventLog()
    log._items = Crowded("other")
    mine = log.append("mine", ("s/1",))
    assert (list(mine), list(log), pickle.loads(pickle.dumps(mine)) == mine, repr(mine)) == (
        [("mine", ("s/1",))],
        [],
        True,
        "EventLog([('mine', ('s/1',))])",
    )


@pytest.mark.parametrize("entry", ["abc", {"kind": "user", "text": "a"}, None])
def test_a_history_is_made_of_entries(entry: Any) -> None:
    """What else is given is refused when it is made, not when a model is asked."""
    with pytest.raises(TypeError, match=f"a history is made of the entries of another, not of {type(entry).__name__}"):
        History([entry])


# --- the latest of it -------------------------------------------------------------------------------------


def test_the_tail_cuts_only_between_entries() -> None:
    """It holds the latest entries that fit, and begins with what the user said where it can."""
    turn = Turn("Hm.", (Call("a", "f"), Call("b", "f", place=1)))
    both = Exchange(turn, tuple(CallResult.of(one, "ok", "1") for one in turn.calls))  # five messages
    first, second, note, final = UserMessage("one"), UserMessage("two"), Note("no"), Final(Turn("Done."))
    whole = History([first, both, note, final, second, both, both])
    fits: dict[int, list[Any]] = {0: [], 4: [], 5: [both], 9: [both], 10: [both] * 2, 11: [second, both, both]}
    fits |= dict.fromkeys(range(12, 19), fits[11]) | {most: list(whole.entries) for most in (19, 10**9)}
    assert {most: list(whole.tail(most).entries) for most in fits} == fits
    assert (len(whole), whole.tail(19) == whole, History().tail(3)) == (19, True, History())


@pytest.mark.parametrize("most", [-1, 1.0, True, None, "3"])
def test_a_tail_is_a_number_of_messages(most: Any) -> None:
    """Anything else is a ValueError that says so."""
    with pytest.raises(ValueError, match=f"tail: the number of messages must be a whole number .* not {most!r}"):
        History().tail(most)
