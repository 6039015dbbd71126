"""A run of its own as a tool of another run: one call of the parent, within what the parent has left."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from typing import Final as Constant

import attrs

from loopmachine import notices, trace
from loopmachine.bills import Bills
from loopmachine.definition import Definition
from loopmachine.errors import Denied, ToolFailed, ToolInterrupted
from loopmachine.events import ModelFailed, ModelReplied
from loopmachine.host import Observe, arity_of, spoken
from loopmachine.limits import Budget, Policy, Usage
from loopmachine.loop import Loop, Price
from loopmachine.machine import Advance
from loopmachine.notices import log_warning
from loopmachine.records import Exchange
from loopmachine.requests import AskApproval, AskModel, InterruptModel
from loopmachine.result import Result
from loopmachine.sync_host import SyncHost
from loopmachine.table import TOOL_LOOP
from loopmachine.tools import CallToken, Context, Tool
from loopmachine.tools.context import as_told
from loopmachine.tools.signature import is_async
from loopmachine.tools.timeouts import PASSED, TimedOut
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
    timeout: float | None = None,
) -> Tool:
    """A tool that runs a loop of its own: the model gives it a ``prompt`` and gets the answer. Nothing runs beside it.

    Steps and calls are the sub-run's own. Its dollars, tokens and seconds are never above what the parent has left,
    whatever ``budget`` says, and what it spends is spent from the parent, however it ends: where a budget needs usage
    that its model does not report, both end ``usage_missing``. Its cancel, deadline, clock and ``context`` are the
    parent's; left behind by a ``timeout`` or an exception, it begins no step and no call any more, and of what it
    spends only that of the step under way is unknown: where a budget needs it, the parent ends ``usage_missing``.
    A usage without a cost that ``price`` does not know, if there is one, is priced by the parent's.
    ``observe(notice)`` gets its Advances, the parent's a Progress a step.

    Answered, it is ``ok`` with the answer. ``denied``: one of its tools needs approval, and nobody is asked in there;
    let the whole sub-run need it. ``interrupted``: cancelled or out of time. ``failed``: any other end. Then the
    content says how it ended, what its calls brought and what it said, and ``code`` is its status.

    Async if its model or one of its tools is. The options are those of ``run`` and ``tool``, and refused alike.
    """
    wire = spoken(model, None if wire is PLAIN else wire)
    options = {"policy": policy, "wire": wire, "system": system, "price": price, "definition": definition}
    run = _SubRun(name, model, budget, tuple(tools) if isinstance(tools, Iterable) else tools, observe, options)
    facts: dict[str, Any] = {"effect": effect, "needs_approval": needs_approval, "max_calls": max_calls}
    return Tool(name, description, _SCHEMA, run.handler(), **facts, timeout=timeout, sequential=True)


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
        return Loop(prompt, tools=self.tools, budget=budget, **(given | more))

    def answer(self, prompt: str, ctx: Context) -> str:
        """Run to the answer, in this thread."""
        with self.begun(prompt, ctx) as loop:
            return self.told(SyncHost(*self.hosting(ctx, loop)).run(loop, None), ctx.timeout)

    async def answer_async(self, prompt: str, ctx: Context) -> str:
        """The same on asyncio."""
        import asyncio

        from loopmachine.async_host import AsyncHost

        with self.begun(prompt, ctx) as loop:
            try:
                return self.told(await AsyncHost(*self.hosting(ctx, loop)).run(loop, None), ctx.timeout)
            except asyncio.CancelledError as cancelled:
                cancelled.add_note(f"{self.name} did not answer: it was cut short.\n{_story(loop.result())}")
                raise

    @contextmanager
    def begun(self, prompt: str, ctx: Context) -> Iterator[Loop]:
        """A loop; what it spends is the parent's to pay at once, whatever ends it or leaves it behind."""
        cancel = ctx.cancel.untimed() if isinstance(ctx.cancel, CallToken) else ctx.cancel
        price = partial(self.price, ctx)
        loop = self.loop(prompt, self.within(ctx), context=ctx.data, price=price, cancel=cancel, at=ctx.clock())
        loop.bills = bills = _Passed(ctx)
        late = partial(self.late, ctx, loop, bills)
        forget = ctx.cancel.subscribe(late) if isinstance(ctx.cancel, CallToken) else None
        try:
            yield loop
        finally:
            if forget is not None:
                forget()
            asked = [event for event in loop.snapshot.events if isinstance(event, ModelReplied | ModelFailed)]
            bills.pay(*asked[bills.asked :])  # an interrupt may have come before the notice
            bills.lose(loop)
            if not bills.passed:
                ctx.add_usage(Usage.total(()))

    def price(self, ctx: Context, usage: Usage) -> float | None:
        """By its own price, or else by the parent's."""
        own: Price | None = self.options["price"]
        cost = None if own is None else own(usage)
        return ctx.priced(usage).cost_usd if cost is None else cost

    @staticmethod
    def late(ctx: Context, loop: Loop, bills: _Passed) -> None:
        """Its timeout passed, in the midst of a step or not: nobody waits for it any longer."""
        if ctx.cancel() and getattr(ctx.cancel, "reason", "") == PASSED:
            bills.lose(loop)

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
        if ctx.timeout is not None:
            limits["max_seconds"] = min(ctx.timeout, limits.get("max_seconds") or budget.max_seconds or math.inf)
        return attrs.evolve(budget, **limits)

    def hosting(self, ctx: Context, loop: Loop) -> tuple[Any, ...]:
        """What its host is made of: the loop knows its cancel, and nobody approves."""
        return self.model, None, None, partial(self.notice, ctx, loop.bills), ctx.clock

    def notice(self, ctx: Context, bills: Any, notice: Any) -> None:
        """What happened in it: to its own observer, and that a step is done to the parent's, which pays for it."""
        event = notice.event if isinstance(notice, Advance) else None
        if isinstance(event, ModelReplied | ModelFailed):
            bills.pay(event)
        if isinstance(event, ModelReplied):
            asked = ", ".join(call.name for call in event.turn.calls)
            ctx.progress(notice.snapshot.steps, notice.snapshot.budget.max_steps, asked)
        if self.observe is not None:
            self.observe(notice)
        elif isinstance(notice, notices.Warning):
            log_warning(notice)

    def told(self, result: Result, timeout: float | None) -> str:
        """The answer. Any other end is raised, in words for the parent's model."""
        if result.answered:
            return result.text
        if not result.finished:
            asked = [call.name for one in result.requests if isinstance(one, AskApproval) for call in one.calls]
            why = f"{', '.join(asked)} needs approval" if asked else f"it waits in {result.status}"
            code = "needs_approval" if asked else result.status
            raise Denied(code, f"{self.name} did not answer: {why}, and nobody is asked.\n{_story(result)}")
        kind = ToolInterrupted if result.status in _CUT else ToolFailed
        if result.status == "time_budget" and result.snapshot.budget.max_seconds == timeout:
            kind = TimedOut
        raise kind(f"{self.name} did not answer: it ended {result.status}.\n{_story(result)}", result.status)


