"""What else the rules said about the same window, and what kept each from being a finding."""

from __future__ import annotations

from iotop_ai.diagnosis.facts import Claim, Facts
from iotop_ai.diagnosis.hold import merged
from iotop_ai.diagnosis.rules import PRECEDENCE, RULES
from iotop_ai.model.carry import Carry
from iotop_ai.model.finding import Finding, Verdict
from iotop_ai.model.record import NamedTuple

LEAST = 0.2
"""Share or level below which a claim is no sign at all."""
SAMPLES, LEVEL, SHARE, WAITS, BEHIND = "samples", "level", "share", "waits", "behind"


class Considered(NamedTuple):
    """One claim that is not in the verdict. why: what it lacks: SAMPLES (of ``needed``), LEVEL (the main signal over
    its threshold), SHARE (of the samples in which it held, against ``enter``), WAITS (it has held for ``seconds`` and
    must last longer), or BEHIND: it is on, but another finding excludes it.
    """

    finding: Finding
    why: str
    share: float
    enter: float
    level: float
    samples: int
    needed: int
    seconds: float


def considered(facts: Facts, carry: Carry, verdict: Verdict) -> tuple[Considered, ...]:
    """Claims of all rules beside the verdict's findings, the surest first; one a class and subject."""
    shown = {(one.class_id, one.subject) for one in verdict.findings}
    enter, now = facts.limits.enter_share, facts.snapshot.at_ns
    out = []
    for key, claim in merged(found for rule in RULES for found in rule(facts)).items():
        if key in shown or (not claim.at_once and min(claim.level, claim.share) < LEAST):
            continue
        seconds = max(0, now - carry.pending.get(key, now)) / 1e9
        why = BEHIND if key in carry.held or claim.at_once else _lacks(claim, enter)
        out.append(
            Considered(claim.finding, why, claim.share, enter, claim.level, claim.samples, claim.needed, seconds)
        )
    return tuple(sorted(out, key=lambda one: (-one.finding.confidence, PRECEDENCE.index(one.finding.class_id))))


def _lacks(claim: Claim, enter: float) -> str:
    if claim.samples < claim.needed:
        return SAMPLES
    if claim.level < 1:
        return LEVEL
    return SHARE if claim.share < enter else WAITS


def without_a_sign(verdict: Verdict, others: tuple[Considered, ...]) -> tuple[str, ...]:
    """The classes about which nothing at all was said, in the order of precedence."""
    said = {one.class_id for one in verdict.findings} | {one.finding.class_id for one in others}
    said |= {one.class_id for one in verdict.primary.ruled_out} | {"unknown"}
    return tuple(class_id for class_id in PRECEDENCE if class_id not in said)
