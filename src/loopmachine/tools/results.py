"""What a tool brought, as text and blocks for the model. Nothing that a tool returns or raises makes this raise."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import suppress
from numbers import Integral, Real
from typing import Any
from typing import Final as Constant

import msgspec

from loopmachine.blocks import ImageBlock, ImageBytes, TextBlock, written
from loopmachine.tools.words import a, printable, said_by

#: Bytes of images that one result carries: as base64 they fit into a request of the Messages API, 32 MB.
MOST_IMAGE_BYTES: Constant = 20_000_000
#: What most tools return, which is neither blocks nor to be awaited: to look for that costs as much as the rest.
COMMON: Constant = frozenset({str, int, float, bool, dict, type(None)})
_DOUBLED: Constant = "two keys of an object are written alike"


def result_text(value: Any, max_chars: int) -> str:
    """A returned value: text as it is, anything else as strict JSON (None is ``null``, bytes are base64).

    What JSON does not have is named in its place: ``"NaN"``, ``"<object: not JSON>"``. At most ``max_chars``
    characters; a longer text is cut, its last words saying how much of it is missing.
    """
    return fitted(value if type(value) is str else _text(value), max_chars)


def error_text(error: BaseException, style: str | Callable[[Any], str], max_chars: int) -> str:
    """What a model is told of an exception, never a traceback: see ``Policy.error_text``.

    A callable that raises, or gives no text, is answered with the class name.
    """
    name = type(error).__name__
    if style == "message":
        told = said_by(error)
        return fitted(f"{name}: {told}" if told.strip() else name, max_chars)
    if callable(style):
        try:
            said = style(error)
        except Exception:
            said = name
        return fitted(str.__str__(said) if isinstance(said, str) else name, max_chars)
    return name


def fitted(text: str, max_chars: int) -> str:
    """Text that UTF-8 can carry, of at most ``max_chars`` characters."""
    text = printable(text)
    return text if len(text) <= max_chars else _cut([text], max_chars)[0]


def _cut(texts: list[str], max_chars: int) -> list[str]:
    """Texts of at most ``max_chars`` characters together: where they are cut stands a mark, and nothing after it."""
    full = sum(map(len, texts))
    mark = _told_of(full, max_chars) if full > max_chars else ""
    room, kept = max_chars - len(mark), []
    for text in texts:
        if len(text) <= room:
            kept.append(text)
            room -= len(text)
        else:
            kept.append(text[:room] + mark)
            room, mark = 0, ""
    return kept


def _told_of(full: int, max_chars: int) -> str:
    """The mark, of at most ``max_chars`` characters: how much is missing, of how much. It takes room itself."""
    mark, told = "", " "
    while told != mark:
        mark, missing = told, full - max(max_chars - len(told), 0)
        told = f"\n[cut: {missing} of {full} characters]"
    return mark if len(mark) <= max_chars else mark.strip()[:max_chars]


# --- blocks -------------------------------------------------------------------------------------------

_BLOCKS: Constant = frozenset({TextBlock, ImageBlock})


def block_items(value: Any) -> tuple[Any, ...]:
    """What a tool returned, where that is a block, or a list or tuple that holds one; else nothing."""
    try:
        items = tuple(value) if isinstance(value, list | tuple) else (value,)
        return () if _BLOCKS.isdisjoint(map(type, items)) else items
    except Exception:  # of a list of somebody's own
        return ()


def in_blocks(items: tuple[Any, ...], max_chars: int) -> tuple[str, str | None]:
    """The content of a result that is blocks, and the blocks as JSON text; what is no block is text, as it is alone.

    The content is the texts and a mark for each image, a line each. Images are kept whole, ``MOST_IMAGE_BYTES`` of
    them; one that is too much is left out and told of. ``max_chars`` cuts the content, and the text blocks over all
    of them together. None where the blocks hold nothing.
    """
    parts: list[str | ImageBlock] = []
    room = MOST_IMAGE_BYTES
    for item in items:
        if type(item) is not ImageBlock:
            parts.append(printable(_text(item.text if type(item) is TextBlock else item)))
        elif len(item.data) > room:
            parts.append(_mark(item, f": left out, a result carries at most {MOST_IMAGE_BYTES} bytes of images"))
        else:
            parts.append(item)
            room -= len(item.data)
    said = [_mark(part) if isinstance(part, ImageBlock) else part for part in parts]
    texts = iter(_cut([part for part in parts if isinstance(part, str)], max_chars))
    kept = [next(texts) if isinstance(part, str) else part for part in parts]
    return fitted("\n".join(filter(None, said)), max_chars), written(kept)


def _mark(image: ImageBlock, more: str = "") -> str:
    return f"[{image.media_type}, {len(image.data)} bytes{more}]"


# --- JSON ---------------------------------------------------------------------------------------------


def _text(value: Any) -> str:
    try:
        if isinstance(value, str):
            return str.__str__(value)  # of a subclass the text alone
        try:
            text = _encode(value).decode()
            if "{" in text and len(_encode_alone(msgspec.json.decode(text)).decode()) != len(text):
                _parsed(text)  # msgspec writes both 1 and "1"; of Raw the text may be longer, or shorter
            if "null" not in text:  # msgspec writes null for NaN
                return text
        except UnicodeEncodeError:  # a lone surrogate, which only an escape can carry
            pass
        return _encode_slowly(_finite(msgspec.to_builtins(value, enc_hook=_named)))
    except Exception as error:
        return f"the tool returned {a(type(value))}, which can't be written as JSON: {said_by(error)}"


def _named(value: Any) -> Any:
    """For msgspec's ``enc_hook``: what is JSON after all, and the name of its type for what is not.

    Pydantic models write themselves; subclasses of text, bytes and numbers are what they derive from.
    """
    if hasattr(type(value), "model_dump"):  # the type: a stand-in has every attribute that it is asked for
        return _dumped(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, msgspec.Raw):
        return _parsed(bytes(value))
    if type(value) is ImageBytes:
        return f"<{len(value)} bytes of an image: return it alone or in a list to show it>"
    if isinstance(value, bytes):
        return bytes(value)
    with suppress(TypeError):  # what msgspec can write, and asks about, is the key of an object
        return _encode_alone(value).decode()
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else f"<{type(value).__name__}: not JSON>"


def _dumped(model: Any) -> Any:
    """A pydantic model as it writes itself, bytes and NaN as they are; field by field where one can't be written."""
    known = getattr(type(model), "__pydantic_decorators__", None)
    if known is None or known.model_serializers:  # it is no such model, or writes itself as a whole
        return model.model_dump(mode="json")
    with suppress(Exception):
        return _restored(model.model_dump(mode="json"), model.model_dump())
    if type(model).__pydantic_root_model__:
        return model.model_dump()
    fields: dict[str, Any] = {}
    for name in (*type(model).model_fields, *type(model).model_computed_fields, *(model.model_extra or ())):
        fields |= _field(model, name)
    return fields


