"""Runs the rules over the window, activates and deactivates findings, and ranks the active findings.

``fold`` takes one Snapshot after another, and carries the rules' state (FoldState) from each Snapshot to the next.
"""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.diagnosis.facts.fold_cache import FoldCache
from iotop_ai.diagnosis.facts.gather import Facts, gather
from iotop_ai.diagnosis.facts.job import JobFacts
from iotop_ai.diagnosis.facts.leading_job import job_with, leading_job, lost_so_far, split_by_job, with_hours
from iotop_ai.diagnosis.memory import gpu as gpu_memory
from iotop_ai.diagnosis.memory import jobs as job_memory
from iotop_ai.diagnosis.memory.hung_devices import hung_since
from iotop_ai.diagnosis.memory.read_latency_baseline import learn, with_earlier_baselines, without_replaced
from iotop_ai.diagnosis.rules import RULES
from iotop_ai.diagnosis.rules.job.exit import ENDS, unmatched_kills
from iotop_ai.diagnosis.thresholds import LIMITS, Thresholds
from iotop_ai.diagnosis.verdict.acknowledge import apply_ack_events, end_acknowledged, open_findings
from iotop_ai.diagnosis.verdict.cures import with_cures
from iotop_ai.diagnosis.verdict.hysteresis import decide_active
from iotop_ai.diagnosis.verdict.nothing_fits import MEASURING, NOTHING_FITS, Since, unknown_finding
from iotop_ai.diagnosis.verdict.ruled_out import ruled_out
from iotop_ai.diagnosis.verdict.slow_disk import slow_disk
from iotop_ai.model.finding import Finding, Severity, SlowDisk, Verdict
from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.frame import Frame
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.sample import Sample
from iotop_ai.model.signal_coverage import GROUP_COUNT, signal_groups
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.model.verdict_class import CLASS_SPECS, PRECEDENCE, State

SHOWN_ONLY_IF_USED = ("loop", "ram", "zram", "sr", "fd")
"""Name prefixes of the devices that are shown only while they are in use."""
_ACTIVE_NS = 60_000_000_000
"""How long such a device stays in ``FoldState.active_ns`` after its newest activity, in nanoseconds."""
_CHANGES_NS = 3_600_000_000_000
"""How long a change of the verdict's state or class is kept, in nanoseconds."""
_MOST_CHANGES = 120
"""The most earlier changes that are kept when another change is added."""
_MOST_ENDED = 512
"""The most events in ``FoldState.ended``: enough for a trainer and the workers that end with it."""


def fold(
    carry: FoldState,
    snapshot: Snapshot,
    history: tuple[Sample, ...],
    limits: Thresholds = LIMITS,
    cache: FoldCache | None = None,
) -> tuple[FoldState, Verdict]:
    """Return the next state and the verdict at ``snapshot``.

    carry: the state after the previous Snapshot; FoldState() at the first one. history: the Samples of the Frame,
    oldest first, the last of which ends at ``snapshot``; () if there are none. cache: the caches of the previous calls,
    which only save time. Less than ``decide_s`` after a decision, the previous verdict is returned.
    """
    now = snapshot.at_ns
    started = now if carry.started_ns is None else carry.started_ns
    active_ns = _active_devices(carry, history, now)
    acked = apply_ack_events(carry.acked, snapshot.events)
    carry = carry._replace(started_ns=started, active_ns=active_ns, acked=acked)
    if snapshot.baselines.value:
        carry = carry._replace(learned=with_earlier_baselines(carry.learned, snapshot.baselines.value))
    carry = _with_sample(carry, snapshot, history, limits)
    decided, verdict = carry.decided_ns, carry.verdict
    if verdict is not None and decided is not None and 0 <= now - decided < limits.decide_s * 1e9:
        return carry, verdict
    watched_s = (now - started) / 1e9
    facts = gather(snapshot, history, limits, carry, cache)
    periods = [facts.periods.of(field) or 0.0 for field in ("block", "processes")]
    needed_s = max(limits.shortest_s, limits.periods * max(periods))
    claims = [c for rule in RULES for c in rule(facts)]
    held, pending = decide_active(carry, claims, facts, watched_s - needed_s)
    if watched_s >= needed_s:
        acked = end_acknowledged(acked, carry.held, held, snapshot)
    since = Since(carry.states[-1][1], carry.states[-1][0]) if carry.states else Since("", None)
    opened = open_findings((active.finding for active in held.values()), acked, snapshot)
    lost = lost_so_far(carry.lost, facts, opened, decided)
    lead = leading_job(facts, opened, lost)
    slow = slow_disk(facts, None if carry.verdict is None else carry.verdict.slow_disk)
    findings = _ranked(facts, opened, lead, lost, watched_s >= needed_s, since, slow)
    seen, missing = signal_groups(snapshot)
    verdict = Verdict(findings, watched_s, needed_s, seen, GROUP_COUNT, missing, _pid(lead), slow)
    states = _with_change(carry.states, verdict.state.value, now)
    classes = _with_change(carry.classes, verdict.primary.class_id, now)
    ended = unmatched_kills(carry.ended, now)
    carry = carry._replace(
        held=held, verdict=verdict, decided_ns=now, states=states, lost=lost, classes=classes, pending=pending,
        ended=ended, acked=acked,
    )  # fmt: skip
    return carry, verdict


def _pid(lead: JobFacts | None) -> int | None:
    return None if lead is None else lead.job.key.pid


def with_job_verdict(frame: Frame, pid: int, cache: FoldCache | None = None) -> Frame:
    """The Frame with the verdict about the job of process ``pid``.

    The Frame is unchanged if pid is 0, if no job has such a process, or if that job is already the leading job.
    """
    verdict = verdict_of_job(frame, pid, cache=cache) if pid else frame.verdict
    return frame if verdict is frame.verdict else frame._replace(verdict=verdict)


