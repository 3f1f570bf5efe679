"""The record of a run: everything that reports show and comparisons compare. Base units; None is unknown."""

from __future__ import annotations

from typing import NamedTuple

from iotop_ai.diagnosis.facts.leading_job import job_pid
from iotop_ai.export.report.series import Curve, Stat
from iotop_ai.model.block.counters import BlockInfo
from iotop_ai.model.finding import Finding
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.job.time_shares import TimeCounts
from iotop_ai.model.reading import Reading
from iotop_ai.model.snapshot import Event, Host
from iotop_ai.model.verdict_totals import VerdictSpan


class Machine(NamedTuple):
    """The machine at the end of the run.

    gpus: the names of its GPUs. missing: a clause for each group of signals that could not be read. tool: the program
    that recorded the run. origin: the log from which the run was imported; "" if it was recorded.
    """

    host: Host
    cores: int | None
    memory_bytes: int | None
    gpus: tuple[str, ...]
    disks: int | None
    missing: tuple[str, ...]
    tool: str
    origin: str


class Steps(NamedTuple):
    """The steps of a job.

    source: what counted the steps: "its own report", or the kind of a log. per_s: the steps per second over the time in
    which they are known, or the mean that the log itself gives; None if unknown. note: what is missing. reading_s: the
    mean time between two readings of the steps, in seconds; 0 if the points of the curve are at least that far apart.
    """

    source: str
    steps: int
    per_s: float | None
    curve: Curve | None
    note: str = ""
    reading_s: float = 0.0

    @property
    def spacing_s(self) -> float:
        """The seconds between two readings of the curve, which may fill several of its points; 0 without a curve."""
        return 0.0 if self.curve is None else max(self.curve.step_s, self.reading_s)


class JobStory(NamedTuple):
    """One training job.

    is_recorded_command: whether it belongs to the recorded command. begin_ns, end_ns: wall times. process_began_ns: the
    wall time at which its top process began; None when unknown. counts: the milliseconds of each share of its time; 0
    if not recorded. shares: each share over time, by name, without those that are always 0.

    ranks, workers, gpus: the largest numbers during the run. They are None, and user is "", for a job that lived
    between two Snapshots. mount, fstype, disk: its main source of data, by its open files; "" when unknown. disk is
    also "" if the data is not on a local disk. mean_gpus: the mean number of GPUs that it held, over the time in which
    its GPUs are known; a GPU counts for a part while other jobs hold it too.
    """

    pid: int
    name: str
    user: str
    label: str
    framework: str
    ranks: int | None
    workers: int | None
    gpus: int | None
    is_recorded_command: bool
    begin_ns: int
    end_ns: int
    counts: TimeCounts
    shares: dict[str, Curve]
    steps: Steps | None = None
    mount: str = ""
    fstype: str = ""
    disk: str = ""
    process_began_ns: int | None = None
    mean_gpus: float = 0.0

    @property
    def has_time(self) -> bool:
        """Whether the job's time was counted."""
        return self.counts.whole_ms > 0

    def gpu_hours(self, milliseconds: float) -> float | None:
        """The GPU-hours in this part of the job's time; None without a GPU.

        The time of a GPU is divided among the jobs that hold it at once.
        """
        return self.mean_gpus * milliseconds / 3_600_000 if self.gpus else None


class DeviceStory(NamedTuple):
    """One block device.

    read, write: bytes per second. reads, writes: requests per second. busy: a ratio. queue: the aqu-sz. full_s: the
    seconds in which it was at least 90 % busy; None if unknown. It may be unknown because only some Snapshots were
    read: the mean over a long interval does not show short busy times.
    """

    name: str
    info: BlockInfo | None
    read_bytes: float | None
    written_bytes: float | None
    read: Stat | None
    write: Stat | None
    reads: Stat | None
    writes: Stat | None
    read_await_ms: Stat | None
    write_await_ms: Stat | None
    busy: Stat | None
    queue: Stat | None
    full_s: float | None
    curves: dict[str, Curve]
    """The figures over time: read_bytes_per_s, write_bytes_per_s, read_await_ms, write_await_ms, busy_ratio."""

    @property
    def moved_bytes(self) -> float:
        """The bytes read and written; an unknown figure counts as 0."""
        return (self.read_bytes or 0.0) + (self.written_bytes or 0.0)


