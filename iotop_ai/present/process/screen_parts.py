"""The parts of a process's screen that scroll: threads, files with mounts and disks, sockets, limits, environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from textwrap import wrap
from typing import Any

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.block.counters import Mount
from iotop_ai.model.block.tree import devices_of_mount, mount_of
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.cgroup import CgroupMemory
from iotop_ai.model.job.task_states import DISK, FUTEX, HIDDEN, NET, QUEUE, RUNNING, STOPPED, wait_state_of
from iotop_ai.model.machine.filesystem import IN_MEMORY, is_remote
from iotop_ai.model.process.detail import (
    OPEN_FILES,
    CgroupDetail,
    OpenFile,
    OpenFiles,
    ProcessDetail,
    Sockets,
    ThreadDetail,
    ThreadTable,
    thread_cpu,
)
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.reading import Reading
from iotop_ai.present.block import devices
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.fields import Field, field_rows
from iotop_ai.present.text.line import ELLIPSIS, Cell, Line, Span, cells, cut, place, plain, row, stack_sections
from iotop_ai.present.text.panel import reason_row
from iotop_ai.present.text.table import Column, fit_columns, head, place_columns, rule
from iotop_ai.present.text.units import UNDEFINED, UNKNOWN, figure, percent, plural, size
from iotop_ai.present.verdict.advice import limit_text

_ONLY_LIVE = "names and waits of threads, open files, sockets, limits, environment"
"""The parts that no recording contains."""
_MOST_THREADS, _MOST_FILES, _MOST_SOCKETS = 100, 500, 200
"""The largest numbers of rows in the tables of threads, files and sockets."""
_NEAR_LIMIT = 0.8
"""A resource is near its limit from this share of the limit on."""
_WAITS = {
    DISK: "disk",
    RUNNING: "on a CPU",
    QUEUE: "queue",
    NET: "network",
    FUTEX: "lock",
    STOPPED: "stopped",
    HIDDEN: "not permitted to see",
}
"""The screen's words for the kinds of waits in model/job/task_states.py."""
_CALLS = {"timer": "timer", "futex": "lock", "pipe": "pipe", "socket": "network", "unix": "local socket"}
"""The words for the target of a system call, used where the kernel function does not say what the thread waits for."""
THREAD_COLUMNS = (
    Column("name", "name", 18, 0, 24, left=True, gap=2),
    Column("state", "state", 7, 0, left=True, gap=2),
    Column("cpu", "cpu%", 6, 3),
    Column("waits", "waits for", 24, 0, left=True, gap=2),
)
FILE_COLUMNS = (
    Column("mode", "", 4, 3, left=True, gap=1),
    Column("at", "offset", 8, 2),
    Column("mount", "mount", 14, 1, 28, left=True, gap=2),
    Column("disk", "disk", 11, 0, 14, left=True, gap=2),
)
SOCKET_COLUMNS = (
    Column("local", "local", 24, 1, 48, left=True, gap=2),
    Column("remote", "peer", 24, 0, 48, left=True, gap=2),
    Column("state", "state", 14, 0, left=True, gap=2),
)


def part_rows(
    frame: Frame,
    view: View,
    key: ProcessKey,
    detail: ProcessDetail | None,
    before: Reading[ThreadTable],
    why_unreadable: str,
    width: int,
    *,
    spread: bool,
) -> list[Line]:
    """All parts, one below the other.

    before: the threads in the previous reading. why_unreadable: why the detail cannot be read; "" if it can be.
    spread: whether a blank row separates the parts.
    """
    if detail is None and not why_unreadable:
        return [rule(width, "threads"), row(width, [Span(" reading ...", "dim")])]
    if detail is None:
        rest = wrap(f"{_ONLY_LIVE}: {why_unreadable}", max(20, width - 2))
        reason_rows = [rule(width, "the rest"), *(row(width, [Span(f" {text}", "dim")]) for text in rest)]
        return stack_sections([_recorded_threads(frame, key, width), reason_rows], width, spread=spread)
    parts: list[list[Line]] = [
        _part(width, "threads", detail.threads, lambda t: _thread_rows(width, t, thread_cpu(before, detail.threads))),
        _part(width, "open files", detail.files, lambda f: _file_rows(frame, width, f)),
        _part(width, "sockets", detail.sockets, lambda s: _socket_rows(width, s)),
        _part(width, "limits and cgroup", detail.cgroup, lambda c: _limit_rows(width, c, detail)),
    ]
    if view.unredacted is None:  # a screenshot file must not show variables
        parts.append(_part(width, "environment", detail.environ, lambda e: _environment_rows(width, e)))
    return stack_sections(parts, width, spread=spread)


