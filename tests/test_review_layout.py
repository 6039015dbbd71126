"""The geometry of the diagram: every curve has its own way, every box its own place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopmachine.definition import Definition, Row, State
from loopmachine.review.layout import Box, Layout, Point, lay_out
from loopmachine.review.lines import all_lines
from loopmachine.review.tracks import Move, crossings, tracks
from loopmachine.table import TOOL_LOOP
from tests.test_review_lines import SMALL, nothing

Stretch = tuple[bool, float, float, float]  #: level or not, where, from, to


def straights(curve: Sequence[Point]) -> Iterator[Stretch]:
    """The straight pieces of a curve, without its arrow."""
    pieces = [curve[place : place + 4] for place in range(0, len(curve) - 2, 3)]
    for start, near, far, end in pieces:
        if (start, far) == (near, end):
            level = start[1] == end[1]
            along, across = (0, 1) if level else (1, 0)
            yield level, start[across], min(start[along], end[along]), max(start[along], end[along])


def hidden(layout: Layout) -> list[tuple[str, str, Stretch, Stretch]]:
    """Where two curves run on each other, or so near that they look like one."""
    found = []
    ways = {row_id: list(straights(curve)) for row_id, curve in layout.curves.items()}
    for one, other in combinations(ways, 2):
        for mine in ways[one]:
            for its in ways[other]:
                beside = mine[0] == its[0] and abs(mine[1] - its[1]) < 2.5
                if beside and min(mine[3], its[3]) - max(mine[2], its[2]) > 0:
                    found.append((one, other, mine, its))
    return found


def crossed(layout: Layout) -> set[tuple[str, str]]:
    """The curves that cross: the level stretch of one and the upright one of another."""
    ways = [(row_id, stretch) for row_id, curve in layout.curves.items() for stretch in straights(curve)]
    return {
        (one, other)
        for one, (level, y, left, right) in ways
        for other, (its_level, x, top, bottom) in ways
        if level and not its_level and left < x < right and top < y < bottom
    }


def overlapping(boxes: Sequence[Box]) -> list[tuple[Box, Box]]:
    """The boxes of a column, from top to bottom, of which one begins before the one above it ends."""
    return [(above, below) for above, below in pairwise(boxes) if above.y + above.height + 6 > below.y]


EVENTS = [type(f"On{number}", (), {}) for number in range(12)]


@st.composite
def definitions(draw: Any) -> Definition:
    """Definitions of up to six working and five final states, and any moves between them."""
    working = [f"w{number}" for number in range(draw(st.integers(1, 6)))]
    finals = [f"finished_{number}" for number in range(draw(st.integers(1, 5)))]
    table: dict[State, list[Row]] = {}
    for name, onwards in pairwise([*working, finals[0]]):
        targets = [onwards, *draw(st.lists(st.sampled_from([*working, *finals]), max_size=6))]
        targets += finals if name == "w0" else []
        rows = [Row(event, to, happy=to == onwards) for event, to in zip(EVENTS, targets, strict=False)]
        table[State(name, "Waits. " * draw(st.integers(1, 30)), nothing)] = rows
    return Definition("w0", table | {State(name, "Ends.", final="limit"): [] for name in finals})


@given(definitions())
@settings(max_examples=40, deadline=None)
def test_no_curve_of_any_definition_runs_on_another(definition: Definition) -> None:
    """Whatever leads where, no two curves share a straight stretch and no two boxes touch."""
    layout = lay_out(definition)
    assert hidden(layout) == []
    assert overlapping(list(layout.column.values())) == []
    assert overlapping(list(layout.ends.values())) == []


@pytest.mark.parametrize("room", [0, 40])
def test_no_curve_of_the_tool_loop_runs_on_another(room: int) -> None:
    """In the diagram of the tool loop, with counts or without, every curve can be followed with a finger."""
    assert hidden(lay_out(TOOL_LOOP, room)) == []


def test_curves_to_the_same_state_do_not_cross() -> None:
    """Though some curves of the tool loop cross, those that lead to one state do not cross each other."""
    pairs = crossed(lay_out(TOOL_LOOP))
    assert pairs
    assert [(one, other) for one, other in pairs if TOOL_LOOP.row(one).to == TOOL_LOOP.row(other).to] == []


def test_two_curves_on_each_other_are_found() -> None:
    """The check finds two curves that were given one track."""
    layout = lay_out(TOOL_LOOP)
    layout.curves["copy"] = layout.curves["validating/8"]  # type: ignore[index]  # a fault, planted
    assert {pair[:2] for pair in hidden(layout)} == {("validating/8", "copy")}


def test_moves_leave_to_the_left_and_ends_to_the_right() -> None:
    """The curve of a row begins at its state's side, and ends at the side of the state that it leads to."""
    layout = lay_out(TOOL_LOOP)
    for line in all_lines(TOOL_LOOP):
        if line.stays:
            assert line.row_id not in layout.curves
            continue
        curve, box = layout.curves[line.row_id], layout.column[line.state.name]
        if line.row.to in layout.column:
            to = layout.column[line.row.to]
            assert (curve[0][0], curve[-1][0]) == (box.x, to.x)
            assert max(x for x, _ in curve) <= box.x
            assert to.y < curve[-1][1] < to.y + layout.headers[line.row.to]
        else:
            end = layout.ends[line.row.to]
            assert (curve[0][0], curve[-1]) == (box.x + box.width, (end.x, end.middle[1]))
            assert min(x for x, _ in curve) >= box.x + box.width
        assert box.y + layout.headers[line.state.name] < curve[0][1] < box.y + box.height


