"""What the fields of a reply may hold, and what a server takes of what the model wrote."""

from __future__ import annotations

import math
import re
import sys
from binascii import b2a_base64
from collections.abc import Iterable, Mapping
from reprlib import repr as shown
from typing import Any, TypeVar
from typing import Final as Constant

from msgspec import Struct

from loopmachine.frozen import freeze, json_object, thaw, whole
from loopmachine.kinds import MALFORMED, REFUSED, STOP_REASONS, TRUNCATED
from loopmachine.records import Call, CallResult
from loopmachine.tools.reading import depth

_MOST_TOKENS: Constant = 2**53  #: a whole number that every JSON reader keeps
MAPPING: Constant = (dict, Mapping)  #: dict first: the question to Mapping is slow
DEEPEST: Constant = 100  #: levels of lists and objects in each other: as many as protobuf's readers of JSON take

Choice = TypeVar("Choice", bound=Mapping[str, Any])
Asked = tuple[str, str, str]  #: a call as a reply asks for it: id, name, arguments text


def as_asked(asked: tuple[Asked, ...]) -> tuple[Call, ...]:
    """The calls of a turn, of which nobody knows yet in which step it came, and what tools there are."""
    return tuple([Call(own, name, text, place=place) for place, (own, name, text) in enumerate(asked)])


class Unreadable(Exception):
    """What is wrong with a reply, the field first; it ends as the fault of a turn."""


# --- reading --------------------------------------------------------------------------------------------


def kind_of(value: object) -> str:
    """What a value is, for a sentence."""
    return "null" if value is None else type(value).__name__


def string(value: object, field: str) -> str:
    """The text of a field that must have one."""
    if type(value) is str:
        return value
    if isinstance(value, str):  # a subclass, such as an enum's, is no JSON
        return str.__str__(value)
    raise Unreadable(
        f"{field}: it is missing" if value is None else f"{field}: it must be a string, not {kind_of(value)}"
    )


def filled(value: object, field: str) -> str:
    """The text of a field that must say something."""
    text = value if type(value) is str else string(value, field)
    if not text or text.isspace():
        raise Unreadable(f"{field}: it is blank")
    return text


def optional(value: object, field: str) -> str:
    """The text of a field that may be absent, then blank."""
    return "" if value is None else string(value, field)


def unless_blank(value: Any, otherwise: str) -> Any:
    """A value; the other where it is blank, which means absent."""
    return otherwise if value is None or (isinstance(value, str) and not value.strip()) else value


def provider_id(value: object, field: str) -> str:
    """A provider's id of a call. Blank is absent: the loop, which knows the step, makes one up."""
    text = optional(value, field)
    return "" if text.isspace() else text


def arguments(value: object, field: str) -> str:
    """The arguments of a call as JSON text, as written where they are text, however deep; absent ones are none."""
    if value is None:
        return "{}"
    if isinstance(value, dict):
        return json_text(value, field)
    if isinstance(value, str):
        return string(value, field)
    if isinstance(value, Mapping):
        return json_text(dict(value), field)
    raise Unreadable(f"{field}: it must be an object or JSON text, not {kind_of(value)}")


def frozen(value: object, field: str) -> str:
    """A value that must be there, as JSON text that nests no deeper than what is sent can surely be written from."""
    return shallow(json_text(value, field), field)


def shallow(text: str, field: str) -> str:
    """The JSON text; Unreadable where it nests too deep."""
    if len(text) > DEEPEST and is_deep(text):
        raise too_deep(field)
    return text


def too_deep(field: str) -> Unreadable:
    """What is said of a value that nests too deep."""
    return Unreadable(f"{field}: lists and objects nest deeper than {DEEPEST} levels")


def json_text(value: object, field: str) -> str:
    """A value that must be there, as JSON text, however deep it nests."""
    if value is None:
        raise Unreadable(f"{field}: it is missing")
    try:
        try:
            return freeze(value)
        except TypeError:  # it may hold an SDK's objects
            return freeze(_as_dicts(value))
    except RecursionError:
        raise too_deep(field) from None
    except (TypeError, ValueError) as error:
        raise Unreadable(f"{field}: it is no JSON ({type(error).__name__})") from None


def is_deep(text: str) -> bool:
    """JSON text that nests deeper than what is sent can surely be written from."""
    return text.count("[") + text.count("{") > DEEPEST and depth(text) > DEEPEST


