"""Runs the rules over the window and ranks what they find."""

from __future__ import annotations

from iotop_ai.model.carry import Carry
from iotop_ai.model.finding import Finding, Severity, Verdict
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Snapshot

NEEDED_S = 10.0


def fold(carry: Carry, snapshot: Snapshot, history: tuple[Sample, ...]) -> tuple[Carry, Verdict]:
    """The next carry and the verdict at ``snapshot``. ``history`` is the Frame's: oldest first, may be empty."""
    started = snapshot.at_ns if carry.started_ns is None else carry.started_ns
    watched = max(0.0, (snapshot.at_ns - started) / 1e9)
    reason = "measuring" if watched < NEEDED_S else "nothing fits"
    nothing = Finding("unknown", Severity.INFO, 0.0, args=(("reason", reason),), since_ns=started)
    return carry._replace(started_ns=started), Verdict((nothing,), watched, NEEDED_S, 0, 6)