def test_rows_are_left_in_their_order() -> None:
    """From top to bottom the curves leave in the order of the states and, in each, of its rows."""
    layout = lay_out(TOOL_LOOP)
    heights = [layout.curves[line.row_id][0][1] for line in all_lines(TOOL_LOOP) if not line.stays]
    assert heights == sorted(heights)


def test_the_picture_is_as_wide_as_a_page() -> None:
    """At 96 dots an inch the diagram of the tool loop is at most 1000 pixels wide, margins and all."""
    assert (lay_out(TOOL_LOOP).width + 2 * 0.15 * 72) * 96 / 72 <= 1000


def test_the_ends_stand_inside_their_frame_and_the_legend_above_it() -> None:
    """Every final state lies in the frame, and the legend does not reach it."""
    layout = lay_out(SMALL)
    frame = layout.cluster
    for box in layout.ends.values():
        assert frame.x < box.x
        assert box.x + box.width < frame.x + frame.width
        assert frame.y < box.y
        assert box.y + box.height < frame.y + frame.height
    assert layout.legend.y + layout.legend.height <= frame.y


def test_a_final_state_that_waits_for_a_row_has_a_place_below_the_others() -> None:
    """A final state that no row leads to yet comes last, and nothing leads there in the picture either."""
    layout = lay_out(SMALL.with_state(State("finished_later", "It may be.", final="limit")))
    assert list(layout.ends) == ["finished_done", "finished_later"]
    assert overlapping(list(layout.ends.values())) == []


# --- tracks -------------------------------------------------------------------------------------------


def move(row_id: str, leaves: float, arrives: float, *, back: bool) -> Move:
    """A move between two heights."""
    return Move(row_id, "to", leaves, arrives, back)


@pytest.mark.parametrize(
    ("near", "far", "back", "count"),
    [
        ((0, 10), (20, 30), True, 0),
        ((0, 30), (10, 20), True, 2),
        ((10, 20), (0, 30), True, 0),
        ((0, 20), (10, 30), True, 1),
        ((0, 20), (10, 30), False, 2),
        ((10, 30), (0, 20), False, 0),
    ],
)
def test_crossings_are_counted(near: tuple[float, float], far: tuple[float, float], back: bool, count: int) -> None:
    """Two curves cross where the level stretch of one passes the track of the other."""
    assert crossings(move("near", *near, back=back), move("far", *far, back=back)) == count


def test_curves_inside_one_another_take_the_nearer_tracks() -> None:
    """Nested curves that come back are nested on their tracks, and one that meets none is next to the column."""
    moves = [
        move(name, *span, back=True) for name, span in {"outer": (0, 50), "inner": (20, 30), "low": (60, 90)}.items()
    ]
    assert tracks(moves) == {"inner": 1, "outer": 2, "low": 1}


def test_curves_that_go_over_in_parallel_do_not_cross() -> None:
    """Of curves that go down beside each other the upper one turns last."""
    moves = [move(f"m{number}", number * 10, 100 + number * 10, back=False) for number in range(4)]
    assert tracks(moves) == {"m0": 4, "m1": 3, "m2": 2, "m3": 1}


@pytest.mark.parametrize(("lower", "together"), [(55, False), (56, True)])
def test_curves_on_one_track_keep_their_distance(lower: float, together: bool) -> None:
    """Two curves share a track only if there are six points between them."""
    moves = [move("upper", 0, 50, back=True), move("lower", lower, 90, back=True)]
    assert set(tracks(moves).values()) == ({1} if together else {1, 2})
    assert moves[0].meets(moves[1]) is moves[1].meets(moves[0]) is not together
