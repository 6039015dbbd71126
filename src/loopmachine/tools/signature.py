"""From a function's signature and docstring to what a model is told of it, and back to a call of it."""

from __future__ import annotations

import copy
import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, NotRequired
from typing import Final as Constant

import attrs
import msgspec

from loopmachine.errors import InvalidTool
from loopmachine.tools.context import Context
from loopmachine.tools.types import NoSchema, Types, default, is_model, read_model

_MUTABLE: Constant = (list, dict, set, bytearray)


@attrs.frozen
class Signature:
    """A function as a tool: its schema and texts, and how its checked arguments become a call.

    ``typed(text)`` gives the arguments by name as the hints say, new each time; it raises what a class that refuses
    its values raises.
    """

    description: str
    schema: dict[str, Any]
    typed: Callable[[str], dict[str, Any]]
    contexts: tuple[str, ...] = ()  #: parameters that get the Context
    positional: tuple[str, ...] = ()  #: parameters that take no keyword, in order
    defaults: Mapping[str, Callable[[], Any]] = attrs.field(factory=dict)  #: those that Python can't fill in well

    def bind(self, checked: str, context: Context) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments of one call, nothing of which is shared with another."""
        named = self.typed(checked)
        for name in self.contexts:
            named[name] = context
        for name, made in self.defaults.items():
            if name not in named:
                named[name] = made()
        return [named.pop(name) for name in self.positional] if self.positional else [], named


def of_function(function: Callable[..., Any], name: str, names: Mapping[str, Any] | None = None) -> Signature:
    """The signature of a function, method, partial or callable. ``names``: where its hints are looked up first.

    Raises InvalidTool, which names the function, the parameter and the remedy.
    """
    description, texts = docstring(function)
    maker, properties, fields, required = Types(), {}, {}, []
    contexts, positional, defaults = [], [], {}
    for parameter, hint in _parameters(function, name, names):
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(parameter.name)
        if is_context(hint):
            contexts.append(parameter.name)
            continue
        schema = _schema_of(maker, hint, name, parameter)
        told = {"description": texts[parameter.name]} if texts.get(parameter.name) else {}
        if parameter.default is parameter.empty:
            required.append(parameter.name)
            fields[parameter.name] = hint
        else:
            schema |= default(parameter.default)
            fields[parameter.name] = NotRequired[hint]
            if _can_change(parameter.default):  # one call must not see what another did to it
                defaults[parameter.name] = functools.partial(copy.deepcopy, parameter.default)
            elif parameter.kind is parameter.POSITIONAL_ONLY:  # one after it may be given
                defaults[parameter.name] = functools.partial(_itself, parameter.default)
        properties[parameter.name] = told | schema
    whole = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return Signature(
        description,
        whole | ({"$defs": maker.defs} if maker.defs else {}),
        _decoder(fields),
        tuple(contexts),
        tuple(positional),
        defaults,
    )


def of_handler(handler: Callable[..., Any], description: str, schema: dict[str, Any]) -> Signature:
    """The signature of a handler that gets the arguments of a ready schema by keyword, and the Context if it asks."""
    try:
        hints = typing.get_type_hints(inspect.unwrap(_plain(handler)), include_extras=True)
    except Exception:  # hints that mean something to somebody else
        hints = {}
    contexts = tuple(name for name, hint in hints.items() if name != "return" and is_context(hint))
    return Signature(description, schema, msgspec.json.Decoder(dict[str, Any]).decode, contexts)


def is_async(function: Any) -> bool:
    """Whether calling it gives something to be awaited."""
    return inspect.iscoroutinefunction(_plain(function))


def is_context(hint: Any) -> bool:
    """Whether a parameter with this hint is filled by the host."""
    parts = typing.get_args(hint)
    return hint is Context or (len(parts) == 2 and Context in parts and types.NoneType in parts)


def name_of(function: Any) -> str:
    """The name of a function; of a partial or a callable that of what it wraps."""
    plain = _below_partials(function)
    return str(getattr(plain, "__name__", None) or type(plain).__name__)


def docstring(function: Any) -> tuple[str, dict[str, str]]:
    """The description in a docstring, and the text of each parameter (Google, NumPy or Sphinx style)."""
    text = inspect.getdoc(_below_partials(function)) or ""
    if not text.strip():
        return "", {}
    import docstring_parser  # heavy, and only needed here

    parsed = docstring_parser.parse(text)
    texts = {one.arg_name: " ".join((one.description or "").split()) for one in parsed.params}
    return (parsed.description or "").strip(), texts


# --- the parameters -----------------------------------------------------------------------------------------


def _parameters(
    function: Callable[..., Any], name: str, names: Mapping[str, Any] | None
) -> list[tuple[inspect.Parameter, Any]]:
    """The parameters that are open, each with its hint."""
    try:
        found = inspect.signature(function).parameters
    except (TypeError, ValueError, NameError) as error:
        raise InvalidTool(f"{name}: its signature can't be read: {error}; wrap it in a function with hints") from error
    closed = _given_by_partial(function)
    scope = getattr(inspect.unwrap(_plain(function)), "__globals__", {})
    open_ones = [parameter for parameter in found.values() if parameter.name not in closed]
    return [(parameter, _hint(parameter, name, scope, names)) for parameter in open_ones]


def _given_by_partial(function: Any) -> set[str]:
    """The names that a partial fixed: its maker's values, which a model must neither see nor change."""
    fixed: set[str] = set()
    while isinstance(function, functools.partial):
        fixed |= function.keywords.keys()
        function = function.func
    return fixed


