"""Run the loop: the hosts perform what the machine asks for and tell it what happened. They decide nothing.

``run`` runs several tools at once on threads; ``run_async`` runs async models and tools as tasks and sync ones on
threads. Both go on from where the loop stands, after a suspension or after any exception that passed through.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from loopmachine.definition import Definition
from loopmachine.events import Resumed
from loopmachine.history import History
from loopmachine.host import Approve, Cancel, Clock, Observe
from loopmachine.limits import Budget, Policy
from loopmachine.loop import Loop, Price, Prompt
from loopmachine.result import Result
from loopmachine.sync_host import SyncHost
from loopmachine.table import TOOL_LOOP
from loopmachine.wire import PLAIN, Wire


def run(
    model: Callable[..., Any],
    prompt: Prompt | None = None,
    *,
    tools: Iterable[Any] = (),
    budget: Budget | None = None,
    policy: Policy | None = None,
    wire: Wire | None = PLAIN,
    history: History | None = None,
    system: str | None = None,
    cancel: Cancel | None = None,
    approve: Approve | None = None,
    context: Any = None,
    price: Price | None = None,
    observe: Observe | None = None,
    definition: Definition | None = TOOL_LOOP,
    clock: Clock | None = time.monotonic,
    loop: Loop | None = None,
) -> Result:
    """Run the loop to its end, or to a rest that somebody else must answer (``result.finished`` is False).

    ``model(messages, tools)`` returns a reply in the shape of ``wire``; it raises ModelError or anything else. A model
    that has a ``wire``, as those of ``loopmachine.models``, is spoken to in that. One with one parameter gets the
    messages alone, one with three also the AskModel; of those with a default, a second named ``tools`` and a third
    named ``ask`` are given, by position, and others left alone.
    ``prompt`` is text, or a list of messages in that shape, system text among them, each call with its result.
    ``cancel``: a CancelToken or any ``() -> bool``. ``approve(call) -> True | False | reason | None``.
    ``price(usage) -> US dollars | None`` is asked for what the model, a tool or a sub-run spent and names no cost of.
    ``observe(notice)`` gets each Advance, and Progress and Warning records.
    ``loop=`` goes on from an existing loop; what made it can't be given beside it, a new budget can.
    What still runs when a row of your own ends the run is told to stop and awaited; what it brings is dropped.
    Only what is no Exception passes through, after running tools have ended; and what ``cancel``, ``approve`` or
    ``clock`` raise. The loop can go on from there.
    """
    made: dict[str, Any] = {"prompt": prompt, "tools": tools, "policy": policy, "wire": wire}
    made |= {"history": history, "system": system, "definition": definition}
    host = SyncHost(model, cancel, approve, observe, clock)
    driven = host.loop_of(loop, made, budget, context, price)
    return host.run(driven, None if loop is None else Resumed(budget, at=host.clock()))


async def run_async(
    model: Callable[..., Any],
    prompt: Prompt | None = None,
    *,
    tools: Iterable[Any] = (),
    budget: Budget | None = None,
    policy: Policy | None = None,
    wire: Wire | None = PLAIN,
    history: History | None = None,
    system: str | None = None,
    cancel: Cancel | None = None,
    approve: Approve | None = None,
    context: Any = None,
    price: Price | None = None,
    observe: Observe | None = None,
    definition: Definition | None = TOOL_LOOP,
    clock: Clock | None = time.monotonic,
    loop: Loop | None = None,
) -> Result:
    """``run`` on asyncio, with async or sync model, tools and approve.

    Async ones are cancelled at the deadline and when a CancelToken is set; sync ones run on threads and are awaited.
    A cancellation of the task that awaits this is passed on to the children, awaited, and raised.
    Where its coroutine is closed nothing is awaited: the children are cancelled, and the loop can go on elsewhere.
    """
    from loopmachine.async_host import AsyncHost

    made: dict[str, Any] = {"prompt": prompt, "tools": tools, "policy": policy, "wire": wire}
    made |= {"history": history, "system": system, "definition": definition}
    host = AsyncHost(model, cancel, approve, observe, clock)
    driven = host.loop_of(loop, made, budget, context, price)
    return await host.run(driven, None if loop is None else Resumed(budget, at=host.clock()))
