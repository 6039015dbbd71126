"""What a tool returns or raises, as text for the model: always some, always true, never too long."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import math
import uuid
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple, NoReturn, TypedDict

import attrs
import msgspec
import pydantic
import pytest

from loopmachine import ImageBlock, run
from loopmachine.tools.results import error_text, fitted, result_text
from tests.drivers import DONE, call


class Colour(enum.Enum):
    """A colour."""

    RED = "r"


class Word(enum.StrEnum):
    """A text that is more than a text."""

    GO = "go"


@dataclasses.dataclass(frozen=True)
class Point:
    """A place."""

    x: int
    when: datetime.date


@attrs.frozen
class Line:
    """Two places."""

    points: tuple[Point, ...]


class Struct(msgspec.Struct):
    """A place that msgspec knows."""

    at: Point


class Pair(NamedTuple):
    """Two numbers."""

    a: int
    b: float


class Typed(TypedDict):
    """An object of known names."""

    a: Pair


class Name(pydantic.BaseModel):
    """A model within another."""

    text: str
    since: datetime.date


class Person(pydantic.BaseModel):
    """A model that is written as pydantic writes it, not as its fields are."""

    names: list[Name]
    score: float = pydantic.Field(default=1.5, serialization_alias="points")
    secret: pydantic.SecretStr = pydantic.SecretStr("hush")

    @pydantic.field_serializer("score")
    def rounded(self, score: float) -> float:
        """Of the model's own."""
        return float(f"{score:.1f}")


class Names(pydantic.RootModel[dict[str, Name]]):
    """A model that is no object of fields."""


class Broken(pydantic.BaseModel):
    """A model that can't be written."""

    @pydantic.model_serializer
    def write(self) -> str:
        """Fails."""
        raise RuntimeError("can't dump")


class Raw(pydantic.BaseModel):
    """A model that holds bytes, which are text or are not."""

    raw: bytes
    more: list[bytes] = []
    by_number: dict[int, bytes] = {}
    once: frozenset[bytes] = frozenset()
    site: pydantic.AnyUrl = pydantic.AnyUrl("http://a.b/")
    hidden: bytes = pydantic.Field(default=b"hush", exclude=True)


class Hex(pydantic.BaseModel):
    """A model with a way of its own to write bytes."""

    raw: bytes
    other: bytes = b"\xff"

    @pydantic.field_serializer("raw", when_used="json")
    def in_hex(self, raw: bytes) -> str:
        """Of the model's own."""
        return raw.hex()


class Odd(pydantic.BaseModel):
    """A model with fields that can't be written, among others."""

    model_config = pydantic.ConfigDict(extra="allow")

    n: int = 1
    thing: Any = None
    name: Name | None = None
    score: float = 2.0

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def double(self) -> int:
        """Of the model's own."""
        return 2 * self.n

    @pydantic.field_serializer("score")
    def rated(self, score: float) -> float:
        """Fails where there is no score."""
        return 1 / score


class Loose(pydantic.BaseModel):
    """A model with a field of which pydantic knows nothing, and others with ways of their own."""

    x: Any
    gap: float = 0.0
    few: dict[Any, int] = {}

    @pydantic.field_serializer("gap", when_used="json")
    def in_words(self, gap: float) -> float | str:
        """Of the model's own."""
        return gap if gap < 1 else "wide"

    @pydantic.field_serializer("few", when_used="json")
    def fewer(self, few: dict[Any, int]) -> dict[Any, int]:
        """Of the model's own."""
        return {name: number for name, number in few.items() if number}


class Keyed(pydantic.RootModel[dict[Any, int]]):
    """A model that is an object with any names."""


class Bare(pydantic.RootModel[list[bytes]]):
    """A model that is a list."""


class Likeness:
    """What has the method of a pydantic model, and is none."""

    def model_dump(self, mode: str) -> dict[str, Any]:
        """As one."""
        return {"mode": mode}


