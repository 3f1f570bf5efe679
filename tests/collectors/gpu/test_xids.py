"""Which of several Xids of one GPU counts."""

from __future__ import annotations

import pytest

from iotop_ai.collectors.gpu.collector import GpuCollector
from iotop_ai.collectors.gpu.nvml.xid_events import XidEvent
from iotop_ai.collectors.io.clock import Clock


@pytest.mark.parametrize(
    ("numbers", "stays"),
    [((119, 154), 119), ((48, 63, 45), 48), ((48, 63), 48), ((48, 95), 95), ((45, 48), 48), ((31, 43), 43)],
)
def test_an_xid_of_the_board_stays_until_the_board_has_another(numbers: tuple[int, ...], stays: int) -> None:
    collector = GpuCollector(Clock())
    for at_ns, number in enumerate(numbers):
        collector.note_xid(XidEvent("GPU-1", number, at_ns, at_ns))
    assert collector._with_xid("GPU-1", "lost") == f"lost (Xid {stays})"
