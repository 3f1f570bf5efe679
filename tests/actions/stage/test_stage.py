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

from iotop_ai.actions.cache.sync import sync_filesystem_of
from iotop_ai.actions.stage.copy import copy_by_ourselves, find_rsync
from iotop_ai.actions.stage.ends import resolve_ends
from iotop_ai.actions.stage.partial_files import partial_name
from iotop_ai.actions.stage.plan import filesystem_of, plan
from iotop_ai.actions.stage.same_disk import same_disk
from iotop_ai.actions.stage.speed import measure
from iotop_ai.actions.stage.verify import verify
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine.dataset_files import FileSample
from iotop_ai.model.errors import InputError, UnknownError, UsageError
from iotop_ai.model.machine.staging import Plan, Speed, Verified
from iotop_ai.present.machine.staging import refusal, speed_text
from tests.rigs.nobody import UID, as_nobody, why_not_nobody
from tests.rigs.slowdisk import FuseDisk, why_no_fuse_disk

MIB = 1 << 20
ROOT = Root("/")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")
COPIERS = ["own", "rsync"]


BY_RSYNC = """
import sys
from iotop_ai.actions.stage.copy import copy_by_rsync, find_rsync
from iotop_ai.actions.stage.ends import resolve_ends
from iotop_ai.model.errors import UnknownError
try:
    copy_by_rsync(find_rsync(), resolve_ends(*sys.argv[1:]), lambda done: print(done, flush=True))
except UnknownError as error:
    sys.exit(str(error))
"""


def by_rsync(source: Path, folder: Path) -> list[str]:
    """The command line that copies by rsync. For root, rsync runs as the user nobody, who first gets both trees."""
    argv = [sys.executable, "-c", BY_RSYNC, str(source), str(folder)]
    if not find_rsync():
        pytest.skip("needs rsync")
    if os.geteuid() != 0:
        return argv
    if why_not_nobody():
        pytest.skip(why_not_nobody())
    for path in [source, *source.rglob("*"), folder]:
        os.chown(path, UID, UID, follow_symlinks=False)
    return as_nobody(*argv)


def copy(how: str, source: Path, folder: Path, progress: list[int] | None = None) -> None:
    """Copy the source into the folder; progress gets the bytes copied so far. Raises UnknownError."""
    progress = [] if progress is None else progress
    if how == "own":
        with resolve_ends(str(source), str(folder)) as ends:
            copy_by_ourselves(ends, progress.append)
        return
    argv = by_rsync(source, folder)
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3])
    progress += map(int, done.stdout.split())
    if done.returncode:
        raise UnknownError(done.stderr)


def verified(source: Path, folder: Path, sample: list[tuple[str, int]] | None = None) -> Verified:
    with resolve_ends(str(source), str(folder)) as ends:
        return verify(ends, sample)


def sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        sync_filesystem_of(handle)
    finally:
        os.close(handle)


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
    formatted = subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], capture_output=True, check=False)
    if formatted.returncode:
        pytest.skip("needs mkfs.ext4 (e2fsprogs)")
    with mounted(folder / "small", "-o", "loop", str(image)) as place:
        yield place


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """A folder with files of several sizes, hostile names, a link, an empty folder and a pipe."""
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


def planned(source: Path, folder: Path) -> Plan:
    with resolve_ends(str(source), str(folder)) as ends:
        return plan(ends, ROOT)[0]


def contents_by_path(top: Path) -> dict[str, tuple[int, int, bytes]]:
    """The mode, the modification time and the content of each entry, by path."""
    out = {}
    for path in sorted(top.rglob("*")):
        found = path.lstat()
        content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        # rsync compares the times of folders in whole seconds.
        when = 0 if path.is_symlink() else found.st_mtime_ns // (10**9 if path.is_dir() else 1000)
        out[str(path.relative_to(top))] = (stat.S_IMODE(found.st_mode), when, content)
    return out


