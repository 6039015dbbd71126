"""The demo: tickets in a real database, the fixtures, and the replies of real models."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pytest

from loopmachine import cli
from loopmachine.demo import (
    EXECUTED,
    FIXTURES,
    PERMITTED,
    PLACES,
    Desk,
    Fixture,
    Tickets,
    get_ticket,
    main,
    observed,
    propose_label,
    read,
    recordings,
    replay,
    scripted,
    summary,
    table,
    told,
)
from loopmachine.errors import Denied, LoopError, ModelError
from loopmachine.tools import Context

RECORDINGS = sorted((Path(__file__).parents[1] / "examples" / "recordings").glob("*.json"))


@pytest.fixture
def tickets(tmp_path: Path) -> Tickets:
    return Tickets(tmp_path / "tickets.sqlite")


def recorded(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def relabel(tickets: Tickets) -> None:
    with tickets.opened() as db:
        db.execute("UPDATE tickets SET label = 'bug' WHERE id = 'T-3'")


# --- the tickets and the tools ------------------------------------------------------------------------------


def test_a_ticket_is_read_with_its_version(tickets: Tickets) -> None:
    """What the tool gives is what the database holds, and the database took down that it ran."""
    read = get_ticket("T-2", context=Context(Desk(tickets)))
    assert (read, tickets.count("executions")) == (
        {"ticket_id": "T-2", "text": "The export button crashes the app with error 500.", "version": 7},
        1,
    )


@pytest.mark.parametrize("ticket_id", ["T-4", "T-9"])
@pytest.mark.parametrize("act", [get_ticket, lambda *args, context: propose_label(*args, "bug", 2, context=context)])
def test_a_ticket_that_is_not_the_callers_is_denied(act: Any, ticket_id: str, tickets: Tickets) -> None:
    """One that others may touch and one that does not exist are denied in the same words, and nothing is kept."""
    with pytest.raises(Denied) as denied:
        act(ticket_id, context=Context(Desk(tickets)))
    assert (str(denied.value), tickets.count("executions"), tickets.count("proposals")) == (
        f"record_unavailable: you have no access to a ticket '{ticket_id}'; do not ask for it again",
        1,
        0,
    )


def test_the_permitted_tickets_are_the_callers_own(tickets: Tickets) -> None:
    """The same arguments bring the ticket to a caller who may touch it."""
    read = get_ticket("T-4", context=Context(Desk(tickets, PERMITTED | {"T-4"})))
    assert read["version"] == 2


def test_a_proposal_applies_nothing(tickets: Tickets) -> None:
    """A proposal for the version that there is is kept for a person, and the ticket stays as it was."""
    told = propose_label("T-1", "billing", 3, context=Context(Desk(tickets)))
    assert (told, tickets.count("proposals"), tickets.unchanged()) == (
        {"applied": False, "next": "A person will decide on T-1. You are done with it; propose no more."},
        1,
        True,
    )


@pytest.mark.parametrize("version", [2, 4])
def test_a_proposal_for_another_version_is_denied(version: int, tickets: Tickets) -> None:
    """One below and one above the version that there is are stale, and nothing is kept."""
    with pytest.raises(Denied) as denied:
        propose_label("T-1", "billing", version, context=Context(Desk(tickets)))
    assert (denied.value.code, tickets.count("proposals")) == ("stale_version", 0)


def test_a_ticket_that_changed_is_seen(tickets: Tickets) -> None:
    """A label that somebody applied is observed, and the summary says so."""
    result = FIXTURES[-1].run(tickets)
    relabel(tickets)
    assert (observed(result, tickets), list(summary([], tickets))[-1]) == (
        "step_budget: ok; tickets changed",
        "the database counts 1 executions and 0 proposals; its tickets are CHANGED",
    )


def test_a_script_gives_its_replies_and_fails() -> None:
    """The replies come in order, and then every time the same error, which is not to be tried again."""
    model = scripted([1, 2])
    assert [model([]), model([])] == [1, 2]
    for _ in range(2):
        with pytest.raises(ModelError) as ended:
            model([])
        assert (ended.value.code, ended.value.retryable) == ("recording_ended", False)


# --- the fixtures -------------------------------------------------------------------------------------------

#: Of each fixture: how it ends, the outcomes with their codes, and how many tools run.
MUST = {
    "read, propose, final text": ("answered", [("ok", ""), ("ok", "")], 2),
    "ticket that is not permitted": ("answered", [("denied", "record_unavailable")], 1),
    "tool named send_email": ("answered", [("unknown_tool", "")], 0),
    "extra argument authorized": ("answered", [("invalid_arguments", "")], 0),
    "proposal for version 2": ("answered", [("denied", "stale_version")], 1),
    "proposal for version true": ("answered", [("invalid_arguments", "")], 0),
    "three fresh read requests": ("call_budget", [("ok", ""), ("ok", "")], 2),
    "repeated call id": ("repeated_call", [("ok", "")], 1),
    "max_tokens stop": ("incomplete", [], 0),
    "two calls in one response": ("unsupported_batch", [], 0),
    "content that is not a list": ("malformed", [], 0),
    "max_steps=1 with a read": ("step_budget", [("ok", "")], 1),
}


def test_every_fixture_comes_to_what_it_must(tmp_path: Path) -> None:
    """Status, outcomes, codes and what the database counted are those asked for, and no ticket is changed."""
    seen = {}
    for fixture in FIXTURES:
        tickets = Tickets(tmp_path / f"{fixture.name}.sqlite")
        result = fixture.run(tickets)
        outcomes = [(one.outcome, one.code) for one in result.results]
        seen[fixture.name] = (result.status, outcomes, tickets.count("executions")) if tickets.unchanged() else None
    assert seen == MUST


def test_the_only_read_of_a_run_is_in_its_history(tickets: Tickets) -> None:
    """Where the one step is spent on a read, its result is kept with the call."""
    assert list(FIXTURES[-1].run(tickets).history) == [
        {"kind": "user", "text": "Label ticket T-1."},
        {"kind": "call", "id": "a", "name": "get_ticket", "arguments": {"ticket_id": "T-1"}},
        {
            "kind": "tool_result",
            "id": "a",
            "content": '{"ticket_id":"T-1","text":"I was charged twice for my March invoice.","version":3}',
            "outcome": "ok",
        },
    ]


def test_the_table_shows_what_was_expected_and_observed(tmp_path: Path) -> None:
    """A line a fixture under its heading, and all of it as expected."""
    lines, same = table(FIXTURES[5:6], tmp_path)
    assert (lines, same) == (
        [
            "fixture                    expected                     observed                     executed  same",
            "-------------------------  ---------------------------  ---------------------------  --------  ----",
            "proposal for version true  answered: invalid_arguments  answered: invalid_arguments  0         yes",
            "(yes: and no ticket in the database has changed)",
        ],
        True,
    )


@pytest.mark.parametrize("change", [{"expected": "answered: ok"}, {"executions": 1}])
def test_a_fixture_that_differs_fails_the_demo(change: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """An end or a number of executions other than expected is marked, and the exit code is 1."""
    wrong: Fixture = attrs.evolve(FIXTURES[2], **change)
    code = main(fixtures=[wrong], places=[])
    assert (code, capsys.readouterr().out.splitlines()[4].split()[-1]) == (1, "NO")


def test_the_trace_tells_the_run_and_its_end(tickets: Tickets) -> None:
    """The lines of the trace are followed by the explanation, and long ones are folded."""
    lines = list(told(FIXTURES[0].run(tickets)))
    assert (lines[:5], lines.count(""), lines[-1], max(map(len, lines)) <= 120) == (
        [
            "step 1  calls (tool_use)",
            "  get_ticket(ticket_id='T-1') -> ok: "
            '{"ticket_id":"T-1","text":"I was charged twice for my March invoice.","version":3}',
            "step 2  calls (tool_use)",
            "  propose_label(ticket_id='T-1', label='billing', expected_version=3) -> ok: "
            '{"applied":false,"next":"A person will d...',
            "step 3  final (end_turn): I proposed the label billing for T-1.",
        ],
        1,
        "the last turn was final, its stop reason 'end_turn'",
        True,
    )


# --- the recordings -----------------------------------------------------------------------------------------

#: What the loop that made the recordings answered, and what the same call comes to here.
SAID = {
    "version conflict": ("denied", "stale_version"),
    "no such ticket": ("denied", "record_unavailable"),
    "missing expected_version": ("invalid_arguments", ""),
    "not in enum": ("invalid_arguments", ""),
    "arguments are not JSON": ("invalid_arguments", ""),
    "unknown tool": ("unknown_tool", ""),
}


def said(answer: str) -> tuple[str, str]:
    """The outcome that an answer of the recording loop stands for."""
    return next((outcome for words, outcome in SAID.items() if words in answer), ("ok", ""))


def ending(replies: list[dict[str, Any]]) -> str:
    """How a run must end of which these replies are all that there is."""
    if not replies or replies[-1].get("tool_calls"):
        return "model_error"
    return "answered" if replies[-1]["content"] else "malformed"


def test_there_are_four_recordings() -> None:
    """They are found where they are kept."""
    assert [path.name for path in RECORDINGS] == [
        "qwen05-chaos.json",
        "qwen05-repeats.json",
        "qwen15-auto.json",
        "qwen15-staged.json",
    ]


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_every_recorded_run_is_replayed_without_raising(path: Path, tickets: Tickets) -> None:
    """Each ends with its recording, and each of its calls comes to what the recording loop's answer stands for."""
    recording = recorded(path)
    replays = replay(recording, tickets)
    results = [result for one in replays for result in one.result.results]
    assert [(one.prompt, one.result.status, [(r.outcome, r.code) for r in one.result.results]) for one in replays] == [
        (run["prompt"], ending(run["replies"]), [said(answer) for answer in run["tool_results"]])
        for run in recording["runs"]
    ]
    assert tickets.count("executions") == sum(result.outcome in EXECUTED for result in results)
    assert tickets.unchanged()


