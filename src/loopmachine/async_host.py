"""The host on asyncio; imported by ``run_async`` when it is called, so that importing the library is light."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any

from loopmachine.events import CallReturned, ModelFailed, Resumed
from loopmachine.host import LONGEST_WAIT, Host, decided, passes, unfinished
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
from loopmachine.tools.context import POLL_SECONDS
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
        self.broken_off = CancelToken()  #: an exception, or a cancellation of its task, is leaving the run
        self.children: dict[Child, Call | AskModel | AskApproval] = {}  #: what runs, and for what
        self.cut: dict[Child, str] = {}  #: why a child is cancelled
        self.busy: set[asyncio.Task[Outcome]] = (
            set()
        )  #: those that are to be, once another cancellation of theirs is done
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
            self.decisions = []
            self.spawn(request, True, partial(self.ask_approval, calls, self.approve))

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
        if self.pool is None:
            self.pool = ThreadPoolExecutor(self.loop.snapshot.policy.max_parallel, "loopmachine")
        running = asyncio.get_running_loop().run_in_executor(self.pool, copy_context().run, outcome_of, function)
        self.children[running] = what

    async def ask_approval(self, calls: list[Call], approve: Callable[[Call], Any]) -> None:
        """Ask the approver, call by call."""
        for call in calls:
            said = approve(call)
            self.decisions += decided(call, await said if inspect.isawaitable(said) else said)

    async def pause(self, seconds: float) -> bool:
        """Wait, or until cancelled. Whether it was."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self.cancel is not None and self.cancel():
                return True
            if isinstance(self.cancel, CancelToken):
                await asyncio.wait([self.wake], timeout=min(left, LONGEST_WAIT))
            else:
                await asyncio.sleep(min(left, LONGEST_WAIT if self.cancel is None else POLL_SECONDS))
        return False

    # --- waiting ------------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Wait for a child, for a cancel, or for the deadline."""
        wake: list[asyncio.Future[Any]] = [] if self.heard_wake else [self.wake]
        await asyncio.wait([*self.children, *wake], timeout=self.left(), return_when=asyncio.FIRST_COMPLETED)
        self.cut_busy()
        if wake and self.wake.done():
            self.heard_wake = True
            self.cancel_told()
            if self.loop.finished:  # nobody waits for the approver any more
                self.cut_short(STOPPED)
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
        for child in self.children:
            if isinstance(child, asyncio.Task) and self.can_cut(child):
                self.cut[child] = why
                self.busy.add(child)
        self.cut_busy()

    def cut_busy(self) -> None:
        """Cancel those that are to be. One that is in the midst of another cancellation, as of a timeout in the tool,
        would be hurried by it; it may go on after that one, and is looked at again."""
        for child in [child for child in self.busy if child.done() or not child.cancelling()]:
            self.busy.discard(child)
            child.cancel()

    def harvest(self, child: Child) -> BaseException | None:
        """Tell what a child that is done brought; what has to pass through the host is given back."""
        what, why = self.children.pop(child), self.cut.pop(child, "")
        value, raised = _brought(child)
        if isinstance(what, AskApproval):
            if any(isinstance(one, AskApproval) for one in self.loop.waiting):
                self.decide(self.decisions)
            return None if child.cancelled() and why else raised  # one that nobody cancelled raised it himself
        if isinstance(what, AskModel):
            self.model_done(what, value, raised, why)
        elif child.cancelled() and why:
            said = "\n".join([why, *last_words(raised)])
            self.returned(CallResult.of(what, "interrupted", fitted(said, self.loop.snapshot.policy.max_result_chars)))
        else:
            self.returned(unfinished(what, raised) if raised is not None else value)
        return raised if raised is not None and passes(raised) else None

    def returned(self, result: CallResult) -> None:
        """Tell what a call brought."""
        self.tell(CallReturned(result, at=self.clock()))

    def model_done(self, ask: AskModel, value: Any, raised: BaseException | None, why: str) -> None:
        """Tell what the model brought; what passes through the host is not told."""
        if raised is None and inspect.isawaitable(value):  # a plain function that hands out a coroutine
            self.children[asyncio.ensure_future(_awaited(value))] = ask
        elif raised is None:
            self.replied(value)
        elif why:
            self.tell(ModelFailed("cut_short", why, timed_out=why == DEADLINE, at=self.clock()))
        elif not passes(raised):
            self.tell(self.loop.failure(raised, at=self.clock()))

    async def wind_down(self) -> None:
        """Cancel the tasks, tell what runs on threads to stop, await all, and record what they brought."""
        self.cut_short("cut short: the host was cancelled")
        with suppress(Exception):  # of somebody who is told; one exception is on its way out already
            self.broken_off.cancel("an exception leaves the run")
        while not all(child.done() for child in self.children):
            with suppress(asyncio.CancelledError):  # for the same reason
                await asyncio.wait(self.children, timeout=POLL_SECONDS if self.busy else None)
                self.cut_busy()
        for child, what in list(self.children.items()):
            if isinstance(what, AskModel):
                value, raised = _brought(child)
                if raised is not None or inspect.isawaitable(value):
                    continue  # it is asked again
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
