"""A rule of your own, no more than three mails: a guard, a row and a final state, tested alone, drawn and run.

``loopmachine diagram own_guard:MAIL_LOOP --output mail_loop.svg``, called in this folder, draws it too.
"""

import tempfile
from pathlib import Path
from typing import Any

from loopmachine import TOOL_LOOP, Call, Row, Snapshot, State, Turn, run, tool
from loopmachine.events import CancelPolled, Event
from loopmachine.review.diagram import text, write


def mails_spent(snapshot: Snapshot, event: Event) -> bool:
    """With this turn's mails there are more than three."""
    asked = snapshot.turn.calls if snapshot.turn else ()
    sent = [message["name"] for message in snapshot.history if message["kind"] == "call"]
    return [*sent, *(call.name for call in asked)].count("send_mail") > 3


END = State("finished_mail_limit", "The model asked for more mails than the rule permits.", final="limit")
# Row 9 asks for approval: nobody is to be asked about a mail that must not go out.
MAIL_LOOP = TOOL_LOOP.with_state(END).with_row("admitting", Row(None, END.name, mails_spent), at=9)


@tool
def send_mail(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


def model(messages: Any) -> dict[str, Any]:
    usage = {"input_tokens": 100 * len(messages), "output_tokens": 20, "cost_usd": 0.0004}
    return {"kind": "call", "id": f"m{len(messages)}", "name": "send_mail", "arguments": {"to": "Ada"}, "usage": usage}


def test_mails_spent() -> None:
    """Three mails are within the rule, a fourth is not, and other tools don't count."""
    polled = CancelPolled(False, at=0.0)
    for mails, spent in ((2, False), (3, False), (4, True)):
        calls = [Call(f"m{one}", "send_mail") for one in range(mails)] + [Call("x", "read_mail")]
        assert mails_spent(Snapshot(state="admitting", turn=Turn(calls=tuple(calls))), polled) is spent


if __name__ == "__main__":
    test_mails_spent()
    picture = Path(tempfile.mkdtemp()) / "mail_loop.svg"
    write(MAIL_LOOP, [str(picture)], None)
    print(f"drawn: {picture}")
    print(*(line for line in text(MAIL_LOOP, "table").splitlines() if "mails_spent" in line), sep="\n")
    result = run(model, "Write to Ada until she answers.", tools=[send_mail], definition=MAIL_LOOP)
    print(result, result.explain(), sep="\n\n")
