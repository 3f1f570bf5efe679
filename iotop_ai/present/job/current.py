"""The job that the verdict is about: its mount, its parts of the data path, and how its workers spend their time."""

from __future__ import annotations

from iotop_ai.model.frame import Frame
from iotop_ai.model.job.exits import have_ended
from iotop_ai.model.job.records import Job, JobMount
from iotop_ai.present.text import units
from iotop_ai.present.text.line import Cell, Line, Span, place
from iotop_ai.present.text.units import token_of
from iotop_ai.present.verdict.advice import word
from iotop_ai.present.verdict.culprit import NO_CULPRIT, Culprit

BLOCKED = 0.5
"""The row of the workers' states highlights the share of blocked time if it is at least this large."""


def current_job(frame: Frame) -> Job | None:
    """The job of the verdict, otherwise the first job of this user, otherwise the first job; None without any."""
    table = frame.snapshot.jobs.value
    if table is None or not table.jobs:
        return None
    pid = frame.verdict.job_pid
    own = [job for job in table.jobs.values() if job.uid == frame.snapshot.host.euid]
    return next((job for key, job in table.jobs.items() if key.pid == pid), (own or list(table.jobs.values()))[0])


def job_mount(frame: Frame, job: Job) -> JobMount | None:
    """The mount of the job's data: the one that the verdict names, otherwise the most used one; None when unknown."""
    table = frame.snapshot.jobs.value
    mounts = () if table is None or job.key not in table.places else table.places[job.key].mounts
    named_path = word(dict(frame.verdict.primary.args), "mount")
    return next((mount for mount in mounts if mount.path == named_path), mounts[0] if mounts else None)


def job_hops(job: Job, culprit: Culprit) -> list[list[Span]]:
    """The job and its workers as parts of the path: "slurm 48213 alice train.py x8", "64 workers". A part that the
    verdict names has the verdict's colour.
    """
    trainer_hue = culprit.hue if any(rank.key.pid in culprit.pids for rank in job.ranks) else "text"
    ranks = f" x{len(job.ranks)}" if len(job.ranks) > 1 else ""
    label = [Span(f"{job.label} ", "dim")] if job.label else []
    out = [[*label, Span(f"{job.user} ", "dim"), Span(f"{job.name}{ranks}", trainer_hue)]]
    workers = len(job.workers)
    if workers:
        worker_hue = culprit.hue if any(key.pid in culprit.pids for key in job.workers) else "text"
        out.append([Span(f"{workers} worker{'s' if workers > 1 else ''}", worker_hue)])
    return out


def job_waits(frame: Frame, width: int, culprit: Culprit = NO_CULPRIT) -> Line | None:
    """The shares of time that the job's workers spend in each state, in a fixed order; None when unknown, or if the
    workers have ended, because the last shares are then out of date.

    For a job without workers, the row shows the time of the first rank's trainer. The state that the verdict names has
    the verdict's colour.
    """
    job, sample = current_job(frame), frame.sample.jobs.value
    rates = None if job is None or sample is None else sample.jobs.get(job.key)
    if job is None or sample is None or rates is None:
        return None
    if have_ended(job.workers or (job.ranks[0].key,), frame.snapshot.processes.value):
        return None
    if job.workers:
        name, shares = "workers", (
            rates.worker_disk_ratio, rates.worker_cpu_ratio, rates.worker_cpu_wait_ratio, rates.worker_idle_ratio,
        )  # fmt: skip
    else:
        task = sample.tasks.get(job.ranks[0].key)
        if task is None:
            return None
        name, shares = "trainer", (task.disk_ratio, task.cpu_ratio, task.cpu_wait_ratio, task.idle_ratio)
    blocked = shares[0]
    if blocked is not None:
        # The blocked time is sampled, while the time on a CPU and the time waiting for a CPU are counted exactly.
        blocked = min(blocked, max(0.0, 1.0 - sum(share or 0.0 for share in shares[1:3])))
    high = blocked is not None and blocked >= BLOCKED
    # The figures of all four states need 60 columns; the bar takes the rest.
    room = max(0, min(40, width - 60))
    out = [Cell(1, name, "dim"), Cell(10, "BLOCKED" if high else "blocked", "bad" if high else "dim")]
    if room and blocked is not None:
        filled = min(room, round(room * blocked))
        out += [Cell(18, "━" * filled, "hot" if high else "graph"), Cell(18 + filled, "─" * (room - filled), "faint")]
    text = units.percent(blocked)
    x = 18 + room + (3 if room else 2)
    out += [Cell(x, text, "strong" if high else token_of(text), right=True), Cell(x + 2, "%", "dim")]
    x += 5
    for label, value in zip(("run", "cpu-wait", "idle"), shares[1:], strict=True):
        text, end = units.percent(value), x + len(label) + 3
        if end >= width - 1:
            break
        is_culprit = label == culprit.worker_state
        out.append(Cell(x, label.upper() if is_culprit else label, culprit.hue if is_culprit else "dim"))
        out.append(Cell(end, text, "strong" if is_culprit else token_of(text), right=True))
        x = end + 3
    if x - 1 < width:
        out.append(Cell(x - 1, "%", "dim"))
    return place(width, *out)
