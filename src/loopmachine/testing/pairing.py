"""Whether each call has its one result, in the messages of any wire."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from loopmachine.history import History
from loopmachine.wire.fields import Unreadable, mapping
from loopmachine.wire.spelling import spelled

Message = Mapping[str, Any]


@attrs.frozen
class Mark:
    """A call or a result in a message. Gemini's may be ``anonymous``: they are paired by their names, in order."""

    where: str  #: the message
    kind: str  #: "call" or "result"
    id: str
    name: str = ""
    anonymous: bool = False

    def __str__(self) -> str:
        what = f"{self.kind} {self.id!r}" if self.id.strip() else f"{self.kind} without an id"
        return f"{what} ({self.name})" if self.name else what


def assert_paired(history: History | Iterable[Message]) -> None:
    """Assert that each call has exactly one result, before anything else is said, and each result its call.

    Nothing stands in front of a result in its message, which Anthropic refuses. Takes a History, or a list of messages
    in the shape of any wire, also as an SDK's objects. AssertionError names the first call or result that is not
    paired. TypeError for what is no message.
    """
    if not isinstance(history, Iterable):
        raise TypeError(f"assert_paired takes a History or a list of messages, not {history!r}")
    fault = unpaired([_message(one, place) for place, one in enumerate(history)])
    if fault:
        raise AssertionError(fault)


def _message(one: object, place: int) -> Message:
    try:
        return mapping(one)
    except Unreadable:
        raise TypeError(f"messages[{place}]: it must be a message, not {type(one).__name__}") from None


def unpaired(messages: Iterable[Message], field: str = "messages") -> str:
    """The first call or result that is not paired, with its message in this field; blank where all are."""
    waiting: list[Mark] = []
    answering = False
    for place, message in enumerate(messages):
        found = list(marks(message, f"{field}[{place}]"))
        answers = any(mark.kind == "result" for mark in found)
        if waiting and not answers and (answering or _moves_on(message, found)):
            break
        for mark in found:
            if fault := _call(waiting, mark) if mark.kind == "call" else _result(waiting, mark):
                return fault
        if late := _late(message):
            return f"{field}[{place}]: in front of the result {late!r} stands what is none, in the same message"
        answering = answers and bool(waiting)
    return f"{waiting[0].where}: the {waiting[0]} has no result" if waiting else ""


def _call(waiting: list[Mark], mark: Mark) -> str:
    if not mark.anonymous and not mark.id.strip():
        return f"{mark.where}: a {mark}"
    if not mark.anonymous and any(mark.id == other.id for other in waiting):
        return f"{mark.where}: the {mark} has the id of another call"
    waiting.append(mark)
    return ""


def _result(waiting: list[Mark], mark: Mark) -> str:
    for asked in waiting:
        if asked.id == mark.id and mark.name in ("", asked.name):  # only Gemini's results have a name
            waiting.remove(asked)
            return ""
    return f"{mark.where}: the {mark} answers no call that waits for one"


def _late(message: Message) -> str:
    """The id of a result that stands behind another block in its message; blank where none does."""
    said = False
    for block in _objects(message.get("content")):
        if block.get("type") != "tool_result":
            said = True
        elif said:
            return _text(block, "tool_use_id")
    return ""


def _moves_on(message: Message, found: list[Mark]) -> bool:
    """Whether a message that brings no result ends the turn whose calls wait: another item of that turn does not."""
    if found:
        return "role" in message
    return message.get("role") == "user" or "type" not in message


def marks(message: Message, where: str) -> Iterator[Mark]:
    """The calls and results in a message."""
    kind = message.get("kind") or message.get("type")
    if kind in ("call", "function_call", "custom_tool_call"):
        yield Mark(where, "call", _text(message, "call_id", "id"), _text(message, "name"))
    elif kind in ("tool_result", "function_call_output", "custom_tool_call_output"):
        yield Mark(where, "result", _text(message, "call_id", "id"))
    for asked in _objects(message.get("tool_calls")):
        yield Mark(where, "call", _text(asked, "id"), _text(asked.get("function") or asked.get("custom"), "name"))
    if message.get("role") == "tool":
        yield Mark(where, "result", _text(message, "tool_call_id"))
    for block in _objects(message.get("content")):
        if block.get("type") == "tool_use":
            yield Mark(where, "call", _text(block, "id"), _text(block, "name"))
        elif block.get("type") == "tool_result":
            yield Mark(where, "result", _text(block, "tool_use_id"))
    for part in map(spelled, _objects(message.get("parts"))):
        for field, what in (("functionCall", "call"), ("functionResponse", "result")):
            if field in part:
                own = _text(part[field], "id")
                yield Mark(where, what, own, _text(part[field], "name"), anonymous=not own)


def _objects(value: object) -> list[Message]:
    """The objects in a list, those of an SDK too."""
    items = value if isinstance(value, list | tuple) else ()
    return [mapping(one) for one in items if isinstance(one, Mapping) or hasattr(one, "model_dump")]


def _text(value: object, *fields: str) -> str:
    """The first of these fields that is there, as text; blank where none is."""
    found = [value[field] for field in fields if field in value] if isinstance(value, Mapping) else []
    return found[0] if found and isinstance(found[0], str) else ""
