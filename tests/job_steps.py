"""Frames of a real trainer on a slow disk (tests/job_times.py), whose ranks also report made-up steps."""

from __future__ import annotations

from iotop_ai.model.frame import Frame
from iotop_ai.model.job.records import Rank
from iotop_ai.model.job.steps import LoaderSettings, StepCounts
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.pipeline import frames
from tests.job_times import job_key, slow_disk

SECOND_RANK = ProcessKey(99_999, 1)
"""A second rank, which is added to the job."""


def with_steps(snapshot: Snapshot, table: dict[ProcessKey, StepCounts]) -> Snapshot:
    """The Snapshot, with these steps and with the second rank in its job."""
    jobs = snapshot.jobs.value
    assert jobs is not None
    more = {
        key: job._replace(ranks=(*job.ranks, Rank(SECOND_RANK))) if SECOND_RANK in table else job
        for key, job in jobs.jobs.items()
    }
    newest = max((counts.at_ns for counts in table.values()), default=0)
    return snapshot._replace(
        jobs=snapshot.jobs._replace(value=jobs._replace(jobs=more)),
        steps=Reading(table, Status.OK, at_ns=newest - newest % 1000),
    )


def reporting(
    per_s: float = 4.0,
    waits: tuple[float | None, ...] = (0.75,),
    until: int = 10_000,
    every: int = 1,
    loader: LoaderSettings | None = None,
) -> tuple[Frame, ...]:
    """The Frames, in which each rank sends a message every ``every`` seconds, up to Snapshot number ``until``.

    waits: the share of its time that each rank waits; None: the rank does not measure it. loader: the settings that
    each rank reports
    """
    made = []
    newest: dict[ProcessKey, StepCounts] = {}
    for number, frame in enumerate(slow_disk()):
        snapshot = frame.snapshot
        if snapshot.jobs.value is None or not snapshot.jobs.value.jobs:
            made.append(snapshot)
            continue
        begin_ns = slow_disk()[0].snapshot.at_ns
        for rank, (key, share) in enumerate(zip((job_key(frame), SECOND_RANK), waits, strict=False)):
            at_ns = snapshot.at_ns - 200_000_000
            seconds = (at_ns - begin_ns) / 1e9 + 1
            if number <= until and number % every == 0:
                steps = int(seconds * per_s * 100) // 100
                data_ns = None if share is None else int(seconds * share * 1e9)
                newest[key] = StepCounts(at_ns, steps, steps, data_ns, rank, rank, len(waits), loader)
        made.append(with_steps(snapshot, dict(newest)))
    return tuple(frames(made))
