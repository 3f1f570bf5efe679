"""Metrics of disks: the kernel's counters, the figures that a query cannot compute from the counters, and SMART."""

from __future__ import annotations

from collections.abc import Collection

from iotop_ai.export.prometheus.families import GAUGE, INFO, Family, columns_of, families_of, family, label_text
from iotop_ai.model.block.counters import BlockCounters, BlockInfo, BlockRates, uncounted_heads
from iotop_ai.model.block.tree import hidden_when_idle
from iotop_ai.model.frame import Frame
from iotop_ai.model.health.smart import SmartState

MOST_DISKS = 256
DISK, SMART = "iotop_disk", "iotop_smart"
RATES = frozenset(("read_await_ms", "write_await_ms", "await_ms", "queue_size", "busy_ratio", "in_flight"))
"""The exported rates. A query computes every other rate from a counter, for example
``rate(iotop_disk_read_bytes_total[1m])``."""
LEFT_OUT = frozenset(BlockRates._fields) - RATES
SEVERITIES = {"ok": 0, "warning": 1, "critical": 2}


def disk_families(frame: Frame, devices: Collection[str] = ()) -> list[Family]:
    """The families of whole disks and arrays, at most MOST_DISKS of them. devices: only these; () for all.

    Partitions, paths to an NVMe disk and unused loop, RAM and removable devices are left out.
    """
    table, infos = frame.snapshot.block.value or {}, frame.snapshot.disks.value or {}
    heads = uncounted_heads(table)  # NVMe disks whose I/O the kernel counts only at their paths
    entries = []
    for key, counters in table.items():
        info = infos.get(key.name)
        idle = counters.rd_ios + counters.wr_ios == 0 and key not in heads
        if (devices and key.name not in devices) or (info is not None and _is_left_out(info, idle)):
            continue
        entries.append((key, counters, info, label_text((("device", key.name),))))
    entries = entries[:MOST_DISKS]
    rates = frame.sample.block.value or {}
    counter_rows = [
        (labels, counters)
        for key, counters, info, labels in entries
        if key not in heads and not (info and info.stats_off)
    ]
    return [
        *families_of(columns_of(DISK, BlockCounters), counter_rows),
        *families_of(
            columns_of(DISK, BlockRates, LEFT_OUT),
            [(labels, rates[key]) for key, _, _, labels in entries if key in rates],
        ),
        family(
            *(DISK, INFO, "Identity of a disk, for joins."),
            [(_identity(info), 1) for _, _, info, _ in entries if info is not None],
        ),
    ]


def _is_left_out(info: BlockInfo, idle: bool) -> bool:
    return info.kind in ("partition", "nvme-path") or (idle and hidden_when_idle(info))


def _identity(info: BlockInfo) -> tuple[tuple[str, str], ...]:
    return (
        ("device", info.name),
        ("kind", info.kind),
        ("label", info.label if info.label != info.name else ""),
        ("model", info.model),
        ("serial", info.serial),
        ("transport", info.transport),
    )


def smart_families(frame: Frame, devices: Collection[str] = ()) -> list[Family]:
    """The SMART figures of each disk that answered, from its newest answer, which may be minutes old."""
    answers = [
        (name, reading)
        for name, reading in (frame.snapshot.smart.value or {}).items()
        if reading.value is not None and (not devices or name in devices)
    ][:MOST_DISKS]
    rows = [(label_text((("device", name),)), reading.value) for name, reading in answers]
    now_ns = frame.snapshot.at_ns
    return [
        *families_of(columns_of(SMART, SmartState), rows),
        family(
            *(
                f"{SMART}_severity",
                GAUGE,
                "0 ok, 1 warning, 2 critical; absent where the disk reports nothing to judge.",
            ),
            [
                ((("device", name),), SEVERITIES.get(reading.value.severity))
                for name, reading in answers
                if reading.value is not None
            ],
        ),
        family(
            *(f"{SMART}_age_seconds", GAUGE, "Age of the disk's answer."),
            [
                ((("device", name),), None if reading.at_ns is None else max(0, now_ns - reading.at_ns) / 1e9)
                for name, reading in answers
            ],
            "seconds",
        ),
    ]
