"""Functions as tools: what the model is told of them, and how its arguments become a call of them."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import functools
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any, Final, Generic, NewType, TypeVar

import annotated_types
import attrs
import msgspec
import pydantic
import pytest
from jsonschema import Draft202012Validator
from msgspec import Meta
from typing_extensions import TypeAliasType
from typing_extensions import TypeVar as NewTypeVar

from loopmachine.errors import InvalidTool
from loopmachine.tools import Context, Tool
from loopmachine.tools.signature import docstring, is_async, is_context, name_of, of_function, of_handler

GOOGLE = """Find a ticket.

    Looks in the archive too.

    Args:
        ticket_id (int): Which ticket,
            from 1.
        deep: Whether to look
            everywhere.

    Returns:
        The ticket.
    """
NUMPY = """Find a ticket.

    Looks in the archive too.

    Parameters
    ----------
    ticket_id : int
        Which ticket,
        from 1.
    deep : bool
        Whether to look everywhere.
    """
SPHINX = """Find a ticket.

    Looks in the archive too.

    :param int ticket_id: Which ticket,
        from 1.
    :param deep: Whether to look everywhere.
    """


@dataclasses.dataclass
class Place:
    x: int
    inner: Place | None = None


@attrs.frozen
class Fixed:
    n: int = 0


class Loose(msgspec.Struct):
    n: int = 0


CONTEXT = Context(data="me")
T = TypeVar("T")


class Mine(Context):
    """A Context of one's own."""


class Whose(Context, Generic[T]):
    """One that is made of others."""


Alias = TypeAliasType("Alias", Context)
Lazy = TypeAliasType("Lazy", "Alias | None")
Maybe = TypeAliasType("Maybe", T | None, type_params=(T,))
Endless = TypeAliasType("Endless", "list[Endless] | int")
Named = NewType("Named", Context)
Bound = TypeVar("Bound", bound=Context)
Meant = NewTypeVar("Meant", default=Context)
Unread = TypeVar("Unread", bound="Context")
CONTEXTS = [
    Context,
    Alias,
    Lazy,
    Maybe[Context],
    Named,
    Named | None,
    Final[Context],
    Annotated[Alias | None, "who asks"],
    Bound,
    Meant,
    TypeVar("One", Context, Named),
]
NEARLY = [
    Context | int,
    Context | str | None,
    Alias | int | None,
    Annotated[Named | str, "who asks"],
    Maybe[Context | int],
    Mine,
    Mine | None,
    Whose[int],
    Final[Mine],
    list[Context],
    dict[str, Alias],
    NewType("Own", Mine),
    TypeVar("Two", Context, str),
]


def call(function: Callable[..., Any], arguments: Any) -> Any:
    """Call a function with arguments that fit its schema, as the toolbox does."""
    signature = of_function(function, name_of(function))
    Draft202012Validator.check_schema(signature.schema)
    Draft202012Validator(signature.schema).validate(arguments)
    args, kwargs = signature.bind(json.dumps(arguments), CONTEXT)
    return function(*args, **kwargs)


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX])
def test_the_texts_come_from_the_docstring(text: str) -> None:
    """Google, NumPy and Sphinx docstrings give the description and the text of each parameter."""

    def find(ticket_id: int, deep: bool = False, other: str = "") -> None: ...

    find.__doc__ = text
    signature = of_function(find, "find")
    assert (signature.description, json.dumps(signature.schema)) == (
        "Find a ticket.\n\nLooks in the archive too.",
        json.dumps(
            {
                "type": "object",
                "properties": {
                    "ticket_id": {"description": "Which ticket, from 1.", "type": "integer"},
                    "deep": {"description": "Whether to look everywhere.", "type": "boolean", "default": False},
                    "other": {"type": "string", "default": ""},
                },
                "required": ["ticket_id"],
                "additionalProperties": False,
            }
        ),
    )


def test_a_docstring_may_say_little_or_nothing() -> None:
    """Without a docstring there are no texts; one without a description tells of the parameters."""

    def silent() -> None: ...

    def terse() -> None:
        """:param a: the a"""

    assert [docstring(silent), docstring(terse)] == [("", {}), ("", {"a": "the a"})]


