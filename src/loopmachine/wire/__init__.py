"""Wires: one message shape a module."""

from __future__ import annotations

from typing import Final as Constant

from loopmachine.wire.anthropic import ANTHROPIC
from loopmachine.wire.base import Encoded, Wire
from loopmachine.wire.messages import Encoding, Messages
from loopmachine.wire.openai_chat import OPENAI_CHAT
from loopmachine.wire.plain import PLAIN

#: Every wire by its name, which is what a record keeps of it.
WIRES: Constant[dict[str, Wire]] = {wire.name: wire for wire in (PLAIN, ANTHROPIC, OPENAI_CHAT)}

__all__ = ["ANTHROPIC", "OPENAI_CHAT", "PLAIN", "WIRES", "Encoded", "Encoding", "Messages", "Wire"]
