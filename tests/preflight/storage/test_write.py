"""The write phase of a check, on storage that is slow or runs out of room."""

from __future__ import annotations

import errno
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.preflight.storage import CREATE, FILES, MIB, SEQUENTIAL, STAT, WRITE, Measured, Phase, Target
from iotop_ai.preflight.storage import reader, session
from iotop_ai.preflight.storage.check import Message, Started
from iotop_ai.preflight.storage.own_file import LEAST_BYTES, open_target, remove
from iotop_ai.preflight.storage.reader import HangError
from tests.preflight.storage.here import BRIEF, measured_here
from tests.preflight.storage.places import mounted, needs_root

ONLY_WRITE = (Phase(WRITE, MIB, 1, 0.1),)
FILLING = tuple(phase._replace(seconds=60.0) if phase.name == WRITE else phase for phase in BRIEF)
"""Phases that write until an error ends the writing, however slow the machine is."""
FULL = [(errno.EDQUOT, "the quota is used up"), (errno.ENOSPC, "the filesystem is full")]


def slow_calls(monkeypatch: pytest.MonkeyPatch, name: str, seconds: float) -> None:
    """Make a function of ``os`` take longer."""
    call = getattr(os, name)

    def slowly(*arguments: object) -> object:
        time.sleep(seconds)
        return call(*arguments)

    monkeypatch.setattr(os, name, slowly)


@pytest.fixture
def brief_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "HANG_S", 1.0)
    monkeypatch.setattr(session, "_WRITE_HANG_S", 1.0)


