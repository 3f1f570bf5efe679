"""The words of the fleet's screen and of its text output (causes, stragglers, summary), and the order of the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.fleet.records import WARNING, Fleet, FleetFinding, FleetJob, FleetMachine, Straggler
from iotop_ai.model.job.time_shares import LOST, SHARES
from iotop_ai.model.verdict_class import CLASS_SPECS, State
from iotop_ai.present.job.time_words import Part
from iotop_ai.present.text.line import plain
from iotop_ai.present.text.units import UNDEFINED, UNKNOWN, brief, duration, figure, gpu_time, percent, plural
from iotop_ai.present.verdict.class_names import CLASS_NAMES

HEALTH = ("ok", "WARNING", "FAILING")
"""The words for a disk's health, by its severity."""
SOURCE_LETTERS = {"iotop": "i", "node": "n", "dcgm": "d", "smartctl": "s"}
"""The letter of each exporter, for a column without room for its name."""
_WORST_FIRST = (
    *(State.FAILING, State.BLOCKED, State.STARVED, State.SLOWED, State.WASTED, State.BUSY, State.UNSURE),
    *(State.STARTING, State.OK, State.CALM),
)
_SILENT_RANK = 4.5
"""A silent machine comes after the machines in the five worst states."""
_UNKNOWN_RANK = 6.5
"""A machine without a known state comes after UNSURE."""


def finding_words(finding: FleetFinding) -> str:
    """The finding's name, with the disk if the finding names one: "slow disk", "failing disk nvme1n1"."""
    spec = CLASS_SPECS.get(finding.class_id)
    name = CLASS_NAMES.get(finding.class_id, finding.class_id)
    # The subject of a finding about a job's slow disk is the job's pid.
    disk = finding.subject if spec is not None and spec.names_disk and not finding.subject.isdecimal() else ""
    return f"{name} {disk}".rstrip()


def cause_words(machine: FleetMachine) -> str:
    """The machine's primary finding; "-" if it has none. If the finding is unknown: why, or "?"."""
    if machine.silent:
        return "no reading" if machine.age_s is None else f"no reading for {duration(machine.age_s)}"
    if "iotop" not in machine.sources:
        return "iotop-ai is not running"
    if machine.primary is not None:
        return finding_words(machine.primary)
    if machine.measuring:
        return "measuring"
    return UNDEFINED if machine.state and "findings" not in machine.unanswered else UNKNOWN


def lost_words(machine: FleetMachine) -> str:
    """The GPU-hours lost; "-" without a job or for jobs without a GPU, "?" when unknown."""
    if machine.lost_gpu_h is not None:
        return figure(machine.lost_gpu_h)
    if has_no_job(machine):
        return UNDEFINED
    return UNKNOWN if machine.seconds is None or "job GPUs" in machine.unanswered else UNDEFINED


def has_no_job(machine: FleetMachine) -> bool:
    """Whether the machine runs iotop-ai and is known to have no job."""
    return bool(machine.state) and not machine.job_parts and "job time" not in machine.unanswered


def await_words(machine: FleetMachine) -> str:
    """The await of the machine's busiest disk; "-" without a request, "?" when unknown."""
    disk = machine.disk
    if disk is not None and disk.await_ms is not None:
        return brief(disk.await_ms)
    query = "disk await" if "iotop" in machine.sources else "node's disk await"
    return UNKNOWN if disk is None or query in machine.unanswered else UNDEFINED


def share_words(share: str) -> str:
    """The name of a share of time, for use within a sentence: "data disk"."""
    return Part(share, 1.0, "").short_name


def health_words(machine: FleetMachine) -> str:
    """The health of the machine's worst disk: "ok", "FAILING nvme1n1"; "-" without SMART, "?" when unknown."""
    if machine.health is None:
        return UNDEFINED if machine.no_smart else UNKNOWN
    word = HEALTH[machine.health.severity]
    return word if machine.health.severity < WARNING else f"{word} {machine.health.device}".rstrip()


def gpu_words(machine: FleetMachine) -> str:
    """The mean utilisation of the machine's GPUs in percent; "-" without a GPU, "?" when unknown."""
    return UNDEFINED if machine.no_gpu and not machine.gpus else percent(machine.gpu_busy)


