"""Maps NVML's PIDs to PIDs of our /proc, with the CPUs on which each process may run.

Source: proc_pid_fd(5), proc_pid_status(5) (NSpid, Cpus_allowed_list). By version, the kernel module reports
PIDs of the host or of the container; only an open /dev/nvidia* proves that a local PID is meant.
"""

from __future__ import annotations

from iotop_ai.collectors.io.root import Root
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.gpu.state import GpuProcess

FIRST_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO: the initial PID namespace, where NVML's PIDs are those of /proc."""
LOOK_EVERY = 5
_DEVICE = "/dev/nvidia"


class LocalProcess(NamedTuple):
    """The local process of one of NVML's PIDs. pid None: not found."""

    pid: int | None
    cpus: str


class PidMapping:
    """Finds the local process of each of NVML's PIDs; looks each one up again in every fifth sweep."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._first = root.link(f"proc/{root.view}/ns/pid") in ("", FIRST_NAMESPACE)
        self._found: dict[tuple[str, int], tuple[int, LocalProcess]] = {}
        self._sweep = 0

    def begin(self) -> None:
        """Start a sweep: forget old results."""
        self._sweep += 1
        oldest = self._sweep - LOOK_EVERY
        self._found = {key: value for key, value in self._found.items() if value[0] > oldest}

    def resolve(
        self, uuid: str, minor: int | None, processes: tuple[GpuProcess, ...] | None
    ) -> tuple[GpuProcess, ...] | None:
        """The processes with local PIDs; one that is not found keeps NVML's PID and gets found=False."""
        if processes is None:
            return None
        # A process that was found on another GPU is the same one here.
        known = {pid: value for (_, pid), value in self._found.items() if value[1].pid is not None}
        self._found |= {(uuid, one.pid): known[one.pid] for one in processes if one.pid in known}
        missing = [one.pid for one in processes if (uuid, one.pid) not in self._found]
        if missing:
            direct = {pid: found for pid in missing if (found := self._direct(pid)) is not None}
            lost = [pid for pid in missing if pid not in direct]
            if lost and not self._first:
                mapped = {f.pid for f in direct.values()} | {f.pid for _, f in self._found.values()}
                direct |= self._by_device(lost, minor, mapped)
            for pid in missing:
                self._found[uuid, pid] = self._sweep, direct.get(pid, LocalProcess(None, ""))
        out = []
        for one in processes:
            _, found = self._found[uuid, one.pid]
            if found.pid is None:
                out.append(one._replace(found=False))
            else:
                out.append(one._replace(pid=found.pid, cpus=found.cpus))
        return tuple(out)

    def _direct(self, pid: int) -> LocalProcess | None:
        """The local process with the same PID, where that is certain."""
        status = self._status(pid)
        if status is None:
            return None
        if self._first or any(link.startswith(_DEVICE) for link in self._links(pid)):
            return LocalProcess(pid, status.get("Cpus_allowed_list", ""))
        return None

    def _by_device(self, lost: list[int], minor: int | None, mapped: set[int | None]) -> dict[int, LocalProcess]:
        """The local process of each PID: the one that has it in NSpid, else the only other one with the GPU open."""
        holding = {}
        for name in self._root.names("proc"):
            if name.isdigit() and int(name) not in mapped and (status := self._holding(int(name), minor)) is not None:
                holding[int(name)] = status
        out: dict[int, LocalProcess] = {}
        for pid in lost:
            for own, status in holding.items():
                if str(pid) in status.get("NSpid", "").split():
                    out[pid] = LocalProcess(own, status.get("Cpus_allowed_list", ""))
        left = [pid for pid in lost if pid not in out]
        free = [own for own in holding if own not in {found.pid for found in out.values()}]
        if len(left) == len(free) == 1:
            out[left[0]] = LocalProcess(free[0], holding[free[0]].get("Cpus_allowed_list", ""))
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
