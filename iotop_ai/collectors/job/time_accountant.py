"""Accounts for each job's time.

A tick is one reading of the whole machine. Each tick splits the time since the previous tick into shares, according to
the samples ("looks") of the tasks of the job. A rank is one training process of the job.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping
from operator import add
from typing import TYPE_CHECKING

from iotop_ai.collectors.gpu.activity import GpuActivity, GpuUse
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.counter import delta
from iotop_ai.model.job.looks import Loading, LookCounts
from iotop_ai.model.job.movement import Movement, Totals, recent_rates
from iotop_ai.model.job.programs import COMPILERS
from iotop_ai.model.job.records import Job, JobPlace, Rank
from iotop_ai.model.job.serving import may_rest
from iotop_ai.model.job.task_states import TaskCounts
from iotop_ai.model.job.time_account import Interval, Phase, account, account_with_peers, data_of, ranks_wait_in_turns
from iotop_ai.model.job.time_shares import DATA, SHARES, TimeCounts, add_time
from iotop_ai.model.process.rates import NO_IO
from iotop_ai.model.process.records import ProcessIo, ProcessKey, ProcessSample, ProcessTable

if TYPE_CHECKING:
    from iotop_ai.model.gpu.state import GpuTable

LEAST_GPU_USE = 0.05
"""The least utilisation of a GPU, 0..1, that shows that training has begun."""
STARTUP_MOST_S = 1200.0
"""The age, in seconds, from which a job counts as training, even if nothing shows that training has begun."""
ATTACHED_S = 60.0
"""A job counts as training already if it is older than this, in seconds, when its ranks are first watched."""
ALONE_S = 10.0
"""The age, in seconds, from which a job without loaders counts as training, if the use of its GPUs is unknown."""
DATA_WAIT_MS = 10_000
"""A job counts as training after waiting this long for data, in ms, in intervals in which its GPU was in use.

The most starved jobs never use their GPU for ``LEAST_GPU_USE`` of an interval.
"""
ALONE_PART = 0.25
"""The part of such waits that counts for a job without loaders, because it may also read its weights."""
HUNG_S = 60.0
"""A job that has trained and then makes no progress for this time, in seconds, counts as hung."""
BLIND_MS = 5000
"""The longest mean time between samples, in ms, that is accounted for. With a longer one, the time counts as unknown.

The monitor itself may have been stopped for minutes.
"""
COMPILES_NS = 5_000_000_000
"""How long a compiler that seems idle still counts, in nanoseconds, because stat is not read in every tick."""
RESTS_NS = 60_000_000_000
"""A job rests if it has made no progress for this time, in nanoseconds."""
MAIN_SLEEPS_NS = 60_000_000_000
"""A main thread sleeps if it has not run for this time, in nanoseconds. One that trains runs at least once a step."""
_NO_PLACE = JobPlace()
_UNSEEN = TaskCounts()
_ENDED_STATES, _WORKING_STATES = ("Z", "X"), ("R", "D")
"""The states of a process that has ended, and of a compiler that works."""
_NUMBERING_LAUNCHERS = frozenset({"launcher", "mpi"})
"""The evidence of launchers whose ranks belong to one training."""
_LOST_FOR_OTHERS = tuple(SHARES.index(name) for name in (*DATA, "host", "checkpoint", "stopped"))
"""The shares of time in which the other ranks of the job have to wait too."""


class _State:
    """The state of a job, kept from tick to tick."""

    __slots__ = (
        "at_ns",
        "compilers",
        "counts",
        "data_wait_ms",
        "file_ms",
        "has_trained",
        "main_ran",
        "movement",
        "own_cores",
        "past",
        "rank_ms",
        "ranks",
        "startup_over",
        "totals",
    )

    def __init__(self, at_ns: int, startup_over: bool) -> None:
        self.counts = TimeCounts()
        self.at_ns = at_ns
        self.file_ms: float | None = None
        """The file waits so far, in ms; None if the job never read from a network mount."""
        self.startup_over = startup_over
        self.data_wait_ms = 0.0
        """How long the job has waited for data during the start-up while its GPU was in use, in ms."""
        self.has_trained = False
        """Whether the job has been observed to train: it had loaders, or it used a GPU."""
        self.ranks: frozenset[ProcessKey] = frozenset()
        self.movement = Movement(at_ns)
        self.totals: dict[ProcessKey, Totals] = {}
        self.own_cores: dict[ProcessKey, float | None] = {}
        self.main_ran: dict[ProcessKey, tuple[int | None, int]] = {}
        """(how long the main thread of each rank has run, time when that last grew), in nanoseconds."""
        self.compilers: dict[ProcessKey, tuple[int, int]] = {}
        """(CPU ticks, time when it last worked) of each compiler among the job's descendants."""
        self.rank_ms: dict[ProcessKey, float] = {}
        """How long each rank has waited for its own data so far, in ms; only of ranks that step together."""
        self.past: dict[ProcessKey, deque[tuple[int, Totals]]] = {}
        """(time, totals) of each rank over the last 10 s, oldest first."""

    def keep(self, ranks: frozenset[ProcessKey]) -> None:
        """Keep the state of these ranks, and forget all other ranks."""
        self.ranks = ranks
        self.rank_ms = {rank: ms for rank, ms in self.rank_ms.items() if rank in ranks}
        self.past = {rank: past for rank, past in self.past.items() if rank in ranks}
        self.own_cores = {rank: cores for rank, cores in self.own_cores.items() if rank in ranks}
        self.main_ran = {rank: ran for rank, ran in self.main_ran.items() if rank in ranks}

    def main_sleeps(self, rank: ProcessKey, run_ns: int | None, at_ns: int) -> bool:
        """Whether a rank's main thread has not run for a minute. run_ns: how long it has run; None when unknown."""
        old_ns, ran_ns = self.main_ran.get(rank, (None, at_ns))
        self.main_ran[rank] = run_ns, at_ns if run_ns is None or run_ns != old_ns else ran_ns
        return at_ns - self.main_ran[rank][1] >= MAIN_SLEEPS_NS


