"""What ``Annotated`` notes of a type. What restricts its values is checked, or refused; nothing of it is ignored.

Notes that say nothing of values are for others: text is a description, objects that are no limit and can't be called
are left alone. pydantic's strictness is of what a model's text was coerced to by the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any
from typing import Final as Constant

import msgspec

#: What a note says of a value, in the words of msgspec, annotated-types and pydantic.
_LIMITS: Constant = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern")
_UNLIMITED: Constant = "limit the parts of a union, Optional[Annotated[int, ...]]; else take annotated_types.Predicate"
_HARMLESS: Constant = ("Unit", "DocInfo", "Doc")


class NoSchema(TypeError):
    """A type that no JSON Schema describes; the sentence says which, ``remedy`` what to write instead."""

    def __init__(self, why: str, remedy: str = "take a type that JSON has, and convert it in the tool") -> None:
        super().__init__(why.replace("\n", " "))
        self.remedy = remedy


class Endless(NoSchema):
    """A type that stands in itself with other arguments each time."""


def refused(error: Exception) -> NoSchema:
    """What was raised of a type; of limits on what msgspec can't limit with their remedy."""
    if isinstance(error, NoSchema):
        return error
    if str(error).startswith("Can only set"):
        return NoSchema(str(error), _UNLIMITED)
    return NoSchema(str(error))


def flat(notes: Iterable[Any]) -> Iterator[Any]:
    """The notes, and what is noted in those that hold others: pydantic's Field."""
    for note in notes:
        yield note
        held = getattr(note, "metadata", ())
        yield from flat(held if isinstance(held, list) else ())


def is_pydantics(note: Any) -> bool:
    """Whether only pydantic knows what a note demands: validators, strictness, a discriminator; no plain limit."""
    if isinstance(note, type):
        return False
    if type(note).__module__.partition(".")[0] not in ("pydantic", "pydantic_core"):
        return hasattr(note, "__get_pydantic_core_schema__")
    if hasattr(note, "metadata"):  # a Field
        return note.discriminator is not None
    return not vars(note).keys() <= {*_LIMITS} if hasattr(note, "__dict__") else True


def meant(note: Any) -> None:
    """Raises NoSchema for a note that says what stands elsewhere: pydantic's Field with a default, or another name."""
    if _is_field(note):
        said = [name for name in ("alias", "validation_alias") if getattr(note, name) is not None]
        said += [] if note.is_required() else ["default"]
        if said:
            remedy = "write a default behind the hint, after =, and give the parameter or field its own name"
            raise NoSchema(f"Field({said[0]}=...) means nothing in Annotated", remedy)


def limits(note: Any) -> Iterator[msgspec.Meta]:
    """A note as msgspec's own. Raises NoSchema for one that can't be checked."""
    if isinstance(note, msgspec.Meta):
        yield _without_pattern(note)
    elif isinstance(note, str):
        yield msgspec.Meta(description=note)
    elif not isinstance(note, type):
        told = {name: one for name in ("title", "description") if isinstance(one := getattr(note, name, None), str)}
        said = {limit: getattr(note, limit, None) for limit in _LIMITS}
        said = told | {name: one for name, one in said.items() if one is not None and not callable(one)}
        said |= _zone(note) | _more(note)
        if said:
            yield _without_pattern(msgspec.Meta(**said))
        else:
            _known(note)


def _without_pattern(meta: msgspec.Meta) -> msgspec.Meta:
    """The same, its pattern told in the schema alone: there it is matched in bounded time, and once."""
    if meta.pattern is None:
        return meta
    said = {name: getattr(meta, name) for name in (*_LIMITS, "tz", "title", "description", "examples", "extra")}
    return msgspec.Meta(
        **said | {"pattern": None, "extra_json_schema": {"pattern": meta.pattern, **(meta.extra_json_schema or {})}}
    )


def _more(note: Any) -> dict[str, Any]:
    """What else pydantic's Field says to a model."""
    if not _is_field(note):
        return {}
    if callable(note.json_schema_extra):
        raise NoSchema("Field(json_schema_extra=...) is a function", "give what it adds, a dict")
    said = {"examples": note.examples, "extra_json_schema": note.json_schema_extra}
    return {name: one for name, one in said.items() if one is not None}


def _is_field(note: Any) -> bool:
    return type(note).__module__ == "pydantic.fields" and hasattr(note, "is_required")


def _zone(note: Any) -> dict[str, bool]:
    """Whether there must be a zone, as annotated-types has it: None for no, ... for any."""
    if not _is_annotated_types(note, "Timezone"):
        return {}
    if note.tz not in (None, ...):
        raise NoSchema(f"{note!r} can't be checked", "take Timezone(...), and check the zone in the tool")
    return {"tz": note.tz is ...}


def predicates(note: Any) -> Iterator[Callable[[Any], object]]:
    """The test that a note is."""
    if _is_annotated_types(note, "Predicate"):
        yield note.func


def named(test: Callable[[Any], object]) -> str:
    """A test by its name; of one that has none, what it is."""
    return getattr(test, "__name__", None) or repr(test)


def _known(note: Any) -> None:
    """Raises NoSchema for a note that seems to restrict values, in a way that nobody here knows."""
    mine = _is_annotated_types(note, "Predicate", *_HARMLESS)
    kinds = {base.__module__ for base in type(note).__mro__}
    if not mine and (callable(note) or "annotated_types" in kinds):
        raise NoSchema(f"nobody can tell what {named(note)} demands", "take annotated_types.Predicate of a function")


def _is_annotated_types(note: Any, *names: str) -> bool:
    return type(note).__module__ == "annotated_types" and type(note).__name__ in names
