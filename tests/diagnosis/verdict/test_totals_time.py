"""The time of the jobs in the totals of a recording."""

from __future__ import annotations

import json

from iotop_ai.diagnosis.verdict.totals import VerdictTotalsBuilder
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.time_shares import TimeCounts
from iotop_ai.model.verdict_totals import VerdictTotals
from iotop_ai.store.format.shapes import shape_of
from tests.job_times import job_key, not_counted, slow_disk


def totals(shown: tuple[Frame, ...]) -> VerdictTotals:
    builder = VerdictTotalsBuilder()
    for frame in shown:
        builder.add(frame)
    return builder.totals()


def counts(frame: Frame) -> TimeCounts:
    table = frame.snapshot.jobs.value
    assert table is not None
    return table.times[job_key(frame)]


def test_the_total_is_the_growth_of_the_counters() -> None:
    whole = totals(slow_disk())
    (job,) = whole.jobs
    first = next(frame for frame in slow_disk() if frame.sample.jobs.value and frame.sample.jobs.value.times)
    before = slow_disk()[slow_disk().index(first) - 1]
    assert job.key == job_key(before)
    assert job.counts == tuple(b - a for a, b in zip(counts(before), counts(slow_disk()[-1]), strict=True))
    assert whole.verdict_job_time == job.counts, "the time of the only job was not counted from the start"


def test_the_totals_of_two_parts_add_up() -> None:
    early, late = VerdictTotalsBuilder(), totals(slow_disk()[20:])
    for frame in slow_disk()[:20]:
        early.add(frame)
    early.join(late)
    whole = totals(slow_disk())
    assert (early.totals().jobs, early.totals().verdict_job_time) == (whole.jobs, whole.verdict_job_time)


def test_totals_survive_writing_and_reading() -> None:
    shape, whole = shape_of(VerdictTotals), totals(slow_disk())
    again = shape.load(json.loads(json.dumps(shape.dump(whole))))
    assert (again.jobs, again.verdict_job_time) == (whole.jobs, whole.verdict_job_time)
    old = json.loads(json.dumps(shape.dump(whole)))[: VerdictTotals._fields.index("jobs")]
    assert (shape.load(old).jobs, shape.load(old).verdict_job_time) == ((), TimeCounts())


def test_a_job_whose_time_was_not_recorded_has_no_time_in_the_totals() -> None:
    (job,) = totals(not_counted()).jobs
    assert (job.name, job.counts.whole_ms) == ("trainer.py", 0)
