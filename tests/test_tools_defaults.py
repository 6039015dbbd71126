"""Arguments with the defaults that their schema tells."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import pytest
from pydantic import BaseModel

from loopmachine.tools import tool
from loopmachine.tools.defaults import with_defaults

ITEM: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer", "default": 1}, "m": {}}}
OPEN: dict[str, Any] = {"$ref": "#/$defs/node"}
NODE: dict[str, Any] = {"properties": {"next": {**OPEN, "default": {}}, "n": {"default": 1}}}


@pytest.mark.parametrize(
    ("schema", "value", "whole"),
    [
        (ITEM, {}, {"n": 1}),
        (ITEM, {"n": 2}, {"n": 2}),
        (ITEM, {"m": {}}, {"m": {}, "n": 1}),
        ({"properties": {"a": ITEM, "b": True}}, {"a": {}, "b": {}}, {"a": {"n": 1}, "b": {}}),
        ({"properties": {"a": ITEM, "b": True}}, {}, {}),
        ({"additionalProperties": ITEM, "properties": {"a": {}}}, {"a": {}, "b": {}}, {"a": {}, "b": {"n": 1}}),
        ({"patternProperties": {"^x": ITEM}, "additionalProperties": False}, {"x": {}}, {"x": {"n": 1}}),
        ({"patternProperties": {"^x": {}}, "additionalProperties": ITEM}, {"x": {}, "y": {}}, {"x": {}, "y": {"n": 1}}),
        ({"items": ITEM}, [{}, 5, {"n": 2}], [{"n": 1}, 5, {"n": 2}]),
        ({"prefixItems": [{}, ITEM], "items": {"items": ITEM}}, [{}, {}, [{}]], [{}, {"n": 1}, [{"n": 1}]]),
        ({"prefixItems": [{"default": 1}, {"default": 2}, {}, {"default": 4}]}, [0], [0, 2]),
        ({"prefixItems": [{"default": 1}]}, [0, 9], [0, 9]),
        ({"allOf": [ITEM, {"properties": {"o": {"default": [2]}, "n": {"default": 9}}}]}, {}, {"n": 1, "o": [2]}),
        ({"anyOf": [{"type": "null"}, ITEM]}, {}, {"n": 1}),
        ({"anyOf": [{"type": "null"}, ITEM]}, None, None),
        ({"anyOf": [{**ITEM, "required": ["m"]}, {"properties": {"k": {"default": 2}}}, ITEM]}, {}, {"k": 2}),
        ({"oneOf": [{**ITEM, "required": ["m"]}, {"properties": {"n": {"default": 2}}}]}, {}, {"n": 2}),
        ({"$ref": "#/$defs/a~1b~0", "$defs": {"a/b~": ITEM}}, {}, {"n": 1}),
        ({**NODE, "$defs": {"node": NODE}}, {}, {"next": {}, "n": 1}),
        ({**NODE, "$defs": {"node": NODE}}, {"next": {}}, {"next": {"next": {}, "n": 1}, "n": 1}),
    ],
)
def test_what_was_left_out_is_put_in(schema: dict[str, Any], value: Any, whole: Any) -> None:
    """Wherever the schema tells a default for what the value may have there; what stands there stays as it is."""
    before = copy.deepcopy(schema)
    assert (with_defaults(schema, value), schema) == (whole, before)


def test_a_schema_that_tells_of_a_part_many_times_is_followed_once() -> None:
    """Or the time would double with each level."""
    twice = {"properties": {"a": OPEN, "n": {"default": 1}}, "allOf": [{"properties": {"a": OPEN}}] * 9}
    value: dict[str, Any] = {}
    for _ in range(60):
        value = {"a": value}
    whole = with_defaults({**OPEN, "$defs": {"node": twice}}, value)
    depth = 0
    while "a" in whole:
        assert whole["n"] == 1
        whole, depth = whole["a"], depth + 1
    assert (whole, depth) == ({"n": 1}, 60)


@dataclass
class Order:
    """An order."""

    to: str
    amount: int = 1000
    tags: list[str] = field(default_factory=lambda: ["new"])


class Span(NamedTuple):
    """From one to the other."""

    first: int
    last: int = 9


class Card(BaseModel):
    """Paid by card."""

    by: Literal["card"]
    fee: int = 5


class Bank(BaseModel):
    """Paid by bank."""

    by: Literal["bank"]
    fee: int = 7


def test_what_the_classes_of_a_tool_would_fill_in_is_told() -> None:
    """As far as the schema tells it: the value that a factory makes is told by nobody."""

    @tool
    def act(
        order: Order, span: Span, by: Card | Bank, orders: dict[str, list[Order]], more: Order | None = None
    ) -> str:
        return repr((order, span, by, orders, more))

    given = {"order": {"to": "a"}, "span": [1], "by": {"by": "bank"}, "orders": {"x": [{"to": "b"}]}}
    whole = with_defaults(act.input_schema, copy.deepcopy(given))
    assert whole == {
        "order": {"to": "a", "amount": 1000},
        "span": [1, 9],
        "by": {"by": "bank", "fee": 7},
        "orders": {"x": [{"to": "b", "amount": 1000}]},
        "more": None,
    }
    checked = [act.arguments.check(json.dumps(one))[0] or "" for one in (given, whole)]
    assert act(**act.signature.typed(checked[0])) == act(**act.signature.typed(checked[1]))
