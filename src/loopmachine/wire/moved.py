"""What is left out of a history where it goes over another wire than that which it came over."""

from __future__ import annotations

from typing import Any
from typing import Final as Constant

from loopmachine.history import Entry
from loopmachine.records import Exchange, Final, Turn, UserMessage
from loopmachine.wire.base import Wire, carried_parts, kept

#: The fields of what a model said that hold its parts, and those that say no more than its text and calls do.
_PARTS: Constant = ("content", "parts", "tool_calls", "function", "custom", "functionCall")
_CARRIED: Constant = (
    *("type", "role", "text", "refusal", "id", "index", "status"),
    *("call_id", "name", "input", "args", "arguments", "caller"),
)
_TYPES: Constant = (
    *(None, "message", "text", "output_text", "refusal"),
    *("function", "custom", "function_call", "custom_tool_call", "tool_use"),
)


def left_out(entry: Entry, wire: Wire) -> str:
    """The other wire that an entry came over, where this one leaves something of it out; blank where it does not."""
    said = entry.turn if isinstance(entry, Exchange | Final) else entry
    if not isinstance(said, UserMessage | Turn) or said.payload_text is None or said.wire == wire.name:
        return ""
    payload = kept(said)
    lost = _heard_more(said, payload, wire) if isinstance(said, UserMessage) else _said_more(payload)
    return said.wire if lost else ""


def _heard_more(said: UserMessage, message: Any, wire: Wire) -> bool:
    """The user said more than the texts and images that are sent: another part, or another field of one."""
    told = message if isinstance(message, dict) else {}
    parts = told.get("content") or told.get("parts")
    if told.keys() - {"type", "role", "content", "parts"}:
        return True
    if not isinstance(parts, list):
        return not isinstance(parts, str)
    return carried_parts(said, wire) != [_told(part) for part in parts]


def _told(part: Any) -> Any:
    """A part without the fields that say nothing."""
    return {field: value for field, value in part.items() if value is not None} if isinstance(part, dict) else part


def _said_more(said: Any) -> bool:
    """The model said more than its text and calls, which is all that another wire sends."""
    if isinstance(said, list):
        return any(map(_said_more, said))
    if not isinstance(said, dict):
        return False
    more = [field for field, value in said.items() if value and field not in (*_PARTS, *_CARRIED)]
    return bool(more) or said.get("type") not in _TYPES or any(_said_more(said.get(field)) for field in _PARTS)
