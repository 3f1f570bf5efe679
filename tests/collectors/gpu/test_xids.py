"""Which of several Xids of one GPU is shown."""

from __future__ import annotations

import pytest

from iotop_ai.collectors.gpu.collector import GpuCollector
from iotop_ai.collectors.gpu.nvml.xid_events import XidEvent
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.gpu.state import GpuState


@pytest.mark.parametrize(
    ("numbers", "stays"),
    [((119, 154), 119), ((48, 63, 45), 48), ((48, 63), 48), ((48, 95), 95), ((45, 48), 48), ((31, 43), 43)],
)
def test_an_xid_of_the_board_is_shown_until_the_board_has_another(numbers: tuple[int, ...], stays: int) -> None:
    collector = GpuCollector(Clock())
    for at_ns, number in enumerate(numbers):
        collector.note_xid(XidEvent("GPU-1", number, at_ns, at_ns))
    assert collector._with_xid("GPU-1", "lost") == f"lost (Xid {stays})"


def test_the_recovery_in_the_log_is_shown_until_the_driver_needs_none() -> None:
    collector = GpuCollector(Clock())
    state = GpuState("GPU-1", 0, "H100")
    collector.note_xid(XidEvent("GPU-1", 119, 1, 1))
    collector.note_xid(XidEvent("GPU-1", 154, 2, 2, recovery=2))
    asked = collector._with_faults(state)
    assert (asked.last_xid, asked.recovery) == (119, 2)
    collector.note_xid(XidEvent("GPU-1", 154, 3, 3, recovery=0))
    assert collector._with_faults(state).recovery == 0


def test_an_xid_154_that_requests_nothing_is_not_a_fault() -> None:
    collector = GpuCollector(Clock())
    for recovery in (1, 0):
        collector.note_xid(XidEvent("GPU-1", 154, 1, 1, recovery))
    found = collector._with_faults(GpuState("GPU-1", 0, "H100"))
    assert (found.last_xid, found.recovery) == (None, 0)


def test_a_cleared_xid_154_that_nvml_reports_after_the_log_is_not_a_fault() -> None:
    collector = GpuCollector(Clock())
    for recovery in (0, None):
        collector.note_xid(XidEvent("GPU-1", 154, 1, 1, recovery))
    state = GpuState("GPU-1", 0, "H100")
    assert collector._with_faults(state).last_xid is None
    for recovery in (None, 2):
        collector.note_xid(XidEvent("GPU-1", 154, 2, 2, recovery))
    found = collector._with_faults(state)
    assert (found.last_xid, found.recovery) == (154, 2)
