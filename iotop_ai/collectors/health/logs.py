"""Finds a disk's self-test log, error log and self-test state in smartctl's JSON. The functions are pure.

Sources: the ATA self-test and summary error logs, the NVMe log pages 01h (errors) and 06h (self-tests; smartctl 7.4 and
newer), and the SCSI log page 10h, all under smartctl's own keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iotop_ai.collectors.health.json_access import get, integer, rows, text
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.clean import clean
from iotop_ai.model.health.smart import RUNNING, ErrorEntry, SelfTest

MOST_TESTS = 21
MOST_ERRORS = 16
"""The most entries of the self-test log (MOST_TESTS) and of the error log (MOST_ERRORS) that are kept."""
NVME_TESTS_SINCE = (7, 4)
"""The first version of smartctl that can start the self-test of an NVMe disk and read its log."""
_ATA_NO_RESULT = (0x1, 0x2, 0xF)
"""Values of the upper four bits of the status that are not results, although smartctl calls all three "passed".

They mean: aborted by the host, interrupted by a reset, and still in progress.
"""
_NVME_NOT_RUNNING = 0
_SCSI_LOG_ENTRIES = 20
"""The number of entries in the self-test log of a SCSI disk."""
_SCSI_RUNNING = 15


class SelfTestFacts(NamedTuple):
    """The self-test state that a disk reports.

    supported: whether the disk has self-tests; None when it is unknown. left_percent: the part of the running test that
    is left; None when no test runs. short_minutes, long_minutes: the disk's estimates of how long the tests take; None
    when unknown.
    """

    supported: bool | None
    left_percent: int | None
    short_minutes: int | None
    long_minutes: int | None


def self_test_facts(answer: object, protocol: str) -> SelfTestFacts:
    """Return the disk's self-test state."""
    data = get(answer, "ata_smart_data")
    left = integer(data, "self_test", "status", "remaining_percent")
    log = get(answer, "nvme_self_test_log")
    completed_percent = integer(log, "current_self_test_completion_percent")
    if (
        left is None
        and completed_percent is not None
        and integer(log, "current_self_test_operation", "value") != _NVME_NOT_RUNNING
    ):
        left = max(0, 100 - completed_percent)
    supported = get(data, "capabilities", "self_tests_supported")
    if protocol == "nvme":
        supported = get(answer, "nvme_optional_admin_commands", "self_test")
        if supported is None and too_old_for_nvme_tests(answer):
            supported = False
    seconds = integer(answer, "scsi_extended_self_test_seconds")
    long_minutes = integer(data, "self_test", "polling_minutes", "extended")
    return SelfTestFacts(
        supported if isinstance(supported, bool) else None,
        left,
        integer(data, "self_test", "polling_minutes", "short"),
        long_minutes if seconds is None else -(-seconds // 60),
    )


def too_old_for_nvme_tests(answer: object) -> bool:
    """Whether this smartctl is so old that it accepts ``-t`` for an NVMe disk, but does nothing and exits with 0."""
    version = get(answer, "smartctl", "version")
    if not isinstance(version, list) or not all(isinstance(part, int) for part in version):
        return False
    return tuple(version) < NVME_TESTS_SINCE


def self_test_log(answer: object, pysmart_values: Mapping[str, Any]) -> tuple[SelfTest, ...]:
    """Return the disk's self-tests, newest first. pysmart_values: pySMART's values, for a smartctl without JSON."""
    tests: list[SelfTest] = []
    for kind in ("extended", "standard"):
        tests = tests or [_ata_test(row) for row in rows(get(answer, "ata_smart_self_test_log", kind, "table"))]
    tests += [_nvme_test(row) for row in rows(get(answer, "nvme_self_test_log", "table"))]
    scsi = (get(answer, f"scsi_self_test_{n}") for n in range(_SCSI_LOG_ENTRIES))
    tests += [_scsi_test(row) for row in scsi if isinstance(row, Mapping)]
    if answer is None:
        tests = [_pysmart_test(row) for row in rows(pysmart_values.get("tests"))]
    return tuple(tests[:MOST_TESTS])


def _ata_test(row: Mapping[str, Any]) -> SelfTest:
    passed = get(row, "status", "passed")
    value = integer(row, "status", "value")
    has_result = isinstance(passed, bool) and not (value is not None and value >> 4 in _ATA_NO_RESULT)
    return SelfTest(
        text(row, "type", "string"),
        text(row, "status", "string"),
        passed if has_result else None,
        integer(row, "lifetime_hours"),
    )


def _nvme_test(row: Mapping[str, Any]) -> SelfTest:
    result = integer(row, "self_test_result", "value")
    # 0 means completed without error. 5 means a fatal error, 6 and 7 mean a failed segment.
    passed = True if result == 0 else False if result in (5, 6, 7) else None
    return SelfTest(
        text(row, "self_test_code", "string"),
        text(row, "self_test_result", "string"),
        passed,
        integer(row, "power_on_hours"),
    )


def _scsi_test(row: Mapping[str, Any]) -> SelfTest:
    result = integer(row, "result", "value")
    # 0 means completed without error. 3 to 7 mean an unknown error or a failed segment.
    passed = True if result == 0 else False if result in (3, 4, 5, 6, 7) else None
    status = RUNNING if result == _SCSI_RUNNING else text(row, "result", "string")
    return SelfTest(text(row, "code", "string"), status, passed, integer(row, "power_on_time", "hours"))


def _pysmart_test(row: Mapping[str, Any]) -> SelfTest:
    status = text(row, "status")
    lowered = status.lower()
    passed = True if lowered == "completed without error" else False if "failure" in lowered else None
    hours = text(row, "hours")
    return SelfTest(text(row, "type"), status, passed, int(hours) if hours.isdecimal() else None)


def error_log(answer: object) -> tuple[ErrorEntry, ...]:
    """Return the errors that the disk has logged, newest first."""
    errors: list[ErrorEntry] = []
    for kind in ("extended", "summary"):
        for row in [] if errors else rows(get(answer, "ata_smart_error_log", kind, "table")):
            description = text(row, "error_description") or "an error without a description"
            errors.append(ErrorEntry(integer(row, "error_number"), integer(row, "lifetime_hours"), description))
    for row in rows(get(answer, "nvme_error_information_log", "table")):
        status = text(row, "status_field", "string") or "no status"
        lba = integer(row, "lba", "value")
        position = "" if lba is None else f" at LBA {lba}"
        errors.append(ErrorEntry(integer(row, "error_count"), None, clean(status + position)))
    return tuple(errors[:MOST_ERRORS])
