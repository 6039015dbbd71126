"""The formats of text that can be checked, by the name that JSON Schema gives them."""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Final as Constant

_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?"
_ZONE = r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_MANY = r"[0-9]+(?:\.[0-9]+)?"
_DAYS_AND_TIME = rf"(?:{_MANY}D)?(?:T(?=[0-9])(?:{_MANY}H)?(?:{_MANY}M)?(?:{_MANY}S)?)?"
_LETTER = r"(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})"  # of a URI, in every part of it
_PART = rf"(?:{_LETTER}|[:@])"


def _whole(pattern: str) -> Callable[[str], object]:
    return partial(re.fullmatch, pattern)  # which compiles it when it is first needed


def _dated(pattern: str) -> Callable[[str], object]:
    written = _whole(_DAY + pattern)
    return lambda text: written(text) and date.fromisoformat(text[:10])


def _is_ipv4(text: str) -> object:
    from ipaddress import IPv4Address

    return IPv4Address(text)


def _is_ipv6(text: str) -> object:
    from ipaddress import IPv6Address

    return not IPv6Address(text).scope_id


def _is_uri(text: str) -> object:
    parts = re.fullmatch(_URI, text)
    return parts is not None and (parts["address"] is None or _is_ipv6(parts["address"]))


def _is_base64(text: str) -> object:
    a2b_base64(text, strict_mode=True)
    return True


_URI = (  # RFC 3986, appendix A
    rf"[A-Za-z][A-Za-z0-9+.-]*:"
    rf"(?://(?:(?:{_LETTER}|:)*@)?(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|{_LETTER}*)(?::[0-9]*)?(?:/{_PART}*)*"
    rf"|/(?:{_PART}+(?:/{_PART}*)*)?|{_PART}+(?:/{_PART}*)*)?"
    rf"(?:\?(?:{_PART}|[/?])*)?(?:#(?:{_PART}|[/?])*)?"
)

#: The name of each format, how to check it, and what is wanted in words.
FORMATS: Constant[dict[str, tuple[Callable[[str], object], str]]] = {
    "date": (_dated(""), "a date such as 2024-02-29"),
    "date-time": (_dated(f"[Tt]{_CLOCK}{_ZONE}"), "a date and time with its zone, such as 2024-02-29T09:30:00Z"),
    "date-time-local": (_dated(f"[Tt]{_CLOCK}"), "a date and time without a zone, such as 2024-02-29T09:30:00"),
    "time": (_whole(_CLOCK + _ZONE), "a time with its zone, such as 09:30:00Z"),
    "partial-time": (_whole(_CLOCK), "a time without a zone, such as 09:30:00"),
    "duration": (
        _whole(rf"[+-]?P(?=[0-9T])(?:{_MANY}W|(?:{_MANY}Y)?(?:{_MANY}M)?{_DAYS_AND_TIME})"),
        "a duration such as P1DT12H",
    ),
    "day-time-duration": (
        _whole(rf"(?!.*\.[0-9]+[A-Z].)[+-]?P(?=[0-9T])(?:{_MANY}W|{_DAYS_AND_TIME})"),  # a fraction comes last
        "a duration such as P2W or P1DT12H, without years and months, which have no fixed length,",
    ),
    "uuid": (
        _whole(r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"),
        "a UUID such as 12345678-1234-5678-1234-567812345678",
    ),
    "decimal": (
        _whole(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?"),
        'a decimal number as text, such as "1.10"',
    ),
    "email": (_whole(r"[^@\s]+@[^@\s]+"), "an email address such as ann@example.org"),
    "uri": (_is_uri, "a URI such as https://example.org/a"),
    "ipv4": (_is_ipv4, "an IPv4 address such as 192.0.2.1"),
    "ipv6": (_is_ipv6, "an IPv6 address such as 2001:db8::1"),
    "base64": (_is_base64, "base64 such as aGk="),
}


def fits(name: str, text: str) -> bool:
    """Whether the text is written in the format of this name."""
    try:
        return bool(FORMATS[name][0](text))
    except ValueError:
        return False
