"""Types that stand in for what msgspec would read otherwise than is promised, or can't read at all."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec


class Kind(Protocol):
    """What a stand-in stands for."""

    def read(self, value: Any) -> Any:
        """The value that a plain JSON value is read as. Raises what a class that refuses its values raises."""


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
    try:
        return stand_in.kind.read(value)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error  # to this, and not to its own, msgspec adds where the value stands


def convert(value: Any, shape: Any) -> Any:
    """A plain JSON value as a type that may hold stand-ins."""
    return msgspec.convert(value, shape, dec_hook=hook, str_keys=True)
