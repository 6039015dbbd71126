"""What classes are made of, and in whose words their hints are meant."""

from __future__ import annotations

import abc
import collections
import dataclasses
import datetime
import json
from typing import Annotated, Any, NamedTuple, NotRequired, Required, TypedDict

import attr
import attrs
import msgspec
import pydantic
import pytest
import typing_extensions
from msgspec import NODEFAULT
from typing_extensions import ReadOnly, TypeAliasType

from loopmachine.errors import InvalidTool
from loopmachine.tools import Context, Tool
from loopmachine.tools.classes import fresh, is_listed, is_model, is_record, meaning, members, runs_nothing
from loopmachine.tools.notes import NoSchema
from tests import test_tools_records
from tests.test_tools_records import Box, Checked, Circle, Movie, Pair, Point, Row, Size, Someone, Strict, Taken

date = str  #: not the one that a class elsewhere means


@pytest.mark.parametrize(
    ("cls", "kinds"),
    [
        (Pair, (True, False, False)),
        (Box, (True, False, False)),
        (Circle, (True, False, False)),
        (Movie, (True, False, False)),
        (Point, (True, True, False)),
        (Row, (True, True, False)),
        (Checked, (True, False, True)),
        (Someone, (False, False, True)),
        (Size, (False, False, False)),
        (tuple, (False, False, False)),
        (Any, (False, False, False)),
        ("Pair", (False, False, False)),
        (pydantic.NaiveDatetime, (False, False, True)),
    ],
)
def test_kinds_of_classes_are_told_apart(cls: Any, kinds: tuple[bool, bool, bool]) -> None:
    """A class has named fields, is written as a list, or describes itself, or none of these."""
    assert (is_record(cls), is_listed(cls), is_model(cls)) == kinds


@pytest.mark.parametrize(
    ("value", "changes"),
    [
        ([], True),
        ({}, True),
        (set(), True),
        (bytearray(), True),
        (collections.deque(), True),
        (Pair(1, 2), True),
        (Box(1.0), True),
        (Circle(1), True),
        (Checked(1), True),
        (pydantic.create_model("M")(), True),
        ((1, ([],)), True),
        (frozenset({(1,)}), False),
        ("text", False),
        (Size.LARGE, False),
        (datetime.date(2024, 2, 29), False),
        (object(), False),
        (Pair, False),
    ],
)
def test_what_can_be_changed_is_known(value: Any, changes: bool) -> None:
    """Collections and records can, whatever holds them; numbers, text, marks and classes can't."""
    made = fresh(value)
    assert (made is not None) == changes
    assert made is None or (made() is not made() and type(made()) is type(value))


def test_the_fields_of_a_class_are_those_of_its_constructor() -> None:
    """Each has its name, its name in JSON, its hint and its default; of a factory only what is empty is known."""

    class Renamed(msgspec.Struct, rename="camel"):
        some_name: int
        other_name: dict[str, int] = {}

    @attrs.define
    class Named:
        _own: int
        kept: list[int] = attrs.Factory(list)

    @attr.s
    class Old:
        n = attr.ib(type=int)

    plain = collections.namedtuple("plain", ["a", "b"], defaults=[5])
    told = [
        [(one.argument, one.name, one.hint, one.default) for one in members(cls, {})]
        for cls in (Renamed, Named, Old, plain)
    ]
    assert told == [
        [("some_name", "someName", int, NODEFAULT), ("other_name", "otherName", dict[str, int], {})],
        [("own", "own", int, NODEFAULT), ("kept", "kept", list[int], [])],
        [("n", "n", int, NODEFAULT)],
        [("a", "a", Any, NODEFAULT), ("b", "b", Any, 5)],
    ]


def test_a_factory_that_makes_something_is_not_called() -> None:
    """What a factory would make is not known before it is called for a value."""
    made = []

    @dataclasses.dataclass
    class Stamped:
        at: list[int] = dataclasses.field(default_factory=lambda: made.append(1) or [1])  # type: ignore[func-returns-value]

    (field,) = members(Stamped, {})
    assert (made, field.default is NODEFAULT, fresh(field.default)) == ([], False, None)


