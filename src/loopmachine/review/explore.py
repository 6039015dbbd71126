"""Walk a machine on every path: the real advance, every answer of a world at every rest, equal rests merged.

Breadth first, so that the first path to a broken promise is a shortest one, unless it is to be scattered.
"""

from __future__ import annotations

import gc
import math
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from threading import get_ident
from typing import Any

import attrs

from loopmachine.definition import Definition
from loopmachine.errors import UnexpectedEvent
from loopmachine.events import Event
from loopmachine.history import EventLog
from loopmachine.machine import Engine, engine, outstanding
from loopmachine.records import Snapshot
from loopmachine.review.account import Account, seal
from loopmachine.review.answers import left
from loopmachine.review.circles import Circles
from loopmachine.review.moves import Move
from loopmachine.review.order import Orders
from loopmachine.review.promises import PROMISES, SUBJECTS, Promise
from loopmachine.review.sight import told
from loopmachine.review.stock import Stock
from loopmachine.review.world import ANSWERS, World
from loopmachine.table import TOOL_LOOP

LOOKS = 5  #: advances that took the same rows at which a walk looks closer
#: Advances that took the same rows at which it asks the guards of the rows not taken, and then, where no rest is new.
GUARDS, EVERY = 5, 20
#: Of these the walk takes care itself: the same event again where a rest is new, and spoilt where it looks closer.
ELSEWHERE = ("I9", "I11")
FIRST = ("I7", "I8")  #: of the promises that a move breaks these are named: where they are, the account is misled
TRANSITIONS = "transitions"  #: what is broken where the stock classes do something else


class Latest(EventLog):
    """A log that remembers the latest event only. The whole one costs a walk more than all the rest."""

    __slots__ = ()

    def append(self, event: Any, rows: tuple[str, ...]) -> Latest:
        """The log of this event."""
        log: Latest = _blank(Latest)
        log._items, log._end = [event, rows], 2
        return log


_blank: Any = object.__new__


@attrs.define(eq=False)
class Place:
    """A rest that was reached: by which event, and from where. Once it was left only the way here is kept."""

    snapshot: Snapshot
    account: Account
    left: int  #: the most answers that the run can take from here
    asked: tuple[Any, ...]
    key: tuple[Any, ...]  #: what the future can see of it, and what the events told
    event: Event | None = None
    rows: tuple[str, ...] = ()
    before: Place | None = None

    def path(self) -> list[tuple[Event, tuple[str, ...]]]:
        """The events on the way here, each with the rows that it took."""
        path: list[tuple[Event, tuple[str, ...]]] = []
        place: Place | None = self
        while place is not None and place.event is not None:
            path.append((place.event, place.rows))
            place = place.before
        return path[::-1]

    def forget(self) -> None:
        """Let go of what nobody looks at again, which is most of what a walk holds."""
        del self.snapshot, self.account


@attrs.frozen
class Broken:
    """A promise that is broken, and a shortest way to where it is."""

    promise: str
    sentence: str
    world: World
    path: tuple[tuple[Event, tuple[str, ...]], ...]  #: each event with the rows that it took
    circle: int = 0  #: so many of the last events lead back to where they began


