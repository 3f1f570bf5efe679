"""A disk's health figures as pairs of label and value, with their growth."""

from __future__ import annotations

from iotop_ai.model.health.growth import growth, left_words, wear_left_days
from iotop_ai.model.health.smart import HealthPoint, SmartState
from iotop_ai.present.text.line import Cell, Line, cells, cut, place
from iotop_ai.present.text.table import rule
from iotop_ai.present.text.units import size

_YEAR_H = 8766
"""The number of hours in a year."""
_VALUE_START = 19
"""The cell in which a figure begins, after its label."""
_WITH_HISTORY = tuple(name for name in HealthPoint._fields if name != "wall_s")
"""The names of the figures for which earlier values are kept."""


def figure_rows(state: SmartState, width: int) -> list[Line]:
    """The rule, then the pairs of label and value, up to three per row."""
    grown = {name: f" ({increase.text})" for name in _WITH_HISTORY if (increase := growth(state, name)) is not None}
    days_left = wear_left_days(state)
    used = (
        None
        if state.used_percent is None
        else f"{state.used_percent} %" + ("" if days_left is None else f", {left_words(days_left)}")
    )
    spare = None if state.available_spare_percent is None else f"{state.available_spare_percent} %"
    if spare is not None and state.spare_threshold_percent is not None:
        spare += f", limit {state.spare_threshold_percent} %"
    hours, is_scsi = state.power_on_hours, state.protocol == "scsi"
    facts: list[tuple[str, str | None]] = [
        ("firmware", state.firmware or None),
        ("power on", None if hours is None else f"{hours:,} h{_years(hours)}"),
        ("power cycles", _count(state.power_cycles)),
        ("rated life used", used),
        ("spare blocks", spare),
        ("written", None if state.written_bytes is None else f"{size(state.written_bytes)}B"),
        ("read", None if state.read_bytes is None else f"{size(state.read_bytes)}B"),
        ("media errors", _count(state.media_errors, grown.get("media_errors", ""))),
        ("error log entries", _count(state.error_log_entries, grown.get("error_log_entries", ""))),
        ("unsafe shutdowns", _count(state.unsafe_shutdowns)),
        ("too warm", _too_warm(state, grown)),
        ("own limits", _limits(state)),
        ("rotation", None if not state.rotation_rpm else f"{state.rotation_rpm:,} rpm"),
        ("grown defects", _count(state.reallocated, grown.get("reallocated", "")) if is_scsi else None),
        ("commands failed", _count(state.io_errors, ", SMART queries included")),
        ("kernel timeouts", _count(state.io_timeouts)),
        ("smartctl's exit", _exit(state.exit_status)),
        ("asked as", f"-d {state.device_type} {state.device}" if state.device_type else None),
    ]  # fmt: skip
    columns = 3 if width >= 140 else 2 if width >= 72 else 1
    step = (width - 1) // columns
    labelled = [(label, text) for label, text in facts if text is not None]
    # Text that is too long for a column gets its own row, so that it is not cut.
    narrow = [(label, text) for label, text in labelled if cells(text) <= step - _VALUE_START]
    wide = [(label, text) for label, text in labelled if cells(text) > step - _VALUE_START]
    out = [rule(width, "figures")]
    for i in range(0, len(narrow), columns):
        pairs = []
        for k, (label, text) in enumerate(narrow[i : i + columns]):
            pairs += [Cell(1 + k * step, label, "dim"), Cell(_VALUE_START + k * step, text, "text")]
        out.append(place(width, *pairs))
    out += [
        place(width, Cell(1, label, "dim"), Cell(_VALUE_START, cut(text, width - _VALUE_START))) for label, text in wide
    ]
    return out


def _years(hours: int) -> str:
    return f" ({hours / _YEAR_H:.1f} years)" if hours >= _YEAR_H else ""


def _count(value: int | None, more: str = "") -> str | None:
    return None if value is None else f"{value:,}{more}"


def _too_warm(state: SmartState, grown: dict[str, str]) -> str | None:
    if state.warning_temperature_minutes is None:
        return None
    text = f"{state.warning_temperature_minutes:,} min{grown.get('warning_temperature_minutes', '')}"
    critical = state.critical_temperature_minutes
    return text if critical is None else f"{text}, critical {critical:,} min"


def _limits(state: SmartState) -> str | None:
    parts = [(state.warning_celsius, "warm"), (state.critical_celsius, "critical")]
    return ", ".join(f"{word} from {value} C" for value, word in parts if value is not None) or None


EXIT_BITS = (
    "a wrong command line",
    "the disk could not be opened",
    "a command failed, or a checksum was wrong",
    "the disk is failing",
    "a pre-fail attribute is at its limit",
    "an attribute was at its limit",
    "the error log has entries",
    "the self-test log has failures",
)
"""The meaning of the bits of smartctl's exit status, from bit 0 on (smartctl(8))."""


def _exit(status: int | None) -> str | None:
    if not status:
        return None if status is None else "0"
    return f"{status}: " + "; ".join(text for bit, text in enumerate(EXIT_BITS) if status & 1 << bit)
