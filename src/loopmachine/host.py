"""What the hosts share: what is told to the machine, and what may be handed to a model, an approver, an observer."""

from __future__ import annotations

import inspect
import logging
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any
from typing import Final as Constant

from loopmachine import notices
from loopmachine.codec import must_be
from loopmachine.events import ApprovalGiven, CancelPolled, CancelRequested, Event, ModelReplied, Resumed
from loopmachine.limits import Budget
from loopmachine.loop import Loop, Price
from loopmachine.notices import log_warning
from loopmachine.records import Call, CallResult, Decision
from loopmachine.requests import AskApproval, AskModel, InterruptCalls, StartCalls
from loopmachine.table import TOOL_LOOP
from loopmachine.tools import CancelToken
from loopmachine.tools.context import asked, reason_of
from loopmachine.tools.results import error_text
from loopmachine.tools.signature import is_async
from loopmachine.wire import PLAIN, Wire

Clock = Callable[[], float]
Observe = Callable[[Any], None]
Approve = Callable[[Call], Any]
Cancel = CancelToken | Callable[[], bool]
LONGEST_WAIT = 3600.0  #: seconds of one wait, which systems bound
LEAVING: Constant = "an exception leaves the run"
LAST_WAIT: Constant = 1.0  #: seconds for what is to end by itself: an idle thread, another cancellation of a task
_logger = logging.getLogger("loopmachine")


_DRIVEN = "this loop is being driven by another host; one loop, one host at a time"
_freeing = Lock()


def spoken(model: Any, wire: Wire | None, *, looped: bool = False) -> Wire | None:
    """The wire to speak with a model: what is given, or its own where it has one, as the adapters have.

    TypeError where these differ; ``looped``: what is given is that of a loop.
    """
    own = getattr(model, "wire", None)
    if not isinstance(own, Wire):
        return wire
    if wire not in (None, own) and looped:
        right = "for another model begin a new run, with history=result.history"
        raise TypeError(f"loop: it speaks {wire!r}, not {own!r} as {model!r} does; {right}")
    if wire not in (None, own):
        raise TypeError(f"wire: {model!r} speaks {own!r}, not {wire!r}; leave wire= out")
    return own


def _nothing() -> None:
    """What ends a subscription that there is not."""


def _waking(woken: Callable[[], None]) -> Callable[[], None]:
    """What wakes a host, if it is still there: an interrupt may keep it from ending the subscription."""
    held = weakref.WeakMethod(woken)

    def wake() -> None:
        if (waking := held()) is not None:
            waking()

    return wake


def _check_callables(**given: Any) -> None:
    for name, value in given.items():
        if value is not None and not callable(value):
            raise TypeError(f"{name} must be callable or None, not {value!r}")


def _check_free(loop: Loop) -> None:
    """RuntimeError where a host drives the loop; of one that can't any more it is taken."""
    with _freeing:  # two may find the same, and one of them may have begun
        host = loop.hosts.get("host")
        if host is not None and host.gone:
            host.forget()
            loop.hosts, loop.cancel = {}, host.before
    if loop.driven:
        raise RuntimeError(_DRIVEN)


def _check_sync(**given: Any) -> None:
    for name, value in given.items():
        if is_async(value):
            raise TypeError(f"{name} is async; it is asked and not awaited, and must not be")


class Pool:
    """Daemon threads for what a run does aside, made as they are needed.

    They take it from a queue that knows no lock: an interrupt of the host may leave one of Python's own locks held,
    and who waits for it waits for ever.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.work: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self.free: SimpleQueue[None] = SimpleQueue()  #: one for each thread that has nothing to do
        self.threads: list[Thread] = []
        #: for where an interrupt keeps ``close`` back; elsewhere it would itself keep an interrupt back
        self.left = weakref.finalize(self, _dismiss, self.work, self.threads)
        self.left.atexit = False

    def submit(self, function: Callable[[], object]) -> None:
        """Have a thread call what raises nothing, in this context."""
        try:
            self.free.get_nowait()
        except Empty:
            if len(self.threads) < self.most:
                serve = partial(_serve, self.work, self.free)
                self.threads.append(Thread(target=serve, name=f"loopmachine_{len(self.threads)}", daemon=True))
                _start(self.threads[-1])
        self.work.put(partial(copy_context().run, function))  # last: what keeps a thread from its start keeps this back

    def close(self, *, wait: bool) -> None:
        """Let the threads end, and wait for those that have nothing to do."""
        _dismiss(self.work, self.threads)
        self.left.detach()
        for thread in self.threads if wait else ():
            with suppress(RuntimeError):  # one that an interrupt kept from its start
                thread.join(LAST_WAIT)


def _start(thread: Thread) -> None:
    """Start a thread. What interrupts the start passes, and not what Python's own lock says of it."""
    try:
        thread.start()
    except RuntimeError as error:
        passing = error.__context__
        raise error if passing is None or isinstance(passing, Exception) else passing from None


