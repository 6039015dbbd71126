"""Numbers as JSON text writes them: not a digit is lost where a whole number is made of one."""

from __future__ import annotations

import math
import re
from typing import Any
from typing import Final as Constant

from msgspec import Struct

_NUMBER: Constant = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"


class Unreadable(Struct, frozen=True):
    """A number that JSON does not have or that can't be kept, as it was written."""

    text: str

    def __str__(self) -> str:
        return self.text


class Rounded(float):
    """A number that a float can't hold to the last digit: the nearest float, or all that is written as a whole one."""

    text: str

    def __new__(cls, text: str) -> Rounded:
        """The number that is written."""
        made = super().__new__(cls, text)
        made.text = text
        return made

    def __repr__(self) -> str:
        return self.text

    def is_integer(self) -> bool:
        """Whether what is written is a whole number."""
        return _exactly(self.text) is not None

    def __int__(self) -> int:
        return _exactly(self.text) or 0


def whole(digits: str) -> int | Unreadable:
    """A number without a point and an exponent."""
    try:
        return int(digits)
    except ValueError:  # Python reads at most 4300 digits
        return Unreadable(digits)


def broken(digits: str) -> float | Unreadable:
    """A number with a point or an exponent; Rounded only where the nearest float looks whole."""
    number = float(digits)
    if not math.isfinite(number):
        return Unreadable(digits)
    return Rounded(digits) if number.is_integer() and _exactly(digits) != number else number


def read(text: str) -> list[Any]:
    """The number that a text is: none or one."""
    text = text.strip()
    if not re.fullmatch(_NUMBER, text):
        return []
    number = whole(text) if text.lstrip("-").isdigit() else broken(text)
    return [] if isinstance(number, Unreadable) else [number]


def read_whole(text: str) -> list[Any]:
    """The whole number that a text is: none or one."""
    return [int(number) for number in read(text) if isinstance(number, int) or number.is_integer()]


def _exactly(text: str) -> int | None:
    """The whole number that a finite number is written as, if it is one."""
    mantissa, _, exponent = text.lower().partition("e")
    before, _, after = mantissa.lstrip("-").partition(".")
    digits = (before + after).lstrip("0")
    leading = digits.rstrip("0")
    if not leading:
        return 0
    power = exponent.lstrip("+-0") or "0"
    if len(power) > 9:  # finite and not zero: far too small
        return None
    zeros = int(power) * (-1 if "-" in exponent else 1) - len(after) + len(digits) - len(leading)
    return None if zeros < 0 else int(leading) * 10**zeros * (-1 if mantissa.startswith("-") else 1)
