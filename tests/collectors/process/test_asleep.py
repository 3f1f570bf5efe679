"""Processes that have not run are not read again, and everything that they then do is seen in the next tick."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.process import asleep, sweep
from iotop_ai.collectors.process.asleep import REREAD_TICKS, SleepCheck
from iotop_ai.collectors.process.collector import COHORTS, ProcessCollector
from iotop_ai.collectors.process.descriptors import ProcessEntry
from iotop_ai.collectors.process.sweep import DescriptorBudget
from iotop_ai.model.process.records import ProcessKey, ProcessStat, ProcessTable

SETTLE = COHORTS + 3
"""After this many ticks, a process that has slept since the first one is followed."""
CHILD = """
import sys, threading, time
def write():
    sys.stdin.readline()
    with open(sys.argv[1], "wb", buffering=0) as file:
        file.write(b"x" * 100_000)
    print("written", flush=True)
if sys.argv[2] == "thread":
    threading.Thread(target=write, daemon=True).start()
    print("up", flush=True)
    time.sleep(100)
print("up", flush=True)
write()
time.sleep(100)
"""


@pytest.fixture
def collector() -> Iterator[ProcessCollector]:
    made = ProcessCollector(Root(), Clock())
    yield made
    made.close()


@pytest.fixture
def read_pids(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The PIDs of the entries whose io or stat is read, since the list was last emptied."""
    pids: list[int] = []
    original = sweep.read_kept

    def noting(fds: list[int], size: int) -> list[bytes | OSError]:
        pids.extend(int(os.readlink(f"/proc/self/fd/{fd}").split("/")[2]) for fd in fds)
        return original(fds, size)

    monkeypatch.setattr(sweep, "read_kept", noting)
    return pids


