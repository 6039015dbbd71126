"""A path that was found, as a list to read and as a test to paste: records and events in Python's own words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import attrs

from loopmachine.history import History
from loopmachine.loop import Loop
from loopmachine.review.explore import Broken
from loopmachine.review.moves import moves
from loopmachine.review.promises import broken
from loopmachine.review.world import handed_in


def source(value: Any) -> str:
    """A record as the expression that makes it: every field that is not its default."""
    if isinstance(value, tuple):
        return f"({', '.join(map(source, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, History):
        return f"History([{', '.join(map(source, value.entries))}])"
    if not attrs.has(type(value)):
        return repr(value)
    given = [f"{name}={source(told)}" for name, told in _given(value)]
    return f"{type(value).__name__}({', '.join(given)})"


def steps(found: Broken) -> str:
    """The path as a numbered list: each event, and the rows that it took; then the promise and how it is broken."""
    lines = [
        f"{number:3}. {source(event)}\n       -> {', '.join(rows) or 'refused'}"
        for number, (event, rows) in enumerate(found.path, 1)
    ]
    return "\n".join([*lines, f"     {found.promise} is broken: {found.sentence}"])


def written_test(found: Broken, definition: str) -> str:
    """A pytest test that plays the path through ``Loop`` and fails as long as a promise is broken on it."""
    module, _, name = definition.partition(":")
    world, events = found.world, [event for event, _ in found.path]
    made: dict[str, Any] = {"budget": world.budget, "policy": world.policy}
    if world.old:
        made["history"] = handed_in()
    given = "".join(f", {word}={source(value)}" for word, value in made.items())
    said = " ".join(found.sentence.split()).replace("\\", "/").replace('"', "'")
    classes: set[Any] = {kind for value in (*made.values(), *events) for kind in _classes(value)}
    classes |= {Loop, moves, broken}
    imports = {f"from {kind.__module__} import {kind.__name__}" for kind in classes} | {f"from {module} import {name}"}
    listed = "\n".join(f"        {source(event)}," for event in events)
    return f'''{chr(10).join(sorted(imports))}


def test_{found.promise.lower()}_{re.sub(r"[^a-z]+", "_", found.sentence.lower())[:40].strip("_")}():
    """{found.promise} holds where it was broken: {said}"""
    loop = Loop("go"{given}, definition={name}, at=0.0)
    start = loop.snapshot
    for event in [
{listed}
    ]:
        loop.send(event)
    assert [broken(move) for move in moves({name}, start, loop.snapshot.events) if broken(move)] == []
'''


def _given(record: Any) -> Iterator[tuple[str, Any]]:
    """The fields of a record that have to be given to make it."""
    for field in attrs.fields(type(record)):
        default = field.default.factory() if isinstance(field.default, attrs.Factory) else field.default  # type: ignore[arg-type]  # generic
        told = getattr(record, field.name)
        if field.init and (default is attrs.NOTHING or told != default):
            yield field.name, told


def _classes(value: Any) -> Iterator[type[Any]]:
    """The classes of a record and of all that is in it."""
    if isinstance(value, tuple | History):
        for one in value.entries if isinstance(value, History) else value:
            yield from _classes(one)
    if isinstance(value, History) or attrs.has(type(value)):
        yield type(value)
    if attrs.has(type(value)):
        for _, told in _given(value):
            yield from _classes(told)
