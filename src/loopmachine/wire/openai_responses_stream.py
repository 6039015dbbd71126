"""The accumulator of OPENAI_RESPONSES: the events of a response."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any
from typing import Final as Constant

from loopmachine.frozen import thaw
from loopmachine.wire.fields import Unreadable, an_object, json_text, listed, optional, provider_id, string
from loopmachine.wire.framing import Chunk
from loopmachine.wire.stream import Accumulator, Decode, Delta, provider_error

Item = dict[str, Any]
Where = tuple[str, int, str]  #: of a text in its item: the list of parts it is in, or blank; the place there; the field

#: The events that bring text, without their ``.delta`` and ``.done``: the kind of item, the list, the kind of part, the
#: field.
_TEXTS: Constant[dict[str, tuple[str, str, str, str]]] = {
    "response.output_text": ("message", "content", "output_text", "text"),
    "response.refusal": ("message", "content", "refusal", "refusal"),
    "response.reasoning_text": ("reasoning", "content", "reasoning_text", "text"),
    "response.reasoning_summary_text": ("reasoning", "summary", "summary_text", "text"),
    "response.function_call_arguments": ("function_call", "", "", "arguments"),
    "response.custom_tool_call_input": ("custom_tool_call", "", "", "input"),
}
#: What a screen is told of each kind of item.
_KINDS: Constant = {"message": "text", "reasoning": "thinking", "function_call": "call", "custom_tool_call": "call"}


class OpenAIResponsesStream(Accumulator):
    """Takes the events of one response; of a body that holds several, those of the first.

    Its end is ``response.completed`` or ``response.incomplete``, whose output is that of the reply; where it has none,
    the items of the stream are. ``response.failed`` is an error. Of a custom tool's call a screen gets the free text.
    """

    def __init__(self, decode: Decode) -> None:
        super().__init__(decode)
        self._response: Chunk = {}  #: as it was told last
        self._items: dict[int, _Item] = {}
        self._last = 0  #: the greatest place of an item
        self._places: dict[str, int] = {}  #: of the items, by their ids
        self._moved: dict[int, int] = {}  #: the place of the last item of an index that several have
        self._calls = 0

    def _take(self, chunk: Chunk) -> Iterable[Delta]:
        kind = optional(chunk.get("type"), "type")
        event, _, stage = kind.rpartition(".")
        if event in _TEXTS:
            return self._text(event, chunk, stage)
        if event == "response.output_item":
            item = an_object(chunk.get("item"), "item")
            if stage == "added":
                self._move(item, _index(chunk.get("output_index")))
            return self._item(item, chunk)
        if kind in ("response.failed", "response.completed", "response.incomplete"):
            response = an_object(chunk.get("response"), "response")
            if stage == "failed":
                raise provider_error(response.get("error") or {"type": "failed"})
            for status in (stage, response.get("status")):
                self._stopped(status)
            return self._finish(response | {"status": self._stop})
        if isinstance(chunk.get("response"), dict):
            self._response = chunk["response"]
        return self._take_whole(chunk) if "output" in chunk else ()

    def _finish(self, response: Chunk) -> Iterator[Delta]:
        self._response, self._ended = response, True
        self._moved.clear()  # where an item stands in the output is its place
        output = listed(response.get("output") or [], "output", "response item")
        for place, item in enumerate(output):
            yield from self._item(item, {"output_index": place})
        if output:
            self._items = {place: self._items[place] for place in range(len(output))}

    def _move(self, item: Item, index: int | None) -> None:
        """See that an item that begins gets a place of its own where another has its index."""
        if index is None:
            return
        held = self._items.get(self._moved.get(index, index))
        if held is not None and held.is_another(item):
            self._moved[index] = self._free()
            self._places.pop(item.get("id", ""), None)  # one id may be all that a server has

    def _item(self, item: Item, chunk: Chunk) -> Iterator[Delta]:
        own = optional(item.get("id"), "item.id")
        return self._at(chunk, own, self._places.get(own, self._free())).take(item)

    def _text(self, event: str, chunk: Chunk, stage: str) -> Iterator[Delta]:
        own = optional(chunk.get("item_id"), "item_id")
        item = self._at(chunk, own, self._place(own))
        kind, inside, part, field = _TEXTS[event]
        place = chunk.get("summary_index" if inside == "summary" else "content_index")
        where = inside, _index(place) or 0, field
        item.have(kind, part, where)
        if stage == "delta":
            return item.add(where, string(chunk.get("delta"), "delta"))
        return item.whole(where, optional(chunk.get(field), field))

    def _place(self, own: str) -> int:
        """That of the item of an id: the last one's, unless that has another."""
        if own and own not in self._places and self._last in self._places.values():
            return self._free()
        return self._places.get(own, self._last)

    def _free(self) -> int:
        return self._last + 1 if self._items else 0

    def _at(self, chunk: Chunk, own: str, otherwise: int) -> _Item:
        """The item that an event is about: by its place, where the server tells that, else by its id."""
        place = _index(chunk.get("output_index"))
        if place is None:
            place = otherwise
        elif place in self._moved:
            place = self._places.get(own, self._moved[place])
        if own:
            self._places[own] = place
        if place not in self._items:
            self._items[place] = _Item(self._number)
            self._last = max(self._last, place)
        return self._items[place]

    def _number(self) -> int:
        self._calls += 1
        return self._calls - 1

    def _body(self) -> Chunk | None:
        if not (self._response or self._items):
            return None
        return self._response | {"output": [item.built() for _, item in sorted(self._items.items())]}


