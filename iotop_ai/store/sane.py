"""What a decoded record must satisfy beyond its shape, so that nothing that reads it meets the impossible."""

from __future__ import annotations

from collections.abc import Iterable

from iotop_ai.model.carry import Carry
from iotop_ai.model.finding import STATE_OF_CLASS, Finding, Verdict
from iotop_ai.model.process import ProcessTable
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.model.tally import Tally
from iotop_ai.store.wire import ShapeError

_LATEST_NS = 2**63
_LONGEST_INTERVAL_S = 1e6


def check_times(*moments_ns: int) -> None:
    """Times are not negative and fit 63 bits (the year 2262). Raises ShapeError."""
    if not all(0 <= ns < _LATEST_NS for ns in moments_ns):
        raise ShapeError("a time out of range")


def check_snapshot(snapshot: Snapshot) -> None:
    """Times, the interval, and the process table. Raises ShapeError."""
    check_times(snapshot.at_ns, snapshot.wall_ns)
    if not 0 < snapshot.interval_s <= _LONGEST_INTERVAL_S:
        raise ShapeError("an interval out of range")
    if snapshot.processes.value is not None:
        _check_processes(snapshot.processes.value)


def _check_processes(table: ProcessTable) -> None:
    """The divisors, and that whoever has figures has a stat and a name, as every reading of /proc gives them."""
    if table.clk_tck <= 0 or table.page_bytes <= 0 or not table.stat_at:
        raise ShapeError("a process table out of range")
    who = table.stat.keys()
    if not (table.io.keys() <= who and table.threads.keys() <= who and who <= table.info.keys()):
        raise ShapeError("a process without a name")


def check_sample(sample: Sample) -> None:
    """Times. Raises ShapeError."""
    check_times(sample.at_ns, sample.wall_ns)


def check_verdict(verdict: Verdict) -> None:
    """There is a primary finding, and every class is known. Raises ShapeError."""
    if not verdict.findings:
        raise ShapeError("a verdict without a finding")
    _check_findings(verdict.findings)


def check_carry(carry: Carry) -> None:
    """The verdict and the held findings. Raises ShapeError."""
    if carry.verdict is not None:
        check_verdict(carry.verdict)
    _check_findings(held.finding for held in carry.held.values())


def check_tally(tally: Tally) -> None:
    """Its lengths and times, and that every class is known. Raises ShapeError."""
    check_times(tally.measuring_ns, tally.stall_ns, tally.known_ns)
    for share in tally.shares:
        check_times(*share[1:])
    for stretch in tally.stretches:
        check_times(stretch.wall_ns, stretch.stood_ns)
    if not all(stretch.class_id in STATE_OF_CLASS for stretch in tally.stretches):
        raise ShapeError("a class of finding that is not known")
    _check_findings(share.finding for share in tally.shares)


def _check_findings(findings: Iterable[Finding]) -> None:
    if not all(finding.class_id in STATE_OF_CLASS for finding in findings):
        raise ShapeError("a class of finding that is not known")
