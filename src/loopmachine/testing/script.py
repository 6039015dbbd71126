"""What a scripted model says: replies, the pieces of a streamed one, what goes wrong, and what happens in between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any
from typing import Final as Constant

import attrs

from loopmachine.frozen import freeze
from loopmachine.limits import Usage
from loopmachine.tools import CancelToken
from loopmachine.tools.signature import is_async

Action = threading.Event | Callable[[], object]  #: is waited for, or called
Piece = tuple[str, ...]  #: ("text" | "thinking" | "arguments", text) or ("call", id, name)

PATIENCE: Constant = 60.0  #: seconds that an Event is waited for
FRAGMENT: Constant = 8  #: characters of a text, or of a call's arguments, that come at once
USUAL: Constant = Usage(input_tokens=10, output_tokens=5)  #: what a reply is said to have used, since providers say it
_KINDS: Constant = ("final", "text", "call", "calls", "tool_calls")


class Ending(Enum):
    """How a body ends before its end."""

    CUT = "cut"
    DROP = "drop"


#: What the fields of an error may be, for a program and in words.
_OF_AN_ERROR: Constant[tuple[tuple[str, Any, str], ...]] = (
    ("message", str, "a text"),
    ("code", str, "a text"),
    ("retry_after", float | int | str | None, "seconds, an HTTP date or None"),
    ("headers", Mapping, "a dict"),
    ("body", bytes | None, "bytes or None"),
)

CUT: Constant = Ending.CUT  #: the server ends the body in good order, in the middle of the reply
DROP: Constant = Ending.DROP  #: the connection is gone


@attrs.frozen
class ProviderError:
    """An error as a provider sends it: an HTTP status, or within a StreamScript an error event, with its own body.

    ``code`` replaces the provider's own word for the status, ``body`` the whole body, such as a gateway's page.
    """

    status: int
    message: str = "scripted"
    code: str = attrs.field(default="", kw_only=True)
    retry_after: float | str | None = attrs.field(default=None, kw_only=True)  #: seconds, or an HTTP date
    headers: Mapping[str, str] = attrs.field(factory=dict, kw_only=True)
    body: bytes | None = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.status, int) or not 400 <= self.status <= 599:
            raise ValueError(f"ProviderError: status must be that of an error, from 400 to 599, not {self.status!r}")
        for name, kinds, right in _OF_AN_ERROR:
            if not isinstance(given := getattr(self, name), kinds):
                raise TypeError(f"ProviderError: {name} must be {right}, not {given!r}")
        if not all(isinstance(one, str) for header in self.headers.items() for one in header):
            raise TypeError(f"ProviderError: headers must be texts by their names, not {self.headers!r}")


def call(own: str, name: str, arguments: Mapping[str, Any] | str | None = None, /, **named: Any) -> dict[str, Any]:
    """A call that a model asks for, by its id: a PLAIN reply, and a piece of a StreamScript.

    Its arguments by name or as an object, not both; or as the text that the model wrote, which may be no JSON.
    """
    if arguments is not None and named:
        raise TypeError(f"call: give the arguments by name or as an object, not both {arguments!r} and {named!r}")
    return {"kind": "call", "id": own, "name": name, "arguments": named if arguments is None else arguments}


def calls(*asked: Mapping[str, Any], **beside: Any) -> dict[str, Any]:
    """A PLAIN reply that asks for several calls; ``text``, ``usage`` and ``stop`` may stand beside them."""
    return {"kind": "calls", "calls": list(asked), **beside}


def thinking(text: str) -> dict[str, Any]:
    """A piece of a StreamScript: what a model thinks."""
    return {"kind": "thinking", "text": text}


def arguments(text: str) -> dict[str, Any]:
    """A piece of a StreamScript: more of the text of the latest call's arguments; all of it where the call has none."""
    return {"kind": "arguments", "text": text}


class Script:
    """A reply piece by piece, in the words of no provider. It is what a StreamScript is, but for how it is sent."""

    def __init__(self, *items: Any, usage: Mapping[str, Any] | Usage | None = None, stop: str = "") -> None:
        self.items = tuple(piece for place in range(len(items)) for piece in _pieces(items, place))
        if not isinstance(stop, str):
            raise TypeError(f"StreamScript: stop must be a text, not {stop!r}")
        self.stop = stop
        self.usage = USUAL if usage is None else _usage(usage)
        asked = False
        for piece in self.items:
            if isinstance(piece, tuple):
                if piece[0] == "arguments" and not asked:
                    raise ValueError("StreamScript: arguments(...) must follow the call they belong to")
                asked = piece[0] in ("call", "arguments")

    def __repr__(self) -> str:
        return f"StreamScript{self.items!r}"