class _Passed(Bills):
    """The bills of a sub-run, passed on to its parent as they come; so is what its own model spends, step by step."""

    def __init__(self, ctx: Context) -> None:
        super().__init__()
        self.pass_on = attrs.evolve(ctx, priced=as_told).add_usage  # it has its price, or none knows it
        self.asked = 0  #: how often its model was asked and that is paid
        self.passed = False  #: there was something to pay
        budget = ctx.budget
        self.needed = budget.max_cost_usd is not None or budget.max_tokens is not None
        self.lost = False  #: there was something that nobody will know

    def add(self, bill: list[Usage], usage: Usage) -> None:
        """A call of the sub-run spent this."""
        super().add(bill, usage)
        self.pass_on(usage)

    def pay(self, *events: ModelReplied | ModelFailed) -> None:
        """Pay for turns, and for failures that were billed."""
        for event in events:
            self.asked += 1
            usage = (event.turn.usage or Usage()) if isinstance(event, ModelReplied) else event.usage
            if usage is not None:
                self.passed = True
                self.pass_on(usage)

    def lose(self, loop: Loop) -> None:
        """Whatever the step under way costs, where a budget has to know: it is never counted as nothing."""
        asking = any(isinstance(one, AskModel | InterruptModel) for one in loop.waiting)
        if asking and self.needed and not self.lost:
            self.lost = self.passed = True
            self.pass_on(Usage())


def _story(result: Result) -> str:
    """Why a run stands where it stands, what its calls brought, and what it said until then."""
    snapshot = result.snapshot
    turns = [entry.turn for entry in snapshot.history.entries if isinstance(entry, Exchange)]
    said = [turn.text for turn in [*turns, snapshot.turn] if turn is not None and turn.text.strip()]
    calls = ", ".join(f"{one.name} {one.outcome}" for one in result.results)
    numbers = trace.spent(snapshot)  # no two runs take the same seconds, and the same end is to be the same result
    why = [line for line in result.explain().splitlines() if line != numbers]
    return "\n".join([*why, f"its calls: {calls or 'none'}", *(["it said:"] if said else []), *said])
