"""Faults planted in the tool-calling loop by a program, each a change of one line, and who notices them.

``make faults`` plants them all (``python -m tests.faults NAME`` those named) and prints how many the verifier names and
how many the tests of guards and loop. Not every fault is one: ``EQUIVALENT`` says which change nothing that a run can
show, and why.
"""

from __future__ import annotations

import ast
import copy
import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import wraps
from types import CodeType, FunctionType, ModuleType
from typing import Any
from typing import Final as Constant

import attrs
import pytest

from loopmachine import guards, rules, updates
from loopmachine.definition import Definition, Guard, Row, State
from loopmachine.errors import InvalidDefinition
from loopmachine.review.verify import verify
from loopmachine.review.world import nothing
from loopmachine.table import TOOL_LOOP

Look = dict[str, Any]  #: how the verifier looks: its arguments
#: How it looks for a fault, until it finds it: near everywhere, then farther, about 5 seconds in all; then everywhere.
#: A fault sees no more of the history than the function that it is planted in.
LOOKS: Constant[tuple[Look, ...]] = (
    {"advances": 150, "sees": nothing},
    {"advances": 1_500, "scattered": True, "sees": nothing},
    {"advances": 6_000, "scattered": True, "sees": nothing},
    {"sees": nothing},
)
VARIABLE = "LOOPMACHINE_FAULT"  #: names the fault to plant before tests are collected
#: What has to notice a fault besides the verifier.
TESTS: Constant = tuple(
    f"tests/test_{what}.py"
    for what in ("guards", "rules", "updates", "walks_model", "walks_calls", "walks_hosts", "loop")
)

Planting = Callable[[], AbstractContextManager[Definition]]  #: the definition has the fault while the context lasts


@attrs.frozen
class Fault:
    """A change of one line, by its name."""

    name: str
    plant: Planting = attrs.field(eq=False, repr=False)


# --- in the table -----------------------------------------------------------------------------------------


def of_rows(definition: Definition) -> Iterator[Fault]:
    """Every row without its guard's sense or its update, dropped, led elsewhere, or behind the next on its event."""
    for row_id, state, row in definition.all_rows():
        rows = definition.rows(state.name)
        place = rows.index(row)
        if row.guard is not None:
            for how, changed in ((_negated, "negated"), (_always, "always true"), (_never, "always false")):
                new = attrs.evolve(row, guard=how(row.guard))
                yield _tabled(
                    f"{row_id} {row.guard.__name__} {changed}", state, [*rows[:place], new, *rows[place + 1 :]]
                )
        if row.update is not None:
            new = attrs.evolve(row, update=None)
            yield _tabled(f"{row_id} without its update", state, [*rows[:place], new, *rows[place + 1 :]])
        yield _tabled(f"{row_id} dropped", state, [*rows[:place], *rows[place + 1 :]])
        other = _beside(definition, row.to)
        new = attrs.evolve(row, to=other)
        yield _tabled(f"{row_id} to {other}", state, [*rows[:place], new, *rows[place + 1 :]])
        later = rows[place + 1 : place + 2]
        if later and later[0].event is row.event:
            yield _tabled(f"{row_id} after the next", state, [*rows[:place], *later, row, *rows[place + 2 :]])


def _negated(guard: Guard) -> Guard:
    return wraps(guard)(lambda snapshot, event: not guard(snapshot, event))


def _always(guard: Guard) -> Guard:
    return wraps(guard)(lambda snapshot, event: True)


def _never(guard: Guard) -> Guard:
    return wraps(guard)(lambda snapshot, event: False)


def _beside(definition: Definition, name: str) -> str:
    """The state after this one in the table that is of the same kind: a rest, auto, or final."""
    kind = definition.states[name]
    alike = [one.name for one in definition.table if (one.rest, one.auto) == (kind.rest, kind.auto)]
    return alike[(alike.index(name) + 1) % len(alike)]


def _tabled(name: str, state: State, rows: list[Row]) -> Fault:
    @contextmanager
    def plant() -> Iterator[Definition]:
        yield attrs.evolve(TOOL_LOOP, table={**TOOL_LOOP.table, state: rows})

    return Fault(name, plant)


# --- in the code of guards, rules and updates ---------------------------------------------------------------

_OFF_BY_ONE: Constant[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.GtE: ast.Gt,
    ast.Gt: ast.GtE,
    ast.LtE: ast.Lt,
    ast.Lt: ast.LtE,
}


def of_code(module: ModuleType) -> Iterator[Fault]:
    """Every comparison of a module off by one, and every sum without what it adds: a counter that does not count."""
    tree = ast.parse(inspect.getsource(module))
    for function in [node for node in tree.body if isinstance(node, ast.FunctionDef)]:
        for number, node in enumerate(ast.walk(function)):
            if isinstance(node, ast.Compare) and type(node.ops[0]) in _OFF_BY_ONE:
                yield _coded(module, tree, function, number, f"{ast.unparse(node)} off by one", _shifted)
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and _counts(node.left):
                yield _coded(module, tree, function, number, f"{ast.unparse(node)} not counted", _uncounted)


