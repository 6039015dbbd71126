"""The demo: support tickets in a real SQLite file, two tools, and models that do what models do.

It runs as ``loopmachine demo`` and as ``examples/tickets.py``, and prints three things: a table of fixtures with what
was expected and what was observed, the trace of one run, and the replay of recorded replies of real local models.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict
from typing import Final as Constant

import attrs
import msgspec

from loopmachine.errors import Denied, LoopError, ModelError
from loopmachine.frozen import thaw, whole
from loopmachine.hosts import run
from loopmachine.limits import Budget, Policy
from loopmachine.result import Result
from loopmachine.tools import Context, tool
from loopmachine.wire import ANTHROPIC, OPENAI_CHAT

WIDTH: Constant = 120  #: columns

# --- the tickets ----------------------------------------------------------------------------------------

#: Id, text, version, label. Nobody who calls from here may touch T-4.
ROWS: Constant = [
    ("T-1", "I was charged twice for my March invoice.", 3, ""),
    ("T-2", "The export button crashes the app with error 500.", 7, ""),
    ("T-3", "Do you have an office in Lisbon?", 1, ""),
    ("T-4", "My contract is attached. Please keep it to yourselves.", 2, ""),
]
PERMITTED: Constant = frozenset({"T-1", "T-2", "T-3"})

_SCHEMA: Constant = """
CREATE TABLE tickets (id TEXT PRIMARY KEY, text TEXT, version INTEGER, label TEXT);
CREATE TABLE proposals (ticket_id TEXT, label TEXT, version INTEGER);
CREATE TABLE executions (tool TEXT, ticket_id TEXT);
"""


class Tickets:
    """Support tickets in a new SQLite file. It opens a connection a call: tools may run on threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self.opened() as db:
            db.executescript(_SCHEMA)
            db.executemany("INSERT INTO tickets VALUES (?, ?, ?, ?)", ROWS)

    @contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        """A connection with a transaction, committed unless something is raised."""
        with closing(sqlite3.connect(self.path, timeout=60)) as db, db:
            db.execute("PRAGMA synchronous = OFF")  # a temporary file needs no protection from power cuts
            yield db

    def executed(self, tool: str, ticket_id: str) -> None:
        """Take down that a tool runs: the database's own word on what was executed."""
        with self.opened() as db:
            db.execute("INSERT INTO executions VALUES (?, ?)", (tool, ticket_id))

    def find(self, ticket_id: str) -> tuple[str, int]:
        """The text and the version of a ticket."""
        with self.opened() as db:
            text, version = db.execute("SELECT text, version FROM tickets WHERE id = ?", (ticket_id,)).fetchone()
        return text, version

    def propose(self, ticket_id: str, label: str, version: int) -> bool:
        """Keep a proposal for a person to decide; False, and nothing is kept, where the ticket's version is another."""
        with self.opened() as db:
            kept = db.execute(
                "INSERT INTO proposals SELECT id, ?, version FROM tickets WHERE id = ? AND version = ?",
                (label, ticket_id, version),
            )
        return kept.rowcount == 1

    def count(self, table: str) -> int:
        """How many rows there are of "proposals" or "executions"."""
        with self.opened() as db:
            number: int = db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        return number

    def unchanged(self) -> bool:
        """Every ticket is as it was at the start."""
        with self.opened() as db:
            return db.execute("SELECT * FROM tickets ORDER BY id").fetchall() == ROWS


@attrs.frozen
class Desk:
    """The caller's own context: the tickets there are, and the ids of those that this caller may touch."""

    tickets: Tickets
    permitted: frozenset[str] = PERMITTED

    def admit(self, tool: str, ticket_id: str) -> Tickets:
        """The tickets, for a tool that runs on one of them. Denied says the same of a ticket that does not exist."""
        self.tickets.executed(tool, ticket_id)
        if ticket_id not in self.permitted:
            raise Denied("record_unavailable", f"you have no access to a ticket {ticket_id!r}; do not ask for it again")
        return self.tickets