def test_the_recordings_are_counted(tickets: Tickets) -> None:
    """Forty runs and their calls, by status and outcome, and by the database's own count."""
    replays = [one for path in RECORDINGS for one in replay(recorded(path), tickets)]
    errors = Counter(one.result.snapshot.failure.code for one in replays if one.result.snapshot.failure)
    assert (list(summary(replays, tickets)), errors) == (
        [
            "40 runs: model_error 17, answered 14, malformed 9",
            "126 calls: denied 49, ok 33, invalid_arguments 22, unknown_tool 22",
            "the database counts 82 executions and 23 proposals; its tickets are unchanged",
        ],
        {"recording_ended": 17},
    )


def test_a_replayed_run_can_be_read(tickets: Tickets) -> None:
    """How it ended, what was executed and what not, what the model was told; the same in a row is told once."""
    one = replay(recorded(RECORDINGS[0]), tickets)[1]
    assert list(one.lines()) == [
        '"Label ticket T-2." (replies: 2; how the recording loop ended: exception)',
        "    model_error at step 3: recording_ended: the recording holds no further reply",
        '    executed  propose_label(ticket_id="T-2", label="billing", expected_version=0) -> denied',
        "        told  stale_version: T-2 has another version than 0; read it first",
        '    executed  propose_label(ticket_id="T-2", label="bug", expected_version=7) -> ok, 5 times',
        '        told  {"applied":false,"next":"A person will decide on T-2. You are done with it; propose no more."}',
        '     not run  propose_label({"ticket_id": ") -> invalid_arguments',
        "        told  propose_label was not called; its arguments are not JSON: Unterminated string starting at "
        "character 14,",
        '              near \'{"ticket_id": "\'; one JSON object is wanted',
    ]