class Left(typing_extensions.TypedDict):
    """Of typing_extensions, whose own it is before Python 3.13."""

    a: int
    b: NotRequired[str]
    c: ReadOnly[int]
    d: ReadOnly[NotRequired[int]]
    e: Annotated[NotRequired[int], "with a note"]


class Right(Left, total=False):
    f: Required[ReadOnly[int]]
    g: int


class Spot(typing_extensions.NamedTuple):
    x: int
    y: int = 0


@dataclasses.dataclass
class Both:
    left: Left
    spot: Spot


def test_typed_dicts_and_named_tuples_are_typings_or_of_typing_extensions() -> None:
    """What stands around their hints says whether a name may be left out, and nothing of its value."""

    def f(right: Right, both: Both) -> Any:
        return right, both

    tool = Tool.of(f)
    integer, text = {"type": "integer"}, {"type": "string"}
    left = {"a": integer, "b": text, "c": integer, "d": integer, "e": integer | {"description": "with a note"}}
    given = {"right": {"a": 1, "c": 2, "f": 3}, "both": {"left": {"a": 1, "c": 2}, "spot": [1]}}
    checked, _ = tool.arguments.check(json.dumps(given))
    defs = tool.input_schema["$defs"]
    assert [(defs[name]["properties"], defs[name]["required"]) for name in ("Left", "Right")] == [
        (left, ["a", "c"]),
        (left | {"f": integer, "g": integer}, ["a", "c", "f"]),
    ]
    assert f(**tool.signature.bind(checked or "", Context())[1]) == (
        {"a": 1, "c": 2, "f": 3},
        Both({"a": 1, "c": 2}, Spot(1)),
    )


# --- what runs when one is made -------------------------------------------------------------------------------


class Quiet(msgspec.Struct):
    n: int = 0


class Hooked(Quiet):
    def __post_init__(self) -> None: ...


class Meta(type(Quiet)):  # type: ignore[misc]  # a class that is known only now
    """A metaclass of somebody's own."""


class Strange(msgspec.Struct, metaclass=Meta):
    n: int = 0


@dataclasses.dataclass
class After:
    n: int

    def __post_init__(self) -> None: ...


@dataclasses.dataclass
class Under(Pair):
    pass


class Undecorated(Pair):
    def __init__(self) -> None: ...


@dataclasses.dataclass
class New:
    n: int

    def __new__(cls, n: int) -> Any: ...


@dataclasses.dataclass
class Setting:
    n: int

    def __setattr__(self, name: str, value: Any) -> None: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    n: int


@dataclasses.dataclass(init=False)
class ByHand:
    n: int

    def __init__(self, n: int) -> None: ...


@dataclasses.dataclass
class Replaced:
    n: int


Replaced.__init__ = lambda self, n: None  # type: ignore[method-assign]  # the case


@dataclasses.dataclass
class Counted(abc.ABC):
    n: int


class Calling(type):
    def __call__(cls, *given: Any) -> Any: ...


@dataclasses.dataclass
class Called(metaclass=Calling):
    n: int


class Longer(Point):
    """A subclass of a NamedTuple can have a constructor of its own."""


@attrs.define
class AttrsSetting:
    n: int

    def __setattr__(self, name: str, value: Any) -> None: ...


@attrs.define
class Fields:
    a: int
    b: list[int] = attrs.Factory(list)


RUNS_NOTHING: list[Any] = [Pair, Under, Frozen, Counted, Box, Fields, Quiet, Circle, Movie, Left, Point, Spot, Row]
RUNS: list[Any] = [
    *(After, Undecorated, New, Setting, ByHand, Replaced, Called, Hooked, Strange, Longer, AttrsSetting, Strict),
    attrs.make_class("A", {"n": attrs.field(converter=int)}),
    attrs.make_class("A", {"n": attrs.field(validator=attrs.validators.gt(0))}),
    attrs.make_class("A", {"n": attrs.field(init=False, default=1)}),
    attrs.make_class("A", {"n": attrs.field(default=attrs.Factory(id, takes_self=True))}),
    type("A", (Fields,), {}),
    type("A", (Fields,), {"__attrs_post_init__": lambda self: None}),
]


