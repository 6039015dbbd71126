"""What `make mutants` tells of the mutants that mutmut has tried, and the list of those that are equivalent."""

from __future__ import annotations

import inspect
import runpy
import tomllib
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.file_mutation import mutate_file_contents

from tests.mutants import LISTED, Mutant, listed, main

ROOT = Path(__file__).parents[1]
SETTINGS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutmut"]
REASONS = listed(LISTED.read_text(encoding="utf-8"))

SUMS = """
class Sum:
    def more(self, one: int) -> int:
        return one + 1


def positive(one: int) -> bool:
    return one > 0
"""


@pytest.fixture
def sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SourceFileMutationData:
    """A file whose mutants are made and not yet tried, in the current directory."""
    monkeypatch.chdir(tmp_path)
    source = Path("src", "sums.py")
    for path in (source, "mutants" / source):
        path.parent.mkdir(parents=True)
        path.write_text(SUMS, encoding="utf-8")
    mutated = mutate_file_contents(str(source), SUMS)
    ("mutants" / source).write_text(mutated.code, encoding="utf-8")
    data = SourceFileMutationData(path=source)
    data.exit_code_by_key = dict.fromkeys([f"sums.{name}" for name in mutated.mutant_names])
    data.save()
    return data


LESS = Mutant("sums.Sum.more", ("- return one + 1", "+ return one - 1"))
TWO = Mutant("sums.Sum.more", ("- return one + 1", "+ return one + 2"))
ZERO = Mutant("sums.positive", ("- return one > 0", "+ return one >= 0"))
ONE = Mutant("sums.positive", ("- return one > 0", "+ return one > 1"))


@pytest.mark.parametrize(
    ("became", "reasons", "score", "wrong"),
    [
        ([1, 1, 1, 36], {}, "4 of 4 killed (100.0%), 0 equivalent, 0 neither", []),
        ([1, 0, 0, 1], {TWO: "why", ZERO: "why"}, "2 of 4 killed (50.0%), 2 equivalent, 0 neither", []),
        (
            [0, 33, 1, None],
            {TWO: "why", ZERO: "why"},
            "1 of 4 killed (25.0%), 1 equivalent, 2 neither",
            [f"survived: {LESS}", f"not checked: {ONE}", f"listed, but no survivor: {ZERO}"],
        ),
    ],
)
def test_the_score_and_what_is_not_in_order_are_printed(
    sums: SourceFileMutationData,
    became: list[int | None],
    reasons: dict[Mutant, str],
    score: str,
    wrong: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Survivors that are not listed, and what is listed and is none; the number of both is returned."""
    sums.exit_code_by_key = dict(zip(sums.exit_code_by_key, became, strict=True))
    sums.save()
    told = main(reasons)
    assert (capsys.readouterr().out, told) == (
        "\n".join([f"src/sums.py: {score}", f"all: {score}", *wrong]) + "\n",
        len(wrong),
    )


def test_what_is_not_in_order_is_the_status_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing was tried, all that is listed is no survivor."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "tests" / "mutants.py"), run_name="__main__")
    assert ended.value.code == 1


def test_a_mutant_is_printed_as_it_is_listed() -> None:
    """But for its reason, so that a survivor can be pasted into the list."""
    text = str(LESS).replace("more", "more: it is always 0", 1)
    assert listed(f"{text}\n\n{str(ZERO).replace('positive', 'positive: why')}\n") == {
        LESS: "it is always 0",
        ZERO: "why",
    }


@pytest.mark.parametrize("mutant", REASONS, ids=lambda mutant: mutant.function)
def test_a_mutant_that_is_listed_can_be_made(mutant: Mutant) -> None:
    """What it changes stands in that function, once, and a reason is given."""
    module, _, function = mutant.function.partition(".")
    source = inspect.getsource(attrgetter(function)(import_module(f"loopmachine.{module}")))
    gone = [line[2:] for line in mutant.change if line.startswith("- ")]
    lines = [line.strip() for line in source.splitlines()]
    assert ([lines.count(line) for line in gone], REASONS[mutant] != "") == ([1] * len(gone), True)


def test_what_is_mutated_and_what_has_to_notice() -> None:
    """The modules that decide, beside the table, which is data; every test file that is named is there."""
    mutated = [Path(name).stem for name in SETTINGS["only_mutate"]]
    tests = [name for name in SETTINGS["pytest_add_cli_args_test_selection"] if name.startswith("tests/")]
    assert (mutated, [name for name in tests if not (ROOT / name.partition("::")[0]).is_file()]) == (
        ["compiled", "definition", "drafts", "functions", "guards", "loop", "machine", "updates"],
        [],
    )