def test_a_text_in_the_hint_goes_before_the_docstring() -> None:
    """What a hint says of its parameter is more exact than what the docstring says."""

    def f(a: Annotated[int, Meta(description="from the hint")]) -> None:
        """Go.

        :param a: from the docstring
        """

    assert of_function(f, "f").schema["properties"]["a"]["description"] == "from the hint"


class Size(enum.Enum):
    """How large, anywhere."""

    SMALL = 1
    LARGE = 2


def test_the_text_of_a_parameter_goes_before_that_of_its_class() -> None:
    """What a docstring says of a parameter is more exact than what its class says of itself."""

    def f(a: Size, b: Size, c: Size | None = None) -> None:
        """Go.

        :param a: how large a is
        :param c: how large c is
        """

    told = of_function(f, "f").schema["properties"]
    assert (told["a"]["description"], told["b"]["description"], told["c"]) == (
        "how large a is",
        "How large, anywhere.",
        {
            "description": "how large c is",
            "anyOf": [{"type": "integer", "enum": [1, 2], "description": "How large, anywhere."}, {"type": "null"}],
            "default": None,
        },
    )


class Priced(pydantic.BaseModel):
    amount: int = pydantic.Field(validation_alias="Amount", serialization_alias="Amount")
    note: pydantic.SecretStr | None = None

    model_config = pydantic.ConfigDict(validate_by_name=True)


PRICED = Priced(amount=1)
HIDDEN = Priced(amount=1, note=pydantic.SecretStr("s"))


class Absent(enum.Enum):
    ABSENT = 0


def test_a_default_is_told_where_it_is_true() -> None:
    """None makes a parameter nullable; a default that a model could not give is not told."""

    def f(
        a: int = None,  # type: ignore[assignment]  # noqa: RUF013  many write it so
        b: int = Absent.ABSENT,  # type: ignore[assignment]
        c: str = 5,  # type: ignore[assignment]
        d: tuple[int, int] = (1, 2),
        e: Size = Size.LARGE,
        g: Priced | None = PRICED,
        h: Priced = HIDDEN,
    ) -> Any:
        return a, b, c, d, e

    told = of_function(f, "f").schema["properties"]
    defaults = [told[name].get("default", "untold") for name in told]
    assert defaults == [None, "untold", "untold", [1, 2], 2, {"Amount": 1, "note": None}, "untold"]
    assert told["a"]["anyOf"] == [{"type": "integer"}, {"type": "null"}]
    assert (call(f, {"a": None}), call(f, {"a": 1, "d": [3, 4]})) == (
        (None, Absent.ABSENT, 5, (1, 2), Size.LARGE),
        (1, Absent.ABSENT, 5, (3, 4), Size.LARGE),
    )


def test_every_kind_of_parameter_is_called_as_it_must_be() -> None:
    """Positional-only, ordinary and keyword-only parameters, and the Context among them, all get their own."""

    def f(a: int, ctx: Context, b: int = 5, /, c: int = 6, *, d: int, more: Context | None = None) -> Any:
        return a, ctx, b, c, d, more

    assert [call(f, {"a": 1, "b": 2, "c": 3, "d": 4}), call(f, {"a": 1, "d": 4})] == [
        (1, CONTEXT, 2, 3, 4, CONTEXT),
        (1, CONTEXT, 5, 6, 4, CONTEXT),
    ]


def test_a_positional_parameter_left_out_takes_its_default() -> None:
    """Any of the positional-only parameters may be left out, also one before another that is given."""

    def f(a: int = 1, b: int = 2, c: list[int] = [], /) -> Any:  # noqa: B006  the case
        return a, b, c

    assert [call(f, {"a": 5}), call(f, {}), call(f, {"b": 6}), call(f, {"c": [7]})] == [
        (5, 2, []),
        (1, 2, []),
        (1, 6, []),
        (1, 2, [7]),
    ]


def test_the_context_is_hidden_from_the_model() -> None:
    """A parameter annotated Context is no part of the schema, wherever it stands."""

    def f(ctx: Context, a: int, other: Context | None = None) -> None: ...

    signature = of_function(f, "f")
    assert (list(signature.schema["properties"]), signature.contexts) == (["a"], ("ctx", "other"))


