"""Memory and page cache from kept descriptors of /proc/meminfo and /proc/vmstat."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from itertools import compress
from operator import itemgetter, ne

from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.root import KeptFile, Root
from iotop_ai.model.memory import MemoryState

_DIRECT_SCANS = (b"pgscan_direct_dma", b"pgscan_direct_dma32", b"pgscan_direct_normal", b"pgscan_direct_movable")


# The record's fields in their order; between the three rows stand those that kernels count differently.
_LEVELS = tuple(
    b"MemTotal MemAvailable MemFree Cached Buffers SReclaimable Dirty Writeback SwapTotal SwapFree Shmem".split()
)
_COUNTS = tuple(b"workingset_refault_anon pgmajfault pswpin pswpout pgpgin pgpgout nr_dirtied nr_written".split())
_LAST = tuple(b"oom_kill drop_pagecache drop_slab nr_dirty_threshold nr_dirty_background_threshold".split())
_MEMINFO_NAMES = frozenset(_LEVELS)
_VMSTAT_NAMES = frozenset(
    (b"workingset_refault", b"workingset_refault_file", b"pgscan_direct", *_COUNTS, *_LAST, *_DIRECT_SCANS)
)


def _in_state(name: bytes) -> bool:
    """Whether a name of /proc/vmstat is in the record."""
    return name in _VMSTAT_NAMES or name.startswith(b"allocstall")


def parse_meminfo(raw: bytes) -> dict[bytes, int]:
    """Name to bytes of every line in kB of /proc/meminfo; lines that count pages (HugePages_*) are left out.

    ``MemTotal:       24654564 kB``
    """
    found: dict[bytes, int] = {}
    for line in raw.splitlines():
        name, _, rest = line.partition(b":")
        words = rest.split()
        if len(words) == 2 and words[1] == b"kB" and words[0].isdigit() and name.replace(b"_", b"").isalnum():
            found[name] = int(words[0]) * 1024
    return found


def parse_vmstat(raw: bytes) -> dict[bytes, int]:
    """Name to count of /proc/vmstat; lines that are no "name number" are left out.

    ``workingset_refault_file 122950``
    """
    words = raw.split()
    try:
        return dict(zip(words[::2], map(int, words[1::2]), strict=True))
    except ValueError:
        pairs = (line.split() for line in raw.splitlines())
        return {p[0]: int(p[1]) for p in pairs if len(p) == 2 and p[1].isdigit()}


def memory_state(meminfo: Mapping[bytes, int], vmstat: Mapping[bytes, int], page_bytes: int) -> MemoryState:
    """The record of both files; a name that this kernel does not print is None.

    Before 5.9 ``workingset_refault`` counts file pages only; before 4.13 ``allocstall`` and before 4.8
    ``pgscan_direct_*`` are by zone.
    """
    count = vmstat.get
    file_refaults = count(b"workingset_refault_file", count(b"workingset_refault"))
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


class Places:
    """The figures of a file that are wanted, found again where they stood: its lines keep their order while a kernel
    runs, so that of two hundred only these are looked at, and of these only those that changed.

    parse: reads a whole file; wanted: whether a name is; end: what stands behind a name; unit: what stands behind a
    figure; factor: of ``parse``.
    """

    def __init__(
        self,
        parse: Callable[[bytes], Mapping[bytes, int]],
        wanted: Callable[[bytes], bool],
        end: bytes = b" ",
        unit: bytes = b"",
        factor: int = 1,
    ) -> None:
        self._parse = parse
        self._wanted = wanted
        self._end = end
        self._unit = unit
        self._factor = factor
        self._count = -1
        self._lines: tuple[bytes, ...] = ()
        self._found: dict[bytes, int] = {}
        self._of_file = itemgetter(0, 1)

    def of(self, raw: bytes) -> Mapping[bytes, int]:
        """Name to figure of those that are wanted and there, in the file's order."""
        lines = raw.split(b"\n")
        if len(lines) == self._count:
            now = self._of_file(lines)
            found = dict(self._found)
            end, unit, factor = self._end, self._unit, self._factor
            for name, line in compress(zip(found, now, strict=True), map(ne, now, self._lines)):
                head, _, number = line.partition(end)
                if head != name or line[len(line) - len(unit) :] != unit:
                    break
                try:
                    found[name] = int(number[: len(number) - len(unit)]) * factor
                except ValueError:
                    break
            else:
                self._found, self._lines = found, now
                return found
        found = {name: number for name, number in self._parse(raw).items() if self._wanted(name)}
        self._learn(lines, found)
        return found

    def _learn(self, lines: list[bytes], found: Mapping[bytes, int]) -> None:
        """Remember the places, unless the lines do not say what ``parse`` does."""
        at = {line.partition(self._end)[0]: i for i, line in enumerate(lines)}
        places = [at.get(name, 0) for name in found]
        known = len(found) > 1 and all(
            lines[i].partition(self._end)[2].strip() == b"%d%s" % (number // self._factor, self._unit)
            for i, number in zip(places, found.values(), strict=True)
        )
        self._count = len(lines) if known else -1
        if known:
            self._of_file = itemgetter(*places)
            self._found, self._lines = dict(found), self._of_file(lines)


class MemoryCollector:
    """Levels of /proc/meminfo and counters of /proc/vmstat at one moment."""

    field = "memory"
    every_s = 0.0

    def __init__(self, root: Root, clock: Clock) -> None:
        self._root = root
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._in_meminfo = Places(parse_meminfo, _MEMINFO_NAMES.__contains__, b":", b" kB", 1024)
        self._in_vmstat = Places(parse_vmstat, _in_state)
        self._meminfo: KeptFile | None = None
        self._vmstat: KeptFile | None = None

    def read(self) -> MemoryState:
        """Both files; without /proc/vmstat its fields are None. Raises OSError without /proc/meminfo."""
        if self._meminfo is None:
            self._meminfo = self._root.keep("proc/meminfo")
        meminfo = self._in_meminfo.of(self._meminfo.read())
        try:
            if self._vmstat is None:
                self._vmstat = self._root.keep("proc/vmstat")
            vmstat = self._in_vmstat.of(self._vmstat.read())
        except OSError:
            vmstat = {}
        return memory_state(meminfo, vmstat, self._page_bytes)

    def close(self) -> None:
        """Give the descriptors back."""
        for file in (self._meminfo, self._vmstat):
            if file is not None:
                file.close()
        self._meminfo = self._vmstat = None
