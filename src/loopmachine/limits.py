"""The limits of a run, what is used of them, and the choices it makes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from inspect import iscoroutinefunction
from typing import Any
from typing import Final as Constant

import attrs

from loopmachine.errors import shown

DIGITS: Constant = 12  #: of a US dollar, to which costs are added up
_TOO_LONG: Constant = 10**600  #: from here on Python may refuse to write a whole number


def is_number(value: object) -> bool:
    """A number that is finite, also once it is made a float."""
    most = sys.float_info.max  # NaN is not <= anything, and a larger int is no finite float
    return isinstance(value, int | float) and not isinstance(value, bool) and -most <= value <= most


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value < _TOO_LONG


def _given(value: object) -> str:
    """What was given, for the sentence that refuses it."""
    return shown(value) + (", of more than 600 digits" if isinstance(value, int) and value >= _TOO_LONG else "")


def _refuse(what: str, faults: list[str]) -> None:
    if faults:
        raise ValueError(f"{what}: " + "; ".join(faults))


@attrs.frozen(kw_only=True)
class Budget:
    """The limits of a run. ``spent`` means used >= limit; None is no limit. Can be shared by runs.

    ``max_cost_usd`` is kept to 12 digits, as costs are added up, so that a step of 1 / 3 reaches a limit of 1 / 3.
    Raises ValueError that names every field that is not a positive, finite number (NaN and bool included).
    """

    max_steps: int = 10  #: how often the model may be asked
    max_calls: int | None = None  #: how many tool calls may be admitted
    max_seconds: float | None = None  #: seconds, not counting the wait for approval or resolution
    max_cost_usd: float | None = None  #: US dollars
    max_tokens: int | None = None  #: input and output tokens together

    def __attrs_post_init__(self) -> None:
        faults = []
        for field in ("max_steps", "max_calls", "max_seconds", "max_cost_usd", "max_tokens"):
            value = getattr(self, field)
            if value is None and field != "max_steps":
                continue
            whole = field not in ("max_seconds", "max_cost_usd")
            right = _is_count(value) if whole else is_number(value)
            if not right or value <= 0:
                kind = "a positive whole number" if whole else "a positive, finite number"
                none = "" if field == "max_steps" else " or None"
                faults.append(f"{field} must be {kind}{none}, not {_given(value)}")
            elif field == "max_cost_usd" and (kept := round(value, DIGITS)) != value:
                object.__setattr__(self, field, kept)
                if not kept:
                    faults.append(f"{field} must be a number from 1e-{DIGITS} on or None, not {shown(value)}")
        _refuse("Budget", faults)


_CHOICES: Constant[dict[str, tuple[object, ...]]] = {
    "repeated_id": ("stop", "answer", "rename"),
    "excess_calls": ("stop", "refuse"),
    "batch": ("parallel", "sequential", "reject"),
    "wrap_up": (False, True),
    "error_text": ("message", "name"),
}
_NUMBERS: Constant[dict[str, int]] = {"max_parallel": 1, "model_retries": 0, "repairs": 0, "max_result_chars": 1}


@attrs.frozen(kw_only=True)
class Policy:
    """The choices a run makes where more than one answer is right.

    Raises ValueError that names every field with an unknown value, and what it could be.
    """

    repeated_id: str = "stop"  #: an id used again: "stop" the run, "answer" it unexecuted, "rename" and run it
    excess_calls: str = "stop"  #: a batch over the call budget: "stop" the run, or "refuse" those that don't fit
    batch: str = "parallel"  #: the calls of a turn run in "parallel", one by one ("sequential"), or "reject" two
    max_parallel: int = 8  #: how many calls may run at once
    model_retries: int = 0  #: consecutive retryable failures to bear; each spends a step
    repairs: int = 0  #: consecutive malformed turns to answer with what was wrong
    wrap_up: bool = False  #: offer no tools at the last permitted step and once the call budget is spent
    error_text: str | Callable[[Exception], str] = "message"  #: what a failing tool tells: "message", "name", yours
    max_result_chars: int = 65536  #: characters; a longer result is cut with a mark
    max_identical_turns: int | None = None  #: the same calls with the same results so often, asked again: stuck

    def __attrs_post_init__(self) -> None:
        faults = []
        for field, known in _CHOICES.items():
            value = getattr(self, field)
            if field == "error_text" and callable(value):
                if iscoroutinefunction(value) or iscoroutinefunction(type(value).__call__):
                    faults.append("error_text is async; it is asked and not awaited, and must not be")
                continue
            if not any(value is one or (type(value) is type(one) and value == one) for one in known):
                choices = [*map(repr, known), *(["a callable"] if field == "error_text" else [])]
                faults.append(f"{field} must be one of {', '.join(choices)}, not {shown(value)}")
        for field, least in _NUMBERS.items():
            value = getattr(self, field)
            if not _is_count(value) or value < least:
                faults.append(f"{field} must be a whole number from {least} on, not {_given(value)}")
        turns = self.max_identical_turns
        if turns is not None and (not _is_count(turns) or turns < 1):
            faults.append(f"max_identical_turns must be a whole number from 1 on or None, not {_given(turns)}")
        _refuse("Policy", faults)


_TOKENS: Constant = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")


@attrs.frozen(kw_only=True)
class Usage:
    """What a model reports of one step. None means not reported, which is never taken for zero.

    The usage of a call may be a total of several: then what is known is added up, and what is not is counted.
    """

    input_tokens: int | None = None  #: tokens read, cached ones included
    output_tokens: int | None = None  #: tokens written, reasoning included
    cached_tokens: int | None = None  #: of the input, read from a cache
    reasoning_tokens: int | None = None  #: of the output, spent on reasoning
    cost_usd: float | None = None  #: US dollars
    model: str = ""  #: the name the provider gives the model, for a price list
    unpriced: int = 0  #: of a total: parts that did not say their cost, beside those that did
    unmetered: int = 0  #: of a total: parts that did not say their tokens, beside those that did

    def __attrs_post_init__(self) -> None:
        faults = []
        for field in ("unpriced", "unmetered"):
            value = getattr(self, field)
            if not _is_count(value) or value < 0:
                faults.append(f"{field} must be a whole number from 0 on, not {_given(value)}")
        for field in _TOKENS:
            value = getattr(self, field)
            if value is not None and (not _is_count(value) or value < 0):
                faults.append(f"{field} must be a whole number from 0 on or None, not {_given(value)}")
        cost = self.cost_usd
        if cost is not None and (not is_number(cost) or cost < 0):
            faults.append(f"cost_usd must be a finite number from 0 on or None, not {shown(cost)}")
        if not isinstance(self.model, str):
            faults.append(f"model must be text, not {shown(self.model)}")
        _refuse("Usage", faults)

    @property
    def tokens(self) -> int | None:
        """Input and output together, None where one of them is unknown."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens

    @classmethod
    def total(cls, usages: Iterable[Usage]) -> Usage:
        """All of these together: of each field what is known, None where nothing is; of none at all each is zero.

        ``unpriced`` and ``unmetered`` count the parts of which it is not. ``model`` is the name that all of them give,
        blank where they give several.
        """
        parts = tuple(usages)
        tokens = {field: _sum([getattr(part, field) for part in parts], 0, _TOO_LONG - 1) for field in _TOKENS}
        cost = _sum([part.cost_usd for part in parts], 0.0, sys.float_info.max)
        models = {part.model for part in parts}
        known = cls(**tokens, cost_usd=cost, model=models.pop() if len(models) == 1 else "")
        return attrs.evolve(
            known,
            unpriced=0 if cost is None else _missing([(part.cost_usd, part.unpriced) for part in parts]),
            unmetered=0 if known.tokens is None else _missing([(part.tokens, part.unmetered) for part in parts]),
        )


def _sum(amounts: list[Any], start: float, most: float) -> Any:
    """The sum of those that are known, as far as it can be told; None where none is."""
    known = [amount for amount in amounts if amount is not None]
    return min(sum(known, start), most) if known or not amounts else None


def _missing(amounts: list[tuple[float | None, int]]) -> int:
    """How many parts are not in a sum, each amount given with how many are not in it."""
    return min(sum(1 if amount is None else more for amount, more in amounts), _TOO_LONG - 1)


@attrs.frozen(kw_only=True)
class Spend:
    """What a run has used of its budget."""

    steps: int = 0
    calls: int = 0
    seconds: float = 0.0
    cost_usd: float = 0.0
    tokens: int = 0
    unpriced: int = 0  #: steps and sub-runs whose cost is unknown
    unmetered: int = 0  #: steps and sub-runs whose tokens are unknown
