"""Datasets copied onto real filesystems: planned, measured, interrupted, continued, verified."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from iotop_ai.actions.stage_copy import (
    copy_by_ourselves,
    copy_by_rsync,
    find_rsync,
    part_of,
    sync_filesystem,
)
from iotop_ai.actions.stage_plan import SAMPLE, Sample, filesystem_of, places, plan
from iotop_ai.actions.stage_speed import measure
from iotop_ai.actions.stage_verify import verify
from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.root import Root
from iotop_ai.model.errors import InputError, UnknownError, UsageError
from iotop_ai.model.stage import Plan, Speed
from iotop_ai.present.stage import refusal
from tests.rigs.slowdisk import FuseDisk, why_no_fuse_disk

MIB = 1 << 20
ROOT = Root("/")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")
COPIERS = ["own", "rsync"]


def copy(how: str, source: Path, target: Path, told: list[int] | None = None) -> None:
    tell = (told if told is not None else []).append
    if how == "own":
        copy_by_ourselves(str(source), str(target), tell)
        return
    rsync = find_rsync()
    if not rsync:
        pytest.skip("needs rsync")
    copy_by_rsync(rsync, str(source), str(target), tell)


@contextmanager
def mounted(folder: Path, *arguments: str) -> Iterator[Path]:
    folder.mkdir()
    done = subprocess.run(["mount", *arguments, str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@contextmanager
def loop_filesystem(folder: Path, mebibytes: int) -> Iterator[Path]:
    image = folder / "image"
    with image.open("wb") as file:
        file.truncate(mebibytes * MIB)
    made = subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("needs mkfs.ext4 (e2fsprogs)")
    with mounted(folder / "small", "-o", "loop", str(image)) as place:
        yield place


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Files of several sizes, hostile names, a link, an empty folder, a pipe."""
    top = tmp_path / "data"
    (top / "sub" / "empty").mkdir(parents=True)
    for i in range(6):
        (top / "sub" / f"{i}.bin").write_bytes(os.urandom(MIB + i))
    (top / "empty").touch()
    (top / "-rf\n\x1b[31m").write_bytes(b"hostile")
    (top / ("n" * 255)).write_bytes(b"long")
    os.chmod(top / "sub" / "1.bin", 0o440)
    (top / "link").symlink_to("sub/0.bin")
    (top / "back").symlink_to(top / "empty")
    os.mkfifo(top / "pipe")
    return top


def made(source: Path, folder: Path) -> Plan:
    return plan(*places(str(source), str(folder)), ROOT)[0]


def look(top: Path) -> dict[str, tuple[int, int, bytes]]:
    """Mode, time and content by path."""
    out = {}
    for path in sorted(top.rglob("*")):
        found = path.lstat()
        content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        # rsync compares the times of folders in whole seconds.
        when = 0 if path.is_symlink() else found.st_mtime_ns // (10**9 if path.is_dir() else 1000)
        out[str(path.relative_to(top))] = (stat.S_IMODE(found.st_mode), when, content)
    return out


@pytest.mark.parametrize("how", COPIERS)
def test_a_copy_is_the_dataset_and_a_second_run_copies_nothing(dataset: Path, tmp_path: Path, how: str) -> None:
    fast = tmp_path / "fast"
    fast.mkdir()
    first = made(dataset, fast)
    assert (first.files, first.links, first.back_links, first.others) == (9, 2, 1, 1)
    assert first.size_bytes == first.left_bytes == 6 * MIB + 15 + 7 + 4
    assert first.fits
    told: list[int] = []
    copy(how, dataset, fast / "data", told)
    assert told
    before = look(dataset)
    del before["pipe"]
    assert look(fast / "data") == before
    assert sorted(os.listdir(fast)) == ["data"]
    second = made(dataset, fast)
    assert (second.left_files, second.left_bytes, second.differing) == (0, 0, 0)
    told.clear()
    copy(how, dataset, fast / "data", told)
    assert not told or max(told) < MIB
    done = verify(str(dataset), str(fast / "data"), None)
    assert (done.files, done.checked_files, done.wrong) == (9, 9, 0)


@pytest.mark.parametrize("how", COPIERS)
def test_a_single_file(tmp_path: Path, how: str) -> None:
    file, fast = tmp_path / "set.tar", tmp_path / "fast"
    file.write_bytes(os.urandom(3 * MIB))
    fast.mkdir()
    copy(how, file, fast / "set.tar")
    assert (fast / "set.tar").read_bytes() == file.read_bytes()
    assert verify(str(file), str(fast / "set.tar"), None).wrong == 0


