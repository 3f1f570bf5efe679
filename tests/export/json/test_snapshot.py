from __future__ import annotations

import json

import pytest

from iotop_ai.export.json.snapshot import KEYS, device_objects, render_snapshot_json, rfc3339, snapshot_object
from iotop_ai.model.finding import Finding, Severity
from iotop_ai.model.gpu.state import GpuProcess, GpuState
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import Event
from iotop_ai.pipeline import frames
from tests.export.make import WALL_NS, S, first_frame, frame, ok, pair, snapshot


def test_the_json_has_exactly_the_documented_keys() -> None:
    data = json.loads(render_snapshot_json(frame()))
    assert tuple(data) == KEYS
    assert (data["time"], data["host"], data["interval_s"]) == ("2026-11-21T08:46:06.117Z", "node7", 2.0)


def test_times_are_in_utc_with_milliseconds() -> None:
    assert rfc3339(0) == "1970-01-01T00:00:00.000Z"
    assert rfc3339(1_999_999_999) == "1970-01-01T00:00:01.999Z"


def test_a_device_has_the_figures_of_iostat_and_its_identity() -> None:
    (sda,) = snapshot_object(frame())["devices"]
    assert (sda["name"], sda["rkB/s"], sda["util"], sda["w_await"]) == ("sda", 12800.0, 75.0, None)
    assert (sda["model"], sda["kind"], sda["mounts"], sda["diskseq"]) == ("Spinner 2000", "disk", [], 1)


def test_devices_that_the_user_named_are_always_listed() -> None:
    names = [device["name"] for device in device_objects(frame(), ("loop0", "sda1")) or []]
    assert names == ["sda1", "loop0"]


def test_the_first_reading_has_no_rates() -> None:
    data = snapshot_object(first_frame())
    assert data["interval_s"] is None
    assert {data["devices"][0][key] for key in ("r/s", "util", "r_await", "aqu-sz")} == {None}


def test_parts_that_were_not_read_are_null_and_not_empty() -> None:
    empty = frame().snapshot._replace(block=Reading(), processes=Reading(), gpu=Reading(), disks=Reading())
    data = snapshot_object(next(frames([empty])))
    assert (data["devices"], data["processes"], data["gpus"], data["smart"]) == (None, None, None, [])
    assert data["system"]["readings"]["block"]["status"] == "pending"


def test_processes_have_their_readable_figures_and_no_arguments() -> None:
    reader, other = snapshot_object(frame())["processes"]
    assert (reader["pid"], reader["read_bytes_per_s"], reader["state"]) == (100, 12800.0 * 1024, "D")
    assert reader["command"] == "python3 train.py"
    assert (other["permitted"], other["read_bytes_per_s"]) == (False, None)
    assert "s3cret" not in render_snapshot_json(frame())
    assert "s3cret" in render_snapshot_json(frame(), cmdline="full")


def test_each_disk_without_smart_has_a_reason() -> None:
    (sda,) = snapshot_object(frame())["smart"]
    assert sda == {"name": "sda", "status": "denied", "reason": "smartctl needs root", "remedy": "sudo iotop-ai"}


def test_smart_is_pending_and_later_known() -> None:
    before, after = pair()
    state = SmartState("sda", "ata", "Spinner", "S1", "F1", "FAIL", "critical", ("312 reallocated sectors",), 41)
    known = after._replace(smart=ok({"sda": ok(state, after.at_ns)}, after.at_ns))
    (sda,) = snapshot_object(list(frames((before, known)))[-1])["smart"]
    assert (sda["status"], sda["severity"], sda["temperature_celsius"]) == ("ok", "critical", 41)
    assert sda["reasons"] == ["312 reallocated sectors"]
    waiting = after._replace(smart=Reading(None, Status.PENDING, "asked"))
    (sda,) = snapshot_object(list(frames((before, waiting)))[-1])["smart"]
    assert sda["status"] == "pending"


def test_gpus_have_rates_and_process_names_and_a_lost_gpu_has_a_remedy() -> None:
    before, after = pair()
    state = GpuState(
        "GPU-1", 0, "H100", 22, 14, 80 << 30, 61 << 30, power_mw=188_000, processes=(GpuProcess(100, None, "compute"),)
    )
    lost: Reading[GpuState] = Reading(None, Status.FAILED, "fell off the bus", "reboot", after.at_ns)
    table = {"GPU-1": ok(state, after.at_ns), "GPU-2": lost}
    snapshots = (before, after._replace(gpu=ok(table, after.at_ns)))
    one, two = snapshot_object(list(frames(snapshots))[-1])["gpus"]
    assert (one["busy_ratio"], one["power_watts"], one["name"]) == (0.22, 188.0, "H100")
    (process,) = one["processes"]
    assert (process["pid"], process["memory_bytes"], process["kind"], process["name"]) == (
        100,
        None,
        "compute",
        "python3",
    )
    assert (one["instances"], one["earlier"], one["detail"]) == (None, [], None)
    assert two == {"uuid": "GPU-2", "status": "failed", "reason": "fell off the bus", "remedy": "reboot"}


def test_a_process_on_a_gpu_that_is_not_in_this_container_has_no_name() -> None:
    before, after = pair()
    users = (GpuProcess(100, 1, "compute"), GpuProcess(100, 2, "compute", found=False))
    table = {"GPU-1": ok(GpuState("GPU-1", 0, "H100", processes=users), after.at_ns)}
    (gpu,) = snapshot_object(list(frames((before, after._replace(gpu=ok(table, after.at_ns)))))[-1])["gpus"]
    assert [(one["found"], one["name"]) for one in gpu["processes"]] == [(True, "python3"), (False, None)]


def test_without_a_driver_the_list_of_gpus_is_empty() -> None:
    assert snapshot_object(frame())["gpus"] == []


def test_findings_are_objects_with_a_class_and_a_state() -> None:
    shown = frame()
    failing = Finding("failing_disk", Severity.CRITICAL, 0.95, "sda")
    unknown = Finding("unknown", Severity.INFO, 0.0)
    one_interval = shown._replace(verdict=shown.verdict._replace(findings=(failing, unknown), watched_s=1, needed_s=10))
    findings = snapshot_object(one_interval)["findings"]
    assert snapshot_object(one_interval)["measuring"] is True
    assert [finding["class"] for finding in findings] == ["failing_disk"]
    assert {"class", "state", "confidence", "severity", "evidence"} <= findings[0].keys()
    watched = shown._replace(verdict=shown.verdict._replace(findings=(unknown,), watched_s=10, needed_s=10))
    assert [finding["class"] for finding in snapshot_object(watched)["findings"]] == ["unknown"]
    assert snapshot_object(watched)["measuring"] is False


def test_readings_have_their_status_and_age() -> None:
    before, after = pair()
    old = after._replace(gpu=Reading({}, Status.OK, "", "", after.at_ns - 3 * S, 5_000_000))
    gpu = snapshot_object(list(frames((before, old)))[-1])["system"]["readings"]["gpu"]
    assert gpu == {"status": "ok", "reason": "", "remedy": "", "age_s": 3.0, "took_s": 0.005}


@pytest.mark.parametrize(
    ("level", "text"), [("names", "python train.py"), ("redacted", "python a/train.py --token ***")]
)
def test_the_command_line_of_a_recorded_command_follows_the_level(level: str, text: str) -> None:
    event = Event(S, WALL_NS + S, "command_start", "python a/train.py --token s3cret")
    one = snapshot(1, 2 * S)._replace(events=(event,))
    (shown,) = snapshot_object(next(iter(frames([one]))), cmdline=level)["system"]["events"]
    assert shown["text"] == text
