"""The other side of the comparison: the same turns by hand, and by budgetloop where it is installed."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from typing import Any


def add(a: int, b: int) -> int:
    """Add two integers.

    Args:
        a: first
        b: second
    """
    return a + b


def hand(turns: int) -> None:
    """A loop as one writes it: ids, budgets and a history, and nothing that this library promises."""
    asked = 0

    def model(history: tuple[dict[str, Any], ...]) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        if asked > turns:
            return {"kind": "final", "text": "done"}
        return {"kind": "call", "id": f"c{asked}", "name": "add", "args": {"a": asked, "b": 1}}

    tools = {"add": add}
    history: list[dict[str, Any]] = []
    seen: set[str] = set()
    steps = calls = 0
    while steps <= turns:
        steps += 1
        reply = model(tuple(history))
        if reply["kind"] == "final":
            return
        if reply["id"] in seen or calls >= turns:
            raise AssertionError
        seen.add(reply["id"])
        calls += 1
        history.append(reply)
        arguments = reply["args"]
        if type(arguments["a"]) is not int or type(arguments["b"]) is not int:
            outcome: Any = "bad"
        else:
            try:
                outcome = tools[reply["name"]](**arguments)
            except Exception as error:
                outcome = str(error)
        history.append({"kind": "tool_result", "id": reply["id"], "content": json.dumps(outcome)})


def budgetloop() -> Callable[[int], None] | None:
    """The same turns by budgetloop, None where it is not installed."""
    try:
        peer = importlib.import_module("budgetloop")
    except ImportError:
        return None

    def run(turns: int) -> None:
        asked = 0

        def complete(messages: Any, tools: Any) -> Any:
            nonlocal asked
            if asked >= turns:
                return peer.Completion(content="done")
            asked += 1
            call = peer.ToolCall(id=f"c{asked}", name="add", arguments={"a": asked, "b": 1})
            return peer.Completion(content="", tool_calls=[call])

        result = peer.run(complete, "go", tools=[peer.tool(add)], budget=peer.Budget(max_steps=turns + 1))
        assert result.answered

    return run
