"""Metrics of the rest of the machine, of the collectors, and of the monitor's own cost."""

from __future__ import annotations

from iotop_ai import __version__
from iotop_ai.export.prometheus.families import GAUGE, INFO, Family, columns_of, families_of, family, label_text
from iotop_ai.model.frame import Frame
from iotop_ai.model.machine.cpu import CoreRates
from iotop_ai.model.machine.memory import MemoryState
from iotop_ai.model.machine.network import LinkCounters
from iotop_ai.model.machine.pressure import PressureTotals
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import OwnCost, Snapshot

MOST_LINKS = 32
COLLECTOR, MONITOR = "iotop_collector", "iotop_monitor"
COLLECTORS = tuple(
    name
    for name, default in Snapshot._field_defaults.items()
    if isinstance(default, Reading) and name != "baselines"  # only one Snapshot of a session has baselines
)
"""The fields of a Snapshot whose Readings are exported with their status and age."""


def machine_families(frame: Frame) -> list[Family]:
    """The families of CPU, memory, pressure and network links."""
    now, sample = frame.snapshot, frame.sample
    links = [
        (label_text((("device", name),)), link)
        for name, link in (now.network.value or {}).items()
        if link.kind != "nic" or link.place  # no bonds, bridges or VLANs: their bytes also pass through another link
    ][:MOST_LINKS]
    # The kernel does not define "full" for the CPU of the whole system, and prints 0.
    pressure = [
        (label_text((("resource", name),)), totals if name != "cpu" else totals._replace(full_us=None))
        for name, totals in (now.pressure.value or {}).items()
        if not name.startswith("cgroup:")
    ]
    cpu, memory = sample.cpu.value, now.memory.value
    return [
        *families_of(columns_of("iotop_cpu", CoreRates), [] if cpu is None else [("", cpu.all)]),
        *families_of(columns_of("iotop_memory", MemoryState), [] if memory is None else [("", _with_4k_pages(memory))]),
        *families_of(columns_of("iotop_pressure", PressureTotals), pressure),
        *families_of(columns_of("iotop_network", LinkCounters), links),
    ]


def _with_4k_pages(memory: MemoryState) -> MemoryState:
    """The memory state with its pages counted in units of 4 KiB, because the export converts pages at that size."""
    if memory.page_bytes == 4096:
        return memory
    names = [name for name in memory._fields if name.endswith("_pages") and getattr(memory, name) is not None]
    return memory._replace(**{name: getattr(memory, name) * memory.page_bytes // 4096 for name in names})


def monitor_families(frame: Frame) -> list[Family]:
    """The families about iotop-ai itself: the monitor's own cost and version, and how current the figures are.

    For each collector they contain its status, and the age and duration of its newest reading.
    """
    now = frame.snapshot
    readings: list[tuple[str, Reading[object]]] = [(name, getattr(now, name)) for name in COLLECTORS]
    readings = [
        (name, reading) for name, reading in readings if reading.at_ns is not None or reading.status != Status.PENDING
    ]
    return [
        family(
            *(f"{COLLECTOR}_status", GAUGE, "1 for the status that the collector has now."),
            [((("collector", name), ("status", reading.status.value)), 1) for name, reading in readings],
        ),
        family(
            *(f"{COLLECTOR}_age_seconds", GAUGE, "Age of the collector's newest reading."),
            [
                ((("collector", name),), None if reading.at_ns is None else max(0, now.at_ns - reading.at_ns) / 1e9)
                for name, reading in readings
            ],
            "seconds",
        ),
        family(
            *(f"{COLLECTOR}_duration_seconds", GAUGE, "Time that the collector's newest reading took."),
            [
                ((("collector", name),), reading.took_ns / 1e9)
                for name, reading in readings
                if reading.at_ns is not None
            ],
            "seconds",
        ),
        *families_of(columns_of(MONITOR, OwnCost), [("", now.own)]),
        family(
            *(f"{MONITOR}_reading_timestamp_seconds", GAUGE, "Unix time of the newest reading."),
            [((), now.wall_ns / 1e9)],
            "seconds",
        ),
        family(
            *("iotop_build", INFO, "The version of iotop-ai and of the kernel."),
            [((("version", __version__), ("kernel", now.host.kernel)), 1)],
        ),
    ]
