"""Finds the training jobs in each tick: their processes, and the counts of their tasks.

A tick is one reading of the whole machine. The training processes of a job are its ranks.

A new process is inspected only if it is a candidate: a Python program, a launcher or a process of Ray. A process that
computes on a GPU belongs to a job without inspection. The libraries that a process maps are read when it is first seen
and a few more times later, because a program imports its framework some time after its start. The open files of a job
without a GPU are listed again and again, because a program may open its GPU much later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.process_memory import ProcessMemory
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.activity import ActivityTracker
from iotop_ai.collectors.job.descendants import Descendants
from iotop_ai.collectors.job.environment import EnvironmentReader
from iotop_ai.collectors.job.inspection import inspect, opens_gpu
from iotop_ai.collectors.job.sockets import Traffic
from iotop_ai.collectors.job.task_sampler import TaskSampler
from iotop_ai.collectors.job.time_accountant import Tick, TimeAccountant
from iotop_ai.model.job.detection import find_jobs
from iotop_ai.model.job.inspection import NOTHING_SEEN, Inspection
from iotop_ai.model.job.looks import Loading, LookCounts
from iotop_ai.model.job.programs import is_candidate
from iotop_ai.model.job.records import MOST_JOBS, Job, JobPlace, JobTable
from iotop_ai.model.job.task_states import TaskCounts
from iotop_ai.model.process.change_tracking import changed, removed
from iotop_ai.model.process.records import ProcessInfo, ProcessKey, ProcessTable
from iotop_ai.model.reading import Status

if TYPE_CHECKING:
    from iotop_ai.model.gpu.state import GpuTable

AGES_S = (0.0, 3.0, 8.0, 20.0, 60.0, 180.0)
"""The ages at which a process is inspected, in seconds since it was first seen."""
GPU_CHECK_EVERY_S = 20.0
"""The seconds between two listings of the open files of a training process whose job has no GPU."""
INSPECTIONS_PER_TICK = 4
"""The most candidates that are inspected in one tick, and the most training processes whose open files are listed."""
ENVIRONMENT_EVERY_S = 2.0
"""The seconds between two reads of the jobs' environments."""


