"""Runs the rules over the window, enters and leaves findings, and ranks what is on."""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.diagnosis.acknowledge import heard, open_findings
from iotop_ai.diagnosis.facts import Facts, gather
from iotop_ai.diagnosis.gpu_past import recall
from iotop_ai.diagnosis.hold import hold
from iotop_ai.diagnosis.jobs import JobFacts
from iotop_ai.diagnosis.learned import STORAGE, learn, seeded
from iotop_ai.diagnosis.memory import remember
from iotop_ai.diagnosis.ruled_out import ruled_out, unknown
from iotop_ai.diagnosis.rules import PRECEDENCE, RULES
from iotop_ai.diagnosis.rules.job_end import ENDS
from iotop_ai.diagnosis.thresholds import LIMITS, Thresholds
from iotop_ai.diagnosis.which_job import job_with, leading_job, lost_so_far, sided, with_hours
from iotop_ai.model.carry import Carry
from iotop_ai.model.finding import Finding, Severity, State, Verdict
from iotop_ai.model.frame import Frame
from iotop_ai.model.process import ProcessKey
from iotop_ai.model.sample import Sample
from iotop_ai.model.signal_groups import GROUPS_ALL, signal_groups
from iotop_ai.model.snapshot import Snapshot

HIDING = ("loop", "ram", "zram", "sr", "fd")
"""Names of devices that are shown only while they are in use."""
_SEEN_NS = 60_000_000_000
_STATES_NS = 3_600_000_000_000
_STATES_MOST = 120
_MOST_ENDED = 64


def fold(
    carry: Carry, snapshot: Snapshot, history: tuple[Sample, ...], limits: Thresholds = LIMITS
) -> tuple[Carry, Verdict]:
    """The next carry and the verdict at ``snapshot``.

    history: the Frame's, oldest first, its newest Sample being the one of ``snapshot``; may be empty. Below a second
    apart nothing is decided again: the last verdict stands.
    """
    now = snapshot.at_ns
    started = now if carry.started_ns is None else carry.started_ns
    active = _active(carry, history, now)
    acked = heard(carry.acked, snapshot.events)
    carry = carry._replace(started_ns=started, active_ns=active, acked=acked)
    if snapshot.baselines.value:
        carry = carry._replace(learned=seeded(carry.learned, snapshot.baselines.value))
    carry = _fed(carry, snapshot, history, limits)
    decided, verdict = carry.decided_ns, carry.verdict
    if verdict is not None and decided is not None and 0 <= now - decided < limits.decide_s * 1e9:
        return carry, verdict
    watched = (now - started) / 1e9
    facts = gather(snapshot, history, limits, carry)
    longest = max((p for f in ("block", "processes") if (p := facts.periods.of(f)) is not None), default=0.0)
    needed = max(limits.shortest_s, limits.periods * longest)
    claims = [c for rule in RULES for c in rule(facts)]
    held, pending = hold(carry, claims, facts, watched - needed)
    # Nothing fits since the state last became so; while measuring that is since the start.
    unsure = carry.states[-1][0] if carry.states and carry.states[-1][1] == State.UNSURE else now
    on = open_findings((one.finding for one in held.values()), acked, snapshot)
    lost = lost_so_far(carry.lost, facts, on, decided)
    lead = leading_job(facts, on, lost)
    findings = _ranked(facts, on, lead, lost, watched >= needed, unsure)
    seen, missing = signal_groups(snapshot)
    verdict = Verdict(findings, watched, needed, seen, GROUPS_ALL, missing, _pid(lead))
    states = _changed(carry.states, verdict.state.value, now)
    classes = _changed(carry.classes, verdict.primary.class_id, now)
    carry = carry._replace(
        held=held, verdict=verdict, decided_ns=now, states=states, lost=lost, classes=classes, pending=pending, ended=()
    )
    return carry, verdict


def _pid(lead: JobFacts | None) -> int | None:
    return None if lead is None else lead.job.key.pid


def turned(frame: Frame, pid: int) -> Frame:
    """The Frame with its verdict about the job of a process; the same Frame for 0, and where it is so already."""
    verdict = verdict_of_job(frame, pid) if pid else frame.verdict
    return frame if verdict is frame.verdict else frame._replace(verdict=verdict)