@pytest.mark.parametrize("how", COPIERS)
def test_a_copy_equals_the_dataset_and_a_second_run_copies_nothing(dataset: Path, tmp_path: Path, how: str) -> None:
    fast = tmp_path / "fast"
    fast.mkdir()
    first = planned(dataset, fast)
    assert (first.files, first.links, first.back_links, first.others) == (9, 2, 1, 1)
    assert first.size_bytes == first.left_bytes == 6 * MIB + 15 + 7 + 4
    assert first.fits
    progress: list[int] = []
    copy(how, dataset, fast, progress)
    assert progress
    before = contents_by_path(dataset)
    del before["pipe"]
    assert contents_by_path(fast / "data") == before
    assert sorted(os.listdir(fast)) == ["data"]
    second = planned(dataset, fast)
    assert (second.left_files, second.left_bytes, second.differing) == (0, 0, 0)
    progress.clear()
    copy(how, dataset, fast, progress)
    assert not progress or max(progress) < MIB
    done = verified(dataset, fast)
    assert (done.files, done.checked_files, done.wrong) == (9, 9, 0)


@pytest.mark.parametrize("how", COPIERS)
def test_setuid_and_setgid_are_not_copied(tmp_path: Path, how: str) -> None:
    source, fast = tmp_path / "data", tmp_path / "fast"
    (source / "sub").mkdir(parents=True)
    fast.mkdir()
    (source / "program").write_bytes(b"#!/bin/sh")
    if how == "rsync":
        by_rsync(source, fast)  # changes the owner now, because a later change would clear the bits that are set below
    (source / "program").chmod(0o6755)
    (source / "sub").chmod(0o2775)
    copy(how, source, fast)
    modes = [stat.S_IMODE((fast / "data" / name).stat().st_mode) for name in ("program", "sub")]
    assert modes == [0o755, 0o775]


@pytest.mark.parametrize("how", COPIERS)
def test_a_single_file_is_copied(tmp_path: Path, how: str) -> None:
    file, fast = tmp_path / "set.tar", tmp_path / "fast"
    file.write_bytes(os.urandom(3 * MIB))
    fast.mkdir()
    copy(how, file, fast)
    assert (fast / "set.tar").read_bytes() == file.read_bytes()
    assert verified(file, fast).wrong == 0


def test_our_own_copier_resumes_an_interrupted_copy(tmp_path: Path) -> None:
    source, target = tmp_path / "data", tmp_path / "fast" / "data"
    source.mkdir()
    target.mkdir(parents=True)
    content = os.urandom(12 * MIB)
    (source / "big").write_bytes(content)
    part = target / partial_name("big", (source / "big").stat())
    part.write_bytes(content[: 5 * MIB])
    progress: list[int] = []
    copy("own", source, target.parent, progress)
    assert progress[-1] == 7 * MIB
    assert (target / "big").read_bytes() == content
    assert not part.exists()


@pytest.mark.parametrize("how", COPIERS)
def test_the_files_of_a_killed_copy_are_whole_and_the_next_run_completes_it(tmp_path: Path, how: str) -> None:
    source, fast = tmp_path / "data", tmp_path / "fast"
    source.mkdir()
    fast.mkdir()
    for i in range(8):
        (source / f"{i}").write_bytes(os.urandom(8 * MIB))
    code = (
        "import sys; from iotop_ai.actions.stage.copy import *; from iotop_ai.actions.stage.ends import resolve_ends\n"
        "copy_by_ourselves(resolve_ends(*sys.argv[1:]), lambda done: print(done, flush=True))\n"
    )
    argv = [sys.executable, "-c", code, str(source), str(fast)] if how == "own" else by_rsync(source, fast)
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True)
    assert child.stdout is not None
    child.stdout.readline()
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    for path in (fast / "data").glob("[0-7]"):
        assert path.read_bytes() == (source / path.name).read_bytes()
    copy(how, source, fast)
    assert verified(source, fast).wrong == 0


