"""The committed image: that it shows what runs, describes itself, and can be read by everybody."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import pytest

from loopmachine.definition import Definition
from loopmachine.review import colours
from loopmachine.review.diagram import picture
from loopmachine.review.dot import draw
from loopmachine.review.lines import all_lines
from loopmachine.review.svg import digest
from loopmachine.review.text import key
from loopmachine.table import TOOL_LOOP
from tests.test_review_dot import COMMITTED, HOSTILE, SVG, element, hostile, image, text_of
from tests.test_review_mermaid import labelled

LOOP = (COMMITTED / "loop.svg").read_text(encoding="ascii")


def test_the_committed_image_is_the_one_drawn() -> None:
    """The renderer that the lock file names draws the committed SVG from the table that runs, byte for byte."""
    assert picture(TOOL_LOOP, "svg").decode("ascii") == LOOP


def test_the_image_bears_the_digest_of_the_committed_dot() -> None:
    """The metadata of the SVG is the sha256 of the DOT beside it."""
    dot = (COMMITTED / "loop.dot").read_bytes()
    metadata = ElementTree.fromstring(LOOP).findtext(f"{SVG}metadata")
    assert metadata == f"dot-sha256 {hashlib.sha256(dot).hexdigest()}" == digest(dot.decode("ascii"))


def test_every_state_row_and_guard_is_visible_text() -> None:
    """In each state's box stand its name and what it is for, and in each row its number, event and guard."""
    svg = ElementTree.fromstring(LOOP)
    for name, state in TOOL_LOOP.states.items():
        shown = text_of(element(svg, f"s_{name}")).split("\n")
        assert shown[0] == (state.status if state.final else name)
        assert state.final or shown[1] == state.doc
    for line in all_lines(TOOL_LOOP):
        words = filter(None, [line.event, line.condition, "stays" if line.stays else ""])
        first, *update = text_of(element(svg, f"{line.id}_row")).split("\n")
        assert first == " ".join(words)
        assert " ".join(update) == (f"/ {line.row.update.__doc__}" if line.row.update else "")
        whole = text_of(element(svg, f"s_{line.state.name}")).split("\n")
        assert f"{line.label} {first}" in [re.sub(r"\s+", " ", text) for text in whole]


@pytest.mark.parametrize("definition", [TOOL_LOOP, hostile(HOSTILE), labelled(HOSTILE)])
def test_ids_are_unique_and_on_every_row_edge_and_node(definition: Definition) -> None:
    """No id is there twice; each state, row and curve, the frame and the legend have one."""
    ids = Counter(node.get("id") for node in image(definition).iter() if node.get("id"))
    assert [ident for ident, count in ids.items() if count > 1] == []
    lines = list(all_lines(definition))
    expected = {f"s_{key(name)}" for name in definition.states} | {f"{line.id}_row" for line in lines}
    expected |= {line.id for line in lines if not line.stays} | {"loop", "legend", "finished"}
    assert set(ids) == expected | {"loop_title", "loop_desc"}


def test_the_image_describes_itself() -> None:
    """The SVG is an image with a title, and a description that holds every state's doc and every row's sentence."""
    svg = ElementTree.fromstring(LOOP)
    assert (svg.get("role"), svg.get("aria-labelledby")) == ("img", "loop_title loop_desc")
    assert [child.tag.removeprefix(SVG) for child in svg][:4] == ["title", "desc", "metadata", "style"]
    assert element(svg, "loop_title").text == text_of(element(svg, "loop")).split("\n")[0]
    assert (element(svg, "loop_desc").text or "").split("\n") == [
        *(f"{state.name}: {state.doc}" for state in TOOL_LOOP.table),
        *(line.sentence for line in all_lines(TOOL_LOOP)),
    ]


def test_every_row_and_curve_has_its_sentence_as_a_tooltip() -> None:
    """The tooltip of a row and of its curve says its guard's docstring and where it leads; of an end, its doc."""
    svg = ElementTree.fromstring(LOOP)
    for line in all_lines(TOOL_LOOP):
        places = [f"{line.id}_row"] if line.stays else [f"{line.id}_row", line.id]
        assert {element(svg, place).findtext(f"{SVG}title") for place in places} == {line.sentence}
    for name, state in TOOL_LOOP.states.items():
        assert element(svg, f"s_{name}").findtext(f"{SVG}title") == (state.doc if state.final else None)


def test_the_image_is_plain() -> None:
    """The SVG is ASCII, begins with its element, and has no comment, document type or link."""
    assert LOOP.isascii()
    assert LOOP.startswith("<svg ")
    assert not re.search(r"<!--|<!DOCTYPE|<\?xml|<a\b", LOOP)


def test_every_font_is_arial() -> None:
    """No text names another font."""
    assert set(re.findall(r'font-family="([^"]*)"', LOOP)) == {"Arial"}


def test_every_colour_has_one_for_the_dark() -> None:
    """Each colour that is drawn with is exchanged where the reader prefers dark."""
    style = ElementTree.fromstring(LOOP).findtext(f"{SVG}style", "")
    drawn = set(re.findall(r'(?:fill|stroke)="(?!none)([^"]+)"', LOOP))
    exchanged = set(re.findall(r'\[fill="([^"]+)"\] \{ fill: ', style)) & set(
        re.findall(r'\[stroke="([^"]+)"\] \{ stroke: ', style)
    )
    assert "@media (prefers-color-scheme: dark)" in style
    assert drawn <= exchanged == set(colours.DARK)


def luminance(colour: str) -> float:
    """How bright a colour is, as WCAG 2 defines it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """How well one colour is told from another, 1 to 21, as WCAG 2 defines it."""
    dark, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dark + 0.05)


TEXTS = [
    *product([colours.INK, colours.SMALL], [colours.PAPER, colours.TINT, colours.AUTO, colours.REST]),
    (colours.HAPPY, colours.REST),
    *((colours.FINAL[kind], colours.FILL[kind]) for kind in colours.FINAL),
]
LINES = [(line, colours.PAPER) for line in (colours.HAPPY, colours.MOVE, *colours.FINAL.values())]


@pytest.mark.parametrize("dark", [False, True])
def test_text_and_lines_stand_out(dark: bool) -> None:
    """Text on its ground has a contrast of at least 5.5, a line on the paper of at least 5, in light and in dark."""

    def shown(colour: str) -> str:
        return colours.DARK[colour] if dark else colour

    weak = [pair for pair in TEXTS if contrast(shown(pair[0]), shown(pair[1])) < 5.5]
    weak += [pair for pair in LINES if contrast(shown(pair[0]), shown(pair[1])) < 5]
    assert weak == []


def test_contrast_is_what_the_standard_says() -> None:
    """Black on white is 21, a colour on itself 1."""
    assert (round(contrast("#000000", "#ffffff"), 6), contrast("#123456", "#123456")) == (21, 1)


def test_a_row_put_into_the_table_changes_the_digest() -> None:
    """A definition with one more row has another digest, so an image of the old one is found out."""
    row = TOOL_LOOP.rows("validating")[2]
    longer = TOOL_LOOP.with_row("validating", row, at=1)
    assert digest(draw(longer)) not in LOOP
    assert Path(COMMITTED / "loop.svg").exists()
