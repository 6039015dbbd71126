"""Messages that a caller hands in: read as the history that they are, refused where they are not paired."""

from __future__ import annotations

import contextlib
import copy
import json
from itertools import permutations
from types import MappingProxyType
from typing import Any

import pytest
from anthropic.types import ToolUseBlock
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessageFunctionToolCall
from openai.types.chat.chat_completion_message_function_tool_call import Function

from loopmachine import History, Loop, Policy, notices, run
from loopmachine.records import Exchange, Final, Note, Turn, UserMessage
from loopmachine.testing import assert_paired
from loopmachine.wire import ANTHROPIC, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES, PLAIN, WIRES, Wire
from loopmachine.wire.base import ProviderWire
from tests.refusals import refused
from tests.test_wire_any_reply import JSON
from tests.test_wire_base import PROVIDERS, REPLIES, deep, every_provider, every_wire, exchange, identified
from tests.test_wire_requests import SCRIPT, played, valid

Message = dict[str, Any]

# --- what is taken --------------------------------------------------------------------------------------------


def goes_on(wire: Wire) -> list[Message]:
    """A conversation of two calls and an answer, and a question after it."""
    return [*valid(wire), *wire.entry(UserMessage("And?"))]


@every_wire
def test_messages_are_the_history_that_they_are(wire: Wire) -> None:
    """What a wire encoded it reads, and encodes again as it was: users, turns with their results, answers."""
    messages = goes_on(wire)
    history, system = wire.history(messages)
    kinds = [type(entry) for entry in history.entries]
    assert (kinds, system) == ([UserMessage, Exchange, Final, UserMessage], None)
    assert wire.encode(history).messages == messages
    assert wire.history(tuple(map(MappingProxyType, messages))) == (history, None)


@every_wire
@settings(deadline=None, max_examples=30)
@given(script=SCRIPT)
def test_whatever_a_run_brought_can_be_handed_in(wire: Wire, script: list[Any]) -> None:
    """The messages of any run, and a question, are read, and sent as they are."""
    result, _ = played(wire, script, Policy(repeated_id="rename", repairs=4))
    messages = wire.encode(result.history.append(UserMessage("And?"))).messages
    history, _ = wire.history(messages)
    again = wire.encode(history).messages
    assert refused(wire, again) == ""
    assert again == messages


SYSTEM: dict[Wire, list[Message]] = {
    PLAIN: [{"kind": "system", "text": "Be brief."}, {"kind": "system", "text": "Be kind."}],
    OPENAI_CHAT: [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
    ],
    OPENAI_RESPONSES: [
        {"role": "system", "content": "Be brief."},
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be kind."}]},
    ],
}


@pytest.mark.parametrize("wire", list(SYSTEM), ids=repr)
def test_system_text_among_the_messages_is_the_runs(wire: Wire) -> None:
    """It stands in front, and is sent where the wire has its place; none can be given beside it, nor later."""
    said = wire.entry(UserMessage("go"))
    history, system = wire.history([*SYSTEM[wire], *said])
    assert (list(history), system) == ([{"kind": "user", "text": "go"}], "Be brief.\n\nBe kind.")
    assert Loop([*SYSTEM[wire], *said], wire=wire, at=0.0).system == system
    with pytest.raises(ValueError, match="system: the messages of the prompt hold system text, beside which none can"):
        Loop([*SYSTEM[wire], *said], wire=wire, system="Be quick.", at=0.0)
    with pytest.raises(ValueError, match=r"messages\[1\]: system text stands in front of all other messages"):
        wire.history([*said, *SYSTEM[wire]])


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}
#: A question with an image, and its text; and one of which nothing is text.
PICTURED: dict[Wire, tuple[Message, Message]] = {
    ANTHROPIC: (
        {"role": "user", "content": [{"type": "text", "text": "What?"}, {"type": "image", "source": {"data": "iVBO"}}]},
        {"role": "user", "content": [{"type": "image", "source": {"data": "iVBO"}}]},
    ),
    OPENAI_CHAT: (
        {"role": "user", "content": [{"type": "text", "text": "What?"}, IMAGE], "name": "anna"},
        {"role": "user", "content": [IMAGE]},
    ),
    OPENAI_RESPONSES: (
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "What?"}, {"type": "input_image", "image_url": "x"}],
        },
        {"role": "user", "content": [{"type": "input_image", "image_url": "x"}]},
    ),
    GEMINI: (
        {"role": "user", "parts": [{"text": "What?"}, {"inlineData": {"mimeType": "image/png", "data": "iVBO"}}]},
        {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "iVBO"}}]},
    ),
}


@pytest.mark.parametrize("wire", list(PICTURED), ids=repr)
def test_what_a_user_said_in_more_than_text(wire: Wire) -> None:
    """It is sent over its wire as it is, over PLAIN as its text, which is said once; a text is counted as one."""
    messages = list(PICTURED[wire])
    told: list[Any] = []
    history, _ = wire.history(copy.deepcopy(messages))
    texts = ["What?", "(this is no text)"]
    assert (wire.encode(history).messages, [one["text"] for one in history]) == (messages, texts)
    run(lambda seen: list(seen) and REPLIES[PLAIN]("x", 0, None), history=history, wire=PLAIN, observe=told.append)
    (warned,) = [one.text for one in told if isinstance(one, notices.Warning)]
    assert warned.startswith(f"history: what came over {wire.name!r} is sent over 'plain' without what that has no")
    assert PLAIN.encode(history) == PLAIN.encode(History(map(UserMessage, texts)))


def shown(wire: Wire, *parts: str | tuple[str, str]) -> Message:
    """What a user said in texts and images, each image its media type and data in base64."""
    content: list[Message] = []
    for part in parts:
        kind, data = ("", part) if isinstance(part, str) else part
        url = f"data:{kind};base64,{data}"
        texts: dict[Wire, Message] = {
            OPENAI_RESPONSES: {"type": "input_text", "text": data},
            GEMINI: {"text": data},
        }
        images: dict[Wire, Message] = {
            ANTHROPIC: {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}},
            OPENAI_CHAT: {"type": "image_url", "image_url": {"url": url}},
            OPENAI_RESPONSES: {"type": "input_image", "image_url": url},
            GEMINI: {"inlineData": {"mimeType": kind, "data": data}},
        }
        content.append(images[wire] if kind else texts.get(wire, {"type": "text", "text": data}))
    return {"role": "user", "parts" if wire is GEMINI else "content": content}


