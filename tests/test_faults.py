"""Faults planted in the table, the guards, the rules and the updates: a sample of what `make faults` plants."""

from __future__ import annotations

import gc
import runpy
import sys

import attrs
import pytest

from loopmachine import guards
from loopmachine.errors import InvalidDefinition
from loopmachine.review.verify import verify
from loopmachine.table import TOOL_LOOP
from tests import faults
from tests.facts import polled, snapshot
from tests.faults import EQUIVALENT, LOOKS, Fault

ALL = faults.faults()
BY_NAME = {fault.name: fault for fault in ALL}
#: Twelve, spread over all of them, that are no equivalent ones.
SAMPLE = [fault for fault in ALL if fault.name not in EQUIVALENT][:: len(ALL) // 12][:12]
NEAR = LOOKS[:2]
FORGETFUL = "updates.mark_lost: flight.losses + 1 not counted"


def test_there_are_faults_of_every_kind_each_with_a_name_of_its_own() -> None:
    """At least 60; of each kind so many, and at most ten of all are called equivalent."""
    kinds = ["negated", "always true", "always false", "dropped", " to "]
    kinds += ["without its update", "after the next", "off by one", "not counted"]
    counts = {kind: sum(kind in name for name in BY_NAME) for kind in kinds}
    guarded = sum(row.guard is not None for _, _, row in TOOL_LOOP.all_rows())
    assert (len(BY_NAME), len(SAMPLE)) == (len(ALL), 12)
    assert [counts.pop(kind) for kind in ("negated", "always true", "always false")] == [guarded] * 3
    assert [counts.pop(kind) for kind in ("dropped", " to ")] == [55, 55]
    assert min(counts.values()) >= 10
    assert EQUIVALENT.keys() <= BY_NAME.keys()
    assert len(EQUIVALENT) <= 10


@pytest.mark.parametrize("fault", SAMPLE, ids=str)
def test_verify_names_the_fault(fault: Fault) -> None:
    """What is wrong is told, however near the exploration is bounded."""
    assert faults.noticed(fault, NEAR) != ""


@pytest.mark.parametrize("name", EQUIVALENT)
def test_what_is_called_equivalent_is_not_named(name: str) -> None:
    """Nor does anything else go wrong with it."""
    assert faults.noticed(BY_NAME[name], NEAR[:1]) == ""


def test_a_fault_is_gone_when_its_context_ends() -> None:
    """A guard compares as it did before; meanwhile the limit itself is still within it."""
    at = snapshot(steps=10)
    found = [guards.steps_spent(at, polled())]
    with BY_NAME["guards.steps_spent: snapshot.steps >= snapshot.budget.max_steps off by one"].plant() as definition:
        found.append(guards.steps_spent(at, polled()))
        assert verify(definition, advances=300).broken[0].promise == "I1"
    found.append(guards.steps_spent(at, polled()))
    assert found == [True, False, True]


def test_what_is_said_of_a_fault_is_why_it_is_refused_or_which_promise_it_breaks() -> None:
    """The first that is found; nothing where nothing is."""
    names = ("checking_cancel/2 dropped", "checking_budget/5 steps_spent negated", "validating/4 after the next")
    assert [faults.noticed(BY_NAME[name], NEAR[:1]) for name in names] == [
        "refused: checking_cancel: on CancelPolled the last row has a guard, so nothing is taken where no guard holds",
        "I13: the run ended step_budget, and nothing ends it here",
        "",
    ]


def test_a_fault_can_be_planted_in_what_everything_reads() -> None:
    """In the very definition, and in the code of the very function, while what it gives is kept open."""
    mine, at = attrs.evolve(TOOL_LOOP), snapshot(steps=10)
    with faults.planted_in("checking_cancel/3 dropped", mine):
        assert (mine.accepts("checking_cancel"), len(mine.rows("checking_cancel"))) == (("CancelPolled",), 2)
    planted = faults.planted_in("guards.steps_spent: snapshot.steps >= snapshot.budget.max_steps off by one", mine)
    gc.collect()
    meanwhile = guards.steps_spent(at, polled())
    planted.close()
    assert (meanwhile, guards.steps_spent(at, polled())) == (False, True)


def test_tests_are_run_with_the_fault_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    """One that can't be planted fails them all."""
    monkeypatch.setenv(faults.VARIABLE, "checking_cancel/2 dropped")
    with pytest.raises(InvalidDefinition, match="checking_cancel: on CancelPolled the last row has a guard"):
        faults.pytest_configure(pytestconfig)


def test_the_command_takes_the_names_of_faults(capsys: pytest.CaptureFixture[str]) -> None:
    """Without one it plants all."""
    given, sys.argv = sys.argv, ["tests.faults", "checking_cancel/2 dropped"]
    try:
        with pytest.raises(SystemExit) as ended:
            runpy.run_module("tests.faults", run_name="__main__")
    finally:
        sys.argv = given
    said = capsys.readouterr().out.splitlines()
    assert (ended.value.code, said[0], said[-2]) == (
        0,
        "checking_cancel/2 dropped",
        "1 faults; verify names 1, the tests of guards and loop fail with 1",
    )


def test_every_fault_is_printed_with_what_notices_it_and_both_figures(capsys: pytest.CaptureFixture[str]) -> None:
    """The status is how many are neither named nor argued; the tests run where the fault is planted."""
    counter = "updates.ask_with_tools: snapshot.steps + 1 not counted"
    names = (counter, "validating/4 after the next", FORGETFUL)
    status = faults.main(
        [BY_NAME[name] for name in names],
        [{"advances": 1}],
        ["tests/test_walks_model.py::test_one_call_and_the_answer"],
    )
    assert (status, capsys.readouterr().out.splitlines()) == (
        1,
        [
            names[0],
            "  verify: I1: the run is no nearer to its end: 12 answers were left after this event, 9 may be",
            "  tests: fail",
            names[1],
            "  verify: equivalent: a turn is of one kind, truncated or refused",
            "  tests: PASS",
            names[2],
            "  verify: NOTHING",
            "  tests: PASS",
            "",
            "3 faults; verify names 1, the tests of guards and loop fail with 1",
            f"neither named by verify nor argued: {FORGETFUL}",
        ],
    )
