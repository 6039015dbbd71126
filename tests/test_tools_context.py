"""What a tool is told of its call, and the token that cancels."""

from __future__ import annotations

import asyncio
import gc
import re
import threading
import weakref
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from loopmachine import Budget, Loop, run, tool
from loopmachine.events import CancelPolled
from loopmachine.records import Call
from loopmachine.tools import CallToken, CancelToken, Context
from loopmachine.tools.context import never
from tests.drivers import DONE, Stage, call, calls, everywhere
from tests.test_hosts import unawaited

CALL = Call("call-7", "pay", step=3, place=1)


def test_a_context_tells_of_the_call() -> None:
    """It holds the caller's object, the calls so far, the cancel and the deadline, and reads the rest from the call."""
    data, cancel = object(), CancelToken()
    context = Context(data=data, call=CALL, calls=5, cancel=cancel, deadline=12.5)
    told = (context.data, context.cancel, context.deadline, context.call_id, context.step, context.place, context.calls)
    assert told == (data, cancel, 12.5, "call-7", 3, 1, 5)


def test_the_idempotency_key_is_that_of_the_call() -> None:
    """A rerun of a call has the same key; another step, place or id has another."""
    calls = (CALL, attrs.evolve(CALL, checked="{}"), attrs.evolve(CALL, step=4))
    keys = [Context(call=call).idempotency_key for call in calls]
    assert keys == ["3.1:call-7", "3.1:call-7", "4.1:call-7"]


def test_a_context_made_by_hand_needs_nothing() -> None:
    """A user who tests a tool makes a context of what the tool reads; progress then goes nowhere."""
    context = Context()
    context.progress(1)
    assert (context.data, context.cancel(), context.deadline, context.call_id, context.calls) == (
        None,
        False,
        None,
        "",
        0,
    )


def test_the_cancel_of_a_context_is_a_token() -> None:
    """A plain callable given by hand is asked by one, so that a tool may wait for it; what can't be called is none."""
    told: list[bool] = []
    by_hand = Context(cancel=lambda: bool(told))
    waited = [by_hand.cancel.wait(0.0), by_hand.cancel.cancelled]
    told.append(True)
    wrong: Any = 3
    with pytest.raises(TypeError, match="Context: cancel must be a CancelToken or callable, not 3"):
        Context(cancel=wrong)
    assert (waited, by_hand.cancel.wait(0.0), Context().cancel.wait(0.0)) == ([False, False], True, False)


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


def test_a_tool_is_told_of_its_call_on_every_host() -> None:
    """The caller's object, id and key of the call, the deadline, step and place, calls so far, and the run's cancel."""

    def scene(stage: Stage) -> Any:
        kept: list[Any] = []

        @tool
        def tell(context: Context) -> list[Any]:
            """Tell what it is told."""
            kept.append(context.cancel)
            of_the_call = [context.call_id, context.idempotency_key, context.step, context.place]
            return [context.data, *of_the_call, context.calls, context.deadline, context.cancel()]

        script = call("a", "tell"), calls(call("b", "tell"), call("c", "tell")), DONE
        tools, budget = stage.driver.tools([tell]), Budget(max_seconds=5.0)
        stage.run(*script, tools=tools, context="ann", cancel=stage.token, budget=budget, clock=stage.clock)
        before = [one.cancelled for one in kept]
        stage.token.cancel("enough")
        return [one.content for one in stage.result.results], before, [one.reason for one in kept]

    assert everywhere(scene) == (
        [
            '["ann","a","1.0:a",1,0,1,5.0,false]',
            '["ann","b","2.0:b",2,0,3,5.0,false]',
            '["ann","c","2.1:c",2,1,3,5.0,false]',
        ],
        [False] * 3,
        ["enough"] * 3,
    )


def test_a_call_that_was_lost_and_is_run_again_has_the_key_that_it_had() -> None:
    """Another process can tell by it what the first one did; the call is counted once."""
    seen: list[tuple[str, int]] = []

    @tool(effect="idempotent")
    def put(context: Context) -> None:
        """Note the key."""
        seen.append((context.idempotency_key, context.calls))

    replies = iter([call("a", "put"), DONE])

    def model(messages: Any, tools: Any) -> Any:
        return next(replies)

    loop = Loop("go", tools=[put], at=0.0)
    loop.send(CancelPolled(False, at=0.0))
    loop.replied(model([], []), at=0.0)
    loop.send(CancelPolled(False, at=0.0))
    loop.perform(loop.snapshot.flights[0].call)  # and then its host dies
    result = run(model, loop=Loop.from_json(loop.to_json(), tools=[put]), clock=lambda: 0.0)
    assert (result.status, result.spend.calls, seen) == ("answered", 1, [("1.0:a", 1)] * 2)


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


TOKENS: dict[str, Callable[[], CancelToken]] = {
    "run": CancelToken,
    "call": lambda: CallToken(CancelToken()),
    "own": lambda: CallToken(None),
}


@pytest.mark.parametrize("made", TOKENS)
@pytest.mark.parametrize("reason", [None, 5, ["x"]], ids=str)
def test_a_reason_that_is_no_text_cancels_nothing(made: str, reason: Any) -> None:
    """It would stand in the snapshot."""
    token = TOKENS[made]()
    with pytest.raises(TypeError, match=rf"^reason must be text, not {re.escape(str(reason))}$"):
        token.cancel(reason)
    assert (token.cancelled, token()) == (False, False)


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


