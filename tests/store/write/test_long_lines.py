"""A writer writes no line that a reader would refuse, however long the command lines are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.frame import Frame
from iotop_ai.model.snapshot import MOST_EVENTS, NOT_RECORDED, Event
from iotop_ai.pipeline import frames
from iotop_ai.store.format import codec, size_limits
from iotop_ai.store.format.codec import Encoder, SnapLine
from iotop_ai.store.format.line_head import is_snap, with_pre, with_previous_length
from iotop_ai.store.format.redact import command_names
from iotop_ai.store.format.size_limits import LineTooLong
from iotop_ai.store.last_hour import Ring
from iotop_ai.store.read.file import FileRecording
from iotop_ai.store.write.recorder import ARGUMENTS_LEFT_OUT, Recorder
from iotop_ai.store.write.sink import FileSink
from tests.bench.server import Server

COMMAND = ("python3", "train.py", *(f"--path=/data/shard-{i:04}-\u00e9" for i in range(16)))


def machine(processes: int, count: int = 3) -> Iterator[Frame]:
    """Frames of a machine on which each process has a command line of about 500 bytes."""
    server = Server("two", processes=processes, gpus=1, disks=2, cores=4)
    server.info = {key: info._replace(cmdline=COMMAND) for key, info in server.info.items()}
    return frames(server.snapshot() for _ in range(count))


def recorded(path: Path, live: list[Frame], level: str = "full") -> Recorder:
    recorder = Recorder(FileSink(str(path)), Clock(), cmdline=level, min_free_bytes=0)
    for frame in live:
        recorder.put(frame)
    assert recorder.close(60)
    return recorder


def commands(item: SnapLine) -> set[tuple[str, ...]]:
    table = item.snapshot.processes.value
    assert table is not None
    return {info.cmdline for info in table.info.values()}


def only_names_are_recorded(path: Path, processes: int) -> None:
    recorder = recorded(path, list(machine(processes, 2)))
    assert recorder.state()[3:6] == (2, 0, "")
    items = list(FileRecording(str(path)).lines())
    snaps = [item for item in items if isinstance(item, SnapLine)]
    assert [commands(snap) for snap in snaps] == [{command_names(COMMAND)}] * 2
    events = [(event.kind, event.text) for snap in snaps for event in snap.snapshot.events]
    assert events.count((NOT_RECORDED, ARGUMENTS_LEFT_OUT)) == 1


@pytest.mark.slow
def test_a_recording_of_40_000_long_command_lines_can_be_read(tmp_path: Path) -> None:
    only_names_are_recorded(tmp_path / "a.iotop.jsonl", 40_000)


def test_a_flood_of_events_is_cut_to_the_number_that_a_reader_accepts(tmp_path: Path) -> None:
    path = tmp_path / "a.iotop.jsonl"
    first, second = machine(3, 2)
    marks = tuple(Event(i, i, "mark", str(i)) for i in range(9_000))
    recorded(path, [first, second._replace(snapshot=second.snapshot._replace(events=marks))])
    *kept, note = (item for item in FileRecording(str(path)).lines() if isinstance(item, Event))
    assert [event.text for event in kept] == [str(i) for i in range(9_000 - MOST_EVENTS + 1, 9_000)]
    assert (note.kind, note.text) == (NOT_RECORDED, f"5001 events not kept: more than {MOST_EVENTS} in one snapshot")


def test_a_block_that_grows_too_large_is_ended_by_a_keyframe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, largest = tmp_path / "a.iotop.jsonl", 300_000
    monkeypatch.setattr(codec, "KEYFRAME_BYTES", largest // 2)
    monkeypatch.setattr(size_limits, "LARGEST_BLOCK", largest)
    snapshots = []
    for n, frame in enumerate(machine(60, 30)):
        table = frame.snapshot.processes.value
        assert table is not None
        info = {key: one._replace(cmdline=(*COMMAND, f"--step={n}")) for key, one in table.info.items()}
        snapshots.append(
            frame.snapshot._replace(processes=frame.snapshot.processes._replace(value=table._replace(info=info)))
        )
    recorded(path, list(frames(snapshots)))
    recording = FileRecording(str(path))
    assert [item.snapshot for item in recording.lines() if isinstance(item, SnapLine)] == snapshots
    assert len(recording.blocks) > 2


@pytest.fixture
def short_limit(monkeypatch: pytest.MonkeyPatch) -> int:
    """Set a limit for lines that 200 processes exceed with arguments, but not with names alone."""
    limit = 80_000
    for module in (codec, size_limits):
        monkeypatch.setattr(module, "LONGEST_LINE", limit)
    return limit


def test_a_recording_has_only_names_if_lines_would_be_too_long(tmp_path: Path, short_limit: int) -> None:
    path = tmp_path / "a.iotop.jsonl"
    only_names_are_recorded(path, 200)
    assert max(map(len, path.read_bytes().split(b"\n"))) <= short_limit


def test_earlier_moments_have_only_names_if_lines_would_be_too_long(short_limit: int) -> None:
    ring = Ring()
    live = list(machine(200))
    for frame in live:
        ring.put(frame)
    assert ring.drain(60)  # ``recording`` waits only briefly
    recording = ring.recording()
    ring.close()
    assert ring.state().trouble == ""
    assert recording is not None
    snaps = [item for item in recording.lines() if isinstance(item, SnapLine)]
    assert [snap.snapshot.seq for snap in snaps] == [frame.snapshot.seq for frame in live]
    assert [commands(snap) for snap in snaps] == [{command_names(COMMAND)}] * 3
    assert max(len(line) for block in recording.blocks for line in recording.raw_lines(block)) <= short_limit


def test_a_line_has_room_for_the_fields_that_are_added_later(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = next(machine(3, 1))
    keyframe = next(line for line in Encoder().lines(frame) if is_snap(line))
    longest = len(with_pre(with_previous_length(keyframe, 10**15 - 1)).encode())
    monkeypatch.setattr(codec, "LONGEST_LINE", longest)
    assert keyframe in Encoder().lines(frame)
    monkeypatch.setattr(codec, "LONGEST_LINE", longest - 1)
    with pytest.raises(LineTooLong):
        Encoder().lines(frame)


def test_a_snapshot_that_is_too_long_even_with_names_is_not_written(tmp_path: Path, short_limit: int) -> None:
    path = tmp_path / "a.iotop.jsonl"
    recorder = recorded(path, list(machine(1000)))
    state = recorder.state()
    assert (state.snapshots, state.dropped) == (0, 3)
    assert state.trouble == "not recording: a snapshot is larger than 0 MiB"
    assert max(map(len, path.read_bytes().split(b"\n"))) <= short_limit