class JobCollector:
    """Collects the jobs. ``see`` takes the processes and GPUs of a tick; ``read`` returns the jobs."""

    field = "jobs"
    every_s = 0.0

    def __init__(self, root: Root, clock: Clock, *, sampler: TaskSampler | None = None) -> None:
        self._root = root
        self._clock = clock
        self._sampler = sampler or TaskSampler(root, clock)
        self._environment = EnvironmentReader(root)
        self._memory = ProcessMemory(root)
        self._places: dict[ProcessKey, JobPlace] = {}
        self._places_due_ns = 0
        self._table: ProcessTable | None = None
        self._gpus: GpuTable | None = None
        self._info: Mapping[ProcessKey, ProcessInfo] = {}
        self._candidates: set[ProcessKey] = set()
        self._next_inspections: dict[ProcessKey, tuple[int, int]] = {}
        """(when the process was first seen, the index in AGES_S of its next inspection) by process."""
        self._inspections: dict[ProcessKey, Inspection] = {}
        self._listed_ns: dict[ProcessKey, int] = {}
        """When the open files of each inspected process were last listed."""
        self._activity = ActivityTracker()
        self._basis: object = None
        """The values from which the jobs were last found."""
        self._jobs: Mapping[ProcessKey, Job] = {}
        self._own_pid = root.own_pid
        self._times = TimeAccountant()
        self._descendants = Descendants()
        self._newest: JobTable | None = None
        self._at_ns: int | None = None

    def at_ns(self) -> int | None:
        """Return the time of the newest table; None before the first.

        While there is no job, this is the time of the first empty table.
        """
        return self._at_ns

    @property
    def jobs(self) -> Mapping[ProcessKey, Job]:
        """The newest jobs."""
        return self._jobs

    def see(self, table: ProcessTable | None, gpus: GpuTable | None) -> None:
        """Set the processes and GPUs of this tick; None if they are unknown. Call this method before ``read``."""
        self._table = table
        self._gpus = gpus

    def read(self) -> JobTable:
        """Return the table of the jobs. Raises Unavailable when the processes are unknown."""
        table = self._table
        if table is None:
            raise Unavailable(Status.ABSENT, "processes are not known")
        now = self._clock.monotonic_ns()
        gpus_by_pid = self._gpus_by_pid()
        self._follow(table, now)
        inspected = self._inspect_due(now)
        wanted = (
            self._candidates | {key for key in table.stat if key.pid in gpus_by_pid}
            if gpus_by_pid
            else self._candidates
        )
        self._activity.update(table, wanted, now)
        work = self._activity.work._replace(two_way=self._sampler.answering_workers())
        # The jobs depend only on these values, so they are found again only when a value changes. The amount of work
        # matters only when there may be more jobs than the table holds.
        work_basis = work if len(self._jobs) >= MOST_JOBS else (work.busy, work.working, work.two_way)
        basis = (frozenset(wanted), gpus_by_pid, work_basis, [table.info[key] for key in sorted(self._candidates)])
        if inspected or basis != self._basis:
            self._basis = basis
            jobs = find_jobs(table.info, table.stat, wanted, self._inspections, gpus_by_pid, work, self._jobs)
            if jobs != self._jobs:
                self._jobs = jobs
        looks, loading = self._select_tasks()
        if now >= self._places_due_ns:
            self._places_due_ns = now + int(ENVIRONMENT_EVERY_S * 1e9)
            self._environment.keep_only(frozenset(self._jobs))
            traffic = self._sampler.traffic()
            places = {
                key: _with_traffic(job, self._environment.read(job, now), traffic) for key, job in self._jobs.items()
            }
            # Keep the old object if it equals the new one, so that a recording does not repeat it.
            self._places = {key: old if (old := self._places.get(key)) == new else new for key, new in places.items()}
        sampler = self._sampler
        sweeps, tasks = sampler.sweeps(), sampler.tasks()
        if self._jobs:
            times = self._times.update(self._jobs, self._tick(table, now, tasks, looks, loading))
        else:
            # A job that is found again later was not watched in the meantime, so its times start afresh.
            times = {}
            self._times.forget()
        files, ranks = self._times.file_waits(), self._times.rank_waits()
        newest = JobTable(self._jobs, sweeps, tasks, self._places, sampler.cpu_ns, times, files, ranks)
        # Without a job, repeat the old table with its old time, so that rules do not see a new sample.
        if newest.jobs or newest != self._newest:
            self._newest, self._at_ns = newest, self._clock.monotonic_ns()
        return self._newest or newest

    def _select_tasks(self) -> tuple[Mapping[ProcessKey, LookCounts], Mapping[ProcessKey, Loading]]:
        """Choose the tasks to sample; return (looks, loading) of the ranks chosen before and of those chosen now.

        looks: the counted samples of each rank. loading: how each rank gets its data.
        """
        sampler = self._sampler
        # The counts are taken first: ``select`` drops those of each rank that it stops sampling.
        looks, loading = sampler.looks(), sampler.loading()
        sampler.select(self._jobs)
        chosen = sampler.loading()
        return {**dict.fromkeys(chosen, LookCounts()), **looks}, {**loading, **chosen}

    def _tick(
        self,
        table: ProcessTable,
        now: int,
        tasks: Mapping[ProcessKey, TaskCounts],
        looks: Mapping[ProcessKey, LookCounts],
        loading: Mapping[ProcessKey, Loading],
    ) -> Tick:
        ranks = [rank.key for job in self._jobs.values() for rank in job.ranks]
        at_ns, suspended_ns = self._clock.monotonic_ns(), self._clock.suspended_ns()
        # The age of the job is that of its youngest rank: an old launcher may have restarted the ranks after a failure.
        ages = {
            job.key: min((rank.key.age_s(at_ns, suspended_ns, table.clk_tck) for rank in job.ranks), default=None)
            for job in self._jobs.values()
        }
        children = self._descendants.update(table, ranks)
        return Tick(now, table, self._gpus, looks, loading, self._places, children, ages, tasks)

    def close(self) -> None:
        """End the threads and close all descriptors."""
        self._sampler.close()
        self._environment.close()
        self._memory.close()

    def _gpus_by_pid(self) -> dict[int, tuple[str, ...]]:
        """Return the UUIDs of the GPUs on which each process computes, by PID."""
        out: dict[int, tuple[str, ...]] = {}
        for uuid, reading in (self._gpus or {}).items():
            for process in () if reading.value is None else reading.value.processes or ():
                if process.kind == "compute" and process.found:
                    out[process.pid] = (*out.get(process.pid, ()), uuid)
        return out

    def _follow(self, table: ProcessTable, now: int) -> None:
        """Update the candidates for processes that started, exited or changed their name."""
        old = self._info
        for key in changed(table.info, old):
            if is_candidate(table.info[key]) and key.pid != self._own_pid:
                self._candidates.add(key)
                self._next_inspections.setdefault(key, (now, 0))
            else:
                self._candidates.discard(key)
        for key in removed(table.info, old):
            self._candidates.discard(key)
            self._next_inspections.pop(key, None)
            self._inspections.pop(key, None)
            self._listed_ns.pop(key, None)
            self._activity.forget(key)
        self._info = table.info

    def _inspect_due(self, now: int) -> bool:
        """Inspect the candidates that are due, at most ``INSPECTIONS_PER_TICK``, and look for opened GPUs.

        Return whether a result changed.
        """
        changed, remaining = False, INSPECTIONS_PER_TICK
        grown = self._activity.grown
        for key, (first_seen_ns, index) in list(self._next_inspections.items()):
            if remaining == 0:
                break
            if key in grown:
                grown.discard(key)
            elif index >= len(AGES_S) or now < first_seen_ns + int(AGES_S[index] * 1e9):
                continue
            # Skip the ages that passed while the process waited to be inspected.
            while index < len(AGES_S) and now >= first_seen_ns + int(AGES_S[index] * 1e9):
                index += 1
            self._next_inspections[key] = (first_seen_ns, index)
            before = self._inspections.get(key)
            inspection = inspect(self._root, key.pid, self._memory, before or NOTHING_SEEN)
            self._listed_ns[key] = now
            remaining -= 1
            if inspection != before:
                if inspection.opens_gpu:
                    self._inspect_parent(key, now)
                self._inspections[key] = inspection
                changed = True
        return self._find_opened_gpus(now) or changed

    def _inspect_parent(self, key: ProcessKey, now: int) -> None:
        """Inspect the parent of a process that opens a GPU, unless the parent is known to open a GPU.

        A forked child inherits an open GPU. If the parent was last inspected before it opened the GPU, the child would
        seem to have opened it.
        """
        stat = None if self._table is None else self._table.stat.get(key)
        parent = next((other for other in self._inspections if stat is not None and other.pid == stat.ppid), None)
        if parent is not None and not (before := self._inspections[parent]).opens_gpu:
            self._inspections[parent] = inspect(self._root, parent.pid, self._memory, before)
            self._listed_ns[parent] = now

    def _find_opened_gpus(self, now: int) -> bool:
        """Look for GPUs that the training processes of jobs without a GPU have opened; return whether a result changed.

        A program may open its GPU after minutes of preparation, while its memory does not grow. A training process
        whose name is not Python's is not a candidate, so it is inspected here.
        """
        ranks = [rank.key for job in self._jobs.values() if not (job.gpus or job.may_use_gpu) for rank in job.ranks]
        listed, latest = self._listed_ns, now - int(GPU_CHECK_EVERY_S * 1e9)
        due = [key for key in ranks if key not in listed or listed[key] <= latest]
        changed = False
        for key in sorted(due, key=lambda key: listed.get(key, 0))[:INSPECTIONS_PER_TICK]:
            listed[key] = now
            old = self._inspections.get(key)
            try:
                new = (
                    inspect(self._root, key.pid, self._memory)
                    if old is None
                    else old._replace(opens_gpu=opens_gpu(self._root, key.pid, old.libraries))
                )
            except OSError:
                continue
            if new != old:
                self._inspections[key] = new
                changed = True
        return changed


def _with_traffic(job: Job, place: JobPlace, traffic: Mapping[ProcessKey, Traffic]) -> JobPlace:
    """Return ``place`` with the TCP traffic of the job's ranks added; unchanged when no traffic is known."""
    traffics = [traffic[rank.key] for rank in job.ranks if rank.key in traffic]
    if not traffics:
        return place
    busiest = max(traffics, key=lambda rank_traffic: rank_traffic.received_bytes_per_s)
    received = sum(rank_traffic.received_bytes_per_s for rank_traffic in traffics)
    # Round to two significant digits, so that a steady stream gives an equal JobPlace.
    return place._replace(peer=busiest.peer, received_bytes_per_s=float(f"{received:.1e}"))
