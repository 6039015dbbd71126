"""The table of what is taken for what: every kind of JSON value for every kind of schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopmachine.tools.arguments import Arguments

INTEGER: dict[str, Any] = {"type": "integer"}
NUMBER: dict[str, Any] = {"type": "number"}
STRING: dict[str, Any] = {"type": "string"}
BOOLEAN: dict[str, Any] = {"type": "boolean"}
NULL: dict[str, Any] = {"type": "null"}
ARRAY: dict[str, Any] = {"type": "array", "items": INTEGER}
OBJECT: dict[str, Any] = {"type": "object", "properties": {"n": INTEGER}, "additionalProperties": False}
WORDS: dict[str, Any] = {"type": "string", "enum": ["red", "5"]}
WHOLES: dict[str, Any] = {"type": "integer", "enum": [1, 5]}
MIXED: dict[str, Any] = {"enum": ["red", 5, True, None]}
OPTIONAL: dict[str, Any] = {"anyOf": [INTEGER, NULL]}
UNION: dict[str, Any] = {"anyOf": [BOOLEAN, NUMBER, ARRAY]}
ANY: dict[str, Any] = {}

SCHEMAS = {
    "integer": INTEGER,
    "number": NUMBER,
    "string": STRING,
    "boolean": BOOLEAN,
    "null": NULL,
    "array": ARRAY,
    "object": OBJECT,
    "words": WORDS,
    "wholes": WHOLES,
    "mixed": MIXED,
    "optional": OPTIONAL,
    "union": UNION,
    "any": ANY,
}

# For each value, as JSON: what becomes of it for each kind of schema that takes it; all others refuse it.
SAME = "same"
TABLE: dict[str, dict[str, str]] = {
    "null": {"null": SAME, "mixed": SAME, "optional": SAME, "any": SAME},
    "true": {"boolean": SAME, "mixed": SAME, "union": SAME, "any": SAME},
    "false": {"boolean": SAME, "union": SAME, "any": SAME},
    "5": dict.fromkeys(["integer", "number", "wholes", "mixed", "optional", "union", "any"], SAME),
    "7": dict.fromkeys(["integer", "number", "optional", "union", "any"], SAME),
    "9007199254740993": dict.fromkeys(["integer", "number", "optional", "union", "any"], SAME),
    "5.0": {"integer": "5", "number": SAME, "wholes": "5", "mixed": "5", "optional": "5", "union": SAME, "any": SAME},
    "1e20": {
        "integer": "100000000000000000000",
        "number": SAME,
        "optional": "100000000000000000000",
        "union": SAME,
        "any": SAME,
    },
    "3.5": {"number": SAME, "union": SAME, "any": SAME},
    '"red"': {"string": SAME, "words": SAME, "mixed": SAME, "any": SAME},
    '"Red"': {"string": SAME, "any": SAME},
    '""': {"string": SAME, "any": SAME},
    '"five"': {"string": SAME, "any": SAME},
    '"5"': {
        "integer": "5",
        "number": "5",
        "string": SAME,
        "words": SAME,
        "wholes": "5",
        "mixed": "5",
        "optional": "5",
        "union": "5",
        "any": SAME,
    },
    '" 5 "': {
        "integer": "5",
        "number": "5",
        "string": SAME,
        "wholes": "5",
        "mixed": "5",
        "optional": "5",
        "union": "5",
        "any": SAME,
    },
    '"5.0"': {
        "integer": "5",
        "number": "5.0",
        "string": SAME,
        "wholes": "5",
        "mixed": "5",
        "optional": "5",
        "union": "5.0",
        "any": SAME,
    },
    '"118.4"': {"number": "118.4", "string": SAME, "union": "118.4", "any": SAME},
    '"-1e2"': {
        "integer": "-100",
        "number": "-100.0",
        "string": SAME,
        "optional": "-100",
        "union": "-100.0",
        "any": SAME,
    },
    '"1e-999"': {"number": "0.0", "string": SAME, "union": "0.0", "any": SAME},
    '"12345678901234567890.0"': {
        "integer": "12345678901234567890",
        "number": "1.2345678901234567e19",
        "string": SAME,
        "optional": "12345678901234567890",
        "union": "1.2345678901234567e19",
        "any": SAME,
    },
    **{
        json.dumps(text): {"string": SAME, "any": SAME}
        for text in ["+5", "007", "1_000", "0x10", "5,0", "1 000", "٥", "nan", "NaN", "Infinity", "1e400", "1.", ".5"]
    },
    '"true"': {"boolean": "true", "string": SAME, "mixed": "true", "union": "true", "any": SAME},
    '" FALSE"': {"boolean": "false", "string": SAME, "union": "false", "any": SAME},
    **{json.dumps(text): {"string": SAME, "any": SAME} for text in ["yes", "1.5.1", "null", "None", "t", "on"]},
    "[]": {"array": SAME, "union": SAME, "any": SAME},
    "[1,2]": {"array": SAME, "union": SAME, "any": SAME},
    '["1",2.0]': {"array": "[1,2]", "union": "[1,2]", "any": SAME},
    '["x"]': {"any": SAME},
    '"[1, \\"2\\"]"': {"array": "[1,2]", "string": SAME, "union": "[1,2]", "any": SAME},
    '"[1,2"': {"string": SAME, "any": SAME},
    '"[NaN]"': {"string": SAME, "any": SAME},
    "{}": {"object": SAME, "any": SAME},
    '{"n":1}': {"object": SAME, "any": SAME},
    '{"n":"1"}': {"object": '{"n":1}', "any": SAME},
    '{"m":1}': {"any": SAME},
    '"{\\"n\\": 1}"': {"object": '{"n":1}', "string": SAME, "any": SAME},
    '"{\\"n\\": 1, \\"n\\": 2}"': {"string": SAME, "any": SAME},
    '"\\"{}\\""': {"string": SAME, "any": SAME},
}


def of(schema: dict[str, Any]) -> Arguments:
    """The arguments of a tool ``f`` with one parameter."""
    whole = {"type": "object", "properties": {"v": schema}, "required": ["v"], "additionalProperties": False}
    return Arguments("f", whole, json.loads)


@pytest.mark.parametrize("value", TABLE)
def test_the_table_of_what_is_taken_for_what(value: str) -> None:
    """Every kind of value is taken unchanged, coerced or refused by every kind of schema as the table says."""
    taken = {}
    for kind, schema in SCHEMAS.items():
        checked, _ = of(schema).check(f'{{"v":{value}}}')
        if checked is not None:
            taken[kind] = checked.removeprefix('{"v":').removesuffix("}")
    same = json.dumps(json.loads(value), separators=(",", ":"), ensure_ascii=False).replace("1e+20", "1e20")
    assert taken == {kind: same if told == SAME else told for kind, told in TABLE[value].items()}
