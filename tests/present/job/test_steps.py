"""The steps of a job: in words, on the screen of jobs, in the row below the banner, in plain text and in JSON."""

from __future__ import annotations

from iotop_ai.export.json.snapshot import snapshot_object
from iotop_ai.export.tables.steps import steps_table
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.records import Job
from iotop_ai.model.job.steps import LoaderSettings
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.pipeline import frames
from iotop_ai.present.job.screen import jobs_screen_rows
from iotop_ai.present.job.steps import loader_text, ranks_text, steps_rate, steps_text
from iotop_ai.present.job.time_bar import time_rows
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import cells
from iotop_ai.present.verdict.plain_text import verdict_block
from iotop_ai.store.format.codec import Decoder, Encoder, SnapLine
from tests.job_steps import reporting
from tests.job_times import job_key, slow_disk

VIEW = View(utc_offset_s=0)


def job_of(frame: Frame) -> Job:
    table = frame.snapshot.jobs.value
    assert table is not None
    return table.jobs[job_key(frame)]


def test_the_sentence_has_the_rate_and_the_wait() -> None:
    last = reporting(waits=(0.75,))[-1]
    text = steps_text(last, job_of(last))
    assert text.startswith("4.0/s, 188 ms a step for data: 75 % measured, ")
    assert text.endswith(" % from outside")
    assert steps_rate(last, job_of(last)) == "4.0 steps/s"
    assert ranks_text(last, job_of(last)) == "", "the only rank was listed beside its job"


def test_a_wait_that_is_not_measured_is_reported() -> None:
    last = reporting(waits=(None,))[-1]
    assert steps_text(last, job_of(last)) == "4.0/s, wait for data not measured"


def test_each_rank_has_its_figures() -> None:
    last = reporting(waits=(0.1, 0.6))[-1]
    assert ranks_text(last, job_of(last)) == "rank 0 4.0/s 25.0 ms 10 %, rank 1 4.0/s 150 ms 60 %"


def test_a_step_of_more_than_a_second_has_its_duration() -> None:
    last = reporting(per_s=0.5, waits=(0.75, 0.5))[-1]
    assert steps_text(last, job_of(last)).startswith("2.0 s a step, 1.5 s of it for data: 75 % measured, ")
    assert steps_rate(last, job_of(last)) == "2.0 s a step"
    assert ranks_text(last, job_of(last)) == "rank 0 2.0 s a step 1.5 s 75 %, rank 1 2.0 s a step 1.0 s 50 %"


def test_the_settings_of_the_loader_are_on_the_page_and_in_json() -> None:
    last = reporting(loader=LoaderSettings(4, 2, True, False))[-1]
    text = "num_workers 4, prefetch_factor 2, pin_memory, persistent_workers off"
    assert loader_text(last, job_of(last)) == text
    rows = [line.text.strip() for line in jobs_screen_rows(last, VIEW, 120, 40, 0)]
    assert f"loader   {text}" in rows
    assert snapshot_object(last)["jobs"][0]["steps"]["ranks"][0]["loader"] == {
        "num_workers": 4,
        "prefetch_factor": 2,
        "pin_memory": True,
        "persistent_workers": False,
    }
    unknown = reporting()[-1]
    assert loader_text(unknown, job_of(unknown)) == ""
    assert snapshot_object(unknown)["jobs"][0]["steps"]["ranks"][0]["loader"] is None


def test_steps_that_stopped_have_their_age() -> None:
    last = reporting(until=36)[-1]
    assert steps_text(last, job_of(last)).startswith("4.0/s, ")
    assert steps_text(last, job_of(last)).endswith("; no step for 8 s")
    last = reporting(until=20)[-1]
    assert steps_text(last, job_of(last)) == "?/s; no step for 24 s"
    assert steps_rate(last, job_of(last)) == "? steps/s"
    steps = snapshot_object(last)["jobs"][0]["steps"]
    assert (steps["steps_per_s"], steps["ranks"][0]["steps_per_s"]) == (None, None)
    assert (steps["ranks"][0]["rank"], round(steps["ranks"][0]["age_s"])) == (0, 24)


def test_the_screens_show_the_steps() -> None:
    last = reporting(waits=(0.1, 0.6))[-1]
    page = [line.text for line in jobs_screen_rows(last, VIEW, 80, 40, 0)]
    assert any(line.startswith(" steps    4.0/s, 150 ms a step for data: 60 % measured") for line in page)
    assert any(line.startswith(" by rank  rank 0 4.0/s") for line in page)
    for width in (60, 80, 99, 100, 160, 250):
        (line,) = time_rows(last, VIEW, width, 1)
        assert cells(line.text) == width
        assert line.text.rstrip().endswith("4.0 steps/s") == (width >= 100)
    (line,) = time_rows(slow_disk()[-1], VIEW, 160, 1)
    assert "steps" not in line.text


def test_plain_text_and_json_have_the_steps() -> None:
    last = reporting(waits=(0.1, 0.6))[-1]
    assert any(line.startswith("steps     4.0/s, 150 ms") for line in verdict_block(last))
    (job,) = snapshot_object(last)["jobs"]
    steps = job["steps"]
    assert (round(steps["steps_per_s"], 1), [rank["rank"] for rank in steps["ranks"]]) == (4.0, [0, 1])
    assert abs(steps["data_wait_ratio"] - 0.6) < 0.001
    assert steps["data_difference_ratio"] is not None
    (job,) = snapshot_object(slow_disk()[-1])["jobs"]
    assert job["steps"] is None


def test_a_recording_replays_the_steps() -> None:
    live = reporting(waits=(0.1, 0.6), loader=LoaderSettings(4, None, True))
    read = read_back(*live)
    assert [one.steps for one in read] == [frame.snapshot.steps for frame in live]
    assert [frame.sample.steps for frame in frames(read)] == [frame.sample.steps for frame in live]


def read_back(*live: Frame) -> list[Snapshot]:
    """The Snapshots of a recording of these Frames."""
    encoder, decoder = Encoder(), Decoder()
    items = [decoder.read(line.encode()) for frame in live for line in encoder.lines(frame)]
    return [item.snapshot for item in items if isinstance(item, SnapLine)]


def test_the_table_has_a_row_for_each_message() -> None:
    table = steps_table()
    names = [column.name for column in table.columns]
    rows = [dict(zip(names, row, strict=True)) for frame in reporting(until=20) for row in table.rows(frame)]
    assert len(rows) in range(15, 22), "not one row for each message"
    last = rows[-1]
    assert last["job_pid"] == last["pid"] == job_key(slow_disk()[-1]).pid
    assert abs(float(str(last["data_wait_ratio"])) - 0.75) < 0.001
    assert last["data_difference_ratio"] == last["data_seen_ratio"] - last["data_wait_ratio"]  # type: ignore[operator]
