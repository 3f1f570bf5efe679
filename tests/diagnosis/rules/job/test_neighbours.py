from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.diagnosis.facts.gather import gather
from iotop_ai.diagnosis.facts.neighbours import RESYNC, disk_neighbour
from iotop_ai.model.verdict_class import State
from tests.diagnosis.build import (
    COMPUTING,
    JOB_ALONE,
    JOB_HEALTHY,
    JOB_PREPARING,
    LOADERS,
    MB,
    OWN_PID,
    TRAINER_OLD,
    Disk,
    Machine,
    Task,
    classes,
    play,
    verdict_of,
)
from tests.diagnosis.host_scenes import (
    CROWDED,
    FIO,
    HOST_SCENES,
    MEASURING,
    SHARED,
    SLOW,
    SLOWED_LOADERS,
)
from tests.diagnosis.job_scenes import NO_READINGS, with_job


def on_mirrors(member_reads: float) -> Machine:
    """A job on an md array of two mirrors, each of which is read at this rate."""
    array = Disk("md0", "virtual", kind="md", slaves=("sda", "sdb"), read_bytes_per_s=30 * MB, await_ms=60.0, busy=1.0)
    members = [
        Disk(name, mount="", read_bytes_per_s=member_reads, await_ms=40.0, busy=1.0, rotational=True)
        for name in ("sda", "sdb")
    ]
    out = replace(JOB_ALONE, tasks=(TRAINER_OLD, *SLOWED_LOADERS), disks=(array, *members))
    mounts = JOB_ALONE.job.mounts if JOB_ALONE.job is not None else ()
    return with_job(out, mounts=tuple(m._replace(device="9:0") for m in mounts))


@pytest.mark.parametrize("name", HOST_SCENES)
def test_the_cause_of_each_scene_around_a_job_is_named(name: str) -> None:
    assert verdict_of(HOST_SCENES[name]).primary.class_id == name.split()[0]


def neighbours(machine: Machine) -> list[str]:
    return classes(verdict_of(machine, 20))


@pytest.mark.parametrize("scene", [SHARED, CROWDED], ids=["disk", "cores"])
def test_a_program_that_the_job_has_started_is_not_a_neighbour(scene: Machine) -> None:
    """A trainer that starts decoders is not slowed down by another program."""
    count = len(SLOWED_LOADERS) + 1
    trainer = scene.tasks[0].pid
    started = tuple(replace(task, name="ffmpeg", ppid=trainer) for task in scene.tasks[count:])
    assert started
    assert "noisy_neighbour" in neighbours(scene)
    assert "noisy_neighbour" not in neighbours(replace(scene, tasks=(*scene.tasks[:count], *started)))


def test_another_program_on_the_disk_is_named() -> None:
    primary = verdict_of(SHARED).primary
    args = dict(primary.args)
    assert (primary.class_id, primary.state) == ("noisy_neighbour", State.STARVED)
    assert (args["other"], args["others"], args["what"]) == ("fio", 3.0, "disk")
    assert args["own"] == pytest.approx(32 * MB)
    assert args["other_share"] == pytest.approx(60 / 92)
    assert primary.confidence == 0.75
    assert {e.metric for e in primary.evidence} >= {"disks.sda.others_ratio", "disks.sda.read_await_ms"}
    assert [a.template for a in primary.advice] == ["calm_neighbour"]


def test_a_raid_check_counts_as_a_neighbour() -> None:
    machine = on_mirrors(90 * MB)
    frames = play((machine, 1))
    infos = dict(frames[0].snapshot.disks.value or {})
    infos["md0"] = infos["md0"]._replace(md_sync="check", major=9)
    newest = play((machine, 14))[-1]
    snapshot = newest.snapshot._replace(disks=newest.snapshot.disks._replace(value=infos))
    facts = gather(snapshot, newest.history)
    device = next(d for d in facts.devices if d.name == "md0")
    found = disk_neighbour(facts, facts.jobs[0], device)
    assert found is not None
    assert (found.kind, found.name) == (RESYNC, "check of md0")
    assert found.theirs == pytest.approx(148 * MB)


def test_beside_a_raid_check_the_writes_of_the_job_count_on_each_mirror() -> None:
    array, *mirrors = on_mirrors(4 * MB).disks
    written = [replace(disk, write_bytes_per_s=60 * MB) for disk in mirrors]
    checked = replace(array, read_bytes_per_s=2 * MB, write_bytes_per_s=60 * MB, md_sync="check", major=9)
    newest = play((replace(on_mirrors(4 * MB), disks=(checked, *written)), 14))[-1]
    facts = gather(newest.snapshot, newest.history)
    device = next(d for d in facts.devices if d.name == "md0")
    job = facts.jobs[0]._replace(read_bytes_per_s=2.0 * MB, write_bytes_per_s=60.0 * MB)
    assert disk_neighbour(facts, job, device) is None


def test_a_neighbour_whose_io_cannot_be_read_is_guessed() -> None:
    hidden = replace(SHARED, tasks=(TRAINER_OLD, *SLOWED_LOADERS, *(replace(t, denied=True) for t in FIO)))
    primary = verdict_of(hidden).primary
    assert (primary.class_id, primary.confidence, dict(primary.args)["other_kind"]) == (
        "noisy_neighbour",
        0.5,
        "unseen",
    )
    assert [a.template for a in primary.advice] == ["ask_for_share"]
    assert next(a.template for a in verdict_of(replace(hidden, euid=1000)).primary.advice) == "run_as_root"


