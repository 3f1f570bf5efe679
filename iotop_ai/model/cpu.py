"""CPU time: /proc/stat, in clock ticks. Source: https://docs.kernel.org/filesystems/proc.html, part 1.7."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from iotop_ai.model.counter import quotient
from iotop_ai.model.metric import Metric


class CpuTicks(NamedTuple):
    """One cpu line of /proc/stat in ticks; guest time is inside user and nice."""

    user: int
    nice: int
    system: int
    idle: int
    iowait: int
    irq: int
    softirq: int
    steal: int


class CpuTable(NamedTuple):
    """All cores. cores: core number to ticks. allowed: cores that this process may run on; physical: None unknown."""

    cores: Mapping[int, CpuTicks]
    allowed: int
    physical: int | None
    load1: float | None = None
    ctxt: int | None = None


class CoreRates(NamedTuple):
    """Shares of one core's (or all cores') time, 0..1. iowait is only a hint: the kernel calls it unreliable."""

    busy_ratio: Annotated[float | None, Metric("ratio", "Share of time not idle and not in iowait.")]
    user_ratio: Annotated[float | None, Metric("ratio", "Share of time in user code, nice included.")]
    system_ratio: Annotated[float | None, Metric("ratio", "Share of time in the kernel, interrupts included.")]
    iowait_ratio: Annotated[float | None, Metric("ratio", "Share of idle time with I/O outstanding.", "%iowait")]
    steal_ratio: Annotated[float | None, Metric("ratio", "Share of time taken by the hypervisor.", "%steal")]


UNKNOWN_CORE = CoreRates(None, None, None, None, None)


class CpuRates(NamedTuple):
    """all: mean over cores. busiest: the busiest core's number, None when unknown."""

    all: CoreRates
    cores: Mapping[int, CoreRates]
    busiest: int | None


def core_rates(before: CpuTicks, after: CpuTicks) -> CoreRates:
    """Shares from two readings of one core. iowait and idle may fall by a tick (kernel): then 0 for that part."""
    grown = [max(0, b - a) for a, b in zip(before, after, strict=True)]
    whole = sum(grown)
    user, nice, system, idle, iowait, irq, softirq, steal = grown
    return CoreRates(
        quotient(whole - idle - iowait - steal, whole),
        quotient(user + nice, whole),
        quotient(system + irq + softirq, whole),
        quotient(iowait, whole),
        quotient(steal, whole),
    )


def cpu_rates(before: CpuTable | None, after: CpuTable, seconds: float | None) -> CpuRates:
    """Shares of each core present in both readings, and of all of them together."""
    if before is None or seconds is None:
        return CpuRates(UNKNOWN_CORE, dict.fromkeys(after.cores, UNKNOWN_CORE), None)
    cores = {
        n: core_rates(old, ticks) if (old := before.cores.get(n)) is not None else UNKNOWN_CORE
        for n, ticks in after.cores.items()
    }
    both = [n for n in after.cores if n in before.cores]
    mean = UNKNOWN_CORE
    if both:
        add = [CpuTicks(*map(sum, zip(*(t.cores[n] for n in both), strict=True))) for t in (before, after)]
        mean = core_rates(add[0], add[1])
    known = {n: c.busy_ratio for n, c in cores.items() if c.busy_ratio is not None}
    busiest = max(known, key=lambda n: known[n], default=None)
    return CpuRates(mean, cores, busiest)
