"""The toolbox: what a model is offered, what the machine is told of its calls, and what becomes of them."""

from __future__ import annotations

import asyncio
import functools
import json
import types
from collections.abc import Callable
from typing import Any

import attrs
import pydantic
import pytest

from loopmachine import notices, run
from loopmachine.errors import Denied, ToolFailed, ToolInterrupted
from loopmachine.limits import Usage
from loopmachine.records import Call, Turn
from loopmachine.tools import Context, Tool, Toolbox, tool
from loopmachine.tools.results import result_text
from tests.drivers import call


@tool(effect="read", max_calls=3)
def look(ticket_id: int, deep: bool = False) -> dict[str, Any]:
    """Look at a ticket."""
    return {"id": ticket_id, "deep": deep}


@tool(needs_approval=lambda arguments: arguments["amount"] > 10, sequential=True)
def pay(amount: int, context: Context) -> str:
    """Pay it."""
    if amount > 100:
        raise Denied("too_much", "at most 100")
    return f"{context.data} paid {amount}"


@tool(effect="idempotent")
async def wait(seconds: float = 0) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return "waited"


def plain(names: list[str]) -> str:
    """Join names."""
    names.append("end")
    return "-".join(names)


BOX = Toolbox([look, pay, wait, plain])


def asks(*calls: Call, **fields: Any) -> Turn:
    """A turn that asks for calls."""
    return Turn(calls=calls, **fields)


def prepared(name: str, arguments: Any = "{}", box: Toolbox = BOX) -> Call:
    """One call as the machine gets it."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return box.prepare(asks(Call("c1", name, text)), 1, ()).calls[0]


def perform(name: str, arguments: Any = "{}", box: Toolbox = BOX, **options: Any) -> tuple[str, str, str]:
    """Outcome, content and code of one call."""
    chosen: dict[str, Any] = {"error_text": "message", "max_chars": 100, **options}
    call = prepared(name, arguments, box)
    result = box.perform(call, Context(data="ann", call=call), **chosen)
    assert (result.step, result.place, result.id, result.name) == (1, 0, "c1", name)
    return result.outcome, result.content, result.code


# --- what is offered ----------------------------------------------------------------------------------------


def test_a_model_is_offered_the_tools_in_order() -> None:
    """Schemas have three keys, stand in the order given, and are new each time."""
    schemas = BOX.schemas()
    assert [(one["name"], one["description"], list(one["input_schema"]["properties"])) for one in schemas] == [
        ("look", "Look at a ticket.", ["ticket_id", "deep"]),
        ("pay", "Pay it.", ["amount"]),
        ("wait", "Wait.", ["seconds"]),
        ("plain", "Join names.", ["names"]),
    ]
    schemas[0]["input_schema"]["properties"].clear()
    assert BOX.schemas() != schemas


def test_a_toolbox_may_be_empty() -> None:
    """Without tools nothing is offered."""
    assert Toolbox().schemas() == []


def test_all_that_is_no_tool_is_told_at_once() -> None:
    """Two tools of one name and things that are no tools are refused together."""

    def bare(n) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001  the case

    with pytest.raises(ValueError, match=r"^tools: ") as caught:
        Toolbox([look, 5, Tool("look", "", {"type": "object"}, print), bare])
    assert str(caught.value).removeprefix("tools: ").split("; ") == [
        "5 can't become a tool",
        "give a function with type hints",
        "two tools are named 'look'",
        "give one another name=",
        "bare: parameter n: it has no type hint",
        "write one, Any if it takes anything",
    ]


# --- what the machine is told -------------------------------------------------------------------------------


def test_a_call_is_told_with_all_that_the_machine_must_know() -> None:
    """A known call brings its checked arguments, effect, approval, whether it runs alone, and its tool's limit."""
    given = [
        Call("a", "look", '{"deep": "true", "ticket_id": "5"}'),
        Call("b", "pay", '{"amount": 10}'),
        Call("c", "pay", '{"amount": 11}'),
        Call("d", "wait", ""),
    ]
    facts: list[dict[str, Any]] = [
        {"checked": '{"ticket_id":5,"deep":true}', "effect": "read", "limit": 3},
        {"checked": '{"amount":10}', "alone": True},
        {"checked": '{"amount":11}', "alone": True, "needs_approval": True},
        {"checked": "{}", "effect": "idempotent"},
    ]
    told = [attrs.evolve(call, step=7, place=place, known=True, **facts[place]) for place, call in enumerate(given)]
    said = {"text": "Let me see.", "stop": "tool_calls", "usage": Usage(input_tokens=1), "wire": "plain"}
    assert BOX.prepare(asks(*given, **said), 7, ()) == asks(*told, **said)


