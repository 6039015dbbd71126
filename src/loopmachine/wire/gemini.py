"""GEMINI: generateContent, of the Gemini API and of Vertex AI. The system text goes apart; a turn is a content."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from reprlib import repr as shown
from typing import Any
from typing import Final as Constant

from loopmachine.blocks import ImageBlock
from loopmachine.frozen import freeze
from loopmachine.kinds import REFUSED, STOP_REASONS
from loopmachine.limits import Usage
from loopmachine.records import CallResult, Exchange, Turn, UserMessage
from loopmachine.wire.base import ProviderWire
from loopmachine.wire.fields import (
    Asked,
    Names,
    Unreadable,
    aborts,
    an_object,
    arguments,
    arguments_sent,
    content_sent,
    count,
    filled,
    first_of,
    frozen,
    listed,
    model_name,
    opened,
    optional,
    provider_id,
    string,
    system_sent,
    total,
    unless_blank,
    words_sent,
)
from loopmachine.wire.given import Brought, Piece, Said, heard, in_parts, paired, picture, seen, some, words
from loopmachine.wire.spelling import as_api, spelled
from loopmachine.wire.stream import Accumulator

Part = dict[str, Any]

_IMAGES: Constant = ("image/png", "image/jpeg", "image/webp")  #: that a message or a functionResponse may hold
#: Stands for the signature of a call that the model did not make, which Gemini 3 refuses without one.
#: Source: ai.google.dev/gemini-api/docs/thought-signatures.
_NO_SIGNATURE: Constant = "skip_thought_signature_validator"


class Gemini(ProviderWire):
    """Replies are responses, as dicts in either spelling (``finishReason``, ``finish_reason``) or the SDK's objects.

    The payload of a turn is its content, in the spelling of the API. Of several candidates that of index 0 is read. A
    call that came without an id goes back without one, paired by its order. The stop reason is the finish reason, or
    why the prompt was blocked: ``content_filter`` where that says no more than OTHER does. Parts of tools that the
    server runs itself are no calls, and go back with the others.
    """

    name = "gemini"
    user_first = True
    calls_after_user = True
    names = Names(
        "1 to 128 letters, digits, _ . : and -, the first a letter or _", re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
    )
    images = _IMAGES

    def stream(self) -> Accumulator:
        from loopmachine.wire.gemini_stream import GeminiStream  # only where replies are streamed

        return GeminiStream(self.decode)

    def aside(self, system: str | None) -> Any:
        text = system_sent(system)
        return {"parts": [{"text": text}]} if text else None

    def _offered(self, schemas: list[dict[str, Any]]) -> list[dict[str, Any]]:
        told = [
            {"name": name, "description": description, "parametersJsonSchema": schema}
            for name, description, schema in self._declared(schemas)
        ]
        return [{"functionDeclarations": told}] if told else []

    def _heard(self, text: str) -> dict[str, Any]:
        return {"role": "user", "parts": [{"text": text}]}

    @classmethod
    def seen(cls, message: Any) -> list[dict[str, Any]]:
        parts = message.get("parts") if isinstance(message, dict) else None
        known = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
        told = [part | {"type": "inlineData" if "inlineData" in part else "text"} for part in known]
        return seen(told, {"text": words, "inlineData": _image})

    def _shown(self, blocks: list[dict[str, Any]]) -> dict[str, Any]:
        return {"role": "user", "parts": list(map(self._block, blocks))}

    @staticmethod
    def _block(block: dict[str, Any]) -> Part:
        return {"text": block["text"]} if block["kind"] == "text" else _inline(block)

    def pieces(self, message: dict[str, Any]) -> Iterator[Piece]:
        content = as_api(message, "message")
        role, parts = unless_blank(content.get("role"), "user"), listed(content.get("parts"), "parts", "part")
        paired(message, role)
        other = "functionResponse" if role == "model" else "functionCall"
        for at, part in enumerate(parts):
            if wrong := [field for field in (other, "type") if field in part]:
                raise Unreadable(f"parts[{at}].{wrong[0]}: a part of {role!r} has none on this wire")
        if role == "model":
            yield Said(content)
        elif role in ("user", "tool", "function"):  # as the SDK's own examples call what brings results
            for results, group in groupby(
                some(list(filter(_says, parts)), "parts"), lambda part: "functionResponse" in part
            ):
                together = list(group)
                yield from map(_answer, together) if results else [self._told(content, together)]
        else:
            raise Unreadable(f"role: it must be 'user', 'model' or 'tool', not {shown(role)}")

    def reply(self, said: list[dict[str, Any]]) -> object:
        return {"candidates": [{"content": said[0]}]}

    def _told(self, content: dict[str, Any], parts: list[Part]) -> UserMessage:
        """What the user said in parts that are no results."""
        text = "".join(optional(part.get("text"), "text") for part in parts)
        return heard(content | {"role": "user", "parts": parts}, text, self._heard(text), self.name)

    def _replayed(self, payload: dict[str, Any], turn: Turn) -> list[dict[str, Any]]:
        parts: list[Part] = payload["parts"]
        for call, function in zip(turn.calls, _functions(parts), strict=True):
            if provider_id(function.get("id"), "id"):
                function["id"] = call.wire_id
            else:
                function.pop("id", None)
            function["name"] = self.names.sent(call)
            sent = arguments_sent(call)
            if function.get("args", {}) != sent:
                function["args"] = sent
        return [payload | {"role": "model", "parts": [part for part in parts if not _is_blank(part)]}]

    def _made(self, turn: Turn) -> list[dict[str, Any]]:
        asked: list[Part] = [
            {"functionCall": {"name": self.names.sent(call), "args": arguments_sent(call)}} for call in turn.calls
        ]
        for first in asked[:1]:  # of parallel calls only the first has a signature
            first["thoughtSignature"] = _NO_SIGNATURE
        said = [{"text": turn.text}] if turn.text.strip() else []
        return [{"role": "model", "parts": [*said, *asked]}]

    def _answered(self, exchange: Exchange, said: list[dict[str, Any]]) -> list[dict[str, Any]]:
        asked = _functions(said[0]["parts"])
        parts = [
            {
                "functionResponse": {field: function[field] for field in ("id", "name") if field in function}
                | _brought(one)
            }
            for function, one in zip(asked, exchange.results, strict=True)
        ]
        return [{"role": "user", "parts": parts}]

    def _body(self, reply: object) -> dict[str, Any]:
        """What is read of a response."""
        body = spelled(opened(reply))
        first = first_of(body.get("candidates"))
        candidate, blocked = spelled(first), spelled(body.get("promptFeedback"))
        return {
            "content": candidate.get("content"),
            "stop": candidate.get("finishReason"),
            "blocked": blocked.get("blockReason"),
            "words": candidate.get("finishMessage"),
            "none": not isinstance(first, Mapping),
            "usage": spelled(body.get("usageMetadata")),
            "model": body.get("modelVersion"),
        }

    def _usage(self, body: dict[str, Any]) -> Usage | None:
        usage = body["usage"]
        if not usage:
            return None
        # The provider leaves out what is nothing, but some of its chunks leave out what is not known yet: the total.
        absent = None if count(usage.get("totalTokenCount")) is None else 0
        read, tools, written, thought = (
            otherwise if usage.get(field) is None else count(usage[field])
            for field, otherwise in (
                ("promptTokenCount", absent),
                ("toolUsePromptTokenCount", 0),
                ("candidatesTokenCount", absent),
                ("thoughtsTokenCount", 0),
            )
        )
        return Usage(
            input_tokens=total((read, tools)),
            output_tokens=total((written, thought)),
            cached_tokens=count(usage.get("cachedContentTokenCount")),
            reasoning_tokens=count(usage.get("thoughtsTokenCount")),
            model=model_name(body["model"]),
        )

    def _stop(self, body: dict[str, Any]) -> str:
        stop, blocked = optional(body["stop"], "candidates[0].finishReason"), body["blocked"]
        if not blocked or aborts(stop):
            return stop
        reason = string(blocked, "promptFeedback.blockReason")
        return reason if STOP_REASONS.get(reason.lower()) == REFUSED else "content_filter"

    def _words(self, body: dict[str, Any]) -> str:
        said = body["words"]
        return said if isinstance(said, str) else ""

    def _payload(self, body: dict[str, Any]) -> str:
        if body["none"]:
            raise Unreadable("candidates: there is none of index 0")
        told = {} if body["content"] is None else body["content"]
        content = an_object(as_api(told, "candidates[0].content"), "candidates[0].content")
        content.setdefault("parts", [])
        return frozen(content, "candidates[0].content")

    def _text(self, said: dict[str, Any]) -> str:
        parts = listed(said["parts"], "content.parts", "part")
        return "".join(
            string(part["text"], f"content.parts[{at}].text")
            for at, part in enumerate(parts)
            if "text" in part and not part.get("thought")
        )

    def _calls(self, said: dict[str, Any]) -> tuple[Asked, ...]:
        return tuple(
            _call(part["functionCall"], f"content.parts[{at}].functionCall")
            for at, part in enumerate(said["parts"])
            if "functionCall" in part
        )


def _call(told: object, at: str) -> Asked:
    function = an_object(told, at)
    if function.get("partialArgs") or function.get("willContinue"):
        raise Unreadable(f"{at}: its arguments are not whole; feed the chunks of a stream to wire.stream()")
    return (
        provider_id(function.get("id"), f"{at}.id"),
        filled(function.get("name"), f"{at}.name"),
        arguments(function.get("args"), f"{at}.args"),
    )


def _functions(parts: list[Part]) -> list[dict[str, Any]]:
    """The calls among the parts of a content."""
    return [part["functionCall"] for part in parts if "functionCall" in part]


def _is_blank(part: Part) -> bool:
    """A part that holds nothing: the server sends such, and refuses to be sent one."""
    return not part.get("text") and not part.keys() - {"text", "thought"}


def _says(part: Part) -> bool:
    """A part of the user's that says something."""
    return not _is_blank(part | {"text": optional(part.get("text"), "text").strip()})


