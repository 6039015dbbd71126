"""The accumulator of OPENAI_CHAT: chunks of a completion, from the many servers that send them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any
from typing import Final as Constant

from loopmachine.wire.fields import an_object, arguments, first_choice, listed, provider_id, string
from loopmachine.wire.framing import Chunk
from loopmachine.wire.stream import Accumulator, Decode, Delta, provider_error

#: The fields whose text comes in pieces. Any other text is whole, however often it is said.
_GROWING: Constant = frozenset(
    ["arguments", "content", "data", "reasoning", "reasoning_content", "refusal", "summary", "text", "transcript"]
)

_OWN: Constant = ("index", "id", "function", "custom")  #: the fields of a call that are kept apart


class OpenAIChatStream(Accumulator):
    """Takes the chunks of one completion, of whose choices that of index 0 is read.

    Its end is a finish reason, after which usage may still come, or ``[DONE]``. Blank, null and absent say nothing.
    Of a custom tool's call a screen gets the free text.
    """

    done_ends = True

    def __init__(self, decode: Decode) -> None:
        super().__init__(decode)
        self._about: Chunk = {}  #: model and usage
        self._message: Chunk | None = None  #: what came of it but for its calls
        self._calls = _Calls()

    def _take(self, chunk: Chunk) -> Iterator[Delta]:
        self._about |= _given(chunk, "model", "usage")
        for choice in first_choice(listed(chunk.get("choices") or [], "choices", "choice")):
            if choice.get("error"):
                raise provider_error(choice["error"])
            self._about |= _given(choice, "usage")
            delta = choice.get("delta")
            if delta is not None:
                yield from self._add(an_object(delta, "delta"))
            elif self._message is None and chunk.get("object") != "chat.completion.chunk" and choice.get("message"):
                yield from self._take_whole(chunk)
            self._evident |= self._stopped(choice.get("finish_reason"))

    def _add(self, delta: Mapping[str, Any]) -> Iterator[Delta]:
        if self._message is None:
            self._message = {"role": "assistant"}
        _merge(self._message, {field: value for field, value in delta.items() if field != "tool_calls"})
        yield from _said(delta)
        for entry in listed(delta.get("tool_calls") or [], "tool_calls", "tool call"):
            yield from self._calls.take(entry)

    def _body(self) -> Chunk | None:
        if self._message is None:
            return None
        message = _whole(self._message)
        if calls := self._calls.whole():
            message["tool_calls"] = calls
        return self._about | {"choices": [{"message": message, "finish_reason": self._stop}]}


def _given(source: Mapping[str, Any], *fields: str) -> Chunk:
    return {field: source[field] for field in fields if source.get(field)}


def _said(delta: Mapping[str, Any]) -> Iterator[Delta]:
    """What a delta says to a screen, its calls apart. Servers that say a thought under two names say it twice."""
    thought, content = delta.get("reasoning_content") or delta.get("reasoning"), delta.get("content")
    for part in listed(content, "content", "part") if isinstance(content, list) else ():
        yield from _shown("thinking", _words(part.get("thinking"))) + _shown("text", part.get("text"))
    yield from _shown("thinking", thought) + _shown("text", content) + _shown("text", delta.get("refusal"))


def _shown(kind: str, text: Any) -> list[Delta]:
    return [Delta(kind, text)] if text and isinstance(text, str) else []


def _words(thinking: Any) -> Any:
    """The thought of a content part: text, or parts of it."""
    if not isinstance(thinking, list):
        return thinking
    return "".join(string(part.get("text"), "thinking.text") for part in listed(thinking, "thinking", "part"))


# --- the calls ------------------------------------------------------------------------------------------


class _Call:
    """A call as far as it came."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.id = ""
        self.name = ""
        self.written: list[str] = []
        self.object: Chunk | None = None  #: the arguments, where they came as one and whole
        self.is_custom = False
        self.rest: Chunk = {}  #: what else the server says of it, which it may want back

    def take(self, entry: Mapping[str, Any], own: str, name: str, text: str, told: Any) -> Delta:
        self.id = self.id or own
        self.name = self.name or name  # servers repeat both
        if text:
            self.object = dict(told) if isinstance(told, Mapping) and not any(self.written) else None
        self.written.append(text)
        self.is_custom |= bool(entry.get("custom"))
        _merge(self.rest, {field: value for field, value in entry.items() if field not in _OWN})
        return Delta("call", text, self.place, self.id, self.name)

    def whole(self) -> Chunk:
        written, rest = "".join(self.written), _whole(self.rest)
        if self.is_custom:
            return {"id": self.id, "type": "custom", **rest, "custom": {"name": self.name, "input": written}}
        asked = written if self.object is None else self.object
        return {"id": self.id, **rest, "function": {"name": self.name, "arguments": asked}}


