"""Self-test and error logs of ATA, NVMe (by smartctl 7.4 and newer) and SCSI disks."""

from __future__ import annotations

from typing import Any

import pytest

from iotop_ai.collectors.health.logs import (
    MOST_ERRORS,
    MOST_TESTS,
    error_log,
    self_test_facts,
    self_test_log,
    too_old_for_nvme_tests,
)
from iotop_ai.model.health.smart import RUNNING, ErrorEntry, SelfTest

NVME: dict[str, Any] = {
    "smartctl": {"version": [7, 4]},
    "nvme_optional_admin_commands": {"self_test": True},
    "nvme_self_test_log": {
        "current_self_test_operation": {"value": 1, "string": "Short self-test in progress"},
        "current_self_test_completion_percent": 35,
        "table": [
            {
                "self_test_code": {"value": 2, "string": "Extended"},
                "self_test_result": {"value": 7, "string": "Completed: failed segments"},
                "power_on_hours": 812,
            },
            {
                "self_test_code": {"value": 1, "string": "Short"},
                "self_test_result": {"value": 1, "string": "Aborted: Self-test command"},
                "power_on_hours": 811,
            },
            {
                "self_test_code": {"value": 1, "string": "Short"},
                "self_test_result": {"value": 0, "string": "Completed without error"},
                "power_on_hours": 800,
            },
        ],
    },
    "nvme_error_information_log": {
        "size": 63,
        "table": [
            {
                "error_count": 37,
                "status_field": {"value": 641, "string": "Unrecovered Read Error"},
                "lba": {"value": 4096},
                "nsid": 1,
            },
            {"error_count": 36, "status_field": {"string": "Invalid Field in Command"}},
        ],
    },
}


def test_an_nvme_with_a_running_test_is_parsed() -> None:
    facts = self_test_facts(NVME, "nvme")
    assert (facts.supported, facts.left_percent) == (True, 65)
    assert self_test_log(NVME, {}) == (
        SelfTest("Extended", "Completed: failed segments", False, 812),
        SelfTest("Short", "Aborted: Self-test command", None, 811),
        SelfTest("Short", "Completed without error", True, 800),
    )
    assert error_log(NVME) == (
        ErrorEntry(37, None, "Unrecovered Read Error at LBA 4096"),
        ErrorEntry(36, None, "Invalid Field in Command"),
    )


def test_an_nvme_without_a_running_test_is_parsed() -> None:
    log = {"current_self_test_operation": {"value": 0}, "current_self_test_completion_percent": 0}
    assert self_test_facts({"nvme_self_test_log": log}, "nvme").left_percent is None


def test_an_ata_disk_is_parsed() -> None:
    answer = {
        "ata_smart_data": {
            "self_test": {
                "status": {"value": 249, "string": "in progress", "remaining_percent": 90},
                "polling_minutes": {"short": 2, "extended": 460},
            },
            "capabilities": {"self_tests_supported": True},
        },
        "ata_smart_self_test_log": {
            "standard": {
                "table": [
                    {
                        "type": {"value": 1, "string": "Short offline"},
                        "status": {"value": 249, "string": "Self-test routine in progress", "passed": True},
                        "lifetime_hours": 813,
                    },
                    {
                        "type": {"value": 2, "string": "Extended offline"},
                        "status": {"value": 121, "string": "Completed: read failure", "passed": False},
                        "lifetime_hours": 812,
                    },
                    {
                        "type": {"value": 1, "string": "Short offline"},
                        "status": {"value": 24, "string": "Aborted by host", "passed": True},
                        "lifetime_hours": 810,
                    },
                ]
            }
        },
        "ata_smart_error_log": {
            "summary": {
                "table": [{"error_number": 12, "lifetime_hours": 811, "error_description": "Error: UNC at LBA = 1"}]
            }
        },
    }
    assert self_test_facts(answer, "ata") == (True, 90, 2, 460)
    assert self_test_log(answer, {}) == (
        SelfTest("Short offline", "Self-test routine in progress", None, 813),
        SelfTest("Extended offline", "Completed: read failure", False, 812),
        SelfTest("Short offline", "Aborted by host", None, 810),
    )
    assert error_log(answer) == (ErrorEntry(12, 811, "Error: UNC at LBA = 1"),)


def test_a_scsi_disk_is_parsed() -> None:
    answer = {
        "scsi_self_test_0": {
            "code": {"value": 2, "string": "Background long"},
            "result": {"value": 0, "string": "Completed"},
            "power_on_time": {"hours": 77},
        },
        "scsi_self_test_1": {
            "code": {"string": "Background short"},
            "result": {"value": 5, "string": "Failed in segment"},
        },
        "scsi_extended_self_test_seconds": 3601,
    }
    running = {"code": {"string": "Background short"}, "result": {"value": 15, "string": "Self test in progress ..."}}
    (first, *_) = self_test_log({**answer, "scsi_self_test_0": running}, {})
    assert first == SelfTest("Background short", RUNNING, None, None)
    assert self_test_facts(answer, "scsi") == (None, None, None, 61)
    assert self_test_log(answer, {}) == (
        SelfTest("Background long", "Completed", True, 77),
        SelfTest("Background short", "Failed in segment", False, None),
    )


def test_without_json_the_log_is_read_by_pysmart() -> None:
    rows = [
        {"type": "Short offline", "status": "Completed without error", "hours": "12"},
        {"type": "Extended offline", "status": "Completed: read failure", "hours": "-"},
        {"type": "Short offline", "status": "Aborted by host", "hours": "3"},
    ]
    assert [(test.passed, test.hours) for test in self_test_log(None, {"tests": rows})] == [
        (True, 12),
        (False, None),
        (None, 3),
    ]
    assert self_test_log({}, {"tests": rows}) == ()


def test_long_logs_are_cut() -> None:
    tests = {"ata_smart_self_test_log": {"standard": {"table": [{}] * 100}}}
    errors = {"nvme_error_information_log": {"table": [{}] * 100}}
    assert len(self_test_log(tests, {})) == MOST_TESTS
    assert len(error_log(errors)) == MOST_ERRORS


@pytest.mark.parametrize(
    ("version", "old"), [([7, 3], True), ([7, 4], False), ([8, 0], False), (["7", 3], False), (None, False)]
)
def test_only_some_smartctl_versions_have_nvme_self_tests(version: object, old: bool) -> None:
    assert too_old_for_nvme_tests({"smartctl": {"version": version}}) is old
