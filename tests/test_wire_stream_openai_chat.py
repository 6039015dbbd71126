"""The accumulator of OPENAI_CHAT: what servers send as chunks of a completion, and what that comes to."""

from __future__ import annotations

import random
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopmachine import ModelError, Turn, Usage
from loopmachine.wire import OPENAI_CHAT, Delta
from tests.feeding import Fed, asked, feed
from tests.test_wire_base import exchange, sent
from tests.test_wire_stream import DONE, chat, entry


def fed(*chunks: dict[str, Any], stop: str = "tool_calls") -> Fed:
    """What these chunks and a finish reason bring."""
    return feed(OPENAI_CHAT.stream(), [*chunks, chat(stop)])


def turn(*chunks: dict[str, Any], stop: str = "tool_calls") -> Turn:
    """The turn of it."""
    made = fed(*chunks, stop=stop).turn
    assert made is not None
    return made


def calls(*entries: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The calls that come of these entries, a chunk each, shown and in the turn."""
    brought = fed(*(chat(tool_calls=[one]) for one in entries))
    assert brought.turn is not None
    assert brought.turn.fault or brought.calls == asked(brought.turn)
    return brought.calls


# --- what is shown --------------------------------------------------------------------------------------


def test_what_a_screen_is_shown() -> None:
    """Thoughts, text, and of a call what is known so far with each new piece of its arguments."""
    chunks = [
        chat(role="assistant", content="", reasoning=None),
        chat(reasoning="Hm"),
        chat(content="So"),
        chat(content=None, tool_calls=[entry(0, "c1"), entry(1, "c2", "g", "{")]),
        chat(tool_calls=[entry(1, text="}"), entry(0, name="f", text="{}")]),
        {"choices": []},
        {"choices": None, "usage": None},
    ]
    stream = OPENAI_CHAT.stream()
    assert [stream.feed(chunk) for chunk in chunks] == [
        (),
        (Delta("thinking", "Hm"),),
        (Delta("text", "So"),),
        (Delta("call", "", 0, "c1"), Delta("call", "{", 1, "c2", "g")),
        (Delta("call", "}", 1, "c2", "g"), Delta("call", "{}", 0, "c1", "f")),
        (),
        (),
    ]


def test_a_thought_under_two_names_is_shown_once_and_kept_twice() -> None:
    """Servers send it as reasoning and as reasoning_content for clients of either."""
    brought = fed(
        chat(reasoning="Hm", reasoning_content="Hm"), chat(reasoning=".", reasoning_content="."), chat(content="So")
    )
    assert brought.shown("thinking") == "Hm."
    assert brought.turn is not None
    assert brought.turn.payload == {
        "role": "assistant",
        "reasoning": "Hm.",
        "reasoning_content": "Hm.",
        "content": "So",
    }


def test_a_refusal_is_shown_as_text() -> None:
    """It comes in pieces, and is what the turn says."""
    brought = fed(chat(refusal="I "), chat(refusal="won't."), stop="stop")
    assert brought.outcome == ("refused", brought.shown("text"), []) == ("refused", "I won't.", [])


def test_content_in_parts() -> None:
    """Mistral sends thoughts as parts of the content, and text beside them as text: all is kept in its place."""
    thought = [{"type": "thinking", "thinking": [{"type": "text", "text": one}]} for one in ("Hm", ".")]
    brought = fed(
        *(chat(content=[one]) for one in thought),
        chat(content="So"),
        chat(content=":"),
        chat(content=[{"type": "text", "text": " 5"}, {"type": "thinking", "thinking": "!"}, {"type": "reference"}]),
        stop="stop",
    )
    assert (brought.shown("thinking"), brought.shown("text")) == ("Hm.!", "So: 5")
    assert brought.turn is not None
    assert (brought.turn.text, brought.turn.payload["content"]) == (
        "So: 5",
        [
            *thought,
            {"type": "text", "text": "So:"},
            {"type": "text", "text": " 5"},
            {"type": "thinking", "thinking": "!"},
            {"type": "reference"},
        ],
    )


# --- calls ----------------------------------------------------------------------------------------------

CALLS: dict[str, tuple[list[dict[str, Any]], list[tuple[str, str, str]]]] = {
    "pieces by index": (
        [entry(0, "a", "f"), entry(1, "b", "g"), entry(0, text="1"), entry(1, text="2")],
        [("a", "f", "1"), ("b", "g", "2")],
    ),
    "indexes in any order": ([entry(7, "a", "f", "1"), entry(2, "b", "g", "2")], [("a", "f", "1"), ("b", "g", "2")]),
    "name and id repeated": ([entry(0, "a", "f", "1"), entry(0, "a", "f", "2")], [("a", "f", "12")]),
    "name and id blank": (
        [entry(0, "a", "f", "1"), entry(0, "", " ", "2"), entry(0, "\n", "", "3")],
        [("a", "f", "123")],
    ),
    "another name later": ([entry(0, "a", "f", "1"), entry(0, None, "g", "2")], [("a", "f", "12")]),
    "another name without ids": (
        [entry(0, None, "f", "1"), entry(0, None, "g", "2"), entry(0, text="3")],
        [("", "f", "1"), ("", "g", "23")],
    ),
    "name repeated without ids": ([entry(0, None, "f", "1"), entry(0, None, "f", "2")], [("", "f", "12")]),
    "name late without an id": ([entry(0, text="1"), entry(0, None, "f", "2")], [("", "f", "12")]),
    "id and name late": ([entry(0, text="1"), entry(0, "a", text="2"), entry(0, "a", "f", "3")], [("a", "f", "123")]),
    "id late beside its name": (
        [entry(0, None, "f", "1"), entry(0, "a", "f", "2"), entry(0, text="3")],
        [("a", "f", "123")],
    ),
    "a name without an id, then another with one": (
        [entry(0, None, "f", "1"), entry(0, "a", "g", "2")],
        [("", "f", "1"), ("a", "g", "2")],
    ),
    "one index for all": (
        [entry(0, "a", "f", "1"), entry(0, "b", "f", "2"), entry(0, text="3"), entry(0, "a", text="4")],
        [("a", "f", "14"), ("b", "f", "23")],
    ),
    "one id under two indexes": (
        [entry(0, "a", "f", "1"), entry(1, "a", "f", "2")],
        [("a", "f", "1"), ("a", "f", "2")],
    ),
    "no index, by id": (
        [entry(None, "a", "f"), entry(None, "b", "g"), entry(None, "a", text="1"), entry(None, "b", text="2")],
        [("a", "f", "1"), ("b", "g", "2")],
    ),
    "no index, the last one": (
        [entry(None, "a", "f"), entry(None, text="1"), entry(None, "b", "g"), entry(None, text="2")],
        [("a", "f", "1"), ("b", "g", "2")],
    ),
    "neither index nor id": (
        [entry(None, None, "f", "1"), entry(None, text="2"), entry(None, None, "f", "3")],
        [("", "f", "12"), ("", "f", "3")],
    ),
    "an index at first, then the id": (
        [entry(0, "a", "f"), entry(1, "b", "g"), entry(None, "a", text="1")],
        [("a", "f", "1"), ("b", "g", "")],
    ),
    "an index that is text": (
        [entry("0", "a", "f"), entry("1", "b", "g"), entry("0", text="1")],
        [("a", "f", "1"), ("b", "g", "")],
    ),
    "ids that look odd": (
        [entry(0, "0", "f", "1"), entry(1, "functions.f:1", "f", "2")],
        [("0", "f", "1"), ("functions.f:1", "f", "2")],
    ),
    "entries that say nothing": (
        [entry(3), {}, {"index": 5, "function": None}, entry(0, "a", "f", "1"), {"index": 0}, entry(3)],
        [("a", "f", "1")],
    ),
    "arguments given as an object": ([entry(0, "a", "f", {"n": [1, "ü"]})], [("a", "f", '{"n":[1,"ü"]}')]),
    "an empty object in the place of what comes": (
        [entry(0, "a", "f", {}), entry(0, text='{"n": 1}')],
        [("a", "f", '{"n": 1}')],
    ),
    "no arguments": (
        [entry(0, "a", "f"), entry(1, "b", "f", ""), entry(2, "c", "f", {})],
        [("a", "f", ""), ("b", "f", ""), ("c", "f", "")],
    ),
}


@pytest.mark.parametrize("what", CALLS)
def test_how_entries_are_put_together(what: str) -> None:
    """An index and an id are keys; what is blank or null says nothing; a name is set once."""
    entries, expected = CALLS[what]
    assert calls(*entries) == expected


def test_an_entry_that_says_nothing_is_not_shown() -> None:
    """It is no more of the reply: a finish reason before it still holds."""
    stream = OPENAI_CHAT.stream()
    chunks = [chat("tool_calls", tool_calls=[entry(0, "a", "f", "{}")]), chat(tool_calls=[entry(0, "", " ", {})])]
    assert [stream.feed(chunk) for chunk in chunks] == [(Delta("call", "{}", 0, "a", "f"),), ()]
    assert asked(stream.turn()) == [("a", "f", "{}")]


def test_two_entries_of_a_chunk_are_as_two_chunks() -> None:
    """Where an entry stands in its list means nothing."""
    entries, expected = CALLS["pieces by index"]
    brought = fed(chat(tool_calls=entries[:3]), chat(tool_calls=entries[3:]))
    assert brought.calls == expected


def test_arguments_of_a_call_that_never_began() -> None:
    """They are not lost and not another's: the turn is malformed."""
    made = turn(chat(tool_calls=[entry(0, "a", "f", "{}")]), chat(tool_calls=[entry(1, text="{}")]))
    assert (made.kind, made.fault) == ("malformed", "tool_calls[1].function.name: it is blank")


WRONG: dict[str, Any] = {
    "id": {"index": 0, "id": 5},
    "name": {"index": 0, "function": {"name": 5}},
    "arguments": entry(0, "a", "f", [1]),
    "index": {"index": [], "id": "a"},
    "function": {"index": 0, "function": 5},
}


@pytest.mark.parametrize("what", WRONG)
def test_an_entry_of_the_wrong_shape(what: str) -> None:
    """It is malformed, which is retryable."""
    assert fed(chat(tool_calls=[WRONG[what]])).outcome == ("stream_malformed", True)


def test_what_is_kept_of_a_call() -> None:
    """Fields that a server may want back stay; the index does not, which only a stream has."""
    signed = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    made = turn(
        chat(tool_calls=[entry(0, "a", "f", "{}") | {"type": "function"} | signed]),
        chat(tool_calls=[entry(0) | {"type": None}]),
    )
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}, **signed}
    assert made.payload == {"role": "assistant", "tool_calls": [call]}
    assert sent(OPENAI_CHAT, exchange(made, ("ok", "1")))[0] == made.payload | {"content": ""}


