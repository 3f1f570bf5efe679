"""The jobs of a fleet: a row for each job, the largest loss first, and below them a row for each machine of the job
under the cursor.
"""

from __future__ import annotations

from iotop_ai.model.fleet.records import Fleet, FleetJob, JobPart
from iotop_ai.model.verdict_class import State
from iotop_ai.present.fleet.screen import BANNER_ROWS, banner_rows, first_row
from iotop_ai.present.fleet.table import span_cells
from iotop_ai.present.fleet.view import FleetView
from iotop_ai.present.fleet.words import straggler_words
from iotop_ai.present.job.time_bar import bar_spans
from iotop_ai.present.screen.key_row import above_rows, words_above
from iotop_ai.present.text.line import Cell, Line, Span, cut, place, row
from iotop_ai.present.text.table import Column, ColumnSlot, fit_columns, head, place_columns
from iotop_ai.present.text.units import UNDEFINED, UNKNOWN, figure, percent
from iotop_ai.present.text.wrap import wrap_cells

KEYS = ("app.quit", "fleet_jobs.help", "fleet_jobs.back", "fleet_jobs.up", "fleet_jobs.pause")
"""The actions shown in the last row."""
PREFIX = "job:"
"""The key of a job's row is this prefix and the job's key."""
COLUMNS = (
    Column("script", "script", 14, 2, 24, left=True),
    Column("machines", "mach", 5),
    Column("gpus", "GPUs", 5),
    Column("ranks", "ranks", 6, 3),
    Column("lost", "GPU-h", 7),
    Column("wait", "wait%", 6),
    Column("late", "straggler", 14, 0, 20, left=True, gap=2),
    Column("time", "time", 10, 0, 60, left=True, gap=2),
)
"""The columns of the list of jobs."""
PART_COLUMNS = (
    Column("gpus", "GPUs", 5),
    Column("ranks", "ranks", 6, 3),
    Column("lost", "GPU-h", 7),
    Column("wait", "wait%", 6),
    Column("time", "time", 20, 0, 100, left=True, gap=2),
)
"""The columns of the job under the cursor, on each of its machines."""
_JOB_QUERIES = frozenset(("job time", "job GPUs", "job ranks"))
"""The queries that list the jobs."""
_NAME_END = 18
"""The cell of a row where the names end and the table's columns start."""


def jobs_screen_rows(fleet: Fleet | None, fleet_view: FleetView, width: int, height: int) -> list[Line]:
    """The screen as exactly ``height`` lines. fleet: None before the first answer."""
    out = banner_rows(fleet, fleet_view, width)
    if fleet is None:
        out.append(head(width, "jobs", ()))
    elif fleet.jobs:
        out += _body(fleet.jobs, fleet_view, width, height - 1 - BANNER_ROWS)
    else:
        out += [head(width, "jobs", ()), row(width, [_no_jobs(fleet)])]
    return above_rows(out, words_above(KEYS, fleet_view.view), fleet_view.view, width, height)


def selected_job(jobs: tuple[FleetJob, ...], fleet_view: FleetView) -> int:
    """The index of the job under the cursor; 0 if that job is not in the list."""
    return next((i for i, job in enumerate(jobs) if job.key == fleet_view.job), 0)


def _no_jobs(fleet: Fleet) -> Span:
    if _JOB_QUERIES.isdisjoint(fleet.unanswered):
        return Span(" no job from iotop-ai in this window", "dim")
    return Span(" ? the server did not answer which jobs run", "unsure")


