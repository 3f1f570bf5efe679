"""The part of the rules' state (FoldState) about each job: when all its workers were replaced, and the time lost."""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.diagnosis.facts.window import mean
from iotop_ai.diagnosis.thresholds import LIMITS, Thresholds
from iotop_ai.model.fold_state import JobMemory, WorkerRestart
from iotop_ai.model.job.records import Job
from iotop_ai.model.job.task_states import JobRates
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Snapshot

MOST_RESTARTS = 8
"""The most restarts that are kept for a job."""
_WAITING = 0.5
"""A job waits for its new workers while at least this share of an interval is lost."""
_LEAST_WATCH_S = 2.0
"""For at least this long after a restart, lost time is charged to it, even while the job does not wait: the batches of
the old workers may last until then."""
_LONGEST_SWITCH_S = 3.0
"""The longest time without workers that belongs to a restart. A job without workers for longer did something else, such
as an evaluation that loads its data itself."""
NOTHING = JobMemory()

Memory = Mapping[ProcessKey, JobMemory]
"""What the rules remember of each job, by the key of its top process."""


def update(memory: Memory, snapshot: Snapshot, sample: Sample, limits: Thresholds = LIMITS) -> Memory:
    """What is remembered after one more Sample. A job that ended is forgotten."""
    table, reading = snapshot.jobs.value, sample.jobs
    if table is None or (not table.jobs and not memory):
        return memory
    is_new = reading.renewed and not sample.gap and reading.seconds is not None and reading.value is not None
    rates = reading.value.jobs if is_new and reading.value is not None else {}
    seconds = reading.seconds if is_new and reading.seconds is not None else 0.0
    out = {}
    for key, job in table.jobs.items():
        old = memory.get(key, NOTHING)
        lost_s = _lost_share(job, rates.get(key), sample, restarted=_are_replaced(old, job)) * seconds
        old = _with_worker_end(old, job, snapshot.at_ns - int(seconds * 1e9))
        new = _after_sample(old, job, snapshot.at_ns, seconds, lost_s, limits)
        if new != NOTHING:
            out[key] = new
    return out


def _are_replaced(old: JobMemory, job: Job) -> bool:
    """Whether all workers of the job's first rank are younger than those of the last Sample that had any."""
    starts = [worker.start_ticks for worker in job.ranks[0].workers]
    return bool(starts and old.newest_ticks) and min(starts) > old.newest_ticks


def _lost_share(job: Job, rates: JobRates | None, sample: Sample, *, restarted: bool) -> float:
    """The share of the interval without data; 0 if unknown.

    While a job has no workers, and if it got new ones in the interval, this is the share in which its trainer waits or
    starts new workers (a fork takes long in a large process), but at most the share in which its GPUs are idle.
    """
    if rates is None:
        return 0.0
    if job.workers and not (restarted and job.gpus):
        return rates.stall_ratio or 0.0
    gpus = sample.gpu.value or {}
    busy = mean(gpus[uuid].busy_ratio for uuid in job.gpus if uuid in gpus)
    waits = (rates.main_queue_ratio or 0.0) + (rates.main_running_ratio or 0.0)
    return max(0.0, min(waits, 1.0 - (busy or 0.0)))


def _with_worker_end(old: JobMemory, job: Job, since_ns: int) -> JobMemory:
    """The JobMemory; if the job has just lost its workers, ``last_worker_ended_ns`` is set to ``since_ns``.

    since_ns: the time of the previous Sample, when the workers were last seen.
    """
    if job.ranks[0].workers or not old.newest_ticks or old.last_worker_ended_ns is not None:
        return old
    return old._replace(last_worker_ended_ns=since_ns)


def _after_sample(old: JobMemory, job: Job, at_ns: int, seconds: float, lost_s: float, limits: Thresholds) -> JobMemory:
    """The JobMemory with a new restart if all workers were replaced, and with the lost time of the interval.

    lost_s: the lost time of the interval of ``seconds`` that ends at ``at_ns``. It belongs to the last restart while
    the job still waits for its new workers, else to other causes.
    """
    # The first rank stands for all ranks: the workers of several ranks are never all replaced at the same moment.
    starts = [worker.start_ticks for worker in job.ranks[0].workers]
    if not starts:
        return old._replace(idle_s=round(old.idle_s + lost_s, 3), following=False) if old.newest_ticks else old
    newest = max(old.newest_ticks, *starts)
    if _are_replaced(old, job):
        no_workers_s = 0.0 if old.last_worker_ended_ns is None else (at_ns - old.last_worker_ended_ns) / 1e9
        idle_s = old.idle_s + lost_s
        caused_s = idle_s * min(1.0, _LONGEST_SWITCH_S / no_workers_s) if no_workers_s else idle_s
        restart = WorkerRestart(at_ns, round(caused_s, 3), 0.0)
        restarts = old.restarts
        if old.following and restarts and (at_ns - restarts[-1].at_ns) / 1e9 >= _LEAST_WATCH_S + seconds:
            restarts = (*restarts[:-1], _unrelated(restarts[-1]))
        if restarts:
            last = restarts[-1]
            restarts = (*restarts[:-1], last._replace(other_s=round(last.other_s + idle_s - caused_s, 3)))
        return JobMemory(newest, (*restarts, restart)[-MOST_RESTARTS:], True)
    if not old.restarts:
        return JobMemory(newest)
    waiting = lost_s >= _WAITING * seconds > 0
    last, lost_s = old.restarts[-1], lost_s + old.idle_s
    age_s = (at_ns - last.at_ns) / 1e9
    following = old.following and (waiting or age_s < _LEAST_WATCH_S)
    if old.following and age_s > limits.respawn_most_s:
        last, following = _unrelated(last), False
    if old.following and age_s <= limits.respawn_most_s:
        last = last._replace(lost_s=round(last.lost_s + lost_s, 3))
    else:
        last = last._replace(other_s=round(last.other_s + lost_s, 3))
    return JobMemory(newest, (*old.restarts[:-1], last), following)


def _unrelated(restart: WorkerRestart) -> WorkerRestart:
    """The restart with its lost time moved to ``other_s``: the wait did not end, so the restart is not its cause."""
    return restart._replace(lost_s=0.0, other_s=round(restart.other_s + restart.lost_s, 3))
