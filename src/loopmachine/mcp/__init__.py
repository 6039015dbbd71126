"""The tools of MCP servers as tools of a run. Needs the extra: ``pip install 'loopmachine[mcp]'``.

The run checks, admits and counts their calls as those of any other tool; the server performs them.
"""

try:
    from loopmachine.mcp.tools import mcp_tools
except ImportError as missing:
    raise ImportError("loopmachine.mcp needs mcp, 2.3 or newer: pip install 'loopmachine[mcp]'") from missing

__all__ = ["mcp_tools"]
