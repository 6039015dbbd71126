"""What a verification found, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Any

from loopmachine.definition import Definition
from loopmachine.events import Event
from loopmachine.machine import live
from loopmachine.review.explore import TRANSITIONS, Broken, Walk
from loopmachine.review.promises import PROMISES
from loopmachine.review.reproduce import source, steps, told_again, written_test
from loopmachine.review.verify import OPTIONS, Report

_WIDTH = 110
_COUNTED = ("steps", "calls", "cost_usd", "tokens", "unpriced", "unmetered")
_GUESSED = (
    "of the history, guards and updates of your own are taken to see how often each tool was called with which "
    "outcome: for those that see more, as an order or a text, call verify(..., sees=...)"
)
_NOT_AGAIN = "told again, these events break nothing: a guard or an update remembers, or asks a clock or chance"
_UNSEEN = ", or it sees of the history what verify(..., sees=...) was not told"  #: merged are rests that differ in it
TABLE = (
    "one initial state, every state reachable, no trap, no way out of a final state, on every event of a state a last "
    "row without a guard and none after it, every guard and update named and documented, no cycle of auto states"
)


def heading(where: str, definition: Definition) -> str:
    """What is verified, and what its table is known to be before anything is explored.

    Raises InvalidDefinition where no row leads to a state.
    """
    live(definition)
    states, rows = len(definition.states), len(list(definition.all_rows()))
    table = wrap(f"the table: {TABLE}", _WIDTH, subsequent_indent="  ")
    return "\n".join([f"{where}: {states} states, {rows} rows", *table])


def line(chosen: Mapping[str, Any], walk: Walk, seconds: float) -> str:
    """One configuration: its figures, and where it is not the first value of an option."""
    told = [f"{name}={value}" for name, value in chosen.items() if value != OPTIONS[name][0]]
    cut = "" if walk.whole else "  (not to its end)"
    return f"{_figures(walk, seconds)}  {' '.join(told) or 'the defaults'}{cut}"


def _figures(found: Walk | Report, seconds: float) -> str:
    return f"{found.advances:>9,} advances {found.snapshots:>9,} snapshots {seconds:>6.1f} s"


def summary(where: str, report: Report) -> str:
    """All that was found, the verdict last."""
    parts = [[f"not explored: {report.unexplored}"]] if report.unexplored else list(_explored(report))
    for found in report.broken:
        parts.append(_failure(found, where, report.definition))
    return "\n\n".join("\n".join(part) for part in [*parts, [verdict(report)]])


def verdict(report: Report) -> str:
    """One line."""
    if report.passed:
        if report.unexplored:
            return "passed: the table holds"
        return f"passed: every promise holds on every path that was explored{'' if report.whole else ' (it was cut)'}"
    found = [f"{one.promise} is broken" for one in report.broken]
    if not report.advances:
        found.append("nothing was explored")
    if report.undeclared:
        found.append(f"{len(report.undeclared)} orders of rows are not declared")
    if report.dead and report.whole and not report.unanswered:
        found.append(f"{len(report.dead)} rows were never taken")
    return f"FAILED: {', '.join(found)}"


def _explored(report: Report) -> Iterator[list[str]]:
    rate = report.advances / max(report.seconds, 1e-9)
    whole = "each to its end" if report.whole else "not all to their end"
    yield [
        f"{_figures(report, report.seconds)}  {report.configurations} configurations, {whole}; {rate:,.0f} advances/s",
        f"every advance checked against {', '.join(PROMISES)}; compared with stock transitions: {report.looked:,}",
        *([f"told by no world: {', '.join(report.untold)}"] if report.untold else []),
        *([f"asks what no world can answer: {', '.join(sorted(report.unanswered))}"] if report.unanswered else []),
        *(wrap(_GUESSED, _WIDTH, subsequent_indent="  ") if report.guessed else []),
    ]
    rows, finals = len(list(report.definition.all_rows())), _finals(report)
    yield [
        f"rows taken: {len(report.rows)} of {rows}; final states reached: {len(report.statuses)} of {finals}",
        *_rows("never taken" if report.whole else "not taken before it was cut", report.dead),
        *(_dead(report) if report.whole else []),
    ]
    declared = len(report.orders) - len(report.undeclared)
    yield [
        f"pairs of rows whose guards can both hold: {len(report.orders)}, {declared} declared",
        *_orders(report),
        *(_idle(report) if report.whole else []),
    ]


def _finals(report: Report) -> int:
    return sum(state.final is not None for state in report.definition.states.values())


def _dead(report: Report) -> Iterator[str]:
    for option, value in report.taken:
        yield from _rows(f"not taken under {option}={value}", report.dead_under(option, value))


def _rows(what: str, rows: list[str]) -> list[str]:
    name = f"  {what:<42}"
    return wrap(" ".join(rows), _WIDTH, initial_indent=name, subsequent_indent=" " * len(name), break_on_hyphens=False)


def _orders(report: Report) -> Iterator[str]:
    """Each row that has to be first, why, and where a later one would hold, too."""
    pairs = [both for _, both in sorted(report.orders.items())]
    for first in dict.fromkeys(both.first for both in pairs):
        why = report.definition.row(first).first_because
        yield f"  {first} is first: {why}" if why else f"  {first} is first, NOT DECLARED: say first_because on it"
        for both in pairs:
            if both.first == first:
                later = both.second.rpartition("/")[2]
                yield f"      or {later} at {witness(both.witness, both.event)}"


def _idle(report: Report) -> Iterator[str]:
    """The rows that say why they are first where nothing shows that they have to be."""
    others = report.rows - {both.first for both in report.orders.values()}
    for row_id, _, row in report.definition.all_rows():
        if row.first_because and row_id in others:
            yield f"  {row_id} says why it is first, and no later row was seen to hold"


def witness(snapshot: Any, event: Event) -> str:
    """A snapshot and an event, as far as they differ from a run's first ones."""
    told = [f"{name} {getattr(snapshot, name)}" for name in _COUNTED if getattr(snapshot, name)]
    if snapshot.turn is not None and snapshot.turn.calls:
        told.append(f"asked for {', '.join(call.name for call in snapshot.turn.calls)}")
    told += [source(snapshot.failure)] if snapshot.failure is not None else []
    return "; ".join([f"{type(event).__name__} at {event.at:g}", *told])


def _failure(found: Broken, where: str, definition: Definition) -> list[str]:
    world, again = found.world, told_again(found, definition)
    parts = [f"the shortest way to it, under {source(world.budget)} and {source(world.policy)}:", steps(found)]
    parts += [] if again else wrap(_NOT_AGAIN + _UNSEEN * bool(found.circle), _WIDTH, subsequent_indent="  ")
    if found.promise != TRANSITIONS:  # the test asks the promises
        parts += ["", "as a test:", "", written_test(found, where, again)]
    return parts
