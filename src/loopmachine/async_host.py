"""The host on asyncio; imported by ``run_async`` when it is called, so that importing the library is light."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from loopmachine.events import CallReturned, ModelFailed, Resumed
from loopmachine.host import LAST_WAIT, LEAVING, LONGEST_WAIT, Host, decided, passes, unfinished
from loopmachine.loop import Loop
from loopmachine.notices import log_warning
from loopmachine.records import Call, CallResult, Decision
from loopmachine.requests import (
    AskApproval,
    AskModel,
    InterruptCalls,
    InterruptModel,
    PollCancel,
    Request,
    StartCalls,
)
from loopmachine.result import Result
from loopmachine.tools import CancelToken
from loopmachine.tools.context import POLL_SECONDS, asked, close, is_awaitable
from loopmachine.tools.results import fitted
from loopmachine.tools.signature import is_async
from loopmachine.tools.timeouts import Outcome, last_words, outcome_of

Child = asyncio.Future[Outcome]
DEADLINE = "cut short at the deadline"
STOPPED = "cut short by a cancel or a spent budget"


class AsyncHost(Host):
    """``run_async``: async models and tools as tasks, sync ones on threads."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.children: dict[Child, Call | AskModel | AskApproval] = {}  #: what runs, and for what
        self.cut: dict[Child, str] = {}  #: why a child is cancelled
        #: those that are to be, once another cancellation of theirs is done, or at this time of the event loop
        self.busy: dict[asyncio.Task[Outcome], float] = {}
        self.undecided: list[Call] = []  #: what the approver is still to be asked about
        self.decisions: list[Decision] = []  #: what the approver has said so far
        self.wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.heard_wake = False

    async def run(self, loop: Loop, resumed: Resumed | None) -> Result:
        """Perform what is outstanding, or wait for what is running, until there is neither."""
        self.loop = loop
        try:
            self.begin(resumed)
            while await self.perform() or self.cancelled_at_last():
                pass
        except BaseException:
            if self.closed:
                self.abandon()
            else:
                await self.wind_down()
            raise
        finally:
            if loop.hosts == {"host": self}:  # compared, not called: nothing can interrupt it
                loop.hosts, loop.warn, loop.cancel = {}, log_warning, self.before
            self.end()
        return loop.result()

    def woken(self) -> None:
        """A cancel token was set, in whatever thread."""
        with suppress(RuntimeError):  # the run is over, and its event loop closed
            self.wake.get_loop().call_soon_threadsafe(self.wake.set_result, None)

    @property
    def gone(self) -> bool:
        """Its event loop is closed."""
        return self.wake.get_loop().is_closed()

    # --- performing ---------------------------------------------------------------------------------------

    async def perform(self) -> bool:
        """Do the first thing asked for that can be done now, else wait for a child. False: there is neither."""
        for request in self.loop.waiting:
            if isinstance(request, PollCancel):
                seen = request.not_before is not None and await self.pause(request.not_before - self.clock())
                self.tell(self.polled(seen))
                return True
            self.act(request)
        if self.children:
            if self.loop.finished:  # nobody waits any more for what still runs
                self.cut_short(STOPPED)
                self.break_off()
            await self.settle()
            return True
        return False

    def act(self, request: Request) -> None:
        """Begin what the machine asks for, unless it has begun."""
        if isinstance(request, AskModel) and not self.children:
            arguments = self.arguments(request)
            self.spawn(request, is_async(self.model), partial(self.model, *arguments))
        elif isinstance(request, StartCalls):
            for call in request.calls:
                if call not in self.children.values():
                    self.start(call)
        elif isinstance(request, InterruptModel | InterruptCalls):
            self.cut_short(STOPPED)
        elif (
            isinstance(request, AskApproval)
            and self.approve is not None
            and not self.children
            and (calls := self.unasked(request))
        ):
            self.undecided, self.decisions = calls, []
            self.ask_next(request)

    def start(self, call: Call) -> None:
        """Run a call, as a task or on a thread."""
        asynchronous = self.loop.toolbox.is_async(call)
        perform = self.loop.perform_async if asynchronous else self.loop.perform
        self.spawn(call, asynchronous, partial(perform, call, progress=self.progress(call)))

    def spawn(self, what: Call | AskModel | AskApproval, asynchronous: bool, function: Callable[[], Any]) -> None:
        """Run a function, as a task or on a thread, in this context."""
        if asynchronous:
            self.children[asyncio.ensure_future(_begun(function))] = what
            return
        events = asyncio.get_running_loop()
        child = events.create_future()

        def work() -> None:
            outcome = outcome_of(function)
            with suppress(RuntimeError):  # the event loop is closed, and nobody waits
                events.call_soon_threadsafe(child.set_result, outcome)

        self.aside(work)
        self.children[child] = what

    def ask_next(self, request: AskApproval) -> None:
        """Ask the approver about the next call in a task, or about all on a thread."""
        approve: Any = self.approve
        if is_async(approve):
            self.spawn(request, True, partial(approve, self.undecided[0]))
        else:
            self.spawn(request, False, partial(self.ask_aside, approve))

    def ask_aside(self, approve: Callable[[Call], Any]) -> Any:
        """Ask a sync approver, call by call; what he hands out to be awaited is given back, and is about the next."""
        while self.undecided and self.broken_off.reason != LEAVING:  # at a cancel all are asked about, as in run
            said = approve(self.undecided[0])
            if is_awaitable(said):
                return said
            self.decisions += decided(self.undecided.pop(0), said)
        return None

    async def pause(self, seconds: float) -> bool:
        """Wait, or until cancelled. Whether it was."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self.cancel is not None and asked(self.cancel):
                return True
            told = self.cancel is None or isinstance(self.cancel, CancelToken)
            await self.wait([self.wake], min(left, LONGEST_WAIT if told else POLL_SECONDS))
        return False

    # --- waiting ------------------------------------------------------------------------------------------

    async def wait(self, futures: Iterable[asyncio.Future[Any]], seconds: float | None) -> None:
        """Wait for one of them, at most so long."""
        try:
            await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        except GeneratorExit:  # the run is closed, and may wait no more; one that a tool raises comes another way
            self.closed = True
            raise

    async def settle(self) -> None:
        """Wait for a child, for a cancel, or for the deadline."""
        wake: list[asyncio.Future[Any]] = [] if self.heard_wake else [self.wake]
        await self.wait([*self.children, *wake], self.left())
        self.cut_busy()
        if wake and self.wake.done():
            self.heard_wake = True
            self.cancel_told()
        left = self.left()
        if left is not None and left <= 0:
            self.cut_short(DEADLINE)
        for child in [child for child in self.children if child.done()]:
            passing = self.harvest(child)
            if passing is not None:
                raise passing

    def left(self) -> float | None:
        """Seconds until the deadline, while there is a task that it would cut short, or until one is looked at anew."""
        if self.busy:
            return POLL_SECONDS
        deadline = self.loop.snapshot.deadline
        if deadline is None or not any(self.can_cut(child) for child in self.children):
            return None
        approving = any(isinstance(what, AskApproval) for what in self.children.values())
        return None if approving else max(0.0, deadline - self.clock())

    def can_cut(self, child: Child) -> bool:
        """It is a task that was not cut short; what runs on a thread is awaited, and its outcome kept."""
        return isinstance(child, asyncio.Task) and not child.done() and child not in self.cut

    def cut_short(self, why: str) -> None:
        """Cancel the tasks, each once: it may take its time to clean up."""
        latest = self.wake.get_loop().time() + LAST_WAIT
        for child in self.children:
            if isinstance(child, asyncio.Task) and self.can_cut(child):
                self.cut[child] = why
                self.busy[child] = latest
        self.cut_busy()

    def cut_busy(self) -> None:
        """Cancel those that are to be.

        One that is in the midst of another cancellation, as of a timeout in the tool, would be hurried by it and is
        given time; not more, as one that swallowed another, without ``uncancel``, counts as cancelled for ever.
        """
        now = self.wake.get_loop().time()
        for child, latest in list(self.busy.items()):
            if child.done() or not child.cancelling() or now >= latest:
                del self.busy[child]
                child.cancel()

    def harvest(self, child: Child) -> BaseException | None:
        """Tell what a child that is done brought; what has to pass through the host is given back."""
        what, why = self.children[child], self.cut.get(child, "")
        value, raised = _brought(child)
        passing = raised if raised is not None and passes(raised) else None
        stopped = why if isinstance(raised, asyncio.CancelledError) else ""
        if isinstance(what, Call):
            if not self.loop.finished:
                self.tell(CallReturned(self.result_of(what, value, raised, stopped), at=self.clock()))
            del self.children[child]  # not before: what was told in vain is told again by wind_down
            return passing
        del self.children[child]
        over = self.loop.finished or self.broken_off()
        if raised is None and is_awaitable(value):  # of a plain function that hands it out
            if not over:
                self.children[asyncio.ensure_future(_awaited(value))] = what
                return None
            close(value)
            raised, stopped = asyncio.CancelledError(), STOPPED
        if isinstance(what, AskApproval):
            return self.approval_done(what, value, raised, stopped, over)
        if not over or (raised is None and not self.loop.finished):  # else it is asked again, or nobody waits
            self.model_done(value, raised, why)
        return passing

    def result_of(self, call: Call, value: Any, raised: BaseException | None, stopped: str) -> CallResult:
        """The result of a call that ended, or was stopped."""
        if stopped:
            said = "\n".join([stopped, *last_words(raised)])
            return CallResult.of(call, "interrupted", fitted(said, self.loop.snapshot.policy.max_result_chars))
        result: CallResult = value if raised is None else unfinished(self.loop, call, raised)
        return result

    def approval_done(
        self, ask: AskApproval, verdict: Any, raised: BaseException | None, stopped: str, over: bool
    ) -> BaseException | None:
        """Keep the approver's word on a call, and ask about the next; after the last, or what stops him, tell all."""
        waiting = any(isinstance(one, AskApproval) for one in self.loop.waiting)
        try:
            if self.undecided and raised is None:
                self.decisions += decided(self.undecided.pop(0), verdict)
        except TypeError as wrong:
            raised = wrong
        if waiting and self.undecided and raised is None and not over:
            self.ask_next(ask)
        elif waiting:
            self.decide(self.decisions)
        return None if stopped else raised

    def model_done(self, value: Any, raised: BaseException | None, why: str) -> None:
        """Tell what the model brought; what passes through the host is not told."""
        if raised is None:
            self.replied(value)
        elif why:
            self.tell(ModelFailed("cut_short", why, timed_out=why == DEADLINE, at=self.clock()))
        elif not passes(raised):
            self.tell(self.loop.failure(raised, at=self.clock()))

    # --- leaving ------------------------------------------------------------------------------------------

    async def wind_down(self) -> None:
        """Cancel the tasks, tell what runs on threads to stop, await all, and record what they brought."""
        self.cut_short("cut short: the host was cancelled")
        self.break_off(LEAVING)
        while waiting := [child for child in self.children if not child.done()]:
            with suppress(asyncio.CancelledError):  # one exception is on its way out already
                await self.wait(waiting, POLL_SECONDS if self.busy else None)
                self.cut_busy()
        self.record()

    def abandon(self) -> None:
        """Cancel the tasks, tell what runs on threads to stop, and record what is done by now."""
        self.break_off(LEAVING)
        for child in self.children:
            if isinstance(child, asyncio.Task):
                with suppress(RuntimeError):  # its event loop is closed
                    child.cancel()
        if self.loop.hosts.get("host") is self:
            self.record()

    def record(self) -> None:
        """Tell what the children brought that are done."""
        for child in [child for child in self.children if child.done()]:
            with suppress(BaseException):  # what an observer or the clock raises: something is on its way out already
                self.harvest(child)


def _brought(child: Child) -> Outcome:
    """What a child that is done brought; the cancellation that ended it, as it was raised."""
    try:
        return child.result()
    except asyncio.CancelledError as cancelled:
        return None, cancelled


async def _begun(function: Callable[[], Awaitable[Any]]) -> Outcome:
    """Called in the task, so that one that is cancelled before it begins leaves nothing behind."""
    return await _awaited(function())


async def _awaited(awaitable: Awaitable[Any]) -> Outcome:
    """A KeyboardInterrupt that left a task would stop the event loop, and nobody would be awaited."""
    try:
        return await awaitable, None
    except asyncio.CancelledError:
        raise
    except BaseException as raised:
        return None, raised
