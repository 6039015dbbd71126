"""The tools of a run: what a model is offered, what the machine is told of its calls, and the calls themselves."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

import attrs

from loopmachine.errors import Denied, InvalidTool, ToolFailed, text_of
from loopmachine.frozen import freeze, thaw
from loopmachine.kinds import CALLS
from loopmachine.records import OUTCOMES, Call, CallResult, Turn
from loopmachine.rules import free_id
from loopmachine.tools.context import CancelToken, Context, is_awaitable
from loopmachine.tools.defaults import with_defaults
from loopmachine.tools.refusals import refusal
from loopmachine.tools.results import COMMON, block_items, fitted, in_blocks, result_text
from loopmachine.tools.results import error_text as told
from loopmachine.tools.timeouts import timed
from loopmachine.tools.tool import Tool
from loopmachine.tools.words import a, listed, near, quoted, said_by

ErrorText = str | Callable[[Exception], str]
_logger = logging.getLogger("loopmachine")
Bound = tuple[Callable[..., Any], list[Any], dict[str, Any]]  #: a handler and what it is called with


class Toolbox:
    """Tools by name. Plain typed functions are taken as ``@tool`` would. ``warn`` is told what harmed nothing.

    Raises ValueError that lists all that is no tool, and all names that two tools have.
    """

    def __init__(self, tools: Iterable[Any] = (), warn: Callable[[str], object] = _logger.warning) -> None:
        self._warn = warn
        self._tools: dict[str, Tool] = {}
        faults = []
        for given in tools:
            try:
                tool = given if isinstance(given, Tool) else Tool.of(given)
            except InvalidTool as error:
                faults.append(str(error))
                continue
            if tool.name in self._tools:
                faults.append(f"two tools are named {tool.name!r}; give one another name=")
            self._tools[tool.name] = tool
        if faults:
            raise ValueError("tools: " + "; ".join(faults))
        self._contextual = {name for name, tool in self._tools.items() if tool.signature.contexts}
        self._timed = {name for name, tool in self._tools.items() if tool.timeout is not None}
        self._schemas = freeze(
            [
                {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
                for tool in self._tools.values()
            ]
        )

    def schemas(self) -> list[dict[str, Any]]:
        """What a model is offered, in the order given: fresh dicts of name, description and input_schema."""
        schemas: list[dict[str, Any]] = thaw(self._schemas)
        return schemas

    # --- what the machine is told -------------------------------------------------------------------------

    def prepare(self, turn: Turn, step: int, ids: Container[str]) -> Turn:
        """The turn, each call with its identity and all that the machine must know of it.

        A call with a blank id gets one that is neither among ``ids`` nor in the turn. Of a turn that can't be used
        nothing is parsed: its calls get their identity only.
        """
        if not turn.calls:
            return turn
        asked = tuple((call.id, call.name, call.arguments_text) for call in turn.calls)
        calls = self.calls(asked, step, ids, usable=turn.kind == CALLS)
        return Turn(turn.text, calls, turn.stop, turn.usage, turn.payload_text, turn.wire, turn.fault)

    def calls(
        self, asked: Sequence[tuple[str, str, str]], step: int, ids: Container[str], *, usable: bool = True
    ) -> tuple[Call, ...]:
        """``prepare`` for the calls of a turn that is still to be made, each given as id, name and arguments text."""
        made = []
        for place, (given, name, text) in enumerate(asked):
            own = given
            if not own or own.isspace():
                own = free_id(Call("", name, step=step, place=place), ids, {one for one, _, _ in asked})
            if usable:
                made.append(self._prepared(own, name, text, step, place))
            else:
                made.append(Call(own, name, text, step=step, place=place))
        return tuple(made)

    def _prepared(self, own: str, name: str, text: str, step: int, place: int) -> Call:
        tool = self._tools.get(name)
        if tool is None:
            names = list(self._tools)
            problem = f"there is no tool named {quoted(name)}; known tools: {listed(names)}{near(name, names)}"
            return Call(own, name, text, step=step, place=place, problem=problem)
        checked, problem = tool.arguments.check(text)
        asks = tool.needs_approval
        if checked is not None and asks is not False:
            whole = with_defaults(tool, checked)
            asks = asks if isinstance(asks, bool) else self._holds(asks, whole, tool)
            if asks:  # so that what is approved is what runs, even if a default is another by then
                checked = whole
        return Call(
            own,
            name,
            text,
            step=step,
            place=place,
            known=True,
            checked=checked,
            problem=problem,
            effect=tool.effect,
            needs_approval=asks is True,
            alone=tool.sequential,
            limit=tool.max_calls,
        )

    def _holds(self, asks: Callable[[dict[str, Any]], Any], whole: str, tool: Tool) -> bool:
        """Whether a predicate of the arguments, defaults included, wants approval; yes, and a warning, if it fails."""
        try:
            answer = asks(thaw(whole))
            if isinstance(answer, bool):
                return answer
            became = f"returned {a(type(answer))}, not True or False"
        except Exception as error:
            became = f"raised {type(error).__name__}: {said_by(error)}"
        self._warn(f"needs_approval of {tool.name} {became}; the call waits for approval")
        return True

    # --- the calls ----------------------------------------------------------------------------------------

    @property
    def asynchronous(self) -> list[str]:
        """The names of the async tools."""
        return [name for name, tool in self._tools.items() if tool.is_async]

    def is_async(self, call: Call) -> bool:
        """Whether the call is for ``perform_async``."""
        tool = self._tools.get(call.name)
        return tool is not None and tool.is_async

    def is_timed(self, call: Call) -> bool:
        """Whether the tool has a timeout."""
        return call.name in self._timed

    def takes_context(self, call: Call) -> bool:
        """Whether the tool has a parameter for the Context."""
        return call.name in self._contextual

    def perform(self, call: Call, context: Context, *, error_text: ErrorText, max_chars: int) -> CallResult:
        """Run a sync tool. What it raises becomes a result, but for what is no Exception, which passes through.

        One with a timeout runs on a thread of its own; when the timeout has passed, the call is answered ``timed_out``
        and the thread left to itself. Raises TypeError for an async tool.
        """
        tool = self._tools.get(call.name)
        if tool is not None and tool.is_async:
            raise TypeError(f"{call.name} is async; use perform_async, or run_async")
        bound = _bound(tool, call, context)
        if isinstance(bound, CallResult):
            return bound
        handler, args, named = bound
        try:
            return self._returned(call, handler(*args, **named), max_chars)
        except Exception as error:
            return _raised(call, error, error_text, max_chars)

    async def perform_async(self, call: Call, context: Context, *, error_text: ErrorText, max_chars: int) -> CallResult:
        """The same for an async tool, which is cancelled at its timeout, and awaited.

        A CancelledError that is none of the timeout passes through: the host knows what it means. Raises TypeError for
        a sync tool.
        """
        tool = self._tools.get(call.name)
        if tool is not None and not tool.is_async:
            raise TypeError(f"{call.name} is not async; use perform")
        bound = _bound(tool, call, context)
        if isinstance(bound, CallResult):
            return bound
        handler, args, named = bound
        try:
            return self._returned(call, await handler(*args, **named), max_chars)
        except Exception as error:
            return _raised(call, error, error_text, max_chars)

    def _returned(self, call: Call, value: Any, max_chars: int) -> CallResult:
        if type(value) not in COMMON:
            if is_awaitable(value):
                getattr(value, "close", bool)()
                right = "define the tool, and what wraps it, with async def"
                wrong = f"{call.name} returned something to be awaited, and nobody awaits it; {right}"
                self._warn(wrong)  # its author can mend it, and not the model
                return CallResult.of(call, "failed", wrong)
            if items := block_items(value):
                content, blocks_text = in_blocks(items, max_chars)
                return attrs.evolve(CallResult.of(call, "ok", content), blocks_text=blocks_text)
        return CallResult.of(call, "ok", result_text(value, max_chars))


def _bound(tool: Tool | None, call: Call, context: Context) -> CallResult | Bound:
    """The call ready to be made, or why it can't be: the tools may not be those that prepared it."""
    if tool is None:
        return CallResult.of(call, "unknown_tool", f"there is no tool named {quoted(call.name)} any more")
    if call.checked is None:
        return CallResult.of(call, "invalid_arguments", call.problem)
    try:
        handler = tool.handler
        if tool.timeout is not None:
            expired = CancelToken()
            handler = timed(tool, tool.timeout, expired)
            context = context.timed(tool.timeout, expired) if tool.signature.contexts else context
        return handler, *tool.signature.bind(call.checked, context)
    except Exception as error:
        return CallResult.of(call, "invalid_arguments", f"{call.name} was not called: {refusal(error)}")


def _raised(call: Call, error: Exception, style: ErrorText, max_chars: int) -> CallResult:
    if isinstance(error, Denied):
        code, said = text_of(error, "code", ""), said_by(error)
        code = code if code.strip() else "denied"
        return CallResult.of(call, "denied", fitted(said if said.strip() else code, max_chars), code)
    if isinstance(error, ToolFailed):
        outcome = text_of(error, "outcome", "")
        known = outcome if outcome in OUTCOMES else ToolFailed.outcome
        return CallResult.of(call, known, fitted(said_by(error), max_chars), text_of(error, "code", ""))
    return CallResult.of(call, "failed", told(error, style, max_chars))
