"""Snapshots in one line, to test guards and updates alone; and those at the boundaries of a budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import inf, nextafter
from typing import TYPE_CHECKING, Any
from typing import Final as Constant

import attrs

from loopmachine.codec import fits, types_of
from loopmachine.definition import Definition
from loopmachine.history import History, Ids
from loopmachine.limits import Budget
from loopmachine.records import ANSWERED, LOST, QUEUED, RUNNING, Call, CallResult, Flight, Snapshot, Turn, UserMessage
from loopmachine.table import TOOL_LOOP
from loopmachine.tools import Toolbox
from loopmachine.wire import PLAIN
from loopmachine.wire.given import history as given_in

if TYPE_CHECKING:
    import pytest

#: What each field may be, for a program and in words; some may be what they are made of.
_TYPES: Constant[dict[str, tuple[Any, str]]] = {
    **{field.name: (types_of(Snapshot)[field.name], f"of type {field.type}") for field in attrs.fields(Snapshot)},
    "turn": (Turn | str | dict | None, "what a model replies in PLAIN, a text or a Turn"),
    "history": (History | str | tuple, "the user's text, a list of PLAIN messages or a History"),
    "ids": (Ids | tuple[str, ...], "a list of texts"),
    "flights": (tuple, "a list of phases or Flights, one for each call of the turn"),
}
_PHASES: Constant = (QUEUED, RUNNING, LOST, ANSWERED)
#: What of a snapshot is used of each field of a budget; of the seconds since 0 the clock tells.
_USED: Constant = {
    "max_steps": "steps",
    "max_calls": "calls",
    "max_seconds": "clock",
    "max_cost_usd": "cost_usd",
    "max_tokens": "tokens",
}
_WHOLE: Constant = ("max_steps", "max_calls", "max_tokens")  #: the others are floats, even where an int is given
_BUDGET: Constant = Budget(max_steps=3, max_calls=3, max_seconds=3.0, max_cost_usd=3.0, max_tokens=3)


def snapshot(
    state: str | None = None, *, tools: Iterable[Any] = (), definition: Definition = TOOL_LOOP, **fields: Any
) -> Snapshot:
    """Any snapshot, by the fields in which it differs from a new run's at time 0.

    The first argument is a state of the definition, by default its initial one. Beside what a Snapshot holds there may
    be given, as ``turn``, what a model replies in PLAIN (``call``, ``calls``) or its final text; as ``history``, the
    user's text or a list of PLAIN messages; as ``ids``, the ids used beside those of the history; as ``flights``, a
    phase for each call of the turn: "queued", "running", "lost" or "answered" (ok). A list may stand for a tuple.
    ``tools`` prepare the calls of the turn as in a run, where a call for no tool of these is unknown.
    Raises TypeError for fields that a Snapshot does not have or not of this type, ValueError for a state that is none
    of the definition's, and for a phase too many or unknown.
    """
    if wrong := "; ".join(_wrong(fields, tools, definition)):
        raise TypeError(wrong)
    state = definition.initial if state is None else state
    if state not in [*definition.states]:  # a list, as what was given may have no hash
        known = ", ".join(definition.states)
        raise ValueError(f"the definition has no state {state!r}, but {known}; another one is given as definition=")
    given: dict[str, Any] = {name: _frozen(value) for name, value in fields.items()}
    turn = _turn(given.get("turn"), Toolbox(tools), given.get("steps", 0))
    history = _history(given.get("history", ()))
    ids = Ids([*(said["id"] for said in history if said["kind"] == "call"), *given.get("ids", ())])
    flights = tuple(_flights(given.get("flights", ()), turn.calls if turn else ()))
    return Snapshot(state=state, **{**given, "turn": turn, "history": history, "ids": ids, "flights": flights})


def guard_cases(budget: Budget = _BUDGET, **fields: Any) -> pytest.MarkDecorator:
    """A pytest mark: the test is run with snapshots below, at and above each limit that the budget sets.

    It gets ``snapshot``; ``field``, the name of the budget's field; and ``over``: -1, 0 or 1, as what is used of it is
    one less than the limit, the limit, or one more; of a float it is the next number below or above, if there is one.
    Of the other limits nothing is used, unless ``fields``, as ``snapshot`` takes them, say so. Seconds are used since
    0: beside ``max_seconds`` no other ``since`` can be given.

        @guard_cases()
        def test_steps_spent(snapshot, field, over):
            assert guards.steps_spent(snapshot, event) is (field == "max_steps" and over >= 0)
    """
    import pytest

    if not isinstance(budget, Budget):
        raise TypeError(f"guard_cases takes a Budget, as in @guard_cases(Budget(max_steps=3)), not {budget!r}")
    if fields.get("since") and budget.max_seconds is not None:  # the clock would be a sum, which may be rounded
        raise TypeError(f"since must be 0 where max_seconds is tried, not {fields['since']!r}; clock may be any time")
    cases = [
        pytest.param(snapshot(**{**fields, "budget": budget, used: amount}), field, over, id=f"{field}-{word}")
        for field, used in _USED.items()
        for amount, over, word in _around(getattr(budget, field), field in _WHOLE)
    ]
    return pytest.mark.parametrize(("snapshot", "field", "over"), cases)


def _wrong(fields: Mapping[str, Any], tools: object, definition: object) -> Iterator[str]:
    """What of this can be no part of a snapshot, and what would have been right."""
    if not isinstance(definition, Definition):
        yield f"definition must be a Definition, not {definition!r}"
    if not isinstance(tools, Iterable):
        yield f"tools must be a list of tools, not {tools!r}"
    if strange := [name for name in fields if name not in _TYPES]:
        yield f"a Snapshot has no field {', '.join(strange)}; it has {', '.join(_TYPES)}"
    for name, (kind, words) in _TYPES.items():
        if name in fields and not fits(_frozen(fields[name]), kind):
            yield f"{name} must be {words}, not {fields[name]!r}"


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _turn(said: Any, toolbox: Toolbox, step: int) -> Turn | None:
    if said is None or isinstance(said, Turn):
        return said
    reply = {"kind": "final", "text": said} if isinstance(said, str) else said
    return PLAIN.decode(reply, lambda asked: toolbox.calls(asked, step, ()))


def _history(said: Any) -> History:
    if isinstance(said, History):
        return said
    if isinstance(said, str):
        return History([UserMessage(said)])
    return given_in(PLAIN, said)[0] if said else History()


def _flights(phases: Iterable[Flight | str], calls: tuple[Call, ...]) -> Iterator[Flight]:
    for place, one in enumerate(phases):
        if isinstance(one, Flight):
            yield one
        elif one not in _PHASES:
            raise ValueError(f"flights[{place}] must be a Flight or one of {', '.join(_PHASES)}, not {one!r}")
        elif place >= len(calls):
            raise ValueError(f"flights[{place}] is {one!r}, and the turn asks for {len(calls)} calls")
        else:
            call = calls[place]
            result = CallResult.of(call, "ok", "") if one == ANSWERED else None
            yield Flight(call, one, int(one == LOST), result)


def _around(limit: Any, whole: bool) -> Iterator[tuple[Any, int, str]]:
    if limit is None:
        return
    yield limit - 1 if whole else nextafter(limit, -inf), -1, "below"
    yield limit, 0, "at"
    above = limit + 1 if whole else nextafter(limit, inf)
    if above < inf:  # nothing is above the greatest float
        yield above, 1, "above"