class _Item:
    """An item of the output: as it was told last, and its texts as they grow."""

    def __init__(self, number: Callable[[], int]) -> None:
        self._value: Item = {}
        self._texts: dict[Where, list[str]] = {}
        self._number = number  #: gives a call its place among the calls
        self._place = -1
        self._named = ("", "")

    def is_another(self, item: Item) -> bool:
        """The item is not this one: of another kind, name or call."""
        pairs = [(self._value.get(field), item.get(field)) for field in ("type", "name", "call_id")]
        return any(mine and other and mine != other for mine, other in pairs)

    def take(self, item: object) -> Iterator[Delta]:
        """Take the item as it stands at its beginning, at its end, or at that of the response, which may leave out what
        was told before, as the encrypted content of reasoning.
        """
        told: Item = thaw(json_text(item, "item"))
        if all(self._value.get(field) == told.get(field) for field in ("type", "id")):
            told |= {field: value for field, value in self._value.items() if told.get(field) is None}
        self._value = told
        before, self._texts = self._texts, {where: [text] for where, text in _texts(self._value)}
        if _KINDS.get(told.get("type", "")) == "call":
            yield from self._name()
        for where, (text,) in self._texts.items():
            yield from self._rest(text, "".join(before.get(where, ())))

    def have(self, kind: str, part: str, where: Where) -> None:
        """See that there is a place for a text."""
        inside, place, _ = where
        self._value.setdefault("type", kind)
        if inside:
            parts = self._value[inside] = listed(self._value.get(inside) or [], inside, "part")
            if not 0 <= place <= len(parts):
                raise Unreadable(f"{inside}: it has {len(parts)} parts, and none at {place}")
            parts += [{"type": part}] if place == len(parts) else []

    def add(self, where: Where, text: str) -> Iterator[Delta]:
        """Add to a text."""
        self._texts.setdefault(where, []).append(text)
        return self._shown(text)

    def whole(self, where: Where, text: str) -> Iterator[Delta]:
        """Take a text as the server says it at its end."""
        told, self._texts[where] = "".join(self._texts.get(where, ())), [text]
        return self._rest(text, told)

    def _rest(self, text: str, told: str) -> Iterator[Delta]:
        return self._shown(text.removeprefix(told) if text.startswith(told) else "")

    def _shown(self, text: str) -> Iterator[Delta]:
        kind = _KINDS.get(self._value["type"], "")
        if text and kind == "call":
            yield from self._name()
            yield Delta(kind, text, self._place, *self._named)
        elif text and kind:
            yield Delta(kind, text)

    def _name(self) -> Iterator[Delta]:
        """Say whose arguments follow, unless that was said."""
        own, name = provider_id(self._value.get("call_id"), "call_id"), optional(self._value.get("name"), "name")
        if self._place < 0 or (own, name) != self._named:
            self._place = self._number() if self._place < 0 else self._place
            self._named = own, name
            yield Delta("call", "", self._place, own, name)

    def built(self) -> Item:
        """The item with its texts so far."""
        for (inside, place, field), pieces in self._texts.items():
            holder = self._value[inside][place] if inside else self._value
            holder[field] = "".join(pieces)
        return self._value


def _index(value: object) -> int | None:
    """An index as servers tell it, as a number or as text; None where they tell none."""
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    return value if isinstance(value, int) else None


def _texts(item: Item) -> Iterator[tuple[Where, str]]:
    """The texts of an item that a screen is told of."""
    for inside in ("content", "summary"):
        parts = item.get(inside)
        for place, part in enumerate(parts if isinstance(parts, list) else ()):
            for field in ("text", "refusal"):
                if isinstance(part, dict) and isinstance(part.get(field), str):
                    yield (inside, place, field), part[field]
    for field in ("arguments", "input"):
        if isinstance(item.get(field), str):
            yield ("", 0, field), item[field]
