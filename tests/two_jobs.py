"""Recordings of two jobs: the trainer of tests/job_times.py, which loses time to a slow disk, and one that computes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from iotop_ai.model.job.records import JobTable
from iotop_ai.model.job.time_shares import TimeCounts
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.reading import Reading
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.pipeline import frames
from tests.job_times import job_key, slow_disk
from tests.tui.recorded import record

STALLS, COMPUTES = 30512, 130512
"""The pids of the two jobs."""


def side_by_side(path: Path) -> str:
    """Record both jobs at the same time."""
    return _recorded(path, (_with_computing_job(one, keep_stalling=True) for one in _snapshots()))


def one_after_the_other(path: Path, *, stalls_first: bool) -> str:
    """Record one job after the other; both last equally long."""
    stalling = _snapshots()
    offset_ns = stalling[-1].at_ns - stalling[0].at_ns + 10**9
    machine = stalling[-1 if stalls_first else 0]
    computing = [_with_computing_job(_later(machine, one), keep_stalling=False) for one in stalling]
    earlier, later = (stalling, computing) if stalls_first else (computing, stalling)
    return _recorded(path, [*earlier, *(_moved(one, offset_ns) for one in later)])


def _snapshots() -> list[Snapshot]:
    return [frame.snapshot for frame in slow_disk()[1:]]


def _recorded(path: Path, snapshots: Iterable[Snapshot]) -> str:
    numbered = (one._replace(seq=n) for n, one in enumerate(snapshots, 1))
    return record(path, list(frames(numbered)))


def _with_computing_job(snapshot: Snapshot, *, keep_stalling: bool) -> Snapshot:
    """The Snapshot with the job that computes. keep_stalling: whether it keeps the job that loses time."""
    table = snapshot.jobs.value
    assert table is not None
    key = job_key(slow_disk()[1])
    other = key._replace(pid=COMPUTES)
    rank = table.jobs[key].ranks[0]._replace(key=other)
    job = table.jobs[key]._replace(key=other, name="other.py", ranks=(rank,))
    spent = sum(table.times[key])
    value = JobTable(
        jobs=_if_kept(table.jobs, keep_stalling) | {other: job},
        sweeps=_if_kept(table.sweeps, keep_stalling),
        tasks=_if_kept(table.tasks, keep_stalling),
        places=_if_kept(table.places, keep_stalling),
        own_cpu_ns=table.own_cpu_ns,
        times=_if_kept(table.times, keep_stalling) | {other: TimeCounts(compute=spent)},
    )
    return snapshot._replace(jobs=snapshot.jobs._replace(value=value))


def _if_kept(table: Mapping[ProcessKey, Any], kept: bool) -> dict[ProcessKey, Any]:
    return dict(table) if kept else {}


def _later(still: Snapshot, now: Snapshot) -> Snapshot:
    """The Snapshot ``still`` moved to the time of ``now``, with the jobs of ``now`` and no request in flight."""
    block = {key: counters._replace(in_flight=0) for key, counters in (still.block.value or {}).items()}
    moved = _moved(still._replace(block=still.block._replace(value=block)), now.at_ns - still.at_ns)
    return moved._replace(jobs=now.jobs)


def _moved(snapshot: Snapshot, by_ns: int) -> Snapshot:
    """The Snapshot, with all its times moved."""
    changes: dict[str, Any] = {"at_ns": snapshot.at_ns + by_ns, "wall_ns": snapshot.wall_ns + by_ns}
    for name, value in zip(snapshot._fields, snapshot, strict=True):
        if isinstance(value, Reading) and value.at_ns is not None:
            changes[name] = value._replace(at_ns=value.at_ns + by_ns)
    return snapshot._replace(**changes)
