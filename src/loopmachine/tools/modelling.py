"""What is done to the schemas that pydantic makes of its models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from loopmachine.tools.formats import FORMATS


def described(adapter: Any, template: str) -> Any:
    """The schema that pydantic makes of a type, its references as the template has them.

    Of a ``datetime`` and a ``time`` that must not have a zone it would say that they must.
    """
    return adapter.json_schema(ref_template=template, schema_generator=_generator())


@cache
def _generator() -> Any:
    from pydantic.json_schema import GenerateJsonSchema

    class Zoneless(GenerateJsonSchema):
        def datetime_schema(self, schema: Any) -> Any:
            told = super().datetime_schema(schema)
            return told | {"format": "date-time-local"} if schema.get("tz_constraint") == "naive" else told

        def time_schema(self, schema: Any) -> Any:
            told = super().time_schema(schema)
            return told | {"format": "partial-time"} if schema.get("tz_constraint") == "naive" else told

    return Zoneless


def closed(schema: Any) -> Any:
    """A pydantic schema with its objects closed, unless they say otherwise, and formats that pydantic checks itself."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for keyword, argument in schema.items():
        if keyword in ("properties", "$defs"):
            made[keyword] = {name: closed(one) for name, one in argument.items()}
        elif keyword != "format" or argument in FORMATS:
            made[keyword] = argument if keyword in ("default", "examples", "enum", "const") else closed(argument)
    if "properties" in made:
        made.setdefault("additionalProperties", False)
    return made


def renamed(schema: Any, names: Mapping[str, str]) -> Any:
    """A schema whose references go by other names."""
    if isinstance(schema, list):
        return [renamed(one, names) for one in schema]
    if isinstance(schema, dict):
        return {keyword: renamed(argument, names) for keyword, argument in schema.items()}
    return names.get(schema, schema) if isinstance(schema, str) else schema


def branches(schema: Any, parts: Mapping[str, Any]) -> bool:
    """Whether a union holds itself in two of its types of one kind.

    pydantic tries both at every level, and so takes twice the time for each level that a value has.
    """
    return any(_branches(one, parts) for one in _below(schema, parts) if "anyOf" in one)


def _branches(union: Mapping[str, Any], parts: Mapping[str, Any]) -> bool:
    types = (_meant(one, parts) for one in union["anyOf"])
    kinds = Counter(str(one.get("type")) for one in types if any(union is below for below in _below(one, parts)))
    return any(times > 1 for times in kinds.values())


def _meant(schema: Mapping[str, Any], parts: Mapping[str, Any]) -> Any:
    """What a reference refers to; what is none, itself."""
    reference = schema.get("$ref", "")
    return parts[reference.rpartition("/")[2]] if reference else schema


def _below(schema: Any, parts: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """All that a schema consists of, each once, whatever it refers to included."""
    found: dict[int, Any] = {}
    open_ones = [schema]
    while open_ones:
        one = open_ones.pop()
        if isinstance(one, dict) and id(one) not in found:
            found[id(one)] = one
            open_ones += [_meant(one, parts), *one.values()]
        elif isinstance(one, list):
            open_ones += one
    yield from found.values()