CAT, DOG = ("image/png", "iVBO"), ("image/gif", "R0lG")


@pytest.mark.parametrize(("wire", "other"), list(permutations(PROVIDERS, 2)), ids=repr)
def test_images_of_the_user_move_with_the_history(wire: Wire, other: Wire) -> None:
    """In their order among the texts, to every wire that carries them; the message is taken as that wire's own."""
    for parts in (("A cat:", CAT, "Which?"), (CAT,)):
        messages = other.encode(wire.history([shown(wire, *parts)])[0]).messages
        assert (messages, refused(other, messages)) == ([shown(other, *parts)], "")
        assert other.history(messages)[0][0] == wire.history([shown(wire, *parts)])[0][0]


@pytest.mark.parametrize("wire", PROVIDERS, ids=repr)
def test_what_no_other_wire_can_send_of_a_user_is_left_out(wire: Wire) -> None:
    """An image of a kind that the wire does not take, or that is at another place, and what is no image at all."""
    moved = [shown(wire, "So:", DOG, CAT), shown(wire, "So:", DOG)]
    both = GEMINI.encode(wire.history(moved)[0]).messages
    own = shown(GEMINI, "So:", DOG, CAT), shown(GEMINI, "So:", DOG)
    left = shown(GEMINI, "So:", CAT), shown(GEMINI, "So:")
    assert tuple(both) == (own if wire is GEMINI else left)
    elsewhere: dict[Wire, list[Message]] = {
        ANTHROPIC: [{"type": "image", "source": {"type": "url", "url": "https://x"}}, {"type": "document"}],
        OPENAI_CHAT: [{"type": "image_url", "image_url": {"url": "https://x"}}, {"type": "input_audio"}],
        OPENAI_RESPONSES: [{"type": "input_image", "image_url": "https://x"}, {"type": "input_file"}],
        GEMINI: [{"fileData": {"fileUri": "https://x"}}, {"inlineData": {"mimeType": "audio/wav", "data": "iVBO"}}],
    }
    field, message = "parts" if wire is GEMINI else "content", shown(wire, "So:")
    told = message | {field: message[field] + elsewhere[wire]}
    for target in WIRES.values():
        text = [told] if target is wire else target.encode(History([UserMessage("So:")])).messages
        assert target.encode(wire.history([told])[0]).messages == text


@every_provider
@pytest.mark.parametrize("payload", ["5", "{}", '{"content":["x"]}', '{"parts":["x"]}', '{"content":"x","parts":5}'])
def test_what_a_user_said_that_is_no_message_of_its_wire_moves_as_its_text(wire: Wire, payload: str) -> None:
    """A record is made by hand of anything, or over a wire of one's own that nobody here knows."""

    class Unnamed(ProviderWire):
        """A class for wires to come, which has no name yet."""

    text = wire.encode(History([UserMessage("So:")])).messages
    for source in ("", "mine", Unnamed.__name__, *(one.name for one in WIRES.values() if one is not wire)):
        assert wire.encode(History([UserMessage("So:", payload, source)])).messages == text


PNG = {"mimeType": "image/png", "data": "iVBO"}
#: What a user said with parts that say nothing, and without them.
BESIDE_NOTHING: dict[Wire, list[tuple[Message, Message]]] = {
    ANTHROPIC: [
        (
            {"role": "user", "content": [text, {"type": "text", "text": "x"}]},
            {"role": "user", "content": [{"type": "text", "text": "x"}]},
        )
        for text in ({"type": "text", "text": ""}, {"type": "text", "text": " "})
    ],
    OPENAI_CHAT: [
        (
            {"role": "user", "content": [IMAGE, {"type": "text", "text": ""}], "name": None},
            {"role": "user", "content": [IMAGE]},
        ),
        ({"role": "user", "content": "x", "name": None}, {"role": "user", "content": "x"}),
    ],
    OPENAI_RESPONSES: [
        (
            {"role": "user", "content": [{"type": "input_text", "text": "\n"}, {"type": "input_text", "text": "x"}]},
            {"role": "user", "content": [{"type": "input_text", "text": "x"}]},
        ),
        ({"role": "user", "content": "x", "id": None}, {"role": "user", "content": "x"}),
    ],
    GEMINI: [
        ({"role": "user", "parts": [part, {"inlineData": PNG}]}, {"role": "user", "parts": [{"inlineData": PNG}]})
        for part in ({}, {"text": ""}, {"text": None}, {"text": " "}, {"thought": True})
    ],
}


@pytest.mark.parametrize("wire", list(BESIDE_NOTHING), ids=repr)
def test_parts_that_say_nothing_are_not_sent(wire: Wire) -> None:
    """Servers refuse them, and nulls; the rest goes as it is."""
    for told, left in BESIDE_NOTHING[wire]:
        messages = wire.encode(wire.history([copy.deepcopy(told)])[0]).messages
        assert (messages, refused(wire, messages)) == ([left], "")


def test_a_blank_text_beside_results_is_left_out() -> None:
    """Nobody said anything: the message is that of the results."""
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "look", "input": {}}]}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "1"}
    told = {"role": "user", "content": [result, {"type": "text", "text": " "}]}
    assert len(ANTHROPIC.history([use, told])[0].entries) == 1


def test_reasoning_without_a_summary() -> None:
    """It is sent with an empty one, which the server wants."""
    said = {"type": "message", "role": "assistant", "content": "x"}
    user = {"role": "user", "content": "go"}
    messages = [user, {"type": "reasoning", "id": "rs", "summary": None}, {"type": "reasoning"}, said, user]
    assert OPENAI_RESPONSES.encode(OPENAI_RESPONSES.history(messages)[0]).messages == [
        user,
        {"type": "reasoning", "id": "rs", "summary": []},
        {"type": "reasoning", "summary": []},
        said,
        user,
    ]


#: A refusal, each with what is sent of it: the same, but that some servers refuse null.
NO = {"role": "assistant", "content": None, "refusal": "No."}
NO_PART = {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
NO_ITEM = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}


