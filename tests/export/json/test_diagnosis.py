"""The verdict over a stretch of time: the class that lost most, in a fixed shape."""

from __future__ import annotations

import json

import pytest

from iotop_ai.export.json.diagnosis import KEYS, Diagnosis, render_diagnosis_json
from tests.diagnosis.build import IDLE, JOB_HEALTHY, JOB_PREPARING, JOB_STARVED, Machine, play

FINDING_KEYS = [
    "class", "state", "confidence", "severity", "evidence", "ruled_out", "advice", "lost_ratio", "gpu_hours_lost",
]  # fmt: skip


def over(*scenes: tuple[Machine, int]) -> Diagnosis:
    diagnosis = Diagnosis()
    for frame in play(*scenes):
        diagnosis.add(frame)
    return diagnosis


def test_the_shape() -> None:
    found = json.loads(render_diagnosis_json(over((JOB_STARVED, 30))))
    assert tuple(found) == KEYS
    assert (found["verdict"], found["state"], found["severity"]) == ("storage_read", "STARVED", "critical")
    assert found["confidence"] >= 0.8
    assert found["data_stall_ratio"] == pytest.approx(0.78)
    (finding,) = found["findings"]
    assert sorted(finding) == sorted(FINDING_KEYS)
    assert finding["gpu_hours_lost"] > 0
    assert {"metric", "value", "unit", "threshold"} == set(finding["evidence"][0])
    (stood,) = found["timeline"]
    assert (stood["verdict"], stood["state"], stood["seconds"]) == ("storage_read", "STARVED", 20.0)
    assert stood["time"].endswith("Z")


def test_the_class_that_lost_most_is_the_verdict_of_the_whole() -> None:
    diagnosis = over((JOB_PREPARING, 90), (JOB_STARVED, 30), (JOB_HEALTHY, 300))
    assert diagnosis.primary is not None
    assert diagnosis.primary.class_id == "cpu_prep"
    classes = [stretch.class_id for stretch in diagnosis.stretches]
    assert [classes[0], classes[-1]] == ["cpu_prep", "healthy"]
    assert "storage_read" in classes
    stalled = diagnosis.data_stall_ratio
    assert stalled is not None
    assert 0.15 < stalled < 0.45


def test_where_nothing_is_lost_it_is_what_stood_longest() -> None:
    diagnosis = over((JOB_HEALTHY, 60), (IDLE, 10))
    assert diagnosis.primary is not None
    assert diagnosis.primary.class_id == "healthy"
    assert diagnosis.data_stall_ratio == pytest.approx(0.0, abs=0.02)


def test_too_short_to_judge() -> None:
    diagnosis = over((JOB_STARVED, 5))
    found = diagnosis.as_object()
    assert (found["verdict"], found["state"], found["data_stall_ratio"]) == ("unknown", "UNSURE", None)
    assert found["findings"] == found["timeline"] == []
    assert diagnosis.primary is None