def test_a_call_that_was_never_answered_can_be_read(tickets: Tickets) -> None:
    """A recording whose second call bears the first one's id ends there, and the second is not executed."""
    asked = {"id": "a", "function": {"name": "get_ticket", "arguments": '{"ticket_id": "T-3"}'}}
    replies = [{"role": "assistant", "tool_calls": [asked]}] * 2
    runs = [{"prompt": "Read T-3.", "replies": replies, "hand_loop_stop": "answer"}]
    (one,) = replay({"system": "", "runs": runs}, tickets)
    assert list(one.lines())[1:] == [
        "    repeated_call at step 2:",
        '    executed  get_ticket(ticket_id="T-3") -> ok',
        '        told  {"ticket_id":"T-3","text":"Do you have an office in Lisbon?","version":1}',
        '     not run  get_ticket(ticket_id="T-3") -> not answered',
        "        told  nothing",
    ]


ODD: list[tuple[Any, str]] = [
    (None, "malformed"),
    ("text", "malformed"),
    ({}, "malformed"),
    ({"role": "assistant", "content": {"text": "hello"}}, "malformed"),
    ({"role": "assistant", "tool_calls": "get_ticket"}, "malformed"),
    ({"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": ""}}]}, "malformed"),
    ({"role": "assistant", "tool_calls": [{"function": {"name": "get_ticket"}}]}, "model_error"),
]


