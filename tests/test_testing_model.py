"""ScriptedModel gives its turns in order, keeps what it saw, and says when it was asked too often or too seldom."""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from openai.types.chat import ChatCompletion

from loopmachine import Budget, CancelToken, ModelError, Policy, Result, Turn, run, run_async, tool
from loopmachine.testing import (
    CUT,
    DROP,
    AsyncScriptedModel,
    ProviderError,
    ScriptedModel,
    Seen,
    StreamScript,
    arguments,
    assert_paired,
    call,
    calls,
    thinking,
)
from loopmachine.wire import ANTHROPIC, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES, PLAIN, Delta, Wire

LOOK = calls(call("c1", "look", n=1), call("c2", "look", n=2), text="Hm.")
GO = {"kind": "user", "text": "go"}


@tool(effect="read")
def look(n: int = 0) -> str:
    """Look."""
    return f"saw {n}"


def ran(model: Any, **options: Any) -> Result:
    """A run of a model, on the host that it is for."""
    options = {"tools": [look], "wire": model.wire} | options
    if isinstance(model, AsyncScriptedModel):
        return asyncio.run(run_async(model, "go", **options))
    return run(model, "go", **options)


both = pytest.mark.parametrize("kind", [ScriptedModel, AsyncScriptedModel])
every_wire = pytest.mark.parametrize("wire", [PLAIN, OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC, GEMINI], ids=str)
every_stream = pytest.mark.parametrize("wire", [OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC, GEMINI], ids=str)
Kind = Callable[..., ScriptedModel]


# --- turns --------------------------------------------------------------------------------------------------


@both
@every_wire
def test_a_script_is_the_same_on_every_wire(kind: Kind, wire: Wire) -> None:
    """Calls beside a text, then a text: the run reads them in the shape of its wire."""
    model = kind(LOOK, "Done.", wire=wire)
    result = ran(model)
    model.assert_used_up()
    assert_paired(result.history)
    assert [one for one in result.history if one["kind"] != "tool_result"] == [
        GO,
        {"kind": "text", "text": "Hm."},
        call("c1", "look", n=1),
        call("c2", "look", n=2),
        {"kind": "final", "text": "Done."},
    ]
    assert result.status == "answered"


def test_a_reply_comes_in_the_shape_of_the_wire() -> None:
    """A text and a PLAIN reply are written in it; what has that shape already, a Turn and an SDK's object are not."""
    body = {"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Three."}}]}
    sdk = ChatCompletion.model_validate(body | {"id": "x", "created": 1, "model": "m", "object": "chat.completion"})
    model = ScriptedModel("One.", body, Turn("Two."), sdk, wire=OPENAI_CHAT)
    first, *others = [model([], [], None) for _ in range(4)]
    assert (first["choices"][0]["message"]["content"], first["usage"]["total_tokens"]) == ("One.", 15)
    assert others == [body, Turn("Two."), sdk]
    assert ScriptedModel("One.")([], [], None) == {"kind": "final", "text": "One."}


def test_a_reply_is_the_runs_own() -> None:
    """What is done to it, or later to what the script was made of, changes nothing."""
    reply = call("c1", "look", n=1)
    model = ScriptedModel(reply)
    reply["name"] = "other"
    assert model([], [], None) == call("c1", "look", n=1)


def test_nonsense_of_the_wires_own_is_no_fault_of_the_script() -> None:
    """A PLAIN reply is given as it is, so that a run can be tested with a malformed one."""
    result = ran(ScriptedModel({"kind": "oops"}))
    assert result.status == "malformed"


@both
@every_wire
def test_arguments_that_are_no_json_reach_no_tool(kind: Kind, wire: Wire) -> None:
    """The call is answered that they are invalid; Gemini, which can't send such a call, says that it was malformed."""
    result = ran(kind(call("c1", "look", '{"n": '), "Done.", wire=wire))
    told = (result.status, [one.outcome for one in result.results])
    assert told == (("malformed", []) if wire is GEMINI else ("answered", ["invalid_arguments"]))


@every_wire
def test_a_copy_of_a_model_speaks_the_very_wire(wire: Wire) -> None:
    """Wires are told apart by identity: copied and pickled each stays itself."""
    model = ScriptedModel("Done.", wire=wire)
    assert run(copy.deepcopy(model), "go", wire=wire).text == "Done."
    assert (copy.copy(wire), pickle.loads(pickle.dumps(wire))) == (wire, wire)


@both
def test_exceptions_are_raised(kind: Kind) -> None:
    """Instances and classes, in the place of a turn."""
    model = kind(ModelError("overloaded", retryable=True), TimeoutError, "never")
    result = ran(model, policy=Policy(model_retries=1))
    assert (result.status, len(model.seen)) == ("model_error", 2)
    assert "TimeoutError" in result.explain()


# --- what it saw --------------------------------------------------------------------------------------------


