"""The host on asyncio; imported by ``run_async`` when it is called, so that importing the library is light."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any

from loopmachine.events import CallReturned, ModelFailed, Resumed
from loopmachine.hosts import LONGEST_WAIT, POLL_SECONDS, Host, is_async, passes, unfinished
from loopmachine.loop import Loop
from loopmachine.records import Call, CallResult
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

Child = asyncio.Future[Any]
DEADLINE = "cut short at the deadline"


class AsyncHost(Host):
    """``run_async``: async models and tools as tasks, sync ones on threads."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.children: dict[Child, Call | None] = {}  #: what runs; None is the model
        self.cut: dict[Child, str] = {}  #: why a child was cancelled
        self.wake: Child = asyncio.get_running_loop().create_future()
        self.heard_wake = False

    async def run(self, loop: Loop, resumed: Resumed | None) -> Result:
        """Perform what is outstanding, or wait for what is running, until there is neither."""
        self.loop, self.before = loop, loop.cancel
        try:
            self.begin(resumed)
            while await self.perform():
                pass
        except BaseException:
            await self.wind_down()
            raise
        finally:
            loop.driven = False
            self.end()
        return loop.result()

    def woken(self) -> None:
        """A cancel token was set, in whatever thread."""
        aio = self.wake.get_loop()
        aio.call_soon_threadsafe(lambda: None if self.wake.done() else self.wake.set_result(None))

    async def perform(self) -> bool:
        """Do the first thing asked for that can be done now, else wait for a child. False: there is neither."""
        for request in self.loop.waiting:
            if await self.act(request):
                return True
        if self.children:
            await self.settle()
            return True
        return False

    async def act(self, request: Request) -> bool:
        """Do what the machine asks for. Whether the machine was told something."""
        if isinstance(request, PollCancel):
            seen = request.not_before is not None and await self.pause(request.not_before - self.clock())
            self.tell(self.polled(seen))
            return True
        if isinstance(request, AskModel):
            self.ask(request)
        elif isinstance(request, StartCalls):
            self.start(request)
        elif isinstance(request, InterruptModel | InterruptCalls):
            self.cut_short("cut short by a cancel or a spent budget")
        elif isinstance(request, AskApproval) and self.approve is not None:
            verdicts = [(call, self.approve(call)) for call in request.calls]
            return self.decide([(call, await said if inspect.isawaitable(said) else said) for call, said in verdicts])
        return False

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

    def ask(self, request: AskModel) -> None:
        """Ask the model, as a task or on a thread."""
        if self.children:  # it was asked
            return
        arguments = self.arguments(request)
        if is_async(self.model):
            self.children[asyncio.ensure_future(self.model(*arguments))] = None
        else:
            self.children[self.thread(lambda: self.model(*arguments))] = None

    def start(self, request: StartCalls) -> None:
        """Run the calls that are not running yet, as tasks or on threads."""
        for call in request.calls:
            if call in self.children.values():
                continue
            progress = self.progress(call)
            if self.loop.toolbox.is_async(call):
                child: Child = asyncio.ensure_future(self.loop.perform_async(call, progress=progress))
            else:
                child = self.thread(partial(self.loop.perform, call, progress=progress))
            self.children[child] = call

    def thread(self, function: Callable[[], Any]) -> Child:
        """Run a function on a thread, in this context."""
        if self.pool is None:
            self.pool = ThreadPoolExecutor(self.loop.snapshot.policy.max_parallel, "loopmachine")
        return asyncio.get_running_loop().run_in_executor(self.pool, copy_context().run, function)

    def cut_short(self, why: str) -> None:
        """Cancel the tasks; what runs on a thread can't be, and its outcome is kept."""
        for child in self.children:
            if isinstance(child, asyncio.Task) and child not in self.cut and not child.done():
                self.cut[child] = why
                child.cancel()

    async def settle(self) -> None:
        """Wait for a child, for a cancel, or for the deadline."""
        wake = [] if self.heard_wake else [self.wake]
        await asyncio.wait([*self.children, *wake], timeout=self.left(), return_when=asyncio.FIRST_COMPLETED)
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
        """Seconds until the deadline, while there is a task that it would cut short."""
        deadline = self.loop.snapshot.deadline
        tasks = any(isinstance(child, asyncio.Task) and child not in self.cut for child in self.children)
        return None if deadline is None or not tasks else max(0.0, deadline - self.clock())

    def harvest(self, child: Child) -> BaseException | None:
        """Tell what a child that is done brought; what has to pass through the host is given back."""
        call, why = self.children.pop(child), self.cut.pop(child, "")
        raised = None if child.cancelled() else child.exception()
        if call is None:
            self.model_done(child, raised, why)
        elif child.cancelled():
            self.returned(CallResult.of(call, *(("interrupted", why) if why else ("failed", "CancelledError"))))
        else:
            self.returned(child.result() if raised is None else unfinished(call, raised))
        return raised if raised is not None and passes(raised) else None

    def returned(self, result: CallResult) -> None:
        """Tell what a call brought."""
        self.tell(CallReturned(result, at=self.clock()))

    def model_done(self, child: Child, raised: BaseException | None, why: str) -> None:
        """Tell what the model brought; what passes through the host is not told."""
        if not child.cancelled() and raised is None:
            reply = child.result()
            if inspect.isawaitable(reply):  # a plain function that hands out a coroutine
                self.children[asyncio.ensure_future(reply)] = None
            else:
                self.replied(reply)
        elif why:
            self.tell(ModelFailed("cut_short", why, timed_out=why == DEADLINE, at=self.clock()))
        elif raised is None or not passes(raised):
            self.tell(self.loop.failure(raised or asyncio.CancelledError(), at=self.clock()))

    async def wind_down(self) -> None:
        """Cancel the tasks, await all children, and record what the calls brought."""
        self.cut_short("cut short: the host was cancelled")
        while not all(child.done() for child in self.children):
            try:
                await asyncio.wait(self.children)
            except asyncio.CancelledError:  # one cancellation is on its way out already
                continue
        for child, call in list(self.children.items()):
            if call is not None:
                self.harvest(child)
            elif not child.cancelled():
                child.exception()  # of the model; looked at, so that nobody complains of it
