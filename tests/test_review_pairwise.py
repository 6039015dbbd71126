"""Few configurations that hold every pair of values, and the whole product."""

from __future__ import annotations

from itertools import combinations, product

from loopmachine.review.pairwise import count, every, pairwise
from loopmachine.review.verify import OPTIONS

SMALL = {"a": (0, 1, 2), "b": (0, 1), "c": (0, 1), "d": (0, 1)}


def test_every_two_values_meet_in_far_fewer_configurations_than_there_are() -> None:
    """Of the options that are verified each pair of values is in one of the configurations, and those are few."""
    found = pairwise(OPTIONS)
    missing = [
        (one, a, other, b)
        for one, other in combinations(OPTIONS, 2)
        for a, b in product(OPTIONS[one], OPTIONS[other])
        if not any(chosen[one] == a and chosen[other] == b for chosen in found)
    ]
    assert (missing, len(found) < 30, count(OPTIONS) > 500_000) == ([], True, True)


def test_the_first_configuration_is_that_of_the_first_values() -> None:
    """Every option is in every configuration, and what is named first is explored first."""
    assert [list(chosen) for chosen in pairwise(SMALL)] == [list(SMALL)] * len(pairwise(SMALL))
    assert pairwise(SMALL)[0] == {"a": 0, "b": 0, "c": 0, "d": 0}


def test_the_product_is_whole() -> None:
    """Every combination comes once, one of all the first values first."""
    found = [tuple(chosen.values()) for chosen in every(SMALL)]
    assert (found[0], sorted(found)) == ((0, 0, 0, 0), sorted(product(*SMALL.values())))


def test_the_first_of_the_product_are_far_apart() -> None:
    """As many as the longest option has values show each value of every option."""
    found = [tuple(chosen.values()) for chosen in every(SMALL)][:6]
    assert [set(values) for values in zip(*found, strict=True)] == [{0, 1, 2}, {0, 1}, {0, 1}, {0, 1}]


def test_the_product_of_one_configuration_is_that() -> None:
    """An option that has no choice is no reason to stop."""
    assert list(every({"a": (5,)})) == [{"a": 5}]
