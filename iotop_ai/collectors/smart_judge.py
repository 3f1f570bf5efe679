"""What a disk's own figures mean: a severity and the clauses that say why. Pure; one reading, no growth.

Sources: smartctl's overall status and attribute states; the five attributes on which Backblaze acts when their raw
value is above 0 (https://www.backblaze.com/blog/what-smart-stats-indicate-hard-drive-failures/); the NVMe Base
Specification's SMART / Health log page (02h). An NVMe's error log count is no ground for alarm: hosts fill it with
commands that the drive does not know.
"""

from __future__ import annotations

from typing import NamedTuple

from iotop_ai.model.smart import SmartState

CRITICAL_WARNING_BITS: tuple[tuple[int, str], ...] = (
    (0x01, "spare blocks are below the threshold"),
    (0x02, "temperature is outside its limits"),
    (0x04, "reliability is degraded"),
    (0x08, "the medium is read-only"),
    (0x10, "the volatile memory backup has failed"),
    (0x20, "the persistent memory region is unreliable"),
)

REALLOCATED_CRITICAL = 300
SPARE_MARGIN_PERCENT = 5
USED_WARNING_PERCENT = 90
USED_CRITICAL_PERCENT = 100
DISK_WARNING_CELSIUS = 50
DISK_CRITICAL_CELSIUS = 60
FLASH_WARNING_CELSIUS = 80
"""For a flash drive that does not tell its own limit; most begin to throttle between 70 and 85 °C."""

OK, WARNING, CRITICAL = 0, 1, 2
_WORDS = ("ok", "warning", "critical")


class Reason(NamedTuple):
    """One clause and how much it weighs."""

    level: int
    text: str


def judged(state: SmartState) -> SmartState:
    """The state with its severity and reasons, worst first; severity unknown when there is nothing to judge by."""
    reasons = [*_overall(state), *_ata(state), *_nvme(state), *_wear(state), *_temperature(state)]
    reasons.sort(key=lambda reason: -reason.level)
    says = (state.assessment, state.attributes or None, state.critical_warning, state.used_percent, state.reallocated)
    worst = max((reason.level for reason in reasons), default=OK)
    known = worst > OK or any(figure is not None for figure in says)
    severity = _WORDS[worst] if known else "unknown"
    return state._replace(severity=severity, reasons=tuple(reason.text for reason in reasons))


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _overall(state: SmartState) -> list[Reason]:
    if state.assessment == "FAIL":
        return [Reason(CRITICAL, "the disk itself says that it is failing")]
    if state.assessment == "WARN":
        return [Reason(WARNING, "the disk itself warns")]
    return []


def _ata(state: SmartState) -> list[Reason]:
    found = []
    for row in state.attributes:
        if row.failed == "now" and row.prefail:
            found.append(Reason(CRITICAL, f"{row.name} is failing now ({row.value}, limit {row.threshold})"))
        elif row.failed == "now":
            found.append(Reason(WARNING, f"{row.name} is past its limit ({row.value}, limit {row.threshold})"))
        elif row.failed == "past" and row.prefail:
            found.append(Reason(WARNING, f"{row.name} was past its limit ({row.worst}, limit {row.threshold})"))
    if state.reallocated:
        level = CRITICAL if state.reallocated >= REALLOCATED_CRITICAL else WARNING
        found.append(Reason(level, _count(state.reallocated, "reallocated sector")))
    if state.pending:
        found.append(Reason(WARNING, _count(state.pending, "pending sector")))
    if state.uncorrectable:
        what = "uncorrectable sector" if state.protocol == "ata" else "uncorrected error"
        found.append(Reason(WARNING, _count(state.uncorrectable, what)))
    if state.reported_uncorrectable:
        found.append(Reason(WARNING, _count(state.reported_uncorrectable, "reported uncorrectable error")))
    if state.command_timeouts:
        found.append(Reason(WARNING, _count(state.command_timeouts, "command timeout")))
    if state.crc_errors:
        # A total since the disk was made: it speaks about the cable, and only while it grows.
        found.append(Reason(OK, _count(state.crc_errors, "CRC error") + " so far: cable or backplane, not the disk"))
    return found


def _nvme(state: SmartState) -> list[Reason]:
    bits = state.critical_warning or 0
    found = [Reason(CRITICAL, text) for bit, text in CRITICAL_WARNING_BITS if bits & bit]
    if bits & ~0x3F:
        found.append(Reason(CRITICAL, f"critical warning 0x{bits:02x}"))
    if state.media_errors:
        found.append(Reason(WARNING, _count(state.media_errors, "media error")))
    return found


def _wear(state: SmartState) -> list[Reason]:
    found = []
    spare, limit = state.available_spare_percent, state.spare_threshold_percent
    # 0 % spare with a limit of 0 % is a drive (an emulated one) that keeps no such account.
    if spare is not None and limit is not None and (spare or limit) and spare <= limit + SPARE_MARGIN_PERCENT:
        found.append(Reason(WARNING, f"{spare} % spare blocks left, limit {limit} %"))
    if state.used_percent is not None and state.used_percent >= USED_WARNING_PERCENT:
        level = CRITICAL if state.used_percent >= USED_CRITICAL_PERCENT else WARNING
        found.append(Reason(level, f"{state.used_percent} % of its rated life used"))
    return found


def _temperature(state: SmartState) -> list[Reason]:
    now = state.temperature_celsius
    if now is None:
        return []
    if state.protocol == "nvme" or state.rotation_rpm == 0:
        warning, critical = state.warning_celsius or FLASH_WARNING_CELSIUS, state.critical_celsius
    elif state.rotation_rpm:
        # A disk is warm above 50 and in danger above 60 °C; the limits are the last good degrees.
        warning, critical = DISK_WARNING_CELSIUS + 1, DISK_CRITICAL_CELSIUS + 1
    else:
        return []
    if critical is not None and now >= critical:
        return [Reason(CRITICAL, f"{now} °C, critical from {critical} °C")]
    if now >= warning:
        return [Reason(WARNING, f"{now} °C, too warm from {warning} °C")]
    return []
