"""The path of the data, from the process or job through mount and partition to the disk, and the waits of tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

from iotop_ai.model.block.counters import Mount, is_leaf
from iotop_ai.model.block.tree import devices_of_mount
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.records import Job, JobMount
from iotop_ai.model.machine.filesystem import fuse_is_remote, is_fuse
from iotop_ai.model.process.records import states
from iotop_ai.present.block import devices
from iotop_ai.present.block.devices import BlockDevice
from iotop_ai.present.job.current import current_job, job_hops, job_mount, job_waits
from iotop_ai.present.process.disk_column import bytes_per_s, is_disk_of
from iotop_ai.present.process.groups import Group, groups
from iotop_ai.present.screen.alert_state import firing_spans
from iotop_ai.present.screen.staleness import is_silent, silent_for
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.frame_cache import cached_per_frame
from iotop_ai.present.text.line import Cell, Line, Span, cut, place, row, spans_cells
from iotop_ai.present.text.panel import panel, reason_row, reason_spans
from iotop_ai.present.text.phrases import whole_clauses
from iotop_ai.present.text.table import rule
from iotop_ai.present.text.units import MIB, UNKNOWN, capacity, clock, duration, interval, percent, size, token_of
from iotop_ai.present.verdict.culprit import Culprit, culprit_of

_LEAST_READER_SHARE = 0.3
"""A process that reads less than this share of the disk's bytes is not named as its reader."""
_OTHER_DISKS_FACTOR = 1.1
"""The bytes of the other disks are multiplied by this before a process's bytes are compared with them, because
processes and disks are not read at the same instant.
"""


@panel
def path_rows(frame: Frame, view: View, width: int, height: int) -> list[Line]:
    """The rule with host, time and mode; the path from the process to the disk; the waits of the job's workers if the
    path is the job's, otherwise those of all tasks.
    """
    workers_row = None if _job_of_path(frame, view) is None else job_waits(frame, width, culprit_of(frame, view))
    out = [
        rule(width, "path", _status_spans(frame, view, width), focus=view.focus == "path"),
        row(width, [Span(" "), *hops(frame, view, width - 2)]),
        workers_row or _waits(frame, view, width),
    ]
    return out[: max(1, height)]


