"""The names of full files, and rotation if no next file can be opened."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.errors import InputError
from iotop_ai.pipeline import frames
from iotop_ai.sources.recorded.rotated_parts import parts_of as shown_parts
from iotop_ai.sources.recorded.source import ReplaySource
from iotop_ai.store.format.codec import SnapLine
from iotop_ai.store.format.line_head import parse_head
from iotop_ai.store.read.file import FileRecording
from iotop_ai.store.write import compress as compress_module
from iotop_ai.store.write import rotation
from iotop_ai.store.write.compress import compress
from iotop_ai.store.write.recorder import Recorder, Rotation
from iotop_ai.store.write.rotation import Rotator, full_files
from iotop_ai.store.write.sink import FileSink, Full, Sink
from tests.store.scenario import lived, rebooted, session

NOON = 1_795_262_400 * 10**9


class Fixed(Clock):
    """A clock whose wall time changes only when a test changes it."""

    now_ns = NOON

    def wall_ns(self) -> int:
        return self.now_ns


def filled_and_rotated(rotator: Rotator, sink: Sink) -> Sink:
    """Write a Snapshot to this file, rotate, and return the next file."""
    recorder = Recorder(sink, Clock(), min_free_bytes=0)
    recorder.put(next(frames(session(1, 2))))
    assert recorder.close()
    return rotator.next_file(sink)


def test_only_parts_are_listed_and_in_order(tmp_path: Path) -> None:
    names = [
        "run.20261121T120000.iotop.jsonl.gz", "run.20261121T120000-2.iotop.jsonl", "run.20261121T120000-10.iotop.jsonl",
        "run.20261122T000000.iotop.jsonl",
    ]  # fmt: skip
    for name in (*names, "run.iotop.jsonl", "run2.20261121T120000.iotop.jsonl", "run.20261121.iotop.jsonl", "run.x"):
        (tmp_path / name).touch()
    assert full_files(str(tmp_path / "run.iotop.jsonl")) == [str(tmp_path / name) for name in names]


@pytest.mark.parametrize("name", ["run.iotop.jsonl", "run.jsonl", "run", "run.dat", "run.gz", "run.jsonl.gz"])
def test_the_parts_of_any_name_are_read_again(tmp_path: Path, name: str) -> None:
    path, clock, reports = str(tmp_path / name), Fixed(), []
    live = lived(2, 40)
    rotator = Rotator(clock, reports.append)
    recorder = Recorder(
        FileSink(path),
        clock,
        cmdline="full",
        min_free_bytes=0,
        rotation=Rotation(bytes=20_000),
        rotate=rotator.next_file,
    )
    for frame in live:
        recorder.put(frame)
    assert recorder.close()
    assert rotator.finish(None, 60)
    assert len(full_files(path)) >= 2
    assert shown_parts(path) == full_files(path)
    assert list(frames(ReplaySource(path))) == live
    assert reports == []


class _Quota(FileSink):
    """A file of which a user's quota accepts only short writes."""

    def write(self, data: bytes) -> None:
        if len(data) > 20_000:
            raise Full("Disk quota exceeded")
        super().write(data)


def test_a_file_begins_without_its_preroll_if_only_that_does_not_fit(tmp_path: Path) -> None:
    """The pre-roll is the whole last minute, and often the largest write of a file."""
    path, live = tmp_path / "run.iotop.jsonl", lived(2, 60)

    def rotated(full: Sink) -> Sink:
        os.rename(path, tmp_path / f"run.{len(os.listdir(tmp_path))}")
        full.close()
        return _Quota(str(path))

    recorder = Recorder(
        FileSink(str(path)), Clock(), cmdline="full", min_free_bytes=0, rotation=Rotation(bytes=30_000), rotate=rotated
    )
    for frame in live:
        recorder.put(frame)
    assert recorder.close()
    assert (recorder.state().dropped, recorder.state().trouble) == (0, "")
    newest = FileRecording(str(path))
    assert newest.header.continues
    assert not any(isinstance(item, SnapLine) and item.pre for item in newest.lines())


def test_the_hook_also_runs_for_a_file_that_an_error_ended(tmp_path: Path) -> None:
    """The recording then continues under another name, whose older files count together with those before."""
    shipped = tmp_path / "shipped"
    rotator = Rotator(Fixed(), print, keep=1, hook=("/bin/sh", "-c", f'basename "$IOTOP_AI_FILE" >> {shipped}'))
    first = filled_and_rotated(rotator, FileSink(str(tmp_path / "run.iotop.jsonl")))
    first.close()
    rotator.take_left(first.path)
    filled_and_rotated(rotator, FileSink.new(str(tmp_path / "run.iotop.jsonl"))).close()
    assert rotator.finish(None, 60)
    names = shipped.read_text().split()
    assert names[1] == "run.iotop.jsonl"
    assert names[0].startswith("run.2")
    assert names[2].startswith("run-2.2")
    assert not (tmp_path / names[0]).exists()
    assert (tmp_path / names[2]).exists()


