"""Constructors of frozen records that cost what those of open ones do."""

import copy
import inspect
import pickle
from typing import Any

import attrs
import pytest

from loopmachine import events, records, requests
from loopmachine.quick import quick

MODULES = (records, events, requests)
QUICK = [
    kind
    for module in MODULES
    for kind in vars(module).values()
    if isinstance(kind, type) and attrs.has(kind) and kind.__init__.__code__.co_filename.startswith("<the constructor")
]


def made() -> Any:
    """A class as attrs makes it."""

    @attrs.frozen
    class Made:
        """With what a record may have."""

        first: int
        second: str = "two"
        third: int = attrs.field(default=3, kw_only=True)
        made: int = attrs.field(init=False)

        def __attrs_post_init__(self) -> None:
            object.__setattr__(self, "made", self.first + self.third)

    return Made


Slow, Quick = made(), quick(made())


Sub = type("Sub", (Quick,), {})  #: of another layout


ARGUMENTS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1,), {}),
    ((1, "x"), {}),
    ((), {"first": 1, "third": 5}),
    ((1,), {"second": "y", "third": 0}),
]


@pytest.mark.parametrize(("places", "named"), ARGUMENTS)
def test_a_quick_record_is_what_attrs_makes(places: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Its fields, defaults and what its own end of the construction adds are the same, and it is of its class."""
    quick_one, slow_one = Quick(*places, **named), Slow(*places, **named)
    assert attrs.asdict(quick_one) == attrs.asdict(slow_one)
    assert type(quick_one) is Quick
    assert repr(quick_one) == repr(slow_one)


@pytest.mark.parametrize(("places", "named"), [((), {}), ((1, "x", 3), {}), ((1,), {"fourth": 4})])
def test_wrong_arguments_are_refused_as_attrs_refuses_them(places: tuple[Any, ...], named: dict[str, Any]) -> None:
    """TypeError, in the same words."""
    with pytest.raises(TypeError) as quickly:
        Quick(*places, **named)
    with pytest.raises(TypeError) as slowly:
        Slow(*places, **named)
    assert str(quickly.value) == str(slowly.value)


def test_a_quick_record_is_frozen() -> None:
    """Nothing of it can be set or deleted once it is made, and it is copied, pickled and evolved like any."""
    one = Quick(1)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        one.first = 2
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        del one.second
    assert (one.first, one.second) == (1, "two")
    assert (copy.deepcopy(one), attrs.evolve(one), hash(one)) == (one, one, hash(Quick(1)))
    call = records.Call("c1", "add", step=1)
    assert pickle.loads(pickle.dumps(call)) == call


def test_a_subclass_is_constructed_as_it_was() -> None:
    """One of another layout has no part in the twin."""
    one = Sub(1, third=4)
    assert (type(one), one.first, one.second, one.third, one.made) == (Sub, 1, "two", 4, 5)


def test_the_twin_of_a_class_looks_like_it() -> None:
    """To who looks for subclasses."""
    twin, *others = [kind for kind in Quick.__subclasses__() if kind is not Sub]
    assert (twin.__name__, twin.__module__, twin.__doc__, others) == ("Made", __name__, Quick.__doc__, [])


def test_the_constructor_says_what_that_of_attrs_says() -> None:
    """Its parameters, their types and its name."""
    init = Quick.__init__
    assert list(inspect.signature(Quick).parameters.values()) == list(inspect.signature(Slow).parameters.values())
    assert (init.__qualname__, init.__module__) == (Slow.__init__.__qualname__, __name__)


@attrs.frozen(slots=False)
class Unslotted:
    """Without slots."""

    first: int


@attrs.frozen
class Converted:
    """With a converter."""

    first: int = attrs.field(converter=int)


@attrs.frozen
class Validated:
    """With a validator."""

    first: int = attrs.field(validator=attrs.validators.instance_of(int))


@attrs.frozen
class Factored:
    """With a factory."""

    first: list[int] = attrs.field(factory=list)


@attrs.frozen
class Private:
    """With another name outside."""

    _first: int


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Unslotted, "Unslotted: only a class with slots has an open twin"),
        (Converted, "Converted.first: it is not set as it is given"),
        (Validated, "Validated.first: it is not set as it is given"),
        (Factored, "Factored.first: it is not set as it is given"),
        (Private, "Private._first: it is not set as it is given"),
    ],
)
def test_what_would_be_constructed_otherwise_is_refused(kind: type, said: str) -> None:
    """By name, where the class is defined."""
    with pytest.raises(TypeError) as refused:
        quick(kind)
    assert str(refused.value) == said


def test_the_records_of_each_turn_are_quick() -> None:
    """Those that a turn with one call makes."""
    names = (
        "AskModel Call CallResult CallReturned CancelPolled Exchange Final Flight ModelReplied PollCancel StartCalls"
    )
    assert sorted({kind.__name__ for kind in QUICK}) == [*names.split(), "Turn"]
