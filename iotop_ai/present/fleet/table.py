"""The rows of the fleet's list, one for each machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from iotop_ai.model.fleet.records import OK, WARNING, FleetMachine
from iotop_ai.model.verdict_class import LOUD, State
from iotop_ai.present.fleet.words import (
    HEALTH,
    SOURCE_LETTERS,
    alert_words,
    await_words,
    cause_words,
    gpu_words,
    has_no_job,
    health_words,
    lost_words,
)
from iotop_ai.present.job.time_bar import bar_spans
from iotop_ai.present.text.line import Cell, Line, Span, cells, cut, place
from iotop_ai.present.text.states import HUE
from iotop_ai.present.text.table import Column, ColumnSlot, fit_columns, place_columns
from iotop_ai.present.text.units import UNDEFINED, UNKNOWN, percent

PREFIX = "machine:"
"""The key of a machine's row is this prefix and the machine's name."""
COLUMNS = (
    Column("state", "state", 10, left=True),
    Column("lost", "GPU-h", 7, 0, 9),
    Column("ratio", "lost%", 6, 4),
    Column("time", "time", 10, 2, 36, left=True, gap=2),
    Column("cause", "cause", 14, 1, 24, left=True, gap=2),
    Column("gpus", "GPUs", 5, 5),
    Column("gpu", "GPU%", 5),
    Column("disk", "disk", 10, 5, 12),
    Column("await", "await", 6, 3),
    Column("util", "%util", 6),
    Column("health", "health", 9, 0, 18, left=True, gap=2),
    Column("alerts", "alerts", 12, 6, 22, left=True, gap=2),
    Column("from", "from", 7, left=True, gap=2),
)
"""The columns after the machine's name. Except for "name", the key of a sort order is the id of the column that it
sorts by.
"""
_NAME_END, _NAME_END_WIDE = 12, 18
"""The cell of a row where the name ends and the columns start, on a narrow and on a wide screen."""
WIDE = 120
"""The minimum width of a wide screen."""
_HIGH_UTIL, _HIGH_LOSS = 0.98, 0.2
"""The ratios from which %util (_HIGH_UTIL) and the share of lost time (_HIGH_LOSS) are highlighted."""


@lru_cache(maxsize=8)
def column_slots(width: int) -> tuple[ColumnSlot, ...]:
    """The columns on a screen of this width."""
    start = _NAME_END_WIDE if width >= WIDE else _NAME_END
    return tuple(place_columns(fit_columns(COLUMNS, width - start), start, width))


def machine_row(machine: FleetMachine, width: int, *, marked: bool) -> Line:
    """The row of one machine. marked: whether the cursor is on it."""
    return _row(machine, width, marked)


@lru_cache(maxsize=1024)
def _row(machine: FleetMachine, width: int, marked: bool) -> Line:
    """The row, cached because most machines do not change from refresh to refresh."""
    slots = column_slots(width)
    hue = HUE.get(State(machine.state)) if machine.state in HUE else None
    row: list[Cell] = [Cell(1, cut(machine.name, slots[0].first - 2), "strong" if machine.troubled else "text")]
    for slot in slots:
        room = slot.last - slot.first + 1
        if slot.column.id == "time":
            row += _bar(machine, slot.first, room)
        elif slot.column.id == "state":
            word = machine.state or UNKNOWN
            row.append(slot.cell(word, hue or ("unsure" if word == UNKNOWN else "text")))
        else:
            text, token = _cell(machine, slot.column.id, room)
            row.append(slot.cell(text, token))
    return place(width, *row, background="sel" if marked else "", key=f"{PREFIX}{machine.name}")


def _cell(machine: FleetMachine, column: str, room: int) -> tuple[str, str]:
    """(the text, its token). The token is "" for the usual token of the text."""
    disk = machine.disk
    match column:
        case "lost":
            loses_much = machine.lost_gpu_h and (machine.lost_ratio or 0) >= _HIGH_LOSS
            return lost_words(machine), "strong" if loses_much else ""
        case "ratio":
            return percent(machine.lost_ratio), "strong" if (machine.lost_ratio or 0) >= _HIGH_LOSS else ""
        case "cause":
            return cause_words(machine), "strong" if machine.state in LOUD else "warn" if machine.silent else "dim"
        case "gpus":
            return (UNDEFINED if machine.no_gpu else UNKNOWN) if machine.gpus is None else str(machine.gpus), ""
        case "gpu":
            return gpu_words(machine), ""
        case "disk":
            return (UNKNOWN if disk is None else disk.name), ""
        case "await":
            return await_words(machine), ""
        case "util":
            busy = None if disk is None else disk.busy_ratio
            return percent(busy), "strong" if (busy or 0) >= _HIGH_UTIL else ""
        case "health":
            return _health(machine, room)
        case "alerts":
            return alert_words(machine), "warn" if any(alert.reports_trouble for alert in machine.alerts) else ""
    text = "+".join(machine.sources)  # for the column "from"
    return (text if len(text) <= room else "".join(SOURCE_LETTERS.get(name, "?") for name in machine.sources)), "dim"


def _health(machine: FleetMachine, room: int) -> tuple[str, str]:
    text = health_words(machine)
    if machine.health is None:
        return text, ""
    if cells(text) > room:
        text = HEALTH[machine.health.severity]
    severity = machine.health.severity
    return text, "dim" if severity == OK else "warn" if severity == WARNING else "bad"


def _bar(machine: FleetMachine, first: int, room: int) -> list[Cell]:
    """How the machine's jobs spent their time, as a bar."""
    seconds = machine.seconds
    if not seconds or not sum(seconds):
        text = UNDEFINED if has_no_job(machine) else UNKNOWN
        return [Cell(first, text, "none" if text == UNDEFINED else "unsure")]
    return span_cells(bar_spans(seconds, room, State(machine.state) if machine.state in HUE else State.UNSURE), first)


def span_cells(spans: Sequence[Span], first: int) -> list[Cell]:
    """The spans side by side, as cells of a row. first: the cell where the first span starts."""
    out = []
    for span in spans:
        out.append(Cell(first, span.text, span.token))
        first += cells(span.text)
    return out
