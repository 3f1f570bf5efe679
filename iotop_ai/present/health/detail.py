"""The page about one disk's health: verdict, self-tests, figures, attributes, graphs over time, logs."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from iotop_ai.model.frame import Frame
from iotop_ai.model.health.attributes import meaning
from iotop_ai.model.health.growth import growth, span
from iotop_ai.model.health.smart import PastPoint, SmartAttribute, SmartState
from iotop_ai.present.block import devices
from iotop_ai.present.health.figures import figure_rows
from iotop_ai.present.health.table import SPREAD_FROM, asked_ago, hue_of, top_row, why_rows
from iotop_ai.present.health.view import DiskRow, HealthView, disk_row, disk_rows
from iotop_ai.present.screen.key_row import keys_text
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.braille import Series, area, series_spans
from iotop_ai.present.text.line import Cell, Line, Span, cells, place, row, stack_sections
from iotop_ai.present.text.panel import missing_words, reason_spans
from iotop_ai.present.text.phrases import first_parts
from iotop_ai.present.text.scroll import below_note
from iotop_ai.present.text.table import Column, fit_columns, head, place_columns, rule
from iotop_ai.present.text.units import UNDEFINED, UNKNOWN, capacity, duration

_DAY_S = 86_400
_WRAP_HOURS = 1 << 16
"""The logs of an ATA disk hold only the lower 16 bits of its power-on hours, so they wrap after 7.5 years."""
ATTRIBUTE_COLUMNS = (
    Column("id", "id", 5),
    Column("name", "attribute", 25, 0, 27, left=True),
    Column("value", "value", 6),
    Column("worst", "worst", 6, 2),
    Column("limit", "limit", 6),
    Column("raw", "raw", 14, 0, 16),
    Column("grown", "grown", 14, 3),
    Column("meaning", "", 16, 1, left=True, gap=2),
)
_GROWING = {5: "reallocated", 187: "reported_uncorrectable", 188: "command_timeouts", 197: "pending"}
_GROWING |= {198: "uncorrectable", 199: "crc_errors"}
"""The ATA attributes whose growth is shown: by the attribute's id, the field of SmartState that holds its count."""


def detail_rows(frame: Frame, view: View, health: HealthView, width: int, height: int) -> list[Line]:
    """At most ``height`` rows: the head, then the body from row ``health.scroll`` on."""
    disk = disk_row(frame, health.disk)
    if disk is None:
        known = frame.snapshot.disks.value is not None
        words = [Span(missing_words(view))] if known else reason_spans(frame.snapshot.disks, view)
        sentence = [Span(health.disk, "strong"), Span(" "), *words]
        return [top_row(width, "dim" if known else "unsure", sentence, keys_text("health.back", view))][:height]
    head_rows = _head(frame, disk, width, keys_text("health.previous", view))
    room = max(0, height - len(head_rows))
    body = body_rows(disk, view, width, spread=height >= SPREAD_FROM)
    first = max(0, min(health.scroll, len(body) - room))
    visible = body[first : first + room]
    if len(body) > room and visible:
        below = len(body) - first - room
        text = below_note(below)
        shown_text = "".join(part.text for part in visible[-1].spans).rstrip()
        if below or cells(shown_text) + cells(text) < width:
            visible[-1] = row(width, visible[-1].spans, [Span(text, "dim")])
    return [*head_rows, *visible][:height]


def most_scroll(frame: Frame, view: View, health: HealthView, width: int, height: int) -> int:
    """The largest scroll at which the rows still fill the screen."""
    disk = disk_row(frame, health.disk)
    if disk is None:
        return 0
    room = max(0, height - len(_head(frame, disk, width, "")))
    return max(0, len(body_rows(disk, view, width, spread=height >= SPREAD_FROM)) - room)


