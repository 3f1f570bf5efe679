"""The health of disks as text: a row per disk with its problem and remedy, and its history as charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iotop_ai.export.text.charts import chart
from iotop_ai.export.text.table import UNDEFINED, UNKNOWN, field, table
from iotop_ai.model.errors import UnknownError
from iotop_ai.model.health.growth import DAY_S, left_words, wear_left_days
from iotop_ai.model.health.smart import HealthPoint, SmartState
from iotop_ai.model.reading import Reading, Status
from iotop_ai.present.health.table import kernel_counts_text

TITLES = ("Disk", "health", "temp-C", "wear%", "hours", "realloc", "pending", "media", "words")
CHARTS: tuple[tuple[str, str], ...] = (
    ("temperature_celsius", "temperature, °C"),
    ("used_percent", "rated life used, %"),
    ("available_spare_percent", "spare blocks, %"),
    ("reallocated", "reallocated sectors"),
    ("pending", "pending sectors"),
    ("uncorrectable", "uncorrectable sectors"),
    ("reported_uncorrectable", "reported uncorrectable errors"),
    ("command_timeouts", "command timeouts"),
    ("crc_errors", "CRC errors"),
    ("media_errors", "media errors"),
    ("warning_temperature_minutes", "minutes above the warning temperature"),
)
"""The field and title of each chart of the history. A count that is always 0 gets no chart."""
_SHOWN_IF_ZERO = ("temperature_celsius", "used_percent")
"""The fields whose chart is shown even if all its values are 0."""
CHART_HEIGHT = 12


def health_lines(disks: Mapping[str, Reading[SmartState]]) -> list[str]:
    """The table, then lines about each disk: its judgements, its remaining life, a running self-test, its remedy."""
    rows, more = [], []
    for name, reading in disks.items():
        rows.append(_row(name, reading))
        more += [f"{name}: {line}" for line in _further_lines(reading)]
    return [*table(TITLES, rows, [12]), *([""] if more else []), *more]


def _row(name: str, reading: Reading[SmartState]) -> list[str]:
    state = reading.value
    has_answered = state is not None and reading.status in (Status.OK, Status.ASLEEP)
    word = verdict_word(reading)
    if state is None:
        return [field(name), word, *[UNKNOWN] * 6, reading.reason or UNDEFINED]
    figures = (
        state.temperature_celsius,
        state.used_percent,
        state.power_on_hours,
        state.reallocated,
        state.pending,
        state.media_errors,
    )
    cells = [UNKNOWN if figure is None else str(figure) for figure in figures]
    if has_answered:
        cells = [
            UNDEFINED if cell == UNKNOWN and not applies else cell
            for cell, applies in zip(cells, _applicable(state), strict=True)
        ]
        words = [state.model, reading.reason, *state.reasons[:1]]
        return [field(name), word, *cells, "; ".join(filter(None, words)) or UNDEFINED]
    return [field(name), word, *cells, "; ".join(filter(None, (state.model, reading.reason))) or UNDEFINED]


def _applicable(state: SmartState) -> tuple[bool, ...]:
    """For each figure of a row, whether a disk of this kind can have it."""
    ata, nvme = state.protocol == "ata", state.protocol == "nvme"
    # If any attributes of an ATA disk are known, the disk does not have the counters that are missing among them.
    may_count = not state.attributes
    return True, not state.rotation_rpm, True, not nvme and may_count, ata and may_count, nvme


def verdict_word(reading: Reading[SmartState]) -> str:
    """One word: the disk's severity (ok, warning, critical, unknown) or the reading's status (asleep, denied, ...)."""
    if reading.value is not None and reading.status is Status.OK:
        return reading.value.severity
    if (
        reading.value is not None
        and reading.status is Status.ASLEEP
        and reading.value.severity in ("warning", "critical")
    ):
        return reading.value.severity
    return reading.status.value


def _further_lines(reading: Reading[SmartState]) -> list[str]:
    state = reading.value
    out = (
        []
        if state is None
        else [f"{judgement.severity}: {judgement.text} [{judgement.rule}]" for judgement in state.judgements]
    )
    if state is not None:
        left = wear_left_days(state)
        if left is not None and not any(judgement.rule.startswith("worn") for judgement in state.judgements):
            out.append(f"{state.used_percent} % of its rated life used, {left_words(left)}")
        if state.self_test_runs:
            out.append(f"self-test running: {state.self_test_progress}")
        out += [state.history_note] if state.history_note else []
    if reading.status is Status.DENIED and state is not None and state.io_errors is not None:
        out.append(f"the kernel: {kernel_counts_text(state)}")
    if reading.remedy:
        out.append(f"remedy: {reading.remedy}")
    return out


def history_text(name: str, model: str, points: Sequence[HealthPoint], width: int, ascii_only: bool = False) -> str:
    """A chart of each figure over the days before the newest point. Raises UnknownError without points or plotext."""
    if not points:
        raise UnknownError(f"{name}: no history yet")
    newest = points[-1].wall_s
    out = [f"{name} {model}: {len(points)} readings, days before the newest"]
    for figure, title in CHARTS:
        line = [((point.wall_s - newest) / DAY_S, getattr(point, figure)) for point in points]
        values = [value for _, value in line if value is not None]
        if values and (figure in _SHOWN_IF_ZERO or any(values)):
            if ascii_only:
                title = title.replace("°", "")
            out += ["", _chart_or_value(title, line, width, ascii_only)]
    return "\n".join(out)


def _chart_or_value(title: str, line: list[tuple[float, float | None]], width: int, ascii_only: bool) -> str:
    if len({x for x, _ in line}) > 1:
        return chart(title, line, width, CHART_HEIGHT, ascii_only)
    value = line[-1][1]
    return f"{title}: {UNKNOWN if value is None else value} (one reading so far)"
