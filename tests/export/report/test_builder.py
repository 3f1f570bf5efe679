"""The Story of a real run has the figures of the counters, whichever way the recording is read."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from iotop_ai.export.html.report import MOST_MARKS, render_report_html
from iotop_ai.export.json.diagnosis import Diagnosis
from iotop_ai.export.report.builder import MOST_EVENTS, StoryBuilder
from iotop_ai.export.report.json import report_object
from iotop_ai.export.report.money import gpu_time
from iotop_ai.export.report.series import Stat
from iotop_ai.export.report.story import DeviceStory, Story
from iotop_ai.export.report.tables import event_table, jobs_table
from iotop_ai.model.errors import UnknownError
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.exits import ENDED, TRAINER, WORKER
from iotop_ai.model.snapshot import CLOCK_SET_BACK, Event, Snapshot
from iotop_ai.pipeline import frames
from iotop_ai.playback.run_reader import JudgedSpan, RatedSnapshot, RunReader
from iotop_ai.playback.selection import RecordedFrames
from iotop_ai.store.write.recorder import Recorder
from iotop_ai.store.write.sink import FileSink
from tests.export.report.stories import read, slow_story
from tests.job_times import slow_disk
from tests.sources.recorded.test_corrected_times import HOUR, stepped
from tests.tui.recorded import record, recorder_of

SECTOR = 512


@pytest.fixture(scope="module")
def many_blocks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of ``slow_story``, recorded with a keyframe every 5 Snapshots, so that most of it can be summed."""
    path = tmp_path_factory.mktemp("run") / "run.iotop.jsonl"
    record(path, slow_disk(), keyframe_every=5)
    return path