def _head(frame: Frame, disk: DiskRow, width: int, keys: str) -> list[Line]:
    """The rows above the body. keys: the keys that open the previous and the next disk's page."""
    info, state = devices.infos(frame).get(disk.name), disk.state
    names = [each.name for each in disk_rows(frame)]
    parts = [
        "" if info is None else info.detail,
        (state.model if state is not None else "") or ("" if info is None else info.model),
        "" if info is None or info.size_bytes is None else capacity(info.size_bytes),
        f"sn {state.serial}" if state is not None and state.serial else "",
    ]
    hue = hue_of([disk])
    spans = [Span(disk.name, "strong"), Span("  " + "  ".join(filter(None, parts)))]
    position = f"{names.index(disk.name) + 1} of {len(names)}  {keys}"
    lines = [top_row(width, hue, spans, position, [disk.health.word])]
    clauses = [disk.health.reason or "no rule finds a fault"]
    if hue in ("bad", "warn") and state is not None and state.judgements:
        clauses = [judgement.text for judgement in state.judgements]
    celsius = None if state is None else state.temperature_celsius
    right = [] if celsius is None else [Span("temp ", "dim"), Span(f"{celsius}"), Span(" C ", "dim")]
    edge = Span("▌", f"edge-{hue}")
    lines.append(row(width, [edge, Span("because  ", "dim"), Span(first_parts(clauses, "; ", width - 24))], right))
    age = asked_ago(frame, disk)
    growth_note = (
        ""
        if state is None or state.earlier is None or state.read_wall_s is None
        else (f"; growth over the {span(state.read_wall_s - state.earlier.wall_s)} before that")
    )
    lines.append(row(width, [edge, Span("         ", "dim"), Span(f"{age}{growth_note}", "dim")]))
    return lines


def body_rows(disk: DiskRow, view: View, width: int, *, spread: bool, verdict: bool = True) -> list[Line]:
    """All rows below the head. spread: whether a blank row separates the sections. verdict: whether the section about
    the verdict is included.
    """
    state = disk.state
    parts: list[list[Line]] = [[rule(width, "verdict"), *why_rows(disk, view, width)] if verdict else []]
    if state is not None:
        parts += [_tests(state, width), figure_rows(state, width), _attribute_rows(state, width)]
        parts += [_curves(state, width), _errors(state, width), _messages(state, width)]
    return stack_sections(parts, width, spread=spread)


def _tests(state: SmartState, width: int) -> list[Line]:
    out = [rule(width, "self-tests", _durations(state))]
    if state.self_test_left_percent is not None:
        done = 100 - state.self_test_left_percent
        room = max(10, min(50, width - 40))
        filled = round(room * done / 100)
        out.append(
            row(
                width,
                [Span(" running  ", "mode"), Span("█" * filled, "graph"), Span("─" * (room - filled), "faint"),
                 Span(f" {done} % done", "strong")],
            )
        )  # fmt: skip
    elif state.self_test_runs:
        out.append(row(width, [Span(" running  ", "mode"), Span(state.self_test_progress)]))
    for test in state.self_test_log[:6]:
        token = "bad" if test.passed is False else "text"
        age_text = "" if test.hours is None else f"{_hours_ago(state, test.hours)} "
        out.append(row(width, [Span(f" {test.kind:<20}", "dim"), Span(test.status, token)], [Span(age_text, "dim")]))
    if len(out) == 1:
        note = (
            "this disk has no self-test, or this smartctl cannot start it"
            if state.self_tests is False
            else "none in its log"
        )
        out.append(row(width, [Span(f" {note}", "dim")]))
    return out


def _durations(state: SmartState) -> list[Span]:
    """How long the short and the long self-test take, as far as known."""
    parts = [("short", state.test_short_minutes), ("long", state.test_long_minutes)]
    text = "  ".join(f"{name} {_minutes(value)}" for name, value in parts if value is not None)
    return [Span(text, "dim")] if text else []


def _minutes(value: int) -> str:
    return duration(value * 60)


def _hours_ago(state: SmartState, hours: int) -> str:
    """When an entry of a log was made: how long ago, or at which hour. hours: the entry's power-on hours."""
    if state.power_on_hours is None or state.power_on_hours < hours:
        return f"at hour {hours:,}"
    ago = state.power_on_hours - hours
    if state.protocol == "ata" and hours < _WRAP_HOURS <= state.power_on_hours:
        return f"at least {duration(ago % _WRAP_HOURS * 3600)} of power-on time ago"
    return f"{duration(ago * 3600)} of power-on time ago"


def _attribute_rows(state: SmartState, width: int) -> list[Line]:
    if not state.attributes:
        return []
    slots = place_columns(fit_columns(ATTRIBUTE_COLUMNS, width), 0, width)
    out = [head(width, "attributes", slots)]
    for attribute in state.attributes:
        texts = _attribute_cells(state, attribute)
        out.append(place(width, *(slot.cell(*texts[slot.column.id]) for slot in slots)))
    return out


