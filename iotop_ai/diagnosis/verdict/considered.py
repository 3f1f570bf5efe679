"""The claims about the window that are not in the verdict, each with the reason why it is left out."""

from __future__ import annotations

from iotop_ai.diagnosis.facts.gather import Claim, Facts
from iotop_ai.diagnosis.rules import RULES
from iotop_ai.diagnosis.verdict.acknowledge import open_findings
from iotop_ai.diagnosis.verdict.hysteresis import merge_claims
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.finding import Finding, Verdict
from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.verdict_class import PRECEDENCE

LEAST_SIGN = 0.2
"""A claim whose share or level is below this does not count as a sign of its class, and is left out."""
SAMPLES, LEVEL, SHARE, WAITS = "samples", "level", "share", "waits"
EXCLUDED, ACKNOWLEDGED = "excluded", "acknowledged"


class Considered(NamedTuple):
    """One claim that is not in the verdict."""

    finding: Finding
    why: str
    """Why the claim is not in the verdict. SAMPLES, LEVEL, SHARE: this figure is too low. WAITS: the condition must
    hold for longer. EXCLUDED: the claim is active, but another finding excludes it. ACKNOWLEDGED: the claim is
    active, but a user has acknowledged it."""
    share: float
    """The part of the samples in which the condition held; ``enter`` is the part that the claim needs."""
    enter: float
    level: float
    """The main signal divided by its threshold."""
    samples: int
    needed: int
    """The fewest samples with which the claim may become a finding."""
    seconds: float
    """The seconds for which the condition has held."""


def considered(facts: Facts, carry: FoldState, verdict: Verdict) -> tuple[Considered, ...]:
    """The claims that are not in the verdict, highest confidence first; one per class and subject.

    Claims below LEAST_SIGN are left out, except those that need no window (``at_once``).

    carry: the rules' state at the verdict.
    """
    shown = {(f.class_id, f.subject) for f in verdict.findings}
    enter, now = facts.limits.enter_share, facts.snapshot.at_ns
    out = []
    for key, claim in merge_claims(c for rule in RULES for c in rule(facts)).items():
        if key in shown or (not claim.at_once and min(claim.level, claim.share) < LEAST_SIGN):
            continue
        seconds = max(0, now - carry.pending.get(key, now)) / 1e9
        why = _reason(claim, enter)
        if key in carry.held or claim.at_once:
            why = EXCLUDED if open_findings((claim.finding,), carry.acked, facts.snapshot) else ACKNOWLEDGED
        out.append(
            Considered(claim.finding, why, claim.share, enter, claim.level, claim.samples, claim.needed, seconds)
        )
    return tuple(sorted(out, key=lambda other: (-other.finding.confidence, PRECEDENCE.index(other.finding.class_id))))


def _reason(claim: Claim, enter: float) -> str:
    """Why a claim that is not active has not become a finding."""
    if claim.samples < claim.needed:
        return SAMPLES
    if claim.level < 1:
        return LEVEL
    return SHARE if claim.share < enter else WAITS


def classes_without_sign(verdict: Verdict, others: tuple[Considered, ...]) -> tuple[str, ...]:
    """The classes that are not in the verdict, not in ``others`` and not ruled out, in the order of precedence.

    The class ``unknown`` is left out.
    """
    mentioned = {f.class_id for f in verdict.findings} | {other.finding.class_id for other in others}
    mentioned |= {reason.class_id for reason in verdict.primary.ruled_out} | {"unknown"}
    return tuple(class_id for class_id in PRECEDENCE if class_id not in mentioned)