@pytest.mark.parametrize(("reply", "status"), ODD)
def test_a_reply_that_no_server_sends_raises_nothing(reply: Any, status: str, tickets: Tickets) -> None:
    """It ends its run, no tool runs, and the run can be read."""
    runs = [{"prompt": "Read T-3.", "replies": [reply], "hand_loop_stop": "exception"}]
    (one,) = replay({"system": "", "runs": runs}, tickets)
    start = list(one.lines())[1].split(" at ")[0].strip()
    assert (one.result.status, start, tickets.count("executions")) == (status, status, 0)


# --- the whole of it ----------------------------------------------------------------------------------------


def test_the_demo_prints_everything_in_lines_that_fit(capsys: pytest.CaptureFixture[str]) -> None:
    """Each part has its heading, every prompt and every fixture is there, no line is wider than 120, all went well."""
    code = cli.main(["demo"])
    lines = capsys.readouterr().out.splitlines()
    headings = [before.split(":")[0] for before, line in pairwise(lines) if line[:3] == "==="]
    assert (code, headings, sum(line.endswith("  yes") for line in lines), sum(line[:1] == '"' for line in lines)) == (
        0,
        [
            "Fixtures",
            "Trace of the first fixture, read, propose, final text",
            "Recordings",
            *(path.name for path in RECORDINGS),
            "All recordings together",
        ],
        len(FIXTURES),
        40,
    )
    assert max(map(len, lines)) <= 120


def test_the_demo_says_where_recordings_are_missing(capsys: pytest.CaptureFixture[str]) -> None:
    """Without recordings the fixtures are shown all the same, and one line says what to do."""
    code = main(fixtures=FIXTURES[:1], places=[Path("nowhere")])
    lines = capsys.readouterr().out.splitlines()
    assert (code, lines[0][:8], lines[-2:]) == (
        0,
        "Fixtures",
        ["", "Recordings: there are none here; say where they are with --recordings"],
    )


def test_recordings_are_looked_for_where_they_are_said_to_be(tmp_path: Path) -> None:
    """A folder that is named comes first, then the first place that has some; an empty one that is named is refused."""
    one = tmp_path / "one.json"
    one.write_text("{}", "utf-8")
    empty = tmp_path / "empty"
    assert (recordings(tmp_path), recordings(None, [empty, tmp_path]), recordings()) == ([one], [one], RECORDINGS)
    with pytest.raises(LoopError, match=r"empty holds no recordings: files that end in \.json are looked for"):
        recordings(empty, PLACES)


