"""A disk's health as smartctl reports it. Unknown is "not available", never "healthy"."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple


class SmartAttribute(NamedTuple):
    """One ATA attribute. threshold/value/worst: None where the row lacks it. failed: "", "now", "past"."""

    id: int
    name: str
    value: int | None
    worst: int | None
    threshold: int | None
    raw: int | None
    raw_text: str
    failed: str = ""
    prefail: bool = False


class SelfTest(NamedTuple):
    """One entry of a disk's self-test log, in the disk's words. passed None: aborted, or still running.

    kind: "Short offline", "Extended", ... hours: power-on hours when it ended.
    """

    kind: str
    status: str
    passed: bool | None = None
    hours: int | None = None


class ErrorEntry(NamedTuple):
    """One entry of a disk's error log. number: the disk's own count; hours: power-on hours, None if not reported."""

    number: int | None
    hours: int | None
    text: str


class HealthPoint(NamedTuple):
    """Earlier figures, for judging growth. wall_s: Unix seconds."""

    wall_s: int
    power_on_hours: int | None = None
    temperature_celsius: int | None = None
    used_percent: int | None = None
    available_spare_percent: int | None = None
    reallocated: int | None = None
    reported_uncorrectable: int | None = None
    command_timeouts: int | None = None
    pending: int | None = None
    uncorrectable: int | None = None
    crc_errors: int | None = None
    media_errors: int | None = None
    warning_temperature_minutes: int | None = None
    critical_temperature_minutes: int | None = None
    error_log_entries: int | None = None


class PastPoint(NamedTuple):
    """Temperature and wear at an earlier time, for curves. wall_s: Unix seconds."""

    wall_s: int
    temperature_celsius: int | None = None
    used_percent: int | None = None


class Judgement(NamedTuple):
    """The result of one rule of model/health/rules.py for a disk. severity: note, warning or critical."""

    rule: str
    severity: str
    text: str


class SmartState(NamedTuple):
    """One disk's answer.

    assessment: "PASS", "WARN", "FAIL" (pySMART's words), None when not reported. protocol: ata, nvme, scsi. NVMe
    figures are None for others; bytes are exact (data units x 512,000). severity: ok, warning, critical, or unknown
    when there is nothing to judge; reasons: clauses with their number ("312 reallocated sectors"), the worst first. A
    state that is ok may have a reason: it explains, it does not warn.

    reallocated, reported_uncorrectable, command_timeouts, pending, uncorrectable, crc_errors: the counts of ATA
    attributes 5, 187, 188 (low 16 bits), 197, 198, 199 (model/health/attributes.py: count_of), None where the vendor
    counts something else under the number; for SCSI, reallocated is the grown defect list and uncorrectable the total
    of its error counters. device_type: the argument of ``-d``. warning_celsius, critical_celsius: the disk's own
    limits. self_test_left_percent: of a running self-test; None when none runs. exit_status: smartctl's bit mask.
    judgements: those behind ``reasons``, with rule and severity, in the same order.

    read_wall_s: time of the query, Unix seconds; earlier: the known reading nearest to 24 h before that; past:
    temperature and wear over all known time, oldest first, this reading last. history_note: why an earlier reading is
    missing, "" otherwise. self_tests: whether the disk runs self-tests, None when not reported; test_short_minutes,
    test_long_minutes: the disk's estimates of their duration. self_test_log, error_log: newest first. io_errors,
    io_timeouts: requests that failed or timed out since boot, by the kernel's count.
    """

    device: str
    protocol: str
    model: str
    serial: str
    firmware: str
    assessment: str | None
    severity: str
    reasons: tuple[str, ...]
    temperature_celsius: int | None = None
    power_on_hours: int | None = None
    attributes: tuple[SmartAttribute, ...] = ()
    reallocated: int | None = None
    pending: int | None = None
    uncorrectable: int | None = None
    crc_errors: int | None = None
    critical_warning: int | None = None
    available_spare_percent: int | None = None
    spare_threshold_percent: int | None = None
    used_percent: int | None = None
    media_errors: int | None = None
    error_log_entries: int | None = None
    unsafe_shutdowns: int | None = None
    warning_temperature_minutes: int | None = None
    written_bytes: int | None = None
    read_bytes: int | None = None
    exit_status: int | None = None
    messages: tuple[str, ...] = ()
    device_type: str = ""
    reported_uncorrectable: int | None = None
    command_timeouts: int | None = None
    power_cycles: int | None = None
    critical_temperature_minutes: int | None = None
    warning_celsius: int | None = None
    critical_celsius: int | None = None
    rotation_rpm: int | None = None
    self_test_left_percent: int | None = None
    judgements: tuple[Judgement, ...] = ()
    read_wall_s: int | None = None
    earlier: HealthPoint | None = None
    past: tuple[PastPoint, ...] = ()
    history_note: str = ""
    self_tests: bool | None = None
    test_short_minutes: int | None = None
    test_long_minutes: int | None = None
    self_test_log: tuple[SelfTest, ...] = ()
    error_log: tuple[ErrorEntry, ...] = ()
    io_errors: int | None = None
    io_timeouts: int | None = None
