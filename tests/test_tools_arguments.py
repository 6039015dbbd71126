"""Untrusted arguments: every way a model can write them wrong, and what it is told."""

from __future__ import annotations

import cProfile
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import loopmachine
from loopmachine.errors import InvalidTool
from loopmachine.tools.arguments import Arguments
from loopmachine.tools.reading import depth
from loopmachine.tools.signature import of_function

INTEGER: dict[str, Any] = {"type": "integer"}
NUMBER: dict[str, Any] = {"type": "number"}
STRING: dict[str, Any] = {"type": "string"}
BOOLEAN: dict[str, Any] = {"type": "boolean"}
NULL: dict[str, Any] = {"type": "null"}

# --- what a model is told -----------------------------------------------------------------------------------

ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "ticket_id": INTEGER,
        "label": {"type": "string", "enum": ["billing", "bug", "other"]},
        "limit": {"type": "integer", "minimum": 1, "maximum": 9},
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"price": NUMBER, "a b": BOOLEAN},
                "required": ["price"],
                "additionalProperties": False,
            },
        },
        "note": {"anyOf": [{"type": "string", "maxLength": 3}, NULL]},
    },
    "required": ["ticket_id"],
    "additionalProperties": False,
}
BEGIN = "order was not called; its arguments don't fit:\n"


