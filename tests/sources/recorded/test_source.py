"""A replay gives the same Frames as the recorded session, from a file, a chain, a stream or a growing file."""

from __future__ import annotations

import errno
import os
import re
import resource
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.errors import InputError, UsageError
from iotop_ai.model.frame import Frame
from iotop_ai.pipeline import frames
from iotop_ai.sources.recorded import rotated_parts
from iotop_ai.sources.recorded.rotated_parts import next_part, parts_of
from iotop_ai.sources.recorded.source import ReplaySource
from iotop_ai.store.write.compress import compress
from iotop_ai.store.write.recorder import Recorder, Rotation
from iotop_ai.store.write.sink import FileSink
from tests.cli.program import PLAIN, TOP, command
from tests.store.scenario import lived

RECORDING = Path(__file__).parents[2] / "data" / "recordings" / "format-1.iotop.jsonl.gz"
pytestmark = pytest.mark.xdist_group("recorded source")  # the tests share their recording, so one worker runs them all

STAMPS = [f"20261121T09{i:02}00" for i in range(60)]


def source(path: Path | str, **options: object) -> ReplaySource:
    return ReplaySource(str(path), allow_root=True, **options)  # type: ignore[arg-type]


class Rotated:
    """Writes Frames to a live file that is rotated at this size in bytes (None: never)."""

    def __init__(self, path: Path, size: int | None = 25_000) -> None:
        self.path = path
        self.parts: list[Path] = []
        options = {} if size is None else {"rotation": Rotation(bytes=size), "rotate": self._next}
        self.recorder = Recorder(FileSink(str(path)), Clock(), cmdline="full", min_free_bytes=0, **options)  # type: ignore[arg-type]
        self.put_count = 0

    def _next(self, sink: object) -> FileSink:
        sink.close()  # type: ignore[attr-defined]
        self.parts.append(self.path.with_name(f"a.{STAMPS[len(self.parts)]}.iotop.jsonl"))
        self.path.rename(self.parts[-1])
        return FileSink(str(self.path))

    def write(self, live: list[Frame]) -> None:
        for frame in live:
            self.recorder.put(frame)
            self.put_count += 1
            while self.put_count - self.recorder.state().snapshots > 50:
                time.sleep(0.002)

    def close(self) -> None:
        assert self.recorder.close()
        assert self.recorder.state().trouble == ""


@pytest.fixture(scope="module")
def live() -> list[Frame]:
    return lived(11, 110)


def written(path: Path, live: list[Frame], size: int | None = 25_000) -> list[Path]:
    rotated = Rotated(path, size)
    rotated.write(live)
    rotated.close()
    return rotated.parts


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory, live: list[Frame]) -> Path:
    """The live file of a rotated recording. A test that changes a part first copies the folder."""
    path = tmp_path_factory.mktemp("chain") / "a.iotop.jsonl"
    assert len(written(path, live)) >= 3
    return path


def copied(chain: Path, folder: Path) -> tuple[Path, list[Path]]:
    """Copy the chain. Returns the live file of the copy and its older parts, oldest first."""
    shutil.copytree(chain.parent, folder, dirs_exist_ok=True)
    path = folder / chain.name
    return path, sorted(set(folder.iterdir()) - {path})


def test_a_file_gives_the_frames_that_were_live(tmp_path: Path, live: list[Frame]) -> None:
    written(tmp_path / "a.iotop.jsonl", live, None)
    replay = source(tmp_path / "a.iotop.jsonl")
    assert replay.span() == (live[0].snapshot.wall_ns, live[-1].snapshot.wall_ns)
    assert list(frames(replay)) == live
    assert replay.header is not None
    assert replay.header.host == "h"


def test_the_live_file_stands_for_the_whole_chain(tmp_path: Path, chain: Path, live: list[Frame]) -> None:
    path, parts = copied(chain, tmp_path)
    assert len(parts) >= 3
    compress(str(parts[0]))
    (tmp_path / "b.20261121T090000.iotop.jsonl").write_text("another recording")
    assert [os.path.basename(p) for p in parts_of(str(path))][:2] == [parts[0].name + ".gz", parts[1].name]
    assert list(frames(source(path))) == live


@pytest.fixture(scope="module")
def many_parts(tmp_path_factory: pytest.TempPathFactory, live: list[Frame]) -> Path:
    """The live file of a recording with 40 parts."""
    path = tmp_path_factory.mktemp("many") / "a.iotop.jsonl"
    assert len(written(path, live[:41], 1)) == 40
    return path


def test_a_recording_with_more_parts_than_the_soft_limit_of_open_files_is_read(
    many_parts: Path, live: list[Frame]
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + 20, limits[1]))
    try:
        read_again = list(frames(source(many_parts)))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert read_again == live[:41]


