"""The limits of a run and its choices refuse what makes no sense, by name and all at once."""

from __future__ import annotations

import math
import sys
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import attrs
import pytest

from loopmachine.limits import Budget, Policy, Spend, Usage

NO_NUMBERS: list[Any] = [True, False, "5", b"5", math.nan, math.inf, -math.inf, [], Decimal(5), Fraction(5), 5j]
BELOW_ONE: list[Any] = [0, -1, 0.0, -0.5]
FRACTIONS: list[Any] = [1.5, 2.0]
HUGE = 10**400  #: a count that can be, but no number of seconds or dollars: a float does not hold it
LONGEST = 10**600 - 1  #: a count that can be, and the greatest


def refused(record: type[Any], **fields: Any) -> str:
    """What a record says when it is made of these fields."""
    with pytest.raises(ValueError, match=rf"^{record.__name__}: ") as caught:
        record(**fields)
    return str(caught.value)


def each(field: str, values: list[Any]) -> list[Any]:
    """A case of the field with each of the values."""
    return [pytest.param(field, value, id=f"{field}={value!r}"[:40]) for value in values]


# --- budgets --------------------------------------------------------------------------------------------


def test_a_budget_has_ten_steps_and_no_other_limit() -> None:
    """The only default is a ceiling of the steps."""
    assert attrs.asdict(Budget()) == {
        "max_steps": 10,
        "max_calls": None,
        "max_seconds": None,
        "max_cost_usd": None,
        "max_tokens": None,
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *each("max_steps", [None, *NO_NUMBERS, *BELOW_ONE, *FRACTIONS]),
        *each("max_calls", [*NO_NUMBERS, *BELOW_ONE, *FRACTIONS]),
        *each("max_tokens", [*NO_NUMBERS, *BELOW_ONE, *FRACTIONS]),
        *each("max_seconds", [*NO_NUMBERS, *BELOW_ONE, HUGE]),
        *each("max_cost_usd", [*NO_NUMBERS, *BELOW_ONE, HUGE]),
    ],
)
def test_a_budget_refuses_a_limit_that_is_no_positive_finite_number(field: str, value: Any) -> None:
    """The sentence names the field, what it could be, and what it was."""
    kind = "a positive, finite number" if field in ("max_seconds", "max_cost_usd") else "a positive whole number"
    none = "" if field == "max_steps" else " or None"
    assert refused(Budget, **{field: value}) == f"Budget: {field} must be {kind}{none}, not {value!r}"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *each("max_steps", [1, 2, HUGE]),
        *each("max_calls", [None, 1, 2, HUGE]),
        *each("max_tokens", [None, 1, 2, HUGE]),
        *each("max_seconds", [None, 1, 5e-324, 0.5, 1.7e308]),
        *each("max_cost_usd", [None, 1, 1e-12, 0.5, 1.7e308, sys.float_info.max]),
    ],
)
def test_a_budget_takes_every_positive_finite_limit(field: str, value: Any) -> None:
    """A limit is kept as it was given."""
    assert getattr(Budget(**{field: value}), field) is value


@pytest.mark.parametrize(
    ("given", "kept"), [(1 / 3, 0.333333333333), (6e-13, 1e-12), (0.8 - 0.1, 0.7), (0.1 + 0.2, 0.3)]
)
def test_a_limit_of_dollars_is_kept_to_as_many_digits_as_costs_are(given: float, kept: float) -> None:
    """So that what is spent reaches it where it would in numbers without end."""
    assert Budget(max_cost_usd=given) == Budget(max_cost_usd=kept)
    assert Budget(max_cost_usd=given).max_cost_usd == kept


@pytest.mark.parametrize("limit", [4e-13, 5e-324])
def test_a_limit_of_less_than_the_least_cost_is_refused(limit: float) -> None:
    """It would be none of dollars that can be spent."""
    said = f"Budget: max_cost_usd must be a number from 1e-12 on or None, not {limit}"
    assert refused(Budget, max_cost_usd=limit) == said


