"""When the states of a job's tasks are sampled, and which of its processes wait for the network."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import closing
from itertools import accumulate, islice

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.network_watch import NetworkWatch
from iotop_ai.collectors.job.rank_watch import RankWatch
from iotop_ai.collectors.job.sockets import JobSockets, SocketDiag, Traffic
from iotop_ai.collectors.job.task_sampler import PERIOD_S, TaskSampler, uneven_waits
from iotop_ai.collectors.job.wait_target import WaitTarget
from iotop_ai.collectors.job.watched_task import WatchedTask
from iotop_ai.model.job.records import Job, Rank
from iotop_ai.model.job.task_states import NET, QUEUE
from iotop_ai.model.process.records import ProcessKey
from tests.collectors.job.children import fields

LOOKS = 600
"""The number of samples in half a minute."""


@pytest.mark.parametrize("step_s", [PERIOD_S * factor for factor in (1 / 3, 0.5, 0.999, 1.0, 1.001, 1.5, 2, 3, 4, 10)])
@pytest.mark.parametrize("waits", [0.1, 0.4, 0.9])
def test_a_loop_in_step_with_the_samples_is_measured_correctly(step_s: float, waits: float) -> None:
    """Each step first waits and then computes. At any step length the samples must show the true proportion."""
    times = list(accumulate(islice(uneven_waits(PERIOD_S, seed=1), LOOKS)))
    seen = sum(at % step_s < waits * step_s for at in times) / LOOKS
    assert seen == pytest.approx(waits, abs=0.06)


def test_there_are_as_many_samples_as_at_regular_intervals() -> None:
    waits = list(islice(uneven_waits(PERIOD_S, seed=1), LOOKS))
    assert min(waits) >= 0
    assert sum(waits) / LOOKS == pytest.approx(PERIOD_S, rel=0.01)


class _HangsOnce(TaskSampler):
    """A sampler whose first sweep lasts until ``goes_on`` is set."""

    def __init__(self) -> None:
        super().__init__(Root(), Clock(), period_s=0.001)
        self.hangs, self.goes_on = threading.Event(), threading.Event()
        self.first_thread: threading.Thread | None = None

    def sweep(self) -> None:
        if self.first_thread is None:
            self.first_thread = threading.current_thread()
            self.hangs.set()
            assert self.goes_on.wait(20)


def test_a_thread_that_ends_late_does_not_sample_beside_the_next_one() -> None:
    main = ProcessKey(os.getpid(), int(fields(os.getpid())[19]))
    job, sampler = Job(main, "train.py", "alice", 0, (Rank(main),)), _HangsOnce()
    sampler.select({main: job})
    assert sampler.hangs.wait(20)
    sampler.select({})
    sampler.select({main: job})
    sampler.goes_on.set()
    assert sampler.first_thread is not None
    sampler.first_thread.join(20)
    assert not sampler.first_thread.is_alive()
    sampler.close()


OVER_TCP = """\
import os, socket, sys
server = socket.create_server(("127.0.0.1", 0))
worker = os.fork()
if not worker:
    trainer = server.accept()[0]
    while trainer.recv(1):
        trainer.sendall(bytes(1_000_000))
    os._exit(0)
loader = socket.create_connection(server.getsockname())
server.close()
print(worker, flush=True)
far = []
for line in sys.stdin:
    far = [socket.create_connection(("127.0.0.1", int(line)))] if line.strip() else []
    loader.sendall(b"?")
    assert len(loader.recv(1_000_000, socket.MSG_WAITALL)) == 1_000_000
    print(flush=True)
