"""Shares of the cores, with and without each core's idle time."""

from __future__ import annotations

import pytest

from iotop_ai.model.machine.cpu import UNKNOWN_CORE, CpuTable, CpuTicks, cpu_rates, without_idle

BEFORE = CpuTable({0: CpuTicks(100, 0, 50, 9000, 10, 0, 5, 0), 3: CpuTicks(0, 0, 0, 9000, 0, 0, 0, 0)}, 2, None)
AFTER = CpuTable({0: CpuTicks(140, 0, 70, 9130, 20, 0, 5, 0), 3: CpuTicks(1, 0, 1, 9198, 0, 0, 0, 0)}, 2, None)


def test_the_shares_are_the_same_with_and_without_idle_times_of_cores() -> None:
    whole = cpu_rates(BEFORE, AFTER, 2.0)
    short = cpu_rates(without_idle(BEFORE), without_idle(AFTER), 2.0)
    assert short == whole
    assert whole.busiest == 0
    assert whole.cores[0].busy_ratio == pytest.approx(0.3)
    assert whole.all.busy_ratio == pytest.approx(62 / 400)
    assert whole.cores[0].iowait_ratio == pytest.approx(0.05)


def test_the_total_has_the_idle_time_of_all_cores() -> None:
    short = without_idle(AFTER)
    assert [core.idle for core in short.cores.values()] == [None, None]
    assert short.total == CpuTicks(141, 0, 71, 18328, 20, 0, 5, 0)
    assert without_idle(short) is short
    assert without_idle(AFTER._replace(allowed_numbers=(3,))).allowed_numbers == (3,)


def test_a_core_is_busy_for_at_most_all_of_the_time() -> None:
    # On a loaded machine the readings may lie further apart than their times say.
    busy = AFTER._replace(cores={0: AFTER.cores[0]._replace(user=400), 3: AFTER.cores[3]})
    rates = cpu_rates(without_idle(BEFORE), without_idle(busy), 2.0)
    assert rates.cores[0].busy_ratio == pytest.approx(320 / 330)
    assert rates.cores[3].busy_ratio == pytest.approx(0.01)


def test_a_new_core_is_unknown_and_left_out_of_the_mean() -> None:
    alone = BEFORE._replace(cores={0: BEFORE.cores[0]})
    rates = cpu_rates(without_idle(alone), without_idle(AFTER), 2.0)
    assert rates.cores[3] == UNKNOWN_CORE
    assert rates.all.busy_ratio == pytest.approx(0.3)


def test_the_shares_are_known_although_only_the_earlier_table_has_idle_times_of_cores() -> None:
    rates = cpu_rates(BEFORE, without_idle(AFTER), 2.0)
    assert rates.cores[0].busy_ratio == pytest.approx(0.3)
    assert rates.all.busy_ratio == pytest.approx(62 / 400)
