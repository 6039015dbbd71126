"""A run of its own as a tool of another run: one call of the parent, within what the parent has left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from typing import Final as Constant

import attrs

from loopmachine import notices, trace
from loopmachine.definition import Definition
from loopmachine.errors import Denied, ToolFailed, ToolInterrupted
from loopmachine.events import ModelReplied
from loopmachine.host import Observe, arity_of, spoken
from loopmachine.limits import Budget, Policy, Usage
from loopmachine.loop import Loop, Price, log_warning
from loopmachine.machine import Advance
from loopmachine.records import Exchange, Snapshot
from loopmachine.requests import AskApproval
from loopmachine.result import Result
from loopmachine.sync_host import SyncHost
from loopmachine.table import TOOL_LOOP
from loopmachine.tools import Context, Tool
from loopmachine.tools.signature import is_async
from loopmachine.tools.tool import Approval
from loopmachine.wire import PLAIN, Wire

_PROMPT: Constant = {
    "type": "string",
    "pattern": r"\S",
    "description": "What it is to do, and all it has to know for that: it sees nothing of this conversation.",
}
_SCHEMA: Constant = {
    "type": "object",
    "properties": {"prompt": _PROMPT},
    "required": ["prompt"],
    "additionalProperties": False,
}
_CUT: Constant = ("cancelled", "time_budget")  #: how a run ends that was cut short


def loop_tool(
    model: Callable[..., Any],
    name: str,
    description: str,
    *,
    tools: Iterable[Any] = (),
    budget: Budget | None = None,
    policy: Policy | None = None,
    wire: Wire | None = PLAIN,
    system: str | None = None,
    price: Price | None = None,
    observe: Observe | None = None,
    definition: Definition | None = TOOL_LOOP,
    effect: str = "once",
    needs_approval: Approval = False,
    max_calls: int | None = None,
) -> Tool:
    """A tool that runs a loop of its own: the model gives it a ``prompt`` and gets the answer. Nothing runs beside it.

    Steps and calls are the sub-run's own. Its dollars, tokens and seconds are never above what the parent has left,
    whatever ``budget`` says, and what it spends is spent from the parent, however it ends: where a budget needs usage
    that its model does not report, both end ``usage_missing``. Its cancel, deadline, clock and ``context`` are the
    parent's. ``observe(notice)`` gets its Advances; the parent's observer gets a Progress a step.

    Answered, it is ``ok`` with the answer. ``denied``: one of its tools needs approval, and nobody is asked in there;
    let the whole sub-run need it. ``interrupted``: cancelled or out of time. ``failed``: any other end. Then the
    content says how it ended, what its calls brought and what it said, and ``code`` is its status.

    Async if its model or one of its tools is. The options are those of ``run`` and ``tool``, and refused alike.
    """
    wire = spoken(model, None if wire is PLAIN else wire)
    options = {"policy": policy, "wire": wire, "system": system, "price": price, "definition": definition}
    run = _SubRun(name, model, budget, tuple(tools) if isinstance(tools, Iterable) else tools, observe, options)
    facts: dict[str, Any] = {"effect": effect, "needs_approval": needs_approval, "max_calls": max_calls}
    return Tool(name, description, _SCHEMA, run.handler(), **facts, sequential=True)


@attrs.frozen
class _SubRun:
    """What makes the loop of each call."""

    name: str
    model: Callable[..., Any]
    budget: Budget | None
    tools: tuple[Any, ...]
    observe: Observe | None
    options: dict[str, Any]  #: of the loop; None is the default

    def handler(self) -> Callable[..., Any]:
        """What performs a call. Refuses what no run can be made of."""
        for option, value in (("price", self.options["price"]), ("observe", self.observe)):
            if value is not None and (not callable(value) or is_async(value)):
                raise TypeError(f"{option} must be callable, not async, or None, not {value!r}")
        arity_of(self.model)
        loop = self.loop("-", self.budget, at=0.0)
        return self.answer_async if is_async(self.model) or loop.toolbox.asynchronous else self.answer

    def loop(self, prompt: str, budget: Budget | None, **more: Any) -> Loop:
        """A loop for a prompt."""
        given = {option: value for option, value in self.options.items() if value is not None}
        return Loop(prompt, tools=self.tools, budget=budget, **given, **more)

    def answer(self, prompt: str, ctx: Context) -> str:
        """Run to the answer, in this thread."""
        with self.begun(prompt, ctx) as loop:
            return self.told(SyncHost(*self.hosting(ctx, loop)).run(loop, None))

    async def answer_async(self, prompt: str, ctx: Context) -> str:
        """The same on asyncio."""
        from loopmachine.async_host import AsyncHost

        with self.begun(prompt, ctx) as loop:
            return self.told(await AsyncHost(*self.hosting(ctx, loop)).run(loop, None))

    @contextmanager
    def begun(self, prompt: str, ctx: Context) -> Iterator[Loop]:
        """A loop; what it has spent when it is left is the parent's to pay, whatever ended it."""
        loop = self.loop(prompt, self.within(ctx), context=ctx.data, cancel=ctx.cancel, at=ctx.clock())
        try:
            yield loop
        finally:
            ctx.add_usage(_usage(loop.snapshot))

    def within(self, ctx: Context) -> Budget:
        """Its own budget, within what the parent has left."""
        budget, spend = self.budget or Budget(), ctx.spend
        used = {"max_seconds": spend.seconds, "max_cost_usd": spend.cost_usd, "max_tokens": spend.tokens}
        limits = {}
        for limit, spent in used.items():
            most, own = getattr(ctx.budget, limit), getattr(budget, limit)
            if most is not None:
                limits[limit] = most - spent if own is None else min(own, most - spent)
                if spent >= most:  # the time may be, between the grant and now
                    raise ToolInterrupted(f"{self.name} was not begun: {limit} {most}, spent {spent}", "not_begun")
        return attrs.evolve(budget, **limits)

    def hosting(self, ctx: Context, loop: Loop) -> tuple[Any, ...]:
        """What its host is made of: the loop knows its cancel, and nobody approves."""
        return self.model, None, None, partial(self.notice, ctx, loop.snapshot.budget), ctx.clock

    def notice(self, ctx: Context, budget: Budget, notice: Any) -> None:
        """What happened in it: to its own observer, and that a step is done to the parent's."""
        if isinstance(notice, Advance) and isinstance(notice.event, ModelReplied):
            asked = ", ".join(call.name for call in notice.event.turn.calls)
            ctx.progress(notice.snapshot.steps, budget.max_steps, asked)
        if self.observe is not None:
            self.observe(notice)
        elif isinstance(notice, notices.Warning):
            log_warning(notice)

    def told(self, result: Result) -> str:
        """The answer. Any other end is raised, in words for the parent's model."""
        if result.answered:
            return result.text
        if not result.finished:
            asked = [call.name for one in result.requests if isinstance(one, AskApproval) for call in one.calls]
            why = f"{', '.join(asked)} needs approval" if asked else f"it waits in {result.status}"
            code = "needs_approval" if asked else result.status
            raise Denied(code, f"{self.name} did not answer: {why}, and nobody is asked.\n{_story(result)}")
        kind = ToolInterrupted if result.status in _CUT else ToolFailed
        raise kind(f"{self.name} did not answer: it ended {result.status}.\n{_story(result)}", result.status)


def _usage(snapshot: Snapshot) -> Usage:
    """What a run spent: its turns, the failures that were billed, and its own sub-runs."""
    events = snapshot.events
    told = [(one.turn.usage or Usage()) if isinstance(one, ModelReplied) else one.usage for one in events]
    return Usage.total(usage for usage in told if usage is not None)


def _story(result: Result) -> str:
    """Why a run stands where it stands, what its calls brought, and what it said until then."""
    snapshot = result.snapshot
    turns = [entry.turn for entry in snapshot.history.entries if isinstance(entry, Exchange)]
    said = [turn.text for turn in [*turns, snapshot.turn] if turn is not None and turn.text.strip()]
    calls = ", ".join(f"{one.name} {one.outcome}" for one in result.results)
    numbers = trace.spent(snapshot)  # no two runs take the same seconds, and the same end is to be the same result
    why = [line for line in result.explain().splitlines() if line != numbers]
    return "\n".join([*why, f"its calls: {calls or 'none'}", *(["it said:"] if said else []), *said])
