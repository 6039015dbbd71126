"""Types that stand in for what msgspec would read otherwise than is promised, or can't read at all."""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

import msgspec

from loopmachine.tools.nodes import Examination


class Kind(Protocol):
    """What a stand-in stands for."""

    def read(self, value: Any, look: Examination) -> Any:
        """The value that a plain JSON value is read as. Raises what a class that refuses its values raises.

        ``look`` is one for a value and all its parts, so that none is looked at again at each level above it.
        """


class StandIn(type):
    """A type made at run time, which msgspec leaves to its ``kind``."""

    kind: Kind

    def __new__(cls, name: str, kind: Kind) -> StandIn:
        return super().__new__(cls, name, (), {"kind": kind})

    def __init__(cls, name: str, kind: Kind) -> None:
        super().__init__(name, (), {})

    def __instancecheck__(cls, value: Any) -> bool:
        return True  # msgspec asks it of what was read


def hook(stand_in: Any, value: Any) -> Any:
    """For msgspec's ``dec_hook``."""
    return _read(Examination(), stand_in, value)


def convert(value: Any, shape: Any, look: Examination) -> Any:
    """A plain JSON value, or a part of one that is looked at, as a type that may hold stand-ins."""
    return msgspec.convert(value, shape, dec_hook=partial(_read, look), str_keys=True)


def _read(look: Examination, stand_in: Any, value: Any) -> Any:
    try:
        return stand_in.kind.read(value, look)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error  # to this, and not to its own, msgspec adds where the value stands
