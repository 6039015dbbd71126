"""The hosts: they perform what the machine asks for and tell it what happened. They decide nothing.

``run`` runs several tools at once on threads; ``run_async`` runs async models and tools as tasks and sync ones on
threads. Both go on from where the loop stands, after a suspension or after any exception that passed through.
"""

from __future__ import annotations

import inspect
import logging
import queue
import time
from collections.abc import Callable, Iterable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from loopmachine import notices
from loopmachine.definition import Definition
from loopmachine.events import (
    ApprovalGiven,
    CallReturned,
    CancelPolled,
    CancelRequested,
    Event,
    ModelReplied,
    Resumed,
)
from loopmachine.history import History
from loopmachine.limits import Budget, Policy
from loopmachine.loop import Loop, Price
from loopmachine.records import Call, CallResult, Decision
from loopmachine.requests import AskApproval, AskModel, PollCancel, StartCalls
from loopmachine.result import Result
from loopmachine.table import TOOL_LOOP
from loopmachine.tools import CancelToken
from loopmachine.wire import PLAIN, Wire

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

Clock = Callable[[], float]
Observe = Callable[[Any], None]
Approve = Callable[[Call], Any]
Cancel = CancelToken | Callable[[], bool]
POLL_SECONDS = 0.05  #: how often a plain callable is asked for a cancel during a pause
_logger = logging.getLogger("loopmachine")


def run(
    model: Callable[..., Any],
    prompt: str | None = None,
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
    clock: Clock = time.monotonic,
    loop: Loop | None = None,
) -> Result:
    """Run the loop to its end, or to a rest that somebody else must answer (``result.finished`` is False).

    ``model(messages, tools)`` returns a reply in the shape of ``wire``; it raises ModelError or anything else.
    ``cancel``: a CancelToken or any ``() -> bool``. ``approve(call) -> True | False | reason | None``.
    ``price(usage) -> US dollars | None``. ``observe(notice)`` gets each Advance, and Progress and Warning records.
    ``loop=`` goes on from an existing loop; what made it can't be given beside it, a new budget can.

    Only what is not Exception passes through (KeyboardInterrupt), after running tools have ended; and what
    ``cancel``, ``approve`` or ``clock`` raise. The loop can go on from there.
    """
    made = {
        "prompt": prompt,
        "tools": tools,
        "policy": policy,
        "wire": wire,
        "history": history,
        "system": system,
        "definition": definition,
    }
    driven = _loop(loop, made, budget, context, price, clock)
    return SyncHost(driven, model, cancel, approve, observe, clock).run(
        None if loop is None else Resumed(budget, at=clock())
    )


async def run_async(
    model: Callable[..., Any],
    prompt: str | None = None,
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
    clock: Clock = time.monotonic,
    loop: Loop | None = None,
) -> Result:
    """``run`` on asyncio, with async or sync model, tools and approve.

    Async ones are cancelled at the deadline and when a CancelToken is set; sync ones run on threads and are awaited.
    A cancellation of the task that awaits this is passed on to the children, awaited, and raised.
    """
    from loopmachine.async_host import AsyncHost

    made = {
        "prompt": prompt,
        "tools": tools,
        "policy": policy,
        "wire": wire,
        "history": history,
        "system": system,
        "definition": definition,
    }
    driven = _loop(loop, made, budget, context, price, clock)
    return await AsyncHost(driven, model, cancel, approve, observe, clock).run(
        None if loop is None else Resumed(budget, at=clock())
    )


def _loop(
    loop: Loop | None, made: dict[str, Any], budget: Budget | None, context: Any, price: Price | None, clock: Clock
) -> Loop:
    defaults = {"tools": (), "wire": PLAIN, "definition": TOOL_LOOP}
    given = {name: value for name, value in made.items() if value is not None and value is not defaults.get(name)}
    if loop is None:
        return Loop(**given, budget=budget, context=context, price=price, at=clock())
    if loop.driven:
        raise RuntimeError("this loop is being driven by another host; one loop, one host at a time")
    if given:
        raise TypeError(f"{', '.join(given)}: what made the loop can't be given beside loop=")
    loop.context = loop.context if context is None else context
    loop.price = loop.price if price is None else price
    return loop


