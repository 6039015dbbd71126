"""Ready schemas: what is checked, what is refused at registration, and how each keyword judges."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from loopmachine.errors import InvalidTool
from loopmachine.tools.arguments import Arguments
from loopmachine.tools.compiling import KEYWORDS, NOTES, compiled, is_multiple
from loopmachine.tools.faults import Fault
from loopmachine.tools.nodes import examine


def judged(schema: dict[str, Any], value: Any) -> tuple[Any, list[str]]:
    """What a schema says of a value."""
    node, faults = compiled(schema)
    assert faults == []
    taken, found = examine(node, value)
    return taken, [str(fault) for fault in found]


ANY_NUMBER = [{"type": "integer"}, {"type": "number"}]
TAGGED = {
    "anyOf": [
        {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["r"]},
        {
            "type": "object",
            "properties": {"kind": {"const": "box"}, "w": {"type": "number"}, "h": {"type": "number"}},
            "required": ["kind", "w", "h"],
        },
    ]
}

#: For each keyword: a schema, a value that fits, one that doesn't, and what is said of it.
CASES: dict[str, tuple[dict[str, Any], Any, Any, str]] = {
    "type": ({"type": ["integer", "null"]}, None, "x", 'the arguments: "x" where a whole number or null is wanted'),
    "enum": ({"enum": [1, "a", [2.0]]}, [2], [3], 'the arguments: [3] where one of 1, "a", [2.0] is wanted'),
    "const": (
        {"const": {"a": 1, "b": [True]}},
        {"b": [True], "a": 1.0},
        5,
        'the arguments: 5 where {"a": 1, "b": [true]} is wanted',
    ),
    "$ref": (
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "null"}}},
        None,
        1,
        "the arguments: 1 where null is wanted",
    ),
    "minLength": ({"minLength": 2}, "éa", "a", 'the arguments: "a" where text of at least 2 characters is wanted'),
    "maxLength": ({"maxLength": 1}, "😀", "ab", 'the arguments: "ab" where text of at most 1 characters is wanted'),
    "pattern": (
        {"pattern": "^a"},
        "ab",
        "ba",
        'the arguments: "ba" where text that the pattern "^a" matches is wanted',
    ),
    "format": (
        {"format": "date"},
        "2024-02-29",
        "29.2.24",
        'the arguments: "29.2.24" where a date such as 2024-02-29 is wanted',
    ),
    "contentEncoding": (
        {"contentEncoding": "base64"},
        "aGk=",
        "hi!",
        'the arguments: "hi!" where base64 such as aGk= is wanted',
    ),
    "minimum": ({"minimum": 2}, 2, 1.5, "the arguments: 1.5 where a number from 2 on is wanted"),
    "maximum": ({"maximum": 2}, 2, 3, "the arguments: 3 where a number up to 2 is wanted"),
    "exclusiveMinimum": ({"exclusiveMinimum": 2}, 3, 2, "the arguments: 2 where a number above 2 is wanted"),
    "exclusiveMaximum": ({"exclusiveMaximum": 2}, 1, 2, "the arguments: 2 where a number below 2 is wanted"),
    "multipleOf": ({"multipleOf": 0.5}, 1.5, 0.75, "the arguments: 0.75 where a multiple of 0.5 is wanted"),
    "items": ({"items": {"type": "null"}}, [None], [None, 1], "[1]: 1 where null is wanted"),
    "prefixItems": (
        {"prefixItems": [{"type": "null"}, {}], "items": False},
        [None, 5],
        [None, 5, 6, 7],
        "[2]: 6 where nothing is wanted; 2 items are",
    ),
    "minItems": ({"minItems": 1}, [1], [], "the arguments: [] where a list of at least 1 items is wanted"),
    "maxItems": ({"maxItems": 1}, [1], [1, 2], "the arguments: [1, 2] where a list of at most 1 items is wanted"),
    "uniqueItems": (
        {"uniqueItems": True},
        [1, True, "1", [1]],
        [1, 1.0],
        "the arguments: [1, 1.0] where a list without doubles is wanted",
    ),
    "properties": ({"properties": {"a": {"type": "null"}}}, {"a": None, "b": 1}, {"a": 1}, "a: 1 where null is wanted"),
    "patternProperties": (
        {"patternProperties": {"^x": {"type": "null"}}, "properties": {"xa": {}}},
        {"xa": None, "y": 1},
        {"xa": 1},
        "xa: 1 where null is wanted",
    ),
    "required": (
        {"required": ["a"], "properties": {"a": {"allOf": [{"type": "integer"}, {"minimum": 1}]}}},
        {"a": 1},
        {},
        "a: missing; a whole number is wanted",
    ),
    "additionalProperties": (
        {"additionalProperties": {"type": "null"}, "properties": {"b": {}}},
        {"a": None, "b": 1},
        {"a": 1},
        "a: 1 where null is wanted",
    ),
    "propertyNames": (
        {"propertyNames": {"maxLength": 1}},
        {"a": 1},
        {"ab": 1},
        'ab: the name "ab" where text of at most 1 characters is wanted',
    ),
    "minProperties": (
        {"minProperties": 1},
        {"a": 1},
        {},
        "the arguments: {} where an object of at least 1 names is wanted",
    ),
    "maxProperties": (
        {"maxProperties": 0},
        {},
        {"a": 1},
        'the arguments: {"a": 1} where an object of at most 0 names is wanted',
    ),
    "anyOf": (
        {"anyOf": [{"type": "integer"}, {"type": "array"}]},
        [],
        "x",
        'the arguments: "x" where a whole number or a list is wanted',
    ),
    "oneOf": (
        {"oneOf": ANY_NUMBER},
        1.5,
        1,
        "the arguments: 1 can be taken in 2 ways: a whole number or a number",
    ),
    "allOf": (
        {"allOf": [{"type": "integer"}, {"minimum": 2}]},
        2,
        1,
        "the arguments: 1 where a number from 2 on is wanted",
    ),
    "not": ({"not": {"type": "null"}}, 1, None, "the arguments: null where anything but null is wanted"),
}


def test_every_keyword_that_is_checked_has_a_case() -> None:
    """No keyword is without a case."""
    assert list(CASES) == list(KEYWORDS)


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_a_keyword_judges_as_jsonschema_does(keyword: str) -> None:
    """What fits is taken as it is, what doesn't is told; jsonschema says the same of both."""
    schema, right, wrong, said = CASES[keyword]
    judge = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    assert (judged(schema, right), judge.is_valid(right)) == ((right, []), True)
    assert judged(schema, wrong)[1] == [said]
    assert keyword == "contentEncoding" or not judge.is_valid(wrong)  # which for jsonschema is only a note


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_a_keyword_says_nothing_of_values_of_another_kind(keyword: str) -> None:
    """A limit for text lets numbers pass, one for numbers lets lists pass, and so on, as in JSON Schema."""
    schema = CASES[keyword][0]
    judge = Draft202012Validator(schema)
    values: tuple[Any, ...] = (None, True, 4, "ab", [], {})
    for value in values:
        assert bool(judged(schema, value)[1]) <= (not judge.is_valid(value) or keyword in ("format", "contentEncoding"))


