"""One process in full, read while its page is open: neither Snapshots nor recordings hold it.

Each part is a Reading of its own, because the kernel permits some parts to every user and others only to the owner.
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
    """One thread. state: as in /proc/PID/stat. wchan: the kernel function in which it sleeps, "" unknown or none.

    call: the system call in which it is, "" outside of one or unknown. target: the target of that call's wait, a kind
    of collectors/job/wait_target.py. path: the file or peer that the call names, "" without one.
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
    """The threads of a process. threads: those with the lowest ids. number: how many there are in all."""

    threads: tuple[ThreadDetail, ...]
    number: int
    clk_tck: int = 100


class OpenFile(NamedTuple):
    """A file that the process has open. fds: number of its descriptors in this mode. mode: r, w, rw.

    position: the largest offset of them, None unknown. mount: None where the kernel does not name it.
    """

    path: str
    mode: str
    fds: int
    position: int | None
    mount: Mount | None
    deleted: bool = False


class OpenFiles(NamedTuple):
    """The open files of a process.

    files: by path. others: number of the remaining descriptors by kind ("pipe", "socket", "eventfd").

    number: descriptors examined. more: whether the process has more.
    """

    files: tuple[OpenFile, ...]
    others: tuple[tuple[str, int], ...]
    number: int
    more: bool = False


class Socket(NamedTuple):
    """Sockets of one kind, address and state. remote: "" without a peer. alike: number of such sockets."""

    protocol: str
    local: str
    remote: str
    state: str
    alike: int = 1


class Sockets(NamedTuple):
    """The sockets of a process.

    sockets: those of TCP, UDP and the Unix domain. hidden: open sockets that the tables of our namespace lack.
    """

    sockets: tuple[Socket, ...]
    hidden: int = 0


class Limit(NamedTuple):
    """A resource limit. soft: None unlimited. unit: "B" or "". used: how much is in use now, None unknown."""

    name: str
    soft: int | None
    unit: str = ""
    used: int | None = None


class ProcessIdentity(NamedTuple):
    """The facts of a process that rarely change. started_s: wall time. cpus: the CPUs on which it may run.

    io_class: none, realtime, best or idle; "" unknown.
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
    """A process's cgroup. path: "/" for the root. io_limits, cpu_cores: the tightest, also of cgroups above."""

    path: str
    group: Cgroup
    io_limits: tuple[IoLimit, ...] = ()
    cpu_cores: float | None = None


class ProcessDetail(NamedTuple):
    """One process in detail, for its own screen.

    environ: (name, value) as the program was started, secrets replaced.
    """

    key: ProcessKey
    identity: Reading[ProcessIdentity] = Reading()
    environ: Reading[tuple[tuple[str, str], ...]] = Reading()
    threads: Reading[ThreadTable] = Reading()
    files: Reading[OpenFiles] = Reading()
    sockets: Reading[Sockets] = Reading()
    cgroup: Reading[CgroupDetail] = Reading()


def thread_cpu(before: Reading[ThreadTable], after: Reading[ThreadTable]) -> dict[int, float]:
    """CPU time per second of each thread that both readings have, by thread id; 1.0 is one core."""
    old, new = before.value, after.value
    if old is None or new is None or before.at_ns is None or after.at_ns is None:
        return {}
    seconds = (after.at_ns - before.at_ns) / 1e9
    ticks = {one.tid: one.cpu_ticks for one in old.threads}
    out = {}
    for one in new.threads:
        grown = per_second(delta(ticks.get(one.tid), one.cpu_ticks), seconds if seconds > 0 else None)
        if grown is not None:
            out[one.tid] = grown / new.clk_tck
    return out