@pytest.mark.parametrize(
    ("wire", "no", "sent"),
    [(OPENAI_CHAT, NO, NO | {"content": ""}), (OPENAI_CHAT, NO_PART, NO_PART), (OPENAI_RESPONSES, NO_ITEM, NO_ITEM)],
    ids=["field", "part", "item"],
)
def test_a_refusal_is_a_turn_to_go_on_from(wire: Wire, no: Message, sent: Message) -> None:
    """It goes back in place, and over another wire as its text."""
    user = {"role": "user", "content": "go"}
    history, _ = wire.history([user, no, user])
    messages = wire.encode(history).messages
    assert (messages, refused(wire, messages)) == ([user, sent, user], "")
    assert list(history)[1] == {"kind": "final", "text": "No."}
    assert ANTHROPIC.encode(history).messages[1] == {"role": "assistant", "content": [{"type": "text", "text": "No."}]}


def test_notes_outcomes_and_blocks_of_plain_messages() -> None:
    """What a PLAIN history says of itself is read in full."""
    blocks = [{"kind": "image", "media_type": "image/png", "data": "iVBO"}]
    messages: list[Message] = [
        {"kind": "user", "text": "go"},
        {"kind": "note", "text": "It could not be used."},
        {"kind": "call", "id": "a", "name": "look", "arguments": {"n": 1}},
        {"kind": "call", "id": "b", "name": "look", "arguments": {}},
        {"kind": "tool_result", "id": "a", "content": "x", "outcome": "denied"},
        {"kind": "tool_result", "id": "b", "content": "y", "outcome": "ok", "blocks": blocks},
    ]
    history, _ = PLAIN.history(messages)
    assert (list(history), type(history.entries[1])) == (messages, Note)
    unnamed = PLAIN.history([*messages[:4], messages[4] | {"outcome": "ok"}, messages[5]])[0]
    del messages[4]["outcome"]
    assert PLAIN.history(messages)[0] == unnamed


def test_an_answer_in_the_short_form_of_the_responses_api() -> None:
    """The assistant's message may be text without items around it, and goes back as it is."""
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "Hm."},
        {"role": "user", "content": "And?"},
    ]
    history, _ = OPENAI_RESPONSES.history(messages)
    assert [one["kind"] for one in history] == ["user", "final", "user"]
    assert OPENAI_RESPONSES.encode(history).messages == [messages[0], {"type": "message"} | messages[1], messages[2]]


def test_results_in_other_shapes() -> None:
    """Text in parts, an error, a response with fields of its own; results may come in another order than the calls."""
    uses = [{"type": "tool_use", "id": one, "name": "look", "input": {}} for one in "ab"]
    failed = {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "no"}], "is_error": True}
    silent = {"type": "tool_result", "tool_use_id": "a"}
    ours = {"role": "assistant", "content": uses}, {"role": "user", "content": [failed, silent]}
    (entry,) = ANTHROPIC.history(ours)[0].entries
    assert [(one.id, one.content, one.outcome) for one in entry.results] == [("a", "", "ok"), ("b", "no", "failed")]
    responses: list[Message] = [
        {"result": "1"},
        {"output": [1]},
        {"error": "no"},
        {"sum": 1},
        {"result": 1, "error": 2},
    ]
    functions = [{"functionCall": {"name": "look"}}] * 5
    answers = [{"function_response": {"name": "look", "response": one}} for one in responses]
    (entry,) = GEMINI.history([{"role": "model", "parts": functions}, {"parts": answers}])[0].entries
    assert [(one.content, one.outcome) for one in entry.results] == [
        ("1", "ok"),
        ("[1]", "ok"),
        ("no", "failed"),
        ('{"sum":1}', "ok"),
        ('{"result":1,"error":2}', "ok"),
    ]
    assert len({one.id for one in entry.results}) == 5
    chat = [
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "look"}}]},
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "1"}]},
    ]
    (entry,) = OPENAI_CHAT.history(chat)[0].entries
    assert entry.results[0].content == "1"
    items = [
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "1"}]},
    ]
    (entry,) = OPENAI_RESPONSES.history(items)[0].entries
    assert entry.results[0].content == "1"


def functions(*names: str, **fields: Any) -> Message:
    """What a model of Gemini's asks for, without ids."""
    return {"role": "model", "parts": [{"functionCall": {"name": name, **fields}} for name in names]}


def responses(*told: tuple[str, str], **fields: Any) -> Message:
    """The results of these names."""
    parts = [{"functionResponse": {"name": name, "response": {"result": text}, **fields}} for name, text in told]
    return {"role": "user", "parts": parts}


def test_results_without_ids_are_paired_by_their_names() -> None:
    """Of two calls of one name the first result is the first's; the results are sent in the order of the calls."""
    asked, told = functions("look", "find", "look"), [("find", "1"), ("look", "2"), ("look", "3")]
    history, _ = GEMINI.history([asked, responses(*told)])
    (entry,) = history.entries
    assert [(one.name, one.content) for one in entry.results] == [("look", "2"), ("find", "1"), ("look", "3")]
    answered = responses(("look", "2"), ("find", "1"), ("look", "3"))
    assert GEMINI.encode(history).messages[-2:] == [asked, answered]
    assert GEMINI.history([asked, responses(*told[:1]), responses(*told[1:])])[0] == history


@pytest.mark.parametrize(
    ("asked", "told", "says"),
    [
        (functions("look"), responses(("find", "1")), "'' (find)"),
        (functions("look", "find"), responses(("look", "1"), ("look", "2")), "'' (look)"),
        (functions("look", id="a"), responses(("find", "1"), id="a"), "'a' (find)"),
    ],
)
def test_a_result_of_a_name_that_no_waiting_call_has(asked: Message, told: Message, says: str) -> None:
    """It is refused, as ``assert_paired`` refuses it."""
    with pytest.raises(ValueError, match="messages") as refusal:
        GEMINI.history([asked, told])
    assert str(refusal.value) == f"messages[1]: {says} answers no call that waits for its result"
    with pytest.raises(AssertionError):
        assert_paired([asked, told])


#: The message that asks for one call, "a" of "look".
ASKED: dict[Wire, Message] = {
    ANTHROPIC: {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "look", "input": {}}]},
    OPENAI_CHAT: {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
    },
    OPENAI_RESPONSES: {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"},
    GEMINI: functions("look", id="a"),
}


