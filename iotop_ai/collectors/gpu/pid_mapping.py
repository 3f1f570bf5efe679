"""Maps NVML's PIDs to PIDs of this program's /proc, and finds the CPUs on which each process can run.

Source: proc_pid_fd(5), proc_pid_status(5) (NSpid, Cpus_allowed_list). In a container, the kernel module reports PIDs of
the host or of the container, depending on its version. A local process with such a PID is therefore NVML's process only
if it has the GPU open.
"""

from __future__ import annotations

from iotop_ai.collectors.io.root import READ_LIMIT, Root
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.gpu.state import GpuProcess

FIRST_NAMESPACE = "pid:[4026531836]"
"""The initial PID namespace (PROC_PID_INIT_INO), where NVML's PIDs are those of /proc."""
SEARCH_EVERY_SWEEPS = 5
"""The result of a search is kept for this number of sweeps (readings of all GPUs)."""
_GPU_PREFIX = "/dev/nvidia"
"""The path of a GPU's device file, without the minor number at its end."""
_CUDA_DEVICE = "/dev/nvidia-uvm"


class LocalProcess(NamedTuple):
    """The local process for one of NVML's PIDs. pid: None when it was not found. cpus: the CPUs on which it can run."""

    pid: int | None
    cpus: str


def in_first_namespace(root: Root) -> bool:
    """Whether the PIDs of ``proc`` are those of the initial PID namespace; True when the namespace is unknown."""
    return root.link(f"proc/{root.machine_process}/ns/pid") in ("", FIRST_NAMESPACE)


class PidMapping:
    """Finds the local process for each of NVML's PIDs."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._own_pid = root.own_pid
        self._in_first_namespace = in_first_namespace(root)
        self._local: dict[tuple[str, int], tuple[int, LocalProcess]] = {}
        """(sweep of the search, local process) by (UUID of the GPU, NVML's PID)."""
        self._sweep = 0

    def begin(self) -> None:
        """Begin a sweep, and forget the results of searches that are too old."""
        self._sweep += 1
        oldest = self._sweep - SEARCH_EVERY_SWEEPS
        self._local = {key: value for key, value in self._local.items() if value[0] > oldest}

    def resolve(
        self, uuid: str, minor: int | None, processes: tuple[GpuProcess, ...] | None
    ) -> tuple[GpuProcess, ...] | None:
        """Return the processes of a GPU with their local PIDs; None if ``processes`` is None.

        A process that is not found keeps NVML's PID and gets found=False. minor: the GPU's minor number.
        """
        if processes is None:
            return None
        # A process that was already found on another GPU is the same process on this GPU.
        known = {pid: value for (_, pid), value in self._local.items() if value[1].pid is not None}
        self._local |= {(uuid, process.pid): known[process.pid] for process in processes if process.pid in known}
        missing = [process.pid for process in processes if (uuid, process.pid) not in self._local]
        if missing:
            matched = {pid: local for pid in missing if (local := self._by_same_pid(pid, minor)) is not None}
            unmatched = [pid for pid in missing if pid not in matched]
            if unmatched and not self._in_first_namespace:
                mapped = {local.pid for local in matched.values()} | {local.pid for _, local in self._local.values()}
                matched |= self._by_device(unmatched, minor, mapped)
            for pid in missing:
                self._local[uuid, pid] = self._sweep, matched.get(pid, LocalProcess(None, ""))
        out = []
        for process in processes:
            _, local = self._local[uuid, process.pid]
            if local.pid is None:
                out.append(process._replace(found=False))
            else:
                out.append(process._replace(pid=local.pid, cpus=local.cpus))
        return tuple(out)

    def _by_same_pid(self, pid: int, minor: int | None) -> LocalProcess | None:
        """Return the local process with the same PID, if it is certainly the same process; otherwise None."""
        status = self._status(pid)
        if status is None:
            return None
        if self._in_first_namespace or self._has_open(pid, minor):
            return LocalProcess(pid, status.get("Cpus_allowed_list", ""))
        return None

    def _by_device(self, unmatched: list[int], minor: int | None, mapped: set[int | None]) -> dict[int, LocalProcess]:
        """Search the processes that have the GPU open; return the local processes that are found, by NVML's PID.

        A local process belongs to the PID that its NSpid contains. If one PID and one process then remain, they belong
        together. Without a minor number, none is found. unmatched: NVML's PIDs to search for. mapped: the local PIDs
        that belong to other PIDs of NVML.
        """
        holders = {}
        for name in self._root.names("proc"):
            if (
                name.isdigit()
                and int(name) not in mapped
                and (status := self._status_if_open(int(name), minor)) is not None
            ):
                holders[int(name)] = status
        out: dict[int, LocalProcess] = {}
        for pid in unmatched:
            for local_pid, status in holders.items():
                if str(pid) in status.get("NSpid", "").split():
                    out[pid] = LocalProcess(local_pid, status.get("Cpus_allowed_list", ""))
        remaining = [pid for pid in unmatched if pid not in out]
        unused = [local_pid for local_pid in holders if local_pid not in {local.pid for local in out.values()}]
        if len(remaining) == len(unused) == 1:
            out[remaining[0]] = LocalProcess(unused[0], holders[unused[0]].get("Cpus_allowed_list", ""))
        return out

    def _status_if_open(self, pid: int, minor: int | None) -> dict[str, str] | None:
        return self._status(pid) if minor is not None and self._has_open(pid, minor) else None

    def _has_open(self, pid: int, minor: int | None) -> bool:
        """Whether a process has the GPU open, or any GPU if the minor number is unknown.

        NVML makes this program open every GPU, so this program counts only if it also has CUDA's device open.
        """
        folder = f"proc/{pid}/fd"
        links = [self._root.link(f"{folder}/{name}") for name in self._root.names(folder)]
        if pid == self._own_pid and _CUDA_DEVICE not in links:
            return False
        if minor is not None:
            return f"{_GPU_PREFIX}{minor}" in links
        # /dev/nvidiactl and /dev/nvidia-uvm are not GPUs.
        return any(link.startswith(_GPU_PREFIX) and link[len(_GPU_PREFIX) :].isdigit() for link in links)

    def _status(self, pid: int) -> dict[str, str] | None:
        lines = self._root.lines(f"proc/{pid}/status", READ_LIMIT)  # a list of CPUs may be long
        if not lines:
            return None
        return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
