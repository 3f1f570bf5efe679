from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.model.job.records import Job, JobTable, Rank, job_rates
from iotop_ai.model.job.task_states import (
    CHILD,
    DISK,
    FUTEX,
    HIDDEN,
    NET,
    OTHER,
    QUEUE,
    RUNNING,
    STOPPED,
    SweepCounts,
    TaskCounts,
    add_sweep,
    sweep_rates,
    task_rates,
    wait_state_in,
    wait_state_of,
)
from iotop_ai.model.job.time_shares import TimeCounts
from iotop_ai.model.process.records import ProcessKey


@pytest.mark.parametrize(
    ("state", "wchan", "wait_state"),
    [
        (b"D", b"folio_wait_bit_common", DISK),
        (b"D", b"0", DISK),
        (b"R", b"0", RUNNING),
        (b"S", b"poll_schedule_timeout.constprop.0", QUEUE),
        (b"S", b"futex_do_wait", FUTEX),
        (b"S", b"anon_pipe_read", QUEUE),
        (b"S", b"unix_stream_read_generic", QUEUE),
        (b"S", b"pipe_wait", QUEUE),
        (b"S", b"io_cqring_wait", DISK),
        (b"S", b"__io_cqring_wait_schedule", DISK),
        (b"S", b"read_events", DISK),
        (b"S", b"wait_woken", NET),
        (b"S", b"inet_csk_accept", QUEUE),
        (b"S", b"__skb_wait_for_more_packets", QUEUE),
        (b"S", b"hrtimer_nanosleep", OTHER),
        (b"S", b"do_wait", CHILD),
        (b"S", b"0", HIDDEN),
        (b"S", b"", HIDDEN),
        (b"I", b"ptlrpc_set_wait", DISK),
        (b"S", b"request_wait_answer", DISK),
        (b"I", b"rescuer_thread", OTHER),
        (b"T", b"do_signal_stop", STOPPED),
    ],
)
def test_a_state_and_its_wait_channel_give_the_wait_state(state: bytes, wchan: bytes, wait_state: int) -> None:
    assert wait_state_of(state, wchan) == wait_state


@pytest.mark.parametrize(
    ("wchan", "wait_state"),
    [
        (b"futex_do_wait", FUTEX),
        (b"tcp_recvmsg_locked", NET),
        (b"hrtimer_nanosleep", OTHER),
        (b"sigsuspend.isra.0", OTHER),
        (b"folio_wait_bit_common", DISK),
        (b"folio_wait_bit_common_of_another_kind", None),
        (b"request_wait_answer", None),
        (b"0", None),
        (b"", None),
    ],
)
def test_wait_channels_are_known_by_name(wchan: bytes, wait_state: int | None) -> None:
    assert wait_state_in(wchan) == wait_state
    if wait_state is not None:
        assert wait_state_of(b"D" if wait_state == DISK else b"S", wchan) == wait_state


def swept(*looks: tuple[int, list[int]]) -> SweepCounts:
    counts = [0] * len(SweepCounts._fields)
    for main, workers in looks:
        add_sweep(counts, main, workers)
    return SweepCounts(*counts)


def test_a_trainer_at_a_queue_with_a_worker_at_work_waits_for_data() -> None:
    got = swept((QUEUE, [DISK, QUEUE]), (QUEUE, [RUNNING, DISK]), (QUEUE, [NET, OTHER]))
    assert (got.sweeps, got.waits, got.main_queue) == (3, 3, 3)
    assert (got.wait_disk, got.wait_running, got.wait_net, got.wait_other) == (2, 1, 1, 1)
    assert got.blocked == 2


@pytest.mark.parametrize(
    ("main", "workers"), [(QUEUE, [QUEUE, QUEUE]), (QUEUE, []), (RUNNING, [DISK]), (OTHER, [RUNNING]), (DISK, [DISK])]
)
def test_any_other_sample_is_not_a_wait_for_data(main: int, workers: list[int]) -> None:
    got = swept((main, workers))
    assert (got.waits, got.wait_disk, got.wait_running) == (0, 0, 0)


