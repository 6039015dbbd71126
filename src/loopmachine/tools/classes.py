"""What a class is made of: the fields that its constructor takes, and their hints as the class means them."""

from __future__ import annotations

import copy
import datetime
import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NotRequired, Required, TypeVar
from typing import Final as Constant

import attrs
from msgspec import NODEFAULT

_FIXED: Constant = (datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo)
_RECORDS: Constant = ("__dataclass_fields__", "__attrs_attrs__", "__struct_fields__")


@attrs.frozen
class Member:
    """A field: what the constructor calls it, its name in JSON, its hint, and its default (NODEFAULT: required)."""

    argument: str
    name: str
    hint: Any
    default: Any = NODEFAULT


def is_record(cls: Any) -> bool:
    """Whether instances hold named fields: of dataclasses, attrs, msgspec, TypedDict and NamedTuple."""
    return any(hasattr(cls, mark) for mark in _RECORDS) or typing.is_typeddict(cls) or _is_named_tuple(cls)


def is_listed(cls: Any) -> bool:
    """Whether it is written as a list, its fields in order."""
    return _is_named_tuple(cls) or (hasattr(cls, "__struct_config__") and cls.__struct_config__.array_like)


def is_model(cls: Any) -> bool:
    """Whether it is one of pydantic's models or dataclasses, which check and describe themselves."""
    return isinstance(cls, type) and hasattr(cls, "__pydantic_validator__")


def fresh(default: Any) -> Callable[[], Any] | None:
    """What makes a default anew, where who gets it could change it for others. Raises what copying it raises.

    An object that holds nothing is a mark, told by its identity: it stays itself.
    """
    if isinstance(default, _FIXED) or (isinstance(default, frozenset) and not any(map(fresh, default))):
        return None
    if copy.deepcopy(default) is default or (not hasattr(default, "__deepcopy__") and _holds_nothing(default)):
        return None
    return lambda: copy.deepcopy(default)


def _holds_nothing(value: Any) -> bool:
    made_of: tuple[object, ...] = value.__reduce_ex__(4)
    return made_of[1:] == ((type(value),), None, None, None)


def members(hint: Any, names: Mapping[str, Any]) -> Iterator[Member]:
    """The fields of a class, or of a generic one with its arguments, in order. Raises NameError for an unknown hint."""
    cls = typing.get_origin(hint) or hint
    hints = _hints(hint, cls, names)
    if typing.is_typeddict(cls):
        for name in cls.__annotations__:
            wanted = typing.get_origin(hints[name])
            needed = wanted is Required or (name in cls.__required_keys__ and wanted is not NotRequired)
            yield Member(name, name, hints[name], NODEFAULT if needed else _LEFT_OUT)
    elif _is_named_tuple(cls):
        for name in cls._fields:
            yield Member(name, name, hints.get(name, Any), cls._field_defaults.get(name, NODEFAULT))
    else:
        yield from _parameters(cls, hints)


#: The default of a name that may be left out of a TypedDict.
_LEFT_OUT: Constant = object()


def _parameters(cls: Any, hints: Mapping[str, Any]) -> Iterator[Member]:
    """What the constructor of a class takes."""
    own = {one.alias: one for one in getattr(cls, "__attrs_attrs__", ())}
    hints = {alias: hints.get(one.name, one.type) for alias, one in own.items()} or hints
    encoded = dict(zip(*(getattr(cls, f"__struct_{one}__", ()) for one in ("fields", "encode_fields")), strict=True))
    for name, parameter in inspect.signature(cls).parameters.items():
        if hints.get(name) is None:
            raise NameError(f"its parameter {name} has no type hint")
        default = NODEFAULT if parameter.default is parameter.empty else _default(cls, name, parameter.default)
        yield Member(name, encoded.get(name, name), hints[name], default)


def _default(cls: Any, name: str, default: Any) -> Any:
    """The default of a parameter; of a factory that makes an empty collection what it makes, else a mark."""
    fields = getattr(cls, "__dataclass_fields__", {})
    made = {one.alias: one.default for one in getattr(cls, "__attrs_attrs__", ())}
    factory = getattr(fields.get(name) or made.get(name) or default, "default_factory" if fields else "factory", None)
    if factory in (list, dict, set):
        return factory()
    return _LEFT_OUT if factory is not None and hasattr(cls, "__struct_fields__") else default


# --- hints ----------------------------------------------------------------------------------------------------


def _hints(hint: Any, cls: Any, names: Mapping[str, Any]) -> dict[str, Any]:
    """The hints of a class and those that it comes from, type variables put in."""
    bound: dict[Any, dict[Any, Any]] = {}
    _bind(hint, bound)
    merged = typing.is_typeddict(cls)  # what stands in a TypedDict holds the hints of its bases, which stay theirs
    found: dict[str, Any] = {}
    for base in reversed([*bound] if merged else cls.__mro__):
        own, given = _own_hints(base, names), bound.get(base, {})
        found |= {name: _filled(one, given) for name, one in own.items() if not (merged and name in found)}
    return found


def _own_hints(cls: Any, names: Mapping[str, Any]) -> dict[str, Any]:
    """The hints that stand in a class itself; what is local to a function is known only to classes made in one."""
    return resolved(inspect.get_annotations(cls), cls, names if "<locals>" in cls.__qualname__ else {})


def resolved(written: Mapping[str, Any], holder: Any, names: Mapping[str, Any]) -> dict[str, Any]:
    """Hints as types, looked up in the module of their holder, which knows itself and its type parameters."""
    known = {one.__name__: one for one in getattr(holder, "__type_params__", ())} | {holder.__name__: holder}
    noted = type("Noted", (), {"__annotations__": dict(written)})  # a class, for what only classes may say
    return typing.get_type_hints(noted, vars(sys.modules[holder.__module__]), {**names, **known}, include_extras=True)


def meaning(hint: Any, names: Mapping[str, Any]) -> Any:
    """The type that the alias of a type statement names, its type parameters put in."""
    alias = typing.get_origin(hint) or hint
    given = dict(zip(alias.__type_params__, typing.get_args(hint), strict=False))
    return _filled(resolved({"value": alias.__value__}, alias, names)["value"], given)


def _bind(hint: Any, bound: dict[Any, dict[Any, Any]]) -> None:
    """What stands for the type variables of each class that a hint names or comes from."""
    cls = typing.get_origin(hint) or hint
    bound[cls] = dict(zip(getattr(cls, "__parameters__", ()), typing.get_args(hint), strict=False))
    for base in vars(cls).get("__orig_bases__", ()):
        if typing.get_origin(base) not in (typing.Generic, typing.Protocol):
            _bind(_filled(base, bound[cls]), bound)


def _filled(hint: Any, given: Mapping[Any, Any]) -> Any:
    """A hint with what is given for its type variables."""
    if isinstance(hint, TypeVar):
        return given.get(hint, hint)
    open_ones = () if isinstance(hint, type) else getattr(hint, "__parameters__", ())
    return hint[tuple(given.get(one, one) for one in open_ones)] if open_ones else hint


def _is_named_tuple(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")
