"""Reads a job's environment: cgroup limits, CPUs, /dev/shm, listening sockets, terminal, and the mounts that it reads
from.

Sources: https://docs.kernel.org/admin-guide/cgroup-v2.html (io.max, cpu.max, cpu.stat, memory.max, memory.events),
https://docs.kernel.org/admin-guide/cgroup-v1/blkio-controller.html, memory.html; /proc/PID/fdinfo (mnt_id) and
/proc/PID/mountinfo, https://docs.kernel.org/filesystems/proc.html.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from iotop_ai.collectors.io.process_memory import ProcessMemory
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.io.with_timeout import BackgroundWorker
from iotop_ai.collectors.job.cgroup_limits import cpu_quota, io_limits
from iotop_ai.collectors.job.cgroup_paths import parse_cgroups, tightest_memory_limit, unified_folder
from iotop_ai.collectors.job.wait_target import waits_for_input
from iotop_ai.collectors.machine.mounts import parse_mountinfo
from iotop_ai.model.clean import clean_bytes
from iotop_ai.model.job.records import Job, JobMount, JobPlace
from iotop_ai.model.process.records import ProcessKey

MOST_BYTES = 1 << 18
"""The most bytes of a file that are read. A table of TCP sockets of this size lists about 1,700 sockets."""
MOST_FILES = 256
"""The most open files of a process that are looked at in one read."""
MOST_READERS = 4
"""The most processes of a job whose open files, sockets or system calls are read in one read of its environment."""
MOST_MOUNTS = 4
"""The most mounts that are returned for a job: those on which it recently had the most files open."""
SHM_TIMEOUT_S = 0.05
"""How long a read waits for the size of /dev/shm, in seconds. Afterwards the size counts as unknown.

If a call is late, the next call for the same job starts only after the late call has ended.
"""
SOCKETS_EVERY = 5
"""A job's sockets are read once in this number of reads of its environment."""
HALF_LIFE_NS = 60_000_000_000
"""The time in which the weight of the files that were open earlier falls by half, in nanoseconds.

A job may first copy its data and then read it from another mount.
"""
Statvfs = Callable[[str], os.statvfs_result]
_MOST_CPUS = 8192
"""The most CPUs that Linux supports."""
_LISTEN, _ESTABLISHED = b"0A", b"01"
_NOT_DATA_FOLDERS = ("/usr/", "/lib/", "/lib32/", "/lib64/", "/opt/", "/dev/", "/proc/", "/sys/", "/memfd:", "/run/")
_NOT_DATA_SUFFIXES = (".so", ".py", ".pyc", ".log", ".txt", ".out", " (deleted)")
"""Files in these folders, and files with these suffixes, are libraries, scripts, logs, devices or deleted: not data."""
_DATA_FOLDERS = ("/opt/ml/", "/run/media/")
"""Folders for data within ``_NOT_DATA_FOLDERS``: those of SageMaker and of removable disks."""


