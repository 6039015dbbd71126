"""The Gemini API, as a server of it speaks. Source: ai.google.dev/api/generate-content."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from typing import Final as Constant

from loopmachine.frozen import json_object
from loopmachine.kinds import CALLS, FINAL, REFUSED, TRUNCATED
from loopmachine.testing.checking import forbid, named, paired, some
from loopmachine.testing.providers.base import SIGNATURE, Block, Chunk, Provider, Writer
from loopmachine.testing.script import ProviderError
from loopmachine.wire import GEMINI
from loopmachine.wire.fields import an_object, listed, string
from loopmachine.wire.spelling import as_api, spelled

#: Without ``alt=sse`` the provider streams one JSON array, for which no client asks.
_PATH: Constant = re.compile(
    r"/v1(?:beta|alpha)?/models/([^/:]+):(generateContent(\?.*)?|streamGenerateContent\?(.*&)?alt=sse(&.*)?)"
)


class ContentWriter(Writer):
    """Writes a response. A call whose arguments are no JSON object is none here, but why the model stopped."""

    stops = {FINAL: "STOP", CALLS: "STOP", TRUNCATED: "MAX_TOKENS", REFUSED: "SAFETY"}

    @property
    def malformed(self) -> list[Block]:
        """The calls that this provider can't send."""
        return [block for block in self.asked if json_object(block.text) is None]

    def add(self, block: Block, text: str) -> list[Chunk]:
        return [] if block.kind == "call" else [self._chunk([_said(block.kind, text)])]

    def finish(self, block: Block) -> list[Chunk]:
        """A call comes whole."""
        return [] if block.kind != "call" or block in self.malformed else [self._chunk([_function(block)])]

    def tail(self) -> list[Chunk]:
        return [self._chunk([{"text": ""}], **self._stopped()) | self._used()]

    def body(self) -> Chunk:
        parts = [
            _function(block) if block.kind == "call" else _said(block.kind, block.text)
            for block in self.blocks
            if block not in self.malformed
        ]
        return self._chunk(parts, **self._stopped()) | self._used()

    def _stopped(self) -> Chunk:
        if not self.malformed or self._stop:
            return {"finishReason": self.stop}
        written = "; ".join(f"{block.name}({block.text})" for block in self.malformed)
        return {"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": f"Malformed function call: {written}"}

    def _chunk(self, parts: list[Chunk], **beside: Any) -> Chunk:
        content = {"parts": parts, "role": "model"} if parts else {}
        candidate = {"content": content, **beside, "index": 0}
        return {"candidates": [candidate], "modelVersion": self.model, "responseId": f"resp_{self.number}"}

    def _used(self) -> Chunk:
        """The provider counts thoughts apart from what it answers."""
        if self.usage is None:
            return {}
        thought = self.usage.reasoning_tokens or 0
        counts = {
            "promptTokenCount": self.usage.input_tokens,
            "candidatesTokenCount": (self.usage.output_tokens or 0) - thought,
            "totalTokenCount": self.usage.tokens,
            "thoughtsTokenCount": thought or None,
            "cachedContentTokenCount": self.usage.cached_tokens,
        }
        return {"usageMetadata": {field: count for field, count in counts.items() if count is not None}}


def _said(kind: str, text: str) -> Chunk:
    return {"text": text, "thought": True} if kind == "thinking" else {"text": text}


def _function(block: Block) -> Chunk:
    """A call, which is signed if it is the turn's first."""
    own = {"id": block.id} if block.id else {}
    part: Chunk = {"functionCall": {**own, "name": block.name, "args": json_object(block.text)}}
    return part if block.asked else part | {"thoughtSignature": SIGNATURE}


class Gemini(Provider):
    """POST /v1/models/{model}:generateContent, and :streamGenerateContent?alt=sse; each version of the API alike."""

    wire = GEMINI
    path = "/v1/models/{model}:generateContent, :streamGenerateContent?alt=sse (as /v1beta and /v1alpha)"
    writer = ContentWriter
    newline = "\r\n"
    words = {
        400: "INVALID_ARGUMENT",
        401: "UNAUTHENTICATED",
        403: "PERMISSION_DENIED",
        404: "NOT_FOUND",
        429: "RESOURCE_EXHAUSTED",
        500: "INTERNAL",
        503: "UNAVAILABLE",
        504: "DEADLINE_EXCEEDED",
    }

    def serves(self, path: str, body: Mapping[str, Any]) -> tuple[str, bool] | None:
        found = _PATH.fullmatch(path)
        return (found[1], found[2].startswith("stream")) if found else None

    def error(self, error: ProviderError) -> Chunk:
        return {"error": {"code": error.status, "message": error.message, "status": self.word(error)}}

    def check(self, body: Mapping[str, Any], model: str) -> None:
        told = some(body.get("contents"), "contents", "content")
        contents = [as_api(content, f"contents[{at}]") for at, content in enumerate(told)]
        for at, content in enumerate(contents):
            _check_content(content, f"contents[{at}]")
            asks = any("functionCall" in part for part in content["parts"])
            follows = at > 0 and contents[at - 1].get("role") == "user"
            forbid(asks and not follows, f"contents[{at}]", "calls must follow something of the user's")
            if model.startswith("gemini-3"):  # those before it do not mind
                _check_signature(content["parts"], f"contents[{at}].parts")
        for at, tool in enumerate(some(body["tools"], "tools", "tool") if body.get("tools") else ()):
            for place, one in enumerate(listed(tool.get("functionDeclarations", []), f"tools[{at}]", "declaration")):
                _check_declaration(spelled(one), f"tools[{at}].functionDeclarations[{place}]")
        paired(contents, "contents")


def _check_declaration(one: Mapping[str, Any], at: str) -> None:
    """Without a schema a function takes nothing. Google's own SDK sends ``parameters_json_schema``."""
    named(one, at, GEMINI.names)
    for field in ("parametersJsonSchema", "parameters"):
        an_object(one.get(field, {}), f"{at}.{field}")


def _check_content(content: Mapping[str, Any], at: str) -> None:
    forbid(content.get("role", "user") not in ("user", "model"), f"{at}.role", "it must be user or model")
    for place, part in enumerate(some(content.get("parts"), f"{at}.parts", "part")):
        where = f"{at}.parts[{place}]"
        signed = bool(part.get("thoughtSignature"))  # such a part may hold nothing else
        forbid(not signed and not part.keys() - {"thought", "thoughtSignature"}, where, "it holds no data")
        if "text" in part:
            forbid(not string(part["text"], f"{where}.text") and not signed, f"{where}.text", "it is empty")
        for field, inside in (("functionCall", "args"), ("functionResponse", "response")):
            if field in part:
                told = an_object(part[field], f"{where}.{field}")
                named(told, f"{where}.{field}", GEMINI.names)
                forbid("id" in told and not told["id"], f"{where}.{field}.id", "it is blank")
                an_object(told.get(inside, {} if inside == "args" else None), f"{where}.{field}.{inside}")


def _check_signature(parts: list[dict[str, Any]], at: str) -> None:
    """The first call of a turn comes back signed. Source: ai.google.dev/gemini-api/docs/thought-signatures."""
    for place, part in enumerate(parts):
        if "functionCall" in part:
            forbid(not part.get("thoughtSignature"), f"{at}[{place}].thoughtSignature", "the call has lost it")
            return
