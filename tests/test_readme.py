"""README.md says what is true: its code runs, its tables are those of the code."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import attrs
import pytest

from loopmachine import TOOL_LOOP, Budget, Policy, tool

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def rows_of(heading: str) -> list[str]:
    """The rows of the table in a section, without its head."""
    section = README.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return [line for line in section.splitlines() if line.startswith("| `")]


def documented(record: type[Any]) -> list[str]:
    """A row for each field: its name, its default, and what the source says of it."""
    said = dict(re.findall(r"^    (\w+): .*?#: (.*)$", inspect.getsource(record), re.MULTILINE))
    return [f"| `{field.name}` | `{field.default!r}` | {said[field.name]} |" for field in attrs.fields(record)]


def test_each_block_of_code_runs_after_those_before_it(capsys: pytest.CaptureFixture[str]) -> None:
    """There are four, and the first prints the trace of its run."""
    names: dict[str, Any] = {"__name__": "readme"}
    for block in BLOCKS:
        exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    assert (len(BLOCKS), printed[:3], printed[3:5]) == (
        4,
        ["step 1  calls", "  price(isin='SE0000108656') -> ok: 118.4 SEK", "step 2  final: It is worth 118.4 SEK."],
        ["stop: answered", "tools: price; failed: 0"],
    )


def test_it_says_what_it_is_in_five_lines_and_shows_the_picture() -> None:
    """Then come the two commands."""
    first, picture, commands = README.split("\n\n", 4)[1:4]
    assert (len(first.splitlines()), "(diagrams/loop.svg)" in picture, commands.split()[:2]) == (
        5,
        True,
        ["make", "demo"],
    )


def test_the_first_block_has_about_twenty_lines() -> None:
    """Without blank ones."""
    assert len([line for line in BLOCKS[0].splitlines() if line.strip()]) <= 20


@pytest.mark.parametrize(("heading", "record"), [("Budgets", Budget), ("Policies", Policy)])
def test_a_table_lists_the_fields_of_the_code(heading: str, record: type[Any]) -> None:
    """Name, default and meaning."""
    assert rows_of(heading) == documented(record)


def test_the_final_states_are_those_of_the_table() -> None:
    """Status, kind and meaning, in the table's order."""
    finals = [state for state in TOOL_LOOP.table if state.final is not None]
    assert rows_of("How a run ends") == [f"| `{state.status}` | {state.final} | {state.doc} |" for state in finals]


def test_the_two_commands_are_those_of_the_makefile() -> None:
    """make demo and make test."""
    makefile = (Path(__file__).parents[1] / "Makefile").read_text(encoding="utf-8")
    assert [f"\n{command}:" in makefile and f"make {command} " in README for command in ("demo", "test")] == [
        True,
        True,
    ]


def test_the_options_of_a_tool_are_listed_with_their_defaults() -> None:
    """But for its name and description."""
    options = list(inspect.signature(tool).parameters.values())[3:]
    assert [row.rsplit(" | ", 1)[0] for row in rows_of("Tools")] == [
        f"| `{option.name}` | `{option.default!r}`".replace("'", '"') for option in options
    ]
