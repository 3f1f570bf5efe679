"""Finds the processes that use GPUs of the amdgpu, i915 and xe drivers, and their GPU time.

Sources: /proc/PID/fdinfo of open DRM devices, https://docs.kernel.org/gpu/drm-usage-stats.html; amdgpu_fdinfo.c,
xe_drm_client.c, i915_drm_client.c. Only root can see the processes of other users. fdinfo does not count ROCm's compute
time; ROCm's processes and their memory are listed in /sys/class/kfd/kfd/proc (kfd_process.c).
"""

from __future__ import annotations

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.gpu.state import GpuProcess

SEARCH_EVERY_SWEEPS = 5
"""The number of sweeps (calls of ``read``) that it takes to search all processes for open devices."""
_DEVICE = "/dev/dri/"
_UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_OWN_MEMORY = ("vram", "local")
"""The beginnings of the names of memory regions on the card; the other regions are in the machine's memory."""
ENGINES = {
    "gfx": "graphics_ns", "render": "graphics_ns", "rcs": "graphics_ns",
    "compute": "compute_ns", "ccs": "compute_ns",
    "dma": "copy_ns", "copy": "copy_ns", "bcs": "copy_ns",
    "dec": "decoder_ns", "video": "decoder_ns", "vcs": "decoder_ns",
    "enc": "encoder_ns", "enc_1": "encoder_ns",
    "jpeg": "jpeg_ns",
}  # fmt: skip
"""The field of GpuState that counts the busy time of each engine of amdgpu, i915 and xe."""
_MAIN_FIELDS = ("graphics_ns", "compute_ns")
"""The fields of the engines whose busy time counts as a process's share of the GPU."""
_KFD = "sys/class/kfd/kfd"


class Client(NamedTuple):
    """One open device of a process.

    client_id: drm-client-id. engines: (busy, total) by engine, either (ns, None) or (cycles, all cycles).
    capacities: the number of engines behind one name, if it is more than 1.
    """

    device: str
    client_id: str
    memory_bytes: int
    engines: dict[str, tuple[int, int | None]]
    capacities: dict[str, int]


def parse_client(lines: list[str]) -> Client | None:
    """Parse the content of one fdinfo file; None unless the file belongs to a GPU with a PCI address.

    Sample: drm-pdev: 0000:03:00.0 / drm-client-id: 12 / drm-engine-gfx: 4500 ns / drm-memory-vram: 1024 KiB
    """
    fields = {key: value.split() for key, _, value in (line.partition(":") for line in lines) if value.strip()}
    if "drm-pdev" not in fields or "drm-client-id" not in fields:
        return None
    memory: dict[str, dict[str, int]] = {}
    busy: dict[str, int] = {}
    total_cycles: dict[str, int] = {}
    capacities: dict[str, int] = {}
    for key, words in fields.items():
        if not key.startswith("drm-") or not words[0].isdecimal():
            continue
        amount, (kind, _, name) = int(words[0]), key[4:].partition("-")
        if kind in ("memory", "resident") and name.startswith(_OWN_MEMORY):
            memory.setdefault(kind, {})[name] = amount * _UNITS.get(words[1] if len(words) > 1 else "", 1)
        elif kind == "engine" and name.startswith("capacity-"):
            capacities[name.removeprefix("capacity-")] = max(1, amount)
        elif kind in ("engine", "cycles"):
            busy.setdefault(name, amount)
        elif kind == "total" and name.startswith("cycles-"):
            total_cycles[name.removeprefix("cycles-")] = amount
    own_memory = memory.get("resident") or memory.get("memory") or {}
    engines = {name: (amount, total_cycles.get(name)) for name, amount in busy.items() if name in ENGINES}
    return Client(fields["drm-pdev"][0], fields["drm-client-id"][0], sum(own_memory.values()), engines, capacities)


def _computes(client: Client) -> bool:
    """Whether the client has used the compute engines more than the graphics engines, unlike a desktop program."""
    used = dict.fromkeys(_MAIN_FIELDS, 0)
    for name, (busy, _) in client.engines.items():
        if ENGINES[name] in used:
            used[ENGINES[name]] += busy
    return used["compute_ns"] > used["graphics_ns"]