def _field(model: Any, name: str) -> dict[str, Any]:
    """What a model has in a field, as it writes it if it can; nothing where it keeps that to itself."""
    try:
        plain = model.model_dump(include={name})
        with suppress(Exception):
            return dict(_restored(model.model_dump(mode="json", include={name}), plain))
        msgspec.to_builtins(plain, enc_hook=_named)  # raises for what can't be written, and would hide doubled names
        return dict(plain)
    except Exception as error:
        return {name: f"<not JSON: {said_by(error)}>"}


def _restored(told: Any, plain: Any) -> Any:
    """What pydantic told, with the bytes that it took for text and the numbers that it took for null.

    A model may have its own way to write them. Raises ValueError where names that are written alike hid a value.
    """
    if isinstance(plain, bytes):
        return plain if told == plain.decode(errors="replace") else told
    if _is_lost(told, plain):
        return plain
    if isinstance(plain, dict) and isinstance(told, dict):
        if len(told) < len(plain) and all(name in told for name in plain if isinstance(name, str)):
            raise ValueError(_DOUBLED)
        if len(plain) == len(told):
            return {name: _restored(part, own) for (name, part), own in zip(told.items(), plain.values(), strict=True)}
    if isinstance(plain, list | tuple) and isinstance(told, list) and len(plain) == len(told):
        return [_restored(part, own) for part, own in zip(told, plain, strict=True)]
    if isinstance(plain, set | frozenset) and any(isinstance(part, bytes) or _is_lost(None, part) for part in plain):
        return plain
    return told


def _is_lost(told: Any, plain: Any) -> bool:
    return told is None and isinstance(plain, float) and not math.isfinite(plain)


def _parsed(text: str | bytes) -> Any:
    """What JSON text holds. Raises ValueError where an object has two keys alike."""
    return json.loads(text, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    held = dict(pairs)
    if len(held) < len(pairs):
        raise ValueError(_DOUBLED)
    return held


_encode = msgspec.json.Encoder(enc_hook=_named).encode
_encode_alone = msgspec.json.Encoder().encode
_encode_slowly = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        named = {_key(name): _finite(part) for name, part in value.items()}
        if len(named) < len(value):
            raise ValueError(_DOUBLED)
        return named
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return value


def _key(value: Any) -> str:
    plain = _finite(value)
    return plain if isinstance(plain, str) else _encode_slowly(plain)
