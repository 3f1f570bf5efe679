"""The disk panel: the figures of ``iostat -x``, a row a device, with its health in the row."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from iotop_ai.model.block import BlockRates
from iotop_ai.model.frame import Frame
from iotop_ai.model.settings import Marks
from iotop_ai.present import devices
from iotop_ai.present.columns import Column, Placed, chosen, head, placed
from iotop_ai.present.devices import Device
from iotop_ai.present.health import Health, health, temperature
from iotop_ai.present.line import Cell, Line, Span, cells, cut, place, row
from iotop_ai.present.panel import panel, quiet
from iotop_ai.present.units import UNDEFINED, UNKNOWN, count, figure, mib, percent, size
from iotop_ai.present.view import View

COLUMNS = (
    Column("r/s", "r/s", 4, 30, 5, gap=0),
    Column("rMB/s", "rMB/s", 7, 0),
    Column("rrqm/s", "rrqm/s", 7, 130),
    Column("%rrqm", "%rrqm", 6, 100, 7),
    Column("rareq", "rareq", 6, 60, 7),
    Column("r_await", "r_await", 8, 0),
    Column("w/s", "w/s", 5, 30),
    Column("wMB/s", "wMB/s", 6, 20, 7),
    Column("wrqm/s", "wrqm/s", 7, 130),
    Column("%wrqm", "%wrqm", 6, 100, 7),
    Column("wareq", "wareq", 6, 90, 7),
    Column("w_await", "w_await", 8, 40),
    Column("d/s", "d/s", 5, 110),
    Column("dMB/s", "dMB/s", 6, 125, 7),
    Column("%drqm", "%drqm", 6, 126, 7),
    Column("dareq", "dareq", 6, 127, 7),
    Column("d_await", "d_await", 8, 120),
    Column("f/s", "f/s", 5, 110),
    Column("f_await", "f_await", 8, 120),
    Column("in-fl", "in-fl", 6, 115),
    Column("aqu-sz", "aqu-sz", 7, 50),
    Column("%util", "%util", 6, 0, 7),
    Column("full%", "full%", 6, 80),
    Column("temp", "temp", 5, 70),
    Column("health", "health", 9, 0, left=True, gap=1),
)
"""iostat's columns in its order; the title is the id, but while accumulating "/s" is left out."""

_WIDE, _REASON = 140, 16
"""From this width on, room is kept for the reason behind a health word."""


def await_text(ms: float | None, done: float | None) -> str:
    """An await: "-" when nothing was done, which is not a fast disk; "?" when nothing is known.

    The kernel counts whole milliseconds: with none counted, few requests only say that each took less than one.
    """
    if ms is not None:
        if ms == 0 and done:
            return "<0.1" if done >= 10 else "<1"
        return figure(ms)
    return UNDEFINED if done == 0 else UNKNOWN


def _bytes(mean: float | None, done: float | None) -> str:
    if mean is not None:
        return size(mean)
    return UNDEFINED if done == 0 else UNKNOWN


def _times(value: float | None, seconds: float) -> float | None:
    return None if value is None else value * seconds


_VALUES: dict[str, Callable[[BlockRates, float], str]] = {
    "r/s": lambda r, s: count(_times(r.reads_per_s, s)),
    "rMB/s": lambda r, s: mib(_times(r.read_bytes_per_s, s)),
    "rrqm/s": lambda r, s: count(_times(r.read_merges_per_s, s)),
    "%rrqm": lambda r, s: percent(r.read_merged_ratio),
    "rareq": lambda r, s: _bytes(r.read_size_bytes, r.reads_per_s),
    "r_await": lambda r, s: await_text(r.read_await_ms, r.reads_per_s),
    "w/s": lambda r, s: count(_times(r.writes_per_s, s)),
    "wMB/s": lambda r, s: mib(_times(r.write_bytes_per_s, s)),
    "wrqm/s": lambda r, s: count(_times(r.write_merges_per_s, s)),
    "%wrqm": lambda r, s: percent(r.write_merged_ratio),
    "wareq": lambda r, s: _bytes(r.write_size_bytes, r.writes_per_s),
    "w_await": lambda r, s: await_text(r.write_await_ms, r.writes_per_s),
    "d/s": lambda r, s: count(_times(r.discards_per_s, s)),
    "dMB/s": lambda r, s: mib(_times(r.discard_bytes_per_s, s)),
    "%drqm": lambda r, s: percent(r.discard_merged_ratio),
    "dareq": lambda r, s: _bytes(r.discard_size_bytes, r.discards_per_s),
    "d_await": lambda r, s: await_text(r.discard_await_ms, r.discards_per_s),
    "f/s": lambda r, s: count(_times(r.flushes_per_s, s)),
    "f_await": lambda r, s: await_text(r.flush_await_ms, r.flushes_per_s),
    "in-fl": lambda r, s: count(r.in_flight),
    "aqu-sz": lambda r, s: figure(r.queue_size),
    "%util": lambda r, s: percent(r.busy_ratio),
}