COUNTS = [
    (Budget, "max_steps", "a positive whole number"),
    (Budget, "max_calls", "a positive whole number or None"),
    (Budget, "max_tokens", "a positive whole number or None"),
    (Policy, "max_parallel", "a whole number from 1 on"),
    (Policy, "model_retries", "a whole number from 0 on"),
    (Policy, "max_identical_turns", "a whole number from 1 on or None"),
    (Usage, "input_tokens", "a whole number from 0 on or None"),
    (Usage, "unpriced", "a whole number from 0 on"),
]


@pytest.mark.parametrize(("record", "field", "kind"), COUNTS)
def test_a_count_is_one_that_can_be_written(record: type[Any], field: str, kind: str) -> None:
    """Python may refuse to write a whole number of more than 640 digits, and does so of more than 4300."""
    assert getattr(record(**{field: LONGEST}), field) is LONGEST
    for value, said in [(LONGEST + 1, str(LONGEST + 1)), (10**5000, "<int>")]:
        says = f"{record.__name__}: {field} must be {kind}, not {said}, of more than 600 digits"
        assert refused(record, **{field: value}) == says
    assert refused(record, **{field: -(10**5000)}) == f"{record.__name__}: {field} must be {kind}, not <int>"


def test_a_budget_lists_all_that_is_wrong_with_it() -> None:
    """Every field with a bad value is named in one message, in the order of the fields."""
    bad = {"max_steps": 0, "max_calls": -1, "max_seconds": math.nan, "max_cost_usd": True, "max_tokens": 1.5}
    assert refused(Budget, **bad) == (
        "Budget: max_steps must be a positive whole number, not 0; "
        "max_calls must be a positive whole number or None, not -1; "
        "max_seconds must be a positive, finite number or None, not nan; "
        "max_cost_usd must be a positive, finite number or None, not True; "
        "max_tokens must be a positive whole number or None, not 1.5"
    )


# --- policies -------------------------------------------------------------------------------------------

CHOICES: dict[str, tuple[Any, ...]] = {
    "repeated_id": ("stop", "answer", "rename"),
    "excess_calls": ("stop", "refuse"),
    "batch": ("parallel", "sequential", "reject"),
    "wrap_up": (False, True),
    "error_text": ("message", "name", repr),
}
LEAST = {"max_parallel": 1, "model_retries": 0, "repairs": 0, "max_result_chars": 1, "max_identical_turns": 1}


def test_the_default_policy_is_the_rules_of_the_design() -> None:
    """Whoever chooses nothing gets the cautious choice."""
    assert attrs.asdict(Policy()) == {
        "repeated_id": "stop",
        "excess_calls": "stop",
        "batch": "parallel",
        "max_parallel": 8,
        "model_retries": 0,
        "repairs": 0,
        "wrap_up": False,
        "error_text": "message",
        "max_result_chars": 65536,
        "max_identical_turns": None,
    }


async def later(error: Exception) -> None:
    """Says nothing, to whoever awaits it."""


class Later:
    """The same as an object."""

    async def __call__(self, error: Exception) -> None:
        """Nothing."""


@pytest.mark.parametrize(
    "tells", [later, partial(later), Later(), Later().__call__], ids=["function", "partial", "object", "method"]
)
def test_what_a_failing_tool_tells_is_not_awaited(tells: Any) -> None:
    """It is refused as an async price is."""
    said = "Policy: error_text is async; it is asked and not awaited, and must not be"
    assert refused(Policy, error_text=tells) == said


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(case for field, values in CHOICES.items() for case in each(field, list(values))),
        *(case for field, least in LEAST.items() for case in each(field, [least, least + 1, HUGE])),
        *each("max_identical_turns", [None]),
    ],
)
def test_a_policy_takes_every_choice_there_is(field: str, value: Any) -> None:
    """A choice is kept as it was given."""
    assert getattr(Policy(**{field: value}), field) is value