class _Calls:
    """The calls of a message. An index and an id are keys, whatever list and place they come in."""

    def __init__(self) -> None:
        self._all: list[_Call] = []
        self._by: dict[tuple[Any, str], _Call] = {}  #: by index and id; a blank id is for the last of an index

    def take(self, entry: Mapping[str, Any]) -> list[Delta]:
        """What an entry of ``tool_calls`` adds; one that says nothing begins no call."""
        custom = entry.get("custom")
        asked = an_object(custom or entry.get("function") or {}, "custom" if custom else "function")
        own, name = provider_id(entry.get("id"), "id"), provider_id(asked.get("name"), "name")
        written = asked.get("input" if custom else "arguments")
        text = arguments(written, "arguments") if written else ""
        index = entry.get("index")
        call = self._find(index, own, name)
        says = bool(own or name or text)
        if call is None:
            if not says:
                return []
            call = _Call(len(self._all))
            self._all.append(call)
        if own or not call.written:
            self._by |= dict.fromkeys([(index, own), (index, ""), (None, own), (None, "")], call)
        delta = call.take(entry, own, name, text, written)
        return [delta] if says else []

    def _find(self, index: Any, own: str, name: str) -> _Call | None:
        """The call that an entry goes on with. None: another id or, where there are no keys, a name begins one."""
        last = self._by.get((index, ""))
        if not own:
            other = index is None or (last is not None and not last.id and last.name not in ("", name))
            return None if name and other else last
        if last is not None and not last.id and name in ("", last.name):
            return last
        return self._by.get((index, own))

    def whole(self) -> list[Chunk]:
        """The calls in the order in which they began."""
        return [call.whole() for call in self._all]


# --- what else is in a message ----------------------------------------------------------------------------


class _Pieces(list[Any]):
    """Of a growing field: pieces of its text, and parts of its content where a server sends such."""

    def whole(self) -> Any:
        if all(isinstance(piece, str) for piece in self):
            return "".join(self)
        parts: list[Any] = []
        for is_text, group in groupby(self, lambda piece: isinstance(piece, str)):
            run = list(group)
            parts += [{"type": "text", "text": "".join(run)}] if is_text else run
        return parts


class _Items(dict[Any, Any]):
    """The items of a list. Those with an index are pieces of one, such as OpenRouter's ``reasoning_details``."""

    def add(self, item: Any) -> None:
        if isinstance(item, Mapping):
            key = len(self) if item.get("index") is None else (item["index"], item.get("type"))
            _merge(self.setdefault(key, {}), item)
        else:
            self[len(self)] = item


def _merge(into: Chunk, new: Mapping[str, Any]) -> None:
    """Add what is new. What is blank or null says nothing."""
    for field, value in new.items():
        if field in _GROWING and isinstance(value, str | list):
            _slot(into, field, _Pieces).extend([value] if isinstance(value, str) else value)
        elif isinstance(value, Mapping):
            _merge(_slot(into, field, dict), value)
        elif isinstance(value, list):
            items = _slot(into, field, _Items)
            for item in value:
                items.add(item)
        elif value is not None and (value != "" or field not in into):
            into[field] = value


def _slot(into: Chunk, field: str, kind: type[Any]) -> Any:
    if type(into.get(field)) is not kind:
        into[field] = kind()
    return into[field]


def _whole(value: Any) -> Any:
    if isinstance(value, _Pieces):
        return value.whole()
    if isinstance(value, _Items):
        return [_whole(item) for item in value.values()]
    return {field: _whole(one) for field, one in value.items()} if isinstance(value, dict) else value