def test_an_unknown_tool_is_answered_with_the_known_ones() -> None:
    """The sentence lists the known names and suggests the nearest; nothing is parsed."""
    calls = [prepared("loook", "{"), prepared("send_email"), prepared("x" * 100), prepared("look", box=Toolbox())]
    assert [(call.known, call.checked, call.problem) for call in calls] == [
        (
            False,
            None,
            "there is no tool named 'loook'; known tools: look, pay, wait, plain; did you mean 'look'?",
        ),
        (False, None, "there is no tool named 'send_email'; known tools: look, pay, wait, plain"),
        (False, None, f"there is no tool named '{'x' * 77}...'; known tools: look, pay, wait, plain"),
        (False, None, "there is no tool named 'look'; known tools: none"),
    ]


def test_invalid_arguments_are_told_and_need_no_approval_of_a_predicate() -> None:
    """A call with an extra argument is known, has no checked arguments, and brings the report."""
    call = prepared("pay", {"amount": 50, "authorized": True})
    assert (call.known, call.checked, call.needs_approval, call.problem) == (
        True,
        None,
        False,
        "pay was not called; its arguments don't fit:\n"
        "- authorized: there is no 'authorized' here; known names: amount",
    )


def test_text_is_coerced_and_true_is_no_number() -> None:
    """A "5" for a whole number is 5; True is refused."""
    assert [prepared("look", {"ticket_id": one}).checked for one in ("5", True)] == ['{"ticket_id":5}', None]


@pytest.mark.parametrize(
    ("answer", "needed", "became"),
    [
        (lambda arguments: True, True, []),
        (lambda arguments: False, False, []),
        (lambda arguments: None, True, ["returned a NoneType, not True or False"]),
        (lambda arguments: 0, True, ["returned an int, not True or False"]),
        (lambda arguments: arguments["absent"], True, ["raised KeyError: 'absent'"]),
        (lambda arguments: bool(arguments.pop("n")) and False, False, []),
    ],
)
def test_a_predicate_that_does_not_answer_wants_approval(
    answer: Callable[[dict[str, Any]], bool], needed: bool, became: list[str]
) -> None:
    """Only a clear False lets a call run without approval; what the predicate does to its dict is seen by nobody.

    That it failed is warned of, for who is asked could not know it from the call.
    """
    warned: list[str] = []

    def act(n: int) -> None: ...

    call = prepared("act", {"n": 1}, Toolbox([tool(needs_approval=answer)(act)], warned.append))
    assert (call.needs_approval, call.checked, warned) == (
        needed,
        '{"n":1}',
        [f"needs_approval of act {one}; the call waits for approval" for one in became],
    )


