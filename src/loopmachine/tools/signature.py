"""From a function's signature and docstring to what a model is told of it, and back to a call of it."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Annotated, Any, NoReturn, NotRequired, TypeVar
from typing import Final as Constant

import msgspec
from msgspec import NODEFAULT, Struct

from loopmachine.errors import InvalidTool
from loopmachine.tools.classes import default_of, fresh, looked_up, meaning
from loopmachine.tools.context import Context
from loopmachine.tools.makers import lean
from loopmachine.tools.notes import NoSchema
from loopmachine.tools.standins import hook
from loopmachine.tools.texts import parsed, written
from loopmachine.tools.types import Types

_WRAPPERS: Constant = (typing.Union, types.UnionType, typing.Final)  #: their parts are all that they are
_VARIABLE: Constant = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Signature(Struct, frozen=True):
    """A function as a tool: its schema and texts, and how its checked arguments become a call.

    ``typed(text)`` gives the arguments by name as the hints say, new each time; it raises what a class that refuses
    its values raises.
    """

    description: str
    schema: dict[str, Any]
    typed: Callable[[str], dict[str, Any]]
    contexts: tuple[str, ...] = ()  #: parameters that get the Context
    positional: tuple[str, ...] = ()  #: parameters that take no keyword, in order
    defaults: Mapping[str, Callable[[], Any]] = {}  #: those that Python can't fill in well
    shapes: Mapping[str, Any] = {}  #: of the parameters, where classes may refuse their values

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
    if inspect.isgeneratorfunction(_plain(function)) or inspect.isasyncgenfunction(_plain(function)):
        raise InvalidTool(f"{name}: it yields, so that calling it does nothing; return a list")
    description, texts = docstring(function)
    local, scope = _scopes(inspect.unwrap(_plain(function)), names or {})
    maker = Types({**(names or {}), **local})
    properties, shapes, required, contexts, positional = {}, {}, [], [], []
    defaults: dict[str, Callable[[], Any]] = {}
    for parameter, hint, asks in _parameters(function, name, local, scope):
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(parameter.name)
        if asks:
            contexts.append(parameter.name)
            continue
        default = NODEFAULT if parameter.default is parameter.empty else parameter.default
        shapes[parameter.name], properties[parameter.name] = _told(maker, hint, name, parameter.name, texts, default)
        if default is NODEFAULT:
            required.append(parameter.name)
        else:
            defaults |= _filled_in(parameter, name)
    maker.finish()
    whole = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return Signature(
        description,
        whole | ({"$defs": maker.defs} if maker.defs else {}),
        _decoder(shapes, required),
        tuple(contexts),
        tuple(positional),
        defaults,
        shapes,
    )


def of_handler(handler: Callable[..., Any], description: str, schema: dict[str, Any]) -> Signature:
    """The signature of a handler that gets the arguments of a ready schema by keyword, and the Context if it asks.

    Raises InvalidTool where nobody can tell whether it asks: a model could give the Context then.
    """
    contexts = tuple(_contexts(handler, name_of(handler), schema.get("properties")))
    return Signature(description, schema, msgspec.json.Decoder(dict[str, Any]).decode, contexts)


def is_async(function: Any) -> bool:
    """Whether calling it gives something to be awaited."""
    return inspect.iscoroutinefunction(_plain(function))


def is_context(hint: Any, names: Mapping[str, Any] | None = None) -> bool:
    """Whether a parameter with this hint is filled by the host: it is Context, or None too, by whatever name."""
    kinds = [one for one in _kinds(hint, names or {}, set()) if one is not types.NoneType]
    return bool(kinds) and all(one is Context for one in kinds)


def name_of(function: Any) -> str:
    """The name of a function; of a partial or a callable that of what it wraps."""
    plain = _below_partials(function)
    return str(getattr(plain, "__name__", None) or type(plain).__name__)


def docstring(function: Any) -> tuple[str, dict[str, str]]:
    """The description in a docstring, and the text of each parameter (Google, NumPy or Sphinx style).

    Of a callable object that of its ``__call__``; if there is none the description of its class, whose parameters are
    those of its constructor.
    """
    own = _below_partials(function)
    called = type(own).__call__
    if not inspect.isfunction(called) or "__doc__" in getattr(own, "__dict__", {}):
        return parsed(inspect.getdoc(own))
    said = inspect.cleandoc(called.__doc__ or "")
    return parsed(said) if said else (parsed(written(type(own)))[0], {})


# --- the parameters -----------------------------------------------------------------------------------------


def _parameters(
    function: Callable[..., Any], name: str, local: dict[str, Any], scope: dict[str, Any]
) -> list[tuple[inspect.Parameter, Any, bool]]:
    """The parameters that are open, each with its hint and whether the host fills it."""
    closed = _given_by_partial(function)
    open_ones = [parameter for parameter in _all(function, name) if parameter.name not in closed]
    return [(parameter, *_hint(parameter, name, local, scope)) for parameter in open_ones]


def _contexts(handler: Callable[..., Any], name: str, properties: Any) -> Iterator[str]:
    """The parameters that get the Context; a hint of another may mean something to somebody else."""
    try:
        found = _all(handler, name)
    except InvalidTool as error:
        if isinstance(error.__cause__, NameError):
            raise
        return  # it is not written in Python
    local, scope = _scopes(inspect.unwrap(_plain(handler)), {})
    for parameter in found:
        if parameter.kind in _VARIABLE:
            continue
        try:
            if _read(parameter, name, local, scope)[1]:
                yield parameter.name
        except InvalidTool:
            raise
        except Exception as error:
            named = isinstance(properties, Mapping) and parameter.name in properties
            if not named or re.search(r"\bContext\b", repr(parameter.annotation)):
                _refuse(
                    name,
                    parameter.name,
                    f"its hint {parameter.annotation!r} can't be read, and may be Context: {error}; "
                    "import or define the type where the function can see it",
                )


def _all(function: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    try:
        return [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError, NameError) as error:
        raise InvalidTool(f"{name}: its signature can't be read: {error}; wrap it in a function with hints") from error


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


def _hint(parameter: inspect.Parameter, name: str, local: dict[str, Any], scope: dict[str, Any]) -> tuple[Any, bool]:
    if parameter.kind in _VARIABLE:
        _refuse(name, str(parameter), "a schema can't tell of it; write out the parameters, or take a list or dict")
    if parameter.annotation is parameter.empty:
        if parameter.name in ("self", "cls"):
            _refuse(name, parameter.name, "it has no type hint; make the tool of the bound method, tool(object.method)")
        _refuse(name, parameter.name, "it has no type hint; write one, Any if it takes anything")
    try:
        return _read(parameter, name, local, scope)
    except InvalidTool:
        raise
    except Exception as error:
        _refuse(
            name,
            parameter.name,
            f"its hint {parameter.annotation!r} can't be read: {error}; define the type where the function can see it",
        )


def _read(parameter: inspect.Parameter, name: str, local: dict[str, Any], scope: dict[str, Any]) -> tuple[Any, bool]:
    """The hint of one parameter, whatever the others say, and whether the host fills it.

    Refused is what names Context and more: a model could give it.
    """
    holder = types.SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    hint = looked_up(holder, scope, local)[parameter.name]
    asks = is_context(hint, local)
    if not asks and any(isinstance(one, type) and issubclass(one, Context) for one in _kinds(hint, local, set())):
        _refuse(name, parameter.name, f"its hint {hint!r} names Context, and more than that; write Context")
    return hint, asks


def _kinds(hint: Any, names: Mapping[str, Any], seen: set[int]) -> Iterator[Any]:
    """The classes that a hint names, wherever in it; those that an alias, a NewType or a type variable stands for."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    named = origin or hint
    if origin is Annotated:
        parts = parts[:1]
    elif isinstance(hint, TypeVar):
        parts = (*hint.__constraints__, *filter(None, (hint.__bound__, default_of(hint, None))))
    elif hasattr(hint, "__supertype__"):  # a NewType
        parts = (hint.__supertype__,)
    elif hasattr(named, "__value__"):  # the alias of a type statement
        parts += () if id(named) in seen else (meaning(hint, names),)
        seen.add(id(named))
    elif isinstance(hint, typing.ForwardRef):
        raise NameError(f"{hint.__forward_arg__!r} is not looked up there")
    elif origin not in _WRAPPERS:
        yield named
    for part in parts:
        yield from _kinds(part, names, seen)


