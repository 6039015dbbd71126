"""A schema made ready to examine values, and the examination itself.

A node is a list of checks. A check gives the value, as it was or coerced, and what is wrong with it. The strict
examination accepts what JSON Schema accepts; the coercing one also reads text as what is wanted in its place,
where only one reading is possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from typing import Final as Constant

from loopmachine.tools.faults import MOST_FAULTS, NONE, Fault, Faults, in_words, instead, under
from loopmachine.tools.numerals import Unreadable
from loopmachine.tools.reading import READINGS, identity
from loopmachine.tools.words import either, listed, near, quoted, show

Check = Callable[["Examination", Any], tuple[Any, Faults]]
_CONTAINERS: Constant = (dict, list)


class Node:
    """A schema's checks, in order, and the nodes that it applies to the same value and to parts of it."""

    __slots__ = ("_wanted", "bases", "beside", "checks", "kinds", "parts", "tags", "values", "words")

    def __init__(self) -> None:
        self.checks: list[Check] = []
        self.beside: list[Node] = []
        self.bases: list[Node] = []  #: those beside it that each must accept the value
        self.parts: list[Node] = []
        self.kinds: Sequence[str] = ()  #: of the values that it may take; none: of any
        self.tags: dict[str, list[Any]] = {}  #: the values of each name that takes only some, such as a type
        self.values: Sequence[str] = ()  #: the only ones that it takes, as they are told; none: it names none
        self.words: Callable[[], str] = lambda: "a value"
        self._wanted = ""

    @property
    def wanted(self) -> str:
        """What it accepts, in a few words."""
        self._wanted = self._wanted or self.words()
        return self._wanted


class Examination:
    """One look at a value. What a node says of a list or an object is kept: unions ask for it many times.

    So is what it reads from text, by the text, as each type of a union reads lists and objects of its own from it.
    """

    __slots__ = ("coercing", "known", "seen", "strict")

    def __init__(self, *, coercing: bool = False) -> None:
        self.coercing = coercing
        self.strict: Examination = Examination() if coercing else self
        self.known: dict[int, str] = {}  #: the identities of what is taken, which ``seen`` keeps alive
        self.seen: dict[tuple[int, int | str], tuple[Any, tuple[Any, Faults]]] = {}

    def at(self, node: Node, value: Any) -> tuple[Any, Faults]:
        """The value as it is to be taken, and what is wrong with it."""
        key: tuple[int, int | str]
        if isinstance(value, _CONTAINERS):
            key = (id(node), id(value))
        elif self.coercing and isinstance(value, str):
            key = (id(node), value)
        else:
            return self._through(node, value)
        if key not in self.seen:
            self.seen[key] = (value, self._through(node, value))  # holding the value keeps its id its own
        return self.seen[key][1]

    def _through(self, node: Node, value: Any) -> tuple[Any, Faults]:
        faults: list[Fault] = []
        for check in node.checks:
            value, found = check(self, value)
            if found:
                faults += found
                if found[0].foreign and not found[0].path:
                    break
        return value, faults


def examine(node: Node, value: Any) -> tuple[Any, Faults]:
    """The value as it is to be taken: unchanged if the schema accepts it, else coerced; and what is wrong with it.

    What is coerced is examined once more, strictly: nothing is taken that the schema does not accept.
    """
    taken, faults = Examination(coercing=True).at(node, value)
    return (taken, faults) if faults else Examination().at(node, taken)


def accepts(node: Node, value: Any) -> bool:
    """Whether the schema accepts the value as it is."""
    return not Examination().at(node, value)[1]


# --- the checks -----------------------------------------------------------------------------------------


def nothing(_: Examination, value: Any) -> tuple[Any, Faults]:
    """The schema ``false``."""
    return value, [Fault((), f"{show(value)} where nothing is accepted")]


def has_kind(kind: str, value: Any) -> bool:
    """Whether a value is of a JSON Schema type. 3.0 is an integer; True is none."""
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return isinstance(value, _KINDS[kind])


_KINDS: Constant[dict[str, Any]] = {
    "boolean": bool,
    "number": (int, float),
    "string": str,
    "null": type(None),
    "array": list,
    "object": dict,
}


