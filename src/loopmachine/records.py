"""What the machine knows, as frozen records. Everything in them is JSON-shaped; JSON values are kept as text."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self
from typing import Final as Constant

import attrs

from loopmachine import blocks
from loopmachine.frozen import json_object, thaw
from loopmachine.history import EventLog, History, Ids
from loopmachine.kinds import what_a_turn_is
from loopmachine.limits import Budget, Policy, Spend, Usage
from loopmachine.quick import quick

OUTCOMES: Constant = (
    "ok",
    "failed",
    "denied",
    "invalid_arguments",
    "unknown_tool",
    "timed_out",
    "over_budget",
    "repeated",
    "not_started",
    "interrupted",
    "unknown",
)
EFFECTS: Constant = ("read", "idempotent", "transactional", "once")


_blank = object.__new__
_set = object.__setattr__


class Record:
    """A frozen record without slots, which can be copied several times faster than ``attrs.evolve`` does.

    A class of it with slots raises TypeError, for a copy would lose what they hold; so does one with a cached_property,
    which it would keep, and one with a ``but`` of its own, for the machine has another one between two rests.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__slots__" in vars(cls):
            raise TypeError(f"{cls.__name__}: a snapshot has no slots; write @attrs.frozen(slots=False, kw_only=True)")
        if cls.but is not Record.but:
            raise TypeError(
                f"{cls.__name__}.but: what a snapshot is copied with can't be another; name yours otherwise"
            )
        for name, value in vars(cls).items():
            if isinstance(value, cached_property):
                raise TypeError(f"{cls.__name__}.{name}: a copy would keep what this one found; write @property")

    def but(self, /, **changes: Any) -> Self:
        """This record with other values in the fields named. Validators and defaults are not run again."""
        fields = self.__dict__
        changed = {**fields, **changes}
        if len(changed) != len(fields):
            raise TypeError(f"{type(self).__name__} has no field {', '.join(changes.keys() - fields.keys())}")
        new = _blank(self.__class__)
        _fill(new, changed)
        return new


_fill = Record.__dict__["__dict__"].__set__  #: gives a blank record its fields


# --- what was said ------------------------------------------------------------------------------------


@quick
@attrs.frozen
class Call:
    """One tool call of a turn. (``step``, ``place``) is its identity, ``id`` what the provider calls it."""

    id: str
    name: str
    arguments_text: str = "{}"  #: the arguments as the model wrote them
    step: int = attrs.field(default=0, kw_only=True)
    place: int = attrs.field(default=0, kw_only=True)
    # What the toolbox says of it, before the machine sees it:
    known: bool = attrs.field(default=False, kw_only=True)  #: there is such a tool
    checked: str | None = attrs.field(default=None, kw_only=True)  #: the arguments as JSON, checked and coerced
    problem: str = attrs.field(default="", kw_only=True)  #: the sentence for the model where it can't run
    effect: str = attrs.field(default="once", kw_only=True)
    needs_approval: bool = attrs.field(default=False, kw_only=True)
    alone: bool = attrs.field(default=False, kw_only=True)  #: runs beside no other
    limit: int | None = attrs.field(default=None, kw_only=True)  #: calls of this tool that a run may make
    # What admission says of it:
    sent_id: str = attrs.field(default="", kw_only=True)  #: the id sent back, where ``id`` was used before

    @property
    def key(self) -> tuple[int, int]:
        """The identity: (step, place in the turn)."""
        return self.step, self.place

    @property
    def wire_id(self) -> str:
        """The id that what is sent back bears, the same in call and result."""
        return self.sent_id or self.id

    @property
    def arguments(self) -> Any:
        """What the model wrote: a new object, or the text where it is no JSON object."""
        value = json_object(self.arguments_text)
        return self.arguments_text if value is None else value

    @property
    def checked_arguments(self) -> dict[str, Any] | None:
        """What the tool will be called with: a new object, checked and coerced. None: it can't run.

        The tool's defaults are in it where the call needs approval; elsewhere the tool itself adds them.
        """
        return None if self.checked is None else thaw(self.checked)


