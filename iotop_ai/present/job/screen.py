"""The jobs screen: a row for each training job, the largest loss first, and the details of the job under the cursor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from textwrap import wrap

from iotop_ai.diagnosis.engine import with_job_verdict
from iotop_ai.diagnosis.facts.job import JobFacts
from iotop_ai.diagnosis.facts.leading_job import Importance, importance
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.records import Job
from iotop_ai.model.job.time_shares import TimeCounts
from iotop_ai.model.verdict_class import State
from iotop_ai.present.job.cgroup import cgroup_text
from iotop_ai.present.job.current import job_waits
from iotop_ai.present.job.data_path import hops, no_files_text
from iotop_ai.present.job.steps import loader_text, ranks_text, steps_text
from iotop_ai.present.job.time_bar import largest_loss, share_token
from iotop_ai.present.job.time_words import NOT_RECORDED, parts_of
from iotop_ai.present.screen.key_row import above_rows, mode_spans, words_above
from iotop_ai.present.screen.selection import next_in_order
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.fit import fit
from iotop_ai.present.text.line import Cell, Line, Span, blank, cut, place, row
from iotop_ai.present.text.panel import reason_row
from iotop_ai.present.text.states import HUE
from iotop_ai.present.text.table import Column, ColumnSlot, fit_columns, head, place_columns, rule
from iotop_ai.present.text.units import UNDEFINED, UNKNOWN, count, duration, figure, gpu_time, mib, percent, size
from iotop_ai.present.text.wrap import wrap_cells
from iotop_ai.present.verdict import headline
from iotop_ai.present.verdict.advice import limit_text, word
from iotop_ai.present.verdict.banner import HEADLINE_MARK, verdict_row
from iotop_ai.present.verdict.culprit import culprit_of
from iotop_ai.present.verdict.facts import rule_facts

KEYS = ("jobs.back", "jobs.up", "jobs.choose", "jobs.next", "detail.back", "jobs.help", "app.quit")
"""The actions shown in the last row."""
PREFIX = "job:"
"""The key of a job's row is this prefix and the pid of the job's topmost process."""
_NAME_END = 13
"""The cell in which the table's columns begin, after the job's name, on a narrow screen."""
COLUMNS = (
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
_COUNTS = ("ranks", "workers", "gpus")
"""The columns of counts."""
_WIDE = 120
"""The minimum width of a screen on which a job's name has more room."""
_HIGH_WAIT = 0.2
"""A job's row highlights its share of time without data if it is at least this large."""
_QUIET_BYTES_PER_S = 100_000.0
"""A job that reads fewer bytes per second counts as not reading."""
_NO_JOB = (
    "A job is a program that has PyTorch, TensorFlow or JAX loaded or uses a GPU; or a program that computes and has "
    "XGBoost, LightGBM or scikit-learn loaded, was started by torchrun, deepspeed, accelerate, MPI or Slurm, or uses "
    "Ray; or a Python script with busy worker processes. Loaders and ranks are part of their job. Only root sees all "
    "of other users' programs."
)
_EVIDENCE = {
    "gpu": "holds a GPU",
    "device": "has a GPU device open",
    "library": "library loaded",
    "loader": "loader processes",
    "children": "busy child processes",
    "launcher": "training launcher",
    "mpi": "started by MPI",
    "slurm": "Slurm job",
    "ray": "uses Ray",
    "notebook": "notebook",
}
"""The screen's words for each kind of evidence that a program is a training job."""
_KINDS = {
    "ray": "Ray tasks and actors",
    "prep": "those of a Hugging Face dataset's map()",
    "env": "simulated environments, which load no data",
    "pool": "a multiprocessing pool",
}
"""The screen's words for each kind of worker, except loaders, which the evidence names."""


class JobRow(NamedTuple):
    """One job of the list. lost_gpu_hours: the GPU-hours lost so far; None without a GPU or while the GPU's use is
    unknown. device: the disk or mount that the job reads from, such as "sda", "sda +1" for two disks, or "/mnt/data";
    "" when unknown. disk: the kernel name of that disk; of several disks, the name of the first slow one; "" for a
    mount or when unknown.
    """

    facts: JobFacts
    lost_gpu_hours: float | None
    device: str
    disk: str

    @property
    def pid(self) -> int:
        """The pid of the job's topmost process."""
        return self.facts.job.key.pid


