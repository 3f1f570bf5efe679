"""The table of where the jobs' time went."""

from __future__ import annotations

import pytest

from iotop_ai.export.tables.job import JOBS
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.time_shares import SHARES
from tests.job_times import not_counted, slow_disk


def rows(shown: tuple[Frame, ...]) -> list[dict[str, object]]:
    return [dict(zip((c.name for c in JOBS.columns), row, strict=True)) for frame in shown for row in JOBS.rows(frame)]


def test_each_interval_has_a_row_with_its_shares_and_the_seconds_so_far() -> None:
    made = rows(slow_disk())
    assert len(made) == 44, "the numbers of rows and of intervals between Snapshots differ"
    first, last = made[1], made[-1]
    assert (last["name"], last["ranks"], last["workers"], last["gpus"], last["label"]) == ("trainer.py", 1, 0, 1, None)
    for row in made[1:]:
        assert sum(float(str(row[f"{name}_ratio"])) for name in SHARES) == pytest.approx(1)
        assert row["goodput_ratio"] == row["compute_ratio"]
    assert float(str(last["data_disk_s"])) > float(str(first["data_disk_s"])) > 0
    assert {c.unit for c in JOBS.columns if c.name.endswith("_s")} == {"s"}


def test_time_that_was_not_counted_is_unknown() -> None:
    last = rows(not_counted())[-1]
    assert (last["goodput_ratio"], last["data_stall_ratio"]) == (None, None)
    assert {last[f"{name}_{unit}"] for name in SHARES for unit in ("ratio", "s")} == {None}