def test_more_parts_than_the_hard_limit_of_open_files_are_an_input_error(many_parts: Path) -> None:
    limited = ("sh", "-c", 'ulimit -n 24; exec "$@"', "sh", *command("diagnose", "--allow-root", str(many_parts)))
    done = subprocess.run(limited, cwd=TOP, env=PLAIN, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert re.fullmatch(
        r"input: .*/a\.20261121T09\d{4}\.iotop\.jsonl: more open files than the limit of 24 \(ulimit -n\) allows\n",
        done.stderr,
    )


def test_a_clock_that_was_set_back_does_not_break_the_chain(tmp_path: Path, live: list[Frame]) -> None:
    hour_ns = 3600 * 10**9
    few = live[:40]  # each of them begins a block of its own, and about three of them fill a part
    stepped = [
        frame._replace(snapshot=frame.snapshot._replace(wall_ns=frame.snapshot.wall_ns - i * hour_ns // 60))
        for i, frame in enumerate(few)
    ]
    path = tmp_path / "a.iotop.jsonl"
    names = [*written(path, stepped), path]
    assert len(names) >= 3
    opened = source(path)
    assert [part.header.at_ns for part in opened.parts] == sorted(part.header.at_ns for part in opened.parts)
    assert len(opened.parts) == len(names)
    for before, after in pairwise(opened.parts):
        following = next_part(str(path), before)
        assert following is not None
        assert following.header == after.header
        following.close()
    assert len(list(frames(opened))) == len(few)


def test_a_chain_without_its_oldest_part_begins_with_the_next_part(
    tmp_path: Path, chain: Path, live: list[Frame]
) -> None:
    path, parts = copied(chain, tmp_path)
    parts[0].unlink()
    shown = list(frames(source(path)))
    assert shown == live[-len(shown) :]
    assert 0 < len(shown) < len(live)
    one = list(frames(source(parts[1])))
    assert one == shown[: len(one)]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.55, 0.99])
def test_a_replay_that_starts_later_gives_the_same_frames(chain: Path, live: list[Frame], share: float) -> None:
    at = int(share * len(live))
    replay = source(chain)
    replay.start_at(live[at].snapshot.wall_ns)
    assert list(frames(replay)) == live[at:]


def test_a_stream_is_read_as_it_arrives_and_a_cut_end_is_left_out(tmp_path: Path, live: list[Frame]) -> None:
    written(tmp_path / "a", live[:80], None)
    data = (tmp_path / "a").read_bytes()
    read_end, write_end = os.pipe()
    replay = source("-", fd=read_end)
    stream = frames(replay)
    first = data.index(b"\n", data.index(b'{"k":"snap"')) + 1
    os.write(write_end, data[:first])
    assert next(stream) == live[0]
    torn = data.rstrip(b"\n").rindex(b"\n") - 5
    writer = threading.Thread(target=lambda: (os.write(write_end, data[first:torn]), os.close(write_end)), daemon=True)
    writer.start()
    shown = [live[0], *stream]
    writer.join()
    os.close(read_end)
    assert shown == live[: len(shown)]
    assert len(shown) >= 79
    with pytest.raises(UsageError, match="no known end"):
        replay.span()


def pace(rotated: Rotated, live: list[Frame]) -> None:
    for i in range(0, len(live), 30):
        rotated.write(live[i : i + 30])
        time.sleep(0.05)
    rotated.close()


def test_a_file_that_is_being_written_is_followed_across_rotations(tmp_path: Path, live: list[Frame]) -> None:
    path = tmp_path / "a.iotop.jsonl"
    rotated = Rotated(path)
    rotated.write(live[:30])
    while rotated.recorder.state().snapshots < 1:
        time.sleep(0.002)
    stream = frames(source(path, follow=True))
    shown = [next(stream)]
    writer = threading.Thread(target=pace, args=(rotated, live[30:]), daemon=True)
    writer.start()
    shown += stream
    writer.join()
    assert len(rotated.parts) >= 3
    assert shown == live


def put_back(path: Path, content: bytes) -> None:
    """Restore the live file step by step, as the writer does when it rotates: missing, then a header, then complete."""
    header, _, _ = content.partition(b"\n")
    for part in (header + b"\n", content):
        time.sleep(0.3)
        path.write_bytes(part)


def test_a_recording_can_be_opened_while_it_is_rotated(tmp_path: Path, chain: Path, live: list[Frame]) -> None:
    path, _ = copied(chain, tmp_path)
    content = path.read_bytes()
    path.unlink()
    writer = threading.Thread(target=put_back, args=(path, content), daemon=True)
    writer.start()
    assert list(frames(source(path))) == live
    writer.join()


def test_a_follower_waits_for_the_first_keyframe_of_the_next_file(
    tmp_path: Path, chain: Path, live: list[Frame]
) -> None:
    path, parts = copied(chain, tmp_path)
    content, last = path.read_bytes(), parts[-1].read_bytes()
    parts[-1].unlink()
    path.write_bytes(last)
    stream = frames(source(path, follow=True))
    shown = [next(stream)]
    path.rename(parts[-1])
    path.write_bytes(b"")
    writer = threading.Thread(target=put_back, args=(path, content), daemon=True)
    writer.start()
    shown += stream
    writer.join()
    assert shown == live


@pytest.mark.parametrize("damage", ["folder", "part"])
def test_a_chain_that_cannot_be_opened_keeps_no_file_open(
    tmp_path: Path, chain: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    path, parts = copied(chain, tmp_path)
    if damage == "part":
        parts[-2].write_bytes(b"no recording")
    else:  # as for a user who may enter the folder but not list it; root may always list it

        def refused(_: str) -> list[str]:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(tmp_path))

        monkeypatch.setattr(rotated_parts, "parts_of", refused)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(InputError, match="Permission denied" if damage == "folder" else "not a recording"):
        source(path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_follower_whose_folder_cannot_be_listed_ends_with_an_input_error(
    tmp_path: Path, chain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = copied(chain, tmp_path)
    stream = frames(source(path, follow=True))
    next(stream)

    def refused(_: str) -> list[str]:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(tmp_path))

    monkeypatch.setattr(rotated_parts, "parts_of", refused)
    with pytest.raises(InputError, match=f"{tmp_path}: Stale file handle"):
        list(stream)


def test_a_live_file_that_does_not_come_back_is_an_error(tmp_path: Path, chain: Path) -> None:
    path, _ = copied(chain, tmp_path)
    path.unlink()
    with pytest.raises(InputError, match="No such file or directory"):
        source(path)


@pytest.mark.parametrize("left", [b"", b'{"k":"hdr"'])
def test_a_live_file_without_a_snapshot_does_not_hide_its_parts(
    tmp_path: Path, chain: Path, live: list[Frame], monkeypatch: pytest.MonkeyPatch, left: bytes
) -> None:
    """The disk was full, or the machine lost power, right after a rotation."""
    monkeypatch.setattr(rotated_parts, "GRACE_S", 0.1)
    path, parts = copied(chain, tmp_path)
    path.write_bytes(left)
    shown = list(frames(source(path)))
    assert shown == live[: len(shown)]
    assert shown[-1].snapshot == list(frames(source(parts[-1])))[-1].snapshot


def test_a_follower_that_was_paused_misses_no_part(tmp_path: Path, live: list[Frame]) -> None:
    path = tmp_path / "a.iotop.jsonl"
    rotated = Rotated(path)
    rotated.write(live[:10])
    while rotated.recorder.state().snapshots < 10:
        time.sleep(0.002)
    stream = frames(source(path, follow=True))
    shown = [next(stream)]
    pace(rotated, live[10:])
    for part in rotated.parts:
        compress(str(part))
    shown += stream
    assert shown == live


def test_a_follower_ends_when_the_folder_is_removed(tmp_path: Path, chain: Path, live: list[Frame]) -> None:
    path, _ = copied(chain, tmp_path / "run")
    stream = frames(source(path, follow=True))
    shown = [next(stream)]
    shutil.rmtree(tmp_path / "run")
    shown += stream
    assert shown == live


def test_closing_ends_the_wait(tmp_path: Path, live: list[Frame]) -> None:
    rotated = Rotated(tmp_path / "a.iotop.jsonl")
    rotated.write(live[:5])
    while rotated.recorder.state().snapshots < 5:
        time.sleep(0.002)
    replay = source(tmp_path / "a.iotop.jsonl", follow=True)
    stream: Iterator[Frame] = frames(replay)
    assert [next(stream) for _ in range(5)] == live[:5]
    threading.Timer(0.1, replay.close).start()
    assert list(stream) == []
    rotated.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root checks the owner")
def test_root_refuses_a_part_that_another_user_put_there(tmp_path: Path) -> None:
    path = tmp_path / "a.iotop.jsonl"
    shutil.copyfile(RECORDING, path)
    ReplaySource(str(path)).close()
    os.chown(path, 65534, 65534)
    with pytest.raises(InputError, match=r"user 65534.*--allow-root"):
        ReplaySource(str(path))
    ReplaySource(str(path), allow_root=True).close()
    ReplaySource("-").close()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no complete line"),
        (b"secret\nsecret\n", "line 1: not a line"),
        (b'{"k":"ev","m":1,"t":1,"kind":"mark","text":"secret"}\n', "not a recording"),
        (b"\x1f\x8b\x08secret\n", "packed"),
    ],
)
def test_a_stream_that_is_not_a_recording_is_refused(data: bytes, message: str) -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, data)
    os.close(write_end)
    with pytest.raises(InputError, match=message) as error:
        list(source("-", fd=read_end))
    os.close(read_end)
    assert "secret" not in str(error.value)