def told(wire: Wire, *parts: Any) -> Message:
    """Its result in these parts; on Gemini's wire beside the text "So."."""
    block = {"type": "tool_result", "tool_use_id": "a", "content": list(parts), "is_error": False}
    messages: dict[Wire, Message] = {
        ANTHROPIC: {"role": "user", "content": [block]},
        OPENAI_CHAT: {"role": "tool", "tool_call_id": "a", "content": list(parts)},
        OPENAI_RESPONSES: {"type": "function_call_output", "call_id": "a", "output": list(parts)},
        GEMINI: responses(("look", "So."), id="a", parts=list(parts)),
    }
    return messages[wire]


def pictured(wire: Wire, kind: str = "image/png", data: Any = "iVBO") -> Message:
    """A part of a result that is an image."""
    parts: dict[Wire, Message] = {
        ANTHROPIC: {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}},
        OPENAI_CHAT: {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}},
        OPENAI_RESPONSES: {"type": "input_image", "image_url": f"data:{kind};base64,{data}"},
        GEMINI: {"inlineData": {"mimeType": kind, "data": data}},
    }
    return parts[wire]


TEXTS: dict[Wire, list[Message]] = {
    ANTHROPIC: [{"type": "text", "text": "So."}],
    OPENAI_CHAT: [{"type": "text", "text": "So."}],
    OPENAI_RESPONSES: [{"type": "input_text", "text": "So."}],
    GEMINI: [],
}


@pytest.mark.parametrize("wire", PROVIDERS, ids=repr)
def test_images_in_a_result_are_kept(wire: Wire) -> None:
    """They are blocks of the history, which goes back with them where the wire takes them and else says so."""
    messages = [ASKED[wire], told(wire, *TEXTS[wire], pictured(wire))]
    history, _ = wire.history(messages)
    (result,) = history.entries[0].results
    image = {"kind": "image", "media_type": "image/png", "data": "iVBO"}
    assert (result.content, result.blocks) == ("So.", [{"kind": "text", "text": "So."}, image])
    unsent = "So.\n[images not sent, since this result can only be text: 1]"
    messages[1] |= {"content": unsent} if wire is OPENAI_CHAT else {}
    assert wire.encode(history).messages[-2:] == messages


@pytest.mark.parametrize("wire", PROVIDERS, ids=repr)
@pytest.mark.parametrize(
    ("kind", "data", "says"),
    [
        ("image/png", "", "ImageBlock: data must be the bytes of an image, not none"),
        ("image/bmp", "iVBO", "ImageBlock: media_type must be one of image/png, "),
        ("image/png", "iV-_", "Only base64 data is allowed"),
    ],
)
def test_an_image_in_a_result_that_can_not_be_kept(wire: Wire, kind: str, data: str, says: str) -> None:
    """It is refused, and the sentence says what is wrong with it."""
    fields: dict[Wire, str] = {OPENAI_RESPONSES: "output[0]", GEMINI: "functionResponse.parts[0]"}
    field = fields.get(wire, "content[0]")
    with pytest.raises(ValueError, match="messages") as refusal:
        wire.history([ASKED[wire], told(wire, pictured(wire, kind, data))])
    must = "an image in a result that is handed in must hold its data: "
    assert str(refusal.value).startswith(f"messages[1]: {field}: {must}{says}")


#: Parts of a result whose content is at another place, or that are no text and no image.
ELSEWHERE: list[tuple[Wire, Any, str]] = [
    *(
        (ANTHROPIC, {"type": "image", "source": source}, "content[0]: an image in a result that is handed in must hold")
        for source in ({"type": "url", "url": "https://x"}, {"type": "file", "file_id": "f"}, None)
    ),
    (ANTHROPIC, {"type": "document"}, "content[0].type: a result that is handed in holds 'text' or 'image', not 'doc"),
    (ANTHROPIC, {"type": "text"}, "content[0].text: it is missing"),
    (ANTHROPIC, {}, "content[0].type: it is missing"),
    *(
        (
            OPENAI_CHAT,
            {"type": "image_url", "image_url": url},
            "content[0]: an image in a result that is handed in must",
        )
        for url in ({"url": "https://x"}, "data:image/png;base64,iVBO", None)
    ),
    (OPENAI_CHAT, {"type": "file"}, "content[0].type: a result that is handed in holds 'text' or 'image_url', not 'f"),
    *(
        (
            OPENAI_RESPONSES,
            {"type": "input_image"} | held,
            "output[0]: an image in a result that is handed in must hold",
        )
        for held in ({"image_url": "https://x"}, {"file_id": "f"}, {"image_url": None})
    ),
    (OPENAI_RESPONSES, {"type": "input_file"}, "output[0].type: a result that is handed in holds 'input_text' or 'in"),
    *(
        (
            GEMINI,
            part,
            "functionResponse.parts[0]: an image in a result that is handed in must hold its data: data: it ",
        )
        for part in ({"fileData": {"fileUri": "x"}}, {"inlineData": None}, {})
    ),
]


@pytest.mark.parametrize(("wire", "part", "says"), ELSEWHERE)
def test_what_a_result_can_not_hold_is_not_left_out(wire: Wire, part: Any, says: str) -> None:
    """It is refused with a sentence, where it was lost without one."""
    with pytest.raises(ValueError, match="messages") as refusal:
        wire.history([ASKED[wire], told(wire, part)])
    assert str(refusal.value).startswith(f"messages[1]: {says}")


def test_what_stands_after_the_results_in_their_message() -> None:
    """It is what the user said next."""
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "look", "input": {}}]}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "1"}
    after = {"type": "text", "text": "hurry"}
    history, _ = ANTHROPIC.history([use, {"role": "user", "content": [result, after]}])
    assert [type(entry) for entry in history.entries] == [Exchange, UserMessage]
    assert ANTHROPIC.encode(history).messages[2:] == [
        {"role": "user", "content": [result | {"is_error": False}]},
        {"role": "user", "content": [after]},
    ]


# --- a run of them --------------------------------------------------------------------------------------------


@every_wire
def test_a_run_goes_on_from_the_messages(wire: Wire) -> None:
    """The model gets them as they are, after the history that was handed in beside them; JSON brings the run back."""
    before = History([UserMessage("before"), Final(Turn("x"))])
    messages, seen = goes_on(wire), []

    def model(given: Any, tools: Any) -> Any:
        seen.append(list(given))
        return REPLIES[wire]("Done.", 0, None)

    result = run(model, messages, wire=wire, history=before)
    assert (seen, result.text) == ([wire.encode(before).messages + messages], "Done.")
    assert Loop.from_json(result.loop.to_json()).snapshot == result.loop.snapshot