@attrs.define(eq=False)
class Walk:
    """The exploration of one world."""

    definition: Definition
    world: World
    promises: Mapping[str, Promise] = PROMISES
    looks: int | None = LOOKS  #: None: it looks closer at every advance
    #: Leave the rests in a random order, the same each time: cut, it has been everywhere a little, near and far.
    scattered: bool = False
    advances: int = 0  #: each checked against every promise
    looked: int = 0  #: at so many of them closer: stock transitions do the same, and nothing handed out spoils it
    snapshots: int = 0  #: that are not equal to the future
    paths: Counter[tuple[str, ...]] = attrs.field(factory=Counter)  #: the rows that an event took, and how often
    statuses: set[str] = attrs.field(factory=set)  #: the final states reached
    broken: list[Broken] = attrs.field(factory=list)
    whole: bool = False  #: every rest was left on every event
    unanswered: set[str] = attrs.field(factory=set)  #: the states that ask what no world can answer
    orders: Orders = attrs.field(init=False)
    _circles: Circles[Place] = attrs.field(init=False)
    #: The promises that a move can break, by whether it leads to a new rest and what it has to do with.
    _breakable: dict[tuple[bool, ...], list[Promise]] = attrs.field(init=False)
    _stock: Stock = attrs.field(init=False)
    #: What the promises know of an account besides its snapshot.
    _told: Callable[[dict[str, Any], Snapshot], tuple[Any, ...]] = attrs.field(init=False)
    _seen: set[tuple[Any, ...]] = attrs.field(factory=set)
    _todo: deque[Place] = attrs.field(factory=deque)
    _chance: random.Random = attrs.field(factory=lambda: random.Random(0))

    def __attrs_post_init__(self) -> None:
        either = (False, True)
        self._breakable = {of: self._broken_by(*of) for of in product(either, repeat=4)}
        self.orders = Orders(self.definition)
        self._circles = Circles(self.definition)
        self._stock = Stock(self.definition)
        self._told = told(self.world.policy)

    @property
    def rows(self) -> set[str]:
        """The rows taken."""
        return {row for path in self.paths for row in path}

    def run(self, advances: int | None = None, seconds: float = math.inf, deepest: int | None = None) -> Walk:
        """Explore to the end or the first promise that is broken; or until so many advances or seconds are used.

        ``deepest``: no rest is left that is so many events away.
        """
        machine, until = engine(self.definition), time.monotonic() + seconds
        most = math.inf if advances is None else advances
        try:
            start = self._start()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever somebody's asks raises
            self.broken.append(Broken("I8", _refused(error), self.world, ()))
            return self
        self._seen.add(start.key)
        self._todo.append(start)
        self.snapshots += 1
        with _without_collections(), unwatched(machine):
            while self._todo and not self.broken and self.advances < most and time.monotonic() < until:
                if self.scattered:
                    self._todo.rotate(self._chance.randrange(len(self._todo)))
                place = self._todo.popleft()
                if deepest is None or len(place.path()) < deepest:
                    self._leave(place)
                if self._circles.due:
                    self._go_round()
            self._go_round()
        self.whole = deepest is None and not self._todo and not self.broken
        return self

    def _start(self) -> Place:
        definition, start = self.definition, self.world.start(self.definition.initial)
        if not foreign(definition):  # nobody looks at what came before
            start = start.but(log=Latest())
        answers = left(definition.states[start.state], start)
        known = Account.of(start)
        key = self.world.key(start), self._told(vars(known), start)
        return Place(start, known, answers, outstanding(definition, start), key)

    def _leave(self, place: Place) -> None:
        """Tell the machine everything that can happen at this rest."""
        definition, key_of, told_of, seen = self.definition, self.world.key, self._told, self._seen
        take, before, asked = engine(definition).take, place.snapshot, place.asked
        for request in asked:
            if type(request) not in ANSWERS:
                self.unanswered.add(before.state)
        for event in self.world.events(before, asked, definition.accepts(before.state)):
            try:
                after, asking = take(before, event, asked)
                move = Move(definition, before, event, after, asked, asking, place.account, place.left)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # a SystemExit, too: it would end the command as if all were well
                self._break("I8", _refused(error), place, event)
                return
            rows, key = after.log.latest, (key_of(after), told_of(move.told.__dict__, after))
            new = key not in seen
            found = self._check(move, rows, new)
            if found is not None:
                self._break(*found, place, event, rows)
                return
            if new:
                self._reach(move, rows, key, place)
            if self._circles.kept:
                self._circles.add(place, event, rows, key)
        if "I11" in self.promises and key_of(before) != place.key[0]:
            self._break("I11", "a snapshot was changed by what was told after it", place)
        place.forget()

    def _reach(self, move: Move, rows: tuple[str, ...], key: tuple[Any, ...], before: Place) -> None:
        """Remember the rest that a move led to, to leave it later unless the run ended there."""
        self._seen.add(key)
        self.snapshots += 1
        if move.asking:
            self._todo.append(Place(move.after, move.told, move.left, move.asking, key, move.event, rows, before))
        else:
            self.statuses.add(move.after.state)

    def _go_round(self) -> None:
        """Find a circle that a run can go in for ever, where nothing else was found."""
        found = None if self.broken or "I1" not in self.promises else self._circles.find()
        if found is not None:
            place, circle = found
            sentence = f"the last {len(circle)} of these events can come again and again: the run may never end"
            self.broken.append(Broken("I1", sentence, self.world, (*place.path(), *circle), len(circle)))

    def _check(self, move: Move, rows: tuple[str, ...], new: bool) -> tuple[str, str] | None:
        """The first promise that is broken at a move, and how."""
        self.advances += 1
        times = self.paths[rows] = self.paths[rows] + 1
        for promise in self._breakable[new, move.about_calls, move.new_history, move.asks_model]:
            sentence = promise(move)
            if sentence is not None:
                return self._name(promise), sentence
        try:
            if new or times <= GUARDS or times % EVERY == 0:
                self.orders.look(move.before, move.event, rows)
            return self._look_closer(move) if self.looks is None or times <= self.looks else None
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # of a guard or an update that remembers: the machine took the event
            return "I9", f"the event is taken, and looked at once more it raises {type(error).__name__}: {error}"

    def _broken_by(self, new: bool, about_calls: bool, new_history: bool, asks_model: bool) -> list[Promise]:
        facts = {"about_calls": about_calls, "new_history": new_history, "asks_model": asks_model}
        names = sorted(self.promises, key=lambda name: name not in FIRST)
        always = [self.promises[name] for name in names if name not in ELSEWHERE]
        found = [one for one in always if one not in SUBJECTS or any(facts[field] for field in SUBJECTS[one])]
        return found + [promise for name, promise in self.promises.items() if new and name == "I9"]

    def _name(self, broken: Promise) -> str:
        return next(name for name, promise in self.promises.items() if promise is broken)

    def _look_closer(self, move: Move) -> tuple[str, str] | None:
        """What is too slow to be done at every advance: the stock classes, and I11."""
        self.looked += 1
        sentence = self._stock.differs(move)
        if sentence is not None:
            return TRANSITIONS, sentence
        was = seal(move.after)
        spoil(move)
        if "I11" in self.promises and seal(move.after) != was:
            return "I11", "a snapshot was changed by what was handed out"
        return None

    def _break(
        self, name: str, sentence: str, place: Place, event: Event | None = None, rows: tuple[str, ...] = ()
    ) -> None:
        last = [] if event is None else [(event, rows)]
        self.broken.append(Broken(name, sentence, self.world, (*place.path(), *last)))