def _counts(node: ast.expr) -> bool:
    """What is added to is a number of a record."""
    return isinstance(node, ast.Attribute) and node.attr not in ("at", "decisions", "clock", "since", "not_before")


def _shifted(node: Any) -> None:
    node.ops[0] = _OFF_BY_ONE[type(node.ops[0])]()


def _uncounted(node: Any) -> None:
    node.right = ast.copy_location(ast.Constant(0), node.right)


def _coded(
    module: ModuleType,
    tree: ast.Module,
    function: ast.FunctionDef,
    number: int,
    what: str,
    change: Callable[[Any], None],
) -> Fault:
    place = tree.body.index(function)
    changed: FunctionType = getattr(module, function.name)

    @contextmanager
    def plant() -> Iterator[Definition]:
        mutant = copy.deepcopy(tree)
        change(list(ast.walk(mutant.body[place]))[number])
        code = _code_of(compile(mutant, module.__file__ or "", "exec"), function.name)
        was, changed.__code__ = changed.__code__, code
        try:
            yield attrs.evolve(TOOL_LOOP)
        finally:
            changed.__code__ = was

    return Fault(f"{module.__name__.rpartition('.')[2]}.{function.name}: {what}", plant)


def _code_of(whole: CodeType, name: str) -> CodeType:
    return next(one for one in whole.co_consts if isinstance(one, CodeType) and one.co_name == name)


def faults() -> list[Fault]:
    """All of them, the same each time."""
    return [*of_rows(TOOL_LOOP), *(one for module in (guards, rules, updates) for one in of_code(module))]


#: Faults that change nothing which a run can show, and why.
EQUIVALENT: Constant = {
    "validating/3 after the next": "a step that failed brought no turn, so only one of both guards can hold",
    "validating/4 after the next": "a turn is of one kind, truncated or refused",
    "validating/5 after the next": "a turn is of one kind, refused or malformed",
    "validating/7 after the next": "a turn is of one kind, malformed or final",
    "collecting/1 after the next": "calls_lost holds only where no call is running or queued, calls_open where one is",
    "admitting/2 after the next": "where batches are rejected none was ever executed that could be asked for again",
}


# --- who notices -------------------------------------------------------------------------------------------


def noticed(fault: Fault, looks: Sequence[Look] = LOOKS) -> str:
    """What the verifier says of a fault; blank where it says nothing."""
    try:
        with fault.plant() as definition:
            for look in looks:
                for broken in verify(definition, **look).broken:
                    return f"{broken.promise}: {broken.sentence}"
    except InvalidDefinition as refused:
        return f"refused: {refused.faults[0]}"
    return ""


def failing(fault: Fault, tests: Sequence[str] = TESTS) -> bool:
    """Some of the tests fails with the fault, in a process of its own."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "tests.faults", *tests]
    told = subprocess.run(command, env={**os.environ, VARIABLE: fault.name}, capture_output=True, check=False)
    return told.returncode != 0


def pytest_configure(config: pytest.Config) -> None:
    """As a plugin of pytest: plant the fault that the environment names, before any test is collected."""
    config.add_cleanup(planted_in(os.environ[VARIABLE], TOOL_LOOP).close)


def planted_in(name: str, definition: Definition) -> ExitStack:
    """A fault planted in the very definition that everything reads: in its code while the stack is open and kept.

    Raises InvalidDefinition where it can't be.
    """
    stack = ExitStack()
    faulty = stack.enter_context(next(one for one in faults() if one.name == name).plant())
    for field in attrs.fields(Definition):
        object.__setattr__(definition, field.name, getattr(faulty, field.name))
    return stack


def main(every: Sequence[Fault], looks: Sequence[Look] = LOOKS, tests: Sequence[str] = TESTS) -> int:
    """Plant them all, print what was said of each and both figures; how many nothing noticed and nothing argues."""
    missed, named, failed = [], 0, 0
    for fault in every:
        said, fails = noticed(fault, looks), failing(fault, tests)
        named, failed = named + bool(said), failed + fails
        argued = f"equivalent: {EQUIVALENT[fault.name]}" if fault.name in EQUIVALENT else "NOTHING"
        if not said and argued == "NOTHING":
            missed.append(fault.name)
        print(f"{fault.name}\n  verify: {(said or argued)[:150]}\n  tests: {'fail' if fails else 'PASS'}", flush=True)
    print(f"\n{len(every)} faults; verify names {named}, the tests of guards and loop fail with {failed}")
    print(f"neither named by verify nor argued: {', '.join(missed) or 'none'}")
    return len(missed)
