"""The table ``steps``: the figures that training processes report, next to the figures measured from outside."""

from __future__ import annotations

from collections.abc import Iterator

from iotop_ai.export.tables.columns import TIME, Column, Row, Table, metric_cells, metric_columns
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.records import Job
from iotop_ai.model.job.steps import StepRates
from iotop_ai.model.process.records import ProcessKey

_COLUMNS = (
    TIME,
    Column("interval_s", "real", "s", "Seconds between two messages of the process."),
    Column("pid", "int"),
    Column("start_ticks", "int", "", "Start time of the process in clock ticks after boot."),
    Column("job_pid", "int", "", "The process at the top of its job; unknown before the job is recognised."),
    Column("rank", "int"),
    Column("local_rank", "int"),
    Column("world_size", "int"),
    Column("steps", "int", "", "Steps so far, as the process counts them; else batches."),
    Column("batches", "int", "", "Batches fetched so far."),
    Column("data_wait_s", "real", "s", "Time in which its training loop waited for data, so far."),
    *metric_columns(StepRates),
    Column("data_seen_ratio", "real", "ratio", "Share of time its job spends without data, measured from outside."),
    Column("data_difference_ratio", "real", "ratio", "data_seen_ratio - data_wait_ratio."),
)


class _StepRows:
    """Makes a row for each new message of a process."""

    def __init__(self) -> None:
        self._last: dict[ProcessKey, int] = {}

    def __call__(self, frame: Frame) -> Iterator[Row]:
        rates = frame.sample.steps.value or {}
        for key, counts in (frame.snapshot.steps.value or {}).items():
            if self._last.get(key) == counts.at_ns:
                continue
            self._last[key] = counts.at_ns
            job, step_rates = _job_of(frame, key), rates.get(key)
            data_seen = _data_seen_ratio(frame, job)
            reported = None if step_rates is None else step_rates.data_wait_ratio
            yield (
                frame.snapshot.wall_ns,
                None if step_rates is None or step_rates.span_ns is None else step_rates.span_ns / 1e9,
                *(key.pid, key.start_ticks, None if job is None else job.key.pid),
                *(counts.rank, counts.local_rank, counts.world_size, counts.progress, counts.batches),
                None if counts.data_ns is None else counts.data_ns / 1e9,
                *metric_cells(step_rates, StepRates),
                data_seen,
                None if data_seen is None or reported is None else data_seen - reported,
            )


def _job_of(frame: Frame, key: ProcessKey) -> Job | None:
    table = frame.snapshot.jobs.value
    return table.job_of(key) if table is not None else None


def _data_seen_ratio(frame: Frame, job: Job | None) -> float | None:
    sample = frame.sample.jobs.value
    shares = None if job is None or sample is None else sample.times.get(job.key)
    return None if shares is None else shares.data


def steps_table() -> Table:
    """The table. It has state, so use it for one pass over one recording."""
    return Table("steps", _COLUMNS, _StepRows())
