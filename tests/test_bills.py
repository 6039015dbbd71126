"""What a call says that it spent is spent from the run, whatever becomes of the call and whoever performs it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import attrs
import pytest

from loopmachine import TOOL_LOOP, Budget, CallResult, Context, Denied, Loop, Spend, Tool, Usage, loop_tool, tool
from loopmachine.errors import ToolFailed, ToolInterrupted, UnexpectedEvent
from loopmachine.events import CallLost, CallReturned, CancelPolled
from loopmachine.review.moves import moves
from loopmachine.review.promises import broken
from tests.drivers import ASYNC_TASKS, ASYNC_THREADS, DONE, DRIVERS, THREADS, Driver, Stage, call, calls, everywhere
from tests.facts import ONE, TWO, asks, begun, lost, polled, replied, resolved, result, usage, walk, word

SPENT = Usage(input_tokens=9, output_tokens=1, cost_usd=0.5)
TWICE = Usage(input_tokens=18, output_tokens=2, cost_usd=1.0)


# --- a tool that asks a model itself ----------------------------------------------------------------------------


def asking(driver: Driver, *end: Any, **options: Any) -> Tool:
    """A tool that spends twice, looks what the run has used by then, and ends with what it is given."""

    @tool(**options)
    def ask(ctx: Context) -> Any:
        """Ask."""
        ctx.add_usage(SPENT)
        ctx.add_usage(SPENT)
        (told,) = end
        if isinstance(told, BaseException):
            raise told
        return told(ctx) if callable(told) else told

    return driver.tools([ask])[0]


@pytest.mark.parametrize(
    ("end", "outcome", "content", "code"),
    [
        ("Ada", "ok", "Ada", ""),
        (RuntimeError("no route"), "failed", "RuntimeError: no route", ""),
        (ToolFailed("It is not there.", "e404"), "failed", "It is not there.", "e404"),
        (ToolInterrupted("Half of it is done."), "interrupted", "Half of it is done.", ""),
        (Denied("not_yours"), "denied", "not_yours", "not_yours"),
    ],
    ids=["ok", "failed", "failed in its own words", "interrupted", "denied"],
)
def test_what_a_tool_spent_is_spent_however_it_ends(end: Any, outcome: str, content: str, code: str) -> None:
    """All that it told is one usage of its result."""

    def scene(stage: Stage) -> Any:
        ran = stage.run(call("c1", "ask"), DONE, tools=[asking(stage.driver, end)])
        told = [(one.outcome, one.content, one.code, one.usage) for one in ran.results]
        return told, ran.spend.cost_usd, ran.spend.tokens

    assert everywhere(scene) == ([(outcome, content, code, TWICE)], 1.0, 20)


def test_what_a_tool_spent_is_spent_at_its_timeout_and_what_it_spends_later_is_not() -> None:
    """The late result of its thread is discarded, and what the thread tells late is too."""
    release, ended = threading.Event(), threading.Event()

    def hang(ctx: Context) -> str:
        release.wait()
        ctx.add_usage(SPENT)
        ended.set()
        return "too late"

    stage = Stage(THREADS)
    ran = stage.run(call("c1", "ask"), DONE, tools=[asking(THREADS, hang, timeout=0.01)])
    release.set()
    ended.wait()
    told = [(one.outcome, one.usage) for one in ran.results]
    assert (told, ran.spend.cost_usd, ran.loop.result().spend.cost_usd) == ([("timed_out", TWICE)], 1.0, 1.0)


def test_what_an_async_tool_spent_is_spent_at_its_timeout() -> None:
    """It is cancelled and awaited, and may tell more while it cleans up."""

    async def hang(ctx: Context) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ctx.add_usage(SPENT)

    stage = Stage(ASYNC_TASKS)
    ran = stage.run(call("c1", "ask"), DONE, tools=[asking(ASYNC_TASKS, hang, timeout=0.01)])
    assert [(one.outcome, one.usage) for one in ran.results] == [("timed_out", Usage.total([SPENT] * 3))]


def test_what_a_tool_spent_is_spent_when_an_interrupt_passes_through() -> None:
    """The call is answered ``interrupted`` on the way out."""

    def scene(stage: Stage) -> Any:
        loop = Loop("go", tools=[asking(stage.driver, KeyboardInterrupt())], at=0.0)
        with pytest.raises(KeyboardInterrupt):
            stage.run(call("c1", "ask"), prompt=None, loop=loop)
        return [(one.outcome, one.usage) for one in loop.result().results], loop.snapshot.cost_usd

    assert everywhere(scene) == ([("interrupted", TWICE)], 1.0)


def test_a_tool_knows_what_is_left_while_it_runs() -> None:
    """What it and those beside it told is counted at once, and the time is that of the host's clock."""
    seen: list[Any] = []
    budget = Budget(max_cost_usd=9.0)

    def scene(stage: Stage) -> Any:
        def look(ctx: Context) -> None:
            stage.now += 2.0
            ctx.add_usage(Usage(input_tokens=1))
            seen.append((ctx.budget, ctx.spend, ctx.clock()))

        batch = calls(call("c1", "ask"), call("c2", "ask")) | {"usage": {"cost_usd": 1.0}}
        stage.run(batch, tools=[asking(stage.driver, look, sequential=True)], clock=stage.clock, budget=budget)

    everywhere(scene)
    used = Spend(steps=1, calls=2, seconds=2.0, cost_usd=2.0, tokens=20, unpriced=1, unmetered=2)
    assert seen == [(budget, used, 2.0)] * len(DRIVERS)


