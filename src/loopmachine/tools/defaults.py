"""Arguments with the defaults that their schema tells, as if whoever left them out had written them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any

from loopmachine.frozen import freeze, thaw
from loopmachine.tools.compiling import Compiler
from loopmachine.tools.context import Context
from loopmachine.tools.nodes import Examination
from loopmachine.tools.patterns import searcher
from loopmachine.tools.tool import Tool

Schema = Mapping[str, Any]
Gap = tuple[Any, Any, Any]  #: a list or an object, a place or name that may be left out there, and its default


def with_defaults(tool: Tool, checked: str) -> str:
    """Checked arguments with each default that the schema tells, if the tool is called with the very same without it.

    The others, such as one that a validator would change or a union take for another type, are left to the tool.
    """
    value, kept = thaw(checked), checked
    before = cache(lambda: (_called(tool, checked), _called(tool, checked)))

    def fits() -> bool:
        nonlocal kept
        try:
            whole, _ = tool.arguments.check(freeze(value))
            if whole is None or not _same(*before(), _called(tool, whole)):
                return False
        except Exception:  # a class or a handler that nothing can be said of
            return False
        kept = whole
        return True

    fill(gaps(tool.input_schema, value), fits)
    return kept


def gaps(schema: Schema, value: Any) -> list[list[Gap]]:
    """Where the defaults that a schema tells belong in a value that it accepts, and in its parts; of each all gaps."""
    walk = _Walk(schema)
    walk.visit(schema, value)
    found: dict[int, list[Gap]] = {}
    for told, part in walk.seen.values():
        listed = isinstance(part, list)
        for place, one in enumerate(told.get("prefixItems", ())) if listed else told.get("properties", {}).items():
            if isinstance(one, Mapping) and "default" in one:
                found.setdefault(id(one), []).append((part, place, one["default"]))
    return [*found.values()]


def fill(defaults: Sequence[Sequence[Gap]], fits: Callable[[], bool]) -> None:
    """Fill, in place, what is left out, with those defaults after which ``fits`` holds.

    Each is put into all its gaps or none, so that the questions are bounded by the schema, however long a value is.
    """
    filled = []
    for part, place, default in (gap for of_one in defaults for gap in of_one):
        if isinstance(part, list) and place == len(part):
            part.append(default)
        elif isinstance(part, dict) and place not in part:
            part[place] = default
        else:
            continue
        filled.append((part, place))
    if not filled or fits():
        return
    for part, place in reversed(filled):
        del part[place]
    if len(defaults) > 1:
        half = len(defaults) // 2
        fill(defaults[:half], fits)
        fill(defaults[half:], fits)


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


# --- what a tool is called with ---------------------------------------------------------------------------


def _called(tool: Tool, checked: str) -> Any:
    """The arguments of a call, the handler's own defaults among them, for comparison."""
    args, named = tool.signature.bind(checked, Context())
    bound = inspect.signature(tool.handler).bind(*args, **named)
    bound.apply_defaults()
    return _marks(bound.arguments)


def _marks(value: Any) -> Any:
    """A value with the types of all its parts, for 1 and True are equal, and so are tuples of whatever names."""
    kind = type(value)
    if isinstance(value, dict):  # but for what pydantic notes of who gave a field, which its models' == ignores, too
        return kind, *((_marks(key), _marks(one)) for key, one in value.items() if key != "__pydantic_fields_set__")
    if isinstance(value, list | tuple):
        return kind, *map(_marks, value)
    if isinstance(value, set | frozenset):
        return kind, frozenset(map(_marks, value))
    if kind in (int, float):  # a whole number that stands for a float is that float: amount: float = 1000
        return float, value
    held = _held(value)
    return kind, value, _marks(held) if held else repr(value)  # equal times may be of two zones, which repr tells


def _held(value: Any) -> Any:
    """What an object holds; of a dataclass also those defaults that msgspec leaves to the class."""
    if isinstance(value, type):
        return None
    fields = {name: getattr(value, name, None) for name in getattr(value, "__dataclass_fields__", ())}
    state = object.__getstate__(value)
    return fields | state if isinstance(state, dict) else fields or state


def _same(first: Any, again: Any, other: Any) -> bool:
    """Whether a call is what it was before, twice; what is made anew each time, such as an id, may be any."""
    if first == again:
        return bool(first == other)
    if not (isinstance(first, tuple) and isinstance(again, tuple) and len(first) == len(again)):
        return True
    return len(first) == len(other) and all(map(_same, first, again, other))
