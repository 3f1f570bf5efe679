"""The verdict on a span of time: the class that lost most, in a fixed shape of JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from iotop_ai.export.json.diagnosis import KEYS, Diagnosis, render_diagnosis_json
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.time_shares import DATA
from tests.diagnosis.build import COMPUTING, IDLE, JOB_HEALTHY, JOB_PREPARING, JOB_STARVED, Machine, play
from tests.job_times import growing, job_key, not_counted, slow_disk

FINDING_KEYS = [
    "class", "state", "confidence", "severity", "evidence", "ruled_out", "advice", "lost_ratio", "gpu_hours_lost",
]  # fmt: skip


def diagnosis_over(*scenes: tuple[Machine, int]) -> Diagnosis:
    diagnosis = Diagnosis()
    for frame in play(*scenes):
        diagnosis.add(frame)
    return diagnosis


def test_the_json_has_its_documented_shape() -> None:
    found = json.loads(render_diagnosis_json(diagnosis_over((JOB_STARVED, 30))))
    assert tuple(found) == KEYS
    assert (found["verdict"], found["state"], found["severity"]) == ("storage_read", "STARVED", "critical")
    assert found["confidence"] >= 0.8
    assert found["data_stall_ratio"] == pytest.approx(0.78)
    (finding,) = found["findings"]
    assert sorted(finding) == sorted(FINDING_KEYS)
    assert finding["gpu_hours_lost"] > 0
    assert {"metric", "value", "unit", "threshold"} == set(finding["evidence"][0])
    (span,) = found["timeline"]
    assert (span["verdict"], span["state"], span["seconds"]) == ("storage_read", "STARVED", 20.0)
    assert span["time"].endswith("Z")


def test_the_class_that_lost_most_is_the_verdict_on_the_whole() -> None:
    diagnosis = diagnosis_over((JOB_PREPARING, 90), (JOB_STARVED, 30), (JOB_HEALTHY, 300))
    assert diagnosis.primary is not None
    assert diagnosis.primary.class_id == "cpu_prep"
    classes = [span.class_id for span in diagnosis.spans]
    assert [classes[0], classes[-1]] == ["cpu_prep", "healthy"]
    assert "storage_read" in classes
    stalled = diagnosis.data_stall_ratio
    assert stalled is not None
    assert 0.15 < stalled < 0.45


def test_without_a_loss_the_verdict_that_lasted_longest_counts() -> None:
    diagnosis = diagnosis_over((JOB_HEALTHY, 60), (IDLE, 10))
    assert diagnosis.primary is not None
    assert diagnosis.primary.class_id == "healthy"
    assert diagnosis.data_stall_ratio == pytest.approx(0.0, abs=0.02)


def test_findings_from_before_the_first_decision_are_left_out() -> None:
    unclear = replace(JOB_PREPARING, job=replace(COMPUTING, running=0.3, disk=0.3))
    diagnosis = diagnosis_over((unclear, 13), (JOB_STARVED, 40))
    assert [finding.class_id for finding in diagnosis.findings][:1] == ["storage_read"]
    assert "unknown" not in [finding.class_id for finding in diagnosis.findings]
    assert "unknown" in [span.class_id for span in diagnosis.spans]
    assert [finding.class_id for finding in diagnosis_over((unclear, 13)).findings] == ["unknown"]


def test_a_short_time_is_not_judged() -> None:
    diagnosis = diagnosis_over((JOB_STARVED, 5))
    found = diagnosis.as_object()
    assert (found["verdict"], found["state"], found["data_stall_ratio"]) == ("unknown", "UNSURE", None)
    assert found["findings"] == found["timeline"] == []
    assert diagnosis.primary is None


def diagnosis_of(shown: tuple[Frame, ...]) -> Diagnosis:
    diagnosis = Diagnosis()
    for frame in shown:
        diagnosis.add(frame)
    return diagnosis


def test_the_time_of_a_real_job_is_shown() -> None:
    found = diagnosis_of(slow_disk()).as_object()
    (job,) = found["jobs"]
    assert (job["pid"], job["name"]) == (job_key(slow_disk()[-1]).pid, "trainer.py")
    assert sum(job["time"].values()) == pytest.approx(1, abs=1e-4)
    assert 40 < sum(job["time_s"].values()) < 45
    assert job["data_stall_ratio"] == pytest.approx(sum(job["time"][name] for name in DATA), abs=1e-4)
    assert (found["data_stall_ratio"], found["goodput_ratio"]) == pytest.approx(
        (job["data_stall_ratio"], job["goodput_ratio"]), abs=1e-3
    )
    # The trainer's log has 0.683 for the whole run.
    assert found["data_stall_ratio"] == pytest.approx(0.683, abs=0.03)


def test_the_stall_ratio_is_the_sum_of_the_data_shares() -> None:
    found = diagnosis_of(growing(compute=300, data_disk=400, data_network=100, checkpoint=200)).as_object()
    assert (found["data_stall_ratio"], found["goodput_ratio"]) == (0.5, 0.3)
    assert diagnosis_of(slow_disk()).as_object(pid=1)["jobs"] == []


def test_a_recording_without_job_times_has_no_time() -> None:
    found = diagnosis_of(not_counted()).as_object()
    (job,) = found["jobs"]
    assert (job["time"], job["time_s"], job["goodput_ratio"], found["goodput_ratio"]) == (None, None, None, None)
    assert found["data_stall_ratio"] == pytest.approx(0.68, abs=0.03), "the ratio differs from the verdicts' share"
