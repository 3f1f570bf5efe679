"""Runs one storage check in the child process: opens the target, writes and reads it, and removes our file."""

from __future__ import annotations

import errno
import mmap
import os
from array import array
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from random import Random

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.own_file import remove_left_over
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.cgroup_limits import read_cores
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.preflight.dataset import DATASET, Dataset, Decoding
from iotop_ai.model.preflight.storage import (
    CACHED,
    CREATE,
    FILES,
    MIB,
    RANDOM,
    READAHEAD,
    SEQUENTIAL,
    STAT,
    WRITE,
    Measured,
    Phase,
    Target,
)
from iotop_ai.preflight.storage.blocks import Blocks, Slots
from iotop_ai.preflight.storage.dataset import CHUNK, Files, Scanned, read_images, scan
from iotop_ai.preflight.storage.decode import decode
from iotop_ai.preflight.storage.fio import FioError, find_fio, read_by_fio
from iotop_ai.preflight.storage.loops import InPieces, ManyInFlight, Operation
from iotop_ai.preflight.storage.own_file import (
    LEAST_BYTES,
    NO_ROOM,
    Opened,
    created_name,
    open_largest,
    open_target,
    remove,
    reopen,
)
from iotop_ai.preflight.storage.reader import READ_MOST_BYTES, Bounds, Run, Stop

CACHED_BYTES = 32 * MIB
"""The most bytes of our file that are read from the page cache."""
_SYNC_FAST_NS = 100_000_000
"""If a write and its fsync take less time than this, the next write is twice as large."""
_MOST_SYNC_MIB = 64
_FIRST_SYNC_MIB = 4
"""The most MiB that are written before an fsync, and the MiB that are written before the first one."""
_LONGEST_WRITE_NS = 5_000_000_000
"""After this time, an operation of _Writing writes no more, but only calls fsync."""
_WRITE_HANG_S = 30.0
"""The seconds without an answer after which a write or fsync counts as hung.

Healthy storage may take longer for it than for a read, because it may first write the data of other programs.
"""
_BLOCK = 4096
"""The block size at which storage may deduplicate, in bytes."""


class Request(NamedTuple):
    """The request for one check. engine: "auto", "fio" or "own".

    write: whether our file may be written. most_bytes: its maximum size. python: the path of the user's Python, which
    decodes a sample of the dataset.
    """

    path: str
    phases: tuple[Phase, ...]
    engine: str = "auto"
    write: bool = True
    most_bytes: int = 512 * MIB
    python: str = ""


class Emit(NamedTuple):
    """The functions to which the session passes its results.

    target: called with the target and the engine, and again if the engine changes. progress: called with the phase and
    the operations, bytes and seconds so far.
    """

    target: Callable[[Target, str], None]
    progress: Callable[[Phase, int, int, float], None]
    result: Callable[[Measured], None]
    note: Callable[[str], None]
    dataset: Callable[[Dataset, Decoding], None]


