"""What is read in the place of a hint: classes made by themselves, and unions, enums and literals of any kind."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import re
import threading
from typing import Annotated, Any, Literal, NamedTuple, NewType

import annotated_types
import attrs
import msgspec
import pydantic
import pytest
from msgspec import NODEFAULT
from typing_extensions import TypeAliasType

from loopmachine.tools.nodes import Examination
from loopmachine.tools.notes import NoSchema
from loopmachine.tools.shapes import holds, plain
from loopmachine.tools.standins import convert, hook
from loopmachine.tools.types import Types
from tests.test_tools_records import (
    Checked,
    Circle,
    Made,
    Mood,
    Pair,
    Person,
    Point,
    Size,
    Someone,
    Square,
    Strict,
    Tick,
)


def reader(hint: Any) -> Any:
    """What makes values of JSON text for a hint, as a tool gets them."""
    types = Types()
    shape = types.shape(hint)
    types.schema(shape)
    types.finish()
    return msgspec.json.Decoder(shape, dec_hook=hook).decode


def read(hint: Any, value: Any) -> Any:
    """A value of JSON."""
    return reader(hint)(json.dumps(value))


def test_a_class_is_made_by_its_constructor() -> None:
    """Converters, validators, computed fields, init-only arguments, aliases and factories do what they do by hand."""
    made = [
        read(Strict, {"tag": " a ", "n": 3}),
        read(Strict, {"tag": "a", "double": 5}),
        read(Made, {"name": "m", "side": 3, "scale": 4}),
        read(Person, {"name": "p"}),
        read(Tick, {"kind": 3, "at": 1}),
    ]
    assert made == [
        Strict(" a ", 3),
        Strict("a", double=5),
        Made(name="m", side=3.0, scale=4.0),
        Person("p"),
        Tick(1.0),
    ]
    assert (made[0].twice, made[2].area, made[3].tags) == (6, 12.0, ["new"])


@pytest.mark.parametrize(
    ("hint", "value", "told"),
    [
        (Strict, {"tag": "a", "n": 0}, "'n' must be > 0: 0"),
        (list[Strict], [{"tag": "a", "n": 0}], "'n' must be > 0: 0 - at `$[0]`"),
        (Person, {"name": "a", "born": "2024-02-30"}, "Invalid RFC3339 encoded date - at `$.born`"),
        (Checked, {"n": -1}, "n: Input should be greater than or equal to 0"),
        (
            Person,
            {"name": "a", "kids": [{"name": 5}]},
            "Expected `str`, got `int` - at `$.name` - at `$.kids[0]`",
        ),
        (Someone, {"name": {"properties": 5}, "years": -1}, "name.properties: Input should be a valid string; years: "),
        (Annotated[Circle | None, "a"], {"type": "square", "r": 1}, "Invalid enum value 'square' - at `$.type`"),
    ],
)
def test_what_a_class_refuses_is_told_in_its_words(hint: Any, value: Any, told: str) -> None:
    """An exception of a class comes out with the place where it was raised."""
    with pytest.raises(msgspec.ValidationError) as caught:
        read(hint, value)
    assert str(caught.value).startswith(told)


def test_pydantic_makes_its_own() -> None:
    """Models read their JSON, by alias, with all that is in them; so do pydantic's dataclasses."""
    someone = read(Someone, {"name": {"properties": "n"}, "years": 3, "kids": [{"name": {"properties": "k"}}]})
    assert someone == Someone.model_validate(
        {"name": {"properties": "n"}, "years": 3, "kids": [{"name": {"properties": "k"}}]}
    )
    assert (read(Checked, {"n": 1}), type(read(list[Checked], [{"n": 1}])[0])) == (Checked(1), Checked)


BIG = 2**53 + 1  # no float is this number
Rate = TypeAliasType("Rate", float)
Nested = TypeAliasType("Nested", "list[Nested] | float")


class Cat(pydantic.BaseModel):
    lives: int


class Dog(pydantic.BaseModel):
    lives: str


