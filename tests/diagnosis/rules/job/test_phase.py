from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.model.finding import Severity
from iotop_ai.model.machine.filesystem import FilesystemUsage
from iotop_ai.model.verdict_class import State
from tests.diagnosis.build import (
    COMPUTING,
    GIB,
    JOB_ALONE,
    JOB_HEALTHY,
    JOB_STARVED,
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
from tests.diagnosis.job_scenes import BLIND, SAVING, STARTING, STATE_SCENES, WRITER, YOUNG

ALMOST = {
    "starting old": replace(STARTING, job=replace(YOUNG, task=replace(TRAINER_OLD, start=-200_000))),
    "starting small": replace(STARTING, job=replace(YOUNG, grown=1 * MB)),
    "starting loaders": replace(STARTING, job=replace(YOUNG, workers=LOADERS)),
    "starting on a GPU": replace(STARTING, gpus=(0.3,), gpu_pids=(50,)),
    "checkpoint_write short": replace(SAVING, job=replace(SAVING.job, saving=frozenset((9, 10)))),
    "checkpoint_write reads": replace(
        SAVING, tasks=(WRITER, *(replace(w, blocked=0.0) for w in LOADERS)), job=replace(SAVING.job)
    ),
    "checkpoint_write others": replace(SAVING, tasks=(replace(WRITER, write=1 * MB),)),
    "mem_pressure": replace(JOB_HEALTHY, memory_pressure=0.06),
    "mem_pressure cache": replace(JOB_HEALTHY, memory_pressure=0.13, refault=200 * MB),
    "shm_full": replace(JOB_HEALTHY, job=replace(COMPUTING, stall=0.01, shm=0.85)),
    "fs_full": replace(JOB_HEALTHY, usage={"/data": FilesystemUsage(1000 * GIB, 5 * GIB, 5 * GIB, 0, 0)}),
    "healthy waits": replace(JOB_HEALTHY, job=replace(COMPUTING, stall=0.07)),
    "healthy alone": replace(JOB_HEALTHY, job=Training(TRAINER_OLD)),
    "healthy idle GPU": replace(JOB_HEALTHY, gpus=(0.5,), gpu_pids=(50,)),
    "healthy spins": replace(JOB_HEALTHY, gpus=(0.99,), gpu_pids=(50,), power=96.0),
}
QUIET = {"starting", "checkpoint_write", "mem_pressure", "shm_full", "fs_full"}
STATES = {
    "starting": State.STARTING,
    "checkpoint_write": State.BLOCKED,
    "mem_pressure": State.SLOWED,
    "shm_full": State.BLOCKED,
    "fs_full": State.BLOCKED,
    "healthy": State.OK,
    "gpu_bound": State.OK,
}


@pytest.mark.parametrize("name", STATE_SCENES)
def test_the_cause_is_named(name: str) -> None:
    verdict = verdict_of(STATE_SCENES[name])
    assert verdict.primary.class_id == name.split()[0]
    assert verdict.state is STATES.get(name.split()[0]), "STATES has what the user is to read for each class"
    assert verdict.primary.evidence


@pytest.mark.parametrize("name", ALMOST)
def test_almost_is_not_enough(name: str) -> None:
    assert name.split()[0] not in classes(verdict_of(ALMOST[name]))


@pytest.mark.parametrize("machine", [BLIND, JOB_HEALTHY], ids=["blind", "healthy"])
def test_nothing_known_or_nothing_wrong_is_quiet(machine: Machine) -> None:
    assert not set(classes(verdict_of(machine))) & QUIET


def test_a_young_program_that_is_no_job_starts_nothing() -> None:
    """Whatever it computes, reads and compiles: of what is no training job nobody knows that it will train."""
    young = Task(70, "python", cpu=1.0, read=60 * MB, write=5 * MB, start=3000, cmdline=("python", "build.py"))
    compiler = Task(71, "cc1plus", 70, cpu=0.9, start=3010)
    plain = Machine(tasks=(young, compiler), disks=(Disk(read_bytes_per_s=60 * MB, await_ms=0.2, busy=0.3),))
    for machine in (plain, replace(plain, gpus=(0.0,), gpu_pids=())):
        seen = {f.class_id for frame in play((machine, 45)) for f in frame.verdict.findings}
        assert "starting" not in seen
    beside = replace(STARTING, job=replace(YOUNG, grown=0.0), tasks=(YOUNG.task, young, compiler))
    assert "starting" not in classes(verdict_of(beside))


def test_a_checkpoint_is_an_event_that_stays_a_while() -> None:
    words = [f.verdict.primary.class_id for f in play((SAVING, 50))]
    assert words[11] == "checkpoint_write"
    assert words[25] == "checkpoint_write"
    assert words[-1] != "checkpoint_write"


def test_shared_memory_that_empties_a_little_stays_full() -> None:
    filled, less, empty = (
        replace(JOB_HEALTHY, job=replace(COMPUTING, stall=0.01, shm=shm)) for shm in (0.95, 0.85, 0.5)
    )
    frames = play((filled, 11), (less, 20), (empty, 20))
    assert frames[10].verdict.primary.class_id == "shm_full"
    assert frames[30].verdict.primary.class_id == "shm_full"
    assert frames[-1].verdict.primary.class_id == "healthy"


def test_a_job_that_rests_leaves_the_word_to_the_other_rules() -> None:
    resting = Training(replace(TRAINER_OLD, cpu=0.0), evidence=("library",))
    tasks = (resting.task, Task(60, "python", cpu=0.05, read=10 * MB, blocked=0.93))
    slow = Disk(read_bytes_per_s=10 * MB, await_ms=60, busy=1.0)
    assert verdict_of(replace(JOB_ALONE, job=resting, tasks=tasks, disks=(slow,))).primary.class_id == "storage_read"
    idle = verdict_of(Machine(job=resting, tasks=(resting.task,)), 40).primary
    assert (idle.class_id, dict(idle.args)["job"]) == ("idle", "train.py")


def test_good_news_is_sure_only_with_a_gpu() -> None:
    assert verdict_of(STATE_SCENES["healthy"]).primary.confidence == 0.6
    assert verdict_of(STATE_SCENES["healthy GPU"]).primary.confidence == 0.75


FULL = FilesystemUsage(100 * GIB, GIB // 2, GIB // 2, 0, 0)


def test_a_full_filesystem_that_no_job_reads_stands_behind_what_a_job_loses() -> None:
    assert classes(verdict_of(replace(JOB_STARVED, usage={"/scratch": FULL})))[:2] == ["storage_read", "fs_full"]
    assert classes(verdict_of(replace(JOB_STARVED, usage={"/data": FULL})))[0] == "fs_full"
    assert classes(verdict_of(replace(JOB_HEALTHY, usage={"/scratch": FULL}))) == ["fs_full"]


@pytest.mark.parametrize("path", ["/boot", "/boot/efi", "/efi"])
def test_a_full_boot_filesystem_stands_beside_the_verdict(path: str) -> None:
    verdict = verdict_of(replace(JOB_HEALTHY, usage={path: FULL}))
    assert classes(verdict) == ["healthy", "fs_full"]
    assert verdict.findings[1].severity is Severity.INFO
    assert classes(verdict_of(replace(JOB_HEALTHY, usage={"/bootstrap": FULL}))) == ["fs_full"]


def test_pressure_by_file_pages_has_the_threshold_that_it_must_reach() -> None:
    found = verdict_of(replace(JOB_HEALTHY, memory_pressure=0.25, refault=200 * MB)).primary
    (pressure,) = [one for one in found.evidence if one.metric == "pressure.memory.some_ratio"]
    assert (found.class_id, pressure.threshold) == ("mem_pressure", 0.2)


def test_a_full_shared_memory_is_a_finding_about_its_own_job() -> None:
    other = replace(TRAINER_OLD, pid=40)
    full = Training(other, main_running=0.9, shm=0.95, time=(("compute", 1.0),))
    both = replace(JOB_HEALTHY, beside=full, tasks=(*JOB_HEALTHY.tasks, other))
    verdict = verdict_of(both)
    assert (verdict.primary.class_id, verdict.primary.subject, verdict.job_pid) == ("shm_full", "40", 40)
    frames = play((both, 15), (JOB_HEALTHY, 1))
    assert "shm_full" not in classes(frames[-1].verdict)