def order(arguments: Any) -> str:
    """What a model is told of its arguments, as an object or as text."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    checked, told = Arguments("order", ORDER, json.loads).check(text)
    assert checked is None
    return told.removeprefix(BEGIN)


def test_every_mistake_is_told_at_once() -> None:
    """All that is wrong is told: where, which value stands there, what is wanted, and the nearest name."""
    told = order(
        {
            "label": "bugg",
            "limit": 0,
            "lines": [{"price": "cheap", "a b": "maybe"}, {}, 5],
            "note": "long",
            "ticketid": 7,
            "authorized": True,
        }
    )
    assert told.splitlines() == [
        "- ticket_id: missing; a whole number is wanted",
        '- label: "bugg" where one of "billing", "bug", "other" is wanted; did you mean \'bug\'?',
        "- limit: 0 where a number from 1 on is wanted",
        '- lines[0].price: "cheap" where a number is wanted',
        "- lines[0]['a b']: \"maybe\" where true or false is wanted",
        "- lines[1].price: missing; a number is wanted",
        "- lines[2]: 5 where an object is wanted",
        '- note: "long" where text of at most 3 characters or null is wanted',
        "- ticketid: there is no 'ticketid' here; known names: ticket_id, label, limit, lines, note; "
        "did you mean 'ticket_id'?",
        "- authorized: there is no 'authorized' here; known names: ticket_id, label, limit, lines, note",
    ]


def test_a_name_that_is_given_already_is_not_suggested() -> None:
    """Only a name that is still free can be the one that was meant."""
    told = order({"ticket_id": 1, "ticket_i": 2})
    assert told == "- ticket_i: there is no 'ticket_i' here; known names: ticket_id, label, limit, lines, note"


def test_true_is_no_number_and_five_is_no_word() -> None:
    """True for a whole number and a number for text are refused, each with the value shown."""
    assert order({"ticket_id": True, "label": 5}).splitlines() == [
        "- ticket_id: true where a whole number is wanted",
        '- label: 5 where one of "billing", "bug", "other" is wanted',
    ]


def test_a_long_value_is_shown_cut() -> None:
    """A value of a million characters is shown in 80."""
    assert order({"ticket_id": "x" * 1_000_000}) == f'- ticket_id: "{"x" * 76}... where a whole number is wanted'


def test_many_mistakes_are_told_up_to_twenty() -> None:
    """Of a thousand mistakes twenty are told, and that there may be more."""
    told = order({"ticket_id": 1, "lines": [5] * 1000}).splitlines()
    assert (len(told), told[19:]) == (21, ["- lines[19]: 5 where an object is wanted", "- and there may be more"])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ('["x"]', '- the arguments: ["x"] where an object is wanted'),
        ('"ls"', '- the arguments: "ls" where an object is wanted'),
        ("7", "- the arguments: 7 where an object is wanted"),
        ("null", "- the arguments: null where an object is wanted"),
        ("true", "- the arguments: true where an object is wanted"),
        ('"[1]"', '- the arguments: "[1]" where an object is wanted'),
        (json.dumps("[" * 100_000), f'- the arguments: "{"[" * 76}... where an object is wanted'),
        (json.dumps(json.dumps('{"x": 1}')), '- the arguments: "\\"{\\\\\\"x\\\\\\": 1}\\"" where an object is wanted'),
        ('{"ticket_id": NaN}', "- ticket_id: NaN where a finite number of at most 4300 digits is wanted"),
        ('{"ticket_id": -Infinity}', "- ticket_id: -Infinity where a finite number of at most 4300 digits is wanted"),
        ('{"ticket_id": 1e400}', "- ticket_id: 1e400 where a finite number of at most 4300 digits is wanted"),
        (
            '{"ticket_id": ' + "1" * 5000 + "}",
            f"- ticket_id: {'1' * 77}... where a finite number of at most 4300 digits is wanted",
        ),
        ('{"ticket_id": 1, "ticket_id": 1}', '- the arguments: the name "ticket_id" is given twice in one object'),
        (
            '{"ticket_id": 1, "lines": [{"price": 1, "price": 2}, {"price": 1, "price": 2}]}',
            '- lines[0]: the name "price" is given twice in one object\n'
            '- lines[1]: the name "price" is given twice in one object',
        ),
        ('{"ticket_id": 3.00000000000000000001}', "- ticket_id: 3.00000000000000000001 where a whole number is wanted"),
        ('{"ticket_id": 9007199254740992.5}', "- ticket_id: 9007199254740992.5 where a whole number is wanted"),
        (
            '{"ticket_id": 1e-99999999999999999999}',
            "- ticket_id: 1e-99999999999999999999 where a whole number is wanted",
        ),
        (
            '{"ticket_id": "1e-99999999999999999999"}',
            '- ticket_id: "1e-99999999999999999999" where a whole number is wanted',
        ),
        ('{"ticket_id": "1e-999999999"}', '- ticket_id: "1e-999999999" where a whole number is wanted'),
        ('{"ticket_id": 1, "lines": "[NaN]"}', '- lines: "[NaN]" where a list is wanted'),
        (
            '"{\\"a\\": 1, \\"a\\": 2}"',
            "- ticket_id: missing; a whole number is wanted\n"
            "- a: there is no 'a' here; known names: ticket_id, label, limit, lines, note\n"
            '- the arguments: the name "a" is given twice in one object',
        ),
        ('{"ticket_id": 1, "note": "\\ud800"}', '- note: "\\ud800" holds half of a character, a lone surrogate'),
        (
            '{"ticket_id": 1, "\\udfff": 1}',
            "- ['\\\\udfff']: there is no '\\\\udfff' here; known names: ticket_id, label, limit, lines, note",
        ),
        ("[" * 100_000, "- lists and objects nest deeper than 64 levels"),
        ("[" * 100_000 + "]" * 100_000, "- lists and objects nest deeper than 64 levels"),
    ],
)
def test_odd_arguments_get_a_clear_sentence(arguments: str, told: str) -> None:
    """What is JSON and no object, or holds what can't be kept, is told as what it is."""
    assert order(arguments) == told


