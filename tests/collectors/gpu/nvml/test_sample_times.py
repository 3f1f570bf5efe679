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
    """Takes a sample each second in which the process ran a kernel, and keeps the last sixteen."""

    class NVMLError(Exception):
        value = NOT_FOUND

    def __init__(self, clock: WallClock, uses_wall_clock: bool = True) -> None:
        self.clock = clock
        self.uses_wall_clock = uses_wall_clock
        self.stamps: list[int] = []

    def pass_second(self, runs_kernels: bool = True) -> None:
        self.clock.skip(1)
        if not runs_kernels:
            return
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


def reader_of(driver: Driver) -> GpuProcessReader:
    calls = NvmlCalls(driver.clock)
    calls.api = driver
    calls.handles[GPU] = 1
    return GpuProcessReader(calls)


def share(reader: GpuProcessReader) -> int | None:
    (one,) = reader.read(GPU) or ()
    return one.sm_percent


def test_the_share_of_a_process_is_known_after_the_clock_was_set_back() -> None:
    clock = WallClock(1000 * SECOND)
    driver = Driver(clock)
    reader = reader_of(driver)
    shares = []
    for second in range(30):
        if second == 10:
            clock.set_back(HOUR_S)
        driver.pass_second()
        shares.append(share(reader))
    assert shares == [None] + [50] * 29


def test_a_process_that_stopped_during_a_long_interval_has_no_share() -> None:
    driver = Driver(WallClock(1000 * SECOND))
    reader = reader_of(driver)
    shares = []
    for idle_s in (0, 0, 1, 3, 55, 0, 59):
        for second in range(60):
            driver.pass_second(runs_kernels=second < 60 - idle_s)
        shares.append(share(reader))
    assert shares == [None, 50, 50, 0, 0, 50, 0]


def test_a_sample_ages_between_two_readings() -> None:
    driver = Driver(WallClock(1000 * SECOND))
    reader = reader_of(driver)
    share(reader)
    driver.pass_second()
    shares = []
    for _ in range(4):
        driver.pass_second(runs_kernels=False)
        shares.append(share(reader))
    assert shares == [50, 50, 0, 0]


def test_the_share_is_known_if_the_age_of_the_samples_is_unknown() -> None:
    driver = Driver(WallClock(1000 * SECOND), uses_wall_clock=False)
    reader = reader_of(driver)
    shares = []
    for _ in range(3):
        driver.pass_second()
        driver.clock.skip(1.5)
        shares.append(share(reader))
    assert shares == [None, 50, 50]


@pytest.mark.parametrize("forward_s", [3, HOUR_S])
def test_a_clock_that_is_set_forward_does_not_hide_a_share(forward_s: float) -> None:
    driver = Driver(WallClock(1000 * SECOND))
    reader = reader_of(driver)
    shares = []
    for second in range(6):
        driver.pass_second()
        if second == 3:
            driver.clock.set_back(-forward_s)
        shares.append(share(reader))
    assert shares == [None] + [50] * 5
