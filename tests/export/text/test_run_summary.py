"""The summary of a recorded run."""

from __future__ import annotations

from iotop_ai.export.text.run_summary import RunSummary
from iotop_ai.model.finding import Finding, Severity
from iotop_ai.model.frame import Frame
from iotop_ai.pipeline import frames
from tests.bench.server import Server


def played(lost_ratio: float | None, class_id: str) -> list[Frame]:
    server = Server("two", processes=10, gpus=2, disks=3, cores=2)
    out = []
    for frame in frames(server.snapshot() for _ in range(5)):
        found = Finding(class_id, Severity.WARNING, 1.0, lost_ratio=lost_ratio)
        out.append(frame._replace(verdict=frame.verdict._replace(findings=(found,), watched_s=20.0, needed_s=10.0)))
    return out


def test_the_summary_has_shares_bytes_and_peaks() -> None:
    summary = RunSummary()
    stalled, fine = played(0.5, "storage_read"), played(None, "gpu_bound")
    for frame in [*stalled[1:], *fine[1:]]:
        summary.add(frame)
    lines = dict(line.split(maxsplit=1) for line in summary.lines())
    assert lines["watched"] == "8 s"
    assert lines["verdicts"] in (
        "STARVED slow disk 50 %, OK GPU-bound 50 %",
        "OK GPU-bound 50 %, STARVED slow disk 50 %",
    )
    assert lines["stall"] == "25 % of the time was lost to the verdict's cause"
    read = sum(
        rates.read_bytes_per_s * frame.sample.seconds
        for frame in [*stalled[1:], *fine[1:]] for rates in frame.sample.block.value.values()
    )  # fmt: skip
    assert lines["disks"].startswith(f"read {read / 2**30:.1f}G" if read < 10 * 2**30 else f"read {read / 2**30:.0f}G")
    assert all(word in lines["peaks"] for word in ("read", "await", "util", "gpu ", "gpu memory 70G"))


def test_a_disk_is_at_most_100_percent_busy() -> None:
    summary = RunSummary()
    frame = played(None, "gpu_bound")[-1]
    rates = {key: one._replace(busy_ratio=1.04) for key, one in frame.sample.block.value.items()}
    block = frame.sample.block._replace(value=rates)
    summary.add(frame._replace(sample=frame.sample._replace(block=block)))
    assert "util 100 % (" in "\n".join(summary.lines())


def test_without_an_interval_there_is_no_summary() -> None:
    assert RunSummary().lines() == ["recorded less than one interval: no summary"]
