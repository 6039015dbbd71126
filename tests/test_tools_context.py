"""What a tool is told of its call, and the token that cancels."""

from __future__ import annotations

import gc
import threading
import weakref

import attrs
import pytest

from loopmachine.records import Call
from loopmachine.tools import CancelToken, Context

CALL = Call("call-7", "pay", step=3, place=1)


def test_a_context_tells_of_the_call() -> None:
    """A context holds the caller's object, the cancel and the deadline, and reads the rest from the call."""
    data, cancel = object(), CancelToken()
    context = Context(data=data, call=CALL, cancel=cancel, deadline=12.5)
    told = (context.data, context.cancel, context.deadline, context.call_id, context.step, context.place)
    assert told == (data, cancel, 12.5, "call-7", 3, 1)


def test_the_idempotency_key_is_that_of_the_call() -> None:
    """A rerun of a call has the same key; another step, place or id has another."""
    calls = (CALL, attrs.evolve(CALL, checked="{}"), attrs.evolve(CALL, step=4))
    keys = [Context(call=call).idempotency_key for call in calls]
    assert keys == ["3.1:call-7", "3.1:call-7", "4.1:call-7"]


def test_a_context_made_by_hand_needs_nothing() -> None:
    """A user who tests a tool makes a context of what the tool reads; progress then goes nowhere."""
    context = Context()
    context.progress(1)
    assert (context.data, context.cancel, context.deadline, context.call_id) == (None, None, None, "")


def test_progress_is_passed_on() -> None:
    """Progress reaches who asked for it, with its total and text."""
    heard: list[tuple[object, ...]] = []
    context = Context(progress=lambda *told: heard.append(told))
    context.progress(1, 3, "one of three")
    context.progress(2.5)
    assert heard == [(1, 3, "one of three"), (2.5, None, "")]


def test_a_context_cannot_be_changed() -> None:
    """A tool can't change what it is told."""
    with pytest.raises(AttributeError):
        Context().data = 5  # type: ignore[misc]


def test_a_token_is_cancelled_once_and_stays_so() -> None:
    """A token keeps the first reason, answers when called, and can be cancelled again without effect."""
    token = CancelToken()
    before = (token.cancelled, token(), token.reason, token.wait(0), repr(token))
    token.cancel("stop it")
    token.cancel("again")
    assert before == (False, False, "", False, "<CancelToken>")
    assert (token.cancelled, token(), token.reason, token.wait(), repr(token)) == (
        True,
        True,
        "stop it",
        True,
        "<CancelToken cancelled: 'stop it'>",
    )


def test_the_subscribed_are_called_once_each() -> None:
    """Who subscribes before is called by cancel, who does so later at once, and none twice."""
    token = CancelToken()
    heard: list[str] = []
    token.subscribe(lambda: heard.append("early"))
    token.cancel()
    token.cancel()
    late = token.subscribe(lambda: heard.append("late"))
    late()
    assert heard == ["early", "late"]


class Heard(set[int]):
    """A set that can be held weakly."""


def test_who_unsubscribes_is_not_called_and_not_held() -> None:
    """After unsubscribing, which may be done twice, nothing holds the listener."""
    token, heard = CancelToken(), Heard([1])
    unsubscribe = token.subscribe(heard.clear)
    unsubscribe()
    unsubscribe()
    token.cancel()
    assert heard == {1}
    held = weakref.ref(heard)
    del heard
    gc.collect()
    assert held() is None


def test_who_was_called_is_not_held() -> None:
    """After the cancel the token holds no listener, though nobody unsubscribed."""
    token, heard = CancelToken(), Heard([1])
    token.subscribe(heard.clear)
    token.cancel()
    assert heard == set()
    held = weakref.ref(heard)
    del heard
    gc.collect()
    assert held() is None


def test_a_listener_that_raises_keeps_no_other_from_hearing() -> None:
    """All are called, and what some raised comes out together."""
    token = CancelToken()
    heard: list[str] = []
    token.subscribe(lambda: heard.append("first"))
    token.subscribe(lambda: 1 // 0)
    token.subscribe(lambda: heard.append("last"))
    with pytest.raises(ExceptionGroup) as caught:
        token.cancel()
    assert (heard, [type(one) for one in caught.value.exceptions]) == (["first", "last"], [ZeroDivisionError])


def test_a_listener_may_use_the_token() -> None:
    """A listener, or a signal handler in the middle of subscribing, can ask, cancel and subscribe: no deadlock."""
    token = CancelToken()
    heard: list[bool] = []
    token.subscribe(lambda: token.subscribe(lambda: heard.append(token())))
    with token._lock:
        token.cancel()
    assert heard == [True]


def test_threads_that_cancel_at_once_call_a_listener_once() -> None:
    """Of many threads that cancel and subscribe at the same time, each listener hears exactly one call."""
    token, gate = CancelToken(), threading.Barrier(8)
    heard: list[int] = []

    def work(number: int) -> None:
        gate.wait()
        token.subscribe(lambda: heard.append(number))
        token.cancel(str(number))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(heard) == list(range(8))


def test_waiting_ends_with_the_cancel() -> None:
    """A thread that waits goes on when another cancels."""
    token = CancelToken()
    waited: list[bool] = []
    thread = threading.Thread(target=lambda: waited.append(token.wait(30)))
    thread.start()
    token.cancel()
    thread.join()
    assert waited == [True]
