"""Reads the cgroups in which the recognised jobs run. Without a job, nothing is read.

Sources: https://docs.kernel.org/admin-guide/cgroup-v2.html; for v1,
https://docs.kernel.org/admin-guide/cgroup-v1/blkio-controller.html, memory.html and cpuacct.html.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Protocol

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.cgroup_paths import NO_MEMORY_LIMIT, common_path, parse_cgroups, unified_folder
from iotop_ai.collectors.machine.pressure import RESOURCES, parse_pressure
from iotop_ai.model.clean import clean_bytes
from iotop_ai.model.job.batch_ids import first_batch_path, job_ids
from iotop_ai.model.job.cgroup import Cgroup, CgroupCpu, CgroupIo, CgroupMemory, CgroupTable
from iotop_ai.model.job.records import MOST_JOBS, Job
from iotop_ai.model.process.records import ProcessKey

TOP = "sys/fs/cgroup"
_MOST_BYTES = 16_384
"""The most bytes that ``_raw`` reads from a file; memory.stat of v1 has 2 kB.

Files with one or more lines for each disk may be longer, so ``_read_all`` reads them.
"""
_IO_NAMES = {b"rbytes": 0, b"wbytes": 1, b"rios": 2, b"wios": 3}
"""The index of each figure of io.stat in CgroupIo."""
_V1_WORDS = {b"Read": 0, b"Write": 1}
"""The index of each direction in a pair of figures. CgroupIo has two pairs: the bytes, then the operations."""
_V1_RECURSIVE = "throttle.io_service_bytes_recursive"
_NOT_DISKS = ("loop", "ram", "zram", "dm-", "md")
"""The prefixes of the names of block devices that are in memory, or stacked on other devices or on files."""
_UNKNOWN_IO = CgroupIo(None, None, None, None)
_UNNAMED = b"(unknown)"
"""The name of every hidden device, such as a path of an NVMe multipath disk. Its I/O is counted for the disk, too."""


class Jobs(Protocol):
    """The part of JobCollector that this module uses."""

    @property
    def jobs(self) -> Mapping[ProcessKey, Job]:
        """The newest jobs."""
        ...


class CgroupCollector:
    """Reads the cgroup of each job: that of its ranks, or the nearest one above them in their batch job.

    A batch job is a Slurm job, a pod or a container. Jobs with the same ``own_path`` share one record. If their cgroups
    of another controller differ, that controller's figures are unknown.
    """

    field = "cgroups"
    every_s = 2.0

    def __init__(self, root: Root, clock: Clock, jobs: Jobs) -> None:
        self._reader = CgroupReader(root)
        self._clock = clock
        self._jobs = jobs
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._newest: CgroupTable | None = None
        self._at_ns: int | None = None

    def at_ns(self) -> int | None:
        """Return the time of the newest table; None before the first.

        While no job has a cgroup, this is the time of the first empty table.
        """
        return self._at_ns

    def read(self) -> CgroupTable:
        """Read the cgroups of the jobs."""
        shared: dict[str, dict[str, str]] = {}
        jobs: dict[ProcessKey, str] = {}
        for key, job in list(self._jobs.jobs.items())[:MOST_JOBS]:
            paths = self._reader.common_paths([rank.key.pid for rank in job.ranks] or [key.pid])
            if own := own_path(paths):
                jobs[key] = own
                paths = own_cgroups(paths)
                others = shared.get(own, paths)
                shared[own] = {name: path for name, path in paths.items() if others.get(name) == path}
        groups = {own: self._reader.group(paths) for own, paths in shared.items()}
        table = CgroupTable(groups, jobs, self._page_bytes)
        if groups or table != self._newest:
            self._newest, self._at_ns = table, self._clock.monotonic_ns()
        return self._newest or table

    def close(self) -> None:
        """Do nothing: no file is kept open, since a cgroup ends with its job."""


class CgroupReader:
    """Reads cgroups of v2, of v1, and of both on machines that use both."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._unified = unified_folder(root)

    def paths(self, pid: int) -> dict[str, str]:
        """Return the paths of a process's cgroups by controller, with "" for v2; {} when they are unknown."""
        return parse_cgroups(self._raw(f"proc/{pid}/cgroup"))

    def common_paths(self, pids: Iterable[int]) -> dict[str, str]:
        """Return the paths by controller of the nearest cgroups that hold all these processes.

        If the processes are in different cgroups of a controller, the nearest one above them counts only if it has the
        id of their Slurm job, pod or container: otherwise it may hold other jobs. Processes whose cgroups are unknown
        are ignored. {} if the processes whose cgroups are known are in different Slurm jobs, pods or containers.
        """
        contents = dict.fromkeys(self._raw(f"proc/{pid}/cgroup") for pid in pids)
        known = [paths for paths in map(parse_cgroups, contents) if paths]
        if len(known) < 2:
            return known[0] if known else {}
        common = {}
        for name in known[0]:
            distinct = {paths.get(name, "/") for paths in known}
            above = common_path(distinct)
            if len(distinct) == 1 or (job_ids(above).batch_id and self._sums_descendants(name, above)):
                common[name] = above
        batch_ids = {job_ids(own_path(paths)).batch_id for paths in (common, *known)}
        return common if len(batch_ids) == 1 else {}

    def _sums_descendants(self, controller: str, path: str) -> bool:
        """Whether the figures of a cgroup include its descendants; blkio of old kernels leaves them out."""
        return controller != "blkio" or self._root.exists(f"{TOP}/blkio{path}/blkio.{_V1_RECURSIVE}")

    def _raw(self, relative: str) -> bytes:
        """Return the first ``_MOST_BYTES`` bytes of a file; b"" when it cannot be read."""
        try:
            return self._root.read_once(relative, _MOST_BYTES)
        except OSError:
            return b""

    def _read_all(self, relative: str) -> bytes | None:
        """Return all bytes of a file; None when it cannot be read."""
        try:
            return self._root.read(relative)
        except OSError:
            return None

    def _number(self, relative: str) -> int | None:
        return number(self._raw(relative))

    def group(self, paths: Mapping[str, str]) -> Cgroup:
        """Read the cgroup with these paths by controller. For the root cgroup, every value is unknown.

        Since Linux 6.10 (commit a3166c51702b), v1 counts the bytes of a disk only after a limit was set on that disk.
        The root blkio cgroup lists the disks that are counted; the bytes of all other disks are unknown.
        """
        cgroup = self._v2(f"{self._unified}{_subpath(paths.get(''))}") if _subpath(paths.get("")) else Cgroup()
        if self._unified == TOP:
            return cgroup
        # If both versions are mounted, each controller belongs to only one of them.
        io = self._v1_io(f"{TOP}/blkio{_subpath(paths.get('blkio'))}") if _subpath(paths.get("blkio")) else None
        memory = (
            self._v1_memory(f"{TOP}/memory{_subpath(paths.get('memory'))}") if _subpath(paths.get("memory")) else None
        )
        cpu = self._v1_cpu(_subpath(paths.get("cpu")), _subpath(paths.get("cpuacct")))
        return cgroup._replace(
            io=cgroup.io if io is None else io,
            memory=memory or cgroup.memory,
            cpu=cgroup.cpu if cpu == CgroupCpu() else cpu,
        )

    def _v2(self, folder: str) -> Cgroup:
        pressure = {name: parse_pressure(self._raw(f"{folder}/{name}.pressure")) for name in RESOURCES}
        raw = self._read_all(f"{folder}/io.stat")
        io = None if raw is None else parse_io_stat(raw)
        stat, events = numbers(self._raw(f"{folder}/memory.stat")), numbers(self._raw(f"{folder}/memory.events"))
        current, high, limit = (self._number(f"{folder}/memory.{name}") for name in ("current", "high", "max"))
        memory = CgroupMemory(
            *(current, high, limit, stat.get(b"anon"), stat.get(b"file"), stat.get(b"workingset_refault_file")),
            *(events.get(b"high"), events.get(b"max"), events.get(b"oom_kill")),
        )
        quota, period = (number(word) for word in (*self._raw(f"{folder}/cpu.max").split(), b"", b"")[:2])
        stat = numbers(self._raw(f"{folder}/cpu.stat"))
        cpu = CgroupCpu(
            *(stat.get(b"usage_usec"), quota, period),
            *(stat.get(b"nr_periods"), stat.get(b"nr_throttled"), stat.get(b"throttled_usec")),
        )
        return Cgroup(io, memory, cpu, {name: totals for name, totals in pressure.items() if totals is not None})

    def _v1_io(self, folder: str) -> dict[str, CgroupIo] | None:
        name = _V1_RECURSIVE
        if not self._root.exists(f"{folder}/blkio.{name}"):
            name = "throttle.io_service_bytes"
        service_bytes = self._read_all(f"{folder}/blkio.{name}")
        if not service_bytes:
            return None
        serviced = self._read_all(f"{folder}/blkio.{name.replace('service_bytes', 'serviced')}")
        by_device = parse_v1_io(service_bytes, serviced or b"")
        counted_by_root = self._read_all(f"{TOP}/blkio/blkio.throttle.io_service_bytes")
        counted_disks = parse_v1_io(counted_by_root or b"", b"").keys() | by_device.keys()
        if not counted_disks:
            return None
        # In a container, the top folder is the container's own cgroup, which lists only the disks that the container
        # used. Only the machine's root cgroup has the file release_agent.
        if self._root.exists(f"{TOP}/blkio/release_agent"):
            by_device |= dict.fromkeys(self._disks() - counted_disks, _UNKNOWN_IO)
        return by_device

    def _disks(self) -> set[str]:
        """Return the device numbers ("8:0") of the block devices other than ``_NOT_DISKS``."""
        names = [name for name in self._root.names("sys/block") if not name.startswith(_NOT_DISKS)]
        return {self._root.text_or(f"sys/block/{name}/dev").strip() for name in names} - {""}

    def _v1_memory(self, folder: str) -> CgroupMemory | None:
        current = self._number(f"{folder}/memory.usage_in_bytes")
        if current is None:
            return None
        limit = self._number(f"{folder}/memory.limit_in_bytes")
        stat = numbers(self._raw(f"{folder}/memory.stat"))
        refaults = stat.get(b"total_workingset_refault_file", stat.get(b"workingset_refault_file"))
        return CgroupMemory(
            *(current, None, None if limit is None or limit >= NO_MEMORY_LIMIT else limit),
            *(stat.get(b"total_rss"), stat.get(b"total_cache"), refaults),
            *(None, self._number(f"{folder}/memory.failcnt")),
            numbers(self._raw(f"{folder}/memory.oom_control")).get(b"oom_kill"),
        )

    def _v1_cpu(self, quota_path: str, usage_path: str) -> CgroupCpu:
        used = self._number(f"{TOP}/cpuacct{usage_path}/cpuacct.usage") if usage_path else None
        if not quota_path:
            return CgroupCpu(None if used is None else used // 1000)
        folder = f"{TOP}/cpu{quota_path}"
        quota, period = (self._number(f"{folder}/cpu.cfs_{name}_us") for name in ("quota", "period"))
        stat = numbers(self._raw(f"{folder}/cpu.stat"))
        ns = stat.get(b"throttled_time")
        return CgroupCpu(
            *(None if used is None else used // 1000, quota, period),
            *(stat.get(b"nr_periods"), stat.get(b"nr_throttled"), None if ns is None else ns // 1000),
        )


def own_path(paths: Mapping[str, str]) -> str:
    """Return the path that identifies a job's cgroup.

    It is the first path, of any controller, that has the id of a Slurm job, pod or container. Without one, it is
    the path in v2, or else that of memory, blkio or cpu in v1; "" when each of these is the root cgroup or unknown.
    """
    main = [_subpath(paths.get(name)) for name in ("", "memory", "blkio", "cpu")]
    return first_batch_path((*main, *map(_subpath, paths.values()))) or next(filter(None, main), "")


def own_cgroups(paths: Mapping[str, str]) -> dict[str, str]:
    """Return a job's cgroups by controller, without those that belong to the daemon that started the job.

    If ``own_path`` has the id of a Slurm job, pod or container, only the cgroups with the same id are returned;
    otherwise all are.
    """
    batch_id = job_ids(own_path(paths)).batch_id
    return {name: path for name, path in paths.items() if not batch_id or job_ids(path).batch_id == batch_id}


def _subpath(path: str | None) -> str:
    """Return a cgroup's path below the mount, such as "/a/b".

    "" for the root cgroup, for None, and for a path that leads out of the mount.
    """
    parts = (path or "").strip("/").split("/")
    return "" if ".." in parts or parts == [""] else "/" + "/".join(parts)


def number(raw: bytes) -> int | None:
    """Return the number in a file such as ``4096``; None for ``max``, ``-1`` and an empty file."""
    word = raw.strip()
    return int(word) if word.isdigit() else None


def numbers(raw: bytes) -> dict[bytes, int]:
    """Return the numbers of a file with lines such as ``nr_throttled 12``, by name."""
    out = {}
    for line in raw.splitlines():
        name, _, value = line.partition(b" ")
        if value.isdigit():
            out[name] = int(value)
    return out


def parse_io_stat(raw: bytes) -> dict[str, CgroupIo]:
    """Parse io.stat: one line ``254:0 rbytes=90112 wbytes=0 rios=22 wios=0 dbytes=0 dios=0`` for each device.

    Some kernels write a device without I/O in front of the next device, in the same line: ``7:1 7:0 rbytes=28672``
    (https://github.com/canonical/lxd/issues/10052).
    """
    out = {}
    for line in raw.splitlines():
        device = b""
        counts: list[int | None] = [None] * 4
        for word in line.split():
            name, equals, value = word.partition(b"=")
            if not equals:
                device = word
            elif name in _IO_NAMES and value.isdigit():
                counts[_IO_NAMES[name]] = int(value)
        if device != _UNNAMED and any(value is not None for value in counts):
            out[clean_bytes(device, 16)] = CgroupIo(*counts)
    return out


def parse_v1_io(service_bytes: bytes, serviced: bytes) -> dict[str, CgroupIo]:
    """Parse io_service_bytes and io_serviced: lines such as ``254:0 Read 90112``; the last is ``Total 90112``."""
    by_device: dict[bytes, list[int | None]] = {}
    for offset, raw in ((0, service_bytes), (2, serviced)):
        for line in raw.splitlines():
            words = line.split()
            if len(words) == 3 and words[0] != _UNNAMED and words[1] in _V1_WORDS and words[2].isdigit():
                by_device.setdefault(words[0], [None] * 4)[offset + _V1_WORDS[words[1]]] = int(words[2])
    return {clean_bytes(device, 16): CgroupIo(*values) for device, values in by_device.items()}