class Tick(NamedTuple):
    """The input of one tick.

    looks, loading: by training process. ages_s: the age of each job's youngest training process; None when it is
    unknown.
    """

    at_ns: int
    table: ProcessTable
    gpus: GpuTable | None
    looks: Mapping[ProcessKey, LookCounts]
    loading: Mapping[ProcessKey, Loading]
    places: Mapping[ProcessKey, JobPlace]
    children: Mapping[ProcessKey, frozenset[ProcessKey]]
    """All descendants of each training process, except other training processes and their descendants."""
    ages_s: Mapping[ProcessKey, float | None]
    tasks: Mapping[ProcessKey, TaskCounts] = {}


class _Inherited:
    """Sums up the I/O of children that trainers reaped, because the kernel adds it to the trainers' own I/O."""

    def __init__(self) -> None:
        self._table: ProcessTable | None = None
        self._last = ProcessSample({})
        self.io: dict[ProcessKey, ProcessIo] = {}

    def update(self, table: ProcessTable, trainers: Collection[ProcessKey]) -> None:
        """Add the I/O that the trainers inherited since the previous tick."""
        before, self._table = self._table, table
        if before is None or before is table:
            return
        # This import is not needed at start-up.
        from iotop_ai.model.process.inherited_io import settle

        result = settle(before, table, self._last)
        self._last = ProcessSample({}, result.debts, result.cminflt_before)
        sums_before, self.io = self.io, {}
        for key in trainers:
            sums = map(add, sums_before.get(key, NO_IO), result.taken.get(key, NO_IO))
            self.io[key] = ProcessIo(*sums)


