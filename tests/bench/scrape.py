"""The cost of a scrape on a synthetic machine with 16 disks and 8 GPUs: ``python -m tests.bench.scrape``.

The machine has every figure that an H100 and an NVMe disk can report, and two jobs of four ranks.
"""

from __future__ import annotations

import gzip
import statistics
import time
from collections.abc import Iterator

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from iotop_ai.export.prometheus.exposition import SUFFIX, metrics, render
from iotop_ai.export.prometheus.families import Family
from iotop_ai.export.prometheus.server import GZIP_LEVEL
from iotop_ai.model.frame import Frame
from iotop_ai.model.gpu.detail import GpuDetail
from iotop_ai.model.gpu.state import GpuState
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.job.records import Job, JobTable, Rank
from iotop_ai.model.job.time_shares import TimeCounts
from iotop_ai.model.metric import exported_of
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.pipeline import frames
from tests.bench.server import Server

LIMIT_MS = 5.0
MOST_SERIES = 1500
_GPM = ("sm", "occupancy", "tensor", "dram")


def with_every_figure(snapshot: Snapshot) -> Snapshot:
    """Return the Snapshot with every figure that such a machine can report."""
    counter = snapshot.seq * 1_000_003
    assert snapshot.gpu.value is not None
    assert snapshot.smart.value is not None
    more = {name: counter for name, one in exported_of(GpuState).items() if not one.level and name != "energy_mj"}
    more |= {f"gpm_{name}_percent": 61.5 for name in _GPM}
    more |= dict.fromkeys(("decoder_percent", "encoder_percent", "jpeg_percent", "ofa_percent"), 3)
    gpus = {
        uuid: one._replace(
            value=one.value
            and one.value._replace(
                **more,
                last_xid=31,
                busy_samples=counter,
                gap_samples=counter // 9,
                fields_at_ns=one.at_ns,
                energy_at_ns=one.at_ns,
                replays_at_ns=one.at_ns,
            )
        )
        for uuid, one in snapshot.gpu.value.items()
    }
    details = {
        uuid: Reading(GpuDetail(uuid, "570.86.15", **dict.fromkeys(exported_of(GpuDetail), 0)), Status.OK)
        for uuid in gpus
    }
    # Counts that only ATA disks report are unknown here.
    ata = ("reallocated", "pending", "uncorrectable", "crc_errors", "command_timeouts", "reported_uncorrectable")
    nvme = {name: 40 if one.level else counter for name, one in exported_of(SmartState).items() if name not in ata}
    smart = {
        name: one._replace(value=one.value and one.value._replace(**nvme)) for name, one in snapshot.smart.value.items()
    }
    return snapshot._replace(
        gpu=snapshot.gpu._replace(value=gpus),
        gpu_slow=Reading(details, Status.OK, at_ns=snapshot.at_ns),
        smart=snapshot.smart._replace(value=smart),
        jobs=_jobs(snapshot, list(gpus)),
    )


def _jobs(snapshot: Snapshot, uuids: list[str]) -> Reading[JobTable]:
    assert snapshot.processes.value is not None
    keys = list(snapshot.processes.value.io)
    jobs, times = {}, {}
    for n in range(2):
        ranks = tuple(Rank(keys[8 * n + i], gpus=(uuids[4 * n + i],), number=12 + i) for i in range(4))
        job = Job(keys[8 * n], "train.py", "alice", 1000, ranks, label=f"slurm {48213 + n}", evidence=("gpu",))
        jobs[job.key] = job
        times[job.key] = TimeCounts(*(snapshot.seq * 70 + i for i in range(14)))
    return Reading(JobTable(jobs, times=times), Status.OK, at_ns=snapshot.at_ns)


def session(seconds: int) -> Iterator[Frame]:
    """Yield the Frames of such a machine, one per second."""
    server = Server("all")
    yield from frames(with_every_figure(server.snapshot()) for _ in range(seconds))


def cost_ms(scraped: list[Frame]) -> tuple[float, int, bytes]:
    """Return the median CPU time of a scrape in OpenMetrics in ms, the number of series, and the last text."""
    times, text, series = [], b"", 0
    for frame in scraped:
        begin = time.process_time_ns()
        families = metrics(frame)
        text = render(families, openmetrics=True)
        times.append((time.process_time_ns() - begin) / 1e6)
        series = sum(len(one.samples) for one in families)
    return statistics.median(times), series, text


class _AsObjects(Collector):
    """The same families as objects of prometheus-client."""

    def __init__(self, families: list[Family]) -> None:
        self._metrics = []
        for name, kind, unit, text, samples in families:
            metric = Metric(name, text, kind, unit)
            for labels, value in samples:
                pairs = dict(part.split("=", 1) for part in labels.strip("{}").split('",') if part)
                metric.add_sample(name + SUFFIX.get(kind, ""), pairs, value)
            self._metrics.append(metric)

    def collect(self) -> list[Metric]:
        return self._metrics


def library_ms(frame: Frame) -> float:
    """Return the CPU time in ms that prometheus-client takes to write the same series, without making its objects."""
    objects, times = _AsObjects(metrics(frame)), []
    for _ in range(10):
        begin = time.process_time_ns()
        generate_latest(objects)
        times.append((time.process_time_ns() - begin) / 1e6)
    return statistics.median(times)


def main() -> None:
    """Measure and print the figures."""
    scraped = list(session(40))[-20:]
    milliseconds, series, text = cost_ms(scraped)
    print(f"series {series} (at most {MOST_SERIES})")
    print(f"bytes {len(text)}, gzipped {len(gzip.compress(text, GZIP_LEVEL, mtime=0))}")
    print(
        f"CPU ms a scrape {milliseconds:.2f} (at most {LIMIT_MS:g}); by prometheus-client {library_ms(scraped[-1]):.1f}"
    )


if __name__ == "__main__":
    main()