@quick
@attrs.frozen
class CallResult:
    """What a call brought. ``outcome`` is one of ``OUTCOMES`` and says truthfully what happened."""

    step: int
    place: int
    id: str
    name: str
    outcome: str
    content: str
    code: str = ""  #: of a denial, or of a tool's own failure
    usage: Usage | None = attrs.field(default=None, kw_only=True)  #: what the call spent, where it asked a model itself
    blocks_text: str | None = attrs.field(default=None, kw_only=True)  #: ``blocks`` as JSON; None: it is text alone

    def __attrs_post_init__(self) -> None:
        if self.outcome not in OUTCOMES:
            raise ValueError(f"CallResult: outcome must be one of {', '.join(OUTCOMES)}, not {self.outcome!r}")
        if self.blocks_text is not None and (wrong := blocks.fault(self.blocks_text)):
            raise ValueError(f"CallResult: blocks_text must be JSON of text and image blocks: {wrong}")

    @classmethod
    def of(cls, call: Call, outcome: str, content: str, code: str = "") -> CallResult:
        """The result of ``call``."""
        return cls(call.step, call.place, call.wire_id, call.name, outcome, content, code)

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """What the tool returned as blocks, new each time it is read; none where it returned text alone.

        Each ``{"kind": "text", "text"}`` or ``{"kind": "image", "media_type", "data"}``, the data in base64.
        """
        return [] if self.blocks_text is None else thaw(self.blocks_text)

    def message(self) -> dict[str, Any]:
        """The PLAIN message."""
        message = {"kind": "tool_result", "id": self.id, "content": self.content, "outcome": self.outcome}
        return message if self.blocks_text is None else message | {"blocks": self.blocks}

    @property
    def key(self) -> tuple[int, int]:
        """The identity of its call."""
        return self.step, self.place


@quick
@attrs.frozen
class Turn:
    """What one step brought. ``kind`` is calls, final, truncated, refused or malformed; ``fault`` says why not."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    stop: str = ""  #: the provider's stop reason, word for word
    usage: Usage | None = None
    payload_text: str | None = None  #: the provider's own message, as JSON, to be sent back unchanged
    wire: str = ""  #: the name of the wire in whose shape the payload is
    fault: str = ""
    kind: str = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        try:
            kind, fault = what_a_turn_is(self.stop, len(self.calls), self.text, self.fault)
        except (AttributeError, TypeError):
            told = f"stop={self.stop!r}, calls={self.calls!r}, text={self.text!r}"
            raise TypeError(f"Turn: stop and text must be text and calls a tuple of Calls, not {told}") from None
        _set(self, "kind", kind)
        if fault != self.fault:
            _set(self, "fault", fault)

    @property
    def payload(self) -> Any:
        """The provider's own message, new each time it is read."""
        return None if self.payload_text is None else thaw(self.payload_text)


@attrs.frozen
class UserMessage:
    """What the user said. In more than text it has a payload: the message, for the wire in whose shape it is."""

    text: str
    payload_text: str | None = attrs.field(default=None, repr=False)
    wire: str = attrs.field(default="", repr=False)

    @property
    def payload(self) -> Any:
        """The message, new each time it is read."""
        return None if self.payload_text is None else thaw(self.payload_text)

    def messages(self) -> list[dict[str, Any]]:
        """The PLAIN message."""
        return [{"kind": "user", "text": self.text}]

    def __len__(self) -> int:
        return 1


@quick
@attrs.frozen
class Exchange:
    """A turn that asks for calls together with the results of all of them, in the order they were asked for."""

    turn: Turn
    results: tuple[CallResult, ...]

    def messages(self) -> list[dict[str, Any]]:
        """The PLAIN messages: the text, then all calls, then all results."""
        said = [{"kind": "text", "text": self.turn.text}] if self.turn.text else []
        calls = [
            {"kind": "call", "id": call.wire_id, "name": call.name, "arguments": call.arguments}
            for call in self.turn.calls
        ]
        return [*said, *calls, *[one.message() for one in self.results]]

    def __len__(self) -> int:
        return bool(self.turn.text) + 2 * len(self.results)


@attrs.frozen
class Note:
    """What the machine told the model: why its last turn could not be used."""

    text: str

    def messages(self) -> list[dict[str, Any]]:
        """The PLAIN message."""
        return [{"kind": "note", "text": self.text}]

    def __len__(self) -> int:
        return 1


