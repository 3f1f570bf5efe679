"""A job's own cgroup: its I/O by device, memory and limits, CPU quota and pressure.

Sources: https://docs.kernel.org/admin-guide/cgroup-v2.html (io.stat, memory.current, memory.stat, memory.events,
cpu.stat, cpu.max), https://docs.kernel.org/admin-guide/cgroup-v1/blkio-controller.html and memory.html,
https://docs.kernel.org/scheduler/sched-bwc.html, https://docs.kernel.org/accounting/psi.html.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.block.counters import BlockInfo
from iotop_ai.model.counter import delta, per_second, quotient
from iotop_ai.model.job.cgroup_disks import DiskStacks, disk_stacks
from iotop_ai.model.machine.pressure import PressureTotals, pressure_rates
from iotop_ai.model.metric import Metric
from iotop_ai.model.process.records import ProcessKey


class CgroupIo(NamedTuple):
    """The I/O counters of a cgroup and its descendants on one device; None if the kernel does not count the figure."""

    read_bytes: int | None
    write_bytes: int | None
    reads: int | None
    writes: int | None


class CgroupMemory(NamedTuple):
    """The memory of a cgroup. None means unknown or, for a limit, not set. Refaults and events are counters.

    refaults: file pages that were read again soon after they were evicted
    high_events: how often the cgroup went over memory.high
    max_events: how often the cgroup reached memory.max (v1: memory.limit_in_bytes)
    """

    current_bytes: int | None = None
    high_bytes: int | None = None
    max_bytes: int | None = None
    anon_bytes: int | None = None
    file_bytes: int | None = None
    refaults: int | None = None
    high_events: int | None = None
    max_events: int | None = None
    oom_kills: int | None = None


class CgroupCpu(NamedTuple):
    """The CPU time of a cgroup: quota_us and period_us are settings, all other fields are counters.

    quota_us: the CPU time that its tasks can use in each period of period_us; None if unlimited
    throttled_us: the time that its tasks could not run because the quota was used up, summed over CPUs
    """

    usage_us: int | None = None
    quota_us: int | None = None
    period_us: int | None = None
    periods: int | None = None
    throttled_periods: int | None = None
    throttled_us: int | None = None


class Cgroup(NamedTuple):
    """One cgroup.

    io: counters by device number ("254:0"); None if I/O is not accounted, or if it could not be read
    pressure: the pressure totals (PSI) of "cpu", "io" and "memory"
    """

    io: Mapping[str, CgroupIo] | None = None
    memory: CgroupMemory = CgroupMemory()
    cpu: CgroupCpu = CgroupCpu()
    pressure: Mapping[str, PressureTotals] = {}


class CgroupTable(NamedTuple):
    """The cgroups of the jobs.

    groups: each cgroup by its path
    jobs: the path of each job's cgroup; a job is left out if it is in the root cgroup, or if its ranks are in different
        cgroups that do not all belong to one batch job, pod or container
    """

    groups: Mapping[str, Cgroup] = {}
    jobs: Mapping[ProcessKey, str] = {}
    page_bytes: int = 4096


class CgroupIoRates(NamedTuple):
    """The I/O rates of a cgroup on one device."""

    read_bytes_per_s: Annotated[float | None, Metric("B/s", "Bytes read from the device per second (io.stat rbytes).")]
    write_bytes_per_s: Annotated[
        float | None, Metric("B/s", "Bytes written to the device per second (io.stat wbytes).")
    ]
    reads_per_s: Annotated[float | None, Metric("1/s", "Reads per second (io.stat rios).")]
    writes_per_s: Annotated[float | None, Metric("1/s", "Writes per second (io.stat wios).")]


class CgroupRates(NamedTuple):
    """The rates of a job's cgroup and its descendants.

    devices: the rates by device number; {} when unknown
    """

    read_bytes_per_s: Annotated[
        float | None,
        Metric("B/s", "Bytes read per second, all disks (io.stat rbytes; each byte once, even if disks are stacked)."),
    ]
    write_bytes_per_s: Annotated[float | None, Metric("B/s", "Bytes written per second, all disks (io.stat wbytes).")]
    cpu_cores: Annotated[float | None, Metric("count", "CPU time used per second, in cores (cpu.stat usage_usec).")]
    throttled_ratio: Annotated[
        float | None,
        Metric("ratio", "Share of the quota's periods in which it ran out (cpu.stat nr_throttled of nr_periods)."),
    ]
    throttled_s_per_s: Annotated[
        float | None, Metric("s/s", "Time that tasks were held back by the quota, all CPUs (cpu.stat throttled_usec).")
    ]
    memory_ratio: Annotated[
        float | None, Metric("ratio", "memory.current against the lower of memory.high and memory.max.")
    ]
    refault_file_bytes_per_s: Annotated[
        float | None, Metric("B/s", "File pages read again after eviction (memory.stat workingset_refault_file).")
    ]
    high_per_s: Annotated[float | None, Metric("1/s", "Times over memory.high per second (memory.events high).")]
    max_per_s: Annotated[
        float | None, Metric("1/s", "Times that memory.max was reached, per second (memory.events max).")
    ]
    io_some_ratio: Annotated[
        float | None, Metric("ratio", "Share of time in which a task waited for I/O (io.pressure).")
    ]
    io_full_ratio: Annotated[
        float | None, Metric("ratio", "Share of time in which all its tasks waited for I/O (io.pressure).")
    ]
    memory_some_ratio: Annotated[
        float | None, Metric("ratio", "Share of time in which a task waited for memory (memory.pressure).")
    ]
    memory_full_ratio: Annotated[
        float | None, Metric("ratio", "Share of time in which all its tasks waited for memory (memory.pressure).")
    ]
    cpu_some_ratio: Annotated[
        float | None, Metric("ratio", "Share of time in which a task waited for a CPU (cpu.pressure).")
    ]
    devices: Mapping[str, CgroupIoRates]


def cgroup_rates(
    before: CgroupTable | None,
    after: CgroupTable,
    seconds: float | None,
    infos: Mapping[str, BlockInfo] | None = None,
) -> dict[str, CgroupRates]:
    """The rates of every cgroup; without an earlier reading, all except ``memory_ratio`` are unknown.

    infos: the devices by kernel name; without them the bytes of all disks are unknown
    """
    old = {} if before is None else before.groups
    stacks = None if infos is None or not after.groups else disk_stacks(infos)
    return {
        path: _rates(old.get(path, Cgroup()), now, after.page_bytes, seconds, stacks)
        for path, now in after.groups.items()
    }


def _rates(old: Cgroup, now: Cgroup, page_bytes: int, seconds: float | None, stacks: DiskStacks | None) -> CgroupRates:
    def rate(before: int | None, after: int | None, scale: float = 1.0) -> float | None:
        per_s = per_second(delta(before, after), seconds)
        return None if per_s is None else per_s * scale

    devices = {} if now.io is None or old.io is None else _io_rates(old.io, now.io, seconds)
    if now.io is None or old.io is None or not seconds:
        stacks = None
    waits = pressure_rates(old.pressure, now.pressure, seconds)
    some = {name: rates.some_ratio for name, rates in waits.items()}
    full = {name: rates.full_ratio for name, rates in waits.items()}
    memory, cpu = now.memory, now.cpu
    limits = [limit for limit in (memory.high_bytes, memory.max_bytes) if limit is not None]
    periods = delta(old.cpu.periods, cpu.periods)
    return CgroupRates(
        None if stacks is None else stacks.sum_once({name: rates.read_bytes_per_s for name, rates in devices.items()}),
        None if stacks is None else stacks.sum_once({name: rates.write_bytes_per_s for name, rates in devices.items()}),
        rate(old.cpu.usage_us, cpu.usage_us, 1e-6),
        quotient(delta(old.cpu.throttled_periods, cpu.throttled_periods), periods),
        rate(old.cpu.throttled_us, cpu.throttled_us, 1e-6),
        quotient(memory.current_bytes, min(limits, default=None)),
        rate(old.memory.refaults, memory.refaults, page_bytes),
        rate(old.memory.high_events, memory.high_events),
        rate(old.memory.max_events, memory.max_events),
        some.get("io"),
        full.get("io"),
        some.get("memory"),
        full.get("memory"),
        some.get("cpu"),
        devices,
    )


_NO_IO = CgroupIo(0, 0, 0, 0)


def _io_rates(
    before: Mapping[str, CgroupIo], after: Mapping[str, CgroupIo], seconds: float | None
) -> dict[str, CgroupIoRates]:
    """The rates by device; a device that ``before`` lacks had no I/O up to that time, so its counters start at 0."""
    return {
        device: CgroupIoRates(
            *(
                per_second(delta(old_count, new_count), seconds)
                for old_count, new_count in zip(before.get(device, _NO_IO), now, strict=True)
            )
        )
        for device, now in after.items()
    }
