"""The layout of the panels on a screen of at least 60x15, and the whole screen as lines."""

from __future__ import annotations

from functools import lru_cache

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.frame import Frame
from iotop_ai.present.block import devices
from iotop_ai.present.block.table import block_rows
from iotop_ai.present.gpu.groups import gpu_groups, gpus
from iotop_ai.present.gpu.panel import gpu_rows
from iotop_ai.present.job.data_path import path_rows
from iotop_ai.present.job.time_bar import time_rows
from iotop_ai.present.job.time_words import time_is_counted
from iotop_ai.present.machine.panel import link_count, system_rows
from iotop_ai.present.process.groups import groups
from iotop_ai.present.process.table import process_rows
from iotop_ai.present.screen.graph_panel import graph_rows, low_panel_graph_count
from iotop_ai.present.screen.key_row import keys_rows
from iotop_ai.present.screen.keymap import first_key
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.frame_cache import FrameCache
from iotop_ai.present.text.glyphs import in_ascii
from iotop_ai.present.text.line import Line, Span, blank
from iotop_ai.present.text.panel import Rows
from iotop_ai.present.text.table import rule
from iotop_ai.present.verdict.banner import banner_rows


def timeline_rows(frame: Frame, view: View, width: int, height: int) -> list[Line]:
    """The timeline. Its module is imported on first use, because a live start does not show it."""
    from iotop_ai.present.screen import timeline

    return timeline.timeline_rows(frame, view, width, height)


def hideable(name: str, rows: Rows) -> Rows:
    """The rows function of a panel that the user can hide: a hidden panel shows its title, with the key that shows the
    panel.
    """

    def panel_or_title(frame: Frame, view: View, width: int, height: int) -> list[Line]:
        if name not in view.hidden:
            return rows(frame, view, width, height)
        if name in ("banner", "path"):
            return rows(frame, view, width, height)[:1]  # its first row says more than a title
        key = first_key(f"panel.{name}", view.keymap)
        note = f"hidden; {key} shows it" if key else "hidden"
        return in_ascii([rule(width, name, [Span(note, "dim")])][:height], view.ascii_only)

    return panel_or_title


def doctor_rows(frame: Frame, view: View, width: int, height: int) -> list[Line]:
    """The row about problems of this machine. Its module is imported on first use: most screens do not show the row."""
    from iotop_ai.present.preflight import doctor_line

    return doctor_line.doctor_rows(frame, view, width, height)


_PANELS: tuple[tuple[str, Rows], ...] = (
    ("banner", banner_rows),
    ("time", time_rows),
    ("timeline", timeline_rows),
    ("path", path_rows),
    ("graphs", graph_rows),
    ("gpu", gpu_rows),
    ("disk", block_rows),
    ("process", process_rows),
    ("system", system_rows),
    ("doctor", doctor_rows),
    ("keys", keys_rows),
)
PANELS: tuple[tuple[str, Rows], ...] = tuple((name, hideable(name, rows)) for name, rows in _PANELS)
"""The panels and their rows functions, from top to bottom."""

TALL, WIDE = 40, 120
"""From the height TALL on, a screen has blank rows and tall graphs; if it is also as wide as WIDE, a taller banner."""
_FIRST_DISKS, _MOST_LINKS = 3, 6
"""_FIRST_DISKS: at most this many disks have a row before spare rows are distributed. _MOST_LINKS: the maximum number
of network links with a row.
"""
_LISTED_STEP = 4
"""``listed_rows`` is a multiple of this."""
_TITLED_FROM = 20
"""The minimum height of a screen that shows the titles of hidden panels."""
_WITHOUT_GAP = ("doctor", "keys", "banner", "time", "timeline")
"""The panels that have no blank row above them."""


class Slot(NamedTuple):
    """A panel's place on the screen. y: its first row. height: the number of its rows."""

    panel: str
    y: int
    height: int


class _Heights(NamedTuple):
    """The number of rows of each panel. gaps: the number of blank rows above a section."""

    banner: int
    time: int
    timeline: int
    path: int
    graphs: int
    gpu: int
    disk: int
    process: int
    system: int
    doctor: int
    keys: int
    gaps: int

    def total(self, hidden: frozenset[str]) -> int:
        """The number of rows of all panels, with the blank rows between them. A hidden panel counts with its title."""
        return sum(self[:-1]) + self.gaps * _gap_count(self, hidden)