def opened(reply: object) -> dict[str, Any]:
    """A provider's reply: a mapping, or an SDK's object as one. An error in its place is told in its words."""
    body = mapping(reply, "reply", ", an SDK's object or a Turn")
    error = body.get("error")
    if error and not body.keys() & {"choices", "content", "output", "candidates"}:
        said = words_of(error)
        raise Unreadable(f"error: the provider answered with an error, for which a model raises ModelError: {said}")
    return body


def words_of(error: object) -> str:
    """What a provider says of an error: its kind and its message."""
    if not isinstance(error, Mapping):
        return str(error)[:200] if error else ""
    kind = error.get("type") or error.get("status") or error.get("code")
    return ": ".join(str(word)[:200] for word in (kind, error.get("message")) if word)


def mapping(reply: object, field: str = "chunk", others: str = " or an SDK's object") -> dict[str, Any]:
    """A reply, a chunk of one or a message: a mapping, or an SDK's object as one. ``others`` may be in its place."""
    if isinstance(reply, Mapping):
        return dict(reply)
    if callable(dump := getattr(reply, "model_dump", None)):
        # Only what the server sent. The warnings would be about values of the server's that the SDK does not know.
        told = {"by_alias": True, "exclude_unset": True, "warnings": False}
        body = dump(mode="json", **told)
        if isinstance(body, dict):
            whole: dict[str, Any] = _in_base64(body, dump(mode="python", **told))
            return whole
    raise Unreadable(f"{field}: it must be a mapping{others}, not {kind_of(reply)}")


def _as_dicts(value: Any) -> Any:
    """A value in which each of an SDK's objects, however deep, is a dict."""
    if isinstance(value, Mapping):
        return {field: _as_dicts(inner) for field, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_as_dicts(inner) for inner in value]
    return mapping(value) if callable(getattr(value, "model_dump", None)) else value


def _in_base64(told: Any, held: Any) -> Any:
    """What an object told, its bytes in the base64 that APIs send, which is not that of pydantic."""
    if isinstance(held, bytes):
        return b2a_base64(held, newline=False).decode()
    if isinstance(told, dict) and isinstance(held, dict):
        return {field: _in_base64(inner, held.get(field)) for field, inner in told.items()}
    if isinstance(told, list) and isinstance(held, list):
        return [_in_base64(*both) for both in zip(told, held, strict=True)]
    return told


def an_object(value: object, field: str) -> dict[str, Any]:
    """The object of a field that must hold one."""
    if isinstance(value, MAPPING):
        return value if isinstance(value, dict) else dict(value)
    raise Unreadable(f"{field}: it must be an object, not {kind_of(value)}")


def listed(value: object, field: str, what: str) -> list[dict[str, Any]]:
    """A list of objects."""
    if not isinstance(value, list):
        raise Unreadable(f"{field}: it must be a list of {what}s, not {kind_of(value)}")
    for place, item in enumerate(value):
        if not isinstance(item, dict):
            raise Unreadable(f"{field}[{place}]: it must be a {what}, an object, not {kind_of(item)}")
    return value


def first_choice(choices: Iterable[Choice]) -> list[Choice]:
    """Of choices or candidates, those of index 0, as a number or as text; where none is, the first that says none."""
    told = list(choices)
    indexes = [one.get("index") for one in told]
    first = [one for one, index in zip(told, indexes, strict=True) if index in (0, "0")]
    return first or [one for one, index in zip(told, indexes, strict=True) if index in (None, "")][:1]


def first_of(choices: object) -> Mapping[str, Any] | None:
    """The choice of a reply that is not streamed, by the same rule; None where there is none."""
    told = choices if isinstance(choices, list | tuple) else ()
    return next(iter(first_choice([one for one in told if isinstance(one, Mapping)])), None)


def aborts(stop: str) -> bool:
    """The stop reason says that the turn was cut, refused or broken."""
    return STOP_REASONS.get(stop.lower()) in (TRUNCATED, REFUSED, MALFORMED)


def says_why(stop: str) -> bool:
    """The stop reason says something: it is neither blank nor the word for one that nobody told."""
    word = stop.strip()
    return STOP_REASONS.get(word.lower(), word) != ""


def is_silent(part: Mapping[str, Any], kind: str = "text") -> bool:
    """A part of text that says nothing: servers send such, and refuse to be sent one."""
    text = part.get("text")
    return part.get("type") == kind and isinstance(text, str) and not text.strip()


def text_of(blocks: list[dict[str, Any]], field: str, kind: str = "text") -> str:
    """The texts of all blocks of the kind, joined. Each block must have a type."""
    said = []
    for place, block in enumerate(blocks):
        if filled(block.get("type"), f"{field}[{place}].type") == kind:
            said.append(string(block.get("text"), f"{field}[{place}].text"))
    return "".join(said)


