"""The loops of a reader: operations one at a time (whole or in pieces), or many reads in flight at once.

On a fast disk, the time between two reads matters, so the loops look up attributes once, and rarely publish their
figures to the parent process.
"""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Callable, Generator
from contextlib import closing
from itertools import islice
from typing import NamedTuple

from iotop_ai.preflight.storage.read_queue import ReadQueue

_PUBLISH_EVERY_NS = 5_000_000
"""The minimum time between two calls of a reader's Publish, the function that passes its figures to the parent."""

Operation = Callable[[mmap.mmap, int], int]
"""A function that does the n-th operation of the phase. Its arguments are a buffer of block_bytes, and n.

It returns the number of bytes, or NOTHING for an operation that does not count. Raises OSError.

No two readers get the same n: with d readers, reader r does the operations r, r + d, r + 2 d, ...
"""
NOTHING = -1
Publish = Callable[[int, int, int], None]
"""A function that is called with a reader's operations and bytes so far, and the end of its last operation.

During an operation in pieces, the bytes include its pieces so far, and the end is that of the last piece.
"""


class InPieces(NamedTuple):
    """An operation of several reads or writes, which may take long.

    pieces: does the n-th operation, with the arguments of an Operation. After each read or write, it yields the bytes
    of that read or write, and the bytes that are left to read, which are 0 for an operation that is never ended early.
    It yields nothing for an operation that does not count. Raises OSError.
    """

    pieces: Callable[[mmap.mmap, int], Generator[tuple[int, int], None, None]]


class ManyInFlight(NamedTuple):
    """Reads of an open file. Each reader keeps several of them in flight.

    offset_of: returns the offset of the n-th read. readers: the number of readers, at most the phase's depth.
    """

    handle: int
    offset_of: Callable[[int], int]
    readers: int = 1


class Part(NamedTuple):
    """A reader's part of the phase: the operations ``first``, ``first + step``, ... below ``most_ops``.

    The reader starts no operation after ``end_ns`` or after ``most_bytes``, except its first ones, which always start.
    """

    first: int
    step: int
    end_ns: int
    most_bytes: int
    most_ops: int


def repeat(operation: Operation, buffer: mmap.mmap, part: Part, now: Callable[[], int], publish: Publish) -> array[int]:
    """Repeat the operation; return how long each one took, in nanoseconds. Raises OSError."""
    first, step, end_ns, most_bytes, most_ops = part
    times, size, ended_ns, due_ns = array("q"), 0, 0, 0
    add_time = times.append
    for number in range(first, most_ops, step):
        at_ns = now()
        if size >= most_bytes or (number > first and at_ns >= end_ns):
            break
        op_bytes = operation(buffer, number)
        ended_ns = now()
        if op_bytes != NOTHING:
            size += op_bytes
            add_time(ended_ns - at_ns)
        if ended_ns >= due_ns:
            publish(len(times), size, ended_ns)
            due_ns = ended_ns + _PUBLISH_EVERY_NS
    publish(len(times), size, ended_ns)
    return times


def repeat_in_pieces(
    work: InPieces,
    buffer: mmap.mmap,
    on_cut: Callable[[int], None],
    part: Part,
    now: Callable[[], int],
    publish: Publish,
) -> array[int]:
    """Do as ``repeat`` does, but publish the figures within an operation too, and end the last operation at ``end_ns``.

    on_cut: called with the bytes that were left to read if an operation is ended early.
    """
    first, step, end_ns, most_bytes, most_ops = part
    times, size, ended_ns, due_ns = array("q"), 0, 0, 0
    for number in range(first, most_ops, step):
        at_ns = now()
        if size >= most_bytes or (number > first and at_ns >= end_ns):
            break
        counts = False
        with closing(work.pieces(buffer, number)) as pieces:
            for piece_bytes, left_bytes in pieces:
                counts = True
                size += piece_bytes
                ended_ns = now()
                if ended_ns >= due_ns:
                    publish(len(times), size, ended_ns)
                    due_ns = ended_ns + _PUBLISH_EVERY_NS
                if left_bytes and ended_ns >= end_ns:
                    on_cut(left_bytes)
                    break
        ended_ns = now()
        if counts:
            times.append(ended_ns - at_ns)
        if ended_ns >= due_ns:
            publish(len(times), size, ended_ns)
            due_ns = ended_ns + _PUBLISH_EVERY_NS
    publish(len(times), size, ended_ns)
    return times


def keep_in_flight(
    reads: ManyInFlight, queue: ReadQueue, part: Part, now: Callable[[], int], publish: Publish
) -> array[int]:
    """Keep the queue full of reads; return how long each read took, in nanoseconds. Raises OSError."""
    offset_of, end_ns, most_bytes = reads.offset_of, part.end_ns, part.most_bytes
    times, size, due_ns = array("q"), 0, 0
    add_time = times.append
    numbers = iter(range(part.first, part.most_ops, part.step))
    offsets = [offset_of(number) for number in islice(numbers, queue.depth)]
    in_flight = len(offsets)
    start_ns = [now()] * in_flight
    queue.submit(range(in_flight), offsets)
    while in_flight:
        slots, read_bytes = queue.wait()
        at_ns = now()
        size += read_bytes
        for slot in slots:
            add_time(at_ns - start_ns[slot])
            start_ns[slot] = at_ns
        in_flight -= len(slots)
        if at_ns < end_ns and size < most_bytes:
            offsets = [offset_of(number) for number in islice(numbers, len(slots))]
            queue.submit(slots[: len(offsets)], offsets)
            in_flight += len(offsets)
        if at_ns >= due_ns or not in_flight:
            publish(len(times), size, at_ns)
            due_ns = at_ns + _PUBLISH_EVERY_NS
    return times
