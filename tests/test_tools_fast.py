"""The short way: it takes what needs no coercion, as the long way would, and nothing else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from loopmachine.tools.compiling import Compiler
from loopmachine.tools.fast import reader
from loopmachine.tools.nodes import Node

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}


def closed(**properties: Any) -> dict[str, Any]:
    """A closed object."""
    return {"type": "object", "properties": properties, "additionalProperties": False}


def decoder_of(schema: dict[str, Any]) -> msgspec.json.Decoder[Any]:
    """The decoder of a whole schema."""
    compiler = Compiler(schema)
    compiler.whole()
    return reader(schema, compiler.node)


TREE: dict[str, Any] = {"type": "array", "items": {"$ref": "#/$defs/tree"}}
DEFS = {"person": PERSON, "tree": TREE, "a/b": {"type": "null"}}

#: Schemas of ``v``, each with JSON that it takes, as it comes out, and JSON that it leaves to the long way.
SHORT: list[tuple[Any, dict[str, str], list[str]]] = [
    ({"type": "integer"}, {"5": "5", "100000000000000000000": "100000000000000000000"}, ["5.0", '"5"', "true", "null"]),
    ({"type": "integer", "minimum": 1, "maximum": 3}, {"1": "1", "3": "3"}, ["0", "4"]),
    ({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 3}, {"2": "2"}, ["1", "3"]),
    ({"type": "number"}, {"5": "5", "5.0": "5.0", "1e2": "100.0"}, ['"5"', "true", "NaN", "1e400"]),
    ({"type": "boolean"}, {"true": "true"}, ['"true"', "1"]),
    ({"type": "null"}, {"null": "null"}, ["0"]),
    ({"type": "string", "minLength": 1, "maxLength": 2}, {'"\\u00e9"': '"é"'}, ['""', '"abc"', "5"]),
    (
        {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
        {"[1, 2]": "[1,2]"},
        ["[]", "[1,2,3]"],
    ),
    ({"type": "string", "format": "date"}, {'"2024-02-29"': '"2024-02-29"'}, ['"2024-02-30"', '"2024-2-29"', "5"]),
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


#: The same of schemas that msgspec would check in another way, or not at all.
PIECES: list[tuple[Any, dict[str, str], list[str]]] = [
    ({"type": "string", "pattern": "b"}, {'"abc"': '"abc"'}, ['"a"']),
    ({"type": "string", "format": "time"}, {'"09:30:00Z"': '"09:30:00Z"'}, ['"09:30:00"', "5"]),
    ({"type": "string", "format": "date", "maxLength": 10}, {'"2024-02-29"': '"2024-02-29"'}, ['"2024-02-30"']),
    ({"type": "string", "contentEncoding": "base64"}, {'"aGk="': '"aGk="'}, ['"aGk"']),
    ({"type": "number", "minimum": 1}, {"1": "1", "1.5": "1.5"}, ["0.5", '"2"']),
    ({"type": "integer", "multipleOf": 2}, {"4": "4", "100000000000000000000": "100000000000000000000"}, ["5"]),
    (
        {"type": "integer", "multipleOf": 3},
        {"9007199254740993.0": "9007199254740993"},
        ["9007199254740992.0", "3.00000000000000000001"],
    ),
    ({"type": "integer", "minimum": 0.5}, {"1": "1"}, ["0"]),
    ({"type": ["integer", "null"]}, {"1": "1", "null": "null"}, ['"1"', "1.5"]),
    ({"type": "integer", "enum": [1.0]}, {"1": "1.0"}, ["2", '"1"']),
    ({"type": "number", "enum": [1]}, {"1.0": "1"}, ["true"]),
    ({"enum": [1.5]}, {"1.5": "1.5"}, ["1"]),
    ({"enum": [[]]}, {"[]": "[]"}, ["{}"]),
    ({"enum": [10**20]}, {"100000000000000000000": "100000000000000000000"}, ["1"]),
    ({"const": 1}, {"1": "1"}, ["2"]),
    ({"oneOf": [{"type": "integer"}, {"minimum": 5}]}, {"1": "1", "7.5": "7.5"}, ["7"]),
    ({"anyOf": [{"type": "array"}, {"type": "array", "items": {"type": "null"}}]}, {"[1]": "[1]"}, ["1"]),
    ({"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]}, {"null": "null"}, ['"2024"', "1"]),
    ({"minimum": 1}, {"1": "1", '"a"': '"a"'}, ["0"]),
    ({"type": "array", "items": False}, {"[]": "[]"}, ["[1]"]),
    ({"type": "array", "items": {"format": "date"}}, {'["2024-02-29"]': '["2024-02-29"]'}, ['["x"]']),
    ({"type": "array", "uniqueItems": True}, {"[1,2]": "[1,2]"}, ["[1,1.0]"]),
    ({"type": "object", "properties": {"a": {}}}, {'{"b":1,"a":2}': '{"a":2,"b":1}'}, ["[]"]),
    ({"type": "object", "required": ["a"]}, {'{"a":1}': '{"a":1}'}, ["{}"]),
    ({"type": "object", "required": ["a"], "additionalProperties": False}, {}, ["{}", '{"a":1}']),
    ({"type": "object", "minProperties": 1}, {'{"a":1}': '{"a":1}'}, ["{}"]),
    (
        {"type": "object", "properties": {'"': {}}, "additionalProperties": False},
        {'{"\\"":1}': '{"\\"":1}'},
        ['{"a":1}'],
    ),
    ({"$ref": "#/$defs/tree"}, {"[[],[[]]]": "[[],[[]]]"}, ["[[1]]"]),
    ({"$ref": "#/$defs/a~1b"}, {"null": "null"}, ["0"]),
    ({"$ref": "#/properties/w"}, {"null": "null"}, ["0"]),
    (False, {}, ["1", "null"]),
    ({"$ref": "#/$defs/person", "title": "but", "minProperties": 1}, {'{"name":"x"}': '{"name":"x"}'}, ["{}"]),
]


def taken(decoder: msgspec.json.Decoder[Any], text: str) -> str | None:
    """The argument that the decoder takes, as JSON, or None."""
    try:
        whole = msgspec.json.encode(decoder.decode(f'{{"v":{text}}}')).decode()
    except msgspec.MsgspecError:
        return None
    return whole.removeprefix('{"v":').removesuffix("}")


@pytest.mark.parametrize(("schema", "right", "others"), [*SHORT, *PIECES])
def test_the_short_way_takes_only_what_needs_no_coercion(schema: Any, right: dict[str, str], others: list[str]) -> None:
    """What fits as it is comes out as it came; all else is left to the long way."""
    decoder = decoder_of(closed(v=schema, w={"type": "null"}) | {"$defs": DEFS})
    assert {text: taken(decoder, text) for text in (*right, *others)} == {**right, **dict.fromkeys(others)}


@pytest.mark.parametrize("schema", [schema for schema, _, _ in SHORT])
def test_msgspec_checks_what_it_can(schema: Any) -> None:
    """No node is asked for what msgspec checks in the same way."""
    assert reader(closed(v=schema) | {"$defs": DEFS}, pytest.fail) is not None


def test_only_a_part_that_is_hard_is_left_to_its_node() -> None:
    """What stands beside and around it is read by msgspec."""
    asked: list[Any] = []
    day: dict[str, Any] = {"type": "string", "format": "time"}
    schema = closed(n={"type": "integer"}, days={"type": "array", "items": day}, tree={"$ref": "#/$defs/tree"})

    def ask(schema: Any) -> Node:
        asked.append(schema)
        return Node()

    reader(schema | {"$defs": DEFS}, ask)
    assert asked == [day, {"$ref": "#/$defs/tree"}]


def test_what_was_not_given_does_not_come_out() -> None:
    """Only names that were given come out, in the schema's order, whatever characters they are made of."""
    decoder = decoder_of(closed(**{"a b": {"type": "null"}, "é": {}, "class": {"type": "integer"}}))
    given = ('{"class":1,"a b":null}', '{"class":1,"é":[]}', "{}")
    assert [msgspec.json.encode(decoder.decode(text)).decode() for text in given] == [
        '{"a b":null,"class":1}',
        '{"é":[],"class":1}',
        "{}",
    ]


def test_an_open_object_has_a_short_way_too() -> None:
    """What its own schema does not name comes out after what it does."""
    decoder = decoder_of({"type": "object", "properties": {"b": {"type": "integer"}}})
    assert msgspec.json.encode(decoder.decode('{"a": [1], "b": 2}')) == b'{"b":2,"a":[1]}'
