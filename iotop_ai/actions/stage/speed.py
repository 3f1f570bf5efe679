"""Measures a source's read speed and a target's write and read speed within seconds, bypassing the page cache.

For each file of the sample, a probe (a file of random bytes) is written to the target folder. It is about as large as
the part of the file that was read. Probes have no name (O_TMPFILE), so none can be left behind.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from random import Random

from iotop_ai.actions.cache.sync import write_out
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.direct import ALIGN, open_direct
from iotop_ai.collectors.machine.dataset_files import Pinned, open_below
from iotop_ai.model.machine.staging import Speed

MEASUREMENT_S = 3.0
"""The time after which each of the three measurements begins no further read or probe, in seconds."""
SAMPLE_BYTES = 256 << 20
"""Once this much of the sample has been read, no further file is begun."""
MOST_BYTES_PER_FILE = 32 << 20
"""The maximum number of bytes that are read from one file."""
PROBE_BYTES = 64 << 20
"""The maximum total size of the probes."""
BLOCK = 1 << 20
LEAST_READS = 8
"""The minimum number of reads for a comparison. With fewer reads, a single slow read could double the time."""


def measure(
    source: Pinned, sample: Sequence[tuple[str, int]], folder: int, room_bytes: int | None, clock: Clock
) -> Speed:
    """Read a part of the source, then write and read probes; return the speeds in bytes per second.

    sample: files of the source, as pairs of path and size in bytes. folder: the descriptor of the target folder.
    room_bytes: its free space; None if unknown. A speed is None when it cannot be measured.
    """
    buffer = mmap.mmap(-1, BLOCK)
    try:
        seconds, sizes, direct = _read_sample(source, sample, clock, buffer)
        room = PROBE_BYTES if room_bytes is None else min(PROBE_BYTES, room_bytes)
        write_rate, read_rate = _probe(folder, room, sizes, clock, buffer)
    finally:
        buffer.close()
    reads = sum(-(-size // BLOCK) for size in sizes)
    too_small = 0 < reads < LEAST_READS
    return Speed(_rate(sum(sizes), seconds), write_rate, read_rate, len(sizes), sum(sizes), direct, too_small)


def _rate(amount: int, seconds: float) -> float | None:
    return amount / seconds if amount and seconds > 0 else None


def _read_sample(
    source: Pinned, sample: Sequence[tuple[str, int]], clock: Clock, buffer: mmap.mmap
) -> tuple[float, list[int], bool]:
    """Read the sample; return the seconds, the bytes read of each file, and whether all reads bypassed the page cache.

    The seconds are those of the reads alone. A file without direct I/O is evicted from the page cache first.
    """
    spent_ns = 0
    sizes: list[int] = []
    all_direct = True
    start_ns = clock.monotonic_ns()
    for path, size in sample:
        if sum(sizes) >= SAMPLE_BYTES or clock.monotonic_ns() - start_ns > MEASUREMENT_S * 1e9:
            break
        if not size:
            continue
        try:
            handle, direct = open_below(source, path, direct=True)
        except OSError:
            continue
        try:
            if not direct:
                write_out(handle)
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            read_start_ns = clock.monotonic_ns()
            read_bytes = _read(handle, min(size, MOST_BYTES_PER_FILE), buffer, clock, start_ns)
            spent_ns += clock.monotonic_ns() - read_start_ns
            if read_bytes:
                sizes.append(read_bytes)
            all_direct = all_direct and direct
        except OSError:
            continue
        finally:
            os.close(handle)
    return spent_ns / 1e9, sizes, all_direct and bool(sizes)


def _read(handle: int, size: int, buffer: mmap.mmap, clock: Clock, start_ns: int) -> int:
    done = 0
    while done < size and clock.monotonic_ns() - start_ns <= MEASUREMENT_S * 1e9:
        read_bytes = os.preadv(handle, [buffer], done)
        if not read_bytes:
            break
        done += read_bytes
    return min(done, size)


def _probe(
    folder: int, room: int, sizes: Sequence[int], clock: Clock, buffer: mmap.mmap
) -> tuple[float | None, float | None]:
    """Return the rates of writing the probes and of reading them back, in bytes per second.

    They are None if no probe fits, or after an OSError.
    """
    buffer[:] = Random(2).randbytes(BLOCK)  # zeros would be compressed or stored as a hole
    probes: list[tuple[int, int, bool]] = []
    start_ns, written = clock.monotonic_ns(), 0
    try:
        for size in sizes:
            # Direct I/O needs whole blocks.
            size += -size % ALIGN
            if written + size > room or clock.monotonic_ns() - start_ns > MEASUREMENT_S * 1e9:
                break
            handle, direct = open_direct(".", os.O_RDWR | os.O_TMPFILE, folder)
            probes.append((handle, size, direct))
            written += _write(handle, size, buffer)
        for handle, _, _ in probes:
            os.fdatasync(handle)
        write = _rate(written, (clock.monotonic_ns() - start_ns) / 1e9)
        return write, _read_back(probes, clock, buffer)
    except OSError:
        return None, None
    finally:
        for handle, _, _ in probes:
            os.close(handle)


def _write(handle: int, size: int, buffer: mmap.mmap) -> int:
    done = 0
    view = memoryview(buffer)
    try:
        while done < size:
            with view[: min(BLOCK, size - done)] as part:
                done += os.pwritev(handle, [part], done)
    finally:
        view.release()
    return done


def _read_back(probes: Sequence[tuple[int, int, bool]], clock: Clock, buffer: mmap.mmap) -> float | None:
    shuffled = list(probes)
    Random(3).shuffle(shuffled)
    start_ns, spent_ns, done = clock.monotonic_ns(), 0, 0
    for handle, size, direct in shuffled:
        if clock.monotonic_ns() - start_ns > MEASUREMENT_S * 1e9:
            break
        if not direct:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        read_start_ns = clock.monotonic_ns()
        done += _read(handle, size, buffer, clock, start_ns)
        spent_ns += clock.monotonic_ns() - read_start_ns
    return _rate(done, spent_ns / 1e9)