def _attribute_cells(state: SmartState, attribute: SmartAttribute) -> dict[str, tuple[str, str]]:
    """(text, token) of each column."""
    field = _GROWING.get(attribute.id)
    grown = None if field is None else growth(state, field)
    has_defects = field is not None and bool(getattr(state, field))
    failed_token = {"now": "bad", "past": "warn"}.get(attribute.failed, "")

    def figure(value: int | None) -> str:
        return UNDEFINED if value is None else str(value)

    return {
        "id": (str(attribute.id), "dim"),
        "name": (attribute.name, failed_token or "text"),
        "value": (figure(attribute.value), failed_token),
        "worst": (figure(attribute.worst), "dim"),
        "limit": (figure(attribute.threshold), "dim"),
        "raw": (
            attribute.raw_text or (UNKNOWN if attribute.raw is None else str(attribute.raw)),
            "strong" if has_defects else "text",
        ),
        "grown": ("" if grown is None else grown.text, "strong"),
        "meaning": (meaning(attribute.id, attribute.name), "dim"),
    }


def _curves(state: SmartState, width: int) -> list[Line]:
    """The graphs of the temperature and the wear over all known readings, in two rows each."""
    points = state.past
    title = "over time"
    if len(points) < 2:
        return [rule(width, title), row(width, [Span(" one reading so far: graphs start with the next", "dim")])]
    seconds = points[-1].wall_s - points[0].wall_s
    out = [rule(width, f"{title}, last {span(seconds)}", [Span("peak", "dim")])]
    room = max(10, width - 30)
    limit = state.warning_celsius
    # A curve has the colour "hot" above ``hot_above``. Both figures are whole numbers, so 0.5 is subtracted from each
    # limit to include the limit itself.
    for label, unit, name, least_top, hot_above in (
        ("temp", "C", "temperature_celsius", 50.0, None if limit is None else limit - 0.5),
        ("wear", "%", "used_percent", 100.0, 99.5),
    ):
        values = resample(points, name, 2 * room)
        known_values = [value for value in values if value is not None]
        if not known_values:
            continue
        top = max(least_top, ceil(max(known_values) / 10) * 10.0)
        series = Series(tuple(values), len(values))
        for i, bits in enumerate(area(values, top, 2)):
            row_cells, x = [], 20
            for part in series_spans(bits, series, hot_above):
                row_cells.append(Cell(x, part.text, part.token))
                x += cells(part.text)
            if i == 0:
                row_cells += [
                    Cell(1, label, "dim"),
                    Cell(13, f"{known_values[-1]:.0f}", right=True),
                    Cell(15, unit, "dim"),
                ]
                row_cells.append(Cell(width - 2, f"{max(known_values):.0f}", "dim", right=True))
            out.append(place(width, *row_cells))
    return out


def resample(points: Sequence[PastPoint], name: str, slots: int) -> list[float | None]:
    """The values of a figure at ``slots`` times, spaced evenly from the first point to the last.

    Each value is that of the latest reading at or before its time. In a gap of more than 1.5 days and more than 3 times
    the mean time between readings, the values after the gap's first slot are None. name: the figure's field in
    PastPoint.
    """
    first, last = points[0].wall_s, points[-1].wall_s
    longest_gap_s = max(1.5 * _DAY_S, 3 * (last - first) / max(1, len(points)))
    out: list[float | None] = []
    index = 0
    for slot in range(slots):
        slot_wall_s = first + (last - first) * slot / (slots - 1)
        while index + 1 < len(points) and points[index + 1].wall_s <= slot_wall_s:
            index += 1
        next_wall_s = points[index + 1].wall_s if index + 1 < len(points) else last
        in_slot = slot_wall_s - points[index].wall_s < (last - first) / slots
        value = getattr(points[index], name)
        is_known = value is not None and (in_slot or next_wall_s - points[index].wall_s <= longest_gap_s)
        out.append(float(value) if is_known else None)
    return out


def _errors(state: SmartState, width: int) -> list[Line]:
    if not state.error_log:
        return []
    out = [rule(width, "error log", [Span("newest first", "dim")])]
    for error in state.error_log:
        number = "" if error.number is None else f"{error.number}"
        age_text = "" if error.hours is None else _hours_ago(state, error.hours) + " "
        out.append(row(width, [Span(f" {number:>6}  ", "dim"), Span(error.text)], [Span(age_text, "dim")]))
    return out


def _messages(state: SmartState, width: int) -> list[Line]:
    if not state.messages:
        return []
    return [rule(width, "smartctl says"), *(row(width, [Span(f" {text}", "dim")]) for text in state.messages)]
