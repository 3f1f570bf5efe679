"""Which of several jobs the verdict is about, and what each job has lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from iotop_ai.diagnosis.engine import fold, verdict_of_job
from iotop_ai.diagnosis.facts.gather import gather
from iotop_ai.diagnosis.facts.leading_job import job_pid, job_with, leading_job
from iotop_ai.model.finding import Verdict
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.records import JobTable
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.verdict_class import State
from tests.diagnosis.build import (
    COMPUTING,
    FETCHING,
    JOB_ALONE,
    JOB_STARVED,
    Machine,
    Task,
    Training,
    classes,
    play,
    sample_of,
    snapshot_of,
)

OTHER = Task(500, "python", 1, cpu=0.06, start=-100_000)
LOADERS = tuple(Task(600 + i, "pt_data_worker", 500, cpu=0.01, read=0.0, start=-99_000) for i in range(4))
PREPARES = replace(COMPUTING, task=OTHER, workers=LOADERS)
FED = replace(PREPARES, stall=0.01, disk=0.5, running=0.5, worker_cpu=0.05, worker_disk=0.02)


def two(machine: Machine, other: Training, euid: int = 0, ticks: int = 20) -> Frame:
    tasks = (*machine.tasks, other.task, *other.workers)
    return play((replace(machine, tasks=tasks, second_job=other, euid=euid), ticks))[-1]


def about(verdict: Verdict) -> int | None:
    return job_pid(verdict.primary)


def test_for_root_the_job_that_loses_most_gpu_hours_leads() -> None:
    frame = two(JOB_STARVED, replace(PREPARES, stall=0.95))
    assert about(frame.verdict) == 50  # 8 GPUs at 78 % lose more than a job without a GPU at 95 %
    assert classes(frame.verdict)[:2] == ["storage_read", "cpu_prep"]


def test_without_gpus_the_job_that_has_lost_most_time_leads() -> None:
    assert about(two(JOB_ALONE, replace(PREPARES, stall=0.95)).verdict) == 500
    assert about(two(JOB_ALONE, replace(PREPARES, stall=0.5)).verdict) == 50


def test_an_ordinary_users_own_job_leads() -> None:
    other = replace(FED, uid=1001)
    assert about(two(JOB_STARVED, other, euid=1000).verdict) == 50
    theirs = two(JOB_STARVED, other, euid=1001).verdict
    assert about(theirs) == 500
    assert theirs.state is State.OK
    assert "storage_read" in classes(theirs)  # the other user's loss is still listed, after that of the user's own job


def test_a_job_with_a_loss_leads_before_a_job_without_one() -> None:
    frame = two(JOB_STARVED, FED)
    assert (about(frame.verdict), frame.verdict.state) == (50, State.STARVED)
    assert "healthy" not in classes(frame.verdict)


def test_the_verdict_on_a_job_can_be_requested_by_any_of_its_processes() -> None:
    frame = two(JOB_STARVED, FED)
    for pid in (500, 601):
        requested = verdict_of_job(frame, pid)
        assert (about(requested), requested.state) == (500, State.OK)
        assert "storage_read" in classes(requested)
    assert verdict_of_job(frame, 50) is frame.verdict
    assert verdict_of_job(frame, 103) is frame.verdict
    assert verdict_of_job(frame, 999_999) is frame.verdict


def test_a_job_to_which_no_rule_applies_gets_the_class_unknown() -> None:
    unclear = replace(PREPARES, stall=0.5, running=0.2, disk=0.2, worker_cpu=0.2)
    requested = verdict_of_job(two(JOB_STARVED, unclear), 500)
    assert (requested.primary.class_id, about(requested), dict(requested.primary.args)["stall"]) == (
        "unknown",
        500,
        0.5,
    )


def test_gpu_hours_add_up_and_stay_when_the_cause_changes() -> None:
    frames = play((JOB_STARVED, 40))
    lost = [frame.verdict.primary.gpu_hours_lost for frame in frames]
    first = next(i for i, frame in enumerate(frames) if frame.verdict.state is State.STARVED)
    seconds = len(frames) - 1 - first
    share = frames[-1].verdict.primary.lost_ratio or 0.0
    # The tick in which the finding appears counts too, because it describes the second before it.
    assert lost[-1] == pytest.approx(8 * share * (seconds + 1) / 3600, rel=0.01)
    changed = replace(JOB_STARVED, job=replace(COMPUTING, stall=0.5), disks=JOB_ALONE.disks)
    after = play((changed, 30), carry=frames[-1].carry._replace(decided_ns=None))
    total = after[-1].verdict.primary.gpu_hours_lost
    assert total is not None
    assert total > (lost[-1] or 0.0)


def test_without_a_gpu_there_are_no_gpu_hours() -> None:
    assert play((JOB_ALONE, 20))[-1].verdict.primary.gpu_hours_lost is None


def test_the_loss_of_a_job_that_is_gone_is_forgotten_but_not_while_the_jobs_are_unread() -> None:
    last = play((JOB_STARVED, 40))[-1]
    after, history = snapshot_of(JOB_STARVED, 40), (*last.history, sample_of(JOB_STARVED, 40))

    def lost(jobs: Reading[JobTable]) -> Mapping[ProcessKey, float]:
        return fold(last.carry, after._replace(jobs=jobs), history)[0].lost

    assert [key.pid for key in last.carry.lost] == [50]
    assert lost(Reading(None, Status.FAILED, at_ns=after.at_ns)) == last.carry.lost
    assert lost(Reading(JobTable({}, {}, {}, {}, 0), Status.OK, at_ns=after.at_ns)) == {}


def test_unobserved_time_does_not_count_as_lost() -> None:
    carry = play((JOB_STARVED, 20))[-1].carry
    far = play((JOB_STARVED, 1), carry=carry._replace(decided_ns=-(10**12)))[-1].carry
    assert far.lost == carry.lost


def test_changes_of_the_verdict_are_remembered_by_class() -> None:
    frames = play((JOB_STARVED, 20))
    assert [word for _, word in frames[-1].carry.classes] == ["unknown", "storage_read"]


def test_a_job_is_found_by_any_of_its_processes() -> None:
    snapshot = play((JOB_STARVED, 2))[-1].snapshot
    for pid in (50, 101):
        job = job_with(snapshot, pid)
        assert job is not None
        assert job.key.pid == 50
    assert job_with(snapshot, 1) is None
    assert FETCHING.job.key.pid == 50


def leads(*job_cores: float, gpus: tuple[int, ...] = (), before: int | None = None, first_pid: int = 500) -> int:
    """The pid of the leading job among jobs without a loss.

    job_cores: each job's cores, oldest job first; gpus: each job's GPUs; before: the pid of the job that led before
    """
    facts = gather(play((JOB_ALONE, 20))[-1].snapshot, play((JOB_ALONE, 20))[-1].history)
    one = facts.jobs[0]
    jobs = tuple(
        one._replace(
            job=one.job._replace(key=ProcessKey(first_pid - 10 * i, 100 + i)),
            cpu_ratio=cores,
            read_bytes_per_s=0.0,
            write_bytes_per_s=0.0,
            used_gpus=frozenset(f"GPU-{n}" for n in range(gpus[i] if gpus else 0)),
        )
        for i, cores in enumerate(job_cores)
    )
    verdict = play((JOB_ALONE, 20))[-1].verdict._replace(job_pid=before)
    lead = leading_job(facts._replace(jobs=jobs, carry=facts.carry._replace(verdict=verdict)), (), {})
    assert lead is not None
    return lead.job.key.pid


def test_without_a_loss_the_job_that_has_most_gpus_and_cores_leads() -> None:
    assert leads(0.2, 8.0) == 490
    assert leads(8.0, 0.2) == 500
    assert leads(8.0, 0.2, gpus=(1, 2)) == 490


def test_the_oldest_of_equal_jobs_leads_whatever_its_pid_is() -> None:
    assert leads(1.0, 1.0) == 500
    assert leads(1.0, 1.0, first_pid=20) == 20


def test_the_leading_job_is_replaced_only_by_one_that_works_clearly_more() -> None:
    assert leads(1.0, 1.7, before=500) == 500
    assert leads(1.7, 1.0, before=490) == 490
    assert leads(1.0, 7.0, before=500) == 490
