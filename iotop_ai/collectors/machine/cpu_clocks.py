"""Reads the clocks of the CPUs, and the thermal throttle counts of cores and packages.

Source: /sys/devices/system/cpu, where a CPU is a hardware thread of a core.
"""

from __future__ import annotations

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.machine.cpu_clocks import ClockState
from iotop_ai.model.reading import Status

CPUS = "sys/devices/system/cpu"
PER_READING = 64
"""The number of CPUs whose clocks one reading reads; each of their files takes 10 µs.

If there are more CPUs, the readings read their clocks in rotation, and so many at once that a round takes ``ROUND_NS``.
"""
ROUND_NS = 12_000_000_000
"""The time in which the clocks of all CPUs are read once, in nanoseconds, unless their files are slow."""
OLDEST_NS = 15_000_000_000
"""The age below which a clock is used, in nanoseconds; a round must fit into it."""
_LONGEST_NS = 30_000_000
"""The time after which a reading reads no further clock, in nanoseconds.

Before Linux 5.19, x86 waits 10 ms for each busy CPU (arch_freq_get_on_cpu in arch/x86/kernel/cpu/aperfmperf.c).
"""
_CORE_THROTTLES, _PACKAGE_THROTTLES = "thermal_throttle/core_throttle_count", "thermal_throttle/package_throttle_count"


class ClocksCollector:
    """Reads the clocks of the CPUs, and the throttle counts of the cores and packages.

    Each reading reads all throttle counts, because a rate needs the growth between two readings. It reads the clocks of
    ``PER_READING`` CPUs or more, fewer if that takes long, and keeps the clocks of the others until they are 15 s old.
    The lowest and the highest clock are unknown while that of a CPU is missing; the mean is then that of the others.
    """

    field = "clocks"
    every_s = 5.0

    def __init__(self, root: Root, clock: Clock = Clock()) -> None:  # noqa: B008 - it has no state
        self._root = root
        self._clock = clock
        self._cpus: list[str] | None = None
        self._next = 0
        self._began_ns: int | None = None
        """The time at which the previous reading began."""
        self._khz: dict[str, tuple[int | None, int]] = {}
        """(the clock, the time of its read) by CPU."""
        self._packages: set[str] = set()
        """The first CPU of each package with a throttle count."""
        self._cores: set[str] = set()
        """The first CPU of each core with a throttle count."""
        self._counts: dict[tuple[str, str], int] = {}
        """The newest known throttle counts by (CPU, name)."""
        self._fixed_khz: tuple[int | None, int | None] = (None, None)
        """(the base clock, the highest clock) of the first CPU."""

    def read(self) -> ClockState:
        """Return the clocks and the throttle counts.

        Raises Unavailable when no CPU reports any of them, as in most virtual machines, and OSError when the CPUs
        cannot be listed because we lack the permission or too many files are open.
        """
        if self._cpus is None:
            self._find()
        cpus = self._cpus or []
        if not cpus:
            raise Unavailable(Status.ABSENT, "no core reports its clock or its throttling")
        self._read_clocks(cpus)
        counts = [self._throttle_count(cpu, _CORE_THROTTLES) for cpu in self._cores]
        packages = [self._throttle_count(cpu, _PACKAGE_THROTTLES) for cpu in self._packages]
        return ClockState(
            *self._least_mean_most(len(cpus)),
            *self._fixed_khz,
            core_throttles=_sum_if_complete(counts),
            package_throttles=_sum_if_complete(packages),
        )

    def _read_clocks(self, cpus: list[str]) -> None:
        now_ns = began_ns = self._clock.monotonic_ns()
        elapsed_ns = 0 if self._began_ns is None else began_ns - self._began_ns
        self._began_ns = began_ns
        count = min(len(cpus), max(PER_READING, -(-len(cpus) * elapsed_ns // ROUND_NS)))
        for cpu in (cpus + cpus)[self._next : self._next + count]:
            khz = self._root.number_read_once(f"{CPUS}/{cpu}/cpufreq/scaling_cur_freq")
            now_ns = self._clock.monotonic_ns()
            self._khz[cpu] = khz, now_ns
            self._next = (self._next + 1) % len(cpus)
            if now_ns >= began_ns + _LONGEST_NS:
                break
        self._khz = {cpu: value for cpu, value in self._khz.items() if now_ns - value[1] < OLDEST_NS}

    def _least_mean_most(self, cpu_count: int) -> tuple[int | None, int | None, int | None]:
        khz = [value for value, _ in self._khz.values() if value is not None]
        if not khz:
            return None, None, None
        mean = sum(khz) // len(khz)
        return (min(khz), mean, max(khz)) if len(self._khz) == cpu_count else (None, mean, None)

    def _find(self) -> None:
        """Find the CPUs with clocks or throttle counts, each package's and core's first CPU, and the fixed clocks."""
        names = [name for name in self._root.entries(CPUS) if name[:3] == "cpu" and name[3:].isdigit()]
        cpus = [
            name
            for name in sorted(names, key=lambda name: int(name[3:]))
            if self._root.exists(f"{CPUS}/{name}/cpufreq") or self._root.exists(f"{CPUS}/{name}/thermal_throttle")
        ]
        packages: dict[str, str] = {}
        cores: dict[str, str] = {}
        for name in cpus:
            packages.setdefault(self._root.text_or(f"{CPUS}/{name}/topology/physical_package_id"), name)
            # All threads of a core show the same throttle count.
            cores.setdefault(self._root.text_or(f"{CPUS}/{name}/topology/thread_siblings_list", name), name)
        self._packages = {
            name for name in packages.values() if self._root.exists(f"{CPUS}/{name}/{_PACKAGE_THROTTLES}")
        }
        self._cores = {name for name in cores.values() if self._root.exists(f"{CPUS}/{name}/{_CORE_THROTTLES}")}
        if cpus:
            folder = f"{CPUS}/{cpus[0]}"
            base = self._root.number_read_once(f"{folder}/cpufreq/base_frequency")
            nominal_mhz = self._root.number_read_once(f"{folder}/acpi_cppc/nominal_freq") if base is None else None
            base = nominal_mhz * 1000 if nominal_mhz else base
            self._fixed_khz = (base, self._root.number_read_once(f"{folder}/cpufreq/cpuinfo_max_freq"))
        self._cpus = cpus

    def _throttle_count(self, cpu: str, name: str) -> int | None:
        """Return a throttle count of a CPU: the last known one while the CPU is offline, so that sums do not jump."""
        count = self._root.number_read_once(f"{CPUS}/{cpu}/{name}")
        if count is not None:
            self._counts[cpu, name] = count
        return self._counts.get((cpu, name))

    def close(self) -> None:
        """Do nothing: no file stays open."""


def _sum_if_complete(counts: list[int | None]) -> int | None:
    """Return the sum of the counts; None if a count is unknown, or if there are no counts."""
    known_counts = [count for count in counts if count is not None]
    return sum(known_counts) if known_counts and len(known_counts) == len(counts) else None
