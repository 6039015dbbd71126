"""A run of its own as a tool: an assistant asks a researcher, who has a model, tools and a budget of its own.

Whatever the researcher may spend, it is never more than the assistant has left, and the assistant pays for it.
"""

from typing import Any

from loopmachine import Budget, loop_tool, run, tool

PAPERS = {"Volvo": "SE0000115446", "Ericsson": "SE0000108656"}


@tool(effect="read")
def find_paper(company: str) -> str:
    """Look up the number of a company's paper."""
    return PAPERS[company]


def call(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    usage = {"input_tokens": 100, "output_tokens": 20, "cost_usd": 0.001}
    return {"kind": "call", "id": call_id, "name": name, "arguments": arguments, "usage": usage}


def answer(text: str) -> dict[str, Any]:
    return {"kind": "final", "text": text, "usage": {"input_tokens": 150, "output_tokens": 20, "cost_usd": 0.001}}


def researcher(messages: Any) -> dict[str, Any]:
    """A script that looks only at what was said: it looks up the company that it is asked about, until it finds it."""
    if messages[-1]["kind"] == "tool_result" and messages[-1]["outcome"] == "ok":
        return answer(f"It is {messages[-1]['content']}.")
    return call(f"find{len(messages)}", "find_paper", company=messages[0]["text"].split()[-1])


def assistant(messages: Any) -> dict[str, Any]:
    """A script, too: it asks for two papers, one after the other, the second of which nobody knows."""
    found = [message["content"].split("\n")[0] for message in messages if message["kind"] == "tool_result"]
    if len(found) == 2:
        return answer(" ".join(found))
    return call(f"ask{len(found)}", "research", prompt=f"Find the paper of {['Ericsson', 'Saab'][len(found)]}")


research = loop_tool(
    researcher, "research", "Find out what paper a company has.", tools=[find_paper], budget=Budget(max_steps=3)
)

if __name__ == "__main__":
    result = run(assistant, "Which papers are there?", tools=[research], budget=Budget(max_steps=6, max_cost_usd=0.05))
    print(result)
    for one in result.results:
        assert one.usage is not None
        print(f"\nresearch cost {one.usage.cost_usd} dollars and was {one.outcome}:\n{one.content}")
