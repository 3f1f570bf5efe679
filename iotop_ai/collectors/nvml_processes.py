"""Who runs on a GPU, and how much of its SMs each takes.

Source: nvml.h, nvmlDeviceGet{Compute,Graphics,MPSCompute}RunningProcesses, nvmlDeviceGetProcessUtilization.
"""

from __future__ import annotations

from typing import Any

from iotop_ai.collectors.nvml_door import NEVER, NOT_FOUND, Door
from iotop_ai.model.gpu import GpuProcess

PID_LIMIT = 4_194_304
"""PID_MAX_LIMIT of 64-bit Linux; NVML's process records have changed size without a new name, and then show others."""
NO_INSTANCE = 0xFFFFFFFF
FRESH_NS = 2_000_000_000
"""The driver samples processes at least once a second: one without a sample for longer ran no kernel."""
_UTILIZATION = "nvmlDeviceGetProcessUtilization"
_KINDS = (("compute", "Compute"), ("mps", "MPSCompute"), ("graphics", "Graphics"))


class Processes:
    """Keeps each process's newest utilisation sample. Used by one thread."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._newest: dict[str, int] = {}
        self._shares: dict[str, dict[int, tuple[int, int]]] = {}

    def of(self, uuid: str) -> tuple[GpuProcess, ...] | None:
        """Compute first; one that also draws is listed once. None when no list is told or one is garbled."""
        found: dict[int, GpuProcess] = {}
        told = False
        for kind, word in _KINDS:
            name = f"nvmlDeviceGet{word}RunningProcesses"
            listed = self._door.newer(uuid, f"{name}_v3", f"{name}_v2")
            if listed is None:
                continue
            told = True
            for one in listed:
                if not 0 < one.pid <= PID_LIMIT:
                    return None
                instance = getattr(one, "gpuInstanceId", NO_INSTANCE)
                found.setdefault(
                    one.pid,
                    GpuProcess(
                        one.pid, one.usedGpuMemory, kind, instance=None if instance in (None, NO_INSTANCE) else instance
                    ),
                )
        if not told:
            return None
        if not found or not self._note_shares(uuid):
            return tuple(found.values())
        return tuple(one._replace(sm_percent=self._share(uuid, one.pid)) for one in found.values())

    def _share(self, uuid: str, pid: int) -> int:
        percent, at_ns = self._shares[uuid].get(pid, (0, 0))
        return percent if self._door.clock.monotonic_ns() - at_ns <= FRESH_NS else 0

    def _note_shares(self, uuid: str) -> bool:
        """Read the samples since the last time; whether this GPU has any to give (NOT_FOUND: none that is new)."""
        door, api = self._door, self._door.api
        shares = self._shares.setdefault(uuid, {})
        if door.never(uuid, _UTILIZATION):
            return False
        samples: list[Any] = []
        try:
            samples = door.timed(
                _UTILIZATION,
                api.nvmlDeviceGetProcessUtilization,
                door.handles[uuid],
                self._newest.get(uuid, 0),
            )
        except api.NVMLError as error:
            if error.value in NEVER:
                door.give_up(uuid, _UTILIZATION)
            # The binding raises 0, "success", when the driver has nothing to say.
            if error.value not in (0, NOT_FOUND):
                return False
        now_ns = self._door.clock.monotonic_ns()
        first = uuid not in self._newest
        self._newest.setdefault(uuid, 0)
        latest: dict[int, tuple[int, int]] = {}
        for sample in samples:
            if sample.timeStamp > self._newest[uuid] and 0 <= sample.smUtil <= 100:
                latest[sample.pid] = max(latest.get(sample.pid, (0, 0)), (sample.timeStamp, sample.smUtil))
        for pid, (stamp, percent) in latest.items():
            shares[pid] = percent, now_ns
            self._newest[uuid] = max(self._newest[uuid], stamp)
        # The first look empties the driver's buffer of minutes; only what is new from here on has an age.
        return not first or bool(samples)
