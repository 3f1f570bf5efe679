"""Reads new records of the kernel log from /dev/kmsg: one record per read(), which does not block.

Source: https://docs.kernel.org/admin-guide/abi-testing.html (/dev/kmsg). The file needs CAP_SYSLOG when
kernel.dmesg_restrict is 1.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections import Counter
from collections.abc import Iterable

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine.kernel_log.device_names import AtaDisks, disk_of, nvme_at
from iotop_ai.collectors.machine.kernel_log.event import (
    ATA,
    FILESYSTEM,
    IO_ERROR,
    OOM_CGROUP,
    OOM_KILL,
    PCIE,
    XID,
    LogEvent,
)
from iotop_ai.collectors.machine.kernel_log.hardware import CABLE, MEDIUM
from iotop_ai.collectors.machine.kernel_log.parse import KERNEL, parse_line, parse_record
from iotop_ai.collectors.machine.kernel_log.replaced import ReplacedDisks
from iotop_ai.model.machine.kernel_log import DeviceErrors, KernelLog
from iotop_ai.model.reading import Status

PATH = "dev/kmsg"
_BUFFER_BYTES = 1 << 14
"""The size of the buffer for one read.

A record with its KEY=value lines takes up to 8 KiB, and a read into a buffer that is too small fails with EINVAL.
"""
_MOST_RECORDS = 2000
"""The most records that are read in one tick. Further records wait for the next tick."""
_MOST_EVENTS = 8
"""The most events of each kind that one tick returns. Further events are left out, but no Xid is."""
_RETRY_NS = 30_000_000_000
"""How long after a temporary error, such as too many open files, the log is opened again, in nanoseconds."""
_MOST_DEVICES = 256
"""The most devices whose errors are kept. A further device replaces the device whose last error is the oldest."""
_INCIDENT_NS = 2_000_000_000
"""A line that follows an error of the same device within this many nanoseconds may describe that error."""
_CAUSE_NS = 600_000_000_000
"""How long the known cause of a device's errors is kept after the last error, in nanoseconds.

