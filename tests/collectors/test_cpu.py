from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from iotop_ai.collectors.base import take
from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.cpu import CpuCollector, parse_cpu_list
from iotop_ai.collectors.root import Root
from iotop_ai.model.cpu import CpuTable, CpuTicks, cpu_rates
from iotop_ai.model.reading import Status
from tests.machines import Entries, build

STAT = b"""cpu  4123 10 2438 277054 655 1 34 10 0 0
cpu0 993 10 894 140143 83 1 7 3 0 0
cpu2 3130 0 1544 136911 572 0 27 7 5 0
intr 1 2 3
ctxt 8901
"""
TREE: Entries = {
    "proc/stat": STAT,
    "proc/loadavg": b"0.52 0.30 0.10 1/120 4242\n",
    "sys/devices/system/cpu/online": b"0,2\n",
}


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0-3,6\n", [0, 1, 2, 3, 6]), ("0", [0]), ("0,2", [0, 2]), ("", []), ("x-3", []), ("1-", [1])],
)
def test_cpu_list(text: str, numbers: list[int]) -> None:
    assert parse_cpu_list(text) == numbers


def test_ticks_are_the_kernels_integers_under_the_cores_own_numbers(tmp_path: Path) -> None:
    collector = CpuCollector(build(TREE, tmp_path), Clock())
    try:
        table = collector.read()
    finally:
        collector.close()
        psutil.PROCFS_PATH = "/proc"
    assert table == CpuTable(
        {
            0: CpuTicks(993, 10, 894, 140143, 83, 1, 7, 3),
            2: CpuTicks(3130, 0, 1544, 136911, 572, 0, 27, 7),
        },
        2,
        None,
        0.52,
    )


def test_a_core_that_comes_online_gets_its_number(tmp_path: Path) -> None:
    collector = CpuCollector(build(TREE, tmp_path), Clock())
    try:
        before = collector.read()
        (tmp_path / "proc/stat").write_bytes(STAT.replace(b"cpu2", b"cpu1 1 0 0 5 0 0 0 0 0 0\ncpu2"))
        (tmp_path / "sys/devices/system/cpu/online").write_bytes(b"0-2\n")
        after = collector.read()
    finally:
        collector.close()
        psutil.PROCFS_PATH = "/proc"
    assert list(after.cores) == [0, 1, 2]
    assert after.cores[2] == before.cores[2]
    assert cpu_rates(before, after, 1.0).cores[1].busy_ratio is None


def test_without_proc_stat_it_is_absent(tmp_path: Path) -> None:
    collector = CpuCollector(build({"proc/loadavg": b"0 0 0 1/1 1\n"}, tmp_path), Clock())
    try:
        assert take(collector, Clock()).status is Status.ABSENT
    finally:
        psutil.PROCFS_PATH = "/proc"


def test_the_running_machine() -> None:
    collector = CpuCollector(Root(), Clock())
    table = collector.read()
    collector.close()
    assert table.allowed == len(os.sched_getaffinity(0))
    assert set(table.cores) >= os.sched_getaffinity(0)
    assert all(sum(ticks) > 0 for ticks in table.cores.values())
    assert table.load1 is not None