def typed(kinds: Sequence[str], node: Node) -> Check:
    """``type``: one of these kinds, or text that reads as one of them; no text reads as two different values.

    A number that can't be kept passes for one: whoever reads it tells why it can't.
    """
    numeric = "number" in kinds or "integer" in kinds

    def check(look: Examination, value: Any) -> tuple[Any, Faults]:
        if numeric and isinstance(value, Unreadable):
            return value, NONE
        for kind in kinds:
            if has_kind(kind, value):
                whole = kind == "integer" and isinstance(value, float) and "number" not in kinds
                return (int(value) if whole else value), NONE
        if look.coercing and isinstance(value, str):
            readings = [one for kind in kinds for one in READINGS[kind](value)]
            if readings:
                return readings[0], NONE
        return value, instead(value, node.wanted, foreign=True)

    return check


def one_of_values(members: Sequence[Any], node: Node) -> Check:
    """``enum`` and ``const``: one of these values; 1 and 1.0 are the same, 1 and true are not."""
    known = {identity(member): member for member in members}
    names = [member for member in members if isinstance(member, str)]
    kinds = tuple({type(member) for member in members})

    def check(look: Examination, value: Any) -> tuple[Any, Faults]:
        same = identity(value)
        if same in known:
            return known[same], NONE
        if look.coercing and isinstance(value, str):
            for reading in (*READINGS["number"](value), *READINGS["boolean"](value)):
                if identity(reading) in known:
                    return known[identity(reading)], NONE
        return value, instead(value, node.wanted, names, foreign=not isinstance(value, kinds))

    return check


def limited(kind: str, test: Callable[[Any], object], wanted: str) -> Check:
    """A limit that holds for values of one kind, such as ``minimum`` for numbers."""

    def check(_: Examination, value: Any) -> tuple[Any, Faults]:
        return value, NONE if not has_kind(kind, value) or test(value) else instead(value, wanted)

    return check


def distinct(_: Examination, value: Any) -> tuple[Any, Faults]:
    """``uniqueItems``."""
    if not isinstance(value, list) or len({identity(one) for one in value}) == len(value):
        return value, NONE
    return value, instead(value, "a list without doubles")


def names(node: Node) -> Check:
    """``propertyNames``: names are never coerced."""

    def check(look: Examination, value: Any) -> tuple[Any, Faults]:
        faults: list[Fault] = []
        for name in value if isinstance(value, dict) else ():
            faults += under(name, [Fault((), f"the name {fault.text}") for fault in look.strict.at(node, name)[1]])
            if len(faults) >= MOST_FAULTS:
                break
        return value, faults

    return check


def items(first: Sequence[Node], rest: Node | None) -> Check:
    """``prefixItems`` and ``items``; without a rest there are no more items than first ones."""

    def check(look: Examination, value: Any) -> tuple[Any, Faults]:
        if not isinstance(value, list):
            return value, NONE
        taken: list[Any] = []
        faults: list[Fault] = []
        for place, given in enumerate(value):
            node = first[place] if place < len(first) else rest
            if node is None:
                faults.append(Fault((place,), f"{show(given)} where nothing is wanted; {len(first)} items are"))
                break
            one, found = look.at(node, given)
            faults += under(place, found)
            taken.append(one)
            if len(faults) >= MOST_FAULTS:
                break
        return taken, faults

    return check


def properties(
    nodes: Mapping[str, Node],
    required: Sequence[str],
    patterns: Sequence[tuple[Callable[[str], object], Node]],
    others: Node | None,
) -> Check:
    """``properties``, ``required``, ``patternProperties`` and ``additionalProperties`` (None: no other names).

    The names come out in the order of the schema, others after them as they came.
    """
    needed = [*(name for name in nodes if name in required), *(name for name in required if name not in nodes)]

    def governing(name: str) -> list[Node]:
        found = [nodes[name]] if name in nodes else []
        found += [node for matches, node in patterns if matches(name)]
        return found or ([] if others is None else [others])

    def check(look: Examination, value: Any) -> tuple[Any, Faults]:
        if not isinstance(value, dict):
            return value, NONE
        taken: dict[str, Any] = {}
        faults = [_missing(name, nodes) for name in needed if name not in value]
        for name in [*(name for name in nodes if name in value), *(name for name in value if name not in nodes)]:
            one, judges = value[name], governing(name)
            for node in judges:
                one, found = look.at(node, one)
                faults += under(name, found)
            if not judges:
                faults.append(_unknown(name, [known for known in nodes if known not in value], nodes))
            taken[name] = one
            if len(faults) >= MOST_FAULTS:
                break
        return taken, faults

    return check


def _missing(name: str, nodes: Mapping[str, Node]) -> Fault:
    return Fault((name,), f"missing; {nodes[name].wanted if name in nodes else 'a value'} is wanted")


