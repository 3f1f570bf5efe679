"""The table of processes: real children that start, exec and exit, and captured machines."""

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import KeptFile, Root
from iotop_ai.collectors.process.collector import COHORTS, ProcessCollector
from iotop_ai.collectors.process.discovery import PidDiscovery
from iotop_ai.model.process.rates import process_rates
from iotop_ai.model.process.records import ProcessInfo, ProcessIo, ProcessKey, ProcessStat, ProcessTable
from iotop_ai.model.reading import Reading, Status

SLEEPERS = """
import os, sys, time
pids = []
for _ in range(int(sys.argv[1])):
    pid = os.fork()
    if pid == 0:
        time.sleep(120)
        os._exit(0)
    pids.append(pid)
print("up", flush=True)
sys.stdin.readline()
for pid in pids:
    os.kill(pid, 9)
for pid in pids:
    os.wait()
print("down", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def collector() -> Iterator[ProcessCollector]:
    made = ProcessCollector(Root(), Clock())
    yield made
    made.close()


def key_of(table: ProcessTable, pid: int) -> ProcessKey | None:
    return next((key for key in table.stat if key.pid == pid), None)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_the_collector_finds_its_own_process(collector: ProcessCollector) -> None:
    table = collector.read()
    key = key_of(table, os.getpid())
    assert key is not None
    info = table.info[key]
    assert (info.uid, info.kernel) == (os.geteuid(), False)
    assert info.cmdline[0] == Path("/proc/self/cmdline").read_bytes().split(b"\0")[0].decode()
    assert table.stat[key].ppid == os.getppid()
    assert table.io[key].rchar > 0
    assert table.complete == (key_of(table, 1) is not None)
    assert table.clk_tck == os.sysconf("SC_CLK_TCK")


def test_unchanged_records_are_the_same_objects(collector: ProcessCollector) -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        for _ in range(3):
            collector.read()
        before, after = collector.read(), collector.read()
        key = key_of(after, child.pid)
        assert key is not None
        assert after.io[key] is before.io[key]
        assert after.stat[key] is before.stat[key]
        assert after.info[key] is before.info[key]
        assert before.io is not after.io
    finally:
        child.kill()
        child.wait()


def test_each_cohort_has_the_time_at_which_its_stat_was_read(collector: ProcessCollector) -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        tables = [collector.read() for _ in range(3 * COHORTS)]
        key = key_of(tables[-1], child.pid)
        assert key is not None
        times = [table.stat_time(key) for table in tables[COHORTS:]]
        # two readings, and an earlier one if the ten tables do not begin with a reading of the cohort
        assert len(set(times)) in (2, 3)
        assert all(table.stat_time(key) <= table.stat_at_ns for table in tables)
        assert all(tables[-1].stat_at_ns >= at > tables[-1 - COHORTS].stat_at_ns for at in tables[-1].stat_at)
    finally:
        child.kill()
        child.wait()


def test_the_first_interval_of_a_new_process_is_exact(collector: ProcessCollector) -> None:
    directory = Path(tempfile.mkdtemp(prefix="iotop-ai-test-", dir="/var/tmp"))
    first = collector.read()
    before = Reading(first, Status.OK, at_ns=first.io_at_ns)
    last = process_rates(None, before, None)
    command = f"import sys; open({str(directory / 'a')!r}, 'wb').write(b'x' * 5_000_000); print(1, flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-S", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"LANG": "C"}
    )
    try:
        assert child.stdout is not None
        child.stdout.readline()
        second = collector.read()
        own = key_of(second, child.pid)
        assert own is not None
        rated = process_rates(before, Reading(second, Status.OK, at_ns=second.io_at_ns), last)
        assert rated.value is not None
        assert rated.seconds is not None
        rate = rated.value.rates[own]
        assert rate.wchar_bytes_per_s is not None
        assert rate.write_bytes_per_s is not None
        assert round(rate.wchar_bytes_per_s * rated.seconds) == 5_000_002
        assert round(rate.write_bytes_per_s * rated.seconds) == second.io[own].write_bytes
    finally:
        child.kill()
        child.wait()
        shutil.rmtree(directory)


def test_a_name_with_escapes_is_cleaned_and_read_again_when_it_changes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "answers")
    answers = os.open(tmp_path / "answers", os.O_RDWR)
    collector = ProcessCollector(Root(), Clock())
    actor = str(Path(__file__).with_name("actor.py"))
    child = subprocess.Popen([sys.executable, "-S", "-B", actor, str(tmp_path), "one", "[@click=app.quit]\x1b[2J"])
    try:
        os.read(answers, 100)
        table = collector.read()
        key = key_of(table, child.pid)
        assert key is not None
        assert table.info[key].cmdline[-1] == "[@click=app.quit]�[2J"
        for name, clean in (("[/x]", "[/x]"), ("\x1b]0;owned\x07", "�]0;owned�"), ("a) R (b", "a) R (b")):
            with open(tmp_path / "one.in", "wb", buffering=0) as file:
                file.write(f"rename {name}\n".encode())
            os.read(answers, 100)
            assert collector.read().info[key].name == clean
    finally:
        child.kill()
        child.wait()
        collector.close()
        os.close(answers)


def test_an_exec_is_noticed(collector: ProcessCollector) -> None:
    collector.read()
    child = subprocess.Popen(["sh", "-c", "read x; exec sleep 60"], stdin=subprocess.PIPE)
    try:
        assert child.stdin is not None
        key = key_of(collector.read(), child.pid)
        assert key is not None
        child.stdin.write(b"\n")
        child.stdin.close()
        while Path(f"/proc/{child.pid}/comm").read_text() != "sleep\n":
            os.sched_yield()
        for _ in range(COHORTS):
            table = collector.read()
        assert (table.info[key].name, table.info[key].cmdline) == ("sleep", ("sleep", "60"))
        assert key in table.io
    finally:
        child.kill()
        child.wait()


@pytest.mark.alone
def test_a_pid_that_is_used_again_is_another_process(collector: ProcessCollector) -> None:
    last_pid = Path("/proc/sys/kernel/ns_last_pid")
    if not os.access(last_pid, os.W_OK):
        pytest.skip("pids cannot be chosen here")
    child = subprocess.Popen(["sleep", "60"])
    collector.read()
    old = key_of(collector.read(), child.pid)
    child.kill()
    child.wait()
    time.sleep(0.03)  # two processes that start in one clock tick of 10 ms cannot be distinguished
    for _ in range(50):
        last_pid.write_text(str(child.pid - 1))
        other = subprocess.Popen(["sleep", "60"])
        if other.pid == child.pid:
            break
        other.kill()
        other.wait()
    else:
        pytest.skip("another process took the pid each time")
    try:
        tables = [collector.read() for _ in range(3)]
        new = key_of(tables[-1], child.pid)
        assert old is not None
        assert new is not None
        assert new != old
        assert any(old in table.gone for table in tables)
        assert old not in tables[0].io
        assert new in tables[-1].io
    finally:
        other.kill()
        other.wait()


@pytest.mark.alone
def test_a_thousand_processes_start_and_end_at_once(collector: ProcessCollector) -> None:
    others = descriptors()
    collector.read()
    crowd = subprocess.Popen(
        [sys.executable, "-S", "-c", SLEEPERS, "1000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert crowd.stdin is not None
        assert crowd.stdout is not None
        crowd.stdout.readline()
        full = collector.read()
        parent = key_of(full, crowd.pid)
        mine = {key for key, stat in full.stat.items() if stat.ppid == crowd.pid}
        assert len(mine) == 1000
        before = Reading(full, Status.OK, at_ns=full.io_at_ns)
        last = process_rates(None, before, None)
        crowd.stdin.write(b"\n")
        crowd.stdin.flush()
        crowd.stdout.readline()
        empty = collector.read()
        assert mine <= set(empty.gone)
        assert not mine & set(empty.stat)
        rated = process_rates(before, Reading(empty, Status.OK, at_ns=empty.io_at_ns), last)
        assert rated.value is not None
        assert parent is not None
        assert not mine & {debt.key for debt in rated.value.debts}
        assert sum(io.rchar for key, io in full.io.items() if key in mine) == 0 or parent in rated.value.rates
        assert all(figure is None or figure >= 0 for rate in rated.value.rates.values() for figure in rate[:10])
        settled = collector.read()
        assert descriptors() <= 3 * len(settled.stat) + others + 10
    finally:
        crowd.kill()
        crowd.wait()


@pytest.mark.parametrize("cap", [0, 7, 60])
def test_a_collector_with_few_descriptors_reads_the_same(cap: int) -> None:
    roomy, tight = ProcessCollector(Root(), Clock()), ProcessCollector(Root(), Clock(), fd_cap=cap)
    children = [subprocess.Popen(["sleep", "60"]) for _ in range(8)]
    before = descriptors()
    try:
        for _ in range(2):
            wide, narrow = roomy.read(), tight.read()
        for child in children:
            key = key_of(wide, child.pid)
            assert key is not None
            assert (wide.io[key], wide.info[key]) == (narrow.io[key], narrow.info[key])
        tight.close()
        held = descriptors()
        tight = ProcessCollector(Root(), Clock(), fd_cap=cap)
        tight.read()
        assert descriptors() - held <= cap + 3
        children.pop(0).kill()
        roomy.close()
    finally:
        roomy.close()
        tight.close()
        for child in children:
            child.kill()
            child.wait()
    assert descriptors() <= before


def test_the_exit_code_of_a_zombie_is_known_before_and_after_it_is_reaped(collector: ProcessCollector) -> None:
    commands = {"exit 3": 3, "kill -9 $$": -9, "exit 0": 0}
    children = {text: subprocess.Popen(["sh", "-c", f"read x; {text}"], stdin=subprocess.PIPE) for text in commands}
    table = collector.read()
    keys = {text: key_of(table, child.pid) for text, child in children.items()}
    for child in children.values():
        assert child.stdin is not None
        child.stdin.close()
    for child in children.values():
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    for _ in range(COHORTS):
        table = collector.read()
    codes = {keys[text]: code for text, code in commands.items()}
    assert {key: table.exits.get(key) for key in keys.values()} == codes
    for child in children.values():
        child.wait()
    table = collector.read()
    assert set(keys.values()) <= set(table.gone)
    assert {key: table.exits.get(key) for key in keys.values()} == codes


LEADER_LEFT = """
import ctypes, os, sys, threading
sys.stdin.readline()
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(7))).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_zombie_whose_threads_still_run_has_not_ended(collector: ProcessCollector) -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", LEADER_LEFT], stdin=subprocess.PIPE)
    assert child.stdin is not None
    try:
        key = key_of(collector.read(), child.pid)
        assert key is not None
        child.stdin.write(b"\n")
        child.stdin.flush()
        while Path(f"/proc/{child.pid}/stat").read_text().rpartition(") ")[2][0] != "Z":
            time.sleep(0.01)
        for _ in range(COHORTS):
            table = collector.read()
        assert (table.stat[key].state, table.stat[key].threads) == ("Z", 2)
        assert key not in table.exits
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        for _ in range(COHORTS):
            table = collector.read()
        assert (table.stat[key].threads, table.exits[key]) == (1, 7)
    finally:
        child.kill()
        child.wait()


