"""CPU time per core through psutil, load, and the cores that may be used."""

from __future__ import annotations

import os

import psutil

from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.root import KeptFile, Root
from iotop_ai.model.cpu import CpuTable, CpuTicks

_TICKS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def parse_cpu_list(text: str) -> list[int]:
    """The numbers of a kernel cpu list: "0-3,6" is [0, 1, 2, 3, 6]; [] for what is none.

    Source: https://docs.kernel.org/admin-guide/cputopology.html.
    """
    out: list[int] = []
    try:
        for part in filter(None, text.strip().split(",")):
            first, _, last = part.partition("-")
            out.extend(range(int(first), int(last or first) + 1))
    except ValueError:
        return []
    return out


class CpuCollector:
    """Ticks of every online core from /proc/stat, read by psutil with PROCFS_PATH at our root.

    psutil divides ticks by CLK_TCK; multiplied back and rounded they are the kernel's integers again.
    """

    field = "cpu"
    every_s = 0.0

    def __init__(self, root: Root, clock: Clock) -> None:
        self._root = root
        self._clk_tck = os.sysconf("SC_CLK_TCK")
        self._load: KeptFile | None = None
        self._physical: int | None = None
        self._numbers: list[int] = []

    def read(self) -> CpuTable:
        """All online cores. Raises OSError where /proc/stat cannot be read."""
        psutil.PROCFS_PATH = self._root.join("proc")
        times = psutil.cpu_times(percpu=True)
        if len(times) != len(self._numbers):
            self._numbers = self._core_numbers(len(times))
            # The number of physical cores changes only with the number of cores.
            self._physical = psutil.cpu_count(logical=False) if self._root.live else None
        cores = {}
        for number, core in zip(self._numbers, times, strict=True):
            cores[number] = CpuTicks(*(round(getattr(core, name, 0.0) * self._clk_tck) for name in _TICKS))
        allowed = len(os.sched_getaffinity(0)) if self._root.live else len(cores)
        return CpuTable(cores, allowed, self._physical, self._load1(), clk_tck=self._clk_tck)

    def _core_numbers(self, count: int) -> list[int]:
        # psutil counts lines, and an offline core has none, so numbers come from the list of online ones.
        online = parse_cpu_list(self._root.text_or("sys/devices/system/cpu/online"))
        return online if len(online) == count else list(range(count))

    def _load1(self) -> float | None:
        try:
            if self._load is None:
                self._load = self._root.keep("proc/loadavg", 256)
            return float(self._load.read().split(None, 1)[0])
        except (OSError, ValueError, IndexError):
            return None

    def close(self) -> None:
        """Give the descriptor back."""
        if self._load is not None:
            self._load.close()
            self._load = None
