"""The screen of jobs: one row per job, the largest loss first, and all details of the job under the cursor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.model.frame import Frame
from iotop_ai.model.job.records import IoLimit, Rank
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.present.job.screen import job_after, job_rows, jobs_screen_rows
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import cells
from iotop_ai.present.text.theme import TOKENS
from tests.diagnosis.build import IDLE, JOB_ALONE, JOB_STARVED, Machine, play
from tests.diagnosis.facts.test_leading_job import FED, PREPARES, two

UTC = View(utc_offset_s=0)
SIZES = [(80, 24), (160, 48), (60, 15), (100, 30), (250, 70), (40, 10)]


def text(frame: Frame, width: int = 80, height: int = 24, cursor: int = 0) -> list[str]:
    return [line.text.rstrip() for line in jobs_screen_rows(frame, UTC, width, height, cursor)]


@pytest.mark.parametrize("size", SIZES)
def test_any_size_is_filled_exactly(size: tuple[int, int]) -> None:
    for frame in (two(JOB_STARVED, PREPARES), play((IDLE, 12))[-1], play((Machine(without_readings=True), 3))[-1]):
        lines = jobs_screen_rows(frame, UTC, *size, 0)
        assert len(lines) == size[1]
        for line in lines:
            assert cells(line.text) == size[0]
            assert {span.token for span in line.spans} <= set(TOKENS)


def test_at_80_columns_a_row_has_the_essential_columns() -> None:
    frame = two(JOB_STARVED, replace(PREPARES, stall=0.95))
    assert text(frame)[0].startswith(" STARVED  8 of 8 GPUs wait for data 78 % of the time")
    assert text(frame)[1:4] == [
        "── jobs ───── user    rk wrk gpu wait% AU% GPU%  MB/s run queue   D idle  disk",
        ">train.py 50  alice    1   8   8    78  22   22  83.9   1     0  97    2  sda",
        " train.py 500 alice    1   4   0    95   5    -     0  97     2   1    2  sda",
    ]


@pytest.mark.parametrize("width", [60, 72, 80, 90, 100, 119, 120, 160])
def test_large_numbers_of_ranks_and_workers_are_not_cut(width: int) -> None:
    frame = two(JOB_STARVED, PREPARES)
    table = frame.snapshot.jobs.value
    assert table is not None
    jobs = dict(table.jobs)
    for key, ranks, workers in zip(jobs, (128, 1024), (8, 12), strict=True):
        keys = tuple(ProcessKey(10_000 + n, 1) for n in range(workers))
        jobs[key] = jobs[key]._replace(ranks=tuple(Rank(keys[0], keys) for _ in range(ranks)))
    jobs_reading = frame.snapshot.jobs._replace(value=table._replace(jobs=jobs))
    large = frame._replace(snapshot=frame.snapshot._replace(jobs=jobs_reading))
    head, *rows = text(large, width)[1:4]
    assert head.split()[1:] == text(frame, width)[1].split()[1:], "the same columns fit"
    if "rk" in head:
        ranks, workers = head.index("rk") + 2, head.index("wrk") + 3
        assert sorted((row[:ranks].split()[-1], row[ranks:workers].strip()) for row in rows) == [
            ("1024", "12k"),
            ("128", "1024"),
        ]
    assert ("rk" in head) == (width >= 61)


def test_at_160_columns_a_row_has_the_gpu_hours() -> None:
    frame = two(JOB_STARVED, replace(PREPARES, stall=0.95))
    assert "GPU-h lost" in text(frame, 160, 48)[1]


def test_the_job_with_the_largest_loss_is_first_and_the_verdicts_job_is_marked() -> None:
    frame = two(JOB_ALONE, replace(PREPARES, stall=0.95))
    assert [one.pid for one in job_rows(frame, UTC)] == [500, 50]
    assert text(frame)[2].startswith(">")


def test_the_job_under_the_cursor_is_shown_with_all_details() -> None:
    limited = replace(PREPARES, limits=(IoLimit("8:0", "read_bytes", 10 << 20, "blkio/x/read_bps"),), quota=4.0)
    frame = two(JOB_STARVED, limited)
    first, other = ("\n".join(text(frame, cursor=pid)[1:]) for pid in (50, 500))
    assert "pid 50" in first
    assert " STARVED  8 of 8 GPUs wait for data 78 % of the time" in first
    assert "disk sda 88 MB/s" in first
    assert "of GPU time" in first
    for words in ("pid 500", "8 of 8", "10 MB/s (read_bytes in blkio/x/read_bps)", "CPU quota 4 cores", "known by"):
        assert (words in other) == (words != "8 of 8"), words
    assert "/data ext4" in other


def test_a_mount_path_of_wide_characters_is_not_cut() -> None:
    folder = "/" + "".join(chr(0x4E00 + i) for i in range(60))
    frame = two(JOB_STARVED, FED)
    table = frame.snapshot.jobs.value
    assert table is not None
    places = {
        key: place._replace(mounts=tuple(mount._replace(path=folder) for mount in place.mounts))
        for key, place in table.places.items()
    }
    reading = frame.snapshot.jobs._replace(value=table._replace(places=places))
    rows = text(frame._replace(snapshot=frame.snapshot._replace(jobs=reading)), 80, 60)
    assert f"data{folder}ext4" in "".join("".join(rows).split())


def test_after_the_last_job_comes_the_first() -> None:
    frame = two(JOB_STARVED, FED)
    order = [one.pid for one in job_rows(frame, UTC)]
    assert job_after(frame, UTC, order[0], 1) == order[1]
    assert job_after(frame, UTC, order[1], 1) == order[0]
    assert job_after(frame, UTC, 999, 1) == order[0]
    assert job_after(play((IDLE, 12))[-1], UTC, 0, 1) == 0


def test_without_a_job_the_screen_explains_what_a_job_is() -> None:
    frame = play((IDLE, 12))[-1]
    known = frame._replace(snapshot=play((JOB_ALONE, 2))[-1].snapshot)
    table = known.snapshot.jobs
    assert table.value is not None
    none = known._replace(snapshot=known.snapshot._replace(jobs=table._replace(value=table.value._replace(jobs={}))))
    assert "no training job seen" in text(none)[2]
    assert "torchrun" in " ".join(text(none))
    assert text(frame)[2] == " not read yet"


def test_a_job_that_ended_is_named_below_its_verdict() -> None:
    frame = play((JOB_STARVED, 15))[-1]
    table = frame.snapshot.jobs
    assert table.value is not None
    ended = frame.snapshot._replace(jobs=table._replace(value=table.value._replace(jobs={})))
    rows = text(frame._replace(snapshot=ended))
    assert rows[0].startswith(" STARVED")
    assert rows[2].strip() == f"train.py (pid {frame.verdict.job_pid}) has ended; the verdict is about its last moments"


def changed(frame: Frame, pid: int, kind: str = "", hidden: tuple[str, ...] = ()) -> Frame:
    """The Frame, with the workers of a job changed to another kind, and with parts of the job hidden."""
    table = frame.snapshot.jobs.value
    assert table is not None
    jobs = {
        key: job._replace(ranks=tuple(rank._replace(worker_kind=kind) for rank in job.ranks), hidden=hidden)
        if key.pid == pid
        else job
        for key, job in table.jobs.items()
    }
    reading = frame.snapshot.jobs._replace(value=table._replace(jobs=jobs))
    return frame._replace(snapshot=frame.snapshot._replace(jobs=reading))


def test_facts_of_a_job_that_cannot_be_read_are_named() -> None:
    frame = two(JOB_STARVED, PREPARES)
    assert "hidden" not in "\n".join(text(frame, cursor=500))
    lines = "\n".join(text(changed(frame, 500, hidden=("libraries", "environment")), cursor=500))
    assert " hidden   libraries, environment: not permitted; run as alice or as root" in lines
    denied = two(JOB_STARVED, replace(PREPARES, task=replace(PREPARES.task, denied=True)))
    assert " hidden   I/O: not permitted; run as alice or as root" in "\n".join(text(denied, cursor=500))


def test_workers_that_are_not_loaders_are_explained() -> None:
    frame = two(JOB_STARVED, PREPARES)
    assert " kind" not in "\n".join(text(changed(frame, 500, "loader"), cursor=500))
    lines = "\n".join(text(changed(frame, 500, "env"), cursor=500))
    assert " kind     the workers are simulated environments, which load no data" in lines
    assert "known by loader processes" in lines
