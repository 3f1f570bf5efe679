"""GPM, what the SMs really did (Hopper and later), of the GPU and of each MIG instance.

Source: nvml.h, nvmlGpm*. A metric is the difference of two samples, which must lie 100 ms or more apart.
"""

from __future__ import annotations

from typing import Any

from iotop_ai.collectors.nvml_door import Door, text_of
from iotop_ai.model.gpu import GpuInstance

LEAST_NS = 100_000_000
METRICS = {
    "gpm_sm_percent": 2,
    "gpm_occupancy_percent": 3,
    "gpm_tensor_percent": 5,
    "gpm_dram_percent": 10,
    "gpm_pcie_tx_mib_per_s": 20,
    "gpm_pcie_rx_mib_per_s": 21,
    "gpm_nvlink_rx_mib_per_s": 60,
    "gpm_nvlink_tx_mib_per_s": 61,
}
_QUERY, _SAMPLE, _METRICS = "nvmlGpmQueryDeviceSupport", "nvmlGpmSampleGet", "nvmlGpmMetricsGet"
_MOST_INSTANCES = 16


class Pair:
    """Two samples that take turns, and the newest figures of their difference."""

    def __init__(self, first: Any, second: Any) -> None:
        self.old, self.new = first, second
        self.at_ns: int | None = None
        self.figures: dict[str, float | None] = dict.fromkeys(METRICS)


class Gpm:
    """Keeps a pair for each GPU and MIG instance. Used by one thread."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._pairs: dict[tuple[str, int], Pair] = {}

    def figures(self, uuid: str) -> dict[str, float | None]:
        """Of the whole GPU since the sample before; None each where it has no GPM, and until the second sample.

        Under MIG the whole has none, its instances have.
        """
        return self._read(uuid, -1)

    def instances(self, uuid: str) -> tuple[GpuInstance, ...] | None:
        """The MIG instances, () where MIG is on and none was made; None where MIG is off or not there."""
        door = self._door
        mode = door.get(uuid, "nvmlDeviceGetMigMode", label="nvmlDeviceGetMigMode")
        most = door.get(uuid, "nvmlDeviceGetMaxMigDeviceCount") if mode is not None and mode[0] else None
        if most is None:
            return None
        out: dict[int, GpuInstance] = {}
        for index in range(min(most, _MOST_INSTANCES)):
            handle = door.get(uuid, "nvmlDeviceGetMigDeviceHandleByIndex", index)
            number = None if handle is None else door.get(uuid, "nvmlDeviceGetGpuInstanceId", handle=handle)
            # Compute instances of one GPU instance share its memory and SMs as far as NVML counts them.
            if number is None or number in out:
                continue
            memory = door.memory(uuid, handle)
            gpm = self._read(uuid, number)
            out[number] = GpuInstance(
                number,
                text_of(door.get(uuid, "nvmlDeviceGetUUID", handle=handle)),
                text_of(door.get(uuid, "nvmlDeviceGetName", handle=handle)),
                None if memory is None else memory.total,
                None if memory is None else memory.used,
                gpm["gpm_sm_percent"],
                gpm["gpm_occupancy_percent"],
                gpm["gpm_tensor_percent"],
                gpm["gpm_dram_percent"],
            )
        return tuple(out[number] for number in sorted(out))

    def close(self) -> None:
        """Free the samples; the library must still be open, or have gone for good."""
        pairs, self._pairs = self._pairs, {}
        for pair in pairs.values():
            for sample in (pair.old, pair.new):
                self._door.get("", "nvmlGpmSampleFree", sample, bare=True)

    def _read(self, uuid: str, instance: int) -> dict[str, float | None]:
        pair = self._pairs.get((uuid, instance)) or self._begin(uuid, instance)
        if pair is None:
            return dict.fromkeys(METRICS)
        now_ns = self._door.clock.monotonic_ns()
        if pair.at_ns is not None and now_ns - pair.at_ns < LEAST_NS:
            return pair.figures
        if instance < 0:
            taken = self._door.get(uuid, _SAMPLE, pair.new)
        else:
            label = f"nvmlGpmMigSampleGet.{instance}"
            taken = self._door.get(uuid, "nvmlGpmMigSampleGet", instance, pair.new, label=label)
        if taken is None:
            return dict.fromkeys(METRICS)
        if pair.at_ns is not None:
            pair.figures = self._difference(uuid, pair)
        pair.old, pair.new, pair.at_ns = pair.new, pair.old, now_ns
        return pair.figures

    def _begin(self, uuid: str, instance: int) -> Pair | None:
        door = self._door
        if door.never(uuid, _QUERY) or (instance < 0 and door.never(uuid, _SAMPLE)):
            return None
        support = door.get(uuid, _QUERY)
        if support is None:
            return None
        if not support.isSupportedDevice:
            door.give_up(uuid, _QUERY)
            return None
        first = door.get(uuid, "nvmlGpmSampleAlloc", bare=True)
        second = door.get(uuid, "nvmlGpmSampleAlloc", bare=True)
        if first is None or second is None:
            return None
        pair = self._pairs[uuid, instance] = Pair(first, second)
        return pair

    def _difference(self, uuid: str, pair: Pair) -> dict[str, float | None]:
        api = self._door.api
        want = api.c_nvmlGpmMetricsGet_t()
        want.version, want.numMetrics = api.NVML_GPM_METRICS_GET_VERSION, len(METRICS)
        want.sample1, want.sample2 = pair.old, pair.new
        for i, number in enumerate(METRICS.values()):
            want.metrics[i].metricId = number
        out: dict[str, float | None] = dict.fromkeys(METRICS)
        if self._door.get(uuid, _METRICS, want, bare=True) is not None:
            for i, name in enumerate(METRICS):
                value = want.metrics[i].value
                if want.metrics[i].nvmlReturn == 0 and value >= 0:
                    out[name] = round(value, 3)
        return out
