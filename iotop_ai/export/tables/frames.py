"""Frames as tables: one row per interval and object, with the same columns in every format.

Disks have iostat's names and units (kB is 1024 B, ratios are percentages). All other names are snake_case with the unit
at the end, in base units, with ratios 0..1. None is unknown or undefined (a mean over no requests); 0 is measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from json import dumps
from typing import Any

from iotop_ai.diagnosis.memory.hung_devices import hung_s
from iotop_ai.export.field_names import IOSTAT_KEYS, device_terms
from iotop_ai.export.selection import command_words, device_info, device_rates, process_rows
from iotop_ai.export.tables.columns import (
    INTERVAL,
    TIME,
    Column,
    Row,
    Table,
    metric_cells,
    metric_columns,
    scalar_cells,
    scalar_columns,
    term_column,
    texts,
)
from iotop_ai.export.tables.job import JOBS
from iotop_ai.export.tables.machine import SYSTEM
from iotop_ai.export.tables.steps import steps_table
from iotop_ai.model.frame import Frame
from iotop_ai.model.gpu.state import GpuRates, GpuState
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.job.cgroup import CgroupMemory, CgroupRates
from iotop_ai.model.machine.filesystem import FilesystemUsage
from iotop_ai.model.machine.network import LinkRates
from iotop_ai.model.machine.pool import ProgramIoRates
from iotop_ai.model.machine.rdma import RdmaRates
from iotop_ai.model.process.records import ProcessRates
from iotop_ai.model.reading import Reading
from iotop_ai.present.verdict.headline import finding_object
from iotop_ai.store.format.redact import event_text

NAMES = (
    "devices",
    "gpus",
    "processes",
    "jobs",
    "steps",
    "system",
    "smart",
    "findings",
    "filesystems",
    "network",
    "rdma",
    "pools",
    "cgroups",
    "events",
)

_TERMS = tuple(device_terms()[key] for key in IOSTAT_KEYS)
_DEVICES = (
    TIME,
    INTERVAL,
    *texts("device", "kind", "label", "model", "mounted"),
    *map(term_column, _TERMS),
    Column("hung_s", "real", "s", "Seconds in which none of its pending requests has completed."),
)
_GPU_LEVELS = {
    *("memory_reserved_bytes", "memory_mhz", "sm_max_mhz", "memory_celsius", "fan_percent", "performance_state"),
    *("clock_reasons", "pcie_generation", "pcie_width", "pcie_max_generation", "pcie_max_width", "bus_id", "mig"),
}
"""The fields of a GPU's state that are exported; they are neither counters nor in its rates."""
_GPU_STATE = tuple(column for column in scalar_columns(GpuState) if column.name in _GPU_LEVELS)
_GPUS = (
    TIME,
    Column("age_s", "real", "s", "Age of the reading: GPUs are read at their own interval."),
    Column("gpu", "int", "", "NVML's index."),
    *texts("uuid", "name", "status", "reason"),
    *metric_columns(GpuRates),
    *_GPU_STATE,
)
_REPEATED = "0 if the row repeats an earlier reading. Rates times these seconds add up to the counters' growth."
_PROCESSES = (
    TIME,
    INTERVAL,
    Column("pid", "int"),
    Column("start_ticks", "int", "", "Start time in clock ticks after boot; with the pid it identifies one process."),
    *texts("name", "user", "command", "state", "wchan"),
    Column("threads", "int"),
    Column("rss_bytes", "int", "B"),
    *metric_columns(ProcessRates),
    Column("incl_children", "bool", "", "The bytes may include those of an exited child."),
    Column("main_thread_only", "bool", "", "io_delay_ratio and state are those of the main thread only."),
    Column("io_s", "real", "s", f"Seconds between the two readings of its bytes and calls; {_REPEATED}"),
    Column(
        "stat_s", "real", "s", f"Seconds between the two readings of its CPU, io_delay_ratio and faults; {_REPEATED}"
    ),
)
_SMART_STATE = scalar_columns(SmartState, skip=("device",))
_SMART = (TIME, *texts("device", "status", "reason", "reasons"), *_SMART_STATE)
_FINDINGS = (
    TIME,
    Column("rank", "int", "", "0 is the verdict."),
    *texts("state", "class", "subject", "severity"),
    Column("confidence", "real", "ratio"),
    Column("lost_ratio", "real", "ratio", "Share of time lost."),
    Column("gpu_hours_lost", "real", "h"),
    *texts("evidence", "advice"),
)
_USAGE = scalar_columns(FilesystemUsage)
_FILESYSTEMS = (TIME, *texts("mount", "status", "reason"), *_USAGE, Column("used_ratio", "real", "ratio"))
_NETWORK = (
    TIME,
    INTERVAL,
    *texts("link", "kind", "link_state"),
    Column("bits_per_s", "int", "bit/s", "Speed of the link."),
    *metric_columns(LinkRates),
)
_RDMA = (TIME, INTERVAL, *texts("port"), *metric_columns(RdmaRates))
_POOLS = (TIME, INTERVAL, *texts("kind", "pool"), *metric_columns(ProgramIoRates))
_CGROUP_MEMORY = scalar_columns(CgroupMemory, skip=("refaults",))
_CGROUPS = (TIME, INTERVAL, *texts("cgroup", "jobs"), *_CGROUP_MEMORY, *metric_columns(CgroupRates))
_EVENTS = (TIME, *texts("kind", "text"))


