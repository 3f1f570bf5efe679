from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.model.job.records import JobMount
from iotop_ai.model.verdict_class import State
from tests.diagnosis.build import (
    COMPUTING,
    JOB_ALONE,
    JOB_HEALTHY,
    LOADERS,
    MB,
    TRAINER_OLD,
    Disk,
    Machine,
    Task,
    Training,
    classes,
    play,
    verdict_of,
)
from tests.diagnosis.job_scenes import (
    NO_READINGS,
    ON_GPU,
    SAVING,
    STARTING,
    STATE_SCENES,
    TIME_SCENES,
    WRITER,
    YOUNG,
    with_job,
)

NEAR_MISSES = {
    "starting old": replace(STARTING, job=replace(YOUNG, task=replace(TRAINER_OLD, start=-200_000))),
    "starting small": replace(STARTING, job=replace(YOUNG, grown=1 * MB)),
    "starting loaders": replace(STARTING, job=replace(YOUNG, workers=LOADERS)),
    "starting on a GPU": replace(STARTING, gpus=(0.3,), gpu_pids=(50,)),
    "checkpoint_write short": replace(SAVING, job=replace(SAVING.job, saving=frozenset((9, 10)))),
    "checkpoint_write reads": replace(SAVING, tasks=(WRITER, *(replace(w, blocked=0.0) for w in LOADERS))),
    "checkpoint_write others": replace(SAVING, tasks=(replace(WRITER, write=1 * MB),)),
    "healthy waits": replace(JOB_HEALTHY, job=replace(COMPUTING, stall=0.085)),
    "healthy alone": replace(JOB_HEALTHY, job=Training(TRAINER_OLD)),
    "healthy idle GPU": replace(JOB_HEALTHY, gpus=(0.5,), gpu_pids=(50,)),
    "healthy spins": replace(JOB_HEALTHY, gpus=(0.99,), gpu_pids=(50,), power=96.0),
}
ON_PARTITION = (JobMount("/data", "ext4", "/dev/sda1", "8:1"),)
PHASES = {"starting", "checkpoint_write"}
ELSEWHERE = {"mem_pressure", "shm_full", "fs_full"}
"""Classes whose tests are in tests/diagnosis/rules/test_machine_full.py."""
STATES = {
    "starting": State.STARTING,
    "checkpoint_write": State.BLOCKED,
    "healthy": State.OK,
    "gpu_bound": State.OK,
}


@pytest.mark.parametrize("name", [name for name in STATE_SCENES if name.split()[0] not in ELSEWHERE])
def test_the_cause_of_each_scene_is_named(name: str) -> None:
    verdict = verdict_of(STATE_SCENES[name])
    assert verdict.primary.class_id == name.split()[0]
    assert verdict.state is STATES.get(name.split()[0]), "the state is not the one that STATES lists for the class"
    assert verdict.primary.evidence


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_a_scene_that_just_misses_a_class_does_not_get_it(name: str) -> None:
    assert name.split()[0] not in classes(verdict_of(NEAR_MISSES[name]))


@pytest.mark.parametrize("machine", [NO_READINGS, JOB_HEALTHY], ids=["no readings", "healthy"])
def test_no_phase_is_named_where_none_is_known(machine: Machine) -> None:
    assert not set(classes(verdict_of(machine))) & PHASES


def test_a_young_program_that_is_not_a_job_is_not_starting() -> None:
    """It may compute, read and compile: until it is recognised as a training job, it is unknown whether it trains."""
    young = Task(70, "python", cpu=1.0, read=60 * MB, write=5 * MB, start=3000, cmdline=("python", "build.py"))
    compiler = Task(71, "cc1plus", 70, cpu=0.9, start=3010)
    plain = Machine(tasks=(young, compiler), disks=(Disk(read_bytes_per_s=60 * MB, await_ms=0.2, busy=0.3),))
    for machine in (plain, replace(plain, gpus=(0.0,), gpu_pids=())):
        seen = {f.class_id for frame in play((machine, 45)) for f in frame.verdict.findings}
        assert "starting" not in seen
    beside = replace(STARTING, job=replace(YOUNG, grown=0.0), tasks=(YOUNG.task, young, compiler))
    assert "starting" not in classes(verdict_of(beside))


def test_a_job_is_not_starting_from_the_moment_that_it_has_a_loader() -> None:
    loading = replace(STARTING, job=replace(YOUNG, workers=LOADERS), tasks=(YOUNG.task, *LOADERS))
    frames = play((STARTING, 20), (loading, 5))
    assert frames[19].verdict.state is State.STARTING
    assert all("starting" not in classes(frame.verdict) for frame in frames[22:])
    helper = play((STARTING, 20), (loading, 1), (STARTING, 10))
    assert {frame.verdict.state for frame in helper[15:]} == {State.STARTING}, "a short-lived child is not a loader"


