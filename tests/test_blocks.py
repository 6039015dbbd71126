"""Content blocks: what a tool may return, what a result keeps of it, and what each wire carries."""

from __future__ import annotations

import base64
import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from loopmachine import (
    ANTHROPIC,
    OPENAI_CHAT,
    PLAIN,
    Budget,
    CallResult,
    ImageBlock,
    Loop,
    Policy,
    Result,
    TextBlock,
    Turn,
    replay,
    run,
)
from loopmachine.records import Call, Exchange
from loopmachine.review import shown
from loopmachine.rules import same_exchange
from loopmachine.table import TOOL_LOOP
from loopmachine.tools.results import MOST_IMAGE_BYTES, block_items, in_blocks
from loopmachine.wire import Wire
from tests.drivers import DONE, call, calls
from tests.test_tools_results import Text, fail
from tests.test_wire_base import sent

PNG = b"\x89PNG\r\n"
IMAGE = ImageBlock(PNG, "image/png")
JPEG = ImageBlock(b"\xff\xd8null", "image/jpeg")
MARK = "[image/png, 6 bytes]"


def text(words: str) -> dict[str, Any]:
    """The plain form of a text block."""
    return {"kind": "text", "text": words}


def image(of: ImageBlock) -> dict[str, Any]:
    """The plain form of an image."""
    return {"kind": "image", "media_type": of.media_type, "data": base64.b64encode(of.data).decode()}


# --- the blocks -------------------------------------------------------------------------------------------

KNOWN = "image/png, image/jpeg, image/gif, image/webp"


@pytest.mark.parametrize(
    ("kind", "fields", "faults"),
    [
        (TextBlock, (5,), "TextBlock: text must be a string, not int"),
        (TextBlock, (None,), "TextBlock: text must be a string, not NoneType"),
        (ImageBlock, ("", "image/png"), "ImageBlock: data must be the bytes of an image, not str"),
        (ImageBlock, (b"", "image/png"), "ImageBlock: data must be the bytes of an image, not none"),
        (
            ImageBlock,
            (bytearray(PNG), "image/png"),
            "ImageBlock: data must be the bytes of an image, not bytearray",
        ),
        (ImageBlock, (PNG, ""), f"ImageBlock: media_type must be one of {KNOWN}, not ''"),
        (ImageBlock, (PNG, "image/jpg"), f"ImageBlock: media_type must be one of {KNOWN}, not 'image/jpg'"),
        (ImageBlock, (PNG, []), f"ImageBlock: media_type must be one of {KNOWN}, not []"),
        (
            ImageBlock,
            (None, None),
            "ImageBlock: data must be the bytes of an image, not NoneType; "
            f"media_type must be one of {KNOWN}, not None",
        ),
    ],
)
def test_a_block_that_no_wire_could_carry_is_refused(kind: Any, fields: Any, faults: str) -> None:
    """Every field that can't be is named, with what would have been right."""
    with pytest.raises(ValueError, match="Block: ") as raised:
        kind(*fields)
    assert str(raised.value) == faults


def test_a_block_is_frozen_and_prints_short() -> None:
    """Its fields can't be set, and of an image the number of its bytes is shown."""
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        IMAGE.data = b"x"  # type: ignore[misc]
    assert (repr(ImageBlock(bytes(10**6), "image/gif")), repr(TextBlock("hi"))) == (
        "ImageBlock(data=<1000000 bytes>, media_type='image/gif')",
        "TextBlock(text='hi')",
    )


# --- what a result keeps ----------------------------------------------------------------------------------


class Own(list[Any]):
    """A list that can't be gone through."""

    __iter__ = fail


PAIR = (TextBlock("Here:"), IMAGE)


@pytest.mark.parametrize("value", [[], (), [1], ["text"], {"a": IMAGE}, [PAIR], Own(PAIR), IMAGE.data, TextBlock, b""])
def test_what_holds_no_block_at_its_top_is_none(value: Any) -> None:
    """A block inside an object or an inner list is data, as any record is."""
    assert block_items(value) == ()


LEFT_OUT = f"[image/gif, {MOST_IMAGE_BYTES + 1} bytes: left out, a result carries at most 20000000 bytes of images]"