def _unknown(name: str, free: Sequence[str], nodes: Iterable[str]) -> Fault:
    return Fault((name,), lambda: f"there is no {quoted(name)} here; known names: {listed(nodes)}{near(name, free)}")


def also(node: Node) -> Check:
    """``$ref`` and each part of ``allOf``: what another node says of the same value."""
    return lambda look, value: look.at(node, value)


def unlike(node: Node) -> Check:
    """``not``."""

    def check(look: Examination, value: Any) -> tuple[Any, Faults]:
        return value, NONE if look.strict.at(node, value)[1] else instead(value, f"anything but {node.wanted}")

    return check


def union(options: Sequence[Node], node: Node, *, single: bool) -> Check:
    """``anyOf`` and ``oneOf`` (``single``): what one accepts as it is goes before what one can be coerced to.

    Of what nothing takes the faults are told that the type of it has which its tag names, or else the nearest one;
    where none is nearer, as of text, what each wants.
    """

    def check(look: Examination, value: Any) -> tuple[Any, Faults]:
        for eye in (look.strict, look) if look.coercing else (look,):
            told = [(one, *eye.at(one, value)) for one in options if eye.coercing or may_take(one, value)]
            fitting = [taken for _, taken, faults in told if not faults]
            if eye.coercing and len(fitting) > 1:
                fitting = list({identity(taken, look.known): taken for taken in fitting}.values())
            if len(fitting) > 1 and (single or eye.coercing):
                return value, [Fault((), f"{show(value)} can be taken in {len(fitting)} ways: {node.wanted}")]
            if fitting:
                return next((taken for taken in fitting if taken is value), fitting[0]), NONE
        misses = [(one, faults) for one, _, faults in told if not _foreign(faults)]
        if not misses:
            return value, instead(value, node.wanted, foreign=True)
        return value, _by_tag(misses, value) or _nearest(misses, value, options, told)

    return check


def may_take(node: Node, value: Any) -> bool:
    """Whether a value is of a kind that is taken as it is: a quick look that finds no words for what is not."""
    kinds = not node.kinds or isinstance(value, Unreadable) or any(has_kind(kind, value) for kind in node.kinds)
    return kinds and all(may_take(base, value) for base in node.bases)


def _by_tag(misses: Sequence[tuple[Node, Faults]], value: Any) -> Faults:
    """The faults that tell of a value what its tag asks for: a name whose values tell types apart. None: no tag."""
    tags = [tags_of(option) for option, _ in misses]
    for name in tags[0] if len(misses) > 1 and isinstance(value, dict) else ():
        known = [identity(one) for of_type in tags for one in of_type.get(name, ())]
        if not all(name in of_type for of_type in tags) or len({*known}) < len(known):
            continue
        for of_type, (_, faults) in zip(tags, misses, strict=True):
            if name in value and identity(value[name]) in map(identity, of_type[name]):
                return faults
        if all(any(fault.path == (name,) for fault in faults) for _, faults in misses):
            return under(name, _untagged(value, name, [one for of_type in tags for one in of_type[name]]))
    return NONE


def _nearest(
    misses: Sequence[tuple[Node, Faults]],
    value: Any,
    options: Sequence[Node],
    told: Sequence[tuple[Node, Any, Faults]],
) -> Faults:
    """The fewest faults; where all are of the value as a whole, one that tells what is wanted in its place."""
    every = [fault for _, faults in misses for fault in faults]
    if not all(fault.wanted for fault in every):
        return min((faults for _, faults in misses), key=len)
    found = {id(one): faults for one, _, faults in told}

    def wanted() -> str:
        said = {key: " and ".join(in_words(fault.wanted) for fault in faults) for key, faults in found.items()}
        return either((one.values, said.get(id(one), one.wanted)) for one in options)

    return instead(value, wanted, [name for fault in every for name in fault.known])


def _untagged(value: Mapping[str, Any], name: str, known: Sequence[Any]) -> Faults:
    wanted = f"one of {listed(map(show, known))}"
    if name not in value:
        return [Fault((), f"missing; {wanted} is wanted")]
    return instead(value[name], wanted, [one for one in known if isinstance(one, str)])


def tags_of(node: Node) -> dict[str, list[Any]]:
    """The names of a type that take only some values."""
    return node.tags or next((found for other in node.bases if (found := tags_of(other))), {})


def _foreign(faults: Faults) -> bool:
    return faults[0].foreign and not faults[0].path