def test_two_full_files_in_a_second_do_not_overwrite_each_other(tmp_path: Path) -> None:
    path, reports = tmp_path / "run.iotop.jsonl", []
    rotator = Rotator(Fixed(), reports.append)
    sink: Sink = FileSink(str(path))
    for _ in range(2):
        sink = filled_and_rotated(rotator, sink)
    assert rotator.finish(None, 60)
    assert [Path(part).name for part in full_files(str(path))] == [
        "run.20261121T120000.iotop.jsonl.gz", "run.20261121T120001.iotop.jsonl.gz",
    ]  # fmt: skip
    assert reports == []


def test_dot_dot_after_a_link_leads_up_from_the_target_of_the_link(tmp_path: Path) -> None:
    inside, other, reports = tmp_path / "data" / "runs", tmp_path / "run.iotop.jsonl", []
    inside.mkdir(parents=True)
    (tmp_path / "link").symlink_to(inside)
    other.write_text("another file\n")
    rotator = Rotator(Fixed(), reports.append)
    filled_and_rotated(rotator, FileSink(str(tmp_path / "link/../run.iotop.jsonl")))
    assert rotator.finish(None, 60)
    assert other.read_text() == "another file\n"
    assert [path.name for path in sorted((tmp_path / "data").glob("run.*"))] == [
        "run.20261121T120000.iotop.jsonl.gz", "run.iotop.jsonl",
    ]  # fmt: skip
    assert reports == []


def test_no_part_is_removed_before_its_hook_ran_even_if_the_clock_is_set_back(tmp_path: Path) -> None:
    path, shipped, reports = tmp_path / "run.iotop.jsonl", tmp_path / "shipped", []
    shipped.mkdir()
    clock = Fixed()
    hook = ("/bin/sh", "-c", f'cp "$IOTOP_AI_FILE" {shipped}')
    rotator = Rotator(clock, reports.append, keep=2, hook=hook)
    sink: Sink = FileSink(str(path))
    for minutes in (0, 10, 20, -100, -90, -80):
        clock.now_ns = NOON + minutes * 60 * 10**9
        sink = filled_and_rotated(rotator, sink)
    sink.close()
    assert rotator.finish(None, 60)
    names = [f"run.20261121T12{time}.iotop.jsonl.gz" for time in ("0000", "1000", "2000", "2001", "2002", "2003")]
    assert sorted(part.name for part in shipped.iterdir()) == names
    assert [Path(part).name for part in full_files(str(path))] == names[-2:]
    assert reports == []


def test_a_name_without_a_valid_time_does_not_stop_the_rotation(tmp_path: Path) -> None:
    path = tmp_path / "run.iotop.jsonl"
    (tmp_path / "run.99999999T999999.iotop.jsonl").touch()
    rotator = Rotator(Fixed(), print)
    rotator.next_file(FileSink(str(path))).close()
    assert rotator.finish(None, 60)
    assert len(full_files(str(path))) == 2


def test_a_file_without_a_keyframe_is_not_packed(tmp_path: Path) -> None:
    path = tmp_path / "run.iotop.jsonl"
    recorder = Recorder(FileSink(str(path)), Clock(), min_free_bytes=0)
    recorder.put(next(frames(session(1, 2))))
    assert recorder.close()
    header = path.read_bytes().splitlines(keepends=True)[0]
    path.write_bytes(header)
    with pytest.raises(InputError, match="no complete keyframe"):
        compress(str(path))
    assert path.read_bytes() == header
    assert os.listdir(tmp_path) == [path.name]