def count(value: object) -> int | None:
    """A number of tokens; whatever is none is not reported."""
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else None


def detail(details: object, field: str) -> int | None:
    """A number of tokens among the details of a count."""
    return count(details.get(field)) if isinstance(details, Mapping) else None


def total(counts: Iterable[int | None]) -> int | None:
    """All counts together, None where one of them is not known."""
    parts = list(counts)
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def dollars(value: object) -> float | None:
    """A cost; whatever is none is not reported."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= sys.float_info.max:
        return float(value)
    return None


def model_name(value: object) -> str:
    """The model's name, blank where it is not reported."""
    return string(value, "model") if isinstance(value, str) else ""


# --- writing --------------------------------------------------------------------------------------------


_UNSENDABLE: Constant = (r"\ud", "NaN", "Infinity")  #: what JSON text may hold that no client can send


def sent_text(value: Any) -> str:
    """What is sent, as JSON text: what no client can send, half a character or an infinity, is U+FFFD or null there."""
    text = freeze(value)
    return freeze(_sendable(thaw(text))) if any(one in text for one in _UNSENDABLE) else text


def is_no_number(value: object) -> bool:
    """A float that JSON has no word for."""
    return isinstance(value, float) and not math.isfinite(value)


def _sendable(value: Any) -> Any:
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, dict):
        return {_sendable(field): _sendable(inner) for field, inner in value.items()}
    if isinstance(value, list):
        return [_sendable(inner) for inner in value]
    return None if is_no_number(value) else value


def system_sent(system: str | None) -> str:
    """The system text as it is sent; blank where none is: servers refuse one that says nothing."""
    text = whole(system or "")
    return text if text.strip() else ""


class Names(Struct, frozen=True):
    """The names of tools and calls that a provider takes."""

    rule: str  #: in words
    pattern: re.Pattern[str]

    def declared(self, tool: Mapping[str, Any], wire: str) -> tuple[str, str, Any]:
        """The name, the description and the input schema of a tool that is offered; ValueError if it can't be."""
        for field in ("name", "input_schema"):
            if field not in tool:
                raise ValueError(f"tools: {shown(dict(tool))} has no {field!r}, which every tool must have")
        name = tool["name"]
        if not (isinstance(name, str) and self.pattern.fullmatch(name)):
            raise ValueError(f"tools: {wire} takes no tool named {name!r}; a name there is {self.rule}")
        return name, tool.get("description", ""), tool["input_schema"]

    def sent(self, call: Call) -> str:
        """The name of a call; one that the provider does not take is written with the characters that all take."""
        if self.pattern.fullmatch(call.name):
            return call.name
        plain = re.sub(r"[^A-Za-z0-9_-]", "_", call.name)
        return (plain if plain[:1].isalpha() else f"_{plain}")[:64]


def foreign_id(call: Call) -> str:
    """The id of a call that came over another wire, as every provider takes it: at most 40 letters, digits, _ or -.

    One that is no such id ends in a digest of itself, so that two of them stay two.
    """
    own = call.wire_id
    if re.fullmatch(r"[A-Za-z0-9_-]{1,40}", own):
        return own
    from hashlib import blake2b  # rarely needed, and slow to import

    digest = blake2b(own.encode(errors="surrogatepass"), digest_size=6).hexdigest()
    return re.sub(r"[^A-Za-z0-9_-]", "_", own[:27]) + "_" + digest


def arguments_sent(call: Call) -> dict[str, Any]:
    """The arguments that go back to a model: what it wrote if that is a JSON object and not deep, else an empty one."""
    text = call.arguments_text
    return {} if len(text) > DEEPEST and is_deep(text) else json_object(text) or {}


def arguments_text_sent(call: Call) -> str:
    """The same as text, as the model wrote it."""
    return "{}" if json_object(call.arguments_text) is None else call.arguments_text


def content_sent(result: CallResult) -> str:
    """A result where only text can go: its content, which says so where that leaves images out."""
    if result.blocks_text is None:
        return result.content if result.outcome == "ok" else words_sent(result)
    images = sum(block["kind"] == "image" for block in result.blocks)
    told = f"\n[images not sent, since this result can only be text: {images}]" if images else ""
    return words_sent(result) + told


def words_sent(result: CallResult) -> str:
    """The text of a result. One that is not ok and says nothing, which Anthropic refuses, tells its outcome."""
    says = result.outcome == "ok" or (result.content and not result.content.isspace())
    return result.content if says else f"({result.outcome}, without a word of why)"
