"""Machines whose job is slowed by its surroundings, serves, renews its workers or has died.

Keys of HOST_SCENES: the class, and a further word if it has several scenes.
"""

from __future__ import annotations

from dataclasses import replace

from iotop_ai.model.job.exits import Ended
from iotop_ai.model.preflight.storage import CHILD
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.snapshot import Event
from tests.diagnosis.build import (
    COMPUTING,
    JOB_ALONE,
    JOB_HEALTHY,
    JOB_PREPARING,
    LOADERS,
    MB,
    OWN_PID,
    TRAINER_OLD,
    Machine,
    Task,
    Training,
)

SLOW = JOB_ALONE.disks[0]
FIO = tuple(Task(700 + i, "fio", 1, read=20 * MB, blocked=0.9) for i in range(3))
SLOWED_LOADERS = tuple(replace(t, read=4 * MB) for t in LOADERS)
SHARED = replace(JOB_ALONE, tasks=(TRAINER_OLD, *SLOWED_LOADERS, *FIO))
MEASURING = replace(
    SHARED,
    tasks=(
        TRAINER_OLD,
        *SLOWED_LOADERS,
        # The reads of an fio that has ended are among those of the process that waited for it.
        Task(700, "python", OWN_PID, cmdline=("python", "-P", "-m", CHILD), reads_with_children=40 * MB),
        Task(701, "fio", 700, read=10 * MB, blocked=0.9, reads_with_children=20 * MB),
    ),
)
"""The monitor's own storage check reads from the disk of the job."""
HOG = tuple(Task(800 + i, "stress", 1, cpu=0.9) for i in range(4))
CROWDED = replace(
    JOB_PREPARING, tasks=(replace(TRAINER_OLD, cpu=0.1), *(replace(t, cpu=0.1, blocked=0.0) for t in LOADERS), *HOG),
    cores=5, cpu=0.95, job=replace(COMPUTING, worker_cpu=0.2, worker_cpu_wait=0.75),
)  # fmt: skip
SERVER = Training(replace(TRAINER_OLD, cpu=0.02), queue=0.97, listening=1, evidence=("gpu", "library"))
SERVING = Machine(job=SERVER, tasks=(SERVER.task,), gpus=(0.0,), gpu_pids=(50,), power=80.0, cpu=0.05)


def epochs(length: int, wait_s: int, count: int, stall: float = 0.02, fresh: bool = True) -> list[tuple[Machine, int]]:
    """Epochs of ``length`` seconds, each with new workers; the trainer waits for them in the first ``wait_s`` seconds.

    stall: the trainer's stall after these seconds. fresh: whether the workers start with their epoch; otherwise all
    have the same start time.
    """
    out: list[tuple[Machine, int]] = []
    for number in range(count):
        start = 100 + (100 * length * number if fresh else 0)
        workers = tuple(replace(t, cpu=0.5, blocked=0.0, pid=t.pid + 20 * number, start=start) for t in LOADERS[:2])
        fed = replace(COMPUTING, workers=workers, stall=stall, disk=0.3, running=0.7, worker_cpu=0.1)
        waits = replace(fed, stall=0.95)
        base = replace(JOB_HEALTHY, tasks=(TRAINER_OLD, *workers))
        out += [(replace(base, job=waits), wait_s), (replace(base, job=fed), length - wait_s)]
    return out


def ended(role: str, code: int | None, name: str = "train.py", pid: int = 50) -> Event:
    process = Ended(ProcessKey(pid, 1), name, role, code, 50, "train.py")
    return Event(0, 0, "process_ended", process.text, role, pid, code, 50)


OOM = Event(0, 0, "oom_kill", "the kernel killed 1 process for memory")
GONE = Machine(cpu=0.3)
HOST_SCENES = {
    "noisy_neighbour": SHARED,
    "noisy_neighbour cores": CROWDED,
    "serving": SERVING,
    "job_died": replace(GONE, events=(ended("trainer", -9),)),
}