@pytest.mark.parametrize(
    ("value", "content", "blocks"),
    [
        (TextBlock("hi"), "hi", [text("hi")]),
        (IMAGE, MARK, [image(IMAGE)]),
        (PAIR, f"Here:\n{MARK}", [text("Here:"), image(IMAGE)]),
        (
            [JPEG, IMAGE, JPEG],
            f"[image/jpeg, 6 bytes]\n{MARK}\n[image/jpeg, 6 bytes]",
            [*map(image, (JPEG, IMAGE, JPEG))],
        ),
        (["a", IMAGE, {"b": 1}], f'a\n{MARK}\n{{"b":1}}', [text("a"), image(IMAGE), text('{"b":1}')]),
        ([None, TextBlock("")], "null", [text("null")]),
        ([TextBlock(""), "", IMAGE], MARK, [image(IMAGE)]),
        ([TextBlock(" \n"), IMAGE], f" \n\n{MARK}", [text(" \n"), image(IMAGE)]),
        ([TextBlock(Text("x\ud835")), IMAGE], f"x\\ud835\n{MARK}", [text("x\\ud835"), image(IMAGE)]),
        (
            [object(), float("nan"), IMAGE],
            f'"<object: not JSON>"\n"NaN"\n{MARK}',
            [text('"<object: not JSON>"'), text('"NaN"'), image(IMAGE)],
        ),
        (ImageBlock(bytes(MOST_IMAGE_BYTES + 1), "image/gif"), LEFT_OUT, [text(LEFT_OUT)]),
    ],
)
def test_blocks_are_kept_as_text_and_as_blocks(value: Any, content: str, blocks: list[dict[str, Any]]) -> None:
    """The content is the texts and a mark for each image; what is no block is text; a blank text says nothing."""
    said, written = in_blocks(block_items(value), 1000)
    assert (said, json.loads(written or "")) == (content, blocks)


def test_blocks_that_hold_nothing_are_none() -> None:
    """A blank text block is a blank result."""
    assert in_blocks((TextBlock(""),), 1000) == ("", None)


def test_a_result_carries_so_many_bytes_of_images_and_the_images_that_fit_whole() -> None:
    """The first that fit are kept, whatever their order, and each that does not is told of in its place."""
    whole = ImageBlock(bytes(MOST_IMAGE_BYTES - 6), "image/webp")
    content, written = in_blocks((whole, JPEG, IMAGE, "end"), 1000)
    told = "[image/png, 6 bytes: left out, a result carries at most 20000000 bytes of images]"
    assert content == f"[image/webp, {MOST_IMAGE_BYTES - 6} bytes]\n[image/jpeg, 6 bytes]\n{told}\nend"
    assert json.loads(written or "") == [image(whole), image(JPEG), text(told), text("end")]


def cut(full: int, kept: int) -> str:
    """The mark of a text that was cut."""
    return f"\n[cut: {full - kept} of {full} characters]"


@pytest.mark.parametrize(
    ("limit", "content", "blocks"),
    [
        (
            120,
            f"{'a' * 50}\n{MARK}\n{'b' * 40}\n{'c' * 7}",
            [text("a" * 50), image(IMAGE), text("b" * 40), text("c" * 7)],
        ),
        (
            107,
            f"{'a' * 50}\n{MARK}\n{'b' * 7}{cut(120, 79)}",
            [text("a" * 50), image(IMAGE), text("b" * 40), text("c" * 7)],
        ),
        (
            97,
            f"{'a' * 50}\n{MARK[:18]}{cut(120, 69)}",
            [text("a" * 50), image(IMAGE), text("b" * 40), text("c" * 7)],
        ),
        (
            96,
            f"{'a' * 50}\n{MARK[:17]}{cut(120, 68)}",
            [text("a" * 50), image(IMAGE), text("b" * 19 + cut(97, 69))],
        ),
        (77, "a" * 49 + cut(120, 49), [text("a" * 50), image(IMAGE), text(cut(97, 50))]),
        (76, "a" * 48 + cut(120, 48), [text("a" * 49 + cut(97, 49)), image(IMAGE)]),
        (5, "[cut:", [text("[cut:"), image(IMAGE)]),
    ],
)
def test_a_limit_cuts_the_text_of_all_blocks_together(limit: int, content: str, blocks: list[dict[str, Any]]) -> None:
    """Images are kept whole; the text that is left ends with a mark that says how much of it is missing."""
    said, written = in_blocks(("a" * 50, IMAGE, TextBlock("b" * 40), "c" * 7), limit)
    assert (said, json.loads(written or "")) == (content, blocks)


ASKED = Call("c1", "chart", step=1)


def kept(*items: Any, outcome: str = "ok") -> CallResult:
    """The result of a call that brought these blocks."""
    content, written = in_blocks(items, 1000)
    return attrs.evolve(CallResult.of(ASKED, outcome, content), blocks_text=written)


def test_the_blocks_of_a_result_are_new_each_time() -> None:
    """What is done to them does not change the result; a result of text alone has none."""
    result = kept(*PAIR)
    result.blocks[0]["text"] = "spoilt"
    result.blocks.clear()
    assert (result.blocks, CallResult.of(ASKED, "ok", "1").blocks) == ([text("Here:"), image(IMAGE)], [])
    assert (copy.deepcopy(result), pickle.loads(pickle.dumps(result))) == (result, result)


