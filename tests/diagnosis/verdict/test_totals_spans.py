"""The spans of a verdict: one span as long as it lasts, and another after a gap or a restart."""

from __future__ import annotations

from itertools import pairwise

from iotop_ai.diagnosis.verdict.totals import VerdictTotalsBuilder
from iotop_ai.model.verdict_class import State
from iotop_ai.model.verdict_totals import VerdictSpan, VerdictTotals
from iotop_ai.pipeline import frames
from tests.job_times import slow_disk

SECOND = 10**9


def span(begin_s: float, seconds: float) -> VerdictSpan:
    return VerdictSpan(round(begin_s * SECOND), "storage_read", State.STARVED, round(seconds * SECOND))


def joined(*spans: VerdictSpan) -> list[VerdictSpan]:
    builder = VerdictTotalsBuilder()
    for one in spans:
        builder.join(VerdictTotals(spans=(one,)))
    return builder.spans


def test_a_verdict_that_continues_is_one_span() -> None:
    assert joined(span(1000, 60), span(1060, 60), span(1120.4, 60)) == [span(1000, 180)]


def test_a_gap_ends_a_span() -> None:
    assert joined(span(1000, 31), span(1600, 31)) == [span(1000, 31), span(1600, 31)]
    # Also if the previous span was joined over short holes.
    holes = [span(1000 + 2 * i, 1) for i in range(60)]
    assert joined(*holes, span(1600, 31)) == [span(1000, 60), span(1600, 31)]


def test_a_restart_ends_a_span() -> None:
    first = [frame.snapshot for frame in slow_disk()]
    later = [
        one._replace(wall_ns=one.wall_ns + 600 * SECOND, host=one.host._replace(boot_id="the next")) for one in first
    ]
    one_run, both_runs = VerdictTotalsBuilder(), VerdictTotalsBuilder()
    for frame in frames(first):
        one_run.add(frame)
    for frame in frames([*first, *later]):
        both_runs.add(frame)
    shifted = [one._replace(wall_ns=one.wall_ns + 600 * SECOND) for one in one_run.spans]
    assert both_runs.spans == [*one_run.spans, *shifted]
    assert all(a.wall_ns + a.duration_ns <= b.wall_ns for a, b in pairwise(both_runs.spans))
