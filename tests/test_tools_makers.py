"""Classes that run nothing of their own are made by msgspec: the same values, faster; all others by themselves."""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar

import attrs
import msgspec
import pytest
from msgspec import Meta

from loopmachine.tools import Context, Tool
from loopmachine.tools.makers import lean
from loopmachine.tools.types import Types
from tests.test_tools_records import Circle, Made, Pair, Person, Strict

T = TypeVar("T")


@dataclasses.dataclass
class Line:
    name: str
    kind: Literal["a", "b"] = "a"
    tags: list[str] = dataclasses.field(default_factory=list)
    pair: Pair | None = None


@attrs.define
class Held(Generic[T]):
    one: T
    rest: dict[str, T] = attrs.Factory(dict)


class Spot(NamedTuple):
    x: int
    at: Pair = Pair(0, 0)  # one that each instance would share


class Place(NamedTuple):
    x: int
    y: float = 0.5


class Found(TypedDict):
    line: Line
    n: NotRequired[int]


class Known(msgspec.Struct, rename="camel"):
    some_name: int


@attrs.define
class Hidden:
    _n: int


@dataclasses.dataclass
class Loose:
    n: int = None  # type: ignore[assignment]  # takes None


@dataclasses.dataclass
class Chain:
    below: Chain | None = None


@dataclasses.dataclass
class After:
    n: int

    def __post_init__(self) -> None: ...


@dataclasses.dataclass
class Holder:
    strict: Strict


@pytest.mark.parametrize(
    ("hint", "made"),
    [
        (Line, Line),
        (Held[int], Held[int]),
        (Held[Line], Held[Line]),
        (Place, Place),
        (Found, Found),
        (Known, Known),
        (list[Line], list[Line]),
        (Line | None, Line | None),
        (Annotated[list[Line], Meta(max_length=3)], Annotated[list[Line], Meta(max_length=3)]),
        (dict[str, tuple[Line, ...]], dict[str, tuple[Line, ...]]),
        (Literal["a", 5], Literal["a", 5]),
        *((hint, None) for hint in (Spot, Hidden, Loose, Chain, After, Holder, Circle, Strict, Made, Person)),
    ],
)
def test_what_msgspec_makes_alike_is_left_to_it(hint: Any, made: Any) -> None:
    """A class that runs code of its own, holds such a one or itself, or shares defaults is made by itself."""
    shape = Types().shape(hint)
    assert lean(shape) == (shape if made is None else made)


def test_a_class_that_msgspec_can_not_read_is_made_by_itself() -> None:
    """A local one, whose hints only whoever made the tool can look up."""

    @dataclasses.dataclass
    class Inner:
        n: Local  # type: ignore[name-defined]  # noqa: F821  among the names that are given

    shape = Types({"Local": int}).shape(Inner)
    assert lean(shape) is shape


@dataclasses.dataclass
class Draft:
    to: str


@dataclasses.dataclass
class Send:
    to: str
    now: bool


def read_beside_the_first(step: int) -> tuple[list[Any], int]:
    """What a second reader reads while the first value of a new tool is read, at one step of that; and all steps."""

    def mail(m: Draft | Send) -> None: ...

    tool = Tool.of(mail)
    taken: list[Any] = []
    steps = itertools.count()

    def look(*_: object) -> None:
        for _one in range(next(steps) == step):
            taken.append(tool.signature.bind('{"m":{"to":"a","now":true}}', Context())[1]["m"])

    look()
    sys.setprofile(look)  # called at each call and return, and what it calls itself is not told to it
    try:
        tool.signature.bind('{"m":{"to":"b"}}', Context())
    finally:
        sys.setprofile(None)
    return taken, next(steps)


def test_no_reader_sees_a_union_half_made() -> None:
    """Whatever step of its first use a tool is at, another thread gets the right class, and all arguments of it."""
    _, steps = read_beside_the_first(-1)
    found = [read_beside_the_first(step)[0] for step in range(steps)]
    assert found == [[Send("a", True)]] * steps
    assert steps > 20


@pytest.mark.parametrize(
    ("hint", "given", "value"),
    [
        (Line, {"name": "n"}, Line("n")),
        (Line, {"pair": {"right": 1, "left": 2}, "name": "n"}, Line("n", pair=Pair(2, 1))),
        (Held[int], {"one": 1, "rest": {"a": 2.0}}, Held(1, {"a": 2})),
        (list[Place], [[1], [2, 3]], [Place(1), Place(2, 3.0)]),
        (Found, {"line": {"name": "n", "tags": ["t"]}}, {"line": Line("n", tags=["t"])}),
        (Known, {"someName": 1}, Known(1)),
        (Line | None, None, None),
    ],
)
def test_a_class_is_the_same_whoever_makes_it(hint: Any, given: Any, value: Any) -> None:
    """Names, defaults and parts are those that its constructor would give; no two calls share one."""

    def f(v: Any) -> None: ...

    f.__annotations__["v"] = hint
    tool = Tool.of(f)
    checked, _ = tool.arguments.check(json.dumps({"v": given}))
    first, second = (tool.signature.bind(checked or "", Context())[1]["v"] for _ in range(2))
    assert (first, second, first is None or first is not second) == (value, value, True)
    assert type(first) is type(value)
