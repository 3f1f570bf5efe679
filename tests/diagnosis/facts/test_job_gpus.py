"""How busy a job keeps its GPUs, next to processes of other programs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.diagnosis.facts.gather import gather
from iotop_ai.diagnosis.facts.gpu_groups import gpu_groups
from iotop_ai.diagnosis.facts.job import JobFacts
from iotop_ai.model.gpu.state import GpuProcess
from iotop_ai.model.verdict_class import State
from tests.diagnosis.build import (
    COMPUTING,
    FETCHING,
    GIB,
    JOB_ALONE,
    JOB_PREPARING,
    LOADERS,
    MB,
    TRAINER_OLD,
    Machine,
    Task,
    Training,
    classes,
    play,
    verdict_of,
)
from tests.diagnosis.job_scenes import THREADS, with_job

STARVED = replace(FETCHING, time=(("compute", 0.02), ("data_disk", 0.98)))


def on_gpu(*processes: GpuProcess) -> Machine:
    """A job that waits for its disk, on a GPU that is nearly always busy with these processes."""
    state = {"processes": processes, "memory_used_bytes": GIB}
    return replace(JOB_ALONE, job=STARVED, gpus=(0.97,), gpu_pids=(TRAINER_OLD.pid,), power=600.0, gpu_state=state)


def facts_of(machine: Machine, ticks: int = 15) -> JobFacts:
    frame = play((machine, ticks))[-1]
    return gather(frame.snapshot, frame.history, carry=frame.carry).jobs[0]


@pytest.mark.parametrize(
    ("processes", "busy", "shared"),
    [
        ((GpuProcess(50, GIB, "compute", 97),), 0.97, False),
        ((GpuProcess(50, GIB, "compute", 2), GpuProcess(LOADERS[0].pid, GIB, "compute", 90)), 0.97, False),
        ((GpuProcess(50, GIB, "compute", 2), GpuProcess(900, GIB, "graphics", 90)), 0.97, False),
        ((GpuProcess(50, GIB, "compute", 2), GpuProcess(900, GIB, "compute", 95)), 0.02, True),
        ((GpuProcess(50, GIB, "compute"), GpuProcess(900, GIB, "compute")), None, True),
        # A process of another pid namespace, which has the same pid as a loader of the job here.
        ((GpuProcess(50, GIB, "compute", 2), GpuProcess(LOADERS[0].pid, GIB, "compute", 95, found=False)), 0.02, True),
    ],
)
def test_the_work_of_another_process_does_not_count_for_the_job(
    processes: tuple[GpuProcess, ...], busy: float | None, shared: bool
) -> None:
    found = facts_of(on_gpu(*processes))
    assert found.gpu_busy == (None if busy is None else pytest.approx(busy))
    assert found.shares_gpu is shared


def test_an_idle_process_on_the_gpu_does_not_share_it() -> None:
    machine = on_gpu(GpuProcess(50, GIB, "compute", 95), GpuProcess(900, GIB, "compute", 0))
    machine = replace(machine, job=replace(STARVED, time=(("compute", 0.95), ("host", 0.05))))
    found = facts_of(machine)
    assert (found.gpu_busy, found.shares_gpu) == (pytest.approx(0.95), False)


def test_a_job_that_waits_for_its_disk_is_starved_even_if_another_process_keeps_the_gpu_busy() -> None:
    for percent in (None, 2):
        processes = GpuProcess(50, GIB, "compute", percent), GpuProcess(900, GIB, "compute", percent)
        assert classes(verdict_of(on_gpu(*processes), 40))[0] == "storage_read"


def test_a_gpu_on_which_two_programs_work_does_not_show_that_a_job_is_fed() -> None:
    fed = replace(STARVED, time=(("compute", 0.97), ("host", 0.03)))
    alone = replace(on_gpu(GpuProcess(50, GIB, "compute", 97)), job=fed)
    assert "gpu_bound" in classes(verdict_of(alone, 40))
    beside = replace(on_gpu(GpuProcess(50, GIB, "compute"), GpuProcess(900, GIB, "compute")), job=fed)
    assert "gpu_bound" not in classes(verdict_of(beside, 40))


def test_a_process_is_not_on_the_gpu_if_only_its_pid_matches() -> None:
    elsewhere = GpuProcess(LOADERS[0].pid, GIB, "compute", 97, found=False)
    frame = play((on_gpu(elsewhere), 15))[-1]
    found = gather(frame.snapshot, frame.history, carry=frame.carry).gpu
    assert (found.used, found.on_gpu, found.pids) == (1, frozenset(), None)


def test_a_job_with_unknown_gpus_waits_at_most_while_the_gpus_idle() -> None:
    """In a container the processes on the GPUs are hidden, and its recording counts its time without GPUs."""
    waits = replace(COMPUTING, stall=0.6, evidence=("device", "loader"), time=(("compute", 0.4), ("data_cpu", 0.6)))
    state = {"processes": (), "memory_used_bytes": 60 * GIB}
    machine = replace(JOB_PREPARING, job=waits, gpus=(0.97,), power=600.0, gpu_state=state, container="docker")
    found = facts_of(machine)
    assert (found.stall, found.long_stall) == (pytest.approx(0.03), pytest.approx(0.03))
    assert "cpu_prep" not in classes(verdict_of(machine, 40))
    assert facts_of(replace(machine, gpus=())).stall == 0.6, "the time of a job without a GPU was changed"
    assert classes(verdict_of(replace(machine, gpus=(0.2,)), 40))[0] == "cpu_prep"


def test_a_job_that_opens_no_gpu_is_not_judged_by_the_hidden_gpus_of_others() -> None:
    """On a shared machine, another user's processes on the GPUs may be hidden."""
    stranger = {"processes": (GpuProcess(71234, 40 * GIB, "compute", 97, found=False),), "memory_used_bytes": 60 * GIB}
    waits = replace(FETCHING, evidence=("library", "children"), framework="lightgbm", time=STARVED.time)
    machine = replace(JOB_ALONE, job=waits, gpus=(0.97,), gpu_pids=(), power=600.0, gpu_state=stranger)
    for second in (None, NOTEBOOK):
        both = replace(machine, second_job=second)
        found = facts_of(both)
        assert (found.gpus, found.gpu_busy, found.stall) == (0, None, pytest.approx(0.98))
        verdict = verdict_of(both, 40)
        assert (verdict.state, verdict.primary.class_id) == (State.STARVED, "storage_read")
        assert "gpu_bound" not in classes(verdict)