def _serve(work: SimpleQueue[Callable[[], object] | None], free: SimpleQueue[None]) -> None:
    """Do what there is to do, until the pool is closed, or nobody has it any more."""
    while (one := work.get()) is not None:
        one()
        del one  # it knows the run
        free.put(None)


def _dismiss(work: SimpleQueue[Callable[[], object] | None], threads: list[Thread]) -> None:
    for _ in threads:
        work.put(None)


class Host(ABC):
    """What both hosts share: the cancel, the approver, the observer, and what is told to the machine."""

    loop: Loop
    tell: Callable[[Event], None]  #: tells the machine, and the observer if there is one

    def __init__(
        self,
        model: Callable[..., Any],
        cancel: Cancel | None,
        approve: Approve | None,
        observe: Observe | None,
        clock: Clock | None,
    ) -> None:
        _check_callables(cancel=cancel, approve=approve, observe=observe, clock=clock)
        _check_sync(cancel=cancel, observe=observe, clock=clock)
        self.model = model
        self.arity = arity_of(model)
        self.cancel = cancel
        self.approve = approve
        self.observe = observe
        self.clock = time.monotonic if clock is None else clock
        self.broken_off = CancelToken()  #: an exception is leaving the run, or it ended before what it began
        self.pool: Pool | None = None
        self.closed = False  #: nothing can be awaited any more
        self.forget: Callable[[], None] = _nothing
        self.looked = False  #: a cancel was told before the run would have been suspended
        self.asked: set[tuple[int, int]] = set()  #: the calls that the approver was asked about in this run
        self.before: Any = None  #: the cancel that the loop had before
        self.context: Any = None
        self.price: Price | None = None

    def loop_of(
        self, loop: Loop | None, made: dict[str, Any], budget: Budget | None, context: Any, price: Price | None
    ) -> Loop:
        """The loop to drive: a new one, or the one given, beside which nothing can be given that made it."""
        defaults = {"tools": (), "wire": PLAIN, "definition": TOOL_LOOP}
        given = {name: value for name, value in made.items() if value is not None and value is not defaults.get(name)}
        _check_callables(price=price)
        _check_sync(price=price)
        if loop is None:
            given["wire"] = spoken(self.model, given.get("wire")) or PLAIN
            return Loop(**given, budget=budget, context=context, price=price, cancel=self.cancel, at=self.clock())
        if not isinstance(loop, Loop):
            raise TypeError(f"loop must be a Loop, such as result.loop, not {loop!r}")
        _check_free(loop)
        spoken(self.model, loop.wire, looped=True)
        if given:
            raise TypeError(f"{', '.join(given)}: what made the loop can't be given beside loop=")
        if budget is not None:
            must_be("budget", budget, Budget)
        self.context, self.price = context, price
        return loop

    def begin(self, resumed: Resumed | None) -> None:
        """Take the loop up. RuntimeError where another host was quicker."""
        loop = self.loop
        self.before = loop.cancel
        if loop.hosts.setdefault("host", self) is not self:
            raise RuntimeError(_DRIVEN)
        self.tell = loop.take if self.observe is None else self.show
        self.cancel = loop.cancel if self.cancel is None else self.cancel
        loop.warn, loop.cancel = self.notice, self.cancel
        loop.context = loop.context if self.context is None else self.context
        loop.price = loop.price if self.price is None else self.price
        if isinstance(self.cancel, CancelToken):
            self.forget = self.cancel.subscribe(_waking(self.woken))
        if resumed is not None and not loop.finished:
            self.tell(resumed)

    def end(self) -> None:
        """Leave nothing of this host behind."""
        self.forget()
        if self.pool is not None:
            self.pool.close(wait=not self.closed)

    @property
    def gone(self) -> bool:
        """It can't go on, and nobody can tell it so."""
        return False

    def aside(self, function: Callable[[], object]) -> None:
        """Have a thread call what raises nothing."""
        if self.pool is None:
            self.pool = Pool(self.loop.snapshot.policy.max_parallel)
        self.pool.submit(function)

    def break_off(self, why: str = "the run has ended") -> None:
        """Tell what runs to stop."""
        with suppress(Exception):  # of somebody who is told; the run goes its way
            self.broken_off.cancel(why)

    @abstractmethod
    def woken(self) -> None:
        """A cancel token was set, in whatever thread."""

    def show(self, event: Event) -> None:
        """Tell the machine what happened, and the observer what came of it."""
        self.notice(self.loop.shown(event))

    def notice(self, notice: Any) -> None:
        """Tell the observer. One that raises is reported once and harms nothing."""
        if self.observe is None:  # the price's warnings come all the same
            log_warning(notice)
            return
        try:
            self.observe(notice)
        except Exception:
            if not self.loop.observer_failed:
                self.loop.observer_failed = True
                _logger.exception("the observer raised; the run goes on")

    def progress(self, call: Call) -> Callable[..., None] | None:
        """What ``Context.progress`` of a call tells the observer, if there is one, until the call has its result."""
        if self.observe is None:
            return None

        def report(done: float, total: float | None = None, text: str = "") -> None:
            running = [one.calls for one in self.loop.waiting if isinstance(one, StartCalls | InterruptCalls)]
            if any(call in calls for calls in running):
                self.notice(notices.Progress(call, done, total, text))

        return report

    def polled(self, seen: bool = False) -> CancelPolled:
        """Look whether the run is to be cancelled, if that was not ``seen`` already."""
        cancel = self.cancel
        if cancel is None:
            return CancelPolled(False, at=self.clock())
        cancelled = seen or asked(cancel)
        return CancelPolled(cancelled, reason_of(cancel), at=self.clock())

    def cancel_told(self) -> bool:
        """Pass a cancel on unasked, if there is one and the machine can use it. Whether it was."""
        cancel, snapshot = self.cancel, self.loop.snapshot
        if cancel is None or "CancelRequested" not in self.loop.definition.accepts(snapshot.state):
            return False
        if snapshot.cancelled or not asked(cancel):
            return False
        self.tell(CancelRequested(reason_of(cancel), at=self.clock()))
        return True

    def cancelled_at_last(self) -> bool:
        """Look for a cancel before the run is suspended, and tell it. Whether it was, and there may be more to do."""
        if not self.looked:  # once: a definition may go round on what it is told
            self.looked = self.cancel_told()
            return self.looked
        return False

    def unasked(self, request: AskApproval) -> list[Call]:
        """The calls that the approver is to be asked about: those that this run has not asked about before."""
        calls = [call for call in request.calls if call.key not in self.asked]
        self.asked.update(call.key for call in calls)
        return calls

    def decide(self, decisions: list[Decision]) -> bool:
        """Pass on what the approver decided. Whether there was something."""
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