def tables(cmdline: str = "names") -> tuple[Table, ...]:
    """All tables, in the order of NAMES. They have state, so use them for one pass over one recording.

    cmdline: one of CMDLINE_LEVELS.
    """
    all_tables = (
        Table("devices", _DEVICES, _device_rows),
        Table("gpus", _GPUS, _gpu_rows),
        Table("processes", _PROCESSES, lambda frame: _process_rows(frame, cmdline)),
        JOBS,
        steps_table(),
        SYSTEM,
        Table("smart", _SMART, _RenewedRows("smart", _smart_row)),
        Table("findings", _FINDINGS, _finding_rows),
        Table("filesystems", _FILESYSTEMS, _RenewedRows("filesystems", _filesystem_row)),
        Table("network", _NETWORK, _network_rows),
        Table("rdma", _RDMA, _rdma_rows),
        Table("pools", _POOLS, _pool_rows),
        Table("cgroups", _CGROUPS, _cgroup_rows),
        Table("events", _EVENTS, lambda frame: _event_rows(frame, cmdline)),
    )
    assert tuple(table.name for table in all_tables) == NAMES
    return all_tables


def _device_rows(frame: Frame) -> Iterator[Row]:
    seconds = frame.sample.block.seconds
    if seconds is None or not frame.sample.block.renewed:
        return
    for key, rates in device_rates(frame):
        info = device_info(frame.snapshot, key.name)
        identity: Row = (None,) * 4
        if info is not None:
            identity = (info.kind, info.label, info.model or None, ", ".join(m.path for m in info.mounts) or None)
        hung = hung_s(frame.carry.hung, key.name, frame.snapshot.at_ns)
        yield (frame.snapshot.wall_ns, seconds, key.name, *identity, *(term.of(rates) for term in _TERMS), hung)


def _gpu_rows(frame: Frame) -> Iterator[Row]:
    rates = frame.sample.gpu.value or {}
    now_ns = frame.snapshot.at_ns
    for uuid, reading in (frame.snapshot.gpu.value or {}).items():
        state = reading.value
        age_s = None if reading.at_ns is None else max(0.0, (now_ns - reading.at_ns) / 1e9)
        number, name = (None, None) if state is None else (state.number, state.name)
        yield (
            *(frame.snapshot.wall_ns, age_s, number, uuid, name, reading.status.value, reading.reason or None),
            *metric_cells(rates.get(uuid), GpuRates),
            *scalar_cells(state, _GPU_STATE),
        )


def _process_rows(frame: Frame, cmdline: str) -> Iterator[Row]:
    table, seconds = frame.snapshot.processes.value, frame.sample.processes.seconds
    if table is None or seconds is None or not frame.sample.processes.renewed:
        return
    for key, rates in process_rows(frame):
        figures = metric_cells(rates, ProcessRates)
        if all(figure is None for figure in figures):
            continue
        info, stat = table.info[key], table.stat.get(key)
        yield (
            *(frame.snapshot.wall_ns, seconds, key.pid, key.start_ticks, info.name, info.user),
            *(command_words(info, cmdline), None if stat is None else stat.state, table.wchan.get(key)),
            None if stat is None else stat.threads,
            None if stat is None else stat.rss_pages * table.page_bytes,
            *figures,
            *(rates.incl_children, rates.main_thread_only, rates.io_s, rates.stat_s),
        )