def begun_anew(wire: Wire) -> list[Message]:
    """Two turns of a provider that restarts its ids, the second with one of them twice, and their results."""
    first, second = (wire.decode(REPLIES[wire]("", calls, None)) for calls in (1, 2))
    twice = identified(second, "c0", "c0")
    return [
        *wire.entry(UserMessage("go")),
        *wire.entry(exchange(first, ("ok", "1"))),
        *wire.entry(exchange(twice, ("ok", "2"), ("ok", "3"))),
    ]


def brought(history: History) -> list[tuple[str, str]]:
    """The id and content of each result."""
    exchanges = [entry for entry in history.entries if isinstance(entry, Exchange)]
    return [(one.id, one.content) for entry in exchanges for one in entry.results]


@every_wire
@pytest.mark.parametrize("repeated_id", ["answer", "rename"])
def test_ids_that_begin_anew(wire: Wire, repeated_id: str) -> None:
    """Under a policy that bears them each call keeps its result, and is sent with an id of its own."""
    seen: list[list[Message]] = []

    def model(given: Any, tools: Any) -> Any:
        seen.append(list(given))
        return REPLIES[wire]("Done.", 0, None)

    result = run(model, begun_anew(wire), wire=wire, policy=Policy(repeated_id=repeated_id))
    assert brought(result.history) == [("c0", "1"), ("c0_s0_0", "2"), ("c0_s0_1", "3")]
    assert (result.text, refused(wire, seen[0])) == ("Done.", "")
    assert Loop.from_json(result.loop.to_json()).snapshot == result.loop.snapshot


@every_wire
def test_ids_that_begin_anew_are_refused_unless_the_policy_bears_them(wire: Wire) -> None:
    """The sentence says which does; so it is with an id of the history beside them."""
    says = "the id 'c0' was used before; for ids that begin anew there is"
    with pytest.raises(ValueError, match=rf"messages\[\d\]: {says} Policy\(repeated_id=\"rename\"\)"):
        run(bool, begun_anew(wire), wire=wire)
    first = History([exchange(wire.decode(REPLIES[wire]("", 1, None)), ("ok", "1"))])
    messages = [*wire.encode(first).messages, *wire.entry(UserMessage("go"))]
    with pytest.raises(ValueError, match=says):
        run(bool, messages, history=first, wire=wire)
    policy = Policy(repeated_id="rename")
    result = run(lambda given: REPLIES[wire]("Done.", 0, None), messages, history=first, wire=wire, policy=policy)
    assert brought(result.history) == [("c0", "1"), ("c0_s0_0", "1")]


def test_a_history_that_is_none_is_refused_beside_messages() -> None:
    """As it is beside text."""
    with pytest.raises(TypeError, match=r"history must be a History, such as result\.history, not str"):
        run(bool, [{"kind": "user", "text": "go"}], history="go")  # type: ignore[arg-type]  # on purpose


@every_wire
def test_ids_of_the_messages_count_as_used(wire: Wire) -> None:
    """A call that has one of them again ends the run."""
    used = wire.decode(REPLIES[wire]("", 1, None))
    messages = [*wire.entry(UserMessage("go")), *wire.entry(exchange(used, ("ok", "1")))]
    assert run(lambda _: REPLIES[wire]("", 1, None), messages, wire=wire).status == "repeated_call"


# --- what is refused ------------------------------------------------------------------------------------------

