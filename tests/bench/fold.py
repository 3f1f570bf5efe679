"""The cost of the verdict: CPU ms of the fold per tick, on a synthetic server with a job on 8 GPUs and 1,000 processes.

Run ``python -m tests.bench.fold [--ticks 120] [--rounds 3] [--parts]``. Exit code 1: the fold takes more than LIMIT_MS
on a server with a job. --parts: print what each part of the fold takes.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import sys
import time
from collections.abc import Sequence

from iotop_ai.diagnosis.engine import fold
from iotop_ai.diagnosis.facts.fold_cache import FoldCache
from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.frame import HISTORY_S
from iotop_ai.model.job.records import Job, JobMount, JobPlace, JobTable, Rank
from iotop_ai.model.job.task_states import SweepCounts, TaskCounts
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.sample import Sample, between
from iotop_ai.model.snapshot import Snapshot
from tests.bench.server import SECOND, Server

LIMIT_MS = 3.0
TICKS = 120


class Training(Server):
    """The server with a recognised job: a rank per GPU with three workers each, which fetch data.

    active: whether every process works.
    """

    def __init__(self, *, processes: int = 1000, gpus: int = 8, active: bool = True) -> None:
        super().__init__("all", processes=processes, gpus=gpus)
        keys = self.keys[: 4 * gpus]
        self.ranks = tuple(
            Rank(keys[i], tuple(keys[gpus + 3 * i : gpus + 3 * i + 3]), (self.gpus[i].uuid,)) for i in range(gpus)
        )
        if active:
            self.workers = processes - 1
        self.sweeps = SweepCounts()
        self.tasks = {key: TaskCounts(run_ns=0, wait_ns=0, rss_bytes=1 << 30) for key in keys}

    def snapshot(self) -> Snapshot:
        """Return the Snapshot of the next second.

        The workers are mostly blocked, so the trainers mostly wait for them.
        """
        snapshot = super().snapshot()
        old, waits = self.sweeps, self.random.randrange(13, 19)
        self.sweeps = old._replace(
            sweeps=old.sweeps + 20,
            main_queue=old.main_queue + waits,
            main_other=old.main_other + 20 - waits,
            waits=old.waits + waits,
            wait_disk=old.wait_disk + 3 * waits,
            blocked=old.blocked + 60,
        )
        self.tasks = {
            key: task._replace(disk=task.disk + 19, running=task.running + 1, run_ns=(task.run_ns or 0) + SECOND // 20)
            for key, task in self.tasks.items()
        }
        top = self.ranks[0].key
        table = JobTable(
            {top: Job(top, "train.py", "alice", 1000, self.ranks, evidence=("gpu", "loader"))},
            {top: self.sweeps},
            self.tasks,
            {top: JobPlace(mounts=(JobMount("/data0", "xfs", "/dev/nvme0n1", "259:0"),))},
            0,
        )
        return snapshot._replace(jobs=Reading(table, Status.OK, at_ns=snapshot.at_ns))


class Crowd(Server):
    """A server without a job or a GPU, so that the rules about single processes run."""

    def __init__(self, processes: int = 1000) -> None:
        super().__init__("all", processes=processes, gpus=0)
        self.workers = processes - 1
        self.info = {key: info._replace(name=f"reader-{i % 20}") for i, (key, info) in enumerate(self.info.items())}


def histories(server: Server, ticks: int) -> list[tuple[Snapshot, tuple[Sample, ...]]]:
    """Return the inputs of the fold, one per tick."""
    out: list[tuple[Snapshot, tuple[Sample, ...]]] = []
    history: tuple[Sample, ...] = ()
    before: Snapshot | None = None
    for _ in range(ticks):
        snapshot = server.snapshot()
        sample = between(before, snapshot, history[-1] if history else None)
        oldest = snapshot.at_ns - int(HISTORY_S * 1e9)
        history = (*(s for s in history if s.at_ns > oldest), sample)
        out.append((snapshot, history))
        before = snapshot
    return out


def measured(ticks: Sequence[tuple[Snapshot, tuple[Sample, ...]]]) -> tuple[float, float]:
    """Return the mean and the largest CPU time of a tick in ms, over the second half of the ticks."""
    carry, cache, spent = FoldState(), FoldCache(), []
    for snapshot, history in ticks:
        start = time.thread_time_ns()
        carry, _ = fold(carry, snapshot, history, cache=cache)
        spent.append((time.thread_time_ns() - start) / 1e6)
    settled = spent[len(spent) // 2 :]
    return statistics.mean(settled), max(settled)


def main() -> int:
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ticks", type=int, default=TICKS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", action="store_true")
    args = parser.parse_args()
    over = False
    for name, server, limit_ms in (
        ("1,000 processes, all active", Training(), LIMIT_MS),
        ("1,000 processes, 70 active", Training(active=False), LIMIT_MS),
        ("100 processes, all active", Training(processes=100), LIMIT_MS),
        ("1,000 processes, all active, no job and no GPU", Crowd(), None),
    ):
        ticks = histories(server, args.ticks)
        rounds = [measured(ticks) for _ in range(args.rounds)]
        best = min(mean for mean, _ in rounds)
        over |= limit_ms is not None and best > limit_ms
        limit = "no limit" if limit_ms is None else f"limit {limit_ms:g}"
        print(f"{name}: {best:.2f} ms a tick ({limit}), worst {min(worst for _, worst in rounds):.1f} ms")
        if args.parts:
            profile = cProfile.Profile()
            profile.runcall(measured, ticks)
            pstats.Stats(profile).sort_stats("cumulative").print_stats(28)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
