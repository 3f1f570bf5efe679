"""The bar of a job's time in the real app is the same when played, after a seek, and on the job's page."""

from __future__ import annotations

from pathlib import Path

from iotop_ai.model.frame import Frame
from iotop_ai.pipeline import frames
from iotop_ai.playback.player import FrameCursor
from iotop_ai.present.job.time_bar import time_rows
from iotop_ai.present.screen.view import View
from iotop_ai.store.read.file import FileRecording
from tests.job_times import SLOW_DISK, slow_disk
from tests.store.read.test_job_times import snapshots
from tests.tui.recorded import record
from tests.tui.screens.test_replay import replaying

UTC = View(utc_offset_s=0)
OLD = SLOW_DISK.parents[1] / "verdicts" / "storage_read_nw0.iotop.jsonl.gz"


def bar(frame: Frame) -> list[str]:
    return [line.text for line in time_rows(frame, UTC, 80, 1)]


def test_a_seek_into_a_long_recording_gives_the_same_bar_as_live(tmp_path: Path) -> None:
    live = list(frames(snapshots()))
    cursor = FrameCursor([FileRecording(record(tmp_path / "a.iotop.jsonl", live))])
    for at in (100, 61, 10, 129):
        assert bar(cursor.seek(live[at].snapshot.wall_ns)) == bar(live[at])
        assert bar(live[at])[0].count(" %") == 2


async def test_a_seek_shows_the_same_bar_as_playing_up_to_there() -> None:
    last = slow_disk()[-1]
    async with replaying(str(SLOW_DISK)) as replay:
        await replay.press("at", *"100%", "enter")
        await replay.until(lambda: replay.shown.snapshot.seq == last.snapshot.seq)
        assert [replay.text("time")] == bar(last)
        await replay.until(lambda: replay.screen().splitlines()[4].startswith(" time     data: disk "))
        assert "REPLAY" in replay.screen().splitlines()[6]
        await replay.press("left_square_bracket")
        await replay.until(lambda: replay.shown.snapshot.seq == slow_disk()[-2].snapshot.seq)
        assert [replay.text("time")] == bar(slow_disk()[-2])


async def test_the_job_page_and_the_reasons_have_the_bar() -> None:
    async with replaying(str(SLOW_DISK), (160, 48)) as replay:
        await replay.press("at", *"100%", "enter")
        await replay.until(lambda: replay.shown.snapshot.seq == slow_disk()[-1].snapshot.seq)
        await replay.press("enter")
        await replay.until(lambda: "   time: data disk" in replay.screen())
        await replay.press("escape")
        await replay.app.main.run_action("jobs")
        await replay.until(lambda: "── jobs" in replay.screen())
        rows = replay.screen().splitlines()
        assert next(row for row in rows if row.startswith(" time     data: disk")).split()[3:5] == ["67", "%"]


async def test_a_recording_without_job_times_has_no_bar() -> None:
    async with replaying(str(OLD)) as replay:
        await replay.press("at", *"100%", "enter")
        await replay.until(lambda: "STARVED" in replay.text("banner"))
        assert not replay.app.main.panels["time"].display
        assert " time " not in "".join(row[:6] for row in replay.screen().splitlines())
