"""A disk's health as smartctl reports it. Unknown is "not available", never "healthy"."""

from __future__ import annotations

from typing import Annotated

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.metric import Exported


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


RUNNING = "Self test in progress"
"""The status of a SCSI disk's running self-test."""


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
    when there is nothing to judge; reasons: clauses with their number ("312 reallocated sectors"), the worst first. An
    ok state may have a reason, which explains and does not warn.

    reallocated, reported_uncorrectable, command_timeouts, pending, uncorrectable, crc_errors: the counts of ATA
    attributes 5, 187, 188 (low 16 bits), 197, 198, 199 (model/health/attributes.py: count_of), None where the vendor
    counts something else under the number; for SCSI, reallocated is the grown defect list and uncorrectable the total
    of its error counters. device_type: the argument of ``-d``. warning_celsius, critical_celsius: the disk's own
    limits. self_test_left_percent: the rest of a running self-test; None when none runs. exit_status: smartctl's
    bit mask. judgements: those behind ``reasons``, with rule and severity, in the same order.

    read_wall_s: time of the query, Unix seconds; earlier: the known reading nearest to 24 h before that; recent: the
    reading nearest to 1 h before, if at most 2 h before; past: temperature and wear over all known time, oldest first,
    this reading last. history_note: why an earlier reading is missing, "" otherwise. self_tests: whether the disk runs
    self-tests, None when not reported; test_short_minutes, test_long_minutes: the disk's estimates of their duration.
    self_test_log, error_log: newest first. io_errors, io_timeouts: commands that ended with a status other than good,
    and that timed out, since the kernel found the disk; libata ends each SMART query of smartctl with such a status, so
    the first grows on a sound disk. wwn: the world-wide name as hexadecimal digits, "" when not reported.
    """

    device: str
    protocol: str
    model: str
    serial: str
    firmware: str
    assessment: str | None
    severity: str
    reasons: tuple[str, ...]
    temperature_celsius: Annotated[int | None, Exported("celsius", "Temperature of the disk.", level=True)] = None
    power_on_hours: Annotated[int | None, Exported("h", "Time powered on.")] = None
    attributes: tuple[SmartAttribute, ...] = ()
    reallocated: Annotated[
        int | None, Exported("count", "Sectors replaced by spare ones.", "reallocated_sectors", level=True)
    ] = None
    pending: Annotated[
        int | None,
        Exported("count", "Sectors that cannot be read and wait for a write.", "pending_sectors", level=True),
    ] = None
    uncorrectable: Annotated[
        int | None, Exported("count", "Sectors that could not be corrected.", "uncorrectable_sectors", level=True)
    ] = None
    crc_errors: Annotated[int | None, Exported("count", "Transfers damaged on the cable.")] = None
    critical_warning: Annotated[int | None, Exported("count", "NVMe critical warning, a bit mask.", level=True)] = None
    available_spare_percent: Annotated[int | None, Exported("%", "Spare blocks left.", level=True)] = None
    spare_threshold_percent: int | None = None
    used_percent: Annotated[int | None, Exported("%", "Rated life used; may exceed 1.", level=True)] = None
    media_errors: Annotated[int | None, Exported("count", "Media and data integrity errors.")] = None
    error_log_entries: int | None = None
    unsafe_shutdowns: Annotated[int | None, Exported("count", "Power losses without a shutdown.")] = None
    warning_temperature_minutes: int | None = None
    written_bytes: Annotated[int | None, Exported("B", "Bytes written over the disk's life.")] = None
    read_bytes: Annotated[int | None, Exported("B", "Bytes read over the disk's life.")] = None
    exit_status: int | None = None
    messages: tuple[str, ...] = ()
    device_type: str = ""
    reported_uncorrectable: Annotated[
        int | None, Exported("count", "Errors that the disk could not correct.", "uncorrectable_errors")
    ] = None
    command_timeouts: Annotated[int | None, Exported("count", "Commands that timed out.")] = None
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
    io_errors: Annotated[
        int | None,
        Exported(
            "count", "Commands with a status other than good since the kernel found the disk, SMART queries included."
        ),
    ] = None
    io_timeouts: Annotated[
        int | None, Exported("count", "Commands that timed out since the kernel found the disk.")
    ] = None
    recent: HealthPoint | None = None
    wwn: str = ""

    @property
    def self_test_runs(self) -> bool:
        """Whether a self-test runs. A SCSI disk lists it first in its log and does not report its progress."""
        first = self.self_test_log[0].status if self.self_test_log else ""
        return self.self_test_left_percent is not None or first == RUNNING

    @property
    def self_test_progress(self) -> str:
        """The progress as text: "35 % done"; "progress unknown" where the disk does not report it."""
        left = self.self_test_left_percent
        return "progress unknown" if left is None else f"{100 - left} % done"
