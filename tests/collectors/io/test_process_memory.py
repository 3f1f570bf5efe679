"""Reads of other processes' memory, including a process whose memory answers late."""

from __future__ import annotations

import ctypes
import errno
import os
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from iotop_ai.collectors.io import process_memory
from iotop_ai.collectors.io.process_memory import ProcessMemory
from iotop_ai.collectors.io.root import Root
from tests.waiting import until

LATE, OTHER = 7, 8


class _Late(Root):
    """The memory of process 7 comes only when ``answer`` is set, as from a FUSE server."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = threading.Event()
        self.reads: list[str] = []

    def read_once(self, relative: str, size: int, offset: int = 0) -> bytes:
        self.reads.append(relative)
        if relative.startswith(f"proc/{LATE}/"):
            self.answer.wait()
        return b"m" * size


@pytest.fixture
def late() -> Iterator[_Late]:
    root = _Late()
    yield root
    root.answer.set()


def threads() -> int:
    return sum(thread.name == "memory" for thread in threading.enumerate())


def test_a_process_that_makes_a_read_wait_is_not_read_again_until_the_read_ends(
    late: _Late, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_memory, "PAUSE_FACTOR", 0)
    memory = ProcessMemory(late)
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        memory.read(LATE, LATE, 64, 8)
    assert time.monotonic() - began < 5
    for _ in range(3):
        with pytest.raises(TimeoutError):
            memory.read(LATE, LATE, 64, 8)
    assert late.reads == [f"proc/{LATE}/task/{LATE}/mem"]
    assert memory.read(OTHER, OTHER, 64, 8) == b"m" * 8
    late.answer.set()

    def answered() -> bool:
        try:
            return memory.read(LATE, LATE, 64, 8) == b"m" * 8
        except TimeoutError:
            return False

    until(answered)
    memory.close()


def test_a_slow_process_is_not_read_for_a_while(late: _Late) -> None:
    memory = ProcessMemory(late)
    before = threads()
    for _ in range(process_memory.SLOW_READS):
        late.answer.clear()
        with pytest.raises(TimeoutError):
            memory.read(LATE, LATE, 64, 8)
        late.answer.set()
        # The thread of the ended read ends, so that only the one that reads the other process stays.
        until(lambda: memory.read(OTHER, OTHER, 64, 8) == b"m" * 8 and threads() <= before + 1)
    with pytest.raises(TimeoutError):
        memory.read(LATE, LATE, 64, 8)
    assert late.reads.count(f"proc/{LATE}/task/{LATE}/mem") == process_memory.SLOW_READS
    memory.close()


def test_a_single_slow_read_does_not_pause_the_reads_of_the_process(late: _Late) -> None:
    memory = ProcessMemory(late)
    with pytest.raises(TimeoutError):
        memory.read(LATE, LATE, 64, 8)
    late.answer.set()

    def answered() -> bool:
        try:
            return memory.read(LATE, LATE, 64, 8) == b"m" * 8
        except TimeoutError:  # the first read has not ended yet
            return False

    until(answered)
    memory.close()


def test_stuck_reads_take_a_limited_number_of_threads(late: _Late, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_memory, "MOST_STUCK", 1)
    memory = ProcessMemory(late)
    for pid in (LATE, OTHER):
        with pytest.raises(TimeoutError):
            memory.read(pid, pid, 64, 8)
    assert len(late.reads) == 1
    memory.close()


def test_the_bytes_at_an_address_are_read() -> None:
    text = ctypes.create_string_buffer(b"pollfds")
    with closing(ProcessMemory(Root())) as memory:
        assert memory.read(os.getpid(), os.getpid(), ctypes.addressof(text), 7) == b"pollfds"
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            memory.read(os.getpid(), os.getpid(), 64, 7)
