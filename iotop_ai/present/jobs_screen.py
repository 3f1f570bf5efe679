"""Every training job over the whole screen: a row each, what loses most first, and the one under the cursor in full."""

from __future__ import annotations

from textwrap import wrap

from iotop_ai.diagnosis.engine import turned
from iotop_ai.diagnosis.jobs import JobFacts, job_device
from iotop_ai.model.frame import Frame
from iotop_ai.model.record import NamedTuple
from iotop_ai.present import finding, window
from iotop_ai.present.advice import limit_text
from iotop_ai.present.banner import HUE
from iotop_ai.present.columns import Column, Placed, chosen, head, placed, rule
from iotop_ai.present.jobs import job_waits
from iotop_ai.present.keys import above_rows
from iotop_ai.present.line import Cell, Line, Span, blank, cut, place, row
from iotop_ai.present.panel import quiet
from iotop_ai.present.path import hops
from iotop_ai.present.select import after
from iotop_ai.present.units import UNDEFINED, UNKNOWN, duration, figure, gpu_time, mib, percent, size
from iotop_ai.present.view import View

KEYS = (
    ("Esc", "back"),
    ("Up Down", "job"),
    ("Enter", "choose it"),
    ("j", "next"),
    ("[ ]", "time"),
    ("?", "help"),
    ("q", "quit"),
)
"""Every one of them works on this screen."""
PREFIX = "job:"
_NAME_END = 13
_COLUMNS = (
    Column("user", "user", 8, 3, 12, left=True),
    Column("ranks", "rk", 3, 3, 6),
    Column("workers", "wrk", 4, 3, 6),
    Column("gpus", "gpu", 4, 3, 6),
    Column("wait", "wait%", 6, 0, 8),
    Column("au", "AU%", 4, 2, 7),
    Column("gpu", "GPU%", 5, 2, 7),
    Column("rate", "MB/s", 6, 0, 8),
    Column("run", "run", 4, 4, 7),
    Column("queue", "queue", 6, 4, 7),
    Column("blocked", "D", 4, 4, 7),
    Column("idle", "idle", 5, 4, 7),
    Column("lost", "GPU-h lost", 12, 6),
    Column("device", "disk", 8, 1, 24, left=True, gap=2),
)
_WIDE = 120
_QUIET = 100_000.0
"""Bytes a second below which a job reads from nowhere."""
_NO_JOB = (
    "A job is a program that has PyTorch, TensorFlow or JAX loaded, uses a GPU, or was started by torchrun, deepspeed "
    "or accelerate; its loaders and ranks belong to it. Other users' programs are seen in full by root only."
)


class JobRow(NamedTuple):
    """One job as it is listed. lost_h: GPU-hours so far, None without a GPU. device: "" when it is not seen."""

    facts: JobFacts
    lost_h: float | None
    device: str

    @property
    def pid(self) -> int:
        """The process at its top."""
        return self.facts.job.key.pid


def job_rows(frame: Frame, view: View) -> tuple[JobRow, ...]:
    """Every job, the one that has lost most first: GPU-hours, then hours, then what waits most now."""
    facts = window.facts(frame, view)
    lost = frame.carry.lost
    out = []
    for one in facts.jobs:
        device = job_device(one, facts.devices, facts.limits.carried_share)
        remote = one.remote_mount
        hours = lost.get(one.job.key, 0.0)
        where = device.name if device is not None else remote.path if remote is not None else ""
        out.append(JobRow(one, hours * one.gpus if one.gpus and one.gpu_busy is not None else None, where))

    def order(found: JobRow) -> tuple[float, float, float, int]:
        hours = lost.get(found.facts.job.key, 0.0)
        return (-hours * found.facts.gpus, -hours, -(found.facts.stall or 0.0), found.pid)

    return tuple(sorted(out, key=order))


def job_after(frame: Frame, view: View, pid: int, step: int) -> int:
    """The pid of the next (+1) or previous (-1) job, round the end; 0 without any."""
    return after([one.pid for one in job_rows(frame, view)], pid, step) or 0


def jobs_screen_rows(frame: Frame, view: View, width: int, height: int, cursor: int) -> list[Line]:
    """Exactly ``height`` lines; cursor: pid of the job whose row is marked, the first when there is no such job."""
    found = job_rows(frame, view)
    room = max(0, height - 1)
    made = _none(frame, width) if not found else _body(frame, view, width, room, found, cursor)
    return above_rows(made, KEYS, view, width, height)


def _none(frame: Frame, width: int) -> list[Line]:
    out = [rule(width, "jobs")]
    if frame.snapshot.jobs.value is None:
        return [*out, quiet(width, frame.snapshot.jobs)]
    out.append(row(width, [Span(" no training job seen", "strong")]))
    return [*out, *(row(width, [Span(f" {text}", "dim")]) for text in wrap(_NO_JOB, max(20, width - 2)))]


