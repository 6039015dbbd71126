"""Loading a definition, drawing it in every format, writing files and checking them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from loopmachine.review.diagram import CannotDraw, differences, load, picture, text, write
from loopmachine.review.dot import draw
from loopmachine.review.listing import listing
from loopmachine.review.mermaid import mermaid
from loopmachine.review.render import NoRenderer
from loopmachine.table import TOOL_LOOP
from tests.test_review_lines import SMALL


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory; the module search path is put back afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    return tmp_path


# --- loading ------------------------------------------------------------------------------------------


def test_the_tool_loop_is_loaded_by_its_name() -> None:
    """module:name gives the object itself."""
    assert load("loopmachine.table:TOOL_LOOP") is TOOL_LOOP


def test_a_definition_is_found_in_the_current_directory(here: Path) -> None:
    """A module beside the user is loaded, and its attributes may be nested; the second time too."""
    (here / "own_rules.py").write_text(
        "from loopmachine.table import TOOL_LOOP\nclass Rules:\n    LOOP = TOOL_LOOP\n", encoding="utf-8"
    )
    assert load("own_rules:Rules.LOOP") is load("own_rules:TOOL_LOOP") is TOOL_LOOP
    assert sys.path.count(str(here)) == 1


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("nothing", "'nothing' names no definition; module:name does, as in loopmachine.table:TOOL_LOOP"),
        (":x", "':x' names no definition; module:name does, as in loopmachine.table:TOOL_LOOP"),
        ("x:", "'x:' names no definition; module:name does, as in loopmachine.table:TOOL_LOOP"),
        ("no_module:x", "no_module:x can't be loaded: ModuleNotFoundError: No module named 'no_module'"),
        (
            "loopmachine.table:x",
            "loopmachine.table:x can't be loaded: AttributeError: module 'loopmachine.table' has no attribute 'x'",
        ),
        ("loopmachine.table:guards", "loopmachine.table:guards must be a Definition, not a module"),
    ],
)
def test_what_is_no_definition_is_refused(here: Path, where: str, why: str) -> None:
    """The sentence names what was asked for and what is wrong with it."""
    with pytest.raises(CannotDraw) as refused:
        load(where)
    assert str(refused.value) == why


@pytest.mark.parametrize(
    ("raised", "why"),
    [
        ("SystemExit(0)", "SystemExit: 0"),
        ("SystemExit", "SystemExit: "),
        ("BaseException('odd')", "BaseException: odd"),
        ("__import__('asyncio').CancelledError", "CancelledError: "),
    ],
)
@pytest.mark.parametrize("when", ["", "def __getattr__(name): "], ids=["on import", "on access"])
def test_what_a_module_raises_is_the_reason_whatever_it_is(here: Path, when: str, raised: str, why: str) -> None:
    """A script that leaves when it is imported does not end the command as if it had been done."""
    module = here.name  # of its own, as one that is imported stays
    (here / f"{module}.py").write_text(f"{when}raise {raised}\n", encoding="utf-8")
    with pytest.raises(CannotDraw) as refused:
        load(f"{module}:LOOP")
    assert str(refused.value) == f"{module}:LOOP can't be loaded: {why}"


def test_an_interrupt_on_import_passes(here: Path) -> None:
    """It is the user's own."""
    (here / "slow.py").write_text("raise KeyboardInterrupt\n", encoding="utf-8")
    with pytest.raises(KeyboardInterrupt):
        load("slow:LOOP")


# --- drawing and writing ------------------------------------------------------------------------------


def test_every_format_is_what_its_module_draws() -> None:
    """The texts are those of their modules; an svg and a png are drawn from the dot."""
    assert picture(SMALL, "mermaid").decode() == mermaid(SMALL)
    assert picture(SMALL, "table").decode() == listing(SMALL)
    assert picture(SMALL, "dot").decode() == draw(SMALL)
    assert picture(SMALL, "svg").startswith(b"<svg ")
    assert picture(SMALL, "png").startswith(b"\x89PNG")


def test_text_is_for_standard_output_and_a_png_is_not() -> None:
    """All formats but png can be printed."""
    assert text(SMALL, "table") == listing(SMALL)
    with pytest.raises(CannotDraw, match=r"^a png is not for standard output; say where it goes with --output$"):
        text(SMALL, "png")