@pytest.mark.parametrize("observed", [True, False])
def test_a_predicate_that_fails_is_a_warning_to_the_observer_or_in_the_log(
    observed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """In a run; and what it could not judge waits for approval, unless the arguments are wrong anyway."""
    noticed: list[Any] = []

    @tool(needs_approval=lambda arguments: arguments["sum"] > 5)
    def act(n: int) -> None: ...

    replies = iter([call("a", "act", n="x"), call("b", "act", n=1)])
    observe = noticed.append if observed else None
    result = run(lambda messages: next(replies), "go", tools=[act], observe=observe)
    told = [one.text for one in noticed if isinstance(one, notices.Warning)]
    logged = [one.message for one in caplog.records]
    said = ["needs_approval of act raised KeyError: 'sum'; the call waits for approval"]
    assert (result.status, told, logged) == ("awaiting_approval", *((said, []) if observed else ([], said)))


def test_a_predicate_sees_the_defaults_that_the_call_will_run_with() -> None:
    """What the model leaves out is asked about as what it will be; a parameter without a default is left out."""
    seen: list[dict[str, Any]] = []

    def dear(arguments: dict[str, Any]) -> bool:
        seen.append(arguments)
        return bool(arguments["amount"] > 100)

    @tool(needs_approval=dear)
    def pay(to: str, amount: int = 500, notes: list[str] = []) -> None: ...  # noqa: B006

    box = Toolbox([pay])
    calls = [prepared("pay", given, box) for given in ({"to": "x"}, {"to": "x", "amount": 5, "notes": ["a"]})]
    assert ([one.needs_approval for one in calls], seen) == (
        [True, False],
        [{"to": "x", "amount": 500, "notes": []}, {"to": "x", "amount": 5, "notes": ["a"]}],
    )


@tool(needs_approval=lambda arguments: arguments["amount"] > 100)
def transfer(to: str, amount: int = 1000, notes: list[str] = []) -> str:  # noqa: B006
    """Transfer."""
    return f"{amount} to {to}, {notes}"


def test_what_is_approved_is_what_runs() -> None:
    """A call that waits for approval holds the defaults too, and runs with them even if the tool has others by then."""

    @tool(name="transfer", needs_approval=True)
    def later(to: str, amount: int = 9, notes: list[str] = []) -> str:  # noqa: B006
        """Transfer."""
        return f"{amount} to {to}, {notes}"

    call = prepared("transfer", {"to": "bob"}, Toolbox([transfer]))
    boxes = [Toolbox([one]) for one in (transfer, later)]
    told = [box.perform(call, Context(), error_text="message", max_chars=99).content for box in boxes]
    assert (call.checked_arguments, call.arguments, told) == (
        {"to": "bob", "amount": 1000, "notes": []},
        {"to": "bob"},
        ["1000 to bob, []"] * 2,
    )
    assert call.checked == '{"to":"bob","amount":1000,"notes":[]}'


def test_a_call_that_needs_no_approval_holds_what_was_asked_for() -> None:
    """Nobody reads it before the tool has it."""
    assert prepared("transfer", {"to": "bob", "amount": 5}, Toolbox([transfer])).checked == '{"to":"bob","amount":5}'


def test_the_approver_of_a_run_sees_what_the_tool_is_called_with() -> None:
    """In the parts of the arguments, too."""

    @attrs.frozen
    class Order:
        """An order."""

        to: str
        amount: int = 1000

    ran: list[Order] = []

    @tool(needs_approval=True)
    def pay(order: Order, more: Order | None = None, urgent: bool = False) -> None:
        """Pay."""
        ran.extend(one for one in (order, more) if one)

    shown: list[Any] = []

    def approve(call: Call) -> bool:
        shown.append(call.checked_arguments)
        return True

    replies = iter([call("a", "pay", order={"to": "bob"}, more={"to": "eve"}), {"kind": "final", "text": "done"}])
    assert run(lambda messages: next(replies), "go", tools=[pay], approve=approve).answered
    assert shown == [{"order": {"to": "bob", "amount": 1000}, "more": {"to": "eve", "amount": 1000}, "urgent": False}]
    assert ran == [Order("bob"), Order("eve")]


@attrs.frozen
class Celsius:
    """A temperature."""

    deg: float


@attrs.frozen
class Fahrenheit:
    """A temperature that reads as the other."""

    deg: float


class Retrying(pydantic.BaseModel):
    """Its default is none that it would take."""

    retries: int = pydantic.Field(default=-1, ge=0)


def bake(it: Retrying, amount: int = 1000, t: Celsius | Fahrenheit = Fahrenheit(350)) -> str:
    """Bake."""
    return repr((it, amount, t))


@pytest.mark.parametrize("asks", [True, lambda arguments: arguments["amount"] > 100])
def test_a_call_that_was_approved_is_the_one_that_would_have_run_without_approval(asks: Any) -> None:
    """A default that the tool would read as another value, or refuse, is left to it, and hides no other."""
    calls = [prepared("bake", {"it": {}}, Toolbox([tool(needs_approval=one)(bake)])) for one in (False, asks)]
    ran = [Toolbox([bake]).perform(one, Context(), error_text="message", max_chars=99).content for one in calls]
    assert ran == ["(Retrying(retries=-1), 1000, Fahrenheit(deg=350))"] * 2
    assert [one.checked for one in calls] == ['{"it":{}}', '{"it":{},"amount":1000}']


def test_a_predicate_and_an_approver_see_the_same() -> None:
    """Whatever defaults can't be put in."""
    seen: list[Any] = []

    def predicate(arguments: dict[str, Any]) -> bool:
        seen.append(arguments)
        return True

    def approve(call: Call) -> bool:
        seen.append(call.checked_arguments)
        return True

    replies = iter([call("a", "bake", it={}), {"kind": "final", "text": "done"}])
    asking = tool(needs_approval=predicate)(bake)
    assert run(lambda messages: next(replies), "go", tools=[asking], approve=approve).answered
    assert seen == [{"it": {}, "amount": 1000}] * 2


@pytest.mark.parametrize("asks", [True, lambda arguments: arguments["n"] == "many"])
def test_where_the_defaults_would_not_pass_the_check_a_call_holds_none(asks: Any) -> None:
    """A ready schema may tell any default; its handler has its own."""
    schema = {"type": "object", "properties": {"n": {"type": "integer", "default": "many"}, "m": {"default": 1}}}
    call = prepared("ready", {"m": 2}, Toolbox([Tool("ready", "", schema, print, needs_approval=asks)]))
    assert (call.needs_approval, call.checked) == (True, '{"m":2}')


def test_a_tool_may_always_want_approval() -> None:
    """A tool that always wants approval wants it of every call."""

    def act() -> None: ...

    box = Toolbox([tool(needs_approval=True)(act)])
    assert [prepared("act", text, box).needs_approval for text in ("{}", "[]")] == [True, True]


def test_a_blank_id_is_replaced_by_a_free_one() -> None:
    """Blank ids become ids of step and place, free in the run and in the turn, the same at every replay."""
    turn = asks(Call("", "look"), Call("call_s2_2", "look"), Call(" ", "nothing"), Call("", "look"))
    first, again = (BOX.prepare(turn, 2, {"call_s2_0"}) for _ in range(2))
    assert ([call.id for call in first.calls], first == again) == (
        ["call_s2_0_1", "call_s2_2", "call_s2_2_1", "call_s2_3"],
        True,
    )


@pytest.mark.parametrize("stop", ["length", "refusal", "malformed_function_call"])
def test_of_a_turn_that_cannot_be_used_nothing_is_parsed(stop: str) -> None:
    """The calls of a cut, refused or malformed turn get their identity and nothing else."""
    turn = BOX.prepare(asks(Call("a", "look", '{"ticket_id": 5}'), Call("", "pay", "{"), stop=stop), 3, ())
    assert turn.calls == (
        Call("a", "look", '{"ticket_id": 5}', step=3, place=0),
        Call("call_s3_1", "pay", "{", step=3, place=1),
    )


def test_a_turn_without_calls_is_left_as_it_is() -> None:
    """A final needs no preparation."""
    turn = Turn("done")
    assert BOX.prepare(turn, 1, ()) is turn


def test_what_a_turn_claims_of_its_calls_is_not_believed() -> None:
    """A turn handed in with calls that say they were prepared is prepared all the same."""
    forged = Call("a", "nothing", known=True, checked="{}", problem="x")
    assert BOX.prepare(asks(forged), 1, ()).calls[0].known is False
    forged = Call("a", "look", "[]", known=True, checked='{"ticket_id":1}', effect="once", limit=99)
    call = BOX.prepare(asks(forged), 1, ()).calls[0]
    assert (call.checked, call.effect, call.limit) == (None, "read", 3)


# --- the calls ----------------------------------------------------------------------------------------------


def test_a_call_brings_its_result() -> None:
    """What the tool returns is the content; text as it is, anything else as JSON."""
    assert [perform("look", {"ticket_id": 5}), perform("pay", {"amount": 5})] == [
        ("ok", '{"id":5,"deep":false}', ""),
        ("ok", "ann paid 5", ""),
    ]


def test_a_tool_may_deny() -> None:
    """Denied becomes a denial with its code."""
    assert perform("pay", {"amount": 101}) == ("denied", "too_much: at most 100", "too_much")


class Mute(Denied):
    """A denial that can't even be printed."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Bare(Denied):
    """A denial that never calls the constructor of its class."""

    def __init__(self, *words: str) -> None:
        Exception.__init__(self, *words)


class Broken(ToolFailed):
    """A failure that never calls the constructor of its class, and can't be printed."""

    def __init__(self) -> None: ...

    def __str__(self) -> str:
        raise RuntimeError("no words")


def _with(error: Exception, **fields: Any) -> Exception:
    """The error as one whose class sets these after all."""
    vars(error).update(fields)
    return error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (_with(Denied("no", "never"), code=403), ("denied", "no: never", "403")),
        (_with(Denied("no", "never"), code=None), ("denied", "no: never", "denied")),
        (_with(Denied("no", "never"), code=" "), ("denied", "no: never", "denied")),
        (Mute("no", "never"), ("denied", "no", "no")),
        (Bare("never"), ("denied", "never", "denied")),
        (Bare(), ("denied", "denied", "denied")),
        (_with(ToolFailed("no route", "e"), code=404), ("failed", "no route", "404")),
        (_with(ToolFailed("no route", "e"), outcome="lost"), ("failed", "no route", "e")),
        (_with(ToolFailed("no route", "e"), outcome=["failed"]), ("failed", "no route", "e")),
        (_with(ToolFailed("no route", "e"), outcome="unknown"), ("unknown", "no route", "e")),
        (_with(ToolInterrupted("half"), code=None), ("interrupted", "half", "")),
        (Broken(), ("failed", "", "")),
    ],
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_whatever_a_denial_or_failure_carries_it_is_a_result(
    error: Exception, told: tuple[str, str, str], asynchronous: bool
) -> None:
    """Its code is text, its outcome one that there is, and its words are those that it can say."""

    def act() -> None:
        """Act."""
        raise error

    async def act_later() -> None:
        """Act."""
        raise error

    options: dict[str, Any] = {"error_text": "message", "max_chars": 99}
    box = Toolbox([tool(name="act")(act_later if asynchronous else act)])
    call = prepared("act", box=box)
    if asynchronous:
        result = asyncio.run(box.perform_async(call, Context(), **options))
    else:
        result = box.perform(call, Context(), **options)
    assert (result.outcome, result.content, result.code, type(result.code)) == (*told, str)


