"""The scenes of the fleet's machines: recordings that are replayed for ever, with counters that always grow."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

from iotop_ai.export.prometheus.exposition import metrics, render
from iotop_ai.export.prometheus.families import COUNTER, Family, Sample
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.records import Rank
from iotop_ai.model.job.time_shares import SHARES, TimeCounts
from iotop_ai.pipeline import frames
from iotop_ai.sources.recorded.source import ReplaySource

DATA = Path(__file__).resolve().parents[2] / "data"
SETTLED_AFTER = 16
"""The number of Frames after which every recording has its verdict."""
READING_METRIC = "iotop_monitor_reading_timestamp_seconds"


class Scene(NamedTuple):
    """A recording that the exporter replays.

    slurm: the Slurm id of its job. spent: the milliseconds per second of each share, for a recording without job times.
    first_rank: the number that the first rank here has in the whole job.
    """

    file: str
    slurm: str = ""
    spent: tuple[tuple[str, int], ...] = ()
    first_rank: int | None = None


HEALTHY = Scene("verdicts/healthy_gpu_ioctl.iotop.jsonl.gz")
SLOW_DISK = Scene("job_time/slow_disk.iotop.jsonl.gz")
ONE_THREAD = Scene("verdicts/single_thread_beside_a_tracker.iotop.jsonl.gz")
CHECKPOINT = Scene("verdicts/save_in_a_thread_gpu.iotop.jsonl.gz")
FAILING_DISK = Scene("verdicts/failing_disk.iotop.jsonl.gz")
IDLE = Scene("verdicts/idle_desktop.iotop.jsonl.gz")
JOB = "48213"
LATE = SLOW_DISK._replace(slurm=JOB)
"""The machine that the other machines of its job wait for."""
PEER = Scene("verdicts/comm_wait_network.iotop.jsonl.gz", JOB, (("compute", 330), ("collective", 670)))
"""A machine of the same job that waits."""


@cache
def _ticks(scene: Scene) -> list[list[Family]]:
    """The families of metrics for each second of a recording."""
    replayed = frames(ReplaySource(str(DATA / scene.file), allow_root=True))
    kept = [frame for number, frame in enumerate(replayed) if number >= SETTLED_AFTER]
    return [metrics(_with_job(frame, scene, second)) for second, frame in enumerate(kept[:-1])]


def _with_job(frame: Frame, scene: Scene, second: int) -> Frame:
    table = frame.snapshot.jobs.value
    if table is None or not (scene.slurm or scene.spent):
        return frame
    jobs = {
        key: job._replace(
            label=f"slurm {scene.slurm}" if scene.slurm else job.label, ranks=_numbered(job.ranks, scene.first_rank)
        )
        for key, job in table.jobs.items()
    }
    times = table.times
    if spent := dict(scene.spent):
        times = {key: TimeCounts(*(spent.get(name, 0) * (second + 1) for name in SHARES)) for key in jobs}
    reading = frame.snapshot.jobs._replace(value=table._replace(jobs=jobs, times=times))
    return frame._replace(snapshot=frame.snapshot._replace(jobs=reading))


def _numbered(ranks: tuple[Rank, ...], first: int | None) -> tuple[Rank, ...]:
    return ranks if first is None else tuple(rank._replace(number=first + n) for n, rank in enumerate(ranks))


@cache
def _growth(scene: Scene) -> dict[tuple[str, str], float]:
    """How much each counter grows in one round of the recording."""
    ticks = _ticks(scene)
    first, last = (
        {
            (family.name, one.labels): one.value
            for family in ticks[at]
            if family.kind == COUNTER
            for one in family.samples
        }
        for at in (0, -1)
    )
    scale = len(ticks) / (len(ticks) - 1)
    return {key: max(0.0, value - first.get(key, value)) * scale for key, value in last.items()}


@cache
def _text(scene: Scene, second: int) -> bytes:
    ticks = _ticks(scene)
    rounds, at = divmod(second, len(ticks))
    grown = _growth(scene)
    families = [
        family._replace(
            samples=tuple(
                Sample(one.labels, one.value + rounds * grown.get((family.name, one.labels), 0.0))
                for one in family.samples
            )
        )
        if family.kind == COUNTER
        else family
        for family in ticks[at]
        if family.name != READING_METRIC
    ]
    return render(families, openmetrics=False)


def scrape(scene: Scene, seconds: float) -> bytes:
    """The text of a scrape at this time after the start. Its reading has the present time."""
    return _text(scene, int(seconds)) + f"# TYPE {READING_METRIC} gauge\n{READING_METRIC} {time.time()}\n".encode()
