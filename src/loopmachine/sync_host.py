"""The host of ``run``: the model and a single call in this thread, several calls at once on a pool."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from loopmachine.events import CallReturned, Resumed
from loopmachine.host import LEAVING, LONGEST_WAIT, Host, decided, passes, unfinished
from loopmachine.loop import Loop
from loopmachine.notices import log_warning
from loopmachine.records import Call, CallResult, Decision
from loopmachine.requests import AskApproval, AskModel, InterruptCalls, PollCancel, StartCalls
from loopmachine.result import Result
from loopmachine.tools import CancelToken
from loopmachine.tools.context import POLL_SECONDS, asked, close, is_awaitable
from loopmachine.tools.signature import is_async


class SyncHost(Host):
    """``run``: the model and a single call in this thread, several calls at once on a pool."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        for name, function in (("model", self.model), ("approve", self.approve)):
            if is_async(function):
                raise TypeError(f"{name} is async; use run_async")
        self.running: dict[tuple[int, int], None] = {}  #: the calls on threads, in the order they were started
        self.begun: dict[tuple[int, int], None] = {}  #: those that a thread has begun, in its own word
        self.finished: dict[tuple[int, int], tuple[CallResult, BaseException | None]] = {}
        self.signals: queue.SimpleQueue[None] = queue.SimpleQueue()  #: that a call finished, or a token was set
        #: what performs a request; it says whether it told the machine something
        self.acts: dict[type, Callable[[Any], bool]] = {
            PollCancel: self.poll,
            AskModel: self.ask,
            StartCalls: self.start,
            AskApproval: self.ask_approval,
        }

    def loop_of(self, *args: Any) -> Loop:
        """The loop to drive, which has no async tools."""
        loop = super().loop_of(*args)
        if loop.toolbox.asynchronous:
            raise TypeError(f"tools: {', '.join(loop.toolbox.asynchronous)} is async; use run_async")
        return loop

    def run(self, loop: Loop, resumed: Resumed | None) -> Result:
        """Drive the loop to where there is nothing to do."""
        self.loop = loop
        try:
            self.begin(resumed)
            self.perform()
        except BaseException:
            self.wind_down()
            raise
        finally:
            if loop.hosts == {"host": self}:  # compared, not called: nothing can interrupt it
                loop.hosts, loop.warn, loop.cancel = {}, log_warning, self.before
            self.end()
        return loop.result()

    def woken(self) -> None:
        """A cancel token was set, in whatever thread."""
        self.signals.put(None)

    def perform(self) -> None:
        """Do the first thing asked for that can be done now, else wait for a running call, until there is neither."""
        loop, acts = self.loop, self.acts
        while True:
            for request in loop.waiting:
                act = acts.get(type(request))  # what it asks to interrupt can't be: it is awaited, its outcome kept
                if act is not None and act(request):
                    break
            else:
                if self.running:
                    self.settle()
                elif not self.cancelled_at_last():
                    return

    def poll(self, request: PollCancel) -> bool:
        """Look for a cancel, when it is time."""
        seen = request.not_before is not None and self.pause(request.not_before - self.clock())
        self.tell(self.polled(seen))
        return True

    def pause(self, seconds: float) -> bool:
        """Wait, or until cancelled. Whether it was."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self.cancel is not None and asked(self.cancel):
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
        if type(reply) is not dict and is_awaitable(reply):
            close(reply)
            raise TypeError("the model is async; use run_async")
        self.replied(reply)
        return True

    def ask_approval(self, request: AskApproval) -> bool:
        """Ask the approver, if there is one."""
        if self.approve is None:
            return False
        decisions: list[Decision] = []
        told = False
        try:
            for call in self.unasked(request):
                verdict = self.approve(call)
                if is_awaitable(verdict):
                    close(verdict)
                    raise TypeError("approve is async; use run_async")
                decisions += decided(call, verdict)
        finally:  # who has said yes is not asked again, whatever stopped him
            told = self.decide(decisions)
        return told

    def start(self, request: StartCalls) -> bool:
        """Run a single call here; several, one beside others, or one that may be left behind, on threads."""
        call = request.calls[0]
        alone = len(request.calls) == 1 and not self.running and len(self.loop.waiting) == 1
        if alone and not self.loop.toolbox.is_timed(call):
            key = call.key
            self.finished[key] = self.work(call)
            self.bring(key)
            return True
        for call in request.calls:
            if call.key not in self.running:
                self.aside(partial(self.work_aside, call))
                self.running[call.key] = None
        return False

    def work_aside(self, call: Call) -> None:
        """``work`` on a thread. What it brought stays where the host finds it, whatever interrupts the host.

        An interrupt in the midst of handing it out leaves a call of which the host knows nothing: it is begun before
        the host goes, which then waits for it, or not at all.
        """
        self.begun[call.key] = None  # before it looks, as the host sets the token before it looks at this
        if self.broken_off() and call.key not in self.running:
            del self.begun[call.key]
        else:
            self.finished[call.key] = self.work(call)
        self.signals.put(None)

    def work(self, call: Call) -> tuple[CallResult, BaseException | None]:
        """The call's result, and what has to pass through the host after it was recorded."""
        try:
            return self.loop.perform(call, progress=self.progress(call)), None
        except BaseException as raised:
            return unfinished(self.loop, call, raised), raised if passes(raised) else None

    def settle(self) -> None:
        """Tell what a call brought that is finished; else wait for one, or for a cancel."""
        over = self.loop.finished  # by a row of somebody's own: nobody waits for what still runs
        if over:
            self.break_off()
        for key in list(self.finished):
            self.bring(key, dropped=over)
            return
        self.signals.get()
        if isinstance(self.cancel, CancelToken) and self.cancel.cancelled:
            self.cancel_told()

    def bring(self, key: tuple[int, int], *, dropped: bool = False) -> None:
        """Tell what a finished call brought, and let pass what has to."""
        result, passing = self.finished[key]
        if not dropped:
            self.tell(CallReturned(result, at=self.clock()))
        self.running.pop(key, None)
        self.begun.pop(key, None)
        del self.finished[key]
        if passing is not None:
            raise passing

    def wind_down(self) -> None:
        """Tell the running calls to stop, await them and record what they brought. What passes through goes on out."""
        while not self.broken_off():
            with suppress(BaseException):
                self.broken_off.cancel(LEAVING)
        while (self.running.keys() | self.begun.keys()) - self.finished.keys():
            with suppress(BaseException):  # another of its kind, while one is on its way out already
                self.signals.get(timeout=POLL_SECONDS)
        for request in self.loop.waiting:
            for call in request.calls if isinstance(request, StartCalls | InterruptCalls) else ():
                if call.key in self.finished:
                    with suppress(BaseException):  # what an observer or the clock raises, for the same reason
                        self.tell(CallReturned(self.finished[call.key][0], at=self.clock()))
