"""The processes' shares of a GPU, from an NVML whose answers the test decides."""

from __future__ import annotations

from types import SimpleNamespace

from iotop_ai.collectors.gpu.nvml.calls import NOT_SUPPORTED, TIMEOUT, NvmlCalls
from iotop_ai.collectors.gpu.nvml.processes import SAMPLE_LIFETIME_NS, GpuProcessReader
from tests.clocks import SetClock

GPU = "GPU-1"


class Api:
    """An NVML that lists one process at a time, with a new sample of it at each call."""

    class NVMLError(Exception):
        def __init__(self, value: int) -> None:
            self.value = value

    pid = 0

    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle: int) -> list[SimpleNamespace]:  # noqa: N802
        return [SimpleNamespace(pid=self.pid, usedGpuMemory=1)]

    def nvmlDeviceGetProcessUtilization(self, handle: int, since: int) -> list[SimpleNamespace]:  # noqa: N802
        return [SimpleNamespace(pid=self.pid, timeStamp=since + 1, smUtil=50)]


def test_ended_processes_are_forgotten() -> None:
    clock = SetClock(1)
    calls = NvmlCalls(clock)
    api = calls.api = Api()
    calls.handles[GPU] = 1
    reader = GpuProcessReader(calls)
    api.pid = 6
    reader.read(GPU)
    for api.pid in range(1, 6):
        clock.now_ns += SAMPLE_LIFETIME_NS + 1
        (one,) = reader.read(GPU) or ()
        assert one.sm_percent == 50
    assert len(reader._shares[GPU]) == 1


def test_the_samples_buffered_before_the_first_call_are_not_current_shares() -> None:
    calls = NvmlCalls(SetClock(1))
    api = calls.api = Api()
    api.pid = 7
    calls.handles[GPU] = 1
    reader = GpuProcessReader(calls)
    shares = [one.sm_percent for _ in range(2) for one in reader.read(GPU) or ()]
    assert shares == [None, 50]


class ApiWithGraphics(Api):
    """An NVML whose list of graphics processes is empty, and whose list of compute processes may give an error."""

    error: int | None = None

    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle: int) -> list[SimpleNamespace]:  # noqa: N802
        if self.error is not None:
            raise self.NVMLError(self.error)
        return super().nvmlDeviceGetComputeRunningProcesses_v3(handle)

    def nvmlDeviceGetGraphicsRunningProcesses_v3(self, handle: int) -> list[SimpleNamespace]:  # noqa: N802
        return []


def test_the_processes_are_unknown_while_those_that_compute_are_not_listed() -> None:
    calls = NvmlCalls(SetClock(1))
    api = calls.api = ApiWithGraphics()
    api.pid = 7
    calls.handles[GPU] = 1
    reader = GpuProcessReader(calls)
    found = []
    for api.error in (None, TIMEOUT, None, NOT_SUPPORTED):
        processes = reader.read(GPU)
        found.append(None if processes is None else [one.pid for one in processes])
    assert found == [[7], None, [7], []]
