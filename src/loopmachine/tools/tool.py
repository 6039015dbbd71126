"""A tool: a typed function, or a ready schema with its handler, and what the machine must know of it."""

from __future__ import annotations

import inspect
import json
import math
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, Self, overload

import attrs

from loopmachine.errors import InvalidTool
from loopmachine.records import EFFECTS
from loopmachine.tools import signature as signatures
from loopmachine.tools.arguments import Arguments
from loopmachine.tools.signature import Signature

Approval = bool | Callable[[dict[str, Any]], bool]


@attrs.frozen(eq=False)
class Tool:
    """What a model may call. ``handler`` gets the arguments by keyword, checked and coerced against the schema.

    ``Tool(name, description, input_schema, handler)`` takes a ready JSON Schema of an object; ``@tool`` makes one of a
    typed function. Called like the function, it is the function. A handler's parameter annotated ``Context`` is filled
    by the host. Raises InvalidTool for options that can't be, and for a schema with a keyword that can't be checked.
    """

    name: str  #: letters, digits, _ - . and /, at most 128
    description: str
    input_schema: Mapping[str, Any] = attrs.field(repr=False)
    handler: Callable[..., Any]
    effect: str = attrs.field(default="once", kw_only=True)  #: "read", "idempotent", "transactional" or "once"
    #: whether calls wait for approval: yes, no, or a predicate of the arguments, one dict (yes, warned, if it fails)
    needs_approval: Approval = attrs.field(default=False, kw_only=True)
    max_calls: int | None = attrs.field(default=None, kw_only=True)  #: calls that a run may make of it
    sequential: bool = attrs.field(default=False, kw_only=True)  #: nothing runs beside it
    #: Real seconds, whatever the clock of the run, after which a call is answered ``timed_out`` and the run goes on.
    #: An async tool is cancelled then and awaited; what it brings in spite of that is discarded. A sync one can't be
    #: stopped, but asked (``ctx.cancel()`` is true then): it runs on a thread of its own, and that thread goes on. Its
    #: late result is discarded, its effects are not; the next call, of a ``sequential`` tool too, may start beside it;
    #: neither the run nor the interpreter's exit waits for it. None: no timeout, and no thread for it.
    timeout: float | None = attrs.field(default=None, kw_only=True)
    is_async: bool = attrs.field(init=False, repr=False)
    signature: Signature = attrs.field(default=None, kw_only=True, repr=False)  #: made by ``of``
    arguments: Arguments = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        faults = list(_faults(self))
        if faults:
            raise InvalidTool(f"{self.name!r} can't be a tool: " + "; ".join(faults))
        schema = _own(self.name, self.input_schema)
        known = self.signature or signatures.of_handler(self.handler, self.description, schema)
        for field, value in {
            "input_schema": schema,
            "signature": known,
            "is_async": signatures.is_async(self.handler),
            "arguments": Arguments(self.name, schema, known.typed, known.shapes),
        }.items():
            object.__setattr__(self, field, value)

    @classmethod
    def of(
        cls,
        function: Any,
        names: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        **options: Any,
    ) -> Self:
        """The tool that a typed function is. ``names``: where its hints are looked up first. Raises InvalidTool."""
        if not callable(function) or inspect.isclass(function) or isinstance(function, Tool):
            raise InvalidTool(f"{function!r} can't become a tool; give a function with type hints")
        called = signatures.name_of(function) if name is None else name
        known = signatures.of_function(function, called, names)
        told = known.description if description is None else description
        return cls(called, told, known.schema, function, signature=known, **options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.handler(*args, **kwargs)


def _faults(tool: Tool) -> list[str]:
    known = ", ".join(map(repr, EFFECTS))
    limit, seconds = tool.max_calls, tool.timeout
    named = isinstance(tool.name, str) and re.fullmatch(r"[A-Za-z0-9_./-]{1,128}", tool.name)
    right = {
        "name must be 1 to 128 of the characters A-Z a-z 0-9 _ - . /; give another with name=": named,
        f"description must be text, not {tool.description!r}": isinstance(tool.description, str),
        "input_schema must be a JSON Schema, a dict": isinstance(tool.input_schema, Mapping),
        f"handler must be callable, not {tool.handler!r}": callable(tool.handler),
        f"effect must be one of {known}, not {tool.effect!r}": tool.effect in EFFECTS,
        f"needs_approval must be True, False or a function of the arguments, not async, not {tool.needs_approval!r}": (
            isinstance(tool.needs_approval, bool)
            or (callable(tool.needs_approval) and not signatures.is_async(tool.needs_approval))
        ),
        f"needs_approval must take the arguments as one dict, which {tool.needs_approval!r} does not": (
            not callable(tool.needs_approval) or _takes_one(tool.needs_approval)
        ),
        f"max_calls must be a positive whole number or None, not {limit!r}": limit is None
        or (type(limit) is int and limit > 0),
        f"sequential must be True or False, not {tool.sequential!r}": isinstance(tool.sequential, bool),
        f"timeout must be a positive, finite number of seconds or None, not {seconds!r}": seconds is None
        or (type(seconds) in (int, float) and 0 < seconds < math.inf),
    }
    return [fault for fault, holds in right.items() if not holds]


def _takes_one(function: Callable[..., Any]) -> bool:
    """Whether it can be called with one argument by place; one that does not tell can."""
    try:
        inspect.signature(function).bind({})
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def _own(name: str, schema: Mapping[str, Any]) -> Any:
    """A copy of a schema that is nobody else's."""
    try:
        return json.loads(json.dumps(schema, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidTool(f"{name}: its input_schema can't be written as JSON: {error}") from error


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: str = "once",
    needs_approval: Approval = False,
    max_calls: int | None = None,
    sequential: bool = False,
    timeout: float | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: str = "once",
    needs_approval: Approval = False,
    max_calls: int | None = None,
    sequential: bool = False,
    timeout: float | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a typed function a tool: its schema from the hints, its texts from the docstring.

    Bare, or with options: ``name``, ``description``, ``effect`` ("read", "idempotent", "transactional", "once"),
    ``needs_approval`` (bool, or a predicate of the arguments, which are one dict), ``max_calls`` (in a run),
    ``sequential``, ``timeout`` (real seconds; see Tool: an async tool is cancelled then, a sync one's thread goes on
    and its result is discarded).
    Raises InvalidTool, which names the function, the parameter and the remedy.
    """

    def decorate(function: Callable[..., Any]) -> Tool:
        return Tool.of(
            function,
            sys._getframe(depth).f_locals,  # types may be local to who decorates
            name=name,
            description=description,
            effect=effect,
            needs_approval=needs_approval,
            max_calls=max_calls,
            sequential=sequential,
            timeout=timeout,
        )

    depth = 1 if function is None else 2
    return decorate if function is None else decorate(function)