AS_NOBODY = """
import json, os, subprocess, sys
import unicodedata  # before the change of user, because an ordinary user cannot load it from a Python below /root
sys.path.insert(0, sys.argv[1])
from iotop_ai.collectors.process.collector import ProcessCollector
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
os.setgroups([]); os.setgid(65534); os.setuid(65534)
child = subprocess.Popen(["sleep", "60"])
collector = ProcessCollector(Root(), Clock())
collector.read()
table = collector.read()
own = next(key for key in table.stat if key.pid == child.pid)
denied = table.denied
root = next(key for key in table.stat if key.pid == os.getppid())
child.kill(); child.wait()
later = collector.read()
print(json.dumps({
    "own": own in table.io, "user": table.info[own].user, "denied": len(denied), "all": len(table.stat),
    "io": len(table.io), "overlap": len(denied & set(table.io)), "root_denied": root in denied,
    "root_known": root in table.info, "gone": own in later.gone, "open": len(os.listdir("/proc/self/fd")),
}))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become nobody")
def test_an_ordinary_user_reads_only_that_users_processes() -> None:
    repository = str(Path(__file__).parents[3])
    run = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, repository], capture_output=True, text=True, check=False, cwd="/"
    )
    assert run.returncode == 0, run.stderr
    seen = json.loads(run.stdout)
    assert seen["own"]
    assert seen["user"] == "nobody"
    assert seen["root_denied"]
    assert seen["root_known"]
    assert seen["gone"]
    assert seen["overlap"] == 0
    assert seen["denied"] + seen["io"] == seen["all"]


STAT = "{pid} ({comm}) S 1 1 1 0 -1 4194304 9 8 7 6 5 4 3 2 20 0 1 0 {start} 100 33" + 13 * " 0" + " 17 0 0 0 6 0 0"
IO = "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\ncancelled_write_bytes: 7\n"


def add_process(root: Path, pid: int, start: int, comm: str = "made", io: str | None = IO) -> None:
    here = root / "proc" / str(pid)
    here.mkdir(parents=True)
    (here / "stat").write_text(STAT.format(pid=pid, comm=comm, start=start))
    (here / "status").write_text(f"Name:\t{comm}\nTgid:\t{pid}\nUid:\t0\t1234567\t0\t0\n")
    (here / "cmdline").write_bytes(b"made\0--up\0")
    (here / "cgroup").write_text("0::/job\n")
    if io is not None:
        (here / "io").write_text(io)


def test_a_captured_machine_is_read(tmp_path: Path) -> None:
    add_process(tmp_path, 5, 50)
    add_process(tmp_path, 6, 60, "no io", None)
    add_process(tmp_path, 7, 70, "cut", "rchar: 1\n")
    (tmp_path / "proc" / "8").mkdir()
    collector = ProcessCollector(Root(str(tmp_path)), Clock())
    table = collector.read()
    five, six, seven = ProcessKey(5, 50), ProcessKey(6, 60), ProcessKey(7, 70)
    assert table.io == {five: ProcessIo(1, 2, 3, 4, 5, 6, 7)}
    assert table.stat[five] == ProcessStat("S", 1, 9, 8, 7, 5, 4, 1, 33, 6)
    assert table.info[five] == ProcessInfo("made", ("made", "--up"), "1234567", 1234567, False, "/job")
    assert table.denied == {six, seven}
    assert (table.complete, table.delayacct) == (True, None)
    assert table.stat_at == (table.stat_at_ns,) * COHORTS
    shutil.rmtree(tmp_path / "proc" / "5")
    add_process(tmp_path, 9, 90)
    later = collector.read()
    assert later.gone == (five,)
    assert ProcessKey(9, 90) in later.io
    assert five in table.io
    collector.close()


class NoDescriptorFree(Root):
    """A Root in which process 6 hides its io, and in which no stat file can be opened while ``fails`` is set."""

    fails = False

    def read_once(self, relative: str, size: int, offset: int = 0) -> bytes:
        if relative == "proc/6/io":
            raise PermissionError(errno.EACCES, "Permission denied", relative)
        if self.fails and relative.endswith("/stat"):
            raise OSError(errno.EMFILE, "Too many open files", relative)
        return super().read_once(relative, size, offset)


def test_a_denied_process_does_not_end_for_lack_of_a_descriptor(tmp_path: Path) -> None:
    add_process(tmp_path, 5, 50)
    add_process(tmp_path, 6, 60)
    root, six = NoDescriptorFree(str(tmp_path)), ProcessKey(6, 60)
    collector = ProcessCollector(root, Clock(), fd_cap=0)
    assert collector.read().denied == {six}
    root.fails = True
    for _ in range(COHORTS):
        table = collector.read()
        assert (table.gone, table.denied) == ((), {six})
    root.fails = False
    shutil.rmtree(tmp_path / "proc" / "6")
    assert collector.read().gone == (six,)
    collector.close()


def test_a_process_without_io_does_not_end_for_lack_of_a_descriptor(tmp_path: Path) -> None:
    add_process(tmp_path, 5, 50)
    add_process(tmp_path, 6, 60, io=None)
    collector, six = ProcessCollector(Root(str(tmp_path)), Clock(), fd_cap=0), ProcessKey(6, 60)
    for _ in range(COHORTS):
        table = collector.read()
        assert (set(table.stat), table.denied, table.gone) == ({ProcessKey(5, 50), six}, {six}, ())
    shutil.rmtree(tmp_path / "proc" / "6")
    assert collector.read().gone == (six,)


def test_without_proc_processes_are_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no process is listed"):
        ProcessCollector(Root(str(tmp_path)), Clock()).read()


class NothingListed(Root):
    """A Root whose listing of /proc is empty while ``fails`` is set, as when no descriptor is free."""

    fails = False

    def names(self, relative: str) -> list[str]:
        return [] if self.fails and relative == "proc" else super().names(relative)


def test_a_failed_listing_ends_no_process() -> None:
    root = NothingListed()
    collector = ProcessCollector(root, Clock())
    try:
        before = collector.read()
        root.fails = True
        for _ in range(40):  # long enough for at least one listing
            after = collector.read()
        own = key_of(before, os.getpid())
        assert own is not None
        assert own in after.io
    finally:
        collector.close()


class OtherNamespace(Root):
    """A Root whose loadavg names pids that are missing in its listing."""

    def keep(self, relative: str, size: int = 1 << 16) -> KeptFile:
        if relative == "proc/loadavg":
            return super().keep("proc/sys/kernel/pid_max", size)
        return super().keep(relative, size)


def test_a_last_pid_of_another_namespace_is_not_trusted() -> None:
    for root, trusted in ((Root(), True), (OtherNamespace(), False)):
        finder = PidDiscovery(root)
        known = set(finder.find(()))
        child = subprocess.Popen(["sleep", "60"])
        try:
            finder.find(known, always=True)
            finder.find(known)
            assert (finder.listed is None) == trusted
        finally:
            child.kill()
            child.wait()
            finder.close()