class TimeAccountant:
    """Keeps the time counters of all jobs. Call ``update`` once in each tick."""

    def __init__(self) -> None:
        self._states: dict[ProcessKey, _State] = {}
        self._gpus = GpuActivity()
        self._inherited = _Inherited()

    def update(self, jobs: Mapping[ProcessKey, Job], tick: Tick) -> dict[ProcessKey, TimeCounts]:
        """Return the counters after this tick. A job that has ended is forgotten."""
        self._states = {key: state for key, state in self._states.items() if key in jobs}
        self._gpus.update(tick.gpus, tick.at_ns)
        job_counts = Counter(uuid for job in jobs.values() for uuid in job.gpus)
        self._gpus.used_by_several = frozenset(uuid for uuid, count in job_counts.items() if count > 1)
        owner = self._owner_of_hidden(jobs, tick.at_ns)
        hidden = frozenset() if owner is None else self._hidden_gpus(jobs[owner], tick.at_ns)
        self._inherited.update(tick.table, [rank.key for job in jobs.values() for rank in job.ranks])
        out = {}
        for key, job in jobs.items():
            state = self._states.get(key)
            is_training = (tick.ages_s.get(key) or 0.0) > ATTACHED_S
            if state is None:
                state = self._states[key] = _State(tick.at_ns, is_training)
            ranks = frozenset(rank.key for rank in job.ranks)
            if ranks.isdisjoint(state.ranks):
                # After a failure, torchrun starts all ranks again: they import, load and compile again.
                state.startup_over, state.has_trained, state.data_wait_ms = is_training, False, 0.0
            if ranks != state.ranks:
                state.keep(ranks)
            self._account(job, state, tick, hidden if key == owner else frozenset())
            out[key] = state.counts
        return out

    def _owner_of_hidden(self, jobs: Mapping[ProcessKey, Job], at_ns: int) -> ProcessKey | None:
        """Return the job that uses GPUs whose processes are hidden: the only one that may use a GPU and does not rest.

        If there is only one job in all, it may also rest. None if no job or several jobs qualify.
        """
        working = [
            key
            for key, job in jobs.items()
            if job.may_use_gpu
            and (len(jobs) == 1 or (state := self._states.get(key)) is None or at_ns - state.movement.at_ns < RESTS_NS)
        ]
        return working[0] if len(working) == 1 else None

    def _hidden_gpus(self, owner: Job, at_ns: int) -> frozenset[str]:
        """Return the UUIDs of the GPUs in use if their processes are hidden. owner: the job that uses them."""
        hidden = self._gpus.hidden_in_use(at_ns)
        # If the job has several training processes, an idle GPU may belong to one that waits.
        return self._gpus.without_held(hidden, at_ns) if len(owner.ranks) == 1 else hidden

    def file_waits(self) -> dict[ProcessKey, int]:
        """Return the milliseconds of file waits by job, as in the field ``file_waits`` of JobTable."""
        return {key: int(state.file_ms) for key, state in self._states.items() if state.file_ms is not None}

    def rank_waits(self) -> dict[ProcessKey, int]:
        """Return the milliseconds of waits by rank, as in the field ``rank_waits`` of JobTable."""
        return {rank: int(ms) for state in self._states.values() for rank, ms in state.rank_ms.items()}

    def forget(self) -> None:
        """Forget all jobs, because no job runs now."""
        if self._states:
            self._states, self._gpus, self._inherited = {}, GpuActivity(), _Inherited()

    def _account(self, job: Job, state: _State, tick: Tick, hidden: frozenset[str]) -> None:
        """Add the time since the previous tick. hidden: the GPUs that count as the job's if its own are unknown."""
        milliseconds = (tick.at_ns - state.at_ns) // 1_000_000
        totals = {rank.key: _totals(rank.key, tick, self._inherited.io.get(rank.key, NO_IO)) for rank in job.ranks}
        watched = [rank for rank in job.ranks if rank.key in tick.looks]
        most_looks = max((tick.looks[rank.key].looks for rank in watched), default=0)
        if milliseconds <= 0 or not most_looks or milliseconds > BLIND_MS * most_looks:
            if not state.totals or (milliseconds > 0 and not watched) or milliseconds > BLIND_MS:
                state.totals, state.at_ns = totals, tick.at_ns
            return
        pids = _job_pids(job, tick) if job.gpus else frozenset()
        own = {rank.key: self._gpus.without_held(rank.gpus, tick.at_ns) for rank in job.ranks}
        gpus = self._gpus.use(frozenset().union(*own.values()) or hidden, pids, tick.at_ns)
        phase = self._phase(job, state, tick, totals, gpus.busy)
        place = tick.places.get(job.key, _NO_PLACE)
        remote = place.remote_mount is not None
        intervals = [
            self._interval(
                rank,
                state,
                tick,
                totals[rank.key],
                self._gpus.use(own[rank.key], pids, tick.at_ns) if rank.gpus else gpus,
            )._replace(
                phase=phase,
                reads_network_fs=remote,
                reads_local_fs=place.reads_locally,
                gpus_spin=gpus.spin,
                gpus_rest=gpus.rest,
                accelerator_unseen=gpus.busy is None and "device" in job.evidence,
            )
            for rank in watched
            if tick.looks[rank.key].looks
        ]
        if phase is Phase.STARTUP and gpus.busy:
            shown = intervals if job.workers else [_without_own_reads(interval) for interval in intervals]
            part = 1.0 if job.workers else ALONE_PART
            state.data_wait_ms += part * milliseconds * max(map(_data_share, shown))
        # Ranks that step together also wait together, so the rank that loses most time decides.
        accounts = [(account(interval), interval) for interval in intervals]
        _, slowest = max(accounts, key=lambda one: _lost_share(one[0]))
        if _have_own_numbers(job) and len(accounts) == len(job.ranks) > 1:
            for rank, (shares, _) in zip(job.ranks, accounts, strict=True):
                state.rank_ms[rank.key] = state.rank_ms.get(rank.key, 0.0) + milliseconds * data_of(shares)
        shares_of = account_with_peers if _step_together(job) and ranks_wait_in_turns(accounts) else account
        state.counts = add_time(state.counts, shares_of(slowest), milliseconds)
        if remote:
            # From a local filesystem, the same waits for files would count as data_disk.
            files = shares_of(slowest._replace(reads_network_fs=False))[SHARES.index("data_disk")]
            state.file_ms = (state.file_ms or 0.0) + files * milliseconds
        state.at_ns += milliseconds * 1_000_000
        state.totals = totals

    def _interval(self, rank: Rank, state: _State, tick: Tick, now: Totals, gpus: GpuUse) -> Interval:
        """Return what the samples and counters say about a rank since the previous tick.

        gpus: the use of the rank's own GPUs, or of all GPUs of the job if those are unknown.
        """
        seconds = (tick.at_ns - state.at_ns) / 1e9
        before = state.totals.get(rank.key)

        def rate(old: int | None, new: int | None) -> float | None:
            growth = delta(old, new)
            return None if growth is None else growth / seconds

        recent = recent_rates(state.past.setdefault(rank.key, deque()), tick.at_ns, now)
        return Interval(
            tick.looks[rank.key],
            tick.loading.get(rank.key, Loading.ITSELF),
            gpus.busy,
            None if before is None else rate(before.read, now.read),
            None if before is None else rate(before.chars, now.chars),
            None if before is None else rate(before.write, now.write),
            own_cores=_own_cores(state, rank.key, now, tick.table.clk_tck),
            lately_written_bytes_per_s=recent.write,
            own_lately_written_bytes_per_s=recent.own_write,
            own_lately_read_bytes_per_s=recent.own_read,
            own_write_bytes_per_s=None if before is None else rate(before.own_write, now.own_write),
            gpu_receives=gpus.receive and bool(rank.gpus),
            others_busy=gpus.others,
            core_wait=None if before is None else now.core_wait(before),
            main_sleeps=state.main_sleeps(rank.key, now.run_ns, tick.at_ns),
        )

    def _phase(
        self, job: Job, state: _State, tick: Tick, totals: Mapping[ProcessKey, Totals], busy: float | None
    ) -> Phase:
        if (busy or 0.0) >= LEAST_GPU_USE:
            state.movement.note_progress(tick.at_ns, totals)
            state.has_trained = True
        else:
            state.movement.update(tick.at_ns, totals, tick.looks, tick.table.clk_tck)
        state.has_trained = state.has_trained or bool(job.workers)
        if state.has_trained and tick.at_ns - state.movement.at_ns >= HUNG_S * 1e9:
            # A program that waits for a person or for requests makes no progress either, but is not hung.
            uses_gpu_or_loaders = bool(job.gpus or job.workers)
            if uses_gpu_or_loaders and not may_rest(job, tick.places.get(job.key, _NO_PLACE)):
                return Phase.HUNG
        compiles = _compiles(job, state, tick)
        age = tick.ages_s.get(job.key) or 0.0
        if not state.startup_over:
            # The first compile precedes the first step. Until it ends, loaders and age do not prove that training runs.
            is_training = (
                busy >= LEAST_GPU_USE or (not compiles and state.data_wait_ms >= DATA_WAIT_MS)
                if busy is not None
                else not compiles and (bool(job.workers) or age >= ALONE_S)
            )
            state.startup_over = is_training or age >= STARTUP_MOST_S
        if not state.startup_over:
            return Phase.STARTUP
        return Phase.COMPILE if compiles else Phase.TRAINING


