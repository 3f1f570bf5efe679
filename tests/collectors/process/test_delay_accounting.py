"""Delay accounting: whether the kernel counts delays, and for which processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.process.collector import ProcessCollector
from iotop_ai.collectors.process.delay_accounting import DelayAccounting
from iotop_ai.model.process.rates import process_rates
from iotop_ai.model.process.records import ProcessKey, ProcessTable
from iotop_ai.model.reading import Reading, Status
from iotop_ai.present.process.groups import _idle_rates
from tests.machines import Entries, build
from tests.rigs.descriptors import too_many_open_files

STAT = "{pid} (made) S 1 1 1 0 -1 4194304 9 8 7 6 {cpu} 4 3 2 20 0 1 0 {start} 100 33{zeros} 17 0 0 0 {ticks} 0 0\n"
IO = b"rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\ncancelled_write_bytes: 7\n"
SWITCH = Path("/proc/sys/kernel/task_delayacct")


def stat_line(pid: int, start: int, ticks: int, cpu: int = 5) -> bytes:
    return STAT.format(pid=pid, start=start, ticks=ticks, cpu=cpu, zeros=13 * " 0").encode()


def process(pid: int, start: int, ticks: int) -> Entries:
    here = f"proc/{pid}"
    return {
        f"{here}/stat": stat_line(pid, start, ticks),
        f"{here}/status": f"Name:\tmade\nTgid:\t{pid}\nUid:\t0\t0\t0\t0\n".encode(),
        f"{here}/cmdline": b"made\0",
        f"{here}/io": IO,
    }


def machine(folder: Path, release: str, boot: str = "quiet", switch: str = "") -> Root:
    """A machine with the processes 5, 6 and 7, which started in this order and of which only 6 has waited."""
    entries: Entries = {"proc/sys/kernel/osrelease": f"{release}\n".encode(), "proc/cmdline": f"{boot}\n".encode()}
    if switch:
        entries["proc/sys/kernel/task_delayacct"] = f"{switch}\n".encode()
    for pid, ticks in ((5, 0), (6, 30), (7, 0)):
        entries |= process(pid, pid * 10, ticks)
    return build(entries, folder)


def delays(table: ProcessTable) -> list[int]:
    return [key.pid for key in table.stat if table.delay_counted(key)]


@pytest.mark.parametrize(
    ("release", "boot", "switch", "on", "pids"),
    [
        ("4.18.0-553.el8_10.x86_64", "ro quiet", "", True, [5, 6, 7]),
        ("5.4.0-150-generic", "ro quiet", "", True, [5, 6, 7]),
        ("5.4.0-150-generic", "ro nodelayacct quiet", "", False, []),
        ("5.4.0-150-generic", "ro isolcpus=" + 512 * "1" + " nodelayacct", "", False, []),
        ("5.13.19", "ro", "", True, [5, 6, 7]),
        ("5.14.0", "ro", "", None, []),  # the switch is missing, because the kernel was built without delay accounting
        ("6.8.0-31-generic", "ro delayacct", "1", True, [5, 6, 7]),
        ("6.8.0-31-generic", "ro isolcpus=" + 512 * "1" + " delayacct", "1", True, [5, 6, 7]),
        ("6.8.0-31-generic", "ro", "1", True, [6]),
        ("6.8.0-31-generic", "ro", "0", False, []),
        ("", "ro", "", None, []),
    ],
)
def test_the_kernels_release_decides_whether_delays_are_counted(
    release: str, boot: str, switch: str, on: bool | None, pids: list[int], tmp_path: Path
) -> None:
    collector = ProcessCollector(machine(tmp_path, release, boot, switch), Clock())
    table = collector.read()
    collector.close()
    assert (table.delayacct, delays(table)) == (on, pids)


def test_the_switch_is_opened_again_after_too_many_open_files(tmp_path: Path) -> None:
    delay = DelayAccounting(machine(tmp_path, "6.8.0", switch="1"))
    with too_many_open_files():
        assert delay.read(()) == (None, None)
    assert delay.read([ProcessKey(1, 7)]) == (True, 8)
    delay.close()


def test_a_process_from_before_the_switch_is_unknown_until_its_ticks_grow(tmp_path: Path) -> None:
    root = machine(tmp_path, "6.8.0", switch="0")
    collector = ProcessCollector(root, Clock())
    collector.read()
    (tmp_path / "proc/sys/kernel/task_delayacct").write_text("1\n")
    build(process(8, 80, 0), tmp_path)
    first = read_all(collector)
    assert delays(first) == [6], "not exactly the process that has delay ticks"
    build(process(9, 90, 0), tmp_path)
    for pid in (5, 7, 9):
        (tmp_path / f"proc/{pid}/stat").write_bytes(stat_line(pid, pid * 10, 20 if pid == 7 else 0, cpu=25))
    after = read_all(collector)
    collector.close()
    assert sorted(delays(after)) == [6, 7, 9]
    rates = process_rates(reading(first), reading(after), None).value
    assert rates is not None
    found = {key.pid: rate.io_delay_ratio for key, rate in rates.rates.items()}
    assert found[5] is None
    assert found[9] == 0.0
    assert (found[7] or 0.0) > 0


def read_all(collector: ProcessCollector) -> ProcessTable:
    """Read until every process was read once more and /proc was listed again, and return the last table."""
    for _ in range(31):
        table = collector.read()
    return table


def reading(table: ProcessTable) -> Reading[ProcessTable]:
    return Reading(table, Status.OK, at_ns=table.io_at_ns)


@pytest.fixture
def switch() -> Iterator[Path]:
    was = SWITCH.read_text()
    yield SWITCH
    SWITCH.write_text(was)


@pytest.mark.alone
@pytest.mark.skipif(
    os.geteuid() != 0 or not os.access(SWITCH, os.W_OK) or SWITCH.read_text().strip() != "0",
    reason="needs root and a kernel on which the accounting is off",
)
def test_a_process_from_before_the_switch_is_not_counted_on_this_kernel(switch: Path, disk_folder: Path) -> None:
    """A process from before the switch waits for the disk while its count stays 0; a later process is counted."""
    file = disk_folder / "read"
    file.write_bytes(os.urandom(1 << 25))
    read = (
        "import os, sys, time\n"
        "fd = os.open(sys.argv[1], os.O_RDONLY)\n"
        "os.fsync(fd)\n"
        "while True:\n"
        "    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)\n"
        "    for at in range(0, 1 << 25, 1 << 16): os.pread(fd, 4096, at)\n"
    )
    program = [sys.executable, "-c", read, str(file)]
    collector = ProcessCollector(Root(), Clock())
    old = subprocess.Popen(program)
    try:
        collector.read()
        switch.write_text("1")
        collector.read()
        new = subprocess.Popen(program)
        try:
            time.sleep(1.0)
            before = collector.read()
            time.sleep(1.0)
            after = collector.read()
        finally:
            new.kill()
            new.wait()
        rates = process_rates(reading(before), reading(after), None).value
        assert rates is not None
        found = {key.pid: rate.io_delay_ratio for key, rate in rates.rates.items()}
        assert found[old.pid] is None
        assert (found[new.pid] or 0.0) > 0.0
        assert not after.delay_counted(next(key for key in after.stat if key.pid == old.pid))
    finally:
        old.kill()
        old.wait()
        collector.close()


def test_a_group_of_idle_uncounted_processes_has_no_delay() -> None:
    early, late = ProcessKey(5, 50), ProcessKey(7, 70)
    table = ProcessTable({}, {}, {}, frozenset(), 0, 0, (0,), {}, {}, {}, {}, delayacct=True, delayacct_since=60)
    assert [_idle_rates(table, key).io_delay_ratio for key in (early, late)] == [None, 0.0]