class Session:
    """One check. Call ``run`` once, then ``close``, which removes our file and may block while the storage hangs."""

    def __init__(self, request: Request, emit: Emit, stop: Stop, clock: Clock) -> None:
        self._request, self._emit, self._stop, self._clock = request, emit, stop, clock
        self._opened: Opened | None = None
        self._own_handle = -1
        """The descriptor of our file; -1 if there is none."""
        self._created = ""
        """The name of the file that the readers create and delete now; "" while they do not."""
        self._newest_run: Run | None = None
        self._handles: list[int] = []

    def run(self) -> None:
        """Measure every phase that the target allows. Raises OSError, HangError, and FioError for --engine fio."""
        phases = {name: [phase for phase in self._request.phases if phase.name == name] for name in _ORDER}
        has_files = self._measure_dataset(phases[DATASET]) if phases[DATASET] else False
        if self._stop.is_set():
            return
        try:
            opened = self._open(phases)
        except OSError as error:
            if error.errno != errno.ENODATA or not has_files:
                raise
            self._emit.note(f"only the dataset's files are read: {error.strerror}")
            return
        if opened.handle < 0:  # stopped while our file was written
            return
        handle, size, direct = opened.handle, opened.size, opened.direct
        written = size if opened.kind == "own" else 0
        self._handles.append(handle)
        has_holes = opened.kind == "file" and size < os.fstat(handle).st_size
        if size < LEAST_BYTES and not (self._stop.is_set() or written):
            where = " before its first hole" if has_holes else ""
            text = f"holds less than {LEAST_BYTES // MIB} MB{where}: too little to show a disk's speed"
            if not (has_files and opened.kind == "file"):
                raise OSError(errno.EINVAL, text)
            self._emit.note(f"only the dataset's files are read: the file {text}")
            return
        if has_holes:
            self._emit.note(f"the file has holes, which are not stored: its first {size // MIB} MB are read")
        program, version = find_fio() if self._request.engine != "own" and direct else ("", "")
        if self._request.engine == "fio" and not program:
            raise FioError("fio is not installed" if direct else "this filesystem does not support direct I/O")
        target = Target(opened.kind, size, direct, written, opened.why)
        self._emit.target(target, version or "own")
        if opened.kind == "own":
            self._measure_cached_reads(phases, size)
        self._measure_reads([*phases[SEQUENTIAL], *phases[RANDOM]], handle, target, program)
        if opened.kind == "own":
            for phase in phases[FILES]:
                slots = Slots(opened.folder, opened.name, size, phase.block_bytes, direct=direct)
                self._measure(phase, slots.read)

    def _open(self, phases: dict[str, list[Phase]]) -> Opened:
        """Open what the check reads; our file is written first, after the metadata phases. Raises OSError."""
        request = self._request
        most_bytes = request.most_bytes
        opened = open_target(request.path, self._clock, Root("/"), write=request.write, most_bytes=most_bytes)
        self._opened, self._own_handle = opened, opened.own_handle
        if opened.kind != "own":
            return opened
        self._measure_metadata(phases)
        size, why = self._write(phases[WRITE])
        if self._stop.is_set():
            return opened
        if why and size < LEAST_BYTES:
            return self._open_largest_instead(opened, size, why)
        if why:
            self._emit.note(f"{why}: {size // MIB} MB are written, and the figure of writing is missing")
        handle, direct = reopen(opened.folder, opened.name)
        return opened._replace(handle=handle, size=size, direct=direct)

    def _open_largest_instead(self, opened: Opened, size: int, why: str) -> Opened:
        """Remove our file, which is too small, and open the largest file of its folder. Raises OSError."""
        own_handle, self._own_handle, self._opened = self._own_handle, -1, None
        try:
            remove(own_handle, opened.folder, opened.name)
            largest = open_largest(self._request.path, opened.folder, self._clock, why)
        finally:
            os.close(opened.folder)
        missing = "the largest file there is read, and figures of writing and small files are missing"
        self._emit.note(f"{why}: {size // MIB} MB are written, so {missing}")
        return largest._replace(why="")  # with ``why``, the report would say that nothing was written

    def _measure_dataset(self, phases: Sequence[Phase]) -> bool:
        """Scan the dataset in the first phase, and read its files in the others; return whether there was a file."""
        scan_phase, *read_phases = phases

        def show(files: int, size: int) -> None:
            self._emit.progress(scan_phase, files, size, 0.0)

        def proceed() -> bool:
            show(scanned.dataset.files, scanned.dataset.size_bytes)
            return not self._stop.is_set()

        scanned = scan(self._request.path, scan_phase.seconds, self._clock, show)
        try:
            samples = read_images(scanned, proceed)
            decoding = decode(self._request.python, samples, self._clock, proceed) if samples else Decoding()
            self._emit.dataset(scanned.dataset, decoding)
            for number, phase in enumerate(read_phases, 1):
                self._read_files(scanned, phase, scanned.part(number))
        finally:
            os.close(scanned.top.folder)
        return bool(scanned.files)

    def _read_files(self, scanned: Scanned, phase: Phase, files: Sequence[tuple[str, bool]]) -> None:
        if files:
            readers = min(phase.depth, len(files))
            read = InPieces(Files(scanned, files, readers).pieces)
            most_ops = len(files) if scanned.read_once else 0
            self._measure(phase._replace(block_bytes=CHUNK, depth=readers), read, most_ops=most_ops)

    def close(self) -> None:
        """Remove our file and close everything. Raises OSError."""
        opened, self._opened = self._opened, None
        for handle in self._handles:
            with suppress(OSError):
                os.close(handle)
        if opened is not None and opened.folder >= 0:
            try:
                self._remove_created(opened.folder)
            finally:
                try:  # removed last, because its lock covers the created file too
                    remove(self._own_handle, opened.folder, opened.name)
                finally:
                    os.close(opened.folder)

    def _remove_created(self, folder: int) -> None:
        """Wait for the readers, then remove the file that a reader created and did not delete. Raises OSError."""
        if not self._created:
            return
        if self._newest_run is not None:
            self._newest_run.wait()
        if not remove_left_over(self._created, folder):
            raise OSError(errno.EEXIST, "another file is in its place")

    def _measure(
        self,
        phase: Phase,
        work: Operation | InPieces | ManyInFlight,
        most_bytes: int = 0,
        most_ops: int = 0,
        hang_s: float = 0.0,
    ) -> None:
        """Measure one phase, and pass its result on if it has an operation. The limits are those of Bounds."""
        if self._stop.is_set():
            return
        bounds = Bounds(self._stop, most_bytes or READ_MOST_BYTES, most_ops, hang_s)
        self._newest_run = Run(phase, work, bounds, self._clock)
        result = self._newest_run.measure(lambda ops, size, seconds: self._emit.progress(phase, ops, size, seconds))
        if result.ops:
            self._emit.result(result)

    def _measure_metadata(self, phases: dict[str, list[Phase]]) -> None:
        """Measure open, fstat and close of our file, then the creation and deletion of a second file."""
        assert self._opened is not None
        folder, name = self._opened.folder, self._opened.name
        created = created_name(name)
        for phase in phases[STAT]:
            self._measure(phase, lambda _buffer, _number: _open_stat_close(folder, name))
        for phase in phases[CREATE]:
            self._created = created
            self._measure(phase, lambda _buffer, _number: _create_delete(folder, created))
            if not self._stop.is_set():  # else a killed reader may have left the file
                self._created = ""

    def _write(self, phases: Sequence[Phase]) -> tuple[int, str]:
        """Fill our file through the page cache with fsync, as a checkpoint does.

        Return the size of the file in bytes, rounded down to whole MiB, and the reason why it could not grow, or "".
        Raises OSError.
        """
        assert self._opened is not None
        writing = _Writing(self._own_handle, self._opened.most_bytes, self._clock)
        why = ""
        try:
            for phase in phases:
                self._measure(phase, InPieces(writing.pieces), self._opened.most_bytes, hang_s=_WRITE_HANG_S)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            why = NO_ROOM[error.errno]
        return os.fstat(self._own_handle).st_size // MIB * MIB, why

    def _measure_cached_reads(self, phases: dict[str, list[Phase]], size: int) -> None:
        """Measure reads from the page cache, then reads of evicted data with the kernel's read-ahead."""
        for phase in phases[CACHED]:
            blocks = Blocks(self._own_handle, min(size, CACHED_BYTES), phase.block_bytes)
            with mmap.mmap(-1, MIB) as buffer:
                for number in range(min(size, CACHED_BYTES) // MIB):
                    blocks.sequential(buffer, number)
            self._measure(phase, blocks.sequential)
        os.posix_fadvise(self._own_handle, 0, 0, os.POSIX_FADV_DONTNEED)
        for phase in phases[READAHEAD]:
            blocks = Blocks(self._own_handle, size, phase.block_bytes)
            self._measure(phase, blocks.sequential, size)
        os.posix_fadvise(self._own_handle, 0, 0, os.POSIX_FADV_DONTNEED)

    def _measure_reads(self, phases: Sequence[Phase], handle: int, target: Target, program: str) -> None:
        for group in _groups(phases):
            if program:
                try:
                    self._read_by_fio(program, handle, target.size_bytes, group)
                    continue
                except FioError as error:
                    if self._request.engine == "fio":
                        raise
                    self._emit.note(f"fio failed ({error}): read by our own reader instead")
                    self._emit.target(target, "own")
                    program = ""
            self._read_by_own_reader(group, handle, target.size_bytes, target.direct)

    def _read_by_own_reader(self, phases: Sequence[Phase], handle: int, size: int, direct: bool) -> None:
        drop = not direct and self._own_handle >= 0
        # The other cores are left to the kernel and the driver, which need about as much CPU as the reader.
        readers = max(1, int(read_cores(Root("/")) / 2))
        for phase in phases:
            blocks = Blocks(handle, size, phase.block_bytes, drop=drop)
            if phase.name == RANDOM:
                read, offset_of = blocks.random, blocks.random_offset
            else:
                read, offset_of = blocks.sequential, blocks.sequential_offset
            if direct and phase.depth > readers:
                # If this fails, one reader for each read in flight is used below; on a faulty disk, that raises, too.
                with suppress(OSError):
                    self._measure(phase, ManyInFlight(handle, offset_of, readers))
                    continue
            self._measure(phase, read)

    def _read_by_fio(self, program: str, handle: int, size: int, phases: Sequence[Phase]) -> None:
        if self._stop.is_set():
            return
        total_s = sum(phase.seconds for phase in phases)

        def show(seconds: float) -> None:
            left_s = seconds
            for phase in phases:
                if left_s <= phase.seconds or phase is phases[-1]:
                    self._emit.progress(phase, 0, 0, min(left_s, total_s))
                    return
                left_s -= phase.seconds

        for result in read_by_fio(program, handle, size, phases, self._stop, self._clock, show):
            if result.ops:
                self._emit.result(result)


_ORDER = (DATASET, CREATE, STAT, WRITE, CACHED, READAHEAD, SEQUENTIAL, RANDOM, FILES)


def _groups(phases: Sequence[Phase]) -> Iterator[list[Phase]]:
    """Yield groups of phases, each of which one run of fio measures.

    A group holds successive phases with the same name and, if they are random reads, the same block size.
    """
    out: list[Phase] = []
    for phase in phases:
        if out and (out[-1].name != phase.name or (phase.name == RANDOM and out[-1].block_bytes != phase.block_bytes)):
            yield out
            out = []
        out.append(phase)
    if out:
        yield out


def _open_stat_close(folder: int, name: str) -> int:
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fstat(handle)
    finally:
        os.close(handle)
    return 0


def _create_delete(folder: int, name: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    os.close(os.open(name, flags, 0o600, dir_fd=folder))
    os.unlink(name, dir_fd=folder)
    return 0


class _Writing:
    """Writes a few MiB per operation and flushes them, as a checkpoint does.

    On fast storage the operations get larger.
    """

    def __init__(self, handle: int, most_bytes: int, clock: Clock) -> None:
        self._handle, self._most_mib, self._clock = handle, most_bytes // MIB, clock
        # Zeros would be compressed or stored as a hole. A number in each block prevents deduplication.
        self._part = memoryview(bytearray(Random(2).randbytes(MIB))).cast("Q")
        self._number = clock.monotonic_ns()
        self._mebibytes = _FIRST_SYNC_MIB
        self.written_bytes = 0

    def pieces(self, buffer: mmap.mmap, number: int) -> Generator[tuple[int, int], None, None]:
        """Write and flush as one operation of an InPieces. The fsync follows even if a write fails."""
        start_ns, flushed_bytes = self._clock.monotonic_ns(), self.written_bytes
        try:
            for _ in range(min(self._mebibytes, self._most_mib - self.written_bytes // MIB)):
                self._part[:: _BLOCK // 8] = array("Q", range(self._number, self._number + MIB // _BLOCK))
                self._number += MIB // _BLOCK
                piece_bytes = os.pwrite(self._handle, self._part, self.written_bytes)
                self.written_bytes += piece_bytes
                yield piece_bytes, 0
                if self._clock.monotonic_ns() - start_ns > _LONGEST_WRITE_NS:
                    break
        finally:
            self._flush(flushed_bytes)
        if self._clock.monotonic_ns() - start_ns < _SYNC_FAST_NS:
            self._mebibytes = min(2 * self._mebibytes, _MOST_SYNC_MIB)

    def _flush(self, flushed_bytes: int) -> None:
        """Call fsync; if it fails, cut the file to the bytes that were flushed before. Raises OSError."""
        try:
            os.fsync(self._handle)
        except OSError:
            os.ftruncate(self._handle, flushed_bytes)
            raise