def test_what_a_failing_tool_tells_may_be_a_callable() -> None:
    """The sentence says so beside the other choices."""
    told = "Policy: error_text must be one of 'message', 'name', a callable, not 3"
    assert refused(Policy, error_text=3) == told


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(
            case
            for field in ("repeated_id", "excess_calls", "batch")
            for case in each(field, ["", "Stop", "other", None, True, 0, ("stop",), repr])
        ),
        *each("wrap_up", [None, 0, 1, "", "True", repr]),
        *each("error_text", ["", "callable", "Message", None, True, 1]),
    ],
)
def test_a_policy_refuses_a_choice_that_is_none(field: str, value: Any) -> None:
    """The sentence names the field, every choice there is, and what was given."""
    named = [choice for choice in CHOICES[field] if not callable(choice)]
    said = refused(Policy, **{field: value})
    assert (
        said.startswith(f"Policy: {field} must be "),
        [repr(choice) in said for choice in named],
        said.endswith(f"not {value!r}"),
    ) == (True, [True] * len(named), True)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(
            case
            for field, least in LEAST.items()
            for case in each(field, [*NO_NUMBERS, *FRACTIONS, least - 1, -5, float(least)])
        ),
        *(case for field in LEAST if field != "max_identical_turns" for case in each(field, [None])),
    ],
)
def test_a_policy_refuses_a_number_that_counts_nothing(field: str, value: Any) -> None:
    """The sentence names the field, the least it could be, and what it was."""
    none = " or None" if field == "max_identical_turns" else ""
    assert refused(Policy, **{field: value}) == (
        f"Policy: {field} must be a whole number from {LEAST[field]} on{none}, not {value!r}"
    )


def test_a_policy_lists_all_that_is_wrong_with_it() -> None:
    """Every field with a bad value is named in one message."""
    said = refused(Policy, **dict.fromkeys([*CHOICES, *LEAST], -1))
    assert [f"{field} must be" in said for field in [*CHOICES, *LEAST]] == [True] * 10


# --- usage ----------------------------------------------------------------------------------------------

TOKENS = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(case for field in TOKENS for case in each(field, [*NO_NUMBERS, *FRACTIONS, 0.0, -1])),
        *each("cost_usd", [*NO_NUMBERS, -1, -5e-324, HUGE]),
        *each("unpriced", [None, *NO_NUMBERS, *FRACTIONS, -1]),
        *each("unmetered", [None, *NO_NUMBERS, *FRACTIONS, -1]),
    ],
)
def test_usage_refuses_what_is_no_count_and_no_cost(field: str, value: Any) -> None:
    """The sentence names the field, what it could be, and what it was."""
    kind = "a finite number" if field == "cost_usd" else "a whole number"
    none = "" if field in ("unpriced", "unmetered") else " or None"
    assert refused(Usage, **{field: value}) == f"Usage: {field} must be {kind} from 0 on{none}, not {value!r}"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(case for field in TOKENS for case in each(field, [None, 0, 1, HUGE])),
        *each("cost_usd", [None, 0, 0.0, 5e-324, 1.7e308]),
    ],
)
def test_usage_takes_every_count_and_cost(field: str, value: Any) -> None:
    """What a model reports is kept as it was given, zero included."""
    assert getattr(Usage(**{field: value}), field) is value


@pytest.mark.parametrize(
    ("model", "said"),
    [(None, "None"), (5, "5"), (b"m1", "b'm1'"), (10**5000, "<int>")],
    ids=["None", "a number", "bytes", "a number that can't be written"],
)
def test_usage_names_a_model_in_text(model: Any, said: str) -> None:
    """Which a price list is asked by."""
    assert refused(Usage, model=model) == f"Usage: model must be text, not {said}"


def test_usage_lists_all_that_is_wrong_with_it() -> None:
    """Every field with a bad value is named in one message."""
    said = refused(Usage, **dict.fromkeys([*TOKENS, "cost_usd"], -1))
    assert [f"{field} must be" in said for field in [*TOKENS, "cost_usd"]] == [True] * 5