@pytest.fixture(scope="module")
def set_back(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, in which the clock is set back by an hour."""
    path = tmp_path_factory.mktemp("stepped") / "run.iotop.jsonl"
    record(path, _frames_of(stepped(slow_disk(), {12: -3600 * 10**9})), keyframe_every=5)
    return path


read_once = functools.cache(read)
"""Reads the Story of a recording; the tests of the module share the result."""


def device(story: Story, name: str) -> DeviceStory:
    return next(one for one in story.devices if one.name == name)


def end_snapshots() -> tuple[Snapshot, Snapshot]:
    return slow_disk()[0].snapshot, slow_disk()[-1].snapshot


def test_the_command_line_of_a_recorded_command_is_reduced_to_names() -> None:
    first, second = end_snapshots()
    builder = StoryBuilder(None, None)
    event = Event(second.at_ns, second.wall_ns, "command_start", "python a/train.py --token s3cret")
    for one in frames([first, second._replace(events=(event,))]):
        builder.add(one)
    assert [one.text for one in builder.story("x", {}).events] == ["python train.py"]


def _marks(count: int, last: Snapshot) -> list[Event]:
    return [Event(last.at_ns, last.wall_ns - 10**10 + i, "mark", f"step {i}") for i in range(count)]


def _story_with(events: Iterable[Event]) -> Story:
    """The Story of a run whose last Snapshot has these events."""
    *before, last = (one.snapshot._replace(events=()) for one in slow_disk()[-5:])
    builder = StoryBuilder(None, None)
    for one in frames([*before, last._replace(events=tuple(events))]):
        builder.add(one)
    return builder.story("x", {})


def test_many_marks_do_not_displace_a_later_fault() -> None:
    last = end_snapshots()[1]
    fault = Event(last.at_ns, last.wall_ns, "io_error", "sda: I/O error")
    story = _story_with([*_marks(MOST_EVENTS + 200, last), fault])
    assert (len(story.events), story.events[-1], story.more_events) == (MOST_EVENTS + 1, fault, 200)
    assert event_table(story).rows[-1][1:] == ("io error", "sda: I/O error")
    assert event_table(story).note == "200 more events."
    charts = [one for one in re.findall(r"<svg.*?</svg>", render_report_html(story), re.DOTALL) if "step 0<" in one]
    assert charts
    assert {(one.count('class="mark"'), one.count("io_error: sda: I/O error<")) for one in charts} == {
        (MOST_MARKS - 1, 1)
    }


def test_events_of_a_story_are_in_the_order_of_time() -> None:
    last = end_snapshots()[1]
    late, early = (Event(last.at_ns, last.wall_ns - ns, kind, "") for ns, kind in ((0, "xid"), (10**9, "mark")))
    assert _story_with([late, early]).events == (early, late)


def test_workers_that_end_normally_do_not_displace_a_fault() -> None:
    """A loader that restarts its workers in each epoch ends thousands of them."""
    last = end_snapshots()[1]
    worker = Event(last.at_ns, last.wall_ns - 10**9, ENDED, "worker ended", WORKER, 7, 0, 6)
    trainer = Event(last.at_ns, last.wall_ns, ENDED, "trainer ended", TRAINER, 6, 1, 6)
    story = _story_with([*[worker] * (MOST_EVENTS + 1), worker._replace(code=-9), trainer])
    assert [(one.role, one.code) for one in story.events[MOST_EVENTS:]] == [(WORKER, -9), (TRAINER, 1)]
    assert story.more_events == 1


def test_bytes_and_awaits_equal_the_growth_of_the_counters() -> None:
    first, last = (
        next(counts for key, counts in (one.block.value or {}).items() if key.name == "loop0")
        for one in end_snapshots()
    )
    disk = device(slow_story(), "loop0")
    assert disk.read_bytes == pytest.approx(((last.rd_sectors or 0) - (first.rd_sectors or 0)) * SECTOR)
    assert disk.read_await_ms is not None
    reads = (last.rd_ios or 0) - (first.rd_ios or 0)
    assert disk.read_await_ms.mean == pytest.approx(((last.rd_ms or 0) - (first.rd_ms or 0)) / reads)
    assert disk.busy is not None
    seconds = (end_snapshots()[1].at_ns - end_snapshots()[0].at_ns) / 1e9
    assert disk.busy.mean == pytest.approx(((last.busy_ms or 0) - (first.busy_ms or 0)) / 1000 / seconds, rel=0.01)


def test_the_job_equals_that_of_diagnose() -> None:
    diagnosis = Diagnosis()
    for frame in slow_disk():
        diagnosis.add(frame)
    story = slow_story()
    (job,) = story.jobs
    assert job.counts == diagnosis.job_times()[0].counts
    assert story.main_job == job
    assert (job.name, job.gpus, job.ranks) == ("trainer.py", 1, 1)
    assert tuple(one.finding for one in story.findings) == diagnosis.findings
    assert story.timeline == tuple(diagnosis.spans)
    assert story.data_stall_ratio == diagnosis.data_stall_ratio
    weights = job.shares["data_disk"].weights
    mean = sum(v * w for v, w in zip(job.shares["data_disk"].values, weights, strict=True) if v) / sum(weights)
    assert mean == pytest.approx(job.counts.data_disk / job.counts.whole_ms, abs=0.01)


def _close(one: Stat | None, other: Stat | None) -> None:
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert one.mean == pytest.approx(other.mean, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("most", "spacing_s"), [(480, 5.0), (4, 15.0), (1, 45.0)])
def test_fewer_readings_give_the_same_sums(many_blocks: Path, most: int, spacing_s: float) -> None:
    """Counters keep everything, so bytes, awaits and shares equal those of reading every Snapshot."""
    fine = read_once(many_blocks, None, None, every=True)
    coarse = read(many_blocks, every=False, most=most)
    assert fine.spacing_s is None
    assert coarse.spacing_s == pytest.approx(spacing_s, rel=0.01)
    _same_sums(coarse, fine)


def _same_sums(coarse: Story, fine: Story) -> None:
    assert coarse.watched_s == pytest.approx(fine.watched_s)
    assert [one.name for one in coarse.devices] == [one.name for one in fine.devices]
    for one, other in zip(coarse.devices, fine.devices, strict=True):
        assert one.read_bytes == pytest.approx(other.read_bytes)
        assert one.written_bytes == pytest.approx(other.written_bytes)
        _close(one.read_await_ms, other.read_await_ms)
        _close(one.busy, other.busy)
    assert [job.counts for job in coarse.jobs] == [job.counts for job in fine.jobs]
    assert coarse.timeline == fine.timeline
    assert [one.finding for one in coarse.findings] == [one.finding for one in fine.findings]
    assert sorted(coarse.events) == sorted(fine.events)
    assert gpu_time(coarse.jobs) == gpu_time(fine.jobs)


@pytest.mark.parametrize("every", [True, False])
@pytest.mark.parametrize(("begin", "end"), [(None, None), ("30%", None), ("10%", "70%")])
def test_a_clock_that_was_set_back_loses_nothing(
    many_blocks: Path, set_back: Path, every: bool, begin: str | None, end: str | None
) -> None:
    right, one = (read_once(each, begin, end, every=every) for each in (many_blocks, set_back))
    events = [event for event in one.events if event.kind == CLOCK_SET_BACK]
    assert len(events) == (begin != "30%")
    assert all("set back by 3600 s" in event.text for event in events)
    assert one.watched_s == pytest.approx(right.watched_s)
    assert one.end_ns - one.begin_ns == pytest.approx(right.end_ns - right.begin_ns, abs=10**7)
    for disk, other in zip(one.devices, right.devices, strict=True):
        assert disk.read_bytes == pytest.approx(other.read_bytes)
        assert disk.written_bytes == pytest.approx(other.written_bytes)
    assert [job.counts for job in one.jobs] == [job.counts for job in right.jobs]
    assert [job.end_ns - job.begin_ns for job in one.jobs] == pytest.approx(
        [job.end_ns - job.begin_ns for job in right.jobs], abs=10**7
    )
    assert [(span.class_id, span.duration_ns) for span in one.timeline] == [
        (span.class_id, span.duration_ns) for span in right.timeline
    ]
    begins = [span.wall_ns for span in one.timeline]
    assert begins == pytest.approx([span.wall_ns for span in right.timeline], abs=10**8)
    assert one.gaps == right.gaps


def _frames_of(snapshots: Iterable[Snapshot]) -> list[Frame]:
    return list(frames(snapshots))


def test_two_sessions_with_fewer_readings_give_the_same_sums(tmp_path: Path) -> None:
    """The end of a session is not paired with the start of the next, so reading all keyframes gives no more."""
    path = tmp_path / "run.iotop.jsonl"
    record(path, slow_disk()[:23], keyframe_every=5)
    record(tmp_path / "more", _frames_of(one.snapshot for one in slow_disk()[30:]), keyframe_every=5)
    with path.open("ab") as out:
        out.write((tmp_path / "more").read_bytes())
    each, few = read(path, every=False), read(path, every=False, most=3)
    assert few.spacing_s == pytest.approx(15.0, rel=0.01)
    _same_sums(few, each)
    assert few.watched_s < read(path, every=True).watched_s + 0.1


def _with_jobs_in(seen: range) -> list[Snapshot]:
    """The run, in which only these Snapshots have the job."""
    without = [one.snapshot for one in slow_disk()]
    for i in set(range(len(without))).difference(seen):
        table = without[i].jobs.value
        assert table is not None
        without[i] = without[i]._replace(
            jobs=without[i].jobs._replace(value=table._replace(jobs={}, sweeps={}, times={})), events=()
        )
    return without


def test_a_short_job_between_readings_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "run.iotop.jsonl"
    record(path, _frames_of(_with_jobs_in(range(11, 23))), keyframe_every=5)
    fine, coarse = read(path, every=True), read(path, every=False, most=1)
    assert [job.name for job in coarse.jobs] == ["trainer.py"]
    assert gpu_time(coarse.jobs) == gpu_time(fine.jobs) is not None


@pytest.mark.parametrize("reported", [False, True])
def test_the_time_of_a_job_between_two_keyframes_is_counted(tmp_path: Path, reported: bool) -> None:
    snapshots = _with_jobs_in(range(16, 19))
    (key,) = snapshots[17].jobs.value.jobs if snapshots[17].jobs.value is not None else ()
    last = snapshots[18]
    if reported:
        ended = Event(last.at_ns, last.wall_ns, ENDED, "trainer.py ended", "trainer", key.pid, 0, key.pid)
        worker = ended._replace(wall_ns=last.wall_ns - 10**9, pid=key.pid + 1, role="worker")
        snapshots[18] = last._replace(events=(worker, ended))
    path = tmp_path / "run.iotop.jsonl"
    record(path, _frames_of(snapshots), keyframe_every=5)
    fine, coarse = read(path, every=True), read(path, every=False, most=1)
    (seen,), (job,) = fine.jobs, coarse.jobs
    assert (job.pid, job.name, job.counts) == (seen.pid, seen.name, seen.counts)
    assert job.counts.whole_ms > 1000
    assert (job.user, job.ranks, job.workers, job.gpus) == ("", None, None, None)
    assert job.end_ns == (last if reported else snapshots[19]).wall_ns
    assert job.end_ns - job.begin_ns == job.counts.whole_ms * 1_000_000
    assert coarse.main_job == job
    assert jobs_table(coarse, None).note.startswith(
        "Shares of the time watched. The verdict's sentence gives the shares of "
    )
    assert not jobs_table(coarse._replace(jobs=()), None).note
    (row,) = jobs_table(coarse, None).rows
    assert row[1:5] == ("?", "?", "?", "?")
    assert report_object(coarse)["jobs"][0]["gpus"] is None
    assert "trainer.py" in render_report_html(coarse)


def test_with_every_reading_the_story_equals_a_fold_of_all_frames(many_blocks: Path) -> None:
    chosen = read_once(many_blocks)
    assert read_once(many_blocks, None, None, every=True)._replace(file="") == slow_story()._replace(
        file="", interval_s=chosen.interval_s, machine=chosen.machine
    )


def test_most_snapshots_are_not_folded(many_blocks: Path) -> None:
    def kinds(most: int) -> list[type]:
        played = RecordedFrames(str(many_blocks), allow_root=True)
        return [type(item) for item in RunReader(played, every=False, most=most)]

    each, few = kinds(480), kinds(3)
    assert (each.count(JudgedSpan), each.count(RatedSnapshot), each.count(Frame)) == (8, 9, 5)
    # The reader takes the first block with its Frames, the second (the first with the job), every third, and the last.
    assert (few.count(JudgedSpan), few.count(RatedSnapshot), few.count(Frame)) == (8, 6, 5)


def test_a_part_of_a_run_can_be_read(many_blocks: Path) -> None:
    whole, part = read_once(many_blocks), read(many_blocks, "+10s", "+30s")
    assert part.begin_ns == pytest.approx(whole.begin_ns + 10e9, abs=1.1e9)
    assert 19 < part.watched_s < 22
    assert part.jobs[0].counts.whole_ms == pytest.approx(20_000, abs=2000)
    assert device(part, "loop0").read_bytes < device(whole, "loop0").read_bytes


def test_a_gap_is_listed_and_not_counted() -> None:
    live = [*slow_disk()[:10], *slow_disk()[30:]]
    builder = StoryBuilder(None, None)
    for frame in frames(frame.snapshot for frame in live):
        builder.add(frame)
    story = builder.story("x", {})
    (gap,) = story.gaps
    assert 20 < (gap.end_ns - gap.begin_ns) / 1e9 < 22
    assert gap.text == "nothing was recorded"
    assert story.watched_s == pytest.approx(slow_story().watched_s - 21, abs=1.5)
    curve = device(story, "loop0").curves["read_bytes_per_s"]
    assert curve.values[12:28] == (None,) * 16


@pytest.mark.parametrize("every", [True, False])
def test_a_gap_that_the_recorder_marked_is_listed_and_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: bool
) -> None:
    """The first rates after the gap are those of the live machine; they do not span the gap."""
    may_write = iter([*[True] * 13, *[False] * 20, *[True] * 12])
    monkeypatch.setattr(Recorder, "_may_write", lambda recorder, now: next(may_write))
    path = tmp_path / "run.iotop.jsonl"
    recorder = recorder_of(FileSink(str(path)), keyframe_every=5)
    for frame in slow_disk():
        recorder.put(frame)
    assert recorder.close()
    assert recorder.state().dropped == 20
    story = read(path, every=every)
    (gap,) = story.gaps
    assert 19 < (gap.end_ns - gap.begin_ns) / 1e9 < 21
    assert gap.text.startswith("20 snapshots not written")
    assert story.watched_s == pytest.approx(slow_story().watched_s - 20, abs=3.5)


@pytest.mark.parametrize(
    ("suspended_ns", "text"), [(HOUR, "the machine was suspended"), (0, "the clock was set ahead")]
)
def test_the_time_of_a_suspended_machine_is_listed_as_a_gap(suspended_ns: int, text: str) -> None:
    snapshots = [
        one._replace(suspended_ns=suspended_ns if i >= 20 else 0)
        for i, one in enumerate(stepped(slow_disk(), {20: HOUR}))
    ]
    builder = StoryBuilder(None, None)
    for frame in frames(snapshots):
        builder.add(frame)
    story = builder.story("x", {})
    (gap,) = story.gaps
    assert gap.end_ns - gap.begin_ns == pytest.approx(HOUR, abs=10**8)
    assert gap.text == text
    assert story.watched_s == pytest.approx(slow_story().watched_s)


@pytest.mark.parametrize(
    ("origin", "is_same", "text"),
    [
        ("", True, "the machine was restarted"),
        ("iostat", True, "nothing was recorded"),
        ("", False, "nothing was recorded"),
    ],
)
def test_only_another_boot_of_the_same_machine_is_a_restart(origin: str, is_same: bool, text: str) -> None:
    """Each run of iostat in an imported log has a boot id of its own."""
    host = slow_disk()[0].snapshot.host
    other = host._replace(boot_id="second", origin=origin, name=host.name if is_same else "another-machine")
    snapshots = [one.snapshot._replace(host=host if i < 20 else other) for i, one in enumerate(slow_disk())]
    builder = StoryBuilder(None, None)
    for frame in frames(snapshots):
        builder.add(frame)
    assert [gap.text for gap in builder.story("x", {}).gaps] == [text]


def test_without_data_there_is_no_story() -> None:
    with pytest.raises(UnknownError, match="no data"):
        StoryBuilder(None, None).story("x", {})