def scripted(reply: Any) -> Script | None:
    """A text or a PLAIN reply as the script of it; None for what is neither."""
    if isinstance(reply, Script):
        return reply
    if isinstance(reply, str):
        return Script(*_fragments(reply))
    if not isinstance(reply, Mapping) or "kind" not in reply:
        return None
    kind = reply["kind"]
    if kind not in _KINDS:
        raise ValueError(f"kind: it must be one of {', '.join(map(repr, _KINDS))}, not {kind!r}")
    asked = [reply] if kind == "call" else reply.get("calls") or ()
    said = reply.get("text") or reply.get("content") or ""
    stop = reply.get("stop")
    if not isinstance(said, str) or not isinstance(asked, list | tuple):
        raise TypeError("a reply has a text and a list of calls")
    return Script(*_fragments(said), *asked, usage=reply.get("usage"), stop="" if stop is None else stop)


def action(item: Any) -> Action | None:
    """What happens at a point of a script; None for what does not happen, and for what would have to be awaited."""
    if isinstance(item, CancelToken):
        return item.cancel
    called = callable(item) and not isinstance(item, type) and not is_async(item)
    return item if isinstance(item, threading.Event) or called else None


def kind_of_item(item: Any) -> str:
    """What an item is that no script takes, for a sentence."""
    return "an async function, which nobody awaits" if is_async(item) else type(item).__name__


def perform(action: Action, patience: float = PATIENCE) -> None:
    """Let it happen. AssertionError for an Event that is not set within so many seconds."""
    if not isinstance(action, threading.Event):
        action()
    elif not action.wait(patience):
        raise impatient(patience)


def impatient(patience: float) -> AssertionError:
    """Somebody waited for an Event in vain."""
    return AssertionError(f"a script waited {patience:g} seconds for an Event that nobody set")


def _pieces(items: tuple[Any, ...], place: int) -> Iterator[Any]:
    item, where = items[place], f"item {place}"
    if isinstance(item, str):
        yield ("text", item)
    elif isinstance(item, Mapping):
        yield from _piece(item, where, _arguments_follow(items[place + 1 :]))
    elif isinstance(item, bytes | Ending | ProviderError):
        yield item
    elif happens := action(item):
        yield happens
    else:
        raise TypeError(
            f"StreamScript: {where} must be text, a call, thinking or arguments, CUT, DROP, a ProviderError, bytes, "
            f"or what happens (a threading.Event, a CancelToken, a function), not {kind_of_item(item)}"
        )


def _arguments_follow(items: tuple[Any, ...]) -> bool:
    """Whether the next that is said are arguments, whatever happens before."""
    said = next((one for one in items if isinstance(one, str | Mapping)), "")
    return not isinstance(said, str) and said.get("kind") == "arguments"


def _piece(item: Mapping[str, Any], where: str, goes_on: bool) -> Iterator[Piece]:
    match item:
        case {"kind": ("thinking" | "arguments") as kind, "text": str(text)}:
            yield (kind, text)
        case {"id": str() | None as own, "name": str(name)} if item.get("kind", "call") == "call":
            yield ("call", own or "", name)
            given = item.get("arguments", {})
            if goes_on and not isinstance(given, str):
                if given:
                    right = "a call without arguments or with their text"
                    raise ValueError(f"StreamScript: {where}: arguments(...) must follow {right}, not {given!r}")
                given = ""  # all of them follow
            written = given if isinstance(given, str) else as_json(given, f"StreamScript: {where}: the arguments")
            yield from (("arguments", one) for one in _fragments(written))
        case _:
            known = "call(id, name, ...), thinking(text) or arguments(text)"
            raise ValueError(f"StreamScript: {where} must be {known}, not {dict(item)!r}")


def as_json(value: Any, what: str) -> str:
    """A value as JSON text. TypeError for what can't be written, which names it."""
    try:
        return freeze(value)
    except (TypeError, ValueError, RecursionError) as wrong:
        raise TypeError(f"{what} can't be written as JSON: {wrong}") from None


def _fragments(text: str) -> list[str]:
    return [text[place : place + FRAGMENT] for place in range(0, len(text), FRAGMENT)]


def _usage(usage: Mapping[str, Any] | Usage) -> Usage | None:
    if isinstance(usage, Usage):
        return usage
    if not isinstance(usage, Mapping):
        raise TypeError(f"StreamScript: usage must be a dict, a Usage or None, not {usage!r}")
    known = [field.name for field in attrs.fields(Usage)]
    if strange := [name for name in usage if name not in known]:
        raise ValueError(f"StreamScript: usage has no {', '.join(map(str, strange))}; it has {', '.join(known)}")
    return Usage(**usage) if usage else None
