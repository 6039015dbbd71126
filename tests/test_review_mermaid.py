"""Mermaid text: names are never identifiers, and what Mermaid would read is coded."""

from __future__ import annotations

import re
from typing import Any

import pytest

from loopmachine.definition import Definition, Row, State
from loopmachine.errors import InvalidDefinition
from loopmachine.review.lines import all_lines
from loopmachine.review.mermaid import mermaid
from loopmachine.review.text import key
from loopmachine.table import TOOL_LOOP
from tests.test_review_lines import SMALL, nothing

#: The names of case D01.
NAMES = ["wait for tool", "a-b", "Foo: bar", 'x"y', "\u00e9", "1st"]
#: Its label, and more that Mermaid might read.
LABELS = [
    'step: 1; "q" #2',
    "a --> b",
    "%% comment",
    "{ } [*] <<fork>>",
    "style x:#fff;",
    "classDef y fill:#f00;",
    "`code` **bold** _it_ $$x$$",
    "#35; &amp;",
    "end",
    *NAMES,
]

_TEXT = r"(?:[A-Za-z0-9 _.,()\[\]/-]|#\d+;)+"
_ID = r"s_[A-Za-z0-9_]+"
_GRAMMAR = {
    "state": re.compile(rf'    state "({_TEXT})" as ({_ID})'),
    "start": re.compile(rf"    \[\*\] --> ({_ID})"),
    "move": re.compile(rf"    ({_ID}) --> ({_ID}) : ({_TEXT})"),
    "end": re.compile(rf"    ({_ID}) --> \[\*\]"),
}


def parsed(text: str) -> dict[str, list[tuple[str, ...]]]:
    """The parts of a Mermaid text that keeps to a strict part of its grammar, with the entities of labels read."""
    head, *lines = text.removesuffix("\n").split("\n")
    assert head == "stateDiagram-v2"
    found: dict[str, list[tuple[str, ...]]] = {kind: [] for kind in _GRAMMAR}
    for line in lines:
        ((kind, match),) = [(kind, match) for kind, rule in _GRAMMAR.items() if (match := rule.fullmatch(line))]
        found[kind].append(tuple(re.sub(r"#(\d+);", lambda code: chr(int(code[1])), part) for part in match.groups()))
    return found


def labelled(labels: list[str]) -> Definition:
    """A definition with an event of each name, that begins in a state whose name is not ASCII."""
    rows = [Row(type(label, (), {}), "end" if place else "\u00e9") for place, label in enumerate(labels)]
    return Definition(
        "\u00e9", {State("\u00e9", "Begins.", nothing): rows, State("end", 'Says "end".', final="answered"): []}
    )


def test_the_tool_loop_is_all_there() -> None:
    """Every state, row and end of the tool loop is in its Mermaid text, and nothing else."""
    found = parsed(mermaid(TOOL_LOOP))
    assert sorted(found["state"]) == sorted((name, f"s_{name}") for name in TOOL_LOOP.states)
    assert found["start"] == [("s_checking_cancel",)]
    assert [move[:2] for move in found["move"]] == [
        (f"s_{line.state.name}", f"s_{line.row.to}") for line in all_lines(TOOL_LOOP)
    ]
    assert found["end"] == [(f"s_{name}",) for name, state in TOOL_LOOP.states.items() if state.final]


def test_a_label_is_number_event_condition_and_update() -> None:
    """A move says which row it is, its event, its guard or else, and its update's name."""
    assert [move[2] for move in parsed(mermaid(SMALL))["move"]] == [
        "1 Go [ready] / count",
        "2 Go [else]",
        "3 Wait / count",
        "1 [ready]",
        "2 [else]",
        "1 Go",
    ]


def test_D01_identifiers_are_ascii_unique_and_stable() -> None:  # noqa: N802  # the case's id
    """Names that are no identifiers get ASCII ones, each its own, the same every time."""
    assert [f"s_{key(name)}" for name in NAMES] == [
        "s_0x7761697420666f7220746f6f6c",
        "s_0x612d62",
        "s_0x466f6f3a20626172",
        "s_0x782279",
        "s_0xc3a9",
        "s_0x317374",
    ]


def test_D01_such_names_are_no_states() -> None:  # noqa: N802  # the case's id
    """A definition refuses state names that are no identifiers, so only letters of other scripts need care."""
    rows: dict[State, list[Any]] = {State(name, "Named oddly.", final="fault"): [] for name in NAMES}
    with pytest.raises(InvalidDefinition) as refused:
        Definition("\u00e9", rows)
    told = [fault for fault in refused.value.faults if fault.endswith("must be an identifier")]
    assert told == [f"{name!r}: the name of a state must be an identifier" for name in NAMES if name != "\u00e9"]


def test_D01_labels_survive() -> None:  # noqa: N802  # the case's id
    """Labels with colons, quotes, hashes, arrows and keywords parse, and their text is what was written."""
    text = mermaid(labelled(LABELS))
    found = parsed(text)
    assert text.isascii()
    assert found["state"] == [("\u00e9", "s_0xc3a9"), ("end", "s_end")]
    assert [move[2] for move in found["move"]] == [f"{number} {label}" for number, label in enumerate(LABELS, 1)]


def test_underscores_at_the_edge_of_a_word_are_coded() -> None:
    """Mermaid would read an underscore at the edge of a word as italics; inside a word it is left readable."""
    assert "1 #95;it#95; a_b" in mermaid(labelled(["_it_ a_b", "x"]))


def test_a_line_that_is_not_coded_does_not_parse() -> None:
    """The grammar of these tests refuses a label with a raw colon."""
    with pytest.raises(ValueError, match="not enough values"):
        parsed("stateDiagram-v2\n    s_a --> s_b : a: b\n")
