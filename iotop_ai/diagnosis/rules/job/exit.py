"""The rule about a job with a process that failed."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.diagnosis.facts.gather import Args, Claim, Facts
from iotop_ai.diagnosis.rules.job.common import shm_args
from iotop_ai.model.finding import Advice, Evidence, Finding, Severity
from iotop_ai.model.job.exits import CRASHES, ENDED, KILLED, TRAINER, WORKER, how_it_ended, may_end_by_kill
from iotop_ai.model.snapshot import Event

OOM_KILL = "oom_kill"
ENDS = (ENDED, OOM_KILL)
"""The kinds of events that this rule reads."""
SURE = 0.95
UNKNOWN_END = 0.6
"""The confidence with a known exit code, and without one."""
_HUP, _INT, _BUS, _PIPE, _TERM = -1, -2, -7, -13, -15
_FAULTS = (KILLED, *CRASHES)
"""The exit codes with which a worker counts as failed."""
_WANTED = (0, _INT, 130)
"""Exits that the user wanted: success, or Ctrl-C."""
_MOST_KILLS = 16
"""The most OOM kills that are kept until their process ends."""
_FOLLOWS_NS = 60_000_000_000
"""If another process of a job ends within this time after the first one, it ends because of the first one."""


def job_ended_badly(facts: Facts) -> tuple[Claim, ...]:
    """A trainer exited with an error, or the trainer or one of its workers was killed or crashed.

    Claim: job_died: the training does not go on.
    Evidence: exit codes and signals of the job's processes: as root from the kernel, else from zombies that are
        readable (such as the command that `record` runs); OOM kills.
    Threshold: a trainer ends with neither exit code 0 nor Ctrl-C; a worker is killed or crashes; or a process ends with
        an unknown exit code within 60 s after its OOM kill (60 % sure). If the log does not say which process was
        killed, the trainer's end within 15 s counts. Other ends of the job within 60 s do not replace the first one,
        except an OOM kill. In a weakly recognised job only a crash or an OOM kill counts. The finding appears at once.
        It stays for 10 minutes, or until a later job is at work or it is acknowledged.
    Blind spot: without root it misses a process whose exit code it cannot read, except after an OOM kill. It ignores a
        worker that exits with an error of its own.
    """
    events = facts.carry.ended
    kills = [event for event in events if event.kind == OOM_KILL]
    worst: dict[int, tuple[Event, bool]] = {}
    for event in events:
        oom_killed = _oom_killed(event, kills)
        if event.kind != ENDED or event.pid is None or not _is_failure(event, oom_killed):
            continue
        pid = event.job_pid if event.job_pid is not None else event.pid
        if _follows(facts, pid, oom_killed):
            continue
        # Workers end with their trainer. If only one of them was killed, that process is the cause.
        if pid not in worst or _weight(event, oom_killed) > _weight(*worst[pid]):
            worst[pid] = event, oom_killed
    return tuple(_claim(facts, pid, event, oom_killed) for pid, (event, oom_killed) in worst.items())


def unmatched_kills(events: Sequence[Event], now_ns: int) -> tuple[Event, ...]:
    """The newest OOM kills whose process has not ended yet. Its end may come several decisions after the kill."""
    ends = [event for event in events if event.kind == ENDED]
    kills = (event for event in events if event.kind == OOM_KILL)
    recent = [kill for kill in kills if may_end_by_kill(kill.pid, now_ns - kill.at_ns)]
    return tuple(kill for kill in recent if not any(_follows_from_kill(end, kill) for end in ends))[-_MOST_KILLS:]


def _weight(event: Event, oom_killed: bool) -> int:
    """The precedence of an end as the cause of the other ends of its job; the highest is the cause."""
    return 2 if oom_killed else int(event.code in _FAULTS)


def _follows(facts: Facts, pid: int, oom_killed: bool) -> bool:
    """Whether another process of the job failed shortly before, so that this process ended because of it.

    A trainer exits with an error because its worker was killed, and a launcher stops the ranks that are left. An OOM
    kill does not follow from another failure, unless that was an OOM kill too.

    pid: the pid of the job's top process.
    """
    death = facts.carry.held.get(("job_died", str(pid)))
    if death is None or not 0 <= facts.snapshot.at_ns - death.last_true_ns < _FOLLOWS_NS:
        return False
    return not oom_killed or ("oom", 1.0) in death.finding.args


def _oom_killed(event: Event, kills: list[Event]) -> bool:
    """Whether the OOM killer killed the process."""
    return any(_follows_from_kill(event, kill) for kill in kills)


def _follows_from_kill(end: Event, kill: Event) -> bool:
    """Whether the end follows from the OOM kill. If the killed process is unknown, it may be any process."""
    if kill.pid is not None:
        return end.pid == kill.pid and end.code in (None, KILLED)
    # Workers end with every epoch, so an unknown end of a worker does not show that it was killed.
    return end.code == KILLED or (end.code is None and end.role == TRAINER)


def _is_failure(event: Event, oom_killed: bool) -> bool:
    if event.code is None:
        return oom_killed
    if event.role == TRAINER:
        return event.code not in _WANTED
    return event.role == WORKER and event.code in _FAULTS


def _names(event: Event) -> tuple[str, str]:
    """The names of the job and of its worker ("" if the trainer failed), from the event's text."""
    what = event.text.removeprefix(f"{event.role} ").rsplit(": ", 1)[0]
    name, *rest = what.rsplit(" (pid ", 1)
    job = rest[0].partition(") of ")[2] if rest else ""
    return (job, name) if event.role == WORKER and job else (name, "")


def _advice(facts: Facts, event: Event, oom_killed: bool, args: Args) -> tuple[Advice, ...]:
    if event.code == _BUS:
        job = next((job_facts for job_facts in facts.jobs if ("job_pid", float(job_facts.job.key.pid)) in args), None)
        return (Advice("larger_shm", (*args, *shm_args(facts, job))),)
    if oom_killed:
        return (Advice("less_memory", args),)
    if event.code == KILLED:
        return (Advice("who_killed", args),)
    if event.code in CRASHES:
        return (Advice("fault_handler", args),)
    if event.code in (_HUP, _PIPE):
        return (Advice("outlive_session", args),)
    if event.code is not None and event.code < 0:
        return (Advice("who_stopped", args),)
    return (Advice("read_log", args),)


def _claim(facts: Facts, pid: int, event: Event, oom_killed: bool) -> Claim:
    job, worker = _names(event)
    memory = facts.snapshot.memory.value
    args: Args = (
        ("job", job),
        ("job_pid", float(pid)),
        ("pid", None if event.pid is None else float(event.pid)),
        ("worker", worker),
        ("end", how_it_ended(event.code)),
        ("oom", 1.0 if oom_killed else 0.0),
        ("available", None if memory is None else memory.available_bytes),
    )
    finding = Finding(
        "job_died",
        Severity.WARNING if event.code == _TERM else Severity.CRITICAL,
        SURE if event.code is not None else UNKNOWN_END,
        str(pid),
        args,
        _evidence(pid, event, oom_killed),
        advice=_advice(facts, event, oom_killed, args),
    )
    return Claim(finding, 1.0, 1, 1, at_once=True)


def _evidence(pid: int, event: Event, oom_killed: bool) -> tuple[Evidence, ...]:
    out = (Evidence(f"jobs.{pid}.exit_code", None if event.code is None else float(event.code), "count", 0.0),)
    return (*out, Evidence("memory.oom_kills", 1.0, "count", 0.0)) if oom_killed else out