@both
def test_a_model_keeps_what_it_was_given(kind: Kind) -> None:
    """The messages and tools of each call, as plain lists, whatever the run does with its own."""
    model = kind(call("c1", "look", n=1), "Done.")
    ran(model, system="Be brief.", policy=Policy(wrap_up=True), budget=Budget(max_steps=2))
    offered = {"name": "look", "description": "Look.", "input_schema": look.input_schema}
    begun = [{"kind": "system", "text": "Be brief."}, GO]
    done = [call("c1", "look", n=1), {"kind": "tool_result", "id": "c1", "content": "saw 1", "outcome": "ok"}]
    assert model.seen == [Seen(begun, [offered]), Seen([*begun, *done], [], "none")]
    assert {type(kept) for one in model.seen for kept in (one.messages, one.tools)} == {list}


def test_a_model_keeps_the_system_text_where_it_stands_apart() -> None:
    """As on the wires that take it beside the messages."""
    model = ScriptedModel("Done.", wire=ANTHROPIC)
    ran(model, system="Be brief.")
    assert model.seen[0].system == "Be brief."


def test_what_a_model_keeps_is_its_own() -> None:
    """Nothing done to the messages that were handed over is seen in it."""
    model = ScriptedModel("One.")
    messages = [{"kind": "user", "text": "go"}]
    model(messages, [], None)
    messages[0]["text"] = "stop"
    assert model.seen[0].messages == [GO]


# --- too often, too seldom ----------------------------------------------------------------------------------


@both
def test_a_model_that_is_asked_too_often_says_what_for(kind: Kind) -> None:
    """With the messages that are new since the call before; the run ends, and assert_used_up fails too."""
    model = kind(call("c1", "look", n=1))
    result = ran(model)
    assert result.status == "model_error"
    for said in ("its script has 1 turns, and it was asked for one more, with these new messages: [{", "'saw 1'"):
        assert said in result.explain()
    assert "'go'" not in result.explain()
    with pytest.raises(AssertionError, match="ScriptedModel: its script has 1 turns, and it was asked for 2"):
        model.assert_used_up()


def test_a_model_without_a_script_says_what_it_was_asked() -> None:
    """All of it, where there was no call before."""
    with pytest.raises(AssertionError, match=r"its script has 0 turns, .* new messages: \['a', 'b'\]"):
        ScriptedModel()(["a", "b"], [], None)


def test_a_model_that_is_asked_too_seldom_is_told() -> None:
    """As one whose run ended early."""
    model = ScriptedModel("One.", "Two.")
    ran(model)
    with pytest.raises(AssertionError, match="ScriptedModel: its script has 2 turns, and it was asked for 1"):
        model.assert_used_up()


# --- what happens first -------------------------------------------------------------------------------------


@both
def test_a_model_waits_for_an_event(kind: Kind) -> None:
    """Until somebody sets it; what stands in front of a turn happens in order."""
    gate, reached, log = threading.Event(), threading.Event(), list[str]()

    def set_it() -> None:
        assert reached.wait(60)
        log.append("set")
        gate.set()

    setter = threading.Thread(target=set_it)
    setter.start()
    model = kind(reached.set, gate, lambda: log.append("on"), "Done.")
    assert ran(model).text == "Done."
    setter.join()
    assert log == ["set", "on"]


@both
def test_a_model_waits_for_an_event_with_patience(kind: Kind) -> None:
    """No longer than it is told to: a test does not hang."""
    result = ran(kind(threading.Event(), "never", patience=0.0))
    assert (result.status, "a script waited 0 seconds for an Event that nobody set" in result.explain()) == (
        "model_error",
        True,
    )


@both
def test_a_model_cancels_at_a_point(kind: Kind) -> None:
    """The token is cancelled when this turn is asked for, and the turn's calls do not run."""
    token, ran_calls = CancelToken(), list[int]()

    @tool
    def note(n: int) -> None:
        """Note."""
        ran_calls.append(n)

    model = kind(call("c1", "note", n=1), token, call("c2", "note", n=2), "never")
    result = ran(model, tools=[note], cancel=token)
    assert (result.status, ran_calls, len(model.seen)) == ("cancelled", [1], 2)


def test_an_async_model_that_waits_can_be_cancelled() -> None:
    """By the run, whose token somebody sets meanwhile."""
    token, reached = CancelToken(), threading.Event()

    def cancel_it() -> None:
        assert reached.wait(60)
        token.cancel()

    canceller = threading.Thread(target=cancel_it)
    canceller.start()
    result = ran(AsyncScriptedModel(reached.set, threading.Event(), "never"), cancel=token)
    canceller.join()
    assert result.status == "cancelled"


# --- streams ------------------------------------------------------------------------------------------------


@both
@every_stream
def test_a_streamed_turn_tells_a_screen_what_is_new(kind: Kind, wire: Wire) -> None:
    """on_delta gets what an accumulator says, and the run the turn."""
    deltas: list[Delta] = []
    script = StreamScript(thinking("Hm."), "Let ", "me.", call("c1", "look", '{"n":'), arguments(" 1}"), stop="novel")
    model = kind(script, "Done.", wire=wire, on_delta=deltas.append)
    result = ran(model)
    pieces = ['{"n":', " 1}"] if wire is not GEMINI else ['{"n":1}']
    assert [(one.kind, one.text) for one in deltas if one.text] == [
        ("thinking", "Hm."),
        ("text", "Let "),
        ("text", "me."),
        *(("call", piece) for piece in pieces),
    ]
    assert (result.status, result.text, result.spend.tokens) == ("answered", "Done.", 30)


