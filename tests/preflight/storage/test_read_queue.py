"""Many reads of a real file and of a real disk that one process keeps in flight."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import signal
import time
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.preflight.storage import MIB, RANDOM, SEQUENTIAL, Measured, Phase, Target
from iotop_ai.preflight.storage import read_queue
from iotop_ai.preflight.storage.loops import ManyInFlight, Part, keep_in_flight
from iotop_ai.preflight.storage.read_queue import ReadQueue
from iotop_ai.preflight.storage.reader import Bounds, HangError, Run, Stop
from iotop_ai.preflight.storage.session import Emit, Request, Session
from tests.rigs.slowdisk import FuseDisk, why_no_fuse_disk

BLOCK = 4096
CONTENT = b"".join(bytes([number]) * BLOCK for number in range(256))


@pytest.fixture
def handle(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "blocks"
    path.write_bytes(CONTENT)
    found = os.open(path, os.O_RDONLY | os.O_DIRECT)
    yield found
    os.close(found)


def measured(phase: Phase, work: ManyInFlight, **bounds: int) -> Measured:
    return Run(phase, work, Bounds(Stop(), **bounds), Clock()).measure(lambda *_: None)


def test_each_slot_gets_the_block_at_its_offset(handle: int) -> None:
    with mmap.mmap(-1, 4 * BLOCK) as buffer:
        queue = ReadQueue(handle, buffer, BLOCK, 4)
        offsets = {3: 7 * BLOCK, 0: 255 * BLOCK, 2: 0}
        queue.submit(list(offsets), list(offsets.values()))
        ended, size = list[int](), 0
        while len(ended) < 3:
            slots, read_bytes = queue.wait()
            ended += slots
            size += read_bytes
        assert (sorted(ended), size) == ([0, 2, 3], 3 * BLOCK)
        for slot, offset in offsets.items():
            assert buffer[slot * BLOCK : (slot + 1) * BLOCK] == CONTENT[offset : offset + BLOCK]
        assert buffer[BLOCK : 2 * BLOCK] == bytes(BLOCK)


def test_every_read_is_done_once_and_in_order(handle: int) -> None:
    asked: list[int] = []

    def offset_of(number: int) -> int:
        asked.append(number)
        return number % 256 * BLOCK

    shared: list[tuple[int, int, int]] = []
    with mmap.mmap(-1, 8 * BLOCK) as buffer:
        queue = ReadQueue(handle, buffer, BLOCK, 8)
        part = Part(0, 1, time.monotonic_ns() + 60 * 10**9, 1 << 62, 501)
        times = keep_in_flight(
            ManyInFlight(handle, offset_of), queue, part, time.monotonic_ns, lambda *values: shared.append(values)
        )
    assert asked == list(range(501))
    assert len(times) == 501
    assert min(times) > 0
    assert shared[-1][:2] == (501, 501 * BLOCK)


@pytest.mark.parametrize("most_ops", [1, 5, 100])
@pytest.mark.parametrize("readers", [1, 3])
def test_no_more_reads_than_asked_for_are_done(handle: int, readers: int, most_ops: int) -> None:
    work = ManyInFlight(handle, lambda n: n * BLOCK, readers)
    found = measured(Phase(RANDOM, BLOCK, 8, 60.0), work, most_ops=most_ops)
    assert (found.ops, found.size_bytes) == (most_ops, most_ops * BLOCK)


def test_several_readers_share_the_reads_in_flight_and_the_numbers(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w+b") as file:
        file.write(CONTENT)
        file.flush()

        def offset_of(number: int) -> int:
            os.pwrite(file.fileno(), b"x", len(CONTENT) + number)
            return number * BLOCK

        reads = os.open(file.name, os.O_RDONLY | os.O_DIRECT)
        try:
            found = measured(Phase(SEQUENTIAL, BLOCK, 8, 60.0), ManyInFlight(reads, offset_of, 3), most_ops=50)
        finally:
            os.close(reads)
        assert found.ops == 50
        assert os.pread(file.fileno(), 99, len(CONTENT)) == b"x" * 50


def test_the_limit_of_bytes_ends_the_reads(handle: int) -> None:
    work = ManyInFlight(handle, lambda n: n % 256 * BLOCK)
    found = measured(Phase(SEQUENTIAL, BLOCK, 8, 60.0), work, most_bytes=100 * BLOCK)
    assert 100 <= found.ops < 108
    assert found.size_bytes == found.ops * BLOCK


def test_a_file_that_ends_early_is_an_error(handle: int) -> None:
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        measured(Phase(RANDOM, BLOCK, 4, 60.0), ManyInFlight(handle, lambda n: n * BLOCK))


@pytest.mark.parametrize("calls", [{}, {os.uname().machine: (9999, 9999, 9999)}])
def test_without_asynchronous_reads_each_read_in_flight_has_a_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: dict[str, tuple[int, int, int]]
) -> None:
    monkeypatch.setattr(read_queue, "_CALLS", calls)
    path = tmp_path / "file"
    path.write_bytes(os.urandom(MIB))
    found: list[Measured] = []
    emit = Emit(lambda *_: None, lambda *_: None, found.append, lambda *_: None, lambda *_: None)
    one = Session(Request(str(path), ()), emit, Stop(), Clock())
    handle = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        with pytest.raises(OSError, match=os.strerror(errno.ENOSYS)):
            measured(Phase(RANDOM, BLOCK, 4, 0.1), ManyInFlight(handle, lambda _: 0))
        one._measure_reads([Phase(RANDOM, BLOCK, 4, 0.1)], handle, Target("file", MIB, True), "")
    finally:
        os.close(handle)
    assert [(one.name, one.depth) for one in found] == [(RANDOM, 4)]
    assert found[0].ops >= 4


def test_the_structs_have_the_sizes_of_the_kernel() -> None:
    assert read_queue._REQUEST.size == 64
    assert array("q").itemsize == ctypes.sizeof(ctypes.c_void_p) == 8


@pytest.mark.alone
@pytest.mark.skipif(bool(why_no_fuse_disk()), reason=why_no_fuse_disk())
def test_the_times_of_a_slow_disk_are_measured_and_its_hang_is_reported(tmp_path: Path) -> None:
    with FuseDisk(tmp_path, 64) as disk:
        disk.set(delay_us=20_000)
        handle = os.open(disk.node, os.O_RDONLY | os.O_DIRECT)
        try:
            work = ManyInFlight(handle, lambda n: n % 4096 * BLOCK)
            found = measured(Phase(RANDOM, BLOCK, 8, 1.0), work)
            assert found.latency is not None
            assert found.latency.p50_ms >= 20
            # Little's law: eight reads are in flight all the time, however late this process gets a core.
            assert found.ops * found.latency.mean_ms == pytest.approx(8 * 1000 * found.seconds, rel=0.1)
            run = Run(Phase(RANDOM, BLOCK, 8, 1.0), work, Bounds(Stop()), Clock())

            def stop_and_continue(*_: object) -> None:
                for pid in run._readers.values():
                    os.kill(pid, signal.SIGSTOP)
                    os.kill(pid, signal.SIGCONT)

            assert run.measure(stop_and_continue).ops >= 8
            disk.set(delay_us=8_000_000)
            with pytest.raises(HangError):
                measured(Phase(RANDOM, BLOCK, 8, 60.0), work)
            disk.set()
        finally:
            os.close(handle)
