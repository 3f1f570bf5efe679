"""Selects and orders the disks and processes of an output, and formats a process's command."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from iotop_ai.model.block.counters import BlockInfo, BlockKey, BlockRates
from iotop_ai.model.frame import Frame
from iotop_ai.model.process.records import UNKNOWN_PROCESS_RATES, ProcessInfo, ProcessKey, ProcessRates
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.present.process.names import listed_name
from iotop_ai.present.process.sort_value import sort_value
from iotop_ai.store.format.redact import command_names
from iotop_ai.store.format.secrets import command_redacted

_DOUBLE_COUNTED_KINDS = ("partition", "nvme-path")
"""The kinds of devices whose I/O is also counted for another device, which is listed instead."""
_QUIET_KINDS = ("loop", "ram", "zram", "rom", "floppy")
"""The kinds of devices that are listed only if they were used."""
_COMMAND: Mapping[str, Callable[[tuple[str, ...]], tuple[str, ...]]] = {
    "names": command_names,
    "redacted": command_redacted,
    "full": tuple,
}
"""For each of the CMDLINE_LEVELS, the function that turns a command line into the words that are shown."""


def device_info(snapshot: Snapshot, name: str) -> BlockInfo | None:
    """A device's identity; None when unknown."""
    return None if snapshot.disks.value is None else snapshot.disks.value.get(name)


def device_rates(
    frame: Frame, devices: Sequence[str] = (), only_active: bool = False
) -> list[tuple[BlockKey, BlockRates]]:
    """The devices to list with their rates, in the kernel's order; [] without rates.

    devices: exactly these, including partitions. () lists whole devices; loop, ram, zram, rom and floppy devices are
    listed only if they were used since boot, as iostat does. only_active: only devices that completed a request in the
    interval or have one in flight.
    """
    rates = frame.sample.block.value or {}
    table = frame.snapshot.block.value or {}
    out = []
    for key, rate in rates.items():
        if devices:
            listed = key.name in devices
        else:
            info = device_info(frame.snapshot, key.name)
            kind = "disk" if info is None else info.kind
            counters = table.get(key)
            used = counters is not None and any((counters.rd_ios, counters.wr_ios, counters.dc_ios, counters.fl_ios))
            listed = kind not in _DOUBLE_COUNTED_KINDS and (kind not in _QUIET_KINDS or used)
        if listed and (rate.active or not only_active):
            out.append((key, rate))
    return out


def process_rows(
    frame: Frame, only_active: bool = False, sort: str = "io", reverse: bool = False
) -> list[tuple[ProcessKey, ProcessRates]]:
    """Processes with a non-zero or unknown rate, in state D, or unreadable, sorted by one of the SORT_KEYS.

    Figures are in descending order and texts in ascending order, unless ``reverse`` is true.

    only_active: only processes that did I/O, waited for I/O, or are in state D.
    """
    sample = frame.sample.processes.value
    table = frame.snapshot.processes.value
    if table is None:
        return []
    rates = dict(sample.rates) if sample is not None else {}
    for key in table.denied:
        rates.setdefault(key, UNKNOWN_PROCESS_RATES)
    rows = [(key, rate) for key, rate in rates.items() if key in table.info]
    if only_active:
        rows = [
            (key, rate)
            for key, rate in rows
            if rate.read_bytes_per_s or rate.write_bytes_per_s or rate.io_delay_ratio or _state(frame, key) == "D"
        ]
    rows.sort(key=_io_order, reverse=True)
    if sort == "io":
        return rows[::-1] if reverse else rows
    if sort == "name":
        return sorted(rows, key=lambda row: listed_name(table.info[row[0]]), reverse=reverse)
    if sort == "user":
        return sorted(rows, key=lambda row: table.info[row[0]].user, reverse=reverse)
    return sorted(rows, key=lambda row: sort_value(row[1], sort), reverse=not reverse)


def _state(frame: Frame, key: ProcessKey) -> str:
    table = frame.snapshot.processes.value
    stat = None if table is None else table.stat.get(key)
    return "?" if stat is None else stat.state


def _io_order(row: tuple[ProcessKey, ProcessRates]) -> tuple[float, float, float, int]:
    """The sort key of a process: its bytes per second, IO-wait, CPU and negated pid; an unknown figure counts as 0."""
    key, rate = row
    bytes_per_s = (rate.read_bytes_per_s or 0.0) + (rate.write_bytes_per_s or 0.0)
    return bytes_per_s, rate.io_delay_ratio or 0.0, rate.cpu_ratio or 0.0, -key.pid


def command_words(info: ProcessInfo, level: str) -> str:
    """A process's command at one of the CMDLINE_LEVELS; a kernel thread is shown as [name].

    An empty or unreadable command line is replaced by the process's name.
    """
    if not info.cmdline:
        return f"[{info.name}]" if info.kernel else info.name
    return " ".join(_COMMAND[level](info.cmdline)) or info.name
