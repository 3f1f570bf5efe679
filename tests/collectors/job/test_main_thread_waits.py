"""What the main thread of a real process waits for while its loader computes."""

from __future__ import annotations

import os
import pty
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from iotop_ai.collectors.io import process_memory
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.main_thread_waits import MOST_LOADERS, MainThreadWaits
from iotop_ai.collectors.job.rank_watch import RankWatch
from iotop_ai.collectors.job.task_sampler import TaskSampler
from iotop_ai.collectors.job.wait_target import WaitTarget
from iotop_ai.collectors.job.watched_task import WatchedTask
from iotop_ai.model.job.looks import LookCounts
from iotop_ai.model.job.records import LOADER, Job, Rank
from iotop_ai.model.job.task_states import NET, OTHER, QUEUE, RUNNING, wait_state_of
from iotop_ai.model.process.records import ProcessKey
from tests.collectors.job.children import fields
from tests.machines import Entries, build
from tests.waiting import until

PROGRAM = """\
import os, select, socket, sys
shared, _ = os.pipe()
pair = socket.socketpair()
server = socket.create_server(("127.0.0.1", 0))
worker = os.fork()
if not worker:
    while os.getppid() != 1:
        sum(range(20000))
    sys.exit()
own, _end = os.pipe()
mine = socket.socketpair()
late = socket.create_server(("127.0.0.1", 0))
at = {"result queue": [shared], "own pipe": [own], "both": [own, shared], "timer": [], "unix": [mine[0]], "tcp": [late]}
print(worker, flush=True)
select.select(at[sys.argv[1]], [], [], 1000)
"""
"""A trainer with a loader that computes. Its main thread polls the file that the argument names."""
PROMPT = """\
import sys
pair = "with" in sys.argv[1] and __import__("socket").socketpair()
if "answer" in sys.argv[1]:
    __import__("socket").create_connection(("127.0.0.1", int(sys.argv[2]))).recv(1)
while "asks" in sys.argv[1]:
    input()
"""
SWEEPS = 10