Until then, an error without a cause does not replace the cause.
"""
_CHECK_NS = 10_000_000_000
"""The time between two checks of whether disks with recent errors were replaced, in nanoseconds."""
_CAUSES = {CABLE: 1, MEDIUM: 2, "protection": 2}
"""The kinds of errors that name their cause. A more serious kind has a larger number."""


class KernelLogCollector:
    """Reads the kernel log through one descriptor.

    It starts at the end of the log, so that old records are not reported as new. Only records of the kernel itself are
    used, because any program that can write to /dev/kmsg can add other records.
    """

    field = "kernel"
    every_s = 0.0

    def __init__(self, root: Root, clock: Clock) -> None:
        self._root = root
        self._clock = clock
        self._fd: int | None = None
        self._unavailable: Unavailable | None = None
        self._retry_ns = 0
        self._errors: dict[str, DeviceErrors] = {}
        self._ata_ns: dict[str, int] = {}
        """The time at which libata last reported an error of a disk in ``_errors``, by disk."""
        self._log = KernelLog()
        self._events: list[LogEvent] = []
        self._ata = AtaDisks(root)
        self._cgroups: dict[int | None, str] = {}
        """The cgroup that reached its memory limit, by the PID of the process that the kernel then kills."""
        self._replaced = ReplacedDisks(root)
        self._check_due_ns = 0
        """The time of the next check of whether disks with recent errors were replaced."""

    def read(self) -> KernelLog:
        """Return the counts so far.

        Raises Unavailable when the log cannot be read. If this user lacks the permission or the machine lacks the log,
        the log is not opened again; after any other error, it is opened again from time to time.
        """
        if self._unavailable is not None and not self._may_retry():
            # Without the reset, each raise would lengthen the traceback of this exception.
            raise self._unavailable.with_traceback(None)
        try:
            if self._fd is None:
                self._fd = self._root.follow(PATH)
                self._ata.update()
            events, lost = self._read_events(self._fd)
        except OSError as error:
            self.close()
            self._unavailable = self._unavailable_after(error)
            self._retry_ns = self._clock.monotonic_ns() + _RETRY_NS
            raise self._unavailable from None
        self._unavailable = None
        if events or lost:
            self._add_events(events, lost)
        if self._errors:
            self._check_for_replaced()
        return self._log

    def _may_retry(self) -> bool:
        """Whether it is time to open the log again after a temporary error."""
        unavailable = self._unavailable
        return (
            unavailable is not None
            and unavailable.status is Status.FAILED
            and self._clock.monotonic_ns() >= self._retry_ns
        )

    def events(self) -> list[LogEvent]:
        """Return the events since the last call, oldest first.

        Events of the same kind, device and process become one event, whose text ends with the number of further events.
        Different Xids of a GPU stay apart, and so do different recoveries that its driver asks for.
        """
        if not self._events:
            return []
        new, self._events = self._events, []
        repeats = Counter(map(_merge_key, new))
        kinds: Counter[str] = Counter()
        out = []
        for event in new:
            more = repeats.pop(_merge_key(event), 0) - 1
            if more < 0:
                continue
            kinds[event.kind] += 1
            if event.kind == XID or kinds[event.kind] <= _MOST_EVENTS:
                out.append(event._replace(text=f"{event.text} (and {more} more)") if more else event)
        return out

    def _read_events(self, fd: int) -> tuple[list[LogEvent], int]:
        """Return (the events of the new records, how often records were lost)."""
        events: list[LogEvent] = []
        lost = 0
        for _ in range(_MOST_RECORDS):
            try:
                raw = os.read(fd, _BUFFER_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:  # records were overwritten before we read them; the next read continues after them
                lost += 1
                continue
            if not raw:
                break
            record = parse_record(raw)
            event = None if record is None or record.facility != KERNEL else parse_line(record.text)
            if event is not None:
                events.append(event)
        return events, lost

    def _add_events(self, events: list[LogEvent], lost: int) -> None:
        now = self._clock.monotonic_ns()
        checked: set[str] = set()
        for event in map(self._with_device, events):
            if event.kind == OOM_CGROUP:
                self._cgroups = {event.pid: event.subject}
                continue
            if event.is_counted and event.subject not in checked:
                checked.add(event.subject)
                self._forget_replaced((event.subject,))
            self._count(event, now)
            self._events.append(event)
        self._log = KernelLog(dict(self._errors), self._log.lost + lost)

    def _check_for_replaced(self) -> None:
        """From time to time, forget the recent errors of disks that have been replaced."""
        now = self._clock.monotonic_ns()
        if now < self._check_due_ns:
            return
        self._check_due_ns = now + _CHECK_NS
        if self._forget_replaced([name for name, errors in self._errors.items() if now - errors.at_ns < _CAUSE_NS]):
            self._log = KernelLog(dict(self._errors), self._log.lost)

    def _forget_replaced(self, names: Iterable[str]) -> bool:
        """Forget the errors under names that now belong to another disk; return whether any were forgotten."""
        replaced = [name for name in names if self._replaced.is_replaced(name) and name in self._errors]
        for name in replaced:
            del self._errors[name]
            self._ata_ns.pop(name, None)
        return bool(replaced)

    def _count(self, event: LogEvent, now: int) -> None:
        """Count an error. A line that belongs to the device's previous error only corrects the cause of that error.

        For one failed command, libata writes several lines, and then the block layer writes a line with fewer details.
        """
        earlier = self._errors.get(event.subject)
        repeated = event.kind == IO_ERROR and now - self._ata_ns.get(event.subject, now - _INCIDENT_NS) < _INCIDENT_NS
        if earlier is None:
            if event.is_counted:
                if len(self._errors) >= _MOST_DEVICES:
                    del self._errors[min(self._errors, key=lambda name: self._errors[name].at_ns)]
                self._errors[event.subject] = DeviceErrors(1, now, event.what)
        elif event.is_counted and not repeated:
            cause = _cause(event.what, earlier.what) if now - earlier.at_ns < _CAUSE_NS else event.what
            self._errors[event.subject] = DeviceErrors(earlier.lines + 1, now, cause)
        elif event.what and now - earlier.at_ns < _INCIDENT_NS:
            cause = earlier.what if repeated and event.what not in _CAUSES else _cause(event.what, earlier.what)
            self._errors[event.subject] = earlier._replace(what=cause)
        if event.kind == ATA and event.subject in self._errors:
            self._ata_ns[event.subject] = now

    def _with_device(self, event: LogEvent) -> LogEvent:
        """Return the event with a name that its line lacks.

        It is the name of the disk at an ATA port or PCI address, of the disk of a partition, or of the cgroup that
        reached its limit.
        """
        if event.kind == OOM_KILL and (cgroup := self._cgroups.pop(event.pid, "")):
            return event._replace(text=f"{event.text} ({cgroup})")
        name = ""
        if event.kind == ATA:
            name = self._ata.disk(event.subject)
        elif event.kind == PCIE:
            name = nvme_at(self._root, event.subject)
        elif event.kind == FILESYSTEM and event.is_counted:
            return event._replace(subject=disk_of(self._root, event.subject))
        return event._replace(subject=name, text=f"{name}, {event.text}") if name else event

    def _unavailable_after(self, error: OSError) -> Unavailable:
        if error.errno in (errno.EACCES, errno.EPERM):
            restricted = self._root.text_or("proc/sys/kernel/dmesg_restrict") == "1"
            remedy = "run as root, or: sudo sysctl kernel.dmesg_restrict=0" if restricted else "run as root"
            return Unavailable(Status.DENIED, "the kernel's log cannot be read", remedy)
        if error.errno in (errno.ENOENT, errno.ENXIO, errno.ENODEV):
            return Unavailable(Status.ABSENT, "/dev/kmsg is missing (as in a container)")
        return Unavailable(Status.FAILED, f"/dev/kmsg: {error.strerror or error}")

    def close(self) -> None:
        """Close the descriptor."""
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.close(self._fd)
            self._fd = None


def _merge_key(event: LogEvent) -> tuple[str | int | None, ...]:
    return event.kind, event.subject, event.pid, event.number, event.recovery


def _cause(kind: str, earlier: str) -> str:
    """Return the newer kind of error, unless the earlier kind names a more serious cause."""
    return kind if _CAUSES.get(kind, 0) >= _CAUSES.get(earlier, 0) else earlier