def test_what_cannot_be_kept_hides_nothing_else() -> None:
    """Odd numbers, halves of characters and names twice are told with all else, each once, each with its place."""
    told = order(
        '{"limit": NaN, "limit": 0, "label": Infinity, "lines": [{"price": -Infinity, "a b": "maybe"}, [1e999]],'
        ' "note": "\\ud800", "\\ud801": NaN}'
    )
    assert told.splitlines() == [
        "- ticket_id: missing; a whole number is wanted",
        '- label: Infinity where one of "billing", "bug", "other" is wanted',
        "- limit: 0 where a number from 1 on is wanted",
        "- lines[0]['a b']: \"maybe\" where true or false is wanted",
        '- lines[1]: ["1e999"] where an object is wanted',
        "- ['\\\\ud801']: there is no '\\\\ud801' here; known names: ticket_id, label, limit, lines, note",
        '- the arguments: the name "limit" is given twice in one object',
        "- lines[0].price: -Infinity where a finite number of at most 4300 digits is wanted",
        '- note: "\\ud800" holds half of a character, a lone surrogate',
    ]


def test_an_open_object_tells_of_a_name_what_cannot_be_kept() -> None:
    """Where any name is taken, half of a character in one is told with the name, and so is what stands there."""
    checked, told = Arguments("f", {"type": "object"}, json.loads).check('{"a": {"\\ud800": NaN, "b": NaN}}')
    assert (checked, told.splitlines()[1:]) == (
        None,
        [
            "- a['\\\\ud800']: the name holds half of a character, a lone surrogate",
            "- a['\\\\ud800']: NaN where a finite number of at most 4300 digits is wanted",
            "- a.b: NaN where a finite number of at most 4300 digits is wanted",
        ],
    )


def test_what_is_too_deep_to_be_looked_at_is_told_with_its_place() -> None:
    """Four hundred levels of a schema that holds itself are more than Python goes down; nothing is raised."""
    rows: dict[str, Any] = {"type": "array", "items": {"$ref": "#/$defs/rows"}}
    schema = {"type": "object", "properties": {"rows": rows}, "$defs": {"rows": rows}}
    checked, told = Arguments("f", schema, json.loads).check('{"rows": ' + "[" * 400 + "]" * 400 + "}")
    assert (checked, told.splitlines()[1:]) == (None, ["- rows[0][0]: lists and objects nest deeper than 64 levels"])


def test_depth_does_not_hide_the_names_around_it() -> None:
    """What nests too deep is told beside what else is wrong, as long as it can be looked at."""
    told = order('{"lines": [], "limit": 0, "note": ' + "[" * 70 + "]" * 70 + "}").splitlines()
    assert told == [
        "- ticket_id: missing; a whole number is wanted",
        "- limit: 0 where a number from 1 on is wanted",
        f"- note: {'[' * 70}{']' * 7}... where text or null is wanted",
        "- note[0][0]: lists and objects nest deeper than 64 levels",
    ]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ('{"ticket_id": 1,,}', "Expecting property name enclosed in double quotes at character 16, near "),
        ('{"ticket_id": 1', "Expecting ',' delimiter at character 15, near "),
        ('{"ticket_id": 1} {}', "Extra data at character 17, near "),
        ("ticket_id=1", "Expecting value at character 0, near "),
        ("{'ticket_id': 1}", "Expecting property name enclosed in double quotes at character 1, near "),
        ('{"note": "a\nb"}', "Invalid control character at character 11, near "),
        ("```", "Expecting value at character 0, near "),
        ("`````", "Expecting value at character 0, near "),
        ("``````{}", "Expecting value at character 0, near "),
    ],
)
def test_text_that_is_no_json_is_answered_never_repaired(arguments: str, why: str) -> None:
    """Text that is no JSON is answered with what is wrong, where, and what stands there."""
    checked, told = Arguments("order", ORDER, json.loads).check(arguments)
    around = told.removeprefix(f"order was not called; its arguments are not JSON: {why}")
    assert (checked, around.removesuffix("; one JSON object is wanted")) == (None, repr(arguments[:40]))


LOOSE = Arguments(
    "f",
    {"type": "object", "properties": {"n": INTEGER, "s": STRING, "any": {}}, "additionalProperties": False},
    json.loads,
)