class EnvironmentReader:
    """Reads the environments of jobs, and remembers from which mounts each job reads.

    statvfs: a function like os.statvfs.
    """

    def __init__(self, root: Root, statvfs: Statvfs = os.statvfs) -> None:
        self._root = root
        self._unified = unified_folder(root)
        self._statvfs = statvfs
        self._memory = ProcessMemory(root)
        self._shm_workers: dict[ProcessKey, BackgroundWorker] = {}
        self._weights: dict[ProcessKey, dict[JobMount, float]] = {}
        """The number of open data files on each mount of a job; files that were seen in earlier reads count less."""
        self._weighed_ns: dict[ProcessKey, int] = {}
        """The time at which the weights of each job were last updated."""
        self._turns: dict[ProcessKey, int] = {}
        """The number of reads of each job's environment so far."""
        self._sockets: dict[ProcessKey, tuple[int, tuple[int | None, int | None]]] = {}
        """(the number in ``_turns`` at which the sockets are read next, the counts of the last read) of each job."""

    def read(self, job: Job, now_ns: int = 0) -> JobPlace:
        """Read the environment of a job. now_ns: the monotonic time, with which the weights of mounts decay.

        The limits and /dev/shm are those of the first worker, or of the first rank of a job without workers. The CPUs
        are those of all ranks together.
        """
        self._turns[job.key] = self._turns.get(job.key, 0) + 1
        members = [*job.workers, *(rank.key for rank in job.ranks)]
        key = members[0]
        groups = parse_cgroups(self._raw(f"proc/{key.pid}/cgroup"))
        cores, throttled = cpu_quota(self._root, groups, self._unified)
        memory = tightest_memory_limit(self._root, groups, self._unified)
        shm_total, shm_used = self._shm(job.key, key)
        allowed = self._allowed_cpus(job)
        return JobPlace(
            io_limits(self._root, groups, self._unified),
            cores,
            throttled,
            None if memory is None else memory.limit_bytes,
            None if memory is None else memory.used_bytes,
            None if memory is None else memory.hits,
            shm_total,
            shm_used,
            None if allowed is None else len(allowed),
            self._mounts(job, members, now_ns),
            *self._listening_sockets(job),
            None if memory is None else memory.room_bytes,
            waits_for_input=any(
                waits_for_input(self._root, self._memory, rank.key.pid) for rank in job.ranks[:MOST_READERS]
            ),
            allowed_numbers=allowed,
        )

    def keep_only(self, jobs: frozenset[ProcessKey]) -> None:
        """Forget all jobs except these."""
        for key in self._turns.keys() - jobs:
            del self._turns[key]
        for key in self._weights.keys() - jobs:
            del self._weights[key], self._weighed_ns[key]
        for key in self._sockets.keys() - jobs:
            del self._sockets[key]
        for key in self._shm_workers.keys() - jobs:
            self._shm_workers.pop(key).close()

    def close(self) -> None:
        """End the threads."""
        self.keep_only(frozenset())
        self._memory.close()

    def _raw(self, relative: str) -> bytes:
        """Return the first bytes of a file, at most MOST_BYTES; b"" when it cannot be read."""
        try:
            return self._root.read(relative, MOST_BYTES)
        except OSError:
            return b""

    def _shm(self, job: ProcessKey, key: ProcessKey) -> tuple[int | None, int | None]:
        """Return (size, use) of a job's /dev/shm in bytes; (None, None) when unknown. key: a process of the job.

        statvfs runs on a thread, because the path crosses the job's mounts, and the server of such a mount may be dead.
        """
        out: list[tuple[int, int]] = []
        path = self._root.join(f"proc/{key.pid}/root/dev/shm")

        def measure() -> None:
            with contextlib.suppress(OSError):
                status = self._statvfs(path)
                total = status.f_blocks * status.f_frsize
                out.append((total, total - status.f_bavail * status.f_frsize))

        worker = self._shm_workers.setdefault(job, BackgroundWorker("shm"))
        if worker.submit(measure):
            worker.wait(SHM_TIMEOUT_S)
        return out[0] if out else (None, None)

    def _allowed_cpus(self, job: Job) -> tuple[int, ...] | None:
        """Return the CPUs on which the ranks can run, all together; None when unknown.

        For a rank with workers, the CPUs of its first worker count. Slurm and MPI bind each rank to separate CPUs.
        """
        allowed: set[int] = set()
        for rank in job.ranks:
            for line in self._raw(f"proc/{(rank.workers[0] if rank.workers else rank.key).pid}/status").splitlines():
                if line.startswith(b"Cpus_allowed_list:"):
                    allowed.update(cpu_numbers(line.partition(b":")[2]))
        return tuple(sorted(allowed)) or None

    def _mounts(self, job: Job, members: list[ProcessKey], now_ns: int) -> tuple[JobMount, ...]:
        """Return the mounts of the data files that members of the job have, or had, open; the most used come first.

        At most ``MOST_MOUNTS`` are returned. Each read looks at the open files of a few members in rotation, and at one
        mountinfo for each of their mount namespaces: the IDs of mounts are unique on the machine.
        """
        weights = self._weights.get(job.key, {})
        start = self._turns[job.key] * MOST_READERS % len(members)
        ids: Counter[int] = Counter()
        pid_by_namespace = {self._root.link(f"proc/{members[0].pid}/ns/mnt"): members[0].pid}
        for key in (members[start:] + members[:start])[:MOST_READERS]:
            ids.update(self._open_files(key))
            pid_by_namespace.setdefault(self._root.link(f"proc/{key.pid}/ns/mnt"), key.pid)
        if ids:
            factor = 0.5 ** ((now_ns - self._weighed_ns.get(job.key, now_ns)) / HALF_LIFE_NS)
            weights = self._weights[job.key] = {mount: weight * factor for mount, weight in weights.items()}
            self._weighed_ns[job.key] = now_ns
            raws = (self._raw(f"proc/{pid}/mountinfo") for pid in pid_by_namespace.values())
            lines = (line for raw in raws for line in raw.split(b"\n") if line[:1].isdigit())
            line_by_id = {int(line.split(b" ", 1)[0]): line for line in lines}
            for number, count in ids.items():
                for mount in parse_mountinfo(line_by_id.get(number, b"")):
                    job_mount = JobMount(mount.path, mount.fstype, mount.source, mount.device)
                    weights[job_mount] = weights.get(job_mount, 0.0) + count
        # Counter.most_common would import heapq at its first call, and this thread must open nothing outside /proc.
        return tuple(sorted(weights, key=weights.__getitem__, reverse=True)[:MOST_MOUNTS])

    def _open_files(self, key: ProcessKey) -> Iterator[int]:
        """Yield the mnt_id of each open file that may be data: not a library, script, log or device."""
        folder = f"proc/{key.pid}"
        for name in self._root.names(f"{folder}/fd")[:MOST_FILES]:
            path = self._root.link(f"{folder}/fd/{name}")
            in_system_folder = path.startswith(_NOT_DATA_FOLDERS) and not path.startswith(_DATA_FOLDERS)
            if not path.startswith("/") or in_system_folder or path.endswith(_NOT_DATA_SUFFIXES):
                continue
            facts = dict(
                line.split(b":", 1) for line in self._raw(f"{folder}/fdinfo/{name}").splitlines() if b":" in line
            )
            flags, mount = facts.get(b"flags", b"").strip(), facts.get(b"mnt_id", b"").strip()
            # A file that is open only for writing, such as a log, is not a source of data.
            if mount.isdigit() and flags.isdigit() and int(flags, 8) & os.O_ACCMODE != os.O_WRONLY:
                yield int(mount)

    def _listening_sockets(self, job: Job) -> tuple[int | None, int | None]:
        """Return (the number of listening ports of the job, the number of connections to these ports).

        The first ``MOST_READERS`` training processes and the top process are read. A number is None when it is unknown.
        Both are None for a job with workers, where they are not read.
        """
        if job.workers:
            return None, None
        turn = self._turns[job.key]
        due, counts = self._sockets.get(job.key, (0, (None, None)))
        if due > turn:
            return counts
        ranks = [rank.key for rank in job.ranks[:MOST_READERS]]
        # A server may listen in its top process and compute in another one.
        tops = [key for key in job.helpers if key == job.key]
        counts_by_rank = [self._sockets_of(key) for key in (*ranks, *tops)]
        listening = [pair[0] for pair in counts_by_rank if pair[0] is not None]
        connections = [pair[1] for pair in counts_by_rank if pair[1] is not None]
        counts = (sum(listening) if listening else None, sum(connections) if connections else None)
        self._sockets[job.key] = (turn + SOCKETS_EVERY, counts)
        return counts

    def _sockets_of(self, key: ProcessKey) -> tuple[int | None, int | None]:
        """Return (number of a process's listening ports, number of connections to them); None for an unknown number."""
        folder = f"proc/{key.pid}"
        names = self._root.names(f"{folder}/fd")[:MOST_FILES]
        if not names:
            return None, None
        links = (self._root.link(f"{folder}/fd/{name}") for name in names)
        own_inodes = frozenset(link[8:-1] for link in links if link.startswith("socket:["))
        if not own_inodes:
            return 0, 0
        tables = [self._raw(f"{folder}/net/{file}") for file in ("tcp", "tcp6")]
        rows = [row for table in tables for row in parse_tcp(table)]
        ports = {port for port, state, inode in rows if state == _LISTEN and inode in own_inodes}
        if any(len(table) == MOST_BYTES for table in tables):  # the listening sockets come first in each table
            return len(ports), None
        connections = [row for row in rows if row[1] == _ESTABLISHED and row[0] in ports]
        return len(ports), len(connections)


def parse_tcp(raw: bytes) -> list[tuple[bytes, bytes, str]]:
    """Return (local port, state, inode) of each socket in /proc/PID/net/tcp.

    State 0A is a listening socket, and 01 is a connection. Each line has this form:
    ``0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 5127 1 0 100 0 0 10 0``
    """
    out = []
    for line in raw.splitlines()[1:]:
        fields = line.split(None, 10)
        if len(fields) > 9:
            out.append((fields[1].rpartition(b":")[2], fields[3], clean_bytes(fields[9], 20)))
    return out


def cpu_numbers(text: bytes) -> Iterable[int]:
    """Return the CPUs that a list such as ``0-3,8`` names; none if the text is not such a list."""
    ranges = []
    for part in text.strip().split(b","):
        low, _, high = part.partition(b"-")
        if not low.isdigit() or (high and not high.isdigit()) or int(high or low) >= _MOST_CPUS:
            return ()
        ranges.append(range(int(low), int(high or low) + 1))
    return chain.from_iterable(ranges)
