"""What a model callable gets: a list of its own, encoded once and copied only where it looks."""

from __future__ import annotations

import copy
import json
import operator
import pickle
import sys
from collections.abc import Callable
from functools import partial
from threading import Barrier, Thread
from time import sleep
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loopmachine.frozen import freeze, thaw
from loopmachine.history import Entry, History
from loopmachine.records import Call, Final, Turn, UserMessage
from loopmachine.wire import PLAIN, WIRES, Encoding, Messages, Wire
from loopmachine.wire.plain import Plain
from tests.test_wire_base import exchange, vandalise


class Counting(Plain):
    """PLAIN that writes down which entries it encoded."""

    def __init__(self) -> None:
        self.encoded: list[Entry] = []

    def entry(self, entry: Entry) -> list[dict[str, Any]]:
        self.encoded.append(entry)
        return super().entry(entry)


def step(number: int) -> Entry:
    """An exchange of one call: two messages."""
    return exchange(Turn(calls=(Call(f"c{number}", "add", '{"a":[1]}'),)), ("ok", str(number)))


def run_of(steps: int) -> list[History]:
    """The histories of a run as it grows."""
    histories = [History([UserMessage("go")])]
    for number in range(steps):
        histories.append(histories[-1].append(step(number)))
    return histories


def talk_of(lengths: int) -> list[History]:
    """Histories of 0, 1, 2... user messages, which are encoded without decoding anything."""
    histories = [History()]
    for number in range(lengths):
        histories.append(histories[-1].append(UserMessage(str(number))))
    return histories


def messages(history: History, wire: Wire = PLAIN, system: str | None = None) -> Messages:
    return Encoding(wire, system).messages(history)


def thawed(act: Callable[[], Any]) -> int:
    """How many JSON texts were decoded meanwhile."""
    seen: list[tuple[str, Any]] = []
    sys.setprofile(lambda frame, event, _: seen.append((event, frame.f_code)))
    try:
        act()
    finally:
        sys.setprofile(None)
    return seen.count(("call", thaw.__code__))


# --- what it holds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
@pytest.mark.parametrize("system", [None, "Be brief."])
def test_they_are_what_the_wire_encodes(wire: Wire, system: str | None) -> None:
    """The messages of every history of a run are those that the wire encodes for it."""
    encoding = Encoding(wire, system)
    histories = [*run_of(3), History()]
    histories.append(histories[3].append(Final(Turn("done"))))
    assert [list(encoding.messages(one)) for one in histories] == [
        wire.encode(one, (), system).messages for one in histories
    ]


def test_a_list_of_them_is_plain() -> None:
    """list() of them is a list of dicts that JSON takes."""
    listed = list(messages(run_of(1)[1]))
    assert (type(listed), [type(one) for one in listed]) == (list, [dict] * 3)
    assert json.loads(json.dumps(listed)) == listed


def test_texts_can_be_listed_likewise() -> None:
    """Texts that do not grow, such as tools, are handed out as the same kind of list, and stay as they were."""
    texts = [freeze({"name": "add"}), freeze({"name": "look"})]
    tools, again = Encoding.listed(texts), Encoding.listed(texts)
    vandalise(tools[0])
    tools.clear()
    assert (list(tools), list(again)) == ([], [{"name": "add"}, {"name": "look"}])


# --- what it costs ----------------------------------------------------------------------------------------


def test_nothing_is_encoded_until_somebody_looks() -> None:
    """Taking the messages of every step encodes nothing; the first look encodes what is in sight."""
    wire = Counting()
    encoding = Encoding(wire)
    histories = run_of(20)
    taken = [encoding.messages(one) for one in histories]
    assert wire.encoded == []
    assert (len(taken[3]), wire.encoded) == (7, list(histories[3].entries))


def test_each_entry_is_encoded_once_a_run() -> None:
    """Whatever a model reads at every step, an entry is encoded once."""
    wire = Counting()
    encoding = Encoding(wire, "Be brief.")
    histories = run_of(30)
    for history in histories:
        assert len(encoding.messages(history)) == 1 + len(history)
        assert list(encoding.messages(history))[1:] == list(history)
        assert encoding.messages(history)[-1] == list(history)[-1]
    assert wire.encoded == list(histories[-1].entries)


def test_only_what_is_looked_at_is_decoded() -> None:
    """The length costs no decoding, an index one, a slice its own, a search what it passes; a second look none."""
    encoding = Encoding(PLAIN)
    history = talk_of(100)[-1]
    taken = encoding.messages(history)
    acts: list[Callable[[], Any]] = [
        lambda: encoding.messages(history),
        lambda: len(taken),
        lambda: taken[-1],
        lambda: taken[-1],
        lambda: taken[3:7],
        lambda: taken[4],
        lambda: next(iter(taken)),
        lambda: next(one for one in reversed(taken) if one["text"] == "98"),
        lambda: encoding.messages(history)[-1],
    ]
    assert [thawed(act) for act in acts] == [0, 0, 1, 0, 4, 0, 1, 1, 1]
    assert thawed(lambda: list(taken)) == 100 - 7