@pytest.mark.parametrize(
    ("text", "checked"),
    [
        ("", "{}"),
        (" \n", "{}"),
        ("``````", "{}"),
        ("```json\n```", "{}"),
        ("```\n{}\n```", "{}"),
        ('```json\n{"n": 1}\n```', '{"n":1}'),
        ('  ```JSON {"n": 1}```\n', '{"n":1}'),
        ('"{\\"n\\": 1}"', '{"n":1}'),
        ('```\n"{\\"n\\": \\"1\\"}"\n```', '{"n":1}'),
        ('{"any": {"b": 1, "a": 2}, "s": "x", "n": 1}', '{"n":1,"s":"x","any":{"b":1,"a":2}}'),
        ('{"n": 9007199254740993}', '{"n":9007199254740993}'),
        ('{"n": "1234567890123456789"}', '{"n":1234567890123456789}'),
        ('{"n": "99999999999999999999"}', '{"n":99999999999999999999}'),
        ('{"n": ' + "9" * 4300 + "}", '{"n":' + "9" * 4300 + "}"),
        ('{"n": 9007199254740993.0}', '{"n":9007199254740993}'),
        ('{"n": -9007199254740993e0}', '{"n":-9007199254740993}'),
        ('{"n": 1e22}', '{"n":10000000000000000000000}'),
        ('{"n": 1e23}', '{"n":100000000000000000000000}'),
        ('{"n": "1.00000000000000000001e+23"}', '{"n":100000000000000000001000}'),
        ('{"n": 120e-1}', '{"n":12}'),
        ('{"n": 1e0000000000001}', '{"n":10}'),
        ('{"n": -0.0}', '{"n":0}'),
        ('{"n": 0e-99999999999999999999}', '{"n":0}'),
        ('{"n": 1.' + "0" * 5000 + "}", '{"n":1}'),
        ('{"any": [9007199254740993.0, 0.1]}', '{"any":[9007199254740992.0,0.1]}'),
        ('{"s": "\\ud83c\\udf78"}', '{"s":"🍸"}'),
        ('{"s": "```{}```"}', '{"s":"```{}```"}'),
        ('{"s": "{\\"a\\": 1}"}', '{"s":"{\\"a\\": 1}"}'),
        ('{"s": "a\\"b\\\\"}', '{"s":"a\\"b\\\\"}'),
        ('{"s": "\\u0022"}', '{"s":"\\""}'),
        ('{"any": ' + "[" * 63 + "]" * 63 + "}", '{"any":' + "[" * 63 + "]" * 63 + "}"),
        ('{"any": [' + ",".join(["{}"] * 100) + "]}", '{"any":[' + ",".join(["{}"] * 100) + "]}"),
    ],
)
def test_what_is_meant_is_taken_without_loss(text: str, checked: str) -> None:
    """A fence, blank text and an object in a JSON string are read; digits, characters and text stay as they are."""
    assert LOOSE.check(text) == (checked, "")


@pytest.mark.parametrize(
    "text",
    [
        '{"any": ' + "[" * 64 + "]" * 64 + "}",
        '{"any": ' + "[" * 900 + "]" * 900 + "}",
        '{"any": ' + "[" * 100_000 + "]" * 100_000 + "}",
    ],
)
def test_arguments_that_nest_too_deep_are_told(text: str) -> None:
    """Sixty-five levels are refused by a sentence, and so are a hundred thousand."""
    checked, told = LOOSE.check(text)
    assert (checked, told.endswith("lists and objects nest deeper than 64 levels")) == (None, True)


def test_depth_is_counted_and_breadth_is_not() -> None:
    """A list of a hundred objects, or brackets in text, are not deep."""
    texts = ["[]", "[[], [{}]]", '["[[[", "\\"[", {"[": 1}]', "[" * 900 + "]" * 900, json.dumps([{}] * 100), "5"]
    assert [depth(text) for text in texts] == [1, 3, 2, 900, 2, 0]
    assert functions_called(lambda: LOOSE.check(json.dumps({"any": [{}] * 100})))["Arguments._wholly"] == 0


