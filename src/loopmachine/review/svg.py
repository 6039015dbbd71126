"""What Graphviz drew, made an image that stands by itself: described, with its DOT's digest, in light and in dark."""

from __future__ import annotations

import hashlib
import re

from loopmachine.definition import Definition
from loopmachine.review import colours
from loopmachine.review.lines import all_lines, heading
from loopmachine.review.text import coded, flat

# Graphviz wraps what has a tooltip in a link; the tooltip becomes the title of the thing itself.
_LINKED = re.compile(r'<title>[^<]*</title>\n<g id="a_\w+"><a xlink:title="([^"]*)">\n(.*?)</a>\n</g>\n', re.DOTALL)
_LINKED_ROW = re.compile(r'<g id="a_(\w+_row)"><a xlink:title="([^"]*)">\n(.*?)</a>\n</g>\n', re.DOTALL)
_NAMES = re.compile(r"<title>(?:loop|legend|cluster_finished|s_\w+)</title>\n")
_COMMENTS = re.compile(r"<!--.*?-->\n?", re.DOTALL)


def digest(dot: str) -> str:
    """What an image says of the DOT that it was drawn from."""
    return f"dot-sha256 {hashlib.sha256(dot.encode('ascii')).hexdigest()}"


def finish(drawn: str, dot: str, definition: Definition) -> str:
    """The image that Graphviz drew from ``dot``, in ASCII."""
    svg = _COMMENTS.sub("", drawn[drawn.index("<svg") :])
    svg = _LINKED.sub(r"<title>\1</title>\n\2", svg)
    svg = _LINKED_ROW.sub(r'<g id="\1" class="row">\n<title>\2</title>\n\3</g>\n', svg)
    svg = _NAMES.sub("", svg)
    opening, inside = svg.split(">", 1)
    image = f'{opening} role="img" aria-labelledby="loop_title loop_desc">\n{_head(dot, definition)}{inside}'
    return image.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _head(dot: str, definition: Definition) -> str:
    states = [flat(f"{state.name}: {state.doc}") for state in definition.table]
    told = "\n".join([*states, *(line.sentence for line in all_lines(definition))])
    return (
        f'<title id="loop_title">{coded(heading(definition))}</title>\n<desc id="loop_desc">{coded(told)}</desc>\n'
        f"<metadata>{digest(dot)}</metadata>\n<style>{_style()}</style>"
    )


def _style() -> str:
    dark = [
        f'[fill="{light}"] {{ fill: {dark} }} [stroke="{light}"] {{ stroke: {dark} }}'
        for light, dark in colours.DARK.items()
    ]
    rules = [".edge:hover path { stroke-width: 3 }", "@media (prefers-color-scheme: dark) {", *dark, "}"]
    return "\n".join(["", *rules, ""])
