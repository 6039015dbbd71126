"""What a server's answer to a call is to a run: text, and images."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

from mcp import types

from loopmachine.blocks import ImageBlock
from loopmachine.errors import ToolFailed
from loopmachine.tools.results import result_text


def content(answer: types.CallToolResult) -> str | list[str | ImageBlock]:
    """The texts, a line each, or the blocks where an image is among them.

    Structured content follows as JSON, unless the texts say the same. What is neither text nor an image that models
    take is named in its place. Raises ToolFailed with all of it, as text, where the server says that the call failed.
    """
    parts = [part for block in answer.content for part in _parts(block)]
    texts = [block.text for block in answer.content if isinstance(block, types.TextContent)]
    structured = answer.structured_content
    if structured is not None and not _repeats(structured, texts):
        parts.append(result_text(structured, sys.maxsize))
    lines = [part if isinstance(part, str) else f"[{part.media_type}: left out]" for part in parts]
    text = "\n".join(lines)
    if answer.is_error:
        raise ToolFailed(text if text.strip() else "the MCP server says that this call failed, and not why")
    return text if lines == parts else parts


def _parts(block: types.ContentBlock) -> list[str | ImageBlock]:
    if isinstance(block, types.TextContent):
        return [block.text]
    if isinstance(block, types.ImageContent | types.AudioContent):
        return [_media(block.mime_type, block.data)]
    if isinstance(block, types.ResourceLink):
        return [f"[link to {block.uri}: {block.description or block.title or block.name}]"]
    within = block.resource
    if isinstance(within, types.TextResourceContents):
        return [f"[{within.uri}]", within.text]
    return [f"[{within.uri}]", _media(within.mime_type or "binary data", within.blob)]


def _media(media_type: str, data: str) -> str | ImageBlock:
    """An image that models take, or a mark in the place of anything else."""
    try:
        return ImageBlock(base64.b64decode(data, validate=True), media_type)
    except ValueError:
        return f"[{media_type}, {len(data)} characters of base64: left out]"


def _repeats(structured: Any, texts: list[str]) -> bool:
    """Whether it is the texts, or their JSON, once more; the SDK's servers put under ``result`` what is no object."""
    read = [_read(text) for text in texts]
    said = [texts, read, *(texts + read if len(texts) == 1 else [])]
    same = [json.dumps(one, sort_keys=True) for whole in said for one in (whole, {"result": whole})]
    return bool(texts) and json.dumps(structured, sort_keys=True) in same


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