@both
@every_stream
@pytest.mark.parametrize("ending", [CUT, DROP], ids=str)
def test_a_streamed_turn_that_is_cut_runs_nothing(kind: Kind, wire: Wire, ending: Any) -> None:
    """It is a failure of the model, which may be asked again."""
    model = kind(StreamScript(call("c1", "look", n=1), ending), "Done.", wire=wire)
    result = ran(model, policy=Policy(model_retries=1))
    assert (result.status, result.spend.calls, len(model.seen)) == ("answered", 0, 2)
    assert "stream_cut" in ran(kind(StreamScript("It", ending), wire=wire)).explain()


@both
@every_stream
def test_an_error_in_the_middle_of_a_stream_is_the_providers(kind: Kind, wire: Wire) -> None:
    """Its code is that of the wire."""
    result = ran(kind(StreamScript("It", ProviderError(401, "No.")), wire=wire))
    codes = {"gemini": "UNAUTHENTICATED", "anthropic": "authentication_error"}
    assert (result.status, codes.get(wire.name, "invalid_api_key") in result.explain()) == ("model_error", True)


def test_a_stream_that_ends_within_an_event_is_read_to_its_end() -> None:
    """As a server may leave out the blank line behind the last."""
    model = ScriptedModel(StreamScript("It", b'data: {"error": {"code": "oops"}}', CUT), wire=OPENAI_CHAT)
    assert "oops" in ran(model).explain()


@both
def test_what_happens_in_a_stream_happens_there(kind: Kind) -> None:
    """Between two of its pieces."""
    seen: list[int] = []
    deltas: list[Delta] = []
    script = StreamScript("It ", lambda: seen.append(len(deltas)), "is.")
    assert ran(kind(script, wire=ANTHROPIC, on_delta=deltas.append)).text == "It is."
    assert (seen, len(deltas)) == ([1], 2)


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("turns", "wire", "error", "says"),
    [
        (["One.", 5], PLAIN, TypeError, "ScriptedModel: turn 1 must be text, a reply, a Turn, a StreamScript, an exc"),
        ([["One."]], PLAIN, TypeError, "ScriptedModel: turn 0 must be .*, not list"),
        ([{"kind": "oops"}], GEMINI, ValueError, "ScriptedModel: turn 0: kind: it must be one of 'final', 'text', "),
        ([StreamScript("One.")], PLAIN, ValueError, "ScriptedModel: turn 0: wire: no provider speaks <wire plain>"),
        *(
            (
                ["One.", one, "Two."],
                PLAIN,
                TypeError,
                "ScriptedModel: turn 1 must be .*, not an async function, which no",
            )
            for one in (asyncio.sleep, partial(asyncio.sleep, 0))
        ),
        (["One.", bool], PLAIN, TypeError, "ScriptedModel: turn 1 must be .*, not type"),
        (
            [{"kind": "final", "text": "One.", "stop": 5}],
            GEMINI,
            TypeError,
            "turn 0: StreamScript: stop must be a text, not 5",
        ),
        ([{"kind": "final", "text": "One.", "stop": 0}], GEMINI, TypeError, "stop must be a text, not 0"),
        (
            ["One.", {"kind": "final", "usage": {"bogus": 1}}],
            ANTHROPIC,
            ValueError,
            "turn 1: .* usage has no bogus; it has",
        ),
        (["One.", CancelToken()], PLAIN, ValueError, "ScriptedModel: what happens stands in front of a turn, and none"),
    ],
)
def test_what_is_no_turn_is_refused(turns: list[Any], wire: Wire, error: type[Exception], says: str) -> None:
    """When the script is made, by its place."""
    with pytest.raises(error, match=says):
        ScriptedModel(*turns, wire=wire)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"wire": "gemini"}, "ScriptedModel: wire must be a wire, such as PLAIN or OPENAI_CHAT, not 'gemini'"),
        ({"wire": None}, "ScriptedModel: wire must be a wire, such as PLAIN or OPENAI_CHAT, not None"),
        ({"patience": "1"}, "ScriptedModel: patience must be finite seconds, from 0 on, not '1'"),
        ({"patience": -1}, "ScriptedModel: patience must be finite seconds, from 0 on, not -1"),
        ({"patience": float("nan")}, "ScriptedModel: patience must be finite seconds, from 0 on, not nan"),
        ({"on_delta": 5}, "on_delta must be callable, not async, or None, not 5"),
        ({"on_delta": asyncio.sleep}, "on_delta must be callable, not async, or None, not <function sleep"),
    ],
)
@both
def test_an_option_that_can_not_be_right_is_refused(kind: Kind, options: Any, says: str) -> None:
    """When the model is made, by name."""
    with pytest.raises(TypeError) as caught:
        kind("One.", **options)
    assert str(caught.value).startswith(says)
