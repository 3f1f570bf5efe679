"""A fleet in words: causes, the summary, stragglers; and the order and the filter of its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.fleet.records import WARNING, Fleet, FleetFinding, FleetJob, FleetMachine, Straggler
from iotop_ai.model.job.time_shares import LOST, SHARES
from iotop_ai.model.verdict_class import CLASS_SPECS, State
from iotop_ai.present.job.time_words import Part
from iotop_ai.present.text.line import plain
from iotop_ai.present.text.units import UNDEFINED, UNKNOWN, duration, gpu_time, percent, plural
from iotop_ai.present.verdict.class_names import CLASS_NAMES

HEALTH = ("ok", "WARNING", "FAILING")
SOURCE_LETTERS = {"iotop": "i", "node": "n", "dcgm": "d", "smartctl": "s"}
_WORST = (
    *(State.FAILING, State.BLOCKED, State.STARVED, State.SLOWED, State.WASTED, State.BUSY, State.UNSURE),
    *(State.STARTING, State.OK, State.CALM),
)


def finding_words(one: FleetFinding) -> str:
    """ "slow disk"; with the disk where the finding names one: "failing disk nvme1n1"."""
    spec = CLASS_SPECS.get(one.class_id)
    name = CLASS_NAMES.get(one.class_id, one.class_id)
    # A slow disk of a job has the job's pid as its subject.
    disk = one.subject if spec is not None and spec.names_disk and not one.subject.isdecimal() else ""
    return f"{name} {disk}".rstrip()


def cause_words(one: FleetMachine) -> str:
    """Why its time is lost, or why that is not known; "-" where nothing is wrong."""
    if one.silent:
        return "no reading" if one.age_s is None else f"no reading for {duration(one.age_s)}"
    if "iotop" not in one.sources:
        return "no iotop-ai there"
    if one.primary is not None:
        return finding_words(one.primary)
    if one.measuring:
        return "measuring"
    return UNDEFINED if one.state else UNKNOWN


def share_words(share: str) -> str:
    """A share of time within a sentence: "data disk"."""
    return Part(share, 1.0, "").short_name


def health_words(one: FleetMachine) -> str:
    """ "ok", or what is wrong with which disk."""
    if one.health is None:
        return UNDEFINED if one.no_smart else UNKNOWN
    word = HEALTH[one.health.severity]
    return word if one.health.severity < WARNING else f"{word} {one.health.device}".rstrip()


def gpu_words(one: FleetMachine) -> str:
    """Mean use of its GPUs in percent."""
    return UNDEFINED if one.no_gpu and not one.gpus else percent(one.gpu_busy)


def alert_words(one: FleetMachine) -> str:
    """The first alert, and how many more."""
    if not one.alerts:
        return UNDEFINED
    return one.alerts[0].name + (f" +{len(one.alerts) - 1}" if len(one.alerts) > 1 else "")


def straggler_words(job: FleetJob, one: Straggler) -> str:
    """ "ranks 8-15 on gpu07: data disk 62 %, others 3 %; slow disk; the others wait 55 % of the time for it"."""
    cause = share_words(one.cause)
    text = f"{late_words(one)}: {cause} {percent(one.ratio)} %, others {percent(one.others)} %"
    if one.finding is not None and one.finding.class_id != "comm_wait":
        text += f"; {finding_words(one.finding)}"
    part = next((part for part in job.parts if part.machine == one.machine), None)
    if part is not None and part.ranks and job.ranks:
        text += f"; {part.ranks} of {plural(job.ranks, 'rank')}"
    return f"{text}; the others wait {percent(one.waited)} % of the time for it"


def late_words(one: Straggler) -> str:
    """ "ranks 8-15 on gpu07", "rank 13 on gpu07", or "gpu07" where their numbers are not known."""
    machine = plain(one.machine)
    if not one.ranks:
        return machine
    return f"{'rank' if one.ranks.isdecimal() else 'ranks'} {one.ranks} on {machine}"


class Loss(NamedTuple):
    """What one cause costs. share: its name. lost: GPU-hours, or hours where no machine has a GPU."""

    share: str
    lost: float
    machines: int


def losses(fleet: Fleet) -> tuple[Loss, ...]:
    """The causes, the largest first. A wait for a straggler counts as the straggler's cause."""
    cost: dict[str, float] = {}
    where: dict[str, set[str]] = {}
    has_gpus = any(part.gpus for job in fleet.jobs for part in job.parts)
    for job in fleet.jobs:
        late = job.straggler
        for part in job.parts:
            times = (part.gpus or 0) if has_gpus else 1
            for name in LOST:
                if part.seconds is None or not (lost := part.seconds[SHARES.index(name)] * times / 3600):
                    continue
                moved = late is not None and name == "collective" and late.cause in LOST
                cause = late.cause if moved and late is not None else name
                cost[cause] = cost.get(cause, 0.0) + lost
                # The machines that wait for a straggler do not have its fault.
                where.setdefault(cause, set()).add(late.machine if moved and late is not None else part.machine)
    ranked = sorted(cost, key=lambda name: -cost[name])
    return tuple(Loss(name, cost[name], len(where[name])) for name in ranked)