@pytest.mark.parametrize(
    ("hint", "hidden"),
    [
        (Context, True),
        (Context | None, True),
        (Annotated[Context, "who asks"], True),
        (Annotated[Context | None, "who asks"], True),
        (Annotated[int, "how many"], False),
        (Context | int, False),
        (int | None, False),
        (Callable[[int], str], False),
    ],
)
def test_only_a_context_is_filled_by_the_host(hint: Any, hidden: bool) -> None:
    """Context, or Context or None, is filled; nothing else is."""
    assert is_context(hint) == hidden


@pytest.mark.parametrize("hint", CONTEXTS, ids=repr)
def test_the_context_is_filled_by_whatever_name(hint: Any) -> None:
    """An alias, a NewType or a type variable of it is the Context, in a typed function and in a handler alike."""

    def f(ctx: Any = None) -> None: ...

    f.__annotations__["ctx"] = hint
    made = Tool.of(f), Tool("f", "", {"type": "object"}, f)
    bound = [tool.signature.bind("{}", CONTEXT) for tool in made] + [made[1].signature.bind('{"ctx":"me"}', CONTEXT)]
    assert (made[0].input_schema["properties"], bound) == ({}, [([], {"ctx": CONTEXT})] * 3)


def _both(function: Any, properties: dict[str, Any]) -> list[Callable[[], Tool]]:
    """The ways to a tool: of a typed function, and of a schema with its handler."""
    schema = {"type": "object", "properties": properties}
    return [lambda: Tool.of(function), lambda: Tool("f", "", schema, function)]


@pytest.mark.parametrize("hint", NEARLY, ids=repr)
def test_what_is_more_than_the_context_is_refused(hint: Any) -> None:
    """A model could give what the host should, so it is refused by name in a typed function and in a handler alike."""

    def f(ctx: Any = None) -> None: ...

    f.__annotations__["ctx"] = hint
    for make in _both(f, {"ctx": {}}):
        with pytest.raises(InvalidTool) as caught:
            make()
        assert str(caught.value) == (
            f"f: parameter ctx: its hint {hint!r} names Context, and more than that; write Context"
        )


def test_a_bound_that_is_not_looked_up_may_be_the_context() -> None:
    """What a type variable has as text nobody reads: the parameter is refused, as any that can't be read."""

    def f(ctx: Any) -> None: ...

    f.__annotations__["ctx"] = Unread
    for make in _both(f, {}):
        with pytest.raises(InvalidTool, match=r"f: parameter ctx: its hint ~Unread can't be read.*'Context' is not"):
            make()


def test_an_alias_that_holds_itself_is_no_context() -> None:
    """It is looked at once."""
    assert is_context(Endless) is False


def test_typed_values_reach_the_function() -> None:
    """A dataclass with another in it comes as such."""

    def f(p: Place, ps: list[Place]) -> Any:
        return p, ps

    assert call(f, {"p": {"x": 1, "inner": {"x": 2}}, "ps": [{"x": 3}]}) == (Place(1, Place(2)), [Place(3)])


def test_no_two_calls_share_a_default() -> None:
    """A default that a call could change is new in each call; one that can't, or that marks absence, is itself."""
    absent = object()
    held: list[Any] = [[], {}, set(), bytearray(), Place(1), Loose()]

    def f(
        a: list[int] = held[0],
        b: dict[str, int] = held[1],
        c: set[int] = held[2],
        d: bytearray = held[3],
        e: Place = held[4],
        g: Loose = held[5],
        h: object = absent,
        i: tuple[int, ...] = (),
    ) -> list[Any]:
        return [a, b, c, d, e, g, h, i]

    first, second = call(f, {}), call(f, {})
    assert first == second == [*held, absent, ()]
    assert [one is other for one, other in zip(first, held, strict=False)] == [False] * 6
    assert [one is other for one, other in zip(first, second, strict=True)] == [False] * 6 + [True] * 2


class Opts:
    """A class of nobody's kind."""

    def __init__(self) -> None:
        self.seen: list[int] = []


def test_no_two_calls_share_an_object() -> None:
    """Instances of any class are new in each call, and so is what lies in a tuple; what holds nothing is a mark."""
    mark, opts = type("Mark", (), {})(), Opts()

    def f(a: Any = opts, b: tuple[Any, ...] = (1, [2]), c: Any = mark, d: Any = Opts) -> Any:
        a.seen.append(1)
        b[1].append(3)
        return a.seen, b, c, d

    assert [call(f, {}), call(f, {})] == [([1], (1, [2, 3]), mark, Opts)] * 2