@pydantic.dataclasses.dataclass
class Held:
    """A dataclass of pydantic's with a model in it."""

    name: Name


class Raws(bytes):
    """Bytes of their own kind."""


class Count(int):
    """A number of its own kind."""


class Share(float):
    """Another."""


def fail(*_: Any, **__: Any) -> NoReturn:
    """What somebody's own object may do wherever it is asked something, at length."""
    raise RuntimeError("no " * 3_000_000)


class Text(str):
    """A text that fails where a text does not."""

    __slots__ = ()
    __len__ = isascii = encode = fail


class Shy:
    """Fails whatever it is asked."""

    __getattr__ = __repr__ = __str__ = fail


class Mocked:
    """Seems to be a model, and a pydantic one."""

    model_dump = fail


class Mute(Exception):
    """Can't say what it is."""

    def __str__(self) -> str:
        raise ValueError("no words")


DAY = datetime.date(2024, 2, 29)
POINT = Point(1, DAY)
NAME = Name(text="é", since=datetime.date(2024, 2, 29))
NAMED = '{"text":"é","since":"2024-02-29"}'
LOOP: list[Any] = []
LOOP.append(LOOP)
ROUND: dict[str, Any] = {}
ROUND["a"] = [ROUND]
DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]


RESULTS: list[tuple[Any, str]] = [
    ("plain text", "plain text"),
    ("", ""),
    ("null", "null"),
    ("x\ud835y", "x\\ud835y"),
    (Word.GO, "go"),
    ([Word.GO], '["go"]'),
    (Text("it"), "it"),
    ([Text("it")], '["it"]'),
    (None, "null"),
    (True, "true"),
    (5, "5"),
    (2**70, str(2**70)),
    ([-(10**4299)], f"[{-(10**4299)}]"),
    (Count(5), "5"),
    ([Count(-(2**70))], f"[{-(2**70)}]"),
    (1.5, "1.5"),
    (Share(1.5), "1.5"),
    ([Share("nan")], '["NaN"]'),
    (Fraction(1, 4), "0.25"),
    (float("nan"), '"NaN"'),
    ([float("inf"), -float("inf"), 1.0], '["Infinity","-Infinity",1.0]'),
    ({"a": (float("nan"), None)}, '{"a":["NaN",null]}'),
    (Pair(1, float("inf")), '[1,"Infinity"]'),
    (Typed(a=Pair(1, 2.5)), '{"a":[1,2.5]}'),
    (Decimal("1.10"), '"1.10"'),
    (Decimal("NaN"), '"NaN"'),
    (datetime.date(2024, 2, 29), '"2024-02-29"'),
    (datetime.timedelta(days=1, seconds=5), '"P1DT5S"'),
    (uuid.UUID(int=5), '"00000000-0000-0000-0000-000000000005"'),
    (datetime.time(9, 30), '"09:30:00"'),
    (datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC), '"2024-02-29T00:00:00Z"'),
    ({1}, "[1]"),
    (frozenset({float("nan")}), '["NaN"]'),
    (b"\xff", '"/w=="'),
    ([bytearray(b"\xff"), memoryview(b"\xff")], '["/w==","/w=="]'),
    (Colour.RED, '"r"'),
    (POINT, '{"x":1,"when":"2024-02-29"}'),
    (Line((POINT,)), '{"points":[{"x":1,"when":"2024-02-29"}]}'),
    (Struct(POINT), '{"at":{"x":1,"when":"2024-02-29"}}'),
    (NAME, NAMED),
    ({"a": [NAME, None], "b": (NAME,)}, f'{{"a":[{NAMED},null],"b":[{NAMED}]}}'),
    (Person(names=[NAME], score=2.55), f'{{"names":[{NAMED}],"score":2.5,"secret":"**********"}}'),
    (Person(names=[], score=float("nan")), '{"names":[],"score":"NaN","secret":"**********"}'),
    (Names({"a": NAME}), f'{{"a":{NAMED}}}'),
    (Raw(raw=b"ok"), '{"raw":"b2s=","more":[],"by_number":{},"once":[],"site":"http://a.b/"}'),
    (
        Raw(raw=b"\xff", more=[b"ok", b"\xff"], by_number={1: b"\xff"}, once=frozenset({b"\xff"})),
        '{"raw":"/w==","more":["b2s=","/w=="],"by_number":{"1":"/w=="},"once":["/w=="],"site":"http://a.b/"}',
    ),
    (
        [Raw(raw=b"", once=frozenset({b"ok"}))],
        '[{"raw":"","more":[],"by_number":{},"once":["b2s="],"site":"http://a.b/"}]',
    ),
    (Hex(raw=b"ok", other=b"ok"), '{"raw":"6f6b","other":"b2s="}'),
    (Hex(raw=b"ok"), '{"raw":"6f6b","other":"/w=="}'),
    (Bare([b"ok"]), '["b2s="]'),
    (Bare([b"ok", b"\xff"]), '["b2s=","/w=="]'),
    (Odd(thing=b"\xff", name=NAME), f'{{"n":1,"thing":"/w==","name":{NAMED},"score":0.5,"double":2}}'),
    (
        Odd.model_validate({"thing": [object(), 1, b"\xff"], "name": NAME, "score": 0.0, "more": b"\xff"}),
        f'{{"n":1,"thing":["<object: not JSON>",1,"/w=="],"name":{NAMED},'
        '"score":"<not JSON: Error calling function `rated`: ZeroDivisionError: float division by zero>",'
        '"double":2,"more":"/w=="}',
    ),
    (Loose(x=float("nan")), '{"x":"NaN","gap":0.0,"few":{}}'),
    (
        [Loose(x=[float("inf"), {"a": (-math.inf, None)}], gap=math.inf, few={"a": 0, "b": 1})],
        '[{"x":["Infinity",{"a":["-Infinity",null]}],"gap":"wide","few":{"b":1}}]',
    ),
    (Loose(x={math.nan}), '{"x":["NaN"],"gap":0.0,"few":{}}'),
    (Odd.model_validate({"more": math.nan}), '{"n":1,"thing":null,"name":null,"score":0.5,"more":"NaN","double":2}'),
    (Keyed({1: 1, (1, 2): 2}), '{"1":1,"1,2":2}'),
    (Likeness(), '{"mode":"json"}'),
    ({"a": Raws(b"\xff")}, '{"a":"/w=="}'),
    ({"r": msgspec.Raw(b'{"a": 1.10}')}, '{"r":{"a": 1.10}}'),
    (msgspec.Raw(b'{"a":1e5}'), '{"a":1e5}'),
    ([msgspec.Raw(b'{"a" :[null,"1"]}'), None], '[{"a":[null,"1"]},null]'),
    ([msgspec.Raw('"null"'), math.nan], '["null","NaN"]'),
    ({"r": msgspec.Raw(b"[1]"), "s": "\ud800"}, '{"r":[1],"s":"\\ud800"}'),
    (
        {"a": [ImageBlock(b"dot", "image/png")]},
        '{"a":[{"data":"<3 bytes of an image: return it alone or in a list to show it>","media_type":"image/png"}]}',
    ),
    (Held(NAME), f'{{"name":{NAMED}}}'),
    ({1: "a", 2.5: "b"}, '{"1":"a","2.5":"b"}'),
    ({1: None, 2.5: "b", float("nan"): 1}, '{"1":null,"2.5":"b","NaN":1}'),
    ({None: 1, True: 2, (1, "x"): 3}, '{"null":1,"true":2,"[1,\\"x\\"]":3}'),
    ({None: None, True: 2, (1, "x"): 3}, '{"null":null,"true":2,"[1,\\"x\\"]":3}'),
    ({POINT: 1, Colour.RED: 2}, '{"{\\"x\\":1,\\"when\\":\\"2024-02-29\\"}":1,"r":2}'),
    ({(float("nan"),): 1, "a": 2}, '{"[\\"NaN\\"]":1,"a":2}'),
    ({"a": object(), object: 1}, '{"a":"<object: not JSON>","<type: not JSON>":1}'),
    (iter([1]), '"<list_iterator: not JSON>"'),
    (
        [iter(NAME), iter(int, 1), range(10**12)],
        '["<generator: not JSON>","<callable_iterator: not JSON>","<range: not JSON>"]',
    ),
    ({"s": "x\ud835y"}, '{"s":"x\\ud835y"}'),
    ({"x\ud835y": {"\ud800"}}, '{"x\\ud835y":["\\ud800"]}'),
    (Shy(), '"<Shy: not JSON>"'),
    ([Shy()], '["<Shy: not JSON>"]'),
]


