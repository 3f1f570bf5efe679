"""The disk panel: a row for each device with the figures of ``iostat -x`` and the device's health."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from iotop_ai.model.block.counters import BlockRates
from iotop_ai.model.frame import Frame
from iotop_ai.model.settings import Marks
from iotop_ai.present.block import devices
from iotop_ai.present.block.devices import BlockDevice
from iotop_ai.present.block.history_totals import NO_TOTALS
from iotop_ai.present.health.summary import Health, health, temperature
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import Cell, Line, Span, cells, cut, place, row
from iotop_ai.present.text.panel import panel, reason_row, scroll_to
from iotop_ai.present.text.table import Column, ColumnSlot, fit_columns, head, note_room, place_columns
from iotop_ai.present.text.units import UNDEFINED, UNKNOWN, brief, count, figure, mib, percent, size

COLUMNS = (
    Column("r/s", "r/s", 4, 30, 5, gap=0),
    Column("rMB/s", "rMB/s", 6, 0, 7),
    Column("rrqm/s", "rrqm/s", 7, 130),
    Column("%rrqm", "%rrqm", 6, 100, 7),
    Column("rareq", "rsize", 6, 60, 7),
    Column("r_await", "r_await", 8, 0),
    Column("xnorm", "x norm", 7, 95),
    Column("w/s", "w/s", 5, 30),
    Column("wMB/s", "wMB/s", 6, 20, 7),
    Column("wrqm/s", "wrqm/s", 7, 130),
    Column("%wrqm", "%wrqm", 6, 100, 7),
    Column("wareq", "wsize", 6, 90, 7),
    Column("w_await", "w_await", 8, 40),
    Column("d/s", "d/s", 5, 110),
    Column("dMB/s", "dMB/s", 6, 125, 7),
    Column("%drqm", "%drqm", 6, 126, 7),
    Column("dareq", "dsize", 6, 127, 7),
    Column("d_await", "d_await", 8, 120),
    Column("f/s", "f/s", 5, 110),
    Column("f_await", "f_await", 8, 120),
    Column("in-fl", "in-fl", 6, 115),
    Column("aqu-sz", "aqu-sz", 7, 50),
    Column("%util", "%util", 6, 0, 7),
    Column("job%", "job%", 5, 85),
    Column("full%", "used%", 6, 80),
    Column("temp", "temp", 5, 70),
    Column("health", "health", 9, 0, left=True, gap=1),
)
"""The columns of iostat in its order, with "x norm" (r_await as a multiple of the normal r_await) and "in-fl" (requests
in flight); then the job's share, the usage, the temperature and the health.

