"""Reduces a recording to what its verdict depends on: the run's job, and all other processes that did something.

Other jobs that were on the machine are left out, because a kept recording is about one job.

The names of other programs, of the machine and of its users are replaced. The figures of the whole machine (CPU,
memory, pressure, devices) stay as they were.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from iotop_ai.model.job.programs import COMPILERS
from iotop_ai.model.job.records import Job
from iotop_ai.model.process.records import ProcessInfo, ProcessKey, ProcessTable
from iotop_ai.model.snapshot import Snapshot

T = TypeVar("T")
PLACE = re.compile(r"/tmp/iotop-scenario-[^/]+")
ELSEWHERE = re.compile(r"/(?:tmp|work|home|root)/\S*")
"""Paths of other programs on the machine."""
SHOWN = (*sorted(COMPILERS), "md0_resync", "kswapd0", "fio", "dd")
"""The programs whose names stay, because a rule or a reader needs them."""
ENDED = "process_ended"
LEAST_TICKS = 20
LEAST_BYTES = 1 << 20


class Slim:
    """Reduces Snapshots: ``Slim(snapshots, pid).all()``.

    pid: the pid of the trainer or of the program that started it; None keeps every job.
    """

    def __init__(self, snapshots: Sequence[Snapshot], pid: int | None = None) -> None:
        self._snapshots = snapshots
        self._own_job = None if pid is None else _job_of(snapshots, pid)
        jobs = {key for s in snapshots for key in _jobs(s)}
        if pid is not None and self._own_job is None and len(jobs) > 1:
            # If all jobs were kept, the verdict could be about one job and the account of time about another one.
            raise ValueError(f"pid {pid} belongs to none of {len(jobs)} jobs")
        self._others = _members_of_other_jobs(snapshots, self._own_job)
        self._init = _init_pattern(snapshots)
        tables = [s.processes.value for s in snapshots if s.processes.value is not None]
        self._jobs = {
            key
            for s in snapshots
            if s.jobs.value is not None
            for job in s.jobs.value.jobs.values()
            for key in job.members
            if key not in self._others
        }
        self._kept = self._jobs | _busy(tables) | _descendants(tables, self._jobs)
        self._monitor_pids = {s.own.pid for s in snapshots}
        self._infos: dict[ProcessKey, ProcessInfo] = {}
        self._results: dict[int, tuple[Any, Any]] = {}

    def all(self) -> Iterator[Snapshot]:
        """Yield the reduced Snapshots."""
        for snapshot in self._snapshots:
            yield self._one(snapshot)

    def _one(self, snapshot: Snapshot) -> Snapshot:
        host = snapshot.host._replace(name="machine", user="root", boot_id="kept")
        ours = {key.pid for key in self._jobs}
        events = tuple(
            e._replace(text=self._anonymous_text(e.text))
            for e in snapshot.events
            if e.kind != ENDED or not ours or e.job_pid in ours or e.pid in ours
        )
        out = snapshot._replace(host=host, events=events)
        if snapshot.jobs.value is not None and self._own_job is not None:
            table, own = snapshot.jobs.value, (self._own_job,)
            value = table._replace(
                jobs=_only(table.jobs, own),
                places=_only(table.places, own),
                sweeps=_only(table.sweeps, own),
                times=_only(table.times, own),
                tasks=_only(table.tasks, table.tasks.keys() - self._others),
            )
            out = out._replace(jobs=snapshot.jobs._replace(value=value))
        if snapshot.steps.value is not None:
            steps = _only(snapshot.steps.value, snapshot.steps.value.keys() - self._others)
            out = out._replace(steps=snapshot.steps._replace(value=steps))
        processes = snapshot.processes.value
        if processes is not None:
            out = out._replace(processes=snapshot.processes._replace(value=self._table(processes)))
        for field in ("disks", "mounts", "filesystems", "netfs", "jobs", "cgroups"):
            reading = getattr(out, field)
            if reading.value is not None:
                out = out._replace(**{field: reading._replace(value=self._anonymous_cached(reading.value))})
        return out

    def _wanted(self, key: ProcessKey) -> bool:
        return (key in self._kept and key not in self._others) or key.pid in self._monitor_pids

    def _table(self, table: ProcessTable) -> ProcessTable:
        def cut(values: Mapping[ProcessKey, T]) -> dict[ProcessKey, T]:
            return {key: value for key, value in values.items() if self._wanted(key)}

        return table._replace(
            io=cut(table.io),
            stat=cut(table.stat),
            info={key: self._info(key, info) for key, info in cut(table.info).items()},
            denied=frozenset(key for key in table.denied if self._wanted(key)),
            stat_out=cut(table.stat_out),
            io_stale=cut(table.io_stale),
            io_out=cut(table.io_out),
            io_since=cut(table.io_since),
            threads=cut(table.threads),
            wchan=cut(table.wchan),
            gone=tuple(key for key in table.gone if self._wanted(key)),
            exits=cut(table.exits),
        )

    def _info(self, key: ProcessKey, info: ProcessInfo) -> ProcessInfo:
        known = self._infos.get(key)
        if known is None or known.name != info.name:
            if key in self._jobs or key.pid in self._monitor_pids or info.name in SHOWN or info.kernel:
                known = self._anonymous(info)
            else:
                known = info._replace(name="other", cmdline=("other",), cgroup="")
            self._infos[key] = known
        return known

    def _anonymous_text(self, text: str) -> str:
        return self._init.sub("init", ELSEWHERE.sub("/elsewhere", PLACE.sub("/data", text)))

    def _anonymous(self, value: Any) -> Any:
        if type(value) is str:
            return self._anonymous_text(value)
        if isinstance(value, Mapping):
            return {self._anonymous(key): self._anonymous(item) for key, item in value.items()}
        if isinstance(value, tuple):
            items = [self._anonymous(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        return value

    def _anonymous_cached(self, value: T) -> T:
        """Return the value with anonymous texts. The same object always gives the same result."""
        known = self._results.get(id(value))
        if known is None or known[0] is not value:
            known = (value, self._anonymous(value))
            self._results[id(value)] = known
        return known[1]  # type: ignore[no-any-return]


def _init_pattern(snapshots: Sequence[Snapshot]) -> re.Pattern[str]:
    """Return a pattern for the name of process 1 and the ids of its control groups, which may identify the machine."""
    for table in (s.processes.value for s in snapshots):
        for key, info in ({} if table is None else table.info).items():
            if key.pid == 1 and info.name not in ("init", "systemd"):
                return re.compile(rf"{re.escape(info.name)}(?:/[0-9a-f]{{32}})?")
    return re.compile(r"(?!)")


def _only(table: Mapping[ProcessKey, T], keys: Collection[ProcessKey]) -> dict[ProcessKey, T]:
    """Return the entries with these keys, in the order of the table."""
    return {key: value for key, value in table.items() if key in keys}


def _jobs(snapshot: Snapshot) -> Mapping[ProcessKey, Job]:
    return {} if snapshot.jobs.value is None else snapshot.jobs.value.jobs


def _job_of(snapshots: Sequence[Snapshot], pid: int) -> ProcessKey | None:
    """Return the job to which a process belongs for the longest time; None if it belongs to none.

    While a trainer starts, it may be taken for a loader of the program that started it. If a process belongs to no job,
    the job of one of its descendants counts.
    """
    member: Counter[ProcessKey] = Counter()
    below: Counter[ProcessKey] = Counter()
    for snapshot in snapshots:
        table = snapshot.processes.value
        parents = {} if table is None else {key.pid: stat.ppid for key, stat in table.stat.items()}
        for key, job in _jobs(snapshot).items():
            pids = {one.pid for one in (key, *job.members)}
            member[key] += pid in pids
            below[key] += pid in _ancestors(key.pid, parents)
    for found in (member, below):
        ((key, count),) = found.most_common(1) or [(None, 0)]
        if count:
            return key
    return None


def _ancestors(pid: int, parents: Mapping[int, int]) -> set[int]:
    out: set[int] = set()
    while (pid := parents.get(pid, 0)) > 1 and pid not in out:
        out.add(pid)
    return out


def _members_of_other_jobs(snapshots: Sequence[Snapshot], own: ProcessKey | None) -> frozenset[ProcessKey]:
    """Return the processes of all other jobs that never belong to this job; none if ``own`` is None."""
    if own is None:
        return frozenset()
    mine = {own, *(key for s in snapshots if own in _jobs(s) for key in _jobs(s)[own].members)}
    others = {one for s in snapshots for key, job in _jobs(s).items() if key != own for one in (key, *job.members)}
    return frozenset(others - mine)


def _busy(tables: Sequence[ProcessTable]) -> set[ProcessKey]:
    """Return the processes that computed, read, wrote or were blocked."""
    first: dict[ProcessKey, tuple[int, int]] = {}
    out: set[ProcessKey] = set()
    for table in tables:
        for key, stat in table.stat.items():
            io = table.io.get(key)
            moved = 0 if io is None else io.read_bytes + io.write_bytes
            now = (stat.utime_ticks + stat.stime_ticks, moved)
            ticks, moved_first = first.setdefault(key, now)
            if now[0] - ticks >= LEAST_TICKS or now[1] - moved_first >= LEAST_BYTES or stat.state == "D":
                out.add(key)
    return out


def _descendants(tables: Sequence[ProcessTable], keys: set[ProcessKey]) -> set[ProcessKey]:
    """Return the descendants of these processes, including those that live only briefly, as compilers do."""
    out: set[ProcessKey] = set()
    for table in tables:
        by_pid = {key.pid: key for key in table.stat}
        inside = {key.pid for key in keys}
        for key, stat in table.stat.items():
            up, steps = stat.ppid, 0
            while up in by_pid and steps < 8:
                if up in inside:
                    out.add(key)
                    break
                up, steps = table.stat[by_pid[up]].ppid, steps + 1
    return out