USER, ASSISTANT = {"role": "user", "content": "go"}, {"role": "assistant", "content": "x"}
CALLS: Message = {"role": "assistant", "tool_calls": [{"id": one, "function": {"name": "look"}} for one in "ab"]}
TOLD: list[Message] = [{"role": "tool", "tool_call_id": one, "content": "1"} for one in "ab"]
#: What says nothing, and the sentence.
NOTHING: list[tuple[Any, str]] = [
    (None, "messages[0]: content: it is missing"),
    ([], "messages[0]: content: it is blank"),
    ([{"type": "text", "text": " "}], "messages[0]: content: it is blank"),
]
WAIT = "the calls 'a', 'b' have no result; "
FRONT = "nothing goes in front of their results or between them"
LAST = "the last must be the user's, or a result, for the model to go on from"
REFUSED: list[tuple[Wire, list[Any], str]] = [
    (OPENAI_CHAT, [], f"messages: {LAST}"),
    (OPENAI_CHAT, [USER, ASSISTANT], f"messages[1]: {LAST}"),
    (OPENAI_CHAT, [USER, CALLS], f"messages[1]: {WAIT}each has one right after its turn"),
    (OPENAI_CHAT, [CALLS, USER, *TOLD], f"messages[1]: {WAIT}{FRONT}"),
    (OPENAI_CHAT, [CALLS, TOLD[0], USER, TOLD[1]], f"messages[2]: the calls 'b' have no result; {FRONT}"),
    (OPENAI_CHAT, [CALLS, CALLS], f"messages[1]: {WAIT}{FRONT}"),
    (OPENAI_CHAT, [CALLS, TOLD[0], TOLD[0]], "messages[2]: 'a' answers no call that waits for its result"),
    (OPENAI_CHAT, [USER, TOLD[0]], "messages[1]: 'a' answers no call that waits for its result"),
    (OPENAI_CHAT, [CALLS, *TOLD, TOLD[1]], "messages[3]: 'b' answers no call that waits for its result"),
    (OPENAI_CHAT, [CALLS, *TOLD, CALLS], "messages[3]: the id 'a' was used before"),
    (
        OPENAI_CHAT,
        [USER, ASSISTANT | {"content": " "}],
        "messages[1]: it is no turn to go on from: text: it is blank and ",
    ),
    (OPENAI_CHAT, [USER | {"content": " "}], "messages[0]: content: it is blank"),
    *((OPENAI_CHAT, [USER | {"content": told}], says) for told, says in NOTHING),
    (OPENAI_CHAT, [{"role": "user"}], "messages[0]: content: it is missing"),
    (OPENAI_CHAT, [USER | {"content": " ", "name": "anna"}], "messages[0]: content: it is blank"),
    (
        OPENAI_CHAT,
        [USER, ASSISTANT | {"content": None, "refusal": " "}, USER],
        "messages[1]: it is no turn to go on from",
    ),
    *((ANTHROPIC, [USER | {"content": told}], says) for told, says in NOTHING[1:]),
    *(
        (OPENAI_RESPONSES, [USER | {"content": told}], says)
        for told, says in [*NOTHING[:2], ([{"type": "input_text", "text": " "}], NOTHING[2][1])]
    ),
    (GEMINI, [{"parts": []}], "messages[0]: parts: it is blank"),
    (GEMINI, [{"parts": [{}]}], "messages[0]: parts: it is blank"),
    (GEMINI, [{"parts": [{"text": " "}]}], "messages[0]: parts: it is blank"),
    (GEMINI, [{"parts": [{"text": 5}]}], "messages[0]: text: it must be a string, not int"),
    (OPENAI_CHAT, [USER | {"content": 5}], "messages[0]: content: it must be a string, not int"),
    (
        OPENAI_CHAT,
        [{"role": "nobody"}],
        "messages[0]: role: it must be 'system', 'user', 'assistant' or 'tool', not 'no",
    ),
    (OPENAI_CHAT, ["go"], "messages[0]: message: it must be a mapping or an SDK's object, not str"),
    *(
        (wire, [Turn("x")], "messages[0]: message: it must be a mapping or an SDK's object, not Turn")
        for wire in WIRES.values()
    ),
    (OPENAI_CHAT, [USER | {"content": [deep(101)]}], "messages[0]: message: lists and objects nest deeper than 100"),
    (OPENAI_CHAT, [USER | {"content": {1}}], "messages[0]: "),
    (
        ANTHROPIC,
        [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "tool_result", "tool_use_id": "a"}]},
        ],
        f"messages[1]: the calls 'a' have no result; {FRONT}",
    ),
    (
        ANTHROPIC,
        [{"role": "system", "content": "x"}],
        "messages[0]: role: it must be 'user' or 'assistant', not 'system'",
    ),
    (ANTHROPIC, [{"role": "user"}], "messages[0]: content: it must be a list of blocks, not null"),
    (OPENAI_RESPONSES, [{"role": "tool"}], "messages[0]: role: it must be 'system', 'user' or 'assistant', not 'tool'"),
    (
        OPENAI_RESPONSES,
        [USER, {"type": "reasoning"}, {"type": "function_call", "call_id": "a", "name": ""}, USER],
        "messages[1]: it is no turn to go on from: output[1].name: it is blank",
    ),
    *(
        (
            OPENAI_RESPONSES,
            [USER, *({"type": kind} for kind in kinds), USER],
            f"messages[1]: type: {', '.join(map(repr, kinds))} is taken only beside a message of the assistant's, or ",
        )
        for kinds in (["compaction"], ["item_reference"], ["reasoning", "compaction"], ["web_search_call"])
    ),
    (
        OPENAI_RESPONSES,
        [USER, {"type": "computer_call", "call_id": "a"}, USER],
        "messages[1]: it is no turn to go on from: output[0].type: only functions and custom tools can be answered, ",
    ),
    (
        OPENAI_RESPONSES,
        [USER, {"type": 5}, USER],
        "messages[1]: type: 5 is taken only beside a message of the assistant",
    ),
    (
        GEMINI,
        [{"role": "system", "parts": []}],
        "messages[0]: role: it must be 'user', 'model' or 'tool', not 'system'",
    ),
    (GEMINI, [{"role": "user"}], "messages[0]: parts: it must be a list of parts, not null"),
    (GEMINI, [{"parts": [{"functionResponse": {}}]}], "messages[0]: functionResponse.response: it must be an object"),
    (GEMINI, [{"parts": [{"functionResponse": {"response": {}}}]}], "messages[0]: '' answers no call that waits"),
    (PLAIN, [{"kind": "nothing"}], "messages[0]: kind: it must be one of 'system', 'user', 'note', 'text', 'call', "),
    (PLAIN, [{"kind": "user"}], "messages[0]: text: it is missing"),
    (
        PLAIN,
        [{"kind": "text", "text": "x"}, {"kind": "user", "text": "y"}],
        "messages[0]: it is no turn to go on from: ",
    ),
    (
        PLAIN,
        [
            {"kind": "call", "id": "a", "name": "f"},
            {"kind": "tool_result", "id": "a", "content": "", "outcome": "done"},
        ],
        "messages[1]: CallResult: outcome must be one of ok, failed, ",
    ),
]


@pytest.mark.parametrize(("wire", "messages", "says"), REFUSED)
def test_what_is_not_paired_or_of_no_shape_is_refused(wire: Wire, messages: list[Any], says: str) -> None:
    """The sentence names the message and says what would have been right."""
    with pytest.raises(ValueError, match="messages") as refusal:
        wire.history(messages)
    assert str(refusal.value).startswith(says)
    with pytest.raises(ValueError, match="messages"):
        run(bool, messages, wire=wire)


@pytest.mark.parametrize("kind", ["compaction", "item_reference", "web_search_call"])
def test_items_that_stand_beside_a_message_go_back_as_they_are(kind: str) -> None:
    """The server knows what they stand for."""
    messages = [USER, {"type": kind, "id": "x"}, {"type": "message"} | ASSISTANT, USER]
    assert OPENAI_RESPONSES.encode(OPENAI_RESPONSES.history(messages)[0]).messages == messages


def test_a_wire_of_ones_own_may_take_none() -> None:
    """Unless it says how its messages are read, it reads none."""

    class Own(type(PLAIN)):  # type: ignore[misc]  # the class of a wire, which is not public
        name = "own"
        pieces, reply = Wire.pieces, Wire.reply

    with pytest.raises(ValueError, match=r"messages\[0\]: the wire 'own' takes no list of messages"):
        Own().history([{"kind": "user", "text": "go"}])


@pytest.mark.parametrize("wire", [PLAIN, *PROVIDERS], ids=repr)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_any_messages_are_a_history_or_refused(wire: Wire, data: st.DataObject) -> None:
    """Messages that are broken in any place raise nothing but ValueError."""
    messages: Any = goes_on(wire)
    holder, key = messages, data.draw(st.integers(0, len(messages) - 1))
    while isinstance(holder[key], list | dict) and holder[key] and data.draw(st.booleans()):
        holder = holder[key]
        key = data.draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
    holder[key] = data.draw(JSON)
    with contextlib.suppress(ValueError):
        history, _ = wire.history(messages)
        assert wire.encode(history).messages != []