class GpuStory(NamedTuple):
    """One GPU.

    busy, sm: ratios. idle_s: the seconds in which it was less than 10 % busy. throttled_s: the seconds in which heat or
    the power brake slowed it. status: why it did not answer at the end of the run; "" if it did.
    """

    number: int | None
    uuid: str
    name: str
    busy: Stat | None
    memory_bytes: Stat | None
    memory_total_bytes: float | None
    celsius: Stat | None
    watts: Stat | None
    sm_mhz: Stat | None
    sm: Stat | None
    idle_s: float | None
    throttled_s: float | None
    energy_j: float | None
    status: str
    curves: dict[str, Curve]
    """The figures over time: busy_ratio, temperature_celsius."""


class ProcessStory(NamedTuple):
    """The processes of one program and user.

    cpu_s, blocked_s: seconds, summed over the processes; None if unknown. more: whether there were more processes than
    ``number``, because the count has a limit.
    """

    name: str
    user: str
    number: int
    read_bytes: float | None
    written_bytes: float | None
    cpu_s: float | None
    blocked_s: float | None
    more: bool = False

    @property
    def moved_bytes(self) -> float:
        """The bytes read and written; an unknown figure counts as 0."""
        return (self.read_bytes or 0.0) + (self.written_bytes or 0.0)


class LinkStory(NamedTuple):
    """A network interface or InfiniBand port. received, sent: in bytes per second."""

    name: str
    kind: str
    bits_per_s: int | None
    received: Stat | None
    sent: Stat | None


class DiskHealth(NamedTuple):
    """A disk's SMART reading at the end of the run; if the disk is gone by then (removed), its last known answer."""

    name: str
    reading: Reading[SmartState]
    removed: bool = False


class FindingStory(NamedTuple):
    """A finding and how long it was active.

    primary_s: the seconds in which it was the verdict. lost_s: the time lost while it was active. sentence, because,
    not_this, advice: texts about it; not_this names the causes that are ruled out.
    """

    finding: Finding
    active_s: float
    primary_s: float
    lost_s: float
    sentence: str
    because: str
    not_this: str
    advice: str


class Gap(NamedTuple):
    """A period that was not recorded."""

    begin_ns: int
    end_ns: int
    text: str


class Story(NamedTuple):
    """A run.

    begin_ns, end_ns: wall times. watched_s: the length without gaps. spacing_s: the seconds between the Snapshots that
    the figures come from; None if every Snapshot was read. totals: the curves of the whole machine that have a known
    value: read_bytes_per_s, write_bytes_per_s, cpu_busy_ratio, memory_available_bytes, rx_bytes_per_s, tx_bytes_per_s,
    io_pressure_ratio, and those of its GPUs (``GpuFold.totals``).
    """

    file: str
    begin_ns: int
    end_ns: int
    watched_s: float
    interval_s: float
    spacing_s: float | None
    machine: Machine
    findings: tuple[FindingStory, ...]
    timeline: tuple[VerdictSpan, ...]
    data_stall_ratio: float | None
    jobs: tuple[JobStory, ...]
    devices: tuple[DeviceStory, ...]
    gpus: tuple[GpuStory, ...]
    links: tuple[LinkStory, ...]
    processes: tuple[ProcessStory, ...]
    health: tuple[DiskHealth, ...]
    events: tuple[Event, ...]
    more_events: int
    gaps: tuple[Gap, ...]
    totals: dict[str, Curve]
    log: Steps | None = None
    """The steps of a training log that was added to the run; None without a log."""
    selected_pid: int = 0
    """The pid of the job that the run was judged for on request; 0 without a request."""

    @property
    def steps(self) -> Steps | None:
        """The steps of the added log, else the steps that the main job reports."""
        return self.log or (None if self.main_job is None else self.main_job.steps)

    @property
    def primary(self) -> FindingStory | None:
        """The finding that lost the most time as the verdict; if none lost any, the longest verdict.

        None if the run was too short to judge.
        """
        return self.findings[0] if self.findings else None

    @property
    def main_job(self) -> JobStory | None:
        """The selected job; without one, the job of the recorded command, else the job that the verdict is about.

        If the verdict is about no job, it is the job with the most GPUs, of these the one watched longest. None if no
        such job's time was counted.
        """
        judged_pid = None if self.primary is None else job_pid(self.primary.finding)
        candidates = [job for job in self.jobs if job.has_time and self.selected_pid in (0, job.pid)]
        return max(
            candidates,
            key=lambda job: (job.is_recorded_command, job.pid == judged_pid, job.gpus or 0, job.counts.whole_ms),
            default=None,
        )