@panel
def block_rows(frame: Frame, view: View, width: int, height: int) -> list[Line]:
    """Section rule with titles, a row a device (keys "disk:NAME"), and what is left out in one last row."""
    rows, rest = shown(frame, view, height - 1)
    out = device_rows(frame, view, width, "disk", rows)
    if frame.snapshot.block.value is None:
        return [*out[:1], quiet(width, frame.snapshot.block)]
    if rest:
        out.append(_rest(width, rest))
    elif not rows:
        out.append(row(width, [Span(" no device is active" if view.only_active else " no disk here", "dim")]))
    return out


def device_rows(frame: Frame, view: View, width: int, title: str, rows: list[tuple[Device, bool]]) -> list[Line]:
    """The section's rule with the titles, then a row for each (device, whether it folds under the row above)."""
    names = [devices.title_of(d, frame) for d, _ in rows]
    mounts = [_mount(d, frame) for d, _ in rows]
    at, name_room, mount_at = _arrange(width, names, mounts)
    totals = devices.rates_of(frame, view)[1] is not None
    heads = (
        [p._replace(column=p.column._replace(title=p.column.title.removesuffix("/s"))) for p in at] if totals else at
    )
    out = [head(width, title, heads, focus=view.focus == "disk")]
    for (device, nested), name, mount in zip(rows, names, mounts, strict=True):
        out.append(_row(frame, view, width, device, nested, at, cut(name, name_room), mount, mount_at))
    return out


def shown(frame: Frame, view: View, room: int) -> tuple[list[tuple[Device, bool]], list[Device]]:
    """([(device, whether it folds under the row above)], those for which there is no room).

    When not all fit, the guilty, the chosen, the one under the cursor and the busiest stay, in their usual order.
    """
    every = list(devices.listed(frame, view))
    picked = devices.chosen(frame, view)
    names = {d.name for d in every}
    home = "" if picked is None else devices.home_of(picked.name, frame)
    inner = [p for p in devices.nested(home, frame, view) if p.name not in names] if home in names else []
    if picked is not None and picked.name not in names and (len(every) + len(inner) > room or not inner):
        # What is chosen always has a row, also where there is no room for all that folds with it.
        every, inner = [picked, *every], []
    if len(every) > room:
        if view.focus == "disk" and view.scroll:
            part = every[view.scroll : view.scroll + max(1, room - 1)]
        else:
            part = _most_telling(every, picked, view, max(1, room - 1))
        kept = {d.name for d in part}
        rest = [d for d in every if d.name not in kept]
        return [(d, False) for d in part], rest if room > 1 else []
    out: list[tuple[Device, bool]] = []
    for device in every:
        out.append((device, False))
        if device.name == home and len(every) + len(inner) <= room:
            out += [(p, True) for p in inner]
    return out, []


def _most_telling(every: list[Device], picked: Device | None, view: View, room: int) -> list[Device]:
    def weight(device: Device) -> tuple[int, float]:
        if device.guilty or (picked is not None and device.name == picked.name):
            return 0, 0.0
        if device.row_key == view.cursor:
            return 1, 0.0
        return (2 if device.busy else 3), -device.queue_s

    kept = {d.name for d in sorted(every, key=weight)[:room]}
    return [d for d in every if d.name in kept]


def _mount(device: Device, frame: Frame) -> str:
    found = devices.mounts(device.name, frame)
    return found[0].path if found else ""


def _arrange(width: int, names: list[str], mounts: list[str]) -> tuple[list[Placed], int, int]:
    """(columns, columns for the name, where the mount starts): names and mounts grow before columns widen."""
    every = COLUMNS
    if width >= _WIDE:
        every = (*COLUMNS[:-1], COLUMNS[-1]._replace(width=COLUMNS[-1].width + _REASON))
    columns = chosen(every, width - 14)
    spare = width - 14 - sum(c.width for c in columns)
    longest = max((cells(n) for n in names), default=0)
    more_name = max(0, min(spare, longest - 6, 12))
    more_mount = max(0, min(spare - more_name, max((cells(m) for m in mounts), default=0) - 6, 12))
    return placed(columns, 14 + more_name + more_mount, width), 6 + more_name, 8 + more_name


