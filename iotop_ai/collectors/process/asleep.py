"""Finds the processes that have not run since their last reading, so that their io and stat need not be read again.

On a usual machine, most processes sleep for minutes. /proc/PID/schedstat shows it, and the kernel formats it in two
thirds of the time of io, and in less than half of that of stat. It has the CPU time of the main thread and the
number of times at which the thread began to run; the second number grows each time (kernel/sched/stats.h,
sched_info_arrive). A process with one thread that has not run cannot have read, written, used CPU time or started a
thread.

Three fields of a sleeping process can still change. Its parent changes when the parent ends, its resident memory when
the kernel needs pages, and its state when the freezer of cgroup v1 stops it. Its stat is read again after its parent
has ended, and once in ``REREAD_TICKS`` ticks.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from itertools import compress
from operator import eq, not_

from iotop_ai.collectors.io.root import KeptFile, Root
from iotop_ai.collectors.process.descriptors import ENDED, IO_SIZE, ProcessEntry, read_kept
from iotop_ai.collectors.process.sweep import READ_BATCH, DescriptorBudget
from iotop_ai.model.process.records import ProcessKey, ProcessStat

SCHEDSTAT_SIZE = 64
"""The size of the buffer for /proc/PID/schedstat, in bytes: three numbers of 20 digits fit."""
REREAD_TICKS = 20
"""The number of ticks in which the stat of each sleeping process is read once."""
_SHARE = 15 / 16
"""The part of the descriptors that may be in use when a schedstat is opened."""
_NOT_COUNTED = b"0 0 0\n"
"""The content for a process that has never run, and for every process if the kernel does not count."""


class SleepCheck:
    """Sets ``asleep`` of each entry: whether its process has not run since its io and stat were last read.

    A process is followed in three steps, in three ticks:

    1. ``probe`` reads its schedstat. After it, the same tick reads its stat, which must show one sleeping thread.
    2. The next tick reads its io.
    3. From then on, ``update`` reads the schedstat. While it is the one of step 1, the process has not run since.

    In this order, no thread can have written after the io was read. The process's next run ends the following.
    """

    def __init__(self, root: Root, budget: DescriptorBudget) -> None:
        self._root = root
        self._budget = budget
        self.enabled = root.owns_devices
        """Whether processes are followed. In a saved copy of /proc, the files need not fit together."""
        self.reapers: set[int] = set()
        """The PIDs of the processes whose stat shows in this tick that they have reaped a child."""
        self._files: dict[ProcessEntry, KeptFile] = {}
        self._probed: list[tuple[ProcessEntry, bytes]] = []
        self._read_next: list[tuple[ProcessEntry, bytes]] = []
        """The entries of step 1 and of step 2, with their schedstat of step 1."""
        self._followed: list[tuple[ProcessEntry, KeptFile]] = []
        self._raws: list[bytes] = []
        self._ppids: list[int] = []
        """The entries of step 3 with their files, their schedstat of step 1, and the PIDs of their parents."""

    def probe(self, entries: Iterable[ProcessEntry], stat: Mapping[ProcessKey, ProcessStat]) -> None:
        """Read the schedstat of the entries that may be asleep, before their stat is read. stat: their last records."""
        if not self.enabled:
            return
        pending = {entry for entry, _ in self._read_next}
        for entry in entries:
            if entry.asleep or entry in pending or entry.io is None or not _sleeps_alone(stat[entry.key]):
                continue
            if entry not in self._files:
                # Some descriptors are left to new processes.
                if self._budget.in_use > self._budget.limit * _SHARE:
                    continue
                file = self._budget.keep(self._root, f"proc/{entry.key.pid}/schedstat", SCHEDSTAT_SIZE)
                if not isinstance(file, KeptFile):
                    continue
                self._files[entry] = file
            raw = read_kept([self._files[entry].fd], SCHEDSTAT_SIZE)[0]
            if isinstance(raw, bytes) and raw != _NOT_COUNTED:
                self._probed.append((entry, raw))

    def confirm(self, stat: Mapping[ProcessKey, ProcessStat], failed: Container[ProcessKey]) -> None:
        """Keep those of the probed entries whose stat, read after the probe, shows one sleeping thread.

        failed: the entries whose stat could not be read now, among others.
        """
        self._probed = [
            (entry, raw)
            for entry, raw in self._probed
            if not entry.ended and entry.key not in failed and _sleeps_alone(stat[entry.key])
        ]

    def reaped(self) -> list[ProcessEntry]:
        """Return the followed entries that have been reaped by one of the ``reapers``.

        Their schedstat was read before the io of their parent. If the parent reaped them in between, their bytes are
        already in its io, and they must not stay in the table.
        """
        followed = compress(self._followed, map(self.reapers.__contains__, self._ppids)) if self.reapers else ()
        children = [(entry, entry.io.fd) for entry, _ in followed if entry.io is not None]
        raws = read_kept([fd for _, fd in children], IO_SIZE)
        return [
            entry
            for (entry, _), raw in zip(children, raws, strict=True)
            if isinstance(raw, OSError) and raw.errno in ENDED
        ]

    def update(self, stat: Mapping[ProcessKey, ProcessStat]) -> None:
        """Read the schedstat of the followed entries, and set ``asleep`` of each. stat: their last records."""
        for entry, raw in self._read_next:
            if entry in self._files and isinstance(entry.io_raw, bytes):
                entry.asleep = True
                self._followed.append((entry, self._files[entry]))
                self._raws.append(raw)
                self._ppids.append(stat[entry.key].ppid)
        self._read_next, self._probed = self._probed, []
        self.reapers.clear()
        same: list[bool] = []
        for start in range(0, len(self._followed), READ_BATCH):
            # The file of an entry that has ended is closed: its descriptor is -1, and the read fails.
            fds = [file.fd for _, file in self._followed[start : start + READ_BATCH]]
            same += map(eq, read_kept(fds, SCHEDSTAT_SIZE), self._raws[start : start + READ_BATCH])
        if not all(same):
            for entry, _ in compress(self._followed, map(not_, same)):
                entry.asleep = False
            self._followed = list(compress(self._followed, same))
            self._raws, self._ppids = list(compress(self._raws, same)), list(compress(self._ppids, same))

    def enable(self, enabled: bool) -> None:
        """Switch the check on or off."""
        if self.enabled and not enabled:
            self.clear()
        self.enabled = enabled and self._root.owns_devices

    def forget(self, entry: ProcessEntry) -> None:
        """Close the file of an entry that has ended."""
        self._budget.give_back(self._files.pop(entry, None))

    def clear(self) -> None:
        """Follow no process, and close all files."""
        for entry, file in self._files.items():
            entry.asleep = False
            self._budget.give_back(file)
        self._files, self._followed, self._raws, self._ppids, self._probed, self._read_next = {}, [], [], [], [], []


def _sleeps_alone(stat: ProcessStat) -> bool:
    """Whether a process has one thread, and this thread does not run or wait for a CPU."""
    return stat.threads == 1 and stat.state != "R"