def test_a_tool_gets_its_own_copy_of_the_arguments() -> None:
    """What a tool does to its arguments is not seen by a second run of the same call."""
    call = prepared("plain", {"names": ["a"]})
    results = [BOX.perform(call, Context(), error_text="message", max_chars=99).content for _ in range(2)]
    assert (results, call.checked) == (["a-end", "a-end"], '{"names":["a"]}')


def failing(kind: str) -> Any:
    """Raises, or returns what can't be waited for here."""
    if kind == "error":
        raise ValueError("no such ticket")
    if kind == "stop":
        raise StopIteration
    if kind == "coroutine":
        return asyncio.sleep(0)
    if kind == "awaitable":
        return Later()
    if kind == "generator":
        generated: Any = types.coroutine(lambda: (yield))
        return generated()
    raise KeyboardInterrupt


class Later:
    """Can be awaited, not closed."""

    def __await__(self) -> None: ...


FAILING = Toolbox([failing])
UNAWAITED = (
    "failing returned something to be awaited, and nobody awaits it; define the tool, and what wraps it, with async def"
)


@pytest.mark.parametrize(
    ("kind", "options", "told"),
    [
        ("error", {}, ("failed", "ValueError: no such ticket", "")),
        ("error", {"error_text": "name"}, ("failed", "ValueError", "")),
        ("error", {"error_text": lambda error: "oh"}, ("failed", "oh", "")),
        ("error", {"max_chars": 9}, ("failed", "[cut: 26 ", "")),
        ("stop", {}, ("failed", "StopIteration", "")),
        ("coroutine", {}, ("failed", UNAWAITED, "")),
        ("awaitable", {}, ("failed", UNAWAITED, "")),
        ("generator", {}, ("failed", UNAWAITED, "")),
    ],
)
def test_a_tool_that_fails_is_told_of(kind: str, options: dict[str, Any], told: tuple[str, str, str]) -> None:
    """An exception becomes a failed result as the policy says; so does something to be awaited, which is closed."""
    assert perform("failing", {"kind": kind}, FAILING, **options) == told