def _gap_count(heights: _Heights, hidden: frozenset[str]) -> int:
    """The number of sections with a blank row above them. These are the panels with a rule (a line with their title). A
    system panel of few rows has no rule and belongs to the section of the processes.
    """
    names = ["path", "graphs", "gpu", "disk", "process"]
    if heights.system >= 4:
        names.append("system")
    return sum(1 for name in names if name not in hidden and getattr(heights, name))


ZOOMABLE = ("graphs", "gpu", "disk", "process", "system")
"""The panels that show more in a taller window."""


def zoomed_panel(view: View) -> str:
    """The panel that fills the whole window; "" if none does."""
    return view.zoom if view.zoom in ZOOMABLE and view.zoom not in view.hidden else ""


def _zoom_slots(panel: str, height: int, view: View) -> tuple[Slot, ...]:
    """The layout while a panel fills the window: the verdict's row, the timeline of the past, the panel, the keys."""
    heads = ["banner", "timeline"] if view.timeline is not None else ["banner"]
    heads = heads[: max(0, height - 2)]
    room = height - 1 - len(heads)
    return (
        *(Slot(name, y, 1) for y, name in enumerate(heads)),
        Slot(panel, len(heads), room),
        Slot("keys", height - 1, 1),
    )


def plan(width: int, height: int, frame: Frame, view: View) -> tuple[Slot, ...]:
    """The panels that fit, from top to bottom, over the whole height. A zoomed panel is alone below the verdict and the
    timeline.

    On a short screen, rows are taken away in this order: the network table, blank rows, the second row of graphs, the
    separate rows of equal GPUs, process rows down to two, the filesystem row, doctor's row, the CPU row, graphs, GPUs
    down to one row, disks down to one row, the process panel down to one row, the time bar, the GPUs, the processes.
    Banner, timeline, path and the disk that the verdict names stay. The layout depends on the machine and the window,
    not on the load, so that panels do not jump.
    """
    if panel := zoomed_panel(view):
        return _zoom_slots(panel, height, view)
    disks = len(devices.panel_devices(frame, view))
    gpu_count, folded_gpus = len(gpus(frame, view)), len(gpu_groups(frame, view))
    links, parts = min(link_count(frame), _MOST_LINKS), _nested_count(frame, view)
    listed = listed_rows(frame, view) if tall_enough(height) else 0
    # The time bar belongs to the banner.
    has_time = time_is_counted(frame) and "banner" not in view.hidden
    has_timeline = view.timeline is not None
    graphs = low_panel_graph_count(frame, view)
    has_problems = bool(view.problems)
    return _plan_slots(
        width,
        height,
        view.hidden,
        has_time,
        has_timeline,
        has_problems,
        graphs,
        disks,
        parts,
        gpu_count,
        folded_gpus,
        links,
        listed,
    )


@lru_cache(maxsize=32)
def _plan_slots(
    width: int,
    height: int,
    hidden: frozenset[str],
    has_time: bool,
    has_timeline: bool,
    has_problems: bool,
    graphs: int,
    disks: int,
    parts: int,
    gpu_count: int,
    folded_gpus: int,
    links: int,
    listed: int,
) -> tuple[Slot, ...]:
    """``plan``, computed from numbers alone, so that it can be cached.

    graphs: the number of graphs in a panel of few rows. disks, parts: the numbers of disks, and of devices nested under
    the selected disk. gpu_count, folded_gpus: the numbers of GPUs, and of rows when equal GPUs share a row. links: the
    number of network links. listed: the rows of the process list with title and footer; 0 on a short screen.
    """
    tall = tall_enough(height)
    first_disks = min(max(disks, 1), _FIRST_DISKS)
    heights = _Heights(
        banner=6 if tall and width >= WIDE else 4,
        time=int(has_time),
        timeline=int(has_timeline),
        path=3,
        graphs=1 + graphs * (2 if tall else 1) if width >= 60 else 0,
        gpu=1 + gpu_count if gpu_count else 1,
        disk=1 + first_disks,
        process=6,
        system=(3 + links if tall and links else 2),
        doctor=int(has_problems),
        keys=1,
        gaps=1 if tall else 0,
    )
    titles = int(height >= _TITLED_FROM)
    heights = heights._replace(**{name: min(titles, getattr(heights, name)) for name in hidden})
    shrinking = [
        {"system": 2},
        {"gaps": 0},
        {"graphs": 1 + graphs if heights.graphs else 0},
        {"gpu": 1 + min(folded_gpus, 4) if gpu_count else 1},
        {"process": 5},
        {"process": 4},
        {"system": 1},
        {"doctor": 0},
        {"system": 0},
        {"graphs": 0},
        {"gpu": 2 if gpu_count else 1},
        {"disk": 3},
        {"disk": 2},
        {"process": 3},
        {"process": 1},
        {"time": 0},
        {"gpu": 0},
        {"process": 0},
    ]
    for change in shrinking:
        if heights.total(hidden) <= height:
            break
        lower = {name: min(value, getattr(heights, name)) for name, value in change.items()}
        heights = heights._replace(**lower)
    return _slots(_distribute_spare_rows(heights, height, hidden, disks + parts, listed), height, hidden)


