"""The accumulator of GEMINI: chunks to the response that is not streamed."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st

from loopmachine import ModelError
from loopmachine.records import Turn
from loopmachine.wire import GEMINI, Delta
from tests.feeding import Fed, asked, bytewise, cut, feed, read
from tests.shared import SHARED
from tests.test_wire_any_reply import JSON, shape
from tests.test_wire_gemini import SIGNATURE, THOUGHT, content, function, response, text
from tests.test_wire_stream_responses import calls_made

Chunk = dict[str, Any]

# --- recorded bodies --------------------------------------------------------------------------------------

RECORDED = SHARED / "streams"


def entries() -> dict[Path, Any]:
    """What each body of this wire gives, as expected.json says."""
    listed = RECORDED / "expected.json"
    told = json.loads(listed.read_text()) if listed.is_file() else {}
    return {RECORDED / name: entry for name, entry in told.items() if name.startswith("gemini")}


BODIES = entries()
every_body = pytest.mark.parametrize("path", list(BODIES), ids=lambda path: path.name)


def as_told(fed: Fed) -> dict[str, Any]:
    """What a body brought in the words of expected.json, whose output counts no thoughts."""
    turn = fed.turn or Turn()
    usage, parts = turn.usage, turn.payload["parts"]
    signed = ["thoughtSignature" in part for part in parts if "functionCall" in part]
    return {
        "text": turn.text,
        "finish": turn.stop,
        "usage": usage and {"input": usage.input_tokens, "output": (usage.output_tokens or 0) - _thoughts(turn)},
        "error": fed.error is not None,
        "has_reasoning": any(part.get("thought") for part in parts),
        "calls": [
            {"id": call.id or None, "name": call.name, "args": call.arguments, "has_signature": one}
            for call, one in zip(turn.calls, signed, strict=True)
        ],
        "may_run_calls": turn.kind == "calls",
    }


def _thoughts(turn: Turn) -> int:
    assert turn.usage is not None
    return turn.usage.reasoning_tokens or 0


@every_body
def test_what_a_body_gives(path: Path) -> None:
    """Text, calls, finish, usage, thoughts, signatures and whether calls may run are as written down."""
    assert as_told(read(GEMINI, [path.read_bytes()])) == BODIES[path]


@every_body
def test_how_a_body_is_cut_changes_nothing(path: Path) -> None:
    """One byte at a time and cut at random, it gives the same deltas and the same turn as whole."""
    body = path.read_bytes()
    whole = read(GEMINI, [body])
    assert [read(GEMINI, pieces) for pieces in (bytewise(body), *(cut(body, seed) for seed in range(5)))] == [whole] * 6


@every_body
def test_what_was_shown_is_what_the_turn_holds(path: Path) -> None:
    """The deltas, put together, are the text of the turn, its calls, and the thoughts that its payload holds."""
    fed = read(GEMINI, [path.read_bytes()])
    assert fed.turn is not None
    thoughts = "".join(part["text"] for part in fed.turn.payload["parts"] if part.get("thought"))
    assert (fed.shown("text"), fed.shown("thinking")) == (fed.turn.text, thoughts)
    assert fed.calls == asked(fed.turn)


@every_body
def test_a_body_that_ends_early_gives_no_turn(path: Path) -> None:
    """Without its finish reason a response is cut, whatever it looks like."""
    chunks = list(GEMINI.read([path.read_bytes()]))
    errors = [feed(GEMINI.stream(), chunks[:end]).error for end in range(len(chunks))]
    assert [(error and error.code, error and error.retryable) for error in errors] == [("stream_cut", True)] * len(
        chunks
    )


# --- chunks -----------------------------------------------------------------------------------------------


def chunk(*parts: Any, **fields: Any) -> Chunk:
    """A chunk in the middle of a stream."""
    return response(*parts, stop=None, **fields)


def ended(*parts: Any, stop: str = "STOP", **fields: Any) -> Chunk:
    return response(*parts, stop=stop, **fields)


def partial(*pieces: Any, name: str | None = None, **fields: Any) -> Chunk:
    """A part with arguments by their paths: (path, kind of value, value, whether it goes on)."""
    told = [
        {"jsonPath": path, kind: value} | ({"willContinue": True} if goes_on else {})
        for path, kind, value, goes_on in pieces
    ]
    named = {} if name is None else {"name": name}
    return {"functionCall": named | ({"partialArgs": told} if told else {}) | fields}


def fed(*chunks: Any) -> Fed:
    return feed(GEMINI.stream(), chunks)


def test_all_that_a_screen_is_told() -> None:
    """Thoughts, text, and each call whole, by its order."""
    brought = fed(
        chunk(THOUGHT),
        chunk(text("Hm"), text("")),
        chunk(text(".", thoughtSignature=SIGNATURE)),
        chunk(function("add", {"a": 1}, "f1"), function("now")),
        ended(text("")),
    )
    assert brought.deltas == (
        Delta("thinking", "It is an addition."),
        *(Delta("text", text) for text in ("Hm", ".")),
        Delta("call", '{"a":1}', 0, "f1", "add"),
        Delta("call", "{}", 1, "", "now"),
    )


def test_texts_that_follow_one_another_are_put_together() -> None:
    """Thoughts apart from text, and a part with a signature by itself, so that each goes back where it was."""
    brought = fed(
        chunk(text("It ", thought=True)),
        chunk(text("adds.", thought=True)),
        chunk(text("H"), text("m")),
        chunk(text("."), text("", thoughtSignature=SIGNATURE)),
        chunk(text("So"), text(".")),
        chunk(function("add", {"a": 1}), text("x"), text("", thoughtSignature=SIGNATURE), text("y")),
        ended(text("z")),
    )
    assert brought.turn is not None
    assert brought.turn.payload == content(
        text("It adds.", thought=True),
        text("Hm."),
        text("", thoughtSignature=SIGNATURE),
        text("So."),
        function("add", {"a": 1}),
        text("x"),
        text("", thoughtSignature=SIGNATURE),
        text("yz"),
    )


def test_a_stream_gives_the_turn_of_the_response() -> None:
    """What is told beside the candidates is told in any chunk; later counts replace earlier ones."""
    usage = {"promptTokenCount": 3, "totalTokenCount": 3, "trafficType": "ON_DEMAND"}
    brought = fed(
        {"modelVersion": "gemini", "candidates": []},
        chunk(text("Hm."), usageMetadata=usage),
        ended(text("!"), usageMetadata=usage | {"candidatesTokenCount": 2, "totalTokenCount": 5}),
        {"usageMetadata": {"thoughtsTokenCount": 1}, "candidates": None, "modelVersion": None},
        response(stop=None),
    )
    counts = {"promptTokenCount": 3, "candidatesTokenCount": 2, "thoughtsTokenCount": 1, "totalTokenCount": 5}
    assert brought.turn == GEMINI.decode(response(text("Hm.!"), usageMetadata=counts, modelVersion="gemini"))


def test_only_the_first_candidate_is_read() -> None:
    """The others are not shown, and their end is none."""
    other = {"index": 1, "content": content(text("Two.")), "finishReason": "STOP"}
    first = {"index": 0, "content": content(text("One."))}
    cut_off = fed({"candidates": [other, first]})
    whole = fed({"candidates": [other]}, {"candidates": [first | {"finishReason": "STOP"}]})
    assert (cut_off.error and cut_off.error.code, cut_off.shown("text")) == ("stream_cut", "One.")
    assert (whole.turn and whole.turn.text, whole.shown("text")) == ("One.", "One.")


@pytest.mark.parametrize(
    ("indexes", "read"),
    [((1, 0), "B"), (("1", "0"), "B"), ((None, None), "A"), (("", 1), "A"), ((1, None), "B"), ((1, 2), "")],
)
def test_which_candidate_is_read(indexes: tuple[Any, Any], read: str) -> None:
    """That of index 0, a number or text, wherever it stands; where none says its index, the first one."""
    candidates = [
        {"index": index, "content": content(text(said))} for index, said in zip(indexes, ("A", "B"), strict=True)
    ]
    assert fed({"candidates": candidates}, ended()).shown("text") == read


def test_what_ends_a_stream() -> None:
    """A finish reason, or that the prompt was blocked; that it is unspecified says nothing."""
    call = function("add", {"a": 1})
    given: list[tuple[list[Any], str]] = [
        ([chunk(call), ended()], "calls"),
        ([chunk(call), {"candidates": [{"finishReason": "STOP"}]}], "calls"),
        ([ended(call, stop="MAX_TOKENS")], "truncated"),
        ([chunk(call), ended(stop="SAFETY")], "refused"),
        ([chunk(call), ended(stop="MALFORMED_FUNCTION_CALL")], "malformed"),
        ([{"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}}], "refused"),
        ([{"promptFeedback": {"blockReason": "SAFETY"}, "candidates": [{"content": content(text("No"))}]}], "refused"),
        ([ended(text("So")), chunk(call)], "stream_cut"),
        ([ended(text("So")), chunk(partial(("$.a", "stringValue", "x", True), name="f"))], "stream_cut"),
        ([ended(text("So")), chunk(text(" then"))], "stream_cut"),
        ([ended(text("So")), chunk(call), ended()], "calls"),
        ([ended(call), chunk(text("")), {"usageMetadata": {"promptTokenCount": 4}}], "calls"),
        ([chunk(call), ended(stop="FINISH_REASON_UNSPECIFIED")], "stream_cut"),
        ([chunk(call), ended(stop="")], "stream_cut"),
        ([{"promptFeedback": {"safetyRatings": []}}], "stream_cut"),
        ([{"usageMetadata": {"promptTokenCount": 4}}], "stream_cut"),
        ([], "stream_cut"),
    ]
    brought = [fed(*chunks) for chunks, _ in given]
    assert [one.turn.kind if one.turn else one.error and one.error.code for one in brought] == [end for _, end in given]


@pytest.mark.parametrize("clean", [True, False])
def test_a_clean_end_is_as_good_as_a_finish_reason(clean: bool) -> None:
    """Who knows that the server ended the stream by itself may say so."""
    brought = feed(GEMINI.stream(), [chunk(function("add", {"a": 1}))], clean=clean)
    assert (brought.turn is None, brought.error is None) == (not clean, clean)


def test_errors() -> None:
    """They are raised with the provider's code, whatever looked whole before them; some may pass."""
    given: list[tuple[Chunk, str, bool]] = [
        ({"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}}, "UNAVAILABLE", True),
        ({"error": {"code": 400, "message": "No.", "status": "INVALID_ARGUMENT"}}, "INVALID_ARGUMENT", False),
    ]
    errors = [fed(ended(function("add", {"a": 1})), one).error for one, *_ in given]
    assert [(one and one.code, one and one.retryable) for one in errors] == [(code, may) for _, code, may in given]


# --- arguments by their paths -----------------------------------------------------------------------------


def arguments(*pieces: Any) -> Any:
    """The arguments that these pieces make, or the error."""
    brought = fed(chunk(partial(name="f", willContinue=True)), *(chunk(one) for one in pieces), ended())
    return brought.error.message if brought.error else brought.turn and brought.turn.payload["parts"][0]


def test_arguments_are_put_where_their_paths_lead() -> None:
    """Into objects and lists, which are made as they are needed, of every kind of value; strings in pieces."""
    pieces = partial(
        ("$.city", "stringValue", "Bos", True),
        ("$.days", "numberValue", 3, False),
        ("$.city", "stringValue", "ton", False),
        ("$.deep.list[0].on", "boolValue", True, False),
        ("$.deep.list[0].off", "boolValue", False, False),
        ("$.deep.list[1]", "nullValue", "NULL_VALUE", False),
        ('$.deep[\'a "b"\']["c\\"d"]', "stringValue", "x", False),
        ("$['it\\'s'].é", "stringValue", "", False),
        ("$.days", "numberValue", 4, False),
    )
    assert arguments(pieces) == function(
        "f",
        {
            "city": "Boston",
            "days": 4,
            "deep": {"list": [{"on": True, "off": False}, None], 'a "b"': {'c"d': "x"}},
            "it's": {"é": ""},
        },
    )


@pytest.mark.parametrize(
    "path",
    ["", "$", "city", "$city", "$.", "$..a", "$.a[", "$.a[*]", "$[0]", "$.list[2]", "$.city.x", "$.list.x", "$['a"],
)
def test_a_path_that_leads_nowhere_is_malformed(path: str) -> None:
    """An error names it, and nothing is made of it."""
    before = ("$.city", "stringValue", "x", False), ("$.list[0]", "numberValue", 1, False)
    error = arguments(partial(*before, (path, "numberValue", 1, False)))
    assert error.startswith("a chunk can't be read: jsonPath: ")


def test_a_call_that_is_not_whole_is_malformed() -> None:
    """Its arguments or one of their strings would go on, yet the response ended."""
    whole = partial(("$.city", "stringValue", "x", False), name="f")
    open_string = partial(("$.city", "stringValue", "x", True), name="f")
    given: list[tuple[list[Any], str]] = [
        ([whole], "calls"),
        ([partial(name="f", willContinue=True), partial()], "calls"),
        (
            [
                partial(name="f", willContinue=True),
                partial(willContinue=True),
                partial(("$.a", "numberValue", 1, False)),
            ],
            "calls",
        ),
        ([partial(name="f", willContinue=True)], "malformed"),
        ([open_string], "malformed"),
        ([open_string, partial(("$.city", "stringValue", "", False))], "calls"),
        ([partial(name="f", willContinue=True), whole], "malformed"),
        ([partial(name="f", willContinue=True), text("x"), partial(("$.a", "numberValue", 1, False))], "calls"),
        ([partial()], "malformed"),
    ]
    turns = [fed(*(chunk(part) for part in parts), ended()).turn for parts, _ in given]
    assert [turn and turn.kind for turn in turns] == [kind for _, kind in given]


def test_what_a_screen_is_told_of_arguments_by_path() -> None:
    """The call as it begins, and its arguments once they are whole; what comes with a later piece is the call's."""
    brought = fed(
        chunk(partial(name="f", willContinue=True)),
        chunk(partial(("$.a", "stringValue", "x", True), willContinue=True, id="f1")),
        chunk(text("meanwhile")),
        chunk(partial(("$.a", "stringValue", "y", False)) | {"thoughtSignature": SIGNATURE}),
        ended(),
    )
    assert brought.deltas == (
        Delta("call", "", 0, "", "f"),
        Delta("text", "meanwhile"),
        Delta("call", '{"a":"xy"}', 0, "f1", "f"),
    )
    signed = function("f", {"a": "xy"}, "f1", thoughtSignature=SIGNATURE)
    assert brought.turn is not None
    assert brought.turn.payload == content(signed, text("meanwhile"))


# --- whatever comes ---------------------------------------------------------------------------------------


def test_chunks_of_the_sdk_are_taken() -> None:
    """The objects that google-genai makes of the chunks, and their dumps, give what the chunks give."""
    chunks = [
        chunk(THOUGHT, text("Hm.")),
        chunk(partial(("$.some_key", "stringValue", "x", True), name="f", willContinue=True)),
        chunk(partial(("$.some_key", "stringValue", "", False))),
        ended(function("g", {"a_b": None}, "f2"), usageMetadata={"promptTokenCount": 3, "totalTokenCount": 3}),
    ]
    objects = [types.GenerateContentResponse.model_validate(one) for one in chunks]
    plain = fed(*chunks)
    assert plain.turn is not None
    for brought in (fed(*objects), fed(*(one.model_dump() for one in objects))):
        assert brought.turn is not None
        assert (brought.deltas, brought.turn.payload) == (plain.deltas, plain.turn.payload)
    assert asked(plain.turn) == [("", "f", '{"some_key":"x"}'), ("f2", "g", '{"a_b":null}')]


WORDS = st.sampled_from(["", " ", "x", "$.a", "$.b[0]", "$.a.b"])
PIECE = shape(jsonPath=WORDS, stringValue=WORDS, numberValue=st.just(1), willContinue=st.booleans())
FUNCTION = shape(name=WORDS, id=WORDS, args=shape(a=WORDS), partialArgs=st.lists(PIECE), willContinue=st.booleans())
PART = shape(text=WORDS, thought=st.booleans(), thoughtSignature=WORDS, functionCall=FUNCTION)
STOPS = st.sampled_from(["", "STOP", "MAX_TOKENS"])
CANDIDATE = shape(content=shape(parts=st.lists(PART, max_size=3)), finishReason=STOPS, index=st.integers(0, 1))
CHUNK = shape(
    candidates=st.lists(CANDIDATE, max_size=2),
    usageMetadata=shape(promptTokenCount=st.just(1)),
    promptFeedback=shape(blockReason=st.just("SAFETY")),
)


@settings(deadline=None, max_examples=100)
@given(chunks=st.lists(CHUNK | JSON, max_size=5))
def test_whatever_comes_there_is_a_turn_or_a_model_error(chunks: list[Any]) -> None:
    """Chunks in any order and of any shape raise nothing but ModelError, and are left as they were."""
    before = copy.deepcopy(chunks)
    brought = fed(*chunks)
    assert (brought.turn is None) is (brought.error is not None)
    assert repr(chunks) == repr(before)


@pytest.mark.parametrize("broken", [5, {"candidates": 5}, chunk({"functionCall": 5}), chunk(text(5))])  # type: ignore[arg-type]  # on purpose
def test_what_is_no_chunk_is_an_error(broken: Any) -> None:
    """It is retryable, and so is what follows."""
    stream = GEMINI.stream()
    for one in (broken, ended(text("x"))):
        with pytest.raises(ModelError, match="stream_malformed"):
            stream.feed(one)


@pytest.mark.parametrize(
    "piece",
    [chunk(text("x")), chunk(partial(("$.a", "stringValue", "x", True), willContinue=True))],
    ids=["text", "arguments"],
)
def test_pieces_cost_what_they_are(piece: Chunk) -> None:
    """Twice as many pieces cost twice as much, and are joined once."""

    def pieces(number: int) -> int:
        chunks = [chunk(partial(name="f", willContinue=True)), *[piece] * number]
        return calls_made(lambda: fed(*chunks, ended()))

    base, once, twice = pieces(0), pieces(500) - pieces(0), pieces(1000) - pieces(0)
    assert (base < 2000, twice <= 2 * once + 10) == (True, True)


@pytest.mark.parametrize("feedback", [{"safetyRatings": []}, {"blockReason": None}, {}, None])
def test_that_the_prompt_was_blocked_is_not_taken_back(feedback: Any) -> None:
    """Whatever is told after it, or beside it where nothing is streamed, the reply is refused."""
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}}
    chunks = [blocked, {"promptFeedback": feedback}, ended(function("add", {"a": 1}))]
    for turn in (fed(*chunks).turn, GEMINI.decode(blocked | chunks[-1])):
        assert turn is not None
        assert (turn.kind, turn.stop, turn.calls) == ("refused", "SAFETY", ())


def test_why_a_reply_was_cut_outranks_that_the_prompt_was_blocked() -> None:
    """Both abort, and the first is that of the candidate."""
    assert (
        GEMINI.decode(ended(text("So"), stop="MAX_TOKENS") | {"promptFeedback": {"blockReason": "OTHER"}}).stop
        == "MAX_TOKENS"
    )


@pytest.mark.parametrize("odd", [5, ["x"], {"x": 1}, False])
def test_a_thought_that_is_no_text_is_kept(odd: Any) -> None:
    """It is none of the answer, streamed or not, and goes back as it came."""
    thought = {"text": odd, "thought": True}
    answer = ended({"text": "I ", "thought": True}, thought, {"text": "add.", "thought": True}, text("So"))
    brought, whole = fed(answer), GEMINI.decode(answer)
    assert brought.turn == whole
    assert (whole.kind, whole.text, brought.shown("thinking")) == ("final", "So", "I add.")
    assert thought in whole.payload["parts"]
