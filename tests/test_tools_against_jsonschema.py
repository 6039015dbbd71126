"""Arguments are judged as ``jsonschema``, with its format checks, judges them: over made-up schemas and values."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from loopmachine.tools.arguments import Arguments
from loopmachine.tools.reading import identity

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
@given(CLOSED.flatmap(lambda schema: st.tuples(st.just(schema), fitting(schema))))
def test_the_short_way_and_the_long_way_agree(case: tuple[dict[str, Any], Any]) -> None:
    """A code fence makes arguments take the long way, and changes nothing in what comes of them."""
    schema, value = case
    arguments, text = Arguments("f", schema, json.loads), json.dumps(value)
    assert arguments.check(text) == arguments.check(f"```json\n{text}\n```")
