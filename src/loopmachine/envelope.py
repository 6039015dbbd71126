"""The text that a run is kept as: how it began, every event and the rows taken, and what it must be given again."""

from __future__ import annotations

from typing import Any

import attrs

from loopmachine import codec
from loopmachine.codec import must_be
from loopmachine.definition import Definition
from loopmachine.events import Event
from loopmachine.frozen import freeze, thaw
from loopmachine.history import Ids
from loopmachine.limits import Policy
from loopmachine.records import Exchange, Snapshot
from loopmachine.tools.toolbox import ErrorText
from loopmachine.wire import WIRES, Wire

FORMAT = 1  #: of the JSON that ``write`` makes

_NO_RUN = "this is no run that to_json wrote"


def write(start: Snapshot, snapshot: Snapshot, wire: Wire, system: str | None, error_text: ErrorText) -> str:
    """A run as text. Callables are no part of it."""
    return freeze(
        {
            "format": FORMAT,
            "wire": wire.name,
            "system": codec.plain(system),
            "error_text": "callable" if callable(error_text) else error_text,
            "start": codec.plain(start),
            "events": [codec.plain(event) for event in snapshot.events],
            "rows": list(snapshot.rows),
            "state": snapshot.state,
        }
    )


def read(text: str, definition: Definition) -> dict[str, Any]:
    """The parts of a run, the start and the events as records. Raises ValueError."""
    must_be("text", text, str, "the text that to_json gave")
    try:
        data: dict[str, Any] = thaw(text)
    except (ValueError, RecursionError) as wrong:
        raise ValueError(f"{_NO_RUN}: it is not JSON: {wrong}") from wrong
    form = data.get("format") if isinstance(data, dict) else None
    if not isinstance(form, int) or isinstance(form, bool) or form < 1:
        raise ValueError(f"{_NO_RUN}: it names no format")
    if form > FORMAT:
        raise ValueError(
            f"this run is in format {form}, which a newer loopmachine wrote; this one reads format {FORMAT}"
        )
    missing = {"wire", "system", "error_text", "start", "events", "rows"} - data.keys()
    if missing:
        raise ValueError(f"{_NO_RUN}: it has no {', '.join(sorted(missing))}")
    own = codec.own_events(definition)
    try:
        data["start"], data["events"] = codec.record(data["start"]), codec.record(data["events"], own)
        data["system"] = codec.record(data["system"])
    except RecursionError as wrong:
        raise ValueError(f"{_NO_RUN}: it is too deep") from wrong
    taken: Any = (Event, *own.values())
    right = {
        "wire": isinstance(data["wire"], str),
        "system": isinstance(data["system"], str | None),
        "start": type(data["start"]) is Snapshot,
        "events": isinstance(data["events"], tuple) and all(isinstance(one, taken) for one in data["events"]),
        "rows": isinstance(data["rows"], list) and all(isinstance(one, str) for one in data["rows"]),
        "state": isinstance(data.get("state"), str | None),  # runs written before it was have none
    }
    wrong_parts = [part for part, holds in right.items() if not holds]
    if wrong_parts:
        raise ValueError(f"{_NO_RUN}: {', '.join(wrong_parts)} can't be what is written there")
    _check_start(data["start"], definition)
    return data


def _check_start(start: Snapshot, definition: Definition) -> None:
    """Refuse what no run can begin with. ValueError."""
    state, initial, said = start.state, definition.initial, start.history.entries
    if state not in definition.states:
        raise ValueError(f"{_NO_RUN}: it begins in {state!r}, which is no state of this definition")
    if state != initial:
        raise ValueError(f"{_NO_RUN}: it begins in {state!r}, and a run of this definition in {initial!r}")
    if not said:
        raise ValueError(f"{_NO_RUN}: it begins with an empty history, and a run with a prompt or what was said before")
    ids = Ids(result.id for entry in said if isinstance(entry, Exchange) for result in entry.results)
    blank = Snapshot(state=initial, clock=start.clock, since=start.clock, handed_in=len(said), ids=ids)
    begun = blank.but(history=start.history, budget=start.budget, policy=start.policy)
    wrong = [one.name for one in attrs.fields(Snapshot) if getattr(start, one.name) != getattr(begun, one.name)]
    if wrong:
        raise ValueError(f"{_NO_RUN}: it begins with {', '.join(wrong)} that no run has before its first event")


def wire_of(name: str, given: Wire | None) -> Wire:
    """The wire that a run speaks: the one of this name, or what is given if it has it. Raises ValueError."""
    if given is not None:
        must_be("wire", given, Wire)
    known = WIRES.get(name) if given is None else given
    if known is None or known.name != name:
        raise ValueError(f"wire: this run speaks {name!r}; give that one as wire=, not {given!r}")
    return known


def error_text_of(written: str, given: ErrorText | None) -> ErrorText:
    """What a failing tool tells in a run: as it was, unless another is given. Raises ValueError."""
    if given is None and written == "callable":
        raise ValueError("error_text: this run's policy has a callable; give it again as error_text=")
    return Policy(error_text=written if given is None else given).error_text