def test_files_of_the_target_are_not_replaced_without_a_flag(dataset: Path, tmp_path: Path) -> None:
    fast = tmp_path / "fast"
    (fast / "data" / "sub").mkdir(parents=True)
    (fast / "data" / "sub" / "1.bin").write_bytes(b"mine")
    (fast / "data" / "kept").write_bytes(b"also mine")
    found = planned(dataset, fast)
    assert (found.differing, found.first_differing) == (1, "sub/1.bin")
    assert refusal(found, None, update=False, anyway=False) == "sub/1.bin differs; --update replaces it"
    more = "2 files of the target differ, the first: sub/1.bin; --update replaces them"
    assert refusal(found._replace(differing=2), None, update=False, anyway=False) == more
    assert refusal(found, None, update=True, anyway=False) == ""
    copy("own", dataset, fast)
    assert (fast / "data" / "kept").read_bytes() == b"also mine"


def test_invalid_places_are_refused(dataset: Path, tmp_path: Path) -> None:
    fast = tmp_path / "fast"
    fast.mkdir()
    with pytest.raises(UsageError, match="lies inside"):
        resolve_ends(str(dataset), str(dataset / "sub"))
    with pytest.raises(UsageError, match="source itself"):
        resolve_ends(str(dataset), str(tmp_path))
    with pytest.raises(InputError, match="not a folder"):
        resolve_ends(str(dataset), str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="no such folder or file"):
        resolve_ends(str(tmp_path / "nowhere"), str(fast))
    with pytest.raises(UsageError, match="root filesystem"):
        resolve_ends("/", str(fast))
    with pytest.raises(InputError, match="no such folder or file"):
        resolve_ends("", str(fast))  # as a shell passes an unset variable
    (fast / "data").symlink_to("/etc")
    with pytest.raises(InputError, match="another type"):
        resolve_ends(str(dataset), str(fast))


@needs_root
def test_a_place_prepared_by_another_user_is_refused(dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "fast" / "data").mkdir(parents=True)
    os.chown(tmp_path / "fast" / "data", 65534, 65534)
    with pytest.raises(InputError, match="belongs to another user"):
        planned(dataset, tmp_path / "fast")
    with pytest.raises(InputError, match="belongs to another user"):
        copy("own", dataset, tmp_path / "fast")


def test_a_link_in_the_place_of_a_file_is_not_written_through(tmp_path: Path) -> None:
    source, target, victim = tmp_path / "data", tmp_path / "fast" / "data", tmp_path / "victim"
    source.mkdir()
    target.mkdir(parents=True)
    (source / "file").write_bytes(b"new")
    victim.write_bytes(b"precious")
    (target / partial_name("file", (source / "file").stat())).symlink_to(victim)
    with pytest.raises(UnknownError):
        copy("own", source, target.parent)
    assert victim.read_bytes() == b"precious"


@pytest.mark.parametrize(
    ("source_ns", "target_ns", "same"),
    [
        (1_700_000_001_123_456_789, 1_700_000_001_123_456_789, True),
        (1_700_000_001_123_456_789, 1_700_000_002_023_456_789, False),  # ext4: a copy that was written a second later
        (1_700_000_001_123_456_789, 1_700_000_000_000_000_000, True),  # FAT
        (1_700_000_001_123_456_789, 1_700_000_001_123_456_700, True),  # NTFS
        (1_700_000_001_123_456_789, 1_700_000_001_123_400_000, False),
    ],
)
def test_a_files_time_is_compared_as_finely_as_the_target_keeps_it(
    tmp_path: Path, source_ns: int, target_ns: int, same: bool
) -> None:
    source, fast = tmp_path / "data", tmp_path / "fast"
    (fast / "data").mkdir(parents=True)
    source.mkdir()
    for path, text, ns in ((source / "a", b"new", source_ns), (fast / "data/a", b"old", target_ns)):
        path.write_bytes(text)
        os.utime(path, ns=(ns, ns))
    found = planned(source, fast)
    assert (found.there_files, found.differing) == ((1, 0) if same else (0, 1))


