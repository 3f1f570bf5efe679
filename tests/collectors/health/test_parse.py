"""The answers of smartctl become records and judgements: saved real outputs, and dumps of SATA disks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.health.parse import Scan, parse_json, parse_scan, parse_state, refusal
from iotop_ai.model.health.rules import with_verdict
from iotop_ai.model.health.smart import SmartAttribute, SmartState
from iotop_ai.model.reading import Status
from tests.examples import quick_or
from tests.rigs.smart import sata_json, why_no_smartctl

DATA = Path(__file__).parents[2] / "data/smart"
NO_SMARTCTL = why_no_smartctl()
needs_smartctl = pytest.mark.skipif(bool(NO_SMARTCTL), reason=NO_SMARTCTL or "there")


def answer(name: str) -> dict[str, Any]:
    answered = parse_json((DATA / name).read_text())
    assert answered is not None
    return answered


def test_a_healthy_nvme_is_parsed() -> None:
    answered = answer("shim_nvme_a.json")
    assert refusal(answered) is None
    assert parse_state(answered, None, "/dev/nvme8", "nvme") == SmartState(
        device="/dev/nvme8",
        protocol="nvme",
        model="SAMSUNG MZQL21T9HCJR-00A07",
        serial="S64GNE0T512345",
        firmware="GDC5602Q",
        assessment="PASS",
        severity="ok",
        reasons=(),
        temperature_celsius=41,
        power_on_hours=8123,
        critical_warning=0,
        available_spare_percent=100,
        spare_threshold_percent=10,
        used_percent=3,
        media_errors=0,
        error_log_entries=0,
        unsafe_shutdowns=12,
        warning_temperature_minutes=0,
        written_bytes=98765432 * 512000,
        read_bytes=123456789 * 512000,
        exit_status=0,
        device_type="nvme",
        power_cycles=21,
        critical_temperature_minutes=0,
        self_tests=False,  # the smartctl of this answer, 7.3, cannot start a self-test of an NVMe
    )


def test_counters_of_128_bits_that_do_not_fit_into_64_are_unknown() -> None:
    """The log of a failing controller may be all ones."""
    log = dict.fromkeys(("media_errors", "unsafe_shutdowns", "data_units_read"), 2**128 - 1)
    log |= {"num_err_log_entries": 2**64 - 1, "data_units_written": 2**64 // 512_000}
    state = parse_state({"nvme_smart_health_information_log": log}, None, "/dev/nvme0", "nvme")
    assert (state.media_errors, state.unsafe_shutdowns, state.read_bytes) == (None, None, None)
    assert (state.error_log_entries, state.written_bytes) == (2**64 - 1, 2**64 // 512_000 * 512_000)
    log["data_units_written"] += 1
    state = parse_state({"nvme_smart_health_information_log": log}, None, "/dev/nvme0", "nvme")
    assert state.written_bytes is None


@pytest.mark.parametrize(
    ("part", "wwn"),
    [
        ({"wwn": {"naa": 5, "oui": 3152, "id": 2834678415}}, "5000c500a8f5c28f"),
        ({"logical_unit_id": "0x5000c500a8f5c28f"}, "5000c500a8f5c28f"),
        ({"wwn": {"naa": 5, "oui": 3152}}, ""),
        ({"wwn": 5, "logical_unit_id": 7}, ""),
    ],
)
def test_the_world_wide_name_is_parsed(part: dict[str, Any], wwn: str) -> None:
    assert parse_state({"model_name": "M", **part}, None, "/dev/sda", "sat").wwn == wwn


def test_critical_warning_bits_are_named() -> None:
    state = parse_state(answer("qemu_nvme0_critical_0x0d.json"), None, "/dev/nvme0", "nvme")
    assert (state.assessment, state.severity, state.exit_status) == ("FAIL", "critical", 8)
    assert state.reasons == (
        "the disk itself says that it is failing",
        "spare blocks are below the threshold",
        "reliability is degraded",
        "the medium is read-only",
    )


def test_a_failing_sata_disk_has_rows_without_a_threshold() -> None:
    state = parse_state(answer("sata_failing_attr5.json"), None, "/dev/sda", "sat")
    assert (state.protocol, state.assessment, state.severity) == ("ata", "PASS", "critical")
    assert (state.reallocated, state.pending, state.uncorrectable, state.crc_errors) == (1800, 24, 24, None)
    assert state.temperature_celsius == 58
    assert state.reasons == (
        "Reallocated_Sector_Ct is failing now (10, limit 36)",
        "1,800 reallocated sectors",
        "24 pending sectors",
        "24 uncorrectable sectors",
        "58 °C, too warm at 51 °C or above",
    )
    rows = {row.id: row for row in state.attributes}
    assert rows[5] == SmartAttribute(5, "Reallocated_Sector_Ct", 10, 10, 36, 1800, "1800", "now", True)
    assert rows[197] == SmartAttribute(197, "Current_Pending_Sector", 100, 100, None, 24, "24", "", False)
    assert rows[190].raw_text == "31 (Min/Max 31/31)"


def test_a_scsi_disk_without_smart_and_a_virtio_disk_are_unsupported() -> None:
    for name, reason in (
        ("qemu_sdb.json", "this device has no SMART"),
        ("qemu_vda.json", "/dev/vda: Unable to detect device type"),
    ):
        why = refusal(answer(name))
        assert why is not None
        assert (why.status, why.reason) == (Status.UNSUPPORTED, reason)


@pytest.mark.parametrize(
    ("more", "limit"),
    [
        ({"temperature": {"current": 62, "drive_trip": 60}}, 60),
        ({"temperature": {"current": 62}, "scsi_temperature": {"drive_trip": 65}}, 65),
        ({"temperature": {"current": 62, "drive_trip": 0}}, None),
        ({"temperature": {"current": 62}}, None),
    ],
)
def test_a_scsi_disks_trip_temperature_is_its_critical_limit(more: dict[str, Any], limit: int | None) -> None:
    sas = {"smartctl": {"exit_status": 0}, "device": {"name": "/dev/sda", "protocol": "SCSI"}, **more}
    state = parse_state(sas, None, "/dev/sda", "scsi")
    assert (state.temperature_celsius, state.critical_celsius) == (62, limit)


@pytest.mark.parametrize(
    ("exit_status", "message", "status"),
    [
        (3, "Device is in STANDBY mode, exit(3)", Status.ASLEEP),
        (2, "Smartctl open device: /dev/nvme0 failed: Permission denied", Status.DENIED),
        (2, "Read NVMe Identify Controller failed: NVME_IOCTL_ADMIN_CMD: Permission denied", Status.DENIED),
        (2, "Smartctl open device: /dev/sda failed: No such device", Status.ABSENT),
        (2, "Read NVMe Identify Controller failed: NVME_IOCTL_ADMIN_CMD: Input/output error", Status.FAILED),
        (1, "/dev/sdb: Unknown USB bridge [0x1234:0x5678 (0x100)]", Status.UNSUPPORTED),
    ],
)
def test_each_refusal_has_its_reason(exit_status: int, message: str, status: Status) -> None:
    why = refusal({"smartctl": {"exit_status": exit_status, "messages": [{"string": message, "severity": "error"}]}})
    assert why is not None
    assert why.status is status


@pytest.mark.parametrize("exit_status", [4, 8, 24, 32, 64, 128])
def test_problems_in_the_exit_status_are_not_refusals(exit_status: int) -> None:
    assert refusal({"smartctl": {"exit_status": exit_status}}) is None


def test_smart_switched_off_has_a_remedy() -> None:
    why = refusal({"device": {"name": "/dev/sda"}, "smart_support": {"available": True, "enabled": False}})
    assert why is not None
    assert (why.status, why.remedy) == (Status.OFF, "smartctl -s on /dev/sda")


def test_a_disk_without_health_data_is_unknown_and_not_ok() -> None:
    state = parse_state({"device": {"protocol": "SCSI"}, "scsi_model_name": "X"}, None, "/dev/sdb", "scsi")
    assert (state.assessment, state.severity, state.reasons) == (None, "unknown", ())


def test_pysmart_gives_the_facts_that_the_json_lacks() -> None:
    pysmart_values = {"model": "rounded", "serial": "SN", "assessment": "WARN", "temperature": 40, "messages": ["m"]}
    answered = {"model_name": "exact", "temperature": {"current": 41}}
    state = parse_state(answered, pysmart_values, "/dev/sda", "sat")
    assert (state.model, state.serial, state.temperature_celsius) == ("exact", "SN", 41)
    assert (state.assessment, state.severity, state.messages) == ("WARN", "warning", ("m",))


def test_an_old_smartctl_without_json_is_read_by_pysmart_alone() -> None:
    row = {"id": 5, "name": "Reallocated_Sector_Ct", "value": 90, "worst": 90, "thresh": 36, "raw": "312 (1 2)"}
    row |= {"when_failed": "-", "type": "Pre-fail"}
    state = parse_state(None, {"model": "M", "assessment": "PASS", "attributes": [row]}, "/dev/sda", "sat")
    assert (state.reallocated, state.severity, state.reasons) == (312, "critical", ("312 reallocated sectors",))
    with pytest.raises(Unavailable):
        parse_state(None, {"model": None, "assessment": None}, "/dev/sda", "sat")


def test_the_limits_of_an_nvme_come_from_json_or_from_the_text() -> None:
    text = "Warning  Comp. Temp. Threshold:     70 Celsius\nCritical Comp. Temp. Threshold:     80 Celsius\n"
    answered = {"temperature": {"current": 71}, "smart_status": {"passed": True}}
    state = parse_state(answered, {"text": text}, "/dev/nvme0", "nvme")
    assert (state.warning_celsius, state.critical_celsius, state.severity) == (70, 80, "warning")
    answered |= {"nvme_composite_temperature_threshold": {"warning": 60, "critical": 71}}
    assert parse_state(answered, {"text": text}, "/dev/nvme0", "nvme").severity == "critical"


@pytest.mark.parametrize(
    ("change", "severity", "reason"),
    [
        ({"reallocated": 1}, "warning", "1 reallocated sector"),
        ({"reallocated": 299}, "warning", "299 reallocated sectors"),
        ({"reallocated": 300}, "critical", "300 reallocated sectors"),
        ({"pending": 8}, "warning", "8 pending sectors"),
        ({"uncorrectable": 2}, "warning", "2 uncorrectable sectors"),
        ({"reported_uncorrectable": 3}, "warning", "3 reported uncorrectable errors"),
        ({"command_timeouts": 4}, "warning", "4 command timeouts"),
        ({"crc_errors": 512}, "ok", "512 CRC errors so far: cable or backplane, not the disk"),
        (
            {"available_spare_percent": 15, "spare_threshold_percent": 10},
            "warning",
            "15 % spare blocks left, limit 10 %",
        ),
        ({"used_percent": 90}, "warning", "90 % of its rated life used"),
        ({"used_percent": 100}, "critical", "100 % of its rated life used"),
        ({"media_errors": 1}, "warning", "1 media error"),
        ({"critical_warning": 0x40}, "critical", "critical warning 0x40"),
        ({"temperature_celsius": 51, "rotation_rpm": 7200}, "warning", "51 °C, too warm at 51 °C or above"),
        ({"temperature_celsius": 61, "rotation_rpm": 7200}, "critical", "61 °C, critical at 61 °C or above"),
        ({"temperature_celsius": 80, "rotation_rpm": 0}, "warning", "80 °C, too warm at 80 °C or above"),
    ],
)
def test_each_rule_has_its_sentence(change: dict[str, Any], severity: str, reason: str) -> None:
    state = with_verdict(SmartState("/dev/sda", "ata", "M", "S", "F", "PASS", "unknown", ())._replace(**change))
    assert (state.severity, state.reasons) == (severity, (reason,))


@pytest.mark.parametrize(
    "change",
    [
        {"available_spare_percent": 16, "spare_threshold_percent": 10},
        {"available_spare_percent": 0, "spare_threshold_percent": 0},
        {"used_percent": 89},
        {"temperature_celsius": 50, "rotation_rpm": 7200},
        {"temperature_celsius": 79, "rotation_rpm": 0},
        {"temperature_celsius": 99},
        {"error_log_entries": 1000},
        {"reallocated": 0, "pending": 0},
    ],
)
def test_values_just_below_a_limit_are_ok(change: dict[str, Any]) -> None:
    state = with_verdict(SmartState("/dev/sda", "ata", "M", "S", "F", "PASS", "unknown", ())._replace(**change))
    assert (state.severity, state.reasons) == ("ok", ())


def test_a_scan_leaves_out_entries_of_other_kinds() -> None:
    answered = {"devices": [{"name": "/dev/sda", "type": "sat"}, {"name": 7}, "# scan_smart_devices: glob(3) aborted"]}
    assert parse_scan(answered) == Scan((("/dev/sda", "sat"),))
    assert parse_scan(None) == Scan()


@pytest.mark.parametrize(
    ("error", "controller"),
    [
        ("DELL or MegaRaid controller, please try adding '-d megaraid,N'", "megaraid"),
        ("AMCC/3ware controller, please try adding '-d 3ware,N',\nyou may need to replace /dev/sda", "3ware"),
        ("requires option '-d cciss,N'", "cciss"),
        ("Permission denied", ""),
        (7, ""),
    ],
)
def test_a_scan_recognises_a_volume_by_the_error_of_its_open(error: object, controller: str) -> None:
    scan = parse_scan({"devices": [{"name": "/dev/sda", "type": "scsi", "open_error": error}]})
    assert scan == Scan((("/dev/sda", "scsi"),), (("/dev/sda", controller),) if controller else ())


@needs_smartctl
def test_dumps_of_sata_disks_are_read_through_the_real_smartctl() -> None:
    dump = (DATA / "sata_debug.txt").read_text()
    healthy = parse_state(sata_json(dump, {}), None, "/dev/sda", "sat")
    assert (healthy.model, healthy.assessment, healthy.severity) == ("QEMU HARDDISK", "PASS", "ok")
    worn = parse_state(sata_json(dump, {197: (100, 8), 199: (200, 40)}), None, "/dev/sda", "sat")
    assert (worn.pending, worn.crc_errors, worn.severity) == (8, 40, "warning")
    assert worn.reasons[0] == "8 pending sectors"
    answered = sata_json(dump, {5: (10, 312)}, failing=True)
    assert refusal(answered) is None
    failing = parse_state(answered, None, "/dev/sda", "sat")
    assert (failing.assessment, failing.severity, failing.reallocated) == ("FAIL", "critical", 312)
    assert failing.exit_status is not None
    assert failing.exit_status & 8


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = [
    "smartctl",
    "device",
    "model_name",
    "serial_number",
    "smart_status",
    "ata_smart_attributes",
    "temperature",
    "rotation_rate",
    "nvme_smart_health_information_log",
    "smart_support",
    "power_on_time",
    "scsi_error_counter_log",
    "endurance_used",
]


@settings(max_examples=quick_or(15))
@given(st.dictionaries(st.sampled_from(KEYS), json_values), st.sampled_from(KEYS), json_values)
def test_an_answer_of_any_shape_is_parsed_without_an_error(answered: dict[str, Any], key: str, inner: Any) -> None:
    known = json.loads((DATA / "sata_failing_attr5.json").read_text())
    for case in (answered, {**known, key: inner}):
        refusal(case)
        state = parse_state(case, None, "/dev/sda", "sat")
        assert all(text.isprintable() for text in (state.model, state.serial, *state.reasons, *state.messages))


def _row(number: int, name: str, raw: int, text: str) -> dict[str, Any]:
    return {"id": number, "name": name, "value": 100, "worst": 100, "thresh": 5, "raw": {"value": raw, "string": text}}


def _ata(*rows: dict[str, Any], model: str = "M") -> SmartState:
    answered = {"device": {"protocol": "ATA"}, "model_name": model, "smart_status": {"passed": True}}
    return parse_state({**answered, "ata_smart_attributes": {"table": list(rows)}}, None, "/dev/sda", "sat")


def test_vendor_data_in_the_upper_bits_of_a_count_is_left_out() -> None:
    state = _ata(_row(5, "Reallocated_Sector_Ct", 2000 << 32, "0 (2000 0)"))
    assert (state.reallocated, state.severity, state.reasons) == (0, "ok", ())
    state = _ata(_row(5, "Reallocated_Sector_Ct", 2000 << 32 | 7, "7 (2000 0)"))
    assert (state.reallocated, state.reasons) == (7, ("7 reallocated sectors",))
    state = _ata(_row(198, "Uncorrectable_Sector_Ct", 3 << 32 | 90, "3/90"))
    assert state.uncorrectable == 3
    # A raw value that is printed in hexadecimal does not begin with a count.
    assert _ata(_row(5, "Reallocated_Sector_Ct", 9, "0x000000000009")).reallocated == 9


def test_only_the_lowest_word_of_command_timeouts_counts_in_json_and_text() -> None:
    assert _ata(_row(188, "Command_Timeout", (1 << 32) + (1 << 16) + 5, "1 1 5")).command_timeouts == 5
    row = {"id": 188, "name": "Command_Timeout", "value": 100, "worst": 100, "thresh": 0, "raw": "1 1 5"}
    state = parse_state(None, {"model": "M", "assessment": "PASS", "attributes": [row]}, "/dev/sda", "sat")
    assert state.command_timeouts == 5


@pytest.mark.parametrize(
    ("number", "name", "model"),
    [
        (197, "Bogus_Current_Pend_Sect", "CT1000MX500SSD1"),
        (197, "Current_Pending_ECC_Cnt", "CT1000MX500SSD1"),
        (197, "Total_Unc_Read_Failures", "M"),
        (197, "Not_In_Use", "M"),
        (198, "Host_Reads_GiB", "M"),
        (199, "Host_Writes_GiB", "M"),
        (199, "Write_Sectors_Tot_Ct", "M"),
        (187, "Unknown_JMF_Attribute", "M"),
        (5, "Unknown_SSD_Attribute", "M"),
    ],
)
def test_an_attribute_with_another_meaning_is_not_judged(number: int, name: str, model: str) -> None:
    state = _ata(_row(number, name, 4711, "4711"), model=model)
    assert (state.severity, state.reasons) == ("ok", ())


@pytest.mark.parametrize(
    ("number", "name", "reason"),
    [
        (197, "Current_Pending_ECC_Cnt", "4 pending sectors"),
        (197, "Pending_Sector_Count", "4 pending sectors"),
        (198, "Uncor_Read_Error_Ct", "4 uncorrectable sectors"),
        (198, "Offline_Uncorrectable", "4 uncorrectable sectors"),
        (187, "Uncorrectable_Error_Cnt", "4 reported uncorrectable errors"),
        (187, "Reported_UE_Counts", "4 reported uncorrectable errors"),
        (5, "Retired_Block_Count", "4 reallocated sectors"),
        (5, "Reallocate_NAND_Blk_Cnt", "4 reallocated sectors"),
        (5, "New_Bad_Blk_Cnt", "4 reallocated sectors"),
        (199, "SATA_CRC_Error", "4 CRC errors so far: cable or backplane, not the disk"),
    ],
)
def test_other_names_of_the_same_count_are_judged(number: int, name: str, reason: str) -> None:
    assert _ata(_row(number, name, 4, "4")).reasons == (reason,)


@pytest.mark.parametrize(
    ("text", "hours"),
    [("12345h+12m", 12345), ("12345h+12m+07.250s", 12345), ("12345 (7 0 0)", 12345), ("0x3039", None)],
)
def test_hours_are_parsed_in_each_form(text: str, hours: int | None) -> None:
    row = {"id": 9, "name": "Power_On_Hours", "value": 90, "worst": 90, "thresh": 0, "raw": text}
    state = parse_state(None, {"model": "M", "assessment": "PASS", "attributes": [row]}, "/dev/sda", "sat")
    assert state.power_on_hours == hours


@needs_smartctl
def test_upper_bits_are_left_out_through_the_real_smartctl() -> None:
    answered = sata_json((DATA / "sata_debug.txt").read_text(), {5: (100, 2000 << 32), 188: (100, (1 << 32) + 5)})
    state = parse_state(answered, None, "/dev/sda", "sat")
    assert (state.reallocated, state.command_timeouts, state.severity) == (0, 5, "warning")
