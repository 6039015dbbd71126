"""Content blocks: text and images as a tool returns them, and as a result keeps them: JSON as text."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Annotated, Any, Literal, final, get_args

import attrs
import msgspec

from loopmachine.frozen import freeze

MediaType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]  #: what the providers take


@final
@attrs.frozen
class TextBlock:
    """Text that a tool returns, alone or in a list or tuple with other blocks. ValueError for what is no text."""

    text: str

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise ValueError(f"TextBlock: text must be a string, not {type(self.text).__name__}")


@final
class ImageBytes(bytes):
    """The bytes of a block: bytes of their own kind, so that they are known wherever somebody puts the block."""


def _of_an_image(data: bytes) -> bytes:
    return ImageBytes(data) if isinstance(data, bytes) else data


@final
@attrs.frozen
class ImageBlock:
    """An image that a tool returns, alone or in a list or tuple: the bytes of its file, and what kind of file that is.

    In a dict, or deeper, it is no image to the model: the text says so in the place of its bytes.
    An image is kept whole, and is no part of the characters that ``Policy.max_result_chars`` counts; of all in one
    result together 20 MB are kept. Raises ValueError that names every field that can't be.
    """

    data: bytes = attrs.field(converter=_of_an_image, repr=lambda data: f"<{len(data)} bytes>")
    media_type: str  #: "image/png", "image/jpeg", "image/gif" or "image/webp"

    def __attrs_post_init__(self) -> None:
        faults = []
        if not isinstance(self.data, bytes) or not self.data:
            what = "none" if isinstance(self.data, bytes) else type(self.data).__name__
            faults.append(f"data must be the bytes of an image, not {what}")
        if self.media_type not in get_args(MediaType):
            faults.append(f"media_type must be one of {', '.join(get_args(MediaType))}, not {self.media_type!r}")
        if faults:
            raise ValueError("ImageBlock: " + "; ".join(faults))


def written(parts: Iterable[str | ImageBlock]) -> str | None:
    """Texts and images as JSON text: a list of ``{"kind": "text", "text"}`` and ``{"kind": "image", "media_type",
    "data"}``, the data in base64. A blank text says nothing and is left out; None where nothing is left.
    """
    blocks: list[dict[str, Any]] = [
        {"kind": "text", "text": part}
        if isinstance(part, str)
        else {"kind": "image", "media_type": part.media_type, "data": bytes(part.data)}
        for part in parts
        if part != ""
    ]
    return freeze(blocks) if blocks else None


class _Text(msgspec.Struct, tag_field="kind", tag="text", forbid_unknown_fields=True):
    text: str


class _Image(msgspec.Struct, tag_field="kind", tag="image", forbid_unknown_fields=True):
    media_type: MediaType
    data: Annotated[bytes, msgspec.Meta(min_length=1)]


@cache  # made for the first result that has blocks, as few runs have one
def _decoder() -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(Annotated[list[_Text | _Image], msgspec.Meta(min_length=1)])


def fault(text: str) -> str:
    """What is wrong with the JSON text of blocks, blank where nothing is."""
    try:
        _decoder().decode(text)
    except (msgspec.MsgspecError, UnicodeError, TypeError) as wrong:
        return str(wrong)
    return ""