def test_a_call_of_a_custom_tool() -> None:
    """Its free text, shown as it comes, is its one argument; a server may leave out its type."""
    pieces: list[dict[str, Any]] = [
        {"index": 0, "id": "a", "type": "custom", "custom": {"name": "sql", "input": ""}},
        {"index": 0, "custom": {"input": "SELECT "}},
        {"index": 1, "id": "b", "custom": {"name": "sql", "input": "{"}},
        {"index": 0, "type": None, "custom": {"input": "1"}},
        entry(2, "c", "f", "{}"),
    ]
    brought = fed(*(chat(tool_calls=[one]) for one in pieces))
    made = brought.turn
    assert made is not None
    assert brought.calls == [("a", "sql", "SELECT 1"), ("b", "sql", "{"), ("c", "f", "{}")]
    assert [(one.id, one.arguments) for one in made.calls] == [
        ("a", {"input": "SELECT 1"}),
        ("b", {"input": "{"}),
        ("c", {}),
    ]
    assert made.payload["tool_calls"] == [
        {"id": "a", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}},
        {"id": "b", "type": "custom", "custom": {"name": "sql", "input": "{"}},
        {"id": "c", "function": {"name": "f", "arguments": "{}"}},
    ]


def test_a_call_of_a_kind_that_is_none() -> None:
    """It is malformed, as it is where it was not streamed."""
    made = turn(chat(tool_calls=[entry(0, "a", "f", "{}") | {"type": "custom"}]))
    assert made.fault == "tool_calls[0].custom: it must be an object, not null"


