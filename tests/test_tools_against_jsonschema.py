"""Arguments are judged as ``jsonschema``, with its format checks, judges them: over made-up schemas and values."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import uuid
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict, Union

import attrs
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker
from msgspec import Meta

from loopmachine.tools import Context, Tool
from loopmachine.tools.arguments import Arguments
from loopmachine.tools.reading import identity
from loopmachine.tools.shapes import plain


class Colour(enum.Enum):
    RED = "a"
    BLUE = "5"


class Code(enum.IntEnum):
    TWO = 2
    ONE = 1


class Mixed(enum.Enum):
    TEXT = "b"
    HALF = 0.5
    ROW = (1, "a")


TEXTS = st.sampled_from(
    [
        *[
            "",
            "a",
            "ab",
            "abc",
            "5",
            "-1",
            "3.0",
            "2.5",
            "1e2",
            "007",
            "true",
            "FALSE",
            "null",
            "[1]",
            '["a"]',
            '{"a":1}',
        ],
        *[
            "2024-02-29",
            "2023-02-29",
            "2024-02-29T09:30:00Z",
            "2024-02-29T09:30:00",
            "09:30:00Z",
            "09:30:00",
            "P1D",
            "P",
        ],
        *["12345678-1234-5678-1234-567812345678", "1234", "ann@example.org", "https://example.org/a?b#c", "http:// x"],
        *["urn:a:b", "192.0.2.1", "192.0.2.256", "2001:db8::1", "fe80::1%1", "é", "😀", 'q"\\', "a\nb"],
    ]
)
NUMBERS = st.one_of(
    st.integers(-3, 8), st.sampled_from([0.5, 1.5, 2.0, -1.0, 3.25, 1e20, 2**53 + 1, -(10**25), 1e-7, -0.0])
)
SCALARS: st.SearchStrategy[Any] = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
NAMES = st.sampled_from(["a", "b", "c", "a b"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda some: st.lists(some, max_size=3) | st.dictionaries(NAMES, some, max_size=3), max_leaves=6
)
FORMATS = ["date", "date-time", "time", "duration", "uuid", "email", "uri", "ipv4", "ipv6"]


def some_of(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of these keywords."""
    return st.fixed_dictionaries({}, optional=keywords)


