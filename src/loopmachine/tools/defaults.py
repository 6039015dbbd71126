"""Arguments with the defaults that their schema tells, as if whoever left them out had written them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from loopmachine.tools.compiling import Compiler
from loopmachine.tools.nodes import Examination
from loopmachine.tools.patterns import searcher

Schema = Mapping[str, Any]


def with_defaults(schema: Schema, value: Any) -> Any:
    """A value that the schema accepts, with what was left out of it and of its parts; it is changed in place."""
    walk = _Walk(schema)
    walk.visit(schema, value)
    for told, part in walk.seen.values():  # last, so that no default is looked at, which might hold itself
        _complete(told, part)
    return value


class _Walk:
    """Finds the lists and objects of a value, each with the schemas that tell of it, in time in proportion to it."""

    def __init__(self, root: Schema) -> None:
        self.seen: dict[tuple[int, int], tuple[Schema, Any]] = {}
        self._root = root
        self._compiler = Compiler(root)
        self._look = Examination()

    def visit(self, schema: Any, value: Any) -> None:
        """Go through a value and its parts."""
        key = id(schema), id(value)
        if not isinstance(schema, Mapping) or not isinstance(value, dict | list) or key in self.seen:
            return
        self.seen[key] = schema, value
        for other in self._beside(schema, value):
            self.visit(other, value)
        for of_part, part in _parts(schema, value):
            self.visit(of_part, part)

    def _beside(self, schema: Schema, value: Any) -> Iterator[Any]:
        """The schemas that tell of the same value; of a union the first that accepts it."""
        if "$ref" in schema:
            yield self._referred(schema["$ref"])
        yield from schema.get("allOf", ())
        for union in ("anyOf", "oneOf"):
            accepting = (one for one in schema.get(union, ()) if not self._look.at(self._compiler.node(one), value)[1])
            yield from islice(accepting, 1)

    def _referred(self, reference: str) -> Any:
        found: Any = self._root
        for step in reference.split("/")[1:]:
            found = found[step.replace("~1", "/").replace("~0", "~")]
        return found


def _parts(schema: Schema, value: Any) -> Iterator[tuple[Any, Any]]:
    """The parts of a list or an object, each with a schema that tells of it."""
    if isinstance(value, list):
        first, rest = schema.get("prefixItems", ()), schema.get("items")
        yield from ((first[place] if place < len(first) else rest, part) for place, part in enumerate(value))
        return
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, part in value.items():
        found = [named[name]] if name in named else []
        found += [one for pattern, one in patterns.items() if searcher(pattern)(name)]
        yield from ((one, part) for one in found or [schema.get("additionalProperties")])


def _complete(schema: Schema, value: Any) -> None:
    """Put the defaults into a list or an object that are due there."""
    if isinstance(value, list):
        for one in schema.get("prefixItems", ())[len(value) :]:
            if not _has_default(one):
                break
            value.append(one["default"])
        return
    for name, one in schema.get("properties", {}).items():
        if name not in value and _has_default(one):
            value[name] = one["default"]


def _has_default(schema: Any) -> bool:
    return isinstance(schema, Mapping) and "default" in schema