def test_text_read_as_lists_does_not_hide_depth() -> None:
    """Lists written as text inside lists are counted with the lists that they are read into."""
    rows: dict[str, Any] = {"type": "array", "items": {"$ref": "#/$defs/rows"}}
    schema = {"type": "object", "properties": {"rows": rows}, "$defs": {"rows": rows}}
    inner = json.dumps("[" * 40 + "]" * 40)
    checked, told = Arguments("f", schema, json.loads).check('{"rows": ' + "[" * 40 + inner + "]" * 40 + "}")
    assert (checked, told.endswith(": lists and objects nest deeper than 64 levels")) == (None, True)
    assert Arguments("f", schema, json.loads).check(json.dumps({"rows": "[[],[]]"})) == ('{"rows":[[],[]]}', "")


def test_a_tree_of_unions_takes_no_more_than_its_size() -> None:
    """A recursive union, which tries every form at every level, is told of in bounded steps, however deep."""
    node: dict[str, Any] = {"$ref": "#/$defs/node"}
    forms = [{"type": "object", "properties": {"kid": node, "n": INTEGER, mark: {}}} for mark in ("a", "b", "c", "d")]
    schema = {"type": "object", "properties": {"kid": node}, "$defs": {"node": {"anyOf": forms}}}
    checked, told = Arguments("f", schema, json.loads).check('{"kid":' * 60 + '{"n":"x"}' + "}" * 60)
    assert (checked, told[-38:]) == (None, '...: "x" where a whole number is wanted'[-38:])


def _refuse_thirteen(text: str) -> Any:
    value = json.loads(text)
    if value.get("n") == 13:
        raise RuntimeError("unlucky")
    return value


class _Mute(Exception):
    def __str__(self) -> str:
        raise ValueError


def _raise_mute(text: str) -> Any:
    raise _Mute


def test_what_a_class_refuses_is_the_models_to_mend() -> None:
    """An exception of whoever makes typed values of the arguments is told, whatever it is; never raised."""
    schema = {"type": "object", "properties": {"n": INTEGER}, "additionalProperties": False}
    picky = Arguments("f", schema, _refuse_thirteen)
    told = [picky.check('{"n": 12}'), picky.check('{"n": 13}'), Arguments("f", schema, _raise_mute).check("{}")]
    assert told == [
        ('{"n":12}', ""),
        (None, "f was not called; its arguments don't fit:\n- RuntimeError: unlucky"),
        (None, "f was not called; its arguments don't fit:\n- _Mute: "),
    ]


def test_a_class_that_never_ends_is_told_as_what_is_too_deep() -> None:
    """Whoever makes typed values may go down as deep as they like."""

    def deeper(text: str) -> Any:
        return deeper(text)

    said = "lists and objects nest deeper than 64 levels"
    assert Arguments("f", {"type": "object"}, deeper).check("{}") == (
        None,
        f"f was not called; its arguments don't fit:\n- {said}",
    )


# --- the short way ------------------------------------------------------------------------------------------


HOME = str(Path(loopmachine.__file__).parent)


def functions_called(action: Callable[[], object]) -> Counter[str]:
    """How often each function of this library is called while something is done."""
    profile = cProfile.Profile()
    profile.runcall(action)
    entries = [(one.code, one.callcount) for one in profile.getstats() if not isinstance(one.code, str)]
    return Counter({code.co_qualname: count for code, count in entries if code.co_filename.startswith(HOME)})


def four(ticket_id: int, title: str, price: float, tags: list[Literal["red", "blue"]], urgent: bool = False) -> None:
    """Has typed fields."""