def test_a_differing_copy_is_found(dataset: Path, tmp_path: Path) -> None:
    target = tmp_path / "fast" / "data"
    target.parent.mkdir()
    copy("own", dataset, target.parent)
    sync(target.parent)
    with (target / "sub" / "2.bin").open("r+b") as file:
        file.seek(MIB // 2)
        file.write(b"not random content")
    done = verified(dataset, target.parent)
    assert (done.wrong, done.first_wrong) == (1, "sub/2.bin: different content; --update copies it again")
    assert verified(dataset, target.parent, []).wrong == 0  # only the sizes are compared
    assert verified(dataset, target.parent, [("sub/2.bin", MIB)]).wrong == 1
    (target / "empty").unlink()
    assert verified(dataset, target.parent, []).first_wrong == "empty: No such file or directory"


def test_a_sample_is_small_and_spread() -> None:
    sample = FileSample()
    for i in range(10_000):
        sample.take(str(i), i)
    chosen = sorted(int(path) for path, _ in sample.files)
    assert len(set(chosen)) == 64
    assert chosen[0] < 1500
    assert chosen[-1] > 8500


@needs_root
def test_a_target_in_memory_is_detected_and_limited(dataset: Path, tmp_path: Path) -> None:
    with mounted(tmp_path / "shm", "-t", "tmpfs", "-o", "size=64m", "none") as memory:
        assert filesystem_of(str(memory), ROOT) == "tmpfs"
        found = planned(dataset, memory)
        assert found.memory
        assert found.fits
        assert found.room_bytes is not None
        assert found.room_bytes <= 64 * MIB
        copy("own", dataset, memory)
        assert verified(dataset, memory).wrong == 0
        with (tmp_path / "huge").open("wb") as file:
            file.truncate(100 * MIB)
        assert planned(tmp_path / "huge", memory).fits is False


@needs_root
def test_a_too_small_filesystem_is_detected_before_and_during_the_copy(tmp_path: Path) -> None:
    source = tmp_path / "data"
    source.mkdir()
    for i in range(4):
        (source / str(i)).write_bytes(os.urandom(16 * MIB))
    with loop_filesystem(tmp_path, 48) as small:
        found = planned(source, small)
        assert found.fits is False
        assert refusal(found, None, update=True, anyway=True) == "it does not fit"
        # rsync goes first: it runs as the user nobody, and could not continue a copy that belongs to root
        for how in reversed(COPIERS):
            with pytest.raises(UnknownError, match="No space left"):
                copy(how, source, small)
        assert verified(source, small, []).wrong >= 1
        assert len(list(source.iterdir())) == 4


@pytest.mark.xdist_group("a slow disk")
@pytest.mark.skipif(bool(why_no_fuse_disk()), reason=why_no_fuse_disk() or "available")
def test_a_slow_source_and_a_fast_target_are_measured(tmp_path: Path) -> None:
    """The files are cached, but the measurement reads them from the disk, which takes 20 ms per request."""
    (tmp_path / "rig").mkdir()
    with FuseDisk(tmp_path / "rig", 64) as disk:
        formatted = subprocess.run(["mkfs.ext4", "-q", "-F", disk.node], capture_output=True, check=False)
        assert formatted.returncode == 0, formatted.stderr
        with (
            mounted(tmp_path / "slow", disk.node) as slow,
            mounted(tmp_path / "shm", "-t", "tmpfs", "-o", "size=256m", "none") as memory,
        ):
            data = slow / "data"
            data.mkdir()
            for i in range(8):
                (data / f"{i}.jpg").write_bytes(os.urandom(128 * 1024))
            sync(slow)
            disk.set(delay_us=20_000)
            with resolve_ends(str(data), str(memory)) as ends:
                found, sample = plan(ends, ROOT)
                begun = time.monotonic()
                speed = measure(ends.pinned, sample, ends.folder, found.room_bytes, Clock())
                assert time.monotonic() - begun < 20
            disk.set(delay_us=0)
    assert speed.source_read is not None
    assert speed.source_read <= 128 * 1024 / 0.020 * 1.1
    assert speed.speedup is not None
    assert speed.speedup > 3  # reading 1 MB from memory takes a millisecond, or one time slice if the machine is busy
    assert refusal(found, speed, update=False, anyway=False) == ""


def test_two_folders_of_one_filesystem_are_on_the_same_disk(dataset: Path, tmp_path: Path) -> None:
    fast = tmp_path / "fast"
    fast.mkdir()
    with resolve_ends(str(dataset), str(fast)) as ends:
        assert same_disk(ends, ROOT, Clock()) == "the same filesystem"


@needs_root
def test_filesystems_on_one_disk_share_it_and_tmpfs_does_not(tmp_path: Path, disk_folder: Path) -> None:
    data = disk_folder / "data"
    data.mkdir()
    (data / "file").write_bytes(b"x" * MIB)
    with loop_filesystem(disk_folder, 32) as small, mounted(tmp_path / "shm", "-t", "tmpfs", "none") as memory:
        with resolve_ends(str(data), str(small)) as ends:
            found = same_disk(ends, ROOT, Clock())
            if not found:
                pytest.skip("the disk below this folder is not known here")
            assert "loop" not in found
            assert (Path("/sys/class/block") / found.split(", ")[0]).exists()
        with resolve_ends(str(data), str(memory)) as ends:
            assert same_disk(ends, ROOT, Clock()) == ""
        with resolve_ends(str(memory), str(data)) as ends:
            assert same_disk(ends, ROOT, Clock()) == ""


def test_a_copy_on_the_same_disk_is_refused_whatever_was_measured() -> None:
    plan_ = Plan("/a", "/b", files=9, size_bytes=10, room_bytes=100, same_disk="vda")
    fast = Speed(source_read=1e6, target_write=1e6, target_read=2.8e6)
    assert refusal(plan_, None, update=False, anyway=False).startswith("same disk, no gain: both are on vda")
    assert refusal(plan_, fast, update=False, anyway=True) == ""
    assert "both are on vda: no gain, regardless of the measured speeds" in speed_text(fast, plan_)
    assert not any("times" in line for line in speed_text(fast, plan_))


def test_a_small_sample_gives_no_result(tmp_path: Path, disk_folder: Path) -> None:
    data, fast = disk_folder / "data", disk_folder / "fast"
    data.mkdir()
    fast.mkdir()
    for i in range(4):
        (data / f"{i}.jpg").write_bytes(os.urandom(100_001))
    for more in range(4, 40, 12):
        with resolve_ends(str(data), str(fast)) as ends:
            _, sample = plan(ends, ROOT)
            speed = measure(ends.pinned, sample, ends.folder, None, Clock())
        assert (speed.sample_files, speed.sample_bytes) == (len(sample), len(sample) * 100_001)
        assert speed.too_small == (len(sample) < 8)
        assert (speed.speedup is None) == speed.too_small
        assert None not in (speed.source_read, speed.target_write, speed.target_read)
        for i in range(more, more + 12):
            (data / f"{i}.jpg").write_bytes(os.urandom(100_001))
    assert not os.listdir(fast)
    small = speed._replace(too_small=True)
    assert "? cannot tell whether the target is faster: the sample is too small" in speed_text(small, Plan("/a", "/b"))


def test_the_same_speed_is_not_worth_a_copy() -> None:
    same = Speed(source_read=500e6, target_write=400e6, target_read=520e6)
    fine = Plan("/a", "/b", files=1, size_bytes=10, room_bytes=100)
    assert "not faster" in refusal(fine, same, update=False, anyway=False)
    assert refusal(fine, same, update=False, anyway=True) == ""
    assert same.seconds(800_000_000) == 2.0
    assert Speed(source_read=1.0).seconds(5) is None


def test_the_speed_of_a_target_that_cannot_be_probed_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"x" * MIB)
    proc = os.open("/proc", os.O_RDONLY)
    with resolve_ends(str(tmp_path / "data"), str(tmp_path.parent)) as ends:
        speed = measure(ends.pinned, [("", MIB)], proc, None, Clock())
    os.close(proc)
    assert speed.source_read is not None
    assert (speed.target_write, speed.target_read, speed.speedup) == (None, None, None)