def _part(width: int, title: str, reading: Reading[Any], rows: Callable[[Any], list[Line]]) -> list[Line]:
    """The rows of a part, or the reason why the part is missing."""
    if reading.value is not None:
        return rows(reading.value)
    return [rule(width, title), reason_row(width, reading)]


def _recorded_threads(frame: Frame, key: ProcessKey, width: int) -> list[Line]:
    """What a Snapshot holds about the threads: the states of a busy process's threads, and the main thread's wait; []
    if it holds neither.
    """
    table = frame.snapshot.processes.value
    if table is None:
        return []
    sampled, wchan, stat = table.threads.get(key), table.wchan.get(key), table.stat.get(key)
    texts = []
    if sampled is not None:
        texts.append(", ".join(f"{count} in state {state}" for state, count in sampled.states))
    elif stat is not None:
        texts.append(f"main thread in state {stat.state}")
    if wchan:
        texts.append(f"main thread sleeps in {wchan}")
    number = "" if stat is None else f" {stat.threads}"
    rows = [row(width, [Span(f" {text}")]) for text in texts]
    return [rule(width, f"threads{number}"), *rows] if rows else []


class _ThreadGroup(NamedTuple):
    """Threads with the same name, state and wait. cpu: the largest share of a CPU among them; None when unknown."""

    first: ThreadDetail
    members: int
    cpu: float | None


def wait_text(thread: ThreadDetail, room: int = 0) -> str:
    """The wait of a thread in words: "disk, read /data/a.tar (folio_wait_bit_common)".

    room: the columns that the text may take; 0 for any number. If a path makes the text too long, the kernel function
    is dropped first, then the path's beginning.
    """
    wait_state = wait_state_of(thread.state.encode(), thread.wchan.encode())
    word = _WAITS.get(wait_state, "")
    if thread.state == "R":
        return word
    if wait_state in (HIDDEN, QUEUE) or not word:
        word = _CALLS.get(thread.target, word if wait_state == QUEUE or not (thread.call or thread.wchan) else "")
    path = plain(thread.path)
    call = " ".join(filter(None, (thread.call, path)))
    if not thread.call and wait_state == DISK:
        call, path = "page fault", ""
    text = ", ".join(filter(None, (word, call)))
    whole = f"{text} ({thread.wchan})" if thread.wchan and text else text or thread.wchan or UNKNOWN
    if not path or not room or cells(whole) <= room:
        return whole
    before = text.removesuffix(path)
    return before + cut_left(path, max(1, room - cells(before)))


def _thread_rows(width: int, table: ThreadTable, cpu: Mapping[int, float]) -> list[Line]:
    alike: dict[tuple[str, str, str], list[ThreadDetail]] = {}
    for thread in table.threads:
        alike.setdefault((thread.name, thread.state, wait_text(thread)), []).append(thread)
    groups = [_ThreadGroup(threads[0], len(threads), _most_cpu(cpu, threads)) for threads in alike.values()]
    # The main thread comes first, then blocked threads, then running ones.
    main = table.threads[0].tid if table.threads else 0
    order = {"D": 0, "R": 1}
    groups.sort(key=lambda g: (g.first.tid != main, order.get(g.first.state, 2), -(g.cpu or 0.0), g.first.tid))
    slots = place_columns(fit_columns(THREAD_COLUMNS, width - 9), 9, width - 1)
    blocked = sum(thread.state == "D" for thread in table.threads)
    note = f"{table.number}, {blocked} blocked" if blocked else str(table.number)
    out = [head(width, "threads", slots[1:], note=note)]
    for group in groups[:_MOST_THREADS]:
        thread = group.first
        name = f"{plain(thread.name)} x{group.members}" if group.members > 1 else plain(thread.name)
        waits = wait_text(thread, slots[-1].last - slots[-1].first + 1)
        texts = {"name": name, "state": thread.state, "cpu": percent(group.cpu), "waits": waits}
        token = "strong" if thread.state == "D" else ""
        row_cells = [
            slot.cell(texts[slot.column.id], token if slot.column.id in ("state", "waits") else "") for slot in slots
        ]
        out.append(place(width, Cell(7, str(thread.tid), "dim", right=True), *row_cells))
    more = table.number - sum(g.members for g in groups[:_MOST_THREADS])
    return [*out, row(width, [Span(f" {more} more", "dim")])] if more > 0 else out


