"""A definition as DOT: a state is a table, a row is one line of it, and its curve leaves there without a label."""

from __future__ import annotations

from collections.abc import Mapping, Set
from math import ceil

import attrs

from loopmachine.definition import Definition, State
from loopmachine.review import colours
from loopmachine.review.cells import final_label, legend_label, working_label
from loopmachine.review.layout import ARROW, NAME, PAD, SMALL, TEXT, Layout, Point, lay_out
from loopmachine.review.lines import Line, all_lines, heading, known_rows, lines_of
from loopmachine.review.text import coded, in_tooltip, key, points

_SHAPES = {
    "answered": {"shape": "ellipse", "style": "filled"},
    "limit": {"shape": "box", "style": "rounded,filled"},
    "fault": {"shape": "octagon", "style": "filled"},
}
_RING = 4  #: the outer border of a final state stands this far outside the inner one
_HEAVY = "2.2"


def draw(definition: Definition, counts: Mapping[str, int] | None = None) -> str:
    """The definition as DOT text: ASCII, and the same every time.

    ``counts``: how often each row was taken, by row id ("state/number"). The rows that were are drawn heavy, the
    others pale. Raises ValueError for a row that the definition does not have.
    """
    from graphviz import Digraph  # type: ignore[import-untyped]  # it ships no types

    drawing = _drawing(definition, counts)
    graph = Digraph(
        "loop",
        graph_attr=drawing.graph(),
        node_attr={"fontname": "Arial", "fontsize": f"{SMALL}", "fontcolor": colours.SMALL, "shape": "plain"},
        edge_attr={"arrowsize": f"{ARROW / 10:g}"},
    )
    graph.node("legend", id="legend", label=legend_label(), pos=_place(drawing.layout.legend.middle))
    for name in drawing.layout.column:
        graph.node(_node(name), **drawing.working(definition.states[name]))
    with graph.subgraph(name="cluster_finished", graph_attr=drawing.cluster()) as cluster:
        for name in drawing.layout.ends:
            cluster.node(_node(name), **drawing.final(definition.states[name]))
    for line in all_lines(definition):
        if not line.stays:
            side = "e" if line.row.to in drawing.layout.ends else "w"
            graph.edge(f"{_node(line.state.name)}:{side}{line.number}", _node(line.row.to), **drawing.curve(line))
    return str(graph.source)


def _drawing(definition: Definition, counts: Mapping[str, int] | None) -> _Drawing:
    rows = {row_id: row for row_id, _, row in definition.all_rows()}
    if counts is None:
        happy = {row_id for row_id, row in rows.items() if row.happy}
        return _Drawing(definition, lay_out(definition), taken=rows.keys(), heavy=happy)
    known_rows(definition, counts)
    taken = {row_id for row_id in rows if counts.get(row_id)}
    beside = {row_id: f"x{counts.get(row_id, 0)}" for row_id in rows}
    room = ceil(max(points(text, TEXT) for text in beside.values())) + PAD
    return _Drawing(definition, lay_out(definition, room), taken=taken, heavy=taken, beside=beside, room=room)


@attrs.frozen
class _Drawing:
    """The attributes of everything drawn."""

    definition: Definition
    layout: Layout
    taken: Set[str]  #: the rows in their colours; the others are pale
    heavy: Set[str]  #: the rows with a heavy curve
    beside: Mapping[str, str] = attrs.field(factory=dict)  #: what stands at the end of a row
    room: int = 0  #: the width of that

    def graph(self) -> dict[str, str]:
        return {
            "layout": "nop2",
            "id": "loop",
            "pad": "0.15",
            "bgcolor": colours.PAPER,
            "fontname": "Arial",
            "fontsize": f"{NAME}",
            "fontcolor": colours.INK,
            "label": coded(heading(self.definition)),
            "lp": _place((self.layout.width / 2, NAME)),
        }

    def cluster(self) -> dict[str, str]:
        box = self.layout.cluster
        return {
            "id": "finished",
            "label": "finished_* (how a run ends)",
            "bb": f"{_place((box.x, box.y + box.height))},{_place((box.x + box.width, box.y))}",
            "lp": _place((box.middle[0], box.y + NAME)),
            "style": "rounded",
            "color": colours.MOVE,
            "fontsize": f"{SMALL}",
            "fontcolor": colours.SMALL,
        }

    def working(self, state: State) -> dict[str, str]:
        """A state of the column."""
        box, lines = self.layout.column[state.name], lines_of(self.definition, state)
        label = working_label(state, lines, box, self.layout.headers[state.name], self.beside, self.room)
        return {"id": _node(state.name), "label": label, "pos": _place(box.middle)}

    def final(self, state: State) -> dict[str, str]:
        """A state of the cluster."""
        kind, box = str(state.final), self.layout.ends[state.name]
        reached = any(self.definition.row(row_id).to == state.name for row_id in self.taken)
        colour = colours.FINAL[kind] if reached else colours.MOVE
        return _SHAPES[kind] | {
            "id": _node(state.name),
            "label": final_label(state, kind, colour),
            "tooltip": in_tooltip(state.doc),
            "pos": _place(box.middle),
            "width": _inches(box.width - 2 * _RING),
            "height": _inches(box.height - 2 * _RING),
            "fixedsize": "true",
            "peripheries": "2",
            "color": colour,
            "fillcolor": colours.FILL[kind] if reached else colours.PAPER,
        }

    def curve(self, line: Line) -> dict[str, str]:
        """A row on its way."""
        *way, tip = self.layout.curves[line.row_id]
        return {
            "id": line.id,
            "tooltip": in_tooltip(line.sentence),
            "color": self._colour(line),
            "penwidth": _HEAVY if line.row_id in self.heavy else "1",
            "pos": f"e,{_place(tip)} {' '.join(map(_place, way))}",
        }

    def _colour(self, line: Line) -> str:
        if line.row_id not in self.taken:
            return colours.PALE
        kind = self.definition.states[line.row.to].final
        return colours.HAPPY if line.row.happy else colours.FINAL[kind] if kind else colours.MOVE


def _node(name: str) -> str:
    return f"s_{key(name)}"


def _place(point: Point) -> str:
    # Graphviz counts upwards.
    return f"{point[0]:g},{0 - point[1]:g}"


def _inches(length: float) -> str:
    return f"{length / 72:.4f}"