def test_what_a_call_by_hand_does_to_a_default_is_its_own() -> None:
    """The defaults of the model's calls are those of the definition."""

    def f(a: list[int] = []) -> list[int]:  # noqa: B006  the case
        a.append(1)
        return a

    given = of_function(f, "f")
    by_hand = [list(f()), list(f())]
    assert (by_hand, [f(**given.bind("{}", CONTEXT)[1]) for _ in range(2)]) == ([[1], [1, 1]], [[1], [1]])


def test_no_two_calls_share_an_argument() -> None:
    """The same checked arguments, as of a rerun, are new in each call."""

    def f(a: list[int], b: Any) -> None: ...

    signature = of_function(f, "f")
    first, second = (signature.bind('{"a":[1],"b":{"c":[]}}', CONTEXT)[1] for _ in range(2))
    first["a"].append(2)
    first["b"]["c"].append(3)
    assert second == {"a": [1], "b": {"c": []}}


class Desk:
    """A desk with tools in it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def method(self, n: int) -> str:
        """A method."""
        return f"{self.name}{n}"

    @classmethod
    def of_class(cls, n: int) -> str:
        """A class method."""
        return f"{cls.__name__}{n}"

    @staticmethod
    def static(n: int) -> str:
        """A static method."""
        return f"static{n}"

    def several(self, n: int, key: str, /, *, times: int = 1) -> str:
        """A method that is half called."""
        return f"{self.name}{n}{key}{times}"

    half = functools.partialmethod(several, 5, times=2)

    def __call__(self, n: int) -> str:
        """A call."""
        return f"called{n}"


class AsyncDesk:
    """Called, it is to be awaited."""

    async def __call__(self, n: int) -> None: ...


async def wait(n: int) -> None:
    """An async function."""


@functools.wraps(wait)
def blocking(n: int) -> int:
    """Looks like an async function and is none."""
    return n


def fetch(url: str, n: int, key: str = "", depth: int = 1) -> str:
    """Fetch it.

    :param n: how many
    """
    return f"{url} {n} {key} {depth}"


def fetch_one(n: int) -> str:
    """Fetch one."""
    return f"one{n}"


MARKED = functools.partial(fetch, key="a")
MARKED.mark = 1  # type: ignore[attr-defined]  # a partial with attributes is kept whole by another

CALLABLES: list[tuple[Any, str, str, bool, Any]] = [
    (Desk("d").method, "method", "A method.", False, "d1"),
    (Desk.of_class, "of_class", "A class method.", False, "Desk1"),
    (Desk.static, "static", "A static method.", False, "static1"),
    (functools.partial(Desk("d").method), "method", "A method.", False, "d1"),
    (functools.lru_cache(fetch_one), "fetch_one", "Fetch one.", False, "one1"),
    (Desk("d"), "Desk", "A call.", False, "called1"),
    (functools.partial(fetch, "u", key="secret"), "fetch", "Fetch it.", False, "u 1 secret 1"),
    (
        functools.partial(MARKED, "u", key="b", depth=2),
        "fetch",
        "Fetch it.",
        False,
        "u 1 b 2",
    ),
    (blocking, "wait", "An async function.", False, 1),
]


@pytest.mark.parametrize(("function", "name", "description", "asynchronous", "value"), CALLABLES)
def test_whatever_can_be_called_can_be_a_tool(
    function: Any, name: str, description: str, asynchronous: bool, value: Any
) -> None:
    """Methods, partials, wrappers and callables have a name, a description and open parameters."""
    told = (name_of(function), of_function(function, name).description, is_async(function), call(function, {"n": 1}))
    assert told == (name, description, asynchronous, value)


class Hatch:
    """A hatch.

    Args:
        n: what the constructor takes
    """

    def __init__(self, n: int) -> None:
        self.opened = n

    def __call__(self, n: int) -> int:
        return n + self.opened


class Door:
    """A door."""

    def __call__(self, n: int) -> int:
        """Open it.

        Args:
            n: how far
        """
        return n


@dataclasses.dataclass
class Lid:
    size: int

    def __call__(self, n: int) -> int:
        return n


def test_a_callable_object_is_described_by_its_call() -> None:
    """Without that by its class, whose parameters are the constructor's; one that stands in for a function by that."""
    told = [docstring(one) for one in (Door(), Hatch(1), Lid(1), functools.update_wrapper(Hatch(1), fetch))]
    assert told == [("Open it.", {"n": "how far"}), ("A hatch.", {}), ("", {}), ("Fetch it.", {"n": "how many"})]
    assert (call(Hatch(1), {"n": 1}), call(Lid(1), {"n": 1}), call(Door(), {"n": 1})) == (2, 1, 1)


