"""The colours of a diagram, in light and in dark."""

from __future__ import annotations

PAPER = "#ffffff"
INK = "#1b2430"
SMALL = "#4c5663"
AUTO = "#eceff2"  #: the header of a state that moves on by itself
REST = "#cfe3f8"  #: the header of a state that waits
TINT = "#eaf3fc"  #: a row of the happy path
HAPPY = "#084f8c"
MOVE = "#616c7a"
PALE = "#c9d0d8"
FINAL = {"answered": "#12683f", "limit": "#735200", "fault": "#97350c"}
FILL = {"answered": "#dff4e8", "limit": "#fdf1d3", "fault": "#fce5da"}

DARK = {
    PAPER: "#11161c",
    INK: "#e8edf3",
    SMALL: "#b3bdc8",
    AUTO: "#252d37",
    REST: "#173a5d",
    TINT: "#142c44",
    HAPPY: "#85c5ff",
    MOVE: "#8d99a7",
    PALE: "#3b4550",
    FINAL["answered"]: "#76dba6",
    FINAL["limit"]: "#eec35c",
    FINAL["fault"]: "#ff9d75",
    FILL["answered"]: "#12382a",
    FILL["limit"]: "#3a2f10",
    FILL["fault"]: "#452216",
}