def _answer(part: Part) -> Brought:
    function = part["functionResponse"]
    response = function.get("response") if isinstance(function, dict) else None
    if not isinstance(response, dict):
        raise Unreadable("functionResponse.response: it must be an object")
    known = [field for field in ("output", "result", "error") if response.keys() == {field}]
    value = response[known[0]] if known else response
    outcome = "failed" if known == ["error"] else "ok"
    own, name = (provider_id(function.get(field), field) for field in ("id", "name"))
    text = value if isinstance(value, str) else freeze(value)
    beside = listed(function.get("parts", []), "functionResponse.parts", "part")
    images = [_image(part, f"functionResponse.parts[{at}]") for at, part in enumerate(beside)]
    return in_parts(own, [text, *images], outcome, name)


def _image(part: Part, field: str) -> ImageBlock:
    held = part.get("inlineData")
    inline = held if isinstance(held, dict) else {}
    return picture(inline.get("mimeType"), inline.get("data"), field)


def _inline(image: dict[str, Any]) -> Part:
    return {"inlineData": {"mimeType": image["media_type"], "data": image["data"]}}


def _brought(result: CallResult) -> dict[str, Any]:
    """What a call brought: its text, and beside it its images if a functionResponse may hold them all."""
    field = "result" if result.outcome == "ok" else "error"
    images = [block for block in result.blocks if block["kind"] == "image"]
    if not images or any(image["media_type"] not in _IMAGES for image in images):
        return {"response": {field: content_sent(result)}}
    parts = list(map(_inline, images))
    return {"response": {field: words_sent(result)}, "parts": parts}


GEMINI: Constant = Gemini()
