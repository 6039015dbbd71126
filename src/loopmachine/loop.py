"""A run driven step by step: the machine's state together with the toolbox and the wire it speaks."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import attrs

from loopmachine import envelope, notices, rules
from loopmachine.bills import Bills
from loopmachine.codec import ENTRY, check_event, misfits, must_be, own_events
from loopmachine.definition import Definition
from loopmachine.errors import ModelError, carried, pause_of, shown, text_of
from loopmachine.events import Event, ModelFailed, ModelReplied
from loopmachine.frozen import freeze
from loopmachine.history import History, Ids
from loopmachine.limits import Budget, Policy, Spend, Usage, is_number
from loopmachine.machine import Advance, engine, outstanding, replay
from loopmachine.records import Call, CallResult, Exchange, Snapshot, Turn, UserMessage
from loopmachine.requests import AskModel, Request
from loopmachine.result import Result
from loopmachine.table import TOOL_LOOP
from loopmachine.tools import CallToken, Context, Toolbox
from loopmachine.tools.signature import is_async
from loopmachine.tools.toolbox import ErrorText
from loopmachine.tools.words import said_by
from loopmachine.wire import PLAIN, Encoding, Messages, Wire
from loopmachine.wire.given import opened

Price = Callable[[Usage], float | None]
Prompt = str | Sequence[Any]  #: text, or messages in the shape of the wire


class Loop:
    """One run of the tool-calling loop, for workflow code that owns its own IO.

    Perform what ``requests`` asks for and tell the machine with ``send`` (a reply with ``replied``) until it is
    ``finished``. ``at`` is your clock, in seconds. At any rest ``to_json`` gives the whole run as text.
    Raises TypeError or ValueError, by name, for anything that it can't be made of.
    """

    def __init__(
        self,
        prompt: Prompt | None = None,
        *,
        tools: Iterable[Any] = (),
        budget: Budget | None = None,
        policy: Policy | None = None,
        wire: Wire = PLAIN,
        history: History | None = None,
        system: str | None = None,
        context: Any = None,
        price: Price | None = None,
        cancel: Any = None,
        definition: Definition = TOOL_LOOP,
        at: float,
    ) -> None:
        chosen = Policy() if policy is None else policy
        limits = Budget() if budget is None else budget
        for name, value, kind in (("policy", chosen, Policy), ("budget", limits, Budget), ("wire", wire, Wire)):
            must_be(name, value, kind)
        error_text = chosen.error_text
        if callable(error_text):  # which is no part of a snapshot
            chosen = attrs.evolve(chosen, error_text="message")
        must_be("definition", definition, Definition)
        prompt, history, system = opened(wire, prompt, history, system, chosen.repeated_id)
        start = _start(prompt, history, definition.initial, at).but(budget=limits, policy=chosen)
        self._assemble(start, tools, error_text, wire, system, context, price, cancel, definition)

    def _assemble(
        self,
        start: Snapshot,
        tools: Iterable[Any],
        error_text: ErrorText,
        wire: Wire,
        system: str | None,
        context: Any,
        price: Price | None,
        cancel: Any,
        definition: Definition,
    ) -> None:
        must_be("tools", tools, Iterable, "an iterable of tools")
        must_be("system", system, str | None)
        for name, value in (("price", price), ("cancel", cancel)):
            if value is not None and not callable(value):
                raise TypeError(f"{name} must be callable or None, not {value!r}")
            if is_async(value):
                raise TypeError(f"{name} is async; it is asked and not awaited, and must not be")
        own_events(definition)
        self.definition = definition
        self.toolbox = Toolbox(tools, _warning(self))
        self.wire = wire
        self.system = system
        self.context = context
        self.price = price
        self.cancel = cancel
        self.error_text = error_text
        self.warn: Callable[[notices.Warning], None] = notices.log_warning
        self.hosts: dict[str, Any] = {}  #: the host that drives it, under "host"
        self.observer_failed = False  #: which is reported once
        self.bills = Bills()  #: what running calls say that they spent
        self.snapshot = self._start = start
        self._engine = engine(definition)
        #: all outstanding requests as the machine made them, an AskModel without its messages
        self.waiting: tuple[Request, ...] = outstanding(definition, start)
        self._encoding = Encoding(wire, system, _warning(self))
        self._offer = [freeze(tool) for tool in wire.offer(self.toolbox.schemas())]

    # --- what it wants, and what it is told ---------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """The run is in a final state."""
        return self.definition.states[self.snapshot.state].final is not None

    @property
    def requests(self) -> tuple[Request, ...]:
        """All outstanding requests; an AskModel holds messages, tools and system in the wire's shape."""
        return tuple(self.asking(one) if isinstance(one, AskModel) else one for one in self.waiting)

    @property
    def driven(self) -> bool:
        """A host is at work on it, and can go on."""
        return any(not host.gone for host in self.hosts.values())

    def send(self, event: Event) -> Advance:
        """Tell the machine what happened. Raises UnexpectedEvent, and changes nothing, where it does not fit.

        TypeError, which lists it all, for an event that holds what is not of the types of its fields. RuntimeError
        while a host drives this loop: a run under way is told to stop with its CancelToken.
        """
        check_event(event, self.definition)
        return self._told(event)

    def _told(self, event: Event) -> Advance:
        """``send`` for what was made of the right types here."""
        if self.driven:
            raise RuntimeError("a host is driving this loop and tells it what happens; to stop it, use cancel=")
        return self.shown(event)

    def shown(self, event: Event) -> Advance:
        """``send`` for the host."""
        asked = self.waiting
        event = self.take(event)
        snapshot = self.snapshot.but()  # one of the observer's own, whatever is done to it
        return Advance(snapshot, snapshot.log.latest, event, asked, self.waiting)

    def take(self, event: Event) -> Event:
        """``send`` for a host that has nobody to show the Advance to: the event as the machine was told it."""
        before, paid = self.snapshot, None
        if self.bills:
            event, paid = self.bills.told(event)
        after, waiting = self._engine.take(before, event, self.waiting)
        if self.snapshot is not before:
            raise RuntimeError(
                f"another event was sent while {type(event).__name__} was taken, which is not in the log"
            )
        self.snapshot, self.waiting = after, waiting
        if paid is not None:
            self.bills.close(after, paid)
        return event

    def asking(self, ask: AskModel) -> AskModel:
        """The request with what the model is to be given, all of it its own to do anything with."""
        told = {"messages": self.messages(), "tools": self.tools(ask), "system": self.wire.aside(self.system)}
        return attrs.evolve(ask, **told, cancel=self._token(), clock=self._clock)

    def messages(self) -> Messages:
        """The history in the wire's shape: a list of your own, made where you look."""
        return self._encoding.messages(self.snapshot.history)

    def tools(self, ask: AskModel) -> Messages:
        """The tools in the wire's shape: none where none are offered, unless the wire needs their schemas."""
        offered = ask.tool_choice != "none" or self.wire.needs_schemas
        return self._encoding.listed(self._offer if offered else [])

    def replied(self, reply: Any, *, at: float) -> Advance:
        """Tell the machine what the model replied, in the wire's shape. A reply of no shape is a malformed turn."""
        return self._told(ModelReplied(self.turn(reply), at=at))

    def turn(self, reply: Any) -> Turn:
        """What a reply brings in this step: decoded, priced, its calls prepared for the machine."""
        step, ids, toolbox = self.snapshot.steps, self.snapshot.ids, self.toolbox
        turn = self.wire.decode(reply, lambda asked: toolbox.calls(asked, step, ids))
        if turn is reply:
            turn = toolbox.prepare(turn, step, ids)
        if turn.usage is not None and (usage := self._priced(turn.usage)) is not turn.usage:
            turn = attrs.evolve(turn, usage=usage)
        return turn

    def failed(self, error: BaseException, *, at: float, timed_out: bool = False) -> Advance:
        """Tell the machine that asking the model raised. TypeError for what is no exception."""
        return self.send(self.failure(error, at=at, timed_out=timed_out))

    def failure(self, error: BaseException, *, at: float, timed_out: bool = False) -> ModelFailed:
        """What it means that asking the model raised: only a ModelError can say that it may be asked again."""
        must_be("error", error, BaseException, "the exception that asking the model raised")
        name, said = type(error).__name__, said_by(error)
        if not isinstance(error, ModelError):
            return ModelFailed(name, said, timed_out=timed_out, at=at)
        return ModelFailed(
            text_of(error, "code", name),
            text_of(error, "message", said),
            carried(error, "retryable") is True,
            pause_of(error),
            timed_out or carried(error, "timed_out") is True,
            at=at,
        )

    def _priced(self, usage: Usage) -> Usage:
        """What was told, with the cost that the price knows where nobody named one."""
        if self.price is None or usage.cost_usd is not None:
            return usage
        try:
            cost: Any = self.price(usage)
            if not isinstance(cost, float | int | str | None):  # a Decimal
                cost = float(cost)
            return attrs.evolve(usage, cost_usd=cost)
        except Exception as wrong:  # a price that isn't known is never zero: usage_missing says so at the gate
            self.warn(notices.Warning(f"price: no cost for {usage!r}: {type(wrong).__name__}: {said_by(wrong)}"))
            return usage

    # --- tools --------------------------------------------------------------------------------------------

    def perform(self, call: Call, *, progress: Callable[..., None] | None = None) -> CallResult:
        """Run a sync tool for a granted call; whatever it raises becomes a result that says so.

        TypeError for what is no Call, and for an async tool.
        """
        must_be("call", call, Call, _GRANTED)
        result = self.toolbox.perform(
            call,
            self._context(call, progress),
            error_text=self.error_text,
            max_chars=self.snapshot.policy.max_result_chars,
        )
        return self.bills.billed(result) if self.bills else result

    async def perform_async(self, call: Call, *, progress: Callable[..., None] | None = None) -> CallResult:
        """The same for an async tool. A CancelledError passes through."""
        must_be("call", call, Call, _GRANTED)
        result = await self.toolbox.perform_async(
            call,
            self._context(call, progress),
            error_text=self.error_text,
            max_chars=self.snapshot.policy.max_result_chars,
        )
        return self.bills.billed(result) if self.bills else result

    # --- the run as a whole -------------------------------------------------------------------------------

    def result(self) -> Result:
        """The run as it stands."""
        return Result(self.definition, self.snapshot, self)

    def to_json(self) -> str:
        """The whole run as text: how it began, every event, and the rows taken. Callables are no part of it."""
        return envelope.write(self._start, self.snapshot, self.wire, self.system, self.error_text)

    @classmethod
    def from_json(
        cls,
        text: str,
        *,
        tools: Iterable[Any] = (),
        error_text: ErrorText | None = None,
        context: Any = None,
        price: Price | None = None,
        cancel: Any = None,
        wire: Wire | None = None,
        definition: Definition = TOOL_LOOP,
    ) -> Self:
        """A run that ``to_json`` wrote, by replaying its events; callables and a wire of your own are given again.

        Unknown fields of the text are ignored. Raises ValueError for text that is no such run or of a newer
        format, ReplayDiverged where this definition does not take the events as they were taken.
        """
        must_be("definition", definition, Definition)
        data = envelope.read(text, definition)
        known = envelope.wire_of(data["wire"], wire)
        said = envelope.error_text_of(data["error_text"], error_text)
        loop = cls.__new__(cls)
        loop._assemble(data["start"], tools, said, known, data["system"], context, price, cancel, definition)
        loop.snapshot = replay(definition, data["start"], data["events"], data["rows"], data.get("state"))
        loop.waiting = outstanding(definition, loop.snapshot)
        return loop

    @property
    def _clock(self) -> Callable[[], float]:
        """That of the host, whose deadline it is; where there is none, from the latest ``at`` on."""
        ahead = self.snapshot.clock - time.monotonic()
        return self.hosts["host"].clock if self.driven else lambda: time.monotonic() + ahead

    def _token(self, **timed: Any) -> CallToken:
        """What tells a model or a tool to stop: the run's cancel, and an exception that leaves the run."""
        return CallToken(self.cancel, *[host.broken_off for host in self.hosts.values()], **timed)

    def _context(self, call: Call, progress: Callable[..., None] | None) -> Context:
        if not self.toolbox.takes_context(call):
            return _NOBODYS
        return Context(
            data=self.context,
            call=call,
            calls=self.snapshot.calls,
            cancel=self._token(deadline=self.snapshot.deadline, clock=self._clock),
            deadline=self.snapshot.deadline,
            clock=self._clock,
            budget=self.snapshot.budget,
            priced=self._priced,
            spend=self._spend,
            bill=self.bills.opened(call),
            progress=progress,
        )

    def _spend(self) -> Spend:
        """What is used by now, on the host's clock, what the machine was not told yet included."""
        snapshot = self.snapshot
        for usage in self.bills.unpaid():
            snapshot = snapshot.but(**rules.with_usage(snapshot, usage))
        seconds = snapshot.seconds(self.hosts["host"].clock() if self.driven else snapshot.clock)
        return attrs.evolve(snapshot.spend, seconds=seconds)


