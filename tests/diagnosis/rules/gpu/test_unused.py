from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.model.reading import Status
from iotop_ai.model.verdict_class import State
from tests.diagnosis.build import BUSY, GIB, IDLE, MB, SLOW_SSD, Disk, Machine, Task, classes, play, verdict_of
from tests.diagnosis.gpu_scenes import ON_CPU, TWO_HIDDEN_JOBS
from tests.diagnosis.job_scenes import with_job


def test_busy_gpus_with_power_are_ok() -> None:
    verdict = verdict_of(BUSY)
    assert (verdict.state, classes(verdict)) == (State.OK, ["gpu_bound"])
    assert verdict.primary.confidence >= 0.8


def test_busy_gpus_at_little_power_are_not_called_ok() -> None:
    verdict = verdict_of(replace(BUSY, power=96.0))
    assert (verdict.state, verdict.primary.class_id) == (State.BLOCKED, "comm_wait")
    assert verdict.primary.confidence <= 0.65
    assert verdict_of(replace(BUSY, gpus=(0.96,), power=96.0)).state is State.UNSURE


def test_without_power_confidence_is_limited() -> None:
    verdict = verdict_of(replace(BUSY, power=None))
    assert verdict.state is State.OK
    assert verdict.primary.confidence <= 0.6


@pytest.mark.parametrize(("busy", "expected"), [(0.91, "gpu_bound"), (0.8, "healthy"), (0.69, "unknown")])
def test_the_utilisation_decides_between_gpu_bound_healthy_and_unknown(busy: float, expected: str) -> None:
    assert classes(verdict_of(replace(BUSY, gpus=(busy,) * 8))) == [expected]


def test_a_verdict_is_healthy_only_if_no_process_waits() -> None:
    waiting = tuple(replace(t, blocked=0.5) for t in BUSY.tasks)
    assert verdict_of(replace(BUSY, gpus=(0.8,) * 8, tasks=waiting)).state is State.UNSURE


def test_unknown_utilisation_is_not_ok() -> None:
    verdict = verdict_of(replace(BUSY, gpus=(None,) * 8, power=None))
    assert verdict.state is State.UNSURE


def test_without_a_matching_rule_the_verdict_is_never_ok() -> None:
    verdict = verdict_of(Machine(cpu=0.5, tasks=(Task(70, "gcc", cpu=0.9),)))
    assert (verdict.state, classes(verdict)) == (State.CALM, ["unknown"])
    blind = verdict_of(Machine(cpu=None, tasks=(Task(70, "gcc", cpu=None),)))
    assert (blind.state, classes(blind)) == (State.UNSURE, ["unknown"])


def test_a_desktop_on_the_gpu_does_not_count_as_training() -> None:
    shell = Task(50, "gnome-shell")
    copy = Task(60, "cp", 50, read=92 * MB, blocked=0.9)
    verdict = verdict_of(
        Machine(tasks=(shell, copy), disks=(SLOW_SSD,), gpus=(0.1,), gpu_pids=(50,), gpu_kind="graphics")
    )
    assert dict(verdict.primary.args)["gpus"] == 0
    assert classes(verdict_of(replace(BUSY, gpu_kind="graphics"))) == ["unknown"]


def test_a_machine_on_which_nothing_runs_is_idle() -> None:
    verdict = verdict_of(IDLE)
    assert (verdict.state, classes(verdict)) == (State.CALM, ["idle"])
    with_gpu = verdict_of(replace(IDLE, gpus=(0.0,), power=50.0))
    assert classes(with_gpu) == ["idle"]
    assert with_gpu.primary.confidence > verdict.primary.confidence
    assert classes(verdict_of(replace(IDLE, disks=()))) == ["idle"]


@pytest.mark.parametrize(
    "active",
    [
        replace(IDLE, cpu=0.2),
        replace(IDLE, cpu=None),
        replace(IDLE, gpus=(0.2,)),
        replace(IDLE, gpus=(None,)),
        replace(IDLE, gpu_status=Status.PENDING),
        replace(IDLE, gpu_status=Status.FAILED),
        replace(IDLE, disks=(Disk(read_bytes_per_s=5 * MB, await_ms=0.1, busy=0.01),)),
        replace(IDLE, disks=(Disk(read_bytes_per_s=0.1 * MB, await_ms=9, busy=0.3),)),
        replace(IDLE, disks=(Disk(unknown=True),)),
        replace(IDLE, tasks=(Task(70, "python", cpu=0.6),)),
        replace(IDLE, tasks=(Task(70, "python", blocked=0.9),)),
        Machine(without_readings=True),
    ],
)
def test_any_activity_and_any_unknown_figure_excludes_idleness(active: Machine) -> None:
    assert "idle" not in classes(verdict_of(active))


def test_activity_ends_idleness_within_a_few_seconds() -> None:
    busy = replace(IDLE, cpu=0.6)
    frames = play((IDLE, 40), (busy, 10))
    assert frames[39].verdict.primary.class_id == "idle"
    assert [f.verdict.primary.class_id for f in frames[-7:]] == ["unknown"] * 7
    assert {f.verdict.state for f in frames[39:]} == {State.CALM}


HIDDEN = replace(
    ON_CPU,
    gpus=(0.97, 0.0),
    gpu_state={"processes": ()},
    gpu_only={0: {"memory_used_bytes": 60 * GIB}, 1: {"memory_used_bytes": 0}},
    gpu_only_rates={0: {"power_watts": 650.0}},
)
"""A container with a busy GPU, whose processes are hidden, and a free GPU."""


@pytest.mark.parametrize(
    ("evidence", "hidden", "on_cpu"),
    [
        (("library", "loader"), (), True),
        (("device", "library", "loader"), (), False),
        (("loader",), ("libraries", "open files"), False),
    ],
)
def test_only_a_job_that_cannot_be_on_a_hidden_gpu_trains_on_the_cpu(
    evidence: tuple[str, ...], hidden: tuple[str, ...], on_cpu: bool
) -> None:
    machine = with_job(HIDDEN, evidence=evidence, hidden=hidden)
    assert ("no_gpu" in classes(verdict_of(machine, 50))) is on_cpu
    assert TWO_HIDDEN_JOBS.second_job is not None
    opens = replace(TWO_HIDDEN_JOBS.second_job, evidence=("device", "library"))
    both = replace(machine, second_job=opens, tasks=(*machine.tasks, opens.task))
    assert ("no_gpu" in classes(verdict_of(both, 50))) is on_cpu, "each of two jobs may be on the GPU in use"


def test_a_program_that_prepares_a_dataset_needs_no_gpu() -> None:
    free = replace(ON_CPU, gpus=(0.0,), gpu_state={"processes": ()})
    assert "no_gpu" in classes(verdict_of(free, 50))
    assert "no_gpu" not in classes(verdict_of(with_job(free, worker_kind="prep"), 50))
