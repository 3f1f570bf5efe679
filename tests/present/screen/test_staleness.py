"""What the screen shows while no reading arrives."""

from __future__ import annotations

import pytest

from iotop_ai.present.job.data_path import path_rows
from iotop_ai.present.screen.key_row import mode_spans
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import Line, cells
from iotop_ai.present.verdict.banner import banner_rows
from iotop_ai.tui.threads.staleness import StalenessWatch
from tests.clocks import SetClock
from tests.diagnosis.build import JOB_STARVED, play

FRAME = play((JOB_STARVED, 15))[-1]
LOUD = ("bad", "warn", "tint", "block-bad", "edge-bad")


def text(line: Line) -> str:
    return "".join(span.text for span in line.spans)


def loud(lines: list[Line]) -> set[str]:
    return {span.text.strip() for line in lines for span in line.spans if span.token.startswith(LOUD)}


@pytest.mark.parametrize(("width", "height"), [(80, 4), (160, 6), (60, 4)])
def test_only_the_age_of_an_old_verdict_is_coloured(width: int, height: int) -> None:
    fresh = banner_rows(FRAME, View(), width, height)
    old = banner_rows(FRAME, View(silent_s=12, silent_in="processes"), width, height)
    assert len(old) == len(fresh) == height
    assert all(cells(text(line)) == width for line in old)
    assert text(fresh[0]).startswith(" STARVED ")
    assert text(old[0]).startswith(" STARVED ")
    assert text(old[0]).endswith("12 s old ")
    assert text(old[1]).startswith("▌now      no reading for 12 s")
    if width >= 80:
        assert "reading processes hangs" in text(old[1])
    assert loud(old) == {"12 s old", "no reading for 12 s"}
    assert "12 s old" not in "".join(map(text, fresh))


def test_the_age_is_shown_instead_of_the_word_live_on_each_screen() -> None:
    silent = View(silent_s=12)
    assert "no reading for 12 s" in text(path_rows(FRAME, silent, 100, 3)[0])
    assert " live" not in text(path_rows(FRAME, silent, 100, 3)[0])
    assert " live" in text(path_rows(FRAME, View(), 100, 3)[0])
    assert [span.text for span in mode_spans(FRAME, silent)] == ["no reading for 12 s  "]
    assert mode_spans(FRAME, View()) == []
    assert [span.text for span in mode_spans(FRAME, View(mode="ended"))] == ["REMOTE ended  "]


@pytest.mark.parametrize("mode", ["paused", "replay", "back", "ended"])
def test_a_paused_or_earlier_frame_does_not_count_as_silent(mode: str) -> None:
    silent, usual = View(silent_s=12, mode=mode), View(mode=mode)
    assert banner_rows(FRAME, silent, 100, 4) == banner_rows(FRAME, usual, 100, 4)
    assert path_rows(FRAME, silent, 100, 3) == path_rows(FRAME, usual, 100, 3)


def test_a_remote_source_is_named() -> None:
    old = banner_rows(FRAME, View(silent_s=70, remote=True), 120, 4)
    assert "the remote end sends nothing" in text(old[1])


def last_check(watch: StalenessWatch, clock: SetClock, until_s: float, interval_s: float = 1.0) -> int | None:
    """The result of the last check, after one check in each second until this time."""
    found = None
    while clock.now_ns < until_s * 1e9:
        clock.skip(1)
        found = watch.check(interval_s)
    return found


def test_silence_begins_after_three_intervals_and_ends_with_a_reading() -> None:
    clock = SetClock()
    watch = StalenessWatch(clock)
    assert last_check(watch, clock, 3) is None
    assert last_check(watch, clock, 4) == 4
    assert last_check(watch, clock, 9) == 9
    watch.note_reading()
    assert last_check(watch, clock, 12) is None
    assert last_check(watch, clock, 13) == 4


def test_with_a_long_interval_silence_begins_later() -> None:
    clock = SetClock()
    watch = StalenessWatch(clock)
    assert last_check(watch, clock, 180, interval_s=60.0) is None
    assert last_check(watch, clock, 181, interval_s=60.0) == 181


def test_a_screen_that_was_itself_stopped_claims_no_silence() -> None:
    clock = SetClock()
    watch = StalenessWatch(clock)
    assert last_check(watch, clock, 2) is None
    clock.skip(600)
    assert watch.check(1.0) is None
    assert last_check(watch, clock, clock.now_ns / 1e9 + 4) == 4