@pytest.mark.parametrize(
    ("written", "wrong"),
    [
        ("", "Input data was truncated"),
        ("[]", "Expected `array` of length >= 1"),
        ("{}", "Expected `array`, got `object`"),
        ("[5]", "Expected `object`, got `int` - at `$[0]`"),
        ('[{"text":"a"}]', "Object missing required field `kind` - at `$[0]`"),
        ('[{"kind":"video"}]', "Invalid value 'video' - at `$[0].kind`"),
        ('[{"kind":"text","text":5}]', "Expected `str`, got `int` - at `$[0].text`"),
        ('[{"kind":"text","text":"a","more":1}]', "Object contains unknown field `more` - at `$[0]`"),
        (
            '[{"kind":"image","media_type":"image/bmp","data":"eA=="}]',
            "Invalid enum value 'image/bmp' - at `$[0].media_type`",
        ),
        ('[{"kind":"image","data":"eA==","more":1}]', "Object contains unknown field `more` - at `$[0]`"),
        ('[{"kind":"image","media_type":"image/png","data":"x"}]', "Invalid base64 encoded string - at `$[0].data`"),
        ('[{"kind":"image","media_type":"image/png","data":""}]', "Expected `bytes` of length >= 1 - at `$[0].data`"),
        ("\ud800", "'utf-8' codec can't encode character '\\ud800' in position 0: surrogates not allowed"),
        (5, "a bytes-like object is required, not 'int'"),
    ],
)
def test_blocks_that_no_tool_can_have_returned_are_refused(written: Any, wrong: str) -> None:
    """A result is made of right blocks only, by hand or from JSON."""
    with pytest.raises(ValueError, match="CallResult: ") as raised:
        CallResult(1, 0, "c1", "chart", "ok", "", blocks_text=written)
    assert str(raised.value) == f"CallResult: blocks_text must be JSON of text and image blocks: {wrong}"


@pytest.mark.parametrize("same", [same_exchange, shown.same])
def test_results_with_other_images_are_other_results(same: Callable[[Exchange, Exchange], bool]) -> None:
    """Of two images that have the same mark the bytes decide, for the machine and for the promises."""
    other = ImageBlock(b"other!", "image/png")
    one, alike, two = (Exchange(Turn(calls=(ASKED,)), (kept(of),)) for of in (IMAGE, IMAGE, other))
    assert one.results[0].content == two.results[0].content
    assert (same(one, alike), same(one, two)) == (True, False)


# --- on the wires -----------------------------------------------------------------------------------------

NOT_SENT = "\n[images not sent, since this result can only be text: "
SOURCE = {"type": "base64", "media_type": "image/png", "data": image(IMAGE)["data"]}
RESULTS = [
    kept("Here:", IMAGE, {"b": 1}, IMAGE),
    kept(TextBlock("a"), "b"),
    kept(TextBlock(" \n"), IMAGE),
    kept(TextBlock(" ")),
    kept("No:", IMAGE, outcome="failed"),
    kept(TextBlock("no"), outcome="failed"),
]


def answers(wire: Wire) -> list[dict[str, Any]]:
    """What a wire sends of each of the results, each alone in its exchange."""
    return [sent(wire, Exchange(Turn(calls=(ASKED,)), (one,)))[-1] for one in RESULTS]


def test_anthropic_carries_blocks() -> None:
    """A result is a list of text and images, without blank texts; where it is an error it can only be text."""
    said = {"type": "image", "source": SOURCE}
    contents: list[Any] = [
        [{"type": "text", "text": "Here:"}, said, {"type": "text", "text": '{"b":1}'}, said],
        [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        [said],
        "",
        f"No:\n{MARK}{NOT_SENT}1]",
        "no",
    ]
    assert answers(ANTHROPIC) == [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": content, "is_error": one.outcome == "failed"}
            ],
        }
        for one, content in zip(RESULTS, contents, strict=True)
    ]


def test_openai_chat_carries_text_and_says_what_it_leaves_out() -> None:
    """Its tool messages hold text only: the images are marks, and that they were not sent is told."""
    contents = [
        f'Here:\n{MARK}\n{{"b":1}}\n{MARK}{NOT_SENT}2]',
        "a\nb",
        f" \n\n{MARK}{NOT_SENT}1]",
        " ",
        f"No:\n{MARK}{NOT_SENT}1]",
        "no",
    ]
    assert answers(OPENAI_CHAT) == [{"role": "tool", "tool_call_id": "c1", "content": one} for one in contents]


def test_plain_carries_all_beside_the_text() -> None:
    """A message has blocks where its result has some."""
    assert answers(PLAIN) == [
        {"kind": "tool_result", "id": "c1", "content": one.content, "outcome": one.outcome, "blocks": one.blocks}
        for one in RESULTS
    ]
    assert PLAIN.entry(Exchange(Turn(calls=(ASKED,)), (CallResult.of(ASKED, "ok", "1"),)))[-1] == {
        "kind": "tool_result",
        "id": "c1",
        "content": "1",
        "outcome": "ok",
    }