def test_what_was_in_the_queue_before_the_window_is_not_a_neighbours() -> None:
    hidden = replace(SHARED, tasks=(TRAINER_OLD, *SLOWED_LOADERS, *(replace(t, denied=True) for t in FIO)))
    slow = replace(hidden, disks=(replace(SHARED.disks[0], await_ms=4000.0), *SHARED.disks[1:]))
    assert "noisy_neighbour" not in classes(verdict_of(slow))


HIDDEN = Task(900, "rsync", denied=True)


@pytest.mark.parametrize("tasks", [(), (HIDDEN,)])
@pytest.mark.parametrize("parent", [OWN_PID, 690])
def test_a_storage_check_is_named_whichever_process_started_it(parent: int, tasks: tuple[Task, ...]) -> None:
    *job, check, fio = MEASURING.tasks
    primary = verdict_of(replace(MEASURING, tasks=(*job, replace(check, ppid=parent), fio, *tasks))).primary
    args = dict(primary.args)
    assert (primary.class_id, primary.state, primary.confidence) == ("noisy_neighbour", State.STARVED, 0.75)
    assert (args["other"], args["other_kind"], args["other_pid"]) == ("iotop-ai check", "check", 700.0)
    assert args["other_share"] == pytest.approx(60 / 92)
    assert [a.template for a in primary.advice] == ["wait_for_check"]


def test_a_storage_check_that_reads_little_is_not_the_neighbour() -> None:
    *job, check, fio = MEASURING.tasks
    idle = (replace(check, reads_with_children=MB), replace(fio, read=0.0, reads_with_children=MB))
    assert dict(verdict_of(replace(MEASURING, tasks=(*job, *idle, *FIO[:2]))).primary.args)["other"] == "fio"
    primary = verdict_of(replace(MEASURING, tasks=(*job, *idle, HIDDEN))).primary
    assert dict(primary.args)["other_kind"] == "unseen"


NEAR_MISSES = {
    "the job has most": replace(SHARED, tasks=(TRAINER_OLD, *LOADERS, replace(FIO[0], read=5 * MB))),
    "no other program reads": replace(SHARED, tasks=(TRAINER_OLD, *SLOWED_LOADERS)),
    "others read elsewhere": replace(SHARED, tasks=(TRAINER_OLD, *SLOWED_LOADERS, replace(FIO[0], read=900 * MB))),
    "the job's own I/O is hidden": replace(
        SHARED, tasks=(TRAINER_OLD, *(replace(t, denied=True) for t in SLOWED_LOADERS), *FIO)
    ),
    "a calm disk": replace(SHARED, disks=(replace(SLOW, await_ms=0.9, busy=0.2, queue=7.9),)),
    "the job does not wait": replace(SHARED, job=replace(COMPUTING, stall=0.01)),
    "no RAID check": on_mirrors(90 * MB),
    "cores by halves": replace(CROWDED, job=replace(COMPUTING, worker_cpu=0.48, worker_cpu_wait=0.5)),
    "cores of its own": replace(CROWDED, tasks=(TRAINER_OLD, *(replace(t, cpu=0.55) for t in LOADERS))),
    "a part of the cores": replace(CROWDED, job=replace(CROWDED.job or COMPUTING, cores=4)),
    "a quota": replace(CROWDED, job=replace(CROWDED.job or COMPUTING, quota=1.0)),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_scenes_that_only_resemble_a_noisy_neighbour_have_none(name: str) -> None:
    assert "noisy_neighbour" not in neighbours(NEAR_MISSES[name])


def test_other_programs_on_the_cores_are_named() -> None:
    primary = verdict_of(CROWDED).primary
    args = dict(primary.args)
    assert (primary.class_id, args["other"], args["others"], args["what"]) == ("noisy_neighbour", "stress", 4.0, "cpu")
    assert args["theirs"] == pytest.approx(0.95 * 5 - 0.9)
    assert [a.template for a in primary.advice] == ["calm_cpu"]
    assert "cpu_prep" not in classes(verdict_of(CROWDED))


def test_without_other_programs_the_cause_is_slow_preparation() -> None:
    for name in ("cores by halves", "a part of the cores"):
        assert verdict_of(NEAR_MISSES[name]).primary.class_id == "cpu_prep"
    every_core = replace(CROWDED, job=replace(CROWDED.job or COMPUTING, cores=5))
    assert verdict_of(every_core).primary.class_id == "noisy_neighbour"


def test_workers_that_lose_more_to_other_programs_than_to_their_own_work_have_a_noisy_neighbour() -> None:
    """Two workers on a machine with five cores get 62 % of a core each."""
    part = replace(COMPUTING, workers=LOADERS[:2], worker_cpu=0.62, worker_cpu_wait=0.37)
    crowded, slow = (replace(CROWDED, job=replace(part, stall=stall)) for stall in (0.5, 0.9))
    assert verdict_of(crowded).primary.class_id == "noisy_neighbour"
    assert verdict_of(slow).primary.class_id == "cpu_prep"


@pytest.mark.parametrize("machine", [NO_READINGS, JOB_HEALTHY, JOB_ALONE, JOB_PREPARING])
def test_no_neighbour_is_named_where_none_is_known(machine: Machine) -> None:
    assert "noisy_neighbour" not in classes(verdict_of(machine))