def test_the_legacy_form() -> None:
    """Alone it is malformed; beside tool_calls it says the same again, and is not sent back."""
    legacy = [chat(function_call={"name": "f", "arguments": text}) for text in ("{", "}")]
    both = [
        chat(function_call={"name": "f", "arguments": text}, tool_calls=[entry(0, "a", "f", text)])
        for text in ("{", "}")
    ]
    alone, beside = turn(*legacy), turn(*both)
    assert (alone.kind, alone.payload["function_call"]) == ("malformed", {"name": "f", "arguments": "{}"})
    assert asked(beside) == [("a", "f", "{}")]
    assert "function_call" not in sent(OPENAI_CHAT, exchange(beside, ("ok", "1")))[0]


# --- the rest of a message ------------------------------------------------------------------------------


def test_what_is_kept_of_a_message() -> None:
    """Text grows where it is known to come in pieces; other text is whole; null and blank say nothing."""
    made = turn(
        chat(role="assistant", channel="analysis", audio={"id": "x", "data": "QU", "transcript": "Hel"}, odd=None),
        chat(role="assistant", channel="analysis", audio={"data": "JD", "transcript": "lo"}, citations=["a"]),
        chat(role="", channel=None, content="So", audio={"expires_at": 5}, citations=["b", {"c": 1}], flag=False),
        stop="stop",
    )
    assert made.payload == {
        "role": "assistant",
        "channel": "analysis",
        "audio": {"id": "x", "data": "QUJD", "transcript": "Hello", "expires_at": 5},
        "citations": ["a", "b", {"c": 1}],
        "content": "So",
        "flag": False,
    }


