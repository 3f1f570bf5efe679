from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from iotop_ai.collectors.base import take_reading
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine.cpu import CpuCollector, cores_in_topology, parse_cpu_stat
from iotop_ai.model.clean import LONGEST
from iotop_ai.model.machine.cpu import CpuTable, CpuTicks, cpu_rates
from iotop_ai.model.reading import Status
from tests.clocks import SetClock
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


def test_an_old_kernel_with_fewer_counts_is_read() -> None:
    raw = b"cpu  1 2 3 4\ncpu7 10 20 30 40 50\nintr " + b"7 " * 5000 + b"\ncpu9 1 1 1 1 1 1 1 1\n"
    assert parse_cpu_stat(raw) == {7: CpuTicks(10, 20, 30, 40, 50, 0, 0, 0)}
    assert parse_cpu_stat(b"") == {}


def test_the_ticks_of_each_core_are_the_integers_of_the_kernel(tmp_path: Path) -> None:
    collector = CpuCollector(build(TREE, tmp_path), Clock())
    try:
        table = collector.read()
    finally:
        collector.close()
    assert table == CpuTable(
        {
            0: CpuTicks(993, 10, 894, 140143, 83, 1, 7, 3),
            2: CpuTicks(3130, 0, 1544, 136911, 572, 0, 27, 7),
        },
        2,
        None,
        0.52,
    )


def test_a_core_that_comes_online_keeps_its_number(tmp_path: Path) -> None:
    collector = CpuCollector(build(TREE, tmp_path), Clock())
    try:
        before = collector.read()
        (tmp_path / "proc/stat").write_bytes(STAT.replace(b"cpu2", b"cpu1 1 0 0 5 0 0 0 0 0 0\ncpu2"))
        (tmp_path / "sys/devices/system/cpu/online").write_bytes(b"0-2\n")
        after = collector.read()
    finally:
        collector.close()
    assert list(after.cores) == [0, 1, 2]
    assert after.cores[2] == before.cores[2]
    assert cpu_rates(before, after, 1.0).cores[1].busy_ratio is None


class SlowTopology(Root):
    """The root of a big machine, where each file about a core takes a second."""

    live = True

    def __init__(self, path: str, clock: SetClock) -> None:
        super().__init__(path)
        self.clock = clock

    def text_or(self, relative: str, default: str = "", longest: int = LONGEST) -> str:
        self.clock.skip(1)
        return super().text_or(relative, default, longest)


def test_the_time_of_the_ticks_does_not_include_the_count_of_physical_cores(tmp_path: Path) -> None:
    clock = SetClock(10**9)
    topology: Entries = {f"sys/devices/system/cpu/cpu{i}/topology/core_cpus_list": b"0,2\n" for i in (0, 2)}
    root = SlowTopology(build(TREE | topology, tmp_path).path, clock)
    collector = CpuCollector(root, clock)
    before = take_reading(collector, clock)
    clock.skip(10)
    (tmp_path / "proc/stat").write_bytes(STAT.replace(b"cpu0 993", b"cpu0 1993"))
    after = take_reading(collector, clock)
    collector.close()
    assert (before.at_ns, after.at_ns) == (10**9, 11 * 10**9)
    assert (after.value.physical, after.took_ns) == (1, 2 * 10**9)


def test_without_proc_stat_the_cpus_are_absent(tmp_path: Path) -> None:
    collector = CpuCollector(build({"proc/loadavg": b"0 0 0 1/1 1\n"}, tmp_path), Clock())
    assert take_reading(collector, Clock()).status is Status.ABSENT


def test_the_running_machine_is_read() -> None:
    collector = CpuCollector(Root(), Clock())
    assert collector.read().physical is None
    table = collector.read()
    collector.close()
    assert table.physical == psutil.cpu_count(logical=False)
    theirs = psutil.cpu_times(percpu=True)
    assert len(theirs) == len(table.cores)
    for ticks, times in zip(table.cores.values(), theirs, strict=True):
        assert ticks.user <= round(times.user * table.clk_tck) <= ticks.user + 60 * table.clk_tck
        assert ticks.softirq <= round(times.softirq * table.clk_tck)
    assert table.allowed == len(os.sched_getaffinity(0))
    assert set(table.cores) >= os.sched_getaffinity(0)
    assert all(sum(ticks) > 0 for ticks in table.cores.values())
    assert table.load1 is not None


def test_threads_that_share_a_core_count_as_one_core(tmp_path: Path) -> None:
    def topology(name: str) -> Entries:
        lists = {0: b"0,2\n", 1: b"1,3\n", 2: b"0,2\n", 3: b"1,3\n"}
        return {f"sys/devices/system/cpu/cpu{cpu}/topology/{name}": text for cpu, text in lists.items()}

    newer, older = topology("core_cpus_list"), topology("thread_siblings_list")
    assert cores_in_topology(build(newer | {"sys/devices/system/cpu/online": b"0-3\n"}, tmp_path / "new")) == 2
    assert cores_in_topology(build(older, tmp_path / "old")) == 2
    assert cores_in_topology(build({"sys/devices/system/cpu/cpufreq/boost": b"1\n"}, tmp_path / "none")) is None


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_the_numbers_of_the_allowed_cores_are_read_if_some_are_not_allowed() -> None:
    everything = os.sched_getaffinity(0)
    collector = CpuCollector(Root(), Clock())
    try:
        before = collector.read()
        os.sched_setaffinity(0, {max(everything)})
        (narrow, same) = (collector.read(), collector.read())
    finally:
        os.sched_setaffinity(0, everything)
        collector.close()
    assert before.allowed_numbers == (None if everything == before.cores.keys() else tuple(sorted(everything)))
    assert (narrow.allowed, narrow.allowed_numbers) == (1, (max(everything),))
    assert same.allowed_numbers is narrow.allowed_numbers
