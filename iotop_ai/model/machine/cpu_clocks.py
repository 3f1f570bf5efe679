"""The clock speeds of the CPU cores, and their thermal throttling.

Sources: https://docs.kernel.org/admin-guide/pm/cpufreq.html (scaling_cur_freq, base_frequency, cpuinfo_max_freq),
Documentation/ABI/testing/sysfs-devices-system-cpu (thermal_throttle/*_throttle_count).
"""

from __future__ import annotations

from typing import Annotated

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.counter import delta, per_second
from iotop_ai.model.metric import Metric


class ClockState(NamedTuple):
    """The clock frequencies in kHz of the cores that report them, and their throttle counts; None if unknown.

    base_khz: the frequency without turbo
    top_khz: the highest frequency with turbo
    least_khz, mean_khz, most_khz: the lowest, mean and highest current frequency of a core
    core_throttles, package_throttles: how often heat throttled the cores, and the packages; sums over all of them
    """

    least_khz: int | None = None
    mean_khz: int | None = None
    most_khz: int | None = None
    base_khz: int | None = None
    top_khz: int | None = None
    core_throttles: int | None = None
    package_throttles: int | None = None


class ClockRates(NamedTuple):
    """The clocks of the cores. Idle cores have low clocks too; only the throttle counts prove that heat lowers them."""

    least_mhz: Annotated[float | None, Metric("MHz", "The slowest core's clock (scaling_cur_freq).")]
    mean_mhz: Annotated[float | None, Metric("MHz", "Mean clock of the cores.")]
    most_mhz: Annotated[float | None, Metric("MHz", "The fastest core's clock.")]
    base_mhz: Annotated[float | None, Metric("MHz", "The clock without turbo (base_frequency, else CPPC's nominal).")]
    top_mhz: Annotated[float | None, Metric("MHz", "The highest clock (cpuinfo_max_freq).")]
    core_throttles_per_s: Annotated[
        float | None, Metric("1/s", "Thermal throttles of all cores (core_throttle_count).")
    ]
    package_throttles_per_s: Annotated[
        float | None, Metric("1/s", "Thermal throttles of all packages (package_throttle_count).")
    ]


def clock_rates(before: ClockState | None, after: ClockState, seconds: float | None) -> ClockRates:
    """The clocks in MHz, and the rates of the throttle counts."""
    old = before or ClockState()
    levels = [None if khz is None else khz / 1000 for khz in after[:5]]
    counts = [per_second(delta(a, b), seconds) for a, b in zip(old[5:], after[5:], strict=True)]
    return ClockRates(*levels, *counts)
