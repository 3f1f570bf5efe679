"""Checks of the values of decoded records. Like a wrong shape, a value that cannot occur raises ShapeError.

A check raises UnknownClassError for a class of finding that this program does not know.
"""

from __future__ import annotations

from collections.abc import Iterable

from iotop_ai.model.finding import Finding, Verdict
from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.process.records import ProcessTable
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.model.verdict_class import CLASS_SPECS
from iotop_ai.model.verdict_totals import VerdictTotals
from iotop_ai.store.format.scalars import ShapeError

_LATEST_NS = 2**63
"""Times and durations must be less than this."""
_LONGEST_INTERVAL_S = 1e6


class UnknownClassError(ShapeError):
    """A finding has a class that only another version knows, or the line is damaged."""

    def __init__(self) -> None:
        super().__init__("an unknown class of finding")


def check_times(*moments_ns: int) -> None:
    """Check that the times are not negative and fit into 63 bits (the year 2262)."""
    if not all(0 <= ns < _LATEST_NS for ns in moments_ns):
        raise ShapeError("a time out of range")


def check_snapshot(snapshot: Snapshot) -> None:
    """Check the times, the interval and the process table."""
    check_times(snapshot.at_ns, snapshot.wall_ns)
    if not 0 < snapshot.interval_s <= _LONGEST_INTERVAL_S:
        raise ShapeError("an interval out of range")
    if snapshot.processes.value is not None:
        _check_processes(snapshot.processes.value)


def _check_processes(table: ProcessTable) -> None:
    """Check the clock tick, page size and sweep times, and that each process with figures has a stat and a name."""
    if table.clk_tck <= 0 or table.page_bytes <= 0 or not table.stat_at:
        raise ShapeError("a process table with an impossible clock tick, page size or time")
    with_stat = table.stat.keys()
    if not (table.io.keys() <= with_stat and table.threads.keys() <= with_stat and with_stat <= table.info.keys()):
        raise ShapeError("a process without a stat or a name")


def check_sample(sample: Sample) -> None:
    """Check the times."""
    check_times(sample.at_ns, sample.wall_ns)


def check_verdict(verdict: Verdict) -> None:
    """Check that there is a primary finding and that all classes are known."""
    if not verdict.findings:
        raise ShapeError("a verdict without a finding")
    _check_findings(verdict.findings)


def check_carry(carry: FoldState) -> None:
    """Check the verdict and the active findings, and that all classes are known."""
    if carry.verdict is not None:
        check_verdict(carry.verdict)
    _check_findings(held.finding for held in carry.held.values())
    if not all(class_id in CLASS_SPECS for class_id, _ in (*carry.held, *((name, at) for at, name in carry.classes))):
        raise UnknownClassError


def check_tally(tally: VerdictTotals) -> None:
    """Check the durations and times, and that all classes are known."""
    check_times(tally.measuring_ns, tally.stall_ns, tally.known_ns)
    for total in tally.finding_totals:
        check_times(*total[1:])
    for span in tally.spans:
        check_times(span.wall_ns, span.duration_ns)
    check_times(*tally.verdict_job_time, *(count for job in tally.jobs for count in job.counts))
    if not all(span.class_id in CLASS_SPECS for span in tally.spans):
        raise UnknownClassError
    _check_findings(total.finding for total in tally.finding_totals)


def _check_findings(findings: Iterable[Finding]) -> None:
    if not all(finding.class_id in CLASS_SPECS for finding in findings):
        raise UnknownClassError
