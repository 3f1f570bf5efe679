"""Earlier moments of a live session: the ring equals the live screen, drops the oldest block, and hides secrets."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.frame import HISTORY_LEAST, HISTORY_S, Frame
from iotop_ai.pipeline import frames
from iotop_ai.playback.player import FrameCursor
from iotop_ai.store.last_hour import Ring
from iotop_ai.store.read.file import FileRecording
from iotop_ai.store.write.recorder import Recorder
from iotop_ai.store.write.sink import FileSink
from tests.store.scenario import SECOND, Machine, lived, rebooted
from tests.waiting import until

SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 2, 3))]
pytestmark = pytest.mark.xdist_group("read recordings")  # the tests share their Frames, so one worker runs them all


def filled(live: list[Frame], **options: float) -> Ring:
    ring = Ring(**options)
    for i, frame in enumerate(live):
        ring.put(frame)
        if i % 50 == 49:
            assert ring.drain(60)
    assert ring.drain(60)
    return ring


@pytest.mark.parametrize("seed", SEEDS)
def test_any_moment_equals_the_live_screen(seed: int) -> None:
    live = lived(seed, 130)
    ring = filled(live)
    recording = ring.recording()
    assert recording is not None
    items = list(recording.items())
    assert list(frames(items)) == live
    for frame in live[::37]:
        entry = recording.entry(recording.blocks[-1].session, frame.snapshot.at_ns)
        assert not entry.warming
        found = next(f for f in frames(recording.items(entry.block)) if f.snapshot.at_ns == frame.snapshot.at_ns)
        assert found == frame
    ring.close()
    assert list(recording.items()) == items, "it changed when the ring was closed"


def test_a_recording_of_the_ring_does_not_change_while_it_is_read() -> None:
    live = lived(1, 130)
    ring = filled(live[:70])
    recording = ring.recording()
    assert recording is not None
    for frame in live[70:]:
        ring.put(frame)
    assert ring.drain(60)
    assert list(frames(recording.items())) == live[:70]
    ring.close()


def test_waiting_frames_are_compressed_when_a_user_goes_back_in_time() -> None:
    live = lived(1, 30)
    ring = Ring()
    ring.put(live[0])
    recording = ring.recording()
    assert recording is not None
    for shown in (9, 12, 30):
        for frame in live[len(list(recording.items())) : shown]:
            ring.put(frame)
        assert recording.refresh()
        assert list(frames(recording.items())) == live[:shown]
    ring.close()
    again = ring.recording()
    assert again is not None
    assert list(frames(again.items())) == live


def test_the_oldest_block_is_dropped_first() -> None:
    live = lived(1, 240)
    ring = filled(live, most_bytes=70_000)
    state = ring.state()
    assert state.size_bytes <= 70_000
    recording = ring.recording()
    assert recording is not None
    first = recording.blocks[0].at_ns
    assert first > live[0].snapshot.at_ns
    shown_from = next(block.at_ns for block in recording.blocks if block.at_ns >= first + HISTORY_S * 1e9)
    newest = live[-1].snapshot.at_ns
    assert state.span_s == pytest.approx((newest - shown_from) / 1e9)
    shown = {f.snapshot.at_ns: f for f in frames(recording.items())}
    seekable = [f for f in live if f.snapshot.at_ns >= newest - state.span_s * 1e9]
    assert seekable
    assert all(shown[f.snapshot.at_ns] == f for f in seekable)
    ring.close()


def test_no_more_than_the_span_of_time_is_kept() -> None:
    live = lived(1, 200)
    ring = filled(live, most_s=120)
    recording = ring.recording()
    assert recording is not None
    newest_ns, (oldest, _, shown, *_) = live[-1].snapshot.at_ns, recording.blocks
    assert newest_ns - oldest.at_ns <= (120 + 60) * 1e9 or newest_ns - shown.at_ns < 120 * 1e9
    ring.close()


def spaced(length: int, interval_s: int) -> list[Frame]:
    """Frames of a machine that is read at this interval."""
    machine, out = Machine(5), []
    begin_ns, wall_ns = machine.now, machine.wall
    for later_ns in range(0, length * interval_s * SECOND, interval_s * SECOND):
        machine.now = begin_ns + later_ns
        made = machine.snapshot()
        times = {"at_ns": begin_ns + later_ns, "wall_ns": wall_ns + later_ns}
        out.append(made._replace(**times, interval_s=float(interval_s), events=()))
    return list(frames(out))


@pytest.mark.parametrize(
    ("interval_s", "length", "shown"), [(10, 440, 360), (60, 80, 60), (600, 19, 7)], ids=["10 s", "1 min", "10 min"]
)
def test_the_whole_last_hour_is_shown_if_the_interval_is_long(interval_s: int, length: int, shown: int) -> None:
    live = spaced(length, interval_s)
    ring = filled(live)
    recording = ring.recording()
    assert recording is not None
    assert recording.blocks[0].offset > 1
    from_ns = recording.blocks[0].at_ns + int(HISTORY_S * 1e9)
    cursor = FrameCursor([recording], shown_from_ns=from_ns)
    for frame in (live[-shown], live[-shown + 1], live[-2], live[-1]):
        assert cursor.seek(frame.snapshot.wall_ns) == frame
    assert len(ring.preroll("full", live[-1].snapshot.at_ns + 1)) >= HISTORY_LEAST
    ring.close()


def test_a_reboot_begins_a_separate_session() -> None:
    live = rebooted()
    ring = filled(live)
    recording = ring.recording()
    assert recording is not None
    assert {block.session for block in recording.blocks} == {1, 2}
    assert list(frames(recording.items())) == live
    ring.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_recording_that_begins_now_has_the_minute_before(tmp_path: Path, seed: int) -> None:
    live = lived(seed, 160)
    ring = filled(live[:85])
    own = live[85:]
    sink = FileSink(str(tmp_path / "a"))
    recorder = Recorder(
        sink, Clock(), min_free_bytes=0, cmdline="full", preroll=lambda at_ns: ring.preroll("full", at_ns)
    )
    for frame in own:
        ring.put(frame)
        recorder.put(frame)
    assert recorder.close()
    recording = FileRecording(str(tmp_path / "a"))
    first = recording.first().at_ns
    assert recording.blocks[0].pre
    assert recording.blocks[0].at_ns <= first - 60e9
    assert [f for f in frames(recording.items()) if f.snapshot.at_ns >= first] == own
    ring.close()


def test_the_preroll_is_redacted_to_the_requested_level() -> None:
    live = lived(1, 130)
    ring = filled(live)
    after = live[-1].snapshot.at_ns + 1
    assert any("--token=x" in line for line in ring.preroll("full", after))
    hidden = ring.preroll("names", after)
    assert len(hidden) > 60
    assert not any("--token" in line for line in hidden)
    assert all(line.startswith('{"k":"snap","pre":true,') for line in hidden)
    ring.close()


def test_an_empty_ring_has_no_recording_and_no_preroll() -> None:
    ring = Ring()
    assert ring.recording() is None
    assert ring.preroll("names", 1) == ()
    assert ring.state().span_s == 0
    ring.close()


def test_a_machine_without_a_boot_id_has_a_last_hour() -> None:
    live = lived(1, 12)
    hosts = [frame.snapshot.host._replace(boot_id="") for frame in live]
    ring = filled([f._replace(snapshot=f.snapshot._replace(host=h)) for f, h in zip(live, hosts, strict=True)])
    recording = ring.recording()
    assert recording is not None
    assert len(list(recording.items())) == len(live)
    ring.close()


def test_a_ring_that_has_failed_is_not_waited_for() -> None:
    ring = Ring(most_bytes="no number")  # type: ignore[arg-type]
    live = lived(1, 70)
    for frame in live:
        ring.put(frame)
    until(lambda: bool(ring.state().trouble))
    began = time.monotonic()
    assert not ring.drain(10)
    assert ring.state().trouble.startswith("TypeError")
    assert time.monotonic() - began < 5
    ring.close()