def test_the_wires_are_all_here() -> None:
    """Each of them takes a list of messages."""
    assert [type(wire).pieces is not Wire.pieces for wire in WIRES.values()] == [True] * len(WIRES)


def of_an_sdk(wire: Wire) -> tuple[Message, Message]:
    """A turn that asks for a call as callers append it, with an SDK's objects within, and as it is sent."""
    if wire is ANTHROPIC:
        block = ToolUseBlock(type="tool_use", id="a", name="look", input={})
        return {"role": "assistant", "content": [block]}, ASKED[wire]
    if wire is OPENAI_CHAT:
        function = Function(name="look", arguments="{}")
        asked = ChatCompletionMessageFunctionToolCall(id="a", type="function", function=function)
        return {"role": "assistant", "content": "", "tool_calls": [asked]}, ASKED[wire]
    part = types.Part(
        function_call=types.FunctionCall(id="a", name="look", args={}), thought_signature=b"\xfb\xff\xfe\xfb"
    )
    signed = {"functionCall": {"id": "a", "name": "look", "args": {}}, "thoughtSignature": "+//++w=="}
    return {"role": "model", "parts": (part,)}, {"role": "model", "parts": [signed]}


@pytest.mark.parametrize("wire", [ANTHROPIC, OPENAI_CHAT, GEMINI], ids=repr)
def test_objects_of_an_sdk_within_a_message(wire: Wire) -> None:
    """They are taken as what the server sent, by ``history`` as by ``decode``: a signature in the API's own base64."""
    asked, sent = of_an_sdk(wire)
    result = responses(("look", "So."), id="a") if wire is GEMINI else told(wire, *TEXTS[wire])
    history, _ = wire.history([asked, result])
    assert wire.encode(history).messages[-2] == sent
    turns = [wire.decode(wire.reply([one])) for one in (asked, sent)]
    assert [(turn.calls, turn.payload) for turn in turns] == [(turns[0].calls, turns[1].payload)] * 2


@pytest.mark.parametrize("role", ["user", "tool", "function"])
def test_gemini_results_may_come_from_a_tool(role: str) -> None:
    """As the SDK's own examples call it; they are sent as the API wants them, as the user's."""
    asked = {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]}
    answer = {"functionResponse": {"name": "look", "response": {"result": "seen"}}}
    history, _ = GEMINI.history([GEMINI.entry(UserMessage("go"))[0], asked, {"role": role, "parts": [answer]}])
    sent = GEMINI.encode(history).messages[-1]
    assert (sent["role"], sent["parts"][0]["functionResponse"]["response"]) == ("user", {"result": "seen"})


# --- calls and results where they do not belong ------------------------------------------------------------------

USE = {"type": "tool_use", "id": "q", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "q", "content": "1"}
CHAT_CALL = {"id": "q", "type": "function", "function": {"name": "look", "arguments": "{}"}}
CALL_PART, RESULT_PART = {"functionCall": {"name": "look"}}, {"functionResponse": {"name": "look", "response": {}}}
USED, ANSWERED = "of 'user' holds no 'tool_use' on this wire", "of 'assistant' holds no 'tool_result' on this wire"
#: Messages that hold a call or a result which their role has none of, and what is said.
MISPLACED: list[tuple[Wire, Message, str]] = [
    (
        ANTHROPIC,
        {"role": "user", "content": [{"type": "text", "text": "hi"}, USE]},
        f"content[1].type: a message {USED}",
    ),
    (ANTHROPIC, {"role": "user", "content": [USE]}, f"content[0].type: a message {USED}"),
    (
        ANTHROPIC,
        {"role": "user", "content": [USE | {"type": "mcp_tool_use"}]},
        "content[0].type: a message of 'user' holds no 'mcp_tool_use' on this wire",
    ),
    (
        ANTHROPIC,
        {"role": "assistant", "content": [{"type": "text", "text": "x"}, RESULT]},
        f"content[1].type: a message {ANSWERED}",
    ),
    (
        ANTHROPIC,
        {"role": "assistant", "content": "x", "tool_calls": [CHAT_CALL]},
        "tool_calls: a message of 'assistant' has none on this wire",
    ),
    (
        ANTHROPIC,
        {"role": "user", "content": "x", "tool_call_id": "q"},
        "tool_call_id: a message of 'user' has none on this wire",
    ),
    (
        OPENAI_CHAT,
        {"role": "user", "content": "a", "tool_calls": [CHAT_CALL]},
        "tool_calls: a message of 'user' has none on this wire",
    ),
    (
        OPENAI_CHAT,
        {"role": "user", "content": "a", "function_call": {"name": "f"}},
        "function_call: a message of 'user' has none on this wire",
    ),
    (
        OPENAI_CHAT,
        {"role": "user", "content": "a", "tool_call_id": "q"},
        "tool_call_id: a message of 'user' has none on this wire",
    ),
    (
        OPENAI_CHAT,
        {"role": "assistant", "content": "a", "tool_call_id": "q"},
        "tool_call_id: a message of 'assistant' has none on this wire",
    ),
    (
        OPENAI_CHAT,
        {"role": "system", "content": "a", "tool_calls": [CHAT_CALL]},
        "tool_calls: a message of 'system' has none on this wire",
    ),
    (
        OPENAI_CHAT,
        {"role": "tool", "content": "a", "tool_call_id": "q", "tool_calls": [CHAT_CALL]},
        "tool_calls: a message of 'tool' has none on this wire",
    ),
    (
        OPENAI_CHAT,
        {"role": "assistant", "content": [{"type": "text", "text": "x"}, USE]},
        "content[1].type: a message of 'assistant' holds no 'tool_use' on this wire",
    ),
    (
        OPENAI_CHAT,
        {"role": "user", "content": [RESULT]},
        "content[0].type: a message of 'user' holds no 'tool_result' on this wire",
    ),
    (
        OPENAI_RESPONSES,
        {"role": "user", "content": "a", "tool_calls": [CHAT_CALL]},
        "tool_calls: a message of 'user' has none on this wire",
    ),
    (
        OPENAI_RESPONSES,
        {"role": "assistant", "content": "a", "tool_calls": [CHAT_CALL]},
        "tool_calls: a message of 'assistant' has none on this wire",
    ),
    (
        OPENAI_RESPONSES,
        {"role": "user", "content": [{"type": "function_call", "call_id": "q"}]},
        "content[0].type: a message of 'user' holds no 'function_call' on this wire",
    ),
    (
        OPENAI_RESPONSES,
        {"role": "assistant", "content": [USE]},
        "content[0].type: a message of 'assistant' holds no 'tool_use' on this wire",
    ),
    (
        GEMINI,
        {"role": "user", "parts": [{"text": "hi"}, CALL_PART]},
        "parts[1].functionCall: a part of 'user' has none on this wire",
    ),
    (
        GEMINI,
        {"parts": [{"function_call": {"name": "f"}}]},
        "parts[0].functionCall: a part of 'user' has none on this wire",
    ),
    (
        GEMINI,
        {"role": "tool", "parts": [CALL_PART | RESULT_PART]},
        "parts[0].functionCall: a part of 'tool' has none on this wire",
    ),
    (
        GEMINI,
        {"role": "model", "parts": [{"text": "x"}, RESULT_PART]},
        "parts[1].functionResponse: a part of 'model' has none on this wire",
    ),
    (
        GEMINI,
        {"role": "user", "parts": [{"text": "x"}], "tool_calls": [CHAT_CALL]},
        "tool_calls: a message of 'user' has none on this wire",
    ),
    (
        PLAIN,
        {"kind": "user", "text": "x", "calls": [{"id": "q", "name": "f"}]},
        "calls: a message of 'user' has none on this wire",
    ),
    (
        PLAIN,
        {"kind": "call", "id": "q", "name": "f", "calls": [{"id": "r", "name": "f"}]},
        "calls: a message of 'call' has none on this wire",
    ),
]


