"""The DOT of a definition: that the committed one is drawn from what runs, and that hostile text survives in it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import FunctionType
from typing import Any
from xml.etree import ElementTree

import pytest

from loopmachine.definition import Definition, Row, State
from loopmachine.review import colours, render
from loopmachine.review.dot import draw
from loopmachine.review.lines import all_lines
from loopmachine.review.svg import finish
from loopmachine.table import TOOL_LOOP
from tests.test_review_lines import SMALL, nothing

COMMITTED = Path(__file__).parent.parent / "diagrams"
SVG = "{http://www.w3.org/2000/svg}"

#: The texts of case D03, and more that DOT or its labels might read.
HOSTILE = [
    'say "hi"',
    "C:\\new",
    "line1\nline2",
    "<b>",
    "a -> b",
    "}",
    "\\N \\G \\l \\\\ \\",
    "&amp; &#35; &",
    "]]> --> ;",
    "\u00e9 \u65e5",
]


def warnings_of(dot: str) -> str:
    """What Graphviz says about a DOT that it draws, such as text that does not fit its box."""
    program = render.pinned()
    assert program
    drawn = subprocess.run([program, "-Tsvg"], input=dot.encode(), capture_output=True, check=True)
    return drawn.stderr.decode()


def image(definition: Definition, counts: dict[str, int] | None = None) -> ElementTree.Element:
    """The finished SVG of a definition, read back."""
    dot = draw(definition, counts)
    return ElementTree.fromstring(finish(render.render(dot, "svg").decode(), dot, definition))


def element(svg: ElementTree.Element, ident: str) -> ElementTree.Element:
    """The one element of this id."""
    (found,) = [node for node in svg.iter() if node.get("id") == ident]
    return found


def text_of(node: ElementTree.Element) -> str:
    """All visible text in an element, line by line, without the spaces around a line."""
    lines: dict[str, str] = {}
    for text in node.iter(f"{SVG}text"):
        lines[text.get("y", "")] = lines.get(text.get("y", ""), "") + (text.text or "")
    return "\n".join(line.strip() for line in lines.values() if line.strip())


def hostile(docs: list[str]) -> Definition:
    """A definition whose docs, docstrings and event names are these texts."""

    def guard(snapshot: Any, event: Any) -> bool:
        return bool(snapshot)

    def update(snapshot: Any, event: Any) -> Any:
        return snapshot

    assert (guard(1, None), update(2, None)) == (True, 2)
    table: dict[State, list[Row]] = {}
    for number, doc in enumerate(docs):
        asked, changed = (FunctionType(code.__code__, {}, f"f{number}") for code in (guard, update))
        asked.__doc__ = changed.__doc__ = doc
        event = type(doc.replace("\n", " "), (), {})
        state = State(f"s{number}", doc, nothing)
        table[state] = [Row(event, "finished_it", asked, changed), Row(event, f"s{(number + 1) % len(docs)}")]
    return Definition("s0", table | {State("finished_it", "\n".join(docs), final="fault"): []})


@pytest.mark.parametrize("seed", ["0", "1"])
def test_the_committed_dot_is_the_one_drawn_whatever_the_hash_seed(seed: str) -> None:
    """Another process under any hash seed draws the committed DOT from the table that runs, byte for byte."""
    command = [sys.executable, "-m", "loopmachine", "diagram", "--format", "dot"]
    drawn = subprocess.run(command, capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed})
    assert drawn.stdout == (COMMITTED / "loop.dot").read_bytes()


def test_the_dot_is_ascii_and_names_one_font() -> None:
    """The DOT is ASCII text, and Arial is its only font."""
    dot = draw(TOOL_LOOP)
    assert dot.isascii()
    assert set(re.findall(r'fontname="?([^"\s\]]*)|FACE="([^"]*)', dot)) == {("Arial", "")}


@pytest.mark.parametrize("counts", [None, {}, {"validating/8": 12_000}])
def test_all_text_fits_its_box(counts: dict[str, int] | None) -> None:
    """Graphviz finds no text that is larger than the cell or the shape that it stands in."""
    assert warnings_of(draw(TOOL_LOOP, counts)) == ""


def test_text_that_does_not_fit_is_found() -> None:
    """The check above finds a cell that is too small."""
    assert "too small" in warnings_of(draw(TOOL_LOOP).replace('WIDTH="24"', 'WIDTH="2"'))


def test_every_row_is_one_line_and_one_curve_without_a_label() -> None:
    """Each row has one cell of its id, and unless it stays one edge that leaves from its port and bears no label."""
    dot = draw(TOOL_LOOP)
    edges = re.findall(r"^\t(\w+):[ew](\d+) -> (\w+) \[(.*)\]$", dot, re.MULTILINE)
    assert sorted((f"{tail[2:]}/{number}", head[2:]) for tail, number, head, _ in edges) == sorted(
        (line.row_id, line.row.to) for line in all_lines(TOOL_LOOP) if not line.stays
    )
    assert not any("label" in attributes for *_, attributes in edges)
    assert re.findall(r'ID="(\w+)_row"', dot) == [line.id for line in all_lines(TOOL_LOOP)]


def test_the_happy_path_is_tinted_and_its_curves_are_heavier() -> None:
    """Happy rows and only they have the tint, and the heavy curves in the colour of the path."""
    dot = draw(TOOL_LOOP)
    happy = [line for line in all_lines(TOOL_LOOP) if line.row.happy]
    tinted = re.findall(rf'BGCOLOR="{colours.TINT}" PORT="e\d+" ID="(\w+)_row"', dot)
    heavy = re.findall(rf'color="{colours.HAPPY}" id=(\w+) penwidth=2.2', dot)
    assert (tinted, sorted(heavy)) == ([line.id for line in happy], sorted(line.id for line in happy))
    assert dot.count("penwidth=2.2") == len(happy)


def test_final_states_differ_by_shape_hue_and_word() -> None:
    """Each kind of final state has a shape, a hue and a word of its own."""
    dot = draw(TOOL_LOOP)
    looks = {
        kind: {
            found.groups()
            for name, state in TOOL_LOOP.states.items()
            if state.final == kind
            for found in re.finditer(
                rf"\ts_{name} \[label=<<FONT.*<FONT[^>]*>([^<]+)</FONT>> color=\"(\S+)\" .*shape=(\w+)", dot
            )
        }
        for kind in ("answered", "limit", "fault")
    }
    assert looks == {
        "answered": {("an answer", colours.FINAL["answered"], "ellipse")},
        "limit": {("a limit or a cancel", colours.FINAL["limit"], "box")},
        "fault": {("a fault", colours.FINAL["fault"], "octagon")},
    }


def test_counts_are_written_beside_the_rows() -> None:
    """With counts each row says how often it was taken; those that were are heavy, the others and their ends pale."""
    svg = image(SMALL, {"start/1": 3, "start/3": 1})
    texts = [text.text or "" for text in svg.iter(f"{SVG}text") if re.fullmatch(r"x\d+", text.text or "")]
    assert sorted(texts) == ["x0", "x0", "x0", "x0", "x1", "x3"]
    paths = {line.id: element(svg, line.id).find(f"{SVG}path") for line in all_lines(SMALL) if not line.stays}
    looks = {ident: (path.get("stroke"), path.get("stroke-width")) for ident, path in paths.items() if path is not None}
    assert looks == {
        "t_start_1": (colours.HAPPY, "2.2"),
        "t_start_2": (colours.PALE, None),
        "t_middle_1": (colours.PALE, None),
        "t_middle_2": (colours.PALE, None),
        "t_aside_1": (colours.PALE, None),
    }
    assert colours.FILL["answered"] in draw(SMALL, {"start/1": 1})
    assert colours.FILL["answered"] not in draw(SMALL, {"start/2": 1})


def test_counts_of_a_row_that_is_not_there_are_refused() -> None:
    """A count for a row of another definition is a ValueError that names it."""
    with pytest.raises(ValueError, match="the definition has no row elsewhere/1, start/9"):
        draw(SMALL, {"start/9": 1, "elsewhere/1": 2, "start/1": 1})


def test_D03_label_text_survives() -> None:  # noqa: N802  # the case's id
    """Docs, docstrings and event names with quotes, backslashes, newlines and markup are read as they were written."""
    svg = image(hostile(HOSTILE))
    for number, text in enumerate(HOSTILE):
        flat = " ".join(text.split())
        row = element(svg, f"t_s{number}_1_row")
        assert text_of(row) == f"{flat} [f{number}]\n/ {text}"
        assert f"f{number} ({flat})," in row.findtext(f"{SVG}title", "")
        assert text_of(element(svg, f"s_s{number}")).startswith(f"s{number}\n{text}\n")
        assert element(svg, f"t_s{number}_1").findtext(f"{SVG}title", "") == row.findtext(f"{SVG}title", "")
    assert element(svg, "s_finished_it").findtext(f"{SVG}title", "") == " ".join(" ".join(HOSTILE).split())


def test_D03_no_label_is_taken_for_html() -> None:  # noqa: N802  # the case's id
    """Text that looks like markup opens no tag and ends no quoted attribute in the DOT."""
    dot = draw(hostile(["<b>", '"]', "<BR/>", "<>"]))
    assert warnings_of(dot) == ""
    assert dot.count("<b>") == dot.count('""') == dot.count("<>") == 0