def decided(call: Call, verdict: Any) -> list[Decision]:
    """What an approver decided with his word on a call: nothing with None."""
    if verdict is None:
        return []
    if isinstance(verdict, bool):
        return [Decision(call.step, call.place, verdict)]
    if isinstance(verdict, str):
        return [Decision(call.step, call.place, False, verdict)]
    raise TypeError(f"approve must return True, False, a reason (text) or None, not {verdict!r}")


_GIVEN: Constant = ("messages", "tools", "ask")  #: what a model can be given, in this order


def arity_of(model: Callable[..., Any]) -> int:
    """How many of (messages, tools, ask) a model takes, by position; 2 for ``*args``.

    The parameters without a default, at least one; after them those that are named so.
    """
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
    known = needed or min(len(places), 1)
    while known < min(len(places), len(_GIVEN)) and places[known].name == _GIVEN[known]:
        known += 1
    named = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.default is one.empty]
    if known not in (1, 2, 3) or named:
        raise TypeError("model must take (messages), (messages, tools) or (messages, tools, ask), by position")
    return known


def passes(raised: BaseException) -> bool:
    """Whether a model or tool raised what is the host's own. A CancelledError that nobody asked for is not."""
    if isinstance(raised, Exception):
        return False
    return all(kind.__name__ != "CancelledError" for kind in type(raised).__mro__)  # without importing asyncio


def unfinished(loop: Loop, call: Call, raised: BaseException) -> CallResult:
    """The result of a call that ended with what is no Exception."""
    if passes(raised):
        return CallResult.of(call, "interrupted", f"interrupted by {type(raised).__name__}")
    return CallResult.of(call, "failed", error_text(raised, loop.error_text, loop.snapshot.policy.max_result_chars))
