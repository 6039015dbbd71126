"""Where everything stands: boxes, rows and curves, in points, y downwards. Graphviz only draws it.

Working states are one column. Moves between them run on tracks to its left, moves to final states on tracks to its
right, so curves cross but none runs on another. All heights are multiples of GRID, rows half a step beside the
arrivals at final states, so that no two level stretches meet either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil, dist, inf
from statistics import mean, median

import attrs

from loopmachine.definition import Definition, State
from loopmachine.review.lines import Line, lines_of, working
from loopmachine.review.text import BOLD, first_paragraph, points, wrapped
from loopmachine.review.tracks import Move, tracks

GRID = 6  #: also from one track to the next
NAME, TEXT, SMALL = 12, 11, 9  #: font sizes
LINE = 2 * GRID  #: the height of one more line of small text
CHARACTERS = 64  #: of small text in a line
NUMBER, PAD = 24, 8  #: widths: of a row's number, and beside its text
TOP, GAP, MARGIN = 5.25 * GRID, 3 * GRID, 2 * GRID
MIDDLE = 1.25 * GRID  #: of the first text in a row; with TOP a multiple of GRID and a half
ARRIVAL = 4  #: from one arrival at a header to the next
MERGE = 5 * GRID  #: the width on which the curves to one final state come together
END, END_STEP, END_WIDTH = 6 * GRID, 8 * GRID, 20 * GRID  #: a final state's height, least slot, and least width
LEGEND = 17 * GRID  #: its height
RADIUS, ARROW = 6, 5  #: of a corner; the length of an arrow

Point = tuple[float, float]


@attrs.frozen
class Box:
    """A rectangle; x and y are its upper left corner."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> Point:
        """Its centre."""
        return self.x + self.width / 2, self.y + self.height / 2


@attrs.frozen
class Layout:
    """Where everything stands."""

    column: Mapping[str, Box]  #: the working states, from top to bottom
    headers: Mapping[str, int]  #: the heights of their headers
    ends: Mapping[str, Box]  #: the final states, from top to bottom
    cluster: Box  #: around the final states
    legend: Box
    width: float
    curves: Mapping[str, list[Point]]  #: by row: a start, three points for each cubic piece, then the arrow's tip


def update_lines(line: Line) -> list[str]:
    """What a row's update does, in lines."""
    return wrapped(first_paragraph(line.row.update), CHARACTERS) if line.row.update else []


def doc_lines(state: State) -> list[str]:
    """What a state is for, in lines."""
    return wrapped(state.doc, CHARACTERS)


def row_height(line: Line) -> int:
    """The height of a row."""
    return 3 * GRID + LINE * len(update_lines(line))


def lay_out(definition: Definition, beside: float = 0) -> Layout:
    """Place a definition; ``beside`` is the width left in each row for what stands beside its text."""
    states = {state: lines_of(definition, state) for state in working(definition)}
    lines = [line for rows in states.values() for line in rows if not line.stays]
    arrivals = Counter(line.row.to for line in lines)
    headers = {state.name: _header_height(state, arrivals[state.name]) for state in states}
    tops, leaves = _heights(states, headers)
    middles = _end_middles(definition, lines, leaves)
    moves = _moves(lines, leaves, {name: top + headers[name] / 2 for name, top in tops.items()}, back=True)
    exits = _moves(lines, leaves, middles, back=False)
    left, right = tracks(moves), tracks(exits)
    x = MARGIN + GRID * (1 + max(left.values(), default=0))
    width = NUMBER + beside + max(_text_width(state, rows) for state, rows in states.items())
    merge = x + width + GRID * (2 + max(right.values()))
    end_width = max(_end_width(definition.states[name]) for name in middles)
    curves = {move.row_id: _way_back(move, x, x - GRID * (1 + left[move.row_id])) for move in moves}
    for move in exits:
        track = x + width + GRID * (1 + right[move.row_id])
        curves[move.row_id] = _way_over(move, x + width, track, merge, middles[move.to])
    ends = {name: Box(merge + MERGE, middle - END / 2, end_width, END) for name, middle in middles.items()}
    cluster = _around(ends)
    return Layout(
        column={
            state.name: Box(x, tops[state.name], width, _height(headers, state, rows)) for state, rows in states.items()
        },
        headers=headers,
        ends=ends,
        cluster=cluster,
        legend=Box(cluster.x, TOP, cluster.width, LEGEND),
        width=cluster.x + cluster.width,
        curves=curves,
    )


def _header_height(state: State, arrivals: int) -> int:
    places = ceil((arrivals + 1) * ARRIVAL / GRID)
    return max(3 * GRID + LINE * len(doc_lines(state)), GRID * places)


