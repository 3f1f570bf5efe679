"""Adds up the training jobs of a run, and the shares of each job's time over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from iotop_ai.export.report.series import Curve, Grid, Interval, Series, Track, curve_of
from iotop_ai.export.report.story import JobStory, Steps
from iotop_ai.model.block.counters import BlockInfo
from iotop_ai.model.job.exits import ENDED
from iotop_ai.model.job.records import Job, JobMount, JobPlace
from iotop_ai.model.job.steps import StepRates
from iotop_ai.model.job.time_shares import SHARES, TimeCounts, TimeShares
from iotop_ai.model.process.records import ProcessKey, ProcessStat
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Event, Snapshot
from iotop_ai.model.verdict_totals import JobTime

MOST_CURVES = 64
"""The most jobs that get curves; for further jobs only sums are kept."""
MOST_JOBS = 4096
MOST_RANKS = 512
"""The most ranks whose steps are kept, over all jobs."""
MOST_MOUNTS = 64
"""The most mounts of a job whose time is kept."""


class _RankSteps:
    """Collects the steps of one rank. messages: the number of its messages that were added."""

    def __init__(self, series: Series) -> None:
        self.track = Track(series)
        self.messages = 0

    def add(self, interval: Interval, steps_per_s: float | None) -> None:
        """Add the steps of a message, over the time since the previous message; unknown steps are ignored."""
        if steps_per_s is not None:
            self.track.add(interval, steps_per_s)
            self.messages += 1


class _Job:
    """Collects the figures of one job. series: each share of the job's time, by name; None before the first shares."""

    def __init__(self, job: Job, interval: Interval, process_began_ns: int | None) -> None:
        self.job = job
        self.process_began_ns = process_began_ns
        self.begin_ns, self.end_ns = interval.wall_ns - round(interval.seconds * 1e9), interval.wall_ns
        self.ranks = self.workers = self.gpus = 0
        self._known_s = self._own_gpu_s = 0.0
        """The seconds in which its GPUs were known, and those in which it held a GPU, summed over its GPUs.

        The seconds of a GPU are divided among the jobs that hold it."""
        self.is_recorded_command = False
        self._mount_s: dict[JobMount, float] = {}
        """For each mount, the seconds in which the job had data files open on it more often than on other mounts."""
        self._disks: dict[JobMount, str] = {}
        """The whole disk below each mount; mounts whose disk is unknown are left out."""
        self.series: dict[str, Series] | None = None
        self.steps: dict[int, _RankSteps] = {}
        """The steps of each rank, by the rank's number, which does not change when its process is restarted."""
        self._reported_ns: dict[ProcessKey, int] = {}
        """The time of the newest message of each rank."""

    @property
    def mean_gpus(self) -> float:
        """The mean number of GPUs that it held; a GPU counts for a part while other jobs hold it too."""
        return self._own_gpu_s / self._known_s if self._known_s else 0.0

    def update(self, job: Job, interval: Interval, jobs_by_gpu: Mapping[str, int], *, are_gpus_known: bool) -> None:
        """Update the job's record, its end, its largest numbers of ranks, workers and GPUs, and its GPU time.

        jobs_by_gpu: the number of jobs that hold each GPU. are_gpus_known: whether the machine's GPUs were read.
        """
        self.job, self.end_ns = job, interval.wall_ns
        self.ranks, self.workers = max(self.ranks, len(job.ranks)), max(self.workers, len(job.workers))
        gpus = job.gpus
        self.gpus = max(self.gpus, len(gpus))
        if gpus or are_gpus_known:
            self._known_s += interval.seconds
        self._own_gpu_s += sum(1 / jobs_by_gpu[uuid] for uuid in gpus) * interval.seconds

    def note_place(self, place: JobPlace | None, infos: Mapping[str, BlockInfo], seconds: float) -> None:
        """Note the mount on which the job most often has data files open, and the whole disk below it."""
        mount = place.mounts[0] if place is not None and place.mounts else None
        if mount is None or (mount not in self._mount_s and len(self._mount_s) >= MOST_MOUNTS):
            return
        self._mount_s[mount] = self._mount_s.get(mount, 0.0) + seconds
        if mount in self._disks:
            return
        info = next((info for info in infos.values() if f"{info.major}:{info.minor}" == mount.device), None)
        if info is not None:
            self._disks[mount] = info.parent or info.name

    def place(self) -> tuple[str, str, str]:
        """The path, filesystem and disk of the mount with the most seconds; "" for each that is unknown."""
        mount = max(self._mount_s, key=lambda mount: self._mount_s[mount], default=None)
        return ("", "", "") if mount is None else (mount.path, mount.fstype, self._disks.get(mount, ""))

    def add(self, interval: Interval, shares: TimeShares, grid: Grid) -> None:
        """Add the shares of an interval."""
        if self.series is None:
            self.series = {name: grid.series() for name in SHARES}
        for name, value in zip(SHARES, shares, strict=False):
            self.series[name].add(interval, value)

    def add_steps(self, snapshot: Snapshot, table: Mapping[ProcessKey, StepRates], grid: Grid, most_new: int) -> int:
        """Add the steps of each new message, over the time since the previous message; return the number of new ranks.

        most_new: the maximum number of new ranks.
        """
        before, counts = len(self.steps), snapshot.steps.value or {}
        for i, rank in enumerate(self.job.ranks):
            message, rates = counts.get(rank.key), table.get(rank.key)
            if (
                message is None
                or rates is None
                or rates.span_ns is None
                or self._reported_ns.get(rank.key) == message.at_ns
            ):
                continue
            self._reported_ns[rank.key] = message.at_ns
            # A message that is newer than the Snapshot counts as if it ended with the Snapshot. A later end could
            # double the grid's step, while the caller still uses an interval with the earlier step.
            end_ns = snapshot.wall_ns - max(0, snapshot.at_ns - message.at_ns)
            interval = grid.interval(end_ns, rates.span_ns / 1e9)
            number = i if message.rank is None else message.rank
            if number not in self.steps and len(self.steps) - before < most_new:
                self.steps[number] = _RankSteps(grid.series())
            if interval is not None and number in self.steps:
                self.steps[number].add(interval, rates.steps_per_s)
        return len(self.steps) - before