def job_rows(frame: Frame, view: View) -> tuple[JobRow, ...]:
    """All jobs, the largest loss first: sorted by lost GPU-hours, lost hours, the current wait and ``importance``."""
    facts = rule_facts(frame, view)
    lost_hours = frame.carry.lost
    out = []
    for job_facts in facts.jobs:
        device = facts.job_device(job_facts)
        remote = job_facts.remote_mount
        hours = lost_hours.get(job_facts.job.key, 0.0)
        where = remote.path if remote is not None else ""
        if device is not None:
            where = f"{device.name} +{len(device.members) - 1}" if device.members else device.name
        gpu_use_known = job_facts.gpus > 0 and job_facts.gpu_busy is not None
        disk = "" if device is None else device.name
        out.append(JobRow(job_facts, hours * job_facts.gpus if gpu_use_known else None, where, disk))

    def order(job: JobRow) -> tuple[float, float, float, Importance]:
        hours = lost_hours.get(job.facts.job.key, 0.0)
        # The wait of an idle program does not matter.
        wait = (job.facts.stall or 0.0) if job.facts.active else 0.0
        return (-hours * job.facts.gpus, -hours, -wait, importance(job.facts))

    return tuple(sorted(out, key=order))


def job_after(frame: Frame, view: View, pid: int, step: int) -> int:
    """The pid of the next (step 1) or previous (step -1) job, wrapping around; 0 if there are no jobs."""
    return next_in_order([job_row.pid for job_row in job_rows(frame, view)], pid, step) or 0


def jobs_screen_rows(frame: Frame, view: View, width: int, height: int, cursor: int) -> list[Line]:
    """The screen as exactly ``height`` lines. cursor: the pid of the job under the cursor; if that job is not in the
    list, the cursor is on the first row.
    """
    jobs = job_rows(frame, view)
    body = _body(frame, view, width, max(0, height - 2), jobs, cursor) if jobs else _no_job_rows(frame, view, width)
    rows = [verdict_row(frame, view, width), *body]
    return above_rows(rows, words_above(KEYS, view), view, width, height, mode_spans(frame, view))


def _no_job_rows(frame: Frame, view: View, width: int) -> list[Line]:
    out = [rule(width, "jobs")]
    if frame.snapshot.jobs.value is None:
        return [*out, reason_row(width, frame.snapshot.jobs, view)]
    if ended_pid := frame.verdict.job_pid:
        name = word(dict(frame.verdict.primary.args), "job") or "the job"
        text = f" {name} (pid {ended_pid}) has ended; the verdict is about its last moments"
        return [*out, row(width, [Span(text, "strong")])]
    out.append(row(width, [Span(" no training job seen", "strong")]))
    return [*out, *(row(width, [Span(f" {text}", "dim")]) for text in wrap(_NO_JOB, max(20, width - 2)))]