@contextmanager
def trainer(at: str) -> Iterator[tuple[ProcessKey, ProcessKey]]:
    """The keys of a trainer that waits in poll, and of its busy loader."""
    program = subprocess.Popen([sys.executable, "-c", PROGRAM, at], stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout is not None
        worker = int(program.stdout.readline())
        until(lambda: fields(program.pid)[0] == "S" and _in_a_call(program.pid) and fields(worker)[0] == "R")
        yield ProcessKey(program.pid, int(fields(program.pid)[19])), ProcessKey(worker, int(fields(worker)[19]))
    finally:
        program.kill()
        program.communicate()


def _in_a_call(pid: int) -> bool:
    """Whether the kernel names the system call; a task that is about to sleep still counts as "running"."""
    return os.geteuid() != 0 or Path(f"/proc/{pid}/syscall").read_text().split()[0].isdigit()


class _WithoutCalls(Root):
    """Root as another user's monitor sees it where yama protects the system calls."""

    def read_once(self, relative: str, size: int, offset: int = 0) -> bytes:
        if relative.endswith("/syscall"):
            raise PermissionError(relative)
        return super().read_once(relative, size, offset)


def looks_at(job: Job, root: Root | None = None) -> LookCounts:
    sampler = TaskSampler(root or Root(), Clock(), period_s=60.0)
    sampler.select({job.key: job})
    for _ in range(SWEEPS):
        sampler.sweep()
    found = sampler.looks()[job.key]
    sampler.close()
    return found


def job_of(main: ProcessKey, worker: ProcessKey, evidence: str = "loader", gpus: tuple[str, ...] = ()) -> Job:
    rank = Rank(main, (worker,), gpus, worker_kind=LOADER if evidence == "loader" else "")
    return Job(main, "train.py", "alice", 0, (rank,), evidence=(evidence,))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to see another process's call under any yama setting")
@pytest.mark.parametrize(
    ("at", "evidence", "waits"),
    [
        ("result queue", "loader", True),
        ("both", "loader", True),
        ("own pipe", "loader", False),
        ("own pipe", "children", False),
        ("timer", "loader", False),
        ("tcp", "loader", False),
        # A pool may answer through a socket, and the two ends of a Unix socket have different inode numbers.
        ("tcp", "children", True),
        ("unix", "loader", True),
    ],
)
def test_only_a_wait_that_a_loader_can_end_counts_as_waiting_for_data(at: str, evidence: str, waits: bool) -> None:
    with trainer(at) as (main, worker):
        found = looks_at(job_of(main, worker, evidence))
        assert found.looks == SWEEPS
        assert (found.waits.cpu, found.asleep) == ((SWEEPS, 0) if waits else (0, SWEEPS))


@pytest.mark.parametrize(
    ("loader_count", "kind", "partial", "may_be_data"),
    [
        (MOST_LOADERS, "", False, False),
        (MOST_LOADERS + 1, "", False, True),
        (MOST_LOADERS, "", True, True),
        (MOST_LOADERS + 1, LOADER, True, False),
    ],
)
def test_a_pipe_that_an_unread_loader_may_hold_may_bring_data(
    tmp_path: Path, loader_count: int, kind: str, partial: bool, may_be_data: bool
) -> None:
    """PyTorch's loaders share one result queue, so its first loaders are enough."""
    main, *loaders = [ProcessKey(100 + number, 7) for number in range(1 + loader_count)]
    entries: Entries = {}
    for key in (main, *loaders):
        entries[f"proc/{key.pid}/task/{key.pid}/stat"] = b""
        entries[f"proc/{key.pid}/fd/3"] = f"pipe:[{key.pid}]"
    root = build(entries, tmp_path)
    rank = Rank(main, tuple(loaders), worker_kind=kind)
    watch, tasks = RankWatch(root), [WatchedTask(root, key) for key in (main, *loaders)]
    watch.set(Job(main, "train.py", "alice", 0, (rank,)), rank, tasks[0], tasks[1:], partial)
    watch.tasks_to_sample(0)
    wait_states: list[int | None] = [QUEUE, *[RUNNING] * loader_count]
    inode = main.pid + MOST_LOADERS + 1
    MainThreadWaits(root).update([watch], wait_states, {main.pid: WaitTarget("pipe", (inode,), (3,), "read")}, 10**12)
    assert wait_states[0] == (QUEUE if may_be_data else OTHER)
    for task in tasks:
        task.close()


class _LateMemory(Root):
    """A Root whose processes' memory comes only when ``answer`` is set, as from a FUSE server."""

    def __init__(self) -> None:
        super().__init__()
        self.answer, self.asked = threading.Event(), threading.Event()

    def read_once(self, relative: str, size: int, offset: int = 0) -> bytes:
        if relative.endswith("/mem"):
            self.asked.set()
            self.answer.wait(30)
        return super().read_once(relative, size, offset)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to see another process's call under any yama setting")
def test_a_memory_read_that_hangs_loses_no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is the same as for an unknown call: the process counts as waiting for data."""
    monkeypatch.setattr(process_memory, "TIMEOUT_S", 2.0)
    root = _LateMemory()
    with trainer("own pipe") as (main, worker):
        job = job_of(main, worker)
        sampler = TaskSampler(root, Clock(), period_s=60.0)
        sampler.select({job.key: job})
        sweeps = threading.Thread(target=lambda: [sampler.sweep() for _ in range(SWEEPS)])
        began = time.monotonic()
        sweeps.start()
        assert root.asked.wait(20)
        sampler.tasks()  # it does not wait for the read
        assert not root.answer.is_set()
        assert sweeps.is_alive()
        sweeps.join()
        found = sampler.looks()[job.key]
        sampler.close()
        assert time.monotonic() - began < 20
        root.answer.set()
        assert (found.looks, found.asleep) == (SWEEPS, 0)


def test_with_a_gpu_its_utilisation_decides() -> None:
    with trainer("own pipe") as (main, worker):
        assert looks_at(job_of(main, worker, gpus=("GPU-0",))).waits.cpu == SWEEPS


@contextmanager
def script(does: str) -> Iterator[Job]:
    """A script at a terminal whose main thread sleeps in wait_woken, at the terminal or at a socket."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        terminal, its_end = pty.openpty()
        words = [sys.executable, "-c", PROMPT, does, str(server.getsockname()[1])]
        program = subprocess.Popen(words, stdin=its_end, stdout=its_end, stderr=its_end)
        try:
            until(lambda: wait_state_of(b"S", Path(f"/proc/{program.pid}/wchan").read_bytes()) == NET)
            key = ProcessKey(program.pid, int(fields(program.pid)[19]))
            yield Job(key, "chat.py", "alice", 0, (Rank(key, (), ("GPU-0",)),))
        finally:
            program.kill()
            program.communicate()
            os.close(terminal)
            os.close(its_end)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to see where another process sleeps")
@pytest.mark.parametrize(
    ("does", "root", "at_socket"),
    [
        ("asks", Root, False),
        ("asks with sockets", Root, False),
        ("answer", Root, True),
        ("asks", _WithoutCalls, False),
        ("answer", _WithoutCalls, True),
    ],
)
def test_a_script_that_waits_for_its_user_does_not_wait_for_the_network(
    does: str, root: type[Root], at_socket: bool
) -> None:
    """The kernel shows the same function for a read of a terminal and of a socket."""
    with script(does) as job:
        found = looks_at(job, root())
        assert (found.main_net, found.resting) == ((SWEEPS, 0) if at_socket else (0, SWEEPS))
