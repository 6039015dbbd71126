"""A definition as Mermaid text, for places that draw it themselves."""

from __future__ import annotations

import re

from loopmachine.definition import Definition
from loopmachine.review.lines import Line, all_lines, working
from loopmachine.review.text import flat, key

# An underscore inside a word is one; at its edge it would make the word italic.
_UNSAFE = re.compile(r"[^A-Za-z0-9 _.,()\[\]/-]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")


def mermaid(definition: Definition) -> str:
    """The definition as a state diagram. Names are labels, never identifiers; what Mermaid might read is coded."""
    finals = [state for state in definition.table if state.final is not None]
    lines = ["stateDiagram-v2"]
    lines += [f'state "{coded(state.name)}" as {_id(state.name)}' for state in [*working(definition), *finals]]
    lines += [f"[*] --> {_id(definition.initial)}"]
    lines += [
        f"{_id(line.state.name)} --> {_id(line.row.to)} : {coded(_label(line))}" for line in all_lines(definition)
    ]
    lines += [f"{_id(state.name)} --> [*]" for state in finals]
    return "\n    ".join(lines) + "\n"


def coded(text: str) -> str:
    """Text on one line, each character that means something to Mermaid as an entity."""
    return _UNSAFE.sub(lambda found: f"#{ord(found[0])};", flat(text))


def _id(name: str) -> str:
    return f"s_{key(name)}"


def _label(line: Line) -> str:
    update = f"/ {line.row.update.__name__}" if line.row.update else ""
    return " ".join(filter(None, [str(line.number), line.event, line.condition, update]))
