"""Times and figures of a Snapshot are rounded to their real precision."""

from __future__ import annotations

import pytest

from iotop_ai.model.machine.cpu import CpuTable, CpuTicks
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import OwnCost
from iotop_ai.sources.live.time_rounding import TimeRounder, rounded_cost, step_ns
from tests.store.scenario import Machine


@pytest.mark.parametrize(("interval_s", "step"), [(0.1, 10_000), (1.0, 100_000), (0.05, 10_000), (600.0, 1_000_000)])
def test_times_are_rounded_to_a_ten_thousandth_of_the_interval(interval_s: float, step: int) -> None:
    assert step_ns(interval_s) == step


def test_a_repeated_reading_stays_the_same_object() -> None:
    rounder = TimeRounder()
    reading = Reading(7, Status.OK, at_ns=1_234_567, took_ns=1)
    first = rounder.reading("x", reading, 10_000)
    assert (first.at_ns, first.took_ns) == (1_230_000, 1_000_000)
    assert rounder.reading("x", reading, 10_000) is first


def test_a_reading_of_levels_has_a_time_in_milliseconds() -> None:
    reading = Reading((), Status.OK, at_ns=1_234_567)
    assert TimeRounder().reading("mounts", reading, 10_000).at_ns == 1_000_000


def test_an_unknown_cost_of_the_monitor_stays_unknown() -> None:
    assert rounded_cost(OwnCost(7, 1_234_567, (1 << 20) + 5, 99_999, None)) == OwnCost(7, 1_200_000, 1 << 20, 0, None)
    assert rounded_cost(OwnCost(0, None, None, None, None)) == OwnCost(0, None, None, None, None)


def test_only_the_total_of_the_cores_has_an_idle_time() -> None:
    table = CpuTable({0: CpuTicks(1, 0, 2, 90, 0, 0, 0, 0), 1: CpuTicks(0, 0, 0, 95, 0, 0, 0, 0)}, 2, 1)
    out = TimeRounder().reading("cpu", Reading(table, Status.OK, at_ns=5), 10_000).value
    assert [core.idle for core in out.cores.values()] == [None, None]
    assert out.total == CpuTicks(1, 0, 2, 185, 0, 0, 0, 0)


def test_limits_of_dirty_pages_are_rounded_and_unknown_ones_stay_unknown() -> None:
    state = next(s for s in (Machine(i).snapshot().memory.value for i in range(9)) if s is not None)
    state = state._replace(dirty_threshold_pages=1_195_339, dirty_background_pages=None)
    out = TimeRounder().reading("memory", Reading(state, Status.OK, at_ns=5), 10_000).value
    assert out == state._replace(dirty_threshold_pages=1_195_008)
