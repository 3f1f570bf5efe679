"""Machines and jobs of a fleet over one window of time. None stands for unknown."""

from __future__ import annotations

from collections.abc import Iterable

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.counter import sum_of_known
from iotop_ai.model.job.time_shares import LOST, SHARES
from iotop_ai.model.verdict_class import LOSING, State

OK, WARNING, CRITICAL = 0, 1, 2
"""The severities of a disk's health."""
SILENT_S = 90.0
"""If the server does not answer which machines still deliver readings, a machine whose newest reading is more than this
many seconds old counts as silent. Prometheus usually scrapes once a minute or more often."""
_TROUBLE_STATES = (*LOSING, State.WASTED)
_LOST_INDEXES = tuple(SHARES.index(name) for name in LOST)


class FleetFinding(NamedTuple):
    """An active finding as a machine's exporter reports it.

    class_id, state: names as in model.verdict_class, which are not checked
    subject: the disk, GPU or pid that the finding is about
    """

    class_id: str
    state: str
    subject: str = ""
    severity: str = ""
    primary: bool = False
    lost_ratio: float | None = None


class FleetAlert(NamedTuple):
    """A firing alert of Prometheus; ``severity`` is the value of that label, "" without one."""

    name: str
    severity: str = ""

    @property
    def reports_trouble(self) -> bool:
        """Whether the alert reports trouble; Watchdog ("none") and InfoInhibitor ("info") do not."""
        return self.severity.lower() not in ("none", "info")


class FleetDisk(NamedTuple):
    """A machine's busiest disk.

    busy_ratio: the share of time with a request in flight
    await_ms: the mean time of its reads and writes
    """

    name: str
    busy_ratio: float | None = None
    await_ms: float | None = None


class FleetHealth(NamedTuple):
    """A machine's worst disk by SMART; ``severity`` is OK, WARNING or CRITICAL."""

    device: str
    severity: int


class JobPart(NamedTuple):
    """The part of a job that runs on one machine.

    slurm: the Slurm job id; "" without one
    unit: the name of the pod, container or service
    seconds: how many seconds of the window the job spent in each share, in the order of SHARES; None if unknown
    numbers: the global numbers of its ranks on this machine, such as "8-15"; "" if unknown
    group: a name that its ranks on all machines share; "" without one
    late_rank: the number of the rank for which the other ranks on this machine wait; None if unknown
    current: whether Prometheus has its newest figures; False for an ended part, and after a failed scrape
    """

    machine: str
    pid: str = ""
    script: str = ""
    slurm: str = ""
    unit: str = ""
    seconds: tuple[float, ...] | None = None
    gpus: int | None = None
    ranks: int | None = None
    numbers: str = ""
    group: str = ""
    late_rank: int | None = None
    current: bool = False

    @property
    def late_numbers(self) -> str:
        """The number of the late rank; if that is unknown, the numbers of all ranks on this machine."""
        return self.numbers if self.late_rank is None else str(self.late_rank)

    @property
    def lost_s(self) -> float | None:
        """The seconds of the window that were lost for a known reason."""
        return None if self.seconds is None else sum(self.seconds[i] for i in _LOST_INDEXES)

    @property
    def lost_gpu_h(self) -> float | None:
        """GPU-hours lost: ``lost_s`` in hours times the number of GPUs; None without a GPU, and if unknown."""
        lost = self.lost_s
        return None if lost is None or not self.gpus else lost * self.gpus / 3600

    def share(self, name: str) -> float:
        """The share of time called ``name``, 0 to 1; 0 if no time was counted."""
        whole = sum(self.seconds or ())
        return self.seconds[SHARES.index(name)] / whole if self.seconds and whole else 0.0


class Straggler(NamedTuple):
    """The machine for which the other machines of a job wait.

    cause: the kind of time whose share on this machine exceeds the other machines' median share the most
    ratio: that share on this machine
    others: the median of the same share on the other machines
    waited: the median share of time in which the other machines wait
    finding: the machine's primary finding
    ranks: the number of the late rank ("13"), or the numbers of all ranks on the machine ("8-15"); "" if unknown
    """

    machine: str
    cause: str
    ratio: float
    others: float
    waited: float
    finding: FleetFinding | None = None
    ranks: str = ""