def of_type(kind: str, **keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A schema of a type, with some of these keywords."""
    return some_of(**keywords).map(lambda said: {"type": kind, **said})


COUNT = st.integers(0, 3)
LIMITS = {"minimum": NUMBERS, "maximum": NUMBERS, "exclusiveMinimum": NUMBERS, "exclusiveMaximum": NUMBERS}
SIMPLE: st.SearchStrategy[dict[str, Any]] = st.one_of(
    of_type("integer", **LIMITS, multipleOf=st.integers(1, 3)),
    of_type("number", **LIMITS, multipleOf=st.sampled_from([1, 2, 0.5, 0.25])),
    of_type("string", minLength=COUNT, maxLength=COUNT, pattern=st.sampled_from(["^a", "[0-9]$", "b"])),
    of_type("string", format=st.sampled_from(FORMATS)),
    of_type("boolean"),
    of_type("null"),
    st.lists(SCALARS, min_size=1, max_size=4).map(lambda values: {"enum": values}),
    st.lists(TEXTS, min_size=1, max_size=4).map(lambda values: {"type": "string", "enum": values}),
    st.lists(NUMBERS, min_size=1, max_size=4).map(lambda values: {"type": "integer", "enum": values}),
    VALUES.map(lambda value: {"const": value}),
    st.lists(st.sampled_from(["integer", "number", "string", "null", "boolean", "array"]), min_size=1).map(
        lambda kinds: {"type": list(dict.fromkeys(kinds))}
    ),
    st.just({}),
    of_type("array", items=st.sampled_from([{"type": "string"}, {"type": "integer"}]), uniqueItems=st.booleans()),
)


def larger(some: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Schemas that hold schemas."""
    several = st.lists(some, min_size=1, max_size=3)
    return st.one_of(
        of_type("array", items=some, prefixItems=several, minItems=COUNT, maxItems=COUNT),
        objects(some),
        several.map(lambda options: {"anyOf": options}),
        several.map(lambda options: {"oneOf": options}),
        several.map(lambda options: {"allOf": options}),
        some.map(lambda schema: {"not": schema}),
    )


def objects(some: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Schemas of objects."""
    return of_type(
        "object",
        properties=st.dictionaries(NAMES, some, max_size=3),
        required=st.lists(NAMES, max_size=2, unique=True),
        additionalProperties=st.just(False) | st.just(True) | some,
        patternProperties=st.dictionaries(st.sampled_from(["^a", "b"]), some, max_size=1),
        propertyNames=st.sampled_from([{"maxLength": 1}, {"pattern": "^a"}, {}]),
        minProperties=COUNT,
        maxProperties=COUNT,
    )


SCHEMAS = st.recursive(SIMPLE, larger, max_leaves=5)
CLOSED = st.dictionaries(NAMES, SIMPLE | SCHEMAS, min_size=1, max_size=3).flatmap(
    lambda known: st.lists(st.sampled_from(sorted(known)), unique=True).map(
        lambda required: {
            "type": "object",
            "properties": known,
            "required": required,
            "additionalProperties": False,
        }
    )
)


def fitting(schema: Any) -> st.SearchStrategy[Any]:
    """Values that have a good chance to fit, or to be coerced."""
    if "properties" in schema:
        values = {name: fitting(one) for name, one in schema["properties"].items()}
        sure = {name: values.pop(name) for name in schema.get("required", ()) if name in values}
        return st.fixed_dictionaries(sure, optional=values)
    options = [fitting(one) for key in ("anyOf", "oneOf", "allOf") for one in schema.get(key, ())]
    if "prefixItems" in schema:
        options.append(st.tuples(*map(fitting, schema["prefixItems"])).map(list))
    if schema.get("type") == "array":
        options.append(st.lists(fitting(schema.get("items", {})), max_size=3))
    if schema.get("type") in ("integer", "number"):
        options += [NUMBERS, NUMBERS.map(json.dumps)]
    if schema.get("type") == "boolean":
        options.append(st.sampled_from([True, "false", " TRUE"]))
    if schema.get("type") == "string":
        options.append(TEXTS)
    options += [st.sampled_from(schema["enum"])] if "enum" in schema else []
    written = st.one_of(options).map(json.dumps) if options else VALUES
    return st.one_of([*options, *options, *options, VALUES, written])


CASES = st.one_of(objects(SCHEMAS), CLOSED, CLOSED).flatmap(lambda schema: st.tuples(st.just(schema), fitting(schema)))


@settings(max_examples=200, deadline=None)
@given(CASES)
@example(({"type": "object", "properties": {"a": {"allOf": [{"type": "string"}, {"type": "integer"}]}}}, {"a": "5"}))
@example(({"type": "object", "properties": {"a": {"type": "integer"}}}, {"a": 3.0}))
def test_accepts_unchanged_what_jsonschema_accepts_and_nothing_else(case: tuple[dict[str, Any], Any]) -> None:
    """A value that jsonschema accepts is accepted unchanged, and what is accepted after coercion it accepts too."""
    schema, value = case
    judge = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    text = json.dumps(value)
    checked, problem = Arguments("f", schema, json.loads).check(text)
    assert (checked is None) == bool(problem)
    if isinstance(value, dict) and judge.is_valid(value):
        assert checked is not None
        assert identity(json.loads(checked)) == identity(value)
    if checked is not None:
        assert judge.is_valid(json.loads(checked))


@settings(max_examples=200, deadline=None)
@given(CASES)
def test_the_short_way_and_the_long_way_agree(case: tuple[dict[str, Any], Any]) -> None:
    """A code fence makes arguments take the long way, and changes nothing in what comes of them."""
    schema, value = case
    arguments, text = Arguments("f", schema, json.loads), json.dumps(value)
    assert arguments.check(text) == arguments.check(f"```json\n{text}\n```")


# --- from hints -----------------------------------------------------------------------------------------------

LEAVES: list[Any] = [
    *(int, str, float, bool, type(None), Any, Colour, Code, Mixed, Literal["a", "5", 5, True], Literal["b", None]),
    *(Annotated[int, Meta(ge=0, le=5)], Annotated[str, Meta(pattern="^a", max_length=2)], Annotated[float, Meta(gt=0)]),
    *(datetime.date, datetime.datetime, datetime.time, decimal.Decimal, uuid.UUID),
]


def record_of(hints: list[Any], kind: int) -> Any:
    """A class with these fields, the last of which may be left out."""
    fields: list[tuple[str, Any]] = list(zip("abc", hints, strict=False))
    (last, hint) = fields.pop()
    if kind == 0:
        return dataclasses.make_dataclass("Made", [*fields, (last, hint, dataclasses.field(default=None))])
    if kind == 1:
        return attrs.make_class(
            "Made", {name: attrs.field(type=one) for name, one in fields} | {last: attrs.field(type=hint, default=None)}
        )
    if kind == 2:
        return TypedDict("Made", {**dict(fields), last: NotRequired[hint]})  # type: ignore[operator]  # known only now
    return NamedTuple("Made", [*fields, (last, hint)])


def holding(some: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Hints that hold hints."""
    several = st.lists(some, min_size=1, max_size=3)
    return st.one_of(
        some.map(lambda hint: list[hint]),  # type: ignore[valid-type]
        some.map(lambda hint: dict[str, hint]),  # type: ignore[valid-type]
        several.map(lambda hints: tuple[tuple(hints)]),  # type: ignore[misc]
        several.map(lambda hints: Union[tuple(hints)]),  # noqa: UP007
        st.builds(record_of, several, st.integers(0, 3)),
    )


HINTS = st.recursive(st.sampled_from(LEAVES), holding, max_leaves=4)


def whole(schema: Any, defs: dict[str, Any]) -> Any:
    """A schema with what it refers to in its place."""
    if isinstance(schema, list):
        return [whole(one, defs) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return whole(defs[schema["$ref"].removeprefix("#/$defs/")], defs)
    return {key: one if key in ("enum", "default") else whole(one, defs) for key, one in schema.items()}


def tool_of(hint: Any) -> Tool:
    """A tool with one parameter."""

    def f(a: Any) -> None: ...

    f.__annotations__["a"] = hint
    return Tool.of(f)


TOOLS = HINTS.map(tool_of).flatmap(
    lambda tool: st.tuples(st.just(tool), fitting(whole(tool.input_schema, tool.input_schema.get("$defs", {}))))
)
CHECKER = FormatChecker()
CHECKER.checkers = dict(Draft202012Validator.FORMAT_CHECKER.checkers)
CHECKER.checks("decimal", decimal.InvalidOperation)(
    lambda value: not isinstance(value, str) or decimal.Decimal(value).is_finite()
)


@settings(max_examples=200, deadline=None)
@given(TOOLS)
@example((tool_of(Annotated[int, Meta(ge=0)] | float), {"a": 1.0}))
@example((tool_of(list[int] | Any), {"a": [1.0]}))
def test_a_tool_gets_what_its_schema_takes(case: tuple[Tool, Any]) -> None:
    """What jsonschema accepts for a hint becomes a value of it, which is written as what the schema takes again."""
    tool, value = case
    judge = Draft202012Validator(tool.input_schema, format_checker=CHECKER)
    judge.check_schema(tool.input_schema)
    checked, _ = tool.arguments.check(json.dumps(value))
    assert (checked is not None) >= judge.is_valid(value)
    if checked is not None:
        assert judge.is_valid(json.loads(checked))
        _, named = tool.signature.bind(checked, Context())
        assert judge.is_valid({"a": plain(named["a"])})
