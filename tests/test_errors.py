"""Errors say who is wrong and what would have been right."""

from __future__ import annotations

import copy
import math
import pickle
import re
import sys
from collections.abc import Callable
from enum import Enum
from typing import Any

import pytest

from loopmachine import errors
from loopmachine.errors import (
    Denied,
    InvalidDefinition,
    InvalidTool,
    LoopError,
    ModelError,
    ReplayDiverged,
    ToolFailed,
    ToolInterrupted,
    UnexpectedEvent,
    carried,
    pause_of,
    text_of,
)
from tests.facts import polled

SAYING: list[tuple[LoopError, str]] = [
    (InvalidDefinition(["a: one", "b: two"]), "the definition can't be run:\n- a: one\n- b: two"),
    (
        UnexpectedEvent("resting", polled(), ["Woken", "Resumed"]),
        "resting does not take this CancelPolled; it accepts Woken, Resumed",
    ),
    (
        UnexpectedEvent("resting", polled(), ["Woken"], "nobody asked"),
        "resting does not take this CancelPolled: nobody asked; it accepts Woken",
    ),
    (UnexpectedEvent("finished", polled(), ()), "finished does not take this CancelPolled; it accepts no event"),
    (
        ReplayDiverged(3, polled(), "the rows a/1", "the rows a/2"),
        "event 3, CancelPolled, does not fit: the record has the rows a/1, this definition gives the rows a/2",
    ),
    (ModelError("rate_limit"), "rate_limit"),
    (ModelError("rate_limit", "slow down"), "rate_limit: slow down"),
    (Denied("stale_version"), "stale_version"),
    (Denied("stale_version", "it is 2 now"), "stale_version: it is 2 now"),
    (ToolFailed("no route", "e404"), "no route"),
    (ToolInterrupted("half of it"), "half of it"),
    (InvalidTool("price: n has no type hint"), "price: n has no type hint"),
]


@pytest.mark.parametrize(("error", "said"), SAYING)
def test_an_error_is_a_sentence(error: LoopError, said: str) -> None:
    """The text of an error has all that it knows."""
    assert str(error) == said


@pytest.mark.parametrize(
    ("error", "facts"),
    [
        (InvalidDefinition(["a: one"]), {"faults": ("a: one",)}),
        (
            UnexpectedEvent("resting", polled(), ["Woken"], "so"),
            {"state": "resting", "event": polled(), "accepted": ("Woken",)},
        ),
        (ReplayDiverged(3, polled(), "this", "that"), {"place": 3, "event": polled()}),
        (
            ModelError("busy"),
            {"code": "busy", "message": "", "retryable": False, "retry_after": None, "timed_out": False},
        ),
        (
            ModelError("busy", "wait", retryable=True, retry_after=0, timed_out=True),
            {"code": "busy", "message": "wait", "retryable": True, "retry_after": 0, "timed_out": True},
        ),
        (Denied("no", "never"), {"code": "no", "message": "never"}),
        (ToolFailed("no route"), {"code": "", "message": "no route"}),
        (ToolInterrupted("half of it", "cut"), {"code": "cut", "message": "half of it"}),
    ],
)
def test_an_error_carries_its_facts(error: LoopError, facts: dict[str, Any]) -> None:
    """What the text says can also be read from attributes."""
    assert vars(error) == facts


@pytest.mark.parametrize(
    ("kind", "also"),
    [(InvalidDefinition, ValueError), (InvalidTool, TypeError)]
    + [(kind, Exception) for kind in (UnexpectedEvent, ReplayDiverged, ModelError, Denied, ToolFailed)],
)
def test_every_error_of_the_library_has_one_root(kind: type[Exception], also: type[Exception]) -> None:
    """LoopError catches them all, and the ones about wrong input are what Python calls such errors."""
    assert (issubclass(kind, LoopError), issubclass(kind, also)) == (True, True)


class Forbidden(Denied):
    """A denial of somebody's own, made of nothing."""

    def __init__(self) -> None:
        super().__init__("forbidden", "not yours")
        self.code = 403  # type: ignore[assignment]  # the case


def again(error: LoopError) -> LoopError:
    """The error through a pickle of every protocol, the oldest first."""
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        error = pickle.loads(pickle.dumps(error, protocol))
    return error


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, again])
@pytest.mark.parametrize(
    "error", [*(error for error, _ in SAYING), LoopError(), LoopError("a", 2), Forbidden()], ids=repr
)
def test_an_error_is_the_same_after_copy_and_pickle(error: LoopError, copied: Callable[[LoopError], LoopError]) -> None:
    """Its kind, its sentence, its facts and the notes added to it, however its class is called."""
    raised = copy.copy(error)
    raised.add_note("seen by us")
    same = copied(raised)
    assert (same is raised, type(same), str(same), same.args) == (False, type(error), str(error), error.args)
    assert vars(same) == vars(error) | {"__notes__": ["seen by us"]}


# --- what was raised and need not be what its class says ------------------------------------------------------


class Code(str, Enum):  # noqa: UP042  as users of Python 3.10 wrote them, whose str() is another
    """Codes of somebody's own."""

    FULL = "full"