def started(folder: Path, kind: str) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        [sys.executable, "-S", "-c", CHILD, str(folder / "data"), kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout
    child.stdout.readline()
    return child


def make_it_write(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin
    assert child.stdout
    child.stdin.write(b"\n")
    child.stdin.flush()
    assert child.stdout.readline() == b"written\n"


def ended(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.communicate()


def key_of(table: ProcessTable, pid: int) -> ProcessKey:
    return next(key for key in table.stat if key.pid == pid)


def ticks(collector: ProcessCollector, count: int) -> ProcessTable:
    for _ in range(count):
        time.sleep(0.01)  # a tick later than what was just done
        table = collector.read()
    return table


def test_a_sleeping_process_is_not_read_until_it_runs(
    collector: ProcessCollector, read_pids: list[int], tmp_path: Path
) -> None:
    child = started(tmp_path, "main")
    try:
        before = ticks(collector, SETTLE)
        key = key_of(before, child.pid)
        read_pids.clear()
        assert ticks(collector, COHORTS).io[key] is before.io[key]
        assert read_pids.count(child.pid) <= 1  # its turn of the rare reading of stat
        make_it_write(child)
        after = ticks(collector, 1)
        assert after.io[key].wchar - before.io[key].wchar == 100_000 + len(b"written\n")
        assert after.stat[key].utime_ticks >= before.stat[key].utime_ticks
        # It sleeps again, and is left alone again.
        ticks(collector, SETTLE)
        read_pids.clear()
        ticks(collector, COHORTS)
        assert read_pids.count(child.pid) <= 1
    finally:
        ended(child)


def test_the_schedstat_of_each_followed_process_is_read_once_a_tick(
    collector: ProcessCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks(collector, SETTLE)
    read: list[int] = []
    original = asleep.read_kept

    def noting(fds: list[int], size: int) -> list[bytes | OSError]:
        if len(fds) > 1:  # otherwise it is the probe of one process, which may have just run
            read.extend(fds)
        return original(fds, size)

    monkeypatch.setattr(asleep, "read_kept", noting)
    ticks(collector, 1)
    assert len(read) > 10
    assert max(Counter(read).values()) == 1


def test_the_stat_of_a_sleeping_process_is_read_now_and_then(
    collector: ProcessCollector, read_pids: list[int], tmp_path: Path
) -> None:
    child = started(tmp_path, "main")
    try:
        ticks(collector, SETTLE)
        read_pids.clear()
        ticks(collector, REREAD_TICKS)
        assert read_pids.count(child.pid) == 1
    finally:
        ended(child)


def test_a_thread_that_writes_while_the_main_thread_sleeps_is_seen(collector: ProcessCollector, tmp_path: Path) -> None:
    child = started(tmp_path, "thread")
    try:
        before = ticks(collector, SETTLE)
        make_it_write(child)
        after = ticks(collector, 1)
        key = key_of(after, child.pid)
        assert after.io[key].wchar - before.io[key].wchar == 100_000 + len(b"written\n")
    finally:
        ended(child)


def test_a_sleeping_process_that_is_killed_has_gone(collector: ProcessCollector, tmp_path: Path) -> None:
    child = started(tmp_path, "main")
    key = key_of(ticks(collector, SETTLE), child.pid)
    ended(child)
    table = ticks(collector, 1)
    assert key in table.gone
    assert key not in table.stat


def test_a_sleeping_process_that_is_stopped_is_shown_as_stopped(collector: ProcessCollector, tmp_path: Path) -> None:
    child = started(tmp_path, "main")
    try:
        key = key_of(ticks(collector, SETTLE), child.pid)
        os.kill(child.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        assert ticks(collector, COHORTS).stat[key].state == "T"
    finally:
        ended(child)


def test_a_sleeping_process_has_its_new_parent_soon_after_its_parent_ended(collector: ProcessCollector) -> None:
    parent = subprocess.Popen(["sh", "-c", "sleep 100 >/dev/null & echo $!; read line"], stdin=-1, stdout=-1)
    assert parent.stdout
    pid = int(parent.stdout.readline())
    try:
        key = key_of(before := ticks(collector, SETTLE), pid)
        assert before.stat[key].ppid == parent.pid
        ended(parent)
        after = ticks(collector, COHORTS + 1)
        assert after.stat[key].ppid == int(Path(f"/proc/{pid}/stat").read_text().split()[3])
        assert after.stat[key].ppid != parent.pid
    finally:
        os.kill(pid, signal.SIGKILL)


def test_counters_stay_those_of_the_kernel_while_processes_sleep_and_write_in_turn(
    collector: ProcessCollector, tmp_path: Path
) -> None:
    children = [started(tmp_path, kind) for kind in ("main", "thread") * 4]
    try:
        ticks(collector, 2)
        sleeping = list(children)
        for number in range(3 * REREAD_TICKS):
            if number % 7 == 3 and sleeping:
                make_it_write(sleeping.pop())
            table = ticks(collector, 1)
            for child in children:
                fields = dict(line.split(": ") for line in Path(f"/proc/{child.pid}/io").read_text().splitlines())
                io = table.io[key_of(table, child.pid)]
                assert (io.rchar, io.wchar) == (int(fields["rchar"]), int(fields["wchar"]))
    finally:
        for child in children:
            ended(child)


def _machine(tmp_path: Path, schedstat: str) -> Root:
    """A /proc of this machine with one process, whose schedstat never changes."""
    folder = tmp_path / "proc"
    (folder / "sys/kernel/random").mkdir(parents=True)
    shutil.copy("/proc/sys/kernel/random/boot_id", folder / "sys/kernel/random/boot_id")
    (folder / "7").mkdir()
    (folder / "7/schedstat").write_text(schedstat)
    (folder / "7/io").write_text("")
    return Root(proc=str(folder))


def _followed(
    root: Root, stat: ProcessStat, limit: int = 100, *, stat_failed: bool = False, io: bytes | OSError = b"rchar: 1"
) -> bool:
    budget = DescriptorBudget(limit)
    check = SleepCheck(root, budget)
    entry = ProcessEntry(ProcessKey(7, 1), b"x", 0, b"", info_may_predate_exec=False)
    entry.io, entry.io_raw = root.keep("proc/7/io", 64), io
    budget.in_use = 1
    for _ in range(3):
        check.update({entry.key: stat})
        check.probe([entry], {entry.key: stat})
        check.confirm({entry.key: stat}, {entry.key} if stat_failed else ())
    followed = entry.asleep
    check.clear()
    entry.io.close()
    assert not entry.asleep
    assert budget.in_use == 1
    return followed


SLEEPER = ProcessStat("S", 1, 0, 0, 0, 0, 0, 1, 0, 0)


@pytest.mark.parametrize(
    ("schedstat", "change", "followed"),
    [
        ("5 6 7\n", {}, True),
        ("0 0 0\n", {}, False),
        ("5 6 7\n", {"threads": 2}, False),
        ("5 6 7\n", {"state": "R"}, False),
        ("5 6 7\n", {"state": "D"}, True),
    ],
)
def test_only_a_process_with_one_sleeping_thread_is_followed(
    tmp_path: Path, schedstat: str, change: dict[str, int | str], followed: bool
) -> None:
    stat = SLEEPER._replace(**change)
    assert _followed(_machine(tmp_path, schedstat), stat) is followed


def test_a_process_whose_last_reading_failed_is_not_followed(tmp_path: Path) -> None:
    root = _machine(tmp_path, "5 6 7\n")
    assert _followed(root, SLEEPER)
    assert not _followed(root, SLEEPER, stat_failed=True)
    assert not _followed(root, SLEEPER, io=OSError(errno.ENOMEM, ""))


def test_a_kernel_without_schedstat_and_a_full_budget_follow_no_process(tmp_path: Path) -> None:
    root = _machine(tmp_path, "5 6 7\n")
    assert not _followed(root, SLEEPER, limit=1)
    (tmp_path / "proc/7/schedstat").unlink()
    assert not _followed(root, SLEEPER)


def test_a_saved_copy_of_a_machine_is_always_read(tmp_path: Path) -> None:
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/io").write_text("")
    (tmp_path / "proc/7/schedstat").write_text("5 6 7\n")
    assert not _followed(Root(str(tmp_path)), SLEEPER)
