"""The table ``jobs``: the shares of each training job's time, interval by interval."""

from __future__ import annotations

from collections.abc import Iterator

from iotop_ai.export.json.job import data_stall_ratio
from iotop_ai.export.tables.columns import INTERVAL, TIME, Column, Row, Table, metric_cells, texts
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.time_shares import SHARES, TimeShares
from iotop_ai.model.metric import metrics_of

_SHARES = tuple(
    Column(f"{name}_ratio", "real", "ratio", metric.text) for name, metric in metrics_of(TimeShares).items()
)
_SECONDS = tuple(
    Column(f"{name}_s", "real", "s", "Seconds of this share since the job was first seen.") for name in SHARES
)
_COLUMNS = (
    TIME,
    INTERVAL,
    Column("pid", "int", "", "The process at the top of the job."),
    Column("start_ticks", "int", "", "Start time of that process in clock ticks after boot."),
    *texts("name", "user", "label", "framework"),
    Column("ranks", "int"),
    Column("workers", "int"),
    Column("gpus", "int"),
    Column("data_stall_ratio", "real", "ratio", "Share of the interval in which the job waits for data."),
    Column("goodput_ratio", "real", "ratio", "Share of the interval in which the job computes."),
    *_SHARES,
    *_SECONDS,
)


def _rows(frame: Frame) -> Iterator[Row]:
    """A row per job, for each interval in which the jobs were read."""
    table, sample = frame.snapshot.jobs.value, frame.sample.jobs
    if table is None or sample.value is None or sample.seconds is None or not sample.renewed:
        return
    for key, job in table.jobs.items():
        shares, rates = sample.value.times.get(key), sample.value.jobs.get(key)
        counts = table.times.get(key)
        so_far: Row = (None,) * len(SHARES) if counts is None else tuple(count / 1000 for count in counts)
        yield (
            *(frame.snapshot.wall_ns, sample.seconds, key.pid, key.start_ticks),
            *(job.name, job.user, job.label or None, job.framework or None),
            *(len(job.ranks), len(job.workers), len(job.gpus)),
            data_stall_ratio(job, shares, rates),
            None if shares is None else shares.goodput,
            *metric_cells(shares, TimeShares),
            *so_far,
        )


JOBS = Table("jobs", _COLUMNS, _rows)
