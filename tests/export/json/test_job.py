"""Where the time of a job goes, as JSON: a real trainer on a slow disk, and a recording without job times."""

from __future__ import annotations

import json

import pytest

from iotop_ai.export.json.job import job_objects
from iotop_ai.export.json.snapshot import render_snapshot_json, snapshot_object
from iotop_ai.model.job.time_shares import DATA, SHARES
from iotop_ai.model.reading import Reading
from iotop_ai.pipeline import frames
from tests.diagnosis.build import JOB_STARVED, play
from tests.export.make import pair
from tests.job_times import growing, job_key, not_counted, slow_disk


def test_the_shares_of_an_interval_add_up_to_one() -> None:
    frame = slow_disk()[-1]
    (job,) = json.loads(render_snapshot_json(frame))["jobs"]
    assert (job["pid"], job["name"], job["workers"], len(job["gpus"])) == (job_key(frame).pid, "trainer.py", 0, 1)
    assert tuple(job["time"]) == SHARES
    assert sum(job["time"].values()) == pytest.approx(1)
    assert job["data_stall_ratio"] == pytest.approx(sum(job["time"][name] for name in DATA))
    assert job["goodput_ratio"] == job["time"]["compute"]


def test_the_seconds_since_the_start_grow() -> None:
    early, late = (snapshot_object(slow_disk()[at])["jobs"][0]["time_s"] for at in (10, -1))
    assert tuple(early) == SHARES
    assert all(early[name] <= late[name] for name in SHARES)
    assert sum(late.values()) - sum(early.values()) == pytest.approx(34, abs=1)
    assert late["data_disk"] > late["compute"] > 5


def test_the_shares_are_those_of_the_interval() -> None:
    (job,) = snapshot_object(growing(compute=250, data_disk=500, data_cpu=100, unexplained=150)[-1])["jobs"]
    assert (job["data_stall_ratio"], job["goodput_ratio"]) == (0.6, 0.25)
    assert {name: share for name, share in job["time"].items() if share} == {
        "compute": 0.25, "data_disk": 0.5, "data_cpu": 0.1, "unexplained": 0.15,
    }  # fmt: skip
    assert job["time_s"]["data_disk"] == 22.0


def test_without_job_times_the_stall_ratio_comes_from_samples_of_a_job_with_workers() -> None:
    (job,) = snapshot_object(not_counted()[-1])["jobs"]
    assert (job["time"], job["time_s"], job["goodput_ratio"]) == (None, None, None)
    assert job["data_stall_ratio"] is None, "a stall was given for a job without workers"
    (job,) = snapshot_object(play((JOB_STARVED, 12))[-1])["jobs"]
    assert (job["data_stall_ratio"], job["time"]) == (0.8, None)


def test_without_a_job_the_list_is_empty_and_not_unknown() -> None:
    snapshot = slow_disk()[-1].snapshot
    table = snapshot.jobs.value
    assert table is not None
    none = snapshot._replace(jobs=snapshot.jobs._replace(value=table._replace(jobs={}, times={})))
    assert job_objects(next(iter(frames([none])))) == []
    assert job_objects(next(iter(frames([snapshot._replace(jobs=Reading())])))) is None
    assert snapshot_object(next(iter(frames(pair()))))["jobs"] is None