@quick
@attrs.frozen
class Final:
    """The answer."""

    turn: Turn

    def messages(self) -> list[dict[str, Any]]:
        """The PLAIN message."""
        return [{"kind": "final", "text": self.turn.text}]

    def __len__(self) -> int:
        return 1


# --- where a run stands -------------------------------------------------------------------------------


@attrs.frozen
class Failure:
    """Why asking the model brought no turn. ``retry_after`` is in seconds."""

    code: str
    message: str = ""
    retryable: bool = False
    retry_after: float | None = None
    timed_out: bool = False


@attrs.frozen
class Decision:
    """Somebody's word on a call that needs approval; ``reason`` is what the model is told of a refusal."""

    step: int
    place: int
    approved: bool
    reason: str = ""


@attrs.frozen
class Resolution:
    """Somebody's word on a lost call: run it again (``rerun``), its ``result``, or neither: it stays unknown."""

    step: int
    place: int
    rerun: bool = False
    result: CallResult | None = None


QUEUED, RUNNING, LOST, ANSWERED = "queued", "running", "lost", "answered"


@quick
@attrs.frozen
class Flight:
    """An admitted turn's call on its way to a result: queued, running, lost or answered."""

    call: Call
    phase: str
    losses: int = 0
    result: CallResult | None = None


@attrs.frozen(slots=False, kw_only=True)
class BaseSnapshot(Record):
    """What the machine needs of any table's snapshot: a state, a clock, and the log of what it took.

    A snapshot class of your own is ``@attrs.frozen(slots=False, kw_only=True)``, and made with all its fields.
    """

    state: str
    clock: float = 0.0  #: seconds: the latest ``at``
    log: EventLog = attrs.field(factory=EventLog)  #: each event with the rows that it took

    @property
    def events(self) -> tuple[Any, ...]:
        """The events taken, in order."""
        return tuple(event for event, _ in self.log)

    @property
    def rows(self) -> tuple[str, ...]:
        """The rows taken, in order, each as "state/number"."""
        return tuple(row for _, rows in self.log for row in rows)


@attrs.frozen(slots=False, kw_only=True)
class Snapshot(BaseSnapshot):
    """Everything the machine knows of a run of the tool-calling loop."""

    history: History = attrs.field(factory=History)
    handed_in: int = 0  #: how many entries of the history were there before the run
    budget: Budget = Budget()
    policy: Policy = Policy()
    # what is used of the budget
    steps: int = 0
    calls: int = 0
    cost_usd: float = 0.0
    tokens: int = 0
    unpriced: int = 0
    unmetered: int = 0
    since: float = 0.0  #: when the run would have begun, had it never waited for a person
    # what the last step brought
    turn: Turn | None = None
    failure: Failure | None = None
    not_before: float | None = None  #: when the provider lets us ask again
    retries: int = 0  #: consecutive retryable failures borne
    repairs: int = 0  #: consecutive malformed turns answered
    wrapping: bool = False  #: the last step was offered no tools
    decisions: tuple[Decision, ...] = ()
    flights: tuple[Flight, ...] = ()
    # what holds for the run
    cancelled: bool = False  #: a cancel was observed; it sticks
    cancel_reason: str = ""
    ids: Ids = attrs.field(factory=Ids)  #: the call ids used so far
    tool_calls: tuple[tuple[str, int], ...] = ()  #: calls admitted of each tool that has a limit
    identical: int = 0  #: how many turns in a row brought the same calls and results

    def seconds(self, at: float) -> float:
        """The seconds spent at the time ``at``. A clock that goes back stands still."""
        return (at if at > self.clock else self.clock) - self.since

    @property
    def spend(self) -> Spend:
        """What is used of the budget."""
        return Spend(
            steps=self.steps,
            calls=self.calls,
            seconds=self.seconds(self.clock),
            cost_usd=self.cost_usd,
            tokens=self.tokens,
            unpriced=self.unpriced,
            unmetered=self.unmetered,
        )

    @property
    def deadline(self) -> float | None:
        """When the time budget is spent, on the clock of ``at``."""
        limit = self.budget.max_seconds
        return None if limit is None else self.since + limit
