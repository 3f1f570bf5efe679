"""The driver's samples after the wall clock was set back. Some drivers stamp their samples with that clock."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from iotop_ai.collectors.gpu.nvml.calls import NOT_FOUND, NvmlCalls
from iotop_ai.collectors.gpu.nvml.processes import GpuProcessReader
from iotop_ai.collectors.gpu.nvml.sample_times import SampleTimes
from tests.clocks import SetClock

GPU = "GPU-1"
SECOND = 1_000_000_000
HOUR_S = 3600


class WallClock(SetClock):
    """A machine whose wall clock a test may set."""

    offset_ns = 1_795_000_000 * SECOND

    def wall_ns(self) -> int:
        return self.now_ns + self.offset_ns

    def set_back(self, seconds: float) -> None:
        self.offset_ns -= int(seconds * SECOND)


class Driver:
    """Takes a sample each second and keeps the last sixteen."""

    class NVMLError(Exception):
        value = NOT_FOUND

    def __init__(self, clock: WallClock, uses_wall_clock: bool = True) -> None:
        self.clock = clock
        self.uses_wall_clock = uses_wall_clock
        self.stamps: list[int] = []

    def pass_second(self) -> None:
        self.clock.skip(1)
        now_ns = self.clock.wall_ns() if self.uses_wall_clock else self.clock.monotonic_ns()
        self.stamps = [*self.stamps[-15:], now_ns // 1000]

    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle: int) -> list[SimpleNamespace]:  # noqa: N802
        return [SimpleNamespace(pid=7, usedGpuMemory=1)]

    def nvmlDeviceGetProcessUtilization(self, handle: int, since: int) -> list[SimpleNamespace]:  # noqa: N802
        new = [SimpleNamespace(pid=7, timeStamp=stamp, smUtil=50) for stamp in self.stamps if stamp > since]
        if not new:
            raise self.NVMLError
        return new


def new_samples(driver: Driver, times: SampleTimes) -> int:
    since = times.ask()
    return sum(times.is_new(stamp) for stamp in driver.stamps if stamp > since)


@pytest.mark.parametrize("uses_wall_clock", [True, False])
@pytest.mark.parametrize("back_s", [0.05, 20, HOUR_S, 30 * 24 * HOUR_S])
def test_each_sample_is_new_once_after_the_clock_was_set_back(back_s: float, uses_wall_clock: bool) -> None:
    clock = WallClock(1000 * SECOND)
    driver, times = Driver(clock, uses_wall_clock), SampleTimes(clock)
    counts = []
    for second in range(60):
        if second in (20, 40):
            clock.set_back(back_s)
        driver.pass_second()
        counts.append(new_samples(driver, times))
    assert counts == [1] * 60


def test_after_a_step_shorter_than_the_buffer_a_few_samples_are_counted_wrongly() -> None:
    clock = WallClock(1000 * SECOND)
    driver, times = Driver(clock), SampleTimes(clock)
    counts = []
    for second in range(60):
        if second == 20:
            clock.set_back(5)
        driver.pass_second()
        counts.append(new_samples(driver, times))
    assert counts[:20] + counts[26:] == [1] * 54
    assert abs(sum(counts) - 60) <= 5


def test_the_share_of_a_process_is_known_after_the_clock_was_set_back() -> None:
    clock = WallClock(1000 * SECOND)
    driver = Driver(clock)
    calls = NvmlCalls(clock)
    calls.api = driver
    calls.handles[GPU] = 1
    reader = GpuProcessReader(calls)
    shares = []
    for second in range(30):
        if second == 10:
            clock.set_back(HOUR_S)
        driver.pass_second()
        shares += [one.sm_percent for one in reader.read(GPU) or ()]
    assert shares == [None] + [50] * 29
