"""The colours of a diagram, in light and in dark."""

from __future__ import annotations

PAPER = "#ffffff"
INK = "#1b2430"
SMALL = "#545e6b"
AUTO = "#eceff2"  #: the header of a state that moves on by itself
REST = "#e2eefa"  #: the header of a state that waits; a happy row
HAPPY = "#0a5796"
MOVE = "#6f7a88"
PALE = "#c9d0d8"
FINAL = {"answered": "#12683f", "limit": "#735200", "fault": "#97350c"}
FILL = {"answered": "#dff4e8", "limit": "#fdf1d3", "fault": "#fce5da"}

DARK = {
    PAPER: "#11161c",
    INK: "#e8edf3",
    SMALL: "#a9b4c0",
    AUTO: "#252d37",
    REST: "#16334f",
    HAPPY: "#7cc0ff",
    MOVE: "#8d99a7",
    PALE: "#3b4550",
    FINAL["answered"]: "#76dba6",
    FINAL["limit"]: "#eec35c",
    FINAL["fault"]: "#ff9d75",
    FILL["answered"]: "#12382a",
    FILL["limit"]: "#3a2f10",
    FILL["fault"]: "#452216",
}