@pytest.mark.parametrize("function", [wait, AsyncDesk(), functools.partial(wait, 1)])
def test_what_has_to_be_awaited_is_known(function: Any) -> None:
    """Async functions are known as such, and so are what wraps them and what is called like them."""
    assert is_async(function)


def test_what_a_partial_method_fixed_is_hidden_too() -> None:
    """Only what is left open is asked for."""
    half = Desk("d").half
    assert (list(of_function(half, "half").schema["properties"]), call(half, {"key": "k"})) == (["key"], "d5k2")


def test_what_a_partial_fixed_is_hidden_from_the_model() -> None:
    """A key given by partial is neither told to the model nor taken from it."""
    schema = of_function(functools.partial(fetch, key="secret"), "fetch").schema
    assert (list(schema["properties"]), "secret" in json.dumps(schema)) == (["url", "n", "depth"], False)


def bare(a, b: int = 0):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201  the case
    """Has no hint."""


def spread(*rest: int) -> None:
    """Takes many."""


def keyed(**rest: int) -> None:
    """Takes any name."""


def lost(a: Nowhere) -> None:  # type: ignore[name-defined]  # noqa: F821  the case
    """Its type is nowhere."""


def many(n: int) -> Iterator[int]:
    """Yields them."""
    yield n


LOCK = threading.Lock()


def waiting(a: Any = LOCK) -> None: ...


async def many_later(n: int) -> AsyncIterator[int]:
    """Yields them later."""
    yield n


def strange(a: complex) -> None:
    """JSON has no such number."""


WRONG: list[tuple[Any, str]] = [
    (bare, "parameter a: it has no type hint; write one, Any if it takes anything"),
    (
        Desk.method,
        "parameter self: it has no type hint; make the tool of the bound method, tool(object.method)",
    ),
    (spread, "parameter *rest: 'int': a schema can't tell of it; write out the parameters, or take a list or dict"),
    (keyed, "parameter **rest: 'int': a schema can't tell of it; write out the parameters, or take a list or dict"),
    (
        lost,
        "parameter a: its hint 'Nowhere' can't be read: name 'Nowhere' is not defined; "
        "define the type where the function can see it",
    ),
    (
        strange,
        "parameter a: its type has no schema: complex has no JSON Schema: it is no dataclass, TypedDict or NamedTuple, "
        "and no class of attrs, msgspec or pydantic; make it one of these, or take what it is made of, and make it in "
        "the tool",
    ),
    (
        waiting,
        "parameter a: its default can't be copied for each call: cannot pickle '_thread.lock' object; "
        "make it in the function, and let None stand for it",
    ),
    (many, "it yields, so that calling it does nothing; return a list"),
    (functools.partial(many_later, 1), "it yields, so that calling it does nothing; return a list"),
    (
        max,
        "its signature can't be read: no signature found for builtin <built-in function max>; "
        "wrap it in a function with hints",
    ),
]


@pytest.mark.parametrize(("function", "why"), WRONG)
def test_what_can_be_no_tool_is_told(function: Any, why: str) -> None:
    """A signature that no schema describes is refused with the function, the parameter and the remedy."""
    with pytest.raises(InvalidTool) as caught:
        of_function(function, "f")
    assert str(caught.value) == f"f: {why}"


def test_what_yields_does_nothing_when_it_is_called() -> None:
    """That is why it is refused: only who goes through what it gives runs it."""
    assert (next(many(1)), asyncio.run(anext(many_later(2)))) == (1, 2)  # type: ignore[arg-type]


def test_a_ready_handler_gets_the_arguments_and_the_context() -> None:
    """A handler of a ready schema gets plain JSON by keyword, and the Context where it asks for it."""

    def handler(ctx: Context, **arguments: Any) -> Any:
        return ctx, arguments

    signature = of_handler(handler, "Go.", {"type": "object"})
    args, kwargs = signature.bind('{"a":[1]}', CONTEXT)
    assert (handler(*args, **kwargs), signature.description) == ((CONTEXT, {"a": [1]}), "Go.")