def test_who_wrote_a_tool_is_told_that_nobody_awaits_it() -> None:
    """A wrapper that is not async hides one that is; the model, which is told too, can't mend that."""

    async def hidden() -> None:
        """Never awaited."""

    @functools.wraps(hidden)
    def wrapped(*args: Any, **named: Any) -> Any:
        return hidden(*args, **named)

    warned: list[str] = []
    told, text = perform("hidden", {}, Toolbox([wrapped], warned.append)), UNAWAITED.replace("failing", "hidden")
    assert (told, warned) == (("failed", text, ""), [text])


def test_what_is_no_exception_of_the_tool_passes_through() -> None:
    """KeyboardInterrupt is not the tool's."""
    with pytest.raises(KeyboardInterrupt):
        perform("failing", {"kind": "interrupt"}, FAILING)


def test_a_result_is_cut() -> None:
    """A result of any kind is at most as long as the policy says."""
    assert perform("look", {"ticket_id": 5}, max_chars=15)[1] == result_text({"id": 5, "deep": False}, 15)


def test_a_call_of_a_tool_that_is_gone_says_so() -> None:
    """After a restore with other tools a call is answered truthfully: nothing ran."""

    def other(ticket_id: str) -> None: ...

    call = prepared("look", {"ticket_id": 5})
    boxes = [Toolbox(), Toolbox([tool(name="look")(other)])]
    told = [box.perform(call, Context(), error_text="message", max_chars=99) for box in boxes]
    unprepared = BOX.perform(prepared("look", "[]"), Context(), error_text="message", max_chars=99)
    assert [(one.outcome, one.content) for one in (*told, unprepared)] == [
        ("unknown_tool", "there is no tool named 'look' any more"),
        ("invalid_arguments", "look was not called: ticket_id: Expected `str`, got `int`"),
        (
            "invalid_arguments",
            "look was not called; its arguments don't fit:\n- the arguments: [] where an object is wanted",
        ),
    ]


def test_a_ready_tool_gets_plain_arguments() -> None:
    """A handler of a ready schema gets what was checked, by keyword, and the Context if it asks."""

    def handler(context: Context, **arguments: Any) -> Any:
        return [context.data, arguments]

    schema = {"type": "object", "properties": {"when": {"type": "string", "format": "date"}, "n": {"type": "integer"}}}
    box = Toolbox([Tool("ready", "", schema, handler)])
    assert perform("ready", {"n": "5", "when": "2024-02-29", "more": [1]}, box) == (
        "ok",
        '["ann",{"when":"2024-02-29","n":5,"more":[1]}]',
        "",
    )
