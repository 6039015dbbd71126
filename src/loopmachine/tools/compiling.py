"""From a JSON Schema to nodes. A keyword that can't be checked is refused here, not ignored later."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any
from typing import Final as Constant

from msgspec import Struct

from loopmachine.tools import nodes
from loopmachine.tools.formats import FORMATS, fits
from loopmachine.tools.nodes import Node
from loopmachine.tools.patterns import BOUNDED, Unbounded, searcher
from loopmachine.tools.words import cut, either, listed, one_of, show

KINDS: Constant[dict[str, str]] = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}

#: What a schema may say beside what it demands.
NOTES: Constant = frozenset(
    {
        "$schema",
        "$id",
        "$comment",
        "$defs",
        "definitions",
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "contentMediaType",
        "discriminator",
    }
)


# --- what the keywords take -------------------------------------------------------------------------------


def _is_schema(argument: Any) -> bool:
    return isinstance(argument, bool | Mapping)


def _is_count(argument: Any) -> bool:
    return isinstance(argument, int) and not isinstance(argument, bool) and argument >= 0


def _is_number(argument: Any) -> bool:
    return isinstance(argument, int | float) and not isinstance(argument, bool)


def _is_type(argument: Any) -> bool:
    named = argument if isinstance(argument, list) else [argument]
    return bool(named) and all(isinstance(one, str) and one in KINDS for one in named)


def _is_pattern(argument: Any) -> bool:
    try:
        return isinstance(argument, str) and bool(re.compile(argument))
    except (re.error, OverflowError, RecursionError):
        return False


def _is_bounded(pattern: str) -> bool:
    try:
        return searcher(pattern) is not None
    except Unbounded:
        return False


def _listed(test: Callable[[Any], bool], least: int = 0) -> Callable[[Any], bool]:
    return lambda argument: isinstance(argument, list) and len(argument) >= least and all(map(test, argument))


def _are_named(argument: Any) -> bool:
    return isinstance(argument, Mapping) and all(map(_is_schema, argument.values()))


_A_SCHEMA = (_is_schema, "a schema")
_SCHEMAS = (_listed(_is_schema, 1), "a list of schemas")
_NAMED_SCHEMAS = (_are_named, "schemas by name")
_COUNT = (_is_count, "a whole number from 0 on")
_NUMBER = (_is_number, "a number")

#: The keywords that are checked, with what each takes.
KEYWORDS: Constant[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "type": (_is_type, f"one or a list of {listed(KINDS)}"),
    "enum": (_listed(lambda _: True, 1), "a list of values"),
    "const": (lambda _: True, "a value"),
    "$ref": (lambda argument: isinstance(argument, str), "text"),
    "minLength": _COUNT,
    "maxLength": _COUNT,
    "pattern": (_is_pattern, "a regular expression that Python can read"),
    "format": (lambda argument: isinstance(argument, str) and argument in FORMATS, f"one of {listed(FORMATS)}"),
    "contentEncoding": (lambda argument: argument == "base64", "base64"),
    "minimum": _NUMBER,
    "maximum": _NUMBER,
    "exclusiveMinimum": _NUMBER,
    "exclusiveMaximum": _NUMBER,
    "multipleOf": (lambda argument: _is_number(argument) and argument > 0, "a number above 0"),
    "items": _A_SCHEMA,
    "prefixItems": _SCHEMAS,
    "minItems": _COUNT,
    "maxItems": _COUNT,
    "uniqueItems": (lambda argument: isinstance(argument, bool), "true or false"),
    "properties": _NAMED_SCHEMAS,
    "patternProperties": (
        lambda argument: _are_named(argument) and all(map(_is_pattern, argument)),
        "schemas by regular expressions that Python can read",
    ),
    "required": (_listed(lambda one: isinstance(one, str)), "a list of names"),
    "additionalProperties": _A_SCHEMA,
    "propertyNames": _A_SCHEMA,
    "minProperties": _COUNT,
    "maxProperties": _COUNT,
    "anyOf": _SCHEMAS,
    "oneOf": _SCHEMAS,
    "allOf": _SCHEMAS,
    "not": _A_SCHEMA,
}


def is_multiple(value: float, unit: float) -> bool:
    """Whether a number is a multiple of a unit, both as they are written: 0.3 is one of 0.1."""
    if isinstance(value, int) and isinstance(unit, int):
        return value % unit == 0
    over, under = Decimal(repr(value)).as_integer_ratio()
    unit_over, unit_under = Decimal(repr(unit)).as_integer_ratio()
    return over * unit_under % (under * unit_over) == 0


#: Limits: the kind of value that they hold for, the test of a value, and what is wanted in words.
LIMITS: Constant[dict[str, tuple[str, Callable[[Any, Any], object], str]]] = {
    "minimum": ("number", lambda value, limit: value >= limit, "a number from {} on"),
    "maximum": ("number", lambda value, limit: value <= limit, "a number up to {}"),
    "exclusiveMinimum": ("number", lambda value, limit: value > limit, "a number above {}"),
    "exclusiveMaximum": ("number", lambda value, limit: value < limit, "a number below {}"),
    "multipleOf": ("number", is_multiple, "a multiple of {}"),
    "minLength": ("string", lambda value, limit: len(value) >= limit, "text of at least {} characters"),
    "maxLength": ("string", lambda value, limit: len(value) <= limit, "text of at most {} characters"),
    "pattern": ("string", lambda value, pattern: searcher(pattern)(value), "text that the pattern {} matches"),
    "format": ("string", lambda value, name: fits(name, value), "{}"),
    "contentEncoding": ("string", lambda value, name: fits(name, value), "{}"),
    "minItems": ("array", lambda value, limit: len(value) >= limit, "a list of at least {} items"),
    "maxItems": ("array", lambda value, limit: len(value) <= limit, "a list of at most {} items"),
    "minProperties": ("object", lambda value, limit: len(value) >= limit, "an object of at least {} names"),
    "maxProperties": ("object", lambda value, limit: len(value) <= limit, "an object of at most {} names"),
}


# --- the compiler -------------------------------------------------------------------------------------------


def compiled(schema: Mapping[str, Any]) -> tuple[Node, list[str]]:
    """The schema's node, and all that can't be checked in it, a sentence each."""
    compiler = Compiler(schema)
    return compiler.whole(), compiler.faults


def circles(node: Node) -> list[str]:
    """A ``$ref`` that leads back to itself through no list and no object would never end."""
    done: set[int] = set()

    def turns(one: Node, above: tuple[int, ...]) -> bool:
        if id(one) in above:
            return True
        if id(one) in done:
            return False
        done.add(id(one))
        return any(turns(other, (*above, id(one))) for other in one.beside) or any(turns(o, ()) for o in one.parts)

    return ["$ref: it leads back to itself and says nothing"] if turns(node, ()) else []


class Compiler(Struct):
    """Makes the nodes of one schema; a schema that is referred to twice is one node."""

    root: Mapping[str, Any]
    faults: list[str] = []
    made: dict[int, Node] = {}

    def whole(self) -> Node:
        """The node of the whole schema."""
        node = self.node(self.root, ())
        if not self.faults:
            self.faults += circles(node)
        return node

    def node(self, schema: Any, path: tuple[str, ...] = ()) -> Node:
        """The node of a schema at this path of keywords and names."""
        if id(schema) in self.made and not isinstance(schema, bool):
            return self.made[id(schema)]
        node = Node()
        if isinstance(schema, bool):
            node.checks = [] if schema else [nodes.nothing]
            return node
        self.made[id(schema)] = node
        said = {keyword: argument for keyword, argument in schema.items() if self.takes(keyword, argument, path)}
        node.words = lambda: words(said, node)
        for make in (_type, _values, _reference, _limits, _names, _structure, _unions):
            make(self, node, said, path)
        return node

    def takes(self, keyword: str, argument: Any, path: tuple[str, ...]) -> bool:
        """Whether a keyword is to be checked; a fault where it can't be."""
        if keyword in NOTES or keyword.startswith("x-"):
            return False
        test, wanted = KEYWORDS.get(keyword, (None, ""))
        place = ".".join((*path, keyword))
        if test is None:
            self.faults.append(f"{place}: this keyword can't be checked; leave it out, and check it in the tool")
            return False
        if not test(argument):
            self.faults.append(f"{place}: it takes {wanted}, not {show(argument)}")
            return False
        unbounded = [one for one in _patterns(keyword, argument) if not _is_bounded(one)]
        if unbounded:
            self.faults.append(f"{place}: {show(unbounded[0])} can't be matched in bounded time; {BOUNDED}")
            return False
        return True

    def referred(self, reference: str, path: tuple[str, ...]) -> Node | None:
        """The node that a ``$ref`` names, which is in the same schema."""
        found: Any = self.root
        steps = reference.split("/")
        for step in steps[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        if steps[0] == "#" and _is_schema(found):
            return self.node(found, tuple(steps[1:]))
        self.faults.append(f"{'.'.join((*path, '$ref'))}: {cut(reference)!r} names no schema in this one")
        return None


Said = Mapping[str, Any]
Path = tuple[str, ...]


def _type(compiler: Compiler, node: Node, said: Said, path: Path) -> None:
    if "type" in said:
        node.kinds = _list(said["type"])
        node.checks.append(nodes.typed(node.kinds, node))


def _values(compiler: Compiler, node: Node, said: Said, path: Path) -> None:
    node.values = list(map(show, _values_of(said)))
    if "enum" in said:
        node.checks.append(nodes.one_of_values(said["enum"], node))
    if "const" in said:
        node.checks.append(nodes.one_of_values([said["const"]], node))


def _reference(compiler: Compiler, node: Node, said: Said, path: Path) -> None:
    other = compiler.referred(said["$ref"], path) if "$ref" in said else None
    if other is not None:
        node.beside.append(other)
        node.bases.append(other)
        node.checks.append(nodes.also(other))


def _limits(compiler: Compiler, node: Node, said: Said, path: Path) -> None:
    node.checks += [_limit(keyword, said[keyword]) for keyword in LIMITS if keyword in said]
    if said.get("uniqueItems"):
        node.checks.append(nodes.distinct)


def _limit(keyword: str, argument: Any) -> nodes.Check:
    kind, test, wanted = LIMITS[keyword]
    named = FORMATS[argument][1] if kind == "string" and wanted == "{}" else show(argument)
    return nodes.limited(kind, lambda value: test(value, argument), wanted.format(named))


def _names(compiler: Compiler, node: Node, said: Said, path: Path) -> None:
    if "propertyNames" in said:
        node.checks.append(nodes.names(compiler.node(said["propertyNames"], (*path, "propertyNames"))))


def _structure(compiler: Compiler, node: Node, said: Said, path: Path) -> None:
    def each(keyword: str) -> dict[str, Node]:
        return {name: compiler.node(one, (*path, keyword, name)) for name, one in said.get(keyword, {}).items()}

    def rest(keyword: str) -> Node | None:
        schema = said.get(keyword, True)
        return None if schema is False else compiler.node(schema, (*path, keyword))

    if said.keys() & {"properties", "required", "patternProperties", "additionalProperties"}:
        known = each("properties")
        node.tags = {name: found for name, one in said.get("properties", {}).items() if (found := _values_of(one))}
        patterns = each("patternProperties")
        matching = [(searcher(pattern), one) for pattern, one in patterns.items()]
        others = rest("additionalProperties")
        node.checks.append(nodes.properties(known, said.get("required", ()), matching, others))
        node.parts += [*known.values(), *patterns.values(), *([others] if others else [])]
    if said.keys() & {"prefixItems", "items"}:
        first = [compiler.node(one, (*path, "prefixItems")) for one in said.get("prefixItems", ())]
        others = rest("items")
        node.checks.append(nodes.items(first, others))
        node.parts += [*first, *([others] if others else [])]


def _unions(compiler: Compiler, node: Node, said: Said, path: Path) -> None:
    for keyword in ("allOf", "anyOf", "oneOf", "not"):
        found = [compiler.node(one, (*path, keyword)) for one in _list(said.get(keyword, []))]
        node.beside += found
        if keyword == "allOf":
            node.bases += found
            node.checks += [nodes.also(one) for one in found]
        elif keyword == "not":
            node.checks += [nodes.unlike(one) for one in found]
        elif found:
            node.checks.append(nodes.union(found, node, single=keyword == "oneOf"))


def _values_of(schema: Any) -> list[Any]:
    """The values that a schema takes, if it names them."""
    said: Said = schema if isinstance(schema, Mapping) else {}
    return [*said.get("enum", [said["const"]] if "const" in said else [])]


def _patterns(keyword: str, argument: Any) -> list[str]:
    return [argument] if keyword == "pattern" else [*argument] if keyword == "patternProperties" else []


def _list(argument: Any) -> list[Any]:
    return argument if isinstance(argument, list) else [argument]


def words(said: Said, node: Node) -> str:
    """What a schema wants, in a few words."""
    if node.values:
        return one_of(node.values)
    if "format" in said:
        return FORMATS[said["format"]][1]
    if "type" in said:
        return " or ".join(KINDS[kind] for kind in _list(said["type"]))
    if node.beside and "not" not in said:
        every = node.beside[:1] if said.keys() & {"$ref", "allOf"} else node.beside
        return either((other.values, other.wanted) for other in every)
    return "an object" if "properties" in said else "a value"
