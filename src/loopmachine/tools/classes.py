"""What a class is made of: the fields that its constructor takes, and their hints as the class means them."""

from __future__ import annotations

import copy
import datetime
import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, NotRequired, Required, TypeVar
from typing import Final as Constant

import attrs
from msgspec import NODEFAULT, Struct

from loopmachine.tools.notes import NoSchema

_FIXED: Constant = (datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo)
_HOOKS: Constant = ("__post_init__", "__attrs_pre_init__", "__attrs_post_init__")
_ATTRS: Constant = ("<attrs generated", attrs.make_class.__code__.co_filename)  #: where attrs has its methods from
_RECORDS: Constant = ("__dataclass_fields__", "__attrs_attrs__", "__struct_fields__")


class Member(Struct, frozen=True):
    """A field: what the constructor calls it, its name in JSON, its hint, and its default (NODEFAULT: required)."""

    argument: str
    name: str
    hint: Any
    default: Any


def is_record(cls: Any) -> bool:
    """Whether instances hold named fields: of dataclasses, attrs, msgspec, TypedDict and NamedTuple."""
    return any(hasattr(cls, mark) for mark in _RECORDS) or _is_typed_dict(cls) or _is_named_tuple(cls)


def is_listed(cls: Any) -> bool:
    """Whether it is written as a list, its fields in order."""
    return _is_named_tuple(cls) or (hasattr(cls, "__struct_config__") and cls.__struct_config__.array_like)


def is_model(cls: Any) -> bool:
    """Whether it checks and describes itself to pydantic: its models, dataclasses and types such as NaiveDatetime."""
    marks = ("__pydantic_validator__", "__get_pydantic_core_schema__")
    return isinstance(cls, type) and any(hasattr(cls, mark) for mark in marks)


def runs_nothing(cls: Any) -> bool:
    """Whether making an instance of a record runs no code of the class's own: filling its fields is all there is."""
    if _is_typed_dict(cls) or _is_named_tuple(cls):
        return _is_typed_dict(cls) or cls.__bases__ == (tuple,)
    if any(hasattr(cls, hook) for hook in _HOOKS):
        return False
    if isinstance(cls, type(Struct)):
        return type(cls) is type(Struct)
    if type(cls).__call__ is not type.__call__ or cls.__new__ is not object.__new__:
        return False
    runs = [cls.__init__, *([] if cls.__setattr__ is object.__setattr__ else [cls.__setattr__])]
    written = [one.__code__.co_filename if inspect.isfunction(one) else "" for one in runs]
    if "__attrs_attrs__" in vars(cls):
        return all(one.startswith(_ATTRS) for one in written) and all(map(_is_bare, cls.__attrs_attrs__))
    return "__dataclass_params__" in vars(cls) and {*written} == {"<string>"}


def _is_bare(one: Any) -> bool:
    """Whether an attrs field takes what it is given as it is."""
    runs = one.validator or one.converter or getattr(one.default, "takes_self", False)
    return one.init and not runs


def fresh(default: Any) -> Callable[[], Any] | None:
    """What makes a default anew, where who gets it could change it for others. Raises what copying it raises.

    An object that holds nothing is a mark, told by its identity: it stays itself.
    """
    if isinstance(default, _FIXED) or (isinstance(default, frozenset) and not any(map(fresh, default))):
        return None
    kept = copy.deepcopy(default)  # of now: who calls by hand gets the default itself, and may change it
    if kept is default or (not hasattr(default, "__deepcopy__") and _holds_nothing(default)):
        return None
    return lambda: copy.deepcopy(kept)


def _holds_nothing(value: Any) -> bool:
    made_of: tuple[object, ...] = value.__reduce_ex__(4)
    return made_of[1:] == ((type(value),), None, None, None)


def members(hint: Any, names: Mapping[str, Any]) -> Iterator[Member]:
    """The fields of a class, or of a generic one with its arguments, in order.

    Raises NameError for an unknown hint, and NoSchema for a constructor that does not say what it takes.
    """
    cls = typing.get_origin(hint) or hint
    hints = _hints(hint, cls, names)
    if _is_typed_dict(cls):
        for name in cls.__annotations__:
            said = _qualifiers(hints[name])
            needed = "Required" in said or (name in cls.__required_keys__ and "NotRequired" not in said)
            yield Member(name, name, hints[name], NODEFAULT if needed else _LEFT_OUT)
    elif _is_named_tuple(cls):
        for name in cls._fields:
            yield Member(name, name, hints.get(name, Any), cls._field_defaults.get(name, NODEFAULT))
    else:
        yield from _parameters(cls, hints, names)


#: The default of a name that may be left out of a TypedDict.
_LEFT_OUT: Constant = object()


def _parameters(cls: Any, hints: Mapping[str, Any], names: Mapping[str, Any]) -> Iterator[Member]:
    """What the constructor of a class takes; one that the class has written itself may take what is no field."""
    own = {one.alias: one for one in getattr(cls, "__attrs_attrs__", ())}
    hints = {alias: hints.get(one.name, one.type) for alias, one in own.items()} or hints
    encoded = dict(zip(*(getattr(cls, f"__struct_{one}__", ()) for one in ("fields", "encode_fields")), strict=True))
    parameters = inspect.signature(cls).parameters
    owner = next(base for base in cls.__mro__ if "__init__" in vars(base))
    said = inspect.get_annotations(owner.__init__)
    unknown = {name: said[name] for name in parameters if name in said and hints.get(name) is None}
    hints = {**hints, **_seen_from(owner, unknown, names)}
    for name, parameter in parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise NoSchema(f"its constructor takes {str(parameter).partition(':')[0]}", "write out what it takes")
        if hints.get(name) is None:
            raise NoSchema(f"its parameter {name} has no type hint", "write one")
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
    merged = _is_typed_dict(cls)  # what stands in a TypedDict holds the hints of its bases, which stay theirs
    found: dict[str, Any] = {}
    for base in reversed([*bound] if merged else cls.__mro__):
        own, given = _seen_from(base, inspect.get_annotations(base), names), bound.get(base, {})
        found |= {name: _filled(one, given) for name, one in own.items() if not (merged and name in found)}
    return found


