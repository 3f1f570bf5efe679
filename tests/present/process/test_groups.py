"""How the rates of processes become the rates of a group, and sums since a base."""

from __future__ import annotations

import pytest

from iotop_ai.model.process.records import UNKNOWN_PROCESS_RATES, ProcessRates
from iotop_ai.present.process import groups

PER_S = tuple(name for name in ProcessRates._fields if name.endswith("_per_s"))


@pytest.mark.parametrize("name", PER_S)
def test_each_sum_since_the_base_covers_the_interval_of_its_file(name: str) -> None:
    own_s = {"io_s": 6.0} if name in ProcessRates._fields[:7] else {"stat_s": 6.0}
    rates = UNKNOWN_PROCESS_RATES._replace(**{name: 10.0}, **own_s)
    assert getattr(groups._rates_over(rates, 12.0), name) == 5.0


def test_each_figure_of_a_group_is_a_sum_or_has_a_separate_rule() -> None:
    missing = set(ProcessRates._fields) ^ {*PER_S, *groups._FOLDS}
    assert not missing, f"{missing}: in _FOLDS of present/process/groups.py how the members' values are combined"
