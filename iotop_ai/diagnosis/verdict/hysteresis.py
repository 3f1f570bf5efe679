"""Hysteresis: a claim becomes a finding when it lasts, and the finding ends some time after the claim ends."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from iotop_ai.diagnosis.facts.gather import Claim, Facts, may_begin, may_stay
from iotop_ai.diagnosis.facts.leading_job import job_pid
from iotop_ai.model.finding import Advice, Finding, Severity
from iotop_ai.model.fold_state import ActiveFinding, FoldState
from iotop_ai.model.reading import Status
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.model.verdict_class import CLASS_SPECS, RIVALS

Key = tuple[str, str]
"""The class and the subject of a finding."""

_SEVERITIES = tuple(Severity)


def merge_claims(claims: Iterable[Claim]) -> dict[Key, Claim]:
    """Merge the claims of each class and subject.

    The result is the claim that held in the largest share of its samples, with the highest confidence and severity of
    all, and with the evidence of all. At equal shares, another fault of a disk comes before its heat. A failing disk
    keeps the advice of all claims; the advice to replace the disk comes first.
    """
    out: dict[Key, Claim] = {}
    for claim in claims:
        key = (claim.finding.class_id, claim.finding.subject)
        other = out.get(key)
        if other is None:
            out[key] = claim
            continue
        main, minor = sorted((other, claim), key=lambda c: (-c.share, _is_heat(c.finding), -c.finding.confidence))
        known = {e.metric for e in main.finding.evidence}
        finding = main.finding._replace(
            severity=max((main.finding.severity, minor.finding.severity), key=_SEVERITIES.index),
            confidence=max(main.finding.confidence, minor.finding.confidence),
            evidence=main.finding.evidence + tuple(e for e in minor.finding.evidence if e.metric not in known),
            advice=_joined_advice(main.finding, minor.finding),
        )
        out[key] = main._replace(finding=finding, at_once=main.at_once or minor.at_once)
    return out


def _is_heat(finding: Finding) -> bool:
    return bool(dict(finding.args).get("hot"))


def _joined_advice(main: Finding, minor: Finding) -> tuple[Advice, ...]:
    """The advice of both findings about a failing disk, "replace_disk" at the front; otherwise that of ``main``."""
    if main.class_id != "failing_disk":
        return main.advice
    templates = {advice.template for advice in main.advice}
    both = (*main.advice, *(advice for advice in minor.advice if advice.template not in templates))
    return tuple(sorted(both, key=lambda advice: advice.template != "replace_disk"))


def _has_rival(key: Key, others: Iterable[Key]) -> bool:
    """Whether ``others`` contains another cause of the same job's wait."""
    return key[0] in RIVALS and any(o != key and o[1] == key[1] and o[0] in RIVALS for o in others)


def decide_active(
    carry: FoldState, claims: Iterable[Claim], facts: Facts, spare_s: float
) -> tuple[dict[Key, ActiveFinding], dict[Key, int]]:
    """Decide which findings are active.

    Returns the active findings and, for each other claim whose condition holds, the time at which it began to hold.
    carry: the rules' state before this decision. spare_s: the seconds observed beyond the shortest window. It is
    negative while the rules lack data; then only claims that need no window become active.
    """
    now, limits = facts.snapshot.at_ns, facts.limits
    held: dict[Key, ActiveFinding] = {}
    pending: dict[Key, int] = {}
    new_keys = []
    for key, claim in merge_claims(claims).items():
        old, spec = carry.held.get(key), CLASS_SPECS[key[0]]
        enters = claim.at_once
        if claim.samples >= claim.needed and may_begin(limits, claim.share, claim.level):
            since = carry.pending.get(key, now)
            pending[key] = since
            lasts = max(spec.confirm_s, limits.confirm_s) if _has_rival(key, carry.held) else spec.confirm_s
            enters |= spare_s >= 0 and (now - since) / 1e9 >= min(lasts, spare_s)
        stays = old is not None and may_stay(limits, key[0], claim.share, claim.level)
        if enters or stays:
            pending.pop(key, None)
            at = now if old is None else old.entered_ns
            held[key] = ActiveFinding(claim.finding._replace(since_ns=at), at, now)
            if old is None:
                new_keys.append(key)
    present = _Present(facts)
    for key, old in carry.held.items():
        if key not in held and _stays_active(key, old, present, new_keys, pending):
            held[key] = old
    return held, pending