def listed_rows(frame: Frame, view: View) -> int:
    """The rows that the process list needs, with its title and footer.

    The number changes in steps, and is lowered late, so that the panels do not move whenever a process starts or ends.
    """
    needed = len(groups(frame, view)) + 2
    if needed <= view.listed < needed + 2 * _LISTED_STEP:
        return view.listed
    return -(-needed // _LISTED_STEP) * _LISTED_STEP


def tall_enough(height: int) -> bool:
    """Whether the screen is tall enough for blank rows and tall graphs."""
    return height >= TALL


def _nested_count(frame: Frame, view: View) -> int:
    """The number of partitions, volumes or members nested under the selected disk; 0 if that disk has no row."""
    device = devices.selected_device(frame, view)
    top = "" if device is None else devices.top_row_of(device.name, frame)
    has_row = any(d.name == top for d in devices.panel_devices(frame, view))
    return len(devices.nested_devices(top, frame, view)) if has_row else 0


def _distribute_spare_rows(heights: _Heights, height: int, hidden: frozenset[str], disks: int, listed: int) -> _Heights:
    """Give spare rows to the disks that have no row yet, up to a third of the screen, then to the processes.

    On a tall screen, the rows that the process list does not need go to the graphs.
    """
    spare = height - heights.total(hidden)
    if spare > 0 and heights.disk and "disk" not in hidden:
        # The process list gets enough rows for its footer and a few processes before a fourth disk gets a row.
        keep = max(0, 6 - heights.process)
        room = min(spare - keep, height // 3 - heights.disk)
        more = max(0, min(room, disks + 1 - heights.disk))
        heights = heights._replace(disk=heights.disk + more)
        spare -= more
    if spare > 0 and listed and heights.graphs and "graphs" not in hidden:
        # All graphs together have at most two thirds of the screen.
        unneeded = spare if "process" in hidden else spare - max(0, listed - heights.process)
        more = max(0, min(unneeded, 2 * height // 3 - heights.graphs))
        heights = heights._replace(graphs=heights.graphs + more)
        spare -= more
    if spare > 0:
        taker = next((n for n in ("process", "disk", "system", "graphs") if n not in hidden), "")
        if taker:
            heights = heights._replace(**{taker: getattr(heights, taker) + spare})
            # A taller system panel has a rule, and so a blank row above it.
            over = heights.total(hidden) - height
            heights = heights._replace(**{taker: getattr(heights, taker) - over})
    return heights


def _slots(heights: _Heights, height: int, hidden: frozenset[str]) -> tuple[Slot, ...]:
    out: list[Slot] = []
    y = 0
    for name, _ in PANELS:
        rows = getattr(heights, name)
        if not rows:
            continue
        if out and heights.gaps and name not in (*_WITHOUT_GAP, *hidden) and (name != "system" or rows >= 4):
            y += 1
        rows = min(rows, height - y)
        if name == "keys":
            y = max(y, height - 1)
            rows = 1
        if rows <= 0 or y >= height:
            break
        out.append(Slot(name, y, rows))
        y += rows
    return tuple(out)


def screen_rows(width: int, height: int, frame: Frame, view: View) -> list[Line]:
    """The whole screen as exactly ``height`` lines of ``width`` columns."""
    rows_of = dict(PANELS)
    if view.cache is None:  # the panels of one screen share results
        view = view._replace(cache=FrameCache())
    out: list[Line] = []
    for slot in plan(width, height, frame, view):
        out += [blank(width)] * (slot.y - len(out))
        out += rows_of[slot.panel](frame, view, width, slot.height)
    out += [blank(width)] * (height - len(out))
    return out[:height]
