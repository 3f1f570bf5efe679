"""What the fold remembers of each job beyond the window: when all of its workers were replaced, and what that cost."""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.diagnosis.thresholds import LIMITS, Thresholds
from iotop_ai.diagnosis.window import mean
from iotop_ai.model.carry import JobMemory, Turn
from iotop_ai.model.job import Job
from iotop_ai.model.process import ProcessKey
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.model.taskstate import JobRates

MOST_TURNS = 8
_WAITING = 0.5
_AT_LEAST_S = 2.0
"""New workers are followed for so long even when nobody waits yet: the batches of the old ones may still last."""
NOTHING = JobMemory()

Memory = Mapping[ProcessKey, JobMemory]


def remember(memory: Memory, snapshot: Snapshot, sample: Sample, limits: Thresholds = LIMITS) -> Memory:
    """With one more Sample. Jobs that are gone are forgotten."""
    table, rated = snapshot.jobs.value, sample.jobs
    if table is None or (not table.jobs and not memory):
        return memory
    fresh = rated.renewed and not sample.gap and rated.seconds is not None and rated.value is not None
    rates = rated.value.jobs if fresh and rated.value is not None else {}
    seconds = rated.seconds if fresh and rated.seconds is not None else 0.0
    out = {}
    for key, job in table.jobs.items():
        old = memory.get(key, NOTHING)
        lost = _lost(job, rates.get(key), sample) * seconds
        new = _step(old, job, snapshot.at_ns, lost, lost >= _WAITING * seconds > 0, limits)
        if new != NOTHING:
            out[key] = new
    return out


def _lost(job: Job, rates: JobRates | None, sample: Sample) -> float:
    """The share of the interval without data. Between two sets of workers the trainer waits, or makes new ones."""
    if rates is None:
        return 0.0
    if job.workers:
        return rates.stall_ratio or 0.0
    gpus = sample.gpu.value or {}
    busy = mean(gpus[uuid].busy_ratio for uuid in job.gpus if uuid in gpus)
    waits = (rates.main_queue_ratio or 0.0) + (rates.main_running_ratio or 0.0)
    return max(0.0, min(waits, 1.0 - (busy or 0.0)))


def _step(old: JobMemory, job: Job, at_ns: int, lost_s: float, waiting: bool, limits: Thresholds) -> JobMemory:
    # One rank stands for all: with several, there is no moment at which all of their workers are new.
    starts = [worker.start_ticks for worker in job.ranks[0].workers]
    if not starts:
        return old._replace(idle_s=round(old.idle_s + lost_s, 3), following=False) if old.newest_ticks else old
    newest = max(old.newest_ticks, *starts)
    if old.newest_ticks and min(starts) > old.newest_ticks:
        turn = Turn(at_ns, round(old.idle_s + lost_s, 3), 0.0)
        before = old.turns
        if old.following and before:
            before = (*before[:-1], _unrelated(before[-1]))
        return JobMemory(newest, (*before, turn)[-MOST_TURNS:], True)
    if not old.turns:
        return JobMemory(newest)
    last, lost_s = old.turns[-1], lost_s + old.idle_s
    age_s = (at_ns - last.at_ns) / 1e9
    following = old.following and (waiting or age_s < _AT_LEAST_S)
    if old.following and age_s > limits.respawn_most_s:
        last, following = _unrelated(last), False
    if old.following and age_s <= limits.respawn_most_s:
        last = last._replace(lost_s=round(last.lost_s + lost_s, 3))
    else:
        last = last._replace(other_s=round(last.other_s + lost_s, 3))
    return JobMemory(newest, (*old.turns[:-1], last), following)


def _unrelated(turn: Turn) -> Turn:
    """A turn after which the wait did not end: it is not the turn's."""
    return turn._replace(lost_s=0.0, other_s=round(turn.other_s + turn.lost_s, 3))
