"""The timeline of a recording or of the last hour, in one row: states of the verdict, marks, alerts, faults, ends of
processes, gaps, and the position shown.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.frame import Frame
from iotop_ai.model.verdict_class import State
from iotop_ai.present.screen.view import Timeline, View
from iotop_ai.present.text.line import Line, Span, cells, row
from iotop_ai.present.text.panel import panel
from iotop_ai.present.text.states import GLYPHS, HUE
from iotop_ai.present.text.units import clock, duration

_RANK = (
    *("", "CALM", "OK", "BUSY", "STARTING", "UNSURE"),
    *("WASTED", "FAILING", "SLOWED", "BLOCKED", "STARVED"),
)
"""If a cell covers several states, the last of them in this order is drawn, so that a short stall does not vanish in a
long day.
"""
_STATE_CELLS = {"": ("·", "faint"), **{state.value: (GLYPHS[state], HUE[state]) for state in State}}
"""(the character of a cell, its token) by the state of the verdict; "" for none."""
_BAD_STATES = ("WASTED", "FAILING", "SLOWED", "BLOCKED", "STARVED")
"""The bad states, whose words are written into the line."""
_GAP, _MARK, _END, _ALERT = " ", "'", "×", "!"
_SEVERITIES = ("strong", "warn", "bad")
"""The tokens of events, the most severe last."""
_DAY_NS = 86_400_000_000_000
_LEAST_ROOM = 10
"""The minimum number of cells between the two times; a narrower screen shows only the line."""


class _Cell(NamedTuple):
    text: str
    token: str


@panel
def timeline_rows(frame: Frame, view: View, width: int, height: int) -> list[Line]:
    """The timeline: `` 14:02:10 ───━━STARVED 4 min━━───'── 15:10:00 ``.

    The position shown is inverse, a gap is blank, and only the part that was read is drawn as a line. A bad state's
    word is shown where it fits. ``×`` is a fault, the end of a trainer or the crash of a worker, ``'`` a mark, ``!`` an
    alert. When the user looks back, the row ends with "now".
    """
    timeline = view.timeline
    if timeline is None:
        return []
    pattern = "%a %H:%M" if timeline.end_ns - timeline.begin_ns >= _DAY_NS else "%H:%M:%S"
    begin, end = (clock(ns, view.utc_offset_s, pattern) for ns in (timeline.begin_ns, timeline.end_ns))
    if view.mode == "back":
        end = "now"
    room = width - cells(begin) - cells(end) - 4
    if room < _LEAST_ROOM:
        return [row(width, [Span(" "), *_spans(frame, timeline, max(1, width - 2))])]
    label = "title-focus" if view.focus == "timeline" else "dim"
    return [row(width, [Span(f" {begin} ", label), *_spans(frame, timeline, room), Span(f" {end} ", label)])]


def _spans(frame: Frame, timeline: Timeline, room: int) -> list[Span]:
    span_ns = max(1, timeline.end_ns - timeline.begin_ns)

    def column(wall_ns: int) -> int:
        return min(room - 1, max(0, (wall_ns - timeline.begin_ns) * room // span_ns))

    ranks = _ranks(timeline, room, column)
    row_cells = [_Cell(*_STATE_CELLS[_RANK[rank]]) for rank in ranks]
    for begin, stop in timeline.gaps:
        for x in range(column(begin) + 1, column(stop)):
            row_cells[x], ranks[x] = _Cell(_GAP, "dim"), -1
    position = column(frame.snapshot.wall_ns)
    events = [(wall_ns, _Cell(_MARK, "strong")) for wall_ns, _ in timeline.marks]
    events += [(wall_ns, _Cell(_ALERT, "bad" if critical else "warn")) for wall_ns, _, critical in timeline.alerts]
    events += [(wall_ns, _Cell(_END, "bad" if bad else "strong")) for wall_ns, _, bad in timeline.ends]
    # If a cell has several events, the most severe one is drawn.
    events.sort(key=lambda event: _SEVERITIES.index(event[1].token))
    signs = {column(wall_ns): sign for wall_ns, sign in events}
    for x in (position, *signs):
        ranks[x] = -1
    _put_words(row_cells, ranks, span_ns / room / 1e9)
    for x, sign in signs.items():
        row_cells[x] = sign
    row_cells[position] = _Cell(row_cells[position].text, "cursor")
    out: list[Span] = []
    for cell in row_cells:
        if out and out[-1].token == cell.token:
            out[-1] = Span(out[-1].text + cell.text, cell.token)
        else:
            out.append(Span(cell.text, cell.token))
    return out


def _ranks(timeline: Timeline, room: int, column: Callable[[int], int]) -> list[int]:
    """The state of each cell, as its index in _RANK."""
    ranks = [0] * room
    for (begin, state), (stop, _) in pairwise([*timeline.changes, (timeline.known_ns, "")]):
        if begin >= timeline.known_ns:
            break
        rank = _RANK.index(state) if state in _RANK else 0
        for x in range(column(begin), column(max(begin, min(stop, timeline.known_ns) - 1)) + 1):
            ranks[x] = max(ranks[x], rank)
    return ranks


def _put_words(row_cells: list[_Cell], ranks: list[int], cell_s: float) -> None:
    """Write the word of a bad state into each run of equal ranks, with the duration if there is room.

    An event, a gap or the position shown (rank -1) splits a run; the parts of a split run get no duration. After a
    split by a single cell, the word is not repeated.
    """
    x, named, named_end = 0, "", 0
    while x < len(ranks):
        end = next((i for i in range(x, len(ranks)) if ranks[i] != ranks[x]), len(ranks))
        state = _RANK[ranks[x]] if ranks[x] >= 0 else ""
        if state and state == named and x == named_end + 1:
            named_end = end
        elif state in _BAD_STATES:
            whole = -1 not in (ranks[x - 1] if x else 0, ranks[end] if end < len(ranks) else 0)
            words = [f"{state} {duration((end - x) * cell_s)}"] if whole else []
            for word in (*words, state):
                if len(word) + 2 <= end - x:
                    at = x + (end - x - len(word)) // 2
                    row_cells[at : at + len(word)] = [_Cell(char, _STATE_CELLS[state][1]) for char in word]
                    named, named_end = state, end
                    break
        x = end
