"""What a tool may know of the call that it answers, and the token that cancels a run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import attrs

from loopmachine.limits import Budget, Spend, Usage
from loopmachine.records import Call


class CancelToken:
    """Cancels a run from any thread. Once cancelled it stays so; the first reason is kept. ``token()`` asks it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may cancel while its own thread is in here
        self._told = threading.Event()
        self._reason = ""
        self._listeners: dict[object, Callable[[], object]] = {}

    def cancel(self, reason: str = "") -> None:
        """Cancel, and call the subscribed once each. If some raise, the others are called all the same.

        Raises an ExceptionGroup of what they raised.
        """
        with self._lock:
            if self._told.is_set():
                return
            self._reason = reason
            self._told.set()
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
        return self._told.is_set()

    @property
    def reason(self) -> str:
        """Why, in the words of who cancelled first; blank before."""
        return self._reason

    def __call__(self) -> bool:
        return self._told.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until cancelled, at most ``timeout`` seconds. Whether it is."""
        return self._told.wait(timeout)

    def subscribe(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Have ``listener()`` called once, in the thread that cancels; at once if that was before.

        Gives what ends the subscription, after which the token holds no reference to the listener.
        """
        key = object()
        with self._lock:
            late = self._told.is_set()
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


@attrs.frozen
class Context:
    """What the host tells a tool: a parameter annotated ``Context`` gets it, and the model never sees it.

    To call a tool by hand, ``Context(data=...)`` will do.
    """

    data: Any = None  #: the caller's own object, given as ``run(context=...)``
    call: Call = Call("", "")  #: what the model asked for
    calls: int = 0  #: how many calls the run has admitted so far, those of this turn included
    cancel: Callable[[], bool] = never  #: the run's cancel: a CancelToken, or what the caller gave
    deadline: float | None = None  #: when the run's time is spent, on the clock of the run
    clock: Callable[[], float] = time.monotonic  #: that of the run, where ``run`` or ``run_async`` drives it
    budget: Budget = Budget()  #: the run's limits
    _spend: Callable[[], Spend] = Spend
    _bill: Callable[[Call, Usage], None] | None = None
    _progress: Callable[..., None] | None = None

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

        Each time what came since the last; a field that is None is unknown and never zero. It is spent when the call
        gets its result, whatever that is: the tool may raise, or be cut short. What is told after that is not.
        Raises TypeError for what is no Usage.
        """
        if not isinstance(usage, Usage):
            raise TypeError(f"add_usage takes a Usage, not {usage!r}")
        if self._bill is not None:
            self._bill(self.call, usage)

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Tell the observer how far this call has come, in units of your own."""
        if self._progress is not None:
            self._progress(done, total, text)
