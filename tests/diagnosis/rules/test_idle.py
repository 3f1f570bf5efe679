from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.model.verdict_class import State
from tests.diagnosis.build import (
    JOB_ALONE,
    LOADERS,
    TRAINER_OLD,
    Disk,
    Machine,
    Task,
    Training,
    classes,
    play,
    verdict_of,
)
from tests.diagnosis.gpu_scenes import rates
from tests.diagnosis.host_scenes import SERVER

LOADERS_AT_REST = tuple(replace(task, read=0.0, blocked=0.0) for task in LOADERS)
STUCK = Training(
    replace(TRAINER_OLD, cpu=0.03), LOADERS_AT_REST, stall=0.97, evidence=("gpu", "loader"),
    time=(("data_other", 0.97), ("compute", 0.03)),
)  # fmt: skip
"""A job whose loaders wait for something other than a disk, the network or a core."""
UNEXPLAINED = (("unexplained", 0.97), ("compute", 0.03))
STARTS = (("startup", 0.96), ("compute", 0.04))
"""A job whose first steps hardly use the GPU, because its own threads wait for data."""


def on_idle_gpu(job: Training) -> Machine:
    tasks: tuple[Task, ...] = (job.task, *job.workers)
    return Machine(job=job, tasks=tasks, gpus=(0.03,), gpu_pids=(50,), power=80.0, cpu=0.01)


@pytest.mark.parametrize(
    "job",
    [
        STUCK,
        replace(STUCK, notebook=True),
        replace(STUCK, time=UNEXPLAINED),
        replace(STUCK, workers=(), evidence=("gpu",), listening=0, time=UNEXPLAINED),
        replace(STUCK, workers=(), evidence=("gpu",), listening=0, stall=0.0, time=STARTS),
        replace(STUCK, workers=(), evidence=("gpu",), listening=None, stall=0.0, time=STARTS),
    ],
    ids=["waits", "waits in a notebook", "unexplained", "unexplained, no workers", "starts", "starts, hidden"],
)
def test_a_stuck_job_on_an_idle_machine_is_not_calm(job: Training) -> None:
    verdict = verdict_of(on_idle_gpu(job), 60)
    assert "idle" not in classes(verdict)
    assert verdict.state is State.UNSURE


@pytest.mark.parametrize(
    "job",
    [
        replace(STUCK, notebook=True, time=UNEXPLAINED),
        replace(STUCK, notebook=True, time=(("data_network", 0.1), ("unexplained", 0.9))),
        replace(SERVER, time=UNEXPLAINED),
        replace(SERVER, time=STARTS),
        replace(STUCK, stall=0.0, time=()),
    ],
    ids=["notebook", "notebook whose client checks that it is alive", "server", "new server", "time not counted"],
)
def test_a_job_that_may_rest_on_an_idle_machine_is_calm(job: Training) -> None:
    verdict = verdict_of(on_idle_gpu(job), 60)
    assert "idle" in classes(verdict)
    assert verdict.state is State.CALM


@pytest.mark.parametrize("field", ["pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s"])
def test_a_machine_whose_gpu_receives_or_sends_is_not_idle(field: str) -> None:
    calm = replace(on_idle_gpu(replace(STUCK, stall=0.0, time=())), power=70.0)
    assert "idle" in classes(verdict_of(rates(calm, **{field: 20e6}), 60))
    assert "idle" not in classes(verdict_of(rates(calm, **{field: 2e9}), 60))


def test_idleness_ends_when_a_job_waits_even_if_it_had_just_begun() -> None:
    at_rest = Machine(disks=(Disk(),), cpu=0.01)
    held = ["idle" in {name for name, _ in frame.carry.held} for frame in play((at_rest, 13), (JOB_ALONE, 5))]
    assert held[10:13] == [True] * 3
    assert not held[-1]
