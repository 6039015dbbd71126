"""Finding what draws: the wheel whose bytes are the same everywhere, then dot, then pygraphviz, then an error."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from loopmachine.review.render import NoRenderer, pinned, render

DOT = "digraph { a -> b }"


def script(folder: Path, name: str, body: str) -> str:
    """A program of this name that stands in for a renderer; the folder, to look for it in."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!{sys.executable}\nimport sys\n{body}\n", encoding="utf-8")
    program.chmod(0o755)
    return str(folder)


ECHO = "sys.stdout.write(f'{sys.argv[0].rsplit(chr(47))[-1]} {sys.argv[1:]} {sys.stdin.read()}')"


def test_the_pinned_wheel_is_found_beside_this_interpreter() -> None:
    """graphviz-pure is found in the environment of this interpreter, and draws both formats."""
    found = pinned()
    assert found is not None
    assert Path(found).parent == Path(sys.executable).parent
    assert b"<svg" in render(DOT, "svg")
    assert render(DOT, "png").startswith(b"\x89PNG")


def test_the_pinned_wheel_comes_before_dot(tmp_path: Path) -> None:
    """Where both are there graphviz-pure draws; it reads the DOT and is told the format."""
    script(tmp_path, "dot", ECHO)
    path = script(tmp_path, "graphviz-pure", ECHO)
    assert render(DOT, "svg", path).decode() == f"graphviz-pure ['-Tsvg'] {DOT}"


def test_dot_draws_where_the_wheel_is_missing(tmp_path: Path) -> None:
    """A dot on the path is used, and is not taken for the renderer whose bytes can be compared."""
    path = os.pathsep.join([str(tmp_path / "empty"), script(tmp_path / "full", "dot", ECHO)])
    assert render(DOT, "png", path).decode() == f"dot ['-Tpng'] {DOT}"
    assert pinned(path) is None


def test_pygraphviz_draws_where_no_program_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module pygraphviz, which carries a Graphviz, is the third way to draw."""
    (tmp_path / "pygraphviz.py").write_text(
        "class AGraph:\n"
        "    def __init__(self, string): self.string = string\n"
        "    def draw(self, format, prog): return f'{prog} {format} {self.string}'.encode()\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        assert render(DOT, "svg", str(tmp_path)).decode() == f"dot svg {DOT}"
    finally:
        del sys.modules["pygraphviz"]


def test_nothing_to_draw_with_is_an_error_that_says_what_to_install(tmp_path: Path) -> None:
    """Without any renderer the error names two that would do."""
    with pytest.raises(NoRenderer, match=r"^nothing here draws svg: install graphviz-pure, a wheel, or Graphviz"):
        render(DOT, "svg", str(tmp_path))


def test_a_renderer_that_fails_is_quoted(tmp_path: Path) -> None:
    """What a failing program said is in the error, on one line, with its exit code."""
    path = script(tmp_path, "dot", "sys.stderr.write('no\\n  memory\\n')\nsys.exit(3)")
    with pytest.raises(NoRenderer, match=r"dot could not draw svg and ended with 3: no memory$"):
        render(DOT, "svg", path)
