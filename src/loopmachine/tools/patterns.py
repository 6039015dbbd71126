"""Regular expressions that are matched in time proportional to the text, whatever the text.

``re`` tries one way after the other: ``(a+)+$`` takes it minutes for forty letters. Here all ways are followed at once
(Thompson, "Regular Expression Search Algorithm", 1968). What can't be matched so is refused: references to groups,
atomic groups and possessive repeats, and lookaround but at the beginning, where it is looked at once.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]  # Python's own reader, which has no stubs
from typing import Any
from typing import Final as Constant

from msgspec import Struct

_MOST_STATES: Constant = 5000
_MOST_KEPT: Constant = 5000  #: ways from one set of states to the next that are remembered
_END: Constant = -1
_SINGLE: Constant = (_constants.LITERAL, _constants.NOT_LITERAL, _constants.ANY, _constants.IN)
_REPEATS: Constant = (_constants.MAX_REPEAT, _constants.MIN_REPEAT)
_LOOKS: Constant = (_constants.ASSERT, _constants.ASSERT_NOT)
_ENDS: Constant = (_constants.AT_END, _constants.AT_END_STRING)
_STARTS: Constant = ((_constants.AT, _constants.AT_BEGINNING), (_constants.AT, _constants.AT_BEGINNING_STRING))

#: What is left out of an expression to make it one.
BOUNDED: Constant = (
    "take no reference to a group, nothing atomic or possessive, no lookaround but lookahead right after a first ^, "
    f"and no more than {_MOST_STATES} characters and repeats of them; or check it in the tool"
)

States = frozenset[int]


class Unbounded(ValueError):
    """An expression that can't be matched in bounded time."""


@functools.lru_cache(maxsize=1000)
def searcher(pattern: str) -> Callable[[str], bool]:
    """Says whether an expression matches anywhere in a text, as ``re.search``. Raises re.error and Unbounded."""
    tree = _parser.parse(pattern)
    flags = tree.state.flags
    items = list(tree)
    anchored = items[:1] != [] and tuple(items[0]) in _STARTS and not flags & re.MULTILINE
    looks = []
    items = items[anchored:]
    while anchored and items[:1] and items[0][0] in _LOOKS and items[0][1][0] == 1:  # 1: ahead
        code, (_, inner) = items.pop(0)
        looks.append((_Machine.of(inner, flags, anchored=True), code is _constants.ASSERT))
    whole = _Machine.of(items, flags, anchored=anchored)
    return lambda text: all(one.search(text) is wanted for one, wanted in looks) and whole.search(text)


class _Machine(Struct):
    """States, each with what leads on from it: a character, a place in the text, or nothing at all."""

    anchored: bool
    chars: dict[int, tuple[Callable[[str], object], int]] = {}
    places: dict[int, tuple[int, int]] = {}  #: a number in ``tests``, and where it leads
    splits: dict[int, list[int]] = {}
    tests: list[Callable[[str, int], object]] = []
    start: int = _END
    late: bool = True  #: no test holds but at the end of the text
    _alike: dict[Any, re.Pattern[str]] = {}  #: the parts of a repeat, which are many
    _closed: dict[Any, States] = {}
    _stepped: dict[Any, States] = {}

    @classmethod
    def of(cls, items: Iterable[Any], flags: int, *, anchored: bool) -> _Machine:
        made = cls(anchored)
        made.start = made.sequence(items, flags, _END)
        return made

    # --- from the expression to states, last ones first ---

    def new(self) -> int:
        """A state that is not used yet."""
        number = len(self.chars) + len(self.places) + len(self.splits)
        if number >= _MOST_STATES:
            raise Unbounded
        return number

    def sequence(self, items: Iterable[Any], flags: int, to: int) -> int:
        """Where a sequence of parts begins that leads to a state."""
        for code, argument in reversed(list(items)):
            to = self.part(code, argument, flags, to)
        return to

    def part(self, code: Any, argument: Any, flags: int, to: int) -> int:
        """Where one part begins."""
        if code in _SINGLE:
            number = self.new()
            self.chars[number] = self.alone(code, argument, flags).match, to
            return number
        if code is _constants.AT:
            number = self.new()
            self.places[number] = len(self.tests), to
            self.late &= argument in _ENDS and not flags & re.MULTILINE
            self.tests.append(self.alone(code, argument, flags).match)
            return number
        if code is _constants.SUBPATTERN:
            _, more, fewer, inner = argument
            return self.sequence(inner, _compiler._combine_flags(flags, more, fewer), to)
        if code is _constants.BRANCH:
            return self.split([self.sequence(inner, flags, to) for inner in argument[1]])
        if code in _REPEATS:
            least, most, inner = argument
            return self.repeat(least, most, inner, flags, to)
        raise Unbounded

    def alone(self, code: Any, argument: Any, flags: int) -> re.Pattern[str]:
        """One part as an expression of its own, as Python compiles it."""
        key = (code, id(argument), flags)
        if key not in self._alike:
            state = _parser.State()
            state.flags = flags
            self._alike[key] = _compiler.compile(_parser.SubPattern(state, [(code, argument)]), flags)
        return self._alike[key]

    def split(self, ways: list[int]) -> int:
        """A state that leads to others."""
        number = self.new()
        self.splits[number] = ways
        return number

    def repeat(self, least: int, most: Any, inner: Any, flags: int, to: int) -> int:
        """Where a repeated part begins."""
        if most is _constants.MAXREPEAT:
            to = self.split([to])
            self.splits[to].append(self.sequence(inner, flags, to))
        else:
            last = to
            for _ in range(most - least):
                to = self.split([self.sequence(inner, flags, to), last])
        for _ in range(least):
            to = self.sequence(inner, flags, to)
        return to

    # --- over a text ---

    def search(self, text: str) -> bool:
        """Whether the end is reached from the beginning of the text, or, not anchored, from any place in it."""
        begin: States = frozenset([self.start])
        states, again = begin, frozenset() if self.anchored else begin
        for place, char in enumerate(text):
            states = self.closed(states, self.told(text, place))
            if _END in states or not (states or again):
                return _END in states
            states = self.step(states, char) | again
        return _END in self.closed(states, self.told(text, len(text)))

    def told(self, text: str, place: int) -> tuple[bool, ...]:
        """What the tests say of a place; nothing where none can hold. ``$`` also holds before a last line break."""
        if self.late and place < len(text) - 1:
            return ()
        return tuple([test(text, place) is not None for test in self.tests])

    def closed(self, states: States, told: tuple[bool, ...]) -> States:
        """The states that are reached without a character, where the tests of the place say this."""
        found = self._closed.get((states, told))
        if found is None:
            reached: set[int] = set()
            open_ones = [*states]
            while open_ones:
                one = open_ones.pop()
                if one not in reached:
                    reached.add(one)
                    test, to = self.places.get(one, (0, _END))
                    open_ones += self.splits.get(
                        one, [to] if one in self.places and told[test : test + 1] == (True,) else []
                    )
            found = _keep(self._closed, (states, told), frozenset(reached & {_END, *self.chars}))
        return found

    def step(self, states: States, char: str) -> States:
        """The states that a character leads to."""
        found = self._stepped.get((states, char))
        if found is None:
            ways = (self.chars[one] for one in states)
            found = _keep(self._stepped, (states, char), frozenset(to for fits, to in ways if fits(char)))
        return found


def _keep(kept: dict[Any, States], key: Any, states: States) -> States:
    if len(kept) >= _MOST_KEPT:
        kept.clear()
    kept[key] = states
    return states
