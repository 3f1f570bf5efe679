from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.model.finding import Severity
from iotop_ai.model.verdict_class import CLASS_SPECS, State
from tests.diagnosis.build import (
    COMPUTING,
    FETCHING,
    JOB_HEALTHY,
    JOB_STARVED,
    LOADERS,
    MB,
    TRAINER_OLD,
    Disk,
    Machine,
    Training,
    classes,
    play,
    verdict_of,
)
from tests.diagnosis.host_scenes import SERVING
from tests.diagnosis.job_scenes import ON_GPU, READS, TIME_SCENES, with_job


@pytest.mark.parametrize("name", TIME_SCENES)
def test_the_largest_lost_share_is_explained(name: str) -> None:
    verdict = verdict_of(TIME_SCENES[name], 40)
    assert verdict.primary.class_id == name.partition(" ")[0]
    assert verdict.state is CLASS_SPECS[verdict.primary.class_id].state


def with_time(machine: Machine, *shares: tuple[str, float], running: float = 0.0) -> Machine:
    return replace(machine, job=Training(TRAINER_OLD, main_running=running, time=shares))


def test_the_lost_ratio_is_the_share_of_time_lost() -> None:
    primary = verdict_of(TIME_SCENES["host_bound"], 40).primary
    assert primary.lost_ratio == pytest.approx(0.6)
    assert dict(primary.args)["running"] == pytest.approx(0.97)


def mixed(disk: float, cpu: float, other: float, worker_cpu: float = 0.6, slow: bool = True) -> Machine:
    """A job on a GPU that waits for several kinds of work of its loaders. slow: whether the disk answers slowly."""
    lost = disk + cpu + other
    shares = (("data_disk", disk), ("data_cpu", cpu), ("data_other", other), ("compute", 1 - lost))
    machine = JOB_STARVED if slow else replace(JOB_STARVED, disks=(Disk(read_bytes_per_s=88e6, await_ms=0.5),))
    return replace(
        machine, job=replace(FETCHING, stall=lost, worker_disk=1 - worker_cpu, worker_cpu=worker_cpu, time=shares),
        gpus=(1 - lost,), gpu_pids=(50,),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("machine", "expected"),
    [(mixed(0.29, 0.27, 0.07), "storage_read"), (mixed(0.25, 0.29, 0.06, slow=False), "cpu_prep")],
    ids=["a slow disk", "loaders that compute"],
)
def test_the_largest_of_several_causes_is_named_if_other_signals_show_it(machine: Machine, expected: str) -> None:
    primary = verdict_of(machine, 40).primary
    assert primary.class_id == expected
    assert primary.confidence <= 0.6


@pytest.mark.parametrize(
    "machine",
    [
        mixed(0.29, 0.27, 0.07, slow=False),
        mixed(0.25, 0.29, 0.06, slow=False, worker_cpu=0.4),
        mixed(0.25, 0.29, 0.06),
        mixed(0.2, 0.2, 0.25),
        mixed(0.07, 0.05, 0.05),
    ],
    ids=["a fast disk", "loaders that rest", "loaders that compute, and a slow disk", "another cause", "small causes"],
)
def test_one_of_several_causes_is_not_guessed(machine: Machine) -> None:
    assert verdict_of(machine, 40).primary.class_id == "unknown"


def test_time_that_is_not_explained_is_not_blamed_on_a_smaller_share() -> None:
    machine = with_time(ON_GPU, ("data_cpu", 0.2), ("unexplained", 0.5), ("compute", 0.3))
    assert verdict_of(machine, 40).state is State.UNSURE


def test_a_launch_bound_job_without_workers_is_not_advised_to_add_workers() -> None:
    primary = verdict_of(TIME_SCENES["host_bound"], 40).primary
    assert {advice.template for advice in primary.advice} == {"fewer_syncs", "compile_model"}