def test_a_ready_handler_may_have_hints_that_say_nothing() -> None:
    """Hints that can't be read are none of our business where the schema tells of their parameters."""
    assert [of_handler(one, "", {"properties": {"a": {}}}).contexts for one in (lost, max)] == [(), ()]


def test_a_ready_handler_gets_the_context_whatever_else_can_not_be_read() -> None:
    """Each parameter's hint is read by itself: no other, and not that of what it returns, keeps the Context away."""

    def one(a: int, ctx: Context) -> Nowhere: ...  # type: ignore[name-defined]  # noqa: F821  the case

    def other(a: Nowhere, ctx: Context | None = None, *more: Nowhere, **rest: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821  the case

    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    bound = [of_handler(handler, "", schema).bind('{"a":1,"ctx":"root"}', CONTEXT) for handler in (one, other)]
    assert bound == [([], {"a": 1, "ctx": CONTEXT})] * 2


class Unsigned:
    """Its signature names what is nowhere."""

    @property
    def __signature__(self) -> Any:
        raise NameError("name 'Nowhere' is not defined")

    def __call__(self) -> None: ...


@pytest.mark.parametrize(
    ("hint", "properties"),
    [
        ("Ctx", {"a": {}}),
        ("Ctx", None),
        ("Ctx", 5),
        ("Nowhere | Context", {"ctx": {}}),
        ("Annotated[Nowhere, Context]", {"ctx": {}}),
    ],
)
def test_a_ready_handler_that_may_ask_for_the_context_is_refused(hint: str, properties: Any) -> None:
    """Of a hint that can't be read nobody knows, where it names the Context or the schema does not tell of it."""

    def handler(a: int, ctx: Any) -> None: ...

    handler.__annotations__["ctx"] = hint
    with pytest.raises(InvalidTool) as caught:
        of_handler(handler, "", {"type": "object", "properties": properties})
    name = hint.removeprefix("Annotated[").split(" ")[0].rstrip(",")
    assert str(caught.value) == (
        f"handler: parameter ctx: its hint {hint!r} can't be read, and may be Context: name {name!r} is not defined; "
        "import or define the type where the function can see it"
    )


def test_a_ready_handler_whose_signature_names_what_is_nowhere_is_refused() -> None:
    """It may ask for the Context."""
    with pytest.raises(InvalidTool, match="Unsigned: its signature can't be read: name 'Nowhere' is not defined"):
        of_handler(Unsigned(), "", {"type": "object"})


def test_a_model_never_gives_the_context_that_a_partial_fixed() -> None:
    """Of a ready handler too: the host's goes before both."""

    def handler(a: int, ctx: Context) -> None: ...

    signature = of_handler(functools.partial(handler, ctx=Context()), "", {"type": "object"})
    assert signature.bind('{"a":1,"ctx":"root"}', CONTEXT) == ([], {"a": 1, "ctx": CONTEXT})


@pytest.mark.parametrize("note", [Meta(multiple_of=0.01), annotated_types.MultipleOf(0.01)])
def test_a_float_is_a_multiple_as_it_is_written(note: object) -> None:
    """What the check takes the tool gets: 19.99 is a multiple of 0.01, though not in binary; 0.015 is none."""

    def pay(amount: float, fees: list[float]) -> None: ...

    pay.__annotations__ |= {"amount": Annotated[float, note], "fees": list[Annotated[float, note]]}
    tool = Tool.of(pay)
    given = {"amount": 19.99, "fees": [0.1, 0.07, 0.5, 3]}
    checked, problem = tool.arguments.check(json.dumps(given))
    assert (problem, tool.signature.bind(checked or "", CONTEXT)) == ("", ([], given))
    assert tool.arguments.check('{"amount":0.015,"fees":[0.1]}')[1].endswith(
        "- amount: 0.015 where a multiple of 0.01 is wanted"
    )


Local = int  #: what a hint means where nothing nearer has its name


def test_hints_are_looked_up_where_the_function_stands() -> None:
    """The names of the caller are those of a function made inside another; what it uses of that one goes first."""

    @dataclasses.dataclass
    class Other:
        n: int

    @dataclasses.dataclass
    class Local:
        other: Other
        inner: Local | None = None

    def inside(local: Local) -> None: ...

    def using(local: Local) -> Any:
        return Local(local.other)

    def asked(function: Any, **names: Any) -> Any:
        return of_function(function, "f", names).schema["properties"]["local"]

    assert [
        asked(inside, Local=Local, Other=Other),
        asked(using, Local=str, Other=Other),
        asked(outside, Local=Local),
        asked(outside_too, Elsewhere=Local, Other=Other),
        asked(inside),
    ] == [
        {"$ref": "#/$defs/Local"},
        {"$ref": "#/$defs/Local"},
        {"type": "integer"},
        {"$ref": "#/$defs/Local"},
        {"type": "integer"},
    ]
    assert using(Local(Other(1))) == Local(Other(1))


def outside(local: Local) -> None:
    """Its hint is that of the module."""


def outside_too(local: Elsewhere) -> None:  # type: ignore[name-defined]  # noqa: F821  the case
    """Its hint is nowhere in the module."""


Json = dict[str, "Json"] | list["Json"] | int
Forest = list["Tree"]
Tree = dict[str, "Forest | None"]
Told = "list[Told] | int"  #: as aliases were written before there were type statements
Asking = Context | list["Asking"]


@dataclasses.dataclass
class Document:
    """It holds what parameters hold, too."""

    body: Json
    more: Json | None = None


def test_an_alias_that_was_assigned_may_hold_itself_by_its_name() -> None:
    """It is referred to by that, once, wherever it stands, and its values are read as what it holds."""

    def f(a: Any, b: Json, c: Document, d: Tree, e: Any) -> None: ...

    f.__annotations__ |= {"a": Json, "e": Told}
    made = of_function(f, "f")

    def lists(of: Any) -> Any:
        return {"type": "array", "items": of}

    def maps(of: Any) -> Any:
        return {"type": "object", "additionalProperties": of}

    json_ref, tree_ref, null = {"$ref": "#/$defs/Json"}, {"$ref": "#/$defs/Tree"}, {"type": "null"}
    whole = {"type": "integer"}
    form = {"anyOf": [maps(json_ref), lists(json_ref), whole]}
    fields = {"body": json_ref, "more": {"anyOf": [json_ref, null], "default": None}}
    assert (made.schema["properties"], made.schema["$defs"]) == (
        {
            "a": form,
            "b": json_ref,
            "c": {"$ref": "#/$defs/Document"},
            "d": tree_ref,
            "e": {"anyOf": [lists({"$ref": "#/$defs/Told"}), whole]},
        },
        {
            "Json": form,
            "Document": {
                "type": "object",
                "description": "It holds what parameters hold, too.",
                "properties": fields,
                "required": ["body"],
                "additionalProperties": False,
            },
            "Tree": maps({"anyOf": [lists(tree_ref), null]}),
            "Told": {"anyOf": [lists({"$ref": "#/$defs/Told"}), whole]},
        },
    )
    given = {"a": {"x": [{}]}, "b": [[1]], "c": {"body": {"y": 2}}, "d": {"z": [{"z": None}]}, "e": [[3]]}
    assert made.typed(json.dumps(given)) == given | {"c": Document({"y": 2})}


def test_an_alias_that_holds_itself_may_not_name_the_context() -> None:
    """A model could give it."""

    def f(ctx: Asking) -> None: ...

    for make in _both(f, {"ctx": {}}):
        with pytest.raises(InvalidTool, match=r"^f: parameter ctx: its hint .* names Context, and more than that"):
            make()


def test_what_is_not_there_yet_is_not_looked_at() -> None:
    """A function may use what is made after it."""

    def early(n: int) -> Any:
        return later, n

    told = of_function(early, "early").schema["properties"]
    later = "there"
    assert (told, early(1)) == ({"n": {"type": "integer"}}, ("there", 1))


def test_type_parameters_are_known_by_name() -> None:
    """A hint may be a type parameter of the function itself, as Python 3.12 has them."""

    def f(n: Number) -> None: ...  # type: ignore[name-defined]  # noqa: F821  the case

    f.__type_params__ = (TypeVar("Number", bound=int),)  # type: ignore[attr-defined]
    assert of_function(f, "f").schema["properties"] == {"n": {"type": "integer"}}