class JobFold:
    """Collects the jobs of a run, at most MOST_JOBS."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._jobs: dict[ProcessKey, _Job] = {}
        self._ends_ns: dict[ProcessKey, int] = {}
        """For each job that no Snapshot shows, because it began and ended between two Snapshots: the wall time at which
        it was last counted."""
        self._jobs_with_curves = self._ranks_with_steps = 0

    def add(self, interval: Interval, snapshot: Snapshot, sample: Sample) -> None:
        """Add an interval."""
        table, rated = snapshot.jobs.value, sample.jobs
        if table is None:
            return
        jobs_by_gpu = Counter(uuid for job in table.jobs.values() for uuid in job.gpus)
        for key, job in table.jobs.items():
            figures = self._jobs.get(key)
            if figures is None:
                if len(self._jobs) >= MOST_JOBS:
                    continue
                figures = self._jobs[key] = _Job(job, interval, _process_began_ns(key, snapshot))
            figures.update(job, interval, jobs_by_gpu, are_gpus_known=snapshot.gpu.value is not None)
            figures.note_place(table.places.get(key), snapshot.disks.value or {}, interval.seconds)
            figures.is_recorded_command = figures.is_recorded_command or _descends_from_recorder(key, snapshot)
            if sample.steps.value and sample.steps.renewed:
                most_new = MOST_RANKS - self._ranks_with_steps
                self._ranks_with_steps += figures.add_steps(snapshot, sample.steps.value, self._grid, most_new)
            shares = rated.value.times.get(key) if rated.value is not None and rated.renewed else None
            if shares is not None and (figures.series is not None or self._jobs_with_curves < MOST_CURVES):
                self._jobs_with_curves += figures.series is None
                figures.add(interval, shares, self._grid)

    def add_span(self, jobs: Iterable[JobTime], events: Iterable[Event], end_ns: int) -> None:
        """Note which jobs were counted in a span of time that ends at the wall time ``end_ns``."""
        ended = {event.pid: event.wall_ns for event in events if event.kind == ENDED}
        for job in jobs:
            if job.key not in self._jobs and len(self._ends_ns) < MOST_JOBS:
                self._ends_ns[job.key] = ended.get(job.key.pid, end_ns)

    def stories(self, times: dict[ProcessKey, JobTime]) -> tuple[JobStory, ...]:
        """The jobs; those with the most GPUs come first, then those watched longest.

        times: the time of each job in the verdict's totals.
        """
        stories = [
            self._story(key, figures, times[key].counts if key in times else None)
            for key, figures in self._jobs.items()
        ]
        stories += [
            _short_story(times[key], end_ns)
            for key, end_ns in self._ends_ns.items()
            if key in times and key not in self._jobs
        ]
        return tuple(sorted(stories, key=lambda job: (-(job.gpus or 0), -job.counts.whole_ms, job.begin_ns, job.pid)))

    def _story(self, key: ProcessKey, figures: _Job, counts: TimeCounts | None) -> JobStory:
        job = figures.job
        return JobStory(
            key.pid,
            job.name,
            job.user,
            job.label,
            job.framework,
            figures.ranks,
            figures.workers,
            figures.gpus,
            figures.is_recorded_command,
            figures.begin_ns,
            figures.end_ns,
            counts or TimeCounts(),
            self._curves(figures.series or {}),
            self._steps(figures.steps.values()),
            *figures.place(),
            figures.process_began_ns,
            figures.mean_gpus,
        )

    def _steps(self, ranks: Iterable[_RankSteps]) -> Steps | None:
        """The steps of the slowest rank, because ranks step together.

        A rank that reported for less than half as long as another one is left out.
        """
        known = [(rank.track.stat, rank) for rank in ranks if rank.track.stat is not None]
        longest_s = max((stat.weight for stat, _ in known), default=0.0)
        lasting = [(stat, rank) for stat, rank in known if 2 * stat.weight >= longest_s]
        stat, slowest = min(lasting, key=lambda pair: pair[0].mean, default=(None, None))
        if stat is None or slowest is None or slowest.track.series is None:
            return None
        curve = curve_of(self._grid, slowest.track.series)
        # A step that is longer than an interval of the recording fills several points of the curve with one reading.
        reading_s = stat.weight / slowest.messages
        return Steps("its own report", round(slowest.track.total or 0.0), stat.mean, curve, reading_s=reading_s)

    def _curves(self, series: dict[str, Series]) -> dict[str, Curve]:
        curves = {name: curve_of(self._grid, values) for name, values in series.items()}
        return {name: curve for name, curve in curves.items() if any(curve.values)}


def _short_story(job: JobTime, end_ns: int) -> JobStory:
    """The story of a job that no Snapshot shows. Its user and its GPUs are unknown."""
    begin_ns = end_ns - job.counts.whole_ms * 1_000_000
    return JobStory(job.key.pid, job.name, "", "", "", None, None, None, False, begin_ns, end_ns, job.counts, {})


def _process_began_ns(key: ProcessKey, snapshot: Snapshot) -> int | None:
    table = snapshot.processes.value
    if table is None:
        return None
    return snapshot.wall_ns - round(key.age_s(snapshot.at_ns, snapshot.suspended_ns or 0, table.clk_tck) * 1e9)


def _descends_from_recorder(key: ProcessKey, snapshot: Snapshot) -> bool:
    """Whether a process descends from the recorder, and so belongs to the command that is recorded."""
    table, recorder = snapshot.processes.value, snapshot.own.pid
    if table is None:
        return False
    stats: dict[int, ProcessStat] = {}
    pid, visited = key.pid, set[int]()
    stat = table.stat.get(key)
    while stat is not None and stat.ppid not in visited and pid != recorder:
        if stat.ppid == recorder:
            return True
        visited.add(stat.ppid)
        stats = stats or {other.pid: other_stat for other, other_stat in table.stat.items()}
        pid, stat = stat.ppid, stats.get(stat.ppid)
    return False
