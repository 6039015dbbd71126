"""Check a definition: its table as it stands, and the promises on every path of many small worlds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any
from typing import Final as Constant

import attrs

from loopmachine.definition import Definition
from loopmachine.events import ModelFailed, ModelReplied
from loopmachine.limits import Budget, Policy
from loopmachine.machine import live
from loopmachine.records import Snapshot
from loopmachine.review.explore import LOOKS, Broken, Walk, foreign
from loopmachine.review.lines import known_rows
from loopmachine.review.order import Both
from loopmachine.review.pairwise import Options, every, pairwise
from loopmachine.review.promises import PROMISES, Promise
from loopmachine.review.world import BATCHES, FEWER, World, nothing, used
from loopmachine.table import TOOL_LOOP

#: The values that the worlds have, every two of which meet in one of them: of the budget, the policy, and the host.
OPTIONS: Constant[Options] = {
    "max_steps": (3, 2, 1),
    "max_calls": (None, 1, 2, 3),
    "max_seconds": (None, 2.0),
    "max_cost_usd": (None, 1.0),
    "max_tokens": (None, 10),
    "repeated_id": ("stop", "answer", "rename"),
    "excess_calls": ("stop", "refuse"),
    "batch": ("parallel", "sequential", "reject"),
    "max_parallel": (8, 2, 1),
    "model_retries": (0, 1),
    "repairs": (0, 1),
    "wrap_up": (False, True),
    "max_identical_turns": (None, 1, 2),
    "second_budget": (None, "less", "more"),
    "history": ("new", "old"),
    "tool_limit": (1, 2),
}
_BUDGET: Constant = ("max_steps", "max_calls", "max_seconds", "max_cost_usd", "max_tokens")
_POLICY: Constant = tuple(name for name in OPTIONS if name in attrs.fields_dict(Policy))

SHORTENING: Constant = 10.0  #: seconds in which a shorter way to a broken promise is looked for

Sees = Callable[[Snapshot], Any]
Each = Callable[[Mapping[str, Any], Walk, float], None]


def world(chosen: Mapping[str, Any], tools: Sequence[str] = (), sees: Sees | None = None) -> World:
    """The world of one configuration, in which these tools are called, too."""
    budget = Budget(**{name: chosen[name] for name in _BUDGET})
    seconds = {
        None: None,
        "less": Budget(max_steps=1, max_calls=1, max_seconds=1.0),
        "more": attrs.evolve(budget, max_steps=budget.max_steps + 1, max_calls=None),
    }
    policy = Policy(**{name: chosen[name] for name in _POLICY})
    far = policy.max_identical_turns is not None or chosen["second_budget"] == "more"
    batches = FEWER if far else BATCHES
    own = [batch for name in tools for batch in ((name,), (name, name))]
    second, old, limit = seconds[chosen["second_budget"]], chosen["history"] == "old", chosen["tool_limit"]
    return World(budget, policy, second, old, limit, (*batches, *own), sees)


@attrs.define
class Report:
    """What was checked, and what was found."""

    definition: Definition
    unexplored: str = ""  #: why nothing was explored; blank where it was
    untold: tuple[str, ...] = ()  #: events that no world tells, by name; their rows are not expected to be taken
    unanswered: set[str] = attrs.field(factory=set)  #: states that ask what no world can answer: none goes on there
    out_of_reach: tuple[str, ...] = ()  #: rows that are not expected to be taken
    guessed: bool = False  #: what functions of somebody's own see of the history was taken to be what ``used`` sees
    configurations: int = 0
    advances: int = 0  #: each checked against every promise
    snapshots: int = 0  #: distinct, equal ones merged
    looked: int = 0  #: advances of which stock ``transitions`` make the same
    seconds: float = 0.0
    whole: bool = True  #: every configuration was explored to its end
    broken: list[Broken] = attrs.field(factory=list)
    orders: dict[tuple[str, str], Both] = attrs.field(factory=dict)  #: pairs of rows whose guards can both hold
    statuses: set[str] = attrs.field(factory=set)  #: the final states reached
    taken: dict[tuple[str, Any], set[str]] = attrs.field(factory=dict)  #: the rows taken under each value of an option
    example: dict[str, tuple[int, int, Mapping[str, Any]]] = attrs.field(factory=dict)  #: the values that took a row

    @property
    def passed(self) -> bool:
        """No promise is broken, every order that matters is declared, and every row was taken.

        A row may be missing where the exploration was cut; of a machine that can't be explored the table is all.
        """
        explored = self.advances > 0 and not (self.whole and self.dead and not self.unanswered)
        return not self.broken and not self.undeclared and (explored or bool(self.unexplored))

    @property
    def rows(self) -> set[str]:
        """The rows that were taken."""
        return set().union(*self.taken.values())

    @property
    def dead(self) -> list[str]:
        """The rows that were never taken, in the order of the table."""
        rows = self.rows
        told = ((row_id, row) for row_id, _, row in self.definition.all_rows() if row.event_name not in self.untold)
        return [row_id for row_id, _ in told if row_id not in rows and row_id not in self.out_of_reach]

    def dead_under(self, option: str, value: Any) -> list[str]:
        """The rows that were taken, but in no configuration with this value; in the order of the table."""
        rows = self.rows - self.taken.get((option, value), set())
        return [row_id for row_id, _, _ in self.definition.all_rows() if row_id in rows]

    @property
    def undeclared(self) -> list[Both]:
        """The pairs whose order matters and whose first row does not say why it is first."""
        return [both for both in self.orders.values() if not self.definition.row(both.first).first_because]

    def add(self, chosen: Mapping[str, Any], walk: Walk) -> None:
        """What one exploration brought."""
        self.configurations += 1
        self.advances += walk.advances
        self.snapshots += walk.snapshots
        self.looked += walk.looked
        self.whole = self.whole and walk.whole
        self.broken += walk.broken
        self.statuses |= walk.statuses
        self.unanswered |= walk.unanswered
        self.orders = walk.orders.found | self.orders
        for option, value in chosen.items():
            self.taken.setdefault((option, value), set()).update(walk.rows)
        for row_id in walk.rows:
            found = (-walk.world.budget.max_steps, walk.advances, chosen)
            self.example[row_id] = min(self.example.get(row_id, found), found, key=itemgetter(0, 1))

    def second_looks(self) -> Iterator[Mapping[str, Any]]:
        """The configurations that show whether a row is dead under a value: one that took it, with that value instead.

        Of those with the most steps it is the smallest. What was added meanwhile counts.
        """
        tried = []
        for option, value in [(name, one) for name, values in OPTIONS.items() for one in values]:
            for row_id in self.dead_under(option, value):
                chosen = {**self.example[row_id][2], option: value}
                if row_id not in self.taken[option, value] and chosen not in tried:
                    tried.append(chosen)
                    yield chosen


def verify(
    definition: Definition = TOOL_LOOP,
    *,
    full: bool = False,
    seconds: float | None = None,
    advances: int | None = None,
    scattered: bool = False,
    promises: Mapping[str, Promise] = PROMISES,
    tools: Sequence[str] = (),
    sees: Sees | None = None,
    out_of_reach: Sequence[str] = (),
    each: Each = lambda chosen, walk, seconds: None,
) -> Report:
    """Explore configurations on the real ``advance``, each advance checked against every promise.

    Raises InvalidDefinition where no row leads to a state, and ValueError for a row that there is not; whatever else is
    wrong with a table is refused before. One that is no tool-calling loop is not explored; of events, requests and
    rests of your own nothing is told. The Report says so.

    ``full``: the product of all values, not every pair and what shows whether a row is dead under a value. ``seconds``
    bounds the whole, ``advances`` each configuration; the first broken promise ends it. ``scattered``: bounded, it is
    everywhere a little, and a path no shortest one. ``tools``: further tools by name, of whose calls your guards speak.
    ``out_of_reach``: rows, as "state/number", that need more steps or calls than these small worlds have.

    ``sees(snapshot)``: what your guards and updates see of the history, to be hashed; by default ``world.nothing`` at
    first and then how often ``tools``, or all, were called with which outcomes. ``each`` is told its seconds.
    """
    live(definition)
    began = time.monotonic()
    known_rows(definition, out_of_reach)
    report = Report(definition, *_foreign_events(definition), out_of_reach=tuple(out_of_reach))
    search = _Search(definition, promises, tuple(tools), sees, None if full else LOOKS, advances, scattered)
    searches = [search]
    if sees is None and foreign(definition):
        report.guessed = True
        searches.append(attrs.evolve(search, sees=used(search.tools)))
    for search in () if report.unexplored else searches:
        _explore(report, search, full, math.inf if seconds is None else began + seconds, each)
    report.seconds = time.monotonic() - began
    return report


def _explore(report: Report, search: _Search, full: bool, until: float, each: Each) -> None:
    """One configuration after the other, until a promise is broken or the time is over."""
    for chosen in _configurations(report, full):
        started = time.monotonic()
        if report.broken or started >= until:
            report.whole = False
            return
        walk = search.walk(chosen).run(search.advances, until - started)
        report.add(chosen, walk)
        each(chosen, walk, time.monotonic() - started)
        report.broken[-1:] = search.shortest(chosen, walk, min(until - started, SHORTENING))


@attrs.frozen
class _Search:
    """What is asked of every walk of a verification."""

    definition: Definition
    promises: Mapping[str, Promise]
    tools: tuple[str, ...]
    sees: Sees | None
    looks: int | None
    advances: int | None
    scattered: bool

    def walk(self, chosen: Mapping[str, Any]) -> Walk:
        """The exploration of a configuration, not begun."""
        told = world(chosen, self.tools, None if self.sees is nothing else self.sees)
        return Walk(self.definition, told, self.promises, self.looks, self.scattered)

    def shortest(self, chosen: Mapping[str, Any], walk: Walk, left: float) -> list[Broken]:
        """The promise that a walk found broken, if any: on the shortest way that is found with one value another one,
        of these values or of the first ones; of ways that are as long, that with more of the first values.

        Where the walk was scattered, its way is left as it is.
        """
        until, broken = time.monotonic() + left, list(walk.broken)
        firsts = {name: values[0] for name, values in OPTIONS.items()}
        for afresh in (True, False) if broken and not self.scattered else ():
            for name, value in [(name, value) for name, values in OPTIONS.items() for value in values]:
                other = {**(firsts if afresh else chosen), name: value}
                most, left = len(broken[0].path), until - time.monotonic()
                tried = self.walk(other).run(self.advances, left, most).broken
                same = [one.promise for one in tried] == [broken[0].promise]
                if same and (len(tried[0].path), _later(other)) < (most, _later(chosen)):
                    broken, chosen = tried, other
        return broken


def _later(chosen: Mapping[str, Any]) -> int:
    """How many values are not the first of their options."""
    return sum(chosen[name] != values[0] for name, values in OPTIONS.items())


def _configurations(report: Report, full: bool) -> Iterator[Mapping[str, Any]]:
    """Every pair of values and then second looks, if nothing was cut; or with ``full`` the whole product."""
    yield from every(OPTIONS) if full else pairwise(OPTIONS)
    if report.whole and not full:
        yield from report.second_looks()


def _foreign_events(definition: Definition) -> tuple[str, tuple[str, ...]]:
    """Why a machine can't be explored, if so; and its events that no world tells, which are not the loop's.

    Without a model it is another machine, whose snapshots may be others, too.
    """
    known = {row.event for _, _, row in TOOL_LOOP.all_rows()}
    events = dict.fromkeys(row.event for _, _, row in definition.all_rows() if row.event is not None)
    strange = tuple(event.__name__ for event in events if event not in known)
    deaf = events.keys().isdisjoint((ModelReplied, ModelFailed))
    why = "it hears no model, and worlds are those of the tool-calling loop" if deaf else ""
    return why if len(strange) < len(events) else f"no world tells {', '.join(strange)}", strange
