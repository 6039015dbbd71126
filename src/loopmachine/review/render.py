"""Drawing DOT: finds a Graphviz, the wheel that gives the same bytes everywhere first."""

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


def search_path() -> str:
    """Where programs are looked for: beside this interpreter, then on PATH."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def render(dot: str, kind: str, path: str | None = None) -> bytes:
    """The picture of ``dot``, "svg" or "png", drawn by a program found on ``path``, else by pygraphviz.

    Raises NoRenderer.
    """
    where = search_path() if path is None else path
    program = shutil.which(PINNED, path=where) or shutil.which("dot", path=where)
    return _by_program(program, dot, kind) if program else _by_wheel(dot, kind)


def _by_program(program: str, dot: str, kind: str) -> bytes:
    done = subprocess.run([program, f"-T{kind}"], input=dot.encode("ascii"), capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise NoRenderer(f"{program} could not draw {kind}, it ended with {done.returncode}: {said}")
    return done.stdout


def _by_wheel(dot: str, kind: str) -> bytes:
    try:
        from pygraphviz import AGraph  # type: ignore[import-not-found]  # one of three ways to draw, seldom installed
    except ImportError:
        raise NoRenderer(f"nothing here draws {kind}: install graphviz-pure (a wheel) or Graphviz's dot") from None
    return bytes(AGraph(string=dot).draw(format=kind, prog="dot"))
