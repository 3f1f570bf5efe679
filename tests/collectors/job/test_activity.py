"""Activity of real children (a pool that computes, children that answer through a Pipe()) and of made-up tables."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.activity import EVERY_S, ActivityTracker
from iotop_ai.collectors.job.collector import JobCollector
from iotop_ai.collectors.process.collector import ProcessCollector
from iotop_ai.model.job.records import Job, Rank
from iotop_ai.model.process.records import ProcessInfo, ProcessIo, ProcessKey, ProcessStat, ProcessTable

POOL = """
import multiprocessing, time
def work(_):
    end = time.monotonic() + 120
    while time.monotonic() < end:
        sum(range(1000))
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(work, range(2))
"""
ANSWERS = """
import multiprocessing, time
def simulate(pipe):
    while True:
        number = pipe.recv()
        pipe.send(number + sum(range(COMPUTING)))
if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    pipes = []
    for _ in range(2):
        ours, theirs = context.Pipe()
        context.Process(target=simulate, args=(theirs,), daemon=True).start()
        theirs.close()
        pipes.append(ours)
    total = sum(range(10_000_000))
    while True:
        for pipe in pipes:
            pipe.send(1)
        for pipe in pipes:
            pipe.recv()
        time.sleep(0.005)
"""
Start = Callable[[str], subprocess.Popen[bytes]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def begin(source: str) -> subprocess.Popen[bytes]:
        script = tmp_path / "prepare.py"
        script.write_text(source)
        started.append(subprocess.Popen([sys.executable, str(script)], start_new_session=True))
        return started[-1]

    yield begin
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def found(process: subprocess.Popen[bytes], enough: Callable[[Rank], bool]) -> Job:
    """The job of the process once ``enough`` accepts its first rank; if that takes 60 s, fail with the last job."""
    root, clock = Root("/"), Clock()
    processes, jobs = ProcessCollector(root, clock), JobCollector(root, clock)
    job = None
    try:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            jobs.see(processes.read(), None)
            job = next((job for job in jobs.read().jobs.values() if job.key.pid == process.pid), None)
            if job is not None and enough(job.ranks[0]):
                return job
            time.sleep(0.2)
        pytest.fail(f"not found in 60 s: {job}, exit code {process.poll()}")
    finally:
        jobs.close()
        processes.close()


def test_a_pool_that_works_is_a_preparation_job(start: Start) -> None:
    job = found(start(POOL), lambda rank: len(rank.workers) == 2)
    assert (job.name, job.evidence, job.weak, job.hidden) == ("prepare.py", ("children",), True, ())
    assert job.ranks[0].worker_kind == "pool"


# With less to compute, the children may use less than LEAST_ACTIVITY where other tests share the cores.
@pytest.mark.parametrize("computing", [300_000, 1_000_000])
def test_children_that_answer_through_a_pipe_are_environments_and_not_loaders(start: Start, computing: int) -> None:
    """Even children that compute most of the time and hardly ever sleep are environments."""
    job = found(start(ANSWERS.replace("COMPUTING", str(computing))), lambda rank: rank.worker_kind == "env")
    assert len(job.workers) == 2


KEY = ProcessKey(10, 5)


def table(
    second: float, ticks: int, read_bytes: int = 0, pages: int = 1000, wchan: str = "", state: str = "S"
) -> ProcessTable:
    at = int(second * 1e9)
    stat = ProcessStat(state, 1, 0, 0, 0, ticks, 0, 1, pages, 0)
    io = ProcessIo(0, 0, 0, 0, read_bytes, 0, 0)
    return ProcessTable(
        {KEY: io}, {KEY: stat}, {KEY: ProcessInfo("python", ("python",), "alice", 1000)}, frozenset(), at, at, (at,),
        {}, {}, {}, {KEY: wchan} if wchan else {},
    )  # fmt: skip


def seen(*tables: ProcessTable) -> ActivityTracker:
    tracker = ActivityTracker()
    for one in tables:
        tracker.update(one, {KEY}, one.stat_at_ns)
    return tracker


def test_a_program_counts_as_working_after_it_was_busy_twice_in_a_row() -> None:
    busy_once = [table(0, 0), table(EVERY_S, 100)]
    assert seen(*busy_once).work.cores[KEY] == pytest.approx(0.2)
    assert KEY not in seen(*busy_once).work.working  # this may be the import of a library
    assert KEY not in seen(*busy_once, table(2 * EVERY_S, 110), table(3 * EVERY_S, 210)).work.working
    worked = seen(*busy_once, table(2 * EVERY_S, 200), table(3 * EVERY_S, 200))
    assert worked.work.cores[KEY] == 0.0
    assert KEY in worked.work.working  # the program has not changed since
    worked.forget(KEY)
    worked.update(table(4 * EVERY_S, 200), {KEY}, int(4 * EVERY_S * 1e9))
    assert KEY not in worked.work.working


def test_reading_bytes_counts_as_work() -> None:
    tables = [table(i * EVERY_S, 0, int(i * EVERY_S * 20e6)) for i in range(3)]
    got = seen(*tables).work
    assert got.bytes_per_s[KEY] == pytest.approx(20e6)
    assert KEY in got.working


@pytest.mark.parametrize(("state", "works"), [("R", True), ("D", True), ("S", False)])
def test_a_program_that_waits_to_run_or_read_counts_as_working(state: str, works: bool) -> None:
    got = seen(*(table(i * EVERY_S, i, state=state) for i in range(3))).work
    assert (KEY in got.working) == works


def test_no_measurement_is_made_before_it_is_due() -> None:
    tracker = seen(table(0, 0), table(EVERY_S, 100))
    before = tracker.work
    tracker.update(table(EVERY_S + 1, 110, 100), {KEY}, int((EVERY_S + 1) * 1e9))
    assert tracker.work.cores is before.cores


def test_a_program_that_has_grown_is_inspected_again_once() -> None:
    tracker = seen(table(0, 0), table(EVERY_S, 0, pages=2000))
    assert tracker.grown == set()
    for second, pages in ((2, 30_000), (3, 31_000)):
        tracker.update(table(second * EVERY_S, 0, pages=pages), {KEY}, int(second * EVERY_S * 1e9))
        assert tracker.grown == ({KEY} if pages == 30_000 else set())
        tracker.grown.clear()


@pytest.mark.parametrize("page_bytes", [4096, 65536])
def test_growth_is_measured_in_bytes_whatever_the_size_of_a_page(page_bytes: int) -> None:
    def resident(second: float, mebibytes: int) -> ProcessTable:
        return table(second, 0, pages=(mebibytes << 20) // page_bytes)._replace(page_bytes=page_bytes)

    assert seen(resident(0, 40), resident(EVERY_S, 120)).grown == set()
    assert seen(resident(0, 40), resident(EVERY_S, 125)).grown == {KEY}