def test_a_hidden_trainer_beside_a_working_worker_is_a_blind_wait() -> None:
    got = swept((HIDDEN, [DISK, HIDDEN]), (HIDDEN, [HIDDEN]), (HIDDEN, [QUEUE]))
    assert (got.sweeps, got.waits, got.blind, got.wait_disk, got.main_hidden) == (3, 1, 1, 1, 3)


def test_rates_of_a_task_are_shares_of_the_samples() -> None:
    before = TaskCounts(10, 10, 10, 0, 0, 0, 1_000_000_000, 500_000_000, 100)
    after = TaskCounts(25, 12, 13, 0, 0, 0, 1_250_000_000, 600_000_000, 300)
    got = task_rates(before, after, 1.0)
    assert got == (0.75, 0.1, 0.15, 0.25, 0.1, 200.0)
    assert got.idle_ratio == 0.0
    assert after.looks == 50


def test_unknown_counts_give_unknown_rates() -> None:
    counts = TaskCounts(5)
    assert task_rates(None, counts, 1.0) == (None,) * 6
    assert task_rates(counts, counts, 1.0)[:3] == (None, None, None)
    assert task_rates(TaskCounts(9), counts, 1.0).disk_ratio is None
    assert task_rates(counts, TaskCounts(9), 1.0).idle_ratio is None
    assert sweep_rates(None, SweepCounts(), ()) is None
    assert sweep_rates(SweepCounts(5), SweepCounts(4), ()) is None


def test_tasks_with_equal_growth_share_their_rates() -> None:
    keys = [ProcessKey(10 + n, 1) for n in range(4)]
    before = {key: TaskCounts(n, n, n, 0, 0, 0, n, n, n) for n, key in enumerate(keys[:3])}
    after = {key: old._replace(queue=old.queue + 20) for key, old in before.items()}
    after[keys[1]] = after[keys[1]]._replace(run_ns=None)
    after[keys[3]] = TaskCounts(queue=20)
    got = job_rates(JobTable(tasks=before), JobTable(tasks=after), 1.0).tasks
    assert got == {key: task_rates(before[key], after[key], 1.0) for key in keys[:3]}
    assert got[keys[0]] is got[keys[2]]
    assert (got[keys[0]].queue_ratio, got[keys[1]].cpu_ratio) == (1.0, None)


def test_rates_of_a_job_come_from_its_sweeps_and_workers() -> None:
    main, one, two = ProcessKey(10, 1), ProcessKey(11, 2), ProcessKey(12, 3)
    job = Job(main, "train.py", "alice", 1000, (Rank(main, (one, two)),))

    def table(n: int) -> JobTable:
        sweeps = swept(*[(QUEUE, [DISK, QUEUE])] * n, *[(RUNNING, [QUEUE, QUEUE])] * n)
        tasks = {one: TaskCounts(disk=n, queue=n, run_ns=0, wait_ns=0), two: TaskCounts(queue=2 * n)}
        return JobTable({main: job}, {main: sweeps}, tasks, own_cpu_ns=n * 1_000_000)

    got = job_rates(table(10), table(20), 1.0)
    rates = got.jobs[main]
    assert (rates.sweeps, rates.waits, rates.stall_ratio) == (20, 10, 0.5)
    assert (rates.main_running_ratio, rates.blocked_tasks, rates.worker_disk_ratio) == (0.5, 0.5, 0.25)
    assert (rates.worker_cpu_ratio, rates.worker_idle_ratio) == (0.0, 0.5)
    assert got.own_cpu_ratio == 0.01
    assert job_rates(None, table(1), None).jobs == {}


def test_waits_for_files_are_a_share_of_the_interval() -> None:
    one, two = ProcessKey(10, 1), ProcessKey(11, 2)
    before = JobTable(times=dict.fromkeys((one, two), TimeCounts(compute=500)), file_waits={one: 100})
    after = JobTable(
        times=dict.fromkeys((one, two), TimeCounts(compute=1000, data_network=500)), file_waits={one: 300, two: 100}
    )
    got = job_rates(before, after, 1.0)
    assert got.file_waits == {one: 0.2}
    assert got.times[one].data_network == 0.5
    assert job_rates(None, after, None).file_waits == {}


