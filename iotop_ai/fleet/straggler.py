"""The machine that the other machines of a job wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from iotop_ai.model.fleet.records import FleetFinding, JobPart, Straggler
from iotop_ai.model.job.time_shares import LOST

LEAST_WAIT = 0.1
"""From this share of time in a collective on, a machine counts as waiting for another."""
LEAST_EXCESS = 0.05
"""A share that exceeds the other machines' share by this much counts as the cause."""
_CAUSES = ("compute", *(name for name in LOST if name != "collective"))


def straggler_of(parts: Sequence[JobPart], findings: Mapping[str, FleetFinding]) -> Straggler | None:
    """The machine that waits least for the others, while they wait for it; None where none stands out.

    findings: each machine's primary finding.
    """
    known = [part for part in parts if part.seconds and sum(part.seconds)]
    if len(known) < 2:
        return None
    late = min(known, key=lambda part: part.share("collective"))
    others = [part for part in known if part is not late]
    waited = median(part.share("collective") for part in others)
    if waited - late.share("collective") < LEAST_WAIT:
        return None

    def excess(name: str) -> float:
        return late.share(name) - median(part.share(name) for part in others)

    cause = max(_CAUSES, key=excess)
    if excess(cause) < LEAST_EXCESS:
        return None
    typical = median(part.share(cause) for part in others)
    finding = findings.get(late.machine)
    return Straggler(late.machine, cause, late.share(cause), typical, waited, finding, late.late_numbers)
