"""Enters and leaves findings: what a rule claims comes on when it lasts, and goes when it has ceased for a while."""

from __future__ import annotations

from collections.abc import Iterable

from iotop_ai.diagnosis.facts import Claim, Facts
from iotop_ai.diagnosis.thresholds import AS_ALL, HOLDS
from iotop_ai.model.carry import Carry, Held
from iotop_ai.model.finding import RIVALS, Severity
from iotop_ai.model.reading import Status
from iotop_ai.model.snapshot import Snapshot

Key = tuple[str, str]

_SEVERITIES = tuple(Severity)


def merged(claims: Iterable[Claim]) -> dict[Key, Claim]:
    """One claim per class and subject: the surest leads, the gravest severity and all evidence are kept."""
    out: dict[Key, Claim] = {}
    for claim in claims:
        key = (claim.finding.class_id, claim.finding.subject)
        other = out.get(key)
        if other is None:
            out[key] = claim
            continue
        first, second = sorted((other, claim), key=lambda c: (-c.share, -c.finding.confidence))
        known = {e.metric for e in first.finding.evidence}
        finding = first.finding._replace(
            severity=max((first.finding.severity, second.finding.severity), key=_SEVERITIES.index),
            confidence=max(first.finding.confidence, second.finding.confidence),
            evidence=first.finding.evidence + tuple(e for e in second.finding.evidence if e.metric not in known),
        )
        out[key] = first._replace(finding=finding)
    return out


def _rival(key: Key, others: Iterable[Key]) -> bool:
    """Whether one of the others is another cause of the same job's wait."""
    return key[0] in RIVALS and any(o != key and o[1] == key[1] and o[0] in RIVALS for o in others)


def hold(carry: Carry, claims: Iterable[Claim], facts: Facts, spare_s: float) -> tuple[dict[Key, Held], dict[Key, int]]:
    """(the findings that are on, since when the conditions of the others hold).

    spare_s: watched beyond the shortest time; negative while measuring, when only events enter.
    """
    now, limits = facts.snapshot.at_ns, facts.limits
    held: dict[Key, Held] = {}
    pending: dict[Key, int] = {}
    entered = []
    for key, claim in merged(claims).items():
        old, rule = carry.held.get(key), HOLDS.get(key[0], AS_ALL)
        enters = claim.at_once
        if claim.samples >= claim.needed and claim.share >= limits.enter_share and claim.level >= 1:
            since = carry.pending.get(key, now)
            pending[key] = since
            lasts = max(rule.confirm_s, limits.confirm_s) if _rival(key, carry.held) else rule.confirm_s
            enters |= spare_s >= 0 and (now - since) / 1e9 >= min(lasts, spare_s)
        stays = old is not None and claim.share >= limits.leave_share and claim.level >= rule.leave
        if enters or stays:
            pending.pop(key, None)
            at = now if old is None else old.entered_ns
            held[key] = Held(claim.finding._replace(since_ns=at), at, now)
            if old is None:
                entered.append(key)
    for key, old in carry.held.items():
        if key not in held and _kept(key, old, facts, entered, pending):
            held[key] = old
    return held, pending


def _kept(key: Key, old: Held, facts: Facts, entered: list[Key], pending: dict[Key, int]) -> bool:
    """Whether a finding whose condition does not hold now stays, with the figures with which it last held."""
    now, rule = facts.snapshot.at_ns, HOLDS.get(key[0], AS_ALL)
    if key[0] == "failing_disk" and any(e.metric.startswith("smart.") for e in old.finding.evidence):
        return _silent(facts.snapshot, key[1])
    if key[0] == "gpu_fault" and key[1] not in (facts.snapshot.gpu.value or {}):
        # A driver that lists the GPU no longer, or says nothing at all, has not mended it.
        return True
    if key[0] == "job_died" and _goes_on(facts, old):
        return False
    if _rival(key, entered):
        return False
    if _rival(key, pending):
        return True
    return 0 <= now - old.entered_ns < facts.limits.dwell_s * 1e9 or 0 <= now - old.last_true_ns < rule.keep_s * 1e9


def _goes_on(facts: Facts, death: Held) -> bool:
    """Whether a job works that started after another one died: it was started again."""
    ago_s = (facts.snapshot.at_ns - death.last_true_ns) / 1e9
    return any(job.active and job.age_s is not None and job.age_s < ago_s for job in facts.jobs)


def _silent(snapshot: Snapshot, disk: str) -> bool:
    """Whether a disk that once said that it fails has not been heard since: that is no recovery."""
    smart = snapshot.smart.value
    if smart is None:
        return True
    if disk not in smart:
        return False
    return smart[disk].value is None or smart[disk].status not in (Status.OK, Status.ASLEEP)
