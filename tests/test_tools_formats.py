"""Each format that a schema may ask for, on both sides of its edge."""

from __future__ import annotations

import datetime
import itertools
import json

import msgspec
import pytest
from jsonschema import Draft202012Validator

from loopmachine.tools import Tool
from loopmachine.tools.formats import FORMATS, fits
from loopmachine.tools.nodes import Examination
from loopmachine.tools.standins import convert
from loopmachine.tools.types import Types

CASES = {
    "date": (["2024-02-29"], ["2023-02-29", "2024-2-9", "0000-01-01", "2024-02-29T00:00:00Z", "٢٠٢٤-02-29"]),
    "date-time": (
        ["2024-02-29T09:30:00Z", "2024-02-29t09:30:00z", "2024-02-29T23:59:59.123456789+05:30"],
        [
            *["2024-02-29T09:30:00", "2024-02-30T09:30:00Z", "2024-02-29 09:30:00Z", "2024-02-29T24:00:00Z"],
            *["2024-12-31T23:59:60Z", "2024-02-29T09:30Z", "2024-02-29T09:30:00+24:00"],
        ],
    ),
    "date-time-local": (
        ["2024-02-29T09:30:00", "2024-02-29t23:59:59.123456789"],
        ["tomorrow", "2024-02-29T09:30:00Z", "2024-02-30T09:30:00", "2024-02-29", "2024-02-29 09:30:00"],
    ),
    "time": (["09:30:00Z", "23:59:59.5-01:00"], ["09:30:00", "24:00:00Z", "9:30:00Z"]),
    "partial-time": (["09:30:00", "09:30:00.5"], ["09:30", "09:30:00Z"]),
    "duration": (
        ["P1D", "P1W", "P1Y2M3DT4H5M6S", "PT1.5H", "-P1D", "+P0.5D"],
        ["P", "PT", "P1DT", "1D", "P1H", "P1W1D"],
    ),
    "day-time-duration": (
        ["P1D", "P1W", "-P0.5W", "P3DT4H5M6S", "PT1M", "P1DT0.5S", "+P0.5D"],
        ["P", "PT", "P1DT", "P1Y", "P1M", "P1Y2D", "P1W1D", "P1.5DT1H", "PT1.5M1S"],
    ),
    "uuid": (
        ["12345678-1234-5678-1234-567812345678", "ABCDEF00-1234-5678-1234-567812345678"],
        ["12345678123456781234567812345678", "{12345678-1234-5678-1234-567812345678}", "1234"],
    ),
    "decimal": (["1", "-1.10", "+1e5", "1E-99"], ["NaN", "Infinity", " 1", "1_0", ".5", "1.", "1e1000", "١"]),
    "email": (["ann@example.org"], ["ann", "@", "a b@c", "a@b@c"]),
    "uri": (
        [
            *["https://example.org", "https://u:p@example.org:8080/a/b%20c?d=e#f", "urn:a:b", "file:///a", "a:"],
            *["http://[2001:db8::1]:80/", "mailto:ann@example.org", "a:/b"],
        ],
        ["example.org", "//example.org", "http:// x", "http://a/%zz", "1a:b", "http://[::z]/", "http://[::::]/"],
    ),
    "ipv4": (["192.0.2.1"], ["192.0.2.256", "192.0.2", "192.0.2.01"]),
    "ipv6": (["2001:db8::1", "::"], ["2001:db8::1::", "fe80::1%1", "1.2.3.4"]),
    "base64": (["", "aGk=", "/w=="], ["aGk", "a b=", "_w=="]),
}
#: jsonschema does not know these, or knows less of them.
OWN = {"date-time-local", "partial-time", "day-time-duration", "decimal", "email", "base64"}


def test_every_format_has_cases() -> None:
    """No format is without cases."""
    assert list(CASES) == list(FORMATS)


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_takes_what_it_names(name: str) -> None:
    """What is written in a format fits it, and what is not quite so does not."""
    right, wrong = CASES[name]
    assert {text: fits(name, text) for text in right + wrong} == dict.fromkeys(right, True) | dict.fromkeys(
        wrong, False
    )


@pytest.mark.parametrize("name", FORMATS)
def test_no_format_takes_a_line_break_after_it(name: str) -> None:
    """What is right stops being so with a line break after it, which a pattern's dollar sign would let through."""
    assert not any(fits(name, text + "\n") for text in CASES[name][0] if text)


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in OWN])
def test_a_format_is_what_jsonschema_takes_for_it(name: str) -> None:
    """Each case is judged the same by jsonschema's format checker."""
    judge = Draft202012Validator({"format": name}, format_checker=Draft202012Validator.FORMAT_CHECKER)
    right, wrong = CASES[name]
    assert {text: judge.is_valid(text) for text in right + wrong} == {text: fits(name, text) for text in right + wrong}


def is_read(text: str) -> bool:
    """Whether a timedelta is made of a text."""
    try:
        return bool(convert(text, Types().shape(datetime.timedelta), Examination()))
    except msgspec.ValidationError:
        return False


def test_a_duration_that_fits_is_read_as_a_time_span() -> None:
    """Whatever is told of a timedelta is what is taken for one, weeks included, and nothing else is."""
    numbers = [["", f"1{unit}", f"1.5{unit}"] for unit in "WDHMS"]
    texts = [
        f"P{weeks}{days}{timed}{hours}{minutes}{seconds}"
        for weeks, days, timed, hours, minutes, seconds in itertools.product(*numbers[:2], ["", "T"], *numbers[2:])
    ]
    told = [text for text in texts if fits("day-time-duration", text)]
    assert (told, len(told)) == ([text for text in texts if is_read(text)], 32)


def test_years_and_months_are_refused_as_spans_of_no_fixed_length() -> None:
    """The sentence says why, and what would be right; a minute is no month."""

    def f(wait: datetime.timedelta) -> None: ...

    taken = [Tool.of(f).arguments.check(json.dumps({"wait": text})) for text in ("P1Y", "P1M", "PT1M", "P2W")]
    wanted = "a duration such as P2W or P1DT12H, without years and months, which have no fixed length, is wanted"
    assert taken == [
        (None, f'f was not called; its arguments don\'t fit:\n- wait: "P1Y" where {wanted}'),
        (None, f'f was not called; its arguments don\'t fit:\n- wait: "P1M" where {wanted}'),
        ('{"wait":"PT1M"}', ""),
        ('{"wait":"P2W"}', ""),
    ]
