"""The table ``system``: the machine as a whole, one row per interval."""

from __future__ import annotations

from collections.abc import Iterator

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
    texts,
)
from iotop_ai.model.block.counters import BlockTotals, block_totals
from iotop_ai.model.frame import Frame
from iotop_ai.model.machine.cpu import CoreRates
from iotop_ai.model.machine.cpu_clocks import ClockRates
from iotop_ai.model.machine.memory import MemoryRates, MemoryState
from iotop_ai.model.machine.pool import PoolRates
from iotop_ai.model.machine.pressure import PressureRates
from iotop_ai.model.machine.tcp import TcpRates
from iotop_ai.model.reading import Rated

_RESOURCES = ("cpu", "io", "memory")
_LEVELS = tuple(c for c in scalar_columns(MemoryState, skip=("page_bytes",)) if c.name.endswith("_bytes"))
_TOTALS = tuple(Column("total_" + name, "real", "B/s" if "bytes" in name else "1/s") for name in BlockTotals._fields)

COLUMNS = (
    TIME,
    INTERVAL,
    *texts("host", "origin"),
    Column("gap", "bool", "", "More than three intervals since the last Snapshot."),
    *texts("state", "class"),
    *_TOTALS,
    *metric_columns(CoreRates, "cpu_"),
    Column("cpu_cores", "int"),
    Column("cpu_allowed", "int", "", "Cores allowed for the monitor."),
    Column("busiest_core", "int"),
    Column("busiest_core_busy_ratio", "real", "ratio"),
    Column("load1", "real"),
    *(Column("memory_" + c.name, c.kind, c.unit) for c in _LEVELS),
    *metric_columns(MemoryRates),
    *(c for name in _RESOURCES for c in metric_columns(PressureRates, f"pressure_{name}_")),
    *metric_columns(TcpRates, "tcp_"),
    *metric_columns(ClockRates, "clock_"),
    *metric_columns(PoolRates),
    Column("processes", "int"),
    Column("processes_in_state_d", "int"),
    Column("processes_not_permitted", "int", "", "Processes whose I/O the monitor is not permitted to read."),
    Column("self_cpu_ratio", "real", "ratio", "The monitor's own share of one core."),
    Column("self_rss_bytes", "int", "B"),
)


def _totals(frame: Frame) -> Row:
    rates, infos = frame.sample.block.value, frame.snapshot.disks.value
    if rates is None or infos is None:
        return (None,) * len(_TOTALS)
    return tuple(block_totals(rates, infos.values()))


def _cpu(frame: Frame) -> Row:
    table, rates = frame.snapshot.cpu.value, frame.sample.cpu.value
    if table is None or rates is None:
        return (None,) * (len(CoreRates._fields) + 5)  # the rates, then the columns from cpu_cores to load1
    busiest = None if rates.busiest is None else rates.cores[rates.busiest].busy_ratio
    figures = (len(table.cores), table.allowed, rates.busiest, busiest, table.load1)
    return (*metric_cells(rates.all, CoreRates), *figures)


def _processes(frame: Frame) -> Row:
    table = frame.snapshot.processes.value
    if table is None:
        return (None, None, None)
    return len(table.info), sum(stat.state == "D" for stat in table.stat.values()), len(table.denied)


def rows(frame: Frame) -> Iterator[Row]:
    """The row of a Frame; no row for the first Snapshot, which does not end an interval, or without a new Reading."""
    snapshot, sample = frame.snapshot, frame.sample
    if sample.seconds is None or not any(part.renewed for part in sample if isinstance(part, Rated)):
        return
    pressure = sample.pressure.value or {}
    primary = frame.verdict.primary
    yield (
        snapshot.wall_ns,
        sample.seconds,
        snapshot.host.name,
        snapshot.host.origin or None,
        sample.gap,
        primary.state.value,
        primary.class_id,
        *_totals(frame),
        *_cpu(frame),
        *scalar_cells(snapshot.memory.value, _LEVELS),
        *metric_cells(sample.memory.value, MemoryRates),
        *(cell for name in _RESOURCES for cell in metric_cells(pressure.get(name), PressureRates)),
        *metric_cells(sample.tcp.value, TcpRates),
        *metric_cells(sample.clocks.value, ClockRates),
        *metric_cells(sample.pools.value, PoolRates),
        *_processes(frame),
        sample.own.cpu_ratio,
        sample.own.rss_bytes,
    )


SYSTEM = Table("system", COLUMNS, rows)
