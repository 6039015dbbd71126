"""What hostile arguments cost: work in proportion to their size, memory in proportion to their text."""

from __future__ import annotations

import dataclasses
import json
import tracemalloc
from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import msgspec
import pytest
from typing_extensions import TypeAliasType

from loopmachine import Tool
from loopmachine.tools import Context
from tests.test_tools_arguments import functions_called


@dataclasses.dataclass
class One:
    kid: One | Two | Three | None = None
    n: int = 0


@dataclasses.dataclass
class Two:
    kid: One | Two | Three | None = None
    n: int = 0
    m: int = 0


class Three(msgspec.Struct):
    kid: One | Two | Three | None = None
    kids: list[One | Two | Three] = []
    o: int = 0


class Row(NamedTuple):
    first: Row | list[Row] | int
    second: Annotated[int, "beside"] = 0


Mesh = TypeAliasType("Mesh", "list[Mesh] | tuple[Mesh, ...] | dict[str, Mesh] | dict[str, int] | int")
Form = One | Two | Three


def take(form: Form | None = None, row: Row | None = None, mesh: Mesh | None = None) -> None:
    """Takes what holds itself in several ways."""


TAKE = Tool.of(take)


def chain(name: str, begin: str, end: str, last: str) -> Callable[[int], str]:
    """Writes arguments that hold a value in itself, so many times."""
    return lambda levels: '{"' + name + '":' + begin * levels + last + end * levels + "}"


def in_text(levels: int, last: Any) -> Any:
    """An object in text in an object in text: each level has twice the text of the next."""
    return json.dumps({"kid": in_text(levels - 1, last)}) if levels else last


#: Arguments of so many levels, valid and not.
GROWING: dict[str, Callable[[int], str]] = {
    "classes": chain("form", '{"kid":', "}", '{"o":1}'),
    "classes that fit nothing": chain("form", '{"kid":', "}", '{"z":1}'),
    "classes to be coerced": chain("form", '{"kid":', "}", '{"o":"1"}'),
    "classes that could be two": chain("form", '{"kid":', "}", '{"n":"1"}'),
    "classes in lists": chain("form", '{"kids":[{"kid":', "}]}", '{"o":1}'),
    "rows": chain("row", "[[", ",5]]", "[1]"),
    "lists": chain("mesh", "[", "]", "1"),
    "objects": chain("mesh", '{"a":', "}", "1"),
    "objects that fit nothing": chain("mesh", '{"a":', "}", "null"),
}


def visits(text: str) -> Counter[str]:
    """How often each function is called to check arguments, and to make typed values of those that fit."""

    def check() -> None:
        checked, _ = TAKE.arguments.check(text)
        if checked is not None:
            TAKE.signature.bind(checked, Context())

    check()  # what is made once
    return functions_called(check)


@pytest.mark.parametrize("name", GROWING)
def test_each_level_costs_what_the_one_before_did(name: str) -> None:
    """For as many levels more a recursive union is looked at as many times more, however many types it has."""
    few, some, many = (visits(GROWING[name](levels)) for levels in (8, 14, 20))
    first, second = (+(some - few)).total(), (+(many - some)).total()
    assert (first > 0, abs(second - first) <= first // 8) == (True, True)


@pytest.mark.parametrize("last", [{"o": 1}, {"z": 1}])
def test_each_level_of_text_in_text_costs_what_the_one_before_did(last: Any) -> None:
    """What a type of a union reads from text is not looked at again for what the others read from it."""
    few, some, many = (visits(json.dumps({"form": in_text(levels, last)})).total() for levels in (4, 8, 12))
    assert 0 < many - some <= 2 * (some - few)


def peak(text: str) -> int:
    """The most bytes that were held at once while arguments are checked."""
    tracemalloc.start()
    try:
        TAKE.arguments.check(text)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


#: Hostile text of about so many characters, and how many bytes may be held for each of them.
TEXTS: dict[str, tuple[Callable[[int], str], int]] = {
    "text": (lambda size: json.dumps({"row": "x" * size}), 8),
    "quotes": (lambda size: json.dumps({"row": '"' * (size // 2)}), 8),
    "a name": (lambda size: json.dumps({"x" * size: 1}), 8),
    "names": (lambda size: json.dumps({f"n{place:06}": 1 for place in range(size // 12)}), 40),
    "doubles": (lambda size: "{" + ",".join(['"n":1'] * (size // 6)) + "}", 60),
    "depth": (lambda size: '{"mesh":' + "[" * size, 40),
    "digits": (lambda size: '{"row":' + "9" * size + "}", 8),
    "numbers": (lambda size: '{"mesh":[' + "1," * (size // 2) + "1]}", 100),
    "lists": (lambda size: '{"mesh":[' + "[]," * (size // 3) + "[]]}", 2000),
    "fences": (lambda size: "`" * size, 8),
    "no JSON": (lambda size: "{" * size, 40),
    "halves of characters": (lambda size: '{"mesh":[' + '"\\ud800",' * (size // 9) + "0]}", 100),
}


@pytest.mark.parametrize("name", TEXTS)
def test_memory_is_in_proportion_to_the_text(name: str) -> None:
    """No text makes the host hold more than a fixed number of bytes for each of its characters."""
    write, most = TEXTS[name]
    peak(write(100))  # what is made once
    for size in (2_000, 8_000):
        assert peak(write(size)) <= most * size
