"""Mutants of the modules that decide, made and tried by mutmut, and whether the tests notice them.

``make mutants`` runs it and then this, which prints the score and every mutant that survived without being argued.
Those that change nothing a run can show are in ``mutants.txt``, each with its reason.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.stats import status_by_exit_code
from mutmut.utils.format_utils import orig_function_and_class_names_from_key

MADE = Path("mutants")  #: where mutmut keeps them, in the current directory
LISTED = Path(__file__).with_suffix(".txt")
NOTICED = ("killed", "timeout")  #: of what mutmut says that became of one


@attrs.frozen
class Mutant:
    """A function and what is changed in it, so that it is found again wherever its lines are."""

    function: str  #: as "machine.build" or "loop.Loop.turn"
    change: tuple[str, ...]  #: the lines that go, each after "- ", and those that come, each after "+ "

    def __str__(self) -> str:
        return "\n  ".join([self.function, *self.change])


def listed(text: str) -> dict[Mutant, str]:
    """Why mutants are equivalent: a paragraph for each, ``function: reason`` and the lines of the change."""
    found = {}
    for paragraph in text.strip().split("\n\n"):
        head, *change = [line.strip() for line in paragraph.splitlines()]
        function, _, reason = head.partition(": ")
        found[Mutant(function, tuple(change))] = reason
    return found


def tried(source: Path) -> Iterator[tuple[Mutant, str]]:
    """Every mutant of a file, and what became of it in mutmut's words."""
    data = SourceFileMutationData(path=source)
    data.load()
    for name, exit_code in data.exit_code_by_key.items():
        function, of_class = orig_function_and_class_names_from_key(name)
        diff = get_diff_for_mutant(name, path=source).splitlines()[2:]
        change = [f"{line[0]} {line[1:].strip()}" for line in diff if line[0] in "-+"]
        named = [source.stem, of_class, function] if of_class else [source.stem, function]
        yield Mutant(".".join(named), tuple(change)), status_by_exit_code[exit_code]


def main(reasons: dict[Mutant, str]) -> int:
    """Print the score of each file and of all, then what is not in order; how much that is."""
    sources = [meta.relative_to(MADE).with_suffix("") for meta in sorted(MADE.rglob("*.py.meta"))]
    found = {str(source): list(tried(source)) for source in sources}
    found["all"] = [one for mutants in found.values() for one in mutants]
    for name, mutants in found.items():
        alive = [mutant for mutant, status in mutants if status not in NOTICED]
        argued = sum(mutant in reasons for mutant in alive)
        killed = len(mutants) - len(alive)
        score = f"{killed} of {len(mutants)} killed ({killed / max(len(mutants), 1):.1%})"
        print(f"{name}: {score}, {argued} equivalent, {len(alive) - argued} neither")
    survivors = {mutant: status for mutant, status in found["all"] if status not in NOTICED}
    wrong = [f"{status}: {mutant}" for mutant, status in survivors.items() if mutant not in reasons]
    wrong += [f"listed, but no survivor: {mutant}" for mutant in reasons if mutant not in survivors]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(min(1, main(listed(LISTED.read_text(encoding="utf-8")))))
