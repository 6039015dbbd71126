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
DATE: dict[str, Any] = {"type": "string", "format": "date"}
LIMITED: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": 6}
CONSTANT: dict[str, Any] = {"const": 5}
ROW: dict[str, Any] = {"type": "array", "prefixItems": [INTEGER, STRING], "minItems": 2, "maxItems": 2}
SET: dict[str, Any] = {"type": "array", "items": INTEGER, "uniqueItems": True}
MAP: dict[str, Any] = {"type": "object", "additionalProperties": INTEGER}
NEEDY: dict[str, Any] = {**OBJECT, "required": ["n"]}

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
    "date": DATE,
    "limited": LIMITED,
    "constant": CONSTANT,
    "row": ROW,
    "set": SET,
    "map": MAP,
    "needy": NEEDY,
}

# For each value, as JSON: what becomes of it for each kind of schema that takes it; all others refuse it.
SAME = "same"


def takes(kinds: str, told: str = SAME) -> dict[str, str]:
    """These kinds of schema take a value so."""
    return dict.fromkeys(kinds.split(), told)


TABLE: dict[str, dict[str, str]] = {
    "null": {"null": SAME, "mixed": SAME, "optional": SAME, "any": SAME},
    "true": {"boolean": SAME, "mixed": SAME, "union": SAME, "any": SAME},
    "false": {"boolean": SAME, "union": SAME, "any": SAME},
    "5": takes("integer number wholes mixed optional union any limited constant"),
    "7": takes("integer number optional union any"),
    "9007199254740993": takes("integer number optional union any"),
    "5.0": takes("integer wholes mixed optional limited constant", "5") | takes("number union any"),
    "1e20": takes("integer optional", "100000000000000000000") | takes("number union any"),
    "3.5": takes("number union any"),
    '"red"': takes("string words mixed any"),
    '"5"': takes("string words any") | takes("integer number wholes mixed optional union limited constant", "5"),
    '" 5 "': takes("string any") | takes("integer number wholes mixed optional union limited constant", "5"),
    '"5.0"': takes("string any")
    | takes("integer wholes mixed optional limited constant", "5")
    | takes("number union", "5.0"),
    '"118.4"': takes("string any") | takes("number union", "118.4"),
    '"-1e2"': takes("string any") | takes("integer optional", "-100") | takes("number union", "-100.0"),
    '"1e-999"': takes("string any") | takes("number union", "0.0"),
    '"12345678901234567890.0"': takes("string any")
    | takes("integer optional", "12345678901234567890")
    | takes("number union", "1.2345678901234567e19"),
    '"true"': takes("string any") | takes("boolean mixed union", "true"),
    '" FALSE"': takes("string any") | takes("boolean union", "false"),
    '"2024-02-29"': takes("string any date"),
    **{
        json.dumps(text, ensure_ascii=False): {"string": SAME, "any": SAME}
        for text in [
            *["", "five", "Red", "yes", "on", "t", "null", "None", "nan", "NaN", "Infinity", "2024-02-30", "2024-2-9"],
            *["+5", "007", "1_000", "0x10", "5,0", "1 000", "٥", "1.5.1", "1e400", "1.", ".5"],
            *["[1,2", "[NaN]", '{"n": 1, "n": 2}', '"{}"'],
        ]
    },
    "[]": takes("array union any set"),
    "[1,2]": takes("array union any set"),
    "[1,1]": takes("array union any"),
    '["1",2.0]': {"any": SAME} | takes("array union set", "[1,2]"),
    '["1",1]': {"any": SAME} | takes("array union", "[1,1]"),
    '["x"]': {"any": SAME},
    '[1,"a"]': takes("row any"),
    '["1","a"]': {"row": '[1,"a"]', "any": SAME},
    '[1,"a",2]': {"any": SAME},
    '"[1, \\"2\\"]"': takes("string any") | takes("array union set", "[1,2]") | {"row": '[1,"2"]'},
    "{}": takes("object map any"),
    '{"n":1}': takes("object needy map any"),
    '{"n":"1"}': takes("object needy map", '{"n":1}') | {"any": SAME},
    '{"m":1}': takes("map any"),
    '{"n":"x"}': {"any": SAME},
    '"{\\"n\\": 1}"': takes("string any") | takes("object needy map", '{"n":1}'),
    # nothing takes these, not even what takes anything
    **{value: {} for value in ["NaN", "Infinity", "-Infinity", "1e400", "[NaN]", "9" * 5000]},
    **{value: {} for value in ['{"n":1,"n":1}', '[{"m":1,"m":1}]', '"\\ud800"', '{"\\udfff":1}']},
}


def of(schema: dict[str, Any]) -> Arguments:
    """The arguments of a tool ``f`` with one parameter."""
    whole = {"type": "object", "properties": {"v": schema}, "required": ["v"], "additionalProperties": False}
    return Arguments("f", whole, json.loads)


@pytest.mark.parametrize("value", TABLE)
def test_the_table_of_what_is_taken_for_what(value: str) -> None:
    """Every kind of value is taken unchanged, coerced or refused by every kind of schema as the table says."""
    taken, refused = {}, []
    for kind, schema in SCHEMAS.items():
        checked, told = of(schema).check(f'{{"v":{value}}}')
        if checked is None:
            refused.append(told)
        else:
            taken[kind] = checked.removeprefix('{"v":').removesuffix("}")
    assert taken == {kind: value if told == SAME else told for kind, told in TABLE[value].items()}
    assert [told for told in refused if not told.startswith("f was not called; its arguments don't fit:\n- ")] == []


def test_the_table_is_total() -> None:
    """Each kind of schema takes some values as they are and refuses others, and each kind of JSON is among them."""
    took = {kind for told in TABLE.values() for kind in told if told[kind] == SAME}
    refused = {kind for told in TABLE.values() for kind in SCHEMAS.keys() - told.keys()}
    assert (took, refused) == (set(SCHEMAS), set(SCHEMAS))
    assert {value[0] for value in TABLE} >= set('ntf5"[{-NI')