class Word(str):
    """Text of a class of its own."""


class Mute:
    """A thing that can't even be printed."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Raising(ModelError):
    """An error that raises when it is looked at."""

    @property
    def detail(self) -> str:
        """No use."""
        raise RuntimeError("no detail")


class Spoken:
    """A thing whose text is text of another class."""

    def __str__(self) -> str:
        return Word("spoken")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("busy", "busy"),
        ("", ""),
        ("\ud83d", "\ud83d"),
        (403, "403"),
        (False, "False"),
        (ValueError("later"), "later"),
        ({"a": [1]}, "{'a': [1]}"),
        (Code.FULL, "full"),
        (Word("own"), "own"),
        (Spoken(), "spoken"),
        (None, "-"),
        (Mute(), "-"),
    ],
)
def test_what_an_error_carries_is_plain_text(value: Any, text: str) -> None:
    """Text is taken as it is, anything else in its own words; what has none is nothing."""
    error = Denied()
    error.code = value
    told = text_of(error, "code", "-")
    assert (told, type(told)) == (text, str)


def test_what_an_error_does_not_carry_or_cannot_say_is_nothing() -> None:
    """A subclass may leave out the constructor, and its properties may raise."""
    error = Raising("busy", retryable=True)
    names = ("retryable", "code", "absent", "detail")
    assert [carried(error, name) for name in names] == [True, "busy", None, None]
    assert [text_of(error, name, "-") for name in names] == ["True", "busy", "-", "-"]


@pytest.mark.parametrize(
    ("value", "pause"),
    [(2.5, 2.5), (0, 0), (3, 3)]
    + [(one, None) for one in (None, "3", True, -1, math.nan, math.inf, 10**400, b"3", Mute())],
)
def test_what_is_no_pause_is_none(value: Any, pause: float | None) -> None:
    """A subclass may set anything after its constructor was called."""
    error = ModelError("busy")
    error.retry_after = value
    assert (pause_of(error), pause_of(ValueError())) == (pause, None)


def test_every_error_here_is_tested_here() -> None:
    """The kinds above are all that the module has."""
    kinds = {
        name for name, kind in vars(errors).items() if isinstance(kind, type) and kind.__module__ == errors.__name__
    }
    assert (
        kinds
        == {type(error).__name__ for error, _ in SAYING} | {"LoopError"}
        == {
            "Denied",
            "InvalidDefinition",
            "InvalidTool",
            "LoopError",
            "ModelError",
            "ReplayDiverged",
            "ToolFailed",
            "ToolInterrupted",
            "UnexpectedEvent",
        }
    )


@pytest.mark.parametrize("pause", [-1, -5e-324, math.nan, math.inf, -math.inf, int(sys.float_info.max) + 1, 10**400])
def test_a_pause_is_finite_seconds(pause: float) -> None:
    """A provider can't ask for a pause that never ends or that no clock can tell, nor for one before now."""
    with pytest.raises(ValueError, match=r"^ModelError: retry_after must be finite seconds from 0 on or None, not"):
        ModelError("busy", retry_after=pause)


@pytest.mark.parametrize(
    ("field", "kind", "right"),
    [
        ("retry_after", ValueError, "finite seconds from 0 on or None"),
        ("retryable", TypeError, "True or False"),
        ("timed_out", TypeError, "True or False"),
    ],
)
def test_a_number_that_cannot_be_written_is_refused_by_name_too(field: str, kind: type[Exception], right: str) -> None:
    """Not with the words of Python, which name no field."""
    wrong: dict[str, Any] = {field: 10**5000}
    with pytest.raises(kind) as caught:
        ModelError("busy", **wrong)
    assert str(caught.value) == f"ModelError: {field} must be {right}, not <int>"


def test_a_denial_needs_no_words() -> None:
    """``raise Denied`` is one."""
    assert (Denied().code, str(Denied())) == ("denied", "denied")


def test_a_denial_that_says_nothing_is_one() -> None:
    """A blank code is the usual one, and a blank message none: whoever reads it is told that it was denied."""
    blank = [Denied("", ""), Denied(" ", "\n"), Denied("", "never")]
    assert [(one.code, str(one)) for one in blank] == [("denied", "denied")] * 2 + [("denied", "denied: never")]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"retryable": "x"}, "ModelError: retryable must be True or False, not 'x'"),
        ({"retryable": 1}, "ModelError: retryable must be True or False, not 1"),
        ({"timed_out": None}, "ModelError: timed_out must be True or False, not None"),
        ({"retry_after": "2"}, "ModelError: retry_after must be finite seconds from 0 on or None, not '2'"),
        ({"retry_after": True}, "ModelError: retry_after must be finite seconds from 0 on or None, not True"),
    ],
)
def test_a_model_error_refuses_another_type_by_name(fields: dict[str, Any], says: str) -> None:
    """With what would have been right; its code and message are made text."""
    with pytest.raises(TypeError, match=f"^{re.escape(says)}$"):
        ModelError("busy", **fields)
