"""A rule of your own, no second mail: a guard, a row and a final state, tested alone, drawn, verified and run.

``loopmachine verify own_guard:MAIL_LOOP --tool send_mail``, called in this folder, walks every path.
"""

import tempfile

from loopmachine import TOOL_LOOP, Row, Snapshot, State, run, tool
from loopmachine.events import CancelPolled, Event
from loopmachine.review import diagram, printing, verify
from loopmachine.testing import ScriptedModel, call, calls, snapshot


def mails_spent(snapshot: Snapshot, event: Event) -> bool:
    """With this turn's mails there are more than one."""
    asked = [one.name for one in snapshot.turn.calls] if snapshot.turn else []
    return (asked + [said["name"] for said in snapshot.history if said["kind"] == "call"]).count("send_mail") > 1


END = State("finished_mail_limit", "The model asked for a second mail.", final="limit")
ROW = Row(None, END.name, mails_spent, first_because="nobody is to approve a mail that must not go out")
MAIL_LOOP = TOOL_LOOP.with_state(END).with_row("admitting", ROW, at=9)


def test_mails_spent() -> None:
    """One mail is within the rule, a second is not, and other tools don't count."""
    for mails, spent in ((1, False), (2, True)):
        turn = calls(call("r", "read_mail"), *(call(f"m{one}", "send_mail") for one in range(mails)))
        assert mails_spent(snapshot(turn=turn), CancelPolled(False, at=0.0)) is spent


if __name__ == "__main__":
    test_mails_spent()
    diagram.write(MAIL_LOOP, [picture := f"{tempfile.mkdtemp()}/mail_loop.svg"], None)
    report = verify.verify(MAIL_LOOP, tools=["send_mail"], advances=300)
    print(picture, f"{printing.verdict(report)}; {END.name} was reached: {END.name in report.statuses}", sep="\n")
    model = ScriptedModel(call("m1", "send_mail"), call("m2", "send_mail"))
    print(run(model, "Write to Ada.", tools=[tool(lambda: "sent", name="send_mail")], definition=MAIL_LOOP).explain())
