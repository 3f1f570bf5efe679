"""The kernel's log from now on: /dev/kmsg, a record a read, without ever waiting for one.

Source: https://docs.kernel.org/admin-guide/abi-testing.html (/dev/kmsg). It needs CAP_SYSLOG where
kernel.dmesg_restrict is 1.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections import Counter

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.kernel_parse import IO_ERROR, KERNEL, TIMEOUT, Told, parse_record, told
from iotop_ai.collectors.root import Root
from iotop_ai.model.kernel_log import DeviceErrors, KernelLog
from iotop_ai.model.reading import Status

PATH = "dev/kmsg"
_LARGEST = 1 << 14
"""More than a record with its KEY=value lines takes (8 KiB); a smaller buffer is refused with EINVAL."""
_MOST = 2000
"""Records read in one tick; the rest of a flood waits for the next."""
_MOST_TOLD = 8
"""Lines told of one tick and kind; the rest is counted."""
_MOST_DEVICES = 256


class KernelLogCollector:
    """Keeps its descriptor; the first read goes to the end of the log, so that what is old is never told as new.

    Only what the kernel itself wrote is believed: anything may write to the log in the name of a program.
    """

    field = "kernel"
    every_s = 0.0

    def __init__(self, root: Root, clock: Clock) -> None:
        self._root = root
        self._clock = clock
        self._fd: int | None = None
        self._lack: Unavailable | None = None
        self._errors: dict[str, DeviceErrors] = {}
        self._log = KernelLog()
        self._found: list[Told] = []

    def read(self) -> KernelLog:
        """The counts so far. Raises Unavailable where the log cannot be read, which is asked once."""
        if self._lack is not None:
            raise self._lack
        try:
            if self._fd is None:
                self._fd = self._root.follow(PATH)
            found, lost = self._new(self._fd)
        except OSError as error:
            self.close()
            self._lack = self._why(error)
            raise self._lack from None
        if found or lost:
            self._take(found, lost)
        return self._log

    def events(self) -> list[Told]:
        """What was told since the last call, oldest first; of one kind and device one, with how many more."""
        if not self._found:
            return []
        found, self._found = self._found, []
        same = Counter((one.kind, one.subject, one.pid) for one in found)
        kinds: Counter[str] = Counter()
        out = []
        for one in found:
            more = same.pop((one.kind, one.subject, one.pid), 0) - 1
            if more < 0:
                continue
            kinds[one.kind] += 1
            if kinds[one.kind] <= _MOST_TOLD:
                out.append(one._replace(text=f"{one.text} (and {more} more)") if more else one)
        return out

    def _new(self, fd: int) -> tuple[list[Told], int]:
        found: list[Told] = []
        lost = 0
        for _ in range(_MOST):
            try:
                raw = os.read(fd, _LARGEST)
            except BlockingIOError:
                break
            except BrokenPipeError:  # records were overwritten before they were read; the next read goes on
                lost += 1
                continue
            if not raw:
                break
            record = parse_record(raw)
            one = None if record is None or record.facility != KERNEL else told(record.text)
            if one is not None:
                found.append(one)
        return found, lost

    def _take(self, found: list[Told], lost: int) -> None:
        now = self._clock.monotonic_ns()
        for one in found:
            known = self._errors.get(one.subject)
            if one.kind in (IO_ERROR, TIMEOUT) and (known is not None or len(self._errors) < _MOST_DEVICES):
                self._errors[one.subject] = DeviceErrors((known.lines if known else 0) + 1, now, one.what)
        self._found += found
        self._log = KernelLog(dict(self._errors), self._log.lost + lost)

    def _why(self, error: OSError) -> Unavailable:
        if error.errno in (errno.EACCES, errno.EPERM):
            restricted = self._root.text_or("proc/sys/kernel/dmesg_restrict") == "1"
            remedy = "run as root, or: sudo sysctl kernel.dmesg_restrict=0" if restricted else "run as root"
            return Unavailable(Status.DENIED, "the kernel's log may not be read", remedy)
        if error.errno in (errno.ENOENT, errno.ENXIO, errno.ENODEV):
            return Unavailable(Status.ABSENT, "there is no /dev/kmsg here (a container has none)")
        return Unavailable(Status.FAILED, f"/dev/kmsg: {error.strerror or error}")

    def close(self) -> None:
        """Give the descriptor back."""
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.close(self._fd)
            self._fd = None
