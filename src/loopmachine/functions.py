"""What makes a function one that a table can name: it can be called so, for its value, and says what it is."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, iscoroutinefunction, signature
from types import FunctionType
from typing import Any
from typing import Final as Constant

#: Of these kinds a call runs nothing yet: what it gives is always true, and no snapshot.
_LATER: Constant = CO_COROUTINE | CO_GENERATOR | CO_ASYNC_GENERATOR


def function_faults(where: str, what: str, function: Any) -> Iterator[str]:
    """What is wrong with a guard or an update, a sentence each; nothing where there is none."""
    if function is None:
        return
    if not takes(function, 2):
        right = "a function of (snapshot, event), neither async nor a generator"
        yield f"{where}: its {what} must be {right}, not {function!r}"
        return
    name, doc = (
        text if isinstance(text, str) else "" for text in (getattr(function, "__name__", ""), function.__doc__)
    )
    if not name.isidentifier():
        yield f"{where}: its {what} needs a name of its own, not {name or repr(function)!r}"
    if not doc.strip():
        yield f"{where}: its {what} {name or repr(function)} needs a docstring, a sentence that a reviewer reads"


def takes(function: Any, arguments: int) -> bool:
    """Whether it can be called with so many arguments, by position, for its value."""
    if isinstance(function, FunctionType):  # of which its code tells sooner than a signature
        code = function.__code__
        if code.co_argcount == arguments and not code.co_kwonlyargcount:
            return not code.co_flags & _LATER
    if iscoroutinefunction(function) or _runs_later(function):  # the first sees what is marked as one, too
        return False
    try:
        signature(function).bind(*range(arguments))
    except TypeError:  # it takes others, or is no function
        return False
    except ValueError:  # a builtin without a signature
        return True
    return True


def _runs_later(function: Any) -> bool:
    """Whether what a call runs is of such a kind: an object's own call, or the function in a method or a cache."""
    while not isinstance(function, FunctionType):
        call: Any = type(function).__call__
        if not isinstance(call, FunctionType):
            call = function.func if isinstance(function, partial) else None
            call = call or getattr(function, "__func__", None) or getattr(function, "__wrapped__", None)
        if not callable(call):
            return False
        function = call
    return bool(function.__code__.co_flags & _LATER)
