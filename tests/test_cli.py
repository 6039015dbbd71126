"""The command line."""

from __future__ import annotations

import codecs
import importlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

from loopmachine import guards
from loopmachine.cli import INTERRUPTED, UNREAD, main
from loopmachine.definition import Definition, Row, State
from loopmachine.review.diagram import COMMITTED, picture
from loopmachine.table import TOOL_LOOP
from tests.test_promises import planted
from tests.test_review_lines import SMALL, Go

ROOT = Path(__file__).parent.parent
OWN = "tests.test_review_lines:SMALL"


def test_the_version_is_the_package_s(capsys: pytest.CaptureFixture[str]) -> None:
    """--version prints the version that is installed."""
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert (left.value.code, capsys.readouterr().out) == (0, f"loopmachine {version('loopmachine')}\n")


def test_the_package_is_a_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """python -m loopmachine runs the same command line, and leaves with its exit code."""
    monkeypatch.setattr(sys, "argv", ["loopmachine", "diagram", "--format", "table"])
    with pytest.raises(SystemExit) as left:
        # Not runpy: pytest's hook for the package of a plugin can't be asked for a module's code.
        importlib.import_module("loopmachine.__main__")
    assert (left.value.code, capsys.readouterr().out) == (0, picture(TOOL_LOOP, "table").decode())


@pytest.mark.parametrize("arguments", [[], ["draw"], ["diagram", "--format", "pdf"]])
def test_a_command_line_that_is_wrong_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown or missing command, or a format that there is not, is explained on standard error."""
    with pytest.raises(SystemExit) as left:
        main(arguments)
    told = capsys.readouterr()
    assert (left.value.code, told.out, told.err.startswith("usage: loopmachine")) == (2, "", True)


@pytest.mark.parametrize("name", ["", " \t"])
def test_a_tool_without_a_name_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is explored, with what it should be."""
    with pytest.raises(SystemExit) as left:
        main(["verify", "--tool", "mail", "--tool", name])
    told = capsys.readouterr()
    assert (left.value.code, told.out, told.err.splitlines()[-1]) == (
        2,
        "",
        f"loopmachine verify: error: argument --tool: it must be the name of a tool, not {name!r}",
    )


def test_a_row_that_small_worlds_do_not_reach_is_one_of_the_definition(capsys: pytest.CaptureFixture[str]) -> None:
    """Another is refused, and one of it is no longer expected."""
    assert main(["verify", "--out-of-reach", "nowhere/1"]) == 2
    said = "loopmachine: --out-of-reach: the definition has no row nowhere/1; a row is named state/number\n"
    assert capsys.readouterr().err == said
    main(["verify", "--minutes", "1e-9", "--out-of-reach", "dispatching/3", "--out-of-reach", "dispatching/4"])
    untaken = capsys.readouterr().out.partition("not taken before it was cut")[2].split()
    assert [f"dispatching/{number}" in untaken for number in (3, 4, 5)] == [False, False, True]