def _most_cpu(cpu: Mapping[int, float], threads: list[ThreadDetail]) -> float | None:
    return max((cpu[thread.tid] for thread in threads if thread.tid in cpu), default=None)


def _file_rows(frame: Frame, width: int, open_files: OpenFiles) -> list[Line]:
    room = max(24, width - 42) if width < 120 else width - 60
    slots = place_columns(fit_columns(FILE_COLUMNS, width - room), room, width - 1)
    out = [head(width, "open files", slots, note=plural(open_files.number, "descriptor"))]
    for file in sorted(open_files.files, key=_file_order)[:_MOST_FILES]:
        name, token = mount_disk(frame, file.mount)
        texts = {
            "mode": file.mode or UNKNOWN,
            "at": UNKNOWN if file.position is None else size(file.position) if file.position else UNDEFINED,
            "mount": UNKNOWN if file.mount is None else plain(file.mount.path),
            "disk": name,
        }
        tail = (f" x{file.fds}" if file.fds > 1 else "") + (" deleted" if file.deleted else "")
        path = cut_left(plain(file.path), room - 2 - cells(tail)) + tail
        row_cells = [slot.cell(texts[slot.column.id], token if slot.column.id == "disk" else "") for slot in slots]
        out.append(place(width, Cell(1, path), *row_cells))
    if len(open_files.files) > _MOST_FILES:
        out.append(row(width, [Span(f" {len(open_files.files) - _MOST_FILES} more", "dim")]))
    if open_files.others:
        others = ", ".join(plural(count, plain(kind)) for kind, count in open_files.others)
        out.append(row(width, [Span(f" and {others}", "dim")]))
    elif not open_files.files:
        out.append(row(width, [Span(" none", "dim")]))
    if open_files.more:
        out.append(row(width, [Span(" further descriptors were not read", "dim")]))
    return out


_CODE = (".so", ".py", ".pyc")
_SYSTEM = ("/dev/", "/proc/", "/sys/", "/usr/", "/lib", "/memfd:")
"""The ends and the beginnings of the paths of files other than data files."""


def _file_order(file: OpenFile) -> tuple[bool, bool, str]:
    """The sort key of a file: data files come before devices, libraries and programs; in each of these two
    kinds, files opened only for writing come last; then by path.
    """
    system = file.path.startswith(_SYSTEM) or file.path.endswith(_CODE) or ".so." in file.path
    return system, file.mode == "w", file.path


def cut_left(text: str, width: int) -> str:
    """The text in at most ``width`` columns. Its end is kept, because the end of a path names the file."""
    if cells(text) <= width:
        return text
    while text and cells(text) > width - 1:
        text = text[1:]
    return ELLIPSIS + text


def mount_disk(frame: Frame, mount: Mount | None) -> tuple[str, str]:
    """(the name in the disk panel of the disk that holds the mount, its token). Instead of a disk: "memory", "network",
    "-" for another mount without a device, "?" when unknown.
    """
    if mount is None:
        return UNKNOWN, ""
    if mount.fstype in IN_MEMORY:
        return "memory", "dim"
    if is_remote(mount.fstype, mount.source):
        return "network", ""
    by_name = devices.infos(frame)
    direct = devices_of_mount(mount, by_name)
    for layer in mount.layers if not direct else ():
        below = mount_of(layer, frame.snapshot.mounts.value or ())
        if below is not None and below.fstype != "overlay" and (direct := devices_of_mount(below, by_name)):
            break
    if not direct:
        return (UNDEFINED, "dim") if mount.device.startswith("0:") else (UNKNOWN, "")
    name = devices.top_row_of(direct[0], frame)
    return devices.without_namespace(name), "bad" if name == devices.culprit_disk(frame) else ""