@pytest.mark.parametrize(
    ("hint", "value", "taken"),
    [
        (Circle | Square, {"type": "square", "a": 1}, Square(1)),
        (Pair | Person, {"name": "a"}, Person("a")),
        (Cat | Dog, {"lives": "9"}, Dog(lives="9")),
        (Cat | int, 5, 5),
        (Person | dict[str, int], {"name": 5}, {"name": 5}),
        (datetime.date | decimal.Decimal | str, "1.50", decimal.Decimal("1.50")),
        (str | datetime.date, "2024-02-29", "2024-02-29"),
        (Mood | Size | Literal["b"], "b", "b"),
        (Mood | Size | Literal["b"], 3, Size.LARGE),
        (list[Pair | Point], [[1], {"left": 1, "right": 2}], [Point(1), Pair(1, 2)]),
        (tuple[int, str] | tuple[str, int], ["a", 1], ("a", 1)),
        (tuple[int] | Annotated[str, msgspec.Meta(max_length=1)], [1], (1,)),
        (int | Annotated[int, msgspec.Meta(ge=0)], -1, -1),
        (Annotated[int, msgspec.Meta(ge=0)] | float, -1, -1.0),
        (float | int, 5, 5),
        (Annotated[int, msgspec.Meta(ge=0)] | float | Any, -1, -1.0),
        (float | Annotated[int, msgspec.Meta(ge=0)], BIG, BIG),
        (float | Annotated[int, msgspec.Meta(ge=0)], -1, -1.0),
        (float | Annotated[int, msgspec.Meta(ge=0)], 1.0, 1.0),
        (Annotated[float, "price"] | Annotated[int, msgspec.Meta(ge=0)] | str, BIG, BIG),
        (Rate | Annotated[int, msgspec.Meta(ge=0)], BIG, BIG),
        (Nested | Annotated[int, msgspec.Meta(ge=0)], BIG, BIG),
        (list[Nested] | list[Annotated[int, msgspec.Meta(ge=0)]], [BIG], [BIG]),
        (float | Size, 1, Size.SMALL),
        (float | Size, 1.0, 1.0),
        (list[float] | list[int], [BIG], [BIG]),
        (list[float] | list[int], [1.5, 1], [1.5, 1.0]),
        (dict[str, list[float]] | dict[str, list[int]], {"a": [BIG]}, {"a": [BIG]}),
        (frozenset[float] | frozenset[int] | list[int], [BIG, BIG - 1], frozenset([BIG, BIG - 1])),
        (set[float] | list[int] | Any, [1], {1.0}),
        (datetime.timedelta | int, "P1W", datetime.timedelta(7)),
        (Annotated[int, "how many"] | str | list[int], "5", "5"),
    ],
)
def test_a_union_may_hold_any_types(hint: Any, value: Any, taken: Any) -> None:
    """A value is read as the first type of a union that takes it as it is; no float takes what would be exact."""
    assert (read(hint, value), type(read(hint, value))) == (taken, type(taken))


Less = NewType("Less", Annotated[set[int], pydantic.AfterValidator(lambda given: given - {1})])


def test_what_a_validator_takes_away_is_not_lost() -> None:
    """Only what becomes equal by being read is; a class that leaves out what it was given means to."""
    assert read(Annotated[Less, annotated_types.Predicate(bool)], [1, 2]) == {2}


def test_a_union_that_takes_nothing_says_what_its_last_type_says() -> None:
    """Arguments that nobody has checked are refused all the same."""
    with pytest.raises(msgspec.ValidationError, match="Object missing required field `name`"):
        read(Pair | Person, {})


class Shared(NamedTuple):
    first: list[int] = []
    second: tuple[Any, ...] = ([],)


@attrs.define
class Loose:
    kept: list[int] = attrs.field(default=[])
    pair: Any = attrs.field(default=Pair(1, 2))


@pytest.mark.parametrize("hint", [Shared, Loose, Person, Tick])
def test_no_two_values_share_a_default(hint: Any) -> None:
    """A default that could be changed is new in each value, however deep it lies."""
    make, given = reader(hint), {Shared: "[]", Person: '{"name":"a"}', Tick: '{"kind":3}'}.get(hint, "{}")
    first, second = make(given), make(given)
    fields = {Shared: "first second", Loose: "kept pair", Person: "kids tags", Tick: "notes"}[hint].split()
    assert first == second
    assert [getattr(first, name) is getattr(second, name) for name in fields] == [False] * len(fields)


class Bag:
    """Holds things."""

    def __init__(self) -> None:
        self.things: list[int] = []


class Holds(NamedTuple):
    bag: Any = Bag()
    made: Any = 5


def test_no_two_values_share_an_object() -> None:
    """An instance of any class that is a default is new in each value."""
    make = reader(Holds)
    bags = [make("[]").bag, make("[]").bag]
    assert ([bag.things for bag in bags], bags[0] is bags[1]) == ([[], []], False)


def test_a_default_that_cannot_be_copied_is_told() -> None:
    """The class and the field are named, and what to do."""

    class Held(NamedTuple):
        at: Any = threading.Lock()

    with pytest.raises(NoSchema) as caught:
        Types().shape(Held)
    assert (str(caught.value), caught.value.remedy) == (
        "Held.at: its default can't be copied for each instance: cannot pickle '_thread.lock' object",
        "give it a factory",
    )


