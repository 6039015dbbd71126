"""Whole bodies of streams, the project's own and recorded ones, give what was written down, however they are cut."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tests.test_wire_stream_gemini as gemini
import tests.test_wire_stream_responses as responses
from loopmachine import Turn
from loopmachine.wire import ANTHROPIC, OPENAI_CHAT, Wire
from tests.feeding import Fed, as_told, asked, bytewise, cut, expected, feed, read
from tests.shared import SHARED
from tests.test_wire_base import exchange

OWN, RECORDED, LOCAL = Path(__file__).parent / "streams", SHARED / "streams", SHARED / "recordings" / "streams"
WIRE_OF = {"chat": OPENAI_CHAT, "anthropic": ANTHROPIC}

CUT = ("stream_cut", True)

PROPOSAL = '{"ticket_id": "T-1", "label": "billing", "expected_version": %d}'
FENCE = "To label ticket T-1, use the following command:\n\n```json\n"
BROKE: dict[str, Any] = {"error": "server_error", "retryable": True}  #: an error event after arguments that look whole


def local(text: str = "", finish: str | None = None, usage: Any = None, calls: Any = (), **more: Any) -> dict[str, Any]:
    """What a body of the local server gives, written down by reading it."""
    words = [{"id": one, "name": name, "arguments": arguments} for one, name, arguments in calls]
    base = {"text": text, "finish": finish, "error": False, "has_reasoning": False, "calls": words}
    usage = usage and {"input": usage[0], "output": usage[1]}
    return base | {"usage": usage, "may_run_calls": bool(words) and not more.get("error")} | more


LOCALLY: dict[str, dict[str, Any]] = {
    "lcp15-06-tool-named-stream.sse": local(
        finish="tool_calls",
        calls=[
            (
                "call__0_propose_label_cmpl-e28f27a4-574a-487b-86c2-cdc4177fa1d4",
                "propose_label",
                '{ "ticket_id": "T-1", "label": "billing", "expected_version": 2 }',
            )
        ],
    ),
    "qwen15-bare-04-tool-auto-stream.sse": local(
        FENCE,
        calls=[
            (
                "moZwD1hE0ekGl9aQDrZLHRE0FO7p6OUl",
                "propose_label",
                '{\n    "ticket_id": "T-1",\n    "label": "billing",\n    "expected_version": 1\n  }',
            )
        ],
        **BROKE,
    ),
    "qwen15-bare-07-parallel-stream.sse": local(
        calls=[("o2qluG6jxmJuSSPjU6xlXijcJdblOurK", "get_ticket", '{"ticket_id": "T-1"}')], **BROKE
    ),
    "qwen15-bare-08-turn2-stream.sse": local(
        finish="tool_calls",
        usage=(321, 34),
        calls=[("FqtEEJphXEqwZnJLW3WCRRV2tN1ttLxn", "propose_label", PROPOSAL % 3)],
    ),
    "qwen15-bare-09-turn3-stream.sse": local("I was charged twice for my invoice.", "stop", (391, 9)),
    "qwen15-bare-10-cut-by-length-stream.sse": local(
        "To label ticket T-1, you would call the `propose", "length", (269, 14)
    ),
    "qwen15-bare-17-anthropic-stream.sse": local(
        finish="tool_use",
        usage=(269, 34),
        calls=[("oM8l7wnQRM9oErsCTvd7ukBELknGkhNv", "propose_label", PROPOSAL % 1)],
        block_types=["tool_use"],
    ),
    "qwen15-bare-20-anthropic-cut.sse": local(
        finish="max_tokens",
        usage=(269, 14),
        calls=[("hYQJtxCd1MZyc3cOVyBXjXgig8hweoE7", "propose_label", '{"ticket_id')],
        may_run_calls=False,
        block_types=["tool_use"],
    ),
}


def entries(folder: Path) -> dict[str, Any]:
    """The entries of these two wires in the expected.json of a folder, none where the folder is not here."""
    listed = folder / "expected.json"
    told: dict[str, Any] = json.loads(listed.read_text()) if listed.is_file() else {}
    if folder == RECORDED and told:  # the provider's code, which the shared file does not name
        told["chat_groq_error_event_midstream.sse"] |= {"error": "tool_use_failed", "retryable": False}
    return {name: expected(entry) for name, entry in told.items() if name.partition("_")[0] in WIRE_OF}


BODIES: dict[Path, dict[str, Any]] = {OWN / name: entry for name, entry in entries(OWN).items()}
BODIES |= {RECORDED / name: entry for name, entry in entries(RECORDED).items()}
BODIES |= {LOCAL / name: entry for name, entry in LOCALLY.items() if LOCAL.is_dir()}
every_body = pytest.mark.parametrize("path", BODIES, ids=lambda path: path.name)


def wire_of(path: Path) -> Wire:
    """The wire of a body, which its name says."""
    return ANTHROPIC if "anthropic" in path.name.removeprefix("chat_anthropic") else OPENAI_CHAT


def whole(path: Path) -> Fed:
    """What a body brings, fed whole."""
    return read(wire_of(path), [path.read_bytes()])


@every_body
def test_what_a_body_gives(path: Path) -> None:
    """Text, calls, finish, usage, errors and whether calls may run are as written down."""
    assert as_told(whole(path)) == BODIES[path]


@every_body
def test_how_a_body_is_cut_changes_nothing(path: Path) -> None:
    """One byte at a time and cut at random, it gives the same deltas and the same turn or error as whole."""
    body, fed = path.read_bytes(), whole(path)
    others = [read(wire_of(path), pieces) for pieces in (bytewise(body), *(cut(body, seed) for seed in range(5)))]
    assert [(one.deltas, one.turn, repr(one.error)) for one in others] == [(fed.deltas, fed.turn, repr(fed.error))] * 6


@every_body
def test_what_was_shown_is_what_the_turn_holds(path: Path) -> None:
    """The deltas of a turn, put together, are its text and, unless it was cut, its calls."""
    fed = whole(path)
    turn = fed.turn or Turn(fed.shown("text"))
    assert (fed.shown("text"), fed.calls if turn.calls else []) == (turn.text, asked(turn))


@every_body
def test_there_is_no_turn_before_its_evidence(path: Path) -> None:
    """Asked after every chunk, a stream is cut until it gives what it gives at last, but for later usage."""
    chunks = list(wire_of(path).read([path.read_bytes()]))
    outcomes = [feed(wire_of(path).stream(), chunks[:length]).outcome for length in range(len(chunks) + 1)]
    first = outcomes.index(whole(path).outcome)
    assert outcomes == [CUT] * first + [whole(path).outcome] * (len(outcomes) - first)


@every_body
@settings(max_examples=20)
@given(data=st.data())
def test_a_body_that_ends_early_runs_nothing_else(path: Path, data: st.DataObject) -> None:
    """Wherever the connection ends, the stream is cut, or gives what the whole body gives."""
    body = path.read_bytes()
    fed = read(wire_of(path), [body[: data.draw(st.integers(0, len(body)))]])
    assert fed.outcome in (CUT, whole(path).outcome)


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the shared folder with recorded streams is not here")
def test_thinking_and_its_signature_are_kept_to_the_letter() -> None:
    """What was thought, in 22 pieces, and its signature stand in the payload, and go back."""
    path = RECORDED / "anthropic_thinking_signature_tool.sse"
    keep = json.loads((RECORDED / "expected.json").read_text())[path.name]["must_keep"]
    turn = whole(path).turn
    assert turn is not None
    thought = ANTHROPIC.entry(exchange(turn, ("ok", "1")))[0]["content"][0]
    texts = {field: thought[field] for field in ("thinking", "signature")}
    assert thought == {"type": "thinking", **texts}
    assert keep == {f"{field}_chars": len(text) for field, text in texts.items()} | {
        f"{field}_sha256": sha256(text.encode()).hexdigest() for field, text in texts.items()
    }


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the shared folder with recorded streams is not here")
def test_reasoning_details_are_put_together_as_they_are_not_streamed() -> None:
    """OpenRouter's pieces of one detail are one detail, beside the reasoning, in what goes back."""
    turn = whole(RECORDED / "chat_openrouter_kimi_parallel2.sse").turn
    assert turn is not None
    reasoning = turn.payload["reasoning"]
    assert turn.payload["reasoning_details"] == [
        {"type": "reasoning.text", "text": reasoning, "format": "unknown", "index": 0}
    ]
    assert reasoning.startswith(" The user wants me to add")


@pytest.mark.parametrize("folder", [one for one in (OWN, RECORDED, LOCAL) if one.is_dir()], ids=str)
def test_every_body_is_written_down_and_run(folder: Path) -> None:
    """The files of a folder, its expected.json, and what the tests of all wires run are the same."""
    bodies = {path.name for path in folder.iterdir()} - {"expected.json", "manifest.json", "README.md"}
    listed = folder / "expected.json"
    told = set(json.loads(listed.read_text())) if listed.is_file() else bodies
    run = [path.name for path in (*BODIES, *gemini.BODIES, *responses.BODIES) if path.parent == folder]
    assert (sorted(run), told) == (sorted(bodies), bodies)
