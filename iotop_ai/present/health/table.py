"""The list of the health screen: all disks with their verdicts, and the reasons for the verdict on the disk under the
cursor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iotop_ai.model.frame import Frame
from iotop_ai.model.health.smart import SmartState
from iotop_ai.present.block import devices
from iotop_ai.present.health.summary import NO_SMART
from iotop_ai.present.health.view import DiskRow, HealthView, disk_rows
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import DISK_PREFIX, Cell, Line, Span, blank, cells, cut, cut_spans, place, plain, row
from iotop_ai.present.text.panel import reason_row
from iotop_ai.present.text.phrases import whole_clauses
from iotop_ai.present.text.table import Column, fit_columns, head, place_columns, rule
from iotop_ai.present.text.units import UNDEFINED, UNKNOWN, duration, plural
from iotop_ai.present.text.wrap import wrap_cells

WORDS = {"bad": "FAILING", "warn": "WARN", "unsure": "UNSURE", "ok": "OK"}
"""The state word for a token."""
STATE_CELLS = 9
"""The width of the state word in columns."""
SPREAD_FROM = 40
"""The minimum height of a screen on which blank rows separate the sections."""
COLUMNS = (
    Column("name", "", 11, left=True),
    Column("model", "model", 16, 3, 26, left=True, gap=2),
    Column("serial", "serial", 18, 9, 20, left=True, gap=2),
    Column("celsius", "temp C", 7),
    Column("wear", "wear %", 7, 2),
    Column("spare", "spare %", 8, 6),
    Column("hours", "hours", 7, 4),
    Column("realloc", "realloc", 8, 7),
    Column("pending", "pending", 8, 7),
    Column("crc", "CRC", 7, 7),
    Column("media", "media", 7, 7),
    Column("word", "verdict", 10, left=True, gap=2),
    Column("why", "", 27, 1, left=True),
)


def top_row(width: int, hue: str, sentence: Sequence[Span], right: str, health_words: Iterable[str] = ()) -> Line:
    """The first row: the state of the disk or disks. hue: the token of that state. right: the text at the right end.

    health_words: the health words of the disks. If no disk has a verdict, the word that they share is the state.
    """
    shared = set(health_words)
    without_verdict = shared.pop().upper() if len(shared) == 1 else "NONE"
    word = Span(f" {WORDS.get(hue, without_verdict)}".ljust(STATE_CELLS + 1), hue)
    end = right + " "
    fitting = cut_spans([*sentence], max(0, width - STATE_CELLS - 2 - cells(end)))
    return row(width, [word, *fitting], [Span(end, "dim")])


def hue_of(rows: Sequence[DiskRow]) -> str:
    """The token of the worst of these disks: "bad", "warn" or "unsure"; otherwise "ok" if at least one of them is known
    to be ok, else "dim".
    """
    tokens = [disk.health.token for disk in rows]
    for hue in ("bad", "warn", "unsure"):
        if hue in tokens:
            return hue
    return "ok" if any(disk.health.word == "ok" for disk in rows) else "dim"


def list_rows(frame: Frame, view: View, health: HealthView, width: int, height: int) -> list[Line]:
    """The list in at most ``height`` rows."""
    rows = disk_rows(frame)
    age_text = _newest_age_text(frame, rows)
    known = bool(rows) or frame.snapshot.disks.value is not None
    sentence = whole_clauses(
        _sentence(rows) if known else "no disk has been read", width - STATE_CELLS - 3 - cells(age_text)
    )
    health_words = [disk.health.word for disk in rows]
    hue = hue_of(rows) if known else "unsure"
    out = [top_row(width, hue, [Span(sentence, "strong")], age_text, health_words)]
    selected = next((disk for disk in rows if disk.name == health.cursor), rows[0] if rows else None)
    reasons = [] if selected is None else why_rows(selected, view, width)
    without_smart = [row(width, [Span(cut(f" {text}", width), "dim")]) for text in _without_smart(frame)]
    room = max(1, height - len(out) - 1 - len(without_smart) - min(len(reasons) + 2, max(3, height // 2)))
    slots = place_columns(fit_columns(COLUMNS, width - 1), 0, width)
    out.append(head(width, "disks", slots, focus=True))
    by_id = {slot.column.id: slot for slot in slots}
    cursor_row = 0 if selected is None else rows.index(selected)
    first = max(0, min(health.scroll, cursor_row, len(rows) - room))
    first = max(first, cursor_row - room + 1)
    for disk in rows[first : first + room]:
        texts = [by_id[name].cell(text, token) for name, text, token in _cells(disk, frame) if name in by_id]
        background = "sel" if selected is not None and disk.name == selected.name else ""
        mark = [Cell(0, ">", disk.health.token)] if disk.health.token in ("bad", "warn") else []
        out.append(place(width, *mark, *texts, background=background, key=DISK_PREFIX + disk.name))
    if len(rows) > room:
        out.append(row(width, [Span(f" {len(rows) - room} more", "dim")]))
    if not known:
        out.append(reason_row(width, frame.snapshot.disks, view))
    elif not rows:
        smart = frame.snapshot.smart
        out.append(row(width, [Span(f" no disk here: {smart.reason or 'none was found'}", "dim")]))
    out += without_smart
    if selected is not None:
        out += [*([blank(width)] if height >= SPREAD_FROM else []), rule(width, selected.name), *reasons]
    return out[:height]


def _without_smart(frame: Frame) -> list[str]:
    """One line that names the mounted devices without SMART of their own; [] if there are none."""
    device_texts = [
        f"{name} ({', '.join(plain(mount.path) for mount in info.mounts)})"
        for name, info in devices.infos(frame).items()
        if info.kind in _STACKED_KINDS and info.mounts
    ]
    return [f"without SMART of their own: {', '.join(device_texts)}"] if device_texts else []


_STACKED_KINDS = ("loop", "dm", "md", "zram", "ram", "ublk", "zloop")
"""The kinds of devices that lie on disks, files or memory."""
_ATTRIBUTES = ("realloc", "pending", "crc")
"""The columns that are attributes of an ATA disk. They show "-" for a disk without the attribute."""
_SILENT = ((("asking",), "without an answer"), (("asleep",), "asleep"), (("not read", "no tool"), "not read"))
"""For each known reason why a disk has no verdict: (the health words for it, the sentence's words for such disks)."""
_PROBLEMS = (("bad", "fails", "fail"), ("warn", "warns", "warn"), ("unsure", "unknown", "unknown"))
"""(the token of disks with a problem, the sentence's word for one such disk, its word for several)."""


def _sentence(rows: Sequence[DiskRow]) -> str:
    parts = []
    for token, of_one, of_several in _PROBLEMS:
        names = [disk.name for disk in rows if disk.health.token == token]
        if names:
            more = "" if len(names) <= 3 else ", …"
            parts.append(f"{', '.join(names[:3])}{more} {of_one if len(names) == 1 else of_several}")
    has_problem = bool(parts)
    ok_count = sum(disk.health.word == "ok" for disk in rows)
    no_smart_count = sum(disk.health.word == NO_SMART for disk in rows)
    parts += [f"{ok_count} ok"] if ok_count else []
    parts += [f"{no_smart_count} without SMART"] if no_smart_count else []
    for words, text in _SILENT:
        silent_count = sum(disk.health.word in words for disk in rows)
        parts += [f"{silent_count} {text}"] if silent_count else []
    clauses = "; ".join(parts)
    if has_problem:  # beside FAILING, the number of all disks would read as the number of failing ones
        return clauses
    return f"{len(rows)} disk{'' if len(rows) == 1 else 's'}" + (f": {clauses}" if clauses else "")


def asked_ago(frame: Frame, disk: DiskRow) -> str:
    """The age of the disk's answer: "asked 3 min ago"; "" before the first answer."""
    at_ns = None if disk.reading is None else disk.reading.at_ns
    return "" if at_ns is None else f"asked {duration(max(0, frame.snapshot.at_ns - at_ns) / 1e9)} ago"


def _newest_age_text(frame: Frame, rows: Sequence[DiskRow]) -> str:
    answered = [disk for disk in rows if disk.state is not None and disk.reading is not None]
    newest = max(answered, key=lambda disk: (disk.reading and disk.reading.at_ns) or 0, default=None)
    return "" if newest is None else asked_ago(frame, newest)


def _cells(disk: DiskRow, frame: Frame) -> list[tuple[str, str, str]]:
    """(column, text, token) for each column of the disk's row."""
    state, info = disk.state, devices.infos(frame).get(disk.name)
    model = (state.model if state is not None else "") or ("" if info is None else info.model)
    serial = (state.serial if state is not None else "") or ("" if info is None else info.serial)
    token = disk.health.token
    out = [
        ("name", f" {disk.name}", "bad" if token == "bad" else "strong" if token == "warn" else "text"),
        ("model", model or UNDEFINED, "text" if model else "dim"),
        ("serial", serial or UNDEFINED, "dim"),
        ("word", disk.health.word, token),
        ("why", disk.health.reason, "text" if token in ("bad", "warn") else "dim"),
    ]
    celsius = state.temperature_celsius if state is not None else None
    if celsius is None and info is not None and info.temperature_celsius is not None:
        celsius = round(info.temperature_celsius)
    if state is None:
        return [*out, ("celsius", UNDEFINED if celsius is None else str(celsius), "")]
    ata, nvme = state.protocol == "ata", state.protocol == "nvme"
    figures = (
        ("celsius", celsius, True),
        ("wear", state.used_percent, not state.rotation_rpm),
        ("spare", state.available_spare_percent, nvme),
        ("hours", state.power_on_hours, True),
        ("realloc", state.reallocated, not nvme),
        ("pending", state.pending, ata),
        ("crc", state.crc_errors, ata),
        ("media", state.media_errors, nvme),
    )
    for name, value, applies in figures:
        is_absent = not applies or (name in _ATTRIBUTES and bool(state.attributes))
        text = str(value) if value is not None else UNDEFINED if is_absent else UNKNOWN
        has_defects = name in ("realloc", "pending", "media") and bool(value)
        out.append((name, text, "strong" if has_defects else ""))
    return out


def why_rows(disk: DiskRow, view: View, width: int) -> list[Line]:
    """The judgements about one disk with the ids of their rules; without any, the reason for its health; then the
    remedies, and notes on its history and on the kernel's counts. A replay has no remedy for a missing Reading, since
    it is too late to act.
    """
    state, reading = disk.state, disk.reading
    out: list[Line] = []
    if state is not None and state.judgements:
        for judgement in state.judgements:
            token = {"critical": "bad", "warning": "warn"}.get(judgement.severity, "dim")
            out.append(
                row(
                    width,
                    [Span(f" {judgement.severity:<9}", token), Span(judgement.text)],
                    [Span(f"{judgement.rule} ", "dim")],
                )
            )
    elif disk.health.reason:
        out.append(row(width, [Span(f" {disk.health.word:<9}", disk.health.token), Span(disk.health.reason)]))
    else:
        out.append(row(width, [Span(" ok       ", "dim"), Span("no rule finds a fault", "dim")]))
    if disk.advice:
        out += wrapped_rows(width, "do", disk.advice)
    if reading is not None and reading.remedy and view.mode != "replay":
        out += wrapped_rows(width, "do", reading.remedy)
    if state is not None and state.history_note:
        out += wrapped_rows(width, "note", state.history_note)
    if state is not None and (state.io_errors or state.io_timeouts):
        out += wrapped_rows(width, "kernel", kernel_counts_text(state))
    return out


def kernel_counts_text(state: SmartState) -> str:
    """The kernel's counts of failed and timed-out commands, as far as known.

    Failed commands can be harmless: SMART queries count too, because a SATA disk answers them with a status other than
    good.
    """
    parts = []
    if state.io_errors is not None:
        parts.append(f"{plural(state.io_errors, 'command')} had a status other than good (SMART queries included)")
    if state.io_timeouts is not None:
        parts.append(f"{state.io_timeouts} timed out")
    return f"since the kernel found the disk, {', '.join(parts)}"


def wrapped_rows(width: int, label: str, text: str) -> list[Line]:
    """Labelled text in as many rows as it needs. It is not cut, because users copy remedies from the screen."""
    lines = wrap_cells(text, max(20, width - 12), break_on_hyphens=False) or [""]
    return [row(width, [Span(f" {label if i == 0 else '':<9}", "dim"), Span(line)]) for i, line in enumerate(lines)]
