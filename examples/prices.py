"""What is it worth in euros? Two lookups at once, tools and papers that are not there, and what it cost.

The model is a script, so that this runs as it stands; yours is any callable of (messages, tools).
"""

from typing import Any

from loopmachine import Budget, Usage, run, tool

PAPERS = {"SE0000108656": 118.4}  # in SEK
EUROS = {"SEK": 0.087}


@tool(effect="read")
def price(isin: str) -> str:
    """Look up what a paper is worth.

    Args:
        isin: The number of the paper.
    """
    if isin not in PAPERS:
        raise LookupError(f"no paper {isin}")
    return f"{PAPERS[isin]} SEK"


@tool(effect="read")
def to_euros(amount: float, currency: str) -> dict[str, Any]:
    """Convert an amount of money to euros."""
    return {"amount": amount, "currency": currency, "euros": round(amount * EUROS[currency], 2)}


def call(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"id": call_id, "name": name, "arguments": arguments}


SCRIPT = iter(
    [
        {
            "kind": "calls",
            "text": "I look up both papers.",
            "calls": [call("1", "price", isin="SE0000108656"), call("2", "price", isin="XX0000000000")],
        },
        {"kind": "call", **call("3", "convert", sek="118.4")},  # there is no such tool
        {"kind": "call", **call("4", "to_euros", amount="118.4", currency="SEK")},  # a number sent as text
        {"kind": "final", "text": "SE0000108656 is worth 10.30 euros; nobody knows XX0000000000."},
    ]
)


def model(messages: Any, tools: Any) -> dict[str, Any]:
    """The next reply, and the tokens that it took."""
    return {**next(SCRIPT), "usage": {"input_tokens": 100 * len(messages), "output_tokens": 20, "model": "script"}}


def dollars(usage: Usage) -> float | None:
    """A price list: 2 dollars a million tokens read, 8 a million written. None: unknown, which is never free."""
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    return (2 * usage.input_tokens + 8 * usage.output_tokens) / 1_000_000


if __name__ == "__main__":
    result = run(
        model,
        "What are SE0000108656 and XX0000000000 worth in euros?",
        tools=[price, to_euros],
        budget=Budget(max_steps=6, max_cost_usd=0.01),
        price=dollars,
    )
    print(result, result.explain(), sep="\n\n")
