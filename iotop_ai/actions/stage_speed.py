"""How fast a source reads and a target writes and reads, past the page cache, on a sample and within seconds.

The probe in the target folder has no name (O_TMPFILE), so nothing is left and nothing is deleted; it is read back in
pieces as large as the sample's files, in random order, as a loader would.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Sequence
from random import Random

from iotop_ai.actions.stage_plan import below
from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.dataset import Tree
from iotop_ai.model.stage import Speed

MOST_S = 3.0
MOST_BYTES = 256 << 20
MOST_OF_A_FILE = 32 << 20
PROBE_BYTES = 64 << 20
BLOCK = 1 << 20
_ALIGN = 4096


def measure(source: str, sample: Sequence[tuple[str, int]], folder: str, room_bytes: int | None, clock: Clock) -> Speed:
    """Read some of the source, then write and read a probe in ``folder``; what cannot be measured is None."""
    buffer = mmap.mmap(-1, BLOCK)
    try:
        seconds, amount, files, direct = _read_sample(source, sample, clock, buffer)
        piece = max(_ALIGN, min(BLOCK, amount // files if files else BLOCK))
        room = PROBE_BYTES if room_bytes is None else min(PROBE_BYTES, room_bytes)
        write, back = _probe(folder, room, piece, clock, buffer)
    finally:
        buffer.close()
    return Speed(_rate(amount, seconds), write, back, files, amount, direct)


def _rate(amount: int, seconds: float) -> float | None:
    return amount / seconds if amount and seconds > 0 else None


def _open_direct(path: str, flags: int, mode: int = 0o600) -> tuple[int, bool]:
    """A descriptor and whether it goes round the page cache. Raises OSError."""
    flags |= os.O_CLOEXEC
    try:
        return os.open(path, flags | os.O_DIRECT, mode), True
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    return os.open(path, flags, mode), False


def _read_sample(
    source: str, sample: Sequence[tuple[str, int]], clock: Clock, buffer: mmap.mmap
) -> tuple[float, int, int, bool]:
    """(seconds, bytes, files, whether all were read directly). Only the reading is timed, not the evicting."""
    amount = files = spent_ns = 0
    all_direct = True
    top = Tree(source).top
    begun = clock.monotonic_ns()
    for path, size in sample:
        if amount >= MOST_BYTES or clock.monotonic_ns() - begun > MOST_S * 1e9:
            break
        if not size:
            continue
        try:
            handle, direct = _open_direct(below(top, path), os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            if not direct:
                os.fdatasync(handle)
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            at = clock.monotonic_ns()
            amount += _read(handle, min(size, MOST_OF_A_FILE), buffer, clock, begun)
            spent_ns += clock.monotonic_ns() - at
            files += 1
            all_direct = all_direct and direct
        except OSError:
            continue
        finally:
            os.close(handle)
    return spent_ns / 1e9, amount, files, all_direct and files > 0


def _read(handle: int, size: int, buffer: mmap.mmap, clock: Clock, begun: int) -> int:
    done = 0
    while done < size and clock.monotonic_ns() - begun <= MOST_S * 1e9:
        got = os.preadv(handle, [buffer], done)
        if not got:
            break
        done += got
    return min(done, size)


def _probe(folder: str, size: int, piece: int, clock: Clock, buffer: mmap.mmap) -> tuple[float | None, float | None]:
    """(bytes per second written, read back); None where the folder takes no probe."""
    size -= size % BLOCK
    if size < BLOCK:
        return None, None
    try:
        handle, direct = _open_direct(folder, os.O_RDWR | os.O_TMPFILE)
    except OSError:
        return None, None
    try:
        buffer[:] = Random(2).randbytes(BLOCK)  # zeros would be compressed or left out
        begun = clock.monotonic_ns()
        written = 0
        while written < size and clock.monotonic_ns() - begun <= MOST_S * 1e9:
            written += os.pwritev(handle, [buffer], written)
        os.fdatasync(handle)
        write = _rate(written, (clock.monotonic_ns() - begun) / 1e9)
        if not direct:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        return write, _read_back(handle, written, piece, clock, buffer)
    except OSError:
        return None, None
    finally:
        os.close(handle)


def _read_back(handle: int, size: int, piece: int, clock: Clock, buffer: mmap.mmap) -> float | None:
    piece -= piece % _ALIGN
    starts = list(range(0, size - piece + 1, piece))
    Random(3).shuffle(starts)
    part = memoryview(buffer)[:piece]
    begun, done = clock.monotonic_ns(), 0
    try:
        for start in starts:
            if clock.monotonic_ns() - begun > MOST_S * 1e9:
                break
            done += os.preadv(handle, [part], start)
    finally:
        part.release()
    return _rate(done, (clock.monotonic_ns() - begun) / 1e9)
