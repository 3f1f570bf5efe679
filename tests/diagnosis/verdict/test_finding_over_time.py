"""A finding that stands for a whole run shows the loss of the whole run, not that of one window."""

from __future__ import annotations

from itertools import starmap

import pytest

from iotop_ai.diagnosis.verdict.totals import VerdictTotalsBuilder, finding_over_time
from iotop_ai.model.finding import Advice, Finding, Severity
from iotop_ai.model.verdict_totals import FindingTotal, VerdictTotals
from iotop_ai.present.verdict.headline import headline_of, text_of

SECOND = 10**9


def found(
    class_id: str, lost: float | None, *args: tuple[str, str | float | None], hours: float | None = None
) -> Finding:
    return Finding(class_id, Severity.WARNING, 0.9, "7", args, (), (), (Advice("x", args),), lost, hours)


def over_time(finding: Finding, lost_s: float, active_s: float = 100.0) -> Finding:
    return finding_over_time(FindingTotal(finding, round(active_s * SECOND), round(lost_s * SECOND), 0, 0))


JOB = (("job", "train.py"), ("gpus", 8.0), ("gpus_all", 8.0))


@pytest.mark.parametrize(
    ("finding", "headline"),
    [
        (found("storage_read", 0.11, *JOB, ("stall", 0.11), ("lost", 0.11)),
         "8 of 8 GPUs wait for data 71 % of the time"),
        (found("storage_read", 0.11, ("task", "cp"), ("device", "sda"), ("lost", 0.11), ("blocked", 0.11)),
         "cp waits for disk sda 71 % of the time"),
        (found("mem_pressure", 0.11, ("pressure", 0.11), ("lost", 0.11)), "programs wait for memory 71 % of the time"),
        (found("checkpoint_write", 0.11, *JOB, ("stall", 0.0), ("lost", 0.11)),
         "train.py waits for its checkpoint 71 % of the time"),
        (found("host_bound", 0.11, *JOB, ("stall", 0.0), ("lost", 0.0), ("lost", 0.11)),
         "8 of 8 GPUs wait for train.py's main thread 71 % of the time"),
    ],
)  # fmt: skip
def test_the_sentence_has_the_loss_of_all_the_time(finding: Finding, headline: str) -> None:
    whole = over_time(finding, 70.8)
    assert whole.lost_ratio == 0.708
    assert text_of(headline_of(whole)) == headline
    assert whole.advice[0].args == whole.args


def test_other_figures_stay_those_of_the_window() -> None:
    args = (*JOB, ("stall", 0.4), ("lost", 0.11), ("blocked", 0.11), ("await_ms", 20.0))
    whole = dict(over_time(found("storage_read", 0.11, *args), 70.8).args)
    assert whole == {**dict(args), "lost": 0.708}


def test_the_seconds_of_a_checkpoint_agree_with_its_share() -> None:
    whole = over_time(found("checkpoint_write", 0.4, *JOB, ("lost", 0.4), ("seconds", 4.0), ("window_s", 10.0)), 20.0)
    assert dict(whole.args) == {**dict(JOB), "lost": 0.2, "seconds": 20.0, "window_s": 100.0}


def test_a_finding_without_a_loss_stays_as_it_is() -> None:
    for finding in (found("healthy", None, *JOB, ("stall", 0.02)), found("no_gpu", 0.5)):
        assert over_time(finding, 0.0) == finding
    assert over_time(found("storage_read", 0.5, ("lost", 0.5)), 0.0, 0.0).lost_ratio == 0.5


def test_the_lost_gpu_hours_are_the_largest() -> None:
    """They grow, but the clearest window may be an early one."""
    builder = VerdictTotalsBuilder()
    for total in starmap(
        FindingTotal, ((found("storage_read", 0.5, hours=hours), 1, 1, 1, 1) for hours in (0.1, None, 0.3, 0.2))
    ):
        builder.join(VerdictTotals(finding_totals=(total,)))
    (total,) = builder.finding_totals.values()
    assert total.finding.gpu_hours_lost == 0.3
    assert over_time(total.finding, 1.0).gpu_hours_lost == 0.3
