from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.model.reading import Status
from iotop_ai.model.verdict_class import State
from tests.diagnosis.build import (
    BUSY,
    MB,
    OWN_PID,
    PREPARING,
    SINGLE,
    SLOW_SSD,
    TRAINER,
    Machine,
    Task,
    classes,
    verdict_of,
)


def test_workers_that_compute_while_the_gpus_wait_are_blamed() -> None:
    verdict = verdict_of(PREPARING)
    finding = verdict.primary
    assert (verdict.state, finding.class_id, finding.subject) == (State.STARVED, "cpu_prep", "pt_data_worker")
    assert finding.lost_ratio == pytest.approx(0.61)
    advice = finding.advice[0]
    assert advice.template == "more_workers"
    numbers = {"now": 1.0, "then": 4.0, "cores": 40.0, "ranks": 8.0}
    assert dict(advice.args) == {**numbers, "per": "GPU", "framework": ""}


def test_without_an_idle_core_cheaper_work_is_advised() -> None:
    advice = verdict_of(replace(PREPARING, cpu=0.99)).primary.advice
    assert [a.template for a in advice] == ["cheaper_transforms"]


def test_stolen_time_does_not_count_as_an_idle_core() -> None:
    finding = verdict_of(replace(PREPARING, cpu=0.2, steal=0.79)).primary
    assert [a.template for a in finding.advice] == ["cheaper_transforms"]
    assert dict(finding.args)["idle_cores"] == pytest.approx(0.4)


def test_workers_that_are_not_fully_busy_are_not_blamed() -> None:
    tasks = (TRAINER, *(Task(100 + i, "pt_data_worker", 50, cpu=0.5) for i in range(8)))
    assert verdict_of(replace(PREPARING, tasks=tasks)).state is State.UNSURE


def test_busy_workers_of_busy_gpus_are_not_blamed() -> None:
    busy = verdict_of(replace(PREPARING, gpus=(0.95,) * 8, power=600.0))
    assert classes(busy) == ["gpu_bound"]
    assert classes(verdict_of(BUSY)) == ["gpu_bound"]


def test_with_unknown_cpu_nothing_is_claimed() -> None:
    tasks = tuple(replace(t, cpu=None) for t in PREPARING.tasks)
    assert classes(verdict_of(replace(PREPARING, tasks=tasks, gpus=(None,) * 8))) == ["unknown"]


def test_workers_in_state_d_and_a_busy_thread_are_a_storage_stall() -> None:
    blocked = tuple(Task(200 + i, "pt_data_worker", 50, cpu=0.02, read=11 * MB, blocked=0.97) for i in range(8))
    busy = Task(300, "helper", 50, cpu=0.99)
    verdict = verdict_of(replace(PREPARING, tasks=(TRAINER, *blocked, busy), disks=(SLOW_SSD,), gpus=(0.2,) * 8))
    assert verdict.primary.class_id == "storage_read"


def test_without_a_gpu_only_named_workers_of_a_waiting_parent_count() -> None:
    named = replace(PREPARING, gpus=(), gpu_pids=(), gpu_status=Status.ABSENT)
    finding = verdict_of(named).primary
    assert finding.class_id == "cpu_prep"
    assert finding.confidence <= 0.6
    computing = tuple(replace(t, cpu=0.95) if t.pid == 50 else t for t in named.tasks)
    assert classes(verdict_of(replace(named, tasks=computing))) == ["unknown"]
    others = tuple(replace(t, name="gcc") for t in named.tasks)
    assert classes(verdict_of(replace(named, tasks=others))) == ["unknown"]


def test_one_thread_that_does_everything_is_blamed() -> None:
    verdict = verdict_of(SINGLE)
    assert (verdict.state, verdict.primary.class_id) == (State.STARVED, "single_thread")
    templates = [a.template for a in verdict.primary.advice]
    assert templates == ["more_workers", "worker_options"]
    assert dict(verdict.primary.advice[0].args)["then"] == 6


@pytest.mark.parametrize("cpu", [0.6, 3.0])
def test_a_process_that_uses_less_or_more_than_one_core_is_not_blamed(cpu: float) -> None:
    tasks = (replace(TRAINER, cpu=cpu),)
    assert "single_thread" not in classes(verdict_of(replace(SINGLE, tasks=tasks)))


def test_a_spinning_main_thread_of_a_busy_gpu_is_not_blamed() -> None:
    verdict = verdict_of(replace(SINGLE, gpus=(0.97,), power=650.0))
    assert classes(verdict) == ["gpu_bound"]


def test_a_thread_with_busy_workers_does_not_do_everything() -> None:
    tasks = (*SINGLE.tasks, Task(101, "pt_data_worker", 50, cpu=0.6))
    assert "single_thread" not in classes(verdict_of(replace(SINGLE, tasks=tasks)))


def test_in_a_container_confidence_is_low() -> None:
    hidden = verdict_of(replace(SINGLE, gpu_pids=(77_777,)))
    assert hidden.primary.class_id == "single_thread"
    assert hidden.primary.confidence <= 0.5


def test_in_a_container_several_busy_processes_of_one_name_give_low_confidence() -> None:
    tasks = (TRAINER, *(Task(100 + i, "decode", 50, cpu=0.95) for i in range(4)))
    hidden = replace(PREPARING, tasks=tasks, gpu_pids=(77_777,), gpus=(0.2,) * 8)
    finding = verdict_of(hidden).primary
    assert (finding.class_id, finding.subject) == ("cpu_prep", "decode")
    assert finding.confidence <= 0.5
    assert verdict_of(replace(hidden, gpus=(0.5,) * 8)).state is State.UNSURE


def test_a_gpu_without_a_process_is_not_starved() -> None:
    verdict = verdict_of(replace(SINGLE, gpus=(0.0,), gpu_pids=()))
    assert classes(verdict) == ["unknown"]


def test_the_monitor_itself_is_never_the_cause() -> None:
    monitor = Task(OWN_PID, "iotop-ai", 50, cpu=1.0, read=20 * MB, blocked=0.9)
    command = ("python", "-m", "iotop_ai.collectors.health.helper")
    helper = Task(OWN_PID + 1, "python", OWN_PID, cmdline=command)
    child = Task(OWN_PID + 2, "smartctl", OWN_PID + 1, cpu=1.0, read=20 * MB, blocked=0.9)
    single = replace(SINGLE, tasks=(monitor, helper, child), gpu_pids=(50, OWN_PID))
    slow = Machine(disks=(SLOW_SSD,), tasks=(monitor, helper, child))
    for machine in (single, slow):
        assert classes(verdict_of(machine)) == ["unknown"]


def test_a_recorded_command_is_a_child_of_the_monitor_and_may_be_the_cause() -> None:
    monitor = Task(OWN_PID, "iotop-ai", 50)
    trainer = Task(OWN_PID + 1, "python", OWN_PID, read=20 * MB, blocked=0.9, cmdline=("python", "train.py"))
    assert classes(verdict_of(Machine(disks=(SLOW_SSD,), tasks=(monitor, trainer)))) == ["storage_read"]