@pytest.mark.parametrize("note", [*sorted(NOTES), "x-own"])
def test_a_note_demands_nothing(note: str) -> None:
    """What a schema says beside what it demands is taken as it is."""
    assert judged({note: {"any": "thing"}}, 5) == (5, [])


REFUSED = [
    ({"if": {}}, "if: this keyword can't be checked; leave it out, and check it in the tool"),
    (
        {"properties": {"a": {"items": {"dependentRequired": {}}}}},
        "properties.a.items.dependentRequired: this keyword can't be checked; leave it out, and check it in the tool",
    ),
    (
        {"type": "int"},
        'type: it takes one or a list of integer, number, string, boolean, null, array, object, not "int"',
    ),
    ({"type": []}, "type: it takes one or a list of integer, number, string, boolean, null, array, object, not []"),
    ({"enum": []}, "enum: it takes a list of values, not []"),
    ({"minLength": -1}, "minLength: it takes a whole number from 0 on, not -1"),
    ({"minLength": True}, "minLength: it takes a whole number from 0 on, not true"),
    ({"minimum": "1"}, 'minimum: it takes a number, not "1"'),
    ({"maximum": True}, "maximum: it takes a number, not true"),
    ({"multipleOf": 0}, "multipleOf: it takes a number above 0, not 0"),
    ({"pattern": "("}, 'pattern: it takes a regular expression that Python can read, not "("'),
    ({"pattern": 5}, "pattern: it takes a regular expression that Python can read, not 5"),
    (
        {"patternProperties": {"(": {}}},
        'patternProperties: it takes schemas by regular expressions that Python can read, not {"(": {}}',
    ),
    (
        {"format": "colour"},
        "format: it takes one of date, date-time, date-time-local, time, partial-time, duration, day-time-duration, "
        'uuid, decimal, email, uri, ipv4, ipv6, base64, not "colour"',
    ),
    ({"contentEncoding": "hex"}, 'contentEncoding: it takes base64, not "hex"'),
    ({"items": [{}]}, "items: it takes a schema, not [{}]"),
    ({"properties": {"a": 5}}, 'properties: it takes schemas by name, not {"a": 5}'),
    ({"properties": []}, "properties: it takes schemas by name, not []"),
    ({"required": "a"}, 'required: it takes a list of names, not "a"'),
    ({"uniqueItems": 1}, "uniqueItems: it takes true or false, not 1"),
    ({"anyOf": []}, "anyOf: it takes a list of schemas, not []"),
    ({"$ref": 5}, "$ref: it takes text, not 5"),
    ({"$ref": "#/$defs/a"}, "$ref: '#/$defs/a' names no schema in this one"),
    ({"$ref": "#/$defs/a", "$defs": {"a": 5}}, "$ref: '#/$defs/a' names no schema in this one"),
    ({"$ref": "#/required/0", "required": ["a"]}, "$ref: '#/required/0' names no schema in this one"),
    ({"$ref": "https://example.org/a"}, "$ref: 'https://example.org/a' names no schema in this one"),
    ({"$ref": "#"}, "$ref: it leads back to itself and says nothing"),
    (
        {"properties": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}}, "$defs": {"b": {"allOf": [{"$ref": "#/$defs/b"}]}}},
        "$ref: it leads back to itself and says nothing",
    ),
]