def _body(jobs: tuple[FleetJob, ...], fleet_view: FleetView, width: int, height: int) -> list[Line]:
    """The list of jobs, and below it the machines of the job under the cursor, the straggler first; if not all fit, the
    number of the others.
    """
    slots = place_columns(fit_columns(COLUMNS, width - _NAME_END), _NAME_END, width)
    current = selected_job(jobs, fleet_view)
    visible = max(1, min(len(jobs), height // 2 - 1))
    start = first_row(len(jobs), max(0, current - visible // 2), visible)
    title = "jobs" if len(jobs) <= visible else f"{start + 1}-{start + visible} of {len(jobs)}"
    out = [head(width, title, slots, focus=True, marked=("lost",))]
    out += [_row(jobs[i], slots, width, marked=i == current) for i in range(start, start + visible)]
    job = jobs[current]
    part_slots = place_columns(fit_columns(PART_COLUMNS, width - _NAME_END), _NAME_END, width)
    out.append(head(width, cut(job.name, _NAME_END - 5), part_slots))
    if job.straggler is not None:
        text = straggler_words(job, job.straggler)
        out += [place(width, Cell(1, piece, "strong")) for piece in wrap_cells(text, max(20, width - 3))]
    straggler_machine = "" if job.straggler is None else job.straggler.machine
    parts = sorted(job.parts, key=lambda part: (part.machine != straggler_machine, -(part.lost_gpu_h or 0.0)))
    room = height - len(out)
    shown = parts if len(parts) <= room else parts[: max(0, room - 1)]
    out += [_part_row(part, part_slots, width, is_late=part.machine == straggler_machine) for part in shown]
    if len(shown) < len(parts):
        out.append(row(width, [Span(f" {len(parts) - len(shown)} more", "dim")]))
    return out


def _row(job: FleetJob, slots: list[ColumnSlot], width: int, *, marked: bool) -> Line:
    straggler = job.straggler
    out = [Cell(1, cut(job.name, _NAME_END - 3), "strong" if straggler else "text")]
    texts = {
        "script": job.script or UNKNOWN,
        "machines": str(job.machine_count),
        "gpus": UNKNOWN if job.gpus is None else str(job.gpus),
        "ranks": UNKNOWN if job.ranks is None else str(job.ranks),
        "lost": _lost_text(job.gpus, job.lost_gpu_h),
        "wait": percent(_wait_ratio(job.seconds)),
        "late": UNDEFINED if straggler is None else straggler.machine,
    }
    state = State.OK if straggler is None else State.STARVED
    for slot in slots:
        if slot.column.id == "time":
            out += _bar(job.seconds, slot, state)
        else:
            out.append(slot.cell(texts[slot.column.id], "strong" if slot.column.id == "late" and straggler else ""))
    return place(width, *out, background="sel" if marked else "", key=f"{PREFIX}{job.key}")


def _lost_text(gpus: int | None, lost_gpu_h: float | None) -> str:
    """The GPU-hours lost; "-" without a GPU, "?" when unknown."""
    return UNDEFINED if gpus == 0 else figure(lost_gpu_h)


def _part_row(part: JobPart, slots: list[ColumnSlot], width: int, *, is_late: bool) -> Line:
    out = [
        Cell(0, ">" if is_late else " ", "strong"),
        Cell(1, cut(part.machine, _NAME_END - 3), "strong" if is_late else "text"),
    ]
    texts = {
        "gpus": UNKNOWN if part.gpus is None else str(part.gpus),
        "ranks": UNKNOWN if part.ranks is None else str(part.ranks),
        "lost": _lost_text(part.gpus, part.lost_gpu_h),
        "wait": percent(_wait_ratio(part.seconds)),
    }
    for slot in slots:
        if slot.column.id == "time":
            out += _bar(part.seconds, slot, State.STARVED if is_late else State.OK)
        else:
            out.append(slot.cell(texts[slot.column.id]))
    return place(width, *out)


def _wait_ratio(seconds: tuple[float, ...] | None) -> float | None:
    """The share of a job's time in which it waited for other ranks; None if no time was counted."""
    part = JobPart("", seconds=seconds)
    return part.share("collective") if seconds and sum(seconds) else None


def _bar(seconds: tuple[float, ...] | None, slot: ColumnSlot, state: State) -> list[Cell]:
    if not seconds or not sum(seconds):
        return [slot.cell(UNKNOWN)]
    return span_cells(bar_spans(seconds, slot.last - slot.first + 1, state), slot.first)
