"""The figures that a condition can name."""

from __future__ import annotations

from iotop_ai.model.block.counters import BlockRates
from iotop_ai.model.condition.figures import _PER_REQUEST

OF_ALL = {"await_ms", "request_size_bytes"}
"""Figures that are weighted by the number of requests of all kinds."""


def test_a_mean_over_requests_is_weighted_by_requests_of_its_kind() -> None:
    means = {name for name in BlockRates._fields if name.endswith(("await_ms", "_size_bytes"))} - OF_ALL
    assert set(_PER_REQUEST) == means
    assert all(weight[:4] == mean[:4] for mean, weight in _PER_REQUEST.items())