@pytest.mark.parametrize(("schema", "fault"), REFUSED)
def test_what_cannot_be_checked_is_refused(schema: dict[str, Any], fault: str) -> None:
    """A keyword that can't be checked, or takes something else, is refused with its place and what it takes."""
    assert compiled(schema)[1] == [fault]


def test_all_that_cannot_be_checked_is_told_at_once() -> None:
    """Every fault of a schema is listed, and the tool is named."""
    with pytest.raises(InvalidTool) as caught:
        Arguments("f", {"type": "object", "then": {}, "properties": {"a": {"type": "int"}}, "else": {}}, json.loads)
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == [
        "f",
        "- then",
        "- else",
        "- properties.a.type",
    ]


def test_what_nobody_refers_to_is_not_looked_at() -> None:
    """A definition that no $ref names may hold anything."""
    assert compiled({"$defs": {"a": {"if": {}}}})[1] == []


def test_schemas_that_are_true_or_false_are_all_or_nothing() -> None:
    """True takes anything, False nothing."""
    schema = {"properties": {"a": True, "b": False}}
    assert judged(schema, {"a": 1, "b": 2}) == ({"a": 1, "b": 2}, ["b: 2 where nothing is accepted"])


def test_a_schema_may_hold_itself() -> None:
    """A tree is judged to its leaves."""
    tree = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}, "n": {"type": "null"}}}
    assert judged(tree, {"kids": [{"kids": [{"n": 1}]}]})[1] == ["kids[0].kids[0].n: 1 where null is wanted"]


def test_two_ways_to_the_same_schema_are_one() -> None:
    """Two properties may refer to one schema, and one that is reached twice is no circle."""
    one = {"$ref": "#/$defs/n"}
    schema = {"properties": {"a": one, "b": one}, "anyOf": [one, {"allOf": [one]}], "$defs": {"n": {"type": "object"}}}
    assert judged(schema, {"a": {}, "b": 1}) == ({"a": {}, "b": 1}, ["b: 1 where an object is wanted"])


@pytest.mark.parametrize(
    ("value", "faults"),
    [
        ({"kind": "circle"}, ["r: missing; a number is wanted"]),
        ({"kind": "box", "w": 1}, ["h: missing; a number is wanted"]),
        ({"kind": "box", "w": "wide", "h": 1}, ['w: "wide" where a number is wanted']),
        ({"kind": "box", "r": 1, "x": 2}, ["w: missing; a number is wanted", "h: missing; a number is wanted"]),
        ({"kind": "bix", "r": 1}, ['kind: "bix" where one of "circle", "box" is wanted; did you mean \'box\'?']),
        ({"kind": 5, "r": 1}, ['kind: 5 where one of "circle", "box" is wanted']),
        ({"r": "x"}, ['r: "x" where a number is wanted']),
        (5, ["the arguments: 5 where an object is wanted"]),
    ],
)
def test_of_several_forms_the_nearest_is_told_of(value: Any, faults: list[str]) -> None:
    """A value that fits no form is told what it lacks of the form that it misses least."""
    assert judged(TAGGED, value)[1] == faults


