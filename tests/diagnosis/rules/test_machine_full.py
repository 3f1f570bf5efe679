"""Rules about what is around a job: others on its disk or its cores, its workers' turns, its end, a server at rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.model.finding import Severity
from iotop_ai.model.verdict_class import State
from tests.diagnosis.build import (
    COMPUTING,
    JOB_ALONE,
    JOB_HEALTHY,
    JOB_PREPARING,
    LOADERS,
    MB,
    TRAINER_OLD,
    Disk,
    Machine,
    classes,
    play,
    verdict_of,
)
from tests.diagnosis.host_scenes import (
    CROWDED,
    FIO,
    GONE,
    HOST_SCENES,
    OOM,
    OURS,
    SERVER,
    SERVING,
    SHARED,
    SLOW,
    ended,
    epochs,
)
from tests.diagnosis.job_scenes import BLIND, one

CLASSES = {"noisy_neighbour", "worker_respawn", "job_died", "serving"}


def resyncing(moved: float) -> Machine:
    array = Disk("md0", "virtual", kind="md", slaves=("sda", "sdb"), read_bytes_per_s=30 * MB, await_ms=60.0, busy=1.0)
    members = [
        Disk(name, mount="", read_bytes_per_s=moved, await_ms=40.0, busy=1.0, rotational=True)
        for name in ("sda", "sdb")
    ]
    out = replace(JOB_ALONE, tasks=(TRAINER_OLD, *OURS), disks=(array, *members))
    mounts = JOB_ALONE.job.mounts if JOB_ALONE.job is not None else ()
    return one(out, mounts=tuple(m._replace(device="9:0") for m in mounts))


@pytest.mark.parametrize("name", HOST_SCENES)
def test_the_cause_is_named(name: str) -> None:
    assert verdict_of(HOST_SCENES[name]).primary.class_id == name.split()[0]


def neighbours(machine: Machine) -> list[str]:
    return classes(verdict_of(machine, 20))


def test_another_program_on_the_disk_is_named() -> None:
    first = verdict_of(SHARED).primary
    args = dict(first.args)
    assert (first.class_id, first.state) == ("noisy_neighbour", State.STARVED)
    assert (args["other"], args["others"], args["what"]) == ("fio", 3.0, "disk")
    assert args["own"] == pytest.approx(32 * MB)
    assert args["other_share"] == pytest.approx(60 / 92)
    assert first.confidence == 0.75
    assert {e.metric for e in first.evidence} >= {"disks.sda.others_ratio", "disks.sda.read_await_ms"}
    assert [a.template for a in first.advice] == ["calm_neighbour"]


def test_a_raid_check_is_a_neighbour() -> None:
    machine = resyncing(90 * MB)
    frames = play((machine, 1))
    infos = dict(frames[0].snapshot.disks.value or {})
    infos["md0"] = infos["md0"]._replace(md_sync="check", major=9)
    from iotop_ai.diagnosis.facts.gather import gather
    from iotop_ai.diagnosis.facts.neighbours import RESYNC, disk_neighbour

    newest = play((machine, 14))[-1]
    snapshot = newest.snapshot._replace(disks=newest.snapshot.disks._replace(value=infos))
    facts = gather(snapshot, newest.history)
    device = next(d for d in facts.devices if d.name == "md0")
    found = disk_neighbour(facts, facts.jobs[0], device)
    assert found is not None
    assert (found.kind, found.name) == (RESYNC, "check of md0")
    assert found.theirs == pytest.approx(148 * MB)


def test_each_mirror_counts_the_writes_of_the_job_beside_a_raid_check() -> None:
    from iotop_ai.diagnosis.facts.gather import gather
    from iotop_ai.diagnosis.facts.neighbours import disk_neighbour

    array, *mirrors = resyncing(4 * MB).disks
    written = [replace(disk, write_bytes_per_s=60 * MB) for disk in mirrors]
    checked = replace(array, read_bytes_per_s=2 * MB, write_bytes_per_s=60 * MB, md_sync="check", major=9)
    newest = play((replace(resyncing(4 * MB), disks=(checked, *written)), 14))[-1]
    facts = gather(newest.snapshot, newest.history)
    device = next(d for d in facts.devices if d.name == "md0")
    job = facts.jobs[0]._replace(read_bytes_per_s=2.0 * MB, write_bytes_per_s=60.0 * MB)
    assert disk_neighbour(facts, job, device) is None


def test_somebody_who_is_not_seen_is_guessed_at() -> None:
    hidden = replace(SHARED, tasks=(TRAINER_OLD, *OURS, *(replace(t, denied=True) for t in FIO)))
    first = verdict_of(hidden).primary
    assert (first.class_id, first.confidence, dict(first.args)["other_kind"]) == ("noisy_neighbour", 0.5, "unseen")
    assert [a.template for a in first.advice] == ["ask_for_share"]
    assert next(a.template for a in verdict_of(replace(hidden, euid=1000)).primary.advice) == "run_as_root"


ALMOST = {
    "the job has most": replace(SHARED, tasks=(TRAINER_OLD, *LOADERS, replace(FIO[0], read=5 * MB))),
    "nobody explains it": replace(SHARED, tasks=(TRAINER_OLD, *OURS)),
    "they read elsewhere": replace(SHARED, tasks=(TRAINER_OLD, *OURS, replace(FIO[0], read=900 * MB))),
    "the job's own I/O is hidden": replace(SHARED, tasks=(TRAINER_OLD, *(replace(t, denied=True) for t in OURS), *FIO)),
    "a calm disk": replace(SHARED, disks=(replace(SLOW, await_ms=0.9, busy=0.2, queue=7.9),)),
    "nobody waits": replace(SHARED, job=replace(COMPUTING, stall=0.01)),
    "no RAID check": resyncing(90 * MB),
    "cores by halves": replace(CROWDED, job=replace(COMPUTING, worker_cpu=0.48, worker_cpu_wait=0.5)),
    "cores of its own": replace(CROWDED, tasks=(TRAINER_OLD, *(replace(t, cpu=0.55) for t in LOADERS))),
    "a quota": replace(CROWDED, job=replace(CROWDED.job or COMPUTING, quota=1.0)),
}


@pytest.mark.parametrize("name", ALMOST)
def test_almost_is_no_neighbour(name: str) -> None:
    assert "noisy_neighbour" not in neighbours(ALMOST[name])


def test_others_on_the_cores_are_named() -> None:
    first = verdict_of(CROWDED).primary
    args = dict(first.args)
    assert (first.class_id, args["other"], args["others"], args["what"]) == ("noisy_neighbour", "stress", 4.0, "cpu")
    assert args["theirs"] == pytest.approx(0.95 * 5 - 0.9)
    assert [a.template for a in first.advice] == ["calm_cpu"]
    assert "cpu_prep" not in classes(verdict_of(CROWDED))


def test_the_same_without_others_is_too_little_preparation() -> None:
    assert verdict_of(ALMOST["cores by halves"]).primary.class_id == "cpu_prep"


def test_workers_that_lose_more_to_others_than_to_their_own_work_are_crowded() -> None:
    """Two workers of five cores get 62 % of one each."""
    part = replace(COMPUTING, workers=LOADERS[:2], worker_cpu=0.62, worker_cpu_wait=0.37)
    crowded, slow = (replace(CROWDED, job=replace(part, stall=stall)) for stall in (0.5, 0.9))
    assert verdict_of(crowded).primary.class_id == "noisy_neighbour"
    assert verdict_of(slow).primary.class_id == "cpu_prep"


def test_workers_that_start_anew_each_epoch_cost_their_start() -> None:
    first = play(*epochs(20, 4, 4))[-1].verdict.primary
    args = dict(first.args)
    assert (first.class_id, first.state) == ("worker_respawn", State.STARVED)
    assert args["epoch_s"] == pytest.approx(20)
    assert args["turn_s"] == pytest.approx(4, abs=1.2)
    assert first.lost_ratio == pytest.approx(0.2, abs=0.06)
    assert first.confidence == 0.85
    assert [a.template for a in first.advice] == ["keep_workers"]


def test_it_leaves_when_the_workers_stay() -> None:
    last = epochs(20, 4, 4)[-1][0]
    assert play(*epochs(20, 4, 4), (last, 170))[-1].verdict.primary.class_id == "healthy"


QUIET_TURNS = {
    "one turn": epochs(40, 4, 2),
    "the same workers": epochs(20, 4, 4, named=False),
    "turns without a wait": epochs(20, 0, 4),
    "a wait all the time": epochs(20, 4, 4, stall=0.9),
}


@pytest.mark.parametrize("name", QUIET_TURNS)
def test_almost_is_no_respawn(name: str) -> None:
    scenes = [(machine, ticks) for machine, ticks in QUIET_TURNS[name] if ticks]
    assert "worker_respawn" not in classes(play(*scenes)[-1].verdict)


DEATHS = {
    "SIGKILL": ((ended("trainer", -9),), "who_killed", 0.95),
    "killed for memory": ((OOM, ended("trainer", -9)), "less_memory", 0.95),
    "nobody knows how": ((OOM, ended("trainer", None)), "less_memory", 0.6),
    "an error": ((ended("trainer", 1),), "read_log", 0.95),
    "a crash": ((ended("trainer", -11),), "fault_handler", 0.95),
    "stopped": ((ended("trainer", -15),), "who_stopped", 0.95),
    "a worker": ((ended("worker", -7, "pt_data_worker", 101), ended("trainer", 1)), "larger_shm", 0.95),
}


@pytest.mark.parametrize("name", DEATHS)
def test_a_death_is_told_at_once_and_kept(name: str) -> None:
    events, cure, sure = DEATHS[name]
    frames = play((JOB_HEALTHY, 20), (replace(GONE, events=events), 1), (GONE, 300))
    at = frames[20].verdict.primary
    assert (at.class_id, at.state, at.confidence, at.advice[0].template) == ("job_died", State.BLOCKED, sure, cure)
    assert dict(at.args)["job"] == "train.py"
    assert dict(at.args)["worker"] == ("pt_data_worker" if name == "a worker" else "")
    assert at.severity is (Severity.WARNING if name == "stopped" else Severity.CRITICAL)
    assert frames[-1].verdict.primary.class_id == "job_died"


def test_the_death_of_another_job_is_told_beside_the_one_at_work() -> None:
    other = ended("trainer", -9)._replace(pid=77, job_pid=77)
    frames = play((JOB_HEALTHY, 20), (replace(JOB_HEALTHY, events=(other,)), 1), (JOB_HEALTHY, 10), (GONE, 15))
    assert classes(frames[25].verdict) == ["healthy", "job_died"]
    assert frames[-1].verdict.primary.class_id == "job_died"


def test_a_death_is_forgotten_after_ten_minutes_or_when_training_goes_on() -> None:
    death = (replace(GONE, events=(ended("trainer", -9),)), 1)
    assert play((JOB_HEALTHY, 20), death, (GONE, 620))[-1].verdict.primary.class_id != "job_died"
    young = replace(TRAINER_OLD, pid=60, start=4_000)
    again = replace(JOB_HEALTHY, tasks=(young, *LOADERS), job=replace(COMPUTING, task=young, stall=0.0))
    frames = play((JOB_HEALTHY, 20), death, (GONE, 25), (again, 30))
    assert frames[44].verdict.primary.class_id == "job_died"
    assert frames[-1].verdict.primary.class_id == "healthy"


NO_DEATHS = {
    "done": (ended("trainer", 0),),
    "Ctrl-C": (ended("trainer", -2),),
    "Ctrl-C caught": (ended("trainer", 130),),
    "unknown": (ended("trainer", None),),
    "a worker that is done": (ended("worker", 0, "pt_data_worker", 101),),
    "a worker that was asked to end": (ended("worker", -15, "pt_data_worker", 101),),
    "a kill elsewhere": (OOM,),
    "a member of no job": (ended("", 1),),
}


@pytest.mark.parametrize("name", NO_DEATHS)
def test_almost_is_no_death(name: str) -> None:
    frames = play((JOB_HEALTHY, 20), (replace(GONE, events=NO_DEATHS[name]), 1), (GONE, 5))
    assert all("job_died" not in classes(f.verdict) for f in frames)


def test_an_end_between_two_decisions_is_not_lost() -> None:
    quick = replace(GONE, interval_s=0.3)
    frames = play((quick, 50), (replace(quick, events=(ended("trainer", -9),)), 1), (quick, 4))
    assert frames[-1].verdict.primary.class_id == "job_died"
    assert frames[-1].carry.ended == ()


def test_a_server_without_requests_serves() -> None:
    verdict = verdict_of(SERVING)
    first = verdict.primary
    assert (first.class_id, verdict.state, first.confidence) == ("serving", State.CALM, 0.7)
    assert dict(first.args)["listening"] == 1.0
    assert verdict_of(replace(SERVING, gpus=(), gpu_pids=())).primary.class_id == "serving"


NO_SERVERS = {
    "it does not listen": replace(SERVING, job=replace(SERVER, listening=0)),
    "not known": replace(SERVING, job=replace(SERVER, listening=None)),
    "it is awake": replace(SERVING, job=replace(SERVER, queue=0.3)),
    "it has loaders": replace(SERVING, job=replace(SERVER, workers=LOADERS)),
    "a launcher started it": replace(SERVING, job=replace(SERVER, evidence=("gpu", "launcher"))),
    "it computes": replace(SERVING, tasks=(replace(SERVER.task, cpu=1.5),)),
    "it reads": replace(SERVING, tasks=(replace(SERVER.task, read=20 * MB),)),
    "a busy GPU": replace(SERVING, gpus=(0.9,), power=500.0),
}


@pytest.mark.parametrize("name", NO_SERVERS)
def test_almost_is_no_server(name: str) -> None:
    assert "serving" not in classes(verdict_of(NO_SERVERS[name]))


@pytest.mark.parametrize("machine", [BLIND, JOB_HEALTHY, JOB_ALONE, JOB_PREPARING])
def test_nothing_known_or_another_cause_is_quiet(machine: Machine) -> None:
    assert not set(classes(verdict_of(machine))) & CLASSES