@pytest.mark.parametrize(("read", "sure"), [(1.2 * MB, False), (8 * MB, True)])
def test_a_trainer_that_runs_but_reads_little_may_not_load(read: float, sure: bool) -> None:
    """It may be bound by the launches of small kernels, so it is not accused, and both cures are named."""
    trainer = replace(TRAINER_OLD, cpu=1.0, read=read)
    job = Training(trainer, main_running=1.0, stall=0.65, time=(("compute", 0.35), ("data_cpu", 0.65)))
    primary = verdict_of(replace(ON_GPU, job=job, tasks=(trainer,), gpus=(0.35,), power=150.0), 80).primary
    assert primary.class_id == "single_thread"
    assert (primary.severity is Severity.CRITICAL, primary.confidence > 0.5) == (sure, sure)
    assert ("fewer_syncs" in {advice.template for advice in primary.advice}) is not sure


def test_a_small_host_share_is_not_a_finding() -> None:
    machine = replace(with_time(ON_GPU, ("host", 0.03), ("compute", 0.97), running=0.5), gpus=(0.97,), power=600.0)
    assert verdict_of(machine, 80).state is State.OK


def beside_loaders(cpu: float, *shares: tuple[str, float], wait: float = 0.0) -> Machine:
    """A job on a GPU. cpu, wait: the shares of time in which its loaders have a core, or wait for a core."""
    busy = dict(shares)["compute"]
    job = replace(COMPUTING, worker_cpu=cpu, worker_cpu_wait=wait, main_running=0.2, time=shares)
    return replace(ON_GPU, job=job, gpus=(busy,), power=600.0)


@pytest.mark.parametrize(("cpu", "wait"), [(0.8, 0.0), (0.3, 0.4)])
def test_a_small_host_share_beside_computing_loaders_belongs_to_the_wait_for_them(cpu: float, wait: float) -> None:
    machine = beside_loaders(cpu, ("host", 0.06), ("data_cpu", 0.05), ("compute", 0.89), wait=wait)
    primary = verdict_of(machine, 80).primary
    assert primary.class_id == "cpu_prep"
    assert primary.lost_ratio == pytest.approx(0.11)
    assert ("jobs.50.time.host", pytest.approx(0.06)) in [(e.metric, e.value) for e in primary.evidence]


def test_a_small_host_share_beside_resting_loaders_belongs_to_the_main_thread() -> None:
    machine = beside_loaders(0.1, ("host", 0.07), ("data_cpu", 0.04), ("compute", 0.89))
    assert verdict_of(machine, 80).primary.class_id == "host_bound"


def test_a_host_share_beside_computing_loaders_is_not_claimed_without_a_wait() -> None:
    machine = beside_loaders(0.8, ("host", 0.06), ("data_cpu", 0.01), ("compute", 0.93))
    assert verdict_of(machine, 80).state is State.OK


def test_a_larger_host_share_beside_computing_loaders_belongs_to_the_main_thread() -> None:
    machine = beside_loaders(0.8, ("host", 0.2), ("data_cpu", 0.1), ("compute", 0.7))
    assert verdict_of(machine, 80).primary.class_id == "host_bound"


def test_a_job_with_a_large_total_loss_beside_computing_loaders_is_not_healthy() -> None:
    machine = beside_loaders(0.8, ("host", 0.07), ("data_cpu", 0.02), ("compute", 0.86), ("unexplained", 0.05))
    assert verdict_of(machine, 80).state is not State.OK


def test_a_job_that_is_rarely_seen_to_train_is_not_healthy() -> None:
    machine = replace(JOB_HEALTHY, job=replace(JOB_HEALTHY.job, time=(("unexplained", 0.9), ("compute", 0.1))))
    assert verdict_of(machine, 40).state is State.UNSURE


@pytest.mark.parametrize(("unexplained", "expected"), [(0.2, "healthy"), (0.45, "unknown")])
def test_a_job_whose_time_is_mostly_unexplained_is_not_healthy(unexplained: float, expected: str) -> None:
    times = (("unexplained", unexplained), ("compute", 1.0 - unexplained))
    machine = replace(JOB_HEALTHY, job=replace(JOB_HEALTHY.job, time=times))
    assert verdict_of(machine, 40).primary.class_id == expected


