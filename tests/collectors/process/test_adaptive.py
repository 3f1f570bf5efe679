"""Real processes that sleep, read and write, some of which are skipped in most ticks."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.process.adaptive import (
    IO_COHORTS,
    RECENT_TICKS,
    AdaptiveSelection,
    EndedIo,
    IoBytes,
    growth_start_ns,
    match_inherited,
    parse_vmstat,
)
from iotop_ai.collectors.process.collector import FULL_TICKS, ProcessCollector
from iotop_ai.collectors.process.descriptors import ProcessEntry
from iotop_ai.model.process.rates import process_rates
from iotop_ai.model.process.records import ProcessIo, ProcessKey, ProcessSample, ProcessTable
from iotop_ai.model.reading import Rated, Reading, Status

SIZE = 8 << 20
WAITING = """
import mmap, os, sys
sys.stdin.readline()
if sys.argv[2] == "read":
    file = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
    page = mmap.mmap(-1, 1 << 20)
    while os.readv(file, [page]):
        pass
elif sys.argv[2] == "direct":
    file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
    page = mmap.mmap(-1, 1 << 20)
    for _ in range(8):
        os.writev(file, [page])
else:
    file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
    for _ in range(8):
        os.write(file, b"x" * (1 << 20))
print("done", flush=True)
sys.stdin.readline()
"""
NO_IO = ProcessIo(0, 0, 0, 0, 0, 0, 0)
pytestmark = [
    pytest.mark.alone,  # all bytes of the machine must be those of its processes, so no other test may write meanwhile
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to read the bytes of every process"),
]


def adaptive(least: int = 1, uncounted: tuple[str, ...] = ()) -> ProcessCollector:
    return ProcessCollector(
        Root(), Clock(), adaptive=AdaptiveSelection(Root(), min_processes=least, uncounted=uncounted)
    )


@pytest.fixture
def collector() -> Iterator[ProcessCollector]:
    with closing(adaptive()) as made:
        for _ in range(FULL_TICKS + 3):
            newest = made.read()
        if not newest.adaptive:
            pytest.skip("not possible here: a container, or no exit messages from the kernel")
        yield made


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    made = [subprocess.Popen(["sleep", "600"]) for _ in range(20)]
    yield made
    for process in made:
        process.kill()
        process.wait()


def key_of(table: ProcessTable, pid: int) -> ProcessKey | None:
    return next((key for key in table.stat if key.pid == pid), None)


def tick(collector: ProcessCollector) -> ProcessTable:
    time.sleep(0.05)
    return collector.read()


def test_idle_processes_are_read_in_turn_and_each_has_its_time(
    sleepers: list[subprocess.Popen[bytes]], collector: ProcessCollector
) -> None:
    tables = [tick(collector) for _ in range(RECENT_TICKS + IO_COHORTS + 2)]
    keys = [key for process in sleepers if (key := key_of(tables[-1], process.pid)) is not None]
    assert len(keys) == len(sleepers)
    assert any(table.io_time(key) < table.io_at_ns for table in tables for key in keys)
    assert all(table.io_time(key) <= table.io_at_ns for table in tables for key in keys)
    for key in keys:
        assert tables[-1].io[key] is tables[0].io[key]
        assert tables[-1].io_time(key) > tables[0].io_at_ns


@pytest.mark.parametrize("what", ["read", "write", "direct"])
def test_activity_after_a_long_idle_time_is_found_at_once(
    what: str, tmp_path: Path, collector: ProcessCollector
) -> None:
    path = tmp_path / "file"
    if what == "read":
        path.write_bytes(os.urandom(SIZE))
        os.sync()
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING, str(path), what], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin
    assert process.stdout
    try:
        before = [tick(collector) for _ in range(2 * RECENT_TICKS)][-1]
        key = key_of(before, process.pid)
        assert key is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
        if process.stdout.readline() != b"done\n":
            pytest.skip("this file system has no O_DIRECT")
        moved, last = 0.0, Rated(ProcessSample({}), 1, 1.0, renewed=True)
        # If the journal has just written, the check of direct writes pauses. The bytes are then found when it is the
        # process's turn.
        for _ in range(IO_COHORTS + 1 if what == "direct" else 2):
            after = tick(collector)
            pair = [Reading(table, Status.OK, at_ns=table.io_at_ns) for table in (before, after)]
            last = process_rates(pair[0], pair[1], last)
            rates = (last.value.rates if last.value else {}).get(key)
            if rates is not None:
                rate = rates.read_bytes_per_s if what == "read" else rates.write_bytes_per_s
                moved += (rate or 0.0) * (rates.io_s or 0.0)
            before = after
        assert moved == pytest.approx(SIZE, rel=0.02)
    finally:
        process.kill()
        process.wait()


PARENT = """
import os, sys
if os.fork() == 0:
    file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
    os.write(file, bytes(int(sys.argv[2])))
    print("written", flush=True)
    os._exit(sys.stdin.buffer.raw.readline() == b"")