def test_waits_of_ranks_are_shares_of_the_interval() -> None:
    one, two = ProcessKey(10, 1), ProcessKey(11, 2)
    jobs = {one: Job(one, "train.py", "alice", 1000, (Rank(one), Rank(two)))}
    before = JobTable(jobs, times={one: TimeCounts(compute=500)}, rank_waits={one: 100, two: 100})
    after = JobTable(jobs, times={one: TimeCounts(compute=1500)}, rank_waits={one: 100, two: 300})
    assert job_rates(before, after, 1.0).rank_waits == {one: 0.0, two: 0.2}
    assert job_rates(None, after, None).rank_waits == {}
    assert job_rates(before, after._replace(rank_waits={}), 1.0).rank_waits == {}


WAIT_STATES = st.integers(0, 5)


@given(st.lists(st.tuples(WAIT_STATES, st.lists(WAIT_STATES, max_size=5)), max_size=30), st.floats(0.01, 100))
def test_the_parts_of_the_sweeps_are_consistent(looks: list[tuple[int, list[int]]], seconds: float) -> None:
    counts = swept(*looks)
    rates = sweep_rates(SweepCounts(), counts, ())
    assert rates is not None
    assert counts.waits <= counts.sweeps
    assert sum(counts[1:7]) == counts.sweeps
    assert rates.stall_ratio is None or 0 <= rates.stall_ratio <= 1
    assert (rates.stall_ratio is None) == (not looks)


WAITS = {
    "read_events": (
        "context = ctypes.c_ulong(0)",
        "libc.syscall(206, 8, ctypes.byref(context))",
        "libc.syscall(208, context, ctypes.c_long(1), ctypes.c_long(8), ctypes.create_string_buffer(256), None)",
    ),
    "io_cqring_wait": (
        "fd = libc.syscall(425, 8, ctypes.create_string_buffer(120))",
        "fd < 0 or libc.syscall(426, fd, 0, 1, 1, None, 0)",
    ),
}
"""Pairs of system calls, io_setup and io_getevents or io_uring_setup and io_uring_enter, that wait for a request for
ever."""


@pytest.mark.skipif(os.uname().machine != "x86_64" or os.geteuid() != 0, reason="numbers of x86_64; wchan needs root")
@pytest.mark.parametrize("function", WAITS)
def test_a_wait_for_requests_is_known_on_this_kernel(function: str) -> None:
    code = "\n".join(("import ctypes, time", "libc = ctypes.CDLL(None)", *WAITS[function], "time.sleep(60)"))
    with subprocess.Popen([sys.executable, "-c", code]) as child:
        try:
            wchan, state = b"", b""
            for _ in range(1500):  # the child may wait for a disk, too, while it starts
                wchan = Path(f"/proc/{child.pid}/wchan").read_bytes()
                state = Path(f"/proc/{child.pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
                if (state, wait_state_of(state, wchan)) == (b"S", DISK) or b"nanosleep" in wchan:
                    break
                time.sleep(0.02)
            if b"nanosleep" in wchan:
                pytest.skip("this kernel refuses the call")
            assert (state, wait_state_of(state, wchan)) == (b"S", DISK), wchan
        finally:
            child.kill()


LISTENERS = {
    "TCP": "socket.socket(); s.bind(('127.0.0.1', 0))",
    "Unix": "socket.socket(socket.AF_UNIX); s.bind('')",
}


@pytest.mark.skipif(os.geteuid() != 0, reason="wchan needs root")
@pytest.mark.parametrize("kind", LISTENERS)
def test_a_server_in_accept_sleeps_in_a_queue(kind: str) -> None:
    code = f"import socket; s = {LISTENERS[kind]}; s.listen(); print(flush=True); s.accept()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"\n"
            wchan = b"0"
            for _ in range(1500):
                wchan = Path(f"/proc/{child.pid}/wchan").read_bytes()
                if wait_state_in(wchan) is not None and child.poll() is None:
                    break
                time.sleep(0.02)
            assert wait_state_in(wchan) == QUEUE, wchan
        finally:
            child.kill()
