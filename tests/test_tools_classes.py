"""What classes are made of, and in whose words their hints are meant."""

from __future__ import annotations

import collections
import dataclasses
import datetime
from typing import Any, NamedTuple, TypedDict

import attr
import attrs
import msgspec
import pydantic
import pytest
from msgspec import NODEFAULT
from typing_extensions import TypeAliasType

from loopmachine.tools.classes import fresh, is_listed, is_model, is_record, meaning, members
from tests.test_tools_records import Box, Checked, Circle, Movie, Pair, Point, Row, Size, Someone

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

    with pytest.raises(NameError, match="its parameter text has no type hint"):
        list(members(Own, {}))
    assert Own("5").n == 5


def test_an_alias_is_what_it_names() -> None:
    """The names in an alias are looked up where it stands."""
    alias = TypeAliasType("alias", "list[Pair]")
    assert meaning(alias, {}) == list[Pair]