@pytest.mark.parametrize("unexplained", [0.12, 0.24, 0.30])
def test_gpus_that_idle_for_no_visible_reason_are_not_ok(unexplained: float) -> None:
    rest = tuple(replace(task, read=0.0, blocked=0.0, cpu=0.03) for task in LOADERS)
    job = replace(COMPUTING, workers=rest, stall=0.0, worker_cpu=0.03, worker_disk=0.0)

    def state(share: float) -> State:
        timed = replace(job, time=(("compute", 1.0 - share), ("unexplained", share)))
        machine = replace(ON_GPU, job=timed, tasks=(TRAINER_OLD, *rest), gpus=(1.0 - share,), power=500.0)
        return verdict_of(machine, 80).state

    assert state(unexplained) is State.UNSURE
    assert state(0.05) is State.OK


def test_a_healthy_verdict_does_not_flap_with_a_little_unexplained_time() -> None:
    rest = tuple(replace(task, read=0.0, blocked=0.0, cpu=0.03) for task in LOADERS)
    job = replace(COMPUTING, workers=rest, stall=0.0, worker_cpu=0.03, worker_disk=0.0)

    def machine(share: float) -> Machine:
        timed = replace(job, time=(("compute", 1.0 - share), ("unexplained", share)))
        return replace(ON_GPU, job=timed, tasks=(TRAINER_OLD, *rest), gpus=(1.0 - share,), power=500.0)

    frames = play((machine(0.07), 40), (machine(0.12), 30), (machine(0.07), 30), (machine(0.2), 60))
    assert {frame.verdict.state for frame in frames[20:100]} == {State.OK}
    assert frames[-1].verdict.state is State.UNSURE


def test_without_a_visible_gpu_no_job_is_called_host_bound() -> None:
    machine = replace(TIME_SCENES["host_bound"], gpus=(), gpu_pids=())
    assert verdict_of(machine, 40).primary.class_id != "host_bound"


def test_loader_threads_that_read_wait_for_their_disk() -> None:
    primary = verdict_of(TIME_SCENES["storage_read threads"], 40).primary
    assert dict(primary.args)["device"] == "sda"
    assert primary.lost_ratio == pytest.approx(dict(READS)["data_disk"])


@pytest.mark.parametrize(
    ("kind", "cure"),
    [("env", "faster_simulation"), ("ray", "ray_tasks"), ("prep", "more_processes"), ("loader", "more_workers")],
)
def test_num_workers_is_advised_only_for_loader_workers(kind: str, cure: str) -> None:
    job = replace(COMPUTING, worker_kind=kind, time=(("data_cpu", 0.6), ("compute", 0.4)))
    primary = verdict_of(replace(ON_GPU, job=job), 40).primary
    assert primary.class_id == "cpu_prep"
    assert primary.advice[0].template == cure


@pytest.mark.parametrize(
    "rests",
    [
        with_job(SERVING),
        with_job(SERVING, listening=None, notebook=True),
        with_job(SERVING, listening=0),
    ],
    ids=["server", "notebook", "never seen to train"],
)
def test_rest_counted_as_hung_in_an_old_recording_is_ignored(rests: Machine) -> None:
    assert "hung" not in classes(verdict_of(with_job(rests, time=(("hung", 1.0),)), 40))


def test_the_evidence_of_single_thread_is_the_share_of_time_it_runs() -> None:
    found = verdict_of(with_time(ON_GPU, ("data_cpu", 0.6), ("compute", 0.4), running=0.5), 40).primary
    (runs,) = [one for one in found.evidence if one.metric.endswith("main_running_ratio")]
    assert (found.class_id, runs.value, runs.threshold) == ("single_thread", 0.5, None)