def _row(
    frame: Frame,
    view: View,
    width: int,
    device: Device,
    nested: bool,
    at: list[Placed],
    name: str,
    mount: str,
    mount_at: int,
) -> Line:
    picked = devices.chosen(frame, view)
    shown_ = {spot.column.id for spot in at}
    # A partition or volume has its disk's health, one row above; the disk of an array its own.
    own = not nested or (device.info is not None and device.info.kind == "disk")
    return _drawn(
        width,
        device._replace(info=None, queue_s=0.0, busy=False),
        picked is not None and picked.name == device.name,
        " " + name if nested else name,
        tuple(at),
        mount,
        mount_at,
        "sel" if view.focus == "disk" and view.cursor == device.row_key else "",
        view.marks,
        _fullness(frame, device.name) if "full%" in shown_ else "",
        _degrees(frame, device.name) if "temp" in shown_ else "",
        health(frame, device.name) if own else None,
    )


@lru_cache(maxsize=64)
def _drawn(
    width: int,
    device: Device,
    is_chosen: bool,
    name: str,
    at: tuple[Placed, ...],
    mount: str,
    mount_at: int,
    background: str,
    marks: Marks,
    fullness: str,
    degrees: str,
    said: Health | None,
) -> Line:
    """One row; a device that rests has that of the second before."""
    loud = "bad" if device.guilty else "text"
    # Without colour too: the device whose graphs are shown, and the one that the verdict names when it is another.
    mark = ">" if is_chosen else "!" if device.guilty else " "
    out = [Cell(0, mark, "bad" if device.guilty else "key")]
    out.append(Cell(1, name, loud))
    worst = _worst_await(device.rates)
    marked = not device.guilty and bool(marks.await_ms or marks.util)
    seconds = 1.0 if device.seconds is None else device.seconds
    for spot in at:
        id_ = spot.column.id
        if id_ == "health":
            out += [] if said is None else _health_cells(said, spot)
            continue
        text = {"full%": fullness, "temp": degrees}.get(id_) or _VALUES[id_](device.rates, seconds)
        token = ""
        if device.guilty and id_ == worst:
            token = "bad"
        elif (device.guilty and id_ in ("aqu-sz", "%util") and text not in ("0", UNDEFINED, UNKNOWN)) or (
            marked and _stands_out(device.rates, marks, id_)
        ):
            token = "strong"
        out.append(spot.cell(text, token))
    # The mount has all columns up to the first figure, which is rarely as wide as its column.
    first = min((c.column - cells(c.text) + 1 if c.right else c.column for c in out[2:]), default=width)
    out.append(Cell(mount_at, cut(mount, max(0, first - mount_at - 1)), "dim"))
    return place(width, *out, background=background, key=device.row_key)


def _stands_out(rates: BlockRates, marks: Marks, id_: str) -> bool:
    """Whether a figure is at or above the viewer's mark for its column."""
    awaits = {"r_await": rates.read_await_ms, "w_await": rates.write_await_ms}
    if id_ in awaits:
        value, mark = awaits[id_], marks.await_ms
    else:
        value, mark = rates.busy_ratio if id_ == "%util" else None, marks.util / 100
    return value is not None and 0 < mark <= value


def _degrees(frame: Frame, name: str) -> str:
    degrees = temperature(frame, name)
    return UNDEFINED if degrees is None else f"{degrees:.0f}"


def _worst_await(rates: BlockRates) -> str:
    """The one cell that is red in a guilty row."""
    read, write = rates.read_await_ms, rates.write_await_ms
    if read is None and write is None:
        return ""
    return "w_await" if read is None or (write is not None and write > 2 * read) else "r_await"


def _fullness(frame: Frame, name: str) -> str:
    """Use% of the fullest filesystem on the device; "-" without one."""
    usage = frame.snapshot.filesystems.value or {}
    found = [usage[m.path] for m in devices.mounts(name, frame) if m.path in usage]
    known = [r.value.used_ratio for r in found if r.value is not None and r.value.used_ratio is not None]
    if known:
        return percent(max(known))
    return UNKNOWN if found else UNDEFINED


def _health_cells(said: Health, spot: Placed) -> list[Cell]:
    out = [Cell(spot.first, cut(said.word, spot.last + 1 - spot.first), said.token)]
    x = spot.first + cells(said.word) + 1
    room = spot.last - x
    if said.reason and said.word in ("ok", "FAILING", "warm", "warn", "worn", "degraded") and room >= 8:
        token = said.token if said.token in ("bad", "warn") else "dim"
        out.append(Cell(x, cut(said.reason, room), token))
    return out


def _rest(width: int, rest: list[Device]) -> Line:
    idle = all(not d.busy for d in rest)
    names = " ".join(devices.short_name(d) for d in rest[:40])
    return row(width, [Span(f" {len(rest)} more{', all idle' if idle else ''}: {names}", "dim")])