def test_valid_arguments_are_read_by_msgspec_alone() -> None:
    """However long they are, and in whatever order or spacing, nothing of the long way is asked."""
    arguments = Arguments("four", of_function(four, "four").schema, of_function(four, "four").typed)
    few, many = (
        json.dumps({"tags": ["red"] * count, "ticket_id": 5, "title": 'a {["', "price": 118.4}) for count in (1, 1000)
    )
    assert [functions_called(lambda text=text: arguments.check(text)) for text in (few, many)] == [  # type: ignore[misc]
        Counter({"Arguments.check": 1, "_quotes": 2}),
        Counter({"Arguments.check": 1, "_quotes": 2}),
    ]


def test_only_a_failing_one_pays_for_the_full_report() -> None:
    """What msgspec does not check itself is checked in the same pass, and no sentence is made of what is right."""
    schema = {
        "type": "object",
        "properties": {"days": {"type": "array", "items": {"type": "string", "format": "time"}}},
        "required": ["days"],
        "additionalProperties": False,
    }
    arguments = Arguments("f", schema, json.loads)
    right, wrong = (json.dumps({"days": ["09:30:00Z"] * 100 + [last]}) for last in ("10:30:00Z", "10:60:00Z"))
    for_right = functions_called(lambda: arguments.check(right))
    for_wrong = functions_called(lambda: arguments.check(wrong))
    assert (for_right["fits"], for_right["instead"], for_right["Arguments._wholly"], for_right["examine"]) == (
        101,
        0,
        0,
        0,
    )
    assert (for_wrong["instead"] > 0, for_wrong["Arguments._wholly"], for_wrong["examine"]) == (True, 1, 1)


def test_a_schema_of_no_object_is_refused() -> None:
    """Arguments are an object; a schema that wants anything else is refused with all else that is wrong in it."""
    with pytest.raises(InvalidTool) as caught:
        Arguments("f", {"type": "array", "if": {}}, json.loads)
    assert str(caught.value).splitlines() == [
        "f: its input_schema can't be used:",
        "- if: this keyword can't be checked; leave it out, and check it in the tool",
        '- type: the arguments of a tool are an object, not "array"',
    ]


# --- anything at all ----------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    ['"', "\\", "{", "}", "[", "]", ":", ",", "n", '"n"', '"s":', '"any":', "1", "NaN", "\ud800", "\\ud800", "```", " "]
)


@settings(max_examples=300, deadline=None)
@given(st.text() | st.lists(PIECES, max_size=12).map("".join))
@example("\ud800")
@example('{"s": "\ud800"}')
@example('"\ud800"')
@example("\x00")
def test_no_text_makes_it_raise(text: str) -> None:
    """Whatever is written, there are either checked arguments or a sentence, and both can be sent as UTF-8."""
    checked, told = LOOSE.check(text)
    assert (checked is None) == bool(told)
    (checked or told).encode()


def _name(name: str, escaped: bool) -> str:
    return '"' + "".join(f"\\u{ord(letter):04x}" for letter in name) + '"' if escaped else f'"{name}"'


ODD = ['""', '"\\u0022\\u0022"', '"\\"\\""', '"\\\\"', "1", '{"a":1}', '{"a":1,"a":""}', '{"a\\u0022":0}']
NAMED = st.builds(_name, st.sampled_from(["a", "b", "c"]), st.booleans())
PAIRS = st.lists(st.tuples(NAMED, st.sampled_from(ODD)), max_size=4)


@settings(max_examples=300, deadline=None)
@given(PAIRS)
@example([('"a"', "1"), ('"a"', '"\\u0022\\u0022"')])
def test_a_name_given_twice_is_always_seen(pairs: list[tuple[str, str]]) -> None:
    """However names and values are escaped, a name twice in one object is refused and no other object is."""
    twice = []

    def seen(found: list[tuple[str, Any]]) -> dict[str, Any]:
        twice.append(len(dict(found)) != len(found))
        return dict(found)

    text = "{" + ",".join(f"{name}: {value}" for name, value in pairs) + "}"
    json.loads(text, object_pairs_hook=seen)
    schema = {"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, "additionalProperties": False}
    checked, _ = Arguments("f", schema, json.loads).check(text)
    assert (checked is None) == any(twice)