def test_a_model_that_reads_the_last_message_costs_what_is_new() -> None:
    """Over a run of n steps that looks at the last message, n messages are decoded."""
    encoding = Encoding(PLAIN)
    steps = [encoding.messages(history) for history in talk_of(40)[1:]]
    assert [thawed(partial(operator.getitem, taken, -1)) for taken in steps] == [1] * 40


# --- histories that do not grow from one another --------------------------------------------------------------


def test_an_older_history_is_still_right() -> None:
    """Messages looked at late show what the history was when they were taken."""
    wire = Counting()
    encoding = Encoding(wire)
    histories = run_of(5)
    early, late = encoding.messages(histories[2]), encoding.messages(histories[5])
    assert (list(late), list(early)) == (list(histories[5]), list(histories[2]))
    assert wire.encoded == list(histories[5].entries)


def test_a_fork_is_encoded_anew() -> None:
    """Two histories that grew from one apart each show their own, in whatever order they are looked at."""
    encoding = Encoding(PLAIN, "Be brief.")
    base = run_of(2)[-1]
    one, other = base.append(UserMessage("one")), base.append(UserMessage("other"))
    shared = UserMessage("the same")
    mixed = History([UserMessage("a"), shared]), History([UserMessage("b"), shared])
    order = [one, other, one, base, other, *mixed, History()]
    begun = [encoding.messages(history) for history in order]
    first = [taken[0] for taken in begun]
    assert first == [{"kind": "system", "text": "Be brief."}] * len(order)
    assert [list(taken)[1:] for taken in begun] == [list(history) for history in order]
    assert [list(encoding.messages(history))[1:] for history in order] == [list(history) for history in order]


def test_what_was_looked_at_is_not_encoded_again() -> None:
    """Two forks that are read in turn are encoded once each."""
    wire = Counting()
    encoding = Encoding(wire)
    base = run_of(5)[-1]
    one, other = (encoding.messages(base.append(UserMessage(text))) for text in ("one", "other"))
    assert len(one) == len(other) == 12
    before = len(wire.encoded)
    assert [mine == theirs for mine, theirs in zip(one, other, strict=True)] == [True] * 11 + [False]
    assert (before, len(wire.encoded)) == (14, 14)