def test_what_is_told_is_counted_once() -> None:
    """As this call's while it runs, and as the run's from then on."""
    seen: list[Any] = []

    def scene(stage: Stage) -> Any:
        batch = calls(call("c1", "ask"), call("c2", "ask"))
        made = asking(stage.driver, lambda ctx: seen.append(ctx.spend.cost_usd), sequential=True)
        return stage.run(batch, DONE, tools=[made]).spend.cost_usd

    assert (everywhere(scene), seen) == (2.0, [1.0, 2.0] * len(DRIVERS))


def test_what_a_tool_spent_may_end_the_run() -> None:
    """Nothing is begun any more once it is told, as after a turn that spent as much."""

    def scene(stage: Stage) -> Any:
        batch = calls(call("c1", "ask"), call("c2")) | {"usage": {"cost_usd": 1.0}}
        tools = [asking(stage.driver, "Ada", sequential=True), *stage.tools()]
        ran = stage.run(batch, tools=tools, budget=Budget(max_cost_usd=2.0))
        return ran.status, [one.outcome for one in ran.results], stage.effects

    assert everywhere(scene) == ("cost_budget", ["ok", "not_started"], [])


@pytest.mark.parametrize("driver", [THREADS, ASYNC_THREADS], ids=repr)
def test_what_a_thread_tells_after_its_timeout_is_in_no_later_spend(driver: Driver) -> None:
    """Its result is known, whether the call told something before that or not; nor has a sub-run its parent pay it."""
    release, threads, seen = threading.Event(), list[threading.Thread](), list[tuple[float, float]]()

    @tool(timeout=0.5)
    def hang(n: int, ctx: Context) -> None:
        """Tell so many usages, then hang and tell another."""
        threads.append(threading.current_thread())
        for told in [SPENT] * n:
            ctx.add_usage(told)
        release.wait()
        ctx.add_usage(SPENT)

    @tool
    def look(ctx: Context) -> None:
        """Look what is spent when the late ones have told theirs."""
        release.set()
        for thread in threads:
            thread.join()
        seen.append((ctx.spend.cost_usd, loop._spend().cost_usd))

    batch = [call("a", "hang", n=0), call("b", "hang", n=1), call("c", "hang", n=2), call("d", "look")]
    inner, outer = Stage(driver), Stage(driver)
    model = inner.model(calls(*batch) | {"usage": SPENT}, DONE | {"usage": SPENT})
    child = loop_tool(model, "research", "Look.", tools=[hang, attrs.evolve(look, sequential=True)])
    loop = Loop("go", tools=[child], at=0.0)
    ran = outer.run(call("r", "research", prompt="who?"), DONE, prompt=None, loop=loop)
    assert (seen, ran.spend.cost_usd, loop.bills) == ([(2.0, 2.0)], 2.5, {})


