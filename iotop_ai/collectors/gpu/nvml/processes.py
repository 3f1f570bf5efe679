"""Reads the processes on a GPU and the share of its SMs that each uses.

Source: nvml.h, nvmlDeviceGet{Compute,Graphics,MPSCompute}RunningProcesses, nvmlDeviceGetProcessUtilization.
"""

from __future__ import annotations

from typing import Any

from iotop_ai.collectors.gpu.nvml.calls import NOT_FOUND, PERMANENT_ERRORS, NvmlCalls
from iotop_ai.collectors.gpu.nvml.sample_times import SampleTimes
from iotop_ai.model.gpu.state import GpuProcess

PID_LIMIT = 4_194_304
"""No PID is greater than this (PID_MAX_LIMIT on 64 bits).

NVML's process record once changed its size without changing its name. A greater PID shows that the record was read with
the wrong size.
"""
NO_INSTANCE = 0xFFFFFFFF
"""The gpuInstanceId of a process that is not in a MIG instance."""
SAMPLE_LIFETIME_NS = 2_000_000_000
"""The age up to which a sample is used, in nanoseconds.

The driver samples processes at least once a second, so a process without a newer sample did not run a kernel.
"""
_UTILIZATION = "nvmlDeviceGetProcessUtilization"
_KINDS = (("compute", "Compute"), ("mps", "MPSCompute"), ("graphics", "Graphics"))


class GpuProcessReader:
    """Keeps the newest utilisation sample of each process until it is two seconds old. Only one thread may use it."""

    def __init__(self, calls: NvmlCalls) -> None:
        self._calls = calls
        self._times: dict[str, SampleTimes] = {}
        self._shares: dict[str, dict[int, tuple[int, int]]] = {}

    def read(self, uuid: str) -> tuple[GpuProcess, ...] | None:
        """Return the processes of a GPU, compute processes first. A process in several of NVML's lists is listed once.

        None when no list could be read, when the list of compute processes failed this time, or when a list is garbled.
        """
        by_pid: dict[int, GpuProcess] = {}
        answered = False
        for kind, word in _KINDS:
            name = f"nvmlDeviceGet{word}RunningProcesses"
            listed = self._calls.get_newer(uuid, f"{name}_v3", f"{name}_v2")
            if listed is None and kind == "compute" and not self._calls.is_unsupported(uuid, f"{name}_v2"):
                return None  # the other lists alone would show the GPU without its compute processes
            if listed is None:
                continue
            answered = True
            for process in listed:
                if not 0 < process.pid <= PID_LIMIT:
                    return None
                instance = getattr(process, "gpuInstanceId", NO_INSTANCE)
                by_pid.setdefault(
                    process.pid,
                    GpuProcess(
                        process.pid,
                        process.usedGpuMemory,
                        kind,
                        instance=None if instance in (None, NO_INSTANCE) else instance,
                    ),
                )
        if not answered:
            return None
        if not by_pid or not self._update_shares(uuid):
            return tuple(by_pid.values())
        return tuple(process._replace(sm_percent=self._share(uuid, process.pid)) for process in by_pid.values())

    def _share(self, uuid: str, pid: int) -> int:
        percent, at_ns = self._shares[uuid].get(pid, (0, 0))
        return percent if self._calls.clock.monotonic_ns() - at_ns <= SAMPLE_LIFETIME_NS else 0

    def _update_shares(self, uuid: str) -> bool:
        """Read the new samples; return whether the shares are known. NOT_FOUND means that there is no new sample.

        The first call returns buffered samples of several minutes. They are only used to find where the new samples
        begin.
        """
        calls, api = self._calls, self._calls.api
        shares = self._shares.setdefault(uuid, {})
        if calls.is_unsupported(uuid, _UTILIZATION):
            return False
        samples: list[Any] = []
        is_first_call = uuid not in self._times
        times = self._times.get(uuid) or SampleTimes(calls.clock)
        try:
            samples = calls.timed(
                _UTILIZATION,
                api.nvmlDeviceGetProcessUtilization,
                calls.handles[uuid],
                times.ask(),
            )
        except api.NVMLError as error:
            if error.value in PERMANENT_ERRORS:
                calls.mark_unsupported(uuid, _UTILIZATION)
            # The binding raises an error with the value 0, "success", when the driver has no samples.
            if error.value not in (0, NOT_FOUND):
                return False
        now_ns = self._calls.clock.monotonic_ns()
        self._times[uuid] = times
        latest: dict[int, tuple[int, int]] = {}
        for sample in samples:
            if 0 <= sample.smUtil <= 100 and times.is_new(sample.timeStamp):
                latest[sample.pid] = max(latest.get(sample.pid, (0, 0)), (sample.timeStamp, sample.smUtil))
        if not is_first_call:
            # A sample may be almost as old as the interval: after a minute, the process may have been idle for long.
            shares.update(
                {pid: (percent, now_ns - times.age_ns(stamp_us)) for pid, (stamp_us, percent) in latest.items()}
            )
        self._shares[uuid] = {pid: share for pid, share in shares.items() if now_ns - share[1] <= SAMPLE_LIFETIME_NS}
        return not is_first_call
