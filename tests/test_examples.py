"""Each example runs as it stands, in a process of its own, and prints what it promises."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def printed(name: str, folder: Path) -> list[str]:
    """The lines that an example prints when it runs in a folder, which is where it may write."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / name],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder), "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line for line in lines if len(line) > 120 and str(folder) not in line] == []
    return lines


def without_time(line: str) -> str:
    """A line of a trace without the seconds that it took."""
    return ", ".join(part for part in line.split(", ") if not part.startswith("seconds"))


def test_every_example_is_run_by_a_test() -> None:
    """These are all."""
    assert sorted(path.name for path in EXAMPLES.glob("*.py")) == [
        "embed.py",
        "mcp_tools.py",
        "own_guard.py",
        "prices.py",
        "subrun.py",
        "tickets.py",
    ]


def test_tickets(tmp_path: Path) -> None:
    """Every fixture is as expected, and the recordings beside the example are replayed."""
    lines = printed("tickets.py", tmp_path)
    assert (
        sum(line.endswith("  yes") for line in lines),
        sum(line.endswith("  NO") for line in lines),
        [line.split(":")[0] for line in lines if line.startswith("qwen")],
        lines[-2],
        list(tmp_path.iterdir()),
    ) == (
        12,
        0,
        [path.name for path in sorted((EXAMPLES / "recordings").glob("*.json"))],
        "the database counts 82 executions and 23 proposals; its tickets are unchanged",
        [],
    )


def test_prices(tmp_path: Path) -> None:
    """The trace shows text, calls, results, what stopped it, tools, failures and cost; text became a number."""
    lines = printed("prices.py", tmp_path)
    assert [without_time(line) for line in lines[:11]] == [
        "step 1  calls: I look up both papers.",
        "  price(isin='SE0000108656') -> ok: 118.4 SEK",
        "  price(isin='XX0000000000') -> failed: LookupError: no paper XX0000000000",
        "step 2  calls",
        "  convert(sek='118.4') -> unknown_tool: there is no tool named 'convert'; known tools: price, to_euros",
        "step 3  calls",
        '  to_euros(amount=\'118.4\', currency=\'SEK\') -> ok: {"amount":118.4,"currency":"SEK","euros":10.3}',
        "step 4  final: SE0000108656 is worth 10.30 euros; nobody knows XX0000000000.",
        "stop: answered",
        "tools: price, to_euros; failed: 2",
        "spent: steps 4 of 6, calls 4, cost_usd 0.00564 of 0.01, tokens 2580",
    ]


def test_embed(tmp_path: Path) -> None:
    """The second process runs the refund that was approved before it asks the model, and ends the run."""
    lines = printed("embed.py", tmp_path)
    assert [without_time(line) for line in lines] == [
        "[first process] asks the model, step 1",
        "[first process] runs find_order",
        "[first process] asks the model, step 2",
        "[first process] waits for approval of refund({'order': 'A-17', 'amount': 40}), and ends",
        "[second process] approves refund({'order': 'A-17', 'amount': 40})",
        "[second process] runs refund",
        "[second process] asks the model, step 3",
        "step 1  calls",
        '  find_order(customer=\'Ada\') -> ok: {"order":"A-17","customer":"Ada","paid":40.0}',
        "step 2  calls",
        "  refund(order='A-17', amount=40) -> ok: paid back 40.0 for A-17",
        "step 3  final: The 40 for A-17 are on their way to Ada.",
        "stop: answered",
        "tools: find_order, refund; failed: 0",
        "spent: steps 3 of 6, calls 2, cost_usd 0.0012, tokens 960",
    ]


def test_mcp_tools(tmp_path: Path) -> None:
    """The server's tool is not called with what does not fit, and its answer is the result."""
    lines = printed("mcp_tools.py", tmp_path)
    assert [without_time(line) for line in lines] == [
        "step 1  calls",
        "  orders_find_order(id=17) -> invalid_arguments: orders_find_order was not called; its arguments don't fit: "
        "- number:...",
        "step 2  calls",
        '  orders_find_order(number=\'17\') -> ok: { "number": 17, "customer": "Ada", "paid": 40.0 }',
        "step 3  final: It is Ada's.",
        "stop: answered",
        "tools: orders_find_order; failed: 1",
        "spent: steps 3 of 4, calls 2, cost_usd 0.0, tokens 0, 3 without cost, 3 without tokens",
    ]


def test_subrun(tmp_path: Path) -> None:
    """The assistant pays for both sub-runs, of which one answered and the other says why it did not."""
    lines = printed("subrun.py", tmp_path)
    ended = "research did not answer: it ended step_budget."
    assert [without_time(line) for line in lines] == [
        "step 1  calls",
        "  research(prompt='Find the paper of Ericsson') -> ok: It is SE0000108656.",
        "step 2  calls",
        f"  research(prompt='Find the paper of Saab') -> failed: {ended} finished_step_b...",
        f"step 3  final: It is SE0000108656. {ended}",
        "stop: answered",
        "tools: research; failed: 1",
        "spent: steps 3 of 6, calls 2, cost_usd 0.008 of 0.05, tokens 1060",
        "",
        "research cost 0.002 dollars and was ok:",
        "It is SE0000108656.",
        "",
        "research cost 0.003 dollars and was failed:",
        ended,
        "finished_step_budget, by checking_budget/5 [steps_spent] held: The model was asked max_steps times.",
        "its calls: find_paper failed, find_paper failed, find_paper failed",
    ]


def test_own_guard(tmp_path: Path) -> None:
    """In under 40 lines: the picture shows row and state, every promise holds, and the second mail ends a run."""
    picture, *lines = printed("own_guard.py", tmp_path)
    drawn = Path(picture).read_text("utf-8")
    assert (
        [lines[0], lines[1], lines[-1]],
        {word: word in drawn for word in ("mails_spent", "mail_limit", "call_limit")},
        len((EXAMPLES / "own_guard.py").read_text("utf-8").splitlines()) < 40,
    ) == (
        [
            "passed: every promise holds on every path that was explored (it was cut); "
            "finished_mail_limit was reached: True",
            "finished_mail_limit, by admitting/9 [mails_spent] held: With this turn's mails there are more than one.",
            "the last turn was calls, its stop reason ''; it called send_mail as 'm2'",
        ],
        {"mails_spent": True, "mail_limit": True, "call_limit": False},
        True,
    )


def test_own_guard_is_a_test_too(tmp_path: Path) -> None:
    """By its path, in a clone as it is: with this project's own settings of pytest."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--loop-cov",
        f"--basetemp={tmp_path}/base",
        "examples/own_guard.py",
    ]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=EXAMPLES.parent, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1].startswith("1 passed in ")) == (0, True), done.stdout


def test_own_guard_is_drawn_by_the_command_line_too(tmp_path: Path) -> None:
    """In its folder, as ``own_guard:MAIL_LOOP``, which is what its docstring verifies."""
    picture = tmp_path / "mail_loop.svg"
    command = [sys.executable, "-m", "loopmachine", "diagram", "own_guard:MAIL_LOOP", "--output", str(picture)]
    done = subprocess.run(command, cwd=EXAMPLES, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, check=False)
    assert (done.returncode, "mails_spent" in picture.read_text("utf-8")) == (0, True)


def test_an_example_that_fails_is_noticed(tmp_path: Path) -> None:
    """A file that is not there, and so cannot run, is no example."""
    with pytest.raises(AssertionError):
        printed("missing.py", tmp_path)
