"""What hypothesis draws budgets, policies and usage from: small values, near the bounds that they decide."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from loopmachine import Budget, Policy, Usage


def rarely(value: Any, otherwise: Any, one_in: int = 8) -> st.SearchStrategy[Any]:
    """``otherwise``, and now and then ``value``."""
    return st.sampled_from([otherwise] * (one_in - 1) + [value])


BUDGETS = st.builds(
    Budget,
    max_steps=st.sampled_from([5, 1, 2, 3, 4]),
    max_calls=st.none() | st.integers(1, 4),
    max_seconds=st.none() | st.sampled_from([1.0, 2.0, 4.0]),
    max_cost_usd=st.none() | st.sampled_from([0.5, 1.0]),
    max_tokens=st.none() | st.sampled_from([10, 20]),
)
POLICIES = st.builds(
    Policy,
    repeated_id=st.sampled_from(["stop", "answer", "rename"]),
    excess_calls=st.sampled_from(["stop", "refuse"]),
    batch=st.sampled_from(["parallel", "parallel", "parallel", "sequential", "sequential", "reject"]),
    max_parallel=st.integers(1, 3),
    model_retries=st.integers(0, 2),
    repairs=st.integers(0, 2),
    wrap_up=st.booleans(),
    max_identical_turns=st.none() | st.integers(1, 2),
)
TICKS = st.sampled_from([0.0] * 12 + [0.5, 1.0, 2.0, -1.0])  #: seconds that pass; a clock may go back
TOLD = [
    Usage(input_tokens=4, output_tokens=written, cost_usd=cost) for written in (0, 1, 6) for cost in (0.0, 0.25, 0.5)
]
UNTOLD = [None, Usage(input_tokens=4, output_tokens=1), Usage(output_tokens=1, cost_usd=0.25)]
USAGES = st.sampled_from([*TOLD, *TOLD, *UNTOLD])