class Kept(pydantic.BaseModel):
    by: str = pydantic.Field(alias="By")
    hidden: int = pydantic.Field(default=1, exclude=True)

    @pydantic.computed_field  # type: ignore[prop-decorator]  # as pydantic has it
    @property
    def both(self) -> str:
        return self.by + self.by


class Gone(enum.Enum):
    """A mark, as attrs has one."""

    GONE = 1


@pytest.mark.parametrize(
    ("hint", "value", "held"),
    [
        (int, Gone.GONE, False),
        (list[Gone] | None, Gone.GONE, True),
        (Pair | Person | Gone, Gone.GONE, True),
        (Mood, Mood.UP, True),
        (str, Mood.UP, True),
        (int, "five", True),
    ],
)
def test_a_mark_is_no_value(hint: Any, value: Any, held: bool) -> None:
    """A member of an Enum that a hint does not name marks something; it is no value that a model could give."""
    assert holds(Types().shape(hint), value) == held


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (5, 5),
        ((1, (2,)), [1, [2]]),
        (Mood.UP, "z"),
        (Pair(1, 2), {"left": 1, "right": 2}),
        (datetime.date(2024, 2, 29), "2024-02-29"),
        (2**70, 2**70),
        (object(), NODEFAULT),
        (float("nan"), NODEFAULT),
        (Cat(lives=9), {"lives": 9}),
        (Kept(By="b").both, "bb"),
        ((Kept(By="b"),), [{"By": "b"}]),
        (Kept(By="b", hidden=2), NODEFAULT),
        (Kept.model_construct(by=5), NODEFAULT),
        ({"a": pydantic.RootModel[float](float("nan"))}, NODEFAULT),
    ],
)
def test_a_value_is_written_as_json_where_it_can_be(value: object, told: Any) -> None:
    """A value is written as JSON; a mark, NaN and a model that would come back as another have no words in it."""
    assert plain(value) == told


def test_a_model_that_is_none_warns_of_nothing(recwarn: pytest.WarningsRecorder) -> None:
    """Whether a default can be told is asked of it without a word to whoever runs the program."""
    assert (plain(Kept.model_construct(By=5)), recwarn.list) == (NODEFAULT, [])


Odd = NewType("Odd", Annotated[int, annotated_types.Predicate(lambda number: number % 2)])


@pytest.mark.parametrize(
    ("value", "why"), [(-1, "Expected `int` >= 0"), (4, "it does not pass <lambda>"), (9, "it does not pass")]
)
def test_what_is_noted_of_a_type_with_notes_holds_with_those(value: int, why: str) -> None:
    """Limits and tests hold all together, wherever each is written."""
    of = Annotated[Odd, msgspec.Meta(ge=0), annotated_types.Predicate(lambda number: number < 9)]
    assert read(of, 5) == 5
    with pytest.raises(msgspec.ValidationError, match=why):
        read(of, value)


def test_a_limit_that_does_not_suit_is_told() -> None:
    """A note that limits something else is no note that says nothing."""
    with pytest.raises(TypeError, match="`ge` must be an int or float"):
        Types().shape(Annotated[datetime.date, annotated_types.Ge(datetime.date(2024, 2, 29))])


def test_a_field_that_has_no_schema_is_named() -> None:
    """What is wrong with a hint in a class is told with the class and the field."""

    class Wrong(NamedTuple):
        at: Annotated[datetime.date, annotated_types.Ge(datetime.date(2024, 2, 29))]

    with pytest.raises(NoSchema, match=re.escape("Wrong.at: `ge` must be an int or float")):
        Types().shape(list[Wrong])


def test_one_class_has_one_shape() -> None:
    """A class that is named twice is taken apart once."""
    shapes = Types()
    pairs: list[tuple[Any, Any]] = [(Pair, list[Pair]), (Cat, list[Cat]), (Checked, list[Checked])]
    assert [shapes.shape(one) is shapes.shape(many).__args__[0] for one, many in pairs] == [True] * 3


def test_a_value_that_was_parsed_becomes_what_a_hint_says() -> None:
    """Dates, bytes, numbers of any length and the names of an object are read from plain values."""
    shape = Types().shape(dict[int, datetime.date | int | list[Pair]])
    assert convert({"1": "2024-02-29", "2": 2**70, "3": [{"left": 1, "right": 2}]}, shape, Examination()) == {
        1: datetime.date(2024, 2, 29),
        2: 2**70,
        3: [Pair(1, 2)],
    }


@dataclasses.dataclass
class Deep:
    inner: Deep | None = None
    beside: dict[str, Deep] = dataclasses.field(default_factory=dict)


def test_a_class_may_hold_itself() -> None:
    """However deep it does, each level is an instance."""
    assert read(Deep, {"inner": {"inner": {}}, "beside": {"a": {"inner": None}}}) == Deep(Deep(Deep()), {"a": Deep()})