def _height(headers: Mapping[str, int], state: State, lines: Sequence[Line]) -> int:
    return headers[state.name] + sum(map(row_height, lines))


def _text_width(state: State, lines: Sequence[Line]) -> int:
    header = [BOLD * points(state.name, NAME), *(points(text, SMALL) for text in doc_lines(state))]
    rows = [BOLD * points(line.text, TEXT) for line in lines]
    updates = [points(f"/ {text}", SMALL) for line in lines for text in update_lines(line)]
    return ceil(max(max(header) - NUMBER, *rows, *updates)) + PAD


def _end_width(state: State) -> int:
    return max(END_WIDTH, ceil(points(state.status, TEXT)) + 6 * PAD)


def _heights(
    states: Mapping[State, Sequence[Line]], headers: Mapping[str, int]
) -> tuple[dict[str, float], dict[str, float]]:
    """Where each state begins, and where the curve of each row leaves."""
    tops, leaves = {}, {}
    y = float(TOP)
    for state, lines in states.items():
        tops[state.name] = y
        y += headers[state.name]
        for line in lines:
            leaves[line.row_id] = y + MIDDLE
            y += row_height(line)
        y += GAP
    return tops, leaves


def _end_middles(definition: Definition, lines: Sequence[Line], leaves: Mapping[str, float]) -> dict[str, float]:
    """The heights of the final states: in the order of the rows that lead there, around the middle of them all."""
    sources = {
        name: [leaves[line.row_id] for line in lines if line.row.to == name]
        for name, state in definition.states.items()
        if state.final is not None
    }
    order = sorted(sources, key=lambda name: median(sources[name] or [inf]))
    slots = {name: max(END_STEP, 2 * GRID * ceil(len(sources[name]) / 2 + 1)) for name in order}
    centre = mean([height for heights in sources.values() for height in heights])
    y = GRID * round(max(centre - sum(slots.values()) / 2, TOP + LEGEND + END_STEP) / GRID)
    middles = {}
    for name in order:
        # An even number of arrivals stands half a step beside an odd one, so none stands where a row leaves.
        middles[name] = y + slots[name] / 2 + (GRID / 2 if len(sources[name]) % 2 == 0 else 0)
        y += slots[name]
    return middles


def _moves(
    lines: Sequence[Line], leaves: Mapping[str, float], middles: Mapping[str, float], *, back: bool
) -> list[Move]:
    """The moves to these states. Those to one state arrive side by side, in an order in which none need cross."""
    moves = []
    for name, middle in middles.items():
        heights = {line.row_id: leaves[line.row_id] for line in lines if line.row.to == name}
        order = sorted(heights, key=heights.__getitem__, reverse=back)
        if back:
            order.sort(key=lambda row_id: heights[row_id] > middle)
        step = ARRIVAL if back else GRID
        first = middle - step * (len(order) - 1) / 2
        moves += [Move(row_id, name, heights[row_id], first + step * place, back) for place, row_id in enumerate(order)]
    return moves


# --- the ways of the curves ---------------------------------------------------------------------------


def _way_back(move: Move, side: float, track: float) -> list[Point]:
    corners = [(side, move.leaves), (track, move.leaves), (track, move.arrives), (side - ARROW, move.arrives)]
    return [*_rounded(corners), (side, move.arrives)]


def _way_over(move: Move, side: float, track: float, merge: float, middle: float) -> list[Point]:
    base, tip = merge + MERGE - ARROW, merge + MERGE
    half = (merge + base) / 2
    way = _rounded([(side, move.leaves), (track, move.leaves), (track, move.arrives), (merge, move.arrives)])
    return [*way, (half, move.arrives), (half, middle), (base, middle), (tip, middle)]


def _rounded(corners: Sequence[Point]) -> list[Point]:
    """The way over these corners, as a start and three points for each cubic piece."""
    way = [corners[0]]
    for before, corner, after in zip(corners, corners[1:], corners[2:], strict=False):
        radius = min(RADIUS, dist(before, corner) / 2, dist(corner, after) / 2)
        near, far = _towards(corner, before, radius), _towards(corner, after, radius)
        way += [way[-1], near, near, _towards(near, corner, radius / 2), _towards(far, corner, radius / 2), far]
    return [*way, way[-1], corners[-1], corners[-1]]


def _towards(start: Point, end: Point, distance: float) -> Point:
    share = distance / dist(start, end)
    return start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share


def _around(ends: Mapping[str, Box]) -> Box:
    boxes = list(ends.values())
    x, y = boxes[0].x - 3 * GRID, boxes[0].y - 5 * GRID
    return Box(x, y, boxes[0].width + 6 * GRID, boxes[-1].y + END + 3 * GRID - y)
