"""Where the time of a job went, over the window of the verdict."""

from __future__ import annotations

import pytest

from iotop_ai.diagnosis.facts.time_window import shares_over
from iotop_ai.model.process.records import ProcessKey
from tests.job_times import growing, job_key, not_counted, slow_disk

S = 1_000_000_000


def test_the_shares_of_a_window_are_the_growth_of_the_counters() -> None:
    now = slow_disk()[40]
    key = job_key(now)
    before = next(f for f in reversed(slow_disk()) if f.snapshot.at_ns <= now.snapshot.at_ns - 10 * S)
    ends = [frame.snapshot.jobs.value for frame in (before, now)]
    assert all(ends)
    grown = [b - a for a, b in zip(*(table.times[key] for table in ends if table is not None), strict=True)]
    shares = shares_over(now.history, now.snapshot.at_ns, key)
    assert shares is not None
    assert shares[:-1] == pytest.approx([count / sum(grown) for count in grown])
    assert shares.whole_ms == sum(grown)
    assert shares.data_disk > 0.5


def test_a_shorter_window_has_the_shares_of_its_seconds() -> None:
    shown = growing(compute=200, data_disk=800)
    now = shown[-1]
    shares = shares_over(now.history, now.snapshot.at_ns, job_key(now), 5.0)
    assert shares is not None
    seconds = sum(now.snapshot.at_ns - frame.snapshot.at_ns < 5 * S for frame in shown)
    assert (shares.compute, shares.data) == pytest.approx((0.2, 0.8))
    assert shares.whole_ms == 1000 * seconds <= 6000


def test_time_that_is_not_counted_is_unknown() -> None:
    now = not_counted()[-1]
    assert shares_over(now.history, now.snapshot.at_ns, job_key(now)) is None
    now = slow_disk()[-1]
    assert shares_over(now.history, now.snapshot.at_ns, ProcessKey(1, 1)) is None
    first = slow_disk()[0]
    assert shares_over(first.history, first.snapshot.at_ns, job_key(now)) is None
