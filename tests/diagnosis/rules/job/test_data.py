from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.model.job.records import IoLimit, JobMount
from iotop_ai.model.verdict_class import State
from tests.diagnosis.build import (
    COMPUTING,
    JOB_ALONE,
    JOB_HEALTHY,
    JOB_PREPARING,
    JOB_STARVED,
    MB,
    SLOW_SSD,
    TRAINER_OLD,
    Disk,
    Machine,
    Training,
    classes,
    play,
    verdict_of,
)
from tests.diagnosis.job_scenes import DATA_SCENES, NFS, NO_READINGS, NORMAL, with_job

NEAR_MISSES = {
    "storage_read gate": with_job(JOB_ALONE, stall=0.04),
    "storage_read decider": with_job(JOB_ALONE, disk=0.3, running=0.3),
    "small_random": replace(JOB_ALONE, disks=(replace(SLOW_SSD, size_bytes=60 * 1024.0),)),
    "network_fs": with_job(JOB_ALONE, mounts=NFS),
    "io_limit": with_job(JOB_ALONE, limits=(IoLimit("8:0", "read_bytes", int(200 * MB), "x"),)),
    "io_limit write": with_job(JOB_ALONE, limits=(IoLimit("8:0", "write_bytes", int(92 * MB), "x"),)),
    "io_limit elsewhere": with_job(JOB_ALONE, limits=(IoLimit("7:3", "read_bytes", int(88 * MB), "x"),)),
    "io_limit zfs": replace(
        with_job(JOB_ALONE, mounts=(JobMount("/tank", "zfs", "tank/data", "0:41"),)), disks=(Disk(mount=""),)
    ),
    "cache_thrash": replace(JOB_ALONE, refault=20 * MB),
    "cache_thrash others": replace(
        JOB_ALONE, refault=80 * MB, disks=(replace(SLOW_SSD, read_bytes_per_s=200 * MB),)
    ),
    "loader_serial": replace(JOB_ALONE, disks=(replace(NORMAL, await_ms=2.4),)),
    "cpu_prep": with_job(JOB_PREPARING, stall=0.04),
    "cpu_prep decider": with_job(JOB_PREPARING, running=0.3, disk=0.3),
    "object_stream": with_job(JOB_PREPARING, running=0.7, net=0.3),
    "single_thread spins": replace(
        JOB_PREPARING, job=Training(TRAINER_OLD, main_running=0.99), gpus=(0.97,), gpu_pids=(50,)
    ),
    "single_thread threads": replace(
        JOB_PREPARING,
        job=Training(replace(TRAINER_OLD, cpu=7.5), main_running=0.99),
        tasks=(replace(TRAINER_OLD, cpu=7.5),),
    ),
}  # fmt: skip
DATA = {name.split()[0] for name in DATA_SCENES}


@pytest.mark.parametrize("name", DATA_SCENES)
def test_the_cause_of_each_scene_is_named(name: str) -> None:
    verdict = verdict_of(DATA_SCENES[name])
    assert verdict.primary.class_id == name.split()[0]
    assert verdict.state is State.STARVED
    assert verdict.primary.evidence[0].metric.endswith("stall_ratio")
    assert verdict.primary.advice


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_a_scene_that_just_misses_a_class_does_not_get_it(name: str) -> None:
    assert name.split()[0] not in classes(verdict_of(NEAR_MISSES[name]))


@pytest.mark.parametrize(
    "machine",
    [NO_READINGS, with_job(JOB_ALONE, stall=None), JOB_HEALTHY],
    ids=["no readings", "unseen", "healthy"],
)
def test_no_cause_is_named_where_none_is_known(machine: Machine) -> None:
    found = set(classes(verdict_of(machine)))
    if machine.job is not None and machine.job.stall is None:
        # Without samples of the job's tasks, the rules about single processes apply.
        assert found == {"storage_read"}
    else:
        assert not found & DATA


def test_a_stall_costs_no_more_than_the_idle_time_of_the_gpus() -> None:
    machine = replace(JOB_STARVED, gpus=(0.6,) * 8)
    primary = verdict_of(machine).primary
    assert primary.lost_ratio == pytest.approx(0.4)
    assert dict(primary.args)["gpus"] == 8


def test_a_running_trainer_without_workers_waits_only_beside_an_idle_gpu() -> None:
    job = Training(TRAINER_OLD, main_running=0.86)
    lost = [
        verdict_of(replace(JOB_PREPARING, job=job, gpus=(busy,), gpu_pids=(50,))).primary.lost_ratio
        for busy in (0.1, 0.5)
    ]
    assert lost == [pytest.approx(0.86), pytest.approx(0.5)]


def test_a_small_loss_over_a_minute_counts() -> None:
    frames = play((with_job(JOB_PREPARING, stall=0.05), 61))
    assert frames[-1].verdict.primary.class_id == "cpu_prep"


