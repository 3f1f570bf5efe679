"""Random trees of processes in a model of the kernel's accounting, read at slightly different times, as in reality."""

import random
from dataclasses import dataclass, field

import pytest

from iotop_ai.model.process.rates import process_rates
from iotop_ai.model.process.records import ProcessIo, ProcessKey, ProcessStat, ProcessTable
from iotop_ai.model.reading import Reading, Status
from tests.examples import quick_or

MB = 1_000_000
COHORTS = 5


@dataclass
class Task:
    pid: int
    start: int
    parent: "Task | None"
    io: list[int] = field(default_factory=lambda: [0] * 7)
    minflt: int = 0
    cminflt: int = 0
    zombie: bool = False
    gone: bool = False
    ignores_sigchld: bool = False
    subreaper: bool = False
    children: list["Task"] = field(default_factory=list)


class Kernel:
    """A model of fork, write, exit and wait with the kernel's accounting. pid 1 reaps orphans at once."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = 1
        self.pid = 1
        self.truth = 0
        self.init = Task(1, 0, None, minflt=50)
        self.tasks = [self.init]
        for _ in range(self.random.randint(1, 3)):
            self.fork(self.init)

    def living(self) -> list[Task]:
        return [task for task in self.tasks if not task.zombie and task is not self.init]

    def fork(self, parent: Task) -> Task:
        self.pid += 1
        self.clock += 1
        task = Task(self.pid, self.clock, parent, minflt=self.random.randint(60, 400))
        task.ignores_sigchld = self.random.random() < 0.15
        task.subreaper = self.random.random() < 0.1
        parent.children.append(task)
        self.tasks.append(task)
        self.move(task, self.random.randint(1, 40) * 1000)
        return task

    def move(self, task: Task, amount: int) -> None:
        calls = 1 + amount // 65536
        grown = (amount // 3, amount, calls, calls, amount // 7, amount, amount // 50)
        task.io = [a + b for a, b in zip(task.io, grown, strict=True)]
        task.minflt += self.random.randint(0, 30)
        self.truth += amount

    def drop(self, task: Task) -> None:
        task.gone = True
        self.tasks.remove(task)
        if task.parent is not None:
            task.parent.children.remove(task)

    def reap(self, parent: Task, child: Task) -> None:
        parent.io = [a + b for a, b in zip(parent.io, child.io, strict=True)]
        parent.cminflt += child.minflt + child.cminflt
        self.drop(child)

    def exit(self, task: Task) -> None:
        heir = task.parent
        while heir is not None and heir is not self.init and not (heir.subreaper and not heir.zombie):
            heir = heir.parent
        heir = heir or self.init
        for child in list(task.children):
            task.children.remove(child)
            child.parent = heir
            heir.children.append(child)
            if child.zombie and heir is self.init:
                self.reap(heir, child)
        task.zombie = True
        assert task.parent is not None
        if task.parent.ignores_sigchld:
            self.drop(task)
        elif task.parent is self.init:
            self.reap(self.init, task)

    def step(self) -> None:
        self.clock += 1
        tasks = self.living()
        if not tasks:
            self.fork(self.init)
            return
        task = self.random.choice(tasks)
        what = self.random.random()
        if what < 0.3:
            self.move(task, self.random.choice((4096, 100_000, 2 * MB, 20 * MB)))
        elif what < 0.5 and len(tasks) < 25:
            self.fork(task)
        elif what < 0.75 and task.parent is not self.init:
            self.exit(task)
        else:
            dead = [child for child in task.children if child.zombie]
            if dead:
                self.reap(task, self.random.choice(dead))


class Reader:
    """Reads like the collector: all io, oldest process first; the stat of active processes and a fifth of the rest."""

    def __init__(self, kernel: Kernel, skew: float) -> None:
        self.kernel = kernel
        self.skew = skew
        self.seq = -1
        self.io: dict[ProcessKey, ProcessIo] = {}
        self.stat: dict[ProcessKey, ProcessStat] = {}
        self.stat_at = (0,) * COHORTS
        self.stat_out: dict[ProcessKey, int] = {}

    def between_reads(self) -> None:
        if self.kernel.random.random() < self.skew:
            self.kernel.step()

    def read(self) -> ProcessTable:
        self.seq += 1
        now = (self.seq + 1) * 10**9
        listed = sorted(self.kernel.tasks, key=lambda task: task.start)
        io: dict[ProcessKey, ProcessIo] = {}
        for task in listed:
            self.between_reads()
            if not task.gone:
                io[ProcessKey(task.pid, task.start)] = ProcessIo(*task.io)
        stat: dict[ProcessKey, ProcessStat] = {}
        turn = self.seq % COHORTS
        self.stat_at = tuple(now if self.seq < 2 or i == turn else at for i, at in enumerate(self.stat_at))
        for task in listed:
            key = ProcessKey(task.pid, task.start)
            if key not in io:
                continue
            in_turn = self.seq < 2 or task.pid % COHORTS == turn
            if in_turn or key not in self.stat or io[key] != self.io.get(key):
                self.between_reads()
                if not task.gone:
                    ppid = task.parent.pid if task.parent else 0
                    stat[key] = ProcessStat("S", ppid, task.minflt, task.cminflt, 0, 0, 0, 1, 1, 0)
                    self.stat_out[key] = now
                    continue
            if key in self.stat:
                stat[key] = self.stat[key]
            else:
                del io[key]
        self.stat_out = {key: at for key, at in self.stat_out.items() if key in stat}
        self.io, self.stat = io, stat
        return ProcessTable(
            io, stat, {}, frozenset(), now, now, self.stat_at, dict(self.stat_out), {}, {}, {}, delayacct=False
        )


def totals(seed: int, skew: float) -> tuple[int, int]:
    """The bytes written and the bytes shown in one random run."""
    kernel = Kernel(seed)
    reader = Reader(kernel, skew)
    before = Reading(reader.read(), Status.OK, at_ns=10**9)
    start = sum(io.write_bytes for io in before.value.io.values())
    truth = kernel.truth - start
    kernel.truth = 0
    last = process_rates(None, before, None)
    shown = 0.0
    for _ in range(12):
        for _ in range(kernel.random.randint(0, 12)):
            kernel.step()
        table = reader.read()
        after = Reading(table, Status.OK, at_ns=table.io_at_ns)
        last = process_rates(before, after, last)
        assert last.value is not None
        for rate in last.value.rates.values():
            assert rate.write_bytes_per_s is None or rate.write_bytes_per_s >= 0
            shown += rate.write_bytes_per_s or 0.0
        before = after
    return kernel.truth + truth, round(shown)


@pytest.mark.parametrize("skew", [0.0, 0.01])
def test_almost_no_byte_is_counted_twice(skew: float) -> None:
    runs = [totals(seed, skew) for seed in range(quick_or(200, 600))]
    over = [(truth, shown) for truth, shown in runs if shown > truth]
    too_much = sum(shown - truth for truth, shown in over)
    assert len(over) <= 0.015 * len(runs)
    assert too_much <= 0.001 * sum(truth for truth, _ in runs)