def _told(
    maker: Types, hint: Any, name: str, parameter: str, texts: Mapping[str, str], default: Any
) -> tuple[Any, dict[str, Any]]:
    """The shape of a parameter, and what a model is told of it."""
    try:
        shape = maker.shape(hint, default)
        return shape, maker.told(shape, texts.get(parameter, ""), default)
    except NoSchema as error:
        _refuse(name, parameter, f"its type has no schema: {error}; {error.remedy}")


def _refuse(name: str, parameter: str, why: str) -> NoReturn:
    raise InvalidTool(f"{name}: parameter {parameter}: {why}")


def _decoder(fields: Mapping[str, Any], required: Container[str]) -> Callable[[str], dict[str, Any]]:
    held = {name: lean(one) if name in required else NotRequired[lean(one)] for name, one in fields.items()}
    shape: Any = typing.TypedDict("Arguments", held)  # type: ignore[misc]  # mypy wants fields written out; these are a function's
    decoder: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(shape, dec_hook=hook)
    return decoder.decode


def _filled_in(parameter: inspect.Parameter, name: str) -> dict[str, Callable[[], Any]]:
    """How the default of a parameter is made where Python can't fill it in well."""
    default = parameter.default
    try:
        anew = fresh(default)  # one call must not see what another did to it
    except Exception as error:
        why = f"its default can't be copied for each call: {error}; make it in the function, and let None stand for it"
        _refuse(name, parameter.name, why)
    if anew is not None:
        return {parameter.name: anew}
    if parameter.kind is parameter.POSITIONAL_ONLY:  # one after it may be given
        return {parameter.name: lambda: default}
    return {}


def _scopes(function: Any, names: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Where the hints of a function are looked up: what is local to it, and what is not.

    The names of whoever makes the tool go before those of the module only for a function that is made inside another.
    """
    if not inspect.isfunction(function):
        return {}, dict(names)
    local = {one.__name__: one for one in getattr(function, "__type_params__", ())}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # one that is not filled yet
            local[name] = cell.cell_contents
    if "." in function.__qualname__:
        return {**names, **local}, function.__globals__
    return local, {**names, **function.__globals__}