def test_a_small_loss_counts_only_once_it_was_observed_for_long() -> None:
    """Sampled shares of a short time are not exact enough to separate a loss of 6 % from one of 4 %."""
    starved = [classes(frame.verdict) == ["cpu_prep"] for frame in play((with_job(JOB_PREPARING, stall=0.06), 61))]
    assert starved[-1]
    assert 40 < starved.index(True) < 60


def test_a_job_that_just_started_is_not_judged() -> None:
    job = replace(COMPUTING, task=replace(TRAINER_OLD, start=100))
    assert "cpu_prep" not in classes(verdict_of(replace(JOB_PREPARING, job=job), 12))


def test_confidence_is_lower_with_less_evidence() -> None:
    def confidence_of(machine: Machine) -> float:
        return verdict_of(machine).primary.confidence

    assert confidence_of(JOB_STARVED) == 0.85
    assert confidence_of(JOB_ALONE) == 0.75
    assert confidence_of(with_job(JOB_ALONE, wait_channels_hidden=True)) == 0.55
    assert confidence_of(with_job(JOB_ALONE, evidence=("children",))) == 0.6
    assert confidence_of(with_job(JOB_ALONE, disk=0.6, running=0.4)) == 0.6
    assert confidence_of(replace(JOB_ALONE, disks=(replace(SLOW_SSD, await_ms=2.6),))) == 0.6


def test_advice_counts_the_cores_that_the_job_can_use() -> None:
    def advised(machine: Machine) -> dict[str, object]:
        return {a.template: dict(a.args).get("then") for a in verdict_of(machine).primary.advice}

    assert advised(JOB_PREPARING) == {"more_workers": 32.0}
    assert advised(with_job(JOB_PREPARING, cores=12)) == {"more_workers": 9.0}
    assert advised(replace(JOB_PREPARING, cpu=1 - 1 / 40)) == {"more_workers": 9.0}, "only one core is idle"
    assert advised(with_job(JOB_PREPARING, cores=2)) == {"cheaper_transforms": None}
    assert advised(with_job(JOB_PREPARING, quota=4.0)) == {"raise_quota": None, "cheaper_transforms": None}
    assert advised(with_job(JOB_PREPARING, worker_cpu_wait=0.5)) == {"cheaper_transforms": None}
    assert advised(replace(JOB_PREPARING, steal=0.94)) == {"cheaper_transforms": None}
    used = dict(verdict_of(with_job(JOB_PREPARING, quota=16.0)).primary.args)
    assert used["idle_cores"] == pytest.approx(16.0 - 7.76), "the idle cores are not those that the quota leaves"


def test_without_a_cause_the_parts_of_the_wait_are_shown() -> None:
    verdict = verdict_of(with_job(JOB_PREPARING, running=0.3, disk=0.3))
    assert verdict.primary.class_id == "unknown"
    args = dict(verdict.primary.args)
    assert (args["job"], args["workers"], args["w_cpu"]) == ("train.py", 8.0, pytest.approx(0.97))
    assert {r.template for r in verdict.primary.ruled_out} >= {
        "workers_blocked",
        "workers_run",
        "no_limit",
        "path_local",
    }


@pytest.mark.parametrize("reader", ["another program", "the job"])
def test_reads_of_another_program_do_not_count_for_the_job(reader: str) -> None:
    usual = replace(JOB_ALONE, refault=8 * MB)
    other = Disk("sdb", mount="/home", read_bytes_per_s=200 * MB, await_ms=0.5)
    burst = replace(usual, refault=208 * MB, disks=(*usual.disks, *((other,) if reader == "another program" else ())))
    frames = play((usual, 20), (burst, 3), (usual, 12))
    found = "cache_thrash" if reader == "the job" else "storage_read"
    assert frames[-1].verdict.primary.class_id == found


def test_reads_of_another_program_do_not_count_for_a_job_whose_disk_is_not_listed() -> None:
    """All disks' reads lack those of a loop device whose file is on a network or FUSE filesystem."""
    (disk,) = JOB_ALONE.disks
    loop = replace(disk, name="loop0", kind="loop", transport="", major=7)
    other = Disk("sdb", mount="/home", read_bytes_per_s=40 * MB, await_ms=0.5)
    frames = play((replace(JOB_ALONE, refault=40 * MB, disks=(loop, other)), 40))
    assert "cache_thrash" not in classes(frames[-1].verdict)
    frames = play((replace(JOB_ALONE, refault=80 * MB, disks=(loop, other)), 40))
    assert frames[-1].verdict.primary.class_id == "cache_thrash"


def test_an_untimed_array_is_not_blamed_on_an_io_limit() -> None:
    disk = Disk("nvme0n1", "nvme", mount="", major=259, read_bytes_per_s=92 * MB, await_ms=9.0, queue=7.9, busy=1.0)
    array = replace(disk, name="md0", kind="md", mount="/data", major=9, slaves=("nvme0n1",), await_ms=0.0, queue=0.0)
    primary = verdict_of(replace(JOB_ALONE, disks=(array, disk))).primary
    assert (primary.class_id, dict(primary.args)["device"]) == ("storage_read", "md0")
    assert dict(primary.args)["await_ms"] == pytest.approx(9.0)