class FleetJob(NamedTuple):
    """A job on one or more machines.

    name: "slurm 48213", the group of its ranks, the unit, or "gpu07 pid 4711"
    """

    name: str
    script: str
    parts: tuple[JobPart, ...]
    straggler: Straggler | None = None

    @property
    def key(self) -> str:
        """A key that is unique among the jobs; ``name`` is not, because the jobs of one unit share it."""
        first = self.parts[0]
        joined = first.slurm or len(self.parts) > 1
        return self.name if joined else f"{self.name} {first.machine} {first.pid} {first.script}"

    @property
    def lost_gpu_h(self) -> float | None:
        """The GPU-hours lost on all machines."""
        return sum_of_known(part.lost_gpu_h for part in self.parts)

    @property
    def machine_count(self) -> int:
        """The number of machines. Several parts may be on one machine, such as the scripts of one Slurm job."""
        return len({part.machine for part in self.parts})

    @property
    def gpus(self) -> int | None:
        """The number of the job's GPUs on all machines."""
        total = sum_of_known(part.gpus for part in without_replaced(self.parts))
        return None if total is None else int(total)

    @property
    def ranks(self) -> int | None:
        """The number of training processes on all machines."""
        total = sum_of_known(part.ranks for part in without_replaced(self.parts))
        return None if total is None else int(total)

    @property
    def seconds(self) -> tuple[float, ...] | None:
        """How the job spent its time, as seconds in the order of SHARES; each machine is weighted by its GPUs."""
        return weighted_seconds(self.parts)


class FleetMachine(NamedTuple):
    """One machine.

    instance: its value of the label ``instance`` in Prometheus
    sources: the exporters that report on it: iotop, node, dcgm, smartctl
    state: the word of its verdict; "" without a verdict
    age_s: the age of its newest reading in seconds; None if iotop-ai does not run on it
    gpu_busy: the mean utilisation of its GPUs, 0 to 1
    silent: whether it has stopped reporting
    no_gpu, no_smart: whether its collectors report that it has no GPU, or no disk with SMART
    unanswered: the names of the queries that were not answered; their figures are unknown
    """

    name: str
    instance: str
    sources: tuple[str, ...] = ()
    state: str = ""
    measuring: bool = False
    age_s: float | None = None
    silent: bool = False
    findings: tuple[FleetFinding, ...] = ()
    job_parts: tuple[JobPart, ...] = ()
    gpus: int | None = None
    gpu_busy: float | None = None
    no_gpu: bool = False
    disk: FleetDisk | None = None
    health: FleetHealth | None = None
    no_smart: bool = False
    alerts: tuple[FleetAlert, ...] = ()
    unanswered: tuple[str, ...] = ()

    @property
    def primary(self) -> FleetFinding | None:
        """The finding that the machine's banner shows."""
        return next((finding for finding in self.findings if finding.primary), None)

    @property
    def lost_gpu_h(self) -> float | None:
        """The GPU-hours lost in the window."""
        return sum_of_known(part.lost_gpu_h for part in self.job_parts)

    @property
    def seconds(self) -> tuple[float, ...] | None:
        """How its jobs spent their time, as seconds in the order of SHARES; each job is weighted by its GPUs."""
        return weighted_seconds(self.job_parts)

    @property
    def troubled(self) -> bool:
        """Whether something is wrong: time is lost, a GPU is wasted, a disk is unhealthy, an alert reports trouble, or
        the machine is silent."""
        primary = self.primary
        loses_time = (
            primary is not None and primary.severity in ("warning", "critical") and primary.state in _TROUBLE_STATES
        )
        disk_is_unhealthy = self.health is not None and self.health.severity > OK
        return loses_time or disk_is_unhealthy or self.silent or any(alert.reports_trouble for alert in self.alerts)

    @property
    def lost_ratio(self) -> float | None:
        """The share of its jobs' time that was lost for a known reason."""
        seconds = self.seconds
        whole = sum(seconds or ())
        return None if seconds is None or not whole else sum(seconds[i] for i in _LOST_INDEXES) / whole


class Fleet(NamedTuple):
    """The whole fleet at one refresh.

    at_s: the Unix time of the Prometheus server
    alerts: the alerts that do not name a machine
    unanswered: the names of the queries that were not answered
    """

    at_s: float
    window_s: float
    machines: tuple[FleetMachine, ...] = ()
    jobs: tuple[FleetJob, ...] = ()
    alerts: tuple[FleetAlert, ...] = ()
    unanswered: tuple[str, ...] = ()


def without_replaced(parts: Iterable[JobPart]) -> tuple[JobPart, ...]:
    """The parts of a job, except each ended part (such as an earlier attempt) whose machine also has a current part."""
    parts = tuple(parts)
    machines = {part.machine for part in parts if part.current}
    return tuple(part for part in parts if part.current or part.machine not in machines)


def weighted_seconds(parts: tuple[JobPart, ...]) -> tuple[float, ...] | None:
    """The sums of the parts' seconds, in the order of SHARES; None if all are unknown.

    Each part is multiplied by its number of GPUs, or by 1 if it has none.
    """
    known = [(part.seconds, max(1, part.gpus or 0)) for part in parts if part.seconds is not None]
    if not known:
        return None
    return tuple(sum(seconds[i] * gpus for seconds, gpus in known) for i in range(len(SHARES)))