PRICED = Usage(input_tokens=3, output_tokens=1, model="m")


@pytest.mark.parametrize(("cost", "known"), [(0.25, 1.25), (None, 1.0)], ids=["known", "not known"])
def test_what_a_tool_spent_is_priced_where_it_names_no_cost(cost: float | None, known: float) -> None:
    """Each usage by itself, as those of turns are, and before a budget looks at it."""

    def scene(stage: Stage) -> Any:
        asked, seen = list[Usage](), list[Spend]()

        def price(usage: Usage) -> float | None:
            asked.append(usage)
            return cost

        def look(ctx: Context) -> None:
            ctx.add_usage(PRICED)
            seen.append(ctx.spend)

        options: Any = {"price": price, "budget": Budget(max_cost_usd=9.0)}
        ran = stage.run(call("c1", "ask") | {"usage": SPENT}, DONE, tools=[asking(stage.driver, look)], **options)
        missing = [seen[0].unpriced, ran.spend.unpriced]
        return asked, [one.usage and one.usage.cost_usd for one in ran.results], missing, ran.status

    missing, status = ([0, 1], "answered") if cost else ([1, 1], "usage_missing")
    assert everywhere(scene) == ([PRICED], [known], missing, status)


def test_by_hand_nobody_is_told() -> None:
    """A tool can be called without a run, in which nothing is used."""
    ctx = Context()
    ctx.add_usage(SPENT)
    assert (ctx.spend, ctx.budget) == (Spend(), Budget())


def test_only_usage_can_be_told() -> None:
    """What is no Usage is refused where it is told."""
    with pytest.raises(TypeError, match=r"^add_usage takes a Usage, not 0\.5$"):
        Context().add_usage(0.5)  # type: ignore[arg-type]

    class Own(Usage):
        """A class made of it, whose fields nobody could read back."""

    with pytest.raises(TypeError, match=r"^add_usage takes a Usage, not .*Own\("):
        Context().add_usage(Own())


# --- step by step -----------------------------------------------------------------------------------------------