def _step_together(job: Job) -> bool:
    """Whether the job's ranks wait for each other: a process above them started them, or all have rank numbers.

    Others, such as several programs of one batch job, may be independent of each other.
    """
    started = all(rank.key != job.key for rank in job.ranks)
    return started or all(rank.number is not None for rank in job.ranks)


def _have_own_numbers(job: Job) -> bool:
    """Whether the job's ranks surely step together: they have numbers of a launcher, of a group on several machines, or
    of the first of them, which started the others (PyTorch Lightning).

    Slurm also numbers independent programs, and Ray starts independent trials below one program.
    """
    is_launched = bool(job.group) or not _NUMBERING_LAUNCHERS.isdisjoint(job.evidence)
    starts_itself = "slurm" not in job.evidence and any(rank.key == job.key for rank in job.ranks)
    is_numbered = "ray" not in job.evidence and all(rank.number is not None for rank in job.ranks)
    return is_numbered and (is_launched or starts_itself)


def _lost_share(shares: tuple[float, ...]) -> float:
    """Return the share of an interval in which the job's other ranks have to wait for this rank too."""
    return sum(shares[i] for i in _LOST_FOR_OTHERS)


def _without_own_reads(interval: Interval) -> Interval:
    """Return the interval with the main thread's own reads as a rest: it may read the weights of a model."""
    looks = interval.looks
    return interval._replace(looks=looks._replace(main_disk=0, resting=looks.resting + looks.main_disk))


