"""A disk that returns EIO or hangs: what the recording then contains, its gap, and how it continues."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.model.frame import Frame
from iotop_ai.model.snapshot import NOT_RECORDED, Event
from iotop_ai.pipeline import frames
from iotop_ai.sources.recorded.rotated_parts import open_chain
from iotop_ai.store.format.codec import SnapLine
from iotop_ai.store.read.file import FileRecording
from iotop_ai.store.write import recorder as recorder_module
from iotop_ai.store.write.frame_queue import MOST_FRAMES, MOST_ORPHANED_EVENTS, FrameQueue
from iotop_ai.store.write.recorder import Recorder
from iotop_ai.store.write.retries import LONGEST_PAUSE_S, PAUSES_S, Retries
from iotop_ai.store.write.sink import FileSink
from tests.clocks import ShiftedClock
from tests.rigs.slowdisk import FailingFolder, why_no_fuse_disk
from tests.store.scenario import session
from tests.waiting import until


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[FailingFolder]:
    if why := why_no_fuse_disk():
        pytest.skip(why)
    with FailingFolder(tmp_path) as rig:
        yield rig


def put(recorder: Recorder, some: list[Frame]) -> None:
    """Put Frames into the recorder, each after the previous one has been handled."""
    for frame in some:
        before = recorder.state()[3:5]
        recorder.put(frame)
        until(lambda before=before: recorder.state()[3:5] != before)


def missing(path: Path) -> list[str]:
    return [event.text for event in FileRecording(str(path)).events() if event.kind == NOT_RECORDED]


def own_seqs(path: Path) -> list[int]:
    """The sequence numbers of the Snapshots in a file, without those of its pre-roll."""
    return [
        item.snapshot.seq for item in FileRecording(str(path)).lines() if isinstance(item, SnapLine) and not item.pre
    ]


def test_a_temporary_error_leaves_a_gap_with_its_reason(rig: FailingFolder) -> None:
    live = list(frames(session(3, 40)))
    path, clock = rig.folder / "run.iotop.jsonl", ShiftedClock()
    recorder = Recorder(FileSink(str(path)), clock, cmdline="full", min_free_bytes=0)
    put(recorder, live[:10])
    rig.set("eio")
    put(recorder, live[10:17])
    assert recorder.state().trouble == "not recording: Input/output error"
    for line in (rig.behind / path.name).read_bytes().splitlines():
        json.loads(line)
    rig.set()
    clock.skip(1)
    put(recorder, live[17:])
    assert recorder.close()
    assert recorder.state().trouble == ""
    assert [p.name for p in rig.behind.iterdir()] == [path.name]
    assert own_seqs(path) == [f.snapshot.seq for f in (*live[:10], *live[17:])]
    assert missing(path) == ["7 snapshots not written: Input/output error"]
    recording = FileRecording(str(path))
    assert recording.closed()
    assert [
        i.gap for i in recording.lines() if isinstance(i, SnapLine) and i.snapshot.seq == live[17].snapshot.seq
    ] == [True]
    events = [e for e in recording.events() if e.kind != NOT_RECORDED]
    assert events == [e for f in live for e in f.snapshot.events]
    assert list(frames(recording.items()))[-1].sample == live[-1].sample


def test_after_a_permanent_error_the_recording_continues_in_a_new_file(rig: FailingFolder) -> None:
    live = list(frames(session(4, 60)))
    path, clock = rig.folder / "run.iotop.jsonl", ShiftedClock()
    recorder = Recorder(FileSink(str(path)), clock, cmdline="full", min_free_bytes=0)
    put(recorder, live[:20])
    rig.set("eio", path.name)
    for number in range(len(PAUSES_S) + 1):
        put(recorder, live[20 + number : 21 + number])
        clock.skip(LONGEST_PAUSE_S)
    put(recorder, live[26:])
    second = rig.folder / "run-2.iotop.jsonl"
    assert recorder.state().path == str(second)
    assert recorder.state().trouble == ""
    assert recorder.close()
    assert own_seqs(path) == [f.snapshot.seq for f in live[:20]]
    assert own_seqs(second) == [f.snapshot.seq for f in live[26:]]
    assert missing(second) == ["6 snapshots not written: Input/output error"]
    header = FileRecording(str(second)).header
    assert (header.continues, header.after) == (True, path.name)
    assert len(open_chain(str(second))) == 1
    shown = list(frames(FileRecording(str(second)).items()))
    assert shown[-1].sample == live[-1].sample
    assert shown[-1].history == live[-1].history or len(shown[-1].history) < len(live[-1].history)
    assert shown[-1].carry == live[-1].carry


def test_a_new_file_that_is_still_empty_is_tried_again(rig: FailingFolder) -> None:
    live = list(frames(session(5, 40)))
    path, clock = rig.folder / "run.iotop.jsonl", ShiftedClock()
    recorder = Recorder(FileSink(str(path)), clock, cmdline="full", min_free_bytes=0)
    put(recorder, live[:5])
    rig.set("eio")
    for frame in live[5:25]:
        put(recorder, [frame])
        clock.skip(LONGEST_PAUSE_S)
    assert sorted(p.name for p in rig.behind.iterdir()) == ["run-2.iotop.jsonl", "run.iotop.jsonl"]
    rig.set()
    put(recorder, live[25:])
    assert recorder.close()
    assert missing(rig.folder / "run-2.iotop.jsonl") == ["20 snapshots not written: Input/output error"]
    assert recorder.state().dropped == 20


def test_a_new_file_is_found_by_its_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    old = FileSink("run.iotop.jsonl")
    monkeypatch.chdir("/")  # as if the current folder were in a mount that does not answer any more
    new = old.replacement()
    assert new is not None
    assert new.path == str(tmp_path / "run-2.iotop.jsonl")
    old.close()
    new.close()


def test_after_a_failed_fsync_a_new_file_is_begun(rig: FailingFolder) -> None:
    live = list(frames(session(6, 20)))
    path, clock = rig.folder / "run.iotop.jsonl", ShiftedClock()
    recorder = Recorder(FileSink(str(path)), clock, cmdline="full", min_free_bytes=0)
    put(recorder, live[:5])
    rig.set("sync", path.name)
    clock.skip(recorder_module.SYNC_S + 1)
    put(recorder, live[5:])
    assert recorder.close()
    assert own_seqs(path) == [f.snapshot.seq for f in live[:6]]
    assert own_seqs(rig.folder / "run-2.iotop.jsonl") == [f.snapshot.seq for f in live[6:]]
    assert recorder.state().dropped == 0


def test_if_no_file_can_be_synced_a_new_one_is_tried_once_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS over quota: the page cache takes each write, and only the sync fails."""

    def fail(sink: FileSink) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(FileSink, "sync", fail)
    clock = ShiftedClock()
    recorder = Recorder(FileSink(str(tmp_path / "run.iotop.jsonl")), clock, cmdline="full", min_free_bytes=0)
    for frame in frames(session(6, 120)):
        put(recorder, [frame])
        clock.skip(5)
    assert recorder.close()
    assert 3 <= len(os.listdir(tmp_path)) <= 12
    assert recorder.state().dropped > 0


