"""The figures that conditions name."""

from __future__ import annotations

from iotop_ai.model.block.counters import BlockRates
from iotop_ai.model.condition.figures import _PER_REQUEST

OF_ALL = {"await_ms", "request_size_bytes"}
"""Weighted by the requests of all kinds."""


def test_each_mean_of_a_kind_of_request_is_weighted_by_its_requests() -> None:
    means = {name for name in BlockRates._fields if name.endswith(("await_ms", "_size_bytes"))} - OF_ALL
    assert set(_PER_REQUEST) == means
    assert all(weight[:4] == mean[:4] for mean, weight in _PER_REQUEST.items())
