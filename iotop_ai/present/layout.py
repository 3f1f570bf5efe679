"""Which panels stand where, from 60x15 up; and the whole screen as lines."""

from __future__ import annotations

from functools import lru_cache

from iotop_ai.model.frame import Frame
from iotop_ai.model.record import NamedTuple
from iotop_ai.present import devices
from iotop_ai.present.banner import banner_rows
from iotop_ai.present.block import block_rows
from iotop_ai.present.gpu import gpu_rows
from iotop_ai.present.gpu_groups import alike, gpus
from iotop_ai.present.graphs import graph_rows
from iotop_ai.present.keys import keys_rows
from iotop_ai.present.line import Line, blank
from iotop_ai.present.panel import Rows
from iotop_ai.present.path import path_rows
from iotop_ai.present.process import process_rows
from iotop_ai.present.system import link_count, system_rows
from iotop_ai.present.view import View


def timeline_rows(frame: Frame, view: View, width: int, height: int) -> list[Line]:
    """The time line, which a live start does not show."""
    from iotop_ai.present import timeline

    return timeline.timeline_rows(frame, view, width, height)


PANELS: tuple[tuple[str, Rows], ...] = (
    ("banner", banner_rows),
    ("timeline", timeline_rows),
    ("path", path_rows),
    ("graphs", graph_rows),
    ("gpu", gpu_rows),
    ("disk", block_rows),
    ("process", process_rows),
    ("system", system_rows),
    ("keys", keys_rows),
)
"""Top to bottom."""

TALL, WIDE = 40, 120
_LEAST_DISKS, _MOST_LINKS = 3, 6


class Slot(NamedTuple):
    """A panel's place: its first row and how many it has."""

    panel: str
    y: int
    height: int


class _Wish(NamedTuple):
    """Heights, and which of them may shrink."""

    banner: int
    timeline: int
    path: int
    graphs: int
    gpu: int
    disk: int
    process: int
    system: int
    keys: int
    gaps: int

    def total(self, hidden: frozenset[str]) -> int:
        shown = [h for name, h in zip(self._fields[:-1], self, strict=False) if name not in hidden and h]
        return sum(shown) + self.gaps * _gap_count(self, hidden)


def _gap_count(wish: _Wish, hidden: frozenset[str]) -> int:
    """Blank rows stand before every section with a rule; system belongs to the process panel, keys to system."""
    names = ["path", "graphs", "gpu", "disk", "process"]
    if wish.system >= 4:
        names.append("system")
    return sum(1 for name in names if name not in hidden and getattr(wish, name))


def plan(width: int, height: int, frame: Frame, view: View) -> tuple[Slot, ...]:
    """The panels that fit, top to bottom, over the whole height.

    By height these go first: the network table, blank rows, the second row of graphs, a row for each of many alike
    GPUs, process rows, the CPU row, the fullness row, graphs. Banner, path and the guilty disk stay. The plan hangs
    on the machine and the window, not on what happens to be busy, so that nothing jumps.
    """
    disks = len(devices.listed(frame, view))
    every, folded = len(gpus(frame, view)), len(alike(frame, view))
    links, parts = min(link_count(frame), _MOST_LINKS), _parts(frame, view)
    return _planned(width, height, view.hidden, view.timeline is not None, disks, parts, every, folded, links)


@lru_cache(maxsize=32)
def _planned(
    width: int,
    height: int,
    hidden: frozenset[str],
    timeline: bool,
    disks: int,
    parts: int,
    every: int,
    folded: int,
    links: int,
) -> tuple[Slot, ...]:
    """``plan`` for so many disks, partitions of the chosen one, GPUs, rows of alike GPUs, and links."""
    tall = tall_enough(height)
    first_disks = min(max(disks, 1), _LEAST_DISKS)
    wish = _Wish(
        banner=6 if tall and width >= WIDE else 4,
        timeline=int(timeline),
        path=3,
        graphs=(7 if tall else 4) if width >= 60 else 0,
        gpu=1 + every if every else 1,
        disk=1 + first_disks,
        process=6,
        system=(3 + links if tall and links else 2),
        keys=1,
        gaps=1 if tall else 0,
    )
    small = [
        {"system": 2},
        {"gaps": 0},
        {"graphs": 4 if wish.graphs else 0},
        {"gpu": 1 + min(folded, 4) if every else 1},
        {"process": 5},
        {"process": 4},
        {"process": 3},
        {"process": 1},
        {"system": 1},
        {"system": 0},
        {"graphs": 0},
        {"gpu": 2 if every else 1},
        {"disk": 3},
        {"gpu": 0},
        {"disk": 2},
        {"process": 0},
    ]
    for change in small:
        if wish.total(hidden) <= height:
            break
        lower = {name: min(value, getattr(wish, name)) for name, value in change.items()}
        wish = wish._replace(**lower)
    return _slots(_spread(wish, height, hidden, disks + parts), height, hidden)


def tall_enough(height: int) -> bool:
    """Whether there is room for what is only good to have: blank rows, tall graphs."""
    return height >= TALL


def _parts(frame: Frame, view: View) -> int:
    picked = devices.chosen(frame, view)
    return 0 if picked is None else len(devices.nested(devices.home_of(picked.name, frame), frame, view))


def _spread(wish: _Wish, height: int, hidden: frozenset[str], disks: int) -> _Wish:
    """Rows that are left go to devices that have none, up to a third of the screen, then to processes."""
    spare = height - wish.total(hidden)
    if spare > 0 and wish.disk and "disk" not in hidden:
        # A process row each for the reader, the trainer and the footer come before the fourth disk.
        keep = max(0, 6 - wish.process)
        room = min(spare - keep, height // 3 - wish.disk)
        more = max(0, min(room, disks + 1 - wish.disk))
        wish = wish._replace(disk=wish.disk + more)
        spare -= more
    if spare > 0:
        taker = next((n for n in ("process", "disk", "system", "graphs") if n not in hidden), "")
        if taker:
            wish = wish._replace(**{taker: getattr(wish, taker) + spare})
    return wish


def _slots(wish: _Wish, height: int, hidden: frozenset[str]) -> tuple[Slot, ...]:
    out: list[Slot] = []
    y = 0
    for name, _ in PANELS:
        rows = getattr(wish, name)
        if name in hidden or not rows:
            continue
        if out and wish.gaps and name not in ("keys", "banner", "timeline") and (name != "system" or rows >= 4):
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
    """The whole screen: exactly ``height`` lines of ``width`` columns."""
    rows_of = dict(PANELS)
    out: list[Line] = []
    for slot in plan(width, height, frame, view):
        out += [blank(width)] * (slot.y - len(out))
        out += rows_of[slot.panel](frame, view, width, slot.height)
    out += [blank(width)] * (height - len(out))
    return out[:height]