class Host:
    """What both hosts share: the cancel, the approver, the observer, and what is told to the machine."""

    def __init__(
        self,
        loop: Loop,
        model: Callable[..., Any],
        cancel: Cancel | None,
        approve: Approve | None,
        observe: Observe | None,
        clock: Clock,
    ) -> None:
        self.loop = loop
        self.model = model
        self.arity = _arity(model)
        self.cancel = cancel
        self.approve = approve
        self.observe = observe
        self.clock = clock
        self.tell: Callable[[Event], None] = loop.take if observe is None else self.show
        loop.warn = self.notice
        loop.cancel = cancel

    def begin(self, resumed: Resumed | None) -> None:
        """Take the loop up."""
        if resumed is not None and not self.loop.finished:
            self.tell(resumed)
        self.loop.driven = True

    def end(self) -> Result:
        """Let the loop go."""
        self.loop.driven = False
        return self.loop.result()

    def show(self, event: Event) -> None:
        """Tell the machine what happened, and the observer what came of it."""
        self.notice(self.loop.shown(event))

    def notice(self, notice: Any) -> None:
        """Tell the observer. One that raises is reported once and harms nothing."""
        if self.observe is None:
            if isinstance(notice, notices.Warning):
                _logger.warning(notice.text)
            return
        try:
            self.observe(notice)
        except Exception:
            if not self.loop.observer_failed:
                self.loop.observer_failed = True
                _logger.exception("the observer raised; the run goes on")

    def progress(self, call: Call) -> Callable[..., None] | None:
        """What ``Context.progress`` of a call tells the observer, if there is one."""
        if self.observe is None:
            return None

        def report(done: float, total: float | None = None, text: str = "") -> None:
            self.notice(notices.Progress(call, done, total, text))

        return report

    def polled(self) -> CancelPolled:
        """Look whether the run is to be cancelled."""
        cancel = self.cancel
        if cancel is None:
            return CancelPolled(False, at=self.clock())
        cancelled = bool(cancel())
        reason = cancel.reason if isinstance(cancel, CancelToken) else ""
        return CancelPolled(cancelled, reason, at=self.clock())

    def cancel_told(self) -> None:
        """Pass a cancel on unasked, where the machine can use it."""
        snapshot = self.loop.snapshot
        if not snapshot.cancelled and "CancelRequested" in self.loop.definition.accepts(snapshot.state):
            self.tell(
                CancelRequested(self.cancel.reason if isinstance(self.cancel, CancelToken) else "", at=self.clock())
            )

    def decide(self, verdicts: list[tuple[Call, Any]]) -> bool:
        """Pass on what the approver decided; a call without a verdict stays undecided."""
        decisions = tuple(_decision(call, verdict) for call, verdict in verdicts if verdict is not None)
        if decisions:
            self.tell(ApprovalGiven(decisions, at=self.clock()))
        return bool(decisions)

    def arguments(self, ask: AskModel) -> tuple[Any, ...]:
        """What the model callable is given: messages, tools, the request, as many as it takes."""
        if self.arity == 3:
            asking = self.loop.asking(ask)
            return asking.messages, asking.tools, asking
        return (self.loop.messages(), self.loop.tools(ask))[: self.arity]

    def replied(self, reply: Any) -> None:
        """Tell what the model replied."""
        self.tell(ModelReplied(self.loop.turn(reply), at=self.clock()))


def _decision(call: Call, verdict: Any) -> Decision:
    if isinstance(verdict, bool):
        return Decision(call.step, call.place, verdict)
    if isinstance(verdict, str):
        return Decision(call.step, call.place, False, verdict)
    raise TypeError(f"approve must return True, False, a reason (text) or None, not {verdict!r}")


def _arity(model: Callable[..., Any]) -> int:
    """How many of (messages, tools, ask) a model takes: its parameters without a default, 2 for ``*args``."""
    try:
        parameters = inspect.signature(model).parameters.values()
    except (TypeError, ValueError):  # a builtin without a signature
        return 2
    needed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty]
    if len(needed) > 3:
        raise TypeError(f"model: it takes (messages), (messages, tools) or (messages, tools, ask), not {len(needed)}")
    return len(needed) or 2


def passes(raised: BaseException) -> bool:
    """Whether a model or tool raised what is the host's own. A CancelledError that nobody asked for is not."""
    return not isinstance(raised, Exception) and type(raised).__name__ != "CancelledError"


