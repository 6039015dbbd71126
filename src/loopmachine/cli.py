"""The command line: ``loopmachine`` or ``python -m loopmachine``."""

from __future__ import annotations

import argparse
import io
import math
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any
from typing import Final as Constant

from loopmachine.errors import LoopError

UNREAD: Constant = 141  #: what shells say of a command that a closed pipe ended
INTERRUPTED: Constant = 130  #: and of one that Ctrl-C ended


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit code: 0, 1 where it found something wrong or a model failed, 2 where it can't be done.

    141 where it was stopped because nobody reads what it prints, as behind ``| head``; 130 by Ctrl-C.
    """
    try:
        try:
            return _run(argv)
        finally:
            _flush()
    except BrokenPipeError:
        return UNREAD
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(argv: Sequence[str] | None) -> int:
    _escape()
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.command(arguments))
    except LoopError as error:
        sys.stderr.write(f"loopmachine: {error}\n")
        return 2


def _escape() -> None:
    """Have what standard output can't encode printed as escapes where it would raise. Standard error does so itself."""
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper) and out.errors in ("strict", "surrogateescape"):
        out.reconfigure(errors="backslashreplace")


def _flush() -> None:
    """Print what is left. Where nobody reads it, it goes nowhere, so that Python ends in silence: BrokenPipeError."""
    unread = None
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None where a process has none
        try:
            stream.flush()
        except BrokenPipeError as error:
            unread = error
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())
    if unread is not None:
        raise unread


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="loopmachine", description="The tool-calling loop as a state machine.")
    parser.add_argument("--version", action="version", version=f"loopmachine {version('loopmachine')}")
    commands = parser.add_subparsers(required=True, metavar="command")
    _add_diagram(commands)
    _add_verify(commands)
    _add_demo(commands)
    return parser


def _add_definition(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "definition",
        nargs="?",
        default="loopmachine.table:TOOL_LOOP",
        metavar="module:definition",
        help="the machine, %(default)s if none is named",
    )


def _add_diagram(commands: Any) -> None:
    diagram = commands.add_parser("diagram", help="draw a machine, or check that files show it")
    _add_definition(diagram)
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


def _add_verify(commands: Any) -> None:
    verify = commands.add_parser("verify", help="check a machine's table, and its promises on every path")
    _add_definition(verify)
    verify.add_argument(
        "--full", action="store_true", help="every combination of budget and policy, not every two values: takes days"
    )
    verify.add_argument("--minutes", type=_minutes, metavar="N", help="stop after so long, whatever is left to explore")
    verify.add_argument(
        "--tool",
        action="append",
        type=_tool,
        default=[],
        metavar="NAME",
        help="a tool that your own guards speak of by name; may be given more than once",
    )
    verify.add_argument(
        "--out-of-reach",
        action="append",
        default=[],
        metavar="ROW",
        help="a row, as state/number, that needs more steps or calls than small worlds have; may be repeated",
    )
    verify.set_defaults(command=_verify)


def _add_demo(commands: Any) -> None:
    demo = commands.add_parser(
        "demo", help="run the loop on tickets: with a scripted model and replies of real ones, or with a server's"
    )
    demo.add_argument(
        "--recordings",
        type=Path,
        metavar="DIR",
        help="a folder of recorded runs to replay, instead of those that came along",
    )
    live = demo.add_argument_group("a server's model", "llama.cpp, Ollama, vLLM, a provider: what speaks the shape")
    live.add_argument("--base-url", metavar="URL", help="where the server listens, such as http://127.0.0.1:8080")
    live.add_argument("--model", metavar="NAME", help="what the server calls the model")
    live.add_argument(
        "--wire",
        choices=("openai-chat", "openai-responses", "anthropic", "gemini"),
        help="the shape that it speaks, openai-chat if none is named",
    )
    live.add_argument("--stream", action="store_true", help="have the replies streamed")
    live.add_argument(
        "--api-key-env",
        metavar="NAME",
        help="the environment variable that holds the key, instead of OPENAI_API_KEY, ANTHROPIC_API_KEY or "
        "GEMINI_API_KEY; local servers need none",
    )
    demo.set_defaults(command=_demo)


def _demo(arguments: argparse.Namespace) -> int:
    url, model, wire = arguments.base_url, arguments.model, arguments.wire
    if not arguments.stream and all(one is None for one in (url, model, wire, arguments.api_key_env)):
        from loopmachine.demo import main as demo

        return demo(arguments.recordings)
    if not (url and model and model.strip()) or arguments.recordings:
        raise LoopError("demo with a server's model needs both --base-url and --model, and no --recordings")
    from loopmachine import demo_live

    return demo_live.main(demo_live.Server(url, model, wire or "openai-chat", arguments.stream, arguments.api_key_env))


def _verify(arguments: argparse.Namespace) -> int:
    from loopmachine.review import diagram, printing
    from loopmachine.review.explore import Walk
    from loopmachine.review.verify import verify

    def say(text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    definition = diagram.load(arguments.definition)
    say(printing.heading(arguments.definition, definition))
    asked = {"tools": arguments.tool, "out_of_reach": arguments.out_of_reach}
    try:
        until_now = verify(definition, seconds=0.0, **asked)  # the report of one that was cut, with nothing in it yet
    except ValueError as error:
        raise LoopError(f"--out-of-reach: {error}") from error

    def each(chosen: Mapping[str, Any], walk: Walk, seconds: float) -> None:
        until_now.add(chosen, walk)
        until_now.seconds += seconds
        say(printing.line(chosen, walk, seconds))

    bound = None if arguments.minutes is None else 60 * arguments.minutes
    try:
        report = verify(definition, full=arguments.full, seconds=bound, each=each, **asked)
    except KeyboardInterrupt:
        say(printing.summary(arguments.definition, until_now))
        raise
    say(printing.summary(arguments.definition, report))
    return 0 if report.passed else 1


def _minutes(text: str) -> float:
    """A number of minutes. Raises ValueError for none that a clock can reach, ArgumentTypeError for no time at all."""
    minutes = float(text)
    if not math.isfinite(minutes):
        raise ValueError
    if minutes <= 0:
        raise argparse.ArgumentTypeError(f"it must be more than 0, not {text}")
    return minutes


_minutes.__name__ = "number of minutes"  # as argparse says it


def _tool(text: str) -> str:
    """The name of a tool. Raises ArgumentTypeError for a blank one, which no guard can speak of."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"it must be the name of a tool, not {text!r}")
    return text


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