def of_kind(*kinds: Any, **needed: Any) -> dict[str, Any]:
    """A closed object of some kinds, a tag, that needs these."""
    properties = {"kind": {"enum": list(kinds)}, **needed}
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


WHOLE = {"type": "integer"}
SHAPES = {
    "anyOf": [
        {"$ref": "#/$defs/circle"},
        {"allOf": [of_kind("box", 2, w=WHOLE, h=WHOLE)]},
        of_kind(3, cells=WHOLE),
        {"type": "null"},
        {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/circle"}}]},
    ],
    "$defs": {"circle": of_kind("circle", r=WHOLE)},
}


@pytest.mark.parametrize(
    ("value", "faults"),
    [
        (
            {"kind": "circle", "w": 1},
            ["r: missing; a whole number is wanted", "w: there is no 'w' here; known names: kind, r"],
        ),
        ({"kind": 2.0, "r": 1}, ["w: missing", "h: missing", "r: there is no 'r' here"]),
        (
            {"kind": "circel", "w": 1},
            ['kind: "circel" where one of "circle", "box", 2, 3 is wanted; did you mean \'circle\'?'],
        ),
        ({"kind": None}, ['kind: null where one of "circle", "box", 2, 3 is wanted']),
        ({"w": 1, "h": 1}, ['kind: missing; one of "circle", "box", 2, 3 is wanted']),
        ([{"kind": "box"}], ["[0].r: missing", '[0].kind: "box" where "circle" is wanted']),
        ("x", ['the arguments: "x" where an object or null or a list is wanted']),
    ],
)
def test_a_tag_tells_which_form_is_meant(value: Any, faults: list[str]) -> None:
    """Of the form that it names all is told that is missing; one that names none is told the tags."""
    told = judged(SHAPES, value)[1]
    assert [one[: len(fault)] for one, fault in zip(told, faults, strict=True)] == faults


def test_forms_with_one_tag_twice_are_told_apart_by_what_they_lack() -> None:
    """A name whose values two forms share is no tag."""
    forms = {"anyOf": [of_kind("a", n=WHOLE, m=WHOLE), of_kind("a", "b", k=WHOLE)]}
    assert judged(forms, {"kind": "a"})[1] == ["k: missing; a whole number is wanted"]


UUID, DATE, NULL = {"format": "uuid"}, {"format": "date"}, {"type": "null"}
STATUS, ALL = {"type": "string", "enum": ["open", "closed"]}, {"enum": ["all", "open"]}
FIVES, DEBTS = {"type": "integer", "minimum": 10, "multipleOf": 5}, {"type": "number", "maximum": 0}
TWICE = {"oneOf": ANY_NUMBER}
A_UUID, A_DATE = "a UUID such as 12345678-1234-5678-1234-567812345678", "a date such as 2024-02-29"


@pytest.mark.parametrize(
    ("forms", "value", "fault"),
    [
        ([UUID, DATE, NULL], "x", f'"x" where {A_UUID} or {A_DATE} or null is wanted'),
        ([STATUS, ALL], "alll", '"alll" where one of "open", "closed", "all" is wanted; did you mean \'all\'?'),
        ([STATUS, ALL], 5, '5 where one of "open", "closed", "all" is wanted'),
        ([ALL, WHOLE], "opn", '"opn" where one of "all", "open" or a whole number is wanted; did you mean \'open\'?'),
        ([{"const": 1}, NULL, {"const": 2}], 3, "3 where one of 1, 2 or null is wanted"),
        ([{"anyOf": [DATE, ALL]}, UUID], "x", f'"x" where {A_DATE} or one of "all", "open" or {A_UUID} is wanted'),
        ([FIVES, DEBTS], 7, "7 where a number from 10 on and a multiple of 5 or a number up to 0 is wanted"),
        ([{"minItems": 2}, {"items": WHOLE}], ["x"], '["x"] where a list of at least 2 items is wanted'),
        ([TWICE, ALL], 1, "1 can be taken in 2 ways: a whole number or a number"),
    ],
)
def test_of_what_fits_no_form_is_told_what_each_wants(forms: list[Any], value: Any, fault: str) -> None:
    """Values by their names, once, of which the nearest is offered; what is nearer to one form is told of that."""
    assert judged({"anyOf": forms}, value)[1] == [f"the arguments: {fault}"]


def test_of_a_name_that_fits_no_form_is_told_what_each_wants() -> None:
    """Those too that take no text, as a name is never read as something else."""
    short = {"propertyNames": {"anyOf": [{"type": "string", "maxLength": 1}, WHOLE]}}
    said = 'ab: the name "ab" where text of at most 1 characters or a whole number is wanted'
    assert judged(short, {"ab": 1})[1] == [said]


def test_what_is_no_kind_of_a_named_value_is_told_of_other_forms() -> None:
    """The values are not nearer to a list than a form that takes lists."""
    forms = {"anyOf": [{"enum": ["all", 1]}, {"items": WHOLE, "type": "array"}]}
    assert judged(forms, ["x", "y"])[1] == [
        f'[{at}]: "{one}" where a whole number is wanted' for at, one in enumerate("xy")
    ]


def test_where_coercion_would_have_to_choose_nobody_chooses() -> None:
    """What one form can be coerced to is taken, what two can be coerced to in different ways is refused."""
    first = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"]}
    second = {"type": "object", "properties": {"b": {"type": "integer"}, "a": {}}, "required": ["b"]}
    either = {"anyOf": [first, second]}
    value = {"a": "1", "b": "2"}
    said = 'the arguments: {"a": "1", "b": "2"} can be taken in 2 ways: an object'
    assert [judged(either, one) for one in ({"a": "1"}, value)] == [({"a": 1}, []), (value, [said])]


def test_two_forms_that_read_text_as_the_same_are_no_choice() -> None:
    """Text that several forms read as the same value is taken."""
    forms = {"anyOf": [{"enum": [1]}, {"type": "array"}, {"type": "number"}, {"const": True}]}
    assert [judged(forms, text) for text in ("1", "true", "[]")] == [(1, []), (True, []), ([], [])]


def test_what_is_coerced_must_still_fit_all_of_the_schema() -> None:
    """A part that coerces does not get past a part that has looked already."""
    assert judged({"allOf": [{"type": "string"}, {"type": "integer"}]}, "5")[1] == [
        "the arguments: 5 where text is wanted"
    ]
    assert judged({"uniqueItems": True, "items": {"type": "integer"}}, [1, "1"])[1] == [
        "the arguments: [1, 1] where a list without doubles is wanted"
    ]


def test_a_value_is_taken_before_it_is_coerced() -> None:
    """What one form takes as it is stays so, though another could coerce it."""
    assert judged({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "5") == ("5", [])
    either = {"properties": {"a": {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "b": {"type": "integer"}}}
    assert judged(either, {"a": "5", "b": "6"}) == ({"a": "5", "b": 6}, [])
    assert repr(judged({"anyOf": ANY_NUMBER}, 3.0)[0]) == "3.0"
    assert repr(judged({"type": ["integer", "number"]}, 3.0)[0]) == "3.0"
    assert repr(judged({"type": "integer"}, 3.0)[0]) == "3"


@pytest.mark.parametrize(
    ("value", "unit", "multiple"),
    [
        (9, 3, True),
        (10, 3, False),
        (0.3, 0.1, True),
        (19.99, 0.01, True),
        (0.35, 0.1, False),
        (1e300, 0.1, True),
        (5e-324, 5e-324, True),
        (10**400, 0.5, True),
        (-1.5, 0.5, True),
    ],
)
def test_multiples_are_those_of_the_numbers_as_written(value: float, unit: float, multiple: bool) -> None:
    """19.99 is a multiple of 0.01, though not in binary."""
    assert is_multiple(value, unit) == multiple


def test_a_place_is_written_as_an_author_writes_it() -> None:
    """A path reads as names, places and, where a name is no name, quotes; a very long one is cut."""
    paths: list[tuple[str | int, ...]] = [(), ("a", 0, "b"), ("a b", "c"), (1, 2), ("a.b",), ("x" * 300,) * 3]
    written = [str(Fault(path, "wrong")) for path in paths]
    assert written[:5] == [
        "the arguments: wrong",
        "a[0].b: wrong",
        "['a b'].c: wrong",
        "[1][2]: wrong",
        "['a.b']: wrong",
    ]
    assert len(written[5]) == 200 + len(": wrong")


def test_forty_bad_names_are_told_up_to_twenty() -> None:
    """Names that a schema for names refuses are told up to twenty."""
    found = judged({"propertyNames": {"maxLength": 1}}, {f"ab{number}": 1 for number in range(40)})[1]
    assert len(found) == 20


@pytest.mark.parametrize("schema", [{"format": "date"}, {"type": "string", "format": "date"}])
def test_a_format_is_wanted_by_its_example(schema: dict[str, Any]) -> None:
    """Whether the schema says that it is text or not."""
    node, faults = compiled(schema)
    assert (faults, node.wanted) == ([], "a date such as 2024-02-29")
