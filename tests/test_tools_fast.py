"""The short way: which schemas have one, and that it takes no more than the long way."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from loopmachine.tools.fast import reader

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}


def closed(**properties: Any) -> dict[str, Any]:
    """A closed object."""
    return {"type": "object", "properties": properties, "additionalProperties": False}


#: Schemas of ``v``, each with JSON that it takes, as it comes out, and JSON that it leaves to the long way.
SHORT: list[tuple[Any, dict[str, str], list[str]]] = [
    ({"type": "integer"}, {"5": "5", "100000000000000000000": "100000000000000000000"}, ["5.0", '"5"', "true", "null"]),
    ({"type": "integer", "minimum": 1, "maximum": 3}, {"1": "1", "3": "3"}, ["0", "4"]),
    ({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 3}, {"2": "2"}, ["1", "3"]),
    ({"type": "number"}, {"5": "5", "5.0": "5.0", "1e2": "100.0"}, ['"5"', "true", "NaN", "1e400"]),
    ({"type": "boolean"}, {"true": "true"}, ['"true"', "1"]),
    ({"type": "null"}, {"null": "null"}, ["0"]),
    ({"type": "string", "minLength": 1, "maxLength": 2}, {'"\\u00e9"': '"é"'}, ['""', '"abc"', "5"]),
    ({"type": "string", "pattern": "b"}, {'"abc"': '"abc"'}, ['"a"']),
    (
        {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
        {"[1, 2]": "[1,2]"},
        ["[]", "[1,2,3]"],
    ),
    ({"type": "array"}, {'[1,"a",{}]': '[1,"a",{}]'}, ["{}"]),
    ({"type": "object"}, {'{"b":1,"a":[null]}': '{"b":1,"a":[null]}'}, ["[]"]),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, {'{"b":1}': '{"b":1}'}, ['{"b":"1"}']),
    (PERSON, {'{"name":"x"}': '{"name":"x"}'}, ["{}", '{"name":5}', '{"name":"x","age":1}']),
    (
        {"enum": ["a", 1, None, True]},
        {'"a"': '"a"', "1": "1", "null": "null", "true": "true"},
        ['"b"', "2", "1.0", "false"],
    ),
    ({"type": "integer", "enum": [1, 2]}, {"2": "2"}, ["3", "true", "2.0"]),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"5": "5", "null": "null"}, ['"5"']),
    ({}, {"[5.0]": "[5.0]"}, []),
    (True, {"5": "5"}, []),
    ({"description": "any", "title": "t", "default": 5}, {"5": "5"}, []),
    ({"$ref": "#/$defs/person"}, {'{"name":"x"}': '{"name":"x"}'}, ["5"]),
]


def taken(decoder: msgspec.json.Decoder[Any], text: str) -> str | None:
    """The argument that the decoder takes, as JSON, or None."""
    try:
        whole = msgspec.json.encode(decoder.decode(f'{{"v":{text}}}')).decode()
    except msgspec.MsgspecError:
        return None
    return whole.removeprefix('{"v":').removesuffix("}")


@pytest.mark.parametrize(("schema", "right", "others"), SHORT)
def test_the_short_way_takes_only_what_needs_no_coercion(schema: Any, right: dict[str, str], others: list[str]) -> None:
    """What fits as it is comes out as it came; all else is left to the long way."""
    decoder = reader(closed(v=schema) | {"$defs": {"person": PERSON}})
    assert decoder is not None
    assert {text: taken(decoder, text) for text in (*right, *others)} == {**right, **dict.fromkeys(others)}


def test_what_was_not_given_does_not_come_out() -> None:
    """Only names that were given come out, in the schema's order, whatever characters they are made of."""
    decoder = reader(closed(**{"a b": {"type": "null"}, "é": {}, "class": {"type": "integer"}}))
    assert decoder is not None
    given = ('{"class":1,"a b":null}', '{"class":1,"é":[]}', "{}")
    assert [msgspec.json.encode(decoder.decode(text)).decode() for text in given] == [
        '{"a b":null,"class":1}',
        '{"é":[],"class":1}',
        "{}",
    ]


LONG: list[Any] = [
    {"type": "string", "format": "date"},
    {"type": "string", "contentEncoding": "base64"},
    {"type": "number", "minimum": 1},
    {"type": "integer", "multipleOf": 2},
    {"type": "integer", "minimum": 0.5},
    {"type": ["integer", "null"]},
    {"type": "integer", "enum": [1.0]},
    {"type": "number", "enum": [1]},
    {"enum": [1.5]},
    {"enum": [[]]},
    {"enum": [10**20]},
    {"const": 1},
    {"oneOf": [{"type": "integer"}]},
    {"anyOf": [{"type": "array"}, {"type": "array", "items": {"type": "null"}}]},
    {"minimum": 1},
    {"type": "array", "items": False},
    {"type": "array", "uniqueItems": True},
    {"type": "object", "properties": {"a": {}}},
    {"type": "object", "required": ["a"]},
    {"type": "object", "required": ["a"], "additionalProperties": False},
    {"type": "object", "minProperties": 1},
    {"$ref": "#"},
    {"$ref": "#/$defs/tree"},
    {"$ref": "#/$defs/a~1b"},
    {"$ref": "#/properties/w"},
    False,
    {"$ref": "#/$defs/person", "title": "but", "minProperties": 1},
]


@pytest.mark.parametrize("schema", LONG)
def test_other_schemas_have_no_short_way(schema: Any) -> None:
    """What msgspec checks in another way, or not at all, is left to the long way."""
    tree = {"type": "array", "items": {"$ref": "#/$defs/tree"}}
    assert reader(closed(v=schema) | {"$defs": {"tree": tree, "person": PERSON}}) is None


def test_only_a_closed_object_has_a_short_way() -> None:
    """Open objects, and names that msgspec can't write, are left to the long way."""
    assert [
        reader(schema) for schema in ({"type": "object"}, closed() | {"minProperties": 1}, closed(**{'"': {}}))
    ] == [
        None,
        None,
        None,
    ]