@dataclasses.dataclass
class Lots:
    by_key: dict[Any, Any]


#: What can't be written, the type of it, and why.
UNWRITABLE: list[tuple[Any, str, str]] = [
    (Broken(), "a Broken", "Error calling function `write`: RuntimeError: can't dump"),
    ([Broken()], "a list", "Error calling function `write`: RuntimeError: can't dump"),
    (LOOP, "a list", ""),  # the words are of the Python version
    (ROUND, "a dict", ""),  # the words are of the Python version
    (DEEP, "a list", ""),  # the words are of the Python version
    ([10**5000], "a list", "Exceeds the limit (4300 digits) for integer string conversion"),
    ({1: "a", "1": None}, "a dict", "two keys of an object are written alike"),
    ({1: "\ud800", "1": "b"}, "a dict", "two keys of an object are written alike"),
    ({1: "a", "1": "b"}, "a dict", "two keys of an object are written alike"),
    ([Lots({0.5: {}, "0.5": 1})], "a list", "two keys of an object are written alike"),
    (Loose(x={1: 1, "1": 2}), "a Loose", "two keys of an object are written alike"),
    (Loose(x=[{"a": {DAY: 1, "2024-02-29": 2}}]), "a Loose", "two keys of an object are written alike"),
    (Keyed({1: 1, "1": 2}), "a Keyed", "two keys of an object are written alike"),
    ({"a": Keyed({DAY: 1, "2024-02-29": 2})}, "a dict", "two keys of an object are written alike"),
    (Mocked(), "a Mocked", "no no "),
    ({1: "a", "1": "b", "r": msgspec.Raw(b"1e9")}, "a dict", "two keys of an object are written alike"),
    ([msgspec.Raw(b'{"a":1,"a":2}')], "a list", "two keys of an object are written alike"),
    ([msgspec.Raw(b'{"a":1,"a":2}'), None], "a list", "two keys of an object are written alike"),
    (msgspec.Raw(b'{"a'), "a Raw", "Input data was truncated"),
    (10**5000, "an int", "Exceeds the limit (4300 digits) for integer string conversion"),
]


