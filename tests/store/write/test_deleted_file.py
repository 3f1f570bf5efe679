"""A file that is deleted while it is written: the recording continues under its name, and says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.pipeline import frames
from iotop_ai.store.format.codec import SnapLine
from iotop_ai.store.read.file import FileRecording
from iotop_ai.store.write import recorder as recorder_module
from iotop_ai.store.write.recorder import DELETED, Recorder, Rotation
from iotop_ai.store.write.rotation import Rotator, full_files
from iotop_ai.store.write.sink import FileSink
from tests.clocks import ShiftedClock
from tests.store.scenario import session
from tests.store.write.test_recorder_failing import put


def newest_seq(path: Path) -> int:
    return [item.snapshot.seq for item in FileRecording(str(path)).lines() if isinstance(item, SnapLine)][-1]


def test_after_a_deletion_the_recording_continues_under_the_same_name(tmp_path: Path) -> None:
    live = list(frames(session(3, 40)))
    path, clock = tmp_path / "run.iotop.jsonl", ShiftedClock()
    recorder = Recorder(FileSink(str(path)), clock, min_free_bytes=0)
    put(recorder, live[:10])
    path.unlink()
    clock.skip(recorder_module.SYNC_S + 1)
    put(recorder, live[10:])
    assert recorder.close()
    state = recorder.state()
    assert (state.path, state.trouble, state.dropped, state.deleted_files) == (str(path), "", 0, 1)
    header = FileRecording(str(path)).header
    assert (header.continues, header.after) == (True, "")
    assert newest_seq(path) == live[-1].snapshot.seq
    assert os.listdir(tmp_path) == [path.name]


def test_a_file_that_is_deleted_just_before_the_end_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "run.iotop.jsonl"
    recorder = Recorder(FileSink(str(path)), Clock(), min_free_bytes=0)
    put(recorder, list(frames(session(3, 3))))
    path.unlink()
    assert recorder.close()
    assert recorder.state().trouble == f"no longer recording: {DELETED}"


def test_a_file_that_an_nfs_client_deletes_while_it_is_open_counts_as_deleted(tmp_path: Path) -> None:
    path = tmp_path / "run.iotop.jsonl"
    sink = FileSink(str(path))
    path.rename(tmp_path / "moved")
    assert not sink.is_deleted()
    (tmp_path / "moved").rename(tmp_path / ".nfs000000000001a2b300000001")
    assert sink.is_deleted()
    sink.close()


@pytest.mark.parametrize("moved", [False, True])
def test_rotation_begins_a_new_file_if_the_full_one_is_missing(tmp_path: Path, moved: bool) -> None:
    live = list(frames(session(2, 100)))
    path = tmp_path / "run.iotop.jsonl"
    reports: list[str] = []
    rotator = Rotator(Clock(), reports.append)
    recorder = Recorder(
        FileSink(str(path)), Clock(), min_free_bytes=0, rotation=Rotation(bytes=20_000), rotate=rotator.next_file
    )
    put(recorder, live[:5])
    if moved:
        path.rename(tmp_path / "moved")
    else:
        path.unlink()
    put(recorder, live[5:])
    assert recorder.close()
    assert rotator.finish(None, 60)
    assert newest_seq(path) == live[-1].snapshot.seq
    assert full_files(str(path))
    assert reports == [f"{path} was moved or deleted; continuing in a new file of that name"]