def _status_spans(frame: Frame, view: View, width: int) -> list[Span]:
    snapshot = frame.snapshot
    pattern = "%a %H:%M:%S" if width >= 120 else "%H:%M:%S"
    host = cut(snapshot.host.name, max(8, width // 4))
    out = [Span(f"imported from {snapshot.host.origin}  ", "mode")] if snapshot.host.origin else []
    out += [Span(f"{host}  {clock(snapshot.wall_ns, view.utc_offset_s, pattern)}  ", "dim")]
    out += [*firing_spans(view), *_mode(view)]
    if view.mode == "back":
        out.append(Span("  [ ] step", "dim"))
    elif not is_silent(view):
        out.append(Span(f" {interval(snapshot.interval_s)}", "dim"))
    if view.units == "decimal":
        out.append(Span("  MB=10^6 B", "dim"))
    if view.base is not None:
        seconds = (snapshot.at_ns - view.base.at_ns) / 1e9
        out.append(Span(f"  sums of {duration(seconds)}", "text"))
    return out


def _mode(view: View) -> list[Span]:
    """The mode: live, PAUSED, ► REPLAY 2x, REPLAY paused, ◄ BACK 14 min, ► REMOTE, ► REMOTE ended, or how long the
    source has been silent. While a recording is written, ● REC replaces "live" and precedes PAUSED, BACK and a silence.
    """
    if view.mode == "replay":
        return [Span(f"► REPLAY {view.speed:g}x" if view.playing else "REPLAY paused", "mode")]
    recording = _recording(view)
    if view.mode == "back":
        return [*recording, Span(f"◄ BACK {duration(view.back_s)}", "mode")]
    if view.mode == "paused":
        return [*recording, Span("PAUSED", "mode")]
    if is_silent(view):
        return [*recording, Span(silent_for(view), "warn")]
    if view.mode == "ended":
        return [Span("► REMOTE ended", "mode")]
    if view.remote:
        return [Span("► REMOTE", "mode")]
    return recording or [Span("live", "dim")]


def _recording(view: View) -> list[Span]:
    if view.recording is None:
        return []
    state = view.recording
    minutes, seconds = divmod(int(state.seconds), 60)
    hours, minutes = divmod(minutes, 60)
    elapsed = f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"
    if state.trouble:
        return [Span("● REC stopped ", "warn")]
    lost = [Span(f"{state.lost} lost ", "warn")] if state.lost else []
    return [Span(f"● REC {elapsed}", "strong"), Span(f" {size(state.size_bytes)} ", "dim"), *lost]


def hops(frame: Frame, view: View, width: int) -> list[Span]:
    """The hops of the path: process or job › mount › partition › disk. A mount or partition that is unknown or does not
    exist is left out, and so are the details if they do not fit.

    If there is a job, the path leads to the job's files, unless the user selected a disk that does not hold them. All
    rates are those of the latest interval, even in accumulation mode.
    """
    view = view if view.base is None else view._replace(base=None)
    job, culprit = _job_of_path(frame, view), culprit_of(frame, view)
    mount = None if job is None else job_mount(frame, job)
    if job is not None and not devices.chosen_name(frame, view):
        device = None if mount is None else devices.mount_device(frame, view, mount)
        if device is None:
            return _join_hops([*job_hops(job, culprit), *_remote_hops(mount, culprit, no_files_text(frame, job))])
    else:
        device = devices.selected_device(frame, view)
    if device is None:
        block = frame.snapshot.block
        return [Span("no disk here", "dim")] if block.value is not None else reason_spans(block, view)
    direction = device.totals.direction
    partition = _partition(frame, view, device, direction, mount)
    disks = [] if mount is None else devices.mount_disks(frame, view, mount)
    for details in (True, False):
        readers = [_process_hop(frame, view, device, direction)] if job is None else job_hops(job, culprit)
        parts = [*readers, _mount_hop(_mounts(partition or device, frame, mount), details, culprit)]
        if partition is not None:
            parts.append([Span(devices.short_name(partition))])
        parts += _devices(frame, device, details, wide=width >= 118)
        if len(disks) > 1:
            parts[-1] = [*parts[-1], Span(f" +{len(disks) - 1}", "dim")]
        out = _join_hops(parts)
        if spans_cells(out) <= width:
            break
    return out


def _job_of_path(frame: Frame, view: View) -> Job | None:
    """The job whose path is shown; None without a job, or if the user selected a disk that does not hold its files."""
    job = current_job(frame)
    if job is None or not devices.chosen_name(frame, view):
        return job
    device = devices.selected_device(frame, view)
    return job if device is not None and _holds_files_of(job, device, frame) else None


def _holds_files_of(job: Job, device: BlockDevice, frame: Frame) -> bool:
    """Whether the device holds the job's files."""
    mount = job_mount(frame, job)
    return mount is not None and device.name in devices.mount_stack(frame, mount)


def _join_hops(parts: Sequence[Sequence[Span]]) -> list[Span]:
    out: list[Span] = []
    for spans in parts:
        if spans:
            out += [*([Span(" › ", "dim")] if out else []), *spans]
    return out


def no_files_text(frame: Frame, job: Job) -> str:
    """Why no data file of the job is known: the job has none open, or this user cannot see its files."""
    table = frame.snapshot.processes.value
    hidden = table is not None and not job.members.isdisjoint(table.denied)
    return "open files of another user (sudo)" if hidden else "no open data file seen"


def _remote_hops(mount: JobMount | None, culprit: Culprit, no_files: str) -> list[list[Span]]:
    """The last hops of a path that does not lead to a local disk: mount and server, or why no data file is known."""
    if mount is None:
        return [[Span(no_files, "dim")]]
    token = culprit.hue if mount.path == culprit.mount else "text"
    out = [[Span(mount.path, token), Span(f" {mount.fstype}", "dim")], [Span(mount.source)]]
    if is_fuse(mount.fstype) and fuse_is_remote(mount.fstype, mount.source) is None:
        out.append([Span("local or remote: unknown", "unsure")])
    return out


def _is_idle(device: BlockDevice) -> bool:
    """Whether the disk is known to move no bytes."""
    return device.rates.read_bytes_per_s == 0 and device.rates.write_bytes_per_s == 0


def _process_hop(frame: Frame, view: View, device: BlockDevice, direction: str) -> list[Span]:
    """The process with the most I/O on the disk; "?" if the visible processes do not account for the disk's bytes; a
    sentence such as "no process reads or writes" if no process is known to read or write the disk.

    A process whose disk is unknown is named as the reader only if it reads clearly more than all other disks deliver,
    and as the writer only if nothing is written to another disk.

    direction: "read" or "write", whichever makes up most of the disk's bytes. If no process moves bytes in that
    direction, the process with the most bytes in the other direction is named, because the disk may receive writes
    later than the process makes them.
    """
    table, delivered = frame.snapshot.processes.value, bytes_per_s(device.rates, direction)
    if table is None or frame.sample.processes.seconds is None:
        return [Span("?", "unsure"), Span(" process", "dim")]
    all_groups = groups(frame, _unfiltered_view(frame, view))

    def rate_of(group: Group, way: str = direction) -> float:
        return bytes_per_s(group.rates, way) or 0.0

    # The idle groups, of which there are many, are sorted last and skipped.
    busy = list(takewhile(lambda g: not g.idle, all_groups))

    def busiest(way: str) -> Group | None:
        candidates = (
            g for g in busy if rate_of(g, way) > 0 and _may_be_on(device, g, way, rate_of(g, way), frame, view)
        )
        return max(candidates, key=lambda group: rate_of(group, way), default=None)

    best = busiest(direction)
    # Only reads can be compared, because the disk receives writes later than the process makes them.
    comparable = direction == "read" and delivered is not None and delivered > MIB
    if best is None:
        # Whether a process whose I/O is visible may read or write the disk.
        visible = any(rate_of(g) > 0 and is_disk_of(device, g, direction, frame, view) is not False for g in busy)
        if comparable and table.denied and not visible:
            return [Span("?", "unsure"), Span(" process (not permitted)", "dim")]
        if comparable and not devices.chosen_name(frame, view):
            return [Span("?", "unsure"), Span(" process", "dim")]
        other = "write" if direction == "read" else "read"
        best = None if comparable or visible else busiest(other)
        if best is None:
            if table.denied and not visible and not _is_idle(device):
                return [Span("?", "unsure"), Span(" process (not permitted)", "dim")]
            if not any(group.io for group in all_groups):
                return [Span("no process reads or writes", "dim")]
            if not devices.chosen_name(frame, view):
                return [Span("?", "unsure"), Span(" process", "dim")]
            return [Span(f"no process is known to {direction} {devices.short_name(device)}", "dim")]
        direction = other
    if comparable and delivered is not None and rate_of(best) < _LEAST_READER_SHARE * delivered:
        return [Span("?", "unsure"), Span(" process (not seen)", "dim")]
    user = [Span(best.user + " ", "dim")] if best.user else []
    culprit = culprit_of(frame, view)
    token = culprit.hue if any(key.pid in culprit.pids for key in best.keys) else "text"
    return [*user, Span(best.label, token), Span(" reads" if direction == "read" else " writes", "dim")]


def _may_be_on(device: BlockDevice, group: Group, way: str, moved: float, frame: Frame, view: View) -> bool:
    """Whether the group may be named for the disk. moved: the bytes per second that it reads or writes."""
    is_on = is_disk_of(device, group, way, frame, view)
    if is_on is not None:
        return is_on
    if way == "write":
        # A disk may receive the bytes much later, so the whole history counts.
        return _bytes_elsewhere(device, frame, view, lambda d: d.totals.write_rate_sum) == 0
    others = _bytes_elsewhere(device, frame, view, lambda d: d.rates.read_bytes_per_s)
    delivered = device.rates.read_bytes_per_s
    if not delivered or others is None:
        return False
    # This disk must deliver the bytes that a process reads beyond those that all other disks deliver.
    return moved - _OTHER_DISKS_FACTOR * others >= _LEAST_READER_SHARE * delivered


def _bytes_elsewhere(
    device: BlockDevice, frame: Frame, view: View, bytes_of: Callable[[BlockDevice], float | None]
) -> float | None:
    """The bytes of the other disks; None when unknown. If the disks below the device move more bytes than the device
    does, the excess is added, except for an md array. bytes_of: the function that returns the bytes of a device.
    """
    own, below, total = {device.name, *devices.leaves(device.name, frame)}, 0.0, 0.0
    for other in devices.all_devices(frame, view):
        if other.info is None or not (is_leaf(other.info) or other.info.kind == "loop"):
            continue
        other_bytes, is_own = bytes_of(other), other.name in own
        if not is_own and not own.isdisjoint(devices.leaves(other.name, frame)):
            continue
        if other_bytes is None:
            return None
        if not is_own:
            total += other_bytes
        elif other.name != device.name:
            below += other_bytes
    # The members of an array move bytes only for the array, even while it is checked.
    is_array = device.info is not None and device.info.kind == "md"
    return total if is_array else total + max(0.0, below - (bytes_of(device) or 0.0))


@cached_per_frame
def _unfiltered_view(frame: Frame, view: View) -> View:
    """The View without filter, order, tree and zoom, because the path must not depend on how processes are listed."""
    unfiltered = view._replace(pattern="", only_active=False, sort="io", reverse=False, tree=False, zoom="")
    return view if unfiltered == view else unfiltered


def _partition(
    frame: Frame, view: View, device: BlockDevice, direction: str, mount: JobMount | None
) -> BlockDevice | None:
    """The partition that holds the job's mount; without a job, the mounted partition that moves the most bytes. None if
    there is no such partition.
    """
    if mount is not None:
        children = [d for d in devices.all_devices(frame, view) if d.info is not None and d.info.parent == device.name]
        holders = devices_of_mount(mount, devices.infos(frame))
        return next((d for d in children if d.name in holders), None)
    partitions = devices.mounted_partitions(device.name, frame, view)
    return max(partitions, key=lambda p: bytes_per_s(p.rates, direction) or 0.0, default=None)


def _mounts(device: BlockDevice, frame: Frame, mount: JobMount | None) -> Sequence[Mount | JobMount]:
    """The job's mount; without a job, the mounts of the device."""
    return devices.mounts(device.name, frame) if mount is None else (mount,)


def _mount_hop(mounts: Sequence[Mount | JobMount], details: bool, culprit: Culprit) -> list[Span]:
    if not mounts:
        return []
    out = [Span(mounts[0].path, culprit.hue if mounts[0].path == culprit.mount else "text")]
    if details:
        more = f" +{len(mounts) - 1}" if len(mounts) > 1 else ""
        out.append(Span(f" {mounts[0].fstype}{more}", "dim"))
    return out


def fold_names(names: Sequence[str]) -> str:
    """The names in one text with runs of numbers shortened: "nvme0-2" for nvme0, nvme1 and nvme2."""
    runs: list[tuple[str, int, int]] = []
    for name in names:
        stem = name.rstrip("0123456789")
        digits = name[len(stem) :]
        if digits and digits == str(int(digits)):
            number = int(digits)
        else:  # without a number, or with a leading zero, which a run would lose
            stem, number = name, -1
        if runs and number >= 0 and runs[-1][0] == stem and runs[-1][2] + 1 == number:
            runs[-1] = (stem, runs[-1][1], number)
        else:
            runs.append((stem, number, number))
    words = [stem if low < 0 else f"{stem}{low}" if low == high else f"{stem}{low}-{high}" for stem, low, high in runs]
    return " ".join(words)


def _devices(frame: Frame, device: BlockDevice, details: bool, *, wide: bool) -> list[list[Span]]:
    """The device; then the disk of a partition, or the physical disks below a stacked device."""
    by_name = devices.infos(frame)
    token = device.hue if device.is_culprit else "text"
    top = [Span(devices.short_name(device), token)]
    info = device.info
    if info is None:
        return [top]
    if info.kind == "partition" and info.parent in by_name:
        parent = by_name[info.parent]
        return [top, [Span(parent.name), *([Span(" " + parent.detail, "dim")] if details and parent.detail else [])]]
    if details and info.detail:
        top.append(Span(" " + info.detail, "dim"))
    if wide and (info.model or info.size_bytes):
        top.append(Span(f"  {info.model}  {capacity(info.size_bytes) if info.size_bytes else ''}".rstrip(), "dim"))
    if not info.slaves:
        return [top]
    below = devices.leaves(device.name, frame)
    leaf = by_name.get(below[0])
    tail = f" {leaf.detail}" if details and leaf is not None and leaf.detail else ""
    if details and len(below) > 1:
        tail += f" x{len(below)}"
    return [top, [Span(fold_names([*map(devices.without_namespace, below)])), Span(tail, "dim")]]


def _waits(frame: Frame, view: View, width: int) -> Line:
    """The numbers of blocked tasks (state D) and of running ones, and the shares of time in which tasks waited for
    disk, CPU and memory (PSI).
    """
    table = frame.snapshot.processes.value
    if table is None:
        return reason_row(width, frame.snapshot.processes, view)
    counts = states(table.stat)
    blocked, running = counts.get("D", 0), counts.get("R", 0)
    out = [Cell(1, "waits", "dim")]
    out += [Cell(10, "blocked", "dim"), Cell(21, _count(blocked), "strong" if blocked else "zero", right=True)]
    out += [Cell(24, "run", "dim"), Cell(31, _count(running), token_of(_count(running)), right=True)]
    pressure = frame.sample.pressure.value
    if pressure is None:
        reading = frame.snapshot.pressure
        if reading.value is None and reading.reason:
            has_remedy = bool(reading.remedy) and view.mode != "replay"
            reason = reading.reason + (f" ({reading.remedy})" if has_remedy else "")
            return place(width, *out, Cell(34, whole_clauses(reason, width - 35), "dim"))
        return place(width, *out, Cell(34, "stalled on disk", "dim"), Cell(52, UNKNOWN, "unsure"))
    x = 34
    for name, word in (("io", "stalled on disk"), ("cpu", "CPU"), ("memory", "memory")):
        stall = pressure.get(name)
        text = percent(None if stall is None else stall.some_ratio)
        high = stall is not None and stall.some_ratio is not None and stall.some_ratio >= 0.5
        if x + len(word) + 6 > width:
            break
        out.append(Cell(x, word, "dim"))
        x += len(word) + 4
        out.append(Cell(x - 1, text, "strong" if high else token_of(text), right=True))
        out.append(Cell(x + 1, "%", "dim"))
        x += 4
    io = pressure.get("io")
    room = width - 1 - x
    if io is not None and io.some_ratio is not None and room >= 6:
        room = min(room, 60)
        filled = min(room, round(room * io.some_ratio))
        hue = "hot" if culprit_of(frame, view).disk else "graph"
        out += [Cell(x, "━" * filled, hue), Cell(x + filled, "─" * (room - filled), "faint")]
    return place(width, *out)


def _count(number: int) -> str:
    return str(number) if number < 10000 else f"{number // 1000}k"
