"""What users need to test their own loops: scripted models and streams, a server that speaks the wires, snapshots."""

from __future__ import annotations

from loopmachine.testing.model import AsyncScriptedModel, ScriptedModel, Seen
from loopmachine.testing.network import NetworkRefused, no_network
from loopmachine.testing.pairing import assert_paired
from loopmachine.testing.providers.base import SIGNATURE
from loopmachine.testing.script import CUT, DROP, ProviderError, arguments, call, calls, thinking
from loopmachine.testing.server import Request, WireServer, wire_server
from loopmachine.testing.snapshots import guard_cases, snapshot
from loopmachine.testing.stream import StreamScript

__all__ = [
    "CUT",
    "DROP",
    "SIGNATURE",
    "AsyncScriptedModel",
    "NetworkRefused",
    "ProviderError",
    "Request",
    "ScriptedModel",
    "Seen",
    "StreamScript",
    "WireServer",
    "arguments",
    "assert_paired",
    "call",
    "calls",
    "guard_cases",
    "no_network",
    "snapshot",
    "thinking",
    "wire_server",
]
