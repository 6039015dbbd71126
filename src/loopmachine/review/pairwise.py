"""Few configurations that hold every pair of values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from math import gcd, prod
from typing import Any

Options = Mapping[str, Sequence[Any]]
Pair = tuple[str, int, str, int]  #: two parameters, each with the place of its value


def count(options: Options) -> int:
    """How many configurations the whole product has."""
    return prod(map(len, options.values()))


def every(options: Options) -> Iterator[dict[str, Any]]:
    """The whole product, far ones after one another, so that the first few show the most."""
    size = count(options)
    stride = next(one for one in range(int(size * 0.618) or 1, 2 * size + 1) if gcd(one, size) == 1)
    for number in range(size):
        place, chosen = number * stride % size, {}
        for name, values in options.items():
            place, at = divmod(place, len(values))
            chosen[name] = values[at]
        yield chosen


def pairwise(options: Options) -> list[dict[str, Any]]:
    """Configurations in which every two values of different parameters meet at least once; the same each time.

    Greedy: each configuration begins with the first pair that is still missing, and takes for each further
    parameter the value that brings the most missing pairs.
    """
    names = list(options)
    missing = dict.fromkeys(
        (one, a, other, b)
        for one, other in combinations(names, 2)
        for a, b in product(range(len(options[one])), range(len(options[other])))
    )
    found = []
    while missing:
        one, a, other, b = next(iter(missing))
        chosen = {one: a, other: b}
        for name in names:
            if name not in chosen:
                places = range(len(options[name]))
                chosen[name] = max(places, key=lambda at: len(_brought(missing, names, {**chosen, name: at})))
        for pair in _brought(missing, names, chosen):
            del missing[pair]
        found.append({name: options[name][chosen[name]] for name in names})
    return found


def _brought(missing: Mapping[Pair, None], names: Sequence[str], chosen: Mapping[str, int]) -> list[Pair]:
    """The missing pairs that these choices hold."""
    taken = [name for name in names if name in chosen]
    pairs = ((one, chosen[one], other, chosen[other]) for one, other in combinations(taken, 2))
    return [pair for pair in pairs if pair in missing]