def test_details_of_reasoning() -> None:
    """Items with an index are pieces of one item of their type, the others are whole."""
    made = turn(
        chat(reasoning_details=[{"type": "reasoning.text", "text": "H", "index": 0, "format": "x"}]),
        chat(reasoning_details=[{"type": "reasoning.text", "text": "m", "index": 0, "format": "x", "signature": None}]),
        chat(
            reasoning_details=[
                {"type": "reasoning.text", "signature": "c2ln", "index": 0},
                {"type": "reasoning.encrypted", "data": "QUJD", "index": 0},
                {"type": "reasoning.summary", "summary": "S", "index": 1},
                {"type": "reasoning.summary", "summary": "T"},
            ]
        ),
        chat(content="So"),
        stop="stop",
    )
    assert made.payload["reasoning_details"] == [
        {"type": "reasoning.text", "text": "Hm", "index": 0, "format": "x", "signature": "c2ln"},
        {"type": "reasoning.encrypted", "data": "QUJD", "index": 0},
        {"type": "reasoning.summary", "summary": "S", "index": 1},
        {"type": "reasoning.summary", "summary": "T"},
    ]


def test_a_field_that_changes_its_kind() -> None:
    """What comes last is kept; what is then no message is malformed by its name."""
    made = turn(chat(content="So", odd={"a": 1}), chat(content=5, odd=[2]), chat(odd="x"), stop="stop")
    assert (made.fault, made.payload) == (
        "content: it must be a string, not int",
        {"role": "assistant", "content": 5, "odd": "x"},
    )


# --- the choice, its end and its usage --------------------------------------------------------------------


def test_only_the_first_choice_is_read() -> None:
    """Others are other answers to the same question."""
    other = {"choices": [{"index": 1, "delta": {"content": "No"}, "finish_reason": "length"}]}
    both = {"choices": [*other["choices"], {"index": None, "delta": {"content": "So"}}]}
    assert fed(other, both, other, stop="stop").outcome == ("final", "So", [])
    assert feed(OPENAI_CHAT.stream(), [other]).outcome == ("stream_cut", True)


