"""The accumulator of GEMINI: chunks that are responses themselves, each with what is new."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from typing import Final as Constant

from loopmachine.frozen import thaw
from loopmachine.wire.fields import (
    Unreadable,
    an_object,
    arguments,
    first_choice,
    listed,
    optional,
    provider_id,
    string,
)
from loopmachine.wire.framing import Chunk
from loopmachine.wire.spelling import as_api, spelled
from loopmachine.wire.stream import Accumulator, Decode, Delta

Part = dict[str, Any]


class GeminiStream(Accumulator):
    """Takes the chunks of one response, of whose candidates that of index 0 is read.

    Its end is a finish reason, after which usage may still come, or why the prompt was blocked. Texts that follow one
    another are put together, a part with a signature stays by itself. The arguments of a call may come piece by
    piece, each with its JSON path, as Vertex AI sends them (``partialArgs``); a screen is told of them once they are
    whole.
    """

    def __init__(self, decode: Decode) -> None:
        super().__init__(decode)
        self._about: Chunk = {}  #: what a response says beside its candidates
        self._feedback: Chunk = {}  #: of the prompt: that it was blocked is not taken back
        self._usage: Chunk = {}
        self._candidate: Chunk | None = None  #: but for its content
        self._content: Chunk = {}  #: but for its parts
        self._parts: list[Part] = []
        self._texts: list[str] = []  #: the pieces of the last part, where that is text which may go on
        self._open: _Call | None = None  #: the call whose arguments go on
        self._calls = 0

    def _take(self, chunk: Chunk) -> Iterator[Delta]:
        body = spelled(chunk)
        used = as_api(body.pop("usageMetadata", None), "usageMetadata")
        feedback = spelled(body.pop("promptFeedback", None))
        self._usage |= used if isinstance(used, dict) else {}
        self._feedback |= {field: value for field, value in feedback.items() if value}
        candidates = body.pop("candidates", None)
        self._about |= {field: value for field, value in body.items() if value is not None}
        told = [] if candidates is None else listed(candidates, "candidates", "candidate")
        for candidate in first_choice(map(spelled, told)):
            yield from self._add(candidate)
        self._evident |= bool(feedback.get("blockReason"))

    def _add(self, candidate: Chunk) -> Iterator[Delta]:
        content = an_object(as_api(candidate.pop("content", None), "content") or {}, "content")
        parts = content.pop("parts", [])
        self._content |= content
        for part in listed(parts, "content.parts", "part"):
            yield from self._part(part)
        self._evident |= self._stopped(candidate.pop("finishReason", None))
        self._candidate = (self._candidate or {}) | {field: value for field, value in candidate.items() if value}

    def _part(self, part: Part) -> Iterator[Delta]:
        if "functionCall" in part:
            yield from self._function(part, an_object(part["functionCall"], "functionCall"))
            return
        thought, told = part.get("thought"), part.get("text")
        text = "" if thought and not isinstance(told, str) else optional(told, "text")  # no turn is made of a thought
        if text:
            yield Delta("thinking" if thought else "text", text)
        plain = isinstance(told, str) and part.keys() <= {"text", "thought"}
        if plain and self._texts and thought == self._parts[-1].get("thought"):
            self._texts.append(text)
            return
        self._settle()
        self._parts.append(part)
        self._texts = [text] if plain else []

    def _settle(self) -> None:
        """Write the text that was put together where it belongs."""
        if self._texts:
            self._texts = ["".join(self._texts)]
            self._parts[-1]["text"] = self._texts[0]

    def _function(self, part: Part, function: dict[str, Any]) -> Iterator[Delta]:
        if self._open is None or function.get("name"):
            self._evident = False  # a screen may be told of the call once its arguments are there
            self._settle()
            self._texts = []
            self._parts.append(part)
            self._open = _Call(part, self._calls)
            self._calls += 1
            if function.get("willContinue"):
                yield self._open.delta("")
        if self._open.take(part):
            yield self._open.delta(arguments(self._open.function.get("args"), "args"))
            self._open = None

    def _body(self) -> Chunk | None:
        self._settle()
        about = self._about | {"usageMetadata": self._usage, "promptFeedback": self._feedback}
        if self._candidate is None:
            return about if self._evident else None
        said = {"content": self._content | {"parts": self._parts}, "finishReason": self._stop}
        return about | {"candidates": [self._candidate | said]}


class _Call:
    """The part of a call, and its arguments that come piece by piece."""

    def __init__(self, part: Part, place: int) -> None:
        self._part = part
        self._place = place
        self._args: dict[str, Any] = {}  #: put together here
        self._strings: dict[str, list[str]] = {}  #: the pieces of those that go on, by path
        self.function: dict[str, Any] = part["functionCall"]

    def delta(self, text: str) -> Delta:
        """What a screen is told."""
        own, name = provider_id(self.function.get("id"), "id"), optional(self.function.get("name"), "name")
        return Delta("call", text, self._place, own, name)

    def take(self, part: Part) -> bool:
        """Take what a part says of the call, and say whether it is whole now."""
        function = part["functionCall"]
        pieces, goes_on = function.pop("partialArgs", []), function.pop("willContinue", False)
        for kept, told in ((self._part, part), (self.function, function)):
            for field, value in told.items():
                kept.setdefault(field, value)
        for piece in listed(pieces, "partialArgs", "piece"):
            self.function["args"] = self._args
            self._add(piece)
        if goes_on or self._strings:
            self.function["willContinue"] = True  # which no turn is made of
            return False
        self.function.pop("willContinue", None)
        return True

    def _add(self, piece: dict[str, Any]) -> None:
        path = string(piece.get("jsonPath"), "jsonPath")
        if path in self._strings or "stringValue" in piece:
            self._strings.setdefault(path, []).append(optional(piece.get("stringValue"), "stringValue"))
            if not piece.get("willContinue"):
                _put(self._args, path, "".join(self._strings.pop(path)))
            return
        for kind in ("numberValue", "boolValue", "nullValue"):
            if kind in piece:
                _put(self._args, path, None if kind == "nullValue" else piece[kind])


#: A step of a path to one place (RFC 9535): a name after a dot, a number, or a quoted name.
_STEP: Constant = re.compile(r"""\.([^.\[\]]+)|\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]|\['((?:[^'\\]|\\.)*)'\]""")


def _steps(path: str) -> list[str | int]:
    steps: list[str | int] = []
    end = 1
    while step := _STEP.match(path, end):
        name, number, double, single = step.groups()
        if number is not None:
            steps.append(int(number))
        elif name is not None:
            steps.append(name)
        else:
            steps.append(thaw(f'"{double}"' if single is None else '"' + _doubled(single) + '"'))
        end = step.end()
    if not path.startswith("$") or end < len(path) or not steps:
        raise Unreadable(f"jsonPath: it must lead to one argument, not {path[:80]!r}")
    return steps


def _doubled(single: str) -> str:
    """What stands between single quotes as it stands between double ones."""
    return single.replace("\\'", "'").replace('"', '\\"')


def _put(inside: Any, path: str, value: Any) -> None:
    """Write an argument, or a part of one, making what it stands in."""
    steps = _steps(path)
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        made: Any = [] if isinstance(following, int) else {}
        if isinstance(step, int) and isinstance(inside, list) and step <= len(inside):
            inside += [made] if step == len(inside) else []
        elif isinstance(step, str) and isinstance(inside, dict):
            inside.setdefault(step, made)
        else:
            raise Unreadable(f"jsonPath: there is no place for {path[:80]!r}")
        if following is None:
            inside[step] = value
        inside = inside[step]