# --- in a run ---------------------------------------------------------------------------------------------


def chart(n: int = 1) -> list[Any]:
    """Draw a chart."""
    return [f"Chart {n}", ImageBlock(b"PNG %d" % n, "image/png"), {"n": n}]


def played() -> Result:
    """A run whose model asks for two charts, and spoils whatever it is given."""

    def model(messages: Any) -> dict[str, Any]:
        asked = len(messages) == 1
        for message in messages:
            for block in message.get("blocks", ()):
                block.clear()
        return calls(call("a", "chart"), call("b", "chart", n=2)) if asked else DONE

    return run(model, "Draw.", tools=[chart], clock=lambda: 0.0)


def drawn(n: int) -> list[dict[str, Any]]:
    """What the tool returned, in its plain form."""
    return [text(f"Chart {n}"), image(ImageBlock(b"PNG %d" % n, "image/png")), text(f'{{"n":{n}}}')]


def drawn_text(n: int) -> str:
    """The same as text."""
    return f'Chart {n}\n[image/png, 5 bytes]\n{{"n":{n}}}'


def test_a_run_keeps_the_blocks_whatever_a_model_does_to_them() -> None:
    """They stand in the results and in the history."""
    result = played()
    assert [(one.outcome, one.content, one.blocks) for one in result.results] == [
        ("ok", drawn_text(n), drawn(n)) for n in (1, 2)
    ]
    assert [message["blocks"] for message in result.history if message["kind"] == "tool_result"] == [drawn(1), drawn(2)]


def test_a_run_with_blocks_is_told_as_text_and_as_data() -> None:
    """The trace shows the marks; the plain data holds the blocks in its history and events, and is JSON."""
    result = played()
    assert str(result).splitlines()[1:3] == [
        '  chart() -> ok: Chart 1 [image/png, 5 bytes] {"n":1}',
        '  chart(n=2) -> ok: Chart 2 [image/png, 5 bytes] {"n":2}',
    ]
    told = json.loads(json.dumps(result.to_dict()))
    returned = [event["result"] for event in told["events"] if event["is"] == "CallReturned"]
    assert [json.loads(one["blocks_text"]) for one in returned] == [drawn(1), drawn(2)]
    assert [one["blocks"] for one in told["history"] if one["kind"] == "tool_result"] == [drawn(1), drawn(2)]
    assert [one["content"] for one in told["steps"][0]["calls"]] == [drawn_text(1), drawn_text(2)]


@pytest.mark.parametrize(
    "again",
    [
        lambda loop: Loop.from_json(loop.to_json(), tools=[chart]).snapshot,
        lambda loop: copy.deepcopy(loop.snapshot),
        lambda loop: pickle.loads(pickle.dumps(loop.snapshot)),
        lambda loop: replay(TOOL_LOOP, loop._start, loop.snapshot.events, loop.snapshot.rows),
    ],
    ids=["json", "deepcopy", "pickle", "replay"],
)
def test_a_run_with_blocks_is_the_same_elsewhere(again: Callable[[Loop], Any]) -> None:
    """Written and read, copied, and played again."""
    loop = played().loop
    assert again(loop) == loop.snapshot


def test_blocks_that_were_tampered_with_are_refused() -> None:
    """A run is not read from JSON whose blocks can't be sent."""
    text = played().loop.to_json()
    with pytest.raises(ValueError, match="blocks_text must be JSON of text and image blocks"):
        Loop.from_json(text.replace('\\"kind\\":\\"image\\"', '\\"kind\\":\\"film\\"'), tools=[chart])


@pytest.mark.parametrize(("limit", "status"), [(2, "stuck"), (None, "step_budget")])
def test_the_same_images_again_are_stuck(limit: int | None, status: str) -> None:
    """The machine compares what was returned."""
    asked = iter("abc")
    result = run(
        lambda _: call(next(asked), "chart"),
        "Draw.",
        tools=[chart],
        budget=Budget(max_steps=3),
        policy=Policy(max_identical_turns=limit),
    )
    assert result.status == status


def test_an_image_that_differs_is_progress() -> None:
    """The same call whose image changes, its size the same, is never stuck."""
    asked, frames = iter("abc"), iter((b"1", b"2", b"3"))

    def look() -> ImageBlock:
        return ImageBlock(next(frames), "image/png")

    result = run(
        lambda _: call(next(asked)),
        "Look.",
        tools=[look],
        budget=Budget(max_steps=3),
        policy=Policy(max_identical_turns=2),
    )
    assert (result.status, {one.content for one in result.results}) == ("step_budget", {"[image/png, 1 bytes]"})