@pytest.mark.parametrize(
    ("indexes", "read"),
    [
        ((1, 0), "B"),
        (("1", "0"), "B"),
        ((None, None), "A"),
        (("", 1), "A"),
        ((1, None), "B"),
        ((0, 0), "AB"),
        ((1, 2), ""),
    ],
)
def test_which_choice_is_read(indexes: tuple[Any, Any], read: str) -> None:
    """That of index 0, a number or text, wherever it stands; where none says its index, the first one."""
    choices = [{"index": index, "delta": {"content": text}} for index, text in zip(indexes, ("A", "B"), strict=True)]
    assert fed({"choices": choices}, stop="stop").shown("text") == read


def test_that_a_reply_was_cut_is_not_taken_back_by_more_of_it() -> None:
    """What follows a finish reason of length needs an end of its own, whose reason does not replace it."""
    chunks = [chat("length", content="So"), chat(tool_calls=[entry(0, "a", "f", "{}")])]
    made = feed(OPENAI_CHAT.stream(), [*chunks, chat("tool_calls")]).turn
    assert feed(OPENAI_CHAT.stream(), chunks).outcome == ("stream_cut", True)
    assert made is not None
    assert (made.kind, made.stop) == ("truncated", "length")


@pytest.mark.parametrize(
    ("stops", "kept"),
    [
        (["tool_calls", None], "tool_calls"),
        (["tool_calls", ""], "tool_calls"),
        (["tool_calls", "tool_calls"], "tool_calls"),
        (["stop", "tool_calls"], "tool_calls"),
        (["tool_calls", "length"], "length"),
        (["length", "stop"], "length"),
        (["content_filter", "tool_calls"], "content_filter"),
        (["odd", None], "odd"),
    ],
)
def test_a_finish_reason_said_again(stops: list[str | None], kept: str) -> None:
    """The last one counts, blank and null say nothing, and that a reply was cut is not taken back."""
    made = feed(OPENAI_CHAT.stream(), [chat(content="So"), *map(chat, stops)]).turn
    assert made is not None
    assert made.stop == kept


def test_a_finish_reason_that_is_no_text() -> None:
    """It might have meant a cut: the turn is malformed, and another reason does not mend it."""
    wrong = chat(5)  # type: ignore[arg-type]  # on purpose
    made = feed(OPENAI_CHAT.stream(), [chat(content="So"), wrong]).turn
    assert made is not None
    assert made.fault == "choices[0].finish_reason: it must be a string, not int"
    assert feed(OPENAI_CHAT.stream(), [chat(content="So"), wrong, chat("stop")]).outcome == ("stream_malformed", True)


def test_what_follows_the_finish_reason_still_counts() -> None:
    """Usage comes after it, and so may text, which needs an end of its own: without one the reply was cut."""
    used = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}
    chunks = [chat("stop", content="So"), chat(content="."), {"choices": [], "usage": used, "model": "m"}]
    assert feed(OPENAI_CHAT.stream(), chunks).outcome == ("stream_cut", True)
    made = feed(OPENAI_CHAT.stream(), [*chunks, DONE]).turn
    assert made is not None
    assert (made.text, made.usage) == ("So.", Usage(input_tokens=7, output_tokens=3, cached_tokens=2, model="m"))


def test_where_usage_may_stand() -> None:
    """In a chunk with or without choices, or, from Moonshot, in the choice; the last one is the whole."""
    first, last = {"prompt_tokens": 7, "completion_tokens": 1}, {"prompt_tokens": 7, "completion_tokens": 3}
    late = chat("stop")
    late["choices"][0]["usage"] = last
    places: list[list[Any]] = [
        [chat() | {"usage": first}, {"usage": last}],
        [{"choices": [], "usage": last}, {"usage": None}],
        [late],
    ]
    made = [feed(OPENAI_CHAT.stream(), [chat("stop", content="So"), *chunks]).turn for chunks in places]
    assert [one and one.usage for one in made] == [Usage(input_tokens=7, output_tokens=3)] * 3