def _refused(error: BaseException) -> str:
    refused = isinstance(error, UnexpectedEvent)
    why = "an answer to what was asked is refused" if refused else f"it raises {type(error).__name__}"
    return f"{why}: {error}"


def spoil(move: Move) -> None:
    """Do to everything that a model, a tool or an approver is handed what it should not."""
    for message in move.after.history:
        message.clear()
    for request in move.requests:
        for call in getattr(request, "calls", ()):
            if call.checked is not None:
                call.checked_arguments["spoilt"] = True


@contextmanager
def unwatched(machine: Engine) -> Iterator[None]:
    """Who counts what the tests of a definition take does not count what is explored here, in this thread."""
    here = {get_ident()} - machine.unwatched
    machine.unwatched |= here
    try:
        yield
    finally:
        machine.unwatched -= here


@contextmanager
def _without_collections() -> Iterator[None]:
    """Nothing here is part of a cycle, and looking for cycles in millions of records takes most of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def foreign(definition: Definition) -> bool:
    """Some of what it calls is not what the tool-calling loop calls. A wrapper may look like what it wraps."""
    known = list(_functions(TOOL_LOOP))
    return any(all(function is not one for one in known) for function in _functions(definition))


def _functions(definition: Definition) -> Iterator[Any]:
    for _, _, row in definition.all_rows():
        yield from (function for function in (row.guard, row.update) if function is not None)
    yield from definition.hear.values()
    yield from (state.asks for state in definition.table if state.asks is not None)