class _RenewedRows:
    """Makes the rows of Readings that last for several intervals: one row per Reading, not per interval.

    field: the field of the Snapshot. row: a function that makes the cells after time, name, status and reason from a
    Reading.
    """

    def __init__(self, field: str, row: Any) -> None:
        self._field = field
        self._row = row
        self._last: dict[str, Reading[Any]] = {}

    def __call__(self, frame: Frame) -> Iterator[Row]:
        """Make a row for each Reading that is new since the last Frame."""
        readings: Mapping[str, Reading[Any]] = getattr(frame.snapshot, self._field).value or {}
        for name, reading in readings.items():
            last = self._last.get(name)
            if last is None or last.at_ns != reading.at_ns:
                self._last[name] = reading
                yield (frame.snapshot.wall_ns, name, reading.status.value, reading.reason or None, *self._row(reading))


def _smart_row(reading: Reading[SmartState]) -> Row:
    state = reading.value
    return (None if state is None else "; ".join(state.reasons) or None, *scalar_cells(state, _SMART_STATE))


def _filesystem_row(reading: Reading[FilesystemUsage]) -> Row:
    usage = reading.value
    return (*scalar_cells(usage, _USAGE), None if usage is None else usage.used_ratio)


def _finding_rows(frame: Frame) -> Iterator[Row]:
    for rank, finding in enumerate(frame.verdict.findings):
        out = finding_object(finding)
        yield (
            *(frame.snapshot.wall_ns, rank, out["state"], out["class"], finding.subject or None, out["severity"]),
            *(finding.confidence, finding.lost_ratio, finding.gpu_hours_lost),
            dumps(out["evidence"], ensure_ascii=False, allow_nan=False),
            "; ".join(out["advice"]) or None,
        )


def _network_rows(frame: Frame) -> Iterator[Row]:
    seconds = frame.sample.network.seconds
    if seconds is None or not frame.sample.network.renewed:
        return
    rates = frame.sample.network.value or {}
    for name, link in (frame.snapshot.network.value or {}).items():
        identity = (name, link.kind, link.state, link.bits_per_s)
        yield (frame.snapshot.wall_ns, seconds, *identity, *metric_cells(rates.get(name), LinkRates))


def _rdma_rows(frame: Frame) -> Iterator[Row]:
    sample = frame.sample.rdma
    if sample.seconds is not None and sample.renewed:
        for port, rates in (sample.value or {}).items():
            yield (frame.snapshot.wall_ns, sample.seconds, port, *metric_cells(rates, RdmaRates))


def _pool_rows(frame: Frame) -> Iterator[Row]:
    sample = frame.sample.pools
    if sample.value is None or sample.seconds is None or not sample.renewed:
        return
    for kind, rates_by_name in (("zfs", sample.value.zfs), ("lustre", sample.value.lustre)):
        for name, rates in rates_by_name.items():
            yield (frame.snapshot.wall_ns, sample.seconds, kind, name, *metric_cells(rates, ProgramIoRates))


def _cgroup_rows(frame: Frame) -> Iterator[Row]:
    table, seconds = frame.snapshot.cgroups.value, frame.sample.cgroups.seconds
    if table is None or seconds is None or not frame.sample.cgroups.renewed:
        return
    rates = frame.sample.cgroups.value or {}
    for path, group in table.groups.items():
        jobs = " ".join(str(key.pid) for key, job_path in table.jobs.items() if job_path == path)
        yield (
            *(frame.snapshot.wall_ns, seconds, path, jobs),
            *scalar_cells(group.memory, _CGROUP_MEMORY),
            *metric_cells(rates.get(path), CgroupRates),
        )


def _event_rows(frame: Frame, cmdline: str) -> Iterator[Row]:
    for event in frame.snapshot.events:
        yield event.wall_ns, event.kind, event.text if cmdline == "full" else event_text(event, cmdline)