"""
"""A trainer whose loader sends it a batch over TCP for each line of input. The line names a port, to which the trainer
then stays connected until the next line."""


@pytest.mark.parametrize("its_loader", [True, False])
def test_batches_from_the_jobs_loaders_do_not_come_from_the_network(its_loader: bool) -> None:
    program = [sys.executable, "-c", OVER_TCP]
    with (
        subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as trainer,
        closing(SocketDiag(Root(), Clock())) as diag,
    ):
        assert trainer.stdin is not None
        assert trainer.stdout is not None
        pids = [trainer.pid, int(trainer.stdout.readline())]
        main, worker = (ProcessKey(pid, int(fields(pid)[19])) for pid in pids)
        workers = (worker,) if its_loader else ()
        rank = Rank(main, workers)
        watch = RankWatch(Root())
        tasks = [WatchedTask(Root(), key) for key in (main, *workers)]
        watch.set(Job(main, "train.py", "alice", 0, (rank,)), rank, tasks[0], tasks[1:], False)
        watch.tasks_to_sample(0)
        network = NetworkWatch(JobSockets(Root(), diag))
        network.update([watch], [], {}, 10**9)
        print(file=trainer.stdin, flush=True)
        assert trainer.stdout.readline() == "\n"
        network.update([watch], [], {}, 2 * 10**9)
        assert watch.receiving == (frozenset() if its_loader else {main.pid})
        assert watch.connected_within_job == ({main.pid, worker.pid} if its_loader else frozenset())
        with socket.create_server(("127.0.0.1", 0)) as elsewhere:
            port = elsewhere.getsockname()[1]
            print(port, file=trainer.stdin, flush=True)
            elsewhere.accept()[0].close()
            assert trainer.stdout.readline() == "\n"
            network.update([watch], [], {}, 5 * 10**9)
        assert main.pid not in watch.connected_within_job
        print(file=trainer.stdin, flush=True)
        assert trainer.stdout.readline() == "\n"
        network.update([watch], [], {}, 9 * 10**9)
        assert main.pid not in watch.connected_within_job
        network.update([watch], [], {}, 10 * 10**9)
        assert (main.pid in watch.connected_within_job) is its_loader
        for task in tasks:
            task.close()
        trainer.stdin.close()


class ReceivesFromElsewhere(JobSockets):
    """Sockets of processes that all receive 40 MB/s from another machine."""

    def __init__(self) -> None:
        pass

    def update(self, pids: Sequence[int], *_: object) -> dict[int, Traffic]:
        return dict.fromkeys(pids, Traffic(40e6, True, "10.0.0.2:45321", 8))


@pytest.mark.parametrize(("group", "ranks", "is_data"), [("", 1, True), ("", 2, False), ("10.0.0.1:29500", 1, False)])
def test_bytes_of_other_ranks_are_not_data_even_from_another_machine(group: str, ranks: int, is_data: bool) -> None:
    main = ProcessKey(os.getpid(), int(fields(os.getpid())[19]))
    members = tuple(Rank(ProcessKey(main.pid + number, main.start_ticks)) for number in range(ranks))
    watch, task = RankWatch(Root()), WatchedTask(Root(), main)
    watch.set(Job(main, "train.py", "alice", 0, members, group=group), members[0], task, [], False)
    watch.tasks_to_sample(0)
    NetworkWatch(ReceivesFromElsewhere()).update([watch], [main.pid], {}, 10**9)
    assert watch.receiving == ({main.pid} if is_data else frozenset())
    task.close()


class Traffics(JobSockets):
    """Sockets of processes that all have the same traffic; None if it is unknown."""

    def __init__(self) -> None:
        self.traffic: Traffic | None = None

    def update(self, pids: Sequence[int], *_: object) -> dict[int, Traffic]:
        return {} if self.traffic is None else dict.fromkeys(pids, self.traffic)


def watch_of(worker_kind: str = "loader") -> tuple[RankWatch, NetworkWatch, Traffics]:
    """A watch of this process, with its parent as its worker, over sockets whose traffic a test sets."""
    main, worker = (ProcessKey(pid, int(fields(pid)[19])) for pid in (os.getpid(), os.getppid()))
    rank = Rank(main, (worker,), worker_kind=worker_kind)
    watch, traffics = RankWatch(Root()), Traffics()
    tasks = [WatchedTask(Root(), key) for key in (main, worker)]
    watch.set(Job(main, "train.py", "alice", 0, (rank,)), rank, tasks[0], tasks[1:], False)
    watch.tasks_to_sample(0)
    for task in tasks:
        task.close()
    return watch, NetworkWatch(traffics), traffics


AT_SOCKET = WaitTarget("socket", (7,), (5,), "poll")


@pytest.mark.parametrize(
    ("kind", "target", "waits"),
    [("loader", AT_SOCKET, True), ("loader", WaitTarget("pipe", (7,), (5,), "poll"), False), ("ray", AT_SOCKET, False)],
    ids=["at a socket", "at its queue", "Ray's services"],
)
def test_the_system_call_shows_a_wait_at_sockets_that_are_not_listed(
    kind: str, target: WaitTarget, waits: bool
) -> None:
    """The sockets of a container with a network of its own are not in the list of this network.

    The trainer itself may be a server that waits at its port.
    """
    watch, network, _ = watch_of(kind)
    pids = watch.pids()
    assert set(network.due(pids)) == set(pids)
    network.update([watch], pids, dict.fromkeys(pids, target), 10**9)
    assert watch.receiving == (frozenset(pids[1:]) if waits else frozenset())


@pytest.mark.parametrize(
    ("traffic", "gets_data"),
    [
        (Traffic(40e6, True, "10.0.0.2:443", 8), True),
        (Traffic(2_000.0, True, "10.0.0.2:8000", 1), False),
        (Traffic(0.0, False, "10.0.0.2:8000", 1), False),
        (None, True),
    ],
    ids=["stream", "answers to requests", "silence", "unknown"],
)
def test_a_main_thread_at_a_socket_waits_for_data_only_if_data_comes(traffic: Traffic | None, gets_data: bool) -> None:
    watch, network, traffics = watch_of()
    traffics.traffic = traffic
    for second in range(1, 10):
        network.update([watch], [], {}, second * 10**9)
        assert watch.main_gets_data, "it was judged before ten seconds"
    for second in range(10, 14):
        network.update([watch], [], {}, second * 10**9)
    assert watch.main_gets_data is gets_data
    watch.count([NET, QUEUE], 1)
    counts = watch.tally.take()
    assert (counts.main_net, counts.asleep) == ((1, 0) if gets_data else (0, 1))
    traffics.traffic = Traffic(40e6, True, "10.0.0.2:443", 8)
    network.update([watch], [], {}, 14 * 10**9)
    assert watch.main_gets_data


@pytest.mark.parametrize(
    "changes",
    [{"inodes": frozenset({1})}, {"near": 1}],
    ids=["a connection for each request", "loaders of the job"],
)
def test_bytes_that_are_not_counted_may_be_data(changes: dict[str, object]) -> None:
    """A connection that opens and closes between two updates is not counted, nor is one within the job."""
    watch, network, traffics = watch_of()
    for second in range(1, 40):
        more = {**changes, "inodes": frozenset({second})} if "inodes" in changes else changes
        traffics.traffic = Traffic(0.0, False, "10.0.0.2:8000", 1)._replace(**more)  # type: ignore[arg-type]
        network.update([watch], [], {}, second * 10**9)
        assert watch.main_gets_data