@pytest.mark.parametrize("minutes", ["0", "-1", "-0.0"])
def test_no_time_at_all_is_refused(minutes: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is explored, with what it should be."""
    with pytest.raises(SystemExit) as left:
        main(["verify", "--minutes", minutes])
    told = capsys.readouterr()
    assert (left.value.code, told.out, told.err.splitlines()[-1]) == (
        2,
        "",
        f"loopmachine verify: error: argument --minutes: it must be more than 0, not {minutes}",
    )


UNREACHED = TOOL_LOOP.with_state(State("finished_sold", "It is sold.", final="limit"))


def test_of_a_table_that_can_not_be_run_only_the_fault_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing of it is said to hold before."""
    assert main(["verify", f"{__name__}:UNREACHED"]) == 2
    fault = "loopmachine: the definition can't be run:\n- finished_sold: no row leads here yet\n"
    assert capsys.readouterr() == ("", fault)


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [([], "svg"), (["--format", "svg"], "svg"), (["--format", "dot"], "dot"), (["--format", "mermaid"], "mermaid")],
)
def test_a_diagram_goes_to_standard_output(arguments: list[str], kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --output the tool loop is printed, as svg if no format is asked for."""
    assert main(["diagram", *arguments]) == 0
    assert capsys.readouterr().out == picture(TOOL_LOOP, kind).decode()


def test_a_definition_of_one_s_own_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    """module:definition names what is drawn instead of the tool loop."""
    assert main(["diagram", OWN, "--format", "dot"]) == 0
    assert capsys.readouterr().out == picture(SMALL, "dot").decode()


def test_several_files_are_written_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--output may be given more than once; nothing is printed."""
    dot, svg = tmp_path / "loop.dot", tmp_path / "loop.svg"
    assert main(["diagram", OWN, "--output", str(dot), "--output", str(svg)]) == 0
    assert [dot.read_bytes(), svg.read_bytes()] == [picture(SMALL, "dot"), picture(SMALL, "svg")]
    assert capsys.readouterr() == ("", "")


def test_the_committed_diagram_is_checked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """--check finds the committed files to be those of the tool loop, and says so."""
    monkeypatch.chdir(ROOT)
    assert main(["diagram", "--check"]) == 0
    assert capsys.readouterr() == (f"{', '.join(COMMITTED)}: as drawn from loopmachine.table:TOOL_LOOP\n", "")


def test_a_diagram_that_drifted_is_named_with_the_command_that_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--check of files that show another machine ends with 1, names them, and its command mends them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a table").write_bytes(picture(TOOL_LOOP, "table"))
    asked = ["diagram", OWN, "--format", "table", "--output", "a table"]
    assert main([*asked, "--check"]) == 1
    assert capsys.readouterr() == (
        "",
        "loopmachine: a table is not what is drawn now. Draw it again: "
        f"python -m loopmachine diagram {OWN} --format table --output 'a table'\n",
    )
    assert (main(asked), main([*asked, "--check"])) == (0, 0)


def test_committed_files_that_are_missing_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--check where there are no diagrams names both, and the command that draws them."""
    monkeypatch.chdir(tmp_path)
    assert main(["diagram", "--check"]) == 1
    missing = "; ".join(f"{name} can't be read: No such file or directory" for name in COMMITTED)
    assert capsys.readouterr().err == (
        f"loopmachine: {missing}. Draw it again: python -m loopmachine diagram loopmachine.table:TOOL_LOOP "
        f"--output {COMMITTED[0]} --output {COMMITTED[1]}\n"
    )


def test_what_can_not_be_done_is_one_sentence_and_2(capsys: pytest.CaptureFixture[str]) -> None:
    """A definition that is not there is a sentence on standard error and exit code 2."""
    assert main(["diagram", "no_such_module:x"]) == 2
    assert capsys.readouterr() == (
        "",
        "loopmachine: no_such_module:x can't be loaded: ModuleNotFoundError: No module named 'no_such_module'\n",
    )


@pytest.fixture
def leaving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where a definition is that can't be had: its module leaves when it is imported."""
    (tmp_path / "leaving.py").write_text("raise SystemExit(0)\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)  # where a command looks for modules
    monkeypatch.setattr(sys, "path", [*sys.path])  # the command puts that folder there, which is to end with the test
    return "leaving:LOOP"


LEFT = "leaving:LOOP can't be loaded: SystemExit: 0"


@pytest.mark.parametrize("command", [["diagram"], ["diagram", "--check"], ["verify"]], ids=" ".join)
def test_a_module_that_leaves_on_import_does_not_end_a_command_as_done(
    leaving: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """It is a definition that can't be loaded, as one that raises anything else."""
    assert main([*command, leaving]) == 2
    assert capsys.readouterr() == ("", f"loopmachine: {LEFT}\n")


def test_a_module_that_leaves_on_import_does_not_end_the_tests_as_passed(leaving: str) -> None:
    """--loop-cov refuses it before any test."""
    command = [sys.executable, "-m", "pytest", f"--loop-cov={leaving}"]
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr.startswith(f"ERROR: --loop-cov: {LEFT};")) == (4, True)


# --- an encoding that lacks what is printed -------------------------------------------------------------------

WAITS = State("grün", "Gehe.", lambda snapshot: ())
#: Names of a state and of a definition that not every encoding has.
NAMES = SimpleNamespace(grün=Definition("grün", {WAITS: [Row(Go, "ende")], State("ende", "Halt.", final="fault"): []}))


def written(errors: str, command: list[str]) -> bytes:
    """What a command prints where only ASCII can be, and what can't be encoded is dealt with so."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors=errors)
    with redirect_stdout(out):
        assert main(command) == 0
    return out.buffer.getvalue()


@pytest.mark.parametrize("command", [["diagram", "--format", "table"], ["verify"]], ids=" ".join)
def test_what_the_encoding_lacks_is_printed_as_escapes(command: list[str]) -> None:
    """Whether it would raise or is only for names of files; what somebody chose instead is left to them."""
    told = {
        errors: written(errors, [*command, f"{__name__}:NAMES.grün"])
        for errors in ("strict", "surrogateescape", "backslashreplace", "replace")
    }
    said = [rb"gr\xfcn" in text for text in told.values()]
    assert (said, b"gr?n" in told["replace"]) == ([True, True, True, False], True)


def test_a_stream_of_another_kind_is_printed_to() -> None:
    """As it is: one that encodes nothing, and one that encodes and can't be told how."""
    drawn, text, data = picture(SMALL, "table"), io.StringIO(), io.BytesIO()
    streams: list[Any] = [text, codecs.getwriter("utf-8")(data)]
    for out in streams:
        with redirect_stdout(out):
            assert main(["diagram", OWN, "--format", "table"]) == 0
    assert (text.getvalue(), data.getvalue()) == (drawn.decode(), drawn)


# --- Ctrl-C -------------------------------------------------------------------------------------------------


def stopped(snapshot: Any, event: Any) -> bool:
    """The steps are spent; and somebody presses Ctrl-C in a world of repairs."""
    if snapshot.policy.repairs:
        raise KeyboardInterrupt
    return guards.steps_spent(snapshot, event)


def stopped_at_once(snapshot: Any, event: Any) -> bool:
    """Somebody presses Ctrl-C."""
    raise KeyboardInterrupt


STOPPED, STOPPED_AT_ONCE = (planted("checking_budget/5", guard=one) for one in (stopped, stopped_at_once))


def test_a_verification_that_is_interrupted_prints_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    """As one that was cut, of the configurations that were explored by then; with a shell's exit code for it."""
    assert main(["verify", f"{__name__}:STOPPED"]) == INTERRUPTED
    told = capsys.readouterr()
    explored = told.out.partition("\n\n")[0].splitlines()[4:]
    assert [line.partition(" s  ")[2].partition(";")[0] for line in explored[:2]] == [
        "the defaults",
        "1 configurations, not all to their end",
    ]
    assert (told.out.splitlines()[-1], told.err) == (
        "passed: every promise holds on every path that was explored (it was cut)",
        "",
    )


def test_a_verification_that_is_interrupted_at_once_found_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """And says so."""
    assert main(["verify", f"{__name__}:STOPPED_AT_ONCE"]) == INTERRUPTED
    told = capsys.readouterr()
    assert (told.out.splitlines()[-1], told.err) == ("FAILED: nothing was explored", "")


class Slow:
    """Where a definition is that somebody does not wait for."""

    @property
    def loop(self) -> Definition:
        raise KeyboardInterrupt


SLOW = Slow()


def test_any_command_that_is_interrupted_ends_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    """While a definition is loaded, say."""
    assert main(["diagram", f"{__name__}:SLOW.loop"]) == INTERRUPTED
    assert capsys.readouterr() == ("", "")


# --- a closed pipe ------------------------------------------------------------------------------------------

#: Every command that prints, and the help.
PRINTING = [
    ["--help"],
    ["--version"],
    ["diagram"],
    ["diagram", OWN, "--format", "table"],
    ["diagram", "--check"],
    ["verify", OWN],
    ["demo"],
    ["demo", "--help"],
    ["demo", "--base-url", "http://127.0.0.1:9", "--model", "m1"],
]


@pytest.fixture
def unread() -> Iterator[IO[str]]:
    """A stream into a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", encoding="utf-8") as stream:
        yield stream


@pytest.mark.parametrize("command", PRINTING, ids=" ".join)
def test_a_command_whose_output_nobody_reads_ends_in_silence(
    command: list[str], unread: IO[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the exit code of a command that a closed pipe ended, and nothing on standard error."""
    monkeypatch.chdir(ROOT)  # where diagram --check finds the picture
    monkeypatch.setattr(sys, "stdout", unread)  # a real pipe, whose other end is closed
    assert (main(command), capsys.readouterr().err) == (UNREAD, "")


@pytest.mark.parametrize("command", [["diagram", "no_such_module:x"], ["draw"]], ids=" ".join)
def test_a_command_whose_errors_nobody_reads_ends_in_silence(
    command: list[str], unread: IO[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As one whose output nobody reads."""
    monkeypatch.setattr(sys, "stderr", unread)  # the same pipe
    assert (main(command), capsys.readouterr().out) == (UNREAD, "")


@pytest.mark.parametrize("command", [["--version"], ["diagram"], ["verify", OWN], ["demo"]], ids=" ".join)
@pytest.mark.parametrize("both", [False, True], ids=["output", "output and errors"])
def test_python_ends_in_silence_behind_a_closed_pipe(command: list[str], both: bool, unread: IO[str]) -> None:
    """It finds nothing left that it could not print."""
    ran = subprocess.run(
        [sys.executable, "-m", "loopmachine", *command],
        check=False,
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        stdout=unread,
        stderr=unread if both else subprocess.PIPE,
        text=True,
        timeout=120,
    )
    assert (ran.returncode, ran.stderr or "") == (UNREAD, "")


def test_a_process_without_standard_error_can_run_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python gives it none where its parent closed it."""
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["diagram", OWN, "--format", "dot"]) == 0
    assert capsys.readouterr().out == picture(SMALL, "dot").decode()
