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
from contextlib import suppress
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
from loopmachine.loop import Loop, Price, log_warning
from loopmachine.records import Call, CallResult, Decision
from loopmachine.requests import AskApproval, AskModel, InterruptCalls, PollCancel, StartCalls
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
LONGEST_WAIT = 3600.0  #: seconds of one wait, which systems bound
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
    clock: Clock | None = time.monotonic,
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
    _refuse_async(model=model, approve=approve)
    host = SyncHost(model, cancel, approve, observe, clock)
    driven = host.loop_of(loop, made, budget, context, price)
    if driven.toolbox.asynchronous:
        raise TypeError(f"tools: {', '.join(driven.toolbox.asynchronous)} is async; use run_async")
    return host.run(driven, None if loop is None else Resumed(budget, at=host.clock()))


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
    clock: Clock | None = time.monotonic,
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
    host = AsyncHost(model, cancel, approve, observe, clock)
    driven = host.loop_of(loop, made, budget, context, price)
    return await host.run(driven, None if loop is None else Resumed(budget, at=host.clock()))


def _refuse_async(**given: Any) -> None:
    for name, value in given.items():
        if is_async(value):
            raise TypeError(f"{name} is async; use run_async")


def _nothing() -> None:
    """What ends a subscription that there is not."""


def is_async(function: Any) -> bool:
    """Calling it gives a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


class Host:
    """What both hosts share: the cancel, the approver, the observer, and what is told to the machine."""

    loop: Loop
    before: Any  #: the cancel that the loop had before
    tell: Callable[[Event], None]  #: tells the machine, and the observer if there is one

    def __init__(
        self,
        model: Callable[..., Any],
        cancel: Cancel | None,
        approve: Approve | None,
        observe: Observe | None,
        clock: Clock | None,
    ) -> None:
        for name, value in {"cancel": cancel, "approve": approve, "observe": observe, "clock": clock}.items():
            if value is not None and not callable(value):
                raise TypeError(f"{name} must be callable or None, not {value!r}")
        self.model = model
        self.arity = _arity(model)
        self.cancel = cancel
        self.approve = approve
        self.observe = observe
        self.clock = time.monotonic if clock is None else clock
        self.pool: ThreadPoolExecutor | None = None
        self.forget: Callable[[], None] = _nothing

    def loop_of(
        self, loop: Loop | None, made: dict[str, Any], budget: Budget | None, context: Any, price: Price | None
    ) -> Loop:
        """The loop to drive: a new one, or the one given, beside which nothing can be given that made it."""
        defaults = {"tools": (), "wire": PLAIN, "definition": TOOL_LOOP}
        given = {name: value for name, value in made.items() if value is not None and value is not defaults.get(name)}
        if loop is None:
            return Loop(**given, budget=budget, context=context, price=price, cancel=self.cancel, at=self.clock())
        if not isinstance(loop, Loop):
            raise TypeError(f"loop must be a Loop, such as result.loop, not {loop!r}")
        if loop.driven:
            raise RuntimeError("this loop is being driven by another host; one loop, one host at a time")
        if given:
            raise TypeError(f"{', '.join(given)}: what made the loop can't be given beside loop=")
        if budget is not None and not isinstance(budget, Budget):
            raise TypeError(f"budget must be a Budget, not {budget!r}")
        loop.context = loop.context if context is None else context
        loop.price = loop.price if price is None else price
        return loop

    def begin(self, resumed: Resumed | None) -> None:
        """Take the loop up."""
        loop = self.loop
        self.tell = loop.take if self.observe is None else self.show
        self.cancel = loop.cancel if self.cancel is None else self.cancel
        loop.driven, loop.warn, loop.cancel = True, self.notice, self.cancel
        if isinstance(self.cancel, CancelToken):
            self.forget = self.cancel.subscribe(self.woken)
        if resumed is not None and not loop.finished:
            self.tell(resumed)

    def end(self) -> None:
        """Leave nothing of this host in the loop."""
        self.loop.warn, self.loop.cancel = log_warning, self.before
        self.forget()
        if self.pool is not None:
            self.pool.shutdown()

    def woken(self) -> None:
        """A cancel token was set, in whatever thread."""
        raise NotImplementedError

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

    def polled(self, seen: bool = False) -> CancelPolled:
        """Look whether the run is to be cancelled, if that was not ``seen`` already."""
        cancel = self.cancel
        if cancel is None:
            return CancelPolled(False, at=self.clock())
        cancelled = seen or bool(cancel())
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
    if inspect.iscoroutine(verdict):
        verdict.close()
        raise TypeError("approve is async; use run_async")
    if isinstance(verdict, bool):
        return Decision(call.step, call.place, verdict)
    if isinstance(verdict, str):
        return Decision(call.step, call.place, False, verdict)
    raise TypeError(f"approve must return True, False, a reason (text) or None, not {verdict!r}")


def _arity(model: Callable[..., Any]) -> int:
    """How many of (messages, tools, ask) a model takes: its parameters without a default, 2 for ``*args``."""
    if not callable(model):
        raise TypeError(f"model must be callable, not {model!r}")
    try:
        parameters = inspect.signature(model).parameters.values()
    except (TypeError, ValueError):  # a builtin without a signature
        return 2
    places = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    needed = len([one for one in places if one.default is one.empty])
    if needed == 0 and any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return 2
    known = needed or min(len(places), 2)
    named = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.default is one.empty]
    if known not in (1, 2, 3) or named:
        raise TypeError("model must take (messages), (messages, tools) or (messages, tools, ask), by position")
    return known


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
        self.running: dict[tuple[int, int], None] = {}  #: the calls on threads, in the order they were started
        self.finished: dict[tuple[int, int], tuple[CallResult, BaseException | None]] = {}
        self.signals: queue.SimpleQueue[None] = queue.SimpleQueue()  #: that a call finished, or a token was set
        #: what performs a request; it says whether it told the machine something
        self.acts: dict[type, Callable[[Any], bool]] = {
            PollCancel: self.poll,
            AskModel: self.ask,
            StartCalls: self.start,
            AskApproval: self.ask_approval,
        }

    def run(self, loop: Loop, resumed: Resumed | None) -> Result:
        """Perform what is outstanding, or wait for what is running, until there is neither."""
        self.loop, self.before = loop, loop.cancel
        try:
            self.begin(resumed)
            while self.perform():
                pass
        except BaseException:
            self.wind_down()
            raise
        finally:
            loop.driven = False
            self.end()
        return loop.result()

    def woken(self) -> None:
        """A cancel token was set, in whatever thread."""
        self.signals.put(None)

    def perform(self) -> bool:
        """Do the first thing asked for that can be done now, else wait for a running call. False: there is neither."""
        for request in self.loop.waiting:
            act = self.acts.get(type(request))  # what it asks to interrupt can't be: it is awaited, its outcome kept
            if act is not None and act(request):
                return True
        return bool(self.running) and self.settle()

    def poll(self, request: PollCancel) -> bool:
        """Look for a cancel, when it is time."""
        seen = request.not_before is not None and self.pause(request.not_before - self.clock())
        self.tell(self.polled(seen))
        return True

    def pause(self, seconds: float) -> bool:
        """Wait, or until cancelled. Whether it was."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self.cancel is not None and self.cancel():
                return True
            if isinstance(self.cancel, CancelToken):
                self.cancel.wait(min(left, LONGEST_WAIT))
            else:
                time.sleep(min(left, LONGEST_WAIT if self.cancel is None else POLL_SECONDS))
        return False

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
            if inspect.iscoroutine(reply):
                reply.close()
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
                self.pool.submit(copy_context().run, self.work_aside, call)
                self.running[call.key] = None
        return False

    def work_aside(self, call: Call) -> None:
        """``work`` on a thread. What it brought stays where the host finds it, whatever interrupts the host."""
        self.finished[call.key] = self.work(call)
        self.signals.put(None)

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
        """Tell what a call brought that is finished; else wait for one, or for a cancel."""
        for key in list(self.finished):
            if key in self.running:
                del self.running[key]
                self.settled(*self.finished[key])
                del self.finished[key]
                return True
        self.signals.get()
        if isinstance(self.cancel, CancelToken) and self.cancel.cancelled:
            self.cancel_told()
        return True

    def wind_down(self) -> None:
        """Await the running calls and record what they brought; what is on its way out stays on its way."""
        while self.running.keys() - self.finished.keys():
            with suppress(BaseException):  # another of its kind, while one is on its way out already
                self.signals.get(timeout=POLL_SECONDS)
        for request in self.loop.waiting:
            for call in request.calls if isinstance(request, StartCalls | InterruptCalls) else ():
                if call.key in self.finished:
                    with suppress(BaseException):
                        self.tell(CallReturned(self.finished[call.key][0], at=self.clock()))
