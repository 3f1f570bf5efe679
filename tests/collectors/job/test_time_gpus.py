"""A job's part of a GPU on which other jobs compute too."""

from __future__ import annotations

import pytest

from iotop_ai.model.gpu.state import GpuProcess
from iotop_ai.model.job.looks import Loading, LookCounts, Split
from iotop_ai.model.job.records import Rank
from tests.collectors.job.accounted_machine import (
    GPU,
    PEER,
    RUNS,
    SECOND_GPU,
    TRAINER,
    WAITS,
    WITH_WORKERS,
    WORKER,
    Machine,
    job_of,
    shares,
)

GIB = 1 << 30


def two_on_one_gpu(*processes: GpuProcess) -> Machine:
    """Two jobs on one GPU: the loaders of the first wait for a disk, and the second makes the GPU busy."""
    machine = Machine(WITH_WORKERS)
    machine.jobs[PEER] = job_of(Rank(PEER, (), (GPU,)))
    machine.io[PEER], machine.ticks[PEER] = [0] * 7, 0
    machine.looks = {TRAINER: WAITS, PEER: RUNS}
    machine.loading = Loading.NAMED
    machine.busy = {GPU: 95}
    machine.gpu = {"processes": processes}
    machine.next()
    return machine


@pytest.mark.parametrize(
    ("mine", "others", "grown"),
    [
        (4, 91, {"compute": 40, "data_disk": 960}),
        (None, 91, {"data_disk": 1000}),
        (None, None, {"data_disk": 1000}),
        (30, None, {"data_disk": 1000}),
        (0, 0, {"compute": 950, "data_disk": 50}),
        (95, 0, {"compute": 950, "data_disk": 50}),
    ],
)
@pytest.mark.parametrize("other", [PEER.pid, 999])
def test_another_jobs_work_on_the_same_gpu_does_not_count_for_this_job(
    mine: int | None, others: int | None, grown: dict[str, int], other: int
) -> None:
    machine = two_on_one_gpu(GpuProcess(TRAINER.pid, None, "compute", mine), GpuProcess(other, None, "compute", others))
    assert machine.grown() == grown


def test_a_gpu_counts_for_its_only_job() -> None:
    """The GPU has a process of the job, of a desktop, or one that is known only by its pid in another namespace."""
    assert two_on_one_gpu().grown() == {"data_disk": 1000}, "the GPU of two jobs was counted for one of them"
    for process in (
        GpuProcess(WORKER.pid, None, "compute", None),
        GpuProcess(999, None, "graphics", 5),
        GpuProcess(999, None, "compute", None, found=False),
    ):
        machine = two_on_one_gpu(process)
        assert machine.grown() == {"compute": 950, "data_disk": 50}
    machine = two_on_one_gpu(
        GpuProcess(TRAINER.pid, None, "compute", 4), GpuProcess(999, None, "compute", 91, found=False)
    )
    assert machine.grown() == {"compute": 40, "data_disk": 960}


HIDDEN = GpuProcess(71234, 60 * GIB, "compute", 97, found=False)
"""A process with its PID of another namespace, as the driver may list it in a container."""
LISTED, NOT_LISTED = {"processes": (HIDDEN,)}, {"processes": (), "memory_used_bytes": 60 * GIB}


OPENS_GPU = ("device", "library", "loader")


def beside_hidden_processes(**gpu: object) -> Machine:
    """A job that has a GPU open and whose loaders compute, beside GPUs that are nearly always busy."""
    machine = Machine(job_of(Rank(TRAINER, (WORKER,), worker_kind="loader"))._replace(evidence=OPENS_GPU))
    machine.looks = {TRAINER: LookCounts(looks=20, waits=Split(cpu=12.0), running=8)}
    machine.loading = Loading.NAMED
    machine.busy = {GPU: 97, SECOND_GPU: 97}
    machine.gpu = gpu
    machine.next()
    return machine


@pytest.mark.parametrize("gpu", [LISTED, NOT_LISTED, {"processes": ()}], ids=["listed", "memory", "busy"])
def test_the_only_job_has_the_gpus_whose_processes_are_hidden(gpu: dict[str, object]) -> None:
    assert beside_hidden_processes(**gpu).grown() == {"compute": 970, "data_cpu": 30}


def test_the_only_job_has_no_hidden_gpu_if_it_opens_none() -> None:
    machine = beside_hidden_processes(**LISTED)
    machine.jobs[TRAINER] = machine.jobs[TRAINER]._replace(evidence=("library", "loader"))
    assert machine.grown() == {"compute": 400, "data_cpu": 600}, "another user's GPU was given to a job without one"
    machine.jobs[TRAINER] = machine.jobs[TRAINER]._replace(hidden=("open files",))
    assert machine.grown() == {"compute": 970, "data_cpu": 30}, "a job whose open files are hidden opened no GPU"


def test_a_gpu_that_was_used_a_moment_ago_is_still_the_jobs() -> None:
    machine = beside_hidden_processes(processes=())
    machine.busy = {GPU: 0, SECOND_GPU: 97}
    machine.next()
    assert machine.grown() == {"compute": 485, "data_cpu": 515}