class _Present:
    """The shown findings, and the disks and jobs that exist now, as sets in which each active finding is looked up.

    Each set is built at its first use. A search through the tables would take minutes for a recording with as many
    findings as size_limits allows.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    @cached_property
    def shown(self) -> frozenset[Key]:
        """The findings of the last verdict."""
        verdict = self.facts.carry.verdict
        return frozenset() if verdict is None else frozenset((f.class_id, f.subject) for f in verdict.findings)

    @cached_property
    def disks(self) -> frozenset[str] | None:
        """The names of all block devices; None if unknown."""
        block = self.facts.snapshot.block.value
        return None if block is None else frozenset(key.name for key in block)

    @cached_property
    def rated_disks(self) -> frozenset[str] | None:
        """The names of the block devices with rates in the newest Sample; None if it has the rates of no disk."""
        rates = self.facts.history[-1].block.value if self.facts.history else None
        return None if rates is None else frozenset(k.name for k, one in rates.items() if one.reads_per_s is not None)

    @cached_property
    def job_pids(self) -> frozenset[int] | None:
        """The pids of the top processes of all jobs; None if unknown."""
        table = self.facts.snapshot.jobs.value
        return None if table is None else frozenset(key.pid for key in table.jobs)


def _stays_active(
    key: Key, old: ActiveFinding, present: _Present, new_keys: list[Key], pending: dict[Key, int]
) -> bool:
    """Whether a finding stays active although its condition does not hold now; it then keeps its last figures."""
    facts = present.facts
    now, limits, keep_s = facts.snapshot.at_ns, facts.limits, CLASS_SPECS[key[0]].keep_s
    if key[0] == "failing_disk":
        if any(name == "hung_s" for name, _ in old.finding.args) and not _may_be_there(present, key[1]):
            # The device is gone, or another one has its name.
            return False
        metrics = [e.metric for e in old.finding.evidence if e.metric.startswith("smart.")]
        if metrics and _does_not_answer(facts.snapshot, key[1]):
            return True
        if metrics and _is_gone(present, key[1]):
            # A missing disk has no known serial number, so the last verdict shows whether the finding is acknowledged.
            return key in present.shown
        if f"smart.{key[1]}.critical" in metrics:
            # The disk's own report does not hover around a threshold like a measurement, so one good answer ends the
            # finding.
            return False
    if key[0] == "gpu_fault" and key[1] not in (facts.snapshot.gpu.value or {}):
        # A GPU that the driver does not list, or a driver that does not answer, does not show that the fault is gone.
        return True
    if key[0] == "starting" and any(job.subject == key[1] and job.workers for job in facts.jobs):
        # Its evidence says that the job has no loader. A program that starts may have a child for a moment.
        return now - old.last_true_ns < limits.loader_stays_s * 1e9
    if key[0] == "idle" and any((job.stall or 0.0) >= limits.clear_wait for job in facts.jobs):
        return False
    if key[0] == "job_died":
        if _was_started_again(facts, old):
            return False
    elif _job_ended(present, old.finding):
        # Nothing is left to cure, and the finding would be shown as the verdict about the job that leads now.
        return False
    if _has_rival(key, new_keys):
        return False
    if _has_rival(key, pending):
        return True
    keep_s = limits.keep_s if keep_s is None else keep_s
    return 0 <= now - old.entered_ns < limits.dwell_s * 1e9 or 0 <= now - old.last_true_ns < keep_s * 1e9


def _job_ended(present: _Present, finding: Finding) -> bool:
    """Whether the job that a finding is about has certainly ended."""
    pid = job_pid(finding)
    return pid is not None and present.job_pids is not None and pid not in present.job_pids


def _was_started_again(facts: Facts, death: ActiveFinding) -> bool:
    """Whether a job that started after the death is at work; it is taken for the same job, started again."""
    ago_s = (facts.snapshot.at_ns - death.last_true_ns) / 1e9
    return any(job.active and job.age_s is not None and job.age_s < ago_s for job in facts.jobs)


def _does_not_answer(snapshot: Snapshot, disk: str) -> bool:
    """Whether the failing disk does not answer now. Silence does not show that the disk has recovered."""
    smart = snapshot.smart.value
    if smart is None:
        return True
    if disk not in smart:
        return False
    return smart[disk].value is None or smart[disk].status not in (Status.OK, Status.ASLEEP)


def _may_be_there(present: _Present, disk: str) -> bool:
    """Whether the newest Sample has the disk's rates, or the rates of no disk at all."""
    return present.rated_disks is None or disk in present.rated_disks


def _is_gone(present: _Present, disk: str) -> bool:
    """Whether the disk is gone and no other disk has its name. A failing disk may drop off its bus."""
    smart = present.facts.snapshot.smart.value or {}
    return disk not in smart and present.disks is not None and disk not in present.disks
