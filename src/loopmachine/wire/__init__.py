"""Wires: one message shape a module."""

from __future__ import annotations

import copyreg
from typing import Final as Constant

from loopmachine.wire.anthropic import ANTHROPIC
from loopmachine.wire.base import Encoded, Wire
from loopmachine.wire.framing import Reader
from loopmachine.wire.gemini import GEMINI
from loopmachine.wire.messages import Encoding, Messages
from loopmachine.wire.openai_chat import OPENAI_CHAT
from loopmachine.wire.openai_responses import OPENAI_RESPONSES
from loopmachine.wire.plain import PLAIN
from loopmachine.wire.stream import Accumulator, Delta

#: Every wire by its name, which is what a record keeps of it.
WIRES: Constant[dict[str, Wire]] = {
    wire.name: wire for wire in (PLAIN, ANTHROPIC, OPENAI_CHAT, OPENAI_RESPONSES, GEMINI)
}


def _of(name: str) -> Wire:
    return WIRES[name]


for _wire in WIRES.values():  # wires are told apart by identity: a copy is the very same
    copyreg.pickle(type(_wire), lambda wire: (_of, (wire.name,)))

__all__ = [
    "ANTHROPIC",
    "GEMINI",
    "OPENAI_CHAT",
    "OPENAI_RESPONSES",
    "PLAIN",
    "WIRES",
    "Accumulator",
    "Delta",
    "Encoded",
    "Encoding",
    "Messages",
    "Reader",
    "Wire",
]
