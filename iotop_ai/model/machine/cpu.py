"""CPU time from /proc/stat, in clock ticks. Source: https://docs.kernel.org/filesystems/proc.html, part 1.7."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.metric import Metric


class CpuTicks(NamedTuple):
    """One cpu line of /proc/stat in ticks; guest time is part of user and nice.

    idle is None if it is left out: it follows from the length of the interval, and would fill most of the recording of
    an idle machine.
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
    """The ticks of all cores.

    cores: the ticks of each core, by its number
    allowed: the number of cores that the monitor can run on
    physical: the number of physical cores; None if unknown
    total: the sum over all cores, including idle time; set only if the idle time of the cores is left out
    clk_tck: the number of ticks per second
    allowed_numbers: the numbers of the cores that the monitor can run on, in ascending order; None if these are all
        cores, or if they are unknown
    """

    cores: Mapping[int, CpuTicks]
    allowed: int
    physical: int | None
    load1: float | None = None
    ctxt: int | None = None
    total: CpuTicks | None = None
    clk_tck: int = 100
    allowed_numbers: tuple[int, ...] | None = None


class CoreRates(NamedTuple):
    """Shares of the time of one core or of all cores, 0 to 1. iowait is unreliable, as the kernel documents."""

    busy_ratio: Annotated[float | None, Metric("ratio", "Share of time in user code or in the kernel.")]
    user_ratio: Annotated[float | None, Metric("ratio", "Share of time in user code, nice included.")]
    system_ratio: Annotated[float | None, Metric("ratio", "Share of time in the kernel, interrupts included.")]
    iowait_ratio: Annotated[float | None, Metric("ratio", "Share of time idle with I/O outstanding.", "%iowait")]
    steal_ratio: Annotated[float | None, Metric("ratio", "Share of time taken by the hypervisor.", "%steal")]

    @property
    def free_ratio(self) -> float | None:
        """The share of time that is available: neither busy nor stolen. Waiting for I/O counts as available."""
        return None if self.busy_ratio is None else max(0.0, 1.0 - self.busy_ratio - (self.steal_ratio or 0.0))


UNKNOWN_CORE = CoreRates(None, None, None, None, None)


class CpuRates(NamedTuple):
    """CPU use between two readings.

    all: the mean over the cores
    busiest: the number of the busiest core; None if unknown
    """

    all: CoreRates
    cores: Mapping[int, CoreRates]
    busiest: int | None


def core_rates(before: CpuTicks, after: CpuTicks, ticks: int | None = None) -> CoreRates:
    """The shares of one core between two readings.

    The kernel's iowait and idle may fall by a tick; a share whose counter fell is 0.

    ticks: the number of ticks between the readings, for a core whose idle time is left out
    """
    user0, nice0, system0, idle0, iowait0, irq0, softirq0, steal0 = before
    user1, nice1, system1, idle1, iowait1, irq1, softirq1, steal1 = after
    # Written out for speed, because it runs for each of many cores every second.
    user = (user1 - user0 if user1 > user0 else 0) + (nice1 - nice0 if nice1 > nice0 else 0)
    system = system1 - system0 if system1 > system0 else 0
    system += (irq1 - irq0 if irq1 > irq0 else 0) + (softirq1 - softirq0 if softirq1 > softirq0 else 0)
    iowait = iowait1 - iowait0 if iowait1 > iowait0 else 0
    steal = steal1 - steal0 if steal1 > steal0 else 0
    not_idle = user + system + iowait + steal
    if idle0 is not None and idle1 is not None:
        idle = max(0, idle1 - idle0)
    elif ticks is not None:
        idle = max(0, ticks - not_idle)
    else:
        return UNKNOWN_CORE
    whole = not_idle + idle
    if not whole:
        return UNKNOWN_CORE
    busy = user + system
    return CoreRates(busy / whole, user / whole, system / whole, iowait / whole, steal / whole)


def without_idle(table: CpuTable) -> CpuTable:
    """The table without the idle time of each core, but with ``total``; unchanged if it lacks an idle time already."""
    kept = {}
    for n, (user, nice, system, idle, iowait, irq, softirq, steal) in table.cores.items():
        if idle is None:
            return table
        kept[n] = CpuTicks(user, nice, system, None, iowait, irq, softirq, steal)
    if not kept:
        return table
    total = CpuTicks(*map(sum, zip(*table.cores.values(), strict=True)))
    return table._replace(cores=kept, total=total)


def _sum_over_cores(cores: Iterable[CpuTicks]) -> CpuTicks:
    """The sum over the cores; its idle time is None if that of any core is None."""
    sums = [None if None in column else sum(column) for column in zip(*cores, strict=True)]
    return CpuTicks(*sums)  # type: ignore[arg-type]  # only the idle time can be None


def cpu_rates(before: CpuTable | None, after: CpuTable, seconds: float | None) -> CpuRates:
    """The shares of each core, and the mean over the cores that are in both readings; other cores are unknown."""
    if before is None or seconds is None:
        return CpuRates(UNKNOWN_CORE, dict.fromkeys(after.cores, UNKNOWN_CORE), None)
    ticks = round(seconds * after.clk_tck)
    cores = {
        n: core_rates(old, now, ticks) if (old := before.cores.get(n)) is not None else UNKNOWN_CORE
        for n, now in after.cores.items()
    }
    in_both = [n for n in after.cores if n in before.cores]
    mean = UNKNOWN_CORE
    if before.total is not None and after.total is not None and before.cores.keys() == after.cores.keys():
        mean = core_rates(before.total, after.total)
    elif in_both:
        old, new = (_sum_over_cores(t.cores[n] for n in in_both) for t in (before, after))
        mean = core_rates(old, new, ticks * len(in_both))
    busy = {n: c.busy_ratio for n, c in cores.items() if c.busy_ratio is not None}
    busiest = max(busy, key=lambda n: busy[n], default=None)
    return CpuRates(mean, cores, busiest)
