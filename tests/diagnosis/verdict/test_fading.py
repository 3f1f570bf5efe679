"""While a wait for data fades, the verdict on it stays for some seconds and must not contradict itself."""

from __future__ import annotations

from pathlib import Path

from iotop_ai.diagnosis.verdict.totals import VerdictTotalsBuilder
from iotop_ai.model.verdict_class import State
from iotop_ai.playback.selection import RecordedFrames

WARM = Path(__file__).parents[2] / "data" / "runs" / "warm.iotop.jsonl.gz"
"""A real run that first waits for its disk, and then finds its data in the page cache."""


def test_a_wait_that_fades_is_not_ruled_out_and_is_reported_with_its_whole_loss() -> None:
    totals = VerdictTotalsBuilder()
    starved = 0
    for frame in RecordedFrames(str(WARM), allow_root=True):
        totals.add(frame)
        finding = frame.verdict.primary
        if finding.state is State.STARVED:
            starved += 1
            assert "no_wait" not in {reason.template for reason in finding.ruled_out}
    assert starved > 5
    (reported,) = [one.finding for one in totals.totals().finding_totals if one.finding.state is State.STARVED]
    assert reported.lost_ratio is not None
    assert reported.lost_ratio > 0.08
    assert "no_wait" not in {reason.template for reason in reported.ruled_out}