def _socket_rows(width: int, sockets: Sockets) -> list[Line]:
    inet = [socket for socket in sockets.sockets if socket.protocol != "unix"]
    kinds = [
        f"{socket.protocol} x{socket.alike}" if socket.alike > 1 else socket.protocol for socket in inet[:_MOST_SOCKETS]
    ]
    start = max([8, *(len(kind) + 1 for kind in kinds)])
    slots = place_columns(fit_columns(SOCKET_COLUMNS, width - start), start, width - 1)
    unix_count = sum(socket.alike for socket in sockets.sockets if socket.protocol == "unix")
    number = sum(socket.alike for socket in sockets.sockets) + sockets.hidden
    out: list[Line] = [head(width, "sockets", slots[-2:] if inet else (), note=str(number) if number else "none")]
    for socket, kind in zip(inet, kinds, strict=False):
        texts = {"local": socket.local, "remote": socket.remote or UNDEFINED, "state": socket.state or UNDEFINED}
        row_cells = [slot.cell(_with_port(plain(texts[slot.column.id]), slot.last - slot.first + 1)) for slot in slots]
        out.append(place(width, Cell(1, kind, "dim"), *row_cells))
    rest = []
    if len(inet) > _MOST_SOCKETS:
        rest.append(f"{sum(socket.alike for socket in inet[_MOST_SOCKETS:])} more")
    if unix_count:
        rest.append(f"{unix_count} of the Unix domain")
    if sockets.hidden:
        rest.append(f"{sockets.hidden} of another network namespace or protocol")
    return [*out, row(width, [Span(f" {', '.join(rest)}", "dim")])] if rest else out


def _with_port(address: str, room: int) -> str:
    """The address in at most ``room`` columns; only the host is cut, not the port."""
    host, colon, port = address.rpartition(":")
    return f"{cut(host, room - cells(port) - 1)}:{port}" if colon and cells(address) > room else address


def _limit_rows(width: int, cgroup: CgroupDetail, detail: ProcessDetail) -> list[Line]:
    identity, files = detail.identity.value, detail.files.value
    fields = []
    for resource_limit in () if identity is None else identity.limits:
        soft, unit = resource_limit.soft, resource_limit.unit
        used = files.number if files is not None and resource_limit.name == OPEN_FILES else None
        text = "unlimited" if soft is None else f"{size(soft)}{unit}" if unit else str(soft)
        if used is None:
            fields.append(Field(resource_limit.name, text))
        else:
            near = soft is not None and used >= _NEAR_LIMIT * soft
            fields.append(Field(resource_limit.name, str(used), f" of {text}", "warn" if near else "text"))
    out = [rule(width, "limits and cgroup"), *field_rows(fields, width)]
    out.append(place(width, Cell(1, "cgroup", "dim"), Cell(9, cut_left(plain(cgroup.path), width - 10))))
    memory = _memory_fields(cgroup.group.memory)
    more = [Field("CPU quota", f"{figure(cgroup.cpu_cores).removesuffix('.0')} cores")] if cgroup.cpu_cores else []
    for limit in cgroup.io_limits:
        text = limit_text({"what": limit.what, "limit": float(limit.value)})
        more.append(Field("I/O", text, f" on {limit.device} ({limit.file})"))
    return [*out, *field_rows([*memory, *more], width)]


def _memory_fields(memory: CgroupMemory) -> list[Field]:
    if memory.current_bytes is None:
        return []
    limits = [limit for limit in (memory.high_bytes, memory.max_bytes) if limit is not None]
    tail = f" of {size(min(limits))}B" if limits else ", unlimited"
    out = [Field("memory", f"{size(memory.current_bytes)}B", tail)]
    if memory.file_bytes is not None:
        out.append(Field("page cache", f"{size(memory.file_bytes)}B"))
    if memory.oom_kills:
        out.append(Field("killed for memory", str(memory.oom_kills), token="warn"))
    return out


def _environment_rows(width: int, variables: tuple[tuple[str, str], ...]) -> list[Line]:
    note = [Span("as it was started; secrets are hidden", "dim")]
    out = [rule(width, f"environment {len(variables)}", note)]
    for name, value in variables:
        label = cut(plain(name), max(12, width // 3))
        out.append(
            row(width, [Span(f" {label}", "dim"), Span("=", "dim"), Span(cut(plain(value), width - 3 - cells(label)))])
        )
    return out