def test_a_gpu_with_a_visible_process_or_without_any_is_not_given_to_a_job() -> None:
    without_gpu = {"compute": 400, "data_cpu": 600}
    elsewhere = GpuProcess(999, GIB, "compute", 97)
    assert beside_hidden_processes(processes=(elsewhere,)).grown() == without_gpu
    desktop = GpuProcess(999, GIB, "graphics", 97)
    assert beside_hidden_processes(processes=(desktop,)).grown() == without_gpu


def test_hidden_processes_may_belong_to_each_of_two_jobs() -> None:
    machine = beside_hidden_processes(**LISTED)
    machine.jobs[PEER] = job_of(Rank(PEER))._replace(evidence=("device", "library"))
    machine.io[PEER], machine.ticks[PEER] = [0] * 7, 0
    machine.next()
    assert machine.grown() == {"compute": 400, "data_cpu": 600}


def beside_a_second_job(seconds: int, notebook_cpu: int) -> Machine:
    """A job whose GPUs are hidden, beside a notebook that also has a GPU open.

    seconds: how long both have run. notebook_cpu: the clock ticks that the notebook uses in a second.
    """
    machine = beside_hidden_processes(**LISTED)
    machine.jobs[PEER] = job_of(Rank(PEER))._replace(evidence=("device", "library"), notebook=True)
    machine.io[PEER], machine.ticks[PEER] = [0] * 7, 0
    machine.looks[PEER] = LookCounts(looks=20, asleep=20)
    for _ in range(seconds):
        machine.moves(TRAINER, cpu=80)
        machine.moves(PEER, cpu=notebook_cpu)
        machine.next()
    machine.moves(TRAINER, cpu=80)
    machine.moves(PEER, cpu=notebook_cpu)
    return machine


def test_hidden_gpus_belong_to_the_only_job_that_works_and_opens_one() -> None:
    given, not_given = {"compute": 970, "data_cpu": 30}, {"compute": 400, "data_cpu": 600}
    assert beside_a_second_job(80, 0).grown() == given
    assert beside_a_second_job(80, 50).grown() == not_given, "the GPUs of one of two jobs that work were given to one"
    assert beside_a_second_job(3, 0).grown() == not_given, "a job rested after a few seconds"
    machine = beside_a_second_job(3, 50)
    machine.jobs[PEER] = machine.jobs[PEER]._replace(evidence=("library",))
    assert machine.grown() == given, "a job that opens no GPU kept another from its own"
    machine.jobs[PEER] = machine.jobs[PEER]._replace(hidden=("open files",))
    assert machine.grown() == not_given, "a job whose open files are hidden opened no GPU"


def test_no_wait_for_peers_is_counted_on_gpus_that_another_job_uses() -> None:
    machine = Machine(job_of(Rank(TRAINER, (), (GPU,)), Rank(PEER, (), (SECOND_GPU,))))
    machine.busy = {GPU: 100, SECOND_GPU: 100}
    machine.looks = {TRAINER: RUNS, PEER: RUNS}
    machine.gpu = {"power_mw": 98_000, "power_limit_mw": 700_000, "processes": (GpuProcess(999, None, "compute", 50),)}
    assert "collective" not in shares(machine.next(), machine.next())


EIGHT = tuple(f"GPU-{number}" for number in range(8))
BUSY_FIRST = {uuid: 100 if uuid == GPU else 0 for uuid in EIGHT}


def grown_after_a_minute(machine: Machine, *busy: dict[str, int]) -> dict[str, int]:
    """The shares of the last second, if the GPUs are as busy as this in turn for a minute."""
    for second in range(60):
        machine.busy = dict(busy[second % len(busy)])
        machine.next()
    machine.busy = dict(busy[-1])
    return machine.grown()


def test_gpus_that_a_rank_only_holds_do_not_count() -> None:
    """TensorFlow and JAX open all GPUs, and use one."""
    machine = Machine(job_of(Rank(TRAINER, (), EIGHT)))
    machine.busy = dict(BUSY_FIRST)
    machine.next()
    assert machine.grown() == {"compute": 125, "host": 875}, "a GPU was left out before it had been idle for a minute"
    assert grown_after_a_minute(machine, BUSY_FIRST) == {"compute": 1000}
    machine.busy[SECOND_GPU] = 50
    machine.next()
    assert machine.grown() == {"compute": 750, "host": 250}, "a GPU that is used again was left out"


def test_hidden_gpus_that_the_only_rank_holds_do_not_count() -> None:
    machine = beside_hidden_processes(**LISTED)
    assert grown_after_a_minute(machine, {GPU: 97, SECOND_GPU: 0}) == {"compute": 970, "data_cpu": 30}


def test_the_idle_gpu_of_a_rank_that_waits_counts() -> None:
    alone = Machine(job_of(Rank(TRAINER, (), EIGHT)))
    assert grown_after_a_minute(alone, dict.fromkeys(EIGHT, 0)) == {"host": 1000}
    beside = Machine(job_of(Rank(TRAINER, (), (GPU,)), Rank(PEER, (), (SECOND_GPU,))))
    assert grown_after_a_minute(beside, {GPU: 100, SECOND_GPU: 0}) == {"host": 1000}
    stages = Machine(job_of(Rank(TRAINER, (), (GPU, SECOND_GPU))))
    assert grown_after_a_minute(stages, {GPU: 100, SECOND_GPU: 0}, {GPU: 0, SECOND_GPU: 100}) == {
        "compute": 500,
        "host": 500,
    }