In accumulation mode, a title loses its "/s".
"""

_WITHOUT_JOB = tuple(column for column in COLUMNS if column.id != "job%")
_WIDE, _REASON_WIDTH = 140, 16
"""_WIDE: the minimum width of a screen whose health column has room for the reason. _REASON_WIDTH: the width of that
reason.
"""
_WORDS_WITH_REASON = ("ok", "FAILING", "warm", "warn", "worn", "degraded")
"""The health words that are followed by the reason if it fits."""


def await_text(ms: float | None, per_s: float | None) -> str:
    """An await in ms: "-" without requests (which does not mean that the disk is fast), "?" when unknown.

    per_s: the number of requests per second. The kernel counts whole milliseconds, so 0 ms over few requests only means
    that each of them took less than 1 ms.
    """
    if ms is not None:
        if ms == 0 and per_s:
            return "<0.1" if per_s >= 10 else "<1"
        return figure(ms)
    return UNDEFINED if per_s == 0 else UNKNOWN


def mean_size_text(mean: float | None, per_s: float | None) -> str:
    """The mean size of a request: "-" without requests, "?" when unknown. per_s: the number of requests per second."""
    if mean is not None:
        return size(mean)
    return UNDEFINED if per_s == 0 else UNKNOWN


def _scaled(value: float | None, seconds: float) -> float | None:
    return None if value is None else value * seconds


_VALUES: dict[str, Callable[[BlockRates, float], str]] = {
    "r/s": lambda r, s: count(_scaled(r.reads_per_s, s)),
    "rMB/s": lambda r, s: mib(_scaled(r.read_bytes_per_s, s)),
    "rrqm/s": lambda r, s: count(_scaled(r.read_merges_per_s, s)),
    "%rrqm": lambda r, s: percent(r.read_merged_ratio),
    "rareq": lambda r, s: mean_size_text(r.read_size_bytes, r.reads_per_s),
    "r_await": lambda r, s: await_text(r.read_await_ms, r.reads_per_s),
    "w/s": lambda r, s: count(_scaled(r.writes_per_s, s)),
    "wMB/s": lambda r, s: mib(_scaled(r.write_bytes_per_s, s)),
    "wrqm/s": lambda r, s: count(_scaled(r.write_merges_per_s, s)),
    "%wrqm": lambda r, s: percent(r.write_merged_ratio),
    "wareq": lambda r, s: mean_size_text(r.write_size_bytes, r.writes_per_s),
    "w_await": lambda r, s: await_text(r.write_await_ms, r.writes_per_s),
    "d/s": lambda r, s: count(_scaled(r.discards_per_s, s)),
    "dMB/s": lambda r, s: mib(_scaled(r.discard_bytes_per_s, s)),
    "%drqm": lambda r, s: percent(r.discard_merged_ratio),
    "dareq": lambda r, s: mean_size_text(r.discard_size_bytes, r.discards_per_s),
    "d_await": lambda r, s: await_text(r.discard_await_ms, r.discards_per_s),
    "f/s": lambda r, s: count(_scaled(r.flushes_per_s, s)),
    "f_await": lambda r, s: await_text(r.flush_await_ms, r.flushes_per_s),
    "in-fl": lambda r, s: count(r.in_flight),
    "aqu-sz": lambda r, s: figure(r.queue_size),
    "%util": lambda r, s: percent(r.busy_ratio),
}
"""By column id: the function that makes the text from (rates, seconds). It multiplies figures per second by
``seconds``: the seconds since ``view.base`` in accumulation mode, otherwise 1.
"""


@panel
def block_rows(frame: Frame, view: View, width: int, height: int) -> list[Line]:
    """The rule with the titles, a row for each device (its key is "disk:NAME"), and, if not all fit, a last row that
    names the devices without a row.
    """
    rows, rest = visible_rows(frame, view, height - 1)
    out = device_rows(frame, view, width, _title(frame, view), rows)
    if frame.snapshot.block.value is None:
        return [*out[:1], reason_row(width, frame.snapshot.block, view)]
    if rest:
        out.append(_rest_row(width, rest))
    elif not rows:
        out.append(row(width, [Span(" no device is active" if view.only_active else " no disk here", "dim")]))
    return out


def _title(frame: Frame, view: View) -> str:
    """The panel's title with the user's choices. "pinned": the user's disk stays in the graphs even if another is
    busier.
    """
    if devices.chosen_name(frame, view) and not view.follow_job:
        return "disk pinned"
    return "disk active" if view.only_active else "disk"


def device_rows(
    frame: Frame, view: View, width: int, title: str, rows: list[tuple[BlockDevice, bool]], notes: tuple[str, ...] = ()
) -> list[Line]:
    """The rule with the titles, then a row for each (device, whether it is nested under the row above). notes: versions
    of the dim text after the title; the first that fits is shown.
    """
    names = [devices.title_of(d, frame) for d, _ in rows]
    mounts = [_mount_path(d, frame) for d, _ in rows]
    has_job = bool(frame.snapshot.jobs.value and frame.snapshot.jobs.value.jobs)
    slots, name_room, mount_at = _arrange(width, names, mounts, has_job=has_job)
    title_slots = slots
    if devices.rates_of(frame, view)[1] is not None:
        title_slots = [
            slot._replace(column=slot.column._replace(title=slot.column.title.removesuffix("/s"))) for slot in slots
        ]
    room = note_room(width, title, title_slots)
    note = next((note for note in notes if cells(note) <= room), "")
    out = [head(width, title, title_slots, focus=view.focus == "disk", note=note)]
    for (device, nested), name, mount in zip(rows, names, mounts, strict=True):
        out.append(_row(frame, view, width, device, nested, slots, cut(name, name_room), mount, mount_at))
    return out


def ordered_rows(frame: Frame, view: View, room: int) -> list[tuple[BlockDevice, bool]]:
    """(device, whether it is nested under the row above) for each device, from top to bottom.

    room: the number of rows of the panel. Only the stack of the selected device has nested rows, and only if all rows
    fit.
    """
    listed = list(devices.panel_devices(frame, view))
    selected = devices.selected_device(frame, view)
    names = {d.name for d in listed}
    top = "" if selected is None else devices.top_row_of(selected.name, frame)
    nested = [p for p in devices.nested_devices(top, frame, view) if p.name not in names] if top in names else []
    fit = len(listed) + len(nested) <= room
    if selected is not None and view.device == selected.name not in names and (not fit or not nested):
        # The user's device always has a row, even if the devices nested beside it do not fit.
        return [(d, False) for d in (selected, *listed)]
    out: list[tuple[BlockDevice, bool]] = []
    for device in listed:
        out.append((device, False))
        if device.name == top and fit:
            out += [(p, True) for p in nested]
    return out


def visible_rows(frame: Frame, view: View, room: int) -> tuple[list[tuple[BlockDevice, bool]], list[BlockDevice]]:
    """([(device, whether it is nested under the row above)], the devices without a row, which the last row names).

    If not all fit, the rows around the cursor are shown; without a cursor, the culprit, the selected device, the other
    devices that a finding names and the busiest are shown, in the usual order.
    """
    rows = ordered_rows(frame, view, room)
    if len(rows) <= room:
        return rows, []
    listed, visible = [d for d, _ in rows], max(1, room - 1)
    cursor_index = next((i for i, d in enumerate(listed) if d.row_key == view.cursor), None)
    if view.focus == "disk" and cursor_index is not None:
        start = scroll_to(cursor_index, view.scroll, len(listed), visible)
        part = listed[start : start + visible]
    else:
        part = _most_important(listed, devices.selected_device(frame, view), visible)
    names = {d.name for d in part}
    return [(d, False) for d in part], [d for d in listed if d.name not in names] if room > 1 else []


def _most_important(listed: list[BlockDevice], selected: BlockDevice | None, room: int) -> list[BlockDevice]:
    def weight(device: BlockDevice) -> tuple[int, float]:
        if device.is_culprit or (selected is not None and device.name == selected.name):
            return 0, 0.0
        if device.is_named:
            return 1, 0.0
        return (2 if device.totals.active else 3), -device.totals.queue_s

    names = {d.name for d in sorted(listed, key=weight)[:room]}
    return [d for d in listed if d.name in names]


def _mount_path(device: BlockDevice, frame: Frame) -> str:
    """The shortest mount point on the device; "" without a mount."""
    mounts = devices.mounts(device.name, frame)
    return mounts[0].path if mounts else ""


def _arrange(
    width: int, names: list[str], mounts: list[str], *, has_job: bool = False
) -> tuple[list[ColumnSlot], int, int]:
    """(the columns, the width of the name, the cell where the mount starts). Names and mounts get spare room before
    columns do.

    has_job: whether there is a job; without one, the column of the job's share is left out.
    """
    # A row is the sign, a name of 6 cells, a blank, a mount of 6 cells, the table's columns, and a blank.
    candidates = COLUMNS if has_job else _WITHOUT_JOB
    if width >= _WIDE:
        candidates = (*candidates[:-1], candidates[-1]._replace(width=candidates[-1].width + _REASON_WIDTH))
    columns = fit_columns(candidates, width - 15)
    spare = width - 15 - sum(c.width for c in columns)
    longest = max((cells(n) for n in names), default=0)
    more_name = max(0, min(spare, longest - 6, 12))
    more_mount = max(0, min(spare - more_name, max((cells(m) for m in mounts), default=0) - 6, 12))
    return place_columns(columns, 14 + more_name + more_mount, width - 1), 6 + more_name, 8 + more_name


def _row(
    frame: Frame,
    view: View,
    width: int,
    device: BlockDevice,
    nested: bool,
    slots: list[ColumnSlot],
    name: str,
    mount: str,
    mount_at: int,
) -> Line:
    selected = devices.selected_device(frame, view)
    ids = {slot.column.id for slot in slots}
    # The row above already shows the health of the disk that a partition or volume is on; a member of an array has a
    # health of its own.
    has_health = not nested or (device.info is not None and device.info.kind == "disk")
    return _device_line(
        width,
        device._replace(info=None, totals=NO_TOTALS),  # not shown, but would vary the key of the cache
        selected is not None and selected.name == device.name,
        " " + name if nested else name,
        tuple(slots),
        mount,
        mount_at,
        "sel" if view.focus == "disk" and view.cursor == device.row_key else "",
        view.marks,
        _fullness(frame, device.name) if "full%" in ids else "",
        _degrees(frame, device.name) if "temp" in ids else "",
        _times_normal(frame, device) if "xnorm" in ids else "",
        _job_share(frame, view, device, nested) if "job%" in ids else "",
        health(frame, device.name) if has_health else None,
        view.units,
    )


@lru_cache(maxsize=64)
def _device_line(
    width: int,
    device: BlockDevice,
    selected: bool,
    name: str,
    slots: tuple[ColumnSlot, ...],
    mount: str,
    mount_at: int,
    background: str,
    marks: Marks,
    fullness: str,
    degrees: str,
    times_normal: str,
    job_share: str,
    device_health: Health | None,
    units: str,
) -> Line:
    """One row, cached because an idle device's row does not change.

    units: the unit system of the rates, which ``mib`` uses; it is an argument only to be a part of the cache's key.
    """
    # These signs work without colours: ">" for the device in the graphs, "!" for the verdict's device if the graphs
    # show another device.
    sign = ">" if selected else "!" if device.is_culprit else " "
    out = [Cell(0, sign, device.hue if device.is_culprit else "key")]
    out.append(Cell(1, name, device.hue if device.is_culprit else "text"))
    worst = _worst_await(device.rates)
    may_stand_out = not device.is_culprit and bool(marks.await_ms or marks.util)
    seconds = 1.0 if device.seconds is None else device.seconds
    texts = {"full%": fullness, "temp": degrees, "xnorm": times_normal, "job%": job_share}
    for slot in slots:
        id_ = slot.column.id
        if id_ == "health":
            out += [] if device_health is None else _health_cells(device_health, slot)
            continue
        text = texts[id_] if id_ in texts else _VALUES[id_](device.rates, seconds)
        token = ""
        if device.is_culprit and id_ == worst:
            token = device.hue
        elif (device.is_culprit and id_ in ("aqu-sz", "%util") and text not in ("0", UNDEFINED, UNKNOWN)) or (
            may_stand_out and _stands_out(device.rates, marks, id_)
        ):
            token = "strong"
        out.append(slot.cell(text, token))
    # The mount may extend to the first figure, which rarely fills its column.
    figures_at = min((c.column - cells(c.text) + 1 if c.right else c.column for c in out[2:]), default=width)
    out.append(Cell(mount_at, cut(mount, max(0, figures_at - mount_at - 1)), "dim"))
    return place(width, *out, background=background, key=device.row_key)


def _stands_out(rates: BlockRates, marks: Marks, id_: str) -> bool:
    """Whether the figure is at or above the value at which the user wants this column highlighted."""
    awaits = {"r_await": rates.read_await_ms, "w_await": rates.write_await_ms}
    if id_ in awaits:
        value, threshold = awaits[id_], marks.await_ms
    else:
        value, threshold = rates.busy_ratio if id_ == "%util" else None, marks.util / 100
    return value is not None and 0 < threshold <= value


def _degrees(frame: Frame, name: str) -> str:
    degrees = temperature(frame, name)
    return UNDEFINED if degrees is None else f"{degrees:.0f}"


def _times_normal(frame: Frame, device: BlockDevice) -> str:
    """The read await as a multiple of the normal await of this disk or its kind: "97x"; "-" without reads, "?" when
    unknown.
    """
    await_ms, info = device.rates.read_await_ms, device.info
    if await_ms is None or info is None:
        return UNDEFINED if device.rates.reads_per_s == 0 else UNKNOWN
    # imported here to start faster: the first Frame has no rates, and many screens are too narrow for the column
    from iotop_ai.diagnosis.facts.block import base_of, normal_await_ms

    base, size_bytes = base_of(info, devices.infos(frame)), device.rates.read_size_bytes
    normal_ms = normal_await_ms(info, base, size_bytes, learned=frame.carry.learned)
    if not await_ms:  # as in await_text: shorter than the kernel's resolution
        return f"<{brief((0.1 if (device.rates.reads_per_s or 0) >= 10 else 1.0) / normal_ms)}x"
    return f"{brief(await_ms / normal_ms)}x"


def _job_share(frame: Frame, view: View, device: BlockDevice, nested: bool) -> str:
    """As ``share_text``; "" for a nested device, whose bytes are counted in the row above."""
    if nested:
        return ""
    from iotop_ai.present.block.job_share import share_text  # imported here: most screens lack the column

    return share_text(frame, view, device)


def _worst_await(rates: BlockRates) -> str:
    """The column of the await that is coloured in the culprit's row: the reads', unless writes take more than twice as
    long; "" without awaits.
    """
    read, write = rates.read_await_ms, rates.write_await_ms
    if read is None and write is None:
        return ""
    return "w_await" if read is None or (write is not None and write > 2 * read) else "r_await"


def _fullness(frame: Frame, name: str) -> str:
    """The used% of the fullest filesystem on the device; "-" if none of its mounts has a reading, "?" when unknown."""
    usage = frame.snapshot.filesystems.value or {}
    readings = [usage[m.path] for m in devices.mounts(name, frame) if m.path in usage]
    ratios = [r.value.used_ratio for r in readings if r.value is not None and r.value.used_ratio is not None]
    if ratios:
        return percent(max(ratios))
    return UNKNOWN if readings else UNDEFINED


def _health_cells(health: Health, slot: ColumnSlot) -> list[Cell]:
    out = [Cell(slot.first, cut(health.word, slot.last + 1 - slot.first), health.token)]
    x = slot.first + cells(health.word) + 1
    room = slot.last + 1 - x
    if health.reason and health.word in _WORDS_WITH_REASON and room >= 8:
        token = health.token if health.token in ("bad", "warn") else "dim"
        out.append(Cell(x, cut(health.reason, room), token))
    return out


def _rest_row(width: int, rest: list[BlockDevice]) -> Line:
    idle = all(d.rates.reads_per_s is not None and not d.totals.active for d in rest)
    names = " ".join(devices.short_name(d) for d in rest[:40])
    return row(width, [Span(f" {len(rest)} more{', all idle' if idle else ''}: {names}", "dim")])
