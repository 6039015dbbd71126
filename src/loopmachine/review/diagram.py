"""The diagram of a definition in every format: load the definition, draw it, write it, check what was committed."""

from __future__ import annotations

import importlib
import operator
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from loopmachine.definition import Definition
from loopmachine.errors import LoopError
from loopmachine.review.dot import draw
from loopmachine.review.listing import listing
from loopmachine.review.mermaid import mermaid
from loopmachine.review.render import NoRenderer, pinned, render
from loopmachine.review.svg import digest, finish

COMMITTED = ("diagrams/loop.dot", "diagrams/loop.svg")
_ENDINGS = {
    ".svg": "svg",
    ".dot": "dot",
    ".gv": "dot",
    ".png": "png",
    ".mmd": "mermaid",
    ".md": "table",
    ".txt": "table",
}


class CannotDraw(LoopError):
    """A diagram that was asked for and can't be made. The sentence says why, and what would have been right."""


def load(where: str) -> Definition:
    """The definition at "module:name", looked for from the current directory too. Raises CannotDraw."""
    module, _, name = where.partition(":")
    if not module or not name:
        raise CannotDraw(f"{where!r} names no definition; module:name does, as in loopmachine.table:TOOL_LOOP")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = operator.attrgetter(name)(importlib.import_module(module))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a SystemExit too: a script that runs on import would end the command as done
        raise CannotDraw(f"{where} can't be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(found, Definition):
        raise CannotDraw(f"{where} must be a Definition, not a {type(found).__name__}")
    return found


def picture(
    definition: Definition, kind: str, path: str | None = None, counts: Mapping[str, int] | None = None
) -> bytes:
    """The definition as "svg", "dot", "png", "mermaid" or "table".

    ``path`` is where to look for a program that draws, as `render` takes it. ``counts``: how often each row was taken,
    as `draw` takes it, for what is drawn. Raises NoRenderer.
    """
    if kind == "mermaid":
        return mermaid(definition).encode("ascii")
    if kind == "table":
        return listing(definition).encode()
    dot = draw(definition, counts)
    if kind == "dot":
        return dot.encode("ascii")
    drawn = render(dot, kind, path)
    return finish(drawn.decode(), dot, definition).encode("ascii") if kind == "svg" else drawn


def text(definition: Definition, kind: str) -> str:
    """The definition for standard output. Raises CannotDraw for a png, and NoRenderer."""
    if kind == "png":
        raise CannotDraw("a png is not for standard output; say where it goes with --output")
    return picture(definition, kind).decode()


def write(
    definition: Definition,
    outputs: Sequence[str],
    asked: str | None,
    path: str | None = None,
    counts: Mapping[str, int] | None = None,
) -> None:
    """Write files, of the format asked for or else the one that their names end in.

    Raises CannotDraw; where nothing draws, the DOT is written all the same.
    """
    for output in outputs:
        kind = _kind(output, asked)
        try:
            _save(output, picture(definition, kind, path, counts))
        except NoRenderer as error:
            instead = str(Path(output).with_suffix(".dot"))
            _save(instead, picture(definition, "dot", counts=counts))
            raise CannotDraw(f"{error}. Its DOT was written to {instead}") from error


def differences(
    definition: Definition, outputs: Sequence[str], asked: str | None, path: str | None = None
) -> Iterator[str]:
    """What is wrong with files that were written before, a sentence each. Raises CannotDraw."""
    for output in outputs:
        kind = _kind(output, asked)
        if kind == "png":
            raise CannotDraw(f"{output}: a png can't be checked; its dot or svg can")
        try:
            found = Path(output).read_bytes()
        except OSError as error:
            yield f"{output} can't be read: {error.strerror}"
            continue
        if kind == "svg" and digest(draw(definition)).encode("ascii") not in found:
            yield f"{output} was drawn from another DOT"
        # Another Graphviz draws the same picture in other bytes.
        elif (kind != "svg" or pinned(path)) and found != picture(definition, kind, path):
            yield f"{output} is not what is drawn now"


def _kind(output: str, asked: str | None) -> str:
    kind = asked or _ENDINGS.get(Path(output).suffix)
    if kind is None:
        raise CannotDraw(f"{output}: what is to be drawn? Give --format, or a name that ends in {', '.join(_ENDINGS)}")
    return kind


def _save(output: str, data: bytes) -> None:
    try:
        Path(output).write_bytes(data)
    except OSError as error:
        raise CannotDraw(f"{output} can't be written: {error.strerror}") from error
