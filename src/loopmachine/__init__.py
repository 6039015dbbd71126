"""The tool-calling loop as an explicit state machine that can be executed, drawn, proved and trusted.

``table.py`` is the whole truth; read it first.
"""

from loopmachine import errors, events, guards, notices, requests, updates
from loopmachine.blocks import ImageBlock, TextBlock
from loopmachine.definition import Definition, Row, State
from loopmachine.errors import Denied, ModelError
from loopmachine.history import History
from loopmachine.hosts import run, run_async
from loopmachine.limits import Budget, Policy, Spend, Usage
from loopmachine.loop import Loop
from loopmachine.machine import Advance, advance, replay
from loopmachine.records import Call, CallResult, Decision, Resolution, Snapshot, Turn
from loopmachine.result import Result, Status
from loopmachine.subrun import loop_tool
from loopmachine.table import TOOL_LOOP
from loopmachine.tools import CancelToken, Context, Tool, tool
from loopmachine.wire import ANTHROPIC, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES, PLAIN

__version__ = "0.1.0"  # as in pyproject.toml, which a test compares: to look it up costs 25 ms

__all__ = [
    "ANTHROPIC",
    "GEMINI",
    "OPENAI_CHAT",
    "OPENAI_RESPONSES",
    "PLAIN",
    "TOOL_LOOP",
    "Advance",
    "Budget",
    "Call",
    "CallResult",
    "CancelToken",
    "Context",
    "Decision",
    "Definition",
    "Denied",
    "History",
    "ImageBlock",
    "Loop",
    "ModelError",
    "Policy",
    "Resolution",
    "Result",
    "Row",
    "Snapshot",
    "Spend",
    "State",
    "Status",
    "TextBlock",
    "Tool",
    "Turn",
    "Usage",
    "advance",
    "errors",
    "events",
    "guards",
    "loop_tool",
    "notices",
    "replay",
    "requests",
    "run",
    "run_async",
    "tool",
    "updates",
]
