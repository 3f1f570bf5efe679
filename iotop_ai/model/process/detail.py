"""One process in full, read while its screen is open; Snapshots and recordings do not contain these records.

Each part is a separate Reading, because every user may read some parts, but only the owner may read the others.
"""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.block.counters import Mount
from iotop_ai.model.counter import delta, per_second
from iotop_ai.model.job.cgroup import Cgroup
from iotop_ai.model.job.records import IoLimit
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.reading import Reading


class ThreadDetail(NamedTuple):
    """One thread.

    state: the letter in /proc/PID/task/TID/stat
    wchan: the kernel function in which it sleeps; "" if unknown or if it does not sleep
    call: the name of its current system call; "" if unknown or without one
    target: the kind of object that the call waits for, as collectors/job/wait_target.py names it
    path: the file that the call uses; "" if it uses none or several
    """

    tid: int
    name: str
    state: str
    wchan: str
    call: str
    target: str
    path: str
    cpu_ticks: int | None


class ThreadTable(NamedTuple):
    """The threads with the lowest ids in a process; ``number`` counts all its threads."""

    threads: tuple[ThreadDetail, ...]
    number: int
    clk_tck: int = 100


class OpenFile(NamedTuple):
    """A file that the process has open.

    mode: r, w or rw; "" if unknown
    fds: the number of the file's descriptors with this mode
    position: the largest offset of these descriptors; None if unknown
    mount: the mount that contains the file; None if the kernel does not name it
    """

    path: str
    mode: str
    fds: int
    position: int | None
    mount: Mount | None
    deleted: bool = False


class OpenFiles(NamedTuple):
    """The open files of a process.

    files: the files, sorted by path
    others: the number of other descriptors by kind ("pipe", "socket", "eventfd")
    number: the number of all descriptors of the process
    more: whether some of these descriptors were not examined
    """

    files: tuple[OpenFile, ...]
    others: tuple[tuple[str, int], ...]
    number: int
    more: bool = False


class Socket(NamedTuple):
    """Sockets with the same protocol, addresses and state.

    remote: the address of the peer; "" without one
    alike: the number of such sockets
    """

    protocol: str
    local: str
    remote: str
    state: str
    alike: int = 1


class Sockets(NamedTuple):
    """The sockets of a process.

    sockets: the sockets of TCP, UDP and the Unix domain
    hidden: the number of other open sockets, such as those of another network namespace
    """

    sockets: tuple[Socket, ...]
    hidden: int = 0


OPEN_FILES = "open files"
"""The name of the Limit of the number of descriptors, of which ``OpenFiles.number`` are in use."""


class Limit(NamedTuple):
    """A resource limit.

    soft: the soft limit; None if unlimited
    unit: the unit of the limit: "B" or ""
    """

    name: str
    soft: int | None
    unit: str = ""


class ProcessIdentity(NamedTuple):
    """The facts of a process that rarely change.

    started_s: the start time as Unix time in seconds
    io_class: none, realtime, best or idle; "" if unknown
    cpus: the CPUs on which it can run
    """

    exe: str
    cwd: str
    started_s: float | None
    nice: int | None
    io_class: str
    io_level: int | None
    cpus: tuple[int, ...]
    limits: tuple[Limit, ...]


class CgroupDetail(NamedTuple):
    """A process's cgroup.

    path: the path of the cgroup; "/" for the root
    io_limits, cpu_cores: the tightest limits of this cgroup and the cgroups above it
    """

    path: str
    group: Cgroup
    io_limits: tuple[IoLimit, ...] = ()
    cpu_cores: float | None = None


class ProcessDetail(NamedTuple):
    """One process in detail.

    environ: the environment at the program's start, as (name, value) pairs; its secrets must be replaced before display
    """

    key: ProcessKey
    identity: Reading[ProcessIdentity] = Reading()
    environ: Reading[tuple[tuple[str, str], ...]] = Reading()
    threads: Reading[ThreadTable] = Reading()
    files: Reading[OpenFiles] = Reading()
    sockets: Reading[Sockets] = Reading()
    cgroup: Reading[CgroupDetail] = Reading()


def thread_cpu(before: Reading[ThreadTable], after: Reading[ThreadTable]) -> dict[int, float]:
    """The CPU use of each thread that is in both readings, by thread id; 1.0 is one core."""
    old, new = before.value, after.value
    if old is None or new is None or before.at_ns is None or after.at_ns is None:
        return {}
    seconds = (after.at_ns - before.at_ns) / 1e9
    ticks = {thread.tid: thread.cpu_ticks for thread in old.threads}
    out = {}
    for thread in new.threads:
        ticks_per_s = per_second(delta(ticks.get(thread.tid), thread.cpu_ticks), seconds)
        if ticks_per_s is not None:
            out[thread.tid] = ticks_per_s / new.clk_tck
    return out
