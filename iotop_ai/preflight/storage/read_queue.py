"""Keeps many reads of one process in flight at once with the kernel's AIO, like fio's libaio.

Sources: io_setup(2), io_submit(2), io_getevents(2); include/uapi/linux/aio_abi.h of Linux 6.7 (struct iocb and struct
io_event); the numbers of the calls: arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct
from array import array
from collections.abc import Sequence

_CALLS = {"x86_64": (206, 209, 208), "aarch64": (0, 2, 4)}
"""The numbers of io_setup, io_submit and io_getevents."""
_REQUEST = struct.Struct("<QIIHhIQQqQII")
"""struct iocb: data, key, flags, opcode, priority, descriptor, buffer, bytes, offset, reserved, flags, descriptor."""
_REQUEST_WORDS, _OFFSET_WORD = _REQUEST.size // 8, 5
_EVENT_WORDS, _DATA_WORD, _RESULT_WORD = 4, 0, 2
"""struct io_event: data, request, result, second result; each has 8 bytes."""
_PREAD = 0


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


class ReadQueue:
    """Reads blocks of an open file.

    Each read in flight has a slot, from 0 to ``depth`` - 1, with its own part of the buffer. The kernel frees the queue
    when the process ends. Raises OSError, also if this kernel or this file has no asynchronous reads.
    """

    def __init__(self, handle: int, buffer: mmap.mmap, block_bytes: int, depth: int) -> None:
        numbers = _CALLS.get(os.uname().machine)
        if numbers is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        setup, self._submit_number, self._wait_number = numbers
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._call.restype = ctypes.c_long
        self._call.argtypes = (ctypes.c_long,) * 6
        self.depth = depth
        start = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
        raw = b"".join(
            _REQUEST.pack(slot, 0, 0, _PREAD, 0, handle, start + slot * block_bytes, block_bytes, 0, 0, 0, 0)
            for slot in range(depth)
        )
        self._requests = array("q", raw)
        first = self._requests.buffer_info()[0]
        self._addresses = [first + slot * _REQUEST.size for slot in range(depth)]
        self._pointers = array("q", [0] * depth)
        self._events = array("q", [0] * (depth * _EVENT_WORDS))
        self._events_address = self._events.buffer_info()[0]
        context = array("q", [0])
        _checked(self._call(setup, depth, context.buffer_info()[0], 0, 0, 0))
        self._context = context[0]

    def submit(self, slots: Sequence[int], offsets: Sequence[int]) -> None:
        """Start one read in each of these free slots, each at its offset in the file."""
        requests, pointers = self._requests, self._pointers
        for at, slot in enumerate(slots):
            requests[slot * _REQUEST_WORDS + _OFFSET_WORD] = offsets[at]
            pointers[at] = self._addresses[slot]
        done = 0
        while done < len(slots):
            address = pointers.buffer_info()[0] + done * pointers.itemsize
            done += _checked(self._call(self._submit_number, self._context, len(slots) - done, address, 0, 0))

    def wait(self) -> tuple[list[int], int]:
        """Wait for at least one read; return the slots whose reads have ended, now free, and the bytes of those reads.

        Raises OSError if a read failed or the file ended early.
        """
        events = self._events
        arguments = (self._wait_number, self._context, 1, self.depth, self._events_address, 0)
        while (count := self._call(*arguments)) < 0 and ctypes.get_errno() == errno.EINTR:
            pass  # the process was stopped and continued
        end = _checked(count) * _EVENT_WORDS
        results = events[_RESULT_WORD:end:_EVENT_WORDS]
        lowest = min(results)
        if lowest <= 0:
            raise OSError(-lowest or errno.EIO, os.strerror(-lowest or errno.EIO))
        return events[_DATA_WORD:end:_EVENT_WORDS].tolist(), sum(results)
