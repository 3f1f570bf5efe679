"""Frames of a real trainer on a slow disk, with where its time went: 7 reads of 128 KiB a batch at 51 ms, no workers.

Recorded by ``python -m tests.scenarios.run --class "storage_read nw=0" --seconds 60``, its first 45 Snapshots cut down
by tests/scenarios/slim.py.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from iotop_ai.model.frame import Frame
from iotop_ai.model.job.time_shares import TimeCounts
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.pipeline import frames
from tests.scenarios.keep import snapshots

SLOW_DISK = Path(__file__).parent / "data" / "job_time" / "slow_disk.iotop.jsonl.gz"


@cache
def slow_disk() -> tuple[Frame, ...]:
    """Every Frame of it."""
    return tuple(frames(snapshots(SLOW_DISK)))


def with_counts(snapshot: Snapshot, counts: TimeCounts | None) -> Snapshot:
    """The Snapshot with these counts of its job; None: as recordings made before they were counted."""
    table = snapshot.jobs.value
    assert table is not None
    times = {} if counts is None else dict.fromkeys(table.jobs, counts)
    return snapshot._replace(jobs=snapshot.jobs._replace(value=table._replace(times=times)))


@cache
def not_counted() -> tuple[Frame, ...]:
    """The same as if its time had not been counted."""
    return tuple(frames(with_counts(frame.snapshot, None) for frame in slow_disk()))


def growing(**milliseconds: int) -> tuple[Frame, ...]:
    """The same with counts that grow by so much a Snapshot."""
    made = (
        with_counts(frame.snapshot, TimeCounts(**{name: n * value for name, value in milliseconds.items()}))
        for n, frame in enumerate(slow_disk())
    )
    return tuple(frames(made))


def job_key(frame: Frame) -> ProcessKey:
    """The key of its only job."""
    table = frame.snapshot.jobs.value
    assert table is not None
    (key,) = table.jobs
    return key