def test_a_class_that_runs_code_of_its_own_is_known() -> None:
    """Hooks, validators, converters, constructors of its own: whatever a class does when an instance is made."""
    assert [(cls, runs_nothing(cls)) for cls in (*RUNS_NOTHING, *RUNS)] == [
        *((cls, True) for cls in RUNS_NOTHING),
        *((cls, False) for cls in RUNS),
    ]


class Outside:
    """A class that is not local."""

    class Part(TypedDict):
        when: datetime.date


@dataclasses.dataclass
class Whole:
    part: Outside.Part
    when: date


def test_hints_mean_what_they_mean_where_the_class_stands() -> None:
    """Names of whoever makes the tool are for classes made in a function; others have those of their module."""

    @dataclasses.dataclass
    class Inner:
        when: date
        again: Inner | None
        part: Elsewhere  # type: ignore[name-defined]  # noqa: F821  among the names that are given

    names = {"date": datetime.date, "Elsewhere": int, "Outside": None}
    assert [[one.hint for one in members(cls, names)] for cls in (Whole, Inner)] == [
        [Outside.Part, str],
        [datetime.date, Inner | None, int],
    ]


def test_an_unknown_hint_is_told() -> None:
    """A name that is nowhere is a NameError, for whoever asked to make a sentence of."""

    class Lost(NamedTuple):
        where: Nowhere  # type: ignore[name-defined]  # noqa: F821  the case

    with pytest.raises(NameError, match="Nowhere"):
        list(members(Lost, {}))


def test_a_parameter_without_a_hint_is_told() -> None:
    """A constructor that takes more than the class has must say what."""

    @dataclasses.dataclass(init=False)
    class Own:
        n: int

        def __init__(self, text) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001  the case
            self.n = int(text)

    with pytest.raises(NoSchema, match="its parameter text has no type hint"):
        list(members(Own, {}))
    assert Own("5").n == 5


@dataclasses.dataclass
class Base:
    n: int


class ByText(Base):
    def __init__(self, text: str, *, back: ByText | None = None) -> None:
        super().__init__(int(text))


class Derived(ByText):
    """Has its constructor from another."""


class Far(Taken):
    """Has its constructor from a class of another module."""


class Loose(Base):
    def __init__(self, n: int, **more: int) -> None:
        super().__init__(n + len(more))


class Many(Base):
    def __init__(self, *several: int) -> None:
        super().__init__(sum(several))


def test_a_constructor_of_its_own_says_what_it_takes() -> None:
    """What is no field has the hint that stands there, which means what it means in the class that wrote it."""

    class Unit:
        """Known to the function alone."""

    @attrs.define(init=False)
    class Local:
        n: int

        def __init__(self, n: int, unit: Unit) -> None:
            self.n = n

    held = test_tools_records.Holder[int]
    told = [[(one.name, one.hint) for one in members(cls, {"Unit": Unit})] for cls in (ByText, Derived, Far, Local)]
    assert told == [
        [("text", str), ("back", ByText | None)],
        [("text", str), ("back", ByText | None)],
        [("holder", held)],
        [("n", int), ("unit", Unit)],
    ]
    assert [ByText("5").n, Derived("6").n, Far(held(7)).n, Local(8, Unit()).n] == [5, 6, 7, 8]


@pytest.mark.parametrize(("cls", "several"), [(Loose, "**more"), (Many, "*several")])
def test_a_constructor_that_takes_anything_is_told(cls: Any, several: str) -> None:
    """The sentence names the class, what it takes, and what would be right."""

    def f(a: Any) -> None: ...

    f.__annotations__["a"] = cls
    with pytest.raises(InvalidTool) as caught:
        Tool.of(f)
    assert str(caught.value) == (
        f"f: parameter a: its type has no schema: {cls.__name__}: its constructor takes {several}; "
        "write out what it takes"
    )
    assert [Loose(1, a=2).n, Many(1, 2).n] == [2, 3]


def test_an_alias_is_what_it_names() -> None:
    """The names in an alias are looked up where it stands."""
    alias = TypeAliasType("alias", "list[Pair]")
    assert meaning(alias, {}) == list[Pair]
