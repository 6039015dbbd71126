"""Tools: typed functions as a model sees them, and its calls as they see them."""

from loopmachine.tools.context import CallToken, CancelToken, Context
from loopmachine.tools.tool import Tool, tool
from loopmachine.tools.toolbox import Toolbox

__all__ = ["CallToken", "CancelToken", "Context", "Tool", "Toolbox", "tool"]