HIDDEN = {"processes": None, "memory_used_bytes": 40 * GIB}
READER = replace(TRAINER_OLD, read=60 * MB, cpu=0.6)
READS = replace(THREADS, task=READER, stall=0.6, evidence=("device", "library"), framework="tensorflow")
NOTEBOOK = Training(
    Task(900, "python", 1, cpu=0.0, start=-90_000),
    notebook=True,
    evidence=("library",),
    framework="torch",
    time=(("unexplained", 1.0),),
    queue=1.0,
)


def beside(other: Training, busy: float = 0.97) -> Machine:
    """A job with threads that read, beside another job; the processes on the GPU are hidden."""
    machine = replace(JOB_ALONE, job=READS, second_job=other, tasks=(READER, other.task), power=650.0)
    return replace(machine, gpus=(busy,), gpu_pids=(), gpu_state=HIDDEN)


def test_hidden_gpus_are_those_of_the_only_job_that_works_and_opens_one() -> None:
    opens_too = replace(NOTEBOOK, evidence=("device", "library"))
    for notebook in (NOTEBOOK, opens_too):
        found = facts_of(beside(notebook))
        assert (found.job.name, found.gpus, found.gpu_busy) == ("train.py", 1, pytest.approx(0.97))
        verdict = verdict_of(beside(notebook), 40)
        assert (classes(verdict), verdict.primary.subject) == (["gpu_bound"], "50")
        frame = play((beside(notebook), 15))[-1]
        groups = gpu_groups(gather(frame.snapshot, frame.history, carry=frame.carry), 10.0)
        assert [(group.subject, len(group.gpus)) for group in groups] == [("50", 1)]
    works_too = replace(opens_too, task=replace(NOTEBOOK.task, cpu=0.5))
    assert facts_of(beside(works_too)).gpus == 0, "the GPU of one of two jobs was given to one"


def test_a_wait_is_at_most_the_idle_time_of_gpus_that_may_be_the_jobs() -> None:
    works_too = replace(NOTEBOOK, evidence=("device", "library"), task=replace(NOTEBOOK.task, cpu=0.5))
    found = facts_of(beside(works_too))
    assert (found.stall, found.long_stall) == (pytest.approx(0.03), pytest.approx(0.03))
    assert "storage_read" not in classes(verdict_of(beside(works_too), 40))
    assert classes(verdict_of(beside(works_too, 0.3), 40))[0] == "storage_read"
    without_gpu = replace(beside(works_too), job=replace(READS, evidence=("library",)))
    assert facts_of(without_gpu).stall == pytest.approx(0.6), "a job that opens no GPU was judged by another's"


HOST = replace(JOB_PREPARING, job=Training(TRAINER_OLD, main_running=0.9, time=(("compute", 0.3), ("host", 0.7))))
HOLDS_EIGHT = replace(
    HOST,
    gpus=(0.3, *[0.0] * 7),
    gpu_pids=(50,),
    gpu_rates={"power_watts": 60.0},
    gpu_only_rates={0: {"power_watts": 400.0}},
)
"""A job that has opened eight GPUs and uses one of them."""


def test_gpus_that_a_rank_only_holds_are_not_the_jobs() -> None:
    verdict = verdict_of(HOLDS_EIGHT, 70)
    found = facts_of(HOLDS_EIGHT, 70)
    assert (found.gpu_busy, found.gpus) == (pytest.approx(0.3), 1)
    assert found.held_gpus == {f"GPU-{number}" for number in range(1, 8)}
    assert (verdict.primary.class_id, dict(verdict.primary.args)["gpus"]) == ("host_bound", 1)
    assert "imbalance" not in classes(verdict)
    early = facts_of(HOLDS_EIGHT, 40)
    assert (early.gpus, early.held_gpus) == (8, frozenset()), "a GPU was left out before it had been idle for a minute"


def test_hidden_gpus_that_the_only_rank_holds_are_not_the_jobs() -> None:
    opens = with_job(HOLDS_EIGHT, evidence=("device", "loader"))
    hidden = replace(opens, gpu_pids=(), gpu_state={"processes": (), "memory_used_bytes": 60 * GIB})
    found = facts_of(hidden, 70)
    assert (found.gpu_busy, found.gpus) == (pytest.approx(0.3), 1)


def test_the_idle_gpus_of_a_job_that_waits_count() -> None:
    found = facts_of(replace(HOLDS_EIGHT, gpus=(0.0,) * 8), 70)
    assert (found.gpu_busy, found.gpus) == (0.0, 8)