def test_our_own_copy_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    source, target = tmp_path / "data", tmp_path / "fast" / "data"
    source.mkdir()
    target.mkdir(parents=True)
    content = os.urandom(12 * MIB)
    (source / "big").write_bytes(content)
    part = Path(part_of(str(target / "big")))
    part.write_bytes(content[: 5 * MIB])
    told: list[int] = []
    copy_by_ourselves(str(source), str(target), told.append)
    assert told[-1] == 7 * MIB
    assert (target / "big").read_bytes() == content
    assert not part.exists()


@pytest.mark.parametrize("how", COPIERS)
def test_a_killed_copy_leaves_no_half_file_and_the_next_run_ends_it(tmp_path: Path, how: str) -> None:
    if how == "rsync" and not find_rsync():
        pytest.skip("needs rsync")
    source, fast = tmp_path / "data", tmp_path / "fast"
    source.mkdir()
    fast.mkdir()
    for i in range(8):
        (source / f"{i}").write_bytes(os.urandom(24 * MIB))
    code = (
        "import sys; from iotop_ai.actions.stage_copy import *\n"
        "tell = lambda done: print(done, flush=True)\n"
        "s, t = sys.argv[2:]\n"
        "copy_by_rsync(find_rsync(), s, t, tell) if sys.argv[1] == 'rsync' else copy_by_ourselves(s, t, tell)\n"
    )
    argv = [sys.executable, "-c", code, how, str(source), str(fast / "data")]
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True)
    assert child.stdout is not None
    child.stdout.readline()
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    for path in (fast / "data").glob("[0-7]"):
        assert path.read_bytes() == (source / path.name).read_bytes()
    copy(how, source, fast / "data")
    assert verify(str(source), str(fast / "data"), None).wrong == 0


def test_what_the_target_has_of_its_own_is_not_replaced_unasked(dataset: Path, tmp_path: Path) -> None:
    fast = tmp_path / "fast"
    (fast / "data" / "sub").mkdir(parents=True)
    (fast / "data" / "sub" / "1.bin").write_bytes(b"mine")
    (fast / "data" / "kept").write_bytes(b"also mine")
    found = made(dataset, fast)
    assert (found.differing, found.first_differing) == (1, "sub/1.bin")
    assert "--update replaces" in refusal(found, None, update=False, anyway=False)
    assert refusal(found, None, update=True, anyway=False) == ""
    copy_by_ourselves(str(dataset), str(fast / "data"), lambda _: None)
    assert (fast / "data" / "kept").read_bytes() == b"also mine"


def test_places_that_cannot_be_meant(dataset: Path, tmp_path: Path) -> None:
    fast = tmp_path / "fast"
    fast.mkdir()
    with pytest.raises(UsageError, match="lies inside"):
        places(str(dataset), str(dataset / "sub"))
    with pytest.raises(UsageError, match="source itself"):
        places(str(dataset), str(tmp_path))
    with pytest.raises(InputError, match="no folder"):
        places(str(dataset), str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="no such folder or file"):
        places(str(tmp_path / "nowhere"), str(fast))
    with pytest.raises(UsageError, match="root filesystem"):
        places("/", str(fast))
    (fast / "data").symlink_to("/etc")
    with pytest.raises(InputError, match="something else"):
        places(str(dataset), str(fast))


@needs_root
def test_a_place_that_somebody_else_prepared(dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "fast" / "data").mkdir(parents=True)
    os.chown(tmp_path / "fast" / "data", 65534, 65534)
    with pytest.raises(InputError, match="belongs to somebody else"):
        places(str(dataset), str(tmp_path / "fast"))


def test_a_link_in_the_place_of_a_file_is_not_written_through(tmp_path: Path) -> None:
    source, target, victim = tmp_path / "data", tmp_path / "fast" / "data", tmp_path / "victim"
    source.mkdir()
    target.mkdir(parents=True)
    (source / "file").write_bytes(b"new")
    victim.write_bytes(b"precious")
    Path(part_of(str(target / "file"))).symlink_to(victim)
    with pytest.raises(UnknownError):
        copy_by_ourselves(str(source), str(target), lambda _: None)
    assert victim.read_bytes() == b"precious"