def test_a_checkpoint_is_shown_for_a_while() -> None:
    class_ids = [f.verdict.primary.class_id for f in play((SAVING, 50))]
    assert class_ids[11] == "checkpoint_write"
    assert class_ids[25] == "checkpoint_write"
    assert class_ids[-1] != "checkpoint_write"


@pytest.mark.parametrize(
    ("writes", "named", "rate"),
    [((0.02, 0.0), "", 200), ((50.0, 0.0), "sda", 50), ((0.02, 190.0), "sdb", 190), ((41.0, 190.0), "sda", 41)],
)
def test_a_checkpoint_names_only_a_disk_that_takes_it(writes: tuple[float, float], named: str, rate: float) -> None:
    """The job writes 200 MB/s, perhaps to a network filesystem. sda has its data files."""
    disks = (
        Disk(write_bytes_per_s=writes[0] * MB, await_ms=1.0, busy=0.1),
        Disk("sdb", mount="/", major=9, write_bytes_per_s=writes[1] * MB, await_ms=1.0, busy=0.1),
    )
    sync = TIME_SCENES["checkpoint_write sync"]
    found = verdict_of(replace(sync, disks=disks, tasks=(replace(TRAINER_OLD, write=200 * MB),)), 40).primary
    args = dict(found.args)
    assert (found.class_id, args["device"]) == ("checkpoint_write", named)
    assert args["write_bytes_per_s"] == pytest.approx(rate * MB)
    assert args["mount"] == {"sda": "/data", "sdb": "/", "": ""}[named]


def test_the_disk_of_a_checkpoint_is_the_one_with_the_partition_of_the_jobs_files() -> None:
    disks = (
        Disk(major=9, mount="", write_bytes_per_s=100 * MB, await_ms=1.0, busy=0.1),
        Disk("sda1", kind="partition", parent="sda"),
        Disk("nvme0n1", mount="/", major=10, write_bytes_per_s=300 * MB, await_ms=1.0, busy=0.1),
    )
    sync = with_job(TIME_SCENES["checkpoint_write sync"], mounts=ON_PARTITION)
    found = verdict_of(replace(sync, disks=disks, tasks=(replace(TRAINER_OLD, write=100 * MB),)), 40).primary
    args = dict(found.args)
    assert (found.class_id, args["device"], args["write_bytes_per_s"]) == ("checkpoint_write", "sda", 100 * MB)


def test_without_counted_time_the_disk_of_a_checkpoint_is_the_one_with_the_partition_too() -> None:
    other = Disk("nvme0n1", mount="/", major=10, write_bytes_per_s=40 * MB, await_ms=1.0, busy=0.1)
    disks = (replace(SAVING.disks[0], mount=""), Disk("sda1", kind="partition", parent="sda"), other)
    found = verdict_of(with_job(replace(SAVING, disks=disks), mounts=ON_PARTITION), 15).primary
    assert (found.class_id, dict(found.args)["device"]) == ("checkpoint_write", "sda")


def test_the_log_of_a_job_that_reads_through_fuse_is_not_its_checkpoint() -> None:
    """The kernel counts no bytes that a process reads through FUSE, so the job seems to write and not to read."""
    logs = replace(TRAINER_OLD, write=3 * MB, cpu=0.2)
    job = Training(
        logs, main_disk=0.6, mounts=(JobMount("/mnt/s3", "fuse.s3fs", "s3fs", "0:60"),), file_waits=0.6,
        time=(("data_network", 0.6), ("compute", 0.4)),
    )  # fmt: skip
    disks = (Disk(write_bytes_per_s=3 * MB, await_ms=1.0, busy=0.05),)
    machine = replace(ON_GPU, job=job, tasks=(logs,), disks=disks)
    assert classes(verdict_of(machine, 40)) == ["network_fs"]
    assert "checkpoint_write" in classes(verdict_of(replace(machine, job=replace(job, time=())), 40)), (
        "not from samples"
    )


def test_a_job_that_rests_leaves_the_verdict_to_other_rules() -> None:
    resting = Training(replace(TRAINER_OLD, cpu=0.0), evidence=("library",))
    tasks = (resting.task, Task(60, "python", cpu=0.05, read=10 * MB, blocked=0.93))
    slow = Disk(read_bytes_per_s=10 * MB, await_ms=60, busy=1.0)
    assert verdict_of(replace(JOB_ALONE, job=resting, tasks=tasks, disks=(slow,))).primary.class_id == "storage_read"
    idle = verdict_of(Machine(job=resting, tasks=(resting.task,)), 40).primary
    assert (idle.class_id, dict(idle.args)["job"]) == ("idle", "train.py")


def test_a_healthy_verdict_has_high_confidence_only_with_a_gpu() -> None:
    assert verdict_of(STATE_SCENES["healthy"]).primary.confidence == 0.6
    assert verdict_of(STATE_SCENES["healthy GPU"]).primary.confidence == 0.75