def standing(end: Any = "Ada", budget: Budget | None = None, **options: Any) -> Loop:
    """A loop that waits for the results of one or two calls of a tool that spends; the model itself was free."""
    loop = Loop("go", tools=[asking(THREADS, end, **options)], budget=budget, at=0.0)
    loop.send(CancelPolled(False, at=0.0))
    free = {"usage": {"input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0}}
    loop.replied(calls(call("c1", "ask"), call("c2", "ask")) | free, at=0.0)
    loop.send(CancelPolled(False, at=0.0))
    loop.send(CancelPolled(False, at=0.0))
    return loop


def asked(loop: Loop, place: int = 0) -> Any:
    """A call of the loop that is running."""
    request: Any = loop.requests[0]
    return next(one for one in request.calls if one.place == place)


def test_a_call_that_a_host_of_ones_own_cut_short_is_paid_too() -> None:
    """The event gets what the call told, since no result brought it; the Advance shows the event that was taken."""
    loop = standing()
    one = asked(loop)
    assert loop.perform(one).usage == TWICE
    taken = loop.send(CallReturned(CallResult.of(one, "interrupted", "cut short"), at=1.0))
    cut = attrs.evolve(CallResult.of(one, "interrupted", "cut short"), usage=TWICE)
    logged = loop.snapshot.events[-1]
    assert (taken.event, logged, loop.snapshot.cost_usd) == (CallReturned(cut, at=1.0), taken.event, 1.0)


def test_an_event_that_is_refused_pays_nothing() -> None:
    """What the call told is still there for the event that is taken."""
    loop = standing()
    one = asked(loop)
    loop.perform(one)
    with pytest.raises(UnexpectedEvent):
        loop.send(CallReturned(attrs.evolve(CallResult.of(one, "failed", "no"), id="other"), at=1.0))
    loop.send(CallReturned(CallResult.of(one, "failed", "no"), at=1.0))
    assert loop.snapshot.cost_usd == 1.0


def test_usage_that_a_host_gives_itself_is_taken_as_it_is() -> None:
    """It may know better."""
    loop = standing()
    loop.send(CallReturned(loop.perform(asked(loop)), SPENT, at=1.0))
    shown = loop.result().to_dict()["steps"][0]["calls"][0]["usage"]
    assert (loop.snapshot.cost_usd, loop.snapshot.tokens, shown) == (0.5, 10, attrs.asdict(SPENT))


def test_a_usage_given_by_hand_is_not_priced() -> None:
    """Only what the call itself told is, by the price that the loop has then."""
    loop = standing(end=lambda ctx: ctx.add_usage(PRICED))
    loop.price = lambda usage: 0.25
    brought = [loop.perform(asked(loop, place)) for place in (0, 1)]
    loop.send(CallReturned(brought[0], PRICED, at=1.0))
    loop.send(CallReturned(brought[1], at=1.0))
    assert ([one.usage and one.usage.cost_usd for one in brought], loop.snapshot.cost_usd) == ([1.25, 1.25], 1.25)


def test_what_a_call_tells_when_it_has_brought_its_result_is_dropped() -> None:
    """Whether the machine has that result by then or not."""
    contexts: list[Context] = []
    loop = standing(end=contexts.append)
    brought = loop.perform(asked(loop))
    contexts[0].add_usage(SPENT)
    between = loop._spend().cost_usd
    loop.send(CallReturned(brought, at=1.0))
    contexts[0].add_usage(SPENT)
    assert (between, loop.snapshot.cost_usd, loop._spend().cost_usd) == (1.0, 1.0, 1.0)


def test_what_a_lost_call_told_is_counted_once_when_its_result_is_found() -> None:
    """Its bill is closed with that result, whoever brings it."""
    loop = standing()
    first, second = asked(loop), asked(loop, 1)
    brought = loop.perform(first)
    loop.send(CallReturned(loop.perform(second), at=1.0))
    loop.send(CallLost(first.step, first.place, at=1.0))
    before = loop._spend().cost_usd
    loop.send(resolved(word(first, result=brought), at=1.0))
    assert (before, loop.snapshot.cost_usd, loop._spend().cost_usd) == (2.0, 2.0, 2.0)


@pytest.mark.parametrize("found", ["unknown", "another result", "rerun"])
def test_what_a_lost_call_spent_is_spent_when_somebody_says_what_became_of_it(found: str) -> None:
    """Where no result tells it; the budget knows before anything is started again."""
    loop = standing(budget=Budget(max_cost_usd=1.0))
    first, second = asked(loop), asked(loop, 1)
    loop.perform(first)
    loop.send(CallReturned(result(second), Usage(input_tokens=1, output_tokens=1, cost_usd=0.0), at=1.0))
    loop.send(CallLost(first.step, first.place, at=1.0))
    before = loop.snapshot.cost_usd
    said: dict[str, dict[str, Any]] = {
        "another result": {"result": CallResult.of(first, "ok", "found")},
        "rerun": {"rerun": True},
    }
    loop.send(resolved(word(first, **said.get(found, {})), at=1.0))
    told = loop.snapshot.cost_usd, loop.snapshot.events[-1].usage, loop._spend().cost_usd
    while not loop.finished:
        loop.send(CancelPolled(False, at=1.0))
    broke = [broken(move) for move in moves(TOOL_LOOP, loop._start, loop.snapshot.events)]
    assert (before, told, loop.result().status, broke) == (0.0, (1.0, TWICE, 1.0), "cost_budget", [{}] * len(broke))


def interrupted(ctx: Context) -> None:
    """Somebody ends the program."""
    raise KeyboardInterrupt


def test_what_a_call_spent_that_brought_no_result_is_spent_when_it_is_lost() -> None:
    """No result will tell it; what is told twice is counted once."""
    loop = standing(interrupted, Budget(max_cost_usd=1.0))
    first, second = asked(loop), asked(loop, 1)
    for one in (first, second):
        with pytest.raises(KeyboardInterrupt):
            loop.perform(one)
    loop.send(CallLost(first.step, first.place, at=1.0))
    told = loop.snapshot.cost_usd, loop.snapshot.events[-1].usage
    loop.send(CallLost(second.step, second.place, SPENT, at=1.0))
    broke = [broken(move) for move in moves(TOOL_LOOP, loop._start, loop.snapshot.events)]
    again = Loop.from_json(loop.to_json(), tools=[asking(THREADS, "Ada")])
    assert (told, loop.snapshot.cost_usd, loop._spend().cost_usd) == ((1.0, TWICE), 1.5, 1.5)
    assert (again.snapshot == loop.snapshot, broke) == (True, [{}] * len(broke))


def test_one_call_does_not_pay_for_another() -> None:
    """Each has a bill of its own, and no other event pays it."""
    loop = standing()
    first, second = asked(loop), asked(loop, 1)
    brought = [loop.perform(first), loop.perform(second)]
    loop.send(CallLost(first.step, first.place, at=1.0))
    assert loop.snapshot.cost_usd == 0.0
    loop.send(CallReturned(brought[1], at=1.0))
    assert (loop.snapshot.cost_usd, brought[0].usage) == (1.0, TWICE)


def test_a_bill_stays_open_while_others_are_paid() -> None:
    """Until the result of its own call is taken."""
    loop = standing()
    brought, cut = loop.perform(asked(loop)), asked(loop, 1)
    loop.perform(cut)
    loop.send(CallReturned(brought, at=1.0))
    loop.send(CallReturned(CallResult.of(cut, "interrupted", "cut short"), at=1.0))
    assert loop.snapshot.cost_usd == 2.0


def test_a_call_that_is_run_again_pays_for_both_times() -> None:
    """What was spent before it was lost was spent."""
    loop = standing(effect="read")
    first = asked(loop)
    loop.perform(first)
    loop.send(CallLost(first.step, first.place, at=1.0))
    loop.send(CancelPolled(False, at=1.0))
    loop.send(CallReturned(loop.perform(asked(loop)), at=1.0))
    assert loop.snapshot.cost_usd == 2.0


def test_a_result_performed_elsewhere_brings_its_usage_along() -> None:
    """As from a worker with a loop of its own, through JSON."""
    loop = standing()
    worker = Loop.from_json(loop.to_json(), tools=[asking(THREADS, "Ada")])
    loop.send(CallReturned(worker.perform(asked(loop)), at=1.0))
    again = Loop.from_json(loop.to_json(), tools=[asking(THREADS, "Ada")])
    same = again.snapshot == loop.snapshot and again.to_json() == loop.to_json()
    assert (loop.snapshot.cost_usd, same) == (1.0, True)


# --- the machine ------------------------------------------------------------------------------------------------


def test_the_usage_of_a_result_is_that_of_the_event_unless_another_is_given() -> None:
    """So that nothing is lost whoever tells it."""
    paid = attrs.evolve(result(ONE), usage=SPENT)
    told = [CallReturned(paid, at=0.0), CallReturned(paid, TWICE, at=0.0), CallReturned(result(ONE), at=0.0)]
    assert [one.usage for one in told] == [SPENT, TWICE, None]


@pytest.mark.parametrize("cost", [0.5, None], ids=["known", "unknown"])
def test_what_a_lost_call_spent_is_spent_when_somebody_finds_it_out(cost: float | None) -> None:
    """The result of a resolution brings its usage as any result; the promises know."""
    start = begun(budget=Budget(max_cost_usd=9.0))
    told = attrs.evolve(result(ONE), usage=usage(10, cost))
    turn = asks(ONE, TWO, usage=usage(10, 0.5))
    found = resolved(word(ONE, result=told), word(TWO, result=result(TWO)))
    events = [polled(), replied(turn), polled(), polled(), lost(ONE), lost(TWO), found, polled()]
    end, _ = walk(start, *events)
    broke = [broken(move) for move in moves(TOOL_LOOP, start, events)]
    state, steps = ("awaiting_model", 2) if cost else ("finished_usage_missing", 1)
    spend = Spend(steps=steps, calls=2, cost_usd=0.5 + (cost or 0.0), tokens=20, unpriced=cost is None)
    assert (end.spend, end.state, broke) == (spend, state, [{}] * len(events))
