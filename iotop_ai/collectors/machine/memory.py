"""Reads the state of memory and the page cache from /proc/meminfo and /proc/vmstat, which are kept open."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from iotop_ai.collectors.io.root import KeptFile, Root
from iotop_ai.lazy.regex import pattern
from iotop_ai.model.machine.memory import MemoryState

_DIRECT_SCANS = (b"pgscan_direct_dma", b"pgscan_direct_dma32", b"pgscan_direct_normal", b"pgscan_direct_movable")
# The names in the files, in the order of MemoryState's fields. MemoryState has more fields before and after _COUNTS;
# their names in the files depend on the kernel's version, so ``memory_state`` finds them.
_LEVELS = tuple(
    b"MemTotal MemAvailable MemFree Cached Buffers SReclaimable Dirty Writeback SwapTotal SwapFree Shmem".split()
)
_COUNTS = tuple(b"workingset_refault_anon pgmajfault pswpin pswpout pgpgin pgpgout nr_dirtied nr_written".split())
_LAST = tuple(b"oom_kill drop_pagecache drop_slab nr_dirty_threshold nr_dirty_background_threshold".split())
_FILE_REFAULTS = (b"workingset_refault_file", b"workingset_refault")
_LEVEL = pattern(rb"^(" + b"|".join(_LEVELS) + rb"):[ \t]+(\d+)[ \t]+kB[ \t\r]*$", re.MULTILINE)
_COUNT = pattern(
    rb"^("
    + b"|".join((*_COUNTS, *_LAST, *_FILE_REFAULTS, b"pgscan_direct", *_DIRECT_SCANS))
    + rb"|allocstall\w*) (\d+)$",
    re.MULTILINE,
)
"""A line whose value is used. Converting only these lines, of 190, halves the time."""


def parse_meminfo(raw: bytes) -> dict[bytes, int]:
    """Return the bytes by name, from the lines of /proc/meminfo that are used: ``MemTotal:       24654564 kB``."""
    return {name: int(number) * 1024 for name, number in _LEVEL.findall(raw)}


def parse_vmstat(raw: bytes) -> dict[bytes, int]:
    """Return the counts by name from the lines of /proc/vmstat that are used: ``workingset_refault_file 122950``."""
    return {name: int(number) for name, number in _COUNT.findall(raw)}


def memory_state(meminfo: Mapping[bytes, int], vmstat: Mapping[bytes, int], page_bytes: int) -> MemoryState:
    """Make the record from the values of both files. A value that this kernel does not print is None.

    Before Linux 5.9, ``workingset_refault`` counts only file pages. Each memory zone may have its own
    ``allocstall``, and before 4.8 its own ``pgscan_direct``; they are summed.
    """
    count = vmstat.get
    file_refaults = next((vmstat[name] for name in _FILE_REFAULTS if name in vmstat), None)
    stalls = [vmstat[name] for name in vmstat if name[:10] == b"allocstall"]
    scanned = count(b"pgscan_direct")
    if scanned is None:
        by_zone = [vmstat[name] for name in _DIRECT_SCANS if name in vmstat]
        scanned = sum(by_zone) if by_zone else None
    return MemoryState._make(
        (
            *map(meminfo.get, _LEVELS),
            file_refaults,
            *map(count, _COUNTS),
            sum(stalls) if stalls else None,
            scanned,
            *map(count, _LAST),
            page_bytes,
        )
    )


class MemoryCollector:
    """Reads the levels of /proc/meminfo and the counters of /proc/vmstat in the same tick."""

    field = "memory"
    every_s = 0.0

    def __init__(self, root: Root) -> None:
        self._root = root
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._meminfo: KeptFile | None = None
        self._vmstat: KeptFile | None = None

    def read(self) -> MemoryState:
        """Read both files. Raises OSError without /proc/meminfo. Without /proc/vmstat, the counters are None."""
        if self._meminfo is None:
            self._meminfo = self._root.keep("proc/meminfo")
        meminfo = parse_meminfo(self._meminfo.read_record())
        try:
            if self._vmstat is None:
                self._vmstat = self._root.keep("proc/vmstat")
            vmstat = parse_vmstat(self._vmstat.read())
        except OSError:
            vmstat = {}
        return memory_state(meminfo, vmstat, self._page_bytes)

    def close(self) -> None:
        """Close the files that are kept open."""
        for file in (self._meminfo, self._vmstat):
            if file is not None:
                file.close()
        self._meminfo = self._vmstat = None
