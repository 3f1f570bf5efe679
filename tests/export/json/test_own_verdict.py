"""The jobs of the machine that a process can read about."""

from __future__ import annotations

import json

import pytest

from iotop_ai.export.json.own_verdict import Peer, may_see, render_own_verdict_json
from iotop_ai.model.frame import Frame
from iotop_ai.model.process.records import ProcessKey
from tests.diagnosis.build import JOB_STARVED, play

POD = "/kubepods.slice/kubepods-pod11111111_2222_3333_4444_555555555555.slice"
ONE, TWO = (f"{POD}/cri-containerd-{letter * 64}.scope" for letter in "ab")
SESSION = "/user.slice/user-1000.slice/session-3.scope"
CRON = "/system.slice/cron.service"
STEP = "/system.slice/slurmstepd.scope/job_48213/step_0"
SERVICE = "/user.slice/user-1000.slice/user@1000.service/app.slice/train.service"
KEYS_THAT_MAY_NAME_OTHERS = {"text", "because", "do", "evidence", "advice", "ruled_out", "user"}


@pytest.mark.parametrize(
    ("uid", "cgroup", "job_uid", "job_cgroup", "seen"),
    [
        (0, ONE, 0, ONE, True),
        (0, POD, 0, ONE, True),
        (0, ONE, 0, f"{ONE}/sub", True),
        (0, ONE, 0, TWO, False),
        (1000, ONE, 1000, TWO, False),
        (1000, ONE, 1000, SESSION, False),
        (1000, SESSION, 1000, ONE, False),
        (1000, SESSION, 1000, SERVICE, True),
        (1001, SESSION, 1000, SERVICE, False),
        (0, "/", 1000, SESSION, True),
        (0, "/", 0, ONE, False),
        (1000, "", 1000, "", False),
        (1001, SESSION.replace("-3", "-33"), 1000, SESSION, False),
        (1001, SESSION, 1000, SESSION.replace("-3", "-33"), False),
        (1001, CRON, 1000, CRON, False),
        (1000, CRON, 1000, CRON, True),
        (0, CRON, 1000, CRON, True),
        (1001, "/user.slice", 1000, SESSION, False),
        (1001, "/system.slice/slurmd.service", 1000, "/system.slice/slurmd.service/worker", False),
        (1001, STEP, 1000, f"{STEP}/user/task_0", True),
        (1001, ONE, 1000, f"{ONE}/sub", True),
    ],
)
def test_a_process_can_read_only_about_its_own_jobs(
    uid: int, cgroup: str, job_uid: int, job_cgroup: str, seen: bool
) -> None:
    assert may_see(Peer(uid, cgroup), job_uid, job_cgroup) is seen


def in_cgroup(frame: Frame, cgroup: str) -> Frame:
    """The Frame, with all its processes moved to this cgroup."""
    table = frame.snapshot.processes.value
    assert table is not None
    info = {key: one._replace(cgroup=cgroup) for key, one in table.info.items()}
    processes = frame.snapshot.processes._replace(value=table._replace(info=info))
    return frame._replace(snapshot=frame.snapshot._replace(processes=processes))


def test_a_job_with_a_rank_of_another_user_is_not_shown() -> None:
    frame = in_cgroup(play((JOB_STARVED, 40))[-1], SESSION)
    jobs, processes = frame.snapshot.jobs.value, frame.snapshot.processes.value
    assert jobs is not None
    assert processes is not None
    ((top, job),) = jobs.jobs.items()
    rank = job.ranks[0]
    other = ProcessKey(rank.key.pid + 1, rank.key.start_ticks)
    info = {**processes.info, other: processes.info[rank.key]._replace(uid=job.uid + 1)}
    with_other = job._replace(ranks=(rank, rank._replace(key=other)))
    snapshot = frame.snapshot._replace(
        jobs=frame.snapshot.jobs._replace(value=jobs._replace(jobs={top: with_other})),
        processes=frame.snapshot.processes._replace(value=processes._replace(info=info)),
    )
    for uid, number in ((job.uid, 0), (job.uid + 1, 0), (0, 1)):
        shown = json.loads(render_own_verdict_json(frame._replace(snapshot=snapshot), Peer(uid, SESSION)))["jobs"]
        assert len(shown) == number
    assert len(json.loads(render_own_verdict_json(frame, Peer(job.uid, SESSION)))["jobs"]) == 1


def test_the_verdict_is_only_about_the_jobs_of_the_process() -> None:
    frame = in_cgroup(play((JOB_STARVED, 40))[-1], ONE)
    (job,) = json.loads(render_own_verdict_json(frame, Peer(1000, ONE)))["jobs"]
    assert (job["verdict"]["state"], job["verdict"]["class"]) == ("STARVED", "storage_read")
    assert job["verdict"]["lost_ratio"] > 0.2
    assert not KEYS_THAT_MAY_NAME_OTHERS & (job.keys() | job["verdict"].keys())
    assert json.loads(render_own_verdict_json(frame, Peer(1000, TWO)))["jobs"] == []
