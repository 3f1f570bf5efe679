"""A cause is ruled out only if the verdict is not about it, and the figure in the reason excludes it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.model.verdict_class import State
from iotop_ai.present.verdict import headline
from tests.diagnosis.build import JOB_HEALTHY, JOB_PREPARING, MB, Disk, Machine, Task, play, verdict_of
from tests.diagnosis.job_scenes import SAVING, with_job
from tests.diagnosis.rules.test_block import DYING

GCC = tuple(Task(70 + n, "gcc", cpu=0.46) for n in range(8))
UNEXPLAINED = with_job(JOB_HEALTHY, main_cpu_wait=0.28, time=(("compute", 0.28), ("unexplained", 0.72)))


def classes_ruled_out(machine: Machine) -> set[str]:
    return {reason.class_id for reason in verdict_of(machine).primary.ruled_out}


def test_a_failing_disk_does_not_rule_out_the_disk() -> None:
    machine = Machine(disks=(Disk(),), smart=(DYING,))
    assert verdict_of(machine).state is State.FAILING
    assert "storage_read" not in classes_ruled_out(machine)


def test_a_wait_for_a_checkpoint_does_not_rule_out_the_disk() -> None:
    assert verdict_of(SAVING).primary.class_id == "checkpoint_write"
    assert "storage_read" not in classes_ruled_out(SAVING)


def test_full_cores_do_not_rule_out_the_cpu() -> None:
    full = Machine(cpu=0.97, tasks=GCC)
    assert verdict_of(full).state is State.BUSY
    assert "cpu_prep" not in classes_ruled_out(full)
    less = play((full, 15), (replace(full, cpu=0.8), 5))[-1].verdict
    assert less.state is State.BUSY
    assert "cpu_prep" not in {reason.class_id for reason in less.primary.ruled_out}
    assert "cpu_prep" in classes_ruled_out(replace(full, cpu=0.5))


@pytest.mark.parametrize(("await_ms", "is_ruled_out"), [(0.5, True), (1.6, False)])
def test_only_a_disk_that_answers_within_its_typical_time_is_ruled_out(await_ms: float, is_ruled_out: bool) -> None:
    machine = Machine(cpu=0.3, disks=(Disk(read_bytes_per_s=MB, await_ms=await_ms, busy=0.1),))
    assert ("storage_read" in classes_ruled_out(machine)) is is_ruled_out


def test_the_cpu_is_ruled_out_only_if_the_job_does_not_wait_for_a_core() -> None:
    assert "cpu_prep" in classes_ruled_out(JOB_HEALTHY)
    for waiting in (with_job(JOB_HEALTHY, main_cpu_wait=0.28), with_job(JOB_HEALTHY, worker_cpu_wait=0.4)):
        assert "cpu_prep" not in classes_ruled_out(waiting)
        assert "storage_read" in classes_ruled_out(waiting)
    assert "cpu_prep" not in classes_ruled_out(replace(JOB_HEALTHY, cpu=0.98))


def test_the_headline_of_unexplained_time_names_a_wait_for_a_core() -> None:
    verdict = verdict_of(UNEXPLAINED)
    assert verdict.state is State.UNSURE
    text = headline.text_of(headline.headline(verdict))
    assert text == "train.py: 72 % of its time is unexplained, it waits for a core 28 %"
    assert "cpu_prep" not in classes_ruled_out(UNEXPLAINED)
    loading = headline.headline(verdict_of(with_job(UNEXPLAINED, main_cpu_wait=0.0, worker_cpu_wait=0.37)))
    assert headline.text_of(loading).endswith("is unexplained, its workers wait for a core 37 %")
    calm = headline.headline(verdict_of(with_job(UNEXPLAINED, main_cpu_wait=0.0)))
    assert headline.text_of(calm) == "train.py: 72 % of its time is unexplained, cause not seen"


def test_the_disk_is_ruled_out_if_a_job_waits_for_preparation() -> None:
    assert "storage_read" in classes_ruled_out(JOB_PREPARING)


def test_a_part_of_the_wait_that_costs_time_is_not_ruled_out() -> None:
    def machine(disk: float, cpu: float) -> Machine:
        rest = 0.6 - disk - cpu
        shares = (("data_disk", disk), ("data_cpu", cpu), ("data_other", rest), ("compute", 0.4))
        return replace(with_job(JOB_PREPARING, stall=0.6, time=shares), gpus=(0.4,), gpu_pids=(50,))

    both = {"storage_read", "cpu_prep"}
    assert verdict_of(machine(0.19, 0.19)).state is State.UNSURE
    assert not both & classes_ruled_out(machine(0.19, 0.19))
    assert both & classes_ruled_out(machine(0.05, 0.2)) == {"storage_read"}
    assert both & classes_ruled_out(machine(0.05, 0.05)) == both