os.wait()
print("reaped", flush=True)
sys.stdin.buffer.raw.readline()
"""


RIVAL = "import os, sys; input(); os.write(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), bytes(int(sys.argv[2])))"


@pytest.mark.parametrize("when", ["", "in its turn", "as an older ancestor grows"])
def test_bytes_of_an_idle_parents_child_are_not_counted_again_when_the_child_is_reaped(
    tmp_path: Path, collector: ProcessCollector, when: str
) -> None:
    rival = [sys.executable, "-c", RIVAL, str(tmp_path / "rival"), str(4 * SIZE)]
    grows = subprocess.Popen(rival, stdin=subprocess.PIPE) if when.startswith("as") else None
    command = [sys.executable, "-c", PARENT, str(tmp_path / "file"), str(SIZE)]
    parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdin
    assert parent.stdout
    try:
        assert parent.stdout.readline() == b"written\n"
        before = [tick(collector) for _ in range(RECENT_TICKS + 3)][-1]
        key = key_of(before, parent.pid)
        assert key is not None
        assert any(stat.ppid == parent.pid for stat in before.stat.values()), "the child is not listed"
        if when == "in its turn":
            while before.io_time(key) != before.io_at_ns:
                before = tick(collector)
            before = [tick(collector) for _ in range(IO_COHORTS - 1)][-1]
        parent.stdin.write(b"go\n")
        parent.stdin.flush()
        assert parent.stdout.readline() == b"reaped\n"
        if grows is not None:
            grows.communicate(b"\n")  # this process inherits bytes of which the collector does not know
        written, last, seen = 0.0, Rated(ProcessSample({}), 1, 1.0, renewed=True), []
        for _ in range(IO_COHORTS + 1):
            after = tick(collector)
            pair = [Reading(table, Status.OK, at_ns=table.io_at_ns) for table in (before, after)]
            last = process_rates(pair[0], pair[1], last)
            rates = (last.value.rates if last.value else {}).get(key)
            written += 0.0 if rates is None else (rates.write_bytes_per_s or 0.0) * (rates.io_s or 0.0)
            children = [pid for pid, stat in after.stat.items() if stat.ppid == parent.pid]
            age_ms = (after.io_at_ns - after.io_time(key)) // 10**6
            debts = last.value.debts if last.value else ()
            seen.append((children, age_ms, after.io[key].write_bytes, after.stat[key].cminflt, written, debts))
            before = after
        assert after.io[key].write_bytes >= SIZE
        assert written == 0, "\n".join(map(str, seen))
    finally:
        parent.kill()
        parent.wait()


def test_totals_equal_those_of_a_full_sweep(tmp_path: Path, collector: ProcessCollector) -> None:
    script = "import os, sys, time\nfile = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)\nfor i in range(10**6):\n"
    script += "    os.pwrite(file, bytes(int(sys.argv[2])), 0)\n    time.sleep(float(sys.argv[3]))\n"
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path / str(i)), str(1 << size), str(pause)])
        for i, (size, pause) in enumerate(((20, 0.05), (16, 0.01), (14, 0.3), (12, 0.5)))
    ]
    try:
        with closing(ProcessCollector(Root(), Clock())) as exact:
            for _ in range(3 * RECENT_TICKS):
                tick(collector)
            partial, full = collector.read(), exact.read()
        for writer in writers:
            key = key_of(full, writer.pid)
            assert key is not None
            # The two collectors read the writer a moment apart, or some ticks apart if it hardly writes.
            assert 0 <= full.io[key].write_bytes - partial.io[key].write_bytes <= 4 << 20
            assert partial.io[key].write_bytes > 0
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()


def test_the_end_of_an_idle_process_is_found_soon(
    sleepers: list[subprocess.Popen[bytes]], collector: ProcessCollector
) -> None:
    for _ in range(RECENT_TICKS + 2):
        tick(collector)
    sleepers[0].kill()
    sleepers[0].wait()
    assert any(key.pid == sleepers[0].pid for _ in range(3) for key in tick(collector).gone)


def test_a_full_sweep_is_made_for_few_processes_or_uncounted_bytes() -> None:
    for made in (adaptive(least=10**6), adaptive(uncounted=("proc",))):
        with closing(made):
            tables = [made.read() for _ in range(FULL_TICKS + 4)]
        assert not any(table.adaptive for table in tables)
        assert all(table.io_at == () for table in tables)


def test_the_check_fails_without_counters_of_the_machine() -> None:
    check = AdaptiveSelection(Root(), min_processes=1, uncounted=())
    assert not check.balanced(IoBytes(), IoBytes(), 1.0)


def test_inherited_bytes_fit_into_the_growth() -> None:
    child, other = EndedIo(5, 10, IoBytes(4096, 8192)), EndedIo(5, 10, IoBytes(4096, 8192))
    none = IoBytes()
    assert match_inherited([child], {10: IoBytes(4096, 9000)}, {10, 11}) == (IoBytes(4096, 8192), [])
    assert match_inherited([child], {10: IoBytes(4096, 8000)}, {10, 11}) == (none, [child])
    # The parent is alive and has not grown, so no process has inherited the child's bytes.
    assert match_inherited([child], {11: IoBytes(1 << 20, 1 << 20)}, {10, 11}) == (none, [child])
    # The parent has exited too, so the process that reaps orphans may have them.
    assert match_inherited([child], {11: IoBytes(1 << 20, 1 << 20)}, {11}) == (IoBytes(4096, 8192), [])
    # The growth is large enough for the bytes of two children.
    assert match_inherited([child, other], {10: IoBytes(9000, 20000)}, {10}) == (IoBytes(8192, 16384), [])
    assert match_inherited([child, other], {10: IoBytes(9000, 9000)}, {10}) == (IoBytes(4096, 8192), [other])
    assert match_inherited([], {10: IoBytes(1, 1)}, {10}) == (none, [])


def test_the_bytes_of_the_machine_are_parsed() -> None:
    raw = b"\nnr_dirtied 10\nnr_written 4\npgpgin 7\npgpgout 20\n"
    assert parse_vmstat(raw, 4096) == (7 * 1024, 10 * 4096, 20 * 1024 - 4 * 4096)
    assert parse_vmstat(b"\npgpgin 7\n", 4096) is None


def test_a_burst_after_idle_time_belongs_to_the_last_tick() -> None:
    second = 10**9
    burst, trickle = NO_IO._replace(read_bytes=50 << 20), NO_IO._replace(read_bytes=1 << 20)
    assert growth_start_ns(10 * second, 30 * second, NO_IO, burst) == 30 * second
    assert growth_start_ns(10 * second, 30 * second, NO_IO, trickle) is None
    assert growth_start_ns(30 * second, 30 * second, NO_IO, burst) is None


def test_a_full_sweep_keeps_no_reference_to_active_processes() -> None:
    selection, entry = (
        AdaptiveSelection(Root("/")),
        ProcessEntry(ProcessKey(1, 2), b"sh", 0, b"", info_may_predate_exec=False),
    )
    before = sys.getrefcount(entry)
    for tick in range(1, 50):
        assert selection.select(tick, [entry], ()) is None
        selection.record_tick(tick, tick, None, [entry])
    assert sys.getrefcount(entry) == before
