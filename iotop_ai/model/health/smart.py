"""A disk's health as smartctl reports it. Unknown is "not available", never "healthy"."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple


class SmartAttribute(NamedTuple):
    """One ATA attribute. threshold/value/worst: None where the row has none. failed: "", "now", "past"."""

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
    """One entry of a disk's self-test log, in its own words. passed None: aborted, or still running.

    kind: "Short offline", "Extended", ... hours: power-on hours when it ended.
    """

    kind: str
    status: str
    passed: bool | None = None
    hours: int | None = None


class ErrorEntry(NamedTuple):
    """One entry of a disk's error log. number: the disk's own count; hours: power-on hours, where it tells them."""

    number: int | None
    hours: int | None
    text: str


class HealthPoint(NamedTuple):
    """The figures of an earlier time by which growth is judged. wall_s: Unix seconds."""

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
    """What one rule of model/health/rules.py says of a disk. severity: note, warning or critical."""

    rule: str
    severity: str
    text: str


class SmartState(NamedTuple):
    """One disk's answer. assessment: "PASS", "WARN", "FAIL" (pySMART's words), None when the disk does not say.

    protocol: ata, nvme, scsi. NVMe figures None on others; bytes are exact (data units x 512,000).
    severity: ok, warning, critical, or unknown when the disk reports nothing to judge by; reasons: clauses with their
    number ("312 reallocated sectors"), the worst first. A reason may stand beside ok: it explains, it does not warn.
    reallocated, reported_uncorrectable, command_timeouts, pending, uncorrectable, crc_errors: the counts of ATA
    attributes 5, 187, 188 (low 16 bits), 197, 198, 199 (smart_attributes.count_of), None where the vendor counts
    something else under the number; SCSI fills reallocated with the grown defect list and uncorrectable with the total
    of its error counters.
    device_type: what ``-d`` was given. warning_celsius, critical_celsius: the disk's own limits.
    self_test_left_percent: of a running self-test; None when none runs. exit_status: smartctl's bit mask.
    judgements: what ``reasons`` say, each with its rule and severity, in the same order.
    read_wall_s: when the disk was asked, Unix seconds; earlier: the known reading nearest to 24 h before that; past:
    temperature and wear over all that is known, oldest first, this reading last. history_note: why there is no
    earlier reading where one could be, "" when all is well.
    self_tests: whether the disk runs self-tests, None when it does not say; test_short_minutes, test_long_minutes: how
    long it says that they take. self_test_log, error_log: the newest first.
    io_errors, io_timeouts: requests that failed or timed out since the start of the kernel, by its own count.
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
