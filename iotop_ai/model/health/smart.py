"""A disk's health as smartctl reports it. An unknown figure means "not available", never "healthy"."""

from __future__ import annotations

from typing import Annotated

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.metric import Exported


class SmartAttribute(NamedTuple):
    """One ATA attribute.

    value, worst, threshold: the normalised values; None if smartctl does not print them
    prefail: whether the attribute predicts a failure, instead of showing age
    failed: "" for never, "now" or "past"
    """

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
"""The status of a self-test that runs on a SCSI disk."""


class SelfTest(NamedTuple):
    """One entry of a disk's self-test log, in the disk's own words.

    kind: "Short offline", "Extended" and so on
    passed: whether the test passed; None if it was aborted or still runs
    hours: the disk's power-on hours when the test ended; None if not reported
    """

    kind: str
    status: str
    passed: bool | None = None
    hours: int | None = None


class ErrorEntry(NamedTuple):
    """One entry of a disk's error log.

    number: the number that the disk gave the error
    hours: the disk's power-on hours at the error; None if not reported
    """

    number: int | None
    hours: int | None
    text: str


class HealthPoint(NamedTuple):
    """A disk's figures at an earlier time, from which growth is computed; ``wall_s`` is the Unix time in seconds."""

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
    """Temperature and wear at an earlier time, for curves; ``wall_s`` is the Unix time in seconds."""

    wall_s: int
    temperature_celsius: int | None = None
    used_percent: int | None = None


class Judgement(NamedTuple):
    """The result of one rule of model/health/rules.py for a disk; ``severity`` is note, warning or critical."""

    rule: str
    severity: str
    text: str


class SmartState(NamedTuple):
    """The health of one disk at one reading.

    assessment: "PASS", "WARN" or "FAIL" (pySMART's words); None if not reported
    protocol: ata, nvme or scsi; figures that only NVMe has are None for the other two
    severity: ok, warning, critical, or unknown if there is nothing to judge
    reasons: clauses such as "312 reallocated sectors", the worst first; if severity is ok, they are only notes
    reallocated, reported_uncorrectable, command_timeouts, pending, uncorrectable, crc_errors: the counts of ATA
        attributes 5, 187, 188 (low 16 bits), 197, 198 and 199, by ``count_of`` of model/health/attributes.py; None if
        the vendor counts something else under the number; for SCSI, reallocated is the size of the grown defect list
        and uncorrectable the total of the error counters
    device_type: the argument of smartctl's option ``-d``
    warning_celsius, critical_celsius: the limits that the disk reports
    self_test_left_percent: how much of a running self-test is left; None if unknown or if none runs
    exit_status: the bit mask of smartctl's exit status
    judgements: the judgement behind each of ``reasons``, in the same order
    read_wall_s: the time of the query, in Unix seconds
    earlier: the known reading nearest to 24 h before this one
    recent: the known reading nearest to 1 h before this one; None if it is more than 2 h before this one
    past: temperature and wear over all known time, oldest first; the last point is this reading; () without a history
    history_note: why stored readings are missing; "" if none is missing
    self_tests: whether the disk supports self-tests; None if not reported
    test_short_minutes, test_long_minutes: the disk's estimates of a self-test's duration
    self_test_log, error_log: the entries of the logs, newest first
    io_errors: the number of commands that ended with a status other than "good" since the kernel found the disk; it
        also grows on a sound disk, because libata ends each SMART query with such a status
    io_timeouts: the number of commands that timed out since the kernel found the disk
    wwn: the world-wide name in hexadecimal digits; "" if not reported
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
    used_percent: Annotated[int | None, Exported("%", "Rated life used; may exceed 100 %.", level=True)] = None
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
        """Whether a self-test runs. A SCSI disk reports it only as the first entry of its log, without the progress."""
        first = self.self_test_log[0].status if self.self_test_log else ""
        return self.self_test_left_percent is not None or first == RUNNING

    @property
    def self_test_progress(self) -> str:
        """The progress of the self-test as text: "35 % done", or "progress unknown" if the disk does not report it."""
        left = self.self_test_left_percent
        return "progress unknown" if left is None else f"{100 - left} % done"