def _warning(loop: Loop) -> Callable[[str], None]:
    """What warns through a loop, and does not keep it."""
    held = weakref.ref(loop)
    return lambda said: kept.warn(notices.Warning(said)) if (kept := held()) else None


def _start(prompt: Any, history: History | None, initial: str, at: float) -> Snapshot:
    said = History() if history is None else history
    if not isinstance(said, History):
        raise TypeError(f"history must be a History, such as result.history, not {type(said).__name__}")
    if wrong := [f"{path} {what}" for path, what in misfits(tuple(said.entries), tuple[ENTRY, ...], "entries")]:
        raise TypeError(f"history: {'; '.join(wrong)}")
    if prompt is None:
        if not said.entries:
            raise ValueError("a run needs a prompt, or a history to go on from")
    elif not isinstance(prompt, str):
        raise TypeError(f"prompt must be text or a list of messages, not {type(prompt).__name__}")
    elif not prompt.strip():
        raise ValueError("prompt must not be blank")
    else:
        said = said.append(UserMessage(prompt))
    if not is_number(at):
        raise ValueError(f"at must be a finite number of seconds, not {shown(at)}")
    ids = Ids(result.id for entry in said.entries if isinstance(entry, Exchange) for result in entry.results)
    return Snapshot(state=initial, clock=at, since=at, history=said, handed_in=len(said.entries), ids=ids)


_NOBODYS = Context()  #: for a tool that does not look at it
_GRANTED = "a Call, as StartCalls holds them"
