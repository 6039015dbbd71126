"""What observers are told beside each Advance."""

from __future__ import annotations

import logging

import attrs

from loopmachine.records import Call


@attrs.frozen
class Progress:
    """How far a running call has come, in the tool's own words and units; told in the thread that the tool runs in."""

    call: Call
    done: float
    total: float | None = None
    text: str = ""


@attrs.frozen
class Warning:  # noqa: A001  the word for it; always read as notices.Warning
    """Something that harmed nothing and that somebody should know."""

    text: str


def log_warning(warning: Warning) -> None:
    """What becomes of a warning where nobody observes."""
    logging.getLogger("loopmachine").warning(warning.text)