@pytest.mark.parametrize(("value", "text"), RESULTS, ids=range(len(RESULTS)))
def test_a_returned_value_becomes_text(value: Any, text: str) -> None:
    """Text stays as it is, the rest is strict JSON, and what JSON does not have is named in its place."""
    assert result_text(value, 10_000) == text


@pytest.mark.parametrize("value", [value for value, _ in RESULTS], ids=range(len(RESULTS)))
def test_what_is_no_text_is_strict_json(value: Any) -> None:
    """Every text can be sent as UTF-8, and is JSON that any parser reads unless it is the tool's own."""
    text = result_text(value, 10_000)
    text.encode()
    if not isinstance(value, str):
        json.loads(text, parse_constant=pytest.fail)


@pytest.mark.parametrize(("value", "kind", "why"), UNWRITABLE, ids=[kind for _, kind, _ in UNWRITABLE])
def test_what_can_not_be_written_is_told_of(value: Any, kind: str, why: str) -> None:
    """What a value is and why it is no JSON stand in a sentence, which is cut as any other text."""
    text = result_text(value, 1000)
    assert text.startswith(f"the tool returned {kind}, which can't be written as JSON: {why}")
    assert len(text) <= 1000


@pytest.mark.parametrize(
    "value",
    [*(value for value, _ in RESULTS), *(value for value, _, _ in UNWRITABLE)],
    ids=range(len(RESULTS) + len(UNWRITABLE)),
)
def test_a_tool_that_returned_is_ok(value: Any) -> None:
    """Whatever it returned: the effect has happened. The content is a plain text, as what is JSON-shaped holds."""

    def look() -> Any:
        return value

    result = run(lambda messages: call("a") if len(messages) == 1 else DONE, "Look.", tools=[look]).results[0]
    assert (result.outcome, result.content, type(result.content), result.blocks) == (
        "ok",
        result_text(value, 65536),
        str,
        [],
    )


