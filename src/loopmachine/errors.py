"""What can go wrong, each with a sentence that says who is wrong and what would have been right."""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Sequence
from typing import Any, ClassVar


def shown(value: object) -> str:
    """``repr``, or what stands for a value that has none: a whole number may be too long to be written."""
    try:
        return repr(value)
    except Exception:  # somebody's own __repr__
        return f"<{type(value).__name__}>"


class LoopError(Exception):
    """The root of the errors that this library raises by itself. It can be copied and pickled, with all it carries."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception's own calls the class with the finished sentence, which is not what most are made of.
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]  # typeshed has none


class InvalidDefinition(LoopError, ValueError):
    """A table that can't be run. ``faults`` lists everything that is wrong with it, not the first."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("the definition can't be run:\n" + "\n".join(f"- {fault}" for fault in self.faults))


class UnexpectedEvent(LoopError):
    """An event that the state does not accept, or that answers nothing. It changed nothing."""

    def __init__(self, state: str, event: object, accepted: Sequence[str], why: str = "") -> None:
        self.state = state
        self.event = event
        self.accepted = tuple(accepted)
        listed = ", ".join(self.accepted) or "no event"
        reason = f": {why}" if why else ""
        super().__init__(f"{state} does not take this {type(event).__name__}{reason}; it accepts {listed}")


class ReplayDiverged(LoopError):
    """A recorded run that this definition does not give. ``place`` is the first event that differs, from 0."""

    def __init__(self, place: int, event: object, expected: str, got: str) -> None:
        self.place = place
        self.event = event
        what = "the end" if event is None else type(event).__name__
        super().__init__(f"event {place}, {what}, does not fit: the record has {expected}, this definition gives {got}")


def check_pause(who: str, seconds: object) -> None:
    """Refuse a pause that can't be one: TypeError for what is no number, ValueError for one that is none of seconds."""
    said = f"{who}: retry_after must be finite seconds from 0 on or None, not {shown(seconds)}"
    if isinstance(seconds, int | float) and not isinstance(seconds, bool):
        if not 0 <= seconds <= sys.float_info.max:  # a greater whole number can't be added to a clock
            raise ValueError(said)
    elif seconds is not None:
        raise TypeError(said)


class ModelError(LoopError):
    """Raised by a model callable to say what failed and whether asking again may help.

    ``code`` is a short name such as ``"rate_limit"``; ``retry_after`` is in seconds. ``timed_out``: it was given up at
    the run's deadline, which ends the run ``time_budget``. Raises TypeError or ValueError for what can't be so.
    """

    def __init__(
        self,
        code: str,
        message: str = "",
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        timed_out: bool = False,
    ) -> None:
        for name, value in (("retryable", retryable), ("timed_out", timed_out)):
            if not isinstance(value, bool):
                raise TypeError(f"ModelError: {name} must be True or False, not {shown(value)}")
        check_pause("ModelError", retry_after)
        self.code = str(code)
        self.message = str(message)
        self.retryable = retryable
        self.retry_after = retry_after
        self.timed_out = timed_out
        super().__init__(f"{code}: {message}" if message else self.code)


class Denied(LoopError):
    """Raised by a tool that refuses: the call gets the outcome ``denied`` with this code and sentence."""

    def __init__(self, code: str = "denied", message: str = "") -> None:
        self.code = str(code) if str(code).strip() else "denied"
        self.message = str(message)
        super().__init__(f"{self.code}: {message}" if self.message.strip() else self.code)


class ToolFailed(LoopError):
    """Raised by a tool that failed and says so in its own words: the call is ``failed`` with exactly this text.

    Whatever ``Policy.error_text`` says, which is for what a tool did not mean to raise. ``code`` is for programs.
    """

    outcome: ClassVar[str] = "failed"

    def __init__(self, message: str, code: str = "") -> None:
        self.message = str(message)
        self.code = str(code)
        super().__init__(self.message)


class ToolInterrupted(ToolFailed):
    """The same for a tool that stopped at the run's cancel or deadline: the call is ``interrupted``."""

    outcome = "interrupted"


class InvalidTool(LoopError, TypeError):
    """A tool that can't be offered. The sentence names the tool, the parameter and the remedy."""


# --- what was raised: a subclass may set anything, and leave out anything -----------------------------------


def carried(error: BaseException, name: str) -> Any:
    """What an error has under a name; None where it has nothing there, or can't say."""
    try:
        return getattr(error, name)
    except Exception:  # somebody's own property: what it can't tell is not there
        return None


def text_of(error: BaseException, name: str, otherwise: str) -> str:
    """What an error has under a name, as text; ``otherwise`` where it has nothing there, or can't say."""
    value = carried(error, name)
    try:
        return otherwise if value is None else str.__str__(value if isinstance(value, str) else str(value))
    except Exception:  # somebody's own __str__
        return otherwise


def pause_of(error: BaseException) -> float | None:
    """The ``retry_after`` of an error; None where that can't be a pause."""
    seconds: float | None = carried(error, "retry_after")
    try:
        check_pause(type(error).__name__, seconds)
    except Exception:  # whatever is there, it is no pause
        return None
    return seconds
