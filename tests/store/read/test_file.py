"""A recording shows what the live screen showed: played forward, after a seek, across rotation, sessions and gaps."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.diagnosis.rules_version import stamp
from iotop_ai.model.errors import InputError, UsageError
from iotop_ai.model.frame import Frame
from iotop_ai.model.keyframe import Keyframe
from iotop_ai.model.snapshot import NOT_RECORDED, Event
from iotop_ai.pipeline import closing_frame, frames
from iotop_ai.store.format.redact import Redactor
from iotop_ai.store.read.file import FileRecording
from iotop_ai.store.read.gzip_members import HEADER_BYTES
from iotop_ai.store.write.compress import compress
from iotop_ai.store.write.recorder import Recorder, Rotation
from iotop_ai.store.write.sink import FileSink
from tests.store.scenario import lived, rebooted

SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, *range(2, 6)))]
pytestmark = pytest.mark.xdist_group("read recordings")  # the tests share their Frames, so one worker runs them all


def record(path: Path, live: list[Frame], **options: object) -> Recorder:
    recorder = Recorder(FileSink(str(path)), Clock(), cmdline="full", min_free_bytes=0, **options)
    for i, frame in enumerate(live):
        recorder.put(frame)
        if i % 50 == 49:
            wait(recorder, i + 1)
    assert recorder.close()
    assert recorder.state().trouble == ""
    assert recorder.state().dropped == 0
    return recorder


def wait(recorder: Recorder, count: int) -> None:
    import time

    for _ in range(2000):
        if recorder.state().snapshots >= count:
            return
        time.sleep(0.005)
    raise AssertionError("the recorder does not keep up")


def played(recording: FileRecording, first: int = 0) -> list[Frame]:
    start = recording.first().at_ns
    return [f for f in frames(recording.items(first)) if f.snapshot.at_ns >= start]


@pytest.mark.parametrize("seed", SEEDS)
def test_replay_equals_live(tmp_path: Path, seed: int) -> None:
    live = lived(seed, 150)
    record(tmp_path / "a", live)
    assert played(FileRecording(str(tmp_path / "a"))) == live


@pytest.mark.parametrize("length", [2, 59, 60, 61, 130])
@pytest.mark.parametrize("packed", [False, True])
def test_events_after_the_last_snapshot_are_in_the_closing_line(tmp_path: Path, length: int, packed: bool) -> None:
    """This is so even if the closing line is a keyframe."""
    live = lived(1, length)
    now, wall = live[-1].snapshot.at_ns + 300_000_000, live[-1].snapshot.wall_ns + 300_000_000
    live.append(closing_frame(live[-1], (Event(now - 9, wall - 9, "mark", "late"),), now, wall))
    path = tmp_path / "a.iotop.jsonl"
    record(path, live)
    if packed:
        path = Path(compress(str(path)))
    recording = FileRecording(str(path))
    assert played(recording) == live
    assert [event.text for event in recording.events()][-1] == "late"
    assert recording.closed()
    entry = recording.entry(recording.blocks[-1].session, now)
    assert list(frames(recording.items(entry.block, fold_ns=entry.fold_ns)))[-1] == live[-1]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("packed", [False, True])
def test_a_seek_gives_the_same_as_playing_forward(tmp_path: Path, seed: int, packed: bool) -> None:
    live = lived(seed, 150)
    path = tmp_path / "a.iotop.jsonl"
    record(path, live)
    if packed:
        path = Path(compress(str(path)))
    recording = FileRecording(str(path))
    for frame in random.Random(seed).sample(live, 8):
        entry = recording.entry(recording.blocks[-1].session, frame.snapshot.at_ns)
        assert not entry.warming
        items = recording.items(entry.block, fold_ns=entry.fold_ns)
        found = next(f for f in frames(items) if f.snapshot.at_ns == frame.snapshot.at_ns)
        assert found == frame


def test_with_other_rules_the_fold_begins_five_minutes_earlier(tmp_path: Path) -> None:
    live = lived(1, 260)
    path = tmp_path / "a"
    record(path, live)
    header, rest = path.read_bytes().split(b"\n", 1)
    path.write_bytes(header.replace(stamp().encode(), b"0-other") + b"\n" + rest)
    recording = FileRecording(str(path))
    frame = live[-10]
    at_ns = frame.snapshot.at_ns
    entry = recording.entry(recording.blocks[-1].session, at_ns)
    assert entry.warming
    assert entry.fold_ns <= at_ns - 300e9
    assert recording.blocks[entry.block].at_ns <= entry.fold_ns
    items = list(recording.items(entry.block))
    assert all(item.carry is None for item in items if isinstance(item, Keyframe))
    found = next(f for f in frames(items) if f.snapshot.at_ns == at_ns)
    assert (found.snapshot, found.sample, found.history) == (frame.snapshot, frame.sample, frame.history)
    assert found.verdict.state == frame.verdict.state


def test_a_class_of_finding_that_only_other_rules_know_does_not_prevent_reading(tmp_path: Path) -> None:
    live = lived(1, 130)
    path = tmp_path / "a"
    record(path, live)
    renamed = path.read_bytes().replace(b'"unknown"', b'"newwait"')
    path.write_bytes(renamed)
    with pytest.raises(InputError, match="an unknown class of finding"):
        played(FileRecording(str(path)))
    path.write_bytes(renamed.replace(stamp().encode(), b"0-other", 1))
    recording = FileRecording(str(path))
    shown, wanted = ([(f.snapshot, f.verdict.state) for f in made] for made in (played(recording), live))
    assert shown == wanted
    assert list(recording.items(2)), "nothing is read from a block that does not contain the header"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_recording_that_starts_in_mid_session_keeps_the_minute_before(tmp_path: Path, seed: int) -> None:
    live = lived(seed, 160)
    first = tmp_path / "first"
    recorder = record(first, live[:85])
    own = live[85:]
    record(tmp_path / "second", own, preroll=lambda _at_ns: recorder.preroll())
    recording = FileRecording(str(tmp_path / "second"))
    assert recording.blocks[0].pre
    shown = played(recording)
    assert shown == own


@pytest.mark.parametrize("seed", SEEDS)
def test_rotation_loses_nothing(tmp_path: Path, seed: int) -> None:
    live = lived(seed, 160)
    parts: list[Path] = []

    def next_file(sink: object) -> FileSink:
        sink.close()  # type: ignore[attr-defined]
        parts.append(tmp_path / f"{len(parts) + 1}")
        return FileSink(str(parts[-1]))

    recorder = Recorder(
        FileSink(str(tmp_path / "0")), Clock(), cmdline="full", min_free_bytes=0, rotation=Rotation(bytes=50_000),
        rotate=next_file,
    )  # fmt: skip
    for i, frame in enumerate(live):
        recorder.put(frame)
        if i % 50 == 49:
            wait(recorder, i + 1)
    assert recorder.close()
    assert len(parts) >= 2
    shown = [frame for path in (tmp_path / "0", *parts) for frame in played(FileRecording(str(path)))]
    assert shown == live


def test_append_begins_an_independent_session(tmp_path: Path) -> None:
    path = tmp_path / "a"
    first, second = lived(1, 90), lived(2, 50)
    record(path, first)
    recorder = Recorder(FileSink(str(path), append=True), Clock(), cmdline="full", min_free_bytes=0)
    for frame in second:
        recorder.put(frame)
    assert recorder.close()
    recording = FileRecording(str(path))
    assert list(frames(recording.items())) == first + second
    assert {b.session for b in recording.blocks} == {1, 2}
    with pytest.raises(UsageError, match="--append"):
        FileSink(str(path))


@pytest.mark.parametrize("left", [0, 1])
def test_a_file_that_lost_its_keyframes_while_it_is_open_is_an_error(tmp_path: Path, left: int) -> None:
    path = tmp_path / "a"
    recorder = Recorder(FileSink(str(path)), Clock(), min_free_bytes=0)
    recorder.put(lived(1, 1)[0])
    assert recorder.close()
    recording = FileRecording(str(path))
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:left]))
    with pytest.raises(InputError, match=f"{path}: it no longer has a complete keyframe"):
        recording.refresh()
    recording.close()


def test_a_reboot_begins_a_session(tmp_path: Path) -> None:
    live = rebooted()
    record(tmp_path / "a", live)
    assert list(frames(FileRecording(str(tmp_path / "a")).items())) == live


def test_a_damaged_header_of_a_later_session_is_reported_with_its_file(tmp_path: Path) -> None:
    record(tmp_path / "a", rebooted())
    packed = Path(compress(str(tmp_path / "a")))
    recording = FileRecording(str(packed))
    index = next(i for i, block in enumerate(recording.blocks) if block.session == 2)
    at = recording.blocks[index].offset + HEADER_BYTES
    data = packed.read_bytes()
    packed.write_bytes(data[:at] + b"\xff" * 8 + data[at + 8 :])
    with pytest.raises(InputError, match=rf"^{packed}: part {index + 1}, line 1: .*damaged"):
        recording.stamp_of(index)
    recording.close()


def test_dropped_snapshots_leave_a_gap_but_their_events_are_kept(tmp_path: Path) -> None:
    live = lived(1, 200)
    sink = FileSink(str(tmp_path / "a"))
    recorder = Recorder(sink, Clock(), cmdline="full", min_free_bytes=0)
    for frame in live:
        recorder.put(frame)
    assert recorder.close()
    shown = played(FileRecording(str(tmp_path / "a")))
    assert recorder.state().dropped + len(shown) == len(live)
    events = [e for f in shown for e in f.snapshot.events]
    missing = [e.text for e in events if e.kind == NOT_RECORDED]
    assert sum(int(text.split()[0]) for text in missing) == recorder.state().dropped
    assert all(text.endswith("not written: the disk did not keep up") for text in missing)
    assert sorted(e for e in events if e.kind != NOT_RECORDED) == sorted(e for f in live for e in f.snapshot.events)
    assert shown[-1].sample == live[-1].sample


def test_only_the_names_of_commands_are_written_by_default(tmp_path: Path) -> None:
    live = lived(1, 5)
    recorder = Recorder(FileSink(str(tmp_path / "a")), Clock(), min_free_bytes=0)
    for frame in live:
        recorder.put(frame)
    assert recorder.close()
    assert b"--token" not in (tmp_path / "a").read_bytes()
    redactor = Redactor("names")
    assert [f.snapshot for f in played(FileRecording(str(tmp_path / "a")))] == [
        redactor.snapshot(f.snapshot) for f in live
    ]


def test_a_file_cut_anywhere_opens_or_is_refused(tmp_path: Path) -> None:
    live = lived(1, 3)
    record(tmp_path / "a", live)
    whole = (tmp_path / "a").read_bytes()
    cut = tmp_path / "cut"
    messages: set[str] = set()
    for length in range(0, len(whole), 211):
        cut.write_bytes(whole[:length])
        try:
            shown = played(FileRecording(str(cut)))
        except InputError as error:
            messages.add(str(error))
        else:
            assert shown == live[: len(shown)]
    assert messages
    assert not any("\n" in line for line in messages)
