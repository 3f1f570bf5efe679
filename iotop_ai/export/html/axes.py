"""The scales and ticks of charts."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import NamedTuple

from iotop_ai.export.html.markup import Markup, empty_tag, tag
from iotop_ai.present.text.units import clock

WIDTH = 1072
LEFT, RIGHT = 46, 6
PLOT = WIDTH - LEFT - RIGHT
"""In pixels: the width of a chart, its margins, and the width between the margins."""
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
"""The possible times between two ticks, in seconds. For a longer axis the last one is doubled."""
_MOST_INTERVALS = 9
"""The most intervals between ticks."""
_EPOCH = datetime(1970, 1, 1)


class TimeAxis(NamedTuple):
    """The time axis that all charts of a page share, in wall time."""

    begin_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        """The length of the axis, at least one second."""
        return max(1.0, (self.end_ns - self.begin_ns) / 1e9)

    @property
    def zone_s(self) -> int:
        """The machine's offset from UTC in seconds, at the start of the axis."""
        return zone_at(self.begin_ns / 1e9)

    def x(self, wall_ns: int) -> float:
        """The x coordinate of a time; a time outside the axis is moved to its nearer end."""
        share = (wall_ns - self.begin_ns) / 1e9 / self.seconds
        return LEFT + PLOT * min(1.0, max(0.0, share))

    def ticks(self) -> list[tuple[float, str]]:
        """The x coordinates of the ticks with their clock times, at most _MOST_INTERVALS + 1 of them.

        A midnight has its date instead of a clock time if the axis begins and ends on different days.
        """
        step = next((s for s in _STEPS_S if self.seconds / s <= _MOST_INTERVALS), _STEPS_S[-1])
        while self.seconds / step > _MOST_INTERVALS:
            step *= 2
        zone = self.zone_s
        local_s = -(-(self.begin_ns / 1e9 + zone) // step) * step
        pattern = "%H:%M:%S" if step < 60 else "%H:%M" if step < 86400 else "%d %b"
        several_days = clock(self.begin_ns, pattern="%F") != clock(self.end_ns, pattern="%F")
        out: list[tuple[float, str]] = []
        while True:
            # Convert each tick on its own: a day on which summer time begins or ends has 23 or 25 hours.
            wall_ns = round(
                (local_s - zone if step < 3600 else (_EPOCH + timedelta(seconds=local_s)).timestamp()) * 1e9
            )
            if wall_ns > self.end_ns:
                return out
            if wall_ns >= self.begin_ns:
                is_date = several_days and clock(wall_ns) == "00:00:00"
                out.append((self.x(wall_ns), clock(wall_ns, pattern="%d %b" if is_date else pattern)))
            local_s += step


def zone_at(wall_s: float) -> int:
    """The machine's offset from UTC in seconds at a Unix time."""
    return time.localtime(wall_s).tm_gmtoff


def time_labels(axis: TimeAxis, y: float) -> list[Markup]:
    """The clock times below a chart."""
    out = []
    for x, label in axis.ticks():
        anchor = "start" if x < LEFT + 20 else "end" if x > WIDTH - RIGHT - 20 else "middle"
        out.append(tag("text", label, x=x, y=y, text_anchor=anchor))
    return out


def value_grid(top: float, height: float, unit: str) -> list[Markup]:
    """Grid lines at the bottom, middle and top of a chart, with their values."""
    out = []
    for share in (0.0, 0.5, 1.0):
        y = height * (1 - share)
        out.append(empty_tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"))
        label = three_digits(top * share) + (f" {unit}" if share == 1.0 and unit else "")
        out.append(tag("text", label, x=LEFT - 6, y=y + 4, text_anchor="end"))
    return out


def three_digits(value: float) -> str:
    """A value with three significant digits; from 1000 upwards, a whole number (7031 instead of "7.03e+03")."""
    return f"{value:.3g}" if value < 999.5 else f"{value:.0f}"