def lost_total(fleet: Fleet) -> float | None:
    """GPU-hours lost on all machines; None without a GPU in a job."""
    known = [lost for job in fleet.jobs if (lost := job.lost_gpu_h) is not None]
    return sum(known) if known else None


def summary(fleet: Fleet) -> tuple[State, str]:
    """The worst state, and a sentence: how many machines, what is lost, and to what most."""
    troubled = [one for one in fleet.machines if one.troubled]
    many = plural(len(fleet.machines), "machine")
    if not fleet.machines:
        return State.UNSURE, "no machine: this Prometheus has no figures of iotop-ai, node_exporter or dcgm-exporter"
    states = [one.state for one in troubled if one.state in _WORST]
    if not troubled:
        known = any(one.state for one in fleet.machines)
        state = State.OK if known else State.UNSURE
        text = f"{many}, nothing wrong" if known else f"{many}, none with a verdict of iotop-ai"
    else:
        state = State(min(states, key=_WORST.index)) if states else State.UNSURE
        text = f"{len(troubled)} of {many} {'has' if len(troubled) == 1 else 'have'} trouble"
    return state, "; ".join([text, *_lost_words(fleet)])


def _lost_words(fleet: Fleet) -> list[str]:
    total, by_cause = lost_total(fleet), losses(fleet)
    if not by_cause:
        return []
    worst = by_cause[0]
    name = share_words(worst.share)
    where = plural(worst.machines, "machine")
    hours = sum(one.lost for one in by_cause)
    lost = f"{duration(hours * 3600)} of jobs' time" if total is None else gpu_time(total)
    return [f"{lost} lost in {duration(fleet.window_s)}", f"{percent(worst.lost / hours)} % {name} ({where})"]


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
"""The keys of the order of rows, and what they are called."""


def in_order(machines: Sequence[FleetMachine], key: str, *, reverse: bool = False) -> list[FleetMachine]:
    """The worst first, a tie by name; the unknown last."""

    def rank(one: FleetMachine) -> tuple[float, ...]:
        match key:
            case "lost":
                ratio = one.lost_ratio
                return (-(one.lost_gpu_h or 0.0), -(ratio or 0.0), _state_rank(one))
            case "gpu":
                return (1e9 if one.gpu_busy is None else one.gpu_busy,)
            case "util":
                return (_high(one.disk.busy_ratio if one.disk else None),)
            case "await":
                return (_high(one.disk.await_ms if one.disk else None),)
            case "health":
                return (_high(one.health.severity if one.health else None),)
            case "alerts":
                return (-len(one.alerts),)
            case "state":
                return (_state_rank(one), -(one.lost_ratio or 0.0))
        return ()

    out = sorted(sorted(machines, key=lambda one: _natural(one.name)), key=rank)
    return out[::-1] if reverse else out


def _high(value: float | None) -> float:
    return 1e9 if value is None else -value


def _state_rank(one: FleetMachine) -> float:
    """Silent machines stand behind those that lose time."""
    if one.silent:
        return 4.5
    return float(_WORST.index(State(one.state))) if one.state in _WORST else 6.5


def _natural(name: str) -> list[tuple[int, int, str]]:
    """ "gpu9" before "gpu10"."""
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


def matches(one: FleetMachine, pattern: str) -> bool:
    """Whether each word is in its name, state, cause, health, sources, alerts, or a job's script or id."""
    words = pattern.lower().split()
    if not words:
        return True
    jobs = " ".join(f"{part.script} {part.slurm} {part.unit}" for part in one.parts)
    alerts = " ".join(alert.name for alert in one.alerts)
    text = f"{one.name} {one.state} {cause_words(one)} {health_words(one)} {' '.join(one.sources)} {alerts} {jobs}"
    text = text.lower()
    return all(word in text for word in words)
