"""The share of time without data that follows from one verdict."""

from __future__ import annotations

from iotop_ai.diagnosis.verdict.totals import stall_ratio
from iotop_ai.model.finding import Finding, Severity


def test_only_a_wait_for_data_is_time_without_data() -> None:
    starved = Finding("single_thread", Severity.WARNING, 0.9, "5", lost_ratio=0.65)
    spins = Finding("comm_wait", Severity.WARNING, 0.9, "5", lost_ratio=0.94)
    assert stall_ratio(starved) == 0.65
    assert stall_ratio(spins) is None
    assert stall_ratio(spins._replace(args=(("stall", 0.1),))) == 0.1
