"""A definition as DOT: a state is a table, a row is one line of it, and its curve leaves there without a label."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from loopmachine.definition import Definition, State
from loopmachine.review import colours
from loopmachine.review.cells import final_label, legend_label, working_label
from loopmachine.review.layout import ARROW, NAME, SMALL, Box, Layout, Point, lay_out
from loopmachine.review.lines import Line, all_lines, heading, lines_of
from loopmachine.review.text import in_quotes, key

_SHAPES = {
    "answered": {"shape": "ellipse", "style": "filled"},
    "limit": {"shape": "box", "style": "rounded,filled"},
    "fault": {"shape": "octagon", "style": "filled"},
}
_RING = 4  #: the outer border of a final state stands this far outside the inner one
_HEAVY = "2.2"


def draw(definition: Definition, counts: Mapping[str, int] | None = None) -> str:
    """The definition as DOT text: ASCII, and the same every time.

    ``counts``: how often each row was taken, by row id ("state/number"). Those that were not are drawn pale.
    """
    from graphviz import Digraph  # type: ignore[import-untyped]  # it ships no types

    drawing = _Drawing(definition, lay_out(definition, counted=counts is not None), counts)
    graph = Digraph(
        "loop",
        graph_attr=drawing.graph(),
        node_attr={"fontname": "Arial", "shape": "plain"},
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


@attrs.frozen
class _Drawing:
    """The attributes of everything drawn."""

    definition: Definition
    layout: Layout
    counts: Mapping[str, int] | None

    def graph(self) -> dict[str, str]:
        return {
            "layout": "nop2",
            "id": "loop",
            "bgcolor": colours.PAPER,
            "fontname": "Arial",
            "fontsize": f"{NAME}",
            "fontcolor": colours.INK,
            "label": heading(self.definition),
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
        counts = None if self.counts is None else [self.counts.get(line.row_id, 0) for line in lines]
        label = working_label(state, lines, box, self.layout.headers[state.name], counts)
        return {"id": _node(state.name), "label": label, "pos": _place(box.middle)}

    def final(self, state: State) -> dict[str, str]:
        """A state of the cluster."""
        kind, box = str(state.final), self.layout.ends[state.name]
        colour = colours.FINAL[kind] if self._reached(state) else colours.MOVE
        return _SHAPES[kind] | {
            "id": _node(state.name),
            "label": final_label(state, kind, colour),
            "tooltip": in_quotes(state.doc),
            "pos": _place(box.middle),
            "width": _inches(box.width - 2 * _RING),
            "height": _inches(box.height - 2 * _RING),
            "fixedsize": "true",
            "peripheries": "2",
            "color": colour,
            "fillcolor": colours.FILL[kind] if self._reached(state) else colours.PAPER,
        }

    def curve(self, line: Line) -> dict[str, str]:
        """A row on its way."""
        *way, tip = self.layout.curves[line.row_id]
        heavy = line.row.happy if self.counts is None else self._taken(line)
        return {
            "id": line.id,
            "tooltip": in_quotes(line.sentence),
            "color": self._colour(line),
            "penwidth": _HEAVY if heavy else "1",
            "pos": f"e,{_place(tip)} {' '.join(map(_place, way))}",
        }

    def _colour(self, line: Line) -> str:
        if not self._taken(line):
            return colours.PALE
        kind = self.definition.states[line.row.to].final
        return colours.HAPPY if line.row.happy else colours.FINAL[kind] if kind else colours.MOVE

    def _taken(self, line: Line) -> bool:
        return self.counts is None or self.counts.get(line.row_id, 0) > 0

    def _reached(self, state: State) -> bool:
        return any(line.row.to == state.name and self._taken(line) for line in all_lines(self.definition))


def _node(name: str) -> str:
    return f"s_{key(name)}"


def _place(point: Point) -> str:
    # Graphviz counts upwards.
    return f"{point[0]:g},{0 - point[1]:g}"


def _inches(points: float) -> str:
    return f"{points / 72:.4f}"
