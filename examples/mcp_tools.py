"""A tool of an MCP server, here this file in a process of its own: the loop checks its arguments, the server answers.

Needs the extra: pip install 'loopmachine[mcp]'.
"""

import asyncio
import json
import sys
from typing import Any

from mcp.server import MCPServer

from loopmachine import Budget, run_async
from loopmachine.mcp import mcp_tools

server = MCPServer("orders")


@server.tool()
def find_order(number: int) -> dict[str, Any]:
    """Find an order by its number."""
    return {"number": number, "customer": "Ada", "paid": 40.0}


def model(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """Stands in for a model: it names a parameter that there is not, learns from what it is told, and answers."""
    if len(messages) == 1:
        return {"kind": "call", "id": "a", "name": "orders_find_order", "arguments": {"id": 17}}
    if messages[-1]["outcome"] == "invalid_arguments":
        return {"kind": "call", "id": "b", "name": "orders_find_order", "arguments": {"number": "17"}}
    return {"kind": "final", "text": f"It is {json.loads(messages[-1]['content'])['customer']}'s."}


async def main() -> None:
    """Start the server, run the loop with its tools, stop the server."""
    async with mcp_tools([sys.executable, __file__, "serve"], prefix="orders_") as tools:
        print(await run_async(model, "Whose is order 17?", tools=tools, budget=Budget(max_steps=4)))


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        server.run()
    else:
        asyncio.run(main())