def _below_partials(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _plain(function: Any) -> Any:
    """The function below methods, partials and callables."""
    function = _below_partials(function)
    if inspect.ismethod(function):
        return function.__func__
    if not inspect.isfunction(function) and inspect.isfunction(type(function).__call__):
        return type(function).__call__
    return function


def _hint(parameter: inspect.Parameter, name: str, scope: dict[str, Any], names: Mapping[str, Any] | None) -> Any:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        _refuse(name, str(parameter), "a schema can't tell of it; write out the parameters, or take a list or dict")
    if parameter.annotation is parameter.empty:
        if parameter.name in ("self", "cls"):
            _refuse(name, parameter.name, "it has no type hint; make the tool of the bound method, tool(object.method)")
        _refuse(name, parameter.name, "it has no type hint; write one, Any if it takes anything")
    holder = types.SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    try:
        return typing.get_type_hints(holder, scope, dict(names or {}), include_extras=True)[parameter.name]
    except Exception as error:
        _refuse(
            name,
            parameter.name,
            f"its hint {parameter.annotation!r} can't be read: {error}; define the type where the function can see it",
        )


def _schema_of(maker: Types, hint: Any, name: str, parameter: inspect.Parameter) -> dict[str, Any]:
    try:
        return maker.schema(hint)
    except NoSchema as error:
        remedy = "take a type that JSON has, and convert it in the tool"
        _refuse(name, parameter.name, f"its type has no schema: {error}; {remedy}")


def _refuse(name: str, parameter: str, why: str) -> NoReturn:
    raise InvalidTool(f"{name}: parameter {parameter}: {why}")


def _decoder(fields: dict[str, Any]) -> Callable[[str], dict[str, Any]]:
    shape: Any = typing.TypedDict("Arguments", fields)  # type: ignore[misc]  # its fields are known only now
    decoder: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(shape, dec_hook=read_model)
    return decoder.decode


def _itself(value: Any) -> Any:
    return value


def _can_change(value: Any) -> bool:
    records = ("__dataclass_fields__", "__attrs_attrs__", "__struct_fields__")
    return isinstance(value, _MUTABLE) or is_model(type(value)) or any(hasattr(type(value), mark) for mark in records)