def test_threads_that_look_at_once_see_the_same() -> None:
    """Messages that a model passes to threads are right in each, and each entry is encoded once."""

    class Slow(Counting):
        def entry(self, entry: Entry) -> list[dict[str, Any]]:
            sleep(0.0002)  # lets the other threads in
            return super().entry(entry)

    wire = Slow()
    encoding = Encoding(wire)
    histories = run_of(40)
    found: dict[int, list[Any]] = {}
    start = Barrier(8)

    def look(number: int) -> None:
        start.wait()
        found[number] = [list(encoding.messages(history)) for history in histories[number::8]]

    threads = [Thread(target=look, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [list(one) for one in histories[number::8]] for number in range(8)}
    assert wire.encoded == list(histories[-1].entries)


# --- whose it is ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
def test_what_is_done_to_them_is_seen_by_nobody(wire: Wire) -> None:
    """Neither the history nor the messages of this step or the next change with them."""
    encoding = Encoding(wire, "Be brief.")
    history, later = run_of(3)[2:]
    before, expected = list(history), wire.encode(later, (), "Be brief.").messages
    mine, same = encoding.messages(history), encoding.messages(history)
    for item in mine:
        vandalise(item)
    mine.append("mine")
    mine.reverse()
    del mine[1:]
    assert (list(history), list(same)) == (before, wire.encode(history, (), "Be brief.").messages)
    assert list(encoding.messages(later)) == expected
    assert mine == ["mine"]


def test_a_place_holds_one_object() -> None:
    """What was handed out is what a later look at the same place gives, changes included, as in a list."""
    taken = messages(run_of(2)[2])
    taken[1]["mine"] = True
    taken[-1]["mine"] = True
    assert (taken[1] is taken[-4], taken[1:2][0] is taken[1], list(taken)[1] is taken[1]) == (True, True, True)
    taken.append("more")
    assert [place for place, one in enumerate(taken) if "mine" in one] == [1, 4]


def test_copies_are_plain_lists() -> None:
    """Slices, copy(), +, *, copying and pickling give lists; only a deep copy and a pickle have items of their own."""
    taken = messages(run_of(1)[1])
    whole = list(taken)
    shallow = [
        taken[:],
        taken.copy(),
        operator.add(taken, []),
        operator.add([], taken),
        operator.add(taken, Encoding.listed([])),
        taken * 1,
        1 * taken,
        copy.copy(taken),
    ]
    deep = [copy.deepcopy(taken), pickle.loads(pickle.dumps(taken))]
    assert [(type(one), one) for one in shallow + deep] == [(list, whole)] * 10
    assert [one[0] is taken[0] for one in shallow + deep] == [True] * 8 + [False] * 2


# --- like a list ------------------------------------------------------------------------------------------

Op = Callable[[Any], Any]
PLACE = st.integers(-8, 8)
ITEM = st.sampled_from([{"kind": "user", "text": "go"}, {"kind": "final"}, "x", 5])
ITEMS = st.lists(ITEM, max_size=3)
SLICE = st.builds(slice, st.none() | PLACE, st.none() | PLACE, st.none() | st.sampled_from([-2, -1, 1, 2, 0]))


def put(place: Any, value: Any) -> Op:
    return lambda items: items.__setitem__(place, value)


def joined(items: Any, more: Any) -> Any:
    items += more
    return len(items)


def multiplied(items: Any, times: int) -> Any:
    items *= times
    return len(items)


OPS: list[st.SearchStrategy[Op]] = [
    st.just(len),
    st.just(list),
    st.just(repr),
    st.just(bool),
    st.builds(lambda place: lambda items: items[place], PLACE),
    st.builds(lambda part: lambda items: items[part], SLICE),
    st.builds(lambda one: lambda items: one in items, ITEM),
    st.builds(lambda one: lambda items: items.index(one), ITEM),
    st.builds(lambda one: lambda items: items.count(one), ITEM),
    st.builds(lambda more: lambda items: (items + more, more + items), ITEMS),
    st.builds(lambda times: lambda items: (items * times, times * items), st.integers(-1, 2)),
    st.builds(lambda more: lambda items: (items == more, items != more, more == items), ITEMS),
    st.just(lambda items: (items == list(items), items != list(items), list(items) == items, items == 5)),
    st.just(lambda items: list(reversed(items))),
    st.just(lambda items: items.copy()),
    st.builds(put, PLACE, ITEM),
    st.builds(put, SLICE, ITEMS),
    st.builds(lambda place: lambda items: items.__delitem__(place), PLACE | SLICE),
    st.builds(lambda place, one: lambda items: items.insert(place, one), PLACE, ITEM),
    st.builds(lambda one: lambda items: items.append(one), ITEM),
    st.builds(lambda more: lambda items: items.extend(more), ITEMS),
    st.builds(lambda more: lambda items: joined(items, more), ITEMS),
    st.builds(lambda times: lambda items: multiplied(items, times), st.integers(-1, 2)),
    st.builds(lambda place: lambda items: items.pop(place), PLACE),
    st.just(lambda items: items.pop()),
    st.builds(lambda one: lambda items: items.remove(one), ITEM),
    st.just(lambda items: items.clear()),
    st.just(lambda items: items.reverse()),
    st.builds(lambda back: lambda items: items.sort(key=repr, reverse=back), st.booleans()),
    st.just(lambda items: items.sort()),
    st.just(lambda items: items["one"]),
    st.just(lambda items: items + 5),
    st.just(hash),
    st.just(lambda items: items[0].update(mine=True)),
    st.just(lambda items: items.extend(items)),
]


def done(op: Op, items: Any) -> Any:
    """What an operation gives, or the type of what it raises."""
    try:
        return op(items)
    except Exception as error:
        return type(error)


EACH: list[Op] = [
    put(0, "x"),
    lambda items: joined(items, ["y", "x"]),
    lambda items: multiplied(items, 2),
    lambda items: items.__delitem__(slice(None, None, 2)),
    lambda items: items.insert(-1, 5),
    lambda items: (items[-1], items * 2, 2 * items, items + [5], [5] + items),  # noqa: RUF005
    lambda items: items.sort(key=repr),
    lambda items: (items == list(items), items == 5, items + 5),
]


@example(ops=EACH, steps=2)
@settings(deadline=None)
@given(ops=st.lists(st.one_of(OPS), max_size=12), steps=st.integers(0, 2))
def test_they_read_and_change_like_a_list(ops: list[Op], steps: int) -> None:
    """Any operations give on them what they give on a plain list, errors included."""
    history = run_of(2)[steps]
    taken, plain = messages(history), list(history)
    assert [done(op, taken) for op in ops] == [done(op, plain) for op in ops]
    assert list(taken) == plain


def test_two_of_them_are_equal_where_their_items_are() -> None:
    """Messages compare with each other as lists do."""
    one, same, other = messages(run_of(1)[1]), messages(run_of(1)[1]), messages(run_of(1)[0])
    assert (one == same, one == other, one != other, one == tuple(one)) == (True, False, True, False)


def test_one_that_holds_itself_can_be_shown() -> None:
    """Its repr ends where it comes to itself, as a list's does."""
    taken = messages(run_of(0)[0])
    taken.append(taken)
    assert repr(taken) == "[{'kind': 'user', 'text': 'go'}, [...]]"