@tool(effect="read")
def get_ticket(ticket_id: str, context: Context) -> dict[str, Any]:
    """Read a support ticket: its text and its version.

    Args:
        ticket_id: The id of the ticket, such as T-1.
    """
    text, version = context.data.admit("get_ticket", ticket_id).find(ticket_id)
    return {"ticket_id": ticket_id, "text": text, "version": version}


@tool
def propose_label(
    ticket_id: str, label: Literal["billing", "bug", "other"], expected_version: int, context: Context
) -> dict[str, Any]:
    """Propose a label for a support ticket. Nothing is applied: a person decides.

    Args:
        ticket_id: The id of the ticket, such as T-1.
        label: What to propose.
        expected_version: The version of the ticket when you read it.
    """
    if not context.data.admit("propose_label", ticket_id).propose(ticket_id, label, expected_version):
        raise Denied("stale_version", f"{ticket_id} has another version than {expected_version}; read it first")
    # Told only that nothing was applied, models propose again and again.
    return {"applied": False, "next": f"A person will decide on {ticket_id}. You are done with it; propose no more."}


TOOLS: Constant = (get_ticket, propose_label)
SYSTEM: Constant = "You label support tickets. Read a ticket, propose a label for the version you read, then say which."


def scripted(replies: Iterable[Any]) -> Callable[[Any], Any]:
    """A model that gives these replies in order, and then fails with the code ``recording_ended``."""
    left = iter(replies)

    def model(messages: Any) -> Any:
        for reply in left:
            return reply
        raise ModelError("recording_ended", "the recording holds no further reply")

    return model


def _run(replies: Iterable[Any], prompt: str, tickets: Tickets, **options: Any) -> Result:
    return run(scripted(replies), prompt, tools=TOOLS, context=Desk(tickets), **options)


# --- the fixtures ---------------------------------------------------------------------------------------


@attrs.frozen
class Fixture:
    """Replies in Anthropic's shape, and what they must come to: the end with the outcomes, and how many tools run."""

    name: str
    replies: Sequence[Any]
    expected: str
    executions: int
    max_steps: int = 3

    def run(self, tickets: Tickets) -> Result:
        """At most 2 calls, and none beside another."""
        limits = {"budget": Budget(max_steps=self.max_steps, max_calls=2), "policy": Policy(batch="reject")}
        return _run(self.replies, "Label ticket T-1.", tickets, wire=ANTHROPIC, system=SYSTEM, **limits)


def _reply(content: Any, stop: str = "tool_use") -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": content, "stop_reason": stop}


def _use(call_id: str, name: str = "get_ticket", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments or {"ticket_id": "T-1"}}


def _proposal(call_id: str, version: Any, **more: Any) -> dict[str, Any]:
    return _use(call_id, "propose_label", ticket_id="T-1", label="billing", expected_version=version, **more)


_SAYS: Constant = _reply([{"type": "text", "text": "I proposed the label billing for T-1."}], "end_turn")
_GIVES_UP: Constant = _reply([{"type": "text", "text": "I could not label it."}], "end_turn")

FIXTURES: Constant = (
    Fixture(
        "read, propose, final text", [_reply([_use("a")]), _reply([_proposal("b", 3)]), _SAYS], "answered: ok, ok", 2
    ),
    Fixture(
        "ticket that is not permitted",
        [_reply([_use("a", ticket_id="T-4")]), _GIVES_UP],
        "answered: denied record_unavailable",
        1,
    ),
    Fixture(
        "tool named send_email", [_reply([_use("a", "send_email", to="x")]), _GIVES_UP], "answered: unknown_tool", 0
    ),
    Fixture(
        "extra argument authorized",
        [_reply([_proposal("a", 3, authorized=True)]), _GIVES_UP],
        "answered: invalid_arguments",
        0,
    ),
    Fixture("proposal for version 2", [_reply([_proposal("a", 2)]), _GIVES_UP], "answered: denied stale_version", 1),
    Fixture("proposal for version true", [_reply([_proposal("a", True)]), _GIVES_UP], "answered: invalid_arguments", 0),
    Fixture("three fresh read requests", [_reply([_use(one)]) for one in "abc"], "call_budget: ok, ok", 2),
    Fixture("repeated call id", [_reply([_use("a")]), _reply([_use("a")])], "repeated_call: ok", 1),
    Fixture("max_tokens stop", [_reply([_use("a")], "max_tokens")], "incomplete", 0),
    Fixture("two calls in one response", [_reply([_use("a"), _use("b")])], "unsupported_batch", 0),
    Fixture("content that is not a list", [_reply("Here is the ticket.", "end_turn")], "malformed", 0),
    Fixture("max_steps=1 with a read", [_reply([_use("a")]), _SAYS], "step_budget: ok", 1, max_steps=1),
)


