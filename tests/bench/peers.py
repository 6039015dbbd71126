"""The other side of the comparison: the same turns by hand, and by budgetloop where it is installed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import budgetloop


def add(a: int, b: int) -> int:
    """Add two integers.

    Args:
        a: first
        b: second
    """
    return a + b


def hand(turns: int, function: Callable[..., Any] = add) -> list[dict[str, Any]]:
    """A loop as one writes it: ids, budgets, a history, and nothing else that this library promises."""
    asked = 0

    def model(history: tuple[dict[str, Any], ...]) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        if asked > turns:
            return {"kind": "final", "text": "done"}
        return {"kind": "call", "id": f"c{asked}", "name": "add", "args": {"a": asked, "b": 1}}

    tools = {"add": function}
    history: list[dict[str, Any]] = []
    seen: set[str] = set()
    steps = calls = 0
    while True:
        steps += 1
        reply = model(tuple(history))
        if reply["kind"] == "final" or reply["id"] in seen or calls >= turns or steps > turns + 1:
            return history
        seen.add(reply["id"])
        calls += 1
        history.append(reply)
        arguments = reply["args"]
        whole = type(arguments["a"]) is int and type(arguments["b"]) is int
        try:
            outcome = tools[reply["name"]](**arguments) if whole else "bad"
        except Exception as error:
            outcome = str(error)
        history.append({"kind": "tool_result", "id": reply["id"], "content": json.dumps(outcome)})


def budgetloop_run(turns: int) -> None:
    """The same turns by budgetloop."""
    asked = 0

    def complete(messages: Any, tools: Any) -> Any:
        nonlocal asked
        if asked >= turns:
            return budgetloop.Completion(content="done")
        asked += 1
        call = budgetloop.ToolCall(id=f"c{asked}", name="add", arguments={"a": asked, "b": 1})
        return budgetloop.Completion(content="", tool_calls=[call])

    budget = budgetloop.Budget(max_steps=turns + 1)
    assert budgetloop.run(complete, "go", tools=[budgetloop.tool(add)], budget=budget).answered
