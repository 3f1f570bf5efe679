"""CPU time: /proc/stat, in clock ticks. Source: https://docs.kernel.org/filesystems/proc.html, part 1.7."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, NamedTuple

from iotop_ai.model.counter import quotient
from iotop_ai.model.metric import Metric


class CpuTicks(NamedTuple):
    """One cpu line of /proc/stat in ticks; guest time is inside user and nice.

    idle None: not kept of this core. It is the rest of the time, and its digits are most of what an idle machine with
    many cores would record.
    """

    user: int
    nice: int
    system: int
    idle: int | None
    iowait: int
    irq: int
    softirq: int
    steal: int


class CpuTable(NamedTuple):
    """All cores. cores: core number to ticks. allowed: cores that this process may run on; physical: None unknown.

    total: the sum over ``cores`` with its idle time, where theirs is not kept. clk_tck: ticks a second.
    """

    cores: Mapping[int, CpuTicks]
    allowed: int
    physical: int | None
    load1: float | None = None
    ctxt: int | None = None
    total: CpuTicks | None = None
    clk_tck: int = 100


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


def core_rates(before: CpuTicks, after: CpuTicks, ticks: int | None = None) -> CoreRates:
    """Shares from two readings of one core. iowait and idle may fall by a tick (kernel): then 0 for that part.

    ticks: how many lie between the readings, for a core whose idle time is not kept.
    """
    if before.idle is None or after.idle is None:
        if ticks is None:
            return UNKNOWN_CORE
        did = busy_ticks(before, after)
        before, after = before._replace(idle=0), after._replace(idle=max(0, ticks - did))
    grown = [max(0, (b or 0) - (a or 0)) for a, b in zip(before, after, strict=True)]
    whole = sum(grown)
    user, nice, system, idle, iowait, irq, softirq, steal = grown
    return CoreRates(
        quotient(whole - idle - iowait - steal, whole),
        quotient(user + nice, whole),
        quotient(system + irq + softirq, whole),
        quotient(iowait, whole),
        quotient(steal, whole),
    )


def busy_ticks(before: CpuTicks, after: CpuTicks) -> int:
    """Ticks that a core was not idle; iowait, which is idle time with another name, counts as well."""
    pairs = zip(before._replace(idle=0), after._replace(idle=0), strict=True)
    return sum(max(0, (b or 0) - (a or 0)) for a, b in pairs)


def without_idle(table: CpuTable) -> CpuTable:
    """The table with the idle time of all cores together instead of each core's."""
    if not table.cores or any(ticks.idle is None for ticks in table.cores.values()):
        return table
    return table._replace(
        cores={n: ticks._replace(idle=None) for n, ticks in table.cores.items()}, total=_added(table.cores.values())
    )


def _added(cores: Iterable[CpuTicks]) -> CpuTicks:
    """The sum; idle None where a core's is."""
    rows = list(cores)
    idle = [ticks.idle for ticks in rows if ticks.idle is not None]
    sums = (sum(column) for column in zip(*(ticks._replace(idle=0) for ticks in rows), strict=True))
    return CpuTicks(*sums)._replace(idle=sum(idle) if len(idle) == len(rows) else None)


def cpu_rates(before: CpuTable | None, after: CpuTable, seconds: float | None) -> CpuRates:
    """Shares of each core present in both readings, and of all of them together."""
    if before is None or seconds is None:
        return CpuRates(UNKNOWN_CORE, dict.fromkeys(after.cores, UNKNOWN_CORE), None)
    ticks = round(seconds * after.clk_tck)
    cores = {
        n: core_rates(old, now, ticks) if (old := before.cores.get(n)) is not None else UNKNOWN_CORE
        for n, now in after.cores.items()
    }
    both = [n for n in after.cores if n in before.cores]
    mean = UNKNOWN_CORE
    if before.total is not None and after.total is not None and before.cores.keys() == after.cores.keys():
        mean = core_rates(before.total, after.total)
    elif both:
        old, new = (_added(t.cores[n] for n in both) for t in (before, after))
        mean = core_rates(old, new, ticks * len(both))
    known = {n: c.busy_ratio for n, c in cores.items() if c.busy_ratio is not None}
    busiest = max(known, key=lambda n: known[n], default=None)
    return CpuRates(mean, cores, busiest)
