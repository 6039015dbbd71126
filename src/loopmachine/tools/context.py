"""What a tool may know of the call that it answers, and the token that cancels a run."""

from __future__ import annotations

import inspect
import math
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from types import CoroutineType, GeneratorType
from typing import Any, Self
from typing import Final as Constant

import attrs

from loopmachine.codec import misfits, must_be
from loopmachine.errors import text_of
from loopmachine.limits import Budget, Spend, Usage
from loopmachine.records import Call

POLL_SECONDS: Constant = 0.05  #: how often who waits for a cancel asks a plain callable, or a clock


class CancelToken:
    """Cancels a run from any thread. Once cancelled it stays so; the first reason is kept. ``token()`` asks it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may cancel while its own thread is in here
        self._told = False
        self._woken: threading.Event | None = None  #: made when somebody waits, for it costs more than all the rest
        self._reason = ""
        self._listeners: dict[object, Callable[[], object]] = {}

    def cancel(self, reason: str = "") -> None:
        """Cancel, and call the subscribed once each. If some raise, the others are called all the same.

        Raises an ExceptionGroup of what they raised; TypeError, and cancels nothing, for a reason that is no text.
        """
        must_be("reason", reason, str)
        with self._lock:
            if self._told:
                return
            self._reason = reason
            self._told = True
            if self._woken is not None:
                self._woken.set()
            listeners, self._listeners = self._listeners, {}
        raised = []
        for listener in listeners.values():
            try:
                listener()
            except Exception as error:
                raised.append(error)
        if raised:
            raise ExceptionGroup("cancelled; of those that were told, some raised", raised)

    @property
    def cancelled(self) -> bool:
        """Somebody cancelled."""
        return self._told

    @property
    def reason(self) -> str:
        """Why, in the words of who cancelled first; blank before."""
        return self._reason

    def __call__(self) -> bool:
        return self._told

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until cancelled, at most ``timeout`` seconds. Whether it is."""
        with self._lock:
            woken = self._woken = self._woken or threading.Event()
        return self._told or woken.wait(timeout)

    def subscribe(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Have ``listener()`` called once, in the thread that cancels; at once if that was before.

        Gives what ends the subscription, after which the token holds no reference to the listener.
        """
        key = object()
        with self._lock:
            late = self._told
            if not late:
                self._listeners[key] = listener
        if late:
            listener()

        def unsubscribe() -> None:
            with self._lock:
                self._listeners.pop(key, None)

        return unsubscribe

    def __repr__(self) -> str:
        return f"<CancelToken cancelled: {self._reason!r}>" if self.cancelled else "<CancelToken>"


def never() -> bool:
    """The cancel of a run that nobody can cancel."""
    return False


def as_told(usage: Usage) -> Usage:
    """What a usage costs in a run without a price: what it says."""
    return usage


def is_awaitable(value: object) -> bool:
    """Whether it is to be awaited: by its type, as ``await`` looks. It may raise where it is asked."""
    kind = type(value)
    return issubclass(kind, Awaitable) or (kind is GeneratorType and inspect.isawaitable(value))


def close(value: object) -> None:
    """Leave no coroutine behind that nobody will await."""
    if type(value) is CoroutineType:
        value.close()


def asked(cancel: Callable[[], bool]) -> bool:
    """What a cancel says. TypeError for what is still to be run: whatever it would bring, it would pass for a yes."""
    said: object = cancel()
    if type(said) is not bool and (is_awaitable(said) or isinstance(said, GeneratorType | AsyncGenerator)):
        close(said)
        raise TypeError("cancel is async, or yields; it is asked and not awaited, and must return True or False")
    return bool(said)


def reason_of(cancel: Callable[[], bool]) -> str:
    """Why, in the words of a token, of which a subclass may have others than text, or none."""
    token: Any = cancel
    return text_of(token, "reason", "") if isinstance(cancel, CancelToken) else ""


class CallToken(CancelToken):
    """The cancel of one call: it comes with that of the run, with any of ``more``, and at the deadline on ``clock``."""

    def __init__(
        self,
        run: Callable[[], bool] | None,
        *more: CancelToken,
        deadline: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._run: Callable[[], bool] = never if run is None else run
        self._more = more
        self._deadline = deadline
        self._clock = clock

    def __call__(self) -> bool:
        if not self._told:
            sources: tuple[Callable[[], bool], ...] = (self._run, *self._more)
            for source in sources:
                if asked(source):
                    super().cancel(reason_of(source))
            if self._deadline is not None and self._clock() >= self._deadline:
                super().cancel("the deadline passed")
        return self._told

    def cancel(self, reason: str = "") -> None:
        """Cancel the run, where it has a token, and this call."""
        if isinstance(self._run, CancelToken):
            self._run.cancel(reason)
        super().cancel(reason)

    @property
    def cancelled(self) -> bool:
        """It is to stop."""
        return self()

    @property
    def reason(self) -> str:
        """Why, in the words of what came first; blank before."""
        return self._reason if self() else ""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is to stop, at most ``timeout`` seconds. Whether it is."""
        until = math.inf if timeout is None else time.monotonic() + timeout
        unsubscribe = self.subscribe(never)
        try:
            while not self() and (left := until - time.monotonic()) > 0:
                super().wait(min(left, POLL_SECONDS))
        finally:
            unsubscribe()
        return self()

    def subscribe(self, listener: Callable[[], object]) -> Callable[[], None]:
        """As that of a CancelToken; what only the clock or a plain callable tells is heard when somebody asks."""
        forget = [super().subscribe(listener)]
        forget += [source.subscribe(self) for source in (self._run, *self._more) if isinstance(source, CancelToken)]

        def unsubscribe() -> None:
            for one in forget:
                one()

        return unsubscribe

    def untimed(self) -> CallToken:
        """The same without the deadline, for what has it as its own."""
        return CallToken(self._run, *self._more)


def as_token(cancel: Callable[[], bool]) -> CancelToken:
    """The token that comes with a cancel, whatever that is. TypeError for what can't be called."""
    if isinstance(cancel, CancelToken):
        return cancel
    if not callable(cancel):
        raise TypeError(f"Context: cancel must be a CancelToken or callable, not {cancel!r}")
    return CallToken(cancel)


@attrs.frozen
class Context:
    """What the host tells a tool: a parameter annotated ``Context`` gets it, and the model never sees it.

    To call a tool by hand, ``Context(data=...)`` will do.
    """

    data: Any = None  #: the caller's own object, given as ``run(context=...)``
    call: Call = Call("", "")  #: what the model asked for
    calls: int = 0  #: how many calls the run has admitted so far, those of this turn included
    #: Whether to stop: a token of this call's own. It comes with the run's cancel, whatever that is, at the deadline,
    #: at the tool's timeout, and when an exception (a KeyboardInterrupt, a cancelled task) leaves the run.
    cancel: CancelToken = attrs.field(factory=CancelToken, converter=as_token)
    deadline: float | None = None  #: when the time of the run or of this call is spent, on ``clock``
    timeout: float | None = None  #: the seconds that its tool gives the call
    clock: Callable[[], float] = time.monotonic  #: that of the run; step by step, from the latest ``at`` on
    budget: Budget = Budget()  #: the run's limits
    priced: Callable[[Usage], Usage] = as_told  #: a usage that names no cost with what the run's price says, if it does
    _spend: Callable[[], Spend] = Spend
    _bill: Callable[[Usage], None] | None = None
    _progress: Callable[..., None] | None = None

    def timed(self, seconds: float, expired: CancelToken) -> Self:
        """The same for a call with a timeout, whose passing is told to ``expired``."""
        own = self.clock() + seconds
        deadline = own if self.deadline is None else min(own, self.deadline)
        known = self.cancel.untimed() if isinstance(self.cancel, CallToken) else self.cancel
        cancel = CallToken(known, expired, deadline=deadline, clock=self.clock)
        return attrs.evolve(self, deadline=deadline, cancel=cancel, timeout=seconds)

    @property
    def call_id(self) -> str:
        """What the provider calls this call."""
        return self.call.id

    @property
    def step(self) -> int:
        """The step that asked for it, from 1."""
        return self.call.step

    @property
    def place(self) -> int:
        """Its place in the turn, from 0."""
        return self.call.place

    @property
    def idempotency_key(self) -> str:
        """The same at every rerun of this call, and of no other call of the run.

        Other runs have it too: where several runs act on the same thing, put an id of the run before it.
        """
        return f"{self.call.step}.{self.call.place}:{self.call.id}"

    @property
    def spend(self) -> Spend:
        """What the run has used of its budget by now, what its running calls told with ``add_usage`` included."""
        return self._spend()

    def add_usage(self, usage: Usage) -> None:
        """Tell what this call has spent, as a tool that asks a model itself: it is spent from the run's budget.

        Each time what came since the last; a field that is None is unknown and never zero, but the run's price is
        asked for a cost, in this thread. It is spent when the call gets its result, whatever that is: the tool may
        raise, or be cut short. What is told after that is not. Raises TypeError for what is no Usage.
        """
        if any(misfits(usage, Usage)):
            raise TypeError(f"add_usage takes a Usage, not {usage!r}")
        if self._bill is not None:
            self._bill(self.priced(usage))

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Tell the observer how far this call has come, in units of your own."""
        if self._progress is not None:
            self._progress(done, total, text)