def test_a_copy_that_is_not_the_same_is_found(dataset: Path, tmp_path: Path) -> None:
    target = tmp_path / "fast" / "data"
    target.parent.mkdir()
    copy_by_ourselves(str(dataset), str(target), lambda _: None)
    sync_filesystem(str(target.parent))
    with (target / "sub" / "2.bin").open("r+b") as file:
        file.seek(MIB // 2)
        file.write(b"?")
    done = verify(str(dataset), str(target), None)
    assert (done.wrong, done.first_wrong) == (1, "sub/2.bin: another content")
    assert verify(str(dataset), str(target), []).wrong == 0  # sizes alone
    assert verify(str(dataset), str(target), [("sub/2.bin", MIB)]).wrong == 1
    (target / "empty").unlink()
    assert verify(str(dataset), str(target), []).first_wrong == "empty: No such file or directory"


def test_a_sample_is_small_and_spread() -> None:
    sample = Sample()
    for i in range(10_000):
        sample.take(str(i), i)
    chosen = sorted(int(path) for path, _ in sample.paths)
    assert len(set(chosen)) == SAMPLE
    assert chosen[0] < 1500
    assert chosen[-1] > 8500


@needs_root
def test_memory_is_known_as_memory_and_holds_no_more_than_it_has(dataset: Path, tmp_path: Path) -> None:
    with mounted(tmp_path / "shm", "-t", "tmpfs", "-o", "size=64m", "none") as memory:
        assert filesystem_of(str(memory), ROOT) == "tmpfs"
        found = made(dataset, memory)
        assert found.memory
        assert found.fits
        assert found.room_bytes is not None
        assert found.room_bytes <= 64 * MIB
        copy_by_ourselves(str(dataset), str(memory / "data"), lambda _: None)
        assert verify(str(dataset), str(memory / "data"), None).wrong == 0
        with (tmp_path / "huge").open("wb") as file:
            file.truncate(100 * MIB)
        assert made(tmp_path / "huge", memory).fits is False


@needs_root
def test_a_filesystem_that_is_too_small_is_known_before_and_said_while(tmp_path: Path) -> None:
    source = tmp_path / "data"
    source.mkdir()
    for i in range(4):
        (source / str(i)).write_bytes(os.urandom(16 * MIB))
    with loop_filesystem(tmp_path, 48) as small:
        found = made(source, small)
        assert found.fits is False
        assert refusal(found, None, update=True, anyway=True) == "it does not fit"
        for how in COPIERS:
            with pytest.raises(UnknownError, match="No space left"):
                copy(how, source, small / "data")
        assert verify(str(source), str(small / "data"), []).wrong >= 1
        assert len(list(source.iterdir())) == 4


@needs_root
def test_a_filesystem_without_inodes_left(tmp_path: Path) -> None:
    source = tmp_path / "data"
    source.mkdir()
    for i in range(40):
        (source / str(i)).touch()
    with mounted(tmp_path / "few", "-t", "tmpfs", "-o", "size=8m,nr_inodes=20", "none") as few:
        assert made(source, few).fits is False


@pytest.mark.skipif(bool(why_no_fuse_disk()), reason=why_no_fuse_disk() or "there")
def test_a_slow_source_and_a_fast_target_are_measured(tmp_path: Path) -> None:
    """The source lies on a disk that takes 20 ms a request, and its pages are in memory: only the disk may count."""
    (tmp_path / "rig").mkdir()
    with FuseDisk(tmp_path / "rig", 64) as disk:
        made_ = subprocess.run(["mkfs.ext4", "-q", "-F", disk.node], capture_output=True, check=False)
        assert made_.returncode == 0, made_.stderr
        with (
            mounted(tmp_path / "slow", disk.node) as slow,
            mounted(tmp_path / "shm", "-t", "tmpfs", "-o", "size=256m", "none") as memory,
        ):
            data = slow / "data"
            data.mkdir()
            for i in range(8):
                (data / f"{i}.jpg").write_bytes(os.urandom(128 * 1024))
            sync_filesystem(str(slow))
            disk.set(delay_us=20_000)
            found, sample = plan(*places(str(data), str(memory)), ROOT)
            begun = time.monotonic()
            speed = measure(str(data), sample, str(memory), found.room_bytes, Clock())
            assert time.monotonic() - begun < 20
            disk.set(delay_us=0)
    assert speed.source_read is not None
    assert speed.source_read <= 128 * 1024 / 0.020 * 1.1
    assert speed.gain is not None
    assert speed.gain > 20
    assert refusal(found, speed, update=False, anyway=False) == ""


def test_the_same_disk_is_not_worth_a_copy() -> None:
    same = Speed(source_read=500e6, target_write=400e6, target_read=520e6)
    fine = Plan("/a", "/b", files=1, size_bytes=10, room_bytes=100)
    assert "not faster" in refusal(fine, same, update=False, anyway=False)
    assert refusal(fine, same, update=False, anyway=True) == ""
    assert same.seconds(800_000_000) == 2.0
    assert Speed(source_read=1.0).seconds(5) is None


def test_a_target_that_takes_no_probe_is_unknown_and_not_slow(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"x" * MIB)
    speed = measure(str(tmp_path / "data"), [("", MIB)], "/proc", None, Clock())
    assert speed.source_read is not None
    assert (speed.target_write, speed.target_read, speed.gain) == (None, None, None)
