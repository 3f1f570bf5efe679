"""Finds the straggler of a job: the machine that the job's other machines wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from iotop_ai.model.fleet.records import FleetFinding, JobPart, Straggler
from iotop_ai.model.job.time_shares import LOST

LEAST_WAIT = 0.1
"""The other machines wait for a machine if their median share of time in collectives exceeds that machine's share by at
least this (0 to 1)."""
LEAST_EXCESS = 0.05
"""A share of the straggler's time can be the cause if it exceeds the other machines' median share by at least this."""
_CAUSES = ("compute", *(name for name in LOST if name != "collective"))


def straggler_of(parts: Sequence[JobPart], findings: Mapping[str, FleetFinding]) -> Straggler | None:
    """The machine that waits least in collectives while the others wait for it; None if no machine stands out.

    findings: the primary finding of each machine.
    """
    measured_parts = [part for part in parts if part.seconds and sum(part.seconds)]
    if not measured_parts:
        return None
    late = min(measured_parts, key=lambda part: part.share("collective"))
    others = [part for part in measured_parts if part.machine != late.machine]
    if not others:
        return None
    others_wait = median(part.share("collective") for part in others)
    if others_wait - late.share("collective") < LEAST_WAIT:
        return None

    def excess(name: str) -> float:
        return late.share(name) - median(part.share(name) for part in others)

    cause = max(_CAUSES, key=excess)
    if excess(cause) < LEAST_EXCESS:
        return None
    typical = median(part.share(cause) for part in others)
    finding = findings.get(late.machine)
    return Straggler(late.machine, cause, late.share(cause), typical, others_wait, finding, late.late_numbers)