def _body(frame: Frame, view: View, width: int, height: int, found: tuple[JobRow, ...], cursor: int) -> list[Line]:
    under = next((one for one in found if one.pid == cursor), found[0])
    listed = max(1, min(len(found), height // 3))
    first = max(0, min(found.index(under) - listed // 2, len(found) - listed))
    at = _places(width)
    title = "jobs" if len(found) == listed else f"jobs {first + 1}-{first + listed} of {len(found)}"
    out = [head(width, title, at)]
    out += [_row(frame, width, at, one, marked=one is under) for one in found[first : first + listed]]
    if height >= 20:
        out.append(blank(width))
    out += _detail(frame, view, width, under)
    for one in found:
        # The others below it, as long as they are whole.
        more = [] if one is under else [blank(width), *_detail(frame, view, width, one)]
        if len(out) + len(more) > height:
            break
        out += more
    return out


def _places(width: int) -> list[Placed]:
    start = 30 if width >= _WIDE else _NAME_END
    return placed(chosen(_COLUMNS, width - start), start, width)


def _row(frame: Frame, width: int, at: list[Placed], one: JobRow, *, marked: bool) -> Line:
    facts = one.facts
    waits = facts.stall
    texts = {
        "user": facts.job.user or UNKNOWN,
        "ranks": str(len(facts.job.ranks)),
        "workers": str(facts.workers),
        "gpus": str(facts.gpus),
        "wait": percent(waits),
        "au": percent(None if waits is None else 1 - waits),
        "gpu": percent(facts.gpu_busy) if facts.gpus else UNDEFINED,
        "rate": mib(facts.read_bytes_per_s),
        "run": _share(facts, facts.worker_cpu),
        "queue": _share(facts, facts.worker_cpu_wait),
        "blocked": _share(facts, facts.worker_disk),
        "idle": _share(facts, facts.worker_idle),
        "lost": UNDEFINED if one.lost_h is None else figure(one.lost_h),
        "device": one.device or (UNDEFINED if _reads_nothing(facts) else UNKNOWN),
    }
    leads = frame.verdict.job_pid == one.pid
    cells = [Cell(0, ">" if leads else " ", "strong")]
    cells.append(Cell(1, cut(facts.job.name, at[0].first - 2), "strong" if leads else "text"))
    for spot in at:
        text = texts[spot.column.id]
        loud = spot.column.id == "wait" and (waits or 0.0) >= 0.2
        cells.append(spot.cell(text, "strong" if loud else ""))
    return place(width, *cells, background="sel" if marked else "", key=f"{PREFIX}{one.pid}")


def _reads_nothing(facts: JobFacts) -> bool:
    return facts.read_bytes_per_s is not None and facts.read_bytes_per_s < _QUIET


def _share(facts: JobFacts, value: float | None) -> str:
    """A share of the workers' time; "-" without workers."""
    return percent(value) if facts.workers else UNDEFINED


def _detail(frame: Frame, view: View, width: int, one: JobRow) -> list[Line]:
    """The job under the cursor: what is said about it, its path, where its workers wait, what surrounds it."""
    facts, job = one.facts, one.facts.job
    about = turned(frame, one.pid)
    verdict = about.verdict
    state = verdict.state
    right = [Span(f"{job.label}  " if job.label else "", "dim"), Span(f"pid {one.pid}", "dim")]
    out = [rule(width, f"{job.name} of {job.user}", right)]
    words = finding.fit(finding.headline(verdict, about), width - 12)
    out.append(row(width, [Span(f" {state.value:<9}", HUE[state]), *words]))
    for label, part in (("because", finding.because), ("do", finding.advice)):
        if said := finding.fit(part(verdict, about), width - 12):
            plain = [Span(s.text, "strong") if s.token == "bad" else s for s in said]
            out.append(row(width, [Span(f" {label:<9}", "dim"), *plain]))
    out.append(row(width, [Span(f" {'path':<9}", "dim"), *hops(about, view, width - 11)]))
    waits = job_waits(about, width)
    if waits is not None:
        out.append(waits)
    for label, text in _around(frame, one):
        for i, piece in enumerate(wrap(text, max(20, width - 12))):
            out.append(place(width, *([Cell(1, label, "dim")] if not i else []), Cell(10, piece)))
    if facts.age_s is not None:
        out.append(place(width, Cell(1, "age", "dim"), Cell(10, duration(facts.age_s))))
    return out


def _around(frame: Frame, one: JobRow) -> list[tuple[str, str]]:
    """What it has lost, how it was known, and what limits it."""
    job, put = one.facts.job, one.facts.place
    hours = frame.carry.lost.get(job.key, 0.0)
    lost = f"{duration(hours * 3600)} of its time so far"
    if one.lost_h is not None:
        lost += f", {gpu_time(one.lost_h)}"
    known = ", ".join(filter(None, (job.framework, *job.evidence)))
    limits = [f"{limit_text({'what': i.what, 'limit': float(i.value)})} ({i.what} in {i.file})" for i in put.limits]
    if put.cpu_cores is not None:
        limits.append(f"CPU quota {figure(put.cpu_cores).removesuffix('.0')} cores")
    if put.allowed_cores is not None:
        limits.append(f"may run on {put.allowed_cores} CPUs")
    if put.memory_limit_bytes is not None:
        limits.append(f"memory {size(put.memory_used_bytes)}B of {size(put.memory_limit_bytes)}B")
    if put.shm_total_bytes:
        limits.append(f"/dev/shm {size(put.shm_used_bytes)}B of {size(put.shm_total_bytes)}B")
    mounts = [f"{mount.path} {mount.fstype}" for mount in put.mounts]
    return [
        ("lost", lost),
        ("known by", known or UNKNOWN),
        ("limits", ", ".join(limits) or "none seen"),
        ("data", ", ".join(mounts) or "no data file is seen open"),
    ]
