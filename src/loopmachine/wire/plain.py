"""PLAIN: this library's own shape, for models that are plain functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from reprlib import repr as shown
from typing import Any
from typing import Final as Constant

from loopmachine.codec import misfits
from loopmachine.frozen import freeze
from loopmachine.history import Entry
from loopmachine.limits import Usage
from loopmachine.records import Call, Exchange, Note, Turn, UserMessage
from loopmachine.wire.base import Wire
from loopmachine.wire.fields import (
    MAPPING,
    Asked,
    Unreadable,
    arguments,
    arguments_sent,
    as_asked,
    count,
    dollars,
    filled,
    kind_of,
    model_name,
    optional,
    shallow,
    string,
    system_sent,
)
from loopmachine.wire.given import Brought, Piece, Said, System, paired

#: The kinds of reply that answer, each with the field of the answer.
_ANSWERS: Constant = {"final": "text", "text": "content"}
_ASKS: Constant = ("call", "calls", "tool_calls")  #: the kinds of reply that ask for calls
_SPEAKERS: Constant[dict[Any, Callable[[str], Piece]]] = {"system": System, "user": UserMessage, "note": Note}
_KINDS: Constant = (*_SPEAKERS, "text", "call", "tool_result", "final")  #: of message
_ONE_CALL: Constant = {"kind", "id", "name", "arguments"}


class Plain(Wire):
    """Messages and replies with a ``kind``, as a History iterates them. A turn has no payload here."""

    name = "plain"
    needs_ids = True

    def lead(self, system: str | None) -> list[dict[str, Any]]:
        text = system_sent(system)
        return [{"kind": "system", "text": text}] if text else []

    def entry(self, entry: Entry) -> list[dict[str, Any]]:
        messages = entry.messages()
        if isinstance(entry, Exchange):
            asked = (message for message in messages if message["kind"] == "call")
            for call, message in zip(entry.turn.calls, asked, strict=True):
                message["arguments"] = arguments_sent(call)
        return messages

    def pieces(self, message: dict[str, Any]) -> Iterator[Piece]:
        kind = message.get("kind")
        paired(message, kind)
        if kind in ("system", "user", "note"):
            yield _SPEAKERS[kind](filled(message.get("text"), "text"))
        elif kind in ("text", "call", "final"):
            yield Said(message, joins=kind != "final")
        elif kind == "tool_result":
            blocks = message.get("blocks")
            yield Brought(
                filled(message.get("id"), "id"),
                string(message.get("content"), "content"),
                string(message.get("outcome", "ok"), "outcome"),
                None if blocks is None else freeze(blocks),
            )
        else:
            raise Unreadable(f"kind: it must be one of {', '.join(map(repr, _KINDS))}, not {shown(kind)}")

    def reply(self, said: list[dict[str, Any]]) -> object:
        if said[0]["kind"] == "final":
            return said[0]
        text = "".join(string(one.get("text"), "text") for one in said if one["kind"] == "text")
        return {"kind": "calls", "text": text, "calls": [one for one in said if one["kind"] == "call"]}

    def decode(self, reply: object, calls: Callable[[tuple[Asked, ...]], tuple[Call, ...]] = as_asked) -> Turn:
        """The turn that a reply brings. The commonest reply, one call and nothing beside it, is read in one go."""
        asked: tuple[Asked, ...] = ()
        try:
            if type(reply) is dict and reply.keys() == _ONE_CALL and reply["kind"] == "call":
                asked = (_call(reply),)
        except Exception:  # the long way says what is wrong
            asked = ()
        return Turn("", calls(asked), wire=self.name) if asked else super().decode(reply, calls)

    def _body(self, reply: object) -> Mapping[str, Any]:
        if isinstance(reply, MAPPING):
            return reply
        raise Unreadable(f"reply: it must be a mapping or a Turn, not {kind_of(reply)}")

    def _usage(self, body: Mapping[str, Any]) -> Usage | None:
        usage = body.get("usage")
        if usage is None or (isinstance(usage, Usage) and not any(misfits(usage, Usage))):
            return usage
        return _usage(usage) if isinstance(usage, Mapping) else None

    def _stop(self, body: Mapping[str, Any]) -> str:
        return optional(body.get("stop"), "stop")

    def _text(self, said: Mapping[str, Any]) -> str:
        kind = said.get("kind")
        if isinstance(kind, str):
            if kind in _ASKS:
                beside = "content" if kind == "tool_calls" and "text" not in said else "text"
                return optional(said.get(beside), beside)
            if kind in _ANSWERS:
                return filled(said.get(_ANSWERS[kind]), _ANSWERS[kind])
        known = ", ".join(map(repr, (*_ANSWERS, *_ASKS)))
        raise Unreadable(f"kind: it must be one of {known}, not {shown(kind)}")

    def _calls(self, said: Mapping[str, Any]) -> tuple[Asked, ...]:
        kind, calls = said["kind"], said.get("calls")
        if kind == "call":
            if calls:
                raise Unreadable("calls: a reply of the kind 'call' brings one, itself")
            return (_call(said),)
        for field in ("name", "arguments"):
            if said.get(field):
                raise Unreadable(f"{field}: a reply of the kind {kind!r} has none of its own")
        if kind in _ANSWERS:
            if calls:
                raise Unreadable("calls: an answer brings none")
            return ()
        if not isinstance(calls, list | tuple):
            raise Unreadable(f"calls: it must be a list of calls, not {kind_of(calls)}")
        if not calls:
            raise Unreadable("calls: it is empty")
        return tuple(_listed_call(call, place) for place, call in enumerate(calls))


def _listed_call(call: object, place: int) -> Asked:
    if not isinstance(call, MAPPING):
        raise Unreadable(f"calls[{place}]: it must be a mapping, not {kind_of(call)}")
    try:
        return _call(call)
    except Unreadable as wrong:
        raise Unreadable(f"calls[{place}].{wrong}") from None


def _call(call: Mapping[str, Any]) -> Asked:
    return (
        filled(call.get("id"), "id"),
        filled(call.get("name"), "name"),
        _arguments(call.get("arguments")),
    )


def _arguments(told: object) -> str:
    written = arguments(told, "arguments")
    return written if isinstance(told, str) else shallow(written, "arguments")


def _usage(usage: Mapping[str, Any]) -> Usage:
    return Usage(
        input_tokens=count(usage.get("input_tokens")),
        output_tokens=count(usage.get("output_tokens")),
        cached_tokens=count(usage.get("cached_tokens")),
        reasoning_tokens=count(usage.get("reasoning_tokens")),
        cost_usd=dollars(usage.get("cost_usd")),
        model=model_name(usage.get("model")),
    )


PLAIN: Constant = Plain()