SOUND: dict[str, Any] = {
    "model": "m",
    "temperature": 0,
    "system": "",
    "runs": [{"prompt": "Read T-3.", "replies": [], "hand_loop_stop": "answer"}],
}


def run_with(**fields: Any) -> str:
    """A recording whose one run has these fields."""
    return json.dumps(SOUND | {"runs": [SOUND["runs"][0] | fields]})


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("", "Expecting value: line 1 column 1 (char 0)"),
        ("[", "Expecting value: line 1 column 2 (char 1)"),
        (b"\xff", "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        ("[" * 100_000, "maximum recursion depth exceeded while d"),
        ("5", "Expected `object`, got `int`"),
        ('{"x":1}', "Object missing required field `model`"),
        (json.dumps(SOUND | {"temperature": "hot"}), "Expected `int | float`, got `str` - at `$.temperature`"),
        (json.dumps(SOUND | {"system": None}), "Expected `str`, got `null` - at `$.system`"),
        (json.dumps(SOUND | {"runs": {}}), "Expected `array`, got `object` - at `$.runs`"),
        (json.dumps(SOUND | {"runs": [{}]}), "Object missing required field `prompt` - at `$.runs[0]`"),
        (run_with(prompt=" "), "Expected `str` matching regex '\\\\S' - at `$.runs[0].prompt`"),
        (run_with(replies="none"), "Expected `array`, got `str` - at `$.runs[0].replies`"),
        (run_with(hand_loop_stop=5), "Expected `str`, got `int` - at `$.runs[0].hand_loop_stop`"),
    ],
)
def test_a_file_that_is_no_recording_is_one_sentence_and_2(
    written: str | bytes, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the file and says what is wrong with it, and nothing is run: not even with a sound one beside it."""
    bad = tmp_path / "bad.json"
    (tmp_path / "a.json").write_text(json.dumps(SOUND), "utf-8")
    bad.write_bytes(written if isinstance(written, bytes) else written.encode())
    code = cli.main(["demo", "--recordings", str(tmp_path)])
    told = capsys.readouterr()
    assert (code, told.out, told.err.count("\n")) == (2, "", 1)
    assert told.err.startswith(f"loopmachine: {bad} is no recording: {says}")


def test_a_recording_that_can_not_be_read_is_one_sentence(tmp_path: Path) -> None:
    """A folder of that name, and a link that leads nowhere."""
    (tmp_path / "a.json").mkdir()
    (tmp_path / "b.json").symlink_to("nowhere")
    for path, why in zip(recordings(tmp_path), ("Is a directory", "No such file or directory"), strict=True):
        with pytest.raises(LoopError, match=f"{path.name} is no recording: {why}$"):
            read(path)


def test_half_a_character_in_a_recording_is_printed_as_the_mark_of_one_that_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever wrote it; the replies themselves are what was recorded."""
    half = "\ud83d"
    replies = [{"role": "assistant", "content": f"So {half}."}]
    run = {"prompt": f"Read {half}.", "replies": replies, "hand_loop_stop": half}
    (tmp_path / "half.json").write_text(json.dumps(SOUND | {"model": half, "runs": [run]}), "utf-8")
    assert (main(tmp_path, fixtures=FIXTURES[:1]), read(tmp_path / "half.json")["runs"]) == (0, [run])
    assert [line for line in capsys.readouterr().out.splitlines() if "\ufffd" in line] == [
        "half.json: \ufffd, temperature 0",
        '"Read \ufffd." (replies: 1; how the recording loop ended: \ufffd)',
        "    answered at step 1: So \ufffd.",
    ]