def _seen_from(cls: Any, written: Mapping[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """The hints that stand in a class itself; what is local to a function is known only to classes made in one."""
    return resolved(written, cls, names if "<locals>" in cls.__qualname__ else {})


def resolved(written: Mapping[str, Any], holder: Any, names: Mapping[str, Any]) -> dict[str, Any]:
    """Hints as types, looked up in the module of their holder, which knows itself and its type parameters."""
    known = {one.__name__: one for one in getattr(holder, "__type_params__", ())} | {holder.__name__: holder}
    noted = type("Noted", (), {"__annotations__": dict(written)})  # a class, for what only classes may say
    return looked_up(noted, vars(sys.modules[holder.__module__]), {**names, **known})


def looked_up(holder: Any, names: dict[str, Any], local: dict[str, Any]) -> dict[str, Any]:
    """The hints of a holder as types. Of an alias that holds itself typing leaves the name, which is made a type."""
    found = typing.get_type_hints(holder, names, local, include_extras=True)
    left = [name for hint in found.values() for one in _left(hint) for name in one.__forward_code__.co_names]
    if not left:
        return found
    known = {**names, **local}
    assigned = {name: one for name in left if isinstance(one := known.get(name), str) or typing.get_args(one)}
    aliases = {name: Named(name, one) for name, one in assigned.items()}
    local = local | aliases
    for alias in aliases.values():
        alias.__value__ = typing.get_type_hints(alias, names, local, include_extras=True)["value"]
    return typing.get_type_hints(holder, names, local, include_extras=True)


def _left(hint: Any) -> Iterator[typing.ForwardRef]:
    """The names in a hint that were not looked up."""
    if isinstance(hint, typing.ForwardRef):
        yield hint
    for part in typing.get_args(hint):
        yield from _left(part)


class Named(type):
    """An alias that was assigned, and holds itself by its name: a type, so that it may stand wherever one does."""

    written: Any
    __value__: Any  #: as written, until its names are looked up

    def __new__(cls, name: str, written: Any) -> Named:
        said = {"__annotations__": {"value": written}, "__type_params__": (), "__value__": written, "written": written}
        return super().__new__(cls, name, (), said)

    def __init__(cls, name: str, written: Any) -> None:
        super().__init__(name, (), {})

    def __eq__(cls, other: object) -> bool:
        return isinstance(other, Named) and other.written is cls.written

    def __hash__(cls) -> int:
        return id(cls.written)


def meaning(hint: Any, names: Mapping[str, Any]) -> Any:
    """The type that the alias of a type statement names, its type parameters put in."""
    alias = typing.get_origin(hint) or hint
    given = _given(alias.__type_params__, typing.get_args(hint))
    return _filled(resolved({"value": alias.__value__}, alias, names)["value"], given)


def _bind(hint: Any, bound: dict[Any, dict[Any, Any]]) -> None:
    """What stands for the type variables of each class that a hint names or comes from."""
    cls = typing.get_origin(hint) or hint
    bound[cls] = _given(getattr(cls, "__parameters__", ()), typing.get_args(hint))
    for base in vars(cls).get("__orig_bases__", ()):
        if typing.get_origin(base) not in (typing.Generic, typing.Protocol):
            _bind(_filled(base, bound[cls]), bound)


def _given(variables: tuple[Any, ...], parts: tuple[Any, ...]) -> dict[Any, Any]:
    """What stands for each type variable: what is given, else its default, which may name those before it."""
    given: dict[Any, Any] = {}
    for place, one in enumerate(variables):
        default = default_of(one, one)
        part = parts[place] if place < len(parts) else default
        given[one] = _filled(part, given) if part == default else part  # who gives some may be given the other defaults
    return given


def default_of(variable: Any, otherwise: Any) -> Any:
    """What a type variable is where nothing is given for it; typing has defaults since Python 3.13."""
    return variable.__default__ if getattr(variable, "has_default", bool)() else otherwise


def _filled(hint: Any, given: Mapping[Any, Any]) -> Any:
    """A hint with what is given for its type variables."""
    if isinstance(hint, TypeVar):
        return given.get(hint, hint)
    open_ones = () if isinstance(hint, type) else getattr(hint, "__parameters__", ())
    return hint[tuple(given.get(one, one) for one in open_ones)] if open_ones else hint


def is_qualifier(origin: Any) -> bool:
    """Whether it says something of a name in a TypedDict, and nothing of its values; typing has not all of them yet."""
    return origin in (Required, NotRequired) or getattr(origin, "_name", "") == "ReadOnly"


def _qualifiers(hint: Any) -> list[str]:
    """What stands around a hint in a TypedDict, in whatever order."""
    origin = typing.get_origin(hint)
    if origin is not Annotated and not is_qualifier(origin):
        return []
    return [getattr(origin, "_name", ""), *_qualifiers(typing.get_args(hint)[0])]


def _is_typed_dict(cls: Any) -> bool:
    """Of typing, or of typing_extensions, which has its own where typing's is behind."""
    others = sys.modules.get("typing_extensions")
    return typing.is_typeddict(cls) or (others is not None and others.is_typeddict(cls))


def _is_named_tuple(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")