def _body(frame: Frame, view: View, width: int, height: int, jobs: tuple[JobRow, ...], cursor: int) -> list[Line]:
    selected = next((job_row for job_row in jobs if job_row.pid == cursor), jobs[0])
    visible = max(1, min(len(jobs), height // 3))
    start = max(0, min(jobs.index(selected) - visible // 2, len(jobs) - visible))
    slots = _column_slots(width, jobs)
    title = "jobs" if len(jobs) == visible else f"jobs {start + 1}-{start + visible} of {len(jobs)}"
    out = [head(width, title, slots)]
    names = row_names(jobs, slots[0].first - 2)
    out += [
        _row(frame, width, slots, job_row, names[job_row.pid], selected=job_row is selected)
        for job_row in jobs[start : start + visible]
    ]
    if height >= 20:
        out.append(blank(width))
    out += _detail(frame, view, width, selected)
    for job_row in jobs:
        # Details of other jobs follow if they fit completely.
        more = [] if job_row is selected else [blank(width), *_detail(frame, view, width, job_row)]
        if len(out) + len(more) > height:
            break
        out += more
    return out


def _column_slots(width: int, jobs: tuple[JobRow, ...]) -> list[ColumnSlot]:
    """The columns that fit. The columns of counts widen for large counts, and the column of the user's name narrows by
    as much.
    """
    start = 30 if width >= _WIDE else _NAME_END
    texts = [_counts_of(job_row.facts) for job_row in jobs]
    widths = {id_: max(len(counts[id_]) for counts in texts) + 1 for id_ in _COUNTS}
    columns = [c._replace(width=max(c.width, widths.get(c.id, 0))) for c in COLUMNS]
    more = sum(c.width for c in columns) - sum(c.width for c in COLUMNS)
    columns = [c._replace(width=c.width - more) if c.id == "user" else c for c in columns]
    return place_columns(fit_columns(columns, width - start), start, width)


def _counts_of(facts: JobFacts) -> dict[str, str]:
    """The numbers of ranks, workers and GPUs by column, from 10,000 on as "12k"."""
    return dict(zip(_COUNTS, map(count, (len(facts.job.ranks), facts.workers, facts.gpus)), strict=True))


def row_names(jobs: Sequence[JobRow], room: int) -> dict[int, str]:
    """The name of each job by its pid, in at most ``room`` cells. If several jobs share a name and user, each name is
    followed by the PID, and the name is cut rather than the PID.
    """
    counts = Counter((job_row.facts.job.name, job_row.facts.job.user) for job_row in jobs)
    out = {}
    for job_row in jobs:
        job = job_row.facts.job
        mark = f" {job_row.pid}" if counts[job.name, job.user] > 1 else ""
        out[job_row.pid] = cut(job.name, max(1, room - len(mark))) + mark
    return out


def _utilisation(facts: JobFacts) -> float | None:
    """The share of the job's time in which it computes; where its time is not counted, the share with data."""
    if facts.time is not None:
        return facts.time.compute
    return None if facts.stall is None else 1 - facts.stall


def _row(frame: Frame, width: int, slots: list[ColumnSlot], job_row: JobRow, name: str, *, selected: bool) -> Line:
    facts = job_row.facts
    stall = facts.stall
    texts = {
        "user": facts.job.user or UNKNOWN,
        **_counts_of(facts),
        "wait": percent(stall),
        "au": percent(_utilisation(facts)),
        "gpu": percent(facts.gpu_busy) if facts.gpus else UNDEFINED,
        "rate": mib(facts.read_bytes_per_s),
        "run": _share(facts, facts.worker_cpu),
        "queue": _share(facts, facts.worker_cpu_wait),
        "blocked": _share(facts, facts.worker_disk),
        "idle": _share(facts, facts.worker_idle),
        "lost": UNDEFINED if job_row.lost_gpu_hours is None else figure(job_row.lost_gpu_hours),
        "device": job_row.device or (UNDEFINED if _reads_nothing(facts) else UNKNOWN),
    }
    is_leading = frame.verdict.job_pid == job_row.pid
    cells = [Cell(0, ">" if is_leading else " ", "strong")]
    cells.append(Cell(1, name, "strong" if is_leading else "text"))
    for slot in slots:
        text = texts[slot.column.id]
        high = slot.column.id == "wait" and (stall or 0.0) >= _HIGH_WAIT
        cells.append(slot.cell(text, "strong" if high else ""))
    return place(width, *cells, background="sel" if selected else "", key=f"{PREFIX}{job_row.pid}")


def _reads_nothing(facts: JobFacts) -> bool:
    return facts.read_bytes_per_s is not None and facts.read_bytes_per_s < _QUIET_BYTES_PER_S


def _share(facts: JobFacts, value: float | None) -> str:
    """A share of the workers' time; "-" if the job has no workers."""
    return percent(value) if facts.workers else UNDEFINED


def _detail(frame: Frame, view: View, width: int, job_row: JobRow) -> list[Line]:
    """The details of a job: its verdict, its path, the waits of its workers, its lost time and its limits."""
    facts, job = job_row.facts, job_row.facts.job
    job_frame = with_job_verdict(frame, job_row.pid)
    verdict = job_frame.verdict
    state = verdict.state
    right = [Span(f"{job.label}  " if job.label else "", "dim"), Span(f"pid {job_row.pid}", "dim")]
    out = [rule(width, f"{job.name} of {job.user}", right)]
    sentence = fit(headline.headline(verdict), width - 12, HEADLINE_MARK)
    out.append(row(width, [Span(f" {state.value:<9}", HUE[state]), *sentence]))
    for label, clauses_of in (("because", headline.because), ("do", headline.advice)):
        if clauses := fit(clauses_of(verdict), width - 12):
            spans = [Span(s.text, "strong") if s.token == "bad" else s for s in clauses]
            out.append(row(width, [Span(f" {label:<9}", "dim"), *spans]))
    own_view = view._replace(device="") if view.device else view  # a disk that the user has pinned does not count here
    out.append(row(width, [Span(f" {'path':<9}", "dim"), *hops(job_frame, own_view, width - 11)]))
    waits_row = job_waits(job_frame, width, culprit_of(job_frame, view))
    if waits_row is not None:
        out.append(waits_row)
    out += _time(frame, width, job_row, state)
    for label, text in _labelled_facts(frame, job_row):
        for i, piece in enumerate(wrap_cells(text, max(20, width - 12))):
            out.append(place(width, *([Cell(1, label, "dim")] if not i else []), Cell(10, piece)))
    if facts.age_s is not None:
        out.append(place(width, Cell(1, "age", "dim"), Cell(10, duration(facts.age_s))))
    return out


def _time_counts(frame: Frame, job_row: JobRow) -> TimeCounts | None:
    """The job's time in ms since it was first watched, by share; None if it was not recorded."""
    table = frame.snapshot.jobs.value
    return None if table is None else table.times.get(job_row.facts.job.key)


def _time(frame: Frame, width: int, job_row: JobRow, state: State) -> list[Line]:
    """A row for each share above 0 of the job's time since it was first watched: percent, h:mm:ss and a bar."""
    counts = _time_counts(frame, job_row)
    if counts is None:
        return [place(width, Cell(1, "time", "dim"), Cell(10, NOT_RECORDED, "dim"))]
    out: list[Line] = []
    for part in parts_of(counts):
        cells = [Cell(10, part.name), Cell(28, part.figure, "strong" if not out else "text", right=True)]
        cells += [Cell(30, "%", "dim"), Cell(42, _clock(getattr(counts, part.share)), right=True)]
        label = [] if out else [Cell(1, "time", "dim")]
        token = share_token(part.share, part.share == largest_loss(counts), state)
        filled = round(part.value * max(0, width - 46))
        out.append(place(width, *label, *cells, Cell(45, "━" * filled, token)))
    return out


def _clock(milliseconds: int) -> str:
    """A duration in milliseconds as h:mm:ss."""
    minutes, seconds = divmod(round(milliseconds / 1000), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


def _labelled_facts(frame: Frame, job_row: JobRow) -> list[tuple[str, str]]:
    """The facts about the job as (label, text): its steps, its loss, the evidence that it is a job, its limits and its
    mounts, among others.
    """
    job, own_place = job_row.facts.job, job_row.facts.place
    evidence = ", ".join(filter(None, (job.framework, *(_EVIDENCE.get(kind, kind) for kind in job.evidence))))
    kinds = dict.fromkeys(_KINDS[rank.worker_kind] for rank in job.ranks if rank.worker_kind in _KINDS)
    hidden = _hidden(frame, job)
    limits = [
        f"{limit_text({'what': limit.what, 'limit': float(limit.value)})} ({limit.what} in {limit.file})"
        for limit in own_place.limits
    ]
    if own_place.cpu_cores is not None:
        limits.append(f"CPU quota {figure(own_place.cpu_cores).removesuffix('.0')} cores")
    if own_place.allowed_cores is not None:
        limits.append(f"can run on {own_place.allowed_cores} CPUs")
    if own_place.memory_limit_bytes is not None:
        limits.append(f"memory {size(own_place.memory_used_bytes)}B of {size(own_place.memory_limit_bytes)}B")
    if own_place.shm_total_bytes:
        limits.append(f"/dev/shm {size(own_place.shm_used_bytes)}B of {size(own_place.shm_total_bytes)}B")
    mounts = [f"{mount.path} {mount.fstype}" for mount in own_place.mounts]
    group = cgroup_text(frame, job.key)
    steps, by_rank, loader = steps_text(frame, job), ranks_text(frame, job), loader_text(frame, job)
    return [
        *([("steps", steps)] if steps else []),
        *([("by rank", by_rank)] if by_rank else []),
        *([("loader", loader)] if loader else []),
        ("lost", _lost_text(frame, job_row)),
        ("known by", evidence or UNKNOWN),
        *([("kind", f"the workers are {', '.join(kinds)}")] if kinds else []),
        *([("hidden", hidden)] if hidden else []),
        ("limits", ", ".join(limits) or "none seen"),
        *([("cgroup", group)] if group else []),
        ("data", ", ".join(mounts) or no_files_text(frame, job)),
    ]


def _lost_text(frame: Frame, job_row: JobRow) -> str:
    """The job's lost time: the sum of the shares that count as lost; if they were not recorded, the time of verdicts
    with a loss.
    """
    counts = _time_counts(frame, job_row)
    if counts is None:
        hours, since = frame.carry.lost.get(job_row.facts.job.key, 0.0), "a loss was first reported"
        gpu_hours = job_row.lost_gpu_hours
    else:
        hours, since = counts.lost_ms / 3.6e6, "it was first watched"
        gpu_hours = None if job_row.lost_gpu_hours is None else hours * job_row.facts.gpus
    lost = f"{duration(hours * 3600)} of its time since {since}"
    return lost if gpu_hours is None else f"{lost}, {gpu_time(gpu_hours)}"


def _hidden(frame: Frame, job: Job) -> str:
    """The parts of the job that this user cannot read; "" if all are readable."""
    parts = list(job.hidden)
    table = frame.snapshot.processes.value
    if table is not None and not job.members.isdisjoint(table.denied):
        parts.append("I/O")
    users = "root" if job.user == "root" else f"{job.user} or as root"
    return f"{', '.join(parts)}: not permitted; run as {users}" if parts else ""