class DeviceUse(NamedTuple):
    """The use of one GPU.

    processes: the processes with their memory and, if it is known, the percentage of the time since the previous sweep
    in which they used the main engines. busy_ns: the busy time by the field of GpuState; it only grows.
    """

    processes: tuple[GpuProcess, ...]
    busy_ns: dict[str, int]


NO_USE = DeviceUse((), dict.fromkeys(_MAIN_FIELDS, 0))
"""The use of a GPU that no process has opened."""


class DrmClients:
    """Sums up the busy times of each engine over clients that open and close devices. Only one thread may use it."""

    def __init__(self, root: Root, clock: Clock) -> None:
        self._root = root
        self._clock = clock
        self._sweep = 0
        self._open: dict[int, dict[str, str]] = {}
        """The device file of each open file descriptor, by PID."""
        self._not_searched: set[int] = set()
        """The PIDs of the processes that the last sweep did not search for open devices."""
        self._last_busy: dict[tuple[str, str, str], tuple[int, int]] = {}
        """(busy, number of the sweep) by (device, client, engine).

        A client stays known until all processes have been searched for it, because a child may have it open.
        """
        self._cycles: dict[tuple[str, str], tuple[int, int]] = {}
        """(all cycles of an engine, the time when they were read) by (device, engine).

        The cycles are those of the GPU's own clock, so they do not depend on when a client opened the device.
        """
        self._busy: dict[str, dict[str, int]] = {}
        """The busy time in ns by PCI address and field of GpuState."""
        self.at_ns: int | None = None

    def read(self) -> dict[str, DeviceUse]:
        """Return the use of each GPU that a process has open or had open, by PCI address."""
        not_searched = self._not_searched
        self._find_open_devices()
        before_ns, self.at_ns = self.at_ns, self._clock.monotonic_ns()
        span_ns = 0 if before_ns is None else self.at_ns - before_ns
        clients: dict[tuple[str, str], tuple[int, Client]] = {}
        for pid in sorted(self._open):
            for fd in self._open[pid]:
                client = parse_client(self._root.lines(f"proc/{pid}/fdinfo/{fd}"))
                # Processes may share an open device that they inherited; it is counted for the first of them.
                if client is not None:
                    clients.setdefault((client.device, client.client_id), (pid, client))
        processes: dict[str, dict[int, GpuProcess]] = {}
        busy_now: dict[tuple[str, str, str], tuple[int, int]] = {}
        for pid, client in clients.values():
            main_ns = self._add_work(client, self.at_ns, span_ns, busy_now, may_be_older=pid in not_searched)
            share = None if not span_ns or main_ns is None else round(100 * main_ns / span_ns)
            device_processes = processes.setdefault(client.device, {})
            old = device_processes.get(pid)
            if old is not None and share is not None:
                share = None if old.sm_percent is None else share + old.sm_percent
            device_processes[pid] = GpuProcess(
                pid,
                client.memory_bytes + ((old.memory_bytes or 0) if old else 0),
                "compute" if _computes(client) or (old and old.kind == "compute") else "graphics",
                None if share is None else min(100, share),
            )
        oldest = self._sweep - SEARCH_EVERY_SWEEPS
        self._last_busy = {key: last for key, last in self._last_busy.items() if last[1] >= oldest} | busy_now
        for _, client in clients.values():
            for name, (_, total_cycles) in client.engines.items():
                if total_cycles is not None:
                    self._cycles[client.device, name] = total_cycles, self.at_ns
        return {
            device: DeviceUse(tuple(processes.get(device, {}).values()), dict(self._busy.get(device, {})))
            for device in {*self._busy, *processes}
        }

    def has_open(self, names: list[str]) -> bool:
        """Whether a process had one of these devices, such as "renderD128", open in the last sweep."""
        files = {_DEVICE + name for name in names}
        return any(file in files for fds in self._open.values() for file in fds.values())

    def _add_work(
        self,
        client: Client,
        at_ns: int,
        span_ns: int,
        busy_now: dict[tuple[str, str, str], tuple[int, int]],
        *,
        may_be_older: bool,
    ) -> int | None:
        """Add the busy time of a client's engines since the previous sweep; return the part of its main engines, in ns.

        Returns None in two cases: a main engine counts cycles and is read for the first time, so its previous count is
        unknown; or a new client may have worked before the previous sweep. The new counts are stored in ``busy_now``.

        may_be_older: whether a new client may have opened the device before the previous sweep.
        """
        totals, main_ns, is_known = self._busy.setdefault(client.device, {}), 0, True
        for name, (busy, total_cycles) in client.engines.items():
            field, key = ENGINES[name], (client.device, client.client_id, name)
            if may_be_older and busy and field in _MAIN_FIELDS and key not in self._last_busy:
                is_known = False
            # A driver may report less than before for a while, so keep the larger value (drm-usage-stats).
            old, _ = self._last_busy.get(key, (0, 0))
            busy_now[key] = max(busy, old), self._sweep
            growth = max(0, busy - old)
            if total_cycles is not None:
                before = self._cycles.get((client.device, name))
                is_known = is_known and (before is not None or field not in _MAIN_FIELDS)
                cycles, ns = (0, 0) if before is None else (total_cycles - before[0], at_ns - before[1])
                growth = growth * ns // cycles if cycles > 0 else 0
            growth = min(growth // client.capacities.get(name, 1), span_ns)
            totals[field] = totals.get(field, 0) + growth
            main_ns += growth if field in _MAIN_FIELDS else 0
        return main_ns if is_known else None

    def _find_open_devices(self) -> None:
        """Search for open devices: first in all processes, later in those that had one and in a part of the others."""
        is_first_sweep, remainder = self._sweep == 0, self._sweep % SEARCH_EVERY_SWEEPS
        self._sweep += 1
        pids = {int(name) for name in self._root.names("proc") if name.isdecimal()}
        self._open = {pid: fds for pid, fds in self._open.items() if pid in pids}
        self._not_searched = set()
        for pid in pids:
            if is_first_sweep or pid % SEARCH_EVERY_SWEEPS == remainder or pid in self._open:
                folder = f"proc/{pid}/fd"
                links = ((name, self._root.link(f"{folder}/{name}")) for name in self._root.names(folder))
                fds = {name: link for name, link in links if link.startswith(_DEVICE)}
                if fds:
                    self._open[pid] = fds
                else:
                    self._open.pop(pid, None)
            else:
                self._not_searched.add(pid)


def kfd_processes(root: Root) -> dict[str, dict[int, int]]:
    """Return the processes on each ROCm GPU by PCI address: the bytes of GPU memory by the host's PID.

    Source: /sys/class/kfd/kfd/topology/nodes/N/{gpu_id,properties} and /sys/class/kfd/kfd/proc/PID/vram_ID. location_id
    consists of bus, device and function, with the partition in its upper four bits. The partitions of a GPU are summed.
    """
    devices = {}
    for node in root.names(f"{_KFD}/topology/nodes"):
        gpu_id = root.number_or_none(f"{_KFD}/topology/nodes/{node}/gpu_id")
        words = dict(
            line.split(" ", 1) for line in root.lines(f"{_KFD}/topology/nodes/{node}/properties") if " " in line
        )
        location = words.get("location_id", "")
        if gpu_id and location.isdecimal() and words.get("domain", "0").isdecimal():
            bdf = int(location)
            devices[gpu_id] = f"{int(words.get('domain', '0')):04x}:{bdf >> 8 & 255:02x}:{bdf >> 3 & 31:02x}.{bdf & 7}"
    out: dict[str, dict[int, int]] = {device: {} for device in devices.values()}
    for pid in root.names(f"{_KFD}/proc") if devices else []:
        for gpu_id, device in devices.items():
            held_bytes = root.number_or_none(f"{_KFD}/proc/{pid}/vram_{gpu_id}") if pid.isdecimal() else None
            if held_bytes is not None:
                out[device][int(pid)] = out[device].get(int(pid), 0) + held_bytes
    return out