@pytest.fixture
def growing_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each operation write more than the one before, even if this machine is slow now."""
    monkeypatch.setattr(session, "_SYNC_FAST_NS", 60_000_000_000)


@pytest.mark.usefixtures("brief_limits")
def test_each_write_shows_that_the_storage_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_calls(monkeypatch, "pwrite", 0.4)
    (write,) = (one for one in measured_here(tmp_path, ONLY_WRITE) if isinstance(one, Measured))
    assert (write.ops, write.size_bytes, write.unread_bytes) == (1, 4 * MIB, 0)
    assert write.seconds >= 1.6


@pytest.mark.usefixtures("brief_limits")
def test_a_flush_may_wait_for_the_writes_of_other_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_WRITE_HANG_S", 20.0)
    slow_calls(monkeypatch, "fsync", 1.5)
    (write,) = (one for one in measured_here(tmp_path, ONLY_WRITE) if isinstance(one, Measured))
    assert write.ops == 1
    assert write.latency is not None
    assert write.latency.most_ms >= 1500


@pytest.mark.usefixtures("brief_limits")
@pytest.mark.parametrize("call", ["pwrite", "fsync"])
def test_a_write_or_flush_that_does_not_end_is_a_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    slow_calls(monkeypatch, call, 60.0)
    with pytest.raises(HangError):
        measured_here(tmp_path, ONLY_WRITE)
    assert not list(tmp_path.iterdir())


def test_an_operation_writes_no_more_when_it_has_taken_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_LONGEST_WRITE_NS", 600_000_000)
    slow_calls(monkeypatch, "pwrite", 0.4)
    (write,) = (one for one in measured_here(tmp_path, ONLY_WRITE) if isinstance(one, Measured))
    assert (write.ops, write.size_bytes) == (1, 2 * MIB)


def filled_at(monkeypatch: pytest.MonkeyPatch, size: int, number: int) -> None:
    """Make each write that would end beyond this size fail with the error of this number."""
    pwrite = os.pwrite

    def limited(handle: int, part: memoryview, offset: int) -> int:
        if offset + part.nbytes > size:
            raise OSError(number, os.strerror(number))
        return pwrite(handle, part, offset)

    monkeypatch.setattr(os, "pwrite", limited)


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Limit the size of each file that this process writes, as ``ulimit -f`` does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def with_memory(folder: Path, limit: int, used: int) -> Root:
    """A machine with 64 GiB of memory, and a cgroup of ours with this limit and use."""
    group = folder / "sys/fs/cgroup/pod"
    for each in (group, folder / "proc/self"):
        each.mkdir(parents=True)
    (folder / "sys/fs/cgroup/cgroup.controllers").write_text("memory\n")
    (folder / "proc/meminfo").write_text("MemTotal: 67108864 kB\nMemAvailable: 50331648 kB\n")
    (folder / "proc/self/cgroup").write_text("0::/pod\n")
    (group / "memory.max").write_text(f"{limit}\n")
    (group / "memory.current").write_text(f"{used}\n")
    (group / "memory.stat").write_text("inactive_file 0\nactive_file 0\n")
    return Root(str(folder))


@needs_root
@pytest.mark.parametrize(("left", "size"), [(400, 100), (31, 0)])
def test_a_file_in_memory_takes_a_quarter_of_what_the_cgroup_has_left(tmp_path: Path, left: int, size: int) -> None:
    root = with_memory(tmp_path, 4096 * MIB, (4096 - left) * MIB)
    with mounted(tmp_path / "memory", "-t", "tmpfs", "-o", "size=2g", "none") as memory:
        if not size:
            with pytest.raises(OSError, match=f"too little memory is left: {left} MB are free"):
                open_target(str(memory), Clock(), root, write=True)
            return
        opened = open_target(str(memory), Clock(), root, write=True)
        remove(opened.own_handle, opened.folder, opened.name)
        os.close(opened.folder)
        assert opened.most_bytes == size * MIB


def test_the_memory_left_does_not_limit_a_file_on_a_disk(tmp_path: Path) -> None:
    root = with_memory(tmp_path / "root", 4096 * MIB, 4090 * MIB)
    opened = open_target(str(tmp_path), Clock(), root, write=True, most_bytes=LEAST_BYTES)
    remove(opened.own_handle, opened.folder, opened.name)
    os.close(opened.folder)
    assert opened.most_bytes == LEAST_BYTES


def target(messages: list[Message]) -> Target:
    return next(one.target for one in messages if isinstance(one, Started))


def rows(messages: list[Message]) -> set[str]:
    return {one.name for one in messages if isinstance(one, Measured)}


@pytest.mark.parametrize(("number", "why"), FULL)
@pytest.mark.usefixtures("growing_writes")
def test_a_file_that_could_not_be_filled_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, why: str
) -> None:
    filled_at(monkeypatch, 11 * MIB, number)
    messages = measured_here(tmp_path, FILLING)
    assert target(messages) == Target("own", 11 * MIB, True, 11 * MIB)
    assert f"{why}: 11 MB are written, and the figure of writing is missing" in messages
    assert rows(messages) == {phase.name for phase in BRIEF} - {WRITE}
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("number", "why"), FULL)
@pytest.mark.usefixtures("growing_writes")
def test_the_largest_file_is_read_if_too_little_could_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, why: str
) -> None:
    (tmp_path / "data").write_bytes(os.urandom(9 * MIB))
    filled_at(monkeypatch, 7 * MIB, number)
    messages = measured_here(tmp_path, FILLING)
    assert target(messages) == Target("file", 9 * MIB, True)
    missing = "the largest file there is read, and figures of writing and small files are missing"
    assert f"{why}: 7 MB are written, so {missing}" in messages
    assert rows(messages) >= {CREATE, STAT, SEQUENTIAL}
    assert not rows(messages) & {WRITE, FILES}
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.usefixtures("growing_writes")
def test_bytes_that_could_not_be_flushed_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS reports only with a flush that the server has no room."""
    (tmp_path / "data").write_bytes(os.urandom(9 * MIB))
    fsync = os.fsync

    def limited(handle: int) -> None:
        if os.fstat(handle).st_size > 4 * MIB:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", limited)
    messages = measured_here(tmp_path, FILLING)
    assert target(messages).kind == "file"
    assert any("the quota is used up: 4 MB are written" in one for one in messages if isinstance(one, str))


@pytest.mark.usefixtures("growing_writes")
def test_a_limit_of_the_file_size_ends_only_the_writing(tmp_path: Path) -> None:
    with largest_file(11 * MIB):
        messages = measured_here(tmp_path, FILLING)
    assert target(messages) == Target("own", 11 * MIB, True, 11 * MIB)
    why = "the limit of a file's size is reached"
    assert f"{why}: 11 MB are written, and the figure of writing is missing" in messages


@pytest.mark.usefixtures("growing_writes")
def test_without_room_and_without_a_large_file_the_reason_is_reported(tmp_path: Path) -> None:
    with (
        largest_file(3 * MIB),
        pytest.raises(OSError, match="size is reached, and no file there has"),
    ):
        measured_here(tmp_path, FILLING)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("growing_writes")
def test_another_error_of_a_write_ends_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled_at(monkeypatch, 11 * MIB, errno.EIO)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        measured_here(tmp_path, FILLING)
    assert not list(tmp_path.iterdir())
