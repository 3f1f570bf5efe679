"""Reads GPM, the profiling metrics of the SMs (Hopper and later), for the whole GPU and for each MIG instance.

Source: nvml.h, nvmlGpm*. A metric is the difference between two samples, which must be at least 100 ms apart.
"""

from __future__ import annotations

from math import inf
from typing import Any

from iotop_ai.collectors.gpu.nvml.calls import NvmlCalls, text_of
from iotop_ai.model.gpu.state import GpuInstance

LEAST_INTERVAL_NS = 100_000_000
"""The least time between two samples, in nanoseconds."""
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
"""The number of the NVML_GPM_METRIC_* by field of GpuState."""
_QUERY_SUPPORT, _SAMPLE_GET, _METRICS_GET = "nvmlGpmQueryDeviceSupport", "nvmlGpmSampleGet", "nvmlGpmMetricsGet"
_MOST_INSTANCES = 16


class SamplePair:
    """Two samples that are filled alternately, and the figures from the newest difference between them.

    at_ns: when ``old`` was filled; None until the first sample.
    """

    def __init__(self, first: Any, second: Any) -> None:
        self.old, self.new = first, second
        self.at_ns: int | None = None
        self.figures: dict[str, float | None] = dict.fromkeys(METRICS)


class GpmReader:
    """Keeps a pair of samples for each GPU and each MIG instance. Only one thread may use it."""

    def __init__(self, calls: NvmlCalls) -> None:
        self._calls = calls
        self._pairs: dict[tuple[str, int], SamplePair] = {}

    def figures(self, uuid: str) -> dict[str, float | None]:
        """Return the figures of the whole GPU since the previous sample.

        All figures are None without GPM and until there is a second sample. While MIG is on, only the instances have
        figures.
        """
        return self._read(uuid, -1)

    def instances(self, uuid: str) -> tuple[GpuInstance, ...] | None:
        """Return the MIG instances; () when MIG is on without instances; None when MIG is off or cannot be read."""
        calls = self._calls
        mode = calls.get(uuid, "nvmlDeviceGetMigMode", label="nvmlDeviceGetMigMode")
        max_count = calls.get(uuid, "nvmlDeviceGetMaxMigDeviceCount") if mode is not None and mode[0] else None
        if max_count is None:
            return None
        out: dict[int, GpuInstance] = {}
        for index in range(min(max_count, _MOST_INSTANCES)):
            handle = calls.get(uuid, "nvmlDeviceGetMigDeviceHandleByIndex", index)
            number = None if handle is None else calls.get(uuid, "nvmlDeviceGetGpuInstanceId", handle=handle)
            # NVML counts memory and SMs for a whole GPU instance, whose compute instances share them.
            if number is None or number in out:
                continue
            memory = calls.memory(uuid, handle)
            gpm = self._read(uuid, number)
            out[number] = GpuInstance(
                number,
                text_of(calls.get(uuid, "nvmlDeviceGetUUID", handle=handle)),
                text_of(calls.get(uuid, "nvmlDeviceGetName", handle=handle)),
                None if memory is None else memory.total,
                None if memory is None else memory.used,
                gpm["gpm_sm_percent"],
                gpm["gpm_occupancy_percent"],
                gpm["gpm_tensor_percent"],
                gpm["gpm_dram_percent"],
            )
        return tuple(out[number] for number in sorted(out))

    def close(self) -> None:
        """Free the samples. Call this method before the library is closed."""
        pairs, self._pairs = self._pairs, {}
        for pair in pairs.values():
            for sample in (pair.old, pair.new):
                self._calls.get("", "nvmlGpmSampleFree", sample, without_handle=True)

    def _read(self, uuid: str, instance: int) -> dict[str, float | None]:
        """Take a sample unless the previous one is too new; return the newest figures.

        All figures are None if no sample can be taken. instance: the number of a MIG instance; -1 for the whole GPU.
        """
        pair = self._pairs.get((uuid, instance)) or self._begin(uuid, instance)
        if pair is None:
            return dict.fromkeys(METRICS)
        clock = self._calls.clock
        if pair.at_ns is not None and clock.monotonic_ns() - pair.at_ns < LEAST_INTERVAL_NS:
            return pair.figures
        if instance < 0:
            sampled = self._calls.get(uuid, _SAMPLE_GET, pair.new)
        else:
            label = f"nvmlGpmMigSampleGet.{instance}"
            sampled = self._calls.get(uuid, "nvmlGpmMigSampleGet", instance, pair.new, label=label, removable=True)
        if sampled is None:
            return dict.fromkeys(METRICS)
        if pair.at_ns is not None:
            pair.figures = self._difference(uuid, pair)
        # Take the time after the call, so that two samples are never less than LEAST_INTERVAL_NS apart.
        pair.old, pair.new, pair.at_ns = pair.new, pair.old, clock.monotonic_ns()
        return pair.figures

    def _begin(self, uuid: str, instance: int) -> SamplePair | None:
        calls = self._calls
        if calls.is_unsupported(uuid, _QUERY_SUPPORT) or (instance < 0 and calls.is_unsupported(uuid, _SAMPLE_GET)):
            return None
        support = calls.get(uuid, _QUERY_SUPPORT)
        if support is None:
            return None
        if not support.isSupportedDevice:
            calls.mark_unsupported(uuid, _QUERY_SUPPORT)
            return None
        first = calls.get(uuid, "nvmlGpmSampleAlloc", without_handle=True)
        second = None if first is None else calls.get(uuid, "nvmlGpmSampleAlloc", without_handle=True)
        if second is None:
            if first is not None:
                calls.get(uuid, "nvmlGpmSampleFree", first, without_handle=True)
            return None
        pair = self._pairs[uuid, instance] = SamplePair(first, second)
        return pair

    def _difference(self, uuid: str, pair: SamplePair) -> dict[str, float | None]:
        api = self._calls.api
        request = api.c_nvmlGpmMetricsGet_t()
        request.version, request.numMetrics = api.NVML_GPM_METRICS_GET_VERSION, len(METRICS)
        request.sample1, request.sample2 = pair.old, pair.new
        for i, number in enumerate(METRICS.values()):
            request.metrics[i].metricId = number
        out: dict[str, float | None] = dict.fromkeys(METRICS)
        # If an instance was removed and another got its number, the two samples do not match and the call may fail. The
        # next pair may match again: with ``removable``, this failure does not mark the call as unsupported.
        if self._calls.get(uuid, _METRICS_GET, request, without_handle=True, removable=True) is not None:
            for i, name in enumerate(METRICS):
                value = request.metrics[i].value
                # NaN and infinity count as unknown; a recording cannot contain them.
                if request.metrics[i].nvmlReturn == 0 and 0 <= value < inf:
                    out[name] = round(value, 3)
        return out
