"""Untrusted arguments, as text, checked and coerced against a schema. Nothing that a model writes raises here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any

import msgspec

from loopmachine.errors import InvalidTool
from loopmachine.tools import fast
from loopmachine.tools.compiling import Compiler
from loopmachine.tools.faults import MOST_FAULTS, Fault
from loopmachine.tools.nodes import examine
from loopmachine.tools.reading import DEEPEST, TOO_DEEP, NotJson, depth, hazards, parse
from loopmachine.tools.refusals import refusal, refusals, sound
from loopmachine.tools.words import show

_encode = msgspec.json.Encoder(enc_hook=float).encode  # of what is Rounded


class Arguments:
    """The arguments that one tool takes.

    ``typed`` turns checked text into what the tool is called with; what it raises is the model's fault. ``shapes``, by
    name, tell what of them a class refused.
    Raises InvalidTool, which lists everything in the schema that can't be checked.
    """

    def __init__(
        self,
        name: str,
        schema: Mapping[str, Any],
        typed: Callable[[str], object],
        shapes: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        compiler = Compiler(schema)
        node, faults = compiler.whole(), compiler.faults
        if schema.get("type") != "object":
            faults.append(f"type: the arguments of a tool are an object, not {show(schema.get('type'))}")
        if faults:
            raise InvalidTool(f"{name}: its input_schema can't be used:\n" + "\n".join(f"- {one}" for one in faults))
        self.name = name
        self._node = node
        self._typed = typed
        self._shapes = shapes
        self._read = fast.reader(schema, compiler.node).decode

    def check(self, text: str) -> tuple[str | None, str]:
        """The arguments as canonical JSON, checked and coerced, defaults not filled in; or None and a sentence.

        Canonical: no space, the names in the schema's order. The sentence tells everything that is wrong.
        """
        if len(text) <= DEEPEST or text.count("[") + text.count("{") <= DEEPEST or depth(text) <= DEEPEST:
            try:  # those that need no coercion, and nothing else to be looked at
                checked = _encode(self._read(text)).decode()
                if checked == text or _quotes(checked) == _quotes(text):  # msgspec does not see a name given twice
                    self._typed(checked)
                    return checked, ""
            except Exception:  # the long way says what is wrong
                pass
        return self._wholly(text)

    def _wholly(self, text: str) -> tuple[str | None, str]:
        try:
            value, faults = self._examined(read(text))
            if faults:
                more = islice(self._refusals(value, faults), MOST_FAULTS)
                return None, self._sentence([*faults, *more])
            checked = _encode(value).decode()
            told = self._refused(checked)
            return (None, self._sentence(told)) if told else (checked, "")
        except NotJson as wrong:
            return None, f"{self.name} was not called; its arguments are not JSON: {wrong}; one JSON object is wanted"
        except RecursionError:
            return None, self._sentence([TOO_DEEP])

    def _refused(self, checked: str) -> Sequence[object]:
        """What the schema can't say: what classes refuse of values that it takes."""
        try:
            self._typed(checked)
            return ()
        except Exception as error:
            told = islice(self._refusals(msgspec.json.decode(checked), ()), MOST_FAULTS)
            return [TOO_DEEP] if isinstance(error, RecursionError) else list(told) or [refusal(error)]

    def _refusals(self, value: Any, faults: Sequence[Fault]) -> Iterator[Fault]:
        """What classes refuse of the parts that have no fault."""
        named = value.items() if isinstance(value, dict) else ()
        known = ((name, self._shapes[name], part) for name, part in named if name in self._shapes)
        parts = (one for name, shape, part in known for one in sound(shape, part, (name,), faults))
        for shape, part, path in parts:
            if not any(hazards(part)):  # of very many not all are among the faults
                yield from refusals(shape, msgspec.json.decode(_encode(part)), path)

    def _examined(self, value: Any) -> tuple[Any, Sequence[Fault]]:
        """The value as it is to be taken, and all that is wrong with it, each mistake once."""
        odd = list(islice(hazards(value), MOST_FAULTS))
        try:
            value, faults = examine(self._node, value)
        except RecursionError:  # too deep to be looked at; the odd ones tell that
            return None, odd or [Fault((), TOO_DEEP)]
        if not odd and not faults:
            odd = list(islice(hazards(value), MOST_FAULTS))  # text that was read as a list may have made it deep
        return value, [*faults, *beside(faults, odd)]

    def _sentence(self, told: Sequence[object]) -> str:
        more = ["and there may be more"] if len(told) >= MOST_FAULTS else []
        lines = [f"- {one}" for one in (*told[:MOST_FAULTS], *more)]
        return "\n".join([f"{self.name} was not called; its arguments don't fit:", *lines])


def beside(faults: Sequence[Fault], odd: Sequence[Fault]) -> list[Fault]:
    """The odd ones without those that the faults tell of: at the same place, or around it a value of another kind."""
    told = {fault.path for fault in faults}
    foreign = {fault.path for fault in faults if fault.foreign}

    def is_told(one: Fault) -> bool:
        return one.path in told or any(one.path[:end] in foreign for end in range(len(one.path)))

    return [one for one in odd if not (one.foreign and is_told(one))]


def read(text: str) -> Any:
    """What the text holds. Raises NotJson or RecursionError.

    Three things are done that lose nothing: a code fence around the text is taken off, blank is no arguments, and
    an object written inside a JSON string is taken out of it, once.
    """
    text = unfenced(text)
    value = parse(text) if text else {}
    if isinstance(value, str):
        try:
            inner = parse(value)
        except (NotJson, RecursionError):
            inner = None
        return inner if isinstance(inner, dict) else value
    return value


def unfenced(text: str) -> str:
    """The text without the space and the code fence around it."""
    text = text.strip()
    if len(text) >= 6 and text.startswith("```") and text.endswith("```"):
        text = text[3:-3]
        if text[:4].lower() == "json":
            text = text[4:]
    return text.strip()


def _quotes(text: str) -> int:
    """How many quotes of JSON text begin or end a string."""
    plain = text if "\\" not in text else text.replace("\\\\", "").replace('\\"', "")
    return plain.count('"')