def _data_share(interval: Interval) -> float:
    """Return the share of the interval in which the rank would wait for data if it trained."""
    return data_of(account(interval._replace(phase=Phase.TRAINING)))


def _job_pids(job: Job, tick: Tick) -> frozenset[int]:
    """Return the PIDs of all processes of a job, with all descendants that are known."""
    below = (child.pid for rank in job.ranks for child in tick.children.get(rank.key, ()))
    return frozenset((job.key.pid, *(key.pid for key in job.members), *below))


def _own_cores(state: _State, key: ProcessKey, now: Totals, clk_tck: int) -> float | None:
    """Return the cores that the process used between the last two reads of its stat.

    In a tick that does not read stat, this is the previous figure; None before the second read.
    """
    before = state.totals.get(key)
    if before is not None and now.stat_ns > before.stat_ns > 0:
        growth = delta(before.own_ticks, now.own_ticks)
        state.own_cores[key] = None if growth is None else growth / clk_tck / ((now.stat_ns - before.stat_ns) / 1e9)
    return state.own_cores.get(key)


def _compiles(job: Job, state: _State, tick: Tick) -> bool:
    """Whether a compiler among the job's descendants works. A zombie, or a compiler that waits for input, does not."""
    table, before = tick.table, state.compilers
    state.compilers = {}
    for child in (child for rank in job.ranks for child in tick.children.get(rank.key, ())):
        if child not in table.info or table.info[child].name not in COMPILERS:
            continue
        stat = table.stat.get(child)
        if stat is None or stat.state in _ENDED_STATES:
            continue
        ticks = stat.utime_ticks + stat.stime_ticks
        old, worked_ns = before.get(child, (-1, 0))
        works = stat.state in _WORKING_STATES or ticks != old
        state.compilers[child] = ticks, tick.at_ns if works else worked_ns
    return any(tick.at_ns - worked_ns < COMPILES_NS for _, worked_ns in state.compilers.values())


def _totals(key: ProcessKey, tick: Tick, inherited: ProcessIo) -> Totals:
    """Return the counters of a training process. inherited: the I/O of the children that it has reaped."""
    table = tick.table
    members = (key, *tick.children.get(key, ()))
    own_stat = table.stat.get(key)
    ticks = sum(
        stat.utime_ticks + stat.stime_ticks for member in members if (stat := table.stat.get(member)) is not None
    )
    task = tick.tasks.get(key, _UNSEEN)
    own_ticks, stat_ns = (
        (0, 0) if own_stat is None else (own_stat.utime_ticks + own_stat.stime_ticks, table.stat_time(key))
    )
    ios = [table.io[member] for member in members if member in table.io]
    if key not in table.io:
        return Totals(ticks=ticks, own_ticks=own_ticks, stat_ns=stat_ns, run_ns=task.run_ns, wait_ns=task.wait_ns)
    own_io = table.io[key]
    return Totals(
        sum(io.read_bytes for io in ios),
        sum(io.rchar for io in ios),
        sum(io.write_bytes for io in ios),
        ticks,
        own_ticks,
        max(own_io.read_bytes - inherited.read_bytes, own_io.rchar - inherited.rchar),
        own_io.write_bytes - inherited.write_bytes,
        stat_ns,
        task.run_ns,
        task.wait_ns,
    )