def alert_words(machine: FleetMachine) -> str:
    """The first alert and the number of others: "DiskSlow +2"; "-" if there are none, "?" when unknown."""
    if not machine.alerts:
        return UNKNOWN if "alerts" in machine.unanswered else UNDEFINED
    return machine.alerts[0].name + (f" +{len(machine.alerts) - 1}" if len(machine.alerts) > 1 else "")


def straggler_words(job: FleetJob, straggler: Straggler) -> str:
    """The straggler and the reason why it is late: "ranks 8-15 on gpu07: data disk 62 %, others 3 %; slow disk; 8 of 64
    ranks; the others wait for it 55 % of the time".
    """
    cause = share_words(straggler.cause)
    text = f"{late_words(straggler)}: {cause} {percent(straggler.ratio)} %, others {percent(straggler.others)} %"
    if straggler.finding is not None and straggler.finding.class_id != "comm_wait":
        text += f"; {finding_words(straggler.finding)}"
    part = next((part for part in job.parts if part.machine == straggler.machine), None)
    if part is not None and part.ranks and job.ranks:
        text += f"; {part.ranks} of {plural(job.ranks, 'rank')}"
    return f"{text}; the others wait for it {percent(straggler.waited)} % of the time"


def late_words(straggler: Straggler) -> str:
    """The late ranks: "ranks 8-15 on gpu07", "rank 13 on gpu07"; "gpu07" if their numbers are unknown."""
    machine = plain(straggler.machine)
    if not straggler.ranks:
        return machine
    return f"{'rank' if straggler.ranks.isdecimal() else 'ranks'} {straggler.ranks} on {machine}"


class Loss(NamedTuple):
    """The cost of one cause. share: the cause, as one of SHARES. lost: the GPU-hours lost, or hours if no job has a
    GPU. machines: the number of machines that cause the loss.
    """

    share: str
    lost: float
    machines: int


def losses(fleet: Fleet) -> tuple[Loss, ...]:
    """The causes of lost time, the largest loss first. A wait for a straggler counts as the straggler's cause."""
    lost_by_cause: dict[str, float] = {}
    machines_by_cause: dict[str, set[str]] = {}
    has_gpus = any(part.gpus for job in fleet.jobs for part in job.parts)
    for job in fleet.jobs:
        straggler = job.straggler
        for part in job.parts:
            gpus = (part.gpus or 0) if has_gpus else 1
            for name in LOST:
                if part.seconds is None or not (lost := part.seconds[SHARES.index(name)] * gpus / 3600):
                    continue
                cause, machine = name, part.machine
                if straggler is not None and name == "collective" and straggler.cause in LOST:
                    # The loss is due to the straggler, not to the machines that wait for it.
                    cause, machine = straggler.cause, straggler.machine
                lost_by_cause[cause] = lost_by_cause.get(cause, 0.0) + lost
                machines_by_cause.setdefault(cause, set()).add(machine)
    ranked = sorted(lost_by_cause, key=lambda name: -lost_by_cause[name])
    return tuple(Loss(name, lost_by_cause[name], len(machines_by_cause[name])) for name in ranked)


def lost_total(fleet: Fleet) -> float | None:
    """The GPU-hours lost on all machines; None if no job has a GPU, or when unknown."""
    lost_hours = [lost for job in fleet.jobs if (lost := job.lost_gpu_h) is not None]
    return sum(lost_hours) if lost_hours else None


def summary(fleet: Fleet) -> tuple[State, str]:
    """The worst state of the machines that have trouble (OK or UNSURE if none has), and a sentence: how many machines
    have trouble, how much time is lost, and the largest cause of that loss.
    """
    troubled = [machine for machine in fleet.machines if machine.troubled]
    count_text = plural(len(fleet.machines), "machine")
    if not fleet.machines:
        return State.UNSURE, "no machine: this Prometheus has no figures of iotop-ai, node_exporter or dcgm-exporter"
    states = [machine.state for machine in troubled if machine.state in _WORST_FIRST]
    if not troubled and fleet.unanswered:
        queries = "1 query" if len(fleet.unanswered) == 1 else f"{len(fleet.unanswered)} queries"
        state, text = State.UNSURE, f"{count_text}, nothing wrong seen; {queries} not answered"
    elif not troubled:
        state, text = _summary_without_trouble(fleet.machines, count_text)
    else:
        state = State(min(states, key=_WORST_FIRST.index)) if states else State.UNSURE
        text = f"{len(troubled)} of {count_text} {'has' if len(troubled) == 1 else 'have'} trouble"
    return state, "; ".join([text, *_loss_clauses(fleet)])