def verdict_of_job(frame: Frame, pid: int, cache: FoldCache | None = None) -> Verdict:
    """The Frame's verdict with the job of process ``pid`` as the leading job.

    The Frame's verdict is unchanged if no job has such a process, or if that job is already the leading job.
    """
    verdict, carry = frame.verdict, frame.carry
    job = job_with(frame.snapshot, pid)
    if job is None or job.key.pid == verdict.job_pid:
        return verdict
    facts = gather(frame.snapshot, frame.history, LIMITS, carry, cache)
    lead = next(job_facts for job_facts in facts.jobs if job_facts.job is job)
    since = Since(verdict.state.value, verdict.primary.since_ns)
    opened = open_findings((active.finding for active in carry.held.values()), carry.acked, frame.snapshot)
    findings = _ranked(facts, opened, lead, carry.lost, not verdict.measuring, since, verdict.slow_disk)
    return verdict._replace(findings=findings, job_pid=job.key.pid)


def _with_sample(carry: FoldState, snapshot: Snapshot, history: tuple[Sample, ...], limits: Thresholds) -> FoldState:
    """The state updated with the newest Sample; unchanged if there is none or if it was counted before."""
    if not history or (carry.fed_ns is not None and history[-1].at_ns <= carry.fed_ns):
        return carry
    sample = history[-1]
    ended = tuple(event for event in snapshot.events if event.kind in ENDS)
    frozen = any(CLASS_SPECS[class_id].freezes_baseline for class_id, _ in carry.held)
    return carry._replace(
        learned=learn(without_replaced(carry.learned, history), sample, snapshot.disks.value or {}, frozen, limits),
        memory=job_memory.update(carry.memory, snapshot, sample, limits),
        fed_ns=sample.at_ns,
        hung=hung_since(carry.hung, sample),
        gpus=gpu_memory.update(carry.gpus, snapshot, sample, limits),
        ended=(carry.ended + ended)[:_MOST_ENDED] if ended else carry.ended,
    )


def _active_devices(carry: FoldState, history: tuple[Sample, ...], now: int) -> dict[str, int]:
    """``FoldState.active_ns`` after the newest Sample."""
    active = {name: at for name, at in carry.active_ns.items() if now - at <= _ACTIVE_NS}
    if history and history[-1].block.value is not None:
        for key, rates in history[-1].block.value.items():
            if key.name.startswith(SHOWN_ONLY_IF_USED) and rates.active:
                active[key.name] = now
    return active


def _ranked(
    facts: Facts,
    opened: list[Finding],
    lead: JobFacts | None,
    lost: Mapping[ProcessKey, float],
    full: bool,
    since: Since,
    slow: SlowDisk | None,
) -> tuple[Finding, ...]:
    """The findings about the leading job and the machine in order, followed by those about losses of other jobs.

    A finding of class ``unknown`` comes first if no finding is left, or if the window is too short for a verdict.
    opened: the active findings that are not acknowledged. lost: the hours that each job has lost. full: whether the
    window is long enough. since: the state before this verdict. slow: the verdict's slow disk.
    """
    findings, others = split_by_job(facts, opened, lead)
    # Drop OK and CALM findings while a problem is active: they may be active only because of their minimum stay.
    if any(f.state in (State.STARVED, State.BLOCKED, State.STARTING) and not is_aside(f) for f in findings):
        findings = [f for f in findings if f.state not in (State.OK, State.CALM)]
    else:
        covered = {class_id for f in findings for class_id in CLASS_SPECS[f.class_id].covers}
        findings = [f for f in findings if f.class_id not in covered]
    if any(f.state is State.OK for f in findings):
        findings = [f for f in findings if f.state is not State.CALM]
    findings.sort(key=_order)
    if not full or not findings:
        findings.insert(0, unknown_finding(facts, NOTHING_FITS if full else MEASURING, since, lead, slow))
    findings += sorted(others, key=_order)
    shown = frozenset(f.class_id for f in findings)
    primary = findings[0]._replace(ruled_out=ruled_out(facts, findings[0], shown, lead) if full else ())
    return tuple(with_hours(facts, with_cures(facts, f), lost) for f in (primary, *findings[1:]))


def _order(finding: Finding) -> tuple[bool, int, float, float, str]:
    rank = PRECEDENCE.index(finding.class_id)
    if finding.class_id == "fs_full" and finding.severity is not Severity.CRITICAL:
        # Rank it after the causes of lost time, because the jobs are known to read from other filesystems.
        rank = PRECEDENCE.index("gpu_bound")
    return (is_aside(finding), rank, -finding.confidence, -(finding.lost_ratio or 0.0), finding.subject)


def is_aside(finding: Finding) -> bool:
    """Whether the finding reports a fault that costs no time now. Such a finding is shown only beside the verdict."""
    is_fault = finding.state in (State.SLOWED, State.BLOCKED, State.FAILING) or CLASS_SPECS[finding.class_id].wastes
    return is_fault and finding.severity is Severity.INFO


def _with_change(changes: tuple[tuple[int, str], ...], value: str, now: int) -> tuple[tuple[int, str], ...]:
    """The changes of the last hour, and a change to ``value`` unless that is the current value already."""
    recent = sum(now - at <= _CHANGES_NS for at, _ in changes)
    # Keep the last change before that hour, because it gives the state at the beginning of the hour.
    changes = changes[-min(recent + 1, _MOST_CHANGES) :]
    return changes if changes and changes[-1][1] == value else (*changes, (now, value))