def test_a_long_result_is_cut_with_a_mark() -> None:
    """A text of just the length stays; a longer one is cut, mark included, and the mark says how much is missing."""
    assert [fitted("x" * 60, 60), fitted("x" * 61, 60)] == [
        "x" * 60,
        "x" * 33 + "\n[cut: 28 of 61 characters]",
    ]


@pytest.mark.parametrize("full", [100, 108, 109, 110, 117, 118, 119, 1009, 10_000])
@pytest.mark.parametrize("limit", [40, 41, 99])
def test_the_mark_counts_what_is_missing(full: int, limit: int) -> None:
    """Itself makes room, and one more digit takes one more place."""
    kept, mark = fitted("x" * full, limit).split("\n")
    assert (len(kept) + 1 + len(mark), mark) == (limit, f"[cut: {full - len(kept)} of {full} characters]")


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (1, "["),
        (10, "[cut: 4001"),
        (30, "[cut: 4001 of 4001 characters]"),
        (31, "\n[cut: 4001 of 4001 characters]"),
        (32, "[\n[cut: 4000 of 4001 characters]"),
        (36, '["x",\n[cut: 3996 of 4001 characters]'),
    ],
)
def test_no_result_is_longer_than_asked(limit: int, text: str) -> None:
    """Even a limit that is shorter than the mark is kept: what is left of it then never is blank."""
    assert result_text(["x"] * 1000, limit) == text


ERROR = ValueError("it's 5")


@pytest.mark.parametrize(
    ("error", "style", "text"),
    [
        (ERROR, "message", "ValueError: it's 5"),
        (ERROR, "name", "ValueError"),
        (ValueError(), "message", "ValueError"),
        (ValueError(" "), "message", "ValueError"),
        (KeyError("x"), "message", "KeyError: 'x'"),
        (Mute(), "message", "Mute"),
        (Mute(), "name", "Mute"),
        (ERROR, lambda error: f"sorry: {error}", "sorry: it's 5"),
        (ERROR, lambda error: error.nothing, "ValueError"),
        (ERROR, lambda error: 5, "ValueError"),
        (ERROR, lambda error: Text("it failed"), "it failed"),
        (ValueError("x" * 200), "message", "ValueError: " + "x" * 58 + "\n[cut: 142 of 212 characters]"),
        (ERROR, lambda error: "y\ud835" * 100, ("y\\ud835" * 100)[:70] + "\n[cut: 630 of 700 characters]"),
    ],
)
def test_an_exception_becomes_text_as_the_policy_says(error: Exception, style: Any, text: str) -> None:
    """An exception is told by class and message, by class alone, or by a callable; the class where that fails."""
    assert error_text(error, style, 99) == text


def test_a_stand_in_that_has_every_attribute_is_named() -> None:
    """It is asked for none of them: its type has no JSON."""

    class StandIn:
        def __getattr__(self, name: str) -> Any:
            return lambda *args, **named: {"x": 1}

    assert (result_text(StandIn(), 100), StandIn().anything()) == ('"<StandIn: not JSON>"', {"x": 1})