@pytest.mark.parametrize(
    ("read", "written", "tokens"), [(3, 4, 7), (0, 0, 0), (None, 4, None), (3, None, None), (None, None, None)]
)
def test_tokens_are_those_read_and_written(read: int | None, written: int | None, tokens: int | None) -> None:
    """Cached and reasoning tokens are in them already; one unknown part makes the sum unknown, never zero."""
    usage = Usage(input_tokens=read, output_tokens=written, cached_tokens=2, reasoning_tokens=1)
    assert usage.tokens == tokens


BIG = Usage(input_tokens=HUGE, output_tokens=1, cached_tokens=2, reasoning_tokens=3, cost_usd=1.7e308, model="big")
SMALL = Usage(input_tokens=5, output_tokens=6, cached_tokens=7, reasoning_tokens=8, cost_usd=0.25, model="small")


@pytest.mark.parametrize(
    ("parts", "total"),
    [
        ([], (0, 0, 0, 0, 0.0, "", 0, 0)),
        ([SMALL], (5, 6, 7, 8, 0.25, "small", 0, 0)),
        ([SMALL, SMALL], (10, 12, 14, 16, 0.5, "small", 0, 0)),
        ([BIG, SMALL], (HUGE + 5, 7, 9, 11, 1.7e308, "", 0, 0)),
        ([BIG, BIG], (2 * HUGE, 2, 4, 6, sys.float_info.max, "big", 0, 0)),
        ([attrs.evolve(BIG, cost_usd=10**308)] * 3, (3 * HUGE, 3, 6, 9, sys.float_info.max, "big", 0, 0)),
        ([Usage(input_tokens=LONGEST), SMALL], (LONGEST, 6, 7, 8, 0.25, "", 1, 1)),
        ([attrs.evolve(SMALL, unpriced=LONGEST)] * 2, (10, 12, 14, 16, 0.5, "small", LONGEST, 0)),
        ([SMALL, Usage(input_tokens=1, cost_usd=0.0, model="small")], (6, 6, 7, 8, 0.25, "small", 0, 1)),
        ([Usage(), SMALL, Usage(cost_usd=0.5)], (5, 6, 7, 8, 0.75, "", 1, 2)),
        ([Usage(), Usage()], (None, None, None, None, None, "", 0, 0)),
        ([Usage(input_tokens=5), Usage(output_tokens=3)], (5, 3, None, None, None, "", 0, 2)),
        ([Usage(input_tokens=5), Usage(input_tokens=3)], (8, None, None, None, None, "", 0, 0)),
        ([Usage.total([SMALL, Usage()]), Usage()], (5, 6, 7, 8, 0.25, "", 2, 2)),
        ([Usage.total([SMALL, Usage()]), SMALL], (10, 12, 14, 16, 0.5, "", 1, 1)),
    ],
    ids=[
        "none",
        "one",
        "two",
        "two models",
        "more than a float holds",
        "whole dollars",
        "more than can be written",
        "more missing than can be written",
        "some unknown",
        "some unknown of several",
        "all unknown",
        "half of each unknown",
        "the same half unknown",
        "a total and one that is unknown",
        "a total and one that is known",
    ],
)
def test_a_total_loses_nothing_that_a_part_knows(parts: list[Usage], total: tuple[Any, ...]) -> None:
    """What a part does not report is counted beside what others do, and is never zero; a total is a usage itself."""
    assert attrs.astuple(Usage.total(iter(parts))) == total


# --- spend ------------------------------------------------------------------------------------------------


def test_a_run_that_has_not_begun_has_spent_nothing() -> None:
    """Every part of a new spend is zero."""
    assert set(attrs.astuple(Spend())) == {0}


# --- all of them ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", [Budget(), Policy(), Usage(), Spend()], ids=lambda record: type(record).__name__)
def test_nobody_changes_a_limit(record: Any) -> None:
    """Every field is frozen, new names are refused, and so are positional arguments."""
    before = attrs.asdict(record)
    for name in [*before, "new"]:
        with pytest.raises(AttributeError):
            setattr(record, name, 1)
    with pytest.raises(TypeError):
        type(record)(1)
    assert (attrs.asdict(record), record, hash(record)) == (before, type(record)(), hash(type(record)()))