def test_the_packer_writes_no_control_character(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run\x1b[31m.iotop.jsonl"
    path.write_text("no recording\n")
    monkeypatch.setattr(sys, "argv", ["compress", str(path)])
    monkeypatch.setattr(compress_module, "lower_priority", lambda: None)
    assert compress_module.main() == 2
    error = capsys.readouterr().err
    assert "not a recording" in error
    assert error.removesuffix("\n").isprintable()


def test_the_preroll_is_of_the_newest_boot(tmp_path: Path) -> None:
    frame, *later = rebooted()[-70:]
    earlier = frame.snapshot.host._replace(boot_id="long uptime")
    first = frame._replace(snapshot=frame.snapshot._replace(at_ns=frame.snapshot.at_ns + 10**16, host=earlier))
    recorder = Recorder(FileSink(str(tmp_path / "a")), Clock(), min_free_bytes=0, keyframe_every=5)
    for one in (first, frame, *later):
        recorder.put(one)
    assert recorder.close()
    at_ns = [head.at_ns for line in recorder.preroll() if (head := parse_head(line.encode())) is not None]
    assert later[-1].snapshot.at_ns - 66e9 <= at_ns[0]
    assert at_ns == sorted(at_ns)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make another user's files")
def test_files_of_another_user_do_not_count_as_parts(tmp_path: Path) -> None:
    path, reports = tmp_path / "run.iotop.jsonl", []
    for name in ("run.29991231T000000.iotop.jsonl", "run.20000101T000000.iotop.jsonl"):
        (tmp_path / name).write_text("theirs")
        os.chown(tmp_path / name, 65534, 65534)
    rotator = Rotator(Fixed(), reports.append, keep=1)
    sink: Sink = FileSink(str(path))
    for _ in range(2):
        sink = filled_and_rotated(rotator, sink)
    sink.close()
    assert rotator.finish(None, 60)
    ours = ["run.20261121T120001.iotop.jsonl.gz", "run.iotop.jsonl"]
    assert sorted(p.name for p in tmp_path.iterdir() if p.stat().st_uid == 0) == ours
    assert len(list(tmp_path.iterdir())) == 4
    assert shown_parts(str(path)) == [str(tmp_path / ours[0])]
    assert reports == []


def test_without_a_next_file_the_old_file_continues(tmp_path: Path) -> None:
    path = tmp_path / "run"
    live = list(frames(session(2, 100)))
    refused_paths = []

    def refuse(full: Sink) -> Sink:
        refused_paths.append(full.path)
        raise InputError("no room")

    recorder = Recorder(
        FileSink(str(path)), Clock(), cmdline="full", min_free_bytes=0, rotation=Rotation(bytes=20_000), rotate=refuse
    )
    for frame in live:
        recorder.put(frame)
    assert recorder.close()
    assert refused_paths
    assert recorder.state().trouble == ""
    assert list(frames(FileRecording(str(path)).items())) == live


@pytest.mark.parametrize("rotation", [Rotation(bytes=60_000), Rotation(seconds=86_400)])
def test_a_restart_does_not_reset_the_size_and_age_of_a_file(tmp_path: Path, rotation: Rotation) -> None:
    """The recorder of each day writes less than the limit, and ends."""
    path, reports, clock = tmp_path / "run.iotop.jsonl", [], Fixed()
    rotator = Rotator(clock, reports.append)
    live = lived(2, 20)
    for day in range(3):
        clock.now_ns = live[0].snapshot.wall_ns + day * 50_000 * 10**9
        sink = FileSink(str(path), append=True)
        recorder = Recorder(
            sink, clock, min_free_bytes=0, rotation=rotation, rotate=rotator.next_file, begun_wall_ns=sink.begun_wall_ns
        )
        for frame in live:
            recorder.put(frame)
        assert recorder.close()
    assert rotator.finish(None, 60)
    assert full_files(str(path))
    assert reports == []


def test_a_closed_recording_can_be_continued_while_a_packer_is_being_started(tmp_path: Path) -> None:
    """Until its exec, the packer has a copy of the descriptor of the file that is being written."""
    path = str(tmp_path / "run.iotop.jsonl")
    sink = FileSink(path)
    (fd,) = (int(fd) for fd in os.listdir("/proc/self/fd") if os.path.realpath(f"/proc/self/fd/{fd}") == path)
    copy = os.dup(fd)
    sink.close()
    FileSink(path, append=True).close()
    os.close(copy)


def test_a_file_whose_first_header_is_in_the_future_is_new(tmp_path: Path) -> None:
    path, clock = tmp_path / "run.iotop.jsonl", Fixed()

    def refuse(full: Sink) -> Sink:
        raise AssertionError(full.path)

    clock.now_ns = 0
    for _ in range(2):
        sink = FileSink(str(path), append=True)
        recorder = Recorder(
            sink,
            clock,
            min_free_bytes=0,
            rotation=Rotation(seconds=60),
            rotate=refuse,
            begun_wall_ns=sink.begun_wall_ns,
        )
        for frame in lived(2, 20):
            recorder.put(frame)
        assert recorder.close()
        assert recorder.state().trouble == ""


def test_a_file_that_another_program_creates_under_the_name_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.iotop.jsonl"

    def open_late(name: str) -> FileSink:
        Path(name).write_text("theirs")
        return FileSink(name)

    monkeypatch.setattr(rotation, "FileSink", open_late)
    rotator, sink = Rotator(Fixed(), print), FileSink(str(path))
    with pytest.raises(InputError, match=f"another program has created {path}"):
        filled_and_rotated(rotator, sink)
    assert path.read_text() == "theirs"
    assert sink.path == str(tmp_path / "run.20261121T120000.iotop.jsonl")
    assert sink.is_named()
    monkeypatch.undo()
    rotator.next_file(sink).close()
    assert rotator.finish(None, 60)
    assert path.read_text() == "theirs"


def test_the_full_file_gets_its_name_back_if_there_is_no_next_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str) -> FileSink:
        raise InputError("no room")

    monkeypatch.setattr(rotation, "FileSink", fail)
    rotator, sink = Rotator(Fixed(), print), FileSink(str(tmp_path / "run.iotop.jsonl"))
    with pytest.raises(InputError, match="no room"):
        rotator.next_file(sink)
    assert sink.is_named()
    assert os.listdir(tmp_path) == ["run.iotop.jsonl"]
    assert rotator.finish(None, 60)


def test_a_hook_that_cannot_start_is_named(tmp_path: Path) -> None:
    reports: list[str] = []
    rotator = Rotator(Fixed(), reports.append, hook=(str(tmp_path / "gone"),))
    path = tmp_path / "run.iotop.jsonl"
    filled_and_rotated(rotator, FileSink(str(path)))
    assert rotator.finish(None, 60)
    (full,) = full_files(str(path))
    assert reports == [f"the hook {tmp_path}/gone did not run for {os.path.basename(full)}: No such file or directory"]


def test_the_hook_runs_even_if_an_old_part_cannot_be_removed(tmp_path: Path) -> None:
    """A folder with the name of a part stands for a file that cannot be removed."""
    reports: list[str] = []
    (tmp_path / "run.20200101T000000.iotop.jsonl").mkdir()
    shipped = tmp_path / "shipped"
    hook = ("/bin/sh", "-c", f'basename "$IOTOP_AI_FILE" >> {shipped}')
    rotator = Rotator(Fixed(), reports.append, keep=1, hook=hook)
    filled_and_rotated(rotator, FileSink(str(tmp_path / "run.iotop.jsonl"))).close()
    assert rotator.finish(None, 60)
    assert shipped.read_text() == "run.20261121T120000.iotop.jsonl.gz\n"
    assert reports == ["run.20200101T000000.iotop.jsonl: Is a directory"]


@pytest.mark.parametrize(
    ("python", "why"),
    [("/gone/python", "No such file or directory"), ("", "this Python does not know its own path")],
)
def test_without_a_packer_old_parts_are_removed_and_the_hook_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python: str, why: str
) -> None:
    monkeypatch.setattr(sys, "executable", python)
    path, shipped, reports = tmp_path / "run.iotop.jsonl", tmp_path / "shipped", []
    hook = ("/bin/sh", "-c", f'basename "$IOTOP_AI_FILE" >> {shipped}')
    rotator = Rotator(Fixed(), reports.append, keep=1, hook=hook)
    sink: Sink = FileSink(str(path))
    for _ in range(3):
        sink = filled_and_rotated(rotator, sink)
    sink.close()
    assert rotator.finish(None, 60)
    names = [f"run.20261121T12000{second}.iotop.jsonl" for second in range(3)]
    assert shipped.read_text().splitlines() == names
    assert full_files(str(path)) == [str(tmp_path / names[-1])]
    stays = "could not be packed and stays as it is"
    assert reports == [line for name in names for line in (f"{name}: {why}", f"{name} {stays}")]


def test_a_rotation_removes_what_a_killed_packer_left(tmp_path: Path) -> None:
    path, reports = tmp_path / "run.iotop.jsonl", []
    left, busy = (f"run.20261120T12000{second}.iotop.jsonl.gz.part" for second in range(2))
    others = ("mine.gz.part", "run2.20261120T120000.iotop.jsonl.gz.part")
    for name in (left, busy, *others):
        (tmp_path / name).write_text("half a file")
    rotator = Rotator(Fixed(), reports.append)
    with (tmp_path / busy).open("r+") as packer:
        fcntl.flock(packer, fcntl.LOCK_EX)
        filled_and_rotated(rotator, FileSink(str(path))).close()
        assert rotator.finish(None, 60)
    names = {busy, *others, "run.20261121T120000.iotop.jsonl.gz", path.name}
    assert set(os.listdir(tmp_path)) == names
    assert reports == []
