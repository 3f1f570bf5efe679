"""Reads the command lines of processes, without waiting long for a process whose memory map is locked.

A read of /proc/PID/cmdline waits for the lock of the memory map (fs/proc/base.c, get_mm_cmdline). A process holds that
lock while a dead file server lets it wait in mmap, munmap or a page fault, and every reader of its command line hangs
with it, as ps does. Only a process that is in state D, or has several threads, can be in that state. The others are
read directly, because handing a read over to another thread takes several times as long.
"""

from __future__ import annotations

from iotop_ai.collectors.io.process_memory import ProcessMemory
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.process.descriptors import read_once
from iotop_ai.collectors.process.parse import PF_KTHREAD, ParsedStat, parse_cmdline

_LONGEST = 1 << 15


class CommandLines:
    """Reads command lines. root: the files of the machine."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._memory = ProcessMemory(root)
        self._later: list[int] = []

    def read(self, pid: int, stat: ParsedStat, *, at_once: bool) -> tuple[str, ...] | None:
        """Return the words of a command line; () if it cannot be read. None: ``read_later`` returns it, or it waits.

        stat: the newest stat of the process. at_once: False if a read that may wait is left to ``read_later``.
        """
        if stat.flags & PF_KTHREAD:
            return ()
        if stat.record.threads == 1 and stat.record.state != "D":
            return _words(read_once(self._root, f"proc/{pid}/cmdline", _LONGEST))
        self._later.append(pid)
        return self.read_later().get(pid) if at_once else None

    def read_later(self) -> dict[int, tuple[str, ...]]:
        """Return the command lines that ``read`` has left, by PID, without those of processes that let a read wait."""
        pids, self._later = self._later, []
        raw = self._memory.read_files(pids, "cmdline", _LONGEST) if pids else {}
        return {pid: _words(content) for pid, content in raw.items() if not isinstance(content, TimeoutError)}

    def close(self) -> None:
        """End the threads, without waiting for a read."""
        self._memory.close()


def _words(raw: bytes | OSError) -> tuple[str, ...]:
    return () if isinstance(raw, OSError) else parse_cmdline(raw)
