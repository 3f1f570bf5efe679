"""Reads the CPU time of each core, the load average, and the number of usable cores."""

from __future__ import annotations

import os

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import KeptFile, Root
from iotop_ai.model.machine.cpu import CpuTable, CpuTicks

_CPUS = "sys/devices/system/cpu"
_FIELD_COUNT = 9
"""The number of fields that are read from a /proc/stat line: the name and eight counts.

The last two fields of the line, guest and guest_nice, are not read, because user and nice include them.
"""
_MISSING_COUNTS = (0,) * (_FIELD_COUNT - 1)
"""Zeros for the counts that a line does not have."""


def parse_cpu_stat(raw: bytes) -> dict[int, CpuTicks]:
    """Return the ticks by core number from /proc/stat. An offline core has no line; missing counts are 0.

    Sample: cpu2 3130 0 1544 136911 572 0 27 7 5 0 (user nice system idle iowait irq softirq steal guest guest_nice).
    Source: https://docs.kernel.org/filesystems/proc.html, part 1.7.
    """
    cores = {}
    for line in raw.partition(b"\nintr")[0].splitlines():
        name, *ticks = line.split(None, _FIELD_COUNT)[:_FIELD_COUNT]
        if name[:3] == b"cpu" and name[3:].isdigit():
            cores[int(name[3:])] = CpuTicks(*map(int, ticks), *_MISSING_COUNTS[len(ticks) :])
    return cores


class CpuCollector:
    """Reads the ticks of every online core from /proc/stat, and counts the physical cores.

    The number of physical cores is None in the first reading, because counting them reads a file for each core, which
    would delay the start. It is always None with --procfs or --sysfs, or for a saved copy of /proc. psutil counts the
    cores only if the kernel does not show the CPU's topology, because importing psutil costs a megabyte.
    """

    field = "cpu"
    every_s = 0.0

    def __init__(self, root: Root, clock: Clock) -> None:
        self._root = root
        self._clock = clock
        self._at_ns: int | None = None
        self._clk_tck = os.sysconf("SC_CLK_TCK")
        self._stat: KeptFile | None = None
        self._load: KeptFile | None = None
        self._physical: int | None = None
        self._online_count = -1
        self._allowed_numbers: tuple[int, ...] | None = None
        """The numbers of the cores on which the monitor can run; None for all cores and when unknown.

        If they do not change, the tuple stays the same object.
        """

    def read(self) -> CpuTable:
        """Read all online cores. Raises OSError when /proc/stat cannot be read."""
        is_first_reading = self._stat is None
        if self._stat is None:
            self._stat = self._root.keep("proc/stat", 1 << 14)
        raw = self._stat.read_record()
        # Counting the physical cores takes long on a big machine; a later time would make the rates wrong.
        self._at_ns = self._clock.monotonic_ns()
        cores = parse_cpu_stat(raw)
        if self._root.live and not is_first_reading and len(cores) != self._online_count:
            # The number of physical cores can change only when the number of online cores changes.
            self._physical, self._online_count = cores_in_topology(self._root) or _physical_from_psutil(), len(cores)
        allowed = os.sched_getaffinity(0) if self._root.live else cores.keys()
        if not allowed < cores.keys():
            # Either all cores are allowed, or a container has given the cores other numbers.
            self._allowed_numbers = None
        elif self._allowed_numbers is None or allowed != set(self._allowed_numbers):
            self._allowed_numbers = tuple(sorted(allowed))
        return CpuTable(
            cores, len(allowed), self._physical, self._load1(), clk_tck=self._clk_tck,
            allowed_numbers=self._allowed_numbers,
        )  # fmt: skip

    def at_ns(self) -> int | None:
        """Return when the kernel printed the newest ticks; None before the first read."""
        return self._at_ns

    def _load1(self) -> float | None:
        try:
            if self._load is None:
                self._load = self._root.keep("proc/loadavg", 256)
            return float(self._load.read_record().split(None, 1)[0])
        except (OSError, ValueError, IndexError):
            return None

    def close(self) -> None:
        """Close the files that are kept open."""
        for file in (self._stat, self._load):
            if file is not None:
                file.close()
        self._stat = self._load = None


def cores_in_topology(root: Root) -> int | None:
    """Return the number of physical cores; None when the kernel does not list them.

    It is the number of distinct sets of sibling threads. Source: core_cpus_list, or up to Linux 5.3
    thread_siblings_list, https://docs.kernel.org/admin-guide/cputopology.html.
    """
    for name in ("core_cpus_list", "thread_siblings_list"):
        threads = {
            root.text_or(f"{_CPUS}/{cpu}/topology/{name}")
            for cpu in root.names(_CPUS)
            if cpu[:3] == "cpu" and cpu[3:].isdigit()
        } - {""}
        if threads:
            return len(threads)
    return None


def _physical_from_psutil() -> int | None:
    from iotop_ai.collectors.io.psutil_calls import physical_cores

    return physical_cores()
