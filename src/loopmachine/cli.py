"""The command line: ``loopmachine`` or ``python -m loopmachine``."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from loopmachine.errors import LoopError


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit code: 0, 1 where a check found something, 2 where it could not be done."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.command(arguments))
    except LoopError as error:
        sys.stderr.write(f"loopmachine: {error}\n")
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="loopmachine", description="The tool-calling loop as a state machine.")
    parser.add_argument("--version", action="version", version=f"loopmachine {version('loopmachine')}")
    commands = parser.add_subparsers(required=True, metavar="command")
    diagram = commands.add_parser("diagram", help="draw a machine, or check that files show it")
    diagram.add_argument(
        "definition",
        nargs="?",
        default="loopmachine.table:TOOL_LOOP",
        metavar="module:definition",
        help="the machine, %(default)s if none is named",
    )
    diagram.add_argument(
        "--format",
        choices=("svg", "dot", "png", "mermaid", "table"),
        help="what to draw; if not given, what --output ends in says, and svg is written to standard output",
    )
    diagram.add_argument(
        "--output", action="append", default=[], metavar="PATH", help="a file to write; may be given more than once"
    )
    diagram.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit with 1 where the files of --output, or diagrams/loop.dot and diagrams/loop.svg, "
        "show another machine",
    )
    diagram.set_defaults(command=_diagram)
    demo = commands.add_parser("demo", help="run the loop on tickets, with a scripted model and replies of real ones")
    demo.add_argument(
        "--recordings",
        type=Path,
        metavar="DIR",
        help="a folder of recorded runs to replay, instead of those that came along",
    )
    demo.set_defaults(command=_demo)
    return parser


def _demo(arguments: argparse.Namespace) -> int:
    from loopmachine.demo import main as demo

    return demo(arguments.recordings)


def _diagram(arguments: argparse.Namespace) -> int:
    from loopmachine.review import diagram

    definition = diagram.load(arguments.definition)
    if arguments.check:
        outputs = arguments.output or list(diagram.COMMITTED)
        return _told(arguments, outputs, list(diagram.differences(definition, outputs, arguments.format)))
    if arguments.output:
        diagram.write(definition, arguments.output, arguments.format)
    else:
        sys.stdout.write(diagram.text(definition, arguments.format or "svg"))
    return 0


def _told(arguments: argparse.Namespace, outputs: Sequence[str], found: Sequence[str]) -> int:
    if not found:
        sys.stdout.write(f"{', '.join(outputs)}: as drawn from {arguments.definition}\n")
        return 0
    mend = ["python", "-m", "loopmachine", "diagram", arguments.definition]
    mend += ["--format", arguments.format] if arguments.format else []
    mend += [word for output in outputs for word in ("--output", output)]
    sys.stderr.write(f"loopmachine: {'; '.join(found)}. Draw it again: {shlex.join(mend)}\n")
    return 1