def verdict_of_job(frame: Frame, pid: int, limits: Thresholds = LIMITS) -> Verdict:
    """The Frame's verdict with another job in the lead: that of the process ``pid``.

    It is the Frame's own where no job has such a process, or that job leads already.
    """
    verdict, carry = frame.verdict, frame.carry
    job = job_with(frame.snapshot, pid)
    if job is None or job.key.pid == verdict.job_pid:
        return verdict
    facts = gather(frame.snapshot, frame.history, limits, carry)
    lead = next(one for one in facts.jobs if one.job is job)
    unsure = verdict.primary.since_ns if verdict.state is State.UNSURE else None
    on = open_findings((one.finding for one in carry.held.values()), carry.acked, frame.snapshot)
    findings = _ranked(facts, on, lead, carry.lost, not verdict.measuring, unsure)
    return verdict._replace(findings=findings, job_pid=job.key.pid)


def _fed(carry: Carry, snapshot: Snapshot, history: tuple[Sample, ...], limits: Thresholds) -> Carry:
    """With what the newest Sample teaches, once."""
    if not history or (carry.fed_ns is not None and history[-1].at_ns <= carry.fed_ns):
        return carry
    sample = history[-1]
    ended = tuple(event for event in snapshot.events if event.kind in ENDS)[:_MOST_ENDED]
    frozen = any(class_id in STORAGE for class_id, _ in carry.held)
    return carry._replace(
        learned=learn(carry.learned, sample, snapshot.disks.value or {}, frozen, limits),
        memory=remember(carry.memory, snapshot, sample, limits),
        fed_ns=sample.at_ns,
        gpus=recall(carry.gpus, snapshot, sample, limits),
        ended=(carry.ended + ended)[-_MOST_ENDED:] if ended else carry.ended,
    )


def _active(carry: Carry, history: tuple[Sample, ...], now: int) -> dict[str, int]:
    active = {name: at for name, at in carry.active_ns.items() if now - at <= _SEEN_NS}
    if history and history[-1].block.value is not None:
        for key, rates in history[-1].block.value.items():
            if key.name.startswith(HIDING) and rates.active:
                active[key.name] = now
    return active


def _ranked(
    facts: Facts,
    on: list[Finding],
    lead: JobFacts | None,
    lost: Mapping[ProcessKey, float],
    full: bool,
    unsure_ns: int | None,
) -> tuple[Finding, ...]:
    """The findings in order: of the leading job and the machine, then what other jobs lose."""
    findings, others = sided(facts, on, lead)
    # Good news does not stand beside its contrary while one of them is only kept by its shortest stay.
    if any(f.state in (State.STARVED, State.BLOCKED, State.STARTING) and not aside(f) for f in findings):
        findings = [f for f in findings if f.state not in (State.OK, State.IDLE)]
    elif any(f.class_id == "gpu_bound" for f in findings):
        findings = [f for f in findings if f.class_id != "healthy"]
    if any(f.state is State.OK for f in findings):
        findings = [f for f in findings if f.state is not State.IDLE]
    findings.sort(key=_order)
    if not full or not findings:
        findings.insert(0, unknown(facts, "nothing fits" if full else "measuring", unsure_ns, lead))
    if full and len(findings) > 1 and findings[0].class_id == "unknown":
        findings = findings[1:]
    findings += sorted(others, key=_order)
    shown = frozenset(f.class_id for f in findings)
    first = findings[0]._replace(ruled_out=ruled_out(facts, shown, lead) if full else ())
    return tuple(with_hours(facts, f, lost) for f in (first, *findings[1:]))


def _order(finding: Finding) -> tuple[bool, int, float, float, str]:
    place = PRECEDENCE.index(finding.class_id)
    return (aside(finding), place, -finding.confidence, -(finding.lost_ratio or 0.0), finding.subject)


def aside(finding: Finding) -> bool:
    """Whether it is told beside the verdict: something is not as it should be, but costs nothing now."""
    quiet = finding.state in (State.SLOWED, State.BLOCKED) or finding.class_id == "no_gpu"
    return quiet and finding.severity is Severity.INFO


def _changed(known: tuple[tuple[int, str], ...], word: str, now: int) -> tuple[tuple[int, str], ...]:
    """The changes of the last hour, with the newest word at their end."""
    recent = sum(now - at <= _STATES_NS for at, _ in known)
    # One more than the hour holds: the state in which the hour begins.
    known = known[-min(recent + 1, _STATES_MOST) :]
    return known if known and known[-1][1] == word else (*known, (now, word))
