"""Frames of a real trainer on a slow disk, which show where its time goes: 7 reads of 51 ms a batch, no workers.

Each read is 128 KiB. Recorded by ``python -m tests.scenarios.run --class "storage_read nw=0" --seconds 60``; the
first 45 Snapshots were reduced by tests/scenarios/slim.py.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from iotop_ai.model.frame import Frame
from iotop_ai.model.job.time_shares import TimeCounts
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.reading import Reading
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.pipeline import frames
from tests.scenarios.keep import snapshots

GAP_AT, GAP_NS = 25, 600 * 10**9
SLOW_DISK = Path(__file__).parent / "data" / "job_time" / "slow_disk.iotop.jsonl.gz"


@cache
def slow_disk() -> tuple[Frame, ...]:
    """Every Frame of the recording."""
    return tuple(frames(snapshots(SLOW_DISK)))


def with_counts(snapshot: Snapshot, counts: TimeCounts | None) -> Snapshot:
    """The Snapshot, with these counts of its job; None: without counts, as in recordings of older versions."""
    table = snapshot.jobs.value
    assert table is not None
    times = {} if counts is None else dict.fromkeys(table.jobs, counts)
    return snapshot._replace(jobs=snapshot.jobs._replace(value=table._replace(times=times)))


@cache
def not_counted() -> tuple[Frame, ...]:
    """The Frames of the recording as they would be if the job's time had not been counted."""
    return tuple(frames(with_counts(frame.snapshot, None) for frame in slow_disk()))


def growing(**milliseconds: int) -> tuple[Frame, ...]:
    """The Frames of the recording, with counts that grow by these amounts in each Snapshot."""
    made = (
        with_counts(frame.snapshot, TimeCounts(**{name: n * value for name, value in milliseconds.items()}))
        for n, frame in enumerate(slow_disk())
    )
    return tuple(frames(made))


def with_repeated_readings(seconds: int, begin: int = 43, **readings: Reading[Any]) -> tuple[Frame, ...]:
    """The first ``begin`` seconds, then ``seconds`` more in which these Readings are repeated and not read again."""
    first = [frame.snapshot for frame in slow_disk()[:begin]]
    last, made = first[-1], []
    at_ns = last.at_ns + 10**9
    fixed = {name: reading._replace(at_ns=at_ns) for name, reading in readings.items()}
    for n in range(1, seconds + 1):
        times = {"at_ns": last.at_ns + n * 10**9, "wall_ns": last.wall_ns + n * 10**9}
        made.append(last._replace(**times, **fixed))
    return tuple(frames(iter([*first, *made])))


@cache
def with_gap() -> tuple[Frame, ...]:
    """The Frames of the recording, with a gap of 10 minutes in the middle."""
    moved = (
        one._replace(at_ns=one.at_ns + GAP_NS, wall_ns=one.wall_ns + GAP_NS) if n >= GAP_AT else one
        for n, one in enumerate(frame.snapshot for frame in slow_disk())
    )
    return tuple(frames(moved))


def job_key(frame: Frame) -> ProcessKey:
    """The key of the Frame's only job."""
    table = frame.snapshot.jobs.value
    assert table is not None
    (key,) = table.jobs
    return key
