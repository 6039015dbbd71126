"""What happened, told to the machine in the past tense. ``at`` is the host's clock, in seconds.

Events carry facts, the machine decides. They are frozen and JSON-shaped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, TypeVar

import attrs

from loopmachine.errors import check_pause
from loopmachine.limits import Budget, Usage
from loopmachine.quick import quick
from loopmachine.records import CallResult, Decision, Resolution, Turn

T = TypeVar("T")


def _all(kind: type[T], words: Iterable[T], field: str) -> tuple[T, ...]:
    """The words, where nobody can change them."""
    said = tuple(words) if isinstance(words, Iterable) else words
    if not isinstance(said, tuple) or not all(isinstance(one, kind) for one in said):
        raise TypeError(f"{field} must be a list of {kind.__name__}s, not {said!r}")
    return said


def _decisions(words: Iterable[Decision]) -> tuple[Decision, ...]:
    return _all(Decision, words, "ApprovalGiven: decisions")


def _resolutions(words: Iterable[Resolution]) -> tuple[Resolution, ...]:
    return _all(Resolution, words, "CallsResolved: resolutions")


class Event:
    """The root of all events. One that ``answers`` is taken only while a request waits for it."""

    __slots__ = ()
    answers: ClassVar[bool] = False
    at: float
    # What only some events tell, so that a guard can ask any of them:
    cancelled: bool = False  #: somebody wants the run cancelled
    usage: Usage | None = None  #: what was spent


@quick
@attrs.frozen
class CancelPolled(Event):
    """Somebody looked whether the run is to be cancelled."""

    answers: ClassVar[bool] = True
    cancelled: bool
    reason: str = ""
    at: float = attrs.field(kw_only=True)


@attrs.frozen
class CancelRequested(Event):
    """The run is to be cancelled; told without being asked."""

    cancelled: ClassVar[bool] = True  # type: ignore[misc]  # a constant of this kind, a field of CancelPolled
    reason: str = ""
    at: float = attrs.field(kw_only=True)


@quick
@attrs.frozen
class ModelReplied(Event):
    """The model brought a turn, its calls prepared by the toolbox."""

    answers: ClassVar[bool] = True
    turn: Turn
    at: float = attrs.field(kw_only=True)


@attrs.frozen
class ModelFailed(Event):
    """Asking the model brought no turn. Without ``usage`` nothing was billed."""

    answers: ClassVar[bool] = True
    code: str
    message: str = ""
    retryable: bool = False
    retry_after: float | None = attrs.field(default=None)  #: seconds
    timed_out: bool = False  #: the run's deadline passed
    usage: Usage | None = None
    at: float = attrs.field(kw_only=True)

    @retry_after.validator
    def _finite(self, _: object, value: float | None) -> None:
        check_pause("ModelFailed", value)


@attrs.frozen
class ApprovalGiven(Event):
    """Somebody decided one or more of the calls that were asked about."""

    answers: ClassVar[bool] = True
    decisions: tuple[Decision, ...] = attrs.field(converter=_decisions)
    at: float = attrs.field(kw_only=True)


@quick
@attrs.frozen
class CallReturned(Event):
    """A running call brought a result. ``usage`` is what the call spent, that of its result where none is given.

    Its fields are None where somebody did not say.
    """

    answers: ClassVar[bool] = True
    result: CallResult
    usage: Usage | None = None
    at: float = attrs.field(kw_only=True)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.result, CallResult):
            raise TypeError(
                f"CallReturned: result must be a CallResult, which loop.perform(call) gives, not {self.result!r}"
            )
        if self.usage is None and self.result.usage is not None:
            object.__setattr__(self, "usage", self.result.usage)


@attrs.frozen
class CallLost(Event):
    """Nobody knows any more what a running call did, or does. ``usage`` is what it is known to have spent."""

    answers: ClassVar[bool] = True
    step: int
    place: int
    usage: Usage | None = None
    at: float = attrs.field(kw_only=True)


@attrs.frozen
class CallsResolved(Event):
    """Somebody decided what becomes of one or more of the lost calls.

    ``usage`` is what those are known to have spent whose result does not say it.
    """

    answers: ClassVar[bool] = True
    resolutions: tuple[Resolution, ...] = attrs.field(converter=_resolutions)
    usage: Usage | None = None
    at: float = attrs.field(kw_only=True)


@attrs.frozen
class Resumed(Event):
    """A host took the run up again: its clock starts again, what was under way is lost, the budget may be new."""

    budget: Budget | None = None
    at: float = attrs.field(kw_only=True)