@pytest.mark.parametrize(("wire", "message", "says"), MISPLACED, ids=lambda one: one if isinstance(one, str) else "")
def test_a_call_or_a_result_where_its_message_has_none(wire: Wire, message: Message, says: str) -> None:
    """It is refused, for it has no partner that a server would find; nothing of the message is dropped or sent."""
    before, after = wire.entry(UserMessage("go")), wire.entry(UserMessage("on"))
    with pytest.raises(ValueError, match=r"messages\[1\]") as refusal:
        wire.history([*before, message, *after])
    assert str(refusal.value) == f"messages[1]: {says}"


def test_what_a_provider_asks_itself_stays_in_its_messages() -> None:
    """A server's tools are asked and answered in the model's own message."""
    told = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    answer = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [told, answer, {"type": "text", "text": "x"}]},
    ]
    messages.append({"role": "user", "content": "on"})
    assert ANTHROPIC.encode(ANTHROPIC.history(messages)[0]).messages == messages


#: What a user's message holds under the type that another wire has for it.
NEIGHBOURS: list[tuple[Wire, str, str]] = [
    *((OPENAI_RESPONSES, one, "input_text") for one in ("text", "output_text")),
    *((OPENAI_CHAT, one, "text") for one in ("input_text", "output_text")),
    *((ANTHROPIC, one, "text") for one in ("input_text", "output_text")),
    *((OPENAI_RESPONSES, one, "input_image") for one in ("image", "image_url")),
    *((OPENAI_CHAT, one, "image_url") for one in ("image", "input_image")),
    *((ANTHROPIC, one, "image") for one in ("input_image", "image_url")),
]


@pytest.mark.parametrize(("wire", "kind", "right"), NEIGHBOURS, ids=str)
@pytest.mark.parametrize("text", ["hi", None])
def test_a_part_under_the_type_of_another_wire(wire: Wire, kind: str, right: str, text: str | None) -> None:
    """It is refused, by the type that is right there: the server would refuse it, and a move would lose it."""
    ours = "input_text" if wire is OPENAI_RESPONSES else "text"
    message = {"role": "user", "content": [{"type": ours, "text": "So:"}, {"type": kind, "text": text}]}
    with pytest.raises(ValueError, match="messages") as refusal:
        wire.history([message])
    assert str(refusal.value) == f"messages[0]: content[1].type: on this wire it is {right!r}, not {kind!r}"


@pytest.mark.parametrize(
    ("wire", "message", "says"),
    [
        (GEMINI, {"parts": [{"type": "text", "text": "hi"}]}, "parts[0].type: a part of 'user' has none on this wire"),
        (
            OPENAI_CHAT,
            {"role": "system", "content": [{"type": "input_text", "text": "hi"}]},
            "content[0].type: on this wire it is 'text', not 'input_text'",
        ),
        (
            OPENAI_CHAT,
            {"role": "assistant", "content": [{"type": "output_text", "text": "hi"}]},
            "content[0].type: on this wire it is 'text', not 'output_text'",
        ),
        (
            OPENAI_RESPONSES,
            {"role": "system", "content": [{"type": "text", "text": "hi"}]},
            "content[0].type: on this wire it is 'input_text', not 'text'",
        ),
        (
            OPENAI_RESPONSES,
            {"role": "assistant", "content": [{"type": "input_text", "text": "hi"}]},
            "content[0].type: on this wire it is 'output_text', not 'input_text'",
        ),
        (
            ANTHROPIC,
            {"role": "assistant", "content": [{"type": "output_text", "text": "hi"}]},
            "content[0].type: on this wire it is 'text', not 'output_text'",
        ),
    ],
    ids=str,
)
def test_a_type_of_another_wire_in_any_message(wire: Wire, message: Message, says: str) -> None:
    """So it is in system text and in what the model said."""
    with pytest.raises(ValueError, match="messages") as refusal:
        wire.history([message])
    assert str(refusal.value) == f"messages[0]: {says}"


@pytest.mark.parametrize("wire", PROVIDERS, ids=repr)
@pytest.mark.parametrize("odd", [float("nan"), float("inf"), float("-inf")])
def test_no_numbers_that_are_handed_in_are_sent_as_json(wire: Wire, odd: float) -> None:
    """As null, in what the user said and in what the model said."""
    field = "parts" if wire is GEMINI else "content"
    said = shown(wire, "So:")
    said[field][0]["odd"] = {"x": [odd]}
    turn = [one | {"odd": odd} for one in wire.encode(History([UserMessage("q"), Final(Turn("x"))])).messages[1:]]
    messages = wire.encode(wire.history([said, *turn, said])[0]).messages
    json.dumps(messages, allow_nan=False)
    assert messages[0][field][0]["odd"] == messages[-1][field][0]["odd"] == {"x": [None]}
    assert len(messages) == 3