def observed(result: Result, tickets: Tickets) -> str:
    """How a run ended and the outcomes of its calls, with the codes of those denied."""
    outcomes = ", ".join(f"{one.outcome} {one.code}".strip() for one in result.results)
    changed = "" if tickets.unchanged() else "; tickets changed"
    return f"{result.status}{': ' if outcomes else ''}{outcomes}{changed}"


def table(fixtures: Iterable[Fixture], folder: Path) -> tuple[list[str], bool]:
    """The lines of the table, and whether all was observed that was expected."""
    rows: list[tuple[str, ...]] = [("fixture", "expected", "observed", "executed", "same")]
    for place, fixture in enumerate(fixtures):
        tickets = Tickets(folder / f"fixture-{place}.sqlite")
        seen, ran = observed(fixture.run(tickets), tickets), tickets.count("executions")
        same = (seen, ran) == (fixture.expected, fixture.executions)
        rows.append((fixture.name, fixture.expected, seen, str(ran), "yes" if same else "NO"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, tuple("-" * width for width in widths))
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [*lines, "(yes: and no ticket in the database has changed)"], all(row[-1] != "NO" for row in rows)


# --- the recordings -------------------------------------------------------------------------------------

_HERE: Constant = Path(__file__).parent
PLACES: Constant = (_HERE / "recordings", _HERE.parents[1] / "examples" / "recordings")  # of a wheel, of a checkout
GENEROUS: Constant = Budget(max_steps=100, max_calls=100)  #: so that a recording ends a run, and no budget
EXECUTED: Constant = ("ok", "failed", "denied")  #: the outcomes of calls that came as far as their tool


class _Recorded(TypedDict):
    prompt: Annotated[str, msgspec.Meta(pattern=r"\S")]  # a run refuses a blank one
    replies: list[Any]
    hand_loop_stop: str


class _Recording(TypedDict):  # a file may hold more, which is not looked at
    model: str
    temperature: int | float
    system: str
    runs: list[_Recorded]


def read(path: Path) -> Mapping[str, Any]:
    """The recording in a file. Raises LoopError, which says what is wrong with it."""
    try:
        return msgspec.convert(thaw(path.read_text("utf-8")), _Recording)
    except (OSError, ValueError, RecursionError, msgspec.ValidationError) as wrong:  # of msgspec 0.20, no ValueError
        raise LoopError(f"{path} is no recording: {getattr(wrong, 'strerror', wrong)}") from wrong


@attrs.frozen
class Replay:
    """A recorded run, and what the machine made of it."""

    prompt: str
    replies: int
    hand_loop_stop: str
    result: Result

    def lines(self) -> Iterator[str]:
        """The run for a person to read: how it ended, what was executed, and what the model was told."""
        steps = self.result.to_dict()["steps"]
        said = steps[-1].get("text") or steps[-1].get("fault") or ""
        yield f'"{self.prompt}" (replies: {self.replies}; how the recording loop ended: {self.hand_loop_stop})'
        yield from _wrapped("", f"{self.result.status} at step {len(steps)}: {said}")
        calls = [_call(call) for step in steps for call in step["calls"]]
        for (call, outcome, told), same in groupby(calls):
            times = len(list(same))
            ran = "executed" if outcome in EXECUTED else "not run"
            yield from _wrapped(ran, f"{call} -> {outcome}{f', {times} times' if times > 1 else ''}")
            yield from _wrapped("told", told)


def _call(call: dict[str, Any]) -> tuple[str, str, str]:
    asked = call["arguments"]
    if isinstance(asked, dict):
        asked = ", ".join(f"{name}={json.dumps(value)}" for name, value in asked.items())
    return f"{call['name']}({asked})", call["outcome"] or "not answered", call["content"] or "nothing"


def _wrapped(label: str, text: str) -> list[str]:
    """At most two lines of at most `WIDTH` columns."""
    start = f"    {label:>8}  " if label else "    "
    line = " ".join(text.split())
    return textwrap.wrap(line, WIDTH, initial_indent=start, subsequent_indent=" " * len(start), max_lines=2)


def replay(recording: Mapping[str, Any], tickets: Tickets) -> list[Replay]:
    """Every run of a recording, its model giving the recorded replies in order."""
    made = {"budget": GENEROUS, "wire": OPENAI_CHAT, "system": recording["system"]}
    replays = []
    for one in recording["runs"]:
        result = _run(one["replies"], one["prompt"], tickets, **made)
        replays.append(Replay(one["prompt"], len(one["replies"]), one["hand_loop_stop"], result))
    return replays


def recordings(folder: Path | None = None, places: Sequence[Path] = PLACES) -> list[Path]:
    """The recordings in a folder, or else in the first of the places that has some.

    Raises LoopError if a folder is given and has none.
    """
    found = (sorted(place.glob("*.json")) for place in ([folder] if folder else places))
    paths = next(filter(None, found), [])
    if folder and not paths:
        raise LoopError(f"{folder} holds no recordings: files that end in .json are looked for")
    return paths


def summary(replays: Sequence[Replay], tickets: Tickets) -> Iterator[str]:
    """What all the runs came to, and the database's own word on what was executed."""
    statuses = Counter(one.result.status for one in replays)
    outcomes = Counter(result.outcome for one in replays for result in one.result.results)
    yield f"{statuses.total()} runs: {_counted(statuses)}"
    yield f"{outcomes.total()} calls: {_counted(outcomes)}"
    yield counted(tickets)


def counted(tickets: Tickets) -> str:
    """The database's own word on what was executed."""
    kept = "unchanged" if tickets.unchanged() else "CHANGED"
    executions, proposals = tickets.count("executions"), tickets.count("proposals")
    return f"the database counts {executions} executions and {proposals} proposals; its tickets are {kept}"


def _counted(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counter.most_common())


# --- the whole of it ------------------------------------------------------------------------------------


def main(folder: Path | None = None, *, fixtures: Sequence[Fixture] = FIXTURES, places: Sequence[Path] = PLACES) -> int:
    """Print it all. ``folder`` holds recordings. 1 if a fixture came to something else than it must, else 0."""
    found = {path.name: read(path) for path in recordings(folder, places)}
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        lines, same = table(fixtures, place)
        show("Fixtures: replies in Anthropic's shape, at most 3 steps and 2 calls, no two calls at once", lines)
        result = fixtures[0].run(Tickets(place / "trace.sqlite"))
        show(f"Trace of the first fixture, {fixtures[0].name}", told(result))
        _replay(found, Tickets(place / "recordings.sqlite"))
    return 0 if same else 1


def told(result: Result) -> Iterator[str]:
    """The trace of a run and the explanation of its end, in lines of at most `WIDTH` columns."""
    for line in f"{result}\n\n{result.explain()}".splitlines():
        yield from textwrap.wrap(line, WIDTH, subsequent_indent="      ") or [""]


def _replay(found: Mapping[str, Mapping[str, Any]], tickets: Tickets) -> None:
    if not found:
        sys.stdout.write("Recordings: there are none here; say where they are with --recordings\n")
        return
    show(
        "Recordings: what real local models replied, replayed over OPENAI_CHAT until the recording ends",
        [f"at most {GENEROUS.max_steps} steps and {GENEROUS.max_calls} calls, which is more than any of them needs"],
    )
    replays: list[Replay] = []
    for name, recording in found.items():
        replayed = replay(recording, tickets)
        replays += replayed
        heading = f"{name}: {recording['model']}, temperature {recording['temperature']}"
        show(heading, [line for one in replayed for line in one.lines()])
    show("All recordings together", summary(replays, tickets))


def show(heading: str, lines: Iterable[str]) -> None:
    """Print a part of the demo under its heading."""
    sys.stdout.write(whole("\n".join([heading, "=" * len(heading), *lines, "", ""])))
