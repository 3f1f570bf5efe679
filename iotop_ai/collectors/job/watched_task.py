"""The files of one thread that the sampler keeps open and reads."""

from __future__ import annotations

import os

from iotop_ai.collectors.io.root import KeptFile, Root
from iotop_ai.collectors.process.descriptors import STAT_SIZE, open_kept
from iotop_ai.model.job.task_states import COUNTED_WAIT_STATES
from iotop_ai.model.process.records import ProcessKey

WCHAN_SIZE = 64
SCHEDSTAT_SIZE = 128
STATE_SIZE = 128
"""The number of bytes of stat that certainly contain the state, which follows a name of at most 64 bytes."""
_PAGE = os.sysconf("SC_PAGE_SIZE")
WCHAN, STAT, SCHEDSTAT = range(3)
"""The indexes of these files in ``WatchedTask.files``."""


class WatchedTask:
    """A thread that is sampled: its open files, its counts by wait state, and the last contents of its files.

    key: the process of the thread. times: (ns on a CPU, ns runnable without a CPU). rss_bytes: the resident memory of
    the process. A time or rss_bytes is None before it is read and when it cannot be read.
    """

    __slots__ = ("counts", "ended", "files", "key", "last_raws", "rss_bytes", "tid", "times")

    def __init__(self, root: Root, key: ProcessKey, tid: int = 0) -> None:
        """Open the files of a thread; tid 0 stands for the main thread of the process."""
        self.tid = tid or key.pid
        folder = f"proc/{key.pid}/task/{self.tid}"
        names = [("wchan", WCHAN_SIZE), ("stat", STAT_SIZE)]
        if self.tid == key.pid:
            names.append(("schedstat", SCHEDSTAT_SIZE))
        self.files = [open_kept(root, f"{folder}/{name}", size) for name, size in names]
        self.key = key
        self.counts = [0] * COUNTED_WAIT_STATES
        self.ended = not isinstance(self.files[STAT], KeptFile)
        self.last_raws: list[bytes | OSError] = [b"", b""]
        """The contents of schedstat and of stat at the last ``store``."""
        self.times: tuple[int | None, int | None] = (None, None)
        self.rss_bytes: int | None = None

    def fd(self, index: int) -> int:
        """Return the descriptor of the file WCHAN, STAT or, for a main thread only, SCHEDSTAT; -1 if it is not open."""
        file = self.files[index]
        return file.fd if isinstance(file, KeptFile) else -1

    def close(self) -> None:
        """Close the files."""
        for file in self.files:
            if isinstance(file, KeptFile):
                file.close()

    def store(self, schedstat: bytes | OSError, stat: bytes | OSError) -> None:
        """Store the values of schedstat (``3146527 14510 27``) and of stat, where field 24 is the resident pages."""
        if schedstat != self.last_raws[0]:
            run, wait, *_ = [*([] if isinstance(schedstat, OSError) else schedstat.split()), b"", b""]
            self.times = _number(run), _number(wait)
        if stat != self.last_raws[1]:
            pages = _number((fields_after_name(stat)[21:22] or [b""])[0])
            self.rss_bytes = None if pages is None else pages * _PAGE
        self.last_raws = [schedstat, stat]


def fields_after_name(stat: bytes | OSError) -> list[bytes]:
    """Return the fields of stat from the third field on; [] when stat could not be read."""
    return [] if isinstance(stat, OSError) else stat[stat.rfind(b")") + 1 :].split()


def _number(field: bytes) -> int | None:
    return int(field) if field.isdigit() else None