def _summary_without_trouble(machines: Sequence[FleetMachine], count_text: str) -> tuple[State, str]:
    """The state and the sentence if no machine has trouble. The state is OK only if each iotop-ai has a verdict."""
    without_verdict = [m for m in machines if not m.state or m.state == State.UNSURE.value or m.measuring]
    if len(without_verdict) == len(machines):
        return State.UNSURE, f"{count_text}, none with a verdict from iotop-ai"
    if not without_verdict:
        return State.OK, f"{count_text}, nothing wrong"
    state = State.UNSURE if any("iotop" in machine.sources for machine in without_verdict) else State.OK
    return state, f"{count_text}, nothing wrong seen; {len(without_verdict)} without a verdict from iotop-ai"


def _loss_clauses(fleet: Fleet) -> list[str]:
    total, by_cause = lost_total(fleet), losses(fleet)
    if not by_cause:
        return []
    worst = by_cause[0]
    name = share_words(worst.share)
    machines = plural(worst.machines, "machine")
    hours = sum(loss.lost for loss in by_cause)
    lost = f"{duration(hours * 3600)} of jobs' time" if total is None else gpu_time(total)
    return [f"{lost} lost in {duration(fleet.window_s)}", f"{percent(worst.lost / hours)} % {name} ({machines})"]


SORTS: Mapping[str, str] = {
    "lost": "GPU-hours lost",
    "state": "state",
    "name": "name",
    "gpu": "GPU use",
    "util": "%util",
    "await": "await",
    "health": "health",
    "alerts": "alerts",
}
"""The orders of the rows, and their names on the screen."""


def sort_machines(machines: Sequence[FleetMachine], key: str, *, reverse: bool = False) -> list[FleetMachine]:
    """The machines sorted by a key of SORTS: the worst first, equal ones by name.

    An unknown loss or number of alerts counts as 0, and an unknown state as slightly better than UNSURE. A machine with
    any other unknown value comes last. reverse: the whole order is reversed.
    """

    def rank(machine: FleetMachine) -> tuple[float, ...]:
        match key:
            case "lost":
                ratio = machine.lost_ratio
                return (-(machine.lost_gpu_h or 0.0), -(ratio or 0.0), _state_rank(machine))
            case "gpu":
                return (1e9 if machine.gpu_busy is None else machine.gpu_busy,)
            case "util":
                return (_highest_first(machine.disk.busy_ratio if machine.disk else None),)
            case "await":
                return (_highest_first(machine.disk.await_ms if machine.disk else None),)
            case "health":
                return (_highest_first(machine.health.severity if machine.health else None),)
            case "alerts":
                return (-len(machine.alerts),)
            case "state":
                return (_state_rank(machine), -(machine.lost_ratio or 0.0))
        return ()

    out = sorted(sorted(machines, key=lambda machine: _natural(machine.name)), key=rank)
    return out[::-1] if reverse else out


def _highest_first(value: float | None) -> float:
    return 1e9 if value is None else -value


def _state_rank(machine: FleetMachine) -> float:
    """The rank of the machine's state, the worst first."""
    if machine.silent:
        return _SILENT_RANK
    return float(_WORST_FIRST.index(State(machine.state))) if machine.state in _WORST_FIRST else _UNKNOWN_RANK


def _natural(name: str) -> list[tuple[int, int, str]]:
    """A sort key that puts "gpu9" before "gpu10"."""
    out: list[tuple[int, int, str]] = []
    digits, letters = "", ""
    for char in name:
        if char.isascii() and char.isdigit():
            if letters:
                out.append((1, 0, letters))
            digits, letters = digits + char, ""
        else:
            if digits:
                out.append((0, int(digits), ""))
            digits, letters = "", letters + char
    out.append((0, int(digits), "") if digits else (1, 0, letters))
    return out


def matches(machine: FleetMachine, pattern: str) -> bool:
    """Whether each word of the pattern occurs in the machine's name, state, cause, health, sources, alerts or jobs."""
    words = pattern.lower().split()
    if not words:
        return True
    jobs = " ".join(f"{part.script} {part.slurm} {part.unit}" for part in machine.job_parts)
    alerts = " ".join(alert.name for alert in machine.alerts)
    state = f"{machine.state} {cause_words(machine)} {health_words(machine)}"
    text = " ".join((machine.name, state, *machine.sources, alerts, jobs)).lower()
    return all(word in text for word in words)
