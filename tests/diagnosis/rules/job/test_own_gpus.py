"""A job is judged by the GPUs that it uses, whatever other programs do on the other GPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.diagnosis.facts.gather import gather
from iotop_ai.model.gpu.state import GpuProcess
from iotop_ai.model.verdict_class import State
from tests.diagnosis.build import (
    COMPUTING,
    GIB,
    JOB_HEALTHY,
    JOB_STARVED,
    TRAINER_OLD,
    Machine,
    Task,
    classes,
    play,
    verdict_of,
)
from tests.diagnosis.job_scenes import STARTING, with_job

TRAINS = (("compute", 0.97), ("data_disk", 0.03))
HELD = {i: {"processes": (GpuProcess(7000 + i, GIB, "compute"),)} for i in range(1, 8)}
FREE = {i: {"processes": (), "memory_used_bytes": 0} for i in range(1, 8)}
FIRST = replace(
    JOB_HEALTHY, job=replace(COMPUTING, stall=0.01, time=TRAINS), gpus=(0.97, *(0.0,) * 7), gpu_pids=(50,), power=560.0,
    gpu_only_rates={i: {"power_watts": 70.0} for i in range(1, 8)},
)  # fmt: skip
"""A job on the first of eight GPUs."""
LOADS = replace(with_job(STARTING, time=(("startup", 1.0),)), gpus=(0.0, 0.9), gpu_pids=(50,), gpu_only={1: HELD[1]})
"""A job that loads its weights into the first of two GPUs, while another job uses the second."""


@pytest.mark.parametrize("others", [HELD, FREE], ids=["held", "free"])
def test_gpus_that_others_use_do_not_make_a_job_unsure(others: dict[int, dict[str, object]]) -> None:
    machine = replace(FIRST, gpu_only=others)
    verdict = verdict_of(machine, 30)
    assert (verdict.state, classes(verdict), verdict.job_pid) == (State.OK, ["gpu_bound"], 50)
    assert dict(verdict.primary.args)["gpus"] == 1
    fed = verdict_of(replace(machine, gpus=(0.85, *machine.gpus[1:])), 30)
    assert (fed.state, classes(fed)) == (State.OK, ["healthy"])
    assert dict(fed.primary.args)["power"] == pytest.approx(0.8)


@pytest.mark.parametrize("others", [HELD, FREE], ids=["held", "free"])
def test_gpu_bound_is_ruled_out_by_the_use_of_the_jobs_own_gpus(others: dict[int, dict[str, object]]) -> None:
    starved = replace(JOB_STARVED, gpus=(0.18, *(0.0,) * 7), gpu_only=others)
    verdict = verdict_of(starved, 30)
    reason = next(one for one in verdict.primary.ruled_out if one.class_id == "gpu_bound")
    assert classes(verdict)[0] == "storage_read"
    assert dict(reason.args)["busy"] == pytest.approx(0.18)
    assert dict(verdict.primary.args)["gpu_busy"] == pytest.approx(0.18)


def test_the_gpus_of_others_do_not_make_a_job_healthy() -> None:
    idle = replace(
        FIRST, gpus=(0.4, *(0.99,) * 7), gpu_only=HELD, gpu_only_rates={0: {"power_watts": 90.0}}, power=650.0
    )
    assert not {"gpu_bound", "healthy"} & {*classes(verdict_of(idle, 30))}
    spins = replace(idle, gpus=(0.99,) * 8)
    assert not {"gpu_bound", "healthy"} & {*classes(verdict_of(spins, 30))}


def test_a_job_may_start_beside_a_gpu_that_computes() -> None:
    assert verdict_of(LOADS, 20).state is State.STARTING
    not_yet = replace(LOADS, gpu_pids=(), gpu_only={0: {"processes": ()}, 1: HELD[1]}, tasks=(*LOADS.tasks, Task(7001)))
    assert verdict_of(not_yet, 20).state is State.STARTING, "a job that is on no GPU yet was not taken for starting"
    assert verdict_of(replace(LOADS, gpus=(0.3, 0.0)), 20).state is not State.STARTING


def test_a_job_may_start_right_after_another_on_the_same_gpu() -> None:
    young = replace(STARTING.job, task=replace(STARTING.job.task, start=4000)) if STARTING.job else None
    again = replace(LOADS, job=young, tasks=(young.task,) if young else (), gpus=(0.0, 0.0))
    frames = play((FIRST, 40), (again, 15))
    assert frames[-1].verdict.state is State.STARTING
    seen: set[State] = {frame.verdict.state for frame in play((FIRST, 40), (replace(again, gpus=(0.4, 0.0)), 15))[-3:]}
    assert State.STARTING not in seen


@pytest.mark.parametrize(
    ("pid", "evidence", "gpus"),
    [(900, ("library",), 0), (None, ("library",), 0), (None, ("device", "library"), 1)],
)
def test_a_job_without_a_gpu_does_not_get_the_gpus_of_other_programs(
    pid: int | None, evidence: tuple[str, ...], gpus: int
) -> None:
    held = () if pid is None else (GpuProcess(pid, GIB, "compute"),)
    rests = with_job(JOB_HEALTHY, workers=(), evidence=evidence)
    machine = replace(
        rests, gpus=(0.9,), gpu_pids=(), gpu_only={0: {"processes": held or None}}, tasks=(TRAINER_OLD, Task(900))
    )
    frame = play((machine, 15))[-1]
    (job,) = gather(frame.snapshot, frame.history).jobs
    assert (job.gpus, job.active) == (gpus, bool(gpus))


def test_without_visible_processes_every_gpu_may_belong_to_the_job() -> None:
    hidden: Machine = replace(LOADS, gpu_pids=(), gpu_only={0: {"processes": None}, 1: {"processes": None}})
    assert verdict_of(hidden, 20).state is not State.STARTING
    assert verdict_of(replace(hidden, gpus=(0.0, 0.0)), 20).state is State.STARTING


UNSURE_JOB = replace(
    JOB_HEALTHY,
    job=replace(COMPUTING, workers=(), stall=0.05, main_running=0.5, time=(("unexplained", 0.6), ("compute", 0.4))),
    tasks=(replace(TRAINER_OLD, cpu=0.5), Task(900)),
)
"""A job on the CPU, without loaders, whose time is not explained."""


@pytest.mark.parametrize(
    "time", [(), UNSURE_JOB.job.time if UNSURE_JOB.job else ()], ids=["not sampled", "unexplained"]
)
@pytest.mark.parametrize("busy", [0.96, 0.8, 0.4])
def test_the_gpu_of_another_program_says_nothing_about_a_job_without_a_gpu(
    busy: float, time: tuple[tuple[str, float], ...]
) -> None:
    assert UNSURE_JOB.job is not None
    job = replace(UNSURE_JOB.job, time=time, stall=0.05 if time else None)
    stranger = {0: {"processes": (GpuProcess(900, GIB, "compute"),)}}
    machine = replace(UNSURE_JOB, job=job, gpus=(busy,), power=600.0, gpu_only=stranger)
    verdict = verdict_of(machine, 40)
    assert (verdict.state, verdict.job_pid) == (State.UNSURE, 50)
    assert "gpu_bound" not in {one.class_id for one in verdict.primary.ruled_out}
    alone = verdict_of(replace(machine, job=None), 40)
    assert (alone.state is State.OK) == (busy >= 0.7), "without a job, the verdict is about the machine"
