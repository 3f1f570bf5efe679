"""When a recording with a long interval should take more Snapshots."""

from __future__ import annotations

from iotop_ai.diagnosis.burst import CALM_S, Burst
from iotop_ai.model.block.counters import IDLE_BLOCK_RATES, BlockKey
from iotop_ai.model.finding import Finding, Severity
from iotop_ai.model.frame import Frame
from iotop_ai.model.reading import Rated
from iotop_ai.pipeline import frames
from tests.store.scenario import session

MIB = float(1 << 20)
SDA = BlockKey("sda", 1)


def frame(second: float, read: float, *, severity: Severity = Severity.INFO, class_id: str = "idle") -> Frame:
    """A Frame 10 s after the previous Frame, with this rate of one disk and one finding."""
    made = next(frames(session(1, 1)))
    at_ns = int(second * 1e9)
    rates = {SDA: IDLE_BLOCK_RATES._replace(read_bytes_per_s=read)}
    sample = made.sample._replace(at_ns=at_ns, seconds=10.0, gap=False, block=Rated(rates), gpu=Rated({}))
    verdict = made.verdict._replace(findings=(Finding(class_id, severity, 1.0),))
    return made._replace(snapshot=made.snapshot._replace(at_ns=at_ns), sample=sample, verdict=verdict)


def test_a_steady_disk_starts_no_burst() -> None:
    burst = Burst()
    assert not any(burst.wanted(frame(10 * i, (50 + i % 7) * MIB)) for i in range(30))


def test_a_disk_below_the_floor_starts_no_burst() -> None:
    burst = Burst()
    assert not any(burst.wanted(frame(10 * i, (0.9 if i % 2 else 0.0) * MIB)) for i in range(30))


def test_a_sharp_rise_or_fall_starts_a_burst_until_the_disk_is_calm() -> None:
    for then in (200 * MIB, 10 * MIB):
        burst = Burst()
        assert not any(burst.wanted(frame(10 * i, 50 * MIB)) for i in range(6))
        assert burst.wanted(frame(60, then))
        calm = [burst.wanted(frame(60 + 10 * i, 50 * MIB)) for i in range(1, 12)]
        assert calm[:2] == [True, True]
        assert not calm[-1]
        assert CALM_S == 30


def test_a_new_finding_starts_a_burst_unless_its_severity_is_info() -> None:
    burst = Burst()
    assert not burst.wanted(frame(0, 0.0))
    assert not burst.wanted(frame(10, 0.0, class_id="healthy"))
    assert burst.wanted(frame(20, 0.0, severity=Severity.WARNING, class_id="storage_read"))
    assert burst.wanted(frame(40, 0.0, severity=Severity.WARNING, class_id="storage_read"))
    assert not burst.wanted(frame(50, 0.0, severity=Severity.WARNING, class_id="storage_read"))
    assert burst.wanted(frame(60, 0.0, severity=Severity.CRITICAL, class_id="failing_disk"))