def test_files_are_written_in_the_format_that_they_are_named_for(here: Path) -> None:
    """The ending says the format of each file, unless one is asked for."""
    names = ["a.dot", "a.gv", "a.svg", "a.png", "a.mmd", "a.md", "a.txt"]
    kinds = ["dot", "dot", "svg", "png", "mermaid", "table", "table"]
    write(SMALL, names, None)
    write(SMALL, ["b.txt", "b"], "mermaid")
    written = {name: (here / name).read_bytes() for name in [*names, "b.txt", "b"]}
    assert written == {
        **{name: picture(SMALL, kind) for name, kind in zip(names, kinds, strict=True)},
        "b.txt": picture(SMALL, "mermaid"),
        "b": picture(SMALL, "mermaid"),
    }


def test_a_name_that_says_no_format_is_refused(here: Path) -> None:
    """The sentence names the file and the endings that are known."""
    with pytest.raises(CannotDraw, match=r"^loop\.pdf: what is to be drawn\? Give --format, or a name that ends in"):
        write(SMALL, ["loop.pdf"], None)


def test_a_place_that_can_not_be_written_is_refused(here: Path) -> None:
    """The sentence names the file and what the system said."""
    with pytest.raises(CannotDraw, match=r"^nowhere/loop\.dot can't be written: No such file or directory$"):
        write(SMALL, ["nowhere/loop.dot"], None)


def test_without_a_renderer_the_dot_is_written_all_the_same(here: Path) -> None:
    """Where nothing draws an svg its DOT is written beside it, and the sentence says so."""
    with pytest.raises(CannotDraw, match=r"dot\. Its DOT was written to loop\.dot$"):
        write(SMALL, ["loop.svg"], None, path="")
    assert [(path.name, path.read_text(encoding="ascii")) for path in here.iterdir()] == [("loop.dot", draw(SMALL))]


def test_how_often_each_row_was_taken_is_drawn(here: Path) -> None:
    """In the image as in its DOT, and in the DOT that is written where nothing draws; texts are as ever."""
    counts = {"start/1": 3}
    write(SMALL, ["a.dot", "a.svg", "a.md"], None, counts=counts)
    with pytest.raises(CannotDraw):
        write(SMALL, ["b.svg"], None, path="", counts=counts)
    drawn = draw(SMALL, counts)
    assert (
        {name: (here / name).read_text("utf-8") for name in ("a.dot", "b.dot", "a.md")},
        (here / "a.svg").read_bytes(),
        drawn == draw(SMALL),
    ) == ({"a.dot": drawn, "b.dot": drawn, "a.md": listing(SMALL)}, picture(SMALL, "svg", counts=counts), False)


# --- checking -----------------------------------------------------------------------------------------


def test_files_just_written_do_not_differ(here: Path) -> None:
    """What was written is what is drawn, in every format that can be checked."""
    names = ["a.dot", "a.svg", "a.mmd", "a.md"]
    write(SMALL, names, None)
    assert list(differences(SMALL, names, None)) == []


def test_files_of_another_definition_differ(here: Path) -> None:
    """Each file that shows another machine, or is missing, is named."""
    names = ["a.dot", "a.svg", "a.mmd", "a.md"]
    write(SMALL, names, None)
    assert list(differences(TOOL_LOOP, [*names, "b.svg"], None)) == [
        "a.dot is not what is drawn now",
        "a.svg was drawn from another DOT",
        "a.mmd is not what is drawn now",
        "a.md is not what is drawn now",
        "b.svg can't be read: No such file or directory",
    ]


def test_an_image_that_was_touched_differs_where_its_renderer_is_there(here: Path) -> None:
    """With the right digest other bytes are found out only by the renderer that gives the same ones everywhere."""
    write(SMALL, ["a.svg"], None)
    image = here / "a.svg"
    image.write_bytes(image.read_bytes() + b"\n")
    assert list(differences(SMALL, ["a.svg"], None)) == ["a.svg is not what is drawn now"]
    assert list(differences(SMALL, ["a.svg"], None, path="")) == []


def test_a_png_can_not_be_checked(here: Path) -> None:
    """A check of a png is refused with what to check instead."""
    with pytest.raises(CannotDraw, match=r"^a\.png: a png can't be checked; its dot or svg can$"):
        list(differences(SMALL, ["a.png"], None))


def test_a_drawing_without_a_renderer_is_an_error_of_its_own(here: Path) -> None:
    """picture raises NoRenderer itself; only write turns it into a file."""
    with pytest.raises(NoRenderer):
        picture(SMALL, "svg", path="")