def test_a_tool_can_ask_for_a_cancel_in_a_run_that_nobody_can_cancel() -> None:
    """The answer is no, as it is in a Context made by hand."""
    asked: list[bool] = []

    @tool
    def look(ctx: Context) -> None:
        """Ask."""
        asked.append(ctx.cancel())

    replies = iter([{"kind": "call", "id": "c1", "name": "look", "arguments": {}}, {"kind": "final", "text": "Done."}])
    assert (run(lambda messages: next(replies), "go", tools=[look]).answered, asked, Context().cancel()) == (
        True,
        [False],
        False,
    )


# --- the token of a call --------------------------------------------------------------------------------------


def test_the_token_of_a_call_comes_with_any_of_several() -> None:
    """With the run's, token or callable, or another; it keeps the words of the first, and is as any token."""
    answers = iter([False, True, False])
    run_token, other = CancelToken(), CancelToken()
    by_token, by_other = CallToken(run_token, other), CallToken(None, other)
    by_callable = CallToken(lambda: next(answers), deadline=5.0, clock=lambda: 0.0)
    before = [(one.cancelled, one.reason, one.wait(0.0)) for one in (by_token, by_other)]
    asked = [by_callable() for _ in range(4)]
    run_token.cancel("enough")
    other.cancel("left")
    assert (before, asked, by_callable.reason) == ([(False, "", False)] * 2, [False, True, True, True], "")
    assert [(one.cancelled, one.reason, one.wait(), repr(one)) for one in (by_token, by_other)] == [
        (True, "enough", True, "<CancelToken cancelled: 'enough'>"),
        (True, "left", True, "<CancelToken cancelled: 'left'>"),
    ]


@pytest.mark.parametrize(("now", "late"), [(4.9, False), (5.0, True)])
def test_the_token_of_a_call_comes_at_the_deadline_unless_it_has_none(now: float, late: bool) -> None:
    """What has the deadline as its own is not told of it."""
    token = CallToken(None, deadline=5.0, clock=lambda: now)
    assert (token(), token.reason, token.untimed()()) == (late, "the deadline passed" if late else "", False)


class Later:
    """Something to be iterated asynchronously."""

    def __aiter__(self) -> Later:
        return self

    async def __anext__(self) -> None:
        """Never awaited."""


@pytest.mark.parametrize(
    "cancel", [lambda: asyncio.sleep(0), lambda: (one for one in "no"), lambda: (one async for one in Later())]
)
def test_the_token_of_a_call_takes_nothing_that_is_still_to_be_run_for_a_yes(cancel: Any) -> None:
    """It says that a cancel must return True or False, and leaves no coroutine behind."""

    def act() -> None:
        with pytest.raises(TypeError, match=r"^cancel is async, or yields; it is asked and not awaited, and must retu"):
            CallToken(cancel)()

    assert unawaited(act) == []


def test_who_subscribes_to_the_token_of_a_call_hears_of_all_and_is_not_held() -> None:
    """Once, from whichever token; and who unsubscribes is forgotten by every one of them."""
    sources, heard = [CancelToken(), CancelToken()], list[int]()
    token = CallToken(*sources)
    token.subscribe(lambda: heard.append(1))
    gone, forgotten = Heard(), Heard([1])
    token.subscribe(gone.clear)
    unsubscribe = token.subscribe(forgotten.clear)
    unsubscribe()
    for one in sources:
        one.cancel()
    token.subscribe(lambda: heard.append(2))
    assert (heard, forgotten) == ([1, 2], {1})
    held = weakref.ref(forgotten)
    del forgotten, unsubscribe
    gc.collect()
    assert held() is None


def test_a_call_that_waits_is_woken_by_the_tokens_and_asks_the_rest() -> None:
    """A clock and a plain callable wake nobody, so that they are asked meanwhile."""
    token, now = CancelToken(), iter([0.0, 0.0, 9.0])
    thread = threading.Timer(0.0, token.cancel, ["enough"])
    thread.start()
    woken = CallToken(token, deadline=5.0, clock=lambda: 0.0)
    late = CallToken(never, deadline=5.0, clock=lambda: next(now))
    assert (woken.wait(30), woken.reason, late.wait(30), late.reason) == (True, "enough", True, "the deadline passed")
    thread.join()


def test_to_cancel_a_call_is_to_cancel_its_run_if_that_has_a_token() -> None:
    """A tool may say that it is enough; where the run has none, it speaks for itself alone."""

    def scene(stage: Stage) -> Any:
        @tool
        def stop(ctx: Context) -> str:
            """Say that it is enough."""
            cancel: Any = ctx.cancel
            cancel.cancel("enough")
            return f"{cancel()} {cancel.reason}"

        tools = stage.driver.tools([stop])
        told = []
        for cancel in (stage.token, None, lambda: False):
            result = stage.run(call("a", "stop"), DONE, tools=tools, cancel=cancel)
            told.append((result.status, result.snapshot.cancel_reason, [one.content for one in result.results]))
        return told

    said = ["True enough"]
    told = [("cancelled", "enough", said), ("answered", "", said), ("answered", "", said)]
    assert everywhere(scene, same_rows=False) == told