@pytest.mark.xdist_group("a hung filesystem")
def test_a_hung_disk_is_reported_and_the_number_of_waiting_events_is_limited(rig: FailingFolder) -> None:
    live = list(frames(session(7, 12)))
    path, clock = rig.folder / "run.iotop.jsonl", ShiftedClock()
    recorder = Recorder(FileSink(str(path)), clock, cmdline="full", min_free_bytes=0)
    put(recorder, live[:2])
    rig.set("hang")
    recorder.put(live[2])
    until(lambda: recorder._busy_ns is not None)
    clock.skip(6)
    assert recorder.state().trouble == "not recording: its disk does not answer"
    flood = tuple(Event(1, 1, "io_error", f"sda {n}") for n in range(150))
    busy = live[3]._replace(snapshot=live[3].snapshot._replace(events=flood))
    for _ in range(MOST_FRAMES + 10):
        recorder.put(busy)
    for frame in live[4:]:
        recorder.put(frame)
    state = recorder.state()
    assert state.dropped == 10 + len(live[4:])
    assert state.dropped_events == state.dropped * len(flood) - MOST_ORPHANED_EVENTS > 0
    rig.set()
    assert recorder.close(60)
    assert missing(path) == [
        f"{state.dropped} snapshots and {state.dropped_events} events not written: the disk did not keep up"
    ]


def test_pauses_between_tries_grow_up_to_a_limit() -> None:
    retries, now, waited = Retries(), 0, []
    for _ in range(len(PAUSES_S) + 4):
        waited.append(retries.count_failure(now))
        assert retries.due(now + int(waited[-1] * 1e9))
        assert not waited[-1] or not retries.due(now + int(waited[-1] * 1e9) - 1)
    assert waited == [*PAUSES_S, 0.0, 16.0, 32.0, LONGEST_PAUSE_S]
    assert retries.given_up
    assert [retries.count_failure(now) for _ in range(1100)] == [LONGEST_PAUSE_S] * 1100, (
        "the retries stopped within 17 hours"
    )
    retries.count_write()
    assert not retries.failing
    assert retries.count_failure(now) == LONGEST_PAUSE_S, "a write alone does not prove that the disk works"
    retries.reset()
    assert not retries.failing
    assert retries.count_failure(now) == PAUSES_S[0]


def test_a_full_queue_counts_dropped_frames_and_keeps_the_newest_events() -> None:
    live = next(iter(frames(session(8, 1))))
    queue = FrameQueue(1, 3)
    for number in range(6):
        events = (Event(number, number, "mark", str(number)),)
        queue.put(live._replace(snapshot=live.snapshot._replace(events=events)))
    taken = queue.take()
    assert taken is not None
    assert [event.text for event in (*taken.orphaned_events, *taken.frame.snapshot.events)] == ["2", "3", "4", "5"]
    assert taken.lost == queue.lost == (5, 2)
    queue.lose(taken.frame._replace(snapshot=taken.frame.snapshot._replace(events=taken.orphaned_events)))
    assert queue.lost == (6, 2)