def unfinished(call: Call, raised: BaseException) -> CallResult:
    """The result of a call that ended with what is no Exception."""
    name = type(raised).__name__
    return (
        CallResult.of(call, "interrupted", f"interrupted by {name}")
        if passes(raised)
        else CallResult.of(call, "failed", name)
    )


class SyncHost(Host):
    """``run``: the model and a single call in this thread, several calls at once on a pool."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.done: queue.SimpleQueue[tuple[CallResult, BaseException | None] | None] = queue.SimpleQueue()
        self.running: set[tuple[int, int]] = set()
        self.pool: ThreadPoolExecutor | None = None
        #: what performs a request; it says whether it told the machine something
        self.acts: dict[type, Callable[[Any], bool]] = {
            PollCancel: self.poll,
            AskModel: self.ask,
            StartCalls: self.start,
            AskApproval: self.ask_approval,
        }

    def run(self, resumed: Resumed | None) -> Result:
        """Perform what is outstanding, or wait for what is running, until there is neither."""
        self.begin(resumed)
        forget = self.cancel.subscribe(lambda: self.done.put(None)) if isinstance(self.cancel, CancelToken) else None
        try:
            while self.perform():
                pass
        except BaseException:
            self.wind_down()
            raise
        finally:
            if forget is not None:
                forget()
            if self.pool is not None:
                self.pool.shutdown()
            result = self.end()
        return result

    def perform(self) -> bool:
        """Do the first thing asked for that can be done now, else wait for a running call. False: there is neither."""
        for request in self.loop.waiting:
            act = self.acts.get(type(request))  # what it asks to interrupt can't be: it is awaited, its outcome kept
            if act is not None and act(request):
                return True
        return bool(self.running) and self.settle()

    def poll(self, request: PollCancel) -> bool:
        """Look for a cancel, when it is time."""
        if request.not_before is not None:
            self.pause(request.not_before - self.clock())
        self.tell(self.polled())
        return True

    def pause(self, seconds: float) -> None:
        """Wait, or until cancelled."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not (self.cancel is not None and self.cancel()):
            if isinstance(self.cancel, CancelToken):
                self.cancel.wait(left)
            else:
                time.sleep(left if self.cancel is None else min(left, POLL_SECONDS))

    def ask(self, request: AskModel) -> bool:
        """Ask the model, and tell what came."""
        arguments = self.arguments(request)
        try:
            reply = self.model(*arguments)
        except BaseException as error:
            if passes(error):
                raise
            self.tell(self.loop.failure(error, at=self.clock()))
            return True
        if inspect.isawaitable(reply):
            raise TypeError("the model is async; use run_async")
        self.replied(reply)
        return True

    def ask_approval(self, request: AskApproval) -> bool:
        """Ask the approver, if there is one."""
        return self.approve is not None and self.decide([(call, self.approve(call)) for call in request.calls])

    def start(self, request: StartCalls) -> bool:
        """Run a single call here; several, or one beside others, on threads."""
        if len(request.calls) == 1 and not self.running and len(self.loop.waiting) == 1:
            self.settled(*self.work(request.calls[0]))
            return True
        if self.pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self.pool = ThreadPoolExecutor(self.loop.snapshot.policy.max_parallel, "loopmachine")
        for call in request.calls:
            if call.key not in self.running:
                self.running.add(call.key)
                self.pool.submit(copy_context().run, lambda call=call: self.done.put(self.work(call)))
        return False

    def work(self, call: Call) -> tuple[CallResult, BaseException | None]:
        """The call's result, and what has to pass through the host after it was recorded."""
        try:
            return self.loop.perform(call, progress=self.progress(call)), None
        except BaseException as raised:
            return unfinished(call, raised), raised if passes(raised) else None

    def settled(self, result: CallResult, passing: BaseException | None) -> None:
        """Tell what a call brought."""
        self.tell(CallReturned(result, at=self.clock()))
        if passing is not None:
            raise passing

    def settle(self) -> bool:
        """Wait for a running call, or for a cancel."""
        done = self.done.get()
        if done is None:
            self.cancel_told()
        else:
            self.running.discard(done[0].key)
            self.settled(*done)
        return True

    def wind_down(self) -> None:
        """Await the running calls and record what they brought; what is on its way out stays on its way."""
        while self.running:
            done = self.done.get()
            if done is not None:
                self.running.discard(done[0].key)
                self.tell(CallReturned(done[0], at=self.clock()))