def test_an_error_in_the_choice() -> None:
    """OpenRouter says there why a provider behind it stopped."""
    chunk = {"choices": [{"index": 0, "error": {"code": 502, "message": "Bad gateway"}, "finish_reason": "error"}]}
    assert repr(fed(chat(content="So"), chunk).error) == repr(ModelError("502", "Bad gateway"))


# --- message and delta ----------------------------------------------------------------------------------


def test_message_and_delta_say_the_same() -> None:
    """Where a choice has both, or the message comes at the end, nothing is counted twice."""
    delta: dict[str, Any] = {"content": "So", "tool_calls": [entry(0, "a", "f", "{}")]}
    both = {"choices": [{"index": 0, "delta": delta, "message": delta}]}
    end = {"object": "chat.completion", "choices": [{"index": 0, "message": delta, "finish_reason": "tool_calls"}]}
    brought = [fed(both), feed(OPENAI_CHAT.stream(), [chat(**delta), end])]
    assert [one.outcome for one in brought] == [("calls", "So", [("a", "f", "{}")])] * 2
    assert [(one.shown("text"), one.calls) for one in brought] == [("So", [("a", "f", "{}")])] * 2


def test_a_message_in_a_chunk_is_no_whole_reply() -> None:
    """What says that it is a chunk may be a piece; without a delta it says nothing."""
    chunk = {"object": "chat.completion.chunk", "choices": [{"index": 0, "message": {"content": "So"}}]}
    assert feed(OPENAI_CHAT.stream(), [chunk], clean=True).outcome == ("stream_cut", True)


# --- any reply --------------------------------------------------------------------------------------------

TEXTS = st.lists(st.text(max_size=3), max_size=3)
MADE = st.lists(st.tuples(st.sampled_from("fg"), TEXTS), max_size=3)


@given(TEXTS, TEXTS, MADE, st.sampled_from(["index", "id", "both"]), st.booleans(), st.integers(0, 10**6))
def test_any_reply_in_any_pieces(
    thought: list[str], said: list[str], made: list[tuple[str, list[str]]], keys: str, repeats: bool, seed: int
) -> None:
    """Streamed, its pieces mixed at random, it is the turn that it is where it was not streamed, payload and all."""
    dice = random.Random(seed)
    names = [(f"c{place}", name) for place, (name, _) in enumerate(made)]

    def of(place: int, text: str, first: bool) -> dict[str, Any]:
        one, name = names[place]
        one_said = one if first or repeats or keys == "id" else dice.choice([None, ""])
        return entry(None if keys == "id" else place + 1, one_said, name if first or repeats else "", text)

    lanes = [[chat(reasoning=text) for text in thought], [chat(content=text) for text in said]]
    lanes += [[chat(tool_calls=[of(place, text, False)]) for text in pieces] for place, (_, pieces) in enumerate(made)]
    chunks = [chat(tool_calls=[of(place, "", True) for place in range(len(made))])]
    while lanes := [lane for lane in lanes if lane]:
        chunks.append(dice.choice(lanes).pop(0))
    brought = feed(OPENAI_CHAT.stream(), [*chunks, chat("tool_calls")])
    message: dict[str, Any] = {"role": "assistant"} | ({"reasoning": "".join(thought)} if thought else {})
    message |= {"content": "".join(said)} if said else {}
    functions = [
        {"id": one, "function": {"name": name, "arguments": "".join(pieces)}}
        for (one, name), (_, pieces) in zip(names, made, strict=True)
    ]
    message |= {"tool_calls": functions} if functions else {}
    expected = OPENAI_CHAT.decode({"choices": [{"message": message, "finish_reason": "tool_calls"}]})
    assert brought.turn is not None
    assert attrs.evolve(brought.turn, payload_text="") == attrs.evolve(expected, payload_text="")
    assert brought.turn.payload == expected.payload
    shown = (brought.shown("thinking"), brought.shown("text"), brought.calls)
    assert shown == ("".join(thought), expected.text, asked(expected))
