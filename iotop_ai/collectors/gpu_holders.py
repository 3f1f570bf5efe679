"""NVML's processes found again in our /proc: which pid is theirs here, and on which CPUs they may run.

Source: proc_pid_fd(5), proc_pid_status(5) (NSpid, Cpus_allowed_list). The kernel module counts pids as the host does
or as the asking container does, by its version; only an open /dev/nvidia* proves that a pid here is meant.
"""

from __future__ import annotations

from iotop_ai.collectors.root import Root
from iotop_ai.model.gpu import GpuProcess
from iotop_ai.model.record import NamedTuple

FIRST_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO: the pid namespace that the kernel began with, in which NVML's pids are /proc's."""
LOOK_EVERY = 5
_DEVICE = "/dev/nvidia"


class Found(NamedTuple):
    """What one of NVML's pids is here. pid None: nobody here."""

    pid: int | None
    cpus: str


class Holders:
    """Looks a process up once and again every fifth sweep."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._first = root.link("proc/self/ns/pid") in ("", FIRST_NAMESPACE)
        self._known: dict[tuple[str, int], tuple[int, Found]] = {}
        self._sweep = 0

    def begin(self) -> None:
        """A new sweep: what was looked up long ago is looked up again."""
        self._sweep += 1
        oldest = self._sweep - LOOK_EVERY
        self._known = {key: value for key, value in self._known.items() if value[0] > oldest}

    def resolve(
        self, uuid: str, minor: int | None, processes: tuple[GpuProcess, ...] | None
    ) -> tuple[GpuProcess, ...] | None:
        """The processes with our own pids; one that is not found here keeps NVML's and says so."""
        if processes is None:
            return None
        missing = [one.pid for one in processes if (uuid, one.pid) not in self._known]
        if missing:
            direct = {pid: found for pid in missing if (found := self._direct(pid)) is not None}
            lost = [pid for pid in missing if pid not in direct]
            if lost and not self._first:
                taken = {f.pid for f in direct.values()} | {f.pid for _, f in self._known.values()}
                direct |= self._by_device(lost, minor, taken)
            for pid in missing:
                self._known[uuid, pid] = self._sweep, direct.get(pid, Found(None, ""))
        out = []
        for one in processes:
            _, found = self._known[uuid, one.pid]
            if found.pid is None:
                out.append(one._replace(found=False))
            else:
                out.append(one._replace(pid=found.pid, cpus=found.cpus))
        return tuple(out)

    def _direct(self, pid: int) -> Found | None:
        """The process of that very number, where it is certainly the one."""
        status = self._status(pid)
        if status is None:
            return None
        if self._first or any(link.startswith(_DEVICE) for link in self._links(pid)):
            return Found(pid, status.get("Cpus_allowed_list", ""))
        return None

    def _by_device(self, lost: list[int], minor: int | None, taken: set[int | None]) -> dict[int, Found]:
        """By another number of theirs (NSpid), else the only one left that holds the GPU open."""
        holding = {}
        for name in self._root.names("proc"):
            if name.isdigit() and int(name) not in taken and (status := self._holding(int(name), minor)) is not None:
                holding[int(name)] = status
        out: dict[int, Found] = {}
        for pid in lost:
            for own, status in holding.items():
                if str(pid) in status.get("NSpid", "").split():
                    out[pid] = Found(own, status.get("Cpus_allowed_list", ""))
        left = [pid for pid in lost if pid not in out]
        free = [own for own in holding if own not in {found.pid for found in out.values()}]
        if len(left) == len(free) == 1:
            out[left[0]] = Found(free[0], holding[free[0]].get("Cpus_allowed_list", ""))
        return out

    def _holding(self, pid: int, minor: int | None) -> dict[str, str] | None:
        device = f"{_DEVICE}{minor}"
        if minor is None or device not in self._links(pid):
            return None
        return self._status(pid)

    def _links(self, pid: int) -> list[str]:
        folder = f"proc/{pid}/fd"
        return [self._root.link(f"{folder}/{name}") for name in self._root.names(folder)]

    def _status(self, pid: int) -> dict[str, str] | None:
        lines = self._root.lines(f"proc/{pid}/status")
        if not lines:
            return None
        return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
