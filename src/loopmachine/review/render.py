"""Drawing DOT: finds a Graphviz, first the wheel that gives the same bytes everywhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from loopmachine.errors import LoopError

PINNED = "graphviz-pure"  #: gives the same bytes on every machine


class NoRenderer(LoopError):
    """Nothing was found that draws DOT, or what was found failed."""


def pinned(path: str | None = None) -> str | None:
    """The program whose bytes can be compared, where it is there."""
    return shutil.which(PINNED, path=_search_path(path))


def render(dot: str, kind: str, path: str | None = None) -> bytes:
    """The picture of ``dot``, "svg" or "png".

    Drawn by graphviz-pure or else by dot, each looked for beside this interpreter and on PATH, or on ``path`` alone
    where it is given; else by pygraphviz. Raises NoRenderer.
    """
    program = pinned(path) or shutil.which("dot", path=_search_path(path))
    return _by_program(program, dot, kind) if program else _by_wheel(dot, kind)


def _search_path(path: str | None) -> str:
    beside = str(Path(sys.executable).parent)
    return os.pathsep.join([beside, os.environ.get("PATH", os.defpath)]) if path is None else path


def _by_program(program: str, dot: str, kind: str) -> bytes:
    done = subprocess.run([program, f"-T{kind}"], input=dot.encode("ascii"), capture_output=True, check=False)
    if done.returncode:
        said = " ".join(done.stderr.decode(errors="replace").split())
        raise NoRenderer(f"{program} could not draw {kind} and ended with {done.returncode}: {said}")
    return done.stdout


def _by_wheel(dot: str, kind: str) -> bytes:
    try:
        from pygraphviz import AGraph  # type: ignore[import-not-found]  # the last of three ways, seldom installed
    except ImportError:
        raise NoRenderer(
            f"nothing here draws {kind}: install graphviz-pure, a wheel, or Graphviz, whose program is dot"
        ) from None
    return bytes(AGraph(string=dot).draw(format=kind, prog="dot"))
