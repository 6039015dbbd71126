"""The table of all rows, in Markdown that can be read as it stands."""

from __future__ import annotations

import re

from loopmachine.review.listing import listing
from loopmachine.table import TOOL_LOOP
from tests.test_review_lines import SMALL
from tests.test_review_mermaid import labelled


def test_a_listing_is_a_table_of_all_rows() -> None:
    """Each row is one line with its state, number, event, guard or else, update and next state."""
    assert listing(SMALL).splitlines() == [
        "| state  | row | event | guard | update | to            |",
        "| ------ | --- | ----- | ----- | ------ | ------------- |",
        "| start  | 1   | Go    | ready | count  | finished_done |",
        "| start  | 2   | Go    | else  |        | middle        |",
        "| start  | 3   | Wait  |       | count  | start         |",
        "| middle | 1   |       | ready |        | aside         |",
        "| middle | 2   |       | else  |        | finished_done |",
        "| aside  | 1   | Go    |       |        | start         |",
    ]


def test_the_tool_loop_is_listed_whole() -> None:
    """The listing of the tool loop has a line for each of its rows, all of one width."""
    lines = listing(TOOL_LOOP).splitlines()
    assert len(lines) == 2 + len(list(TOOL_LOOP.all_rows()))
    assert len({len(line) for line in lines}) == 1


def test_text_that_markdown_would_read_is_escaped() -> None:
    """Bars, brackets, stars and backslashes in names do not break the table, and read back as they were."""
    names = ["a | b", "C:\\new", "<b>", "[x](y)", "**z**", "`c`", "__d_", "~~e~~", "two\nlines"]
    lines = listing(labelled(names)).splitlines()[2:]
    cells = [re.split(r"(?<!\\)\|", line)[3].strip() for line in lines]
    assert [re.sub(r"\\(.)", r"\1", cell) for cell in cells] == [*names[:-1], "two lines"]
    assert (cells[-3], cells[-2]) == (r"\_\_d\_", r"\~\~e\~\~")
